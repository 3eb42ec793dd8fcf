/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the best configuration.
 */
#include "tuner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "tuner/process.h"

#define SPREAD     8   /* configurations before the process is asked */
#define DRAWN      200 /* candidates for each of them */
#define LEARN_EACH 5   /* trials between two fits of the process */
#define ELITES     6   /* whose neighbours are looked at */

struct trial {
    size_t configuration;
    double value; /* NAN: failed */
};

struct tuner_search {
    const struct tuner_space *space;
    uint64_t random;
    bool *tried;
    size_t left;
    struct trial trial[TUNER_TRIALS];
    size_t count, learned_at;
    struct tuner_process process;
    size_t *point; /* of the trials that worked */
    double *value; /* their logarithms, standardized */
    double best;   /* the smallest of them */
    size_t worked;
};

struct tuner_search *tuner_search_new(const struct tuner_space *space, uint64_t seed)
{
    struct tuner_search *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    size_t room = space->count < TUNER_TRIALS ? space->count : TUNER_TRIALS;
    search->space = space;
    search->random = seed;
    search->left = space->count;
    search->tried = calloc(space->count + 1, sizeof *search->tried);
    search->point = calloc(room + 1, sizeof *search->point);
    search->value = calloc(room + 1, sizeof *search->value);
    bool enough = search->tried && search->point && search->value &&
                  !tuner_process_begin(&search->process, space, room + 1);
    if (enough)
        return search;
    tuner_search_free(search);
    return NULL;
}

void tuner_search_free(struct tuner_search *search)
{
    if (!search)
        return;
    tuner_process_clear(&search->process);
    free(search->value);
    free(search->point);
    free(search->tried);
    free(search);
}

static size_t draw(struct tuner_search *search)
{
    size_t at;
    do
        at = (size_t)(an_random(&search->random) % search->space->count);
    while (search->tried[at]);
    return at;
}

/* ---- spread ----------------------------------------------------------------------------------- */

/* Of some drawn configurations the one farthest from all that were tried (sum over dimensions). */
static size_t ask_spread(struct tuner_search *search)
{
    size_t best = draw(search);
    double farthest = -1;
    for (int i = 0; i < DRAWN; i++) {
        size_t at = draw(search);
        double nearest = INFINITY;
        for (size_t k = 0; k < search->count; k++) {
            double apart = 0;
            for (size_t d = 0; d < search->space->dimensions; d++)
                apart += fabs(tuner_place(search->space, at, d) -
                              tuner_place(search->space, search->trial[k].configuration, d));
            nearest = fmin(nearest, apart);
        }
        if (nearest > farthest) {
            farthest = nearest;
            best = at;
        }
    }
    return best;
}

/* ---- the process ------------------------------------------------------------------------------ */

static int by_value(const void *left, const void *right)
{
    const struct trial *first = left, *second = right;
    return (first->value > second->value) - (first->value < second->value);
}

/* Fits the process to the trials that worked. */
static bool fit(struct tuner_search *search)
{
    double mean = 0;
    search->worked = 0;
    for (size_t i = 0; i < search->count; i++) {
        if (isnan(search->trial[i].value))
            continue;
        search->point[search->worked] = search->trial[i].configuration;
        search->value[search->worked] = log(search->trial[i].value);
        mean += search->value[search->worked++];
    }
    if (search->worked < 3)
        return false;
    mean /= (double)search->worked;
    double sd = fmax(an_sd(search->value, search->worked), 1e-9);
    search->best = INFINITY;
    for (size_t i = 0; i < search->worked; i++) {
        search->value[i] = (search->value[i] - mean) / sd;
        search->best = fmin(search->best, search->value[i]);
    }
    bool learn = !search->learned_at || search->count >= search->learned_at + LEARN_EACH;
    if (learn)
        search->learned_at = search->count;
    return tuner_process_set(&search->process, search->point, search->value, search->worked, learn);
}

/* Likelihood that a configuration works: the share of the trials that did, weighted by their
 * likeness, with half a trial of each kind beforehand. */
static double works(const struct tuner_search *search, size_t configuration)
{
    double all = 1, good = 0.5;
    for (size_t i = 0; i < search->count; i++) {
        double alike =
            tuner_process_kernel(&search->process, search->trial[i].configuration, configuration);
        all += alike;
        good += isnan(search->trial[i].value) ? 0 : alike;
    }
    return good / all;
}

static double improvement(const struct tuner_search *search, size_t configuration)
{
    double mean, sd;
    tuner_process_predict(&search->process, configuration, &mean, &sd);
    double gap = (search->best - mean) / sd;
    double expected =
        sd * (gap * 0.5 * erfc(-gap / sqrt(2)) + exp(-gap * gap / 2) / sqrt(2 * M_PI));
    if (search->worked == search->count)
        return expected;
    double likely = works(search, configuration);
    return expected * likely * likely;
}

static int differing(const struct tuner_space *space, size_t first, size_t second)
{
    int count = 0;
    for (size_t d = 0; d < space->dimensions; d++)
        count += space->choice[first * space->dimensions + d] !=
                 space->choice[second * space->dimensions + d];
    return count;
}

/* The best trial that has neighbours left, among the first few; SIZE_MAX: none has. */
static size_t pick_elite(const struct tuner_search *search)
{
    struct trial sorted[TUNER_TRIALS];
    size_t count = 0;
    for (size_t i = 0; i < search->count; i++)
        if (!isnan(search->trial[i].value))
            sorted[count++] = search->trial[i];
    qsort(sorted, count, sizeof *sorted, by_value);
    for (size_t i = 0; i < count && i < ELITES; i++)
        for (size_t at = 0; at < search->space->count; at++)
            if (!search->tried[at] && differing(search->space, at, sorted[i].configuration) == 1)
                return sorted[i].configuration;
    return SIZE_MAX;
}

size_t tuner_search_ask(struct tuner_search *search)
{
    if (!search->left || search->count == TUNER_TRIALS)
        return SIZE_MAX;
    if (search->count < SPREAD || !fit(search))
        return ask_spread(search);
    size_t elite = search->count % 2 ? SIZE_MAX : pick_elite(search), best = SIZE_MAX;
    double most = -1;
    for (size_t at = 0; at < search->space->count; at++) {
        bool looked =
            !search->tried[at] && (elite == SIZE_MAX || differing(search->space, at, elite) == 1);
        double gain = looked ? improvement(search, at) : -1;
        if (gain > most) {
            most = gain;
            best = at;
        }
    }
    return best == SIZE_MAX ? draw(search) : best;
}

void tuner_search_tell(struct tuner_search *search, size_t configuration, double value)
{
    if (search->count == TUNER_TRIALS)
        return;
    if (!(value > 0) || !isfinite(value))
        value = NAN;
    search->left -= !search->tried[configuration];
    search->tried[configuration] = true;
    search->trial[search->count++] = (struct trial){configuration, value};
}

/* ---- what matters ----------------------------------------------------------------------------- */

void tuner_search_shares(struct tuner_search *search, double *share)
{
    size_t drawn = search->space->count < 512 ? search->space->count : 512;
    double *predicted = calloc(drawn + 1, sizeof *predicted);
    size_t *at = calloc(drawn + 1, sizeof *at);
    memset(share, 0, search->space->dimensions * sizeof *share);
    bool fitted = predicted && at && fit(search);
    uint64_t random = 1;
    double mean = 0, total = 0, ignored;
    for (size_t i = 0; fitted && i < drawn; i++) {
        at[i] = i;
        if (drawn < search->space->count)
            at[i] = (size_t)(an_random(&random) % search->space->count);
        tuner_process_predict(&search->process, at[i], &predicted[i], &ignored);
        mean += predicted[i] / (double)drawn;
    }
    for (size_t i = 0; fitted && i < drawn; i++)
        total += (predicted[i] - mean) * (predicted[i] - mean);
    for (size_t d = 0; fitted && total > 0 && d < search->space->dimensions; d++) {
        const struct tuner_dimension *row = &search->space->dimension[d];
        double *sum = calloc(row->levels, sizeof *sum), *count = calloc(row->levels, sizeof *count);
        for (size_t i = 0; sum && count && i < drawn; i++) {
            size_t level = search->space->choice[at[i] * search->space->dimensions + d];
            sum[level] += predicted[i] - mean;
            count[level]++;
        }
        for (size_t i = 0; sum && count && i < row->levels; i++)
            share[d] += count[i] > 0 ? sum[i] * sum[i] / count[i] / total : 0;
        free(count);
        free(sum);
    }
    free(at);
    free(predicted);
}
