/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of logs in text: what Megatron-LM, NeMo, DeepSpeed, Lightning, torchtitan, nanotron
 * and programs of the user print for each step, also as JSON lines or as a table with commas. Only
 * steps, their times and their series are in it: nothing says what a step was spent on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/input.h"
#include "store/import/logs/logs.h"
#include "store/import/logs/logs_import.h"

#define CHUNK       (1u << 20)
#define TOOL_LINES  2000 /* that may name the program: libraries that it uses write lines, too */
#define LINES_KNOWN 2    /* lines of steps that make a text a log */
#define DRAWN_KNOWN 3    /* times that a bar without a loss is drawn again in a log */
#define DATED_KNOWN 10   /* lines with a date and a loss, in a log without the number of a step */
#define UNNUMBERED  "{'loss': "

struct reading {
    struct imp_rows rows;
    struct log_series series;
    const char *tool;
    uint64_t tools; /* all of the first lines */
    int64_t lines;
    struct log_table table;
    struct log_bars bars;
    struct log_times times;
    struct log_places places;
    bool unnumbered; /* a line is one of HF Trainer, which has no number of the step */
    bool dated;      /* a line has a date and a loss */
    bool begun;      /* the first line was read */
    bool counts;     /* the second time: the lines become steps */
    char line[LOG_LINE_MOST + 1];
    size_t bytes;
};

/* ---- is it a log --------------------------------------------------------------------------------- */

/* The number of bytes up to the end of the line. */
static size_t line_length(const unsigned char *text, size_t bytes)
{
    size_t length = 0;
    while (length < bytes && text[length] != '\n' && text[length] != '\r')
        length++;
    return length;
}

/* Does the object that a text begins with end, with more text behind it? Programs print their
 * settings first. */
static bool goes_on(const unsigned char *text, size_t bytes)
{
    const unsigned char *end = memmem(text, bytes, "\n}", 2);
    for (size_t at = end ? (size_t)(end - text) + 2 : bytes; at < bytes; at++)
        if (!strchr(" \t\r\n", text[at]))
            return text[at - 1] == '\n' || text[at - 1] == '\r';
    return false;
}

/* Is it text that does not begin as a trace in JSON does, nor as a page? A log may consist of one
 * object a line, or begin with a time in brackets, an empty line or the return of a progress bar.
 */
static bool is_text(const unsigned char *head, size_t bytes)
{
    static const char *const pages[] = {"<?xml", "<!", "<html"};
    size_t start = 0;
    while (start < bytes && strchr(" \t\r\n", head[start])) /* and zeros of a file that was cut */
        start++;
    if (memchr(head + start, '\0', bytes - start < 4096 ? bytes - start : 4096))
        return false;
    const unsigned char *text = head + start;
    size_t first = line_length(text, bytes - start);
    if (!first || memmem(text, first, "\"ph\"", 4))
        return false;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (first >= strlen(pages[i]) &&
            !strncasecmp((const char *)text, pages[i], strlen(pages[i])))
            return false;
    if (text[0] == '{')
        return text[first - 1] == '}' ? first < bytes - start
                                      : first == 1 && goes_on(text, bytes - start);
    return text[0] != '[' || (first > 1 && memchr(text, ']', first) && text[1] != '{');
}

static void read_values(const struct log_table *table, char *line, size_t bytes,
                        struct log_values *values)
{
    if (!log_table_read(table, line, bytes, values))
        log_line_read(line, bytes, values);
}

/* Is the line a drawing of a bar of tqdm that may be of training, with a speed, and the same bar as
 * the one before? */
static bool draws_again(const struct log_values *values, uint64_t *bar)
{
    if (!values->progress || !values->bar || values->other_bar || !values->has[LOG_STEP_TIME])
        return false;
    bool again = values->bar == *bar;
    *bar = values->bar;
    return again;
}

/* Does a line begin as those of HF Trainer do, which has no number of the step without its bar? */
static bool is_unnumbered(const char *line)
{
    return !strncmp(line, UNNUMBERED, strlen(UNNUMBERED));
}

/* Is it a row of a table with a step and a time, whatever the other columns are? TensorBoard
 * exports "Wall time,Step,Value". */
static bool is_dated_row(const struct log_table *table, const struct log_values *values)
{
    return table->count && values->has[LOG_STEP] && values->time != STORE_ABSENT;
}

/* Does the line have a date and a loss of training? */
static bool is_dated_loss(const struct log_values *values)
{
    return values->time != STORE_ABSENT && values->clock == LOG_DATED && values->has[LOG_LOSS];
}

/* Is it a log: have two lines the number of a step, and does one tell more of it, or is one bar
 * drawn again and again? */
static bool recognises(const unsigned char *head, size_t bytes)
{
    int steps = 0, drawn = 0, unnumbered = 0, dated = 0;
    uint64_t bar = 0;
    bool told = false, epochs = false;
    struct log_table table;
    if (!is_text(head, bytes))
        return false;
    log_table_begin(&table, (const char *)head, line_length(head, bytes));
    for (size_t at = 0; at < bytes && (steps < LINES_KNOWN || !told);) {
        size_t length = line_length(head + at, bytes - at);
        char line[LOG_LINE_MOST + 1];
        struct log_values values;
        size_t used = length < LOG_LINE_MOST ? length : LOG_LINE_MOST;
        memcpy(line, head + at, used);
        line[used] = '\0';
        read_values(&table, line, used, &values);
        epochs |= values.epoch > 0;
        steps += (values.has[LOG_STEP] || values.has[LOG_GLOBAL_STEP]) && (epochs || !values.keras);
        drawn += draws_again(&values, &bar);
        unnumbered += is_unnumbered(line);
        dated += is_dated_loss(&values);
        told |= log_values_tell(&values) || drawn >= DRAWN_KNOWN || is_dated_row(&table, &values);
        at += length + 1;
    }
    return (steps >= LINES_KNOWN && told) || unnumbered >= LINES_KNOWN ||
           (!steps && dated >= DATED_KNOWN);
}

/* ---- reading ------------------------------------------------------------------------------------- */

static int end_line(struct reading *reading)
{
    struct log_values values;
    reading->line[reading->bytes] = '\0';
    reading->unnumbered |= is_unnumbered(reading->line);
    if (!reading->tool)
        reading->tool = log_tool_of(reading->line);
    if (!reading->counts && reading->lines++ < TOOL_LINES)
        reading->tools |= log_tools_of(reading->line);
    if (!reading->begun)
        log_table_begin(&reading->table, reading->line, reading->bytes);
    reading->begun = true;
    read_values(&reading->table, reading->line, reading->bytes, &values);
    reading->bytes = 0;
    reading->dated |= is_dated_loss(&values);
    if (!reading->tool && values.keras)
        reading->tool = "Keras";
    if (!reading->counts) {
        log_times_add(&reading->times, &values);
        log_places_add(&reading->places, &values);
    } else {
        log_times_follow(&reading->times, &values);
        log_places_apply(&reading->places, &values);
    }
    if (!reading->counts)
        log_bars_add(&reading->bars, &values);
    else if (log_bars_train(&reading->bars, &values))
        return log_series_add(&reading->series, &values);
    return 0;
}

/* Lines end at a line feed, or at the return with which a progress bar writes over itself. */
static int read_bytes(struct reading *reading, const char *text, size_t bytes)
{
    int rc = 0;
    for (size_t i = 0; i < bytes && !rc; i++) {
        if (text[i] == '\n' || text[i] == '\r')
            rc = reading->bytes ? end_line(reading) : 0;
        else if (reading->bytes < LOG_LINE_MOST)
            reading->line[reading->bytes++] = text[i];
    }
    return rc;
}

/* Reads all lines: first for the progress bars, then (`counts`) for the steps. */
static int read_lines(struct reading *reading, const char *path, bool counts,
                      struct tacho_error *err)
{
    struct imp_input *in = NULL;
    size_t got = 1;
    int64_t reported = 0;
    char *chunk = malloc(CHUNK);
    reading->counts = counts;
    reading->begun = false;
    int rc = chunk ? imp_input_open(path, &in, err) : TACHO_ENOMEM;
    while (!rc && got) {
        rc = imp_input_read(in, chunk, CHUNK, &got, err);
        if (!rc)
            rc = read_bytes(reading, chunk, got);
        int64_t now = imp_input_position(in);
        if (!rc) /* half of the file is read each time */
            rc = imp_progress(reading->rows.run, now / 2 - reported / 2);
        reported = now;
    }
    if (!rc && reading->bytes)
        rc = end_line(reading);
    if (!rc)
        reading->rows.run->truncated |= imp_input_truncated(in);
    imp_input_close(in);
    free(chunk);
    return rc;
}

/* Logs of a folder are ranks of one program: two programs are two runs. */
static int check_tool(struct imp_run *run, const struct reading *reading, const char *path,
                      struct tacho_error *err)
{
    if (reading->tools && run->log_tools && !(reading->tools & run->log_tools) &&
        imp_rank_in_name(path) == STORE_ABSENT)
        return tacho_fail(
            err, TACHO_EUSAGE,
            "give one of them alone; for ranks of one run put the rank into the names: "
            "rank0.log, rank1.log",
            "%s: a log of %s beside one of %s", path, reading->tool, run->log_tool);
    if (!run->log_tools) {
        run->log_tools = reading->tools;
        run->log_tool = reading->tool;
    }
    return 0;
}

/* Reads one log; this is the `read` of the importer. */
static int read_log(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading *reading = calloc(1, sizeof *reading);
    int rc = reading ? store_begin(run->db) : TACHO_ENOMEM;
    if (!rc) {
        rc = imp_rows_begin(&reading->rows, run, STORE_ABSENT, STORE_ABSENT, NULL, "training log");
        log_series_begin(&reading->series, &reading->rows);
        reading->places.epoch = reading->places.last_date = STORE_ABSENT;
        if (!rc)
            rc = read_lines(reading, path, false, err);
        log_bars_end(&reading->bars);
        log_times_end(&reading->times);
        log_places_end(&reading->places, &reading->times);
        if (!rc)
            rc = check_tool(run, reading, path, err);
        if (!rc)
            rc = read_lines(reading, path, true, err);
        if (!rc)
            rc = log_series_end(&reading->series, reading->tool);
        rc = imp_rows_end(&reading->rows, rc);
    }
    if (!rc)
        rc = store_commit(run->db);
    bool numbered = reading && (reading->bars.count || reading->series.index != STORE_ABSENT);
    bool losses = reading && reading->dated && !reading->bars.own && !reading->bars.bare;
    if (!rc && !reading->series.steps && reading->unnumbered && !numbered)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "keep the progress bar (disable_tqdm=False), or give the event file that "
                        "report_to=\"tensorboard\" writes",
                        "%s: a log of Hugging Face Trainer without the numbers of its steps", path);
    else if (!rc && !reading->series.steps && losses && !numbered)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "print the number of the step beside its loss: step 100 loss 2.31",
                        "%s: a log in which no line has the number of a step", path);
    else if (!rc && !reading->series.steps)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "print the time of a step, or the time of each line: "
                        "logging.basicConfig(format='%(asctime)s %(message)s')",
                        "%s: a log of steps that has no times", path);
    free(reading);
    return rc;
}

const struct importer imp_log = {.source = "log", .recognises = recognises, .read = read_log};
