/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters by layer, and the search for the first value that is not finite.
 */
#include "libtrain/train/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "libtrain/speak/trace.h"
#include "tacho_error.h"

#define SAMPLES 4096

enum { NORM, RATIO, UNDERFLOW, SERIES };

struct lt_watch {
    const struct lt_parameters *parameters;
    struct lt_trace *trace;
    int64_t every;
    int layers; /* place 0 is what belongs to none */
    uint64_t (*series)[SERIES];
    struct lt_scan *scan;
    float *kept; /* weights before the update, in the order of the matrices */
};

/* A matrix of the parameters: its elements, how far apart samples are, and its layer. */
struct matrix {
    size_t first;
    int64_t count, stride;
    int layer;
};

static struct matrix matrix_of(const struct lt_weight *weight, int64_t index)
{
    int64_t count = weight->rows * weight->columns;
    int layer = 0;
    if (weight->layer || weight->repeat > 1)
        layer =
            (weight->layer ? weight->layer : 1) + (int)index / (weight->each ? weight->each : 1);
    return (struct matrix){.first = weight->first + (size_t)(index * count),
                           .count = count,
                           .stride = (count + SAMPLES - 1) / SAMPLES,
                           .layer = layer};
}

#define EACH_MATRIX(watch, matrix) \
    for (int w_ = 0; w_ < (watch)->parameters->weights; w_++) \
        for (int64_t i_ = 0; i_ < (watch)->parameters->weight[w_].repeat; i_++) \
            for (struct matrix matrix = matrix_of(&(watch)->parameters->weight[w_], i_), \
                               *once_ = &matrix; \
                 once_; once_ = NULL)

static void name_series(struct lt_watch *watch)
{
    static const char *const names[SERIES] = {"grad_norm", "update_ratio", "underflow"};
    char name[64];
    for (int i = 0; i <= watch->layers; i++)
        for (int j = 0; j < SERIES; j++) {
            if (i)
                snprintf(name, sizeof name, "%s.layer%d", names[j], i - 1);
            else
                snprintf(name, sizeof name, "%s.ends", names[j]);
            watch->series[i][j] = lt_trace_series(watch->trace, name);
        }
}

int lt_watch_create(struct lt_watch **out, const struct lt_parameters *parameters, int64_t every,
                    struct lt_trace *trace)
{
    *out = NULL;
    if (every == 0)
        return 0;
    struct lt_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return TACHO_ENOMEM;
    *watch = (struct lt_watch){.parameters = parameters, .trace = trace, .every = every};
    size_t samples = 0;
    EACH_MATRIX(watch, matrix)
    {
        samples += (size_t)((matrix.count + matrix.stride - 1) / matrix.stride);
        watch->layers = matrix.layer > watch->layers ? matrix.layer : watch->layers;
    }
    watch->series = calloc((size_t)watch->layers + 1, sizeof *watch->series);
    watch->scan = calloc(1, sizeof *watch->scan);
    watch->kept = calloc(samples + 1, sizeof *watch->kept);
    if (!watch->series || !watch->scan || !watch->kept) {
        lt_watch_destroy(watch);
        return TACHO_ENOMEM;
    }
    name_series(watch);
    *out = watch;
    return 0;
}

void lt_watch_destroy(struct lt_watch *watch)
{
    if (!watch)
        return;
    free(watch->series);
    free(watch->scan);
    free(watch->kept);
    free(watch);
}

int lt_watch_due(const struct lt_watch *watch, int64_t step)
{
    return watch && step % watch->every == 0;
}

struct lt_scan *lt_watch_scan(struct lt_watch *watch)
{
    *watch->scan = (struct lt_scan){0};
    return watch->scan;
}

static void count(struct lt_watch *watch, int layer, int series, double value)
{
    lt_trace_value(watch->trace, watch->series[layer][series], value);
}

void lt_watch_before(struct lt_watch *watch, const struct lt_context *context, double *partial)
{
    struct lt_context quiet = *context; /* these passes are no part of the step's work */
    double squares[LT_SCAN_LAYERS + 1] = {0};
    float *kept = watch->kept;
    quiet.trace = NULL;
    EACH_MATRIX(watch, matrix)
    {
        double sum = 0;
        struct lt_norm norm = {.x = watch->parameters->grad + matrix.first,
                               .sum = &sum,
                               .partial = partial,
                               .count = matrix.count};
        lt_op(&quiet, LT_OP_NORM, &(union lt_args){.norm = norm});
        squares[matrix.layer] += sum;
        for (int64_t i = 0; i < matrix.count; i += matrix.stride)
            *kept++ = watch->parameters->value[matrix.first + (size_t)i];
    }
    for (int i = 0; i <= watch->layers; i++)
        count(watch, i, NORM, sqrt(squares[i]));
}

void lt_watch_after(struct lt_watch *watch)
{
    double step[LT_SCAN_LAYERS + 1] = {0}, weight[LT_SCAN_LAYERS + 1] = {0};
    const float *kept = watch->kept;
    EACH_MATRIX(watch, matrix)
    for (int64_t i = 0; i < matrix.count; i += matrix.stride) {
        double old = (double)*kept++,
               change = (double)watch->parameters->value[matrix.first + (size_t)i] - old;
        step[matrix.layer] += change * change;
        weight[matrix.layer] += old * old;
    }
    for (int i = 0; i <= watch->layers; i++) {
        uint64_t elements = watch->scan->gradient[i].elements;
        if (weight[i] > 0)
            count(watch, i, RATIO, sqrt(step[i] / weight[i]));
        if (elements)
            count(watch, i, UNDERFLOW, (double)watch->scan->gradient[i].zeros / (double)elements);
    }
}

void lt_watch_origin(struct lt_model *model, const struct lt_context *context,
                     const struct lt_batch *batch, char *words, size_t size)
{
    struct lt_scan *scan = calloc(1, sizeof *scan);
    struct lt_context again = *context;
    *words = '\0';
    if (!scan)
        return;
    again.trace = NULL;
    again.scan = scan;
    again.ready = NULL;
    model->ops->forward(model, &again, batch, 1);
    if (!scan->found)
        model->ops->backward(model, &again, batch, 1);
    if (scan->found && scan->layer)
        snprintf(words, size, "%s, layer %d", lt_op_names()[scan->op], scan->layer - 1);
    else if (scan->found)
        snprintf(words, size, "%s", lt_op_names()[scan->op]);
    free(scan);
}
