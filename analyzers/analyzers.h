/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: from a file to a result. Renderers and the dashboard read
 * the result (result.h), they never see the file.
 *
 *     struct an_options o = {.file = "run.tacho"};
 *     struct an_result *r;
 *     rc = an_analyze(reader, &o, &r, &err);
 *     ...
 *     an_result_free(r);
 *
 * What a run does not hold makes the result that needs it absent with the reason; it is not an
 * error. Errors are: out of memory, and a file that cannot be read (0 or a negative TACHO_E* code).
 * A live file may be analysed: the result describes what was committed when each table was read.
 */
#ifndef ANALYZERS_ANALYZERS_H
#define ANALYZERS_ANALYZERS_H

#include "analyzers/result/result.h"
#include "store/store.h"
#include "tacho_error.h"

struct an_options {
    const char
        *file; /* name of the run as the user gave it, for the header of the report; NULL = "" */
    bool live; /* the run's collector is alive */
    double peak_flops;   /* --peak: FLOP/s of one device; 0 = the file's ceilings */
    const char *classes; /* text of the user's own table of kernel classes (classes.h), read before
                            the built-in one; or NULL */
    enum an_compat compat; /* fill result.compat too */
    bool path;       /* keep the stretches of the critical path in result.critical_path.rows */
    bool samples;    /* keep values of each step in result.samples, for an_diff_results (diff.h) */
    bool some_steps; /* --steps: only these count in statistics, first and last of the run among
                        them */
    int64_t step_from, step_to; /* by index, both included */
    double price_per_kwh;  /* --price-kwh, for energy.cost in the user's money; 0 = not given */
    int64_t part_slices;   /* > 0: only the newest part of the run, about so many slices
                              (trace_part.h); run.window says which */
    int64_t part_until;    /* ... that ends at this time, ns; 0: at the end of the run */
    const char *what_if;   /* --what-if: edits of the dependency graph that an_edits_parse takes
                              (what_if.h); or NULL */
    double flops_per_step; /* --flops-per-step: model FLOPs of one step over all ranks; 0 = the
                              payloads' */
};

/* Loads the run and runs every analyzer. `o` may be NULL. *out is NULL on error. */
int an_analyze(store_reader *r, const struct an_options *options, struct an_result **out,
               struct tacho_error *err);
/* NULL is fine. */
void an_result_free(struct an_result *result);

/* The analyzers, in the order they run: for `tacho help analyzers` and docs. Static storage, ends
 * with name NULL. */
struct an_listing {
    const char *name, *help;
};
const struct an_listing *an_list(void);

#endif
