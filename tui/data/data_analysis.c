/* SPDX-License-Identifier: Apache-2.0
 *
 * When the thread that follows a run has it analysed, how much of it, and what of that comes onto
 * the screen. The whole of a large run that is over is analysed elsewhere, by the source.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "tui/data/clock.h"
#include "tui/data/data_private.h"

#define YOUNG_S     10 /* grace period of a new run before "no steps" is reported */
#define STEPS_LEAST 3  /* that an analysis needs: the first and the last step do not count */

void tui_data_say(struct tui_data *data, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(data->message, sizeof data->message, format, arguments);
    va_end(arguments);
}

void tui_data_end_whole(struct tui_data *data)
{
    if (data->whole)
        data->source->whole_end(data->source->ctx);
    data->whole = data->wants_whole = false;
}

/* Analysis of a live run costs what the budget allows: the number of slices follows what the last
 * one cost. */
static void plan_next(struct tui_data *data, double cost)
{
    double now = tui_now_s(),
           fit = (double)data->slices * TUI_ANALYSIS_MS / 1e3 / (cost > 1e-4 ? cost : 1e-4);
    double pause = cost / TUI_ANALYSIS_SHARE;
    data->analysed = now;
    data->next_analysis = now + (pause > 2 ? pause : 2);
    fit = fmin(fit, 2.0 * (double)data->slices);
    data->slices = (int64_t)fmin(fmax(fit, TUI_SLICES_LEAST), TUI_SLICES_ENDED);
}

/* Has the run only begun? Then having no steps is not worth a message. */
static bool is_young(const struct tui_data *data, const struct an_result *result)
{
    int64_t first = tui_tail_start(data->tail), newest = tui_tail_newest(data->tail);
    double lasted =
        first == STORE_ABSENT || newest == STORE_ABSENT ? 0 : (double)(newest - first) / 1e9;
    return data->state == TUI_LIVE && !data->shared && result->steps.reason && lasted < YOUNG_S &&
           tui_now_s() - data->taken_up < YOUNG_S;
}

/* Puts an analysis on the screen, which owns it from now on. */
static void show_result(struct tui_data *data, struct an_result *result)
{
    tui_shared_drop(data->shared);
    data->shared = tui_shared_new(result, data->source->release);
    if (!data->shared)
        return;
    tui_tail_update(data->tail, result);
    *data->reason = 0;
    snprintf(data->window, sizeof data->window, "%s",
             result->run.window ? result->run.window : "the whole run");
}

/* The most slices of a run that are analysed here, at once. */
static int64_t whole_most(const struct tui_data *data)
{
    return tui_tail_key(data->tail, "source") ? TUI_SLICES_IMPORT : TUI_SLICES_WHOLE;
}

static bool is_small(const struct tui_data *data)
{
    return tui_tail_slices(data->tail) <= whole_most(data);
}

/* Is the analysis on the screen that of a whole run which is too large for this thread? */
static bool shows_whole(const struct tui_data *data)
{
    const struct an_result *result = tui_shared_result(data->shared);
    return result && !result->run.window && !is_small(data);
}

void tui_data_begin_whole(struct tui_data *data)
{
    struct tacho_error err = {0};
    data->wants_whole = false;
    if (data->whole || !data->source->whole_begin)
        return;
    data->whole = !data->source->whole_begin(data->source->ctx, &data->found,
                                             tui_tail_slices(data->tail), &err);
    if (!data->whole && !*data->message)
        tui_data_say(data, "%.400s: { and } go through its parts", err.what);
}

void tui_data_take_whole(struct tui_data *data)
{
    struct an_result *result = NULL;
    struct tacho_error err = {0};
    if (!data->whole)
        return;
    int rc = data->source->whole_take(data->source->ctx, &result, &err);
    data->whole = !rc && !result;
    if (rc && !*data->message)
        tui_data_say(data, "%.400s: { and } go through its parts", err.what);
    if (!result)
        return;
    if (data->until) {
        data->source->release(result);
        return;
    }
    data->analysed = tui_now_s();
    show_result(data, result);
}

void tui_data_analyse(struct tui_data *data, store_reader *reader)
{
    struct an_result *result = NULL;
    struct tacho_error err = {0};
    double before = tui_clock_s(CLOCK_THREAD_CPUTIME_ID);
    bool over = data->state != TUI_LIVE;
    int64_t slices = data->slices;
    if (over && !data->until && shows_whole(data)) {
        data->final = data->wants_whole = true; /* the file changed, or the user asked for it */
        return;
    }
    if (over)
        slices = TUI_SLICES_ENDED;
    if (over && is_small(data))
        slices = whole_most(data);
    int rc = data->source->analyze(data->source->ctx, reader, &data->found, slices, data->until,
                                   &result, &err);
    plan_next(data, tui_clock_s(CLOCK_THREAD_CPUTIME_ID) - before);
    data->final = over || data->until;
    data->analysed_until = tui_tail_newest(data->tail);
    data->analysed_steps = data->steps;
    data->failed = rc != 0;
    if (rc) {
        snprintf(data->reason, sizeof data->reason, "%s", err.what);
        return;
    }
    if (is_young(data, result)) {
        data->source->release(result);
        data->next_analysis = 0; /* the next look: it costs little while there is little */
        if (data->steps)
            snprintf(data->reason, sizeof data->reason,
                     "the run has just begun: the step budget follows after a few more steps");
        else
            snprintf(data->reason, sizeof data->reason,
                     "the run has just begun: no step has ended yet");
        return;
    }
    bool live = !data->final && data->shared;
    if (!tui_steady_accepts(&data->steady, live ? tui_shared_result(data->shared) : NULL, result)) {
        data->source->release(result); /* what is shown stays until the evidence outlasts noise */
        return;
    }
    show_result(data, result);
    data->wants_whole = over && !data->until && data->shared && result->run.window;
}

bool tui_data_due(const struct tui_data *data)
{
    if (data->state != TUI_LIVE || data->until)
        return !data->final;
    const struct an_result *result = tui_shared_result(data->shared);
    bool news = data->analysed_until != tui_tail_newest(data->tail) || !data->shared;
    if (result && result->steps.reason && data->steps >= STEPS_LEAST &&
        data->analysed_steps < STEPS_LEAST)
        return true; /* the first analysis that can say something */
    return news && tui_now_s() >= data->next_analysis;
}
