/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho history: every recorded run over time.
 */
#include <string.h>

#include "cli/base/enter_history.h"
#include "cli/base/message.h"
#include "cli/commands/commands.h"
#include "cli/history/verbs.h"

struct values {
    struct cli_history_options o;
    struct cli_view view;
};

#define OPTION(field) o.field
#define RUNS          5

static const struct cli_option options[] = {
    CLI_TEXT_ROW("metric", 'm', CLI_TEXT, OPTION(metric), "KIND.NAME",
                 "the value: step.mean (without it), class.compute, operator.NAME ..."),
    CLI_TEXT_ROW("recipe", 'r', CLI_TEXT, OPTION(recipe), "HASH",
                 "runs of this recipe only; import: the name of the recipe"),
    CLI_TEXT_ROW("host", 0, CLI_TEXT, OPTION(host), "HASH", "runs on such hosts only"),
    CLI_TEXT_ROW("since", 0, CLI_TEXT, OPTION(since), "DAY",
                 "runs since a day (2026-11-01), or of the last days (30d)"),
    CLI_NUMBER_ROW("limit", 'n', CLI_INT, OPTION(limit), "N", "the newest N runs", 1, 1e9),
    CLI_FLAG_ROW("json", 'j', OPTION(json),
                 "print JSON; export: an object a line, with everything"),
    CLI_FLAG_ROW("csv", 0, OPTION(csv), "list, export: comma-separated (RFC 4180)"),
    CLI_FLAG_ROW("mllog", 0, OPTION(mllog), "export: lines of MLPerf's logs"),
    CLI_FIELDS_ROW,
    CLI_TEXT_ROW("output", 'o', CLI_TEXT, OPTION(output), "FILE", "export: into a file"),
    CLI_TEXT_ROW("fail-above", 0, CLI_TEXT, OPTION(fail_above), "PCT",
                 "check: exit with 1 if the step is longer by more than PCT, with 6 if undecided"),
    CLI_TEXT_ROW("good", 0, CLI_TEXT, OPTION(good), "COMMIT", "bisect: one before the change"),
    CLI_TEXT_ROW("bad", 0, CLI_TEXT, OPTION(bad), "COMMIT", "bisect: one after it"),
    CLI_TEXT_ROW("build", 0, CLI_TEXT, OPTION(build), "SHELL",
                 "bisect: the shell command that builds a commit"),
    CLI_NUMBER_ROW("runs", 0, CLI_INT, OPTION(runs), "N", "bisect: runs of each commit (5)", 3, 32),
    {0},
};

const struct cli_spec cli_history_spec = {
    .help = "list recorded runs over time, find when a step changed and what moved",
    .usage = "VERB [OPTION]... [RUN|FILE]... | bisect [OPTION]... -- COMMAND",
    .about =
        "Each run that 'tacho run' records enters a database of the user "
        "(~/.local/share/tacho/history.db): its command,\n"
        "host and commit, its step times and where they went. TACHO_HISTORY=FILE keeps it "
        "elsewhere, TACHO_HISTORY=off keeps none.\n"
        "\n"
        "verbs:\n"
        "  list              the runs, newest first\n"
        "  show [RUN]        all that is kept of a run\n"
        "  trend [RUN]       a value of all runs with this command on such a host: when did it "
        "change, and what moved\n"
        "  compare RUN RUN   in what two runs differ, their environment first\n"
        "  check RUN...      are these slower than the last stable level before them? (also: tacho "
        "diff --baseline history)\n"
        "  bisect            runs COMMAND at commits between --good and --bad until one is left, "
        "in "
        "a working tree of its own\n"
        "  export            as CSV, JSON lines or a log of MLPerf\n"
        "  import FILE...    such an export, or a table of runs of W&B, MLflow or Trackio\n"
        "RUN is the number of a run in the list, the beginning of its commit, its file, or "
        "'latest'.",
    .options = options,
    .examples = "  tacho history trend\n"
                "  tacho history trend --metric operator.MATMUL --json\n"
                "  tacho history compare 12 latest\n"
                "  tacho history bisect --good v1.0 --bad main --build make -- ./train config.json",
    .least = 1,
    .most = -1,
    .words_missing = "a verb: list, show, trend, compare, check, bisect, export or import",
};

/* `takes`: the options that mean something to the verb. */
static const struct verb {
    const char *name;
    int (*run)(struct history *, const struct cli_history_options *, int, char **);
    bool writes;
    int least, most; /* words; most < 0: any number */
    const char *takes;
} verbs[] = {
    {"list", cli_history_list, false, 0, 0, "metric recipe host since limit json csv fields"},
    {"show", cli_history_show, false, 0, 1, "json"},
    {"trend", cli_history_trend, false, 0, 1, "metric recipe host since limit json fields"},
    {"compare", cli_history_compare, false, 2, 2, "json fields"},
    {"check", cli_history_check, false, 1, -1, "json fields fail-above"},
    {"bisect", cli_history_bisect, false, 1, -1, "good bad build runs"},
    {"export", cli_history_write, false, 0, 0, "recipe host since limit json csv mllog output"},
    {"import", cli_history_read, true, 1, -1, "recipe"},
};
#define VERBS (sizeof verbs / sizeof *verbs)

static const struct verb *find_verb(const char *word)
{
    const char *names[VERBS + 1] = {NULL};
    for (size_t i = 0; i < VERBS; i++) {
        names[i] = verbs[i].name;
        if (!strcmp(word, verbs[i].name))
            return &verbs[i];
    }
    char hint[80];
    const char *closest = cli_closest(word, names);
    snprintf(hint, sizeof hint, "did you mean '%s'?", closest ? closest : "");
    cli_usage("history", closest ? hint : "'tacho history --help' lists the verbs",
              "unknown verb '%s'", word);
    return NULL;
}

/* The first option that was given and that the verb does not take. NULL: none. */
static const char *refused(const struct verb *verb, const struct values *values)
{
    const struct cli_history_options *o = &values->o;
    const struct {
        const char *name;
        bool given;
    } option[] = {
        {"metric", o->metric}, {"recipe", o->recipe},         {"host", o->host},
        {"since", o->since},   {"limit", o->limit},           {"json", o->json},
        {"csv", o->csv},       {"mllog", o->mllog},           {"fields", values->view.fields},
        {"output", o->output}, {"fail-above", o->fail_above}, {"good", o->good},
        {"bad", o->bad},       {"build", o->build},           {"runs", o->runs != RUNS}};
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        if (option[i].given && !strstr(verb->takes, option[i].name))
            return option[i].name;
    return NULL;
}

static int check(const struct verb *verb, const struct values *values, int count)
{
    const char *option = refused(verb, values);
    if (option)
        return cli_usage("history", "'tacho history --help' lists the options",
                         "%s does not take --%s", verb->name, option);
    if (count < verb->least || (verb->most >= 0 && count > verb->most))
        return cli_usage("history", "'tacho history --help' shows how", "%s: wrong number of words",
                         verb->name);
    if (values->o.json + values->o.csv + values->o.mllog > 1)
        return cli_usage("history", NULL, "give one of --json, --csv and --mllog");
    return cli_view_check("history", &values->view, values->o.json);
}

int cli_history(int argc, char **argv)
{
    struct values values = {.o.runs = RUNS};
    struct history *history = NULL;
    int first, code = cli_parse(&cli_history_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    const struct verb *verb = find_verb(argv[first]);
    if (!verb)
        return 2;
    values.o.view = values.view;
    code = check(verb, &values, argc - first - 1);
    if (!code)
        code = cli_percent("history", "fail-above", values.o.fail_above, &values.o.limit_pct);
    if (!code && verb->run != cli_history_bisect)
        code = cli_history_open(verb->writes, &history);
    if (!code)
        code = verb->run(history, &values.o, argc - first - 1, argv + first + 1);
    history_close(history);
    return code;
}
