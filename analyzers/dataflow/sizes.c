/* SPDX-License-Identifier: Apache-2.0
 *
 * Edges of traces that know how much an operator reads and writes, but not which tensors: of two
 * neighbours in program order the second one reads what the first one writes, if the sizes agree.
 * Operators that happen to have operands of one size are taken for such a pair, so these edges are
 * called inferred wherever they are shown.
 */
#include <math.h>
#include <string.h>

#include "analyzers/dataflow/flow.h"

#define EXTRA \
    0.06 /* weights, biases and row sums beside the operands, as a share of one operand \
          */

/* How many operands of `bytes` are `total`; 0: it is not a multiple of them. Halves are operands of
 * a type half as wide. */
static double operands_of(int64_t total, int64_t bytes)
{
    double count = (double)total / (double)bytes, whole = floor(2 * count + EXTRA) / 2;
    return count - whole <= EXTRA ? whole : 0;
}

/* Could `to` read what `from` writes? Its own result has the same size, or it is a reduction's. */
static bool sizes_agree(const struct flow_op *from, const struct flow_op *to)
{
    if (from->written == STORE_ABSENT || from->written <= 0 || to->read == STORE_ABSENT)
        return false;
    if (to->kind == FLOW_PRODUCT) /* weights of any size beside its operand */
        return to->read >= from->written;
    double read = operands_of(to->read, from->written);
    bool result = to->kind != FLOW_POINTWISE ||
                  (to->written != STORE_ABSENT && operands_of(to->written, from->written) >= 0.5);
    return read >= 1 && read <= 8 && result;
}

int flow_edges_by_size(struct flow *flow)
{
    int rc = 0;
    for (size_t i = 1; i < flow->count && !rc; i++) {
        const struct flow_op *from = &flow->op[i - 1], *to = &flow->op[i];
        if (from->track == to->track && !strcmp(from->pass, to->pass) && sizes_agree(from, to))
            rc = flow_edge_add(flow, &(struct flow_edge){.from = (uint32_t)i - 1,
                                                         .to = (uint32_t)i,
                                                         .how = FLOW_SIZE,
                                                         .bytes = from->written});
    }
    return rc;
}
