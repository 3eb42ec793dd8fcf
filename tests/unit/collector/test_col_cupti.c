/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of CUPTI records: buffers in the layouts of CUDA 11, 12 and 13, written by hand; the
 * same ones stepped over by the real library where it is installed; broken ones; and CUPTI's clock.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/drain/gpu_private.h"
#include "profiler/collector/os/demangle.h"

#define BUFFER 65536u

static void put16(uint8_t *r, size_t at, uint32_t x)
{
    uint16_t y = (uint16_t)x;
    memcpy(r + at, &y, sizeof y);
}

static void put32(uint8_t *r, size_t at, uint32_t x)
{
    memcpy(r + at, &x, sizeof x);
}

static void put64(uint8_t *r, size_t at, uint64_t x)
{
    memcpy(r + at, &x, sizeof x);
}

/* Sizes of records as the headers of each toolkit have them, on purpose not from the decoder's
 * table. */
static const struct layout {
    uint32_t version, kernel, copy, set, peer, event, sync, graph;
} layouts[] = {{13, 160, 72, 72, 80, 24, 40, 48},      {14, 160, 80, 80, 88, 24, 40, 48},
               {15, 168, 80, 80, 88, 24, 40, 48},      {17, 176, 88, 88, 96, 24, 40, 48},
               {19, 208, 88, 88, 96, 24, 40, 48},      {21, 208, 88, 88, 96, 24, 40, 56},
               {24, 208, 88, 88, 96, 24, 40, 56},      {26, 208, 96, 88, 96, 56, 56, 56},
               {130000, 216, 96, 88, 96, 56, 56, 56},  {130001, 216, 96, 88, 96, 56, 56, 56},
               {130100, 224, 96, 88, 96, 56, 56, 56},  {130201, 224, 96, 88, 96, 56, 56, 56},
               {130301, 232, 96, 88, 96, 56, 56, 56},  {130401, 248, 112, 104, 96, 56, 56, 56},
               {130500, 248, 112, 104, 96, 80, 56, 56}};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

static uint8_t *append(uint8_t *buffer, size_t *used, uint32_t kind, uint32_t bytes)
{
    uint8_t *r = buffer + *used;
    memset(r, 0, bytes);
    put32(r, 0, kind);
    *used += bytes;
    return r;
}

/* One of each kind. Returns bytes used. */
static size_t golden(uint8_t *buffer, const struct layout *l)
{
    size_t n = 0;
    uint8_t *r = append(buffer, &n, COL_CUPTI_CONCURRENT_KERNEL, l->kernel);
    put16(r, 6, 168);
    put64(r, 16, 1700000000123456789);
    put64(r, 24, 1700000000123459999);
    put32(r, 40, 3);
    put32(r, 44, 2);
    put32(r, 48, 20);
    for (uint32_t i = 0; i < 3; i++) {
        put32(r, 52 + 4 * i, 1000 + i);
        put32(r, 64 + 4 * i, 32 + i);
    }
    put32(r, 76, 4096);
    put32(r, 80, 65536);
    put32(r, 92, 77);
    put64(r, 104, WIRE_GPU_NAME_TAG | 5);
    put64(r, 144, 0x100000004);
    if (l->kernel >= 176)
        put32(r, 156, 9);
    r = append(buffer, &n, COL_CUPTI_RUNTIME, 40);
    put32(r, 4, 211);
    put64(r, 8, 1700000000123450000);
    put64(r, 16, 1700000000123455000);
    put32(r, 28, 4242);
    put32(r, 32, 77);
    r = append(buffer, &n, COL_CUPTI_MEMCPY, l->copy);
    r[4] = 2;
    r[5] = 3;
    r[6] = 1;
    put64(r, 8, 1ull << 33);
    put64(r, 16, 10);
    put64(r, 24, 20);
    put32(r, 32, 1);
    put32(r, 36, 2);
    put32(r, 40, 14);
    put32(r, 44, 78);
    if (l->copy >= 80)
        put32(r, 72, 9);
    r = append(buffer, &n, COL_CUPTI_MEMSET, l->set);
    put64(r, 8, 512);
    put64(r, 16, 30);
    put64(r, 24, 40);
    put32(r, 40, 14);
    put32(r, 44, 79);
    put16(r, 50, 3);
    r = append(buffer, &n, COL_CUPTI_MEMCPY2, l->peer);
    r[4] = 10;
    put64(r, 8, 99);
    put64(r, 16, 50);
    put64(r, 24, 60);
    put32(r, 44, 6); /* source device */
    put32(r, 60, 80);
    r = append(buffer, &n, COL_CUPTI_EVENT, l->event);
    put32(r, 4, 81);
    put32(r, 8, 2);
    put32(r, 12, 14);
    put32(r, 16, 33);
    if (l->event >= 56)
        put64(r, 48, 1234);
    r = append(buffer, &n, COL_CUPTI_SYNC, l->sync);
    put32(r, 4, 2);
    put64(r, 8, 70);
    put64(r, 16, 80);
    put32(r, 24, 82);
    put32(r, 28, 2);
    put32(r, 32, UINT32_MAX);
    put32(r, 36, 33);
    if (l->sync == 56) {
        put64(r, 40, 1234);
        put32(r, 48, 600);
    }
    r = append(buffer, &n, COL_CUPTI_GRAPH, l->graph);
    put32(r, 4, 83);
    put64(r, 8, 90);
    put64(r, 16, 95);
    put32(r, 28, 9);
    put32(r, 36, 14);
    append(buffer, &n, COL_CUPTI_STREAM, 24);
    return n;
}

static void layouts_of_all_versions(void **state)
{
    (void)state;
    static uint8_t buffer[BUFFER];
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct layout *l = &layouts[i];
        struct col_cupti_record r[16];
        uint32_t bytes[COL_CUPTI_KINDS];
        size_t used = golden(buffer, l), at = 0, n = 0;
        col_cupti_bytes(l->version, bytes);
        while (n < 16 && col_cupti_next(bytes, buffer, used, &at, &r[n]) == 1)
            n++;
        assert_int_equal(n, 9);
        assert_int_equal(at, used);
        assert_int_equal(r[0].registers, 168);
        assert_int_equal(r[0].start, 1700000000123456789);
        assert_int_equal(r[0].end, 1700000000123459999);
        assert_int_equal(r[0].device, 3);
        assert_int_equal(r[0].stream, 20);
        assert_int_equal(r[0].grid[2], 1002);
        assert_int_equal(r[0].block[1], 33);
        assert_int_equal(r[0].static_shared + r[0].dynamic_shared, 69632);
        assert_int_equal(r[0].correlation, 77);
        assert_int_equal(r[0].name, WIRE_GPU_NAME_TAG | 5);
        assert_int_equal(r[0].graph_node, 0x100000004);
        assert_int_equal(r[0].graph, l->kernel >= 176 ? 9 : STORE_ABSENT);
        assert_int_equal(r[1].cbid, 211);
        assert_int_equal(r[1].thread, 4242);
        assert_int_equal(r[1].correlation, 77);
        assert_int_equal(r[2].size, 1ll << 33);
        assert_int_equal(r[2].copy_kind, 2);
        assert_int_equal(r[2].correlation, 78);
        assert_int_equal(r[2].graph, l->copy >= 80 ? 9 : STORE_ABSENT);
        assert_int_equal(r[3].size, 512);
        assert_int_equal(r[3].target_kind, 3);
        assert_int_equal(r[3].correlation, 79);
        assert_int_equal(r[4].correlation, 80);
        assert_int_equal(r[5].event, 33);
        assert_int_equal(r[5].event_record, l->event >= 56 ? 1234 : STORE_ABSENT);
        assert_int_equal(r[6].sync_kind, 2);
        assert_int_equal(r[6].stream, STORE_ABSENT);
        assert_int_equal(r[6].event_record, l->sync == 56 ? 1234 : STORE_ABSENT);
        assert_int_equal(r[6].result, l->sync == 56 ? 600 : 0);
        assert_int_equal(r[7].graph, 9);
        assert_int_equal(r[7].stream, 14);
        assert_int_equal(r[8].kind, COL_CUPTI_STREAM);
    }
}

/* A buffer cut at any byte: whole records come out, never more. */
static void truncated(void **state)
{
    (void)state;
    static uint8_t buffer[BUFFER];
    const struct layout *l = &layouts[LAYOUTS - 1];
    size_t used = golden(buffer, l), before = 0;
    uint32_t bytes[COL_CUPTI_KINDS];
    col_cupti_bytes(l->version, bytes);
    for (size_t cut = 0; cut <= used; cut++) {
        uint8_t *copy =
            malloc(cut ? cut : 1); /* exactly that long: a sanitizer sees a step too far */
        struct col_cupti_record r;
        size_t at = 0, n = 0;
        memcpy(copy, buffer, cut);
        while (at < cut && col_cupti_next(bytes, copy, cut, &at, &r) == 1)
            n++;
        assert_true(n >= before && n <= before + 1);
        before = n;
        free(copy);
    }
    assert_int_equal(before, 9);
}

static void unknown_kinds(void **state)
{
    (void)state;
    static uint8_t buffer[BUFFER];
    struct col_cupti_record r;
    uint32_t bytes[COL_CUPTI_KINDS];
    size_t at = 0;
    col_cupti_bytes(130001, bytes);
    memset(buffer, 0, 64);
    assert_int_equal(col_cupti_next(bytes, buffer, 64, &at, &r),
                     -1); /* kind 0: nothing was written there */
    put32(buffer, 0, 55);
    assert_int_equal(col_cupti_next(bytes, buffer, 64, &at, &r), -1);
    put32(buffer, 0, 0x7ffffffe);
    assert_int_equal(col_cupti_next(bytes, buffer, 64, &at, &r), -1);
    put32(buffer, 0, COL_CUPTI_END);
    assert_int_equal(col_cupti_next(bytes, buffer, 64, &at, &r), 0);
    assert_int_equal(at, 0);
    /* a kernel that has not ended is one, without times */
    static uint8_t begun[256];
    put32(begun, 0, COL_CUPTI_BEGUN | COL_CUPTI_CONCURRENT_KERNEL);
    assert_int_equal(col_cupti_next(bytes, begun, sizeof begun, &at, &r), 1);
    assert_int_equal(r.kind, COL_CUPTI_CONCURRENT_KERNEL);
    assert_int_equal(at, bytes[COL_CUPTI_CONCURRENT_KERNEL]);
    at = 0;
    /* one of which the agent has seen the size is stepped over */
    put32(buffer, 0, 55);
    bytes[55] = 32;
    assert_int_equal(col_cupti_next(bytes, buffer, 64, &at, &r), 1);
    assert_int_equal(at, 32);
    /* nothing is guessed for a version that is not known, or whose sizes are not: 18 is 11.8
     * and 12.0 */
    for (size_t i = 0; i < 3; i++) {
        const uint32_t version[] = {0, 18, 130600};
        uint32_t unknown[COL_CUPTI_KINDS];
        col_cupti_bytes(version[i], unknown);
        assert_int_equal(unknown[COL_CUPTI_CONCURRENT_KERNEL], 0);
    }
    /* functions of the host, as 13.1 records them */
    static uint8_t host[104];
    put32(host, 0, COL_CUPTI_HOST_NODE);
    put32(host, 4, 13);
    put32(host, 16, 77);
    put32(host, 20, 9);
    put64(host, 24, 3);
    put32(host, 36, 4242);
    put64(host, 40, 10);
    put64(host, 48, 20);
    put32(host, 56, COL_CUPTI_HOST_LAUNCH);
    put32(host, 60, 14);
    put32(host, 72, 78);
    put32(host, 80, 4243);
    put64(host, 88, 30);
    put64(host, 96, 40);
    at = 0;
    col_cupti_bytes(130101, bytes);
    assert_int_equal(col_cupti_next(bytes, host, sizeof host, &at, &r), 1);
    assert_int_equal(r.stream, 13);
    assert_int_equal(r.correlation, 77);
    assert_int_equal(r.graph, 9);
    assert_int_equal(r.graph_node, 3);
    assert_int_equal(r.thread, 4242);
    assert_int_equal(r.start, 10);
    assert_int_equal(r.end, 20);
    assert_int_equal(col_cupti_next(bytes, host, sizeof host, &at, &r), 1);
    assert_int_equal(r.stream, 14);
    assert_int_equal(r.correlation, 78);
    assert_int_equal(r.thread, 4243);
    assert_int_equal(r.start, 30);
    assert_int_equal(r.end, 40);
    assert_int_equal(at, sizeof host);
    /* a kernel of a version to come, longer than any we know */
    size_t used = 0;
    col_cupti_bytes(130001, bytes);
    struct layout next = layouts[LAYOUTS - 1];
    next.kernel = 296;
    used = golden(buffer, &next);
    bytes[COL_CUPTI_CONCURRENT_KERNEL] = 296;
    at = 0;
    assert_int_equal(col_cupti_next(bytes, buffer, used, &at, &r), 1);
    assert_int_equal(r.correlation, 77);
    assert_int_equal(at, 296);
}

/* Does the library survive being asked for its version? CUPTI 13.2 does not, without a driver. */
static bool answers(int (*get_version)(uint32_t *))
{
    uint32_t version;
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(get_version(&version) ? 1 : 0);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The real library steps over the same buffer in the same steps. It needs no driver for that. */
static void the_real_library(void **state)
{
    (void)state;
    static uint8_t buffer[BUFFER];
    const char *home = getenv("CUDA_HOME");
    char path[512];
    snprintf(path, sizeof path, "%s/lib64/libcupti.so", home ? home : "/usr/local/cuda");
    void *h = dlopen(path, RTLD_NOW);
    int (*next)(uint8_t *, size_t, uint8_t **) =
        h ? (int (*)(uint8_t *, size_t, uint8_t **))(uintptr_t)dlsym(h,
                                                                     "cuptiActivityGetNextRecord")
          : NULL;
    int (*get_version)(uint32_t *) =
        h ? (int (*)(uint32_t *))(uintptr_t)dlsym(h, "cuptiGetVersion") : NULL;
    uint32_t version = 0, bytes[COL_CUPTI_KINDS];
    const struct layout *l = NULL;
    if (!next || !get_version || !answers(get_version) || get_version(&version)) {
        print_message("no libcupti here that works without a driver\n");
        skip();
    }
    for (size_t i = 0; i < LAYOUTS; i++)
        if (layouts[i].version <= version)
            l = &layouts[i];
    assert_non_null(l);
    col_cupti_bytes(version, bytes);
    if (!bytes[COL_CUPTI_KERNEL]) {
        print_message("version %u: sizes are not known before they are seen\n", version);
        skip();
    }
    size_t used = golden(buffer, l), at = 0;
    for (size_t cut = 0; cut <= used; cut += 8) {
        uint8_t *theirs = NULL;
        struct col_cupti_record r;
        int mine = 1;
        for (at = 0; mine == 1;) {
            size_t from = at;
            int rc = next(buffer, cut, &theirs);
            mine = at < cut ? col_cupti_next(bytes, buffer, cut, &at, &r) : 0;
            assert_int_equal(rc == 0, mine == 1);
            if (mine == 1)
                assert_int_equal(theirs - buffer, from);
        }
    }
    assert_int_equal(at, used);
    put32(buffer, used, COL_CUPTI_END);
    at = 0;
    for (uint8_t *theirs = NULL; next(buffer, used + 64, &theirs) == 0;) {
        struct col_cupti_record r;
        assert_int_equal(theirs - buffer, at);
        assert_int_equal(col_cupti_next(bytes, buffer, used + 64, &at, &r), 1);
    }
    assert_int_equal(at, used);
}

static void clock_with_eras(void **state)
{
    (void)state;
    struct col_gpu_clock *c = calloc(1, sizeof *c);
    const int64_t s = 1000000000, real = 1700000000 * s;
    assert_int_equal(col_gpu_clock_ns(c, 5), STORE_ABSENT);
    /* CLOCK_REALTIME, one anchor: an offset */
    col_gpu_clock_add(c, real, 100 * s, 0);
    assert_int_equal(col_gpu_clock_ns(c, (uint64_t)(real + 5)), 100 * s + 5);
    /* slewed by 100 ppm */
    for (int i = 1; i <= 10; i++)
        col_gpu_clock_add(c, real + i * s + i * 100000, 100 * s + i * s, 0);
    assert_in_range(col_gpu_clock_ns(c, (uint64_t)(real + 4 * s + 400000 + s / 2 + 50000)),
                    104 * s + s / 2 - 1, 104 * s + s / 2 + 1);
    assert_in_range(col_gpu_clock_ns(c, (uint64_t)(real + 10 * s + 1000000 + 1000)), 110 * s + 998,
                    110 * s + 1001);
    /* somebody makes it a counter of 2.6 GHz */
    for (int i = 0; i <= 5; i++)
        col_gpu_clock_add(c, 7 * s + i * 2600000000ll, 111 * s + i * s, 0);
    assert_int_equal(c->eras, 2);
    assert_in_range(col_gpu_clock_ns(c, (uint64_t)(7 * s + 2600000000ll + 1300000000)),
                    112 * s + s / 2 - 2, 112 * s + s / 2 + 2);
    /* records of the time before still find their era */
    assert_in_range(col_gpu_clock_ns(c, (uint64_t)(real + 9 * s + 900000)), 109 * s - 1,
                    109 * s + 1);
    /* a time of no era is not known, nor is one of an era with a single anchor */
    assert_int_equal(col_gpu_clock_ns(c, (uint64_t)(real + 60 * s)), STORE_ABSENT);
    assert_false(col_gpu_clock_knows(c, (uint64_t)(real + 60 * s)));
    /* more anchors than are kept */
    for (int i = 6; i < 3000; i++)
        col_gpu_clock_add(c, 7 * s + i * 2600000000ll, 111 * s + i * s, 0);
    assert_in_range(col_gpu_clock_ns(c, (uint64_t)(7 * s + 2900 * 2600000000ll)), 3011 * s - 2,
                    3011 * s + 2);
    free(c);
}

/* As Kineto does it: CUPTI's clock becomes the time stamp counter, of 2.6 GHz. */
static void clock_of_ticks(void **state)
{
    (void)state;
    const int64_t s = 1000000000, real = 1700000000 * s, tsc = 50 * s;
    for (int known = 0; known < 2; known++) {
        struct col_gpu_clock *c = calloc(1, sizeof *c);
        for (int i = 0; i < 3; i++)
            col_gpu_clock_add(c, real + i * s, 100 * s + i * s, known ? tsc + i * 26 * s / 10 : 0);
        int64_t at = tsc + 3 * 26 * s / 10, late = at + 13 * s / 10, early = at - 13 * s / 10;
        assert_false(col_gpu_clock_knows(c, (uint64_t)at));
        col_gpu_clock_add(c, at, 103 * s, known ? at + 70 : 0);
        assert_int_equal(c->eras, 2);
        assert_int_equal(col_gpu_clock_knows(c, (uint64_t)at), known);
        assert_int_equal(col_gpu_clock_ns(c, (uint64_t)late),
                         known ? 103 * s + s / 2 : STORE_ABSENT);
        col_gpu_clock_add(c, at + 26 * s / 10, 104 * s, 0);
        assert_int_equal(c->eras, 2);
        assert_int_equal(col_gpu_clock_ns(c, (uint64_t)late), 103 * s + s / 2);
        assert_int_equal(col_gpu_clock_ns(c, (uint64_t)early), 102 * s + s / 2);
        assert_int_equal(col_gpu_clock_ns(c, (uint64_t)(real + s / 2)), 100 * s + s / 2);
        free(c);
    }
}

/* The anchors lie in memory of the process, which may put anything there. What cannot be a time is
 * not one, and a conversion that leaves the range of times gives none. (Sanitizers see what
 * overflows.) */
static void clock_of_overwritten_anchors(void **state)
{
    (void)state;
    const int64_t s = 1000000000;
    const struct wire_gpu_anchor anchors[] = {
        {.cupti = INT64_MAX, .monotonic = 100 * s},
        {.cupti = UINT64_MAX, .monotonic = 100 * s},
        {.cupti = 7 * s, .monotonic = INT64_MIN},
        {.cupti = 7 * s, .monotonic = INT64_MAX},
        {.cupti = 7 * s, .monotonic = 100 * s, .tsc = UINT64_MAX},
        {.cupti = 8 * s, .monotonic = 101 * s},
        {.cupti = 9 * s, .monotonic = 102 * s},
    };
    const uint32_t count = sizeof anchors / sizeof *anchors;
    struct col_gpu_clock *c = calloc(1, sizeof *c);
    struct wire_gpu *gpu = calloc(1, sizeof *gpu);
    memcpy(gpu->anchor, anchors, sizeof anchors);
    atomic_store(&gpu->anchors, count);
    col_gpu_clock_read(c, gpu);
    assert_int_equal(c->count, 2); /* the last two */
    assert_int_equal(col_gpu_clock_ns(c, (uint64_t)(8 * s + s / 2)), 101 * s + s / 2);
    /* A tick that lasts 2^61 ns. */
    gpu->anchor[count] = (struct wire_gpu_anchor){.cupti = 9 * s + 1, .monotonic = INT64_MAX / 4};
    atomic_store(&gpu->anchors, count + 1);
    col_gpu_clock_read(c, gpu);
    gpu->anchor[count + 1] =
        (struct wire_gpu_anchor){.cupti = 20 * s, .monotonic = INT64_MAX / 4 - s};
    atomic_store(&gpu->anchors, count + 2);
    col_gpu_clock_read(c, gpu);
    for (int64_t time = 0; time < 30 * s; time += s / 3) {
        int64_t at = col_gpu_clock_ns(c, (uint64_t)time);
        assert_true(at == STORE_ABSENT || (at >= 0 && at <= INT64_MAX / 4));
    }
    free(gpu);
    free(c);
}

static void demangled(void **state)
{
    (void)state;
    char *text = col_demangle("_Z9vectorAddPKfS0_Pfi");
    if (!text) {
        print_message("no C++ runtime here\n");
        skip();
    }
    assert_string_equal(text, "vectorAdd(float const*, float const*, float*, int)");
    free(text);
    assert_null(col_demangle("ampere_bf16_s16816gemm"));
    assert_null(col_demangle("_Znonsense$$"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_of_all_versions),
        cmocka_unit_test(truncated),
        cmocka_unit_test(unknown_kinds),
        cmocka_unit_test(the_real_library),
        cmocka_unit_test(clock_with_eras),
        cmocka_unit_test(clock_of_ticks),
        cmocka_unit_test(clock_of_overwritten_anchors),
        cmocka_unit_test(demangled),
    };
    return cmocka_run_group_tests_name("collector: CUPTI records", tests, NULL, NULL);
}
