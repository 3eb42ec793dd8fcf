/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to planner/: the fitted constants of the model, in one table. Everything else in the
 * planner follows from shapes, data sheets and closed forms.
 *
 * How the values were found: planner/fit/refit.py minimises the mean of ln(predicted / measured)^2
 * over the dense fp16 and bf16 rows of the table of published runs, each source with the same
 * weight, with a pull towards the start value, which was set from data sheets and kernel benchmarks
 * before the fit (the next column is the standard deviation of that pull, in ln; 0: not fitted).
 * The same script refits with one source left out at a time, which is where the errors in
 * docs/planner.md come from, and fits the memory constants with one layout set left out.
 */
#ifndef PLANNER_CONSTANTS_H
#define PLANNER_CONSTANTS_H

#include "tacho_error.h"

/* name, value, start value, standard deviation of the pull, meaning */
#define PLAN_CONSTANT_MAP(X) \
    X(gemm_volta, 0.6, 0.60, 0.2, "share of the peak that a large aligned GEMM reaches: Volta") \
    X(gemm_ampere, 0.7399, 0.80, 0.2, "the same: Ampere, Ada") \
    X(gemm_hopper, 0.7188, 0.70, 0.2, "the same: Hopper") \
    X(gemm_blackwell, 0.7, 0.70, 0.2, "the same: Blackwell") \
    X(gemm_other, 0.6982, 0.60, 0.2, "the same: every other family") \
    X(gemm_low, 0.75, 0.75, 0.2, "of that, what GEMMs of eight or four bits reach") \
    X(gemm_inner, 111.7, 128, 0.5, "inner length of a GEMM that costs as much again in start-up") \
    X(gemm_align, 0.8253, 0.90, 0.1, "efficiency per halving of the alignment below 64 elements") \
    X(gemm_odd, 0.327, 0.35, 0.3, "further, where eight elements do not divide the dimension") \
    X(flash, 0.6616, 0.62, 0.25, "of the efficiency of GEMMs, what fused attention reaches") \
    X(flash_hopper, 0.397, 0.50, 0.25, "the same on Hopper and Blackwell") \
    X(softmax_bytes, 10.66, 12, 0.4, "bytes per score of attention that is not fused, forward") \
    X(element, 0.9324, 1.0, 0.3, "traffic of element-wise kernels, in units of the closed form") \
    X(launch, 5.747e-05, 6e-5, 0.7, "seconds per layer and micro-batch that no kernel fills") \
    /* 370 of 450 GB/s by NVIDIA/nccl-tests#212, 208 of 300 by #178 */ \
    X(link, 0.8037, 0.78, 0.1, "share of the link that collectives inside a node reach") \
    X(network, 0.7824, 0.70, 0.3, \
      "share of the network card that collectives between nodes reach") \
    X(tensor_exposed, 0.6921, 0.9, 0.3, "share of tensor-parallel communication that is exposed") \
    X(data_exposed, 0.2376, 0.15, 0.7, \
      "share of overlapped data-parallel communication that is exposed") \
    X(stage_exposed, 0.5404, 0.5, 0.7, "share of sends between stages that is exposed") \
    X(scale, 0.008086, 0.01, 0.7, "growth of a step per doubling of nodes") \
    X(fixed, 0.009456, 0.01, 0.7, "seconds per step outside of kernels") \
    X(spread_between, 0.15, 0.15, 0, \
      "standard deviation of ln(measured / predicted) between sources") \
    X(spread_within, 0.09, 0.09, 0, "the same within a source") \
    X(spread_run, 0.02, 0.02, 0, "the same scaled from the nearest run of a source") \
    X(spread_run_far, 0.015, 0.015, 0, "growth of that per doubling of a setting from that run") \
    X(engine_call, 1.5e-5, 1.5e-5, 0, \
      "seconds of a GEMM of the reference engine on a processor that its FLOPs do not explain") \
    X(spread_engine, 0.10, 0.10, 0, \
      "instead of spread_run, of the reference engine on a processor") \
    X(spread_run_near, 0.25, 0.25, 0, "share of the spread near that run that passes on") \
    X(memory_live, 1.545, 1.3, 0.3, "live activations of one layer, in units of the closed form") \
    X(memory_slack, 1.149, 1.06, 0.05, "reserved over allocated: fragmentation of the allocator") \
    X(memory_buffers, 5.709, 3.0, 0.4, "GB of communication buckets and of collectives' buffers") \
    X(memory_context, 1.42, 1.2, 0.4, "GB that the driver and its libraries take") \
    X(memory_spread, 0.07, 0.07, 0, "standard deviation of ln(measured / predicted) of memory") \
    /* 1 of 359 layouts in the table of published runs */ \
    X(memory_unknown, 0.003, 0.003, 0, "share of runs that run out whatever they need") \
    X(memory_spread_engine, 0.03, 0.03, 0, "the same, of the reference engine on a processor")

struct plan_constants {
#define PLAN_CONSTANT_MEMBER(name, value, start, pull, text) double name;
    PLAN_CONSTANT_MAP(PLAN_CONSTANT_MEMBER)
#undef PLAN_CONSTANT_MEMBER
};

extern const struct plan_constants plan_constants_fitted;

/* One row of the table, for listings. */
struct plan_constant_row {
    const char *name;
    double value, pull;
    const char *text;
};
/* Row `index` with the value in `of`; name NULL behind the last. */
struct plan_constant_row plan_constant_at(const struct plan_constants *of, int index);

/* Replaces constants by the lines "name value" of a file. TACHO_ENOTFOUND, TACHO_EIO,
 * TACHO_EFORMAT (an unknown name, no positive number). */
int plan_constants_read(struct plan_constants *constants, const char *path,
                        struct tacho_error *err);

#endif
