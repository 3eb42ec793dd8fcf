/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: how ranks are compared (docs/ranks.md). ranks.c lays the steps of all
 * ranks side by side; straggler.c has the test; stages.c the stages of a step; pipeline.c sends,
 * receives and all-to-all.
 */
#ifndef ANALYZERS_RANKS_COMPARE_H
#define ANALYZERS_RANKS_COMPARE_H

#include "analyzers/collectives/communication.h"
#include "analyzers/steps/context.h"

#define AN_RANKS_MARGIN_PCT  2.0 /* an excess below it is no straggler (docs/definitions.md) */
#define AN_RANKS_STEPS_LEAST 20
/* Ranks x steps that are looked at: of more steps every n-th. */
#define AN_RANKS_CELLS_MOST (1u << 22)

/* ---- the test (straggler.c): knows nothing of traces ------------------------------------------------------------------------ */

struct an_excess {
    double estimate, low, high; /* median over steps; bounds hold for all rows together with 95 % */
    double p;                   /* that it is at most the limit of the bound */
    bool significant;           /* Holm over the rows, 5 %: it is above that limit */
};

/* What a row has to exceed, %: its median, and the lower bound of it (at most the median's). */
struct an_excess_limits {
    double median, bound;
};

/* y[row * steps + s]: per cent by which a row is above its peers in step s, NAN-free. Block
 * bootstrap of the median over steps: circular blocks of consecutive steps (n^(1/3) and more where
 * neighbours correlate), so that slow periods stay together; and Student's t of the medians of five
 * to eight segments of the run, for slow periods that are longer than a block. A row has to pass
 * both. Rows whose median is not above its limit are not resampled. 0 or TACHO_ENOMEM. rows, steps
 * >= 1. */
int an_excess_test(const double *excess_pct, size_t rows, size_t steps,
                   const struct an_excess_limits *limits, uint64_t seed, struct an_excess *out);

/* Is an excess steady? What slows all ranks for a while can slow one of them as long. So an excess
 * only counts if it is in every segment of the run, or larger than the drift of the peers' own time
 * from segment to segment (1.4826 times the median deviation of the segments' medians). own,
 * excess_pct: one row; work: room for 2 * steps values. True with fewer than 10 steps. */
bool an_excess_is_steady(const double *own, const double *excess_pct, size_t steps, double margin,
                         double estimate, double *work);

/* y = 100 (x / median of the others in the same step - 1); with scale (one value a step) 100 (x -
 * median of the others) / scale. x[rank * steps + s] in any unit, x > 0 without scale. ranks >= 2.
 * 0 or TACHO_ENOMEM. */
int an_excess_of_peers(const double *values, size_t ranks, size_t steps, const double *scale,
                       double *excess_pct);

/* ---- the steps side by side (ranks.c) ----------------------------------------------------------------------------------------- */

struct an_rank_matrix {
    size_t ranks, steps;
    uint32_t *lane;                /* of a row; rows are ordered by rank */
    size_t *step;                  /* [row * steps + column]: index into an_context.step */
    double *own;                   /* the same: ms without waiting */
    double *stage[AN_STAGE_COUNT]; /* the same: ns, integers; they sum to the step (stages.c) */
    bool split;                    /* waiting is known in all of these steps */
};

/* Rank jitter, from the matrix with its stages (jitter.c). 0 or TACHO_ENOMEM. */
int an_ranks_jitter(struct an_context *context, const struct an_rank_matrix *matrix);
void an_ranks_no_jitter(struct an_jitter *out, const char *reason);

int an_ranks_frontier(struct an_context *context, struct an_rank_matrix *matrix);

/* ---- stages (stages.c) -------------------------------------------------------------------------------------------------------- */

struct an_stage_map {
    struct an_context *context;
    uint8_t *name; /* enum an_step_stage of every string */
};
struct an_stage_span {
    int64_t start, end;
    enum an_step_stage stage;
};
/* What names say of stages. Memory from the work arena. 0 or TACHO_ENOMEM. */
int an_stage_map_of(struct an_context *context, struct an_stage_map *out);
/* Appends the stages of a step on its lane's thread, which cover it without holes, to *at
 * (malloc'ed; the caller frees it). 0 or TACHO_ENOMEM. */
int an_stage_spans(const struct an_stage_map *map, const struct an_step *step,
                   struct an_stage_span **covered, size_t *count, size_t *room);
/* Room for the spans of a step; the caller frees `span` after the last one. */
struct an_stage_work {
    struct an_stage_span *span;
    size_t room;
};
/* The time of every stage of a step, without the phases in it; they sum to the step. 0 or
 * TACHO_ENOMEM. */
int an_stage_times(const struct an_stage_map *map, const struct an_step *step,
                   struct an_stage_work *work, int64_t ns[AN_STAGE_COUNT]);
/* Stage of a compute op of the lane's device by what launched it; AN_STAGE_COMPUTE: it is not
 * known.
 */
enum an_step_stage an_stage_of_op(const struct an_stage_map *map, const struct an_lane *lane,
                                  size_t op);

/* What communication leaves for the comparison (an_context.exchanges). */
struct an_exchanges {
    uint32_t *peers;    /* of a lane: lowest lane whose ranks do the same as it (a stage of a
                           pipeline); NULL: all are peers */
    uint32_t *replica;  /* of a lane: lowest lane of its pipeline; NULL: no pipeline */
    double *all_to_all; /* bytes a lane moves in it a step; NAN: none */
};

/* Pipeline and experts, from all calls in the order of an_comm_find. 0 or TACHO_ENOMEM. */
int an_ranks_exchanges(struct an_context *context, const struct an_comm_calls *calls);
/* What even stages, ranks and micro-batches of a pipeline would bring (even.c); after
 * an_ranks_exchanges. 0 or TACHO_ENOMEM. */
int an_ranks_even(struct an_context *context, const struct an_comm_calls *calls);
void an_ranks_no_even(struct an_even *out, const char *reason);
void an_ranks_no_exchanges(struct an_context *context, const char *reason);

/* ---- cost of communication (communication.c) -------------------------------------------------------------------------------- */

/* Why transfer and waiting of device collectives are absent. */
#define AN_COMM_SPINS \
    "communication kernels spin while they wait: one device does not show which " \
    "part of them is transfer"

/* Fills the list of collectives, one row for every kind on every communicator, from the calls of
 * detailed steps (without steps: from all), and sorts the calls by name. 0 or TACHO_ENOMEM. */
int an_comm_collectives(struct an_context *context, struct an_comm_calls *calls);
/* The same from the communication kernels of the devices. 0 or TACHO_ENOMEM. */
int an_comm_list_kernels(struct an_context *context);

/* The cost of communication on devices, as far as one device alone shows it. 0 or TACHO_ENOMEM. */
int an_comm_device(struct an_context *context);

/* Several ranks with devices: transfer and waiting of the collectives in the list. */
void an_comm_device_split(struct an_context *context, const struct an_comm_calls *calls);

/* Who sends to whom, from all calls in the order of an_comm_find (traffic.c). 0 or TACHO_ENOMEM. */
int an_ranks_traffic(struct an_context *context, const struct an_comm_calls *calls);

/* Every value that is not set yet becomes absent. */
void an_comm_rest_absent(struct an_communication *communication, const char *reason);

/* The ranks of the job that are not in the file, in words with what to do
 * (communication_missing.c); NULL: all are there, or their number is not known. In the result's
 * arena. */
const char *an_comm_missing(struct an_context *context, const struct an_comm_calls *calls);

#endif
