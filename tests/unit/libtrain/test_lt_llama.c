/* SPDX-License-Identifier: Apache-2.0
 *
 * The Llama-style model and the lists of operations it is made of: gradients, one backend against
 * the other, micro-batches, recomputation, stages of a pipeline, FLOPs and bytes against closed
 * forms, lifetimes of arrays.
 */
#include "lt_models.h"

#include "libtrain/base/lifetimes.h"
#include "libtrain/models/llama.h"

static const struct lt_llama_config small = LLAMA("small", 2, 24, 4, 2, 20, 40, 9, 2);

static const struct lt_net_mode modes[] = {
    {.dtype = LT_DTYPE_FP32, .recompute = LT_RECOMPUTE_NONE},
    {.dtype = LT_DTYPE_FP32, .recompute = LT_RECOMPUTE_BLOCK},
    {.dtype = LT_DTYPE_BF16, .recompute = LT_RECOMPUTE_NONE},
    {.dtype = LT_DTYPE_BF16, .recompute = LT_RECOMPUTE_BLOCK},
    {.dtype = LT_DTYPE_FP16, .recompute = LT_RECOMPUTE_NONE},
    {.dtype = LT_DTYPE_FP16, .recompute = LT_RECOMPUTE_BLOCK}};
#define MODES (sizeof modes / sizeof *modes)

static struct lt_model *make(const struct lt_llama_config *k, struct lt_net_mode mode, int64_t b,
                             int64_t t)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_llama_create(&m, k, mode, b, t, 7, &err))
        fail_msg("%s", err.what);
    return m;
}

static void model_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < LT_BACKEND_COUNT; i++)
        for (size_t j = 0; j < MODES; j++) {
            struct lt_model *m = make(&small, modes[j], 2, 9),
                            *plain = make(&small, modes[0], 2, 9);
            check_model_gradient(m, plain, (enum lt_backend)i, modes[j].dtype);
            lt_model_destroy(m);
            lt_model_destroy(plain);
        }
}

/* Against the fp32 reference: loss and gradient, on a shape of odd numbers. Recomputation changes
 * no bit. */
static void backends_and_modes_agree(void **state)
{
    (void)state;
    static const struct lt_llama_config odd = LLAMA("odd", 3, 60, 6, 3, 50, 97, 70, 3);
    const int32_t *tokens = words(210, 1, odd.vocab), *targets = words(210, 2, odd.vocab);
    const struct lt_batch batch = {.tokens = tokens, .targets = targets};
    float *want = NULL, *last = NULL;
    for (int i = 0; i < LT_BACKEND_COUNT; i++)
        for (size_t j = 0; j < MODES; j++) {
            struct lt_context x = {.backend = (enum lt_backend)i};
            struct lt_model *m = make(&odd, modes[j], 3, 70);
            int64_t count = (int64_t)m->parameters.count;
            double loss = m->ops->forward(m, &x, &batch, 1);
            m->ops->backward(m, &x, &batch, 1);
            float *grad = copy_of(m->parameters.grad, count);
            assert_true(fabs(loss - log(97)) < 0.2); /* an untrained model knows nothing */
            if (modes[j].recompute == LT_RECOMPUTE_BLOCK)
                assert_memory_equal(grad, last, (size_t)count * sizeof *grad);
            last = copy_of(grad, count);
            want = want ? want : last;
            for (int64_t k = 0; k < count; k++)
                grad[k] -= want[k];
            double apart = sqrt(dot(grad, grad, (size_t)count) / dot(want, want, (size_t)count));
            if (!(apart < (modes[j].dtype == LT_DTYPE_FP32 ? 1e-5 : 2e-2)))
                fail_msg("%s, %s: gradient off by %g of its length", lt_backend_name(x.backend),
                         lt_dtype_name(modes[j].dtype), apart);
            lt_model_destroy(m);
        }
}

/* Four micro-batches of one sequence are one batch of four, whatever the gradients held before;
 * each gradient is announced once and does not change after that. */
static void accumulation(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_model *big = make(&small, modes[0], 4, 9), *one = make(&small, modes[0], 1, 9);
    const int32_t *tokens = words(36, 1, small.vocab), *targets = words(36, 2, small.vocab);
    size_t count = big->parameters.count;
    struct told told = {
        .p = &big->parameters, .times = pool_bytes(count), .value = zeros((int64_t)count)};
    one->ops->forward(one, &x, &(struct lt_batch){.tokens = targets, .targets = tokens}, 1);
    one->ops->backward(one, &x, &(struct lt_batch){.tokens = targets}, 1);
    struct lt_batch whole = {.tokens = tokens, .targets = targets};
    double loss = big->ops->forward(big, &x, &whole, 1), sum = 0;
    x.ready = tell;
    x.ready_arg = &told;
    big->ops->backward(big, &x, &whole, 1);
    x.ready = NULL;
    assert_int_equal(told.elements, big->parameters.trainable);
    for (size_t i = 0; i < count; i++)
        if (told.times[i] > 1 || (told.times[i] && told.value[i] != big->parameters.grad[i]))
            fail_msg("element %zu was announced %d times, or changed afterwards", i, told.times[i]);
    for (int64_t i = 0; i < 4; i++) {
        struct lt_batch part = {.tokens = tokens + 9 * i, .targets = targets + 9 * i};
        sum += one->ops->forward(one, &x, &part, 4);
        one->ops->backward(one, &x, &part, i == 0);
    }
    assert_true(fabs(loss - sum / 4) < 1e-6);
    assert_near("gradient", one->parameters.grad, big->parameters.grad, (int64_t)count, 1e-4);
    lt_model_destroy(big);
    lt_model_destroy(one);
}

/* ---- stages of a pipeline -------------------------------------------------------------------- */

enum { STAGES = 3, MICRO = 2 };

/* An array of the whole model, and the same one of a stage. */
struct pair {
    const float *whole, *part;
    size_t seen;
};

static void same_bits(void *arg, size_t from, size_t to, size_t count)
{
    struct pair *pair = arg;
    assert_memory_equal(pair->part + from, pair->whole + to, count * sizeof(float));
    pair->seen += count;
}

/* All parameters of the stages, or their gradients, are those of the whole model. */
static void compare_stages(const struct lt_model *whole, struct lt_model **stage, int gradients)
{
    size_t seen = 0;
    for (int s = 0; s < STAGES; s++) {
        struct lt_parameters all, *own = &stage[s]->parameters;
        struct lt_slice slice = stage[s]->ops->stage->whole(stage[s], &all);
        struct pair pair = {whole->parameters.value, own->value, 0};
        if (gradients)
            pair = (struct pair){whole->parameters.grad, own->grad, 0};
        assert_int_equal(all.count, whole->parameters.count);
        for (int i = 0; i < own->weights; i++)
            lt_slice_runs(&own->weight[i], &all.weight[i], own->groups[i], &slice, same_bits,
                          &pair);
        assert_int_equal(pair.seen, own->trainable);
        seen += pair.seen;
    }
    assert_int_equal(seen, whole->parameters.trainable);
}

/* What a stage leaves goes to its neighbour. */
static void hand_on(struct lt_model *from, enum lt_boundary left, struct lt_model *to,
                    enum lt_boundary right)
{
    memcpy(to->ops->stage->boundary(to, right), from->ops->stage->boundary(from, left),
           from->ops->stage->boundary_bytes(from));
}

/* All passes of two micro-batches that are in flight together. Returns the sum of the losses. */
static double run_stages(struct lt_model **stage, const struct lt_context *x,
                         const struct lt_batch *batch)
{
    double loss = 0;
    for (int i = 0; i < MICRO; i++)
        for (int s = 0; s < STAGES; s++) {
            stage[s]->ops->stage->select(stage[s], i, 0);
            if (s > 0)
                hand_on(stage[s - 1], LT_BOUNDARY_OUTPUT, stage[s], LT_BOUNDARY_INPUT);
            loss += stage[s]->ops->forward(stage[s], x, &batch[i], MICRO);
        }
    for (int i = 0; i < MICRO; i++)
        for (int s = STAGES - 1; s >= 0; s--) {
            stage[s]->ops->stage->select(stage[s], i, 0);
            if (s < STAGES - 1)
                hand_on(stage[s + 1], LT_BOUNDARY_GRADIENT, stage[s], LT_BOUNDARY_GRADIENT);
            stage[s]->ops->backward(stage[s], x, &batch[i], i == 0);
        }
    return loss;
}

/* Four layers in three stages, dense and of a mixture: initial values, loss and gradients have the
 * bits of the whole model. */
static void stages_are_the_model(void **state)
{
    (void)state;
    struct lt_llama_config shape = LLAMA("stages", 4, 24, 4, 2, 20, 40, 9, 2);
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_batch batch[MICRO];
    for (int i = 0; i < MICRO; i++)
        batch[i] = (struct lt_batch){.tokens = words(18, (uint64_t)i + 1, shape.vocab),
                                     .targets = words(18, (uint64_t)i + 5, shape.vocab)};
    for (size_t j = 0; j < 2 * MODES; j++) {
        if (j >= MODES) {
            shape.experts = 4;
            shape.choices = 2;
            shape.capacity = 1.25;
            shape.balance = 0.01;
        }
        struct lt_model *whole = make(&shape, modes[j % MODES], 2, 9), *stage[STAGES];
        double loss = 0;
        for (int s = 0; s < STAGES; s++) {
            struct lt_llama_config part = shape;
            part.first = shape.layers * s / STAGES;
            part.own = shape.layers * (s + 1) / STAGES - part.first;
            part.in_flight = MICRO;
            stage[s] = make(&part, modes[j % MODES], 2, 9);
        }
        compare_stages(whole, stage, 0);
        for (int i = 0; i < MICRO; i++) {
            loss += whole->ops->forward(whole, &x, &batch[i], MICRO);
            whole->ops->backward(whole, &x, &batch[i], i == 0);
        }
        assert_true(run_stages(stage, &x, batch) == loss);
        compare_stages(whole, stage, 1);
        for (int s = 0; s < STAGES; s++)
            lt_model_destroy(stage[s]);
        lt_model_destroy(whole);
    }
}

/* ---- ranks that divide layers ------------------------------------------------------------------ */

enum { PARTS = 2 };

/* Elements of which this part is the first one that has them; others: also those that are the same
 * whichever experts a part has. */
static size_t first_of(const struct lt_parameters *parameters, int others)
{
    size_t first = 0;
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        if (!parameters->copied[i] && (parameters->expert[i] || others))
            first += (size_t)(weight->repeat * weight->rows * weight->columns);
    }
    return first;
}

/* A part has the values of the whole model. Returns how many of them no part before it has. */
static size_t compare_part(const struct lt_model *whole, const struct lt_llama_config *shape)
{
    struct lt_model *own = make(shape, modes[0], 1, 8);
    const struct lt_parameters *parameters = &own->parameters;
    struct lt_parameters all;
    struct lt_slice slice = own->ops->stage->whole(own, &all);
    struct pair pair = {whole->parameters.value, parameters->value, 0};
    assert_int_equal(all.count, whole->parameters.count);
    for (int i = 0; i < parameters->weights; i++)
        lt_slice_runs(&parameters->weight[i], &all.weight[i], parameters->groups[i], &slice,
                      same_bits, &pair);
    assert_int_equal(pair.seen, parameters->trainable);
    assert_int_equal(own->ops->stage->summed_bytes(own),
                     lt_llama_summed_bytes(shape, LT_DTYPE_FP32, 8));
    size_t first = first_of(parameters, shape->part == 0);
    lt_model_destroy(own);
    return first;
}

/* Divided tensors are there once (an odd hidden width and odd words: in unequal shares), routers
 * and norms on all ranks, of which the first one counts them. */
static void parts_are_the_model(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        int halves = k >= 4 ? 2 : 1;
        struct lt_llama_config shape = LLAMA("parts", 3, 24, 4, 2, 21, 41, 8, 1);
        if (k >= 2) {
            shape.experts = 16;
            shape.choices = 2;
            shape.capacity = 1.25;
        }
        struct lt_model *whole = make(&shape, modes[0], 1, 8);
        size_t seen = 0;
        for (int i = 0; i < PARTS * halves; i++) {
            struct lt_llama_config part = shape;
            part.ranks = (struct lt_net_ranks){i % PARTS, PARTS, k & 1};
            part.part = i / PARTS;
            part.parts = halves > 1 ? halves : 0;
            seen += compare_part(whole, &part);
        }
        assert_int_equal(seen, whole->parameters.trainable);
        lt_model_destroy(whole);
    }
}

/* ---- units of parameters --------------------------------------------------------------------- */

struct turns {
    int last, count[8];
};

static void turn(void *arg, int unit)
{
    struct turns *turns = arg;
    turns->count[unit] += unit != turns->last;
    turns->last = unit;
}

/* A micro-batch turns to each unit once forward and once backward, where the head stays in use in
 * between; a first stage needs no embedding backward. The model says so. */
static void uses_are_counted(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_batch batch = {.tokens = words(18, 1, 40), .targets = words(18, 2, 40)};
    for (int k = 0; k < 12; k++) {
        int again = k & 1, mixed = k & 2, stage = k / 4; /* 0: whole, else the first, the last */
        struct lt_llama_config shape = LLAMA("uses", 4, 24, 4, 2, 20, 40, 9, 2);
        struct lt_net_mode mode = {.recompute = again ? LT_RECOMPUTE_BLOCK : LT_RECOMPUTE_NONE};
        struct turns turns = {.last = -1};
        if (mixed) {
            shape.experts = 4;
            shape.choices = 2;
            shape.capacity = 1.25;
        }
        if (stage) {
            shape.own = 2;
            shape.first = 2 * (stage - 1);
            shape.in_flight = 1;
        }
        struct lt_model *m = make(&shape, mode, 2, 9);
        x.use = turn;
        x.use_arg = &turns;
        m->ops->forward(m, &x, &batch, 1);
        turns.last = stage ? -1 : turns.last;
        m->ops->backward(m, &x, &batch, 1);
        for (int unit = 0; unit <= (stage ? 2 : 4); unit++) {
            assert_int_equal(turns.count[unit], m->ops->uses(m, unit));
            assert_int_equal(turns.count[unit], stage == 1 && unit == 0 ? 1 : 2);
        }
        lt_model_destroy(m);
    }
}

static void impossible_shapes(void **state)
{
    (void)state;
    static const struct lt_llama_config bad[] = {
        LLAMA("heads", 2, 24, 5, 5, 20, 40, 9, 2), LLAMA("odd head", 2, 12, 4, 4, 20, 40, 9, 2),
        LLAMA("groups", 2, 24, 4, 3, 20, 40, 9, 2), LLAMA("layers", 0, 24, 4, 2, 20, 40, 9, 2)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tacho_error err = {0};
        struct lt_model *m = NULL;
        assert_int_equal(lt_llama_create(&m, &bad[i], modes[0], 2, 9, 1, &err), TACHO_EUSAGE);
        assert_null(m);
        assert_true(strlen(err.what) > 0 && strlen(err.hint) > 0);
    }
}

/* ---- closed forms ---------------------------------------------------------------------------- */

/* One shape {layers, channels, heads, groups, hidden, vocab; b, t, micro-steps}. */
static void flops_of(const uint64_t *shape, int backend, struct lt_net_mode mode, const char *text)
{
    uint64_t l = shape[0], c = shape[1], f = shape[4], v = shape[5], b = shape[6], t = shape[7],
             micro = shape[8], n = b * t, kept = shape[3] * (c / shape[2]);
    struct lt_llama_config k =
        LLAMA("shape", (int64_t)l, (int64_t)c, (int64_t)shape[2], (int64_t)shape[3], (int64_t)f,
              (int64_t)v, (int64_t)t, (int64_t)b);
    if (backend == LT_BACKEND_REFERENCE && l * c * c * n * micro > 200000)
        return; /* slow, and its counts are the same functions */
    struct lt_model *m = make(&k, mode, (int64_t)b, (int64_t)t);
    size_t count = m->parameters.count, decayed = m->parameters.decayed;
    assert_int_equal(m->parameters.trainable,
                     2 * v * c + c + l * (c * (2 * c + 2 * kept + 3 * f) + 2 * c));
    struct lt_timers_step s = one_step(m, (enum lt_backend)backend, (int)micro, text);
    lt_model_destroy(m);
    uint64_t pairs = backend == LT_BACKEND_REFERENCE ? t * (t + 1) / 2 : blocked_pairs(t);
    uint64_t again = mode.recompute == LT_RECOMPUTE_BLOCK ? l - 1 : 0;
    uint64_t matrix = 6 * (l * c * (2 * c + 2 * kept + 3 * f) + v * c) * n * micro;
    uint64_t recomputed =
        again * (2 * c * (2 * c + 2 * kept + 2 * f) * n + 4 * c * pairs * b) * micro;
    uint64_t issued = matrix + 14 * l * c * pairs * b * micro + recomputed;
    /* embedding; norms 4 + 9, and 1 where they add; rope; swiglu; residuals; classifier */
    uint64_t turned = 3 * (c + kept);
    uint64_t rest = n * c + 13 * n * c * (2 * l + 1) + 2 * l * n * c +
                    l * n * (2 * turned + 2 * (c - kept)) + 17 * n * f * l + 2 * n * c * l +
                    7 * n * v + 4 * n;
    rest += again * n * (2 * 4 * c + turned + 5 * f + c);
    assert_int_equal(s.model_flops, matrix + 6 * l * c * t * (t + 1) * b * micro);
    assert_int_equal(s.palm_flops, matrix + 12 * l * c * t * t * b * micro);
    assert_int_equal(s.matrix_flops, issued);
    assert_int_equal(s.flops, issued + micro * rest + 17 * count + decayed);
    struct lt_flops closed =
        lt_llama_flops(&k, (enum lt_backend)backend, mode, (int64_t)b, (int64_t)t, (int64_t)micro);
    assert_int_equal(closed.model, s.model_flops);
    assert_int_equal(closed.palm, s.palm_flops);
    assert_int_equal(closed.issued, s.matrix_flops);
    assert_int_equal(closed.recomputed, recomputed);
}

static void flops_are_closed_forms(void **state)
{
    (void)state;
    static const uint64_t shapes[][9] = {
        {1, 8, 1, 1, 3, 256, 1, 1, 1},       {2, 24, 3, 1, 50, 300, 3, 65, 1},
        {1, 24, 4, 2, 64, 257, 2, 64, 3},    {3, 36, 3, 3, 96, 256, 1, 129, 2},
        {4, 128, 4, 2, 352, 256, 8, 128, 1}, {2, 20, 5, 5, 7, 999, 5, 7, 4},
    };
    char path[300];
    const char *folder = scratch_folder();
    snprintf(path, sizeof path, "%s/text", folder);
    write_text(path, 5000, 3);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backend = 0; backend < LT_BACKEND_COUNT; backend++)
            for (size_t j = 0; j < MODES; j++)
                flops_of(shapes[i], backend, modes[j], path);
    unlink(path);
    rmdir(folder);
}

/* What is needed at one time at its most, in bytes: at the LM head, and in the last block's SwiGLU,
 * which needs less where the vocabulary is large (docs/engine.md). */
static double bytes_needed(const struct lt_llama_config *k, struct lt_net_mode mode, int64_t b,
                           int64_t t)
{
    double e = (double)lt_dtype_bytes(mode.dtype), n = (double)(b * t), l = (double)k->layers,
           c = (double)k->channels, f = (double)k->hidden, v = (double)k->vocab,
           h = (double)k->heads, d = c / h;
    double kept = mode.recompute == LT_RECOMPUTE_BLOCK ? 1 : l;
    double all =
        e * n * (c * l + kept * (7 * c + 3 * f)) + 4 * n * kept * (2 + h) + 4 * (double)t * d;
    double head = all + e * n * (3 * c + v) + 4 * n, gate = all + e * n * (c + 2 * f);
    return head > gate ? head : gate;
}

static void memory_is_a_closed_form(void **state)
{
    (void)state;
    static const struct lt_llama_config shapes[] = {LLAMA("tiny", 4, 128, 4, 2, 352, 256, 128, 8),
                                                    LLAMA("words", 3, 64, 4, 1, 176, 5000, 64, 4),
                                                    LLAMA("wide", 2, 64, 2, 2, 1024, 256, 64, 4)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < MODES; j++) {
            const struct lt_llama_config *k = &shapes[i];
            struct lt_memory_plan plan;
            struct lt_parameters parameters;
            struct lt_memory before, after;
            struct tacho_error err = {0};
            assert_int_equal(
                lt_llama_memory(k, modes[j], k->batch, k->seq, &plan, &parameters, &err), 0);
            lt_memory_read(&before);
            struct lt_model *m = make(k, modes[j], k->batch, k->seq);
            lt_memory_read(&after);
            assert_int_equal(parameters.count, m->parameters.count);
            for (int tag = 0; tag < LT_MEMORY_COUNT; tag++) {
                double held = (double)(after.tag[tag] - before.tag[tag]);
                if (held < (double)plan.tag[tag] || held > (double)plan.tag[tag] + 2 * 4096)
                    fail_msg("%s: %s holds %g bytes, not %g", k->name,
                             lt_memory_name((enum lt_memory_tag)tag), held, (double)plan.tag[tag]);
            }
            double needed = bytes_needed(k, modes[j], k->batch, k->seq),
                   placed = (double)plan.tag[LT_MEMORY_ACTIVATIONS];
            if (!(placed >= needed && placed <= 1.02 * needed))
                fail_msg("%s, mode %zu: %g bytes of activations are placed in %g", k->name, j,
                         needed, placed);
            lt_model_destroy(m);
        }
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

/* Arrays that are drawn at random: none overlaps another one that is needed at the same time, and
 * the whole is not much larger than what is needed at one time. */
static void lifetimes_do_not_overlap(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < 50; draw++) {
        struct lt_lifetime a[60] = {0};
        int count = (int)(sizeof a / sizeof *a), order[60];
        for (int i = 0; i < count; i++) {
            a[i].floats = 16 * (1 + lt_random_bits(draw, 4 * (uint64_t)i) % 50);
            a[i].spans = 1 + (int)(lt_random_bits(draw, 4 * (uint64_t)i + 1) % 2);
            for (int j = 0; j < a[i].spans; j++) {
                a[i].span[j].from = 60 * j + (int)(lt_random_bits(draw, 4 * (uint64_t)i + 2) % 50);
                a[i].span[j].to =
                    a[i].span[j].from + (int)(lt_random_bits(draw, 4 * (uint64_t)i + 3) % 9);
            }
        }
        size_t live, whole = lt_lifetimes_place(a, count, order, &live);
        assert_true(live > 0 && whole >= live && (double)whole <= 1.5 * (double)live);
        for (int time = 0; time < 130; time++)
            for (int i = 0; i < count; i++)
                for (int j = 0; j < i; j++) {
                    int both = 0;
                    for (int p = 0; p < a[i].spans; p++)
                        for (int q = 0; q < a[j].spans; q++)
                            both |= a[i].span[p].from <= time && time <= a[i].span[p].to &&
                                    a[j].span[q].from <= time && time <= a[j].span[q].to;
                    assert_false(both && a[i].at < a[j].at + a[j].floats &&
                                 a[j].at < a[i].at + a[i].floats);
                }
    }
}

static void no_arrays(void **state)
{
    size_t live = 1;
    (void)state;
    assert_int_equal(lt_lifetimes_place(NULL, 0, NULL, &live), 0);
    assert_int_equal(live, 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(model_gradient),
        TEST(backends_and_modes_agree),
        TEST(accumulation),
        TEST(stages_are_the_model),
        TEST(parts_are_the_model),
        TEST(uses_are_counted),
        TEST(impossible_shapes),
        TEST(flops_are_closed_forms),
        TEST(memory_is_a_closed_form),
        TEST(lifetimes_do_not_overlap),
        TEST(no_arrays),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
