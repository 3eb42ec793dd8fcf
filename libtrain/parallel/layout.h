/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: how the ranks of a job divide a model: dp replicas, each of which is a
 * pipeline of pp stages. Rank r is replica r % dp of stage r / dp, so the replicas of one stage are
 * neighbours.
 */
#ifndef LT_LAYOUT_H
#define LT_LAYOUT_H

#include "libtrain/collectives/group.h"
#include "tacho_error.h"

struct lt_layout {
    int dp, pp;
    int replica, stage; /* of this rank */
};

/* "dp2.pp2", factors in any order, missing ones are 1; NULL: all ranks are replicas. TACHO_EUSAGE
 * with words in *err for a text that is no layout, or not one of so many ranks. */
int lt_layout_parse(struct lt_layout *out, const char *text, int rank, int ranks,
                    struct tacho_error *err);

/* Blocks [first, first + count) of `blocks` belong to a stage. */
struct lt_layout_blocks {
    int64_t first, count;
};
struct lt_layout_blocks lt_layout_blocks(const struct lt_layout *layout, int stage, int64_t blocks);

/* The replicas of this rank's stage as a group. axis and world are borrowed. */
struct lt_axis {
    const struct lt_group *world;
    int first; /* rank of its rank 0 */
};
struct lt_group lt_layout_replicas(const struct lt_layout *layout, const struct lt_group *world,
                                   struct lt_axis *axis);

#endif
