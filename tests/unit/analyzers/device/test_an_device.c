/* SPDX-License-Identifier: Apache-2.0
 *
 * Device rows as columns: order, links to launches both ways, against slow loops over all rows; the
 * sort below them.
 */
#include "tests/unit/an_gpu.h"

#include "analyzers/base/radix.h"
#include "analyzers/device/classes.h"
#include "analyzers/steps/context.h"

/* The devices of a fixture, without the analyzers. */
struct loaded {
    struct an_trace *t;
    struct an_result r;
    struct an_options o;
    struct an_context c;
};

static const struct an_devices *load(struct fixture *f, struct loaded *l)
{
    struct tacho_error err = {0};
    memset(l, 0, sizeof *l);
    fx_analyze(f); /* ends the writing, opens the reader; all analyzers run over these rows too */
    if (an_trace_load(f->reader, &l->t, &err))
        fail_msg("%s", err.what);
    l->c = (struct an_context){.trace = l->t,
                               .options = &l->o,
                               .result = &l->r,
                               .arena = an_arena_new(),
                               .scratch = an_arena_new()};
    assert_int_equal(an_devices_build(l->c.trace, l->c.options->classes, l->c.arena, l->c.scratch,
                                      &l->c.gpu, &err),
                     0);
    return l->c.gpu;
}

static void unload(struct loaded *l)
{
    an_arena_free(l->c.arena);
    an_arena_free(l->c.scratch);
    an_trace_free(l->t);
}

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    return *seed ^= *seed << 5;
}

static void test_sort(void **state)
{
    (void)state;
    uint32_t s = 77;
    for (int round = 0; round < 40; round++) {
        size_t n = round < 3 ? (size_t)round : next(&s) % 3000;
        struct an_pair *a = malloc((n + 1) * sizeof *a), *work = malloc((n + 1) * sizeof *work);
        assert_non_null(a);
        assert_non_null(work);
        for (size_t i = 0; i < n; i++) {
            int64_t key = round % 3 == 0   ? (int64_t)(next(&s) % 5)
                          : round % 3 == 1 ? (int64_t)((uint64_t)next(&s) << 32 | next(&s))
                                           : -(int64_t)(next(&s) % 100000);
            a[i] = (struct an_pair){an_pair_key(key), (uint32_t)i, next(&s)};
        }
        an_pairs_sort(a, work, n);
        for (size_t i = 1; i < n; i++)
            assert_true(a[i - 1].key < a[i].key ||
                        (a[i - 1].key == a[i].key && a[i - 1].value < a[i].value));
        uint64_t seen = 0;
        for (size_t i = 0; i < n; i++)
            seen += a[i].value;
        assert_true(seen == (n ? (uint64_t)n * (n - 1) / 2 : 0));
        free(a);
        free(work);
    }
}

static uint32_t process_of(const struct an_trace *t, size_t slice)
{
    for (size_t k = 0; k < t->track_count; k++)
        if (slice >= t->track[k].slice_first &&
            slice < t->track[k].slice_first + t->track[k].slice_count)
            return t->track[k].process;
    return AN_NONE;
}

/* The call of an op by looking at all rows: of its process and correlation the last that began
 * before it, else the first. */
static int64_t slow_launch(const struct an_trace *t, size_t op)
{
    int64_t best = -1, earliest = -1;
    for (size_t i = 0; i < t->slice.count; i++) {
        if (strcmp(an_slice_category(t, i), "runtime") != 0 ||
            t->slice.correlation[i] != t->slice.correlation[op] ||
            t->slice.correlation[i] == STORE_ABSENT || process_of(t, i) != process_of(t, op))
            continue;
        int64_t start = t->slice.start[i];
        if (earliest < 0 || start < t->slice.start[earliest])
            earliest = (int64_t)i;
        if (start <= t->slice.start[op] && (best < 0 || start > t->slice.start[best]))
            best = (int64_t)i;
    }
    return best >= 0 ? best : earliest;
}

static void check_links(const struct loaded *l, const struct an_devices *g)
{
    const struct an_trace *t = l->t;
    int64_t lost = 0;
    for (size_t i = 0; i < g->op.count; i++) {
        int64_t want = slow_launch(t, g->op.slice[i]);
        if (want < 0) {
            assert_int_equal(g->op.launch[i], AN_NONE);
            continue;
        }
        assert_true(g->op.launch[i] != AN_NONE);
        assert_int_equal(t->slice.start[g->op.launch[i]],
                         t->slice.start[want]); /* of several at one time any will do */
    }
    for (size_t i = 0; i < t->slice.count; i++) {
        size_t first = 0, ops = 0;
        while (first < g->launch_count && g->launch_slice[first] != i)
            first++;
        for (size_t k = 0; k < g->op.count; k++)
            ops += g->op.launch[k] == i;
        size_t listed =
            first < g->launch_count ? g->launch_first[first + 1] - g->launch_first[first] : 0;
        assert_int_equal(listed, ops);
        for (size_t k = 0; k < listed; k++)
            assert_int_equal(g->op.launch[g->launch_op[g->launch_first[first] + k]], i);
        lost += !ops && an_slice_launches(t, i) &&
                t->slice.parent[i] == AN_NONE; /* else part of the call around it */
    }
    assert_int_equal(g->launches_lost, lost);
}

static void check_order(const struct loaded *l, const struct an_devices *g)
{
    size_t at = 0;
    for (size_t d = 0; d < g->device_count; d++) {
        const struct an_device *v = &g->device[d];
        assert_int_equal(v->first, at);
        at += v->count;
        for (size_t i = v->first; i < at; i++) {
            assert_int_equal(l->t->track[g->op.track[i]].process, v->process);
            if (i > v->first)
                assert_true(
                    g->op.start[i - 1] < g->op.start[i] ||
                    (g->op.start[i - 1] == g->op.start[i] && g->op.end[i - 1] <= g->op.end[i]));
        }
        for (size_t i = v->first + 1; i < v->first + g->by_launch_known[d]; i++)
            assert_true(an_device_launch_time(l->c.gpu, g->by_launch[i - 1]) <=
                        an_device_launch_time(l->c.gpu, g->by_launch[i]));
        for (int64_t time = FX_BASE; time < FX_BASE + 2000; time += 97) {
            size_t k = an_device_launch_seek(l->c.gpu, d, time),
                   end = v->first + g->by_launch_known[d];
            assert_true(k == end || an_device_launch_time(l->c.gpu, g->by_launch[k]) >= time);
            assert_true(k == v->first ||
                        an_device_launch_time(l->c.gpu, g->by_launch[k - 1]) < time);
        }
    }
    assert_int_equal(at, g->op.count);
}

/* Random calls and ops: correlations used twice, missing ones, several processes with the same
 * correlations, equal times. */
static void test_links(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 25; seed++) {
        struct fixture f[1];
        struct loaded l;
        uint32_t s = seed * 2654435761u;
        fx_open(f);
        int64_t process[3] = {f->process, fx_process(f, 1, "b"), fx_process(f, 2, "c")},
                stream[3][3], thread[3];
        for (int p = 0; p < 3; p++) {
            thread[p] = p ? fx_track(f, process[p], "thread", "main", NULL) : f->thread;
            for (int k = 0; k < 3; k++)
                stream[p][k] = gpu_stream(f, process[p], k < 2 ? "gpu:0" : "gpu:1", k);
        }
        for (int n = 5 + (int)(next(&s) % 80); n--;) {
            int p = (int)(next(&s) % 3);
            int64_t start = next(&s) % 1000,
                    correlation = next(&s) % 8 ? (int64_t)(next(&s) % 60) : FX_NONE;
            gpu_host_ns(f, thread[p], start, start + 1,
                        next(&s) % 3 ? "cudaLaunchKernel" : "cudaEventQuery", "runtime",
                        correlation);
        }
        for (int n = 5 + (int)(next(&s) % 80); n--;) {
            int64_t start = next(&s) % 1000,
                    correlation = next(&s) % 8 ? (int64_t)(next(&s) % 60) : FX_NONE;
            gpu_kernel_ns(f, stream[next(&s) % 3][next(&s) % 3], start / 20 * 20,
                          start / 20 * 20 + next(&s) % 9, "k", correlation);
        }
        const struct an_devices *g = load(f, &l);
        assert_non_null(g);
        check_links(&l, g);
        check_order(&l, g);
        unload(&l);
        fx_close(f);
    }
}

/* Without any launch in the file the ops stand in order of start. */
static void test_no_launches(void **state)
{
    (void)state;
    struct fixture f[1];
    struct loaded l;
    fx_open(f);
    int64_t a = gpu_stream(f, f->process, "gpu:0", 1), b = gpu_stream(f, f->process, "gpu:0", 2);
    gpu_kernel_ns(f, a, 30, 40, "k", FX_NONE);
    gpu_kernel_ns(f, b, 10, 20, "k", 5);
    const struct an_devices *g = load(f, &l);
    assert_int_equal(g->by_launch_known[0], 2);
    assert_int_equal(an_device_launch_time(l.c.gpu, g->by_launch[0]), FX_BASE + 10);
    assert_int_equal(g->launch_count, 0);
    unload(&l);
    fx_close(f);
}

/* A launching call inside another one is part of it: only the outer one can have lost its op. */
static void test_nested_call(void **state)
{
    (void)state;
    struct fixture f[1];
    struct loaded l;
    fx_open(f);
    gpu_kernel_ns(f, gpu_stream(f, f->process, "gpu:0", 1), 30, 40, "k", 1);
    gpu_host_ns(f, f->thread, 0, 9, "cudaLaunchKernel", "runtime", 1);
    gpu_host_ns(f, f->thread, 2, 8, "cuLaunchKernel", "driver", 2);
    gpu_host_ns(f, f->thread, 20, 29, "cudaLaunchKernel", "runtime", 3);
    gpu_host_ns(f, f->thread, 22, 28, "cuLaunchKernel", "driver", 4);
    gpu_host_ns(f, f->thread, 31, 32, "cudaLaunchHostFunc", "runtime", 5);
    assert_int_equal(load(f, &l)->launches_lost, 1);
    unload(&l);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sort), cmocka_unit_test(test_links),
                                       cmocka_unit_test(test_no_launches),
                                       cmocka_unit_test(test_nested_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
