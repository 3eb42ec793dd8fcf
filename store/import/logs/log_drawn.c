/* SPDX-License-Identifier: Apache-2.0
 *
 * What progress bars say in one line: those of tqdm, of rich as Lightning draws it, and of Keras.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/logs/logs.h"

#define DOT     "\xe2\x80\xa2"        /* between the times of Lightning's bar */
#define DASH    "\xe2\x94\x81"        /* what rich and Keras 3 draw bars of */
#define LEAST_S 5                     /* of whole seconds alone: fewer are no time */
#define EPOCH_S (double)(86400 * 366) /* no epoch lasts longer */

/* Keeps the step of a bar, whose number begins at `text`, and which bar it is. */
static void keep_step(struct log_values *values, const char *line, const char *text, double step,
                      int64_t total)
{
    log_keep(values, LOG_STEP, step);
    values->progress = true;
    values->total = total;
    values->bar = log_bar_key(line, text, total);
    values->other_bar = log_bar_is_other(line, text);
    values->evaluation = log_bar_evaluates(line, text);
}

/* Keeps the speed of a bar, "8.31it/s" or "1.20s/it". */
static void keep_speed(struct log_values *values, const char *text)
{
    double speed;
    int used = 0;
    if (sscanf(text, " %lf%n", &speed, &used) != 1 || !(speed > 0))
        return;
    if (!strncmp(text + used, "it/s", 4))
        log_keep(values, LOG_STEP_TIME, 1 / speed);
    else if (!strncmp(text + used, "s/it", 4))
        log_keep(values, LOG_STEP_TIME, speed);
}

/* "/1000 [00:12<01:48,  8.31it/s" behind a step. */
static bool is_of_tqdm(struct log_values *values, const char *line, const char *text, double step,
                       const char *behind)
{
    long long total;
    int used = 0;
    if (sscanf(behind, "/%lld [%n", &total, &used) != 1 || !used || total < 0)
        return false;
    const char *inside = behind + used, *comma = strchr(inside, ',');
    if (!strchr(inside, '<'))
        return false;
    keep_step(values, line, text, step, total);
    values->label = log_bar_label(line, line + strcspn(line, "%"));
    values->elapsed = log_seconds(inside);
    values->resumed = step > 0 && comma && !strncmp(comma, ", ?", 3);
    if (comma)
        keep_speed(values, comma + 1);
    return true;
}

/* "/64 0:00:12 <dot> 0:00:20 4.86it/s" behind a step. */
static bool is_of_rich(struct log_values *values, const char *line, const char *text, double step,
                       const char *behind)
{
    long long total;
    int used = 0;
    if (sscanf(behind, "/%lld %n", &total, &used) != 1 || !used || total < 0)
        return false;
    const char *passed = behind + used, *dot = strstr(passed, " " DOT " ");
    if (!dot || (size_t)(dot - passed) != strspn(passed, "0123456789:-"))
        return false;
    keep_step(values, line, text, step, total);
    values->label = log_bar_label(line, text);
    values->elapsed = log_seconds(passed);
    const char *left = dot + strlen(" " DOT " ");
    keep_speed(values, left + strcspn(left, " "));
    return true;
}

bool log_drawn(struct log_values *values, const char *line, const char *text, double step,
               const char *behind)
{
    return *behind == '/' && (is_of_tqdm(values, line, text, step, behind) ||
                              is_of_rich(values, line, text, step, behind));
}

/* ---- Keras --------------------------------------------------------------------------------------- */

/* Narrows least..most to what another number of the line allows; as it was if they exclude each
 * other: what is between the steps takes time, too. */
static void narrow(double *least, double *most, double lo, double hi)
{
    if (!(*most > 0)) {
        *least = lo;
        *most = hi;
    } else if (lo < *most && hi > *least) {
        *least = fmax(*least, lo);
        *most = fmin(*most, hi);
    }
}

/* The mean time of a step, "104ms/step", which is rounded to its last digit: least and most s. */
static void mean_of_step(const char *line, double *least, double *most)
{
    static const struct {
        const char *text;
        double seconds;
    } units[] = {{"us/step", 1e-6}, {"ms/step", 1e-3}, {"s/step", 1}};
    const char *end = strstr(line, "/step"), *text = end;
    while (text && text > line && text[-1] != ' ')
        text--;
    for (size_t i = 0; text && i < sizeof units / sizeof *units; i++) {
        char *unit;
        double value = strtod(text, &unit);
        if (unit == text || strncmp(unit, units[i].text, strlen(units[i].text)) != 0 ||
            !(value > 0) || value > EPOCH_S)
            continue;
        *least = (value - 0.5) * units[i].seconds;
        *most = (value + 0.5) * units[i].seconds;
    }
}

/* The s that an epoch took, with which what is behind the bar begins; 0: none. */
static double epoch_seconds(const char *text)
{
    double seconds;
    int used = 0;
    text += strspn(text, " -");
    if (sscanf(text, "%lfs%n", &seconds, &used) != 1 || !used || !strchr(" -", text[used]) ||
        !(seconds > 0) || seconds > EPOCH_S)
        return 0;
    return seconds;
}

/* Where the bar behind a step ends: "[====>....]", a line of dashes, or nothing but " - ". NULL:
 * Keras draws no such bar. */
static const char *behind_bar(const char *text)
{
    size_t bytes = strlen(DASH);
    if (text[0] == ' ' && text[1] == '[') {
        text += 2 + strspn(text + 2, "=>.");
        return *text == ']' && !strncmp(text + 1, " - ", 3) ? text + 1 : NULL;
    }
    if (text[0] == ' ' && !strncmp(text + 1, DASH, bytes)) {
        for (text++; !strncmp(text, DASH, bytes);)
            text += bytes;
        return *text == ' ' ? text : NULL;
    }
    return !strncmp(text, " - ", 3) ? text : NULL;
}

void log_drawn_by_keras(struct log_values *values, const char *line)
{
    long long step, total;
    int used = 0;
    const char *text = line + strspn(line, " |"), *behind;
    double seconds, least = 0, most = 0;
    if (!strncmp(text, "Epoch ", 6) &&
        sscanf(text, "Epoch %lld/%lld %n", &step, &total, &used) == 2)
        values->epoch = used && !text[used] && step > 0 ? step : 0;
    if (values->has[LOG_STEP] || values->has[LOG_GLOBAL_STEP] ||
        sscanf(text, "%lld/%lld%n", &step, &total, &used) != 2 || step < 1 || total < step ||
        total > INT32_MAX || !(behind = behind_bar(text + used)))
        return;
    mean_of_step(behind, &least, &most);
    seconds = epoch_seconds(behind);
    if (strstr(behind, "/sample") || (!(most > 0) && !(seconds > 0) && !strstr(behind, "ETA: ")))
        return;
    if (step == total && (most > 0 || seconds >= LEAST_S))
        narrow(&least, &most, (seconds - 0.5) / (double)total, (seconds + 0.5) / (double)total);
    values->keras = true;
    values->ended = seconds > 0;
    log_keep(values, LOG_STEP, (double)step);
    values->total = total;
    values->progress = true;
    values->validated = strstr(behind, " - val_") != NULL;
    values->has[LOG_STEP_TIME] = most > 0;
    values->value[LOG_STEP_TIME] = (least + most) / 2;
    values->least = least;
    values->most = most;
}

void log_drawn_narrow(struct log_values *now, const struct log_values *values)
{
    if (!(now->most > 0) || !(values->most > 0) || (values->validated && !now->validated))
        return;
    narrow(&now->least, &now->most, values->least, values->most);
    now->value[LOG_STEP_TIME] = (now->least + now->most) / 2;
}
