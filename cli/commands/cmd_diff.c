/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho diff: what takes more time in one run than in another, as text or JSON, and as an exit code
 * for continuous integration.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/diff/diff.h"
#include "cli/base/classes_file.h"
#include "cli/base/enter_history.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "cli/history/verbs.h"
#include "cli/view/view.h"
#include "reports/diff/diff_write.h"

#define RUNS_MOST 64

struct values {
    const char *output, *color, *classes, *marker, *fail_above, *run_sd, *baseline;
    int64_t width, top;
    struct cli_view view;
    bool json, no_color;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW("fail-above", 0, CLI_TEXT, fail_above, "PCT",
                 "exit with 1 if the step is longer by more than PCT (for example 3%), with 6 if "
                 "the runs are too few to decide"),
    CLI_TEXT_ROW("assume-run-sd", 0, CLI_TEXT, run_sd, "PCT",
                 "standard deviation between runs that is assumed: then one run a side can decide"),
    CLI_TEXT_ROW("baseline", 0, CLI_CHOICE, baseline, "history",
                 "all RUNs are candidates; the baseline is the last stable level of the history"),
    CLI_FLAG_ROW("json", 'j', json, "print JSON (tacho-diff/1)"),
    CLI_FIELDS_ROW,
    CLI_LIMIT_ROW,
    CLI_OUTPUT_ROW,
    CLI_NUMBER_ROW("top", 0, CLI_INT, top, "N", "rows of each table (10)", 1, 1000),
    CLI_MARKER_ROW,
    CLI_CLASSES_ROW,
    CLI_WIDTH_ROW,
    CLI_COLOR_ROW,
    CLI_NO_COLOR_ROW,
    {0},
};

const struct cli_spec cli_diff_spec = {
    .help = "compare two runs: what takes more time; fail a build that got slower",
    .usage = "[OPTION]... BASELINE CANDIDATE | BASELINE... -- CANDIDATE... | --baseline history "
             "CANDIDATE...",
    .about =
        "Shows what takes more or less time per step in CANDIDATE than in BASELINE (parts of the "
        "step, operators, kernels,\n"
        "ranks), and which of the differences exceed the noise.\n"
        "BASELINE and CANDIDATE are runs as for 'tacho report'. Their numbers of steps may "
        "differ. Of several runs\n"
        "a side the middle ones are shown; --fail-above needs several, because the steps of one "
        "run do not say\n"
        "how much runs differ.",
    .options = options,
    .examples = "  tacho diff before.tacho after.tacho\n"
                "  tacho diff --fail-above 3% main-*.tacho -- branch-*.tacho   # in CI: exit code "
                "1 if it is slower, 6 if undecided\n"
                "  tacho diff --baseline history --fail-above 3% latest",
    .least = 1,
    .most = RUNS_MOST,
    .words_missing = "the two runs, BASELINE and CANDIDATE",
};

/* The runs of both sides, the baseline's first. */
struct sides {
    char **run;
    size_t good, bad;
    struct an_result *result[RUNS_MOST];
    double step[RUNS_MOST]; /* median, in the unit of the first run */
};

/* Words after the last "--" of the command line. */
static size_t words_after_dashes(int argc, char **argv)
{
    for (int i = argc - 1; i > 0; i--)
        if (!strcmp(argv[i], "--"))
            return (size_t)(argc - 1 - i);
    return 0;
}

/* Splits the runs: at "--", or two runs without it. */
static int split(struct sides *sides, char **run, size_t count, size_t after)
{
    if (count < 2)
        return cli_usage("diff", "tacho diff BASELINE CANDIDATE",
                         "give the two runs, BASELINE and CANDIDATE");
    sides->run = run;
    sides->bad = after && after < count ? after : 1;
    sides->good = count - sides->bad;
    if (count == 2 || (after && after < count))
        return 0;
    return cli_usage("diff", "tacho diff BASELINE... -- CANDIDATE...",
                     "give '--' between the runs of the baseline and those of the candidate");
}

/* Finds and analyzes one of the two runs. 0 or an exit code, after a message. */
static int load(const struct values *values, const char *run, struct an_result **result)
{
    struct col_found found;
    char *classes = NULL;
    int code = cli_classes_load(values->classes, &classes);
    struct an_options settings = {
        .samples = true, .classes = classes, .step_marker = values->marker};
    if (!code)
        code = cli_run_find(run, &found);
    if (!code)
        code = cli_run_analyze(&found, &settings, result);
    free(classes);
    return code;
}

/* The run of a side with the middle value: it is shown. */
static size_t middle_of(const double *step, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t below = 0;
        for (size_t k = 0; k < count; k++)
            below += step[k] < step[i] || (step[k] == step[i] && k < i);
        if (below == (count - 1) / 2)
            return i;
    }
    return 0;
}

/* Analyzes all runs and compares the middle ones of both sides. 0 or an exit code, after a
 * message. */
static int compare(const struct values *values, struct sides *sides, struct an_diff **diff)
{
    int code = 0;
    size_t count = sides->good + sides->bad;
    for (size_t i = 0; i < count && !code; i++) {
        code = load(values, sides->run[i], &sides->result[i]);
        if (!code)
            sides->step[i] = an_diff_run_step(sides->result[0], sides->result[i], false);
    }
    if (!code) {
        size_t good = middle_of(sides->step, sides->good),
               bad = sides->good + middle_of(sides->step + sides->good, sides->bad);
        int rc = an_diff_results(sides->result[good], sides->result[bad], (int)values->top, diff);
        if (rc)
            code = cli_error(rc, NULL, "%s, %s: the runs could not be compared: %s",
                             sides->run[good], sides->run[bad], tacho_error_text(rc));
    }
    for (size_t i = 0; i < count; i++)
        an_result_free(sides->result[i]);
    return code;
}

struct document {
    const struct an_diff *diff;
    const struct an_gate *gate;
};

static int write_document(const void *context, FILE *out)
{
    const struct document *document = context;
    return rep_diff_json(document->diff, document->gate, out);
}

static int write_diff(const struct values *values, char *const *arguments,
                      const struct an_diff *diff, const struct an_gate *gate)
{
    struct cli_output out;
    struct rep_options settings = cli_report_options(
        values->width, values->no_color ? "never" : values->color, values->output);
    int code = cli_output_open(&out, values->output, arguments);
    if (code)
        return code;
    int rc = values->json ? cli_view_write("diff", &values->view, write_document,
                                           &(struct document){diff, gate}, out.file)
                          : rep_diff_text(diff, gate, &settings, out.file);
    return cli_output_end(&out, rc, "diff", "comparison");
}

/* All runs are candidates; the history has the baseline. */
static int diff_history(const struct values *values, const struct an_gate_input *input, int count,
                        char **runs)
{
    struct history *history = NULL;
    struct cli_history_options asked = {
        .json = values->json, .view = values->view, .limit_pct = input->limit_pct};
    if (values->run_sd || values->output || values->classes || values->marker)
        return cli_usage("diff", NULL,
                         "--baseline takes no --assume-run-sd, --output, --classes, --step-marker");
    int code = cli_history_open(false, &history);
    if (!code)
        code = cli_history_check(history, &asked, count, runs);
    history_close(history);
    return code;
}

int cli_diff(int argc, char **argv)
{
    struct values values = {0};
    struct an_diff *diff = NULL;
    struct an_gate_input input = {.limit_pct = NAN};
    struct sides sides = {0};
    size_t after = words_after_dashes(argc, argv);
    int first, code = cli_parse(&cli_diff_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = cli_view_check("diff", &values.view, values.json);
    code = code ? code : cli_percent("diff", "fail-above", values.fail_above, &input.limit_pct);
    code = code ? code : cli_percent("diff", "assume-run-sd", values.run_sd, &input.run_sd_pct);
    if (!code && values.baseline)
        return diff_history(&values, &input, argc - first, argv + first);
    code = code ? code : split(&sides, argv + first, (size_t)(argc - first), after);
    code = code ? code : compare(&values, &sides, &diff);
    if (code)
        return code;
    input.good = sides.step;
    input.good_count = sides.good;
    input.bad = sides.step + sides.good;
    input.bad_count = sides.bad;
    input.within_pct = an_diff_within_pct(diff);
    struct an_gate gate = an_gate_decide(&input);
    code = write_diff(&values, argv + first, diff, &gate);
    code = code ? code : cli_gate_exit(&gate);
    an_diff_free(diff);
    return code;
}
