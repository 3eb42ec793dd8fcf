/* SPDX-License-Identifier: Apache-2.0
 *
 * State of threads. Structures come from chunks of wiped pages and are used again after a thread
 * has ended; they are never unmapped. After a fork the lists are empty and the forking thread's own
 * structure, wiped but still in place, is used again.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/agent/core/agent.h"

#define CHUNK_THREADS 16u
#define THREAD_BYTES  ((sizeof(struct agent_thread) + 63) & ~(size_t)63)
#define EXIT_ROUNDS \
    3u /* of the PTHREAD_DESTRUCTOR_ITERATIONS (4): other destructors may still record in the \
          first ones */

__thread struct agent_thread *agent_tls __attribute__((tls_model("initial-exec")));

static pthread_key_t exit_key;

static uint32_t thread_tid(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* ---- life ---- */

static struct agent_thread *thread_allocate(void)
{
    struct agent_process *self = agent_process;
    if (!self->spare) {
        char *chunk = mmap(NULL, CHUNK_THREADS * THREAD_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (chunk == MAP_FAILED)
            return NULL;
        madvise(chunk, CHUNK_THREADS * THREAD_BYTES, MADV_WIPEONFORK);
        for (uint32_t i = CHUNK_THREADS; i-- > 0;) {
            struct agent_thread *t = (struct agent_thread *)(void *)(chunk + i * THREAD_BYTES);
            t->next = self->spare;
            self->spare = t;
        }
    }
    struct agent_thread *t = self->spare;
    self->spare = t->next;
    memset(t, 0, sizeof *t);
    return t;
}

/* First event of the thread in this process: who it is. */
static void thread_join(struct agent_thread *t)
{
    struct agent_process *self = agent_process;
    struct wire_pool *pool = atomic_load_explicit(&self->pool, memory_order_relaxed);
    t->tid = thread_tid();
    t->ordinal = atomic_fetch_add_explicit(&pool->threads, 1, memory_order_relaxed);
    t->known = 1;
    t->prev = NULL;
    t->next = self->live;
    if (self->live)
        self->live->prev = t;
    self->live = t;
    uint32_t name = 0;
    for (uint32_t i = 0; i < self->tid_names; i++)
        if (self->tid_name[i].tid == t->tid) {
            name = self->tid_name[i].name;
            self->tid_name[i] = self->tid_name[--self->tid_names];
            break;
        }
    atomic_store_explicit(&t->rename, name, memory_order_relaxed);
}

static void thread_unlink(struct agent_thread *t)
{
    struct agent_process *self = agent_process;
    if (t->prev)
        t->prev->next = t->next;
    else if (self->live == t)
        self->live = t->next;
    if (t->next)
        t->next->prev = t->prev;
}

/* The thread ends: its segment is complete. */
static void thread_retire(struct agent_thread *t)
{
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    agent_pause_abandon(t);
    agent_thread_flush_skipped(t);
    if (t->line) {
        atomic_store_explicit(&t->line->last, 1, memory_order_relaxed);
        atomic_store_explicit(&t->line->state, WIRE_FULL, memory_order_release);
    }
    if (t->known)
        thread_unlink(t);
    agent_tls = NULL;
    t->next = agent_process->spare;
    agent_process->spare = t;
    agent_unlock();
    agent_quiet_end(&quiet);
}

static void thread_exit(void *arg)
{
    struct agent_thread *t = arg;
    if (t != agent_tls)
        return;
    if (t->gate == AGENT_WIPED) { /* forked, and nothing recorded since */
        agent_tls = NULL;
        return;
    }
    if (++t->exits < EXIT_ROUNDS)
        pthread_setspecific(exit_key, t);
    else
        thread_retire(t);
}

int agent_thread_start(void)
{
    return pthread_key_create(&exit_key, thread_exit);
}

/* A process forked during a pause starts with its parent's flags. No thread of it records before
 * one has come here. Lock held.
 */
static void process_begin(void)
{
    if (!agent_process->born) {
        atomic_store_explicit(&agent_pause_flag, 0, memory_order_relaxed);
        atomic_store_explicit(&agent_watch_flag, 0, memory_order_relaxed);
    }
    agent_process->born = 1;
}

struct agent_thread *agent_thread_open(void)
{
    struct agent_thread *t = agent_tls;
    if (t && t->gate == AGENT_BUSY)
        return NULL;
    if (!t || t->gate == AGENT_WIPED) {
        struct agent_quiet quiet;
        agent_quiet_begin(&quiet);
        agent_lock();
        process_begin();
        bool fresh = !t;
        if (fresh)
            t = thread_allocate();
        agent_unlock();
        if (t && fresh) {
            agent_tls = t;
            pthread_setspecific(exit_key, t);
        }
        agent_quiet_end(&quiet);
        if (!t)
            return NULL;
    }
    t->gate = AGENT_BUSY;
    atomic_signal_fence(memory_order_seq_cst);
    return t;
}

/* ---- fork from a signal handler ---- */

static __thread uint32_t fork_while_busy __attribute__((tls_model("initial-exec")));

void agent_thread_before_fork(void)
{
    fork_while_busy = agent_tls && agent_tls->gate == AGENT_BUSY;
}

/* The child returns from the handler into the middle of an event, with addresses of the parent's
 * segment in its registers and its own state wiped. The parent's pages become private to it, and
 * its state such that the event ends nowhere and the next one starts anew. */
void agent_thread_in_child(void)
{
    static struct wire_segment nowhere;
    struct agent_thread *t = agent_tls;
    if (!fork_while_busy || !t)
        return;
    agent_pool_detach();
    t->line = &nowhere;
    t->gate = AGENT_BUSY;
}

/* ---- segments ---- */

/* Appends {THREAD, name}: to a segment just taken, so there is room. */
static void thread_put_name(struct agent_thread *t, uint32_t name)
{
    struct wire_record record = {
        .time = agent_now(), .kind = WIRE_THREAD, .words = sizeof record / 8, .name = name};
    memcpy(t->pos, &record, sizeof record);
    t->pos += sizeof record;
    atomic_store_explicit(&t->line->committed, (uint32_t)(t->pos - t->base), memory_order_release);
}

/* At the first segment: a name given by NVTX before, else the kernel's name of a thread that is not
 * the main one. */
static void thread_introduce(struct agent_thread *t)
{
    char comm[17] = "";
    uint32_t name = atomic_exchange_explicit(&t->rename, 0, memory_order_relaxed);
    if (!name && t->tid != agent_process->pid && prctl(PR_GET_NAME, comm) == 0)
        name = agent_name_intern(WIRE_TEXT_NAME, comm, strlen(comm), true);
    if (name)
        thread_put_name(t, name);
}

char *agent_thread_room(struct agent_thread *t, size_t bytes, enum wire_loss_reason *reason)
{
    struct agent_process *self = agent_process;
    if (t->line) { /* full: the collector may have it, whether there is another one or not */
        struct wire_segment *line = t->line;
        t->line = NULL;
        t->pos = t->end = NULL;
        atomic_store_explicit(&t->common_end, NULL, memory_order_relaxed);
        atomic_store_explicit(&line->state, WIRE_FULL, memory_order_release);
    }
    *reason = (enum wire_loss_reason)atomic_load_explicit(&self->why, memory_order_relaxed);
    if (agent_now() < atomic_load_explicit(&self->retry_at, memory_order_relaxed))
        return NULL;
    struct agent_quiet quiet;
    bool taken = false, first = false;
    agent_quiet_begin(&quiet);
    agent_lock();
    if (agent_pool_open()) {
        first = !t->known;
        if (first)
            thread_join(t);
        taken = agent_pool_take(t, reason);
    } else {
        *reason = (enum wire_loss_reason)atomic_load_explicit(&self->why, memory_order_relaxed);
    }
    agent_unlock();
    if (taken && first)
        thread_introduce(t);
    else if (taken && atomic_load_explicit(&t->rename, memory_order_relaxed))
        thread_put_name(t, atomic_exchange_explicit(&t->rename, 0, memory_order_relaxed));
    agent_quiet_end(&quiet);
    agent_thread_flush_skipped(t);
    return taken && (size_t)(t->end - t->pos) >= bytes ? t->pos : NULL;
}

void agent_thread_name(uint32_t tid, uint32_t name)
{
    struct agent_process *self = agent_process;
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    struct agent_thread *t = self->live;
    while (t && t->tid != tid)
        t = t->next;
    if (t) {
        atomic_store_explicit(&t->rename, name, memory_order_relaxed);
    } else {
        uint32_t i = 0;
        while (i < self->tid_names && self->tid_name[i].tid != tid)
            i++;
        if (i < AGENT_TID_NAMES) {
            self->tid_name[i].tid = tid;
            self->tid_name[i].name = name;
            self->tid_names += i == self->tid_names;
        }
    }
    agent_unlock();
    agent_quiet_end(&quiet);
}

/* ---- pauses ---- */

/* Looks at the flags after the store, and who sets one clears common_end after that: one of the two
 * sees the other. */
void agent_thread_refresh(struct agent_thread *t)
{
    if (!t->end || atomic_load_explicit(&agent_pause_flag, memory_order_relaxed) ||
        atomic_load_explicit(&agent_watch_flag, memory_order_relaxed))
        return;
    atomic_store(&t->common_end, t->end - WIRE_RECORD_MAX);
    if (atomic_load(&agent_pause_flag) || atomic_load(&agent_watch_flag))
        atomic_store(&t->common_end, NULL);
}

void agent_thread_stop_common(void)
{
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    for (struct agent_thread *t = agent_process->live; t; t = t->next)
        atomic_store(&t->common_end, NULL);
    agent_unlock();
    agent_quiet_end(&quiet);
}

void agent_thread_flush_skipped(struct agent_thread *t)
{
    /* The owner and a finishing process may both come here: what is added is the difference to what
     * the other one added. */
    uint64_t total = atomic_load_explicit(&t->skipped, memory_order_relaxed);
    uint64_t before = atomic_exchange_explicit(&t->counted, total, memory_order_relaxed);
    if (total != before)
        agent_lose(WIRE_LOSS_PAUSED, total - before);
}

void agent_thread_flush_all(void)
{
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    for (struct agent_thread *t = agent_process->live; t; t = t->next)
        agent_thread_flush_skipped(t);
    agent_unlock();
    agent_quiet_end(&quiet);
}
