/* SPDX-License-Identifier: Apache-2.0
 *
 * The one table of accelerators: analyzers/hardware/accelerators.tsv, built into the program.
 * Dense figures of data sheets: what a sheet prints for sparse matrices is halved. Analyzers take
 * peaks from it (peaks.h), the planner everything else.
 *
 * A line of the table: names TAB family TAB one column for each of AN_ACCELERATOR_TYPES (TFLOP/s)
 * TAB memory (GB/s, GB) TAB link (GB/s in one direction, devices of its domain) TAB watts TAB
 * units TAB lowest and highest price of an hour TAB date TAB source; "-" = none, not known. The
 * first line whose name matches decides.
 */
#ifndef ANALYZERS_ACCELERATORS_TABLE_H
#define ANALYZERS_ACCELERATORS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define AN_ACCELERATOR_TYPES 7 /* fp64 fp32 tf32 fp16 bf16 fp8 fp4 */
#define AN_ACCELERATOR_NAME  64

/* What a data sheet says, in units without prefix; 0: the table does not know. */
struct an_accelerator {
    char name[AN_ACCELERATOR_NAME]; /* the first of its names */
    char family[16];                /* "ampere", "hopper", "tpu" ... */
    double flops[AN_ACCELERATOR_TYPES];
    double bytes_per_s, bytes;    /* of its memory */
    double link_bytes_per_s;      /* to its domain, in one direction */
    double domain;                /* devices that the link joins */
    double watts;                 /* of the device alone */
    double units;                 /* processors that tiles of a product are dealt to */
    double price_low, price_high; /* of an hour, US dollars */
    char dated[16];               /* of the sheet: "2023-03" */
    const char *source;           /* not terminated: source_length bytes, static */
    int source_length;
};

/* The device as a driver or a user names it ("NVIDIA H100 80GB HBM3", "H100", "A100-SXM-80"): an
 * exact name first, else the first name that begins with it and ends or goes on with a blank or a
 * dash there. false: the table has none. */
bool an_accelerator_find(const char *name, struct an_accelerator *out);
/* Only names that match as a driver gives them; what an_peak_find uses. */
bool an_accelerator_named(const char *name, struct an_accelerator *out);
/* Row `index` of the table, from 0; false behind the last. */
bool an_accelerator_at(size_t index, struct an_accelerator *out);
/* Dense peak in FLOP/s of an element type ("bf16"); 0: none. */
double an_accelerator_peak(const struct an_accelerator *of, const char *type);

#endif
