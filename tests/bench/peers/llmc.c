/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of llm.c's GPT-2 124M on the CPU, for tests/bench/engine.sh: its own train_gpt2.c is included (from the checkout that
 * LLMC_DIR names; nothing of it is here) and called as its main does, with weights and words drawn at random. The checkpoint
 * that it wants to read is written first, in its format: 256 integers, of which magic, version 3, context, words, layers,
 * heads, channels and padded words count, then all parameters as floats.
 *
 * usage: llmc T STEPS CHECKPOINT     prints `step MS` for each step after one for warming up
 */
#define TESTING
#include "train_gpt2.c"

#include <stdint.h>
#include <time.h>

enum { LAYERS = 12, CHANNELS = 768, HEADS_OF = 12, WORDS = 50257, PADDED = 50304, CONTEXT = 1024, BATCH = 4 };

static uint64_t state = 1;

static uint32_t draw(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}

static float uniform(float most)
{
    return most * (2.0f * (float)draw() / 2147483648.0f - 1.0f);
}

static int write_checkpoint(const char *path)
{
    const int c = CHANNELS, l = LAYERS;
    /* in the order of its parameter tensors; scale 0: weights of a norm, all 1 */
    const struct {
        long count;
        float scale;
    } tensors[] = {{(long)PADDED * c, 0.03f},
                   {(long)CONTEXT * c, 0.03f},
                   {l * c, 0},
                   {l * c, 1e-3f},
                   {(long)l * 3 * c * c, 0.03f},
                   {l * 3 * c, 1e-3f},
                   {(long)l * c * c, 0.03f},
                   {l * c, 1e-3f},
                   {l * c, 0},
                   {l * c, 1e-3f},
                   {(long)l * 4 * c * c, 0.03f},
                   {l * 4 * c, 1e-3f},
                   {(long)l * c * 4 * c, 0.03f},
                   {l * c, 1e-3f},
                   {c, 0},
                   {c, 1e-3f}};
    int header[256] = {20240326, 3, CONTEXT, WORDS, LAYERS, HEADS_OF, CHANNELS, PADDED};
    float block[4096];
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(header, sizeof header, 1, f) == 1;
    for (size_t i = 0; ok && i < sizeof tensors / sizeof *tensors; i++)
        for (long at = 0; ok && at < tensors[i].count; at += 4096) {
            size_t n = tensors[i].count - at < 4096 ? (size_t)(tensors[i].count - at) : 4096;
            for (size_t j = 0; j < n; j++)
                block[j] = tensors[i].scale > 0 ? uniform(tensors[i].scale) : 1.0f;
            ok = fwrite(block, sizeof *block, n, f) == n;
        }
    return f && fclose(f) == 0 && ok ? 0 : -1;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    static int words[BATCH * CONTEXT + 1];
    GPT2 model;
    if (argc != 4) {
        fprintf(stderr, "usage: llmc T STEPS CHECKPOINT\n");
        return 2;
    }
    int t = atoi(argv[1]), steps = atoi(argv[2]);
    if (t < 1 || t > CONTEXT || (access(argv[3], R_OK) && write_checkpoint(argv[3]))) {
        fprintf(stderr, "llmc: %s: cannot be written\n", argv[3]);
        return 3;
    }
    memset(&model, 0, sizeof model);
    gpt2_build_from_checkpoint(&model, argv[3]);
    for (int i = 0; i < BATCH * t + 1; i++)
        words[i] = (int)(draw() % WORDS);
    for (int i = -1; i < steps; i++) {
        double begin = now_ms();
        gpt2_forward(&model, words, words + 1, BATCH, (size_t)t);
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, i + 2);
        if (i >= 0) {
            printf("step %.3f\n", now_ms() - begin);
            fflush(stdout);
        }
    }
    printf("loss %.4f\n", (double)model.mean_loss);
    gpt2_free(&model);
    return 0;
}
