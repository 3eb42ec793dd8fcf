/* SPDX-License-Identifier: Apache-2.0
 *
 * A value over the runs of one recipe: where its level changes, what else changed there, and what
 * the last level tells of the next runs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/change_points.h"
#include "analyzers/base/stats.h"
#include "history/private.h"

#define MOVED_MOST 6
#define MOVED_P    0.01
#define POWER      0.9

/* ---- points ----------------------------------------------------------------------------------- */

struct reading {
    struct history_trend *trend;
    size_t room;
};

static int read_point(void *ctx, const struct history_row *row)
{
    struct reading *reading = ctx;
    struct history_trend *trend = reading->trend;
    if (!(row->value > 0))
        return 0;
    if (trend->count == reading->room) {
        reading->room = reading->room ? 2 * reading->room : 64;
        struct history_point *grown = realloc(trend->point, reading->room * sizeof *grown);
        if (!grown)
            return TACHO_ENOMEM;
        trend->point = grown;
    }
    struct history_point *point = &trend->point[trend->count++];
    *point = (struct history_point){row->entry.id, row->entry.begun_ns, row->value, ""};
    if (row->entry.commit)
        snprintf(point->commit, sizeof point->commit, "%s", row->entry.commit);
    return 0;
}

static void oldest_first(struct history_trend *trend)
{
    for (size_t i = 0, last = trend->count; i + 1 < last; i++) {
        struct history_point kept = trend->point[i];
        trend->point[i] = trend->point[--last];
        trend->point[last] = kept;
    }
}

/* ---- what moved ------------------------------------------------------------------------------- */

/* Sums of a value on one side of a change. */
struct side {
    double count, sum, squares;
};

static double side_mean(const struct side *side)
{
    return side->count > 0 ? side->sum / side->count : 0;
}

/* Squared standard error of a side's mean. */
static double side_error(const struct side *side)
{
    double mean = side_mean(side);
    return fmax(side->squares / side->count - mean * mean, 0) / (side->count - 1);
}

/* Two-sided p of Welch's t test of the two means; 1 where it cannot be told. */
static double welch(const struct side side[2])
{
    if (side[0].count < AN_CHANGE_LEAST || side[1].count < AN_CHANGE_LEAST)
        return 1;
    double before = side_error(&side[0]), after = side_error(&side[1]), sum = before + after;
    double delta = fabs(side_mean(&side[1]) - side_mean(&side[0]));
    if (sum <= 0)
        return delta > 0 ? 0 : 1;
    double freedom =
        sum * sum / (before * before / (side[0].count - 1) + after * after / (side[1].count - 1));
    return 2 * an_student_tail(delta / sqrt(sum), floor(fmax(freedom, 1)));
}

/* Keeps a name among the ones that moved most. */
static void keep_moved(struct history_change *change, const struct history_moved *moved)
{
    double delta = fabs(moved->after - moved->before);
    size_t at = change->moved_count;
    while (at > 0 && fabs(change->moved[at - 1].after - change->moved[at - 1].before) < delta)
        at--;
    if (at == MOVED_MOST)
        return;
    if (change->moved_count < MOVED_MOST)
        change->moved_count++;
    memmove(&change->moved[at + 1], &change->moved[at],
            (change->moved_count - at - 1) * sizeof *moved);
    change->moved[at] = *moved;
}

/* What is read of the values: one name after the other, each with the runs of both sides. */
struct scan {
    struct history_trend *trend;
    struct history_change *change;
    size_t begin, end; /* points of the segments on both sides */
    struct history_moved name;
    struct side side[2];
    size_t names;
};

/* Where an entry is among the points. */
struct placed {
    int64_t id;
    size_t at;
};

static int by_id(const void *left, const void *right)
{
    const struct placed *first = left, *second = right;
    return (first->id > second->id) - (first->id < second->id);
}

static void end_name(struct scan *scan)
{
    struct history_moved *moved = &scan->name;
    if (!*moved->kind)
        return;
    scan->names++;
    moved->before = side_mean(&scan->side[0]);
    moved->after = side_mean(&scan->side[1]);
    moved->p = welch(scan->side);
    if (moved->p < MOVED_P)
        keep_moved(scan->change, moved);
}

static void begin_name(struct scan *scan, sqlite3_stmt *statement)
{
    struct history_moved *moved = &scan->name;
    snprintf(moved->kind, sizeof moved->kind, "%s", history_text(statement, 1));
    snprintf(moved->name, sizeof moved->name, "%s", history_text(statement, 2));
    snprintf(moved->unit, sizeof moved->unit, "%s", history_text(statement, 3));
    memset(scan->side, 0, sizeof scan->side);
}

/* A run without a name spent no time in it: rows that are missing count as 0. */
static void fill_absent(struct scan *scan)
{
    scan->side[0].count = (double)(scan->change->at - scan->begin);
    scan->side[1].count = (double)(scan->end - scan->change->at);
}

static int scan_values(struct history *history, struct scan *scan, const struct placed *sorted,
                       struct tacho_error *err)
{
    sqlite3_stmt *statement =
        history_prepare(history,
                        "SELECT name.id, kind, name.name, unit, run.id, value FROM run AS first"
                        " JOIN run ON run.recipe = first.recipe AND run.host = first.host"
                        " JOIN value ON value.run = run.id JOIN name ON name.id = value.name"
                        " WHERE first.id = ?1 AND run.id <= ?2 AND unit = 'ms' AND kind != 'step'"
                        " ORDER BY name.id",
                        err);
    if (!statement)
        return TACHO_ECORRUPT;
    size_t count = scan->trend->count;
    sqlite3_bind_int64(statement, 1, sorted[0].id);
    sqlite3_bind_int64(statement, 2, sorted[count - 1].id);
    int64_t name = 0;
    int status;
    while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
        struct placed key = {.id = sqlite3_column_int64(statement, 4)};
        const struct placed *found = bsearch(&key, sorted, count, sizeof key, by_id);
        size_t at = found ? found->at : SIZE_MAX;
        if (at < scan->begin || at >= scan->end)
            continue;
        if (sqlite3_column_int64(statement, 0) != name) {
            fill_absent(scan);
            end_name(scan);
            begin_name(scan, statement);
            name = sqlite3_column_int64(statement, 0);
        }
        struct side *side = &scan->side[at >= scan->change->at];
        double value = sqlite3_column_double(statement, 5);
        side->sum += value;
        side->squares += value * value;
    }
    fill_absent(scan);
    end_name(scan);
    int rc = status == SQLITE_DONE
                 ? 0
                 : history_fail(history, status, "the history cannot be read", err);
    sqlite3_finalize(statement);
    return rc;
}

/* Multiplies p by the number of tests, and drops what is not significant any more. */
static void correct(struct history_change *change, size_t names)
{
    size_t kept = 0;
    for (size_t i = 0; i < change->moved_count; i++) {
        struct history_moved moved = change->moved[i];
        moved.p = fmin(moved.p * (double)names, 1);
        if (moved.p < MOVED_P)
            change->moved[kept++] = moved;
    }
    change->moved_count = kept;
}

static int find_moved(struct history *history, struct history_trend *trend, struct tacho_error *err)
{
    struct placed *sorted = malloc(trend->count * sizeof *sorted);
    int rc = sorted ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; !rc && i < trend->count; i++)
        sorted[i] = (struct placed){trend->point[i].id, i};
    if (!rc)
        qsort(sorted, trend->count, sizeof *sorted, by_id);
    for (size_t i = 0; !rc && i < trend->change_count; i++) {
        struct history_change *change = &trend->change[i];
        change->moved = calloc(MOVED_MOST + 1, sizeof *change->moved);
        struct scan scan = {.trend = trend, .change = change};
        scan.begin = i ? trend->change[i - 1].at : 0;
        scan.end = i + 1 < trend->change_count ? trend->change[i + 1].at : trend->count;
        rc = change->moved ? scan_values(history, &scan, sorted, err) : TACHO_ENOMEM;
        if (!rc)
            correct(change, scan.names);
    }
    free(sorted);
    return rc;
}

/* ---- the last level --------------------------------------------------------------------------- */

/* The change that so many further runs show (one-sided p of AN_CHANGE_ALPHA) with a probability of
 * POWER: the sum of both quantiles of t, times the standard error of a difference of means. */
static double detectable(double sd, size_t runs, size_t further)
{
    double freedom = (double)(runs - 1);
    double t = an_quantile_of_tail(an_student_tail, AN_CHANGE_ALPHA, freedom) +
               an_quantile_of_tail(an_student_tail, 1 - POWER, freedom);
    return 100 * expm1(t * sd * sqrt(1 / (double)runs + 1 / (double)further));
}

/* Of logarithms, `value` (which is reordered). */
static void describe_level(struct history_trend *trend, double *value)
{
    size_t runs = trend->count - trend->stable_from;
    double sd = an_sd(value + trend->stable_from, runs);
    trend->sd_pct = 100 * sd;
    trend->detectable_pct[0] = trend->detectable_pct[1] = NAN;
    if (runs >= 3) {
        trend->detectable_pct[0] = detectable(sd, runs, 1);
        trend->detectable_pct[1] = detectable(sd, runs, 5);
    }
    trend->level = exp(an_quantile_of(value + trend->stable_from, runs, 0.5));
}

static int find_changes(struct history_trend *trend, double *value)
{
    struct an_change_point *point = NULL;
    int rc = an_change_points(value, trend->count, &point, &trend->change_count);
    if (rc)
        return rc;
    trend->change = calloc(trend->change_count + 1, sizeof *trend->change);
    for (size_t i = 0; trend->change && i < trend->change_count; i++)
        trend->change[i] = (struct history_change){
            .at = point[i].at,
            .low = point[i].low,
            .high = point[i].high,
            .before = exp(point[i].before),
            .after = exp(point[i].after),
            .p = point[i].p,
        };
    free(point);
    if (!trend->change)
        return TACHO_ENOMEM;
    if (trend->change_count)
        trend->stable_from = trend->change[trend->change_count - 1].at;
    return 0;
}

int history_trend_read(struct history *history, const struct history_filter *filter,
                       struct history_trend *trend, struct tacho_error *err)
{
    *trend = (struct history_trend){.level = NAN, .sd_pct = NAN};
    struct reading reading = {trend, 0};
    struct history_filter newest = *filter;
    if (!newest.limit || newest.limit > AN_CHANGE_MOST)
        newest.limit = AN_CHANGE_MOST;
    int rc = history_each(history, &newest, read_point, &reading, err);
    if (rc || !trend->count)
        return rc;
    oldest_first(trend);
    double *value = malloc(trend->count * sizeof *value);
    rc = value ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; !rc && i < trend->count; i++)
        value[i] = log(trend->point[i].value);
    if (!rc)
        rc = find_changes(trend, value);
    if (!rc) {
        describe_level(trend, value);
        rc = find_moved(history, trend, err);
    }
    free(value);
    return rc;
}

void history_trend_clear(struct history_trend *trend)
{
    for (size_t i = 0; trend->change && i < trend->change_count; i++)
        free(trend->change[i].moved);
    free(trend->change);
    free(trend->point);
    *trend = (struct history_trend){0};
}
