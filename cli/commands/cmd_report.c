/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho report: where the time of each step went, in all formats.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/base/classes_file.h"
#include "cli/base/enter_history.h"
#include "cli/base/message.h"
#include "cli/base/pager.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "cli/view/view.h"
#include "reports/sections/sections.h"
#include "tacho_error.h"

struct values {
    struct cli_range steps;
    const char *output, *color, *by, *classes, *marker, *hta, *sections, *explain;
    int64_t width, ops;
    double peak, flops, price, mtbf;
    struct cli_view view;
    bool json, markdown, html, full, save, definitions, no_color, tracelens, tb;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("json", 'j', json, "print JSON (tacho-report/1)"),
    CLI_FIELDS_ROW,
    CLI_LIMIT_ROW,
    CLI_FLAG_ROW("markdown", 0, markdown, "print Markdown, for a ticket"),
    CLI_FLAG_ROW("html", 0, html, "write one file with charts, to open in a browser"),
    CLI_FLAG_ROW("full", 'f', full, "print everything, not only the first screen"),
    CLI_TEXT_ROW("explain", 'e', CLI_TEXT, explain, "N|ID",
                 "print the card of finding N: evidence, action, check"),
    CLI_OUTPUT_ROW,
    CLI_FLAG_ROW("save", 0, save, "also save metrics and findings in the run's file"),
    CLI_FLAG_ROW("definitions", 0, definitions, "append the definitions of the numbers"),
    CLI_TEXT_ROW("steps", 0, CLI_RANGE, steps, "A:B", "only steps A to B (A: or :B or one index)"),
    CLI_TEXT_ROW("section", 0, CLI_TEXT, sections, "NAME,...",
                 "only these sections: budget, trust, cards, ops"),
    CLI_TEXT_ROW("by", 0, CLI_CHOICE, by, "op|module|line|annotation",
                 "GPU time by operator, module, line or annotation (op)"),
    CLI_NUMBER_ROW("top", 0, CLI_INT, ops, "N", "rows of the tables (12)", 1, 100000),
    CLI_NUMBER_ROW("ops", 0, CLI_INT, ops, "N", "the same as --top", 1, 100000),
    CLI_MARKER_ROW,
    CLI_CLASSES_ROW,
    CLI_NUMBER_ROW("peak", 0, CLI_NUMBER, peak, "FLOPS",
                   "peak of one device in FLOP/s, for MFU: 990T", 1, 1e21),
    CLI_NUMBER_ROW("flops-per-step", 0, CLI_NUMBER, flops, "FLOP",
                   "model FLOPs of one step over all ranks, for MFU", 1, 1e24),
    CLI_NUMBER_ROW("mtbf", 0, CLI_NUMBER, mtbf, "HOURS",
                   "mean time between failures of the job (default: from failed runs in the "
                   "history), for the checkpoint interval",
                   1e-3, 1e6),
    CLI_NUMBER_ROW("price-kwh", 0, CLI_NUMBER, price, "PRICE",
                   "price of a kWh, in your currency, for the cost of energy", 1e-6, 1e6),
    CLI_FLAG_ROW("tracelens-compat", 0, tracelens,
                 "also TraceLens' gpu_timeline, computed its way"),
    CLI_TEXT_ROW("hta-compat", 0, CLI_MAYBE, hta, "last",
                 "also HTA's figures; last: include the last step"),
    CLI_FLAG_ROW("tb-compat", 0, tb, "also the step breakdown of the TensorBoard plugin"),
    CLI_WIDTH_ROW,
    CLI_COLOR_ROW,
    CLI_NO_COLOR_ROW,
    {0},
};

const struct cli_spec cli_report_spec = {
    .help = "show where each step's time went, from a recorded run",
    .usage = "[OPTION]... [RUN]",
    .about = "RUN is a .tacho file, a .tacho.live folder, a Kineto .json or .json.gz, an Nsight "
             "Systems .sqlite, a folder of\n"
             "traces of several ranks, or 'latest' (the default): the newest run in this folder.",
    .options = options,
    .examples = "  tacho report\n"
                "  tacho report train-20260101-120000.tacho --json | jq .budget\n"
                "  tacho report rank0.pt.trace.json.gz --by module --top 20",
    .most = 1,
};

/* Saves metrics and findings into the file of the run. 0 or an exit code, after a message. */
static int save(const struct col_found *found, const struct an_result *result)
{
    struct tacho_error err = {0};
    if (found->live)
        return cli_error(TACHO_EBUSY, "wait for the run to end",
                         "%s: still being recorded: nothing was saved", found->run);
    return cli_run_save(found->path, result, &err) ? cli_fail(&err) : 0;
}

/* One tool at a time: the tables have the same keys for different things. */
static int compat_of(const struct values *values, enum an_compat *compat)
{
    *compat = values->tracelens ? AN_COMPAT_TRACELENS : AN_COMPAT_NONE;
    if (values->tb)
        *compat = AN_COMPAT_TB;
    if (values->hta)
        *compat = *values->hta ? AN_COMPAT_HTA_LAST : AN_COMPAT_HTA;
    if (values->tracelens + values->tb + (values->hta != NULL) > 1)
        return cli_usage("report", NULL,
                         "only one of --tracelens-compat, --hta-compat and --tb-compat");
    return 0;
}

/* Is there advice that depends on how often the job fails? */
static bool asks_for_failures(const struct an_result *result)
{
    for (size_t i = 0; i < result->finding_count; i++)
        if (!strcmp(result->findings[i].id, "CHECKPOINT"))
            return true;
    return false;
}

/* Finds and analyses the run. 0 or an exit code, after a message. */
static int load(const struct values *values, const char *run, struct col_found *found,
                struct an_result **result)
{
    struct an_options settings = {.peak_flops = values->peak,
                                  .flops_per_step = values->flops,
                                  .price_per_kwh = values->price,
                                  .mtbf_hours = values->mtbf,
                                  .step_marker = values->marker,
                                  .some_steps = values->steps.set,
                                  .step_from = values->steps.from,
                                  .step_to = values->steps.to};
    char *classes = NULL;
    int code = compat_of(values, &settings.compat);
    if (!code)
        code = cli_classes_load(values->classes, &classes);
    if (!code)
        code = cli_run_find(run, found);
    if (!code && values->save && cli_run_is_import(found))
        code = cli_run_refuse_import(found, "--save");
    settings.classes = classes;
    settings.events = values->html; /* the timeline of a page can be zoomed */
    if (!code)
        code = cli_run_analyze(found, &settings, result);
    char source[CLI_HISTORY_WORDS];
    if (!code && !(values->mtbf > 0) && asks_for_failures(*result) &&
        (settings.mtbf_hours = cli_history_mtbf(*result, source)) > 0) {
        settings.mtbf_source = source;
        an_result_free(*result);
        code = cli_run_analyze(found, &settings, result);
    }
    free(classes);
    return code;
}

/* 0, or an exit code after a message that names the sections. */
static int check_sections(const struct values *values)
{
    char names[512] = "";
    size_t length = 0, used = 0;
    int code = cli_view_check("report", &values->view, values->json);
    if (code)
        return code;
    if (values->json && (values->sections || values->explain))
        return cli_usage("report", NULL, "%s is not for --json, which holds everything",
                         values->sections ? "--section" : "--explain");
    if (!values->sections)
        return 0;
    if (values->explain)
        return cli_usage("report", NULL, "only one of --section and --explain");
    const char *unknown = rep_sections_unknown(values->sections, &length);
    if (!unknown)
        return 0;
    for (size_t i = 0; rep_sections_id(i) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 rep_sections_id(i));
    return cli_usage("report", NULL, "--section: no section '%.*s': %s", (int)length, unknown,
                     names);
}

/* Does an option ask for what only the whole report has? */
static bool wants_all(const struct values *values)
{
    return values->full || values->definitions || values->ops || values->by || values->hta ||
           values->tracelens || values->tb;
}

static const char *format_of(const struct values *values)
{
    if (values->json)
        return "json";
    if (values->markdown)
        return "markdown";
    return values->html ? "html" : "text";
}

struct document {
    const struct an_result *result;
    const struct rep_options *options;
    const char *format;
};

static int write_document(const void *context, FILE *out)
{
    const struct document *document = context;
    return rep_write(document->format, document->result, document->options, out);
}

int cli_report(int argc, char **argv)
{
    struct values values = {0};
    struct col_found found;
    struct an_result *result = NULL;
    struct cli_output out;
    int first, code = cli_parse(&cli_report_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    if (values.json + values.markdown + values.html > 1)
        return cli_usage("report", NULL, "only one of --json, --markdown and --html");
    code = check_sections(&values);
    if (code)
        return code;
    code = load(&values, first < argc ? argv[first] : "latest", &found, &result);
    if (code)
        return code;
    struct rep_options settings =
        cli_report_options(values.width, values.no_color ? "never" : values.color, values.output);
    settings.definitions = values.definitions;
    settings.ops = (int)values.ops;
    settings.by = values.by;
    settings.sections = values.sections;
    settings.brief = !wants_all(&values) && !values.sections && !values.explain;
    code = cli_run_finding("report", values.explain, result, &settings.explain);
    if (code) {
        an_result_free(result);
        return code;
    }
    code = cli_output_open(&out, values.output, argv + first);
    if (!code) {
        bool paged = !values.output && !values.json && !values.html && !settings.brief;
        struct cli_pager pager = {0};
        if (paged)
            cli_pager_start(&pager);
        bool left = pager.child != 0; /* then a broken pipe is no error */
        struct document document = {result, &settings, format_of(&values)};
        int rc = cli_view_write("report", &values.view, write_document, &document, out.file);
        cli_pager_end(&pager);
        code = cli_output_end(&out, left && rc == TACHO_EIO ? 0 : rc, found.run, "report");
    }
    if (!code && values.save)
        code = save(&found, result);
    an_result_free(result);
    return code;
}
