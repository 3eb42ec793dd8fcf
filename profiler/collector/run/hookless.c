/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at the command, the environment and the libraries of the Python processes of a run.
 */
#include "profiler/collector/run/hookless.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/os/text.h"

#define PAUSE_NS 500000000
#define SHARE    1000 /* a look may take this part of the time until the next one */
#define DEEPEST  50   /* generations below the target */
#define MOST     5000 /* processes that one look sees */

void col_hookless_init(struct col_hookless *hookless, const char *library, bool no_hook)
{
    int length;
    const char *folder = col_folder_of(library, &length);
    *hookless = (struct col_hookless){0};
    length =
        snprintf(hookless->folder, sizeof hookless->folder, "%.*s/tacho-python", length, folder);
    if (no_hook || length < 0 || (size_t)length >= sizeof hookless->folder ||
        access(hookless->folder, R_OK | X_OK))
        hookless->folder[0] = 0;
}

/* The string after this one; NULL: it is the last one. */
static const char *after(const char *string, const char *end)
{
    string += strlen(string) + 1;
    return string < end ? string : NULL;
}

/* The first of the letters E, I and S among the options of Python; 0: none of them. Options end at
 * the program, which is a file, -c or -m; -W and -X have a value. */
static char ignoring_option(const char *command, const char *end)
{
    const char *word = command < end ? after(command, end) : NULL;
    for (; word && word[0] == '-' && word[1] && word[1] != '-'; word = after(word, end))
        for (const char *letter = word + 1; *letter; letter++) {
            if (strchr("EIS", *letter))
                return *letter;
            if (strchr("cm", *letter))
                return 0;
            if (!strchr("WX", *letter))
                continue;
            if (!letter[1])
                word = after(word, end);
            if (!word)
                return 0;
            break;
        }
    return 0;
}

/* The value of a variable; NULL: it is not set. */
static const char *variable(const char *environment, const char *end, const char *name)
{
    size_t length = strlen(name);
    for (const char *entry = environment < end ? environment : NULL; entry;
         entry = after(entry, end))
        if (!strncmp(entry, name, length) && entry[length] == '=')
            return entry + length + 1;
    return NULL;
}

const char *col_hookless_reason(const char *command, size_t command_length, const char *environment,
                                size_t environment_length, const char *folder)
{
    switch (ignoring_option(command, command + command_length)) {
    case 'E':
        return "python was started with -E, which ignores PYTHONPATH: leave -E out";
    case 'I':
        return "python was started with -I, which ignores PYTHONPATH: leave -I out";
    case 'S':
        return "python was started with -S, which imports no sitecustomize: leave -S out";
    default:
        break;
    }
    const char *path = variable(environment, environment + environment_length, "PYTHONPATH");
    if (!path)
        return "PYTHONPATH was removed from its environment (env -i, sudo, a container): keep the "
               "environment that tacho run sets";
    if (!strstr(path, folder))
        return "PYTHONPATH was replaced: add to it instead (PYTHONPATH=FOLDER:$PYTHONPATH)";
    return NULL;
}

/* Is the program of the process an interpreter of Python? */
static bool is_python(int32_t pid)
{
    char path[48], program[COL_PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = 0;
    const char *slash = strrchr(program, '/');
    return slash && !strncmp(slash + 1, "python", strlen("python"));
}

/* Why that process does not import the hook; NULL: it does, or what it does is not known. */
static const char *reason_of(int32_t pid, const char *folder)
{
    char path[48], command[4096], environment[65536];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    long command_length = col_proc_read(path, command, sizeof command);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    long environment_length = col_proc_read(path, environment, sizeof environment);
    /* what fills its room may have been cut off */
    if (command_length <= 0 || environment_length < 0 ||
        environment_length >= (long)sizeof environment - 1)
        return NULL;
    return col_hookless_reason(command, (size_t)command_length, environment,
                               (size_t)environment_length, folder);
}

struct search {
    struct col_hookless *hookless;
    int depth, seen;
};

/* Looks at one process of the run and at those below it. The libraries, which are the longest to
 * read, are looked at last. */
static void consider(void *ctx, int32_t pid)
{
    struct search *search = ctx;
    struct col_hookless *hookless = search->hookless;
    if (hookless->reason || search->depth == DEEPEST || ++search->seen > MOST)
        return;
    const char *reason = is_python(pid) ? reason_of(pid, hookless->folder) : NULL;
    if (reason && col_proc_maps_named(pid, "libtorch_python.so"))
        hookless->reason = reason;
    search->depth++;
    col_proc_children(pid, consider, search);
    search->depth--;
}

bool col_hookless_look(struct col_hookless *hookless, pid_t child, int64_t now)
{
    struct search search = {.hookless = hookless};
    if (!hookless->folder[0] || hookless->reason || child <= 0 || now < hookless->next)
        return hookless->reason != NULL;
    int64_t began = col_clock_thread(); /* what other threads take is no cost of looking */
    col_proc_children((int32_t)getpid(), consider, &search);
    int64_t took = col_clock_thread() - began;
    hookless->next = now + (took * SHARE > PAUSE_NS ? took * SHARE : PAUSE_NS);
    return hookless->reason != NULL;
}
