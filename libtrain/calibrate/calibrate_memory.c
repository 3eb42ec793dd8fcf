/* SPDX-License-Identifier: Apache-2.0
 *
 * Bandwidth of memory and of each cache: McCalpin's triad, a read and a write, all usable cores at
 * once, each thread on operands of its own. Bytes are those that the loop names: 24 an element of
 * the triad, 8 of read and write; what a cache fetches before it is written over is not included.
 * So that no operation of the engine can beat the roof of memory by avoiding that fetch, the triad
 * is measured in three forms, and the best is the roof: plain stores, stores past the caches, in
 * place.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "libtrain/base/arena.h"
#include "libtrain/base/openmp.h"
#include "libtrain/calibrate/calibrate.h"
#include "libtrain/ops/ops.h"

#define LANES       8  /* doubles of a vector */
#define UNROLL      4  /* vectors a round */
#define LINES_APART 17 /* cache lines between operands: their low address bits differ */

typedef double vector __attribute__((vector_size(64), aligned(64)));

/* The operands of one thread: n vectors each, n a multiple of UNROLL. */
struct operands {
    vector *a, *b, *c;
    size_t n;
};

typedef void (*loop)(const struct operands *o, double s);

/* McCalpin's triad a = b + s c, with plain stores: each cache line of a is read before it is
 * overwritten. */
static void triad(const struct operands *operands, double s)
{
    vector *restrict a = operands->a, k = {s, s, s, s, s, s, s, s};
    const vector *restrict b = operands->b, *restrict c = operands->c;
    for (size_t i = 0; i < operands->n; i += UNROLL) {
        a[i] = b[i] + k * c[i];
        a[i + 1] = b[i + 1] + k * c[i + 1];
        a[i + 2] = b[i + 2] + k * c[i + 2];
        a[i + 3] = b[i + 3] + k * c[i + 3];
    }
}

/* a += k b: reads two, writes one, as the triad does, but what it writes it has read. */
static void triad_in_place(const struct operands *operands, double s)
{
    vector *restrict a = operands->a, k = {s, s, s, s, s, s, s, s};
    const vector *restrict b = operands->b;
    for (size_t i = 0; i < operands->n; i += UNROLL) {
        a[i] += k * b[i];
        a[i + 1] += k * b[i + 1];
        a[i + 2] += k * b[i + 2];
        a[i + 3] += k * b[i + 3];
    }
}

/* Reads and writes every element once, as an optimizer without state does. */
static void update(const struct operands *operands, double s)
{
    vector *restrict a = operands->a, k = {s, s, s, s, s, s, s, s};
    for (size_t i = 0; i < operands->n; i += UNROLL) {
        a[i] *= k;
        a[i + 1] *= k;
        a[i + 2] *= k;
        a[i + 3] *= k;
    }
}

/* Sums what it reads, and hands the sum to the compiler as if it were used: else nothing would be
 * read. */
static void read_all(const struct operands *operands, double s)
{
    const vector *restrict a = operands->a;
    vector sums[UNROLL] = {{s}, {s}, {s}, {s}};
    for (size_t i = 0; i < operands->n; i += UNROLL) {
        sums[0] += a[i];
        sums[1] += a[i + 1];
        sums[2] += a[i + 2];
        sums[3] += a[i + 3];
    }
    sums[0] += sums[1] + sums[2] + sums[3];
    __asm__ volatile("" : : "m"(sums[0]));
}

static void write_all(const struct operands *operands, double s)
{
    vector *restrict a = operands->a, k = {s, s, s, s, s, s, s, s};
    for (size_t i = 0; i < operands->n; i++) {
        a[i] = k;
        __asm__ volatile("" : : : "memory"); /* else it becomes a call of memset */
    }
}

#if defined(__x86_64__)
/* A whole line, past the caches. */
static inline void stream(vector *target, const vector *from)
{
#if defined(__AVX512F__)
    _mm512_stream_pd((double *)target, *(const __m512d *)from);
#else
    for (int i = 0; i < LANES; i += 2)
        _mm_stream_pd((double *)target + i, _mm_load_pd((const double *)from + i));
#endif
}

static void triad_stream(const struct operands *operands, double s)
{
    vector *restrict a = operands->a, k = {s, s, s, s, s, s, s, s};
    const vector *restrict b = operands->b, *restrict c = operands->c;
    for (size_t i = 0; i < operands->n; i++) {
        vector result = b[i] + k * c[i];
        stream(&a[i], &result);
    }
    _mm_sfence();
}

static void write_stream(const struct operands *operands, double s)
{
    vector *restrict a = operands->a, k = {s, s, s, s, s, s, s, s};
    for (size_t i = 0; i < operands->n; i++)
        stream(&a[i], &k);
    _mm_sfence();
}
#endif

struct form {
    const char *name;
    loop run;
    int bytes; /* an element */
    int operands;
};
static const struct form forms_triad[] = {
    {"triad a = b + s c", triad, 24, 3},
#if defined(__x86_64__)
    {"triad a = b + s c, stores past the caches", triad_stream, 24, 3},
#endif
    {"triad in place, a = a + s b", triad_in_place, 24, 2},
    {0}};
static const struct form forms_read[] = {{"read", read_all, 8, 1}, {0}};
static const struct form forms_update[] = {{"update in place, a = s a", update, 16, 1}, {0}};
static const struct form forms_write[] = {{"write", write_all, 8, 1},
#if defined(__x86_64__)
                                          {"write, stores past the caches", write_stream, 8, 1},
#endif
                                          {0}};

/* ---- caches ------------------------------------------------------------------------------------------------------------------ */

/* Reads the beginning of a file; a file that cannot be read is empty. */
static void read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t bytes = file ? fread(text, 1, size - 1, file) : 0;
    if (file)
        fclose(file);
    text[bytes] = 0;
}

/* The number at the start of a file of sysfs and the character after it ("48K"); -1: no number. */
static int64_t read_number(const char *path, char *unit)
{
    char text[64], *end;
    read_text(path, text, sizeof text);
    long long value = strtoll(text, &end, 10);
    *unit = *end;
    return end == text ? -1 : value;
}

/* Cores of a list as "0-3,8". */
static int count_list(const char *path)
{
    char text[1024], *cursor = text;
    int count = 0;
    read_text(path, text, sizeof text);
    while (*cursor >= '0' && *cursor <= '9') {
        long first = strtol(cursor, &cursor, 10),
             last = *cursor == '-' ? strtol(cursor + 1, &cursor, 10) : first;
        count += (int)(last - first + 1);
        cursor += *cursor == ',';
    }
    return count;
}

int64_t lt_cache_bytes(int level, int *cores)
{
    static const int names[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                                _SC_LEVEL3_CACHE_SIZE};
    for (int i = 0; i < 8; i++) {
        char path[96], unit, type[2];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (read_number(path, &unit) != level)
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        read_text(path, type, sizeof type);
        if (type[0] == 'I')
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        int64_t size = read_number(path, &unit);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list",
                 i);
        *cores = count_list(path);
        if (size > 0 && unit == 'M')
            return size << 20;
        if (size > 0)
            return unit == 'K' ? size << 10 : size;
    }
    long size = sysconf(names[level]);
    *cores = level == 3 ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 1;
    return size > 0 ? size : 0;
}

/* ---- measuring --------------------------------------------------------------------------------------------------------------- */

/* Operands of `bytes` each for every thread, in one arena. */
struct buffers {
    struct lt_arena arena;
    size_t vectors, stride; /* of one operand: worked on, and from one to the next */
};

static int buffers_create(struct buffers *buffers, int64_t bytes, int threads)
{
    float *base;
    buffers->vectors = (size_t)bytes / sizeof(vector) / UNROLL * UNROLL;
    buffers->stride = buffers->vectors + LINES_APART;
    struct lt_tensor table[] = {
        {"buffers", 3 * (size_t)threads * buffers->stride * LANES * 2, &base}};
    return lt_arena_create(&buffers->arena, LT_MEMORY_WORKSPACE, table, 1);
}

/* Seconds of `passes` passes of all threads. */
static double run(const struct buffers *buffers, loop body, int64_t passes)
{
    double begin = 0;
#pragma omp parallel
    {
        vector *base = (vector *)(void *)buffers->arena.base +
                       3 * (size_t)omp_get_thread_num() * buffers->stride;
        struct operands operands = {base, base + buffers->stride, base + 2 * buffers->stride,
                                    buffers->vectors};
#pragma omp barrier
#pragma omp master
        begin = lt_seconds();
#pragma omp barrier
        for (int64_t i = 0; i < passes; i++) {
            body(&operands, 1e-9);
            __asm__ volatile("" : : : "memory");
        }
    }
    return lt_seconds() - begin;
}

/* Passes that last that long, judged by the better of two tries: on a busy machine a thread may be
 * off its core in one. */
static int64_t enough_passes(const struct buffers *buffers, loop body, double seconds)
{
    int64_t passes = 1;
    for (;;) {
        double once = run(buffers, body, passes), again = run(buffers, body, passes),
               least = once < again ? once : again;
        if (least >= 0.5 * seconds)
            return passes;
        double more = least > 0 ? 0.8 * seconds / least : 16;
        passes = (int64_t)((double)passes * fmin(fmax(more, 2), 16));
    }
}

/* All forms over the buffers; the row is the best of them. */
static int measure(struct lt_calibration *calibration, const struct lt_calibrate_options *options,
                   enum lt_ceiling_id id, const struct buffers *buffers, const struct form *forms,
                   const char *where)
{
    struct lt_repeats repeats = lt_calibrate_repeats(options);
    double best[LT_CALIBRATE_REPEATS], bytes = 0;
    const struct form *won = NULL;
    int threads = lt_threads();
    for (const struct form *form = forms; form->run; form++) {
        double seconds[LT_CALIBRATE_REPEATS];
        int64_t passes = enough_passes(buffers, form->run, repeats.seconds);
        for (int i = 0; i < repeats.count; i++)
            seconds[i] = run(buffers, form->run, passes) / (double)passes;
        lt_median(seconds, repeats.count);
        if (!won || seconds[0] < best[0]) {
            memcpy(best, seconds, sizeof best);
            won = form;
        }
    }

    bytes = (double)won->bytes * (double)(buffers->vectors * LANES) * threads;
    double kib = (double)(buffers->vectors * sizeof(vector)) / 1024;
    int large = kib >= 1024;
    const char *unit = large ? "MiB" : "KiB";
    return lt_calibration_add(calibration, id, "", bytes, best, repeats.count,
                              "%s; %d threads, %s, %d operand%s of %.4g %s a thread", won->name,
                              threads, where, won->operands, tacho_plural(won->operands),
                              large ? kib / 1024 : kib, unit);
}

/* Bytes of a level that the usable cores have together, as the system reports them. */
static int add_size(struct lt_calibration *calibration, int level)
{
    static const enum lt_ceiling_id ids[] = {LT_CEILING_COUNT, LT_CEILING_CACHE_L1,
                                             LT_CEILING_CACHE_L2, LT_CEILING_CACHE_L3};
    int cores, threads = lt_threads();
    int64_t size = lt_cache_bytes(level, &cores);
    if (size <= 0)
        return lt_calibration_absent(calibration, ids[level], "",
                                     "none: this machine does not report it",
                                     "the size of this cache is not known");
    int caches = cores > 0 ? (threads + cores - 1) / cores : threads;
    double bytes = (double)size * caches;
    return lt_calibration_add(calibration, ids[level], "", 0, &bytes, 1,
                              "as the system reports: %d of %lld KiB", caches,
                              (long long)(size >> 10));
}

/* The three operands of a thread fill half of its share of the level. */
static int measure_level(struct lt_calibration *calibration,
                         const struct lt_calibrate_options *options, int level)
{
    static const enum lt_ceiling_id ids[] = {LT_CEILING_COUNT, LT_CEILING_BANDWIDTH_L1,
                                             LT_CEILING_BANDWIDTH_L2, LT_CEILING_BANDWIDTH_L3};
    struct buffers buffers = {0};
    char where[48];
    int cores, below_cores, threads = lt_threads();
    int64_t size = lt_cache_bytes(level, &cores),
            below = level > 1 ? lt_cache_bytes(level - 1, &below_cores) : 0;
    if (size <= 0)
        return lt_calibration_absent(calibration, ids[level], "",
                                     "none: this machine does not report it",
                                     "the size of this cache is not known");
    int sharers = cores < threads ? cores : threads;
    int64_t share = size / (sharers < 1 ? 1 : sharers);
    if (share <= 2 * below)
        return lt_calibration_absent(
            calibration, ids[level], "", "none: the level below holds what a core has of it",
            "a core's share, %lld KiB, is no more than twice the %lld KiB of the level below",
            (long long)(share >> 10), (long long)(below >> 10));
    int rc = buffers_create(&buffers, share / 6, threads);
    if (rc)
        return rc;
    snprintf(where, sizeof where, "L%d of %lld KiB, %d core%s", level, (long long)(size >> 10),
             cores, tacho_plural(cores));
    rc = measure(calibration, options, ids[level], &buffers, forms_triad, where);
    lt_arena_destroy(&buffers.arena);
    return rc;
}

static const struct {
    enum lt_ceiling_id id;
    const struct form *forms;
} of_memory[] = {{LT_CEILING_BANDWIDTH, forms_triad},
                 {LT_CEILING_BANDWIDTH_READ, forms_read},
                 {LT_CEILING_BANDWIDTH_WRITE, forms_write},
                 {LT_CEILING_BANDWIDTH_UPDATE, forms_update}};

int lt_calibrate_memory(struct lt_calibration *calibration,
                        const struct lt_calibrate_options *options)
{
    struct buffers buffers = {0};
    int cores, threads = lt_threads(), rc = 0;
    for (int level = 1; level <= 3 && rc == 0; level++) {
        rc = add_size(calibration, level);
        if (rc == 0)
            rc = measure_level(calibration, options, level);
    }
    /* each operand of all threads together is four times the last cache, as STREAM asks; not more
     * than a tenth of memory */
    int64_t last = options->last_cache ? options->last_cache : lt_cache_bytes(3, &cores),
            most = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 30;
    int64_t operand = last > (16 << 20) || options->last_cache ? 4 * last : 64 << 20;
    operand = operand > most ? most : operand;
    if (rc == 0 && buffers_create(&buffers, operand / threads, threads))
        return lt_calibration_absent(calibration, LT_CEILING_BANDWIDTH, "", "free some memory",
                                     "%lld MiB of memory are not available",
                                     (long long)(3 * operand >> 20));
    for (size_t i = 0; i < sizeof of_memory / sizeof *of_memory && rc == 0; i++)
        rc = measure(calibration, options, of_memory[i].id, &buffers, of_memory[i].forms, "memory");
    lt_arena_destroy(&buffers.arena);
    return rc;
}
