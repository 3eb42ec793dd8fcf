/* SPDX-License-Identifier: Apache-2.0
 *
 * The time in a line of a log: a date and time of day, or what has passed since the start.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/import/logs/logs.h"

#define SECOND    INT64_C(1000000000)
#define LEAP_YEAR 1972 /* for dates that have no year: any day of the year exists in it */

/* Dates that programs print; 0 stands for a digit, a space also for T or _. Places of year, month,
 * day and hour, whose minutes and seconds follow it; -1: it has no year. */
static const struct shape {
    const char *text;
    int year, month, day, hour;
    bool level; /* behind the letter of a level (glog, absl) */
} shapes[] = {
    {"0000-00-00 00:00:00", 0, 5, 8, 11, false},
    {"0000/00/00 00:00:00", 0, 5, 8, 11, false}, /* MMEngine */
    {"00/00/0000 00:00:00", 6, 0, 3, 11, false}, /* examples of Hugging Face */
    {"[00/00 00:00:00 ", -1, 1, 4, 7, false},    /* Detectron2 */
    {"0000 00:00:00.", -1, 0, 2, 5, true},
    {"00000000 00:00:00.", 0, 4, 6, 9, true},
};

static bool has_shape(const char *text, const char *shape)
{
    for (; *shape; shape++, text++)
        if (*shape == '0' ? !isdigit((unsigned char)*text)
                          : *text != *shape && !(*shape == ' ' && *text && strchr("T_", *text)))
            return false;
    return true;
}

/* Is a letter of glog's levels before the text, as a word of its own? */
static bool follows_level(const char *text, const char *line)
{
    return text > line && strchr("IWEF", text[-1]) && (text == line + 1 || strchr(" :", text[-2]));
}

/* The shape of a date that begins here; NULL: there is none. `line`: its beginning. */
static const struct shape *shape_of(const char *text, const char *line)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (has_shape(text, shapes[i].text) && (!shapes[i].level || follows_level(text, line)))
            return &shapes[i];
    return NULL;
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

/* The number that so many digits are. */
static int digits(const char *text, int count)
{
    int value = 0;
    while (count--)
        value = 10 * value + (*text++ - '0');
    return value;
}

/* Takes the date from its place; *end: behind it. */
static int64_t date_at(const char *text, const struct shape *shape, const char **end)
{
    const char *hour = text + shape->hour;
    struct tm parts = {.tm_year =
                           (shape->year < 0 ? LEAP_YEAR : digits(text + shape->year, 4)) - 1900,
                       .tm_mon = digits(text + shape->month, 2) - 1,
                       .tm_mday = digits(text + shape->day, 2),
                       .tm_hour = digits(hour, 2),
                       .tm_min = digits(hour + 3, 2),
                       .tm_sec = digits(hour + 6, 2)};
    *end = hour + 8;
    int64_t fraction = fraction_of(end), seconds = (int64_t)timegm(&parts);
    if (parts.tm_year < 70 || parts.tm_year > 200 || seconds < 0)
        return STORE_ABSENT;
    return seconds * SECOND + fraction;
}

/* "1 day, 0:12:34" or "05:44" as ns; STORE_ABSENT: it is neither. */
static int64_t clock_of(const char *text)
{
    int days = 0, part[3], used = 0;
    if (sscanf(text, "%4d day%*[s,] %n", &days, &used) != 1 || !used)
        days = used = 0;
    int count = sscanf(text + used, "%6d:%2d:%2d", &part[0], &part[1], &part[2]);
    int64_t seconds = 0;
    for (int i = 0; i < count; i++) {
        if (part[i] < 0)
            return STORE_ABSENT;
        seconds = seconds * 60 + part[i];
    }
    return count >= 2 && days >= 0 ? (days * INT64_C(86400) + seconds) * SECOND : STORE_ABSENT;
}

/* "1h 2m 3s", of which some may be missing, as ns; STORE_ABSENT: it is no such time. */
static int64_t units_of(const char *text)
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    int64_t seconds = 0;
    bool any = false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int count, used = 0;
        char letter;
        if (sscanf(text, " %5d%c%n", &count, &letter, &used) != 2 || letter != units[i].letter ||
            count < 0)
            continue;
        seconds += count * units[i].seconds;
        text += used;
        any = true;
    }
    return any ? seconds * SECOND : STORE_ABSENT;
}

/* What has passed since the start: "elapsed_time": "1h 2m 3s" of LLaMA-Factory and ms-swift, the
 * "elapsed:05:44" of a progress bar that is logged. */
static int64_t elapsed_in(const char *line)
{
    static const char *const names[] = {"elapsed_time\": \"", "elapsed_time': '", " elapsed:"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = strstr(line, names[i]);
        if (!text)
            continue;
        int64_t time = clock_of(text + strlen(names[i]));
        return time == STORE_ABSENT ? units_of(text + strlen(names[i])) : time;
    }
    return STORE_ABSENT;
}

/* Seconds since 1970 that a line begins with, also in brackets; *end: behind them. STORE_ABSENT: it
 * does not. */
static int64_t seconds_at(const char *line, const char **end)
{
    const char *text = line + (*line == '[');
    if (!has_shape(text, "0000000000") || *text < '1' || *text > '3')
        return STORE_ABSENT;
    int64_t seconds = digits(text, 5) * INT64_C(100000) + digits(text + 5, 5);
    *end = text + 10;
    int64_t fraction = **end == '.' ? fraction_of(end) : 0;
    return strchr(" ]:,\t", **end) && **end ? seconds * SECOND + fraction : STORE_ABSENT;
}

int64_t log_take_time(char *line, size_t bytes)
{
    const char *behind;
    int64_t since = seconds_at(line, &behind);
    if (since != STORE_ABSENT) {
        memset(line, '|', (size_t)(behind - line));
        return since;
    }
    for (char *text = line; text < line + bytes; text++) {
        const struct shape *shape = shape_of(text, line);
        const char *end;
        if (!shape)
            continue;
        int64_t time = date_at(text, shape, &end);
        memset(text, '|', (size_t)(end - text));
        return time;
    }
    return elapsed_in(line);
}
