/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps and phases of the run that is watched: ranks become steps of the job, which detectors,
 * objectives and the progress see.
 */
#include "monitor/monitor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "monitor/private.h"

#define SILENT_STEPS       10  /* behind the others */
#define SLOW_TIMES         2   /* a checkpoint, of the median one before */
#define SLOW_S             1.0 /* and longer by so much */
#define CHECKPOINTS_NEEDED 3

struct mon_monitor *mon_new(const struct mon_config *config, int64_t begun_ns, mon_notify *notify,
                            void *ctx)
{
    struct mon_monitor *monitor = calloc(1, sizeof *monitor);
    if (!monitor)
        return NULL;
    monitor->config = config;
    monitor->begun_ns = monitor->now_ns = begun_ns;
    monitor->last_step = -1;
    monitor->last_end = monitor->counted_ns = monitor->checkpoint_end = INT64_MIN;
    monitor->restarted_ns = INT64_MIN;
    monitor->tokens_last = monitor->tokens_per_s = monitor->mfu = monitor->straggler = NAN;
    monitor->available_bytes = monitor->loss = monitor->grad_norm = NAN;
    mon_alerts_init(&monitor->alerts, config, notify, ctx);
    mon_progress_init(&monitor->progress, 0);
    mon_watched_begin(&monitor->step_time, &mon_shift_time, true);
    mon_watched_begin(&monitor->throughput, &mon_shift_time, false);
    return monitor;
}

void mon_free(struct mon_monitor *monitor)
{
    if (!monitor)
        return;
    for (size_t i = 0; i < monitor->counter_count; i++)
        free(monitor->counter[i]);
    free(monitor->counter);
    free(monitor->group);
    mon_progress_free(&monitor->progress);
    mon_history_free(&monitor->history);
    free(monitor);
}

void mon_set_machine(struct mon_monitor *monitor, const struct mon_machine *machine)
{
    monitor->machine = *machine;
}

void mon_set_probe(struct mon_monitor *monitor, void (*probe)(void *ctx, char *text, size_t size),
                   void *ctx)
{
    monitor->probe = probe;
    monitor->probe_ctx = ctx;
}

struct mon_alerts *mon_alerts(struct mon_monitor *monitor)
{
    return &monitor->alerts;
}

static void see(struct mon_monitor *monitor, int64_t time)
{
    monitor->now_ns = time > monitor->now_ns ? time : monitor->now_ns;
}

/* ---- steps of the job ------------------------------------------------------------------------ */

/* Tokens a second only say more than the step time where steps differ in their tokens. */
static void watch_throughput(struct mon_monitor *monitor, const struct mon_pending *step)
{
    struct mon_shift_found found;
    monitor->tokens_per_s = step->ms > 0 ? step->tokens / (step->ms / 1e3) : NAN;
    if (!(step->tokens > 0))
        return;
    monitor->tokens_vary =
        monitor->tokens_vary || (step->ranks == monitor->ranks_last &&
                                 fabs(step->tokens - monitor->tokens_last) > 1e-3 * step->tokens);
    monitor->tokens_last = step->tokens;
    monitor->ranks_last = step->ranks;
    if (monitor->tokens_vary && !step->special &&
        mon_watched_add(monitor, &monitor->throughput, monitor->tokens_per_s, step->index,
                        "THROUGHPUT", -1, &found))
        mon_defer_shift(monitor, 1, &found);
}

static void watch_step_time(struct mon_monitor *monitor, const struct mon_pending *step)
{
    struct mon_shift_found found;
    if (step->special || monitor->tokens_vary)
        return;
    if (mon_watched_add(monitor, &monitor->step_time, step->ms, step->index, "STEP_TIME", -1,
                        &found))
        mon_defer_shift(monitor, 0, &found);
}

/* All ranks have completed a step, or more of them never will. */
static void complete(struct mon_monitor *monitor, const struct mon_pending *step)
{
    monitor->steps++;
    if (monitor->progress.stalled)
        mon_count_stall(monitor, step->start);
    mon_progress_step(&monitor->progress, step->index, mon_seconds(step->end - monitor->begun_ns));
    mon_count_step(monitor, step);
    watch_throughput(monitor, step);
    watch_step_time(monitor, step);
    monitor->last_step = step->index > monitor->last_step ? step->index : monitor->last_step;
    monitor->last_end = step->end > monitor->last_end ? step->end : monitor->last_end;
    mon_raise_deferred(monitor);
}

static void complete_first(struct mon_monitor *monitor)
{
    struct mon_pending step = monitor->pending[0];
    monitor->pending_count--;
    memmove(monitor->pending, monitor->pending + 1,
            monitor->pending_count * sizeof *monitor->pending);
    complete(monitor, &step);
}

/* The step of the job that a rank's step belongs to. NULL: the job has gone on without this rank.
 */
static struct mon_pending *pending_of(struct mon_monitor *monitor, const struct mon_step *step,
                                      bool repeated)
{
    for (size_t i = 0; i < monitor->pending_count; i++)
        if (monitor->pending[i].index == step->index)
            return &monitor->pending[i];
    if (step->index <= monitor->last_step && !repeated)
        return NULL;
    if (monitor->pending_count == MON_PENDING)
        complete_first(monitor);
    struct mon_pending *pending = &monitor->pending[monitor->pending_count++];
    *pending = (struct mon_pending){.index = step->index, .start = step->start, .end = step->end};
    return pending;
}

static void join(struct mon_pending *pending, const struct mon_step *step, bool repeated)
{
    double ms = (double)(step->end - step->start) / 1e6;
    double communication = step->has_phases ? step->phase_ms[MON_PHASE_COMMUNICATION] : NAN;
    double wait = step->has_phases ? step->phase_ms[MON_PHASE_DATA_WAIT] / fmax(ms, 1e-9) : 0;
    pending->ranks++;
    pending->ms = fmax(pending->ms, ms);
    pending->tokens += step->tokens;
    pending->flops += step->flops;
    pending->start = step->start < pending->start ? step->start : pending->start;
    pending->end = step->end > pending->end ? step->end : pending->end;
    pending->repeated = pending->repeated || repeated;
    pending->special = pending->special || step->special;
    pending->has_phases = pending->has_phases || step->has_phases;
    pending->wait_share = fmax(pending->wait_share, wait);
    if (step->has_phases && pending->spread < MON_RANKS_SPREAD)
        pending->own_ms[pending->spread++] = ms - communication;
}

int mon_step(struct mon_monitor *monitor, const struct mon_step *step)
{
    struct mon_kept_rank *seen = mon_history_rank_of(&monitor->history, step->rank);
    if (!seen)
        return TACHO_ENOMEM;
    struct mon_kept_step kept = {.index = step->index,
                                 .start = step->start,
                                 .end = step->end,
                                 .ms = (float)((double)(step->end - step->start) / 1e6),
                                 .has_phases = step->has_phases};
    for (int i = 0; i < MON_PHASE_COUNT; i++)
        kept.phase_ms[i] = (float)step->phase_ms[i];
    bool repeated = step->index <= seen->highest;
    see(monitor, step->end);
    seen->index = step->index;
    seen->highest = step->index > seen->highest ? step->index : seen->highest;
    seen->end = step->end;
    if (!step->special)
        mon_kept_step_add(seen, &kept);
    struct mon_pending *pending = pending_of(monitor, step, repeated);
    if (pending)
        join(pending, step, repeated);
    while (monitor->pending_count && monitor->pending[0].ranks >= monitor->history.rank_count)
        complete_first(monitor);
    return 0;
}

/* Ranks are started one after the other: that is one restart. What some ranks had completed, and
 * others had not, is done again. */
void mon_process_began(struct mon_monitor *monitor, int64_t rank, int64_t time)
{
    const struct mon_kept_rank *known = mon_history_rank(&monitor->history, rank);
    if (!known || known->index < 0)
        return;
    struct mon_symptom symptom = mon_symptom_of(monitor, "RESTARTED", MON_INFO, MON_CAUSE_ENDED);
    char after[AN_WORDS];
    see(monitor, time);
    struct mon_kept_rank *seen = mon_history_rank_of(&monitor->history, rank);
    seen->end = time;
    monitor->pending_count = 0;
    mon_progress_restart(&monitor->progress, rank, mon_seconds(time - monitor->begun_ns));
    bool said = monitor->restarted_ns > monitor->last_end;
    monitor->restarted_ns = time;
    if (said)
        return;
    symptom.since_step = monitor->last_step + 1;
    symptom.since_ns = monitor->last_end;
    symptom.found_ns = time;
    snprintf(symptom.text, sizeof symptom.text,
             "the job was started again, %s after its last step; the last one that is complete "
             "is %" PRId64,
             an_time_print(after, (double)(time - monitor->last_end) / 1e6, 3), monitor->last_step);
    mon_raise(monitor, &symptom);
    mon_clear(monitor, "RESTARTED", -1);
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* A checkpoint that takes much longer than those before is a symptom; any other one is learned. */
static void checkpoint_time(struct mon_monitor *monitor, int64_t rank, int64_t start, int64_t end)
{
    double seconds = mon_seconds(end - start), sorted[MON_CHECKPOINTS];
    size_t held =
        monitor->checkpoint_count < MON_CHECKPOINTS ? monitor->checkpoint_count : MON_CHECKPOINTS;
    memcpy(sorted, monitor->checkpoint_s, held * sizeof *sorted);
    double median = held ? an_quantile_of(sorted, held, 0.5) : NAN;
    bool slow =
        held >= CHECKPOINTS_NEEDED && seconds > SLOW_TIMES * median && seconds - median > SLOW_S;
    if (slow) {
        char before[AN_WORDS], after[AN_WORDS];
        struct mon_symptom symptom =
            mon_symptom_of(monitor, "CHECKPOINT_SLOW", MON_TICKET, MON_CAUSE_CHECKPOINT);
        symptom.since_step = monitor->last_step + 1;
        symptom.since_ns = start;
        symptom.before = 1e3 * median;
        symptom.after = 1e3 * seconds;
        snprintf(symptom.unit, sizeof symptom.unit, "ms");
        snprintf(symptom.text, sizeof symptom.text, "a checkpoint took %s, the median one %s",
                 an_time_print(after, symptom.after, 3), an_time_print(before, symptom.before, 3));
        snprintf(symptom.changed, sizeof symptom.changed, "seen on rank %" PRId64, rank);
        snprintf(symptom.phase, sizeof symptom.phase, "%s", mon_phase_words(MON_PHASE_CHECKPOINT));
        mon_raise(monitor, &symptom);
    } else {
        mon_clear(monitor, "CHECKPOINT_SLOW", -1);
        monitor->checkpoint_s[monitor->checkpoint_count++ % MON_CHECKPOINTS] = seconds;
    }
}

int mon_phase_range(struct mon_monitor *monitor, const char *kind, int64_t rank, int64_t start,
                    int64_t end)
{
    double start_s = mon_seconds(start - monitor->begun_ns);
    if (end == INT64_MIN) {
        see(monitor, start);
        return mon_progress_open(&monitor->progress, rank, kind, start_s);
    }
    see(monitor, end);
    mon_progress_close(&monitor->progress, rank);
    mon_progress_phase(&monitor->progress, kind, start_s, mon_seconds(end - monitor->begun_ns));
    if (!strcmp(kind, "checkpoint")) {
        monitor->checkpoint_end = end > monitor->checkpoint_end ? end : monitor->checkpoint_end;
        checkpoint_time(monitor, rank, start, end);
    }
    return 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* The step that the furthest rank has completed; -1: none. */
static int64_t furthest_of(const struct mon_history *history)
{
    int64_t furthest = -1;
    for (size_t i = 0; i < history->rank_count; i++)
        furthest = history->rank[i]->index > furthest ? history->rank[i]->index : furthest;
    return furthest;
}

/* The ranks that have completed fewer steps than the furthest one: those that others wait for. */
static void behind(const struct mon_monitor *monitor, int64_t steps, struct mon_symptom *symptom)
{
    const struct mon_history *history = &monitor->history;
    int64_t furthest = furthest_of(history);
    for (size_t i = 0; i < history->rank_count && symptom->rank_count < MON_RANKS_NAMED; i++)
        if (history->rank[i]->index <= furthest - steps)
            symptom->rank[symptom->rank_count++] = history->rank[i]->rank;
}

/* What counters, collectives and processes say of a run that stands still since a time. */
static void stall_words(struct mon_monitor *monitor, struct mon_symptom *symptom)
{
    struct mon_finding finding;
    char *text = symptom->changed;
    size_t size = sizeof symptom->changed;
    mon_groups_words(monitor, text, size);
    mon_cause_of_stop(&monitor->history, symptom->since_ns, symptom->since_ns, monitor->now_ns + 1,
                      &finding);
    if (finding.cause != MON_CAUSE_UNKNOWN)
        symptom->cause = finding.cause;
    if (finding.moved_count)
        an_words_add(text, size, "%sat the same time ", *text ? "; " : "");
    mon_moved_words(&finding, text, size);
    if (monitor->probe)
        monitor->probe(monitor->probe_ctx, text, size);
}

static void raise_stall(struct mon_monitor *monitor, double time_s)
{
    struct mon_symptom symptom = mon_symptom_of(monitor, "STALLED", MON_PAGE, MON_CAUSE_HANG);
    const struct mon_progress *progress = &monitor->progress;
    const struct mon_phase_open *open = mon_progress_current(progress);
    char idle[AN_WORDS], bound[AN_WORDS];
    double idle_s = mon_progress_idle(progress, time_s);
    symptom.since_step = monitor->last_step + 1;
    symptom.since_ns = monitor->now_ns - (int64_t)(idle_s * 1e9);
    mon_groups_behind(monitor, &symptom);
    if (!symptom.rank_count)
        behind(monitor, 1, &symptom);
    snprintf(symptom.text, sizeof symptom.text,
             "%s for %s (%s are allowed); the last step that is complete is %" PRId64,
             open ? "a phase goes on" : "no step has ended", an_time_print(idle, 1e3 * idle_s, 3),
             an_time_print(bound, 1e3 * mon_progress_bound(progress), 3), monitor->last_step);
    if (open)
        snprintf(symptom.phase, sizeof symptom.phase, "%s", open->kind);
    stall_words(monitor, &symptom);
    mon_raise(monitor, &symptom);
}

/* Other ranks go on without it: a rank that is not in step with them, or whose recorder is gone. */
static void check_silent(struct mon_monitor *monitor, double time_s)
{
    double bound = mon_progress_bound(&monitor->progress);
    int64_t furthest = furthest_of(&monitor->history);
    for (size_t i = 0; i < monitor->history.rank_count; i++) {
        struct mon_kept_rank *seen = monitor->history.rank[i];
        double idle = time_s - mon_seconds(seen->end - monitor->begun_ns);
        bool silent = furthest - seen->index >= SILENT_STEPS && idle > bound;
        char code[MON_NAME], words[AN_WORDS];
        snprintf(code, sizeof code, "RANK_SILENT_%" PRId64, seen->rank);
        if (silent && !seen->silent) {
            struct mon_symptom symptom =
                mon_symptom_of(monitor, code, MON_PAGE, MON_CAUSE_SILENT_RANK);
            symptom.since_step = seen->index + 1;
            symptom.since_ns = seen->end;
            symptom.rank[symptom.rank_count++] = seen->rank;
            snprintf(symptom.text, sizeof symptom.text,
                     "rank %" PRId64 " has ended no step for %s, others are %" PRId64
                     " steps further",
                     seen->rank, an_time_print(words, 1e3 * idle, 3), furthest - seen->index);
            mon_raise(monitor, &symptom);
        } else if (!silent && seen->silent) {
            mon_clear(monitor, code, seen->rank);
        }
        seen->silent = silent;
    }
}

void mon_tick(struct mon_monitor *monitor, int64_t now)
{
    see(monitor, now);
    double time_s = mon_seconds(monitor->now_ns - monitor->begun_ns);
    bool was = monitor->progress.stalled;
    if (mon_progress_check(&monitor->progress, time_s)) {
        if (!was)
            raise_stall(monitor, time_s);
        mon_count_stall(monitor, monitor->now_ns);
    } else if (was) {
        mon_clear(monitor, "STALLED", -1);
    }
    mon_raise_deferred(monitor);
    check_silent(monitor, time_s);
    mon_check_budgets(monitor, monitor->now_ns);
    mon_alerts_tick(&monitor->alerts, time_s);
}

void mon_gap(struct mon_monitor *monitor, int64_t from, int64_t to)
{
    struct mon_symptom symptom = mon_symptom_of(monitor, "GAP", MON_INFO, MON_CAUSE_UNWATCHED);
    char words[AN_WORDS];
    see(monitor, to);
    mon_progress_resume(&monitor->progress, mon_seconds(to - monitor->begun_ns));
    monitor->counted_ns = to > monitor->counted_ns ? to : monitor->counted_ns;
    if (monitor->checkpoint_end != INT64_MIN)
        monitor->checkpoint_end += to - from;
    for (size_t i = 0; i < monitor->history.rank_count; i++) {
        struct mon_kept_rank *seen = monitor->history.rank[i];
        seen->end = to > seen->end ? to : seen->end;
    }
    symptom.since_ns = from;
    symptom.found_ns = to;
    snprintf(symptom.text, sizeof symptom.text, "no watch was running for %s",
             an_time_print(words, (double)(to - from) / 1e6, 3));
    mon_raise(monitor, &symptom);
    mon_clear(monitor, "GAP", -1);
}

void mon_recorder_gone(struct mon_monitor *monitor, int64_t now)
{
    struct mon_symptom symptom =
        mon_symptom_of(monitor, "RECORDER_GONE", MON_PAGE, MON_CAUSE_RECORDER);
    see(monitor, now);
    snprintf(symptom.text, sizeof symptom.text,
             "no recorder writes this run any more, and it has no end");
    mon_raise(monitor, &symptom);
}

/* A run that failed is news; what was open is over in any case. */
void mon_ended(struct mon_monitor *monitor, int64_t now, const char *how)
{
    see(monitor, now);
    while (monitor->pending_count)
        complete_first(monitor);
    for (int i = 0; i < 2; i++)
        monitor->deferred[i].begin_ns = INT64_MIN; /* nothing more will come */
    mon_raise_deferred(monitor);
    if (strcmp(how, "exit 0") != 0) {
        struct mon_symptom symptom =
            mon_symptom_of(monitor, "RUN_FAILED", MON_PAGE, MON_CAUSE_ENDED);
        snprintf(symptom.text, sizeof symptom.text, "the run ended: %.200s", how);
        mon_raise(monitor, &symptom);
    }
}
