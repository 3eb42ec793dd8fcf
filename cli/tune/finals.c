/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a search.
 */
#include "cli/tune/finals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "cli/base/message.h"

static int by_value(const void *left, const void *right)
{
    const struct cli_trial *first = left, *second = right;
    return (first->value > second->value) - (first->value < second->value);
}

/* What is set now, and the best of the others that ran to their end. */
static int pick_finalists(const struct cli_tune *tune, struct cli_tuned *tuned)
{
    struct cli_trial *sorted = calloc(tune->journal.count + 1, sizeof *sorted);
    size_t count = 0;
    if (!sorted)
        return cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    for (size_t i = 0; i < tune->journal.count; i++) {
        const struct cli_trial *trial = &tune->journal.trial[i];
        if (!trial->confirms && !trial->ended && !isnan(trial->value) &&
            trial->configuration != tune->command.start &&
            trial->configuration < tune->command.space.count) /* the journal is a file */
            sorted[count++] = *trial;
    }
    qsort(sorted, count, sizeof *sorted, by_value);
    tuned->finalist[0].configuration = tune->command.start;
    tuned->count = 1;
    for (size_t i = 0; i < count && tuned->count < CLI_TUNE_FINALISTS; i++)
        tuned->finalist[tuned->count++].configuration = sorted[i].configuration;
    free(sorted);
    return 0;
}

static void add_run(struct cli_finalist *finalist, const struct cli_trial *trial)
{
    struct cli_runs *runs = trial->pairs ? &finalist->pairs : &finalist->turns;
    double sorted[CLI_TUNE_ROUNDS];
    if (isnan(trial->value)) {
        finalist->failed = true;
        return;
    }
    if (runs->count == CLI_TUNE_ROUNDS)
        return;
    runs->value[runs->count++] = trial->value;
    memcpy(sorted, runs->value, sizeof sorted);
    runs->median = an_quantile_of(sorted, runs->count, 0.5);
}

/* Runs that an earlier call has made. */
static void take_runs(const struct cli_tune *tune, struct cli_tuned *tuned)
{
    for (size_t i = 0; i < tune->journal.count; i++)
        for (size_t k = 0; k < tuned->count; k++)
            if (tune->journal.trial[i].confirms &&
                tune->journal.trial[i].configuration == tuned->finalist[k].configuration)
                add_run(&tuned->finalist[k], &tune->journal.trial[i]);
}

static int run_finalist(struct cli_tune *tune, struct cli_finalist *finalist, bool pairs,
                        size_t round)
{
    char place[64];
    struct cli_trial trial = {
        .configuration = finalist->configuration, .confirms = true, .pairs = pairs};
    snprintf(place, sizeof place, "%s %zu of %lld:", pairs ? "pair" : "again,", round + 1,
             pairs ? (long long)tune->rounds : CLI_TUNE_TURNS);
    int code = cli_tune_trial(tune, place, &trial);
    if (!code && !tune->stopped)
        add_run(finalist, &trial);
    return code;
}

/* The finalist with the smallest median that never failed. */
static size_t leader_of(const struct cli_tuned *tuned)
{
    size_t leader = 0;
    double best = INFINITY;
    for (size_t k = 0; k < tuned->count; k++) {
        const struct cli_finalist *finalist = &tuned->finalist[k];
        if (!finalist->failed && finalist->turns.median < best) {
            best = finalist->turns.median;
            leader = k;
        }
    }
    return leader;
}

#define RACE 2 /* turns after which the slow ones go */

/* Drops what was slower in each of the first turns than the fastest in any of them. Later turns do
 * not count: a call that goes on after a kill must come to the same. */
static void drop_slow(struct cli_tuned *tuned)
{
    const double *fastest = NULL;
    for (size_t k = 0; k < tuned->count; k++) {
        const struct cli_runs *turns = &tuned->finalist[k].turns;
        if (turns->count >= RACE &&
            (!fastest || turns->value[0] + turns->value[1] < fastest[0] + fastest[1]))
            fastest = turns->value;
    }
    for (size_t k = 1; fastest && k < tuned->count; k++) {
        const struct cli_runs *turns = &tuned->finalist[k].turns;
        tuned->finalist[k].dropped =
            turns->count >= RACE &&
            fmin(turns->value[0], turns->value[1]) > fmax(fastest[0], fastest[1]);
    }
}

static bool goes_on(const struct cli_tune *tune, int code)
{
    return !code && !tune->stopped && !cli_tune_is_spent(tune, 1);
}

/* Runs all in turn; each turn begins with another one. */
static int run_turns(struct cli_tune *tune, struct cli_tuned *tuned)
{
    int code = 0;
    for (size_t round = 0; tuned->count > 1 && round < CLI_TUNE_TURNS; round++) {
        for (size_t i = 0; goes_on(tune, code) && i < tuned->count; i++) {
            struct cli_finalist *finalist = &tuned->finalist[(i + round) % tuned->count];
            if (!finalist->failed && !finalist->dropped && finalist->turns.count <= round)
                code = run_finalist(tune, finalist, false, round);
        }
        if (round + 1 == RACE)
            drop_slow(tuned);
    }
    return code;
}

/* Runs the winner and what is set now in pairs. A winner that fails makes way for the next one. */
static int run_pairs(struct cli_tune *tune, struct cli_tuned *tuned)
{
    struct cli_finalist *now = &tuned->finalist[0];
    int code = 0;
    tuned->winner = leader_of(tuned);
    for (size_t round = 0; tuned->winner && round < (size_t)tune->rounds; round++) {
        struct cli_finalist *winner = &tuned->finalist[tuned->winner];
        struct cli_finalist *const turns[] = {now, winner, now};
        struct cli_finalist *const *pair = turns + round % 2;
        for (size_t i = 0; i < 2 && goes_on(tune, code); i++)
            if (!pair[i]->failed && pair[i]->pairs.count <= round)
                code = run_finalist(tune, pair[i], true, round);
        if (winner->failed) {
            tuned->winner = leader_of(tuned);
            round = (size_t)-1;
        }
    }
    return code;
}

int cli_tune_confirm(struct cli_tune *tune, struct cli_tuned *tuned)
{
    *tuned = (struct cli_tuned){.gate.p = NAN};
    int code = pick_finalists(tune, tuned);
    if (code)
        return code;
    for (size_t k = 0; k < tuned->count; k++)
        tuned->finalist[k].turns.median = tuned->finalist[k].pairs.median = NAN;
    take_runs(tune, tuned);
    code = run_turns(tune, tuned);
    if (!code)
        code = run_pairs(tune, tuned);
    const struct cli_runs *now = &tuned->finalist[0].pairs;
    const struct cli_runs *winner = &tuned->finalist[tuned->winner].pairs;
    if (tuned->winner && now->count && winner->count)
        tuned->gate = an_gate_decide(&(struct an_gate_input){
            winner->value, now->value, winner->count, now->count, 0, NAN, NAN});
    return code;
}

bool cli_tune_is_better(const struct cli_tuned *tuned)
{
    bool proven = tuned->gate.state == AN_GATE_FAILED || tuned->finalist[0].failed;
    return tuned->winner && proven;
}

double cli_tune_gain(const struct cli_tuned *tuned, size_t finalist)
{
    const struct cli_finalist *now = &tuned->finalist[0], *other = &tuned->finalist[finalist];
    bool paired = finalist && finalist == tuned->winner && other->pairs.count && now->pairs.count;
    if (paired)
        return 100 * (now->pairs.median / other->pairs.median - 1);
    return 100 * (now->turns.median / other->turns.median - 1);
}
