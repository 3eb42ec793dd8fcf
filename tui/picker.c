/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of runs: those being recorded on this machine first, then those in this folder.
 */
#include "tui/picker.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reports/words/number.h"
#include "reports/words/phrase.h"
#include "tacho_hash.h"
#include "tui/screen/view.h"

/* Where the cursor is in the list as it is now: runs come and go between two pictures, and the
 * cursor stays with its run, or moves as far from it as the keys say. */
static int place_of(const struct tui_runs *runs, const struct tui_ui *ui)
{
    int cursor = ui->picked.cursor;
    for (size_t i = 0; cursor && i < runs->count; i++)
        if (tacho_hash_text(TACHO_HASH_BEGIN, runs->row[i].run) == ui->picked_run)
            return (int)i + cursor - ui->picked_at;
    return cursor;
}

const char *tui_picker_run(const struct tui_model *model, const struct tui_ui *ui)
{
    const struct tui_runs *runs = model ? model->runs : NULL;
    size_t at = runs ? (size_t)place_of(runs, ui) : 0; /* above the first: too large as well */
    return runs && at < runs->count ? runs->row[at].run : NULL;
}

/* Draws a run: its state, steps and pace, and the end of its name, which tells it from others. */
static void draw_run(struct tui_cells *cells, struct tui_rect area, int row,
                     const struct tui_run *run, bool here)
{
    char pace[32] = "";
    enum tui_style style = here ? TUI_SELECTED : TUI_NORMAL;
    if (here)
        tui_fill(cells, area, row, style);
    if (isfinite(run->step_ms))
        snprintf(pace, sizeof pace, "%s", TIME_TEXT(run->step_ms * 1e6));
    int column = 1 + tui_printf(cells, area, row, 1, here ? style : TUI_DIM, "%-10s", run->state);
    int verdict = area.columns >= 100 ? 40 : 0, name = area.columns - column - 22 - verdict;
    if (name < 10)
        name = area.columns - column - 1;
    int length = (int)strlen(run->run), cut = length > name ? length - name : 0;
    tui_text(cells, (struct tui_rect){area.row, area.column, area.rows, column + 1 + name}, row,
             column + 1, style, run->run + cut);
    column += name + 2;
    column +=
        tui_printf(cells, area, row, column, style, "%8" PRId64 " %-9s", run->steps, pace) + 1;
    if (verdict && run->verdict)
        tui_printf(cells, area, row, column, style, "%.*s", (int)strcspn(run->verdict, ":."),
                   run->verdict);
}

void tui_picker_draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                     struct tui_ui *ui)
{
    const struct tui_runs *runs = model->runs;
    struct tui_rect list = {area.row + 1, area.column, area.rows - 1, area.columns};
    tui_text(cells, area, 0, 1, TUI_TITLE,
             area.columns < 60 ? "runs"
                               : "runs: of this machine, of this folder     steps  a step");
    if (!runs || !runs->count) {
        tui_text(cells, list, 0, 1, TUI_DIM, runs ? "no runs here" : "reading the runs");
        return;
    }
    ui->picked.cursor = place_of(runs, ui);
    tui_state_clamp(&ui->picked, (int)runs->count, list.rows);
    ui->picked_at = ui->picked.cursor;
    ui->picked_run = tacho_hash_text(TACHO_HASH_BEGIN, runs->row[ui->picked_at].run);
    for (int i = 0; i < list.rows && ui->picked.top + i < (int)runs->count; i++)
        draw_run(cells, list, i, &runs->row[ui->picked.top + i],
                 ui->picked.top + i == ui->picked.cursor);
}
