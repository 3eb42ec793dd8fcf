/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: which call of an operator launched which device work. Made by the
 * analyzer `attribution`; others read it through an_context.calls.
 *
 * The innermost operator that is open when the launching host call begins is the leaf operator: it
 * gets the whole device time of the launch, so that sums over operators are device time. Operators
 * are slices of category `op` and ranges with a tacho.work payload that say what they computed.
 */
#ifndef ANALYZERS_ATTRIBUTION_H
#define ANALYZERS_ATTRIBUTION_H

#include "analyzers/steps/context.h"
#include "analyzers/work/op_cost.h"

enum an_by { AN_BY_OP, AN_BY_MODULE, AN_BY_LINE, AN_BY_ANNOTATION, AN_BY_COUNT };

/* One call of an operator that launched device work. */
struct an_call {
    uint32_t slice, process;
    uint32_t cost; /* index into an_calls.cost */
    /* Slice of the call that launched the graph which it was captured into, AN_NONE: it was not
     * captured. The slice of the call is there once, each launch of the graph is a call. */
    uint32_t replay;
    uint32_t step; /* of c->step, where the call began in a counted step with all its parts;
                      AN_NONE: in none */
    uint32_t row[AN_BY_COUNT]; /* rows of the tables, AN_NONE: none */
    const char *dtype; /* the arithmetic ran in, by its longest kernel whose name tells, else of the
                          operands; "": nothing tells, or fp32 operands that may have run as tf32 */
    uint8_t launched;  /* bit of each table in which a launch of it has a row */
    bool recompute; /* a forward operator that runs again inside backward (activation checkpointing)
                     */
    bool unclear; /* runs inside backward with gradients on: run again or differentiated twice, the
                     trace does not tell */
};

struct an_calls {
    struct an_call *call; /* by track and start */
    size_t count;
    uint32_t *of_op;      /* of each device op its call, AN_NONE: none */
    uint32_t *first, *op; /* device ops of call k: op[first[k]] .. op[first[k + 1] - 1] */
    struct an_op_cost *cost;
    size_t costs;
    bool shapes; /* some operator has shapes */
};

/* The arguments of a slice as its payload torch.op names them; a payload of other schemas has none.
 * NULL: out of memory. */
const struct an_op_args *an_bounds_args(struct an_context *context, uint32_t slice);

#endif
