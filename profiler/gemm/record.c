/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call computes, as an NVTX range. The name of the range has the shape, so that each product
 * is a row of its own in tables by name; names are registered once a shape, in a table that needs
 * no lock and never grows.
 *
 * FLOPs: 2 m n k a product, 8 m n k of complex numbers. Bytes are a model: A and B read once, C
 * written once, and read where beta is known not to be 0. model_flops is omitted: a library cannot
 * know whether its caller computes something again.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/gemm/gemm.h"
#include "tacho_nvtx.h"

#define NAMES  8192 /* shapes with a name of their own; more share the function's */
#define PROBES 64

/* The payload; 64 bytes are the most that is kept of one. */
struct product {
    uint64_t flops, bytes_read, bytes_written;
    uint32_t m, n, k, batch;
    uint8_t dtype, kind;            /* enum tacho_dtype, enum tacho_work_kind */
    uint8_t compute;                /* enum gemm_compute */
    uint8_t transa, transb;         /* cublasOperation_t */
    uint8_t a_type, b_type, c_type; /* enum gemm_type */
};

enum { HAS_SHAPE = 1, HAS_BYTES = 2, SCHEMAS = 4 };

struct name {
    _Atomic(uint32_t) state; /* 0 free, 1 being written, 2 there */
    enum gemm_function function;
    struct product product;
    nvtxStringHandle_t handle;
};

static struct tacho_nvtx cublas;
static uint64_t schema[SCHEMAS]; /* by what is known */
static nvtxStringHandle_t plain[GEMM_FUNCTIONS];
static bool no_tf32;
static struct name names[NAMES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

/* ---- opening ------------------------------------------------------------------------------------------------------------- */

#define FIELD(field, ftype, needs) \
    { \
        {.type = (ftype), .name = #field, .offset = offsetof(struct product, field)}, (needs) \
    }
static const struct {
    nvtxPayloadSchemaEntry_t entry;
    unsigned needs;
} fields[] = {
    FIELD(flops, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, 0),
    FIELD(bytes_read, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, HAS_BYTES),
    FIELD(bytes_written, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, HAS_BYTES),
    FIELD(m, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, HAS_SHAPE),
    FIELD(n, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, HAS_SHAPE),
    FIELD(k, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, HAS_SHAPE),
    FIELD(batch, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, 0),
    FIELD(dtype, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, 0),
    FIELD(kind, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, 0),
    FIELD(compute, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, 0),
    FIELD(transa, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, HAS_SHAPE),
    FIELD(transb, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, HAS_SHAPE),
    FIELD(a_type, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, 0),
    FIELD(b_type, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, 0),
    FIELD(c_type, NVTX_PAYLOAD_ENTRY_TYPE_UINT8, 0),
};
#undef FIELD
#define FIELDS (sizeof fields / sizeof *fields)

/* Registers the domain and four schemas: with and without the shape, with and without the bytes. */
static void open_domain(void)
{
    const char *override = getenv("NVIDIA_TF32_OVERRIDE");
    no_tf32 = override && strcmp(override, "0") == 0;
    tacho_nvtx_open(&cublas, "cublas");
    if (!cublas.work)
        return;
    for (unsigned known = 0; known < SCHEMAS; known++) {
        nvtxPayloadSchemaEntry_t entry[FIELDS];
        size_t count = 0;
        for (size_t i = 0; i < FIELDS; i++)
            if ((fields[i].needs & known) == fields[i].needs)
                entry[count++] = fields[i].entry;
        schema[known] =
            tacho_nvtx_schema(cublas.domain, "tacho.work", entry, count, sizeof(struct product));
    }
    for (int i = 0; i < GEMM_FUNCTIONS; i++)
        plain[i] = tacho_nvtx_name(&cublas, gemm_function_name[i]);
}

bool gemm_enter(void)
{
    if (inside)
        return false;
    pthread_once(&once, open_domain);
    if (!cublas.work)
        return false;
    return inside = true;
}

void gemm_leave(void)
{
    tacho_nvtx_pop(&cublas);
    inside = false;
}

/* ---- types --------------------------------------------------------------------------------------------------------------- */

/* Bits of an element; 0: not known. */
static unsigned type_bits(int type)
{
    switch (type) {
    case GEMM_C_64F:
        return 128;
    case GEMM_R_64F:
    case GEMM_C_32F:
        return 64;
    case GEMM_R_32F:
    case GEMM_R_32I:
    case GEMM_C_16F:
    case GEMM_C_16BF:
        return 32;
    case GEMM_R_16F:
    case GEMM_R_16BF:
    case GEMM_C_8I:
    case GEMM_C_8U:
        return 16;
    case GEMM_R_8I:
    case GEMM_R_8U:
    case GEMM_R_8F_E4M3:
    case GEMM_R_8F_E5M2:
        return 8;
    case GEMM_R_4I:
    case GEMM_R_4U:
    case GEMM_R_4F_E2M1:
        return 4;
    default:
        return 0;
    }
}

static bool type_is_complex(int type)
{
    return type == GEMM_C_32F || type == GEMM_C_64F || type == GEMM_C_16F || type == GEMM_C_16BF ||
           type == GEMM_C_8I || type == GEMM_C_8U;
}

/* What fp32 operands run in, by the math mode of their handle (cublasMath_t): 3 allows tf32. */
static enum tacho_dtype fp32_dtype(const struct gemm_call *call)
{
    int (*ask)(void *, int *) =
        call->handle ? (int (*)(void *, int *))gemm_real(GEMM_cublasGetMathMode) : NULL;
    int mode = 0;
    if (no_tf32 || !ask || ask(call->handle, &mode) != 0)
        return TACHO_DTYPE_FP32;
    mode &= 15; /* above: flags of reductions */
    if (mode == 0 || mode == 2)
        return TACHO_DTYPE_FP32;
    return mode == 3 ? TACHO_DTYPE_TF32 : TACHO_DTYPE_NONE;
}

/* Type that the GEMMs are computed in; NONE: it has no name, or the arguments do not
 * tell. */
static enum tacho_dtype arithmetic(const struct gemm_call *call)
{
    switch (call->a) {
    case GEMM_R_64F:
        return call->compute == GEMM_COMPUTE_64F_EMULATED ? TACHO_DTYPE_NONE : TACHO_DTYPE_FP64;
    case GEMM_R_16F:
        return TACHO_DTYPE_FP16;
    case GEMM_R_16BF:
        return TACHO_DTYPE_BF16;
    case GEMM_R_8F_E4M3:
    case GEMM_R_8F_E5M2:
        return TACHO_DTYPE_FP8;
    case GEMM_R_8I:
    case GEMM_R_8U:
        return call->compute == GEMM_COMPUTE_32I || call->compute == GEMM_COMPUTE_32I_PEDANTIC ||
                       call->compute == GEMM_R_32I
                   ? TACHO_DTYPE_INT8
                   : TACHO_DTYPE_FP32;
    case GEMM_R_32F:
        break;
    default:
        return TACHO_DTYPE_NONE;
    }
    switch (call->compute) {
    case GEMM_COMPUTE_32F_FAST_16F:
        return TACHO_DTYPE_FP16;
    case GEMM_COMPUTE_32F_FAST_16BF:
        return TACHO_DTYPE_BF16;
    case GEMM_COMPUTE_32F_FAST_TF32:
        return no_tf32 ? TACHO_DTYPE_FP32 : TACHO_DTYPE_TF32;
    case GEMM_COMPUTE_32F_PEDANTIC:
        return TACHO_DTYPE_FP32;
    case GEMM_COMPUTE_32F:
    case GEMM_R_32F:
        return fp32_dtype(call);
    default:
        return TACHO_DTYPE_NONE;
    }
}

bool gemm_scalar_is_set(const void *scalar, int compute)
{
    static const unsigned char zero[8];
    size_t bytes = 4;
    if (compute == GEMM_COMPUTE_16F || compute == GEMM_COMPUTE_16F_PEDANTIC ||
        compute == GEMM_R_16F)
        bytes = 2;
    else if (compute == GEMM_COMPUTE_64F || compute == GEMM_COMPUTE_64F_PEDANTIC ||
             compute == GEMM_COMPUTE_64F_EMULATED || compute == GEMM_R_64F)
        bytes = 8;
    return memcmp(scalar, zero, bytes) != 0;
}

/* Whether C is read. A beta in the device's memory cannot be looked at. */
static bool reads_c(const struct gemm_call *call)
{
    int mode = 1; /* cublasPointerMode_t: 0 is the host */
    if (!call->beta || !call->handle)
        return call->reads_c;
    int (*ask)(void *, int *) = (int (*)(void *, int *))gemm_real(GEMM_cublasGetPointerMode_v2);
    return ask && ask(call->handle, &mode) == 0 && mode == 0 &&
           gemm_scalar_is_set(call->beta, call->compute);
}

/* ---- the range ----------------------------------------------------------------------------------------------------------- */

static uint32_t narrow(int64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* Bytes of so many elements, batches of rows of 4 bits are packed. */
static uint64_t bytes_of(uint64_t elements, int type)
{
    uint64_t bits = gemm_times(elements, type_bits(type));
    return bits / 8 + (bits % 8 != 0);
}

/* Fills `product`; returns what is known besides its FLOPs. */
static unsigned describe(const struct gemm_call *call, struct product *product)
{
    uint64_t batch = (uint64_t)call->batch, m = (uint64_t)call->m, n = (uint64_t)call->n,
             k = (uint64_t)call->k;
    struct gemm_sum one = {gemm_times(gemm_times(m, n), gemm_times(k, batch)),
                           gemm_times(gemm_times(m, k), batch), gemm_times(gemm_times(k, n), batch),
                           gemm_times(gemm_times(m, n), batch)};
    const struct gemm_sum *sum = call->sum ? call->sum : &one;
    bool sized = type_bits(call->a) && type_bits(call->b) && type_bits(call->c);
    memset(product, 0, sizeof *product);
    product->flops = gemm_times(sum->multiplies, type_is_complex(call->a) ? 8 : 2);
    if (sized) {
        product->bytes_written = bytes_of(sum->c, call->c);
        product->bytes_read =
            gemm_plus(gemm_plus(bytes_of(sum->a, call->a), bytes_of(sum->b, call->b)),
                      reads_c(call) ? product->bytes_written : 0);
    }
    if (!call->sum) {
        product->m = narrow(call->m);
        product->n = narrow(call->n);
        product->k = narrow(call->k);
        product->transa = (uint8_t)call->transa;
        product->transb = (uint8_t)call->transb;
    }
    product->batch = narrow(call->batch);
    product->dtype = (uint8_t)arithmetic(call);
    product->kind = TACHO_WORK_MATRIX;
    product->compute = (uint8_t)call->compute;
    product->a_type = (uint8_t)call->a;
    product->b_type = (uint8_t)call->b;
    product->c_type = (uint8_t)call->c;
    return (call->sum ? 0u : HAS_SHAPE) | HAS_BYTES * sized;
}

static const char *dtype_text(unsigned dtype, int type)
{
#define TEXT(name, value, text) [value] = text,
    static const char *const known[] = {TACHO_DTYPE_MAP(TEXT)};
#undef TEXT
    if (dtype < sizeof known / sizeof *known && *known[dtype])
        return known[dtype];
    return type_is_complex(type) ? "complex" : "?";
}

static char operation_letter(unsigned operation)
{
    return "NTC?"[operation < 3 ? operation : 3];
}
/* "cublasGemmEx bf16 TN 768x4096x3072 x12": the type, how A and B are read, m x n x k, the batch.
 */
static nvtxStringHandle_t register_name(enum gemm_function function, const struct product *product)
{

    char text[160];
    int length = snprintf(text, sizeof text, "%s %s %c%c %" PRIu32 "x%" PRIu32 "x%" PRIu32,
                          gemm_function_name[function], dtype_text(product->dtype, product->a_type),
                          operation_letter(product->transa), operation_letter(product->transb),
                          product->m, product->n, product->k);
    if (product->batch != 1)
        snprintf(text + length, sizeof text - (size_t)length, " x%" PRIu32, product->batch);
    return tacho_nvtx_name(&cublas, text);
}

/* A hash of function and product, for the table of names. */
static uint32_t hash(enum gemm_function function, const struct product *product)
{
    const unsigned char *byte = (const unsigned char *)product;
    uint64_t bits = 0x9e3779b97f4a7c15u * ((unsigned)function + 1u), word;
    for (size_t i = 0; i < sizeof *product; i += sizeof word) {
        memcpy(&word, byte + i, sizeof word);
        bits = (bits ^ word) * 0x9fb21c651e98df25u;
        bits ^= bits >> 32;
    }
    return (uint32_t)bits;
}
_Static_assert(sizeof(struct product) == 48, "padding would be hashed and compared");

/* The name of a product, registered at its first call. A place that a thread is writing (or was,
 * when its process forked) is passed over; the shape gets another one then. */
static nvtxStringHandle_t name_of(enum gemm_function function, const struct product *product)
{
    uint32_t place = hash(function, product);
    for (unsigned i = 0; i < PROBES; i++) {
        struct name *name = &names[(place + i) % NAMES];
        uint32_t state = atomic_load_explicit(&name->state, memory_order_acquire);
        if (state == 2 && name->function == function &&
            !memcmp(&name->product, product, sizeof *product))
            return name->handle;
        if (state != 0 || !atomic_compare_exchange_strong(&name->state, &state, 1))
            continue;
        name->function = function;
        name->product = *product;
        name->handle = register_name(function, product);
        atomic_store_explicit(&name->state, 2, memory_order_release);
        return name->handle;
    }
    return plain[function];
}

void gemm_push(enum gemm_function function, const struct gemm_call *call)
{
    struct product product;
    if (call->m < 0 || call->n < 0 || call->k < 0 || call->batch < 0) {
        gemm_push_unknown(function);
        return;
    }
    unsigned known = describe(call, &product);
    tacho_nvtx_push(&cublas, known & HAS_SHAPE ? name_of(function, &product) : plain[function],
                    schema[known], &product, sizeof product);
}

void gemm_push_unknown(enum gemm_function function)
{
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                        .message.registered = plain[function]};
    nvtxDomainRangePushEx(cublas.domain, &attributes);
}
