/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of every operation, in every backend and element type, against central differences.
 * The differences are those of the reference backend's fp32 forward, whatever is checked, at inputs
 * that both types have: so a bf16 gradient may differ by its own roundings, and by those of the
 * statistics that its forward left for it.
 */
#include "lt_support.h"

#include "libtrain/ops/ops.h"

#define STEP \
    1e-2 /* of the differences: their error is about STEP^2 / 6 plus 1e-7 / STEP of rounding */
#define SLOPE_NEAR 2e-3
#define TRIES      40

static const struct lt_context reference = {.backend = LT_BACKEND_REFERENCE};

/* Tolerance of the type: fp32 that of the differences; in bf16 each rounding is 2^-9, and a
 * gradient goes through a few. */
static double near_of(const struct lt_context *x)
{
    return x->dtype == LT_DTYPE_FP32 ? SLOPE_NEAR : SLOPE_NEAR + 3 * 0x1p-9;
}

/* Normal numbers that both types have. */
static float *inputs(int64_t n, uint64_t key, float deviation)
{
    float *x = normals(n, key, deviation);
    for (int64_t i = 0; i < n; i++)
        x[i] = lt_bf16_float(lt_bf16_round(x[i]));
    return x;
}

/* One scalar, sum of probe * output, as a function of the arrays in args, by the fp32 reference. */
struct scalar {
    enum lt_op_id op;
    const union lt_args *args;
    const float *output, *probe;
    int64_t outputs;
};

static double evaluate(const struct scalar *s)
{
    double sum = 0;
    lt_op(&reference, s->op, s->args);
    for (int64_t i = 0; i < s->outputs; i++)
        sum += (double)s->probe[i] * s->output[i];
    return sum;
}

/* gradient[i] must be d evaluate / d x[i]; TRIES elements drawn at random. x is one of the inputs.
 */
static void check_slope(const struct lt_context *context, const char *what, const struct scalar *s,
                        float *x, const float *gradient, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)gradient[i]));
    assert_true(largest > 0);
    for (uint64_t k = 0; k < TRIES; k++) {
        int64_t i = (int64_t)(lt_random_bits(99, k) % (uint64_t)n);
        float kept = x[i];
        x[i] = kept + (float)STEP;
        double up = evaluate(s), high = x[i];
        x[i] = kept - (float)STEP;
        double slope = (up - evaluate(s)) / (high - (double)x[i]);
        x[i] = kept;
        if (!(fabs(slope - (double)gradient[i]) <= near_of(context) * (largest + fabs(slope))))
            fail_msg("%s, %s, %s: gradient %lld is %.6g, differences say %.6g", what,
                     lt_backend_name(context->backend), lt_dtype_name(context->dtype), (long long)i,
                     (double)gradient[i], slope);
    }
    evaluate(s);
}

/* A backward that was run twice and adds has left twice what it left once. */
static void assert_doubled(const struct lt_context *x, const char *what, const void *twice,
                           float *once, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        once[i] *= 2;
    assert_near(what, floats(x->dtype, twice, n), once, n,
                x->dtype == LT_DTYPE_FP32 ? 1e-6 : 0x1p-8);
}

static void for_each_context(void (*check)(const struct lt_context *))
{
    for (int b = 0; b < LT_BACKEND_COUNT; b++)
        for (int d = 0; d < LT_DTYPE_COUNT; d++)
            check(&(struct lt_context){.backend = (enum lt_backend)b, .dtype = (enum lt_dtype)d});
}

static void embedding(const struct lt_context *x)
{
    int64_t b = 2, t = 5, c = 3, v = 7, n = b * t * c;
    float *word = inputs(v * c, 2, 1), *position = inputs(t * c, 3, 1), *dout = inputs(n, 4, 1),
          *out = zeros(n);
    union lt_args a = {
        .embedding_forward = {
            .b = b, .t = t, .c = c, .v = v, .tokens = words(b * t, 1, v), .out = out}};
    union lt_args back = a;
    a.embedding_forward.word = word;
    a.embedding_forward.position = position;
    struct lt_embedding *g = &back.embedding_backward;
    g->dout = typed(x->dtype, dout, n);
    g->dword = zeros(v * c);
    g->dposition = zeros(t * c);
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &back);
    struct scalar s = {LT_OP_EMBEDDING_FORWARD, &a, out, dout, n};
    check_slope(x, "embedding words", &s, word, g->dword, v * c);
    check_slope(x, "embedding positions", &s, position, g->dposition, t * c);
    float *with = copy_of(g->dword, v * c);
    memset(g->dword, 0, (size_t)(v * c) * sizeof *with);
    a.embedding_forward.position = NULL;
    g->dposition = NULL;
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &back);
    assert_memory_equal(g->dword, with, (size_t)(v * c) * sizeof *with);
    check_slope(x, "embedding without positions", &s, word, g->dword, v * c);
}

static void layernorm(const struct lt_context *x)
{
    int64_t rows = 4, c = 9, n = rows * c;
    float *in = inputs(n, 1, 1.5f), *weight = normals(c, 2, 1), *bias = normals(c, 3, 1),
          *dout = inputs(n, 4, 1);
    union lt_args a = {.layernorm_forward = {.out = zeros(n),
                                             .mean = zeros(rows),
                                             .rstd = zeros(rows),
                                             .in = in,
                                             .weight = weight,
                                             .bias = bias,
                                             .rows = rows,
                                             .c = c}};
    union lt_args own = a;
    struct lt_layernorm *g = &own.layernorm_backward;
    g->in = typed(x->dtype, in, n);
    g->out = typed(x->dtype, zeros(n), n);
    g->dout = typed(x->dtype, dout, n);
    g->din = typed(x->dtype, zeros(n), n);
    g->mean = zeros(rows);
    g->rstd = zeros(rows);
    g->dweight = zeros(c);
    g->dbias = zeros(c);
    lt_op(x, LT_OP_LAYERNORM_FORWARD, &own);
    lt_op(x, LT_OP_LAYERNORM_BACKWARD, &own);
    float *once = floats(x->dtype, g->din, n);
    struct scalar s = {LT_OP_LAYERNORM_FORWARD, &a, a.layernorm_forward.out, dout, n};
    check_slope(x, "layernorm input", &s, in, once, n);
    check_slope(x, "layernorm weight", &s, weight, g->dweight, c);
    check_slope(x, "layernorm bias", &s, bias, g->dbias, c);
    lt_op(x, LT_OP_LAYERNORM_BACKWARD, &own);
    assert_doubled(x, "layernorm adds into din", g->din, once, n);
}

static void rmsnorm(const struct lt_context *x)
{
    int64_t rows = 4, c = 9, n = rows * c;
    float *in = inputs(n, 1, 1.5f), *weight = normals(c, 2, 1), *dout = inputs(n, 4, 1);
    union lt_args a = {.rmsnorm_forward = {.out = zeros(n),
                                           .rstd = zeros(rows),
                                           .in = in,
                                           .weight = weight,
                                           .rows = rows,
                                           .c = c}};
    union lt_args own = a;
    struct lt_rmsnorm *g = &own.rmsnorm_backward;
    g->in = typed(x->dtype, in, n);
    g->out = typed(x->dtype, zeros(n), n);
    g->dout = typed(x->dtype, dout, n);
    g->din = typed(x->dtype, normals(n, 5, 1), n); /* must be overwritten */
    g->rstd = zeros(rows);
    g->dweight = zeros(c);
    lt_op(x, LT_OP_RMSNORM_FORWARD, &own);
    lt_op(x, LT_OP_RMSNORM_BACKWARD, &own);
    float *once = floats(x->dtype, g->din, n);
    struct scalar s = {LT_OP_RMSNORM_FORWARD, &a, a.rmsnorm_forward.out, dout, n};
    check_slope(x, "rmsnorm input", &s, in, once, n);
    check_slope(x, "rmsnorm weight", &s, weight, g->dweight, c);
    g->add = 1;
    lt_op(x, LT_OP_RMSNORM_BACKWARD, &own);
    assert_doubled(x, "rmsnorm adds into din", g->din, once, n);
}

/* Heads of their own, groups of two, and one group for all. */
static void rope(const struct lt_context *x)
{
    for (int64_t groups = 4; groups > 0; groups /= 2) {
        int64_t b = 2, t = 5, h = 4, d = 6, c = h * d, narrow = b * t * (c + 2 * groups * d),
                wide = 3 * b * t * c;
        float *in = inputs(narrow, 1, 1), *dout = inputs(wide, 2, 1), *turn = zeros(t * d);
        lt_rope_turns(turn, t, d, 100);
        union lt_args a = {.rope_forward = {.out = zeros(wide),
                                            .in = in,
                                            .turn = turn,
                                            .b = b,
                                            .t = t,
                                            .c = c,
                                            .h = h,
                                            .groups = groups}};
        union lt_args back = a;
        back.rope_backward.dout = typed(x->dtype, dout, wide);
        back.rope_backward.din = typed(x->dtype, normals(narrow, 3, 1), narrow);
        lt_op(x, LT_OP_ROPE_BACKWARD, &back);
        struct scalar s = {LT_OP_ROPE_FORWARD, &a, a.rope_forward.out, dout, wide};
        check_slope(x, "rope", &s, in, floats(x->dtype, back.rope_backward.din, narrow), narrow);
    }
}

/* A score of turned heads depends on the distance of the positions alone, and position 0 is not
 * turned. */
static void rope_turns_by_distance(const struct lt_context *x)
{
    int64_t t = 9, d = 8, wide = 3 * t * d;
    float *in = zeros(wide), *turn = zeros(t * d), *head = inputs(2 * d, 1, 1);
    lt_rope_turns(turn, t, d, 100);
    for (int64_t i = 0; i < t; i++)
        memcpy(in + i * 3 * d, head, (size_t)(2 * d) * sizeof *head);
    union lt_args a = {.rope_forward = {.out = typed(x->dtype, zeros(wide), wide),
                                        .in = typed(x->dtype, in, wide),
                                        .turn = turn,
                                        .b = 1,
                                        .t = t,
                                        .c = d,
                                        .h = 1,
                                        .groups = 1}};
    lt_op(x, LT_OP_ROPE_FORWARD, &a);
    float *out = floats(x->dtype, a.rope_forward.out, wide), score[2] = {0};
    assert_near("position 0", out, head, 2 * d, 1e-6);
    for (int64_t i = 0; i < d; i++) {
        score[0] += out[3 * 3 * d + i] * out[1 * 3 * d + d + i];
        score[1] += out[8 * 3 * d + i] * out[6 * 3 * d + d + i];
    }
    assert_near("scores at one distance", &score[0], &score[1], 1, 2 * near_of(x));
    assert_true(fabs((double)out[3 * 3 * d] - (double)head[0]) > 0.01);
}

static void swiglu(const struct lt_context *x)
{
    int64_t rows = 3, f = 20, n = rows * f;
    float *in = inputs(2 * n, 1, 2), *dout = inputs(n, 2, 1);
    union lt_args a = {.swiglu_forward = {.out = zeros(n), .in = in, .rows = rows, .f = f}};
    union lt_args back = a;
    back.swiglu_backward.in = typed(x->dtype, in, 2 * n);
    back.swiglu_backward.dout = typed(x->dtype, dout, n);
    back.swiglu_backward.din = typed(x->dtype, zeros(2 * n), 2 * n);
    lt_op(x, LT_OP_SWIGLU_BACKWARD, &back);
    struct scalar s = {LT_OP_SWIGLU_FORWARD, &a, a.swiglu_forward.out, dout, n};
    check_slope(x, "swiglu", &s, in, floats(x->dtype, back.swiglu_backward.din, 2 * n), 2 * n);
}

static void matmul(const struct lt_context *x)
{
    int64_t rows = 4, n = 5, k = 7;
    float *in = inputs(rows * k, 1, 1), *weight = inputs(n * k, 2, 1), *bias = normals(n, 3, 1),
          *dout = inputs(rows * n, 4, 1);
    union lt_args a = {.matmul_forward = {.out = zeros(rows * n),
                                          .in = in,
                                          .weight = weight,
                                          .bias = bias,
                                          .rows = rows,
                                          .n = n,
                                          .k = k}};
    union lt_args own = a;
    struct lt_matmul *g = &own.matmul_backward;
    g->in = typed(x->dtype, in, rows * k);
    g->weight = typed(x->dtype, weight, n * k);
    g->dout = typed(x->dtype, dout, rows * n);
    g->din = typed(x->dtype, zeros(rows * k), rows * k);
    g->dweight = zeros(n * k);
    g->dbias = zeros(n);
    lt_op(x, LT_OP_MATMUL_BACKWARD, &own);
    struct scalar s = {LT_OP_MATMUL_FORWARD, &a, a.matmul_forward.out, dout, rows * n};
    float *once = floats(x->dtype, g->din, rows * k);
    check_slope(x, "matmul input", &s, in, once, rows * k);
    check_slope(x, "matmul weight", &s, weight, g->dweight, n * k);
    check_slope(x, "matmul bias", &s, bias, g->dbias, n);
    g->add = 1;
    lt_op(x, LT_OP_MATMUL_BACKWARD, &own);
    assert_doubled(x, "matmul adds into din", g->din, once, rows * k);
}

static void attention(const struct lt_context *x)
{
    int64_t b = 2, t = 6, h = 2, c = 8, n = b * t * c;
    float *qkv = inputs(3 * n, 1, 1), *dout = inputs(n, 2, 1);
    union lt_args a = {
        .attention_forward = {
            .out = zeros(n), .lse = zeros(b * h * t), .qkv = qkv, .b = b, .t = t, .c = c, .h = h}};
    union lt_args own = a;
    struct lt_attention *g = &own.attention_backward;
    g->qkv = typed(x->dtype, qkv, 3 * n);
    g->out = typed(x->dtype, zeros(n), n);
    g->lse = zeros(b * h * t);
    g->slots = lt_threads();
    g->scratch = zeros(g->slots * (int64_t)lt_attention_scratch(x->dtype, t, c / h));
    g->dout = typed(x->dtype, dout, n);
    g->dqkv = typed(x->dtype, normals(3 * n, 3, 1), 3 * n); /* must be overwritten */
    lt_op(x, LT_OP_ATTENTION_FORWARD, &own);
    lt_op(x, LT_OP_ATTENTION_BACKWARD, &own);
    struct scalar s = {LT_OP_ATTENTION_FORWARD, &a, a.attention_forward.out, dout, n};
    check_slope(x, "attention qkv", &s, qkv, floats(x->dtype, g->dqkv, 3 * n), 3 * n);
}

/* A change of tokens 4, 5, 6 is seen by none before. */
static void causal(const struct lt_context *x)
{
    int64_t b = 1, t = 7, h = 2, c = 8, n = t * c, size = (int64_t)lt_dtype_bytes(x->dtype);
    float *qkv = inputs(3 * n, 1, 1);
    union lt_args a = {.attention_forward = {.out = typed(x->dtype, zeros(n), n),
                                             .lse = zeros(h * t),
                                             .qkv = typed(x->dtype, qkv, 3 * n),
                                             .b = b,
                                             .t = t,
                                             .c = c,
                                             .h = h,
                                             .slots = lt_threads()}};
    struct lt_attention *p = &a.attention_forward;
    p->scratch = zeros(p->slots * (int64_t)lt_attention_scratch(x->dtype, t, c / h));
    lt_op(x, LT_OP_ATTENTION_FORWARD, &a);
    const char *before = memcpy(pool_bytes((size_t)(n * size)), p->out, (size_t)(n * size));
    for (int64_t i = 4 * 3 * c; i < 3 * n; i++)
        qkv[i] += 3;
    p->qkv = typed(x->dtype, qkv, 3 * n);
    lt_op(x, LT_OP_ATTENTION_FORWARD, &a);
    assert_memory_equal(p->out, before, (size_t)(4 * c * size));
    assert_memory_not_equal((const char *)p->out + 4 * c * size, before + 4 * c * size,
                            (size_t)(c * size));
}

static void gelu(const struct lt_context *x)
{
    int64_t n = 64;
    float *in = inputs(n, 1, 2), *dout = inputs(n, 2, 1);
    union lt_args a = {.gelu_forward = {.out = zeros(n), .in = in, .count = n}};
    union lt_args back = {.gelu_backward = {.in = typed(x->dtype, in, n),
                                            .dout = typed(x->dtype, dout, n),
                                            .din = typed(x->dtype, zeros(n), n),
                                            .count = n}};
    lt_op(x, LT_OP_GELU_BACKWARD, &back);
    struct scalar s = {LT_OP_GELU_FORWARD, &a, a.gelu_forward.out, dout, n};
    check_slope(x, "gelu", &s, in, floats(x->dtype, back.gelu_backward.din, n), n);
}

/* Its gradient is handed to both sides as it is; what can be wrong is the forward. */
static void residual(const struct lt_context *x)
{
    int64_t n = 33;
    float *left = inputs(n, 1, 1), *right = inputs(n, 2, 1), *sum = zeros(n);
    union lt_args own = {.residual_forward = {.out = typed(x->dtype, sum, n),
                                              .a = typed(x->dtype, left, n),
                                              .b = typed(x->dtype, right, n),
                                              .count = n}};
    lt_op(x, LT_OP_RESIDUAL_FORWARD, &own);
    for (int64_t i = 0; i < n; i++)
        sum[i] = left[i] + right[i];
    assert_near("residual", floats(x->dtype, own.residual_forward.out, n), sum, n,
                x->dtype == LT_DTYPE_FP32 ? 0 : 0x1p-8);
}

/* The loss is the mean over rows, so the gradient's scale is 1 / rows. */
static void classifier(const struct lt_context *x)
{
    int64_t rows = 5, v = 11;
    float *logits = inputs(rows * v, 1, 2), *losses = zeros(rows), *probe = zeros(rows);
    union lt_args a = {.classifier = {.logits = logits,
                                      .losses = losses,
                                      .targets = words(rows, 2, v),
                                      .rows = rows,
                                      .v = v}};
    for (int64_t r = 0; r < rows; r++)
        probe[r] = 1.0f / (float)rows;
    union lt_args back = a;
    back.classifier.logits = typed(x->dtype, logits, rows * v);
    back.classifier.losses = zeros(rows);
    back.classifier.scale = 1.0f / (float)rows;
    back.classifier.backward = 1;
    lt_op(x, LT_OP_CLASSIFIER, &back);
    struct scalar s = {LT_OP_CLASSIFIER, &a, losses, probe, rows};
    check_slope(x, "classifier", &s, logits, floats(x->dtype, back.classifier.logits, rows * v),
                rows * v);
    assert_near("losses with and without gradient", back.classifier.losses, losses, rows, 1e-6);
}

#define CHECKS(X) \
    X(embedding) \
    X(layernorm) \
    X(rmsnorm) \
    X(rope) \
    X(rope_turns_by_distance) \
    X(swiglu) X(matmul) X(attention) X(causal) X(gelu) X(residual) X(classifier)

#define RUN(name) \
    static void gradient_##name(void **state) \
    { \
        (void)state; \
        for_each_context(name); \
    }
CHECKS(RUN)
#undef RUN

int main(void)
{
#define ROW(name) cmocka_unit_test_teardown(gradient_##name, pool_free),
    const struct CMUnitTest tests[] = {CHECKS(ROW)};
#undef ROW
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
