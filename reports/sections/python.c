/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python was doing in the steps, by line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"

#define ROWS_MOST 30

/* The end of a path that tells files apart: below the folder of installed packages, else file and
 * folder. */
static const char *short_file(const char *file)
{
    static const char *const folder[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
        const char *found = strstr(file, folder[i]);
        if (found)
            return found + strlen(folder[i]);
    }
    const char *end = strrchr(file, '/');
    while (end && end > file && *--end != '/')
        continue;
    return end && *end == '/' ? end + 1 : file;
}

static void name(char text[REP_NAME], const void *row)
{
    const struct an_python_line *line = row;
    snprintf(text, REP_NAME, "%.120s:%" PRId64 " %.120s", short_file(line->file), line->line,
             line->function);
}

REP_CELL_OF(own_share, an_python_line, rep_cell_tenths, own_pct.value)
REP_CELL_OF(host_share, an_python_line, rep_cell_tenths, host_pct.value)
REP_CELL_OF(total_share, an_python_line, rep_cell_tenths, total_pct.value)
REP_CELL_OF(self_share, an_python_line, rep_cell_tenths, self_pct.value)

/* "running 71.0 %, waiting for a core 3.0 %, asleep 26.0 %" */
static void states_text(char *text, size_t size, const struct an_python_states *states)
{
    snprintf(text, size, "running %.1f %%, waiting for a core %.1f %%, asleep %.1f %%",
             states->running_pct.value, states->runnable_pct.value, states->asleep_pct.value);
}

static void write_states(struct page *page, const struct an_python *python)
{
    char states[160], text[400];
    states_text(states, sizeof states, &python->all);
    snprintf(text, sizeof text, "%s, %" PRId64 " samples: the thread of the steps was %s.",
             python->window, python->looks.value, states);
    page_text(page, 0, text);
    if (!python->unattributed.looks)
        return;
    states_text(states, sizeof states, &python->unattributed);
    snprintf(text, sizeof text, "In unattributed time (%.1f %% of the samples) it was %s.",
             python->unattributed.share_pct.value, states);
    page_text(page, 0, text);
}

void rep_section_python(struct page *page, const struct an_result *result)
{
    static const struct rep_column columns[] = {{"line %", 8, own_share},
                                                {"of it host %", 13, host_share},
                                                {"with callees %", 15, total_share},
                                                {"itself %", 9, self_share}};
    static const struct rep_column worker_columns[] = {
        {"line %", 8, own_share}, {"with callees %", 15, total_share}, {"itself %", 9, self_share}};
    const struct an_python *python = &result->python;
    if (python->reason || !python->looks.valid)
        return;
    size_t rows = python->line_count < ROWS_MOST ? python->line_count : ROWS_MOST;
    struct rep_table table = {.title = "Lines of Python, by time in the innermost line of the "
                                       "program",
                              .name = name,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(python->line, rows)};
    size_t worker_rows = python->worker_count < ROWS_MOST ? python->worker_count : ROWS_MOST;
    struct rep_table workers = {.title = "Lines of Python in other processes (loader workers), "
                                         "while they do not sleep",
                                .name = name,
                                REP_COLUMNS(worker_columns),
                                REP_ROWS_OF(python->worker, worker_rows)};
    if (python->looks.value) {
        write_states(page, python);
        rep_table_write(page, &table);
    }
    if (worker_rows)
        rep_table_write(page, &workers);
}
