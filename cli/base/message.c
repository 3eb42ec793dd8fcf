/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages on stderr, and output files. A result is written to a file without a name, or under a
 * hidden name, and gets its own name only when it is complete.
 */
#include "cli/base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <langinfo.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reports/words/escape.h"

/* ---- stderr ------------------------------------------------------------------------------------------------------------ */

char *cli_printable(const char *text)
{
    size_t size = 6 * strlen(text) + 16; /* the longest escape has six characters */
    char *out = malloc(size);
    if (out)
        rep_clean(out, size, text, INT_MAX / 2, true);
    return out;
}

/* Writes the text and the closing quote at `end`. */
static void put_quoted(char *end, const char *text, bool escapes)
{
    for (; *text; text++) {
        unsigned char letter = (unsigned char)*text;
        if (escapes && (letter < 0x20 || letter > 0x7e))
            end += sprintf(end, "\\x%02x", letter);
        else if (letter == '\'' || (escapes && letter == '\\'))
            end += sprintf(end, escapes ? "\\%c" : "'\\%c'", letter);
        else
            *end++ = *text;
    }
    memcpy(end, "'", sizeof "'");
}

char *cli_shell_word(const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+=@%-";
    char *out = malloc(4 * strlen(text) + 8), *end = out;
    if (!out)
        return NULL;
    const char *dash = text[0] == '-' ? "./" : ""; /* a name, not an option */
    if (text[0] && strspn(text, plain) == strlen(text)) {
        sprintf(out, "%s%s", dash, text);
        return out;
    }
    /* Text that is unsafe on a terminal is written with escapes that bash and zsh read. */
    char *shown = cli_printable(text);
    bool escapes = shown && strcmp(shown, text) != 0;
    free(shown);
    end += sprintf(end, "%s%s'", dash, escapes ? "$" : "");
    put_quoted(end, text, escapes);
    return out;
}

bool cli_has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text), end = strlen(suffix);
    return length >= end && !strcmp(text + length - end, suffix);
}

static bool wants_color(int fd)
{
    const char *none = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE"),
               *term = getenv("TERM");
    if (none && *none)
        return false;
    if (force && *force && strcmp(force, "0"))
        return true;
    return isatty(fd) && term && strcmp(term, "dumb");
}

bool cli_color(const char *when, int fd)
{
    if (when && !strcmp(when, "always"))
        return true;
    if (when && !strcmp(when, "never"))
        return false;
    return wants_color(fd);
}

int cli_columns(int fd, int otherwise)
{
    struct winsize winsize;
    return !ioctl(fd, TIOCGWINSZ, &winsize) && winsize.ws_col ? winsize.ws_col : otherwise;
}

int cli_rows(int fd)
{
    struct winsize winsize;
    return !ioctl(fd, TIOCGWINSZ, &winsize) ? winsize.ws_row : 0;
}

bool cli_utf8(void)
{
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

/* Prints one line on stderr, with a coloured label on a terminal. */
static void message(const char *label, const char *color, const char *text)
{
    char *safe = cli_printable(text);
    if (cli_color(NULL, STDERR_FILENO))
        fprintf(stderr, "\033[%sm%s:\033[0m %s\n", color, label, safe ? safe : "");
    else
        fprintf(stderr, "%s: %s\n", label, safe ? safe : "");
    free(safe);
}

static bool as_json;
static struct cli_messages *kept;

void cli_messages_as_json(void)
{
    as_json = true;
}

void cli_messages_keep(struct cli_messages *messages)
{
    kept = messages;
    if (kept)
        *kept = (struct cli_messages){0};
}

const char *cli_error_name(int code)
{
    switch (code) {
#define CLI_ERROR_NAME(name, value, exit_code, text) \
    case value: \
        return #name;
        TACHO_ERROR_MAP(CLI_ERROR_NAME)
#undef CLI_ERROR_NAME
    default:
        return "OK";
    }
}

/* Prints one message as a line of JSON; `err` NULL: a note. */
static void json_message(const char *what, const struct tacho_error *err)
{
    char *safe = cli_printable(what), *hint = err ? cli_printable(err->hint) : NULL;
    json_t *object =
        json_pack("{s:s, s:s, s:s?, s:o, s:s, s:s?}", "schema", "tacho-message/1", "kind",
                  err ? "error" : "note", "code", err ? cli_error_name(err->code) : NULL,
                  "exit_code", err ? json_integer(tacho_error_exit(err->code)) : json_null(),
                  "what", safe ? safe : "", "hint", hint && *hint ? hint : NULL);
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    fprintf(stderr, "%s\n", line ? line : "{}");
    free(line);
    free(safe);
    free(hint);
    json_decref(object);
}

/* What to do about an error of this kind, where the place that met it knows nothing better; "": the
 * user has interrupted it. */
static const char *usual_hint(int code)
{
    static const struct {
        int code;
        const char *hint;
    } rows[] = {
        {TACHO_ENOMEM, "close other programs, or raise the memory limit (ulimit -v, the cgroup's)"},
        {TACHO_EIO, "try again; if it fails again, 'dmesg' may name the disk or network at fault"},
        {TACHO_ENOSPACE, "free some space, or choose another folder"},
        {TACHO_ENOTFOUND, "check the name; 'tacho ls FOLDER' lists the runs in a folder"},
        {TACHO_EFORMAT, "check that it is the file you meant, and that it is complete"},
        {TACHO_ECORRUPT, "copy it again, or record the run again"},
        {TACHO_EVERSION, "use the tacho that wrote it, or a newer one"},
        {TACHO_EBUSY, "wait until the other program has ended, then try again"},
        {TACHO_EEXISTS, "choose another name"},
        {TACHO_EUSAGE, "see 'tacho help'"},
        {TACHO_ENOTSUP, "'tacho doctor' shows what works on this machine"},
        {TACHO_EDENIED, "check the permissions of the file and of its folder"},
        {TACHO_EINTERNAL, "please report it, with the command and what 'tacho doctor' prints"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            return rows[i].hint;
    return "";
}

int cli_fail(const struct tacho_error *err)
{
    struct tacho_error said = *err;
    if (!said.what[0])
        snprintf(said.what, sizeof said.what, "%s", tacho_error_text(said.code));
    if (!said.hint[0])
        snprintf(said.hint, sizeof said.hint, "%s", usual_hint(said.code));
    if (kept) {
        kept->error = said;
    } else if (as_json) {
        json_message(said.what, &said);
    } else {
        message("tacho", "1;31", said.what);
        if (said.hint[0])
            message("hint", "1", said.hint);
    }
    return tacho_error_exit(said.code);
}

int cli_error(int code, const char *hint, const char *what, ...)
{
    struct tacho_error err = {.code = code};
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(err.what, sizeof err.what, what, arguments);
    va_end(arguments);
    snprintf(err.hint, sizeof err.hint, "%s", hint ? hint : "");
    return cli_fail(&err);
}

int cli_usage(const char *command, const char *hint, const char *what, ...)
{
    char text[400], standard[80];
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    if (!hint) {
        snprintf(standard, sizeof standard, *command ? "see 'tacho %s --help'" : "see 'tacho help'",
                 command);
        hint = standard;
    }
    return cli_error(TACHO_EUSAGE, hint, "%s%s%s", command, *command ? ": " : "", text);
}

void cli_say(const char *text, ...)
{
    char line[5000];
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(line, sizeof line, text, arguments);
    va_end(arguments);
    if (kept) {
        size_t used = strlen(kept->notes);
        snprintf(kept->notes + used, sizeof kept->notes - used, "%s%s", used ? "\n" : "", line);
    } else if (as_json) {
        json_message(line, NULL);
    } else {
        message("tacho", "1", line);
    }
}

/* ---- output ------------------------------------------------------------------------------------------------------------ */

static const char *hint_of(int code, int os)
{
    if (code == TACHO_ENOSPACE)
        return "no partial file was left: free some space, or choose another folder";
    if (code == TACHO_EDENIED)
        return "choose a folder that you may write to";
    if (os == ENOENT)
        return "create its folder first, or choose another name";
    if (os == EISDIR)
        return "give the name of a file";
    return NULL;
}

/* Prints the message for an errno of an output and returns the exit code. */
static int fail_errno(const char *path, int os)
{
    int code = tacho_error_of_errno(os);
    return cli_error(code, hint_of(code, os), "%s: %s", path, strerror(os));
}

/* Is it a database? A run of ours or of Nsight is one, and no command writes a database here. */
static bool is_run(const char *path)
{
    char head[16];
    FILE *file = fopen(path, "re");
    bool database = file && fread(head, 1, sizeof head, file) == sizeof head &&
                    !memcmp(head, "SQLite format 3", sizeof head);
    if (file)
        fclose(file);
    return database;
}

/* Is the file one of the inputs, under whatever name? */
static bool is_one_of(const struct stat *file, char *const *inputs)
{
    struct stat st;
    for (; inputs && *inputs; inputs++)
        if (!stat(*inputs, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino)
            return true;
    return false;
}

/* Opens a file beside the one that `path` leads to, which it replaces when it is complete. Returns
 * 0 or an errno. */
static int output_create(struct cli_output *output, const char *path, bool exists)
{
    char folder[PATH_MAX], name[PATH_MAX], target[PATH_MAX];
    if (!exists ||
        !realpath(path, target)) /* what a symbolic link points to is replaced, not the link */
        snprintf(target, sizeof target, "%s", path);
    snprintf(folder, sizeof folder, "%s", target);
    snprintf(name, sizeof name, "%s", target);
    const char *parent = dirname(folder);
    output->target = strdup(target);
    output->temporary = malloc(strlen(target) + 64);
    if (!output->target || !output->temporary)
        return ENOMEM;
    sprintf(output->temporary, "%s/.%s.%ld.tmp", parent, basename(name), (long)getpid());
    /* without a name until it is complete, where the filesystem can do that: a report that is
     * killed leaves nothing */
    int fd = open(parent, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    output->unnamed = fd >= 0;
    output->file = output->unnamed ? fdopen(fd, "w") : fopen(output->temporary, "wxe");
    return output->file ? 0 : errno;
}

int cli_output_open(struct cli_output *output, const char *path, char *const *inputs)
{
    struct stat st;
    *output = (struct cli_output){.file = stdout};
    if (!path || !strcmp(path, "-"))
        return 0;
    output->path = path;
    bool exists = !stat(path, &st);
    if (exists && !S_ISREG(st.st_mode)) { /* a device or a pipe cannot be replaced by a file */
        output->file = fopen(path, "we");
        return output->file ? 0 : fail_errno(path, errno);
    }
    if (exists && (is_one_of(&st, inputs) || is_run(path))) {
        output->path = NULL;
        return cli_error(TACHO_EEXISTS,
                         "tacho never overwrites a recording: give another name with -o FILE",
                         "%s: this is a recording, or an input of this command", path);
    }
    int os = output_create(output, path, exists);
    if (!os)
        return 0;
    free(output->target);
    free(output->temporary);
    return fail_errno(path, os);
}

/* Gives the complete file its name. 0 or an errno. */
static int output_name(struct cli_output *output)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fileno(output->file));
    if (output->unnamed && linkat(AT_FDCWD, self, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW))
        return errno;
    if (!rename(output->temporary, output->target))
        return 0;
    int os = errno;
    unlink(output->temporary);
    return os;
}

/* 0, or the errno of what went wrong with this stream. A failure in the middle has left only a
 * flag: writing once more says why. */
static int stream_flush(FILE *file)
{
    errno = 0;
    if (!ferror(file) && !fflush(file))
        return 0;
    if (!errno) {
        clearerr(file);
        if (fputc('\n', file) == EOF || fflush(file))
            return errno ? errno : EIO;
    }
    return errno ? errno : EIO;
}

int cli_output_close(struct cli_output *output, int code)
{
    int os = stream_flush(output->file);
    if (output->temporary) {
        if (!os && fsync(fileno(output->file)))
            os = errno;
        if (!os && !code)
            os = output_name(output);
        else if (!output->unnamed)
            unlink(output->temporary);
    }
    if (output->path && fclose(output->file) && !os)
        os = errno;
    free(output->temporary);
    free(output->target);
    if (code || !os)
        return code;
    if (!output->path)
        clearerr(stdout); /* one message is enough */
    return fail_errno(output->path ? output->path : "standard output", os);
}

int cli_output_end(struct cli_output *output, int rc, const char *name, const char *what)
{
    int code = 0;
    if (rc == TACHO_EUSAGE) /* --fields: after a message */
        code = tacho_error_exit(rc);
    else if (rc && rc != TACHO_EIO) /* closing the output says what is wrong with a stream */
        code = cli_error(rc, NULL, "%s: the %s could not be written: %s", name, what,
                         tacho_error_text(rc));
    return cli_output_close(output, code);
}

int cli_stdout_close(int code)
{
    int os = stream_flush(stdout);
    if (fclose(stdout) && !os && errno != EBADF)
        os = errno;
    if (!os || code)
        return code;
    return fail_errno("standard output", os);
}
