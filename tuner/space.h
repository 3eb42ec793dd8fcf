/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room tuner/: what can be chosen. A space has dimensions with levels (the
 * values of a parameter) and a list of configurations, a level for each dimension. Levels are
 * placed between 0 and 1: by their logarithm where all of three or more are positive numbers, by
 * their value where they are other numbers, by their order where they are words. An empty text
 * among numbers says that the parameter is absent, and is placed at -1.
 */
#ifndef TUNER_SPACE_H
#define TUNER_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

#define TUNER_DIMENSIONS 32     /* at most */
#define TUNER_LEVELS     4096   /* of a dimension, at most */
#define TUNER_MOST       200000 /* configurations, at most */

struct tuner_dimension {
    char *name;
    char **level; /* texts, in their order */
    double *place;
    size_t levels;
};

struct tuner_space {
    struct tuner_dimension dimension[TUNER_DIMENSIONS];
    size_t dimensions;
    uint16_t *choice; /* level of dimension d of configuration c: choice[c * dimensions + d] */
    size_t count;
};

/* Adds a dimension, or a level to one (a known text is found). Index, or a TACHO_E* code: NOMEM, or
 * NOTSUP where there are too many. */
int tuner_space_dimension(struct tuner_space *space, const char *name);
int tuner_space_level(struct tuner_space *space, size_t dimension, const char *text);
/* Adds a configuration, a level for each dimension. 0 or a code. */
int tuner_space_add(struct tuner_space *space, const uint16_t *levels);
/* Adds all combinations of levels. */
int tuner_space_product(struct tuner_space *space);
/* Sorts the levels and places them; to be called once, after all is added. Dimensions with one
 * level stay, and tell nothing apart. 0 or TACHO_ENOMEM. */
int tuner_space_end(struct tuner_space *space);
void tuner_space_clear(struct tuner_space *space);

/* Place of a dimension of a configuration; its text. */
static inline double tuner_place(const struct tuner_space *space, size_t configuration, size_t at)
{
    return space->dimension[at].place[space->choice[configuration * space->dimensions + at]];
}
static inline const char *tuner_level(const struct tuner_space *space, size_t configuration,
                                      size_t at)
{
    return space->dimension[at].level[space->choice[configuration * space->dimensions + at]];
}

#endif
