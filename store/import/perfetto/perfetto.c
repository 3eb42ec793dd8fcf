/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of Perfetto's format: packets of protocol buffers, read one after the other. Track
 * events are read, in the words of Kineto where tacho wrote them; what the kernel recorded (ftrace,
 * samples, heaps) is not. protos/perfetto/trace/ of Perfetto has the numbers of the fields.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/input.h"
#include "store/import/input/unpack.h"
#include "store/import/perfetto/perfetto_import.h"
#include "store/import/perfetto/perfetto_private.h"

#define PACKET_MOST    ((size_t)64 << 20)
#define FIRST_ROOM     ((size_t)1 << 20)
#define UNPACKED_SPARE ((int64_t)256 << 20) /* bytes of compressed packets */
#define HEAD_LEAST     65536 /* bytes of a head that may end inside of the first packet */

enum { TRACE_PACKET = 1 };
enum {
    PACKET_CLOCKS = 6,
    PACKET_TIME = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_STATE_LOST = 41,
    PACKET_COMPRESSED = 50,
    PACKET_CLOCK = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK = 60
};
enum { FLAG_STATE_CLEARED = 1, DESCRIPTOR_UUID = 1 };

/* The bytes of the file that were read and not used yet. */
struct window {
    struct imp_input *in;
    unsigned char *data;
    size_t at, end, room;
    bool ended;
};

/* A packet, once all of its fields were seen. */
struct packet {
    struct pb_span event, interned, clocks, defaults, track, packed;
    uint64_t time, flags;
    int64_t sequence, clock;
    bool has_time;
};

/* ---- packets ----------------------------------------------------------------------------------- */

/* Does a message begin with the number of a track? */
static bool is_track(struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    return pb_next(&pb, &field) && field.number == DESCRIPTOR_UUID && field.wire == PB_VARINT;
}

/* Is it a packet: does it have a time, the number of its writer, a track, or compressed packets?
 * The first one may be longer than the head. */
static bool recognises(const unsigned char *head, size_t bytes)
{
    struct pb file = pb_of((struct pb_span){head, bytes});
    struct pb_field field;
    uint64_t key, length;
    bool told = false;
    if (!bytes || !pb_varint(&file, &key) || key != (TRACE_PACKET << 3 | PB_BYTES) ||
        !pb_varint(&file, &length))
        return false;
    bool whole = length <= (uint64_t)(file.end - file.at);
    if (!whole && bytes < HEAD_LEAST)
        return false;
    struct pb pb =
        pb_of((struct pb_span){file.at, whole ? (size_t)length : (size_t)(file.end - file.at)});
    struct pb first = pb;
    while (pb_next(&pb, &field))
        told |=
            ((field.number == PACKET_TIME || field.number == PACKET_SEQUENCE) &&
             field.wire == PB_VARINT) ||
            (field.wire == PB_BYTES && (field.number == PACKET_COMPRESSED ||
                                        (field.number == PACKET_TRACK && is_track(field.span))));
    if (!whole && pb_varint(&first, &key))
        told |= key == (PACKET_COMPRESSED << 3 | PB_BYTES);
    return told && (!pb.bad || !whole);
}

static struct packet packet_of(struct pb_span message)
{
    struct packet packet = {.has_time = false};
    struct pb pb = pb_of(message);
    struct pb_field field;
    while (pb_next(&pb, &field)) {
        struct pb_span *part = NULL;
        if (field.number == PACKET_TIME && field.wire == PB_VARINT) {
            packet.time = field.value;
            packet.has_time = true;
        } else if (field.number == PACKET_SEQUENCE && field.wire == PB_VARINT) {
            packet.sequence = (int64_t)(field.value & UINT32_MAX);
        } else if (field.number == PACKET_CLOCK && field.wire == PB_VARINT) {
            packet.clock = (int64_t)(field.value & UINT32_MAX);
        } else if (field.number == PACKET_FLAGS) {
            packet.flags |= field.value;
        } else if (field.number == PACKET_STATE_LOST && field.value) {
            packet.flags |= FLAG_STATE_CLEARED;
        }
        if (field.number == PACKET_EVENT)
            part = &packet.event;
        else if (field.number == PACKET_INTERNED)
            part = &packet.interned;
        else if (field.number == PACKET_CLOCKS)
            part = &packet.clocks;
        else if (field.number == PACKET_DEFAULTS)
            part = &packet.defaults;
        else if (field.number == PACKET_TRACK)
            part = &packet.track;
        else if (field.number == PACKET_COMPRESSED)
            part = &packet.packed;
        if (part && field.wire == PB_BYTES)
            *part = field.span;
    }
    return packet;
}

static int read_packet(struct perfetto *perfetto, struct pb_span message);

/* Reads the packets in a compressed one, which holds no others. */
static int read_packed(struct perfetto *perfetto, struct pb_span packed)
{
    unsigned char *data = NULL;
    size_t bytes = 0;
    struct pb_field field;
    if (perfetto->unpacking ||
        imp_input_is_bomb(perfetto->in, perfetto->unpacked, UNPACKED_SPARE)) {
        perfetto->damaged++;
        return 0;
    }
    int rc = imp_unpack(packed, PACKET_MOST, &data, &bytes);
    perfetto->unpacked += (int64_t)bytes;
    perfetto->damaged += rc == TACHO_EFORMAT;
    rc = rc == TACHO_EFORMAT ? 0 : rc;
    perfetto->unpacking = true;
    for (struct pb pb = pb_of((struct pb_span){data, bytes}); !rc && pb_next(&pb, &field);)
        if (field.number == TRACE_PACKET && field.wire == PB_BYTES)
            rc = read_packet(perfetto, field.span);
    perfetto->unpacking = false;
    free(data);
    return rc;
}

static int read_packet(struct perfetto *perfetto, struct pb_span message)
{
    struct packet packet = packet_of(message);
    struct perfetto_sequence *sequence = perfetto_sequence_of(perfetto, packet.sequence);
    int64_t time = 0;
    int rc = 0;
    if (!sequence)
        return TACHO_ENOMEM;
    if (packet.packed.bytes)
        return read_packed(perfetto, packet.packed);
    if (packet.flags & FLAG_STATE_CLEARED)
        perfetto_sequence_clear(sequence);
    if (packet.defaults.bytes)
        perfetto_defaults(sequence, packet.defaults);
    if (packet.clocks.bytes)
        perfetto_snapshot(perfetto, sequence, packet.clocks);
    if (packet.interned.bytes)
        rc = perfetto_intern(perfetto, sequence, packet.interned);
    if (!rc && packet.track.bytes)
        rc = perfetto_describe(perfetto, packet.track);
    /* A relative clock goes on with every packet, also with those that are not read. */
    bool timed = packet.has_time && !packet.clocks.bytes &&
                 perfetto_time(perfetto, sequence, packet.clock, packet.time, &time);
    if (rc || !packet.event.bytes) {
        perfetto->others += !packet.event.bytes && packet.has_time;
        return rc;
    }
    if (timed)
        return perfetto_event(perfetto, sequence, packet.event, time);
    perfetto->no_clock++;
    return 0;
}

/* ---- the file ---------------------------------------------------------------------------------- */

/* Reads on until `bytes` bytes lie in the window, or the file ends. */
static int fill(struct window *window, size_t bytes, struct tacho_error *err)
{
    size_t got = 0;
    if (window->end - window->at >= bytes || window->ended)
        return 0;
    memmove(window->data, window->data + window->at, window->end - window->at);
    window->end -= window->at;
    window->at = 0;
    if (window->room < bytes) {
        size_t room = bytes > 2 * window->room ? bytes : 2 * window->room;
        unsigned char *bigger = realloc(window->data, room);
        if (!bigger)
            return TACHO_ENOMEM;
        window->data = bigger;
        window->room = room;
    }
    int rc = imp_input_read(window->in, window->data + window->end, window->room - window->end,
                            &got, err);
    window->ended = got < window->room - window->end;
    window->end += got;
    return rc;
}

/* Moves past bytes that are not kept. */
static int skip(struct window *window, uint64_t bytes, struct tacho_error *err)
{
    int rc = 0;
    while (!rc && bytes) {
        rc = fill(window, 1, err);
        size_t here = window->end - window->at;
        here = here < bytes ? here : (size_t)bytes;
        if (!here)
            break;
        window->at += here;
        bytes -= here;
    }
    return rc;
}

/* Takes the next packet; *more false: the file ends, *cut: inside of it. */
static int next_packet(struct perfetto *perfetto, struct window *window, struct pb_span *packet,
                       bool *more, bool *cut, struct tacho_error *err)
{
    uint64_t key, bytes;
    *packet = (struct pb_span){NULL, 0};
    int rc = fill(window, 24, err);
    struct pb pb = pb_of((struct pb_span){window->data + window->at, window->end - window->at});
    *more = !rc && pb.at < pb.end;
    if (rc || !*more)
        return rc;
    *cut =
        !pb_varint(&pb, &key) || key != (TRACE_PACKET << 3 | PB_BYTES) || !pb_varint(&pb, &bytes);
    *more = !*cut;
    if (*cut)
        return 0;
    window->at = (size_t)(pb.at - window->data);
    if (bytes > PACKET_MOST) {
        perfetto->too_large++;
        return skip(window, bytes, err);
    }
    rc = fill(window, (size_t)bytes, err);
    *cut = window->end - window->at < bytes;
    *more = !rc && !*cut;
    *packet = (struct pb_span){window->data + window->at, (size_t)bytes};
    window->at += *more ? (size_t)bytes : 0;
    return rc;
}

/* Reads all packets; this is the `source` of the dialect. */
static int read_packets(void *ctx, struct imp_input *in, kineto_emit *emit, void *to,
                        bool *truncated, struct tacho_error *err)
{
    struct perfetto *perfetto = ctx;
    struct window window = {.in = in, .data = malloc(FIRST_ROOM), .room = FIRST_ROOM};
    struct pb_span packet;
    bool more = true, cut = false;
    int rc = window.data ? 0 : TACHO_ENOMEM;
    perfetto->emit = emit;
    perfetto->to = to;
    perfetto->in = in;
    while (!rc && more) {
        rc = next_packet(perfetto, &window, &packet, &more, &cut, err);
        if (!rc && more && packet.bytes)
            rc = read_packet(perfetto, packet);
    }
    if (!rc)
        rc = perfetto_events_done(perfetto);
    *truncated = cut || imp_input_truncated(in);
    free(window.data);
    return rc;
}

static int64_t rank_of(void *ctx)
{
    const struct perfetto *perfetto = ctx;
    return perfetto->rank == PERFETTO_RANK_MANY ? STORE_ABSENT : perfetto->rank;
}

/* Counts what was not read. */
static int finish(void *ctx, struct imp_run *run, int64_t process)
{
    const struct perfetto *perfetto = ctx;
    const struct {
        const char *reason;
        int64_t count;
    } losses[] = {{"end of a slice without its begin", perfetto->no_begin},
                  {"slice nested too deep", perfetto->too_deep},
                  {"event whose clock is not known", perfetto->no_clock},
                  {"packet larger than 64 MiB", perfetto->too_large},
                  {"packet of a writer beyond the 65536th (kept without its names)",
                   perfetto->writers_beyond},
                  {"compressed packets that are damaged or too large", perfetto->damaged}};
    char text[80];
    int rc = 0;
    (void)process;
    for (size_t i = 0; i < sizeof losses / sizeof *losses && !rc; i++)
        if (losses[i].count)
            rc = imp_loss(run, losses[i].reason, losses[i].count);
    if (!rc && perfetto->others && !run->salvage_only) {
        snprintf(text, sizeof text, "packets of other kinds (%" PRId64 ")", perfetto->others);
        rc = store_run_set(run->db, "source.not_read", text);
    }
    if (!rc && !run->salvage_only)
        rc = store_run_set(run->db, "source.tool", "Perfetto");
    return rc;
}

/* Says why a trace has nothing to read. */
static int nothing(const struct perfetto *perfetto, const char *path, struct tacho_error *err)
{
    if (perfetto->damaged && !perfetto->others)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again, or: traceconv decompress_packets",
                          "%s: a Perfetto trace whose compressed packets are damaged", path);
    return tacho_fail(err, TACHO_ENOTSUP,
                      "trace the program's own events (TRACE_EVENT of the Perfetto SDK), or record "
                      "it with 'tacho run -- CMD'",
                      "%s: a Perfetto trace without track events (%" PRId64
                      " packets of the system, or with an unknown clock)",
                      path, perfetto->others + perfetto->no_clock);
}

/* Reads one trace; this is the `read` of the importer. */
static int read_trace(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct perfetto perfetto = {.rank = STORE_ABSENT, .gpu = "0"};
    const struct kineto_dialect dialect = {
        .source = read_packets, .rank = rank_of, .finish = finish, .ctx = &perfetto};
    struct tacho_error why = {0};
    int rc = kineto_read_as(run, path, &dialect, &why);
    if (rc == TACHO_EFORMAT && !perfetto.events &&
        (perfetto.damaged || perfetto.others || perfetto.no_clock))
        rc = nothing(&perfetto, path, &why);
    if (rc && err)
        *err = why;
    perfetto_clear(&perfetto);
    return rc;
}

const struct importer imp_perfetto = {
    .source = "perfetto", .recognises = recognises, .read = read_trace};
