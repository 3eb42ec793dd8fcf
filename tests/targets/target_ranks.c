/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a training run without MPI: steps with work and an all-reduce in which the ranks of
 * one machine really wait for each other, at a barrier in the shared file --meet. Rank and number
 * of ranks come from the launcher's environment, or from
 * --rank and --ranks.
 *
 * It keeps books: --log appends one line as target_events does (pid tid thread ranges range_ns
 * marks startends startend_ns counters steps) when it ends by itself; --journal keeps the number of
 * finished steps of each rank in a shared file, u64 each, which survives any death.
 */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tacho_nvtx.h"

#define RANKS_MAX 64

static struct {
    long rank, ranks, steps, work_us, late_us, late_rank, tokens, code, code_rank, short_rank,
        short_steps, hold_ms;
    const char *meet, *log, *journal;
} opt = {.rank = -1,
         .ranks = -1,
         .steps = 20,
         .work_us = 1000,
         .late_rank = -1,
         .tokens = 64,
         .code_rank = -1,
         .short_rank = -1};

struct meeting {
    _Atomic int ready; /* 0: nobody, 1: being made, 2: made */
    pthread_barrier_t barrier;
};

static struct tacho_nvtx nvtx;
static volatile sig_atomic_t stopped;
static uint64_t ranges, range_ns;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static long from_environment(const char *const *name)
{
    for (; *name; name++)
        if (getenv(*name))
            return strtol(getenv(*name), NULL, 10);
    return -1;
}

static void *shared(const char *path, size_t bytes)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        perror(path);
        exit(9);
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        perror(path);
        exit(9);
    }
    return p;
}

static struct meeting *meet(void)
{
    struct meeting *m = shared(opt.meet, sizeof *m);
    int none = 0;
    if (atomic_compare_exchange_strong(&m->ready, &none, 1)) {
        pthread_barrierattr_t a;
        pthread_barrierattr_init(&a);
        pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&m->barrier, &a, (unsigned)opt.ranks);
        atomic_store(&m->ready, 2);
    }
    while (atomic_load(&m->ready) != 2)
        usleep(100);
    return m;
}

static void work_for(long us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static uint64_t pop(uint64_t since)
{
    tacho_nvtx_pop(&nvtx);
    ranges++;
    range_ns += now_ns() - since;
    return now_ns();
}

static void step(uint64_t index, struct meeting *m, nvtxStringHandle_t *name)
{
    struct tacho_step s = {.index = index, .tokens = (uint64_t)opt.tokens, .samples = 1};
    struct tacho_work w = {.flops = 2000000,
                           .model_flops = 2000000,
                           .dtype = TACHO_DTYPE_FP32,
                           .kind = TACHO_WORK_MATRIX};
    struct tacho_comm c = {.bytes = 4096,
                           .communicator = 7,
                           .sequence = index,
                           .op = TACHO_COMM_ALL_REDUCE,
                           .ranks = (uint32_t)opt.ranks};
    uint64_t begun = now_ns(), t;
    tacho_nvtx_push_step(&nvtx, name[0], &s);
    t = now_ns();
    tacho_nvtx_push_work(&nvtx, name[1], &w);
    work_for(opt.work_us + (opt.rank == opt.late_rank ? opt.late_us : 0));
    pop(t);
    t = now_ns();
    tacho_nvtx_push_comm(&nvtx, name[2], &c);
    if (m)
        pthread_barrier_wait(&m->barrier);
    pop(t);
    pop(begun);
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {{"rank", 1, 0, 'r'},       {"ranks", 1, 0, 'n'},
                                          {"steps", 1, 0, 's'},      {"work-us", 1, 0, 'w'},
                                          {"late-rank", 1, 0, 'L'},  {"late-us", 1, 0, 'l'},
                                          {"tokens", 1, 0, 't'},     {"meet", 1, 0, 'm'},
                                          {"log", 1, 0, 'g'},        {"journal", 1, 0, 'j'},
                                          {"exit", 1, 0, 'e'},       {"exit-rank", 1, 0, 'E'},
                                          {"short-rank", 1, 0, 'k'}, {"short-steps", 1, 0, 'K'},
                                          {"hold-ms", 1, 0, 'h'},    {0, 0, 0, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        long v = optarg ? strtol(optarg, NULL, 10) : 0;
        switch (c) {
        case 'r':
            opt.rank = v;
            break;
        case 'n':
            opt.ranks = v;
            break;
        case 's':
            opt.steps = v;
            break;
        case 'w':
            opt.work_us = v;
            break;
        case 'L':
            opt.late_rank = v;
            break;
        case 'l':
            opt.late_us = v;
            break;
        case 't':
            opt.tokens = v;
            break;
        case 'm':
            opt.meet = optarg;
            break;
        case 'g':
            opt.log = optarg;
            break;
        case 'j':
            opt.journal = optarg;
            break;
        case 'e':
            opt.code = v;
            break;
        case 'E':
            opt.code_rank = v;
            break;
        case 'k':
            opt.short_rank = v;
            break;
        case 'K':
            opt.short_steps = v;
            break;
        case 'h':
            opt.hold_ms = v;
            break;
        default:
            exit(2);
        }
    }
}

static void write_log(uint64_t steps)
{
    char line[256];
    int fd = open(opt.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int n = snprintf(line, sizeof line, "%ld\t%ld\t0\t%llu\t%llu\t0\t0\t0\t0\t%llu\n",
                     (long)getpid(), (long)syscall(SYS_gettid), (unsigned long long)ranges,
                     (unsigned long long)range_ns, (unsigned long long)steps);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        exit(9);
    close(fd);
}

int main(int argc, char **argv)
{
    static const char *const rank[] = {"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                       "PMI_RANK", "SLURM_PROCID",         NULL};
    static const char *const ranks[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS", NULL};
    read_options(argc, argv);
    opt.rank = opt.rank >= 0 ? opt.rank : from_environment(rank);
    opt.ranks = opt.ranks >= 0 ? opt.ranks : from_environment(ranks);
    if (opt.rank < 0 || opt.ranks < 1 || opt.rank >= RANKS_MAX)
        return 2;
    signal(SIGTERM, stop);
    struct meeting *m = opt.meet ? meet() : NULL;
    _Atomic uint64_t *journal =
        opt.journal ? shared(opt.journal, RANKS_MAX * sizeof *journal) : NULL;
    tacho_nvtx_open(&nvtx, "ranks");
    nvtxStringHandle_t name[] = {tacho_nvtx_name(&nvtx, "step"), tacho_nvtx_name(&nvtx, "matmul"),
                                 tacho_nvtx_name(&nvtx, "all_reduce")};
    long steps = opt.rank == opt.short_rank ? opt.short_steps : opt.steps, done = 0;
    if (m)
        pthread_barrier_wait(&m->barrier);
    for (; done < steps && !stopped; done++) {
        step((uint64_t)done, m, name);
        if (journal)
            atomic_fetch_add(&journal[opt.rank], 1);
    }
    work_for(opt.hold_ms * 1000);
    if (opt.log)
        write_log((uint64_t)done);
    return opt.code_rank < 0 || opt.code_rank == opt.rank ? (int)opt.code : 0;
}
