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

int64_t col_pool_time(const struct col_drain *d, const struct col_pool *p, uint64_t time)
{
    return p->map.head->clock == WIRE_CLOCK_TSC ? col_clock_ns(&d->clock, time) : (int64_t)time;
}

/* ---- volume -------------------------------------------------------------------------------------------------------------- */

void col_count_cut(struct col_drain *d, enum col_cut why, int64_t time)
{
    if (!d->cut[why].count || time < d->cut[why].first)
        d->cut[why].first = time;
    if (!d->cut[why].count || time > d->cut[why].last)
        d->cut[why].last = time;
    d->cut[why].count++;
    d->stats.cut += why == COL_CUT_WINDOW || why == COL_CUT_SIZE;
    d->stats.lost += why == COL_CUT_SPACE; /* nobody asked for that */
}

bool col_decode_keeps(const struct col_drain *d, int64_t step, enum col_cut *why)
{
    const struct col_volume *v = &d->volume;
    if (v->no_space) {
        *why = COL_CUT_SPACE;
        return false;
    }
    if (v->full) {
        *why = COL_CUT_SIZE;
        return false;
    }
    if (step == STORE_ABSENT || (v->from < 0 && v->every <= 1))
        return true;
    *why = COL_CUT_WINDOW;
    int64_t from = v->from < 0 ? 0 : v->from;
    if (step < from || (v->from >= 0 && step > v->to))
        return false;
    return v->every <= 1 || (step - from) % v->every == 0;
}

int col_add_slice(struct col_drain *d, int64_t track, const struct col_range *r, int64_t dur,
                  int64_t *id)
{
    struct store_slice s = {.track = track,
                            .start = r->start,
                            .dur = dur,
                            .name = r->name,
                            .category = r->category,
                            .detail = r->detail,
                            .correlation = r->correlation};
    int rc = store_slice_add(d->db, &s);
    if (id)
        *id = s.id;
    d->stats.slices++;
    return rc;
}

int col_end_range(struct col_drain *d, struct col_pool *p, int64_t track, const struct col_range *r,
                  int64_t end)
{
    int64_t dur = end > r->start ? end - r->start : 0;
    int64_t self = dur > r->child ? dur - r->child : 0;
    struct col_step *step = col_steps_find(&p->steps, end);
    struct col_total key = {
        .track = track, .name = r->name, .category = r->category, .detail = r->detail};
    int rc = col_steps_add(&p->steps, step, &key, dur, self);
    if (rc > 0)
        rc = col_steps_write(&p->steps, d->db, p->process->id, 0);
    if (rc)
        return rc;
    if (r->slice)
        return store_slice_end(d->db, r->slice, dur);
    enum col_cut why = COL_CUT_WINDOW;
    /* the ranges of steps themselves are few and always kept, as long as the disk has room */
    if (!col_decode_keeps(d, step ? step->index : STORE_ABSENT, &why) &&
        (r->step == STORE_ABSENT || why == COL_CUT_SPACE)) {
        col_count_cut(d, why, r->start);
        return 0;
    }
    return col_add_slice(d, track, r, dur, NULL);
}

int col_lose_end(struct col_drain *d, struct col_pool *p, int64_t track, const struct col_range *r,
                 int64_t now)
{
    d->stats.ranges_without_end++;
    if (r->step != STORE_ABSENT)
        col_steps_close(&p->steps, r->step, now, false, d->round);
    enum col_cut why;
    struct col_step *step = col_steps_find(&p->steps, r->start);
    if (r->slice || !col_decode_keeps(d, step ? step->index : STORE_ABSENT, &why))
        return 0;
    return col_add_slice(d, track, r, STORE_ABSENT, NULL);
}

/* ---- push and pop -------------------------------------------------------------------------------------------------------- */

static void stack_remove(struct col_thread *t, uint32_t i)
{
    t->depth--;
    if (i < t->depth)
        memmove(&t->stack[i], &t->stack[i + 1], (t->depth - i) * sizeof *t->stack);
}

/* Takes out what is open in this domain at `depth` or deeper (deeper only, for a POP): the POPs of
 * these were lost. */
static int heal(struct col_drain *d, struct col_pool *p, struct col_thread *t, uint8_t domain,
                unsigned depth, int64_t now)
{
    int rc = 0;
    for (uint32_t i = t->depth; i-- > 0 && rc == 0;) {
        if (t->stack[i].domain != domain)
            continue;
        if (t->stack[i].depth < depth)
            break;
        rc = col_lose_end(d, p, t->track, &t->stack[i], now);
        stack_remove(t, i);
    }
    return rc;
}

/* Depth of the innermost open range of a domain, -1 = none is open. */
static int innermost_depth(const struct col_thread *t, uint8_t domain)
{
    for (uint32_t i = t->depth; i-- > 0;)
        if (t->stack[i].domain == domain)
            return t->stack[i].depth;
    return -1;
}

static int on_push(struct col_drain *d, struct col_pool *p, struct col_thread *t,
                   const struct col_event *e)
{
    const struct wire_record *r = e->record;
    int rc = 0;
    /* 255 stands for every deeper level too, so there the depth does not tell */
    if (r->depth < 255 && innermost_depth(t, r->domain) >= (int)r->depth &&
        (rc = heal(d, p, t, r->domain, r->depth, e->time)) != 0)
        return rc;
    if (t->depth == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 32;
        struct col_range *s = realloc(t->stack, cap * sizeof *s);
        if (!s)
            return TACHO_ENOMEM;
        t->stack = s;
        t->cap = cap;
    }
    struct col_extra x;
    if ((rc = col_event_extra(d, p, e, &x)) != 0)
        return rc;
    struct col_range *o = &t->stack[t->depth];
    *o = (struct col_range){.start = e->time,
                            .end = STORE_ABSENT,
                            .detail = x.detail,
                            .correlation = x.correlation,
                            .step = x.index,
                            .domain = r->domain,
                            .depth = r->depth};
    o->name = col_pool_string(d, p, r->name, &rc);
    o->category = col_event_category(d, p, e, &rc);
    if (rc)
        return rc;
    t->depth++;
    if (x.index != STORE_ABSENT) {
        t->has_step = true;
        rc = col_steps_open(&p->steps, x.index, e->time, x.tokens, x.samples,
                            (r->kind & WIRE_PAUSED) != 0);
    }
    return rc;
}

static int on_pop(struct col_drain *d, struct col_pool *p, struct col_thread *t,
                  const struct col_event *e)
{
    const struct wire_record *r = e->record;
    uint32_t i = t->depth;
    while (i-- > 0)
        if (t->stack[i].domain == r->domain && t->stack[i].depth <= r->depth)
            break;
    if (i == UINT32_MAX || t->stack[i].depth != r->depth) {
        d->stats.ends_without_start++;
        return heal(d, p, t, r->domain, r->depth + 1u, e->time);
    }
    int rc = 0;
    if (i + 1 < t->depth && r->depth < 255 &&
        (rc = heal(d, p, t, r->domain, r->depth + 1u, e->time)) != 0)
        return rc;
    struct col_range *o = &t->stack[i];
    if (e->payload && o->detail == STORE_ABSENT) {
        struct col_extra x;
        if ((rc = col_event_extra(d, p, e, &x)) != 0)
            return rc;
        o->detail = x.detail;
    }
    if (o->step != STORE_ABSENT)
        col_steps_close(&p->steps, o->step, e->time, true, d->round);
    rc = col_end_range(d, p, t->track, o, e->time);
    if (i > 0 && e->time > o->start)
        t->stack[i - 1].child += e->time - o->start;
    stack_remove(t, i);
    return rc;
}

static int on_mark(struct col_drain *d, struct col_pool *p, struct col_thread *t,
                   const struct col_event *e)
{
    struct col_extra x;
    int rc = col_event_extra(d, p, e, &x);
    if (rc)
        return rc;
    struct col_range r = {
        .start = e->time, .detail = x.detail, .correlation = x.correlation, .step = STORE_ABSENT};
    r.name = col_pool_string(d, p, e->record->name, &rc);
    r.category = col_event_category(d, p, e, &rc);
    return rc ? rc : col_end_range(d, p, t->track, &r, e->time);
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

static int counter_track(struct col_drain *d, struct col_pool *p, uint32_t arena, int64_t *track)
{
    for (uint32_t i = 0; i < p->counter_count; i++)
        if (p->counter[i].arena == arena) {
            *track = p->counter[i].track;
            return 0;
        }
    uint32_t bytes = 0;
    const char *text = col_map_text(&p->map, arena, WIRE_TEXT_COUNTER, &bytes);
    char name[WIRE_STRING_MAX + 1] = "(unnamed counter)";
    const char *tab = text ? memchr(text, '\t', bytes) : NULL;
    if (text)
        snprintf(name, sizeof name, "%.*s", tab ? (int)(tab - text) : (int)bytes, text);
    char own[WIRE_STRING_MAX + 1], *device = NULL, *unit = NULL;
    snprintf(own, sizeof own, "%.*s", text ? (int)bytes : 0, text ? text : "");
    own_counter(own, &device, &unit);
    struct store_track t = {.process = p->process->id,
                            .tid = STORE_ABSENT,
                            .kind = "counter",
                            .name = name,
                            .device = device,
                            .unit = unit};
    int rc = store_track_add(d->db, &t);
    if (rc)
        return rc;
    struct col_counter *list = realloc(p->counter, (p->counter_count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    p->counter = list;
    p->counter[p->counter_count++] = (struct col_counter){.arena = arena, .track = t.id};
    p->dirty = true;
    *track = t.id;
    return 0;
}

static int on_counter(struct col_drain *d, struct col_pool *p, const struct col_event *e)
{
    int64_t track = 0;
    int rc = counter_track(d, p, e->record->name, &track);
    if (rc)
        return rc;
    enum col_cut why;
    if (!col_decode_keeps(d, STORE_ABSENT, &why)) {
        col_count_cut(d, why, e->time);
        return 0;
    }
    struct store_counter c = {.track = track, .time = e->time, .value = __builtin_nan("")};
    int64_t integer;
    if (e->value && e->record->depth == WIRE_VALUE_F64) {
        memcpy(&c.value, e->value, sizeof c.value);
    } else if (e->value && e->record->depth == WIRE_VALUE_I64) {
        memcpy(&integer, e->value, sizeof integer);
        c.value = (double)integer;
    }
    d->stats.counters++;
    return store_counter_add(d->db, &c);
}

static int on_thread_name(struct col_drain *d, struct col_pool *p, struct col_thread *t,
                          const struct col_event *e)
{
    uint32_t bytes = 0;
    const char *text = col_map_text(&p->map, e->record->name, WIRE_TEXT_NAME, &bytes);
    if (!text)
        return 0;
    char name[WIRE_STRING_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)bytes, text);
    return store_track_rename(d->db, t->track, name);
}

/* ---- records --------------------------------------------------------------------------------------------------------------- */

/* Takes a record apart; false if it is not one. */
static bool take_apart(const uint8_t *at, const uint8_t *to, struct col_event *e)
{
    const struct wire_record *r = (const struct wire_record *)at;
    size_t left = (size_t)(to - at);
    if (left < sizeof *r || r->words < 2 || (size_t)r->words * 8 > left)
        return false;
    const uint8_t *p = at + sizeof *r, *end = at + (size_t)r->words * 8;
    *e = (struct col_event){.record = r};
    if (r->kind & WIRE_CATEGORY) {
        if (end - p < 8)
            return false;
        e->category = (const uint32_t *)p;
        p += 8;
    }
    if (r->kind & WIRE_PAYLOAD) {
        if (end - p < 8)
            return false;
        memcpy(&e->schema, p, 4);
        memcpy(&e->bytes, p + 4, 4);
        p += 8;
        if (e->bytes > WIRE_PAYLOAD_MAX || (size_t)(end - p) < e->bytes)
            return false;
        e->payload = p;
        p += (e->bytes + 7) & ~7u;
    }
    if (r->kind & WIRE_VALUE) {
        if (end - p < 8)
            return false;
        e->value = p;
        p += 8;
    }
    unsigned kind = r->kind & WIRE_KIND_MASK;
    if (kind == WIRE_START || kind == WIRE_END) {
        if (end - p < 8)
            return false;
        memcpy(&e->range, p, 8);
    }
    return kind >= WIRE_PUSH && kind <= WIRE_THREAD;
}

static int on_event(struct col_drain *d, struct col_pool *p, struct col_thread *t,
                    const struct col_event *e)
{
    switch ((enum wire_kind)(e->record->kind & WIRE_KIND_MASK)) {
    case WIRE_PUSH:
        return on_push(d, p, t, e);
    case WIRE_POP:
        return on_pop(d, p, t, e);
    case WIRE_START:
        return col_on_start(d, p, e);
    case WIRE_END:
        return col_on_end(d, p, e);
    case WIRE_MARK:
        return on_mark(d, p, t, e);
    case WIRE_COUNTER:
        return on_counter(d, p, e);
    case WIRE_THREAD:
        return on_thread_name(d, p, t, e);
    case WIRE_KIND_MASK:
        break;
    }
    return TACHO_EINTERNAL;
}

int col_decode(struct col_drain *d, struct col_pool *p, struct col_thread *t, const uint8_t *from,
               const uint8_t *to)
{
    while (from < to) {
        struct col_event e;
        if (!take_apart(from, to, &e)) {
            t->damaged = true;
            return col_drain_loss(d, "collector",
                                  "damaged record: the rest of its thread's recording was not read",
                                  STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
        }
        e.time = col_pool_time(d, p, e.record->time);
        int rc = on_event(d, p, t, &e);
        if (rc)
            return rc;
        d->stats.records++;
        if (e.time > p->last_event)
            p->last_event = e.time;
        from += (size_t)e.record->words * 8;
    }
    return 0;
}

/* ---- open ranges get a row at each commit ------------------------------------------------------------------------------------ */

int col_decode_materialise(struct col_drain *d, struct col_pool *p, struct col_thread *t)
{
    for (uint32_t i = 0; i < t->depth; i++) {
        struct col_range *r = &t->stack[i];
        enum col_cut why = COL_CUT_WINDOW;
        if (r->slice)
            continue;
        struct col_step *step = col_steps_find(&p->steps, r->start);
        if (!col_decode_keeps(d, step ? step->index : STORE_ABSENT, &why) &&
            (r->step == STORE_ABSENT || why == COL_CUT_SPACE))
            continue; /* counted when it ends */
        int rc = col_add_slice(d, t->track, r, STORE_ABSENT, &r->slice);
        if (rc)
            return rc;
    }
    return 0;
}
