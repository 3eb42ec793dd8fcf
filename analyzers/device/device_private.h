/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to device/: the columns of device ops under construction (device.c, device_links.c,
 * device_rows.c).
 */
#ifndef ANALYZERS_DEVICE_PRIVATE_H
#define ANALYZERS_DEVICE_PRIVATE_H

#include "analyzers/base/radix.h"
#include "analyzers/device/classes.h"
#include "analyzers/device/device.h"

/* What a category makes of a row. */
enum row { ROW_NONE, ROW_KERNEL, ROW_MEMCPY, ROW_MEMSET, ROW_GRAPH, ROW_CALL, ROW_COMM };

struct builder {
    const struct an_trace *trace;
    struct an_arena *arena;   /* of the result */
    struct an_arena *scratch; /* of the analysis */
    struct an_devices *devices;
    an_classes *classes;
    uint8_t *category; /* enum row of every string, as a category */
    uint8_t *comm;     /* of every string: as the name of a host range it is a communicator's */
    uint8_t *matched;  /* of every string: name_class holds it */
    struct an_name_class *name_class;
    uint32_t *stream; /* tracks with device rows, by device */
    size_t stream_count, rows;
    /* Scratch for sorting, as many as there are device rows or calls. */
    struct an_pair *pair, *work;
    /* Times that stand for "no time": 0 and what was added to the times of each file. */
    int64_t *base;
    size_t base_count;
    int64_t begin; /* first time that is not one of these */
};

static inline enum row an_row_of(const struct builder *builder, size_t slice)
{
    uint32_t category = builder->trace->slice.category[slice];
    return category == AN_NONE ? ROW_NONE : (enum row)builder->category[category];
}

/* Gives builder->pair and builder->work room for `count` pairs. */
int an_builder_scratch(struct builder *builder, size_t count);
/* Finds the captures of streams. */
int an_builder_captures(struct builder *builder);
/* Was a launching call captured? Then it is counted with its capture. */
bool an_builder_captured(struct builder *builder, uint32_t process, size_t call);
/* Fills op.origin, from the captures, links and classes. */
int an_builder_origins(struct builder *builder);
/* Fills op.launch, the links the other way, and launches_lost. */
int an_builder_links(struct builder *builder);

#endif
