/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools that read the recording itself: steps, ranges one by one, SQL.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/mcp/tools.h"
#include "cli/mcp/windows.h"

#define ROWS_DEFAULT 20
#define SQL_ROWS     50
#define SQL_MS       10000

/* ---- steps ----------------------------------------------------------------------------------- */

static int by_duration(const void *left, const void *right)
{
    const struct an_step_point *a = *(const struct an_step_point *const *)left,
                               *b = *(const struct an_step_point *const *)right;
    return (a->worst_ms < b->worst_ms) - (a->worst_ms > b->worst_ms);
}

static json_t *step_row(const struct an_step_point *step)
{
    json_t *classes = json_object();
    AN_EACH_CLASS(class)
        if (step->detailed && step->class_ms[class] > 0)
            json_object_set_new(classes, an_class_key((enum an_class) class),
                                mcp_json_real(step->class_ms[class]));
    json_t *row =
        json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "rank", (json_int_t)step->rank, "step",
                  (json_int_t)step->index, "ms", mcp_json_real(step->ms), "start_s",
                  mcp_json_real(step->start_s), "tokens_per_s", mcp_json_real(step->tokens_per_s),
                  "excluded", mcp_json_text(step->excluded), "class_ms", classes);
    if (step->steps > 1) { /* neighbours are one point */
        json_object_set_new(row, "steps", json_integer((json_int_t)step->steps));
        json_object_set_new(row, "worst_ms", mcp_json_real(step->worst_ms));
    }
    mcp_drop_nulls(row);
    return row;
}

/* The steps that the arguments ask for, in their order. */
static json_t *step_rows(const struct an_result *result, const json_t *arguments, size_t *total)
{
    struct mcp_filter filter = mcp_filter_of(arguments);
    const char *order = mcp_text(arguments, "order", "slowest");
    size_t kept = 0, limit = (size_t)mcp_integer(arguments, "limit", ROWS_DEFAULT);
    const struct an_step_point **chosen = calloc(result->step_point_count + 1, sizeof *chosen);
    json_t *rows = json_array();
    for (size_t i = 0; chosen && i < result->step_point_count; i++) {
        const struct an_step_point *step = &result->step_points[i];
        bool in = filter.step_to < filter.step_from ||
                  (step->index + step->steps > filter.step_from && step->index <= filter.step_to);
        if (in && (filter.rank == STORE_ABSENT || step->rank == filter.rank))
            chosen[kept++] = step;
    }
    if (chosen && !strcmp(order, "slowest"))
        qsort(chosen, kept, sizeof *chosen, by_duration);
    for (size_t i = 0; chosen && i < kept && i < limit; i++)
        json_array_append_new(rows, step_row(chosen[i]));
    free(chosen);
    *total = kept;
    return rows;
}

static int steps(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    const struct mcp_run *run;
    size_t total;
    int code = mcp_session_run(session, mcp_text(arguments, "run", NULL), NULL, &run);
    if (code)
        return code;
    const struct an_steps *all = &run->result->steps;
    json_t *rows = step_rows(run->result, arguments, &total);
    *answer = json_pack("{s:o, s:o, s:o, s:i, s:o}", "median_ms", mcp_json_value(all->median_ms),
                        "p95_ms", mcp_json_value(all->p95_ms), "none_because",
                        mcp_json_text(all->reason), "total", (int)total, "rows", rows);
    if (json_array_size(rows)) {
        const json_t *first = json_array_get(rows, 0);
        mcp_next(*answer, "what ran in it, the longest first", "slices",
                 json_pack("{s:o, s:O, s:O}", "run", mcp_json_text(run->found.run), "rank",
                           json_object_get(first, "rank"), "step", json_object_get(first, "step")));
    }
    mcp_drop_nulls(*answer);
    return 0;
}

static const struct mcp_argument steps_arguments[] = {
    MCP_RUN_ARGUMENT,
    {.name = "order",
     .kind = MCP_CHOICE,
     .choices = "slowest|index",
     .help = "the slowest first (the default), or by rank and index"},
    {.name = "rank", .kind = MCP_INTEGER, .help = "only this rank", .low = 0, .high = 1e9},
    {.name = "step", .kind = MCP_INTEGER, .help = "only this step", .low = 0, .high = 1e15},
    {.name = "from", .kind = MCP_INTEGER, .help = "from this index on", .low = 0, .high = 1e15},
    {.name = "to", .kind = MCP_INTEGER, .help = "up to this index", .low = 0, .high = 1e15},
    MCP_LIMIT_ARGUMENT("steps (20)"),
    {0},
};

const struct mcp_tool mcp_steps = {
    .name = "steps",
    .title = "Steps one by one",
    .help = "Steps with their time by class (compute, exposed_comm, input ...), the slowest first. "
            "class_ms sums to the step.",
    .arguments = steps_arguments,
    .call = steps,
};

/* ---- slices ---------------------------------------------------------------------------------- */

/* The first or the longest ranges so far, in their order. */
struct chosen {
    struct mcp_range *range;
    size_t count, limit;
    int64_t total;
    bool longest;
};

static bool goes_before(const struct chosen *chosen, const struct mcp_range *left,
                        const struct mcp_range *right)
{
    return chosen->longest ? left->dur > right->dur : left->start < right->start;
}

static int choose_range(void *context, const struct mcp_range *range)
{
    struct chosen *chosen = context;
    chosen->total++;
    size_t at = chosen->count;
    while (at && goes_before(chosen, range, &chosen->range[at - 1]))
        at--;
    if (at == chosen->limit)
        return 0;
    size_t last = chosen->count < chosen->limit ? chosen->count++ : chosen->limit - 1;
    memmove(&chosen->range[at + 1], &chosen->range[at], (last - at) * sizeof *range);
    chosen->range[at] = *range;
    return 0;
}

static json_t *slice_row(const struct mcp_range *range, int64_t origin)
{
    const struct mcp_track *track = range->track;
    bool ranked = track && track->rank != STORE_ABSENT, ends = range->dur != STORE_ABSENT;
    json_t *row = json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "id", (json_int_t)range->id, "name",
        mcp_json_text(range->name), "start_us", json_real((double)(range->start - origin) / 1e3),
        "dur_us", ends ? json_real((double)range->dur / 1e3) : json_null(), "rank",
        ranked ? json_integer((json_int_t)track->rank) : json_null(), "thread",
        mcp_json_text(track ? track->name : NULL), "step",
        range->step ? json_integer((json_int_t)range->step->index) : json_null());
    mcp_drop_nulls(row);
    return row;
}

/* Where `start_us` counts from: the start of the step that was asked for, else of the first step.
 */
static int64_t origin_of(const struct mcp_trace *trace, const struct mcp_filter *filter)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < trace->step_count; i++) {
        const struct an_step_point *step = &trace->step[i];
        bool in = filter->step_to < filter->step_from ||
                  (step->index + step->steps > filter->step_from && step->index <= filter->step_to);
        if (in && (filter->rank == STORE_ABSENT || filter->rank == step->rank) &&
            step->host_start_ns < first)
            first = step->host_start_ns;
    }
    return first == INT64_MAX ? 0 : first;
}

static int slices(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    const struct mcp_run *run;
    struct mcp_trace trace = {0};
    struct mcp_filter filter = mcp_filter_of(arguments);
    struct chosen chosen = {.limit = (size_t)mcp_integer(arguments, "limit", ROWS_DEFAULT),
                            .longest = strcmp(mcp_text(arguments, "order", "longest"), "start")};
    int code = mcp_session_run(session, mcp_text(arguments, "run", NULL), NULL, &run);
    if (!code)
        code = mcp_trace_open(run, &trace);
    chosen.range = calloc(chosen.limit + 1, sizeof *chosen.range);
    if (!code && !chosen.range)
        code = cli_error(TACHO_ENOMEM, NULL, "slices: out of memory");
    if (!code) {
        int rc = mcp_each_range(&trace, &filter, choose_range, &chosen);
        if (rc)
            code = cli_error(rc, NULL, "%s: %s", run->found.run, tacho_error_text(rc));
    }
    if (!code) {
        json_t *rows = json_array();
        int64_t origin = origin_of(&trace, &filter);
        for (size_t i = 0; i < chosen.count; i++)
            json_array_append_new(rows, slice_row(&chosen.range[i], origin));
        *answer = json_pack("{s:s, s:I, s:o}", "start_us",
                            "from the start of the first of these steps, on the host", "total",
                            (json_int_t)chosen.total, "rows", rows);
    }
    free(chosen.range);
    mcp_trace_close(&trace);
    return code;
}

static const struct mcp_argument slices_arguments[] = {
    MCP_RUN_ARGUMENT,
    MCP_FILTER_ARGUMENTS,
    {.name = "order",
     .kind = MCP_CHOICE,
     .choices = "longest|start",
     .help = "the longest first (the default), or by start"},
    {.name = "limit",
     .kind = MCP_INTEGER,
     .help = "at most so many rows (20)",
     .low = 1,
     .high = 1000},
    {0},
};

const struct mcp_tool mcp_slices = {
    .name = "slices",
    .title = "Ranges one by one",
    .help = "Ranges and device operations of a step, rank or name, each with its id in the table "
            "slice, start and duration.",
    .arguments = slices_arguments,
    .call = slices,
};

/* ---- sql ------------------------------------------------------------------------------------- */

struct table {
    json_t *columns, *rows;
    size_t limit, more;
};

static int table_head(void *context, int columns, const char *const *names)
{
    struct table *table = context;
    json_array_clear(table->columns); /* of several statements the last one counts */
    json_array_clear(table->rows);
    for (int i = 0; i < columns; i++)
        json_array_append_new(table->columns, mcp_json_text(names[i]));
    return 0;
}

static json_t *cell_json(const struct store_cell *cell)
{
    char blob[40];
    switch (cell->type) {
    case STORE_CELL_INTEGER:
        return json_integer(cell->integer);
    case STORE_CELL_REAL:
        return isfinite(cell->real) ? json_real(cell->real) : json_null();
    case STORE_CELL_TEXT:
        return mcp_json_text(cell->text);
    case STORE_CELL_BLOB:
        snprintf(blob, sizeof blob, "<%zu bytes>", cell->bytes);
        return json_string(blob);
    default:
        return json_null();
    }
}

static int table_row(void *context, int columns, const struct store_cell *cells)
{
    struct table *table = context;
    if (json_array_size(table->rows) >= table->limit)
        return ++table->more > 0; /* there are more: that is enough */
    json_t *row = json_array();
    for (int i = 0; i < columns; i++)
        json_array_append_new(row, cell_json(&cells[i]));
    return json_array_append_new(table->rows, row);
}

static int sql(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    (void)session;
    struct col_found found = {0};
    store_reader *reader = NULL;
    struct table table = {.columns = json_array(),
                          .rows = json_array(),
                          .limit = (size_t)mcp_integer(arguments, "limit", SQL_ROWS)};
    int code = cli_run_find(mcp_text(arguments, "run", "latest"), &found);
    if (!code)
        code = mcp_run_open(&found, &reader);
    if (!code) {
        store_query_limit(reader, SQL_MS);
        int rc =
            store_query(reader, mcp_text(arguments, "query", ""), table_head, table_row, &table);
        if (rc < 0)
            code = rc == store_reader_error(reader)->code
                       ? cli_fail(store_reader_error(reader))
                       : cli_error(rc, NULL, "%s: %s", found.run, tacho_error_text(rc));
    }
    if (!code) {
        *answer = json_pack("{s:O, s:O}", "columns", table.columns, "rows", table.rows);
        if (table.more)
            json_object_set_new(*answer, "left_out",
                                json_string("rows after these: raise limit, or narrow the query"));
    }
    json_decref(table.columns);
    json_decref(table.rows);
    store_reader_close(reader);
    return code;
}

static const struct mcp_argument sql_arguments[] = {
    MCP_RUN_ARGUMENT,
    {.name = "query",
     .kind = MCP_TEXT,
     .help = "SQL of SQLite; nothing can be written",
     .required = true},
    MCP_LIMIT_ARGUMENT("rows (50)"),
    {0},
};

const struct mcp_tool mcp_sql = {
    .name = "sql",
    .title = "SQL on the recording",
    .help =
        "A query on the run's file, at most 10 s. Tables: slice(id,track,start,dur,name,category,"
        "detail), string(id,text: "
        "slice.name and category), track(id,process,kind,name,device), "
        "process(id,rank,host,pid,program), "
        "step(process,\"index\",start,\"end\",tokens,samples), counter(track,time,value: "
        "track.name says what), run(key,value), "
        "loss, ceiling, metric. Times are ns.",
    .arguments = sql_arguments,
    .call = sql,
};
