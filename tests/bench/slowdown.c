/* SPDX-License-Identifier: Apache-2.0
 *
 * What full recording costs a training step: one process, recording switched off at random for
 * whole steps, and the steps that were recorded compared with those that were not. Both kinds run
 * in the same process, minute and memory, so that only the recording differs; a slow drift of the
 * machine is taken out with the median of the neighbouring steps.
 *
 *     slowdown LIBTACHO LABEL BUDGET_PCT SECONDS MIN_STEPS COMMAND...
 *
 * COMMAND is run twice with `--steps N` appended: shortly, to learn how long a step lasts, then for
 * SECONDS, MIN_STEPS at least. BUDGET_PCT 0: no budget, the figure is printed for the reader.
 * Output: rows `what <tab> measured <tab> budget <tab> verdict` on stdout.
 *
 * Estimate: ratio of the medians of the two kinds of steps, minus 1; interval: percentile
 * bootstrap, 95 %. The trimmed mean (5 % off each end) stands beside it, for a cost that falls on
 * few steps. The collector drains what was recorded while later steps run, of either kind: its
 * processor time is not in the difference, so it is printed by itself, also as a share of the
 * machine, which bounds from above what it can cost the steps.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/collector.h"
#include "store/store.h"

#define WARM_UP 10 /* first steps, left out: the agent never pauses them */
#define WINDOW \
    10 /* neighbours on each side whose median is the speed of the machine at that moment */
#define RESAMPLES   2000
#define COMMAND_MAX 60

struct steps {
    double *ms;
    bool *paused;
    size_t count, capacity;
};

struct measured {
    struct steps steps;
    double seconds, collector_seconds;
    int64_t records;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_sorted(const double *v, size_t n)
{
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), compare);
    return median_sorted(v, n);
}

static double trimmed_mean(double *v, size_t n)
{
    size_t cut = n / 20;
    double sum = 0;
    qsort(v, n, sizeof(*v), compare);
    for (size_t i = cut; i < n - cut; i++) {
        sum += v[i];
    }
    return sum / (double)(n - 2 * cut);
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- a run and its step table ------------------------------------------------------------------------------------------- */

static int add_step(void *ctx, const struct store_step *x)
{
    struct steps *s = ctx;
    if (x->end == STORE_ABSENT) {
        return 0;
    }
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 1024;
        double *ms = realloc(s->ms, capacity * sizeof(*ms));
        if (!ms) {
            return TACHO_ENOMEM;
        }
        s->ms = ms;
        bool *paused = realloc(s->paused, capacity * sizeof(*paused));
        if (!paused) {
            return TACHO_ENOMEM;
        }
        s->paused = paused;
        s->capacity = capacity;
    }
    s->ms[s->count] = (double)(x->end - x->start) / 1e6;
    s->paused[s->count++] = x->paused;
    return 0;
}

static void measured_clear(struct measured *m)
{
    free(m->steps.ms);
    free(m->steps.paused);
    *m = (struct measured){0};
}

/* Runs `command` for n steps under the collector and reads its step table. The file is removed. 0
 * or a negative code. */
static int measure(const char *library, char **command, int64_t n, double pause, struct measured *m,
                   struct tacho_error *err)
{
    char *argv[COMMAND_MAX + 3] = {0}, number[32], path[64];
    struct col_options o;
    struct col_result r = {0};
    store_reader *reader = NULL;
    int argc = 0, rc;

    *m = (struct measured){0};
    while (command[argc]) {
        argv[argc] = command[argc];
        argc++;
    }
    snprintf(number, sizeof(number), "%lld", (long long)n);
    argv[argc] = "--steps";
    argv[argc + 1] = number;
    snprintf(path, sizeof(path), "slowdown-%ld.tacho", (long)getpid());

    col_options_init(&o);
    o.command = argv;
    o.output = path;
    o.library = library;
    o.pause = pause;
    o.no_peak = true;
    rc = col_run(&o, &r, err);
    if (rc < 0) {
        goto done;
    }
    if (r.exit_code != 0 || !r.finished) {
        snprintf(err->what, sizeof(err->what), "%s ended with status %d (%s)", command[0],
                 r.exit_code, r.ended);
        rc = TACHO_EINTERNAL;
        goto done;
    }
    m->seconds = r.seconds;
    m->collector_seconds = r.collector_cpu_seconds;
    m->records = r.records;
    rc = store_open(r.path, &reader, err);
    if (rc == 0) {
        rc = store_step_each(reader, add_step, &m->steps);
    }
done:
    store_reader_close(reader);
    if (r.finished) {
        unlink(r.path);
    }
    col_result_clear(&r);
    if (rc < 0) {
        measured_clear(m);
    }
    return rc;
}

/* ---- statistics --------------------------------------------------------------------------------------------------------- */

struct slowdown {
    size_t recorded, paused;
    double step_ms; /* median of the paused ones */
    double pct, low, high, trimmed_pct;
};

static double ratio_pct(double recorded, double paused)
{
    return 100 * (recorded / paused - 1);
}

/* 95 % interval of the ratio of medians; on and off are left as they are */
static int bootstrap(const double *on, size_t n_on, const double *off, size_t n_off, double *low,
                     double *high)
{
    double *draw = malloc((n_on > n_off ? n_on : n_off) * sizeof(*draw));
    double *result = malloc(RESAMPLES * sizeof(*result));
    uint64_t state = 0x9e3779b97f4a7c15u;
    if (!draw || !result) {
        free(draw);
        free(result);
        return TACHO_ENOMEM;
    }
    for (int k = 0; k < RESAMPLES; k++) {
        for (size_t i = 0; i < n_on; i++) {
            draw[i] = on[random_next(&state) % n_on];
        }
        double a = median(draw, n_on);
        for (size_t i = 0; i < n_off; i++) {
            draw[i] = off[random_next(&state) % n_off];
        }
        result[k] = ratio_pct(a, median(draw, n_off));
    }
    qsort(result, RESAMPLES, sizeof(*result), compare);
    *low = result[RESAMPLES * 25 / 1000];
    *high = result[RESAMPLES * 975 / 1000];
    free(draw);
    free(result);
    return 0;
}

/* Steps relative to the median of their neighbourhood, split in two. Returns 0, or TACHO_ENOTFOUND
 * with too few of a kind. */
static int compare_steps(const struct steps *s, struct slowdown *out)
{
    double *on = malloc((s->count + 1) * sizeof(*on)), *off = malloc((s->count + 1) * sizeof(*off));
    double *raw = malloc((s->count + 1) * sizeof(*raw));
    double near[2 * WINDOW];
    int rc = TACHO_ENOMEM;
    *out = (struct slowdown){0};
    if (!on || !off || !raw) {
        goto done;
    }
    for (size_t i = WARM_UP; i + 1 < s->count; i++) {
        size_t from = i < WARM_UP + WINDOW ? WARM_UP : i - WINDOW;
        size_t to = i + WINDOW + 1 < s->count ? i + WINDOW : s->count - 2;
        size_t n = 0;
        for (size_t k = from; k <= to; k++) {
            if (k != i) { /* a step that is its own yardstick would pile up at exactly 1 */
                near[n++] = s->ms[k];
            }
        }
        double relative = s->ms[i] / median(near, n);
        if (s->paused[i]) {
            raw[out->paused] = s->ms[i];
            off[out->paused++] = relative;
        } else {
            on[out->recorded++] = relative;
        }
    }
    rc = TACHO_ENOTFOUND;
    if (out->recorded < 10 || out->paused < 10) {
        goto done;
    }
    out->step_ms = median(raw, out->paused);
    out->pct = ratio_pct(median(on, out->recorded), median(off, out->paused));
    out->trimmed_pct = ratio_pct(trimmed_mean(on, out->recorded), trimmed_mean(off, out->paused));
    rc = bootstrap(on, out->recorded, off, out->paused, &out->low, &out->high);
done:
    free(on);
    free(off);
    free(raw);
    return rc;
}

/* ---- output ------------------------------------------------------------------------------------------------------------- */

static const char *verdict(const struct slowdown *s, double budget)
{
    if (budget <= 0) {
        return "-";
    }
    if (s->high <= budget) {
        return "ok";
    }
    return s->low > budget ? "OVER" : "not shown: the interval is wider";
}

static void print(FILE *out, const char *label, double budget, const struct slowdown *s,
                  const struct measured *m)
{
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), events = (double)m->records;
    char limit[32] = "printed";
    if (budget > 0) {
        snprintf(limit, sizeof(limit), "<= %g %%", budget);
    }
    fprintf(out, "slowdown of a step, %s\t%+.2f %% [%+.2f, %+.2f], trimmed mean %+.2f %%\t%s\t%s\n",
            label, s->pct, s->low, s->high, s->trimmed_pct, limit, verdict(s, budget));
    fprintf(out, "  its steps\t%zu recorded, %zu paused, median %.2f ms\t\t\n", s->recorded,
            s->paused, s->step_ms);
    if (events / m->seconds > 1000) { /* below that the sampling of /proc, which costs the same
                                         without events, is most of it */
        fprintf(out,
                "  collector CPU per million events\t%.2f s (%lld events in %.0f s)\tprinted\t-\n",
                m->collector_seconds / events * 1e6, (long long)m->records, m->seconds);
        fprintf(out, "  collector CPU at 100,000 events/s\t%.1f %% of a core\tprinted\t-\n",
                m->collector_seconds / events * 1e7);
    }
    fprintf(out, "  collector, share of the machine\t%.2f %% of %.0f cores\tprinted\t-\n",
            100 * m->collector_seconds / m->seconds / cores, cores);
}

int main(int argc, char **argv)
{
    struct tacho_error err = {0};
    struct measured m = {0};
    struct slowdown s = {0};
    int rc;
    if (argc < 7 || argc > COMMAND_MAX) {
        fprintf(stderr, "usage: slowdown LIBTACHO LABEL BUDGET_PCT SECONDS MIN_STEPS COMMAND...\n");
        return 2;
    }
    const char *library = argv[1], *label = argv[2];
    double budget = strtod(argv[3], NULL), seconds = strtod(argv[4], NULL);
    int64_t steps = strtoll(argv[5], NULL, 10);

    /* standard output is for the rows; what the command says goes nowhere */
    FILE *out = fdopen(dup(STDOUT_FILENO), "w");
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (!out || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) {
        fprintf(stderr, "slowdown: /dev/null: cannot be opened\n");
        return 5;
    }

    rc = measure(library, argv + 6, 8, 0, &m, &err);
    if (rc == 0 && m.steps.count > 2) {
        /* the last ones, past the first touch of memory */
        double ms = median(m.steps.ms + m.steps.count / 2, m.steps.count - m.steps.count / 2);
        int64_t fit = (int64_t)(seconds * 1000 / ms);
        steps = fit > steps ? fit : steps;
    }
    measured_clear(&m);
    if (rc == 0) {
        rc = measure(library, argv + 6, steps, 0.5, &m, &err);
    }
    if (rc == 0) {
        rc = compare_steps(&m.steps, &s);
        if (rc == TACHO_ENOTFOUND) {
            snprintf(err.what, sizeof(err.what),
                     "%s: %zu steps, too few recorded or paused ones to compare", label,
                     m.steps.count);
        }
    }
    if (rc < 0) {
        fprintf(stderr, "slowdown: %s\n", err.what[0] ? err.what : tacho_error_text(rc));
        return tacho_error_exit(rc);
    }
    print(out, label, budget, &s, &m);
    fclose(out);
    measured_clear(&m);
    return 0;
}
