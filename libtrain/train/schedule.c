/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedules of the learning rate, one function each. schedule.h has their formulas.
 */
#include "libtrain/train/schedule.h"

#include <math.h>
#include <string.h>

#define DECAY_SHARE  0.2 /* of wsd: the part of the steps in which the rate falls */
#define RISE_SHARE   0.3 /* of one-cycle: the part in which it rises */
#define CYCLE_FACTOR 25.0
#define CYCLE_FALL   1e4
#define HALF_TURN    3.14159265358979323846

/* Half a cosine from `from` (x = 0) to `to` (x = 1). */
static double half_cosine(double from, double to, double x)
{
    return to + (from - to) * 0.5 * (1 + cos(HALF_TURN * x));
}

static double line(double from, double to, double x)
{
    return from + (to - from) * x;
}

static double cosine(const struct lt_schedule *schedule, double x, int64_t step)
{
    (void)step;
    return half_cosine(schedule->peak, schedule->floor, x);
}

static double linear(const struct lt_schedule *schedule, double x, int64_t step)
{
    (void)step;
    return line(schedule->peak, schedule->floor, x);
}

static double constant(const struct lt_schedule *schedule, double x, int64_t step)
{
    (void)x, (void)step;
    return schedule->peak;
}

static double inverse_sqrt(const struct lt_schedule *schedule, double x, int64_t step)
{
    (void)x;
    int64_t warmup = schedule->warmup > 0 ? schedule->warmup : 1;
    return fmax(schedule->peak * sqrt((double)warmup / (double)(step + 1)), schedule->floor);
}

static double wsd(const struct lt_schedule *schedule, double x, int64_t step)
{
    (void)x;
    double last = (double)(schedule->steps - 1),
           falls = ceil(DECAY_SHARE * (double)schedule->steps);
    double into = falls - (last - (double)step);
    return into <= 0 ? schedule->peak : line(schedule->peak, schedule->floor, into / falls);
}

static double one_cycle(const struct lt_schedule *schedule, double x, int64_t step)
{
    (void)x;
    double last = (double)(schedule->steps - 1), turn = RISE_SHARE * (double)schedule->steps - 1,
           begin = schedule->peak / CYCLE_FACTOR;
    if ((double)step < turn)
        return half_cosine(begin, schedule->peak, (double)step / turn);
    turn = fmax(turn, 0);
    if ((double)step == turn)
        return schedule->peak;
    return half_cosine(schedule->peak, begin / CYCLE_FALL, ((double)step - turn) / (last - turn));
}

static double range(const struct lt_schedule *schedule, double x, int64_t step)
{
    double last = (double)(schedule->steps > 1 ? schedule->steps - 1 : 1);
    (void)x;
    return schedule->floor * pow(schedule->peak / schedule->floor, (double)step / last);
}

static const struct {
    const char *name;
    double (*rate)(const struct lt_schedule *schedule, double x, int64_t step);
} kinds[LT_SCHEDULE_COUNT] = {
#define ROW(id, function, text) [LT_SCHEDULE_##id] = {(text), (function)},
    LT_SCHEDULE_MAP(ROW)
#undef ROW
};

double lt_schedule_rate(const struct lt_schedule *schedule, int64_t step)
{
    int64_t last = schedule->steps - 1, warmup = schedule->warmup;
    step = step < last || last < 0 ? step : last;
    int warms = schedule->kind != LT_SCHEDULE_ONE_CYCLE && schedule->kind != LT_SCHEDULE_RANGE;
    if (warms && step < warmup)
        return schedule->peak * (double)(step + 1) / (double)warmup;
    if (warms && last <= warmup)
        return schedule->peak;
    return kinds[schedule->kind].rate(schedule, (double)(step - warmup) / (double)(last - warmup),
                                      step);
}

int lt_schedule_find(const char *name)
{
    for (int i = 0; i < LT_SCHEDULE_COUNT; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return i;
    return -1;
}
