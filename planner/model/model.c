/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters, matrix products and FLOPs of a decoder-only transformer.
 */
#include "planner/model/model.h"

#include <inttypes.h>
#include <math.h>

static const struct {
    const char *name, *text;
} conventions[] = {
#define PLAN_CONVENTION_ROW(name, key, text) {key, text},
    PLAN_CONVENTION_MAP(PLAN_CONVENTION_ROW)
#undef PLAN_CONVENTION_ROW
};

const char *plan_convention_name(enum plan_convention convention)
{
    return conventions[convention].name;
}

const char *plan_convention_text(enum plan_convention convention)
{
    return conventions[convention].text;
}

static double value_dim(const struct plan_model *model)
{
    return (double)(model->value_dim ? model->value_dim : model->head_dim);
}

/* Matrices of attention. With compressed keys and values (MLA, DeepSeek-V2 eq. 9-19) a token goes
 * through down- and up-projections of both. */
static double attention_parameters(const struct plan_model *model)
{
    double width = (double)model->width, heads = (double)model->heads;
    double query = heads * (double)model->head_dim, value = heads * value_dim(model);
    if (model->latent) {
        double rope = (double)model->head_dim - value_dim(model);
        double up = heads * ((double)model->head_dim - rope + value_dim(model));
        double queries =
            model->query_rank ? (double)model->query_rank * (width + query) : width * query;
        return queries + width * ((double)model->latent + rope) + (double)model->latent * up +
               value * width;
    }
    return width * query + 2 * width * (double)(model->kv_heads * model->head_dim) + query * width;
}

static double forward_parameters(const struct plan_model *model, double inner)
{
    return (model->gated ? 3 : 2) * (double)model->width * inner;
}

void plan_parameters_of(const struct plan_model *model, struct plan_parameters *out)
{
    double width = (double)model->width, layers = (double)model->layers;
    double leading = (double)model->dense_layers;
    *out = (struct plan_parameters){.attention = attention_parameters(model),
                                    .norms = (model->gated ? 2 : 4) * width};
    double visited = forward_parameters(model, (double)model->feed_forward);
    out->feed_forward = visited;
    if (model->experts) {
        double shared = forward_parameters(model, (double)model->shared_forward);
        double router = width * (double)model->experts;
        out->expert = visited;
        out->feed_forward = (double)model->experts * out->expert + shared + router;
        visited = (double)model->experts_active * out->expert + shared + router;
        out->dense_layer =
            out->attention + out->norms + forward_parameters(model, (double)model->dense_forward);
    } else {
        leading = 0;
    }
    /* biases of models without gates, as GPT-2 has them: 13 h of a layer with the norms */
    if (!model->gated)
        out->norms += (double)(model->heads + 2 * model->kv_heads) * (double)model->head_dim +
                      2 * width + (double)model->feed_forward;
    out->embedding = width * (double)(model->vocabulary + model->positions);
    out->head = model->tied ? 0 : width * (double)model->vocabulary;
    double rest = out->embedding + out->head + (model->gated ? 1 : 2) * width;
    double layer = out->attention + out->norms;
    out->total =
        rest + (layers - leading) * (layer + out->feed_forward) + leading * out->dense_layer;
    out->active = rest + (layers - leading) * (layer + visited) + leading * out->dense_layer;
}

int64_t plan_stage_layers(const struct plan_case *of, int64_t stage)
{
    int64_t layers = of->model.layers, stages = of->layout.pipeline, rest = layers % stages;
    if (of->machine.software.engine)
        return layers * (stage + 1) / stages - layers * stage / stages;
    if (rest && (layers + 2) % stages == 0 && stages > 1)
        return (layers + 2) / stages - (stage == 0) - (stage == stages - 1);
    return layers / stages + (stage < rest);
}

double plan_stage_parameters(const struct plan_case *of, int64_t stage)
{
    struct plan_parameters parameters;
    const struct plan_layout *layout = &of->layout;
    plan_parameters_of(&of->model, &parameters);
    double tensor = (double)layout->tensor, layers = (double)plan_stage_layers(of, stage);
    double experts = of->model.experts ? (double)of->model.experts * parameters.expert : 0;
    double layer = (parameters.attention + parameters.feed_forward - experts) / tensor +
                   experts / fmax((double)layout->expert, 1) / plan_expert_ranks(of) +
                   parameters.norms;
    double out = layers * layer;
    if (stage == 0)
        out += parameters.embedding / tensor;
    if (stage == layout->pipeline - 1 && (layout->pipeline > 1 || !of->model.tied))
        out += (double)of->model.width * (double)of->model.vocabulary / tensor;
    return out;
}

double plan_expert_ranks(const struct plan_case *of)
{
    return of->machine.software.engine ? (double)of->layout.tensor : 1;
}

double plan_stage_experts(const struct plan_case *of, int64_t stage)
{
    struct plan_parameters parameters;
    plan_parameters_of(&of->model, &parameters);
    double held = (double)of->model.experts / fmax((double)of->layout.expert, 1);
    return (double)plan_stage_layers(of, stage) * held * parameters.expert / plan_expert_ranks(of);
}

double plan_owners(const struct plan_layout *layout)
{
    double copies = (double)(layout->data * layout->context);
    return fmax(copies / fmax((double)layout->expert, 1), 1);
}

double plan_stage_share(const struct plan_case *of, int64_t stage)
{
    double copies = (double)(of->layout.data * of->layout.context);
    double experts = plan_stage_experts(of, stage);
    return (plan_stage_parameters(of, stage) - experts) / copies +
           experts / plan_owners(&of->layout);
}

/* The products of attention. Query, key and value are one product. */
static int attention_products(const struct plan_model *model, double tensor,
                              struct plan_product *out)
{
    double width = (double)model->width, heads = (double)model->heads / tensor;
    double query = heads * (double)model->head_dim;
    int count = 0;
    if (model->latent) {
        double rope = (double)model->head_dim - value_dim(model);
        double ranks = (double)(model->query_rank + model->latent) + rope;
        out[count++] = (struct plan_product){"down-projections", width, ranks, 1, 1};
        out[count++] = (struct plan_product){"queries", (double)model->query_rank, query, 1, 1};
        out[count++] = (struct plan_product){"keys and values", (double)model->latent,
                                             heads * 2 * value_dim(model), 1, 1};
    } else {
        double keys = fmax((double)model->kv_heads / tensor, 1) * (double)model->head_dim;
        out[count++] = (struct plan_product){"query, key, value", width, query + 2 * keys, 1, 1};
    }
    out[count++] = (struct plan_product){"attention output", heads * value_dim(model), width, 1, 1};
    return count;
}

static int forward_products(const struct plan_model *model, double inner, double tokens,
                            double products, struct plan_product *out)
{
    double width = (double)model->width;
    out[0] = (struct plan_product){"feed-forward in", width, (model->gated ? 2 : 1) * inner, tokens,
                                   products};
    out[1] = (struct plan_product){"feed-forward out", inner, width, tokens, products};
    return 2;
}

int plan_layer_products(const struct plan_case *of, bool dense,
                        struct plan_product out[PLAN_PRODUCTS_MOST])
{
    const struct plan_model *model = &of->model;
    double tensor = (double)of->layout.tensor;
    int count = attention_products(model, tensor, out);
    if (!model->experts || dense) {
        double inner = (double)(model->experts ? model->dense_forward : model->feed_forward);
        return count + forward_products(model, inner / tensor, 1, 1, out + count);
    }
    /* a rank holds experts / ep of them and gets the tokens of ep ranks */
    double held = (double)model->experts / fmax((double)of->layout.expert, 1);
    double tokens = (double)model->experts_active / held;
    double inner = (double)model->feed_forward / plan_expert_ranks(of);
    count += forward_products(model, inner, tokens, held, out + count);
    if (model->shared_forward)
        count += forward_products(model, (double)model->shared_forward / tensor, 1, 1, out + count);
    return count;
}

double plan_matrix_parameters(const struct plan_model *model)
{
    struct plan_parameters parameters;
    plan_parameters_of(model, &parameters);
    double leading = model->experts ? (double)model->dense_layers : 0;
    double norms =
        ((double)model->layers - leading) * parameters.norms + leading * parameters.norms;
    double tables =
        parameters.embedding + parameters.head + (model->gated ? 1 : 2) * (double)model->width;
    return parameters.active - norms - tables + (double)model->width * (double)model->vocabulary;
}

/* 6 FLOP for each parameter and token, and attention: scores and their sum with values take
 * 2 (d + d_v) FLOP a pair and head forward, twice that backward; a causal mask leaves half of the
 * pairs. Hardware FLOPs compute the forward pass of the layers twice, that of the output embedding
 * once (Narayanan et al. 2021, eq. 3). */
double plan_flops(const struct plan_model *model, double sequence, enum plan_convention convention)
{
    double matrices = plan_matrix_parameters(model);
    double output = (double)model->width * (double)model->vocabulary;
    double pairs = sequence * sequence * (convention == PLAN_CONVENTION_CAUSAL ? 0.5 : 1);
    double attention = (double)model->layers * (double)model->heads *
                       ((double)model->head_dim + value_dim(model)) * 2 * pairs;
    double passes = convention == PLAN_CONVENTION_HARDWARE ? 4 : 3;
    return passes * (2 * (matrices - output) * sequence + attention) + 6 * output * sequence;
}
