/* SPDX-License-Identifier: Apache-2.0
 *
 * From texts of recipes to a space.
 */
#include "history/recipe_space.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* An option of a recipe: "--batch" and "8", "OMP_NUM_THREADS" and "2", "word 2" and "gpt2-tiny". */
struct option {
    char name[64], value[128];
};

struct reader {
    const char *rest;
    int words; /* that are no option and no variable, so far */
};

static bool next_word(struct reader *reader, char word[256])
{
    reader->rest += strspn(reader->rest, " ");
    size_t length = strcspn(reader->rest, " ");
    snprintf(word, 256, "%.*s", (int)(length < 255 ? length : 255), reader->rest);
    reader->rest += length;
    return length > 0;
}

/* The word after a flag is its value, unless it is a flag itself. -5 is a number. */
static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) && word[1] != '.';
}

static bool next_option(struct reader *reader, struct option *option)
{
    char word[256], value[256];
    if (!next_word(reader, word))
        return false;
    struct reader ahead = *reader;
    char *equals = strchr(word, '=');
    if (equals && (is_flag(word) || !reader->words)) {
        snprintf(option->value, sizeof option->value, "%.127s", equals + 1);
        *equals = '\0';
        snprintf(option->name, sizeof option->name, "%.63s", word);
    } else if (is_flag(word)) {
        bool valued = next_word(&ahead, value) && !is_flag(value);
        if (valued)
            *reader = ahead;
        snprintf(option->name, sizeof option->name, "%.63s", word);
        snprintf(option->value, sizeof option->value, "%.127s", valued ? value : "set");
    } else {
        snprintf(option->name, sizeof option->name, "word %d", ++reader->words);
        snprintf(option->value, sizeof option->value, "%.127s", word);
    }
    return true;
}

/* The dimension of an option; made with the level of a recipe that does not have it. */
static int dimension_of(struct tuner_space *space, const char *name)
{
    int at = tuner_space_dimension(space, name);
    if (at >= 0 && !space->dimension[at].levels) {
        int rc = tuner_space_level(space, (size_t)at, "");
        return rc < 0 ? rc : at;
    }
    return at;
}

/* Adds the levels of a recipe, or finds them: level[] of each dimension so far. */
static int read_levels(struct tuner_space *space, const char *text, double flops, uint16_t *level)
{
    char number[32];
    struct reader reader = {.rest = text};
    struct option option;
    snprintf(number, sizeof number, "%.6g", flops);
    int at = tuner_space_dimension(space, "FLOPs");
    int found = at < 0 ? at : tuner_space_level(space, (size_t)at, number);
    memset(level, 0, TUNER_DIMENSIONS * sizeof *level);
    level[0] = (uint16_t)(found < 0 ? 0 : found);
    while (found >= 0 && next_option(&reader, &option)) {
        at = dimension_of(space, option.name);
        if (at == TACHO_ENOTSUP)
            continue;
        found = at < 0 ? at : tuner_space_level(space, (size_t)at, option.value);
        if (found >= 0)
            level[at] = (uint16_t)found;
    }
    return found < 0 ? found : 0;
}

int history_recipe_space(const char *const *texts, const double *flops, size_t count,
                         struct tuner_space *space)
{
    uint16_t level[TUNER_DIMENSIONS];
    int rc = 0;
    *space = (struct tuner_space){0};
    for (size_t i = 0; !rc && i < count; i++) /* all dimensions must be known before */
        rc = read_levels(space, texts[i], flops[i], level);
    for (size_t i = 0; !rc && i < count; i++) {
        rc = read_levels(space, texts[i], flops[i], level);
        if (!rc)
            rc = tuner_space_add(space, level);
    }
    return rc ? rc : tuner_space_end(space);
}
