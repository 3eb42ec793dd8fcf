/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/progress/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/stats.h"

#define STEPS_BOUND  10   /* medians */
#define LEAST_S      60   /* the bound is no less */
#define PHASE_BOUND  10   /* times the longest phase of the kind */
#define PHASE_S      3600 /* of a kind that was not seen before */
#define BEGIN_S      1800 /* before the first step */
#define STEPS_NEEDED 3

void mon_progress_init(struct mon_progress *progress, double begun_s)
{
    *progress = (struct mon_progress){.begun_s = begun_s, .last_s = NAN, .last_step = -1};
}

void mon_progress_step(struct mon_progress *progress, int64_t step, double end_s)
{
    if (!isnan(progress->last_s) && end_s > progress->last_s) {
        progress->step_s[progress->next] = end_s - progress->last_s;
        progress->next = (progress->next + 1) % MON_PROGRESS_STEPS;
        progress->count += progress->count < MON_PROGRESS_STEPS;
    }
    progress->last_s = isnan(progress->last_s) ? end_s : fmax(progress->last_s, end_s);
    progress->last_step = step;
}

static struct mon_phase_seen *phase_of(struct mon_progress *progress, const char *kind)
{
    for (size_t i = 0; i < progress->phase_count; i++)
        if (!strcmp(progress->phase[i].kind, kind))
            return &progress->phase[i];
    if (progress->phase_count == MON_PHASE_KINDS)
        return NULL;
    struct mon_phase_seen *seen = &progress->phase[progress->phase_count++];
    snprintf(seen->kind, sizeof seen->kind, "%s", kind);
    return seen;
}

void mon_progress_open(struct mon_progress *progress, const char *kind, double since_s)
{
    snprintf(progress->open, sizeof progress->open, "%s", kind ? kind : "");
    progress->open_s = since_s;
}

void mon_progress_phase(struct mon_progress *progress, const char *kind, double start_s,
                        double end_s)
{
    struct mon_phase_seen *seen = phase_of(progress, kind);
    if (seen)
        seen->longest_s = fmax(seen->longest_s, end_s - start_s);
    if (!isnan(progress->last_s))
        progress->last_s = fmax(progress->last_s, end_s);
}

void mon_progress_resume(struct mon_progress *progress, double now_s)
{
    if (!isnan(progress->last_s))
        progress->last_s = fmax(progress->last_s, now_s);
    else
        progress->begun_s = fmax(progress->begun_s, now_s);
    progress->open_s = fmax(progress->open_s, now_s);
}

double mon_progress_median(const struct mon_progress *progress)
{
    double sorted[MON_PROGRESS_STEPS];
    if (progress->count < STEPS_NEEDED)
        return NAN;
    memcpy(sorted, progress->step_s, progress->count * sizeof *sorted);
    return an_quantile_of(sorted, progress->count, 0.5);
}

double mon_progress_bound(const struct mon_progress *progress)
{
    if (*progress->open) {
        for (size_t i = 0; i < progress->phase_count; i++)
            if (!strcmp(progress->phase[i].kind, progress->open))
                return fmax(PHASE_BOUND * progress->phase[i].longest_s, LEAST_S);
        return PHASE_S;
    }
    double median = mon_progress_median(progress);
    return isnan(median) ? BEGIN_S : fmax(STEPS_BOUND * median, LEAST_S);
}

double mon_progress_idle(const struct mon_progress *progress, double now_s)
{
    double since = isnan(progress->last_s) ? progress->begun_s : progress->last_s;
    return now_s - (*progress->open ? progress->open_s : since);
}

bool mon_progress_check(struct mon_progress *progress, double now_s)
{
    progress->stalled = mon_progress_idle(progress, now_s) > mon_progress_bound(progress);
    return progress->stalled;
}
