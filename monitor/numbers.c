/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of the run that is watched: is the loss sound and does it fall, does memory leak, do
 * clocks drop? What else is sampled is kept as evidence of causes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/words.h"
#include "monitor/private.h"

#define SPIKE_DEVIATIONS 10   /* of a value above its centre, */
#define SPIKE_LOSS       0.1  /* and so much of the centre: of a loss, */
#define SPIKE_NORM       1.0  /* of a gradient norm, whose noise has long tails */
#define SPIKE_RATE       3e-5 /* share of single values above what this series reaches by itself */
#define SPIKE_PRIOR      20   /* deviations of one that each series is taken to have had */
#define SPIKE_RECORD     1.5  /* times the greatest so far: out of the ordinary in any case */
#define SPIKE_CLIP       2    /* a spike is remembered as so many limits at most */
#define LASTING          5    /* values whose median is high: it is not one value */
#define STAYS_UP         32   /* values on a risen level until that is a page */
#define PLATEAU          0.005
#define LOSS_STRIDE      16   /* losses of a point of the long trend */
#define MEMORY_STRIDE    10   /* samples of a point */
#define SLOW_SAMPLES     10   /* samples of clocks and temperatures that one value is made of */
#define GROWN            0.01 /* of the limit: less is no leak yet */
#define LEAK_LEAST_S     60   /* seen for so long */
#define HORIZON_S        (48 * 3600.0)
#define SOON_S           3600 /* out of memory sooner than that is a page */

static const struct {
    const char *name;
    enum mon_counter_use use;
} uses[] = {
    {"loss", MON_USE_LOSS},
    {"train_loss", MON_USE_LOSS},
    {"train/loss", MON_USE_LOSS},
    {"training_loss", MON_USE_LOSS},
    {"grad_norm", MON_USE_NORM},
    {"gradient_norm", MON_USE_NORM},
    {"rss_anon", MON_USE_MEMORY},
    {"gpu_memory_used", MON_USE_MEMORY},
    {"gpu_clock_sm", MON_USE_SLOW},
    {"gpu_temperature", MON_USE_SLOW},
    {"memory_available", MON_USE_AVAILABLE},
};

struct mon_counter *mon_counter(struct mon_monitor *monitor, const char *name, const char *device,
                                int64_t rank)
{
    struct mon_kept_series *kept = mon_history_series(&monitor->history, name, device, rank);
    enum mon_counter_use use = MON_USE_EVIDENCE;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (!strcmp(name, uses[i].name))
            use = uses[i].use;
    if (use == MON_USE_EVIDENCE && !kept)
        return NULL;
    if (an_grow(&monitor->counter, &monitor->counter_room, monitor->counter_count + 1,
                sizeof(struct mon_counter *)))
        return NULL;
    struct mon_counter *counter = calloc(1, sizeof *counter);
    if (!counter)
        return NULL;
    *counter = (struct mon_counter){.use = use, .rank = rank, .kept = kept};
    snprintf(counter->name, sizeof counter->name, "%s", name);
    snprintf(counter->device, sizeof counter->device, "%s", device ? device : "");
    mon_watched_begin(&counter->watched, use == MON_USE_SLOW ? &mon_shift_slow : &mon_shift_loss,
                      strcmp(name, "gpu_clock_sm") != 0);
    mon_tail_add(&counter->tail, SPIKE_PRIOR);
    mon_trail_init(&counter->trail, use == MON_USE_LOSS ? LOSS_STRIDE : MEMORY_STRIDE);
    return monitor->counter[monitor->counter_count++] = counter;
}

/* A symptom of a counter; of a rank only where there are several. */
static struct mon_symptom symptom_of(const struct mon_monitor *monitor,
                                     const struct mon_counter *counter, const char *code,
                                     enum mon_severity severity, enum mon_cause cause)
{
    struct mon_symptom symptom = mon_symptom_of(monitor, code, severity, cause);
    symptom.since_step = mon_step_at(monitor, counter->rank, counter->time);
    if (counter->rank >= 0 && monitor->history.rank_count > 1)
        symptom.rank[symptom.rank_count++] = counter->rank;
    return symptom;
}

/* ---- numbers of the training ----------------------------------------------------------------- */

/* A loss or a norm that is not finite. False: it is one. */
static bool is_finite(struct mon_monitor *monitor, struct mon_counter *counter, double value)
{
    if (isfinite(value)) {
        if (counter->not_finite)
            mon_clear(monitor, "NAN", counter->rank);
        counter->not_finite = false;
        return true;
    }
    monitor->step_not_finite = true;
    if (!counter->not_finite) {
        struct mon_symptom symptom =
            symptom_of(monitor, counter, "NAN", MON_PAGE, MON_CAUSE_NUMERICS);
        snprintf(symptom.text, sizeof symptom.text, "%s is not finite", counter->name);
        snprintf(symptom.changed, sizeof symptom.changed, "the last finite one was %.6g",
                 mon_shift_recent(&counter->watched.shift, 1));
        mon_raise(monitor, &symptom);
    }
    counter->not_finite = true;
    return false;
}

/* Is the newest value, or the median of the newest ones, far above the centre? A single one has to
 * be beyond what single values of this series are: small batches differ, and next time it is the
 * usual value again. */
static bool is_spike(struct mon_counter *counter, double value, double centre)
{
    const struct mon_shift *shift = &counter->watched.shift;
    double share = counter->use == MON_USE_LOSS ? SPIKE_LOSS : SPIKE_NORM;
    double limit =
        fmin(mon_tail_limit(&counter->tail, SPIKE_RATE), SPIKE_RECORD * counter->tail.largest[0]);
    double off = shift->deviation;
    bool lasts = mon_shift_lasting(shift, LASTING) > SPIKE_DEVIATIONS;
    bool single = off > SPIKE_DEVIATIONS && off > limit;
    if (!lasts)
        mon_tail_add(&counter->tail, fmin(off, SPIKE_CLIP * fmax(SPIKE_DEVIATIONS, limit)));
    return (single && value > (1 + share) * centre) ||
           (lasts && mon_shift_recent(shift, LASTING) > (1 + share) * centre);
}

static void check_spike(struct mon_monitor *monitor, struct mon_counter *counter, double value,
                        double centre, const char *code)
{
    bool spike = is_spike(counter, value, centre);
    if (spike && !counter->spiking) {
        char before[AN_WORDS], after[AN_WORDS];
        struct mon_symptom symptom =
            symptom_of(monitor, counter, code, MON_TICKET, MON_CAUSE_NUMERICS);
        symptom.before = centre;
        symptom.after = value;
        snprintf(symptom.text, sizeof symptom.text, "%s jumps: %s -> %s (%.1f deviations)",
                 counter->name, an_number_print(before, centre, 4),
                 an_number_print(after, value, 4), counter->watched.shift.deviation);
        mon_raise(monitor, &symptom);
    }
    if (!spike && counter->spiking)
        mon_clear(monitor, code, counter->rank);
    counter->spiking = spike;
}

/* The level rises for good: a run that diverges. A loss that has stayed up for long is a page. */
static void check_rise(struct mon_monitor *monitor, struct mon_counter *counter, bool stays,
                       const char *code)
{
    const struct mon_shift_found *risen = &counter->risen;
    char before[AN_WORDS], after[AN_WORDS];
    struct mon_symptom symptom =
        symptom_of(monitor, counter, code, stays ? MON_PAGE : MON_TICKET, MON_CAUSE_NUMERICS);
    symptom.since_step = risen->since;
    symptom.before = risen->before;
    symptom.after = risen->after;
    snprintf(symptom.text, sizeof symptom.text, "%s %s: %s -> %s", counter->name,
             stays ? "stays up" : "rises", an_number_print(before, risen->before, 4),
             an_number_print(after, risen->after, 4));
    mon_raise(monitor, &symptom);
}

static void check_plateau(struct mon_monitor *monitor, struct mon_counter *counter)
{
    bool flat = mon_plateau(&counter->trail, PLATEAU);
    if (flat && !counter->flat) {
        struct mon_symptom symptom =
            symptom_of(monitor, counter, "PLATEAU", MON_TICKET, MON_CAUSE_PLATEAU);
        symptom.since_step = (int64_t)counter->trail.place[counter->trail.count - 16];
        snprintf(symptom.text, sizeof symptom.text,
                 "%s has fallen by less than %.1f %% in the last eighth of the run", counter->name,
                 100 * PLATEAU);
        mon_raise(monitor, &symptom);
    }
    if (!flat && counter->flat)
        mon_clear(monitor, "PLATEAU", counter->rank);
    counter->flat = flat;
}

/* The level of a loss or a gradient norm: has it risen just now, has a loss been up for long? */
static void add_level(struct mon_monitor *monitor, struct mon_counter *counter, double value)
{
    bool loss = counter->use == MON_USE_LOSS;
    const char *code = loss ? "LOSS_RISES" : "GRAD_NORM_RISES";
    struct mon_watched *watched = &counter->watched;
    struct mon_shift_found found;
    bool rose = mon_watched_add(monitor, watched, value, monitor->last_step + 1, code,
                                counter->rank, &found);
    if (rose)
        counter->risen = found;
    bool stays = loss && watched->firing && watched->firing_values == STAYS_UP;
    if (rose || stays)
        check_rise(monitor, counter, stays, code);
}

/* A value of a loss or a gradient norm: is it finite, a spike, the begin of a rise, a plateau? */
static void add_number(struct mon_monitor *monitor, struct mon_counter *counter, int64_t time,
                       double value)
{
    bool loss = counter->use == MON_USE_LOSS;
    const struct mon_shift *shift = &counter->watched.shift;
    bool finite = is_finite(monitor, counter, value);
    double centre = mon_shift_centre(shift);
    if (!finite) {
        if (loss)
            mon_count_loss(monitor, time, 0, false);
        return;
    }
    *(loss ? &monitor->loss : &monitor->grad_norm) = value;
    add_level(monitor, counter, value);
    if (loss)
        mon_count_loss(monitor, time, mon_shift_lasting(shift, LASTING), true);
    if (!isnan(shift->deviation))
        check_spike(monitor, counter, value, centre, loss ? "LOSS_SPIKE" : "GRAD_NORM_SPIKE");
    if (loss && mon_trail_add(&counter->trail, (double)(monitor->last_step + 1), value))
        check_plateau(monitor, counter);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The bytes at which the memory of this counter is at its end; NAN: not known. */
static double limit_of(const struct mon_monitor *monitor, const struct mon_counter *counter)
{
    bool device = *counter->device != 0;
    double last = counter->trail.value[counter->trail.count - 1];
    if (device)
        return monitor->machine.device_memory_bytes > 0 ? monitor->machine.device_memory_bytes
                                                        : NAN;
    if (!isnan(monitor->available_bytes))
        return last + monitor->available_bytes;
    return monitor->machine.memory_bytes > 0 ? monitor->machine.memory_bytes : NAN;
}

static void raise_leak(struct mon_monitor *monitor, struct mon_counter *counter,
                       const struct mon_growth *growth, const struct mon_forecast *forecast)
{
    char per_s[AN_WORDS], at[AN_WORDS], soonest[AN_WORDS], latest[AN_WORDS];
    const struct mon_trail *trail = &counter->trail;
    double passed_s = mon_seconds(monitor->now_ns - monitor->begun_ns) -
                      trail->place[trail->count - 1]; /* a forecast counts from the last point */
    struct mon_symptom symptom =
        symptom_of(monitor, counter, "LEAK", forecast->soonest < SOON_S ? MON_PAGE : MON_TICKET,
                   MON_CAUSE_LEAK);
    double since_s = trail->place[trail->count / 2],
           step_s = mon_progress_median(&monitor->progress);
    symptom.since_ns = monitor->begun_ns + (int64_t)(since_s * 1e9);
    symptom.since_step = -1; /* it has grown for as long as it was looked at */
    symptom.before = trail->value[trail->count / 2];
    symptom.after = trail->value[trail->count - 1];
    snprintf(symptom.unit, sizeof symptom.unit, "bytes");
    snprintf(symptom.text, sizeof symptom.text,
             "%s%s%s grows by %s MB/s; out of memory in %s (90 %%: %s to %s)", counter->name,
             *counter->device ? " of " : "", counter->device,
             an_number_print(per_s, growth->per_unit / 1e6, 3),
             an_time_print(at, 1e3 * fmax(0, forecast->at - passed_s), 2),
             an_time_print(soonest, 1e3 * fmax(0, forecast->soonest - passed_s), 2),
             an_time_print(latest, 1e3 * fmax(0, forecast->latest - passed_s), 2));
    if (step_s > 0)
        snprintf(symptom.changed, sizeof symptom.changed, "%s MB a step",
                 an_number_print(per_s, growth->per_unit * step_s / 1e6, 3));
    mon_raise(monitor, &symptom);
}

static void add_memory(struct mon_monitor *monitor, struct mon_counter *counter, int64_t time,
                       double value)
{
    struct mon_growth growth;
    struct mon_forecast forecast;
    struct mon_trail *trail = &counter->trail;
    if (!isfinite(value) || monitor->steps < MON_WARM_UP || /* loading is no leak */
        !mon_trail_add(trail, mon_seconds(time - monitor->begun_ns), value) ||
        !mon_growth(trail, &growth))
        return;
    double limit = limit_of(monitor, counter), last = trail->value[trail->count - 1];
    size_t half = trail->count - MON_TRAIL_POINTS / 2;
    bool leaks = mon_forecast(&growth, limit, &forecast) && forecast.at < HORIZON_S &&
                 last - trail->value[half] > GROWN * limit &&
                 trail->place[trail->count - 1] - trail->place[half] >= LEAK_LEAST_S;
    if (leaks && !counter->leaking)
        raise_leak(monitor, counter, &growth, &forecast);
    if (counter->leaking && !growth.steady)
        mon_clear(monitor, "LEAK", counter->rank);
    counter->leaking = leaks || (counter->leaking && growth.steady);
}

/* ---- clocks and temperatures ----------------------------------------------------------------- */

/* A sample of a clock or a temperature: several of them are one value of the detector. */
static void add_slow(struct mon_monitor *monitor, struct mon_counter *counter, double value)
{
    bool clock = !strcmp(counter->name, "gpu_clock_sm");
    struct mon_shift_found found;
    char code[MON_NAME], before[AN_WORDS], after[AN_WORDS];
    if (!isfinite(value))
        return;
    counter->sum += value;
    if (++counter->held < SLOW_SAMPLES)
        return;
    value = counter->sum / (double)counter->held;
    counter->sum = 0;
    counter->held = 0;
    snprintf(code, sizeof code, "%s_%.20s", clock ? "CLOCK" : "TEMPERATURE", counter->device);
    if (!mon_watched_add(monitor, &counter->watched, value, monitor->last_step + 1, code,
                         counter->rank, &found))
        return;
    struct mon_symptom symptom =
        symptom_of(monitor, counter, code, clock ? MON_TICKET : MON_INFO, MON_CAUSE_CLOCKS);
    symptom.since_step = found.since;
    symptom.before = found.before;
    symptom.after = found.after;
    snprintf(symptom.text, sizeof symptom.text, "%s of %s: %s -> %s",
             clock ? "SM clock (MHz)" : "temperature (C)", counter->device,
             an_number_print(before, found.before, 4), an_number_print(after, found.after, 4));
    mon_raise(monitor, &symptom);
}

void mon_counter_belongs(struct mon_counter *counter, int64_t rank)
{
    counter->rank = rank;
    if (counter->kept)
        counter->kept->rank = rank;
}

int mon_value(struct mon_monitor *monitor, struct mon_counter *counter, int64_t time, double value)
{
    monitor->now_ns = time > monitor->now_ns ? time : monitor->now_ns;
    counter->time = time;
    if (counter->kept)
        mon_kept_add(counter->kept, time, value);
    switch (counter->use) {
    case MON_USE_LOSS:
    case MON_USE_NORM:
        add_number(monitor, counter, time, value);
        break;
    case MON_USE_MEMORY:
        add_memory(monitor, counter, time, value);
        break;
    case MON_USE_SLOW:
        add_slow(monitor, counter, value);
        break;
    case MON_USE_AVAILABLE:
        monitor->available_bytes = isfinite(value) ? value : monitor->available_bytes;
        break;
    case MON_USE_EVIDENCE:
        break;
    }
    return 0;
}
