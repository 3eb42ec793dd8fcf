/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands with parameters.
 */
#include "cli/tune/template.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/base/message.h"

#define VALUES_MOST 1024             /* of a range */
#define NUMBER_MOST 1000000000000000 /* of a range, in either direction */

/* ---- parameters ------------------------------------------------------------------------------- */

static int usage(const char *parameter, const char *what)
{
    return cli_usage("tune",
                     "for example {workers:1..8}, {batch:1..64:log2} and {64/batch}, "
                     "{mode:fast,safe=safe}",
                     "{%.100s}: %s", parameter, what);
}

static int add_level(struct cli_template *out, size_t at, const char *parameter, const char *text)
{
    int rc = tuner_space_level(&out->space, at, text);
    if (rc >= 0)
        return 0;
    return rc == TACHO_ENOMEM ? cli_error(rc, NULL, "tune: out of memory")
                              : usage(parameter, "too many values");
}

/* "1..8" or "1..64:log2". */
static int add_range(struct cli_template *out, size_t at, const char *parameter, const char *range)
{
    char *end, text[32];
    long long low = strtoll(range, &end, 10);
    if (end == range || strncmp(end, "..", 2) != 0)
        return usage(parameter, "a range is LOW..HIGH");
    const char *second = end + 2;
    long long high = strtoll(second, &end, 10);
    bool by_two = !strcmp(end, ":log2");
    if (end == second || (*end && !by_two) || high < low || (by_two && low < 1))
        return usage(parameter, "a range is LOW..HIGH or LOW..HIGH:log2 with 1 <= LOW <= HIGH");
    if (low < -NUMBER_MOST || high > NUMBER_MOST)
        return usage(parameter, "the numbers of a range are at most 10^15");
    int code = 0, count = 0;
    for (long long value = low; !code && value <= high && count++ < VALUES_MOST;
         value = by_two ? 2 * value : value + 1) {
        snprintf(text, sizeof text, "%lld", value);
        code = add_level(out, at, parameter, text);
    }
    return count > VALUES_MOST ? usage(parameter, "too many values") : code;
}

static int add_values(struct cli_template *out, size_t at, const char *parameter, char *values)
{
    if (strstr(values, ".."))
        return add_range(out, at, parameter, values);
    int code = 0;
    char *value;
    while (!code && (value = strsep(&values, ",")) != NULL)
        code = *value ? add_level(out, at, parameter, value) : usage(parameter, "an empty value");
    return code;
}

/* Dimension of a name; SIZE_MAX: it is not known. */
static size_t find_dimension(const struct cli_template *command, const char *name)
{
    for (size_t at = 0; at < command->space.dimensions; at++)
        if (!strcmp(command->space.dimension[at].name, name))
            return at;
    return SIZE_MAX;
}

/* "64/NAME": 64 divided by a value of that parameter; 0: it does not divide it. */
static long long quotient(const char *parameter, const char *level)
{
    char *end;
    long long product = strtoll(parameter, NULL, 10), value = strtoll(level, &end, 10);
    return end != level && !*end && value > 0 && product % value == 0 ? product / value : 0;
}

static int hold_product(struct cli_template *out, const char *parameter)
{
    size_t at = find_dimension(out, strchr(parameter, '/') + 1);
    if (at == SIZE_MAX)
        return usage(parameter, "the parameter after the / must come before it, with its values");
    for (size_t i = 0; i < out->space.dimension[at].levels; i++)
        if (!quotient(parameter, out->space.dimension[at].level[i]))
            return usage(parameter, "each value of the parameter must divide the number");
    out->held[at] = true;
    return 0;
}

/* Takes "NAME:VALUES=NOW" apart. start[]: the level of each dimension that is set now, by its text.
 */
static int add_parameter(struct cli_template *out, const char *parameter,
                         char *start[TUNER_DIMENSIONS])
{
    char *copy = strdup(parameter), *colon = copy ? strchr(copy, ':') : NULL;
    int code = 0;
    if (!copy)
        return cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    size_t before = out->space.dimensions;
    if (colon)
        *colon = 0;
    char *equals = colon ? strrchr(colon + 1, '=') : NULL;
    if (equals)
        *equals = 0;
    int at = *copy ? tuner_space_dimension(&out->space, copy) : TACHO_EUSAGE;
    bool known = at >= 0 && (size_t)at < before;
    if (at < 0)
        code = usage(parameter, "a parameter has a name, and there are at most 32");
    else if (known == (colon != NULL))
        code = usage(parameter, "its values are to be given once, where it comes first");
    else if (colon)
        code = add_values(out, (size_t)at, parameter, colon + 1);
    if (!code && colon) {
        start[at] = strdup(equals ? equals + 1 : out->space.dimension[at].level[0]);
        if (!start[at])
            code = cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    }
    free(copy);
    return code;
}

#define NAME_OF_PARAMETER "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-0123456789"

static bool is_quotient(const char *parameter)
{
    return parameter[strspn(parameter, "0123456789")] == '/';
}

/* The next {...} of a word, without braces, as a copy; *rest is what follows. NULL: none, or braces
 * that hold no name (JSON and shell words stay as they are). */
static char *next_parameter(const char *word, const char **open, const char **rest)
{
    for (*open = strchr(word, '{'); *open; *open = strchr(*open + 1, '{')) {
        const char *close = strchr(*open, '}');
        size_t digits = strspn(*open + 1, "0123456789"),
               begin = digits && (*open)[1 + digits] == '/' ? digits + 1 : 0;
        size_t name = strspn(*open + 1 + begin, NAME_OF_PARAMETER);
        if (close && name && strchr(begin ? "}" : ":}", (*open)[1 + begin + name])) {
            *rest = close + 1;
            return strndup(*open + 1, (size_t)(close - *open - 1));
        }
    }
    return NULL;
}

static size_t find_start(const struct cli_template *out, char *const start[TUNER_DIMENSIONS])
{
    for (size_t i = 0; i < out->space.count; i++) {
        size_t same = 0;
        while (same < out->space.dimensions && start[same] &&
               !strcmp(tuner_level(&out->space, i, same), start[same]))
            same++;
        if (same == out->space.dimensions)
            return i;
    }
    return SIZE_MAX;
}

int cli_template_read(char **words, struct cli_template *out)
{
    char *start[TUNER_DIMENSIONS] = {NULL};
    *out = (struct cli_template){.word = words};
    int code = 0;
    for (; !code && words[out->words]; out->words++) {
        const char *open, *rest = words[out->words];
        char *parameter;
        while (!code && (parameter = next_parameter(rest, &open, &rest)) != NULL) {
            code = is_quotient(parameter) ? hold_product(out, parameter)
                                          : add_parameter(out, parameter, start);
            free(parameter);
        }
    }
    if (!code && !out->space.dimensions)
        code = cli_usage(
            "tune",
            "for example, in quotes: tacho tune -- train gpt2-tiny --workers '{workers:1..4}'",
            "the command has no {parameter}");
    int rc = code ? 0 : tuner_space_product(&out->space);
    if (rc)
        code = cli_error(rc, "give fewer values", "the parameters have more than %d combinations",
                         TUNER_MOST);
    if (!code && tuner_space_end(&out->space))
        code = cli_error(TACHO_ENOMEM, NULL, "tune: out of memory");
    if (!code && (out->start = find_start(out, start)) == SIZE_MAX)
        code = cli_usage("tune", NULL, "the current value ('=VALUE') is not among the values");
    for (size_t i = 0; i < TUNER_DIMENSIONS; i++)
        free(start[i]);
    return code;
}

void cli_template_clear(struct cli_template *command)
{
    tuner_space_clear(&command->space);
}

/* ---- a configuration as words ----------------------------------------------------------------- */

static void put_value(const struct cli_template *command, const char *parameter,
                      size_t configuration, FILE *out)
{
    bool divides = is_quotient(parameter);
    size_t at = find_dimension(command, divides ? strchr(parameter, '/') + 1 : parameter);
    if (at == SIZE_MAX)
        return;
    const char *level = tuner_level(&command->space, configuration, at);
    if (divides)
        fprintf(out, "%lld", quotient(parameter, level));
    else
        fputs(level, out);
}

/* A word with its parameters replaced. */
static char *fill_word(const struct cli_template *command, const char *word, size_t configuration)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    const char *open, *rest = word;
    char *parameter;
    for (const char *from = word; (parameter = next_parameter(from, &open, &rest)) != NULL;
         from = rest) {
        parameter[strcspn(parameter, ":")] = 0;
        fwrite(from, 1, (size_t)(open - from), out);
        put_value(command, parameter, configuration, out);
        free(parameter);
    }
    fputs(rest, out);
    if (!fclose(out))
        return text;
    free(text);
    return NULL;
}

char **cli_template_words(const struct cli_template *command, size_t configuration)
{
    char **words = calloc((size_t)command->words + 1, sizeof *words);
    for (int i = 0; words && i < command->words; i++) {
        words[i] = fill_word(command, command->word[i], configuration);
        if (!words[i]) {
            cli_template_free(words);
            return NULL;
        }
    }
    return words;
}

void cli_template_free(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

const char *cli_template_changes(const struct cli_template *command)
{
    static const char *const words[] = {"batch", "dtype", "precision", "amp",        "fp16",
                                        "bf16",  "type",  "optimizer", "accumulate", "lr"};
    for (size_t at = 0; at < command->space.dimensions; at++)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (!command->held[at] && strcasestr(command->space.dimension[at].name, words[i]))
                return command->space.dimension[at].name;
    return NULL;
}
