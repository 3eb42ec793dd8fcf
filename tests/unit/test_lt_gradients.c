/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation. The gradient of the reference backend is held against central differences of its forward; every other
 * backend is held against the reference on odd shapes. Sums of many products differ in the last bits between backends, hence
 * tolerances.
 */
#include "lt_support.h"

#include "libtrain/ops.h"

#define STEP         1e-2 /* of the differences: their error is about STEP^2 / 6 plus 1e-7 / STEP of rounding */
#define SLOPE_NEAR   2e-3
#define BACKEND_NEAR 2e-5
#define TRIES        40

static const struct lt_context reference = {.backend = LT_BACKEND_REFERENCE};

/* One scalar, sum of probe * output, as a function of the arrays in args. */
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

/* gradient[i] must be d evaluate / d x[i]; TRIES elements drawn at random. x is one of the inputs. */
static void check_slope(const char *what, const struct scalar *s, float *x, const float *gradient, int64_t n)
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
        if (!(fabs(slope - (double)gradient[i]) <= SLOPE_NEAR * (largest + fabs(slope))))
            fail_msg("%s: gradient %lld is %.6g, differences say %.6g", what, (long long)i, (double)gradient[i], slope);
    }
    evaluate(s);
}

/* ---- gradients of the reference ------------------------------------------------------------------------------------------- */

static void embedding_gradient(void **state)
{
    (void)state;
    int64_t b = 2, t = 5, c = 3, v = 7, n = b * t * c;
    union lt_args a = {.embedding_forward = {.b = b, .t = t, .c = c, .v = v, .tokens = words(b * t, 1, v), .out = zeros(n)}};
    float *word = normals(v * c, 2, 1), *position = normals(t * c, 3, 1), *dout = normals(n, 4, 1);
    float *dword = zeros(v * c), *dposition = zeros(t * c);
    a.embedding_forward.word = word;
    a.embedding_forward.position = position;
    struct scalar s = {LT_OP_EMBEDDING_FORWARD, &a, a.embedding_forward.out, dout, n};
    evaluate(&s);
    union lt_args back = a;
    back.embedding_backward.dout = dout;
    back.embedding_backward.dword = dword;
    back.embedding_backward.dposition = dposition;
    lt_op(&reference, LT_OP_EMBEDDING_BACKWARD, &back);
    check_slope("embedding words", &s, word, dword, v * c);
    check_slope("embedding positions", &s, position, dposition, t * c);
}

static void layernorm_gradient(void **state)
{
    (void)state;
    int64_t rows = 4, c = 9, n = rows * c;
    float *in = normals(n, 1, 1.5f), *weight = normals(c, 2, 1), *bias = normals(c, 3, 1), *dout = normals(n, 4, 1);
    union lt_args a = {.layernorm_forward = {.out = zeros(n),
                                             .mean = zeros(rows),
                                             .rstd = zeros(rows),
                                             .in = in,
                                             .weight = weight,
                                             .bias = bias,
                                             .rows = rows,
                                             .c = c}};
    struct scalar s = {LT_OP_LAYERNORM_FORWARD, &a, a.layernorm_forward.out, dout, n};
    evaluate(&s);
    union lt_args back = a;
    struct lt_layernorm *g = &back.layernorm_backward;
    g->dout = dout;
    g->din = zeros(n);
    g->dweight = zeros(c);
    g->dbias = zeros(c);
    lt_op(&reference, LT_OP_LAYERNORM_BACKWARD, &back);
    check_slope("layernorm input", &s, in, g->din, n);
    check_slope("layernorm weight", &s, weight, g->dweight, c);
    check_slope("layernorm bias", &s, bias, g->dbias, c);
    float *once = copy_of(g->din, n);
    lt_op(&reference, LT_OP_LAYERNORM_BACKWARD, &back);
    for (int64_t i = 0; i < n; i++)
        once[i] *= 2;
    assert_near("layernorm adds into din", g->din, once, n, 1e-6);
}

static void matmul_gradient(void **state)
{
    (void)state;
    int64_t rows = 4, n = 5, k = 7;
    float *in = normals(rows * k, 1, 1), *weight = normals(n * k, 2, 1), *bias = normals(n, 3, 1),
          *dout = normals(rows * n, 4, 1);
    union lt_args a = {
        .matmul_forward = {.out = zeros(rows * n), .in = in, .weight = weight, .bias = bias, .rows = rows, .n = n, .k = k}};
    struct scalar s = {LT_OP_MATMUL_FORWARD, &a, a.matmul_forward.out, dout, rows * n};
    evaluate(&s);
    union lt_args back = a;
    struct lt_matmul *g = &back.matmul_backward;
    g->dout = dout;
    g->din = zeros(rows * k);
    g->dweight = zeros(n * k);
    g->dbias = zeros(n);
    lt_op(&reference, LT_OP_MATMUL_BACKWARD, &back);
    check_slope("matmul input", &s, in, g->din, rows * k);
    check_slope("matmul weight", &s, weight, g->dweight, n * k);
    check_slope("matmul bias", &s, bias, g->dbias, n);
}

static void attention_gradient(void **state)
{
    (void)state;
    int64_t b = 2, t = 6, h = 2, c = 8, n = b * t * c;
    float *qkv = normals(3 * n, 1, 1), *dout = normals(n, 2, 1);
    union lt_args a = {
        .attention_forward = {.out = zeros(n), .lse = zeros(b * h * t), .qkv = qkv, .b = b, .t = t, .c = c, .h = h}};
    struct scalar s = {LT_OP_ATTENTION_FORWARD, &a, a.attention_forward.out, dout, n};
    evaluate(&s);
    union lt_args back = a;
    back.attention_backward.dout = dout;
    back.attention_backward.dqkv = normals(3 * n, 3, 1); /* must be overwritten */
    lt_op(&reference, LT_OP_ATTENTION_BACKWARD, &back);
    check_slope("attention qkv", &s, qkv, back.attention_backward.dqkv, 3 * n);
}

static void attention_is_causal(void **state)
{
    (void)state;
    int64_t b = 1, t = 7, h = 2, c = 8, n = t * c;
    float *qkv = normals(3 * n, 1, 1), *out = zeros(n);
    union lt_args a = {.attention_forward = {.out = out, .lse = zeros(h * t), .qkv = qkv, .b = b, .t = t, .c = c, .h = h}};
    lt_op(&reference, LT_OP_ATTENTION_FORWARD, &a);
    float *before = copy_of(out, n);
    for (int64_t i = 4 * 3 * c; i < 3 * n; i++) /* all of tokens 4, 5, 6 */
        qkv[i] += 3;
    lt_op(&reference, LT_OP_ATTENTION_FORWARD, &a);
    assert_memory_equal(out, before, (size_t)(4 * c) * sizeof *out);
    assert_memory_not_equal(out + 4 * c, before + 4 * c, (size_t)c * sizeof *out);
}

static void gelu_gradient(void **state)
{
    (void)state;
    int64_t n = 64;
    float *in = normals(n, 1, 2), *dout = normals(n, 2, 1);
    union lt_args a = {.gelu_forward = {.out = zeros(n), .in = in, .count = n}};
    struct scalar s = {LT_OP_GELU_FORWARD, &a, a.gelu_forward.out, dout, n};
    evaluate(&s);
    union lt_args back = {.gelu_backward = {.in = in, .dout = dout, .din = zeros(n), .count = n}};
    lt_op(&reference, LT_OP_GELU_BACKWARD, &back);
    check_slope("gelu", &s, in, back.gelu_backward.din, n);
}

static void residual_gradient(void **state)
{
    (void)state;
    int64_t n = 33;
    float *a_side = normals(n, 1, 1), *b_side = normals(n, 2, 1), *dout = normals(n, 3, 1);
    union lt_args a = {.residual_forward = {.out = zeros(n), .a = a_side, .b = b_side, .count = n}};
    struct scalar s = {LT_OP_RESIDUAL_FORWARD, &a, a.residual_forward.out, dout, n};
    check_slope("residual, left", &s, a_side, dout, n);
    check_slope("residual, right", &s, b_side, dout, n);
}

/* The loss is the mean over rows, so the gradient's scale is 1 / rows. */
static void classifier_gradient(void **state)
{
    (void)state;
    int64_t rows = 5, v = 11;
    float *logits = normals(rows * v, 1, 2), *losses = zeros(rows), *probe = zeros(rows);
    union lt_args a = {.classifier = {.logits = logits, .losses = losses, .targets = words(rows, 2, v), .rows = rows, .v = v}};
    for (int64_t r = 0; r < rows; r++)
        probe[r] = 1.0f / (float)rows;
    union lt_args back = a;
    back.classifier.logits = copy_of(logits, rows * v);
    back.classifier.losses = zeros(rows);
    back.classifier.scale = 1.0f / (float)rows;
    back.classifier.backward = 1;
    lt_op(&reference, LT_OP_CLASSIFIER, &back);
    struct scalar s = {LT_OP_CLASSIFIER, &a, losses, probe, rows};
    check_slope("classifier", &s, logits, back.classifier.logits, rows * v);
    assert_near("losses with and without gradient", back.classifier.losses, losses, rows, 1e-6);
}

/* ---- other backends against the reference --------------------------------------------------------------------------------- */

static void for_each_backend(void (*compare)(const struct lt_context *))
{
    for (int i = 0; i < LT_BACKEND_COUNT; i++)
        if (i != LT_BACKEND_REFERENCE)
            compare(&(struct lt_context){.backend = (enum lt_backend)i});
}

static void compare_embedding(const struct lt_context *x)
{
    int64_t b = 3, t = 65, c = 130, v = 50, n = b * t * c;
    const float *word = normals(v * c, 2, 1), *position = normals(t * c, 3, 1), *dout = normals(n, 4, 1);
    union lt_args a = {
        .embedding_forward = {
            .b = b, .t = t, .c = c, .v = v, .tokens = words(b * t, 1, v), .word = word, .position = position, .dout = dout}};
    union lt_args r = a;
    a.embedding_forward.out = zeros(n);
    r.embedding_forward.out = zeros(n);
    lt_op(x, LT_OP_EMBEDDING_FORWARD, &a);
    lt_op(&reference, LT_OP_EMBEDDING_FORWARD, &r);
    assert_near("embedding", a.embedding_forward.out, r.embedding_forward.out, n, BACKEND_NEAR);
    a.embedding_backward.dword = normals(v * c, 5, 1);
    a.embedding_backward.dposition = normals(t * c, 6, 1);
    r.embedding_backward.dword = copy_of(a.embedding_backward.dword, v * c);
    r.embedding_backward.dposition = copy_of(a.embedding_backward.dposition, t * c);
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &a);
    lt_op(&reference, LT_OP_EMBEDDING_BACKWARD, &r);
    assert_near("embedding dword", a.embedding_backward.dword, r.embedding_backward.dword, v * c, BACKEND_NEAR);
    assert_near("embedding dposition", a.embedding_backward.dposition, r.embedding_backward.dposition, t * c, BACKEND_NEAR);
}

static void compare_layernorm(const struct lt_context *x)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {65, 130}, {129, 768}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t rows = shapes[i][0], c = shapes[i][1], n = rows * c;
        union lt_args a = {.layernorm_forward = {.in = normals(n, 1, 2),
                                                 .weight = normals(c, 2, 1),
                                                 .bias = normals(c, 3, 1),
                                                 .dout = normals(n, 4, 1),
                                                 .rows = rows,
                                                 .c = c}};
        union lt_args r = a;
        struct lt_layernorm *p[2] = {&a.layernorm_forward, &r.layernorm_forward};
        for (int k = 0; k < 2; k++) {
            p[k]->out = zeros(n);
            p[k]->mean = zeros(rows);
            p[k]->rstd = zeros(rows);
            p[k]->din = normals(n, 5, 1);
            p[k]->dweight = normals(c, 6, 1);
            p[k]->dbias = normals(c, 7, 1);
        }
        lt_op(x, LT_OP_LAYERNORM_FORWARD, &a);
        lt_op(&reference, LT_OP_LAYERNORM_FORWARD, &r);
        assert_near("layernorm", p[0]->out, p[1]->out, n, BACKEND_NEAR);
        lt_op(x, LT_OP_LAYERNORM_BACKWARD, &a);
        lt_op(&reference, LT_OP_LAYERNORM_BACKWARD, &r);
        assert_near("layernorm din", p[0]->din, p[1]->din, n, 10 * BACKEND_NEAR);
        assert_near("layernorm dweight", p[0]->dweight, p[1]->dweight, c, BACKEND_NEAR);
        assert_near("layernorm dbias", p[0]->dbias, p[1]->dbias, c, BACKEND_NEAR);
    }
}

static void compare_matmul(const struct lt_context *x)
{
    static const int64_t shapes[][3] = {{1, 1, 1},   {3, 5, 7},    {8, 48, 16},   {9, 49, 17},   {65, 131, 33},
                                        {64, 16, 4}, {130, 96, 1}, {31, 400, 97}, {5, 20, 1600}, {257, 70, 800}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            int64_t rows = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            union lt_args a = {.matmul_forward = {.in = normals(rows * k, 1, 1),
                                                  .weight = normals(n * k, 2, 1),
                                                  .bias = i % 2 ? normals(n, 3, 1) : NULL,
                                                  .dout = normals(rows * n, 4, 1),
                                                  .rows = rows,
                                                  .n = n,
                                                  .k = k,
                                                  .accumulate = accumulate}};
            union lt_args r = a;
            struct lt_matmul *p[2] = {&a.matmul_forward, &r.matmul_forward};
            for (int q = 0; q < 2; q++) {
                p[q]->out = normals(rows * n, 5, 1);
                p[q]->din = normals(rows * k, 6, 1);
                p[q]->dweight = normals(n * k, 7, 1);
                p[q]->dbias = i % 3 ? normals(n, 8, 1) : NULL;
            }
            lt_op(x, LT_OP_MATMUL_FORWARD, &a);
            lt_op(&reference, LT_OP_MATMUL_FORWARD, &r);
            assert_near("matmul", p[0]->out, p[1]->out, rows * n, BACKEND_NEAR);
            lt_op(x, LT_OP_MATMUL_BACKWARD, &a);
            lt_op(&reference, LT_OP_MATMUL_BACKWARD, &r);
            assert_near("matmul din", p[0]->din, p[1]->din, rows * k, BACKEND_NEAR);
            assert_near("matmul dweight", p[0]->dweight, p[1]->dweight, n * k, BACKEND_NEAR);
            if (p[0]->dbias)
                assert_near("matmul dbias", p[0]->dbias, p[1]->dbias, n, BACKEND_NEAR);
        }
}

static void compare_attention(const struct lt_context *x)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 3, 6, 3},    {3, 64, 32, 4},  {1, 65, 20, 4},
                                        {2, 130, 48, 3}, {1, 129, 64, 1}, {1, 200, 130, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t b = shapes[i][0], t = shapes[i][1], c = shapes[i][2], h = shapes[i][3], n = b * t * c;
        int slots = lt_threads();
        union lt_args a = {
            .attention_forward = {.qkv = normals(3 * n, 1, 1),
                                  .dout = normals(n, 2, 1),
                                  .b = b,
                                  .t = t,
                                  .c = c,
                                  .h = h,
                                  .slots = slots,
                                  .scratch = zeros(slots * (int64_t)lt_attention_scratch(LT_DTYPE_FP32, t, c / h))}};
        union lt_args r = a;
        struct lt_attention *p[2] = {&a.attention_forward, &r.attention_forward};
        for (int q = 0; q < 2; q++) {
            p[q]->out = normals(n, 3, 1);
            p[q]->lse = normals(b * h * t, 4, 1);
            p[q]->dqkv = normals(3 * n, 5, 1);
        }
        lt_op(x, LT_OP_ATTENTION_FORWARD, &a);
        lt_op(&reference, LT_OP_ATTENTION_FORWARD, &r);
        assert_near("attention", p[0]->out, p[1]->out, n, BACKEND_NEAR);
        assert_near("attention lse", p[0]->lse, p[1]->lse, b * h * t, BACKEND_NEAR);
        lt_op(x, LT_OP_ATTENTION_BACKWARD, &a);
        lt_op(&reference, LT_OP_ATTENTION_BACKWARD, &r);
        assert_near("attention dqkv", p[0]->dqkv, p[1]->dqkv, 3 * n, 5 * BACKEND_NEAR);
    }
}

static void compare_gelu(const struct lt_context *x)
{
    int64_t n = 10001;
    float *in = normals(n, 1, 3), *out[2] = {zeros(n), zeros(n)}, *din[2];
    in[0] = 0, in[1] = 40, in[2] = -40, in[3] = 1e-20f, in[4] = -1e30f, in[5] = 1e9f;
    din[0] = normals(n, 2, 1); /* in place */
    din[1] = zeros(n);
    union lt_args a = {.gelu_forward = {.out = out[0], .in = in, .count = n}},
                  r = {.gelu_forward = {.out = out[1], .in = in, .count = n}};
    lt_op(x, LT_OP_GELU_FORWARD, &a);
    lt_op(&reference, LT_OP_GELU_FORWARD, &r);
    assert_near("gelu, common values", out[0] + 6, out[1] + 6, n - 6, BACKEND_NEAR);
    for (int i = 0; i < 6; i++)
        assert_true(fabsf(out[0][i] - out[1][i]) <= 1e-6f * fmaxf(1, fabsf(out[1][i])));
    union lt_args back = {.gelu_backward = {.in = in, .dout = copy_of(din[0], n), .din = din[1], .count = n}};
    lt_op(&reference, LT_OP_GELU_BACKWARD, &back);
    back.gelu_backward.dout = back.gelu_backward.din = din[0];
    lt_op(x, LT_OP_GELU_BACKWARD, &back);
    assert_near("gelu din, common values", din[0] + 6, din[1] + 6, n - 6, BACKEND_NEAR);
}

static void compare_residual(const struct lt_context *x)
{
    int64_t n = 1237;
    float *left = normals(n, 1, 1), *right = normals(n, 2, 1), *out[2] = {zeros(n), zeros(n)};
    lt_op(x, LT_OP_RESIDUAL_FORWARD, &(union lt_args){.residual_forward = {.out = out[0], .a = left, .b = right, .count = n}});
    lt_op(&reference, LT_OP_RESIDUAL_FORWARD,
          &(union lt_args){.residual_forward = {.out = out[1], .a = left, .b = right, .count = n}});
    assert_memory_equal(out[0], out[1], (size_t)n * sizeof(float));
}

static void compare_classifier(const struct lt_context *x)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {65, 257}, {5, 50257}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backward = 0; backward < 2; backward++) {
            int64_t rows = shapes[i][0], v = shapes[i][1];
            union lt_args a = {.classifier = {.logits = normals(rows * v, 1, 5),
                                              .losses = zeros(rows),
                                              .targets = words(rows, 2, v),
                                              .rows = rows,
                                              .v = v,
                                              .scale = 0.125f,
                                              .backward = backward}};
            union lt_args r = a;
            r.classifier.logits = copy_of(a.classifier.logits, rows * v);
            r.classifier.losses = zeros(rows);
            float *untouched = copy_of(a.classifier.logits, rows * v);
            lt_op(x, LT_OP_CLASSIFIER, &a);
            lt_op(&reference, LT_OP_CLASSIFIER, &r);
            assert_near("losses", a.classifier.losses, r.classifier.losses, rows, BACKEND_NEAR);
            assert_near("logits", a.classifier.logits, backward ? r.classifier.logits : untouched, rows * v, 5 * BACKEND_NEAR);
        }
}

static void compare_optimizer(const struct lt_context *x)
{
    int64_t n = 70003;
    double sum[2], *partial = pool_bytes(lt_norm_partials(n) * sizeof *partial);
    union lt_args norm = {.norm = {.x = normals(n, 1, 1), .sum = &sum[0], .partial = partial, .count = n}};
    lt_op(x, LT_OP_NORM, &norm);
    norm.norm.sum = &sum[1];
    lt_op(&reference, LT_OP_NORM, &norm);
    assert_true(fabs(sum[0] - sum[1]) <= 1e-6 * sum[1]);
    static const int64_t decays[] = {0, 17, 40000, 70003};
    for (int i = 0; i < 4; i++) {
        struct lt_adamw k = {.grad = norm.norm.x,
                             .count = n,
                             .decayed = decays[i],
                             .lr = 0.01f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-8f,
                             .weight_decay = 0.1f,
                             .correction1 = 0.271f,
                             .correction2 = 0.142625f,
                             .grad_scale = 0.5f};
        struct lt_adamw both[2] = {k, k};
        for (int q = 0; q < 2; q++) {
            both[q].param = normals(n, 2, 1);
            both[q].m = normals(n, 3, 0.1f);
            both[q].v = normals(n, 4, 0.1f);
            for (int64_t j = 0; j < n; j++)
                both[q].v[j] = fabsf(both[q].v[j]);
        }
        lt_op(x, LT_OP_ADAMW, &(union lt_args){.adamw = both[0]});
        lt_op(&reference, LT_OP_ADAMW, &(union lt_args){.adamw = both[1]});
        assert_near("adamw parameters", both[0].param, both[1].param, n, BACKEND_NEAR);
        assert_near("adamw m", both[0].m, both[1].m, n, BACKEND_NEAR);
        assert_near("adamw v", both[0].v, both[1].v, n, BACKEND_NEAR);
    }
    lt_op(x, LT_OP_ZERO, &(union lt_args){.zero = {.x = (float *)(uintptr_t)norm.norm.x, .count = n}});
    for (int64_t i = 0; i < n; i++)
        assert_true(norm.norm.x[i] == 0);
}

/* One step of AdamW from zero moments, by hand: m_hat = g, v_hat = g^2, so the update is lr * (sign(g) + decay * p). */
static void adamw_by_hand(void **state)
{
    (void)state;
    for (int i = 0; i < LT_BACKEND_COUNT; i++) {
        float param[2] = {2, 2}, m[2] = {0, 0}, v[2] = {0, 0}, grad[2] = {0.5f, -0.25f};
        lt_op(&(struct lt_context){.backend = (enum lt_backend)i}, LT_OP_ADAMW,
              &(union lt_args){.adamw = {.param = param,
                                         .m = m,
                                         .v = v,
                                         .grad = grad,
                                         .count = 2,
                                         .decayed = 1,
                                         .lr = 0.1f,
                                         .beta1 = 0.9f,
                                         .beta2 = 0.99f,
                                         .eps = 1e-8f,
                                         .weight_decay = 0.5f,
                                         .correction1 = 0.1f,
                                         .correction2 = 0.01f,
                                         .grad_scale = 1}});
        assert_true(fabsf(param[0] - (2 - 0.1f * (1 + 0.5f * 2))) < 1e-5f);
        assert_true(fabsf(param[1] - (2 + 0.1f)) < 1e-5f);
        assert_true(fabsf(m[0] - 0.05f) < 1e-6f && fabsf(v[1] - 0.01f * 0.0625f) < 1e-8f);
    }
}

#define BACKENDS(name) \
    static void backends_##name(void **state) \
    { \
        (void)state; \
        for_each_backend(compare_##name); \
    }
BACKENDS(embedding)
BACKENDS(layernorm)
BACKENDS(matmul)
BACKENDS(attention)
BACKENDS(gelu)
BACKENDS(residual)
BACKENDS(classifier)
BACKENDS(optimizer)

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(embedding_gradient),  TEST(layernorm_gradient), TEST(matmul_gradient),     TEST(attention_gradient),
        TEST(attention_is_causal), TEST(gelu_gradient),      TEST(residual_gradient),   TEST(classifier_gradient),
        TEST(backends_embedding),  TEST(backends_layernorm), TEST(backends_matmul),     TEST(backends_attention),
        TEST(backends_gelu),       TEST(backends_residual),  TEST(backends_classifier), TEST(backends_optimizer),
        TEST(adamw_by_hand),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
