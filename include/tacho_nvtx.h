/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: how any program tells a profiler what it trains. Depends on NVTX 3 only; header-only;
 * costs under a nanosecond a call when no tool is attached, so it can stay in production code.
 * Nsight Systems understands the same ranges.
 *
 *     struct tacho_nvtx t;
 *     tacho_nvtx_open(&t, "myengine");
 *     nvtxStringHandle_t name = tacho_nvtx_name(&t, "matmul.forward");
 *     struct tacho_work w = {.flops = 2 * m * n * k, .model_flops = 2 * m * n * k, .dtype =
 * TACHO_DTYPE_FP32, ...}; tacho_nvtx_push_work(&t, name, &w);
 *     ...
 *     tacho_nvtx_pop(&t);
 *
 * A reader of the stream matches schemas and fields BY NAME ("tacho.work", "flops", ...), never by
 * position, so another program may register a schema of the same name with fewer fields or another
 * layout; a field that is missing is absent. Units: bytes, FLOPs (a multiply-add is 2), counts.
 */
#ifndef TACHO_NVTX_H
#define TACHO_NVTX_H

#include <stddef.h>
#include <stdint.h>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>

/* Element type that the arithmetic ran in. name, value, text */
#define TACHO_DTYPE_MAP(X) \
    X(NONE, 0, "") \
    X(FP32, 1, "fp32") \
    X(TF32, 2, "tf32") \
    X(BF16, 3, "bf16") \
    X(FP16, 4, "fp16") \
    X(FP8, 5, "fp8") \
    X(FP64, 6, "fp64") \
    X(INT8, 7, "int8") \
    X(INT32, 8, "int32") \
    X(INT64, 9, "int64")

/* Which part of the step the work belongs to. */
#define TACHO_PASS_MAP(X) \
    X(NONE, 0, "") \
    X(FORWARD, 1, "forward") \
    X(BACKWARD, 2, "backward") \
    X(RECOMPUTE, 3, "recompute") \
    X(OPTIMIZER, 4, "optimizer") \
    X(EVALUATION, 5, "evaluation")

/* What the work is. Hardware FLOPs (HFU) are the `flops` of matrix, attention and convolution work.
 */
#define TACHO_WORK_MAP(X) \
    X(OTHER, 0, "other") \
    X(MATRIX, 1, "matrix") \
    X(ATTENTION, 2, "attention") \
    X(CONVOLUTION, 3, "convolution")

/* Role of a range that is neither an op nor a collective. `input_wait`: the step waits for its
 * batch. `read`, `decode`, `collate`: loader stages. `pin`: the copy of a batch into memory the
 * device reads from. `comm_wait`: the step waits until its gradients are reduced. `comm_post`: it
 * hands `samples` collectives over to a thread that communicates for it, in the order in which that
 * one calls them. `evaluation`, `checkpoint`, `compile`: phases cut out of steps. `host`: work of
 * the framework. */
#define TACHO_RANGE_MAP(X) \
    X(NONE, 0, "") \
    X(MICRO_STEP, 1, "micro_step") \
    X(INPUT_WAIT, 2, "input_wait") \
    X(READ, 3, "read") \
    X(DECODE, 4, "decode") \
    X(COLLATE, 5, "collate") \
    X(QUEUE_WAIT, 6, "queue_wait") \
    X(CHECKPOINT, 7, "checkpoint") \
    X(EVALUATION, 8, "evaluation") \
    X(COMPILE, 9, "compile") \
    X(HOST, 10, "host") \
    X(COMM_WAIT, 11, "comm_wait") \
    X(PIN, 12, "pin") \
    X(COMM_POST, 13, "comm_post")

#define TACHO_COMM_MAP(X) \
    X(NONE, 0, "") \
    X(ALL_REDUCE, 1, "all_reduce") \
    X(ALL_GATHER, 2, "all_gather") \
    X(REDUCE_SCATTER, 3, "reduce_scatter") \
    X(BROADCAST, 4, "broadcast") \
    X(REDUCE, 5, "reduce") \
    X(ALL_TO_ALL, 6, "all_to_all") \
    X(SEND, 7, "send") \
    X(RECV, 8, "recv") \
    X(BARRIER, 9, "barrier") \
    X(GATHER, 10, "gather") \
    X(SCATTER, 11, "scatter")

#define TACHO_ENUM_DTYPE(name, value, text) TACHO_DTYPE_##name = (value),
#define TACHO_ENUM_PASS(name, value, text)  TACHO_PASS_##name = (value),
#define TACHO_ENUM_WORK(name, value, text)  TACHO_WORK_##name = (value),
#define TACHO_ENUM_RANGE(name, value, text) TACHO_RANGE_##name = (value),
#define TACHO_ENUM_COMM(name, value, text)  TACHO_COMM_##name = (value),
enum tacho_dtype { TACHO_DTYPE_MAP(TACHO_ENUM_DTYPE) TACHO_DTYPE_COUNT };
enum tacho_pass { TACHO_PASS_MAP(TACHO_ENUM_PASS) TACHO_PASS_COUNT };
enum tacho_work_kind { TACHO_WORK_MAP(TACHO_ENUM_WORK) TACHO_WORK_COUNT };
enum tacho_range_kind { TACHO_RANGE_MAP(TACHO_ENUM_RANGE) TACHO_RANGE_COUNT };
enum tacho_comm_op { TACHO_COMM_MAP(TACHO_ENUM_COMM) TACHO_COMM_COUNT };
#undef TACHO_ENUM_DTYPE
#undef TACHO_ENUM_PASS
#undef TACHO_ENUM_WORK
#undef TACHO_ENUM_RANGE
#undef TACHO_ENUM_COMM

/* One op. Three FLOP conventions side by side (docs/definitions.md): `flops` is what was executed
 * (multiply-adds issued incl. masked blocks and recomputation; for element-wise work its
 * arithmetic), `model_flops` what the model needs (exact causal attention, 0 for element-wise work
 * and for recomputation), `palm_flops` the same with full T x T attention. bytes_*: what the op
 * must move if every tensor is touched once (a model, not a measurement). */
struct tacho_work {
    uint64_t flops;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t model_flops;
    uint64_t palm_flops;
    uint8_t dtype; /* enum tacho_dtype */
    uint8_t pass;  /* enum tacho_pass */
    uint8_t kind;  /* enum tacho_work_kind */
    uint8_t reserved[5];
};

/* One op that also names its operands: a registered text (tacho_nvtx_name), one for each set of
 * operands that occurs, of words with a space between: 'r' (read), 'w' (written over) or 'u' (read
 * and written), the address in hexadecimal, '+', the bytes in hexadecimal: "r7f00a000+1000
 * w7f00c000+400". Memory that is written over holds another tensor from then on. NULL: not said. */
struct tacho_operation {
    struct tacho_work work;
    nvtxStringHandle_t operands;
};

/* One optimizer update. tokens and samples are what this process consumed in it, padding excluded.
 */
struct tacho_step {
    uint64_t index;
    uint64_t tokens;
    uint64_t samples;
};

/* One collective or point-to-point operation. bytes as nccl-tests counts them; sequence counts
 * within the communicator. */
struct tacho_comm {
    uint64_t bytes;
    uint64_t communicator;
    uint64_t sequence;
    uint32_t op;    /* enum tacho_comm_op */
    uint32_t ranks; /* size of the communicator */
};

/* Any other range with a role. bytes and samples are 0 where they make no sense. */
struct tacho_range {
    uint64_t bytes;
    uint64_t samples;
    uint32_t kind; /* enum tacho_range_kind */
    uint32_t reserved;
};

/* A domain with tacho's schemas registered in it. Holds handles of the attached tool only; nothing
 * to free. */
struct tacho_nvtx {
    nvtxDomainHandle_t domain;
    uint64_t work, operation, step, comm, range; /* schema ids, 0 when no tool is attached */
};

#define TACHO_FIELD(owner, field, ftype) \
    { \
        .type = (ftype), .name = #field, .offset = offsetof(struct owner, field) \
    }
#define TACHO_WORK_FIELDS \
    TACHO_FIELD(tacho_work, flops, NVTX_PAYLOAD_ENTRY_TYPE_UINT64), \
        TACHO_FIELD(tacho_work, bytes_read, NVTX_PAYLOAD_ENTRY_TYPE_UINT64), \
        TACHO_FIELD(tacho_work, bytes_written, NVTX_PAYLOAD_ENTRY_TYPE_UINT64), \
        TACHO_FIELD(tacho_work, model_flops, NVTX_PAYLOAD_ENTRY_TYPE_UINT64), \
        TACHO_FIELD(tacho_work, palm_flops, NVTX_PAYLOAD_ENTRY_TYPE_UINT64), \
        TACHO_FIELD(tacho_work, dtype, NVTX_PAYLOAD_ENTRY_TYPE_UINT8), \
        TACHO_FIELD(tacho_work, pass, NVTX_PAYLOAD_ENTRY_TYPE_UINT8), \
        TACHO_FIELD(tacho_work, kind, NVTX_PAYLOAD_ENTRY_TYPE_UINT8)

static inline uint64_t tacho_nvtx_schema(nvtxDomainHandle_t domain, const char *name,
                                         const nvtxPayloadSchemaEntry_t *entries, size_t count,
                                         size_t size)
{
    nvtxPayloadSchemaAttr_t schema = {0};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = name;
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries;
    schema.numEntries = count;
    schema.payloadStaticSize = size;
    return nvtxPayloadSchemaRegister(domain, &schema);
}

/* Creates the domain and registers the schemas; that of an operation is tacho.work too. Call once a
 * process, before threads use `t`; idempotent by name. */
static inline void tacho_nvtx_open(struct tacho_nvtx *nvtx, const char *domain_name)
{
    static const nvtxPayloadSchemaEntry_t work[] = {TACHO_WORK_FIELDS};
    static const nvtxPayloadSchemaEntry_t operation[] = {
        TACHO_WORK_FIELDS,
        TACHO_FIELD(tacho_operation, operands,
                    NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE),
    };
    static const nvtxPayloadSchemaEntry_t step[] = {
        TACHO_FIELD(tacho_step, index, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
        TACHO_FIELD(tacho_step, tokens, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
        TACHO_FIELD(tacho_step, samples, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
    };
    static const nvtxPayloadSchemaEntry_t comm[] = {
        TACHO_FIELD(tacho_comm, bytes, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
        TACHO_FIELD(tacho_comm, communicator, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
        TACHO_FIELD(tacho_comm, sequence, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
        TACHO_FIELD(tacho_comm, op, NVTX_PAYLOAD_ENTRY_TYPE_UINT32),
        TACHO_FIELD(tacho_comm, ranks, NVTX_PAYLOAD_ENTRY_TYPE_UINT32),
    };
    static const nvtxPayloadSchemaEntry_t range[] = {
        TACHO_FIELD(tacho_range, bytes, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
        TACHO_FIELD(tacho_range, samples, NVTX_PAYLOAD_ENTRY_TYPE_UINT64),
        TACHO_FIELD(tacho_range, kind, NVTX_PAYLOAD_ENTRY_TYPE_UINT32),
    };
    nvtx->domain = nvtxDomainCreateA(domain_name);
    nvtx->work = tacho_nvtx_schema(nvtx->domain, "tacho.work", work, sizeof work / sizeof *work,
                                   sizeof(struct tacho_work));
    nvtx->operation =
        tacho_nvtx_schema(nvtx->domain, "tacho.work", operation,
                          sizeof operation / sizeof *operation, sizeof(struct tacho_operation));
    nvtx->step = tacho_nvtx_schema(nvtx->domain, "tacho.step", step, sizeof step / sizeof *step,
                                   sizeof(struct tacho_step));
    nvtx->comm = tacho_nvtx_schema(nvtx->domain, "tacho.comm", comm, sizeof comm / sizeof *comm,
                                   sizeof(struct tacho_comm));
    nvtx->range = tacho_nvtx_schema(nvtx->domain, "tacho.range", range,
                                    sizeof range / sizeof *range, sizeof(struct tacho_range));
}
#undef TACHO_WORK_FIELDS
#undef TACHO_FIELD

/* Registers a name once; the handle makes a push cheap. NULL when no tool is attached, which push
 * accepts. */
static inline nvtxStringHandle_t tacho_nvtx_name(const struct tacho_nvtx *nvtx, const char *text)
{
    return nvtxDomainRegisterStringA(nvtx->domain, text);
}

/* Opens a range on the calling thread with `size` bytes of payload laid out as `schema` says.
 * Payload is copied. */
static inline void tacho_nvtx_push(const struct tacho_nvtx *nvtx, nvtxStringHandle_t name,
                                   uint64_t schema, const void *payload, size_t size)
{
    nvtxPayloadData_t data = {.schemaId = schema, .size = size, .payload = payload};
    nvtxEventAttributes_t attributes;
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.category = 0;
    attributes.colorType = NVTX_COLOR_UNKNOWN;
    attributes.color = 0;
    attributes.payloadType = (int32_t)NVTX_PAYLOAD_TYPE_EXT;
    attributes.reserved0 = 1;
    attributes.payload.ullValue = (uint64_t)(uintptr_t)&data;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = name;
    nvtxDomainRangePushEx(nvtx->domain, &attributes);
}

static inline void tacho_nvtx_push_work(const struct tacho_nvtx *nvtx, nvtxStringHandle_t name,
                                        const struct tacho_work *work)
{
    tacho_nvtx_push(nvtx, name, nvtx->work, work, sizeof *work);
}

static inline void tacho_nvtx_push_operation(const struct tacho_nvtx *nvtx, nvtxStringHandle_t name,
                                             const struct tacho_operation *operation)
{
    tacho_nvtx_push(nvtx, name, nvtx->operation, operation, sizeof *operation);
}

static inline void tacho_nvtx_push_step(const struct tacho_nvtx *nvtx, nvtxStringHandle_t name,
                                        const struct tacho_step *step)
{
    tacho_nvtx_push(nvtx, name, nvtx->step, step, sizeof *step);
}

static inline void tacho_nvtx_push_comm(const struct tacho_nvtx *nvtx, nvtxStringHandle_t name,
                                        const struct tacho_comm *comm)
{
    tacho_nvtx_push(nvtx, name, nvtx->comm, comm, sizeof *comm);
}

static inline void tacho_nvtx_push_range(const struct tacho_nvtx *nvtx, nvtxStringHandle_t name,
                                         const struct tacho_range *range)
{
    tacho_nvtx_push(nvtx, name, nvtx->range, range, sizeof *range);
}

/* Closes the innermost open range of this domain on the calling thread. */
static inline void tacho_nvtx_pop(const struct tacho_nvtx *nvtx)
{
    nvtxDomainRangePop(nvtx->domain);
}

/* Registers a named counter of doubles; returns its id (0 when no tool is attached, which sample
 * accepts). */
static inline uint64_t tacho_nvtx_counter(const struct tacho_nvtx *nvtx, const char *name)
{
    nvtxCounterAttr_t counter = {0};
    counter.structSize = sizeof counter;
    counter.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE;
    counter.name = name;
    return nvtxCounterRegister(nvtx->domain, &counter);
}

static inline void tacho_nvtx_sample(const struct tacho_nvtx *nvtx, uint64_t counter, double value)
{
    nvtxCounterSampleFloat64(nvtx->domain, counter, value);
}

#endif
