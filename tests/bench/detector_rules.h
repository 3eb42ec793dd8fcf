/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tables of docs/monitor.md have in common: rules for step times that people use, beside
 * the monitor's detector, and what a watch says of a run.
 */
#ifndef TESTS_DETECTOR_RULES_H
#define TESTS_DETECTOR_RULES_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/detect/shift.h"
#include "monitor/monitor.h"
#include "tests/unit/monitor/mon_job.h"

#define BEFORE   300 /* steps before a change */
#define PATIENCE 100 /* steps after it; a change that is found later is missed */
#define WINDOW   128

/* What the simple rules compare with: the newest values, oldest first. */
struct past {
    double value[WINDOW];
    size_t count;
    double centre, sd;   /* of the window, robust */
    double first_centre; /* of the first window */
    int high;            /* of the last five, as bits */
    double last[9];
    size_t last_count;
    int64_t quiet; /* steps for which a rule that fired stays silent */
};

struct rule {
    const char *name;
    bool (*fires)(struct past *past, double value);
};

static inline bool fixed(struct past *past, double value)
{
    return value > 1.10 * past->first_centre;
}
static inline bool one_step(struct past *past, double value)
{
    return value > past->centre + 3 * past->sd;
}
static inline bool median_of_nine(struct past *past, double value)
{
    double sorted[9];
    past->last[past->last_count++ % 9] = value;
    if (past->last_count < 9)
        return false;
    memcpy(sorted, past->last, sizeof sorted);
    return an_quantile_of(sorted, 9, 0.5) > 1.025 * past->centre;
}
static inline bool four_of_five(struct past *past, double value)
{
    past->high = (past->high << 1 | (value > past->centre + 2 * past->sd)) & 31;
    return __builtin_popcount((unsigned)past->high) >= 4;
}

static const struct rule rules[] = {{"+10 % on the first median", fixed},
                                    {"one step above 3 sd", one_step},
                                    {"median of 9 above +2.5 %", median_of_nine},
                                    {"4 of 5 above 2 sd", four_of_five},
                                    {"tacho", NULL}};

static inline void past_learn(struct past *past, double value)
{
    double sorted[WINDOW], work[WINDOW];
    past->value[past->count++ % WINDOW] = value;
    if (past->count < WINDOW || past->count % 4)
        return;
    memcpy(sorted, past->value, sizeof sorted);
    past->centre = an_quantile_of(sorted, WINDOW, 0.5);
    past->sd = 1.4826 * an_mad(sorted, WINDOW, past->centre, work);
    if (past->first_centre <= 0)
        past->first_centre = past->centre;
}

/* A simple rule that fired is silent for as long as its window needs to learn the new level. */
static inline bool past_fires(const struct rule *rule, struct past *past, double value)
{
    bool fires = past->count >= WINDOW && rule->fires(past, value) && past->quiet == 0;
    past_learn(past, value);
    past->quiet = fires ? WINDOW : past->quiet - (past->quiet > 0);
    return fires;
}

struct detector {
    const struct rule *rule;
    struct past past;
    struct mon_shift shift;
};

static inline bool detector_fires(struct detector *detector, double value, int64_t step)
{
    struct mon_shift_found found;
    if (detector->rule->fires)
        return past_fires(detector->rule, &detector->past, value);
    return mon_shift_add(&detector->shift, value, step, &found) && found.up;
}

static inline struct detector detector_begin(const struct rule *rule)
{
    struct detector detector = {.rule = rule};
    mon_shift_init(&detector.shift, &mon_shift_time, true);
    return detector;
}

/* ---- a watch --------------------------------------------------------------------------------- */

/* All that a watch says of a run: by code. loss: those of the loss that are no spikes. */
struct said {
    int64_t pages, notices, step_time, spikes, loss, other;
};

static inline void on_said(void *ctx, const struct mon_notice *notice)
{
    struct said *said = ctx;
    const char *code = notice->alert->symptom.code;
    if (notice->event != MON_RESOLVED && notice->alert->symptom.severity == MON_PAGE) {
        said->pages++;
        printf("\npage: %s: %s\n", code, notice->alert->symptom.text);
    }
    if (notice->event != MON_FIRING)
        return;
    said->notices++;
    said->spikes += !strcmp(code, "LOSS_SPIKE");
    said->step_time += !strcmp(code, "STEP_TIME");
    said->loss += !strcmp(code, "LOSS_RISES") || !strcmp(code, "PLATEAU");
    said->other = said->notices - said->step_time - said->spikes - said->loss;
}

#endif
