/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between the files of `utilization`.
 */
#ifndef ANALYZERS_UTILIZATION_PRIVATE_H
#define ANALYZERS_UTILIZATION_PRIVATE_H

#include "analyzers/work/attribution_private.h"
#include "analyzers/work/ceilings.h"

#define AN_FLOPS_DTYPES 16

struct an_flops {
    int64_t model, hardware, palm, again; /* again: of the hardware FLOPs, those of recomputation */
};

/* Products of one payload in counted steps. */
struct an_flops_rate {
    int64_t calls, flops, ns;
};

/* What one lane executed in its detailed steps. */
struct an_lane_flops {
    struct an_flops total, by_dtype[AN_FLOPS_DTYPES];
    struct an_flops each; /* of every step, as long as they agree */
    bool vary, any;
    int64_t steps, ns;
};

struct an_flops_gather {
    struct an_context *context;
    struct an_lane_flops *lane;
    struct an_flops *step; /* parallel to an_context.step */
    const char *dtype[AN_FLOPS_DTYPES];
    size_t dtypes;
    size_t *first_lane;      /* of each process */
    size_t *first_on_device; /* the first lane on the device of each lane */
    int64_t works, known;    /* ranges or calls that do work; those with FLOPs of any kind */
    int64_t hardware;        /* products */
    int64_t model_missing, palm_missing;
    double covered_ns, hardware_ns;
    struct an_flops_rate *rate; /* of each detail; NULL: of calls */
    /* GEMMs in backward of which the trace does not say whether they run for the second time. */
    int64_t unclear;
    bool *has_flops;  /* of each name: a range of it has FLOPs */
    uint32_t counted; /* the name of what carries the FLOPs of the pass before it; AN_NONE: none */
    bool mixed;       /* fp32 operands may have run as tf32 */
};

/* Adds a value, saturating; STORE_ABSENT adds nothing. */
static inline void an_flops_add(int64_t *sum, int64_t value)
{
    if (value != STORE_ABSENT)
        *sum = an_time_add(*sum, value);
}
static inline void an_flops_add_all(struct an_flops *sum, const struct an_flops *part)
{
    an_flops_add(&sum->model, part->model);
    an_flops_add(&sum->hardware, part->hardware);
    an_flops_add(&sum->palm, part->palm);
    an_flops_add(&sum->again, part->again);
}

/* Place of a type in by_dtype; types beyond the last place share it. */
size_t an_flops_dtype(struct an_flops_gather *gather, const char *dtype);
/* The accelerator of a lane, NULL: it has none. */
const struct an_device *an_flops_gpu(const struct an_context *context, const struct an_lane *lane);
/* Device of a lane, as ceilings name it. */
const char *an_flops_device(const struct an_context *context, const struct an_lane *lane);
/* The share of a peak that work reaches which would take `at_peak_s` at it: absent when `missing`
 * says why, or when it is impossible, which is reported as a problem. */
struct an_value an_flops_share(struct an_context *context, const char *name, double device_s,
                               double at_peak_s, const char *missing);
/* mfu_measured: the share of what the GEMMs of the library reach at most on this machine
 * (utilization_roof.c). missing: why the FLOPs are not good enough, or NULL. */
void an_flops_roof(struct an_flops_gather *gather, double device_s, size_t devices,
                   const char *missing);
void an_flops_roof_absent(struct an_context *context, const char *reason);
/* FLOPs of the ranges with a tacho.work payload in counted steps, and how much of the time of
 * matrix work they cover. 0 or TACHO_ENOMEM. */
int an_flops_of_ranges(struct an_flops_gather *gather);
/* FLOPs of what was captured into graphs, at each launch of the graph in a counted step. counted:
 * the time of matrix work of these launches is in hardware_ns already. */
void an_flops_of_replays(struct an_flops_gather *gather, bool counted);
/* FLOPs of the calls in counted steps, and how much of the matrix and attention kernels' time they
 * cover. Needs an_context.calls. */
void an_flops_of_calls(struct an_flops_gather *gather);
/* The operators that ran and that no convention of FLOPs counts, as the hook names them. 0 or
 * TACHO_ENOMEM. */
int an_flops_uncounted(struct an_context *context);
/* Type that nearly all (95 %) of the time of matrix and attention kernels ran in, by the kernels'
 * names; NULL: none, or several.
 */
const char *an_flops_kernel_dtype(const struct an_context *context);

#endif
