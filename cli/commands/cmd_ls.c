/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho ls: the runs that are being recorded on this machine, and those in a folder. What is saved
 * in each file is shown; nothing is analyzed, finished or written.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/run_list.h"
#include "cli/base/sql_format.h"
#include "cli/commands/commands.h"
#include "cli/view/view.h"
#include "store/store.h"

struct values {
    bool json, csv;
    int64_t limit;
    struct cli_view view;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("json", 'j', json, "print an array of objects"),
    CLI_FIELDS_ROW,
    CLI_FLAG_ROW("csv", 0, csv, "comma-separated (RFC 4180)"),
    CLI_NUMBER_ROW("limit", 'n', CLI_INT, limit, "N", "print the first N runs at most", 1, 1e9),
    {0},
};

const struct cli_spec cli_ls_spec = {
    .help = "list runs: those being recorded on this machine, and those in a folder",
    .usage = "[OPTION]... [FOLDER]...",
    .about =
        "Lists the runs that your programs record on this machine now, in any folder, then those "
        "in FOLDER (the current\n"
        "one), newest first: when each began, how many steps it has, the median step, and the "
        "verdict that is saved in it.\n"
        "Of a run without a saved analysis the median is that of the last 100 steps. Files are "
        "only read.",
    .options = options,
    .examples = "  tacho ls\n"
                "  tacho ls --json runs | jq '.[] | select(.state == \"recording\")'",
    .least = 0,
    .most = -1,
};

/* The verdict's first words, or what there is instead of one. */
static const char *verdict_words(const struct cli_run_row *row, bool whole, char words[64])
{
    if (!row->verdict && row->state == CLI_RUN_UNFINISHED)
        return "'tacho recover' finishes it";
    if (!row->verdict)
        return whole || row->state != CLI_RUN_FINISHED ? NULL
                                                       : "(not analyzed: tacho report --save)";
    if (whole || row->state == CLI_RUN_DAMAGED)
        return row->verdict;
    size_t length = strcspn(row->verdict, ":.(;");
    while (length && row->verdict[length - 1] == ' ')
        length--;
    snprintf(words, 64, "%.*s", (int)length, row->verdict);
    return words;
}

static int print_row(struct cli_sql_writer *writer, const struct cli_run_row *row, bool whole)
{
    char begun[32], steps[24], step_ms[32], words[64];
    time_t seconds = (time_t)(row->begun_ns / 1000000000);
    struct tm tm;
    strftime(begun, sizeof begun, whole ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M",
             whole ? gmtime_r(&seconds, &tm) : localtime_r(&seconds, &tm));
    struct store_cell cells[] = {
        cli_cell_text(row->run),
        cli_cell_text(cli_run_state_name(row->state)),
        cli_cell_text(begun),
        cli_cell_integer(row->steps, steps),
        cli_cell_real(row->step_ms, step_ms),
        cli_cell_text(verdict_words(row, whole, words)),
    };
    if (row->state == CLI_RUN_DAMAGED) /* what it has is not known */
        cells[3] = cells[4] = cli_cell_text(NULL);
    return cli_sql_row(writer, (int)(sizeof cells / sizeof *cells), cells);
}

struct document {
    const struct cli_run_list *list;
    const struct values *values;
};

static int write_document(const void *context, FILE *out)
{
    const struct document *document = context;
    const struct cli_run_list *list = document->list;
    const struct values *values = document->values;
    static const char *const names[] = {"run", "state", "begun", "steps", "step_ms", "verdict"};
    struct cli_sql_writer writer = {.format = &cli_sql_formats[values->json ? 2 : values->csv],
                                    .utf8 = cli_utf8(),
                                    .visible = isatty(fileno(out)),
                                    .out = out};
    int rc = cli_sql_head(&writer, (int)(sizeof names / sizeof *names), names);
    for (size_t i = 0; !rc && i < list->count && (int64_t)i < values->limit; i++)
        rc = print_row(&writer, &list->row[i], values->json || values->csv);
    int end = cli_sql_end(&writer);
    return rc ? rc : end;
}

int cli_ls(int argc, char **argv)
{
    struct values values = {.limit = INT64_MAX};
    static char here[] = ".", *only_here[] = {here, NULL};
    struct cli_run_list list = {0};
    int first, rc = 0, code = cli_parse(&cli_ls_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = cli_view_check("ls", &values.view, values.json);
    if (code)
        return code;
    code = cli_run_list_read(first < argc ? argv + first : only_here, &list);
    if (!code && !list.count && !values.json && !values.csv)
        cli_say("no runs: 'tacho run -- COMMAND' records one");
    else if (!code || (list.count && !values.json)) /* a program gets a whole list, or none */
        rc = cli_view_write("ls", &values.view, write_document, &(struct document){&list, &values},
                            stdout);
    if (rc == TACHO_EUSAGE)
        code = tacho_error_exit(rc);
    else if (rc && rc != TACHO_EIO) /* main says that stdout failed */
        code = cli_error(rc, NULL, "ls: %s", tacho_error_text(rc));
    cli_run_list_clear(&list);
    return code;
}
