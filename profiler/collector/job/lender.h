/* SPDX-License-Identifier: Apache-2.0
 *
 * Lends files for pools to processes of the run that may not make files in its folder, because they
 * changed their user or their root (su, setpriv, setuid programs, chroot). wire.h has the protocol.
 *
 * The folder stays closed to other users. A process gets the descriptor of one file, which belongs
 * to the collector's user, and only if the kernel names it as a descendant of the collector.
 */
#ifndef COL_LENDER_H
#define COL_LENDER_H

#include <stdbool.h>

#define COL_LOANS_MAX   64 /* files that were lent and hold no complete pool yet */
#define COL_LENDER_NAME 80

struct col_loan {
    int connection;
    char file[32]; /* "new.PID.N" in the folder of the pools */
};

struct col_lender {
    int listener;               /* -1: nothing is lent */
    int pools;                  /* the folder of the pools; the caller keeps it open */
    char name[COL_LENDER_NAME]; /* "UID:NAME" for the environment of the target; "" = none */
    unsigned refused;           /* processes of the run that got no file, or no name for it */
    unsigned count;
    struct col_loan loan[COL_LOANS_MAX];
};

void col_lender_init(struct col_lender *lender);
/* Listens on a name made of the run's random id. Where that fails nothing is lent. */
void col_lender_open(struct col_lender *lender, int pools, const char *run_id);
/* Answers processes that ask, and names the pools that are complete. Never waits. */
void col_lender_turn(struct col_lender *lender);
/* Names the pools that are complete, and answers nobody: what is asked for now would not be read.
 */
void col_lender_settle(struct col_lender *lender);
void col_lender_close(struct col_lender *lender);

#endif
