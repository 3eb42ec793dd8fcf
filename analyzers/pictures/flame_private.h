/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: trees for flame graphs (pictures.h), of ranges or of sampled stacks.
 */
#ifndef ANALYZERS_FLAME_PRIVATE_H
#define ANALYZERS_FLAME_PRIVATE_H

#include "analyzers/steps/context.h"

struct an_flame_node {
    uint32_t name, parent; /* index of an_trace.string; node. A parent comes before its children */
    uint32_t next;         /* for the builder of the tree */
    int64_t total, count;  /* a node never has more than its parent */
};

/* The largest nodes as rows of a picture; node 0 is the root and is called `root`. 0 or
 * TACHO_ENOMEM. */
int an_flame_rows(struct an_context *context, const struct an_flame_node *node, size_t count,
                  const char *root, const char *source, struct an_flame *out);

#endif
