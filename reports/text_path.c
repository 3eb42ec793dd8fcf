/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path in the text report: by cause and by op.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/tables.h"
#include "reports/text.h"

#define COUNT(list) (sizeof list / sizeof *list)

static void name_cause(char b[REP_NAME], const void *row)
{
    snprintf(b, REP_NAME, "%s", ((const struct an_path_cause *)row)->text);
}
static void cell_cause_pct(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct an_path_cause *)row)->pct.value);
}
static void cell_cause_time(char b[REP_CELL], const void *row)
{
    page_time(b, (double)((const struct an_path_cause *)row)->ns);
}
static void cell_cause_step(char b[REP_CELL], const void *row)
{
    const struct an_path_cause *x = row;
    if (x->step_median_ms.valid)
        page_time(b, x->step_median_ms.value * 1e6);
}
static const struct rep_column of_cause[] = {
    {"% of path", 10, cell_cause_pct}, {"time", 10, cell_cause_time}, {"median of a step", 17, cell_cause_step}};

static void name_op(char b[REP_NAME], const void *row)
{
    snprintf(b, REP_NAME, "%s", ((const struct an_path_op *)row)->name);
}
static void cell_op_pct(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct an_path_op *)row)->pct.value);
}
static void cell_op_time(char b[REP_CELL], const void *row)
{
    page_time(b, (double)((const struct an_path_op *)row)->ns);
}
static void cell_op_count(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%" PRId64, ((const struct an_path_op *)row)->count);
}
static void cell_op_cause(char b[REP_CELL], const void *row)
{
    const struct an_path_op *x = row;
    snprintf(b, REP_CELL, "%s%s", x->cause, !strcmp(x->where, "device") ? " (device)" : "");
}
static const struct rep_column of_op[] = {
    {"% of path", 10, cell_op_pct}, {"time", 10, cell_op_time}, {"stretches", 10, cell_op_count}, {"cause", 23, cell_op_cause}};

void rep_table_path_ops(const struct an_critical_path *x, struct rep_table *t)
{
    *t = (struct rep_table){.title = "What stands on it",
                            .name = name_op,
                            .column = of_op,
                            .columns = COUNT(of_op),
                            .rows = x->ops,
                            .size = sizeof *x->ops,
                            .count = x->reason ? 0 : x->op_count};
}

void rep_text_critical_path(struct page *p, const struct an_result *r)
{
    const struct an_critical_path *x = &r->critical_path;
    if (x->reason)
        return;
    char length[REP_CELL];
    page_time(length, (double)x->length_ns.value);
    page_blank(p);
    page_label(p, "critical path");
    page_item(p, "%s", length);
    page_item(p, "%" PRId64 " step%s of rank %" PRId64, x->steps, x->steps == 1 ? "" : "s", x->rank);
    if (x->explained_pct.valid) {
        page_item(p, "explained %.1f %%", x->explained_pct.value);
        page_item(p, "recorded %.1f %%", x->recorded_pct.value);
        page_item(p, "inferred %.1f %%", x->inferred_pct.value);
        page_item(p, "gaps %.1f %%", x->gap_pct.value);
    }
    page_end(p);
    if (x->doubt)
        page_text(p, 2, x->doubt);
    struct rep_table causes = {.title = "What the path spends its time with",
                               .name = name_cause,
                               .column = of_cause,
                               .columns = COUNT(of_cause),
                               .rows = x->causes,
                               .size = sizeof *x->causes,
                               .count = x->cause_count,
                               .most = 20};
    rep_table_write(p, &causes);
    struct rep_table ops;
    rep_table_path_ops(x, &ops);
    rep_table_write(p, &ops);
}
