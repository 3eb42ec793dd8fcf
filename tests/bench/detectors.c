/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of docs/monitor.md: false alarms and delays of the monitor's detectors beside rules
 * that people use, on series drawn by seed (tests/unit/monitor/mon_series.h). Prints Markdown.
 *
 *     build/tests/bench/detectors [SEED]     other seeds than those the rules were chosen on
 *     build/tests/bench/detectors --series SEED FILE...     series of real runs (public_logs.sh),
 * in which changes are planted by seed
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/detect/shift.h"
#include "monitor/monitor.h"
#include "tests/unit/monitor/mon_job.h"

#define SERIES   40
#define STEPS    10000 /* of each */
#define TRIALS   1000
#define BEFORE   300 /* steps before a change */
#define PATIENCE 100 /* steps after it; a change that is found later is missed */
#define WINDOW   128

/* ---- rules ----------------------------------------------------------------------------------- */

/* What the simple rules compare with: the newest values, oldest first. */
struct past {
    double value[WINDOW];
    size_t count;
    double centre, sd;   /* of the window, robust */
    double first_centre; /* of the first window */
    int high;            /* of the last five, as bits */
    double last[9];
    size_t last_count;
    int64_t quiet; /* steps for which a rule that fired stays silent */
};

struct rule {
    const char *name;
    bool (*fires)(struct past *past, double value);
};

static bool fixed(struct past *past, double value)
{
    return value > 1.10 * past->first_centre;
}
static bool one_step(struct past *past, double value)
{
    return value > past->centre + 3 * past->sd;
}
static bool median_of_nine(struct past *past, double value)
{
    double sorted[9];
    past->last[past->last_count++ % 9] = value;
    if (past->last_count < 9)
        return false;
    memcpy(sorted, past->last, sizeof sorted);
    return an_quantile_of(sorted, 9, 0.5) > 1.025 * past->centre;
}
static bool four_of_five(struct past *past, double value)
{
    past->high = (past->high << 1 | (value > past->centre + 2 * past->sd)) & 31;
    return __builtin_popcount((unsigned)past->high) >= 4;
}

static const struct rule rules[] = {{"+10 % on the first median", fixed},
                                    {"one step above 3 sd", one_step},
                                    {"median of 9 above +2.5 %", median_of_nine},
                                    {"4 of 5 above 2 sd", four_of_five},
                                    {"tacho", NULL}};

static void past_learn(struct past *past, double value)
{
    double sorted[WINDOW], work[WINDOW];
    past->value[past->count++ % WINDOW] = value;
    if (past->count < WINDOW || past->count % 4)
        return;
    memcpy(sorted, past->value, sizeof sorted);
    past->centre = an_quantile_of(sorted, WINDOW, 0.5);
    past->sd = 1.4826 * an_mad(sorted, WINDOW, past->centre, work);
    if (past->first_centre <= 0)
        past->first_centre = past->centre;
}

/* A simple rule that fired is silent for as long as its window needs to learn the new level. */
static bool past_fires(const struct rule *rule, struct past *past, double value)
{
    bool fires = past->count >= WINDOW && rule->fires(past, value) && past->quiet == 0;
    past_learn(past, value);
    past->quiet = fires ? WINDOW : past->quiet - (past->quiet > 0);
    return fires;
}

struct detector {
    const struct rule *rule;
    struct past past;
    struct mon_shift shift;
};

static bool detector_fires(struct detector *detector, double value, int64_t step)
{
    struct mon_shift_found found;
    if (detector->rule->fires)
        return past_fires(detector->rule, &detector->past, value);
    return mon_shift_add(&detector->shift, value, step, &found) && found.up;
}

static struct detector detector_begin(const struct rule *rule)
{
    struct detector detector = {.rule = rule};
    mon_shift_init(&detector.shift, &mon_shift_time, true);
    return detector;
}

/* ---- step time ------------------------------------------------------------------------------- */

static int64_t false_alarms(const struct rule *rule, uint64_t seed, double sd)
{
    int64_t alarms = 0;
    for (uint64_t i = 0; i < SERIES; i++) {
        struct series series = series_begin(seed + i, sd);
        struct detector detector = detector_begin(rule);
        for (int64_t step = 0; step < STEPS; step++)
            alarms += detector_fires(&detector, series_step(&series, 1), step);
    }
    return alarms;
}

/* Steps until a change by `level` is found, sorted; PATIENCE + 1 where it is missed. */
static void delays(const struct rule *rule, uint64_t seed, double sd, double level,
                   double delay[TRIALS])
{
    for (uint64_t i = 0; i < TRIALS; i++) {
        struct series series = series_begin(seed + 100000 + i, sd);
        struct detector detector = detector_begin(rule);
        for (int64_t step = 0; step < BEFORE; step++)
            detector_fires(&detector, series_step(&series, 1), step);
        detector.past.quiet = 0; /* a false alarm before the change is counted elsewhere */
        delay[i] = PATIENCE + 1;
        for (int64_t step = 0; step < PATIENCE && delay[i] > PATIENCE; step++)
            if (detector_fires(&detector, series_step(&series, level), BEFORE + step))
                delay[i] = (double)step + 1;
    }
    an_sort(delay, TRIALS);
}

static void print_delays(const double delay[TRIALS])
{
    int64_t missed = 0;
    for (size_t i = 0; i < TRIALS; i++)
        missed += delay[i] > PATIENCE;
    printf(" %.0f / %.0f, %.1f %% |", an_quantile(delay, TRIALS, 0.5),
           an_quantile(delay, TRIALS, 0.9), 100 * (double)missed / TRIALS);
}

static void step_times(uint64_t seed, double sd)
{
    static double delay[TRIALS];
    printf(
        "\nStep time, residual sd %.1f %%: %d series of %d steps; delays of %d changes: median / "
        "90th percentile in steps, missed after %d steps\n\n",
        100 * sd, SERIES, STEPS, TRIALS, PATIENCE);
    printf("| rule | false alarms per 10,000 steps (95 %% bound) | +5 %% | +3 %% | +10 %% |\n"
           "|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        int64_t alarms = false_alarms(&rules[i], seed, sd);
        double per = 1e4 / ((double)SERIES * STEPS);
        printf("| %s | %.2f (%.2f) |", rules[i].name, (double)alarms * per,
               series_poisson_upper(alarms) * per);
        const double levels[] = {1.05, 1.03, 1.10};
        for (size_t j = 0; j < sizeof levels / sizeof *levels; j++) {
            delays(&rules[i], seed, sd, levels[j], delay);
            print_delays(delay);
        }
        printf("\n");
        fflush(stdout);
    }
}

/* ---- numbers and memory ----------------------------------------------------------------------- */

#define LOSS_STEPS 5000
#define LOSS_RUNS  40
#define PLANT      1500

/* How a run of one rank ends: what is planted at step PLANT. */
enum plant { PLANT_NOTHING, PLANT_SPIKE, PLANT_NAN, PLANT_RISE, PLANT_PLATEAU, PLANT_LEAK };

struct heard {
    const char *code;
    int64_t alarms, false_alarms, found; /* found: the step, -1: not yet */
    int64_t step;
    bool planted;
};

static void on_notice(void *ctx, const struct mon_notice *notice)
{
    struct heard *heard = ctx;
    if (notice->event == MON_RESOLVED || strcmp(notice->alert->symptom.code, heard->code) != 0)
        return;
    heard->alarms++;
    heard->false_alarms += !heard->planted;
    if (heard->planted && heard->found < 0)
        heard->found = heard->step;
}

static double planted_loss(struct series *series, enum plant plant, int64_t step)
{
    bool now = step >= PLANT;
    double loss = series_loss(series, plant == PLANT_PLATEAU && now ? PLANT : step);
    if (plant == PLANT_NAN && now)
        return NAN;
    if (plant == PLANT_SPIKE && step == PLANT)
        return 1.5 * loss;
    return plant == PLANT_RISE && now ? loss * (1 + 0.001 * (double)(step - PLANT)) : loss;
}

/* Runs with a step a second; the number of runs in which the code was heard, their delays. */
static void hear(enum plant plant, struct heard *heard, uint64_t seed, double delay[LOSS_RUNS])
{
    static struct mon_config config;
    mon_config_init(&config);
    for (uint64_t i = 0; i < LOSS_RUNS; i++) {
        struct mon_monitor *monitor = mon_new(&config, 0, on_notice, heard);
        struct series series = series_begin(seed + i, 0.02);
        struct mon_counter *loss = mon_counter(monitor, "loss", NULL, 0);
        struct mon_counter *memory = mon_counter(monitor, "rss_anon", NULL, 0);
        struct mon_counter *left = mon_counter(monitor, "memory_available", NULL, -1);
        heard->found = -1;
        for (int64_t step = 0; step < LOSS_STEPS; step++) {
            int64_t start = step * 1000000000;
            double leaked = plant == PLANT_LEAK && step >= PLANT ? 5e6 * (double)(step - PLANT) : 0;
            heard->step = step;
            heard->planted = plant != PLANT_NOTHING && step >= PLANT;
            mon_value(monitor, loss, start, planted_loss(&series, plant, step));
            mon_value(monitor, memory, start, 4e9 + leaked + 2e7 * series_normal(&series.state));
            mon_value(monitor, left, start, 60e9 - leaked);
            mon_step(monitor, &(struct mon_step){.index = step,
                                                 .start = start,
                                                 .end = start + 999000000,
                                                 .tokens = NAN,
                                                 .flops = NAN});
            mon_tick(monitor, start + 999000000);
        }
        delay[i] = heard->found < 0 ? LOSS_STEPS : (double)(heard->found - PLANT) + 1;
        mon_free(monitor);
    }
    an_sort(delay, LOSS_RUNS);
}

/* What people use: 10 times the greatest of the first 100 losses (Megatron's rerun state machine),
 * and three deviations above the mean of the last 100. */
static void spike_rules(uint64_t seed)
{
    int64_t tenfold = 0, found_tenfold = 0, sigma = 0, found_sigma = 0;
    for (uint64_t i = 0; i < LOSS_RUNS; i++) {
        struct series series = series_begin(seed + i, 0.02);
        double greatest = 0, last[100], mean, sd;
        for (int64_t step = 0; step < LOSS_STEPS; step++) {
            double loss = planted_loss(&series, PLANT_SPIKE, step);
            greatest = step < 100 ? fmax(greatest, loss) : greatest;
            mean = step < 100 ? INFINITY : an_mean(last, 100);
            sd = step < 100 ? 0 : an_sd(last, 100);
            bool ten = step >= 100 && loss > 10 * greatest, three = loss > mean + 3 * sd;
            tenfold += ten && step != PLANT;
            found_tenfold += ten && step == PLANT;
            sigma += three && step != PLANT;
            found_sigma += three && step == PLANT;
            last[step % 100] = loss;
        }
    }
    double per = 1e4 / ((double)LOSS_RUNS * LOSS_STEPS);
    printf("| spike: 10 times the greatest of the first 100 | %.2f | %" PRId64 " of %d | |\n",
           (double)tenfold * per, found_tenfold, LOSS_RUNS);
    printf("| spike: 3 sd above the mean of 100 | %.2f | %" PRId64 " of %d | 1 |\n",
           (double)sigma * per, found_sigma, LOSS_RUNS);
}

static void numbers(uint64_t seed)
{
    static const struct {
        enum plant plant;
        const char *code, *words;
    } rows[] = {{PLANT_SPIKE, "LOSS_SPIKE", "spike: one loss 1.5 times as high"},
                {PLANT_NAN, "NAN", "a loss that is not a number"},
                {PLANT_RISE, "LOSS_RISES", "rises by 0.1 % a step"},
                {PLANT_PLATEAU, "PLATEAU", "plateau: falls no more"},
                {PLANT_LEAK, "LEAK", "memory grows by 5 MB/s of 60 GB"}};
    double delay[LOSS_RUNS];
    printf("\nLoss with noise of 2 %%, memory with noise of 20 MB, a step a second: %d runs of %d "
           "steps; planted at step %d\n\n| what | false alarms per 10,000 steps | found | delay: "
           "median / 90th percentile, steps |\n|---|---|---|---|\n",
           LOSS_RUNS, LOSS_STEPS, PLANT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct heard quiet = {.code = rows[i].code}, heard = {.code = rows[i].code};
        hear(PLANT_NOTHING, &quiet, seed + 500, delay);
        hear(rows[i].plant, &heard, seed, delay);
        int64_t found = 0;
        for (size_t j = 0; j < LOSS_RUNS; j++)
            found += delay[j] < LOSS_STEPS;
        printf("| tacho, %s | %.2f | %" PRId64 " of %d | %.0f / %.0f |\n", rows[i].words,
               (double)quiet.false_alarms * 1e4 / ((double)LOSS_RUNS * LOSS_STEPS), found,
               LOSS_RUNS, an_quantile(delay, LOSS_RUNS, 0.5), an_quantile(delay, LOSS_RUNS, 0.9));
    }
    spike_rules(seed);
}

/* ---- a job as a whole ------------------------------------------------------------------------- */

#define WEEK_S (7 * 86400.0)

/* All that a watch says of a run: by code. */
struct said {
    int64_t pages, notices, step_time, loss, other;
};

static void on_said(void *ctx, const struct mon_notice *notice)
{
    struct said *said = ctx;
    const char *code = notice->alert->symptom.code;
    if (notice->event != MON_FIRING)
        return;
    said->notices++;
    said->pages += notice->alert->symptom.severity == MON_PAGE;
    said->step_time += !strcmp(code, "STEP_TIME");
    said->loss += !strncmp(code, "LOSS", 4) || !strcmp(code, "PLATEAU");
    said->other += strcmp(code, "STEP_TIME") && strncmp(code, "LOSS", 4) && strcmp(code, "PLATEAU");
}

/* A week of a job of four ranks with steps of two seconds, in which nothing happens: what is sent
 * after symptoms of a cause were grouped. */
static void week(uint64_t seed)
{
    static struct mon_config config;
    struct said said = {0};
    mon_config_init(&config);
    struct mon_monitor *monitor = mon_new(&config, 0, on_said, &said);
    struct job job = job_begin(monitor, seed);
    job.scale = 20;
    for (int64_t step = 0; job.now_s < WEEK_S; step++)
        job_step(&job, monitor, step);
    mon_free(monitor);
    printf("\nA week of a job of four ranks, a step of 2 s, nothing planted: %" PRId64
           " alerts of all series, of them %" PRId64 " pages\n",
           said.notices, said.pages);
}

/* ---- series of real runs ---------------------------------------------------------------------- */

#define PLANTS 40 /* changes that are planted in a series, one at a time */

struct recorded {
    double *ms, *loss; /* ms: NAN where an evaluation lies before the step */
    size_t steps;
};

static struct recorded read_series(const char *path)
{
    struct recorded recorded = {.steps = 0};
    size_t room = 0;
    char line[128], first[64];
    double loss;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %lf", first, &loss) != 2)
            continue;
        if (recorded.steps == room) {
            room = room ? 2 * room : 4096;
            recorded.ms = realloc(recorded.ms, room * sizeof(double));
            recorded.loss = realloc(recorded.loss, room * sizeof(double));
            if (!recorded.ms || !recorded.loss)
                abort();
        }
        recorded.ms[recorded.steps] = strcmp(first, "-") ? strtod(first, NULL) : NAN;
        recorded.loss[recorded.steps++] = loss;
    }
    if (file)
        fclose(file);
    return recorded;
}

static int64_t alarms_of(const struct rule *rule, const struct recorded *recorded)
{
    int64_t alarms = 0;
    struct detector detector = detector_begin(rule);
    for (size_t step = 0; step < recorded->steps; step++)
        alarms += !isnan(recorded->ms[step]) &&
                  detector_fires(&detector, recorded->ms[step], (int64_t)step);
    return alarms;
}

/* Steps until a change at `at` is found; PATIENCE + 1: it is missed. Masked steps count. */
static double delay_of(const struct rule *rule, const struct recorded *recorded, size_t at,
                       double level)
{
    struct detector detector = detector_begin(rule);
    for (size_t step = at < 600 ? 0 : at - 600; step < at + PATIENCE; step++) {
        bool after = step >= at;
        if (step == at)
            detector.past.quiet = 0;
        double ms = recorded->ms[step] * (after ? level : 1);
        if (!isnan(ms) && detector_fires(&detector, ms, (int64_t)step) && after)
            return (double)(step - at) + 1;
    }
    return PATIENCE + 1;
}

static void real_rule(const struct rule *rule, const struct recorded *series, size_t count,
                      uint64_t seed)
{
    static const double levels[] = {1.05, 1.03, 1.10};
    double *delay = malloc(count * PLANTS * sizeof *delay), steps = 0;
    int64_t alarms = 0;
    for (size_t i = 0; i < count; i++) {
        alarms += alarms_of(rule, &series[i]);
        steps += (double)series[i].steps;
    }
    printf("| %s | %.2f (%.2f) |", rule->name, (double)alarms * 1e4 / steps,
           series_poisson_upper(alarms) * 1e4 / steps);
    for (size_t j = 0; delay && j < sizeof levels / sizeof *levels; j++) {
        uint64_t state = seed;
        size_t missed = 0;
        for (size_t i = 0; i < count * PLANTS; i++) {
            const struct recorded *of = &series[i / PLANTS];
            size_t at = BEFORE + an_random(&state) % (of->steps - BEFORE - PATIENCE);
            delay[i] = delay_of(rule, of, at, levels[j]);
            missed += delay[i] > PATIENCE;
        }
        an_sort(delay, count * PLANTS);
        printf(" %.0f / %.0f, %.1f %% |", an_quantile(delay, count * PLANTS, 0.5),
               an_quantile(delay, count * PLANTS, 0.9),
               100 * (double)missed / (double)(count * PLANTS));
    }
    printf("\n");
    fflush(stdout);
    free(delay);
}

/* Robust standard deviation of the differences to the median of the 64 steps before. */
static double residual_sd(const struct recorded *recorded)
{
    double last[64] = {0}, sorted[64], *off = malloc(recorded->steps * sizeof *off);
    size_t held = 0, count = 0;
    for (size_t i = 0; off && i < recorded->steps; i++) {
        if (isnan(recorded->ms[i]))
            continue;
        memcpy(sorted, last, sizeof sorted);
        if (held >= 64)
            off[count++] = recorded->ms[i] / an_quantile_of(sorted, 64, 0.5) - 1;
        last[held++ % 64] = recorded->ms[i];
    }
    double *scratch = malloc((count + 1) * sizeof *scratch);
    double sd = scratch && count ? 1.4826 * an_mad(off, count, 0, scratch) : NAN;
    free(scratch);
    free(off);
    return sd;
}

/* A whole watch of each run, with its losses. */
static void real_watch(const struct recorded *series, size_t count)
{
    static struct mon_config config;
    struct said said = {0};
    double hours = 0, last_ms = NAN;
    mon_config_init(&config);
    for (size_t i = 0; i < count; i++) {
        struct mon_monitor *monitor = mon_new(&config, 0, on_said, &said);
        struct mon_counter *loss = mon_counter(monitor, "loss", NULL, 0);
        int64_t now = 0;
        mon_set_machine(monitor, &(struct mon_machine){.planned_steps = (int64_t)series[i].steps});
        for (size_t step = 0; step < series[i].steps; step++) {
            double ms = series[i].ms[step];
            last_ms = isnan(ms) ? last_ms : ms;
            int64_t end = now + (int64_t)((isnan(ms) ? last_ms : ms) * 1e6);
            mon_value(monitor, loss, end, series[i].loss[step]);
            mon_step(monitor, &(struct mon_step){.index = (int64_t)step,
                                                 .start = now,
                                                 .end = end,
                                                 .special = isnan(ms),
                                                 .tokens = NAN,
                                                 .flops = NAN});
            mon_tick(monitor, now = end);
        }
        hours += (double)now / 3.6e12;
        mon_free(monitor);
    }
    printf("\nA watch of these runs, %.1f hours: %" PRId64 " alerts, of them %" PRId64
           " of the step time, %" PRId64 " of the loss, %" PRId64 " others; %" PRId64 " pages\n",
           hours, said.notices, said.step_time, said.loss, said.other, said.pages);
}

static int real_runs(uint64_t seed, char **files, size_t count)
{
    struct recorded *series = calloc(count, sizeof *series);
    double *sd = calloc(count, sizeof *sd), steps = 0;
    for (size_t i = 0; series && sd && i < count; i++) {
        series[i] = read_series(files[i]);
        if (series[i].steps < 2 * (BEFORE + PATIENCE)) {
            fprintf(stderr, "detectors: %s: no series, or too short\n", files[i]);
            return 1;
        }
        steps += (double)series[i].steps;
        sd[i] = residual_sd(&series[i]);
    }
    an_sort(sd, count);
    printf("%zu runs, %.0f steps; residual sd of a run: median %.2f %%, greatest %.2f %%; seed "
           "%" PRIu64
           "\n\n| rule | alarms per 10,000 steps (95 %% bound) | +5 %% | +3 %% | +10 %% |\n"
           "|---|---|---|---|---|\n",
           count, steps, 100 * an_quantile(sd, count, 0.5), 100 * sd[count - 1], seed);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        real_rule(&rules[i], series, count, seed);
    real_watch(series, count);
    for (size_t i = 0; i < count; i++) {
        free(series[i].ms);
        free(series[i].loss);
    }
    free(series);
    free(sd);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 3 && !strcmp(argv[1], "--series"))
        return real_runs(strtoull(argv[2], NULL, 10), argv + 3, (size_t)argc - 3);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    printf("Seeds from %" PRIu64 " on.\n", seed);
    step_times(seed, 0.024);
    step_times(seed, 0.016);
    step_times(seed, 0.008);
    numbers(seed);
    week(seed);
    return 0;
}
