/* SPDX-License-Identifier: Apache-2.0
 *
 * Published runs as the truth: each row of a table is predicted and compared. Part of the public
 * header of planner/. The columns are those of docs/planner.md; a table of other columns is
 * refused, a row that says too little is kept with the reason.
 */
#ifndef PLANNER_CHECK_H
#define PLANNER_CHECK_H

#include "planner/memory/memory.h"
#include "planner/time/step.h"

#define PLAN_CELL 160

struct plan_row {
    char id[PLAN_CELL], source[PLAN_CELL], precision[16], memory_kind[PLAN_CELL];
    struct plan_case at;
    bool dense16;         /* dense, products of 16 bits: what the time constants were fitted to */
    bool chosen;          /* parts of the layout were not published and chosen here */
    const char *reason;   /* why there is no prediction; NULL: there is */
    double measured_s;    /* seconds of a step; NAN: not published */
    double measured_gib;  /* NAN: not published */
    bool out_of_memory;   /* what was published is that it does not fit */
    double printed_flops; /* FLOP/s of a device as printed; NAN */
    double ratio;         /* of the closed form of the source's convention to it; NAN */
    enum plan_convention convention;
    bool estimated; /* the source says that it printed 8 N T, N without embeddings */
    struct plan_time time;
    struct plan_memory memory;
    double memory_gib;         /* the predicted number of the kind that was published */
    size_t nearest;            /* row of the same source whose run is closest; itself: none */
    double run_distance;       /* how far that run is, in doublings of its settings */
    double run_spread;         /* standard deviation of ln(measured / predicted) near it */
    struct plan_time from_run; /* the prediction scaled by the runs near it */
};

/* Rows of one source, or of all: mean over rows, then over sources. */
struct plan_errors {
    const char *source; /* NULL: all */
    size_t rows, memory_rows, formula_rows;
    double error, run_error;       /* mean |ln(predicted / measured)| */
    double coverage, run_coverage; /* share of rows in the interval of 90 % */
    double width, run_width;       /* median of (high - low) / predicted */
    double memory_median, memory_p90;
    double formula_share; /* of rows that print FLOP/s: within 2 % of the closed form */
    int convention;       /* of the source, where it prints FLOP/s; else -1 */
};

/* Layouts that were published, by the predicted probability of running out of memory. */
#define PLAN_CHANCES 5
struct plan_chance {
    const char *words;
    double below;    /* probabilities from those of the entry before to this one */
    double expected; /* to run out: the sum of the probabilities */
    size_t rows, out_of_memory;
};

struct plan_check {
    struct plan_row *rows;
    size_t row_count;
    struct plan_errors *sources, all;
    size_t source_count;
    struct plan_chance chances[PLAN_CHANCES];
    size_t out_of_memory, out_of_memory_predicted, fitting, fitting_refused, above_peak;
};

/* Reads the table and predicts each row. Free with plan_check_free. TACHO_ENOTFOUND, TACHO_EIO,
 * TACHO_EFORMAT (not a table, a column is missing), TACHO_ENOMEM. */
int plan_check_file(const char *path, const struct plan_constants *constants,
                    struct plan_check *out, struct tacho_error *err);
void plan_check_free(struct plan_check *check);

#endif
