/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVML samples become: energy by the counter and by power, means over the counted steps alone,
 * why clocks were held, whose GPUs count, what is absent and why.
 */
#include "tests/unit/an_gpu.h"

#define MS 1000000ll

static int64_t sampled(struct fixture *f, const char *device, const char *name, const char *unit)
{
    struct store_track t = {.process = FX_NONE,
                            .tid = FX_NONE,
                            .kind = "counter",
                            .name = name,
                            .unit = unit,
                            .device = device};
    FX(store_track_add(f->s, &t));
    return t.id;
}

static void own(struct fixture *f, const char *gpu, const char *uuid, bool used)
{
    char key[64];
    snprintf(key, sizeof key, "nvml.%s.uuid", gpu);
    FX(store_run_set(f->s, key, uuid));
    snprintf(key, sizeof key, "nvml.%s.name", gpu);
    FX(store_run_set(f->s, key, "Test GPU"));
    snprintf(key, sizeof key, "device.%lld.gpu:%s.uuid", (long long)f->process, gpu);
    if (used)
        FX(store_run_set(f->s, key, uuid));
}

/* Eight steps of 100 ms from 0 on; each launches a kernel of 80 ms. The first and the last are not
 * counted: 100..700 ms. */
static void steps(struct fixture *f)
{
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    for (int i = 0; i < 8; i++) {
        fx_step(f, f->process, f->thread, i, i * 100 * MS, (i + 1) * 100 * MS, 400, false);
        gpu_launch(f, s, i * 100000, i * 100000 + 10, i * 100000 + 20, i * 100000 + 80020,
                   "volta_sgemm_128x64_nn", i + 1);
    }
}

static void test_energy_counter(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f);
    own(f, "0", "GPU-a", true);
    own(f, "1", "GPU-b", false); /* somebody else's */
    FX(store_run_set(f->s, "nvml.0.power_limit_w", "700"));
    int64_t e = sampled(f, "gpu:0", "gpu_energy", "J"), p = sampled(f, "gpu:0", "gpu_power", "W"),
            other = sampled(f, "gpu:1", "gpu_energy", "J");
    for (int i = 0; i <= 20; i++) { /* each 50 ms; 300 W while steps run, then 100 W */
        double t = 0.05 * i, joules = t < 0.8 ? 1000 + 300 * t : 1000 + 240 + 100 * (t - 0.8);
        fx_counter(f, e, i * 50 * MS, joules);
        fx_counter(f, p, i * 50 * MS, t <= 0.8 ? 300 : 100);
        fx_counter(f, other, i * 50 * MS, 5000 + 700 * t);
    }
    struct an_options o = {.file = "run.tacho", .price_per_kwh = 0.36};
    const struct an_result *r = fx_analyze_with(f, &o);
    assert_int_equal(r->steps.counted, 6);
    assert_int_equal(r->hardware_gpu_count, 1);
    const struct an_gpu_hardware *g = r->hardware_gpus;
    assert_int_equal(g->gpu, 0);
    assert_string_equal(g->energy_source, "energy counter");
    /* 300 W over what the six counted steps of the device cover */
    double window = r->steps.mean_ms.value * 6 / 1e3;
    assert_true(fabs(g->energy_j.value - 300 * window) < 300 * window * 0.001);
    assert_true(fabs(r->energy.power_w.value - 300) < 0.5);
    assert_int_equal(r->energy.steps, 6);
    assert_true(fabs(r->energy.per_step_j.value - r->energy.energy_j.value / 6) < 1e-9);
    assert_true(fabs(r->energy.per_token_j.value - r->energy.energy_j.value / 2400) < 1e-9);
    assert_true(fabs(r->energy.cost.value - r->energy.energy_j.value / 1e7) < 1e-12);
    assert_true(fabs(g->power_w.value - 300) < 1e-9);
    assert_true(g->power_limit_w.value == 700);
    assert_false(g->clock_sm_mhz.valid);
    fx_close(f);
}

/* A GPU without the counter: power x time. One that tells nothing: no energy at all, with the
 * reason of the driver. */
static void test_power_only(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    for (int denied = 0; denied < 2; denied++) {
        fx_open(f);
        steps(f);
        own(f, "0", "GPU-a", true);
        if (denied) {
            FX(store_run_set(f->s, "nvml.0.gpu_power", "denied"));
        } else {
            int64_t p = sampled(f, "gpu:0", "gpu_power", "W");
            for (int i = 0; i <= 20; i++)
                fx_counter(f, p, i * 50 * MS, 200);
        }
        const struct an_result *r = fx_analyze(f);
        assert_null(r->hardware.reason);
        if (denied) {
            assert_non_null(strstr(r->energy.reason, "denied"));
            assert_false(r->energy.per_step_j.valid);
        } else {
            assert_string_equal(r->hardware_gpus->energy_source, "power x time");
            assert_true(fabs(r->energy.power_w.value - 200) < 1e-6);
            assert_false(r->energy.cost.valid);
            assert_non_null(strstr(r->energy.cost.reason, "--price-kwh"));
        }
        fx_close(f);
    }
}

/* The counter was read in a part of the window only: the rest had the same power. A slice of the
 * GPU (MIG) has no energy, because NVML measures the whole. */
static void test_part_and_slice(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    for (int slice = 0; slice < 2; slice++) {
        char key[64];
        fx_open(f);
        steps(f);
        own(f, "0", "GPU-a", true);
        int64_t energy = sampled(f, "gpu:0", "gpu_energy", "J");
        for (int i = 3; i <= 11; i++) /* 150 to 550 ms at 300 W */
            fx_counter(f, energy, i * 50 * MS, 1000 + i * 15);
        snprintf(key, sizeof key, "device.%lld.gpu:0.mig", (long long)f->process);
        if (slice)
            FX(store_run_set(f->s, key, "instance 3, compute instance 1"));
        const struct an_result *r = fx_analyze(f);
        if (slice) {
            assert_false(r->hardware_gpus->energy_j.valid);
            assert_non_null(strstr(r->energy.reason, "MIG"));
        } else {
            assert_string_equal(r->hardware_gpus->energy_source, "energy counter");
            assert_true(fabs(r->hardware_gpus->energy_j.value - 300 * 0.6) < 0.01);
        }
        fx_close(f);
    }
}

static const struct an_finding *finding(const struct an_result *r, const char *id)
{
    for (size_t i = 0; i < r->finding_count; i++)
        if (!strcmp(r->findings[i].id, id))
            return &r->findings[i];
    return NULL;
}

/* Half of the time of the steps held by heat; outside of the steps by everything. */
static void test_throttling(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    for (int hot = 0; hot < 2; hot++) {
        fx_open(f);
        steps(f);
        own(f, "0", "GPU-a", true);
        FX(store_run_set(f->s, "nvml.0.max_clock_sm_mhz", "2000"));
        int64_t bits = sampled(f, "gpu:0", "gpu_throttle_reasons", "bits"),
                clock = sampled(f, "gpu:0", "gpu_clock_sm", "MHz");
        for (int i = 0; i <= 100; i++) { /* each 10 ms; a sample speaks for the time before it, and
                                            steps begin with their kernel */
            bool inside = i > 10 && i <= 71, held = inside ? hot && i <= 40 : true;
            fx_counter(f, bits, i * 10 * MS, held ? 0x20 | 0x8 : 0x1);
            fx_counter(f, clock, i * 10 * MS, held ? 1000 : 2000);
        }
        const struct an_result *r = fx_analyze(f);
        const struct an_gpu_hardware *g = r->hardware_gpus;
        assert_int_equal(r->hardware_gpu_count, 1);
        if (hot) {
            assert_true(fabs(g->throttled_pct.value - 50) < 0.5);
            assert_true(fabs(g->clock_sm_mhz.value - 1500) < 5);
            assert_int_equal(g->reason_count, 2);
            assert_true(g->reasons[0].fault && g->reasons[1].fault);
            const struct an_finding *x = finding(r, "THROTTLED");
            assert_non_null(x);
            assert_non_null(strstr(x->action, "cooling"));
            assert_true(x->gain.ceiling && !x->gain.expected.valid && !x->gain.low.valid);
            /* compute 80 % of the step at 3/4 of the clock: 100 (1 / (1 - 0.8 * 0.25) - 1) = 25 %
             */
            assert_true(fabs(x->gain.high.value - 25) < 0.6);
        } else {
            assert_true(g->throttled_pct.valid && g->throttled_pct.value < 1e-9);
            assert_int_equal(g->reason_count, 0);
            assert_null(finding(r, "THROTTLED"));
        }
        fx_close(f);
    }
}

/* Held by its power cap: a limit below that of the data sheet can be raised; at that of the data
 * sheet nothing can be set, and no gain is promised. */
static void test_power_cap(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    for (int sheet = 0; sheet < 2; sheet++) {
        fx_open(f);
        steps(f);
        own(f, "0", "GPU-a", true);
        FX(store_run_set(f->s, "nvml.0.name", "NVIDIA H200"));
        FX(store_run_set(f->s, "nvml.0.power_limit_w", sheet ? "700" : "500"));
        FX(store_run_set(f->s, "nvml.0.max_clock_sm_mhz", "2000"));
        int64_t bits = sampled(f, "gpu:0", "gpu_throttle_reasons", "bits"),
                clock = sampled(f, "gpu:0", "gpu_clock_sm", "MHz"),
                power = sampled(f, "gpu:0", "gpu_power", "W"),
                energy = sampled(f, "gpu:0", "gpu_energy", "J");
        for (int i = 0; i <= 100; i++) {
            fx_counter(f, bits, i * 10 * MS, 0x4);
            fx_counter(f, clock, i * 10 * MS, 1800);
            fx_counter(f, power, i * 10 * MS, 300); /* a mean over the second before */
            fx_counter(f, energy, i * 10 * MS, 6.5 * i);
        }
        const struct an_finding *x = finding(fx_analyze(f), "THROTTLED");
        assert_non_null(x);
        assert_non_null(strstr(x->action, sheet ? "nothing to set" : "-pl WATTS"));
        assert_int_equal(x->gain.high.valid, !sheet);
        bool counted = false;
        for (size_t i = 0; i < 5 && x->evidence[i]; i++)
            counted = counted || strstr(x->evidence[i], "power 650 W");
        assert_true(counted);
        fx_close(f);
    }
}

/* Samples that cover too little, samples that are none, a counter that runs backwards, no steps. */
static void test_odd(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f);
    steps(f);
    own(f, "0", "GPU-a", true);
    int64_t e = sampled(f, "gpu:0", "gpu_energy", "J"),
            c = sampled(f, "gpu:0", "gpu_clock_sm", "MHz"),
            m = sampled(f, "gpu:0", "gpu_memory_used", "bytes");
    fx_counter(f, e, 0, 900);
    fx_counter(f, e, 900 * MS, 100);
    fx_counter(f, c, 100 * MS, 1500);
    fx_counter(f, c, 200 * MS, 1500);
    fx_counter(f, m, 0, 1);
    fx_counter(f, m, 400 * MS, NAN);
    fx_counter(f, m, 900 * MS, 2e9);
    const struct an_result *r = fx_analyze(f);
    assert_false(r->hardware_gpus->energy_j.valid);
    assert_non_null(r->energy.reason);
    assert_false(r->hardware_gpus->clock_sm_mhz.valid);
    assert_non_null(strstr(r->hardware_gpus->clock_sm_mhz.reason, "--sample-ms"));
    fx_close(f);

    fx_open(f);
    int64_t s = gpu_stream(f, f->process, "gpu:0", 7);
    gpu_launch(f, s, 0, 10, 20, 500000, "volta_sgemm_128x64_nn", 1);
    own(f, "0", "GPU-a", true);
    int64_t p = sampled(f, "gpu:0", "gpu_power", "W");
    for (int i = 0; i <= 10; i++)
        fx_counter(f, p, i * 50 * MS, 400);
    r = fx_analyze(f);
    assert_true(fabs(r->energy.energy_j.value - 200) < 1);
    assert_false(r->energy.per_step_j.valid);
    fx_close(f);
}

/* Counters of the process on the GPU, which it calls gpu:2 where NVML calls it 0. */
static void test_counted(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    static const struct {
        const char *name;
        double value;
    } values[] = {{"range_tensor_bf16", 8e12}, {"range_tensor_tf32", 1e12},
                  {"range_fp32_fma", 2e11},    {"range_fp32_add", 5e10},
                  {"range_fp32_mul", 5e10},    {"range_dram_read", 6e10},
                  {"range_dram_write", 4e10},  {"range_time", 5e7}};
    char key[64];
    fx_open(f);
    steps(f);
    own(f, "0", "GPU-a", false);
    snprintf(key, sizeof key, "device.%lld.gpu:2.uuid", (long long)f->process);
    FX(store_run_set(f->s, key, "GPU-a"));
    FX(store_run_set(f->s, "counters.roofline", "GH100: 8 metrics, 7 passes, 1 times"));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct store_track t = {.process = f->process,
                                .tid = FX_NONE,
                                .kind = "counter",
                                .name = values[i].name,
                                .unit = "x",
                                .device = "gpu:2"};
        FX(store_track_add(f->s, &t));
        fx_counter(f, t.id, 300 * MS, values[i].value);
    }
    const struct an_result *r = fx_analyze(f);
    assert_int_equal(r->hardware_gpu_count, 1);
    const struct an_step_counted *s = &r->hardware_gpus->step;
    assert_true(s->matrix_ops.value == 9e12); /* fp16 and fp8: the chip has no such counter */
    assert_true(s->fp32_flops.value == 5e11);
    assert_true(s->dram_bytes.value == 1e11);
    assert_true(fabs(s->intensity.value - 95) < 1e-9);
    assert_true(fabs(s->flops_per_s.value - 9.5e12 / 0.05) < 1);
    assert_false(s->l2_bytes.valid);
    assert_string_equal(s->l2_bytes.reason, "this chip does not count it");
    assert_false(r->hardware_gpus->pm_sm_active_pct.valid);
    assert_non_null(strstr(r->hardware_gpus->pm_sm_active_pct.reason, "--counters sampled"));
    fx_close(f);
}

static void range(struct fixture *f, const char *name, const char *payload)
{
    struct store_detail d = fx_empty();
    d.schema = "tacho.counted";
    d.payload = payload;
    fx_slice(f, f->thread, 300 * MS, 300 * MS, name, fx_intern(f, &d));
}

/* Ranges counted one by one: marks with some of the metrics each become a row, and a point of the
 * roofline with its own bytes.
 */
static void test_ranges(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    char key[64];
    fx_open(f);
    steps(f);
    snprintf(key, sizeof key, "device.%lld.gpu:0.name", (long long)f->process);
    FX(store_run_set(f->s, key, "NVIDIA H100 80GB HBM3"));
    FX(store_run_set(f->s, "counters.roofline", "GH100: 8 metrics, 7 passes, 1 times"));
    FX(store_run_set(f->s, "counters.ranges", "GH100: 8 metrics, 7 passes, 3 ranges"));
    range(f, "forward/mlp",
          "{\"device\":0,\"pieces\":12,\"range_tensor_bf16\":4e12,\"range_fp32_add\":1e9,"
          "\"range_fp32_mul\":1e9,\"range_fp32_fma\":1e9}");
    range(f, "forward/mlp",
          "{\"device\":0,\"pieces\":12,\"range_dram_read\":6e9,\"range_dram_write\":2e9,\"range_"
          "time\":1e7,"
          "\"range_occupancy\":null}");
    range(f, "forward/norm",
          "{\"device\":0,\"pieces\":12,\"range_tensor_bf16\":0,\"range_fp32_add\":1e9,\"range_fp32_"
          "mul\":0,"
          "\"range_fp32_fma\":0}");
    range(f, "forward/norm",
          "{\"device\":0,\"pieces\":12,\"range_dram_read\":3e9,\"range_dram_write\":3e9,\"range_"
          "time\":2e6}");
    range(f, "idle",
          "{\"device\":0,\"pieces\":1,\"range_tensor_bf16\":null,\"range_dram_read\":null,\"range_"
          "time\":null}");
    range(f, "broken", "{\"device\":"); /* a damaged file */
    const struct an_result *r = fx_analyze(f);
    assert_null(r->counted.reason);
    assert_int_equal(r->range_counted_count, 3);
    const struct an_range_counted *mlp = &r->ranges_counted[0], *norm = &r->ranges_counted[1],
                                  *idle = &r->ranges_counted[2];
    assert_string_equal(mlp->name, "forward/mlp");
    assert_string_equal(mlp->dtype, "bf16");
    assert_int_equal(mlp->pieces, 12);
    assert_true(mlp->counted.matrix_ops.value == 4e12 && mlp->counted.fp32_flops.value == 4e9);
    assert_true(fabs(mlp->counted.intensity.value - 4.004e12 / 8e9) < 1e-9);
    assert_string_equal(mlp->counted.occupancy_pct.reason, "no kernel of this range was counted");
    assert_string_equal(mlp->counted.l2_bytes.reason, "this chip does not count it");
    assert_string_equal(norm->dtype, "fp32");
    assert_string_equal(idle->name, "idle");
    assert_false(idle->counted.time_ms.valid);
    assert_null(r->roofline.reason);
    assert_int_equal(r->point_count, 2);
    assert_string_equal(r->points[0].name, "forward/mlp");
    assert_string_equal(r->points[0].kind, "range");
    assert_true(r->points[0].bytes_measured && r->points[0].bytes == 8000000000ll &&
                r->points[0].time_ns == 10000000);
    assert_string_equal(r->points[0].bound,
                        "compute"); /* 500 op/byte, ridge of an H100 at about 295 */
    assert_string_equal(r->points[1].bound, "memory");
    assert_string_equal(r->points[1].level, "dram");
    fx_close(f);

    fx_open(f);
    steps(f);
    r = fx_analyze(f);
    assert_non_null(strstr(r->counted.reason, "--counters roofline"));
    fx_close(f);
    fx_open(f);
    steps(f);
    FX(store_run_set(f->s, "counters.roofline", "GH100: 8 metrics, 7 passes, 1 times"));
    r = fx_analyze(f);
    assert_non_null(strstr(r->counted.reason, "no ranges inside"));
    fx_close(f);
}

static void test_nobody(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    fx_open(f); /* a CPU run on a machine with a GPU */
    fx_step(f, f->process, f->thread, 0, 0, 100, 8, false);
    own(f, "0", "GPU-a", false);
    const struct an_result *r = fx_analyze(f);
    assert_non_null(strstr(r->energy.reason, "no process"));
    fx_close(f);
    fx_open(f);
    steps(f);
    r = fx_analyze(f);
    assert_non_null(strstr(r->energy.reason, "NVML was not sampled"));
    assert_int_equal(r->hardware_gpu_count, 0);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_energy_counter), cmocka_unit_test(test_power_only),
        cmocka_unit_test(test_part_and_slice), cmocka_unit_test(test_throttling),
        cmocka_unit_test(test_power_cap),      cmocka_unit_test(test_odd),
        cmocka_unit_test(test_nobody),         cmocka_unit_test(test_counted),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
