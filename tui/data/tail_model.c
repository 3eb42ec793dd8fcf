/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a model of what was read so far (tail.c): copies of all steps and series, so that the
 * reading can continue while views draw the model.
 */
#include "tui/data/tail_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* For the median. */
static int number_order(const void *left, const void *right)
{
    const double *first = left, *second = right;
    return (*first > *second) - (*first < *second);
}

/* The median duration and the throughput of the newest steps. Durations come from the first
 * process that has steps, tokens from all. */
static void recent_speed(const struct tui_tail *tail, struct tui_model *model)
{
    double all[TUI_RECENT], rate = 0;
    size_t count = 0;
    model->recent_ms = model->recent_tokens_per_s = NAN;
    for (size_t i = 0; i < tail->process_count; i++) {
        const struct process *process = &tail->process[i];
        int64_t known = process->seen < TUI_RECENT ? process->seen : TUI_RECENT;
        double ms = 0, tokens = 0;
        for (int64_t slot = 0; slot < known; slot++) {
            ms += process->ms[slot];
            tokens += process->tokens[slot];
            if (!count)
                all[slot] = process->ms[slot];
        }
        count = count ? count : (size_t)known;
        rate += ms > 0 && tokens > 0 ? tokens / ms * 1e3 : 0;
    }
    if (!count)
        return;
    qsort(all, count, sizeof *all, number_order);
    model->recent_ms = count % 2 ? all[count / 2] : (all[count / 2 - 1] + all[count / 2]) / 2;
    model->recent_tokens_per_s = rate > 0 ? rate : NAN;
}

/* By rank and start. */
static int step_order(const void *left, const void *right)
{
    const struct an_step_point *first = left, *second = right;
    if (first->rank != second->rank)
        return first->rank < second->rank ? -1 : 1;
    return (first->start_s > second->start_s) - (first->start_s < second->start_s);
}

/* Copies the rows of all ranks into the model, by rank and start. */
static bool copy_steps(const struct tui_tail *tail, struct tui_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < tail->process_count; i++)
        count += tail->process[i].count;
    struct an_step_point *row = malloc((count ? count : 1) * sizeof *row);
    if (!row)
        return false;
    model->memory[0] = row;
    model->step = row;
    for (size_t i = 0; i < tail->process_count; i++) {
        const struct process *process = &tail->process[i];
        if (process->count)
            memcpy(row + model->step_count, process->step, process->count * sizeof *row);
        model->step_count += process->count;
        model->steps_seen = process->seen > model->steps_seen ? process->seen : model->steps_seen;
    }
    if (tail->process_count > 1)
        qsort(row, count, sizeof *row, step_order);
    return true;
}

/* By name, rank and device: the order that views rely on. */
static int series_order(const void *left, const void *right)
{
    const struct tui_series *first = left, *second = right;
    int order = strcmp(first->name, second->name);
    if (order)
        return order;
    if (first->rank != second->rank)
        return first->rank < second->rank ? -1 : 1;
    return strcmp(first->device, second->device);
}

/* Is it a counter with values? Other tracks are known for their ids only. */
static bool is_curve(const struct track *track)
{
    return track->counter && track->count;
}

/* Fills one series of the model: its numbers at *value, its texts at *text, which both move on. */
static void fill_series(struct tui_series *series, const struct track *track,
                        const struct process *process, double **value, char **text)
{
    size_t count = track->count;
    *series =
        (struct tui_series){.name = tui_model_text(text, track->name),
                            .unit = tui_model_text(text, track->unit),
                            .device = tui_model_text(text, track->device),
                            .host = "",
                            .rank = STORE_ABSENT,
                            .process = STORE_ABSENT,
                            .time_s = memcpy(*value, track->time, count * sizeof **value),
                            .value = memcpy(*value + count, track->value, count * sizeof **value),
                            .count = count,
                            .last = track->newest};
    if (process) {
        series->host = tui_model_text(text, process->host);
        series->rank = process->rank;
        series->process = process->pid;
    }
    *value += 2 * count;
}

/* Copies all counters into the model: values and times into one block, texts into another. The
 * counter steps_planned is no curve but the number of steps to expect. */
static bool copy_series(const struct tui_tail *tail, struct tui_model *model)
{
    size_t count = 0, values = 0, bytes = 1;
    for (size_t i = 0; i < tail->track_count; i++) {
        const struct track *track = &tail->track[i];
        const struct process *process = tui_tail_process(tail, track->process);
        if (!is_curve(track))
            continue;
        count++;
        values += track->count;
        bytes += strlen(track->name) + strlen(track->unit) + strlen(track->device) + 4;
        bytes += process ? strlen(process->host) : 0;
    }
    struct tui_series *row = calloc(count + 1, sizeof *row);
    double *value = malloc((values + 1) * 2 * sizeof *value);
    char *text = malloc(bytes);
    model->memory[1] = row;
    model->memory[2] = value;
    model->memory[3] = text;
    if (!row || !value || !text)
        return false;
    for (size_t i = 0; i < tail->track_count; i++) {
        const struct track *track = &tail->track[i];
        if (!is_curve(track))
            continue;
        if (!strcmp(track->name, "steps_planned")) {
            double planned = track->value[track->count - 1];
            model->steps_expected = planned >= 1 && planned < 1e15 ? (int64_t)planned : 0;
        } else {
            fill_series(&row[model->series_count++], track, tui_tail_process(tail, track->process),
                        &value, &text);
        }
    }
    model->series = row;
    qsort(row, model->series_count, sizeof *row, series_order);
    return true;
}

struct tui_model *tui_tail_model(const struct tui_tail *tail)
{
    struct tui_model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->last_index = tail->last_index;
    model->slices = tail->slices;
    model->now_s = tail->seen == STORE_ABSENT || tail->start == STORE_ABSENT
                       ? 0
                       : (double)(tail->seen - tail->start) / 1e9;
    recent_speed(tail, model);
    if (!copy_steps(tail, model) || !copy_series(tail, model)) {
        tui_model_free(model);
        return NULL;
    }
    return model;
}
