/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): the memory-bound operations of the backend cpu. OpenMP over rows or columns,
 * simple inner loops the compiler vectorises.
 *
 * Every sum is taken in an order that does not depend on timing: sums over rows are split by column
 * among the threads, so that a run is repeated bit by bit, and a resumed run continues bit by bit.
 */

void TYPED(lt_cpu_embedding_forward)(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_forward;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->b * a->t; i++) {
        const ELEMENT *word = (const ELEMENT *)a->word + a->tokens[i] * a->c;
        ELEMENT *out = (ELEMENT *)a->out + i * a->c;
        if (!a->position) {
            memcpy(out, word, (size_t)a->c * sizeof *out);
            continue;
        }
        const ELEMENT *position =
            (const ELEMENT *)a->position + lt_embedding_position(a->t, a->jump, i) * a->c;
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            out[c] = PUT(GET(word[c]) + GET(position[c]));
    }
}

static inline void TYPED(add_row)(float *sum, const ELEMENT *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += GET(x[i]);
}

/* Tokens repeat, so rows of dword collide: threads take columns, each goes through all tokens. */
void TYPED(lt_cpu_embedding_backward)(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_backward;
#pragma omp parallel for schedule(static)
    for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS) {
        int64_t n = lt_min64(COLUMNS, a->c - c0);
        for (int64_t i = 0; i < a->b * a->t; i++) {
            const ELEMENT *dout = (const ELEMENT *)a->dout + i * a->c + c0;
            TYPED(add_row)(a->dword + a->tokens[i] * a->c + c0, dout, n);
            if (a->dposition)
                TYPED(add_row)
            (a->dposition + lt_embedding_position(a->t, a->jump, i) * a->c + c0, dout, n);
        }
    }
}

void TYPED(lt_cpu_layernorm_forward)(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_forward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c;
        ELEMENT *out = (ELEMENT *)a->out + r * a->c;
        float mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t c = 0; c < a->c; c++)
            mean += GET(x[c]);
        mean /= (float)a->c;
#pragma omp simd reduction(+ : variance)
        for (int64_t c = 0; c < a->c; c++)
            variance += (GET(x[c]) - mean) * (GET(x[c]) - mean);
        float rstd = 1.0f / sqrtf(variance / (float)a->c + LT_LAYERNORM_EPS);
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            out[c] = PUT(lt_fma((GET(x[c]) - mean) * rstd, a->weight[c], a->bias[c]));
        a->mean[r] = mean;
        a->rstd[r] = rstd;
    }
}

static void TYPED(layernorm_backward_row)(const struct lt_layernorm *a, int64_t r)
{
    const ELEMENT *x = (const ELEMENT *)a->in + r * a->c, *dy = (const ELEMENT *)a->dout + r * a->c;
    ELEMENT *din = (ELEMENT *)a->din + r * a->c;
    float mean = a->mean[r], rstd = a->rstd[r], sum = 0, sum_hat = 0;
#pragma omp simd reduction(+ : sum, sum_hat)
    for (int64_t c = 0; c < a->c; c++) {
        float g = GET(dy[c]) * a->weight[c];
        sum += g;
        sum_hat += g * ((GET(x[c]) - mean) * rstd);
    }
    sum /= (float)a->c;
    sum_hat /= (float)a->c;
#pragma omp simd
    for (int64_t c = 0; c < a->c; c++) {
        float hat = (GET(x[c]) - mean) * rstd, g = GET(dy[c]) * a->weight[c];
        din[c] = PUT(GET(din[c]) + rstd * (g - sum - hat * sum_hat));
    }
}

/* Inlined where n is a constant, the two sums stay in registers. */
static inline __attribute__((always_inline)) void
TYPED(layernorm_backward_columns)(const struct lt_layernorm *a, int64_t c0, int64_t n)
{
    float dweight[COLUMNS] = {0}, dbias[COLUMNS] = {0};
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c + c0,
                      *dy = (const ELEMENT *)a->dout + r * a->c + c0;
        float mean = a->mean[r], rstd = a->rstd[r];
#pragma omp simd
        for (int64_t c = 0; c < n; c++) {
            dweight[c] += GET(dy[c]) * ((GET(x[c]) - mean) * rstd);
            dbias[c] += GET(dy[c]);
        }
    }
    for (int64_t c = 0; c < n; c++) {
        a->dweight[c0 + c] += dweight[c];
        a->dbias[c0 + c] += dbias[c];
    }
}

void TYPED(lt_cpu_layernorm_backward)(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_backward;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t r = 0; r < a->rows; r++)
            TYPED(layernorm_backward_row)(a, r);
#pragma omp for schedule(static)
        for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS)
            if (a->c - c0 >= COLUMNS)
                TYPED(layernorm_backward_columns)(a, c0, COLUMNS);
            else
                TYPED(layernorm_backward_columns)(a, c0, a->c - c0);
    }
}

void TYPED(lt_cpu_gelu_forward)(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_forward;
    const ELEMENT *in = a->in;
    ELEMENT *out = a->out;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++)
        out[i] = PUT(GET(in[i]) * gelu_gate(GET(in[i])));
}

/* With s = 1 / (1 + exp(-2 u)): tanh u = 2 s - 1 and 1 - tanh^2 u = 4 s (1 - s). */
void TYPED(lt_cpu_gelu_backward)(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_backward;
    const ELEMENT *in = a->in, *dout = a->dout;
    ELEMENT *din = a->din;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++) {
        float x = GET(in[i]), s = gelu_gate(x);
        float slope = 2.0f * LT_GELU_SCALE * lt_fma(3.0f * LT_GELU_CUBIC * x, x, 1.0f);
        din[i] = PUT(GET(dout[i]) * lt_fma(x * s * (1.0f - s), slope, s));
    }
}

void TYPED(lt_cpu_residual_forward)(const union lt_args *args)
{
    const struct lt_residual *sum = &args->residual_forward;
    const ELEMENT *a = sum->a, *b = sum->b;
    ELEMENT *out = sum->out;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < sum->count; i++)
        out[i] = PUT(GET(a[i]) + GET(b[i]));
}

/* Largest of n >= 1 elements. In lanes, because compilers do not turn a maximum into vectors where
 * a NaN could come by. */
static float TYPED(largest)(const ELEMENT *x, int64_t n)
{
    enum { LANES = 32 };
    float lane[LANES], max = GET(x[0]);
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = max;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = GET(x[i + j]) > lane[j] ? GET(x[i + j]) : lane[j];
    for (; i < n; i++)
        max = GET(x[i]) > max ? GET(x[i]) : max;
    for (int j = 0; j < LANES; j++)
        max = lane[j] > max ? lane[j] : max;
    return max;
}

/* The exponentials are taken twice, not stored in between: a bf16 has no room for them. */
static void TYPED(classifier_row)(const struct lt_classifier *a, int64_t r)
{
    ELEMENT *x = (ELEMENT *)a->logits + r * a->v;
    float max = TYPED(largest)(x, a->v), sum = 0, scale = a->scale;
    int32_t target = a->targets[r];
    float hit = GET(x[target]) - max;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < a->v; i++)
        sum += lt_exp(GET(x[i]) - max);
    a->losses[r] = logf(sum) - hit;
    if (!a->backward)
        return;
    float share = scale / sum;
#pragma omp simd
    for (int64_t i = 0; i < a->v; i++)
        x[i] = PUT(lt_exp(GET(x[i]) - max) * share);
    x[target] = PUT(lt_exp(hit) * share - scale);
}

void TYPED(lt_cpu_classifier)(const union lt_args *args)
{
    const struct lt_classifier *a = &args->classifier;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        TYPED(classifier_row)(a, r);
}

/* ---- linear layers ---------------------------------------------------------------------------------------------------------- */

static void TYPED(bias_columns)(const struct lt_matmul *a, int64_t n0)
{
    float sum[COLUMNS] = {0};
    int64_t count = lt_min64(COLUMNS, a->n - n0);
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *dout = (const ELEMENT *)a->dout + r * a->n + n0;
#pragma omp simd
        for (int64_t n = 0; n < count; n++)
            sum[n] += GET(dout[n]);
    }
    for (int64_t n = 0; n < count; n++)
        a->dbias[n0 + n] = (a->accumulate ? a->dbias[n0 + n] : 0.0f) + sum[n];
}

void TYPED(lt_cpu_matmul_forward)(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_forward;
    lt_gemm(&(struct lt_product){.m = a->rows,
                                 .n = a->n,
                                 .k = a->k,
                                 .a = {a->in, a->k, 1},
                                 .b = {a->weight, 1, a->k},
                                 .c = a->out,
                                 .c_row = a->n,
                                 .bias = a->bias,
                                 .in = DTYPE,
                                 .out = DTYPE});
}

void TYPED(lt_cpu_matmul_backward)(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_backward;
    if (a->din)
        lt_gemm(&(struct lt_product){.m = a->rows,
                                     .n = a->k,
                                     .k = a->n,
                                     .a = {a->dout, a->n, 1},
                                     .b = {a->weight, a->k, 1},
                                     .c = a->din,
                                     .c_row = a->k,
                                     .add = a->add,
                                     .in = DTYPE,
                                     .out = DTYPE});
    if (!a->dweight)
        return;
    lt_gemm(&(struct lt_product){.m = a->n,
                                 .n = a->k,
                                 .k = a->rows,
                                 .a = {a->dout, 1, a->n},
                                 .b = {a->in, a->k, 1},
                                 .c = a->dweight,
                                 .c_row = a->k,
                                 .add = a->accumulate,
                                 .in = DTYPE,
                                 .out = LT_DTYPE_FP32});
    if (!a->dbias)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t n0 = 0; n0 < a->n; n0 += COLUMNS)
        TYPED(bias_columns)(a, n0);
}

/* The last row and column of inputs: sums of the columns of `in`. */
static void TYPED(factor_columns)(const struct lt_kfac_factors *a, int64_t k0)
{
    float sum[COLUMNS] = {0};
    int64_t size = a->k + 1, n = lt_min64(COLUMNS, a->k - k0);
    for (int64_t r = 0; r < a->rows; r++)
        TYPED(add_row)(sum, (const ELEMENT *)a->in + r * a->k + k0, n);
    for (int64_t i = 0; i < n; i++) {
        float *last = a->inputs + a->k * size + k0 + i;
        *last = a->add ? *last + sum[i] : sum[i];
        a->inputs[(k0 + i) * size + a->k] = *last;
    }
}

void TYPED(lt_cpu_kfac_factors)(const union lt_args *args)
{
    const struct lt_kfac_factors *a = &args->kfac_factors;
    float *corner = a->inputs + (a->k + 1) * (a->k + 1) - 1;
    lt_gemm(&(struct lt_product){.m = a->k,
                                 .n = a->k,
                                 .k = a->rows,
                                 .a = {a->in, 1, a->k},
                                 .b = {a->in, a->k, 1},
                                 .c = a->inputs,
                                 .c_row = a->k + 1,
                                 .add = a->add,
                                 .in = DTYPE,
                                 .out = LT_DTYPE_FP32});
    lt_gemm(&(struct lt_product){.m = a->n,
                                 .n = a->n,
                                 .k = a->rows,
                                 .a = {a->dout, 1, a->n},
                                 .b = {a->dout, a->n, 1},
                                 .c = a->outputs,
                                 .c_row = a->n,
                                 .add = a->add,
                                 .in = DTYPE,
                                 .out = LT_DTYPE_FP32});
#pragma omp parallel for schedule(static)
    for (int64_t k0 = 0; k0 < a->k; k0 += COLUMNS)
        TYPED(factor_columns)(a, k0);
    *corner = (float)a->rows + (a->add ? *corner : 0);
}
