/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations, from the list in ops.h, and the one function through which every
 * operation of the engine runs. It computes the work of the call from its shapes and opens the
 * range, so that no operation can run without being seen by a profiler.
 */
#include "libtrain/ops/ops.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/device.h"
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/operands.h"
#include "libtrain/ops/scan.h"
#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

typedef void (*kernel)(const union lt_args *args);

struct op {
    uint8_t pass; /* enum tacho_pass */
    uint8_t kind; /* enum tacho_work_kind */
    void (*cost)(const struct lt_context *x, const union lt_args *args, struct tacho_work *work);
    kernel run[LT_BACKEND_COUNT][LT_DTYPE_COUNT];
};

static const struct op ops[LT_OP_COUNT] = {
#define TYPES(p, function) \
    { \
        LT_KERNEL(p, function, fp32), LT_KERNEL(p, function, bf16), LT_KERNEL(p, function, fp16) \
    } /* in the order of enum lt_dtype */
#define ROW(id, function, name, p, k) \
    [LT_OP_##id] = {.pass = TACHO_PASS_##p, \
                    .kind = TACHO_WORK_##k, \
                    .cost = lt_cost_##function, \
                    .run = {[LT_BACKEND_REFERENCE] = TYPES(p, lt_reference_##function), \
                            [LT_BACKEND_CPU] = TYPES(p, lt_cpu_##function)}},
    LT_OP_MAP(ROW)
#undef ROW
#undef TYPES
};

static const char *const op_names[LT_OP_COUNT] = {
#define ROW(id, function, name, pass, kind) [LT_OP_##id] = (name),
    LT_OP_MAP(ROW)
#undef ROW
};

static const char *const backend_names[LT_BACKEND_COUNT] = {
#define ROW(id, name) [LT_BACKEND_##id] = (name),
    LT_BACKEND_MAP(ROW)
#undef ROW
};

static const uint8_t dtype_codes[LT_DTYPE_COUNT] = {
#define ROW(id, name, bytes, code) [LT_DTYPE_##id] = TACHO_DTYPE_##code,
    LT_DTYPE_MAP(ROW)
#undef ROW
};

void lt_op_work(enum lt_op_id op, const struct lt_context *context, const union lt_args *args,
                struct tacho_work *work)
{
    *work = (struct tacho_work){
        .dtype = dtype_codes[context->dtype], .pass = ops[op].pass, .kind = ops[op].kind};
    ops[op].cost(context, args, work);
    if (work->pass == TACHO_PASS_OPTIMIZER)
        work->dtype = TACHO_DTYPE_FP32;
    if (context->evaluation)
        work->pass = TACHO_PASS_EVALUATION;
    if (context->recompute) {
        work->pass = TACHO_PASS_RECOMPUTE;
        work->model_flops = work->palm_flops = 0;
    }
}

/* What its range says of an operation. */
struct lt_spoken {
    struct lt_trace *trace;
    enum lt_op_id op;
    struct tacho_work work;
    struct lt_operand operand[LT_OPERANDS_MOST];
    size_t operands;
};

static void spoken_make(struct lt_spoken *spoken, const struct lt_context *context,
                        enum lt_op_id op, const union lt_args *args)
{
    spoken->trace = context->trace;
    spoken->op = op;
    spoken->operands = 0;
    lt_op_work(op, context, args, &spoken->work);
    if (lt_trace_wants_operands(context->trace))
        spoken->operands = lt_op_operands(op, context, args, spoken->operand);
}

static void spoken_begin(const struct lt_spoken *spoken)
{
    lt_trace_op_begin(spoken->trace, (int)spoken->op, &spoken->work, spoken->operand,
                      spoken->operands);
}

/* Of the two that a device has, the first is the operation that run was called with. */
static void speak(struct lt_device *device, enum lt_speak what)
{
    struct lt_spoken *now = device->spoken, *waiting = now + 1;
    if (what == LT_SPEAK_WAITS)
        *waiting = *now;
    else if (what == LT_SPEAK_END)
        lt_trace_op_end(now->trace);
    else if (what == LT_SPEAK_BEGIN)
        spoken_begin(now);
    else
        spoken_begin(waiting);
}

/* Without memory for them, the operations of the device have no ranges. */
static void run_on_device(const struct lt_context *context, enum lt_op_id op,
                          const union lt_args *args)
{
    struct lt_device *device = context->device;
    if (!device->spoken && (device->spoken = calloc(2, sizeof *device->spoken)))
        device->speak = speak;
    if (device->spoken)
        spoken_make(device->spoken, context, op, args);
    device->run(device, op, context->dtype, args);
}

static void run_here(const struct lt_context *context, enum lt_op_id op, const union lt_args *args)
{
    struct lt_spoken spoken;
    spoken_make(&spoken, context, op, args);
    spoken_begin(&spoken);
    ops[op].run[context->backend][context->dtype](args);
    lt_trace_op_end(context->trace);
    if (context->attention_flops && spoken.work.kind == TACHO_WORK_ATTENTION)
        *context->attention_flops += spoken.work.flops;
}

void lt_op(const struct lt_context *context, enum lt_op_id op, const union lt_args *args)
{
    if (context->device)
        run_on_device(context, op, args);
    else
        run_here(context, op, args);
    if (context->fault)
        lt_fault_op(context->fault, context, op, args);
    if (context->scan)
        lt_scan_op(context->scan, context, op, args);
}

const char *const *lt_op_names(void)
{
    return op_names;
}

int lt_op_find(const char *name)
{
    for (int i = 0; i < LT_OP_COUNT; i++)
        if (strcmp(name, op_names[i]) == 0)
            return i;
    return -1;
}

int lt_backend_find(const char *name)
{
    for (int i = 0; i < LT_BACKEND_COUNT; i++)
        if (strcmp(name, backend_names[i]) == 0)
            return i;
    return -1;
}

const char *lt_backend_name(enum lt_backend backend)
{
    return backend_names[backend];
}
