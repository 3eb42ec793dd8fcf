/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's memory, and what several views ask of a model.
 */
#include "tui/data/model.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tui_shared {
    struct an_result *result;
    void (*release)(struct an_result *r);
    atomic_int users;
};

struct tui_shared *tui_shared_new(struct an_result *result,
                                  void (*release)(struct an_result *result))
{
    struct tui_shared *shared = malloc(sizeof *shared);
    if (!shared) {
        release(result);
        return NULL;
    }
    shared->result = result;
    shared->release = release;
    atomic_init(&shared->users, 1);
    return shared;
}

struct tui_shared *tui_shared_hold(struct tui_shared *shared)
{
    if (shared)
        atomic_fetch_add(&shared->users, 1);
    return shared;
}

void tui_shared_drop(struct tui_shared *shared)
{
    if (!shared || atomic_fetch_sub(&shared->users, 1) != 1)
        return;
    shared->release(shared->result);
    free(shared);
}

struct an_result *tui_shared_result(struct tui_shared *shared)
{
    return shared ? shared->result : NULL;
}

void tui_model_free(struct tui_model *model)
{
    if (!model)
        return;
    tui_shared_drop(model->shared);
    for (size_t i = 0; i < sizeof model->memory / sizeof *model->memory; i++)
        free(model->memory[i]);
    tui_runs_free(model->own_runs);
    free(model);
}

const char *tui_model_text(char **end, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = memcpy(*end, text, bytes);
    *end += bytes;
    return copy;
}

/* Only the newer half of the steps counts, since the first ones are slow. The times between
 * steps are part of the pace. */
double tui_model_left_s(const struct tui_model *model)
{
    size_t count = 0;
    while (count < model->step_count && model->step[count].rank == model->step[0].rank)
        count++;
    int64_t left = model->steps_expected - model->last_index - 1;
    if (model->state != TUI_LIVE || model->steps_expected <= 0 || model->last_index < 0 ||
        left < 0 || count < 4)
        return NAN;
    const struct an_step_point *middle = &model->step[count / 2], *newest = &model->step[count - 1];
    double apart = (double)(newest->index - middle->index),
           pace = (newest->start_s - middle->start_s) / apart;
    return apart > 0 && pace >= 0 ? (double)left * pace : NAN;
}

const struct tui_series *tui_model_series(const struct tui_model *model, const char *name)
{
    const struct tui_series *first = NULL;
    for (size_t i = 0; i < model->series_count; i++) {
        const struct tui_series *series = &model->series[i];
        if (strcmp(series->name, name))
            continue;
        if (series->rank >= 0)
            return series;
        first = first ? first : series;
    }
    return first;
}
