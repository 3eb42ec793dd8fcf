/* SPDX-License-Identifier: Apache-2.0
 *
 * The one file that knows ncurses. It shows cells with the attributes of the theme, reads keys,
 * and makes sure that the terminal is put back in every way that the program can end: what signal
 * handlers need is prepared when the terminal is opened.
 */
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

/* ---- putting it back ------------------------------------------------------------------------- */

/* The whole screen scrolls, the cursor stays: a size that changed at the wrong moment may leave a
 * part of it. */
static const char whole_region[] = "\0337\033[r\0338";

/* Called by tputs() for each byte of a capability. */
static int keep_byte(int byte)
{
    if (terminal.reset_bytes < sizeof terminal.reset)
        terminal.reset[terminal.reset_bytes++] = (char)byte;
    return byte;
}

/* Collects the bytes that put the terminal back, while it is safe to ask for them. */
static void prepare_reset(void)
{
    static const char *const names[] = {"sgr0", "op", "cnorm", "rmkx", "rmcup"};
    terminal.reset_bytes = 0;
    for (const char *character = "\033[?1000l\033[?1002l\033[?1006l"; *character && key_mouse;
         character++)
        keep_byte(*character);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *text = tigetstr(names[i]);
        if (text && text != (char *)-1)
            tputs(text, 1, keep_byte);
    }
    terminal.region = change_scroll_region && !strncmp(change_scroll_region, "\033[", 2);
    for (const char *character = whole_region; *character && terminal.region; character++)
        keep_byte(*character);
}

/* Does only what is safe in a signal handler: writes the prepared bytes, then raises the signal
 * again, which now has its default action. */
static void on_crash(int sig)
{
    if (terminal.open) {
        size_t done = 0;
        while (done < terminal.reset_bytes) {
            ssize_t written =
                write(STDOUT_FILENO, terminal.reset + done, terminal.reset_bytes - done);
            if (written <= 0)
                break;
            done += (size_t)written;
        }
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal.saved);
    }
    raise(sig); /* the handler is gone (SA_RESETHAND) */
}

static volatile sig_atomic_t asked_to_leave;

/* The terminal does not accept output any more (Ctrl-S, a line that hangs) and a write to it
 * blocks: leaves without putting the screen back. */
static void on_patience_over(int sig)
{
    sig = asked_to_leave;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.saved);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* A signal asks to leave: tells the loop, and sets an alarm for the case that the terminal
 * blocks. */
static void on_leave(int sig)
{
    unsigned char byte = (unsigned char)sig;
    int saved_errno = errno;
    asked_to_leave = sig;
    alarm(PATIENCE_S);
    if (write(terminal.pipe[1], &byte, 1) < 0)
        _exit(128 + sig); /* the pipe is broken */
    errno = saved_errno;
}

/* Puts the terminal back in an orderly end. */
static void at_exit(void)
{
    if (terminal.open) {
        endwin();
        if (!exit_ca_mode && clr_eol) { /* the screen stays: later output gets a line of its own */
            putp(clr_eol);
            fflush(stdout);
        }
        if (terminal.region && write(STDOUT_FILENO, whole_region, sizeof whole_region - 1) < 0)
            terminal.region = false; /* the terminal is gone */
    }
    terminal.open = false;
}

/* Installs the handlers. Crashes have a stack of their own, since the normal one may be the
 * cause. */
static void catch_signals(void)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
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

/* Restores the earlier handlers. */
static void release_signals(void)
{
    alarm(0);
    sigaction(SIGALRM, &terminal.before_alarm, NULL);
    for (size_t i = 0; i < LEAVING; i++)
        sigaction(leaving[i], &terminal.before[i], NULL);
    for (size_t i = 0; i < CRASHING; i++)
        sigaction(crashing[i], &terminal.before_crash[i], NULL);
}

/* ---- opening, closing ------------------------------------------------------------------------ */

/* Every failure to open a terminal has the same hint. */
static int not_a_terminal(struct tacho_error *err, const char *what)
{
    return tacho_fail(err, TACHO_ENOTSUP,
                      "tacho top --batch prints frames as text, --json objects for programs",
                      "top: %s", what);
}

/* Asks before ncurses starts whether the terminal can place the cursor: no view works without. */
int tui_terminal_open(struct tacho_error *err)
{
    static bool registered;
    int known;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return not_a_terminal(err, "standard input or output is not a terminal");
    if (tcgetattr(STDIN_FILENO, &terminal.saved) || pipe2(terminal.pipe, O_CLOEXEC | O_NONBLOCK))
        return not_a_terminal(err, strerror(errno));
    if (setupterm(NULL, STDOUT_FILENO, &known) != OK)
        return not_a_terminal(err, "unknown terminal type: is TERM correct?");
    const char *cup = tigetstr("cup");
    bool moves = cup && cup != (char *)-1;
    del_curterm(cur_term);
    if (!moves)
        return not_a_terminal(err, "the terminal cannot position the cursor: is TERM correct?");
    set_escdelay(25);
    terminal.screen = newterm(NULL, stdout, stdin);
    if (!terminal.screen)
        return not_a_terminal(err, "unknown terminal type: is TERM correct?");
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

/* ---- colours --------------------------------------------------------------------------------- */

/* Attributes of the theme as those of ncurses. */
static attr_t attributes_of(unsigned flags)
{
    static const struct {
        unsigned ours;
        attr_t curses;
    } pairs[] = {{TUI_ATTR_BOLD, A_BOLD},
                 {TUI_ATTR_DIM, A_DIM},
                 {TUI_ATTR_REVERSE, A_REVERSE},
                 {TUI_ATTR_UNDERLINE, A_UNDERLINE}};
    attr_t attributes = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (flags & pairs[i].ours)
            attributes |= pairs[i].curses;
    return attributes;
}

void tui_terminal_theme(int theme, bool color)
{
    color =
        color && theme != TUI_THEME_MONO && has_colors() && COLORS >= 8 && COLOR_PAIRS > TUI_STYLES;
    for (int style = 0; style < TUI_STYLES; style++) {
        struct tui_look look = tui_theme_look((enum tui_theme)theme, (enum tui_style)style);
        short hue = COLORS >= 256 ? look.of256 : look.of8;
        terminal.attributes[style] = attributes_of(color ? look.attributes : look.mono);
        terminal.pair[style] = 0;
        if (!color || hue < 0)
            continue;
        init_pair((short)(style + 1), hue, -1);
        terminal.pair[style] = (short)(style + 1);
    }
    terminal.all = true;
}

void tui_terminal_mouse(bool on)
{
    mousemask(on ? BUTTON1_CLICKED | BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
    mouseinterval(0);
    terminal.mouse = on;
}

/* ---- keys ------------------------------------------------------------------------------------ */

#define SEQUENCE_MOST 4096 /* characters of an unknown sequence */

/* Reads on to a character from `first` to `last`, as long as some are there. */
static wint_t skip_to(wint_t first, wint_t last)
{
    wint_t code = 0;
    for (int i = 0; i < SEQUENCE_MOST && get_wch(&code) == OK; i++)
        if (code >= first && code <= last)
            return code;
    return 0;
}

static void skip_characters(int count)
{
    wint_t code;
    while (count-- > 0 && get_wch(&code) == OK)
        continue;
}

/* Decodes what follows Escape. Before some characters it begins a sequence of the terminal (a
 * report, a paste, a click, a key that this terminal does not have): such a sequence is skipped.
 * Before all others it is the Escape key, typed quickly, or Alt. */
static int escape_key(void)
{
    wint_t code;
    int kind = get_wch(&code);
    if (kind == KEY_CODE_YES)
        ungetch((int)code);
    if (kind != OK)
        return TUI_KEY_ESCAPE;
    if (code == '[') {
        if (get_wch(&code) == OK && code == 'M')
            skip_characters(3); /* a click */
        else if (code < 0x40 || code > 0x7e)
            skip_to(0x40, 0x7e);
    } else if (code == 'O') {
        skip_characters(1);
    } else if (code == ']' || code == 'P' || code == '_' || code == '^') {
        if (skip_to(7, 27) == 27)
            skip_characters(1);
    } else {
        unget_wch((wchar_t)code);
        return TUI_KEY_ESCAPE;
    }
    return 0;
}

/* Decodes a report of the mouse. The wheel moves the cursor. */
static int mouse_key(int *row, int *column)
{
    MEVENT event;
    if (getmouse(&event) != OK) { /* not asked for: the rest of the report is no key */
        bool sgr = key_mouse && *key_mouse && key_mouse[strlen(key_mouse) - 1] == '<';
        if (!terminal.mouse && sgr)
            skip_to('M', 'm');
        else if (!terminal.mouse)
            skip_characters(3);
        return 0;
    }
    *row = event.y;
    *column = event.x;
    if (event.bstate & BUTTON4_PRESSED)
        return TUI_KEY_UP;
    if (event.bstate & BUTTON5_PRESSED)
        return TUI_KEY_DOWN;
    return event.bstate & (BUTTON1_CLICKED | BUTTON1_PRESSED) ? TUI_KEY_CLICK : 0;
}

/* Translates keys that ncurses has a name for; 0: not used. */
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

/* Translates characters that stand for keys on some terminals. */
static int character_key(wint_t code)
{
    switch (code) {
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
        return code < TUI_KEY_UP ? (int)code : 0;
    }
}

int tui_terminal_key(int *row, int *column)
{
    unsigned char sig;
    wint_t code;
    if (read(terminal.pipe[0], &sig, 1) == 1) {
        terminal.came = sig;
        return TUI_TERMINAL_GONE;
    }
    errno = 0;
    int kind = get_wch(&code), key = 0;
    if (kind == ERR)
        return errno == EIO || errno == EBADF || errno == ENXIO ? TUI_TERMINAL_GONE
                                                                : TUI_TERMINAL_NO_KEY;
    key = kind == KEY_CODE_YES ? function_key((int)code, row, column) : character_key(code);
    return key;
}

/* ---- cells ----------------------------------------------------------------------------------- */

void tui_terminal_redraw(void)
{
    clearok(curscr, TRUE);
    terminal.all = true;
}

/* Keeps the copy of what is on the terminal as large as the surface. */
static bool fit_shown(const struct tui_cells *cells)
{
    if (terminal.shown && terminal.rows == cells->rows && terminal.columns == cells->columns)
        return true;
    size_t count = (size_t)cells->rows * (size_t)cells->columns;
    struct tui_cell *grown = realloc(terminal.shown, (count ? count : 1) * sizeof *grown);
    if (!grown)
        return false;
    terminal.shown = grown;
    terminal.rows = cells->rows;
    terminal.columns = cells->columns;
    terminal.all = true;
    return true;
}

/* Shows one cell; a style that does not exist is drawn as normal text. */
static void put_cell(int row, int column, const struct tui_cell *shown)
{
    wchar_t text[2] = {(wchar_t)shown->glyph, 0};
    cchar_t cell;
    int style = shown->style < TUI_STYLES ? shown->style : TUI_NORMAL;
    if (setcchar(&cell, text, terminal.attributes[style], terminal.pair[style], NULL) == OK)
        mvadd_wch(row, column, &cell);
}

/* Bytes of a character, of the way to it where the one before stays, of its attributes where they
 * differ (measured). */
#define WAY_BYTES   7
#define STYLE_BYTES 9
static int bytes_of(uint32_t glyph)
{
    return 1 + (glyph >= 0x80) + (glyph >= 0x800);
}

/* Writes only cells that changed, and counts the bytes that they cost, so that a slow line is
 * not flooded. */
int tui_terminal_show(const struct tui_cells *cells)
{
    int bytes = 0, style = -1;
    if (!fit_shown(cells))
        return 0;
    if (terminal.all)
        erase();
    for (int row = 0; row < cells->rows; row++)
        for (int column = 0, before = -2; column < cells->columns; column++) {
            size_t i = (size_t)row * (size_t)cells->columns + (size_t)column;
            const struct tui_cell *cell = &cells->cell[i];
            struct tui_cell *was = &terminal.shown[i];
            bool same = !terminal.all && was->glyph == cell->glyph && was->style == cell->style;
            *was = *cell;
            if (same || !cell->glyph)
                continue;
            put_cell(row, column, cell);
            bytes += bytes_of(cell->glyph);
            bytes += before + 1 == column ? 0 : WAY_BYTES;
            bytes += style == cell->style ? 0 : STYLE_BYTES;
            before = column;
            style = cell->style;
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

int tui_terminal_show(const struct tui_cells *cells)
{
    (void)cells;
    return 0;
}

void tui_terminal_redraw(void)
{
}

#endif
