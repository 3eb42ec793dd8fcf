/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections that are a picture first: every step, a typical and the worst step, the flame graph,
 * rank x step. The tables beside the pictures say the same in numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/text/text.h"

#define COUNT(list) (sizeof list / sizeof *list)

static void not_drawn(struct page *p, const char *label, const char *reason)
{
    page_blank(p);
    page_label(p, label);
    page_item(p, "not known: %.300s", reason);
    page_end(p);
}

/* ---- steps -------------------------------------------------------------------------------------------------------------- */

static void name_step(char b[REP_NAME], const void *row)
{
    const struct an_step_outlier *x = row;
    snprintf(b, REP_NAME, "step %" PRId64 " of rank %" PRId64, x->index, x->rank);
}
static void outlier_ms(char *b, const void *row)
{
    page_time(b, ((const struct an_step_outlier *)row)->ms * 1e6);
}
static void outlier_score(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct an_step_outlier *)row)->score);
}
static const struct rep_column of_outlier[] = {{"time", 9, outlier_ms},
                                               {"score", 9, outlier_score}};

static void name_point(char b[REP_NAME], const void *row)
{
    const struct an_step_point *x = row;
    if (x->steps > 1)
        snprintf(b, REP_NAME, "rank %" PRId64 ", %" PRId64 " steps from %" PRId64, x->rank,
                 x->steps, x->index);
    else
        snprintf(b, REP_NAME, "rank %" PRId64 ", step %" PRId64, x->rank, x->index);
}
static void point_start(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.3f s", ((const struct an_step_point *)row)->start_s);
}
static void point_ms(char *b, const void *row)
{
    page_time(b, ((const struct an_step_point *)row)->ms * 1e6);
}
static void point_worst(char *b, const void *row)
{
    page_time(b, ((const struct an_step_point *)row)->worst_ms * 1e6);
}
static void point_tokens(char *b, const void *row)
{
    const struct an_step_point *x = row;
    if (!isnan(x->tokens_per_s))
        page_number(b, x->tokens_per_s);
}
static void point_excluded(char *b, const void *row)
{
    const struct an_step_point *x = row;
    snprintf(b, REP_CELL, "%.20s", x->excluded ? x->excluded : "");
}
static const struct rep_column of_point[] = {{"time", 9, point_ms},
                                             {"longest", 9, point_worst},
                                             {"start", 12, point_start},
                                             {"tokens/s", 10, point_tokens},
                                             {"left out", 16, point_excluded}};

void rep_text_steps(struct page *p, const struct an_result *r)
{
    if (!r->step_point_count)
        return;
    page_picture(p, PAGE_TREND, r);
    const struct rep_table slow = {.title = "Slow steps",
                                   .name = name_step,
                                   .words = true,
                                   .column = of_outlier,
                                   .columns = COUNT(of_outlier),
                                   .rows = r->steps.outliers,
                                   .size = sizeof *r->steps.outliers,
                                   .count = r->steps.outlier_count};
    rep_table_write(p, &slow);
    if (slow.count)
        page_text(p, 1,
                  "score: how far above the median, in units of 1.48 median absolute deviations; "
                  "slow from 3.5 on");
    const struct rep_table all = {.title = "Steps",
                                  .name = name_point,
                                  .words = true,
                                  .column = of_point,
                                  .columns = COUNT(of_point),
                                  .rows = r->step_points,
                                  .size = sizeof *r->step_points,
                                  .count = r->step_point_count};
    rep_table_write(p, &all);
}

/* ---- timeline ----------------------------------------------------------------------------------------------------------- */

struct track_row {
    const struct an_timeline_track *k;
    double step_ns;
};

static void name_track(char b[REP_NAME], const void *row)
{
    const struct an_timeline_track *k = ((const struct track_row *)row)->k;
    snprintf(b, REP_NAME, "rank %" PRId64 " %.200s%s", k->rank, k->name,
             k->depth ? ", nested" : "");
}
static void track_kind(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.20s", ((const struct track_row *)row)->k->kind);
}
static void track_device(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.20s", ((const struct track_row *)row)->k->device);
}
static void track_busy(char *b, const void *row)
{
    page_time(b, (double)((const struct track_row *)row)->k->busy_ns);
}
static void track_share(char *b, const void *row)
{
    const struct track_row *x = row;
    snprintf(b, REP_CELL, "%.1f", x->step_ns > 0 ? 100 * (double)x->k->busy_ns / x->step_ns : 0);
}
static const struct rep_column of_track[] = {{"busy %", 8, track_share},
                                             {"busy", 9, track_busy},
                                             {"kind", 10, track_kind},
                                             {"device", 10, track_device}};

static void step_table(struct page *p, const struct an_timeline_step *s)
{
    struct track_row *rows = calloc(s->track_count ? s->track_count : 1, sizeof *rows);
    char title[100], a[32];
    for (size_t i = 0; rows && i < s->track_count; i++)
        rows[i] = (struct track_row){&s->track[i], s->ms * 1e6};
    snprintf(title, sizeof title, "Tracks in the %.10s step (%" PRId64 ", %s)", s->which, s->index,
             page_time(a, s->ms * 1e6));
    const struct rep_table t = {.title = title,
                                .name = name_track,
                                .name_least = 40,
                                .column = of_track,
                                .columns = COUNT(of_track),
                                .rows = rows,
                                .size = sizeof *rows,
                                .count = rows ? s->track_count : 0};
    rep_table_write(p, &t);
    free(rows);
}

void rep_text_timeline(struct page *p, const struct an_result *r)
{
    if (!r->step_point_count)
        return;
    if (r->timeline.reason) {
        not_drawn(p, "Timeline", r->timeline.reason);
        return;
    }
    page_picture(p, PAGE_TIMELINE, r);
    for (size_t i = 0; i < r->timeline.step_count; i++)
        step_table(p, &r->timeline.step[i]);
}

/* ---- flame graphs ------------------------------------------------------------------------------------------------------- */

struct flame_row {
    const struct an_flame *x;
    uint32_t at;
    int64_t self_ns;
};

#define PATH_MOST 6 /* names of a path that are shown, from the leaf up */

/* "micro_step > matmul.forward"; of a deep path the end. */
static void name_path(char b[REP_NAME], const void *row)
{
    const struct flame_row *f = row;
    uint32_t path[PATH_MOST], at = f->at;
    size_t n = 0, used = 0;
    while (at && n < PATH_MOST) {
        path[n++] = at;
        at = f->x->row[at].parent;
    }
    used = (size_t)snprintf(b, REP_NAME, "%s", at ? "\xe2\x80\xa6 > " : "");
    while (n--) {
        const char *name = f->x->row[path[n]].name;
        used += (size_t)snprintf(b + used, REP_NAME - used, "%.150s%s", *name ? name : "(unnamed)",
                                 n ? " > " : "");
    }
}
static const struct an_flame_row *flame_of(const void *row)
{
    const struct flame_row *f = row;
    return &f->x->row[f->at];
}
static void flame_share(char *b, const void *row)
{
    const struct flame_row *f = row;
    snprintf(b, REP_CELL, "%.1f", 100 * (double)f->self_ns / (double)f->x->row[0].total_ns);
}
static void flame_self(char *b, const void *row)
{
    page_time(b, (double)((const struct flame_row *)row)->self_ns);
}
static void flame_total(char *b, const void *row)
{
    page_time(b, (double)flame_of(row)->total_ns);
}
static void flame_count(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%" PRId64, flame_of(row)->count);
}
static const struct rep_column of_flame[] = {{"self %", 8, flame_share},
                                             {"self", 9, flame_self},
                                             {"total", 9, flame_total},
                                             {"count", 10, flame_count}};

static int by_self(const void *x, const void *y)
{
    const struct flame_row *a = x, *b = y;
    return a->self_ns != b->self_ns ? (a->self_ns < b->self_ns ? 1 : -1)
                                    : (a->at > b->at) - (a->at < b->at);
}

static void flame(struct page *p, const struct an_flame *x, const char *title)
{
    struct flame_row *rows = calloc(x->row_count ? x->row_count : 1, sizeof *rows);
    size_t n = rows ? x->row_count : 0;
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (struct flame_row){x, i, rows[i].self_ns + x->row[i].total_ns};
        if (i)
            rows[x->row[i].parent].self_ns -= x->row[i].total_ns;
    }
    if (n > 1)
        qsort(rows + 1, n - 1, sizeof *rows, by_self);
    const struct rep_table t = {.title = title,
                                .name = name_path,
                                .name_least = 50,
                                .column = of_flame,
                                .columns = COUNT(of_flame),
                                .rows = rows + 1,
                                .size = sizeof *rows,
                                .count = n > 1 && x->row[0].total_ns > 0 ? n - 1 : 0};
    rep_table_write(p, &t);
    free(rows);
}

void rep_text_flame(struct page *p, const struct an_result *r)
{
    if (!r->step_point_count)
        return;
    if (r->flame.reason) {
        not_drawn(p, "Flame graph", r->flame.reason);
        return;
    }
    page_picture(p, PAGE_FLAME, r);
    flame(p, &r->flame, "Paths of ranges by own time");
}

/* ---- rank x step -------------------------------------------------------------------------------------------------------- */

struct heat_row {
    const struct an_heat *h;
    size_t at;
};

static double mean_of(const struct heat_row *x, const double *cell)
{
    double sum = 0;
    size_t n = 0;
    for (size_t s = 0; s < x->h->steps; s++) {
        double v = cell[x->at * x->h->steps + s];
        sum += isfinite(v) ? v : 0;
        n += isfinite(v) ? 1 : 0;
    }
    return n ? sum / (double)n : NAN;
}
static void mean_cell(char *b, const struct heat_row *x, const double *cell)
{
    double v = mean_of(x, cell);
    if (isfinite(v))
        page_time(b, v * 1e6);
}
static void name_heat(char b[REP_NAME], const void *row)
{
    const struct heat_row *x = row;
    if (x->h->ranks_a_row > 1)
        snprintf(b, REP_NAME, "ranks from %" PRId64, x->h->rank[x->at]);
    else
        snprintf(b, REP_NAME, "rank %" PRId64, x->h->rank[x->at]);
}
static void heat_step(char *b, const void *row)
{
    mean_cell(b, row, ((const struct heat_row *)row)->h->step_ms);
}
static void heat_waiting(char *b, const void *row)
{
    mean_cell(b, row, ((const struct heat_row *)row)->h->waiting_ms);
}
static void heat_transfer(char *b, const void *row)
{
    mean_cell(b, row, ((const struct heat_row *)row)->h->transfer_ms);
}
static void heat_worst(char *b, const void *row)
{
    const struct heat_row *x = row;
    double worst = 0;
    int64_t index = 0;
    for (size_t s = 0; s < x->h->steps; s++)
        if (x->h->step_ms[x->at * x->h->steps + s] > worst) {
            worst = x->h->step_ms[x->at * x->h->steps + s];
            index = x->h->index[s];
        }
    char a[32];
    if (worst > 0)
        snprintf(b, REP_CELL, "%s in step %" PRId64, page_time(a, worst * 1e6), index);
}
static const struct rep_column of_heat[] = {{"step", 9, heat_step},
                                            {"waiting", 9, heat_waiting},
                                            {"transfer", 10, heat_transfer},
                                            {"longest", 20, heat_worst}};

void rep_text_heat(struct page *p, const struct an_result *r)
{
    const struct an_heat *h = &r->heat;
    if (h->reason || !h->ranks || !h->steps)
        return; /* one rank: nothing to compare */
    struct heat_row *rows = calloc(h->ranks, sizeof *rows);
    for (size_t i = 0; rows && i < h->ranks; i++)
        rows[i] = (struct heat_row){h, i};
    page_picture(p, PAGE_HEAT, r);
    const struct rep_table t = {.title = "Ranks, mean of a step",
                                .name = name_heat,
                                .words = true,
                                .column = of_heat,
                                .columns = COUNT(of_heat),
                                .rows = rows,
                                .size = sizeof *rows,
                                .count = rows ? h->ranks : 0};
    rep_table_write(p, &t);
    free(rows);
}
