/* SPDX-License-Identifier: Apache-2.0
 *
 * From a RUN argument to an analysis, and from an analysis into the file: finding and importing
 * runs, saving metrics and findings, and what is said when a recording ends.
 */
#include "cli/base/run_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/enter_history.h"
#include "cli/base/import_cache.h"
#include "cli/base/merge_files.h"
#include "cli/base/message.h"
#include "profiler/collector/job/job.h"
#include "profiler/collector/samplers/calibration.h"
#include "store/store.h"

/* Is it a file with the name of a run? Then it is no trace to import, and if it is damaged the
 * store says so in the terms of a recording. */
static bool is_own(const char *path)
{
    struct stat st;
    return cli_has_suffix(path, COL_SUFFIX) && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int cli_run_find(const char *arg, struct col_found *found)
{
    struct tacho_error err = {0};
    int code = cli_recording_find(arg, found);
    if (code)
        return code;
    if (found->refused.code)
        cli_fail(&found->refused); /* a warning: the run is read as it is */
    if (found->live || found->recovered || is_own(found->path))
        return 0;
    size_t runs = cli_merge_runs(found->run);
    char only[COL_PATH_MAX];
    if (runs == 1 && cli_merge_only(found->run, only, sizeof only) == 0)
        return cli_run_find(only, found);
    if (runs > 1)
        return cli_import_cached(found->run, found->path, sizeof found->path);
    enum store_format format;
    code = cli_import_check(found->run);
    if (code)
        return code;
    int rc = store_format_of(found->run, &format, &err);
    if (!rc && format == STORE_FORMAT_TACHO)
        return 0;
    return rc ? cli_fail(&err) : cli_import_cached(found->run, found->path, sizeof found->path);
}

bool cli_run_is_import(const struct col_found *found)
{
    return !found->live && strcmp(found->path, found->run) != 0;
}

int cli_run_refuse_import(const struct col_found *found, const char *what)
{
    struct tacho_error err;
    char hint[sizeof err.hint], *word = cli_shell_word(found->run);
    bool runs = cli_merge_runs(found->run) > 0;
    const char *verb = runs ? "merge" : "import";
    snprintf(hint, sizeof hint, "convert it to a run first: tacho %s %.150s -o FILE.tacho", verb,
             word ? word : found->run);
    free(word);
    return cli_error(TACHO_EUSAGE, hint, "%s: %s: tacho never writes to a %s", found->run, what,
                     runs ? "folder of runs" : "trace of another tool");
}

/* The kept calibration of this machine, as the analysis takes it. */
struct later {
    struct col_calibration kept;
    struct an_calibration calibration;
    struct an_measured_ceiling *rows;
    char source[128];
};

/* Reads the kept calibration, for runs that were recorded before it; without one `later` is
 * empty. */
static void later_read(struct later *later)
{
    char path[COL_PATH_MAX];
    struct tacho_error err;
    *later = (struct later){0};
    if (col_calibration_find(&later->kept, NULL, path, &err))
        return;
    snprintf(later->source, sizeof later->source,
             "measured: tacho calibrate%s, %s, after the recording",
             later->kept.quick ? " --quick" : "", later->kept.measured_at);
    if (!(later->rows = calloc(later->kept.rows + 1, sizeof *later->rows)))
        return;
    later->calibration = (struct an_calibration){
        .cpu = later->kept.cpu, .cores = later->kept.cores, .rows = later->rows};
    for (size_t i = 0; i < later->kept.rows; i++)
        if (!isnan(later->kept.row[i].value))
            later->rows[later->calibration.row_count++] =
                (struct an_measured_ceiling){later->kept.row[i].resource, later->kept.row[i].dtype,
                                             later->source, later->kept.row[i].value};
}

int cli_run_analyze(const struct col_found *found, const struct an_options *base,
                    struct an_result **out)
{
    struct tacho_error err = {0};
    struct an_options options = *base;
    struct later later;
    store_reader *reader = NULL;
    *out = NULL;
    options.file = found->run;
    options.live = found->live;
    later_read(&later);
    options.calibration = later.rows ? &later.calibration : NULL;
    int code = store_open(found->path, &reader, &err);
    if (!code)
        code = an_analyze(reader, &options, out, &err);
    store_reader_close(reader);
    free(later.rows);
    col_calibration_clear(&later.kept);
    return code ? cli_fail(&err) : 0;
}

int cli_run_finding(const char *command, const char *name, const struct an_result *result,
                    size_t *number)
{
    char names[512] = "none was found", *end;
    size_t used = 0;
    *number = 0;
    if (!name)
        return 0;
    unsigned long wanted = strtoul(name, &end, 10);
    for (size_t i = 0; i < result->finding_count && used < sizeof names; i++) {
        const char *id = result->findings[i].id;
        if ((*name && !*end && wanted == i + 1) || !strcasecmp(name, id)) {
            *number = i + 1;
            return 0;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%zu %s", i ? ", " : "",
                                 i + 1, id);
    }
    return cli_usage(command, NULL, "no finding '%.60s': %s", name, names);
}

/* ---- saving ------------------------------------------------------------------------------------------------------------ */

/* Keys end with their unit (tacho-report/1); the first ending that fits decides. */
static const char *unit_of(const char *key)
{
    static const char *const units[][2] = {
        {"flops_per_step", "FLOP"},
        {"flops_per_s", "FLOP/s"},
        {"peak_flops", "FLOP/s"},
        {"roof_measured_flops", "FLOP/s"},
        {"_flops", "FLOP"},
        {"_pct", "%"},
        {"tokens_per_s", "tokens/s"},
        {"samples_per_s", "samples/s"},
        {"tokens_per_step", "tokens"},
        {"samples_per_step", "samples"},
        {"_ms_per_step", "ms"},
        {"_ms", "ms"},
        {"_us", "us"},
        {"_ns", "ns"},
        {"_bytes", "B"},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (cli_has_suffix(key, units[i][0]))
            return units[i][1];
    return !strncmp(key, "mfu", 3) || !strncmp(key, "hfu", 3) ? "ratio" : NULL;
}

/* Writes a metric for each number of a section of the report. One that is absent gets its own
 * reason, or that of the whole section. */
static int save_section(store *out, const json_t *report, const char *section)
{
    const json_t *absent = json_object_get(report, "absent");
    json_t *object = json_object_get(report, section), *value;
    const char *key;
    char pointer[256], name[256];
    int code = 0;
    snprintf(pointer, sizeof pointer, "/%s", section);
    const char *why_section = json_string_value(json_object_get(absent, pointer));
    if (!json_is_object(object) && why_section)
        return store_metric_set(
            out, &(struct store_metric){.name = section, .value = NAN, .reason = why_section});
    json_object_foreach(object, key, value)
    {
        if (code || (!json_is_number(value) && !json_is_null(value)))
            continue;
        snprintf(pointer, sizeof pointer, "/%s/%s", section, key);
        snprintf(name, sizeof name, "%s.%s", section, key);
        struct store_metric metric = {
            .name = name, .unit = unit_of(key), .value = json_number_value(value)};
        if (json_is_null(value)) {
            metric.value = NAN;
            metric.reason = json_string_value(json_object_get(absent, pointer));
            if (!metric.reason)
                metric.reason = why_section ? why_section : "not measured";
        }
        code = store_metric_set(out, &metric);
    }
    return code;
}

/* Writes each finding as a JSON text. */
static int save_findings(store *out, const json_t *report)
{
    size_t i;
    json_t *finding;
    json_array_foreach(json_object_get(report, "findings"), i, finding)
    {
        const char *id = json_string_value(json_object_get(finding, "id"));
        char *text = json_dumps(finding, JSON_COMPACT | JSON_PRESERVE_ORDER);
        int code = id && text ? store_finding_set(out, id, text) : TACHO_ENOMEM;
        free(text);
        if (code)
            return code;
    }
    return 0;
}

/* The JSON report is the one place where metrics get their names, so what is saved is what it says.
 */
void cli_json_print(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(json);
}

json_t *cli_run_json(const struct an_result *result)
{
    return cli_run_json_by(result, NULL);
}

json_t *cli_run_json_by(const struct an_result *result, const char *by)
{
    struct rep_options options = {.by = by};
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file)
        return NULL;
    int code = rep_write("json", result, &options, file);
    if (fclose(file))
        code = TACHO_ENOMEM;
    json_t *json = code ? NULL : json_loadb(text, bytes, 0, NULL);
    free(text);
    return json;
}

int cli_run_save(const char *path, const struct an_result *result, struct tacho_error *err)
{
    static const char *const sections[] = {"steps", "budget", "utilization", "dataloader", "trust"};
    store *out = NULL;
    json_t *report = cli_run_json(result);
    if (!report)
        return tacho_fail(err, TACHO_EINTERNAL, NULL, "%s: the report could not be created", path);
    int code = store_open_results(path, &out, err);
    if (code)
        goto out;
    code = store_begin(out);
    if (!code)
        code = store_run_set(out, "verdict", result->verdict);
    for (size_t i = 0; !code && i < sizeof sections / sizeof *sections; i++)
        code = save_section(out, report, sections[i]);
    if (!code)
        code = save_findings(out, report);
    if (!code)
        code = store_commit(out);
    if (code && err)
        *err = *store_error(out);
out:
    store_close(out);
    json_decref(report);
    return code;
}

/* ---- after a recording --------------------------------------------------------------------------------------------------- */

#define LEAST_ROWS 10 /* of a terminal: a screen of fewer lines has no room for a report */
#define MOST_ROWS  29

struct rep_options cli_report_options(int64_t width, const char *when, const char *output)
{
    int fd = !output || !strcmp(output, "-") ? STDOUT_FILENO : -1;
    int64_t columns = width ? width : cli_columns(fd, 100);
    if (columns < 40)
        columns = 40;
    if (columns > 200)
        columns = 200;
    int rows = cli_rows(fd);
    return (struct rep_options){.width = (int)columns,
                                .lines = rows > LEAST_ROWS && rows < MOST_ROWS ? rows - 1 : 0,
                                .color = cli_color(when, fd),
                                .utf8 = cli_utf8()};
}

/* 1234567 -> "1,234,567" */
static const char *grouped(int64_t number, char out[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, number), used = 0;
    for (int i = 0; i < length; i++) {
        out[used++] = digits[i];
        if (digits[i] != '-' && (length - 1 - i) % 3 == 0 && i < length - 1)
            out[used++] = ',';
    }
    out[used] = 0;
    return out;
}

/* Prints the warnings of a recording, one message for each line. */
static void say_warnings(const char *warnings)
{
    for (const char *line = warnings; line && *line;) {
        int length = (int)strcspn(line, "\n");
        cli_say("%.*s", length, line);
        line += length + (line[length] == '\n');
    }
}

/* The path as a user in this folder would type it. */
static const char *from_here(const char *path)
{
    char here[PATH_MAX];
    size_t length = getcwd(here, sizeof here) ? strlen(here) : 0;
    return length > 1 && !strncmp(path, here, length) && path[length] == '/' && path[length + 1]
               ? path + length + 1
               : path;
}

/* Prints the text report on stdout. 0 or an exit code. */
static int print_report(const struct an_result *result)
{
    struct rep_options options = cli_report_options(0, NULL, NULL);
    options.brief = true;
    struct cli_output out;
    cli_output_open(&out, NULL, NULL);
    int rc = rep_write("text", result, &options, out.file);
    return cli_output_close(&out, rc == TACHO_EIO ? 0 : tacho_error_exit(rc));
}

/* What was lost, in words: "12 lost". Where a number is not known, it says so. */
static const char *lost_words(const struct col_result *recording, char words[64])
{
    char lost[32];
    grouped(recording->lost, lost);
    if (!recording->uncounted)
        snprintf(words, 64, "%s lost", lost);
    else if (recording->lost)
        snprintf(words, 64, "at least %s lost", lost);
    else
        snprintf(words, 64, "an unknown number lost");
    return words;
}

int cli_gate_exit(const struct an_gate *gate)
{
    if (gate->state == AN_GATE_FAILED)
        return CLI_EXIT_THRESHOLD;
    return gate->state == AN_GATE_UNDECIDED ? CLI_EXIT_UNDECIDED : 0;
}

int cli_run_conclude_file(const char *path, const char *run, bool samples,
                          struct an_result **result)
{
    struct col_found found = {0};
    struct tacho_error err = {0};
    snprintf(found.path, sizeof found.path, "%s", path);
    snprintf(found.run, sizeof found.run, "%s", run);
    int code = cli_run_analyze(&found, &(struct an_options){.samples = samples}, result);
    if (!code && cli_run_save(path, *result, &err))
        cli_fail(&err); /* the file is complete without them */
    return code;
}

/* A program that failed before its first step has said why itself: that stays the last thing to
 * read, below one line about the file. */
static bool failed_at_start(const struct col_result *recording, const struct an_result *result)
{
    bool interrupted = !strncmp(recording->ended, "interrupted", strlen("interrupted"));
    return recording->exit_code && !interrupted && result && !result->steps.count;
}

/* Says where the ranks of the job's other nodes are, which no verdict about this file knows. */
static void say_other_nodes(const char *path)
{
    struct col_job job;
    if (!col_job_own(&job) || !job.many_nodes)
        return;
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX] = ".";
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    char *word = cli_shell_word(folder);
    cli_say("the file has this node's ranks only; those of all nodes: tacho report %s",
            word ? word : folder);
    free(word);
}

/* Says what was recorded, the verdict of an analysis, and what to type next. */
static void say_recorded(const struct col_result *recording, const struct an_result *result,
                         bool report, const char *path, const char *word)
{
    char events[32], lost[64];
    cli_say("%s: %s events, %s, %s", path,
            grouped(result ? result->trust.events
                           : recording->slices + recording->counters + recording->steps,
                    events),
            lost_words(recording, lost), recording->ended);
    if (!report && failed_at_start(recording, result))
        return;
    if (result && !report) {
        cli_say("%s", result->verdict);
        if (result->caution)
            cli_say("%s", result->caution);
    }
    if (report) /* it was just printed */
        cli_say("next: tacho sql %s 'SELECT * FROM step'", word);
    else
        cli_say("next: tacho report %s", word);
    say_other_nodes(path);
}

int cli_run_conclude(const struct col_result *recording, bool report, const char *commit)
{
    const char *path = from_here(recording->path);
    struct an_result *result = NULL;
    int code = 0;
    say_warnings(recording->warnings);
    if (recording->attached) /* the other tacho says the rest */
        return recording->exit_code;
    char *word = cli_shell_word(path);
    if (!recording->finished) {
        if (recording->path[0])
            cli_say("%s: not finished; to finish it: tacho recover %s", path, word ? word : path);
        free(word);
        return recording->exit_code;
    }
    bool enters = cli_history_is_kept(); /* with the parts of each step */
    code = cli_run_conclude_file(recording->path, path, enters, &result);
    if (result && enters)
        cli_history_enter(result, commit);
    if (report && result)
        code = print_report(result);
    say_recorded(recording, result, report, path, word ? word : path);
    an_result_free(result);
    free(word);
    /* The recording is complete. That it cannot be analysed here and now (no memory) fails only who
     * asked for the report. */
    return recording->exit_code || !report ? recording->exit_code : code;
}
