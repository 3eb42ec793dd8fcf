/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the process that all files of the agent share, the lock that guards it, and the loss
 * table. Nothing here calls another file of the agent except the clock.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/agent/core/agent.h"

struct agent_setup agent_setup;
struct agent_process *agent_process;
const struct agent_device *agent_device;
_Atomic uint32_t agent_pause_flag, agent_watch_flag;

void agent_quiet_begin(struct agent_quiet *quiet)
{
    sigset_t all;
    quiet->saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &quiet->cancel);
    sigfillset(&all);
    /* A fault inside the agent must still end the process with its own signal. */
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

bool agent_background(void *(*run)(void *), size_t stack)
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = pthread_attr_init(&attr) == 0;
    if (ok) {
        pthread_attr_setstacksize(&attr, stack);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        ok = pthread_create(&thread, &attr, run, NULL) == 0;
        pthread_attr_destroy(&attr);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
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

void agent_lose(enum wire_loss_reason reason, uint64_t count)
{
    struct wire_pool *pool = atomic_load_explicit(&agent_process->pool, memory_order_acquire);
    if (!pool)
        pool = atomic_load_explicit(&agent_process->ancestor, memory_order_acquire);
    if (!pool) {
        /* Either the thread that opens the pool sees this count, or this thread sees the pool. */
        atomic_fetch_add(&agent_process->early[reason], count);
        pool = atomic_load(&agent_process->pool);
        if (!pool || (count = atomic_exchange(&agent_process->early[reason], 0)) == 0)
            return;
    }
    struct wire_loss *loss = &pool->loss[reason];
    uint64_t now = agent_now(), none = 0;
    if (relaxed_load(&loss->first) == 0)
        atomic_compare_exchange_strong_explicit(&loss->first, &none, now, memory_order_relaxed,
                                                memory_order_relaxed);
    relaxed_store(&loss->last, now);
    /* pairs with col_shared_copy: whoever sees the count sees a time, whoever sees the sum the
     * count */
    atomic_fetch_add_explicit(&loss->count, count, memory_order_release);
    atomic_fetch_add_explicit(&pool->losses, count, memory_order_release);
}
