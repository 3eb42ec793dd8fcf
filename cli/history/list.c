/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho history list, export and import.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/sql_format.h"
#include "cli/history/verbs.h"

/* ---- list ------------------------------------------------------------------------------------- */

struct listing {
    struct history *history;
    const struct cli_history_options *options;
    struct history_filter filter;
    struct cli_sql_writer writer;
    struct tacho_error err;
    int64_t rows;
};

static int print_row(void *ctx, const struct history_row *row)
{
    struct listing *listing = ctx;
    const struct history_entry *entry = &row->entry;
    bool whole = listing->options->json || listing->options->csv;
    char id[24], steps[24], value[32], begun[32], words[48];
    cli_history_time(entry->begun_ns, begun);
    const char *verdict = entry->verdict ? entry->verdict : ""; /* none: imported */
    snprintf(words, sizeof words, "%.*s", (int)strcspn(verdict, ":.(;"), verdict);
    if (!whole)
        verdict = words;
    char commit[65];
    const char *known = entry->commit ? entry->commit : "";
    snprintf(commit, sizeof commit, "%.*s", whole ? 64 : 10, known);
    struct store_cell cells[] = {
        cli_cell_integer(entry->id, id),        cli_cell_text(begun),
        cli_cell_text(*commit ? commit : NULL), cli_cell_integer(entry->steps, steps),
        cli_cell_real(row->value, value),       cli_cell_text(entry->recipe),
        cli_cell_text(entry->recipe_text),      cli_cell_text(verdict),
    };
    listing->rows++;
    return cli_sql_row(&listing->writer, (int)(sizeof cells / sizeof *cells), cells);
}

static int write_list(const void *context, FILE *out)
{
    struct listing *listing = (struct listing *)context;
    const struct cli_history_options *options = listing->options;
    const char *names[] = {"id",      "begun",  "commit",  "steps",
                           "step_ms", "recipe", "command", "verdict"};
    if (options->metric)
        names[4] = options->metric;
    listing->writer =
        (struct cli_sql_writer){.format = &cli_sql_formats[options->json ? 2 : options->csv],
                                .utf8 = cli_utf8(),
                                .visible = isatty(fileno(out)),
                                .out = out};
    int rc = cli_sql_head(&listing->writer, (int)(sizeof names / sizeof *names), names);
    if (!rc)
        rc = history_each(listing->history, &listing->filter, print_row, listing, &listing->err);
    int end = cli_sql_end(&listing->writer);
    return rc ? rc : end;
}

int cli_history_list(struct history *history, const struct cli_history_options *options, int count,
                     char **words)
{
    (void)count;
    (void)words;
    char kind[32];
    struct listing listing = {.history = history, .options = options};
    int code = cli_history_filter_of(options, kind, &listing.filter);
    if (code)
        return code;
    if (!listing.filter.limit && !options->json && !options->csv)
        listing.filter.limit = 40;
    int rc = cli_view_write("history", &options->view, write_list, &listing, stdout);
    if (rc == TACHO_EUSAGE)
        return tacho_error_exit(rc);
    if (listing.err.code)
        return cli_fail(&listing.err);
    return rc && rc != TACHO_EIO ? cli_error(rc, NULL, "history: %s", tacho_error_text(rc)) : 0;
}

/* ---- export and import ------------------------------------------------------------------------- */

int cli_history_write(struct history *history, const struct cli_history_options *options, int count,
                      char **words)
{
    (void)count;
    (void)words;
    char kind[32];
    struct history_filter filter;
    struct cli_output out;
    struct tacho_error err = {0};
    enum history_format format = HISTORY_CSV;
    if (options->json)
        format = HISTORY_JSON;
    if (options->mllog)
        format = HISTORY_MLLOG;
    int code = cli_history_filter_of(options, kind, &filter);
    if (!code)
        code = cli_output_open(&out, options->output, NULL);
    if (code)
        return code;
    int rc = history_export(history, &filter, format, out.file, &err);
    if (err.code)
        cli_fail(&err);
    return cli_output_end(&out, rc, "history", "history");
}

int cli_history_read(struct history *history, const struct cli_history_options *options, int count,
                     char **words)
{
    for (int i = 0; i < count; i++) {
        size_t entered;
        struct tacho_error err = {0};
        if (history_import(history, words[i], options->recipe, &entered, &err))
            return cli_fail(&err);
        cli_say("%s: %zu run%s entered", words[i], entered, tacho_plural((long long)entered));
    }
    return 0;
}
