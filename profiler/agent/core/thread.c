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
/* Of the PTHREAD_DESTRUCTOR_ITERATIONS (4): other destructors may still record in the first ones.
 */
#define EXIT_ROUNDS 3u

__thread struct agent_thread *agent_tls __attribute__((tls_model("initial-exec")));

static pthread_key_t exit_key;

static uint32_t thread_tid(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* ---- life ---- */

/* A structure for a thread, from the spare list or from a new chunk of pages that a fork wipes.
 * Lock held. */
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
            struct agent_thread *thread = (struct agent_thread *)(void *)(chunk + i * THREAD_BYTES);
            thread->next = self->spare;
            self->spare = thread;
        }
    }
    struct agent_thread *thread = self->spare;
    self->spare = thread->next;
    memset(thread, 0, sizeof *thread);
    return thread;
}

/* First event of the thread in this process: who it is. */
static void thread_join(struct agent_thread *thread)
{
    struct agent_process *self = agent_process;
    struct wire_pool *pool = relaxed_load(&self->pool);
    thread->tid = thread_tid();
    thread->ordinal = relaxed_add(&pool->threads, 1);
    thread->known = 1;
    thread->prev = NULL;
    thread->next = self->live;
    if (self->live)
        self->live->prev = thread;
    self->live = thread;
    uint32_t name = 0;
    for (uint32_t i = 0; i < self->tid_names; i++)
        if (self->tid_name[i].tid == thread->tid) {
            name = self->tid_name[i].name;
            self->tid_name[i] = self->tid_name[--self->tid_names];
            break;
        }
    relaxed_store(&thread->rename, name);
}

static void thread_unlink(struct agent_thread *thread)
{
    struct agent_process *self = agent_process;
    if (thread->prev)
        thread->prev->next = thread->next;
    else if (self->live == thread)
        self->live = thread->next;
    if (thread->next)
        thread->next->prev = thread->prev;
}

/* The thread ends: its segment is complete. */
static void thread_retire(struct agent_thread *thread)
{
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    agent_pause_abandon(thread);
    agent_thread_flush_skipped(thread);
    if (thread->line) {
        relaxed_store(&thread->line->last, 1);
        atomic_store_explicit(&thread->line->state, WIRE_FULL, memory_order_release);
    }
    if (thread->known)
        thread_unlink(thread);
    agent_tls = NULL;
    thread->next = agent_process->spare;
    agent_process->spare = thread;
    agent_unlock();
    agent_quiet_end(&quiet);
}

/* The destructor of the thread's key. Destructors of other libraries may still record, so the
 * structure is given up in a later round. */
static void thread_exit(void *arg)
{
    struct agent_thread *thread = arg;
    if (thread != agent_tls)
        return;
    if (thread->gate == AGENT_WIPED) { /* forked, and nothing recorded since */
        agent_tls = NULL;
        return;
    }
    if (++thread->exits < EXIT_ROUNDS)
        pthread_setspecific(exit_key, thread);
    else
        thread_retire(thread);
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
        relaxed_store(&agent_pause_flag, 0);
        relaxed_store(&agent_watch_flag, 0);
    }
    agent_process->born = 1;
}

struct agent_thread *agent_thread_open(void)
{
    struct agent_thread *thread = agent_tls;
    if (thread && thread->gate == AGENT_BUSY)
        return NULL;
    if (!thread || thread->gate == AGENT_WIPED) {
        struct agent_quiet quiet;
        agent_quiet_begin(&quiet);
        agent_lock();
        process_begin();
        bool fresh = !thread;
        if (fresh)
            thread = thread_allocate();
        agent_unlock();
        if (thread && fresh) {
            agent_tls = thread;
            pthread_setspecific(exit_key, thread);
        }
        agent_quiet_end(&quiet);
        if (!thread)
            return NULL;
    }
    thread->gate = AGENT_BUSY;
    atomic_signal_fence(memory_order_seq_cst);
    return thread;
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
    struct agent_thread *thread = agent_tls;
    if (!fork_while_busy || !thread)
        return;
    agent_pool_detach();
    thread->line = &nowhere;
    thread->gate = AGENT_BUSY;
}

/* ---- segments ---- */

/* Appends {THREAD, name}: to a segment just taken, so there is room. */
static void thread_put_name(struct agent_thread *thread, uint32_t name)
{
    struct wire_record record = {
        .time = agent_now(), .kind = WIRE_THREAD, .words = sizeof record / 8, .name = name};
    memcpy(thread->pos, &record, sizeof record);
    thread->pos += sizeof record;
    atomic_store_explicit(&thread->line->committed, (uint32_t)(thread->pos - thread->base),
                          memory_order_release);
}

/* At the first segment: a name given by NVTX before, else the kernel's name of a thread that is not
 * the main one. */
static void thread_introduce(struct agent_thread *thread)
{
    char comm[17] = "";
    uint32_t name = atomic_exchange_explicit(&thread->rename, 0, memory_order_relaxed);
    if (!name && thread->tid != agent_process->pid && prctl(PR_GET_NAME, comm) == 0)
        name = agent_name_intern(WIRE_TEXT_NAME, comm, strlen(comm), true);
    if (name)
        thread_put_name(thread, name);
}

char *agent_thread_room(struct agent_thread *thread, size_t bytes, enum wire_loss_reason *reason)
{
    struct agent_process *self = agent_process;
    if (thread->line) { /* full: the collector may have it, whether there is another one or not */
        struct wire_segment *line = thread->line;
        thread->line = NULL;
        thread->pos = thread->end = NULL;
        relaxed_store(&thread->common_end, NULL);
        atomic_store_explicit(&line->state, WIRE_FULL, memory_order_release);
    }
    *reason = (enum wire_loss_reason)relaxed_load(&self->why);
    if (agent_now() < relaxed_load(&self->retry_at))
        return NULL;
    struct agent_quiet quiet;
    bool taken = false, first = false;
    agent_quiet_begin(&quiet);
    agent_lock();
    if (agent_pool_open()) {
        first = !thread->known;
        if (first)
            thread_join(thread);
        taken = agent_pool_take(thread, reason);
        if (taken)
            agent_thread_refresh(thread);
    } else {
        *reason = (enum wire_loss_reason)relaxed_load(&self->why);
    }
    agent_unlock();
    if (taken && first)
        thread_introduce(thread);
    else if (taken && relaxed_load(&thread->rename))
        thread_put_name(thread, atomic_exchange_explicit(&thread->rename, 0, memory_order_relaxed));
    agent_quiet_end(&quiet);
    agent_thread_flush_skipped(thread);
    return taken && (size_t)(thread->end - thread->pos) >= bytes ? thread->pos : NULL;
}

void agent_thread_name(uint32_t tid, uint32_t name)
{
    struct agent_process *self = agent_process;
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    struct agent_thread *thread = self->live;
    while (thread && thread->tid != tid)
        thread = thread->next;
    if (thread) {
        relaxed_store(&thread->rename, name);
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
