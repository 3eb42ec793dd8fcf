/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: how the ranks of a job divide a model: dp replicas, each of which is a
 * pipeline of pp stages, whose layers tp ranks divide and whose sequences cp ranks divide; or whose
 * experts ep ranks divide. Ranks that divide layers are neighbours, then come those that divide
 * sequences, which have the same parameters, then the replicas of a stage, then the stages:
 * rank = ((stage dp + replica) cp + context) tp + part. With ep in the place of cp, whose ranks
 * have the same parameters but for the experts, and samples of their own: rank = ((stage dp +
 * replica) ep + expert) tp + part.
 */
#ifndef LT_LAYOUT_H
#define LT_LAYOUT_H

#include "libtrain/collectives/group.h"
#include "tacho_error.h"

/* How the ranks of cp divide attention. ulysses: by heads. ring: keys and values go around, parts
 * of sequences are folded (share.h), so that all ranks have as much of attention to compute;
 * ring-contiguous: the same with parts of neighbours, of which the last is computed longest. */
#define LT_CONTEXT_MAP(X) \
    X(ULYSSES, "ulysses") X(RING, "ring") X(RING_CONTIGUOUS, "ring-contiguous")
#define LT_ENUM_CONTEXT(id, name) LT_CONTEXT_##id,
enum lt_context_kind { LT_CONTEXT_MAP(LT_ENUM_CONTEXT) LT_CONTEXT_COUNT };
#undef LT_ENUM_CONTEXT

struct lt_layout {
    int dp, pp, tp, cp, ep;
    int replica, stage, part, context, expert; /* of this rank */
    enum lt_context_kind attention;            /* of cp; the parser leaves ulysses */
};

/* Kind called `name`, or -1. */
int lt_context_find(const char *name);

/* Is the model, or are its sequences, divided among ranks? */
static inline int lt_layout_divides(const struct lt_layout *layout)
{
    return layout->pp * layout->tp * layout->cp * layout->ep > 1;
}

/* The ranks that have the same parameters (with ep: but for the experts), and which of them this
 * one is. */
static inline int lt_layout_copies(const struct lt_layout *layout)
{
    return layout->dp * layout->cp * layout->ep;
}
static inline int lt_layout_copy(const struct lt_layout *layout)
{
    return (layout->replica * layout->cp + layout->context) * layout->ep + layout->expert;
}

/* The ranks, or groups of ranks, that have samples of their own, and which of them this one is. */
static inline int lt_layout_streams(const struct lt_layout *layout)
{
    return layout->dp * layout->ep;
}
static inline int lt_layout_stream(const struct lt_layout *layout)
{
    return layout->replica * layout->ep + layout->expert;
}

/* The rank of a stage that has part `part` of its layers, of copy number `copy`. */
static inline int lt_layout_rank(const struct lt_layout *layout, int stage, int copy, int part)
{
    return (stage * lt_layout_copies(layout) + copy) * layout->tp + part;
}

/* "dp2.tp2.pp2.cp2" or "dp2.ep2", factors in any order, missing ones are 1; NULL: all ranks are
 * replicas. TACHO_EUSAGE with words in *err for a text that is no layout, or not one of so many
 * ranks. */
int lt_layout_parse(struct lt_layout *out, const char *text, int rank, int ranks,
                    struct tacho_error *err);

/* Blocks [first, first + count) of `blocks` belong to a stage. */
struct lt_layout_blocks {
    int64_t first, count;
};
struct lt_layout_blocks lt_layout_blocks(const struct lt_layout *layout, int stage, int64_t blocks);

/* The ranks that have the same parameters as this one (with ep: but for the experts), as a group;
 * those that have parts of the same layers; those that divide the experts and have the same part of
 * the layers; those that have the same parameters and parts of the same sequences; and with ep
 * those that have the same experts, and the same part of each. axis and world are borrowed. */
struct lt_axis {
    const struct lt_group *world;
    int first, stride; /* rank of its rank 0, and from one to the next */
};
struct lt_group lt_layout_replicas(const struct lt_layout *layout, const struct lt_group *world,
                                   struct lt_axis *axis);
struct lt_group lt_layout_parts(const struct lt_layout *layout, const struct lt_group *world,
                                struct lt_axis *axis);
struct lt_group lt_layout_experts(const struct lt_layout *layout, const struct lt_group *world,
                                  struct lt_axis *axis);
struct lt_group lt_layout_contexts(const struct lt_layout *layout, const struct lt_group *world,
                                   struct lt_axis *axis);
struct lt_group lt_layout_owners(const struct lt_layout *layout, const struct lt_group *world,
                                 struct lt_axis *axis);

#endif
