/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads edits as people type them (what_if.h).
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/what_if.h"
#include "analyzers/result/ranks.h"

#define NUMBER_MOST 4096
#define FACTOR_MOST 1000.0

static const char *const keys[] = {
    "comm",     "peers",       "copy",           "compute",         "loader",     "launch",
    "sync",     "allocation",  "collection",     "compile",         "framework",  "think",
    "dispatch", "profiler",    "loader.workers", "loader.prefetch", "cores",      "others",
    "link",     "loader.read", "loader.decode",  "loader.collate",  "loader.pin", "loader.fetch",
    "ranks",    "recompute",   "threads",        "micro",           "precision",  NULL};
static const char *const prefixes[] = {"op:", "kernel:", "collective:", "copy:", NULL};

const char *const *an_edit_keys(void)
{
    return keys;
}

/* "rank:2", "rank:2:backward" */
static bool is_rank(const char *key)
{
    enum an_step_stage stage;
    if (strncmp(key, "rank:", 5) != 0 || !key[5])
        return false;
    const char *rest = key + 5 + strspn(key + 5, "0123456789");
    return rest > key + 5 && rest - key < 15 &&
           (!*rest || (*rest == ':' && an_stage_named(rest + 1, &stage)));
}

static bool known(const char *key)
{
    if (is_rank(key))
        return true;
    for (size_t i = 0; keys[i]; i++)
        if (!strcmp(key, keys[i]))
            return true;
    for (size_t i = 0; prefixes[i]; i++)
        if (!strncmp(key, prefixes[i], strlen(prefixes[i])) && key[strlen(prefixes[i])])
            return true;
    return false;
}

/* "0.5x", "50%", "0" */
static bool factor_of(const char *text, double *factor)
{
    char *end = NULL;
    if (!*text || !strchr("0123456789.", *text))
        return false;
    errno = 0;
    *factor = strtod(text, &end);
    if (errno || end == text || !isfinite(*factor) || strchr(text, 'X') ||
        (text[0] == '0' && text[1] == 'x'))
        return false;
    if (!strcmp(end, "%"))
        *factor /= 100;
    else if (strcmp(end, "x") != 0 && (*end || *factor != 0))
        return false;
    return *factor >= 0 && *factor <= FACTOR_MOST;
}

static bool number_of(const char *text, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *number = value;
    return !errno && end != text && !*end && value >= 1 && value <= NUMBER_MOST;
}

/* "0", "2.5" */
static bool cores_of(const char *text, double *cores)
{
    char *end = NULL;
    errno = 0;
    *cores = strchr("0123456789.", *text) && *text ? strtod(text, &end) : -1;
    return !errno && end && end != text && !*end && *cores >= 0 && *cores <= NUMBER_MOST;
}

static const struct {
    const char *key, *what, *hint;
    enum an_edit_kind kind;
} numbers[] = {
    {"loader.workers", "workers", "give a number of workers: loader.workers=4", AN_EDIT_WORKERS},
    {"loader.prefetch", "batches", "give a number of batches to prefetch: loader.prefetch=8",
     AN_EDIT_AHEAD},
    {"cores", "cores", "give the number of cores of each host: cores=8", AN_EDIT_CORES},
    {"threads", "threads", "give the number of threads of each team: threads=2", AN_EDIT_THREADS}};

static int number_value(struct an_edit *edit, size_t number, const char *value,
                        struct tacho_error *err)
{
    edit->kind = numbers[number].kind;
    if (number_of(value, &edit->number))
        return 0;
    return tacho_fail(err, TACHO_EUSAGE, numbers[number].hint,
                      "--what-if: %.80s: '%.60s' is not a number of %s from 1 to %d", edit->key,
                      value, numbers[number].what, NUMBER_MOST);
}

static int others_value(struct an_edit *edit, const char *value, struct tacho_error *err)
{
    edit->kind = AN_EDIT_OTHERS;
    if (cores_of(value, &edit->factor))
        return 0;
    return tacho_fail(err, TACHO_EUSAGE,
                      "give the cores that other programs use: others=2.5, others=0 without any",
                      "--what-if: others: '%.60s' is not a number of cores", value);
}

static int link_value(struct an_edit *edit, const char *value, struct tacho_error *err)
{
    edit->kind = AN_EDIT_LINK;
    if (factor_of(value, &edit->factor) && edit->factor > 0)
        return 0;
    return tacho_fail(err, TACHO_EUSAGE, "give the speed of the link: link=2x is twice as fast",
                      "--what-if: link: invalid speed '%.60s'", value);
}

/* "4x": whole times, because a micro-batch has whole samples. */
static int micro_value(struct an_edit *edit, const char *value, struct tacho_error *err)
{
    double factor = 0;
    edit->kind = AN_EDIT_MICRO;
    bool valid =
        factor_of(value, &factor) && strchr(value, 'x') && factor == floor(factor) && factor >= 1;
    edit->number = valid ? (int64_t)factor : 1;
    if (valid)
        return 0;
    return tacho_fail(err, TACHO_EUSAGE,
                      "give how many times as large the micro-batches get: micro=4x",
                      "--what-if: micro: '%.60s' is not a whole factor from 1x", value);
}

static int precision_value(struct an_edit *edit, const char *value, struct tacho_error *err)
{
    edit->kind = AN_EDIT_PRECISION;
    if (!strcmp(value, "bf16") || !strcmp(value, "fp32"))
        return 0;
    return tacho_fail(err, TACHO_EUSAGE, "give a type that was calibrated: precision=bf16 or fp32",
                      "--what-if: precision: invalid type '%.60s'", value);
}

static int ranks_value(struct an_edit *edit, const char *value, struct tacho_error *err)
{
    edit->kind = AN_EDIT_PEERS;
    if (!strcmp(value, "even"))
        return 0;
    return tacho_fail(err, TACHO_EUSAGE,
                      "give ranks=even, or one of them: rank:2=peers, rank:2:backward=0.5x",
                      "--what-if: ranks: invalid value '%.60s'", value);
}

/* Edits whose value is a word. */
static const struct {
    const char *key, *value;
    enum an_edit_kind kind;
} words[] = {{"launch", "graph", AN_EDIT_GRAPH},
             {"comm", "overlap", AN_EDIT_OVERLAP},
             {"rank:", "peers", AN_EDIT_PEERS}};

/* Reads the value of an edit by what its key takes: a number, cores, a speed, a word, else a share.
 */
static int value_of(struct an_edit *edit, const char *value, struct tacho_error *err)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(edit->key, numbers[i].key))
            return number_value(edit, i, value, err);
    if (!strcmp(edit->key, "others"))
        return others_value(edit, value, err);
    if (!strcmp(edit->key, "link"))
        return link_value(edit, value, err);
    if (!strcmp(edit->key, "ranks"))
        return ranks_value(edit, value, err);
    if (!strcmp(edit->key, "micro"))
        return micro_value(edit, value, err);
    if (!strcmp(edit->key, "precision"))
        return precision_value(edit, value, err);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(edit->key, words[i].key, strlen(words[i].key)) &&
            !strcmp(value, words[i].value)) {
            edit->kind = words[i].kind;
            return 0;
        }
    edit->kind = AN_EDIT_SCALE;
    if (factor_of(value, &edit->factor))
        return 0;
    return tacho_fail(
        err, TACHO_EUSAGE,
        "give the share of its time that remains: 0.5x, 50% or 0 (also launch=graph, comm=overlap)",
        "--what-if: %.80s: invalid share '%.60s'", edit->key, value);
}

static int one_edit(const char *text, size_t length, struct an_edit *edit, char *wrong,
                    struct tacho_error *err)
{
    const char *equals = memchr(text, '=', length);
    *edit = (struct an_edit){.factor = 1};
    if (!equals || equals == text || length >= AN_EDIT_KEY)
        return tacho_fail(err, TACHO_EUSAGE,
                          "give edits as NAME=VALUE,...: comm=0.5x,loader.workers=8",
                          "--what-if: invalid edit '%.*s'", (int)(length < 80 ? length : 80), text);
    snprintf(edit->text, sizeof edit->text, "%.*s", (int)length, text);
    snprintf(edit->key, sizeof edit->key, "%.*s", (int)(equals - text), text);
    if (!known(edit->key)) {
        if (wrong)
            snprintf(wrong, AN_EDIT_KEY, "%s", edit->key);
        return tacho_fail(err, TACHO_EUSAGE, "tacho advise --help lists what can be changed",
                          "--what-if: '%.80s' cannot be changed", edit->key);
    }
    return value_of(edit, edit->text + strlen(edit->key) + 1, err);
}

static bool has_key(const struct an_edit *edit, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(edit[i].key, key))
            return true;
    return false;
}

int an_edits_parse(const char *text, struct an_edit edit[AN_EDITS_MOST], size_t *count,
                   char wrong[AN_EDIT_KEY], struct tacho_error *err)
{
    *count = 0;
    if (wrong)
        *wrong = 0;
    if (!*text)
        return tacho_fail(err, TACHO_EUSAGE,
                          "give edits as NAME=VALUE,...: comm=0.5x,loader.workers=8",
                          "--what-if: no edit given");
    for (;;) {
        size_t length = strcspn(text, ",");
        if (*count == AN_EDITS_MOST)
            return tacho_fail(err, TACHO_EUSAGE, NULL, "--what-if: more than %d edits",
                              AN_EDITS_MOST);
        int rc = one_edit(text, length, &edit[*count], wrong, err);
        if (rc)
            return rc;
        if (has_key(edit, *count, edit[*count].key))
            return tacho_fail(err, TACHO_EUSAGE, NULL, "--what-if: duplicate edit '%.80s'",
                              edit[*count].key);
        (*count)++;
        if (!text[length])
            return 0;
        text += length + 1;
    }
}
