/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: between the files of attribution.
 */
#ifndef ANALYZERS_ATTRIBUTION_PRIVATE_H
#define ANALYZERS_ATTRIBUTION_PRIVATE_H

#include "analyzers/work/attribution.h"
#include "analyzers/work/frames.h"

struct an_by_row {
    const char *name;
    int64_t count, kernels, device_ns, host_ns;
    int64_t flops, bytes;       /* of the calls that tell */
    int64_t no_flops, no_bytes; /* calls, and launches outside of operators, that do not */
    bool any;
};

struct an_by_table {
    struct an_by_row *row;
    size_t count, room;
    uint32_t *bucket; /* of texts: row + 1 */
    size_t buckets;
    uint32_t *of_name; /* of each string: row, AN_NONE: not known yet */
};

/* Sweeps all host threads; fills the tables and c->calls without costs. */
int an_attribution_sweep(struct an_context *context, struct an_by_table by[AN_BY_COUNT],
                         bool present[AN_BY_COUNT]);
/* Costs, steps, types and device ops of the calls. */
int an_attribution_costs(struct an_context *context);
int an_attribution_calls(struct an_context *context);
/* Row of a text. AN_NONE: out of memory. */
uint32_t an_by_row_of(struct an_by_table *by_table, const char *name);

#endif
