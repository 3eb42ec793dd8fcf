/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho-report/1: every key is there, numbers are numbers, and every null has a reason: no reason
 * without its null.
 */
#include <jansson.h>

#include "reports/json/json_writer.h"
#include "tests/unit/rep_fixture.h"
#include "tests/unit/rep_gpu.h"

/* Keys of docs/report-json.md, by JSON pointer. Types: n number, i integer, s text, b boolean, a
 * list, o object; ? may be null. */
static const struct {
    const char *path, *type;
} contract[] = {
    {"/schema", "s"},
    {"/verdict", "s"},
    {"/run", "o"},
    {"/run/program", "s?"},
    {"/run/recorded", "o"},
    {"/steps/source", "s?"},
    {"/steps/confidence", "s?"},
    {"/steps/count", "i"},
    {"/steps/median_ms", "n?"},
    {"/steps/p95_ms", "n?"},
    {"/steps/tokens_per_s", "n?"},
    {"/steps/samples_per_s", "n?"},
    {"/budget/compute_pct", "n?"},
    {"/budget/exposed_comm_pct", "n?"},
    {"/budget/exposed_copy_pct", "n?"},
    {"/budget/input_pct", "n?"},
    {"/budget/host_pct", "n?"},
    {"/budget/bubble_pct", "n?"},
    {"/budget/io_pct", "n?"},
    {"/budget/unattributed_pct", "n?"},
    {"/budget_by_device", "a"},
    {"/phases", "a"},
    {"/utilization/model_flops_per_step", "i?"},
    {"/utilization/hardware_flops_per_step", "i?"},
    {"/utilization/palm_flops_per_step", "i?"},
    {"/utilization/mfu", "n?"},
    {"/utilization/mfu_palm", "n?"},
    {"/utilization/hfu", "n?"},
    {"/utilization/mfu_measured", "n?"},
    {"/utilization/dtype", "s?"},
    {"/utilization/peak_flops", "n?"},
    {"/utilization/peak_source", "s?"},
    {"/utilization/roof_measured_flops", "n?"},
    {"/utilization/flop_coverage_pct", "n?"},
    {"/utilization/uncounted_operators", "a"},
    {"/devices", "a?"},
    {"/launches", "o?"},
    {"/copies", "a?"},
    {"/syncs", "a?"},
    {"/precision", "o?"},
    {"/attribution/by", "s"},
    {"/attribution/rows", "a?"},
    {"/attribution/unattributed_us", "n?"},
    {"/compat", "o?"},
    {"/kernels_window", "s?"},
    {"/trust/capture", "o?"},
    {"/critical_path/window_us", "n?"},
    {"/critical_path/length_us", "n?"},
    {"/critical_path/explained_pct", "n?"},
    {"/critical_path/by_cause_us", "o?"},
    {"/roofline/ceilings", "a"},
    {"/roofline/points", "a?"},
    {"/dataloader/wait_ms_per_step", "n?"},
    {"/dataloader/stage_ms", "o?"},
    {"/dataloader/workers", "i?"},
    {"/dataloader/queue_depth_mean", "n?"},
    {"/dataloader/workers_needed", "i?"},
    {"/dataloader/expected_wait_ms_per_step", "n?"},
    {"/dataloader/access_ratio", "n?"},
    {"/dataloader/ranks", "a"},
    {"/dataloader/worker", "a"},
    {"/communication", "o?"},
    {"/kernels", "a"},
    {"/ranks", "o?"},
    {"/memory", "o?"},
    {"/energy", "o?"},
    {"/hardware", "a?"},
    {"/findings", "a"},
    {"/trust/events", "i"},
    {"/trust/lost_events", "i?"},
    {"/trust/losses", "a"},
    {"/trust/overhead_pct", "n?"},
    {"/trust/replay_error_pct", "n?"},
    {"/trust/steps_excluded", "a"},
    {"/absent", "o"},
};

/* Keys of every element of a list. */
static const struct {
    const char *list, *keys[20];
} rows[] = {
    {"/devices",
     {"rank",
      "device",
      "span_us",
      "busy_us",
      "compute_us",
      "exposed_comm_us",
      "exposed_copy_us",
      "idle_us",
      "comm_us",
      "overlap_pct",
      "blocking_comm_us",
      "absent_launch_starved_us",
      "absent_blocked_us",
      "absent_dispatch_us",
      "absent_dependency_us",
      "name",
      "opaque_us",
      "copy_us",
      "ops",
      "streams"}},
    {"/roofline/points",
     {"pass", "kind", "shapes", "flops_per_call", "bytes_per_call", "level", "name", "flops",
      "bytes", "time_us", "bound", "intensity", "achieved_flops_per_s", "attainable_flops_per_s"}},
    {"/memory/tags",
     {"name", "device", "current_bytes", "peak_bytes", "share_pct", "rank_peak_bytes", "rank"}},
    {"/communication/collectives",
     {"name", "communicator", "ranks", "count", "matched", "bytes_per_step", "mean_ms",
      "transfer_ms", "waiting_ms", "algorithm_bytes_per_s", "bus_bytes_per_s", "bandwidth_of"}},
    {"/communication/ranks",
     {"rank", "total_ms", "exposed_ms", "overlap_pct", "transfer_ms", "waiting_ms", "last_pct",
      "caused_ms"}},
    {"/dataloader/ranks", {"rank", "wait_ms_per_step", "batch_ms", "workers", "workers_needed"}},
    {"/dataloader/worker", {"name", "rank", "process", "batches", "busy_pct"}},
    {"/launches/by_call", {"name", "count", "host_us"}},
    {"/copies",
     {"kind", "memory", "count", "bytes", "total_us", "exposed_us", "synchronous", "bytes_per_s"}},
    {"/syncs", {"name", "count", "host_us", "max_us", "idle_us"}},
    {"/precision/by_dtype", {"dtype", "matrix_unit", "count", "total_us"}},
    {"/attribution/rows",
     {"name", "count", "kernels", "device_us", "host_us", "share_pct", "flops", "bytes",
      "flops_per_s"}},
    {"/compat/rows", {"rank", "device", "section", "key", "unit", "value"}},
    {"/kernels",
     {"name", "count", "total_us", "mean_us", "min_us", "max_us", "sd_us", "self_us", "share_pct",
      "flops_per_s", "bytes_per_s"}},
    {"/phases", {"name", "count", "wall_ms", "exposed_ms"}},
    {"/findings",
     {"id", "claim", "evidence", "action", "gain_pct", "confidence", "verify", "wrong_when"}},
    {"/budget_by_device", {"rank", "device", "compute_pct", "unattributed_pct"}},
    {"/roofline/ceilings", {"name", "flops_per_s", "bytes_per_s", "source"}},
    {"/trust/losses", {"source", "reason", "count"}},
    {"/trust/steps_excluded", {"index", "reason"}},
};

static json_t *at(json_t *root, const char *path)
{
    char part[64];
    json_t *v = root;
    while (*path && v) {
        size_t n = strcspn(++path, "/");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
        path += n;
    }
    return v;
}

static bool is_type(const json_t *v, char type)
{
    switch (type) {
    case 'n':
        return json_is_number(v);
    case 'i':
        return json_is_integer(v);
    case 's':
        return json_is_string(v);
    case 'b':
        return json_is_boolean(v);
    case 'a':
        return json_is_array(v);
    default:
        return json_is_object(v);
    }
}

/* Counts nulls, and fails on one without a reason. */
static size_t check_nulls(const json_t *v, const char *path, json_t *absent)
{
    char child[400];
    const char *key;
    json_t *value;
    size_t n = 0, index;
    if (json_is_null(v)) {
        const char *reason = json_string_value(json_object_get(absent, path));
        if (!reason || !*reason)
            fail_msg("%s is null without a reason", path);
        return 1;
    }
    if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, value)
        {
            if (!*path && !strcmp(key, "absent"))
                continue;
            snprintf(child, sizeof child, "%s/%s", path, key);
            n += check_nulls(value, child, absent);
        }
    }
    json_array_foreach(v, index, value)
    {
        snprintf(child, sizeof child, "%s/%zu", path, index);
        n += check_nulls(value, child, absent);
    }
    return n;
}

static void check_contract(const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("line %d: %s", error.line, error.text);
    assert_string_equal(json_string_value(at(root, "/schema")), "tacho-report/1");
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
        json_t *v = at(root, contract[i].path);
        if (!v)
            fail_msg("%s is missing", contract[i].path);
        if (!(json_is_null(v) && contract[i].type[1] == '?') && !is_type(v, contract[i].type[0]))
            fail_msg("%s is not of type %s", contract[i].path, contract[i].type);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *list = at(root, rows[i].list), *row;
        size_t index;
        json_array_foreach(list, index, row) for (size_t k = 0; k < 20 && rows[i].keys[k];
                                                  k++) if (!json_object_get(row, rows[i].keys[k]))
            fail_msg("%s/%zu/%s is missing", rows[i].list, index, rows[i].keys[k]);
    }
    json_t *absent = at(root, "/absent");
    assert_int_equal(check_nulls(root, "", absent),
                     json_object_size(absent)); /* so every reason has its null */
    double sum = 0;
    const char *key;
    json_t *v;
    json_object_foreach(at(root, "/budget"), key, v) sum +=
        json_is_null(v) ? 0 : json_number_value(v);
    if (json_object_size(absent) && at(root, "/budget_ns/host") &&
        !json_is_null(at(root, "/budget/host_pct")))
        assert_near(sum, 100, 1e-9);
    for (const char *c = text; *c; c++) /* nothing a terminal could take for a command */
        if ((unsigned char)*c >= 0x7f || ((unsigned char)*c < 0x20 && *c != '\n'))
            fail_msg("byte %02x at %zu", (unsigned char)*c, (size_t)(c - text));
    json_decref(root);
}

static void test_contract(void **state)
{
    static void (*const runs[])(struct fixture *) = {fx_training, fx_hostile, fx_ranges, fx_open};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fixture fx, *f = &fx;
        runs[i](f);
        char *text = rep_text(fx_analyze(f), "json", NULL);
        check_contract(text);
        free(text);
        fx_close(f);
    }
}

static void test_values(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    const struct an_result *r = fx_analyze(f);
    char *text = rep_text(r, "json", NULL);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(at(root, "/utilization/model_flops_per_step")), 1100000000);
    assert_int_equal(json_integer_value(at(root, "/utilization/palm_flops_per_step")), 1200000000);
    assert_int_equal(json_integer_value(at(root, "/utilization/hardware_flops_per_step")),
                     1700000000);
    assert_near(json_number_value(at(root, "/utilization/mfu")), r->utilization.mfu.value, 1e-12);
    assert_int_equal(json_integer_value(at(root, "/steps/count")), 60);
    assert_int_equal(json_integer_value(at(root, "/steps/counted")), 58);
    assert_int_equal(json_integer_value(at(root, "/trust/lost_events")), 0);
    int64_t sum = 0;
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        char path[64];
        snprintf(path, sizeof path, "/budget_ns/%s", an_class_key((enum an_class)k));
        sum += json_integer_value(at(root, path));
    }
    assert_int_equal(sum, json_integer_value(at(root, "/budget_ns/step_ns")));
    assert_string_equal(json_string_value(at(root, "/findings/0/id")), "INPUT_STALL");
    assert_true(json_is_null(at(root, "/findings/0/gain_pct/expected")));
    assert_true(json_is_true(at(root, "/findings/0/gain_pct/ceiling")));
    assert_string_equal(json_string_value(at(root, "/run/recorded/command")), "train gpt2-tiny");
    json_decref(root);
    free(text);
    fx_close(f);
}

/* Is there a metric whose key is the path, or the object or list around it? Indexes of lists are
 * written []. */
static bool is_defined(const char *path)
{
    char key[400];
    size_t n = 0;
    for (const char *c = path + 1; *c && n + 3 < sizeof key; c++) {
        if (c[0] == '/' && c[1] >= '0' && c[1] <= '9') {
            n += (size_t)sprintf(key + n, "[]");
            while (c[1] >= '0' && c[1] <= '9')
                c++;
        } else {
            key[n++] = *c;
        }
    }
    key[n] = 0;
    for (const struct an_metric *m = an_metrics; m->key; m++) {
        size_t length = strlen(m->key);
        if (!strncmp(m->key, key, length) && (!key[length] || key[length] == '/'))
            return true;
    }
    return false;
}

static void check_defined(const json_t *v, const char *path)
{
    char child[400];
    const char *key;
    json_t *value;
    size_t index;
    if ((json_is_number(v) || json_is_null(v)) && !is_defined(path))
        fail_msg("%s has no definition in analyzers/result/metrics.c", path);
    if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, value)
        {
            snprintf(child, sizeof child, "%s/%s", path, key);
            if (strcmp(child, "/absent"))
                check_defined(value, child);
        }
    }
    json_array_foreach(v, index, value)
    {
        snprintf(child, sizeof child, "%s/%zu", path, index);
        check_defined(value, child);
    }
}

/* Every number that a report can print is explained in the table that docs/metrics.md is made of.
 */
static void test_definitions(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_training(f);
    char *text = rep_text(fx_analyze(f), "json", NULL);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    check_defined(root, "");
    json_decref(root);
    free(text);
    fx_close(f);
    text = rep_text(gpu_result(), "json", NULL);
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    check_defined(root, "");
    json_decref(root);
    free(text);
}

/* The sections of accelerators: every key, ns as us to the last digit, the table that was asked
 * for. */
static void test_accelerators(void **state)
{
    (void)state;
    char *text = rep_text(gpu_result(), "json", NULL);
    check_contract(text);
    assert_non_null(strstr(text, "\"span_us\": 1234567891.234"));
    assert_non_null(strstr(text, "\"compute_us\": 900000000.001"));
    assert_non_null(strstr(text, "\"opaque_us\": 0.000"));
    json_t *root = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(at(root, "/devices")), 2);
    assert_string_equal(
        json_string_value(json_object_get(at(root, "/absent"), "/devices/1/overlap_pct")),
        "no communication");
    assert_string_equal(json_string_value(at(root, "/budget_by_device/0/name")),
                        "NVIDIA A100-SXM4-80GB");
    assert_true(json_is_null(at(root, "/budget_by_device/1/name")));
    assert_string_equal(json_string_value(at(root, "/attribution/by")), "op");
    assert_string_equal(json_string_value(at(root, "/roofline/points/0/bytes_source")), "model");
    assert_true(json_is_null(at(root, "/compat")));
    assert_int_equal(json_integer_value(at(root, "/trust/capture/ops_without_launch")), 34);
    json_decref(root);
    free(text);
    struct an_compat_row row[] = {{STORE_ABSENT, 0, "gpu_timeline", "busy_time", "ms", 3.25}};
    struct an_result with = *gpu_result();
    with.compat =
        (struct an_compat_table){.tool = "TraceLens gpu_timeline", .rows = row, .row_count = 1};
    struct rep_options o = {.by = "line"};
    text = rep_text(&with, "json", &o);
    check_contract(text);
    root = json_loads(text, 0, NULL);
    assert_string_equal(json_string_value(at(root, "/attribution/by")), "line");
    assert_true(json_is_null(at(root, "/attribution/rows")));
    assert_true(json_is_null(at(root, "/compat/rows/0/rank")));
    assert_near(json_number_value(at(root, "/compat/rows/0/value")), 3.25, 0);
    json_decref(root);
    free(text);
}

/* us of integers: every digit, whatever the size. */
static void test_microseconds(void **state)
{
    static const struct {
        int64_t ns;
        const char *want;
    } cases[] = {{0, "\"v\": 0.000"},
                 {1, "\"v\": 0.001"},
                 {-1, "\"v\": -0.001"},
                 {-1234567, "\"v\": -1234.567"},
                 {INT64_MAX, "\"v\": 9223372036854775.807"},
                 {INT64_MIN, "\"v\": -9223372036854775.808"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rep_writer w;
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_int_equal(rep_writer_begin(&w, out), 0);
        rep_put_us(&w, "v", cases[i].ns);
        assert_int_equal(rep_writer_end(&w), 0);
        fclose(out);
        assert_non_null(strstr(text, cases[i].want));
        free(text);
    }
}

/* Names survive: what JSON can say is said exactly, what it cannot becomes U+FFFD, long ones are
 * whole. */
static void test_names(void **state)
{
    struct fixture fx, *f = &fx;
    (void)state;
    fx_hostile(f);
    char *text = rep_text(fx_analyze(f), "json", NULL);
    json_t *root = json_loads(text, 0, NULL), *row;
    bool escape = false, broken = false, whole = false;
    size_t i;
    json_array_foreach(at(root, "/kernels"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        escape = escape || !strcmp(name, "\x1b[31mred\x1b[0m");
        broken = broken || !strncmp(name, "bad \xef\xbf\xbd", 7);
        whole = whole || (name[0] == 'x' &&
                          strlen(name) == 10000); /* kernels of templates have names that long */
    }
    assert_true(escape && broken && whole);
    json_decref(root);
    free(text);
    fx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract),     cmocka_unit_test(test_values),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_accelerators), cmocka_unit_test(test_microseconds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
