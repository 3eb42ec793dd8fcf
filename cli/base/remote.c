/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the same command on another machine.
 */
#include "cli/base/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"

#define SCHEME "ssh://"

bool cli_is_remote(const char *run)
{
    return run && !strncmp(run, SCHEME, strlen(SCHEME));
}

/* The host and the path of ssh://[USER@]HOST[:PORT]/PATH; the path begins with its slash, or after
 * "~" stays in the home of the user: ssh://host/~/runs/a.tacho. False: it is no such name. ssh
 * takes ssh://HOST:PORT itself. */
static bool split_name(const char *run, char host[256], const char **path)
{
    const char *begin = run + strlen(SCHEME), *slash = strchr(begin, '/');
    size_t length = slash ? (size_t)(slash - begin) : 0;
    if (!length || length >= 200 || begin[0] == '-' || !slash[1])
        return false;
    snprintf(host, 256, "%s%.*s", SCHEME, (int)length, begin);
    *path = !strncmp(slash, "/~/", 3) ? slash + 3 : slash;
    return true;
}

/* The command line for the shell of the other machine; the caller's. NULL: no memory. */
static char *remote_line(const char *run, const char *path, int argc, char **argv)
{
    const char *program = getenv("TACHO_REMOTE");
    char *text = NULL;
    size_t bytes = 0;
    FILE *line = open_memstream(&text, &bytes);
    if (!line)
        return NULL;
    fputs(program && *program ? program : "tacho", line);
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i] == run ? path : argv[i];
        char *quoted = cli_shell_word(word);
        bool option = word[0] == '-' && quoted && !strncmp(quoted, "./", 2);
        fprintf(line, " %s", option ? quoted + 2 : quoted);
        free(quoted);
    }
    fclose(line);
    return text;
}

int cli_remote_run(const char *run, int argc, char **argv)
{
    char host[256], *line;
    const char *path;
    if (!split_name(run, host, &path))
        return cli_usage(argv[0], "for example ssh://user@host/path/to/run.tacho",
                         "'%.200s' does not name a run on another machine", run);
    line = remote_line(run, path, argc, argv);
    if (!line)
        return cli_error(TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
    execlp("ssh", "ssh", isatty(STDOUT_FILENO) ? "-t" : "-T", "--", host, line, (char *)NULL);
    free(line);
    return cli_error(TACHO_ENOTSUP, "install an ssh client",
                     "%.200s: the program ssh was not found", run);
}
