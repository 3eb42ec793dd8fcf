/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to step_source.c, step_kernels.c, step_device.c: steps on their way from a source to
 * lanes.
 */
#ifndef ANALYZERS_STEP_PRIVATE_H
#define ANALYZERS_STEP_PRIVATE_H

#include "analyzers/steps/context.h"

/* NAME_MARKED: matches the expression with which the user names the steps. */
enum name_kind { NAME_OTHER, NAME_PROFILER_STEP, NAME_OPTIMIZER, NAME_WORD, NAME_MARKED };

struct found_step {
    struct an_step step;
    uint32_t process, track;
};

struct finder {
    struct an_context *context;
    struct found_step *found;
    size_t count, room;
    uint8_t *kind; /* enum name_kind of every string */
};

/* A found step without a range, of which neither tokens nor samples are known. */
static inline struct found_step found_step_of(uint32_t process, uint32_t track, int64_t index,
                                              int64_t start, int64_t end)
{
    return (struct found_step){.step = {.slice = AN_NONE,
                                        .index = index,
                                        .start = start,
                                        .end = end,
                                        .tokens = STORE_ABSENT,
                                        .samples = STORE_ABSENT},
                               .process = process,
                               .track = track};
}
/* Appends a step to the list (step_found.c). 0 or TACHO_ENOMEM. */
int an_found_add(struct finder *finder, struct found_step found_step);
/* Sorts the found steps by process, thread and start, and fills the steps and lanes of the context
 * with them: one lane for each thread. 0 or TACHO_ENOMEM. */
int an_found_lanes(struct finder *finder);

/* From the groups of optimizer kernels (step_kernels.c). *source says what was found; stays NULL
 * where nothing was. Sets the confidence of the result's steps. */
int an_steps_of_kernels(struct finder *finder, const char **source);
/* The same from the groups of kernels whose names are NAME_MARKED. */
int an_steps_of_marked_kernels(struct finder *finder);
/* The expression with which the user names the steps, of the options, else of the run; NULL: none
 * (step_marker.c). */
const char *an_step_marker(const struct an_context *context);
/* Fills finder->kind: NAME_MARKED for the names that match; an invalid expression matches nothing
 * (step_marker.c). 0 or TACHO_ENOMEM. */
int an_step_marker_names(struct finder *finder, const char *marker);
/* ProfilerSteps of which only every m-th holds an optimizer update are micro-steps: makes one step
 * of m (step_kernels.c). */
void an_steps_accumulate(struct finder *finder);
/* Puts the lanes of processes with accelerators on their devices (step_device.c). 0 or
 * TACHO_ENOMEM. */
int an_steps_project(struct an_context *context);
/* Micro-steps of a step by the hook of PyTorch, in a counter that is written when their number
 * changes: the last value; 0: it has none (micro_steps.c). */
int64_t an_hooked_micro_steps(const struct an_trace *trace);
/* Fills in the samples and tokens of steps that declare none, by the hook's counters
 * (micro_steps.c). */
void an_hooked_amounts(struct an_context *context);

#endif
