/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads T4 caches.
 */
#include "tuner/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <jansson.h>

#include "analyzers/base/stats.h"

#define FILE_MOST (1 << 30) /* bytes, unpacked */

static int fail(struct tacho_error *err, int code, const char *path, const char *what)
{
    return tacho_fail(err, code, "give a cache of Kernel Tuner in the T4 format", "%s: %s", path,
                      what);
}

static size_t read_part(void *buffer, size_t bytes, void *file)
{
    int got = gzread(file, buffer, (unsigned)bytes);
    bool whole = got >= 0 && gztell(file) <= FILE_MOST;
    return whole ? (size_t)got : (size_t)-1;
}

static json_t *read_json(const char *path, struct tacho_error *err)
{
    json_error_t problem;
    gzFile file = gzopen(path, "rb");
    if (!file) {
        tacho_fail(err, tacho_error_of_errno(errno), NULL, "%s: %s", path, strerror(errno));
        return NULL;
    }
    json_t *json = json_load_callback(read_part, file, 0, &problem);
    gzclose(file);
    if (!json)
        tacho_fail(err, TACHO_EFORMAT, "give a cache of Kernel Tuner in the T4 format", "%s:%d: %s",
                   path, problem.line, problem.text);
    return json;
}

/* A value of a parameter as text. */
static bool level_text(const json_t *value, char text[64])
{
    if (json_is_string(value))
        snprintf(text, 64, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, 64, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, 64, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, 64, "%d", json_is_true(value));
    else
        return false;
    return true;
}

/* The value of the objective; NAN: the configuration failed. */
static double value_of(const json_t *result, const char *objective)
{
    const char *state = json_string_value(json_object_get(result, "invalidity"));
    json_t *row;
    size_t i;
    if (!state || strcmp(state, "correct") != 0)
        return NAN;
    json_array_foreach(json_object_get(result, "measurements"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        json_t *value = json_object_get(row, "value");
        if (name && !strcmp(name, objective) && json_is_number(value)) {
            double number = json_number_value(value);
            return number > 0 && number < 1e20 ? number : NAN;
        }
    }
    return NAN;
}

static int add_result(struct tuner_replay *replay, const json_t *result)
{
    const json_t *configuration = json_object_get(result, "configuration");
    uint16_t level[TUNER_DIMENSIONS];
    const char *name;
    json_t *value;
    char text[64];
    if (json_object_size(configuration) == 0)
        return TACHO_EFORMAT;
    size_t known = replay->space.dimensions;
    json_object_foreach((json_t *)configuration, name, value)
    {
        int at = tuner_space_dimension(&replay->space, name);
        if (at < 0 || !level_text(value, text))
            return at < 0 ? at : TACHO_EFORMAT;
        int found = tuner_space_level(&replay->space, (size_t)at, text);
        if (found < 0)
            return found;
        level[at] = (uint16_t)found;
    }
    bool same = json_object_size(configuration) == known && replay->space.dimensions == known;
    if (!same && replay->space.count)
        return TACHO_EFORMAT;
    return tuner_space_add(&replay->space, level);
}

static int add_results(struct tuner_replay *replay, const json_t *results)
{
    const char *objective = json_string_value(
        json_array_get(json_object_get(json_array_get(results, 0), "objectives"), 0));
    size_t count = json_array_size(results);
    replay->value = calloc(count + 1, sizeof *replay->value);
    if (!replay->value)
        return TACHO_ENOMEM;
    snprintf(replay->objective, sizeof replay->objective, "%s", objective ? objective : "time");
    for (size_t i = 0; i < count; i++) {
        const json_t *result = json_array_get(results, i);
        int rc = add_result(replay, result);
        if (rc)
            return rc;
        replay->value[i] = value_of(result, replay->objective);
    }
    return tuner_space_end(&replay->space);
}

static int find_best(struct tuner_replay *replay)
{
    double *sorted = calloc(replay->space.count + 1, sizeof *sorted);
    if (!sorted)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < replay->space.count; i++)
        if (!isnan(replay->value[i]))
            sorted[replay->works++] = replay->value[i];
    an_sort(sorted, replay->works);
    replay->best = replay->works ? sorted[0] : NAN;
    replay->median = an_quantile(sorted, replay->works, 0.5);
    free(sorted);
    return replay->works ? 0 : TACHO_EFORMAT;
}

int tuner_replay_read(const char *path, struct tuner_replay *replay, struct tacho_error *err)
{
    *replay = (struct tuner_replay){.best = NAN};
    json_t *json = read_json(path, err);
    if (!json)
        return err && err->code ? err->code : TACHO_EFORMAT;
    const json_t *results = json_object_get(json, "results");
    int rc = json_array_size(results) ? add_results(replay, results) : TACHO_EFORMAT;
    if (!rc)
        rc = find_best(replay);
    json_decref(json);
    if (!rc)
        return 0;
    tuner_replay_clear(replay);
    return fail(err, rc, path,
                rc == TACHO_EFORMAT ? "no result was measured, or results have different parameters"
                                    : tacho_error_text(rc));
}

void tuner_replay_clear(struct tuner_replay *replay)
{
    tuner_space_clear(&replay->space);
    free(replay->value);
    *replay = (struct tuner_replay){0};
}
