/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_tui_views.c: models to draw. A training run of the engine as the analysis gives it, with
 * pictures made by hand; two ranks with GPUs; a run of which nothing is known; names that try to
 * break out.
 */
#ifndef TUI_MODELS_H
#define TUI_MODELS_H

#include "tests/unit/rep_fixture.h"
#include "tests/unit/rep_gpu.h"
#include "tui/data/model.h"
#include "tui/views.h"

#define TM_STEPS    200
#define TM_COUNT(a) (sizeof(a) / sizeof *(a))

/* 200 steps of 10 ms on each of `ranks` ranks, every 37th slow, the first left out. */
static inline void tm_steps(struct tui_model *m, int ranks)
{
    static struct an_step_point step[4 * TM_STEPS];
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < TM_STEPS; i++) {
            double ms =
                10 + (double)(i * 7919 % 13) * 0.01 + (i % 37 == 36 ? 8 : 0) + (i == 0 ? 30 : 0);
            step[r * TM_STEPS + i] = (struct an_step_point){.rank = r,
                                                            .index = i,
                                                            .steps = 1,
                                                            .start_s = i * 0.012,
                                                            .ms = ms,
                                                            .worst_ms = ms,
                                                            .tokens_per_s = 4096 / ms * 1e3,
                                                            .excluded = i ? NULL : "first"};
        }
    m->step = step;
    m->step_count = (size_t)ranks * TM_STEPS;
    m->steps_seen = m->steps_expected = TM_STEPS;
    m->last_index = TM_STEPS - 1;
}

static inline void tm_series(struct tui_model *m)
{
    static const struct {
        const char *name, *unit;
        double first, last, wave;
    } of[] = {{"cpu_busy", "%", 70, 90, 10},     {"cpu_time", "ns", 0, 4.4e9, 0},
              {"disk_read", "bytes", 0, 5e8, 0}, {"learning_rate", "", 1e-4, 1e-5, 0},
              {"loss", "", 7, 4.05, 0.1},        {"memory.total", "bytes", 4e8, 4.54e8, 0},
              {"queue_depth", "", 1, 1, 1},      {"rss", "bytes", 1e8, 5e8, 0}};
    static double time_s[64], value[TM_COUNT(of)][64];
    static struct tui_series series[TM_COUNT(of)];
    for (size_t k = 0; k < TM_COUNT(of); k++) {
        for (int i = 0; i < 64; i++) {
            time_s[i] = i * 0.0375;
            value[k][i] =
                of[k].first + (of[k].last - of[k].first) * i / 63 + of[k].wave * (i % 5 - 2) / 2;
        }
        series[k] = (struct tui_series){.name = of[k].name,
                                        .unit = of[k].unit,
                                        .device = "cpu",
                                        .host = "host",
                                        .time_s = time_s,
                                        .value = value[k],
                                        .count = 64};
        series[k].last = value[k][63];
    }
    m->series = series;
    m->series_count = TM_COUNT(of);
}

/* A typical and a worst step: the step's thread with its ops inside, two loader workers; the path
 * goes over three tracks. */
static inline void tm_timeline(struct an_result *r)
{
    static struct an_timeline_span outer[3], ops[40], worker[8];
    static struct an_timeline_track track[2][4];
    static struct an_timeline_step step[2];
    const int64_t us = 1000;
    outer[0] = (struct an_timeline_span){0, 800 * us, "input_wait", AN_CLASS_INPUT, 1, 1, false};
    outer[1] =
        (struct an_timeline_span){802 * us, 9148 * us, "micro_step", AN_CLASS_COMPUTE, 1, 1, false};
    outer[2] =
        (struct an_timeline_span){9960 * us, 40 * us, "optimizer", AN_CLASS_HOST, 7, 0.4F, true};
    for (int i = 0; i < 40; i++)
        ops[i] = (struct an_timeline_span){.start_ns = (810 + i * 228) * us,
                                           .dur_ns = 200 * us,
                                           .name = i % 3 ? "matmul.forward" : "attention.forward",
                                           .what = AN_CLASS_COMPUTE,
                                           .merged = i % 5 ? 1 : 12,
                                           .busy = i % 5 ? 1 : 0.3F,
                                           .critical = true};
    for (int i = 0; i < 8; i++)
        worker[i] = (struct an_timeline_span){(int64_t)i * 1200 * us,
                                              (i % 2 ? 200 : 700) * us,
                                              i % 2 ? "collate" : "read",
                                              AN_CLASS_INPUT,
                                              1,
                                              1,
                                              i == 0};
    for (int k = 0; k < 2; k++) {
        const struct an_timeline_track tracks[4] = {
            {"main", "thread", "cpu", 0, 1, 9900 * us, 0, outer, 3},
            {"main", "thread", "cpu", 0, 1, 8000 * us, 1, ops, 40},
            {"loader-0", "loader", "cpu", 0, 1, 3600 * us, 0, worker, 8},
            {"loader-1", "loader", "cpu", 0, 1, 0, 0, NULL, 0},
        };
        memcpy(track[k], tracks, sizeof tracks);
        step[k] = (struct an_timeline_step){
            k ? "worst" : "typical", 0, k ? 36 : 100, k ? 18 : 10, track[k], 4};
    }
    r->timeline = (struct an_timeline){NULL, step, 2};
}

static inline void tm_heat(struct an_result *r)
{
    enum { RANKS = 4, STEPS = 120 };
    static int64_t rank[RANKS], index[STEPS];
    static double step_ms[RANKS * STEPS], waiting[RANKS * STEPS], transfer[RANKS * STEPS];
    for (int k = 0; k < RANKS; k++) {
        rank[k] = k;
        for (int s = 0; s < STEPS; s++) {
            index[s] = s;
            step_ms[k * STEPS + s] = 10 + (s % 7) * 0.1;
            waiting[k * STEPS + s] = s == 50 ? NAN : k == 2 ? 0 : 1 + k * 0.3 + (s > 80 ? 2 : 0);
            transfer[k * STEPS + s] = 1;
        }
    }
    r->heat = (struct an_heat){.ranks = RANKS,
                               .steps = STEPS,
                               .rank = rank,
                               .index = index,
                               .ranks_a_row = 1,
                               .steps_a_column = 1,
                               .step_ms = step_ms,
                               .waiting_ms = waiting,
                               .transfer_ms = transfer};
}

static inline void tm_flame(struct an_result *r)
{
    static const struct an_flame_row row[] = {{"all", 0, 600000000, 1},
                                              {"step", 0, 600000000, 60},
                                              {"input_wait", 1, 48000000, 60},
                                              {"micro_step", 1, 540000000, 60},
                                              {"matmul.forward", 3, 360000000, 60},
                                              {"attention.forward", 3, 120000000, 60},
                                              {"softmax", 5, 20000000, 60},
                                              {"gelu", 3, 30000000, 60},
                                              {"evaluation", 0, 1500000, 1}};
    r->flame = (struct an_flame){
        .source = "ranges of the threads that run steps", .row = row, .row_count = TM_COUNT(row)};
}

static inline void tm_roofline(struct an_result *r)
{
    static const struct an_ceiling ceilings[] = {
        {"cpu", "flops", "fp32", "measured", 428e9, "FLOP/s"},
        {"cpu", "gemm", "fp32", "measured", 390e9, "FLOP/s"},
        {"cpu", "bandwidth", "", "measured", 28e9, "bytes/s"},
        {"cpu", "bandwidth_l2", "", "measured", 180e9, "bytes/s"}};
    static const struct {
        const char *name, *bound;
        double intensity, achieved, roof;
    } of[] = {{"matmul.forward", "compute", 60, 250e9, 428e9},
              {"matmul.backward", "compute", 58, 210e9, 428e9},
              {"attention.forward", "memory", 9, 90e9, 252e9},
              {"gelu", "cached", 2, 70e9, 56e9},
              {"adamw", "memory", 0.4, 9e9, 11e9}};
    static struct an_roofline_point points[TM_COUNT(of)];
    for (size_t i = 0; i < TM_COUNT(of); i++)
        points[i] =
            (struct an_roofline_point){.name = of[i].name,
                                       .dtype = "fp32",
                                       .pass = "",
                                       .kind = "matrix",
                                       .count = 60,
                                       .flops = 1000,
                                       .bytes = 1000,
                                       .time_ns = (int64_t)(TM_COUNT(of) - i) * 50000000,
                                       .intensity = of[i].intensity,
                                       .achieved_flops = of[i].achieved,
                                       .attainable_flops = of[i].roof,
                                       .peak_flops = 428e9,
                                       .bound = of[i].bound,
                                       .level = strcmp(of[i].bound, "cached") ? NULL : "l2"};
    r->points = points;
    r->point_count = TM_COUNT(of);
    r->roofline.reason = NULL;
    r->ceilings = ceilings;
    r->ceiling_count = TM_COUNT(ceilings);
}

static inline void tm_path(struct an_result *r)
{
    static const struct an_path_cause causes[] = {
        {"compute", "compute", 472000000, {78.7, NULL, true}, {7.9, NULL, true}},
        {"input", "waits for the loader", 90000000, {15, NULL, true}, {1.5, NULL, true}},
        {"framework", "framework", 38000000, {6.3, NULL, true}, {0.6, NULL, true}}};
    static const struct an_path_op ops[] = {
        {"matmul.forward", "compute", "cpu", 120, 300000000, {50, NULL, true}},
        {"read", "input", "cpu", 60, 90000000, {15, NULL, true}}};
    r->critical_path = (struct an_critical_path){.device = "cpu",
                                                 .windows = 1,
                                                 .steps = 60,
                                                 .window_ns = an_int(600000000),
                                                 .length_ns = an_int(600000000),
                                                 .explained_pct = an_num(98.8),
                                                 .recorded_pct = an_num(90),
                                                 .inferred_pct = an_num(8.8),
                                                 .gap_pct = an_num(1.2),
                                                 .causes = causes,
                                                 .cause_count = TM_COUNT(causes),
                                                 .ops = ops,
                                                 .op_count = TM_COUNT(ops)};
}

static inline void tm_findings(struct an_result *r)
{
    static const struct an_finding findings[] = {
        {.id = "INPUT_STALL",
         .claim = "the step waits 331 ms for its batch",
         .evidence = {"wait 331 ms in 118 of 118 steps",
                      "tokenise 310 ms a batch on the training thread", "queue empty 100 %"},
         .action = "tacho train gpt2-124M --workers 2: two loader workers instead of none",
         .gain = {{36, NULL, true}, {41, NULL, true}, {45, NULL, true}, false},
         .method = "replay of the dependency graph with two workers",
         .effort = "a setting",
         .confidence = AN_HIGH,
         .verify = "tacho verify latest INPUT_STALL",
         .wrong_when = "the other core is busy with something else: it was 4 % busy in this run"},
        {.id = "LOW_PRECISION",
         .claim = "the LM head runs in fp32",
         .evidence = {"matmul.forward 250 GFLOP/s of 428"},
         .action = "tacho train gpt2-124M --dtype bf16",
         .gain = {{0, "a ceiling", false}, {0, "a ceiling", false}, {12, NULL, true}, true},
         .method = "ceiling",
         .effort = "a setting",
         .confidence = AN_MEDIUM,
         .verify = "tacho verify latest LOW_PRECISION",
         .wrong_when = "the loss does not bear it"}};
    r->findings = findings;
    r->finding_count = 2;
    r->healthy = false;
}

/* A run of the engine, healthy as the analysis finds it. `f` keeps what the model points to. */
static inline void tm_training(struct fixture *f, struct an_result *r, struct tui_model *m)
{
    fx_training(f);
    *r = *fx_analyze(f);
    tm_timeline(r);
    tm_flame(r);
    tm_roofline(r);
    tm_path(r);
    *m = (struct tui_model){.version = 1,
                            .state = TUI_LIVE,
                            .run = "train.tacho",
                            .message = "",
                            .now_s = 2.4,
                            .slices = 812330,
                            .result = r,
                            .result_reason = "",
                            .window = "the whole run"};
    tm_steps(m, 1);
    tm_series(m);
}

static inline void tm_gpu(struct an_result *r, struct tui_model *m)
{
    *r = *gpu_result();
    tm_heat(r);
    *m = (struct tui_model){.version = 1,
                            .state = TUI_ENDED,
                            .run = "trace.json.gz",
                            .message = "",
                            .result = r,
                            .result_reason = "",
                            .window = "the whole run"};
    tm_steps(m, 2);
    r->timeline.reason = r->flame.reason = "not in this test";
}

/* A file of which nothing is known: everything is absent, for a reason. */
static inline void tm_nothing(struct fixture *f, struct an_result *r, struct tui_model *m)
{
    fx_open(f);
    *r = *fx_analyze(f);
    *m = (struct tui_model){.state = TUI_ENDED,
                            .run = "empty.tacho",
                            .message = "",
                            .result = r,
                            .result_reason = "",
                            .window = "",
                            .last_index = -1};
}

#endif
