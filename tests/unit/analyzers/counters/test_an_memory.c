/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: tags and totals of processes, what is left of the machine, growth that is one and growth
 * that is none, refusals.
 */
#include "tests/unit/an_gpu.h"

#define MIB 1048576.0

static void held(struct fixture *f, int64_t process, const char *name, int64_t time, double bytes)
{
    fx_counter(f, fx_track(f, process, "counter", name, NULL), time, bytes);
}

static void steps(struct fixture *f, int64_t process, int64_t track, int n)
{
    for (int i = 0; i < n; i++)
        fx_step(f, process, track, i, i * 1000, i * 1000 + 900, 64, false);
}

static const struct an_memory_tag *tag(const struct an_memory *m, const char *name)
{
    for (size_t i = 0; i < m->tag_count; i++)
        if (!strcmp(m->tags[i].name, name))
            return &m->tags[i];
    return NULL;
}

/* Two ranks: sums, shares, the larger rank; the resident set and the machine beside them. */
static void test_ranks(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "memory.bytes", "10000"));
    int64_t rank[2] = {fx_process(f, 0, "train"), fx_process(f, 1, "train")};
    for (int i = 0; i < 2; i++) {
        int64_t track = fx_track(f, rank[i], "counter", "memory.activations", "bytes");
        steps(f, rank[i], fx_track(f, rank[i], "thread", "main", NULL), 4);
        held(f, rank[i], "memory.parameters", 800, 1000);
        fx_counter(f, track, 800, 900 + i);
        fx_counter(f, track, 1800, 500);
        held(f, rank[i], "memory.workspace", 800, 100);
        held(f, rank[i], "memory.total", 1800, 1600);
        held(f, rank[i], "memory.peak", 1800, 2000 + i);
        held(f, rank[i], "rss", 1800, 2500);
    }
    const struct an_result *r = fx_analyze(f);
    const struct an_memory *m = &r->memory;
    assert_null(m->reason);
    assert_string_equal(m->source, "memory.* counters");
    assert_int_equal(m->tag_count, 3); /* totals are no tags */
    assert_int_equal(tag(m, "parameters")->current, 2000);
    assert_int_equal(tag(m, "activations")->current, 1000);
    assert_int_equal(tag(m, "activations")->peak, 1801);
    assert_int_equal(tag(m, "activations")->rank_peak, 901);
    assert_int_equal(tag(m, "activations")->rank.value, 1);
    assert_near(tag(m, "parameters")->share_pct.value, 62.5, 1e-9);
    assert_string_equal(m->tags[0].name, "parameters"); /* the largest first */
    assert_int_equal(m->processes, 2);
    assert_int_equal(m->total_bytes.value, 3200);
    assert_int_equal(m->peak_bytes.value, 4001);
    assert_int_equal(m->rank_peak_bytes.value, 2001);
    assert_int_equal(m->rank.value, 1);
    assert_int_equal(m->batch_bytes.value, 1200);
    assert_int_equal(m->capacity_bytes.value, 10000);
    assert_false(m->growth.bytes_per_step.valid); /* four steps */
    assert_non_null(strstr(m->growth.bytes_per_step.reason, "10 counted steps"));
    fx_close(f);
}

/* The resident set binds where it is larger; a limit of the machine binds where it is smaller. */
static void test_room(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    for (int k = 0; k < 3; k++) {
        fx_open(f);
        if (k)
            FX(store_run_set(f->s, "memory.bytes", "10000"));
        if (k == 2)
            FX(store_run_set(f->s, "memory.limit_bytes", "6000"));
        steps(f, f->process, f->thread, 4);
        held(f, f->process, "memory.total", 800, 1600);
        int64_t rss = fx_track(f, f->process, "counter", "rss", "bytes");
        fx_counter(f, rss, 800, 2500);
        fx_counter(f, rss, 1800, 2400);
        const struct an_memory *m = &fx_analyze(f)->memory;
        assert_int_equal(m->resident_peak_bytes.value, 2500);
        assert_int_equal(m->uncounted_bytes.value, 900);
        if (k)
            assert_int_equal(m->room_bytes.value, k == 2 ? 3500 : 7500);
        else
            assert_non_null(strstr(m->room_bytes.reason, "how much memory the machine has"));
        assert_non_null(strstr(m->batch_bytes.reason, "memory.activations"));
        fx_close(f);
    }
}

/* total[i] at the end of step i of 20. */
static struct an_growth grown(const double *total)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    steps(f, f->process, f->thread, 20);
    int64_t track = fx_track(f, f->process, "counter", "memory.total", "bytes");
    double before = -1;
    for (int i = 0; i < 20; i++) {
        if (total[i] < before || total[i] > before) /* as the engine says it: when it changed */
            fx_counter(f, track, i * 1000 + 850, total[i]);
        before = total[i];
    }
    struct an_growth g = fx_analyze(f)->memory.growth;
    fx_close(f);
    return g;
}

static void test_growth(void **state)
{
    double x[20];
    (void)state;
    for (int i = 0; i < 20; i++)
        x[i] = 10 * MIB + i * MIB;
    struct an_growth g = grown(x);
    assert_true(g.grows);
    assert_near(g.bytes_per_step.value, MIB, 1e-6);
    assert_near(g.low.value, MIB, 1e-6);
    assert_int_equal(g.first_step, 1);
    assert_int_equal(g.last_step, 18);
    for (int i = 0; i < 20; i++) /* every third step keeps something */
        x[i] = 10 * MIB + i / 3 * MIB;
    g = grown(x);
    assert_true(g.grows);
    assert_true(g.low.value > 0 && g.low.value < g.bytes_per_step.value &&
                g.high.value > g.bytes_per_step.value);
    for (int i = 0; i < 20; i++) /* one jump, as of a first evaluation */
        x[i] = i < 9 ? 10 * MIB : 60 * MIB;
    g = grown(x);
    assert_false(g.grows);
    assert_true(g.low.value < 0);
    for (int i = 0; i < 20; i++) /* up and down */
        x[i] = i % 2 ? 10 * MIB : 60 * MIB;
    assert_false(grown(x).grows);
    for (int i = 0; i < 20; i++) /* steady, but nothing worth a word */
        x[i] = 10 * MIB + i * 100;
    g = grown(x);
    assert_false(g.grows);
    assert_near(g.bytes_per_step.value, 100, 1e-9);
    for (int i = 0; i < 20; i++)
        x[i] = 10 * MIB;
    g = grown(x);
    assert_false(g.grows);
    assert_near(g.bytes_per_step.value, 0, 0);
}

/* The allocator of PyTorch: totals, which are no parts; what is allocated is the total, what is
 * reserved is not added. */
static void test_allocator(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    steps(f, f->process, f->thread, 4);
    static const char *const names[] = {"memory.allocated", "memory.reserved"};
    for (int i = 0; i < 2; i++) {
        struct store_track t = {.process = f->process,
                                .tid = FX_NONE,
                                .kind = "counter",
                                .name = names[i],
                                .unit = "bytes",
                                .device = "gpu:0"};
        FX(store_track_add(f->s, &t));
        fx_counter(f, t.id, 100, 3000 + 5000 * i);
        fx_counter(f, t.id, 200, 1000 + 5000 * i);
    }
    const struct an_memory *m = &fx_analyze(f)->memory;
    assert_string_equal(m->source, "torch allocator");
    assert_int_equal(m->total_bytes.value, 1000);
    assert_int_equal(m->peak_bytes.value, 3000);
    assert_string_equal(tag(m, "reserved")->device, "gpu:0");
    assert_int_equal(tag(m, "reserved")->peak, 8000);
    assert_false(tag(m, "allocated")->share_pct.valid);
    fx_close(f);
}

/* A counter of an allocator of a device, with a value at the end of each step. */
static void held_on_device(struct fixture *f, const char *device, int steps, double from,
                           double grows)
{
    struct store_track track = {.process = f->process,
                                .tid = FX_NONE,
                                .kind = "counter",
                                .name = "memory.allocated",
                                .unit = "bytes",
                                .device = device};
    FX(store_track_add(f->s, &track));
    for (int i = 0; i < steps; i++)
        fx_counter(f, track.id, i * 1000 + 850, from + i * grows);
}

/* A process with two devices: their sum is held, each grows for itself, and the one with the least
 * room says what is left, whether it is the first or not. */
static void test_two_devices(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    for (int full = 0; full < 2; full++) {
        fx_open(f);
        for (int i = 0; i < 2; i++) {
            char key[64];
            snprintf(key, sizeof key, "device.%lld.gpu:%d.memory_bytes", (long long)f->process, i);
            FX(store_run_set(f->s, key, i == full ? "104857600" : "209715200"));
            const char *device = i ? "gpu:1" : "gpu:0";
            int64_t stream = gpu_stream(f, f->process, device, 7);
            for (int k = 0; k < 20; k++)
                gpu_kernel_ns(f, stream, k * 1000 + 100, k * 1000 + 800, "gemm", 20 * i + k + 1);
            held_on_device(f, device, 20, i == full ? 60 * MIB : 10 * MIB, i == full ? MIB : 0);
        }
        steps(f, f->process, f->thread, 20);
        const struct an_memory *memory = &fx_analyze(f)->memory;
        assert_int_equal(memory->total_bytes.value, 89 * MIB);
        assert_int_equal(memory->peak_bytes.value, 89 * MIB);
        assert_int_equal(memory->rank_peak_bytes.value, 89 * MIB);
        assert_int_equal(memory->capacity_bytes.value, 100 * MIB);
        assert_int_equal(memory->room_bytes.value, 21 * MIB);
        assert_string_equal(memory->room_device, full ? "gpu:1" : "gpu:0");
        assert_true(memory->growth.grows);
        assert_near(memory->growth.bytes_per_step.value, MIB, 1e-6);
        fx_close(f);
    }
}

/* On a GPU the resident set leaves no room known, and there is a reason. What the hook counts
 * between steps has no activations: it is no total, no peak and no growth. */
static void test_between_steps(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    for (int counted = 0; counted < 2; counted++) {
        fx_open(f);
        char key[64];
        snprintf(key, sizeof key, "device.%lld.gpu:0.memory_bytes", (long long)f->process);
        FX(store_run_set(f->s, key, "10000"));
        steps(f, f->process, f->thread, 20);
        gpu_kernel_ns(f, gpu_stream(f, f->process, "gpu:0", 7), 100, 800, "gemm", 1);
        int64_t rss = fx_track(f, f->process, "counter", "rss", "bytes");
        fx_counter(f, rss, 800, 2500);
        fx_counter(f, rss, 1800, 2400);
        if (counted)
            held(f, f->process, "device.allocated", 1800, 1000);
        const struct an_memory *m = &fx_analyze(f)->memory;
        assert_int_equal(m->resident_peak_bytes.value, 2500);
        assert_int_equal(m->capacity_bytes.value, 10000);
        assert_int_equal(m->tag_count, 0);
        assert_false(m->peak_bytes.valid || m->total_bytes.valid ||
                     m->growth.bytes_per_step.valid || m->room_bytes.valid);
        assert_non_null(m->room_bytes.reason);
        fx_close(f);
    }
}

/* Nothing counted: what to do; damaged values: left out. */
static void test_absent(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    static const char *const words[] = {"memory.activations", "memory.TAG", "profile_memory=True"};
    for (int k = 1; k < 3; k++) {
        fx_open(f);
        if (k == 2)
            FX(store_run_set(f->s, "source", "kineto"));
        steps(f, f->process, f->thread, 4);
        held(f, f->process, "loss", 800, 3);
        const struct an_memory *m = &fx_analyze(f)->memory;
        assert_non_null(m->reason);
        assert_non_null(strstr(m->reason, words[k]));
        assert_false(m->peak_bytes.valid || m->growth.bytes_per_step.valid);
        fx_close(f);
    }
    fx_open(f);
    steps(f, f->process, f->thread, 4);
    held(f, f->process, "memory.parameters", 800, NAN);
    held(f, f->process, "memory.gradients", 800, -5);
    held(f, f->process, "memory.optimizer", 800, 1e300);
    held(f, f->process, "memory.workspace", 800, 64);
    const struct an_memory *m = &fx_analyze(f)->memory;
    assert_int_equal(m->tag_count, 1);
    assert_int_equal(m->peak_bytes.value, 64);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),      cmocka_unit_test(test_room),
        cmocka_unit_test(test_growth),     cmocka_unit_test(test_allocator),
        cmocka_unit_test(test_absent),     cmocka_unit_test(test_between_steps),
        cmocka_unit_test(test_two_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
