/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of docs/monitor.md: false alarms and delays of the monitor's detectors beside rules
 * that people use, on series drawn by seed (tests/unit/monitor/mon_series.h). Prints Markdown.
 *
 *     build/tests/bench/detectors [SEED]     other seeds than those the rules were chosen on
 */
#include "tests/bench/detector_rules.h"

#define SERIES 40
#define STEPS  10000 /* of each */
#define TRIALS 1000

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

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    printf("Seeds from %" PRIu64 " on.\n", seed);
    step_times(seed, 0.024);
    step_times(seed, 0.016);
    step_times(seed, 0.008);
    numbers(seed);
    week(seed);
    return 0;
}
