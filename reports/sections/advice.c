/* SPDX-License-Identifier: Apache-2.0
 *
 * What the replay of the dependency graph predicts: what edits would do, what the step is sensitive
 * to, and how far the replay misses the run.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/phrase.h"

/* ---- edits ----------------------------------------------------------------------------------- */

REP_NAME_OF(name_edit, an_what_if, edit)
static void cell_gain(char cell[REP_CELL], const void *row)
{
    const struct an_gain *gain = &((const struct an_what_if *)row)->gain;
    if (gain->ceiling && gain->high.valid)
        snprintf(cell, REP_CELL, "ceiling: %+.1f", gain->high.value);
    else if (gain->expected.valid)
        snprintf(cell, REP_CELL, "%+.1f", gain->expected.value);
}
static void cell_between(char cell[REP_CELL], const void *row)
{
    const struct an_gain *gain = &((const struct an_what_if *)row)->gain;
    if (gain->low.valid && gain->high.valid)
        snprintf(cell, REP_CELL, "[%+.1f, %+.1f]", gain->low.value, gain->high.value);
}
/* The predicted step; only its lower end is known of some edits. */
static void cell_step(char cell[REP_CELL], const void *row)
{
    const struct an_what_if *what_if = row;
    char low[REP_CELL];
    if (what_if->step_ms.valid) {
        page_time(cell, what_if->step_ms.value * 1e6);
    } else if (what_if->step_low_ms.valid) {
        page_time(low, what_if->step_low_ms.value * 1e6);
        snprintf(cell, REP_CELL, ">= %.24s", low);
    }
}
static void cell_steps(char cell[REP_CELL], const void *row)
{
    const struct an_what_if *what_if = row;
    if (what_if->step_ms.valid && what_if->step_low_ms.valid && what_if->step_high_ms.valid)
        snprintf(cell, REP_CELL, "[%.13s, %.13s]", NUMBER_TEXT(what_if->step_low_ms.value),
                 NUMBER_TEXT(what_if->step_high_ms.value));
}
static void cell_of(char cell[REP_CELL], const void *row)
{
    const struct an_what_if *what_if = row;
    snprintf(cell, REP_CELL, "%.30s", rep_or(what_if->of, ""));
}
static const struct rep_column of_edit[] = {{"gain %", 16, cell_gain},
                                            {"interval", 18, cell_between},
                                            {"step", 11, cell_step},
                                            {"another run, ms", 17, cell_steps},
                                            {"finding", 16, cell_of}};

static void note(struct page *page, const struct an_what_if *what_if, const char *word,
                 const char *text)
{
    char line[900];
    snprintf(line, sizeof line, "%.200s: %s: %.600s", what_if->edit, word, text);
    page_text(page, 2, line);
}

/* Says under the table why an edit has no prediction, or what its prediction depends on. */
static void notes(struct page *page, const struct an_what_if *what_if)
{
    if (what_if->reason) {
        note(page, what_if, "no prediction", what_if->reason);
        return;
    }
    if (what_if->ceiling)
        note(page, what_if, "a ceiling", what_if->ceiling);
    if (what_if->conflicts)
        note(page, what_if, "lowers the joint gain, so it is not among all changes; conflicts with",
             what_if->conflicts);
    if (what_if->condition)
        note(page, what_if, "assumes", what_if->condition);
}

/* The table of edits, one row for all of them together, and the notes to each. */
static void edits(struct page *page, const struct an_advice *advice)
{
    struct rep_table table = {.title = "What if",
                              .name = name_edit,
                              REP_COLUMNS(of_edit),
                              REP_ROWS_OF(advice->edits, advice->edit_count),
                              .most = advice->edit_count,
                              .name_least = 26};
    rep_table_write(page, &table);
    if (advice->together.edit) {
        table.title = "All changes together";
        table.rows = &advice->together;
        table.count = table.most = 1;
        rep_table_write(page, &table);
    }
    for (size_t i = 0; i < advice->edit_count; i++)
        notes(page, &advice->edits[i]);
    if (advice->together.edit && advice->together.reason)
        notes(page, &advice->together);
}

/* ---- sensitivity ----------------------------------------------------------------------------- */

/* The edit as `tacho advise --what-if` takes it, with what it is where its name does not say so. */
static void name_row(char name[REP_NAME], const void *row)
{
    const char *key = ((const struct an_sensitivity_row *)row)->key, *cause = rep_cause_name(key);
    snprintf(name, REP_NAME, "%s", key);
    if (cause != key)
        snprintf(name, REP_NAME, "%s (%s)", key, cause);
}
static void cell_gain_per(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.3f", ((const struct an_sensitivity_row *)row)->gain_pct);
}
REP_CELL_OF(cell_path, an_sensitivity_row, rep_cell_real_ms, path_ms)
REP_CELL_OF(cell_share, an_sensitivity_row, rep_cell_tenths, path_pct)
REP_CELL_OF(cell_work, an_sensitivity_row, rep_cell_ms, work_ms)
static const struct rep_column of_row[] = {{"step gain %", 12, cell_gain_per},
                                           {"on path", 10, cell_path},
                                           {"% of step", 10, cell_share},
                                           {"total", 10, cell_work}};

static void percent(struct page *page, const char *text, const struct an_value *pct)
{
    if (pct->valid)
        page_item(page, "%s %s %%", text, DIGITS_TEXT(pct->value, 2));
}

/* How the threads of the run share the cores: worth a line where other programs or the run
 * itself need more than there are. */
static void cores(struct page *page, const struct an_core_use *cores)
{
    if (!cores->cores.valid || !cores->wanted.valid)
        return;
    page_item(page, "its threads can use %s of %.0f cores", DIGITS_TEXT(cores->wanted.value, 2),
              cores->cores.value);
    if (cores->others.valid && cores->others.value >= 0.05)
        page_item(page, "other programs want %s", DIGITS_TEXT(cores->others.value, 2));
    if (cores->slowdown_pct.valid && cores->slowdown_pct.value >= 0.5)
        percent(page, "sharing cores slows its work down by", &cores->slowdown_pct);
}

/* How far a prediction from the odd steps misses the even ones, and why. */
static void replay_error(struct page *page, const struct an_trust *trust)
{
    if (trust->replay_error_pct.valid)
        page_item(page, "odd steps predict the median of the even ones within %s %%",
                  DIGITS_TEXT(fmax(trust->replay_error_pct.value, 0.01), 2));
    else
        page_item(page, "not validated: %.200s", trust->replay_error_pct.reason);
    if (trust->replay_error_pct.valid && trust->replay_error_pct.value > 2 &&
        trust->replay_error_because)
        page_item(page, "%.300s", trust->replay_error_because);
}

/* How far the replay can be trusted. */
static void replay_line(struct page *page, const struct an_result *result)
{
    const struct an_advice *advice = &result->advice;
    page_label(page, "Replay");
    page_item(page, "%" PRId64 " step%s, %" PRId64 " nodes", advice->steps,
              REP_PLURAL(advice->steps, "", "s"), advice->nodes);
    replay_error(page, &result->trust);
    page_value(page, advice->base_error_pct, "replay without changes differs by %+.2g %%");
    percent(page, "untraced host time", &advice->think_pct);
    percent(page, "waits without a recorded dependency", &advice->held_pct);
    cores(page, &advice->cores);
    if (advice->stretch_low_pct.valid)
        page_item(page,
                  "%" PRId64 " consecutive steps differ from all steps by %+.1f to %+.1f %%; "
                  "another run differs by at least as much",
                  advice->stretch_steps, advice->stretch_low_pct.value,
                  advice->stretch_high_pct.value);
    page_end(page);
}

/* First what the replay predicts, then how far it can be trusted. */
void rep_section_advice(struct page *page, const struct an_result *result)
{
    const struct an_advice *advice = &result->advice;
    if (advice->reason || !advice->steps)
        return;
    struct rep_table table = {.title = "Sensitivity: gain per 1 % reduction",
                              .name = name_row,
                              REP_COLUMNS(of_row),
                              REP_ROWS_OF(advice->rows, advice->row_count)};
    edits(page, advice);
    rep_table_write(page, &table);
    page_blank(page);
    if (advice->no_rows) {
        page_label(page, "Sensitivity");
        page_item(page, "not known: %.300s", advice->no_rows);
        page_end(page);
    }
    replay_line(page, result);
}
