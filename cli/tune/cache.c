/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials as a T4 cache.
 */
#include "cli/tune/cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analyzers/base/stats.h"
#include "cli/base/message.h"

/* A value of a parameter: whole numbers as numbers, all else as texts. */
static json_t *level_json(const char *text)
{
    char *end, again[32];
    long long number = strtoll(text, &end, 10);
    snprintf(again, sizeof again, "%lld", number);
    return strcmp(again, text) != 0 ? json_string(text) : json_integer(number);
}

static json_t *configuration_json(const struct tuner_space *space, size_t configuration)
{
    json_t *object = json_object();
    for (size_t at = 0; at < space->dimensions; at++)
        json_object_set_new(object, space->dimension[at].name,
                            level_json(tuner_level(space, configuration, at)));
    return object;
}

/* The result of a configuration; NULL: no run of it came to its end. value[] has room for all. */
static json_t *result_json(const struct cli_tune *tune, size_t configuration, double *value)
{
    size_t runs = 0, works = 0;
    for (size_t i = 0; i < tune->journal.count; i++) {
        const struct cli_trial *trial = &tune->journal.trial[i];
        if (trial->configuration != configuration || trial->ended)
            continue;
        runs++;
        if (!isnan(trial->value))
            value[works++] = trial->value;
    }
    if (!runs)
        return NULL;
    json_t *measured = json_array();
    if (works)
        json_array_append_new(measured, json_pack("{s:s, s:f, s:s}", "name", "time", "value",
                                                  an_quantile_of(value, works, 0.5), "unit",
                                                  cli_tune_unit(tune)));
    return json_pack("{s:o, s:[s], s:s, s:o}", "configuration",
                     configuration_json(&tune->command.space, configuration), "objectives", "time",
                     "invalidity", works ? "correct" : "runtime", "measurements", measured);
}

int cli_tune_check_cache(const char *path)
{
    struct cli_output output;
    int code = cli_output_open(&output, path, NULL);
    if (!code)
        cli_output_close(&output, 1); /* nothing is left of it */
    return code;
}

int cli_tune_write_cache(const struct cli_tune *tune, const char *path)
{
    struct cli_output output;
    double *value = calloc(tune->journal.count + 1, sizeof *value);
    if (!value)
        return cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    int code = cli_output_open(&output, path, NULL);
    if (code) {
        free(value);
        return code;
    }
    json_t *results = json_array();
    for (size_t at = 0; at < tune->command.space.count; at++) {
        json_t *result = result_json(tune, at, value);
        if (result)
            json_array_append_new(results, result);
    }
    json_t *whole =
        json_pack("{s:s, s:{}, s:o}", "schema_version", "1.0.0", "metadata", "results", results);
    int rc = whole ? 0 : TACHO_ENOMEM;
    if (whole && json_dumpf(whole, output.file, JSON_INDENT(1)))
        rc = TACHO_EIO;
    json_decref(whole);
    free(value);
    return cli_output_end(&output, rc, "tune", "cache");
}
