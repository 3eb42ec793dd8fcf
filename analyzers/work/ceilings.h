/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what the file's table `ceiling` says a device can do at most.
 * docs/schema.md lists the resources.
 */
#ifndef ANALYZERS_CEILINGS_H
#define ANALYZERS_CEILINGS_H

#include "analyzers/steps/context.h"

/* How to get what is missing; every reason about a ceiling of the CPU ends in it. */
#define AN_CALIBRATE "run `tacho calibrate` once on this machine, then report again"
/* The same in short, where files that exist are reported again. */
#define AN_CALIBRATE_QUICK "tacho calibrate --quick (18 s), then tacho report"

/* The file's row of a device, resource ("flops", "gemm", "bandwidth_l2" ...) and element type (""
 * for any): a data sheet's before a measured one, of several measured ones the highest. Rows
 * without a device belong to every device. NULL: there is none. */
const struct an_ceiling_row *an_ceiling_find(const struct an_context *context, const char *device,
                                             const char *resource, const char *dtype);

/* A level of memory and what it moves at most, in bytes/s. */
struct an_memory_level {
    const char *name; /* "dram", "l3", "l2", "l1" */
    const struct an_ceiling_row *row;
};
#define AN_MEMORY_LEVELS 4

/* The levels of a device that were measured, the slowest first: returns how many. The roof of
 * "dram" is the highest of what was measured there (triad, reads, writes, updates in place): an
 * upper bound whatever an op does. */
size_t an_memory_levels(const struct an_context *context, const char *device,
                        struct an_memory_level out[AN_MEMORY_LEVELS]);

/* Bytes/s of the memory of a device, by its ceilings or its data sheet; 0: not known
 * (roofline_place.c). */
double an_device_bandwidth(struct an_context *context, const char *device);

/* Unit of a resource: "FLOP/s", "bytes/s", "s", "bytes", "threads", "ratio". */
const char *an_ceiling_unit(const char *resource);

#endif
