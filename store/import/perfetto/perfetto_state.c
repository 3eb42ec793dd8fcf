/* SPDX-License-Identifier: Apache-2.0
 *
 * What packets refer to: interned names and clocks of a writer, tracks of the trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/perfetto/perfetto_private.h"
#include "store/store.h"

#define MADE_UP_TID  (INT64_C(1) << 30) /* of tracks that are no threads */
#define ANCESTORS    16
#define CLOCK_BOOT   6
#define CLOCK_OF_OWN 64  /* from here on clocks belong to a writer */
#define CLOCK_OF_ALL 128 /* from here on to the trace */

enum { INTERNED_ID = 1, INTERNED_TEXT = 2 };
enum { INTERNED_VALUES = 29 };
enum { DEFAULTS_EVENT = 11, DEFAULTS_CLOCK = 58, EVENT_DEFAULTS_TRACK = 11 };
enum { SNAPSHOT_CLOCKS = 1, CLOCK_ID = 1, CLOCK_TIME = 2, CLOCK_RELATIVE = 3, CLOCK_UNIT = 4 };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5 };
enum { TRACK_COUNTER = 8, TRACK_STATIC_NAME = 10, TRACK_ATRACE_NAME = 13 };
enum { COUNTER_MULTIPLIER = 4, COUNTER_INCREMENTAL = 5 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6, PROCESS_LABELS = 8 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };

#define WRITERS_MOST 65536 /* whose names and clocks are remembered */
/* Bytes of a name: any number of events may have it by its number. Kernels of PyTorch are called by
 * their templates, in up to 5,000. */
#define TEXT_MOST 16384

/* ---- writers ----------------------------------------------------------------------------------- */

struct perfetto_sequence *perfetto_sequence_of(struct perfetto *perfetto, int64_t id)
{
    const int64_t *known = imp_map_find(&perfetto->sequence_of, id, 0);
    if (known)
        return &perfetto->sequence[*known];
    if (perfetto->sequence_count == WRITERS_MOST) {
        perfetto->writers_beyond++;
        perfetto_sequence_clear(&perfetto->forgotten);
        return &perfetto->forgotten;
    }
    if (imp_list_room((void **)&perfetto->sequence, &perfetto->sequence_room,
                      perfetto->sequence_count, sizeof *perfetto->sequence) ||
        imp_map_put(&perfetto->sequence_of, id, 0, (int64_t)perfetto->sequence_count))
        return NULL;
    return &perfetto->sequence[perfetto->sequence_count++];
}

void perfetto_sequence_clear(struct perfetto_sequence *sequence)
{
    for (int kind = 0; kind < PERFETTO_INTERNED_COUNT; kind++)
        imp_map_free(&sequence->interned[kind]);
    *sequence = (struct perfetto_sequence){.clears = sequence->clears + 1};
}

/* One entry of InternedData: a number and a text. */
static int intern_entry(struct perfetto *perfetto, struct imp_map *map, struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    struct pb_span text = {NULL, 0};
    int64_t id = 0, known;
    bool added;
    while (pb_next(&pb, &field)) {
        if (field.number == INTERNED_ID && field.wire == PB_VARINT)
            id = (int64_t)field.value;
        else if (field.number == INTERNED_TEXT && field.wire == PB_BYTES)
            text = field.span;
    }
    if (!text.bytes)
        return 0;
    int rc = store_intern_put(&perfetto->texts, text.data, text.bytes, &known, &added);
    return rc ? rc : imp_map_put(map, id, 0, known);
}

int perfetto_intern(struct perfetto *perfetto, struct perfetto_sequence *sequence,
                    struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    int rc = 0;
    while (!rc && pb_next(&pb, &field)) {
        uint32_t kind = field.number == INTERNED_VALUES ? PERFETTO_VALUE : field.number;
        if (kind == PERFETTO_VALUE && field.number != INTERNED_VALUES)
            continue;
        if (field.wire == PB_BYTES && kind && kind < PERFETTO_INTERNED_COUNT)
            rc = intern_entry(perfetto, &sequence->interned[kind], field.span);
    }
    return rc;
}

struct pb_span perfetto_text(const struct perfetto *perfetto, size_t text)
{
    if (!text || text > perfetto->texts.count)
        return (struct pb_span){NULL, 0};
    const struct store_intern_entry *entry = &perfetto->texts.entry[text - 1];
    return (struct pb_span){(const unsigned char *)perfetto->texts.arena + entry->offset,
                            entry->bytes < TEXT_MOST ? entry->bytes : TEXT_MOST};
}

struct pb_span perfetto_interned_text(const struct perfetto *perfetto,
                                      const struct perfetto_sequence *sequence,
                                      enum perfetto_interned kind, uint64_t number)
{
    const int64_t *text = imp_map_find(&sequence->interned[kind], (int64_t)number, 0);
    return perfetto_text(perfetto, text ? (size_t)*text : 0);
}

/* ---- clocks ------------------------------------------------------------------------------------ */

/* TracePacketDefaults: the clock and the track of packets that name none. */
void perfetto_defaults(struct perfetto_sequence *sequence, struct pb_span message)
{
    struct pb pb = pb_of(message), inner;
    struct pb_field field, deeper;
    while (pb_next(&pb, &field)) {
        if (field.number == DEFAULTS_CLOCK && field.wire == PB_VARINT)
            sequence->default_clock = (int64_t)(field.value & UINT32_MAX);
        if (field.number != DEFAULTS_EVENT || field.wire != PB_BYTES)
            continue;
        for (inner = pb_of(field.span); pb_next(&inner, &deeper);)
            if (deeper.number == EVENT_DEFAULTS_TRACK && deeper.wire == PB_VARINT) {
                sequence->default_track = deeper.value;
                sequence->has_default_track = true;
            }
    }
}

struct clock {
    int64_t id, time, unit;
    bool relative;
};

static struct clock clock_of(struct pb_span message)
{
    struct clock clock = {.unit = 1};
    struct pb pb = pb_of(message);
    struct pb_field field;
    while (pb_next(&pb, &field)) {
        if (field.number == CLOCK_ID)
            clock.id = (int64_t)(field.value & UINT32_MAX);
        else if (field.number == CLOCK_TIME)
            clock.time = field.value <= INT64_MAX / 4 ? (int64_t)field.value : 0;
        else if (field.number == CLOCK_RELATIVE)
            clock.relative = field.value != 0;
        else if (field.number == CLOCK_UNIT && field.value > 0 && field.value <= 1000000000)
            clock.unit = (int64_t)field.value;
    }
    return clock;
}

/* Where a clock is kept: with its writer, or for all of them. */
static struct perfetto_clocks *keeper_of(struct perfetto *perfetto,
                                         struct perfetto_sequence *sequence, int64_t id)
{
    return id >= CLOCK_OF_ALL ? &perfetto->clocks : &sequence->own;
}

/* NULL: it was not told of. */
static struct perfetto_clock *find_clock(struct perfetto_clocks *clocks, int64_t id)
{
    for (size_t i = 0; i < clocks->count; i++)
        if (clocks->clock[i].id == id)
            return &clocks->clock[i];
    return NULL;
}

/* Sets a clock, which showed its time when the trace's clock showed `boot`. */
static void set_clock(struct perfetto_clocks *clocks, const struct clock *clock, int64_t boot)
{
    struct perfetto_clock *kept = find_clock(clocks, clock->id);
    if (!kept && clocks->count == PERFETTO_CLOCKS)
        return;
    if (!kept)
        kept = &clocks->clock[clocks->count++];
    *kept =
        (struct perfetto_clock){.id = clock->id, .unit = clock->unit, .relative = clock->relative};
    if (__builtin_mul_overflow(clock->time, clock->unit, &kept->now) ||
        __builtin_sub_overflow(boot, kept->now, &kept->offset)) {
        kept->now = 0;
        kept->offset = boot;
    }
}

/* A ClockSnapshot: what other clocks showed when the boot clock showed a time; without a boot
 * clock, another one of the system. */
void perfetto_snapshot(struct perfetto *perfetto, struct perfetto_sequence *sequence,
                       struct pb_span message)
{
    struct clock clock;
    struct pb_field field;
    int64_t boot = 0;
    bool found = false;
    for (struct pb pb = pb_of(message); pb_next(&pb, &field);) {
        if (field.number != SNAPSHOT_CLOCKS || field.wire != PB_BYTES)
            continue;
        clock = clock_of(field.span);
        if (clock.id == CLOCK_BOOT || (!found && clock.id < CLOCK_OF_OWN))
            boot = clock.time;
        found |= clock.id == CLOCK_BOOT;
    }
    for (struct pb pb = pb_of(message); pb_next(&pb, &field);) {
        if (field.number != SNAPSHOT_CLOCKS || field.wire != PB_BYTES)
            continue;
        clock = clock_of(field.span);
        if (clock.id >= CLOCK_OF_OWN)
            set_clock(keeper_of(perfetto, sequence, clock.id), &clock, boot);
    }
}

bool perfetto_time(struct perfetto *perfetto, struct perfetto_sequence *sequence, int64_t clock,
                   uint64_t stamp, int64_t *ns)
{
    int64_t more;
    clock = clock ? clock : sequence->default_clock;
    if (stamp > INT64_MAX / 4)
        return false;
    *ns = (int64_t)stamp;
    if (clock < CLOCK_OF_OWN)
        return true;
    struct perfetto_clock *kept = find_clock(keeper_of(perfetto, sequence, clock), clock);
    if (!kept || __builtin_mul_overflow(*ns, kept->unit, &more))
        return false;
    if (kept->relative && __builtin_add_overflow(kept->now, more, &kept->now))
        return false;
    return !__builtin_add_overflow(kept->relative ? kept->now : more, kept->offset, ns);
}

/* ---- tracks ------------------------------------------------------------------------------------ */

int64_t perfetto_track_at(struct perfetto *perfetto, uint64_t uuid)
{
    const int64_t *known = imp_map_find(&perfetto->track_of, (int64_t)uuid, 0);
    if (known)
        return *known;
    if (imp_list_room((void **)&perfetto->track, &perfetto->track_room, perfetto->track_count,
                      sizeof *perfetto->track) ||
        imp_map_put(&perfetto->track_of, (int64_t)uuid, 0, (int64_t)perfetto->track_count))
        return -1;
    perfetto->track[perfetto->track_count] = (struct perfetto_track){
        .uuid = uuid, .pid = STORE_ABSENT, .tid = STORE_ABSENT, .multiplier = 1};
    return (int64_t)perfetto->track_count++;
}

void perfetto_place_of(const struct perfetto *perfetto, size_t track, int64_t *pid, int64_t *tid)
{
    const struct perfetto_track *at = &perfetto->track[track];
    *tid = at->tid != STORE_ABSENT ? at->tid : MADE_UP_TID + (int64_t)track;
    for (int i = 0; i < ANCESTORS && at->pid == STORE_ABSENT && at->parent != at->uuid; i++) {
        const int64_t *parent = imp_map_find(&perfetto->track_of, (int64_t)at->parent, 0);
        if (!parent)
            break;
        at = &perfetto->track[*parent];
    }
    *pid = at->pid != STORE_ABSENT ? at->pid : 0;
}

/* What a label of a process says of its rank, as tacho's own export writes it. */
static void note_label(struct perfetto *perfetto, struct pb_span label)
{
    char text[32];
    long long rank;
    snprintf(text, sizeof text, "%.*s", (int)(label.bytes < 31 ? label.bytes : 31),
             label.bytes ? (const char *)label.data : "");
    if (sscanf(text, "rank=%lld", &rank) != 1 || rank < 0)
        return;
    if (perfetto->rank != STORE_ABSENT && perfetto->rank != rank)
        rank = PERFETTO_RANK_MANY;
    perfetto->rank = rank;
}

/* A ProcessDescriptor or a ThreadDescriptor: numbers and a name. */
static int describe_place(struct perfetto *perfetto, struct perfetto_track *track,
                          struct pb_span message, bool thread)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    struct pb_span name = {NULL, 0};
    uint32_t name_field = thread ? THREAD_NAME : PROCESS_NAME;
    while (pb_next(&pb, &field)) {
        if (field.number == PROCESS_PID && field.wire == PB_VARINT)
            track->pid = (int32_t)field.value;
        else if (thread && field.number == THREAD_TID && field.wire == PB_VARINT)
            track->tid = (int64_t)(field.value & UINT32_MAX);
        else if (field.number == name_field && field.wire == PB_BYTES)
            name = field.span;
        else if (!thread && field.number == PROCESS_LABELS && field.wire == PB_BYTES)
            note_label(perfetto, field.span);
    }
    if (!name.bytes || track->pid == STORE_ABSENT)
        return 0;
    return perfetto_emit_name(perfetto, thread ? "thread_name" : "process_name", track->pid,
                              track->tid, name);
}

/* A CounterDescriptor: the unit of its values, and whether they are differences. */
static void describe_counter(struct perfetto_track *track, struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    while (pb_next(&pb, &field)) {
        if (field.number == COUNTER_MULTIPLIER && field.wire == PB_VARINT && field.value > 0 &&
            field.value <= INT64_MAX)
            track->multiplier = (int64_t)field.value;
        else if (field.number == COUNTER_INCREMENTAL && field.wire == PB_VARINT)
            track->incremental = field.value != 0;
    }
}

int perfetto_describe(struct perfetto *perfetto, struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    struct pb_span name = {NULL, 0}, process = name, thread = name, counted = name;
    uint64_t uuid = 0, parent = 0;
    int64_t known = 0, pid, tid;
    bool counter = false, added;
    while (pb_next(&pb, &field)) {
        if (field.number == TRACK_UUID && field.wire == PB_VARINT)
            uuid = field.value;
        else if (field.number == TRACK_PARENT && field.wire == PB_VARINT)
            parent = field.value;
        else if (field.wire != PB_BYTES)
            continue;
        else if (field.number == TRACK_NAME || field.number == TRACK_STATIC_NAME ||
                 field.number == TRACK_ATRACE_NAME)
            name = field.span;
        else if (field.number == TRACK_COUNTER)
            counted = field.span;
        else if (field.number == TRACK_PROCESS)
            process = field.span;
        else if (field.number == TRACK_THREAD)
            thread = field.span;
        counter |= field.number == TRACK_COUNTER;
    }
    int64_t index = perfetto_track_at(perfetto, uuid);
    if (index < 0)
        return TACHO_ENOMEM;
    struct perfetto_track *track = &perfetto->track[index];
    track->parent = parent;
    track->counter = counter;
    describe_counter(track, counted);
    int rc = 0;
    if (name.bytes)
        rc = store_intern_put(&perfetto->texts, name.data, name.bytes, &known, &added);
    track->name = (size_t)known;
    if (!rc && thread.data)
        return describe_place(perfetto, track, thread, true);
    if (!rc && process.data)
        return describe_place(perfetto, track, process, false);
    if (rc || counter || !name.bytes)
        return rc;
    perfetto_place_of(perfetto, (size_t)index, &pid, &tid);
    return perfetto_emit_name(perfetto, "thread_name", pid, tid, name);
}

void perfetto_clear(struct perfetto *perfetto)
{
    for (size_t i = 0; i < perfetto->sequence_count; i++)
        perfetto_sequence_clear(&perfetto->sequence[i]);
    perfetto_sequence_clear(&perfetto->forgotten);
    for (size_t i = 0; i < perfetto->track_count; i++) {
        for (size_t k = 0; k < perfetto->track[i].open_count; k++)
            perfetto_open_clear(&perfetto->track[i].open[k]);
        free(perfetto->track[i].open);
    }
    free(perfetto->sequence);
    free(perfetto->track);
    imp_map_free(&perfetto->sequence_of);
    imp_map_free(&perfetto->track_of);
    store_intern_clear(&perfetto->texts);
}
