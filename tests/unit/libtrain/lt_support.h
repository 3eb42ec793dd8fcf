/* SPDX-License-Identifier: Apache-2.0
 *
 * For the test_lt_*.c programs: arrays of random numbers that are freed together, comparison of
 * arrays, small texts in a folder.
 */
#ifndef LT_SUPPORT_H
#define LT_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libtrain/data/source.h"
#include "libtrain/models/model.h"
#include "libtrain/ops/ops.h"
#include "libtrain/ops/random.h"
#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

/* The thread sanitizer does not know libgomp's barriers and reports races that are none: there,
 * OpenMP gets one thread. The loader's threads are watched all the same. */
#if defined(__SANITIZE_THREAD__)
#define LT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LT_TSAN 1
#endif
#endif

#define POOL_CAP 4096

static void *pool[POOL_CAP];
static size_t pool_used;

static inline void *pool_bytes(size_t bytes)
{
    assert_true(pool_used < POOL_CAP);
    void *p =
        malloc(bytes ? bytes : 1); /* exact: the address sanitizer sees one element too many */
    assert_non_null(p);
    memset(p, 0, bytes);
    pool[pool_used++] = p;
    return p;
}

static inline int pool_free(void **state)
{
    (void)state;
    while (pool_used > 0)
        free(pool[--pool_used]);
    return 0;
}

static inline float *zeros(int64_t n)
{
    return pool_bytes((size_t)n * sizeof(float));
}

static inline float *normals(int64_t n, uint64_t key, float deviation)
{
    float *x = zeros(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = deviation * lt_random_normal(key, (uint64_t)i);
    return x;
}

static inline float *copy_of(const float *x, int64_t n)
{
    float *y = zeros(n);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

/* The same values as elements of a type, rounded; and elements as floats. */
static inline void *typed(enum lt_dtype dtype, const float *x, int64_t n)
{
    if (dtype == LT_DTYPE_FP32)
        return copy_of(x, n);
    uint16_t *y = pool_bytes((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        lt_element_put(y, i, dtype, x[i]);
    return y;
}

static inline float *floats(enum lt_dtype dtype, const void *x, int64_t n)
{
    if (dtype == LT_DTYPE_FP32)
        return copy_of(x, n);
    float *y = zeros(n);
    for (int64_t i = 0; i < n; i++)
        y[i] = lt_element_get(x, i, dtype);
    return y;
}

static inline int32_t *words(int64_t n, uint64_t key, int64_t v)
{
    int32_t *x = pool_bytes((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)(lt_random_bits(key, (uint64_t)i) % (uint64_t)v);
    return x;
}

/* |got - want| <= tolerance * (root mean square of want + |want|), element by element; NaN fails.
 */
static inline void assert_near(const char *what, const float *got, const float *want, int64_t n,
                               double tolerance)
{
    double square = 0;
    for (int64_t i = 0; i < n; i++)
        square += (double)want[i] * want[i];
    double rms = sqrt(square / (double)(n ? n : 1));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance * (rms + fabs((double)want[i])) + 1e-12))
            fail_msg("%s: element %lld of %lld is %.9g, expected %.9g", what, (long long)i,
                     (long long)n, (double)got[i], (double)want[i]);
}

/* A folder under $TMPDIR for one test; its name is static. */
static inline const char *scratch_folder(void)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/test_lt_XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

/* Writes `bytes` printable bytes drawn from `key` to PATH. */
static inline void write_text(const char *path, size_t bytes, uint64_t key)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(32 + lt_random_bits(key, i) % 95), f);
    assert_int_equal(fclose(f), 0);
}

/* The text of a file in samples of `t`; freed with lt_source_close. */
static inline struct lt_source *open_text_source(const char *path, int64_t t)
{
    struct tacho_error err = {0};
    struct lt_dataset *data = NULL;
    struct lt_source *source = NULL;
    if (lt_dataset_open(&data, &path, 1, &err) || lt_source_open_text(&source, data, t, &err))
        fail_msg("%s", err.what);
    return source;
}

/* Of a backward pass that tells which gradients are final: how often each element, and its value at
 * that time. */
struct told {
    const struct lt_parameters *p;
    unsigned char *times;
    float *value;
    size_t elements;
};

static inline void tell(void *arg, size_t first, size_t count)
{
    struct told *t = arg;
    assert_true(count > 0 && first + count <= t->p->count);
    for (size_t i = first; i < first + count; i++) {
        t->times[i]++;
        t->value[i] = t->p->grad[i];
    }
    t->elements += count;
}

/* To be called first in main. */
static inline void calm_openmp(void)
{
#ifdef LT_TSAN
    lt_threads_limit(1);
#endif
}

#endif
