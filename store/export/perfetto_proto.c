/* SPDX-License-Identifier: Apache-2.0
 *
 * Perfetto's own format: packets of protocol buffers, each a field of the file. A slice is a packet
 * where it begins and one where it ends, so that slices of a lane keep their nesting. Names,
 * categories and names of arguments are written once, with a number that later packets use. Times
 * are those of the run. protos/perfetto/trace/ of Perfetto has the numbers of the fields.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/export/protobuf.h"
#include "store/export/timeline.h"
#include "store/intern.h"

#define SEQUENCE 1 /* all packets are of one writer */

enum { TRACE_PACKET = 1 };
enum {
    PACKET_TIME = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60
};
enum { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5 };
enum { TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6, PROCESS_LABELS = 8 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum {
    EVENT_CATEGORY = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME = 10,
    EVENT_TRACK = 11,
    EVENT_DOUBLE = 44,
    EVENT_FLOW = 47
};
enum { TYPE_BEGIN = 1, TYPE_END, TYPE_INSTANT, TYPE_COUNTER };
enum { ANNOTATION_NAME = 1, ANNOTATION_INT = 4, ANNOTATION_TEXT = 6, ANNOTATION_JSON = 9 };
enum { INTERNED_CATEGORY = 1, INTERNED_NAME = 2, INTERNED_ANNOTATION = 3 };
enum { ENTRY_ID = 1, ENTRY_TEXT = 2 };

/* Slices of a lane that have not ended. */
struct lane {
    int64_t *end;
    size_t depth, room;
    int64_t pid, tid;
};

struct proto {
    struct exp_message packet, event, interned, inner, deeper;
    struct store_intern categories, names, annotations;
    struct lane lane[EXP_LANES_MOST];
    bool *counter_named; /* by track */
    bool begun, failed;
    char *args; /* of the present slice, as JSON */
    size_t args_bytes;
    FILE *args_out;
};

/* ---- packets ----------------------------------------------------------------------------------- */

static uint64_t process_uuid(int64_t pid)
{
    return (uint64_t)(pid + 1) << 32;
}

static uint64_t thread_uuid(int64_t pid, int64_t tid)
{
    return process_uuid(pid) | (uint32_t)(tid + 1);
}

/* Ends a packet: what all have, and the file's key before it. */
static void write_packet(struct exp_timeline *timeline)
{
    struct proto *proto = timeline->own;
    if (proto->interned.bytes)
        exp_pb_message(&proto->packet, PACKET_INTERNED, &proto->interned);
    exp_pb_varint(&proto->packet, PACKET_SEQUENCE, SEQUENCE);
    exp_pb_varint(&proto->packet, PACKET_FLAGS,
                  proto->begun ? FLAG_NEEDS_STATE : FLAG_STATE_CLEARED | FLAG_NEEDS_STATE);
    proto->begun = true;
    if (!exp_pb_write(timeline->out, TRACE_PACKET, &proto->packet))
        proto->failed = true;
}

/* An event of a thread; `proto->event` has what is its own. */
static void write_event(struct exp_timeline *timeline, int64_t time, int type, uint64_t track)
{
    struct proto *proto = timeline->own;
    exp_pb_varint(&proto->event, EVENT_TYPE, (uint64_t)type);
    exp_pb_varint(&proto->event, EVENT_TRACK, track);
    exp_pb_varint(&proto->packet, PACKET_TIME, time > 0 ? (uint64_t)time : 0);
    exp_pb_message(&proto->packet, PACKET_EVENT, &proto->event);
    write_packet(timeline);
}

/* The number of a text; it is written with the packet that uses it first. */
static uint64_t number_of(struct proto *proto, struct store_intern *known, uint32_t field,
                          const char *text, size_t bytes)
{
    int64_t id = 0;
    bool added = false;
    if (store_intern_put(known, text, bytes, &id, &added))
        proto->failed = true;
    if (added) {
        exp_pb_varint(&proto->inner, ENTRY_ID, (uint64_t)id);
        exp_pb_bytes(&proto->inner, ENTRY_TEXT, text, bytes);
        exp_pb_message(&proto->interned, field, &proto->inner);
    }
    return (uint64_t)id;
}

/* ---- names ------------------------------------------------------------------------------------- */

static void process(struct exp_timeline *timeline, int64_t pid, const struct exp_process *process,
                    const char *name, int64_t index)
{
    struct proto *proto = timeline->own;
    char label[48];
    (void)index;
    exp_pb_varint(&proto->inner, PROCESS_PID, (uint64_t)pid);
    exp_pb_text(&proto->inner, PROCESS_NAME, name);
    if (process && process->rank != STORE_ABSENT) {
        snprintf(label, sizeof label, "rank=%" PRId64, process->rank);
        exp_pb_text(&proto->inner, PROCESS_LABELS, label);
    }
    exp_pb_varint(&proto->event, TRACK_UUID, process_uuid(pid));
    exp_pb_message(&proto->event, TRACK_PROCESS, &proto->inner);
    exp_pb_message(&proto->packet, PACKET_TRACK, &proto->event);
    write_packet(timeline);
}

static void thread(struct exp_timeline *timeline, int64_t pid, int64_t tid, const char *name,
                   int64_t index)
{
    struct proto *proto = timeline->own;
    (void)index;
    exp_pb_varint(&proto->inner, THREAD_PID, (uint64_t)pid);
    exp_pb_varint(&proto->inner, THREAD_TID, (uint64_t)tid);
    exp_pb_text(&proto->inner, THREAD_NAME, name);
    exp_pb_varint(&proto->event, TRACK_UUID, thread_uuid(pid, tid));
    exp_pb_varint(&proto->event, TRACK_PARENT, process_uuid(pid));
    exp_pb_message(&proto->event, TRACK_THREAD, &proto->inner);
    exp_pb_message(&proto->packet, PACKET_TRACK, &proto->event);
    write_packet(timeline);
}

/* ---- slices ------------------------------------------------------------------------------------ */

/* One member of the arguments: integers and texts as such, all else as JSON. */
static void annotation(struct proto *proto, const char *key, size_t key_bytes, const char *value,
                       size_t value_bytes)
{
    bool plain = value_bytes > 1 && *value == '"' && !memchr(value, '\\', value_bytes);
    bool whole = value_bytes < 19 && value_bytes && strspn(value, "-0123456789") >= value_bytes &&
                 value[value_bytes - 1] != '-';
    exp_pb_varint(&proto->deeper, ANNOTATION_NAME,
                  number_of(proto, &proto->annotations, INTERNED_ANNOTATION, key, key_bytes));
    if (whole)
        exp_pb_varint(&proto->deeper, ANNOTATION_INT, (uint64_t)strtoll(value, NULL, 10));
    else if (plain)
        exp_pb_bytes(&proto->deeper, ANNOTATION_TEXT, value + 1, value_bytes - 2);
    else
        exp_pb_bytes(&proto->deeper, ANNOTATION_JSON, value, value_bytes);
    exp_pb_message(&proto->event, EVENT_ANNOTATION, &proto->deeper);
}

/* The arguments of a slice, which are written as JSON first. */
static void annotations(struct exp_timeline *timeline, const struct exp_slice *slice)
{
    struct proto *proto = timeline->own;
    struct exp_args args = {.out = proto->args_out};
    const char *key, *value;
    size_t key_bytes, value_bytes;
    rewind(proto->args_out);
    putc('{', proto->args_out);
    exp_timeline_args(timeline, slice, &args);
    fputs("}", proto->args_out);
    putc('\0', proto->args_out);
    if (fflush(proto->args_out))
        proto->failed = true;
    const char *at = proto->args;
    while (!proto->failed && exp_json_member(&at, &key, &key_bytes, &value, &value_bytes) == 1)
        annotation(proto, key, key_bytes, value, value_bytes);
}

/* Call and work of one launch have a flow, by the process and the correlation. */
static void flow(struct exp_timeline *timeline, const struct exp_slice *slice)
{
    struct proto *proto = timeline->own;
    if (slice->correlation == STORE_ABSENT ||
        (!exp_timeline_is_call(timeline, slice) && !exp_timeline_is_work(timeline, slice)))
        return;
    uint64_t process = timeline->run->track[slice->track].process_at + 1ull;
    exp_pb_fixed64(&proto->event, EVENT_FLOW, process << 48 ^ (uint64_t)slice->correlation);
}

/* Ends the slices of a lane that have ended by a time. */
static void end_slices(struct exp_timeline *timeline, struct lane *lane, int64_t time)
{
    while (lane->depth && lane->end[lane->depth - 1] <= time) {
        int64_t end = lane->end[--lane->depth];
        if (end != INT64_MAX)
            write_event(timeline, end, TYPE_END, thread_uuid(lane->pid, lane->tid));
    }
}

static int lane_push(struct lane *lane, int64_t end)
{
    if (lane->depth == lane->room) {
        size_t room = lane->room ? 2 * lane->room : 16;
        int64_t *bigger = realloc(lane->end, room * sizeof *bigger);
        if (!bigger)
            return TACHO_ENOMEM;
        lane->end = bigger;
        lane->room = room;
    }
    lane->end[lane->depth++] = end;
    return 0;
}

static int slice(struct exp_timeline *timeline, size_t index, size_t number)
{
    struct proto *proto = timeline->own;
    const struct exp_slice *slice = &timeline->run->slice[index];
    const char *category = exp_timeline_category(timeline, slice),
               *name = exp_text(timeline->run, slice->name);
    struct lane *lane = &proto->lane[number];
    bool instant = !strcmp(category, "cpu_instant_event") && slice->end != INT64_MAX;
    lane->pid = timeline->place[slice->track].pid;
    lane->tid = timeline->tid_of[index];
    end_slices(timeline, lane, slice->start);
    exp_pb_varint(
        &proto->event, EVENT_CATEGORY,
        number_of(proto, &proto->categories, INTERNED_CATEGORY, category, strlen(category)));
    exp_pb_varint(&proto->event, EVENT_NAME,
                  number_of(proto, &proto->names, INTERNED_NAME, name, strlen(name)));
    annotations(timeline, slice);
    flow(timeline, slice);
    write_event(timeline, slice->start, instant ? TYPE_INSTANT : TYPE_BEGIN,
                thread_uuid(lane->pid, lane->tid));
    if (proto->failed && !ferror(timeline->out))
        return TACHO_ENOMEM;
    return instant ? 0 : lane_push(lane, slice->end);
}

static void track_end(struct exp_timeline *timeline)
{
    struct proto *proto = timeline->own;
    for (size_t i = 0; i < timeline->lanes; i++)
        end_slices(timeline, &proto->lane[i], INT64_MAX);
}

/* ---- counters ---------------------------------------------------------------------------------- */

static void counter(struct exp_timeline *timeline, uint32_t track, const char *name, int64_t time,
                    double value)
{
    struct proto *proto = timeline->own;
    uint64_t uuid = UINT64_C(1) << 63 | track;
    if (!proto->counter_named[track]) {
        exp_pb_varint(&proto->event, TRACK_UUID, uuid);
        exp_pb_varint(&proto->event, TRACK_PARENT, process_uuid(timeline->place[track].pid));
        exp_pb_text(&proto->event, TRACK_NAME, name);
        exp_pb_message(&proto->event, TRACK_COUNTER, &proto->inner); /* empty: it is a counter */
        exp_pb_message(&proto->packet, PACKET_TRACK, &proto->event);
        write_packet(timeline);
    }
    proto->counter_named[track] = true;
    exp_pb_double(&proto->event, EVENT_DOUBLE, value);
    write_event(timeline, time, TYPE_COUNTER, uuid);
}

/* ---- begin, end -------------------------------------------------------------------------------- */

static int begin(struct exp_timeline *timeline)
{
    struct proto *proto = calloc(1, sizeof *proto);
    timeline->own = proto;
    if (!proto)
        return TACHO_ENOMEM;
    proto->args_out = open_memstream(&proto->args, &proto->args_bytes);
    proto->counter_named = calloc(timeline->run->track_count + 1, sizeof *proto->counter_named);
    return proto->args_out && proto->counter_named ? 0 : TACHO_ENOMEM;
}

static void end(struct exp_timeline *timeline)
{
    struct proto *proto = timeline->own;
    if (!proto)
        return;
    if (proto->args_out)
        fclose(proto->args_out);
    free(proto->args);
    free(proto->counter_named);
    for (size_t i = 0; i < EXP_LANES_MOST; i++)
        free(proto->lane[i].end);
    struct exp_message *messages[] = {&proto->packet, &proto->event, &proto->interned,
                                      &proto->inner, &proto->deeper};
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        exp_pb_free(messages[i]);
    store_intern_clear(&proto->categories);
    store_intern_clear(&proto->names);
    store_intern_clear(&proto->annotations);
    free(proto);
}

int exp_perfetto_proto_write(store_reader *reader, const struct store_export_options *options,
                             FILE *out, struct tacho_error *err)
{
    static const struct exp_timeline_format format = {.begin = begin,
                                                      .end = end,
                                                      .process = process,
                                                      .thread = thread,
                                                      .slice = slice,
                                                      .track_end = track_end,
                                                      .counter = counter};
    return exp_timeline_write(reader, options, out, &format, err);
}
