/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/pool/steps.h"

#include <string.h>

/* ---- totals: open addressing over rows in order of first use ------------------------------------------------------------- */

static uint64_t key_hash(const struct col_total *k)
{
    uint64_t h = (uint64_t)k->track * 0x9e3779b97f4a7c15ull;
    h = (h ^ (uint64_t)k->name) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ (h >> 29) ^ (uint64_t)k->category) * 0x94d049bb133111ebull;
    h = (h ^ (h >> 32) ^ (uint64_t)k->detail) * 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 31);
}

static bool key_equal(const struct col_total *a, const struct col_total *b)
{
    return a->name == b->name && a->detail == b->detail && a->track == b->track &&
           a->category == b->category;
}

static void totals_free(struct col_totals *t)
{
    free(t->row);
    free(t->slot);
    memset(t, 0, sizeof *t);
}

static void totals_clear(struct col_totals *t)
{
    t->count = 0;
    if (t->slots)
        memset(t->slot, 0, t->slots * sizeof *t->slot);
}

/* Rows fill at most half of the slots. */
static int totals_grow(struct col_totals *t)
{
    uint32_t slots = t->slots ? t->slots * 2 : 256;
    struct col_total *row = realloc(t->row, slots / 2 * sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    t->row = row;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < t->count; i++) {
        uint64_t h = key_hash(&t->row[i]);
        while (slot[h & (slots - 1)])
            h++;
        slot[h & (slots - 1)] = i + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->slots = slots;
    return 0;
}

static int totals_add(struct col_totals *t, const struct col_total *key, int64_t duration,
                      int64_t self)
{
    if (t->count * 2 >= t->slots && totals_grow(t) != 0)
        return TACHO_ENOMEM;
    uint64_t h = key_hash(key);
    uint32_t mask = t->slots - 1;
    struct col_total *row;
    for (;; h++) {
        uint32_t at = t->slot[h & mask];
        if (!at) {
            t->slot[h & mask] = t->count + 1;
            row = &t->row[t->count++];
            *row = *key;
            row->count = row->total = row->self = 0;
            break;
        }
        row = &t->row[at - 1];
        if (key_equal(row, key))
            break;
    }
    row->count++;
    row->total += duration;
    row->self += self;
    return t->count >= COL_TOTALS_MAX ? 1 : 0;
}

static int totals_write(struct col_totals *t, store *db, int64_t process, int64_t step)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const struct col_total *r = &t->row[i];
        struct store_step_aggregate a = {.process = process,
                                         .step = step,
                                         .track = r->track,
                                         .name = r->name,
                                         .category = r->category,
                                         .detail = r->detail,
                                         .count = r->count,
                                         .total = r->total,
                                         .self = r->self};
        int rc = store_step_aggregate_add(db, &a);
        if (rc)
            return rc;
    }
    totals_clear(t);
    return 0;
}

/* ---- steps ------------------------------------------------------------------------------------------------------------- */

void col_steps_free(struct col_steps *s)
{
    for (size_t i = 0; i < s->count; i++)
        totals_free(&s->step[i].totals);
    free(s->step);
    totals_free(&s->outside);
    totals_free(&s->spare);
    memset(s, 0, sizeof *s);
}

int col_steps_open(struct col_steps *s, int64_t index, int64_t start, int64_t tokens,
                   int64_t samples, bool paused)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct col_step *p = realloc(s->step, cap * sizeof *p);
        if (!p)
            return TACHO_ENOMEM;
        s->step = p;
        s->cap = cap;
    }
    s->step[s->count++] = (struct col_step){.index = index,
                                            .start = start,
                                            .end = INT64_MAX,
                                            .tokens = tokens,
                                            .samples = samples,
                                            .paused = paused,
                                            .totals = s->spare};
    memset(&s->spare, 0, sizeof s->spare);
    s->dirty = true;
    return 0;
}

void col_steps_close(struct col_steps *s, int64_t index, int64_t end, bool end_known,
                     uint64_t round)
{
    for (size_t i = s->count; i-- > 0;) {
        struct col_step *x = &s->step[i];
        if (x->end != INT64_MAX || x->index != index)
            continue;
        x->end = end;
        x->end_known = end_known;
        x->closed_round = round;
        s->dirty = true;
        return;
    }
}

struct col_step *col_steps_find(struct col_steps *s, int64_t time)
{
    size_t low = 0, high = s->count; /* -> the number of steps that had begun */
    if (s->count && s->step[s->count - 1].start <= time)
        low = s->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (s->step[mid].start <= time)
            low = mid + 1;
        else
            high = mid;
    }
    /* steps of several threads may overlap: look a little further back than the newest that had
     * begun */
    for (size_t i = low; i-- > 0 && low - i <= 8;)
        if (time <= s->step[i].end)
            return &s->step[i];
    /* older than everything that is still here: its own step has been written already */
    return low == 0 && s->count && s->rows ? &s->step[0] : NULL;
}

int col_steps_add(struct col_steps *s, struct col_step *in, const struct col_total *key,
                  int64_t duration, int64_t self)
{
    s->dirty = true;
    return totals_add(in ? &in->totals : &s->outside, key, duration, self);
}

static int step_write(struct col_steps *s, struct col_step *x, store *db, int64_t process)
{
    struct store_step row = {.process = process,
                             .index = x->index,
                             .start = x->start,
                             .end = x->end_known ? x->end : STORE_ABSENT,
                             .tokens = x->tokens,
                             .samples = x->samples,
                             .paused = x->paused};
    int rc = store_step_add(db, &row);
    if (rc == 0)
        rc = totals_write(&x->totals, db, process, x->index);
    if (rc)
        return rc;
    s->rows++;
    if (s->spare.slots)
        totals_free(&x->totals);
    else
        s->spare = x->totals;
    memset(&x->totals, 0, sizeof x->totals);
    return 0;
}

int col_steps_write(struct col_steps *s, store *db, int64_t process, uint64_t round)
{
    bool all = round == UINT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct col_step *x = &s->step[i];
        bool closed = x->end != INT64_MAX && x->closed_round < round;
        int rc = 0;
        if (all || closed)
            rc = step_write(s, x, db, process);
        else if (x->totals.count >= COL_TOTALS_MAX)
            rc = totals_write(&x->totals, db, process, x->index);
        if (rc) {
            /* each table keeps exactly one owner */
            memmove(&s->step[kept], x, (s->count - i) * sizeof *x);
            s->count = kept + s->count - i;
            return rc;
        }
        if (!all && !closed)
            s->step[kept++] = *x;
        else
            s->dirty = true;
    }
    s->count = kept;
    if (all || s->outside.count >= COL_TOTALS_MAX) {
        s->dirty = true;
        return totals_write(&s->outside, db, process, COL_STEP_OUTSIDE);
    }
    return 0;
}

/* ---- live state -------------------------------------------------------------------------------------------------------- */

static void totals_save(const struct col_totals *t, struct col_buffer *b)
{
    col_buffer_put(b, &t->count, sizeof t->count);
    col_buffer_put(b, t->row, t->count * sizeof *t->row);
}

static int totals_load(struct col_totals *t, struct col_cursor *c)
{
    uint32_t count;
    col_cursor_get(c, &count, sizeof count);
    for (uint32_t i = 0; i < count && !c->bad; i++) {
        struct col_total row;
        col_cursor_get(c, &row, sizeof row);
        if (c->bad || totals_add(t, &row, 0, 0) < 0)
            return TACHO_ECORRUPT;
        t->row[t->count - 1] = row;
    }
    return c->bad ? TACHO_ECORRUPT : 0;
}

void col_steps_save(const struct col_steps *s, struct col_buffer *b)
{
    uint64_t count = s->count;
    col_buffer_put(b, &s->rows, sizeof s->rows);
    col_buffer_put(b, &count, sizeof count);
    for (size_t i = 0; i < s->count; i++) {
        struct col_step x = s->step[i];
        memset(&x.totals, 0, sizeof x.totals);
        col_buffer_put(b, &x, sizeof x);
        totals_save(&s->step[i].totals, b);
    }
    totals_save(&s->outside, b);
}

int col_steps_load(struct col_steps *s, struct col_cursor *c)
{
    uint64_t count;
    col_cursor_get(c, &s->rows, sizeof s->rows);
    col_cursor_get(c, &count, sizeof count);
    for (uint64_t i = 0; i < count && !c->bad; i++) {
        struct col_step x;
        col_cursor_get(c, &x, sizeof x);
        if (c->bad || col_steps_open(s, x.index, x.start, x.tokens, x.samples, x.paused) != 0)
            return TACHO_ECORRUPT;
        struct col_step *to = &s->step[s->count - 1];
        to->end = x.end;
        to->end_known = x.end_known;
        to->closed_round = 0;
        if (totals_load(&to->totals, c) != 0)
            return TACHO_ECORRUPT;
    }
    if (totals_load(&s->outside, c) != 0)
        return TACHO_ECORRUPT;
    s->dirty = false;
    return 0;
}
