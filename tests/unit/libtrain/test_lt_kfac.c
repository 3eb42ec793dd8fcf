/* SPDX-License-Identifier: Apache-2.0
 *
 * K-FAC: its inverses against elimination in double, its direction against the exact Fisher matrix
 * where that is a Kronecker product, the factors that a perceptron's backward leaves against its
 * gradients, the bound of the change, what cannot be inverted, FLOPs, operations and memory in
 * closed form, and the models that it refuses. Learning and resuming: test_lt_mlp.c.
 */
#include "lt_support.h"

#include "libtrain/models/mlp.h"
#include "libtrain/train/optimizer.h"

#define NEAR 2e-4 /* of results in floats, relative to their root mean square */

/* ---- dense linear algebra in double ------------------------------------------------------------
 */

/* x[n] = a[n,n]^-1 b[n] by elimination with the largest pivot of each column; a and b are used up.
 */
static void solve(double *a, double *b, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs(a[i * n + j]) > fabs(a[best * n + j]))
                best = i;
        for (int64_t l = 0; l < n; l++) {
            double kept = a[j * n + l];
            a[j * n + l] = a[best * n + l];
            a[best * n + l] = kept;
        }
        double kept = b[j];
        b[j] = b[best];
        b[best] = kept;
        for (int64_t i = 0; i < n; i++) {
            double factor = i == j ? 0 : a[i * n + j] / a[j * n + j];
            for (int64_t l = j; factor != 0 && l < n; l++)
                a[i * n + l] -= factor * a[j * n + l];
            b[i] -= factor * b[j];
        }
    }
    for (int64_t i = 0; i < n; i++)
        b[i] /= a[i * n + i];
}

static double *doubles(int64_t n)
{
    return pool_bytes((size_t)n * sizeof(double));
}

/* The products of random rows with themselves: positive definite with `rows` >= n. */
static float *random_factor(int64_t n, int64_t rows, uint64_t key)
{
    const float *x = normals(rows * n, key, 1);
    float *factor = zeros(n * n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++)
                sum += (double)x[r * n + i] * (double)x[r * n + j];
            factor[i * n + j] = (float)(sum / (double)rows);
        }
    return factor;
}

static double trace_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i * n + i];
    return sum;
}

/* ---- the operations ----------------------------------------------------------------------------
 */

static void invert(const struct lt_context *x, const float *inputs, int64_t k, const float *outputs,
                   int64_t n, double damping, float *inverse[2])
{
    inverse[0] = zeros((k + 1) * (k + 1));
    inverse[1] = zeros(n * n);
    lt_op(x, LT_OP_KFAC_INVERSE,
          &(union lt_args){.kfac_inverse = {.inputs = inputs,
                                            .outputs = outputs,
                                            .inputs_inverse = inverse[0],
                                            .outputs_inverse = inverse[1],
                                            .scratch = zeros((int64_t)lt_kfac_scratch(n, k)),
                                            .n = n,
                                            .k = k,
                                            .damping = damping}});
}

/* Column by column, for orders below, at and above the block of the sweep. */
static void inverses(void **state)
{
    (void)state;
    static const int64_t orders[][2] = {{1, 1}, {3, 7}, {63, 64}, {65, 20}, {128, 150}};
    for (int backend = 0; backend < LT_BACKEND_COUNT; backend++)
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
            struct lt_context x = {.backend = (enum lt_backend)backend};
            int64_t order[2] = {orders[i][0] + 1, orders[i][1]};
            const float *factor[2] = {random_factor(order[0], 2 * order[0], 1),
                                      random_factor(order[1], 2 * order[1], 2)};
            float *got[2];
            double root = sqrt(0.01), pi = sqrt(trace_of(factor[0], order[0]) / (double)order[0] /
                                                (trace_of(factor[1], order[1]) / (double)order[1]));
            const double damping[2] = {pi * root, root / pi};
            invert(&x, factor[0], order[0] - 1, factor[1], order[1], 0.01, got);
            for (int side = 0; side < 2; side++) {
                int64_t n = order[side], step = n > 20 ? n / 10 : 1;
                for (int64_t column = 0; column < n; column += step) {
                    double *a = doubles(n * n), *b = doubles(n);
                    float *want = zeros(n), *is = zeros(n);
                    for (int64_t j = 0; j < n * n; j++)
                        a[j] = (double)factor[side][j];
                    for (int64_t j = 0; j < n; j++)
                        a[j * n + j] += damping[side];
                    b[column] = 1;
                    solve(a, b, n);
                    for (int64_t j = 0; j < n; j++) {
                        want[j] = (float)b[j];
                        is[j] = got[side][j * n + column];
                    }
                    assert_near(lt_backend_name(x.backend), is, want, n, NEAR);
                }
            }
            pool_free(NULL);
        }
}

/* A factor that rounding leaves without a full rank gets a damping that suffices, and one that is
 * not finite an inverse that the loss shows. */
static void what_cannot_be_inverted(void **state)
{
    (void)state;
    for (int backend = 0; backend < LT_BACKEND_COUNT; backend++) {
        struct lt_context x = {.backend = (enum lt_backend)backend};
        float *flat = random_factor(100, 3, 5), *outputs = random_factor(5, 10, 6), *inverse[2];
        for (int i = 0; i < 100 * 100; i++)
            flat[i] *= 1e6f;
        invert(&x, flat, 99, outputs, 5, 1e-12, inverse);
        for (int i = 0; i < 100 * 100; i++)
            assert_true(isfinite(inverse[0][i]));
        for (int i = 0; i < 100; i++)
            assert_true(inverse[0][i * 101] > 0);
        flat[100 * 50 + 50] = NAN;
        invert(&x, flat, 99, outputs, 5, 0.03, inverse);
        assert_true(isnan(inverse[0][0]));
        memset(outputs, 0, 25 * sizeof *outputs); /* no gradient: no trace to compare */
        invert(&x, random_factor(3, 9, 7), 2, outputs, 5, 0.04, inverse);
        for (int i = 0; i < 25; i++)
            assert_true(fabs((double)inverse[1][i] - (i % 6 ? 0 : 5)) < 1e-5);
    }
}

enum { INPUTS = 3, OUTPUTS = 4, DRAWN = 5, ROWS = DRAWN * DRAWN, ALL = OUTPUTS * (INPUTS + 1) };

/* The empirical Fisher matrix of weight and bias as [OUTPUTS][INPUTS + 1], from the gradient of
 * each sample, and what the damping of its factors adds: (A + s I) (x) (G + t I) = A (x) G + t A
 * (x) I + s I (x) G + s t I. */
static void damped_fisher(double *fisher, const double *a, const double *g, double s, double t)
{
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < ALL; i++)
            for (int j = 0; j < ALL; j++) {
                const double *in = a + r * (INPUTS + 1), *out = g + r * OUTPUTS;
                int i_in = i % (INPUTS + 1), j_in = j % (INPUTS + 1), i_out = i / (INPUTS + 1),
                    j_out = j / (INPUTS + 1);
                double inputs = in[i_in] * in[j_in], outputs = out[i_out] * out[j_out];
                fisher[i * ALL + j] += inputs * outputs / ROWS;
                if (i_out == j_out)
                    fisher[i * ALL + j] += t * inputs / ROWS;
                if (i_in == j_in)
                    fisher[i * ALL + j] += s * outputs / ROWS;
            }
    for (int i = 0; i < ALL; i++)
        fisher[i * ALL + i] += s * t;
}

/* Every input with every gradient: they are independent, as those of a linear layer with Gaussian
 * noise behind it, so that the Fisher matrix is exactly the product of the factors. The direction
 * solves it. In each type, in two micro-batches. */
static void direction_solves_the_fisher(void **state)
{
    (void)state;
    const float *drawn_in = normals(DRAWN * INPUTS, 1, 1),
                *drawn_out = normals(DRAWN * OUTPUTS, 2, 1);
    float *in = zeros(ROWS * INPUTS), *out = zeros(ROWS * OUTPUTS);
    for (int r = 0; r < ROWS; r++) {
        memcpy(in + r * INPUTS, drawn_in + r / DRAWN * INPUTS, INPUTS * sizeof *in);
        memcpy(out + r * OUTPUTS, drawn_out + r % DRAWN * OUTPUTS, OUTPUTS * sizeof *out);
    }
    const float *gradient = normals(ALL, 3, 1);
    for (int i = 0; i < LT_BACKEND_COUNT * LT_DTYPE_COUNT; i++) {
        struct lt_context x = {.backend = (enum lt_backend)(i % LT_BACKEND_COUNT),
                               .dtype = (enum lt_dtype)(i / LT_BACKEND_COUNT)};
        char *typed_in = typed(x.dtype, in, ROWS * INPUTS),
             *typed_out = typed(x.dtype, out, ROWS * OUTPUTS);
        const float *read_in = floats(x.dtype, typed_in, ROWS * INPUTS),
                    *read_out = floats(x.dtype, typed_out, ROWS * OUTPUTS);
        float *inputs = zeros((INPUTS + 1) * (INPUTS + 1)), *outputs = zeros(OUTPUTS * OUTPUTS);
        double product = 0, *fisher = doubles(ALL * ALL), *want = doubles(ALL),
               *a = doubles(ROWS * (INPUTS + 1)), *g = doubles(ROWS * OUTPUTS);
        inputs[0] = outputs[0] = 77; /* the first micro-batch overwrites */
        for (int first = 1; first >= 0; first--) {
            int at = first ? 0 : 10, rows = first ? 10 : ROWS - 10;
            size_t element = lt_dtype_bytes(x.dtype);
            lt_op(&x, LT_OP_KFAC_FACTORS,
                  &(union lt_args){
                      .kfac_factors = {.in = typed_in + (size_t)(at * INPUTS) * element,
                                       .dout = typed_out + (size_t)(at * OUTPUTS) * element,
                                       .inputs = inputs,
                                       .outputs = outputs,
                                       .rows = rows,
                                       .n = OUTPUTS,
                                       .k = INPUTS,
                                       .add = !first}});
        }
        for (int j = 0; j < (INPUTS + 1) * (INPUTS + 1); j++)
            inputs[j] /= ROWS;
        for (int j = 0; j < OUTPUTS * OUTPUTS; j++)
            outputs[j] /= ROWS;
        for (int r = 0; r < ROWS; r++) {
            for (int j = 0; j < INPUTS; j++)
                a[r * (INPUTS + 1) + j] = (double)read_in[r * INPUTS + j];
            a[r * (INPUTS + 1) + INPUTS] = 1;
            for (int j = 0; j < OUTPUTS; j++)
                g[r * OUTPUTS + j] = (double)read_out[r * OUTPUTS + j];
        }
        double of_inputs = 0, of_outputs = 0, root = sqrt(0.05);
        for (int j = 0; j < ROWS * (INPUTS + 1); j++)
            of_inputs += a[j] * a[j] / ROWS / (INPUTS + 1);
        for (int j = 0; j < ROWS * OUTPUTS; j++)
            of_outputs += g[j] * g[j] / ROWS / OUTPUTS;
        double pi = sqrt(of_inputs / of_outputs);
        damped_fisher(fisher, a, g, pi * root, root / pi);
        for (int j = 0; j < ALL; j++)
            want[j] = 0.5 * (double)gradient[j];
        solve(fisher, want, ALL);

        float *inverse[2], *dweight = zeros(OUTPUTS * INPUTS), *dbias = zeros(OUTPUTS),
                           *weight = zeros(OUTPUTS * INPUTS), *bias = zeros(OUTPUTS),
                           *got = zeros(ALL), *wanted = zeros(ALL);
        invert(&x, inputs, INPUTS, outputs, OUTPUTS, 0.05, inverse);
        for (int j = 0; j < OUTPUTS; j++) {
            memcpy(dweight + j * INPUTS, gradient + j * (INPUTS + 1), INPUTS * sizeof *dweight);
            dbias[j] = gradient[j * (INPUTS + 1) + INPUTS];
        }
        lt_op(&x, LT_OP_KFAC_DIRECTION,
              &(union lt_args){
                  .kfac_direction = {.weight = weight,
                                     .bias = bias,
                                     .dweight = dweight,
                                     .dbias = dbias,
                                     .inputs_inverse = inverse[0],
                                     .outputs_inverse = inverse[1],
                                     .scratch = zeros((int64_t)lt_kfac_scratch(OUTPUTS, INPUTS)),
                                     .product = &product,
                                     .n = OUTPUTS,
                                     .k = INPUTS,
                                     .scale = 0.5}});
        double along = 0;
        for (int j = 0; j < ALL; j++) {
            int row = j / (INPUTS + 1), column = j % (INPUTS + 1);
            got[j] = column < INPUTS ? weight[row * INPUTS + column] : bias[row];
            wanted[j] = (float)want[j];
            along += 0.5 * (double)gradient[j] * want[j];
        }
        assert_near(lt_backend_name(x.backend), got, wanted, ALL, NEAR);
        assert_true(fabs(product - along) < NEAR * along);
    }
}

/* ---- a perceptron ------------------------------------------------------------------------------
 */

static const struct lt_mlp_config shape = {.features = 13, .hidden = 10, .layers = 3, .classes = 5};

static struct lt_model *make(const struct lt_mlp_config *config, int64_t b)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_mlp_create(&m, config, (struct lt_net_mode){0}, b, 3, &err))
        fail_msg("%s", err.what);
    return m;
}

static void make_kfac(struct lt_optimizer *optimizer, const struct lt_model *m,
                      const struct lt_kfac_config *kfac)
{
    struct tacho_error err = {0};
    struct lt_optimizer_config config = lt_optimizer_defaults(LT_OPTIMIZER_KFAC);
    if (kfac)
        config.kfac = *kfac;
    if (lt_optimizer_create(optimizer, &config, &m->parameters, &err))
        fail_msg("%s", err.what);
}

/* Forward and backward of one micro-batch of `parts`. */
static void step(struct lt_model *m, struct lt_optimizer *optimizer, const struct lt_context *from,
                 const struct lt_batch *batch, int parts, int first)
{
    struct lt_context x = *from;
    m->ops->forward(m, &x, batch, parts);
    lt_optimizer_watch(optimizer, &m->parameters, &x, m->b, first);
    m->ops->backward(m, &x, batch, first);
}

/* Layer i of `shape`: [weight, bias] of the gradient as one matrix[*n][*k + 1]. */
static double *gradient_of(const struct lt_model *m, int i, int64_t *n, int64_t *k)
{
    const struct lt_weight *weight = m->parameters.weight;
    const struct lt_weight *matrix = &weight[i == 0  ? 0
                                             : i < 3 ? 1
                                                     : 2],
                           *vector = &weight[i < 3 ? 3 : 4];
    *n = matrix->rows;
    *k = matrix->columns;
    const float *dweight = m->parameters.grad + matrix->first + (i == 2 ? *n * *k : 0),
                *dbias = m->parameters.grad + vector->first + (i < 3 ? i * *n : 0);
    double *both = doubles(*n * (*k + 1));
    for (int64_t r = 0; r < *n; r++) {
        for (int64_t c = 0; c < *k; c++)
            both[r * (*k + 1) + c] = (double)dweight[r * *k + c];
        both[r * (*k + 1) + *k] = (double)dbias[r];
    }
    return both;
}

/* Of one sample the gradient is g a^T, so that its products with itself are the factors, each times
 * the trace of the other: grad^T grad = trace(G) A, grad grad^T = trace(A) G. With a loss scale,
 * which is not among the factors, and a second sample, after which they are the mean. */
static void factors_are_those_of_the_samples(void **state)
{
    (void)state;
    struct lt_kfac_config config = {.damping = 1, .decay = 0.5, .every = 1};
    for (int backend = 0; backend < LT_BACKEND_COUNT; backend++) {
        struct lt_context x = {.backend = (enum lt_backend)backend, .loss_scale = 64};
        struct lt_model *m = make(&shape, 1);
        struct lt_optimizer optimizer;
        float *mean[3] = {0};
        make_kfac(&optimizer, m, &config);
        int64_t size = (int64_t)optimizer.floats[LT_KFAC_FACTORS];
        /* samples 0 and 1 by themselves, then both in one update of another optimizer's making */
        for (int i = 0; i < 3; i++) {
            struct lt_batch batch[2] = {{.features = normals(13, 7, 1), .targets = words(1, 8, 5)},
                                        {.features = normals(13, 9, 1), .targets = words(1, 9, 5)}};
            if (i < 2)
                step(m, &optimizer, &x, &batch[i], 1, 1);
            for (int j = 0; i == 2 && j < 2; j++)
                step(m, &optimizer, &x, &batch[j], 2, j == 0);
            lt_optimizer_update(&optimizer, &x, &m->parameters, 0, 0, 1.0 / 64);
            mean[i] = copy_of(optimizer.state[LT_KFAC_FACTORS], size);
            size_t inputs = 0, outputs = 0;
            for (int layer = 0; layer < 4; layer++)
                outputs += lt_arena_padded(layer ? 11 * 11 : 14 * 14);
            for (int layer = 0; i < 2 && layer < 4; layer++) {
                int64_t n, k;
                const double *g = gradient_of(m, layer, &n, &k);
                const float *a_factor = mean[i] + inputs, *g_factor = mean[i] + outputs;
                double a_trace = trace_of(a_factor, k + 1), g_trace = trace_of(g_factor, n);
                assert_true(g_trace > 0 && a_factor[(k + 1) * (k + 1) - 1] == 1);
                for (int64_t r = 0; r <= k; r++)
                    for (int64_t c = 0; c <= k; c++) {
                        double sum = 0, is = g_trace * (double)a_factor[r * (k + 1) + c];
                        for (int64_t l = 0; l < n; l++)
                            sum += g[l * (k + 1) + r] * g[l * (k + 1) + c] / 64 / 64;
                        assert_true(fabs(sum - is) <= 1e-5 * a_trace * g_trace);
                    }
                for (int64_t r = 0; r < n; r++)
                    for (int64_t c = 0; c < n; c++) {
                        double sum = 0, is = a_trace * (double)g_factor[r * n + c];
                        for (int64_t l = 0; l <= k; l++)
                            sum += g[r * (k + 1) + l] * g[c * (k + 1) + l] / 64 / 64;
                        assert_true(fabs(sum - is) <= 1e-5 * a_trace * g_trace);
                    }
                inputs += lt_arena_padded((size_t)((k + 1) * (k + 1)));
                outputs += lt_arena_padded((size_t)(n * n));
            }
        }
        float *half = zeros(size);
        for (int64_t i = 0; i < size; i++)
            half[i] = 0.5f * (mean[0][i] + mean[1][i]);
        assert_near("the mean of both", mean[2], half, size, 1e-5);
        /* the second update keeps half, the first nothing of what was there */
        struct lt_batch batch = {.features = normals(13, 7, 1), .targets = words(1, 8, 5)};
        step(m, &optimizer, &x, &batch, 1, 1);
        lt_optimizer_update(&optimizer, &x, &m->parameters, 1, 0, 1.0 / 64);
        for (int64_t i = 0; i < size; i++)
            half[i] = 0.5f * (mean[2][i] + mean[0][i]);
        assert_near("the average", optimizer.state[LT_KFAC_FACTORS], half, size, 1e-5);
        lt_optimizer_destroy(&optimizer);
        lt_model_destroy(m);
    }
}

/* The step is rate times the direction, made so short that rate^2 direction . gradient is the
 * bound; without a bound it is longer. Inverses are made in every second update only. */
static void bounded(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_kfac_config config = {.damping = 0.01, .decay = 0.9, .every = 2};
    double along[2], made_of[2];
    for (int bound = 0; bound < 2; bound++) {
        struct lt_model *m = make(&shape, 6);
        struct lt_optimizer optimizer;
        int64_t count = (int64_t)m->parameters.count;
        const struct lt_batch batch = {.features = normals(6 * 13, 1, 1),
                                       .targets = words(6, 2, 5)};
        const float *before = copy_of(m->parameters.value, count);
        config.kl_clip = bound ? 1e-4 : 0;
        make_kfac(&optimizer, m, &config);
        step(m, &optimizer, &x, &batch, 1, 1);
        const float *gradient = copy_of(m->parameters.grad, count);
        lt_optimizer_update(&optimizer, &x, &m->parameters, 0, 0.5, 1);
        along[bound] = 0;
        for (int64_t i = 0; i < count; i++)
            along[bound] += ((double)before[i] - (double)m->parameters.value[i]) * gradient[i];
        size_t inverses = optimizer.floats[LT_KFAC_INVERSES];
        const float *kept = copy_of(optimizer.state[LT_KFAC_INVERSES], (int64_t)inverses);
        for (int made = 1; made < 3; made++) {
            step(m, &optimizer, &x, &batch, 1, 1);
            lt_optimizer_update(&optimizer, &x, &m->parameters, made, 0.5, 1);
            int same = !memcmp(kept, optimizer.state[LT_KFAC_INVERSES], inverses * sizeof *kept);
            assert_int_equal(same, made == 1);
        }
        made_of[bound] = along[bound] * 0.5; /* rate^2 direction . gradient */
        lt_optimizer_destroy(&optimizer);
        lt_model_destroy(m);
    }
    assert_true(made_of[0] > 1e-3);
    /* the direction is shortened by sqrt(bound / that), so its product with the gradient is the
     * root of bound times that */
    assert_true(fabs(made_of[1] - sqrt(1e-4 * made_of[0])) < 1e-3 * made_of[1]);
}

/* FLOPs and operations of two updates, of which the first computes inverses, as docs/engine.md has
 * them; the arrays of state and scratch, and what the ledger holds. */
static void closed_forms(void **state)
{
    (void)state;
    enum { LAYERS = 4, B = 6, MICRO = 2 };
    static const uint64_t inputs[LAYERS] = {13, 10, 10, 10}, outputs[LAYERS] = {10, 10, 10, 5};
    struct lt_trace *trace = NULL;
    struct lt_memory before, held;
    struct lt_model *m = make(&shape, B);
    struct lt_optimizer optimizer;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    uint64_t factors = 0, seen = 0, inverted = 0, directed = 0, count = m->parameters.count,
             most = 0;
    for (int i = 0; i < LAYERS; i++) {
        uint64_t n = outputs[i], k = inputs[i] + 1, order = n > k ? n : k,
                 sweep = 2 * order * 64 + 64 * 64;
        factors += lt_arena_padded(k * k) + lt_arena_padded(n * n);
        seen += MICRO * B * 2 * (inputs[i] * inputs[i] + n * n);
        inverted += 2 * (k * k * k + n * n * n);
        directed += 2 * n * k * (n + k);
        most = sweep > most ? sweep : most;
        assert_true(2 * n * k < sweep);
    }
    lt_memory_read(&before);
    make_kfac(&optimizer, m, NULL);
    lt_memory_read(&held);
    size_t floats[LT_OPTIMIZER_STATES], scratch;
    lt_optimizer_sizes(&optimizer.config, &m->parameters, floats, &scratch);
    assert_int_equal(floats[LT_KFAC_FACTORS], factors);
    assert_int_equal(floats[LT_KFAC_INVERSES], factors);
    assert_int_equal(floats[LT_KFAC_VELOCITY], count);
    assert_int_equal(scratch, factors + count + most);
    assert_int_equal(held.tag[LT_MEMORY_OPTIMIZER] - before.tag[LT_MEMORY_OPTIMIZER],
                     (int64_t)(2 * lt_arena_bytes(factors) + lt_arena_bytes(count)));
    assert_int_equal(held.tag[LT_MEMORY_WORKSPACE] - before.tag[LT_MEMORY_WORKSPACE],
                     (int64_t)lt_arena_bytes(scratch));

    assert_int_equal(lt_trace_create(&trace, lt_op_names(), LT_OP_COUNT, 1), 0);
    x.trace = trace;
    for (int made = 0; made < 2; made++) {
        lt_trace_step_begin(trace, &(struct tacho_step){.index = (uint64_t)made});
        for (int i = 0; i < MICRO; i++)
            step(m, &optimizer, &x,
                 &(struct lt_batch){.features = normals(B * 13, 1, 1), .targets = words(B, 2, 5)},
                 MICRO, i == 0);
        lt_optimizer_update(&optimizer, &x, &m->parameters, made, 0.01, 1);
        lt_trace_step_end(trace);
    }
    size_t steps;
    const struct lt_timers_step *s = lt_trace_steps(trace, &steps);
    assert_int_equal(steps, 2);
    uint64_t model = lt_mlp_flops(&shape, (struct lt_net_mode){0}, B, MICRO),
             element = B * MICRO * (3 * 10 * (9 + 19) + 7 * 5 + 4);
    for (int made = 0; made < 2; made++) {
        uint64_t matrix = model + seen + (made ? 0 : inverted) + directed;
        assert_int_equal(s[made].model_flops, model);
        assert_int_equal(s[made].matrix_flops, matrix);
        assert_int_equal(s[made].flops,
                         matrix + element + 3 * factors + 5 * count + m->parameters.decayed);
        /* of each micro-batch the model's and the factors of each layer; zeroed vectors once;
         * two averages, inverses and directions of each layer, the update */
        assert_int_equal(s[made].ops, MICRO * (2 * (2 * 3 + 1) + 2 + LAYERS) + 1 + 2 +
                                          (made ? 1 : 2) * LAYERS + 1);
    }
    lt_trace_destroy(trace);
    lt_optimizer_destroy(&optimizer);
    lt_model_destroy(m);
}

/* A layout that is not said to be one of linear layers is refused, whatever it looks like. */
static void refused(void **state)
{
    (void)state;
    struct lt_optimizer_config config = lt_optimizer_defaults(LT_OPTIMIZER_KFAC);
    struct lt_parameters p = {0};
    struct lt_optimizer optimizer;
    struct tacho_error err = {0};
    size_t floats[LT_OPTIMIZER_STATES], scratch;
    lt_parameters_add(&p, (struct lt_weight){0, 1, 4, 6, LT_WEIGHT_HIDDEN, 0, 0, 0}, 1);
    lt_parameters_add(&p, (struct lt_weight){0, 1, 1, 4, LT_WEIGHT_VECTOR, 0, 0, 0}, 0);
    assert_int_equal(lt_optimizer_create(&optimizer, &config, &p, &err), TACHO_ENOTSUP);
    assert_non_null(strstr(err.what, "kfac"));
    assert_true(strlen(err.hint) > 0);
    lt_optimizer_sizes(&config, &p, floats, &scratch);
    assert_int_equal(floats[0] + floats[1] + floats[2] + floats[3] + scratch, 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(inverses),
        TEST(what_cannot_be_inverted),
        TEST(direction_solves_the_fisher),
        TEST(factors_are_those_of_the_samples),
        TEST(bounded),
        TEST(closed_forms),
        TEST(refused),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
