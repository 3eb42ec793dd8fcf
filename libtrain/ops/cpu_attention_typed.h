/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): causal attention of the backend cpu. Threads over (sequence, head); inside,
 * blocks of LT_ATTENTION_BLOCK query rows against the keys up to the block's last row, as
 * GEMMs. Only the upper triangle of the diagonal block is multiplied in vain. Backward
 * recomputes the probabilities of a block from the saved log-sum-exp instead of keeping t * t of
 * them a head.
 *
 * Scores and the sums of dk and dv over blocks are floats for both types; what a product reads is
 * of the element's type.
 */

/* One head of one sequence. Rows of q, k, v and their gradients are `row` elements apart, those of
 * out `c`. */
struct TYPED(head) {
    const ELEMENT *q, *k, *v, *dout;
    ELEMENT *dq, *dk, *dv, *out;
    float *lse;
    int64_t t, d, c, row;
    float scale;
    /* scratch of this thread: scores and their gradients, the same as elements (fp32: in the same
     * place), sums of dk and dv */
    float *s, *ds, *dk_sum, *dv_sum;
    ELEMENT *p_element, *ds_element;
};

static struct TYPED(head) TYPED(head_of)(const struct lt_attention *a, int64_t bh)
{
    int64_t d = a->c / a->h, row = 3 * a->c, block = LT_ATTENTION_BLOCK * rounded(a->t);
    int64_t at = bh / a->h * a->t * row + bh % a->h * d,
            at_out = bh / a->h * a->t * a->c + bh % a->h * d;
    struct TYPED(head) h = {.q = (const ELEMENT *)a->qkv + at,
                            .out = (ELEMENT *)a->out + at_out,
                            .lse = a->lse + bh * a->t,
                            .t = a->t,
                            .d = d,
                            .c = a->c,
                            .row = row,
                            .scale = 1.0f / sqrtf((float)d)};
    h.k = h.q + a->c;
    h.v = h.k + a->c;
    if (a->dqkv) {
        h.dout = (const ELEMENT *)a->dout + at_out;
        h.dq = (ELEMENT *)a->dqkv + at;
        h.dk = h.dq + a->c;
        h.dv = h.dk + a->c;
    }
    h.s = a->scratch + (size_t)omp_get_thread_num() * lt_attention_scratch(DTYPE, a->t, d);
    h.ds = h.s + block;
    h.dk_sum = h.ds + block;
    h.dv_sum = h.dk_sum + rounded(a->t * d);
    int apart = DTYPE != LT_DTYPE_FP32;
    h.p_element = (ELEMENT *)(void *)(apart ? h.dv_sum + rounded(a->t * d) : h.s);
    h.ds_element = apart ? h.p_element + block : (ELEMENT *)(void *)h.ds;
    return h;
}

static struct lt_matrix TYPED(plain)(const ELEMENT *at, int64_t row)
{
    return (struct lt_matrix){at, row, 1};
}

static struct lt_matrix TYPED(turned)(const ELEMENT *at, int64_t row)
{
    return (struct lt_matrix){at, 1, row};
}

/* float c[m,n] = a b, or += with `add`; its rows are c_row apart */
static void TYPED(product_rows)(int64_t m, int64_t n, int64_t k, struct lt_matrix a,
                                struct lt_matrix b, float *c, int64_t c_row, int add)
{
    lt_gemm(&(struct lt_product){.m = m,
                                 .n = n,
                                 .k = k,
                                 .a = a,
                                 .b = b,
                                 .c = c,
                                 .c_row = c_row,
                                 .add = add,
                                 .in = DTYPE,
                                 .out = LT_DTYPE_FP32});
}

/* The same, its rows one behind the other. */
static void TYPED(product)(int64_t m, int64_t n, int64_t k, struct lt_matrix a, struct lt_matrix b,
                           float *c, int add)
{
    TYPED(product_rows)(m, n, k, a, b, c, n, add);
}

/* elements c[m,n] = a b */
static void TYPED(product_rounded)(int64_t m, int64_t n, int64_t k, struct lt_matrix a,
                                   struct lt_matrix b, ELEMENT *c, int64_t c_row)
{
    lt_gemm(&(struct lt_product){
        .m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .c_row = c_row, .in = DTYPE, .out = DTYPE});
}

/* Softmax of scale * s over the first `keys` scores of a row; the masked rest up to `end` becomes
 * 0, as the GEMMs need. Returns the logarithm of the sum of exponentials. */
static float TYPED(softmax_row)(float *s, ELEMENT *p, float scale, int64_t keys, int64_t end)
{
    float max = scale * lt_max(s, keys), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < keys; j++) {
        s[j] = lt_exp(lt_fma(s[j], scale, -max));
        sum += s[j];
    }
    float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < keys; j++)
        p[j] = PUT(s[j] * inverse);
    for (int64_t j = keys; j < end; j++)
        p[j] = 0;
    return max + logf(sum);
}

static void TYPED(head_forward)(const struct TYPED(head) * h)
{
    for (int64_t from = 0; from < h->t; from += LT_ATTENTION_BLOCK) {
        int64_t end = lt_min64(from + LT_ATTENTION_BLOCK, h->t), rows = end - from;
        TYPED(product)
        (rows, end, h->d, TYPED(plain)(h->q + from * h->row, h->row), TYPED(turned)(h->k, h->row),
         h->s, 0);
        for (int64_t i = 0; i < rows; i++)
            h->lse[from + i] = TYPED(softmax_row)(h->s + i * end, h->p_element + i * end, h->scale,
                                                  from + i + 1, end);
        TYPED(product_rounded)
        (rows, h->d, end, TYPED(plain)(h->p_element, end), TYPED(plain)(h->v, h->row),
         h->out + from * h->c, h->c);
    }
}

/* A row of the softmax over the keys so far: `sum` and *lse take in those of one more part, of
 * which out and its own log-sum-exp are known. */
static void TYPED(take_in)(float *sum, float *lse, const float *out, float part, int64_t d)
{
    float max = *lse > part ? *lse : part,
          both = max + logf(lt_exp(*lse - max) + lt_exp(part - max)), before = lt_exp(*lse - both),
          now = lt_exp(part - both);
#pragma omp simd
    for (int64_t c = 0; c < d; c++)
        sum[c] = before * sum[c] + now * out[c];
    *lse = both;
}

/* One head of one sequence against one part of the keys (ops.h). */
static void TYPED(part_forward)(const struct lt_attention *a, const struct TYPED(head) * h,
                                int64_t bh)
{
    int64_t row = 2 * a->c, first = bh / a->h * a->t;
    const ELEMENT *k = (const ELEMENT *)a->kv + first * row + bh % a->h * h->d, *v = k + a->c;
    float *sum = a->sum + first * a->c + bh % a->h * h->d, *out = h->dk_sum;
    for (int64_t from = a->skip; from < h->t; from += LT_ATTENTION_BLOCK) {
        int64_t rows = lt_min64(LT_ATTENTION_BLOCK, h->t - from),
                end = a->own ? from + rows : h->t - a->hidden;
        TYPED(product)
        (rows, end, h->d, TYPED(plain)(h->q + from * h->row, h->row), TYPED(turned)(k, row), h->s,
         0);
        for (int64_t i = 0; i < rows; i++)
            h->dv_sum[i] = TYPED(softmax_row)(h->s + i * end, h->p_element + i * end, h->scale,
                                              a->own ? from + i + 1 : end, end);
        if (a->own) {
            memcpy(h->lse + from, h->dv_sum, (size_t)rows * sizeof *h->lse);
            TYPED(product_rows)
            (rows, h->d, end, TYPED(plain)(h->p_element, end), TYPED(plain)(v, row),
             sum + from * a->c, a->c, 0);
            continue;
        }
        TYPED(product)
        (rows, h->d, end, TYPED(plain)(h->p_element, end), TYPED(plain)(v, row), out, 0);
        for (int64_t i = 0; i < rows; i++)
            TYPED(take_in)
        (sum + (from + i) * a->c, &h->lse[from + i], out + i * h->d, h->dv_sum[i], h->d);
    }
    for (int64_t i = 0; a->last && i < h->t; i++)
        for (int64_t c = 0; c < h->d; c++)
            h->out[i * a->c + c] = PUT(sum[i * a->c + c]);
}

void TYPED(lt_cpu_attention_forward)(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_forward;
#pragma omp parallel for schedule(static) num_threads(a->slots)
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        struct TYPED(head) h = TYPED(head_of)(a, bh);
        if (a->kv)
            TYPED(part_forward)(a, &h, bh);
        else
            TYPED(head_forward)(&h);
    }
}

/* ds = p (dp - D) scale, with D = dO.O of row i of the head, which sees so many keys; the masked
 * places after them become 0. s and dp are rows of scores and of dO v'; p comes from the scores. */
static void TYPED(softmax_backward_row)(const struct TYPED(head) * h, int64_t i, int64_t keys,
                                        int64_t end, int64_t at)
{
    const ELEMENT *out = h->out + i * h->c, *dout = h->dout + i * h->c;
    const float *s = h->s + at, *dp = h->ds + at;
    ELEMENT *p = h->p_element + at, *ds = h->ds_element + at;
    float lse = h->lse[i], scale = h->scale, big_d = 0;
#pragma omp simd reduction(+ : big_d)
    for (int64_t c = 0; c < h->d; c++)
        big_d += GET(out[c]) * GET(dout[c]);
#pragma omp simd
    for (int64_t j = 0; j < keys; j++) {
        float share = lt_exp(lt_fma(s[j], scale, -lse));
        ds[j] = PUT(share * (dp[j] - big_d) * scale);
        p[j] = PUT(share);
    }
    for (int64_t j = keys; j < end; j++)
        p[j] = ds[j] = 0;
}

static void TYPED(round_rows)(ELEMENT *to, int64_t row, const float *from, int64_t rows, int64_t d)
{
    for (int64_t i = 0; i < rows; i++)
#pragma omp simd
        for (int64_t c = 0; c < d; c++)
            to[i * row + c] = PUT(from[i * d + c]);
}

/* From the last block to the first: the last one reaches all keys, so it sets the sums of dk and
 * dv, and the others add. */
static void TYPED(head_backward)(const struct TYPED(head) * h)
{
    int add = 0;
    for (int64_t from = (h->t - 1) / LT_ATTENTION_BLOCK * LT_ATTENTION_BLOCK; from >= 0;
         from -= LT_ATTENTION_BLOCK) {
        int64_t end = lt_min64(from + LT_ATTENTION_BLOCK, h->t), rows = end - from;
        const ELEMENT *q = h->q + from * h->row, *dout = h->dout + from * h->c;
        TYPED(product)
        (rows, end, h->d, TYPED(plain)(q, h->row), TYPED(turned)(h->k, h->row), h->s, 0);
        TYPED(product)
        (rows, end, h->d, TYPED(plain)(dout, h->c), TYPED(turned)(h->v, h->row), h->ds, 0);
        for (int64_t i = 0; i < rows; i++)
            TYPED(softmax_backward_row)(h, from + i, from + i + 1, end, i * end);
        TYPED(product)
        (end, h->d, rows, TYPED(turned)(h->p_element, end), TYPED(plain)(dout, h->c), h->dv_sum,
         add);
        TYPED(product_rounded)
        (rows, h->d, end, TYPED(plain)(h->ds_element, end), TYPED(plain)(h->k, h->row),
         h->dq + from * h->row, h->row);
        TYPED(product)
        (end, h->d, rows, TYPED(turned)(h->ds_element, end), TYPED(plain)(q, h->row), h->dk_sum,
         add);
        add = 1;
    }
    TYPED(round_rows)(h->dk, h->row, h->dk_sum, h->t, h->d);
    TYPED(round_rows)(h->dv, h->row, h->dv_sum, h->t, h->d);
}

/* The gradients of one part of the keys, and what it adds to that of the queries (ops.h). */
static void TYPED(part_backward)(const struct lt_attention *a, const struct TYPED(head) * h,
                                 int64_t bh)
{
    int64_t row = 2 * a->c, first = bh / a->h * a->t, head = bh % a->h * h->d;
    const ELEMENT *k = (const ELEMENT *)a->kv + first * row + head, *v = k + a->c;
    float *sum = a->sum + first * a->c + head, *dk = a->dkv + first * row + head, *dv = dk + a->c;
    for (int64_t from = a->skip; from < h->t; from += LT_ATTENTION_BLOCK) {
        int64_t rows = lt_min64(LT_ATTENTION_BLOCK, h->t - from),
                end = a->own ? from + rows : h->t - a->hidden;
        const ELEMENT *q = h->q + from * h->row, *dout = h->dout + from * h->c;
        TYPED(product)(rows, end, h->d, TYPED(plain)(q, h->row), TYPED(turned)(k, row), h->s, 0);
        TYPED(product)
        (rows, end, h->d, TYPED(plain)(dout, h->c), TYPED(turned)(v, row), h->ds, 0);
        for (int64_t i = 0; i < rows; i++)
            TYPED(softmax_backward_row)
        (h, from + i, a->own ? from + i + 1 : end, end, i * end);
        TYPED(product_rows)
        (end, h->d, rows, TYPED(turned)(h->p_element, end), TYPED(plain)(dout, h->c), dv, row, 1);
        TYPED(product_rows)
        (rows, h->d, end, TYPED(plain)(h->ds_element, end), TYPED(plain)(k, row), sum + from * a->c,
         a->c, !a->own);
        TYPED(product_rows)
        (end, h->d, rows, TYPED(turned)(h->ds_element, end), TYPED(plain)(q, h->row), dk, row, 1);
    }
    for (int64_t i = 0; a->last && i < h->t; i++)
        for (int64_t c = 0; c < h->d; c++)
            h->dq[i * h->row + c] = PUT(sum[i * a->c + c]);
}

void TYPED(lt_cpu_attention_backward)(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_backward;
#pragma omp parallel for schedule(static) num_threads(a->slots)
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        struct TYPED(head) h = TYPED(head_of)(a, bh);
        if (a->kv)
            TYPED(part_backward)(a, &h, bh);
        else
            TYPED(head_backward)(&h);
    }
}
