/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/: the append path, inlined into each NVTX callback. No lock, no system
 * call, no allocation; what can go wrong is a call into thread.c.
 */
#ifndef TACHO_AGENT_RECORD_H
#define TACHO_AGENT_RECORD_H

#include <string.h>

#include "profiler/agent/core/agent.h"

#define AGENT_INLINE static inline __attribute__((always_inline))

/* What an event carries besides its kind. */
struct agent_event {
    uint32_t name;
    uint32_t category, category_name;
    uint32_t schema; /* arena id; used when data is not NULL */
    uint32_t bytes;
    uint32_t value_type; /* of a COUNTER */
    const void *data;
    uint64_t value;
    uint64_t range; /* id of a START or END */
    bool step;      /* the payload is a tacho.step */
};

/* event.c: what the attributes of an event say. `e` starts all zero. The strings and payloads stay
 * the program's. */
void agent_event_read(struct agent_event *event, uint32_t domain,
                      const nvtxEventAttributes_t *attributes);
/* One payload a record: the first of `count`; the others are counted as cut. */
void agent_event_payload(struct agent_event *event, uint32_t domain,
                         const nvtxPayloadData_t *payload, size_t count);

/* Marks the thread busy. NULL: nothing may be recorded now; agent_thread_open has said why. */
AGENT_INLINE struct agent_thread *agent_enter(void)
{
    struct agent_thread *thread = agent_tls;
    if (agent_unlikely(!thread || (thread->gate != AGENT_READY && thread->gate != AGENT_IDLE)))
        return agent_thread_open();
    thread->gate = AGENT_BUSY;
    atomic_signal_fence(memory_order_seq_cst);
    return thread;
}

AGENT_INLINE void agent_leave(struct agent_thread *thread)
{
    if (agent_unlikely(!relaxed_load(&thread->common_end)) && thread->line)
        agent_thread_refresh(thread);
    atomic_signal_fence(memory_order_seq_cst);
    thread->gate = agent_setup.clock == WIRE_CLOCK_TSC ? AGENT_READY : AGENT_IDLE;
}

AGENT_INLINE bool agent_paused(void)
{
    return relaxed_load(&agent_pause_flag) != 0;
}

/* Counts an event that a pause skips; into the loss table 64 at a time, because the pause must cost
 * next to nothing. */
AGENT_INLINE void agent_skip(struct agent_thread *thread)
{
    uint64_t n = relaxed_load(&thread->skipped) + 1;
    relaxed_store(&thread->skipped, n);
    if (agent_unlikely((n & 63) == 0))
        agent_thread_flush_skipped(thread);
}

#pragma GCC visibility push(hidden)

typedef uint64_t agent_word __attribute__((may_alias, aligned(1)));

/* Copies a payload of at most WIRE_PAYLOAD_MAX bytes. By words, never wider: the program has just
 * written these words one by one, and a wide load that spans several stores in flight has to wait
 * for all of them. Reads no byte outside the source. */
AGENT_INLINE void agent_copy(char *to, const char *from, size_t n)
{
    volatile agent_word *w = (volatile agent_word *)(void *)to;
    const volatile agent_word *r = (const volatile agent_word *)(const void *)from;
    if (agent_likely(n == 48 || n == 56)) { /* tacho.work, without operands or with them */
        w[0] = r[0];
        w[1] = r[1];
        w[2] = r[2];
        w[3] = r[3];
        w[4] = r[4];
        w[5] = r[5];
        if (n == 56)
            w[6] = r[6];
        return;
    }
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        w[i / 8] = r[i / 8];
    for (; i < n; i++)
        to[i] = from[i];
}

AGENT_INLINE void agent_put_pair(char *to, uint32_t first, uint32_t second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    *(volatile agent_word *)(void *)to = first | (uint64_t)second << 32;
#else
    *(volatile agent_word *)(void *)to = second | (uint64_t)first << 32;
#endif
}

/* Writes the head of a record that is otherwise complete, and publishes it. `at`: domain << 16 |
 * depth << 24. False: not published, see below. */
AGENT_INLINE bool agent_publish(struct agent_thread *thread, char *p, size_t size, uint32_t kind,
                                uint32_t at, uint32_t name, uint64_t time)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    agent_put_pair(p + 8, at | (uint32_t)(size / 8) << 8 | kind, name);
#else
    struct wire_record head = {.kind = (uint8_t)kind,
                               .words = (uint8_t)(size / 8),
                               .domain = (uint8_t)(at >> 16),
                               .depth = (uint8_t)(at >> 24),
                               .name = name};
    memcpy(p + 8, &head.kind, 8);
#endif
    *(volatile agent_word *)(void *)p = time;
    /* A signal handler that forked here left this process wiped pages: what was just written is the
     * parent's to publish. */
    if (agent_unlikely(thread->gate != AGENT_BUSY))
        return false;
    thread->pos = p + size;
    atomic_store_explicit(&thread->line->committed, (uint32_t)(thread->pos - thread->base),
                          memory_order_release);
    return true;
}

/* Appends any record. `time` 0 = now, read as late as possible. `depth` is the value type of a
 * COUNTER. False: dropped, with the reason in *reason and not yet counted. `kind` is a constant at
 * each call. */
AGENT_INLINE bool agent_append(struct agent_thread *thread, uint32_t kind, uint32_t domain,
                               uint32_t depth, uint64_t time, const struct agent_event *event,
                               enum wire_loss_reason *reason)
{
    const uint32_t code = kind & WIRE_KIND_MASK;
    const bool ranged = code == WIRE_START || code == WIRE_END;
    size_t payload = event->data ? 8 + (((size_t)event->bytes + 7) & ~(size_t)7) : 0;
    size_t size = sizeof(struct wire_record) + (event->category ? 8 : 0) + payload +
                  (code == WIRE_COUNTER ? 8 : 0) + (ranged ? 8 : 0);
    char *p = thread->pos;
    if (agent_unlikely((uintptr_t)p + size > (uintptr_t)thread->end)) {
        p = agent_thread_room(thread, size, reason);
        if (!p)
            return false;
    }
    char *q = p + sizeof(struct wire_record);
    if (event->category) {
        agent_put_pair(q, event->category, event->category_name);
        q += 8;
        kind |= WIRE_CATEGORY;
    }
    if (event->data) {
        agent_put_pair(q, event->schema, event->bytes);
        if (event->bytes & 7)
            memset(q + payload - 8, 0, 8);
        agent_copy(q + 8, event->data, event->bytes);
        q += payload;
        kind |= WIRE_PAYLOAD;
    }
    if (code == WIRE_COUNTER) {
        memcpy(q, &event->value, 8);
        q += 8;
        kind |= WIRE_VALUE;
    }
    if (ranged)
        memcpy(q, &event->range, 8);
    const uint32_t at = (depth < 255 ? depth : 255) << 24 | domain << 16;
    if (agent_likely(
            agent_publish(thread, p, size, kind, at, event->name, time ? time : agent_now())))
        return true;
    *reason = WIRE_LOSS_SIGNAL;
    return false;
}

/* range.c: an event of a signal handler that interrupted the recorder, or of a thread that could
 * get no state. `step`: 1 push, -1 pop. Returns the level. */
int agent_level_signal(uint32_t domain, int step);

/* range.c: the three shapes of an event with all that can happen to them, the thread being entered.
 * Push and pop return what NVTX wants: the level of the range, from 0, negative on error. */
int agent_push(struct agent_thread *thread, uint32_t domain, const struct agent_event *event);
int agent_pop(struct agent_thread *thread, uint32_t domain, uint64_t time,
              const struct agent_event *event);
void agent_single(struct agent_thread *thread, uint32_t kind, uint32_t domain, uint64_t time,
                  const struct agent_event *event);

/* nvtx.c: a start/end range from outside of NVTX; the thread is not entered. The id says whether it
 * was recorded. */
uint64_t agent_range_start(uint32_t domain, struct agent_event *event);
void agent_range_end(uint32_t domain, uint64_t id, struct agent_event *event);

/* ---- the common case ----
 * A registered name, at most one payload of a known schema, room in the segment, nothing lost,
 * nothing paused, the counter as clock. These have no call in them but the ones in tail position,
 * so that the compiler keeps everything in the registers of a leaf function. */

/* The rest of a push, a pop or a mark that turned out not to be common; the thread is entered and
 * is left here. */
int agent_push_rest(struct agent_thread *thread, uint32_t domain, uint32_t name, uint64_t schema,
                    const void *data, size_t bytes);
int agent_pop_rest(struct agent_thread *thread, uint32_t domain, uint64_t time);
void agent_mark_rest(struct agent_thread *thread, uint32_t domain, uint32_t name, uint64_t schema,
                     const void *data, size_t bytes);
/* The same where the thread is not entered yet. */
int agent_push_cold(uint32_t domain, uint32_t name, uint64_t schema, const void *data,
                    size_t bytes);
int agent_pop_cold(uint32_t domain);
void agent_mark_cold(uint32_t domain, uint32_t name, uint64_t schema, const void *data,
                     size_t bytes);

AGENT_INLINE bool agent_ready(const struct agent_thread *thread)
{
    return agent_likely(thread != NULL) && agent_likely(thread->gate == AGENT_READY);
}

AGENT_INLINE bool agent_common(const struct agent_thread *thread, const char *p)
{
    return agent_likely(p < relaxed_load(&thread->common_end));
}

AGENT_INLINE void agent_leave_ready(struct agent_thread *thread)
{
    atomic_signal_fence(memory_order_seq_cst);
    thread->gate = AGENT_READY;
}

/* The record of a push or a mark at `p`. Twice, because with the size of tacho.work known much of
 * it is known. */
AGENT_INLINE void agent_put(struct agent_thread *thread, char *p, uint32_t kind, uint32_t at,
                            uint32_t name, uint64_t schema, const void *data, size_t bytes)
{
    const size_t work = 48;
    if (!data) {
        agent_publish(thread, p, 16, kind, at, name, ticks_read());
        return;
    }
    agent_put_pair(p + 16, (uint32_t)schema, (uint32_t)bytes);
    if (agent_likely(bytes == work)) {
        agent_copy(p + 24, data, work);
        agent_publish(thread, p, 24 + work, kind | WIRE_PAYLOAD, at, name, ticks_read());
        return;
    }
    if (bytes & 7)
        *(volatile agent_word *)(void *)(p + 24 + (bytes & ~(size_t)7)) = 0;
    agent_copy(p + 24, data, bytes);
    agent_publish(thread, p, 24 + ((bytes + 7) & ~(size_t)7), kind | WIRE_PAYLOAD, at, name,
                  ticks_read());
}

AGENT_INLINE int agent_push_fast(uint32_t domain, uint32_t name, uint64_t schema, const void *data,
                                 size_t bytes)
{
    struct agent_thread *thread = agent_tls;
    if (!agent_ready(thread))
        return agent_push_cold(domain, name, schema, data, bytes);
    thread->gate = AGENT_BUSY;
    atomic_signal_fence(memory_order_seq_cst);
    struct agent_level *level = &thread->level[domain];
    char *p = thread->pos;
    uint32_t at = level->at, next;
    if (agent_unlikely(!level->common) ||
        agent_unlikely(__builtin_add_overflow(at, AGENT_DEPTH_ONE, &next)) ||
        agent_unlikely(schema & AGENT_ID_STEP) || !agent_common(thread, p))
        return agent_push_rest(thread, domain, name, schema, data, bytes);
    level->at = next;
    agent_put(thread, p, WIRE_PUSH, at, name, schema, data, bytes);
    agent_leave_ready(thread);
    return (int)(at >> 24);
}

AGENT_INLINE int agent_pop_fast(uint32_t domain)
{
    struct agent_thread *thread = agent_tls;
    if (!agent_ready(thread))
        return agent_pop_cold(domain);
    thread->gate = AGENT_BUSY;
    atomic_signal_fence(memory_order_seq_cst);
    uint64_t time = ticks_read();
    struct agent_level *level = &thread->level[domain];
    char *p = thread->pos;
    uint32_t at;
    if (agent_unlikely(!level->common) ||
        agent_unlikely(__builtin_sub_overflow(level->at, AGENT_DEPTH_ONE, &at)) ||
        !agent_common(thread, p))
        return agent_pop_rest(thread, domain, time);
    level->at = at;
    agent_publish(thread, p, sizeof(struct wire_record), WIRE_POP, at, 0, time);
    agent_leave_ready(thread);
    return (int)(at >> 24);
}

AGENT_INLINE void agent_mark_fast(uint32_t domain, uint32_t name, uint64_t schema, const void *data,
                                  size_t bytes)
{
    struct agent_thread *thread = agent_tls;
    if (!agent_ready(thread)) {
        agent_mark_cold(domain, name, schema, data, bytes);
        return;
    }
    thread->gate = AGENT_BUSY;
    atomic_signal_fence(memory_order_seq_cst);
    char *p = thread->pos;
    if (!agent_common(thread, p)) {
        agent_mark_rest(thread, domain, name, schema, data, bytes);
        return;
    }
    agent_put(thread, p, WIRE_MARK, domain << 16, name, schema, data, bytes);
    agent_leave_ready(thread);
}

#pragma GCC visibility pop

#endif
