/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho history trend: a value over the runs of one recipe on one kind of host, and since when it
 * is different.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/base/message.h"
#include "cli/history/verbs.h"

#define BAR        24
#define ROWS_SHOWN 12 /* the newest runs, and those at changes */

/* One trend with what it is of. */
struct shown {
    struct history_trend trend;
    struct history_entry *last; /* the run whose recipe and host it is */
    const char *metric;
    char unit[16];
};

static double per_cent(double before, double after)
{
    return 100 * (after / before - 1);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *point_json(const struct history_point *point)
{
    json_t *object = json_object();
    json_object_set_new(object, "id", json_integer(point->id));
    json_object_set_new(object, "begun_ns", json_integer(point->begun_ns));
    json_object_set_new(object, "commit", text_or_null(point->commit));
    json_object_set_new(object, "value", cli_view_number(point->value));
    return object;
}

static json_t *change_json(const struct history_trend *trend, const struct history_change *change)
{
    json_t *object = json_object(), *moved = json_array();
    json_object_set_new(object, "first", point_json(&trend->point[change->at]));
    json_object_set_new(object, "earliest", point_json(&trend->point[change->low]));
    json_object_set_new(object, "latest", point_json(&trend->point[change->high]));
    json_object_set_new(object, "last_before", point_json(&trend->point[change->low - 1]));
    json_object_set_new(object, "before", cli_view_number(change->before));
    json_object_set_new(object, "after", cli_view_number(change->after));
    json_object_set_new(object, "change_pct",
                        cli_view_number(per_cent(change->before, change->after)));
    json_object_set_new(object, "p", cli_view_number(change->p));
    for (size_t i = 0; i < change->moved_count; i++) {
        const struct history_moved *row = &change->moved[i];
        json_array_append_new(moved, json_pack("{s:s, s:s, s:s, s:f, s:f}", "kind", row->kind,
                                               "name", row->name, "unit", row->unit, "before",
                                               row->before, "after", row->after));
    }
    json_object_set_new(object, "moved", moved);
    return object;
}

static json_t *trend_json(const struct shown *shown)
{
    const struct history_trend *trend = &shown->trend;
    json_t *object = json_object(), *points = json_array(), *changes = json_array();
    json_object_set_new(object, "schema", json_string("tacho-history-trend/1"));
    json_object_set_new(object, "metric", json_string(shown->metric));
    json_object_set_new(object, "unit", json_string(shown->unit));
    json_object_set_new(object, "recipe", json_string(shown->last->recipe));
    json_object_set_new(object, "command", text_or_null(shown->last->recipe_text));
    json_object_set_new(object, "host", json_string(shown->last->host));
    json_object_set_new(object, "host_words", text_or_null(shown->last->host_text));
    for (size_t i = 0; i < trend->change_count; i++)
        json_array_append_new(changes, change_json(trend, &trend->change[i]));
    json_object_set_new(object, "changes", changes);
    json_t *level = json_object();
    json_object_set_new(level, "since", point_json(&trend->point[trend->stable_from]));
    json_object_set_new(level, "runs",
                        json_integer((json_int_t)(trend->count - trend->stable_from)));
    json_object_set_new(level, "median", cli_view_number(trend->level));
    json_object_set_new(level, "sd_pct", cli_view_number(trend->sd_pct));
    json_object_set_new(level, "detectable_by_1_run_pct",
                        cli_view_number(trend->detectable_pct[0]));
    json_object_set_new(level, "detectable_by_5_runs_pct",
                        cli_view_number(trend->detectable_pct[1]));
    json_object_set_new(object, "level", level);
    for (size_t i = 0; i < trend->count; i++)
        json_array_append_new(points, point_json(&trend->point[i]));
    json_object_set_new(object, "points", points);
    return object;
}

/* ---- text ------------------------------------------------------------------------------------- */

static bool is_first_after(const struct history_trend *trend, size_t at)
{
    for (size_t i = 0; i < trend->change_count; i++)
        if (trend->change[i].at == at)
            return true;
    return false;
}

static void print_point(const struct shown *shown, size_t at, double most)
{
    const struct history_point *point = &shown->trend.point[at];
    char begun[32], value[40], bar[BAR + 1];
    cli_history_time(point->begun_ns, begun);
    cli_history_number(point->value, shown->unit, value);
    int length = (int)lround(fmin(fmax(point->value / most, 0), 1) * BAR);
    memset(bar, '#', BAR);
    bar[length] = 0;
    printf("  %6" PRId64 "  %s  %-10.10s  %12s  %s%s\n", point->id, begun,
           *point->commit ? point->commit : "-", value, bar,
           is_first_after(&shown->trend, at) ? "  <- changed" : "");
}

static void print_points(const struct shown *shown)
{
    const struct history_trend *trend = &shown->trend;
    double most = 0;
    bool left_out = false;
    for (size_t i = 0; i < trend->count; i++)
        most = fmax(most, trend->point[i].value);
    for (size_t i = 0; i < trend->count; i++) {
        bool near = i + ROWS_SHOWN >= trend->count || is_first_after(trend, i) ||
                    is_first_after(trend, i + 1);
        if (near)
            print_point(shown, i, most);
        else if (!left_out)
            puts("     ...");
        left_out = !near;
    }
}

static void print_commits(const struct history_trend *trend, const struct history_change *change)
{
    const char *good = trend->point[change->low - 1].commit;
    const char *bad = trend->point[change->high].commit;
    if (!*good || !*bad)
        puts("    commits: not known for these runs (record inside of a git repository)");
    else if (!strcmp(good, bad))
        printf("    commits: none between them: the same commit %.12s, so not the code that git "
               "knows\n",
               good);
    else
        printf("    commits: after %.12s, up to %.12s; tacho history bisect --good %.12s --bad "
               "%.12s -- COMMAND\n",
               good, bad, good, bad);
}

static void print_moved(const struct history_change *change)
{
    if (!change->moved_count)
        puts(
            "    no part of the step moved beyond its noise: nothing was recorded of it, or all of "
            "it a little");
    for (size_t i = 0; i < change->moved_count; i++) {
        const struct history_moved *row = &change->moved[i];
        char name[200];
        snprintf(name, sizeof name, "%s %s", row->kind, row->name);
        printf("    %s %-44s %8.4g -> %8.4g %s  (%+.3g)\n", i ? "      " : "moved:", name,
               row->before, row->after, row->unit, row->after - row->before);
    }
}

static void print_change(const struct shown *shown, const struct history_change *change)
{
    const struct history_trend *trend = &shown->trend;
    char before[40], after[40], begun[32];
    cli_history_number(change->before, shown->unit, before);
    cli_history_number(change->after, shown->unit, after);
    cli_history_time(trend->point[change->at].begun_ns, begun);
    printf("  %+.1f %%: %s -> %s since run %" PRId64 " (%s; p %.3f)\n",
           per_cent(change->before, change->after), before, after, trend->point[change->at].id,
           begun, change->p);
    if (change->low != change->high)
        printf("    with 90 %% the first run after it is one of %" PRId64 " to %" PRId64 "\n",
               trend->point[change->low].id, trend->point[change->high].id);
    print_commits(trend, change);
    print_moved(change);
}

static void print_level(const struct shown *shown)
{
    const struct history_trend *trend = &shown->trend;
    char level[40];
    size_t runs = trend->count - trend->stable_from;
    cli_history_number(trend->level, shown->unit, level);
    printf("now: %s, the median of %zu run%s", level, runs, tacho_plural((long long)runs));
    if (isnan(trend->detectable_pct[0])) {
        puts("; too few to say which change the next ones can show");
        return;
    }
    printf(" (they differ by %.1f %%). One more run shows a change from %.1f %% on, five from %.1f "
           "%%.\n",
           trend->sd_pct, trend->detectable_pct[0], trend->detectable_pct[1]);
}

static void print_trend(const struct shown *shown)
{
    const struct history_trend *trend = &shown->trend;
    char *command = cli_printable(shown->last->recipe_text);
    printf("%s\n  recipe %.8s, on %s (host %.8s)\n", command ? command : "", shown->last->recipe,
           shown->last->host_text, shown->last->host);
    printf("%s of %zu run%s\n", shown->metric, trend->count, tacho_plural((long long)trend->count));
    free(command);
    print_points(shown);
    if (!trend->change_count)
        puts("no change");
    else
        printf("%zu change%s\n", trend->change_count, tacho_plural((long long)trend->change_count));
    for (size_t i = trend->change_count; i > 0; i--)
        print_change(shown, &trend->change[i - 1]);
    print_level(shown);
}

/* ---- the verb --------------------------------------------------------------------------------- */

static void find_unit(struct shown *shown, const struct history_filter *filter)
{
    for (size_t i = 0; i < shown->last->value_count; i++) {
        const struct history_value *value = &shown->last->values[i];
        if (!strcmp(value->kind, filter->kind) && !strcmp(value->name, filter->name))
            snprintf(shown->unit, sizeof shown->unit, "%s", value->unit);
    }
}

int cli_history_trend(struct history *history, const struct cli_history_options *options, int count,
                      char **words)
{
    char kind[32];
    struct history_filter filter;
    struct cli_history_options asked = *options;
    struct tacho_error err = {0};
    asked.metric = options->metric ? options->metric : "step.mean";
    struct shown shown = {.metric = asked.metric};
    int code = cli_history_filter_of(&asked, kind, &filter);
    if (!code)
        code = cli_history_entry_named(history, count ? words[0] : "latest", &shown.last);
    if (code)
        return code;
    if (!filter.recipe)
        filter.recipe = shown.last->recipe;
    if (!filter.host)
        filter.host = shown.last->host;
    find_unit(&shown, &filter);
    if (history_trend_read(history, &filter, &shown.trend, &err))
        code = err.code ? cli_error(err.code, err.hint, "%s", err.what)
                        : cli_error(TACHO_ENOMEM, NULL, "history: out of memory");
    else if (!shown.trend.count)
        code = cli_error(TACHO_ENOTFOUND, "'tacho history show' lists what a run has",
                         "no run of recipe %.8s has %s", filter.recipe, asked.metric);
    else if (options->json) {
        code = cli_view_print("history", &options->view, trend_json(&shown));
    } else {
        print_trend(&shown);
    }
    history_trend_clear(&shown.trend);
    history_entry_free(shown.last);
    return code;
}
