/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/terminal.h"

#include "tui/theme.h"

#ifdef HAVE_NCURSES

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <term.h> /* last: it has macros for all words */
#undef columns
#undef lines

static const int leaving[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
static const int crashing[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define LEAVING    (sizeof leaving / sizeof *leaving)
#define CRASHING   (sizeof crashing / sizeof *crashing)
#define PATIENCE_S 3 /* for the terminal, once a signal asked to leave */

/* What signal handlers read is written before they are installed. */
static struct {
    SCREEN *screen;
    bool open, region; /* region: the terminal has a part of the screen that scrolls */
    struct termios saved;
    char reset[512]; /* bytes that put the terminal back */
    size_t reset_bytes;
    int pipe[2];
    int came; /* the signal that asked to leave */
    struct sigaction before[LEAVING], before_crash[CRASHING], before_alarm;
    struct tui_cell *shown;
    int rows, columns;
    bool all;   /* nothing of `shown` counts */
    bool mouse; /* it was asked for */
    cchar_t blank;
    attr_t attributes[TUI_STYLES];
    short pair[TUI_STYLES];
} terminal = {.pipe = {-1, -1}};

bool tui_has_terminal(void)
{
    return true;
}

/* ---- putting it back ---------------------------------------------------------------------------------------------------------- */

/* The whole screen scrolls, the cursor stays: a size that changed at the wrong moment may leave a
 * part of it. */
static const char whole_region[] = "\0337\033[r\0338";

static int keep_byte(int c)
{
    if (terminal.reset_bytes < sizeof terminal.reset)
        terminal.reset[terminal.reset_bytes++] = (char)c;
    return c;
}

static void prepare_reset(void)
{
    static const char *const names[] = {"sgr0", "op", "cnorm", "rmkx", "rmcup"};
    terminal.reset_bytes = 0;
    for (const char *c = "\033[?1000l\033[?1002l\033[?1006l"; *c && key_mouse; c++)
        keep_byte(*c);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *text = tigetstr(names[i]);
        if (text && text != (char *)-1)
            tputs(text, 1, keep_byte);
    }
    terminal.region = change_scroll_region && !strncmp(change_scroll_region, "\033[", 2);
    for (const char *c = whole_region; *c && terminal.region; c++)
        keep_byte(*c);
}

/* Only what is safe in a signal handler: what was prepared, then the signal again with its default
 * action. */
static void on_crash(int sig)
{
    if (terminal.open) {
        size_t done = 0;
        while (done < terminal.reset_bytes) {
            ssize_t n = write(STDOUT_FILENO, terminal.reset + done, terminal.reset_bytes - done);
            if (n <= 0)
                break;
            done += (size_t)n;
        }
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal.saved);
    }
    raise(sig); /* the handler is gone (SA_RESETHAND) */
}

static volatile sig_atomic_t asked_to_leave;

/* The terminal takes nothing any more (Ctrl-S, a line that hangs), and a write to it waits: leave
 * without it. */
static void on_patience_over(int sig)
{
    sig = asked_to_leave;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.saved);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_leave(int sig)
{
    char c = (char)sig;
    int e = errno;
    asked_to_leave = sig;
    alarm(PATIENCE_S);
    if (write(terminal.pipe[1], &c, 1) < 0)
        _exit(128 + sig); /* nobody reads any more */
    errno = e;
}

static void at_exit(void)
{
    if (terminal.open) {
        endwin();
        if (!exit_ca_mode &&
            clr_eol) { /* the screen stays: what comes next gets a line of its own */
            putp(clr_eol);
            fflush(stdout);
        }
        if (terminal.region && write(STDOUT_FILENO, whole_region, sizeof whole_region - 1) < 0)
            terminal.region = false; /* nobody is there */
    }
    terminal.open = false;
}

static void catch_signals(void)
{
    static char stack[65536];
    stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&s, NULL);
    struct sigaction leave = {.sa_handler = on_leave, .sa_flags = SA_RESTART};
    struct sigaction over = {.sa_handler = on_patience_over};
    sigaction(SIGALRM, &over, &terminal.before_alarm);
    struct sigaction crash = {.sa_handler = on_crash,
                              .sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK)};
    for (size_t i = 0; i < LEAVING; i++)
        sigaction(leaving[i], &leave, &terminal.before[i]);
    for (size_t i = 0; i < CRASHING; i++)
        sigaction(crashing[i], &crash, &terminal.before_crash[i]);
}

static void release_signals(void)
{
    alarm(0);
    sigaction(SIGALRM, &terminal.before_alarm, NULL);
    for (size_t i = 0; i < LEAVING; i++)
        sigaction(leaving[i], &terminal.before[i], NULL);
    for (size_t i = 0; i < CRASHING; i++)
        sigaction(crashing[i], &terminal.before_crash[i], NULL);
}

/* ---- opening, closing ------------------------------------------------------------------------------------------------------------ */

static int not_a_terminal(struct tacho_error *err, const char *what)
{
    return tacho_fail(err, TACHO_ENOTSUP,
                      "tacho top --batch prints frames as text, --json objects for programs",
                      "top: %s", what);
}

int tui_terminal_open(struct tacho_error *err)
{
    static bool registered;
    int known;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return not_a_terminal(err, "standard input or output is no terminal");
    if (tcgetattr(STDIN_FILENO, &terminal.saved) || pipe2(terminal.pipe, O_CLOEXEC | O_NONBLOCK))
        return not_a_terminal(err, strerror(errno));
    if (setupterm(NULL, STDOUT_FILENO, &known) != OK)
        return not_a_terminal(err, "the terminal is not known: is TERM right?");
    const char *cup = tigetstr("cup");
    bool moves = cup && cup != (char *)-1;
    del_curterm(cur_term);
    if (!moves)
        return not_a_terminal(err, "the terminal cannot place the cursor: is TERM right?");
    set_escdelay(25);
    terminal.screen = newterm(NULL, stdout, stdin);
    if (!terminal.screen)
        return not_a_terminal(err, "the terminal is not known: is TERM right?");
    terminal.open = true;
    terminal.all = true;
    terminal.came = 0;
    if (!registered)
        atexit(at_exit);
    registered = true;
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    leaveok(stdscr, TRUE);
    idlok(stdscr, FALSE);
    if (has_colors()) {
        start_color();
        use_default_colors();
    }
    prepare_reset();
    catch_signals();
    return 0;
}

void tui_terminal_close(void)
{
    if (!terminal.screen)
        return;
    mousemask(0, NULL);
    at_exit();
    release_signals();
    delscreen(terminal.screen);
    free(terminal.shown);
    close(terminal.pipe[0]);
    close(terminal.pipe[1]);
    int came = terminal.came;
    memset(&terminal, 0, sizeof terminal);
    terminal.pipe[0] = terminal.pipe[1] = -1;
    if (came) {
        signal(came, SIG_DFL);
        raise(came);
    }
}

void tui_terminal_size(int *rows, int *columns)
{
    getmaxyx(stdscr, *rows, *columns);
}

int tui_terminal_signal_fd(void)
{
    return terminal.pipe[0];
}

/* ---- colours ---------------------------------------------------------------------------------------------------------------------- */

static attr_t attributes_of(unsigned a)
{
    return (a & TUI_ATTR_BOLD ? A_BOLD : 0u) | (a & TUI_ATTR_DIM ? A_DIM : 0u) |
           (a & TUI_ATTR_REVERSE ? A_REVERSE : 0u) | (a & TUI_ATTR_UNDERLINE ? A_UNDERLINE : 0u);
}

void tui_terminal_theme(int theme, bool color)
{
    color =
        color && theme != TUI_THEME_MONO && has_colors() && COLORS >= 8 && COLOR_PAIRS > TUI_STYLES;
    for (int s = 0; s < TUI_STYLES; s++) {
        struct tui_look l = tui_theme_look((enum tui_theme)theme, (enum tui_style)s);
        short hue = COLORS >= 256 ? l.of256 : l.of8;
        terminal.attributes[s] = attributes_of(color ? l.attributes : l.mono);
        terminal.pair[s] = 0;
        if (!color || hue < 0)
            continue;
        init_pair((short)(s + 1), hue, -1);
        terminal.pair[s] = (short)(s + 1);
    }
    terminal.all = true;
}

void tui_terminal_mouse(bool on)
{
    mousemask(on ? BUTTON1_CLICKED | BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
    mouseinterval(0);
    terminal.mouse = on;
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------------- */

#define SEQUENCE_MOST 4096 /* characters of one that nobody knows */

/* Reads on to a character from `first` to `last`, as long as some are there. */
static wint_t skip_to(wint_t first, wint_t last)
{
    wint_t c = 0;
    for (int i = 0; i < SEQUENCE_MOST && get_wch(&c) == OK; i++)
        if (c >= first && c <= last)
            return c;
    return 0;
}

static void skip_characters(int n)
{
    wint_t c;
    while (n-- > 0 && get_wch(&c) == OK)
        continue;
}

/* Escape was read. Before some characters it begins what a terminal tells (a report, a paste, a
 * click, a key that this terminal does not have): none of that is a key of ours. Before all others
 * it is the key, which was typed quickly, or Alt. */
static int escape_key(void)
{
    wint_t c;
    int kind = get_wch(&c);
    if (kind == KEY_CODE_YES)
        ungetch((int)c);
    if (kind != OK)
        return TUI_KEY_ESCAPE;
    if (c == '[') {
        if (get_wch(&c) == OK && c == 'M')
            skip_characters(3); /* a click */
        else if (c < 0x40 || c > 0x7e)
            skip_to(0x40, 0x7e);
    } else if (c == 'O') {
        skip_characters(1);
    } else if (c == ']' || c == 'P' || c == '_' || c == '^') {
        if (skip_to(7, 27) == 27)
            skip_characters(1);
    } else {
        unget_wch((wchar_t)c);
        return TUI_KEY_ESCAPE;
    }
    return 0;
}

static int mouse_key(int *row, int *column)
{
    MEVENT e;
    if (getmouse(&e) !=
        OK) { /* nobody asked for it: the rest of what the terminal says is no key */
        bool sgr = key_mouse && *key_mouse && key_mouse[strlen(key_mouse) - 1] == '<';
        if (!terminal.mouse && sgr)
            skip_to('M', 'm');
        else if (!terminal.mouse)
            skip_characters(3);
        return 0;
    }
    *row = e.y;
    *column = e.x;
    if (e.bstate & BUTTON4_PRESSED)
        return TUI_KEY_UP;
    if (e.bstate & BUTTON5_PRESSED)
        return TUI_KEY_DOWN;
    return e.bstate & (BUTTON1_CLICKED | BUTTON1_PRESSED) ? TUI_KEY_CLICK : 0;
}

static int function_key(int key, int *row, int *column)
{
    static const struct {
        int curses, ours;
    } keys[] = {{KEY_UP, TUI_KEY_UP},
                {KEY_DOWN, TUI_KEY_DOWN},
                {KEY_LEFT, TUI_KEY_LEFT},
                {KEY_RIGHT, TUI_KEY_RIGHT},
                {KEY_PPAGE, TUI_KEY_PAGE_UP},
                {KEY_NPAGE, TUI_KEY_PAGE_DOWN},
                {KEY_HOME, TUI_KEY_HOME},
                {KEY_END, TUI_KEY_END},
                {KEY_ENTER, TUI_KEY_ENTER},
                {KEY_BTAB, TUI_KEY_BACK_TAB},
                {KEY_BACKSPACE, TUI_KEY_BACKSPACE},
                {KEY_F(1), '?'},
                {KEY_RESIZE, TUI_TERMINAL_RESIZED}};
    if (key == KEY_MOUSE)
        return mouse_key(row, column);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].curses == key)
            return keys[i].ours;
    return 0;
}

static int character_key(wint_t c)
{
    switch (c) {
    case '\r':
    case '\n':
        return TUI_KEY_ENTER;
    case '\t':
        return TUI_KEY_TAB;
    case 27:
        return escape_key();
    case 8:
    case 127:
        return TUI_KEY_BACKSPACE;
    default:
        return c < TUI_KEY_UP ? (int)c : 0;
    }
}

int tui_terminal_key(int *row, int *column)
{
    char sig;
    wint_t c;
    if (read(terminal.pipe[0], &sig, 1) == 1) {
        terminal.came = sig;
        return TUI_TERMINAL_GONE;
    }
    errno = 0;
    int kind = get_wch(&c), key = 0;
    if (kind == ERR)
        return errno == EIO || errno == EBADF || errno == ENXIO ? TUI_TERMINAL_GONE
                                                                : TUI_TERMINAL_NO_KEY;
    key = kind == KEY_CODE_YES ? function_key((int)c, row, column) : character_key(c);
    return key;
}

/* ---- cells ------------------------------------------------------------------------------------------------------------------------ */

void tui_terminal_redraw(void)
{
    clearok(curscr, TRUE);
    terminal.all = true;
}

static bool fit_shown(const struct tui_cells *cells)
{
    if (terminal.shown && terminal.rows == cells->rows && terminal.columns == cells->columns)
        return true;
    size_t n = (size_t)cells->rows * (size_t)cells->columns;
    struct tui_cell *grown = realloc(terminal.shown, (n ? n : 1) * sizeof *grown);
    if (!grown)
        return false;
    terminal.shown = grown;
    terminal.rows = cells->rows;
    terminal.columns = cells->columns;
    terminal.all = true;
    return true;
}

static void put_cell(int row, int column, const struct tui_cell *x)
{
    wchar_t text[2] = {(wchar_t)x->glyph, 0};
    cchar_t cell;
    int style = x->style < TUI_STYLES ? x->style : TUI_NORMAL;
    if (setcchar(&cell, text, terminal.attributes[style], terminal.pair[style], NULL) == OK)
        mvadd_wch(row, column, &cell);
}

/* Bytes of a character, of the way to it where the one before stays, of its attributes where they
 * differ (measured). */
#define WAY_BYTES   7
#define STYLE_BYTES 9
static int bytes_of(uint32_t glyph)
{
    return glyph < 0x80 ? 1 : glyph < 0x800 ? 2 : 3;
}

int tui_terminal_show(const struct tui_cells *c)
{
    int bytes = 0, style = -1;
    if (!fit_shown(c))
        return 0;
    if (terminal.all)
        erase();
    for (int row = 0; row < c->rows; row++)
        for (int column = 0, before = -2; column < c->columns; column++) {
            size_t i = (size_t)row * (size_t)c->columns + (size_t)column;
            const struct tui_cell *x = &c->cell[i];
            struct tui_cell *was = &terminal.shown[i];
            bool same = !terminal.all && was->glyph == x->glyph && was->style == x->style;
            *was = *x;
            if (same || !x->glyph)
                continue;
            put_cell(row, column, x);
            bytes += bytes_of(x->glyph) + (before + 1 == column ? 0 : WAY_BYTES) +
                     (style == x->style ? 0 : STYLE_BYTES);
            before = column;
            style = x->style;
        }
    terminal.all = false;
    refresh();
    return bytes;
}

#else /* no ncurses */

bool tui_has_terminal(void)
{
    return false;
}

int tui_terminal_open(struct tacho_error *err)
{
    return tacho_fail(
        err, TACHO_ENOTSUP,
        "install ncurses (libncurses-dev) and build again; --batch and --json work without",
        "top: this tacho was built without ncurses");
}

void tui_terminal_close(void)
{
}

void tui_terminal_size(int *rows, int *columns)
{
    *rows = *columns = 0;
}

int tui_terminal_signal_fd(void)
{
    return -1;
}

void tui_terminal_theme(int theme, bool color)
{
    (void)theme, (void)color;
}

void tui_terminal_mouse(bool on)
{
    (void)on;
}

int tui_terminal_key(int *row, int *column)
{
    (void)row, (void)column;
    return TUI_TERMINAL_GONE;
}

int tui_terminal_show(const struct tui_cells *c)
{
    (void)c;
    return 0;
}

void tui_terminal_redraw(void)
{
}

#endif
