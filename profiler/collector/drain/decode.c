/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the records of a thread into rows. A stack for each thread holds the open ranges of all its
 * NVTX domains. A POP names domain and depth, so a range whose POP was dropped is recognised when
 * something happens at its depth or above it.
 */
#include "profiler/collector/drain/decode_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_IN_A_ROW 4

/* ---- push and pop -------------------------------------------------------------------------------------------------------- */

/* Removes entry i of a thread's stack. */
static void stack_remove(struct col_thread *thread, uint32_t i)
{
    thread->depth--;
    if (i < thread->depth)
        memmove(&thread->stack[i], &thread->stack[i + 1],
                (thread->depth - i) * sizeof *thread->stack);
}

/* Removes the open ranges of a domain at `depth` or deeper: their POPs were lost. */
static int heal(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                uint8_t domain, unsigned depth, int64_t now)
{
    int rc = 0;
    for (uint32_t i = thread->depth; i-- > 0 && rc == 0;) {
        if (thread->stack[i].domain != domain)
            continue;
        if (thread->stack[i].depth < depth)
            break;
        rc = col_lose_end(drain, pool, thread->track, &thread->stack[i], now);
        stack_remove(thread, i);
    }
    return rc;
}

/* Gives up the oldest of the ranges beyond depth 254 that are open in a thread: so many lack their
 * POP. A program that forgets it once a step would, after days, make each commit save all of them.
 */
static int shed(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                int64_t now)
{
    uint32_t kept = 0, lost = 0;
    int rc = 0;
    for (uint32_t i = 0; i < thread->depth; i++) {
        if (rc || thread->stack[i].depth < 255 || lost == COL_OPEN_MOST / 2) {
            thread->stack[kept++] = thread->stack[i];
            continue;
        }
        rc = col_lose_end(drain, pool, thread->track, &thread->stack[i], now);
        lost++;
    }
    thread->depth = kept;
    return rc;
}

/* Depth of the innermost open range of a domain, -1 = none is open. */
static int innermost_depth(const struct col_thread *thread, uint8_t domain)
{
    for (uint32_t i = thread->depth; i-- > 0;)
        if (thread->stack[i].domain == domain)
            return thread->stack[i].depth;
    return -1;
}

/* Opens a range on the thread's stack. A range that is still open at the same depth of the domain
 * has lost its POP. A range that is a step opens it in the table of steps too. */
static int on_push(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                   const struct col_event *event)
{
    const struct wire_record *record = event->record;
    int rc = 0;
    /* Depth 255 means that or deeper, so nothing follows from it. */
    if (record->depth < 255 && innermost_depth(thread, record->domain) >= (int)record->depth &&
        (rc = heal(drain, pool, thread, record->domain, record->depth, event->time)) != 0)
        return rc;
    bool is_much = thread->depth >= COL_OPEN_MOST && thread->depth % (COL_OPEN_MOST / 2) == 0;
    if (is_much && (rc = shed(drain, pool, thread, event->time)) != 0)
        return rc;
    if (thread->depth == thread->cap) {
        uint32_t cap = thread->cap ? thread->cap * 2 : 32;
        struct col_range *stack = realloc(thread->stack, cap * sizeof *stack);
        if (!stack)
            return TACHO_ENOMEM;
        thread->stack = stack;
        thread->cap = cap;
    }
    struct col_extra extra;
    if ((rc = col_event_extra(drain, pool, event, &extra)) != 0)
        return rc;
    struct col_range *range = &thread->stack[thread->depth];
    *range = (struct col_range){.start = event->time,
                                .end = STORE_ABSENT,
                                .detail = extra.detail,
                                .correlation = extra.correlation,
                                .step = extra.index,
                                .domain = record->domain,
                                .depth = record->depth};
    range->name = col_pool_string(drain, pool, record->name, &rc);
    range->category = col_event_category(drain, pool, event, &rc);
    if (rc)
        return rc;
    thread->depth++;
    if (extra.index != STORE_ABSENT) {
        thread->has_step = true;
        rc = col_steps_open(&pool->steps, extra.index, event->time, extra.tokens, extra.samples,
                            (record->kind & WIRE_PAUSED) != 0);
    }
    return rc;
}

/* Closes the range that a POP names. Where it is not on the stack, its PUSH was lost, and so were
 * the POPs of everything deeper. */
static int on_pop(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                  const struct col_event *event)
{
    const struct wire_record *record = event->record;
    uint32_t i = thread->depth;
    while (i-- > 0)
        if (thread->stack[i].domain == record->domain && thread->stack[i].depth <= record->depth)
            break;
    if (i == UINT32_MAX || thread->stack[i].depth != record->depth) {
        drain->stats.ends_without_start++;
        return heal(drain, pool, thread, record->domain, record->depth + 1u, event->time);
    }
    int rc = 0;
    if (i + 1 < thread->depth && record->depth < 255 &&
        (rc = heal(drain, pool, thread, record->domain, record->depth + 1u, event->time)) != 0)
        return rc;
    struct col_range *range = &thread->stack[i];
    if (event->payload && range->detail == STORE_ABSENT) {
        struct col_extra extra;
        if ((rc = col_event_extra(drain, pool, event, &extra)) != 0)
            return rc;
        range->detail = extra.detail;
    }
    if (range->step != STORE_ABSENT) {
        col_steps_close(&pool->steps, range->step, event->time, true, drain->round);
        col_volume_step(drain, event->time - range->start);
    }
    rc = col_end_range(drain, pool, thread->track, range, event->time);
    if (i > 0 && event->time > range->start)
        thread->stack[i - 1].child += event->time - range->start;
    stack_remove(thread, i);
    return rc;
}

/* A mark is a range without duration: it counts in the totals of its step like any other. */
static int on_mark(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                   const struct col_event *event)
{
    struct col_extra extra;
    int rc = col_event_extra(drain, pool, event, &extra);
    if (rc)
        return rc;
    struct col_range range = {.start = event->time,
                              .detail = extra.detail,
                              .correlation = extra.correlation,
                              .step = STORE_ABSENT};
    range.name = col_pool_string(drain, pool, event->record->name, &rc);
    range.category = col_event_category(drain, pool, event, &rc);
    return rc ? rc : col_end_range(drain, pool, thread->track, &range, event->time);
}

/* ---- counters, names ------------------------------------------------------------------------------------------------------- */

/* Device and unit of the agent's own counters, whose text is "name TAB domain TAB schema TAB device
 * TAB unit". Others have fewer parts. */
static void own_counter(char *text, char **device, char **unit)
{
    char *field = text;
    for (int i = 0; field && i < 3; i++)
        field = strchr(field, '\t') ? strchr(field, '\t') + 1 : NULL;
    if (!field || !(*unit = strchr(field, '\t')))
        return;
    *(*unit)++ = 0;
    *device = field;
}

/* The track of a counter, which the pool names by its entry in the arena. */
static int counter_track(struct col_drain *drain, struct col_pool *pool, uint32_t arena,
                         int64_t *track)
{
    for (uint32_t i = 0; i < pool->counter_count; i++)
        if (pool->counter[i].arena == arena) {
            *track = pool->counter[i].track;
            return 0;
        }
    uint32_t bytes = 0;
    const char *text = col_map_text(&pool->map, arena, WIRE_TEXT_COUNTER, &bytes);
    char name[WIRE_STRING_MAX + 1] = "(unnamed counter)";
    char own[WIRE_STRING_MAX + 1] = "", *device = NULL, *unit = NULL;
    if (text) {
        snprintf(own, sizeof own, "%.*s", (int)bytes, text);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(own, "\t"), own);
        own_counter(own, &device, &unit);
    }
    int rc = col_counter_track(drain, pool->process->id, name, unit, device, track);
    if (rc)
        return rc;
    struct col_counter *list = realloc(pool->counter, (pool->counter_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    pool->counter = list;
    pool->counter[pool->counter_count++] = (struct col_counter){.arena = arena, .track = *track};
    pool->dirty = true;
    return 0;
}

/* A point of a counter. Values are stored as doubles; NaN where the record has none. */
static int on_counter(struct col_drain *drain, struct col_pool *pool, const struct col_event *event)
{
    int64_t track = 0;
    int rc = counter_track(drain, pool, event->record->name, &track);
    if (rc || !col_has_room_for_sample(drain, event->time))
        return rc;
    double value = __builtin_nan("");
    int64_t integer;
    if (event->value && event->record->depth == WIRE_VALUE_F64) {
        memcpy(&value, event->value, sizeof value);
    } else if (event->value && event->record->depth == WIRE_VALUE_I64) {
        memcpy(&integer, event->value, sizeof integer);
        value = (double)integer;
    }
    return col_add_counter(drain, track, event->time, value);
}

/* A program has named a thread: its track gets that name. */
static int on_thread_name(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                          const struct col_event *event)
{
    uint32_t bytes = 0;
    const char *text = col_map_text(&pool->map, event->record->name, WIRE_TEXT_NAME, &bytes);
    if (!text)
        return 0;
    char name[WIRE_STRING_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)bytes, text);
    return store_track_rename(drain->db, thread->track, name);
}

/* ---- records --------------------------------------------------------------------------------------------------------------- */

/* Steps over the next bytes of a record; NULL where fewer are left. */
static const uint8_t *next_part(const uint8_t **part, const uint8_t *end, size_t bytes)
{
    const uint8_t *found = *part;
    if ((size_t)(end - found) < bytes)
        return NULL;
    *part += bytes;
    return found;
}

/* Takes a record apart: a header of fixed size, then the optional parts that its kind announces.
 * False where the parts do not fill the record, or the kind is unknown. */
static bool take_apart(const uint8_t *from, const uint8_t *to, struct col_event *event)
{
    const struct wire_record *record = (const struct wire_record *)from;
    size_t left = (size_t)(to - from);
    if (left < sizeof *record || record->words < 2 || (size_t)record->words * 8 > left)
        return false;
    const uint8_t *part = from + sizeof *record, *end = from + (size_t)record->words * 8;
    *event = (struct col_event){.record = record};
    const uint8_t *found = part;
    if (record->kind & WIRE_CATEGORY) {
        found = next_part(&part, end, 8);
        event->category = (const uint32_t *)found;
    }
    if (found && record->kind & WIRE_PAYLOAD && (found = next_part(&part, end, 8))) {
        memcpy(&event->schema, found, 4);
        memcpy(&event->bytes, found + 4, 4);
        if (event->bytes > WIRE_PAYLOAD_MAX)
            return false;
        event->payload = found = next_part(&part, end, (event->bytes + 7) & ~7u);
    }
    if (found && record->kind & WIRE_VALUE)
        event->value = found = next_part(&part, end, 8);
    unsigned kind = record->kind & WIRE_KIND_MASK;
    if (found && (kind == WIRE_START || kind == WIRE_END) && (found = next_part(&part, end, 8)))
        memcpy(&event->range, found, 8);
    return found && part == end && kind >= WIRE_PUSH && kind <= WIRE_THREAD;
}

/* Hands a record to the function for its kind. */
static int on_event(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                    const struct col_event *event)
{
    switch ((enum wire_kind)(event->record->kind & WIRE_KIND_MASK)) {
    case WIRE_PUSH:
        return on_push(drain, pool, thread, event);
    case WIRE_POP:
        return on_pop(drain, pool, thread, event);
    case WIRE_START:
        return col_on_start(drain, pool, event);
    case WIRE_END:
        return col_on_end(drain, pool, event);
    case WIRE_MARK:
        return on_mark(drain, pool, thread, event);
    case WIRE_COUNTER:
        return on_counter(drain, pool, event);
    case WIRE_THREAD:
        return on_thread_name(drain, pool, thread, event);
    case WIRE_KIND_MASK:
        break;
    }
    return TACHO_EINTERNAL;
}

/* Takes a record apart and checks that its time can be. */
static bool read_event(const struct col_drain *drain, const struct col_pool *pool,
                       const uint8_t *from, const uint8_t *to, struct col_event *event)
{
    if (!take_apart(from, to, event))
        return false;
    event->time = col_pool_time(drain, pool, event->record->time);
    return event->time >= pool->earliest && event->time <= pool->latest;
}

/* Do whole records follow each other here: as many as make chance unlikely, or up to the end? */
static bool is_sequence(const struct col_drain *drain, const struct col_pool *pool,
                        const uint8_t *from, const uint8_t *to)
{
    struct col_event event;
    for (int i = 0; i < RECORDS_IN_A_ROW && from < to; i++) {
        if (!read_event(drain, pool, from, to, &event))
            return false;
        from += (size_t)event.record->words * 8;
    }
    return true;
}

/* The first place after a damaged record from which on whole records follow each other. */
static const uint8_t *next_sequence(const struct col_drain *drain, const struct col_pool *pool,
                                    const uint8_t *from, const uint8_t *to)
{
    do
        from += 8;
    while (from < to && !is_sequence(drain, pool, from, to));
    return from;
}

int col_decode(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
               const uint8_t *from, const uint8_t *to)
{
    int rc = 0;
    while (from < to && rc == 0) {
        struct col_event event;
        if (!read_event(drain, pool, from, to, &event)) {
            from = next_sequence(drain, pool, from, to);
            rc = col_drain_lose(drain, "damaged records not read");
            continue;
        }
        rc = on_event(drain, pool, thread, &event);
        drain->stats.records++;
        if (event.time > pool->last_event)
            pool->last_event = event.time;
        from += (size_t)event.record->words * 8;
    }
    return rc;
}

/* ---- open ranges get a row at each commit ------------------------------------------------------------------------------------ */

int col_decode_materialise(struct col_drain *drain, struct col_pool *pool,
                           struct col_thread *thread)
{
    for (uint32_t i = 0; i < thread->depth; i++) {
        struct col_range *range = &thread->stack[i];
        enum col_cut why;
        if (range->slice)
            continue;
        struct col_step *step = col_steps_find(&pool->steps, range->start);
        if (!col_keeps_range(drain, step, range, &why))
            continue; /* counted when it ends */
        int rc = col_add_slice(drain, thread->track, range, STORE_ABSENT, &range->slice);
        if (rc)
            return rc;
    }
    return 0;
}
