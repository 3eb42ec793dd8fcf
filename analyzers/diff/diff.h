/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: what comparing two runs needs and gives. docs/diff.md has
 * the method in words.
 *
 * Samples are what one run knows of each of its steps; an_analyze leaves them in result.samples
 * when an_options.samples is set, and they belong to that result. A difference is made of two
 * results and owns all its texts and arrays: both results may be freed before it.
 *
 * A value of a step is the mean over the ranks (and devices) that ran it, so a run of eight ranks
 * compares with one of four. Times are ms unless a name says otherwise; a difference is candidate -
 * baseline.
 */
#ifndef ANALYZERS_DIFF_H
#define ANALYZERS_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/result/result.h"

#define AN_DIFF_STEPS_LEAST 5 /* of each run, for a statement about significance */

/* name, key in JSON, heading for people */
#define AN_DIFF_KIND_MAP(X) \
    X(STEP, "step", "Step") \
    X(CLASS, "classes", "Classes") \
    X(LOADER, "loader", "Data wait") \
    X(RANK, "ranks", "Step of each rank and device") \
    X(OP, "operators", "Host operators, own time") \
    X(KERNEL, "kernels", "Device work")

enum an_diff_kind {
#define AN_DIFF_KIND_ENUM(name, key, text) AN_DIFF_##name,
    AN_DIFF_KIND_MAP(AN_DIFF_KIND_ENUM)
#undef AN_DIFF_KIND_ENUM
        AN_DIFF_KIND_COUNT
};

/* ---- one run --------------------------------------------------------------------------------- */

/* One name. */
struct an_sample {
    const char *name;
    enum an_diff_kind kind;
    enum an_class class;     /* where its time counts in the budget, as its name and place say */
    int64_t calls, total_ns; /* over the whole capture, all ranks */
    int64_t step_calls;      /* in the steps below */
    double step_ns;          /* their sum, of means over ranks */
    const double *ms; /* of each step (an_samples.detailed); NULL: not among the largest, of which
                         it is kept */
};

struct an_samples {
    size_t steps;            /* counted steps; those of several ranks with one index are one */
    const double *step_ms;   /* their durations, phases cut out */
    const int64_t *tokens;   /* of each, over all ranks; STORE_ABSENT: not known */
    const int64_t *samples;  /* the same of samples */
    size_t detailed;         /* of the counted, those with all their parts in the file */
    const uint32_t *step_of; /* index of each of them among the counted */
    const struct an_sample
        *rows; /* by kind, in it by time in steps (without steps: in the capture), largest first */
    size_t row_count;
    double capture_ms;      /* the span of the devices, without devices that of the whole run; NAN:
                               nothing was recorded */
    int64_t names_left_out; /* beyond the most rows that are kept; their time is in the classes all
                               the same */
};

/* ---- two runs -------------------------------------------------------------------------------- */

struct an_diff_row {
    const char *name;
    enum an_diff_kind kind;
    enum an_class class;
    bool in_good, in_bad,
        merged; /* merged: several names that are one without template arguments and addresses */
    double good,
        bad; /* median of a step; whole captures: total; 0 where the run does not have the name */
    double good_calls,
        bad_calls; /* mean of a step; whole captures: total; NAN: no count (classes, steps) */
    double delta, delta_pct; /* bad - good; per cent of the baseline's step (capture) */
    double low, high;        /* 95 % interval of delta; NAN: see an_diff.significance */
    double p;                /* adjusted (Holm); NAN: not tested */
    double floor; /* how much the median moved inside the runs themselves; NAN: not tested */
    bool significant;
};

struct an_diff_side {
    const char *file;
    int64_t steps, detailed;
    const char *source;     /* of the steps, NULL: none */
    double step;            /* median step; whole captures: the capture */
    double tokens_per_step; /* median; NAN: not known */
};

/* Runs with different numbers of ranks. Rates are medians over counted steps. */
struct an_scaling {
    const char *reason; /* why there is none; NULL: there is */
    int64_t good_ranks, bad_ranks;
    const char *of;   /* what is counted: "samples", "tokens" */
    const char *kind; /* "strong": the same global batch; "weak": the same of each rank; "mixed" */
    struct an_value good_batch, bad_batch; /* of a step, all ranks */
    struct an_value good_rate, bad_rate;   /* a second, all ranks */
    struct an_value speed_up;              /* bad_rate / good_rate */
    struct an_value efficiency, low, high; /* speed_up / (bad_ranks / good_ranks), 95 % interval */
    struct an_value lost_pct[AN_CLASS_COUNT]; /* of the candidate's rank time: what the class costs
                                                 more for a sample than in the baseline; they sum to
                                                 100 (1 - efficiency of the means) */
};

enum an_diff_unit { AN_DIFF_PER_STEP, AN_DIFF_PER_TOKENS, AN_DIFF_PER_SAMPLES, AN_DIFF_CAPTURE };

struct an_diff {
    struct an_diff_side good, bad;
    enum an_diff_unit unit;   /* of every number: a step; a step's worth of the baseline's tokens or
                                 samples;   the whole capture */
    bool per_work;            /* captures: the candidate's times are for the baseline's work */
    double unit_size;         /* how many tokens or samples that is; else NAN */
    const char *verdict;      /* one sentence */
    const char *significance; /* why nothing can be said about significance; NULL: it can */
    const char *note;     /* what the reader must know about the comparison (units, missing steps);
                             NULL: nothing */
    bool slower, differs; /* step: significantly slower; any row significant */
    struct an_diff_row step;
    const struct an_diff_row *rows; /* of each kind the largest differences, by |delta| */
    size_t row_count;
    size_t compared; /* names that were compared: what Holm corrects for */
    const struct an_diff_row *added, *removed; /* names that only one run has, by time */
    size_t added_count, removed_count, added_total, removed_total;
    struct an_scaling scaling;
    struct an_arena *arena; /* private: owns everything above */
};

/* `most`: rows of each kind at most, 0 = 10. Results must have samples. 0 or TACHO_ENOMEM; *out is
 * freed with an_diff_free. */
int an_diff_results(const struct an_result *good, const struct an_result *bad, int most,
                    struct an_diff **out);
void an_diff_free(struct an_diff *diff); /* NULL is fine */

const char *an_diff_kind_key(enum an_diff_kind k);
const char *an_diff_kind_text(enum an_diff_kind k);

#endif
