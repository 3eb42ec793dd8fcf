/* SPDX-License-Identifier: Apache-2.0
 *
 * Frozen blocks of every model, and blocks that are made again several at a time: what they and
 * what lies before them hold does not move, the rest gets the gradient that it has without
 * freezing, each parameter is announced once, and the records of a step add up to the closed form.
 */
#include "lt_models.h"

#include "libtrain/models/gpt2.h"
#include "libtrain/models/llama.h"
#include "libtrain/models/mlp.h"
#include "libtrain/models/resnet.h"

enum family { GPT2, LLAMA, MIXTURE, RESNET, MLP, FAMILIES };
#define BLOCKS 3
#define BATCH  2
#define TOKENS 9

static const struct lt_gpt2_config gpt2 = {
    .name = "x", .layers = BLOCKS, .channels = 16, .heads = 2, .vocab = 31, .positions = TOKENS};
static const struct lt_llama_config llama = LLAMA("x", BLOCKS, 16, 2, 1, 24, 31, TOKENS, BATCH);
static const struct lt_resnet_config resnet = {.name = "x",
                                               .help = "",
                                               .blocks = {1, 2},
                                               .channels = 4,
                                               .batch = BATCH,
                                               .height = 9,
                                               .width = 10,
                                               .depth = 1,
                                               .classes = 5};
static const struct lt_mlp_config mlp = {
    .features = 20, .hidden = 12, .layers = BLOCKS, .classes = 5};

static struct lt_llama_config mixture(void)
{
    struct lt_llama_config config = llama;
    config.experts = 4;
    config.choices = 2;
    config.capacity = 1.25;
    config.balance = 0.01;
    return config;
}

static struct lt_model *make(enum family family, struct lt_net_mode mode)
{
    struct lt_model *model = NULL;
    struct tacho_error err = {0};
    struct lt_llama_config experts = mixture();
    struct lt_gpt2_mode own = {.dtype = mode.dtype, .recompute = mode.recompute};
    int rc = family == GPT2 ? lt_gpt2_create(&model, &gpt2, own, BATCH, TOKENS, 7, &err) : 0;
    if (family == LLAMA || family == MIXTURE)
        rc = lt_llama_create(&model, family == LLAMA ? &llama : &experts, mode, BATCH, TOKENS, 7,
                             &err);
    if (family == RESNET)
        rc = lt_resnet_create(&model, &resnet, mode, BATCH, 7, &err);
    if (family == MLP)
        rc = lt_mlp_create(&model, &mlp, mode, BATCH, 7, &err);
    if (rc)
        fail_msg("%s", err.what);
    return model;
}

static struct lt_flops closed_form(enum family family, struct lt_net_mode mode)
{
    struct lt_llama_config experts = mixture();
    struct lt_gpt2_mode own = {
        .dtype = mode.dtype, .recompute = mode.recompute, .frozen = mode.frozen};
    if (family == GPT2)
        return lt_gpt2_flops(&gpt2, LT_BACKEND_CPU, own, BATCH, TOKENS, 1);
    if (family == LLAMA || family == MIXTURE)
        return lt_llama_flops(family == LLAMA ? &llama : &experts, LT_BACKEND_CPU, mode, BATCH,
                              TOKENS, 1);
    if (family == RESNET)
        return lt_resnet_flops(&resnet, mode, BATCH, 1);
    return (struct lt_flops){.model = lt_mlp_flops(&mlp, mode, BATCH, 1)};
}

static struct lt_batch batch_of(enum family family)
{
    int64_t features = family == MLP ? BATCH * 20 : BATCH * 9 * 10;
    if (family == RESNET || family == MLP)
        return (struct lt_batch){.features = normals(features, 1, 1),
                                 .targets = words(BATCH, 2, 5)};
    return (struct lt_batch){.tokens = words(BATCH * TOKENS, 1, 31),
                             .targets = words(BATCH * TOKENS, 2, 31)};
}

/* Counts how often each parameter is announced. */
static void count_ready(void *arg, size_t first, size_t count)
{
    char *times = arg;
    for (size_t i = first; i < first + count; i++)
        times[i]++;
}

/* One forward and backward; what the records add up to. */
static struct lt_timers_step run(struct lt_model *model, const struct lt_batch *batch, char *times)
{
    struct lt_context x = {.backend = LT_BACKEND_CPU, .ready = count_ready, .ready_arg = times};
    size_t steps;
    assert_int_equal(lt_trace_create(&x.trace, lt_op_names(), LT_OP_COUNT, 1), 0);
    lt_trace_step_begin(x.trace, &(struct tacho_step){0});
    model->ops->forward(model, &x, batch, 1);
    model->ops->backward(model, &x, batch, 1);
    lt_trace_step_end(x.trace);
    struct lt_timers_step step = *lt_trace_steps(x.trace, &steps);
    lt_trace_destroy(x.trace);
    return step;
}

/* For each element: 1 if it is frozen, 2 if it is padding, 0 if it learns. */
static char *kinds_of(const struct lt_parameters *p)
{
    char *kind = pool_bytes(p->count);
    memset(kind, 2, p->count);
    for (int i = 0; i < p->weights; i++) {
        const struct lt_weight *weight = &p->weight[i];
        size_t each = (size_t)(weight->rows * weight->columns);
        for (size_t j = 0; j < each * (size_t)weight->repeat; j++)
            kind[weight->first + j] = (int64_t)(j / each) < p->frozen[i];
    }
    return kind;
}

static void check_step(enum family family, struct lt_net_mode mode)
{
    struct lt_model *whole = make(family, (struct lt_net_mode){.dtype = mode.dtype}),
                    *model = make(family, mode);
    struct lt_parameters *p = &model->parameters;
    struct lt_batch batch = batch_of(family);
    char *times = pool_bytes(p->count);
    run(whole, &batch, pool_bytes(p->count));
    assert_int_equal(model->ops->freeze(model, BLOCKS + 1), TACHO_EUSAGE);
    assert_int_equal(model->ops->freeze(model, mode.frozen), 0);
    struct lt_timers_step step = run(model, &batch, times);
    struct lt_flops closed = closed_form(family, mode);
    assert_int_equal(step.model_flops, closed.model);
    if (family != MLP) {
        assert_int_equal(step.palm_flops, closed.palm);
        assert_int_equal(step.matrix_flops, closed.issued);
    }
    const char *kind = kinds_of(p);
    size_t frozen = 0;
    int word = family == GPT2 && mode.frozen; /* the head alone adds to it */
    for (size_t i = 0; i < p->count; i++) {
        frozen += kind[i] == 1;
        assert_int_equal(times[i], kind[i] != 2);
        if (kind[i] == 1)
            assert_true(p->grad[i] == 0);
        else if (!word || i >= (size_t)(gpt2.vocab * gpt2.channels))
            assert_true(p->grad[i] == whole->parameters.grad[i]);
    }
    assert_true(mode.frozen == 0 ? frozen == 0 : frozen > 200);
    lt_model_destroy(whole);
    lt_model_destroy(model);
    pool_free(NULL);
}

static void steps(void **state)
{
    (void)state;
    for (int family = 0; family < FAMILIES; family++)
        for (int64_t frozen = 0; frozen <= BLOCKS; frozen++)
            for (int recompute = 0; recompute < 2; recompute++)
                check_step((enum family)family,
                           (struct lt_net_mode){.recompute = recompute ? LT_RECOMPUTE_BLOCK
                                                                       : LT_RECOMPUTE_NONE,
                                                .frozen = frozen});
}

/* What is made again several blocks at a time has the bits of the plain run, and the closed form.
 */
static void several_again(void **state)
{
    (void)state;
    static const int64_t every[] = {2, 3, 5, LT_EVERY_ROOT};
    for (int family = LLAMA; family < FAMILIES; family++)
        for (size_t i = 0; i < sizeof every / sizeof *every; i++)
            check_step((enum family)family,
                       (struct lt_net_mode){.recompute = LT_RECOMPUTE_BLOCK, .every = every[i]});
    struct lt_net_mode mode = {.recompute = LT_RECOMPUTE_BLOCK, .every = LT_EVERY_ROOT};
    static const int64_t roots[][2] = {{1, 1}, {2, 1}, {3, 2}, {9, 3}, {12, 3}, {13, 4}, {48, 7}};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        assert_int_equal(lt_net_every(mode, roots[i][0]), roots[i][1]);
    /* many narrow blocks: less is held than with the inputs of all */
    const struct lt_mlp_config deep = {.features = 64, .hidden = 64, .layers = 64, .classes = 5};
    uint64_t held[2];
    for (int root = 0; root < 2; root++) {
        struct lt_memory_plan plan;
        struct lt_parameters parameters;
        struct tacho_error err = {0};
        mode.every = root ? LT_EVERY_ROOT : 1;
        assert_int_equal(lt_mlp_memory(&deep, mode, 32, &plan, &parameters, &err), 0);
        held[root] = plan.tag[LT_MEMORY_ACTIVATIONS];
    }
    assert_true(2 * held[1] < held[0]);
}

/* Updates: with decay, in bf16 too, every flat optimizer leaves what is frozen as it is, and does
 * to the rest what it does without freezing. */
static void updates(void **state)
{
    (void)state;
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++) {
        struct lt_optimizer_config config = lt_optimizer_defaults((enum lt_optimizer_kind)kind);
        if (!lt_optimizer_parts(&config))
            continue;
        config.weight_decay = 0.1;
        struct lt_net_mode mode = {.dtype = LT_DTYPE_BF16};
        struct lt_model *model[2] = {make(LLAMA, mode), make(LLAMA, mode)};
        struct lt_context x = {.backend = LT_BACKEND_CPU};
        int64_t count = (int64_t)model[0]->parameters.count;
        const float *start = copy_of(model[0]->parameters.value, count);
        assert_int_equal(model[1]->ops->freeze(model[1], 2), 0);
        for (int i = 0; i < 2; i++) {
            struct lt_parameters *p = &model[i]->parameters;
            struct lt_optimizer optimizer;
            struct tacho_error err = {0};
            memcpy(p->grad, normals(count, 5, 1), (size_t)count * sizeof *p->grad);
            assert_int_equal(lt_optimizer_create(&optimizer, &config, p, &err), 0);
            for (int made = 0; made < 2; made++)
                lt_optimizer_update(&optimizer, &x, p, made, 0.01, 1);
            lt_optimizer_destroy(&optimizer);
        }
        const struct lt_parameters *p = &model[1]->parameters;
        const char *kinds = kinds_of(p);
        int64_t moved = 0;
        for (int64_t i = 0; i < count; i++)
            if (kinds[i] == 1) {
                assert_true(p->value[i] == start[i]);
            } else if (kinds[i] == 0) {
                assert_true(p->value[i] == model[0]->parameters.value[i]);
                assert_true(p->shadow[i] == lt_bf16_round(p->value[i]));
                moved += p->value[i] != start[i];
            }
        assert_true(moved > 100);
        lt_model_destroy(model[0]);
        lt_model_destroy(model[1]);
        pool_free(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps), cmocka_unit_test(several_again),
                                       cmocka_unit_test(updates)};
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
