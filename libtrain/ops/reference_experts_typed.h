/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): a mixture of experts in the reference backend: formulas, one thread, sums in
 * double, one rounding where a result is stored. Which row goes where is lt_route_places.
 */

/* The softmax over a row of logits, and over its k largest, which are chosen. */
static void TYPED(route_row)(const struct lt_route *a, int64_t r)
{
    const ELEMENT *x = (const ELEMENT *)a->in + r * a->experts;
    float *share = a->share + r * a->experts, *gate = a->gate + r * a->k;
    double max = -INFINITY, sum = 0, chosen = 0;
    for (int64_t e = 0; e < a->experts; e++) {
        share[e] = GET(x[e]);
        max = (double)share[e] > max ? (double)share[e] : max;
    }
    lt_route_choose(a, r, share);
    for (int64_t e = 0; e < a->experts; e++)
        sum += exp((double)GET(x[e]) - max);
    for (int64_t j = 0; j < a->k; j++)
        chosen += exp((double)GET(x[a->slot[r * a->k + j]]) - max);
    for (int64_t j = 0; j < a->k; j++)
        gate[j] = (float)(exp((double)GET(x[a->slot[r * a->k + j]]) - max) / chosen);
    for (int64_t e = 0; e < a->experts; e++)
        share[e] = (float)(exp((double)GET(x[e]) - max) / sum);
}

void TYPED(lt_reference_route_forward)(const union lt_args *args)
{
    const struct lt_route *a = &args->route_forward;
    for (int64_t r = 0; r < a->rows; r++)
        TYPED(route_row)(a, r);
    lt_route_places(a);
}

/* With g the gates: dlogit = g (dg - sum g dg) of a chosen expert, and of all balance experts /
 * rows p (f - sum f p). */
void TYPED(lt_reference_route_backward)(const union lt_args *args)
{
    const struct lt_route *a = &args->route_backward;
    double choices = (double)(a->rows * a->k),
           factor = (double)a->balance * (double)a->experts / (double)a->rows;
    for (int64_t r = 0; r < a->rows; r++) {
        ELEMENT *din = (ELEMENT *)a->din + r * a->experts;
        const float *share = a->share + r * a->experts, *gate = a->gate + r * a->k,
                    *dgate = a->dgate + r * a->k;
        double even = 0, mean = 0;
        for (int64_t e = 0; e < a->experts; e++)
            even += (double)a->load[e] / choices * (double)share[e];
        for (int64_t j = 0; j < a->k; j++)
            mean += (double)gate[j] * (double)dgate[j];
        for (int64_t e = 0; e < a->experts; e++) {
            double slope = factor * (double)share[e] * ((double)a->load[e] / choices - even);
            for (int64_t j = 0; j < a->k; j++)
                slope += lt_route_chosen(a, a->slot[r * a->k + j]) == e
                             ? (double)gate[j] * ((double)dgate[j] - mean)
                             : 0;
            din[e] = PUT((REAL)slope);
        }
    }
}

void TYPED(lt_reference_dispatch_forward)(const union lt_args *args)
{
    const struct lt_dispatch *a = &args->dispatch_forward;
    ELEMENT *out = a->out;
    memset(out, 0, (size_t)(a->slots * a->c) * sizeof *out);
    for (int64_t i = 0; i < a->rows * a->k; i++)
        if (a->slot[i] >= 0)
            memcpy(out + a->slot[i] * a->c, (const ELEMENT *)a->in + i / a->k * a->c,
                   (size_t)a->c * sizeof *out);
}

void TYPED(lt_reference_dispatch_backward)(const union lt_args *args)
{
    const struct lt_dispatch *a = &args->dispatch_backward;
    const ELEMENT *dout = a->dout;
    ELEMENT *din = a->din;
    for (int64_t i = 0; i < a->rows * a->c; i++) {
        const int32_t *slot = a->slot + i / a->c * a->k;
        double sum = a->add ? (double)GET(din[i]) : 0;
        for (int64_t j = 0; j < a->k; j++)
            sum += slot[j] >= 0 ? (double)GET(dout[slot[j] * a->c + i % a->c]) : 0;
        din[i] = PUT((REAL)sum);
    }
}

/* One expert's linear layer as an operation of its own; the forward half. */
static struct lt_matmul TYPED(expert_of)(const struct lt_experts *a, int64_t e)
{
    int64_t rows = e * a->capacity;
    return (struct lt_matmul){.in = (const ELEMENT *)a->in + rows * a->k,
                              .weight = (const ELEMENT *)a->weight + e * a->n * a->k,
                              .rows = a->capacity,
                              .n = a->n,
                              .k = a->k,
                              .accumulate = a->accumulate};
}

void TYPED(lt_reference_experts_forward)(const union lt_args *args)
{
    const struct lt_experts *a = &args->experts_forward;
    for (int64_t e = 0; e < a->experts; e++) {
        struct lt_matmul one = TYPED(expert_of)(a, e);
        one.out = (ELEMENT *)a->out + e * a->capacity * a->n;
        TYPED(lt_reference_matmul_forward)(&(union lt_args){.matmul_forward = one});
    }
}

void TYPED(lt_reference_experts_backward)(const union lt_args *args)
{
    const struct lt_experts *a = &args->experts_backward;
    for (int64_t e = 0; e < a->experts; e++) {
        struct lt_matmul one = TYPED(expert_of)(a, e);
        one.dout = (const ELEMENT *)a->dout + e * a->capacity * a->n;
        one.din = (ELEMENT *)a->din + e * a->capacity * a->k;
        one.dweight = a->dweight + e * a->n * a->k;
        TYPED(lt_reference_matmul_backward)(&(union lt_args){.matmul_backward = one});
    }
}

void TYPED(lt_reference_combine_forward)(const union lt_args *args)
{
    const struct lt_combine *a = &args->combine_forward;
    const ELEMENT *in = a->in;
    for (int64_t i = 0; i < a->rows * a->c; i++) {
        const int32_t *slot = a->slot + i / a->c * a->k;
        double sum = 0;
        for (int64_t j = 0; j < a->k; j++)
            sum += slot[j] >= 0 ? (double)a->gate[i / a->c * a->k + j] *
                                      (double)GET(in[slot[j] * a->c + i % a->c])
                                : 0;
        ((ELEMENT *)a->out)[i] = PUT((REAL)sum);
    }
}

void TYPED(lt_reference_combine_backward)(const union lt_args *args)
{
    const struct lt_combine *a = &args->combine_backward;
    ELEMENT *din = a->din;
    memset(din, 0, (size_t)(a->slots * a->c) * sizeof *din);
    for (int64_t i = 0; i < a->rows * a->k; i++) {
        const ELEMENT *dout = (const ELEMENT *)a->dout + i / a->k * a->c;
        a->dgate[i] = 0;
        if (a->slot[i] < 0)
            continue;
        double sum = 0;
        for (int64_t c = 0; c < a->c; c++) {
            int64_t at = a->slot[i] * a->c + c;
            sum += (double)GET(dout[c]) * (double)GET(((const ELEMENT *)a->in)[at]);
            din[at] = PUT((REAL)((double)a->gate[i] * (double)GET(dout[c])));
        }
        a->dgate[i] = (float)sum;
    }
}
