/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of analyzers/: what the user can ask of an analysis.
 */
#ifndef ANALYZERS_OPTIONS_H
#define ANALYZERS_OPTIONS_H

#include "analyzers/result/result.h"

/* A ceiling of a machine, measured apart from the recording: a row of the table `ceiling`. */
struct an_measured_ceiling {
    const char *resource, *dtype, *source;
    double value;
};
/* What `tacho calibrate` measured on a machine, for runs that were recorded there earlier. */
struct an_calibration {
    const char *cpu; /* its model */
    int64_t cores;   /* usable ones */
    const struct an_measured_ceiling *rows;
    size_t row_count;
};

struct an_options {
    const char
        *file; /* name of the run as the user gave it, for the header of the report; NULL = "" */
    bool live; /* the run's collector is alive */
    double peak_flops;   /* --peak: FLOP/s of one device; 0 = the file's ceilings */
    const char *classes; /* text of the user's own table of kernel classes (classes.h), read before
                            the built-in one; or NULL */
    enum an_compat compat; /* fill result.compat too */
    bool path;             /* keep the segments of the critical path in result.critical_path.rows */
    bool dataflow;         /* keep the operators of a step and their edges in result.dataflow */
    bool samples;    /* keep values of each step in result.samples, for an_diff_results (diff.h) */
    bool events;     /* keep the events of a timeline that can be zoomed in result.events */
    bool some_steps; /* --steps: only these count in statistics, first and last of the run among
                        them */
    int64_t step_from, step_to; /* by index, both included */
    double price_per_kwh; /* --price-kwh, for energy.cost in the user's money; 0 = not given */
    int64_t part_slices;  /* > 0: only the newest part of the run, about so many slices
                             (trace_part.h); run.window says which */
    int64_t part_until;   /* ... that ends at this time, ns; 0: at the end of the run */
    const char *what_if;  /* --what-if: edits of the dependency graph that an_edits_parse takes
                             (what_if.h); or NULL */
    const struct an_calibration *calibration; /* used where the run is of that machine and its file
                                                 lacks a row; or NULL */
    const char *step_marker; /* --step-marker: regular expression (extended) for the ranges or
                                kernels that mark steps; NULL: the run key steps.marker, else what
                                the trace shows */
    double mtbf_hours;       /* --mtbf: mean time between failures of the job, for the interval of
                                checkpoints; 0 = not given */
    const char *mtbf_source; /* from where that is known, if not from the user; or NULL */
    double flops_per_step;   /* --flops-per-step: model FLOPs of one step over all ranks; 0 = the
                                payloads' */
    struct an_arena *into;   /* of an_room_fill() alone: where the result is put, and left after an
                                error; NULL: it has memory of its own */
};

#endif
