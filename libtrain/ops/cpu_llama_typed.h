/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): what a block of Llama has that one of GPT-2 has not, in the backend cpu.
 * OpenMP over rows or columns, simple inner loops that the compiler vectorises; the order of sums
 * does not depend on timing.
 */

void TYPED(lt_cpu_rmsnorm_forward)(const union lt_args *args)
{
    const struct lt_rmsnorm *a = &args->rmsnorm_forward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c;
        ELEMENT *out = (ELEMENT *)a->out + r * a->c;
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (int64_t c = 0; c < a->c; c++)
            squares += GET(x[c]) * GET(x[c]);
        float rstd = 1.0f / sqrtf(squares / (float)a->c + LT_RMSNORM_EPS);
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            out[c] = PUT(GET(x[c]) * rstd * a->weight[c]);
        a->rstd[r] = rstd;
    }
}

/* With hat = x rstd and g = dy w: dx = rstd (g - hat mean(g hat)). */
static void TYPED(rmsnorm_backward_row)(const struct lt_rmsnorm *a, int64_t r)
{
    const ELEMENT *x = (const ELEMENT *)a->in + r * a->c, *dy = (const ELEMENT *)a->dout + r * a->c;
    ELEMENT *din = (ELEMENT *)a->din + r * a->c;
    float rstd = a->rstd[r], sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < a->c; c++)
        sum += GET(dy[c]) * a->weight[c] * GET(x[c]);
    float share = rstd * rstd * sum / (float)a->c;
    if (a->add) {
#pragma omp simd
        for (int64_t c = 0; c < a->c; c++)
            din[c] = PUT(GET(din[c]) + rstd * (GET(dy[c]) * a->weight[c] - GET(x[c]) * share));
        return;
    }
#pragma omp simd
    for (int64_t c = 0; c < a->c; c++)
        din[c] = PUT(rstd * (GET(dy[c]) * a->weight[c] - GET(x[c]) * share));
}

static void TYPED(rmsnorm_backward_columns)(const struct lt_rmsnorm *a, int64_t c0, int64_t n)
{
    float dweight[COLUMNS] = {0};
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c + c0,
                      *dy = (const ELEMENT *)a->dout + r * a->c + c0;
        float rstd = a->rstd[r];
#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            dweight[c] += GET(dy[c]) * (GET(x[c]) * rstd);
    }
    for (int64_t c = 0; c < n; c++)
        a->dweight[c0 + c] += dweight[c];
}

void TYPED(lt_cpu_rmsnorm_backward)(const union lt_args *args)
{
    const struct lt_rmsnorm *a = &args->rmsnorm_backward;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t r = 0; r < a->rows; r++)
            TYPED(rmsnorm_backward_row)(a, r);
#pragma omp for schedule(static)
        for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS)
            TYPED(rmsnorm_backward_columns)(a, c0, lt_min64(COLUMNS, a->c - c0));
    }
}

/* One row of one head, turned. */
static void TYPED(turn_row)(ELEMENT *restrict out, const ELEMENT *restrict in, const float *turn,
                            int64_t half)
{
    const float *cosine = turn, *sine = turn + half;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float low = GET(in[i]), high = GET(in[half + i]);
        out[i] = PUT(lt_fma(low, cosine[i], -high * sine[i]));
        out[half + i] = PUT(lt_fma(high, cosine[i], low * sine[i]));
    }
}

/* One row: h queries, then the keys and the values of the groups, each h / g times. */
static void TYPED(rope_forward_row)(const struct lt_rope *a, int64_t r)
{
    int64_t d = a->c / a->h, copies = a->h / a->groups;
    const ELEMENT *in = (const ELEMENT *)a->in + r * (a->h + 2 * a->groups) * d, *keys = in + a->c,
                  *values = keys + a->groups * d;
    ELEMENT *out = (ELEMENT *)a->out + r * 3 * a->c;
    const float *turn = a->turn + r % a->t * d;
    for (int64_t j = 0; j < a->h; j++) {
        TYPED(turn_row)(out + j * d, in + j * d, turn, d / 2);
        TYPED(turn_row)(out + a->c + j * d, keys + j / copies * d, turn, d / 2);
        memcpy(out + 2 * a->c + j * d, values + j / copies * d, (size_t)d * sizeof *out);
    }
}

void TYPED(lt_cpu_rope_forward)(const union lt_args *args)
{
    const struct lt_rope *a = &args->rope_forward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->b * a->t; r++)
        TYPED(rope_forward_row)(a, r);
}

/* Channel i of `copies` heads of d channels that follow each other, added up. */
static inline float TYPED(sum_copies)(const ELEMENT *from, int64_t copies, int64_t d, int64_t i)
{
    float sum = GET(from[i]);
    for (int64_t copy = 1; copy < copies; copy++)
        sum += GET(from[copy * d + i]);
    return sum;
}

/* din of one head = the sum of the gradients of its copies, turned back. */
static void TYPED(turn_back)(ELEMENT *restrict din, const ELEMENT *restrict dout, int64_t copies,
                             const float *turn, int64_t half)
{
    const float *cosine = turn, *sine = turn + half;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float low = TYPED(sum_copies)(dout, copies, 2 * half, i),
              high = TYPED(sum_copies)(dout, copies, 2 * half, half + i);
        din[i] = PUT(lt_fma(low, cosine[i], high * sine[i]));
        din[half + i] = PUT(lt_fma(high, cosine[i], -low * sine[i]));
    }
}

static void TYPED(rope_backward_row)(const struct lt_rope *a, int64_t r)
{
    int64_t d = a->c / a->h, copies = a->h / a->groups;
    ELEMENT *din = (ELEMENT *)a->din + r * (a->h + 2 * a->groups) * d, *keys = din + a->c,
            *values = keys + a->groups * d;
    const ELEMENT *dout = (const ELEMENT *)a->dout + r * 3 * a->c;
    const float *turn = a->turn + r % a->t * d;
    for (int64_t j = 0; j < a->h; j++)
        TYPED(turn_back)(din + j * d, dout + j * d, 1, turn, d / 2);
    for (int64_t j = 0; j < a->groups; j++) {
        const ELEMENT *key = dout + a->c + j * copies * d, *value = key + a->c;
        TYPED(turn_back)(keys + j * d, key, copies, turn, d / 2);
        for (int64_t i = 0; i < d; i++)
            values[j * d + i] = PUT(TYPED(sum_copies)(value, copies, d, i));
    }
}

void TYPED(lt_cpu_rope_backward)(const union lt_args *args)
{
    const struct lt_rope *a = &args->rope_backward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->b * a->t; r++)
        TYPED(rope_backward_row)(a, r);
}

void TYPED(lt_cpu_swiglu_forward)(const union lt_args *args)
{
    const struct lt_swiglu *a = &args->swiglu_forward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *gate = (const ELEMENT *)a->in + r * 2 * a->f, *up = gate + a->f;
        ELEMENT *out = (ELEMENT *)a->out + r * a->f;
#pragma omp simd
        for (int64_t i = 0; i < a->f; i++)
            out[i] = PUT(GET(gate[i]) * sigmoid(GET(gate[i])) * GET(up[i]));
    }
}

void TYPED(lt_cpu_swiglu_backward)(const union lt_args *args)
{
    const struct lt_swiglu *a = &args->swiglu_backward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *gate = (const ELEMENT *)a->in + r * 2 * a->f, *up = gate + a->f,
                      *dout = (const ELEMENT *)a->dout + r * a->f;
        ELEMENT *dgate = (ELEMENT *)a->din + r * 2 * a->f, *dup = dgate + a->f;
#pragma omp simd
        for (int64_t i = 0; i < a->f; i++) {
            float x = GET(gate[i]), s = sigmoid(x), dy = GET(dout[i]);
            dgate[i] = PUT(dy * GET(up[i]) * s * lt_fma(x, 1.0f - s, 1.0f));
            dup[i] = PUT(dy * x * s);
        }
    }
}
