/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/run_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/import_cache.h"
#include "cli/base/merge_files.h"
#include "cli/base/message.h"
#include "store/store.h"

/* A file of that name is meant to be a run: what is wrong with it is told by the store, in the
 * terms of a recording. */
static bool is_own(const char *path)
{
    size_t n = strlen(path), m = strlen(COL_SUFFIX);
    struct stat st;
    return n >= m && !strcmp(path + n - m, COL_SUFFIX) && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode);
}

int cli_run_find(const char *arg, struct col_found *found)
{
    struct tacho_error err = {0};
    if (strlen(arg) >= COL_PATH_MAX) { /* no message has room for it */
        tacho_fail(&err, TACHO_ENOTFOUND, NULL, "a RUN of %zu characters: no such run",
                   strlen(arg));
        return cli_fail(&err);
    }
    if (col_find_run(arg, true, found, &err))
        return cli_fail(&err);
    if (found->recovered && found->note[0])
        cli_say("%s", found->note);
    if (found->refused.code)
        cli_fail(&found->refused); /* it is read as it is */
    if (found->live || found->recovered || is_own(found->path))
        return 0;
    size_t runs = cli_merge_runs(found->run);
    char only[COL_PATH_MAX];
    if (runs == 1 && cli_merge_only(found->run, only, sizeof only) == 0)
        return cli_run_find(only, found);
    if (runs > 1)
        return cli_import_cached(found->run, found->path, sizeof found->path);
    enum store_format format;
    int code = cli_import_check(found->run);
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
    snprintf(hint, sizeof hint, "make a run of it first: tacho %s %.150s -o FILE.tacho",
             runs ? "merge" : "import", word ? word : found->run);
    free(word);
    tacho_fail(&err, TACHO_EUSAGE, hint, "%s: %s: a %s is never written to", found->run, what,
               runs ? "folder of runs" : "trace of another tool");
    return cli_fail(&err);
}

int cli_run_analyze(const struct col_found *found, const struct an_options *o,
                    struct an_result **out)
{
    struct tacho_error err = {0};
    struct an_options options = *o;
    store_reader *reader = NULL;
    *out = NULL;
    options.file = found->run;
    options.live = found->live;
    int code = store_open(found->path, &reader, &err);
    if (!code)
        code = an_analyze(reader, &options, out, &err);
    store_reader_close(reader);
    return code ? cli_fail(&err) : 0;
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
    size_t n = strlen(key);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t m = strlen(units[i][0]);
        if (n >= m && !strcmp(key + n - m, units[i][0]))
            return units[i][1];
    }
    return !strncmp(key, "mfu", 3) || !strncmp(key, "hfu", 3) ? "ratio" : NULL;
}

static int save_section(store *s, const json_t *report, const char *section)
{
    const json_t *absent = json_object_get(report, "absent");
    json_t *object = json_object_get(report, section), *value;
    const char *key, *why_section;
    char pointer[256], name[256];
    int code = 0;
    snprintf(pointer, sizeof pointer, "/%s", section);
    why_section = json_string_value(json_object_get(absent, pointer));
    if (!json_is_object(object) && why_section)
        return store_metric_set(
            s, &(struct store_metric){.name = section, .value = NAN, .reason = why_section});
    json_object_foreach(object, key, value)
    {
        if (code || (!json_is_number(value) && !json_is_null(value)))
            continue;
        snprintf(pointer, sizeof pointer, "/%s/%s", section, key);
        snprintf(name, sizeof name, "%s.%s", section, key);
        const char *why = json_string_value(json_object_get(absent, pointer));
        struct store_metric metric = {.name = name,
                                      .unit = unit_of(key),
                                      .value =
                                          json_is_null(value) ? NAN : json_number_value(value)};
        if (json_is_null(value))
            metric.reason = why ? why : why_section ? why_section : "not measured";
        code = store_metric_set(s, &metric);
    }
    return code;
}

static int save_findings(store *s, const json_t *report)
{
    size_t i;
    json_t *finding;
    json_array_foreach(json_object_get(report, "findings"), i, finding)
    {
        const char *id = json_string_value(json_object_get(finding, "id"));
        char *text = json_dumps(finding, JSON_COMPACT | JSON_PRESERVE_ORDER);
        int code = id && text ? store_finding_set(s, id, text) : TACHO_ENOMEM;
        free(text);
        if (code)
            return code;
    }
    return 0;
}

/* The JSON report is the one place where metrics get their names, so what is saved is what it says.
 */
json_t *cli_run_json(const struct an_result *result)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file)
        return NULL;
    int code = rep_write("json", result, NULL, file);
    if (fclose(file))
        code = TACHO_ENOMEM;
    json_t *json = code ? NULL : json_loadb(text, bytes, 0, NULL);
    free(text);
    return json;
}

int cli_run_save(const char *path, const struct an_result *result, struct tacho_error *err)
{
    static const char *const sections[] = {"steps", "budget", "utilization", "dataloader", "trust"};
    store *s = NULL;
    json_t *report = cli_run_json(result);
    if (!report)
        return tacho_fail(err, TACHO_EINTERNAL, NULL, "%s: the report could not be put together",
                          path);
    int code = store_open_results(path, &s, err);
    if (code)
        goto out;
    code = store_begin(s);
    if (!code)
        code = store_run_set(s, "verdict", result->verdict);
    for (size_t i = 0; !code && i < sizeof sections / sizeof *sections; i++)
        code = save_section(s, report, sections[i]);
    if (!code)
        code = save_findings(s, report);
    if (!code)
        code = store_commit(s);
    if (code && err)
        *err = *store_error(s);
out:
    store_close(s);
    json_decref(report);
    return code;
}

/* ---- after a recording --------------------------------------------------------------------------------------------------- */

struct rep_options cli_report_options(int64_t width, const char *when, bool to_stdout)
{
    int fd = to_stdout ? STDOUT_FILENO : -1;
    int64_t columns = width ? width : cli_columns(fd, 100);
    return (struct rep_options){.width = (int)(columns < 40    ? 40
                                               : columns > 200 ? 200
                                                               : columns),
                                .color = cli_color(when, fd),
                                .utf8 = cli_utf8()};
}

/* 1234567 -> "1,234,567" */
static const char *grouped(int64_t n, char out[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, n), o = 0;
    for (int i = 0; i < length; i++) {
        out[o++] = digits[i];
        if (digits[i] != '-' && (length - 1 - i) % 3 == 0 && i < length - 1)
            out[o++] = ',';
    }
    out[o] = 0;
    return out;
}

static void say_warnings(const char *warnings)
{
    for (const char *line = warnings; line && *line;) {
        int n = (int)strcspn(line, "\n");
        cli_say("%.*s", n, line);
        line += n + (line[n] == '\n');
    }
}

/* The path as somebody in this folder would type it. */
static const char *from_here(const char *path)
{
    char here[PATH_MAX];
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && !strncmp(path, here, n) && path[n] == '/' && path[n + 1] ? path + n + 1 : path;
}

int cli_run_conclude(const struct col_result *r, bool report)
{
    const char *path = from_here(r->path);
    struct col_found found = {0};
    struct an_result *result = NULL;
    struct tacho_error err = {0};
    char a[32], b[32];
    int code = 0;
    say_warnings(r->warnings);
    if (r->attached) /* the other tacho says the rest */
        return r->exit_code;
    char *word = cli_shell_word(path);
    if (!r->finished) {
        if (r->path[0])
            cli_say("%s: not finished; to finish it: tacho recover %s", path, word ? word : path);
        free(word);
        return r->exit_code;
    }
    snprintf(found.path, sizeof found.path, "%s", r->path);
    snprintf(found.run, sizeof found.run, "%s", path);
    code = cli_run_analyze(&found, &(struct an_options){0}, &result);
    if (!code && cli_run_save(r->path, result, &err))
        cli_fail(&err); /* the recording is complete without them */
    if (report && result) {
        struct rep_options options = cli_report_options(0, NULL, true);
        struct cli_output out;
        cli_output_open(&out, NULL, NULL);
        int rc = rep_write("text", result, &options, out.file);
        code = cli_output_close(&out, rc == TACHO_EIO ? 0 : rc ? tacho_error_exit(rc) : 0);
    }
    cli_say("%s: %s events, %s lost, %s", path,
            grouped(result ? result->trust.events : r->slices + r->counters + r->steps, a),
            grouped(r->lost, b), r->ended);
    if (result && !report) {
        cli_say("%s", result->verdict);
        if (result->caution)
            cli_say("%s", result->caution);
    }
    if (report) /* it stands there already */
        cli_say("next: tacho sql %s 'SELECT * FROM step'", word ? word : path);
    else
        cli_say("next: tacho report %s", word ? word : path);
    an_result_free(result);
    free(word);
    return r->exit_code ? r->exit_code : code;
}
