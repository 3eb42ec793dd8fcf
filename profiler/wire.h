/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/: the layout of a pool file, the only thing the agent (in the target) and the
 * collector (outside) share.
 *
 * One pool file a process, `pool.PID.N` in the segment folder ($TACHO_SEGMENTS, tmpfs where large
 * enough), mapped MAP_SHARED by the agent: what was recorded is in the file whatever way the
 * process dies. The file is sparse at its full size; backing is allocated (posix_fallocate) in
 * chunks of WIRE_GROW segments BEFORE the pages are touched, so a full disk cannot SIGBUS the
 * target.
 *
 *     offset 0                    struct wire_pool          (WIRE_HEADER_BYTES)
 *     pool->directory_offset      struct wire_segment[segment_cap]     one line of 64 bytes each
 *     pool->arena_offset          string arena, arena_cap bytes, append only
 *     pool->segments_offset       segment_cap segments of segment_bytes
 *
 * WRITER (agent). A thread takes a FREE segment (CAS on state), fills in its directory line,
 * publishes it with state = ACTIVE (release), appends records and publishes each with a release
 * store of `committed`. A full segment becomes FULL and the thread takes the next one, with
 * chain_seq + 1. No other thread ever writes there. No lock, no syscall, no malloc on the append
 * path. READER (collector). Reads `committed` (acquire) of ACTIVE and FULL segments, stores rows
 * together with its position (pool, segment, generation, bytes) in one transaction, and only after
 * that COMMIT sets a fully read FULL segment to FREE. `generation` grows each time a segment is
 * taken, so a position can never be applied to another use of the same segment.
 *
 * Order. Records of one thread are in order along its chain (chain_seq from 0, without holes).
 * Between threads only time orders. Times are raw ticks or CLOCK_MONOTONIC ns, as pool->clock says.
 * All integers are native-endian: both ends are one machine.
 *
 * Fork: thread state lives on MADV_WIPEONFORK pages, so a child finds no segment, and opens a pool
 * of its own at its first event, with the parent's arena copied (ids stay valid). Exec leaves the
 * old pool behind: the collector sees a second pool of the pid.
 */
#ifndef TACHO_WIRE_H
#define TACHO_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_MAGIC         0x306c6f6f70484354ull /* "TCHpool0" */
#define WIRE_VERSION       5u
#define WIRE_HEADER_BYTES  16384u
#define WIRE_SEGMENT_BYTES (64u << 10)
#define WIRE_SEGMENT_CAP   1024u /* 64 MiB a process unless $TACHO_POOL_MIB says otherwise */
#define WIRE_GROW          8u    /* segments backed at a time */
#define WIRE_ARENA_BYTES   (8u << 20)
#define WIRE_ARENA_GROW    (64u << 10)
/* Index 0 is the default domain, 255 "(other domains)" once the table is full. */
#define WIRE_DOMAINS     256u
#define WIRE_STRING_MAX  1024u /* longer names are cut here and counted */
#define WIRE_PAYLOAD_MAX 64u   /* longer payloads are cut here and counted */
/* A pool under construction is "new.PID.N" and renamed when complete. */
#define WIRE_PREFIX "pool."
#define WIRE_NEW    "new."
/* "none.PID[.EVENTS]", an empty file: a process that found no space for a pool, and what it lost.
 */
#define WIRE_NONE "none."

/* A process that may not make files in the folder (another user, another root) asks the collector
 * for one: it connects to the abstract SOCK_SEQPACKET address that $TACHO_LENDER ("UID:NAME")
 * names. The collector answers with one wire_loan and the descriptor of an empty file; the agent
 * makes its pool in it, sends one byte when it is complete, and closes the connection. */
#define WIRE_LOAN_MAGIC 0x6e616f6cu
struct wire_loan {
    uint32_t magic;
    uint32_t pid; /* of the process, as the collector sees it; 0: refused, no descriptor */
    uint64_t
        start_ticks; /* likewise; a process with another root may not be able to read its own */
};

/* Environment the collector sets for the target. */
/* Absolute folder for pools; unset = the agent stays off. */
#define WIRE_ENV_SEGMENTS "TACHO_SEGMENTS"
/* Who lends files for pools: the user of the collector and the name of its socket. */
#define WIRE_ENV_LENDER "TACHO_LENDER"
/* Cap of segments a process, MiB. */
#define WIRE_ENV_POOL_MIB "TACHO_POOL_MIB"
/* Probability that a tacho.step is run with recording paused, "0" = never. */
#define WIRE_ENV_PAUSE "TACHO_PAUSE"
/* "monotonic" forces clock_gettime (tests). */
#define WIRE_ENV_CLOCK "TACHO_CLOCK"
/* "off": no device work is recorded; "whole-graphs", "memory", "waits": agent/gpu/cupti_capture.c;
 * "pm", "range": agent/gpu/gpu_counters.h. */
#define WIRE_ENV_GPU "TACHO_GPU"
/* CUPTI activity kinds instead of the default ones: "10,5". */
#define WIRE_ENV_GPU_KINDS "TACHO_GPU_KINDS"
/* Cap of device buffers a process, MiB. */
#define WIRE_ENV_GPU_MIB "TACHO_GPU_MIB"
/* Most memory on a device for CUPTI's own buffers, a context, MiB. */
#define WIRE_ENV_GPU_DEVICE_MIB "TACHO_GPU_DEVICE_MIB"
/* Path of the libcupti to use. */
#define WIRE_ENV_CUPTI "TACHO_CUPTI"
/* What CUDA_INJECTION64_PATH was before: loaded after the agent. */
#define WIRE_ENV_CHAIN "TACHO_CHAIN_CUDA"

/* TSC: the counter of profiler/ticks.h, whatever the processor calls it. */
enum wire_clock { WIRE_CLOCK_TSC = 1, WIRE_CLOCK_MONOTONIC = 2 };
enum wire_state { WIRE_FREE = 0, WIRE_TAKEN = 1, WIRE_ACTIVE = 2, WIRE_FULL = 3 };

/* Why something is missing: name, 1 if an event is gone, text for the loss table. Each is a counter
 * with the time of its first and last event. */
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
    X(NO_TIME, 1, "counter sample dropped: its timestamp is of a clock unknown here") \
    X(GPU_DROPPED, 1, "device record dropped by CUPTI: its own buffers were full") \
    X(GPU_NO_BUFFER, 1, "device record dropped: all buffers full (raise TACHO_GPU_MIB)") \
    X(GPU_TAKEN, 1, "device record lost in a buffer that another profiler got") \
    X(GPU_LATE, 1, "device records not flushed: CUPTI did not answer when the process ended") \
    X(NCCL_SLOTS, 1, "collective not recorded: table of running collectives full") \
    X(NO_FOLDER, 1, \
      "event dropped: a child changed its user or its root directory and cannot make a pool " \
      "(start a tacho of its own in it)")

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
    uint64_t start_ticks; /* field 22 of /proc/self/stat: differs where a pid was used twice */
    char boot_id[40];     /* /proc/sys/kernel/random/boot_id */
    uint32_t segment_bytes, segment_cap;
    uint64_t directory_offset, arena_offset, segments_offset, file_bytes;
    uint64_t arena_cap;
    uint64_t created; /* time of creation, in the pool's clock */
    char rank[16], local_rank[16],
        world_size[16]; /* text of RANK / OMPI_COMM_WORLD_RANK / SLURM_PROCID ...; "" = none */
    char program[128];  /* base name of /proc/self/exe */
    _Atomic uint32_t segments_backed; /* directory lines below this have backing */
    _Atomic uint32_t segments_peak; /* highest index ever taken + 1: the reader scans up to here */
    _Atomic uint64_t
        arena_used; /* bytes; ids are (offset in arena) / 8, id 0 is the empty string */
    _Atomic uint64_t arena_backed;
    /* Sum of the counts of loss, in another cache line: a stray write that makes a count less is
     * noticed. The agent adds to it after the count; the collector reads it before the counts. */
    _Atomic uint64_t losses;
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
    uint32_t thread; /* ordinal of the owner, from 0, unique in the process even where the kernel
                        reuses tids */
    uint32_t tid;
    uint64_t chain_seq;
    uint64_t generation;   /* from 1, one more at each use */
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
/* SCHEMA text: line 1 "NAME\tSTATIC_SIZE", then a line an entry "field\ttype\toffset" (type:
 * NVTX_PAYLOAD_ENTRY_TYPE_* number). An embedded string has a fourth column, its length in
 * characters. Nested schemas and arrays are written out ("a.b", "a[1]"). COUNTER text:
 * "NAME\tDOMAIN_INDEX\tschema or type number". */
enum wire_text_type { WIRE_TEXT_NAME = 0, WIRE_TEXT_SCHEMA = 1, WIRE_TEXT_COUNTER = 2 };

/* Record: a header of 16 bytes, then as the flags say, in this order:
 *   CATEGORY  8 bytes  {u32 category, u32 arena id of its name (0 = unnamed)}
 *   PAYLOAD   8 bytes  {u32 arena id of the schema (0 = unknown schema), u32 bytes}, then the bytes
 * padded to 8 VALUE     8 bytes  scalar; its type (enum wire_value) is the `depth` of a COUNTER;
 * elsewhere the raw NVTX payload word and START and END always end with 8 bytes: the NVTX range id
 */
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
    uint8_t depth;  /* nesting depth of PUSH and POP in this thread and domain, from 0, 255 = 255 or
                     * deeper. A reader that finds  ranges open at this depth or deeper on a PUSH
                     * (deeper on a POP) knows their POP was lost. */
    uint32_t name;  /* arena id, 0 = none */
};
_Static_assert(sizeof(struct wire_record) == 16, "record header is 16 bytes");

#define WIRE_RECORD_MAX (sizeof(struct wire_record) + 8 + 8 + WIRE_PAYLOAD_MAX + 8 + 8)

/* ---- device work: `gpu.PID.N` beside `pool.PID.N` ---------------------------------------------------------------------------
 *
 * Buffers of CUPTI activity records, lent to CUPTI and decoded by the collector, so that the target
 * builds no rows.
 *
 *     offset 0                    struct wire_gpu
 *     gpu->directory_offset       struct wire_buffer[buffer_cap]
 *     gpu->names_offset           struct wire_gpu_name[name_cap]     pointers of names in records
 * -> arena ids of the pool gpu->buffers_offset         buffer_cap buffers of buffer_bytes
 *
 * WRITER (agent). A FREE buffer is all zero. CUPTI asks for one: LENT. CUPTI gives it back: the
 * agent replaces the name pointers of its records by WIRE_GPU_NAME_TAG | arena id, and publishes it
 * with state = DONE (release); `sequence` orders them. READER (collector). Decodes DONE buffers,
 * commits the rows together with the position, zeroes the buffer, sets FREE. When the process is
 * gone, LENT buffers are read up to the first record that is zero; names that are still pointers
 * are looked up in the table. Records have the layout of the CUPTI that wrote them. The agent notes
 * the size of each kind that it steps over, so a reader need not know a CUPTI newer than itself;
 * the fields that it reads keep their places (collector/cupti.h). */
#define WIRE_GPU_MAGIC        0x3075706748435474ull
#define WIRE_GPU_PREFIX       "gpu."
#define WIRE_GPU_BUFFER_BYTES (2u << 20)
#define WIRE_GPU_BUFFERS      64u
#define WIRE_GPU_GROW         2u /* buffers backed at a time */
#define WIRE_GPU_KINDS        64u
#define WIRE_GPU_APIS         1024u /* callback ids a domain */
#define WIRE_GPU_NAMES        8192u
#define WIRE_GPU_ANCHORS      1024u
#define WIRE_GPU_GAPS         16u
#define WIRE_GPU_NAME_TAG     0x7ac0000000000000ull
#define WIRE_GPU_NAME_MAX     32768u /* bytes of a kernel's name */
/* Callback id, in the driver's domain, of the call that the agent makes itself
 * (cuDriverGetVersion): no row. */
#define WIRE_GPU_OWN_CALL 2u
/* CUPTI before 13.1 update 1 gives graph launches wrong correlation ids once its kinds were all off
 * (its release notes): these are not kept. */
#define WIRE_GPU_GRAPH_IDS_OK 130101u

#define WIRE_GPU_WAITS_ASKED (-1)
/* So many kernels, copies, memsets and calls that make a stream wait, on other streams than the one
 * that has the work, show that a second stream is really used. Fewer are the start of a library:
 * cuBLAS sets memory four times on two streams of its own for each thread that uses it, and in
 * PyTorch two threads do, that of the step and that of backward. */
#define WIRE_GPU_SECOND_STREAM 16u
/* Reason of the loss row, whose times are those of the gap. */
#define WIRE_GPU_WAITS_LATE \
    "waits between streams not recorded until a second stream was noticed (TACHO_GPU=waits: from " \
    "the start)"

enum wire_gpu_state {
    WIRE_GPU_STARTING = 0,
    WIRE_GPU_ON = 1,
    WIRE_GPU_FAILED = 2,
    WIRE_GPU_ENDED = 3
};

/* Where the start of recording failed: name, text. */
#define WIRE_GPU_STAGE_MAP(X) \
    X(NONE, "") \
    X(SPACE, "no space for its buffers") \
    X(LIBRARY, "libcupti was not found") \
    X(OPEN, "CUPTI does not start") \
    X(SYMBOL, "libcupti lacks what is needed") \
    X(SUBSCRIBE, "another tool holds CUPTI") \
    X(REGISTER, "CUPTI refused the buffers") \
    X(ENABLE, "CUPTI refused to record kernels") \
    X(THREAD, "no thread could be started")
enum wire_gpu_stage {
#define WIRE_GPU_STAGE_ENUM(name, text) WIRE_GPU_STAGE_##name,
    WIRE_GPU_STAGE_MAP(WIRE_GPU_STAGE_ENUM)
#undef WIRE_GPU_STAGE_ENUM
};

enum wire_buffer_state { WIRE_BUFFER_FREE = 0, WIRE_BUFFER_LENT = 1, WIRE_BUFFER_DONE = 2 };
struct wire_buffer {
    _Atomic uint32_t state; /* enum wire_buffer_state */
    uint32_t valid;         /* bytes of complete records */
    uint64_t generation;    /* from 1 */
    uint64_t sequence;      /* order of completion, from 1 */
    uint64_t context;       /* as CUPTI gave it back with the buffer */
    uint32_t stream;
    uint32_t dropped; /* records that CUPTI says it lost */
    uint32_t records;
    uint32_t forced; /* given back by a forced flush: records in it may be incomplete */
    uint32_t reserved[4];
};
_Static_assert(sizeof(struct wire_buffer) == 64, "directory line is one cache line");

struct wire_gpu_name {
    _Atomic uint64_t pointer; /* 0 = empty; written after `id` */
    uint32_t id;
    uint32_t epoch; /* of loaded modules, in which the pointer was seen */
};

/* One moment on all clocks. cupti: what cuptiGetTimestamp says, whatever clock that is. */
struct wire_gpu_anchor {
    uint64_t cupti;
    int64_t realtime, monotonic;
    uint64_t tsc;
};

/* Another profiler had the records. t1 0: it still has them. CLOCK_MONOTONIC ns. */
struct wire_gpu_gap {
    _Atomic int64_t t0, t1;
};

/* Hardware counters: how far asking for them came. What is sampled over time; what is counted in
 * whole steps; in the ranges inside them, which is OFF until the first step with ranges was seen.
 */
enum wire_counters {
    WIRE_COUNTERS_PM = 0,
    WIRE_COUNTERS_RANGE = 1,
    WIRE_COUNTERS_PARTS = 2,
    WIRE_COUNTERS = 3
};
#define WIRE_COUNTERS_STAGE_MAP(X) \
    X(NONE, "") \
    X(LIBRARY, "this CUPTI has no such interface (12.6 or later has)") \
    X(CHIP, "the chip's name") \
    X(AVAILABLE, "which counters are free") \
    X(METRICS, "the metrics of the chip") \
    X(ENABLE, "enabling") \
    X(CONFIG, "the configuration") \
    X(START, "starting") \
    X(DECODE, "reading") \
    X(DIFFER, "the steps have different ranges: a pass is a step, and they must be alike") \
    X(MANY, "more than 127 ranges directly in a step") \
    X(BEYOND, "CUPTI wrote beyond the memory that it had asked for")
enum wire_counters_stage {
#define WIRE_COUNTERS_STAGE_ENUM(name, text) WIRE_COUNTERS_STAGE_##name,
    WIRE_COUNTERS_STAGE_MAP(WIRE_COUNTERS_STAGE_ENUM)
#undef WIRE_COUNTERS_STAGE_ENUM
};
enum wire_counters_state {
    WIRE_COUNTERS_OFF = 0,
    WIRE_COUNTERS_WAITING = 1,
    WIRE_COUNTERS_ON = 2,
    WIRE_COUNTERS_FAILED = 3
};
struct wire_gpu_counters {
    _Atomic uint32_t state, stage, error; /* stage, error: where it failed, with CUPTI's result */
    _Atomic uint32_t metrics, passes;
    _Atomic uint32_t overflows; /* times that samples were lost */
    _Atomic uint64_t values;    /* samples; times that steps were counted to their end; ranges */
    char chip[32];
};

struct wire_gpu {
    uint64_t magic; /* written last, with release order */
    uint32_t version, pid;
    uint64_t start_ticks;
    uint32_t buffer_bytes, buffer_cap, name_cap, cupti_version;
    int32_t driver_version; /* of CUDA, 13000 for 13.0; 0 = not known */
    uint32_t whole_graphs;
    uint64_t device_buffer_bytes; /* CUPTI's own buffers on a device; 0 = not known */
    uint64_t device_buffers;      /* at most, a context */
    uint64_t directory_offset, names_offset, buffers_offset, file_bytes;
    char library[512]; /* the libcupti in use */
    char holder[64];   /* the tool that holds CUPTI, where CUPTI says so */
    _Atomic uint32_t state;
    _Atomic uint32_t stage; /* enum wire_gpu_stage */
    _Atomic uint32_t error; /* CUptiResult behind it */
    _Atomic uint32_t buffers_backed;
    _Atomic uint32_t anchors;        /* ever taken; the last WIRE_GPU_ANCHORS are kept, number n in
                                        anchor[n % WIRE_GPU_ANCHORS] */
    _Atomic uint32_t gaps;           /* ever begun; kept likewise */
    _Atomic uint32_t recording;      /* 1: inside of a capture window */
    _Atomic uint32_t windows;        /* ever opened */
    _Atomic int64_t graph_ids_until; /* CLOCK_MONOTONIC ns when the kinds were first all off; 0 =
                                        never, or the CUPTI is WIRE_GPU_GRAPH_IDS_OK */
    /* Events and synchronization are not recorded while one stream is in use. CUPTI's time of the
     * first use of a second stream, of those that count (WIRE_GPU_SECOND_STREAM); 0 = not seen.
     * Then CLOCK_MONOTONIC ns when their recording ended because one stream was seen, and when it
     * began again; 0 = it has not; waits_from WIRE_GPU_WAITS_ASKED = they are recorded all the time
     * or not at all, as the user asked. */
    _Atomic uint64_t streams_from;
    _Atomic int64_t waits_until;
    _Atomic int64_t waits_from;
    _Atomic uint64_t sequence;
    _Atomic uint64_t step;      /* index + 1 of the newest tacho.step; 0 = none yet */
    _Atomic uint64_t step_time; /* when it began, CLOCK_MONOTONIC ns */
    _Atomic uint32_t
        kind_error[WIRE_GPU_KINDS]; /* CUptiResult of enabling it; 0 = enabled or not asked for */
    _Atomic uint32_t record_bytes[WIRE_GPU_KINDS]; /* 0 = none seen yet */
    _Atomic uint32_t api_name[2][WIRE_GPU_APIS];   /* arena ids by callback id: driver, runtime */
    struct wire_gpu_anchor anchor[WIRE_GPU_ANCHORS];
    struct wire_gpu_gap gap[WIRE_GPU_GAPS];
    struct wire_gpu_counters counters[WIRE_COUNTERS];
};

/* ---- capture windows: the file `control` in the segment folder ----------------------------------------------------------------
 *
 * Written by the collector before the target starts and by `tacho capture` later; all processes of
 * the run look at it. `sequence` is odd while it is being written
 * (profiler/control.h). */
#define WIRE_CONTROL       "control"
#define WIRE_CONTROL_MAGIC 0x306c72746e6f6354ull
enum wire_capture {
    WIRE_CAPTURE_ALL = 0,
    WIRE_CAPTURE_NONE = 1,  /* until a window is asked for */
    WIRE_CAPTURE_STEPS = 2, /* tacho.steps from..to, of these every Nth */
    WIRE_CAPTURE_UNTIL = 3, /* before the time `until` */
};
struct wire_control {
    uint64_t magic;
    _Atomic uint32_t sequence;
    _Atomic uint32_t mode; /* enum wire_capture */
    _Atomic int64_t from, to, every;
    _Atomic int64_t until; /* CLOCK_MONOTONIC ns */
};

#endif
