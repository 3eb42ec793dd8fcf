/* SPDX-License-Identifier: Apache-2.0
 *
 * One CUDA device as struct lt_device: its queue (one stream), memory, marks (events) and captured
 * steps (graphs), and the table of operations. Exported: lt_cuda_open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/cuda/launch.h"

struct device {
    struct lt_device base;   /* first */
    struct cuda_queue queue; /* its fail finds the device by this member's place */
    cudaEvent_t marks[LT_DEVICE_MARKS];
    cudaGraphExec_t graph;
    struct cuda_comm *comm; /* of several ranks */
    char failure[256];
    /* an operation that waits for the next one, which may take it along */
    int waiting;
    enum lt_op_id waiting_op;
    enum lt_dtype waiting_dtype;
    union lt_args waiting_args;
};

static struct device *of(struct lt_device *base)
{
    return (struct device *)base;
}

static void keep(struct device *device, const char *what, const char *why)
{
    if (!device->failure[0])
        snprintf(device->failure, sizeof device->failure, "%s: %s", what, why);
}

static void queue_failed(struct cuda_queue *queue, const char *what, const char *why)
{
    keep((struct device *)((char *)queue - offsetof(struct device, queue)), what, why);
}

/* Keeps an error of the runtime; 1 where there is one. */
static int failed(struct device *device, const char *what, cudaError_t error)
{
    if (error == cudaSuccess)
        return 0;
    keep(device, what, cudaGetErrorString(error));
    return 1;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* A row without a launch: the device does not have it. */
static const struct {
    enum lt_op_id op;
    const char *name;
    cuda_launch *launch;
} rows[] = {
#define ROW(id, function) \
    { \
        LT_OP_##id, #function, cuda_##function \
    }
    ROW(EMBEDDING_FORWARD, embedding_forward),
    ROW(EMBEDDING_BACKWARD, embedding_backward),
    ROW(LAYERNORM_FORWARD, layernorm_forward),
    ROW(LAYERNORM_BACKWARD, layernorm_backward),
    ROW(MATMUL_FORWARD, matmul_forward),
    ROW(MATMUL_BACKWARD, matmul_backward),
    ROW(ATTENTION_FORWARD, attention_forward),
    ROW(ATTENTION_BACKWARD, attention_backward),
    ROW(GELU_FORWARD, gelu_forward),
    ROW(GELU_BACKWARD, gelu_backward),
    ROW(RESIDUAL_FORWARD, residual_forward),
    ROW(CLASSIFIER, classifier),
    ROW(NORM, norm),
    ROW(ZERO, zero),
    ROW(ADAMW, adamw),
#undef ROW
};

static int row_of(enum lt_op_id op)
{
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        if (rows[i].op == op)
            return i;
    return -1;
}

static int device_has(enum lt_op_id op, const union lt_args *args, char *why, size_t size)
{
    const struct lt_attention *a = &args->attention_forward;
    if (row_of(op) < 0) {
        snprintf(why, size, "not among the operations of the CUDA backend");
        return 0;
    }
    if ((op == LT_OP_ATTENTION_FORWARD || op == LT_OP_ATTENTION_BACKWARD) &&
        !cuda_attention_has(a->c / a->h)) {
        snprintf(why, size, "heads of %lld channels; the kernels are for 32 or 64",
                 (long long)(a->c / a->h));
        return 0;
    }
    return 1;
}

static void say(struct device *device, enum lt_speak what)
{
    if (device->base.speak)
        device->base.speak(&device->base, what);
}

static void launch_waiting(struct device *device)
{
    rows[row_of(device->waiting_op)].launch(&device->queue, device->waiting_dtype,
                                            &device->waiting_args);
}

/* Launches the operation that waits. */
static void settle(struct device *device)
{
    if (!device->waiting)
        return;
    device->waiting = 0;
    say(device, LT_SPEAK_BEGIN_WAITING);
    launch_waiting(device);
    say(device, LT_SPEAK_END);
}

/* Does this operation do the waiting one's work in its own pass? What the waiting one leaves, and
 * others read later, is left in its place either way. */
static int takes_along(struct device *device, enum lt_op_id op, const union lt_args *args)
{
    const union lt_args *first = &device->waiting_args;
    const struct lt_layernorm *layernorm = &args->layernorm_forward;
    const struct lt_gelu *gelu = &args->gelu_forward, *slope = &args->gelu_backward;
    const struct lt_matmul *forward = &first->matmul_forward, *back = &first->matmul_backward;
    if (device->waiting_op == LT_OP_RESIDUAL_FORWARD && op == LT_OP_LAYERNORM_FORWARD &&
        layernorm->in == first->residual_forward.out &&
        layernorm->rows * layernorm->c == first->residual_forward.count) {
        cuda_residual_layernorm(&device->queue, device->waiting_dtype, &first->residual_forward,
                                layernorm);
        return 1;
    }
    if (device->waiting_op == LT_OP_MATMUL_FORWARD && op == LT_OP_GELU_FORWARD &&
        gelu->in == forward->out && gelu->count == forward->rows * forward->n)
        return !cuda_matmul_gelu(&device->queue, device->waiting_dtype, forward, gelu);
    if (device->waiting_op == LT_OP_MATMUL_BACKWARD && op == LT_OP_GELU_BACKWARD &&
        slope->dout == back->din && slope->din == back->din && slope->count == back->rows * back->k)
        return !cuda_matmul_gelu_backward(&device->queue, device->waiting_dtype, back, slope);
    return 0;
}

static int may_wait(enum lt_op_id op)
{
    return op == LT_OP_RESIDUAL_FORWARD || op == LT_OP_MATMUL_FORWARD ||
           op == LT_OP_MATMUL_BACKWARD;
}

/* Launches the waiting operation; 1: together with this one, of which nothing is left to launch. */
static int fused(struct device *device, enum lt_op_id op, enum lt_dtype dtype,
                 const union lt_args *args)
{
    if (!device->waiting)
        return 0;
    device->waiting = 0;
    say(device, LT_SPEAK_BEGIN_WAITING);
    int along = dtype == device->waiting_dtype && takes_along(device, op, args);
    if (!along)
        launch_waiting(device);
    say(device, LT_SPEAK_END);
    return along;
}

/* Lets an operation wait for the next one. */
static void wait_for_next(struct device *device, enum lt_op_id op, enum lt_dtype dtype,
                          const union lt_args *args)
{
    device->waiting = 1;
    device->waiting_op = op;
    device->waiting_dtype = dtype;
    device->waiting_args = *args;
    say(device, LT_SPEAK_WAITS);
}

static void device_run(struct lt_device *base, enum lt_op_id op, enum lt_dtype dtype,
                       const union lt_args *args)
{
    struct device *device = of(base);
    int row = row_of(op);
    if (device->failure[0])
        return;
    if (row < 0) {
        keep(device, "an operation", "not among those of the CUDA backend");
        return;
    }
    if (dtype != LT_DTYPE_FP32 && dtype != LT_DTYPE_BF16) {
        keep(device, rows[row].name, "the kernels are for fp32 and bf16");
        return;
    }
    int along = fused(device, op, dtype, args);
    if (!along && may_wait(op)) {
        wait_for_next(device, op, dtype, args);
        return;
    }
    say(device, LT_SPEAK_BEGIN);
    if (!along)
        rows[row].launch(&device->queue, dtype, args);
    say(device, LT_SPEAK_END);
    failed(device, rows[row].name, cudaGetLastError());
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *space_take(struct lt_space *space, size_t bytes)
{
    struct device *device = of((struct lt_device *)space);
    void *base = nullptr;
    if (cudaMalloc(&base, bytes) != cudaSuccess) { /* the caller has words for it */
        cudaGetLastError();
        return nullptr;
    }
    failed(device, "zeroing memory", cudaMemsetAsync(base, 0, bytes, device->queue.stream));
    return base;
}

static void space_give(struct lt_space *space, void *base)
{
    failed(of((struct lt_device *)space), "giving memory back", cudaFree(base));
}

static void copy(struct device *device, void *to, const void *from, size_t bytes,
                 enum cudaMemcpyKind kind)
{
    settle(device);
    failed(device, "a copy", cudaMemcpyAsync(to, from, bytes, kind, device->queue.stream));
}

static void wait(struct device *device)
{
    failed(device, "waiting for the device", cudaStreamSynchronize(device->queue.stream));
}

static void space_write(struct lt_space *space, void *to, const void *from, size_t bytes)
{
    struct device *device = of((struct lt_device *)space);
    copy(device, to, from, bytes, cudaMemcpyHostToDevice);
    wait(device);
}

static void space_read(struct lt_space *space, void *to, const void *from, size_t bytes)
{
    struct device *device = of((struct lt_device *)space);
    copy(device, to, from, bytes, cudaMemcpyDeviceToHost);
    wait(device);
}

static void *device_pin(struct lt_device *base, size_t bytes)
{
    void *pinned = nullptr;
    (void)base;
    if (cudaMallocHost(&pinned, bytes) == cudaSuccess)
        return pinned;
    cudaGetLastError();
    return nullptr;
}

static void device_unpin(struct lt_device *base, void *pinned)
{
    failed(of(base), "giving pinned memory back", cudaFreeHost(pinned));
}

static void device_send(struct lt_device *base, void *to, const void *from, size_t bytes)
{
    copy(of(base), to, from, bytes, cudaMemcpyHostToDevice);
}

static void device_fetch(struct lt_device *base, void *to, const void *from, size_t bytes)
{
    copy(of(base), to, from, bytes, cudaMemcpyDeviceToHost);
}

static int64_t device_available(struct lt_device *base)
{
    size_t unused = 0, total = 0;
    failed(of(base), "the device's memory", cudaMemGetInfo(&unused, &total));
    return (int64_t)unused;
}

/* ---- order ----------------------------------------------------------------------------------- */

static void device_mark(struct lt_device *base, int which)
{
    struct device *device = of(base);
    settle(device);
    failed(device, "a mark", cudaEventRecord(device->marks[which], device->queue.stream));
}

static void device_await(struct lt_device *base, int which)
{
    failed(of(base), "waiting for the device", cudaEventSynchronize(of(base)->marks[which]));
}

static void device_capture(struct lt_device *base)
{
    struct device *device = of(base);
    settle(device);
    device->queue.tune = 0; /* to wait would spoil it */
    failed(device, "capturing a step",
           cudaStreamBeginCapture(device->queue.stream, cudaStreamCaptureModeThreadLocal));
}

static int device_captured(struct lt_device *base)
{
    struct device *device = of(base);
    cudaGraph_t graph = nullptr;
    settle(device);
    if (failed(device, "capturing a step", cudaStreamEndCapture(device->queue.stream, &graph)))
        return -1;
    if (device->graph)
        failed(device, "a captured step", cudaGraphExecDestroy(device->graph));
    device->graph = nullptr;
    int bad = failed(device, "a captured step", cudaGraphInstantiate(&device->graph, graph, 0));
    return failed(device, "a captured step", cudaGraphDestroy(graph)) || bad ? -1 : 0;
}

static void device_replay(struct lt_device *base)
{
    failed(of(base), "a captured step", cudaGraphLaunch(of(base)->graph, of(base)->queue.stream));
}

/* ---- several ranks --------------------------------------------------------------------------- */

static int device_identity(struct lt_device *, void *id, char *why, size_t size)
{
    return cuda_comm_identity(id, why, size);
}

static int device_join(struct lt_device *base, const void *id, int rank, int ranks, char *why,
                       size_t size)
{
    of(base)->comm = cuda_comm_open(id, rank, ranks, why, size);
    return of(base)->comm ? 0 : -1;
}

static void device_reduce(struct lt_device *base, const struct lt_device_array *pieces,
                          size_t count, int doubles)
{
    struct device *device = of(base);
    settle(device);
    cuda_comm_reduce(&device->queue, device->comm, pieces, count, doubles);
}

static void device_reduced(struct lt_device *base)
{
    settle(of(base));
    cuda_comm_join(&of(base)->queue, of(base)->comm);
}

static const char *device_failure(const struct lt_device *base)
{
    const struct device *device = (const struct device *)base;
    return device->failure[0] ? device->failure : nullptr;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void device_close(struct lt_device *base)
{
    struct device *device = of(base);
    cudaStreamSynchronize(device->queue.stream);
    if (device->graph)
        cudaGraphExecDestroy(device->graph);
    cuda_comm_close(device->comm);
    for (cudaEvent_t mark : device->marks)
        cudaEventDestroy(mark);
    cuda_products_close(device->queue.products);
    cudaFree(device->queue.workspace);
    cudaFree(device->queue.late);
    cudaStreamDestroy(device->queue.stream);
    free(device);
}

/* What every operation needs. */
static cudaError_t open_queue(struct device *device)
{
    cudaError_t error = cudaStreamCreateWithFlags(&device->queue.stream, cudaStreamNonBlocking);
    for (cudaEvent_t &mark : device->marks)
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&mark, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaMalloc(&device->queue.workspace, cuda_workspace_bytes);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&device->queue.late, sizeof *device->queue.late);
    return error;
}

static void fill(struct device *device)
{
    struct lt_device *base = &device->base;
    base->space.take = space_take;
    base->space.give = space_give;
    base->space.write = space_write;
    base->space.read = space_read;
    base->late = device->queue.late;
    base->has = device_has;
    base->run = device_run;
    base->pin = device_pin;
    base->unpin = device_unpin;
    base->send = device_send;
    base->fetch = device_fetch;
    base->mark = device_mark;
    base->await = device_await;
    base->capture = device_capture;
    base->captured = device_captured;
    base->replay = device_replay;
    base->identity = device_identity;
    base->join = device_join;
    base->reduce = device_reduce;
    base->reduced = device_reduced;
    base->available = device_available;
    base->failure = device_failure;
    base->close = device_close;
    const char *tune = getenv("LT_CUDA_TUNE");
    device->queue.tune = tune ? atoi(tune) : 0;
    device->queue.fail = queue_failed;
}

extern "C" __attribute__((visibility("default"))) int
lt_cuda_open(struct lt_device **out, unsigned long layout, char *why, size_t size, int number)
{
    struct cudaDeviceProp properties;
    int count = 0, least = 8; /* compute capability 8.0: the tensor cores' bf16 */
    if (layout != LT_DEVICE_LAYOUT) {
        snprintf(why, size, "the library is of another build than the program: `make all cuda`");
        return -1;
    }
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0)
        error = cudaSetDevice(number % count);
    if (error == cudaSuccess && count > 0)
        error = cudaGetDeviceProperties(&properties, number % count);
    if (error != cudaSuccess || count < 1) {
        snprintf(why, size, "no device: %s", cudaGetErrorString(error));
        return -1;
    }
    if (properties.major < least) {
        snprintf(why, size, "%s has compute capability %d.%d; 8.0 is the least", properties.name,
                 properties.major, properties.minor);
        return -1;
    }
    struct device *device = (struct device *)calloc(1, sizeof *device);
    if (!device) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    device->queue.products = cuda_products_open(why, size);
    error = device->queue.products ? open_queue(device) : cudaSuccess;
    if (!device->queue.products || error != cudaSuccess) {
        if (device->queue.products)
            snprintf(why, size, "%s: %s", properties.name, cudaGetErrorString(error));
        device_close(&device->base);
        return -1;
    }
    fill(device);
    const char *groups = getenv("LT_CUDA_WARPGROUPS");
    device->queue.warpgroups = properties.major == 9 && !(groups && !strcmp(groups, "off"));
    size_t version = cuda_products_version(device->queue.products);
    snprintf(device->base.name, sizeof device->base.name, "%s, compute %d.%d, cuBLASLt %zu.%zu",
             properties.name, properties.major, properties.minor, version / 10000,
             version / 100 % 100);
    *out = &device->base;
    return 0;
}
