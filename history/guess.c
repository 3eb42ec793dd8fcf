/* SPDX-License-Identifier: Apache-2.0
 *
 * The step of a run guessed from the runs of other recipes. Two ways: the most similar run, scaled
 * by the FLOPs of a step, so that its FLOP/s are taken to hold; and a Gaussian process of the
 * logarithm of the time of a FLOP over the options of the commands. The way whose guesses of the
 * known recipes, each left out, are off by less is taken.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "history/private.h"
#include "history/recipe_space.h"
#include "tuner/process.h"

#define WORD    0.05 /* what a word that only one of two commands has adds to their distance */
#define RUNS    2000 /* the newest that are looked at */
#define RECIPES 160  /* of them, at most: the process takes the cube of their number */
#define LEAST   8    /* recipes that the process is asked from */

/* What is known of a recipe. */
struct known {
    int64_t id;               /* of its newest run */
    double log_flops, log_ms; /* means over its runs, of the logarithms */
    char recipe[HISTORY_HASH];
    char *text; /* with a blank before it, so that every word of it follows one */
    double runs;
    /* Guesses by all others, as logarithms of ms; NAN: none. */
    double by_nearest, by_process;
    size_t nearest;
};

struct known_recipes {
    struct known recipe[RECIPES];
    size_t count;
};

/* ---- reading ---------------------------------------------------------------------------------- */

/* NULL: no memory, or too many. */
static struct known *recipe_of(struct known_recipes *known, const char *hash, const char *text)
{
    for (size_t i = 0; i < known->count; i++)
        if (!strcmp(known->recipe[i].recipe, hash))
            return &known->recipe[i];
    struct known *recipe = &known->recipe[known->count++];
    *recipe = (struct known){.by_nearest = NAN, .by_process = NAN};
    snprintf(recipe->recipe, sizeof recipe->recipe, "%s", hash);
    recipe->text = strdup(text);
    return recipe->text ? recipe : NULL;
}

/* Takes a row: id, hash and text of the recipe, FLOPs, ms. False: no memory. */
static bool take_row(struct known_recipes *known, sqlite3_stmt *statement)
{
    struct known *recipe = recipe_of(known, history_text(statement, 1), history_text(statement, 2));
    if (!recipe)
        return false;
    if (!(recipe->runs > 0))
        recipe->id = sqlite3_column_int64(statement, 0);
    double flops = log(sqlite3_column_double(statement, 3)),
           ms = log(sqlite3_column_double(statement, 4));
    recipe->runs++;
    recipe->log_flops += (flops - recipe->log_flops) / recipe->runs;
    recipe->log_ms += (ms - recipe->log_ms) / recipe->runs;
    return true;
}

/* Reads the recipes with FLOPs of a host, those of the newest runs first. */
static int read_recipes(struct history *history, const char *host, struct known_recipes *known,
                        struct tacho_error *err)
{
    sqlite3_stmt *statement = history_prepare(
        history,
        "SELECT run.id, recipe.hash, ' ' || recipe.text, flops.value, step.value FROM host"
        " JOIN run ON run.host = host.id JOIN recipe ON recipe.id = run.recipe"
        " JOIN value AS step ON step.run = run.id AND step.name ="
        " (SELECT id FROM name WHERE kind = 'step' AND name = 'median')"
        " JOIN value AS flops ON flops.run = run.id AND flops.name ="
        " (SELECT id FROM name WHERE kind = 'work' AND name = 'executed FLOPs')"
        " WHERE host.hash = ?1 AND flops.value > 0 AND step.value > 0"
        " ORDER BY run.begun_ns DESC LIMIT ?2",
        err);
    if (!statement)
        return TACHO_ECORRUPT;
    history_bind(statement, 1, host);
    sqlite3_bind_int64(statement, 2, RUNS);
    int status = SQLITE_DONE, rc = 0;
    while (!rc && known->count < RECIPES && (status = sqlite3_step(statement)) == SQLITE_ROW)
        rc = take_row(known, statement) ? 0 : TACHO_ENOMEM;
    if (!rc && status != SQLITE_DONE && status != SQLITE_ROW)
        rc = history_fail(history, status, "the history cannot be read", err);
    sqlite3_finalize(statement);
    return rc;
}

static void clear_recipes(struct known_recipes *known)
{
    for (size_t i = 0; i < known->count; i++)
        free(known->recipe[i].text);
    known->count = 0;
}

/* ---- the most similar ------------------------------------------------------------------------- */

/* Words of one text that another does not have. */
static int count_absent(const char *words, const char *in)
{
    int absent = 0;
    size_t length;
    for (; *words; words += length) {
        words += strspn(words, " ");
        length = strcspn(words, " ");
        const char *found = in;
        while (length && (found = strstr(found, " ")) != NULL) {
            found++;
            if (!strncmp(found, words, length) && (found[length] == ' ' || !found[length]))
                break;
        }
        absent += length && !found;
    }
    return absent;
}

static double distance(const struct known *first, const struct known *second)
{
    int words = count_absent(first->text, second->text) + count_absent(second->text, first->text);
    return fabs(first->log_flops - second->log_flops) + WORD * words;
}

static void guess_by_nearest(struct known_recipes *known)
{
    for (size_t i = 0; i < known->count; i++) {
        struct known *recipe = &known->recipe[i];
        double least = INFINITY;
        for (size_t k = 0; k < known->count; k++) {
            const struct known *other = &known->recipe[k];
            double away = k == i ? INFINITY : distance(recipe, other);
            if (away >= least)
                continue;
            least = away;
            recipe->nearest = k;
            recipe->by_nearest = other->log_ms + recipe->log_flops - other->log_flops;
        }
    }
}

/* ---- the process ------------------------------------------------------------------------------ */

/* Fits the process to the time of a FLOP and asks it for each recipe from all others. */
static void ask_process(struct known_recipes *known, struct tuner_process *process)
{
    double value[RECIPES], mean = 0;
    size_t point[RECIPES];
    for (size_t i = 0; i < known->count; i++) {
        value[i] = known->recipe[i].log_ms - known->recipe[i].log_flops;
        point[i] = i;
    }
    mean = an_mean(value, known->count);
    for (size_t i = 0; i < known->count; i++)
        value[i] -= mean;
    if (!tuner_process_set(process, point, value, known->count, true))
        return;
    for (size_t i = 0; i < known->count; i++) {
        double guess, sd;
        tuner_process_left_out(process, i, value[i], &guess, &sd);
        known->recipe[i].by_process = guess + mean + known->recipe[i].log_flops;
    }
}

static int guess_by_process(struct known_recipes *known)
{
    const char *text[RECIPES];
    double flops[RECIPES];
    struct tuner_space space;
    struct tuner_process process;
    if (known->count < LEAST)
        return 0;
    for (size_t i = 0; i < known->count; i++) {
        text[i] = known->recipe[i].text;
        flops[i] = exp(known->recipe[i].log_flops);
    }
    int rc = history_recipe_space(text, flops, known->count, &space);
    if (!rc)
        rc = tuner_process_begin(&process, &space, NULL, 0, known->count);
    if (!rc) {
        ask_process(known, &process);
        tuner_process_clear(&process);
    }
    tuner_space_clear(&space);
    return rc;
}

/* ---- both ------------------------------------------------------------------------------------- */

/* How far the guesses are off, in per cent: those by the process or those by the most similar. */
static void judge(const struct known_recipes *known, bool by_process, double *median, double *p90)
{
    double off[RECIPES];
    size_t count = 0;
    for (size_t i = 0; i < known->count; i++) {
        const struct known *recipe = &known->recipe[i];
        double guess = by_process ? recipe->by_process : recipe->by_nearest;
        if (!isnan(guess))
            off[count++] = 100 * fabs(expm1(guess - recipe->log_ms));
    }
    an_sort(off, count);
    *median = count ? an_quantile(off, count, 0.5) : NAN;
    *p90 = count ? an_quantile(off, count, 0.9) : NAN;
}

int history_guess(struct history *history, int64_t id, struct history_guess *guess,
                  struct tacho_error *err)
{
    struct history_entry *entry = NULL;
    struct known_recipes *known = calloc(1, sizeof *known);
    int rc = known ? history_get(history, id, &entry, err) : TACHO_ENOMEM;
    if (!rc)
        rc = read_recipes(history, entry->host, known, err);
    if (!rc) {
        guess_by_nearest(known);
        rc = guess_by_process(known);
    }
    const struct known *recipe = NULL;
    for (size_t i = 0; !rc && i < known->count; i++)
        if (!strcmp(known->recipe[i].recipe, entry->recipe))
            recipe = &known->recipe[i];
    if (!rc && (!recipe || isnan(recipe->by_nearest)))
        rc = tacho_fail(err, TACHO_ENOTFOUND, "'tacho history list' shows what has run where",
                        "no other recipe with FLOPs has run on such a host");
    else if (!rc) {
        double process_p90;
        *guess = (struct history_guess){.from = known->recipe[recipe->nearest].id,
                                        .recipes = known->count};
        judge(known, false, &guess->nearest_pct, &guess->p90_pct);
        judge(known, true, &guess->process_pct, &process_p90);
        guess->by_process = guess->process_pct < guess->nearest_pct;
        if (guess->by_process)
            guess->p90_pct = process_p90;
        guess->step_ms = exp(guess->by_process ? recipe->by_process : recipe->by_nearest);
    }
    if (known)
        clear_recipes(known);
    free(known);
    history_entry_free(entry);
    return rc;
}
