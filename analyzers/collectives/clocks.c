/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank's clock is: one for all processes of the rank. A merged file was aligned by `tacho
 * merge` (keys node.N.clock...); folders of other tools' traces, and files whose ranks do not agree
 * all the same, are aligned here. The fit is the store's (store/clock_fit.h); docs/merge.md and
 * docs/ranks.md are for users.
 */
#include "analyzers/collectives/clocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/communication.h"
#include "store/clock_fit.h"

#define SAME_CLOCK_NS 10000.0 /* a contradiction below it is that of a device's time stamps */
#define PPM           1e6

struct clock {
    int64_t rank;
    uint32_t process; /* the first one of the rank */
    const char *host;
    struct store_clock_fit fit;
    bool fitted, corrected;
};

/* One call, and which collective it is. */
struct part {
    struct an_comm_call x;
    uint32_t clock;
};

struct clocks {
    struct an_trace *t;
    struct clock *clock;
    size_t count;
    uint32_t *of; /* clock of a process, AN_NONE: none */
    struct part *part;
    size_t parts, room;
};

/* ---- clocks and collectives ----------------------------------------------------------------------------------------------------- */

static int rank_order(const void *x, const void *y)
{
    const struct clock *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->process > b->process) - (a->process < b->process);
}

/* One clock a rank; processes without a rank work for that of the lowest one. */
static int find_clocks(struct clocks *x)
{
    const struct an_trace *t = x->t;
    size_t n = 0;
    x->clock = calloc(t->process_count + 1, sizeof *x->clock);
    x->of = malloc((t->process_count + 1) * sizeof *x->of);
    if (!x->clock || !x->of)
        return TACHO_ENOMEM;
    for (uint32_t p = 0; p < t->process_count; p++)
        if (t->process[p].rank != STORE_ABSENT)
            x->clock[n++] = (struct clock){
                .rank = t->process[p].rank, .process = p, .host = t->process[p].host};
    if (n)
        qsort(x->clock, n, sizeof *x->clock, rank_order);
    for (size_t i = 0; i < n; i++)
        if (!i || x->clock[i].rank != x->clock[x->count - 1].rank)
            x->clock[x->count++] = x->clock[i];
    for (uint32_t p = 0; p < t->process_count; p++) {
        struct clock key = {.rank = t->process[p].rank};
        size_t low = 0, high = x->count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (x->clock[middle].rank < key.rank)
                low = middle + 1;
            else
                high = middle;
        }
        x->of[p] = low < x->count && x->clock[low].rank == key.rank ? (uint32_t)low : AN_NONE;
    }
    return 0;
}

static bool may_hold_calls(const struct an_track *k)
{
    return !strcmp(k->kind, "thread") || !strcmp(k->kind, "comm") || !strcmp(k->kind, "stream");
}

/* Does it say that it is a collective? Rows of annotations on a device and calls on the host of
 * imported traces say so too: only kernels and ranges of ours are the thing itself. */
static bool is_call(const struct an_trace *t, const struct an_track *k, size_t i)
{
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
    if (!d || !*d->collective)
        return false;
    return strcmp(k->kind, "stream") ? d->role == AN_ROLE_COMM
                                     : !strcmp(an_slice_category(t, i), "kernel");
}

static int find_parts(struct clocks *x)
{
    const struct an_trace *t = x->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        uint32_t clock = track->process < t->process_count ? x->of[track->process] : AN_NONE;
        if (clock == AN_NONE || !may_hold_calls(track))
            continue;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            struct part p = {.clock = clock};
            if (!is_call(t, track, i) || !an_comm_read(t, i, &p.x) || !p.x.synchronises ||
                p.x.communicator == STORE_ABSENT)
                continue;
            bool waits_only = strcmp(track->kind, "stream") != 0 && p.x.bytes == STORE_ABSENT;
            if (waits_only) /* for what other threads do: a rank may come to it when its part is
                               done already */
                continue;
            if (an_grow(&x->part, &x->room, x->parts + 1, sizeof *x->part))
                return TACHO_ENOMEM;
            p.x.lane = clock;
            x->part[x->parts++] = p;
        }
    }
    return 0;
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int by_kind(const struct an_comm_call *a, const struct an_comm_call *b)
{
    int order = strcmp(a->kind, b->kind);
    order = order ? order : COMPARE(a->communicator, b->communicator);
    order = order ? order : COMPARE(a->group, b->group);
    return order ? order : COMPARE(a->sequence, b->sequence);
}

static int own_order(const void *x, const void *y)
{
    const struct part *a = x, *b = y;
    int order = by_kind(&a->x, &b->x);
    order = order ? order : COMPARE(a->clock, b->clock);
    return order ? order : COMPARE(a->x.start, b->x.start);
}

static int part_order(const void *x, const void *y)
{
    const struct part *a = x, *b = y;
    int order = by_kind(&a->x, &b->x);
    order = order ? order : COMPARE(a->x.ordinal, b->x.ordinal);
    return order ? order : COMPARE(a->clock, b->clock);
}

/* Calls without a sequence number are counted: the n-th of one rank is the n-th of another only
 * where all have as many. */
static void drop_uneven(struct clocks *x)
{
    size_t kept = 0;
    for (size_t i = 0, next; i < x->parts; i = next) {
        bool even = true;
        size_t first = 0, run = 0;
        for (next = i; next < x->parts && !by_kind(&x->part[i].x, &x->part[next].x); next++) {
            bool same = next > i && x->part[next].clock == x->part[next - 1].clock;
            if (!same && run)
                even = even && (!first || first == run);
            first = !same && run && !first ? run : first;
            run = same ? run + 1 : 1;
        }
        even = even && (!first || first == run);
        for (size_t k = i; k < next && (even || x->part[i].x.sequence != STORE_ABSENT); k++)
            x->part[kept++] = x->part[k];
    }
    x->parts = kept;
}

static void order_parts(struct clocks *x)
{
    if (!x->parts)
        return;
    qsort(x->part, x->parts, sizeof *x->part, own_order);
    for (size_t i = 1; i < x->parts; i++)
        if (!by_kind(&x->part[i - 1].x, &x->part[i].x) && x->part[i - 1].clock == x->part[i].clock)
            x->part[i].x.ordinal = x->part[i - 1].x.ordinal + 1;
    drop_uneven(x);
    qsort(x->part, x->parts, sizeof *x->part, part_order);
}

/* ---- fitting ------------------------------------------------------------------------------------------------------------------------ */

struct points {
    struct store_clock_point *at;
    size_t count, room;
};

/* One collective: parts [first, next), of which the first one is the lowest rank's. Only one in
 * which the reference took part, and all its ranks, or all that the file has: other ranks may have
 * a communicator of the same number. */
static int take(struct clocks *x, size_t first, size_t next, struct points *of)
{
    const struct an_comm_call *r = &x->part[first].x;
    int64_t least = INT64_MAX;
    if (x->part[first].clock != 0 || next - first < 2 ||
        (r->ranks != (int64_t)(next - first) && next - first != x->count))
        return 0;
    for (size_t i = first; i < next; i++) {
        int64_t ns = an_time_sub(x->part[i].x.end, x->part[i].x.start);
        least = ns < least ? ns : least;
        if (i > first &&
            (x->part[i].clock == x->part[i - 1].clock || x->part[i].x.ranks != r->ranks ||
             (r->sequence == STORE_ABSENT && x->part[i].x.bytes != r->bytes)))
            return 0; /* twice on one rank, or not the same: which is which? */
    }
    for (size_t i = first + 1; i < next; i++) {
        const struct an_comm_call *a = &x->part[i].x;
        struct points *p = &of[x->part[i].clock];
        if (an_grow(&p->at, &p->room, p->count + 1, sizeof *p->at))
            return TACHO_ENOMEM;
        p->at[p->count++] = (struct store_clock_point){.at = a->end,
                                                       .offset = an_time_sub(r->end, a->end),
                                                       .low = an_time_sub(r->start, a->end),
                                                       .high = an_time_sub(r->end, a->start),
                                                       .least = least};
    }
    return 0;
}

/* Ranks of one host have one clock, unless that cannot be; others differ where the fit says more
 * than its own error. */
static bool is_off(const struct clock *reference, const struct clock *k)
{
    double error = k->fit.error;
    bool one = *k->host && !strcmp(k->host, reference->host);
    if (one)
        return k->fit.violation > SAME_CLOCK_NS;
    return fabs((double)k->fit.offset) > error || k->fit.drift != 0 ||
           k->fit.violation > SAME_CLOCK_NS;
}

static int fit_all(struct clocks *x)
{
    struct points *of = calloc(x->count + 1, sizeof *of);
    int rc = of ? 0 : TACHO_ENOMEM;
    for (size_t i = 0, next; i < x->parts && !rc; i = next) {
        for (next = i + 1; next < x->parts && !by_kind(&x->part[i].x, &x->part[next].x) &&
                           x->part[next].x.ordinal == x->part[i].x.ordinal;)
            next++;
        rc = take(x, i, next, of);
    }
    for (size_t k = 1; k < x->count && !rc; k++) {
        if (!of[k].count)
            continue;
        rc = store_clock_fit(of[k].at, of[k].count, &x->clock[k].fit);
        x->clock[k].fitted = !rc;
        x->clock[k].corrected = !rc && is_off(&x->clock[0], &x->clock[k]);
    }
    for (size_t k = 0; of && k < x->count; k++)
        free(of[k].at);
    free(of);
    return rc;
}

/* ---- putting right -------------------------------------------------------------------------------------------------------------------- */

/* Times that stand for "no time" in imported files stay what they are (device.c). */
static int find_bases(const struct an_trace *t, int64_t **out, size_t *count)
{
    int64_t *base = malloc((t->key_count + 1) * sizeof *base);
    *out = base;
    *count = 1;
    if (!base)
        return TACHO_ENOMEM;
    base[0] = 0;
    for (size_t i = 0; i < t->key_count; i++)
        if (!strncmp(t->key[i].key, "source.base_ns", 14))
            base[(*count)++] = strtoll(t->key[i].value, NULL, 10);
    return 0;
}

static int64_t right(const struct clock *k, int64_t t)
{
    return t == STORE_ABSENT ? t : store_clock_time(k->fit.offset, k->fit.drift, k->fit.pivot, t);
}

static void shift_track(struct an_trace *t, const struct an_track *track, const struct clock *k,
                        const int64_t *base, size_t bases)
{
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        int64_t start = t->slice.start[i], dur = t->slice.dur[i];
        bool none = false;
        for (size_t b = 0; b < bases; b++)
            none = none || start == base[b];
        if (none)
            continue;
        t->slice.start[i] = right(k, start);
        if (dur != AN_OPEN)
            t->slice.dur[i] = an_time_sub(right(k, an_time_add(start, dur)), t->slice.start[i]);
    }
    for (size_t i = track->counter_first; i < track->counter_first + track->counter_count; i++)
        t->counter.time[i] = right(k, t->counter.time[i]);
}

static const struct clock *off_clock(const struct clocks *x, uint32_t process)
{
    uint32_t k = process < x->t->process_count ? x->of[process] : AN_NONE;
    return k != AN_NONE && x->clock[k].corrected ? &x->clock[k] : NULL;
}

/* First and last time of the run again: what was moved is where they were. */
static void window(struct an_trace *t)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            int64_t end = t->slice.dur[i] == AN_OPEN
                              ? t->slice.start[i]
                              : an_time_add(t->slice.start[i], t->slice.dur[i]);
            first = t->slice.start[i] < first ? t->slice.start[i] : first;
            last = end > last ? end : last;
        }
        if (track->counter_count) {
            int64_t begin = t->counter.time[track->counter_first],
                    end = t->counter.time[track->counter_first + track->counter_count - 1];
            first = begin < first ? begin : first;
            last = end > last ? end : last;
        }
    }
    for (size_t i = 0; i < t->step_count; i++) {
        first = t->step[i].start < first ? t->step[i].start : first;
        last = t->step[i].end != STORE_ABSENT && t->step[i].end > last ? t->step[i].end : last;
    }
    if (first <= last) {
        t->t0 = first;
        t->t1 = last;
    }
}

static int shift_all(struct clocks *x)
{
    struct an_trace *t = x->t;
    size_t off = 0, bases;
    int64_t *base;
    for (size_t k = 0; k < x->count; k++)
        off += x->clock[k].corrected;
    if (!off)
        return 0;
    if (find_bases(t, &base, &bases))
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < t->track_count; i++) {
        const struct clock *k = off_clock(x, t->track[i].process);
        if (k)
            shift_track(t, &t->track[i], k, base, bases);
    }
    for (size_t i = 0; i < t->step_count; i++) {
        const struct clock *k = off_clock(x, t->step[i].process);
        if (k) {
            t->step[i].start = right(k, t->step[i].start);
            t->step[i].end = right(k, t->step[i].end);
        }
    }
    for (uint32_t p = 0; p < t->process_count; p++) {
        const struct clock *k = off_clock(x, p);
        if (k) {
            t->process[p].start = right(k, t->process[p].start);
            t->process[p].end = right(k, t->process[p].end);
        }
    }
    free(base);
    window(t);
    return 0;
}

/* ---- what is said ------------------------------------------------------------------------------------------------------------------------ */

/* N of the node of a merged file whose host it is; -1: it was not merged, or is the reference's. */
static long node_of(const struct an_trace *t, const char *host)
{
    for (size_t i = 0; i < t->key_count; i++) {
        long n;
        char rest[8];
        if (sscanf(t->key[i].key, "node.%ld.%7s", &n, rest) == 2 && !strcmp(rest, "host") &&
            !strcmp(t->key[i].value, host))
            return n;
    }
    return -1;
}

static double node_number(const struct an_trace *t, long node, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "node.%ld.clock.%s", node, key);
    const char *value = an_trace_key(t, name);
    return value ? strtod(value, NULL) : NAN;
}

static struct an_value known(double v, const char *why)
{
    return isnan(v) ? an_num_none(why) : an_num(v);
}

/* As tacho merge left it. */
static void merged_row(const struct an_trace *t, struct an_arena *a, long node,
                       struct an_clock_row *row)
{
    char name[64];
    const char *none = "tacho merge could not tell";
    double error = node_number(t, node, "error_ns"), offset = node_number(t, node, "offset_ns"),
           drift = node_number(t, node, "drift_ppb");
    snprintf(name, sizeof name, "node.%ld.clock", node);
    const char *how = an_trace_key(t, name);
    row->how = how ? an_arena_format(a, "tacho merge: %.60s", how) : "tacho merge";
    row->offset_ns = known(offset, none);
    row->drift_ppm = known(isnan(offset) || !isnan(drift) ? drift / 1e3 : 0, none);
    row->error_ns = known(error, none);
    row->drift_error_ppm = an_num_none("tacho merge has it in the error");
    row->offset_low_ns = known(offset - error, none);
    row->offset_high_ns = known(offset + error, none);
    double matched = node_number(t, node, "matched");
    row->matched = isnan(matched) ? 0 : (int64_t)matched;
}

/* `offset` and `ppm`: what the times of the file have had already. */
static void fitted_row(const struct clock *k, struct an_clock_row *row, double offset, double ppm)
{
    offset += (double)k->fit.offset;
    row->how = "matched collectives";
    row->corrected = k->corrected;
    row->matched = k->fit.matched;
    row->offset_ns = an_num(offset);
    row->drift_ppm = an_num(k->fit.drift * PPM + ppm);
    row->drift_error_ppm = an_num(k->fit.drift_error * PPM);
    row->error_ns = an_num(k->fit.error);
    row->offset_low_ns = an_num(offset - k->fit.error);
    row->offset_high_ns = an_num(offset + k->fit.error);
}

static void one_row(const struct clocks *x, struct an_arena *a, size_t i, struct an_clock_row *row)
{
    const struct clock *k = &x->clock[i], *reference = &x->clock[0];
    const char *apart = "no collective in common with the lowest rank";
    bool one = *k->host && !strcmp(k->host, reference->host);
    long node = one || !i ? -1 : node_of(x->t, k->host);
    *row = (struct an_clock_row){.rank = k->rank, .host = an_arena_text(a, k->host)};
    if (k->corrected && node >= 0) { /* on top of what tacho merge did */
        struct an_clock_row before = {.rank = k->rank};
        merged_row(x->t, a, node, &before);
        fitted_row(k, row, before.offset_ns.valid ? before.offset_ns.value : 0,
                   before.drift_ppm.valid ? before.drift_ppm.value : 0);
    } else if (k->corrected) {
        fitted_row(k, row, 0, 0);
    } else if (!i || one) {
        row->how = i ? "the same clock" : "reference";
        row->offset_ns = row->drift_ppm = row->drift_error_ppm = row->error_ns =
            row->offset_low_ns = row->offset_high_ns = an_num(0);
    } else if (node >= 0) {
        merged_row(x->t, a, node, row);
    } else if (k->fitted) {
        fitted_row(k, row, 0, 0);
    } else {
        row->how = "not compared";
        row->offset_ns = row->drift_ppm = row->drift_error_ppm = row->error_ns =
            row->offset_low_ns = row->offset_high_ns = an_num_none(apart);
    }
}

static int report(const struct clocks *x, struct an_arena *a, struct an_clocks *out)
{
    struct an_clock_row *row = an_arena_zero(a, x->count + 1, sizeof *row);
    double error = 0;
    if (!row)
        return TACHO_ENOMEM;
    if (x->count < 2) {
        out->reason = "one rank: nothing to compare";
        out->error_ns = an_num_none(out->reason);
        return 0;
    }
    for (size_t i = 0; i < x->count; i++) {
        one_row(x, a, i, &row[i]);
        error = row[i].error_ns.valid && !isnan(error) ? fmax(error, row[i].error_ns.value) : NAN;
    }
    out->row = row;
    out->row_count = x->count;
    out->error_ns = isnan(error)
                        ? an_num_none("the clock of a rank on another host could not be compared")
                        : an_num(error);
    return 0;
}

int an_clocks_align(struct an_trace *t, struct an_arena *a, struct an_clocks *out)
{
    struct clocks x = {.t = t};
    int rc = find_clocks(&x);
    if (!rc && x.count > 1) {
        rc = find_parts(&x);
        if (!rc)
            order_parts(&x);
        rc = rc ? rc : fit_all(&x);
        rc = rc ? rc : shift_all(&x);
    }
    rc = rc ? rc : report(&x, a, out);
    free(x.clock);
    free(x.of);
    free(x.part);
    return rc;
}
