/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (typed.h): a mixture of experts in the backend cpu. Rows are shared among the threads;
 * which row goes where is decided by one (lt_route_places), in an order that does not depend on
 * them.
 */

/* The softmax over a row of logits, and over its k largest, which are chosen. */
static void TYPED(route_row)(const struct lt_route *a, int64_t r)
{
    const ELEMENT *x = (const ELEMENT *)a->in + r * a->experts;
    float *share = a->share + r * a->experts, *gate = a->gate + r * a->k;
    float max = GET(x[0]), sum = 0, chosen = 0;
    for (int64_t e = 0; e < a->experts; e++) {
        share[e] = GET(x[e]);
        max = share[e] > max ? share[e] : max;
    }
    lt_route_choose(a, r, share);
    for (int64_t j = 0; j < a->k; j++) {
        gate[j] = lt_exp(share[a->slot[r * a->k + j]] - max);
        chosen += gate[j];
    }
    for (int64_t j = 0; j < a->k; j++)
        gate[j] /= chosen;
    for (int64_t e = 0; e < a->experts; e++) {
        share[e] = lt_exp(share[e] - max);
        sum += share[e];
    }
    for (int64_t e = 0; e < a->experts; e++)
        share[e] /= sum;
}

void TYPED(lt_cpu_route_forward)(const union lt_args *args)
{
    const struct lt_route *a = &args->route_forward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        TYPED(route_row)(a, r);
    lt_route_places(a);
}

static void TYPED(route_slope)(const struct lt_route *a, int64_t r)
{
    const float *share = a->share + r * a->experts, *gate = a->gate + r * a->k,
                *dgate = a->dgate + r * a->k;
    ELEMENT *din = (ELEMENT *)a->din + r * a->experts;
    float choices = (float)(a->rows * a->k),
          factor = a->balance * (float)a->experts / (float)a->rows, even = 0, mean = 0;
    for (int64_t e = 0; e < a->experts; e++)
        even += a->load[e] / choices * share[e];
    for (int64_t j = 0; j < a->k; j++)
        mean += gate[j] * dgate[j];
    for (int64_t e = 0; e < a->experts; e++) {
        float slope = factor * share[e] * (a->load[e] / choices - even);
        for (int64_t j = 0; j < a->k; j++)
            if (lt_route_chosen(a, a->slot[r * a->k + j]) == e)
                slope += gate[j] * (dgate[j] - mean);
        din[e] = PUT(slope);
    }
}

void TYPED(lt_cpu_route_backward)(const union lt_args *args)
{
    const struct lt_route *a = &args->route_backward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        TYPED(route_slope)(a, r);
}

/* Slots without a row are zeros, so that an expert's weights learn nothing from them. */
void TYPED(lt_cpu_dispatch_forward)(const union lt_args *args)
{
    const struct lt_dispatch *a = &args->dispatch_forward;
    size_t bytes = (size_t)a->c * sizeof(ELEMENT);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t slot = 0; slot < a->slots; slot++)
            memset((ELEMENT *)a->out + slot * a->c, 0, bytes);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < a->rows * a->k; i++)
            if (a->slot[i] >= 0)
                memcpy((ELEMENT *)a->out + a->slot[i] * a->c,
                       (const ELEMENT *)a->in + i / a->k * a->c, bytes);
    }
}

void TYPED(lt_cpu_dispatch_backward)(const union lt_args *args)
{
    const struct lt_dispatch *a = &args->dispatch_backward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS) {
            ELEMENT *din = (ELEMENT *)a->din + r * a->c + c0;
            float sum[COLUMNS] = {0};
            int64_t count = lt_min64(COLUMNS, a->c - c0);
            if (a->add)
                TYPED(add_row)(sum, din, count);
            for (int64_t j = 0; j < a->k; j++)
                if (a->slot[r * a->k + j] >= 0)
                    TYPED(add_row)
            (sum, (const ELEMENT *)a->dout + a->slot[r * a->k + j] * a->c + c0, count);
            for (int64_t c = 0; c < count; c++)
                din[c] = PUT(sum[c]);
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

void TYPED(lt_cpu_experts_forward)(const union lt_args *args)
{
    const struct lt_experts *a = &args->experts_forward;
    for (int64_t e = 0; e < a->experts; e++) {
        struct lt_matmul one = TYPED(expert_of)(a, e);
        one.out = (ELEMENT *)a->out + e * a->capacity * a->n;
        TYPED(lt_cpu_matmul_forward)(&(union lt_args){.matmul_forward = one});
    }
}

void TYPED(lt_cpu_experts_backward)(const union lt_args *args)
{
    const struct lt_experts *a = &args->experts_backward;
    for (int64_t e = 0; e < a->experts; e++) {
        struct lt_matmul one = TYPED(expert_of)(a, e);
        one.dout = (const ELEMENT *)a->dout + e * a->capacity * a->n;
        one.din = (ELEMENT *)a->din + e * a->capacity * a->k;
        one.dweight = a->dweight + e * a->n * a->k;
        TYPED(lt_cpu_matmul_backward)(&(union lt_args){.matmul_backward = one});
    }
}

void TYPED(lt_cpu_combine_forward)(const union lt_args *args)
{
    const struct lt_combine *a = &args->combine_forward;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c0 = 0; c0 < a->c; c0 += COLUMNS) {
            float sum[COLUMNS] = {0};
            int64_t count = lt_min64(COLUMNS, a->c - c0);
            for (int64_t j = 0; j < a->k; j++) {
                int64_t slot = a->slot[r * a->k + j];
                const ELEMENT *in = (const ELEMENT *)a->in + slot * a->c + c0;
                for (int64_t c = 0; slot >= 0 && c < count; c++)
                    sum[c] += a->gate[r * a->k + j] * GET(in[c]);
            }
            for (int64_t c = 0; c < count; c++)
                ((ELEMENT *)a->out)[r * a->c + c0 + c] = PUT(sum[c]);
        }
}

/* Of choice i: the gradient of its slot, and of its gate. */
static void TYPED(combine_slope)(const struct lt_combine *a, int64_t i)
{
    const ELEMENT *dout = (const ELEMENT *)a->dout + i / a->k * a->c;
    float gate = a->gate[i], sum = 0;
    if (a->slot[i] >= 0) {
        const ELEMENT *in = (const ELEMENT *)a->in + a->slot[i] * a->c;
        ELEMENT *din = (ELEMENT *)a->din + a->slot[i] * a->c;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < a->c; c++) {
            sum += GET(dout[c]) * GET(in[c]);
            din[c] = PUT(gate * GET(dout[c]));
        }
    }
    a->dgate[i] = sum;
}

void TYPED(lt_cpu_combine_backward)(const union lt_args *args)
{
    const struct lt_combine *a = &args->combine_backward;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t slot = 0; slot < a->slots; slot++)
            memset((ELEMENT *)a->din + slot * a->c, 0, (size_t)a->c * sizeof(ELEMENT));
#pragma omp for schedule(static)
        for (int64_t i = 0; i < a->rows * a->k; i++)
            TYPED(combine_slope)(a, i);
    }
}
