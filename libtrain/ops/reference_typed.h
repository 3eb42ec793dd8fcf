/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): the reference backend, each operation written down as its formula, one
 * thread, sums in double, one rounding where a result is stored. Slow, and meant to be read: tests
 * hold every other backend against it, and its gradients against finite differences.
 */

void TYPED(lt_reference_embedding_forward)(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_forward;
    const ELEMENT *word = a->word, *position = a->position;
    ELEMENT *out = a->out;
    for (int64_t i = 0; i < a->b * a->t; i++) {
        int64_t at = lt_embedding_position(a->t, a->jump, i);
        for (int64_t c = 0; c < a->c; c++)
            out[i * a->c + c] = PUT(GET(word[a->tokens[i] * a->c + c]) +
                                    (position ? GET(position[at * a->c + c]) : 0.0f));
    }
}

void TYPED(lt_reference_embedding_backward)(const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_backward;
    const ELEMENT *dout = a->dout;
    for (int64_t i = 0; i < a->b * a->t; i++) {
        int64_t at = lt_embedding_position(a->t, a->jump, i);
        for (int64_t c = 0; c < a->c; c++) {
            a->dword[a->tokens[i] * a->c + c] += GET(dout[i * a->c + c]);
            if (a->dposition)
                a->dposition[at * a->c + c] += GET(dout[i * a->c + c]);
        }
    }
}

void TYPED(lt_reference_layernorm_forward)(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_forward;
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c;
        ELEMENT *out = (ELEMENT *)a->out + r * a->c;
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < a->c; c++)
            mean += (double)GET(x[c]);
        mean /= (double)a->c;
        for (int64_t c = 0; c < a->c; c++)
            variance += ((double)GET(x[c]) - mean) * ((double)GET(x[c]) - mean);
        double rstd = 1 / sqrt(variance / (double)a->c + (double)LT_LAYERNORM_EPS);
        for (int64_t c = 0; c < a->c; c++)
            out[c] = PUT((REAL)(((double)GET(x[c]) - mean) * rstd * (double)a->weight[c] +
                                (double)a->bias[c]));
        a->mean[r] = (float)mean;
        a->rstd[r] = (float)rstd;
    }
}

void TYPED(lt_reference_layernorm_backward)(const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_backward;
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c,
                      *dy = (const ELEMENT *)a->dout + r * a->c;
        ELEMENT *din = (ELEMENT *)a->din + r * a->c;
        double mean = (double)a->mean[r], rstd = (double)a->rstd[r], sum = 0, sum_hat = 0;
        for (int64_t c = 0; c < a->c; c++) {
            double g = (double)GET(dy[c]) * (double)a->weight[c];
            sum += g;
            sum_hat += g * ((double)GET(x[c]) - mean) * rstd;
        }
        for (int64_t c = 0; c < a->c; c++) {
            double hat = ((double)GET(x[c]) - mean) * rstd,
                   g = (double)GET(dy[c]) * (double)a->weight[c];
            double gradient = rstd * (g - sum / (double)a->c - hat * sum_hat / (double)a->c);
            din[c] = PUT((REAL)((double)GET(din[c]) + gradient));
            a->dweight[c] += (float)((double)GET(dy[c]) * hat);
            a->dbias[c] += GET(dy[c]);
        }
    }
}

void TYPED(lt_reference_matmul_forward)(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_forward;
    const ELEMENT *in = a->in, *weight = a->weight;
    ELEMENT *out = a->out;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t n = 0; n < a->n; n++) {
            double sum = a->bias ? (double)a->bias[n] : 0;
            for (int64_t k = 0; k < a->k; k++)
                sum += (double)GET(in[r * a->k + k]) * (double)GET(weight[n * a->k + k]);
            out[r * a->n + n] = PUT((REAL)sum);
        }
}

void TYPED(lt_reference_matmul_backward)(const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_backward;
    const ELEMENT *in = a->in, *weight = a->weight, *dout = a->dout;
    ELEMENT *din = a->din;
    for (int64_t r = 0; din && r < a->rows; r++)
        for (int64_t k = 0; k < a->k; k++) {
            double sum = a->add ? (double)GET(din[r * a->k + k]) : 0;
            for (int64_t n = 0; n < a->n; n++)
                sum += (double)GET(dout[r * a->n + n]) * (double)GET(weight[n * a->k + k]);
            din[r * a->k + k] = PUT((REAL)sum);
        }
    for (int64_t n = 0; a->dweight && n < a->n; n++) {
        double bias = a->dbias && a->accumulate ? (double)a->dbias[n] : 0;
        for (int64_t r = 0; r < a->rows; r++)
            bias += (double)GET(dout[r * a->n + n]);
        if (a->dbias)
            a->dbias[n] = (float)bias;
        for (int64_t k = 0; k < a->k; k++) {
            double sum = a->accumulate ? (double)a->dweight[n * a->k + k] : 0;
            for (int64_t r = 0; r < a->rows; r++)
                sum += (double)GET(dout[r * a->n + n]) * (double)GET(in[r * a->k + k]);
            a->dweight[n * a->k + k] = (float)sum;
        }
    }
}

/* Element i of (in, 1) in a row. */
static double TYPED(with_one)(const struct lt_kfac_factors *a, int64_t r, int64_t i)
{
    return i < a->k ? (double)GET(((const ELEMENT *)a->in)[r * a->k + i]) : 1;
}

void TYPED(lt_reference_kfac_factors)(const union lt_args *args)
{
    const struct lt_kfac_factors *a = &args->kfac_factors;
    const ELEMENT *dout = a->dout;
    int64_t n = a->n, k = a->k + 1;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) {
            double sum = a->add ? (double)a->inputs[i * k + j] : 0;
            for (int64_t r = 0; r < a->rows; r++)
                sum += TYPED(with_one)(a, r, i) * TYPED(with_one)(a, r, j);
            a->inputs[i * k + j] = (float)sum;
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = a->add ? (double)a->outputs[i * n + j] : 0;
            for (int64_t r = 0; r < a->rows; r++)
                sum += (double)GET(dout[r * n + i]) * (double)GET(dout[r * n + j]);
            a->outputs[i * n + j] = (float)sum;
        }
}

static double TYPED(dot)(const ELEMENT *a, const ELEMENT *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)GET(a[i]) * (double)GET(b[i]);
    return sum;
}

/* Score of query i against key j of a head: q.k / sqrt(head channels). `q` and `k` are at the
 * head's first channel. */
static double TYPED(attention_score)(const ELEMENT *q, const ELEMENT *k, int64_t channels)
{
    return TYPED(dot)(q, k, channels) / sqrt((double)channels);
}

/* Tokens of a part of the keys that query `at` of a sequence sees (ops.h). */
static int64_t TYPED(keys_seen)(const struct lt_attention *a, int64_t at)
{
    if (a->own)
        return at + 1;
    return at < a->skip ? 0 : a->t - a->hidden;
}

/* One query of one head against one part of the keys (ops.h): `sum` and *lse take it in. */
static void TYPED(reference_part_row)(const struct lt_attention *a, const ELEMENT *q,
                                      const ELEMENT *k, int64_t keys, float *sum, float *lse)
{
    int64_t d = a->c / a->h, row = 2 * a->c;
    double max = -INFINITY, all = 0;
    for (int64_t j = 0; j < keys; j++)
        max = fmax(max, TYPED(attention_score)(q, k + j * row, d));
    for (int64_t j = 0; j < keys; j++)
        all += exp(TYPED(attention_score)(q, k + j * row, d) - max);
    double part = max + log(all), both = part;
    if (!a->own)
        both = fmax(part, (double)*lse) + log1p(exp(-fabs(part - (double)*lse)));
    for (int64_t c = 0; c < d; c++) {
        double o = a->own ? 0 : exp((double)*lse - both) * (double)sum[c];
        for (int64_t j = 0; j < keys; j++)
            o += exp(TYPED(attention_score)(q, k + j * row, d) - both) *
                 (double)GET(k[j * row + a->c + c]);
        sum[c] = (float)o;
    }
    *lse = (float)both;
}

static void TYPED(reference_part_forward)(const struct lt_attention *a)
{
    int64_t d = a->c / a->h;
    for (int64_t i = 0; i < a->b * a->h * a->t; i++) {
        int64_t at = i % a->t, sequence = i / a->t / a->h, head = i / a->t % a->h * d,
                token = sequence * a->t + at;
        const ELEMENT *q = (const ELEMENT *)a->qkv + token * 3 * a->c + head,
                      *k = (const ELEMENT *)a->kv + sequence * a->t * 2 * a->c + head;
        float *sum = a->sum + token * a->c + head;
        if (at >= a->skip)
            TYPED(reference_part_row)
        (a, q, k, TYPED(keys_seen)(a, at), sum, &a->lse[i]);
        for (int64_t c = 0; a->last && c < d; c++)
            ((ELEMENT *)a->out)[token * a->c + head + c] = PUT(sum[c]);
    }
}

void TYPED(lt_reference_attention_forward)(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_forward;
    if (a->kv) {
        TYPED(reference_part_forward)(a);
        return;
    }
    int64_t d = a->c / a->h, row = 3 * a->c;
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        const ELEMENT *q = (const ELEMENT *)a->qkv + bh / a->h * a->t * row + bh % a->h * d,
                      *k = q + a->c, *v = k + a->c;
        ELEMENT *out = (ELEMENT *)a->out + bh / a->h * a->t * a->c + bh % a->h * d;
        for (int64_t i = 0; i < a->t; i++) {
            double max = -INFINITY, sum = 0;
            for (int64_t j = 0; j <= i; j++)
                max = fmax(max, TYPED(attention_score)(q + i * row, k + j * row, d));
            for (int64_t j = 0; j <= i; j++)
                sum += exp(TYPED(attention_score)(q + i * row, k + j * row, d) - max);
            a->lse[bh * a->t + i] = (float)(max + log(sum));
            for (int64_t c = 0; c < d; c++) {
                double o = 0;
                for (int64_t j = 0; j <= i; j++)
                    o += exp(TYPED(attention_score)(q + i * row, k + j * row, d) - max) / sum *
                         (double)GET(v[j * row + c]);
                out[i * a->c + c] = PUT((REAL)o);
            }
        }
    }
}

/* One head of one sequence, for backward. */
struct TYPED(reference_head) {
    const ELEMENT *q, *k, *v, *out, *dout;
    const float *lse;
    int64_t d, row, c;
};

/* With p = softmax(s), dp = dO.v and D = dO.O = sum_j p_j dp_j: ds = p (dp - D) / sqrt(d). */
static void TYPED(pair)(const struct TYPED(reference_head) * h, int64_t i, int64_t j, double *p,
                        double *ds)
{
    const ELEMENT *dout = h->dout + i * h->c;
    double big_d = TYPED(dot)(dout, h->out + i * h->c, h->d),
           dp = TYPED(dot)(dout, h->v + j * h->row, h->d);
    *p =
        exp(TYPED(attention_score)(h->q + i * h->row, h->k + j * h->row, h->d) - (double)h->lse[i]);
    *ds = *p * (dp - big_d) / sqrt((double)h->d);
}

/* dq_i = sum_j ds k_j; dk_j = sum_i ds q_i; dv_j = sum_i p dO_i; a few channels at a time, so that
 * the sums have a place. */
static void TYPED(attention_backward_channels)(const struct TYPED(reference_head) * h, ELEMENT *dq,
                                               int64_t t, int64_t from, int64_t n)
{
    ELEMENT *dk = dq + h->c, *dv = dk + h->c;
    double p, ds, sum[2][REFERENCE_CHANNELS];
    for (int64_t i = 0; i < t; i++) {
        memset(sum, 0, sizeof sum);
        for (int64_t j = 0; j <= i; j++) {
            TYPED(pair)(h, i, j, &p, &ds);
            for (int64_t c = 0; c < n; c++)
                sum[0][c] += ds * (double)GET(h->k[j * h->row + from + c]);
        }
        for (int64_t c = 0; c < n; c++)
            dq[i * h->row + from + c] = PUT((REAL)sum[0][c]);
    }
    for (int64_t j = 0; j < t; j++) {
        memset(sum, 0, sizeof sum);
        for (int64_t i = j; i < t; i++) {
            TYPED(pair)(h, i, j, &p, &ds);
            for (int64_t c = 0; c < n; c++) {
                sum[0][c] += ds * (double)GET(h->q[i * h->row + from + c]);
                sum[1][c] += p * (double)GET(h->dout[i * h->c + from + c]);
            }
        }
        for (int64_t c = 0; c < n; c++) {
            dk[j * h->row + from + c] = PUT((REAL)sum[0][c]);
            dv[j * h->row + from + c] = PUT((REAL)sum[1][c]);
        }
    }
}

/* One query of one head: what one part of the keys adds to its gradient, and it to theirs. */
static void TYPED(reference_part_slopes)(const struct lt_attention *a, int64_t token, int64_t head,
                                         int64_t keys, double lse)
{
    int64_t d = a->c / a->h, row = 2 * a->c, first = token / a->t * a->t * row + head;
    const ELEMENT *q = (const ELEMENT *)a->qkv + token * 3 * a->c + head,
                  *k = (const ELEMENT *)a->kv + first,
                  *out = (const ELEMENT *)a->out + token * a->c + head,
                  *dout = (const ELEMENT *)a->dout + token * a->c + head;
    float *dq = a->sum + token * a->c + head, *dk = a->dkv + first, *dv = dk + a->c;
    double big_d = TYPED(dot)(dout, out, d);
    for (int64_t c = 0; a->own && c < d; c++)
        dq[c] = 0;
    for (int64_t j = 0; j < keys; j++) {
        double p = exp(TYPED(attention_score)(q, k + j * row, d) - lse),
               ds = p * (TYPED(dot)(dout, k + j * row + a->c, d) - big_d) / sqrt((double)d);
        for (int64_t c = 0; c < d; c++) {
            dq[c] += (float)(ds * (double)GET(k[j * row + c]));
            dk[j * row + c] += (float)(ds * (double)GET(q[c]));
            dv[j * row + c] += (float)(p * (double)GET(dout[c]));
        }
    }
    for (int64_t c = 0; a->last && c < d; c++)
        ((ELEMENT *)a->dqkv)[token * 3 * a->c + head + c] = PUT(dq[c]);
}

static void TYPED(reference_part_backward)(const struct lt_attention *a)
{
    for (int64_t i = 0; i < a->b * a->h * a->t; i++) {
        int64_t at = i % a->t, head = i / a->t % a->h;
        TYPED(reference_part_slopes)
        (a, i / a->t / a->h * a->t + at, head * (a->c / a->h), TYPED(keys_seen)(a, at),
         (double)a->lse[i]);
    }
}

void TYPED(lt_reference_attention_backward)(const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_backward;
    if (a->kv) {
        TYPED(reference_part_backward)(a);
        return;
    }
    int64_t d = a->c / a->h, row = 3 * a->c;
    for (int64_t bh = 0; bh < a->b * a->h; bh++) {
        int64_t at = bh / a->h * a->t * row + bh % a->h * d,
                at_out = bh / a->h * a->t * a->c + bh % a->h * d;
        struct TYPED(reference_head) h = {.q = (const ELEMENT *)a->qkv + at,
                                          .out = (const ELEMENT *)a->out + at_out,
                                          .dout = (const ELEMENT *)a->dout + at_out,
                                          .lse = a->lse + bh * a->t,
                                          .d = d,
                                          .row = row,
                                          .c = a->c};
        h.k = h.q + a->c;
        h.v = h.k + a->c;
        for (int64_t c = 0; c < d; c += REFERENCE_CHANNELS)
            TYPED(attention_backward_channels)
        (&h, (ELEMENT *)a->dqkv + at, a->t, c,
         d - c < REFERENCE_CHANNELS ? d - c : REFERENCE_CHANNELS);
    }
}

void TYPED(lt_reference_gelu_forward)(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_forward;
    const ELEMENT *in = a->in;
    ELEMENT *out = a->out;
    for (int64_t i = 0; i < a->count; i++) {
        double x = (double)GET(in[i]);
        out[i] = PUT(
            (REAL)(0.5 * x *
                   (1 + tanh((double)LT_GELU_SCALE * (x + (double)LT_GELU_CUBIC * x * x * x)))));
    }
}

void TYPED(lt_reference_gelu_backward)(const union lt_args *args)
{
    const struct lt_gelu *a = &args->gelu_backward;
    const ELEMENT *in = a->in, *dout = a->dout;
    ELEMENT *din = a->din;
    for (int64_t i = 0; i < a->count; i++) {
        double x = (double)GET(in[i]), s = (double)LT_GELU_SCALE, g = (double)LT_GELU_CUBIC;
        double t = tanh(s * (x + g * x * x * x));
        din[i] = PUT((REAL)((double)GET(dout[i]) *
                            (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * s * (1 + 3 * g * x * x))));
    }
}

void TYPED(lt_reference_residual_forward)(const union lt_args *args)
{
    const struct lt_residual *sum = &args->residual_forward;
    const ELEMENT *a = sum->a, *b = sum->b;
    ELEMENT *out = sum->out;
    for (int64_t i = 0; i < sum->count; i++)
        out[i] = PUT(GET(a[i]) + GET(b[i]));
}

void TYPED(lt_reference_classifier)(const union lt_args *args)
{
    const struct lt_classifier *a = &args->classifier;
    for (int64_t r = 0; r < a->rows; r++) {
        ELEMENT *x = (ELEMENT *)a->logits + r * a->v;
        double max = -INFINITY, sum = 0;
        /* not fmax: gcc 12 for aarch64 fails to compile its reduction */
        for (int64_t i = 0; i < a->v; i++)
            max = (double)GET(x[i]) > max ? (double)GET(x[i]) : max;
        for (int64_t i = 0; i < a->v; i++)
            sum += exp((double)GET(x[i]) - max);
        a->losses[r] = (float)(max + log(sum) - (double)GET(x[a->targets[r]]));
        for (int64_t i = 0; a->backward && i < a->v; i++)
            x[i] = PUT((REAL)((double)a->scale *
                              (exp((double)GET(x[i]) - max) / sum - (i == a->targets[r]))));
    }
}
