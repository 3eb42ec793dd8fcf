/* SPDX-License-Identifier: Apache-2.0
 *
 * The peaks of a device by its data sheet, for analyzers: fp16 and bf16 with accumulation in fp32,
 * dense. A device that is not in the table of accelerators has no peak; nothing is scaled from a
 * similar one, except for slices of a device (MIG).
 */
#ifndef ANALYZERS_PEAKS_H
#define ANALYZERS_PEAKS_H

#include <stdbool.h>

struct an_arena;

struct an_peak {
    double value;       /* FLOP/s, bytes/s */
    const char *source; /* "datasheet: ..." in the arena */
};

/* Peak of a device as the driver names it ("NVIDIA H100 80GB HBM3") for an element type ("bf16"),
 * or of its memory
 * ("bandwidth"). false: not known. */
bool an_peak_find(struct an_arena *arena, const char *device, const char *column,
                  struct an_peak *out);

/* The same of a slice of a device ("NVIDIA H100 80GB HBM3 MIG 1g.10gb") that has so many
 * multiprocessors: their share of the peak of the whole device. Not for the memory. false: not
 * known, or not a slice. */
bool an_peak_find_slice(struct an_arena *arena, const char *device, double multiprocessors,
                        const char *column, struct an_peak *out);

#endif
