/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: starts the command of a recording again. What a file stores is data: it is
 * checked, printed, and started word by word, never through a shell.
 */
#ifndef CLI_BASE_RERUN_H
#define CLI_BASE_RERUN_H

#include <stdio.h>

#include <jansson.h>

#include "analyzers/result/result.h"
#include "profiler/collector/collector.h"

/* Is the file the caller's own, a plain file in a folder in which no other user can exchange it,
 * nor any folder above it? To be asked before the file is read; found->path is then its real path.
 * 0, or with `yes` after a warning; else an exit code after a message. Never for root with the file
 * of another user. */
int cli_rerun_owned(struct col_found *found, bool yes);

/* A recorded command, ready to be started. */
struct cli_rerun {
    json_t *words;               /* a list of texts */
    json_t *environment;         /* NULL: none was recorded */
    const char *const *launcher; /* words before `tacho run`; NULL: none */
    const char *ranks;           /* after them */
};
/* Takes the command of an analyzed run: 0, or an exit code after a message (not stored, redacted,
 * recorded by another user or on another host without `yes`). The texts of `rerun` live as long as
 * the result; cli_rerun_clear frees the rest. */
int cli_rerun_read(const struct col_found *found, const struct an_result *result, bool yes,
                   struct cli_rerun *rerun);
void cli_rerun_clear(struct cli_rerun *rerun);
/* Does a word of the command name a program, with or without its folder? */
bool cli_rerun_has_program(const struct cli_rerun *rerun, const char *program);
/* The command after a change (analyzers/steps/change.h; NULL: none) as one types it, with `output`
 * for the file. The caller's; NULL: no memory. */
char *cli_rerun_text(const struct cli_rerun *rerun, const json_t *change, const char *output);

/* Prints a word of a command for a shell; an option stays one. */
void cli_rerun_put_word(FILE *out, const char *word);

/* From here to cli_rerun_end, INT, TERM, HUP and QUIT end the program that runs, not this one. */
void cli_rerun_begin(void);
/* Records the command after a change into the new file `output`, with what it prints in `log`. The
 * exit code of `tacho run`, or of an error after a message; *stopped: the signal that came, 0. */
int cli_rerun_record(const struct cli_rerun *rerun, const json_t *change, const char *output,
                     const char *log, int *stopped);
/* Starts other words in a folder (NULL: this one), with the environment as it is and the streams in
 * `log`, and waits. Exit code and *stopped as above. */
int cli_rerun_start(char **words, const char *folder, const char *log, int *stopped);
/* Looks at a program while it runs, some times a second: it is ended (SIGTERM) once `enough`
 * returns true, which is not asked again then. */
struct cli_rerun_watch {
    bool (*enough)(void *ctx);
    void *ctx;
    bool ended; /* it was */
};
/* Records a command, a list of words that ends with NULL, in a folder, reads the recording and
 * removes it: `file` is where it lies meanwhile, from that folder too. `watch` may be NULL. Exit
 * code, *stopped and `log` as above; *result is the caller's, NULL where there is none. */
int cli_rerun_measure(char *const *command, const char *folder, const char *file, const char *log,
                      struct cli_rerun_watch *watch, int *stopped, struct an_result **result);
void cli_rerun_end(void);

#endif
