/* SPDX-License-Identifier: Apache-2.0
 *
 * The trials of `tacho tune`.
 */
#include "cli/tune/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/base/stats.h"
#include "cli/base/message.h"
#include "cli/base/rerun.h"
#include "cli/base/run_file.h"

void cli_tune_settings(const struct tuner_space *space, size_t configuration, char text[400])
{
    size_t length = 0;
    *text = 0;
    for (size_t at = 0; at < space->dimensions && length < 399; at++) {
        int n = snprintf(text + length, 400 - length, "%s%s=%s", at ? " " : "",
                         space->dimension[at].name, tuner_level(space, configuration, at));
        length += n > 0 ? (size_t)n : 0;
    }
}

const char *cli_tune_unit(const struct cli_tune *tune)
{
    if (tune->objective && !strcmp(tune->objective, "tokens"))
        return "ms a token";
    return tune->objective && !strcmp(tune->objective, "samples") ? "ms a sample" : "ms a step";
}

#define NOT_RECORDED 125 /* of tacho run, as of env(1): the command was not started */

/* ---- one trial -------------------------------------------------------------------------------- */

/* The objective of a run in ms; NAN: the run does not have it. Without a name it takes the first
 * one that the run has, for all trials to come. */
static double objective_of(struct cli_tune *tune, const struct an_result *result)
{
    const struct {
        const char *name;
        struct an_value rate;
    } rates[] = {{"samples", result->steps.samples_per_s}, {"tokens", result->steps.tokens_per_s}};
    for (size_t i = 0; i < 2; i++) {
        bool asked = !tune->objective || !strcmp(tune->objective, rates[i].name);
        if (asked && rates[i].rate.valid && rates[i].rate.value > 0) {
            tune->objective = rates[i].name;
            return 1e3 / rates[i].rate.value;
        }
    }
    if (tune->objective && strcmp(tune->objective, "step") != 0)
        return NAN;
    tune->objective = "step";
    return result->steps.median_ms.valid ? result->steps.median_ms.value : NAN;
}

/* Why a program that ended with such a code failed. */
static void explain(int code, struct cli_trial *trial)
{
    if (code == 137)
        snprintf(trial->reason, sizeof trial->reason, "killed: most likely out of memory");
    else
        snprintf(trial->reason, sizeof trial->reason, "exit code %d", code);
}

/* Records the command of a configuration and reads what it gave. */
static int run_trial(struct cli_tune *tune, struct cli_trial *trial)
{
    char file[PATH_MAX + 64], log[PATH_MAX + 16];
    /* a name of its own: what a killed search started may still be writing */
    snprintf(file, sizeof file, "%s/trial-%ld-%zu.tacho", tune->folder, (long)getpid(),
             tune->journal.count);
    snprintf(log, sizeof log, "%s/log", tune->folder);
    char **words = cli_template_words(&tune->command, trial->configuration);
    if (!words)
        return cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    struct an_result *result = NULL;
    int code = cli_rerun_measure(words, NULL, file, log, &tune->stopped, &result);
    trial->value = result ? objective_of(tune, result) : NAN;
    if (code)
        explain(code, trial);
    else if (isnan(trial->value))
        snprintf(trial->reason, sizeof trial->reason, "no %s in the recording",
                 tune->objective ? tune->objective : "steps");
    an_result_free(result);
    cli_template_free(words);
    if (code != NOT_RECORDED || tune->stopped)
        return 0;
    return cli_error(TACHO_EIO, "the folder's file 'log' says why",
                     "tune: a trial was not recorded");
}

static void say_trial(const struct cli_tune *tune, const struct cli_trial *trial, const char *place)
{
    char settings[400];
    cli_tune_settings(&tune->command.space, trial->configuration, settings);
    if (isnan(trial->value))
        cli_say("%s %s: failed (%s)", place, settings, trial->reason);
    else
        cli_say("%s %s: %.4g %s", place, settings, trial->value, cli_tune_unit(tune));
}

/* Runs a trial and keeps it, unless the user stopped it. */
static int make_trial(struct cli_tune *tune, size_t configuration, bool confirms, const char *place,
                      struct cli_trial *trial)
{
    *trial = (struct cli_trial){.configuration = configuration, .confirms = confirms};
    int code = run_trial(tune, trial);
    if (code || tune->stopped)
        return code;
    say_trial(tune, trial, place);
    return cli_journal_add(&tune->journal, trial);
}

/* ---- the search ------------------------------------------------------------------------------- */

static double minutes_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec / 60;
}

/* Tells the search what an earlier call has measured; how many trials that were. */
static size_t tell_earlier(struct cli_tune *tune)
{
    size_t count = 0;
    for (size_t i = 0; i < tune->journal.count; i++) {
        const struct cli_trial *trial = &tune->journal.trial[i];
        if (trial->confirms || trial->configuration >= tune->command.space.count)
            continue;
        tuner_search_tell(tune->search, trial->configuration, trial->value);
        count++;
    }
    return count;
}

int cli_tune_search(struct cli_tune *tune)
{
    size_t made = tell_earlier(tune);
    double begun = minutes_now();
    int code = 0;
    if (made)
        cli_say("%zu trials of an earlier call are kept", made);
    while (!code && !tune->stopped && made < (size_t)tune->trials) {
        char place[64];
        struct cli_trial trial;
        size_t next = made ? tuner_search_ask(tune->search) : tune->command.start;
        bool late = tune->minutes > 0 && minutes_now() - begun > tune->minutes;
        if (next == SIZE_MAX || late)
            break;
        snprintf(place, sizeof place, "%zu of %lld:", made + 1, (long long)tune->trials);
        code = make_trial(tune, next, false, place, &trial);
        if (!code && !tune->stopped)
            tuner_search_tell(tune->search, next, trial.value);
        if (!code && !tune->stopped && !made && isnan(trial.value))
            code = cli_error(TACHO_EFORMAT, "its output is in the folder's file 'log'",
                             "the command fails as it is set now: %s", trial.reason);
        made++;
    }
    return code;
}

/* ---- the end ---------------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right)
{
    const struct cli_trial *first = left, *second = right;
    return (first->value > second->value) - (first->value < second->value);
}

/* What is set now, and the best of the others. */
static int pick_finalists(const struct cli_tune *tune, struct cli_tuned *tuned)
{
    struct cli_trial *sorted = calloc(tune->journal.count + 1, sizeof *sorted);
    size_t count = 0;
    if (!sorted)
        return cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    for (size_t i = 0; i < tune->journal.count; i++) {
        const struct cli_trial *trial = &tune->journal.trial[i];
        if (!trial->confirms && !isnan(trial->value) && trial->configuration != tune->command.start)
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

static void add_round(struct cli_finalist *finalist, const struct cli_trial *trial)
{
    if (isnan(trial->value))
        finalist->failed = true;
    else if (finalist->rounds < CLI_TUNE_ROUNDS)
        finalist->value[finalist->rounds++] = trial->value;
}

/* Rounds that an earlier call has made. */
static void take_rounds(const struct cli_tune *tune, struct cli_tuned *tuned)
{
    for (size_t i = 0; i < tune->journal.count; i++)
        for (size_t k = 0; k < tuned->count; k++)
            if (tune->journal.trial[i].confirms &&
                tune->journal.trial[i].configuration == tuned->finalist[k].configuration)
                add_round(&tuned->finalist[k], &tune->journal.trial[i]);
}

static void choose(struct cli_tuned *tuned)
{
    double best = INFINITY;
    for (size_t k = 0; k < tuned->count; k++) {
        struct cli_finalist *finalist = &tuned->finalist[k];
        double sorted[CLI_TUNE_ROUNDS];
        memcpy(sorted, finalist->value, sizeof sorted);
        finalist->median = NAN;
        if (finalist->rounds)
            finalist->median = an_quantile_of(sorted, finalist->rounds, 0.5);
        if (!finalist->failed && finalist->median < best) {
            best = finalist->median;
            tuned->winner = k;
        }
    }
    const struct cli_finalist *now = &tuned->finalist[0], *winner = &tuned->finalist[tuned->winner];
    if (tuned->winner)
        tuned->gate = an_gate_decide(&(struct an_gate_input){
            winner->value, now->value, winner->rounds, now->rounds, 0, NAN, NAN});
}

int cli_tune_confirm(struct cli_tune *tune, struct cli_tuned *tuned)
{
    *tuned = (struct cli_tuned){0};
    int code = pick_finalists(tune, tuned);
    if (code)
        return code;
    take_rounds(tune, tuned);
    for (size_t round = 0; !code && !tune->stopped && round < (size_t)tune->rounds; round++) {
        for (size_t i = 0; !code && !tune->stopped && i < tuned->count; i++) {
            struct cli_finalist *finalist = &tuned->finalist[(i + round) % tuned->count];
            struct cli_trial trial;
            char place[64];
            if (finalist->rounds + finalist->failed > round || tuned->count < 2)
                continue;
            snprintf(place, sizeof place, "again, round %zu of %lld:", round + 1,
                     (long long)tune->rounds);
            code = make_trial(tune, finalist->configuration, true, place, &trial);
            if (!code && !tune->stopped)
                add_round(finalist, &trial);
        }
    }
    choose(tuned);
    return code;
}
