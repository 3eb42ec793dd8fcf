/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring the recorder's own cost: recording pauses for whole steps chosen at random, and the
 * steps' durations with and without it are compared outside. One thread owns a pause, from the push
 * of its tacho.step to the pop. The first values of counters in a pause are recorded all the same:
 * a loss that is no number may be said only once.
 */
#include "profiler/agent/core/agent.h"

#define PAUSE_WARM_UP 10u /* steps at the start that are never paused */
#define PAUSE_VALUES  64u /* of counters that are recorded in a pause: less than 10 us in all */

/* ---- what a pause does to threads ---- */

/* Looks at the flags after the store, and who sets one clears common_end after that: one of the two
 * sees the other. */
void agent_thread_refresh(struct agent_thread *thread)
{
    if (!thread->end || relaxed_load(&agent_pause_flag) || relaxed_load(&agent_watch_flag))
        return;
    atomic_store(&thread->common_end, thread->end - WIRE_RECORD_MAX);
    if (atomic_load(&agent_pause_flag) || atomic_load(&agent_watch_flag))
        atomic_store(&thread->common_end, NULL);
}

void agent_thread_stop_common(void)
{
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    for (struct agent_thread *thread = agent_process->live; thread; thread = thread->next)
        atomic_store(&thread->common_end, NULL);
    agent_unlock();
    agent_quiet_end(&quiet);
}

void agent_thread_flush_skipped(struct agent_thread *thread)
{
    /* The owner and a finishing process may both come here: what is added is the difference to what
     * the other one added. */
    uint64_t total = relaxed_load(&thread->skipped);
    uint64_t before = atomic_exchange_explicit(&thread->counted, total, memory_order_relaxed);
    if (total != before)
        agent_lose(WIRE_LOSS_PAUSED, total - before);
}

void agent_thread_flush_all(void)
{
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    for (struct agent_thread *thread = agent_process->live; thread; thread = thread->next)
        agent_thread_flush_skipped(thread);
    agent_unlock();
    agent_quiet_end(&quiet);
}

/* ---- deciding, beginning and ending ---- */

/* xorshift64*, seeded by the clock and the pid: which steps pause must not follow a pattern of
 * the program. */
static uint64_t pause_random(struct agent_process *self)
{
    uint64_t bits = self->random;
    if (!bits)
        bits = agent_now() ^ ((uint64_t)self->pid << 32) ^ 0x9e3779b97f4a7c15u;
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    self->random = bits;
    return bits * 0x2545f4914f6cdd1du;
}

bool agent_pause_decide(struct agent_thread *thread, uint32_t domain, uint32_t depth)
{
    struct agent_process *self = agent_process;
    struct agent_thread *none = NULL;
    if (!agent_setup.pause_below)
        return false;
    uint64_t step = relaxed_add(&self->steps, 1);
    /* Steps do not nest: a pause whose pop never came ends at the thread's next step. */
    agent_pause_abandon(thread);
    if (relaxed_load(&agent_pause_flag))
        return true;
    if (step < PAUSE_WARM_UP)
        return false;
    if (!atomic_compare_exchange_strong_explicit(&self->pause_owner, &none, thread,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    if (pause_random(self) >= agent_setup.pause_below && agent_setup.pause_below != UINT64_MAX) {
        atomic_store_explicit(&self->pause_owner, NULL, memory_order_release);
        return false;
    }
    self->pause_domain = domain;
    self->pause_depth = depth;
    return true;
}

void agent_pause_begin(struct agent_thread *thread, bool recorded)
{
    struct agent_process *self = agent_process;
    if (relaxed_load(&self->pause_owner) != thread)
        return;
    /* A pause that is not in the file would look like a step without events. */
    if (!recorded) {
        atomic_store_explicit(&self->pause_owner, NULL, memory_order_release);
        return;
    }
    relaxed_store(&self->pause_values, 0);
    atomic_store(&agent_pause_flag, 1);
    agent_thread_stop_common();
}

bool agent_pause_keeps(void)
{
    return relaxed_load(&agent_process->pause_values) < PAUSE_VALUES &&
           relaxed_add(&agent_process->pause_values, 1) < PAUSE_VALUES;
}

bool agent_pause_end(struct agent_thread *thread, uint32_t domain, uint32_t depth)
{
    struct agent_process *self = agent_process;
    if (relaxed_load(&self->pause_owner) != thread || self->pause_domain != domain ||
        self->pause_depth < depth)
        return false;
    agent_pause_abandon(thread);
    return true;
}

void agent_pause_abandon(struct agent_thread *thread)
{
    struct agent_process *self = agent_process;
    if (relaxed_load(&self->pause_owner) != thread)
        return;
    relaxed_store(&agent_pause_flag, 0);
    atomic_store_explicit(&self->pause_owner, NULL, memory_order_release);
    agent_thread_flush_skipped(thread);
}
