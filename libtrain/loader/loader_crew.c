/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers. Each claims the next batch of the ring, reads, decodes and collates its samples, and
 * publishes it. Workers are threads, or processes that are forked when the loader starts: these
 * leave their times in shared memory when they end, and a worker that dies is noticed by whoever
 * waits for its batch.
 */
#include "libtrain/loader/loader_crew.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libtrain/base/arena.h"
#include "libtrain/base/memory.h"
#include "libtrain/ops/random.h"
#include "libtrain/speak/trace.h"

/* A worker process that has not ended so long after it was asked to is killed. */
#define END_MS 5000

/* Random numbers of the stage augment are others than those of the order. */
#define AUGMENT_KEY 0x6175676d656e74ull

/* What one worker needs to make a batch. */
struct bench {
    struct lt_crew *crew;
    int number;
    pthread_t thread;
    pid_t pid;   /* processes: 0 when it has been waited for */
    char *raw;   /* b samples of raw_bytes */
    char *items; /* b decoded samples */
};

struct lt_crew {
    struct lt_part part;
    struct lt_loader_config config;
    struct lt_ring *ring;
    struct lt_trace *trace;
    size_t lane_bytes;
    int started, benches;
    int dead, dead_status; /* the worker that died: number + 1, wait status */
    pid_t dead_pid;
    struct bench bench[];
};

/* ---- stages -------------------------------------------------------------------------------------------------------------- */

/* The number that row `row` of batch `batch` has in the endless sequence of samples. */
static uint64_t number_at(const struct lt_crew *crew, uint64_t batch, int64_t row)
{
    const struct lt_loader_config *config = &crew->config;
    return config->position +
           (batch * (uint64_t)config->ranks + (uint64_t)config->rank) * (uint64_t)config->b +
           (uint64_t)row;
}

/* The sample of the source that it holds. */
static uint64_t sample_at(const struct lt_crew *crew, uint64_t batch, int64_t row)
{
    const struct lt_loader_config *config = &crew->config;
    uint64_t number = number_at(crew, batch, row);
    uint64_t epoch = number / crew->part.samples, i = number % crew->part.samples;
    if (!config->options.in_order)
        i = lt_random_permute(lt_random_bits(config->seed, epoch), i, crew->part.samples);
    return crew->part.first + i;
}

static void stage_begin(const struct lt_crew *crew, enum lt_range range, uint64_t bytes)
{
    lt_trace_begin(crew->trace, range, bytes, (uint64_t)crew->config.b);
}

static void stage_end(const struct lt_crew *crew, enum lt_loader_stage stage)
{
    double slow = crew->config.options.slow[stage];
    if (slow > 0)
        lt_ring_sleep(crew->ring, slow);
    lt_trace_end(crew->trace);
}

/* Reads the raw bytes of all samples of the batch. The range says how many bytes that will be. */
static int stage_read(const struct bench *bench, uint64_t batch, struct tacho_error *err)
{
    const struct lt_crew *crew = bench->crew;
    const struct lt_source *source = crew->part.source;
    uint64_t bytes = 0;
    int rc = 0;
    for (int64_t i = 0; i < crew->config.b; i++)
        bytes += source->ops->bytes(source, sample_at(crew, batch, i));
    stage_begin(crew, LT_RANGE_READ, bytes);
    for (int64_t i = 0; i < crew->config.b && rc == 0; i++)
        rc = source->ops->read(source, sample_at(crew, batch, i),
                               bench->raw + (size_t)i * source->raw_bytes, err);
    stage_end(crew, LT_STAGE_READ);
    return rc;
}

/* Turns the raw bytes of each sample into an item. */
static int stage_decode(const struct bench *bench, uint64_t batch, struct tacho_error *err)
{
    const struct lt_crew *crew = bench->crew;
    const struct lt_source *source = crew->part.source;
    int rc = 0;
    stage_begin(crew, LT_RANGE_DECODE, source->item_bytes * (uint64_t)crew->config.b);
    for (int64_t i = 0; i < crew->config.b && rc == 0; i++)
        rc = source->ops->decode(source, sample_at(crew, batch, i),
                                 bench->raw + (size_t)i * source->raw_bytes,
                                 bench->items + (size_t)i * source->item_bytes, err);
    stage_end(crew, LT_STAGE_DECODE);
    return rc;
}

/* What is drawn for a sample depends on its number alone, whoever makes it. */
static void stage_augment(const struct bench *bench, uint64_t batch)
{
    const struct lt_crew *crew = bench->crew;
    const struct lt_source *source = crew->part.source;
    const struct lt_loader_config *config = &crew->config;
    if (!source->ops->augment)
        return;
    stage_begin(crew, LT_RANGE_AUGMENT,
                (uint64_t)source->width * sizeof(float) * (uint64_t)config->b);
    for (int64_t i = 0; i < config->b; i++) {
        uint64_t key = lt_random_bits(config->seed ^ AUGMENT_KEY, number_at(crew, batch, i));
        source->ops->augment(source, bench->items + (size_t)i * source->item_bytes,
                             config->plain ? NULL : &key);
    }
    stage_end(crew, LT_STAGE_AUGMENT);
}

static void stage_collate(const struct bench *bench, const struct lt_slot *slot)
{
    const struct lt_crew *crew = bench->crew;
    const struct lt_source *source = crew->part.source;
    stage_begin(crew, LT_RANGE_COLLATE, lt_ring_slot_bytes(crew->ring));
    for (int64_t i = 0; i < crew->config.b; i++)
        source->ops->collate(source, bench->items + (size_t)i * source->item_bytes, i, &slot->rows);
    stage_end(crew, LT_STAGE_COLLATE);
}

static void make_batch(const struct bench *bench, uint64_t batch)
{
    struct lt_slot *slot = lt_ring_slot(bench->crew->ring, batch);
    slot->code = stage_read(bench, batch, &slot->error);
    if (slot->code == 0)
        slot->code = stage_decode(bench, batch, &slot->error);
    if (slot->code)
        return;
    stage_augment(bench, batch);
    stage_collate(bench, slot);
}

void lt_crew_make(struct lt_crew *crew, uint64_t batch)
{
    make_batch(&crew->bench[0], batch);
}

/* ---- workers ------------------------------------------------------------------------------------------------------------- */

/* One worker: makes the batches that it claims until the ring stops. */
static void *worker(void *arg)
{
    const struct bench *bench = arg;
    struct lt_crew *crew = bench->crew;
    uint64_t batch;
    char name[16];
    snprintf(name, sizeof name, "loader-%d", bench->number);
    lt_trace_thread(crew->trace, name);
    while (lt_ring_claim(crew->ring, &batch, crew->trace)) {
        make_batch(bench, batch);
        lt_ring_publish(crew->ring, batch);
    }
    return NULL;
}

/* The room in shared memory where a worker process leaves its times. */
static char *lane_of(const struct bench *bench)
{
    return (char *)lt_ring_extra(bench->crew->ring) +
           (size_t)bench->number * bench->crew->lane_bytes;
}

/* The child of a fork, in a program that may have had other threads. _exit: exit handlers and
 * buffers are the parent's. */
static _Noreturn void child(struct bench *bench, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    lt_trace_forked(bench->crew->trace);
    worker(bench);
    if (bench->crew->lane_bytes)
        lt_trace_save(bench->crew->trace, lane_of(bench));
    _exit(0);
}

/* Starts a worker as a process. Returns 0 or an errno. */
static int start_process(struct bench *bench)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child(bench, parent);
    bench->pid = pid > 0 ? pid : 0;
    return pid > 0 ? 0 : errno;
}

static int start_thread(struct bench *bench)
{
    return pthread_create(&bench->thread, NULL, worker, bench);
}

static int is_processes(const struct lt_crew *crew)
{
    return crew->config.options.kind == LT_WORKERS_PROCESSES;
}

/* All signals are blocked in workers but SIGBUS, which says that a mapped file became shorter
 * (dataset.h): a signal for the program is the main thread's to handle. */
int lt_crew_start(struct lt_crew *crew, struct tacho_error *err)
{
    sigset_t all, before;
    int rc = 0;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (is_processes(crew))
        lt_arena_fork(0);
    for (int i = 0; i < crew->config.options.workers && rc == 0; i++) {
        rc = is_processes(crew) ? start_process(&crew->bench[i]) : start_thread(&crew->bench[i]);
        crew->started += rc == 0;
    }
    if (is_processes(crew))
        lt_arena_fork(1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return tacho_fail(err, TACHO_EINTERNAL, "ask for fewer --workers",
                          "cannot start a loader %s: %s", is_processes(crew) ? "process" : "thread",
                          strerror(rc));
    return 0;
}

/* Says how the worker died. SIGKILL without anybody to send it is the kernel's doing. */
static int describe_death(const struct lt_crew *crew, struct tacho_error *err)
{
    const char *hint = "--worker-kind threads shows whether it is the data";
    int number = crew->dead - 1, signal = WTERMSIG(crew->dead_status);
    if (!WIFSIGNALED(crew->dead_status))
        return tacho_fail(err, TACHO_EINTERNAL, hint,
                          "loader worker %d (process %ld) ended with exit code %d", number,
                          (long)crew->dead_pid, WEXITSTATUS(crew->dead_status));
    if (signal == SIGKILL)
        hint = "unless a user killed it, the kernel ran out of memory (dmesg): give fewer "
               "--workers, a smaller --prefetch";
    return tacho_fail(err, TACHO_EINTERNAL, hint,
                      "loader worker %d (process %ld) was killed by signal %d (%s)", number,
                      (long)crew->dead_pid, signal, strsignal(signal));
}
int lt_crew_check(void *arg, struct tacho_error *err)
{
    struct lt_crew *crew = arg;
    for (int i = 0; is_processes(crew) && !crew->dead && i < crew->started; i++) {
        struct bench *bench = &crew->bench[i];
        if (bench->pid && waitpid(bench->pid, &crew->dead_status, WNOHANG) == bench->pid) {
            crew->dead = i + 1;
            crew->dead_pid = bench->pid;
            bench->pid = 0;
        }
    }
    if (!crew->dead)
        return 0;
    return describe_death(crew, err);
}

/* Waits for a worker process that has been asked to stop, kills it if it does not, and takes over
 * its times if it ended well. */
static void end_process(struct bench *bench)
{
    int status = 0;
    pid_t got = 0;
    for (int ms = 0; ms < END_MS && got == 0; ms++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        got = waitpid(bench->pid, &status, WNOHANG);
        if (got == 0)
            nanosleep(&pause, NULL);
    }
    if (got == 0) {
        kill(bench->pid, SIGKILL);
        while (waitpid(bench->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    bench->pid = 0;
    if (bench->crew->lane_bytes && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        lt_trace_add(bench->crew->trace, lane_of(bench));
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

/* The buffers of worker processes are theirs: those here are never touched. */
static int64_t bench_bytes(const struct lt_crew *crew)
{
    const struct lt_source *source = crew->part.source;
    return is_processes(crew) && crew->config.options.workers
               ? 0
               : (int64_t)crew->benches * crew->config.b *
                     (int64_t)(source->raw_bytes + source->item_bytes);
}

size_t lt_crew_shared_bytes(const struct lt_loader_config *config, const struct lt_trace *trace)
{
    int processes = config->options.kind == LT_WORKERS_PROCESSES;
    return processes ? (size_t)config->options.workers * lt_trace_lane_bytes(trace) : 0;
}

int lt_crew_create(struct lt_crew **out, const struct lt_part *part,
                   const struct lt_loader_config *config, struct lt_ring *ring,
                   struct lt_trace *trace)
{
    int benches = config->options.workers ? config->options.workers : 1;
    struct lt_crew *crew = calloc(1, sizeof *crew + (size_t)benches * sizeof *crew->bench);
    if (!crew)
        return TACHO_ENOMEM;
    crew->part = *part;
    crew->config = *config;
    crew->ring = ring;
    crew->trace = trace;
    crew->benches = benches;
    lt_memory_add(LT_MEMORY_LOADER, bench_bytes(crew));
    crew->lane_bytes = is_processes(crew) ? lt_trace_lane_bytes(trace) : 0;
    for (int i = 0; i < benches; i++) {
        crew->bench[i] =
            (struct bench){.crew = crew,
                           .number = i,
                           .raw = calloc((size_t)config->b, part->source->raw_bytes),
                           .items = calloc((size_t)config->b, part->source->item_bytes)};
        if (!crew->bench[i].raw || !crew->bench[i].items) {
            lt_crew_destroy(crew);
            return TACHO_ENOMEM;
        }
    }
    *out = crew;
    return 0;
}

void lt_crew_destroy(struct lt_crew *crew)
{
    if (!crew)
        return;
    lt_ring_stop(crew->ring);
    for (int i = 0; i < crew->started; i++) {
        if (!is_processes(crew))
            pthread_join(crew->bench[i].thread, NULL);
        else if (crew->bench[i].pid)
            end_process(&crew->bench[i]);
    }
    for (int i = 0; i < crew->benches; i++) {
        free(crew->bench[i].raw);
        free(crew->bench[i].items);
    }
    lt_memory_add(LT_MEMORY_LOADER, -bench_bytes(crew));
    free(crew);
}
