/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of a log, or cells of a table, as quantities. Programs differ in how they separate names
 * and values (`loss: 2.3`, `loss=2.3`, `'loss': 2.3`, `loss 2.3 |`), so the line is read number by
 * number: the name of a number is the text between it and the number or separator before it.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/import/logs/logs.h"

#define SECOND INT64_C(1000000000)

/* What follows a number. key: the text; factor of the value; is it a unit of time? */
static const struct unit {
    const char *text;
    double factor;
    bool time;
} units[] = {
    {"ms", 1e-3, true},      {"us", 1e-6, true},         {"s", 1, true},
    {"sec", 1, true},        {"seconds", 1, true},       {"KiB", 1024, false},
    {"MiB", 1048576, false}, {"GiB", 1073741824, false}, {"TiB", 1099511627776, false},
    {"KB", 1024, false},     {"MB", 1048576, false},     {"GB", 1073741824, false},
    {"K", 1e3, false},       {"M", 1e6, false},          {"B", 1e9, false},
    {"G", 1e9, false},       {"T", 1e12, false},
};

/* A number of the line and what is around it. */
struct number {
    const char *name;
    size_t name_bytes;
    double value;
    bool has_unit; /* of time */
    const char *end;
};

/* ---- what goes before -------------------------------------------------------------------------- */

/* Takes out the escapes that colour a terminal. Returns the new length. */
static size_t drop_colours(char *line, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (line[i] == '\x1b' && i + 1 < bytes && line[i + 1] == '[') {
            for (i += 2; i < bytes && !isalpha((unsigned char)line[i]);)
                i++;
            continue;
        }
        line[used++] = line[i] ? line[i] : ' ';
    }
    line[used] = '\0';
    return used;
}

/* Does the text have the shape of a date and time, where 0 stands for a digit? */
static bool has_shape(const char *text, const char *shape)
{
    for (; *shape; shape++, text++)
        if (*shape == '0' ? !isdigit((unsigned char)*text)
                          : *text != *shape && !(*shape == ' ' && strchr("T_", *text)))
            return false;
    return true;
}

/* Digits after the point of a second, as ns; *text moves behind them. */
static int64_t fraction_of(const char **text)
{
    int64_t ns = 0, digit = SECOND / 10;
    if ((**text != '.' && **text != ',') || !isdigit((unsigned char)(*text)[1]))
        return 0;
    for ((*text)++; isdigit((unsigned char)**text); (*text)++) {
        ns += (**text - '0') * digit;
        digit /= 10;
    }
    return ns;
}

/* Finds "2024-05-23 01:14:08[.123]" and blanks it. Its time zone is not known: UTC is assumed,
 * which leaves differences right. */
static int64_t take_time(char *line, size_t bytes)
{
    static const char shape[] = "0000-00-00 00:00:00";
    for (char *text = line; text + sizeof shape - 1 <= line + bytes; text++) {
        struct tm parts = {0};
        if (!has_shape(text, shape))
            continue;
        parts.tm_year = atoi(text) - 1900;
        parts.tm_mon = atoi(text + 5) - 1;
        parts.tm_mday = atoi(text + 8);
        parts.tm_hour = atoi(text + 11);
        parts.tm_min = atoi(text + 14);
        parts.tm_sec = atoi(text + 17);
        const char *end = text + sizeof shape - 1;
        int64_t fraction = fraction_of(&end), seconds = (int64_t)timegm(&parts);
        memset(text, '|', (size_t)(end - text));
        if (parts.tm_year < 70 || parts.tm_year > 200 || seconds < 0)
            return STORE_ABSENT;
        return seconds * SECOND + fraction;
    }
    return STORE_ABSENT;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static bool is_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

/* Where a name ends for good. A bracket that closes does so only where a name does not hold it:
 * "elapsed time per iteration (ms): 5". */
static bool separates(char letter)
{
    return letter && strchr("|,;{}]\t", letter) != NULL;
}

/* The unit directly behind a number, or one space behind; NULL: none. */
static const struct unit *unit_at(const char *text)
{
    text += *text == ' ';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].text);
        if (!strncmp(text, units[i].text, length) && !is_word(text[length]) &&
            text[length] != '/' && text[length] != ':' && text[length] != '=')
            return &units[i];
    }
    return NULL;
}

/* "6,123": commas between groups of three digits are part of a number. */
static double with_groups(const char *start, const char **end, double value)
{
    while (**end == ',' && isdigit((unsigned char)(*end)[1]) && isdigit((unsigned char)(*end)[2]) &&
           isdigit((unsigned char)(*end)[3]) && !isdigit((unsigned char)(*end)[4]) &&
           !memchr(start, '.', (size_t)(*end - start))) {
        value = value * 1000 + atoi(*end + 1);
        *end += 4;
    }
    return value;
}

/* Is it "nan" or "inf" as a word? */
static bool is_not_finite(const char *text)
{
    text += *text == '-';
    return (!strncasecmp(text, "nan", 3) || !strncasecmp(text, "inf", 3)) && !is_word(text[3]);
}

/* Does a number begin here? `before`: the character in front of it. */
static bool begins_number(const char *text, char before)
{
    if (is_word(before) || before == '.')
        return false;
    if (is_not_finite(text))
        return before == ' ' || before == '=' || before == ':';
    text += *text == '-' || *text == '+';
    text += *text == '.';
    return isdigit((unsigned char)*text);
}

static struct number number_at(const char *name, const char *text)
{
    struct number number = {.name = name, .name_bytes = (size_t)(text - name)};
    char *end;
    number.value = strtod(text, &end);
    number.end = end;
    if (isfinite(number.value) && end > text)
        number.value = with_groups(text, &number.end, number.value);
    const struct unit *unit = unit_at(number.end);
    if (unit) {
        number.value *= unit->factor;
        number.has_unit = unit->time;
        number.end += strlen(unit->text) + (*number.end == ' ');
    }
    number.end += number.end == text; /* goes on whatever strtod says */
    return number;
}

static void keep(struct log_values *values, enum log_what what, double value)
{
    if (values->has[what])
        return; /* the first of a line counts */
    values->has[what] = true;
    values->value[what] = value;
}

/* "100/1000 [00:12<01:48,  8.31it/s": the step and the time of a progress bar of tqdm. */
static bool keep_progress(struct log_values *values, const char *text, const struct number *number)
{
    long long total;
    int used = 0;
    double rate;
    if (sscanf(number->end, "/%lld [%n", &total, &used) != 1 || !used || total < 0)
        return false;
    const char *inside = number->end + used, *comma = strchr(inside, ',');
    if (!strchr(inside, '<') || (number->name_bytes && text[-1] != ' '))
        return false;
    keep(values, LOG_STEP, number->value);
    values->progress = true;
    values->total = total;
    if (comma && sscanf(comma + 1, " %lf%n", &rate, &used) == 1 && rate > 0) {
        if (!strncmp(comma + 1 + used, "it/s", 4))
            keep(values, LOG_STEP_TIME, 1 / rate);
        else if (!strncmp(comma + 1 + used, "s/it", 4))
            keep(values, LOG_STEP_TIME, rate);
    }
    return true;
}

/* Numbers that are named by what follows them: "123.45 ms |", "421213 tok/s". */
static void keep_by_unit(struct log_values *values, const struct number *number)
{
    const char *next = number->end + (*number->end == ' ');
    if (number->has_unit && number->name_bytes < 3)
        keep(values, LOG_STEP_TIME, number->value);
    else if (!strncmp(next, "tok/s", 5) || !strncmp(next, "tokens/s", 8))
        keep(values, LOG_TOKENS_PER_S, number->value);
}

/* Keeps a number whose name is known. The number of a step is whole: else it is how long the
 * optimizer's step took (timers of Megatron-LM). */
static void keep_known(struct log_values *values, const struct number *number, enum log_what what,
                       double scale, bool needs_unit)
{
    bool step = what == LOG_STEP || what == LOG_GLOBAL_STEP;
    if ((needs_unit && !number->has_unit) ||
        (step && (number->has_unit || number->value != floor(number->value))))
        return;
    if (what == LOG_TIMESTAMP && values->time == STORE_ABSENT && number->value > 1e9 &&
        number->value < 4e9)
        values->time = (int64_t)(number->value * 1e9);
    keep(values, what, number->has_unit ? number->value : number->value * scale);
}

static void keep_number(struct log_values *values, const char *text, const struct number *number)
{
    double scale = 1;
    bool needs_unit = false;
    enum log_what what = log_what_of(number->name, number->name_bytes, &scale, &needs_unit);
    if (what != LOG_NOTHING)
        keep_known(values, number, what, scale, needs_unit);
    else if (!keep_progress(values, text, number))
        keep_by_unit(values, number);
}

static bool is_evaluation(const char *line)
{
    static const char *const words[] = {"validat", "evaluat", "eval_"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(line, words[i]))
            return true;
    return false;
}

/* Of an evaluation the loss is kept: its step is no step, its rates are not those of training. */
static void keep_evaluation(struct log_values *values)
{
    struct log_values kept = {.time = values->time, .total = STORE_ABSENT, .evaluation = true};
    enum log_what loss = values->has[LOG_EVAL_LOSS] ? LOG_EVAL_LOSS : LOG_LOSS;
    kept.has[LOG_EVAL_LOSS] = values->has[loss];
    kept.value[LOG_EVAL_LOSS] = values->value[loss];
    *values = kept;
}

void log_values_begin(struct log_values *values, char *line, size_t bytes)
{
    *values = (struct log_values){.total = STORE_ABSENT};
    values->time = take_time(line, bytes);
}

void log_values_put(struct log_values *values, const char *name, size_t name_bytes,
                    const char *text, size_t bytes)
{
    struct number number = {.name = name, .name_bytes = name_bytes};
    char copy[64], *end;
    double scale = 1;
    bool needs_unit = false;
    enum log_what what = log_what_of(name, name_bytes, &scale, &needs_unit);
    if (what == LOG_NOTHING || !bytes || bytes >= sizeof copy)
        return;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    number.value = strtod(copy, &end);
    if (!*end)
        keep_known(values, &number, what, scale, needs_unit);
}

void log_line_read(char *line, size_t bytes, struct log_values *values)
{
    bytes = drop_colours(line, bytes);
    log_values_begin(values, line, bytes);
    const char *name = line;
    for (const char *text = line; *text;) {
        char before = '\0';
        if (text > line)
            before = text[-1];
        if (begins_number(text, before ? before : ' ')) {
            struct number number = number_at(name, text);
            keep_number(values, text, &number);
            name = text = number.end < line + bytes ? number.end : line + bytes;
            continue;
        }
        text++;
        if (separates(text[-1]))
            name = text;
    }
    /* Hugging Face: of the whole training; DeepSpeed: what parts of a step took */
    if (strstr(line, "train_runtime") || strstr(line, "time (ms) |"))
        *values = (struct log_values){.time = values->time, .total = STORE_ABSENT};
    else if (is_evaluation(line))
        keep_evaluation(values);
}
