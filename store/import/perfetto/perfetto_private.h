/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/perfetto/: track events of Perfetto's format as events of Kineto.
 * perfetto.c reads packets, perfetto_state.c keeps what packets of a writer refer to (interned
 * names, clocks) and the tracks, perfetto_event.c pairs begins with ends, perfetto_rocm.c
 * translates the events of AMD's profilers.
 *
 * A trace is untrusted: numbers may repeat, refer to nothing, or be anything. Memory: one packet
 * (unpacked), the distinct names, the tracks, and the slices that are open at the moment.
 */
#ifndef STORE_IMPORT_PERFETTO_PERFETTO_PRIVATE_H
#define STORE_IMPORT_PERFETTO_PERFETTO_PRIVATE_H

#include "store/import/input/map.h"
#include "store/import/input/protobuf.h"
#include "store/import/kineto/kineto_import.h"
#include "store/import/kineto/kineto_text.h"
#include "store/intern.h"

#define PERFETTO_OPEN_MOST   1024 /* slices of a track that are open at once */
#define PERFETTO_DIGITS_MOST 18   /* of a number in the name of a track */

/* Kinds of interned names; they are the numbers of their fields in InternedData. */
enum perfetto_interned {
    PERFETTO_CATEGORY = 1,
    PERFETTO_NAME = 2,
    PERFETTO_ANNOTATION = 3,
    PERFETTO_VALUE = 4, /* of an annotation; field 29 */
    PERFETTO_INTERNED_COUNT
};

#define PERFETTO_CLOCKS 4 /* of one writer */

/* Clocks that are no clocks of the system. */
struct perfetto_clocks {
    struct perfetto_clock {
        int64_t id, now, offset, unit; /* ns; offset: to the clock of the trace */
        bool relative;
    } clock[PERFETTO_CLOCKS];
    size_t count;
};

/* What the packets of one writer refer to. */
struct perfetto_sequence {
    struct imp_map interned[PERFETTO_INTERNED_COUNT]; /* number -> text + 1 */
    uint64_t default_track;
    int64_t default_clock;
    bool has_default_track;
    int64_t clears; /* how often its state was cleared */
    /* Clocks of its own: times count units of ns, or are differences to the packet before. */
    struct perfetto_clocks own; /* clocks of this writer alone */
};

/* A slice that has begun; places are offsets in `text`. */
struct perfetto_open {
    int64_t time;
    struct kineto_text text;
    struct perfetto_place {
        size_t at, bytes;
    } name, category;
    struct perfetto_arg {
        struct perfetto_place key, value;
    } * arg;
    size_t arg_count;
};

struct perfetto_track {
    uint64_t uuid, parent;
    int64_t pid, tid; /* STORE_ABSENT: those of its parent; its own made-up one */
    bool counter;
    /* Of a counter: what its values are multiplied by; are they differences, and their sum since
     * the writer's state was cleared for the `clears`-th time. */
    int64_t multiplier, clears;
    bool incremental;
    double sum;
    size_t name; /* text + 1; 0: none */
    struct perfetto_open *open;
    size_t open_count, open_room;
};

struct perfetto {
    kineto_emit *emit;
    void *to;
    struct store_intern texts; /* ids are text + 1 */
    struct imp_map sequence_of, track_of;
    struct perfetto_sequence *sequence;
    size_t sequence_count, sequence_room;
    struct perfetto_clocks clocks;      /* that all writers may use */
    struct perfetto_sequence forgotten; /* of writers beyond those that are remembered */
    struct perfetto_track *track;
    size_t track_count, track_room;
    int64_t rank;   /* STORE_ABSENT: none; RANK_MANY: several */
    char gpu[24];   /* of the last kernel of rocprof-sys */
    bool unpacking; /* the packet was compressed */
    struct imp_input *in;
    int64_t unpacked; /* bytes, of all compressed packets */
    int64_t events, damaged, others, no_begin, too_deep, no_clock, too_large, writers_beyond;
};

#define PERFETTO_RANK_MANY (-2)

/* ---- perfetto_state.c -------------------------------------------------------------------------- */

/* The state of a writer, made at its first packet. NULL: no memory. */
struct perfetto_sequence *perfetto_sequence_of(struct perfetto *perfetto, int64_t id);
/* Forgets all that its packets referred to. */
void perfetto_sequence_clear(struct perfetto_sequence *sequence);
int perfetto_intern(struct perfetto *perfetto, struct perfetto_sequence *sequence,
                    struct pb_span message);
/* A name by its number; no bytes: it is not known. */
struct pb_span perfetto_interned_text(const struct perfetto *perfetto,
                                      const struct perfetto_sequence *sequence,
                                      enum perfetto_interned kind, uint64_t number);
struct pb_span perfetto_text(const struct perfetto *perfetto, size_t text);
void perfetto_defaults(struct perfetto_sequence *sequence, struct pb_span message);
void perfetto_snapshot(struct perfetto *perfetto, struct perfetto_sequence *sequence,
                       struct pb_span message);
/* ns of a time stamp; false: its clock is not known. */
bool perfetto_time(struct perfetto *perfetto, struct perfetto_sequence *sequence, int64_t clock,
                   uint64_t stamp, int64_t *ns);
/* The track of a number, made at its first use; index in perfetto->track, -1: no memory. */
int64_t perfetto_track_at(struct perfetto *perfetto, uint64_t uuid);
/* A TrackDescriptor; names of processes and threads are emitted. */
int perfetto_describe(struct perfetto *perfetto, struct pb_span message);
/* The process and thread that show a track. */
void perfetto_place_of(const struct perfetto *perfetto, size_t track, int64_t *pid, int64_t *tid);
void perfetto_clear(struct perfetto *perfetto);

/* ---- perfetto_rocm.c --------------------------------------------------------------------------- */

/* Translates an event of rocprofv3 or rocprof-sys on a track of this name; others are left as they
 * are. What it puts in is static, part of the event, or valid until the next call. */
void perfetto_rocm(struct perfetto *perfetto, struct kj_event *event, struct pb_span track);

/* ---- perfetto_event.c -------------------------------------------------------------------------- */

/* A TrackEvent of a writer at a time. */
int perfetto_event(struct perfetto *perfetto, const struct perfetto_sequence *sequence,
                   struct pb_span message, int64_t time);
/* Emits what never ended. */
int perfetto_events_done(struct perfetto *perfetto);

/* ---- perfetto_emit.c --------------------------------------------------------------------------- */

/* Emits the name of a process or a thread. */
int perfetto_emit_name(struct perfetto *perfetto, const char *what, int64_t pid, int64_t tid,
                       struct pb_span name);
void perfetto_open_clear(struct perfetto_open *open);

#endif
