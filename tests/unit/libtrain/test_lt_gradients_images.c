/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of every operation on images and of a mixture of experts, in every backend and
 * element type, against differences in double (lt_differences.h); the backends against each other
 * on odd shapes; where a mixture's rows go.
 */
#include "lt_differences.h"

/* ---- images ---------------------------------------------------------------------------------- */

/* An element is the float nearest to it; nothing below learns. */
static void image(const struct lt_context *x)
{
    int64_t n = 37;
    float *in = inputs(n, 1, 1);
    union lt_args a = {
        .image_forward = {.out = typed(x->dtype, zeros(n), n), .in = in, .count = n}};
    lt_op(x, LT_OP_IMAGE_FORWARD, &a);
    assert_memory_equal(floats(x->dtype, a.image_forward.out, n), in, (size_t)n * sizeof *in);
}

/* {h, w, c, n, k, stride, pad}: with and without an edge, strides that skip pixels, one pixel. */
static const int64_t convs[][7] = {{5, 7, 3, 4, 3, 1, 1},
                                   {6, 5, 2, 3, 3, 2, 1},
                                   {7, 7, 1, 5, 7, 2, 3},
                                   {4, 4, 3, 2, 1, 2, 0},
                                   {3, 5, 4, 3, 1, 1, 0}};
#define CONVS (sizeof convs / sizeof *convs)

static struct lt_conv conv_args(const int64_t *k, int64_t b, int64_t *ins, int64_t *outs,
                                int64_t *weights)
{
    struct lt_conv conv = {
        .b = b, .h = k[0], .w = k[1], .c = k[2], .n = k[3], .k = k[4], .stride = k[5], .pad = k[6]};
    *ins = b * conv.h * conv.w * conv.c;
    *outs = b * lt_conv_out(conv.h, conv.k, conv.stride, conv.pad) *
            lt_conv_out(conv.w, conv.k, conv.stride, conv.pad) * conv.n;
    *weights = conv.n * conv.k * conv.k * conv.c;
    return conv;
}

static void conv(const struct lt_context *x)
{
    for (size_t i = 0; i < CONVS; i++) {
        int64_t ins, outs, weights;
        struct lt_conv shape = conv_args(convs[i], 2, &ins, &outs, &weights);
        float *in = inputs(ins, 1, 1), *weight = inputs(weights, 2, 1), *dout = inputs(outs, 3, 1);
        union lt_args a = {.conv_forward = shape}, own = a;
        a.conv_forward.out = zero_doubles(outs);
        a.conv_forward.in = doubles(in, ins);
        a.conv_forward.weight = doubles(weight, weights);
        struct lt_conv *g = &own.conv_backward;
        g->in = typed(x->dtype, in, ins);
        g->weight = typed(x->dtype, weight, weights);
        g->dout = typed(x->dtype, dout, outs);
        g->din = typed(x->dtype, normals(ins, 4, 1), ins); /* must be overwritten */
        g->dweight = normals(weights, 5, 1);               /* likewise */
        g->scratch = zeros((int64_t)lt_conv_scratch(x->dtype, g));
        lt_op(x, LT_OP_CONV_BACKWARD, &own);
        float *once = floats(x->dtype, g->din, ins), *slopes = copy_of(g->dweight, weights);
        struct scalar s = {LT_OP_CONV_FORWARD, &a, a.conv_forward.out, dout, outs, 0};
        check_elements(x, "conv input", &s, a.conv_forward.in, once, ins);
        check_elements(x, "conv weight", &s, a.conv_forward.weight, g->dweight, weights);
        g->add = g->accumulate = 1;
        lt_op(x, LT_OP_CONV_BACKWARD, &own);
        assert_doubled(x, "conv adds into din", g->din, once, ins);
        assert_doubled(&(struct lt_context){0}, "conv adds into dweight", g->dweight, slopes,
                       weights);
    }
}

static void batchnorm(const struct lt_context *x)
{
    int64_t rows = 11, c = 5, n = rows * c;
    float *in = inputs(n, 1, 1.5f), *weight = inputs(c, 2, 1), *bias = inputs(c, 3, 1),
          *dout = inputs(n, 4, 1);
    union lt_args a = {.batchnorm_forward = {.out = zero_doubles(n),
                                             .mean = zeros(c),
                                             .rstd = zeros(c),
                                             .running_mean = zeros(c),
                                             .running_variance = zeros(c),
                                             .in = doubles(in, n),
                                             .weight = weight,
                                             .bias = bias,
                                             .scratch = zeros((int64_t)lt_batchnorm_scratch(c)),
                                             .rows = rows,
                                             .c = c,
                                             .update = 1}};
    union lt_args own = a;
    struct lt_batchnorm *g = &own.batchnorm_backward;
    g->in = typed(x->dtype, in, n);
    g->out = typed(x->dtype, zeros(n), n);
    g->dout = typed(x->dtype, dout, n);
    g->din = typed(x->dtype, normals(n, 5, 1), n); /* must be overwritten */
    g->mean = zeros(c);
    g->rstd = zeros(c);
    g->running_mean = normals(c, 6, 1);
    g->running_variance = normals(c, 7, 1);
    g->dweight = zeros(c);
    g->dbias = zeros(c);
    lt_op(x, LT_OP_BATCHNORM_FORWARD, &own);
    lt_op(x, LT_OP_BATCHNORM_BACKWARD, &own);
    struct scalar s = {LT_OP_BATCHNORM_FORWARD, &a, a.batchnorm_forward.out, dout, n, 0};
    check_elements(x, "batchnorm input", &s, a.batchnorm_forward.in, floats(x->dtype, g->din, n),
                   n);
    check_floats(x, "batchnorm weight", &s, weight, g->dweight, c);
    check_floats(x, "batchnorm bias", &s, bias, g->dbias, c);
}

/* The running statistics move a tenth of the way, the variance unbiased; an evaluation uses them,
 * whatever the batch is, and moves nothing. */
static void running_statistics(const struct lt_context *x)
{
    int64_t rows = 4, c = 2, n = rows * c;
    const float in[] = {1, -3, 2, 0, 3, 1, 6, 2}; /* columns of mean 3 and 0, variance 14/3 each */
    float mean[] = {1, 1}, variance[] = {1, 2}, one[] = {1, 1}, none[] = {0, 0};
    union lt_args a = {.batchnorm_forward = {.out = typed(x->dtype, zeros(n), n),
                                             .mean = zeros(c),
                                             .rstd = zeros(c),
                                             .running_mean = mean,
                                             .running_variance = variance,
                                             .in = typed(x->dtype, in, n),
                                             .weight = one,
                                             .bias = none,
                                             .scratch = zeros((int64_t)lt_batchnorm_scratch(c)),
                                             .rows = rows,
                                             .c = c,
                                             .update = 1}};
    lt_op(x, LT_OP_BATCHNORM_FORWARD, &a);
    assert_near("running mean", mean, (const float[]){1.2f, 0.9f}, 2, 1e-6);
    assert_near("running variance", variance, (const float[]){0.9f + 14.0f / 30, 1.8f + 14.0f / 30},
                2, 1e-6);
    a.batchnorm_forward.update = 0;
    a.batchnorm_forward.evaluation = 1;
    variance[0] = 4, mean[0] = 1;
    lt_op(x, LT_OP_BATCHNORM_FORWARD, &a);
    assert_true(mean[0] == 1.0f && variance[0] == 4.0f);
    float *out = floats(x->dtype, a.batchnorm_forward.out, n);
    assert_true(fabsf(out[0]) < 1e-5f && fabsf(out[2] - 0.5f) < 2e-3f &&
                fabsf(out[6] - 2.5f) < 1e-2f);
}

static void relu(const struct lt_context *x)
{
    int64_t n = 64;
    float *in = apart(n, 1), *dout = inputs(n, 2, 1);
    union lt_args a = {.relu_forward = {.out = zero_doubles(n), .in = doubles(in, n), .count = n}};
    union lt_args own = {.relu_forward = {.out = typed(x->dtype, in, n),
                                          .in = typed(x->dtype, in, n),
                                          .dout = typed(x->dtype, dout, n),
                                          .din = typed(x->dtype, zeros(n), n),
                                          .count = n}};
    lt_op(x, LT_OP_RELU_FORWARD, &own);
    lt_op(x, LT_OP_RELU_BACKWARD, &own);
    struct scalar s = {LT_OP_RELU_FORWARD, &a, a.relu_forward.out, dout, n, 0};
    check_elements(x, "relu", &s, a.relu_forward.in, floats(x->dtype, own.relu_backward.din, n), n);
}

static void maxpool(const struct lt_context *x)
{
    static const int64_t shapes[][3] = {{3, 2, 1}, {2, 2, 0}, {3, 1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct lt_maxpool shape = {.b = 2,
                                   .h = 5,
                                   .w = 6,
                                   .c = 3,
                                   .k = shapes[i][0],
                                   .stride = shapes[i][1],
                                   .pad = shapes[i][2]};
        int64_t ins = 2 * 5 * 6 * 3, outs = 2 * lt_conv_out(5, shape.k, shape.stride, shape.pad) *
                                            lt_conv_out(6, shape.k, shape.stride, shape.pad) * 3;
        float *in = apart(ins, 1), *dout = inputs(outs, 2, 1);
        union lt_args a = {.maxpool_forward = shape}, own = a;
        a.maxpool_forward.out = zero_doubles(outs);
        a.maxpool_forward.in = doubles(in, ins);
        a.maxpool_forward.where = pool_bytes((size_t)outs * sizeof(int32_t));
        struct lt_maxpool *g = &own.maxpool_forward;
        g->out = typed(x->dtype, zeros(outs), outs);
        g->in = typed(x->dtype, in, ins);
        g->dout = typed(x->dtype, dout, outs);
        g->din = typed(x->dtype, normals(ins, 3, 1), ins); /* must be overwritten */
        g->where = pool_bytes((size_t)outs * sizeof(int32_t));
        lt_op(x, LT_OP_MAXPOOL_FORWARD, &own);
        lt_op(x, LT_OP_MAXPOOL_BACKWARD, &own);
        struct scalar s = {LT_OP_MAXPOOL_FORWARD, &a, a.maxpool_forward.out, dout, outs, 0};
        check_elements(x, "maxpool", &s, a.maxpool_forward.in, floats(x->dtype, g->din, ins), ins);
    }
}

static void avgpool(const struct lt_context *x)
{
    int64_t b = 2, pixels = 6, c = 5, ins = b * pixels * c;
    float *in = inputs(ins, 1, 1), *dout = inputs(b * c, 2, 1);
    union lt_args a = {
        .avgpool_forward = {
            .out = zero_doubles(b * c), .in = doubles(in, ins), .b = b, .pixels = pixels, .c = c}};
    union lt_args own = a;
    own.avgpool_backward.dout = typed(x->dtype, dout, b * c);
    own.avgpool_backward.din = typed(x->dtype, normals(ins, 3, 1), ins); /* must be overwritten */
    lt_op(x, LT_OP_AVGPOOL_BACKWARD, &own);
    struct scalar s = {LT_OP_AVGPOOL_FORWARD, &a, a.avgpool_forward.out, dout, b * c, 0};
    check_elements(x, "avgpool", &s, a.avgpool_forward.in,
                   floats(x->dtype, own.avgpool_backward.din, ins), ins);
}

/* ---- a mixture of experts ---------------------------------------------------------------------- */

enum { ROWS = 13, EXPERTS = 5, CHOICES = 2, CAPACITY = 4, SLOTS = EXPERTS * CAPACITY };

/* Logits of which no two of a row are near, so that a small step changes no choice. */
static float *logits_of(uint64_t key)
{
    float *x = zeros(ROWS * EXPERTS);
    for (int64_t r = 0; r < ROWS; r++) {
        float *row = apart(EXPERTS, key + (uint64_t)r);
        for (int64_t e = 0; e < EXPERTS; e++)
            x[r * EXPERTS + e] = 2 * row[e];
    }
    return x;
}

static struct lt_route route_args(const void *in)
{
    return (struct lt_route){.gate = zeros(ROWS * CHOICES),
                             .share = zeros(ROWS * EXPERTS),
                             .load = zeros(EXPERTS),
                             .slot = pool_bytes(ROWS * CHOICES * sizeof(int32_t)),
                             .in = in,
                             .rows = ROWS,
                             .experts = EXPERTS,
                             .k = CHOICES,
                             .capacity = CAPACITY};
}

/* The gates alone; then the balance alone, whose load is counted and no function of the logits. */
static void route(const struct lt_context *x)
{
    int64_t n = ROWS * EXPERTS;
    float *logits = logits_of(1), *dgate = inputs(ROWS * CHOICES, 2, 1), *even = zeros(n);
    union lt_args a = {.route_forward = route_args(doubles(logits, n))},
                  own = {.route_forward = route_args(typed(x->dtype, logits, n))};
    struct lt_route *g = &own.route_backward;
    g->din = typed(x->dtype, normals(n, 3, 1), n); /* must be overwritten */
    g->dgate = dgate;
    lt_op(x, LT_OP_ROUTE_FORWARD, &own);
    lt_op(x, LT_OP_ROUTE_BACKWARD, &own);
    struct scalar gates = {LT_OP_ROUTE_FORWARD, &a, a.route_forward.gate, dgate, ROWS * CHOICES, 1};
    check_elements(x, "gates", &gates, a.route_forward.in, floats(x->dtype, g->din, n), n);
    g->dgate = zeros(ROWS * CHOICES);
    g->balance = 0.5f;
    lt_op(x, LT_OP_ROUTE_BACKWARD, &own);
    for (int64_t i = 0; i < n; i++)
        even[i] = g->balance * EXPERTS / ROWS * g->load[i % EXPERTS] / (ROWS * CHOICES);
    struct scalar balance = {LT_OP_ROUTE_FORWARD, &a, a.route_forward.share, even, n, 1};
    check_elements(x, "balance", &balance, a.route_forward.in, floats(x->dtype, g->din, n), n);
}

/* Every row has its two best experts, first choices before second ones, at most CAPACITY each. */
static void places(const struct lt_context *x)
{
    float *logits = logits_of(7);
    union lt_args a = {.route_forward = route_args(typed(x->dtype, logits, ROWS * EXPERTS))};
    const struct lt_route *g = &a.route_forward;
    int64_t taken[EXPERTS] = {0}, choices[EXPERTS] = {0}, dropped = 0;
    lt_op(x, LT_OP_ROUTE_FORWARD, &a);
    for (int64_t j = 0; j < CHOICES; j++)
        for (int64_t r = 0; r < ROWS; r++) {
            const float *row = logits + r * EXPERTS;
            int32_t slot = g->slot[r * CHOICES + j];
            int64_t expert = lt_route_chosen(g, slot), better = 0;
            for (int64_t e = 0; e < EXPERTS; e++)
                better += row[e] > row[expert];
            assert_int_equal(better, j);
            choices[expert]++;
            dropped += slot < 0;
            assert_int_equal(slot < 0, taken[expert] == CAPACITY);
            if (slot >= 0)
                assert_int_equal(slot, expert * CAPACITY + taken[expert]++);
        }
    assert_true(dropped > 0); /* else this test says nothing of them */
    for (int64_t e = 0; e < EXPERTS; e++)
        assert_true(g->load[e] == (float)choices[e]);
    for (int64_t r = 0; r < ROWS; r++)
        assert_true(fabsf(g->gate[2 * r] + g->gate[2 * r + 1] - 1) < 1e-6f &&
                    g->gate[2 * r] > g->gate[2 * r + 1]);
}

/* Slots of a router that has dropped some, and left some places empty. */
static int32_t *slots_of(const struct lt_context *x)
{
    union lt_args a = {.route_forward = route_args(typed(x->dtype, logits_of(7), ROWS * EXPERTS))};
    lt_op(x, LT_OP_ROUTE_FORWARD, &a);
    return a.route_forward.slot;
}

static void dispatch(const struct lt_context *x)
{
    int64_t c = 3, ins = ROWS * c, outs = SLOTS * c;
    float *in = inputs(ins, 1, 1), *dout = inputs(outs, 2, 1);
    union lt_args a = {.dispatch_forward = {.out = zero_doubles(outs),
                                            .in = doubles(in, ins),
                                            .slot = slots_of(x),
                                            .rows = ROWS,
                                            .k = CHOICES,
                                            .slots = SLOTS,
                                            .c = c}};
    union lt_args own = a;
    own.dispatch_backward.dout = typed(x->dtype, dout, outs);
    own.dispatch_backward.din = typed(x->dtype, normals(ins, 3, 1), ins); /* must be overwritten */
    lt_op(x, LT_OP_DISPATCH_BACKWARD, &own);
    float *once = floats(x->dtype, own.dispatch_backward.din, ins);
    struct scalar s = {LT_OP_DISPATCH_FORWARD, &a, a.dispatch_forward.out, dout, outs, 0};
    check_elements(x, "dispatch", &s, a.dispatch_forward.in, once, ins);
    own.dispatch_backward.add = 1;
    lt_op(x, LT_OP_DISPATCH_BACKWARD, &own);
    assert_doubled(x, "dispatch adds into din", own.dispatch_backward.din, once, ins);
}

static void experts(const struct lt_context *x)
{
    int64_t n = 3, k = 4, ins = SLOTS * k, outs = SLOTS * n, weights = EXPERTS * n * k;
    float *in = inputs(ins, 1, 1), *weight = inputs(weights, 2, 1), *dout = inputs(outs, 3, 1);
    struct lt_experts shape = {
        .experts = EXPERTS, .capacity = CAPACITY, .n = n, .k = k, .routed = ROWS * CHOICES};
    union lt_args a = {.experts_forward = shape}, own = a;
    a.experts_forward.out = zero_doubles(outs);
    a.experts_forward.in = doubles(in, ins);
    a.experts_forward.weight = doubles(weight, weights);
    struct lt_experts *g = &own.experts_backward;
    g->in = typed(x->dtype, in, ins);
    g->weight = typed(x->dtype, weight, weights);
    g->dout = typed(x->dtype, dout, outs);
    g->din = typed(x->dtype, normals(ins, 4, 1), ins); /* must be overwritten */
    g->dweight = normals(weights, 5, 1);
    lt_op(x, LT_OP_EXPERTS_BACKWARD, &own);
    struct scalar s = {LT_OP_EXPERTS_FORWARD, &a, a.experts_forward.out, dout, outs, 0};
    check_elements(x, "experts input", &s, a.experts_forward.in, floats(x->dtype, g->din, ins),
                   ins);
    check_elements(x, "experts weight", &s, a.experts_forward.weight, g->dweight, weights);
}

static void combine(const struct lt_context *x)
{
    int64_t c = 3, ins = SLOTS * c, outs = ROWS * c;
    float *in = inputs(ins, 1, 1), *dout = inputs(outs, 2, 1), *gate = inputs(ROWS * CHOICES, 3, 1);
    union lt_args a = {.combine_forward = {.out = zero_doubles(outs),
                                           .in = doubles(in, ins),
                                           .slot = slots_of(x),
                                           .gate = gate,
                                           .rows = ROWS,
                                           .k = CHOICES,
                                           .slots = SLOTS,
                                           .c = c}};
    union lt_args own = a;
    struct lt_combine *g = &own.combine_backward;
    g->in = typed(x->dtype, in, ins);
    g->dout = typed(x->dtype, dout, outs);
    g->din = typed(x->dtype, normals(ins, 4, 1), ins); /* must be overwritten */
    g->dgate = normals(ROWS * CHOICES, 5, 1);          /* likewise */
    lt_op(x, LT_OP_COMBINE_BACKWARD, &own);
    struct scalar s = {LT_OP_COMBINE_FORWARD, &a, a.combine_forward.out, dout, outs, 0};
    check_elements(x, "combine input", &s, a.combine_forward.in, floats(x->dtype, g->din, ins),
                   ins);
    check_floats(x, "combine gates", &s, gate, g->dgate, ROWS * CHOICES);
}

/* ---- backends ---------------------------------------------------------------------------------- */

/* Both directions; the last shape takes more columns than are made at a time. */
static void compare_conv(const struct lt_context *x, const int64_t *shape)
{
    const struct lt_context truth = {.dtype = x->dtype};
    double near = x->dtype == LT_DTYPE_FP32 ? 2e-5 : 0x1p-7;
    int64_t ins, outs, weights, b = 3;
    union lt_args a = {.conv_forward = conv_args(shape, b, &ins, &outs, &weights)}, r;
    a.conv_forward.in = typed(x->dtype, normals(ins, 1, 1), ins);
    a.conv_forward.weight = typed(x->dtype, normals(weights, 2, 1), weights);
    a.conv_forward.dout = typed(x->dtype, normals(outs, 3, 1), outs);
    r = a;
    struct lt_conv *p[2] = {&a.conv_forward, &r.conv_forward};
    for (int q = 0; q < 2; q++) {
        p[q]->out = typed(x->dtype, zeros(outs), outs);
        p[q]->din = typed(x->dtype, zeros(ins), ins);
        p[q]->dweight = zeros(weights);
        p[q]->scratch = zeros((int64_t)lt_conv_scratch(x->dtype, p[q]));
    }
    lt_op(x, LT_OP_CONV_FORWARD, &a);
    lt_op(&truth, LT_OP_CONV_FORWARD, &r);
    assert_near("conv", floats(x->dtype, p[0]->out, outs), floats(x->dtype, p[1]->out, outs), outs,
                near);
    lt_op(x, LT_OP_CONV_BACKWARD, &a);
    lt_op(&truth, LT_OP_CONV_BACKWARD, &r);
    /* the gradients of columns are rounded before they are added */
    assert_near("conv din", floats(x->dtype, p[0]->din, ins), floats(x->dtype, p[1]->din, ins), ins,
                2 * near);
    assert_near("conv dweight", p[0]->dweight, p[1]->dweight, weights, 5e-5);
}

static void backends_conv(void **state)
{
    (void)state;
    static const int64_t large[] = {64, 64, 16, 2, 3, 1, 1};
    for (int dtype = 0; dtype < LT_DTYPE_COUNT; dtype++) {
        struct lt_context cpu = {.backend = LT_BACKEND_CPU, .dtype = (enum lt_dtype)dtype};
        for (size_t i = 0; i < CONVS; i++)
            compare_conv(&cpu, convs[i]);
        compare_conv(&cpu, large);
    }
}

#define CHECKS(X) \
    X(image) \
    X(conv) \
    X(batchnorm) \
    X(running_statistics) \
    X(relu) X(maxpool) X(avgpool) X(route) X(places) X(dispatch) X(experts) X(combine)

#define RUN(name) \
    static void gradient_##name(void **state) \
    { \
        (void)state; \
        for_each_context(name); \
    }
CHECKS(RUN)
#undef RUN

/* The last test: an operation without a check is found. */
static void all_checked(void **state)
{
    (void)state;
    assert_checked(LT_OP_IMAGE_FORWARD, LT_OP_COMBINE_BACKWARD, LT_OP_IMAGE_FORWARD);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_teardown(gradient_##name, pool_free),
    const struct CMUnitTest tests[] = {CHECKS(ROW)
                                           cmocka_unit_test_teardown(backends_conv, pool_free),
                                       cmocka_unit_test(all_checked)};
#undef ROW
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
