/* SPDX-License-Identifier: Apache-2.0
 *
 * Every number in bold in docs/textbook-errata.md, computed: by the planner where it has the
 * formula, else by the formula of the row.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planner/plan.h"

#define GB 1e9

static char page[65536];

static int load(void **state)
{
    (void)state;
    char path[1024];
    const char *root = getenv("SRC");
    snprintf(path, sizeof path, "%s/docs/textbook-errata.md", root ? root : ".");
    FILE *in = fopen(path, "r");
    if (!in)
        return -1;
    page[fread(page, 1, sizeof page - 1, in)] = 0;
    fclose(in);
    return 0;
}

/* How many numbers in bold a row has that no call has computed. */
static int computed[64];

/* Row `number` says `value` in bold, printed like `format`. */
static void says(int number, const char *format, double value)
{
    char head[16], text[64] = "**", *line, *end;
    snprintf(head, sizeof head, "\n| %d |", number);
    line = strstr(page, head);
    assert_non_null(line);
    end = strchr(line + 1, '\n');
    snprintf(text + 2, sizeof text - 4, format, value);
    strcat(text, "**");
    char *found = strstr(line, text);
    if (!found || found > end)
        fail_msg("row %d does not say %s", number, text);
    computed[number]++;
}

static struct plan_model model(const char *name)
{
    struct plan_model out;
    assert_int_equal(plan_model_preset(name, &out, NULL), 0);
    return out;
}

static struct plan_model shape(int64_t width, int64_t heads)
{
    struct plan_model out = model("gpt2-xl");
    out.width = width;
    out.heads = out.kv_heads = heads;
    out.head_dim = width / heads;
    out.feed_forward = 4 * width;
    return out;
}

static double parameters(const struct plan_model *of)
{
    struct plan_parameters out;
    plan_parameters_of(of, &out);
    return out.total;
}

static double peak(const char *device, const char *type)
{
    struct an_accelerator found;
    assert_true(an_accelerator_find(device, &found));
    return an_accelerator_peak(&found, type);
}

/* Forward FLOPs of one layer for a batch of 32 sequences of 1,024: four products and attention. */
static double layer_forward(double width)
{
    double tokens = 32 * 1024;
    return 2 * tokens * (3 + 1) * width * width + 4 * tokens * 1024 * width;
}

static void test_sizes(void **state)
{
    (void)state;
    struct plan_model xl = model("gpt2-xl"), book = shape(1280, 20), padded = xl;
    double size = parameters(&xl);
    padded.vocabulary = 50304;
    says(1, "%.0f", parameters(&book));
    says(2, "%.0f", size);
    says(2, "%.0f", parameters(&padded));
    says(3, "%.3f", 2 * size / GB);
    says(3, "%.3f", 4 * size / GB);
    says(4, "%.1f", layer_forward(1280) / 1e9);
    says(4, "%.1f", layer_forward(1600) / 1e9);
    says(11, "%.2f", 8 * size / GB);
    says(11, "%.2f", 16 * size / GB);
    says(12, "%.2f", (2 + 2 + 4 + 4 + 4) * size / GB);
    says(12, "%.1f", 18 * size / GB);
    says(12, "%.2f", (2 + 2 + 12 / 8.0) * size / GB);
    struct plan_model small = model("gpt2");
    says(13, "%.0f", 4.0 * (4 + 3));
    says(13, "%.2f", 28 * parameters(&small) / GB);
    says(14, "%.0f", 1 + 1 + 2.0);
    says(25, "%.0f", 175e9 * 4 / GB);
    says(25, "%.0f", 175e9 * 2 / GB);
    says(25, "%.2f", 110e6 * 2 / GB);
    says(25, "%.2f", 2 * 110e6 * 2 / GB);
    says(31, "%.0f", 4.0 * 4);
    says(31, "%.2f", 16 * size / GB);
}

static void test_flops(void **state)
{
    (void)state;
    struct plan_model xl = model("gpt2-xl");
    double full = plan_flops(&xl, 1024, PLAN_CONVENTION_FULL), v100 = peak("V100", "fp16");
    double a100 = peak("A100", "bf16"), h100 = peak("H100", "bf16");
    says(5, "%.3e", 32 * full);
    says(5, "%.3e", 32 * plan_flops(&xl, 1024, PLAN_CONVENTION_CAUSAL));
    says(5, "%.2e", 50e3 * 32 * full);
    says(5, "%.2e", 50e3 * 512 * full);
    says(6, "%.3f", 9.8e12 / v100);
    says(6, "%.2f", 32 * full / v100);
    says(6, "%.1f", 32 * full / v100 / 0.4);
    says(7, "%.3f", 32 * full / 3 / v100);
    says(7, "%.3f", 32 * full / 3 / a100);
    says(7, "%.3f", 32 * full / 3 / h100);
    says(7, "%.2f", 32 * full / v100 / 0.4 / 32);
    says(7, "%.2f", 32 * full / v100 / 0.4 / 8);
    says(8, "%.1f", 2 * peak("V100", "fp32") / 1e12);
    says(15, "%.1f", 32 * 1024 / 500e3 * 1e3);
    says(15, "%.1f", 32 * full / v100 / 0.4);
    says(15, "%.2f", 381e3 / 500e3);
    says(17, "%.3e", full);
    says(17, "%.1f", v100 / full);
    says(17, "%.1f", a100 / full);
    says(17, "%.1f", h100 / full);
    double step = 16 * full * 4 / 3 / v100;
    says(18, "%.3f", step);
    says(18, "%.1f", step / 0.35);
    says(18, "%.1f", step / 0.45);
    says(23, "%.0f", 8 * 14 * 24 * 3.06);
    says(23, "%.0f", 8 * 168 * 4.10);
    says(23, "%.0f", 8 * 168 * 4.00);
    says(23, "%.1f", 50e3 * 512 * full / (8 * v100 * 0.4) / 86400);
    says(23, "%.0f", 50e3 * 512 * 1024 / 381e3 / 3600);
    says(45, "%.0f", 100 * 3.14e23 / (1024 * a100 * 34 * 86400));
}

/* A layer as the planner sees it, on one device. */
static double activations(struct plan_model of, bool flash)
{
    struct plan_case at = {
        .model = of, .layout = {.tensor = 1, .context = 1, .micro_batch = 32, .sequence = 1024}};
    at.machine.software.flash = flash;
    double bytes = plan_layer_activations(&at);
    if (flash) /* 4 a s b bytes of row sums that the page leaves out */
        bytes -= 4 * 32 * 1024 * (double)of.heads;
    return 48 * bytes / GB;
}

static void test_memory(void **state)
{
    (void)state;
    struct plan_model xl = model("gpt2-xl"), book = shape(1280, 20);
    double size = parameters(&xl), logits = 32 * 1024 * 50257 * 4.0 / GB;
    double kept = activations(xl, true), states = 16 * size / GB;
    says(9, "%.1f", activations(xl, false));
    says(9, "%.1f", kept);
    says(9, "%.1f", logits);
    says(9, "%.1f", activations(book, false));
    says(9, "%.1f", activations(book, true));
    says(10, "%.1f", states);
    says(10, "%.0f", states + kept + logits);
    says(10, "%.0f", states + 48 * 2.0 * 32 * 1024 * 1600 / GB + kept / 48 + logits);
    says(27, "%.0f", 25.6e6 * 4 / 1e6);
    says(27, "%.0f", ceil(112.0 * 112 * 64 * 4 * 64 / 1e6));
    says(27, "%.1f", 64 * 224 * 224 * 3 * 4 / 1e6);
    says(27, "%.1f", 7 * 7 * 3 * 64 * 4 / 1e3);
}

static void test_communication(void **state)
{
    (void)state;
    struct plan_model xl = model("gpt2-xl");
    double bytes = 2 * parameters(&xl), ring8 = 2 * 7 / 8.0 * bytes, ring32 = 2 * 31 / 32.0 * bytes;
    double one = ring8 / 130e9, many = ring32 / 12.5e9, four = ring32 / 50e9;
    says(16, "%.3f", 8e9 * 16 * 128 / 130 / 8 / 1e9);
    says(16, "%.3f", 262144 / 15.754e9 * 1e3);
    says(19, "%.2f", ring8 / GB);
    says(19, "%.0f", one * 1e3);
    says(19, "%.2f", 8 * 1.8 / (1.8 + one));
    says(19, "%.1f", 100 * 1.8 / (1.8 + one));
    says(20, "%.0f", one * 1e3);
    says(20, "%.0f", ring8 / 300e9 * 1e3);
    says(21, "%.3f", many);
    says(21, "%.0f", 100 * 1.8 / (1.8 + many));
    says(21, "%.1f", 32 * 1.8 / (1.8 + many));
    says(21, "%.0f", 100 * 1.8 / (1.8 + four));
    double accumulated = 4 * 1.8 + one;
    says(22, "%.2f", 8 * accumulated / (32 * (1.8 + many)));
    says(22, "%.1f", accumulated / (1.8 + many));
    says(24, "%.0f", 2.0 * (8 - 1));
    says(29, "%.0f", 100 * (1 - 1 / 4.0));
    says(39, "%.0f", 2.0 * 63);
    says(39, "%.0f", 2 * log2(64));
    says(40, "%.1f", 100 * 1.8 / (1.8 + one));
    says(40, "%.0f", 100 * 1.8 / fmax(1.8, one));
    says(41, "%.3f", fmax(1.8, many));
    says(41, "%.3f", 1.8 + many);
    says(43, "%.0f", 8 * 7 / 8.0 * 2048 * 12288 * 2 / 1e6);
    says(44, "%.0f", 16 / 1.0);
    says(47, "%.1f", 100 * (1 - pow(0.999, 100)));
}

/* The bubble that the planner predicts, of 4 equal stages and 8 micro-batches. */
static double bubble(int64_t chunks)
{
    struct plan_constants constants = plan_constants_fitted;
    struct plan_case at = {.model = model("llama-7b"), .constants = &constants};
    struct plan_time time;
    assert_int_equal(plan_machine_of("H100", "bf16", &at.machine, NULL), 0);
    at.model.vocabulary = 1;
    at.layout = (struct plan_layout){4,
                                     1,
                                     1,
                                     4,
                                     chunks,
                                     1,
                                     1,
                                     1,
                                     8,
                                     2048,
                                     1,
                                     false,
                                     PLAN_RECOMPUTE_NONE,
                                     true,
                                     PLAN_SCHEDULE_1F1B,
                                     0};
    plan_time_of(&at, 0, &time);
    return 100 * time.part[PLAN_PART_BUBBLE] /
           (time.part[PLAN_PART_BUBBLE] + 8 * time.micro_seconds);
}

/* First fit in order of time: three buffers of 1, 1 and 2; the first is freed before the last. */
static double first_fit(void)
{
    bool used[8] = {true, true};
    used[0] = false;
    for (int at = 0; at < 7; at++)
        if (!used[at] && !used[at + 1])
            return at + 2;
    return 0;
}

static void test_others(void **state)
{
    (void)state;
    says(26, "%.1f", bubble(1));
    says(26, "%.1f", bubble(2));
    double limit = 2 / (1 - 0.999) - 1, rho = 0;
    int step = 0;
    while (rho <= 5) {
        double decay = pow(0.999, ++step);
        rho = limit - 2 * step * decay / (1 - decay);
    }
    says(32, "%.0f", step);
    says(32, "%.0f", limit);
    says(33, "%.1f", 1 - 1.0 * (1 - 0.5));
    says(34, "%.2f", 1 / sqrt(10e3));
    double row[] = {1.5, 3}, column[] = {1.5, 3}; /* means of {{1, 2}, {2, 4}} */
    says(35, "%.0f", row[1] * column[1] / ((row[0] + row[1]) / 2));
    says(35, "%.0f", row[1] * column[1]);
    says(36, "%.3f", 100 * 0.5 / 127);
    says(38, "%.0f", first_fit());
    says(38, "%.0f", 1 + 2.0);
}

/* Nothing in bold that no test computes. */
static void test_complete(void **state)
{
    (void)state;
    int rows = 0;
    for (char *line = strstr(page, "\n| 1 |"); line; line = strchr(line + 1, '\n')) {
        int number, bold = 0;
        char *end = strchr(line + 1, '\n');
        if (sscanf(line, "\n| %d |", &number) != 1)
            break;
        for (char *at = line; (at = strstr(at, "**")) && at < end; at += 2)
            bold++;
        assert_int_equal(bold / 2, computed[number]);
        assert_int_equal(number, ++rows);
    }
    assert_int_equal(rows, 47);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),  cmocka_unit_test(test_flops),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_communication),
        cmocka_unit_test(test_others), cmocka_unit_test(test_complete)};
    return cmocka_run_group_tests(tests, load, NULL);
}
