/* SPDX-License-Identifier: Apache-2.0
 *
 * Which step of which epoch a line is about, and what a time with a plain name is of. Both only
 * show in the lines together: whether steps begin anew with each epoch, and whether a time grows.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/import/logs/logs.h"

#define GROWN_LEAST 3    /* lines whose time is larger than in the line before */
#define FALLS       8    /* times as many grow as fall: a time begins anew with each epoch */
#define LARGER      2.0  /* times the least: what has passed becomes that large soon */
#define FAR_LARGER  10.0 /* times the least: no step becomes that slow line by line */
#define FIRST_MOST  2.0  /* times what it grows by from line to line: a start is near 0 */
#define SAME_WORK   1.2  /* times the least: a time and a speed are of as much */
#define DATES_S     5.0  /* s: dates that far apart tell how long a line took */
#define AGREES      0.25 /* of what dates say: so much is between them */
#define PAIRS_LEAST 3    /* lines whose time can be compared with that between their dates */
#define ALIKE       0.1  /* of the time between two dates */
#define ROUNDED_S   0.05 /* s: dates are not exact */

/* ---- lines ------------------------------------------------------------------------------------- */

int64_t log_epoch_in(const char *line)
{
    for (const char *text = line; (text = strcasestr(text, "epoch")); text += 5) {
        long long epoch;
        int used = 0;
        const char *number = text + 5;
        if (text > line && (isalnum((unsigned char)text[-1]) || text[-1] == '_'))
            continue;
        if (!strncmp(number, "(train)", 7))
            number += 7;
        number += strspn(number, " :=[(#\"'|");
        if (sscanf(number, "%9lld%n", &epoch, &used) == 1 && epoch >= 0 && used &&
            number[used] != '.' && number[used] != '%')
            return epoch;
    }
    return STORE_ABSENT;
}

bool log_is_of_total(const char *behind, int64_t step, int64_t *total)
{
    long long number;
    int used = 0;
    return sscanf(behind, " / %lld%n", &number, &used) == 1 && used && number >= step &&
           number > 0 && !strchr("/.%", behind[used] ? behind[used] : ' ') &&
           strncmp(behind + used, " [", 2) != 0 && (*total = number) > 0;
}

void log_place_named(struct log_values *values, double step, const char *behind)
{
    struct log_place *place = &values->place;
    int64_t total;
    if (!(step >= 0) || step > INT32_MAX || !log_is_of_total(behind, (int64_t)step, &total))
        return;
    if (values->has[LOG_STEP] && place->epoch == STORE_ABSENT)
        place->epoch = (int64_t)fmin(fmax(values->value[LOG_STEP], 0), INT32_MAX);
    place->step = (int64_t)step;
    place->total = total;
}

bool log_place_listed(struct log_values *values, double first, const char *text, const char *behind)
{
    long long step;
    int used = 0;
    if (text[-1] != '[' || !strchr(",]", *behind) || !*behind)
        return false;
    bool two = sscanf(behind, ", %lld%n", &step, &used) == 1 && behind[used] == ']' && step >= 0;
    if (!two) { /* of a whole epoch, or of a validation */
        values->evaluation = true;
        return true;
    }
    log_keep(values, LOG_STEP, (double)step);
    values->place.step = step;
    values->place.epoch = first >= 0 && first < INT32_MAX ? (int64_t)first : STORE_ABSENT;
    return true;
}

void log_place_end(struct log_values *values, const char *line)
{
    struct log_place *place = &values->place;
    int64_t epoch = log_epoch_in(line);
    bool listed = place->step != STORE_ABSENT && place->total == STORE_ABSENT;
    if (epoch != STORE_ABSENT && !listed)
        place->epoch = epoch;
    if (place->step == STORE_ABSENT && !values->progress && values->has[LOG_STEP] &&
        values->value[LOG_STEP] >= 0 && values->value[LOG_STEP] < INT32_MAX)
        place->step = (int64_t)values->value[LOG_STEP];
}

/* ---- a whole log ------------------------------------------------------------------------------- */

/* Do the steps begin anew with each epoch? */
static void add_epoch(struct log_places *places, const struct log_place *place)
{
    if (place->step == STORE_ABSENT || place->epoch == STORE_ABSENT)
        return;
    if (places->epoch != STORE_ABSENT && place->epoch > places->epoch)
        *(place->step <= places->step ? &places->anew : &places->on) += 1;
    places->epoch = place->epoch;
    places->step = place->step;
}

/* Adds the speed of a line, of whatever it counts: while a time of one step grows, the speed falls.
 */
static void add_speed(struct log_growth *growth, const struct log_values *values, double value)
{
    static const enum log_what speeds[] = {LOG_TOKENS_PER_S, LOG_TOKENS_PER_S_DEVICE,
                                           LOG_SAMPLES_PER_S, LOG_STEPS_PER_S};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        double work = values->has[speeds[i]] ? value * values->value[speeds[i]] : 0;
        if (!(work > 0) || !isfinite(work))
            continue;
        growth->rated_least = growth->rated++ ? fmin(growth->rated_least, work) : work;
        growth->rated_most = fmax(growth->rated_most, work);
        return;
    }
}

/* Adds by how much a time grew since the line before, and how far apart their dates are. */
static void add_dates(struct log_growth *growth, const struct log_values *values, double value)
{
    bool dated = values->time != STORE_ABSENT && values->clock == LOG_DATED;
    if (dated && growth->date != STORE_ABSENT && values->time > growth->date &&
        value > growth->last) {
        growth->dated += value - growth->last;
        growth->between += (double)(values->time - growth->date) / 1e9;
    }
    growth->date = dated ? values->time : STORE_ABSENT;
}

/* Adds a time to what shows whether it only grows. */
static void add_growth(struct log_growth *growth, const struct log_values *values, double value)
{
    if (!growth->lines) {
        growth->date = STORE_ABSENT;
        growth->first = value;
    }
    add_speed(growth, values, value);
    add_dates(growth, values, value);
    growth->one_step |= values->one_step;
    if (growth->lines++) {
        growth->sum += fmax(value - growth->last, 0);
        growth->grown += value > growth->last;
        growth->same += value >= growth->last && value <= growth->last;
        growth->fell += value < growth->last;
    }
    growth->least = growth->lines == 1 ? value : fmin(growth->least, value);
    growth->most = fmax(growth->most, value);
    growth->last = value;
}

/* Compares the time of a line with that since the date of the line before, of which there are more
 * steps between. */
static void add_pair(struct log_places *places, const struct log_values *values)
{
    double step = values->value[LOG_STEP];
    if (values->time == STORE_ABSENT || values->clock != LOG_DATED || !values->has[LOG_STEP])
        return;
    bool second = places->last_date != STORE_ABSENT;
    double passed = second ? (double)(values->time - places->last_date) / 1e9 : 0;
    if (second && step >= places->last_step + 2 && passed > 0) {
        places->pairs++;
        places->of_lines += fabs(values->vague_time - passed) <= ALIKE * passed + ROUNDED_S;
    }
    places->last_date = values->time;
    places->last_step = step;
}

void log_places_add(struct log_places *places, const struct log_values *values)
{
    bool step = values->has[LOG_STEP] || values->has[LOG_GLOBAL_STEP];
    if (!step || values->evaluation)
        return;
    add_epoch(places, &values->place);
    if (values->vague_time > 0) {
        add_growth(&places->vague, values, values->vague_time);
        add_pair(places, values);
    }
    if (values->passed > 0)
        add_growth(&places->passed, values, values->passed);
}

/* Is it what has passed since a start? Steps may become slower line by line, too: then the time of
 * the first line is large beside what it grows by, and speeds and dates tell. */
static bool grows(const struct log_growth *growth)
{
    if (growth->grown < GROWN_LEAST || growth->grown < FALLS * growth->fell ||
        growth->grown < growth->same || growth->most < LARGER * growth->least)
        return false;
    if (growth->rated > growth->lines / 2 && growth->rated_most <= SAME_WORK * growth->rated_least)
        return false;
    if (growth->between >= DATES_S) {
        if (fabs(growth->dated - growth->between) <= AGREES * growth->between)
            return true;
        if (growth->dated < growth->between / 2 || growth->dated > growth->between * 2)
            return false;
    }
    return growth->most >= FAR_LARGER * growth->least ||
           growth->first <= FIRST_MOST * growth->sum / (double)growth->grown;
}

void log_places_end(struct log_places *places, struct log_times *times)
{
    int64_t dated = 0, passed = 0;
    places->by_epoch = places->anew > places->on;
    places->vague_passes = !places->vague.one_step && !places->vague.same && grows(&places->vague);
    places->passes = grows(&places->passed);
    for (int clock = 0; clock < LOG_CLOCKS; clock++)
        dated += times->count[1][clock];
    passed = places->passes ? places->passed.lines : passed;
    passed = places->vague_passes && !passed ? places->vague.lines : passed;
    if (passed > dated)
        times->clock = LOG_PASSED;
    places->by_line = places->pairs >= PAIRS_LEAST && places->of_lines >= places->pairs * 3 / 4;
}

/* Makes the time of all steps since the line before that of one. */
static void share(struct log_places *places, struct log_values *values)
{
    double step = values->value[LOG_STEP], steps = step + 1 - places->line_end;
    values->has[LOG_STEP_TIME] = places->line_end > 0 && steps > 0;
    values->value[LOG_STEP_TIME] /= values->has[LOG_STEP_TIME] ? steps : 1;
    places->line_end = step + 1;
}

void log_places_apply(struct log_places *places, struct log_values *values)
{
    if (values->of_line && values->has[LOG_STEP] && values->has[LOG_STEP_TIME])
        share(places, values);
    const struct log_place *place = &values->place;
    bool vague = values->vague_time > 0, dated = values->time != STORE_ABSENT;
    double passed = NAN;
    if (places->by_epoch && place->step != STORE_ABSENT && place->epoch != STORE_ABSENT &&
        values->has[LOG_STEP] && !values->has[LOG_GLOBAL_STEP]) {
        values->value[LOG_STEP] = (double)place->step;
        values->by_epoch = true;
    }
    if (places->by_epoch && values->of_epochs) { /* a line of a whole epoch */
        values->has[LOG_STEP] = values->has[LOG_STEP_TIME] = values->progress = false;
        values->bar = 0;
    }
    if (vague && (places->vague_passes || (places->by_line && dated))) {
        values->has[LOG_STEP_TIME] = false;
        if (places->vague_passes)
            passed = values->vague_time;
    }
    if (places->passes && values->passed > 0)
        passed = values->passed;
    if (!dated && isfinite(passed) && passed < 1e9) {
        values->time = llround(passed * 1e9);
        values->clock = LOG_PASSED;
        values->grain = values->passed_grain;
    }
}
