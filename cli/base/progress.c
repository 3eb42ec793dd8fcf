/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress bar of long work, the signals that stop it, and files that are removed at the end.
 */
#include "cli/base/progress.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "reports/words/compare.h"
#include "reports/words/escape.h"
#include "tacho_clock.h"

#define QUIET_MS   500
#define REDRAW_MS  100
#define NAME_MOST  40 /* columns of the name's end */
#define NAME_LEAST 8
#define BAR_MOST   30 /* columns of the bar */
#define BAR_LEAST  4
#define AROUND     21 /* "reading ...", " [", "] 100 %"; the last column stays free */

static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
#define STOPS (sizeof stops / sizeof *stops)

static volatile sig_atomic_t asked; /* the signal, 0: none */
static struct sigaction before[STOPS];

/* The first signal asks the work to stop; the default action of the next one ends the program. */
static void on_stop(int number)
{
    asked = number;
    signal(number, SIG_DFL); /* the next one does not ask */
}

void cli_progress_begin(struct cli_progress *progress, const char *what)
{
    *progress = (struct cli_progress){
        .what = what, .begun = tacho_now_ns() / 1000000, .terminal = isatty(STDERR_FILENO) == 1};
    asked = 0;
    for (size_t i = 0; i < STOPS; i++) {
        sigaction(stops[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) /* nohup stays nohup */
            sigaction(stops[i], &(struct sigaction){.sa_handler = on_stop}, NULL);
    }
}

int cli_progress_step(void *ctx, int64_t done, int64_t total)
{
    struct cli_progress *progress = ctx;
    if (asked)
        return 1;
    if (!progress->terminal)
        return 0;
    int64_t now = tacho_now_ns() / 1000000;
    if (now - progress->begun < QUIET_MS || now - progress->shown < REDRAW_MS)
        return 0;
    progress->shown = now;
    double share = total > 0 && done > 0 ? fmin(1, (double)done / (double)total) : 0;
    /* a line that wraps would leave its first part on the screen */
    int room = cli_columns(STDERR_FILENO, 80) - AROUND;
    int bar_width = rep_clamp(room - NAME_LEAST, BAR_LEAST, BAR_MOST);
    int name_width = rep_clamp(room - bar_width, 0, NAME_MOST);
    char bar[BAR_MOST + 1] = "", *name = cli_printable(progress->what);
    memset(bar, '.', (size_t)bar_width);
    memset(bar, '#', (size_t)(share * bar_width));
    const char *shown = name ? name : "", *dots = "";
    if (rep_width(shown) > name_width) {
        dots = "...";
        while (rep_width(shown) > name_width)
            for (shown++; (*shown & 0xc0) == 0x80;) /* the rest of a character */
                shown++;
    }
    fprintf(stderr, "\r\033[Kreading %s%s [%s] %3.0f %%", dots, shown, bar, 100 * share);
    fflush(stderr);
    free(name);
    progress->visible = true;
    return 0;
}

int cli_progress_end(struct cli_progress *progress)
{
    if (progress->visible)
        fputs("\r\033[K", stderr);
    progress->visible = false;
    for (size_t i = 0; i < STOPS; i++)
        sigaction(stops[i], &before[i], NULL);
    return asked;
}

/* ---- files that do not outlive the program ------------------------------------------------------------------------------ */

#define REMOVE_MAX 16
static char to_remove[REMOVE_MAX][PATH_MAX];
static volatile sig_atomic_t remove_count;

static void remove_all(void)
{
    for (int i = remove_count; i-- > 0;) /* the files of a folder were added after it */
        if (unlink(to_remove[i]))
            rmdir(to_remove[i]);
}

/* Removes the temporary files when a signal ends the program. */
static void on_end(int number)
{
    remove_all();
    signal(number, SIG_DFL);
    raise(number);
}

int cli_remove_at_exit(const char *path)
{
    size_t length = strlen(path);
    if (remove_count >= REMOVE_MAX || length >= PATH_MAX)
        return -1;
    memcpy(to_remove[remove_count], path, length + 1);
    if (++remove_count > 1)
        return 0;
    atexit(remove_all);
    for (size_t i = 0; i < STOPS; i++) {
        struct sigaction old;
        sigaction(stops[i], NULL, &old);
        if (old.sa_handler == SIG_DFL)
            sigaction(stops[i], &(struct sigaction){.sa_handler = on_end}, NULL);
    }
    struct sigaction pipe; /* `| head` ends a program as well */
    sigaction(SIGPIPE, NULL, &pipe);
    if (pipe.sa_handler == SIG_DFL)
        sigaction(SIGPIPE, &(struct sigaction){.sa_handler = on_end}, NULL);
    return 0;
}

bool cli_removes_at_exit(void)
{
    return remove_count > 0;
}
