/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: a folder of runs that appears under its name when all of them are there.
 */
#ifndef CLI_BASE_VERIFY_FOLDER_H
#define CLI_BASE_VERIFY_FOLDER_H

#include <limits.h>
#include <stddef.h>

#include "profiler/collector/collector.h"

#define CLI_FOLDER_MOST (PATH_MAX - 64)

struct cli_folder {
    char name[CLI_FOLDER_MOST], temporary[CLI_FOLDER_MOST];
    int fd; /* of the temporary one, whatever its name leads to later */
};
/* Makes the temporary folder beside `name`; name NULL: RUN-verify-N in this folder. 0 or an exit
 * code, after a message (the folder exists). */
int cli_folder_make(struct cli_folder *folder, const char *name, const char *run, size_t number);
/* Gives it its name, or says that it keeps the temporary one because there is such a folder by now;
 * `code` != 0 removes it with all it holds instead. Returns `code`. */
int cli_folder_end(struct cli_folder *folder, int code);

struct cli_kept {
    struct col_found found; /* path: where the run is now; run: where it will be */
    char log[PATH_MAX];     /* what the program prints */
};
/* The names of run `index` (from 0) of a side, "before" or "after". */
void cli_folder_file(const struct cli_folder *folder, const char *side, size_t index,
                     struct cli_kept *kept);
/* Prints the last lines that the program printed. */
void cli_folder_say_log(const struct cli_kept *kept);

#endif
