/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as numbers: parameters, matrix products, FLOPs in three conventions. Part of the public
 * header of planner/.
 */
#ifndef PLANNER_MODEL_H
#define PLANNER_MODEL_H

#include "planner/base/types.h"

/* ---- where a model comes from ---------------------------------------------------------------- */

/* A model that planner/model/presets.c knows, by name without regard to case. TACHO_EUSAGE with
 * the closest names as hint. */
int plan_model_preset(const char *name, struct plan_model *out, struct tacho_error *err);
/* Row `index` of the presets; false behind the last. */
bool plan_model_at(size_t index, struct plan_model *out);
/* A config.json of Hugging Face: Llama, Mistral, Qwen, GPT-2, GPT-NeoX, MPT, Mixtral, DeepSeek and
 * what uses the same keys. TACHO_ENOTFOUND, TACHO_EFORMAT (no JSON, a key is missing). */
int plan_model_config(const char *path, struct plan_model *out, struct tacho_error *err);
/* "layers=32,width=4096,heads=32[,kv=8,ff=11008,vocab=32000,head_dim=128,gated=1,tied=0,
 * experts=8,active=2,positions=0]". TACHO_EUSAGE. */
int plan_model_dimensions(const char *text, struct plan_model *out, struct tacho_error *err);
/* Fills what follows from other members and refuses what is no model: 0 layers, heads that do not
 * divide the width. TACHO_EUSAGE. */
int plan_model_complete(struct plan_model *model, struct tacho_error *err);

/* ---- parameters ------------------------------------------------------------------------------ */

struct plan_parameters {
    double attention, feed_forward, norms; /* of one layer; of one with experts, where there are */
    double dense_layer;                    /* matrices and norms of a leading dense layer */
    double expert;                         /* of one routed expert */
    double embedding, head;                /* head 0: tied */
    double total, active;                  /* active: what one token visits */
};
void plan_parameters_of(const struct plan_model *model, struct plan_parameters *out);
/* Parameters of one rank of stage `stage`: layers it holds, its share of the embeddings. */
double plan_stage_parameters(const struct plan_case *of, int64_t stage);
/* Those of routed experts among them, of which only the ranks that have the same experts share the
 * sums and the optimizer, and how many ranks these are. */
double plan_stage_experts(const struct plan_case *of, int64_t stage);
/* Ranks that divide each routed expert: those of tp in the reference engine. Frameworks keep an
 * expert whole and divide all of them among the ranks of ep, which may be ranks of tp too. */
double plan_expert_ranks(const struct plan_case *of);
double plan_owners(const struct plan_layout *layout);
/* What a rank of the stage keeps of its parameters where ZeRO shards them. */
double plan_stage_share(const struct plan_case *of, int64_t stage);
/* Layers of a stage. Layers that do not divide go to the first stages; where layers and the two
 * embeddings together divide, these count as layers (as DeepSpeed's partitioning can be told). The
 * reference engine cuts at floor(layers x stage / stages). */
int64_t plan_stage_layers(const struct plan_case *of, int64_t stage);

/* ---- matrix products ------------------------------------------------------------------------- */

#define PLAN_PRODUCTS_MOST 10

/* One product of the forward pass of a layer on one rank: (tokens, inner) x (inner, outer). */
struct plan_product {
    const char *name;
    double inner, outer;
    double
        tokens;   /* share of the micro-batch's tokens that it sees: 1; experts: active / experts */
    double count; /* products of that shape */
};
/* Products of a layer with `tensor` ranks; dense: of a leading dense layer. Returns how many. */
int plan_layer_products(const struct plan_case *of, bool dense,
                        struct plan_product out[PLAN_PRODUCTS_MOST]);

/* ---- FLOPs of one sequence, forward and backward --------------------------------------------- */

#define PLAN_CONVENTION_MAP(X) \
    X(CAUSAL, "model_causal", "model FLOPs, attention to earlier tokens only") \
    X(FULL, "model_full", "model FLOPs, attention to all tokens (PaLM)") \
    X(HARDWARE, "hardware", "FLOPs with full recomputation, all tokens: 96BSLh2(1+S/6h+V/16Lh)")
enum plan_convention {
#define PLAN_CONVENTION_ENUM(name, key, text) PLAN_CONVENTION_##name,
    PLAN_CONVENTION_MAP(PLAN_CONVENTION_ENUM)
#undef PLAN_CONVENTION_ENUM
        PLAN_CONVENTIONS
};
const char *plan_convention_name(enum plan_convention convention);
const char *plan_convention_text(enum plan_convention convention);
double plan_flops(const struct plan_model *model, double sequence, enum plan_convention convention);
/* Parameters in matrix products that one token visits, the output embedding included. */
double plan_matrix_parameters(const struct plan_model *model);

#endif
