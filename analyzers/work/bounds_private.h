/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between the files of `bounds`. A kernel's cost is that of the operator
 * that launched it; the kernels of one call share its roofs.
 */
#ifndef ANALYZERS_BOUNDS_PRIVATE_H
#define ANALYZERS_BOUNDS_PRIVATE_H

#include "analyzers/work/attribution_private.h"
#include "analyzers/work/roofline_private.h"

/* Shares of its two roofs that a call of an operator reaches, 1: the roof itself. NAN: not known,
 * and `unknown` says why. */
struct an_call_roofs {
    float memory, compute;
    int64_t ns; /* of its kernels, summed */
    const char *unknown;
};

struct an_bounds {
    struct an_context *context;
    struct an_call_roofs *call; /* of each call of context->calls */
    uint8_t *op;                /* enum an_bound of each device op; AN_BOUND_COUNT: not counted */
    double bandwidth;           /* bytes/s of the devices, 0: they differ or it is not known */
};

/* Blocks of a kernel, 0: not known. */
int64_t an_kernel_blocks(const struct an_context *context, size_t op);

/* Fill the rows of result.bounds. 0 or TACHO_ENOMEM. */
int an_bounds_gemms(struct an_bounds *bounds);
int an_bounds_chains(struct an_bounds *bounds);

#endif
