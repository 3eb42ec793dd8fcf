/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between the files of `roofline`.
 */
#ifndef ANALYZERS_ROOFLINE_PRIVATE_H
#define ANALYZERS_ROOFLINE_PRIVATE_H

#include "analyzers/work/ceilings.h"
#include "analyzers/work/peaks.h"

/* What a call is, and what it costs: calls with equal shapes have an equal cost. */
struct an_roof_call {
    const char *name, *dtype, *pass, *kind;
    bool product; /* matrix, attention or convolution work */
    int64_t flops, bytes;
};

/* Calls of one name, type, pass and cost. */
struct an_roof_shape {
    struct an_roof_call call;
    int64_t count;
    uint32_t point;
};

/* Shapes of nearly one intensity: a point of the roofline. */
struct an_roof_point {
    const struct an_roof_call *call;
    int64_t count, flops, bytes, ns, shapes;
    bool one_cost; /* all calls have the same FLOPs and bytes */
    bool measured; /* FLOPs and bytes counted by the hardware, of a range */
    size_t place;  /* device its last op ran on */
    int64_t until; /* latest end there so far */
};

struct an_roof {
    struct an_context *context;
    const char *device; /* as ceilings name it; NULL: several kinds */
    struct an_roof_shape *shape;
    size_t shapes, shape_room;
    uint32_t *bucket; /* of shapes: index + 1 */
    size_t buckets;
    struct an_roof_point *point;
    size_t points;
};

/* Puts the points under their ceilings into the result, or the reason why there are none. 0 or
 * TACHO_ENOMEM. */
int an_roof_place(struct an_roof *roof);

#endif
