/* SPDX-License-Identifier: Apache-2.0
 *
 * Why devices, or the threads that run steps, do not compute: the split of that time, and the
 * activity of the host during it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/phrase.h"

static void cell_share(char cell[REP_CELL], const struct an_absent *absent, struct an_count ns)
{
    if (ns.valid && absent->window_ns > 0)
        snprintf(cell, REP_CELL, "%.1f", 100 * (double)ns.value / (double)absent->window_ns);
}
static void cell_window(char cell[REP_CELL], const void *row)
{
    const struct an_absent *absent = row;
    if (absent->steps)
        page_time(cell, (double)absent->window_ns / (double)absent->steps);
}
static void cell_absent(char cell[REP_CELL], const void *row)
{
    const struct an_absent *absent = row;
    cell_share(cell, absent, an_int(absent->absent_ns));
}
#define PART_CELL(name, key, text) \
    static void cell_##key(char cell[REP_CELL], const void *row) \
    { \
        const struct an_absent *x = row; \
        cell_share(cell, x, x->part_ns[AN_ABSENT_##name]); \
    }
AN_ABSENT_MAP(PART_CELL)
#undef PART_CELL
static void cell_after(char cell[REP_CELL], const void *row)
{
    const struct an_absent *absent = row;
    cell_share(cell, absent, absent->after_wait_ns);
}

static const struct rep_column of_row[] = {
    {"a step", 9, cell_window},
    {"no compute", 11, cell_absent},
#define PART_COLUMN(name, key, text) {text, sizeof(text), cell_##key},
    AN_ABSENT_MAP(PART_COLUMN)
#undef PART_COLUMN
        {"after waits", 12, cell_after},
};

/* Names a row by rank, device and window. */
static void name_row(char name[REP_NAME], const void *row)
{
    const struct an_absent *absent = row;
    if (absent->device.valid)
        snprintf(name, REP_NAME, "rank %" PRId64 ", device %" PRId64 ", %.60s", absent->rank,
                 absent->device.value, absent->window);
    else
        snprintf(name, REP_NAME, "rank %" PRId64 ", %.60s", absent->rank, absent->window);
}

/* ---- causes ---------------------------------------------------------------------------------- */

REP_CELL_OF(cause_time, an_absent_cause, rep_cell_ns, ns)
REP_CELL_OF(cause_share, an_absent_cause, rep_cell_tenths, pct)
static void cause_cause(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.16s", rep_cause_name(((const struct an_absent_cause *)row)->cause));
}
static void name_cause(char name[REP_NAME], const void *row)
{
    const struct an_absent_cause *cause = row;
    snprintf(name, REP_NAME, "%.300s", rep_or(cause->name, "outside all ranges"));
}
static const struct rep_column of_cause[] = {
    {"time", 9, cause_time}, {"%", 6, cause_share}, {"cause", 15, cause_cause}};

#define CAUSES_MOST 64

/* Share of all rows that have the cause of row `i`. */
static double pct_of_cause(const struct an_absent *absent, size_t i)
{
    double pct = 0;
    for (size_t other = 0; other < absent->cause_count; other++)
        if (!strcmp(absent->causes[other].cause, absent->causes[i].cause))
            pct += absent->causes[other].pct;
    return pct;
}

/* Writes the device and window, then the shares of the causes, the largest first. Rows of one
 * cause are added up. */
static void cause_items(struct page *page, const struct an_absent *absent)
{
    bool said[CAUSES_MOST] = {false};
    size_t count = absent->cause_count < CAUSES_MOST ? absent->cause_count : CAUSES_MOST;
    char name[REP_NAME];
    name_row(name, absent);
    page_label(page, "Host");
    page_item(page, "%.100s", name);
    for (;;) {
        const char *best = NULL;
        double most = 0;
        for (size_t i = 0; i < count; i++) {
            double pct = said[i] ? 0 : pct_of_cause(absent, i);
            if (pct > most) {
                most = pct;
                best = absent->causes[i].cause;
            }
        }
        if (!best || most < 0.05)
            break;
        for (size_t i = 0; i < count; i++)
            said[i] = said[i] || !strcmp(absent->causes[i].cause, best);
        page_item(page, "%s %.1f %%", rep_cause_name(best), most);
    }
    page_end(page);
}

/* Finds the row with most time among those whose causes are known. */
static const struct an_absent *longest_row(const struct an_result *result)
{
    const struct an_absent *most = NULL;
    for (size_t i = 0; i < result->absent_count; i++)
        if (result->absent[i].cause_count &&
            (!most || result->absent[i].absent_ns > most->absent_ns))
            most = &result->absent[i];
    return most;
}

/* Explains the columns of devices, and says why they are empty where they are. */
static void explain_parts(struct page *page, const struct an_absent *absent)
{
    page_text(page, 1,
              " launch-bound: the host had not issued the next kernel; blocked: the kernel waited "
              "for an operation that it depends on; dispatch: the device had not started it yet; "
              "dependency: the rest; after waits: launch-bound time after a call that waited");
    if (absent->part_ns[0].valid)
        return;
    page_blank(page);
    page_line(page, "Split", "unknown: %.300s", absent->part_ns[0].reason);
}

/* Causes are shown for one row only, the one with most time: they are similar on all devices. */
void rep_section_noncompute(struct page *page, const struct an_result *result)
{
    const struct an_absent *absent = longest_row(result);
    struct rep_table table = {.title = "Non-compute time, % of window",
                              .name_least = 30,
                              .name = name_row,
                              REP_COLUMNS(of_row),
                              REP_ROWS_OF(result->absent, result->absent_count)};
    if (result->absence.reason || !result->absent_count)
        return;
    if (!result->absent[0].device.valid)
        table.columns = 2; /* the parts are those of devices */
    rep_table_write(page, &table);
    if (result->absent[0].device.valid)
        explain_parts(page, &result->absent[0]);
    if (!absent)
        return;
    page_blank(page);
    cause_items(page, absent);
    rep_table_write(page, &(struct rep_table){.title = "Host activity during non-compute time",
                                              .name_least = 40,
                                              .name = name_cause,
                                              REP_COLUMNS(of_cause),
                                              REP_ROWS_OF(absent->causes, absent->cause_count)});
}
