/* SPDX-License-Identifier: Apache-2.0
 *
 * Why one may believe the report: what was recorded, what is missing and why, what recording cost,
 * and what in the file contradicts itself.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/counters/system.h"
#include "analyzers/steps/analyzer.h"

#define INTERVAL_MOST 10.0 /* points: a wider interval says nothing about the overhead */
#define PAUSED_LEAST  10 /* steps of either kind for a bootstrap interval that deserves the name */

/* Reasons that take no event away: done on purpose, or only a name is shorter. Every other reason
 * means that events are missing. */
static bool loses_events(const char *source, const char *reason)
{
    /* samples that the machine refused: they are listed, no event is gone */
    if (!strcmp(source, "system") || !strncmp(source, "counter ", 8))
        return false;
    static const char *const harmless[] = {"event not recorded: overhead",
                                           "not sampled: ",
                                           "slice not stored: outside of",
                                           "slice or counter sample not stored: file at --max-size",
                                           "name cut",
                                           "name lost",
                                           "payload cut",
                                           "domain merged",
                                           "event has no usable duration (kept",
                                           "begin event (ph B) without its end (kept",
                                           "its rank is also that of another file (kept",
                                           "not a trace: nothing was read",
                                           "arguments beyond",
                                           "forward-backward flow arrow",
                                           "run metadata",
                                           "pop without push"};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (!strncmp(reason, harmless[i], strlen(harmless[i])))
            return false;
    return true;
}

/* What stood behind a cut or behind damage: the count is of such places, nobody knows of how many
 * events. */
static bool loses_unknown_many(const char *reason)
{
    static const char *const open_ended[] = {
        "file ends in the middle", "gzip data damaged", "text behind the end of the trace",
        "cannot be read",          "the file is empty", "Nsight Systems report or xplane file"};
    for (size_t i = 0; i < sizeof open_ended / sizeof *open_ended; i++)
        if (!strncmp(reason, open_ended[i], strlen(open_ended[i])))
            return true;
    return strstr(reason, "damaged: the rest of it was not read") != NULL;
}

static double since_start(const struct an_trace *t, int64_t time)
{
    return time == STORE_ABSENT || t->t1 < t->t0 ? NAN : (double)an_time_sub(time, t->t0) / 1e9;
}

static int losses(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_trust *r = &c->r->trust;
    struct an_loss *rows = an_arena_zero(c->a, t->loss_count, sizeof *rows);
    int64_t lost = 0;
    const char *unknown = NULL;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->loss_count; i++) {
        const struct an_loss_row *l = &t->loss[i];
        bool counted = l->count != STORE_ABSENT && l->count >= 0;
        rows[i] = (struct an_loss){.source = an_arena_text(c->a, l->source),
                                   .reason = an_arena_text(c->a, l->reason),
                                   .count = counted ? an_int(l->count)
                                                    : an_int_none("not known how many"),
                                   .lost = loses_events(l->source, l->reason),
                                   .t0_s = since_start(t, l->t0),
                                   .t1_s = since_start(t, l->t1)};
        if (!rows[i].lost)
            continue;
        if (counted && !loses_unknown_many(l->reason))
            lost = an_time_add(lost, l->count);
        else
            unknown = rows[i].reason;
    }
    r->losses = rows;
    r->loss_count = t->loss_count;
    r->lost_events = !unknown ? an_int(lost)
                     : lost   ? an_int_none(an_arena_format(
                                    c->a, "at least %" PRId64 ", and more: %.200s", lost, unknown))
                              : an_int_none(unknown);
    return 0;
}

static void overhead_absent(struct an_trust *r, const char *reason)
{
    r->overhead_pct = r->overhead_low_pct = r->overhead_high_pct = an_num_none(reason);
}

/* Steps of the most frequent size with and without recording, drawn at random by the agent: their
 * difference is what it costs.
 */
static int overhead(struct an_context *c)
{
    struct an_trust *r = &c->r->trust;
    const struct an_steps *steps = &c->r->steps;
    size_t on = 0, off = 0;
    int64_t tokens = 0;
    bool sized = steps->group_count > 0 && steps->groups[0].tokens.valid;
    if (!steps->paused) {
        overhead_absent(r, steps->counted ? "no counted step ran with recording paused"
                                          : "no counted steps");
        return 0;
    }
    double *x = an_arena_zero(c->work, (size_t)steps->counted, 2 * sizeof *x),
           *y = x ? x + steps->counted : NULL;
    if (!x)
        return TACHO_ENOMEM;
    if (sized)
        tokens = steps->groups[0].tokens.value;
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        if (!an_step_counted(s) || (sized && s->tokens != tokens))
            continue;
        if (s->paused)
            y[off++] = (double)an_step_ns(s);
        else
            x[on++] = (double)an_step_ns(s);
    }
    if (on < PAUSED_LEAST || off < PAUSED_LEAST) {
        overhead_absent(
            r, an_arena_format(
                   c->a,
                   "%zu step%s ran with recording paused and %zu with it on; %d of each are needed",
                   off, off == 1 ? "" : "s", on, PAUSED_LEAST));
        return 0;
    }
    an_sort(y, off);
    if (!(an_quantile(y, off, 0.5) > 0)) {
        overhead_absent(r, "the steps last 0 ns");
        return 0;
    }
    struct an_interval interval;
    int rc = an_bootstrap_ratio(x, on, y, off, 1, &interval);
    if (rc)
        return rc;
    r->overhead_pct =
        interval.high - interval.low <= INTERVAL_MOST
            ? an_num(interval.estimate)
            : an_num_none(an_arena_format(
                  c->a,
                  "between %.1f and %.1f %%: the %zu steps with recording paused and the %zu "
                  "with it on vary too much",
                  interval.low, interval.high, off, on));
    r->overhead_low_pct = an_num(interval.low);
    r->overhead_high_pct = an_num(interval.high);
    return 0;
}

static const char *key_or(struct an_context *c, const char *key, const char *otherwise)
{
    const char *v = an_trace_key(c->t, key);
    return v && *v ? an_arena_text(c->a, v) : otherwise;
}

/* What is missing as a whole: the end of the run, events. */
static void incomplete(struct an_context *c)
{
    const struct an_trust *r = &c->r->trust;
    const struct an_count *status = &c->r->run.exit_status;
    if (status->valid && status->value > 128)
        an_problem(c, "INCOMPLETE: the program was ended by signal %" PRId64, status->value - 128);
    else if (status->valid && status->value)
        an_problem(c, "INCOMPLETE: the program failed with exit status %" PRId64, status->value);
    else if (*r->ended && strncmp(r->ended, "exit", 4) && !c->o->live)
        an_problem(c, "INCOMPLETE: the recording did not end by itself: %.200s", r->ended);
    if (!r->lost_events.valid)
        an_problem(c, "LOST_EVENTS: it is not known how many: %.300s", r->lost_events.reason);
    else if (r->lost_events.value)
        an_problem(
            c,
            "LOST_EVENTS: %" PRId64
            " events are missing: the time of their ranges is counted with the range around them",
            r->lost_events.value);
}

static void contradictions(struct an_context *c)
{
    const struct an_trace *t = c->t;
    size_t overlap = 0;
    if (t->odd)
        an_problem(c,
                   "%zu rows have times that cannot be (an end before its start); they count as 0 "
                   "ns or as open",
                   t->odd);
    if (t->orphans)
        an_problem(c, "%zu rows name a track that the file does not hold; they were left out",
                   t->orphans);
    for (size_t i = 0; i < c->step_count; i++)
        overlap += c->step[i].excluded && !strcmp(c->step[i].excluded, "overlap");
    if (overlap)
        an_problem(c,
                   "%zu steps began before the step ahead of them on their thread had ended; they "
                   "were left out",
                   overlap);
}

/* A trace of another tool: who recorded it, and what such a trace cannot say. */
static void foreign(struct an_context *c)
{
    struct an_trust *r = &c->r->trust;
    const char *source = key_or(c, "source", "tacho");
    r->source = source;
    r->tool = key_or(c, "source.tool", "");
    if (!strcmp(source, "tacho"))
        return;
    overhead_absent(
        r,
        "a trace of another tool: nothing in it says how fast the program is without its profiler "
        "(trust/capture has the signs)");
    if (!*r->clock)
        r->clock = key_or(c, "source.clock", "");
}

static int trust_run(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct an_trust *r = &c->r->trust;
    int rc = losses(c);
    if (rc || (rc = overhead(c)) || (rc = an_system_gaps(c)))
        return rc;
    r->events = (int64_t)(t->slice.count - t->inferred + t->counter.count);
    r->open_ranges = (int64_t)t->open;
    r->replay_error_pct = an_num_none("nothing was replayed");
    r->clock = key_or(c, "clock", "");
    r->version = key_or(c, "tacho.version", "");
    r->ended = c->o->live ? "still running" : key_or(c, "ended", "");
    foreign(c);
    incomplete(c);
    contradictions(c);
    if (c->r->caution && c->problems < sizeof c->problem / sizeof *c->problem)
        c->problem[c->problems++] = c->r->caution;
    return 0;
}

static void trust_absent(struct an_context *c, const char *reason)
{
    (void)c;
    (void)reason; /* needs nothing, so it is never absent */
}

const struct an_analyzer an_trust = {"trust", "losses, overhead, missing counters, contradictions",
                                     0, trust_run, trust_absent};
