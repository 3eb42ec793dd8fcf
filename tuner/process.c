/* SPDX-License-Identifier: Apache-2.0
 *
 * The Gaussian process of the search.
 */
#include "tuner/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 0.7 /* before anything is learned, of places between 0 and 1 */
#define WEIGHT 1.0
#define NOISE  1e-3

int tuner_process_begin(struct tuner_process *process, const struct tuner_space *space,
                        const size_t *watched, size_t watching, size_t room)
{
    *process = (struct tuner_process){.space = space,
                                      .noise = NOISE,
                                      .scale = 1,
                                      .room = room,
                                      .watched = watched,
                                      .watching = watching};
    for (size_t at = 0; at < space->dimensions; at++) {
        process->length[at] = LENGTH;
        process->weight[at] = WEIGHT;
    }
    process->point = calloc(room, sizeof *process->point);
    process->factor = calloc(room * room, sizeof *process->factor);
    process->solved = calloc(room, sizeof *process->solved);
    process->work = calloc(room, sizeof *process->work);
    process->column = calloc(room, sizeof *process->column);
    process->mean = calloc(watching + 1, sizeof *process->mean);
    process->sd = calloc(watching + 1, sizeof *process->sd);
    if (process->point && process->factor && process->solved && process->work && process->column &&
        process->mean && process->sd)
        return 0;
    tuner_process_clear(process);
    return TACHO_ENOMEM;
}

void tuner_process_clear(struct tuner_process *process)
{
    for (size_t i = 0; process->column && i < process->room; i++)
        free(process->column[i]);
    free(process->column);
    free(process->sd);
    free(process->mean);
    free(process->work);
    free(process->solved);
    free(process->factor);
    free(process->point);
    *process = (struct tuner_process){0};
}

double tuner_process_kernel(const struct tuner_process *process, size_t first, size_t second)
{
    const struct tuner_space *space = process->space;
    const uint16_t *left = space->choice + first * space->dimensions;
    const uint16_t *right = space->choice + second * space->dimensions;
    double squares = 0, differing = 0;
    for (size_t at = 0; at < space->dimensions; at++) {
        if (left[at] == right[at])
            continue;
        const double *place = space->dimension[at].place;
        double apart = (place[left[at]] - place[right[at]]) / process->length[at];
        squares += apart * apart;
        differing += process->weight[at];
    }
    double distance = sqrt(5 * squares);
    return 0.5 * (1 + distance + distance * distance / 3) * exp(-distance) + 0.5 * exp(-differing);
}

/* Factors the kernel of the points, of which the first rows may be known; false where it is not
 * positive. */
static bool factor_kernel(struct tuner_process *process, size_t known)
{
    for (size_t i = known; i < process->count; i++) {
        double *row = process->factor + i * process->room;
        for (size_t j = 0; j <= i; j++) {
            const double *other = process->factor + j * process->room;
            double sum = tuner_process_kernel(process, process->point[i], process->point[j]);
            if (i == j)
                sum += process->noise;
            for (size_t k = 0; k < j; k++)
                sum -= row[k] * other[k];
            if (i == j && !(sum > 1e-12))
                return false;
            row[j] = i == j ? sqrt(sum) : sum / other[j];
        }
    }
    return true;
}

/* factor^-1 x, in place. */
static void solve(const struct tuner_process *process, double *x)
{
    for (size_t i = 0; i < process->count; i++) {
        const double *row = process->factor + i * process->room;
        for (size_t k = 0; k < i; k++)
            x[i] -= row[k] * x[k];
        x[i] /= row[i];
    }
}

/* Logarithm of how unlikely the values are (with the best scale), and how far lengths and weights
 * are from where they began: both are thought to be log-normal about it. */
static double unlikely(struct tuner_process *process, const double *value, size_t known)
{
    double squares = 0, determinant = 0, prior = 0;
    if (!factor_kernel(process, known))
        return INFINITY;
    memcpy(process->solved, value, process->count * sizeof *value);
    solve(process, process->solved);
    for (size_t i = 0; i < process->count; i++) {
        squares += process->solved[i] * process->solved[i];
        determinant += log(process->factor[i * process->room + i]);
    }
    for (size_t at = 0; at < process->space->dimensions; at++) {
        double length = log(process->length[at] / LENGTH),
               weight = log(process->weight[at] / WEIGHT);
        prior += length * length + weight * weight;
    }
    process->scale = fmax(squares / (double)process->count, 1e-12);
    return 0.5 * (double)process->count * log(process->scale) + determinant + 0.5 * prior;
}

/* Tries a parameter a factor larger and smaller, and keeps what is more likely. */
static double climb(struct tuner_process *process, const double *value, double *parameter,
                    double factor, double best)
{
    double kept = *parameter;
    for (int up = 0; up < 2; up++) {
        double tried = up ? kept * factor : kept / factor;
        double old = *parameter;
        *parameter = fmin(fmax(tried, 1e-5), 50);
        double now = unlikely(process, value, 0);
        if (now < best)
            best = now;
        else
            *parameter = old;
    }
    return best;
}

static void learn_parameters(struct tuner_process *process, const double *value)
{
    double best = unlikely(process, value, 0);
    for (int sweep = 0; sweep < 2; sweep++) {
        for (size_t at = 0; at < process->space->dimensions; at++) {
            if (process->space->dimension[at].levels < 2)
                continue;
            best = climb(process, value, &process->length[at], 1.6, best);
            best = climb(process, value, &process->weight[at], 1.6, best);
        }
        best = climb(process, value, &process->noise, 3, best);
    }
    process->noise = fmin(process->noise, 0.3);
}

bool tuner_process_set(struct tuner_process *process, const size_t *point, const double *value,
                       size_t count, bool learn)
{
    size_t known = 0;
    while (!learn && known < process->count && known < count &&
           process->point[known] == point[known])
        known++;
    process->count = count;
    memcpy(process->point, point, count * sizeof *point);
    if (learn)
        learn_parameters(process, value);
    if (process->columns > known)
        process->columns = known;
    if (!isinf(unlikely(process, value, known)))
        return true;
    process->count = 0; /* no row of the factor can be used again */
    return false;
}

void tuner_process_predict(const struct tuner_process *process, size_t configuration, double *mean,
                           double *sd)
{
    double *x = process->work, variance = 1;
    *mean = 0;
    for (size_t i = 0; i < process->count; i++)
        x[i] = tuner_process_kernel(process, process->point[i], configuration);
    solve(process, x);
    for (size_t i = 0; i < process->count; i++) {
        *mean += x[i] * process->solved[i];
        variance -= x[i] * x[i];
    }
    *sd = sqrt(fmax(variance, 1e-9) * process->scale);
}

void tuner_process_left_out(const struct tuner_process *process, size_t point, double value,
                            double *mean, double *sd)
{
    double *column = process->work, inverse = 0, weighted = 0; /* of the inverse of the kernel */
    memset(column, 0, process->count * sizeof *column);
    column[point] = 1;
    solve(process, column);
    for (size_t i = point; i < process->count; i++) {
        inverse += column[i] * column[i];
        weighted += column[i] * process->solved[i];
    }
    *mean = value - weighted / inverse;
    *sd = sqrt(process->scale / inverse);
}

/* factor^-1 kernel of one point more, of all that are watched. */
static bool add_column(struct tuner_process *process)
{
    size_t at = process->columns, watching = process->watching;
    const double *row = process->factor + at * process->room;
    if (!process->column[at])
        process->column[at] = calloc(watching + 1, sizeof(double));
    double *column = process->column[at];
    if (!column)
        return false;
    for (size_t i = 0; i < watching; i++)
        column[i] = tuner_process_kernel(process, process->point[at], process->watched[i]);
    for (size_t k = 0; k < at; k++) {
        const double *other = process->column[k];
        for (size_t i = 0; i < watching; i++)
            column[i] -= row[k] * other[i];
    }
    for (size_t i = 0; i < watching; i++)
        column[i] /= row[at];
    process->columns++;
    return true;
}

bool tuner_process_sweep(struct tuner_process *process)
{
    while (process->columns < process->count)
        if (!add_column(process))
            return false;
    for (size_t i = 0; i < process->watching; i++) {
        process->mean[i] = 0;
        process->sd[i] = 1;
    }
    for (size_t k = 0; k < process->count; k++) {
        const double *column = process->column[k];
        for (size_t i = 0; i < process->watching; i++) {
            process->mean[i] += column[i] * process->solved[k];
            process->sd[i] -= column[i] * column[i];
        }
    }
    for (size_t i = 0; i < process->watching; i++)
        process->sd[i] = sqrt(fmax(process->sd[i], 1e-9) * process->scale);
    return true;
}
