/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho top: the dashboard, or its figures as text or as a line of JSON for each refresh.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/remote.h"
#include "cli/base/run_file.h"
#include "cli/base/top_source.h"
#include "cli/commands/commands.h"
#include "cli/view/view.h"
#include "cli/watch/fleet_view.h"
#include "reports/json/json_writer.h"
#include "tacho_utf8.h"

#define SCHEMA      "tacho-top/1"
#define PATIENCE_MS 50 /* of a file that says nothing, before the screen comes */

struct values {
    const char *view, *theme, *glyphs, *size, *color, *marker, *against, *fleet, *token_file;
    int64_t frames;
    double interval, peak, flops;
    bool batch, json, mouse, no_mouse, no_color;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW("view", 0, CLI_TEXT, view, "NAME",
                 "first view: overview, roofline, timeline ... ('?' lists them)"),
    CLI_TEXT_ROW("against", 0, CLI_TEXT, against, "RUN",
                 "draw the steps of RUN behind those shown"),
    CLI_NUMBER_ROW("interval", 0, CLI_NUMBER, interval, "SECONDS",
                   "time between two updates of a live run (1)", 0.1, 3600),
    CLI_TEXT_ROW("theme", 0, CLI_CHOICE, theme, "dark|light|mono", "colour theme"),
    CLI_TEXT_ROW("glyphs", 0, CLI_CHOICE, glyphs, "braille|block|ascii",
                 "characters that draw the charts"),
    CLI_FLAG_ROW("mouse", 0, mouse, "select views and rows with the mouse"),
    CLI_FLAG_ROW("no-mouse", 0, no_mouse, "leave the mouse to the terminal"),
    CLI_FLAG_ROW("batch", 'b', batch, "print frames as text instead of a screen"),
    CLI_FLAG_ROW("json", 'j', json,
                 "print one JSON object per line instead of a screen (tacho-top/1)"),
    CLI_NUMBER_ROW("frames", 'n', CLI_INT, frames, "N",
                   "number of frames or lines (until the run ends)", 1, 1e9),
    CLI_TEXT_ROW("size", 0, CLI_TEXT, size, "ROWSxCOLUMNS", "size of a frame of --batch (24x80)"),
    CLI_NUMBER_ROW("peak", 0, CLI_NUMBER, peak, "FLOPS",
                   "peak of one device in FLOP/s, for MFU: 990T", 1, 1e21),
    CLI_NUMBER_ROW("flops-per-step", 0, CLI_NUMBER, flops, "FLOP",
                   "model FLOPs of one step over all ranks, for MFU", 1, 1e24),
    CLI_TEXT_ROW(
        "fleet", 0, CLI_TEXT, fleet, "FILE|URL",
        "instead the runs that many 'tacho watch' see, a row for each (docs/monitor-export.md)"),
    CLI_TEXT_ROW("token-file", 0, CLI_TEXT, token_file, "FILE", "for --fleet: a token to send"),
    CLI_MARKER_ROW,
    CLI_COLOR_ROW,
    CLI_NO_COLOR_ROW,
    {0},
};

const struct cli_spec cli_top_spec = {
    .help = "watch a live or finished run: a dashboard in the terminal",
    .usage = "[OPTION]... [RUN]",
    .about =
        "RUN is a live or finished run, as for 'tacho report'. Default: the newest run that is "
        "being recorded on this\n"
        "machine, else the latest run in this folder. '?' shows the keys. Settings changed by "
        "keys are kept in\n"
        "$XDG_CONFIG_HOME/tacho/top.conf.",
    .options = options,
    .examples = "  tacho top\n"
                "  tacho top train-20260101-120000.tacho --view timeline\n"
                "  tacho top --batch -n 1 --size 50x200\n"
                "  tacho top --fleet nodes.json\n"
                "  tacho top --json --interval 10 | jq -c '[.time, .report.verdict_class, "
                ".report.budget.input_pct]'",
    .most = 1,
};

/* ---- one line of JSON ------------------------------------------------------------------------------------------------------------- */

/* A string or null: jansson refuses text that is not UTF-8. As in the report, a text has at most
 * REP_JSON_TEXT bytes; it is cut between two characters. */
static json_t *text(const char *string)
{
    if (!string)
        return json_null();
    json_t *j = json_stringn(string, tacho_utf8_cut(string, strnlen(string, REP_JSON_TEXT)));
    return j ? j : json_null(); /* not UTF-8 */
}

static json_t *number(int64_t value)
{
    return value == STORE_ABSENT ? json_null() : json_integer(value);
}

/* The newest value of each series of the run. */
static json_t *series_json(const struct tui_facts *facts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < facts->series_count; i++) {
        const struct tui_fact *fact = &facts->series[i];
        json_array_append_new(list, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "name", text(fact->name),
                                              "unit", text(fact->unit), "device",
                                              text(fact->device), "rank", number(fact->rank),
                                              "process", number(fact->process), "value",
                                              cli_view_number(fact->value)));
    }
    return list;
}

/* The report without its long tables: those of ops, devices and whatever grows with the program. */
static json_t *report_json(const struct an_result *result)
{
    static const char *const kept[] = {
        "verdict", "verdict_class",    "caution",       "healthy",     "not_checked", "steps",
        "budget",  "budget_by_device", "phases",        "utilization", "ranks",       "memory",
        "energy",  "dataloader",       "communication", "system",      "findings",    "trust"};
    json_t *all = cli_run_json(result), *some = json_object(), *absent = json_object(), *reason;
    const char *pointer;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(some, kept[i], json_object_get(all, kept[i]));
    json_object_foreach(json_object_get(all, "absent"), pointer, reason)
    {
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
            size_t length = strlen(kept[i]);
            if (!strncmp(pointer + 1, kept[i], length) &&
                (!pointer[length + 1] || pointer[length + 1] == '/'))
                json_object_set(absent, pointer, reason);
        }
    }
    json_object_set_new(some, "absent", absent);
    json_decref(all);
    return some;
}

/* A number that is absent below `least`. */
static json_t *at_least(int64_t value, int64_t least)
{
    return value < least ? json_null() : json_integer(value);
}

/* Prints one refresh of the dashboard as a line of JSON. */
static int write_line(void *ctx, const struct tui_facts *facts, const struct an_result *result)
{
    char stamp[64];
    time_t now = time(NULL);
    struct tm tm;
    (void)ctx;
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    json_t *line = json_pack(
        "{s:s,s:s,s:o,s:s,s:o,s:o,s:o,s:{s:I,s:o,s:o,s:o,s:o,s:o},s:I,s:o,s:o,s:o,s:o}", "schema",
        SCHEMA, "time", stamp, "run", text(facts->run), "state", facts->state, "message",
        text(facts->message), "now_s", cli_view_number(facts->now_s), "age_s",
        cli_view_number(facts->age_s), "steps", "seen", (json_int_t)facts->steps, "expected",
        at_least(facts->expected, 1), "left_s", cli_view_number(facts->left_s), "last_index",
        at_least(facts->last_index, 0), "recent_ms", cli_view_number(facts->recent_ms),
        "recent_tokens_per_s", cli_view_number(facts->recent_tokens_per_s), "slices",
        (json_int_t)facts->slices, "counters", series_json(facts), "window", text(facts->window),
        "reason", text(facts->reason), "report", result ? report_json(result) : json_null());
    char *out = line ? json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(line);
    if (!out)
        return TACHO_ENOMEM;
    int rc = puts(out) < 0 || fflush(stdout) ? TACHO_EIO : 0;
    free(out);
    return rc;
}

/* ---- options ---------------------------------------------------------------------------------------------------------------------- */

/* The index of a word in a list that ends with NULL; -1: it is not there, or is NULL. */
static int choice(const char *word, const char *const *words)
{
    for (int i = 0; word && words[i]; i++)
        if (!strcmp(word, words[i]))
            return i;
    return -1;
}

/* 0, or an exit code after a message that names the closest view or all of them. */
static int check_view(const char *view)
{
    const char *const *names = tui_view_names();
    char hint[300] = "";
    if (!view || choice(view, names) >= 0)
        return 0;
    const char *close = cli_closest(view, names);
    if (close)
        snprintf(hint, sizeof hint, "did you mean '%s'?", close);
    else
        for (size_t used = 0; *names; names++)
            used += (size_t)snprintf(hint + used, sizeof hint - used, "%s%s",
                                     used ? ", " : "one of ", *names);
    return cli_usage("top", hint, "--view: no view named '%.60s'", view);
}

/* ROWSxCOLUMNS of --size. 0 or an exit code, after a message. */
static int parse_size(const char *size, struct tui_options *settings)
{
    char end;
    if (!size || (sscanf(size, "%dx%d%c", &settings->rows, &settings->columns, &end) == 2 &&
                  settings->rows >= 1 && settings->rows <= 1000 && settings->columns >= 1 &&
                  settings->columns <= 1000))
        return 0;
    return cli_usage("top", "give rows and columns, 1 to 1000: --size 24x80",
                     "--size: '%.60s' is not a size", size);
}

/* Turns the options of the command line into those of the dashboard. 0 or an exit code. */
static int set_options(const struct values *values, struct tui_options *settings)
{
    static const char *const themes[] = {"dark", "light", "mono", NULL}, *const glyphs[] = {
                                                                             "ascii", "block",
                                                                             "braille", NULL};
    const char *color = values->no_color ? "never" : values->color;
    *settings = (struct tui_options){.theme = choice(values->theme, themes),
                                     .glyphs = choice(values->glyphs, glyphs),
                                     .mouse = -1,
                                     .interval_ms = (int)(values->interval * 1e3),
                                     .color = cli_color(color, STDOUT_FILENO),
                                     .utf8 = cli_utf8(),
                                     .view = values->view,
                                     .frames = (int)values->frames,
                                     .rows = 24,
                                     .columns = 80};
    if (values->mouse || values->no_mouse)
        settings->mouse = !values->no_mouse;
    if (!values->frames)
        settings->frames = -1;
    int code = check_view(values->view);
    return code ? code : parse_size(values->size, settings);
}

/* --fleet: many runs, by what their watches export. */
static int show_fleet(const struct values *values, bool has_run)
{
    if (values->json || has_run)
        return cli_usage("top", "RUN and --json are about one run", "--fleet shows many runs");
    return cli_fleet_view(
        &(struct cli_fleet_view){.from = values->fleet,
                                 .token_file = values->token_file,
                                 .interval_s = values->interval,
                                 .frames = values->frames,
                                 .screen = !values->batch && isatty(STDOUT_FILENO)});
}

int cli_top(int argc, char **argv)
{
    struct values values = {.interval = 1};
    struct cli_top_source source = {.used = false};
    struct tui_options settings;
    struct tacho_error err = {0};
    int first, code = cli_parse(&cli_top_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    if (values.batch && values.json)
        return cli_usage("top", NULL, "only one of --batch and --json");
    if (values.fleet)
        return show_fleet(&values, first < argc);
    if (cli_is_remote(first < argc ? argv[first] : NULL))
        return cli_remote_run(argv[first], argc, argv);
    if ((code = set_options(&values, &settings)))
        return code;
    source.peak_flops = values.peak;
    source.flops_per_step = values.flops;
    source.step_marker = values.marker;
    bool screen = !values.json && !values.batch;
    const char *run = first < argc ? argv[first] : NULL;
    code = cli_top_source_open(&source, run, screen ? PATIENCE_MS : 0);
    if (!code && values.against)
        code = cli_top_source_against(&source, values.against);
    if (code)
        return code;
    int rc;
    if (screen)
        rc = tui_run(&source.source, &settings, &err);
    else if (values.json)
        rc = tui_each(&source.source, &settings, write_line, NULL, &err);
    else
        rc = tui_batch(&source.source, &settings, stdout, &err);
    free(source.against_steps);
    if (rc == TACHO_EIO && !screen)
        return 0; /* closing stdout will say so */
    if (rc && !err.code)
        tacho_fail(&err, rc, NULL, "top: %s", tacho_error_text(rc));
    return rc ? cli_fail(&err) : 0;
}
