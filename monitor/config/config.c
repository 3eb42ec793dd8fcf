/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the file of a watch: one function for each kind of name.
 */
#include "monitor/config/config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE           12 /* notices an hour */
#define RESPONSE_LIMIT 3

void mon_config_init(struct mon_config *config)
{
    *config = (struct mon_config){.response_limit = RESPONSE_LIMIT, .rate = RATE};
    mon_slo_defaults(&config->slo);
}

static int refuse(struct tacho_error *err, const char *where, const char *name, const char *value,
                  const char *hint)
{
    return tacho_fail(err, TACHO_EUSAGE, hint, "%s: invalid value '%s' of %s", where, value, name);
}

/* A number and what follows it without a blank; false: there is none. */
static bool parse_number(const char *value, double *number, const char **unit)
{
    char *end;
    *number = strtod(value, &end);
    while (end != value && isspace((unsigned char)*end))
        end++;
    *unit = end;
    return end != value && isfinite(*number);
}

/* A share: "95%", "95 %" or "0.95". */
static bool parse_share(const char *value, double *share)
{
    const char *unit;
    if (!parse_number(value, share, &unit) || (*unit && strcmp(unit, "%") != 0))
        return false;
    *share /= *unit ? 100 : 1;
    return true;
}

/* A length of time in s: "90", "90s", "5m", "2h", "30d", "250ms". */
static bool parse_time(const char *value, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    const char *unit;
    if (!parse_number(value, seconds, &unit))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].unit)) {
            *seconds *= units[i].seconds;
            return true;
        }
    return false;
}

/* ---- objectives ------------------------------------------------------------------------------ */

static struct mon_objective *find_objective(struct mon_slo *slo, const char *name, size_t length)
{
    for (size_t i = 0; i < slo->count; i++)
        if (strlen(slo->objective[i].name) == length &&
            !strncmp(slo->objective[i].name, name, length))
            return &slo->objective[i];
    return NULL;
}

static int set_target(struct mon_slo *slo, struct mon_objective *objective, const char *value)
{
    double target;
    if (!strcmp(value, "off")) {
        size_t at = (size_t)(objective - slo->objective);
        memmove(objective, objective + 1, (slo->count - at - 1) * sizeof *objective);
        slo->count--;
        return 0;
    }
    if (!parse_share(value, &target) || !(target > 0 && target < 1))
        return TACHO_EUSAGE;
    objective->target = target;
    return 0;
}

static int set_threshold(struct mon_objective *objective, const char *value)
{
    const char *unit = mon_sli_kind(objective->sli)->threshold_unit, *rest;
    double threshold;
    bool relative = false;
    if (!*unit)
        return TACHO_EUSAGE; /* events of this SLI are good or bad without one */
    if (parse_number(value, &threshold, &rest) && !strcmp(rest, "x"))
        relative = mon_sli_kind(objective->sli)->relative;
    else if (!(!strcmp(unit, "seconds") ? parse_time(value, &threshold)
                                        : parse_share(value, &threshold)))
        return TACHO_EUSAGE;
    if (!(threshold > 0) || (!relative && !strcmp(rest, "x")))
        return TACHO_EUSAGE;
    objective->threshold = threshold;
    objective->relative = relative;
    return 0;
}

static int set_period(struct mon_objective *objective, const char *value)
{
    double period_s = 0;
    if (strcmp(value, "run") != 0 && !(parse_time(value, &period_s) && period_s > 0))
        return TACHO_EUSAGE;
    objective->period_s = period_s;
    return 0;
}

static bool is_name(const char *name, size_t length)
{
    return length && length < MON_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") >= length;
}

/* Makes the objective `name` be about another SLI; it is added if it is not there. */
static int set_sli(struct mon_slo *slo, const char *name, size_t length, const char *value)
{
    struct mon_objective *objective = find_objective(slo, name, length);
    int sli = 0;
    while (sli < MON_SLI_COUNT && strcmp(mon_sli_kind((enum mon_sli)sli)->name, value) != 0)
        sli++;
    if (sli == MON_SLI_COUNT || !is_name(name, length) ||
        (!objective && slo->count == MON_OBJECTIVES_MOST))
        return TACHO_EUSAGE;
    if (!objective)
        objective = &slo->objective[slo->count++];
    mon_objective_init(objective, (enum mon_sli)sli);
    snprintf(objective->name, sizeof objective->name, "%.*s", (int)length, name);
    return 0;
}

static int set_objective(struct mon_slo *slo, const char *name, const char *value,
                         const char *where, struct tacho_error *err)
{
    const char *dot = strchr(name, '.'), *field = dot + 1;
    size_t length = (size_t)(dot - name);
    struct mon_objective *objective = find_objective(slo, name, length);
    int rc;
    if (!strcmp(field, "sli"))
        rc = set_sli(slo, name, length, value);
    else if (!objective)
        return tacho_fail(err, TACHO_EUSAGE, "a line 'NAME.sli = SLI' before it makes one",
                          "%s: no objective '%.*s'", where, (int)length, name);
    else if (!strcmp(field, "target"))
        rc = set_target(slo, objective, value);
    else if (!strcmp(field, "threshold"))
        rc = set_threshold(objective, value);
    else if (!strcmp(field, "period"))
        rc = set_period(objective, value);
    else
        return tacho_fail(err, TACHO_EUSAGE, "sli, target, threshold or period",
                          "%s: unknown setting '%s'", where, name);
    return rc ? refuse(err, where, name, value,
                       "a target is a share below 1 ('95%'), a threshold '1.25x' or a value in the "
                       "unit of its SLI, a period '30d' or 'run'")
              : 0;
}

/* ---- alerts ---------------------------------------------------------------------------------- */

/* A word that no mailer takes for an option or for several addresses. */
static bool is_address(const char *text)
{
    const char *end = text;
    while (isgraph((unsigned char)*end) && !strchr(",;|<>", *end))
        end++;
    return *text != '-' && !*end;
}

static int set_sink(struct mon_config *config, const char *name, const char *value,
                    const char *where, struct tacho_error *err)
{
    const struct {
        const char *name;
        char *field;
        bool url;
    } sinks[] = {{"log", config->log, false},        {"command", config->command, false},
                 {"mail", config->mail, false},      {"mailer", config->mailer, false},
                 {"webhook", config->webhook, true}, {"alertmanager", config->alertmanager, true},
                 {"token", config->token, false}};
    for (size_t i = 0; i < sizeof sinks / sizeof *sinks; i++) {
        if (strcmp(name + strlen("sink."), sinks[i].name) != 0)
            continue;
        if (!*value || strlen(value) >= MON_VALUE ||
            (sinks[i].url && strncmp(value, "http://", 7) != 0))
            return refuse(err, where, name, value,
                          sinks[i].url ? "an address is http://HOST:PORT/PATH; give https to a "
                                         "command, such as curl"
                                       : "a text of at most 1023 bytes");
        if (sinks[i].field == config->mail && !is_address(value))
            return refuse(err, where, name, value, "one address: you@example.org");
        snprintf(sinks[i].field, MON_VALUE, "%s", value);
        return 0;
    }
    return tacho_fail(err, TACHO_EUSAGE,
                      "log, command, mail, mailer, webhook, alertmanager or token",
                      "%s: unknown setting '%s'", where, name);
}

static int set_response(struct mon_config *config, const char *name, const char *value,
                        const char *where, struct tacho_error *err)
{
    const char *code = name + strlen("response."), *unit;
    double number;
    if (!strcmp(code, "dry_run")) {
        config->response_dry_run = !strcmp(value, "on");
        return !strcmp(value, "on") || !strcmp(value, "off")
                   ? 0
                   : refuse(err, where, name, value, "on or off");
    }
    if (!strcmp(code, "limit")) {
        if (!parse_number(value, &number, &unit) || *unit || number < 0 || number > 1e6)
            return refuse(err, where, name, value, "a number of commands");
        config->response_limit = (int64_t)number;
        return 0;
    }
    if (!*code || strlen(code) >= MON_NAME || !*value || strlen(value) >= MON_VALUE ||
        config->response_count == MON_RESPONSES_MOST)
        return refuse(err, where, name, value, "response.CODE = COMMAND, at most 16 of them");
    struct mon_response *response = &config->response[config->response_count++];
    snprintf(response->code, sizeof response->code, "%s", code);
    snprintf(response->command, sizeof response->command, "%s", value);
    return 0;
}

static int set_silence(struct mon_config *config, const char *value, const char *where,
                       struct tacho_error *err)
{
    if (!*value || strlen(value) >= MON_NAME || config->silence_count == MON_SILENCES_MOST)
        return refuse(err, where, "silence", value, "the code of an alert; at most 16 lines");
    snprintf(config->silence[config->silence_count++], MON_NAME, "%s", value);
    return 0;
}

int mon_config_set(struct mon_config *config, const char *name, const char *value,
                   const char *where, struct tacho_error *err)
{
    const char *unit;
    if (!strncmp(name, "sink.", 5))
        return set_sink(config, name, value, where, err);
    if (!strncmp(name, "response.", 9))
        return set_response(config, name, value, where, err);
    if (!strcmp(name, "silence"))
        return set_silence(config, value, where, err);
    if (!strcmp(name, "rate"))
        return parse_number(value, &config->rate, &unit) && !*unit && config->rate > 0
                   ? 0
                   : refuse(err, where, name, value, "notices an hour: a number above 0");
    if (strchr(name, '.'))
        return set_objective(&config->slo, name, value, where, err);
    return tacho_fail(err, TACHO_EUSAGE, "docs/monitor.md lists the settings",
                      "%s: unknown setting '%s'", where, name);
}

/* Removes a comment and the blanks around what is left; returns where it begins. */
static char *trim(char *text)
{
    char *hash = strchr(text, '#');
    while (hash && hash != text && !isspace((unsigned char)hash[-1]))
        hash = strchr(hash + 1, '#');
    if (hash)
        *hash = 0;
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = 0;
    return text;
}

static int read_line(struct mon_config *config, char *line, const char *where,
                     struct tacho_error *err)
{
    char *name = trim(line), *value = strchr(name, '=');
    if (!*name)
        return 0;
    if (!value)
        return tacho_fail(err, TACHO_EUSAGE, "a line is 'NAME = VALUE'", "%s: no '=' in it", where);
    *value++ = 0;
    return mon_config_set(config, trim(name), trim(value), where, err);
}

int mon_config_read(struct mon_config *config, const char *path, struct tacho_error *err)
{
    char line[MON_VALUE + 128], where[512];
    FILE *file = fopen(path, "re");
    int rc = 0;
    if (!file)
        return tacho_fail(err, tacho_error_of_errno(errno), NULL, "%s: %s", path, strerror(errno));
    for (int number = 1; !rc && fgets(line, sizeof line, file); number++) {
        snprintf(where, sizeof where, "%.400s:%d", path, number);
        if (!strchr(line, '\n') && !feof(file))
            rc = tacho_fail(err, TACHO_EUSAGE, "shorten it: a value has at most 1023 bytes",
                            "%s: the line is too long", where);
        else
            rc = read_line(config, line, where, err);
    }
    if (!rc && ferror(file))
        rc = tacho_fail(err, TACHO_EIO, NULL, "%s: cannot be read", path);
    fclose(file);
    return rc;
}
