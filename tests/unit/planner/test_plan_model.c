/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and FLOPs of known models, and the properties of time, memory and search that hold for
 * every plan.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "planner/plan.h"
#include "planner/time/link.h"

static struct plan_constants constants;

static struct plan_case case_of(const char *name, const char *device)
{
    struct plan_case out = {.constants = &constants};
    constants = plan_constants_fitted;
    assert_int_equal(plan_model_preset(name, &out.model, NULL), 0);
    assert_int_equal(plan_machine_of(device, "bf16", &out.machine, NULL), 0);
    out.layout = (struct plan_layout){
        64, 4, 4, 4, 1, 1, 1, 1, 256, 4096, 1, true, PLAN_RECOMPUTE_NONE, true, PLAN_SCHEDULE_1F1B,
        0};
    return out;
}

static void near(double value, double expected, double tolerance)
{
    if (!(fabs(value / expected - 1) <= tolerance))
        fail_msg("%.9g is not %.9g", value, expected);
}

/* Parameters as the model cards print them. */
static void test_presets(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double total, active; /* billions */
    } cards[] = {
        {"gpt2", 0.124439808, 0},     {"gpt2-xl", 1.5576112, 0},    {"gpt3-175b", 174.6, 0},
        {"bloom-176b", 176.25, 0},    {"llama-2-7b", 6.738, 0},     {"llama-2-70b", 68.98, 0},
        {"llama-3-8b", 8.030, 0},     {"llama-3-70b", 70.55, 0},    {"llama-3-405b", 405.85, 0},
        {"mistral-7b", 7.24, 0},      {"qwen2.5-72b", 72.7, 0},     {"mixtral-8x7b", 46.7, 12.9},
        {"qwen3-30b-a3b", 30.5, 3.3}, {"qwen3-235b-a22b", 235, 22}, {"gpt-oss-120b", 117, 5.7},
        {"deepseek-v3", 671, 37.5}};
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        struct plan_model model;
        struct plan_parameters parameters;
        assert_int_equal(plan_model_preset(cards[i].name, &model, NULL), 0);
        plan_parameters_of(&model, &parameters);
        near(parameters.total / 1e9, cards[i].total, 0.01);
        near(parameters.active / 1e9, cards[i].active > 0 ? cards[i].active : cards[i].total, 0.03);
    }
    struct plan_model model;
    for (size_t i = 0; plan_model_at(i, &model); i++)
        assert_int_equal(plan_model_complete(&model, NULL), 0);
}

/* A dense model's 96 B S L h^2 (1 + S/6h + V/16Lh), and 3/4 of the layers' part without
 * recomputation. */
static void test_flops(void **state)
{
    (void)state;
    struct plan_model model;
    plan_model_preset("gpt3-175b", &model, NULL);
    double s = 2048, layers = 96, h = 12288, vocabulary = 50257;
    double narayanan = 96 * s * layers * h * h * (1 + s / (6 * h) + vocabulary / (16 * layers * h));
    near(plan_flops(&model, s, PLAN_CONVENTION_HARDWARE), narayanan, 1e-12);
    double head = 6 * vocabulary * h * s;
    near(plan_flops(&model, s, PLAN_CONVENTION_FULL), (narayanan - head) * 3 / 4 + head, 1e-12);
    near(plan_flops(&model, s, PLAN_CONVENTION_FULL) -
             plan_flops(&model, s, PLAN_CONVENTION_CAUSAL),
         3 * 2 * layers * h * s * s, 1e-9);
}

static void test_config(void **state)
{
    (void)state;
    char path[] = "/tmp/tacho-plan-XXXXXX";
    FILE *out = fdopen(mkstemp(path), "w");
    struct plan_model model, preset;
    struct plan_parameters one, other;
    assert_non_null(out);
    fputs("{\"model_type\": \"llama\", \"hidden_act\": \"silu\", \"hidden_size\": 4096, "
          "\"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 8, \"vocab_size\": 128256, \"tie_word_embeddings\": false}",
          out);
    fclose(out);
    assert_int_equal(plan_model_config(path, &model, NULL), 0);
    unlink(path);
    plan_model_preset("llama-3-8b", &preset, NULL);
    plan_parameters_of(&model, &one);
    plan_parameters_of(&preset, &other);
    assert_true(one.total == other.total);
    assert_int_equal(plan_model_dimensions("layers=2,width=64,heads=4,vocab=100", &model, NULL), 0);
    assert_int_equal(plan_model_dimensions("layers=0,width=64,heads=4,vocab=100", &model, NULL),
                     TACHO_EUSAGE);
    assert_int_equal(plan_model_dimensions("layers=2,width=65,heads=4,vocab=100", &model, NULL),
                     TACHO_EUSAGE);
    assert_int_equal(plan_model_dimensions("layers", &model, NULL), TACHO_EUSAGE);
}

/* Parameters of all stages and ranks are the model's; layers too, where they do not divide. */
static void test_stages(void **state)
{
    (void)state;
    struct plan_case at = case_of("llama-2-7b", "A100");
    struct plan_parameters parameters;
    plan_parameters_of(&at.model, &parameters);
    for (int64_t stages = 1; stages <= 32; stages++) {
        int64_t layers = 0;
        double total = 0;
        at.layout.pipeline = stages;
        at.layout.tensor = 1;
        for (int64_t stage = 0; stage < stages; stage++) {
            layers += plan_stage_layers(&at, stage);
            total += plan_stage_parameters(&at, stage);
        }
        assert_int_equal(layers, 32);
        near(total, parameters.total, 1e-5);
    }
}

/* What each setting must do to memory and time. */
static void test_properties(void **state)
{
    (void)state;
    struct plan_case at = case_of("llama-3-70b", "H100");
    struct plan_memory memory, other;
    struct plan_time time, slower;
    plan_memory_of(&at, &memory);
    plan_time_of(&at, 0, &time);
    double sum = 0;
    for (int i = 0; i < PLAN_PARTS; i++)
        sum += time.part[i];
    near(sum, time.seconds, 1e-9);
    sum = 0;
    for (int i = 0; i < PLAN_HELDS; i++)
        sum += memory.bytes[i];
    near(sum, memory.total, 1e-9);
    at.layout.recompute = PLAN_RECOMPUTE_FULL;
    plan_memory_of(&at, &other);
    plan_time_of(&at, 0, &slower);
    assert_true(other.total < memory.total && slower.seconds > time.seconds);
    at.layout.schedule = PLAN_SCHEDULE_GPIPE;
    plan_memory_of(&at, &memory);
    assert_true(memory.total > other.total);
    at = case_of("llama-3-70b", "H100");
    at.layout.zero = 0;
    plan_memory_of(&at, &other);
    at.layout.zero = 1;
    plan_memory_of(&at, &memory);
    assert_true(memory.total < other.total);
    at.layout.chunks = 4;
    plan_time_of(&at, 0, &slower);
    assert_true(slower.part[PLAN_PART_BUBBLE] < time.part[PLAN_PART_BUBBLE]);
    plan_time_of(&at, 1, &slower); /* a loader of one sample a second */
    near(slower.seconds, 256, 1e-6);
}

/* One card carries a ring of a program that does not use all of them, with the shares of all
 * devices that it belongs to; tensor-parallel ranks share what is sent between stages; what older
 * programs wait for. */
static void test_network(void **state)
{
    (void)state;
    struct plan_case at = case_of("llama-3-70b", "A100");
    struct plan_group group = {16, 4};
    double all = plan_ring_bytes_per_s(&at, group);
    near(all, 4 * at.machine.network_bytes_per_s * constants.network, 1e-9);
    at.machine.software.all_rails = false;
    near(plan_ring_bytes_per_s(&at, group), all / 4, 1e-9);
    at.machine.sharing = 2;
    near(plan_ring_bytes_per_s(&at, group), all / 2, 1e-9);
    near(plan_ring_bytes_per_s(&at, (struct plan_group){16, 1}), all / 4, 1e-9);
    at = case_of("llama-3-70b", "A100");
    at.layout.sequence_parallel = false;
    struct plan_time time, older;
    plan_time_of(&at, 0, &time);
    double rows = 4096, batches = 256 / 4;
    near(time.stage_bytes, 2 * batches * 2 * rows * (double)at.model.width / 4, 1e-9);
    at.machine.software.overlap = false;
    plan_time_of(&at, 0, &older);
    near(time.part[PLAN_PART_TENSOR], constants.tensor_exposed * older.part[PLAN_PART_TENSOR],
         1e-9);
}

/* No plan is faster than the peak, whatever the constants say. */
static void test_peak(void **state)
{
    (void)state;
    struct plan_case at = case_of("llama-3-8b", "H100");
    constants.gemm_hopper = constants.flash_hopper = 50;
    constants.gemm_inner = constants.tensor_exposed = 0;
    constants.element = constants.launch = constants.fixed = 0;
    struct plan_time time;
    plan_time_of(&at, 0, &time);
    assert_true(time.mfu[PLAN_CONVENTION_CAUSAL] <= 1);
    assert_true(time.low >= time.least_seconds && time.seconds >= time.least_seconds);
}

/* Bytes of parts of sequences: keys and values go N - 1 times around and their gradients with them;
 * by heads, a rank's four hidden states a direction go but for its own part. Beside tp the heads
 * must do for both; the engine's ring needs two parts a rank. */
static void test_contexts(void **state)
{
    (void)state;
    struct plan_case at = case_of("llama-2-7b", "A100");
    struct plan_time alone, ring, turns;
    at.layout = (struct plan_layout){.devices = 8,
                                     .data = 1,
                                     .tensor = 2,
                                     .pipeline = 1,
                                     .chunks = 1,
                                     .context = 4,
                                     .expert = 1,
                                     .micro_batch = 1,
                                     .global_batch = 8,
                                     .sequence = 4096,
                                     .zero = 1,
                                     .attention = PLAN_CONTEXT_RING};
    double hidden = 2 * 1024 * 4096.0, layers = 8 * 32;
    plan_time_of(&at, 0, &ring);
    at.layout.attention = PLAN_CONTEXT_USUAL;
    plan_time_of(&at, 0, &alone);
    assert_true(ring.tensor_bytes == alone.tensor_bytes && ring.seconds == alone.seconds);
    at.layout.attention = PLAN_CONTEXT_ULYSSES;
    plan_time_of(&at, 0, &turns);
    double sums = layers * 4 * 2 * hidden / 2;
    near(ring.tensor_bytes - sums, layers * 3 * 3 * 2 * hidden / 2, 1e-9);
    near(turns.tensor_bytes - sums, layers * 8 * hidden / 2 * 3 / 4, 1e-9);
    assert_int_equal(plan_layout_check(&at, NULL), 0);
    at.layout.devices = 64;
    at.layout.context = 32;
    assert_int_equal(plan_layout_check(&at, NULL), TACHO_EUSAGE); /* 64 ranks, 32 heads */
    at.layout.attention = PLAN_CONTEXT_RING;
    assert_int_equal(plan_layout_check(&at, NULL), 0);
    at.layout.sequence = 32 * 7;
    assert_int_equal(plan_layout_check(&at, NULL), 0);
    at.machine.software.engine = true;
    assert_int_equal(plan_layout_check(&at, NULL), TACHO_EUSAGE); /* not two parts a rank */
}

/* Ranks that divide the experts each keep their own: their states are shared by fewer ranks, and
 * their gradients pass these only; with as many as there are replicas, none. */
static void test_experts(void **state)
{
    (void)state;
    struct plan_case at = case_of("mixtral-8x7b", "H100");
    struct plan_parameters parameters;
    struct plan_memory memory;
    struct plan_time time;
    at.layout = (struct plan_layout){.devices = 32,
                                     .data = 32,
                                     .tensor = 1,
                                     .pipeline = 1,
                                     .chunks = 1,
                                     .context = 1,
                                     .expert = 8,
                                     .micro_batch = 1,
                                     .global_batch = 32,
                                     .sequence = 4096,
                                     .zero = 1};
    plan_parameters_of(&at.model, &parameters);
    double experts = 32 * 8 * parameters.expert, whole = plan_stage_parameters(&at, 0);
    double dense = whole - experts / 8;
    near(plan_stage_experts(&at, 0), experts / 8, 1e-12);
    plan_memory_stage(&at, 0, &memory);
    near(memory.bytes[PLAN_HELD_STATES], 12 * (dense / 32 + experts / 32), 1e-9);
    plan_time_of(&at, 0, &time);
    /* half of an all-reduce each: weights of 2 bytes, gradients of 4 */
    near(time.data_bytes, 2 * (2 + 4) * 0.5 * (dense * 31 / 32 + experts / 8 * 3 / 4), 1e-9);
    at.layout.data = at.layout.devices = 8;
    at.layout.zero = 0;
    plan_time_of(&at, 0, &time);
    near(time.data_bytes, 2 * 4 * dense * 7 / 8, 1e-9);
    at.layout.expert = 1;
    plan_time_of(&at, 0, &time);
    near(time.data_bytes, 2 * 4 * (dense + experts) * 7 / 8, 1e-9);
}

/* In the reference engine ranks of tp have a part of each expert: each sends all rows of its
 * replica, keeps and multiplies a part of the width. What the engine cannot divide is refused. */
static void test_engine_experts(void **state)
{
    (void)state;
    struct plan_case at = case_of("mixtral-8x7b", "H100");
    struct plan_parameters parameters;
    struct plan_product whole[PLAN_PRODUCTS_MOST], part[PLAN_PRODUCTS_MOST];
    struct plan_time one, two;
    at.layout = (struct plan_layout){.devices = 8,
                                     .data = 2,
                                     .tensor = 4,
                                     .pipeline = 1,
                                     .chunks = 1,
                                     .context = 1,
                                     .expert = 2,
                                     .micro_batch = 1,
                                     .global_batch = 8,
                                     .sequence = 4096,
                                     .zero = 1};
    plan_parameters_of(&at.model, &parameters);
    int count = plan_layer_products(&at, false, whole);
    plan_time_of(&at, 0, &one);
    near(plan_stage_experts(&at, 0), 32 * 4 * parameters.expert, 1e-12);
    at.machine.software.engine = true;
    assert_int_equal(plan_layer_products(&at, false, part), count);
    plan_time_of(&at, 0, &two);
    near(plan_stage_experts(&at, 0), 32 * parameters.expert, 1e-12);
    near(part[count - 2].outer, whole[count - 2].outer / 4, 1e-12);
    near(part[count - 1].inner, whole[count - 1].inner / 4, 1e-12);
    assert_true(two.part[PLAN_PART_EXPERT] > 3 * one.part[PLAN_PART_EXPERT]);
    assert_int_equal(plan_layout_check(&at, NULL), 0);
    at.layout.expert = 8; /* of two replicas */
    assert_int_equal(plan_layout_check(&at, NULL), TACHO_EUSAGE);
    at.machine.software.engine = false;
    assert_int_equal(plan_layout_check(&at, NULL), 0);
    at.machine.software.engine = true;
    at.layout.expert = 2;
    at.layout.tensor = 16; /* of 8 heads of keys and values */
    at.layout.devices = 32;
    assert_int_equal(plan_layout_check(&at, NULL), TACHO_EUSAGE);
    at.layout.tensor = 4;
    at.layout.devices = 16;
    at.layout.context = 2;
    assert_int_equal(plan_layout_check(&at, NULL), TACHO_EUSAGE);
    at.layout.context = 1;
    at.layout.pipeline = 2;
    assert_int_equal(plan_layout_check(&at, NULL), 0);
    at.layout.chunks = 2;
    assert_int_equal(plan_layout_check(&at, NULL), TACHO_EUSAGE);
}

static void test_search(void **state)
{
    (void)state;
    struct plan_case at = case_of("llama-3-70b", "H100");
    struct plan_search *search = malloc(sizeof *search);
    at.layout = (struct plan_layout){.devices = 1024,
                                     .global_batch = 1024,
                                     .sequence = 8192,
                                     .zero = -1,
                                     .expert = 1,
                                     .sequence_parallel = true};
    assert_int_equal(plan_search_layouts(&at, 0, 0, search, NULL), 0);
    assert_int_equal(search->best_count, PLAN_BEST);
    for (size_t i = 0; i < search->best_count; i++) {
        struct plan_case found = at;
        found.layout = search->best[i].layout;
        assert_int_equal(plan_layout_check(&found, NULL), 0);
        assert_true(search->best[i].memory.needed <= at.machine.device.bytes);
        assert_true(!i || search->best[i].time.seconds >= search->best[i - 1].time.seconds);
    }
    for (size_t i = 1; i < search->front_count; i++) {
        assert_true(search->front[i].time.seconds >= search->front[i - 1].time.seconds);
        assert_true(search->front[i].memory.needed < search->front[i - 1].memory.needed);
    }
    at.layout.tensor = 7;
    assert_int_equal(plan_search_layouts(&at, 0, 0, search, NULL), TACHO_EUSAGE);
    free(search);
}

/* The table of accelerators: enough rows, each with its source, its date and a peak. */
/* A run of the engine, planned with a layer twice as wide. */
static struct plan_request wider_than_run(double width)
{
    struct plan_request out = {0};
    constants = plan_constants_fitted;
    assert_int_equal(plan_model_dimensions("layers=4,width=192,heads=6,vocab=256,gated=0,tied=1",
                                           &out.of.model, NULL),
                     0);
    out.of.constants = &constants;
    plan_machine_of_cpu("fp32", 3e11, 1e12, 2, 1, &out.of.machine);
    out.of.layout = (struct plan_layout){
        1, 1, 1, 1, 1, 1, 1, 4, 4, 128, 0, false, PLAN_RECOMPUTE_NONE, true, PLAN_SCHEDULE_1F1B, 0};
    plan_rates_of(&out.of.machine, &out.rates);
    out.rates.grid = plan_grids;
    out.run = (struct plan_run){.name = "run", .at = out.of};
    out.of.model.width = (int64_t)width;
    out.of.model.head_dim = out.of.model.width / out.of.model.heads;
    out.of.model.feed_forward = 4 * out.of.model.width;
    return out;
}

/* A run whose kinds of work are known scales each by its own factor: the run's own plan has the
 * run's times, and one kind that was slow in the run is slow in the plan, the others are not. */
static void test_kinds_of_a_run(void **state)
{
    struct plan_request request = wider_than_run(192);
    struct plan_result plan;
    (void)state;
    request.run.kinds = (struct plan_kinds){0.03, 0.01, 0.004, 0.002, 0};
    request.run.seconds = 0.05;
    assert_int_equal(plan_make(&request, &plan, NULL), 0);
    near(plan.found.time.seconds, 0.05, 1e-9);
    near(plan.found.time.part[PLAN_PART_ATTENTION] / plan.found.time.part[PLAN_PART_UPDATE],
         0.01 / 0.002, 1e-9);
    plan_result_free(&plan);

    double update[2], rest[2];
    for (int slow = 0; slow < 2; slow++) {
        request = wider_than_run(384);
        request.run.kinds = (struct plan_kinds){0.03, 0.01, 0.004, slow ? 0.02 : 0.002, 0};
        request.run.seconds = slow ? 0.064 : 0.046;
        assert_int_equal(plan_make(&request, &plan, NULL), 0);
        update[slow] = plan.found.time.part[PLAN_PART_UPDATE];
        rest[slow] = plan.found.time.seconds - update[slow];
        plan_result_free(&plan);
    }
    near(update[1], 10 * update[0], 1e-9);
    near(rest[1], rest[0], 1e-9);
}

/* A layout is chosen by the run's own speeds, too: it is listed with the time that the plan has. */
static void test_kinds_of_a_search(void **state)
{
    struct plan_request request = wider_than_run(192);
    struct plan_result plan;
    (void)state;
    request.run.kinds = (struct plan_kinds){0.03, 0.01, 0.004, 0.002, 0};
    request.run.seconds = 0.05;
    request.of.layout.micro_batch = 0;
    assert_int_equal(plan_make(&request, &plan, NULL), 0);
    assert_true(plan.searched && plan.search->best_count > 1);
    near(plan.search->best[0].time.seconds, plan.found.time.seconds, 1e-9);
    for (size_t i = 0; i < plan.search->best_count; i++)
        if (plan.search->best[i].layout.micro_batch == request.run.at.layout.micro_batch)
            near(plan.search->best[i].time.seconds, 0.05, 1e-9);
    plan_result_free(&plan);
}

/* The interval is wider where the run's own steps varied. */
static void test_variation_of_a_run(void **state)
{
    double width[2];
    (void)state;
    for (int varied = 0; varied < 2; varied++) {
        struct plan_request request = wider_than_run(384);
        struct plan_result plan;
        request.run.seconds = 0.05;
        request.run.variation = 0.3 * varied;
        assert_int_equal(plan_make(&request, &plan, NULL), 0);
        width[varied] = log(plan.found.time.high / plan.found.time.seconds) / 1.6449;
        plan_result_free(&plan);
    }
    near(width[1], hypot(width[0], 0.3), 1e-6);
}

static void test_accelerators(void **state)
{
    (void)state;
    struct an_accelerator row, found;
    size_t count = 0, tpus = 0, ascends = 0;
    for (; an_accelerator_at(count, &row); count++) {
        double most = 0;
        for (size_t k = 0; k < AN_ACCELERATOR_TYPES; k++)
            most = fmax(most, row.flops[k]);
        assert_true(most > 1e12 && row.bytes > 1e9 && row.bytes_per_s > 1e11);
        assert_true(row.source_length > 10 && strlen(row.dated) == 7);
        assert_true(row.price_low <= row.price_high);
        assert_true(an_accelerator_find(row.name, &found));
        tpus += !strcmp(row.family, "tpu");
        ascends += !strcmp(row.family, "ascend");
    }
    assert_true(count >= 60 && tpus >= 5 && ascends >= 3);
    assert_true(an_accelerator_find("A100-SXM-40", &found) && found.bytes < 43e9);
    assert_true(an_accelerator_find("H100-SXM-80", &found) && found.flops[4] > 9e14);
    assert_false(an_accelerator_find("H1000", &found));
    assert_false(an_accelerator_find("", &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_presets),
                                       cmocka_unit_test(test_flops),
                                       cmocka_unit_test(test_config),
                                       cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_properties),
                                       cmocka_unit_test(test_network),
                                       cmocka_unit_test(test_peak),
                                       cmocka_unit_test(test_contexts),
                                       cmocka_unit_test(test_experts),
                                       cmocka_unit_test(test_engine_experts),
                                       cmocka_unit_test(test_search),
                                       cmocka_unit_test(test_accelerators),
                                       cmocka_unit_test(test_kinds_of_a_run),
                                       cmocka_unit_test(test_kinds_of_a_search),
                                       cmocka_unit_test(test_variation_of_a_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
