/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the result (result.h): the operators of a step as a graph of what they pass to each
 * other, and what follows from it: fusion, lifetimes of tensors, width, repeated and dead work.
 * docs/dataflow.md has the rules. Times are ns, sizes bytes.
 */
#ifndef ANALYZERS_RESULT_DATAFLOW_H
#define ANALYZERS_RESULT_DATAFLOW_H

#include <stddef.h>
#include <stdint.h>

#include "analyzers/result/value.h"

/* One operator of the step that is shown; for exports only (an_options.dataflow). */
struct an_flow_node {
    const char *name, *kind, *where; /* kind: "element-wise"; where: the range around it, "" */
    int64_t start_ns, ns, bytes_read, bytes_written; /* STORE_ABSENT: not known */
    size_t depth;                                    /* length of the longest path to it */
    int64_t chain;                                   /* number of the fusion candidate; -1: none */
};

struct an_flow_edge {
    size_t from, to; /* nodes */
    int64_t bytes;   /* STORE_ABSENT: not known */
    const char *how; /* "tensor", "dependency", "size" (inferred) */
};

/* Operators that could be one, in all steps that were looked at. */
struct an_fusion_row {
    const char *operators; /* "residual.forward, layernorm.forward" */
    const char *how;       /* of its edges: the weakest of "tensor", "dependency", "size" */
    const char *place;     /* where what they pass on is read from: "memory", "cache", "unknown" */
    const char *note;      /* what the saving depends on; "" */
    int64_t length;        /* operators */
    /* A step: */
    struct an_value count, ms, bytes, saved_bytes, launches_saved;
    struct an_value gain_ms, gain_low_ms, gain_high_ms;
};

/* Operators that do the same, or nothing that is used, or could write over what they read. */
struct an_flow_row {
    const char *name;
    int64_t count, bytes, ns; /* bytes: of what they write */
};

struct an_dataflow {
    const char *reason;                       /* NULL: there are operators */
    const char *source;                       /* where the edges are from, in words */
    int64_t step;                             /* the index of the one whose graph is shown */
    size_t steps;                             /* that were looked at for fusion */
    int64_t operators, edges, inferred_edges; /* of the step shown */
    int64_t serial_ns;                        /* its operators one after the other */

    const char *fusion_reason;   /* why no gain is given; NULL: gains are */
    const char *bandwidth_words; /* "27.5 GB/s (measured)" */
    const struct an_fusion_row *fusion;
    size_t fusion_count;
    struct an_value fusion_gain_ms, fusion_low_ms, fusion_high_ms; /* of all rows, a step */
    struct an_value step_ms;                                       /* mean of these steps */

    /* Of the step that is shown, from recorded edges only. */
    struct an_count path_ns;                    /* longest chain of dependencies */
    struct an_value width_mean;                 /* operators at once if each begins when it can */
    struct an_count width_most, two_streams_ns; /* the step on two streams, in program order */
    struct an_count tensor_count, tensor_bytes, live_bound_bytes, pool_bytes;
    struct an_count in_place_saved_bytes; /* of live_bound_bytes */
    const struct an_flow_row *in_place, *repeated, *dead;
    size_t in_place_count, repeated_count, dead_count;

    const struct an_flow_node *nodes; /* for exports */
    size_t node_count;
    const struct an_flow_edge *edge;
    size_t edge_count;
};

#endif
