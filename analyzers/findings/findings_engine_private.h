/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: between the files that look for findings in steps that compute on the
 * processor. Every gain is a ceiling: what would be gained if the work that is named ran at a
 * measured roof.
 */
#ifndef ANALYZERS_FINDINGS_ENGINE_PRIVATE_H
#define ANALYZERS_FINDINGS_ENGINE_PRIVATE_H

#include "analyzers/findings/findings_private.h"
#include "analyzers/work/ceilings.h"

#define ENGINE_CEILING "a ceiling has no expected value: nothing was replayed"

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
    size_t calls;
    struct an_engine_cost *cost; /* of each detail */
    double *x;                   /* room for a value of each step */
    double share; /* ranks that share a machine: each is held against 1 / share of its ceilings */
    double dram,
        fastest;   /* bytes/s of the memory and of the fastest level measured; 0: not known */
    double peak;   /* FLOP/s of fp32 instructions, 0: not known */
    bool libtrain; /* the program is the reference engine: settings can be named */
};

/* One call of an op in a counted step. */
struct an_engine_call {
    const struct an_detail *d;
    size_t detail, step;
    double ns, bytes; /* bytes: of its model */
};

/* Calls `visit` for every op with FLOPs on the threads that run steps; what is part of another op
 * is left out. */
void an_engine_each(const struct an_engine *engine,
                    void (*visit)(void *ctx, const struct an_engine_call *call), void *ctx);

/* ns that a call takes at least; less than its own time where there is something to gain. */
typedef double (*an_engine_floor)(const struct an_engine *e, const struct an_engine_call *x);
/* Share of steps that goes if every call took its floor: s; ms of a step: removed_ms. A floor of
 * NAN leaves the call out. */
struct an_class_share an_engine_gain(const struct an_engine *engine, an_engine_floor floor,
                                     double *removed_ms);

/* FLOP/s of the fastest product of a type on the machine's share of one rank, 0: not measured. */
double an_engine_roof(const struct an_engine *engine, const char *dtype);
bool an_engine_is_pass(const struct an_engine_call *call, const char *pass);

/* "30 ± 1.2 ms a step (steps 4-19)": the share as time. */
const char *an_engine_window(const struct an_engine *engine, const char *what,
                             const struct an_class_share *share);
double an_engine_step_ms(const struct an_engine *engine);

/* Findings about the size of the work (findings_batch.c). */
void an_engine_small_batch(struct an_engine *engine);
void an_engine_recompute(struct an_engine *engine);

#endif
