/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend: each operation written down as its formula, one thread, sums in double. Slow, and meant to be read:
 * tests hold every other backend against it, and its gradients against finite differences.
 */
#include <math.h>
#include <string.h>

#include "libtrain/kernels.h"

void lt_reference_embedding_forward(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_forward;
    for (int64_t i = 0; i < a->b * a->t; i++)
        for (int64_t c = 0; c < a->c; c++)
            a->out[i * a->c + c] = a->word[a->tokens[i] * a->c + c] + a->position[i % a->t * a->c + c];
}

void lt_reference_embedding_backward(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_backward;
    for (int64_t i = 0; i < a->b * a->t; i++)
        for (int64_t c = 0; c < a->c; c++) {
            a->dword[a->tokens[i] * a->c + c] += a->dout[i * a->c + c];
            a->dposition[i % a->t * a->c + c] += a->dout[i * a->c + c];
        }
}

void lt_reference_layernorm_forward(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_forward;
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->in + r * a->c;
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < a->c; c++)
            mean += x[c];
        mean /= (double)a->c;
        for (int64_t c = 0; c < a->c; c++)
            variance += (x[c] - mean) * (x[c] - mean);
        double rstd = 1 / sqrt(variance / (double)a->c + (double)LT_LAYERNORM_EPS);
        for (int64_t c = 0; c < a->c; c++)
            a->out[r * a->c + c] = (float)((x[c] - mean) * rstd * a->weight[c] + a->bias[c]);
        a->mean[r] = (float)mean;
        a->rstd[r] = (float)rstd;
    }
}

void lt_reference_layernorm_backward(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_backward;
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->in + r * a->c, *dy = a->dout + r * a->c;
        double mean = a->mean[r], rstd = a->rstd[r], sum = 0, sum_hat = 0;
        for (int64_t c = 0; c < a->c; c++) {
            double g = (double)dy[c] * a->weight[c];
            sum += g;
            sum_hat += g * (x[c] - mean) * rstd;
        }
        for (int64_t c = 0; c < a->c; c++) {
            double hat = (x[c] - mean) * rstd, g = (double)dy[c] * a->weight[c];
            a->din[r * a->c + c] += (float)(rstd * (g - sum / (double)a->c - hat * sum_hat / (double)a->c));
            a->dweight[c] += (float)(dy[c] * hat);
            a->dbias[c] += dy[c];
        }
    }
}

void lt_reference_matmul_forward(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_forward;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t n = 0; n < a->n; n++) {
            double sum = a->bias ? a->bias[n] : 0;
            for (int64_t k = 0; k < a->k; k++)
                sum += (double)a->in[r * a->k + k] * a->weight[n * a->k + k];
            a->out[r * a->n + n] = (float)sum;
        }
}

void lt_reference_matmul_backward(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_backward;
    for (int64_t r = 0; a->din && r < a->rows; r++)
        for (int64_t k = 0; k < a->k; k++) {
            double sum = 0;
            for (int64_t n = 0; n < a->n; n++)
                sum += (double)a->dout[r * a->n + n] * a->weight[n * a->k + k];
            a->din[r * a->k + k] = (float)sum;
        }
    for (int64_t n = 0; n < a->n; n++) {
        double bias = a->dbias && a->accumulate ? a->dbias[n] : 0;
        for (int64_t r = 0; r < a->rows; r++)
            bias += a->dout[r * a->n + n];
        if (a->dbias)
            a->dbias[n] = (float)bias;
        for (int64_t k = 0; k < a->k; k++) {
            double sum = a->accumulate ? a->dweight[n * a->k + k] : 0;
            for (int64_t r = 0; r < a->rows; r++)
                sum += (double)a->dout[r * a->n + n] * a->in[r * a->k + k];
            a->dweight[n * a->k + k] = (float)sum;
        }
    }
}

/* Score of query i against key j of head h: q.k / sqrt(head channels). `q` and `k` are at the head's first channel. */
static double attention_score(const float *q, const float *k, int64_t channels)
{
    double sum = 0;
    for (int64_t c = 0; c < channels; c++)
        sum += (double)q[c] * k[c];
    return sum / sqrt((double)channels);
}

void lt_reference_attention_forward(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_forward;
    int64_t d = a->c / a->h, row = 3 * a->c;
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        const float *q = a->qkv + bh / a->h * a->t * row + bh % a->h * d, *k = q + a->c, *v = k + a->c;
        float *out = a->out + bh / a->h * a->t * a->c + bh % a->h * d;
        for (int64_t i = 0; i < a->t; i++) {
            double max = -INFINITY, sum = 0;
            for (int64_t j = 0; j <= i; j++)
                max = fmax(max, attention_score(q + i * row, k + j * row, d));
            for (int64_t j = 0; j <= i; j++)
                sum += exp(attention_score(q + i * row, k + j * row, d) - max);
            a->lse[bh * a->t + i] = (float)(max + log(sum));
            for (int64_t c = 0; c < d; c++) {
                double o = 0;
                for (int64_t j = 0; j <= i; j++)
                    o += exp(attention_score(q + i * row, k + j * row, d) - max) / sum * v[j * row + c];
                out[i * a->c + c] = (float)o;
            }
        }
    }
}

/* With p = softmax(s), dp = dO.v and D = dO.O = sum_j p_j dp_j: ds = p (dp - D); dq = ds k / sqrt(d), dk = ds q / sqrt(d),
 * dv = p dO. */
void lt_reference_attention_backward(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_backward;
    int64_t d = a->c / a->h, row = 3 * a->c;
    double scale = 1 / sqrt((double)d);
    memset(a->dqkv, 0, (size_t)(a->b * a->t * row) * sizeof(float));
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        int64_t at = bh / a->h * a->t * row + bh % a->h * d, at_out = bh / a->h * a->t * a->c + bh % a->h * d;
        const float *q = a->qkv + at, *k = q + a->c, *v = k + a->c;
        float *dq = a->dqkv + at, *dk = dq + a->c, *dv = dk + a->c;
        for (int64_t i = 0; i < a->t; i++) {
            const float *o = a->out + at_out + i * a->c, *dout = a->dout + at_out + i * a->c;
            double big_d = 0;
            for (int64_t c = 0; c < d; c++)
                big_d += (double)o[c] * dout[c];
            for (int64_t j = 0; j <= i; j++) {
                double p = exp(attention_score(q + i * row, k + j * row, d) - a->lse[bh * a->t + i]), dp = 0;
                for (int64_t c = 0; c < d; c++)
                    dp += (double)dout[c] * v[j * row + c];
                double ds = p * (dp - big_d) * scale;
                for (int64_t c = 0; c < d; c++) {
                    dq[i * row + c] += (float)(ds * k[j * row + c]);
                    dk[j * row + c] += (float)(ds * q[i * row + c]);
                    dv[j * row + c] += (float)(p * dout[c]);
                }
            }
        }
    }
}

void lt_reference_gelu_forward(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_forward;
    for (int64_t i = 0; i < a->count; i++) {
        double x = a->in[i];
        a->out[i] = (float)(0.5 * x * (1 + tanh((double)LT_GELU_SCALE * (x + (double)LT_GELU_CUBIC * x * x * x))));
    }
}

void lt_reference_gelu_backward(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_backward;
    for (int64_t i = 0; i < a->count; i++) {
        double x = a->in[i], s = (double)LT_GELU_SCALE, g = (double)LT_GELU_CUBIC;
        double t = tanh(s * (x + g * x * x * x));
        a->din[i] = (float)(a->dout[i] * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * s * (1 + 3 * g * x * x)));
    }
}

void lt_reference_residual_forward(const union lt_args *args)
{
    const struct lt_residual *a = &args->residual_forward;
    for (int64_t i = 0; i < a->count; i++)
        a->out[i] = a->a[i] + a->b[i];
}

void lt_reference_classifier(const union lt_args *args)
{
    const struct lt_classifier *a = &args->classifier;
    for (int64_t r = 0; r < a->rows; r++) {
        float *x = a->logits + r * a->v;
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < a->v; i++)
            max = fmax(max, x[i]);
        for (int64_t i = 0; i < a->v; i++)
            sum += exp(x[i] - max);
        a->losses[r] = (float)(max + log(sum) - x[a->targets[r]]);
        for (int64_t i = 0; a->backward && i < a->v; i++)
            x[i] = (float)(a->scale * (exp(x[i] - max) / sum - (i == a->targets[r])));
    }
}
