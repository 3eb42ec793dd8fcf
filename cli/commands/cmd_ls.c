/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho ls: the runs that are being recorded on this machine, and those in a folder. What is saved
 * in each file is shown; nothing is analyzed, finished or written.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/base/sql_format.h"
#include "cli/commands/commands.h"
#include "profiler/collector/job/live.h"
#include "store/store.h"

#define LAST_STEPS 100 /* of a run without saved metrics: the median is of these */

struct values {
    bool json, csv;
    int64_t limit;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("json", 'j', json, "print an array of objects"),
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

enum state { STATE_RECORDING, STATE_UNFINISHED, STATE_FINISHED, STATE_DAMAGED };
static const char *const state_name[] = {"recording", "unfinished", "finished", "damaged"};

struct row {
    char *run, *verdict; /* verdict: NULL: none is saved; of a damaged file what is wrong */
    dev_t device;        /* with the inode, of the file with the rows: */
    ino_t inode;         /* a run can be found twice */
    enum state state;
    int64_t begun_ns; /* real time */
    int64_t steps;
    double step_ms; /* NAN: no step has ended */
};

struct list {
    struct row *row;
    size_t count, room;
};

struct reading {
    struct row *row;
    bool analyzed;
    double last_ms[LAST_STEPS]; /* the newest steps, in a ring */
    size_t ended;
};

static int read_run_key(void *ctx, const char *key, const char *value)
{
    struct reading *reading = ctx;
    if (!strcmp(key, "start.realtime_ns"))
        reading->row->begun_ns = strtoll(value, NULL, 10);
    if (!strcmp(key, "verdict") && !reading->row->verdict)
        reading->row->verdict = strdup(value);
    return 0;
}

static int read_metric(void *ctx, const struct store_metric *metric)
{
    struct reading *reading = ctx;
    if (!strcmp(metric->name, "steps.count") && !isnan(metric->value)) {
        reading->analyzed = true;
        reading->row->steps = (int64_t)metric->value;
    }
    if (!strcmp(metric->name, "steps.median_ms"))
        reading->row->step_ms = metric->value;
    return 0;
}

static int read_step(void *ctx, const struct store_step *step)
{
    struct reading *reading = ctx;
    reading->row->steps++;
    if (step->end != STORE_ABSENT && step->end >= step->start)
        reading->last_ms[reading->ended++ % LAST_STEPS] =
            ((double)step->end - (double)step->start) / 1e6;
    return 0;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Steps and their median from the rows: the run has no saved analysis. */
static int read_steps(store_reader *reader, struct reading *reading)
{
    int rc = store_step_each(reader, read_step, reading);
    size_t count = reading->ended < LAST_STEPS ? reading->ended : LAST_STEPS;
    qsort(reading->last_ms, count, sizeof *reading->last_ms, by_value);
    if (count)
        reading->row->step_ms =
            (reading->last_ms[(count - 1) / 2] + reading->last_ms[count / 2]) / 2;
    return rc;
}

/* A file that cannot be read is listed, with what is wrong. */
static void read_row(const struct col_found *found, struct row *row)
{
    struct reading reading = {.row = row};
    struct tacho_error err = {0};
    store_reader *reader = NULL;
    int rc = store_open(found->path, &reader, &err);
    if (!rc) {
        rc = store_run_each(reader, read_run_key, &reading);
        if (!rc)
            rc = store_metric_each(reader, read_metric, &reading);
        if (!rc && !reading.analyzed)
            rc = read_steps(reader, &reading);
        if (rc)
            err = *store_reader_error(reader);
    }
    store_reader_close(reader);
    if (rc) {
        const char *what = err.what;
        size_t length = strlen(found->path);
        if (!strncmp(what, found->path, length) && !strncmp(what + length, ": ", 2))
            what += length + 2;
        free(row->verdict);
        row->verdict = strdup(what);
        row->state = STATE_DAMAGED;
    }
}

/* Appends a run that is not in the list. */
static int add(void *ctx, const struct col_found *found, int64_t time_ns)
{
    struct list *list = ctx;
    struct stat file;
    if (stat(found->path, &file))
        return 0; /* it has just ended, or been removed */
    for (size_t i = 0; i < list->count; i++)
        if (list->row[i].device == file.st_dev && list->row[i].inode == file.st_ino)
            return 0;
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        struct row *rows = realloc(list->row, room * sizeof *rows);
        if (!rows)
            return TACHO_ENOMEM;
        list->row = rows;
        list->room = room;
    }
    struct row *row = &list->row[list->count];
    *row = (struct row){.run = strdup(found->run),
                        .device = file.st_dev,
                        .inode = file.st_ino,
                        .begun_ns = time_ns,
                        .step_ms = NAN};
    if (!row->run)
        return TACHO_ENOMEM;
    list->count++;
    row->state = !found->live                  ? STATE_FINISHED
                 : col_live_locked(found->run) ? STATE_RECORDING
                                               : STATE_UNFINISHED;
    read_row(found, row);
    return 0;
}

/* Runs that are being recorded come first, then the newest. */
static int order(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    if ((a->state == STATE_RECORDING) != (b->state == STATE_RECORDING))
        return a->state == STATE_RECORDING ? -1 : 1;
    if (a->begun_ns != b->begun_ns)
        return a->begun_ns > b->begun_ns ? -1 : 1;
    return strcmp(a->run, b->run);
}

/* The verdict's first words, or what there is instead of one. */
static const char *verdict_words(const struct row *row, bool whole, char words[64])
{
    if (!row->verdict && row->state == STATE_UNFINISHED)
        return "'tacho recover' finishes it";
    if (!row->verdict)
        return whole || row->state != STATE_FINISHED ? NULL : "(not analyzed: tacho report --save)";
    if (whole || row->state == STATE_DAMAGED)
        return row->verdict;
    size_t length = strcspn(row->verdict, ":.(;");
    while (length && row->verdict[length - 1] == ' ')
        length--;
    snprintf(words, 64, "%.*s", (int)length, row->verdict);
    return words;
}

static struct store_cell text_cell(const char *text)
{
    return (struct store_cell){.type = text ? STORE_CELL_TEXT : STORE_CELL_NULL,
                               .text = text,
                               .bytes = text ? strlen(text) : 0};
}

static int print_row(struct cli_sql_writer *writer, const struct row *row, bool whole)
{
    char begun[32], steps[24], step_ms[32], words[64];
    time_t seconds = (time_t)(row->begun_ns / 1000000000);
    struct tm tm;
    strftime(begun, sizeof begun, whole ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M",
             whole ? gmtime_r(&seconds, &tm) : localtime_r(&seconds, &tm));
    snprintf(steps, sizeof steps, "%" PRId64, row->steps);
    snprintf(step_ms, sizeof step_ms, "%.4g", row->step_ms);
    bool has_steps = row->state != STATE_DAMAGED, has_median = has_steps && !isnan(row->step_ms);
    struct store_cell cells[] = {
        text_cell(row->run),
        text_cell(state_name[row->state]),
        text_cell(begun),
        {.type = has_steps ? STORE_CELL_INTEGER : STORE_CELL_NULL,
         .integer = row->steps,
         .text = has_steps ? steps : NULL,
         .bytes = has_steps ? strlen(steps) : 0},
        {.type = has_median ? STORE_CELL_REAL : STORE_CELL_NULL,
         .real = row->step_ms,
         .text = has_median ? step_ms : NULL,
         .bytes = has_median ? strlen(step_ms) : 0},
        text_cell(verdict_words(row, whole, words)),
    };
    return cli_sql_row(writer, (int)(sizeof cells / sizeof *cells), cells);
}

static int print(const struct list *list, const struct values *values)
{
    static const char *const names[] = {"run", "state", "begun", "steps", "step_ms", "verdict"};
    struct cli_sql_writer writer = {.format = &cli_sql_formats[values->json ? 2 : values->csv],
                                    .utf8 = cli_utf8(),
                                    .visible = isatty(STDOUT_FILENO),
                                    .out = stdout};
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
    struct list list = {0};
    int first, code = cli_parse(&cli_ls_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = 0;
    int rc = col_each_live(add, &list);
    if (rc == TACHO_ENOTFOUND) /* a machine that does not say what is recorded */
        rc = 0;
    for (char **folder = first < argc ? argv + first : only_here; !rc && *folder; folder++) {
        rc = col_each_run(*folder, add, &list);
        if (rc && rc != TACHO_ENOMEM) {
            code = cli_error(rc, "name a folder that holds runs", "%s: %s", *folder,
                             tacho_error_text(rc));
            rc = 0;
        }
    }
    qsort(list.row, list.count, sizeof *list.row, order);
    if (!rc && !code && !list.count && !values.json && !values.csv)
        cli_say("no runs: 'tacho run -- COMMAND' records one");
    else if (!rc && (list.count || !code))
        rc = print(&list, &values);
    if (rc && rc != TACHO_EIO) /* main says that stdout failed */
        code = cli_error(rc, NULL, "ls: %s", tacho_error_text(rc));
    for (size_t i = 0; i < list.count; i++) {
        free(list.row[i].run);
        free(list.row[i].verdict);
    }
    free(list.row);
    return code;
}
