/* SPDX-License-Identifier: Apache-2.0
 *
 * Long output on a terminal goes through a pager.
 */
#ifndef CLI_PAGER_H
#define CLI_PAGER_H

#include <sys/types.h>

struct cli_pager {
    pid_t child; /* 0: there is no pager */
    int screen;  /* the terminal, as a descriptor */
};

/* Sends stdout to $PAGER (else less, which ends at once where everything fits on the screen) if it
 * is a terminal. Where none can be started, or PAGER is empty or "cat", the terminal stays. */
void cli_pager_start(struct cli_pager *pager);
/* Waits until the reader has closed the pager. What was written after that is no error. */
void cli_pager_end(struct cli_pager *pager);

#endif
