/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to planner/: one layer of one micro-batch on one rank.
 */
#ifndef PLANNER_LAYER_H
#define PLANNER_LAYER_H

#include "planner/time/step.h"

/* Seconds of one layer; the backward pass without recomputation. */
struct plan_layer {
    double products_forward, products_backward;
    double attention_forward, attention_backward;
    double elements_forward, elements_backward;
    double flops_forward, flops_backward; /* executed */
    double product_flops;                 /* of the matrix products, both passes */
    double calls_forward, calls_backward; /* of the products' seconds, what calling them takes */
};
void plan_layer_of(const struct plan_case *of, bool dense, struct plan_layer *out);

/* The output embedding with its loss, forward and backward, on one rank: seconds of its GEMMs and
 * of the element-wise work on logits. */
struct plan_head {
    double products, elements, flops;
    double calls; /* of the products' seconds, what calling them takes */
};
void plan_head_of(const struct plan_case *of, struct plan_head *out);
/* Tokens of a micro-batch that one rank computes with. */
double plan_rows(const struct plan_layout *layout);

#endif
