/* SPDX-License-Identifier: Apache-2.0
 * wide: yes
 *
 * The CUDA backend on the substitute runtime of tests/gpu/shim: every operation against the
 * reference in both element types, on shapes with whole and with broken packs and tiles; whole runs
 * of a small GPT-2 against the reference; captured steps against launched ones; checkpoints that
 * change sides. An argument is a pattern of the tests to run.
 */
#include "lt_support.h"

#include <dlfcn.h>

#include "libtrain/models/gpt2.h"
#include "libtrain/ops/device.h"
#include "libtrain/train/train.h"

#define NEAR   2e-5
#define DTYPES (LT_DTYPE_BF16 + 1) /* those of the device */

static struct lt_device *device;

/* ---- arrays on both sides ---- */

/* An array of the device with what the host's has. */
static void *there(const void *here, size_t bytes)
{
    void *base = device->space.take(&device->space, bytes);
    assert_non_null(base);
    device->space.write(&device->space, base, here, bytes);
    return base;
}

static void *back(const void *base, size_t bytes)
{
    void *here = pool_bytes(bytes);
    device->space.read(&device->space, here, base, bytes);
    device->space.give(&device->space, (void *)(uintptr_t)base);
    assert_null(device->failure(device));
    return here;
}

static size_t size_of(enum lt_dtype dtype, int64_t count)
{
    return (size_t)count * lt_dtype_bytes(dtype);
}

static void run(enum lt_op_id op, enum lt_dtype dtype, const union lt_args *args)
{
    struct lt_context x = {.device = device, .dtype = dtype};
    lt_op(&x, op, args);
}

static void run_reference(enum lt_op_id op, enum lt_dtype dtype, const union lt_args *args)
{
    struct lt_context x = {.backend = LT_BACKEND_REFERENCE, .dtype = dtype};
    lt_op(&x, op, args);
}

/* A member of the arguments of both sides: the host's array and its copy on the device. */
#define BOTH(member, array, bytes) \
    (here.member = (array), away.member = there(here.member, (bytes)), (void)0)

/* Compares an output: floats, or elements of the type, one rounding of which may tip over. */
static void same_floats(const char *what, const float *want, const void *got, int64_t n,
                        double near)
{
    assert_near(what, back(got, size_of(LT_DTYPE_FP32, n)), want, n, near);
}

static void same(const char *what, enum lt_dtype dtype, const void *want, const void *got,
                 int64_t n, double near)
{
    assert_near(what, floats(dtype, back(got, size_of(dtype, n)), n), floats(dtype, want, n), n,
                dtype == LT_DTYPE_FP32 ? near : 0x1p-7);
}

static void *elements(enum lt_dtype dtype, int64_t n, uint64_t key, float deviation)
{
    return typed(dtype, normals(n, key, deviation), n);
}

static void drop(const void *array)
{
    device->space.give(&device->space, (void *)(uintptr_t)array);
}

/* ---- operations ---- */

/* order and starts of tokens, the slow way. */
static void sort_words(const int32_t *tokens, int32_t *order, int32_t *starts, int32_t n, int32_t v)
{
    int32_t used = 0, at = 0;
    for (int32_t word = 0; word < v; word++) {
        int32_t first = at;
        for (int32_t i = 0; i < n; i++)
            if (tokens[i] == word)
                order[at++] = i;
        if (at > first)
            starts[used++] = first;
    }
    while (used <= n)
        starts[used++] = n;
}

static void embedding(enum lt_dtype dtype, int64_t b, int64_t t, int64_t c, int64_t v)
{
    int64_t n = b * t;
    struct lt_embedding here = {.b = b, .t = t, .c = c, .v = v}, away = here;
    int32_t *tokens = words(n, 1, v), *order = pool_bytes((size_t)n * 4),
            *starts = pool_bytes((size_t)(n + 1) * 4);
    sort_words(tokens, order, starts, (int32_t)n, (int32_t)v);
    BOTH(tokens, tokens, (size_t)n * 4);
    BOTH(order, order, (size_t)n * 4);
    BOTH(starts, starts, (size_t)(n + 1) * 4);
    BOTH(word, elements(dtype, v * c, 2, 1), size_of(dtype, v * c));
    BOTH(position, elements(dtype, t * c, 3, 1), size_of(dtype, t * c));
    BOTH(dout, elements(dtype, n * c, 4, 1), size_of(dtype, n * c));
    BOTH(out, elements(dtype, n * c, 5, 1), size_of(dtype, n * c));
    BOTH(dword, normals(v * c, 6, 1), size_of(LT_DTYPE_FP32, v * c));
    BOTH(dposition, normals(t * c, 7, 1), size_of(LT_DTYPE_FP32, t * c));
    run(LT_OP_EMBEDDING_FORWARD, dtype, &(union lt_args){.embedding_forward = away});
    run(LT_OP_EMBEDDING_BACKWARD, dtype, &(union lt_args){.embedding_backward = away});
    run_reference(LT_OP_EMBEDDING_FORWARD, dtype, &(union lt_args){.embedding_forward = here});
    run_reference(LT_OP_EMBEDDING_BACKWARD, dtype, &(union lt_args){.embedding_backward = here});
    assert_memory_equal(back(away.out, size_of(dtype, n * c)), here.out, size_of(dtype, n * c));
    same_floats("dword", here.dword, away.dword, v * c, NEAR);
    same_floats("dposition", here.dposition, away.dposition, t * c, NEAR);
    const void *rest[] = {away.tokens, away.order,    away.starts,
                          away.word,   away.position, away.dout};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        drop(rest[i]);
}

/* With `added` the input is the sum of a residual, which goes first and is left to the layernorm;
 * the reference does them one after the other. */
static void layernorm(enum lt_dtype dtype, int64_t rows, int64_t c, int added)
{
    int64_t n = rows * c;
    struct lt_layernorm here = {.rows = rows, .c = c}, away = here;
    BOTH(in, elements(dtype, n, 1, 2), size_of(dtype, n));
    BOTH(weight, normals(c, 2, 1), size_of(LT_DTYPE_FP32, c));
    BOTH(bias, normals(c, 3, 1), size_of(LT_DTYPE_FP32, c));
    BOTH(dout, elements(dtype, n, 4, 1), size_of(dtype, n));
    BOTH(din, elements(dtype, n, 5, 1), size_of(dtype, n));
    BOTH(dweight, normals(c, 6, 1), size_of(LT_DTYPE_FP32, c));
    BOTH(dbias, normals(c, 7, 1), size_of(LT_DTYPE_FP32, c));
    BOTH(out, elements(dtype, n, 8, 1), size_of(dtype, n));
    BOTH(mean, zeros(rows), size_of(LT_DTYPE_FP32, rows));
    BOTH(rstd, zeros(rows), size_of(LT_DTYPE_FP32, rows));
    if (added) {
        void *a = elements(dtype, n, 9, 2), *b = elements(dtype, n, 10, 2);
        struct lt_residual residual = {
            .out = (void *)(uintptr_t)here.in, .a = a, .b = b, .count = n};
        run_reference(LT_OP_RESIDUAL_FORWARD, dtype,
                      &(union lt_args){.residual_forward = residual});
        residual.out = (void *)(uintptr_t)away.in;
        residual.a = there(a, size_of(dtype, n));
        residual.b = there(b, size_of(dtype, n));
        run(LT_OP_RESIDUAL_FORWARD, dtype, &(union lt_args){.residual_forward = residual});
        run(LT_OP_LAYERNORM_FORWARD, dtype, &(union lt_args){.layernorm_forward = away});
        drop(residual.a);
        drop(residual.b);
    } else {
        run(LT_OP_LAYERNORM_FORWARD, dtype, &(union lt_args){.layernorm_forward = away});
    }
    run(LT_OP_LAYERNORM_BACKWARD, dtype, &(union lt_args){.layernorm_backward = away});
    run_reference(LT_OP_LAYERNORM_FORWARD, dtype, &(union lt_args){.layernorm_forward = here});
    run_reference(LT_OP_LAYERNORM_BACKWARD, dtype, &(union lt_args){.layernorm_backward = here});
    assert_memory_equal(back(away.in, size_of(dtype, n)), here.in, size_of(dtype, n));
    same("layernorm", dtype, here.out, away.out, n, NEAR);
    same_floats("mean", here.mean, away.mean, rows, NEAR);
    same_floats("rstd", here.rstd, away.rstd, rows, NEAR);
    same("layernorm din", dtype, here.din, away.din, n, 10 * NEAR);
    same_floats("layernorm dweight", here.dweight, away.dweight, c, NEAR);
    same_floats("layernorm dbias", here.dbias, away.dbias, c, NEAR);
    drop(away.weight);
    drop(away.bias);
    drop(away.dout);
}

/* rounded: the bias is there in the element type, too, and is added by the product. */
static void matmul(enum lt_dtype dtype, int64_t rows, int64_t n, int64_t k, int accumulate,
                   int rounded)
{
    struct lt_matmul here = {.rows = rows,
                             .n = n,
                             .k = k,
                             .accumulate = accumulate,
                             .add = accumulate},
                     away = here;
    BOTH(in, elements(dtype, rows * k, 1, 1), size_of(dtype, rows * k));
    BOTH(weight, elements(dtype, n * k, 2, 1), size_of(dtype, n * k));
    BOTH(bias, normals(n, 3, 1), size_of(LT_DTYPE_FP32, n));
    if (rounded)
        BOTH(rounded_bias, typed(dtype, here.bias, n), size_of(dtype, n));
    BOTH(dout, elements(dtype, rows * n, 4, 1), size_of(dtype, rows * n));
    BOTH(out, elements(dtype, rows * n, 5, 1), size_of(dtype, rows * n));
    BOTH(din, elements(dtype, rows * k, 6, 1), size_of(dtype, rows * k));
    BOTH(dweight, normals(n * k, 7, 1), size_of(LT_DTYPE_FP32, n * k));
    BOTH(dbias, normals(n, 8, 1), size_of(LT_DTYPE_FP32, n));
    run(LT_OP_MATMUL_FORWARD, dtype, &(union lt_args){.matmul_forward = away});
    run(LT_OP_MATMUL_BACKWARD, dtype, &(union lt_args){.matmul_backward = away});
    run_reference(LT_OP_MATMUL_FORWARD, dtype, &(union lt_args){.matmul_forward = here});
    run_reference(LT_OP_MATMUL_BACKWARD, dtype, &(union lt_args){.matmul_backward = here});
    same("matmul", dtype, here.out, away.out, rows * n, NEAR);
    same("matmul din", dtype, here.din, away.din, rows * k, NEAR);
    same_floats("matmul dweight", here.dweight, away.dweight, n * k, NEAR);
    same_floats("matmul dbias", here.dbias, away.dbias, n, NEAR);
    const void *rest[] = {away.in, away.weight, away.bias, away.dout, away.rounded_bias};
    for (size_t i = 0; i < sizeof rest / sizeof *rest - !rounded; i++)
        drop(rest[i]);
}

/* How often the substitute runtime has done that. */
static unsigned long long times(const char *name)
{
    static uint64_t (*ask)(const char *name);
    void *shim = ask ? NULL : dlopen("libcudart_shim.so", RTLD_NOW | RTLD_NOLOAD);
    if (shim)
        ask = (uint64_t(*)(const char *))(uintptr_t)dlsym(shim, "shim_times");
    assert_non_null(ask);
    return ask(name);
}

/* A linear layer and its GELU, forward, and the gradient of a linear layer's input and that of the
 * GELU before it: one product each, if `whole`; n is a width of 8 then. */
static void matmul_gelu(enum lt_dtype dtype, int64_t rows, int64_t n, int64_t k, int whole)
{
    int64_t wide = rows * n;
    unsigned long long passes = times("gelu_out") + times("gelu_din") + times("bias_add");
    struct lt_matmul here = {.rows = rows, .n = n, .k = k}, away = here, back = {0};
    BOTH(in, elements(dtype, rows * k, 1, 1), size_of(dtype, rows * k));
    BOTH(weight, elements(dtype, n * k, 2, 0.3f), size_of(dtype, n * k));
    BOTH(bias, normals(n, 3, 1), size_of(LT_DTYPE_FP32, n));
    BOTH(rounded_bias, typed(dtype, here.bias, n), size_of(dtype, n));
    BOTH(out, elements(dtype, wide, 4, 1), size_of(dtype, wide));
    struct lt_gelu gelu_here = {.in = here.out, .out = elements(dtype, wide, 5, 1), .count = wide},
                   gelu_away = {.in = away.out,
                                .out = there(gelu_here.out, size_of(dtype, wide)),
                                .count = wide};
    run(LT_OP_MATMUL_FORWARD, dtype, &(union lt_args){.matmul_forward = away});
    run(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = gelu_away});
    run_reference(LT_OP_MATMUL_FORWARD, dtype, &(union lt_args){.matmul_forward = here});
    run_reference(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = gelu_here});
    /* backward: the layer behind the GELU, of k outputs and n inputs. The reference goes on from
     * what the device has: a sum over roundings would be far off. */
    void *seen = pool_bytes(size_of(dtype, wide));
    device->space.read(&device->space, seen, gelu_away.out, size_of(dtype, wide));
    struct lt_matmul next = {.rows = rows,
                             .n = k,
                             .k = n,
                             .in = seen,
                             .weight = here.weight,
                             .dout = here.in,
                             .din = elements(dtype, wide, 6, 1),
                             .dweight = normals(n * k, 7, 1),
                             .dbias = normals(k, 8, 1)};
    back = next;
    back.in = gelu_away.out, back.weight = away.weight, back.dout = away.in;
    back.din = there(next.din, size_of(dtype, wide));
    back.dweight = there(next.dweight, size_of(LT_DTYPE_FP32, n * k));
    back.dbias = there(next.dbias, size_of(LT_DTYPE_FP32, k));
    gelu_here.dout = gelu_here.din = next.din, gelu_away.dout = gelu_away.din = back.din;
    run(LT_OP_MATMUL_BACKWARD, dtype, &(union lt_args){.matmul_backward = back});
    run(LT_OP_GELU_BACKWARD, dtype, &(union lt_args){.gelu_backward = gelu_away});
    run_reference(LT_OP_MATMUL_BACKWARD, dtype, &(union lt_args){.matmul_backward = next});
    run_reference(LT_OP_GELU_BACKWARD, dtype, &(union lt_args){.gelu_backward = gelu_here});
    same("the sum before a gelu", dtype, here.out, away.out, wide, NEAR);
    same("gelu of a product", dtype, gelu_here.out, gelu_away.out, wide, NEAR);
    same("din through a gelu", dtype, next.din, back.din, wide, NEAR);
    same_floats("dweight behind a gelu", next.dweight, back.dweight, n * k, NEAR);
    same_floats("dbias behind a gelu", next.dbias, back.dbias, k, NEAR);
    passes = times("gelu_out") + times("gelu_din") + times("bias_add") - passes;
    assert_int_equal(passes, whole ? 0 : 2); /* the bias is added by the product either way */
    const void *rest[] = {away.in, away.weight, away.bias, away.rounded_bias};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        drop(rest[i]);
}

/* In bf16 probabilities are rounded before they are multiplied, which the reference does not do. */
static void attention(enum lt_dtype dtype, int64_t b, int64_t t, int64_t c, int64_t h)
{
    int64_t n = b * t * c;
    double near = dtype == LT_DTYPE_FP32 ? NEAR : 0x1p-6;
    struct lt_attention here = {.b = b, .t = t, .c = c, .h = h}, away = here;
    BOTH(qkv, elements(dtype, 3 * n, 1, 1), size_of(dtype, 3 * n));
    BOTH(dout, elements(dtype, n, 2, 1), size_of(dtype, n));
    BOTH(out, elements(dtype, n, 3, 1), size_of(dtype, n));
    BOTH(lse, normals(b * h * t, 4, 1), size_of(LT_DTYPE_FP32, b * h * t));
    BOTH(dqkv, elements(dtype, 3 * n, 5, 1), size_of(dtype, 3 * n));
    run(LT_OP_ATTENTION_FORWARD, dtype, &(union lt_args){.attention_forward = away});
    run(LT_OP_ATTENTION_BACKWARD, dtype, &(union lt_args){.attention_backward = away});
    run_reference(LT_OP_ATTENTION_FORWARD, dtype, &(union lt_args){.attention_forward = here});
    run_reference(LT_OP_ATTENTION_BACKWARD, dtype, &(union lt_args){.attention_backward = here});
    assert_near("attention", floats(dtype, back(away.out, size_of(dtype, n)), n),
                floats(dtype, here.out, n), n, near);
    same_floats("attention lse", here.lse, away.lse, b * h * t, NEAR);
    assert_near("attention dqkv", floats(dtype, back(away.dqkv, size_of(dtype, 3 * n)), 3 * n),
                floats(dtype, here.dqkv, 3 * n), 3 * n, 5 * near);
    drop(away.qkv);
    drop(away.dout);
}

static void gelu(enum lt_dtype dtype, int64_t n)
{
    float *in = normals(n, 1, 3);
    in[0] = 0, in[1] = 40, in[2] = -40, in[3] = 1e-20f, in[4] = -1e30f, in[5] = 1e9f;
    struct lt_gelu here = {.count = n}, away = here;
    BOTH(in, typed(dtype, in, n), size_of(dtype, n));
    BOTH(out, elements(dtype, n, 2, 1), size_of(dtype, n));
    BOTH(din, elements(dtype, n, 3, 1), size_of(dtype, n));
    here.dout = here.din, away.dout = away.din; /* in place */
    run(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = away});
    run(LT_OP_GELU_BACKWARD, dtype, &(union lt_args){.gelu_backward = away});
    run_reference(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = here});
    run_reference(LT_OP_GELU_BACKWARD, dtype, &(union lt_args){.gelu_backward = here});
    const float *got = floats(dtype, back(away.out, size_of(dtype, n)), n),
                *want = floats(dtype, here.out, n);
    assert_near("gelu, common values", got + 6, want + 6, n - 6,
                dtype == LT_DTYPE_FP32 ? NEAR : 0x1p-8);
    for (int i = 0; i < 6; i++)
        assert_true(fabsf(got[i] - want[i]) <= 1e-6f * fmaxf(1, fabsf(want[i])));
    got = floats(dtype, back(away.din, size_of(dtype, n)), n);
    want = floats(dtype, here.din, n);
    assert_near("gelu din", got + 6, want + 6, n - 6, dtype == LT_DTYPE_FP32 ? NEAR : 0x1p-8);
    for (int i = 0; i < 4; i++) /* further out the reference has infinity times 0 */
        assert_true(fabsf(got[i] - want[i]) <= 1e-2f * fmaxf(1, fabsf(want[i])));
    assert_true(got[4] == 0 && isfinite(got[5]));
    drop(away.in);
}

static struct lt_late read_late(void)
{
    struct lt_late late;
    device->space.read(&device->space, &late, device->late, sizeof late);
    return late;
}

static void write_late(const struct lt_late *late)
{
    device->space.write(&device->space, device->late, late, sizeof *late);
}

static void classifier(enum lt_dtype dtype, int64_t rows, int64_t v, int backward)
{
    struct lt_classifier here = {.rows = rows, .v = v, .scale = 0.125f, .backward = backward},
                         away = here;
    BOTH(logits, elements(dtype, rows * v, 1, 5), size_of(dtype, rows * v));
    BOTH(losses, zeros(rows), size_of(LT_DTYPE_FP32, rows));
    BOTH(targets, words(rows, 2, v), (size_t)rows * 4);
    write_late(&(struct lt_late){.loss = 3});
    run(LT_OP_CLASSIFIER, dtype, &(union lt_args){.classifier = away});
    run_reference(LT_OP_CLASSIFIER, dtype, &(union lt_args){.classifier = here});
    double loss = read_late().loss, want = 3 + lt_mean_loss(here.losses, rows);
    if (!(fabs(loss - want) <= NEAR * want))
        fail_msg("mean loss %.9g, expected %.9g", loss, want);
    same_floats("losses", here.losses, away.losses, rows, NEAR);
    same("logits", dtype, here.logits, away.logits, rows * v, 5 * NEAR);
    drop(away.targets);
}

/* Clipping by `clip` in the device's way, and in the host's: as a factor on the gradients. */
static void adamw(int64_t n, int64_t decayed, double clip, int rounded)
{
    const struct lt_update_terms terms = {.rate = 0.01,
                                          .beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .eps = 1e-8,
                                          .decay = 0.1,
                                          .correction1 = 0.271,
                                          .correction2 = 0.142625,
                                          .scale = 1};
    struct lt_update here = {.count = n, .decayed = decayed, .terms = terms}, away = here;
    struct lt_norm norm = {.count = n};
    double sum;
    size_t bytes = size_of(LT_DTYPE_FP32, n);
    float *second = normals(n, 4, 0.1f);
    for (int64_t i = 0; i < n; i++)
        second[i] = fabsf(second[i]);
    BOTH(grad, normals(n, 1, 1), bytes);
    BOTH(param, normals(n, 2, 1), bytes);
    BOTH(state[0], normals(n, 3, 0.1f), bytes);
    BOTH(state[1], second, bytes);
    if (rounded)
        BOTH(shadow, pool_bytes((size_t)n * 2), (size_t)n * 2);
    away.terms = (struct lt_update_terms){0}; /* not looked at */
    write_late(&(struct lt_late){.terms = terms, .clip = clip});
    norm.x = away.grad;
    run(LT_OP_NORM, LT_DTYPE_FP32, &(union lt_args){.norm = norm});
    norm.x = here.grad;
    norm.sum = &sum;
    run_reference(LT_OP_NORM, LT_DTYPE_FP32, &(union lt_args){.norm = norm});
    run(LT_OP_ADAMW, LT_DTYPE_FP32, &(union lt_args){.adamw = away});
    if (clip > 0 && sqrt(sum) > clip)
        here.terms.scale = clip / sqrt(sum);
    run_reference(LT_OP_ADAMW, LT_DTYPE_FP32, &(union lt_args){.adamw = here});
    assert_true(fabs(read_late().squares - sum) <= 1e-6 * sum);
    if (rounded) {
        const float *param = back(away.param, bytes);
        const uint16_t *shadow = back(away.shadow, (size_t)n * 2);
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(shadow[i], lt_bf16_round(param[i]));
        assert_near("adamw parameters", param, here.param, n, NEAR);
    } else {
        same_floats("adamw parameters", here.param, away.param, n, NEAR);
    }
    same_floats("adamw m", here.state[0], away.state[0], n, NEAR);
    same_floats("adamw v", here.state[1], away.state[1], n, NEAR);
    drop(away.grad);
}

static void ops_embedding(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPES; d++) {
        embedding((enum lt_dtype)d, 3, 21, 136, 17);
        embedding((enum lt_dtype)d, 2, 5, 9, 50);
        embedding((enum lt_dtype)d, 1, 1, 1, 1);
    }
}

static void ops_layernorm(void **state)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {65, 130}, {70, 768}, {131, 16}};
    (void)state;
    for (int d = 0; d < DTYPES; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int added = 0; added < 2; added++)
                layernorm((enum lt_dtype)d, shapes[i][0], shapes[i][1], added);
}

static void ops_matmul(void **state)
{
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {65, 131, 33}, {200, 48, 64}};
    (void)state;
    for (int d = 0; d < DTYPES; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int how = 0; how < 4; how++)
                matmul((enum lt_dtype)d, shapes[i][0], shapes[i][1], shapes[i][2], how & 1,
                       how & 2);
}

static void ops_matmul_gelu(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPES; d++) {
        matmul_gelu((enum lt_dtype)d, 65, 48, 33, 1);
        matmul_gelu((enum lt_dtype)d, 3, 64, 128, 1);
        matmul_gelu((enum lt_dtype)d, 7, 12, 16, 0);
    }
}

static void ops_attention(void **state)
{
    static const int64_t shapes[][4] = {{1, 1, 32, 1},  {2, 3, 64, 2},   {2, 64, 32, 1},
                                        {1, 65, 64, 2}, {1, 130, 64, 1}, {2, 200, 128, 2}};
    (void)state;
    for (int d = 0; d < DTYPES; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            attention((enum lt_dtype)d, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
}

/* The same on a device that is not Hopper. */
static void ops_attention_by_warps(void **state)
{
    struct tacho_error err = {0};
    struct lt_device *hopper = device;
    unsigned long long groups = times("hopper_out");
    setenv("LT_CUDA_WARPGROUPS", "off", 1);
    assert_int_equal(lt_device_open(&device, 0, &err), 0);
    unsetenv("LT_CUDA_WARPGROUPS");
    ops_attention(state);
    assert_int_equal(times("hopper_out"), groups);
    lt_device_close(device);
    device = hopper;
    attention(LT_DTYPE_BF16, 1, 70, 128, 2);
    assert_int_equal(times("hopper_out"), groups + 1);
}

static void ops_elementwise(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPES; d++) {
        gelu((enum lt_dtype)d, 10001);
        gelu((enum lt_dtype)d, 4096);
    }
}

static void ops_classifier(void **state)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {65, 256}, {2, 50257}};
    (void)state;
    for (int d = 0; d < DTYPES; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int backward = 0; backward < 2; backward++)
                classifier((enum lt_dtype)d, shapes[i][0], shapes[i][1], backward);
}

static void ops_optimizer(void **state)
{
    (void)state;
    adamw(70003, 17, 0, 0);
    adamw(70000, 40000, 0.5, 1);
    adamw(4096, 4096, 1e9, 1);
    adamw(3, 0, 0, 1);
}

/* A residual that no layernorm follows is made before the next operation that reads its sum. */
static void residual_alone(void **state)
{
    (void)state;
    int64_t n = 1237;
    for (int d = 0; d < DTYPES; d++) {
        enum lt_dtype dtype = (enum lt_dtype)d;
        struct lt_residual here = {.count = n}, away = here;
        BOTH(a, elements(dtype, n, 1, 1), size_of(dtype, n));
        BOTH(b, elements(dtype, n, 2, 1), size_of(dtype, n));
        BOTH(out, elements(dtype, n, 3, 1), size_of(dtype, n));
        struct lt_gelu gelu_here = {.in = here.out, .out = elements(dtype, n, 4, 1), .count = n},
                       gelu_away = {.in = away.out,
                                    .out = there(gelu_here.out, size_of(dtype, n)),
                                    .count = n};
        run(LT_OP_RESIDUAL_FORWARD, dtype, &(union lt_args){.residual_forward = away});
        run(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = gelu_away});
        run_reference(LT_OP_RESIDUAL_FORWARD, dtype, &(union lt_args){.residual_forward = here});
        run_reference(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = gelu_here});
        same("gelu of a sum", dtype, gelu_here.out, gelu_away.out, n, NEAR);
        assert_memory_equal(back(away.out, size_of(dtype, n)), here.out, size_of(dtype, n));
        drop(away.a);
        drop(away.b);
    }
}

static char heard[64];

static void hear(struct lt_device *of, enum lt_speak what)
{
    static const char letters[] = {[LT_SPEAK_BEGIN] = 'b',
                                   [LT_SPEAK_BEGIN_WAITING] = 'w',
                                   [LT_SPEAK_END] = 'e',
                                   [LT_SPEAK_WAITS] = '-'};
    size_t length = strlen(heard);
    (void)of;
    assert_true(length + 1 < sizeof heard);
    heard[length] = letters[what];
    heard[length + 1] = 0;
}

/* The range of an operation that waits lies around its own launches, not in that of the next one; a
 * copy of the host ends the waiting too. */
static void ranges_lie_around_launches(void **state)
{
    (void)state;
    int64_t n = 64;
    enum lt_dtype dtype = LT_DTYPE_FP32;
    float *numbers = normals(4 * n, 1, 1);
    struct lt_residual residual = {.count = n};
    residual.a = residual.b = there(numbers, size_of(dtype, n));
    residual.out = there(numbers, size_of(dtype, n));
    struct lt_gelu gelu = {
        .in = residual.out, .out = there(numbers, size_of(dtype, n)), .count = n};
    run(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = gelu});
    void (*speak)(struct lt_device *, enum lt_speak) = device->speak;
    assert_non_null(speak);
    device->speak = hear;
    heard[0] = 0;
    run(LT_OP_RESIDUAL_FORWARD, dtype, &(union lt_args){.residual_forward = residual});
    assert_string_equal(heard, "-");
    run(LT_OP_GELU_FORWARD, dtype, &(union lt_args){.gelu_forward = gelu});
    assert_string_equal(heard, "-webe");
    run(LT_OP_RESIDUAL_FORWARD, dtype, &(union lt_args){.residual_forward = residual});
    back(residual.out, size_of(dtype, n));
    assert_string_equal(heard, "-webe-we");
    device->speak = speak;
    drop(residual.a);
    drop(gelu.out);
}

/* With $LT_CUDA_TUNE the fastest algorithm of a product is kept, and what it adds to is added to
 * once. */
static void the_fastest_algorithm(void **state)
{
    struct tacho_error err = {0};
    struct lt_device *plain = device;
    (void)state;
    unsigned long long slow = times("algorithm 42"), fast = times("algorithm 44");
    setenv("LT_CUDA_TUNE", "8", 1);
    assert_int_equal(lt_device_open(&device, 0, &err), 0);
    unsetenv("LT_CUDA_TUNE");
    matmul(LT_DTYPE_BF16, 65, 16, 33, 1, 0); /* three products */
    assert_int_equal(times("algorithm 42") - slow, 3 * 4);
    assert_int_equal(times("algorithm 44") - fast, 3 * (4 + 1));
    matmul(LT_DTYPE_BF16, 65, 16, 33, 1, 0);
    assert_int_equal(times("algorithm 42") - slow, 3 * 4);
    assert_int_equal(times("algorithm 44") - fast, 3 * (4 + 2));
    lt_device_close(device);
    device = plain;
}

/* What the device has not is said before it is asked for. */
static void what_is_not_there(void **state)
{
    char why[128];
    union lt_args args = {.attention_forward = {.c = 60, .h = 3}};
    (void)state;
    assert_int_equal(device->has(LT_OP_ATTENTION_FORWARD, &args, why, sizeof why), 0);
    assert_non_null(strstr(why, "20 channels"));
    assert_int_equal(device->has(LT_OP_MUON, &args, why, sizeof why), 0);
    assert_int_equal(device->has(LT_OP_ADAMW, &args, why, sizeof why), 1);
}

/* ---- whole runs ---- */

static const struct lt_gpt2_config small = {"small", "", 2, 32, 1, 256, 32, 32, 2};
static struct lt_source *source;

struct seen {
    double loss[8], norm[8], evaluation;
    int64_t order[8];
    int steps;
};

static void note(void *arg, const struct lt_progress *progress)
{
    struct seen *seen = arg;
    if (progress->event == LT_EVENT_STEP) {
        assert_true(progress->step < 8);
        seen->loss[progress->step] = progress->loss;
        seen->norm[progress->step] = progress->grad_norm;
        seen->order[seen->steps++] = progress->step;
    }
    if (progress->event == LT_EVENT_EVALUATION)
        seen->evaluation = progress->loss;
}

static struct lt_train_config plan_of(int64_t steps)
{
    struct lt_train_config config = {.schedule = {.kind = LT_SCHEDULE_COSINE,
                                                  .peak = 1e-2,
                                                  .floor = 1e-3,
                                                  .warmup = 2,
                                                  .steps = steps},
                                     .micro_steps = 2,
                                     .clip = 0.5,
                                     .optimizer = lt_optimizer_defaults(LT_OPTIMIZER_ADAMW),
                                     .eval_batches = 2,
                                     .log_every = 1,
                                     .seed = 7};
    config.optimizer.weight_decay = 0.1;
    return config;
}

/* A model of two sequences of 32 tokens, in a device's memory or (NULL) the host's. */
static int make(struct lt_model **out, struct lt_space *space, const struct lt_gpt2_config *shape,
                struct lt_gpt2_mode mode, struct tacho_error *err)
{
    struct lt_gpt2_stage whole = lt_gpt2_whole(shape);
    whole.space = space;
    return lt_gpt2_create_stage(out, shape, mode, &whole, 2, 32, 3, err);
}

/* Trains; returns what was seen, and the parameters in *values, which the caller frees with the
 * pool. `on`: NULL for the reference. */
static struct seen *trained(struct lt_device *on, struct lt_gpt2_mode mode,
                            const struct lt_train_config *config, float **values)
{
    struct tacho_error err = {0};
    struct lt_model *model = NULL;
    struct seen *seen = pool_bytes(sizeof *seen);
    struct lt_part part = lt_source_whole(source), held_out;
    struct lt_context x = {.backend = LT_BACKEND_REFERENCE, .device = on, .dtype = mode.dtype};
    struct lt_train_hooks hooks = {.progress = note, .arg = seen};
    assert_int_equal(lt_source_split(source, 0.1, &part, &held_out, &err), 0);
    if (make(&model, on ? &on->space : NULL, &small, mode, &err) ||
        lt_train(model, &part, &held_out, &x, config, &hooks, &err))
        fail_msg("%s", err.what);
    size_t count = model->parameters.count;
    *values = zeros((int64_t)count);
    if (on)
        on->space.read(&on->space, *values, model->parameters.value, count * sizeof(float));
    else
        memcpy(*values, model->parameters.value, count * sizeof(float));
    lt_model_destroy(model);
    return seen;
}

/* Losses, norms and parameters of two runs: how far apart they are, at most. */
static void compare(const struct seen *got, const struct seen *want, const float *values,
                    const float *wanted, double near, double parameters)
{
    struct lt_parameters layout;
    lt_gpt2_parameters(&small, &layout);
    assert_int_equal(got->steps, want->steps);
    for (int i = 0; i < got->steps; i++) {
        assert_int_equal(got->order[i], i);
        if (!(fabs(got->loss[i] - want->loss[i]) <= near * want->loss[i]) ||
            !(fabs(got->norm[i] - want->norm[i]) <= 10 * near * want->norm[i]))
            fail_msg("step %d: loss %.9g, norm %.9g; expected %.9g, %.9g", i, got->loss[i],
                     got->norm[i], want->loss[i], want->norm[i]);
    }
    double difference = 0, length = 0;
    for (size_t i = 0; i < layout.count; i++) {
        difference += pow((double)values[i] - (double)wanted[i], 2);
        length += pow((double)wanted[i], 2);
    }
    if (!(sqrt(difference) <= parameters * sqrt(length)))
        fail_msg("parameters differ by %.3g of their length", sqrt(difference / length));
}

/* Five steps of two micro-steps each, with clipping, decay and evaluations, kept or recomputed. The
 * bounds: fp32 sums in another order; of bf16 the roundings of activations tip over, and Adam turns
 * a small gradient's sign into a whole step. */
static void steps_equal_the_reference(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPES; d++) {
        struct lt_gpt2_mode mode = {.dtype = (enum lt_dtype)d,
                                    .recompute = d ? LT_RECOMPUTE_BLOCK : LT_RECOMPUTE_NONE};
        int exact = mode.dtype == LT_DTYPE_FP32;
        struct lt_train_config config = plan_of(5);
        float *values, *wanted;
        config.eval_every = 5;
        struct seen *want = trained(NULL, mode, &config, &wanted),
                    *got = trained(device, mode, &config, &values);
        assert_true(want->loss[4] < want->loss[0]);
        compare(got, want, values, wanted, exact ? 2e-5 : 2e-3, exact ? 1e-3 : 5e-2);
        assert_true(fabs(got->evaluation - want->evaluation) <=
                    (exact ? 5e-5 : 5e-3) * want->evaluation);
    }
}

/* A captured step does the same operations in the same order: the same bits. */
static void graph_equals_eager(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPES; d++) {
        struct lt_gpt2_mode mode = {.dtype = (enum lt_dtype)d};
        struct lt_train_config config = plan_of(3);
        float *values, *wanted;
        struct seen *got = trained(device, mode, &config, &values);
        config.no_graph = 1;
        struct seen *want = trained(device, mode, &config, &wanted);
        compare(got, want, values, wanted, 0, 0);
    }
}

/* What the device wrote the host reads, and goes on from there; and the other way round. */
static void checkpoints_change_sides(void **state)
{
    struct lt_gpt2_mode mode = {.dtype = LT_DTYPE_BF16};
    char path[2][300];
    float *values, *wanted;
    (void)state;
    const char *folder = scratch_folder();
    for (int side = 0; side < 2; side++) {
        snprintf(path[side], sizeof path[side], "%s/%d", folder, side);
        struct lt_train_config first = plan_of(4), second = plan_of(4);
        first.schedule.steps = 2;
        second.schedule.warmup = first.schedule.warmup = 2;
        first.checkpoint = second.resume = path[side];
        trained(side ? device : NULL, mode, &first, &values);
        struct seen *went_on = trained(side ? NULL : device, mode, &second, &values);
        struct seen *stayed = trained(side ? device : NULL, mode, &second, &wanted);
        assert_int_equal(went_on->steps, 2);
        for (int i = 2; i < 4; i++)
            assert_true(fabs(went_on->loss[i] - stayed->loss[i]) <= 2e-3 * stayed->loss[i]);
        unlink(path[side]);
    }
    rmdir(folder);
}

/* A run that needs what the device has not ends with words. */
static void fails(const struct lt_gpt2_config *shape, enum lt_optimizer_kind kind,
                  const char *words)
{
    struct tacho_error err = {0};
    struct lt_model *model = NULL;
    struct lt_train_config config = plan_of(3);
    struct lt_part part = lt_source_whole(source);
    struct lt_device *own = NULL;
    assert_int_equal(lt_device_open(&own, 0, &err), 0);
    struct lt_context x = {.device = own};
    assert_int_equal(make(&model, &own->space, shape, (struct lt_gpt2_mode){0}, &err), 0);
    config.optimizer = lt_optimizer_defaults(kind);
    assert_int_equal(lt_train(model, &part, NULL, &x, &config, NULL, &err), TACHO_EIO);
    assert_non_null(strstr(err.what, words));
    lt_model_destroy(model);
    lt_device_close(own);
}

static void failures_are_said(void **state)
{
    static const struct lt_gpt2_config odd = {"odd", "", 1, 40, 2, 256, 32, 32, 2};
    (void)state;
    fails(&odd, LT_OPTIMIZER_ADAMW, "heads of these channels");
    fails(&small, LT_OPTIMIZER_SGD, "CUDA backend");
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(ops_embedding),
        TEST(ops_layernorm),
        TEST(ops_matmul),
        TEST(ops_matmul_gelu),
        TEST(ops_attention),
        TEST(ops_attention_by_warps),
        TEST(ops_elementwise),
        TEST(ops_classifier),
        TEST(ops_optimizer),
        TEST(residual_alone),
        TEST(the_fastest_algorithm),
        TEST(what_is_not_there),
        TEST(steps_equal_the_reference),
        TEST(graph_equals_eager),
        TEST(checkpoints_change_sides),
        TEST(failures_are_said),
        TEST(ranges_lie_around_launches),
    };
    struct tacho_error err = {0};
    char library[512], text[300];
    const char *build = getenv("BUILD");
    lt_threads_limit(1); /* the host has little to do here, and threads that wait would spin */
#ifdef LT_TSAN
    printf("1..0 # SKIP fibers are no threads to this sanitizer\n");
    return 77;
#endif
    /* tests/run gives BUILD; products are found beside the library */
    snprintf(library, sizeof library, "%s/tests/cuda/libtrain_cuda.so", build ? build : "build");
    setenv("LT_CUDA_LIBRARY", library, 0); /* long_cuda_barriers.sh names broken ones */
    /* under a sanitizer the loader does not look beside the library that asks */
    snprintf(library, sizeof library, "%s/tests/cuda/libcublasLt.so.13", build ? build : "build");
    setenv("LT_CUBLASLT", library, 0);
#ifdef __SANITIZE_ADDRESS__
    cmocka_set_test_filter("ops_*"); /* fibers cost ten times as much under it: minutes for runs */
#endif
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (lt_device_open(&device, 0, &err)) {
        fprintf(stderr, "%s\n", err.what);
        return 1;
    }
    const char *folder = scratch_folder();
    snprintf(text, sizeof text, "%s/text", folder);
    write_text(text, 20000, 5);
    source = open_text_source(text, 32);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lt_source_close(source);
    unlink(text);
    rmdir(folder);
    lt_device_close(device);
    return failed;
}
