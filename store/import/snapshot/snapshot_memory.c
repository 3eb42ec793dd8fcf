/* SPDX-License-Identifier: Apache-2.0
 *
 * The books of PyTorch's caching allocator: events of its history become the life of each block and
 * each segment, and the totals over time. A block that was allocated before the history began, and
 * one that is still held at its end, get the time of the first event as their start and no end.
 *
 * Times are us; events of one us are kept apart by the ns, so that their order survives.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/snapshot/snapshot_private.h"

/* ---- series ----------------------------------------------------------------------------------------------------------------- */

/* Keeps the totals after an event: all of them at first, then every second, every fourth ... but
 * always a new peak. */
static int series_add(struct snapshot_device *device, int64_t time, bool always)
{
    struct snapshot_series *series = &device->series;
    if (!series->time) {
        series->time = calloc(2 * SNAPSHOT_SERIES, sizeof *series->time);
        series->allocated = calloc(2 * SNAPSHOT_SERIES, sizeof *series->allocated);
        series->reserved = calloc(2 * SNAPSHOT_SERIES, sizeof *series->reserved);
        series->skip = 1;
    }
    if (!series->time || !series->allocated || !series->reserved)
        return TACHO_ENOMEM;
    if (!always && ++series->skipped < series->skip)
        return 0;
    series->skipped = 0;
    if (series->count == 2 * SNAPSHOT_SERIES) { /* keeps the higher one of each pair */
        for (size_t i = 0; i < SNAPSHOT_SERIES; i++) {
            size_t from = 2 * i + (series->allocated[2 * i + 1] > series->allocated[2 * i]);
            series->time[i] = series->time[from];
            series->allocated[i] = series->allocated[from];
            series->reserved[i] = series->reserved[from];
        }
        series->count = SNAPSHOT_SERIES;
        series->skip *= 2;
    }
    series->time[series->count] = time;
    series->allocated[series->count] = device->allocated;
    series->reserved[series->count++] = device->reserved;
    return 0;
}

/* Writes the series with what was there before the first event. */
static int series_write(struct snapshot *snapshot, int64_t number)
{
    struct snapshot_device *device = &snapshot->device[number];
    int64_t allocated = device->allocated_end - device->allocated,
            reserved = device->reserved_end - device->reserved, track[2];
    char name[32];
    snprintf(name, sizeof name, "gpu:%" PRId64, number);
    int rc = imp_rows_counter_track(&snapshot->rows, 2 * number, name, "memory.allocated", "bytes",
                                    &track[0]);
    if (!rc)
        rc = imp_rows_counter_track(&snapshot->rows, 2 * number + 1, name, "memory.reserved",
                                    "bytes", &track[1]);
    for (size_t i = 0; i < device->series.count && !rc; i++) {
        rc = imp_rows_counter(&snapshot->rows, track[0], device->series.time[i],
                              (double)(device->series.allocated[i] + allocated));
        if (!rc)
            rc = imp_rows_counter(&snapshot->rows, track[1], device->series.time[i],
                                  (double)(device->series.reserved[i] + reserved));
    }
    return rc;
}

/* ---- events of the history -------------------------------------------------------------------------------------------------- */

enum action {
    ACTION_ALLOC,
    ACTION_FREE_REQUESTED,
    ACTION_FREE_COMPLETED,
    ACTION_SEGMENT_ALLOC,
    ACTION_SEGMENT_FREE,
    ACTION_SEGMENT_MAP,
    ACTION_SEGMENT_UNMAP,
    ACTION_OOM,
    ACTION_OTHER
};

/* What an event is; noted in the text, which most events share. */
static enum action action_of(struct pickle_text *text)
{
    static const char *const names[] = {
        "alloc",        "free_requested", "free_completed", "segment_alloc",
        "segment_free", "segment_map",    "segment_unmap",  "oom"};
    int action = ACTION_ALLOC;
    if (text->note)
        return (enum action)(text->note - 1);
    while (action < ACTION_OTHER && strcmp(text->text, names[action]) != 0)
        action++;
    text->note = action + 1;
    return (enum action)action;
}

/* The end of a block or segment, which may have begun before the history. */
static int end_life(struct snapshot *snapshot, int64_t device, int64_t address, bool segment,
                    int64_t bytes, int64_t stream, int64_t time)
{
    struct snapshot_lives *lives = segment ? &snapshot->segments : &snapshot->blocks;
    int64_t *index = imp_map_find(&lives->at, address, device);
    const struct snapshot_live *known = index && *index >= 0 ? &lives->live[*index] : NULL;
    struct snapshot_live before = {.start = snapshot->device[device].first,
                                   .bytes = bytes,
                                   .block = STORE_ABSENT,
                                   .stack = {STORE_ABSENT, snapshot->no_stack},
                                   .stream = stream,
                                   .large = bytes > 2 << 20};
    int rc = snapshot_put_life(snapshot, device, address, segment, known ? known : &before, time);
    return rc ? rc : snapshot_lives_remove(lives, index);
}

/* The program ran out of memory. */
static int put_oom(struct snapshot *snapshot, int64_t device, const struct pickle_box *dict,
                   const struct snapshot_live *live)
{
    struct store_detail detail = STORE_DETAIL_NONE;
    struct imp_slice slice = {.start = live->start,
                              .dur = 0,
                              .name = live->stack.name,
                              .category = "memory.oom",
                              .detail = &detail,
                              .correlation = STORE_ABSENT};
    char gpu[32], payload[160];
    int64_t room = pickle_int(dict, "device_free");
    int length = snprintf(payload, sizeof payload, "{\"stream\":%" PRId64, live->stream);
    if (room >= 0)
        length += snprintf(payload + length, sizeof payload - (size_t)length,
                           ",\"device_free\":%" PRId64, room);
    if (live->pool[0] || live->pool[1])
        length += snprintf(payload + length, sizeof payload - (size_t)length,
                           ",\"pool\":[%" PRId64 ",%" PRId64 "]", live->pool[0], live->pool[1]);
    snprintf(payload + length, sizeof payload - (size_t)length, "}");
    snprintf(gpu, sizeof gpu, "gpu:%" PRId64, device);
    detail.schema = "torch.oom";
    detail.bytes = live->bytes;
    detail.payload = payload;
    int rc = imp_rows_range(&snapshot->rows, 2 * device, gpu, "blocks", &slice.track);
    return rc ? rc : imp_rows_slice(&snapshot->rows, &slice);
}

/* A new block or segment. What was at its address before ended unnoticed: its end is not known. */
static int begin_life(struct snapshot *snapshot, int64_t device, int64_t address, bool segment,
                      struct snapshot_live live)
{
    struct snapshot_lives *lives = segment ? &snapshot->segments : &snapshot->blocks;
    int rc = 0;
    if (snapshot_lives_find(lives, address, device))
        rc = end_life(snapshot, device, address, segment, live.bytes, live.stream, live.start);
    return rc ? rc : snapshot_lives_add(lives, address, device, live);
}

/* Applies one event to the totals and the lives. */
static int apply(struct snapshot *snapshot, int64_t number, enum action action, int64_t address,
                 struct snapshot_live live)
{
    struct snapshot_device *device = &snapshot->device[number];
    struct snapshot_live *known = snapshot_lives_find(&snapshot->blocks, address, number);
    int64_t bytes = live.bytes;
    switch (action) {
    case ACTION_ALLOC:
        device->allocated += bytes;
        return begin_life(snapshot, number, address, false, live);
    case ACTION_FREE_REQUESTED:
        device->allocated -= bytes;
        if (known) {
            known->freed = live.start;
            return 0;
        }
        live.start = device->first; /* from before the history */
        live.begun = false;
        live.freed = device->last;
        live.stack = (struct snapshot_stack){STORE_ABSENT, snapshot->no_stack};
        return snapshot_lives_add(&snapshot->blocks, address, number, live);
    case ACTION_FREE_COMPLETED:
        if (!known || known->freed == STORE_ABSENT)
            device->allocated -= bytes;
        return end_life(snapshot, number, address, false, bytes, live.stream, live.start);
    case ACTION_SEGMENT_ALLOC:
        device->reserved += bytes;
        return begin_life(snapshot, number, address, true, live);
    case ACTION_SEGMENT_FREE:
        device->reserved -= bytes;
        return end_life(snapshot, number, address, true, bytes, live.stream, live.start);
    case ACTION_SEGMENT_MAP:
        device->reserved += bytes;
        live.expandable = true;
        if (address < 0 || address > INT64_MAX - bytes) /* no address: counted, not kept */
            return 0;
        return begin_life(snapshot, number, address, true, live);
    case ACTION_SEGMENT_UNMAP:
        device->reserved -= bytes;
        return snapshot_unmap(snapshot, number, address, live);
    default:
        return 0;
    }
}

/* The id of the pool that a segment is of, or that an event of newer versions names. */
static void read_pool(const struct pickle_box *dict, struct snapshot_live *live)
{
    const struct pickle_box *id = pickle_list(dict, "segment_pool_id");
    id = id ? id : pickle_list(dict, "pool_id");
    for (size_t i = 0; id && id->count == 2 && i < 2; i++)
        if (id->value[i].type == PICKLE_INT)
            live->pool[i] = id->value[i].number;
}

int snapshot_event(struct snapshot *snapshot, const struct pickle_box *dict, size_t number)
{
    enum action action = action_of(pickle_text(dict, "action"));
    int64_t address = pickle_int(dict, "addr"), time = pickle_int(dict, "time_us");
    struct snapshot_live live = {.bytes = pickle_int(dict, "size"),
                                 .block = STORE_ABSENT,
                                 .stream = pickle_int(dict, "stream"),
                                 .freed = STORE_ABSENT};
    snapshot->rows.run->events++;
    number = number < SNAPSHOT_DEVICES ? number : SNAPSHOT_DEVICES - 1;
    struct snapshot_device *device = &snapshot->device[number];
    if (action == ACTION_OTHER)
        return 0;
    if (live.bytes < 0 || live.bytes > INT64_MAX / 1024 || (time != STORE_ABSENT && time < 0) ||
        time > IMP_TIME_MAX / 1000 || llabs(device->allocated) > INT64_MAX / 4) {
        snapshot->rows.bad_time++;
        return 0;
    }
    /* Before PyTorch 2.1 events have no time: their order is the time. */
    time = time == STORE_ABSENT ? device->events * 1000 : time * 1000;
    if (!device->used) {
        device->first = time;
        device->last = time;
    }
    live.begun = !device->used;
    device->used = true;
    device->events++;
    device->last = time > device->last ? time : device->last + 1;
    live.start = device->last;
    live.large = live.bytes > 2 << 20;
    live.stream = live.stream < 0 ? 0 : live.stream;
    read_pool(dict, &live);
    int rc = snapshot_stack(snapshot, pickle_list(dict, "frames"), &live.stack);
    if (!rc && action == ACTION_OOM)
        return put_oom(snapshot, (int64_t)number, dict, &live);
    if (!rc)
        rc = apply(snapshot, (int64_t)number, action, address, live);
    bool peak = device->allocated > device->peak;
    device->peak = peak ? device->allocated : device->peak;
    return rc ? rc : series_add(device, device->last, peak || action >= ACTION_SEGMENT_ALLOC);
}

/* ---- segments at the time of the snapshot ----------------------------------------------------------------------------------- */

int snapshot_block(struct snapshot *snapshot, const struct pickle_box *dict)
{
    const struct pickle_text *state = pickle_text(dict, "state");
    struct snapshot_block block = {.address = pickle_int(dict, "address"),
                                   .bytes = pickle_int(dict, "size"),
                                   .requested = pickle_int(dict, "requested_size"),
                                   .active = state && !strncmp(state->text, "active", 6),
                                   .allocated = state && !strcmp(state->text, "active_allocated")};
    struct pickle_box *frames = pickle_list(dict, "frames"),
                      *history = pickle_list(dict, "history");
    /* PyTorch 2.0: what the block holds is the first entry of what it held. */
    if (!frames && history && history->count && history->value[0].type == PICKLE_DICT) {
        frames = pickle_list(history->value[0].box, "frames");
        if (block.requested < 0)
            block.requested = pickle_int(history->value[0].box, "real_size");
    }
    int rc = snapshot_stack(snapshot, frames, &block.stack);
    if (!rc)
        rc = imp_list_room((void **)&snapshot->block, &snapshot->block_room, snapshot->block_count,
                           sizeof block);
    if (!rc)
        snapshot->block[snapshot->block_count++] = block;
    return rc;
}

int snapshot_segment(struct snapshot *snapshot, const struct pickle_box *dict)
{
    const struct pickle_text *type = pickle_text(dict, "segment_type");
    int64_t number = pickle_int(dict, "device"), address = pickle_int(dict, "address"),
            at = address;
    struct snapshot_final segment = {.address = address, .segment = true};
    int rc = 0;
    snapshot->segments_seen++;
    number = number >= 0 && number < SNAPSHOT_DEVICES ? number : 0;
    segment.device = number;
    segment.live = (struct snapshot_live){.bytes = pickle_int(dict, "total_size"),
                                          .block = STORE_ABSENT,
                                          .stack = {STORE_ABSENT, snapshot->no_stack},
                                          .stream = pickle_int(dict, "stream"),
                                          .large = !type || strcmp(type->text, "small") != 0,
                                          .expandable = pickle_int(dict, "is_expandable") == 1};
    if (segment.live.bytes < 0 || segment.live.bytes > INT64_MAX / 1024) {
        snapshot->rows.bad_time++;
        snapshot->block_count = 0;
        return 0;
    }
    segment.live.stream = segment.live.stream < 0 ? 0 : segment.live.stream;
    read_pool(dict, &segment.live);
    snapshot->device[number].reserved_end += segment.live.bytes;
    rc = snapshot_final_add(snapshot, segment);
    for (size_t i = 0; i < snapshot->block_count && !rc; i++) {
        const struct snapshot_block *block = &snapshot->block[i];
        struct snapshot_final final = {.address = block->address >= 0 ? block->address : at,
                                       .device = number,
                                       .live = segment.live};
        if (block->bytes < 0 || __builtin_add_overflow(at, block->bytes, &at))
            break;
        final.live.bytes = block->requested >= 0 ? block->requested : block->bytes;
        final.live.block = block->bytes;
        final.live.stack = block->stack;
        if (!block->active)
            continue;
        if (block->allocated)
            snapshot->device[number].allocated_end += final.live.bytes;
        rc = snapshot_final_add(snapshot, final);
    }
    snapshot->block_count = 0;
    return rc;
}

/* ---- annotations ---------------------------------------------------------------------------------------------------------------- */

/* Writes a range of the program; `dur` STORE_ABSENT: its end is not in the snapshot. */
static int put_annotation(struct snapshot *snapshot, int64_t name, int64_t start, int64_t dur)
{
    struct imp_slice slice = {.start = start,
                              .dur = dur,
                              .name = name,
                              .category = "annotation",
                              .correlation = STORE_ABSENT};
    int rc = imp_rows_thread(&snapshot->rows, 0, "annotations", &slice.track);
    return rc ? rc : imp_rows_slice(&snapshot->rows, &slice);
}

/* {"stage": "START", "name": ..., "time_us": ...}, later the same with "END": a range of the
 * program. An end belongs to the last open range of its name; one without a begin is left out. */
int snapshot_annotation(struct snapshot *snapshot, const struct pickle_box *dict)
{
    const struct pickle_text *name = pickle_text(dict, "name"), *stage = pickle_text(dict, "stage");
    int64_t time = pickle_int(dict, "time_us"), string;
    if (!name || !stage || time < 0 || time > IMP_TIME_MAX / 1000)
        return 0;
    time *= 1000;
    int rc = imp_rows_string(&snapshot->rows, name->text, name->bytes, &string);
    if (rc || !strcmp(stage->text, "START")) {
        if (rc || snapshot->range_count == SNAPSHOT_RANGES)
            return rc ? rc : put_annotation(snapshot, string, time, 0);
        snapshot->range[snapshot->range_count++] = (struct snapshot_range){string, time};
        return 0;
    }
    for (size_t i = snapshot->range_count; i-- > 0;) {
        struct snapshot_range range = snapshot->range[i];
        if (range.name != string)
            continue;
        memmove(&snapshot->range[i], &snapshot->range[i + 1],
                (--snapshot->range_count - i) * sizeof range);
        return put_annotation(snapshot, string, range.start,
                              time > range.start ? time - range.start : 0);
    }
    return 0;
}

/* ---- the end ---------------------------------------------------------------------------------------------------------------- */

/* Writes what is held at the time of the snapshot. The segments of the snapshot know the size of
 * the whole block; of what they do not list the history is the only word. */
static int write_held(struct snapshot *snapshot)
{
    int rc = snapshot_without_parts(snapshot);
    for (size_t i = 0; i < snapshot->final_count && !rc; i++) {
        struct snapshot_final *final = &snapshot->final[i];
        if (final->in_history)
            continue;
        struct snapshot_lives *lives = final->segment ? &snapshot->segments : &snapshot->blocks;
        const struct snapshot_device *device = &snapshot->device[final->device];
        const struct snapshot_live *known =
            snapshot_lives_find(lives, final->address, final->device);
        final->live.start = device->used ? device->first : 0;
        if (final->segment && final->live.expandable)
            known = NULL; /* a part at its beginning is a row of its own */
        if (known) {
            final->live.start = known->start;
            final->live.begun = known->begun;
            if (known->stack.id != STORE_ABSENT)
                final->live.stack = known->stack;
        }
        rc = snapshot_put_life(snapshot, final->device, final->address, final->segment,
                               &final->live, STORE_ABSENT);
        if (!rc && known)
            rc = snapshot_lives_remove(lives,
                                       imp_map_find(&lives->at, final->address, final->device));
    }
    for (int segment = 0; segment < 2 && !rc; segment++) {
        struct snapshot_lives *lives = segment ? &snapshot->segments : &snapshot->blocks;
        for (size_t i = 0; i < lives->at.cap && !rc; i++) {
            const struct imp_map_slot *slot = &lives->at.slot[i];
            if (slot->used && slot->value >= 0)
                rc = snapshot_put_life(snapshot, slot->second, slot->first, segment,
                                       &lives->live[slot->value], STORE_ABSENT);
        }
    }
    return rc;
}

int snapshot_finish(struct snapshot *snapshot)
{
    int rc = write_held(snapshot);
    for (int64_t number = 0; number < SNAPSHOT_DEVICES && !rc; number++)
        if (snapshot->device[number].used)
            rc = series_write(snapshot, number);
    for (size_t i = 0; i < snapshot->range_count && !rc; i++)
        rc = put_annotation(snapshot, snapshot->range[i].name, snapshot->range[i].start,
                            STORE_ABSENT);
    return rc;
}

void snapshot_memory_clear(struct snapshot *snapshot)
{
    for (size_t i = 0; i < SNAPSHOT_DEVICES; i++) {
        free(snapshot->device[i].series.time);
        free(snapshot->device[i].series.allocated);
        free(snapshot->device[i].series.reserved);
    }
    snapshot_lives_clear(&snapshot->blocks);
    snapshot_lives_clear(&snapshot->segments);
    free(snapshot->block);
    free(snapshot->final);
    imp_map_free(&snapshot->stacks);
    free(snapshot->known);
    imp_map_free(&snapshot->details);
    imp_map_free(&snapshot->groups);
    free(snapshot->group);
}
