/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: what the dashboard needs of other rooms: finding a run, again and again while it
 * lives and dies, and having it analysed.
 */
#ifndef CLI_BASE_TOP_SOURCE_H
#define CLI_BASE_TOP_SOURCE_H

#include <time.h>

#include "cli/apart/analysis_apart.h"
#include "cli/base/run_file.h"
#include "tui/data/model.h"
#include "tui/tui.h"

struct cli_top_source {
    struct tui_source source;
    const char *arg;           /* as the user typed it; NULL: nothing */
    char chosen[COL_PATH_MAX]; /* the run that the user turned to; "": none */
    struct col_found first;
    struct timespec
        begun; /* the run that is shown; one that was not live: when the dashboard was */
    bool used, imported;
    double peak_flops, flops_per_step;
    const char *step_marker; /* --step-marker, or NULL */
    struct tui_against against;
    struct an_step_point *against_steps; /* owned */
    struct cli_analysis whole;           /* of the run that is shown; the data thread's */
};

/* Finds the run before anything is drawn, so that messages and the progress of an import reach the
 * user. `arg` NULL: the newest live run of this machine, else the latest one of this folder. So
 * long (ms, below 1000; 0: without end) it waits for what a file says that may be damaged. 0 or an
 * exit code, after a message. */
int cli_top_source_open(struct cli_top_source *top_source, const char *arg, int patience_ms);
/* Reads the baseline of --against, after cli_top_source_open. 0 or an exit code, after a message.
 */
int cli_top_source_against(struct cli_top_source *top_source, const char *run);

#endif
