/* SPDX-License-Identifier: Apache-2.0
 *
 * A leak: what grows in every third of the counted steps and does not slow down; what is none; the
 * steps until no memory is free; runs that cannot be judged.
 */
#include "tests/unit/an_fixture.h"

#define MIB   1048576.0
#define STEPS 122 /* the first and the last one do not count */

/* What the process holds at the end of a step. */
typedef double held_at(int step, uint64_t *seed);

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static double linear(int step, uint64_t *seed)
{
    return (640 + 5.9 * step + 3 * uniform(seed)) * MIB;
}

/* An allocator takes 4 MiB at a time. */
static double in_arenas(int step, uint64_t *seed)
{
    (void)seed;
    return (640 + 4 * (step / 3)) * MIB;
}

static double flat(int step, uint64_t *seed)
{
    (void)step;
    return (640 + 20 * uniform(seed)) * MIB;
}

static double one_jump(int step, uint64_t *seed)
{
    return (step < 60 ? 640 : 900 + uniform(seed)) * MIB;
}

/* A cache of a data set that is complete after two thirds of the recording. */
static double fills(int step, uint64_t *seed)
{
    return (640 + 6 * (step < 80 ? step : 80) + uniform(seed)) * MIB;
}

static double half_full(int step, uint64_t *seed)
{
    return (640 + 6 * (step < 60 ? step : 60) + uniform(seed)) * MIB;
}

/* A cache that is read at random: the fuller, the fewer misses. */
static double saturates(int step, uint64_t *seed)
{
    return (640 + 800 * (1 - exp(-step / 40.0)) + uniform(seed)) * MIB;
}

/* Buffers of batches whose length varies: the longest one so far counts. */
static double records(int step, uint64_t *seed)
{
    static double longest;
    double length = uniform(seed);
    longest = step && longest > length ? longest : length;
    return (640 + 400 * longest) * MIB;
}

static double sawtooth(int step, uint64_t *seed)
{
    (void)seed;
    return (640 + 10 * (step % 25)) * MIB;
}

static double nothing_much(int step, uint64_t *seed)
{
    (void)seed;
    return 640 * MIB + 100 * step;
}

static void fill(struct fixture *f, const char *name, int steps, held_at *held, uint64_t seed)
{
    int64_t track = fx_track(f, f->process, "counter", name, "bytes");
    for (int i = 0; i < steps; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
        fx_counter(f, track, i * 1000 + 850, held(i, &seed));
    }
}

static bool is_found(held_at *held, uint64_t seed)
{
    struct fixture fx, *f = &fx;
    fx_open(f);
    fill(f, "rss_anon", STEPS, held, seed);
    const struct an_result *result = fx_analyze(f);
    assert_null(result->leak.reason);
    bool found = result->leak.found, named = false;
    for (size_t i = 0; i < result->finding_count; i++)
        named = named || !strcmp(result->findings[i].id, "LEAK");
    assert_int_equal(named, found);
    fx_close(f);
    return found;
}

static void test_shapes(void **state)
{
    (void)state;
    assert_true(is_found(linear, 1));
    assert_true(is_found(in_arenas, 1));
    assert_false(is_found(flat, 1));
    assert_false(is_found(one_jump, 1));
    assert_false(is_found(fills, 1));
    assert_false(is_found(saturates, 1));
    assert_false(is_found(sawtooth, 1));
    assert_false(is_found(nothing_much, 1));
}

/* Healthy runs of three kinds with 60 seeds each: not one is a leak; every leak is found. */
static void test_seeds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        assert_false(is_found(flat, seed * 7919));
        assert_false(is_found(records, seed * 7919));
        assert_false(is_found(fills, seed * 7919));
        assert_true(is_found(linear, seed * 7919));
    }
}

static void test_figures(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fill(f, "rss_anon", STEPS, in_arenas, 0);
    fx_counter(f, fx_track(f, FX_NONE, "counter", "memory_available", "bytes"), STEPS * 1000,
               400 * MIB);
    const struct an_leak *leak = &fx_analyze(f)->leak;
    assert_true(leak->found);
    assert_string_equal(leak->what, "anonymous memory");
    assert_int_equal(leak->first_step, 1);
    assert_int_equal(leak->last_step, STEPS - 2);
    /* From step 1 (0 arenas), of which 850 of 900 ns were over, to step 120 (40 arenas), of which
     * 950 of 1000. */
    assert_near(leak->bytes_per_step.value, 160 * MIB / (119 + 50 / 900.0 - 0.05), 1);
    assert_true(leak->low.value > 0 && leak->low.value < leak->bytes_per_step.value);
    assert_true(leak->high.value > leak->bytes_per_step.value);
    assert_near(leak->steps_left.value, 400 * (119 + 50 / 900.0 - 0.05) / 160, 1e-6);
    assert_false(leak->rank.valid);
    fx_close(f);
}

/* What the hook found to grow in that process is said, and what to do about it. */
static void test_what_grows(void **state)
{
    static const char *const marks[] = {
        "growing list kept of main (train.py:9): 1 a step, 5.9 MiB each",
        "growing graph total of main (train.py:7): 12 nodes a step", NULL};
    static const char *const actions[] = {"train.py:9): 1 a step, 5.9 MiB each: keep numbers",
                                          "loss.detach()", "each step"};
    struct fixture fx, *f = &fx;
    (void)state;
    for (int i = 0; i < 3; i++) {
        fx_open(f);
        fill(f, "rss_anon", STEPS, linear, 1);
        if (marks[i])
            fx_slice(f, f->thread, 60950, 60960, marks[i], FX_NONE);
        const struct an_result *result = fx_analyze(f);
        const struct an_finding *leak = NULL;
        for (size_t k = 0; k < result->finding_count; k++)
            if (!strcmp(result->findings[k].id, "LEAK"))
                leak = &result->findings[k];
        assert_non_null(leak);
        if (!strstr(leak->action, actions[i]))
            fail_msg("\"%s\" does not say \"%s\"", leak->action, actions[i]);
        assert_int_equal(!strncmp(leak->evidence[0], "what grows: ", 12), marks[i] != NULL);
        fx_close(f);
    }
}

/* What the program counts itself is judged too. */
static void test_tracked(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fill(f, "memory.total", STEPS, linear, 1);
    const struct an_leak *leak = &fx_analyze(f)->leak;
    assert_true(leak->found);
    assert_string_equal(leak->what, "tracked memory");
    fx_close(f);
}

/* Memory of a device is judged, whoever counts it; how much of it is free is known of no other
 * device than a recorded GPU. What the machine has free says nothing of it. */
static void test_device(void **state)
{
    static const char *const names[] = {"device.allocated", "memory.allocated"};
    struct fixture fx, *f = &fx;
    (void)state;
    for (int i = 0; i < 2; i++) {
        fx_open(f);
        uint64_t seed = 1;
        struct store_track track = {.process = f->process,
                                    .tid = FX_NONE,
                                    .kind = "counter",
                                    .name = names[i],
                                    .unit = "bytes",
                                    .device = i ? "gpu:0" : NULL};
        FX(store_track_add(f->s, &track));
        for (int k = 0; k < STEPS; k++) {
            fx_step(f, f->process, f->thread, k, k * 1000, k * 1000 + 900, 64, false);
            fx_counter(f, track.id, k * 1000 + 850, linear(k, &seed));
        }
        fx_counter(f, fx_track(f, FX_NONE, "counter", "memory_available", "bytes"), STEPS * 1000,
                   400 * MIB);
        const struct an_leak *leak = &fx_analyze(f)->leak;
        assert_true(leak->found);
        assert_string_equal(leak->what, "memory of the device");
        assert_false(leak->steps_left.valid);
        assert_non_null(strstr(leak->steps_left.reason, "memory of the device is free"));
        fx_close(f);
    }
}

/* Of two devices of a process one is full: its own memory counts, not what is free on both.
 * Snapshots of tracemalloc do not see it. */
static void test_two_devices(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    FX(store_run_set(f->s, "source", "kineto"));
    for (int i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, "device.%lld.gpu:%d.memory_bytes", (long long)f->process, i);
        FX(store_run_set(f->s, key, "1073741824")); /* 1 GiB */
        struct store_track track = {.process = f->process,
                                    .tid = FX_NONE,
                                    .kind = "counter",
                                    .name = "memory.allocated",
                                    .unit = "bytes",
                                    .device = i ? "gpu:1" : "gpu:0"};
        FX(store_track_add(f->s, &track));
        for (int k = 0; k < STEPS; k++)
            fx_counter(f, track.id, k * 1000 + 850, (i ? 500 + 4 * k : 100) * MIB);
    }
    for (int k = 0; k < STEPS; k++)
        fx_step(f, f->process, f->thread, k, k * 1000, k * 1000 + 900, 64, false);
    fx_slice(f, f->thread, 60100, 60200, "aten::mm", FX_NONE); /* PyTorch */
    const struct an_result *result = fx_analyze(f);
    const struct an_leak *leak = &result->leak;
    assert_true(leak->found);
    assert_string_equal(leak->device, "gpu:1");
    assert_near(leak->steps_left.value, (1024 - 500 - 4 * (STEPS - 1)) / 4.0, 1e-6);
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, "LEAK")) {
            assert_non_null(strstr(result->findings[i].claim, "memory of the device gpu:1 of"));
            assert_non_null(strstr(result->findings[i].action, "_record_memory_history"));
            assert_null(strstr(result->findings[i].action, "tracemalloc"));
        }
    fx_close(f);
}

/* Whether a leak is found where no sample is taken in steps `from` to `until` - 1; the program was
 * seen with 50 MiB when it had just begun. */
static bool is_found_with_pause(held_at *held, int from, int until, int64_t *first_step)
{
    struct fixture fx, *f = &fx;
    uint64_t seed = 1;
    fx_open(f);
    int64_t track = fx_track(f, f->process, "counter", "rss_anon", "bytes");
    fx_counter(f, track, 0, 50 * MIB);
    for (int i = 0; i < STEPS; i++) {
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
        double bytes = held(i, &seed);
        if (i < from || i >= until)
            fx_counter(f, track, i * 1000 + 850, bytes);
    }
    const struct an_leak *leak = &fx_analyze(f)->leak;
    assert_null(leak->reason);
    bool found = leak->found;
    *first_step = leak->first_step;
    if (found && held == linear)
        assert_true(leak->low.value < 5.9 * MIB && 5.9 * MIB < leak->high.value);
    fx_close(f);
    return found;
}

/* The sampler of a busy machine starts late, or pauses: the steps that it saw are judged. */
static void test_pauses(void **state)
{
    int64_t first;
    (void)state;
    assert_true(is_found_with_pause(linear, 0, 12, &first));
    assert_int_equal(first, 12);
    for (int from = 2; from < 110; from += 9) {
        assert_true(is_found_with_pause(linear, from, from + 10, &first));
        assert_int_equal(first, 1);
        assert_false(is_found_with_pause(flat, from, from + 10, &first));
        assert_false(is_found_with_pause(saturates, from, from + 10, &first));
    }
    /* half of the run unseen, in which a cache is full */
    assert_false(is_found_with_pause(half_full, 62, 120, &first));
    assert_true(is_found_with_pause(linear, 62, 120, &first));
}

static void test_not_judged(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_open(f);
    fill(f, "rss_anon", 40, linear, 1);
    assert_string_equal(fx_analyze(f)->leak.reason, "fewer than 50 counted steps");
    fx_close(f);
    fx_open(f); /* two samples in all the steps */
    for (int i = 0; i < STEPS; i++)
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
    int64_t track = fx_track(f, f->process, "counter", "rss_anon", "bytes");
    fx_counter(f, track, 500, 100 * MIB);
    fx_counter(f, track, 60000, 900 * MIB);
    assert_string_equal(fx_analyze(f)->leak.reason, "the steps took too few samples of /proc");
    fx_close(f);
    fx_open(f);
    for (int i = 0; i < STEPS; i++)
        fx_step(f, f->process, f->thread, i, i * 1000, i * 1000 + 900, 64, false);
    fx_counter(f, fx_track(f, f->process, "counter", "loss", NULL), 500, 1);
    assert_non_null(strstr(fx_analyze(f)->leak.reason, "record with tacho run"));
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),      cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_figures),     cmocka_unit_test(test_tracked),
        cmocka_unit_test(test_not_judged),  cmocka_unit_test(test_what_grows),
        cmocka_unit_test(test_pauses),      cmocka_unit_test(test_device),
        cmocka_unit_test(test_two_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
