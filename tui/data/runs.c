/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of runs that owns its texts.
 */
#include "tui/data/runs.h"

#include <stdlib.h>
#include <string.h>

#include "tacho_error.h"

static void run_clear(struct tui_run *run)
{
    free(run->run);
    free(run->state);
    free(run->verdict);
}

int tui_runs_add(struct tui_runs *runs, const struct tui_run *run)
{
    struct tui_run *larger = realloc(runs->row, (runs->count + 1) * sizeof *larger);
    if (!larger)
        return TACHO_ENOMEM;
    runs->row = larger;
    struct tui_run *copy = &runs->row[runs->count];
    *copy = *run;
    copy->run = strdup(run->run);
    copy->state = strdup(run->state);
    copy->verdict = run->verdict ? strdup(run->verdict) : NULL;
    if (!copy->run || !copy->state) {
        run_clear(copy);
        return TACHO_ENOMEM;
    }
    runs->count++;
    return 0;
}

struct tui_runs *tui_runs_copy(const struct tui_runs *runs)
{
    struct tui_runs *copy = calloc(1, sizeof *copy);
    for (size_t i = 0; copy && i < runs->count; i++)
        if (tui_runs_add(copy, &runs->row[i])) {
            tui_runs_free(copy);
            return NULL;
        }
    return copy;
}

void tui_runs_clear(struct tui_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        run_clear(&runs->row[i]);
    free(runs->row);
    *runs = (struct tui_runs){0};
}

void tui_runs_free(struct tui_runs *runs)
{
    if (runs)
        tui_runs_clear(runs);
    free(runs);
}
