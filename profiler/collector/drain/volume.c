/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the file of a run below --max-size, however long the run lasts.
 *
 * Full detail is stored in windows. When the file is nearly full, half of the windows go, and from
 * then on the pauses between windows are twice as long. The first one stays, and of each two that
 * follow the one with the slowest step: the windows that stay are spread over the whole run and
 * hold what was worst in it. Totals of old steps are merged into ranges
 * of 2, 4, 8 ... steps, except those of steps in windows; of old counter samples, and of steps
 * where these alone fill the file, every second one goes. Of each table the most numerous age is
 * thinned first, so a row is coarser the older it is. Pages that become free are used again, so the
 * file itself never grows beyond its limit. What goes is counted as cut.
 */
#include "profiler/collector/drain/decode_private.h"

#define RESERVE_MOST   (32ll << 20) /* for the WAL, beside the file: a sixth of the limit, */
#define RESERVE_LEAST  (8ll << 20)  /* within these two, and at most a third */
#define BLOCK_ROWS     16384        /* thinned at once */
#define TURN_NS        100000000    /* of thinning in one turn, while the file is below its limit */
#define HELD_NS        10000000000  /* for a process that reads the live file */
#define WINDOW_STEPS   6            /* that a window should hold, for each process */
#define WINDOW_DETAILS 64           /* bytes of a payload, about */

/* About how many bytes a row takes, and the share of the file that a table should have. */
static const struct {
    int bytes, share;
} weight[STORE_GROWING_COUNT] = {[STORE_GROWING_SLICE] = {34, 60},
                                 [STORE_GROWING_AGGREGATE] = {32, 25},
                                 [STORE_GROWING_STEP] = {34, 7},
                                 [STORE_GROWING_COUNTER] = {26, 8}};

uint32_t col_commit_bytes(const struct col_drain *drain)
{
    int64_t bytes = drain->volume.max_bytes / 48;
    if (drain->volume.max_bytes <= 0 || bytes > COL_COMMIT_BYTES)
        return COL_COMMIT_BYTES;
    return bytes < (1 << 20) ? 1 << 20 : (uint32_t)bytes;
}

/* Bytes that the rows of the file may take; the rest is for its free pages and the WAL. */
static int64_t file_limit(const struct col_drain *drain)
{
    int64_t most = drain->volume.max_bytes, reserve = most / 6;
    if (reserve < RESERVE_LEAST)
        reserve = RESERVE_LEAST < most / 3 ? RESERVE_LEAST : most / 3;
    return most - (reserve < RESERVE_MOST ? reserve : RESERVE_MOST);
}

/* ---- windows ----------------------------------------------------------------------------------------------------------- */

static bool window_open(const struct col_room *room)
{
    return room->windows && room->window[room->windows - 1].to == INT64_MAX;
}

static int64_t window_slices(const struct col_window *window)
{
    return window->last[STORE_GROWING_SLICE] - window->first[STORE_GROWING_SLICE] + 1;
}

/* When the window after this one begins, which ends at `to`; never, where that is beyond time. */
static int64_t next_opens(const struct col_room *room, const struct col_window *window, int64_t to)
{
    int64_t opens;
    if (__builtin_sub_overflow(to, window->from, &opens) ||
        __builtin_mul_overflow(opens, INT64_C(1) << room->level, &opens) ||
        __builtin_add_overflow(window->from, opens, &opens))
        return INT64_MAX;
    return opens;
}

/* Of two neighbouring windows without a pause between them one is made. */
static void windows_join(struct col_room *room)
{
    for (uint32_t i = 0; i < room->windows / 2; i++) {
        const struct col_window *left = &room->window[2 * i], *right = left + 1;
        struct col_window both = *left;
        both.to = right->to;
        memcpy(both.last, right->last, sizeof both.last);
        both.worst = right->worst > left->worst ? right->worst : left->worst;
        room->window[i] = both;
    }
    room->windows /= 2;
    room->least = room->least ? room->least * 2 : 2 * 80000000;
}

/* The window with the slowest step of those from..to; of equal ones the last. */
static uint32_t worst_window(const struct col_room *room, uint32_t from, uint32_t to)
{
    uint32_t worst = to;
    for (uint32_t i = to; i-- > from;)
        worst = room->window[i].worst > room->window[worst].worst ? i : worst;
    return worst;
}

/* Half of the windows go: of each pair after the first window one, and one of an odd last one, too.
 * Their rows are removed by slices_turn. */
static void windows_halve(struct col_room *room)
{
    uint32_t kept = (room->windows + 1) / 2;
    for (uint32_t i = 1; i < kept; i++) {
        uint32_t last = i + 1 == kept ? room->windows - 1 : 2 * i;
        room->window[i] = room->window[worst_window(room, 2 * i - 1, last)];
    }
    room->windows = kept;
    room->level++;
    const struct col_window *last = &room->window[room->windows - 1];
    room->opens = next_opens(room, last, last->to);
}

void col_volume_step(struct col_drain *drain, int64_t duration)
{
    struct col_room *room = &drain->room;
    if (window_open(room) && duration > room->window[room->windows - 1].worst)
        room->window[room->windows - 1].worst = duration;
}

static int window_begin(struct col_drain *drain, int64_t now)
{
    struct col_room *room = &drain->room;
    if (room->windows == COL_WINDOWS && room->level)
        windows_halve(room);
    else if (room->windows == COL_WINDOWS)
        windows_join(room);
    struct col_window *window = &room->window[room->windows];
    *window = (struct col_window){.from = now, .to = INT64_MAX};
    int rc = 0;
    for (int table = 0; table < STORE_GROWING_COUNTER && rc == 0; table++) {
        rc = store_newest(drain->db, (enum store_growing)table, &window->first[table]);
        window->first[table]++;
    }
    if (!room->windows) /* what is there already belongs to the first window */
        *window = (struct col_window){.from = now, .to = INT64_MAX, .first = {1, 1, 1}};
    room->windows++;
    room->dirty = true;
    return rc;
}

/* Sets what the open window has so far. */
static int window_follow(struct col_drain *drain, struct col_window *window)
{
    int rc = 0;
    for (int table = 0; table < STORE_GROWING_COUNTER && rc == 0; table++)
        rc = store_newest(drain->db, (enum store_growing)table, &window->last[table]);
    return rc;
}

/* Does the window hold some whole steps, and is it as long as the others? Only the end of a round
 * can end it. One that takes a twentieth of the file ends in any case. */
static bool window_complete(const struct col_drain *drain, const struct col_window *window,
                            int64_t now, bool whole)
{
    int64_t steps = window->last[STORE_GROWING_STEP] - window->first[STORE_GROWING_STEP] + 1;
    int64_t bytes = window_slices(window) * weight[STORE_GROWING_SLICE].bytes;
    if (bytes > drain->volume.max_bytes / 20)
        return true;
    return whole && now - window->from >= drain->room.least &&
           (!window->last[STORE_GROWING_STEP] || steps >= WINDOW_STEPS * drain->pool_count);
}

/* A pause lasts at most an eighth of the run so far, so every part of a long run has windows. */
static int64_t pause_end(const struct col_room *room)
{
    if (!room->windows)
        return room->opens;
    int64_t last = room->window[room->windows - 1].to;
    int64_t latest = last + (last - room->window[0].from) / 8;
    return room->opens < latest ? room->opens : latest;
}

static int windows_turn(struct col_drain *drain, int64_t now, bool whole)
{
    struct col_room *room = &drain->room;
    int rc = 0;
    if (window_open(room)) {
        struct col_window *window = &room->window[room->windows - 1];
        rc = window_follow(drain, window);
        if (drain->volume.tight || window_complete(drain, window, now, whole)) {
            window->to = now;
            room->opens = next_opens(room, window, now);
            room->dirty = true;
        }
    }
    if (rc == 0 && !window_open(room) && !drain->volume.tight && whole && now >= pause_end(room))
        rc = window_begin(drain, now);
    drain->volume.full = !window_open(room);
    return rc;
}

/* ---- slices: those between windows go ------------------------------------------------------------------------------------ */

/* The rows from `id` on that belong to one window (true), or to none. */
static bool same_place(const struct col_room *room, int table, int64_t id, int64_t *until)
{
    for (uint32_t i = 0; i < room->windows; i++) {
        const struct col_window *window = &room->window[i];
        bool inside = window->first[table] <= id;
        int64_t end = inside ? window->last[table] : window->first[table] - 1;
        if (end < id)
            continue;
        *until = end < *until ? end : *until;
        return inside;
    }
    return false;
}

static void count_removed(struct col_drain *drain, enum col_cut why, int64_t rows)
{
    if (rows <= 0)
        return;
    col_count_cut(drain, why, drain->room.window[0].from);
    col_count_cut(drain, why, col_clock_now());
    drain->cut[why].count += rows - 2;
    if (why == COL_CUT_SIZE)
        drain->stats.cut += rows - 2;
}

static int64_t slices_kept(const struct col_room *room)
{
    int64_t rows = 0;
    for (uint32_t i = 0; i < room->windows; i++)
        rows += window_slices(&room->window[i]);
    return rows;
}

/* Goes on with the removal, or begins a new one: without every second window. */
static int slices_turn(struct col_drain *drain, int64_t newest)
{
    struct col_room *room = &drain->room;
    if (!room->clean) {
        if (room->windows > 1)
            windows_halve(room);
        room->clean = 1;
        room->until = newest;
    }
    int64_t until = room->until, left = 0;
    int rc = 0;
    room->dirty = true;
    if (!same_place(room, STORE_GROWING_SLICE, room->clean, &until)) {
        struct store_block block;
        rc =
            store_block(drain->db, STORE_GROWING_SLICE, room->clean, until, 4 * BLOCK_ROWS, &block);
        if (rc == 0 && block.rows)
            rc = store_thin(drain->db, STORE_GROWING_SLICE, &block, 0, &left);
        until = block.to;
        room->removed += block.rows - left;
        drain->stats.slices -= block.rows - left;
        count_removed(drain, COL_CUT_SIZE, block.rows - left);
    }
    room->clean = until < room->until ? until + 1 : 0;
    return rc;
}

/* ---- the other tables: the most numerous age is thinned ---------------------------------------------------------------------- */

/* The age with the most rows; COL_AGES: none is worth it. */
static int age_to_thin(struct col_ages *ages, int64_t newest)
{
    int most = COL_AGES;
    if (!ages->first[0])
        for (int i = 0; i < COL_AGES; i++)
            ages->first[i] = 1;
    ages->rows[0] = newest - ages->first[0]; /* the newest one stays: ids go on from there */
    for (int i = 0; i + 1 < COL_AGES; i++)
        if (ages->rows[i] > (most == COL_AGES ? 256 : ages->rows[most]))
            most = i;
    return most;
}

/* Thins the oldest block of an age, which is of the next age then. Rows of windows stay. */
static int age_turn(struct col_drain *drain, enum store_growing table, int64_t newest)
{
    struct col_room *room = &drain->room;
    struct col_ages *ages = &room->ages[table];
    int age = age_to_thin(ages, newest);
    int64_t until = age ? ages->first[age - 1] - 1 : newest - 1, left;
    bool stays =
        table != STORE_GROWING_COUNTER && same_place(room, (int)table, ages->first[age], &until);
    struct store_block block;
    int rc = store_block(drain->db, table, ages->first[age], until, BLOCK_ROWS, &block);
    left = block.rows;
    if (rc == 0 && !stays && block.rows > 1)
        rc = store_thin(drain->db, table, &block, 2ll << age, &left);
    ages->first[age] = block.to + 1;
    ages->rows[age] -= block.rows;
    ages->rows[age + 1] += left;
    room->dirty = true;
    if (table == STORE_GROWING_STEP)
        count_removed(drain, COL_CUT_STEP, block.rows - left);
    if (table == STORE_GROWING_COUNTER)
        count_removed(drain, COL_CUT_SIZE, block.rows - left);
    return rc;
}

/* ---- which table, and when ------------------------------------------------------------------------------------------------------ */

/* The table that is the most above its share and can be thinned; STORE_GROWING_COUNT: none. Steps
 * stay while they are within their share. */
static enum store_growing table_to_thin(struct col_room *room, int64_t limit,
                                        const int64_t newest[STORE_GROWING_COUNT])
{
    enum store_growing most = STORE_GROWING_COUNT;
    int64_t rows = newest[STORE_GROWING_SLICE] - room->removed, highest = 0;
    if (room->clean)
        return STORE_GROWING_SLICE;
    for (int table = 0; table < STORE_GROWING_COUNT; table++) {
        bool can = room->windows > 1 || rows > slices_kept(room);
        if (table != STORE_GROWING_SLICE) {
            can = age_to_thin(&room->ages[table], newest[table]) < COL_AGES;
            rows = 0;
            for (int i = 0; i < COL_AGES; i++)
                rows += room->ages[table].rows[i];
        }
        int64_t over = rows * weight[table].bytes * 100 / weight[table].share;
        can &= table != STORE_GROWING_STEP || over > limit;
        if (can && over > highest) {
            highest = over;
            most = (enum store_growing)table;
        }
    }
    return most;
}

/* Thins until the file has some room again, or the turn is over. */
static int thin(struct col_drain *drain, int64_t now, int64_t *used)
{
    struct col_room *room = &drain->room;
    int64_t limit = file_limit(drain), newest[STORE_GROWING_COUNT];
    int rc = 0;
    while (rc == 0 && *used > limit / 100 * 85 &&
           (*used > limit || col_clock_now() - now < TURN_NS)) {
        for (int table = 0; table < STORE_GROWING_COUNT && rc == 0; table++)
            rc = store_newest(drain->db, (enum store_growing)table, &newest[table]);
        enum store_growing table = STORE_GROWING_COUNT;
        if (rc == 0)
            table = table_to_thin(&drain->room, limit, newest);
        if (table == STORE_GROWING_COUNT) {
            room->thinning = *used > limit; /* nothing can be thinned: goes on with what there is */
            return rc;
        }
        rc = table == STORE_GROWING_SLICE ? slices_turn(drain, newest[table])
                                          : age_turn(drain, table, newest[table]);
        if (rc == 0)
            rc = store_used(drain->db, used);
    }
    return rc;
}

bool col_volume_held(struct col_drain *drain)
{
    struct col_volume *volume = &drain->volume;
    int64_t now = col_clock_now(), share = volume->max_bytes - file_limit(drain);
    bool grows = volume->max_bytes > 0 &&
                 store_wal_bytes(drain->db) > share / 8 * 3; /* the rest: free pages, and one
                                                                transaction */
    if (!grows || store_fold_wal(drain->db)) {
        volume->held_since = 0;
        return false;
    }
    if (!volume->held_since)
        volume->held_since = now;
    return now - volume->held_since < HELD_NS;
}

int col_volume_turn(struct col_drain *drain, bool whole)
{
    struct col_volume *volume = &drain->volume;
    struct col_room *room = &drain->room;
    int64_t used, now = col_clock_now(), limit = file_limit(drain);
    if (volume->max_bytes <= 0)
        return 0;
    int rc = store_used(drain->db, &used);
    room->thinning = used > limit / 100 * (room->thinning ? 85 : 95);
    volume->tight =
        room->thinning || store_bytes(drain->db) > volume->max_bytes - col_commit_bytes(drain);
    volume->no_detail |= store_details(drain->db) * WINDOW_DETAILS > volume->max_bytes / 8;
    if (rc == 0)
        rc = windows_turn(drain, now, whole);
    if (rc == 0 && room->thinning)
        rc = thin(drain, now, &used);
    return rc;
}
