/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/: the state of libtacho.so and what its files offer each other. The
 * format of the pool file is in profiler/wire.h; record.h holds the append path.
 *
 * State comes in three kinds, by what a fork does to it.
 *
 *   - struct agent_process and struct agent_thread are on MADV_WIPEONFORK pages: a child, however
 * it was made, finds zeroes there and starts over at its first event. The lock and all that it
 *     guards are among them.
 *   - agent_setup, names, maps and domains are private memory: a child keeps them, so handles made
 *     before a fork stay valid. Each entry is published by one store, so a fork at any moment
 * leaves no half of one.
 *   - The pool is a shared file: it belongs to one process only.
 *
 * Files of core/ from the bottom up: clock.c, process.c (state, lock, losses), lender.c, pool.c,
 * names.c, pause.c, thread.c; schema.c, counter.c, event.c, range.c; nvtx.c (the callbacks) and
 * attach.c on top. What gpu/ does is asked through struct agent_device.
 *
 * Reentrancy. agent_thread.gate is BUSY while the thread appends. A signal handler that calls NVTX
 * then finds it so, and its event is counted as lost. Slow paths block signals and cancellation
 * (struct agent_quiet) and then take agent_process.lock. No function here allocates with malloc or
 * frees what another thread might use; errno is preserved.
 */
#ifndef TACHO_AGENT_H
#define TACHO_AGENT_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSemanticsTime.h>

#include "profiler/ticks.h"
#include "profiler/wire.h"

/* -fvisibility=hidden does not reach declarations: without this each access would go through the
 * offset table. */
#pragma GCC visibility push(hidden)

#define agent_likely(x)   __builtin_expect(!!(x), 1)
#define agent_unlikely(x) __builtin_expect(!!(x), 0)

/* Counters and flags that order nothing else. */
#define relaxed_load(object)         atomic_load_explicit((object), memory_order_relaxed)
#define relaxed_store(object, value) atomic_store_explicit((object), (value), memory_order_relaxed)
#define relaxed_add(object, value) \
    atomic_fetch_add_explicit((object), (value), memory_order_relaxed)

/* ---- set-up: read once from the environment when NVTX loads the library ---- */

struct agent_setup {
    char folder[4096 - 64]; /* $TACHO_SEGMENTS */
    char lender[96];        /* $TACHO_LENDER: the socket, "" = none, and its user */
    uint32_t lender_user;
    uint32_t clock; /* enum wire_clock */
    uint32_t segment_cap;
    /* a step is paused when a random 64-bit number is below this; 0 = never */
    uint64_t pause_below;
    uint64_t tick_ms; /* about one millisecond in ticks, for pacing retries only */
};
extern struct agent_setup agent_setup;

/* Idempotent and thread-safe. Returns whether the agent is on: false when $TACHO_SEGMENTS is unset,
 * with nothing touched. */
bool agent_start(void);

/* ---- clock ---- */

/* Chooses the clock: the counter of profiler/ticks.h where it is steady and the kernel trusts it,
 * else CLOCK_MONOTONIC ns. */
uint32_t agent_clock_choose(void);
uint64_t agent_clock_monotonic(void);

static inline uint64_t agent_now(void)
{
    if (agent_likely(agent_setup.clock == WIRE_CLOCK_TSC))
        return ticks_read();
    return agent_clock_monotonic();
}

/* ---- thread state ---- */

/* READY: idle, and the clock is the counter, as the common case wants it. */
enum agent_gate { AGENT_WIPED = 0, AGENT_READY = 1, AGENT_BUSY = 2, AGENT_IDLE = 3 };

/* Open ranges of one domain on one thread: depth counts every push of the program, recorded or not.
 * All zero = none yet. */
struct agent_level {
    uint32_t at;              /* as a record has it: min(depth, 255) << 24 | domain << 16 */
    volatile uint32_t common; /* not 0: `at` is set and all below is 0 */
    volatile int32_t pending; /* pushes minus pops that a signal handler lost while the thread was
                                 busy; folded in afterwards */
    uint32_t over;            /* depth beyond 255 */
    uint32_t deep;   /* as `dropped`, deeper: depth + 1 of the outermost one not recorded, with all
                        inside it; 0 = none */
    uint32_t reason; /* enum wire_loss_reason of the latest drop */
    /* bit d: the push at depth d was not recorded, so its pop must not be (d < 64) */
    uint64_t dropped;
};
#define AGENT_DEPTH_ONE ((uint32_t)1 << 24)

struct agent_thread {
    volatile uint32_t gate; /* enum agent_gate */
    uint32_t ordinal;
    char *pos, *end;           /* free part of the segment; both NULL when the thread holds none */
    char *_Atomic common_end;  /* below it, an event is a common case: any record fits, nothing is
                                  paused. NULL = nowhere */
    char *base;                /* first byte of the segment */
    struct wire_segment *line; /* its directory line */
    uint64_t chain_seq;        /* of the next segment */
    uint64_t range_seq;        /* start/end ranges begun here */
    _Atomic uint64_t skipped;  /* events skipped while recording was paused ... */
    _Atomic uint64_t counted;  /* ... and how many of them are in the loss table */
    _Atomic uint32_t rename; /* arena id of a name that another thread gave to this one, 0 = none */
    uint32_t tid;
    uint32_t known; /* has an ordinal in the current pool */
    uint32_t exits; /* rounds of thread exit destructors seen */
    struct agent_thread *next, *prev;
    struct agent_level level[WIRE_DOMAINS];
};

extern __thread struct agent_thread *agent_tls __attribute__((tls_model("initial-exec")));

/* Makes or revives the state of the calling thread and enters it. NULL: no memory, or called from a
 * signal handler that interrupted the recorder. */
struct agent_thread *agent_thread_open(void);
/* Room for `bytes` in a new segment; NULL when none exists, with the reason in *reason. */
char *agent_thread_room(struct agent_thread *thread, size_t bytes, enum wire_loss_reason *reason);
/* Names thread `tid` (an arena id), be it alive already or not. */
void agent_thread_name(uint32_t tid, uint32_t name);
int agent_thread_start(void);
/* Around fork, for one from a signal handler that interrupted the recorder: the child will finish
 * what was interrupted. */
void agent_thread_before_fork(void);
void agent_thread_in_child(void);

/* ---- process state ---- */

#define AGENT_TID_NAMES 64u /* names given to threads that had not recorded anything yet */

struct agent_process {
    _Atomic uint32_t lock; /* 0 free, 1 held, 2 held and a thread waits */
    uint32_t born;         /* agent_pause_flag has been cleared for this process */
    struct wire_pool *_Atomic pool;
    struct wire_segment *directory;
    char *_Atomic arena;
    char *segments;
    uint32_t number; /* N of pool.PID.N */
    uint32_t pid;
    uint32_t epoch;       /* generations of pools since the first ancestor, part of range ids */
    _Atomic uint32_t why; /* enum wire_loss_reason while no segment can be had */
    _Atomic uint64_t retry_at; /* no attempt at a segment or pool before this time */
    uint64_t ask_at;           /* the collector is not asked for a file before this time */
    struct agent_thread *live, *spare;
    _Atomic uint64_t early[WIRE_LOSS_COUNT]; /* losses before there is a pool to count them in */
    struct wire_pool *_Atomic ancestor; /* its pool counts what this process loses, which may make
                                           neither a pool nor a name */
    /* pause.c */
    struct agent_thread *_Atomic pause_owner;
    uint32_t pause_domain, pause_depth;
    _Atomic uint32_t pause_values; /* of counters that this pause has recorded */
    uint64_t random;
    _Atomic uint64_t steps;
    /* cupti.c: device work is recorded in this very process, not in its parent. nccl.c: its slots
     * are this process's own */
    _Atomic uint32_t cuda_once, cuda_live;
    /* thread.c */
    uint32_t tid_names;
    struct {
        uint32_t tid, name;
    } tid_name[AGENT_TID_NAMES];
};
extern struct agent_process *agent_process;
/* Recording is paused for a step. Not on wiped pages: see agent_thread_open. Threads see it by
 * their common_end, too. */
extern _Atomic uint32_t agent_pause_flag;
/* The device wants to see the pushes and pops of a thread (agent_device.range), so no event takes
 * the common case. Likewise not on wiped pages. */
extern _Atomic uint32_t agent_watch_flag;

/* Signals and cancellation off, errno kept: the thread cannot be taken out of a slow path. */
struct agent_quiet {
    sigset_t mask;
    int cancel, saved_errno;
};
void agent_quiet_begin(struct agent_quiet *quiet);
void agent_quiet_end(const struct agent_quiet *quiet);
/* Only inside agent_quiet; in a forked child the lock is free again. */
void agent_lock(void);
void agent_unlock(void);

/* Counts losses. Safe anywhere, signal handlers included. */
void agent_lose(enum wire_loss_reason reason, uint64_t count);

/* Starts a thread of the agent that gets no signals and is detached: it may be inside of CUPTI when
 * the process ends. `stack`: bytes. */
bool agent_background(void *(*run)(void *), size_t stack);

/* ---- pool (agent_process.lock held) ---- */

/* Makes sure that the process has a pool. False: no space or no permission; losses are kept until
 * it works. */
bool agent_pool_open(void);
/* The process ends without a pool: its marker in the folder says how many events that cost. */
void agent_pool_never(uint64_t lost);
/* Takes a segment for the thread; false with the reason when none exists. */
bool agent_pool_take(struct agent_thread *thread, enum wire_loss_reason *reason);
/* Backs bytes of a file of the agent that is mapped at `map`: space on the disk first, then pages.
 * fd < 0: pages alone. */
bool agent_pool_back(int fd, char *map, uint64_t offset, uint64_t bytes);
/* Backs the arena up to `bytes`. */
bool agent_pool_back_arena(uint64_t bytes);
/* In a forked child: what is still written to the parent's pool goes to private pages from here on.
 * No lock needed. */
void agent_pool_detach(void);

/* ---- a file that the collector lends ---- */

struct agent_loan {
    int connection;       /* -1: the file is the process's own */
    uint32_t pid;         /* of this process, as the collector sees it */
    uint64_t start_ticks; /* likewise */
};
/* Reads $TACHO_LENDER; NULL: no collector lends files. */
void agent_lender_setup(const char *lender);
/* Asks for an empty file: its descriptor, or -1. Waits a second at most. */
int agent_lender_ask(struct agent_loan *loan);
/* The pool in the file is complete, or it was given up. False: the collector does not know of it.
 */
bool agent_lender_end(struct agent_loan *loan, bool complete);

/* ---- names ---- */

/* Arena id of a text; the same content gives the same id. 0 for "" and when the tables are full
 * (counted). `keep`: the caller hands the id out (registration), so it may use what is reserved for
 * registrations. Fast when the text is known. */
uint32_t agent_name_intern(uint32_t type, const char *text, size_t bytes, bool keep);
/* The same for a message of NVTX, at most WIRE_STRING_MAX bytes of it (cut and counted). NULL gives
 * 0. */
uint32_t agent_name(const char *text, bool keep);
uint32_t agent_name_wide(const wchar_t *text, bool keep);
/* Replaces tabs and line feeds, which separate the fields of an entry in the arena, by blanks. */
void agent_name_clean(char *text);
/* Text of an id of this process; NULL when there is no pool. */
const struct wire_text *agent_name_text(uint32_t id);

/* Domains are handed out as AGENT_DOMAIN_TAG | index, so that a foreign handle can never lead
 * outside a table. */
#define AGENT_DOMAIN_TAG ((uintptr_t)0x7ac40000)
nvtxDomainHandle_t agent_domain_create(uint32_t name);
/* pool.c: the table of domains, and its next entry (lock held). */
uint32_t agent_domain_count(void);
uint32_t agent_domain_name(uint32_t index);
void agent_domain_add(uint32_t index, uint32_t name);

static inline uint32_t agent_domain_index(nvtxDomainHandle_t domain)
{
    return (uint32_t)((uintptr_t)domain & (WIRE_DOMAINS - 1));
}

/* Small map for rare look-ups; the upper bits of a key say what it belongs to. Lock-free reads; an
 * entry never changes place.
 */
enum agent_map_kind {
    AGENT_MAP_CATEGORY = 1,
    AGENT_MAP_SCHEMA = 2,
    AGENT_MAP_COUNTER = 3,
    AGENT_MAP_MESSAGE = 4,
    AGENT_MAP_ENUM = 5
};
uint64_t agent_map_get(enum agent_map_kind kind, uint32_t domain, uint64_t key); /* 0 = absent */
bool agent_map_set(enum agent_map_kind kind, uint32_t domain, uint64_t key, uint64_t value);

/* ---- payload schemas ---- */

/* Schema ids given out: DYNAMIC | flags | arena id. */
#define AGENT_ID_DYNAMIC ((uint64_t)1 << 32)
#define AGENT_ID_STEP    ((uint64_t)1 << 48) /* the schema is named tacho.step */
#define AGENT_ID_GROUP   ((uint64_t)1 << 49) /* a counter id that stands for a group of counters */

uint64_t agent_schema_register(uint32_t domain, const nvtxPayloadSchemaAttr_t *attr);
uint64_t agent_schema_register_enum(uint32_t domain, const nvtxPayloadEnumAttr_t *attr);
/* The arena id of a schema by its id in an event (static, dynamic or predefined); 0 = unknown. */
uint64_t agent_schema_find(uint32_t domain, uint64_t id);
/* Bytes of a payload of unknown size; 0 = not known. */
size_t agent_schema_size(uint64_t id, const void *data);
/* Arena id of the message that a payload carries (an entry flagged EVENT_MESSAGE), else of the
 * schema's name. */
uint32_t agent_schema_message(uint64_t id, const void *data, size_t bytes);
size_t agent_schema_type_size(uint64_t type);

/* One field of a schema as the arena text has it. `next`: start with NULL. Returns false after the
 * last. */
struct agent_field {
    const char *next, *stop;
    char name[64];
    uint64_t type, offset, count;
};
bool agent_schema_field(uint32_t schema, struct agent_field *field);

/* ---- counters ---- */

/* These six are callbacks of NVTX. */
uint64_t agent_counter_register(nvtxDomainHandle_t handle, const nvtxCounterAttr_t *attr);
void agent_counter_int64(nvtxDomainHandle_t handle, uint64_t id, int64_t value);
void agent_counter_float64(nvtxDomainHandle_t handle, uint64_t id, double value);
void agent_counter_sample(nvtxDomainHandle_t handle, uint64_t id, const void *values, size_t bytes);
void agent_counter_none(nvtxDomainHandle_t handle, uint64_t id, uint8_t reason);
void agent_counter_batch(nvtxDomainHandle_t handle, const nvtxCounterBatch_t *batch);

/* Counters of the agent's own: a track of its process with that unit and device "gpu:N". 0: no
 * room. */
uint32_t agent_counter_own(const char *name, const char *unit, int device);
/* time: of the pool's clock. Not on a thread that is inside of NVTX. */
void agent_counter_put(uint32_t id, double value, uint64_t time);
/* A mark of the agent's own, with a payload of the schema (an arena id) and at most
 * WIRE_PAYLOAD_MAX bytes. Likewise. */
void agent_mark_put(uint32_t name, uint32_t schema, const void *data, uint32_t bytes,
                    uint64_t time);

/* ---- pausing ---- */

/* At the push of a tacho.step, before it is recorded: whether recording is to be paused inside it.
 */
bool agent_pause_decide(struct agent_thread *thread, uint32_t domain, uint32_t depth);
/* After it was recorded (or dropped: `recorded` false gives the pause up). */
void agent_pause_begin(struct agent_thread *thread, bool recorded);
/* While paused: whether this pop ends the pause. */
bool agent_pause_end(struct agent_thread *thread, uint32_t domain, uint32_t depth);
/* A value of a counter is recorded although recording is paused: one of the first of its pause. */
bool agent_pause_keeps(void);
/* Ends the pause of a thread that goes away. */
void agent_pause_abandon(struct agent_thread *thread);
/* Adds what a pause skipped on this thread, or on all, to the loss table. */
void agent_thread_flush_skipped(struct agent_thread *thread);
void agent_thread_flush_all(void);
/* Lets the thread take the common case again (sets its common_end), unless recording is paused or
 * watched. */
void agent_thread_refresh(struct agent_thread *thread);
/* Clears common_end of all threads: a pause or a watch begins. */
void agent_thread_stop_common(void);

/* ---- device work ---- */

/* What core/ asks of gpu/. gpu/cuda.c registers it when the library is loaded; slow paths only. */
struct agent_device {
    /* NVTX or NCCL call the agent for the first time in an object: starts recording device work if
     * CUDA is up and its own injection has not come here. Never initialises CUDA. */
    void (*look)(void);
    /* A tacho.step begins on this thread: opens or closes a capture window; closes it for a step
     * that is paused. Only where agent_cuda_live(). */
    void (*step)(uint64_t index, bool paused);
    /* The paused step is over. Only where agent_cuda_live(). */
    void (*resume)(void);
    /* While agent_watch_flag is set: a range other than a step begins or ends on this thread. name:
     * of a push. */
    void (*range)(const struct agent_thread *thread, bool push, uint32_t domain, uint32_t name);
};
extern const struct agent_device *agent_device;

static inline void agent_device_look(void)
{
    if (agent_device)
        agent_device->look();
}
/* Whether this process records device work. */
static inline bool agent_cuda_live(void)
{
    return atomic_load_explicit(&agent_process->cuda_live, memory_order_acquire) != 0;
}

/* ---- NVTX ---- */

/* A callback and its place in a table of NVTX; a table of these ends with function NULL. */
struct agent_slot {
    uint32_t index;
    void (*function)(void);
};
extern const struct agent_slot agent_core[], agent_core2[], agent_payload[], agent_counters[];

#pragma GCC visibility pop

#endif
