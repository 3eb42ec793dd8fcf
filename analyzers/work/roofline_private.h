/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between the files of `roofline`.
 */
#ifndef ANALYZERS_ROOFLINE_PRIVATE_H
#define ANALYZERS_ROOFLINE_PRIVATE_H

#include "analyzers/hardware/peaks.h"
#include "analyzers/work/ceilings.h"

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

/* The call as a point of the roofline: its name, what it costs and the type that it ran in. */
struct an_call;
struct an_roof_call an_roof_call_of(const struct an_context *context, const struct an_call *call);

/* The peak for a call: the user's, the file's or the data sheet's; and the bandwidth of the DRAM.
 * Of roof they read context and device. false: none is known. */
bool an_roof_peak(const struct an_roof *roof, const struct an_roof_call *call, struct an_peak *out);
bool an_roof_bandwidth(const struct an_roof *roof, struct an_peak *out);

/* Puts the points under their ceilings into the result, or the reason why there are none. 0 or
 * TACHO_ENOMEM. */
int an_roof_place(struct an_roof *roof);

#endif
