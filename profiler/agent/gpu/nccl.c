/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's profiler plugin interface, versions 1 to 6 (NCCL 2.23.4 to 2.30): data symbols that NCCL
 * finds in the library which NCCL_PROFILER_PLUGIN names. A collective becomes a start/end range of
 * the domain "NCCL profiler" with a tacho.comm payload.
 *
 * When it ends: NCCL's stop of a collective says that it was enqueued. Where its proxies and kernel
 * channels are recorded too (inside a capture window), it ends with the last of these; else at the
 * stop.
 *
 * Handles are numbers, not addresses: slot and generation. NCCL is known to send events after the
 * stop, from threads of its own; a number whose generation has passed is ignored. Nothing is ever
 * freed, and no call fails: a plugin's error ends the job.
 */
#include <string.h>

#include "profiler/agent/core/record.h"
#include "profiler/agent/gpu/cuda.h"

#define SLOTS       4096u
#define COMMS       256u
#define DOMAIN_NAME "NCCL profiler"

enum event_bits {
    GROUP = 1,
    COLL = 2,
    P2P = 4,
    PROXY_OP = 8,
    KERNEL_CH = 64,
    GROUP_API = 256,
    COLL_API = 512,
    P2P_API = 1024,
    CE_COLL = 4096,
};

/* Places of the fields of an event, by version of the interface. Those of the head are type at 0
 * (one byte up to version 4, else eight) and parent at 8. 0 = it has none. */
static const struct layout {
    uint8_t wide_type, as_text; /* func and datatype: texts, else numbers of NCCL's enums */
    uint8_t hash, sequence, func, count, datatype; /* of a collective */
    uint8_t p2p_func, p2p_count, p2p_datatype;
    uint32_t mask;
} layouts[] = {
    [1] = {0, 0, 32, 40, 48, 72, 84, 40, 64, 56, GROUP | COLL | P2P},
    [2] = {0, 1, 32, 40, 48, 72, 88, 40, 64, 56, GROUP | COLL | P2P},
    [3] = {0, 1, 32, 40, 48, 72, 88, 40, 64, 56, GROUP | COLL | P2P},
    [4] = {0, 1, 0, 24, 32, 56, 72, 24, 48, 40, GROUP | COLL | P2P},
    [5] = {1, 1, 0, 24, 32, 56, 72, 24, 48, 40,
           GROUP | COLL | P2P | GROUP_API | COLL_API | P2P_API},
    [6] = {1, 1, 0, 24, 32, 56, 72, 24, 48, 40,
           GROUP | COLL | P2P | GROUP_API | COLL_API | P2P_API | CE_COLL},
};

/* Names of NCCL's enums, for version 1. */
static const char *const func_text[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};
static const char *const type_text[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                        "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                        "ncclFloat64", "ncclBfloat16"};

/* name after "nccl", number of tacho.comm, whether `count` is one rank's share of the bytes */
static const struct {
    const char *name;
    uint32_t op;
    bool share;
} operation[] = {{"AllReduce", 1, false}, {"AllGather", 2, true}, {"ReduceScatter", 3, true},
                 {"Broadcast", 4, false}, {"Reduce", 5, false},   {"AlltoAll", 6, true},
                 {"AllToAll", 6, true},   {"Send", 7, false},     {"Recv", 8, false},
                 {"Gather", 10, true},    {"Scatter", 11, true}};

/* As struct tacho_comm of include/tacho_nvtx.h. */
struct comm_payload {
    uint64_t bytes, communicator, sequence;
    uint32_t op, ranks;
};
static const char schema_text[] =
    "tacho."
    "comm\t32\nbytes\t18\t0\ncommunicator\t18\t8\nsequence\t18\t16\nop\t16\t24\nranks\t16\t28\n";
_Static_assert(NVTX_PAYLOAD_ENTRY_TYPE_UINT64 == 18 && NVTX_PAYLOAD_ENTRY_TYPE_UINT32 == 16,
               "types in schema_text");
_Static_assert(sizeof(struct comm_payload) == 32, "size in schema_text");

struct comm {
    uint64_t id;
    uint32_t ranks;
};

struct slot {
    _Atomic uint64_t state; /* generation << 32 | STOPPED | events inside that have not ended */
    uint64_t range;
};
#define STOPPED    ((uint64_t)1 << 31)
#define IN_USE     ((uint64_t)1 << 30)
#define GENERATION ((uint64_t)1 << 32)
#define INSIDE     (IN_USE - 1)

static struct comm comms[COMMS];
static _Atomic uint32_t comm_count;
static struct slot slots[SLOTS];
static _Atomic uint32_t next_slot;
static _Atomic uint32_t comm_domain, comm_schema;
static _Atomic(int *) live_mask; /* NCCL's own word: it is read at each group */
static _Atomic uint32_t base_mask, detail_on;

/* The handle of events that are no collective: a group, an API call. NCCL gives them back as
 * parents and wants them not to be NULL. */
#define HANDLE_OTHER ((void *)(uintptr_t)1)
#define HANDLE_TAG   ((uintptr_t)0x4e << 56)
#define HANDLE_CHILD ((uintptr_t)1 << 55)

static void *handle_of(uint32_t slot, uint64_t generation, bool child)
{
    return (void *)(HANDLE_TAG | (child ? HANDLE_CHILD : 0) |
                    (uintptr_t)(generation & 0x7fffffff) << 16 | slot);
}

/* The slot of a handle if its generation is still running; *state as it was. */
static struct slot *slot_of(const void *handle, uint64_t *state)
{
    uintptr_t bits = (uintptr_t)handle;
    if ((bits & ((uintptr_t)0xff << 56)) != HANDLE_TAG || (bits & 0xffff) >= SLOTS)
        return NULL;
    struct slot *slot = &slots[bits & 0xffff];
    *state = atomic_load_explicit(&slot->state, memory_order_acquire);
    return (*state & IN_USE) && ((*state >> 32) & 0x7fffffff) == ((bits >> 16) & 0x7fffffff) ? slot
                                                                                             : NULL;
}

/* ---- what an event says ---- */

static uint64_t field64(const void *event, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)event + offset, sizeof value);
    return value;
}

/* A field that is a text, or a number of one of NCCL's enums. */
static const char *field_text(const void *event, size_t offset, bool as_text,
                              const char *const *table, size_t entries)
{
    if (!as_text) {
        uint8_t i = ((const uint8_t *)event)[offset];
        return i < entries ? table[i] : "";
    }
    const char *text = (const char *)(uintptr_t)field64(event, offset);
    return text ? text : "";
}

/* Bytes of an element, by the digits in the name of its type; 0: unknown. */
static uint32_t type_bytes(const char *type)
{
    size_t length = strnlen(type, 32);
    if (!strncmp(type, "nccl", 4)) {
        type += 4;
        length -= 4;
    }
    if (length >= 2 && !strncmp(type + length - 2, "64", 2))
        return 8;
    if (length >= 2 && !strncmp(type + length - 2, "32", 2))
        return 4;
    if (length >= 2 && !strncmp(type + length - 2, "16", 2))
        return 2;
    return length && (strchr(type, '8')) ? 1 : 0; /* Int8, Uint8, Float8e4m3 */
}

/* The bytes of the operation as nccl-tests counts them: where `count` is one rank's share, times
 * the ranks. */
static void describe(struct comm_payload *payload, const struct comm *comm, const char *func,
                     uint64_t count, const char *type)
{
    payload->bytes = count * type_bytes(type);
    payload->ranks = comm->ranks;
    if (!strncmp(func, "nccl", 4))
        func += 4;
    for (size_t i = 0; i < sizeof operation / sizeof *operation; i++)
        if (!strcmp(func, operation[i].name)) {
            payload->op = operation[i].op;
            if (operation[i].share && comm->ranks)
                payload->bytes *= comm->ranks;
            return;
        }
}

static uint32_t name_of(const char *func)
{
    char text[64] = "nccl";
    if (!strncmp(func, "nccl", 4))
        func += 4;
    size_t length = strnlen(func, sizeof text - 5);
    memcpy(text + 4, func, length);
    return agent_name_intern(WIRE_TEXT_NAME, text, length + 4, true);
}

/* ---- events ---- */

/* The collective is over: ends its range and frees the slot for the next generation. */
static void slot_end(struct slot *slot, uint64_t state)
{
    struct agent_event event = {0};
    uint64_t range = slot->range;
    uint64_t next = ((state >> 32) + 1) << 32; /* free, of the next generation */
    if (!atomic_compare_exchange_strong_explicit(&slot->state, &state, next, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return; /* something began inside just now, or another thread ended it */
    agent_range_end(relaxed_load(&comm_domain), range, &event);
}

/* A free slot, searched from where the last one was found. NULL, counted as lost, when all are in
 * use. */
static struct slot *slot_take(uint32_t *index, uint64_t *generation)
{
    uint32_t from = relaxed_add(&next_slot, 1);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &slots[(from + i) % SLOTS];
        uint64_t state = relaxed_load(&slot->state);
        /* taken with one event inside, so that no thread ends it before its range has begun */
        if (!(state & IN_USE) &&
            atomic_compare_exchange_strong_explicit(&slot->state, &state, state | IN_USE | 1,
                                                    memory_order_acquire, memory_order_relaxed)) {
            *index = (from + i) % SLOTS;
            *generation = state >> 32;
            return slot;
        }
    }
    agent_lose(WIRE_LOSS_NCCL_SLOTS, 1);
    return NULL;
}

static void inside_ends(struct slot *slot)
{
    uint64_t state = atomic_fetch_sub_explicit(&slot->state, 1, memory_order_acq_rel) - 1;
    if ((state & STOPPED) && !(state & INSIDE))
        slot_end(slot, state);
}

/* Begins the range of a collective or of a point-to-point call, from the fields of NCCL's event.
 * The slot is taken with one event inside, which ends here: so no other thread can end the range
 * before it has begun. */
static void *collective(const struct layout *layout, const struct comm *comm, const void *event,
                        bool p2p)
{
    uint32_t index;
    uint64_t generation;
    struct slot *slot = slot_take(&index, &generation);
    if (!slot)
        return HANDLE_OTHER;
    const char *func = field_text(event, p2p ? layout->p2p_func : layout->func, layout->as_text,
                                  func_text, sizeof func_text / sizeof *func_text);
    const char *type = field_text(event, p2p ? layout->p2p_datatype : layout->datatype,
                                  layout->as_text, type_text, sizeof type_text / sizeof *type_text);
    struct comm_payload payload = {.communicator = comm->id};
    if (layout->hash)
        payload.communicator = field64(event, layout->hash);
    if (!p2p)
        payload.sequence = field64(event, layout->sequence);
    describe(&payload, comm, func, field64(event, p2p ? layout->p2p_count : layout->count), type);
    struct agent_event begin = {.name = name_of(func),
                                .schema = relaxed_load(&comm_schema),
                                .bytes = sizeof payload,
                                .data = &payload};
    slot->range = agent_range_start(relaxed_load(&comm_domain), &begin);
    inside_ends(slot);
    return handle_of(index, generation, false);
}

/* A proxy operation or kernel channel inside a collective. Of another process (PXN) the parent is
 * an address over there. */
static void *inside(const void *event, bool proxy)
{
    uint64_t state;
    const void *parent = (const void *)(uintptr_t)field64(event, 8);
    int32_t pid;
    memcpy(&pid, (const char *)event + 24, sizeof pid);
    if (proxy && (uint32_t)pid != agent_process->pid)
        return NULL;
    struct slot *slot = slot_of(parent, &state);
    while (slot && !atomic_compare_exchange_weak_explicit(
                       &slot->state, &state, state + 1, memory_order_acq_rel, memory_order_relaxed))
        slot = slot_of(parent, &state);
    return slot ? handle_of((uint32_t)(slot - slots), state >> 32, true) : NULL;
}

/* NCCL's start of an event. Collectives and the operations inside them are followed; groups and
 * API calls only get a handle, which NCCL wants as a parent. */
static int start_event(uint32_t version, const void *context, void **handle, const void *event)
{
    const struct layout *layout = &layouts[version];
    static const struct comm unknown;
    const struct comm *comm = context ? context : &unknown;
    *handle = NULL;
    if (!event)
        return 0;
    uint64_t type = layout->wide_type ? field64(event, 0) : *(const uint8_t *)event;
    switch (type) {
    case GROUP:
    case GROUP_API:
    case COLL_API:
    case P2P_API:
        *handle = HANDLE_OTHER;
        break;
    case COLL:
    case CE_COLL:
        *handle = collective(layout, comm, event, false);
        break;
    case P2P:
        *handle = collective(layout, comm, event, true);
        break;
    case PROXY_OP:
        *handle = inside(event, true);
        break;
    case KERNEL_CH:
        *handle = inside(event, false);
        break;
    default:
        break;
    }
    return 0;
}

/* NCCL's stop of a collective, or of an event inside one. The range ends with the last of them. */
static int stop_event(void *handle)
{
    uint64_t state;
    struct slot *slot = slot_of(handle, &state);
    if (!slot)
        return 0;
    if ((uintptr_t)handle & HANDLE_CHILD) {
        if (state & INSIDE)
            inside_ends(slot);
        return 0;
    }
    state = atomic_fetch_or_explicit(&slot->state, STOPPED, memory_order_acq_rel) | STOPPED;
    if (!(state & INSIDE))
        slot_end(slot, state);
    return 0;
}

static int record_state(void *handle, int what, void *arguments)
{
    (void)handle;
    (void)what;
    (void)arguments;
    return 0;
}

static int finalize(void *context)
{
    (void)context; /* other threads of NCCL may still have it */
    return 0;
}

/* ---- start ---- */

static void mask_write(void)
{
    int *mask = atomic_load_explicit(&live_mask, memory_order_acquire);
    uint32_t bits = relaxed_load(&base_mask);
    if (relaxed_load(&detail_on))
        bits |= PROXY_OP | KERNEL_CH;
    if (mask)
        __atomic_store_n(mask, (int)bits, __ATOMIC_RELAXED);
}

void agent_nccl_detail(bool on)
{
    relaxed_store(&detail_on, on);
    mask_write();
}

/* The domain and the schema, of this process: names of a parent are known to its children. */
static bool prepare(void)
{
    if (atomic_load_explicit(&comm_schema, memory_order_acquire))
        return true;
    uint32_t schema =
        agent_name_intern(WIRE_TEXT_SCHEMA, schema_text, sizeof schema_text - 1, true);
    uint32_t domain = agent_domain_index(agent_domain_create(agent_name(DOMAIN_NAME, true)));
    relaxed_store(&comm_domain, domain);
    atomic_store_explicit(&comm_schema, schema, memory_order_release);
    return schema != 0;
}

/* A communicator comes to be. Its record is never freed: threads of NCCL may use it after the
 * end. */
static int init(uint32_t version, void **context, int *mask, uint64_t id, int ranks)
{
    static struct comm others; /* beyond the table: collectives without communicator */
    *context = NULL;
    if (mask)
        *mask = 0;
    if (!agent_start() || !prepare())
        return 0;
    agent_device_look();
    uint32_t index = relaxed_add(&comm_count, 1);
    struct comm *comm = index < COMMS ? &comms[index] : &others;
    if (index < COMMS)
        *comm = (struct comm){.id = id, .ranks = ranks > 0 ? (uint32_t)ranks : 0};
    *context = comm;
    if (ranks !=
        1) /* 0: not known. Collectives have a stream of their own beside that of compute */
        relaxed_store(&agent_cuda.streams, 2);
    relaxed_store(&base_mask, layouts[version].mask);
    atomic_store_explicit(&live_mask, mask, memory_order_release);
    mask_write();
    return 0;
}

static int init_fourth(void **context, int *mask, const char *name, uint64_t id, int nodes,
                       int ranks, int rank, void *log)
{
    (void)name;
    (void)nodes;
    (void)rank;
    (void)log;
    return init(4, context, mask, id, ranks);
}

#define STARTS(v) \
    static int start_##v(void *context, void **handle, void *event) \
    { \
        return start_event(v, context, handle, event); \
    }
#define INIT_FIRST(v) \
    static int init_##v(void **context, int *mask) \
    { \
        return init(v, context, mask, 0, 0); \
    }
#define INIT_LATER(v) \
    static int init_##v(void **context, uint64_t id, int *mask, const char *name, int nodes, \
                        int ranks, int rank, void *log) \
    { \
        (void)name; \
        (void)nodes; \
        (void)rank; \
        (void)log; \
        return init(v, context, mask, id, ranks); \
    }
STARTS(1)
STARTS(2)
STARTS(3)
STARTS(4)
STARTS(5)
STARTS(6)
INIT_FIRST(1)
INIT_FIRST(2)
INIT_FIRST(3)
INIT_LATER(5)
INIT_LATER(6)
#define init_4 init_fourth

/* What NCCL looks for: six words, the same in every version but for the types of the arguments. */
struct plugin {
    const char *name;
    void (*init)(void);
    int (*start)(void *context, void **handle, void *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int what, void *arguments);
    int (*finalize)(void *context);
};
_Static_assert(sizeof(struct plugin) == 48, "NCCL's tables have six words");

#define PLUGIN(v) \
    extern const struct plugin ncclProfiler_v##v; \
    __attribute__((visibility("default"), used)) const struct plugin ncclProfiler_v##v = { \
        "tacho", (void (*)(void))init_##v, start_##v, stop_event, record_state, finalize};
PLUGIN(1)
PLUGIN(2)
PLUGIN(3)
PLUGIN(4)
PLUGIN(5)
PLUGIN(6)
