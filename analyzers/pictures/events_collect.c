/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the events of the tracks of a zoomable timeline. Events that share name, FLOPs, bytes, type
 * and pass are of one kind, so that a page stores these once.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/budget/budget.h"
#include "analyzers/pictures/events_private.h"
#include "analyzers/pictures/timeline_private.h"

#define SLOTS_LEAST 1024

/* ---- kinds ----------------------------------------------------------------------------------- */

static const struct an_detail no_detail = {.flops = STORE_ABSENT,
                                           .bytes_read = STORE_ABSENT,
                                           .bytes_written = STORE_ABSENT,
                                           .bytes = STORE_ABSENT,
                                           .dtype = "",
                                           .pass = ""};

static const struct an_detail *detail_of(const struct an_trace *trace, uint32_t detail)
{
    const struct an_detail *found = an_trace_detail(trace, detail);
    return found ? found : &no_detail;
}

/* What a kind of event moves: reads and writes of an operation, else the bytes of a transfer. */
static int64_t bytes_of(const struct an_detail *detail)
{
    if (detail->bytes_read != STORE_ABSENT && detail->bytes_written != STORE_ABSENT)
        return an_time_add(detail->bytes_read, detail->bytes_written);
    return detail->bytes;
}

static bool same_kind(const struct an_trace *trace, const struct an_events_key *left,
                      const struct an_events_key *right)
{
    const struct an_detail *first = detail_of(trace, left->detail),
                           *second = detail_of(trace, right->detail);
    return left->name == right->name &&
           (first == second ||
            (first->flops == second->flops && bytes_of(first) == bytes_of(second) &&
             !strcmp(first->dtype, second->dtype) && !strcmp(first->pass, second->pass)));
}

static size_t hash_of(const struct an_trace *trace, const struct an_events_key *key)
{
    const struct an_detail *detail = detail_of(trace, key->detail);
    uint64_t hash = key->name * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (uint64_t)detail->flops) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (uint64_t)bytes_of(detail)) * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 20);
}

/* The free slot of a key, or the one that has its kind. */
static size_t find_slot(const struct an_events_work *work, const struct an_events_key *key)
{
    const struct an_trace *trace = work->context->trace;
    size_t at = hash_of(trace, key) & (work->slots - 1);
    while (work->slot[at] && !same_kind(trace, &work->key[work->slot[at] - 1], key))
        at = (at + 1) & (work->slots - 1);
    return at;
}

/* Keeps half of the slots free. */
static int grow_slots(struct an_events_work *work)
{
    if (2 * (work->key_count + 1) <= work->slots)
        return 0;
    size_t slots = work->slots ? 2 * work->slots : SLOTS_LEAST;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return TACHO_ENOMEM;
    free(work->slot);
    work->slot = slot;
    work->slots = slots;
    for (size_t i = 0; i < work->key_count; i++)
        work->slot[find_slot(work, &work->key[i])] = (uint32_t)i + 1;
    return 0;
}

/* *kind: the number of the kind of a slice. 0 or TACHO_ENOMEM. */
static int kind_of(struct an_events_work *work, size_t slice, uint32_t *kind)
{
    const struct an_slices *slices = &work->context->trace->slice;
    struct an_events_key key = {slices->name[slice], slices->detail[slice]};
    int rc = grow_slots(work);
    if (rc)
        return rc;
    size_t at = find_slot(work, &key);
    if (!work->slot[at]) {
        rc = an_grow(&work->key, &work->key_room, work->key_count + 1, sizeof *work->key);
        if (rc)
            return rc;
        work->key[work->key_count++] = key;
        work->slot[at] = (uint32_t)work->key_count;
    }
    *kind = work->slot[at] - 1;
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int add(struct an_events_work *work, size_t slice, int64_t start, int64_t end, int what)
{
    uint32_t kind = 0;
    start = start > work->t0 ? start : work->t0;
    end = end < work->t1 ? end : work->t1;
    if (end <= start)
        return 0;
    int rc = kind_of(work, slice, &kind);
    if (!rc)
        rc = an_grow(&work->event, &work->room, work->count + 1, sizeof *work->event);
    if (!rc)
        work->event[work->count++] =
            (struct an_event){start - work->t0, end - start, kind, (uint32_t)what};
    return rc;
}

static int add_frame(void *to, const struct an_timeline_frame *frame, size_t depth)
{
    (void)depth;
    return add(to, frame->slice, frame->start, frame->end, an_timeline_class(frame->class_ns));
}

static int collect_thread(struct an_events_work *work, const struct an_events_track *shown)
{
    const struct an_trace *trace = work->context->trace;
    uint32_t mark = AN_NONE;
    if (work->typical && work->typical->slice != AN_NONE)
        mark = trace->slice.name[work->typical->slice];
    return an_timeline_sweep(&(struct an_timeline_sweep){.context = work->context,
                                                         .t0 = work->t0,
                                                         .t1 = work->t1,
                                                         .mark = mark,
                                                         .waits = shown->order > 0,
                                                         .drives = shown->drives,
                                                         .leave = add_frame,
                                                         .to = work},
                             &trace->track[shown->track]);
}

static int collect_stream(struct an_events_work *work, uint32_t track)
{
    const struct an_devices *gpu = work->context->gpu;
    int rc = 0;
    for (size_t k = 0; gpu && k < gpu->device_count; k++) {
        const struct an_device *device = &gpu->device[k];
        for (size_t i = device->first;
             i < an_device_end(device) && gpu->op.start[i] < work->t1 && !rc; i++)
            if (gpu->op.track[i] == track)
                rc = add(work, gpu->op.slice[i], gpu->op.start[i], gpu->op.end[i],
                         an_timeline_op_class(gpu->op.class[i]));
    }
    return rc;
}

/* Tracks whose ranges do not nest. */
static int collect_flat(struct an_events_work *work, const struct an_track *track)
{
    const struct an_trace *trace = work->context->trace;
    int rc = 0;
    for (size_t i = track->slice_first;
         i < an_track_end(track) && trace->slice.start[i] < work->t1 && !rc; i++)
        if (trace->slice.dur[i] != AN_OPEN && an_slice_role(trace, i) != AN_ROLE_QUEUE_WAIT)
            rc = add(work, i, trace->slice.start[i], an_slice_end(trace, i),
                     an_class_of_role(an_slice_role(trace, i), AN_CLASS_HOST));
    return rc;
}

/* By start; of equal starts the longer first, so that it is around the other. */
static int event_order(const void *left, const void *right)
{
    const struct an_event *first = left, *second = right;
    return 2 * AN_COMPARE(first->start_ns, second->start_ns) +
           AN_COMPARE(second->dur_ns, first->dur_ns);
}

int an_events_collect(struct an_events_work *work, size_t i, struct an_event_track *out)
{
    const struct an_events_track *shown = &work->track[i];
    const struct an_track *track = &work->context->trace->track[shown->track];
    size_t before = work->count;
    int rc;
    if (!strcmp(track->kind, "stream"))
        rc = collect_stream(work, shown->track);
    else if (!strcmp(track->kind, "thread"))
        rc = collect_thread(work, shown);
    else
        rc = collect_flat(work, track);
    out->count = work->count - before;
    if (out->count)
        qsort(work->event + before, out->count, sizeof *work->event, event_order);
    return rc;
}

/* ---- the result ------------------------------------------------------------------------------ */

static int longest_first(const void *left, const void *right)
{
    return AN_COMPARE(*(const int64_t *)right, *(const int64_t *)left);
}

/* The shortest duration of an event that is kept. 0 or TACHO_ENOMEM. */
static int find_least(const struct an_events_work *work, int64_t *least)
{
    *least = 0;
    if (work->count <= AN_EVENTS_MOST)
        return 0;
    int64_t *duration = malloc(work->count * sizeof *duration);
    if (!duration)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < work->count; i++)
        duration[i] = work->event[i].dur_ns;
    qsort(duration, work->count, sizeof *duration, longest_first);
    *least = duration[AN_EVENTS_MOST] + 1;
    free(duration);
    return 0;
}

static int keep_kinds(struct an_events_work *work)
{
    const struct an_trace *trace = work->context->trace;
    struct an_arena *arena = work->context->arena;
    struct an_event_kind *kind = an_arena_zero(arena, work->key_count, sizeof *kind);
    if (!kind)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < work->key_count; i++) {
        const struct an_detail *detail = detail_of(trace, work->key[i].detail);
        kind[i] = (struct an_event_kind){
            .name = an_arena_text(arena, an_trace_name(trace, work->key[i].name)),
            .dtype = an_arena_text(arena, detail->dtype),
            .pass = an_arena_text(arena, detail->pass),
            .flops = detail->flops,
            .bytes = bytes_of(detail)};
    }
    work->context->result->events.kind = kind;
    work->context->result->events.kind_count = work->key_count;
    return 0;
}

int an_events_finish(struct an_events_work *work)
{
    struct an_events *events = &work->context->result->events;
    struct an_event_track *track = (struct an_event_track *)events->track; /* made by events.c */
    int64_t least;
    int rc = find_least(work, &least);
    size_t kept = 0, from = 0;
    if (rc)
        return rc;
    for (size_t i = 0; i < events->track_count; i++) {
        size_t before = kept, until = from + track[i].count;
        for (; from < until; from++)
            if (work->event[from].dur_ns >= least)
                work->event[kept++] = work->event[from];
        track[i].count = kept - before;
    }
    struct an_event *event =
        an_arena_copy(work->context->arena, work->event, kept * sizeof *work->event);
    if (kept && !event)
        return TACHO_ENOMEM;
    for (size_t i = 0, at = 0; i < events->track_count; at += track[i++].count)
        track[i].event = event + at;
    events->omitted = (int64_t)(work->count - kept);
    events->least_ns = least;
    return keep_kinds(work);
}

void an_events_free(struct an_events_work *work)
{
    free(work->event);
    free(work->key);
    free(work->slot);
}
