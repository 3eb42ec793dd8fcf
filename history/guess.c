/* SPDX-License-Identifier: Apache-2.0
 *
 * The step of a run guessed from the most similar one. Similar are runs whose FLOPs differ little
 * (by the logarithm of their ratio) and whose commands share their words: each word that only one
 * of them has counts as WORD. The guess is that run's step, scaled by the FLOPs that are executed
 * in a step, so that its FLOP/s are taken to hold.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "history/private.h"

#define WORD 0.05
#define RUNS 2000 /* the newest that are looked at */

struct known {
    int64_t id;
    double flops, step_ms;
    char recipe[HISTORY_HASH];
    char *text;
};

struct known_runs {
    struct known *run;
    size_t count;
};

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
    return fabs(log(first->flops / second->flops)) +
           WORD *
               (count_absent(first->text, second->text) + count_absent(second->text, first->text));
}

/* Texts get a blank before them, so that every word of them follows one. */
static int read_runs(struct history *history, const char *host, struct known_runs *runs,
                     struct tacho_error *err)
{
    sqlite3_stmt *statement = history_prepare(
        history,
        "SELECT run.id, recipe.hash, ' ' || recipe.text, flops.value, step.value FROM host"
        " JOIN run ON run.host = host.id JOIN recipe ON recipe.id = run.recipe"
        " JOIN value AS step ON step.run = run.id AND step.name ="
        " (SELECT id FROM name WHERE kind = 'step' AND name = 'mean')"
        " JOIN value AS flops ON flops.run = run.id AND flops.name ="
        " (SELECT id FROM name WHERE kind = 'work' AND name = 'executed FLOPs')"
        " WHERE host.hash = ?1 AND flops.value > 0 AND step.value > 0"
        " ORDER BY run.begun_ns DESC LIMIT ?2",
        err);
    runs->run = calloc(RUNS, sizeof *runs->run);
    if (!statement || !runs->run)
        return statement ? TACHO_ENOMEM : TACHO_ECORRUPT;
    history_bind(statement, 1, host);
    sqlite3_bind_int64(statement, 2, RUNS);
    int status = SQLITE_DONE, rc = 0;
    while (!rc && (status = sqlite3_step(statement)) == SQLITE_ROW) {
        struct known *run = &runs->run[runs->count++];
        run->id = sqlite3_column_int64(statement, 0);
        snprintf(run->recipe, sizeof run->recipe, "%s", history_text(statement, 1));
        run->text = strdup(history_text(statement, 2));
        run->flops = sqlite3_column_double(statement, 3);
        run->step_ms = sqlite3_column_double(statement, 4);
        rc = run->text ? 0 : TACHO_ENOMEM;
    }
    if (!rc && status != SQLITE_DONE)
        rc = history_fail(history, status, "the history cannot be read", err);
    sqlite3_finalize(statement);
    return rc;
}

static void free_runs(struct known_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++)
        free(runs->run[i].text);
    free(runs->run);
}

/* The most similar run of another recipe; NULL: there is none. */
static const struct known *nearest(const struct known_runs *runs, const struct known *to)
{
    const struct known *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < runs->count; i++) {
        const struct known *run = &runs->run[i];
        double away = strcmp(run->recipe, to->recipe) != 0 ? distance(run, to) : INFINITY;
        if (away < least) {
            least = away;
            best = run;
        }
    }
    return best;
}

int history_guess(struct history *history, int64_t id, struct history_guess *guess,
                  struct tacho_error *err)
{
    struct history_entry *entry = NULL;
    struct known_runs runs = {0};
    int rc = history_get(history, id, &entry, err);
    if (!rc)
        rc = read_runs(history, entry->host, &runs, err);
    const struct known *run = NULL, *best;
    for (size_t i = 0; !rc && i < runs.count; i++)
        if (runs.run[i].id == id)
            run = &runs.run[i];
    best = run ? nearest(&runs, run) : NULL;
    if (!rc && !best)
        rc = tacho_fail(err, TACHO_ENOTFOUND, NULL,
                        "no other recipe with FLOPs has run on such a host");
    if (!rc)
        *guess = (struct history_guess){best->step_ms * run->flops / best->flops, best->id};
    free_runs(&runs);
    history_entry_free(entry);
    return rc;
}

int history_guess_errors(struct history *history, const char *host, struct history_errors *errors,
                         struct tacho_error *err)
{
    struct known_runs runs = {0};
    *errors = (struct history_errors){0, NAN, NAN};
    int rc = read_runs(history, host, &runs, err);
    double *off = calloc(runs.count + 1, sizeof *off);
    for (size_t i = 0; !rc && off && i < runs.count; i++) {
        const struct known *run = &runs.run[i], *best = nearest(&runs, run);
        if (best)
            off[errors->runs++] =
                100 * fabs(best->step_ms * run->flops / best->flops / run->step_ms - 1);
    }
    if (off && errors->runs) {
        an_sort(off, errors->runs);
        errors->median_pct = an_quantile(off, errors->runs, 0.5);
        errors->p90_pct = an_quantile(off, errors->runs, 0.9);
    }
    rc = off || rc ? rc : TACHO_ENOMEM;
    free(off);
    free_runs(&runs);
    return rc;
}
