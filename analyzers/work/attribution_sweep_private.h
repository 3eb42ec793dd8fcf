/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between attribution_sweep.c and attribution_links.c.
 */
#ifndef ANALYZERS_ATTRIBUTION_SWEEP_PRIVATE_H
#define ANALYZERS_ATTRIBUTION_SWEEP_PRIVATE_H

#include "analyzers/base/radix.h"
#include "analyzers/work/attribution_private.h"

/* What the stack remembers the innermost of */
enum an_sweep_level { OP, MODULE, LINE, ANNOTATION, BACKWARD, LEVELS };

struct an_sweep_frame {
    uint32_t slice;
    int64_t end;
    int32_t at[LEVELS]; /* index in the stack of the innermost of each level, this one included; -1:
                           none */
    uint32_t row;       /* of its level's table */
    uint32_t call;      /* of an operator that launched something: the first of its calls */
    uint32_t calls;     /* 1, or the launches of the graph that it was captured into */
    bool backward, recompute, grad;
};

/* A forward operator that autograd numbered. */
struct an_sweep_forward {
    uint32_t slice, track, module, line;
};

/* An annotation, in order of track and start. */
struct an_sweep_marked {
    int64_t start, end;
    uint32_t row, outer; /* outer: index of the annotation around it */
};

/* A launch whose rows are found when all threads are known. */
struct an_sweep_pending {
    uint32_t launch, track, link, call, module,
        line;    /* link: slice of the backward operator; module, line: own ones */
    bool nested; /* the backward operator runs inside another one's */
    bool annotated;
};

/* The device ops by the calls that made them: that launched them, or that were captured for them. A
 * captured call comes once for each launch of its graph. */
struct an_sweep_links {
    uint32_t *slice, *first, *op; /* ops of link k: op[first[k]] .. op[first[k + 1] - 1] */
    size_t count;
};

struct an_sweep {
    struct an_context *context;
    const struct an_trace *trace;
    const struct an_devices *devices;
    struct an_by_table *by;
    struct an_calls *calls;
    size_t call_room;
    uint8_t *category, *name; /* of strings */
    uint32_t *line_of_detail; /* row + 2 of the user's frame of a recorded stack; 1: none; 0: not
                                 known yet */
    bool python, *present;
    struct an_sweep_frame *stack;
    size_t stack_room;
    struct an_sweep_links links;
    size_t next;               /* link that comes next */
    size_t group, group_count; /* links of the host call that is looked at */
    struct an_sweep_forward *forward;
    size_t forwards, forward_room;
    struct an_pair *by_number; /* forward operators by sequence number */
    struct an_sweep_marked *marked;
    size_t marks, mark_room;
    size_t *first_mark; /* of each track */
    struct an_sweep_pending *pending;
    size_t pendings, pending_room;
};

/* A launch's row in a table. The cost of a call belongs to its row; where its launches have
 * several, no row knows its part. */
void an_sweep_add_launch(struct an_sweep *sweep, enum an_by by, uint32_t row, size_t launch,
                         uint32_t call);
/* Makes the links. 0 or TACHO_ENOMEM. */
int an_sweep_link(struct an_sweep *sweep);
/* Gives the pending launches their rows. 0 or TACHO_ENOMEM. */
int an_sweep_resolve(struct an_sweep *sweep);

#endif
