/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend, causal attention: threads over (sequence, head); inside, blocks of LT_ATTENTION_BLOCK query rows against the
 * keys up to the block's last row, as matrix products. Only the upper triangle of the diagonal block is multiplied in vain.
 * Backward recomputes the probabilities of a block from the saved log-sum-exp instead of keeping t * t of them a head.
 */
#include "libtrain/gemm.h"
#include "libtrain/kernels.h"
#include "libtrain/openmp.h"
#include "libtrain/vector.h"

/* One head of one sequence. Rows of q, k, v and their gradients are `row` floats apart, those of out `c`. */
struct head {
    const float *q, *k, *v, *dout;
    float *dq, *dk, *dv, *out, *lse;
    int64_t t, d, c, row;
    float scale;
};

uint64_t lt_attention_pairs(enum lt_backend backend, int64_t t)
{
    uint64_t pairs = 0;
    if (backend == LT_BACKEND_REFERENCE)
        return (uint64_t)t * (uint64_t)(t + 1) / 2;
    for (int64_t from = 0; from < t; from += LT_ATTENTION_BLOCK) {
        int64_t end = from + LT_ATTENTION_BLOCK < t ? from + LT_ATTENTION_BLOCK : t;
        pairs += (uint64_t)(end - from) * (uint64_t)end;
    }
    return pairs;
}

/* Probabilities and their gradients of one block of rows, and D of its rows. */
size_t lt_attention_scratch(int64_t t)
{
    return 2 * LT_ATTENTION_BLOCK * ((size_t)(t + 15) / 16 * 16) + LT_ATTENTION_BLOCK;
}

/* A matrix with contiguous rows, and its transpose. */
static struct lt_matrix plain(const float *at, int64_t ld)
{
    return (struct lt_matrix){at, ld, 1};
}

static struct lt_matrix turned(const float *at, int64_t ld)
{
    return (struct lt_matrix){at, 1, ld};
}

static struct head head_of(const struct lt_attention *a, int64_t bh)
{
    int64_t d = a->c / a->h, row = 3 * a->c;
    int64_t at = bh / a->h * a->t * row + bh % a->h * d, at_out = bh / a->h * a->t * a->c + bh % a->h * d;
    struct head h = {
        .q = a->qkv + at, .out = a->out + at_out, .lse = a->lse + bh * a->t, .t = a->t, .d = d, .c = a->c, .row = row};
    h.k = h.q + a->c;
    h.v = h.k + a->c;
    if (a->dqkv) {
        h.dout = a->dout + at_out;
        h.dq = a->dqkv + at;
        h.dk = h.dq + a->c;
        h.dv = h.dk + a->c;
    }
    h.scale = 1.0f / sqrtf((float)d);
    return h;
}

/* s[rows,end] = scale * q k' for query rows from .. from + rows against keys 0 .. end */
static void scores(const struct head *h, int64_t from, int64_t rows, int64_t end, float *s)
{
    lt_gemm(rows, end, h->d, h->scale, plain(h->q + from * h->row, h->row), turned(h->k, h->row), 0.0f, s, end);
}

/* Softmax of one row over its first `keys` scores; the masked rest up to `end` becomes 0, as the products need. */
static float softmax_row(float *s, int64_t keys, int64_t end)
{
    float max = lt_max(s, keys), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < keys; j++) {
        s[j] = lt_exp(s[j] - max);
        sum += s[j];
    }
    float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < keys; j++)
        s[j] *= inverse;
    for (int64_t j = keys; j < end; j++)
        s[j] = 0.0f;
    return max + logf(sum);
}

static void head_forward(const struct head *h, float *s)
{
    for (int64_t from = 0; from < h->t; from += LT_ATTENTION_BLOCK) {
        int64_t end = from + LT_ATTENTION_BLOCK < h->t ? from + LT_ATTENTION_BLOCK : h->t, rows = end - from;
        scores(h, from, rows, end, s);
        for (int64_t i = 0; i < rows; i++)
            h->lse[from + i] = softmax_row(s + i * end, from + i + 1, end);
        lt_gemm(rows, h->d, end, 1.0f, plain(s, end), plain(h->v, h->row), 0.0f, h->out + from * h->c, h->c);
    }
}

void lt_cpu_attention_forward(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_forward;
#pragma omp parallel for schedule(static) num_threads(a->slots)
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        struct head h = head_of(a, bh);
        head_forward(&h, a->scratch + (size_t)omp_get_thread_num() * lt_attention_scratch(a->t));
    }
}

/* dp becomes ds = p (dp - D) scale, with D = dO.O of the row; masked places become 0. p is made from the scores on the way. */
static void softmax_backward_row(const struct head *h, int64_t i, int64_t end, float *p, float *dp)
{
    const float *out = h->out + i * h->c, *dout = h->dout + i * h->c;
    float lse = h->lse[i], scale = h->scale, big_d = 0;
#pragma omp simd reduction(+ : big_d)
    for (int64_t c = 0; c < h->d; c++)
        big_d += out[c] * dout[c];
#pragma omp simd
    for (int64_t j = 0; j <= i; j++) {
        p[j] = lt_exp(p[j] - lse);
        dp[j] = p[j] * (dp[j] - big_d) * scale;
    }
    for (int64_t j = i + 1; j < end; j++)
        p[j] = dp[j] = 0.0f;
}

/* From the last block to the first: the last one reaches all keys, so it sets dk and dv, and the others add. */
static void head_backward(const struct head *h, float *p)
{
    float *dp = p + LT_ATTENTION_BLOCK * ((h->t + 15) / 16 * 16);
    float beta = 0.0f;
    for (int64_t from = (h->t - 1) / LT_ATTENTION_BLOCK * LT_ATTENTION_BLOCK; from >= 0; from -= LT_ATTENTION_BLOCK) {
        int64_t end = from + LT_ATTENTION_BLOCK < h->t ? from + LT_ATTENTION_BLOCK : h->t, rows = end - from;
        const float *dout = h->dout + from * h->c;
        scores(h, from, rows, end, p);
        lt_gemm(rows, end, h->d, 1.0f, plain(dout, h->c), turned(h->v, h->row), 0.0f, dp, end);
        for (int64_t i = 0; i < rows; i++)
            softmax_backward_row(h, from + i, end, p + i * end, dp + i * end);
        lt_gemm(end, h->d, rows, 1.0f, turned(p, end), plain(dout, h->c), beta, h->dv, h->row);
        lt_gemm(rows, h->d, end, 1.0f, plain(dp, end), plain(h->k, h->row), 0.0f, h->dq + from * h->row, h->row);
        lt_gemm(end, h->d, rows, 1.0f, turned(dp, end), plain(h->q + from * h->row, h->row), beta, h->dk, h->row);
        beta = 1.0f;
    }
}

void lt_cpu_attention_backward(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_backward;
#pragma omp parallel for schedule(static) num_threads(a->slots)
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        struct head h = head_of(a, bh);
        head_backward(&h, a->scratch + (size_t)omp_get_thread_num() * lt_attention_scratch(a->t));
    }
}
