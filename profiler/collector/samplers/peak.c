/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction peak of the CPUs. The loops are written in assembler: what is measured is the
 * hardware, not what a compiler makes of the loop at some -O level. 14 independent accumulators
 * cover the latency of every CPU's multiply-add units (4-5 cycles on two ports need 8-10).
 */
#include "profiler/collector/samplers/peak.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/machine.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/os/text.h"
#include "tacho_folder.h"

#define RUN_NS      15000000
#define RUNS        6
#define RUNS_MAX    256
#define GLANCE_NS   4000000 /* of a run with a cached value */
#define GLANCE_RUNS 2
#define CPUS_MAX    1024

#define CLOBBER \
    "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define ZERO_ALL \
    "vpxor %%xmm0,%%xmm0,%%xmm0\n vpxor %%xmm1,%%xmm1,%%xmm1\n vpxor %%xmm2,%%xmm2,%%xmm2\n " \
    "vpxor %%xmm3,%%xmm3,%%xmm3\n" \
    "vpxor %%xmm4,%%xmm4,%%xmm4\n vpxor %%xmm5,%%xmm5,%%xmm5\n vpxor %%xmm6,%%xmm6,%%xmm6\n " \
    "vpxor %%xmm7,%%xmm7,%%xmm7\n" \
    "vpxor %%xmm8,%%xmm8,%%xmm8\n vpxor %%xmm9,%%xmm9,%%xmm9\n vpxor %%xmm10,%%xmm10,%%xmm10\n" \
    "vpxor %%xmm11,%%xmm11,%%xmm11\n vpxor %%xmm12,%%xmm12,%%xmm12\n vpxor " \
    "%%xmm13,%%xmm13,%%xmm13\n" \
    "vpxor %%xmm14,%%xmm14,%%xmm14\n vpxor %%xmm15,%%xmm15,%%xmm15\n"
#define FMA(op, r, n) op " %%" r "0,%%" r "1,%%" r #n "\n"
#define FMA_14(op, r) \
    FMA(op, r, 2) \
    FMA(op, r, 3) \
    FMA(op, r, 4) \
    FMA(op, r, 5) \
    FMA(op, r, 6) \
    FMA(op, r, 7) \
    FMA(op, r, 8) \
    FMA(op, r, 9) \
    FMA(op, r, 10) FMA(op, r, 11) FMA(op, r, 12) FMA(op, r, 13) FMA(op, r, 14) FMA(op, r, 15)

/* Each runs n rounds of 14 multiply-adds on all lanes. */
#define FMA_LOOP(name, op, r) \
    static void name(uint64_t n) \
    { \
        __asm__ volatile(ZERO_ALL "1:\n" FMA_14(op, r) "dec %0\n jnz 1b\n vzeroupper\n" \
                         : "+r"(n) \
                         : \
                         : CLOBBER); \
    }
FMA_LOOP(avx512_fp32, "vfmadd231ps", "zmm")
FMA_LOOP(avx512_fp64, "vfmadd231pd", "zmm")
FMA_LOOP(avx2_fp32, "vfmadd231ps", "ymm")
FMA_LOOP(avx2_fp64, "vfmadd231pd", "ymm")

/* Without fused multiply-add: a multiply and an add side by side, seven of each. */
#define SSE_PAIR(mul, add, a, b) mul " %%xmm0,%%xmm" #a "\n" add " %%xmm1,%%xmm" #b "\n"
#define SSE_LOOP(name, mul, add) \
    static void name(uint64_t n) \
    { \
        __asm__ volatile( \
            "xorps %%xmm0,%%xmm0\n xorps %%xmm1,%%xmm1\n xorps %%xmm2,%%xmm2\n xorps " \
            "%%xmm3,%%xmm3\n" \
            "xorps %%xmm4,%%xmm4\n xorps %%xmm5,%%xmm5\n xorps %%xmm6,%%xmm6\n xorps " \
            "%%xmm7,%%xmm7\n" \
            "xorps %%xmm8,%%xmm8\n xorps %%xmm9,%%xmm9\n xorps %%xmm10,%%xmm10\n xorps " \
            "%%xmm11,%%xmm11\n" \
            "xorps %%xmm12,%%xmm12\n xorps %%xmm13,%%xmm13\n xorps %%xmm14,%%xmm14\n xorps " \
            "%%xmm15,%%xmm15\n1:\n" SSE_PAIR(mul, add, 2, 3) SSE_PAIR(mul, add, 4, 5) \
                SSE_PAIR(mul, add, 6, 7) SSE_PAIR(mul, add, 8, 9) SSE_PAIR(mul, add, 10, 11) \
                    SSE_PAIR(mul, add, 12, 13) SSE_PAIR(mul, add, 14, 15) "dec %0\n jnz 1b\n" \
            : "+r"(n) \
            : \
            : CLOBBER); \
    }
SSE_LOOP(sse_fp32, "mulps", "addps")
SSE_LOOP(sse_fp64, "mulpd", "addpd")

/* Pairs of bf16 multiplications added to fp32: 16 lanes of two multiply-adds. */
FMA_LOOP(avx512_bf16, "vdpbf16ps", "zmm")

/* Tiles of 16 rows of 64 bytes: palette 1, then bytes a row of eight tiles, then their rows. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* A product of tiles is 16 x 16 x 32 multiply-adds. Six accumulators cover its latency. The
 * configuration is a whole memory operand: compilers that are told of its first bytes only drop the
 * stores of the rest. */
#define TILE(n) "tdpbf16ps %%tmm7,%%tmm6,%%tmm" #n "\n"
static void amx_bf16(uint64_t rounds)
{
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    __asm__ volatile(
        "ldtilecfg %1\n tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n"
        "tilezero %%tmm4\n tilezero %%tmm5\n tilezero %%tmm6\n tilezero %%tmm7\n"
        "1:\n" TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) "dec %0\n jnz 1b\n tilerelease\n"
        : "+r"(rounds)
        : "m"(config)
        : "cc");
}

struct isa {
    const char *name;
    void (*fp32)(uint64_t n), (*fp64)(uint64_t n);
    double flops32, flops64; /* of a round */
};
struct isa_bf16 {
    const char *name;
    void (*loop)(uint64_t n);
    double flops;
};

static const struct isa isa_avx512 = {"AVX-512", avx512_fp32, avx512_fp64, 14 * 16 * 2, 14 * 8 * 2};
static const struct isa isa_avx2 = {"AVX2", avx2_fp32, avx2_fp64, 14 * 8 * 2, 14 * 4 * 2};
static const struct isa isa_sse = {"SSE2", sse_fp32, sse_fp64, 14 * 4, 14 * 2};
static const struct isa_bf16 isa_amx = {"AMX", amx_bf16, 6 * 16 * 16 * 32 * 2};
static const struct isa_bf16 isa_avx512_bf16 = {"AVX-512 BF16", avx512_bf16, 14 * 32 * 2};

/* The widest vectors that CPU and system support. */
static const struct isa *choose_isa(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return &isa_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &isa_avx2;
    return &isa_sse;
}

/* Does the system save tiles when it switches threads, and let this process use them? On Linux a
 * process must request them. */
static bool tiles_allowed(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* cpuid leaf 7: subleaf 0 EDX bit 22 AMX-BF16, bit 24 AMX-TILE; subleaf 1 EAX bit 5 AVX512_BF16.
 * Compilers of some years ago have no names for them. */
static const struct isa_bf16 *choose_bf16(const struct isa *isa)
{
    unsigned eax, ebx, ecx, edx;
    if (isa != &isa_avx512 || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return NULL;
    if ((edx >> 22 & 1) && (edx >> 24 & 1) && tiles_allowed())
        return &isa_amx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 5 & 1) ? &isa_avx512_bf16
                                                                             : NULL;
}

/* The state by which the workers and the thread that waits for them go through the runs in step. */
struct phases {
    atomic_int go, done; /* runs begun, workers that have finished theirs */
    atomic_bool abandon;
};

struct worker {
    pthread_t thread;
    int cpu;
    bool started;
    void (*loop)(uint64_t n);
    int64_t run_ns;
    struct phases *phases;
    double rounds_per_ns; /* of the latest run */
    int runs;
};

/* All threads run at once: what counts is what the CPUs do together (shared power, shared cores).
 */
static void *work(void *ctx)
{
    struct worker *worker = ctx;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)worker->cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (int run = 0; run < worker->runs; run++) {
        uint64_t rounds = 0;
        while (atomic_load(&worker->phases->go) <= run) {
            if (atomic_load(&worker->phases->abandon))
                return NULL;
            sched_yield();
        }
        int64_t begin = col_clock_now(), now = begin;
        do {
            worker->loop(4096);
            rounds += 4096;
            now = col_clock_now();
        } while (now - begin < worker->run_ns);
        worker->rounds_per_ns = (double)rounds / (double)(now - begin);
        atomic_fetch_add(&worker->phases->done, 1);
    }
    return NULL;
}

static int by_rate(const void *left, const void *right)
{
    double left_rate = *(const double *)left, right_rate = *(const double *)right;
    return (left_rate > right_rate) - (left_rate < right_rate);
}

/* Rounds a second of all CPUs together, the best of some runs; 0 when threads could not be started.
 * rates: of each run, lowest first; room for `runs`. */
static double measure(const int *cpu, int cpus, void (*loop)(uint64_t n), int64_t run_ns, int runs,
                      double *rates)
{
    struct phases phases = {0};
    struct worker *worker = calloc((size_t)cpus, sizeof *worker);
    if (!worker)
        return 0;
    int started = 0;
    for (int i = 0; i < cpus; i++) {
        worker[i] = (struct worker){
            .cpu = cpu[i], .loop = loop, .run_ns = run_ns, .phases = &phases, .runs = runs};
        worker[i].started = pthread_create(&worker[i].thread, NULL, work, &worker[i]) == 0;
        started += worker[i].started;
    }
    atomic_store(&phases.abandon, started < cpus);
    for (int run = 0; run < runs && started == cpus; run++) {
        double sum = 0;
        atomic_store(&phases.go, run + 1);
        while (atomic_load(&phases.done) < cpus * (run + 1))
            usleep(1000);
        for (int i = 0; i < cpus; i++)
            sum += worker[i].rounds_per_ns;
        rates[run] = sum * 1e9;
    }
    for (int i = 0; i < cpus; i++)
        if (worker[i].started)
            pthread_join(worker[i].thread, NULL);
    free(worker);
    if (started < cpus)
        return 0;
    qsort(rates, (size_t)runs, sizeof *rates, by_rate);
    return rates[runs - 1];
}

/* ---- what was measured before ------------------------------------------------------------------------------------------------ */

/* The file of the cached peak. Its name is a hash of version, CPU model, instructions and CPUs, so
 * that a value is never used for anything else. */
static bool cache_path(char *path, size_t size, const int *cpu, int cpus, const char *isa)
{
    char model[128], key[4600], folder[COL_PATH_MAX];
    if (tacho_cache_folder("tacho", folder, sizeof folder))
        return false;
    col_cpu_model(model, sizeof model);
    size_t length = (size_t)snprintf(key, sizeof key, "2|%s|%s|%s", TACHO_VERSION, model, isa);
    for (int i = 0; i < cpus && length + 8 < sizeof key; i++)
        length += (size_t)snprintf(key + length, sizeof key - length, "|%d", cpu[i]);
    return snprintf(path, size, "%s/peak-%016llx", folder, (unsigned long long)col_hash_text(key)) <
           (int)size;
}

static bool cache_read(const char *path, struct col_peak *peak)
{
    char text[128];
    return col_proc_read(path, text, sizeof text) > 0 &&
           sscanf(text, "%lf %lf %lf", &peak->fp32, &peak->fp64, &peak->bf16) == 3 &&
           peak->fp32 > 0 && peak->fp64 > 0;
}

/* Writes a temporary file and renames it: two runs may measure at once. */
static void cache_write(const char *path, const struct col_peak *peak)
{
    char temporary[COL_PATH_MAX + 64];
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    FILE *file = fopen(temporary, "we");
    if (!file)
        return;
    bool written = fprintf(file, "%.6e %.6e %.6e\n", peak->fp32, peak->fp64, peak->bf16) > 0;
    written = fclose(file) == 0 && written;
    if (!written || rename(temporary, path) != 0)
        unlink(temporary);
}

/* The CPUs that this process may use. */
static bool usable_cpus(struct col_peak *peak, int cpu[CPUS_MAX])
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        snprintf(peak->reason, sizeof peak->reason, "instruction peak not measured: %s",
                 strerror(errno));
        return false;
    }
    for (size_t i = 0; i < CPU_SETSIZE && peak->cpus < CPUS_MAX; i++)
        if (CPU_ISSET(i, &set))
            cpu[peak->cpus++] = (int)i;
    return true;
}

static bool raise_to(double *value, double measured)
{
    bool better = measured > *value;
    *value = better ? measured : *value;
    return better;
}

/* Measures each type for `runs` runs, fp64 and bf16 only once where a cached value is checked.
 * Returns whether one is higher than the value in `peak`. */
static bool measure_all(struct col_peak *peak, const int *cpu, const struct isa *isa,
                        int64_t run_ns, int runs, struct col_peak_spread spread[3])
{
    const struct isa_bf16 *bf16 = choose_bf16(isa);
    static const struct isa_bf16 no_bf16 = {NULL, NULL, 0};
    bf16 = bf16 ? bf16 : &no_bf16;
    const int others = peak->cached ? 1 : runs;
    const struct {
        void (*loop)(uint64_t rounds);
        double flops, *value;
        int runs;
    } type[] = {{isa->fp32, isa->flops32, &peak->fp32, runs},
                {isa->fp64, isa->flops64, &peak->fp64, others},
                {bf16->loop, bf16->flops, &peak->bf16, others}};
    double rates[RUNS_MAX];
    bool better = false;
    peak->isa = isa->name;
    peak->bf16_isa = bf16->name;
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        int type_runs = type[i].runs;
        double best =
            type[i].loop
                ? measure(cpu, peak->cpus, type[i].loop, run_ns, type_runs, rates) * type[i].flops
                : 0;
        better |= raise_to(type[i].value, best);
        if (best > 0 && spread)
            spread[i] = (struct col_peak_spread){rates[type_runs / 2] * type[i].flops,
                                                 rates[0] * type[i].flops, type_runs};
    }
    if (peak->fp32 <= 0)
        snprintf(peak->reason, sizeof peak->reason,
                 "instruction peak not measured: threads could not be started");
    return better;
}

bool col_peak_measure_anew(struct col_peak *peak, double seconds, struct col_peak_spread spread[3])
{
    int cpu[CPUS_MAX], runs = (int)(seconds * 1e9 / RUN_NS);
    memset(peak, 0, sizeof *peak);
    memset(spread, 0, 3 * sizeof *spread);
    if (!usable_cpus(peak, cpu))
        return false;
    runs = runs < RUNS ? RUNS : runs;
    runs = runs > RUNS_MAX ? RUNS_MAX : runs;
    measure_all(peak, cpu, choose_isa(), RUN_NS, runs, spread);
    return peak->fp32 > 0;
}

bool col_peak_measure(struct col_peak *peak)
{
    int cpu[CPUS_MAX];
    char path[COL_PATH_MAX + 32];
    memset(peak, 0, sizeof *peak);
    if (!usable_cpus(peak, cpu))
        return false;
    const struct isa *isa = choose_isa();
    bool has_path = cache_path(path, sizeof path, cpu, peak->cpus, isa->name);
    peak->cached = has_path && cache_read(path, peak);
    bool better = peak->cached ? measure_all(peak, cpu, isa, GLANCE_NS, GLANCE_RUNS, NULL)
                               : measure_all(peak, cpu, isa, RUN_NS, RUNS, NULL);
    if (peak->fp32 > 0 && has_path && better)
        cache_write(path, peak);
    return peak->fp32 > 0;
}

#else

bool col_peak_measure(struct col_peak *peak)
{
    memset(peak, 0, sizeof *peak);
    snprintf(peak->reason, sizeof peak->reason,
             "instruction peak not measured: no loop for this CPU architecture yet");
    return false;
}

bool col_peak_measure_anew(struct col_peak *peak, double seconds, struct col_peak_spread spread[3])
{
    (void)seconds;
    memset(spread, 0, 3 * sizeof *spread);
    return col_peak_measure(peak);
}

#endif
