/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GPT-2 holds, in closed form: docs/engine.md derives it.
 */
#include "libtrain/base/share.h"
#include "libtrain/models/gpt2.h"

void lt_gpt2_stage_memory(const struct lt_gpt2_config *config, struct lt_gpt2_mode mode,
                          const struct lt_gpt2_stage *stage, int64_t b, int64_t t, int threads,
                          struct lt_memory_plan *out)
{
    uint64_t l = (uint64_t)stage->layers, c = (uint64_t)config->channels,
             h = (uint64_t)config->heads, e = stage->embeds != 0, f = stage->answers != 0;
    uint64_t v = (uint64_t)config->vocab, contexts = (uint64_t)lt_gpt2_contexts(stage),
             all = contexts * (uint64_t)t, turners = (uint64_t)lt_gpt2_turners(stage),
             turns = turners > 1, ring = stage->ring && contexts > 1,
             positions = (uint64_t)config->positions < all ? all : (uint64_t)config->positions;
    uint64_t n = (uint64_t)(b * t), m = n / (uint64_t)lt_gpt2_row_ranks(stage),
             flights = (uint64_t)stage->in_flight, ranks = (uint64_t)stage->ranks, a = c / ranks,
             s = ranks > 1 ? f * (ranks + 1) : 0, chunk = (uint64_t)lt_gpt2_chunk(stage);
    uint64_t w = lt_share(v, stage->ranks, stage->rank + 1) -
                 lt_share(v, stage->ranks, stage->rank),
             copy = f && !e ? w * c : 0;
    uint64_t parameters =
        e * (w * c + positions * c) + l * (12 * a * c + 6 * c + 7 * a) + f * 2 * c;
    uint64_t kept = (uint64_t)lt_gpt2_kept(mode, (int64_t)chunk),
             split = chunk * (stage->split != 0), element = lt_dtype_bytes(mode.dtype);
    parameters += copy;
    *out = (struct lt_memory_plan){0};
    out->tag[LT_MEMORY_PARAMETERS] =
        (sizeof(float) + (mode.dtype == LT_DTYPE_FP32 ? 0 : element)) * parameters;
    out->tag[LT_MEMORY_GRADIENTS] = sizeof(float) * parameters;
    out->tag[LT_MEMORY_ACTIVATIONS] =
        flights *
            (element * (m * c * (chunk + 1 + kept) + n * c * (2 * kept + f) +
                        n * a * (12 + turns) * kept + f * n * w + split * n * (7 * a + 2 * c)) +
             sizeof(float) * (m * (4 * kept + 2 * f) + f * n + kept * n * h / ranks)) +
        element * (n * (2 * c + (7 + 3 * turns + 4 * ring) * a) + m * c) +
        sizeof(float) * (s * 3 * n + ring * 5 * n * a);
    out->tag[LT_MEMORY_WORKSPACE] =
        sizeof(float) * (uint64_t)threads *
        lt_attention_scratch(mode.dtype, (int64_t)turners * t, config->channels / config->heads);
}

void lt_gpt2_memory(const struct lt_gpt2_config *config, struct lt_gpt2_mode mode, int64_t b,
                    int64_t t, int threads, struct lt_memory_plan *out)
{
    struct lt_gpt2_stage whole = lt_gpt2_whole(config);
    lt_gpt2_stage_memory(config, mode, &whole, b, t, threads, out);
}
