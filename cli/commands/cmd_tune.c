/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho tune: the best setting of a command, found by running it; or a search replayed on a space
 * that was measured once.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/base/message.h"
#include "cli/base/rerun.h"
#include "cli/commands/commands.h"
#include "cli/tune/cache.h"
#include "cli/tune/finals.h"
#include "cli/view/view.h"
#include "tuner/replay.h"

struct values {
    const char *objective, *output, *replay, *cache;
    int64_t trials, rounds, seed, evaluations, memory_limit;
    double minutes, money, price, margin, coarse;
    struct cli_view view;
    bool json, allow, dry_run, whole;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW(
        "objective", 0, CLI_CHOICE, objective, "samples|tokens|step|memory|energy",
        "what to minimise: time per sample, token or step (the first that a run has), peak "
        "memory, or energy per step"),
    CLI_NUMBER_ROW("trials", 'n', CLI_INT, trials, "N", "runs of the search (30)", 1, 1000),
    CLI_NUMBER_ROW("minutes", 0, CLI_NUMBER, minutes, "N", "begin no trial after N minutes", 0.01,
                   1e6),
    CLI_NUMBER_ROW("money", 0, CLI_NUMBER, money, "N",
                   "begin no run that would raise the total cost above N", 1e-6, 1e9),
    CLI_NUMBER_ROW("price", 0, CLI_NUMBER, price, "N", "price of an hour, for --money", 1e-6, 1e9),
    CLI_NUMBER_ROW("memory-limit", 0, CLI_SIZE, memory_limit, "SIZE",
                   "memory that a run may use (the limit of its control group)", 1, 1e18),
    CLI_NUMBER_ROW("memory-margin", 0, CLI_NUMBER, margin, "PERCENT",
                   "share of that limit that a run must leave free (10)", 0, 90),
    CLI_NUMBER_ROW("rounds", 0, CLI_INT, rounds, "N",
                   "pairs of runs of the winner and of the current setting, at the end (5)", 4,
                   CLI_TUNE_ROUNDS),
    CLI_FLAG_ROW("whole-trials", 0, whole,
                 "let a trial run to its end although it is slower than the best"),
    CLI_NUMBER_ROW(
        "coarse", 0, CLI_NUMBER, coarse, "PERCENT",
        "end a trial once its mean step is known to this precision; the runs at the end to a "
        "third of it, the pairs run whole",
        0.1, 50),
    CLI_TEXT_ROW("output", 'o', CLI_TEXT, output, "FOLDER",
                 "the folder of the search (tune); the same command continues in it"),
    CLI_FLAG_ROW("allow-different-training", 0, allow,
                 "also parameters that change what is trained: batch, precision, optimizer"),
    CLI_TEXT_ROW("cache", 0, CLI_TEXT, cache, "FILE",
                 "also write the trials as a space for --replay (Kernel Tuner's T4 format)"),
    CLI_FLAG_ROW("dry-run", 0, dry_run,
                 "only print the parameters and the command with the current setting"),
    CLI_TEXT_ROW("replay", 0, CLI_TEXT, replay, "CACHE",
                 "search a space that was measured once (Kernel Tuner's T4 format)"),
    CLI_NUMBER_ROW("evaluations", 0, CLI_INT, evaluations, "N", "evaluations of --replay (100)", 1,
                   1000),
    CLI_NUMBER_ROW("seed", 0, CLI_INT, seed, "N", "seed of the search (1)", 0, 1e15),
    CLI_FLAG_ROW("json", 'j', json, "print JSON (tacho-tune/1)"),
    CLI_FIELDS_ROW,
    {0},
};

const struct cli_spec cli_tune_spec = {
    .help = "find the best setting of a command by running it",
    .usage = "[OPTION]... -- COMMAND WITH {PARAMETERS} | --replay CACHE [OPTION]...",
    .about =
        "COMMAND has {NAME:VALUES} where a value goes (quoted, because shells expand braces): "
        "{workers:1..8},\n"
        "{batch:1..64:log2}, {mode:fast,safe}; '=2' at the end gives the current value. Each trial "
        "is a run under 'tacho run'.\n"
        "The first ones are the current setting and what its report advises; failed trials narrow "
        "the search; those slower than the\n"
        "best are ended early. At the end the best are run again in turn, and the winner in pairs "
        "with the current setting: the answer\n"
        "may be that nothing is better. Trials are kept in a folder: the same command continues "
        "after a kill.",
    .options = options,
    .examples =
        "  tacho tune -- train gpt2-tiny --steps 50 --workers '{workers:0..4=1}' --prefetch "
        "'{prefetch:1..8:log2=4}'\n"
        "  tacho tune --minutes 30 -o search -- python3 train.py --num-workers '{workers:0..8}'\n"
        "  tacho tune --replay A100_T4.json.gz --evaluations 100 --seed 1 --json",
    .stop_at_first = true,
    .least = 0,
    .most = -1,
};

/* ---- a replay --------------------------------------------------------------------------------- */

static json_t *settings_json(const struct tuner_space *space, size_t configuration)
{
    json_t *object = json_object();
    for (size_t at = 0; at < space->dimensions; at++)
        json_object_set_new(object, space->dimension[at].name,
                            json_string(tuner_level(space, configuration, at)));
    return object;
}

/* What a replay found. */
struct replayed {
    size_t best; /* SIZE_MAX: nothing worked */
    int64_t evaluations, failed;
    json_t *trace; /* the best value after each evaluation */
};

static void replay(struct tuner_search *search, const struct tuner_replay *space, int64_t most,
                   struct replayed *out)
{
    *out = (struct replayed){.best = SIZE_MAX, .trace = json_array()};
    while (out->evaluations < most) {
        size_t next = tuner_search_ask(search);
        if (next == SIZE_MAX)
            return;
        double value = space->value[next];
        tuner_search_tell(search, next, value);
        out->evaluations++;
        out->failed += isnan(value);
        if (!isnan(value) && (out->best == SIZE_MAX || value < space->value[out->best]))
            out->best = next;
        json_array_append_new(
            out->trace, out->best == SIZE_MAX ? json_null() : json_real(space->value[out->best]));
    }
}

static json_t *replay_json(const struct tuner_replay *space, struct replayed *found)
{
    json_t *object = json_object();
    bool any = found->best != SIZE_MAX;
    double value = any ? space->value[found->best] : NAN;
    json_object_set_new(object, "schema", json_string("tacho-tune/1"));
    json_object_set_new(object, "objective", json_string(space->objective));
    json_object_set_new(object, "configurations", json_integer((json_int_t)space->space.count));
    json_object_set_new(object, "evaluations", json_integer(found->evaluations));
    json_object_set_new(object, "failed", json_integer(found->failed));
    json_object_set_new(object, "best", any ? json_real(value) : json_null());
    json_object_set_new(object, "settings",
                        any ? settings_json(&space->space, found->best) : json_null());
    json_object_set_new(object, "optimum", json_real(space->best));
    json_object_set_new(object, "ratio_to_optimum",
                        any ? json_real(value / space->best) : json_null());
    json_object_set(object, "trace", found->trace);
    return object;
}

static int tune_replay(const struct values *values)
{
    struct tuner_replay space;
    struct tacho_error err = {0};
    struct replayed found;
    if (tuner_replay_read(values->replay, &space, &err))
        return cli_fail(&err);
    struct tuner_search *search = tuner_search_new(&space.space, (uint64_t)values->seed);
    int code = 0;
    if (!search) {
        code = cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    } else {
        replay(search, &space, values->evaluations, &found);
        char settings[400] = "nothing worked";
        if (found.best != SIZE_MAX)
            cli_tune_settings(&space.space, found.best, settings);
        if (values->json)
            code = cli_view_print("tune", &values->view, replay_json(&space, &found));
        else if (found.best == SIZE_MAX)
            puts(settings);
        else
            printf("%s: %.6g after %" PRId64 " of %zu configurations (%" PRId64
                   " failed); the best of all is %.6g, %.3f times less\n%s\n",
                   space.objective, space.value[found.best], found.evaluations, space.space.count,
                   found.failed, space.best, space.value[found.best] / space.best, settings);
        json_decref(found.trace);
    }
    tuner_search_free(search);
    tuner_replay_clear(&space);
    return code;
}

/* ---- a search --------------------------------------------------------------------------------- */

/* What two calls must have in common to be one search. */
static char *search_name(const struct values *values, char **words)
{
    json_t *list = json_array();
    for (; *words; words++)
        json_array_append_new(list, json_string(*words));
    json_array_append_new(list, json_string(values->objective ? values->objective : ""));
    json_array_append_new(list, json_integer(values->seed));
    if (values->memory_limit) {
        json_array_append_new(list, json_integer(values->memory_limit));
        json_array_append_new(list, json_real(values->margin));
    }
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

/* The command of a configuration as one types it. The caller's; NULL: no memory. */
static char *command_text(const struct cli_template *command, size_t configuration)
{
    char *text = NULL;
    size_t size;
    char **words = cli_template_words(command, configuration);
    FILE *out = words ? open_memstream(&text, &size) : NULL;
    for (char **word = words; out && *word; word++) {
        fputs(word == words ? "" : " ", out);
        cli_rerun_put_word(out, *word);
    }
    cli_template_free(words);
    if (out && !fclose(out))
        return text;
    return NULL;
}

/* The median that a row shows: of its pairs, if it has some, else of its turns. */
static double median_of(const struct cli_finalist *finalist)
{
    return finalist->pairs.count ? finalist->pairs.median : finalist->turns.median;
}

static json_t *number_json(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static void print_finalists(const struct cli_tune *tune, const struct cli_tuned *tuned)
{
    for (size_t k = 0; k < tuned->count; k++) {
        const struct cli_finalist *finalist = &tuned->finalist[k];
        char settings[400];
        cli_tune_settings(&tune->command.space, finalist->configuration, settings);
        printf("  %-40s %10.4g %s  %+6.1f %%  %zu runs%s%s\n", settings, median_of(finalist),
               cli_tune_unit(tune), cli_tune_gain(tuned, k),
               finalist->turns.count + finalist->pairs.count, k ? "" : "  (set now)",
               finalist->failed ? "  FAILED once" : "");
    }
}

static void print_shares(struct cli_tune *tune)
{
    double share[TUNER_DIMENSIONS];
    tuner_search_shares(tune->search, share);
    fputs("what matters (main effects, share of the predicted variance):", stdout);
    for (size_t at = 0; at < tune->command.space.dimensions; at++)
        printf(" %s %.0f %%", tune->command.space.dimension[at].name, 100 * share[at]);
    putchar('\n');
}

#define PICTURE_LEVELS 24 /* of a parameter that is drawn, at most */
#define PICTURE_WIDTH  40 /* columns of the longest bar */

/* One parameter of a configuration drawn as bars: what is predicted for each of its values. */
static void print_response(struct cli_tune *tune, size_t configuration, size_t at)
{
    const struct tuner_dimension *row = &tune->command.space.dimension[at];
    double value[TUNER_LEVELS], most = 0;
    if (row->levels < 2 || row->levels > PICTURE_LEVELS)
        return;
    tuner_search_response(tune->search, configuration, at, value);
    for (size_t i = 0; i < row->levels; i++)
        most = fmax(most, value[i]);
    for (size_t i = 0; most > 0 && i < row->levels; i++) {
        int bar = isnan(value[i]) ? 0 : (int)lround(PICTURE_WIDTH * value[i] / most);
        printf("  %-12.12s %10s %9.4g %.*s\n", i ? "" : row->name, row->level[i], value[i], bar,
               "########################################");
    }
}

static void print_responses(struct cli_tune *tune, size_t configuration)
{
    double value[TUNER_LEVELS];
    tuner_search_response(tune->search, configuration, 0, value);
    if (isnan(value[tune->command.space.choice[configuration * tune->command.space.dimensions]]))
        return; /* too few trials worked */
    printf("predicted %s, if one parameter alone is changed:\n", cli_tune_unit(tune));
    for (size_t at = 0; at < tune->command.space.dimensions; at++)
        print_response(tune, configuration, at);
}

/* What the winner has other than what is set now: "  workers: 1 -> 4". */
static void print_changes(const struct tuner_space *space, size_t start, size_t winner)
{
    for (size_t at = 0; at < space->dimensions; at++) {
        const char *was = tuner_level(space, start, at), *is = tuner_level(space, winner, at);
        if (strcmp(was, is) != 0)
            printf("  %s: %s -> %s\n", space->dimension[at].name, was, is);
    }
}

static void print_text(struct cli_tune *tune, const struct cli_tuned *tuned)
{
    char *command = command_text(&tune->command, tuned->finalist[tuned->winner].configuration);
    print_finalists(tune, tuned);
    if (tuned->finalist[0].failed && tuned->winner)
        printf("the current setting fails; this one does not\n  %s\n", command ? command : "");
    else if (cli_tune_is_better(tuned))
        printf("better: %+.1f %%, p %.2g that it is not\n  %s\n",
               cli_tune_gain(tuned, tuned->winner), tuned->gate.p, command ? command : "");
    else if (tuned->winner && isnan(tuned->gate.p))
        puts("not decided: the budget was spent before the runs that would decide");
    else if (tuned->winner)
        printf("nothing is shown to be better than the current setting: %+.1f %%, p %.2g; more "
               "--rounds tell more\n",
               cli_tune_gain(tuned, tuned->winner), tuned->gate.p);
    else
        puts("nothing is better than the current setting");
    size_t winner = tuned->finalist[tuned->winner].configuration;
    print_changes(&tune->command.space, tune->command.start, winner);
    print_shares(tune);
    print_responses(tune, winner);
    free(command);
}

/* Of each parameter, what is predicted for each of its values while the others stay. */
static json_t *response_json(struct cli_tune *tune, size_t configuration)
{
    json_t *object = json_object();
    double value[TUNER_LEVELS];
    for (size_t at = 0; at < tune->command.space.dimensions; at++) {
        const struct tuner_dimension *row = &tune->command.space.dimension[at];
        json_t *levels = json_object();
        tuner_search_response(tune->search, configuration, at, value);
        for (size_t i = 0; i < row->levels; i++)
            json_object_set_new(levels, row->level[i], number_json(value[i]));
        json_object_set_new(object, row->name, levels);
    }
    return object;
}

static json_t *tuned_json(struct cli_tune *tune, const struct cli_tuned *tuned)
{
    const struct tuner_space *space = &tune->command.space;
    json_t *object = json_object(), *rows = json_array(), *shares = json_object();
    size_t failed = 0, made = 0, ended = 0, known = 0;
    double share[TUNER_DIMENSIONS];
    for (size_t i = 0; i < tune->journal.count; i++) {
        made += !tune->journal.trial[i].confirms;
        failed += !tune->journal.trial[i].confirms && isnan(tune->journal.trial[i].value);
        ended += tune->journal.trial[i].ended;
        known += tune->journal.trial[i].known;
    }
    for (size_t k = 0; k < tuned->count; k++) {
        const struct cli_finalist *finalist = &tuned->finalist[k];
        size_t runs = finalist->turns.count + finalist->pairs.count;
        json_t *row = json_object();
        json_object_set_new(row, "settings", settings_json(space, finalist->configuration));
        json_object_set_new(row, "median", number_json(median_of(finalist)));
        json_object_set_new(row, "gain_pct", number_json(cli_tune_gain(tuned, k)));
        json_object_set_new(row, "runs", json_integer((json_int_t)runs));
        json_object_set_new(row, "failed", json_boolean(finalist->failed));
        json_array_append_new(rows, row);
    }
    tuner_search_shares(tune->search, share);
    for (size_t at = 0; at < space->dimensions; at++)
        json_object_set_new(shares, space->dimension[at].name, json_real(share[at]));
    char *command = command_text(&tune->command, tuned->finalist[tuned->winner].configuration);
    json_object_set_new(object, "schema", json_string("tacho-tune/1"));
    json_object_set_new(object, "objective", json_string(cli_tune_unit(tune)));
    json_object_set_new(object, "configurations", json_integer((json_int_t)space->count));
    json_object_set_new(object, "evaluations", json_integer((json_int_t)made));
    json_object_set_new(object, "failed", json_integer((json_int_t)failed));
    json_object_set_new(object, "ended_early", json_integer((json_int_t)ended));
    json_object_set_new(object, "known_early", json_integer((json_int_t)known));
    json_object_set_new(object, "better", json_boolean(cli_tune_is_better(tuned)));
    json_object_set_new(object, "p", tuned->winner ? number_json(tuned->gate.p) : json_null());
    json_object_set_new(object, "settings",
                        settings_json(space, tuned->finalist[tuned->winner].configuration));
    json_object_set_new(object, "command", command ? json_string(command) : json_null());
    json_object_set_new(object, "finalists", rows);
    json_object_set_new(object, "importance", shares);
    json_object_set_new(object, "response",
                        response_json(tune, tuned->finalist[tuned->winner].configuration));
    free(command);
    return object;
}

static int refuse(const struct values *values, const struct cli_template *command)
{
    const char *changes = cli_template_changes(command);
    if (!changes || values->allow)
        return 0;
    return cli_error(TACHO_ENOTSUP,
                     "--allow-different-training tunes it all the same: only speed is compared",
                     "'%s' changes what is trained: a faster step is not a better one", changes);
}

/* The document of a search that has not begun: what it would search, and what is set now. */
static json_t *dry_json(const struct cli_tune *tune, const char *command)
{
    const struct tuner_space *space = &tune->command.space;
    json_t *object = json_object(), *parameters = json_object();
    for (size_t at = 0; at < space->dimensions; at++) {
        const struct tuner_dimension *row = &space->dimension[at];
        json_t *levels = json_array();
        for (size_t i = 0; i < row->levels; i++)
            json_array_append_new(levels, json_string(row->level[i]));
        json_object_set_new(parameters, row->name, levels);
    }
    json_object_set_new(object, "schema", json_string("tacho-tune/1"));
    json_object_set_new(object, "objective",
                        tune->objective ? json_string(cli_tune_unit(tune)) : json_null());
    json_object_set_new(object, "configurations", json_integer((json_int_t)space->count));
    json_object_set_new(object, "evaluations", json_integer(0));
    json_object_set_new(object, "failed", json_integer(0));
    json_object_set_new(object, "settings", settings_json(space, tune->command.start));
    json_object_set_new(object, "command", command ? json_string(command) : json_null());
    json_object_set_new(object, "parameters", parameters);
    return object;
}

static void dry_text(const struct cli_template *command, const char *text)
{
    for (size_t at = 0; at < command->space.dimensions; at++) {
        const struct tuner_dimension *row = &command->space.dimension[at];
        printf("%-16s %zu values, %s to %s\n", row->name, row->levels, row->level[0],
               row->level[row->levels - 1]);
    }
    printf("%zu combinations; set now:\n  %s\n", command->space.count, text ? text : "");
}

static int dry_run(const struct values *values, const struct cli_tune *tune)
{
    int code = 0;
    char *text = command_text(&tune->command, tune->command.start);
    if (values->json)
        code = cli_view_print("tune", &values->view, dry_json(tune, text));
    else
        dry_text(&tune->command, text);
    free(text);
    return code;
}

static int tune_command(const struct values *values, struct cli_tune *tune, char **words)
{
    struct cli_tuned tuned;
    char *name = search_name(values, words);
    int code = cli_journal_open(&tune->journal, tune->folder, name ? name : "");
    free(name);
    tune->search = tuner_search_new(&tune->command.space, (uint64_t)values->seed);
    if (!code && !tune->search)
        code = cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    if (code)
        return code;
    cli_rerun_begin();
    code = cli_tune_search(tune);
    if (!code && !tune->stopped)
        code = cli_tune_confirm(tune, &tuned);
    cli_rerun_end();
    if (tune->stopped) {
        cli_say("stopped; the same command continues");
        return 128 + tune->stopped;
    }
    if (!code && values->cache)
        code = cli_tune_write_cache(tune, values->cache);
    if (code)
        return code;
    if (values->json)
        return cli_view_print("tune", &values->view, tuned_json(tune, &tuned));
    print_text(tune, &tuned);
    return 0;
}

int cli_tune(int argc, char **argv)
{
    struct values values = {.trials = 30, .rounds = 5, .seed = 1, .evaluations = 100, .margin = 10};
    int first, code = cli_parse(&cli_tune_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = cli_view_check("tune", &values.view, values.json);
    if (code)
        return code;
    if (values.replay)
        return first < argc ? cli_usage("tune", NULL, "--replay starts no command")
                            : tune_replay(&values);
    if (first == argc)
        return cli_usage("tune",
                         "for example: tacho tune -- train gpt2-tiny --workers '{workers:1..4}'",
                         "give the command with its parameters, or --replay CACHE");
    if ((values.money > 0) != (values.price > 0))
        return cli_usage("tune", NULL, "--money and --price belong together");
    if (values.cache && (code = cli_tune_check_cache(values.cache)))
        return code;
    struct cli_tune tune = {.objective = values.objective,
                            .trials = values.trials,
                            .rounds = values.rounds,
                            .minutes = values.minutes,
                            .money = values.money,
                            .price = values.price,
                            .memory_limit = values.memory_limit,
                            .margin_pct = values.margin,
                            .whole = values.whole,
                            .coarse_pct = values.coarse};
    snprintf(tune.folder, sizeof tune.folder, "%s", values.output ? values.output : "tune");
    code = cli_template_read(argv + first, &tune.command);
    if (!code)
        code = refuse(&values, &tune.command);
    if (!code && values.dry_run)
        code = dry_run(&values, &tune);
    else if (!code)
        code = tune_command(&values, &tune, argv + first);
    tuner_search_free(tune.search);
    cli_journal_close(&tune.journal);
    cli_template_clear(&tune.command);
    return code;
}
