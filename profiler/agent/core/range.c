/* SPDX-License-Identifier: Apache-2.0
 *
 * Nesting of ranges when some of them are not recorded. The depth always counts what the program
 * did. A bit for each level says which pushes are missing from the file, so that exactly their pops
 * are excluded, too. All of this is the slow path: record.h has the common case.
 */
#include "profiler/agent/core/record.h"

static uint32_t level_depth(const struct agent_level *level)
{
    return (level->at >> 24) + level->over;
}

static void level_move(struct agent_level *level, uint32_t domain, uint32_t depth)
{
    uint32_t shown = depth < 255 ? depth : 255;
    level->at = shown << 24 | domain << 16;
    level->over = depth - shown;
}

/* Says whether the level is a common one. A signal handler may run in between and make it an
 * uncommon one: what it sets is not overwritten.
 */
static void level_settle(struct agent_level *level, uint32_t domain)
{
    level_move(level, domain, level_depth(level));
    level->common = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (level->pending || level->deep || level->dropped || level->over)
        level->common = 0;
}

/* Remembers that the push at this depth is missing from the file. */
static void level_drop(struct agent_level *level, uint32_t depth, enum wire_loss_reason reason)
{
    if (level->deep)
        return;
    level->reason = reason;
    if (depth < 64)
        level->dropped |= (uint64_t)1 << depth;
    else
        level->deep = depth + 1;
}

/* Whether the range that a pop closes at `depth` has no push in the file; forgets it. */
static bool level_was_dropped(struct agent_level *level, uint32_t depth,
                              enum wire_loss_reason *reason)
{
    *reason = (enum wire_loss_reason)level->reason;
    if (depth < 64) {
        uint64_t bit = (uint64_t)1 << depth;
        bool dropped = (level->dropped & bit) != 0;
        level->dropped &= ~bit;
        return dropped;
    }
    if (!level->deep || depth + 1 < level->deep)
        return false;
    if (depth + 1 == level->deep)
        level->deep = 0;
    return true;
}

/* Applies what a signal handler pushed and popped while the thread was busy. */
static void level_fold(struct agent_level *level, uint32_t domain)
{
    int32_t pending = level->pending;
    uint32_t depth = level_depth(level);
    enum wire_loss_reason reason;
    level->pending = 0;
    for (; pending > 0; pending--)
        level_drop(level, depth++, WIRE_LOSS_SIGNAL);
    for (; pending < 0 && depth; pending++)
        level_was_dropped(level, --depth, &reason);
    level_move(level, domain, depth);
}

/* An event of a signal handler that interrupted the recorder, or of a thread that could get no
 * state. `step`: 1 push, -1 pop.
 */
int agent_level_signal(uint32_t domain, int step)
{
    struct agent_thread *thread = agent_tls;
    agent_lose(thread ? WIRE_LOSS_SIGNAL : WIRE_LOSS_NO_SPACE, 1);
    if (!thread)
        return NVTX_NO_PUSH_POP_TRACKING;
    struct agent_level *level = &thread->level[domain];
    int depth = (int)level_depth(level) + level->pending + (step < 0 ? -1 : 0);
    level->pending += step;
    level->common = 0;
    return depth < 0 ? -1 : depth;
}

/* ---- events, the thread being entered ---- */

/* Reads the step index from the payload of a tacho.step range; false if the payload has none. */
static bool step_index(const struct agent_event *event, uint64_t *index)
{
    struct agent_field field = {0};
    while (event->data && agent_schema_field(event->schema, &field))
        if (!strcmp(field.name, "index") && field.offset + sizeof *index <= event->bytes) {
            memcpy(index, (const char *)event->data + field.offset, sizeof *index);
            return true;
        }
    return false;
}

/* A tacho.step is recorded also where recording is paused, and may begin a pause. */
static int push_step(struct agent_thread *thread, uint32_t domain, struct agent_level *level,
                     const struct agent_event *event)
{
    enum wire_loss_reason reason = WIRE_LOSS_NO_SEGMENT;
    const uint32_t depth = level_depth(level);
    level_move(level, domain, depth + 1);
    bool pause = agent_pause_decide(thread, domain, depth);
    uint64_t index;
    if (agent_cuda_live() && step_index(event, &index))
        agent_device->step(index, pause); /* before the step begins: what it costs lies outside */
    bool done = !level->deep && agent_append(thread, WIRE_PUSH | (pause ? WIRE_PAUSED : 0u), domain,
                                             depth, 0, event, &reason);
    if (pause)
        agent_pause_begin(thread, done);
    if (!done) {
        level_drop(level, depth, reason);
        agent_lose((enum wire_loss_reason)level->reason, 1);
    }
    return (int)depth;
}

/* Opens a range. One that is not recorded, for whatever reason, is remembered by its depth, so
 * that its pop is excluded, too. */
static int push(struct agent_thread *thread, uint32_t domain, struct agent_level *level,
                const struct agent_event *event)
{
    enum wire_loss_reason reason = WIRE_LOSS_NO_SEGMENT;
    if (level->pending)
        level_fold(level, domain);
    if (event->step)
        return push_step(thread, domain, level, event);
    if (agent_unlikely(relaxed_load(&agent_watch_flag)))
        agent_device->range(thread, true, domain,
                            event->name); /* before the range begins: what it costs lies outside */
    const uint32_t depth = level_depth(level);
    level_move(level, domain, depth + 1);
    if (agent_paused()) {
        level_drop(level, depth, WIRE_LOSS_PAUSED);
        agent_skip(thread);
    } else if (level->deep) {
        agent_lose((enum wire_loss_reason)level->reason, 1);
    } else if (!agent_append(thread, WIRE_PUSH, domain, depth, 0, event, &reason)) {
        level_drop(level, depth, reason);
        agent_lose(reason, 1);
    }
    return (int)depth;
}

/* Closes the innermost range. One whose push is not in the file gets no pop either; a pop without
 * any push is counted as unbalanced. */
static int pop(struct agent_thread *thread, uint32_t domain, struct agent_level *level,
               uint64_t time, const struct agent_event *event)
{
    enum wire_loss_reason reason = WIRE_LOSS_NO_SEGMENT;
    if (level->pending)
        level_fold(level, domain);
    uint32_t depth = level_depth(level);
    if (!depth) {
        agent_lose(WIRE_LOSS_UNBALANCED, 1);
        return -1;
    }
    level_move(level, domain, --depth);
    if (agent_unlikely(relaxed_load(&agent_watch_flag)))
        agent_device->range(thread, false, domain, 0); /* it ended at `time` */
    if (level_was_dropped(level, depth, &reason)) {
        if (reason == WIRE_LOSS_PAUSED)
            agent_skip(thread);
        else
            agent_lose(reason, 1);
        return (int)depth;
    }
    /* A range whose push was recorded is closed even inside a pause: a missing end would be worse
     * than one record. */
    if (!agent_append(thread, WIRE_POP, domain, depth, time, event, &reason))
        agent_lose(reason, 1);
    if (agent_paused() && agent_pause_end(thread, domain, depth) && agent_cuda_live())
        agent_device->resume();
    return (int)depth;
}

int agent_push(struct agent_thread *thread, uint32_t domain, const struct agent_event *event)
{
    struct agent_level *level = &thread->level[domain];
    int depth = push(thread, domain, level, event);
    level_settle(level, domain);
    return depth;
}

int agent_pop(struct agent_thread *thread, uint32_t domain, uint64_t time,
              const struct agent_event *event)
{
    struct agent_level *level = &thread->level[domain];
    int depth = pop(thread, domain, level, time, event);
    level_settle(level, domain);
    return depth;
}

void agent_single(struct agent_thread *thread, uint32_t kind, uint32_t domain, uint64_t time,
                  const struct agent_event *event)
{
    enum wire_loss_reason reason = WIRE_LOSS_NO_SEGMENT;
    bool done = true;
    if (agent_paused() && !(kind == WIRE_COUNTER && agent_pause_keeps()))
        agent_skip(thread);
    else if (kind == WIRE_COUNTER)
        done = agent_append(thread, WIRE_COUNTER, domain, event->value_type, time, event, &reason);
    else
        done = agent_append(thread, WIRE_MARK, domain, 0, time, event, &reason);
    if (!done)
        agent_lose(reason, 1);
}

/* ---- events that turned out not to be common ---- */

static struct agent_event event_of(uint32_t name, uint64_t schema, const void *data, size_t bytes)
{
    return (struct agent_event){.name = name,
                                .schema = (uint32_t)schema,
                                .bytes = (uint32_t)bytes,
                                .data = data,
                                .step = (schema & AGENT_ID_STEP) != 0};
}

int agent_push_rest(struct agent_thread *thread, uint32_t domain, uint32_t name, uint64_t schema,
                    const void *data, size_t bytes)
{
    struct agent_event event = event_of(name, schema, data, bytes);
    int level = agent_push(thread, domain, &event);
    agent_leave(thread);
    return level;
}

int agent_pop_rest(struct agent_thread *thread, uint32_t domain, uint64_t time)
{
    struct agent_event event = {0};
    int level = agent_pop(thread, domain, time, &event);
    agent_leave(thread);
    return level;
}

void agent_mark_rest(struct agent_thread *thread, uint32_t domain, uint32_t name, uint64_t schema,
                     const void *data, size_t bytes)
{
    struct agent_event event = event_of(name, schema, data, bytes);
    agent_single(thread, WIRE_MARK, domain, 0, &event);
    agent_leave(thread);
}

int agent_push_cold(uint32_t domain, uint32_t name, uint64_t schema, const void *data, size_t bytes)
{
    struct agent_thread *thread = agent_enter();
    return thread ? agent_push_rest(thread, domain, name, schema, data, bytes)
                  : agent_level_signal(domain, 1);
}

/* The time is taken when the thread is busy already: a signal handler could otherwise record later
 * times before it. */
int agent_pop_cold(uint32_t domain)
{
    struct agent_thread *thread = agent_enter();
    return thread ? agent_pop_rest(thread, domain, agent_now()) : agent_level_signal(domain, -1);
}

void agent_mark_cold(uint32_t domain, uint32_t name, uint64_t schema, const void *data,
                     size_t bytes)
{
    struct agent_thread *thread = agent_enter();
    if (thread)
        agent_mark_rest(thread, domain, name, schema, data, bytes);
    else
        agent_lose(agent_tls ? WIRE_LOSS_SIGNAL : WIRE_LOSS_NO_SPACE, 1);
}
