/* SPDX-License-Identifier: Apache-2.0
 *
 * Spaces of configurations.
 */
#include "tuner/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- building --------------------------------------------------------------------------------- */

int tuner_space_dimension(struct tuner_space *space, const char *name)
{
    for (size_t i = 0; i < space->dimensions; i++)
        if (!strcmp(space->dimension[i].name, name))
            return (int)i;
    if (space->dimensions == TUNER_DIMENSIONS)
        return TACHO_ENOTSUP;
    char *copy = strdup(name);
    if (!copy)
        return TACHO_ENOMEM;
    space->dimension[space->dimensions] = (struct tuner_dimension){.name = copy};
    return (int)space->dimensions++;
}

int tuner_space_level(struct tuner_space *space, size_t dimension, const char *text)
{
    struct tuner_dimension *row = &space->dimension[dimension];
    for (size_t i = 0; i < row->levels; i++)
        if (!strcmp(row->level[i], text))
            return (int)i;
    if (row->levels == TUNER_LEVELS)
        return TACHO_ENOTSUP;
    bool full = (row->levels & (row->levels - 1)) == 0; /* room grows at powers of two */
    char **grown = full ? realloc(row->level, (2 * row->levels + 1) * sizeof *grown) : row->level;
    if (!grown)
        return TACHO_ENOMEM;
    row->level = grown;
    row->level[row->levels] = strdup(text);
    return row->level[row->levels] ? (int)row->levels++ : TACHO_ENOMEM;
}

int tuner_space_add(struct tuner_space *space, const uint16_t *levels)
{
    size_t width = space->dimensions;
    if (space->count == TUNER_MOST)
        return TACHO_ENOTSUP;
    bool full = (space->count & (space->count - 1)) == 0;
    if (full) {
        size_t room = 2 * space->count + 1;
        uint16_t *grown = realloc(space->choice, room * (width + 1) * sizeof *grown);
        if (!grown)
            return TACHO_ENOMEM;
        space->choice = grown;
    }
    memcpy(space->choice + space->count++ * width, levels, width * sizeof *levels);
    return 0;
}

int tuner_space_product(struct tuner_space *space)
{
    uint16_t level[TUNER_DIMENSIONS] = {0};
    size_t at = 0;
    while (at < space->dimensions) {
        int rc = tuner_space_add(space, level);
        if (rc)
            return rc;
        for (at = 0; at < space->dimensions; at++) { /* count up, the first digit fastest */
            if (++level[at] < space->dimension[at].levels)
                break;
            level[at] = 0;
        }
    }
    return 0;
}

/* ---- placing ---------------------------------------------------------------------------------- */

struct placed {
    const char *text;
    double number; /* NAN: a word; -INFINITY: an option that is absent */
    size_t was;
};

static bool read_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end && isfinite(*number);
}

static int by_number(const void *left, const void *right)
{
    const struct placed *first = left, *second = right;
    if (isnan(first->number))
        return (first->was > second->was) - (first->was < second->was);
    return (first->number > second->number) - (first->number < second->number);
}

/* Places of sorted levels. Where an option of numbers is absent is as far below the lowest of them
 * as the highest is above it. */
static void place_levels(struct tuner_dimension *row, const struct placed *sorted)
{
    size_t absent = row->levels > 1 && isinf(sorted[0].number), numbers = row->levels - absent;
    double low = sorted[absent].number, high = sorted[row->levels - 1].number;
    bool words = isnan(low), by_log = !words && low > 0 && numbers > 2;
    for (size_t i = 0; i < row->levels; i++) {
        double number = sorted[i].number;
        if (i < absent)
            row->place[i] = -1;
        else if (words || numbers < 2 || !(high > low)) /* "1" and "1.0" */
            row->place[i] = (double)(i - absent) / fmax((double)numbers - 1, 1);
        else if (by_log)
            row->place[i] = log(number / low) / log(high / low);
        else
            row->place[i] = (number - low) / (high - low);
    }
}

/* Sorts the levels of a dimension. became[i]: where level i is now. */
static int sort_levels(struct tuner_dimension *row, uint16_t *became)
{
    struct placed *sorted = calloc(row->levels + 1, sizeof *sorted);
    row->place = calloc(row->levels + 1, sizeof *row->place);
    if (!sorted || !row->place) {
        free(sorted);
        return TACHO_ENOMEM;
    }
    bool numbers = true;
    for (size_t i = 0; i < row->levels; i++) {
        sorted[i] = (struct placed){.text = row->level[i], .number = -INFINITY, .was = i};
        if (*row->level[i])
            numbers = read_number(row->level[i], &sorted[i].number) && numbers;
    }
    for (size_t i = 0; i < row->levels && !numbers; i++)
        sorted[i].number = NAN;
    qsort(sorted, row->levels, sizeof *sorted, by_number);
    for (size_t i = 0; i < row->levels; i++) {
        row->level[i] = (char *)sorted[i].text;
        became[sorted[i].was] = (uint16_t)i;
    }
    if (row->levels)
        place_levels(row, sorted);
    free(sorted);
    return 0;
}

int tuner_space_end(struct tuner_space *space)
{
    uint16_t *became = calloc(TUNER_LEVELS + 1, sizeof *became);
    int rc = became ? 0 : TACHO_ENOMEM;
    for (size_t at = 0; !rc && at < space->dimensions; at++) {
        rc = sort_levels(&space->dimension[at], became);
        for (size_t i = 0; !rc && i < space->count; i++) {
            uint16_t *choice = &space->choice[i * space->dimensions + at];
            *choice = became[*choice];
        }
    }
    free(became);
    return rc;
}

void tuner_space_clear(struct tuner_space *space)
{
    for (size_t at = 0; at < space->dimensions; at++) {
        struct tuner_dimension *row = &space->dimension[at];
        for (size_t i = 0; i < row->levels; i++)
            free(row->level[i]);
        free(row->level);
        free(row->place);
        free(row->name);
    }
    free(space->choice);
    *space = (struct tuner_space){0};
}
