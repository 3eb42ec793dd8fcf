/* SPDX-License-Identifier: Apache-2.0
 *
 * Models by name: the dimensions that their papers and configuration files give.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "planner/model/model.h"

/* name, layers, width, heads, kv heads, head dim, feed-forward, vocabulary, positions, gated, tied
 */
#define DENSE(name, l, h, a, kv, d, f, v, p, g, t) \
    { \
        name, l, h, a, kv, d, f, v, 0, 0, 0, 0, 0, 0, 0, 0, p, g, t \
    }
/* the same without positions and with: experts, active, inner width of shared ones, leading dense
 * layers, their inner width */
#define MIXED(name, l, h, a, kv, d, f, v, e, k, s, n, w, t) \
    { \
        name, l, h, a, kv, d, f, v, e, k, s, n, w, 0, 0, 0, 0, true, t \
    }

static const struct plan_model presets[] = {
    DENSE("gpt2", 12, 768, 12, 12, 64, 3072, 50257, 1024, false, true),
    DENSE("gpt2-medium", 24, 1024, 16, 16, 64, 4096, 50257, 1024, false, true),
    DENSE("gpt2-large", 36, 1280, 20, 20, 64, 5120, 50257, 1024, false, true),
    DENSE("gpt2-xl", 48, 1600, 25, 25, 64, 6400, 50257, 1024, false, true),
    DENSE("gpt3-175b", 96, 12288, 96, 96, 128, 49152, 50257, 2048, false, true),
    DENSE("opt-175b", 96, 12288, 96, 96, 128, 49152, 50272, 2048, false, true),
    DENSE("bloom-176b", 70, 14336, 112, 112, 128, 57344, 250880, 0, false, true),
    DENSE("mt-nlg-530b", 105, 20480, 128, 128, 160, 81920, 51200, 2048, false, true),
    DENSE("palm-540b", 118, 18432, 48, 1, 256, 73728, 256000, 0, true, true),
    DENSE("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000, 0, true, false),
    DENSE("llama-13b", 40, 5120, 40, 40, 128, 13824, 32000, 0, true, false),
    DENSE("llama-33b", 60, 6656, 52, 52, 128, 17920, 32000, 0, true, false),
    DENSE("llama-65b", 80, 8192, 64, 64, 128, 22016, 32000, 0, true, false),
    DENSE("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 0, true, false),
    DENSE("llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 0, true, false),
    DENSE("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 0, true, false),
    DENSE("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 0, true, false),
    DENSE("llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 0, true, false),
    DENSE("llama-3-405b", 126, 16384, 128, 8, 128, 53248, 128256, 0, true, false),
    DENSE("llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 0, true, true),
    DENSE("llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, 0, true, true),
    DENSE("mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, 0, true, false),
    DENSE("qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 0, true, false),
    DENSE("qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, 0, true, false),
    DENSE("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 0, true, false),
    DENSE("qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, 0, true, false),
    DENSE("nemotron-4-15b", 32, 6144, 48, 8, 128, 24576, 256000, 0, false, false),
    DENSE("nemotron-4-340b", 96, 18432, 96, 8, 192, 73728, 256000, 0, false, false),
    MIXED("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 8, 2, 0, 0, 0, false),
    MIXED("mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32768, 8, 2, 0, 0, 0, false),
    MIXED("qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, 128, 8, 0, 0, 0, false),
    MIXED("qwen3-235b-a22b", 94, 4096, 64, 4, 128, 1536, 151936, 128, 8, 0, 0, 0, false),
    MIXED("gpt-oss-20b", 24, 2880, 64, 8, 64, 2880, 201088, 32, 4, 0, 0, 0, false),
    MIXED("gpt-oss-120b", 36, 2880, 64, 8, 64, 2880, 201088, 128, 4, 0, 0, 0, false),
    {"deepseek-v3", 61, 7168, 128, 128, 192, 2048, 129280, 256, 8, 2048, 3, 18432, 512, 1536, 128,
     0, true, false},
};
#define PRESETS (sizeof presets / sizeof *presets)

bool plan_model_at(size_t index, struct plan_model *out)
{
    if (index < PRESETS)
        *out = presets[index];
    return index < PRESETS;
}

/* Lists the names that hold the first letters of `name`, or some. */
static void suggest(const char *name, char *hint, size_t bytes)
{
    size_t used = (size_t)snprintf(hint, bytes, "known are for example"), found = 0;
    for (int like = 1; like >= 0 && !found; like--)
        for (size_t i = 0; i < PRESETS && found < 6; i += like ? 1 : 5) {
            if (like && strncasecmp(presets[i].name, name, 3))
                continue;
            int length =
                snprintf(hint + used, bytes - used, "%s %s", found++ ? "," : "", presets[i].name);
            used += length > 0 && used + (size_t)length < bytes ? (size_t)length : 0;
        }
}

int plan_model_preset(const char *name, struct plan_model *out, struct tacho_error *err)
{
    char hint[250];
    for (size_t i = 0; i < PRESETS; i++)
        if (!strcasecmp(presets[i].name, name)) {
            *out = presets[i];
            return 0;
        }
    suggest(name, hint, sizeof hint);
    return tacho_fail(err, TACHO_EUSAGE, hint,
                      "%.80s: no model of this name, no config.json, no dimensions", name);
}
