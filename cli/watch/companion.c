/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch/companion.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/base/message.h"

#define PATIENCE_MS 4000
#define ROUND_MS    20

/* In the child: as a shell would have started it, but for its session and its stdout. */
static void become_watch(const struct cli_companion *companion, const char *folder)
{
    const char *argv[8] = {"tacho", "watch", "--quiet"};
    int count = 3;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    dup2(STDERR_FILENO, STDOUT_FILENO);
    if (companion->config) {
        argv[count++] = "--config";
        argv[count++] = companion->config;
    }
    argv[count++] = folder;
    execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(127);
}

int32_t cli_companion_start(void *ctx, const char *folder)
{
    struct cli_companion *companion = ctx;
    pid_t child = fork();
    if (!child)
        become_watch(companion, folder);
    if (child < 0)
        cli_say("the run is not watched: %s", strerror(errno));
    companion->pid = child < 0 ? 0 : (int32_t)child;
    return companion->pid;
}

void cli_companion_end(const struct cli_companion *companion)
{
    for (int waited = 0; companion->pid && waited < PATIENCE_MS; waited += ROUND_MS) {
        if (waitpid(companion->pid, NULL, WNOHANG)) /* it ended, or the recording has reaped it */
            return;
        poll(NULL, 0, ROUND_MS);
    }
    if (companion->pid)
        kill(companion->pid, SIGTERM);
}
