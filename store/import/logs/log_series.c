/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps and series from the quantities of a log. A log has a line every so many steps, with the
 * mean of their time: each of these steps gets that mean.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/import/logs/logs.h"

#define SECOND      1e9
#define TOGETHER    10000   /* steps of one line at most; more: the program skipped some */
#define STEPS_MOST  4000000 /* rows of steps; beyond, a line becomes one row */
#define STEP_S_MOST 1e7
#define COARSE_MOST INT64_C(10000000000) /* ns: of less, whole seconds are too coarse */
#define FAR         8 /* times the time between two lines: no other process is so late */
#define AMOUNT_MOST 9e15
#define GRAINS      10   /* of its last digit make a time exact enough */
#define ROUNDED     0.02 /* times that may be off by more are said to be rounded */

void log_series_begin(struct log_series *series, struct imp_rows *rows)
{
    *series = (struct log_series){.rows = rows,
                                  .index = STORE_ABSENT,
                                  .last_index = STORE_ABSENT,
                                  .last_time = STORE_ABSENT,
                                  .engine_time = STORE_ABSENT,
                                  .place = {STORE_ABSENT, STORE_ABSENT, STORE_ABSENT},
                                  .single_ns = NAN,
                                  .consumed_tokens = NAN,
                                  .consumed_samples = NAN};
}

/* ---- one step ---------------------------------------------------------------------------------- */

/* A value of the present step in lo..hi; NAN: there is none. */
static double value_of(const struct log_series *series, enum log_what what, double lo, double hi)
{
    double value = series->now.value[what];
    return series->now.has[what] && value >= lo && value <= hi ? value : NAN;
}

/* How many steps the present line is about. */
static int64_t steps_of(const struct log_series *series)
{
    int64_t more = 1;
    if (series->last_index == STORE_ABSENT && series->now.progress &&
        series->index == series->now.total)
        more = series->index; /* a bar that is only drawn at its end */
    else if (series->last_index != STORE_ABSENT)
        more = series->index - series->last_index;
    return more >= 1 && more <= TOGETHER ? more : 1;
}

/* Is the time of the present line that of the last one, in a log of whole seconds or of short
 * steps, or with a time of few digits not much later? Then its steps last until a line has another
 * time. */
static bool waits(const struct log_series *series)
{
    if (series->now.time == STORE_ABSENT || series->last_time == STORE_ABSENT)
        return false;
    double passed = (double)(series->now.time - series->last_time) / SECOND;
    return (series->now.time == series->last_time ||
            (passed > 0 && passed < GRAINS * series->now.grain)) &&
           series->last_index != STORE_ABSENT && series->index > series->last_index &&
           series->index - series->last_index <= TOGETHER;
}

/* Do the steps since the last time fill only a part of a second? A log begins within one. */
static bool is_part(const struct log_series *series)
{
    return series->shared && !series->begins && series->now.time > series->last_time &&
           series->now.time % (int64_t)SECOND == 0 && series->last_time % (int64_t)SECOND == 0;
}

/* ns of one step: as the line says, also as steps per second, else from the times of this line and
 * the one before if they are exact enough, else the mean since the start. NAN: not known. */
static double step_ns(const struct log_series *series, int64_t steps)
{
    double said = value_of(series, LOG_STEP_TIME, 1e-9, STEP_S_MOST) * SECOND;
    if (!isfinite(said))
        said = SECOND / value_of(series, LOG_STEPS_PER_S, 1 / STEP_S_MOST, SECOND);
    bool dated = series->now.time != STORE_ABSENT && series->last_time != STORE_ABSENT &&
                 series->last_index != STORE_ABSENT && series->index > series->last_index &&
                 series->now.time > series->last_time &&
                 !(series->now.coarse && series->now.time - series->last_time < COARSE_MOST);
    if (!isfinite(said) && dated && !is_part(series) && !waits(series))
        said = (double)(series->now.time - series->last_time) / (double)steps;
    if (!isfinite(said))
        said = value_of(series, LOG_MEAN_TIME, 1e-9, STEP_S_MOST) * SECOND;
    return said <= STEP_S_MOST * SECOND ? said : NAN;
}

/* Tokens or samples of one step: what was consumed since the line before, else `each`, else the
 * rate that the line has. */
static int64_t amount_of(const struct log_series *series, enum log_what consumed, double before,
                         double each, enum log_what rate, double ns, int64_t steps)
{
    double amount = (value_of(series, consumed, 0, AMOUNT_MOST) - before) / (double)steps;
    if (!isfinite(amount) || amount <= 0)
        amount = each;
    if (!isfinite(amount))
        amount = value_of(series, rate, 0, AMOUNT_MOST) * ns / SECOND;
    return isfinite(amount) && amount >= 0.5 && amount < AMOUNT_MOST ? llround(amount)
                                                                     : STORE_ABSENT;
}

/* Tokens of one step as the program says. A total batch may be of samples, too: it is of tokens if
 * the rate of the line agrees, which is often smoothed. NAN: not known. */
static double tokens_each(const struct log_series *series, double ns)
{
    const struct log_values *settings = &series->settings;
    double each = value_of(series, LOG_STEP_TOKENS, 1, AMOUNT_MOST),
           total = settings->value[LOG_TOTAL_BATCH],
           found = value_of(series, LOG_TOKENS_PER_S, 0, AMOUNT_MOST) * ns / SECOND;
    if (!isfinite(each) && settings->has[LOG_STEP_TOKENS])
        each = settings->value[LOG_STEP_TOKENS];
    if (!isfinite(each) && settings->has[LOG_TOTAL_BATCH] && fabs(found / total - 1) < 0.5)
        each = total;
    return each;
}

static int write_steps(struct log_series *series, int64_t end, double ns, int64_t steps)
{
    struct imp_rows *rows = series->rows;
    int64_t each = llround(ns), before = steps;
    int64_t tokens = amount_of(series, LOG_CONSUMED_TOKENS, series->consumed_tokens,
                               tokens_each(series, ns), LOG_TOKENS_PER_S, ns, steps),
            samples = amount_of(series, LOG_CONSUMED_SAMPLES, series->consumed_samples,
                                value_of(series, LOG_BATCH, 1, AMOUNT_MOST), LOG_SAMPLES_PER_S, ns,
                                steps);
    int rc = 0;
    if (series->steps > STEPS_MOST)
        before = 1;
    if (before > series->most)
        series->most = before;
    for (; before > 0 && !rc; before--) {
        struct store_step step = {.process = rows->process,
                                  .index = series->index - before + 1,
                                  .start = end - before * each,
                                  .end = end - (before - 1) * each,
                                  .tokens = tokens,
                                  .samples = samples};
        series->steps++;
        rc = rows->run->salvage_only ? 0 : store_step_add(rows->run->db, &step);
    }
    return rc;
}

/* Writes the steps of a line whose time is that of its last step: the others are like the one that
 * was timed before, or this one, whichever is less. */
static int write_last(struct log_series *series, int64_t end, double ns, int64_t steps)
{
    double others = series->single_ns < ns ? series->single_ns : ns;
    int64_t before = end - llround(ns);
    int rc = write_steps(series, before, others, steps - 1);
    series->timed_one = steps > series->timed_one ? steps : series->timed_one;
    return rc ? rc : write_steps(series, end, ns, 1);
}

/* Writes one value of a series, whose track is made at its first value. */
static int write_value(struct log_series *series, enum log_what what, int64_t time)
{
    static const char *const unit_of[] = {
#define LOG_UNIT(key, name, unit) unit,
        LOG_WHAT_MAP(LOG_UNIT)
#undef LOG_UNIT
    };
    int rc = 0;
    if (!series->track[what])
        rc = imp_rows_counter_track(series->rows, what, NULL, log_series_name(what), unit_of[what],
                                    &series->track[what]);
    return rc ? rc
              : imp_rows_counter(series->rows, series->track[what], time, series->now.value[what]);
}

static int write_values(struct log_series *series, int64_t time)
{
    int rc = 0;
    for (int what = 0; what < LOG_WHAT_COUNT && !rc; what++)
        if (series->now.has[what] && log_series_name((enum log_what)what) && !series->by_tag)
            rc = write_value(series, (enum log_what)what, time);
    return rc;
}

/* Is the line where a bar begins, of no step that it trained? */
static bool begins_bar(const struct log_values *values)
{
    return values->bar && (values->resumed || values->value[LOG_STEP] <= 0);
}

/* The rows and the values of a line. */
static int write_line(struct log_series *series, int64_t steps, double ns)
{
    int64_t end = series->now.time;
    int rc = 0;
    if (isfinite(ns)) {
        /* Times of lines are often whole seconds: steps do not overlap because of that. */
        bool fits = ns * (double)steps < (double)IMP_TIME_MAX,
             single = series->now.single && steps > 1;
        double others = single && series->single_ns < ns ? series->single_ns : ns;
        int64_t least =
            fits ? series->last_end + llround(others) * (steps - 1) + llround(ns) : INT64_MAX;
        end = end == STORE_ABSENT || end < least ? least : end;
        if (end > IMP_TIME_MAX || least > IMP_TIME_MAX) {
            series->rows->bad_time++;
            return 0;
        }
        rc = single ? write_last(series, end, ns, steps) : write_steps(series, end, ns, steps);
        series->single_ns = ns;
        series->last_end = end;
    } else if (end == STORE_ABSENT && begins_bar(&series->now)) {
        end = series->last_end;
    } else if (end == STORE_ABSENT) {
        series->untimed++;
    }
    if (!rc && end != STORE_ABSENT)
        rc = write_values(series, end);
    if (isfinite(ns) || !waits(series)) {
        series->consumed_tokens = value_of(series, LOG_CONSUMED_TOKENS, 0, AMOUNT_MOST);
        series->consumed_samples = value_of(series, LOG_CONSUMED_SAMPLES, 0, AMOUNT_MOST);
    }
    return rc;
}

/* Writes the lines of a bar that were kept until what had passed was known. */
static int write_span(struct log_series *series)
{
    struct log_span *span = &series->span;
    struct log_values now = series->now;
    int64_t index = series->index;
    int rc = 0;
    if (span->count)
        log_span_fit(span);
    for (size_t i = 0; i < span->count && !rc; i++) {
        series->now = span->draw[i].values;
        series->index = span->draw[i].index;
        rc = write_line(series, span->draw[i].steps, span->draw[i].ns);
    }
    span->count = 0;
    series->now = now;
    series->index = index;
    return rc;
}

/* Keeps a line of a bar. Those that the bar drew when it began, or after a pause, are apart. */
static int keep_draw(struct log_series *series, int64_t steps, double ns)
{
    struct log_span *span = &series->span;
    struct log_draw draw = {
        .index = series->index, .steps = steps, .ns = ns, .values = series->now};
    bool follows = log_span_follows(span, &series->now);
    int rc = 0;
    series->fitted |= follows;
    if (!follows || log_span_is_far(span, &series->now))
        rc = write_span(series);
    if (!rc && log_span_add(span, &draw))
        rc = write_span(series);
    return rc;
}

/* Ends the present step: its rows, the values of its series. */
static int end_step(struct log_series *series)
{
    int64_t steps = steps_of(series);
    double ns = step_ns(series, steps);
    bool drawn = series->now.bar && series->now.elapsed != STORE_ABSENT;
    int rc = 0;
    if (!series->any)
        return 0;
    series->any = false;
    series->rows->run->events++;
    series->validated |= series->now.validated;
    if (series->now.most > 0)
        series->rounded = fmax(series->rounded, (series->now.most - series->now.least) /
                                                    (series->now.most + series->now.least));
    series->smoothed |= series->now.bar && series->now.has[LOG_STEP_TIME] && !drawn;
    if (drawn) {
        rc = keep_draw(series, steps, ns);
    } else {
        rc = write_span(series);
        if (!rc)
            rc = write_line(series, steps, ns);
    }
    if (!isfinite(ns) && waits(series)) {
        series->shared = true;
        return rc;
    }
    series->begins = series->last_time != STORE_ABSENT && series->now.time > series->last_time;
    series->shared = false;
    series->last_index = series->index;
    series->last_time = series->now.time;
    return rc;
}

/* ---- lines ------------------------------------------------------------------------------------- */

/* Is a bar at its end that of another epoch than the one before, which is at its end, too? */
static bool is_drawn_anew(const struct log_series *series, const struct log_values *values)
{
    return values->value[LOG_STEP] == (double)values->total &&
           (values->label != series->label || values->elapsed < series->elapsed);
}

/* The number of a step that is counted in each epoch. Where the lines do not say how many steps an
 * epoch has, the next begins anew, as a restart does. */
static int64_t index_by_epoch(struct log_series *series, const struct log_place *place)
{
    struct log_place *last = &series->place;
    if (last->epoch != STORE_ABSENT && place->epoch != last->epoch) {
        double epochs = (double)(place->epoch - last->epoch),
               base = (double)series->base + epochs * (double)last->total;
        bool known = last->total != STORE_ABSENT && place->total == last->total;
        if (known && base >= 0 && base < AMOUNT_MOST)
            series->base = (int64_t)base;
        series->apart = !known;
    }
    *last = *place;
    return series->base + place->step;
}

/* The number of the step of a line; STORE_ABSENT: it has none. The steps of a progress bar begin
 * anew in each epoch. */
static int64_t index_of(struct log_series *series, const struct log_values *values)
{
    enum log_what what = values->has[LOG_GLOBAL_STEP] ? LOG_GLOBAL_STEP : LOG_STEP;
    double number = values->value[what];
    if (!values->has[what] || !(number >= 0) || number > AMOUNT_MOST)
        return STORE_ABSENT;
    int64_t index = (int64_t)number;
    if (values->by_epoch)
        return index_by_epoch(series, &values->place);
    if (!values->progress || what == LOG_GLOBAL_STEP)
        return index;
    int64_t done = series->index - series->base;
    bool anew =
        !values->resumed && (done > index || (done == index && is_drawn_anew(series, values)));
    if (series->index != STORE_ABSENT && anew && series->base <= INT64_MAX / 4)
        series->base +=
            values->total > done && values->total < INT64_MAX / 4 ? values->total : done;
    series->label = values->label;
    series->elapsed = values->elapsed;
    return series->base + index;
}

/* Adds what a step does not have yet: ranks that print the same step count once. */
static void merge(struct log_values *now, const struct log_values *values)
{
    log_drawn_narrow(now, values);
    for (int what = 0; what < LOG_WHAT_COUNT; what++) {
        if (!values->has[what] || now->has[what])
            continue;
        now->has[what] = true;
        now->value[what] = values->value[what];
    }
    if (now->time == STORE_ABSENT)
        now->time = values->time;
}

/* A line of a step ends the one before. */
static int open_step(struct log_series *series, int64_t index, const struct log_values *values)
{
    int rc = end_step(series);
    series->index = index;
    series->any = true;
    series->now = *values;
    if (series->now.time == STORE_ABSENT)
        series->now.time = series->engine_time;
    series->engine_time = STORE_ABSENT;
    return rc;
}

/* The program began anew from a checkpoint, or with another epoch: what was kept is of it. */
static int restart(struct log_series *series)
{
    int rc = end_step(series);
    series->last_index = STORE_ABSENT;
    series->last_time = STORE_ABSENT;
    for (size_t i = 0; i < series->kept_count && !rc; i++)
        rc = open_step(series, series->kept_index[i], &series->kept[i]);
    series->kept_count = 0;
    return rc;
}

/* Another process printed what was kept: of the step it adds what that does not have. */
static void drop_kept(struct log_series *series)
{
    if (series->kept_count)
        merge(&series->now, &series->kept[series->kept_count - 1]);
    series->kept_count = 0;
}

int log_series_resume(struct log_series *series)
{
    drop_kept(series);
    return restart(series);
}

/* Is the time of the first line that was kept far from that of the step before it? */
static bool jumps(const struct log_series *series)
{
    int64_t now = series->now.time, kept = series->kept[0].time;
    return now != STORE_ABSENT && kept != STORE_ABSENT && series->last_time != STORE_ABSENT &&
           fabs((double)kept - (double)now) > FAR * ((double)now - (double)series->last_time);
}

/* A line of a step that is not beyond the present one: of another process that prints the same
 * steps, later, or of a restart. It is kept until others tell: a restart goes on. */
static int keep_back(struct log_series *series, int64_t index, const struct log_values *values)
{
    size_t count = series->kept_count;
    int rc = 0;
    if (count && index == series->kept_index[count - 1]) {
        merge(&series->kept[count - 1], values);
        return 0;
    }
    if (count && index < series->kept_index[count - 1]) {
        if (count > 1)
            rc = restart(series);
        series->kept_count = 0;
    }
    count = series->kept_count++;
    series->kept_index[count] = index;
    series->kept[count] = *values;
    if (!rc && (count + 1 == LOG_KEPT_MOST || (count == 1 && jumps(series))))
        rc = restart(series);
    return rc;
}

/* What a line without a step is about. */
static struct log_values *present(struct log_series *series)
{
    if (series->index == STORE_ABSENT)
        return &series->settings; /* before the first step */
    return series->kept_count ? &series->kept[series->kept_count - 1] : &series->now;
}

int log_series_add(struct log_series *series, const struct log_values *values)
{
    int64_t index = index_of(series, values);
    if (index == STORE_ABSENT) {
        if (values->engine) /* ends the step whose line follows */
            series->engine_time = values->time;
        merge(present(series), values);
        return 0;
    }
    if (values->resumed || (values->by_epoch && series->apart)) {
        series->apart = false;
        int rc = restart(series);
        return rc ? rc : open_step(series, index, values);
    }
    if (series->any && (index < series->index || (index == series->index && series->kept_count)))
        return keep_back(series, index, values);
    drop_kept(series);
    if (!series->any || index != series->index)
        return open_step(series, index, values);
    merge(&series->now, values);
    return 0;
}

/* What the report says of where the steps are from. */
static int name_source(const struct log_series *series, const char *tool)
{
    char text[280], means[64] = "", digits[48] = "";
    const char *of = "", *bar = "";
    store *db = series->rows->run->db;
    if (tool)
        of = " of ";
    if (series->timed_one > 1)
        snprintf(means, sizeof means, ", one of up to %" PRId64 " steps timed", series->timed_one);
    else if (series->most > 1)
        snprintf(means, sizeof means, ", means of up to %" PRId64 " steps each", series->most);
    if (series->smoothed)
        bar = ", smoothed by its progress bar";
    else if (series->fitted)
        bar = ", smoothed by its progress bar except in sum";
    else if (series->validated)
        bar = ", validation included";
    if (series->rounded >= ROUNDED)
        snprintf(digits, sizeof digits, ", rounded by up to %.0f %%", 100 * series->rounded);
    snprintf(text, sizeof text, "log%s%s%s%s%s", of, tool ? tool : "", means, bar, digits);
    int rc = store_run_set(db, "steps.marked_by", text);
    return rc || !tool ? rc : store_run_set(db, "source.tool", tool);
}

int log_series_end(struct log_series *series, const char *tool)
{
    drop_kept(series);
    int rc = end_step(series);
    if (!rc)
        rc = write_span(series);
    if (!rc && series->untimed)
        rc = imp_loss(series->rows->run, "line of a step without a time", series->untimed);
    return rc || series->rows->run->salvage_only ? rc : name_source(series, tool);
}
