/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_rep_*.c: runs to print, the same every time, and their output in memory.
 */
#ifndef REP_FIXTURE_H
#define REP_FIXTURE_H

#include "an_fixture.h"
#include "reports/report.h"

/* Sampled call stacks: main calls each of the names, the first one most. */
static inline void fx_stacks(struct fixture *f, const char *const *names, size_t count)
{
    int64_t track = fx_track(f, f->process, "samples", "main", NULL), outer, frame, stack;
    FX(store_run_set(f->s, "stacks", "sampled: cpu-clock, unwind tables"));
    FX(store_run_set(f->s, "stacks.period_ns", "10101010"));
    FX(store_run_set(f->s, "stacks.kernel",
                     "not sampled: kernel.perf_event_paranoid allows user code only"));
    FX(store_string(f->s, "main", 4, &frame));
    FX(store_stack(f->s, FX_NONE, frame, &outer));
    for (size_t i = 0; i < count; i++) {
        FX(store_string(f->s, names[i], strlen(names[i]), &frame));
        FX(store_stack(f->s, outer, frame, &stack));
        for (size_t k = 0; k < count - i; k++)
            FX(store_sample_add(
                f->s, &(struct store_sample){track, FX_BASE + (int64_t)(i * 1000 + k), stack}));
    }
}

static inline void fx_series(struct fixture *f, int64_t process, const char *name, const char *unit,
                             double first, double last, int n, int64_t apart)
{
    int64_t t = fx_track(f, process, "counter", name, unit);
    for (int i = 0; i < n; i++)
        fx_counter(f, t, i * apart, n > 1 ? first + (last - first) * i / (n - 1) : first);
}

/* A training run with all there is: 60 steps of 10 ms, a loader, an evaluation, losses, counters,
 * steps without recording. */
static inline void fx_training(struct fixture *f)
{
    fx_open(f);
    static const char *const keys[][2] = {
        {"cpu.usable", "2"},
        {"cpu.online", "2"},
        {"tacho.version", "0.1.0"},
        {"clock", "tsc"},
        {"ended", "exit 0"},
        {"command", "train gpt2-tiny"},
        {"counter.cycles", "not supported: No such file or directory"},
        {"counter.instructions", "not supported: No such file or directory"},
        {"counter.cache_misses", "multiplexed 60 %"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        FX(store_run_set(f->s, keys[i][0], keys[i][1]));
    fx_peak(f, "fp32", 428e9, "measured: instruction peak, 2 cores, AVX-512");
    int64_t matmul = fx_work(f, "matrix", "fp32", 1500000000, 1000000000, 1000000000);
    int64_t attention = fx_work(f, "attention", "fp32", 200000000, 100000000, 200000000),
            gelu = fx_work(f, "other", "fp32", 9000000, 0, 0);
    int64_t worker = fx_track(f, f->process, "thread", "loader-0", NULL);
    for (int i = 0; i < 60; i++) {
        int64_t b = i * 12000000ll, jitter = (i * 7919 % 13) * 10000,
                end = b + 10000000 + jitter + (i == 40 ? 9000000 : 0);
        bool paused = i > 2 && i % 5 == 0;
        if (i == 40)
            end = b + 11900000;
        fx_step(f, f->process, f->thread, i, b, end, 4096, paused);
        if (!paused) {
            fx_slice(f, f->thread, b + 1000, b + 801000, "input_wait", fx_kind(f, "input_wait"));
            fx_slice(f, f->thread, b + 802000, b + 9950000, "micro_step", fx_kind(f, "micro_step"));
            fx_slice(f, f->thread, b + 900000, b + 6900000, "matmul.forward", matmul);
            fx_slice(f, f->thread, b + 6900000, b + 8900000 + jitter / 2, "attention.forward",
                     attention);
            fx_slice(f, f->thread, b + 9100000, b + 9600000, "gelu", gelu);
        }
        fx_slice(f, worker, b, b + 700000, "read", fx_kind(f, "read"));
        fx_slice(f, worker, b + 700000, b + 900000, "collate", fx_kind(f, "collate"));
        fx_slice(f, worker, b + 900000, b + 11000000, "queue_wait", fx_kind(f, "queue_wait"));
    }
    fx_slice(f, f->thread, 10 * 12000000ll - 1900000, 10 * 12000000ll - 400000, "evaluation",
             fx_kind(f, "evaluation"));
    fx_series(f, f->process, "loss", NULL, 7.0, 4.05, 60, 12000000);
    fx_series(f, f->process, "queue_depth", NULL, 1, 1, 60, 12000000);
    fx_series(f, f->process, "cpu_time", "ns", 0, 1.1e9, 8, 100000000);
    fx_series(f, f->process, "rss", "bytes", 1e6, 5e8, 8, 100000000);
    static const struct {
        const char *name;
        double bytes;
    } held[] = {{"memory.parameters", 1e8},  {"memory.gradients", 1e8}, {"memory.optimizer", 2e8},
                {"memory.activations", 5e7}, {"memory.workspace", 4e6}, {"memory.total", 4.54e8},
                {"memory.peak", 4.6e8}};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        fx_series(f, f->process, held[i].name, NULL, held[i].bytes, held[i].bytes, 1, 0);
    FX(store_run_set(f->s, "memory.bytes", "8000000000"));
    fx_series(f, f->process, "major_faults", "count", 0, 3, 8, 100000000);
    fx_series(f, FX_NONE, "cpu_busy", "%", 80, 90, 8, 100000000);
    FX(store_loss_add(
        f->s,
        &(struct store_loss){
            .source = "agent",
            .reason = "event not recorded: overhead measurement paused recording for the step",
            .count = 60,
            .t0 = FX_BASE,
            .t1 = FX_BASE + 1000}));
    fx_stacks(f, (const char *[]){"gpt2_forward", "[libgomp.so.1]", "[kernel]"}, 3);
}

/* A program with ranges that are no steps. */
static inline void fx_ranges(struct fixture *f)
{
    fx_open(f);
    for (int i = 0; i < 20; i++)
        fx_slice(f, f->thread, i * 1000000, i * 1000000 + 700000, i % 2 ? "load" : "solve",
                 FX_NONE);
}

/* Names that try to break out of a report. */
static inline void fx_hostile(struct fixture *f)
{
    static char long_name[10001];
    memset(long_name, 'x', sizeof long_name - 1);
    static const char *const names[] = {"\x1b[31mred\x1b[0m",
                                        "line\nbreak\r\n\ttab",
                                        "bad \xff\xfe\x80 utf8 \xc3",
                                        "bell\a\b\x7f",
                                        "c1 \xc2\x9b"
                                        "31m",
                                        "\xe2\x80\xae"
                                        "evil",
                                        "\xed\xa0\x80 surrogate",
                                        "</script><b>&\"'",
                                        "\xe6\xb0\xb4\xe6\xb0\xb4 wide",
                                        "e\xcc\x81 combining",
                                        "%s%n%d",
                                        "",
                                        long_name};
    fx_open(f);
    int64_t bad = fx_process(f, 3, "\x1b]0;title\a\nprogram");
    int64_t track = fx_track(f, bad, "thread", "t\x1b[2J", NULL);
    for (int i = 0; i < 6; i++) {
        fx_step(f, bad, track, i, i * 1000000ll, i * 1000000ll + 900000, 10, false);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            fx_slice(f, track, i * 1000000ll + (int64_t)k * 50000,
                     i * 1000000ll + (int64_t)k * 50000 + 40000, names[k],
                     fx_work(f, "matrix", names[k % 4], 10, 10, 10));
    }
    for (size_t k = 0; k < 12; k++) {
        FX(store_run_set(f->s, names[k], names[(k + 1) % 12]));
        fx_series(f, bad, names[k], "u\x1b", 1, 2, 3, 1000);
        FX(store_loss_set(f->s, &(struct store_loss){.source = names[k],
                                                     .reason = names[(k + 2) % 12],
                                                     .count = 1,
                                                     .t0 = FX_NONE,
                                                     .t1 = FX_NONE}));
    }
    fx_stacks(f, names, sizeof names / sizeof *names);
    FX(store_run_set(f->s, "counter.\x1b[1m", "den\x1bied"));
    FX(store_run_set(f->s, "ended", "signal\n\x1b[5m"));
    fx_peak(f, names[0], 1e12, names[5]);
}

/* A report as text of its own; the caller frees it. */
static inline char *rep_text(const struct an_result *r, const char *format,
                             const struct rep_options *o)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(rep_write(format, r, o, out), 0);
    fclose(out);
    char *copy = strdup(text);
    free(text);
    assert_non_null(copy);
    return copy;
}

#endif
