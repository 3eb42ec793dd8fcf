/* SPDX-License-Identifier: Apache-2.0
 *
 * The pager is a child with a pipe; stdout is that pipe until it ends.
 */
#include "cli/base/pager.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sigaction pipe_action, interrupt_action;

/* In the child: reads the pipe, and is the program that the user chose. */
static void become_pager(const char *program, const int ends[2])
{
    if (dup2(ends[0], STDIN_FILENO) < 0)
        _exit(127);
    close(ends[0]);
    close(ends[1]);
    setenv("LESS", "FRX", 0);
    execl("/bin/sh", "sh", "-c", program, (char *)NULL);
    _exit(127);
}

/* Can a pager of that name be started by a shell? */
static bool is_there(const char *program)
{
    char command[600];
    int length = snprintf(command, sizeof command, "command -v %.*s > /dev/null 2>&1",
                          (int)strcspn(program, " "), program);
    return length > 0 && (size_t)length < sizeof command && system(command) == 0;
}

void cli_pager_start(struct cli_pager *pager)
{
    const char *program = getenv("PAGER"), *terminal = getenv("TERM");
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int ends[2];
    *pager = (struct cli_pager){.screen = -1};
    program = program ? program : "less";
    bool dumb = !terminal || !strcmp(terminal, "dumb");
    if (!isatty(STDOUT_FILENO) || dumb || !*program || !strcmp(program, "cat") ||
        !is_there(program) || pipe(ends))
        return;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        become_pager(program, ends);
    pager->screen = dup(STDOUT_FILENO);
    if (child < 0 || pager->screen < 0 || dup2(ends[1], STDOUT_FILENO) < 0) {
        close(ends[0]);
        close(ends[1]);
        return; /* a child reads the end of an empty pipe, and ends */
    }
    close(ends[0]);
    close(ends[1]);
    pager->child = child;
    sigaction(SIGPIPE, &ignore, &pipe_action); /* a reader who leaves early has read enough */
    sigaction(SIGINT, &ignore, &interrupt_action);
}

void cli_pager_end(struct cli_pager *pager)
{
    if (!pager->child)
        return;
    fflush(stdout);
    clearerr(stdout);
    dup2(pager->screen, STDOUT_FILENO); /* closes the pipe */
    close(pager->screen);
    while (waitpid(pager->child, NULL, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGPIPE, &pipe_action, NULL);
    sigaction(SIGINT, &interrupt_action, NULL);
    pager->child = 0;
}
