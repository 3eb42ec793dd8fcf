/* SPDX-License-Identifier: Apache-2.0
 *
 * Why devices, or the threads that run steps, do not compute: the split of that time, and what the
 * host did meanwhile.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/text/text.h"

static void cell_share(char *b, const struct an_absent *x, struct an_count ns)
{
    if (ns.valid && x->window_ns > 0)
        snprintf(b, REP_CELL, "%.1f", 100 * (double)ns.value / (double)x->window_ns);
}
static void cell_window(char *b, const void *row)
{
    const struct an_absent *x = row;
    if (x->steps)
        page_time(b, (double)x->window_ns / (double)x->steps);
}
static void cell_absent(char *b, const void *row)
{
    const struct an_absent *x = row;
    cell_share(b, x, an_int(x->absent_ns));
}
#define PART_CELL(name, key, text) \
    static void cell_##key(char *b, const void *row) \
    { \
        const struct an_absent *x = row; \
        cell_share(b, x, x->part_ns[AN_ABSENT_##name]); \
    }
AN_ABSENT_MAP(PART_CELL)
#undef PART_CELL
static void cell_after(char *b, const void *row)
{
    const struct an_absent *x = row;
    cell_share(b, x, x->after_wait_ns);
}

static const struct rep_column of_row[] = {
    {"a step", 9, cell_window},
    {"no compute", 11, cell_absent},
#define PART_COLUMN(name, key, text) {text, 12, cell_##key},
    AN_ABSENT_MAP(PART_COLUMN)
#undef PART_COLUMN
        {"after waits", 12, cell_after},
};

static void name_row(char b[REP_NAME], const void *row)
{
    const struct an_absent *x = row;
    if (x->device.valid)
        snprintf(b, REP_NAME, "rank %" PRId64 ", device %" PRId64 ", %.60s", x->rank,
                 x->device.value, x->window);
    else
        snprintf(b, REP_NAME, "rank %" PRId64 ", %.60s", x->rank, x->window);
}

/* ---- causes ------------------------------------------------------------------------------------------------------------------ */

static void cause_time(char *b, const void *row)
{
    page_time(b, (double)((const struct an_absent_cause *)row)->ns);
}
static void cause_share(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct an_absent_cause *)row)->pct);
}
static void cause_cause(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.16s", ((const struct an_absent_cause *)row)->cause);
}
static void name_cause(char b[REP_NAME], const void *row)
{
    const struct an_absent_cause *x = row;
    snprintf(b, REP_NAME, "%.300s", *x->name ? x->name : "outside of every range");
}
static const struct rep_column of_cause[] = {
    {"time", 9, cause_time}, {"%", 6, cause_share}, {"cause", 15, cause_cause}};

/* Shares of the causes, largest first: rows of one cause are added up. */
static void shares(struct page *p, const struct an_absent *x)
{
    bool said[64] = {false};
    size_t n = x->cause_count < 64 ? x->cause_count : 64;
    page_label(p, "Host");
    for (;;) {
        const char *best = NULL;
        double most = 0;
        for (size_t i = 0; i < n; i++) {
            double pct = 0;
            for (size_t k = 0; k < x->cause_count && !said[i]; k++)
                pct += !strcmp(x->causes[k].cause, x->causes[i].cause) ? x->causes[k].pct : 0;
            if (pct > most) {
                most = pct;
                best = x->causes[i].cause;
            }
        }
        if (!best || most < 0.05)
            break;
        for (size_t i = 0; i < n; i++)
            said[i] = said[i] || !strcmp(x->causes[i].cause, best);
        page_item(p, "%s %.1f %%", best, most);
    }
    page_end(p);
}

/* The row with most time that has causes. */
static const struct an_absent *longest(const struct an_result *r)
{
    const struct an_absent *most = NULL;
    for (size_t i = 0; i < r->absent_count; i++)
        if (r->absent[i].cause_count && (!most || r->absent[i].absent_ns > most->absent_ns))
            most = &r->absent[i];
    return most;
}

void rep_text_absent(struct page *p, const struct an_result *r)
{
    char title[160], name[REP_NAME];
    const struct an_absent *x = longest(r);
    struct rep_table t = {.title = "Without compute, % of the window",
                          .name_least = 30,
                          .name = name_row,
                          .column = of_row,
                          .columns = sizeof of_row / sizeof *of_row,
                          .rows = r->absent,
                          .size = sizeof *r->absent,
                          .count = r->absent_count};
    if (r->absence.reason || !r->absent_count)
        return;
    if (!r->absent[0].device.valid)
        t.columns = 2; /* the parts are those of devices */
    rep_table_write(p, &t);
    if (r->absent[0].device.valid)
        page_text(p, 1,
                  " launch late: the host had not issued the next kernel; blocked: it waited for "
                  "an op it depends on; dispatch: "
                  "on its way to the device; dependency: the rest; after waits: of launch late, "
                  "behind a call that waited");
    if (r->absent[0].device.valid && !r->absent[0].part_ns[0].valid) {
        page_blank(p);
        page_label(p, "Split");
        page_item(p, "not known: %.300s", r->absent[0].part_ns[0].reason);
        page_end(p);
    }
    if (!x)
        return;
    page_blank(p);
    shares(p, x);
    name_row(name, x);
    snprintf(title, sizeof title, "What the host did meanwhile (%.100s)", name);
    rep_table_write(p, &(struct rep_table){.title = title,
                                           .name_least = 40,
                                           .name = name_cause,
                                           .column = of_cause,
                                           .columns = sizeof of_cause / sizeof *of_cause,
                                           .rows = x->causes,
                                           .size = sizeof *x->causes,
                                           .count = x->cause_count});
}
