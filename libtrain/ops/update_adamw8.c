/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW whose moments are kept in a byte each (Dettmers et al. 2022): blocks of 256 elements, each
 * with the largest magnitude that it has, and 256 codes between -1 and 1 (0 and 1 for the second
 * moment) that are dense near 0. Everything is computed in float between reading and writing codes.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/vector.h"

#define BLOCK LT_ADAMW8_BLOCK
#define CODES 256

static float codes[2][CODES];      /* [0] with a sign, [1] without, each ascending */
static float bounds[2][CODES - 1]; /* half-way to the next code */

static int ascending(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* Seven decades, 10^-6 to 1. In decade e, 2^e intervals (2^(e + 1) without a sign) of equal length
 * between a tenth of it and all of it, of which the middles are codes; and 0 and 1. */
static void make_codes(float *code, int is_signed)
{
    int used = 0;
    for (int e = 0; e < 7; e++) {
        int intervals = 1 << (is_signed ? e : e + 1);
        double decade = pow(10, e - 6);
        for (int i = 0; i < intervals; i++) {
            float middle = (float)(decade * (0.1 + 0.9 * (i + 0.5) / intervals));
            code[used++] = middle;
            if (is_signed)
                code[used++] = -middle;
        }
    }
    code[used++] = 0;
    code[used++] = 1;
    qsort(code, CODES, sizeof *code, ascending);
}

static void make_tables(void)
{
    for (int table = 0; table < 2; table++) {
        make_codes(codes[table], table == 0);
        for (int i = 0; i + 1 < CODES; i++)
            bounds[table][i] = 0.5f * (codes[table][i] + codes[table][i + 1]);
    }
}

const float *lt_adamw8_codes(int is_signed)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
    return codes[is_signed ? 0 : 1];
}

/* The code nearest to x in [-1, 1]: eight halvings. */
static uint8_t nearest(const float *bound, float x)
{
    int at = 0;
    for (int step = CODES / 2; step > 0; step /= 2)
        if (x > bound[at + step - 1])
            at += step;
    return (uint8_t)at;
}

/* Codes of `count` values, and the magnitude that they are relative to. */
static float encode(int table, const float *x, uint8_t *code, int64_t count)
{
    float most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    float inverse = most > 0 ? 1 / most : 0;
    for (int64_t i = 0; i < count; i++)
        code[i] = nearest(bounds[table], x[i] * inverse);
    return most;
}

/* One block: moments from their codes, AdamW's formula, moments into codes. */
static void update_block(const struct lt_update *update, int64_t block)
{
    const struct lt_update_terms *k = &update->terms;
    int64_t first = block * BLOCK, count = lt_min64(BLOCK, update->count - first);
    uint8_t *m_code = (uint8_t *)update->state[0] + first,
            *v_code = (uint8_t *)update->state[1] + first;
    float *m_most = update->state[2] + 2 * block, *v_most = m_most + 1;
    float *param = update->param + first, m[BLOCK], v[BLOCK];
    const float *grad = update->grad + first;
    float beta1 = (float)k->beta1, beta2 = (float)k->beta2, rest1 = (float)(1 - k->beta1),
          rest2 = (float)(1 - k->beta2), scale = (float)k->scale,
          rate = (float)(k->rate / k->correction1), inverse2 = (float)(1 / k->correction2),
          eps = (float)k->eps, shrink = (float)(1 - k->rate * k->decay);
    for (int64_t i = 0; i < count; i++) {
        float g = grad[i] * scale;
        m[i] = lt_fma(beta1, codes[0][m_code[i]] * *m_most, rest1 * g);
        v[i] = lt_fma(beta2, codes[1][v_code[i]] * *v_most, rest2 * g * g);
        float kept = first + i < update->decayed ? shrink : 1;
        param[i] = param[i] * kept - rate * m[i] / (sqrtf(v[i] * inverse2) + eps);
    }
    *m_most = encode(0, m, m_code, count);
    *v_most = encode(1, v, v_code, count);
}

void lt_adamw8(const struct lt_update *update, int parallel)
{
    int64_t blocks = (update->count + BLOCK - 1) / BLOCK;
    (void)parallel; /* a build without OpenMP */
    lt_adamw8_codes(0);
#pragma omp parallel for schedule(static) if (parallel)
    for (int64_t i = 0; i < blocks; i++)
        update_block(update, i);
}
