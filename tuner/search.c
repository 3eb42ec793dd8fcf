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

/* Configurations by chance before the process is asked. Few: it learns more from where it looks.
 * Not spread as far apart as can be: that is in the corners, where block sizes are at their worst.
 */
#define BY_CHANCE  4
#define LEARN_EACH 5     /* trials between two fits of the process */
#define WATCHED    12000 /* configurations that are predicted for each trial, at most */
/* How much less sure the search is than the process: a space of switches and block sizes has
 * valleys that the kernel does not know, and what is sure of itself stays in the first one. */
#define DOUBT 2.0

/* After so many trials every second one is a neighbour of the best: the search is in a good valley
 * by then, and its sure ends are worth more than another unsure one. */
#define COARSE 30

/* A search that stands still looks aside (struct aside). */
#define PATIENCE 20 /* trials without a better one before that */
#define IDLE     8  /* trials without a better one of its own after which it ends */

struct trial {
    size_t configuration;
    double value; /* NAN: failed */
};

/* What if one choice were otherwise? One dimension is held away from the level that the best has;
 * from the best configuration that is known there the search goes downhill, to the neighbour that
 * promises most. A valley that is worse than the rest at most of its places, and that expected
 * improvement therefore leaves out, is found so. */
struct aside {
    bool on;
    size_t dimension;
    uint16_t level; /* of it, which is left out */
    size_t at;      /* the best there so far */
    double value;   /* of that; NAN: nothing there has worked yet */
};

struct tuner_search {
    const struct tuner_space *space;
    uint64_t random;
    bool *tried;
    size_t left;
    struct trial trial[TUNER_TRIALS];
    size_t count, learned_at;
    size_t best_at; /* configuration; of no trial that worked: SIZE_MAX */
    double least;   /* its value */
    size_t idle;    /* trials since it, or since the best aside */
    struct aside aside;
    size_t asides; /* so far */
    struct tuner_process process;
    size_t *watched; /* all configurations, or of a large space as many by chance */
    size_t watching;
    size_t *point;         /* of the trials that worked */
    double *value;         /* their logarithms, standardized */
    double centre, spread; /* what they were standardized with */
    double best;           /* the smallest of them */
    size_t worked;
};

static void watch(struct tuner_search *search)
{
    size_t count = search->space->count;
    search->watching = count < WATCHED ? count : WATCHED;
    search->watched = calloc(search->watching + 1, sizeof *search->watched);
    for (size_t i = 0; search->watched && i < search->watching; i++) {
        search->watched[i] = i;
        if (count > WATCHED)
            search->watched[i] = (size_t)(an_random(&search->random) % count);
    }
}

struct tuner_search *tuner_search_new(const struct tuner_space *space, uint64_t seed)
{
    struct tuner_search *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    size_t room = space->count < TUNER_TRIALS ? space->count : TUNER_TRIALS;
    search->space = space;
    search->random = seed;
    search->best_at = SIZE_MAX;
    search->left = space->count;
    search->tried = calloc(space->count + 1, sizeof *search->tried);
    search->point = calloc(room + 1, sizeof *search->point);
    search->value = calloc(room + 1, sizeof *search->value);
    watch(search);
    bool enough =
        search->tried && search->point && search->value && search->watched &&
        !tuner_process_begin(&search->process, space, search->watched, search->watching, room + 1);
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
    free(search->watched);
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

/* ---- the process ------------------------------------------------------------------------------ */

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
    search->centre = mean;
    search->spread = sd;
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

/* The candidate with the largest expected improvement so far. */
struct choice {
    size_t configuration; /* SIZE_MAX: none */
    double gain;
    double target; /* the value that is to be improved on, as those of the process */
};

/* Takes a candidate if it promises more. Its likelihood to work is looked at only then. */
static void consider(const struct tuner_search *search, size_t configuration, double mean,
                     double sd, struct choice *choice)
{
    sd *= DOUBT;
    double gap = (choice->target - mean) / sd;
    double gain = sd * (gap * 0.5 * erfc(-gap / sqrt(2)) + exp(-gap * gap / 2) / sqrt(2 * M_PI));
    if (!(gain > choice->gain))
        return;
    if (search->worked < search->count) {
        double likely = works(search, configuration);
        gain *= likely * likely;
    }
    if (gain > choice->gain) {
        choice->configuration = configuration;
        choice->gain = gain;
    }
}

static size_t differing(const struct tuner_space *space, size_t first, size_t second)
{
    size_t count = 0;
    for (size_t d = 0; d < space->dimensions; d++)
        count += space->choice[first * space->dimensions + d] !=
                 space->choice[second * space->dimensions + d];
    return count;
}

/* Does the search not look aside, or is a configuration there? */
static bool may_try(const struct tuner_search *search, size_t at)
{
    const struct aside *aside = &search->aside;
    const uint16_t *choice = search->space->choice + at * search->space->dimensions;
    return !search->tried[at] && (!aside->on || choice[aside->dimension] != aside->level);
}

/* What differs from a configuration in one dimension. */
static void consider_neighbours(const struct tuner_search *search, size_t of, struct choice *choice)
{
    double mean, sd;
    for (size_t at = 0; at < search->space->count; at++) {
        if (!may_try(search, at) || differing(search->space, at, of) != 1)
            continue;
        tuner_process_predict(&search->process, at, &mean, &sd);
        consider(search, at, mean, sd, choice);
    }
}

static void consider_watched(const struct tuner_search *search, struct choice *choice)
{
    for (size_t i = 0; i < search->watching; i++)
        if (may_try(search, search->watched[i]))
            consider(search, search->watched[i], search->process.mean[i], search->process.sd[i],
                     choice);
}

/* The configuration with the largest expected improvement on the best; SIZE_MAX: none. */
static size_t ask_anywhere(const struct tuner_search *search)
{
    struct choice choice = {SIZE_MAX, -1, search->best};
    consider_watched(search, &choice);
    if (search->watching < search->space->count)
        consider_neighbours(search, search->best_at, &choice);
    return choice.configuration;
}

/* The neighbour of the best that promises most; SIZE_MAX: all of them were tried. */
static size_t ask_nearby(const struct tuner_search *search)
{
    struct choice choice = {SIZE_MAX, -1, search->best};
    consider_neighbours(search, search->best_at, &choice);
    return choice.configuration;
}

/* ---- aside ------------------------------------------------------------------------------------ */

/* Takes a trial that is the best aside so far. */
static bool take_aside(struct tuner_search *search, size_t configuration, double value)
{
    struct aside *aside = &search->aside;
    const uint16_t *choice = search->space->choice + configuration * search->space->dimensions;
    if (isnan(value) || value >= aside->value || choice[aside->dimension] == aside->level)
        return false;
    aside->at = configuration;
    aside->value = value;
    return true;
}

/* The neighbour of the best aside that promises most; where nothing has worked there, what promises
 * most of all that is aside. SIZE_MAX: all of them were tried. */
static size_t ask_aside(const struct tuner_search *search)
{
    const struct aside *aside = &search->aside;
    struct choice choice = {SIZE_MAX, -1, search->best};
    if (isnan(aside->value)) {
        consider_watched(search, &choice);
    } else {
        choice.target = (log(aside->value) - search->centre) / search->spread;
        consider_neighbours(search, aside->at, &choice);
    }
    return choice.configuration;
}

/* The dimensions that tell configurations apart, those with few levels first: what has one of two
 * levels is half of the space. How many. */
static size_t order_dimensions(const struct tuner_space *space, size_t order[TUNER_DIMENSIONS])
{
    size_t count = 0;
    for (size_t d = 0; d < space->dimensions; d++) {
        size_t at = count, levels = space->dimension[d].levels;
        if (levels < 2)
            continue;
        for (; at > 0 && space->dimension[order[at - 1]].levels > levels; at--)
            order[at] = order[at - 1];
        order[at] = d;
        count++;
    }
    return count;
}

static void begin_aside(struct tuner_search *search, size_t dimension)
{
    const uint16_t *best = search->space->choice + search->best_at * search->space->dimensions;
    search->aside =
        (struct aside){.on = true, .dimension = dimension, .level = best[dimension], .value = NAN};
    for (size_t i = 0; i < search->count; i++)
        take_aside(search, search->trial[i].configuration, search->trial[i].value);
    search->asides++;
}

/* Where the search stands still it looks aside, in each dimension once, or until that has found
 * what is better than all else; then it looks everywhere again. */
static void turn(struct tuner_search *search)
{
    size_t order[TUNER_DIMENSIONS], count = order_dimensions(search->space, order);
    bool was_on = search->aside.on;
    if (!count || search->idle < (was_on ? IDLE : PATIENCE))
        return;
    bool over = was_on && (search->aside.value <= search->least || search->asides % count == 0);
    search->aside.on = false;
    search->idle = 0;
    if (!over)
        begin_aside(search, order[search->asides % count]);
}

size_t tuner_search_ask(struct tuner_search *search)
{
    if (!search->left || search->count == TUNER_TRIALS)
        return SIZE_MAX;
    if (search->count < BY_CHANCE || !fit(search) || !tuner_process_sweep(&search->process))
        return draw(search);
    turn(search);
    size_t next = search->aside.on ? ask_aside(search) : SIZE_MAX;
    if (search->aside.on && next == SIZE_MAX) { /* all of its neighbours were tried */
        search->aside.on = false;
        search->idle = PATIENCE;
    }
    if (next == SIZE_MAX && search->count > COARSE && search->count % 2 == 0)
        next = ask_nearby(search);
    if (next == SIZE_MAX)
        next = ask_anywhere(search);
    return next == SIZE_MAX ? draw(search) : next;
}

/* Keeps what is the best so far, of all and aside. */
static void keep_best(struct tuner_search *search, size_t configuration, double value)
{
    bool best = !isnan(value) && (search->best_at == SIZE_MAX || value < search->least);
    if (best) {
        search->best_at = configuration;
        search->least = value;
    }
    bool better = search->aside.on ? take_aside(search, configuration, value) : best;
    search->idle = better ? 0 : search->idle + 1;
}

void tuner_search_tell(struct tuner_search *search, size_t configuration, double value)
{
    if (search->count == TUNER_TRIALS || search->tried[configuration])
        return;
    if (!(value > 0) || !isfinite(value))
        value = NAN;
    search->left--;
    search->tried[configuration] = true;
    keep_best(search, configuration, value);
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

void tuner_search_response(struct tuner_search *search, size_t configuration, size_t dimension,
                           double *value)
{
    const struct tuner_space *space = search->space;
    bool fitted = fit(search);
    double mean, sd;
    for (size_t level = 0; level < space->dimension[dimension].levels; level++)
        value[level] = NAN;
    for (size_t at = 0; fitted && at < space->count; at++) {
        size_t level = space->choice[at * space->dimensions + dimension];
        bool same = level == space->choice[configuration * space->dimensions + dimension];
        if (differing(space, at, configuration) != (size_t)!same)
            continue;
        tuner_process_predict(&search->process, at, &mean, &sd);
        value[level] = exp(search->centre + search->spread * mean);
    }
}
