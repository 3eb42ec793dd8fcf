/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho history check, and tacho diff --baseline history: is the step of these runs longer than
 * that of the runs before them? The baseline is the last stable level of the history, not the last
 * run.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analyzers/base/words.h"
#include "analyzers/diff/gate.h"
#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/history/verbs.h"

#define RUNS_MOST 64

struct candidates {
    struct history_entry *entry[RUNS_MOST];
    double step_ms[RUNS_MOST];
    size_t count;
    int64_t begun_ns;      /* of the first */
    const char *statistic; /* of the steps of a run, that is compared */
};

/* NAN: the run does not have it. */
static double step_of(const struct history_entry *entry, const char *statistic)
{
    for (size_t i = 0; i < entry->value_count; i++)
        if (!strcmp(entry->values[i].kind, "step") && !strcmp(entry->values[i].name, statistic))
            return entry->values[i].value;
    return NAN;
}

/* The median of the steps, or the mean where another tool knew no median. 0, or an exit code after
 * a message. */
static int take_steps(struct candidates *candidates)
{
    static const char *const statistics[] = {"median", "mean"};
    size_t known = 0;
    for (size_t i = 0; i < 2 && known < candidates->count; i++) {
        candidates->statistic = statistics[i];
        known = 0;
        for (size_t k = 0; k < candidates->count; k++) {
            candidates->step_ms[k] = step_of(candidates->entry[k], statistics[i]);
            known += candidates->step_ms[k] > 0;
        }
    }
    return known == candidates->count
               ? 0
               : cli_error(TACHO_EFORMAT, "give runs whose steps are marked: docs/collection.md",
                           "check: a run has no time of its steps");
}

/* A run that the history has, or else a file that is analyzed now. */
static int take_candidate(struct history *history, const char *word, struct history_entry **entry)
{
    int64_t id;
    struct tacho_error err = {0};
    struct col_found found;
    struct an_result *result = NULL;
    if (!history_find(history, word, &id, NULL)) {
        int rc = history_get(history, id, entry, &err);
        return rc ? cli_fail(&err) : 0;
    }
    int code = cli_run_find(word, &found);
    if (!code)
        code = cli_run_analyze(&found, &(struct an_options){.samples = true}, &result);
    int rc = code ? 0 : history_entry_of(result, NULL, entry);
    if (rc)
        code = cli_error(rc, "give a run whose steps are marked: docs/collection.md",
                         "%s: it has no steps to compare", word);
    an_result_free(result);
    return code;
}

static int take_candidates(struct history *history, int count, char **words,
                           struct candidates *candidates)
{
    int code = 0;
    candidates->begun_ns = INT64_MAX;
    if (count > RUNS_MOST)
        return cli_usage("history", NULL, "check: at most %d runs", RUNS_MOST);
    for (int i = 0; !code && i < count; i++) {
        struct history_entry *entry = NULL;
        code = take_candidate(history, words[i], &entry);
        if (code)
            break;
        candidates->entry[candidates->count++] = entry;
        if (entry->begun_ns < candidates->begun_ns)
            candidates->begun_ns = entry->begun_ns;
        const struct history_entry *first = candidates->entry[0];
        if (strcmp(entry->recipe, first->recipe) != 0 || strcmp(entry->host, first->host) != 0)
            code = cli_error(TACHO_EFORMAT, "give runs of one command on one kind of host",
                             "%s: another recipe or host than %s", words[i], words[0]);
    }
    return code ? code : take_steps(candidates);
}

static const char *state_name(const struct an_gate *gate)
{
    static const char *const names[] = {"no limit", "passed", "failed", "undecided"};
    return names[gate->state];
}

static void print_check(const struct an_gate *gate, const struct history_trend *trend)
{
    char begun[32], outlook[AN_GATE_WORDS], level[AN_WORDS];
    cli_history_time(trend->point[trend->stable_from].begun_ns, begun);
    if (gate->state != AN_GATE_NONE)
        printf("%s: the step may be up to %.3g %% longer\n", state_name(gate), gate->limit_pct);
    printf("baseline: %s ms, %zu run%s since %s\n", an_number_print(level, trend->level, 4),
           gate->good_runs, tacho_plural((long long)gate->good_runs), begun);
    printf("change: %+.2f %% of %zu run%s", gate->change_pct, gate->bad_runs,
           tacho_plural((long long)gate->bad_runs));
    if (!isnan(gate->high_pct))
        printf(", at most %+.2f %% (95 %%), p %.2g that it is not slower", gate->high_pct, gate->p);
    putchar('\n');
    if (!isnan(gate->detectable_pct))
        printf("smallest change that so many runs show: %+.2f %%\n", gate->detectable_pct);
    if (gate->reason)
        printf("%s\n", gate->reason);
    if (*an_gate_outlook(gate, outlook))
        printf("%s\n", outlook);
}

static json_t *runs_needed(const struct an_gate *gate)
{
    return gate->runs_needed ? json_integer((json_int_t)gate->runs_needed) : json_null();
}

static json_t *check_json(const struct an_gate *gate, const struct history_trend *trend,
                          const struct candidates *candidates)
{
    json_t *object = json_object();
    json_object_set_new(object, "schema", json_string("tacho-history-check/1"));
    json_object_set_new(object, "state", json_string(state_name(gate)));
    json_object_set_new(object, "fail_above_pct", cli_view_number(gate->limit_pct));
    json_object_set_new(object, "recipe", json_string(candidates->entry[0]->recipe));
    json_object_set_new(object, "host", json_string(candidates->entry[0]->host));
    json_object_set_new(object, "baseline_runs", json_integer((json_int_t)gate->good_runs));
    json_object_set_new(object, "baseline_ms", cli_view_number(trend->level));
    json_object_set_new(object, "baseline_since_ns",
                        json_integer(trend->point[trend->stable_from].begun_ns));
    json_object_set_new(object, "candidate_runs", json_integer((json_int_t)gate->bad_runs));
    json_object_set_new(object, "change_pct", cli_view_number(gate->change_pct));
    json_object_set_new(object, "high_pct", cli_view_number(gate->high_pct));
    json_object_set_new(object, "p", cli_view_number(gate->p));
    json_object_set_new(object, "detectable_pct", cli_view_number(gate->detectable_pct));
    json_object_set_new(object, "runs_needed", runs_needed(gate));
    json_object_set_new(object, "reason", gate->reason ? json_string(gate->reason) : json_null());
    return object;
}

/* Compares with the last stable level before the candidates. */
static int decide(struct history *history, const struct cli_history_options *options,
                  const struct candidates *candidates)
{
    struct history_trend trend = {0};
    struct tacho_error err = {0};
    struct history_filter filter = {.recipe = candidates->entry[0]->recipe,
                                    .host = candidates->entry[0]->host,
                                    .before_ns = candidates->begun_ns,
                                    .kind = "step",
                                    .name = candidates->statistic};
    if (history_trend_read(history, &filter, &trend, &err)) {
        history_trend_clear(&trend);
        return err.code ? cli_error(err.code, err.hint, "%s", err.what)
                        : cli_error(TACHO_ENOMEM, NULL, "history: out of memory");
    }
    double *good = calloc(trend.count + 1, sizeof *good);
    int code = 0;
    if (!good)
        code = cli_error(TACHO_ENOMEM, NULL, "history: out of memory");
    else if (!trend.count)
        code = cli_error(TACHO_ENOTFOUND, "record the baseline first: tacho run -- COMMAND",
                         "the history has no earlier run of this command on such a host");
    size_t runs = 0;
    for (size_t i = trend.stable_from; good && i < trend.count; i++)
        good[runs++] = trend.point[i].value;
    if (!code) {
        struct an_gate gate = an_gate_decide(&(struct an_gate_input){
            good, candidates->step_ms, runs, candidates->count, options->limit_pct, NAN, NAN});
        if (options->json)
            code = cli_view_print("history", &options->view, check_json(&gate, &trend, candidates));
        else
            print_check(&gate, &trend);
        code = code ? code : cli_gate_exit(&gate);
    }
    free(good);
    history_trend_clear(&trend);
    return code;
}

int cli_history_check(struct history *history, const struct cli_history_options *options, int count,
                      char **words)
{
    struct candidates candidates = {.count = 0};
    int code = take_candidates(history, count, words, &candidates);
    if (!code)
        code = decide(history, options, &candidates);
    for (size_t i = 0; i < candidates.count; i++)
        history_entry_free(candidates.entry[i]);
    return code;
}
