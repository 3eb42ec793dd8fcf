/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is whole or not there: it is written beside its name as NAME.tmp and renamed when it
 * is complete. A run that is killed leaves at most NAME.tmp, which the next one overwrites. Two
 * writers of one name do not mix: the second is refused.
 */
#ifndef LT_OUTPUT_H
#define LT_OUTPUT_H

#include <limits.h>

#include "tacho_error.h"

struct lt_output {
    char path[PATH_MAX], temporary[PATH_MAX];
    const char *option; /* of the command line, for words: "--checkpoint" */
    int fd;             /* to write to; the caller does not close it */
};

/* Before a long run: says that `path` could be written, or why not. No file is made. 0;
 * TACHO_EUSAGE, TACHO_EIO with words. */
int lt_output_check(const char *path, const char *option, struct tacho_error *err);

/* Makes the temporary file, empty, and locks it. `option` is borrowed. 0; TACHO_EBUSY while another
 * process writes that name; TACHO_EIO. On an error there is nothing to end. */
int lt_output_begin(struct lt_output *out, const char *path, const char *option,
                    struct tacho_error *err);

/* failed 0: makes the file durable and gives it its name. Else (an errno, from the caller's writes)
 * removes it. 0; TACHO_ENOSPACE, TACHO_EIO with words, and then there is no temporary file any
 * more. */
int lt_output_end(struct lt_output *out, int failed, struct tacho_error *err);

/* Removes it, without words: the caller has them. */
void lt_output_drop(struct lt_output *out);

/* For a signal's handler that is about to end the process: removes the temporary file that was
 * begun last and has not ended. */
void lt_output_abandon(void);

#endif
