/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GPT-2 holds, in closed form: docs/engine.md derives it.
 */
#include "libtrain/gpt2.h"

void lt_gpt2_memory(const struct lt_gpt2_config *k, int64_t b, int64_t t, int threads, struct lt_memory_plan *out)
{
    uint64_t l = (uint64_t)k->layers, c = (uint64_t)k->channels, h = (uint64_t)k->heads, v = (uint64_t)k->vocab;
    uint64_t positions = (uint64_t)(k->positions < t ? t : k->positions), n = (uint64_t)(b * t);
    uint64_t parameters = v * c + positions * c + l * (12 * c * c + 13 * c) + 2 * c;
    *out = (struct lt_memory_plan){0};
    out->tag[LT_MEMORY_PARAMETERS] = out->tag[LT_MEMORY_GRADIENTS] = 4 * parameters;
    out->tag[LT_MEMORY_ACTIVATIONS] = 4 * (n * c * (16 * l + 12) + n * v + n * (4 * l + 3) + l * n * h);
    out->tag[LT_MEMORY_WORKSPACE] = 4 * (uint64_t)threads * lt_attention_scratch(t);
}
