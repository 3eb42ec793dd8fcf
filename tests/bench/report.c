/* SPDX-License-Identifier: Apache-2.0
 *
 * Time and memory from a finished file to both reports, for runs of 100 k and of many slices (first
 * argument: millions, default 2), and the processor time of the report of a file as 90 minutes at
 * full rate under --max-size 150M leave it. Rows of four columns: what, measured, budget, verdict.
 * The figures include reading the file; it is in the page cache.
 *
 *   report soak FILE    writes that file, and measures nothing
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzers/analyzers.h"
#include "reports/report.h"
#include "store/store.h"

#define OPS 40 /* ranges of a step, besides the step */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void need(int rc, const char *what)
{
    if (rc) {
        fprintf(stderr, "report: %s: %s\n", what, tacho_error_text(rc));
        exit(1);
    }
}

/* Steps of 1 ms with OPS ranges of 20 us, as the collector writes them: a range when it ends. */
static void write_run(const char *path, int64_t slices)
{
    store *s;
    int64_t op[OPS], name[OPS], step_name, category;
    struct tacho_error err = {0};
    need(store_create(path, &s, &err), err.what);
    struct store_process p = {.rank = STORE_ABSENT,
                              .pid = 1,
                              .parent_pid = 1,
                              .start = 0,
                              .end = STORE_ABSENT,
                              .exit_status = 0};
    struct store_detail d = {.flops = 1000000,
                             .bytes_read = 1000,
                             .bytes_written = 1000,
                             .model_flops = 1000000,
                             .palm_flops = 1000000,
                             .bytes = STORE_ABSENT,
                             .samples = STORE_ABSENT,
                             .communicator = STORE_ABSENT,
                             .ranks = STORE_ABSENT,
                             .dtype = "fp32",
                             .pass = "forward",
                             .kind = "matrix",
                             .schema = "tacho.work"};
    struct store_detail step = STORE_DETAIL_NONE;
    step.schema = "tacho.step";
    int64_t step_detail;
    need(store_begin(s), "begin");
    need(store_process_add(s, &p), "process");
    struct store_track t = {.process = p.id, .tid = 1, .kind = "thread", .name = "main"};
    need(store_track_add(s, &t), "track");
    need(store_string(s, "step", 4, &step_name), "string");
    need(store_string(s, "libtrain", 8, &category), "string");
    need(store_detail_intern(s, &step, &step_detail), "detail");
    for (int i = 0; i < OPS; i++) {
        char text[32];
        d.flops = 1000000 + i;
        snprintf(text, sizeof text, "op.%d", i);
        need(store_string(s, text, strlen(text), &name[i]), "string");
        need(store_detail_intern(s, &d, &op[i]), "detail");
    }
    for (int64_t k = 0; k < slices / (OPS + 1); k++) {
        int64_t b = k * 1000000;
        struct store_slice x = {.track = t.id, .category = category, .correlation = STORE_ABSENT};
        for (int i = 0; i < OPS; i++) {
            x.start = b + 1000 + i * 22000;
            x.dur = 20000 + (k * 7919 + i) % 1000;
            x.name = name[i];
            x.detail = op[i];
            need(store_slice_add(s, &x), "slice");
        }
        x.start = b;
        x.dur = 950000;
        x.name = step_name;
        x.detail = step_detail;
        need(store_slice_add(s, &x), "slice");
        struct store_step row = {
            .process = p.id, .index = k, .start = b, .end = b + 950000, .tokens = 64, .samples = 1};
        need(store_step_add(s, &row), "step");
        if (k % 5000 == 4999) {
            need(store_commit(s), "commit");
            need(store_begin(s), "begin");
        }
    }
    need(store_commit(s), "commit");
    need(store_finish(s, &err), err.what);
}

/* ---- a file like that of a soak ----------------------------------------------------------------------------------------- */

#define MINUTES      90
#define WINDOWS      64
#define WINDOW_STEPS 740 /* that have detail: of 42 ranges each, all with payloads of their own */
#define RANGES       42
#define PAYLOADS     326000 /* that the file had room for */
#define COARSE_STEPS 200000 /* steps between windows */
#define AGGREGATES   10     /* totals of a step, or of a range of steps */

struct soak {
    store *file;
    int64_t process, track, name[8], step_name, category, step_detail, payload, index;
};

/* A step of RANGES ranges, two levels deep, from `start`. */
static void write_detail(struct soak *soak, int64_t start, int64_t step_ns)
{
    struct store_slice slice = {
        .track = soak->track, .category = soak->category, .correlation = STORE_ABSENT};
    for (int64_t i = 0, ns = step_ns / (RANGES + 2); i < RANGES; i++) {
        struct store_detail work = STORE_DETAIL_NONE;
        work.flops = 0;
        work.bytes_read = soak->payload < PAYLOADS ? soak->payload++ : 0;
        work.dtype = "fp32";
        work.schema = "tacho.work";
        need(store_detail_intern(soak->file, &work, &slice.detail), "detail");
        slice.start = start + (i / 2 * 2 + 1) * ns + i % 2 * (ns / 4);
        slice.dur = i % 2 ? ns / 2 : 2 * ns - 10 - (soak->index * 7919 + i) % (ns / 2);
        slice.name = soak->name[(soak->index + i) % 8];
        need(store_slice_add(soak->file, &slice), "slice");
    }
    slice.start = start;
    slice.dur = step_ns;
    slice.name = soak->step_name;
    slice.detail = soak->step_detail;
    need(store_slice_add(soak->file, &slice), "slice");
}

/* The row of a step and its totals. */
static void write_totals(struct soak *soak, int64_t start, int64_t step_ns)
{
    struct store_step step = {.process = soak->process,
                              .index = soak->index,
                              .start = start,
                              .end = start + step_ns,
                              .tokens = 64,
                              .samples = 4};
    need(store_step_add(soak->file, &step), "step");
    for (int64_t i = 0; i < AGGREGATES - 2; i++) {
        struct store_step_aggregate total = {.process = soak->process,
                                             .step = soak->index,
                                             .track = soak->track,
                                             .name = soak->name[i % 8],
                                             .category = soak->category,
                                             .detail = STORE_ABSENT,
                                             .count = 5,
                                             .total = step_ns / 9,
                                             .self = step_ns / 10,
                                             .steps = 1};
        need(store_step_aggregate_add(soak->file, &total), "aggregate");
    }
}

/* Windows of detail over the whole run, and between them steps of which only totals are left. */
static void write_soak(const char *path)
{
    struct tacho_error err = {0};
    struct soak soak = {0};
    int64_t run_ns = MINUTES * INT64_C(60000000000), window_ns = run_ns / WINDOWS,
            gap_steps = COARSE_STEPS / WINDOWS, step_ns = 20000;
    need(store_create(path, &soak.file, &err), err.what);
    need(store_begin(soak.file), "begin");
    struct store_process process = {
        .rank = STORE_ABSENT, .pid = 1, .parent_pid = 1, .end = STORE_ABSENT, .exit_status = 0};
    need(store_process_add(soak.file, &process), "process");
    soak.process = process.id;
    struct store_track track = {.process = process.id, .tid = 1, .kind = "thread", .name = "main"};
    need(store_track_add(soak.file, &track), "track");
    soak.track = track.id;
    for (int i = 0; i < 8; i++) {
        char text[32];
        snprintf(text, sizeof text, "op.%d", i);
        need(store_string(soak.file, text, strlen(text), &soak.name[i]), "string");
    }
    need(store_string(soak.file, "step", 4, &soak.step_name), "string");
    need(store_string(soak.file, "libtrain", 8, &soak.category), "string");
    struct store_detail step = STORE_DETAIL_NONE;
    step.schema = "tacho.step";
    need(store_detail_intern(soak.file, &step, &soak.step_detail), "detail");
    for (int64_t window = 0; window < WINDOWS; window++) {
        int64_t start = window * window_ns;
        for (int64_t i = 0; i < WINDOW_STEPS; i++, soak.index++, start += step_ns + 1000) {
            write_detail(&soak, start, step_ns);
            write_totals(&soak, start, step_ns);
        }
        int64_t pause = ((window + 1) * window_ns - start) / (gap_steps + 1);
        for (int64_t i = 0; i < gap_steps; i++, start += pause) {
            soak.index += pause / (step_ns + 1000);
            write_totals(&soak, start, step_ns);
        }
        need(store_commit(soak.file), "commit");
        need(store_begin(soak.file), "begin");
    }
    need(store_commit(soak.file), "commit");
    need(store_finish(soak.file, &err), err.what);
}

/* Processor time of the text report. */
static void measure_soak(const char *path, double budget_s)
{
    store_reader *reader;
    struct an_result *result;
    struct tacho_error err = {0};
    struct stat status;
    FILE *sink = fopen("/dev/null", "w");
    clock_t begun = clock(); /* of the processor */
    need(store_open(path, &reader, &err), err.what);
    need(an_analyze(reader, NULL, &result, &err), err.what);
    need(rep_write("text", result, NULL, sink), "text");
    double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    an_result_free(result);
    store_reader_close(reader);
    fclose(sink);
    need(stat(path, &status) ? TACHO_EIO : 0, path);
    printf("report of %d minutes at full rate, %.0f MB\t%.2f s of processor time\t<= %.1f s\t%s\n",
           MINUTES, (double)status.st_size / 1e6, seconds, budget_s,
           seconds <= budget_s ? "ok" : "OVER");
}

/* In a child of its own, so that the peak of memory is the report's. */
static void measure(const char *path, int64_t slices, double budget_s)
{
    int pipe_of[2];
    double result[2] = {0, 0};
    if (pipe(pipe_of))
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        store_reader *r;
        struct an_result *x;
        struct tacho_error err = {0};
        struct rusage before, after;
        FILE *sink = fopen("/dev/null", "w");
        double best = 1e9;
        getrusage(RUSAGE_SELF, &before);
        for (int i = 0; i < (slices > 1000000 ? 1 : 5); i++) {
            double t = now();
            need(store_open(path, &r, &err), err.what);
            need(an_analyze(r, NULL, &x, &err), err.what);
            need(rep_write("text", x, NULL, sink), "text");
            need(rep_write("json", x, NULL, sink), "json");
            an_result_free(x);
            store_reader_close(r);
            best = now() - t < best ? now() - t : best;
        }
        getrusage(RUSAGE_SELF, &after);
        result[0] = best;
        result[1] = (double)(after.ru_maxrss - before.ru_maxrss) * 1024;
        _exit(write(pipe_of[1], result, sizeof result) != (ssize_t)sizeof result);
    }
    close(pipe_of[1]);
    if (read(pipe_of[0], result, sizeof result) != (ssize_t)sizeof result)
        exit(1);
    close(pipe_of[0]);
    waitpid(child, NULL, 0);
    char budget[32] = "-";
    if (budget_s > 0)
        snprintf(budget, sizeof budget, "<= %.1f s", budget_s);
    printf("full report, %" PRId64 " k slices\t%.3f s, %.0f ns a slice\t%s\t%s\n", slices / 1000,
           result[0], result[0] / (double)slices * 1e9, budget,
           budget_s <= 0           ? "-"
           : result[0] <= budget_s ? "ok"
                                   : "OVER");
    double bytes = result[1] / (double)slices;
    printf("memory of it\t%.0f MB, %.0f bytes a slice\t%s\t%s\n", result[1] / 1e6, bytes,
           slices > 1000000 ? "<= 60 B" : "-",
           slices <= 1000000 ? "-"
           : bytes <= 60     ? "ok"
                             : "OVER");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char path[] = "report-bench.tacho";
    if (argc > 2 && !strcmp(argv[1], "soak")) {
        write_soak(argv[2]);
        return 0;
    }
    const int64_t sizes[] = {100000, (argc > 1 ? atoll(argv[1]) : 2) * 1000000};
    for (int i = 0; i < 2; i++) {
        unlink(path);
        write_run(path, sizes[i]);
        measure(path, sizes[i], i ? 0 : 0.3);
    }
    unlink(path);
    write_soak(path);
    measure_soak(path, 5);
    unlink(path);
    return 0;
}
