/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ranges. A page that gets wider takes more columns.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/text.h"

#define OPS_DEFAULT 12

static void cell_count(char *b, size_t n, const struct an_op *o)
{
    snprintf(b, n, "%" PRId64, o->count);
}
static void cell_share(char *b, size_t n, const struct an_op *o)
{
    *b = 0;
    if (o->share_pct.valid)
        snprintf(b, n, "%.1f", o->share_pct.value);
}
static void cell_time(char *b, double ns)
{
    page_time(b, ns);
}
static void cell_total(char *b, size_t n, const struct an_op *o)
{
    (void)n;
    cell_time(b, (double)o->total_ns);
}
static void cell_mean(char *b, size_t n, const struct an_op *o)
{
    (void)n;
    *b = 0;
    if (o->mean_us.valid)
        cell_time(b, o->mean_us.value * 1e3);
}
static void cell_sd(char *b, size_t n, const struct an_op *o)
{
    (void)n;
    *b = 0;
    if (o->sd_us.valid)
        cell_time(b, o->sd_us.value * 1e3);
}
static void cell_min(char *b, size_t n, const struct an_op *o)
{
    (void)n;
    *b = 0;
    if (o->min_ns.valid)
        cell_time(b, (double)o->min_ns.value);
}
static void cell_max(char *b, size_t n, const struct an_op *o)
{
    (void)n;
    *b = 0;
    if (o->max_ns.valid)
        cell_time(b, (double)o->max_ns.value);
}
static void cell_flops(char *b, size_t n, const struct an_op *o)
{
    (void)n;
    *b = 0;
    if (o->flops_per_s.valid && o->flops_per_s.value > 0)
        page_si(b, o->flops_per_s.value, "");
}
static void cell_bytes(char *b, size_t n, const struct an_op *o)
{
    (void)n;
    *b = 0;
    if (o->bytes_per_s.valid && o->bytes_per_s.value > 0)
        page_si(b, o->bytes_per_s.value, "");
}

/* In the order in which a page that gets wider takes them. */
static const struct {
    const char *head;
    int columns;
    void (*cell)(char *b, size_t n, const struct an_op *o); /* b has 32 bytes */
} columns[] = {{"self %", 8, cell_share}, {"count", 10, cell_count}, {"mean", 9, cell_mean},
               {"FLOP/s", 8, cell_flops}, {"total", 9, cell_total},  {"sd", 9, cell_sd},
               {"B/s", 8, cell_bytes},    {"min", 9, cell_min},      {"max", 9, cell_max}};
#define COLUMNS (sizeof columns / sizeof *columns)

void rep_text_ops(struct page *p, const struct an_result *r, int most)
{
    size_t shown = 0, n = (size_t)(most > 0 ? most : OPS_DEFAULT);
    int name = 20;
    if (!r->op_count)
        return;
    while (shown < COLUMNS && name + columns[shown].columns <= p->width)
        name += columns[shown++].columns;
    name = 20 + (p->width - name);
    name = name > 44 ? 44 : name;
    page_blank(p);
    if (p->color)
        fputs("\x1b[1m", p->out);
    p->column = 0;
    page_cell(p, "Ranges by own time", name, false);
    for (size_t k = 0; k < shown; k++)
        page_cell(p, columns[k].head, columns[k].columns, true);
    if (p->color)
        fputs("\x1b[0m", p->out);
    page_newline(p);
    for (size_t i = 0; i < r->op_count && i < n; i++) {
        char text[400], cell[40];
        const struct an_op *o = &r->ops[i];
        snprintf(text, sizeof text, " %.300s%s%.40s", *o->name ? o->name : "(unnamed)",
                 *o->pass && !strstr(o->name, o->pass) ? " " : "", *o->pass && !strstr(o->name, o->pass) ? o->pass : "");
        p->column = 0;
        page_cell(p, text, name, false);
        for (size_t k = 0; k < shown; k++) {
            columns[k].cell(cell, 32, o);
            page_cell(p, cell, columns[k].columns, true);
        }
        page_newline(p);
    }
    if (r->op_count > n) {
        char text[80];
        snprintf(text, sizeof text, " %zu more rows: tacho report --json", r->op_count - n);
        page_text(p, 1, text);
    }
}
