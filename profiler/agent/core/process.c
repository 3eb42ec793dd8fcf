/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/agent/core/agent.h"

struct agent_setup agent_setup;
struct agent_process *agent_process;
_Atomic uint32_t agent_pause_flag, agent_watch_flag;

static pthread_once_t start_once = PTHREAD_ONCE_INIT;
static bool start_ok;

/* Where the kernel cannot wipe pages at fork (before 4.14), the fork handler does it; raw clone is
 * then not covered. */
static bool wipe_by_hand;

static void in_child(void)
{
    if (wipe_by_hand) {
        memset(agent_process, 0, sizeof *agent_process);
        if (agent_tls)
            memset(agent_tls, 0, sizeof *agent_tls);
    }
    agent_thread_in_child();
}

static bool process_page_map(void)
{
    void *page = mmap(NULL, sizeof *agent_process, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    agent_process = page;
    wipe_by_hand = madvise(page, sizeof *agent_process, MADV_WIPEONFORK) != 0;
    return pthread_atfork(agent_thread_before_fork, NULL, in_child) == 0;
}

static void setup_read(const char *folder)
{
    const char *mib = getenv(WIRE_ENV_POOL_MIB), *pause = getenv(WIRE_ENV_PAUSE);
    memcpy(agent_setup.folder, folder, strlen(folder) + 1);
    agent_setup.clock = agent_clock_choose();
    agent_setup.tick_ms = agent_setup.clock == WIRE_CLOCK_TSC ? 3000000 : 1000000;
    unsigned long long cap = WIRE_SEGMENT_CAP;
    if (mib) {
        cap = strtoull(mib, NULL, 10) * ((1u << 20) / WIRE_SEGMENT_BYTES);
        cap = cap < WIRE_GROW ? WIRE_GROW : cap > (1u << 20) ? (1u << 20) : cap;
    }
    agent_setup.segment_cap = (uint32_t)cap;
    double p = pause ? strtod(pause, NULL) : 0;
    agent_setup.pause_below = !(p > 0) ? 0
                              : p >= 1 ? UINT64_MAX
                                       : (uint64_t)(p * 18446744073709549568.0);
}

static void start(void)
{
    const char *folder = getenv(WIRE_ENV_SEGMENTS);
    int saved = errno;
    if (!folder || folder[0] != '/' || strlen(folder) >= sizeof agent_setup.folder)
        return;
    setup_read(folder);
    start_ok = process_page_map() && agent_thread_start() == 0;
    errno = saved;
}

bool agent_start(void)
{
    pthread_once(&start_once, start);
    return start_ok;
}

void agent_quiet_begin(struct agent_quiet *quiet)
{
    sigset_t all;
    quiet->saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &quiet->cancel);
    sigfillset(&all);
    /* A fault of our own must still kill with its own signal. */
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGTRAP);
    pthread_sigmask(SIG_SETMASK, &all, &quiet->mask);
}

void agent_quiet_end(const struct agent_quiet *quiet)
{
    pthread_sigmask(SIG_SETMASK, &quiet->mask, NULL);
    pthread_setcancelstate(quiet->cancel, NULL);
    errno = quiet->saved_errno;
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void agent_lock(void)
{
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong_explicit(&agent_process->lock, &seen, 1,
                                                memory_order_acquire, memory_order_relaxed))
        return;
    while (atomic_exchange_explicit(&agent_process->lock, 2, memory_order_acquire) != 0)
        futex(&agent_process->lock, FUTEX_WAIT, 2);
}

void agent_unlock(void)
{
    if (atomic_exchange_explicit(&agent_process->lock, 0, memory_order_release) == 2)
        futex(&agent_process->lock, FUTEX_WAKE, 1);
}

void agent_lose(enum wire_loss_reason reason, uint64_t n)
{
    struct wire_pool *pool = atomic_load_explicit(&agent_process->pool, memory_order_acquire);
    if (!pool)
        pool = atomic_load_explicit(&agent_process->ancestor, memory_order_acquire);
    if (!pool) {
        /* Either the thread that opens the pool finds this count, or the pool is seen here. */
        atomic_fetch_add(&agent_process->early[reason], n);
        pool = atomic_load(&agent_process->pool);
        if (!pool || (n = atomic_exchange(&agent_process->early[reason], 0)) == 0)
            return;
    }
    struct wire_loss *loss = &pool->loss[reason];
    uint64_t now = agent_now(), none = 0;
    if (atomic_load_explicit(&loss->first, memory_order_relaxed) == 0)
        atomic_compare_exchange_strong_explicit(&loss->first, &none, now, memory_order_relaxed,
                                                memory_order_relaxed);
    atomic_store_explicit(&loss->last, now, memory_order_relaxed);
    atomic_fetch_add_explicit(&loss->count, n, memory_order_relaxed);
}

/* The process runs its exit handlers. Threads may still run and record: nothing is taken from them.
 */
__attribute__((destructor)) static void process_finish(void)
{
    if (!start_ok)
        return;
    struct wire_pool *pool = atomic_load_explicit(&agent_process->pool, memory_order_acquire);
    if (!pool) {
        uint64_t lost =
            atomic_load_explicit(&agent_process->early[WIRE_LOSS_NO_SPACE], memory_order_relaxed);
        if (lost)
            agent_pool_never(lost);
        return;
    }
    agent_thread_flush_all();
    atomic_store_explicit(&pool->finished, 1, memory_order_release);
}
