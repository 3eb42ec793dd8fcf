/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch/fleet_view.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "monitor/fleet/fleet.h"
#include "monitor/serve/serve.h"

#define PATIENCE_S 5 /* for each watch */
#define ROWS       24
#define COLUMNS    80

/* xterm's sequences: the other screen, without a cursor; home; the rest of a line, of the screen */
#define SCREEN_ON  "\033[?1049h\033[?25l"
#define SCREEN_OFF "\033[?25h\033[?1049l"
#define HOME       "\033[H"
#define LINE_REST  "\033[K"
#define REST       "\033[J"

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    stop = number;
}

/* The table as it is now, as text; NULL: no memory. Caller frees. */
static char *table_text(const struct mon_fleet *fleet)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    mon_fleet_print(fleet, out);
    return fclose(out) ? NULL : text;
}

/* Prints as many lines as the screen has, each cut to its width; the last one says what is not
 * shown. */
static void print_screen(const char *text, double interval_s)
{
    struct winsize size = {.ws_row = ROWS, .ws_col = COLUMNS};
    char stamp[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    int row = 0, hidden = 0;
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    fputs(HOME, stdout);
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (row++ < size.ws_row - 1)
            printf("%.*s" LINE_REST "\r\n",
                   (int)(length < size.ws_col ? length : (size_t)size.ws_col), text);
        else
            hidden++;
        text += length + (text[length] == '\n');
    }
    strftime(stamp, sizeof stamp, "%H:%M:%S", localtime_r(&now, &tm));
    if (hidden)
        printf("%s, %d more lines, q ends" REST, stamp, hidden);
    else
        printf("%s, every %g s, q ends" REST, stamp, interval_s);
    fflush(stdout);
}

/* Waits for the next table. True: the user has had enough. */
static bool wait_key(double seconds, bool screen)
{
    struct pollfd key = {.fd = screen ? STDIN_FILENO : -1, .events = POLLIN};
    char pressed = 0;
    if (poll(&key, 1, (int)(seconds * 1000)) > 0 && read(STDIN_FILENO, &pressed, 1) != 1)
        return true;
    return stop || pressed == 'q' || pressed == 3;
}

static int show(const struct cli_fleet_view *view, const char *token)
{
    int rc = 0;
    for (int64_t frame = 0; !rc && !stop && (!view->frames || frame < view->frames); frame++) {
        struct tacho_error err = {0};
        struct mon_fleet fleet;
        if (frame && wait_key(view->interval_s, view->screen))
            break;
        rc = mon_fleet_read(&fleet, view->from, *token ? token : NULL, PATIENCE_S, &err);
        char *text = rc ? NULL : table_text(&fleet);
        mon_fleet_free(&fleet);
        if (rc)
            return cli_fail(&err);
        if (!text)
            return cli_error(TACHO_ENOMEM, NULL, "fleet");
        if (view->screen)
            print_screen(text, view->interval_s);
        else
            printf("%s%s", frame ? "\n" : "", text);
        free(text);
        if (fflush(stdout)) /* the reader of a pipe is gone: closing stdout says so */
            return 0;
    }
    return rc;
}

int cli_fleet_view(const struct cli_fleet_view *view)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct tacho_error err = {0};
    struct termios before, raw;
    char token[MON_TOKEN_MOST] = "";
    if (view->token_file && mon_token_read(view->token_file, token, &err))
        return cli_fail(&err);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    bool keys = view->screen && !tcgetattr(STDIN_FILENO, &before);
    if (keys) {
        raw = before;
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    if (view->screen)
        fputs(SCREEN_ON, stdout);
    int code = show(view, token);
    if (view->screen)
        fputs(SCREEN_OFF, stdout);
    fflush(stdout);
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    explicit_bzero(token, sizeof token);
    return code;
}
