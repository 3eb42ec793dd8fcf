/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the runs that are being recorded on this machine, and those in folders, as a
 * list.
 */
#ifndef CLI_BASE_RUN_LIST_H
#define CLI_BASE_RUN_LIST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum cli_run_state { CLI_RUN_RECORDING, CLI_RUN_UNFINISHED, CLI_RUN_FINISHED, CLI_RUN_DAMAGED };

struct cli_run_row {
    char *run, *verdict; /* verdict: NULL: none is saved; of a damaged file what is wrong */
    dev_t device;        /* with the inode, of the file with the rows: */
    ino_t inode;         /* a run can be found twice */
    enum cli_run_state state;
    int64_t begun_ns; /* real time */
    int64_t steps;
    double step_ms; /* NAN: no step has ended */
};

struct cli_run_list {
    struct cli_run_row *row;
    size_t count, room;
};

/* "recording", "unfinished" ...; static storage. */
const char *cli_run_state_name(enum cli_run_state state);
/* Lists the runs that are being recorded, then those in each folder (a list that ends with NULL),
 * the newest first. What is saved in each file is read; nothing is analyzed, finished or written. A
 * folder that cannot be read is a message; the list has the rest. 0 or an exit code.
 * cli_run_list_clear frees the list in any case. */
int cli_run_list_read(char *const *folders, struct cli_run_list *list);
void cli_run_list_clear(struct cli_run_list *list);

#endif
