/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho diff: what takes more time in one run than in another, as text or JSON, and as an exit code
 * for continuous integration.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/diff/diff.h"
#include "cli/base/classes_file.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "reports/diff/diff_write.h"

#define EXIT_THRESHOLD 1

struct values {
    const char *output, *color, *classes, *fail_above;
    int64_t width, top;
    bool json, no_color;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW(
        "fail-above", 0, CLI_TEXT, fail_above, "PCT",
        "exit with 1 if the step is significantly longer, by more than PCT (for example 3%)"),
    CLI_FLAG_ROW("json", 'j', json, "print JSON (tacho-diff/1)"),
    CLI_OUTPUT_ROW,
    CLI_NUMBER_ROW("top", 0, CLI_INT, top, "N", "rows of each table (10)", 1, 1000),
    CLI_CLASSES_ROW,
    CLI_WIDTH_ROW,
    CLI_COLOR_ROW,
    CLI_NO_COLOR_ROW,
    {0},
};

const struct cli_spec cli_diff_spec = {
    .help = "compare two runs: what takes more time; fail a build that got slower",
    .usage = "[OPTION]... BASELINE CANDIDATE",
    .about =
        "Shows what takes more or less time per step in CANDIDATE than in BASELINE (parts of the "
        "step, operators, kernels,\n"
        "ranks), and which of the differences exceed the noise.\n"
        "BASELINE and CANDIDATE are runs as for 'tacho report'. Their numbers of steps may "
        "differ.",
    .options = options,
    .examples = "  tacho diff before.tacho after.tacho\n"
                "  tacho diff main.json.gz branch.json.gz --fail-above 3%   # in CI: exit code 1 "
                "if it is slower",
    .least = 2,
    .most = 2,
    .words_missing = "the two runs, BASELINE and CANDIDATE",
};

/* "3%", "3 %", "2.5". */
static int limit_of(const char *text, double *pct)
{
    char *end = NULL;
    *pct = NAN;
    if (!text)
        return 0;
    errno = 0;
    *pct = strtod(text, &end);
    bool number = end != text && !errno && isfinite(*pct);
    end += strspn(end, " ");
    end += *end == '%';
    if (!number || *end || *pct < 0 || *pct > 1e6 || strchr(text, 'x'))
        return cli_usage("diff", "give a percentage: --fail-above 3%",
                         "--fail-above: '%s' is not a percentage", text);
    return 0;
}

/* Finds and analyzes one of the two runs. 0 or an exit code, after a message. */
static int load(const struct values *values, const char *run, struct an_result **result)
{
    struct col_found found;
    char *classes = NULL;
    int code = cli_classes_load(values->classes, &classes);
    if (!code)
        code = cli_run_find(run, &found);
    if (!code)
        code = cli_run_analyze(&found, &(struct an_options){.samples = true, .classes = classes},
                               result);
    free(classes);
    return code;
}

/* Analyzes both runs and compares them. 0 or an exit code, after a message. */
static int compare(const struct values *values, char **run, struct an_diff **diff)
{
    struct an_result *result[2] = {NULL, NULL};
    int code = load(values, run[0], &result[0]);
    if (!code)
        code = load(values, run[1], &result[1]);
    if (!code) {
        int rc = an_diff_results(result[0], result[1], (int)values->top, diff);
        if (rc)
            code = cli_error(rc, NULL, "%s, %s: the runs could not be compared: %s", run[0], run[1],
                             tacho_error_text(rc));
    }
    an_result_free(result[0]);
    an_result_free(result[1]);
    return code;
}

static int write_diff(const struct values *values, char *const *arguments,
                      const struct an_diff *diff, const struct rep_diff_gate *gate)
{
    struct cli_output out;
    struct rep_options settings = cli_report_options(
        values->width, values->no_color ? "never" : values->color, values->output);
    int code = cli_output_open(&out, values->output, arguments);
    if (code)
        return code;
    int rc = values->json ? rep_diff_json(diff, gate, out.file)
                          : rep_diff_text(diff, gate, &settings, out.file);
    return cli_output_end(&out, rc, "diff", "comparison");
}

int cli_diff(int argc, char **argv)
{
    struct values values = {0};
    struct an_diff *diff = NULL;
    struct rep_diff_gate gate = {.fail_above_pct = NAN};
    int first, code = cli_parse(&cli_diff_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = limit_of(values.fail_above, &gate.fail_above_pct);
    if (!code)
        code = compare(&values, argv + first, &diff);
    if (code)
        return code;
    gate.failed = !isnan(gate.fail_above_pct) && an_diff_above(diff, gate.fail_above_pct);
    code = write_diff(&values, argv + first, diff, &gate);
    if (!code && gate.failed)
        code = EXIT_THRESHOLD;
    an_diff_free(diff);
    return code;
}
