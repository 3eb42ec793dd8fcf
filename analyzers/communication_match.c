/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of collectives, and which of them are one collective: equal communicator, kind and sequence number on all ranks. The
 * ranks leave a collective together and come when they come, so the shortest participant came last and its time is transfer at
 * most; what the others take longer, they wait. That holds for collectives that no rank leaves before all have come.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/communication.h"

/* Kinds: does it synchronise, factor of the bus bandwidth a + b / n */
static const struct {
    const char *name;
    bool synchronises;
    double a, b;
} kinds[] = {{"all_reduce", true, 2, -2}, {"all_gather", true, 1, -1}, {"reduce_scatter", true, 1, -1},
             {"all_to_all", true, 1, -1}, {"barrier", true, 0, 0},     {"broadcast", false, 1, 0},
             {"reduce", false, 1, 0},     {"gather", false, 1, -1},    {"scatter", false, 1, -1},
             {"send", false, 1, 0},       {"recv", false, 1, 0}};
#define KINDS (sizeof kinds / sizeof *kinds)

static size_t kind_of(const char *name)
{
    size_t k = 0;
    while (k < KINDS && strcmp(kinds[k].name, name))
        k++;
    return k;
}

double an_comm_bus_factor(const char *name, int64_t n)
{
    size_t k = kind_of(name);
    return k < KINDS && n > 0 ? kinds[k].a + kinds[k].b / (double)n : 0;
}

/* ---- finding ------------------------------------------------------------------------------------------------------------ */

static uint32_t step_of(const struct an_context *c, uint32_t lane, int64_t time)
{
    const struct an_step *s = an_step_at_host(c, &c->lane[lane], time);
    return s && an_step_detailed(s) ? (uint32_t)(s - c->step) : AN_NONE;
}

static int find_track(struct an_context *c, uint32_t track, struct an_comm_calls *out)
{
    const struct an_trace *t = c->t;
    const struct an_track *k = &t->track[track];
    uint32_t lane = AN_NONE;
    bool known = false;
    if (strcmp(k->kind, "thread") && strcmp(k->kind, "comm"))
        return 0;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count; i++) {
        const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
        if (!d || d->role != AN_ROLE_COMM || t->slice.dur[i] == AN_OPEN)
            continue;
        if (!known) {
            lane = c->lane_count ? an_lane_of_process(c, k->process) : k->process;
            known = true;
        }
        if (an_grow(&out->call, &out->room, out->count + 1, sizeof *out->call))
            return TACHO_ENOMEM;
        const char *name = *d->collective ? d->collective : an_trace_name(t, t->slice.name[i]);
        size_t kind = kind_of(name);
        bool steps = c->lane_count && lane != AN_NONE;
        out->call[out->count++] = (struct an_comm_call){.name = name,
                                                        .communicator = d->communicator,
                                                        .sequence = t->slice.correlation[i],
                                                        .ranks = d->ranks,
                                                        .bytes = d->bytes,
                                                        .start = t->slice.start[i],
                                                        .end = an_slice_end(t, i),
                                                        .slice = (uint32_t)i,
                                                        .track = track,
                                                        .lane = lane,
                                                        .step = steps ? step_of(c, lane, t->slice.start[i]) : AN_NONE,
                                                        .transfer = -1,
                                                        .synchronises = kind < KINDS && kinds[kind].synchronises};
    }
    return 0;
}

/* ---- matching ----------------------------------------------------------------------------------------------------------- */

static int by_id(const struct an_comm_call *a, const struct an_comm_call *b)
{
    int order = strcmp(a->name, b->name);
    if (order)
        return order;
    if (a->communicator != b->communicator)
        return a->communicator < b->communicator ? -1 : 1;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static int rank_order(const void *x, const void *y)
{
    const struct an_comm_call *a = x, *b = y;
    int order = by_id(a, b);
    if (order)
        return order;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

static int collective_order(const void *x, const void *y)
{
    const struct an_comm_call *a = x, *b = y;
    int order = by_id(a, b);
    if (order)
        return order;
    if (a->ordinal != b->ordinal)
        return a->ordinal < b->ordinal ? -1 : 1;
    return (a->lane > b->lane) - (a->lane < b->lane);
}

size_t an_comm_next(const struct an_comm_calls *x, size_t first)
{
    size_t next = first + 1;
    while (next < x->count && !by_id(&x->call[first], &x->call[next]) && x->call[next].ordinal == x->call[first].ordinal)
        next++;
    return next;
}

/* All ranks of the communicator took part, each once, and none left before the last one came. */
static bool is_whole(const struct an_comm_call *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i].sequence == STORE_ABSENT || x[i].ranks != (int64_t)n || x[i].lane == AN_NONE || !x[i].synchronises)
            return false;
    return true;
}

static void match(struct an_comm_calls *x)
{
    for (size_t i = 0, next; i < x->count; i = next) {
        next = an_comm_next(x, i);
        if (!is_whole(&x->call[i], next - i))
            continue;
        int64_t shortest = INT64_MAX;
        for (size_t k = i; k < next; k++) {
            int64_t ns = an_time_sub(x->call[k].end, x->call[k].start);
            shortest = ns < shortest ? ns : shortest;
        }
        for (size_t k = i; k < next; k++)
            x->call[k].transfer = shortest;
    }
}

int an_comm_find(struct an_context *c, struct an_comm_calls *out)
{
    int rc = 0;
    for (uint32_t k = 0; k < c->t->track_count && !rc; k++)
        rc = find_track(c, k, out);
    if (rc || !out->count)
        return rc;
    qsort(out->call, out->count, sizeof *out->call, rank_order);
    for (size_t i = 1; i < out->count; i++)
        if (!by_id(&out->call[i - 1], &out->call[i]) && out->call[i - 1].lane == out->call[i].lane)
            out->call[i].ordinal = out->call[i - 1].ordinal + 1;
    qsort(out->call, out->count, sizeof *out->call, collective_order);
    match(out);
    return 0;
}

/* ---- the list ----------------------------------------------------------------------------------------------------------- */

/* Sums of one kind on one communicator. */
struct sums {
    int64_t calls, matched, sized, ranks;
    double ns, matched_ns, transfer, bytes;
    double *rank_bytes; /* by lane */
    int64_t *rank_calls;
};

static void add_call(struct sums *s, const struct an_comm_call *x)
{
    double ns = (double)an_time_sub(x->end, x->start);
    s->calls++;
    s->ns += ns;
    s->ranks = x->ranks > s->ranks ? x->ranks : s->ranks;
    if (x->bytes != STORE_ABSENT) {
        s->sized++;
        s->bytes += (double)x->bytes;
    }
    if (x->lane != AN_NONE && s->rank_bytes) {
        s->rank_calls[x->lane]++;
        s->rank_bytes[x->lane] += x->bytes != STORE_ABSENT ? (double)x->bytes : 0;
    }
    if (x->transfer >= 0) {
        s->matched++;
        s->matched_ns += ns;
        s->transfer += (double)x->transfer;
    }
}

/* Steps of the ranks that take part, summed; 0: there are no steps. */
static double steps_of(const struct an_context *c, const struct sums *s)
{
    double n = 0;
    for (size_t i = 0; i < c->step_count; i++)
        n += an_step_detailed(&c->step[i]) && s->rank_calls[c->step[i].lane] > 0;
    return n;
}

static struct an_value uneven(const struct an_context *c, const struct sums *s)
{
    double most = 0, sum = 0, ranks = 0;
    for (size_t k = 0; k < c->lane_count; k++)
        if (s->rank_calls[k]) {
            most = s->rank_bytes[k] > most ? s->rank_bytes[k] : most;
            sum += s->rank_bytes[k];
            ranks++;
        }
    if (ranks < 2)
        return an_num_none("one rank: nothing to compare");
    return sum > 0 ? an_num(most / (sum / ranks)) : an_num_none("the calls do not say how many bytes they move");
}

static void bandwidth(struct an_context *c, const struct sums *s, struct an_collective *out)
{
    double factor = an_comm_bus_factor(out->name, s->ranks), seconds = (s->matched ? s->transfer : s->ns) / 1e9;
    double calls = (double)(s->matched ? s->matched : s->calls);
    if (s->sized < s->calls || s->bytes <= 0 || seconds <= 0) {
        out->algorithm_bytes_per_s = out->bus_bytes_per_s = an_num_none(
            s->bytes <= 0 || s->sized < s->calls ? "the calls do not say how many bytes they move" : "the calls take no time");
        return;
    }
    out->algorithm_bytes_per_s = an_num(s->bytes / (double)s->calls / (seconds / calls));
    out->bandwidth_of = s->matched ? "transfer" : "time";
    if (s->ranks < 2)
        out->bus_bytes_per_s = an_num_none("the calls do not say how many ranks take part");
    else if (factor <= 0)
        out->bus_bytes_per_s = an_num_none(an_arena_format(c->a, "no factor is defined for %.60s", out->name));
    else
        out->bus_bytes_per_s = an_num(out->algorithm_bytes_per_s.value * factor);
}

static const char *why_unmatched(const struct an_context *c, const struct an_comm_call *x)
{
    if (!x->synchronises)
        return "ranks may leave it before the others come: who waits cannot be told";
    if (x->ranks < 2)
        return x->ranks == 1 ? "one rank" : "the calls do not say how many ranks take part";
    if (x->sequence == STORE_ABSENT)
        return "the calls carry no sequence number";
    return c->r->communication.missing ? c->r->communication.missing : "no call of it was recorded on every rank";
}

static void describe(struct an_context *c, const struct an_comm_call *first, const struct sums *s, struct an_collective *out)
{
    double calls = (double)s->calls, steps = steps_of(c, s);
    const char *none = "no counted step has all its ranges in the file", *why = why_unmatched(c, first);
    *out = (struct an_collective){.name = an_arena_text(c->a, first->name),
                                  .communicator = first->communicator != STORE_ABSENT ? an_int(first->communicator)
                                                                                      : an_int_none("not said by the calls"),
                                  .ranks = s->ranks > 0 ? an_int(s->ranks) : an_int_none("not said by the calls"),
                                  .count = s->calls,
                                  .matched = s->matched,
                                  .mean_ms = an_num(s->ns / calls / 1e6),
                                  .calls_per_step = steps > 0 ? an_num(calls / steps) : an_num_none(none),
                                  .bytes_max_over_mean = uneven(c, s)};
    bool sized = s->sized == s->calls;
    const char *no_bytes = "the calls do not say how many bytes they move";
    out->bytes_per_call = sized ? an_num(s->bytes / calls) : an_num_none(no_bytes);
    out->bytes_per_step = !sized ? an_num_none(no_bytes) : steps > 0 ? an_num(s->bytes / steps) : an_num_none(none);
    out->transfer_ms = s->matched ? an_num(s->transfer / (double)s->matched / 1e6) : an_num_none(why);
    out->waiting_ms = s->matched ? an_num((s->matched_ns - s->transfer) / (double)s->matched / 1e6) : an_num_none(why);
    bandwidth(c, s, out);
}

static int time_order(const void *x, const void *y)
{
    const struct an_collective *a = x, *b = y;
    double ta = a->mean_ms.value * (double)a->count, tb = b->mean_ms.value * (double)b->count;
    return (ta < tb) - (ta > tb);
}

static bool same_kind(const struct an_comm_call *a, const struct an_comm_call *b)
{
    return !strcmp(a->name, b->name) && a->communicator == b->communicator;
}

int an_comm_collectives(struct an_context *c, const struct an_comm_calls *x)
{
    struct an_communication *r = &c->r->communication;
    size_t most = 0;
    for (size_t i = 0; i < x->count; i++)
        most += !i || !same_kind(&x->call[i - 1], &x->call[i]);
    struct an_collective *rows = an_arena_zero(c->a, most + 1, sizeof *rows);
    double *rank_bytes = an_arena_zero(c->work, c->lane_count + 1, sizeof *rank_bytes);
    int64_t *rank_calls = an_arena_zero(c->work, c->lane_count + 1, sizeof *rank_calls);
    if (!rows || !rank_bytes || !rank_calls)
        return TACHO_ENOMEM;
    for (size_t i = 0, next; i < x->count; i = next) {
        memset(rank_bytes, 0, (c->lane_count + 1) * sizeof *rank_bytes);
        memset(rank_calls, 0, (c->lane_count + 1) * sizeof *rank_calls);
        /* without steps there are no ranks to tell apart */
        struct sums s = {.rank_bytes = c->lane_count ? rank_bytes : NULL, .rank_calls = rank_calls};
        for (next = i; next < x->count && same_kind(&x->call[i], &x->call[next]); next++)
            if (!c->r->steps.detailed || x->call[next].step != AN_NONE)
                add_call(&s, &x->call[next]);
        if (s.calls)
            describe(c, &x->call[i], &s, &rows[r->collective_count++]);
    }
    if (r->collective_count)
        qsort(rows, r->collective_count, sizeof *rows, time_order);
    r->collectives = rows;
    return 0;
}
