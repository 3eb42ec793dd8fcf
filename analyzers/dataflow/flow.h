/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/dataflow/: the kit. The operators of one step in program order, the tensors
 * that they read and write where the trace names them, and the edges between them. A source fills
 * it (flow_sources); fusion.c, lifetimes.c, width.c and repeats.c read it.
 *
 * Memory: 120 bytes an operator, 24 a use of a tensor, 24 an edge; everything is in malloc'ed
 * arrays that flow_clear gives back.
 */
#ifndef ANALYZERS_DATAFLOW_FLOW_H
#define ANALYZERS_DATAFLOW_FLOW_H

#include "analyzers/steps/context.h"

#define FLOW_ROWS_MOST  12         /* of a table by names */
#define FLOW_NAMES_MOST 512        /* that such a table tells apart */
#define FLOW_OPS_MOST   (1u << 20) /* of one step; what is beyond is left out */

/* What an operator does to the elements of its tensors: name, text */
#define FLOW_KIND_MAP(X) \
    X(POINTWISE, "element-wise") \
    X(REDUCTION, "reduction") \
    X(PRODUCT, "product") \
    X(VIEW, "view") \
    X(OTHER, "other")

enum flow_kind {
#define FLOW_KIND_ENUM(name, text) FLOW_##name,
    FLOW_KIND_MAP(FLOW_KIND_ENUM)
#undef FLOW_KIND_ENUM
};
const char *flow_kind_text(enum flow_kind kind);

/* How an edge is known, the surest first: a tensor with an id, a dependency of the file, or that
 * two neighbours have operands of one size. */
enum flow_how { FLOW_TENSOR, FLOW_DEPENDENCY, FLOW_SIZE };
const char *flow_how_text(enum flow_how how);

struct flow_op {
    const char *name, *pass; /* pass: "forward" ...; "" */
    enum flow_kind kind;
    uint32_t slice, track;  /* the range on the host, or of the call; track: where it runs */
    int64_t start, end, ns; /* of its work; ns: the sum of its kernels, or the range */
    int64_t read, written;  /* bytes; STORE_ABSENT: not known */
    int64_t launches;       /* kernels; 1 on a host */
    size_t first_use, uses; /* in flow.use */
};

/* An operator reads or writes a part of a storage. */
struct flow_use {
    uint32_t op, tensor;
    int64_t offset, bytes;
    bool writes;
};

struct flow_tensor {
    int64_t id, bytes; /* bytes: the most that one use covers */
    uint32_t writer; /* the first operator that uses it, if that writes it; AN_NONE: it is older */
    uint32_t last;   /* the last that uses it */
    uint32_t reads;  /* operators that read it */
    uint32_t writes;
};

struct flow_edge {
    uint32_t from, to;
    enum flow_how how;
    uint32_t tensor; /* FLOW_TENSOR: the largest that is passed on */
    int64_t bytes;   /* STORE_ABSENT: not known */
    bool only;       /* nothing else reads what it passes on; with FLOW_SIZE: not known, false */
};

struct flow {
    struct an_context *context;
    const struct an_step *step;
    struct flow_op *op;
    size_t count, op_room;
    struct flow_use *use; /* by operator */
    size_t use_count, use_room;
    struct flow_tensor *tensor;
    size_t tensor_count, tensor_room;
    struct flow_edge *edge; /* by `to` */
    size_t edge_count, edge_room;
    bool on_device, backward; /* backward: some operator has that pass */
    bool named;               /* the program named the memory of its operands */
    /* Kept by flow_clear: bytes that calls of each cost write (launched.c), and the texts that name
     * operands (operands.c). */
    int64_t *written;
    struct flow_names *names;
};

/* A kind of trace. `read` adds the operators of flow->step, with uses and edges; none: the trace is
 * of another kind. 0 or TACHO_ENOMEM. */
struct flow_source {
    const char *words; /* where the edges are from */
    int (*read)(struct flow *flow);
};
extern const struct flow_source flow_recorded, flow_launched, flow_ranges;

/* What a name says an operator does; `product`: it is known to be one. */
enum flow_kind flow_kind_of(const char *name, bool product);
/* Does the operator change one of its operands (aten::add_)? Does it draw random numbers, or do
 * something besides its result? */
bool flow_is_in_place(const char *name);
bool flow_has_effects(const char *name);

/* Adds an operator; NULL: no memory. It stays valid until the next one is added. */
struct flow_op *flow_op_add(struct flow *flow, const struct flow_op *op);
int flow_edge_add(struct flow *flow, const struct flow_edge *edge);
/* Adds the edge unless its ends have one already, which then passes on the larger tensor: edges of
 * one `to` are neighbours. */
int flow_edge_once(struct flow *flow, const struct flow_edge *edge);
/* Marks edges whose tensor has no other reader, once all are there. */
int flow_mark_only(struct flow *flow);
/* Tensors and edges from the memory that the program names for its operators (operands.c); sets
 * flow->named, false if it names none, and then adds nothing. */
int flow_edges_by_operands(struct flow *flow);
/* Edges between neighbours of one track where the first writes as much as an operand of the second
 * has, for sources that know sizes only (sizes.c). */
int flow_edges_by_size(struct flow *flow);
/* Time of an operator alone, with the bytes that it moves; 0: not known. */
double flow_rate(const struct flow_op *op);
static inline int64_t flow_bytes(const struct flow_op *op)
{
    return (op->read == STORE_ABSENT ? 0 : op->read) +
           (op->written == STORE_ABSENT ? 0 : op->written);
}
/* Adds an operator to the row of its name; of more than FLOW_NAMES_MOST names the first ones count.
 * `row` has room for all names of the flow. */
void flow_row_add(struct an_flow_row *row, size_t *count, const struct flow_op *op, int64_t bytes);
/* The first rows, with their names, in the result's arena; NULL: no memory. */
const struct an_flow_row *flow_keep_rows(const struct flow *flow, struct an_flow_row *row,
                                         size_t *count);
void flow_clear(struct flow *flow); /* empties it for the next step; context stays */

/* ---- the pieces -------------------------------------------------------------------------------- */

struct fusion;                                         /* candidates of several steps */
struct fusion *fusion_new(struct an_context *context); /* NULL: no memory */
int fusion_add(struct fusion *fusion, const struct flow *flow);
int fusion_end(struct fusion *fusion); /* fills the result and frees it */
/* The number of the candidate that an operator of the flow that was added last belongs to; -1. */
int64_t fusion_chain_of(const struct fusion *fusion, uint32_t op);

/* Each fills its part of result->dataflow, or the reasons. 0 or TACHO_ENOMEM. */
int flow_lifetimes(const struct flow *flow, struct an_dataflow *out);
int flow_width(const struct flow *flow, struct an_dataflow *out);
int flow_repeats(const struct flow *flow, struct an_dataflow *out);
/* The length of the longest path to each operator. */
void flow_depths(const struct flow *flow, size_t *depth);

#endif
