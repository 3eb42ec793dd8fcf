/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole model: its gradient against differences of its loss, one backend against the other,
 * micro-batches against one big batch, and the FLOPs of a step, summed over the work records of its
 * ops, against closed forms.
 */
#include "lt_support.h"

#include "lt_models.h"

#include "libtrain/models/gpt2.h"
#include "libtrain/train/optimizer.h"

static const struct lt_gpt2_config small = {"small", "", 2, 24, 3, 40, 9, 9, 2};

static const struct lt_gpt2_mode fp32; /* activations in fp32, all of them kept */

/* Every way in which a model can be computed. */
static const struct lt_gpt2_mode modes[] = {
    {.dtype = LT_DTYPE_FP32, .recompute = LT_RECOMPUTE_NONE},
    {.dtype = LT_DTYPE_FP32, .recompute = LT_RECOMPUTE_BLOCK},
    {.dtype = LT_DTYPE_BF16, .recompute = LT_RECOMPUTE_NONE},
    {.dtype = LT_DTYPE_BF16, .recompute = LT_RECOMPUTE_BLOCK}};
#define MODES (sizeof modes / sizeof *modes)

static struct lt_model *make(const struct lt_gpt2_config *k, struct lt_gpt2_mode mode, int64_t b,
                             int64_t t)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_gpt2_create(&m, k, mode, b, t, 7, &err))
        fail_msg("%s", err.what);
    return m;
}

static void gradient_of(enum lt_backend backend, struct lt_gpt2_mode mode)
{
    struct lt_model *m = make(&small, mode, 2, 9), *plain = make(&small, fp32, 2, 9);
    check_model_gradient(m, plain, backend, mode.dtype);
    lt_model_destroy(m);
    lt_model_destroy(plain);
}

static void model_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < LT_BACKEND_COUNT; i++)
        for (size_t j = 0; j < MODES; j++)
            gradient_of((enum lt_backend)i, modes[j]);
}

/* Against the fp32 reference: fp32 backends element by element, bf16 by the length of the
 * difference. */
static void backends_agree(void **state)
{
    (void)state;
    static const struct lt_gpt2_config odd = {"odd", "", 3, 60, 4, 97, 70, 70, 3};
    const int32_t *tokens = words(210, 1, odd.vocab), *targets = words(210, 2, odd.vocab);
    float *want = NULL;
    double loss = 0;
    for (size_t j = 0; j < MODES; j++)
        for (int i = 0; i < LT_BACKEND_COUNT; i++) {
            struct lt_context x = {.backend = (enum lt_backend)i};
            struct lt_model *m = make(&odd, modes[j], 3, 70);
            size_t count = m->parameters.count;
            double got =
                m->ops->forward(m, &x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
            m->ops->backward(m, &x, &(struct lt_batch){.tokens = tokens}, 1);
            float *grad = copy_of(m->parameters.grad, (int64_t)count);
            if (!want) {
                want = copy_of(grad, (int64_t)count);
                loss = got;
            }
            assert_true(fabs(got - loss) < (modes[j].dtype == LT_DTYPE_FP32 ? 1e-5 : 2e-3));
            if (modes[j].dtype == LT_DTYPE_FP32)
                assert_near("gradient", grad, want, (int64_t)count, 1e-4);
            for (size_t k = 0; k < count; k++)
                grad[k] -= want[k];
            double apart = sqrt(dot(grad, grad, count) / dot(want, want, count));
            if (!(apart < 2e-2))
                fail_msg("%s, %s: gradient off by %g of its length", lt_backend_name(x.backend),
                         lt_dtype_name(modes[j].dtype), apart);
            lt_model_destroy(m);
        }
    assert_true(fabs(loss - log(97)) < 0.2); /* an untrained model knows nothing */
}

#define STEPS 30

/* Learns one batch by heart; losses[STEPS], and the parameters at the end. */
static const float *learn(struct lt_gpt2_mode mode, double *losses)
{
    static const struct lt_gpt2_config odd = {"odd", "", 3, 64, 4, 97, 70, 70, 3};
    const struct lt_optimizer_config adamw = {
        .kind = LT_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    const int32_t *tokens = words(210, 1, odd.vocab), *targets = words(210, 2, odd.vocab);
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_model *m = make(&odd, mode, 3, 70);
    struct lt_optimizer optimizer;
    struct tacho_error err = {0};
    assert_int_equal(lt_optimizer_create(&optimizer, &adamw, &m->parameters, &err), 0);
    for (int i = 0; i < STEPS; i++) {
        losses[i] =
            m->ops->forward(m, &x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
        m->ops->backward(m, &x, &(struct lt_batch){.tokens = tokens}, 1);
        lt_optimizer_update(&optimizer, &x, &m->parameters, i, 2e-3, 1);
    }
    const float *value = copy_of(m->parameters.value, (int64_t)m->parameters.count);
    lt_optimizer_destroy(&optimizer);
    lt_model_destroy(m);
    return value;
}

/* Making activations again changes no bit; bf16 learns as fp32 does, its losses within 2 %. */
static void modes_learn_alike(void **state)
{
    (void)state;
    static const struct lt_gpt2_config odd = {"odd", "", 3, 64, 4, 97, 70, 70, 3};
    double losses[MODES][STEPS];
    const float *value[MODES];
    struct lt_model *m = make(&odd, fp32, 3, 70);
    size_t bytes = m->parameters.count * sizeof(float);
    lt_model_destroy(m);
    for (size_t i = 0; i < MODES; i++)
        value[i] = learn(modes[i], losses[i]);
    for (size_t i = 0; i < MODES; i += 2) {
        assert_memory_equal(value[i], value[i + 1], bytes);
        assert_memory_equal(losses[i], losses[i + 1], sizeof losses[i]);
        assert_true(losses[i][STEPS - 1] < 0.6 * losses[i][0]);
    }
    assert_memory_not_equal(value[0], value[2], bytes);
    for (int k = 0; k < STEPS; k++)
        if (!(fabs(losses[2][k] / losses[0][k] - 1) < 0.02))
            fail_msg("step %d: loss %g in bf16, %g in fp32", k, losses[2][k], losses[0][k]);
}

/* Four micro-batches of one sequence are one batch of four. The order of sums differs: 1e-4. */
static void accumulation(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_model *big = make(&small, fp32, 4, 9), *one = make(&small, fp32, 1, 9);
    const int32_t *tokens = words(36, 1, small.vocab), *targets = words(36, 2, small.vocab);
    int64_t count = (int64_t)big->parameters.count;
    one->ops->forward(one, &x, &(struct lt_batch){.tokens = targets, .targets = tokens}, 1);
    one->ops->backward(one, &x, &(struct lt_batch){.tokens = targets},
                       1); /* another gradient lies there: the first micro-step must overwrite it */
    double loss = big->ops->forward(big, &x,
                                    &(struct lt_batch){.tokens = tokens, .targets = targets}, 1),
           sum = 0;
    big->ops->backward(big, &x, &(struct lt_batch){.tokens = tokens}, 1);
    for (int64_t i = 0; i < 4; i++) {
        sum += one->ops->forward(
            one, &x, &(struct lt_batch){.tokens = tokens + 9 * i, .targets = targets + 9 * i}, 4);
        one->ops->backward(one, &x, &(struct lt_batch){.tokens = tokens + 9 * i}, i == 0);
    }
    assert_true(fabs(loss - sum / 4) < 1e-6);
    assert_near("gradient", one->parameters.grad, big->parameters.grad, count, 1e-4);
    lt_model_destroy(big);
    lt_model_destroy(one);
}

static void evaluation_changes_nothing(void **state)
{
    (void)state;
    struct lt_context train = {.backend = LT_BACKEND_CPU},
                      look = {.backend = LT_BACKEND_CPU, .evaluation = 1};
    struct lt_model *m = make(&small, fp32, 2, 9);
    const int32_t *tokens = words(18, 1, small.vocab), *targets = words(18, 2, small.vocab);
    double a =
        m->ops->forward(m, &train, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
    m->ops->backward(m, &train, &(struct lt_batch){.tokens = tokens}, 1);
    float *grad = copy_of(m->parameters.grad, (int64_t)m->parameters.count);
    assert_true(
        fabs(a - m->ops->forward(m, &look, &(struct lt_batch){.tokens = tokens, .targets = targets},
                                 1)) < 1e-6);
    assert_memory_equal(grad, m->parameters.grad, m->parameters.count * sizeof *grad);
    lt_model_destroy(m);
}

static void impossible_shapes(void **state)
{
    (void)state;
    static const struct lt_gpt2_config bad[] = {{"heads", "", 2, 24, 5, 40, 9, 9, 2},
                                                {"layers", "", 0, 24, 3, 40, 9, 9, 2},
                                                {"vocab", "", 2, 24, 3, 0, 9, 9, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tacho_error err = {0};
        struct lt_model *m = NULL;
        assert_int_equal(lt_gpt2_create(&m, &bad[i], fp32, 2, 9, 1, &err), TACHO_EUSAGE);
        assert_null(m);
        assert_true(strlen(err.what) > 0 && strlen(err.hint) > 0);
    }
}

static void parameter_counts(void **state)
{
    (void)state;
    struct lt_model *m = make(&small, fp32, 1, 9);
    uint64_t l = 2, c = 24, v = 40, p = 9;
    assert_int_equal(m->parameters.trainable, v * c + p * c + l * (12 * c * c + 13 * c) + 2 * c);
    assert_int_equal(m->parameters.matrix, 12 * l * c * c + v * c);
    lt_model_destroy(m);
}

/* ---- FLOPs of a step -------------------------------------------------------------------------------------------------------- */

/* One shape {layers, channels, heads, vocab; b, t, micro-steps} in one backend and mode. With
 * recomputation, all but the last block make attention's forward and three of the four products
 * again (3 c c, c c and 4 c c of 12), and two layernorms, a residual and the gelu. */
static void flops_of(const uint64_t *shape, int backend, struct lt_gpt2_mode mode, const char *text)
{
    uint64_t l = shape[0], c = shape[1], v = shape[3], b = shape[4], t = shape[5], micro = shape[6];
    struct lt_gpt2_config k = {"shape",    "",         (int64_t)l, (int64_t)c, (int64_t)shape[2],
                               (int64_t)v, (int64_t)t, (int64_t)t, (int64_t)b};
    if (backend == LT_BACKEND_REFERENCE && l * c * c * b * t * micro > 200000)
        return; /* slow, and its counts are the same functions */
    struct lt_model *m = make(&k, mode, (int64_t)b, (int64_t)t);
    size_t count = m->parameters.count, decayed = m->parameters.decayed;
    struct lt_timers_step s = one_step(m, (enum lt_backend)backend, (int)micro, text);
    lt_model_destroy(m);
    uint64_t n = b * t,
             pairs = backend == LT_BACKEND_REFERENCE ? t * (t + 1) / 2 : blocked_pairs(t);
    uint64_t kept = mode.recompute == LT_RECOMPUTE_BLOCK ? 1 : l, most = (uint64_t)mode.kept,
             again = l - (most && most < l ? most : kept);
    uint64_t matrix = 6 * (12 * l * c * c + v * c) * n * micro;
    uint64_t recomputed = again * (2 * (3 + 1 + 4) * c * c * n + 4 * c * pairs * b) * micro;
    uint64_t issued = matrix + 14 * l * c * pairs * b * micro + recomputed;
    uint64_t rest =
        micro * (3 * n * c + 22 * n * c * (2 * l + 1) + 114 * n * c * l + 7 * n * v + 4 * n) +
        17 * count + decayed;
    rest += micro * again * n * c * (2 * 8 + 1 + 4 * 9);
    assert_int_equal(s.model_flops, matrix + 6 * l * c * t * (t + 1) * b * micro);
    assert_int_equal(s.palm_flops, matrix + 12 * l * c * t * t * b * micro);
    assert_int_equal(s.matrix_flops, issued);
    assert_int_equal(s.flops, issued + rest);
    struct lt_flops f =
        lt_gpt2_flops(&k, (enum lt_backend)backend, mode, (int64_t)b, (int64_t)t, (int64_t)micro);
    assert_int_equal(f.model, s.model_flops);
    assert_int_equal(f.palm, s.palm_flops);
    assert_int_equal(f.issued, s.matrix_flops);
    assert_int_equal(f.recomputed, recomputed);
    assert_true(s.matrix_flops >= s.model_flops);
}

/* However many of four blocks keep their activations: the same gradient, bit by bit. */
static void some_blocks_are_kept(void **state)
{
    (void)state;
    static const struct lt_gpt2_config chain = {"chain", "", 4, 24, 3, 40, 9, 9, 2};
    const int32_t *tokens = words(18, 1, 40), *targets = words(18, 2, 40);
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    const float *want = NULL;
    for (int64_t kept = 0; kept <= 5; kept++) {
        struct lt_model *m = make(&chain, (struct lt_gpt2_mode){.kept = kept}, 2, 9);
        size_t count = m->parameters.count;
        m->ops->forward(m, &x, &(struct lt_batch){.tokens = tokens, .targets = targets}, 1);
        m->ops->backward(m, &x, &(struct lt_batch){.tokens = tokens}, 1);
        want = want ? want : copy_of(m->parameters.grad, (int64_t)count);
        assert_memory_equal(m->parameters.grad, want, count * sizeof *want);
        lt_model_destroy(m);
    }
}

static void flops_are_closed_forms(void **state)
{
    (void)state;
    static const uint64_t shapes[][7] = {
        {1, 8, 1, 256, 1, 1, 1},    {2, 24, 3, 300, 3, 65, 1},   {1, 20, 4, 257, 2, 64, 3},
        {3, 36, 3, 256, 1, 129, 2}, {4, 128, 4, 256, 8, 128, 1}, {2, 10, 5, 999, 5, 7, 4},
        {1, 64, 1, 256, 3, 200, 1},
    };
    char path[300];
    const char *folder = scratch_folder();
    snprintf(path, sizeof path, "%s/text", folder);
    write_text(path, 5000, 3);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backend = 0; backend < LT_BACKEND_COUNT; backend++)
            for (size_t j = 0; j < MODES; j++)
                flops_of(shapes[i], backend, modes[j], path);
    for (int64_t kept = 1; kept <= 4; kept++)
        flops_of(shapes[3], LT_BACKEND_CPU, (struct lt_gpt2_mode){.kept = kept}, path);
    unlink(path);
    rmdir(folder);
}

/* What a record says of an op: type, pass, bytes by the size of its elements; the optimizer's are
 * fp32. */
static void records_know_the_type(void **state)
{
    (void)state;
    union lt_args a = {.matmul_backward = {.rows = 10,
                                           .n = 20,
                                           .k = 30,
                                           .bias = (float[1]){0},
                                           .dweight = (float[1]){0},
                                           .dbias = (float[1]){0},
                                           .din = (float[1]){0},
                                           .accumulate = 1}};
    struct tacho_work w;
    for (int d = 0; d < LT_DTYPE_COUNT; d++) {
        struct lt_context x = {.backend = LT_BACKEND_CPU, .dtype = (enum lt_dtype)d};
        uint64_t size = d == LT_DTYPE_FP32 ? 4 : 2, gradients = 4 * (20 * 30 + 20);
        lt_op_work(LT_OP_MATMUL_BACKWARD, &x, &a, &w);
        static const int codes[LT_DTYPE_COUNT] = {TACHO_DTYPE_FP32, TACHO_DTYPE_BF16,
                                                  TACHO_DTYPE_FP16};
        assert_int_equal(w.dtype, codes[d]);
        assert_int_equal(w.pass, TACHO_PASS_BACKWARD);
        assert_int_equal(w.bytes_read, size * (10 * 20 + 10 * 30 + 20 * 30) + gradients);
        assert_int_equal(w.bytes_written, size * 10 * 30 + gradients);
        x.recompute = 1;
        lt_op_work(LT_OP_MATMUL_FORWARD, &x, &a, &w);
        assert_int_equal(w.pass, TACHO_PASS_RECOMPUTE);
        assert_int_equal(w.flops, 2 * 10 * 20 * 30);
        assert_int_equal(w.model_flops + w.palm_flops, 0);
        assert_int_equal(w.bytes_read, size * (10 * 30 + 20 * 30) + 4 * 20);
        assert_int_equal(w.bytes_written, size * 10 * 20);
        x.recompute = 0;
        lt_op_work(LT_OP_NORM, &x, &(union lt_args){.norm = {.count = 7}}, &w);
        assert_int_equal(w.dtype, TACHO_DTYPE_FP32);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(model_gradient),       TEST(backends_agree),
        TEST(accumulation),         TEST(evaluation_changes_nothing),
        TEST(impossible_shapes),    TEST(parameter_counts),
        TEST(some_blocks_are_kept), TEST(flops_are_closed_forms),
        TEST(modes_learn_alike),    TEST(records_know_the_type),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
