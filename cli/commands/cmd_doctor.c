/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho doctor: what this machine lets tacho measure, and how to get the rest.
 */
#include <jansson.h>
#include <langinfo.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/base/train_program.h"
#include "cli/commands/commands.h"
#include "cli/view/view.h"
#include "profiler/collector/collector.h"

struct values {
    const char *color, *folder;
    struct cli_view view;
    bool json, clean;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("json", 'j', json, "print JSON, for programs and bug reports"),
    CLI_FIELDS_ROW,
    CLI_LIMIT_ROW,
    CLI_TEXT_ROW("folder", 0, CLI_TEXT, folder, "DIR",
                 "check for a run started in DIR (the current folder)"),
    CLI_FLAG_ROW("clean", 0, clean,
                 "first remove pools in memory that were left by runs whose folder is gone"),
    CLI_COLOR_ROW,
    {0},
};

const struct cli_spec cli_doctor_spec = {
    .help = "check what tacho can measure on this machine, and how to enable the rest",
    .usage = "[OPTION]...",
    .about = "Prints a line for each capability: ok, or what is missing and how to enable it. "
             "Exits with 0 if recording works\n"
             "here, else with 4.",
    .options = options,
    .examples = "  tacho doctor\n  tacho doctor --json > doctor.json",
};

struct checkup {
    const struct values *values;
    json_t *rows;
    const char *group; /* printed last */
    bool color;
    int broken; /* lines without which nothing can be recorded */
    int gaps;   /* lines that cost something */
};

/* The colour of a status, as a parameter of the escape sequence. */
static const char *color_of(enum col_status status)
{
    switch (status) {
    case COL_STATUS_OK:
        return "32";
    case COL_STATUS_DENIED:
        return "31";
    default:
        return "33";
    }
}

static int add_row(json_t *rows, const struct col_probe *probe)
{
    const char *fix = probe->fix ? probe->fix : "";
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "group", probe->group, "name",
                            probe->name, "status", col_status_text(probe->status), "text",
                            probe->text ? probe->text : "", "fix", fix, "errno", probe->error);
    return row ? json_array_append_new(rows, row) : TACHO_ENOMEM;
}

static void print_probe(const struct checkup *checkup, const struct col_probe *probe, bool fine)
{
    char *text = cli_printable(probe->text ? probe->text : "");
    const char *shown = text ? text : "";
    const char *status = col_status_text(probe->status);
    if (checkup->color)
        printf("  \033[%sm%-13s\033[0m %-18s %s\n", color_of(probe->status), status, probe->name,
               shown);
    else
        printf("  %-13s %-18s %s\n", status, probe->name, shown);
    free(text);
    if (!fine && probe->fix && *probe->fix)
        printf("  %-13s %-18s hint: %s\n", "", "", probe->fix);
}

/* Prints one line of the list, or adds it to the JSON; counts what is missing. */
static int put(void *ctx, const struct col_probe *probe)
{
    struct checkup *checkup = ctx;
    bool vital = !strcmp(probe->group, "agent") || !strcmp(probe->group, "storage");
    bool fine = probe->status == COL_STATUS_OK || probe->status == COL_STATUS_MULTIPLEXED;
    checkup->gaps += !fine;
    checkup->broken += vital && !fine && probe->status != COL_STATUS_WARNING;
    if (checkup->rows)
        return add_row(checkup->rows, probe);
    if (!checkup->group || strcmp(checkup->group, probe->group))
        printf("%s%s\n", checkup->group ? "\n" : "", probe->group);
    checkup->group = probe->group;
    print_probe(checkup, probe, fine);
    return 0;
}

static int put_program(struct checkup *checkup, const char *name, enum col_status status,
                       const char *text, const char *fix)
{
    return put(checkup, &(struct col_probe){"program", name, status, 0, text, fix});
}

/* The lines about the program itself; the collector has all others. */
static int put_own(struct checkup *checkup)
{
    char text[160], path[PATH_MAX];
    snprintf(text, sizeof text, "tacho %s, SQLite %s", TACHO_VERSION, sqlite3_libversion());
    int code = put_program(checkup, "version", COL_STATUS_OK, text, "");
    if (code)
        return code;
    snprintf(text, sizeof text, "%s, %s", nl_langinfo(CODESET),
             isatty(STDOUT_FILENO) ? "a terminal" : "not a terminal");
    code = put_program(checkup, "characters", cli_utf8() ? COL_STATUS_OK : COL_STATUS_WARNING, text,
                       "reports are drawn in ASCII; for UTF-8: export LC_ALL=C.UTF-8");
    if (code)
        return code;
    code = cli_train_find(path) ? put_program(checkup, "train", COL_STATUS_WARNING,
                                              "the reference engine was not found",
                                              "'make' builds it; only 'tacho train' needs it")
                                : put_program(checkup, "train", COL_STATUS_OK, path, "");
    if (code)
        return code;
#ifdef HAVE_PFM
    return put_program(checkup, "libpfm4", COL_STATUS_OK, "built with it", "");
#else
    return put_program(checkup, "libpfm4", COL_STATUS_NOT_SUPPORTED,
                       "built without it: no hardware counters",
                       "install libpfm4-dev, then 'make' again");
#endif
}

/* Prints the result as JSON. 0 or an exit code, after a message. */
static int conclude_json(const struct checkup *checkup)
{
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:o}", "schema", "tacho-doctor/1", "version", TACHO_VERSION,
                  "recording_works", !checkup->broken, "checks", checkup->rows);
    return cli_view_print("doctor", &checkup->values->view, json);
}

static void conclude(const struct checkup *checkup)
{
    if (checkup->broken) {
        printf(
            "\nrecording does not work here: %d check%s of agent or storage failed (see above)\n",
            checkup->broken, checkup->broken == 1 ? "" : "s");
    } else
        printf("\nrecording works here%s\n",
               checkup->gaps ? "; the report names what is missing above" : "");
}

static void say_removed(void *ctx, const char *text)
{
    (void)ctx;
    cli_say("%s", text);
}

int cli_doctor(int argc, char **argv)
{
    struct values values = {.folder = "."};
    int first, code = cli_parse(&cli_doctor_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    struct checkup checkup = {.values = &values, .color = cli_color(values.color, STDOUT_FILENO)};
    code = cli_view_check("doctor", &values.view, values.json);
    if (code)
        return code;
    if (values.json)
        checkup.rows = json_array();
    if (values.clean)
        col_clean(say_removed, NULL);
    code = put_own(&checkup);
    if (!code)
        code = col_probe_each(values.folder, put, &checkup);
    if (code) {
        struct tacho_error err;
        tacho_fail(&err, code, NULL, "doctor: %s: %s", values.folder, tacho_error_text(code));
        json_decref(checkup.rows);
        return cli_fail(&err);
    }
    if (values.json)
        code = conclude_json(&checkup);
    else
        conclude(&checkup);
    if (code)
        return code;
    return checkup.broken ? 4 : 0;
}
