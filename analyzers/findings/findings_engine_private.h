/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: what the files share that look for findings in steps that compute on the
 * processor. Every gain is a ceiling: what would be gained if the named work ran at a measured
 * roof.
 */
#ifndef ANALYZERS_FINDINGS_ENGINE_PRIVATE_H
#define ANALYZERS_FINDINGS_ENGINE_PRIVATE_H

#include "analyzers/findings/findings_private.h"
#include "analyzers/work/ceilings.h"

/* All calls of one payload in counted steps. */
struct an_engine_cost {
    int64_t calls, ns;
};

/* An op with FLOPs in a counted step, on a thread that runs steps. */
struct an_engine_found {
    uint32_t detail, step;
    int64_t ns;
};

struct an_engine {
    struct an_findings_list *findings;
    struct an_context *context;
    struct an_engine_found *found;
    size_t found_count;
    struct an_engine_cost *cost; /* of each detail */
    double *step_values;         /* room for a value of each step */
    /* Ranks of one machine: each has 1 / ranks of the machine's ceilings. */
    double ranks;
    double dram,
        fastest;   /* bytes/s of the memory and of the fastest level measured; 0: not known */
    double peak;   /* FLOP/s of fp32 instructions, 0: not known */
    bool libtrain; /* the program is the reference engine: settings can be named */
};

/* One call of an op in a counted step. */
struct an_engine_call {
    const struct an_detail *detail;
    size_t index, step; /* index: of the detail */
    double ns, bytes;   /* bytes: of its model */
};

/* Calls `visit` for every op with FLOPs on the threads that run steps. Parts of another op are not
 * visited. */
void an_engine_each(const struct an_engine *engine,
                    void (*visit)(void *ctx, const struct an_engine_call *call), void *ctx);

/* The time in ns that a call takes at least; less than its own time where there is something to
 * gain, NAN: the call is not looked at. */
typedef double (*an_engine_floor)(const struct an_engine *engine,
                                  const struct an_engine_call *call);
/* Share of the steps that goes away if every call took its floor; *removed_ms: of a step. */
struct an_class_share an_engine_gain(const struct an_engine *engine, an_engine_floor floor,
                                     double *removed_ms);

/* FLOP/s of the fastest product of a type on the machine's share of one rank, 0: not measured. */
double an_engine_roof(const struct an_engine *engine, const char *dtype);
bool an_engine_is_pass(const struct an_engine_call *call, const char *pass);

/* Findings about the size of the work (findings_batch.c). */
void an_engine_small_batch(struct an_engine *engine);
void an_engine_dimensions(struct an_engine *engine);
void an_engine_recompute(struct an_engine *engine);

#endif
