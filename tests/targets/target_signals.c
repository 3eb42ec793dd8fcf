/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that says which signals reach it and how it stands in its session. Prints
 *
 *     ready PID PPID PGRP SID FOREGROUND       FOREGROUND: process group of the terminal, -1
 * without one signal NAME                              for each one, in the order of arrival
 *
 * and records an NVTX mark "signal NAME" for it. Ends on TERM, or after --count signals.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "tacho_nvtx.h"

static const int numbers[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM,
                              SIGCONT, SIGWINCH, SIGPIPE, SIGALRM, SIGTSTP};

static const char usage[] =
    "target_signals [OPTIONS]: prints the signals it gets, until TERM\n"
    "  --count N    end after N signals\n"
    "  --exit N     exit status at the end (0)\n"
    "  --default    keep the default action of all signals: just wait to be ended by one\n";

static const struct option options[] = {{"count", 1, 0, 'c'},
                                        {"exit", 1, 0, 'x'},
                                        {"default", 0, 0, 'd'},
                                        {"help", 0, 0, 'h'},
                                        {0, 0, 0, 0}};

int main(int argc, char **argv)
{
    long count = -1, status = 0;
    int keep_default = 0;
    sigset_t set;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'c')
            count = atol(optarg);
        else if (c == 'x')
            status = atol(optarg);
        else if (c == 'd')
            keep_default = 1;
        else {
            fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&set, numbers[i]);
    if (!keep_default)
        sigprocmask(SIG_BLOCK, &set, NULL);
    nvtxMarkA("ready");
    printf("ready %d %d %d %d %d\n", (int)getpid(), (int)getppid(), (int)getpgrp(), (int)getsid(0),
           (int)tcgetpgrp(0));
    while (keep_default)
        pause();
    for (int sig; count != 0 && sigwait(&set, &sig) == 0; count -= count > 0) {
        char text[32];
        snprintf(text, sizeof text, "signal %s", sigabbrev_np(sig));
        nvtxMarkA(text);
        puts(text);
        if (sig == SIGTSTP)
            raise(SIGSTOP);
        if (sig == SIGTERM)
            break;
    }
    return (int)status;
}
