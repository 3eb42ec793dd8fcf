/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the store, for every part that reads a pool or samples the machine: the transaction they
 * go into, losses, counters, and slices with their share in the totals of the step. Also decides
 * which detail is kept (--steps, --every, --max-size, free space), and counts what is not.
 */
#include "profiler/collector/drain/decode_private.h"

/* ---- transaction, losses, counters --------------------------------------------------------------------------------------- */

int col_drain_begin(struct col_drain *drain)
{
    if (drain->in_transaction)
        return 0;
    int rc = store_begin(drain->db);
    drain->in_transaction = rc == 0;
    return rc;
}

int col_drain_loss(struct col_drain *drain, const char *source, const char *reason, int64_t count,
                   int64_t first, int64_t last)
{
    struct store_loss loss = {
        .source = source, .reason = reason, .count = count, .t0 = first, .t1 = last};
    int rc = col_drain_begin(drain);
    return rc ? rc : store_loss_add(drain->db, &loss);
}

int col_drain_loss_uncounted(struct col_drain *drain, const char *source, const char *reason)
{
    return col_drain_loss(drain, source, reason, STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
}

int col_drain_lose(struct col_drain *drain, const char *reason)
{
    drain->stats.uncounted++;
    return col_drain_loss_uncounted(drain, "collector", reason);
}

void col_key_text(struct col_keys *keys, const char *name, const char *value)
{
    if (keys->rc == 0)
        keys->rc = store_run_set(keys->db, name, value);
}

void col_key_int(struct col_keys *keys, const char *name, int64_t value)
{
    if (keys->rc == 0)
        keys->rc = store_run_set_int(keys->db, name, value);
}

int col_counter_track(struct col_drain *drain, int64_t process, const char *name, const char *unit,
                      const char *device, int64_t *track)
{
    if (*track)
        return 0;
    struct store_track added = {.process = process,
                                .tid = STORE_ABSENT,
                                .kind = "counter",
                                .name = name,
                                .device = device,
                                .unit = unit};
    int rc = store_track_add(drain->db, &added);
    if (rc == 0)
        *track = added.id;
    return rc;
}

int col_add_counter(struct col_drain *drain, int64_t track, int64_t time, double value)
{
    struct store_counter counter = {.track = track, .time = time, .value = value};
    drain->stats.counters++;
    return store_counter_add(drain->db, &counter);
}

int64_t col_pool_time(const struct col_drain *drain, const struct col_pool *pool, uint64_t time)
{
    return pool->map.layout.clock == WIRE_CLOCK_TSC ? col_clock_ns(&drain->clock, time)
                                                    : (int64_t)time;
}

/* ---- volume -------------------------------------------------------------------------------------------------------------- */

/* Is a step among those of --steps and --every? */
static bool in_window(const struct col_volume *volume, int64_t step)
{
    if (step == STORE_ABSENT || (volume->from < 0 && volume->every <= 1))
        return true;
    int64_t from = volume->from < 0 ? 0 : volume->from;
    if (step < from || (volume->from >= 0 && step > volume->to))
        return false;
    return volume->every <= 1 || (step - from) % volume->every == 0;
}

/* A full disk outweighs --max-size, and both outweigh the window of steps. */
bool col_keeps_detail(const struct col_drain *drain, int64_t step, enum col_cut *why)
{
    enum col_cut cut = COL_CUT_COUNT;
    if (drain->volume.no_space)
        cut = COL_CUT_SPACE;
    else if (drain->volume.full || drain->volume.tight)
        cut = COL_CUT_SIZE;
    else if (!in_window(&drain->volume, step))
        cut = COL_CUT_WINDOW;
    if (why)
        *why = cut;
    return cut == COL_CUT_COUNT;
}

/* Cuts are collected until the next commit and become one loss row with their time range. */
void col_count_cut(struct col_drain *drain, enum col_cut why, int64_t time)
{
    if (!drain->cut[why].count || time < drain->cut[why].first)
        drain->cut[why].first = time;
    if (!drain->cut[why].count || time > drain->cut[why].last)
        drain->cut[why].last = time;
    drain->cut[why].count++;
    drain->stats.cut += why == COL_CUT_WINDOW || why == COL_CUT_SIZE;
    drain->stats.lost += why == COL_CUT_SPACE; /* not asked for: a loss */
}

bool col_has_room(struct col_drain *drain, int64_t time)
{
    enum col_cut why;
    bool kept = col_keeps_detail(drain, STORE_ABSENT, &why);
    if (!kept)
        col_count_cut(drain, why, time);
    return kept;
}

bool col_has_room_for_sample(struct col_drain *drain, int64_t time)
{
    if (!drain->volume.no_space && !drain->volume.tight)
        return true;
    col_count_cut(drain, drain->volume.no_space ? COL_CUT_SPACE : COL_CUT_SIZE, time);
    return false;
}

bool col_keeps_range(const struct col_drain *drain, const struct col_step *step,
                     const struct col_range *range, enum col_cut *why)
{
    return col_keeps_detail(drain, step ? step->index : STORE_ABSENT, why) ||
           (range->step != STORE_ABSENT && *why != COL_CUT_SPACE && !drain->volume.tight);
}

/* ---- slices -------------------------------------------------------------------------------------------------------------- */

int col_add_slice(struct col_drain *drain, int64_t track, const struct col_range *range,
                  int64_t duration, int64_t *id)
{
    struct store_slice slice = {.track = track,
                                .start = range->start,
                                .dur = duration,
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

/* The duration counts in the totals of the step, whether or not the row is kept. A range whose row
 * was written while it was open gets its end. */
int col_end_range(struct col_drain *drain, struct col_pool *pool, int64_t track,
                  const struct col_range *range, int64_t end)
{
    int64_t duration = end > range->start ? end - range->start : 0;
    int64_t self = duration > range->child ? duration - range->child : 0;
    struct col_step *step = col_steps_find(&pool->steps, end);
    struct col_total key = {
        .track = track, .name = range->name, .category = range->category, .detail = range->detail};
    int rc = col_steps_add(&pool->steps, step, &key, duration, self);
    if (rc > 0)
        rc = col_steps_write(&pool->steps, drain->db, pool->process->id, 0);
    if (rc)
        return rc;
    if (range->slice)
        return store_slice_end(drain->db, range->slice, duration);
    enum col_cut why;
    if (col_keeps_range(drain, step, range, &why))
        return col_add_slice(drain, track, range, duration, NULL);
    col_count_cut(drain, why, range->start);
    return 0;
}

int col_lose_end(struct col_drain *drain, struct col_pool *pool, int64_t track,
                 const struct col_range *range, int64_t now)
{
    drain->stats.ranges_without_end++;
    if (range->step != STORE_ABSENT)
        col_steps_close(&pool->steps, range->step, now, false, drain->round);
    struct col_step *step = col_steps_find(&pool->steps, range->start);
    if (range->slice || !col_keeps_detail(drain, step ? step->index : STORE_ABSENT, NULL))
        return 0;
    return col_add_slice(drain, track, range, STORE_ABSENT, NULL);
}
