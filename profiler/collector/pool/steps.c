/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a process that are not written yet, and for each the totals of what ran in it: a row
 * for every track, name, category and detail, found by a hash table over the rows. A table that
 * grows large is written early; rows of equal key add up in the file.
 */
#include "profiler/collector/pool/steps.h"

#include <string.h>

/* ---- totals: open addressing over rows in order of first use ------------------------------------------------------------- */

/* Mixes the four parts of the key (multipliers of SplitMix64). */
static uint64_t key_hash(const struct col_total *total)
{
    uint64_t hash = (uint64_t)total->track * 0x9e3779b97f4a7c15ull;
    hash = (hash ^ (uint64_t)total->name) * 0xbf58476d1ce4e5b9ull;
    hash = (hash ^ (hash >> 29) ^ (uint64_t)total->category) * 0x94d049bb133111ebull;
    hash = (hash ^ (hash >> 32) ^ (uint64_t)total->detail) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 31);
}

static bool key_equal(const struct col_total *left, const struct col_total *right)
{
    return left->name == right->name && left->detail == right->detail &&
           left->track == right->track && left->category == right->category;
}

static void totals_free(struct col_totals *totals)
{
    free(totals->row);
    free(totals->slot);
    memset(totals, 0, sizeof *totals);
}

static void totals_clear(struct col_totals *totals)
{
    totals->count = 0;
    if (totals->slots)
        memset(totals->slot, 0, totals->slots * sizeof *totals->slot);
}

/* Rows fill at most half of the slots. */
static int totals_grow(struct col_totals *totals)
{
    uint32_t slots = totals->slots ? totals->slots * 2 : 256;
    struct col_total *row = realloc(totals->row, slots / 2 * sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    totals->row = row;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < totals->count; i++) {
        uint64_t hash = key_hash(&totals->row[i]);
        while (slot[hash & (slots - 1)])
            hash++;
        slot[hash & (slots - 1)] = i + 1;
    }
    free(totals->slot);
    totals->slot = slot;
    totals->slots = slots;
    return 0;
}

/* Adds one range to the row of its key. Returns 1 where the table is full and should be written. */
static int totals_add(struct col_totals *totals, const struct col_total *key, int64_t duration,
                      int64_t self)
{
    if (totals->count * 2 >= totals->slots && totals_grow(totals) != 0)
        return TACHO_ENOMEM;
    uint64_t hash = key_hash(key);
    uint32_t mask = totals->slots - 1;
    struct col_total *row;
    for (;; hash++) {
        uint32_t taken = totals->slot[hash & mask];
        if (!taken) {
            totals->slot[hash & mask] = totals->count + 1;
            row = &totals->row[totals->count++];
            *row = *key;
            row->count = row->total = row->self = 0;
            break;
        }
        row = &totals->row[taken - 1];
        if (key_equal(row, key))
            break;
    }
    row->count++;
    row->total += duration;
    row->self += self;
    return totals->count >= COL_TOTALS_MAX ? 1 : 0;
}

/* Writes the rows of a table and empties it. */
static int totals_write(struct col_totals *totals, store *db, int64_t process, int64_t step)
{
    for (uint32_t i = 0; i < totals->count; i++) {
        const struct col_total *total = &totals->row[i];
        struct store_step_aggregate row = {.process = process,
                                           .step = step,
                                           .track = total->track,
                                           .name = total->name,
                                           .category = total->category,
                                           .detail = total->detail,
                                           .count = total->count,
                                           .total = total->total,
                                           .self = total->self};
        int rc = store_step_aggregate_add(db, &row);
        if (rc)
            return rc;
    }
    totals_clear(totals);
    return 0;
}

/* ---- steps ------------------------------------------------------------------------------------------------------------- */

void col_steps_free(struct col_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++)
        totals_free(&steps->step[i].totals);
    free(steps->step);
    totals_free(&steps->outside);
    totals_free(&steps->spare);
    memset(steps, 0, sizeof *steps);
}

int col_steps_open(struct col_steps *steps, int64_t index, int64_t start, int64_t tokens,
                   int64_t samples, bool paused)
{
    if (steps->count == steps->cap) {
        size_t cap = steps->cap ? steps->cap * 2 : 16;
        struct col_step *step = realloc(steps->step, cap * sizeof *step);
        if (!step)
            return TACHO_ENOMEM;
        steps->step = step;
        steps->cap = cap;
    }
    steps->step[steps->count++] = (struct col_step){.index = index,
                                                    .start = start,
                                                    .end = INT64_MAX,
                                                    .tokens = tokens,
                                                    .samples = samples,
                                                    .paused = paused,
                                                    .totals = steps->spare};
    memset(&steps->spare, 0, sizeof steps->spare);
    steps->dirty = true;
    return 0;
}

void col_steps_close(struct col_steps *steps, int64_t index, int64_t end, bool end_known,
                     uint64_t round)
{
    for (size_t i = steps->count; i-- > 0;) {
        struct col_step *step = &steps->step[i];
        if (step->end != INT64_MAX || step->index != index)
            continue;
        step->end = end;
        step->end_known = end_known;
        step->closed_round = round;
        steps->dirty = true;
        return;
    }
}

/* Ranges end in order of time, so the newest step is tried before the binary search. */
struct col_step *col_steps_find(struct col_steps *steps, int64_t time)
{
    size_t low = 0, high = steps->count; /* -> the number of steps that had begun */
    if (steps->count && steps->step[steps->count - 1].start <= time)
        low = steps->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (steps->step[mid].start <= time)
            low = mid + 1;
        else
            high = mid;
    }
    /* Steps of several threads may overlap, so the last eight that had begun are checked. */
    for (size_t i = low; i-- > 0 && low - i <= 8;)
        if (time <= steps->step[i].end)
            return &steps->step[i];
    /* Older than everything that is left: its own step has been written already. */
    return low == 0 && steps->count && steps->rows ? &steps->step[0] : NULL;
}

int col_steps_add(struct col_steps *steps, struct col_step *step, const struct col_total *key,
                  int64_t duration, int64_t self)
{
    steps->dirty = true;
    return totals_add(step ? &step->totals : &steps->outside, key, duration, self);
}

/* Writes a step and its totals. The tables are kept for the next step, to save allocations. */
static int step_write(struct col_steps *steps, struct col_step *step, store *db, int64_t process)
{
    struct store_step row = {.process = process,
                             .index = step->index,
                             .start = step->start,
                             .end = step->end_known ? step->end : STORE_ABSENT,
                             .tokens = step->tokens,
                             .samples = step->samples,
                             .paused = step->paused};
    int rc = store_step_add(db, &row);
    if (rc == 0)
        rc = totals_write(&step->totals, db, process, step->index);
    if (rc)
        return rc;
    steps->rows++;
    if (steps->spare.slots)
        totals_free(&step->totals);
    else
        steps->spare = step->totals;
    memset(&step->totals, 0, sizeof step->totals);
    return 0;
}

/* A step is written in the round after the one in which it closed. Tables that are full are written
 * early and go on empty. */
int col_steps_write(struct col_steps *steps, store *db, int64_t process, uint64_t round)
{
    bool all = round == UINT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < steps->count; i++) {
        struct col_step *step = &steps->step[i];
        bool closed = step->end != INT64_MAX && step->closed_round < round;
        int rc = 0;
        if (all || closed)
            rc = step_write(steps, step, db, process);
        else if (step->totals.count >= COL_TOTALS_MAX)
            rc = totals_write(&step->totals, db, process, step->index);
        if (rc) {
            /* What is left moves down, so that every table keeps exactly one owner. */
            memmove(&steps->step[kept], step, (steps->count - i) * sizeof *step);
            steps->count = kept + steps->count - i;
            return rc;
        }
        if (!all && !closed)
            steps->step[kept++] = *step;
        else
            steps->dirty = true;
    }
    steps->count = kept;
    if (all || steps->outside.count >= COL_TOTALS_MAX) {
        steps->dirty = true;
        return totals_write(&steps->outside, db, process, COL_STEP_OUTSIDE);
    }
    return 0;
}

int col_steps_spill(struct col_steps *steps, store *db, int64_t process)
{
    size_t rows = 0;
    int rc = 0;
    for (size_t i = 0; i < steps->count; i++)
        rows += steps->step[i].end != INT64_MAX ? steps->step[i].totals.count : 0;
    for (size_t i = 0; i < steps->count && rows > COL_TOTALS_SAVED && rc == 0; i++)
        if (steps->step[i].end != INT64_MAX) {
            rc = totals_write(&steps->step[i].totals, db, process, steps->step[i].index);
            totals_free(&steps->step[i].totals);
        }
    return rc;
}

/* ---- live state -------------------------------------------------------------------------------------------------------- */

static void totals_save(const struct col_totals *totals, struct col_buffer *buffer)
{
    col_buffer_put(buffer, &totals->count, sizeof totals->count);
    col_buffer_put(buffer, totals->row, totals->count * sizeof *totals->row);
}

/* Rows are added by their key, then overwritten with the saved sums. */
static int totals_load(struct col_totals *totals, struct col_cursor *cursor)
{
    uint32_t count;
    col_cursor_get(cursor, &count, sizeof count);
    if (count > COL_TOTALS_MAX)
        return TACHO_ECORRUPT;
    for (uint32_t i = 0; i < count && !cursor->bad; i++) {
        struct col_total row;
        col_cursor_get(cursor, &row, sizeof row);
        if (cursor->bad || totals_add(totals, &row, 0, 0) < 0)
            return TACHO_ECORRUPT;
        totals->row[totals->count - 1] = row;
    }
    return cursor->bad ? TACHO_ECORRUPT : 0;
}

void col_steps_save(const struct col_steps *steps, struct col_buffer *buffer)
{
    uint64_t count = steps->count;
    col_buffer_put(buffer, &steps->rows, sizeof steps->rows);
    col_buffer_put(buffer, &count, sizeof count);
    for (size_t i = 0; i < steps->count; i++) {
        struct col_step step = steps->step[i];
        memset(&step.totals, 0, sizeof step.totals);
        col_buffer_put(buffer, &step, sizeof step);
        totals_save(&steps->step[i].totals, buffer);
    }
    totals_save(&steps->outside, buffer);
}

/* Loads what col_steps_save has written: counts of rows and steps, then each step with its totals,
 * then those outside of steps. */
int col_steps_load(struct col_steps *steps, struct col_cursor *cursor)
{
    uint64_t count;
    col_cursor_get(cursor, &steps->rows, sizeof steps->rows);
    col_cursor_get(cursor, &count, sizeof count);
    for (uint64_t i = 0; i < count && !cursor->bad; i++) {
        struct col_step step;
        col_cursor_get(cursor, &step, sizeof step);
        if (cursor->bad || col_steps_open(steps, step.index, step.start, step.tokens, step.samples,
                                          step.paused) != 0)
            return TACHO_ECORRUPT;
        struct col_step *loaded = &steps->step[steps->count - 1];
        loaded->end = step.end;
        loaded->end_known = step.end_known;
        loaded->closed_round = 0;
        if (totals_load(&loaded->totals, cursor) != 0)
            return TACHO_ECORRUPT;
    }
    if (totals_load(&steps->outside, cursor) != 0)
        return TACHO_ECORRUPT;
    steps->dirty = false;
    return 0;
}
