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

/* What an operation is measured with: one set of operands for each call of a round. */
struct subject {
    enum lt_op_id op;
    struct lt_context context;
    union lt_args *set;
    int sets;
};

/* Seconds of a call: `rounds` times through the first `sets` sets. */
static double time_calls(const struct subject *subject, int sets, int64_t rounds)
{
    double begin = lt_seconds();
    for (int64_t round = 0; round < rounds; round++)
        for (int i = 0; i < sets; i++)
            lt_op(&subject->context, subject->op, &subject->set[i]);
    return (lt_seconds() - begin) / (double)(rounds * sets);
}

/* Times a row: first once to learn how many rounds fill the time that a repeat should take, then
 * in repeats. */
static void measure(struct lt_op_time *row, const struct subject *subject, int sets,
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

/* Appends a row of the result for the operation; NULL: no memory. */
static struct lt_op_time *add(struct lt_calibration *calibration, enum lt_op_id op,
                              enum lt_dtype dtype, const char *shape)
{
    static const char *const passes[][2] = {
        {"FORWARD", "forward"}, {"BACKWARD", "backward"}, {"OPTIMIZER", "optimizer"}};
    struct lt_op_time *grown = realloc(calibration->op, (calibration->ops + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    calibration->op = grown;
    grown[calibration->ops] =
        (struct lt_op_time){.op = lt_op_names()[op], .pass = "", .dtype = lt_dtype_name(dtype)};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!strcmp(lt_makers[op].pass, passes[i][0]))
            grown[calibration->ops].pass = passes[i][1];
    snprintf(grown[calibration->ops].shape, sizeof grown->shape, "%s", shape);
    return &grown[calibration->ops++];
}

/* Returns 0 or TACHO_ENOMEM. */
static int absent(struct lt_calibration *calibration, enum lt_op_id op, enum lt_dtype dtype,
                  const char *reason)
{
    struct lt_op_time *row = add(calibration, op, dtype, "");
    if (!row)
        return TACHO_ENOMEM;
    row->kind = "other";
    row->reason = reason;
    return 0;
}

/* Measures the operation at one shape, cold or hot, and adds its row. */
static int add_row(struct lt_calibration *calibration, const struct subject *subject,
                   const struct making *making, int cold,
                   const struct lt_calibrate_options *options)
{
#define KIND(name, value, text) [value] = text,
    static const char *const kinds[] = {TACHO_WORK_MAP(KIND)};
#undef KIND
    struct tacho_work work;
    struct lt_op_time *row = add(calibration, subject->op, subject->context.dtype, making->shape);
    if (!row)
        return TACHO_ENOMEM;
    lt_op_work(subject->op, &subject->context, &subject->set[0], &work);
    row->kind = kinds[work.kind];
    row->flops = work.flops;
    row->bytes_read = work.bytes_read;
    row->bytes_written = work.bytes_written;
    row->cold = cold;
    measure(row, subject, cold ? subject->sets : 1, options);
    return 0;
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
    struct subject subject = {.op = op, .context = {.backend = LT_BACKEND_CPU, .dtype = dtype}};
    struct making making = {.element = lt_dtype_bytes(dtype), .op = op, .dtype = dtype};
    struct lt_arena arena;
    struct tacho_work work;
    union lt_args first;
    float *base;
    int cores, rc;
    memset(&first, 0, sizeof first);
    if (!lt_makers[op].make(&first, i, &making))
        return 0;
    lt_op_work(op, &subject.context, &first, &work);
    if (repeats_fp32(op, dtype, i, &work))
        return 0;
    if (work.kind == TACHO_WORK_MATRIX && !lt_gemm_fast(dtype))
        return absent(calibration, op, dtype,
                      "the GEMM library does not support this type on this CPU");
    size_t size = making.used, room = MOST / size, last = (size_t)lt_cache_bytes(3, &cores);
    last *= (size_t)(cores > 0 ? (lt_threads() + cores - 1) / cores : 1);
    last = options->last_cache ? (size_t)options->last_cache : last;
    size_t sets = 2 * last / (work.bytes_read + work.bytes_written) +
                  1; /* what it touches may be less than it has */
    int cold = sets <= room || sets == 1;
    subject.sets = cold ? (int)sets : 1;
    subject.set = calloc((size_t)subject.sets, sizeof *subject.set);
    struct lt_tensor tensors[] = {{"operands", (size_t)subject.sets * size / sizeof(float), &base}};
    if (!subject.set)
        return TACHO_ENOMEM;
    rc = lt_arena_create(&arena, LT_MEMORY_WORKSPACE, tensors, 1);
    if (rc == 0) {
        lt_calibrate_fill(base, (size_t)subject.sets * size);
        for (int set = 0; set < subject.sets; set++) {
            making.base = (char *)base + (size_t)set * size;
            making.used = 0;
            lt_makers[op].make(&subject.set[set], i, &making);
        }
        if (cold)
            rc = add_row(calibration, &subject, &making, 1, options);
        if (rc == 0 &&
            (subject.sets > 1 || !cold)) /* one set may be colder than any cache by itself */
            rc = add_row(calibration, &subject, &making, 0, options);
        lt_arena_destroy(&arena);
    }
    free(subject.set);
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
