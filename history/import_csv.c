/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of runs: `tacho history export --csv`, and what W&B, MLflow and Trackio write of their
 * lists of runs. Columns are known by their names; any other one that holds numbers becomes a value
 * of the kind "metric".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "history/import.h"

#define COLUMNS_MOST 4096
#define YEAR_2262    9223372036ll /* seconds: later times have no ns in 64 bits */

enum column {
    COLUMN_NUMBER,
    COLUMN_KEY,
    COLUMN_BEGUN,
    COLUMN_RECIPE,
    COLUMN_HOST,
    COLUMN_COMMIT,
    COLUMN_VERDICT,
    COLUMN_STEPS,
    COLUMN_STEP_OF_RUN, /* a row a step: not a table of runs */
    COLUMN_STEP_MS,
    COLUMN_STEP_S,
};

/* What columns of known names hold, in the first spelling that a file has. */
static const struct {
    const char *name;
    enum column column;
} names[] = {
    {"key", COLUMN_KEY},
    {"run id", COLUMN_KEY},
    {"run_id", COLUMN_KEY},
    {"id", COLUMN_KEY},
    {"begun", COLUMN_BEGUN},
    {"created", COLUMN_BEGUN},
    {"created_at", COLUMN_BEGUN},
    {"start time", COLUMN_BEGUN},
    {"start_time", COLUMN_BEGUN},
    {"timestamp", COLUMN_BEGUN},
    {"_timestamp", COLUMN_BEGUN},
    {"date", COLUMN_BEGUN},
    {"recipe", COLUMN_RECIPE},
    {"name", COLUMN_RECIPE},
    {"run_name", COLUMN_RECIPE},
    {"run name", COLUMN_RECIPE},
    {"experiment", COLUMN_RECIPE},
    {"host", COLUMN_HOST},
    {"hostname", COLUMN_HOST},
    {"gpu type", COLUMN_HOST},
    {"commit", COLUMN_COMMIT},
    {"git_commit", COLUMN_COMMIT},
    {"git commit", COLUMN_COMMIT},
    {"mlflow.source.git.commit", COLUMN_COMMIT},
    {"verdict", COLUMN_VERDICT},
    {"steps", COLUMN_STEPS},
    {"step", COLUMN_STEP_OF_RUN},
    {"_step", COLUMN_STEP_OF_RUN},
    {"step_time_ms", COLUMN_STEP_MS},
    {"step time (ms)", COLUMN_STEP_MS},
    {"step.mean (ms)", COLUMN_STEP_MS},
    {"step_time", COLUMN_STEP_S},
    {"step_time_s", COLUMN_STEP_S},
    {"train/step_time", COLUMN_STEP_S},
    {"perf/step_time", COLUMN_STEP_S},
};

/* ---- cells ------------------------------------------------------------------------------------ */

/* Splits the next row of RFC 4180 in place: its cells, how many; -1: more than fit, or a quote that
 * does not end. *text is NULL after the last row. */
static int next_row(char **text, char **cell, int most, size_t *lines)
{
    char *from = *text, *to = from;
    int count = 0;
    bool quoted = false;
    cell[count++] = to;
    for (; *from; from++) {
        if (*from == '\n')
            ++*lines;
        if (quoted && *from == '"' && from[1] == '"')
            *to++ = *from++;
        else if (*from == '"' && (quoted || to == cell[count - 1]))
            quoted = !quoted;
        else if (!quoted && *from == ',') {
            *to++ = 0;
            if (count == most)
                return -1;
            cell[count++] = to;
        } else if (!quoted && *from == '\n') {
            break;
        } else {
            *to++ = *from;
        }
    }
    *text = *from ? from + 1 : NULL;
    if (to > cell[count - 1] && to[-1] == '\r')
        to--;
    *to = 0;
    return quoted ? -1 : count;
}

/* A time as ns: seconds, ms, us or ns since 1970 by their size, or a date of ISO 8601 in UTC. 0:
 * none of them. */
static int64_t time_of(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    struct tm tm = {0};
    if (end != text && !*end && number > 1e8) {
        while (number < 1e17)
            number *= 1e3;
        return number < 9e18 ? (int64_t)number : 0;
    }
    end = strptime(text, "%Y-%m-%d", &tm);
    if (!end)
        return 0;
    if (*end == 'T' || *end == ' ')
        end = strptime(end + 1, "%H:%M:%S", &tm);
    double fraction = end && *end == '.' ? strtod(end, NULL) : 0;
    int64_t seconds = timegm(&tm);
    if (seconds < 0 || seconds >= YEAR_2262)
        return 0;
    return seconds * 1000000000 + (int64_t)llround(fraction * 1e9);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static enum column column_of(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(name, names[i].name))
            return names[i].column;
    return COLUMN_NUMBER;
}

/* "kind.name (unit)" of our own tables; other names are of the kind "metric" and have no unit. */
static void add_number(struct history_made *made, const char *title, double value)
{
    static const char *const kinds[] = {"step",        "rate",   "class", "work",
                                        "utilization", "memory", "phase", "metric"};
    char name[256], unit[16] = "";
    const char *dot = strchr(title, '.');
    for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i]);
        if ((size_t)(dot - title) != length || strncmp(title, kinds[i], length) != 0)
            continue;
        snprintf(name, sizeof name, "%s", dot + 1);
        char *open = strrchr(name, '('), *close = open ? strchr(open, ')') : NULL;
        bool apart = close && !close[1] && open > name + 1 && open[-1] == ' ';
        if (apart && close - open - 1 < (int)sizeof unit) {
            snprintf(unit, sizeof unit, "%.*s", (int)(close - open - 1), open + 1);
            open[-1] = 0;
        }
        history_made_add(made, kinds[i], name, unit, value);
        return;
    }
    history_made_add(made, "metric", title, "", value);
}

static void take_cell(struct history_made *made, enum column column, const char *title,
                      const char *cell)
{
    struct history_entry *entry = &made->entry;
    char *end;
    double number = strtod(cell, &end);
    bool is_number = end != cell && !*end && isfinite(number);
    if (!*cell)
        return;
    if (column == COLUMN_KEY)
        history_hash(cell, entry->key);
    if (column == COLUMN_BEGUN && !entry->begun_ns)
        entry->begun_ns = time_of(cell);
    if (column == COLUMN_RECIPE && !entry->recipe_text)
        entry->recipe_text = history_made_copy(made, cell);
    if (column == COLUMN_HOST && !entry->host_text)
        entry->host_text = history_made_copy(made, cell);
    if (column == COLUMN_COMMIT && !entry->commit)
        entry->commit = history_made_copy(made, cell);
    if (column == COLUMN_VERDICT && !entry->verdict)
        entry->verdict = history_made_copy(made, cell);
    if (!is_number)
        return;
    if (column == COLUMN_STEPS)
        entry->steps = (int64_t)fmin(fmax(number, 0), 9e18);
    if (column == COLUMN_STEP_MS || column == COLUMN_STEP_S)
        history_made_add(made, "step", "mean", "ms",
                         column == COLUMN_STEP_MS ? number : number * 1e3);
    if (column == COLUMN_NUMBER)
        add_number(made, title, number);
}

static int take_row(struct history_source *source, const enum column *column, char *const *title,
                    char *const *cell, int count)
{
    struct history_made *made = history_made_new();
    if (!made)
        return TACHO_ENOMEM;
    for (int i = 0; i < count; i++)
        take_cell(made, column[i], title[i], cell[i]);
    /* a key of our own is sixteen digits already */
    for (int i = 0; i < count; i++)
        if (column[i] == COLUMN_KEY && strlen(cell[i]) == HISTORY_HASH - 1 &&
            cell[i][strspn(cell[i], "0123456789abcdef")] == 0)
            snprintf(made->entry.key, sizeof made->entry.key, "%s", cell[i]);
    if (!made->entry.begun_ns) {
        history_entry_free(&made->entry);
        return history_at(source, "no column says when the run began")->code;
    }
    return history_source_end(source, made);
}

int history_take_csv(struct history_source *source, char *text)
{
    char **title = calloc(COLUMNS_MOST, sizeof *title), **cell = calloc(COLUMNS_MOST, sizeof *cell);
    enum column *column = calloc(COLUMNS_MOST, sizeof *column);
    int rc = title && cell && column ? 0 : TACHO_ENOMEM;
    size_t lines = 1;
    source->line = 1;
    if (!strncmp(text, "\xef\xbb\xbf", 3)) /* the mark that spreadsheets put first */
        text += 3;
    int titles = rc ? 0 : next_row(&text, title, COLUMNS_MOST, &lines);
    for (int i = 0; i < titles; i++) {
        column[i] = column_of(title[i]);
        if (column[i] == COLUMN_STEP_OF_RUN)
            rc = history_at(source, "a table with a row a step: export the list of runs")->code;
    }
    if (titles < 2 && !rc)
        rc = history_at(source, "not a table")->code;
    while (!rc && text) {
        source->line = lines + 1;
        int count = next_row(&text, cell, COLUMNS_MOST, &lines);
        bool blank = count == 1 && !*cell[0];
        if (count < 0 || (!blank && count > titles))
            rc = history_at(source, "a row that does not fit the header line")->code;
        else if (!blank)
            rc = take_row(source, column, title, cell, count);
    }
    free(column);
    free(cell);
    free(title);
    return rc;
}
