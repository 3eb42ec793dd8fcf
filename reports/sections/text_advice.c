/* SPDX-License-Identifier: Apache-2.0
 *
 * What replaying the dependency graph tells: how far it misses the run, what edits would do, what
 * the step is sensitive to.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/tables.h"
#include "reports/text/text.h"

/* ---- edits ---------------------------------------------------------------------------------------------------------------------- */

static void name_edit(char b[REP_NAME], const void *row)
{
    snprintf(b, REP_NAME, "%s", ((const struct an_what_if *)row)->edit);
}
static void cell_gain(char b[REP_CELL], const void *row)
{
    const struct an_gain *g = &((const struct an_what_if *)row)->gain;
    if (g->ceiling && g->high.valid)
        snprintf(b, REP_CELL, "ceiling: %+.1f", g->high.value);
    else if (g->expected.valid)
        snprintf(b, REP_CELL, "%+.1f", g->expected.value);
}
static void cell_between(char b[REP_CELL], const void *row)
{
    const struct an_gain *g = &((const struct an_what_if *)row)->gain;
    if (g->low.valid && g->high.valid)
        snprintf(b, REP_CELL, "[%+.1f, %+.1f]", g->low.value, g->high.value);
}
static void cell_step(char b[REP_CELL], const void *row)
{
    const struct an_what_if *w = row;
    char low[REP_CELL];
    if (w->step_ms.valid) {
        page_time(b, w->step_ms.value * 1e6);
    } else if (w->step_low_ms.valid) {
        page_time(low, w->step_low_ms.value * 1e6);
        snprintf(b, REP_CELL, ">= %.24s", low);
    }
}
static void cell_steps(char b[REP_CELL], const void *row)
{
    char low[32], high[32];
    const struct an_what_if *w = row;
    if (w->step_ms.valid && w->step_low_ms.valid && w->step_high_ms.valid)
        snprintf(b, REP_CELL, "[%.13s, %.13s]", page_number(low, w->step_low_ms.value),
                 page_number(high, w->step_high_ms.value));
}
static void cell_of(char b[REP_CELL], const void *row)
{
    const struct an_what_if *w = row;
    snprintf(b, REP_CELL, "%.30s", w->of ? w->of : "");
}
static const struct rep_column of_edit[] = {{"gain %", 16, cell_gain},
                                            {"95 %", 18, cell_between},
                                            {"step", 11, cell_step},
                                            {"95 %, ms", 16, cell_steps},
                                            {"finding", 16, cell_of}};

static void notes(struct page *p, const struct an_what_if *w)
{
    char line[900];
    const char *word = w->reason      ? "no prediction"
                       : w->ceiling   ? "a ceiling"
                       : w->condition ? "takes for granted"
                                      : NULL;
    const char *text = w->reason ? w->reason : w->ceiling ? w->ceiling : w->condition;
    if (!word)
        return;
    snprintf(line, sizeof line, "%.200s: %s: %.600s", w->edit, word, text);
    page_text(p, 2, line);
    if (w->ceiling && w->condition && !w->reason) {
        snprintf(line, sizeof line, "%.200s: takes for granted: %.600s", w->edit, w->condition);
        page_text(p, 2, line);
    }
}

static void edits(struct page *p, const struct an_advice *a)
{
    struct rep_table t = {.title = "What if",
                          .name = name_edit,
                          .column = of_edit,
                          .columns = sizeof of_edit / sizeof *of_edit,
                          .rows = a->edits,
                          .size = sizeof *a->edits,
                          .count = a->edit_count,
                          .most = a->edit_count,
                          .name_least = 26};
    rep_table_write(p, &t);
    if (a->together.edit) {
        t.title = "All of them together";
        t.rows = &a->together;
        t.count = t.most = 1;
        rep_table_write(p, &t);
    }
    for (size_t i = 0; i < a->edit_count; i++)
        notes(p, &a->edits[i]);
    if (a->together.edit && a->together.reason)
        notes(p, &a->together);
}

/* ---- sensitivity ---------------------------------------------------------------------------------------------------------------- */

static void name_row(char b[REP_NAME], const void *row)
{
    snprintf(b, REP_NAME, "%s", ((const struct an_sensitivity_row *)row)->key);
}
static void cell_gain_per(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%.3f", ((const struct an_sensitivity_row *)row)->gain_pct);
}
static void cell_path(char b[REP_CELL], const void *row)
{
    page_time(b, ((const struct an_sensitivity_row *)row)->path_ms * 1e6);
}
static void cell_share(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct an_sensitivity_row *)row)->path_pct);
}
static void cell_work(char b[REP_CELL], const void *row)
{
    const struct an_sensitivity_row *r = row;
    if (r->work_ms.valid)
        page_time(b, r->work_ms.value * 1e6);
}
static const struct rep_column of_row[] = {{"% per 1 %", 10, cell_gain_per},
                                           {"on the path", 12, cell_path},
                                           {"% of step", 10, cell_share},
                                           {"all of it", 10, cell_work}};

static void percent(struct page *p, const char *text, const struct an_value *v)
{
    char b[32];
    if (v->valid)
        page_item(p, "%s %s %%", text, page_digits(b, v->value, 2));
}

static void cores(struct page *p, const struct an_core_use *x)
{
    char b[32];
    if (!x->cores.valid || !x->wanted.valid)
        return;
    page_item(p, "its threads want %s of %.0f cores", page_digits(b, x->wanted.value, 2),
              x->cores.value);
    if (x->others.valid && x->others.value >= 0.05)
        page_item(p, "other programs %s", page_digits(b, x->others.value, 2));
    if (x->slowdown_pct.valid && x->slowdown_pct.value >= 0.5)
        percent(p, "sharing them made its work longer by", &x->slowdown_pct);
}

void rep_text_advice(struct page *p, const struct an_result *r)
{
    const struct an_advice *a = &r->advice;
    char b[32];
    if (a->reason || !a->steps)
        return;
    page_blank(p);
    page_label(p, "Replay");
    page_item(p, "of %" PRId64 " step%s, %" PRId64 " nodes", a->steps, a->steps == 1 ? "" : "s",
              a->nodes);
    if (r->trust.replay_error_pct.valid)
        page_item(p, "odd steps predict the even ones' median within %s %%",
                  page_digits(b, fmax(r->trust.replay_error_pct.value, 0.01), 2));
    else
        page_item(p, "not checked: %.200s", r->trust.replay_error_pct.reason);
    if (r->trust.replay_error_pct.valid && r->trust.replay_error_pct.value > 2 &&
        r->trust.replay_error_because)
        page_item(p, "%.300s", r->trust.replay_error_because);
    if (a->base_error_pct.valid)
        page_item(p, "as recorded it comes out %+.2g %%", a->base_error_pct.value);
    percent(p, "host think time", &a->think_pct);
    percent(p, "waits that nothing recorded ends", &a->held_pct);
    cores(p, &a->cores);
    if (a->stretch_low_pct.valid)
        page_item(p,
                  "%" PRId64 " steps in a row differ from all of them by %+.1f to %+.1f %%, "
                             "another run by at least as much",
                  a->stretch_steps, a->stretch_low_pct.value, a->stretch_high_pct.value);
    page_end(p);
    edits(p, a);
    struct rep_table t = {.title = "Gain of the step per 1 % less of",
                          .name = name_row,
                          .column = of_row,
                          .columns = sizeof of_row / sizeof *of_row,
                          .rows = a->rows,
                          .size = sizeof *a->rows,
                          .count = a->row_count};
    rep_table_write(p, &t);
}
