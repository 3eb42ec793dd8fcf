/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/: the layout of a pool file, the only thing the agent (in the target) and the collector (outside) share.
 *
 * One pool file a process, `pool.PID.N` in the segment folder ($TACHO_SEGMENTS, tmpfs where large enough), mapped MAP_SHARED by
 * the agent: what was recorded is in the file whatever way the process dies. The file is sparse at its full size; backing is
 * allocated (posix_fallocate) in chunks of WIRE_GROW segments BEFORE the pages are touched, so a full disk cannot SIGBUS the
 * target.
 *
 *     offset 0                    struct wire_pool          (WIRE_HEADER_BYTES)
 *     pool->directory_offset      struct wire_segment[segment_cap]     one line of 64 bytes each
 *     pool->arena_offset          string arena, arena_cap bytes, append only
 *     pool->segments_offset       segment_cap segments of segment_bytes
 *
 * WRITER (agent). A thread takes a FREE segment (CAS on state), fills in its directory line, publishes it with state = ACTIVE
 * (release), appends records and publishes each with a release store of `committed`. A full segment becomes FULL and the thread
 * takes the next one, with chain_seq + 1. No other thread ever writes there. No lock, no syscall, no malloc on the append path.
 * READER (collector). Reads `committed` (acquire) of ACTIVE and FULL segments, stores rows together with its position
 * (pool, segment, generation, bytes) in one transaction, and only after that COMMIT sets a fully read FULL segment to FREE.
 * `generation` grows each time a segment is taken, so a position can never be applied to another use of the same segment.
 *
 * Order. Records of one thread are in order along its chain (chain_seq from 0, without holes). Between threads only time
 * orders. Times are raw TSC ticks or CLOCK_MONOTONIC ns, as pool->clock says. All integers are native-endian: both ends are one
 * machine.
 *
 * Fork: thread state lives on MADV_WIPEONFORK pages, so a child finds no segment, and opens a pool of its own at its first
 * event, with the parent's arena copied (ids stay valid). Exec leaves the old pool behind: the collector sees a second pool of
 * the pid.
 */
#ifndef TACHO_WIRE_H
#define TACHO_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_MAGIC         0x306c6f6f70484354ull /* "TCHpool0" */
#define WIRE_VERSION       1u
#define WIRE_HEADER_BYTES  16384u
#define WIRE_SEGMENT_BYTES (64u << 10)
#define WIRE_SEGMENT_CAP   1024u /* 64 MiB a process unless $TACHO_POOL_MIB says otherwise */
#define WIRE_GROW          8u    /* segments backed at a time */
#define WIRE_ARENA_BYTES   (8u << 20)
#define WIRE_ARENA_GROW    (64u << 10)
#define WIRE_DOMAINS       256u    /* index 0 is the default domain, 255 "(other domains)" once the table is full */
#define WIRE_STRING_MAX    1024u   /* longer names are cut here and counted */
#define WIRE_PAYLOAD_MAX   64u     /* longer payloads are cut here and counted */
#define WIRE_PREFIX        "pool." /* a pool under construction is "new.PID.N" and renamed when complete */
#define WIRE_NONE          "none." /* "none.PID[.EVENTS]", an empty file: a process that found no space for a pool, and what it lost */

/* Environment the collector sets for the target. */
#define WIRE_ENV_SEGMENTS "TACHO_SEGMENTS" /* absolute folder for pools; unset = the agent stays off */
#define WIRE_ENV_POOL_MIB "TACHO_POOL_MIB" /* cap of segments a process, MiB */
#define WIRE_ENV_PAUSE    "TACHO_PAUSE"    /* probability that a tacho.step is run with recording paused, "0" = never */
#define WIRE_ENV_CLOCK    "TACHO_CLOCK"    /* "monotonic" forces clock_gettime (tests) */

enum wire_clock { WIRE_CLOCK_TSC = 1, WIRE_CLOCK_MONOTONIC = 2 };
enum wire_state { WIRE_FREE = 0, WIRE_TAKEN = 1, WIRE_ACTIVE = 2, WIRE_FULL = 3 };

/* Why something is missing: name, 1 if an event is gone, text for the loss table. Each is a counter with the time of its first
 * and last event. */
#define WIRE_LOSS_MAP(X) \
    X(NO_SEGMENT, 1, "event dropped: pool at its cap") \
    X(NO_SPACE, 1, "event dropped: no space to grow the pool") \
    X(PAUSED, 0, "event not recorded: overhead measurement paused recording for the step") \
    X(SIGNAL, 1, "event dropped: recorded from a signal handler that interrupted the recorder") \
    X(STRING_CUT, 0, "name cut at 1024 bytes") \
    X(STRING_FULL, 0, "name lost: name table full") \
    X(PAYLOAD_CUT, 0, "payload cut at 64 bytes") \
    X(DOMAIN_FULL, 0, "domain merged into '(other domains)': domain table full") \
    X(UNBALANCED, 0, "pop without push") \
    X(NO_TIME, 1, "counter sample dropped: its timestamp is of a clock unknown here")

enum wire_loss_reason {
#define WIRE_LOSS_ENUM(name, event_lost, text) WIRE_LOSS_##name,
    WIRE_LOSS_MAP(WIRE_LOSS_ENUM)
#undef WIRE_LOSS_ENUM
        WIRE_LOSS_COUNT
};

struct wire_loss {
    _Atomic uint64_t count;
    _Atomic uint64_t first; /* time of the first one, 0 = none yet */
    _Atomic uint64_t last;
};

struct wire_pool {
    uint64_t magic; /* written last, with release order */
    uint32_t version;
    uint32_t clock; /* enum wire_clock */
    uint32_t pid;
    uint32_t parent_pid;  /* getppid() at creation */
    uint64_t start_ticks; /* field 22 of /proc/self/stat: tells pids apart that were used twice */
    char boot_id[40];     /* /proc/sys/kernel/random/boot_id */
    uint32_t segment_bytes, segment_cap;
    uint64_t directory_offset, arena_offset, segments_offset, file_bytes;
    uint64_t arena_cap;
    uint64_t created;                              /* time of creation, in the pool's clock */
    char rank[16], local_rank[16], world_size[16]; /* text of RANK / OMPI_COMM_WORLD_RANK / SLURM_PROCID ...; "" = none */
    char program[128];                             /* base name of /proc/self/exe */
    _Atomic uint32_t segments_backed;              /* directory lines below this have backing */
    _Atomic uint32_t segments_peak;                /* highest index ever taken + 1: the reader scans up to here */
    _Atomic uint64_t arena_used;                   /* bytes; ids are (offset in arena) / 8, id 0 is the empty string */
    _Atomic uint64_t arena_backed;
    _Atomic uint32_t threads;                   /* thread ordinals handed out */
    _Atomic uint32_t domains;                   /* entries of domain_name in use */
    _Atomic uint32_t finished;                  /* 1: the process ran its exit handlers */
    _Atomic uint32_t domain_name[WIRE_DOMAINS]; /* arena id of the name */
    struct wire_loss loss[WIRE_LOSS_COUNT];
};
_Static_assert(sizeof(struct wire_pool) <= WIRE_HEADER_BYTES, "pool header outgrew its place");

/* One line of the directory: everything about a segment but its records. */
struct wire_segment {
    _Atomic uint32_t state;     /* enum wire_state */
    _Atomic uint32_t committed; /* bytes of complete records */
    uint32_t thread;            /* ordinal of the owner, from 0, unique in the process even where the kernel reuses tids */
    uint32_t tid;
    uint64_t chain_seq;
    uint64_t generation;   /* from 1 */
    _Atomic uint32_t last; /* 1: the owner has ended, no chain_seq + 1 follows */
    uint32_t reserved[7];
};
_Static_assert(sizeof(struct wire_segment) == 64, "directory line is one cache line");

/* Arena entry: names, schemas and counter definitions; 8-byte aligned, padded to 8. */
struct wire_text {
    uint32_t bytes; /* of text, without the terminating 0 that follows it */
    uint32_t type;  /* enum wire_text_type */
    char text[];
};
/* SCHEMA text: line 1 "NAME\tSTATIC_SIZE", then a line an entry "field\ttype\toffset" (type: NVTX_PAYLOAD_ENTRY_TYPE_* number).
 * An embedded string has a fourth column, its length in characters. Nested schemas and arrays are written out ("a.b", "a[1]").
 * COUNTER text: "NAME\tDOMAIN_INDEX\tschema or type number". */
enum wire_text_type { WIRE_TEXT_NAME = 0, WIRE_TEXT_SCHEMA = 1, WIRE_TEXT_COUNTER = 2 };

/* Record: a header of 16 bytes, then as the flags say, in this order:
 *   CATEGORY  8 bytes  {u32 category, u32 arena id of its name (0 = unnamed)}
 *   PAYLOAD   8 bytes  {u32 arena id of the schema (0 = unknown schema), u32 bytes}, then the bytes padded to 8
 *   VALUE     8 bytes  scalar; its type (enum wire_value) is the `depth` of a COUNTER; elsewhere the raw NVTX payload word
 *   and START and END always end with 8 bytes: the NVTX range id */
enum wire_kind {
    WIRE_PUSH = 1,    /* name */
    WIRE_POP = 2,     /* closes the range at `depth` */
    WIRE_START = 3,   /* name, RANGE_ID */
    WIRE_END = 4,     /* RANGE_ID */
    WIRE_MARK = 5,    /* name */
    WIRE_COUNTER = 6, /* name = arena id of the COUNTER entry, VALUE */
    WIRE_THREAD = 7,  /* name = name of this thread from here on */
    WIRE_KIND_MASK = 0x0f,
};
enum wire_flag {
    WIRE_CATEGORY = 0x10,
    WIRE_PAYLOAD = 0x20,
    WIRE_VALUE = 0x40,
    WIRE_PAUSED = 0x80, /* PUSH of a tacho.step: recording is paused inside this step */
};
enum wire_value { WIRE_VALUE_F64 = 0, WIRE_VALUE_I64 = 1, WIRE_VALUE_NONE = 2 };

struct wire_record {
    uint64_t time;
    uint8_t kind;   /* enum wire_kind | enum wire_flag */
    uint8_t words;  /* whole record in units of 8 bytes, >= 2 */
    uint8_t domain; /* index into wire_pool.domain_name */
    uint8_t depth;  /* nesting depth of PUSH and POP in this thread and domain, from 0, 255 = 255 or deeper. A reader that finds
                     * ranges open at this depth or deeper on a PUSH (deeper on a POP) knows their POP was lost. */
    uint32_t name;  /* arena id, 0 = none */
};
_Static_assert(sizeof(struct wire_record) == 16, "record header is 16 bytes");

#define WIRE_RECORD_MAX (sizeof(struct wire_record) + 8 + 8 + WIRE_PAYLOAD_MAX + 8 + 8)

#endif
