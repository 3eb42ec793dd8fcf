/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections that are a picture first: every step, a typical and the worst step, the flame graph. The
 * tables beside the pictures say the same in numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/compare.h"
#include "reports/words/phrase.h"

/* Says why there is no picture. */
static void not_drawn(struct page *page, const char *label, const char *reason)
{
    page_blank(page);
    page_line(page, label, "unknown: %.300s", reason);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void name_step(char name[REP_NAME], const void *row)
{
    const struct an_step_outlier *outlier = row;
    snprintf(name, REP_NAME, "step %" PRId64 " of rank %" PRId64, outlier->index, outlier->rank);
}
REP_CELL_OF(outlier_ms, an_step_outlier, rep_cell_real_ms, ms)
REP_CELL_OF(outlier_score, an_step_outlier, rep_cell_tenths, score)
static void outlier_cause(char cell[REP_CELL], const void *row)
{
    const struct an_step_outlier *outlier = row;
    if (outlier->cause)
        rep_cell_text(cell, outlier->cause);
}
static void outlier_more(char cell[REP_CELL], const void *row)
{
    const struct an_step_outlier *outlier = row;
    if (outlier->cause)
        rep_cell_real_ms(cell, outlier->cause_ms);
}
static const struct rep_column of_outlier[] = {{"time", 9, outlier_ms},
                                               {"score", 9, outlier_score},
                                               {"longer by", 10, outlier_more},
                                               {"in", 28, outlier_cause}};

/* A row is one step, or several neighbouring steps of a long run. */
static void name_point(char name[REP_NAME], const void *row)
{
    const struct an_step_point *point = row;
    if (point->steps > 1)
        snprintf(name, REP_NAME, "rank %" PRId64 ", %" PRId64 " steps from %" PRId64, point->rank,
                 point->steps, point->index);
    else
        snprintf(name, REP_NAME, "rank %" PRId64 ", step %" PRId64, point->rank, point->index);
}
static void point_start(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.3f s", ((const struct an_step_point *)row)->start_s);
}
REP_CELL_OF(point_ms, an_step_point, rep_cell_real_ms, ms)
REP_CELL_OF(point_worst, an_step_point, rep_cell_real_ms, worst_ms)
static void point_tokens(char cell[REP_CELL], const void *row)
{
    const struct an_step_point *point = row;
    if (!isnan(point->tokens_per_s))
        page_number(cell, point->tokens_per_s);
}
static void point_excluded(char cell[REP_CELL], const void *row)
{
    const struct an_step_point *point = row;
    snprintf(cell, REP_CELL, "%.20s", rep_or(point->excluded, ""));
}
static const struct rep_column of_point[] = {{"time", 9, point_ms},
                                             {"longest", 9, point_worst},
                                             {"start", 12, point_start},
                                             {"tokens/s", 10, point_tokens},
                                             {"excluded", 16, point_excluded}};

void rep_section_steps(struct page *page, const struct an_result *result)
{
    if (!result->step_point_count)
        return;
    page_picture(page, PAGE_TREND, result);
    const struct rep_table slow = {
        .title = "Slow steps",
        .name = name_step,
        .words = true,
        REP_COLUMNS(of_outlier),
        REP_ROWS_OF(result->steps.outliers, result->steps.outlier_count)};
    rep_table_write(page, &slow);
    if (slow.count)
        page_text(page, 1,
                  "score: how far above the median, in units of 1.48 median absolute deviations; "
                  "slow from 3.5 on");
    const struct rep_table all = {.title = "Steps",
                                  .name = name_point,
                                  .words = true,
                                  REP_COLUMNS(of_point),
                                  REP_ROWS_OF(result->step_points, result->step_point_count)};
    rep_table_write(page, &all);
}

/* ---- over time ------------------------------------------------------------------------------- */

static const struct an_curve *curve_of(const void *row)
{
    return row;
}
static void name_curve(char name[REP_NAME], const void *row)
{
    snprintf(name, REP_NAME, "%s: %.100s", curve_of(row)->quantity, curve_of(row)->name);
}
static void curve_value(char cell[REP_CELL], const void *row, double value)
{
    const char *unit = curve_of(row)->unit;
    if (!strcmp(unit, "bytes"))
        page_bytes(cell, value);
    else
        snprintf(cell, REP_CELL, "%s%s%s", NUMBER_TEXT(value), *unit ? " " : "", unit);
}
static void curve_first(char cell[REP_CELL], const void *row)
{
    curve_value(cell, row, curve_of(row)->point[0].value);
}
static void curve_last(char cell[REP_CELL], const void *row)
{
    curve_value(cell, row, curve_of(row)->point[curve_of(row)->count - 1].value);
}
static void curve_extreme(char cell[REP_CELL], const void *row, double sign)
{
    const struct an_curve *curve = curve_of(row);
    double most = -INFINITY;
    for (size_t i = 0; i < curve->count; i++)
        most = fmax(most, sign * curve->point[i].value);
    curve_value(cell, row, sign * most);
}
static void curve_least(char cell[REP_CELL], const void *row)
{
    curve_extreme(cell, row, -1);
}
static void curve_most(char cell[REP_CELL], const void *row)
{
    curve_extreme(cell, row, 1);
}
REP_CELL_OF(curve_samples, an_curve, rep_cell_integer, samples)
static const struct rep_column of_curve[] = {{"first", 14, curve_first},
                                             {"last", 14, curve_last},
                                             {"least", 14, curve_least},
                                             {"most", 14, curve_most},
                                             {"samples", 9, curve_samples}};

void rep_section_over_time(struct page *page, const struct an_result *result)
{
    page_picture(page, PAGE_CURVES, result);
    const struct rep_table table = {.title = "Over the run",
                                    .name = name_curve,
                                    REP_COLUMNS(of_curve),
                                    REP_ROWS_OF(result->curves, result->curve_count)};
    rep_table_write(page, &table);
}

/* ---- timeline -------------------------------------------------------------------------------- */

struct track_row {
    const struct an_timeline_track *track;
    double step_ns;
};

static void name_track(char name[REP_NAME], const void *row)
{
    const struct an_timeline_track *track = ((const struct track_row *)row)->track;
    snprintf(name, REP_NAME, "rank %" PRId64 " %.200s%s", track->rank, track->name,
             track->depth ? ", nested" : "");
}
static void track_kind(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.20s", ((const struct track_row *)row)->track->kind);
}
static void track_device(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.20s", ((const struct track_row *)row)->track->device);
}
static void track_busy(char cell[REP_CELL], const void *row)
{
    page_time(cell, (double)((const struct track_row *)row)->track->busy_ns);
}
static void track_share(char cell[REP_CELL], const void *row)
{
    const struct track_row *track_row = row;
    snprintf(cell, REP_CELL, "%.1f",
             track_row->step_ns > 0 ? 100 * (double)track_row->track->busy_ns / track_row->step_ns
                                    : 0);
}
static const struct rep_column of_track[] = {{"busy %", 8, track_share},
                                             {"busy", 9, track_busy},
                                             {"kind", 10, track_kind},
                                             {"device", 10, track_device}};

/* How busy each track was in one of the steps that the timeline shows. */
static void step_table(struct page *page, const struct an_timeline_step *timeline_step)
{
    struct track_row *rows =
        calloc(timeline_step->track_count ? timeline_step->track_count : 1, sizeof *rows);
    char title[100];
    for (size_t i = 0; rows && i < timeline_step->track_count; i++)
        rows[i] = (struct track_row){&timeline_step->track[i], timeline_step->ms * 1e6};
    snprintf(title, sizeof title, "Tracks in the %.10s step (%" PRId64 ", %s)",
             timeline_step->which, timeline_step->index, TIME_TEXT(timeline_step->ms * 1e6));
    const struct rep_table table = {.title = title,
                                    .name = name_track,
                                    .name_least = 40,
                                    REP_COLUMNS(of_track),
                                    REP_ROWS_OF(rows, rows ? timeline_step->track_count : 0)};
    rep_table_write(page, &table);
    free(rows);
}

void rep_section_timeline(struct page *page, const struct an_result *result)
{
    if (!result->step_point_count) {
        if (!result->events.reason) /* a page can show ranges that are in no step */
            page_picture(page, PAGE_TIMELINE, result);
        return;
    }
    if (result->timeline.reason) {
        not_drawn(page, "Timeline", result->timeline.reason);
        return;
    }
    page_picture(page, PAGE_TIMELINE, result);
    for (size_t i = 0; i < result->timeline.step_count; i++)
        step_table(page, &result->timeline.step[i]);
}

/* ---- flame graphs ---------------------------------------------------------------------------- */

struct flame_row {
    const struct an_flame *flame;
    uint32_t at;
    int64_t self_ns;
};

#define PATH_MOST 6 /* names of a path that are shown, from the leaf up */

/* "micro_step > matmul.forward"; of a deep path the end. */
static void name_path(char text[REP_NAME], const void *row)
{
    const struct flame_row *flame_row = row;
    uint32_t path[PATH_MOST], place = flame_row->at;
    size_t depth = 0, used = 0;
    while (place && depth < PATH_MOST) {
        path[depth++] = place;
        place = flame_row->flame->row[place].parent;
    }
    used = (size_t)snprintf(text, REP_NAME, "%s", place ? "\xe2\x80\xa6 > " : "");
    while (depth--) {
        const char *name = flame_row->flame->row[path[depth]].name;
        name = rep_or(name, "(unnamed)");
        used +=
            (size_t)snprintf(text + used, REP_NAME - used, depth ? "%.150s > " : "%.150s", name);
    }
}
static const struct an_flame_row *flame_of(const void *row)
{
    const struct flame_row *flame_row = row;
    return &flame_row->flame->row[flame_row->at];
}
static void flame_share(char cell[REP_CELL], const void *row)
{
    const struct flame_row *flame_row = row;
    snprintf(cell, REP_CELL, "%.1f",
             100 * (double)flame_row->self_ns / (double)flame_row->flame->row[0].total_ns);
}
REP_CELL_OF(flame_self, flame_row, rep_cell_ns, self_ns)
static void flame_total(char cell[REP_CELL], const void *row)
{
    page_time(cell, (double)flame_of(row)->total_ns);
}
static void flame_count(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%" PRId64, flame_of(row)->count);
}
static const struct rep_column of_flame[] = {{"self %", 8, flame_share},
                                             {"self", 9, flame_self},
                                             {"total", 9, flame_total},
                                             {"count", 10, flame_count}};

static int by_self(const void *left, const void *right)
{
    const struct flame_row *first = left, *second = right;
    int order = REP_COMPARE(second->self_ns, first->self_ns);
    return order ? order : REP_COMPARE(first->at, second->at);
}

/* The paths of a flame graph as a table, by own time: the time of a path without that of its
 * children. */
static void flame(struct page *page, const struct an_flame *flame, const char *title)
{
    struct flame_row *rows = calloc(flame->row_count ? flame->row_count : 1, sizeof *rows);
    size_t count = rows ? flame->row_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (struct flame_row){flame, i, rows[i].self_ns + flame->row[i].total_ns};
        if (i)
            rows[flame->row[i].parent].self_ns -= flame->row[i].total_ns;
    }
    if (count > 1)
        qsort(rows + 1, count - 1, sizeof *rows, by_self);
    const struct rep_table table = {.title = title,
                                    .name = name_path,
                                    .name_least = 50,
                                    REP_COLUMNS(of_flame),
                                    REP_ROWS_OF(rows + 1, count - 1)};
    if (count > 1 && flame->row[0].total_ns > 0)
        rep_table_write(page, &table);
    free(rows);
}

void rep_section_flame(struct page *page, const struct an_result *result)
{
    if (!result->step_point_count)
        return;
    if (result->flame.reason) {
        not_drawn(page, "Flame graph", result->flame.reason);
        return;
    }
    page_picture(page, PAGE_FLAME, result);
    flame(page, &result->flame, "Paths of ranges by own time");
}
