/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools that ask what changed between two runs, and what a change would do.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/diff/diff.h"
#include "analyzers/diff/gate.h"
#include "cli/base/edits.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/mcp/tools.h"
#include "reports/diff/diff_write.h"
#include "reports/json/json.h"

#define ROWS_DEFAULT 8

/* A document that a function of the reports writes, as an object of the caller; NULL: no memory. */
static json_t *document(int (*write)(const void *what, FILE *out), const void *what)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    int rc = file ? write(what, file) : TACHO_ENOMEM;
    if (file && fclose(file))
        rc = TACHO_ENOMEM;
    json_t *json = rc ? NULL : json_loadb(text, bytes, 0, NULL);
    free(text);
    return json;
}

/* ---- diff ------------------------------------------------------------------------------------ */

static int write_diff(const void *what, FILE *out)
{
    const struct an_diff *diff = what;
    double step[] = {diff->good.step, diff->bad.step};
    struct an_gate gate = an_gate_decide(&(struct an_gate_input){
        step, step + 1, 1, 1, .limit_pct = NAN, .run_sd_pct = NAN, .within_pct = NAN});
    return rep_diff_json(diff, &gate, out);
}

static int by_change(const void *left, const void *right)
{
    double a = fabs(json_number_value(json_object_get(*(json_t *const *)left, "delta_ms"))),
           b = fabs(json_number_value(json_object_get(*(json_t *const *)right, "delta_ms")));
    return (a < b) - (a > b);
}

/* The rows that changed most, without those that did not. */
static json_t *largest(const json_t *list, size_t limit)
{
    static const char *const keys[] = {"name",   "good_ms", "bad_ms",    "delta_ms",
                                       "low_ms", "high_ms", "delta_pct", "significant"};
    size_t count = json_array_size(list);
    json_t **rows = calloc(count + 1, sizeof *rows), *out = json_array();
    for (size_t i = 0; rows && i < count; i++)
        rows[i] = json_array_get(list, i);
    if (rows && count)
        qsort(rows, count, sizeof *rows, by_change);
    for (size_t i = 0; rows && i < count && i < limit; i++) {
        json_t *row = json_object();
        if (json_number_value(json_object_get(rows[i], "delta_ms")) == 0)
            break;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            json_t *value = json_object_get(rows[i], keys[k]);
            json_object_set_new(row, keys[k],
                                json_is_real(value) ? mcp_json_real(json_real_value(value))
                                                    : json_incref(value));
        }
        json_array_append_new(out, row);
    }
    free(rows);
    return out;
}

static int diff(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    static const char *const tables[] = {"classes", "loader", "ranks", "operators", "kernels"};
    static const char *const kept[] = {"verdict", "unit", "note", "not_tested", "differs",
                                       "slower",  "good", "bad",  "step",       "scaling"};
    const struct mcp_run *run;
    struct an_diff *difference = NULL;
    size_t limit = (size_t)mcp_integer(arguments, "limit", ROWS_DEFAULT);
    int code = mcp_session_run(session, mcp_text(arguments, "baseline", NULL), NULL, &run);
    const struct an_result *good = code ? NULL : run->result;
    if (!code) /* the session keeps more than one: the first one stays */
        code = mcp_session_run(session, mcp_text(arguments, "candidate", NULL), NULL, &run);
    if (code)
        return code;
    int rc = an_diff_results(good, run->result, 0, &difference);
    json_t *all = rc ? NULL : document(write_diff, difference);
    an_diff_free(difference);
    if (!all)
        return cli_error(rc ? rc : TACHO_ENOMEM, NULL, "diff: the runs could not be compared: %s",
                         tacho_error_text(rc ? rc : TACHO_ENOMEM));
    *answer = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(*answer, kept[i], json_object_get(all, kept[i]));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        json_object_set_new(*answer, tables[i], largest(json_object_get(all, tables[i]), limit));
    json_decref(all);
    mcp_round(*answer);
    mcp_drop_nulls(*answer);
    return 0;
}

static const struct mcp_argument diff_arguments[] = {
    {.name = "baseline", .kind = MCP_TEXT, .help = "the run to compare with", .required = true},
    {.name = "candidate", .kind = MCP_TEXT, .help = "the run to judge", .required = true},
    MCP_LIMIT_ARGUMENT("rows of each table (8)"),
    {0},
};

const struct mcp_tool mcp_diff = {
    .name = "diff",
    .title = "Two runs compared",
    .help = "Is the candidate slower or faster, is that significant, and where does the time go: "
            "classes, loader, ranks, "
            "operators, kernels, by change. good is the baseline, bad the candidate.",
    .arguments = diff_arguments,
    .call = diff,
};

/* ---- advise ---------------------------------------------------------------------------------- */

static int write_advice(const void *what, FILE *out)
{
    return rep_advice_json(what, out);
}

static int advise(struct mcp_session *session, const json_t *arguments, json_t **answer)
{
    (void)session; /* with edits it is an analysis of its own */
    static const char *const kept[] = {
        "none",  "step_ms", "replay_error_pct", "replay_error_because",
        "cores", "what_if", "together"};
    struct col_found found = {0};
    struct an_options options = {.what_if = mcp_text(arguments, "edits", NULL)};
    struct an_result *result = NULL;
    int code = cli_edits_check(options.what_if);
    if (!code)
        code = cli_run_find(mcp_text(arguments, "run", "latest"), &found);
    if (!code)
        code = cli_run_analyze(&found, &options, &result);
    if (!code)
        code = cli_edits_check_names(result);
    if (!code) {
        json_t *all = document(write_advice, result);
        *answer = json_object();
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            json_object_set(*answer, kept[i], json_object_get(all, kept[i]));
        if (!options.what_if)
            json_object_set(*answer, "sensitivity", json_object_get(all, "sensitivity"));
        json_decref(all);
        mcp_round(*answer);
        mcp_drop_nulls(*answer);
    }
    an_result_free(result);
    return code;
}

static const struct mcp_argument advise_arguments[] = {
    MCP_RUN_ARGUMENT,
    {.name = "edits",
     .kind = MCP_TEXT,
     .help = "NAME=VALUE,...: comm=0.5x (half its time), loader=0, loader.workers=4, cores=8, "
             "others=0, link=2x, "
             "rank:3=peers, ranks=even, op:NAME=80%, kernel:PART=0.5x, launch=graph, comm=overlap, "
             "micro=4x, precision=bf16; not "
             "given: what the findings propose"},
    {0},
};

const struct mcp_tool mcp_advise = {
    .name = "advise",
    .title = "What a change would do",
    .help = "Replays the dependency graph of the run's steps with changes: the step time, and the "
            "gain in throughput as an "
            "interval or a ceiling. Without edits also the sensitivities: step gain per 1 % "
            "reduction of "
            "each kind of work.",
    .arguments = advise_arguments,
    .call = advise,
};
