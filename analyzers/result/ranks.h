/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the result (result.h): the ranks of a run beside each other (docs/ranks.md). Ownership
 * and texts: as result.h says. All of it comes from the compared steps: those that every compared
 * rank has with all its parts.
 */
#ifndef ANALYZERS_RANKS_H
#define ANALYZERS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/result/value.h"

/* Stages of a step, in the order of the frontier: name, key. host: what a thread does between two
 * stages, outside of their ranges; other: what is left after the last one, and of a device what is
 * neither input, compute nor communication. */
#define AN_STAGE_MAP(X) \
    X(INPUT, "input") \
    X(HOST, "host") \
    X(FORWARD, "forward") \
    X(COMPUTE, "compute") /* of a device, where launches do not tell forward from backward */ \
    X(BACKWARD, "backward") \
    X(COMM, "communication") \
    X(OPTIMIZER, "optimizer") \
    X(OTHER, "other")
enum an_step_stage {
#define AN_STAGE_ENUM(name, key) AN_STAGE_##name,
    AN_STAGE_MAP(AN_STAGE_ENUM)
#undef AN_STAGE_ENUM
        AN_STAGE_COUNT
};
const char *an_stage_key(enum an_step_stage stage);
/* The stage of that key; false: there is none, *out is AN_STAGE_COUNT. */
bool an_stage_named(const char *key, enum an_step_stage *out);

/* The mean of the counted steps of all ranks; the times sum to the step without its phases. Of a
 * device what is neither input, compute nor communication is `other`. */
struct an_stages {
    const char *reason; /* why the stages are not known, NULL: they are */
    struct an_value ms[AN_STAGE_COUNT];
};

/* One rank; times are means of a step. */
struct an_rank_row {
    int64_t rank;
    const char *device; /* "tpu:3" where the rank drives several, else NULL */
    const char *host;
    int64_t steps; /* compared */
    struct an_value step_ms, own_ms, waiting_ms, transfer_ms, input_ms, compute_ms;
    struct an_value stage_ms[AN_STAGE_COUNT];
    struct an_value tokens_per_step, samples_per_step;
    struct an_value all_to_all_bytes; /* a step */
    /* Median over steps of 100 (own time / median of the peers' - 1); the bounds are simultaneous
     * over all ranks, 95 % */
    struct an_value excess_pct, excess_low_pct, excess_high_pct;
    const char *verdict; /* "straggler", "the slower of two", "none", "not compared: why" */
};

struct an_straggler {
    const char *reason; /* why it cannot be tested, NULL: it was tested */
    size_t count;       /* ranks that are one; 0: "none" */
    int64_t rank;       /* of these the slowest */
    const char *says;   /* "rank 3", "rank 1 (the slower of two)", "none" */
    struct an_value excess_pct, excess_low_pct, excess_high_pct;
    /* More samples/s if these ranks' own time were no longer than that of the others: 95 % interval
     */
    struct an_value gain_low_pct, gain_pct, gain_high_pct;
    bool by_data; /* most of its excess is data: it gets more tokens or samples */
};

/* More samples/s, per cent, 90 % over steps. */
struct an_gain_pct {
    struct an_value low, expected, high;
};

/* Rank jitter: mean over steps of (max - median over ranks) of own time, of the group of ranks with
 * the same work in which it is largest. */
struct an_jitter {
    const char *reason;       /* why it is not known, NULL: it is */
    int64_t rank, ranks;      /* lowest rank of the group, and how many it has */
    struct an_value ms, pct;  /* a step; per cent of the step */
    enum an_step_stage stage; /* where the longest rank exceeds the median most; COUNT: none */
    const char *cause; /* "batch tokens", "run-queue wait", "collector": what coincides; NULL */
    struct an_value correlation; /* of it with own time, over ranks and steps */
    struct an_gain_pct gain;     /* if the longest rank took the median */
};

/* F_s = longest cumulative time of any rank at the end of stage s, mean over steps. */
struct an_frontier_row {
    enum an_step_stage stage;
    double frontier_ms, increment_ms; /* increments sum to the slowest rank's step */
    double behind_ms;                 /* frontier - median rank */
    int64_t rank;                     /* that is at the frontier most often */
    double lead_pct;                  /* of the steps */
};
struct an_frontier {
    const char *reason;
    const struct an_frontier_row *row;
    size_t row_count;
    int64_t increment_ns[AN_STAGE_COUNT], slowest_ns; /* sums over steps: exact */
    /* Where the delay first appears: the first stage in which a rank takes longer than its peers;
     * stage AN_STAGE_COUNT: none */
    enum an_step_stage stage;
    int64_t rank;
    struct an_value delay_ms, delay_pct,
        delay_low_pct; /* of the step; low: simultaneous over ranks and stages, 95 % */
};

struct an_clock_row {
    int64_t rank;
    const char *host,
        *how; /* "reference", "the same clock", "matched collectives", "nothing in common" ... */
    struct an_value drift_error_ppm;
    struct an_value offset_ns, drift_ppm; /* its time = reference + offset + drift x (t - pivot) */
    struct an_value error_ns;             /* that the times in this report may still be off by */
    struct an_value offset_low_ns, offset_high_ns;
    int64_t matched; /* collectives that the fit uses */
    bool corrected;  /* the times of this report are, by it */
};
struct an_clocks {
    const char *reason;
    struct an_value error_ns; /* the largest of all ranks: what is below is no skew */
    const struct an_clock_row *row;
    size_t row_count;
};

struct an_pipeline {
    const char *reason;
    int64_t stages, micro_batches;
    struct an_value bubble_ms,
        bubble_pct;            /* of a step, mean over ranks: exposed waiting in send and recv */
    struct an_value ideal_pct; /* 100 (p - 1) / (m + p - 1) */
};

/* The steps of a pipeline replayed operation by operation, without the time between operations
 * (docs/ranks.md, "Even stages"). Times are means of a step. */
struct an_even {
    const char *reason; /* why nothing was replayed; NULL: it was */
    int64_t steps, stage_count;
    struct an_value recorded_ms;    /* every operation as recorded */
    struct an_value ideal_ms;       /* every operation takes the mean of its name */
    struct an_value stages_even_ms; /* the work of every stage scaled to the mean of its name */
    int64_t stage;                  /* whose work takes longest, from 0 by rank; its lowest lane */
    uint32_t stage_lane;
    struct an_value stage_excess_pct; /* its work above the mean of the stages */
    /* What goes of recorded - ideal when this stage alone takes the usual times */
    struct an_value stage_share_pct;
    struct an_gain_pct slow_stage;      /* ... as a gain */
    struct an_gain_pct stages, batches; /* of even stages; of even micro-batches on top of it */
    /* Of the times of different stages for the same micro-batch */
    struct an_value batch_correlation;
    int64_t rank; /* of that stage in the replica that alone makes the ideal step longest */
    struct an_value rank_pct; /* by so much */
};

struct an_experts {
    const char *reason;
    struct an_value max_over_mean, bytes_mean, bytes_max; /* bytes of all-to-all, a rank and step */
    int64_t rank;                                         /* that moves most */
};

struct an_uneven {
    const char *reason;
    const char *what;                              /* "tokens", "samples" */
    struct an_value max_over_mean, mean, max, min; /* a step and rank */
    int64_t rank;                                  /* that gets most */
    bool found;                                    /* it differs by more than 2 % */
};

struct an_ranks {
    const char *reason; /* why ranks are not compared; NULL when they are */
    int64_t steps;      /* compared */
    const char *own_is; /* what own time is: "step - waiting for other ranks" ... */
    const char *missing;
    const struct an_rank_row *row; /* by rank */
    size_t row_count;
    struct an_straggler straggler;
    struct an_frontier frontier;
    struct an_clocks clocks; /* there also where ranks are not compared */
    struct an_pipeline pipeline;
    struct an_even even;
    struct an_jitter jitter;
    struct an_experts experts;
    struct an_uneven uneven;
};
/* The rank that holds the others back; -1: none does, or it was not tested. */
static inline int64_t an_straggler_rank(const struct an_ranks *ranks)
{
    return !ranks->reason && !ranks->straggler.reason && ranks->straggler.count
               ? ranks->straggler.rank
               : -1;
}

#endif
