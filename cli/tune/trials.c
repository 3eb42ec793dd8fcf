/* SPDX-License-Identifier: Apache-2.0
 *
 * The trials of `tacho tune`.
 */
#include "cli/tune/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzers/base/stats.h"
#include "cli/base/message.h"
#include "cli/base/rerun.h"
#include "cli/base/run_file.h"
#include "cli/tune/advice.h"
#include "cli/tune/watch.h"
#include "profiler/collector/os/clock.h"
#include "reports/words/number.h"

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

/* ---- objectives ------------------------------------------------------------------------------- */

static double per_unit(struct an_value rate)
{
    return rate.valid && rate.value > 0 ? 1e3 / rate.value : NAN;
}

static double value_or_nan(struct an_value value)
{
    return value.valid ? value.value : NAN;
}

static double read_samples(const struct an_result *result)
{
    return per_unit(result->steps.samples_per_s);
}

static double read_tokens(const struct an_result *result)
{
    return per_unit(result->steps.tokens_per_s);
}

static double read_step(const struct an_result *result)
{
    return value_or_nan(result->steps.median_ms);
}

static double read_memory(const struct an_result *result)
{
    return value_or_nan(result->system.rss_peak_bytes);
}

static double read_energy(const struct an_result *result)
{
    return value_or_nan(result->energy.per_step_j);
}

static const struct objective {
    const char *name, *unit;
    double (*read)(const struct an_result *result);
    char watched; /* what a step of a running trial is divided by; 'x': it cannot be watched */
} objectives[] = {
    {"samples", "ms a sample", read_samples, 's'},
    {"tokens", "ms a token", read_tokens, 't'},
    {"step", "ms a step", read_step, 0},
    {"memory", "bytes at the peak", read_memory, 'x'},
    {"energy", "J a step", read_energy, 'x'},
};
#define BY_DEFAULT 3 /* the first ones: the first of them that a run has */
#define OBJECTIVES (sizeof objectives / sizeof *objectives)

/* NULL: none is chosen yet. */
static const struct objective *objective_now(const struct cli_tune *tune)
{
    for (size_t i = 0; tune->objective && i < OBJECTIVES; i++)
        if (!strcmp(objectives[i].name, tune->objective))
            return &objectives[i];
    return NULL;
}

const char *cli_tune_unit(const struct cli_tune *tune)
{
    const struct objective *objective = objective_now(tune);
    return objective ? objective->unit : "ms a step";
}

/* The objective of a run; NAN: the run does not have it. Without a name it takes the first one that
 * the run has, for all trials to come. */
static double objective_of(struct cli_tune *tune, const struct an_result *result)
{
    const struct objective *objective = objective_now(tune);
    if (objective)
        return objective->read(result);
    for (size_t i = 0; i < BY_DEFAULT; i++) {
        double value = objectives[i].read(result);
        if (isnan(value))
            continue;
        tune->objective = objectives[i].name;
        return value;
    }
    return NAN;
}

/* ---- one trial -------------------------------------------------------------------------------- */

#define NOT_RECORDED 125  /* of tacho run, as of env(1): the command was not started */
#define ERROR        0.05 /* of a search: that early ends cost it the best setting */

/* The smallest value of the trials that ran to their end. */
static double leader_of(const struct cli_tune *tune)
{
    double best = NAN;
    for (size_t i = 0; i < tune->journal.count; i++)
        if (!tune->journal.trial[i].ended)
            best = fmin(best, tune->journal.trial[i].value); /* of a number and NAN the number */
    return best;
}

/* A trial that needs more memory than the limit less the margin has failed: it works here, and will
 * not when a batch is longer or another program runs. */
static void judge_memory(struct cli_tune *tune, const struct an_result *result,
                         struct cli_trial *trial)
{
    const struct an_count *group = &result->pressure.limit_bytes;
    trial->memory = read_memory(result);
    if (!tune->memory_limit && group->valid)
        tune->memory_limit = group->value;
    double allowed = (double)tune->memory_limit * (1 - tune->margin_pct / 100);
    if (!tune->memory_limit || !(trial->memory > allowed))
        return;
    trial->value = NAN;
    snprintf(trial->reason, sizeof trial->reason,
             "its peak of %s leaves less than %.3g %% of the limit, %s", BYTES_TEXT(trial->memory),
             tune->margin_pct, BYTES_TEXT((double)tune->memory_limit));
}

/* Why a program that ended with such a code failed. */
static void explain(int code, struct cli_trial *trial)
{
    if (code == 137)
        snprintf(trial->reason, sizeof trial->reason, "killed: most likely out of memory");
    else
        snprintf(trial->reason, sizeof trial->reason, "exit code %d", code);
}

static double seconds_now(void)
{
    return (double)col_clock_now() / 1e9;
}

#define FINER 3 /* times: the turns at the end are to be known better than the search */

/* Begins to watch a trial; NULL: it runs to its end. */
static struct cli_rerun_watch *watch_trial(const struct cli_tune *tune,
                                           const struct cli_trial *trial, const char *file,
                                           struct cli_watch *watch, struct cli_rerun_watch *looks)
{
    const struct objective *objective = objective_now(tune);
    double precision = trial->pairs ? 0 : tune->coarse_pct / 100;
    *watch = (struct cli_watch){.file = file,
                                .leader = tune->whole || trial->confirms ? NAN : leader_of(tune),
                                .precision = trial->confirms ? precision / FINER : precision};
    *looks = (struct cli_rerun_watch){.enough = cli_watch_is_enough, .ctx = watch};
    bool idle = isnan(watch->leader) && !(precision > 0);
    if (idle || !objective || objective->watched == 'x')
        return NULL;
    watch->unit = objective->watched;
    watch->error = ERROR / (double)tune->trials;
    return looks;
}

/* What a program that has come to its end gave. */
static void read_outcome(struct cli_tune *tune, int code, const struct an_result *result,
                         struct cli_trial *trial)
{
    trial->value = result ? objective_of(tune, result) : NAN;
    if (code)
        explain(code, trial);
    else if (isnan(trial->value))
        snprintf(trial->reason, sizeof trial->reason, "no %s in the recording",
                 tune->objective ? tune->objective : "steps");
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
    struct cli_watch watch;
    struct cli_rerun_watch looks;
    double begun = seconds_now();
    int code =
        cli_rerun_measure(words, NULL, file, log, watch_trial(tune, trial, file, &watch, &looks),
                          &tune->stopped, &result);
    trial->seconds = seconds_now() - begun;
    trial->memory = NAN;
    bool ended = looks.ended && !tune->stopped; /* whatever the program made of the signal */
    trial->known = ended && watch.known;
    trial->ended = ended && !watch.known;
    if (ended)
        trial->value = cli_watch_mean(&watch);
    else
        read_outcome(tune, code, result, trial);
    if (result)
        judge_memory(tune, result, trial);
    if (!tune->journal.count && result)
        cli_tune_advice(&tune->command, words, result, trial);
    cli_watch_clear(&watch);
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
    else if (trial->ended)
        cli_say("%s %s: ended early, slower than the best: %.4g %s", place, settings, trial->value,
                cli_tune_unit(tune));
    else
        cli_say("%s %s: %.4g %s%s", place, settings, trial->value, cli_tune_unit(tune),
                trial->known ? " (known well enough)" : "");
}

int cli_tune_trial(struct cli_tune *tune, const char *place, struct cli_trial *trial)
{
    int code = run_trial(tune, trial);
    if (code || tune->stopped)
        return code;
    if (tune->objective)
        snprintf(trial->objective, sizeof trial->objective, "%s", tune->objective);
    say_trial(tune, trial, place);
    return cli_journal_add(&tune->journal, trial);
}

/* ---- budgets ---------------------------------------------------------------------------------- */

static double seconds_spent(const struct cli_tune *tune)
{
    double spent = 0;
    for (size_t i = 0; i < tune->journal.count; i++)
        spent += tune->journal.trial[i].seconds;
    return spent;
}

/* Seconds that so many more runs will take, if they are as those that were made. */
static double seconds_of(const struct cli_tune *tune, size_t runs)
{
    double count = (double)tune->journal.count;
    return count > 0 ? seconds_spent(tune) / count * (double)runs : 0;
}

bool cli_tune_is_spent(const struct cli_tune *tune, size_t runs)
{
    double seconds = seconds_spent(tune) + seconds_of(tune, runs);
    return tune->money > 0 && seconds / 3600 * tune->price > tune->money;
}

/* ---- the search ------------------------------------------------------------------------------- */

/* Tells the search what an earlier call has measured; how many trials that were. */
static size_t tell_earlier(struct cli_tune *tune)
{
    size_t count = 0;
    for (size_t i = 0; i < tune->journal.count; i++) {
        const struct cli_trial *trial = &tune->journal.trial[i];
        if (!tune->objective && *trial->objective)
            tune->objective = trial->objective;
        if (trial->confirms || trial->configuration >= tune->command.space.count)
            continue;
        tuner_search_tell(tune->search, trial->configuration, trial->value);
        count++;
    }
    return count;
}

static bool was_tried(const struct cli_tune *tune, size_t configuration)
{
    for (size_t i = 0; i < tune->journal.count; i++)
        if (tune->journal.trial[i].configuration == configuration)
            return true;
    return false;
}

/* What is set now, then what the report of its run advises, then what the search asks for. */
static size_t next_configuration(struct cli_tune *tune)
{
    if (!tune->journal.count)
        return tune->command.start;
    const struct cli_trial *first = &tune->journal.trial[0];
    for (size_t i = 0; i < first->advised_count; i++)
        if (first->advised[i] < tune->command.space.count && !was_tried(tune, first->advised[i]))
            return first->advised[i];
    return tuner_search_ask(tune->search);
}

/* Runs that the end of a search may need. */
static size_t final_runs(const struct cli_tune *tune, size_t candidates)
{
    size_t finalists = candidates < CLI_TUNE_FINALISTS ? candidates : CLI_TUNE_FINALISTS;
    return finalists * CLI_TUNE_TURNS + 2 * (size_t)tune->rounds;
}

/* "7 of 30, about 12 min left:" */
static void write_place(const struct cli_tune *tune, size_t made, char place[64])
{
    size_t left = (size_t)tune->trials - made;
    double minutes = seconds_of(tune, left + final_runs(tune, (size_t)tune->trials)) / 60;
    int length = snprintf(place, 64, "%zu of %lld", made + 1, (long long)tune->trials);
    if (made)
        length += snprintf(place + length, 64 - (size_t)length, ", at most about %s min left",
                           DIGITS_TEXT(minutes, 2));
    snprintf(place + length, 64 - (size_t)length, ":");
}

int cli_tune_search(struct cli_tune *tune)
{
    size_t made = tell_earlier(tune);
    double begun = seconds_now();
    int code = 0;
    if (made)
        cli_say("%zu trials of an earlier call are kept", made);
    while (!code && !tune->stopped && made < (size_t)tune->trials) {
        char place[64];
        struct cli_trial trial = {.configuration = next_configuration(tune)};
        bool late = tune->minutes > 0 && seconds_now() - begun > 60 * tune->minutes;
        if (trial.configuration == SIZE_MAX || late ||
            cli_tune_is_spent(tune, 1 + final_runs(tune, made + 1)))
            break;
        write_place(tune, made, place);
        code = cli_tune_trial(tune, place, &trial);
        if (!code && !tune->stopped)
            tuner_search_tell(tune->search, trial.configuration, trial.value);
        bool large = trial.memory > 0; /* it ran, but it needs too much memory */
        if (!code && !tune->stopped && !made && isnan(trial.value) && !large)
            code = cli_error(TACHO_EFORMAT, "its output is in the folder's file 'log'",
                             "the command fails with its current setting: %s", trial.reason);
        made++;
    }
    return code;
}
