/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists runs by what is saved in their files.
 */
#include "cli/base/run_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/message.h"
#include "profiler/collector/collector.h"
#include "profiler/collector/job/live.h"
#include "store/store.h"

#define LAST_STEPS 100 /* of a run without saved metrics: the median is of these */

const char *cli_run_state_name(enum cli_run_state state)
{
    static const char *const names[] = {"recording", "unfinished", "finished", "damaged"};
    return names[state];
}

struct reading {
    struct cli_run_row *row;
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
static void read_row(const struct col_found *found, struct cli_run_row *row)
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
        row->state = CLI_RUN_DAMAGED;
    }
}

/* Appends a run that is not in the list. */
static int add_run(void *ctx, const struct col_found *found, int64_t time_ns)
{
    struct cli_run_list *list = ctx;
    struct stat file;
    if (stat(found->path, &file))
        return 0; /* it has just ended, or been removed */
    for (size_t i = 0; i < list->count; i++)
        if (list->row[i].device == file.st_dev && list->row[i].inode == file.st_ino)
            return 0;
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        struct cli_run_row *rows = realloc(list->row, room * sizeof *rows);
        if (!rows)
            return TACHO_ENOMEM;
        list->row = rows;
        list->room = room;
    }
    struct cli_run_row *row = &list->row[list->count];
    *row = (struct cli_run_row){.run = strdup(found->run),
                                .device = file.st_dev,
                                .inode = file.st_ino,
                                .begun_ns = time_ns,
                                .step_ms = NAN};
    if (!row->run)
        return TACHO_ENOMEM;
    list->count++;
    row->state = !found->live                  ? CLI_RUN_FINISHED
                 : col_live_locked(found->run) ? CLI_RUN_RECORDING
                                               : CLI_RUN_UNFINISHED;
    read_row(found, row);
    return 0;
}

/* Runs that are being recorded come first, then the newest. */
static int order(const void *left, const void *right)
{
    const struct cli_run_row *a = left, *b = right;
    if ((a->state == CLI_RUN_RECORDING) != (b->state == CLI_RUN_RECORDING))
        return a->state == CLI_RUN_RECORDING ? -1 : 1;
    if (a->begun_ns != b->begun_ns)
        return a->begun_ns > b->begun_ns ? -1 : 1;
    return strcmp(a->run, b->run);
}

int cli_run_list_read(char *const *folders, struct cli_run_list *list)
{
    int code = 0, rc = col_each_live(add_run, list);
    if (rc == TACHO_ENOTFOUND) /* a machine that does not say what is recorded */
        rc = 0;
    for (; !rc && *folders; folders++) {
        rc = col_each_run(*folders, add_run, list);
        if (rc && rc != TACHO_ENOMEM) {
            code = cli_error(rc, "name a folder that holds runs", "%s: %s", *folders,
                             tacho_error_text(rc));
            rc = 0;
        }
    }
    if (list->count) /* an empty list has no memory */
        qsort(list->row, list->count, sizeof *list->row, order);
    return rc ? cli_error(rc, NULL, "%s", tacho_error_text(rc)) : code;
}

void cli_run_list_clear(struct cli_run_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->row[i].run);
        free(list->row[i].verdict);
    }
    free(list->row);
    *list = (struct cli_run_list){0};
}
