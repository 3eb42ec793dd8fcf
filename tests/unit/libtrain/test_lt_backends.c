/* SPDX-License-Identifier: Apache-2.0
 *
 * Every backend against the reference, in every element type, on odd shapes. Sums of many products
 * differ in the last bits between backends; in bf16 such a difference may tip one rounding, 2^-8 of
 * a value.
 */
#include "lt_support.h"

#include "libtrain/ops/ops.h"

#define BACKEND_NEAR 2e-5

/* The reference in the type of x. */
static struct lt_context truth(const struct lt_context *x)
{
    return (struct lt_context){.backend = LT_BACKEND_REFERENCE, .dtype = x->dtype};
}

/* Compares elements: `fp32` is the tolerance in floats. */
static void assert_same(const struct lt_context *x, const char *what, const void *got,
                        const void *want, int64_t n, double fp32)
{
    float *left = floats(x->dtype, got, n), *right = floats(x->dtype, want, n);
    /* of two sums that hardly differ one may be rounded up and one down: neighbours in bf16 */
    for (int64_t i = 0; x->dtype == LT_DTYPE_BF16 && i < n; i++)
        if (fabs((double)left[i] - right[i]) <= 0x1p-7 * fabs((double)right[i]))
            left[i] = right[i];
    assert_near(what, left, right, n, x->dtype == LT_DTYPE_FP32 ? fp32 : 0x1p-8);
}

static void *elements(const struct lt_context *x, int64_t n, uint64_t key, float deviation)
{
    return typed(x->dtype, normals(n, key, deviation), n);
}

static void for_each_backend(void (*compare)(const struct lt_context *))
{
    for (int i = 0; i < LT_BACKEND_COUNT; i++)
        for (int d = 0; d < LT_DTYPE_COUNT; d++)
            if (i != LT_BACKEND_REFERENCE)
                compare(
                    &(struct lt_context){.backend = (enum lt_backend)i, .dtype = (enum lt_dtype)d});
}

static void compare_embedding(const struct lt_context *x)
{
    int64_t b = 3, t = 65, c = 130, v = 50, n = b * t * c;
    struct lt_context reference = truth(x);
    union lt_args a = {.embedding_forward = {.b = b,
                                             .t = t,
                                             .c = c,
                                             .v = v,
                                             .tokens = words(b * t, 1, v),
                                             .word = elements(x, v * c, 2, 1),
                                             .position = elements(x, t * c, 3, 1),
                                             .dout = elements(x, n, 4, 1)}};
    union lt_args r = a;
    struct lt_embedding *p[2] = {&a.embedding_forward, &r.embedding_forward};
    for (int q = 0; q < 2; q++) {
        p[q]->out = elements(x, n, 7, 1);
        p[q]->dword = normals(v * c, 5, 1);
        p[q]->dposition = normals(t * c, 6, 1);
    }
    lt_op(x, LT_OP_EMBEDDING_FORWARD, &a);
    lt_op(&reference, LT_OP_EMBEDDING_FORWARD, &r);
    assert_same(x, "embedding", p[0]->out, p[1]->out, n, BACKEND_NEAR);
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &a);
    lt_op(&reference, LT_OP_EMBEDDING_BACKWARD, &r);
    assert_near("embedding dword", p[0]->dword, p[1]->dword, v * c, BACKEND_NEAR);
    assert_near("embedding dposition", p[0]->dposition, p[1]->dposition, t * c, BACKEND_NEAR);
}

static void compare_layernorm(const struct lt_context *x)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {65, 130}, {129, 768}};
    struct lt_context reference = truth(x);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t rows = shapes[i][0], c = shapes[i][1], n = rows * c;
        union lt_args a = {.layernorm_forward = {.in = elements(x, n, 1, 2),
                                                 .weight = normals(c, 2, 1),
                                                 .bias = normals(c, 3, 1),
                                                 .dout = elements(x, n, 4, 1),
                                                 .rows = rows,
                                                 .c = c}};
        union lt_args r = a;
        struct lt_layernorm *p[2] = {&a.layernorm_forward, &r.layernorm_forward};
        for (int k = 0; k < 2; k++) {
            p[k]->out = elements(x, n, 8, 1);
            p[k]->mean = zeros(rows);
            p[k]->rstd = zeros(rows);
            p[k]->din = elements(x, n, 5, 1);
            p[k]->dweight = normals(c, 6, 1);
            p[k]->dbias = normals(c, 7, 1);
        }
        lt_op(x, LT_OP_LAYERNORM_FORWARD, &a);
        lt_op(&reference, LT_OP_LAYERNORM_FORWARD, &r);
        assert_same(x, "layernorm", p[0]->out, p[1]->out, n, BACKEND_NEAR);
        lt_op(x, LT_OP_LAYERNORM_BACKWARD, &a);
        lt_op(&reference, LT_OP_LAYERNORM_BACKWARD, &r);
        assert_same(x, "layernorm din", p[0]->din, p[1]->din, n, 10 * BACKEND_NEAR);
        assert_near("layernorm dweight", p[0]->dweight, p[1]->dweight, c, BACKEND_NEAR);
        assert_near("layernorm dbias", p[0]->dbias, p[1]->dbias, c, BACKEND_NEAR);
    }
}

/* As in a model's lowest layer, with din == NULL: the rest must not change. */
static void matmul_without_input_gradient(const struct lt_context *x, const struct lt_matmul *with,
                                          int64_t n, int64_t k)
{
    union lt_args a = {.matmul_backward = *with};
    a.matmul_backward.din = NULL;
    a.matmul_backward.dweight = normals(n * k, 7, 1);
    a.matmul_backward.dbias = NULL;
    lt_op(x, LT_OP_MATMUL_BACKWARD, &a);
    assert_memory_equal(a.matmul_backward.dweight, with->dweight, (size_t)(n * k) * sizeof(float));
}

static void compare_matmul(const struct lt_context *x)
{
    static const int64_t shapes[][3] = {{1, 1, 1},     {3, 5, 7},     {8, 48, 16},  {9, 49, 17},
                                        {65, 131, 33}, {64, 16, 4},   {130, 96, 1}, {31, 400, 97},
                                        {5, 20, 1600}, {257, 70, 800}};
    struct lt_context reference = truth(x);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            int64_t rows = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            union lt_args a = {.matmul_forward = {.in = elements(x, rows * k, 1, 1),
                                                  .weight = elements(x, n * k, 2, 1),
                                                  .bias = i % 2 ? normals(n, 3, 1) : NULL,
                                                  .dout = elements(x, rows * n, 4, 1),
                                                  .rows = rows,
                                                  .n = n,
                                                  .k = k,
                                                  .accumulate = accumulate}};
            union lt_args r = a;
            struct lt_matmul *p[2] = {&a.matmul_forward, &r.matmul_forward};
            for (int q = 0; q < 2; q++) {
                p[q]->out = elements(x, rows * n, 5, 1);
                p[q]->din = elements(x, rows * k, 6, 1);
                p[q]->dweight = normals(n * k, 7, 1);
                p[q]->dbias = i % 3 ? normals(n, 8, 1) : NULL;
            }
            lt_op(x, LT_OP_MATMUL_FORWARD, &a);
            lt_op(&reference, LT_OP_MATMUL_FORWARD, &r);
            assert_same(x, "matmul", p[0]->out, p[1]->out, rows * n, BACKEND_NEAR);
            lt_op(x, LT_OP_MATMUL_BACKWARD, &a);
            lt_op(&reference, LT_OP_MATMUL_BACKWARD, &r);
            assert_same(x, "matmul din", p[0]->din, p[1]->din, rows * k, BACKEND_NEAR);
            assert_near("matmul dweight", p[0]->dweight, p[1]->dweight, n * k, BACKEND_NEAR);
            if (p[0]->dbias)
                assert_near("matmul dbias", p[0]->dbias, p[1]->dbias, n, BACKEND_NEAR);
            matmul_without_input_gradient(x, p[0], n, k);
        }
}

/* In bf16 probabilities and their gradients are rounded before they are multiplied, which the
 * reference does not do: an output is a sum of such terms, and may be much smaller than they are.
 */
static void compare_attention(const struct lt_context *x)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 3, 6, 3},    {3, 64, 32, 4},
                                        {1, 65, 20, 4},  {2, 130, 48, 3}, {1, 129, 64, 1},
                                        {1, 200, 130, 2}};
    struct lt_context reference = truth(x);
    double near = x->dtype == LT_DTYPE_FP32 ? BACKEND_NEAR : 0x1p-6;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t b = shapes[i][0], t = shapes[i][1], c = shapes[i][2], h = shapes[i][3],
                n = b * t * c;
        int slots = lt_threads();
        union lt_args a = {
            .attention_forward = {
                .qkv = elements(x, 3 * n, 1, 1),
                .dout = elements(x, n, 2, 1),
                .b = b,
                .t = t,
                .c = c,
                .h = h,
                .slots = slots,
                .scratch = zeros(slots * (int64_t)lt_attention_scratch(x->dtype, t, c / h))}};
        union lt_args r = a;
        struct lt_attention *p[2] = {&a.attention_forward, &r.attention_forward};
        for (int q = 0; q < 2; q++) {
            p[q]->out = elements(x, n, 3, 1);
            p[q]->lse = normals(b * h * t, 4, 1);
            p[q]->dqkv = elements(x, 3 * n, 5, 1);
        }
        lt_op(x, LT_OP_ATTENTION_FORWARD, &a);
        lt_op(&reference, LT_OP_ATTENTION_FORWARD, &r);
        assert_near("attention", floats(x->dtype, p[0]->out, n), floats(x->dtype, p[1]->out, n), n,
                    near);
        assert_near("attention lse", p[0]->lse, p[1]->lse, b * h * t, BACKEND_NEAR);
        p[0]->out = p[1]->out; /* a rounding that tipped the other way is not to be counted twice */
        lt_op(x, LT_OP_ATTENTION_BACKWARD, &a);
        lt_op(&reference, LT_OP_ATTENTION_BACKWARD, &r);
        assert_near("attention dqkv", floats(x->dtype, p[0]->dqkv, 3 * n),
                    floats(x->dtype, p[1]->dqkv, 3 * n), 3 * n, 5 * near);
    }
}

static void compare_rmsnorm(const struct lt_context *x)
{
    static const int64_t shapes[][3] = {{1, 2, 0}, {3, 7, 1}, {65, 130, 0}, {129, 768, 1}};
    struct lt_context reference = truth(x);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t rows = shapes[i][0], c = shapes[i][1], n = rows * c;
        union lt_args a = {.rmsnorm_forward = {.in = elements(x, n, 1, 2),
                                               .weight = normals(c, 2, 1),
                                               .dout = elements(x, n, 4, 1),
                                               .rows = rows,
                                               .c = c,
                                               .add = (int)shapes[i][2]}};
        union lt_args r = a;
        struct lt_rmsnorm *p[2] = {&a.rmsnorm_forward, &r.rmsnorm_forward};
        for (int k = 0; k < 2; k++) {
            p[k]->out = elements(x, n, 8, 1);
            p[k]->rstd = zeros(rows);
            p[k]->din = elements(x, n, 5, 1);
            p[k]->dweight = normals(c, 6, 1);
        }
        lt_op(x, LT_OP_RMSNORM_FORWARD, &a);
        lt_op(&reference, LT_OP_RMSNORM_FORWARD, &r);
        assert_same(x, "rmsnorm", p[0]->out, p[1]->out, n, BACKEND_NEAR);
        lt_op(x, LT_OP_RMSNORM_BACKWARD, &a);
        lt_op(&reference, LT_OP_RMSNORM_BACKWARD, &r);
        assert_same(x, "rmsnorm din", p[0]->din, p[1]->din, n, 10 * BACKEND_NEAR);
        assert_near("rmsnorm dweight", p[0]->dweight, p[1]->dweight, c, BACKEND_NEAR);
    }
}

static void compare_rope(const struct lt_context *x)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 2}, {6, 3, 5, 10}, {12, 4, 65, 64}, {8, 8, 9, 6}};
    struct lt_context reference = truth(x);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t h = shapes[i][0], groups = shapes[i][1], t = shapes[i][2], d = shapes[i][3], b = 2;
        int64_t narrow = b * t * (h + 2 * groups) * d, wide = b * t * 3 * h * d;
        float *turn = zeros(t * d);
        lt_rope_turns(turn, t, d, 10000);
        union lt_args a = {.rope_forward = {.in = elements(x, narrow, 1, 1),
                                            .dout = elements(x, wide, 2, 1),
                                            .turn = turn,
                                            .b = b,
                                            .t = t,
                                            .c = h * d,
                                            .h = h,
                                            .groups = groups}};
        union lt_args r = a;
        struct lt_rope *p[2] = {&a.rope_forward, &r.rope_forward};
        for (int k = 0; k < 2; k++) {
            p[k]->out = elements(x, wide, 3, 1);
            p[k]->din = elements(x, narrow, 4, 1);
        }
        lt_op(x, LT_OP_ROPE_FORWARD, &a);
        lt_op(&reference, LT_OP_ROPE_FORWARD, &r);
        assert_same(x, "rope", p[0]->out, p[1]->out, wide, BACKEND_NEAR);
        lt_op(x, LT_OP_ROPE_BACKWARD, &a);
        lt_op(&reference, LT_OP_ROPE_BACKWARD, &r);
        assert_same(x, "rope din", p[0]->din, p[1]->din, narrow, BACKEND_NEAR);
    }
}

static void compare_swiglu(const struct lt_context *x)
{
    int64_t rows = 7, f = 333, n = rows * f;
    struct lt_context reference = truth(x);
    union lt_args a = {
        .swiglu_forward = {
            .in = elements(x, 2 * n, 1, 3), .dout = elements(x, n, 2, 1), .rows = rows, .f = f}};
    union lt_args r = a;
    struct lt_swiglu *p[2] = {&a.swiglu_forward, &r.swiglu_forward};
    for (int k = 0; k < 2; k++) {
        p[k]->out = elements(x, n, 3, 1);
        p[k]->din = elements(x, 2 * n, 4, 1);
    }
    lt_op(x, LT_OP_SWIGLU_FORWARD, &a);
    lt_op(&reference, LT_OP_SWIGLU_FORWARD, &r);
    assert_same(x, "swiglu", p[0]->out, p[1]->out, n, BACKEND_NEAR);
    lt_op(x, LT_OP_SWIGLU_BACKWARD, &a);
    lt_op(&reference, LT_OP_SWIGLU_BACKWARD, &r);
    assert_same(x, "swiglu din", p[0]->din, p[1]->din, 2 * n, BACKEND_NEAR);
}

static void compare_gelu(const struct lt_context *x)
{
    int64_t n = 10001;
    struct lt_context reference = truth(x);
    float *in = normals(n, 1, 3);
    in[0] = 0, in[1] = 40, in[2] = -40, in[3] = 1e-20f, in[4] = -1e30f, in[5] = 1e9f;
    if (x->dtype == LT_DTYPE_FP16) /* they are infinite there */
        in[4] = -6e4f, in[5] = 6e4f;
    void *values = typed(x->dtype, in, n), *slopes = elements(x, n, 2, 1);
    union lt_args a = {.gelu_forward = {.out = elements(x, n, 3, 1), .in = values, .count = n}},
                  r = a;
    r.gelu_forward.out = elements(x, n, 4, 1);
    lt_op(x, LT_OP_GELU_FORWARD, &a);
    lt_op(&reference, LT_OP_GELU_FORWARD, &r);
    const float *got = floats(x->dtype, a.gelu_forward.out, n),
                *want = floats(x->dtype, r.gelu_forward.out, n);
    double near = x->dtype == LT_DTYPE_FP32 ? BACKEND_NEAR : 0x1p-8;
    assert_near("gelu, common values", got + 6, want + 6, n - 6, near);
    for (int i = 0; i < 6; i++)
        assert_true(fabsf(got[i] - want[i]) <= 1e-6f * fmaxf(1, fabsf(want[i])));
    union lt_args back = {
        .gelu_backward = {.in = values, .dout = slopes, .din = elements(x, n, 5, 1), .count = n}};
    lt_op(&reference, LT_OP_GELU_BACKWARD, &back);
    want = floats(x->dtype, back.gelu_backward.din, n);
    back.gelu_backward.din = slopes; /* in place */
    lt_op(x, LT_OP_GELU_BACKWARD, &back);
    assert_near("gelu din, common values", floats(x->dtype, slopes, n) + 6, want + 6, n - 6, near);
}

static void compare_residual(const struct lt_context *x)
{
    int64_t n = 1237;
    struct lt_context reference = truth(x);
    union lt_args a = {.residual_forward = {.a = elements(x, n, 1, 1),
                                            .b = elements(x, n, 2, 1),
                                            .count = n}},
                  r = a;
    a.residual_forward.out = elements(x, n, 3, 1);
    r.residual_forward.out = elements(x, n, 4, 1);
    lt_op(x, LT_OP_RESIDUAL_FORWARD, &a);
    lt_op(&reference, LT_OP_RESIDUAL_FORWARD, &r);
    assert_memory_equal(a.residual_forward.out, r.residual_forward.out,
                        (size_t)n * lt_dtype_bytes(x->dtype));
}

static void compare_classifier(const struct lt_context *x)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {65, 257}, {5, 50257}};
    struct lt_context reference = truth(x);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backward = 0; backward < 2; backward++) {
            int64_t rows = shapes[i][0], v = shapes[i][1];
            union lt_args a = {.classifier = {.logits = elements(x, rows * v, 1, 5),
                                              .losses = zeros(rows),
                                              .targets = words(rows, 2, v),
                                              .rows = rows,
                                              .v = v,
                                              .scale = 0.125f,
                                              .backward = backward}};
            union lt_args r = a;
            r.classifier.logits = elements(x, rows * v, 1, 5);
            r.classifier.losses = zeros(rows);
            const void *untouched = elements(x, rows * v, 1, 5);
            lt_op(x, LT_OP_CLASSIFIER, &a);
            lt_op(&reference, LT_OP_CLASSIFIER, &r);
            assert_near("losses", a.classifier.losses, r.classifier.losses, rows, BACKEND_NEAR);
            assert_same(x, "logits", a.classifier.logits,
                        backward ? r.classifier.logits : untouched, rows * v, 5 * BACKEND_NEAR);
        }
}

static void compare_optimizer(const struct lt_context *x)
{
    struct lt_context reference = truth(x);
    int64_t n = 70003;
    double sum[2], *partial = pool_bytes(lt_norm_partials(n) * sizeof *partial);
    union lt_args norm = {
        .norm = {.x = normals(n, 1, 1), .sum = &sum[0], .partial = partial, .count = n}};
    lt_op(x, LT_OP_NORM, &norm);
    norm.norm.sum = &sum[1];
    lt_op(&reference, LT_OP_NORM, &norm);
    assert_true(fabs(sum[0] - sum[1]) <= 1e-6 * sum[1]);
    static const int64_t decays[] = {0, 17, 40000, 70003};
    for (int i = 0; i < 4; i++) {
        struct lt_update k = {.grad = norm.norm.x,
                              .count = n,
                              .decayed = decays[i],
                              .terms = {.rate = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .eps = 1e-8,
                                        .decay = 0.1,
                                        .correction1 = 0.271,
                                        .correction2 = 0.142625,
                                        .scale = 0.5}};
        struct lt_update both[2] = {k, k};
        for (int q = 0; q < 2; q++) {
            both[q].param = normals(n, 2, 1);
            both[q].state[0] = normals(n, 3, 0.1f);
            both[q].state[1] = normals(n, 4, 0.1f);
            for (int64_t j = 0; j < n; j++)
                both[q].state[1][j] = fabsf(both[q].state[1][j]);
        }
        lt_op(x, LT_OP_ADAMW, &(union lt_args){.adamw = both[0]});
        lt_op(&reference, LT_OP_ADAMW, &(union lt_args){.adamw = both[1]});
        assert_near("adamw parameters", both[0].param, both[1].param, n, BACKEND_NEAR);
        assert_near("adamw m", both[0].state[0], both[1].state[0], n, BACKEND_NEAR);
        assert_near("adamw v", both[0].state[1], both[1].state[1], n, BACKEND_NEAR);
    }
    lt_op(x, LT_OP_ZERO,
          &(union lt_args){.zero = {.x = (float *)(uintptr_t)norm.norm.x, .count = n}});
    for (int64_t i = 0; i < n; i++)
        assert_true(norm.norm.x[i] == 0);
}

/* One step of AdamW from zero moments, by hand: m_hat = g, v_hat = g^2, so the update is lr *
 * (sign(g) + decay * p). */
static void adamw_by_hand(void **state)
{
    (void)state;
    for (int i = 0; i < LT_BACKEND_COUNT; i++) {
        float param[2] = {2, 2}, m[2] = {0, 0}, v[2] = {0, 0}, grad[2] = {0.5f, -0.25f};
        lt_op(&(struct lt_context){.backend = (enum lt_backend)i}, LT_OP_ADAMW,
              &(union lt_args){.adamw = {.param = param,
                                         .state = {m, v},
                                         .grad = grad,
                                         .count = 2,
                                         .decayed = 1,
                                         .terms = {.rate = 0.1,
                                                   .beta1 = 0.9,
                                                   .beta2 = 0.99,
                                                   .eps = 1e-8,
                                                   .decay = 0.5,
                                                   .correction1 = 0.1,
                                                   .correction2 = 0.01,
                                                   .scale = 1}}});
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
BACKENDS(rmsnorm)
BACKENDS(rope)
BACKENDS(swiglu)
BACKENDS(residual)
BACKENDS(classifier)
BACKENDS(optimizer)

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(backends_embedding),  TEST(backends_layernorm), TEST(backends_matmul),
        TEST(backends_attention),  TEST(backends_gelu),      TEST(backends_residual),
        TEST(backends_classifier), TEST(backends_optimizer), TEST(adamw_by_hand),
        TEST(backends_rmsnorm),    TEST(backends_rope),      TEST(backends_swiglu),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
