/* SPDX-License-Identifier: Apache-2.0 */
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

#define END_MS 5000 /* a worker process that has not ended so long after it was told to is killed \
                     */

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

/* The sample of the source that row `row` of batch `batch` holds. */
static uint64_t sample_at(const struct lt_crew *c, uint64_t batch, int64_t row)
{
    const struct lt_loader_config *k = &c->config;
    uint64_t n = k->position + (batch * (uint64_t)k->ranks + (uint64_t)k->rank) * (uint64_t)k->b +
                 (uint64_t)row;
    uint64_t epoch = n / c->part.samples, i = n % c->part.samples;
    if (!k->options.in_order)
        i = lt_random_permute(lt_random_bits(k->seed, epoch), i, c->part.samples);
    return c->part.first + i;
}

static void stage_begin(const struct lt_crew *c, enum lt_range range, uint64_t bytes)
{
    lt_trace_begin(c->trace, range, bytes, (uint64_t)c->config.b);
}

static void stage_end(const struct lt_crew *c, enum lt_loader_stage stage)
{
    double slow = c->config.options.slow[stage];
    if (slow > 0)
        lt_ring_sleep(c->ring, slow);
    lt_trace_end(c->trace);
}

static int stage_read(const struct bench *w, uint64_t batch, struct tacho_error *err)
{
    const struct lt_crew *c = w->crew;
    const struct lt_source *s = c->part.source;
    uint64_t bytes = 0;
    int rc = 0;
    for (int64_t i = 0; i < c->config.b; i++)
        bytes += s->ops->bytes(s, sample_at(c, batch, i));
    stage_begin(c, LT_RANGE_READ, bytes);
    for (int64_t i = 0; i < c->config.b && rc == 0; i++)
        rc = s->ops->read(s, sample_at(c, batch, i), w->raw + (size_t)i * s->raw_bytes, err);
    stage_end(c, LT_STAGE_READ);
    return rc;
}

static int stage_decode(const struct bench *w, uint64_t batch, struct tacho_error *err)
{
    const struct lt_crew *c = w->crew;
    const struct lt_source *s = c->part.source;
    int rc = 0;
    stage_begin(c, LT_RANGE_DECODE, s->item_bytes * (uint64_t)c->config.b);
    for (int64_t i = 0; i < c->config.b && rc == 0; i++)
        rc = s->ops->decode(s, sample_at(c, batch, i), w->raw + (size_t)i * s->raw_bytes,
                            w->items + (size_t)i * s->item_bytes, err);
    stage_end(c, LT_STAGE_DECODE);
    return rc;
}

static void stage_collate(const struct bench *w, const struct lt_slot *slot)
{
    const struct lt_crew *c = w->crew;
    const struct lt_source *s = c->part.source;
    stage_begin(c, LT_RANGE_COLLATE, lt_ring_slot_bytes(c->ring));
    for (int64_t i = 0; i < c->config.b; i++)
        s->ops->collate(s, w->items + (size_t)i * s->item_bytes, i, &slot->rows);
    stage_end(c, LT_STAGE_COLLATE);
}

static void make_batch(const struct bench *w, uint64_t batch)
{
    struct lt_slot *s = lt_ring_slot(w->crew->ring, batch);
    s->code = stage_read(w, batch, &s->error);
    if (s->code == 0)
        s->code = stage_decode(w, batch, &s->error);
    if (s->code == 0)
        stage_collate(w, s);
}

void lt_crew_make(struct lt_crew *crew, uint64_t batch)
{
    make_batch(&crew->bench[0], batch);
}

/* ---- workers ------------------------------------------------------------------------------------------------------------- */

static void *worker(void *arg)
{
    const struct bench *w = arg;
    struct lt_crew *c = w->crew;
    uint64_t batch;
    char name[16];
    snprintf(name, sizeof name, "loader-%d", w->number);
    lt_trace_thread(c->trace, name);
    while (lt_ring_claim(c->ring, &batch, c->trace)) {
        make_batch(w, batch);
        lt_ring_publish(c->ring, batch);
    }
    return NULL;
}

/* The room in shared memory where a worker process leaves its times. */
static char *lane_of(const struct bench *w)
{
    return (char *)lt_ring_extra(w->crew->ring) + (size_t)w->number * w->crew->lane_bytes;
}

/* The child of a fork, in a program that may have had other threads. _exit: exit handlers and
 * buffers are the parent's. */
static _Noreturn void child(struct bench *w, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    lt_trace_forked(w->crew->trace);
    worker(w);
    if (w->crew->lane_bytes)
        lt_trace_save(w->crew->trace, lane_of(w));
    _exit(0);
}

static int start_process(struct bench *w)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child(w, parent);
    w->pid = pid > 0 ? pid : 0;
    return pid > 0 ? 0 : errno;
}

static int start_thread(struct bench *w)
{
    return pthread_create(&w->thread, NULL, worker, w);
}

static int is_processes(const struct lt_crew *c)
{
    return c->config.options.kind == LT_WORKERS_PROCESSES;
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

int lt_crew_check(void *arg, struct tacho_error *err)
{
    struct lt_crew *c = arg;
    for (int i = 0; is_processes(c) && !c->dead && i < c->started; i++) {
        struct bench *w = &c->bench[i];
        if (w->pid && waitpid(w->pid, &c->dead_status, WNOHANG) == w->pid) {
            c->dead = i + 1;
            c->dead_pid = w->pid;
            w->pid = 0;
        }
    }
    if (!c->dead)
        return 0;
    int signal = WIFSIGNALED(c->dead_status) ? WTERMSIG(c->dead_status) : 0;
    tacho_fail(err, TACHO_EINTERNAL,
               signal == SIGKILL ? "if nobody killed it, the kernel did for want of memory "
                                   "(dmesg): fewer --workers, less --prefetch"
                                 : "--worker-kind threads shows whether it is the data",
               signal ? "loader worker %d (process %ld) was killed by signal %d (%s)"
                      : "loader worker %d (process %ld) ended with exit code %d%s",
               c->dead - 1, (long)c->dead_pid, signal ? signal : WEXITSTATUS(c->dead_status),
               signal ? strsignal(signal) : "");
    return TACHO_EINTERNAL;
}

static void end_process(struct bench *w)
{
    int status = 0;
    pid_t got = 0;
    for (int ms = 0; ms < END_MS && got == 0; ms++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        got = waitpid(w->pid, &status, WNOHANG);
        if (got == 0)
            nanosleep(&pause, NULL);
    }
    if (got == 0) {
        kill(w->pid, SIGKILL);
        while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    w->pid = 0;
    if (w->crew->lane_bytes && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        lt_trace_add(w->crew->trace, lane_of(w));
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

/* The buffers of worker processes are theirs: those here are never touched. */
static int64_t bench_bytes(const struct lt_crew *c)
{
    const struct lt_source *s = c->part.source;
    return is_processes(c) && c->config.options.workers
               ? 0
               : (int64_t)c->benches * c->config.b * (int64_t)(s->raw_bytes + s->item_bytes);
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
    int n = config->options.workers ? config->options.workers : 1;
    struct lt_crew *c = calloc(1, sizeof *c + (size_t)n * sizeof *c->bench);
    if (!c)
        return TACHO_ENOMEM;
    c->part = *part;
    c->config = *config;
    c->ring = ring;
    c->trace = trace;
    c->benches = n;
    lt_memory_add(LT_MEMORY_LOADER, bench_bytes(c));
    c->lane_bytes = is_processes(c) ? lt_trace_lane_bytes(trace) : 0;
    for (int i = 0; i < n; i++) {
        c->bench[i] = (struct bench){.crew = c,
                                     .number = i,
                                     .raw = calloc((size_t)config->b, part->source->raw_bytes),
                                     .items = calloc((size_t)config->b, part->source->item_bytes)};
        if (!c->bench[i].raw || !c->bench[i].items) {
            lt_crew_destroy(c);
            return TACHO_ENOMEM;
        }
    }
    *out = c;
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
