/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training run needs of the memory of each device. Part of the public header of planner/.
 */
#ifndef PLANNER_MEMORY_H
#define PLANNER_MEMORY_H

#include "planner/base/types.h"
#include "planner/model/model.h"

/* What the memory of a rank holds at the peak of a step. key, text, what is assumed */
#define PLAN_HELD_MAP(X) \
    X(WEIGHTS, weights, "parameters", "2 bytes each; ZeRO-3: a shard and two gathered layers") \
    X(GRADIENTS, gradients, "gradients", "of every parameter; ZeRO-2, 3: a shard") \
    X(STATES, states, "optimizer", "master copy and two moments in fp32, 12 bytes; ZeRO: a shard") \
    X(ACTIVATIONS, activations, "activations", \
      "kept of every micro-batch in flight; recomputed layers keep their input") \
    X(LIVE, live, "live layer", "activations of the layer that is computed, and their gradients") \
    X(LOGITS, logits, "logits", \
      "of the last stage: 4 bytes with a fused loss, 10 with an fp32 copy and its gradient") \
    X(SLACK, slack, "allocator", "reserved but not allocated: fragmentation") \
    X(BUFFERS, buffers, "communication buffers", "buckets of gradients, buffers of collectives") \
    X(CONTEXT, context, "driver and libraries", "context of the device, code of kernels")
enum plan_held {
#define PLAN_HELD_ENUM(name, key, text, assumed) PLAN_HELD_##name,
    PLAN_HELD_MAP(PLAN_HELD_ENUM)
#undef PLAN_HELD_ENUM
        PLAN_HELDS
};
struct plan_held_words {
    const char *key, *text, *assumed;
};
struct plan_held_words plan_held_words(enum plan_held held);

/* Whether a plan fits: the share of such plans that run out of memory is known from the spread of
 * the model. MAY_NOT: within 5 % of the capacity. */
enum plan_fit { PLAN_FITS, PLAN_MAY_NOT_FIT, PLAN_DOES_NOT_FIT };
const char *plan_fit_text(enum plan_fit fit);

struct plan_memory {
    int64_t stage;            /* the stage that needs most */
    double bytes[PLAN_HELDS]; /* of a rank of that stage */
    double allocated, reserved, total;
    double needed;      /* total without the allocator's reserve, which it can give back */
    double capacity;    /* of the device; 0: not known */
    double probability; /* that it runs out of memory */
    double low, high;   /* of the total, 90 % */
    int64_t in_flight;  /* micro-batches whose activations are kept */
    enum plan_fit fit;
};

/* The memory of a rank of one stage. */
void plan_memory_stage(const struct plan_case *of, int64_t stage, struct plan_memory *out);
/* That of the stage that needs most. */
void plan_memory_of(const struct plan_case *of, struct plan_memory *out);
/* Micro-batches in flight on a stage, in layers' worth of activations per layer held: the
 * interleaved schedule keeps 1 + (p - 1) / (p v) times as many as 1F1B. */
double plan_in_flight(const struct plan_layout *layout, int64_t stage);
/* Bytes that one layer keeps of one micro-batch without recomputation (Korthikanti et al. 2022,
 * table 2, for any widths). */
double plan_layer_activations(const struct plan_case *of);

#endif
