/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to calibrate_*.c: the arguments that operations are measured with.
 */
#ifndef LT_CALIBRATE_MAKING_H
#define LT_CALIBRATE_MAKING_H

#include "libtrain/calibrate/calibrate.h"
#include "libtrain/ops/ops.h"

/* Hands out memory for the operands of one shape; with base NULL it only counts. */
struct making {
    char *base;
    size_t used;
    size_t element; /* bytes of an activation */
    enum lt_op_id op;
    enum lt_dtype dtype;
    char shape[64];
};

#define LT_MAKING_CHANNELS 768

static inline void *take(struct making *making, int64_t count, size_t size)
{
    void *place = making->base ? making->base + making->used : NULL;
    making->used += ((size_t)count * size + 63) / 64 * 64;
    return place;
}

static inline float *take_floats(struct making *making, int64_t count)
{
    return take(making, count, sizeof(float));
}

/* Fills the arguments of the i-th shape; returns 0 after the last. */
typedef int (*lt_make)(void *args, int i, struct making *making);

/* Those of operations over all parameters. */
int lt_make_norm(void *args, int i, struct making *making);
int lt_make_zero(void *args, int i, struct making *making);
int lt_make_clip(void *args, int i, struct making *making);
int lt_make_centre(void *args, int i, struct making *making);
int lt_make_rounding(void *args, int i, struct making *making);
int lt_make_average(void *args, int i, struct making *making);
int lt_make_update(void *args, int i, struct making *making);
/* Those of K-FAC. */
int lt_make_kfac_factors(void *args, int i, struct making *making);
int lt_make_kfac_average(void *args, int i, struct making *making);
int lt_make_kfac_inverse(void *args, int i, struct making *making);
int lt_make_kfac_direction(void *args, int i, struct making *making);

/* Of each operation: the name of its pass in LT_OP_MAP, and who makes its arguments; NULL: none.
 */
struct lt_maker {
    const char *pass;
    lt_make make;
};
extern const struct lt_maker lt_makers[LT_OP_COUNT];

/* ---- measuring: calibrate_ops.c ---- */

/* What is measured: a call, and as many sets of operands for it. */
struct lt_subject {
    void (*call)(const void *arg, int set);
    const void *arg;
    int sets;
};

/* Sets of operands after which those of the first call are in no cache any more, where a call
 * touches that many bytes. */
size_t lt_calibrate_cold_sets(const struct lt_calibrate_options *options, uint64_t bytes);

/* Adds rows of a call, cold where `is_cold`, and hot unless one set may be colder than any cache by
 * itself; they begin as `row`. 0 or TACHO_ENOMEM. */
int lt_calibrate_subject(struct lt_calibration *calibration, const struct lt_op_time *row,
                         const struct lt_subject *subject, int is_cold,
                         const struct lt_calibrate_options *options);

#endif
