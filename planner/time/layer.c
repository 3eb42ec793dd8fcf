/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of a layer: matrix products by shape, attention fused or by its memory traffic,
 * element-wise kernels by their memory traffic.
 */
#include "planner/time/layer.h"

#include <math.h>
#include <string.h>

#include "planner/time/gemm.h"

/* Efficiency of kernels that only move data, of the sheet's bandwidth. */
#define STREAM_SHARE 0.85

double plan_rows(const struct plan_layout *layout)
{
    return (double)(layout->micro_batch * layout->sequence) / (double)layout->context;
}

/* What a product takes beside its arithmetic: of the engine on a processor. */
static double call_seconds(const struct plan_case *of)
{
    return of->machine.software.engine ? of->constants->engine_call : 0;
}

static double stream(const struct plan_case *of, double bytes)
{
    double rate = of->machine.device.bytes_per_s;
    return rate > 0 ? bytes / (STREAM_SHARE * rate) : 0;
}

/* Products forward; backward the same product for the gradient of the input (inner and outer
 * swapped) and for the gradient of the weights (the tokens are the inner dimension). */
static void add_products(const struct plan_case *of, bool dense, struct plan_layer *out)
{
    struct plan_product products[PLAN_PRODUCTS_MOST];
    int count = plan_layer_products(of, dense, products);
    for (int i = 0; i < count; i++) {
        const struct plan_product *product = &products[i];
        struct plan_gemm forward, input, weight;
        double rows = fmax(plan_rows(&of->layout) * product->tokens, 1);
        plan_gemm(&of->machine, of->constants, rows, product->inner, product->outer, &forward);
        plan_gemm(&of->machine, of->constants, rows, product->outer, product->inner, &input);
        plan_gemm(&of->machine, of->constants, product->inner, rows, product->outer, &weight);
        out->products_forward += product->count * forward.seconds;
        out->products_backward += product->count * (input.seconds + weight.seconds);
        out->flops_forward += product->count * forward.flops;
        out->flops_backward += product->count * (input.flops + weight.flops);
        out->calls_forward += product->count * call_seconds(of);
        out->calls_backward += 2 * product->count * call_seconds(of);
        out->product_flops += product->count * (forward.flops + input.flops + weight.flops);
    }
}

/* The family's efficiency for 16-bit types: attention stays in 16 bits where products have 8. */
static double attention_rate(const struct plan_case *of)
{
    struct plan_machine machine = of->machine;
    if (plan_type_bytes(machine.type) < 2)
        machine.type = "bf16";
    return an_accelerator_peak(&machine.device, machine.type) *
           plan_gemm_family(&machine, of->constants);
}

/* Fused attention skips masked blocks, reads its inputs once, and computes the scores again in the
 * backward pass: 2.5 times the forward FLOPs. Otherwise scores are products of all pairs, and each
 * is read and written several times between memory and the kernels that mask, scale and drop. */
static void add_attention(const struct plan_case *of, struct plan_layer *out)
{
    const struct plan_layout *layout = &of->layout;
    const struct plan_model *model = &of->model;
    double heads = (double)model->heads / (double)layout->tensor;
    double pairs = (double)layout->micro_batch * (double)layout->sequence *
                   (double)layout->sequence / (double)layout->context;
    double value = (double)(model->value_dim ? model->value_dim : model->head_dim);
    double all = 2 * heads * pairs * ((double)model->head_dim + value);
    bool recent = !strcmp(of->machine.device.family, "hopper") ||
                  !strcmp(of->machine.device.family, "blackwell");
    double rate =
        attention_rate(of) * (recent ? of->constants->flash_hopper : of->constants->flash);
    double alignment = plan_gemm_alignment(of->constants, (double)model->head_dim);
    double shortness =
        (double)model->head_dim / ((double)model->head_dim + of->constants->gemm_inner / 4);
    if (of->machine.software.flash) {
        double reach = rate * shortness / (1 + 256.0 / (double)layout->sequence);
        out->attention_forward = all / 2 / reach;
        out->attention_backward = 2.5 * out->attention_forward / 0.8;
        out->flops_forward += all / 2;
        out->flops_backward += 2.5 * all / 2;
        return;
    }
    double arithmetic = all / (attention_rate(of) * alignment * shortness);
    double traffic = stream(of, of->constants->softmax_bytes * heads * pairs);
    out->attention_forward = arithmetic + traffic;
    out->attention_backward = 2 * arithmetic + 1.5 * traffic;
    out->flops_forward += all;
    out->flops_backward += 2 * all;
}

/* Bytes of the element-wise kernels of a layer, forward: two norms and two residuals read and write
 * the hidden state (10 b s h elements of two bytes with dropout), the activation its inner width.
 */
static void add_elements(const struct plan_case *of, struct plan_layer *out)
{
    const struct plan_layout *layout = &of->layout;
    double rows = plan_rows(layout), tensor = (double)layout->tensor;
    double hidden = 20 * rows * (double)of->model.width / (layout->sequence_parallel ? tensor : 1);
    double visited = of->model.experts ? (double)of->model.experts_active : 1;
    double inner = (of->model.gated ? 6 : 4) * rows * visited * (double)of->model.feed_forward /
                   (of->model.experts ? plan_expert_ranks(of) : tensor);
    double keys = 8 * rows * (double)(of->model.heads * of->model.head_dim) / tensor;
    double seconds = of->constants->element * stream(of, hidden + inner + keys);
    out->elements_forward = seconds;
    out->elements_backward = 1.5 * seconds;
}

void plan_layer_of(const struct plan_case *of, bool dense, struct plan_layer *out)
{
    *out = (struct plan_layer){0};
    add_products(of, dense, out);
    add_attention(of, out);
    add_elements(of, out);
    double products = plan_speed(of->speed.products), attention = plan_speed(of->speed.attention),
           elements = plan_speed(of->speed.elements);
    out->products_forward = products * out->products_forward + out->calls_forward;
    out->products_backward = products * out->products_backward + out->calls_backward;
    out->attention_forward *= attention;
    out->attention_backward *= attention;
    out->elements_forward *= elements;
    out->elements_backward *= elements;
}

void plan_head_of(const struct plan_case *of, struct plan_head *out)
{
    struct plan_case wide = *of;
    struct plan_gemm product, weight;
    double rows = plan_rows(&of->layout);
    double columns = (double)of->model.vocabulary / (double)of->layout.tensor;
    double width = (double)of->model.width;
    if (plan_type_bytes(of->machine.type) < 2) /* frameworks keep the output embedding in 16 bits */
        wide.machine.type = "bf16";
    /* padded to a multiple of 64 by every framework */
    columns = ceil(columns / 64) * 64;
    plan_gemm(&wide.machine, of->constants, rows, width, columns, &product);
    plan_gemm(&wide.machine, of->constants, width, rows, columns, &weight);
    *out = (struct plan_head){
        .elements = stream(of, 16 * rows * columns) * plan_speed(of->speed.elements),
        .flops = 3 * product.flops,
        .calls = 3 * call_seconds(of),
    };
    out->products =
        (2 * product.seconds + weight.seconds) * plan_speed(of->speed.products) + out->calls;
}
