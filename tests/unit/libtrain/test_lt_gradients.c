/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of every operation of the language models, in every backend and element type,
 * against differences in double (lt_differences.h), at inputs that all types have: so a bf16
 * gradient may differ by its own roundings, and by those of the statistics that its forward left
 * for it. test_lt_gradients_images.c has the other operations.
 */
#include "lt_differences.h"

static void embedding(const struct lt_context *x)
{
    int64_t b = 2, t = 5, c = 3, v = 7, n = b * t * c;
    float *word = inputs(v * c, 2, 1), *position = inputs(t * c, 3, 1), *dout = inputs(n, 4, 1),
          *with;
    double *out = zero_doubles(n), *words_in_double = doubles(word, v * c),
           *positions = doubles(position, t * c);
    union lt_args a = {
        .embedding_forward = {
            .b = b, .t = t, .c = c, .v = v, .tokens = words(b * t, 1, v), .out = out}};
    union lt_args back = a;
    a.embedding_forward.word = words_in_double;
    a.embedding_forward.position = positions;
    struct lt_embedding *g = &back.embedding_backward;
    g->dout = typed(x->dtype, dout, n);
    g->dword = zeros(v * c);
    g->dposition = zeros(t * c);
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &back);
    struct scalar s = {LT_OP_EMBEDDING_FORWARD, &a, out, dout, n, 0};
    check_elements(x, "embedding words", &s, words_in_double, g->dword, v * c);
    check_elements(x, "embedding positions", &s, positions, g->dposition, t * c);
    with = copy_of(g->dword, v * c);
    memset(g->dword, 0, (size_t)(v * c) * sizeof *with);
    a.embedding_forward.position = NULL;
    g->dposition = NULL;
    lt_op(x, LT_OP_EMBEDDING_BACKWARD, &back);
    assert_memory_equal(g->dword, with, (size_t)(v * c) * sizeof *with);
    check_elements(x, "embedding without positions", &s, words_in_double, g->dword, v * c);
}

static void layernorm(const struct lt_context *x)
{
    int64_t rows = 4, c = 9, n = rows * c;
    float *in = inputs(n, 1, 1.5f), *weight = inputs(c, 2, 1), *bias = inputs(c, 3, 1),
          *dout = inputs(n, 4, 1);
    union lt_args a = {.layernorm_forward = {.out = zero_doubles(n),
                                             .mean = zeros(rows),
                                             .rstd = zeros(rows),
                                             .in = doubles(in, n),
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
    struct scalar s = {LT_OP_LAYERNORM_FORWARD, &a, a.layernorm_forward.out, dout, n, 0};
    check_elements(x, "layernorm input", &s, a.layernorm_forward.in, once, n);
    check_floats(x, "layernorm weight", &s, weight, g->dweight, c);
    check_floats(x, "layernorm bias", &s, bias, g->dbias, c);
    lt_op(x, LT_OP_LAYERNORM_BACKWARD, &own);
    assert_doubled(x, "layernorm adds into din", g->din, once, n);
}

static void rmsnorm(const struct lt_context *x)
{
    int64_t rows = 4, c = 9, n = rows * c;
    float *in = inputs(n, 1, 1.5f), *weight = inputs(c, 2, 1), *dout = inputs(n, 4, 1);
    union lt_args a = {.rmsnorm_forward = {.out = zero_doubles(n),
                                           .rstd = zeros(rows),
                                           .in = doubles(in, n),
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
    struct scalar s = {LT_OP_RMSNORM_FORWARD, &a, a.rmsnorm_forward.out, dout, n, 0};
    check_elements(x, "rmsnorm input", &s, a.rmsnorm_forward.in, once, n);
    check_floats(x, "rmsnorm weight", &s, weight, g->dweight, c);
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
        union lt_args a = {.rope_forward = {.out = zero_doubles(wide),
                                            .in = doubles(in, narrow),
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
        struct scalar s = {LT_OP_ROPE_FORWARD, &a, a.rope_forward.out, dout, wide, 0};
        check_elements(x, "rope", &s, a.rope_forward.in,
                       floats(x->dtype, back.rope_backward.din, narrow), narrow);
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
    union lt_args a = {
        .swiglu_forward = {.out = zero_doubles(n), .in = doubles(in, 2 * n), .rows = rows, .f = f}};
    union lt_args back = a;
    back.swiglu_backward.in = typed(x->dtype, in, 2 * n);
    back.swiglu_backward.dout = typed(x->dtype, dout, n);
    back.swiglu_backward.din = typed(x->dtype, zeros(2 * n), 2 * n);
    lt_op(x, LT_OP_SWIGLU_BACKWARD, &back);
    struct scalar s = {LT_OP_SWIGLU_FORWARD, &a, a.swiglu_forward.out, dout, n, 0};
    check_elements(x, "swiglu", &s, a.swiglu_forward.in,
                   floats(x->dtype, back.swiglu_backward.din, 2 * n), 2 * n);
}

static void matmul(const struct lt_context *x)
{
    int64_t rows = 4, n = 5, k = 7;
    float *in = inputs(rows * k, 1, 1), *weight = inputs(n * k, 2, 1), *bias = inputs(n, 3, 1),
          *dout = inputs(rows * n, 4, 1);
    union lt_args a = {.matmul_forward = {.out = zero_doubles(rows * n),
                                          .in = doubles(in, rows * k),
                                          .weight = doubles(weight, n * k),
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
    struct scalar s = {LT_OP_MATMUL_FORWARD, &a, a.matmul_forward.out, dout, rows * n, 0};
    float *once = floats(x->dtype, g->din, rows * k);
    check_elements(x, "matmul input", &s, a.matmul_forward.in, once, rows * k);
    check_elements(x, "matmul weight", &s, a.matmul_forward.weight, g->dweight, n * k);
    check_floats(x, "matmul bias", &s, bias, g->dbias, n);
    g->add = 1;
    lt_op(x, LT_OP_MATMUL_BACKWARD, &own);
    assert_doubled(x, "matmul adds into din", g->din, once, rows * k);
}

static void attention(const struct lt_context *x)
{
    int64_t b = 2, t = 6, h = 2, c = 8, n = b * t * c;
    float *qkv = inputs(3 * n, 1, 1), *dout = inputs(n, 2, 1);
    union lt_args a = {.attention_forward = {.out = zero_doubles(n),
                                             .lse = zeros(b * h * t),
                                             .qkv = doubles(qkv, 3 * n),
                                             .b = b,
                                             .t = t,
                                             .c = c,
                                             .h = h}};
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
    struct scalar s = {LT_OP_ATTENTION_FORWARD, &a, a.attention_forward.out, dout, n, 0};
    check_elements(x, "attention qkv", &s, a.attention_forward.qkv,
                   floats(x->dtype, g->dqkv, 3 * n), 3 * n);
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
    union lt_args a = {.gelu_forward = {.out = zero_doubles(n), .in = doubles(in, n), .count = n}};
    union lt_args back = {.gelu_backward = {.in = typed(x->dtype, in, n),
                                            .dout = typed(x->dtype, dout, n),
                                            .din = typed(x->dtype, zeros(n), n),
                                            .count = n}};
    lt_op(x, LT_OP_GELU_BACKWARD, &back);
    struct scalar s = {LT_OP_GELU_FORWARD, &a, a.gelu_forward.out, dout, n, 0};
    check_elements(x, "gelu", &s, a.gelu_forward.in, floats(x->dtype, back.gelu_backward.din, n),
                   n);
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
    union lt_args a = {.classifier = {.logits = doubles(logits, rows * v),
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
    struct scalar s = {LT_OP_CLASSIFIER, &a, losses, probe, rows, 1};
    check_elements(x, "classifier", &s, a.classifier.logits,
                   floats(x->dtype, back.classifier.logits, rows * v), rows * v);
    assert_near("losses with and without gradient", back.classifier.losses, losses, rows, 1e-6);
}

/* A rank that has words 3, 4, 5 of 7. */
static void embedding_part(const struct lt_context *x)
{
    int64_t b = 2, t = 5, c = 3, v = 3, n = b * t * c;
    float *word = inputs(v * c, 2, 1), *position = inputs(t * c, 3, 1), *dout = inputs(n, 4, 1);
    union lt_args a = {.embedding_part_forward = {.out = zero_doubles(n),
                                                  .word = doubles(word, v * c),
                                                  .position = doubles(position, t * c),
                                                  .tokens = words(b * t, 1, 7),
                                                  .b = b,
                                                  .t = t,
                                                  .c = c,
                                                  .v = v,
                                                  .first = 3}};
    union lt_args back = a;
    struct lt_embedding_part *g = &back.embedding_part_backward;
    g->dout = typed(x->dtype, dout, n);
    g->dword = zeros(v * c);
    g->dposition = zeros(t * c);
    lt_op(x, LT_OP_EMBEDDING_PART_BACKWARD, &back);
    struct scalar s = {LT_OP_EMBEDDING_PART_FORWARD, &a, a.embedding_part_forward.out, dout, n, 0};
    check_elements(x, "embedding part, words", &s, a.embedding_part_forward.word, g->dword, v * c);
    check_elements(x, "embedding part, positions", &s, a.embedding_part_forward.position,
                   g->dposition, t * c);
}

/* One rank's part, joined with itself alone: it has all words of the targets. */
static void classifier_part(const struct lt_context *x)
{
    int64_t rows = 5, v = 11;
    float *logits = inputs(rows * v, 1, 2), *probe = zeros(rows);
    union lt_args a = {.classifier_part = {.logits = doubles(logits, rows * v),
                                           .losses = zeros(rows),
                                           .stats = zeros(3 * rows),
                                           .targets = words(rows, 2, v),
                                           .rows = rows,
                                           .v = v,
                                           .ranks = 1}};
    for (int64_t r = 0; r < rows; r++)
        probe[r] = 1.0f / (float)rows;
    union lt_args back = a;
    back.classifier_part.logits = typed(x->dtype, logits, rows * v);
    back.classifier_part.losses = zeros(rows);
    back.classifier_part.stats = zeros(3 * rows);
    back.classifier_part.scale = 1.0f / (float)rows;
    back.classifier_part.backward = 1;
    lt_op(x, LT_OP_CLASSIFIER_PART, &back);
    lt_op(x, LT_OP_CLASSIFIER_JOIN, &back);
    struct scalar s = {LT_OP_CLASSIFIER_JOIN, &a, a.classifier_part.losses, probe, rows, 1};
    check_elements(x, "classifier of a part", &s, a.classifier_part.logits,
                   floats(x->dtype, back.classifier_part.logits, rows * v), rows * v);
}

#define CHECKS(X) \
    X(embedding) \
    X(layernorm) \
    X(rmsnorm) \
    X(rope) \
    X(rope_turns_by_distance) \
    X(swiglu) \
    X(matmul) \
    X(attention) X(causal) X(gelu) X(residual) X(classifier) X(embedding_part) X(classifier_part)

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
    assert_checked(0, LT_OP_CLASSIFIER, LT_OP_RESIDUAL_FORWARD);
    assert_checked(LT_OP_EMBEDDING_PART_FORWARD, LT_OP_CLASSIFIER_JOIN, LT_OP_COUNT);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_teardown(gradient_##name, pool_free),
    const struct CMUnitTest tests[] = {CHECKS(ROW) cmocka_unit_test(all_checked)};
#undef ROW
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
