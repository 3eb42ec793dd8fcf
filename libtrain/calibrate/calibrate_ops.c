/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation of LT_OP_MAP, through lt_op as in training, at the shapes of calibrate_making.c.
 *
 * Cold: each call has operands that no call has used for twice the last cache's size. Hot: the same
 * operands over and over.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/arena.h"
#include "libtrain/calibrate/calibrate.h"
#include "libtrain/calibrate/calibrate_making.h"
#include "libtrain/gemm/gemm.h"
#include "tacho_nvtx.h"

#define MOST ((size_t)1 << 30) /* bytes of all sets of operands */

/* ---- measuring ----------------------------------------------------------------------------------------------------------------- */

/* What an operation is called with: a set of operands for each call of a round. */
struct calls {
    enum lt_op_id op;
    struct lt_context context;
    union lt_args *set;
};

static void call_op(const void *arg, int set)
{
    const struct calls *calls = arg;
    lt_op(&calls->context, calls->op, &calls->set[set]);
}

/* Seconds of a call: `rounds` times through the first `sets` sets. */
static double time_calls(const struct lt_subject *subject, int sets, int64_t rounds)
{
    double begin = lt_seconds();
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < sets; i++)
            subject->call(subject->arg, i);
    return (lt_seconds() - begin) / (double)(rounds * sets);
}

/* Times a row: first once to learn how many rounds fill the time that a repeat should take, then
 * in repeats. */
static void measure(struct lt_op_time *row, const struct lt_subject *subject, int sets,
                    const struct lt_calibrate_options *options)
{
    double seconds[LT_CALIBRATE_REPEATS], target = options->quick ? 0.004 : 0.012;
    double once = time_calls(subject, sets, 1), again = time_calls(subject, sets, 1);
    int64_t rounds = (int64_t)(target / ((once < again ? once : again) * sets)) + 1;
    row->repeats = options->quick || once * sets > 0.1 ? 3 : 7;
    for (int i = 0; i < row->repeats; i++)
        seconds[i] = time_calls(subject, sets, rounds);
    row->seconds = lt_median(seconds, row->repeats);
    row->best = seconds[0];
}

/* Appends a row; NULL: no memory. */
static struct lt_op_time *add(struct lt_calibration *calibration, const struct lt_op_time *row)
{
    struct lt_op_time *grown = realloc(calibration->op, (calibration->ops + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    calibration->op = grown;
    grown[calibration->ops] = *row;
    return &grown[calibration->ops++];
}

size_t lt_calibrate_cold_sets(const struct lt_calibrate_options *options, uint64_t bytes)
{
    int cores;
    size_t last = (size_t)lt_cache_bytes(3, &cores);
    last *= (size_t)(cores > 0 ? (lt_threads() + cores - 1) / cores : 1);
    last = options->last_cache ? (size_t)options->last_cache : last;
    return 2 * last / bytes + 1;
}

int lt_calibrate_subject(struct lt_calibration *calibration, const struct lt_op_time *row,
                         const struct lt_subject *subject, int is_cold,
                         const struct lt_calibrate_options *options)
{
    for (int cold = is_cold; cold >= 0; cold--) {
        if (!cold && is_cold && subject->sets == 1)
            continue;
        struct lt_op_time *added = add(calibration, row);
        if (!added)
            return TACHO_ENOMEM;
        added->cold = cold;
        measure(added, subject, cold ? subject->sets : 1, options);
    }
    return 0;
}

/* The row of an operation, without times. */
static struct lt_op_time row_of(enum lt_op_id op, enum lt_dtype dtype, const char *shape)
{
    static const char *const passes[][2] = {
        {"FORWARD", "forward"}, {"BACKWARD", "backward"}, {"OPTIMIZER", "optimizer"}};
    struct lt_op_time row = {.op = lt_op_names()[op], .pass = "", .dtype = lt_dtype_name(dtype)};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!strcmp(lt_makers[op].pass, passes[i][0]))
            row.pass = passes[i][1];
    snprintf(row.shape, sizeof row.shape, "%s", shape);
    return row;
}

/* Returns 0 or TACHO_ENOMEM. */
static int absent(struct lt_calibration *calibration, enum lt_op_id op, enum lt_dtype dtype,
                  const char *reason)
{
    struct lt_op_time row = row_of(op, dtype, "");
    row.kind = "other";
    row.reason = reason;
    return add(calibration, &row) ? 0 : TACHO_ENOMEM;
}

/* Measures the operation at one shape and adds its rows. */
static int add_rows(struct lt_calibration *calibration, const struct calls *calls, int sets,
                    const struct making *making, int is_cold,
                    const struct lt_calibrate_options *options)
{
#define KIND(name, value, text) [value] = text,
    static const char *const kinds[] = {TACHO_WORK_MAP(KIND)};
#undef KIND
    struct tacho_work work;
    struct lt_op_time row = row_of(calls->op, calls->context.dtype, making->shape);
    lt_op_work(calls->op, &calls->context, &calls->set[0], &work);
    row.kind = kinds[work.kind];
    row.flops = work.flops;
    row.bytes_read = work.bytes_read;
    row.bytes_written = work.bytes_written;
    return lt_calibrate_subject(calibration, &row, &(struct lt_subject){call_op, calls, sets},
                                is_cold, options);
}

/* What the optimizer does is the same in every type, unless it writes a copy in that type. */
static int repeats_fp32(enum lt_op_id op, enum lt_dtype dtype, int i, const struct tacho_work *work)
{
    struct lt_context fp32 = {.backend = LT_BACKEND_CPU, .dtype = LT_DTYPE_FP32};
    struct making making = {.element = sizeof(float), .op = op};
    struct tacho_work other;
    union lt_args args;
    memset(&args, 0, sizeof args);
    if (dtype == LT_DTYPE_FP32 || work->pass != TACHO_PASS_OPTIMIZER ||
        !lt_makers[op].make(&args, i, &making))
        return 0;
    lt_op_work(op, &fp32, &args, &other);
    return other.bytes_read == work->bytes_read && other.bytes_written == work->bytes_written;
}

/* All calls of one operation at one shape. Returns 1, 0 where there is no such shape, or a negative
 * code. */
static int one(struct lt_calibration *calibration, enum lt_op_id op, enum lt_dtype dtype, int i,
               const struct lt_calibrate_options *options)
{
    struct calls calls = {.op = op, .context = {.backend = LT_BACKEND_CPU, .dtype = dtype}};
    struct making making = {.element = lt_dtype_bytes(dtype), .op = op, .dtype = dtype};
    struct lt_arena arena;
    struct tacho_work work;
    union lt_args first;
    float *base;
    int rc;
    memset(&first, 0, sizeof first);
    if (!lt_makers[op].make(&first, i, &making))
        return 0;
    lt_op_work(op, &calls.context, &first, &work);
    if (repeats_fp32(op, dtype, i, &work))
        return 0;
    if (work.kind == TACHO_WORK_MATRIX && !lt_gemm_fast(dtype))
        return absent(calibration, op, dtype,
                      "the GEMM library does not support this type on this CPU");
    /* what it touches may be less than it has */
    size_t size = making.used, room = MOST / size,
           sets = lt_calibrate_cold_sets(options, work.bytes_read + work.bytes_written);
    int cold = sets <= room || sets == 1;
    sets = cold ? sets : 1;
    calls.set = calloc(sets, sizeof *calls.set);
    struct lt_tensor tensors[] = {{"operands", sets * size / sizeof(float), &base}};
    if (!calls.set)
        return TACHO_ENOMEM;
    rc = lt_arena_create(&arena, LT_MEMORY_WORKSPACE, tensors, 1);
    if (rc == 0) {
        lt_calibrate_fill(base, sets * size);
        for (size_t set = 0; set < sets; set++) {
            making.base = (char *)base + set * size;
            making.used = 0;
            lt_makers[op].make(&calls.set[set], i, &making);
        }
        rc = add_rows(calibration, &calls, (int)sets, &making, cold, options);
        lt_arena_destroy(&arena);
    }
    free(calls.set);
    return rc ? rc : 1;
}

static int all_shapes(struct lt_calibration *calibration, enum lt_op_id op, enum lt_dtype dtype,
                      const struct lt_calibrate_options *options)
{
    int rc = 1;
    for (int i = 0; rc > 0 && !(options->quick && i); i++)
        rc = one(calibration, op, dtype, i, options);
    return rc < 0 ? rc : 0;
}

int lt_calibrate_ops(struct lt_calibration *out, const struct lt_calibrate_options *options)
{
    int rc = 0;
    for (int op = 0; op < LT_OP_COUNT && rc == 0; op++)
        for (int dtype = 0; dtype < LT_DTYPE_EMULATED && rc == 0; dtype++)
            rc = lt_makers[op].make
                     ? all_shapes(out, (enum lt_op_id)op, (enum lt_dtype)dtype, options)
                     : absent(out, (enum lt_op_id)op, (enum lt_dtype)dtype,
                              "calibrate_making.c does not make arguments of its type yet");
    return rc;
}
