/* SPDX-License-Identifier: Apache-2.0
 *
 * The book of memory: sums and peaks, from several threads; what arenas, models, optimizers and
 * whole runs enter and give back; closed forms against what is held; what the kernel says.
 */
#include "lt_support.h"

#include <pthread.h>
#include <sys/mman.h>

#include "libtrain/base/arena.h"
#include "libtrain/models/gpt2.h"
#include "libtrain/train/train.h"

#define PAGE 4096 /* what arenas round up to */

static void sums_and_peaks(void **state)
{
    (void)state;
    struct lt_memory at, m;
    lt_memory_reset_peak();
    lt_memory_read(&at);
    assert_int_equal(at.total_peak, at.total);
    lt_memory_add(LT_MEMORY_LOADER, 100);
    lt_memory_add(LT_MEMORY_WORKSPACE, 50);
    lt_memory_add(LT_MEMORY_LOADER, -100);
    lt_memory_add(LT_MEMORY_WORKSPACE, 20);
    lt_memory_read(&m);
    assert_int_equal(m.tag[LT_MEMORY_LOADER] - at.tag[LT_MEMORY_LOADER], 0);
    assert_int_equal(m.tag[LT_MEMORY_WORKSPACE] - at.tag[LT_MEMORY_WORKSPACE], 70);
    assert_int_equal(m.tag_peak[LT_MEMORY_LOADER] - at.tag[LT_MEMORY_LOADER], 100);
    assert_int_equal(m.total - at.total, 70);
    assert_int_equal(m.total_peak - at.total, 150); /* of one instant, not 100 + 70 */
    lt_memory_add(LT_MEMORY_WORKSPACE, -70);
    lt_memory_reset_peak();
    lt_memory_read(&m);
    assert_int_equal(m.total_peak, at.total);
    assert_int_equal(m.tag_peak[LT_MEMORY_LOADER], at.tag[LT_MEMORY_LOADER]);
}

static void *enter_and_give_back(void *arg)
{
    enum lt_memory_tag tag = *(const enum lt_memory_tag *)arg;
    for (int i = 0; i < 20000; i++) {
        lt_memory_add(tag, 3);
        lt_memory_add(tag, -2);
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    static const enum lt_memory_tag tags[] = {LT_MEMORY_LOADER, LT_MEMORY_WORKSPACE,
                                              LT_MEMORY_LOADER, LT_MEMORY_OPTIMIZER};
    pthread_t thread[4];
    struct lt_memory before, after;
    lt_memory_read(&before);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, enter_and_give_back, (void *)(uintptr_t)&tags[i]), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    lt_memory_read(&after);
    assert_int_equal(after.tag[LT_MEMORY_LOADER] - before.tag[LT_MEMORY_LOADER], 40000);
    assert_int_equal(after.total - before.total, 80000);
    assert_true(after.total_peak >= after.total);
    lt_memory_add(LT_MEMORY_LOADER, -40000);
    lt_memory_add(LT_MEMORY_WORKSPACE, -20000);
    lt_memory_add(LT_MEMORY_OPTIMIZER, -20000);
}

static void arenas(void **state)
{
    (void)state;
    struct lt_arena arena;
    struct lt_memory before, held, after;
    float *a, *b;
    const struct lt_tensor table[] = {{"a", 1000001, &a}, {"b", 3, &b}};
    lt_memory_read(&before);
    assert_int_equal(lt_arena_create(&arena, LT_MEMORY_GRADIENTS, table, 2), 0);
    lt_memory_read(&held);
    assert_int_equal(held.tag[LT_MEMORY_GRADIENTS] - before.tag[LT_MEMORY_GRADIENTS],
                     4001792); /* 4000064 + 64 bytes, in pages */
    assert_int_equal(held.total - before.total, (int64_t)arena.bytes);
    lt_arena_destroy(&arena);
    lt_arena_destroy(&arena);
    lt_memory_read(&after);
    assert_int_equal(after.total, before.total);
    const struct lt_tensor impossible[] = {{"a", SIZE_MAX / 8, &a}};
    assert_int_equal(lt_arena_create(&arena, LT_MEMORY_GRADIENTS, impossible, 1), TACHO_ENOMEM);
    lt_memory_read(&after);
    assert_int_equal(after.total, before.total);
}

static int64_t pages(uint64_t bytes)
{
    return (int64_t)((bytes + PAGE - 1) / PAGE * PAGE);
}

/* Within 2 %, or a page for each of so many arenas. */
static void assert_close(const char *what, int64_t held, uint64_t predicted, int arenas)
{
    double slack = fmax(0.02 * (double)predicted, (double)arenas * PAGE);
    if (fabs((double)held - (double)predicted) > slack)
        fail_msg("%s: %lld bytes held, %llu predicted", what, (long long)held,
                 (unsigned long long)predicted);
}

/* Shapes of the whole model in each mode, each tag; and the activations once more, tensor by
 * tensor. */
static void gpt2_closed_form_of(struct lt_gpt2_mode mode)
{
    static const int64_t shapes[][7] = {/* layers, channels, heads, vocab, positions; b, t */
                                        {4, 256, 4, 5000, 256, 4, 128},
                                        {2, 512, 8, 10000, 64, 2, 200},
                                        {6, 192, 3, 256, 512, 8, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i];
        struct lt_gpt2_config k = {"shape", "", s[0], s[1], s[2], s[3], s[4], s[6], s[5]};
        struct lt_memory before, held, after;
        struct lt_memory_plan plan;
        struct lt_model *m = NULL;
        struct tacho_error err = {0};
        lt_memory_read(&before);
        assert_int_equal(lt_gpt2_create(&m, &k, mode, s[5], s[6], 1, &err), 0);
        lt_memory_read(&held);
        lt_gpt2_memory(&k, mode, s[5], s[6], lt_threads(), &plan);
        int64_t moved[LT_MEMORY_COUNT];
        for (int t = 0; t < LT_MEMORY_COUNT; t++)
            moved[t] = held.tag[t] - before.tag[t];
        int half = mode.dtype != LT_DTYPE_FP32;
        assert_int_equal(plan.tag[LT_MEMORY_PARAMETERS], (half ? 6 : 4) * m->parameters.trainable);
        assert_int_equal(moved[LT_MEMORY_PARAMETERS],
                         pages(4 * m->parameters.count) + half * pages(2 * m->parameters.count));
        assert_int_equal(moved[LT_MEMORY_GRADIENTS], pages(4 * m->parameters.count));
        assert_close("parameters", moved[LT_MEMORY_PARAMETERS], plan.tag[LT_MEMORY_PARAMETERS],
                     1 + half);
        assert_close("activations", moved[LT_MEMORY_ACTIVATIONS], plan.tag[LT_MEMORY_ACTIVATIONS],
                     1);
        assert_close("workspace", moved[LT_MEMORY_WORKSPACE], plan.tag[LT_MEMORY_WORKSPACE], 1);
        /* a block: ln1, qkv (3), attention, middle, ln2, up (4), gelu (4), and four statistics a
         * row; its input; logits */
        uint64_t l = (uint64_t)s[0], c = (uint64_t)s[1], h = (uint64_t)s[2], v = (uint64_t)s[3],
                 n = (uint64_t)(s[5] * s[6]);
        uint64_t blocks = mode.recompute == LT_RECOMPUTE_BLOCK ? 1 : l, most = (uint64_t)mode.kept,
                 size = half ? 2 : 4;
        if (most)
            blocks = most < l ? most : l;
        uint64_t block = size * n * c * (1 + 3 + 1 + 1 + 1 + 4 + 4) + 4 * (4 * n + n * h);
        uint64_t rest = size * (n * c * (l + 1 /* last stream */ + 1 /* final */) + n * v) +
                        4 * (2 * n + n /* losses */);
        uint64_t gradients = size * n * c * (1 + 1 + 1 + 4 + 3);
        assert_int_equal(plan.tag[LT_MEMORY_ACTIVATIONS], blocks * block + rest + gradients);
        lt_model_destroy(m);
        lt_memory_read(&after);
        assert_int_equal(after.total, before.total);
    }
}

static void gpt2_closed_form(void **state)
{
    (void)state;
    for (int d = 0; d < LT_DTYPE_COUNT; d++)
        for (int r = 0; r < LT_RECOMPUTE_COUNT; r++)
            gpt2_closed_form_of((struct lt_gpt2_mode){.dtype = (enum lt_dtype)d,
                                                      .recompute = (enum lt_recompute)r});
    gpt2_closed_form_of(
        (struct lt_gpt2_mode){.dtype = LT_DTYPE_FP32, .recompute = LT_RECOMPUTE_BLOCK, .kept = 2});
}

/* A whole run with each optimizer: its state is held while it lasts; afterwards nothing is. */
static void runs_give_back(void **state)
{
    (void)state;
    static const struct lt_gpt2_config k = {"run", "", 2, 256, 4, 4000, 32, 32, 2};
    char path[300];
    const char *folder = scratch_folder();
    struct tacho_error err = {0};
    snprintf(path, sizeof path, "%s/text", folder);
    write_text(path, 5000, 3);
    struct lt_source *source = open_text_source(path, 32);
    struct lt_part part = lt_source_whole(source);
    for (int kind = 0; kind < LT_OPTIMIZER_KFAC; kind++) { /* which is not for this model */
        struct lt_memory before, peak, after;
        struct lt_model *m = NULL;
        struct lt_context x = {.backend = LT_BACKEND_CPU};
        struct lt_train_config config = {.schedule = {.peak = 1e-3, .steps = 2},
                                         .micro_steps = 1,
                                         .optimizer =
                                             lt_optimizer_defaults((enum lt_optimizer_kind)kind)};
        size_t floats[LT_OPTIMIZER_STATES], scratch;
        int64_t bytes = 0;
        lt_memory_read(&before);
        assert_int_equal(lt_gpt2_create(&m, &k, (struct lt_gpt2_mode){0}, 2, 32, 1, &err), 0);
        lt_memory_reset_peak();
        if (lt_train(m, &part, NULL, &x, &config, NULL, &err))
            fail_msg("%s", err.what);
        lt_memory_read(&peak);
        lt_optimizer_sizes(&config.optimizer, &m->parameters, floats, &scratch);
        for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
            bytes += pages(4 * floats[i]);
        assert_int_equal(peak.tag_peak[LT_MEMORY_OPTIMIZER] - before.tag[LT_MEMORY_OPTIMIZER],
                         bytes);
        lt_model_destroy(m);
        lt_memory_read(&after);
        assert_int_equal(after.total, before.total);
    }
    lt_source_close(source);
    unlink(path);
    rmdir(folder);
}

static void what_the_kernel_says(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(LT_TSAN)
    skip(); /* shadow memory comes and goes */
#endif
    struct lt_resident before, held, after;
    size_t bytes = (size_t)64 << 20;
    assert_int_equal(lt_memory_resident(&before), 0);
    assert_true(before.peak >= before.now && before.now > 1 << 20 && before.file > 0 &&
                before.file < before.now);
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    memset(p, 1, bytes);
    assert_int_equal(lt_memory_resident(&held), 0);
    munmap(p, bytes);
    assert_int_equal(lt_memory_resident(&after), 0);
    /* the kernel counts in portions a CPU */
    assert_true(llabs(held.now - before.now - (int64_t)bytes) < 4 << 20 &&
                llabs(held.file - before.file) < 4 << 20);
    assert_true(after.peak > held.now - (4 << 20) && after.now < held.now - (32 << 20));
    assert_true(lt_memory_available() > 1 << 20);
}

#define TEST(name) cmocka_unit_test_teardown(name, pool_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sums_and_peaks),   TEST(many_threads),   TEST(arenas),
        TEST(gpt2_closed_form), TEST(runs_give_back), TEST(what_the_kernel_says),
    };
    calm_openmp();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
