/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows the steps of a trial.
 */
#include "cli/tune/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/collector.h"
#include "tuner/stop.h"

/* What a step counts of the unit. */
static double units_of(const struct cli_watch *watch, const struct store_step *step)
{
    int64_t count = 1;
    if (watch->unit)
        count = watch->unit == 's' ? step->samples : step->tokens;
    return count > 0 ? (double)count : 0;
}

/* A step takes from its start to the start of the next one, so that waits between steps count. */
static int on_step(void *ctx, const struct store_step *step)
{
    struct cli_watch *watch = ctx;
    watch->next_id = step->id + 1;
    bool first = !watch->last.id;
    watch->apart = watch->apart || (!first && watch->last.process != step->process);
    double ms = (double)(step->start - watch->last.start) / 1e6;
    if (!first && watch->count < CLI_WATCH_STEPS && ms > 0) {
        watch->ms[watch->count++] = ms;
        watch->units += units_of(watch, &watch->last);
    }
    watch->last = *step;
    return 0;
}

/* Units a step, as if all had as many: how many a step has by chance is no noise of its time. */
static double units_a_step(const struct cli_watch *watch)
{
    return watch->count ? watch->units / (double)watch->count : 0;
}

bool cli_watch_is_enough(void *ctx)
{
    struct cli_watch *watch = ctx;
    struct tacho_error err = {0};
    struct col_found found = {0};
    bool open = watch->reader != NULL;
    if (!open)
        open = !col_find_run(watch->file, false, &found, &err) && found.live &&
               !store_open(found.path, &watch->reader, &err);
    if (!open)
        return false;
    int rc = store_step_from(watch->reader, watch->next_id, on_step, watch);
    store_reader_rest(watch->reader);
    if (rc || watch->apart)
        return false;
    double units = units_a_step(watch);
    if (!(units > 0))
        return false;
    if (tuner_stop_is_worse(watch->ms, watch->count, watch->leader * units, watch->error))
        return true;
    watch->known = watch->precision > 0 &&
                   tuner_stop_is_known(watch->ms, watch->count, watch->precision, watch->error);
    return watch->known;
}

double cli_watch_mean(const struct cli_watch *watch)
{
    double mean, low;
    tuner_stop_bound(watch->ms, watch->count, watch->error, &mean, &low);
    return mean / units_a_step(watch);
}

void cli_watch_clear(struct cli_watch *watch)
{
    store_reader_close(watch->reader);
    watch->reader = NULL;
}
