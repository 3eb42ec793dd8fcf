/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho sql: SQL on a run, from the command line, from standard input or in sqlite3.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/progress.h"
#include "cli/base/run_file.h"
#include "cli/base/sql_format.h"
#include "cli/commands/commands.h"

struct values {
    const char *output;
    bool csv, json, index, raw;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("csv", 0, csv,
                 "comma-separated (RFC 4180); NULL is an empty field, an empty text is \"\""),
    CLI_FLAG_ROW("raw", 0, raw,
                 "with --csv, do not put ' before texts that a spreadsheet takes for formulas"),
    CLI_FLAG_ROW("json", 'j', json, "print an array of objects for each statement"),
    CLI_OUTPUT_ROW,
    CLI_FLAG_ROW("index", 0, index,
                 "first add indexes to the file: it grows, queries by name or time get faster"),
    {0},
};

const struct cli_spec cli_sql_spec = {
    .help = "query a run with SQL",
    .usage = "[OPTION]... RUN [QUERY]",
    .about =
        "Runs QUERY, or the SQL on standard input; on a terminal it starts sqlite3. Only --index "
        "changes the file.\n"
        "docs/schema.md explains the tables; sqlite3, DuckDB and pandas can also open the file "
        "directly.",
    .options = options,
    .examples =
        "  tacho sql latest 'SELECT * FROM loss'\n"
        "  tacho sql latest --csv 'SELECT \"index\", \"end\" - start AS ns FROM step' > steps.csv",
    .least = 1,
    .most = 2,
    .words_missing = "the run",
};

/* The whole text of a stream; NULL without memory or beyond 1 GiB. Caller frees. */
static char *read_all(FILE *file)
{
    size_t used = 0, cap = 1 << 16;
    char *text = malloc(cap);
    while (text) {
        used += fread(text + used, 1, cap - used - 1, file);
        if (used + 1 < cap)
            break;
        char *bigger = cap < (1u << 30) ? realloc(text, cap *= 2) : NULL;
        if (!bigger)
            free(text);
        text = bigger;
    }
    if (text)
        text[used] = 0;
    return text;
}

/* Adds indexes to the file of the run. 0 or an exit code, after a message. */
static int add_indexes(const struct col_found *found)
{
    struct tacho_error err = {0};
    store *out = NULL;
    if (cli_run_is_import(found))
        return cli_run_refuse_import(found, "--index");
    int code = found->live ? tacho_fail(&err, TACHO_EBUSY, "wait for the run to end",
                                        "%s: still being recorded: cannot add indexes", found->run)
                           : store_open_results(found->path, &out, &err);
    if (!code && (code = store_index(out)))
        err = *store_error(out);
    store_close(out);
    return code ? cli_fail(&err) : 0;
}

/* Runs the sqlite3 shell on the file, read-only. The name passed to it starts with / or ./, so that
 * it cannot be taken for an option. Returns the exit code. */
static int run_shell(const char *path)
{
    char *name = malloc(strlen(path) + 3);
    if (!name)
        return 5;
    sprintf(name, "%s%s", path[0] == '/' ? "" : "./", path);
    cli_say("starting sqlite3 -readonly; '.tables' lists the tables, '.quit' quits");
    int status = 0;
    /* Temporary files are removed at exit: then this process has to outlive the shell. */
    pid_t child = cli_removes_at_exit() ? fork() : 0;
    if (child > 0) {
        signal(SIGINT, SIG_IGN); /* Ctrl-C is for the shell */
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        free(name);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
    }
    execlp("sqlite3", "sqlite3", "-readonly", "-box", name, (char *)NULL);
    free(name);
    return cli_error(TACHO_ENOTSUP, "install sqlite3, or give the query as an argument",
                     "sql: sqlite3 was not found, and no query was given");
}

/* sqlite3 does not check what is beside a file: root would write what another user put there. */
static int shell(const struct col_found *found)
{
    struct stat file;
    if (geteuid() == 0 && stat(found->path, &file) == 0 && file.st_uid != 0)
        return cli_error(TACHO_EDENIED, "give the query as an argument",
                         "%s: belongs to user %u: root does not start sqlite3 on it", found->run,
                         file.st_uid);
    return run_shell(found->path);
}

/* Runs the query and writes its rows in the format that was asked for. */
static int run_query(const struct col_found *found, const struct values *values,
                     char *const *arguments, const char *sql)
{
    struct tacho_error err = {0};
    struct cli_output out;
    int format = values->json ? 2 : values->csv;
    struct cli_sql_writer writer = {.format = &cli_sql_formats[format], .utf8 = cli_utf8()};
    store_reader *reader = NULL;
    if (store_open(found->path, &reader, &err))
        return cli_fail(&err);
    int code = cli_output_open(&out, values->output, arguments);
    if (!code) {
        writer.out = out.file;
        writer.raw = values->raw;
        writer.visible = !values->raw && isatty(fileno(out.file));
        int rc = store_query(reader, sql, cli_sql_head, cli_sql_row, &writer);
        int end = cli_sql_end(&writer), failed = rc ? rc : end;
        if (rc && rc == store_reader_error(reader)->code)
            code = cli_fail(store_reader_error(reader));
        else if (failed && rc != TACHO_EIO && end != TACHO_EIO)
            code = cli_error(failed, NULL, "%s: %s", found->run, tacho_error_text(failed));
        code = cli_output_close(&out, code);
    }
    store_reader_close(reader);
    return code;
}

int cli_sql(int argc, char **argv)
{
    struct values values = {0};
    struct col_found found;
    char *text = NULL;
    int first, code = cli_parse(&cli_sql_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    if (values.csv && values.json)
        return cli_usage("sql", NULL, "--csv and --json exclude each other");
    code = cli_run_find(argv[first], &found);
    if (!code && values.index)
        code = add_indexes(&found);
    if (code)
        return code;
    const char *sql = first + 1 < argc ? argv[first + 1] : NULL;
    if (!sql && values.index && isatty(STDIN_FILENO))
        return 0;
    if (!sql && isatty(STDIN_FILENO))
        return shell(&found);
    if (!sql || !strcmp(sql, "-"))
        sql = text = read_all(stdin);
    if (!sql)
        return cli_usage("sql", NULL, "standard input cannot be read");
    code = run_query(&found, &values, argv + first, sql);
    free(text);
    return code;
}
