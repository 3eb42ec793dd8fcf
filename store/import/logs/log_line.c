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

#include "store/import/logs/logs.h"

#define TIME_BYTES \
    9 /* that rich leaves empty in front of a line with the time of the one before \
       */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* What follows a number. key: the text; factor of the value; is it a unit of time? */
static const struct unit {
    const char *text;
    double factor;
    bool time;
} units[] = {
    {"ms", 1e-3, true},
    {"us", 1e-6, true},
    {"s", 1, true},
    {"h", 3600, true},
    {"min", 60, true},
    {"sec", 1, true},
    {"seconds", 1, true},
    {"KiB", 1024, false},
    {"MiB", 1048576, false},
    {"GiB", 1073741824, false},
    {"TiB", 1099511627776, false},
    {"KB", 1024, false},
    {"MB", 1048576, false},
    {"GB", 1073741824, false},
    {"K", 1e3, false},
    {"M", 1e6, false},
    {"B", 1e9, false},
    {"G", 1e9, false},
    {"T", 1e12, false},
};

/* A number of the line and what is around it. */
struct number {
    const char *name;
    size_t name_bytes;
    const char *text; /* its digits */
    double value;
    bool has_unit; /* of time */
    bool is_short; /* the unit is less than a second */
    bool has_size; /* of memory, or a prefix */
    const char *end;
};

/* ---- what goes before -------------------------------------------------------------------------- */

static bool is_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

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

/* Blanks the names of a JSON line whose value is null: "eval_loss": null is no evaluation. */
static void drop_nulls(char *line)
{
    for (char *text = line; (text = strstr(text, "\": null")); text += 7) {
        char *name = text;
        while (name > line && name[-1] != '"')
            name--;
        memset(name, ' ', (size_t)(text - name));
    }
}

/* Blanks where in its source a program logs from: "trainer:after_iter:246 - " of loguru. */
static void drop_position(char *line)
{
    for (char *text = line; (text = strchr(text, ':')); text++) {
        size_t name = 1 + strcspn(text + 1, ": "), digits;
        if (text == line || !is_word(text[-1]) || isdigit((unsigned char)text[1]) ||
            text[name] != ':' || !(digits = strspn(text + name + 1, "0123456789")) ||
            strncmp(text + name + 1 + digits, " - ", 3) != 0)
            continue;
        memset(text, '|', name + 1 + digits);
        return;
    }
}

/* ---- numbers ----------------------------------------------------------------------------------- */

/* Where a name ends for good. A bracket that closes does so only where a name does not hold it:
 * "elapsed time per iteration (ms): 5". */
static bool separates(char letter)
{
    return letter && strchr("|,;{}]\t", letter) != NULL;
}

/* Does the text begin with "/step", of a step of training? In "loss: 2.5 sec/step: 0.02" that is
 * part of the next name. */
static bool is_per_step(const char *text)
{
    size_t bytes = *text == '/' ? 1 + strspn(text + 1, LETTERS) : 0;
    return bytes && !strchr(":=", text[bytes] ? text[bytes] : ' ') &&
           (!strncmp(text, "/step", 5) || !strncmp(text, "/iter", 5) ||
            !strncmp(text, "/batch", 6));
}

/* The unit directly behind a number, or one space behind; NULL: none. */
static const struct unit *unit_at(const char *text)
{
    text += *text == ' ';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].text);
        if (!strncmp(text, units[i].text, length) && !is_word(text[length]) &&
            (text[length] != '/' || (units[i].time && is_per_step(text + length))) &&
            text[length] != ':' && text[length] != '=')
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
    struct number number = {.name = name, .name_bytes = (size_t)(text - name), .text = text};
    char *end;
    number.value = strtod(text, &end);
    number.end = end;
    if (isfinite(number.value) && end > text)
        number.value = with_groups(text, &number.end, number.value);
    const struct unit *unit = unit_at(number.end);
    if (unit) {
        number.value *= unit->factor;
        number.has_unit = unit->time;
        number.is_short = unit->time && unit->factor < 1;
        number.has_size = !unit->time;
        number.end += strlen(unit->text) + (*number.end == ' ');
    }
    number.end += number.end == text; /* goes on whatever strtod says */
    return number;
}

/* Is a time that of all steps since the line before: "step = 100 (12.500 sec)" of TensorFlow's
 * estimators? */
static bool is_of_line(const char *line, const struct number *number)
{
    const char *text = number->name, *word = "= pets"; /* behind the number of the step */
    if (number->name_bytes != 2 || strncmp(text, " (", 2) != 0 || *number->end != ')')
        return false;
    while (text > line && isdigit((unsigned char)text[-1]))
        text--;
    for (text -= text > line && text[-1] == ' '; *word && text > line && text[-1] == *word; word++)
        text--;
    return !*word;
}

/* Numbers that are named by what follows them: "123.45 ms |", "421213 tok/s". In "6m 30s" both are
 * one time, of something else. */
static void keep_by_unit(struct log_values *values, const char *line, const struct number *number)
{
    const char *next = number->end + (*number->end == ' ');
    bool bare = number->name_bytes < 3;
    for (size_t i = 0; bare && i < number->name_bytes; i++)
        bare = !isalpha((unsigned char)number->name[i]);
    if (number->has_unit && (bare || is_per_step(number->end))) {
        values->unnamed |= !values->has[LOG_STEP_TIME] && !is_per_step(number->end);
        values->of_line |=
            !values->has[LOG_STEP_TIME] && values->has[LOG_STEP] && is_of_line(line, number);
        log_keep(values, LOG_STEP_TIME, number->value);
    } else if (!strncmp(next, "tok/s", 5) || !strncmp(next, "tokens/s", 8))
        log_keep(values, LOG_TOKENS_PER_S, number->value);
    else if (!strncmp(next, "step/s", 6) || !strncmp(next, "steps/s", 7) ||
             !strncmp(number->end, " it/s", 5)) /* tqdm has no space there */
        log_keep(values, LOG_STEPS_PER_S, number->value);
}

/* ns since 1970 of a time in seconds or ms, from 2001 to 2096; STORE_ABSENT: it is none. */
static int64_t date_of(double value)
{
    double seconds = value > 1e12 ? value / 1e3 : value;
    return seconds > 1e9 && seconds < 4e9 ? (int64_t)(seconds * 1e9) : STORE_ABSENT;
}

/* Keeps what has passed as seconds, "Elapsed_time: 665.84", and how much its last digit is. */
static void keep_passed(struct log_values *values, const struct number *number)
{
    double digit = 1;
    const char *text = number->text;
    if (values->passed > 0 || *number->end == ':')
        return; /* "00:05" */
    double bare = strtod(text, NULL);
    text += strspn(text, "0123456789");
    for (text += *text == '.'; isdigit((unsigned char)*text); text++)
        digit /= 10;
    values->passed = number->value;
    values->passed_grain = bare > 0 ? digit * number->value / bare : 0;
}

/* Does the name say that a time is of one step, whatever its unit? */
static bool names_one_step(const struct number *number)
{
    static const char *const words[] = {"dt", "timer"};
    return log_has_word(number->name, number->name_bytes, "", words, sizeof words / sizeof *words);
}

/* Keeps a number whose name is known. The number of a step is whole: else it is how long the
 * optimizer's step took (timers of Megatron-LM). Memory is in
 * bytes only where a unit says how many. */
static void keep_known(struct log_values *values, const struct number *number, enum log_what what,
                       double scale, bool needs_unit)
{
    bool step = what == LOG_STEP || what == LOG_GLOBAL_STEP;
    bool bare = needs_unit && !number->has_unit && what == LOG_STEP_TIME;
    if ((bare || what == LOG_TIMESTAMP) && date_of(number->value) != STORE_ABSENT &&
        (values->time == STORE_ABSENT || values->clock == LOG_OF_DAY)) {
        values->time = date_of(number->value);
        values->clock = LOG_DATED;
    }
    if (bare && values->bare_time <= 0 && date_of(number->value) == STORE_ABSENT)
        values->bare_time = number->value;
    if (what == LOG_STEP_TIME && needs_unit)
        values->one_step |= number->is_short || names_one_step(number);
    if (what == LOG_STEP_TIME && needs_unit && number->has_unit && !values->has[what])
        values->vague_time = number->value;
    if (what == LOG_PASSED_TIME && number->is_short && !(values->vague_time > 0))
        values->vague_time = number->value; /* "elapsed: 500 ms" is mostly that of a step */
    else if (what == LOG_PASSED_TIME)
        keep_passed(values, number);
    if ((needs_unit && !number->has_unit) ||
        (what == LOG_MEMORY && scale < 2 && !number->has_size) ||
        (step && (number->has_unit || number->value != floor(number->value))))
        return;
    log_keep(values, what, number->has_unit ? number->value : number->value * scale);
}

static void keep_number(struct log_values *values, const char *line, const char *text,
                        const struct number *number)
{
    double scale = 1;
    bool needs_unit = false;
    enum log_what what = log_what_of(number->name, number->name_bytes, &scale, &needs_unit);
    if (*number->end == '%' && (what == LOG_STEP || what == LOG_GLOBAL_STEP))
        return; /* "Steps:  54%|": how much of a bar is done */
    if (what == LOG_STEP && text > line && text[-1] == '[' && strstr(line, "\"step\": [") &&
        log_place_listed(values, number->value, text, number->end))
        return;
    if (what == LOG_STEP || what == LOG_GLOBAL_STEP)
        log_place_named(values, number->value, number->end);
    if (what != LOG_NOTHING)
        keep_known(values, number, what, scale, needs_unit);
    else if ((number->name_bytes && text[-1] != ' ') ||
             !log_drawn(values, line, text, number->value, number->end))
        keep_by_unit(values, line, number);
}

static bool is_evaluation(const char *line)
{
    static const char *const words[] = {"validat", "evaluat", "eval_", "(val)"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(line, words[i]))
            return true;
    const char *first = line + strcspn(line, LETTERS);
    size_t length = strspn(first, LETTERS), end = length + (first[length] == ' ');
    if (strstr(line, "\"mode\": \"val\"")) /* mmcv */
        return true;
    return (first[end] == ':' || first[end] == '|') &&
           ((length == 3 && !strncasecmp(first, "val", 3)) ||
            (length == 4 && !strncasecmp(first, "test", 4)) ||
            (length == 5 && !strncasecmp(first, "valid", 5)));
}

/* Of an evaluation the loss is kept: its step is no step, its rates are not those of training. */
static void keep_evaluation(struct log_values *values)
{
    struct log_values kept = log_values_none();
    kept.time = values->time;
    kept.clock = values->clock;
    kept.evaluation = true;
    enum log_what loss = values->has[LOG_EVAL_LOSS] ? LOG_EVAL_LOSS : LOG_LOSS;
    kept.has[LOG_EVAL_LOSS] = values->has[loss];
    kept.value[LOG_EVAL_LOSS] = values->value[loss];
    *values = kept;
}

/* Where a step in brackets or between lines may be, behind the text. NULL: nowhere. */
static const char *next_bracket(const char *text)
{
    for (; *text; text++)
        if (*text == '[' || (text[0] == '|' && text[1] == ' ' && isdigit((unsigned char)text[2])))
            return text;
    return NULL;
}

/* Is the word in front of a bracket "Epoch"? Then epochs are counted in it. */
static bool follows_epoch(const char *line, const char *bracket)
{
    while (bracket > line && strchr(" :", bracket[-1]))
        bracket--;
    return bracket - line >= 5 && !strncasecmp(bracket - 5, "epoch", 5);
}

/* The step in brackets: "Epoch: [3][  10/5005]", as programs for pictures print it, with the number
 * of the epoch before, or between lines: "| 143/573 |". False: the line has no such pair. */
static bool keep_bracket(struct log_values *values, const char *line)
{
    long long step, total;
    int used = 0;
    bool found = false;
    for (const char *text = line; (text = next_bracket(text)) && !(found && text[-1] != ']');) {
        bool lines = *text++ == '|';
        if (sscanf(text, "%lld/%lld%n", &step, &total, &used) != 2 || step < 0 || total < step ||
            !text[used] || !strchr("] ", text[used]) || (lines && strncmp(text + used, " |", 2)))
            continue;
        found = true; /* of [epoch/epochs][step/steps] the last */
        values->has[LOG_STEP] = true;
        values->value[LOG_STEP] = (double)step;
        values->progress = true;
        values->total = total;
        values->bar = log_bar_key(line, text, total);
        values->other_bar = log_bar_is_other(line, text);
        values->of_epochs = follows_epoch(line, text - 1);
        values->place.step = values->of_epochs ? STORE_ABSENT : step;
        values->place.total = total;
    }
    return found;
}

/* The step of clu, a library for JAX: "logging_writer.py:48] [100] loss=2.3". */
static void keep_written(struct log_values *values, const char *line)
{
    long long step;
    const char *text = strstr(line, "logging_writer.py:");
    if (text && (text = strstr(text, "] [")) && sscanf(text, "] [%lld]", &step) == 1 && step >= 0)
        log_keep(values, LOG_STEP, (double)step);
}

/* The setting in llm.c's table: "| total batch size      | 524288 |". */
static void keep_setting(struct log_values *values, const char *line)
{
    double total;
    if (sscanf(line, "| total batch size | %lf", &total) == 1)
        log_keep(values, LOG_TOTAL_BATCH, total);
}

/* Is it a line of nanoGPT, "iter 10: loss 9.8940, time 561.12ms", whose time is that of one step
 * whatever is between the lines? An evaluation is in it. */
static bool is_of_one_step(const char *line)
{
    const char *text = strstr(line, "iter ");
    int used = 0;
    return text && sscanf(text, "iter %*d: loss %*f, time %*fms%n", &used) == 0 && used;
}

/* A time without a name is that of a step only in a line of steps: texts that a model writes have
 * times, too. */
static void drop_unnamed(struct log_values *values)
{
    if (!values->unnamed)
        return;
    values->has[LOG_STEP_TIME] = false;
    bool tells = values->has[LOG_STEP] || values->has[LOG_GLOBAL_STEP] || log_values_tell(values);
    values->has[LOG_STEP_TIME] = tells;
}

/* What the line means as a whole. A time without a unit is that of a step beside a step in
 * brackets, or beside the time that is left. */
static void complete(struct log_values *values, const char *line)
{
    log_drawn_by_keras(values, line);
    bool tells = values->has[LOG_LOSS] || values->has[LOG_STEPS_PER_S], bracket = false;
    if (tells && !values->has[LOG_STEP] && !values->has[LOG_GLOBAL_STEP]) {
        keep_written(values, line);
        bracket = !values->has[LOG_STEP] && keep_bracket(values, line);
    }
    if (values->bare_time > 0 && !values->has[LOG_STEP_TIME] &&
        (bracket || strstr(line, "eta: ") || (tells && strstr(line, "data_time"))))
        values->vague_time = values->bare_time;
    if (values->vague_time > 0)
        log_keep(values, LOG_STEP_TIME, values->vague_time);
    if (values->has[LOG_MEAN_SPEED] && values->value[LOG_MEAN_SPEED] > 0)
        log_keep(values, LOG_MEAN_TIME, 1 / values->value[LOG_MEAN_SPEED]);
    if (values->progress && values->has[LOG_GLOBAL_STEP] && values->has[LOG_LOSS]) {
        values->progress = values->has[LOG_STEP_TIME] = false; /* written behind a bar */
        values->bar = 0;
    }
    log_place_end(values, line);
    drop_unnamed(values);
    keep_setting(values, line);
    values->single = is_of_one_step(line);
    values->engine = strstr(line, ":log_dist]") || strstr(line, "[timer.py:");
}

/* Keeps the time of a line alone. */
static void keep_time(struct log_values *values)
{
    struct log_values before = *values;
    *values = log_values_none();
    values->time = before.time;
    values->clock = before.clock;
}

void log_values_begin(struct log_values *values, char *line, size_t bytes)
{
    *values = log_values_none();
    values->indented = strspn(line, " ") >= TIME_BYTES;
    values->time = log_take_time(line, bytes, &values->clock);
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
    number.text = copy;
    number.end = end;
    if (!*end)
        keep_known(values, &number, what, scale, needs_unit);
}

/* Lines with numbers that are of no step. */
static bool is_of_no_step(const char *line)
{
    static const char *const words[] = {
        "train_runtime",      "\"log_history\"", /* Hugging Face: of the whole training */
        "time (ms) |",                           /* DeepSpeed: what parts of a step took */
        "[config.py:",        ":print]",         /* its settings */
        "Model Parameters: ", /* DeepSpeed-Chat: of one micro-batch on each rank */
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(line, words[i]))
            return true;
    return false;
}

void log_line_read(char *line, size_t bytes, struct log_values *values)
{
    bytes = drop_colours(line, bytes);
    drop_nulls(line);
    drop_position(line);
    log_values_begin(values, line, bytes);
    const char *name = line;
    for (const char *text = line; text < line + bytes;) {
        char before = '\0';
        if (text > line)
            before = text[-1];
        if (begins_number(text, before ? before : ' ')) {
            struct number number = number_at(name, text);
            keep_number(values, line, text, &number);
            name = text = number.end < line + bytes ? number.end : line + bytes;
            continue;
        }
        text++;
        if (separates(text[-1]))
            name = text;
    }
    if (!log_values_tell(values) && strstr(line, "heckpoint")) /* which step is saved, when */
        *values = log_values_none();
    else if (is_of_no_step(line))
        keep_time(values);
    else if (values->evaluation || is_evaluation(line))
        keep_evaluation(values);
    else
        complete(values, line);
}
