/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): what a block of Llama has that one of GPT-2 has not, in the reference
 * backend: formulas, one thread, sums in double, one rounding where a result is stored.
 */

void TYPED(lt_reference_rmsnorm_forward)(const union lt_args *args)
{
    const struct lt_rmsnorm *a = &args->rmsnorm_forward;
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c;
        ELEMENT *out = (ELEMENT *)a->out + r * a->c;
        double squares = 0;
        for (int64_t c = 0; c < a->c; c++)
            squares += (double)GET(x[c]) * (double)GET(x[c]);
        double rstd = 1 / sqrt(squares / (double)a->c + (double)LT_RMSNORM_EPS);
        for (int64_t c = 0; c < a->c; c++)
            out[c] = PUT((REAL)((double)GET(x[c]) * rstd * (double)a->weight[c]));
        a->rstd[r] = (float)rstd;
    }
}

/* With hat = x rstd and g = dy w: dx = rstd (g - hat mean(g hat)). */
void TYPED(lt_reference_rmsnorm_backward)(const union lt_args *args)
{
    const struct lt_rmsnorm *a = &args->rmsnorm_backward;
    for (int64_t r = 0; r < a->rows; r++) {
        const ELEMENT *x = (const ELEMENT *)a->in + r * a->c,
                      *dy = (const ELEMENT *)a->dout + r * a->c;
        ELEMENT *din = (ELEMENT *)a->din + r * a->c;
        double rstd = (double)a->rstd[r], sum = 0;
        for (int64_t c = 0; c < a->c; c++)
            sum += (double)GET(dy[c]) * (double)a->weight[c] * (double)GET(x[c]) * rstd;
        for (int64_t c = 0; c < a->c; c++) {
            double hat = (double)GET(x[c]) * rstd, g = (double)GET(dy[c]) * (double)a->weight[c],
                   gradient = rstd * (g - hat * sum / (double)a->c);
            din[c] = PUT((REAL)(gradient + (a->add ? (double)GET(din[c]) : 0)));
            a->dweight[c] += (float)((double)GET(dy[c]) * hat);
        }
    }
}

/* One row of one head: out = in turned by the angles of its position, or back with sign -1. */
static void TYPED(turn_head)(ELEMENT *out, const double *in, const float *turn, int64_t d, int sign)
{
    for (int64_t i = 0; i < d / 2; i++) {
        double cosine = (double)turn[i], sine = sign * (double)turn[d / 2 + i];
        out[i] = PUT((REAL)(in[i] * cosine - in[d / 2 + i] * sine));
        out[d / 2 + i] = PUT((REAL)(in[d / 2 + i] * cosine + in[i] * sine));
    }
}

/* The sum of `copies` heads of d channels that follow each other, in doubles. */
static void TYPED(sum_heads)(double *sum, const ELEMENT *from, int64_t copies, int64_t d)
{
    for (int64_t i = 0; i < d; i++) {
        sum[i] = 0;
        for (int64_t copy = 0; copy < copies; copy++)
            sum[i] += (double)GET(from[copy * d + i]);
    }
}

void TYPED(lt_reference_rope_forward)(const union lt_args *args)
{
    const struct lt_rope *a = &args->rope_forward;
    int64_t d = a->c / a->h, heads = a->h + 2 * a->groups;
    double head[REFERENCE_HEAD];
    for (int64_t r = 0; r < a->b * a->t; r++)
        for (int64_t j = 0; j < heads; j++) {
            const ELEMENT *in = (const ELEMENT *)a->in + (r * heads + j) * d;
            struct rope_head place = rope_head(a, j);
            ELEMENT *out = (ELEMENT *)a->out + r * 3 * a->c + place.first * d;
            TYPED(sum_heads)(head, in, 1, d);
            for (int64_t copy = 0; copy < place.copies; copy++)
                if (place.turns)
                    TYPED(turn_head)(out + copy * d, head, a->turn + r % a->t * d, d, 1);
                else
                    memcpy(out + copy * d, in, (size_t)d * sizeof *in);
        }
}

void TYPED(lt_reference_rope_backward)(const union lt_args *args)
{
    const struct lt_rope *a = &args->rope_backward;
    int64_t d = a->c / a->h, heads = a->h + 2 * a->groups;
    double head[REFERENCE_HEAD];
    for (int64_t r = 0; r < a->b * a->t; r++)
        for (int64_t j = 0; j < heads; j++) {
            ELEMENT *din = (ELEMENT *)a->din + (r * heads + j) * d;
            struct rope_head place = rope_head(a, j);
            const ELEMENT *dout = (const ELEMENT *)a->dout + r * 3 * a->c + place.first * d;
            TYPED(sum_heads)(head, dout, place.copies, d);
            for (int64_t i = 0; !place.turns && i < d; i++)
                din[i] = PUT((REAL)head[i]);
            if (place.turns)
                TYPED(turn_head)(din, head, a->turn + r % a->t * d, d, -1);
        }
}

void TYPED(lt_reference_swiglu_forward)(const union lt_args *args)
{
    const struct lt_swiglu *a = &args->swiglu_forward;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t i = 0; i < a->f; i++) {
            const ELEMENT *in = (const ELEMENT *)a->in + r * 2 * a->f;
            double gate = (double)GET(in[i]), up = (double)GET(in[a->f + i]);
            ((ELEMENT *)a->out)[r * a->f + i] = PUT((REAL)(gate / (1 + exp(-gate)) * up));
        }
}

/* With s = 1 / (1 + exp(-gate)): d(gate s) = s (1 + gate (1 - s)). */
void TYPED(lt_reference_swiglu_backward)(const union lt_args *args)
{
    const struct lt_swiglu *a = &args->swiglu_backward;
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t i = 0; i < a->f; i++) {
            const ELEMENT *in = (const ELEMENT *)a->in + r * 2 * a->f;
            ELEMENT *din = (ELEMENT *)a->din + r * 2 * a->f;
            double gate = (double)GET(in[i]), up = (double)GET(in[a->f + i]),
                   s = 1 / (1 + exp(-gate)),
                   dout = (double)GET(((const ELEMENT *)a->dout)[r * a->f + i]);
            din[i] = PUT((REAL)(dout * up * s * (1 + gate * (1 - s))));
            din[a->f + i] = PUT((REAL)(dout * gate * s));
        }
}
