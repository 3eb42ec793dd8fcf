/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronise calls: host time in which a thread waited for a device, a stream or an event, over
 * the whole capture, and the part of it in which nothing ran on any device of its process. A driver
 * call inside a runtime call is part of that one.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/steps/analyzer.h"

/* What ran on the devices of a process. */
struct busy {
    bool known, device; /* computed already; the process has devices */
    struct an_span *span;
    size_t count;
};

struct rows {
    struct an_sync_row *row;
    size_t count, room;
    uint32_t *of_name; /* row + 1 of each name */
};

static int busy_of(const struct an_context *c, uint32_t process, struct busy *b)
{
    const struct an_devices *g = c->gpu;
    b->known = true;
    for (size_t d = 0; d < g->device_count; d++) {
        struct an_span *span, *both;
        size_t n;
        if (g->device[d].process != process)
            continue;
        int rc =
            an_device_spans(c, &g->device[d], AN_DEVICE_ALL_MASK, INT64_MIN, INT64_MAX, &span, &n);
        if (rc)
            return rc;
        b->device = true;
        if (!b->count) {
            b->span = span;
            b->count = n;
            continue;
        }
        if (!(both = an_arena_zero(c->work, n + b->count, sizeof *both)))
            return TACHO_ENOMEM;
        b->count = an_spans_union(b->span, b->count, span, n, both);
        an_arena_give_back(c->work, b->span);
        an_arena_give_back(c->work, span);
        b->span = both;
    }
    return 0;
}

static bool is_sync(const struct an_trace *t, size_t i)
{
    return an_slice_api(t, i).kind == AN_API_SYNC && an_category_is_call(an_slice_category(t, i));
}

static int add_call(struct an_context *c, struct rows *r, size_t i, const struct busy *b)
{
    const struct an_trace *t = c->t;
    uint32_t name = t->slice.name[i];
    if (!r->of_name[name]) {
        if (an_grow(&r->row, &r->room, r->count + 1, sizeof *r->row))
            return TACHO_ENOMEM;
        r->row[r->count] = (struct an_sync_row){.name = an_arena_text(c->a, an_trace_name(t, name)),
                                                .idle_ns = an_int(0)};
        r->of_name[name] = (uint32_t)++r->count;
    }
    struct an_sync_row *x = &r->row[r->of_name[name] - 1];
    x->count++;
    if (t->slice.dur[i] == AN_OPEN)
        return 0;
    int64_t start = t->slice.start[i], dur = t->slice.dur[i];
    x->host_ns = an_time_add(x->host_ns, dur);
    x->max_ns = dur > x->max_ns ? dur : x->max_ns;
    if (!b->device)
        x->idle_ns = an_int_none("a process that waited has no device op in this file");
    else if (x->idle_ns.valid)
        x->idle_ns.value =
            an_time_add(x->idle_ns.value,
                        dur - an_spans_within(b->span, b->count, start, an_time_add(start, dur)));
    return 0;
}

static int sync_order(const void *x, const void *y)
{
    const struct an_sync_row *a = x, *b = y;
    if (a->host_ns != b->host_ns)
        return a->host_ns > b->host_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void syncs_absent(struct an_context *c, const char *reason)
{
    c->r->syncs.reason = reason;
}

static int syncs_run(struct an_context *c)
{
    const struct an_trace *t = c->t;
    struct rows r = {.of_name = calloc(t->string_count + 1, sizeof *r.of_name)};
    struct busy *busy = an_arena_zero(c->work, t->process_count + 1, sizeof *busy);
    int rc = r.of_name && busy ? 0 : TACHO_ENOMEM;
    for (size_t k = 0; k < t->track_count && !rc; k++) {
        const struct an_track *track = &t->track[k];
        uint32_t p = track->process;
        struct busy *b = &busy[p < t->process_count ? p : t->process_count];
        if (strcmp(track->kind, "thread") != 0)
            continue;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !rc;
             i++) {
            uint32_t parent = t->slice.parent[i];
            if (!is_sync(t, i) || (parent != AN_NONE && is_sync(t, parent)))
                continue;
            if (!b->known)
                rc = busy_of(c, p, b);
            rc = rc ? rc : add_call(c, &r, i, b);
        }
    }
    if (!rc && r.count) {
        qsort(r.row, r.count, sizeof *r.row, sync_order);
        c->r->sync = an_arena_copy(c->a, r.row, r.count * sizeof *r.row);
        c->r->sync_count = c->r->sync ? r.count : 0;
        rc = c->r->sync ? 0 : TACHO_ENOMEM;
    }
    for (size_t p = 0; busy && p <= t->process_count; p++)
        an_arena_give_back(c->work, busy[p].span);
    free(r.row);
    free(r.of_name);
    return rc;
}

const struct an_analyzer an_syncs = {
    "syncs", "host time in synchronise calls, and of it the time in which no device worked",
    AN_INPUT_DEVICES, syncs_run, syncs_absent};
