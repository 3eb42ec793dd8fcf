/* SPDX-License-Identifier: Apache-2.0
 *
 * What the edges between device ops and calls of the host are found with: calls that record, wait
 * and synchronise by their correlation, the rows of waits on streams, and the ops of each stream in
 * order of launch.
 */
#include "analyzers/device/device_edges.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"

/* ---- reading the trace ----------------------------------------------------------------------------------------------------- */

int64_t an_edge_number(const struct an_trace *t, size_t slice, const char *key)
{
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[slice]);
    const char *at = d ? d->payload : "";
    size_t n = strlen(key);
    for (at = strstr(at, key); at; at = strstr(at + 1, key)) {
        if (at[-1] != '"' || at[n] != '"') /* a payload begins with a brace */
            continue;
        const char *number = at + n + 1;
        number += strspn(number, " :");
        char *end;
        long long x = strtoll(number, &end, 10);
        return end == number || x < 0 ? STORE_ABSENT : x;
    }
    return STORE_ABSENT;
}

uint32_t an_call_outermost(const struct an_trace *t, uint32_t i)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t p = t->slice.parent[i]; p != AN_NONE && levels--; p = t->slice.parent[p]) {
        if (!an_category_is_call(an_slice_category(t, p)) || !an_slice_open_at(t, p, i))
            break;
        i = p;
    }
    return i;
}

static bool is_wanted(enum an_api_kind k)
{
    return k == AN_API_SYNC || k == AN_API_RECORD || k == AN_API_WAIT || k == AN_API_FREE;
}

/* Of every string: as a category 1 is a call, 2 a wait or synchronisation on a device. */
static uint8_t *read_categories(const struct an_trace *t)
{
    uint8_t *is = calloc(t->string_count + 1, 1);
    for (size_t i = 0; is && i < t->string_count; i++)
        is[i] = an_category_is_call(t->string[i]) ? 1 : !strcmp(t->string[i], "sync") ? 2 : 0;
    return is;
}

static int keep_call(struct an_edge_builder *b, uint32_t slice, uint32_t track)
{
    enum an_api_kind kind = an_slice_api(b->c->t, slice).kind;
    if (!is_wanted(kind))
        return 0;
    if (an_grow(&b->call, &b->call_room, b->call_count + 1, sizeof *b->call))
        return TACHO_ENOMEM;
    b->call[b->call_count++] = (struct an_edge_call){slice, track, kind};
    return 0;
}

static int keep_row(struct an_edge_builder *b, uint32_t slice, uint32_t track)
{
    if (an_grow(&b->row, &b->row_room, b->row_count + 1, sizeof *b->row) ||
        an_grow(&b->row_track, &b->row_track_room, b->row_count + 1, sizeof *b->row_track))
        return TACHO_ENOMEM;
    b->row[b->row_count] = slice;
    b->row_track[b->row_count++] = track;
    return 0;
}

static int read_rows(struct an_edge_builder *b)
{
    const struct an_trace *t = b->c->t;
    uint8_t *is = read_categories(t);
    int rc = is ? 0 : TACHO_ENOMEM;
    for (uint32_t k = 0; k < t->track_count && !rc; k++) {
        const struct an_track *s = &t->track[k];
        bool stream = !strcmp(s->kind, "stream");
        for (size_t i = s->slice_first; i < s->slice_first + s->slice_count && !rc; i++) {
            uint32_t category = t->slice.category[i];
            if (category == AN_NONE || !is[category])
                continue;
            if (stream && is[category] == 2)
                rc = keep_row(b, (uint32_t)i, k);
            else if (!stream && is[category] == 1)
                rc = keep_call(b, (uint32_t)i, k);
        }
    }
    free(is);
    return rc;
}

/* ---- calls by correlation --------------------------------------------------------------------------------------------------- */

static int call_order(const struct an_edge_builder *b, const struct an_edge_call *x,
                      uint32_t process, int64_t correlation)
{
    const struct an_trace *t = b->c->t;
    uint32_t p = t->track[x->track].process;
    int64_t own = t->slice.correlation[x->slice];
    if (p != process)
        return p < process ? -1 : 1;
    return (own > correlation) - (own < correlation);
}

static int by_correlation(const void *x, const void *y, void *ctx)
{
    const struct an_edge_builder *b = ctx;
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct an_trace *t = b->c->t;
    const struct an_edge_call *other = &b->call[k];
    int order = call_order(b, &b->call[i], t->track[other->track].process,
                           t->slice.correlation[other->slice]);
    return order ? order : (i > k) - (i < k);
}

static int index_calls(struct an_edge_builder *b)
{
    const struct an_trace *t = b->c->t;
    if (!(b->by_correlation = malloc((b->call_count + 1) * sizeof *b->by_correlation)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < b->call_count; i++)
        if (t->slice.correlation[b->call[i].slice] != STORE_ABSENT)
            b->by_correlation[b->correlated++] = (uint32_t)i;
    if (b->correlated)
        qsort_r(b->by_correlation, b->correlated, sizeof *b->by_correlation, by_correlation, b);
    return 0;
}

uint32_t an_edge_call_of(const struct an_edge_builder *b, uint32_t process, int64_t correlation)
{
    size_t low = 0, high = b->correlated;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (call_order(b, &b->call[b->by_correlation[middle]], process, correlation) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = correlation != STORE_ABSENT && low < b->correlated &&
                 !call_order(b, &b->call[b->by_correlation[low]], process, correlation);
    return found ? b->call[b->by_correlation[low]].slice : AN_NONE;
}

/* ---- ops by stream ---------------------------------------------------------------------------------------------------------- */

/* Sorts tracks by process; *of gets the first of each process. */
static int group_tracks(struct an_context *c, uint32_t *track, size_t n, size_t **of)
{
    const struct an_trace *t = c->t;
    size_t *first = *of = an_arena_zero(c->work, t->process_count + 3, sizeof *first);
    uint32_t *copy = malloc((n + 1) * sizeof *copy);
    if (first && copy) {
        for (size_t i = 0; i < n; i++)
            first[an_edge_process(t, copy[i] = track[i]) + 2]++;
        for (size_t p = 0; p <= t->process_count; p++)
            first[p + 2] += first[p + 1];
        for (size_t i = 0; i < n; i++)
            track[first[an_edge_process(t, copy[i]) + 1]++] = copy[i];
    }
    free(copy);
    return first && copy ? 0 : TACHO_ENOMEM;
}

static int order_streams(struct an_edge_builder *b)
{
    const struct an_devices *g = b->c->gpu;
    size_t tracks = b->c->t->track_count, streams = 0;
    b->first = calloc(tracks + 2, sizeof *b->first);
    b->op = malloc((g->op.count + 1) * sizeof *b->op);
    b->stream = malloc((tracks + 1) * sizeof *b->stream);
    if (!b->first || !b->op || !b->stream)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < g->op.count; i++)
        if (g->op.launch[i] != AN_NONE)
            b->first[g->op.track[i] + 2]++;
    for (uint32_t k = 0; k < tracks; k++) {
        if (b->first[k + 2])
            b->stream[streams++] = k;
        b->first[k + 2] += b->first[k + 1];
    }
    for (size_t d = 0; d < g->device_count; d++)
        for (size_t i = g->device[d].first; i < g->device[d].first + g->by_launch_known[d]; i++)
            if (g->op.launch[g->by_launch[i]] != AN_NONE)
                b->op[b->first[g->op.track[g->by_launch[i]] + 1]++] = g->by_launch[i];
    return group_tracks(b->c, b->stream, streams, &b->stream_of);
}

uint32_t an_edge_stream(const struct an_edge_builder *b, uint32_t like, int64_t tid)
{
    const struct an_trace *t = b->c->t;
    size_t p = an_edge_process(t, like);
    for (size_t i = b->stream_of[p]; i < b->stream_of[p + 1]; i++) {
        const struct an_track *s = &t->track[b->stream[i]];
        if (s->tid == tid && !strcmp(s->device, t->track[like].device))
            return b->stream[i];
    }
    return AN_NONE;
}

size_t an_edge_launched(const struct an_edge_builder *b, uint32_t track, int64_t time)
{
    size_t low = b->first[track], high = b->first[track + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (an_device_launch_time(b->c, b->op[middle]) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int chain_streams(struct an_edge_builder *b)
{
    const struct an_device_ops *op = &b->c->gpu->op;
    struct an_device_edges *e = b->e;
    e->before = an_arena_zero(b->c->work, op->count, sizeof *e->before);
    e->unresolved = an_arena_zero(b->c->work, op->count, 1);
    uint32_t *last = malloc((b->c->t->track_count + 1) * sizeof *last);
    if (e->before && last) {
        memset(last, 0xff, (b->c->t->track_count + 1) * sizeof *last);
        for (size_t i = 0; i < op->count; i++) {
            e->before[i] = last[op->track[i]];
            last[op->track[i]] = (uint32_t)i;
        }
    }
    free(last);
    return e->before && e->unresolved && last ? 0 : TACHO_ENOMEM;
}

/* ---- the edges --------------------------------------------------------------------------------------------------------------- */

int an_edge_add(struct an_edge_builder *b, uint32_t from, uint32_t to, bool inferred)
{
    if (an_grow(&b->pair, &b->pair_room, b->pair_count + 1, sizeof *b->pair))
        return TACHO_ENOMEM;
    b->pair[b->pair_count++] = (struct an_edge_pair){from, to, inferred};
    return 0;
}

int an_edge_add_sync(struct an_edge_builder *b, uint32_t op, uint32_t call, bool inferred)
{
    struct an_device_edges *e = b->e;
    if (an_grow(&e->sync, &b->sync_room, e->sync_count + 1, sizeof *e->sync))
        return TACHO_ENOMEM;
    e->sync[e->sync_count++] =
        (struct an_sync_edge){op, an_call_outermost(b->c->t, call), inferred};
    return 0;
}

static int pair_order(const void *x, const void *y)
{
    const struct an_edge_pair *a = x, *b = y;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->inferred - b->inferred;
}

static int sync_edge_order(const void *x, const void *y)
{
    const struct an_sync_edge *a = x, *b = y;
    if (a->call != b->call)
        return a->call < b->call ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return a->inferred - b->inferred;
}

static int list_tracks(struct an_context *c, struct an_device_edges *e)
{
    size_t n = 0;
    if (!(e->sync_track = an_arena_zero(c->work, c->t->track_count, sizeof *e->sync_track)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < e->sync_count; i++) { /* slices stand track by track */
        uint32_t k = an_slice_track(c->t, e->sync[i].call);
        if (!n || e->sync_track[n - 1] != k)
            e->sync_track[n++] = k;
    }
    return group_tracks(c, e->sync_track, n, &e->sync_of);
}

/* Sorts the edges, drops doubles (one that is recorded stays) and makes them columns. */
static int finish(struct an_edge_builder *b)
{
    struct an_device_edges *e = b->e;
    size_t ops = b->c->gpu->op.count, n = 0;
    if (b->pair_count)
        qsort(b->pair, b->pair_count, sizeof *b->pair, pair_order);
    for (size_t i = 0; i < b->pair_count; i++)
        if (!n || b->pair[i].to != b->pair[n - 1].to || b->pair[i].from != b->pair[n - 1].from)
            b->pair[n++] = b->pair[i];
    e->count = n;
    e->from = an_arena_zero(b->c->work, n, sizeof *e->from);
    e->inferred = an_arena_zero(b->c->work, n, 1);
    e->first = an_arena_zero(b->c->work, ops + 1, sizeof *e->first);
    if (!e->from || !e->inferred || !e->first)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        e->from[i] = b->pair[i].from;
        e->inferred[i] = b->pair[i].inferred;
        e->inferred_count += b->pair[i].inferred;
        e->first[b->pair[i].to + 1]++;
    }
    e->recorded = n - e->inferred_count;
    e->waits = b->row_count > 0;
    for (size_t i = 0; i < b->call_count; i++)
        e->waits = e->waits || b->call[i].kind == AN_API_WAIT || b->call[i].kind == AN_API_SYNC;
    for (size_t i = 0; i < ops; i++) {
        e->first[i + 1] += e->first[i];
        e->unresolved_count += e->unresolved[i];
    }
    if (e->sync_count)
        qsort(e->sync, e->sync_count, sizeof *e->sync, sync_edge_order);
    n = 0;
    for (size_t i = 0; i < e->sync_count; i++)
        if (!n || e->sync[i].call != e->sync[n - 1].call || e->sync[i].op != e->sync[n - 1].op)
            e->sync[n++] = e->sync[i];
    e->sync_count = n;
    struct an_sync_edge *grown = e->sync;
    e->sync = an_arena_copy(b->c->work, grown, n * sizeof *grown);
    free(grown);
    return e->sync ? list_tracks(b->c, e) : TACHO_ENOMEM;
}

size_t an_sync_seek(const struct an_device_edges *e, size_t slice)
{
    size_t low = 0, high = e->sync_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->sync[middle].call < slice)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int an_device_edges_of(struct an_context *c, const struct an_device_edges **out)
{
    struct an_edge_builder b = {.c = c};
    *out = c->device_edges;
    if (c->device_edges)
        return 0;
    if (!(b.e = an_arena_zero(c->work, 1, sizeof *b.e)))
        return TACHO_ENOMEM;
    int rc = read_rows(&b);
    rc = rc ? rc : index_calls(&b);
    rc = rc ? rc : order_streams(&b);
    rc = rc ? rc : chain_streams(&b);
    rc = rc ? rc : an_edges_waits(&b);
    rc = rc ? rc : an_edges_syncs(&b);
    if (rc)
        free(b.e->sync);
    rc = rc ? rc : finish(&b);
    free(b.call);
    free(b.by_correlation);
    free(b.row);
    free(b.row_track);
    free(b.op);
    free(b.first);
    free(b.stream);
    free(b.pair);
    if (!rc)
        *out = c->device_edges = b.e;
    return rc;
}
