/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual networks and mixtures of experts: gradients of whole models against differences of their
 * loss, one backend against the other, recomputation and budgets, FLOPs, parameters and bytes
 * against closed forms, running statistics in checkpoints.
 */
#include "lt_models.h"

#include "libtrain/models/llama.h"
#include "libtrain/models/net_private.h"
#include "libtrain/models/resnet.h"
#include "libtrain/train/checkpoint.h"

#define SHAPE(b0, b1, b2, b3, c, wide, side, d, k) \
    { \
        .name = "shape", .help = "", .blocks = {b0, b1, b2, b3}, .channels = (c), \
        .bottleneck = (wide), .batch = 3, .height = (side), .width = (side) + 1, .depth = (d), \
        .classes = (k) \
    }
static const struct lt_resnet_config shapes[] = {
    SHAPE(1, 2, 0, 0, 4, 0, 9, 1, 5),   /* basic blocks, with and without a shortcut of their own */
    SHAPE(2, 1, 1, 0, 3, 1, 8, 2, 7),   /* bottlenecks */
    SHAPE(1, 1, 1, 1, 2, 0, 64, 3, 10), /* the large stem */
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static struct lt_model *make(const struct lt_resnet_config *k, struct lt_net_mode mode, int64_t b)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_resnet_create(&m, k, mode, b, 7, &err))
        fail_msg("%s", err.what);
    return m;
}

static struct lt_batch batch_of(const struct lt_resnet_config *k, int64_t b)
{
    return (struct lt_batch){.features = normals(b * k->height * k->width * k->depth, 1, 1),
                             .targets = words(b, 2, k->classes)};
}

/* Along the gradient, and along random directions, in fp32; one micro-batch of five images. */
static void model_gradient(void **state)
{
    (void)state;
    for (int backend = 0; backend < LT_BACKEND_COUNT; backend++)
        for (size_t i = 0; i < 2; i++) {
            struct lt_context x = {.backend = (enum lt_backend)backend};
            struct lt_model *m = make(&shapes[i], (struct lt_net_mode){0}, 5);
            struct lt_parameters *p = &m->parameters;
            struct lt_batch batch = batch_of(&shapes[i], 5);
            m->ops->forward(m, &x, &batch, 1);
            m->ops->backward(m, &x, &batch, 1);
            const float *grad = copy_of(p->grad, (int64_t)p->count),
                        *start = copy_of(p->value, (int64_t)p->count);
            double norm = sqrt(dot(grad, grad, p->count));
            for (uint64_t k = 0; k < 6; k++) {
                float *direction =
                    k ? normals((int64_t)p->count, 100 + k, 1) : copy_of(grad, (int64_t)p->count);
                double length = sqrt(dot(direction, direction, p->count)), side[2];
                for (int end = 0; end < 2; end++) {
                    for (size_t j = 0; j < p->count; j++)
                        p->value[j] =
                            start[j] + (float)((end ? -1e-3 : 1e-3) / length) * direction[j];
                    side[end] = m->ops->forward(m, &x, &batch, 1);
                }
                double want = dot(grad, direction, p->count) / length,
                       got = (side[0] - side[1]) / 2e-3;
                if (!(fabs(got - want) <= 1e-2 * fabs(want) + 2e-3 * norm))
                    fail_msg("shape %zu, direction %d: gradient says %.6g, differences %.6g", i,
                             (int)k, want, got);
            }
            lt_model_destroy(m);
        }
}

/* The reference in fp32 is the truth, in the other types a rough one: normalising over few pixels
 * makes roundings large. Recomputation changes no bit, of gradients and of running statistics. */
static void backends_and_modes_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct lt_batch batch = batch_of(&shapes[i], 3);
        float *want = NULL, *last = NULL, *statistics = NULL;
        for (int backend = 0; backend < LT_BACKEND_COUNT; backend++)
            for (int mode = 0; mode < 2 * LT_DTYPE_COUNT; mode++) {
                struct lt_net_mode k = {.dtype = (enum lt_dtype)(mode / 2),
                                        .recompute =
                                            mode % 2 ? LT_RECOMPUTE_BLOCK : LT_RECOMPUTE_NONE};
                struct lt_context x = {.backend = (enum lt_backend)backend};
                struct lt_model *m = make(&shapes[i], k, 3);
                int64_t count = (int64_t)m->parameters.count, states = (int64_t)m->states;
                m->ops->forward(m, &x, &batch, 1);
                m->ops->backward(m, &x, &batch, 1);
                float *grad = copy_of(m->parameters.grad, count);
                if (mode % 2) {
                    assert_memory_equal(grad, last, (size_t)count * sizeof *grad);
                    assert_memory_equal(m->state, statistics, (size_t)states * sizeof *grad);
                }
                last = copy_of(grad, count);
                statistics = copy_of(m->state, states);
                want = want ? want : last;
                for (int64_t j = 0; j < count; j++)
                    grad[j] -= want[j];
                double off = sqrt(dot(grad, grad, (size_t)count) / dot(want, want, (size_t)count));
                if (!(off < (k.dtype == LT_DTYPE_FP32 ? 1e-4 : 0.4)))
                    fail_msg("shape %zu, %s, %s: gradient off by %g of its length", i,
                             lt_backend_name(x.backend), lt_dtype_name(k.dtype), off);
                lt_model_destroy(m);
            }
    }
}

/* ---- closed forms ------------------------------------------------------------------------------ */

/* The parameters that everybody counts for images of 3 x 224 x 224 and 1000 classes, and the
 * multiply-adds of forward. */
static void known_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters, macs;
    } known[] = {{"resnet18", 11689512, 1814073344}, {"resnet50", 25557032, 4089184256}};
    for (size_t i = 0; i < 2; i++) {
        const struct lt_resnet_config *row = lt_resnet_configs;
        struct lt_memory_plan plan;
        struct lt_parameters parameters;
        struct tacho_error err = {0};
        while (strcmp(row->name, known[i].name) != 0)
            row++;
        struct lt_resnet_config k = *row;
        k.height = k.width = 224;
        k.depth = 3;
        k.classes = 1000;
        if (lt_resnet_memory(&k, (struct lt_net_mode){0}, 1, &plan, &parameters, &err))
            fail_msg("%s", err.what);
        assert_int_equal(parameters.trainable, known[i].parameters);
        uint64_t stem = (uint64_t)112 * 112 * 64 * 3 * 49;
        assert_int_equal(lt_resnet_flops(&k, (struct lt_net_mode){0}, 1, 1).model,
                         6 * known[i].macs - 2 * stem);
    }
}

/* What the work records of a forward and a backward add up to. */
static struct lt_timers_step records(struct lt_model *m, const struct lt_batch *batch)
{
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    size_t steps;
    assert_int_equal(lt_trace_create(&x.trace, lt_op_names(), LT_OP_COUNT, 1), 0);
    lt_trace_step_begin(x.trace, &(struct tacho_step){0});
    m->ops->forward(m, &x, batch, 1);
    m->ops->backward(m, &x, batch, 1);
    lt_trace_step_end(x.trace);
    struct lt_timers_step step = *lt_trace_steps(x.trace, &steps);
    lt_trace_destroy(x.trace);
    return step;
}

static void flops_and_memory_are_closed_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (int again = 0; again < 2; again++) {
            struct lt_net_mode mode = {.recompute = again ? LT_RECOMPUTE_BLOCK : LT_RECOMPUTE_NONE};
            struct lt_memory_plan plan;
            struct lt_parameters parameters;
            struct lt_memory before, after;
            struct tacho_error err = {0};
            struct lt_flops closed = lt_resnet_flops(&shapes[i], mode, 3, 1);
            assert_int_equal(lt_resnet_memory(&shapes[i], mode, 3, &plan, &parameters, &err), 0);
            lt_memory_read(&before);
            struct lt_model *m = make(&shapes[i], mode, 3);
            lt_memory_read(&after);
            for (int tag = 0; tag < LT_MEMORY_COUNT; tag++) {
                double held = (double)(after.tag[tag] - before.tag[tag]);
                if (held < (double)plan.tag[tag] || held > (double)plan.tag[tag] + 3 * 4096)
                    fail_msg("shape %zu: %s holds %g bytes, not %g", i,
                             lt_memory_name((enum lt_memory_tag)tag), held, (double)plan.tag[tag]);
            }
            struct lt_batch batch = batch_of(&shapes[i], 3);
            struct lt_timers_step step = records(m, &batch);
            assert_int_equal(step.model_flops, closed.model);
            assert_int_equal(step.palm_flops, closed.palm);
            assert_int_equal(step.matrix_flops, closed.issued);
            lt_model_destroy(m);
        }
}

/* ---- a mixture of experts ---------------------------------------------------------------------- */

static struct lt_llama_config mixture(double capacity, double balance)
{
    struct lt_llama_config k = LLAMA("mixture", 3, 24, 4, 2, 20, 40, 9, 2);
    k.experts = 4;
    k.choices = 2;
    k.capacity = capacity;
    k.balance = balance;
    return k;
}

static struct lt_model *make_mixture(const struct lt_llama_config *k, struct lt_net_mode mode)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_llama_create(&m, k, mode, 2, 9, 7, &err))
        fail_msg("%s", err.what);
    return m;
}

/* The closed forms of FLOPs against the records, with room for all and for few; without rows that
 * are dropped, the two backends have the same gradient, and recomputation changes no bit. */
static void mixture_agrees(void **state)
{
    (void)state;
    const int32_t *tokens = words(18, 1, 40), *targets = words(18, 2, 40);
    const struct lt_batch batch = {.tokens = tokens, .targets = targets};
    for (int few = 0; few < 2; few++) {
        struct lt_llama_config k = mixture(few ? 0.5 : 2, 0.05);
        float *want = NULL, *last = NULL;
        for (int backend = 0; backend < LT_BACKEND_COUNT; backend++)
            for (int again = 0; again < 2; again++) {
                struct lt_net_mode mode = {.recompute =
                                               again ? LT_RECOMPUTE_BLOCK : LT_RECOMPUTE_NONE};
                struct lt_context x = {.backend = (enum lt_backend)backend};
                struct lt_model *m = make_mixture(&k, mode);
                struct lt_routing routing;
                int64_t count = (int64_t)m->parameters.count;
                m->ops->forward(m, &x, &batch, 1);
                m->ops->backward(m, &x, &batch, 1);
                m->ops->routing(m, &routing);
                assert_true(routing.imbalance >= 1 && routing.imbalance <= 2);
                assert_true(few ? routing.dropped >= 0.44 : routing.dropped == 0);
                float *grad = copy_of(m->parameters.grad, count);
                if (again)
                    assert_memory_equal(grad, last, (size_t)count * sizeof *grad);
                last = copy_of(grad, count);
                want = want ? want : last;
                assert_near("mixture", grad, want, count, 2e-4);
                if (backend == LT_BACKEND_CPU) {
                    struct lt_timers_step step = records(m, &batch);
                    struct lt_flops closed = lt_llama_flops(&k, LT_BACKEND_CPU, mode, 2, 9, 1);
                    assert_int_equal(step.model_flops, closed.model);
                    assert_int_equal(step.palm_flops, closed.palm);
                    assert_int_equal(step.matrix_flops, closed.issued);
                }
                lt_model_destroy(m);
            }
    }
}

/* ---- budgets ----------------------------------------------------------------------------------- */

/* FLOPs that the list makes again, as it is placed now. */
static uint64_t remade_flops(struct lt_net *net)
{
    struct lt_context context = {.backend = LT_BACKEND_CPU};
    struct tacho_work work;
    uint64_t flops = 0;
    for (int i = 0; i < net->nodes; i++)
        if (net->node[i].again) {
            lt_op_work((enum lt_op_id)net->node[i].forward, &context, &net->node[i].args, &work);
            flops += work.flops;
        }
    return flops;
}

/* The fewest FLOPs of all choices of blocks whose places fit into the budget: each is placed. */
static uint64_t best_of_all(struct lt_net *net, uint64_t budget)
{
    uint64_t best = UINT64_MAX;
    for (int choice = 0; choice < 1 << (net->blocks - 1); choice++) {
        for (int i = 0; i < net->blocks - 1; i++)
            net->remade[i] = (char)(choice >> i & 1);
        assert_int_equal(lt_net_place(net), 0);
        uint64_t flops = remade_flops(net);
        if (lt_arena_bytes(net->floats) <= budget && flops < best)
            best = flops;
    }
    return best;
}

/* Chains of at most six unlike blocks, each with ten budgets between the least and the most that it
 * takes: the choice never takes more than its budget, and at most 3 % more FLOPs than the best of
 * all, counted with what a step has anyway. */
static void budgets_are_kept(void **state)
{
    (void)state;
    static const struct lt_resnet_config chains[] = {SHAPE(1, 2, 2, 1, 4, 0, 16, 3, 10),
                                                     SHAPE(2, 1, 2, 0, 4, 1, 20, 1, 10),
                                                     SHAPE(3, 2, 0, 0, 8, 0, 12, 2, 10)};
    struct tacho_error err = {0};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct lt_memory_plan all, least;
        struct lt_parameters parameters;
        struct lt_net_mode mode = {0}, again = {.recompute = LT_RECOMPUTE_BLOCK};
        assert_int_equal(lt_resnet_memory(&chains[i], mode, 3, &all, &parameters, &err), 0);
        assert_int_equal(lt_resnet_memory(&chains[i], again, 3, &least, &parameters, &err), 0);
        double low = (double)lt_arena_bytes(least.tag[LT_MEMORY_ACTIVATIONS] / 4),
               high = (double)lt_arena_bytes(all.tag[LT_MEMORY_ACTIVATIONS] / 4);
        assert_true(high > 1.2 * low);
        for (int part = 0; part <= 10; part++) {
            mode.budget = (uint64_t)(low + (high - low) * part / 10);
            struct lt_model *m = make(&chains[i], mode, 3);
            struct lt_net *net = (struct lt_net *)m;
            assert_true(net->activation_arena.bytes <= mode.budget);
            uint64_t flops = remade_flops(net),
                     step = lt_resnet_flops(&chains[i], again, 3, 1).model,
                     best = best_of_all(net, mode.budget);
            if ((double)(step + flops) > 1.03 * (double)(step + best))
                fail_msg("chain %zu, budget %d: %g FLOPs are made again, %g would do", i, part,
                         (double)flops, (double)best);
            if (part == 10)
                assert_int_equal(flops, 0);
            lt_model_destroy(m);
        }
        struct lt_model *m = NULL;
        mode.budget = (uint64_t)(0.9 * low);
        assert_int_equal(lt_resnet_create(&m, &chains[i], mode, 3, 7, &err), TACHO_EUSAGE);
        assert_non_null(strstr(err.what, "at least"));
    }
}

/* ---- running statistics ------------------------------------------------------------------------ */

/* They are part of a checkpoint. */
static void checkpoint_has_statistics(void **state)
{
    (void)state;
    char path[300];
    const char *folder = scratch_folder();
    struct tacho_error err = {0};
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_optimizer none = {.config = lt_optimizer_defaults(LT_OPTIMIZER_SGD)};
    struct lt_model *m = make(&shapes[0], (struct lt_net_mode){0}, 3),
                    *other = make(&shapes[0], (struct lt_net_mode){0}, 3);
    struct lt_batch batch = batch_of(&shapes[0], 3);
    size_t bytes = m->states * sizeof *m->state;
    assert_true(bytes > 0);
    m->ops->forward(m, &x, &batch, 1);
    assert_memory_not_equal(m->state, other->state, bytes);
    snprintf(path, sizeof path, "%s/c", folder);
    struct lt_checkpoint kept = {.step = 3};
    assert_int_equal(lt_checkpoint_write(path, m, &none, &kept, &err), 0);
    assert_int_equal(lt_checkpoint_read(path, other, &none, &kept, &err), 0);
    assert_memory_equal(m->state, other->state, bytes);
    unlink(path);
    rmdir(folder);
    lt_model_destroy(m);
    lt_model_destroy(other);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(model_gradient),
        TEST(backends_and_modes_agree),
        TEST(known_sizes),
        TEST(flops_and_memory_are_closed_forms),
        TEST(mixture_agrees),
        TEST(budgets_are_kept),
        TEST(checkpoint_has_statistics),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
