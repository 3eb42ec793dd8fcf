/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/: where a step is cut to count its ranges one by one. The ranges are
 * those that the thread of the step pushes and pops inside it. The step is cut at each push and
 * pop, so a piece lies in one range and in none inside that: pieces add up, and one pass of the
 * counters serves all levels.
 *
 * A counting pass is a step, so the steps must have the same ranges: a plan is made of one step and
 * held against the others. What a step has beyond its plan (a garbage collection) belongs to the
 * piece around it; what it lacks spoils the pass. Depends on nothing of the agent.
 */
#ifndef TACHO_AGENT_GPU_PLAN_H
#define TACHO_AGENT_GPU_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_PLAN_PIECES 256u
#define GPU_PLAN_EVENTS (GPU_PLAN_PIECES - 1)
#define GPU_PLAN_DEPTH  32u /* open ranges that are followed; the step is not cut at deeper ones */

#pragma GCC visibility push(hidden)

struct gpu_plan_event {
    uint32_t name; /* arena id */
    uint16_t domain;
    uint8_t level; /* 1: directly in the step */
    bool push;
};
struct gpu_plan {
    struct gpu_plan_event event[GPU_PLAN_EVENTS]; /* of ranges down to `levels`, in order */
    size_t events;
    unsigned levels; /* the deepest of which all fit; 0: not even the first one */
    struct {
        uint32_t name;
        uint16_t domain;
        uint8_t level; /* at which it was opened */
        bool chosen;   /* the step is cut at its ends */
    } open[GPU_PLAN_DEPTH];
    unsigned opened, deeper;
    size_t next; /* event that is expected */
    bool spoilt;
};

/* Forgets all: a step begins that a plan is to be made of. */
void gpu_plan_clear(struct gpu_plan *plan);
/* A push or pop of that step. A pop without a push belongs to a range from before the step. */
void gpu_plan_see(struct gpu_plan *plan, bool push, uint16_t domain, uint32_t name);
/* The step is over: 1 + the number of cuts; 1: there is nothing to cut at. */
size_t gpu_plan_pieces(const struct gpu_plan *plan);

/* A pass begins, in piece 0. */
void gpu_plan_begin(struct gpu_plan *plan);
/* A push or pop in it: the piece that begins there, or -1: no cut. */
int gpu_plan_cut(struct gpu_plan *plan, bool push, uint16_t domain, uint32_t name);
/* The pass is over: did it have all that is planned? */
bool gpu_plan_kept(const struct gpu_plan *plan);

/* Names of the ranges around a piece, outermost first. Returns how many; 0: in none. */
size_t gpu_plan_path(const struct gpu_plan *plan, size_t piece, uint32_t name[GPU_PLAN_DEPTH]);

#pragma GCC visibility pop

#endif
