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
#define DAY       (86400 * SECOND)
#define LEAP_YEAR 1972 /* for dates that have no year: any day of the year exists in it */

/* Dates that programs print; 0 stands for a digit, a space also for T or _. Places of year, month,
 * day and hour, whose minutes and seconds follow it; -1: it has no year. */
static const struct shape {
    const char *text;
    int year, month, day, hour;
    bool level; /* behind the letter of a level (glog, absl) */
    bool first; /* only in front of a line */
    bool two;   /* the year has two digits */
} shapes[] = {
    {"0000-00-00 00:00:00", 0, 5, 8, 11, false, false, false},
    {"0000/00/00 00:00:00", 0, 5, 8, 11, false, false, false}, /* MMEngine */
    {"00/00/0000 00:00:00", 6, 0, 3, 11, false, false, false}, /* examples of Hugging Face */
    {"00.00.0000 00:00:00", 6, 3, 0, 11, false, false, false},
    {"[00/00 00:00:00 ", -1, 1, 4, 7, false, false, false},  /* Detectron2 */
    {"[00/00/00 00:00:00]", 7, 1, 4, 10, false, true, true}, /* rich */
    {"00/00/00 00:00:00 ", 0, 3, 6, 9, false, true, true},   /* Spark */
    {"00-00-00 00:00:00", 0, 3, 6, 9, false, true, true},    /* BasicSR */
    {"00-00 00:00:00", -1, 0, 3, 6, false, true, false},     /* vLLM */
    {"0000 00:00:00.", -1, 0, 2, 5, true, false, false},
    {"00000000 00:00:00.", 0, 4, 6, 9, true, false, false},
    {"00000000-00:00:00", 0, 4, 6, 9, false, true, false},
};

static bool has_shape(const char *text, const char *shape)
{
    for (; *shape; shape++, text++)
        if (*shape == '0' ? !isdigit((unsigned char)*text)
                          : *text != *shape && !(*shape == ' ' && *text && strchr("T_", *text)))
            return false;
    return true;
}

/* Where a line begins behind what launchers and loggers put in front of it: "[rank0]:",
 * "[default0]:", "0: ", "(TaskRunner pid=42) ", "INFO ". */
static const char *beginning_of(const char *line)
{
    static const char *const levels[] = {"DEBUG", "INFO", "WARNING", "WARN", "ERROR"};
    const char *text = line + strspn(line, " ");
    size_t bytes = 0;
    if (*text == '[' || *text == '(') {
        bytes = strcspn(text, "])");
        if (isalpha((unsigned char)text[1]) && text[bytes])
            bytes += 1 + strspn(text + bytes + 1, ":");
        else
            bytes = 0;
    } else {
        size_t number = strspn(text, "0123456789");
        if (number && text[number] == ':' && text[number + 1] == ' ')
            bytes = number + 1;
    }
    text += bytes + strspn(text + bytes, " ");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        bytes = strlen(levels[i]);
        if (!strncmp(text, levels[i], bytes) && (text[bytes] == ' ' || text[bytes] == ':'))
            return text + bytes + 1 + strspn(text + bytes + 1, " ");
    }
    return text;
}

/* Is a letter of glog's levels before the text, as a word of its own? */
static bool follows_level(const char *text, const char *line)
{
    return text > line && strchr("IWEF", text[-1]) && (text == line + 1 || strchr(" :", text[-2]));
}

/* The shape of a date that begins here; NULL: no date does. `line`: its beginning; `begins`: where
 * it begins behind its prefixes. */
static const struct shape *shape_of(const char *text, const char *line, const char *begins)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (has_shape(text, shapes[i].text) && (!shapes[i].level || follows_level(text, line)) &&
            (!shapes[i].first || text == begins))
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

/* The ns of a date whose hour, minute and second are at `hour`: "00:53:22.5 PM"; *end: behind
 * them. STORE_ABSENT: there is no such date. Where the month cannot be one, days are before months.
 */
static int64_t moment(int year, int month, int day, const char *hour, const char **end)
{
    int swap = month > 12 && day <= 12;
    struct tm parts = {.tm_year = year - 1900,
                       .tm_mon = (swap ? day : month) - 1,
                       .tm_mday = swap ? month : day,
                       .tm_hour = digits(hour, 2),
                       .tm_min = digits(hour + 3, 2),
                       .tm_sec = digits(hour + 6, 2)};
    *end = hour + 8;
    int64_t fraction = fraction_of(end);
    bool half = (*end)[0] == ' ' && (*end)[1] && strchr("AP", (*end)[1]) && (*end)[2] == 'M';
    if (half) {
        parts.tm_hour = parts.tm_hour % 12 + ((*end)[1] == 'P' ? 12 : 0);
        *end += 3;
    }
    if (parts.tm_year < 70 || parts.tm_year > 200 || parts.tm_mon < 0 || parts.tm_mon > 11 ||
        parts.tm_mday < 1 || parts.tm_mday > 31 || parts.tm_hour > 23 || parts.tm_min > 59 ||
        parts.tm_sec > 60)
        return STORE_ABSENT;
    int64_t seconds = (int64_t)timegm(&parts);
    return seconds < 0 ? STORE_ABSENT : seconds * SECOND + fraction;
}

/* Takes the date from its place; *end: behind it. */
static int64_t date_at(const char *text, const struct shape *shape, const char **end)
{
    int year = LEAP_YEAR;
    if (shape->two)
        year = 2000 + digits(text + shape->year, 2);
    else if (shape->year >= 0)
        year = digits(text + shape->year, 4);
    return moment(year, digits(text + shape->month, 2), digits(text + shape->day, 2),
                  text + shape->hour, end);
}

/* The number of a month by its name; 0: another word. */
static int month_of(const char *text)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int i = 0; i < 12; i++)
        if (!strncmp(text, names + 3L * i, 3) && !isalpha((unsigned char)text[3]))
            return i + 1;
    return 0;
}

/* A date whose month is a name: "May 24 00:53:22" (syslog), "May 24 00:53:22 2024" (ctime), "24 May
 * 2024 00:53:22", "24-May-24 00:53:22", "24/May/2024:00:53:22". *end: behind it. */
static int64_t named_date_at(const char *text, const char **end, enum log_clock *clock)
{
    int day = 0, year = LEAP_YEAR, month = month_of(text), used = 0;
    *clock = LOG_OF_YEAR;
    if (month) {
        if (sscanf(text + 3, " %2d %n", &day, &used) != 1 || !used ||
            !has_shape(text + 3 + used, "00:00:00"))
            return STORE_ABSENT;
        const char *hour = text + 3 + used, *behind = hour + 8;
        fraction_of(&behind);
        if (has_shape(behind, " 0000") && *behind == ' ' && !isdigit((unsigned char)behind[5])) {
            *clock = LOG_DATED;
            year = digits(behind + 1, 4);
        }
        int64_t time = moment(year, month, day, hour, end);
        *end = *clock == LOG_DATED && time != STORE_ABSENT ? behind + 5 : *end;
        return time;
    }
    size_t number = strspn(text, "0123456789");
    if (number < 1 || number > 2 || !text[number] || !strchr(" -/", text[number]) ||
        !(month = month_of(text + number + 1)) || text[number + 4] != text[number])
        return STORE_ABSENT; /* the line may end behind the day or the month */
    const char *behind = text + number + 5;
    size_t year_digits = strspn(behind, "0123456789");
    if ((year_digits != 2 && year_digits != 4) || !behind[year_digits] ||
        !strchr(" :T", behind[year_digits]) || !has_shape(behind + year_digits + 1, "00:00:00"))
        return STORE_ABSENT;
    *clock = LOG_DATED;
    year = digits(behind, (int)year_digits) + (year_digits == 2 ? 2000 : 0);
    return moment(year, month, digits(text, (int)number), behind + year_digits + 1, end);
}

/* The time of day that a line begins with, also in brackets; *end: behind it. */
static int64_t day_time_at(const char *begins, const char **end)
{
    const char *text = begins + (*begins == '[' || *begins == '(');
    if (!has_shape(text, "00:00:00"))
        return STORE_ABSENT;
    int64_t time = moment(1970, 1, 1, text, end);
    return **end && strchr(" ])|,:-\t", **end) ? time : STORE_ABSENT;
}

int64_t log_seconds(const char *text)
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
    return count >= 2 && days >= 0 ? days * INT64_C(86400) + seconds : STORE_ABSENT;
}

/* "1h 2m 3s", of which some may be missing, as s; STORE_ABSENT: another text. */
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
    return any ? seconds : STORE_ABSENT;
}

/* What has passed since the start: "elapsed_time": "1h 2m 3s" of LLaMA-Factory and ms-swift, the
 * "elapsed:05:44" of a progress bar that is logged. With other words only a clock is such a time:
 * seconds may be those of a part. */
static int64_t elapsed_in(const char *line)
{
    static const struct {
        const char *text;
        bool clock;
    } names[] = {{"elapsed_time\": \"", false}, {"elapsed_time': '", false}, {" elapsed:", false},
                 {" elapsed: ", true},          {" elapsed ", true},         {" elapsed=", true},
                 {"elapsed time: ", true}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = strstr(line, names[i].text);
        if (!text)
            continue;
        int64_t seconds = log_seconds(text + strlen(names[i].text));
        if (seconds == STORE_ABSENT && !names[i].clock)
            seconds = units_of(text + strlen(names[i].text));
        if (seconds != STORE_ABSENT)
            return seconds * SECOND;
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

/* A date anywhere in a line; *from..*end: where. STORE_ABSENT: the line has no date. */
static int64_t date_in(const char *line, size_t bytes, const char *begins, const char **from,
                       const char **end, enum log_clock *clock)
{
    for (const char *text = line; text < line + bytes; text++) {
        const struct shape *shape = shape_of(text, line, begins);
        int64_t time = STORE_ABSENT;
        *from = text;
        if (shape) {
            *clock = shape->year < 0 ? LOG_OF_YEAR : LOG_DATED;
            time = date_at(text, shape, end);
        } else if (text == line || !isalnum((unsigned char)text[-1])) {
            time = named_date_at(text, end, clock);
        }
        if (time != STORE_ABSENT || shape)
            return time;
    }
    return STORE_ABSENT;
}

int64_t log_take_time(char *line, size_t bytes, enum log_clock *clock)
{
    const char *from = line, *end = line, *begins = beginning_of(line);
    *clock = LOG_DATED;
    int64_t time = seconds_at(line, &end);
    if (time == STORE_ABSENT)
        time = date_in(line, bytes, begins, &from, &end, clock);
    if (time == STORE_ABSENT && end <= from) { /* nor digits that only look like a date */
        *clock = LOG_PASSED;
        time = elapsed_in(line);
        if (time != STORE_ABSENT)
            return time;
        from = begins;
        *clock = LOG_OF_DAY;
        time = day_time_at(begins, &end);
    }
    if (end > from && (time != STORE_ABSENT || *clock != LOG_OF_DAY))
        memset(line + (from - line), '|', (size_t)(end - from));
    if (time == STORE_ABSENT)
        *clock = LOG_DATED;
    return time;
}

/* ---- a whole log ------------------------------------------------------------------------------- */

void log_times_add(struct log_times *times, const struct log_values *values)
{
    bool step = (values->has[LOG_STEP] || values->has[LOG_GLOBAL_STEP]) && log_values_tell(values);
    if (values->time != STORE_ABSENT)
        times->count[step][values->clock]++;
}

void log_times_end(struct log_times *times)
{
    bool step = false;
    for (int clock = 0; clock < LOG_CLOCKS; clock++)
        step |= times->count[1][clock] > 0;
    if (!step && times->count[0][LOG_DATED] + times->count[0][LOG_PASSED] > 0)
        times->count[0][LOG_OF_DAY] = 0; /* what goes before other lines says less */
    for (int clock = 0; clock < LOG_CLOCKS; clock++)
        if (times->count[step][clock] > times->count[step][times->clock])
            times->clock = (enum log_clock)clock;
    times->last = times->given = STORE_ABSENT;
}

void log_times_follow(struct log_times *times, struct log_values *values)
{
    static const int64_t periods[] = {
        [LOG_DATED] = 0, [LOG_PASSED] = 0, [LOG_OF_YEAR] = 366 * DAY, [LOG_OF_DAY] = DAY};
    /* 1972-02-29 and the day after it */
    const int64_t leap_day = (2 * 365 + 59) * DAY, march = leap_day + DAY;
    bool step = values->has[LOG_STEP] || values->has[LOG_GLOBAL_STEP];
    if (values->time == STORE_ABSENT && values->indented && step)
        values->time = times->given;
    else if (values->time == STORE_ABSENT)
        times->given = STORE_ABSENT;
    if (values->time == STORE_ABSENT || values->indented)
        return;
    if (values->clock != times->clock) {
        values->time = STORE_ABSENT;
        return;
    }
    int64_t period = periods[times->clock], now = values->time, last = times->last;
    bool wraps = period && last != STORE_ABSENT && now < last - period / 2;
    bool late = times->offset && now > last + period - period / 10; /* of before the midnight */
    if (wraps && times->offset <= IMP_TIME_MAX - period)
        times->offset += period;
    if (times->clock == LOG_OF_YEAR && last != STORE_ABSENT && last < leap_day &&
        last >= leap_day - DAY && now >= march && now < march + DAY)
        times->offset -= DAY; /* a year without that day */
    if (last == STORE_ABSENT || wraps || (now > last && !late))
        times->last = now;
    values->time = now + times->offset - (late ? period : 0);
    times->given = values->time;
}
