/* SPDX-License-Identifier: Apache-2.0
 *
 * Which parameters a rank of a GPT-2 has: of all of it, of a stage, of a part of its layers.
 */
#include "libtrain/models/gpt2_layout.h"

#include "libtrain/base/share.h"

struct lt_gpt2_stage lt_gpt2_whole(const struct lt_gpt2_config *config)
{
    return (struct lt_gpt2_stage){
        .layers = config->layers, .embeds = 1, .answers = 1, .in_flight = 1, .ranks = 1};
}

int64_t lt_gpt2_first_word(const struct gpt2 *model)
{
    return (int64_t)lt_share((size_t)model->whole.vocab, model->stage.ranks, model->stage.rank);
}

int64_t lt_gpt2_words(const struct lt_gpt2_config *config, const struct lt_gpt2_stage *stage)
{
    size_t all = (size_t)config->vocab;
    return (int64_t)(lt_share(all, stage->ranks, stage->rank + 1) -
                     lt_share(all, stage->ranks, stage->rank));
}

enum weight {
#define INDEX(name, ...) WEIGHT_##name,
    MATRICES(INDEX) VECTORS(INDEX)
#undef INDEX
};

void lt_gpt2_stage_parameters(const struct lt_gpt2_config *config,
                              const struct lt_gpt2_stage *stage, struct lt_parameters *out)
{
    int64_t l = stage->layers, c = config->channels, p = config->positions, e = stage->embeds,
            f = stage->answers, a = c / stage->ranks, w = lt_gpt2_words(config, stage);
    *out = (struct lt_parameters){.matrix = (uint64_t)(12 * l * c * a + f * w * c)};
#define ADD(name, repeat_, rows_, columns_, role_, ...) \
    lt_parameters_add(out, \
                      (struct lt_weight){.repeat = (repeat_), \
                                         .rows = (rows_), \
                                         .columns = (columns_), \
                                         .role = LT_WEIGHT_##role_}, \
                      LT_WEIGHT_##role_ != LT_WEIGHT_VECTOR);
    MATRICES(ADD)
    VECTORS(ADD)
#undef ADD
    for (int i = 0; i < out->weights; i++) /* rank 0 counts what all have */
        out->copied[i] = stage->rank > 0;
#define DIVIDED(name) out->copied[WEIGHT_##name] = 0;
    DIVIDED(word)
    DIVIDED(qkv_weight)
    DIVIDED(projection_weight)
    DIVIDED(up_weight)
    DIVIDED(down_weight)
    DIVIDED(qkv_bias)
    DIVIDED(up_bias)
#undef DIVIDED
    out->groups[WEIGHT_qkv_weight] = out->groups[WEIGHT_qkv_bias] = 3;
}

void lt_gpt2_parameters(const struct lt_gpt2_config *config, struct lt_parameters *out)
{
    struct lt_gpt2_stage whole = lt_gpt2_whole(config);
    lt_gpt2_stage_parameters(config, &whole, out);
}
