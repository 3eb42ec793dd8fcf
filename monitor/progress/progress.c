/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/progress/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/stats.h"

#define STEPS_BOUND  10   /* medians */
#define LEAST_S      60   /* the bound is no less */
#define PHASE_BOUND  10   /* times the longest phase of the kind */
#define PHASE_S      3600 /* of a kind that was not seen before */
#define BEGIN_S      1800 /* before the first step */
#define STEPS_NEEDED 3

void mon_progress_init(struct mon_progress *progress, double begun_s)
{
    *progress = (struct mon_progress){.begun_s = begun_s,
                                      .last_s = NAN,
                                      .end_s = NAN,
                                      .before_s = NAN,
                                      .startup_s = NAN,
                                      .restarted_s = NAN,
                                      .last_step = -1};
}

void mon_progress_free(struct mon_progress *progress)
{
    free(progress->open);
    progress->open = NULL;
    progress->open_count = progress->open_room = 0;
}

void mon_progress_step(struct mon_progress *progress, int64_t step, double end_s)
{
    if (isnan(progress->last_s))
        progress->startup_s = end_s - progress->begun_s;
    progress->restarted_s = NAN;
    if (!isnan(progress->last_s) && end_s > progress->last_s) {
        progress->step_s[progress->next] = end_s - progress->last_s;
        progress->next = (progress->next + 1) % MON_PROGRESS_STEPS;
        progress->count += progress->count < MON_PROGRESS_STEPS;
    }
    progress->before_s = progress->end_s;
    progress->end_s = end_s;
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

static struct mon_phase_open *open_of(struct mon_progress *progress, int64_t rank)
{
    for (size_t i = 0; i < progress->open_count; i++)
        if (progress->open[i].rank == rank)
            return &progress->open[i];
    return NULL;
}

int mon_progress_open(struct mon_progress *progress, int64_t rank, const char *kind, double since_s)
{
    struct mon_phase_open *open = open_of(progress, rank);
    int rc = open ? 0
                  : an_grow(&progress->open, &progress->open_room, progress->open_count + 1,
                            sizeof *progress->open);
    if (rc)
        return rc;
    open = open ? open : &progress->open[progress->open_count++];
    *open = (struct mon_phase_open){.rank = rank, .since_s = since_s};
    snprintf(open->kind, sizeof open->kind, "%s", kind);
    return 0;
}

void mon_progress_close(struct mon_progress *progress, int64_t rank)
{
    struct mon_phase_open *open = open_of(progress, rank);
    if (open)
        *open = progress->open[--progress->open_count];
}

void mon_progress_close_all(struct mon_progress *progress)
{
    progress->open_count = 0;
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

void mon_progress_restart(struct mon_progress *progress, int64_t rank, double now_s)
{
    mon_progress_close(progress, rank);
    progress->restarted_s = now_s;
}

void mon_progress_resume(struct mon_progress *progress, double now_s)
{
    if (!isnan(progress->restarted_s))
        progress->restarted_s = fmax(progress->restarted_s, now_s);
    if (!isnan(progress->last_s))
        progress->last_s = fmax(progress->last_s, now_s);
    else
        progress->begun_s = fmax(progress->begun_s, now_s);
    for (size_t i = 0; i < progress->open_count; i++)
        progress->open[i].since_s = fmax(progress->open[i].since_s, now_s);
}

double mon_progress_median(const struct mon_progress *progress)
{
    double sorted[MON_PROGRESS_STEPS];
    if (progress->count < STEPS_NEEDED)
        return NAN;
    memcpy(sorted, progress->step_s, progress->count * sizeof *sorted);
    return an_quantile_of(sorted, progress->count, 0.5);
}

static double phase_bound(const struct mon_progress *progress, const char *kind)
{
    for (size_t i = 0; i < progress->phase_count; i++)
        if (!strcmp(progress->phase[i].kind, kind))
            return fmax(PHASE_BOUND * progress->phase[i].longest_s, LEAST_S);
    return PHASE_S;
}

const struct mon_phase_open *mon_progress_current(const struct mon_progress *progress)
{
    const struct mon_phase_open *current = NULL;
    double latest = -INFINITY;
    for (size_t i = 0; i < progress->open_count; i++) {
        const struct mon_phase_open *open = &progress->open[i];
        double until = open->since_s + phase_bound(progress, open->kind);
        if (until <= latest || progress->before_s > open->since_s)
            continue;
        current = open;
        latest = until;
    }
    return current;
}

double mon_progress_bound(const struct mon_progress *progress)
{
    const struct mon_phase_open *open = mon_progress_current(progress);
    double median = mon_progress_median(progress);
    if (open)
        return phase_bound(progress, open->kind);
    if (!isnan(progress->restarted_s))
        return fmin(BEGIN_S, fmax(PHASE_BOUND * progress->startup_s, LEAST_S));
    return isnan(median) ? BEGIN_S : fmax(STEPS_BOUND * median, LEAST_S);
}

double mon_progress_idle(const struct mon_progress *progress, double now_s)
{
    const struct mon_phase_open *open = mon_progress_current(progress);
    double since = isnan(progress->last_s) ? progress->begun_s : progress->last_s;
    if (!isnan(progress->restarted_s))
        since = fmax(since, progress->restarted_s);
    return now_s - (open ? open->since_s : since);
}

bool mon_progress_check(struct mon_progress *progress, double now_s)
{
    progress->stalled = mon_progress_idle(progress, now_s) > mon_progress_bound(progress);
    return progress->stalled;
}
