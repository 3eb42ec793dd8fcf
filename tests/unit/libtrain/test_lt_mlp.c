/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptron: its gradient against differences of its loss, backends against each other,
 * micro-batches against one batch, FLOPs and memory against closed forms, resuming bit by bit, and
 * what it learns from generated digits; the digits themselves.
 */
#include "lt_support.h"

#include <sys/stat.h>

#include "libtrain/base/arena.h"
#include "libtrain/data/digits.h"
#include "libtrain/models/mlp.h"
#include "libtrain/train/train.h"

static const struct lt_mlp_config small = {.features = 13, .hidden = 10, .layers = 3, .classes = 5};

static struct lt_model *make(const struct lt_mlp_config *k, int64_t b, uint64_t seed)
{
    struct tacho_error err = {0};
    struct lt_model *m = NULL;
    if (lt_mlp_create(&m, k, (struct lt_net_mode){0}, b, seed, &err))
        fail_msg("%s", err.what);
    return m;
}

static struct lt_batch random_batch(const struct lt_mlp_config *k, int64_t b, uint64_t key)
{
    return (struct lt_batch){.features = normals(b * k->features, key, 1),
                             .targets = words(b, key + 1, k->classes)};
}

/* ---- gradients ---------------------------------------------------------------------------------------------------------------- */

/* Each of 200 parameters, drawn at random, by central differences. */
static void gradient(void **state)
{
    (void)state;
    for (int backend = 0; backend < LT_BACKEND_COUNT; backend++) {
        struct lt_model *m = make(&small, 7, 3);
        struct lt_context x = {.backend = (enum lt_backend)backend};
        struct lt_parameters *p = &m->parameters;
        struct lt_batch batch = random_batch(&small, 7, 1);
        const double h = 1e-2;
        m->ops->forward(m, &x, &batch, 1);
        m->ops->backward(m, &x, &batch, 1);
        float *grad = copy_of(p->grad, (int64_t)p->count);
        double largest = 0;
        for (size_t i = 0; i < p->count; i++)
            largest = fmax(largest, fabs((double)grad[i]));
        for (uint64_t k = 0; k < 200; k++) {
            size_t i = lt_random_bits(9, k) % p->count;
            float kept = p->value[i];
            p->value[i] = kept + (float)h;
            double up = m->ops->forward(m, &x, &batch, 1);
            p->value[i] = kept - (float)h;
            double slope = (up - m->ops->forward(m, &x, &batch, 1)) / (2 * h);
            p->value[i] = kept;
            if (grad[i] == 0 && slope == 0) /* padding between tensors */
                continue;
            if (!(fabs(slope - (double)grad[i]) <= 2e-3 * (largest + fabs(slope))))
                fail_msg("%s: gradient %zu is %.6g, differences say %.6g",
                         lt_backend_name(x.backend), i, (double)grad[i], slope);
        }
        lt_model_destroy(m);
    }
}

/* In every type, against the reference in fp32. */
static void backends_agree(void **state)
{
    (void)state;
    static const struct lt_mlp_config odd = {
        .features = 785, .hidden = 67, .layers = 2, .classes = 11};
    struct lt_batch batch = random_batch(&odd, 33, 5);
    float *want = NULL;
    double loss = 0;
    for (int i = 0; i < LT_BACKEND_COUNT * LT_DTYPE_COUNT; i++) {
        struct lt_net_mode mode = {.dtype = (enum lt_dtype)(i / LT_BACKEND_COUNT)};
        struct lt_context x = {.backend = (enum lt_backend)(i % LT_BACKEND_COUNT)};
        struct tacho_error err = {0};
        struct lt_model *m = NULL;
        assert_int_equal(lt_mlp_create(&m, &odd, mode, 33, 2, &err), 0);
        int64_t count = (int64_t)m->parameters.count;
        double got = m->ops->forward(m, &x, &batch, 1), near = mode.dtype ? 3e-2 : 1e-4;
        m->ops->backward(m, &x, &batch, 1);
        want = want ? want : copy_of(m->parameters.grad, count);
        loss = i ? loss : got;
        assert_true(fabs(got - loss) < (mode.dtype ? 2e-2 : 1e-5));
        assert_near("gradient", m->parameters.grad, want, count, near);
        lt_model_destroy(m);
    }
}

/* Four micro-batches of three are one batch of twelve, whatever gradient lay there before. */
static void accumulation(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU};
    struct lt_model *big = make(&small, 12, 1), *part = make(&small, 3, 1);
    struct lt_batch batch = random_batch(&small, 12, 1);
    double loss = big->ops->forward(big, &x, &batch, 1), sum = 0;
    big->ops->backward(big, &x, &batch, 1);
    memset(part->parameters.grad, 0x40, part->parameters.count * sizeof(float));
    for (int64_t i = 0; i < 4; i++) {
        struct lt_batch piece = {.features = batch.features + 3 * i * small.features,
                                 .targets = batch.targets + 3 * i};
        sum += part->ops->forward(part, &x, &piece, 4);
        part->ops->backward(part, &x, &piece, i == 0);
    }
    assert_true(fabs(loss - sum / 4) < 1e-6);
    struct lt_model *layout =
        make(&small, 1, 1); /* its gradients are untouched: padding is where values stay 0 */
    for (size_t i = 0; i < big->parameters.count; i++)
        if (big->parameters.grad[i] == 0)
            part->parameters.grad[i] = 0;
    assert_near("gradient", part->parameters.grad, big->parameters.grad,
                (int64_t)big->parameters.count, 1e-4);
    lt_model_destroy(layout);
    lt_model_destroy(big);
    lt_model_destroy(part);
}

/* Ranks reduce what backward has told: each element once, when it is final. */
static void told_once_and_final(void **state)
{
    (void)state;
    struct lt_model *m = make(&small, 4, 1);
    struct told t = {.p = &m->parameters, .times = pool_bytes(m->parameters.count)};
    struct lt_context x = {.backend = LT_BACKEND_CPU, .ready = tell, .ready_arg = &t};
    struct lt_batch batch = random_batch(&small, 4, 1);
    t.value = zeros((int64_t)m->parameters.count);
    m->ops->forward(m, &x, &batch, 1);
    m->ops->backward(m, &x, &batch, 1);
    assert_int_equal(t.elements, m->parameters.trainable);
    for (size_t i = 0; i < m->parameters.count; i++) {
        assert_true(t.times[i] <= 1);
        assert_true(t.times[i] ? t.value[i] == m->parameters.grad[i] : m->parameters.grad[i] == 0);
    }
    lt_model_destroy(m);
}

/* With no weights and one bias above the others, every image is of that class; evaluation leaves
 * the logits to be looked at. */
static void right_answers_are_counted(void **state)
{
    (void)state;
    struct lt_context x = {.backend = LT_BACKEND_CPU, .evaluation = 1};
    struct lt_model *m = make(&small, 50, 1);
    struct lt_batch batch = random_batch(&small, 50, 1);
    int64_t threes = 0;
    memset(m->parameters.value, 0, m->parameters.count * sizeof(float));
    m->parameters.value[lt_arena_padded(130) + lt_arena_padded(200) + lt_arena_padded(50) +
                        lt_arena_padded(30) + 3] = 1;
    for (int i = 0; i < 50; i++)
        threes += batch.targets[i] == 3;
    double loss = m->ops->forward(m, &x, &batch, 1);
    assert_true(threes > 0 && threes < 50);
    assert_int_equal(m->ops->correct(m, &batch), threes);
    assert_true(fabs(loss - (log(4 + exp(1)) - (double)threes / 50)) < 1e-5);
    lt_model_destroy(m);
}

/* ---- digits as a source ---------------------------------------------------------------------------------------------------- */

#define DIGITS 4000

/* Drawn once for all tests: drawing takes as long as learning. */
static uint8_t drawn[DIGITS][LT_DIGITS_PIXELS];

static void draw_digits(void)
{
    for (uint64_t i = 0; i < DIGITS; i++)
        lt_digits_draw(77, i, drawn[i]);
}

static int digit_read(const struct lt_source *source, uint64_t sample, void *raw,
                      struct tacho_error *err)
{
    (void)source;
    (void)err;
    memcpy(raw, drawn[sample], LT_DIGITS_PIXELS);
    return 0;
}

static size_t digit_bytes(const struct lt_source *source, uint64_t sample)
{
    (void)source;
    (void)sample;
    return LT_DIGITS_PIXELS;
}

static int digit_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                        void *item, struct tacho_error *err)
{
    const uint8_t *pixels = raw;
    float *features = item;
    int32_t label = lt_digits_label(77, sample);
    (void)source;
    (void)err;
    for (int i = 0; i < LT_DIGITS_PIXELS; i++)
        features[i] = (float)pixels[i] / 255.0f;
    memcpy(features + LT_DIGITS_PIXELS, &label, sizeof label);
    return 0;
}

static const struct lt_source_ops digit_ops = {.name = "digits",
                                               .bytes = digit_bytes,
                                               .read = digit_read,
                                               .decode = digit_decode,
                                               .collate = lt_source_collate_features};
static const struct lt_source digits = {.ops = &digit_ops,
                                        .samples = DIGITS,
                                        .identity = 1,
                                        .raw_bytes = LT_DIGITS_PIXELS,
                                        .item_bytes = (LT_DIGITS_PIXELS + 1) * 4,
                                        .width = LT_DIGITS_PIXELS,
                                        .classes = 10};

struct seen {
    double accuracy, loss, last;
    uint64_t tokens, samples;
    int climbs; /* steps whose loss is above that of the step before */
    int64_t stop_after;
    sig_atomic_t stop;
};

static void note(void *arg, const struct lt_progress *p)
{
    struct seen *s = arg;
    if (p->event == LT_EVENT_EVALUATION) {
        s->accuracy = p->accuracy;
        s->loss = p->loss;
    } else if (p->event == LT_EVENT_STEP) {
        s->climbs += s->tokens + s->samples > 0 && p->loss > s->last + 1e-4;
        s->last = p->loss;
        s->tokens = p->tokens;
        s->samples = p->samples;
        s->stop = s->stop_after && p->step + 1 == s->stop_after;
    }
}

static struct lt_train_config plan(int64_t steps, int kind)
{
    static const double rates[LT_OPTIMIZER_COUNT] = {
        [LT_OPTIMIZER_SGD] = 0.3,        [LT_OPTIMIZER_MOMENTUM] = 0.05,
        [LT_OPTIMIZER_NESTEROV] = 0.05,  [LT_OPTIMIZER_ADAGRAD] = 0.02,
        [LT_OPTIMIZER_LION] = 5e-4,      [LT_OPTIMIZER_LAMB] = 0.01,
        [LT_OPTIMIZER_LARS] = 20,        [LT_OPTIMIZER_MUON] = 0.01,
        [LT_OPTIMIZER_ADAFACTOR] = 0.05, [LT_OPTIMIZER_RADAM] = 6e-3,
        [LT_OPTIMIZER_LBFGS] = 0.5,      [LT_OPTIMIZER_KFAC] = 0.05,
    };
    double rate = rates[kind] > 0 ? rates[kind] : 2e-3;
    return (struct lt_train_config){
        .schedule = {.peak = rate, .floor = 0.1 * rate, .warmup = 5, .steps = steps},
        .micro_steps = 1,
        .clip = 5,
        .optimizer = lt_optimizer_defaults((enum lt_optimizer_kind)kind),
        .loader = {.workers = 2, .prefetch = 2},
        .log_every = 1,
        .seed = 5};
}

static struct seen train(struct lt_model *m, const struct lt_train_config *k,
                         struct lt_trace *trace, int64_t stop_after)
{
    struct tacho_error err = {0};
    struct lt_part learn = {.source = &digits, .samples = DIGITS - 500},
                   look = {.source = &digits, .first = DIGITS - 500, .samples = 500};
    struct lt_context x = {.backend = LT_BACKEND_CPU, .trace = trace};
    struct seen seen = {.accuracy = -1, .stop_after = stop_after};
    struct lt_train_hooks hooks = {.progress = note, .arg = &seen, .stop = &seen.stop};
    if (lt_train(m, &learn, k->eval_every ? &look : NULL, &x, k, &hooks, &err))
        fail_msg("%s", err.what);
    return seen;
}

/* Nine of ten digits that it has not seen, with each optimizer; an untrained one guesses. */
static void learns_digits(void **state)
{
    (void)state;
    static const struct lt_mlp_config k = {
        .features = LT_DIGITS_PIXELS, .hidden = 48, .layers = 2, .classes = 10};
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++) {
        struct lt_model *m = make(&k, 50, 1);
        struct lt_train_config config = plan(kind == LT_OPTIMIZER_LBFGS ? 30 : 250, kind);
        if (kind == LT_OPTIMIZER_LBFGS) { /* all images in each update */
            config.micro_steps = (DIGITS - 500) / 50;
            config.clip = 0;
        }
        config.eval_every = config.schedule.steps;
        config.eval_batches = 10;
        struct seen s = train(m, &config, NULL, 0);
        print_message("# %s: %.1f %% of the held-out digits, loss %.3f\n",
                      lt_optimizer_name(config.optimizer.kind), 100 * s.accuracy, s.loss);
        assert_true(s.accuracy > 0.9 && s.accuracy <= 1);
        assert_int_equal(s.tokens, 0);
        assert_int_equal(s.samples, 50 * config.micro_steps);
        lt_model_destroy(m);
    }
    struct lt_model *m = make(&k, 50, 1);
    struct lt_train_config config = plan(1, LT_OPTIMIZER_SGD);
    config.schedule.peak = config.schedule.floor = 0;
    config.eval_every = 1;
    config.eval_batches = 10;
    assert_true(train(m, &config, NULL, 0).accuracy < 0.3);
    lt_model_destroy(m);
}

/* Steps of L-BFGS that are six times too long, over all images in each update: without a line
 * search the loss climbs in many of them (after 22 it is no longer finite), with one in none, and
 * what is left of it is small. */
static void line_search_never_climbs(void **state)
{
    (void)state;
    static const struct lt_mlp_config k = {
        .features = LT_DIGITS_PIXELS, .hidden = 16, .layers = 1, .classes = 10};
    for (int halvings = 0; halvings <= 30; halvings += 30) {
        struct lt_model *m = make(&k, DIGITS - 500, 1);
        struct lt_train_config config = plan(15, LT_OPTIMIZER_LBFGS);
        config.schedule = (struct lt_schedule){
            .kind = LT_SCHEDULE_CONSTANT, .peak = 3, .floor = 3, .steps = halvings ? 25 : 15};
        config.clip = 0;
        config.line_search = halvings;
        struct seen s = train(m, &config, NULL, 0);
        print_message("# %d halvings: %d climbs, loss %.3f\n", halvings, s.climbs, s.last);
        if (halvings)
            assert_true(s.climbs == 0 && s.last < 0.5);
        else
            assert_true(s.climbs > 3);
        lt_model_destroy(m);
    }
}

/* 12 steps at a stretch, and 5 + 7 into a model of other weights. */
static void resumes_bit_by_bit(void **state)
{
    (void)state;
    static const struct lt_mlp_config k = {
        .features = LT_DIGITS_PIXELS, .hidden = 20, .layers = 1, .classes = 10};
    char path[300];
    const char *folder = scratch_folder();
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    for (int kind = 0; kind < LT_OPTIMIZER_COUNT; kind++)
        for (int workers = 0; workers <= 2; workers += 2) {
            struct lt_model *whole = make(&k, 16, 1), *first = make(&k, 16, 1),
                            *second = make(&k, 16, 2);
            struct lt_train_config config = plan(12, kind);
            config.loader.workers = workers;
            struct seen straight = train(whole, &config, NULL, 0);
            config.checkpoint = path;
            train(first, &config, NULL, 5);
            assert_true(memcmp(first->parameters.value, whole->parameters.value,
                               4 * whole->parameters.count) != 0);
            config.checkpoint = NULL;
            config.resume = path;
            struct seen resumed = train(second, &config, NULL, 0);
            assert_memory_equal(second->parameters.value, whole->parameters.value,
                                4 * whole->parameters.count);
            assert_int_equal(resumed.samples, straight.samples);
            lt_model_destroy(whole);
            lt_model_destroy(first);
            lt_model_destroy(second);
        }
    unlink(path);
    rmdir(folder);
}

/* ---- closed forms ------------------------------------------------------------------------------------------------------------ */

static void flops_are_closed_forms(void **state)
{
    (void)state;
    /* hidden, layers; b, micro-steps */
    static const uint64_t shapes[][4] = {
        {1, 1, 1, 1}, {17, 1, 3, 2}, {32, 4, 8, 1}, {100, 2, 50, 3}};
#define FLOPS(X, id, function, name, states, element, decay) {(element), (decay)},
    static const uint64_t update[][2] = {LT_UPDATE_MAP(FLOPS, )};
#undef FLOPS
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < (int)(sizeof update / sizeof *update); kind++) {
            uint64_t f = LT_DIGITS_PIXELS, k = 10, w = shapes[i][0], l = shapes[i][1],
                     b = shapes[i][2], micro = shapes[i][3];
            struct lt_mlp_config c = {.features = (int64_t)f,
                                      .hidden = (int64_t)w,
                                      .layers = (int64_t)l,
                                      .classes = (int64_t)k};
            struct lt_model *m = make(&c, (int64_t)b, 1);
            struct lt_train_config config = plan(1, kind);
            struct lt_trace *trace = NULL;
            size_t steps;
            config.micro_steps = (int)micro;
            assert_int_equal(lt_trace_create(&trace, lt_op_names(), LT_OP_COUNT, 1), 0);
            train(m, &config, trace, 0);
            struct lt_timers_step s = *lt_trace_steps(trace, &steps);
            assert_int_equal(steps, 1);
            /* 2 products on the way there, 2 back for weights, 2 back for inputs except the first
             * layer's */
            uint64_t matrix = b * micro * (4 * f * w + 6 * (l - 1) * w * w + 6 * w * k);
            uint64_t rest = b * micro * (l * w * (9 + 19) + 7 * k + 4);
            assert_int_equal(s.model_flops, matrix);
            assert_int_equal(s.palm_flops, matrix);
            assert_int_equal(s.matrix_flops, matrix);
            assert_int_equal(lt_mlp_flops(&c, (struct lt_net_mode){0}, (int64_t)b, (int64_t)micro),
                             matrix);
            assert_int_equal(s.flops, matrix + rest + (2 + update[kind][0]) * m->parameters.count +
                                          update[kind][1] * m->parameters.decayed);
            /* images and losses in each micro-step; gradients of vectors are zeroed once; the norm
             * of the gradient is summed in one operation for each block of it at most */
            uint64_t least = micro * (2 * (2 * l + 1) + 2) + 3;
            assert_in_range(s.ops, least,
                            least + lt_norm_partials((int64_t)m->parameters.count) - 1);
            assert_int_equal(m->parameters.matrix, f * w + (l - 1) * w * w + w * k);
            assert_int_equal(m->parameters.trainable, m->parameters.matrix + l * w + k);
            lt_trace_destroy(trace);
            lt_model_destroy(m);
        }
}

/* The images as elements, linear and active of each layer, and where most is needed: at the last
 * layer's backward the gradient of the logits in their place and that of one layer. The losses,
 * which are read before that, may lie where something else does then. */
static void memory_is_a_closed_form(void **state)
{
    (void)state;
    static const struct lt_mlp_config k = {
        .features = 784, .hidden = 1500, .layers = 3, .classes = 10};
    const uint64_t page = 4096, elements = 600 * (784 + 1500 * (2 * 3 + 1) + 10);
    for (int dtype = 0; dtype < LT_DTYPE_COUNT; dtype++) {
        struct lt_net_mode mode = {.dtype = (enum lt_dtype)dtype};
        struct lt_memory before, held, after;
        struct lt_memory_plan p;
        struct lt_parameters parameters;
        struct lt_model *m = NULL;
        struct tacho_error err = {0};
        uint64_t size = lt_dtype_bytes(mode.dtype);
        lt_memory_read(&before);
        assert_int_equal(lt_mlp_create(&m, &k, mode, 600, 1, &err), 0);
        lt_memory_read(&held);
        assert_int_equal(lt_mlp_memory(&k, mode, 600, &p, &parameters, &err), 0);
        assert_int_equal(p.tag[LT_MEMORY_PARAMETERS],
                         (4 + (size < 4 ? size : 0)) * m->parameters.count);
        double needed = (double)(size * elements), planned = (double)p.tag[LT_MEMORY_ACTIVATIONS];
        if (!(planned >= needed && planned <= 1.02 * needed))
            fail_msg("%s: %g bytes of activations, not %g", lt_dtype_name(mode.dtype), planned,
                     needed);
        for (int t = 0; t < LT_MEMORY_COUNT; t++) {
            uint64_t got = (uint64_t)(held.tag[t] - before.tag[t]);
            assert_true(got >= p.tag[t] && got < p.tag[t] + 2 * page);
        }
        lt_model_destroy(m);
        lt_memory_read(&after);
        assert_int_equal(after.total, before.total);
    }
}

static void impossible_shapes(void **state)
{
    (void)state;
    static const struct lt_mlp_config bad[] = {
        {0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tacho_error err = {0};
        struct lt_model *m = NULL;
        assert_int_equal(lt_mlp_create(&m, &bad[i], (struct lt_net_mode){0}, 2, 1, &err),
                         TACHO_EUSAGE);
        assert_null(m);
        assert_true(strlen(err.hint) > 0);
    }
}

/* ---- the generator -------------------------------------------------------------------------------------------------------------- */

static long size_of(const char *folder, const char *name, unsigned char *head, size_t n)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, n, f), n);
    fseek(f, 0, SEEK_END);
    long bytes = ftell(f);
    fclose(f);
    return bytes;
}

static void remove_digits(const char *folder)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char path[5000];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* MNIST's layout: big-endian magic, counts, sizes, then bytes. */
static void files_are_idx(void **state)
{
    (void)state;
    struct tacho_error err = {0};
    unsigned char images[16 + LT_DIGITS_PIXELS], labels[8 + 3], first[LT_DIGITS_PIXELS];
    const char *folder = scratch_folder();
    assert_int_equal(lt_digits_write(folder, 1003, 3, 9, &err), 0);
    assert_int_equal(size_of(folder, "train-images-idx3-ubyte", images, sizeof images),
                     16 + 1003 * LT_DIGITS_PIXELS);
    assert_memory_equal(
        images, ((unsigned char[]){0, 0, 8, 3, 0, 0, 3, 0xeb, 0, 0, 0, 28, 0, 0, 0, 28}), 16);
    assert_int_equal(size_of(folder, "t10k-labels-idx1-ubyte", labels, sizeof labels), 8 + 3);
    assert_memory_equal(labels, ((unsigned char[]){0, 0, 8, 1, 0, 0, 0, 3}), 8);
    lt_digits_draw(lt_random_bits(9, 0), 0, first);
    assert_memory_equal(images + 16, first, sizeof first);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(labels[8 + i], lt_digits_label(lt_random_bits(9, 1), i));
    assert_int_equal(lt_digits_write(folder, 10, 3, 9, &err),
                     TACHO_EIO); /* nothing of the user's is overwritten */
    assert_non_null(strstr(err.what, "train-images"));
    assert_int_equal(lt_digits_write("/no/such/folder", 10, 3, 9, &err), TACHO_EIO);
    remove_digits(folder);
}

/* Labels are spread evenly, no two images are alike, ink is on the picture and hardly on its rim.
 */
static void digits_differ(void **state)
{
    (void)state;
    int count[10] = {0}, touching = 0;
    static uint8_t image[500][LT_DIGITS_PIXELS];
    for (uint64_t i = 0; i < 5000; i++)
        count[lt_digits_label(3, i)]++;
    for (int i = 0; i < 10; i++)
        assert_true(count[i] > 400 && count[i] < 600);
    for (uint64_t i = 0; i < 500; i++) {
        long ink = 0, rim = 0;
        lt_digits_draw(3, i, image[i]);
        for (int j = 0; j < LT_DIGITS_PIXELS; j++) {
            int x = j % LT_DIGITS_SIDE, y = j / LT_DIGITS_SIDE;
            ink += image[i][j] > 127;
            rim += image[i][j] > 0 &&
                   (x == 0 || y == 0 || x == LT_DIGITS_SIDE - 1 || y == LT_DIGITS_SIDE - 1);
        }
        assert_true(ink > 15 && ink < 300);
        touching += rim > 0;
        for (uint64_t j = 0; j < i; j++)
            assert_true(memcmp(image[i], image[j], LT_DIGITS_PIXELS) != 0);
    }
    assert_true(touching < 25); /* cut off at the rim: one of twenty at most */
    uint8_t again[LT_DIGITS_PIXELS], other[LT_DIGITS_PIXELS];
    lt_digits_draw(3, 499, again);
    lt_digits_draw(4, 499, other);
    assert_memory_equal(again, image[499], sizeof again);
    assert_memory_not_equal(other, image[499], sizeof other);
}

/* Written once, found the second time; a cache that cannot be is said so. */
static void the_cache(void **state)
{
    (void)state;
    char path[4096], again[4096];
    struct stat a, b;
    struct tacho_error err = {0};
    const char *folder = scratch_folder(), *kept = getenv("XDG_CACHE_HOME");
    char *old = kept ? strdup(kept) : NULL;
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(lt_digits_cached(path, sizeof path, 4, &err), 0);
    assert_int_equal(stat(path, &a), 0);
    assert_int_equal(lt_digits_cached(again, sizeof again, 4, &err), 0);
    assert_string_equal(path, again);
    assert_int_equal(stat(again, &b), 0);
    assert_true(a.st_ino == b.st_ino && a.st_mtime == b.st_mtime);
    remove_digits(path);
    snprintf(again, sizeof again, "%s/libtrain", folder);
    assert_int_equal(rmdir(again), 0); /* no half-written folder was left */
    assert_int_equal(rmdir(folder), 0);
    setenv("XDG_CACHE_HOME", "/proc/nothing", 1);
    assert_int_equal(lt_digits_cached(again, sizeof again, 4, &err), TACHO_EIO);
    assert_non_null(strstr(err.hint, "XDG_CACHE_HOME"));
    if (old)
        setenv("XDG_CACHE_HOME", old, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(old);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gradient),
        TEST(backends_agree),
        TEST(accumulation),
        TEST(told_once_and_final),
        TEST(right_answers_are_counted),
        TEST(learns_digits),
        TEST(line_search_never_climbs),
        TEST(resumes_bit_by_bit),
        TEST(flops_are_closed_forms),
        TEST(memory_is_a_closed_form),
        TEST(impossible_shapes),
        TEST(files_are_idx),
        TEST(digits_differ),
        TEST(the_cache),
    };
    draw_digits();
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
