/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: everything that goes to stderr, and files that are complete or not there.
 */
#ifndef CLI_BASE_MESSAGE_H
#define CLI_BASE_MESSAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "tacho_error.h"

/* "tacho: WHAT" and "hint: HINT" on stderr; returns the exit code that fits. An error without a
 * hint gets the usual one of its code. */
int cli_fail(const struct tacho_error *err);
/* The same for a TACHO_E* code and a text. `hint` may be NULL. */
__attribute__((format(printf, 3, 4))) int cli_error(int code, const char *hint, const char *what,
                                                    ...);
/* Wrong usage of a command: exit code 2. `hint` may be NULL. */
__attribute__((format(printf, 3, 4))) int cli_usage(const char *command, const char *hint,
                                                    const char *what, ...);
/* "tacho: TEXT" on stderr. */
__attribute__((format(printf, 1, 2))) void cli_say(const char *text, ...);

/* From here on each message is one JSON object (tacho-message/1, docs/agents.md) on a line of
 * stderr: for a user who asked for --json. */
void cli_messages_as_json(void);
/* What a server keeps of the messages of one request instead of printing them. */
struct cli_messages {
    struct tacho_error error; /* the last one; code 0: none */
    char notes[2000];         /* a line each; what does not fit is left out */
};
/* From here on messages go into `messages` (which is emptied); NULL: to stderr again. */
void cli_messages_keep(struct cli_messages *messages);
/* The name of a TACHO_E* code in JSON: "NOTFOUND". Static storage. */
const char *cli_error_name(int code);

/* Text for a terminal: control characters and broken UTF-8 become visible escapes. Caller frees;
 * NULL without memory. */
char *cli_printable(const char *text);
/* A word as a shell needs it to be typed: quoted where that is needed; $'...' where it holds what
 * cli_printable changes. Caller frees. */
char *cli_shell_word(const char *text);

bool cli_has_suffix(const char *text, const char *suffix);

/* `when`: "auto", "always", "never" or NULL = auto. */
bool cli_color(const char *when, int fd);
/* Columns of the terminal at fd, or `otherwise`. */
int cli_columns(int fd, int otherwise);
/* Lines of a terminal; 0: it is none, or does not say. */
int cli_rows(int fd);
/* May characters beyond ASCII be printed? (after setlocale) */
bool cli_utf8(void);

/* ---- output ---------------------------------------------------------------------------------------------------------- */

/* A result goes to stdout, or to a file that appears under its name when it is complete. */
struct cli_output {
    FILE *file;
    const char *path; /* NULL: stdout */
    /* Name until it is complete; NULL: written in place (stdout, a device, a pipe). */
    char *temporary;
    char *target; /* the file that `path` leads to */
    bool unnamed; /* the temporary file has no name either */
};

/* path NULL or "-": stdout. `inputs`: what the command reads, a list that ends with NULL (or NULL):
 * none of them is replaced, and neither is any run, because a recording that is overwritten by
 * mistake is lost for ever. 0 or an exit code, after a message. */
int cli_output_open(struct cli_output *output, const char *path, char *const *inputs);
/* Closes what was written with the result `rc`, 0 or TACHO_E*, and says so if it failed: "NAME: the
 * WHAT could not be written". 0 or an exit code. */
int cli_output_end(struct cli_output *output, int rc, const char *name, const char *what);
/* Syncs, renames; `code` != 0 discards instead. Returns `code`, or an exit code after a message if
 * writing failed. */
int cli_output_close(struct cli_output *output, int code);
/* At the end of the program: did everything reach stdout? */
int cli_stdout_close(int code);

#endif
