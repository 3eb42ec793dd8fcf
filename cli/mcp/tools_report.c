/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools that read the analysis of a run: its first screen, a finding, any part of the report, the
 * definitions of its numbers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/base/run_list.h"
#include "cli/mcp/tools.h"
#include "cli/view/view.h"

#define ROWS_DEFAULT 20

/* ---- list_runs ------------------------------------------------------------------------------- */

static json_t *run_row(const struct cli_run_row *row)
{
    char begun[32];
    time_t seconds = (time_t)(row->begun_ns / 1000000000);
    struct tm tm;
    strftime(begun, sizeof begun, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    bool damaged = row->state == CLI_RUN_DAMAGED;
    return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o}", "run", mcp_json_text(row->run), "state",
                     cli_run_state_name(row->state), "begun", begun, "steps",
                     damaged ? json_null() : json_integer(row->steps), "step_ms",
                     mcp_json_real(damaged ? NAN : row->step_ms), damaged ? "damage" : "verdict",
                     mcp_json_text(row->verdict));
}

static int list_runs(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    (void)session;
    struct cli_run_list list = {0};
    char *folders[] = {(char *)mcp_text(arguments, "folder", "."), NULL};
    int code = cli_run_list_read(folders, &list);
    size_t limit = (size_t)mcp_integer(arguments, "limit", ROWS_DEFAULT);
    json_t *rows = json_array();
    for (size_t i = 0; i < list.count && i < limit; i++)
        json_array_append_new(rows, run_row(&list.row[i]));
    *answer = json_pack("{s:i, s:o}", "runs", (int)list.count, "rows", rows);
    if (list.count)
        mcp_next(*answer, "what holds a run back", "summarize",
                 json_pack("{s:o}", "run", mcp_json_text(list.row[0].run)));
    cli_run_list_clear(&list);
    return code;
}

static const struct mcp_argument list_arguments[] = {
    {.name = "folder", .kind = MCP_TEXT, .help = "the folder to look into (the current one)"},
    MCP_LIMIT_ARGUMENT("runs (20)"),
    {0},
};

const struct mcp_tool mcp_list_runs = {
    .name = "list_runs",
    .title = "Runs of this machine and of a folder",
    .help = "Lists the runs that are being recorded on this machine and those in a folder, newest "
            "first: steps, median step, "
            "saved verdict. Nothing is analyzed.",
    .arguments = list_arguments,
    .call = list_runs,
};

/* ---- summarize ------------------------------------------------------------------------------- */

static json_t *gain_of(const struct an_gain *gain)
{
    return json_pack("{s:o, s:o, s:o, s:b}", "low", mcp_json_value(gain->low), "expected",
                     mcp_json_value(gain->expected), "high", mcp_json_value(gain->high), "ceiling",
                     gain->ceiling);
}

static json_t *identity_of(const struct an_result *result)
{
    const struct an_run *run = &result->run;
    json_t *out =
        json_pack("{s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:b}", "file", mcp_json_text(run->file),
                  "program", mcp_json_text(run->program), "command", mcp_json_text(run->command),
                  "ranks", (json_int_t)run->ranks, "cores", mcp_json_count(run->cores), "dtype",
                  mcp_json_text(result->utilization.dtype), "duration_s",
                  mcp_json_value(run->duration_s), "live", run->live);
    if (result->gpu_count)
        json_object_set_new(out, "devices", json_integer((json_int_t)result->gpu_count));
    if (result->gpu_count)
        json_object_set_new(out, "device", mcp_json_text(result->gpus[0].name));
    return out;
}

static json_t *steps_of(const struct an_steps *steps)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "count",
                     (json_int_t)steps->count, "counted", (json_int_t)steps->counted, "median_ms",
                     mcp_json_value(steps->median_ms), "mean_ms", mcp_json_value(steps->mean_ms),
                     "p95_ms", mcp_json_value(steps->p95_ms), "max_ms",
                     mcp_json_value(steps->max_ms), "slow", (json_int_t)steps->outlier_count,
                     "tokens_per_s", mcp_json_value(steps->tokens_per_s), "samples_per_s",
                     mcp_json_value(steps->samples_per_s), "source", mcp_json_text(steps->source),
                     "none_because", mcp_json_text(steps->reason));
}

/* The budget without what takes no time: classes in per cent of the step. */
static json_t *budget_of(const struct an_budget *budget)
{
    json_t *out = json_object();
    AN_EACH_CLASS(class)
        if (budget->pct[class].valid && budget->pct[class].value > 0)
            json_object_set_new(out, an_class_key((enum an_class) class),
                                mcp_json_value(budget->pct[class]));
    return out;
}

static json_t *stages_of(const json_t *report)
{
    json_t *stages = json_deep_copy(json_object_get(report, "stages"));
    mcp_round(stages);
    return stages;
}

static json_t *efficiency_of(const struct an_result *result)
{
    const struct an_utilization *use = &result->utilization;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "mfu", mcp_json_value(use->mfu), "hfu",
                     mcp_json_value(use->hfu), "peak_flops", mcp_json_value(use->peak_flops),
                     "peak_source", mcp_json_text(use->peak_source), "mfu_absent",
                     mcp_json_text(use->mfu.valid ? NULL : use->mfu.reason));
}

static json_t *findings_of(const struct an_result *result)
{
    json_t *list = json_array();
    for (size_t i = 0; i < result->finding_count; i++) {
        const struct an_finding *finding = &result->findings[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:s, s:s}", "id", finding->id,
                                        "action", mcp_json_text(finding->action), "setting",
                                        mcp_json_text(finding->setting), "throughput_gain_pct",
                                        gain_of(&finding->gain), "listed",
                                        an_listed_key(an_finding_listed(finding)), "confidence",
                                        an_confidence_text(finding->confidence)));
    }
    return list;
}

static json_t *quality_of(const struct an_result *result)
{
    const struct an_trust *trust = &result->trust;
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "events", (json_int_t)trust->events,
                     "lost_events", mcp_json_count(trust->lost_events), "overhead_pct",
                     mcp_json_value(trust->overhead_pct), "replay_error_pct",
                     mcp_json_value(trust->replay_error_pct), "recording_ended",
                     mcp_json_text(trust->ended));
}

static json_t *not_checked_of(const struct an_result *result)
{
    json_t *list = json_array();
    for (size_t i = 0; i < result->not_checked_count; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:o}", "check", mcp_json_text(result->not_checked[i].check),
                            "to_check", mcp_json_text(result->not_checked[i].to_check)));
    return list;
}

/* What to ask next: the first finding, and the part of the report that the verdict is about. */
static void hints(json_t *answer, const struct an_result *result)
{
    const char *run = result->run.file;
    if (result->finding_count)
        mcp_next(
            answer, "evidence, assumptions and how to verify", "explain",
            json_pack("{s:o, s:s}", "run", mcp_json_text(run), "finding", result->findings[0].id));
    if (result->run.ranks > 1)
        mcp_next(answer, "ranks compared", "get",
                 json_pack("{s:o, s:s}", "run", mcp_json_text(run), "section", "ranks"));
    mcp_next(answer, "time by operator or kernel", "get",
             json_pack("{s:o, s:s}", "run", mcp_json_text(run), "section", "kernels"));
}

static int summarize(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    const struct mcp_run *run;
    int code = mcp_session_run(session, mcp_text(arguments, "run", NULL), NULL, &run);
    if (code)
        return code;
    const struct an_result *result = run->result;
    *answer = json_pack("{s:o, s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "verdict",
                        mcp_json_text(result->verdict), "verdict_class", result->verdict_class,
                        "caution", mcp_json_text(result->caution), "healthy", result->healthy,
                        "fixes", findings_of(result), "run", identity_of(result), "steps",
                        steps_of(&result->steps), "budget_pct", budget_of(&result->budget),
                        "stages", stages_of(run->report), "efficiency", efficiency_of(result),
                        "quality", quality_of(result), "not_checked", not_checked_of(result));
    hints(*answer, result);
    mcp_drop_nulls(*answer);
    return 0;
}

static const struct mcp_argument run_only[] = {MCP_RUN_ARGUMENT, {0}};

const struct mcp_tool mcp_summarize = {
    .name = "summarize",
    .title = "What holds a run back, and what to do",
    .help = "The first screen of the report: verdict, fixes with their predicted gain in "
            "throughput, step time by stage and "
            "class, throughput, MFU, quality of the data, what was not checked. Start here.",
    .arguments = run_only,
    .call = summarize,
};

/* ---- explain --------------------------------------------------------------------------------- */

static int explain(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    const struct mcp_run *run;
    size_t number;
    int code = mcp_session_run(session, mcp_text(arguments, "run", NULL), NULL, &run);
    if (!code)
        code =
            cli_run_finding("explain", mcp_text(arguments, "finding", "1"), run->result, &number);
    if (code)
        return code;
    *answer = json_deep_copy(json_array_get(json_object_get(run->report, "findings"), number - 1));
    if (!*answer)
        return cli_error(TACHO_ENOMEM, NULL, "explain: out of memory");
    mcp_round(*answer);
    const struct an_finding *finding = &run->result->findings[number - 1];
    char *word = cli_shell_word(run->found.run);
    char command[300];
    snprintf(command, sizeof command, "tacho verify %.200s %s", word ? word : "RUN", finding->id);
    free(word);
    if (finding->setting)
        json_object_set_new(*answer, "try", mcp_json_text(command));
    if (finding->what_if)
        mcp_next(*answer, "the same as an edit of the dependency graph", "advise",
                 json_pack("{s:o, s:s}", "run", mcp_json_text(run->found.run), "edits",
                           finding->what_if));
    return 0;
}

static const struct mcp_argument explain_arguments[] = {
    MCP_RUN_ARGUMENT,
    {.name = "finding", .kind = MCP_TEXT, .help = "its id, or its number from 1 (the first one)"},
    {0},
};

const struct mcp_tool mcp_explain = {
    .name = "explain",
    .title = "A finding in full",
    .help = "The card of a finding: claim, evidence with numbers, what to do, the gain and how it "
            "was computed, how to verify "
            "it, when it is wrong.",
    .arguments = explain_arguments,
    .call = explain,
};

/* ---- get ------------------------------------------------------------------------------------- */

/* What the report has: each section with its size. */
static json_t *sections_of(const json_t *report)
{
    json_t *rows = json_array(), *value;
    const char *key;
    json_object_foreach((json_t *)report, key, value)
    {
        if (json_is_null(value) || !strcmp(key, "absent") || !strcmp(key, "schema"))
            continue;
        json_t *row = json_pack("{s:s}", "section", key);
        if (json_is_array(value))
            json_object_set_new(row, "rows", json_integer((json_int_t)json_array_size(value)));
        if (json_is_object(value))
            json_object_set_new(row, "keys", json_integer((json_int_t)json_object_size(value)));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o}", "sections", rows);
}

/* The value at "communication.collectives" or "ranks.ranks.3"; NULL: there is none. `pointer`
 * becomes its JSON pointer. */
static json_t *at_path(json_t *json, const char *path, char *pointer, size_t size)
{
    size_t used = 0;
    pointer[0] = 0;
    for (const char *at = path; json && *at; at += *at == '.' || *at == '/') {
        char name[128];
        size_t length = strcspn(at, "./");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        at += length;
        if (!length)
            continue;
        json = json_is_array(json) ? json_array_get(json, strtoul(name, NULL, 10))
                                   : json_object_get(json, name);
        used += used < size ? (size_t)snprintf(pointer + used, size - used, "/%s", name) : 0;
    }
    return json;
}

/* Is there a null of this key in the part, at any depth? */
static bool has_null(const json_t *json, const char *key)
{
    const char *name;
    json_t *value;
    for (size_t i = 0; i < json_array_size(json); i++)
        if (has_null(json_array_get(json, i), key))
            return true;
    json_object_foreach((json_t *)json, name,
                        value) if ((json_is_null(value) && !strcmp(name, key)) ||
                                   has_null(value, key)) return true;
    return json_is_null(json);
}

/* Why values of the part at the pointer are null: reasons by key, for all rows of a list together.
 */
static json_t *reasons_at(const json_t *report, const char *pointer, const json_t *part)
{
    json_t *out = json_object(), *reason;
    const char *key;
    size_t length = strlen(pointer);
    json_object_foreach(json_object_get(report, "absent"), key, reason)
    {
        size_t own = strlen(key), least = own < length ? own : length;
        const char *last = strrchr(key, '/') + 1;
        bool below = own > length && key[length] == '/',
             above = own < length && pointer[own] == '/';
        if (strncmp(key, pointer, least) != 0 || (own != length && !below && !above))
            continue;
        if (!below || has_null(part, last))
            json_object_set(out, last, reason);
    }
    return out;
}

/* Does a text of the row hold `part`? */
static bool row_matches(const json_t *row, const char *part)
{
    const char *key;
    json_t *value;
    if (!part || mcp_matches(json_string_value(row), part))
        return true;
    json_object_foreach((json_t *)row, key,
                        value) if (json_is_string(value) &&
                                   mcp_matches(json_string_value(value), part)) return true;
    return false;
}

static const char *sort_key;
static int sort_sign;

static int by_key(const void *left, const void *right)
{
    const json_t *a = json_object_get(*(json_t *const *)left, sort_key),
                 *b = json_object_get(*(json_t *const *)right, sort_key);
    if (json_is_string(a) && json_is_string(b))
        return sort_sign > 0 ? strcmp(json_string_value(a), json_string_value(b))
                             : strcmp(json_string_value(b), json_string_value(a));
    if (json_is_number(a) != json_is_number(b)) /* what is not known comes last */
        return json_is_number(a) ? -1 : 1;
    double x = json_number_value(a), y = json_number_value(b);
    return sort_sign * ((x > y) - (x < y));
}

/* The rows that match, in the order of a key ("-total_us": largest first), from `offset` on. */
static json_t *choose_rows(const json_t *list, const json_t *arguments, size_t *total)
{
    size_t count = json_array_size(list), kept = 0,
           from = (size_t)mcp_integer(arguments, "offset", 0),
           limit = (size_t)mcp_integer(arguments, "limit", ROWS_DEFAULT);
    const char *match = mcp_text(arguments, "match", NULL),
               *sort = mcp_text(arguments, "sort", NULL);
    json_t **rows = calloc(count + 1, sizeof *rows), *out = json_array();
    for (size_t i = 0; rows && i < count; i++)
        if (row_matches(json_array_get(list, i), match))
            rows[kept++] = json_array_get(list, i);
    if (rows && sort) {
        sort_sign = *sort == '-' ? -1 : 1;
        sort_key = sort + (*sort == '-');
        qsort(rows, kept, sizeof *rows, by_key);
    }
    for (size_t i = from; rows && i < kept && i - from < limit; i++)
        json_array_append(out, rows[i]);
    free(rows);
    *total = kept;
    return out;
}

/* Keeps only the fields of each row, or of the object. 0, or an exit code after a message. */
static int keep_fields(json_t **value, const char *fields)
{
    char unknown[128] = "";
    if (!fields)
        return 0;
    json_t *copy = cli_view_of(*value, &(struct cli_view){.fields = fields}, unknown);
    if (unknown[0])
        return cli_usage("get", "leave fields away to see the keys", "fields: no key '%s'",
                         unknown);
    if (!copy)
        return cli_error(TACHO_ENOMEM, NULL, "get: out of memory");
    json_decref(*value);
    *value = copy;
    return 0;
}

/* 0, or an exit code after a message that names the sections. */
static int refuse_section(const json_t *report, const char *section)
{
    const char *names[64], *key;
    json_t *value;
    size_t count = 0;
    char hint[256];
    json_object_foreach((json_t *)report, key, value) if (count < 63) names[count++] = key;
    names[count] = NULL;
    const char *close = cli_closest(section, names);
    snprintf(hint, sizeof hint, close ? "did you mean '%s'?" : "get without section lists them",
             close);
    return cli_usage("get", hint, "no section '%.100s'", section);
}

/* The document in place of one that shares its values with the report; rounded. */
static json_t *own_copy(json_t *shared)
{
    json_t *copy = json_deep_copy(shared);
    json_decref(shared);
    mcp_round(copy);
    return copy;
}

static int get(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    const struct mcp_run *run;
    char pointer[512];
    size_t total = 0;
    const char *section = mcp_text(arguments, "section", NULL);
    int code = mcp_session_run(session, mcp_text(arguments, "run", NULL),
                               mcp_text(arguments, "by", NULL), &run);
    if (code)
        return code;
    if (!section) {
        *answer = sections_of(run->report);
        return 0;
    }
    json_t *value = at_path(run->report, section, pointer, sizeof pointer);
    if (!value)
        return refuse_section(run->report, section);
    if (json_is_array(json_object_get(value, "rows"))) /* a table with remarks beside it */
        value = json_object_get(value, "rows");
    json_t *part =
        json_is_array(value) ? choose_rows(value, arguments, &total) : json_deep_copy(value);
    code = keep_fields(&part, mcp_text(arguments, "fields", NULL));
    if (code) {
        json_decref(part);
        return code;
    }
    bool list = json_is_array(part);
    part = own_copy(part);
    *answer =
        json_pack("{s:o, s:o}", "section", mcp_json_text(section), list ? "rows" : "value", part);
    if (list) {
        size_t next = (size_t)mcp_integer(arguments, "offset", 0) + json_array_size(part);
        json_object_set_new(*answer, "total", json_integer((json_int_t)total));
        if (next < total)
            json_object_set_new(*answer, "next_offset", json_integer((json_int_t)next));
    }
    json_t *reasons = reasons_at(run->report, pointer, part);
    if (json_object_size(reasons))
        json_object_set(*answer, "absent", reasons);
    json_decref(reasons);
    return 0;
}

static const struct mcp_argument get_arguments[] = {
    MCP_RUN_ARGUMENT,
    {.name = "section",
     .kind = MCP_TEXT,
     .help =
         "a key of tacho-report/1, or a path such as communication.collectives, ranks.straggler, "
         "memory.tags; "
         "not given: the sections there are"},
    {.name = "match", .kind = MCP_TEXT, .help = "only rows of which a text holds this"},
    {.name = "sort", .kind = MCP_TEXT, .help = "a key of the rows; -total_us: largest first"},
    {.name = "fields", .kind = MCP_TEXT, .help = "only these keys: name,total_us"},
    {.name = "by",
     .kind = MCP_CHOICE,
     .choices = "op|module|line|annotation",
     .help =
         "what section attribution is a table of: GPU time by operator, module, line of code or "
         "annotation"},
    {.name = "offset", .kind = MCP_INTEGER, .help = "rows to skip", .low = 0, .high = 1e9},
    MCP_LIMIT_ARGUMENT("rows (20)"),
    {0},
};

const struct mcp_tool mcp_get = {
    .name = "get",
    .title = "A section of the report",
    .help =
        "Any part of the report as JSON. Sections: steps (slow ones in steps.outliers), budget, "
        "stages, utilization, "
        "devices, critical_path, roofline, kernel_bounds, dataloader, communication, kernels "
        "(operators of a CPU run), "
        "launches, copies, syncs, precision, attribution, ranks, memory, leak, energy, system, "
        "counters (loss ...), advice, "
        "trust. `absent` has the reason of what is null.",
    .arguments = get_arguments,
    .call = get,
};

/* ---- define ---------------------------------------------------------------------------------- */

static int define(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    (void)session;
    const char *name = mcp_text(arguments, "name", "");
    json_t *rows = json_array();
    for (const struct an_metric *metric = an_metrics; metric->key; metric++)
        if (mcp_matches(metric->key, name))
            json_array_append_new(rows,
                                  json_pack("{s:s, s:s, s:s, s:s, s:s}", "key", metric->key, "unit",
                                            metric->unit, "formula", metric->formula, "inputs",
                                            metric->inputs, "reading", metric->reading));
    bool none = !json_array_size(rows);
    *answer = json_pack("{s:o}", "rows", rows);
    return none ? cli_usage("define", "keys are those of get, such as utilization/mfu",
                            "no number '%.60s'", name)
                : 0;
}

static const struct mcp_argument define_arguments[] = {
    {.name = "name",
     .kind = MCP_TEXT,
     .help = "a key or a part of one: mfu, exposed",
     .required = true},
    {0},
};

const struct mcp_tool mcp_define = {
    .name = "define",
    .title = "What a number means",
    .help = "Formula, unit and inputs of numbers of the report, and how to read them.",
    .arguments = define_arguments,
    .call = define,
};
