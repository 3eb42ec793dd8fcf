/* SPDX-License-Identifier: Apache-2.0
 *
 * How heavy the losses of a run are: the share of its events that is missing, of the whole run and
 * of each rank or process. docs/definitions.md has the thresholds.
 */
#include "analyzers/trust/losses.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/counters/system.h"

#define HEAVY_PCT   10.0 /* of the events: the rest no longer stands for the run */
#define PROCESS_PCT 1.0  /* of the events of the run: a smaller process does not matter */

/* Events of the program in the file, by index of the process, the last entry those of no process;
 * samples of tacho's own are excluded. */
static int64_t *count_events(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    int64_t *events = an_arena_zero(context->scratch, trace->process_count + 1, sizeof *events);
    for (size_t i = 0; events && i < trace->track_count; i++) {
        const struct an_track *track = &trace->track[i];
        size_t process =
            track->process < trace->process_count ? track->process : trace->process_count;
        if (strcmp(track->kind, "counter") != 0 || !an_system_owns(track))
            events[process] += (int64_t)(track->slice_count + track->counter_count);
    }
    return events;
}

static double share_pct(int64_t lost, int64_t events)
{
    return lost > 0 ? 100 * (double)lost / ((double)lost + (double)events) : 0;
}

/* The losses of one process, and after merge_ranks those of all processes of its rank. `first`: the
 * first process with losses. */
struct row {
    struct an_process_loss loss;
    size_t first;
};

static int name_order(const void *left, const void *right)
{
    const struct row *first = left, *second = right;
    return 4 * AN_COMPARE(first->loss.is_rank, second->loss.is_rank) +
           2 * AN_COMPARE(first->loss.number, second->loss.number) +
           AN_COMPARE(first->first, second->first);
}

static int first_order(const void *left, const void *right)
{
    const struct row *first = left, *second = right;
    return AN_COMPARE(first->first, second->first);
}

/* A row for each process; a process without losses has the last place. */
static void fill_rows(const struct an_trace *trace, const int64_t *events, struct row *rows)
{
    for (size_t i = 0; i < trace->process_count; i++) {
        const struct an_process *process = &trace->process[i];
        bool is_rank = process->rank != STORE_ABSENT;
        rows[i].loss.is_rank = is_rank;
        rows[i].loss.number = is_rank ? process->rank : process->pid;
        rows[i].loss.lost = process->lost > 0 ? process->lost : 0;
        rows[i].loss.events = events[i];
        rows[i].first = process->lost > 0 ? i : SIZE_MAX;
    }
}

/* Makes one row of all processes of a rank, or of all with one pid. Returns how many are left. */
static size_t merge_ranks(struct row *rows, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        struct row *last = left ? &rows[left - 1] : NULL;
        if (!last || last->loss.is_rank != rows[i].loss.is_rank ||
            last->loss.number != rows[i].loss.number) {
            rows[left++] = rows[i];
            continue;
        }
        last->loss.lost = an_time_add(last->loss.lost, rows[i].loss.lost);
        last->loss.events += rows[i].loss.events;
    }
    return left;
}

/* Lists ranks and processes that lost events, in the order of the processes; *all: events of the
 * program in the file. */
static int by_process(struct an_context *context, int64_t *all)
{
    const struct an_trace *trace = context->trace;
    struct an_trust *trust = &context->result->trust;
    int64_t *events = count_events(context);
    struct row *rows = an_arena_zero(context->scratch, trace->process_count + 1, sizeof *rows);
    struct an_process_loss *entries =
        an_arena_zero(context->arena, trace->process_count + 1, sizeof *entries);
    if (!events || !rows || !entries)
        return TACHO_ENOMEM;
    for (size_t i = 0; i <= trace->process_count; i++)
        *all += events[i];
    fill_rows(trace, events, rows);
    qsort(rows, trace->process_count, sizeof *rows, name_order);
    size_t count = merge_ranks(rows, trace->process_count);
    qsort(rows, count, sizeof *rows, first_order);
    while (trust->by_process_count < count && rows[trust->by_process_count].first != SIZE_MAX) {
        struct an_process_loss *entry = &entries[trust->by_process_count];
        *entry = rows[trust->by_process_count++].loss;
        entry->pct = share_pct(entry->lost, entry->events);
    }
    trust->by_process = entries;
    return 0;
}

/* The rank or process with the largest share of lost events among those that matter; NULL: none. */
static const struct an_process_loss *worst_process(const struct an_trust *trust, int64_t events)
{
    const struct an_process_loss *worst = NULL;
    double all = (double)events + (double)trust->lost_events.value;
    for (size_t i = 0; i < trust->by_process_count; i++) {
        const struct an_process_loss *entry = &trust->by_process[i];
        if (100 * ((double)entry->lost + (double)entry->events) >= PROCESS_PCT * all &&
            (!worst || entry->pct > worst->pct))
            worst = entry;
    }
    return worst;
}

/* Events of the recorded program whose number is not known are heavy: it can be any. Those that an
 * imported trace lacks are listed with the trace's other gaps. */
static bool is_uncounted(const struct an_loss *loss)
{
    return loss->lost && !loss->count.valid &&
           (!strcmp(loss->source, "agent") || !strcmp(loss->source, "collector"));
}

/* The loss that says most about why: one without a count, else the largest. NULL: none. */
static const struct an_loss *main_loss(const struct an_trust *trust)
{
    const struct an_loss *most = NULL;
    for (size_t i = 0; i < trust->loss_count; i++) {
        const struct an_loss *loss = &trust->losses[i];
        if (!loss->lost || (!loss->count.valid && !is_uncounted(loss)))
            continue;
        if (is_uncounted(loss))
            return loss;
        if (!most || loss->count.value > most->count.value)
            most = loss;
    }
    return most;
}

/* "93.1 % of the events are missing (15000 of 16112)"; NULL: the loss is not heavy. */
static const char *heavy_words(struct an_context *context, const struct an_loss *loss,
                               int64_t events)
{
    const struct an_trust *trust = &context->result->trust;
    const struct an_process_loss *worst = worst_process(trust, events);
    int64_t lost = trust->lost_events.valid ? trust->lost_events.value : 0;
    if (is_uncounted(loss))
        return "an unknown number of events is missing";
    if (!trust->lost_pct.valid)
        return NULL;
    if (trust->lost_pct.value >= HEAVY_PCT)
        return an_arena_format(context->arena,
                               "%.1f %% of the events are missing (%" PRId64 " of %" PRId64 ")",
                               trust->lost_pct.value, lost, an_time_add(lost, events));
    if (!worst || worst->pct < HEAVY_PCT)
        return NULL;
    return an_arena_format(context->arena,
                           "%.1f %% of the events of %s %" PRId64 " are missing (%" PRId64
                           " of %" PRId64 ")",
                           worst->pct, worst->is_rank ? "rank" : "process", worst->number,
                           worst->lost, an_time_add(worst->lost, worst->events));
}

int an_losses_weigh(struct an_context *context)
{
    struct an_trust *trust = &context->result->trust;
    const struct an_loss *loss = main_loss(trust);
    int64_t events = 0;
    int rc = by_process(context, &events);
    trust->lost_pct = an_num_none(trust->lost_events.reason);
    if (trust->lost_events.valid)
        trust->lost_pct = an_num(share_pct(trust->lost_events.value, events));
    if (rc || !loss)
        return rc;
    trust->missing_why = loss->reason;
    trust->missing = heavy_words(context, loss, events);
    return 0;
}
