/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: schedules of a pipeline: in which order a stage makes the passes of m
 * micro-batches, p stages. F, B, W: what a stage takes for a forward pass, for the gradient of its
 * input and for that of its weights.
 *
 * gpipe: all forward passes, then all backward passes (Huang et al. 2019); m micro-batches are in
 *   flight. A step takes (m + p - 1)(F + B + W).
 * 1f1b: stage s makes min(m, p - 1 - s) forward passes, then one forward and one backward pass in
 *   turn (Narayanan et al. 2019); min(m, p - s) are in flight. It takes as long as gpipe.
 * interleaved: a stage has v chunks of blocks, chunk c of stage s being number c p + s of p v, and
 *   makes passes of p micro-batches over one chunk before it turns to the next (Narayanan et al.
 *   2021); p divides m. A step takes m (F + B + W) + (p - 1)(F + B + W) / v.
 * zb-h1: as 1f1b, but the weights' gradients are passes of their own, which stage s makes s
 *   micro-batches later than the input's (Qi et al. 2023); min(m, p) micro-batches are in flight
 *   until then. A step takes m (F + B + W) + (p - 1)(F + B - W), if W is at most F and at most B.
 *
 * Of a chunk, backward passes come in the order of micro-batches in all of them, and so do weights
 * passes: gradients are added in that order.
 */
#ifndef LT_STAGES_H
#define LT_STAGES_H

#include <stddef.h>

#define LT_SCHEDULE_OF_STAGES_MAP(X) \
    X(GPIPE, "gpipe") \
    X(ONE_F_ONE_B, "1f1b") X(INTERLEAVED, "interleaved") X(ZB_H1, "zb-h1")
#define LT_ENUM_STAGES(id, name) LT_STAGES_##id,
enum lt_stages { LT_SCHEDULE_OF_STAGES_MAP(LT_ENUM_STAGES) LT_STAGES_COUNT };
#undef LT_ENUM_STAGES

/* A step of a pipeline. chunks: 1, but for INTERLEAVED. */
struct lt_staging {
    enum lt_stages kind;
    int stages, micro, chunks;
};

/* Where WEIGHTS passes are made, BACKWARD is the gradient of the input alone. */
enum lt_pass_kind { LT_PASS_FORWARD, LT_PASS_BACKWARD, LT_PASS_WEIGHTS, LT_PASS_KINDS };

/* One pass of a stage over a micro-batch. slot: the lowest one that no other micro-batch and chunk
 * in flight has. */
struct lt_pass {
    enum lt_pass_kind kind;
    int micro, chunk, slot;
};

/* Schedule called `name`, or -1; and its name. */
int lt_stages_find(const char *name);
const char *lt_stages_name(enum lt_stages kind);

/* Are the gradients of weights passes of their own? */
int lt_stages_split(enum lt_stages kind);

/* Passes of a stage. */
size_t lt_stages_count(const struct lt_staging *staging);

/* These, in the order of that stage. Returns the most micro-batches (of one chunk each) that are in
 * flight: from the forward pass to the last pass that reads its activations. TACHO_ENOMEM. */
int lt_stages_passes(const struct lt_staging *staging, int stage, struct lt_pass *out);

/* Seconds of a stage's passes over one micro-batch, all its chunks together. */
struct lt_stage_times {
    double forward, backward, weights;
};

/* When the last pass of a step ends, each stage making its passes as early as their inputs allow,
 * messages taking nothing. times: of each stage; a schedule that does not split them makes backward
 * and weights in one pass. TACHO_ENOMEM. */
double lt_stages_makespan(const struct lt_staging *staging, const struct lt_stage_times *times);

#endif
