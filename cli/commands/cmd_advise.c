/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho advise: what changes would do to a step, by replaying its dependency graph.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/base/classes_file.h"
#include "cli/base/edits.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "cli/view/view.h"
#include "reports/json/json.h"

struct values {
    struct cli_range steps;
    const char *what_if, *output, *color, *classes, *marker;
    int64_t width, top;
    struct cli_view view;
    bool json, no_color;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW("what-if", 0, CLI_TEXT, what_if, "EDITS",
                 "changes to replay, instead of those that the findings propose"),
    CLI_FLAG_ROW("json", 'j', json, "print JSON (tacho-advice/1)"),
    CLI_FIELDS_ROW,
    CLI_LIMIT_ROW,
    CLI_OUTPUT_ROW,
    CLI_TEXT_ROW("steps", 0, CLI_RANGE, steps, "A:B", "only steps A to B (A: or :B or one index)"),
    CLI_NUMBER_ROW("top", 0, CLI_INT, top, "N", "rows of the sensitivity table (12)", 1, 1000),
    CLI_MARKER_ROW,
    CLI_CLASSES_ROW,
    CLI_WIDTH_ROW,
    CLI_COLOR_ROW,
    CLI_NO_COLOR_ROW,
    {0},
};

const struct cli_spec cli_advise_spec = {
    .help = "estimate how changes affect the step time, by replaying the dependency graph",
    .usage = "[OPTION]... [RUN]",
    .about =
        "Replays the dependency graph of the run's steps with changes, and estimates the step "
        "time: as an interval,\n"
        "or as a ceiling where the run lacks a number for an estimate. Without --what-if: the "
        "changes that the findings\n"
        "propose.\n"
        "EDITS is NAME=VALUE,... with VALUE 0.5x or 50% (the part of its time that remains) "
        "or 0, and "
        "NAME one of\n"
        "  comm peers copy compute loader launch sync allocation collection compile framework "
        "think profiler dispatch\n"
        "  recompute (operators that compute activations again)\n"
        "  loader.read loader.decode loader.collate loader.pin loader.fetch\n"
        "  op:NAME collective:NAME copy:NAME (names as in the sensitivity table), "
        "kernel:PART-OF-ITS-NAME\n"
        "or loader.workers=N, loader.prefetch=N, cores=N, threads=N (of each team of OpenMP),\n"
        "others=N (cores that other programs use), "
        "link=2x (twice as fast), rank:N=peers, ranks=even, launch=graph (one launch a step), "
        "comm=overlap,\n"
        "micro=4x (micro-batches four times as large), precision=bf16 (both: the reference engine, "
        "calibrated).\n"
        "RUN is as for 'tacho report'.",
    .options = options,
    .examples = "  tacho advise\n"
                "  tacho advise run.tacho --what-if comm=0.5x,loader.workers=8\n"
                "  tacho advise rank0.pt.trace.json.gz --what-if op:attention=80% --json",
    .most = 1,
};

/* Checks the edits, then finds and analyzes the run with them. 0 or an exit code, after a
 * message. */
static int load(const struct values *values, const char *run, struct an_result **result)
{
    struct col_found found;
    struct an_options settings = {.what_if = values->what_if,
                                  .step_marker = values->marker,
                                  .some_steps = values->steps.set,
                                  .step_from = values->steps.from,
                                  .step_to = values->steps.to};
    char *classes = NULL;
    int code = cli_edits_check(values->what_if);
    if (!code)
        code = cli_classes_load(values->classes, &classes);
    if (!code)
        code = cli_run_find(run, &found);
    settings.classes = classes;
    if (!code)
        code = cli_run_analyze(&found, &settings, result);
    free(classes);
    return code ? code : cli_edits_check_names(*result);
}

/* If nothing could be replayed: prints the reason and returns exit code 4. */
static int check_replay(const struct an_result *result)
{
    if (!result->advice.reason)
        return 0;
    return cli_error(TACHO_ENOTSUP, "'tacho report' shows what the file contains",
                     "%s: nothing to replay: %s", result->run.file, result->advice.reason);
}

static int write_document(const void *result, FILE *out)
{
    return rep_advice_json(result, out);
}

/* Writes the advice as text or JSON. 0 or an exit code, after a message. */
static int write_advice(const struct values *values, char *const *arguments,
                        const struct an_result *result)
{
    struct cli_output out;
    struct rep_options settings = cli_report_options(
        values->width, values->no_color ? "never" : values->color, values->output);
    settings.ops = (int)values->top;
    int code = cli_output_open(&out, values->output, arguments);
    if (code)
        return code;
    int rc = values->json
                 ? cli_view_write("advise", &values->view, write_document, result, out.file)
                 : rep_text_section("advice", result, &settings, out.file);
    return cli_output_end(&out, rc, result->run.file, "advice");
}

int cli_advise(int argc, char **argv)
{
    struct values values = {0};
    struct an_result *result = NULL;
    int first, code = cli_parse(&cli_advise_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = cli_view_check("advise", &values.view, values.json);
    code = code ? code : load(&values, first < argc ? argv[first] : "latest", &result);
    if (!code)
        code = check_replay(result);
    if (!code)
        code = write_advice(&values, argv + first, result);
    an_result_free(result);
    return code;
}
