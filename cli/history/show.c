/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho history show and compare: what is kept of one run, and in what two runs differ, their
 * environment first.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analyzers/base/words.h"
#include "cli/base/message.h"
#include "cli/history/verbs.h"

#define NAMES_SHOWN 12 /* of each kind */

static void print_text(const char *title, const char *text)
{
    char *safe = text ? cli_printable(text) : NULL;
    if (text)
        printf("%-12s %s\n", title, safe ? safe : "");
    free(safe);
}

/* ---- show ------------------------------------------------------------------------------------- */

static void print_guess(struct history *history, const struct history_entry *entry)
{
    struct history_guess guess;
    char step[AN_WORDS];
    if (history_guess(history, entry->id, &guess, NULL))
        return;
    double median = guess.by_process ? guess.process_pct : guess.nearest_pct;
    printf("%-12s run %" PRId64 ", of another recipe\n", "most similar", guess.from);
    printf("%-12s %s ms ", "guess", an_number_print(step, guess.step_ms, 4));
    if (guess.by_process)
        printf("by a model of %zu recipes", guess.recipes);
    else
        fputs("by the most similar run, scaled by FLOPs", stdout);
    printf("; guesses of excluded recipes miss by %.3g %% in the median, by %.3g %% in one "
           "of ten\n",
           median, guess.p90_pct);
}

/* The kinds of values in the order in which they are printed; others follow by name. */
static int kind_order(const char *kind)
{
    static const char *const kinds[] = {"step",   "rate", "class",  "phase", "operator",
                                        "kernel", "rank", "loader", "memory"};
    int count = (int)(sizeof kinds / sizeof *kinds), at = 0;
    while (at < count && strcmp(kind, kinds[at]) != 0)
        at++;
    return at;
}

static int compare_kinds(const char *first, const char *second)
{
    int order = kind_order(first) - kind_order(second);
    return order ? order : strcmp(first, second);
}

static int by_value(const void *left, const void *right)
{
    const struct history_value *first = left, *second = right;
    int kind = compare_kinds(first->kind, second->kind);
    return kind ? kind : (first->value < second->value) - (first->value > second->value);
}

static void print_values(const struct history_entry *entry)
{
    const char *kind = "";
    size_t shown = 0, bytes = (entry->value_count + 1) * sizeof *entry->values;
    struct history_value *sorted = malloc(bytes);
    if (!sorted || !entry->value_count) {
        free(sorted);
        return;
    }
    memcpy(sorted, entry->values, bytes - sizeof *sorted);
    qsort(sorted, entry->value_count, sizeof *sorted, by_value);
    for (size_t i = 0; i < entry->value_count; i++) {
        const struct history_value *value = &sorted[i];
        char text[40];
        if (strcmp(kind, value->kind) != 0) {
            kind = value->kind;
            shown = 0;
            printf("%s\n", kind);
        }
        cli_history_number(value->value, value->unit, text);
        if (shown++ < NAMES_SHOWN)
            printf("  %-48s %14s\n", value->name, text);
        else if (shown == NAMES_SHOWN + 1)
            puts("  ... (--json has all)");
    }
    free(sorted);
}

int cli_history_show(struct history *history, const struct cli_history_options *options, int count,
                     char **words)
{
    struct history_entry *entry = NULL;
    struct tacho_error err = {0};
    char begun[32], line[64];
    int code = cli_history_entry_named(history, count ? words[0] : "latest", &entry);
    if (code)
        return code;
    if (options->json) {
        struct history_filter filter = {.only = entry->id};
        if (history_export(history, &filter, HISTORY_JSON, stdout, &err))
            code = err.code ? cli_fail(&err) : 0; /* main says that stdout failed */
        history_entry_free(entry);
        return code;
    }
    cli_history_time(entry->begun_ns, begun);
    snprintf(line, sizeof line, "%" PRId64 ", key %s", entry->id, entry->key);
    print_text("run", line);
    print_text("begun", begun);
    print_text("command", entry->recipe_text);
    print_text("recipe", entry->recipe);
    print_text("host", entry->host_text);
    print_text("host hash", entry->host);
    print_text("commit", entry->commit ? entry->commit : "not known");
    print_text("file", entry->file);
    print_text("verdict", entry->verdict);
    print_guess(history, entry);
    print_values(entry);
    history_entry_free(entry);
    return 0;
}

/* ---- compare ---------------------------------------------------------------------------------- */

static const struct history_value *value_in(const struct history_entry *entry,
                                            const struct history_value *like)
{
    for (size_t i = 0; i < entry->value_count; i++)
        if (!strcmp(entry->values[i].kind, like->kind) &&
            !strcmp(entry->values[i].name, like->name) &&
            !strcmp(entry->values[i].unit, like->unit))
            return &entry->values[i];
    return NULL;
}

/* A list of {what, before, after} of the keys whose texts differ. */
static json_t *environment_differences(const struct history_entry *const run[2])
{
    json_t *list = json_array(), *object[2], *ignored;
    const char *key;
    for (int i = 0; i < 2; i++)
        object[i] = run[i]->environment ? json_loads(run[i]->environment, 0, NULL) : NULL;
    for (int i = 0; i < 2; i++) {
        json_object_foreach(object[i], key, ignored)
        {
            json_t *before = json_object_get(object[0], key),
                   *after = json_object_get(object[1], key);
            bool seen = i && before;
            if (!seen && !json_equal(before, after))
                json_array_append_new(list, json_pack("{s:s, s:O?, s:O?}", "what", key, "before",
                                                      before, "after", after));
        }
    }
    json_decref(object[0]);
    json_decref(object[1]);
    return list;
}

/* A value of both runs, or of one of them. */
struct pair {
    const struct history_value *name;
    double before, after;
};

static int by_difference(const void *left, const void *right)
{
    const struct pair *first = left, *second = right;
    int kind = compare_kinds(first->name->kind, second->name->kind);
    double a = fabs(first->after - first->before), b = fabs(second->after - second->before);
    return kind ? kind : (a < b) - (a > b);
}

/* Times that only one run has are 0 in the other. Other values need both. */
static size_t pair_values(const struct history_entry *const run[2], struct pair *pair)
{
    size_t count = 0;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < run[side]->value_count; i++) {
            const struct history_value *value = &run[side]->values[i];
            const struct history_value *other = value_in(run[!side], value);
            bool is_time = !strcmp(value->unit, "ms") && strcmp(value->kind, "step") != 0;
            double missing = is_time ? 0 : NAN;
            if ((side && other) || (!other && !is_time))
                continue;
            double there = other ? other->value : missing;
            struct pair made = {value, value->value, there};
            if (side)
                made = (struct pair){value, there, value->value};
            pair[count++] = made;
        }
    }
    qsort(pair, count, sizeof *pair, by_difference);
    return count;
}

static void print_pairs(const struct pair *pair, size_t count)
{
    const char *kind = "";
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        char before[40], after[40];
        if (strcmp(kind, pair[i].name->kind) != 0) {
            kind = pair[i].name->kind;
            shown = 0;
            printf("%s\n", kind);
        }
        cli_history_number(pair[i].before, pair[i].name->unit, before);
        cli_history_number(pair[i].after, pair[i].name->unit, after);
        if (shown++ >= NAMES_SHOWN)
            continue;
        printf("  %-40.40s %14s -> %14s", pair[i].name->name, before, after);
        if (pair[i].before > 0)
            printf("  %+.1f %%", 100 * (pair[i].after / pair[i].before - 1));
        putchar('\n');
    }
}

/* What one of the runs has, for a terminal. The caller's; NULL: no memory. */
static char *side_text(const json_t *row, const char *side)
{
    const char *text = json_string_value(json_object_get(row, side));
    return cli_printable(text ? text : "(none)");
}

static void print_environment(const json_t *differences)
{
    json_t *row;
    size_t i;
    if (!json_array_size(differences))
        puts("environment: the same");
    json_array_foreach(differences, i, row)
    {
        char *before = side_text(row, "before"), *after = side_text(row, "after");
        if (before && after)
            printf("environment: %s: %s -> %s\n", json_string_value(json_object_get(row, "what")),
                   before, after);
        free(before);
        free(after);
    }
}

static void print_compared(const struct history_entry *const run[2], const json_t *differences,
                           const struct pair *pair, size_t count)
{
    for (int i = 0; i < 2; i++) {
        char begun[32];
        cli_history_time(run[i]->begun_ns, begun);
        const char *commit = run[i]->commit ? run[i]->commit : "not known";
        printf("%s: run %" PRId64 ", %s, commit %.12s\n", i ? "candidate" : "baseline ", run[i]->id,
               begun, commit);
    }
    if (strcmp(run[0]->recipe, run[1]->recipe) != 0) {
        print_text("recipes:", run[0]->recipe_text);
        print_text("", run[1]->recipe_text);
    }
    if (strcmp(run[0]->host, run[1]->host) != 0)
        printf("OTHER HOSTS: %s; %s: their times do not compare\n", run[0]->host_text,
               run[1]->host_text);
    print_environment(differences);
    print_pairs(pair, count);
}

static json_t *compared_json(const struct history_entry *const run[2], json_t *differences,
                             const struct pair *pair, size_t count)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:s, s:f, s:f}", "kind", pair[i].name->kind,
                                        "name", pair[i].name->name, "unit", pair[i].name->unit,
                                        "before", pair[i].before, "after", pair[i].after));
    return json_pack("{s:s, s:I, s:I, s:b, s:b, s:o, s:o}", "schema", "tacho-history-compare/1",
                     "baseline", (json_int_t)run[0]->id, "candidate", (json_int_t)run[1]->id,
                     "same_recipe", !strcmp(run[0]->recipe, run[1]->recipe), "same_host",
                     !strcmp(run[0]->host, run[1]->host), "environment", json_incref(differences),
                     "values", rows);
}

int cli_history_compare(struct history *history, const struct cli_history_options *options,
                        int count, char **words)
{
    (void)count;
    struct history_entry *entry[2] = {NULL, NULL};
    int code = cli_history_entry_named(history, words[0], &entry[0]);
    if (!code)
        code = cli_history_entry_named(history, words[1], &entry[1]);
    const struct history_entry *const run[2] = {entry[0], entry[1]};
    struct pair *pair = NULL;
    if (!code && !(pair = calloc(run[0]->value_count + run[1]->value_count + 1, sizeof *pair)))
        code = cli_error(TACHO_ENOMEM, NULL, "history: out of memory");
    if (pair) {
        size_t pairs = pair_values(run, pair);
        json_t *differences = environment_differences(run);
        if (options->json)
            code = cli_view_print("history", &options->view,
                                  compared_json(run, differences, pair, pairs));
        else
            print_compared(run, differences, pair, pairs);
        json_decref(differences);
    }
    free(pair);
    history_entry_free(entry[0]);
    history_entry_free(entry[1]);
    return code;
}
