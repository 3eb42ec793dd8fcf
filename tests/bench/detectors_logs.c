/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of docs/monitor.md of real runs: false alarms and delays of the monitor's detectors
 * beside rules that people use. Prints Markdown.
 *
 *     build/tests/bench/detectors_logs SEED FILE...     series of real runs (public_logs.sh), in
 * which changes are planted by seed
 */
#include "tests/bench/detector_rules.h"

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
    int64_t most = 0;
    mon_config_init(&config);
    for (size_t i = 0; i < count; i++) {
        int64_t before = said.pages;
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
        most = said.pages - before > most ? said.pages - before : most;
        mon_free(monitor);
    }
    printf("\nA watch of these runs, %.1f hours: %" PRId64 " alerts, of them %" PRId64
           " of the step time, %" PRId64 " LOSS_SPIKE, %" PRId64 " others of the loss, %" PRId64
           " others; %" PRId64 " pages, at most %" PRId64 " in a run\n",
           hours, said.notices, said.step_time, said.spikes, said.loss, said.other, said.pages,
           most);
}

#define LOSS_BEFORE 1500 /* losses before a change */
#define LOSS_PLANTS 10   /* changes in a series */

/* What was heard of the loss since a change. */
struct loss_heard {
    int64_t step, at, alert, page; /* alert, page: steps until then, -1: none */
};

static void on_loss(void *ctx, const struct mon_notice *notice)
{
    struct loss_heard *heard = ctx;
    const struct mon_symptom *symptom = &notice->alert->symptom;
    if (notice->event == MON_RESOLVED || heard->step < heard->at ||
        symptom->cause != MON_CAUSE_NUMERICS)
        return;
    int64_t steps = heard->step - heard->at + 1;
    heard->alert = heard->alert < 0 ? steps : heard->alert;
    if (heard->page < 0 && symptom->severity == MON_PAGE)
        heard->page = steps;
}

/* The losses of a run, a step a second, `times` as high in the `length` steps from `at` on. */
static struct loss_heard hear_loss(const struct recorded *recorded, size_t at, double times,
                                   size_t length)
{
    static struct mon_config config;
    struct loss_heard heard = {.at = (int64_t)at, .alert = -1, .page = -1};
    mon_config_init(&config);
    struct mon_monitor *monitor = mon_new(&config, 0, on_loss, &heard);
    struct mon_counter *loss = mon_counter(monitor, "loss", NULL, 0);
    for (size_t step = at - LOSS_BEFORE; step < at + PATIENCE; step++) {
        int64_t start = (int64_t)(step + LOSS_BEFORE - at) * 1000000000;
        bool high = step >= at && step < at + length;
        heard.step = (int64_t)step;
        mon_value(monitor, loss, start, recorded->loss[step] * (high ? times : 1));
        mon_step(monitor, &(struct mon_step){.index = heard.step,
                                             .start = start,
                                             .end = start + 999000000,
                                             .tokens = NAN,
                                             .flops = NAN});
        mon_tick(monitor, start + 999000000);
    }
    mon_free(monitor);
    return heard;
}

static void print_heard(double *delay, size_t count)
{
    size_t found = 0;
    an_sort(delay, count);
    while (found < count && delay[found] <= PATIENCE)
        found++;
    printf(" %zu of %zu |", found, count);
    if (found)
        printf(" %.0f / %.0f |", an_quantile(delay, found, 0.5), an_quantile(delay, found, 0.9));
    else
        printf(" |");
}

/* Changes of the loss that are planted in real runs: alerts and pages that follow. */
static void real_losses(const struct recorded *series, size_t count, uint64_t seed)
{
    static const struct {
        const char *words;
        double times;
        size_t length;
    } rows[] = {{"nothing", 1, 0},
                {"one loss twice as high", 2, 1},
                {"one loss four times as high", 4, 1},
                {"a loss that is not a number", NAN, 1},
                {"30 % higher for 20 steps", 1.3, 20},
                {"30 % higher from then on", 1.3, PATIENCE},
                {"twice as high from then on", 2, PATIENCE}};
    double *alert = malloc(count * LOSS_PLANTS * sizeof *alert),
           *page = malloc(count * LOSS_PLANTS * sizeof *page);
    printf("\n| planted in the losses, in each run %d times | alerts in %d steps | after steps: "
           "median / 90th percentile | pages | after steps |\n|---|---|---|---|---|\n",
           LOSS_PLANTS, PATIENCE);
    for (size_t i = 0; alert && page && i < sizeof rows / sizeof *rows; i++) {
        uint64_t state = seed;
        for (size_t j = 0; j < count * LOSS_PLANTS; j++) {
            const struct recorded *of = &series[j / LOSS_PLANTS];
            size_t at = LOSS_BEFORE + an_random(&state) % (of->steps - LOSS_BEFORE - PATIENCE);
            struct loss_heard heard = hear_loss(of, at, rows[i].times, rows[i].length);
            alert[j] = heard.alert < 0 ? PATIENCE + 1 : (double)heard.alert;
            page[j] = heard.page < 0 ? PATIENCE + 1 : (double)heard.page;
        }
        printf("| %s |", rows[i].words);
        print_heard(alert, count * LOSS_PLANTS);
        print_heard(page, count * LOSS_PLANTS);
        printf("\n");
        fflush(stdout);
    }
    free(alert);
    free(page);
}

static int real_runs(uint64_t seed, char **files, size_t count)
{
    struct recorded *series = calloc(count, sizeof *series);
    double *sd = calloc(count, sizeof *sd), steps = 0;
    for (size_t i = 0; series && sd && i < count; i++) {
        series[i] = read_series(files[i]);
        if (series[i].steps < LOSS_BEFORE + 2 * PATIENCE) {
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
    real_losses(series, count, seed);
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
    if (argc > 2)
        return real_runs(strtoull(argv[1], NULL, 10), argv + 2, (size_t)argc - 2);
    fprintf(stderr, "usage: detectors_logs SEED FILE...\n");
    return 2;
}
