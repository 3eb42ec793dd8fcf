/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path: its time by cause and by operation; in formats that draw, also its way
 * through one step.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/compare.h"
#include "reports/words/phrase.h"

REP_NAME_OF(name_cause, an_path_cause, text)
REP_CELL_OF(cell_cause_pct, an_path_cause, rep_cell_tenths, pct.value)
REP_CELL_OF(cell_cause_time, an_path_cause, rep_cell_ns, ns)
REP_CELL_OF(cell_cause_step, an_path_cause, rep_cell_ms, step_median_ms)
static const struct rep_column of_cause[] = {{"% of path", 10, cell_cause_pct},
                                             {"time", 10, cell_cause_time},
                                             {"median per step", 17, cell_cause_step}};

REP_NAME_OF(name_op, an_path_op, name)
REP_CELL_OF(cell_op_pct, an_path_op, rep_cell_tenths, pct.value)
REP_CELL_OF(cell_op_time, an_path_op, rep_cell_ns, ns)
REP_CELL_OF(cell_op_count, an_path_op, rep_cell_integer, count)
static void cell_op_cause(char cell[REP_CELL], const void *row)
{
    const struct an_path_op *op = row;
    snprintf(cell, REP_CELL, "%s%s", rep_cause_name(op->cause),
             !strcmp(op->where, "device") ? " (device)" : "");
}
static const struct rep_column of_op[] = {{"% of path", 10, cell_op_pct},
                                          {"time", 10, cell_op_time},
                                          {"segments", 10, cell_op_count},
                                          {"cause", 23, cell_op_cause}};

void rep_table_path_ops(const struct an_critical_path *path, struct rep_table *table)
{
    *table = (struct rep_table){.title = "Operations on the path",
                                .name = name_op,
                                REP_COLUMNS(of_op),
                                REP_ROWS_OF(path->ops, path->reason ? 0 : path->op_count)};
}

/* Length and steps of the path, and how much of it is explained, and by what. */
static void path_line(struct page *page, const struct an_critical_path *path)
{
    char length[REP_CELL];
    page_time(length, (double)path->length_ns.value);
    page_blank(page);
    page_label(page, "Critical path");
    page_item(page, "%s", length);
    page_item(page, "%" PRId64 " step%s of rank %" PRId64, path->steps,
              REP_PLURAL(path->steps, "", "s"), path->rank);
    if (path->explained_pct.valid) {
        page_item(page, "explained %.1f %%", path->explained_pct.value);
        page_item(page, "recorded %.1f %%", path->recorded_pct.value);
        page_item(page, "inferred %.1f %%", path->inferred_pct.value);
        page_item(page, "gaps %.1f %%", path->gap_pct.value);
    }
    page_end(page);
    if (path->doubt)
        page_text(page, 2, path->doubt);
    if (!path->suspected_count)
        return;
    char text[400];
    snprintf(text, sizeof text,
             "suspected waits: the host is inside %.120s, without a call that waits, until the "
             "device has done what it was given (%" PRId64 " times, %s): taken as waiting for it",
             path->suspected_name, path->suspected_count, TIME_TEXT((double)path->suspected_ns));
    page_text(page, 2, text);
}

void rep_section_critical_path(struct page *page, const struct an_result *result)
{
    const struct an_critical_path *path = &result->critical_path;
    if (path->reason)
        return;
    path_line(page, path);
    struct rep_table causes = {.title = "Critical path by cause",
                               .words = true,
                               .name = name_cause,
                               REP_COLUMNS(of_cause),
                               REP_ROWS_OF(path->causes, path->cause_count),
                               .most = 20};
    rep_table_write(page, &causes);
    struct rep_table ops;
    rep_table_path_ops(path, &ops);
    rep_table_write(page, &ops);
}

/* ---- through one step ------------------------------------------------------------------------ */

struct segment_row {
    const struct an_path_step *step;
    const struct an_path_stretch *stretch;
};

static const struct an_path_stretch *segment_of(const void *row)
{
    return ((const struct segment_row *)row)->stretch;
}
static const char *reason_of(const struct segment_row *row)
{
    return row->step->reason[row->stretch->reason].text;
}
static void name_segment(char text[REP_NAME], const void *row)
{
    const char *name = segment_of(row)->name;
    snprintf(text, REP_NAME, "%s", *name ? name : reason_of(row));
}
static void cell_segment_start(char cell[REP_CELL], const void *row)
{
    page_time(cell, (double)segment_of(row)->start_ns);
}
static void cell_segment_time(char cell[REP_CELL], const void *row)
{
    page_time(cell, (double)segment_of(row)->dur_ns);
}
static void cell_segment_cause(char cell[REP_CELL], const void *row)
{
    const struct segment_row *segment = row;
    snprintf(cell, REP_CELL, "%s",
             rep_cause_name(segment->step->reason[segment->stretch->reason].key));
}
static void lane_text(char cell[REP_CELL], const struct an_path_step *step, int lane)
{
    if (lane >= 0)
        snprintf(cell, REP_CELL, "%" PRId64 ": %.20s", step->lane[lane].rank,
                 step->lane[lane].name);
}
static void cell_segment_lane(char cell[REP_CELL], const void *row)
{
    lane_text(cell, ((const struct segment_row *)row)->step, segment_of(row)->lane);
}
static void cell_segment_link(char cell[REP_CELL], const void *row)
{
    const struct an_path_stretch *stretch = segment_of(row);
    if (an_path_hands_over(((const struct segment_row *)row)->step,
                           (size_t)(stretch - ((const struct segment_row *)row)->step->stretch)))
        snprintf(cell, REP_CELL, "%s%s", stretch->link, stretch->inferred ? " (inferred)" : "");
}
static void cell_segment_merged(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%" PRIu32, segment_of(row)->merged);
}
static const struct rep_column of_segment[] = {
    {"time", 9, cell_segment_time},        {"from", 9, cell_segment_start},
    {"cause", 14, cell_segment_cause},     {"rank: track", 20, cell_segment_lane},
    {"dependency", 20, cell_segment_link}, {"segments", 10, cell_segment_merged}};

static int longest_first(const void *left, const void *right)
{
    const struct an_path_stretch *first = segment_of(left), *second = segment_of(right);
    int order = REP_COMPARE(second->dur_ns, first->dur_ns);
    return order ? order : REP_COMPARE(first, second);
}

/* Dependencies of one kind by which the path goes from one track to another. */
struct dependency {
    const struct an_path_step *step;
    const char *link;
    int from, to;
    int64_t count, inferred;
};

static void name_dependency(char name[REP_NAME], const void *row)
{
    const struct dependency *dependency = row;
    const struct an_path_lane *from = &dependency->step->lane[dependency->from],
                              *to = &dependency->step->lane[dependency->to];
    snprintf(name, REP_NAME, "%" PRId64 ": %.100s > %" PRId64 ": %.100s", from->rank, from->name,
             to->rank, to->name);
}
REP_CELL_OF(cell_dependency_link, dependency, rep_cell_text, link)
REP_CELL_OF(cell_dependency_count, dependency, rep_cell_integer, count)
REP_CELL_OF(cell_dependency_inferred, dependency, rep_cell_integer, inferred)
static const struct rep_column of_dependency[] = {{"kind", 12, cell_dependency_link},
                                                  {"count", 8, cell_dependency_count},
                                                  {"inferred", 9, cell_dependency_inferred}};

static int most_first(const void *left, const void *right)
{
    const struct dependency *first = left, *second = right;
    int order = REP_COMPARE(second->count, first->count);
    order = order ? order : first->from - second->from;
    return order ? order : first->to - second->to;
}

/* Counts the dependencies by which the path changes tracks, by kind and pair of tracks, the most
 * frequent first. Returns how many kinds there are. */
static size_t find_dependencies(const struct an_path_step *step, struct dependency *out)
{
    size_t count = 0;
    for (size_t i = 0; i + 1 < step->stretch_count; i++) {
        const struct an_path_stretch *stretch = &step->stretch[i];
        if (!an_path_hands_over(step, i))
            continue;
        int lane = stretch[1].lane;
        size_t place = 0;
        while (place < count && (out[place].from != stretch->lane || out[place].to != lane ||
                                 strcmp(out[place].link, stretch->link) != 0))
            place++;
        if (place == count)
            out[count++] = (struct dependency){step, stretch->link, stretch->lane, lane, 0, 0};
        out[place].count++;
        out[place].inferred += stretch->inferred;
    }
    if (count)
        qsort(out, count, sizeof *out, most_first);
    return count;
}

/* The rows of the table need the step beside the segment, so they are made here. */
void rep_section_path_step(struct page *page, const struct an_result *result)
{
    const struct an_path_step *step = &result->critical_path.step;
    if (result->critical_path.reason || !step->stretch_count)
        return;
    struct segment_row *rows = calloc(step->stretch_count, sizeof *rows);
    struct dependency *dependencies = calloc(step->stretch_count, sizeof *dependencies);
    if (rows && dependencies) {
        for (size_t i = 0; i < step->stretch_count; i++)
            rows[i] = (struct segment_row){step, &step->stretch[i]};
        qsort(rows, step->stretch_count, sizeof *rows, longest_first);
        page_picture(page, PAGE_PATH, result);
        const struct rep_table by_track = {
            .title = "Dependencies between tracks",
            .name = name_dependency,
            .name_least = 40,
            REP_COLUMNS(of_dependency),
            REP_ROWS_OF(dependencies, find_dependencies(step, dependencies))};
        rep_table_write(page, &by_track);
        const struct rep_table segments = {.title = "Segments of the path in this step",
                                           .name = name_segment,
                                           REP_COLUMNS(of_segment),
                                           REP_ROWS_OF(rows, step->stretch_count)};
        rep_table_write(page, &segments);
    }
    free(rows);
    free(dependencies);
}
