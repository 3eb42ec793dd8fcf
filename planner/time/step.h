/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a training step takes. Part of the public header of planner/.
 */
#ifndef PLANNER_STEP_H
#define PLANNER_STEP_H

#include "planner/base/types.h"
#include "planner/model/model.h"

/* Parts of a step on the busiest stage, seconds; they sum to the step. key, text, formula */
#define PLAN_PART_MAP(X) \
    X(PRODUCTS, products, "GEMMs", \
      "m x layers x sum of 2 rows inner columns / (peak x efficiency)") \
    X(ATTENTION, attention, "attention", \
      "m x layers x scores and values at the fused kernel's efficiency, or by bytes of scores") \
    X(ELEMENTS, elements, "element-wise kernels", "m x layers x bytes / memory bandwidth") \
    X(RECOMPUTE, recompute, "recomputation", "the forward pass of the layers that are recomputed") \
    X(HEAD, head, "output embedding and loss", "m x logits, on the last stage") \
    X(LAUNCH, launch, "gaps between kernels", "m x layers x seconds per layer") \
    X(TENSOR, tensor, "tensor and context parallelism", \
      "m x layers x all-reduces of 2 b s h bytes, exposed part") \
    X(EXPERT, expert, "expert parallelism", "m x layers x 4 all-to-alls of tokens, exposed part") \
    X(STAGE, stage, "sends between stages", "2 m v x 2 b s h / t bytes / network, exposed part") \
    X(BUBBLE, bubble, "pipeline bubble", "(p - 1) / v micro-batches of one stage") \
    X(DATA, data, "data parallelism", "gradients and sharded weights, exposed part") \
    X(UPDATE, update, "optimizer", "bytes of parameters and states / memory bandwidth") \
    X(WAITING, waiting, "waiting for the slowest rank", "growth per doubling of nodes") \
    X(LOADER, loader, "data loader", "where the loader is slower than the rest") \
    X(FIXED, fixed, "outside of kernels", "seconds per step")
enum plan_part {
#define PLAN_PART_ENUM(name, key, text, formula) PLAN_PART_##name,
    PLAN_PART_MAP(PLAN_PART_ENUM)
#undef PLAN_PART_ENUM
        PLAN_PARTS
};
struct plan_part_words {
    const char *key, *text, *formula;
};
struct plan_part_words plan_part_words(enum plan_part part);

struct plan_time {
    double seconds, low, high; /* a step, and its interval of 90 % */
    double least_seconds;      /* of what the busiest stage executes, at the peak */
    double part[PLAN_PARTS];
    struct plan_kinds
        kinds;            /* seconds of each kind, of the busiest stage; no waiting for a loader */
    double call_seconds;  /* of the GEMMs' seconds, what calling them takes whatever their size */
    double micro_seconds; /* one micro-batch, forward and backward, on the busiest stage */
    int64_t micro_batches;
    double executed_flops;          /* of all devices in a step, recomputation included */
    double flops[PLAN_CONVENTIONS]; /* of all devices in a step */
    double mfu[PLAN_CONVENTIONS];
    double mfu_low, mfu_high; /* of the causal convention, by the interval */
    double tokens_per_s;
    double gemm_efficiency;                       /* of the layer's products together */
    double data_bytes, tensor_bytes, stage_bytes; /* sent by a rank in a step */
};

/* A complete layout (every member given) as seconds. Never faster than the peak. loader: samples
 * per second that the loader can give, 0: no limit. */
void plan_time_of(const struct plan_case *of, double loader, struct plan_time *out);
/* Sets the interval from a standard deviation of ln(measured / predicted). */
void plan_time_interval(struct plan_time *time, double deviation);

#endif
