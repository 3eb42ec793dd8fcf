/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction peak of the CPUs. The loops are those of the processor (peak_x86.c,
 * peak_aarch64.c).
 */
#include "profiler/collector/samplers/peak.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/machine.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/os/text.h"
#include "profiler/collector/samplers/peak_isa.h"
#include "tacho_folder.h"

#define RUN_NS      15000000
#define RUNS        6
#define RUNS_MAX    256
#define GLANCE_NS   4000000 /* of a run with a cached value */
#define GLANCE_RUNS 2
#define CPUS_MAX    1024

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

/* The instructions to measure with; NULL with the reason where no loop is written for them. */
static const struct isa *usable_isa(struct col_peak *peak)
{
    const struct isa *isa = col_isa_choose();
    if (!isa)
        snprintf(peak->reason, sizeof peak->reason,
                 "instruction peak not measured: no loop for this CPU architecture yet");
    return isa;
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
    const struct isa_bf16 *bf16 = col_isa_bf16(isa);
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
    const struct isa *isa = usable_isa(peak);
    if (!isa || !usable_cpus(peak, cpu))
        return false;
    runs = runs < RUNS ? RUNS : runs;
    runs = runs > RUNS_MAX ? RUNS_MAX : runs;
    measure_all(peak, cpu, isa, RUN_NS, runs, spread);
    return peak->fp32 > 0;
}

bool col_peak_measure(struct col_peak *peak)
{
    int cpu[CPUS_MAX];
    char path[COL_PATH_MAX + 32];
    memset(peak, 0, sizeof *peak);
    const struct isa *isa = usable_isa(peak);
    if (!isa || !usable_cpus(peak, cpu))
        return false;
    bool has_path = cache_path(path, sizeof path, cpu, peak->cpus, isa->name);
    peak->cached = has_path && cache_read(path, peak);
    bool better = peak->cached ? measure_all(peak, cpu, isa, GLANCE_NS, GLANCE_RUNS, NULL)
                               : measure_all(peak, cpu, isa, RUN_NS, RUNS, NULL);
    if (peak->fp32 > 0 && has_path && better)
        cache_write(path, peak);
    return peak->fp32 > 0;
}
