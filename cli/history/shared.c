/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of `tacho history` share: filters from options, entries by name, times, numbers.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "cli/base/message.h"
#include "cli/history/verbs.h"

/* A day ("2026-11-01"), or days before now ("30d"). -1: neither. */
static int64_t since_ns(const char *text)
{
    struct tm tm = {.tm_isdst = -1};
    char *end;
    double days = strtod(text, &end);
    if (end != text && !strcmp(end, "d") && days >= 0 && days < 1e5)
        return ((int64_t)time(NULL) - (int64_t)(days * 86400)) * 1000000000;
    end = strptime(text, "%Y-%m-%d", &tm);
    return end && !*end ? (int64_t)mktime(&tm) * 1000000000 : -1;
}

static bool is_hash(const char *text)
{
    return !text ||
           (*text && strlen(text) < HISTORY_HASH && text[strspn(text, "0123456789abcdef")] == 0);
}

int cli_history_filter_of(const struct cli_history_options *options, char kind[32],
                          struct history_filter *filter)
{
    static const char hint[] = "'tacho history show' prints both of a run";
    *filter = (struct history_filter){
        .recipe = options->recipe, .host = options->host, .limit = options->limit};
    if (!is_hash(options->recipe))
        return cli_usage("history", hint, "--recipe: '%s' is not a recipe's hash", options->recipe);
    if (!is_hash(options->host))
        return cli_usage("history", hint, "--host: '%s' is not a host's hash", options->host);
    if (options->since && (filter->since_ns = since_ns(options->since)) < 0)
        return cli_usage("history", "give a day (2026-11-01) or a number of days (30d)",
                         "--since: '%s' is not a time", options->since);
    const char *dot = options->metric ? strchr(options->metric, '.') : NULL;
    if (options->metric && (!dot || dot == options->metric || dot - options->metric >= 32))
        return cli_usage("history", "for example class.compute, step.p95, operator.NAME",
                         "--metric: '%s' is not KIND.NAME", options->metric);
    if (dot) {
        snprintf(kind, 32, "%.*s", (int)(dot - options->metric), options->metric);
        filter->kind = kind;
        filter->name = dot + 1;
    }
    return 0;
}

int cli_history_entry_named(struct history *history, const char *word, struct history_entry **entry)
{
    int64_t id;
    struct tacho_error err = {0};
    int rc = history_find(history, word, &id, &err);
    if (!rc)
        rc = history_get(history, id, entry, &err);
    return rc ? cli_fail(&err) : 0;
}

void cli_history_time(int64_t ns, char out[32])
{
    struct tm tm;
    time_t seconds = (time_t)(ns / 1000000000);
    strftime(out, 32, "%Y-%m-%d %H:%M", localtime_r(&seconds, &tm));
}

void cli_history_number(double value, const char *unit, char out[40])
{
    static const char prefix[] = " kMGTPE";
    double base = strcmp(unit, "B") != 0 ? 1000 : 1024;
    bool scaled = !strcmp(unit, "B") || !strcmp(unit, "FLOP");
    int power = 0;
    while (scaled && fabs(value) >= base && power < 6) {
        value /= base;
        power++;
    }
    if (!power)
        snprintf(out, 40, "%.4g%s%s", value, *unit ? " " : "", unit);
    else if (base > 1000)
        snprintf(out, 40, "%.4g %ci%s", value, prefix[power], unit);
    else
        snprintf(out, 40, "%.4g %c%s", value, prefix[power], unit);
}
