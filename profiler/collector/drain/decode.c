/* SPDX-License-Identifier: Apache-2.0
 *
 * Records to rows. One stack a thread holds the open ranges of all its NVTX domains; a POP names
 * domain and depth, so a range whose POP was dropped is recognised when something at its depth or
 * above it happens next.
 */
#include "profiler/collector/drain/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t col_pool_time(const struct col_drain *drain, const struct col_pool *pool, uint64_t time)
{
    return pool->map.head->clock == WIRE_CLOCK_TSC ? col_clock_ns(&drain->clock, time)
                                                   : (int64_t)time;
}

/* ---- volume -------------------------------------------------------------------------------------------------------------- */

void col_count_cut(struct col_drain *drain, enum col_cut why, int64_t time)
{
    if (!drain->cut[why].count || time < drain->cut[why].first)
        drain->cut[why].first = time;
    if (!drain->cut[why].count || time > drain->cut[why].last)
        drain->cut[why].last = time;
    drain->cut[why].count++;
    drain->stats.cut += why == COL_CUT_WINDOW || why == COL_CUT_SIZE;
    drain->stats.lost += why == COL_CUT_SPACE; /* nobody asked for that */
}

bool col_decode_keeps(const struct col_drain *drain, int64_t step, enum col_cut *why)
{
    const struct col_volume *volume = &drain->volume;
    if (volume->no_space) {
        *why = COL_CUT_SPACE;
        return false;
    }
    if (volume->full) {
        *why = COL_CUT_SIZE;
        return false;
    }
    if (step == STORE_ABSENT || (volume->from < 0 && volume->every <= 1))
        return true;
    *why = COL_CUT_WINDOW;
    int64_t from = volume->from < 0 ? 0 : volume->from;
    if (step < from || (volume->from >= 0 && step > volume->to))
        return false;
    return volume->every <= 1 || (step - from) % volume->every == 0;
}

int col_add_slice(struct col_drain *drain, int64_t track, const struct col_range *range,
                  int64_t dur, int64_t *id)
{
    struct store_slice slice = {.track = track,
                                .start = range->start,
                                .dur = dur,
                                .name = range->name,
                                .category = range->category,
                                .detail = range->detail,
                                .correlation = range->correlation};
    int rc = store_slice_add(drain->db, &slice);
    if (id)
        *id = slice.id;
    drain->stats.slices++;
    return rc;
}

int col_end_range(struct col_drain *drain, struct col_pool *pool, int64_t track,
                  const struct col_range *range, int64_t end)
{
    int64_t dur = end > range->start ? end - range->start : 0;
    int64_t self = dur > range->child ? dur - range->child : 0;
    struct col_step *step = col_steps_find(&pool->steps, end);
    struct col_total key = {
        .track = track, .name = range->name, .category = range->category, .detail = range->detail};
    int rc = col_steps_add(&pool->steps, step, &key, dur, self);
    if (rc > 0)
        rc = col_steps_write(&pool->steps, drain->db, pool->process->id, 0);
    if (rc)
        return rc;
    if (range->slice)
        return store_slice_end(drain->db, range->slice, dur);
    enum col_cut why = COL_CUT_WINDOW;
    /* the ranges of steps themselves are few and always kept, as long as the disk has room */
    if (!col_decode_keeps(drain, step ? step->index : STORE_ABSENT, &why) &&
        (range->step == STORE_ABSENT || why == COL_CUT_SPACE)) {
        col_count_cut(drain, why, range->start);
        return 0;
    }
    return col_add_slice(drain, track, range, dur, NULL);
}

int col_lose_end(struct col_drain *drain, struct col_pool *pool, int64_t track,
                 const struct col_range *range, int64_t now)
{
    drain->stats.ranges_without_end++;
    if (range->step != STORE_ABSENT)
        col_steps_close(&pool->steps, range->step, now, false, drain->round);
    enum col_cut why;
    struct col_step *step = col_steps_find(&pool->steps, range->start);
    if (range->slice || !col_decode_keeps(drain, step ? step->index : STORE_ABSENT, &why))
        return 0;
    return col_add_slice(drain, track, range, STORE_ABSENT, NULL);
}

/* ---- push and pop -------------------------------------------------------------------------------------------------------- */

static void stack_remove(struct col_thread *thread, uint32_t i)
{
    thread->depth--;
    if (i < thread->depth)
        memmove(&thread->stack[i], &thread->stack[i + 1],
                (thread->depth - i) * sizeof *thread->stack);
}

/* Takes out what is open in this domain at `depth` or deeper (deeper only, for a POP): the POPs of
 * these were lost. */
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

/* Depth of the innermost open range of a domain, -1 = none is open. */
static int innermost_depth(const struct col_thread *thread, uint8_t domain)
{
    for (uint32_t i = thread->depth; i-- > 0;)
        if (thread->stack[i].domain == domain)
            return thread->stack[i].depth;
    return -1;
}

static int on_push(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                   const struct col_event *event)
{
    const struct wire_record *record = event->record;
    int rc = 0;
    /* 255 stands for every deeper level too, so there the depth does not tell */
    if (record->depth < 255 && innermost_depth(thread, record->domain) >= (int)record->depth &&
        (rc = heal(drain, pool, thread, record->domain, record->depth, event->time)) != 0)
        return rc;
    if (thread->depth == thread->cap) {
        uint32_t cap = thread->cap ? thread->cap * 2 : 32;
        struct col_range *s = realloc(thread->stack, cap * sizeof *s);
        if (!s)
            return TACHO_ENOMEM;
        thread->stack = s;
        thread->cap = cap;
    }
    struct col_extra extra;
    if ((rc = col_event_extra(drain, pool, event, &extra)) != 0)
        return rc;
    struct col_range *o = &thread->stack[thread->depth];
    *o = (struct col_range){.start = event->time,
                            .end = STORE_ABSENT,
                            .detail = extra.detail,
                            .correlation = extra.correlation,
                            .step = extra.index,
                            .domain = record->domain,
                            .depth = record->depth};
    o->name = col_pool_string(drain, pool, record->name, &rc);
    o->category = col_event_category(drain, pool, event, &rc);
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
    if (range->step != STORE_ABSENT)
        col_steps_close(&pool->steps, range->step, event->time, true, drain->round);
    rc = col_end_range(drain, pool, thread->track, range, event->time);
    if (i > 0 && event->time > range->start)
        thread->stack[i - 1].child += event->time - range->start;
    stack_remove(thread, i);
    return rc;
}

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

/* The agent's own counters say two things more: "name TAB domain TAB schema TAB device TAB unit".
 */
static void own_counter(char *text, char **device, char **unit)
{
    char *at = text;
    for (int i = 0; at && i < 3; i++)
        at = strchr(at, '\t') ? strchr(at, '\t') + 1 : NULL;
    if (!at || !(*unit = strchr(at, '\t')))
        return;
    *(*unit)++ = 0;
    *device = at;
}

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
    const char *tab = text ? memchr(text, '\t', bytes) : NULL;
    if (text)
        snprintf(name, sizeof name, "%.*s", tab ? (int)(tab - text) : (int)bytes, text);
    char own[WIRE_STRING_MAX + 1], *device = NULL, *unit = NULL;
    snprintf(own, sizeof own, "%.*s", text ? (int)bytes : 0, text ? text : "");
    own_counter(own, &device, &unit);
    struct store_track t = {.process = pool->process->id,
                            .tid = STORE_ABSENT,
                            .kind = "counter",
                            .name = name,
                            .device = device,
                            .unit = unit};
    int rc = store_track_add(drain->db, &t);
    if (rc)
        return rc;
    struct col_counter *list = realloc(pool->counter, (pool->counter_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    pool->counter = list;
    pool->counter[pool->counter_count++] = (struct col_counter){.arena = arena, .track = t.id};
    pool->dirty = true;
    *track = t.id;
    return 0;
}

static int on_counter(struct col_drain *drain, struct col_pool *pool, const struct col_event *event)
{
    int64_t track = 0;
    int rc = counter_track(drain, pool, event->record->name, &track);
    if (rc)
        return rc;
    enum col_cut why;
    if (!col_decode_keeps(drain, STORE_ABSENT, &why)) {
        col_count_cut(drain, why, event->time);
        return 0;
    }
    struct store_counter counter = {
        .track = track, .time = event->time, .value = __builtin_nan("")};
    int64_t integer;
    if (event->value && event->record->depth == WIRE_VALUE_F64) {
        memcpy(&counter.value, event->value, sizeof counter.value);
    } else if (event->value && event->record->depth == WIRE_VALUE_I64) {
        memcpy(&integer, event->value, sizeof integer);
        counter.value = (double)integer;
    }
    drain->stats.counters++;
    return store_counter_add(drain->db, &counter);
}

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

/* Takes a record apart; false if it is not one. */
static bool take_apart(const uint8_t *at, const uint8_t *to, struct col_event *event)
{
    const struct wire_record *record = (const struct wire_record *)at;
    size_t left = (size_t)(to - at);
    if (left < sizeof *record || record->words < 2 || (size_t)record->words * 8 > left)
        return false;
    const uint8_t *p = at + sizeof *record, *end = at + (size_t)record->words * 8;
    *event = (struct col_event){.record = record};
    if (record->kind & WIRE_CATEGORY) {
        if (end - p < 8)
            return false;
        event->category = (const uint32_t *)p;
        p += 8;
    }
    if (record->kind & WIRE_PAYLOAD) {
        if (end - p < 8)
            return false;
        memcpy(&event->schema, p, 4);
        memcpy(&event->bytes, p + 4, 4);
        p += 8;
        if (event->bytes > WIRE_PAYLOAD_MAX || (size_t)(end - p) < event->bytes)
            return false;
        event->payload = p;
        p += (event->bytes + 7) & ~7u;
    }
    if (record->kind & WIRE_VALUE) {
        if (end - p < 8)
            return false;
        event->value = p;
        p += 8;
    }
    unsigned kind = record->kind & WIRE_KIND_MASK;
    if (kind == WIRE_START || kind == WIRE_END) {
        if (end - p < 8)
            return false;
        memcpy(&event->range, p, 8);
    }
    return kind >= WIRE_PUSH && kind <= WIRE_THREAD;
}

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

int col_decode(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
               const uint8_t *from, const uint8_t *to)
{
    while (from < to) {
        struct col_event event;
        if (!take_apart(from, to, &event)) {
            thread->damaged = true;
            return col_drain_loss(drain, "collector",
                                  "damaged record: the rest of its thread's recording was not read",
                                  STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
        }
        event.time = col_pool_time(drain, pool, event.record->time);
        int rc = on_event(drain, pool, thread, &event);
        if (rc)
            return rc;
        drain->stats.records++;
        if (event.time > pool->last_event)
            pool->last_event = event.time;
        from += (size_t)event.record->words * 8;
    }
    return 0;
}

/* ---- open ranges get a row at each commit ------------------------------------------------------------------------------------ */

int col_decode_materialise(struct col_drain *drain, struct col_pool *pool,
                           struct col_thread *thread)
{
    for (uint32_t i = 0; i < thread->depth; i++) {
        struct col_range *range = &thread->stack[i];
        enum col_cut why = COL_CUT_WINDOW;
        if (range->slice)
            continue;
        struct col_step *step = col_steps_find(&pool->steps, range->start);
        if (!col_decode_keeps(drain, step ? step->index : STORE_ABSENT, &why) &&
            (range->step == STORE_ABSENT || why == COL_CUT_SPACE))
            continue; /* counted when it ends */
        int rc = col_add_slice(drain, thread->track, range, STORE_ABSENT, &range->slice);
        if (rc)
            return rc;
    }
    return 0;
}
