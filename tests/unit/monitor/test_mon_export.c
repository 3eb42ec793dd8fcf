/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples in the formats of others: OpenMetrics, node_exporter's file, OTLP.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "monitor/export/export.h"
#include "tacho_utf8.h"

static char *text_of(const struct mon_metrics *metrics, enum mon_text kind)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(mon_text_write(metrics, kind, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static const struct mon_exemplar window = {"run.tacho", 120, 140, 0.31, 1700000000250000000};

/* A gauge, a counter with an exemplar, a histogram, an info, out of the order of the table. */
static void fill(struct mon_metrics *metrics, const struct mon_histogram *histogram)
{
    mon_metrics_begin(metrics, 1700000001000000000);
    mon_metrics_label(metrics, "run", "a \"b\"\\c\nd");
    struct mon_metric *bad = mon_metric_add(metrics, MON_FAMILY_SLI_BAD, 2.5);
    mon_metric_label(bad, "slo", "step_time");
    mon_metric_exemplar(bad, &window);
    for (int rank = 0; rank < 2; rank++)
        mon_metric_number(mon_metric_add(metrics, MON_FAMILY_RANK_STEP_TIME, 0.1 + rank), "rank",
                          rank);
    mon_metric_add_histogram(metrics, MON_FAMILY_STEP_TIME, histogram);
    mon_metric_label(mon_metric_add(metrics, MON_FAMILY_RUN, 1), "host", "n1");
    assert_null(mon_metric_add(metrics, MON_FAMILY_LOSS, NAN));
}

static void test_openmetrics(void **state)
{
    (void)state;
    struct mon_metrics metrics;
    struct mon_histogram histogram = {.sum = 0};
    mon_histogram_add(&histogram, 0.31, &window);
    mon_histogram_add(&histogram, 0.004, NULL);
    mon_histogram_add(&histogram, 5000, NULL);
    mon_histogram_add(&histogram, NAN, NULL);
    mon_metrics_init(&metrics, 100, 0);
    fill(&metrics, &histogram);
    char *text = text_of(&metrics, MON_OPENMETRICS);
    static const char *const there[] = {
        ("# TYPE tacho_run info\n# HELP tacho_run a run that is watched\n"
         "tacho_run_info{run=\"a \\\"b\\\"\\\\c\\nd\",host=\"n1\"} 1\n"),
        "# TYPE tacho_step_time_seconds histogram\n# UNIT tacho_step_time_seconds seconds\n",
        "tacho_step_time_seconds_bucket{run=\"a \\\"b\\\"\\\\c\\nd\",le=\"0.005\"} 1\n",
        "le=\"0.25\"} 1\n",
        "le=\"0.5\"} 2 # {file=\"run.tacho\",steps=\"120-140\"} 0.31 1700000000.250\n",
        "le=\"1000\"} 2\n",
        "le=\"+Inf\"} 3\n",
        "tacho_step_time_seconds_sum{run=\"a \\\"b\\\"\\\\c\\nd\"} 5000.314\n",
        "rank=\"0\"} 0.1\n",
        "rank=\"1\"} 1.1\n",
        "# TYPE tacho_sli_bad_events counter\n",
        "slo=\"step_time\"} 2.5 # {file=\"run.tacho\",steps=\"120-140\"} 0.31 1700000000.250\n"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!strstr(text, there[i]))
            fail_msg("no %s in\n%s", there[i], text);
    assert_null(strstr(text, "tacho_loss"));
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    free(text);
    text = text_of(&metrics, MON_PROMETHEUS);
    assert_non_null(strstr(text, "# TYPE tacho_run_info gauge\n"));
    assert_non_null(strstr(text, "# TYPE tacho_sli_bad_events_total counter\n"));
    assert_null(strstr(text, " # {"));
    assert_null(strstr(text, "# UNIT"));
    assert_null(strstr(text, "# EOF"));
    free(text);
    mon_metrics_free(&metrics);
}

/* Names end in their unit, and no label is one that a scrape sets. */
static void test_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < MON_FAMILY_COUNT; i++) {
        const struct mon_family_kind *kind = mon_family_kind((enum mon_family)i);
        size_t name = strlen(kind->name), unit = strlen(kind->unit);
        assert_true(name > unit && !strcmp(kind->name + name - unit, kind->unit));
        assert_true(!unit || kind->name[name - unit - 1] == '_');
        assert_null(strstr(kind->labels, "job"));
        assert_null(strstr(kind->labels, "instance"));
        assert_null(strpbrk(kind->help, "\n\\\"'"));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(kind->name, mon_family_kind((enum mon_family)j)->name);
    }
}

/* Labels that are long or no UTF-8 stay whole characters, and samples stay bounded. */
static void test_bounds(void **state)
{
    (void)state;
    struct mon_metrics metrics;
    char name[2000];
    mon_metrics_init(&metrics, 3, 0);
    mon_metrics_begin(&metrics, 0);
    for (size_t i = 0; i < sizeof name - 1; i += 2)
        memcpy(name + i, "\xc3\xa4", 2);
    name[sizeof name - 1] = 0;
    struct mon_metric *metric = mon_metric_add(&metrics, MON_FAMILY_LOSS, 1);
    mon_metric_label(metric, "broken", "a\xff\xc3z");
    mon_metric_label(metric, "long", name);
    mon_metric_label(metric, "none", "is left");
    struct mon_exemplar exemplar = {.first = INT64_MIN, .last = INT64_MAX, .time_ns = -5};
    memcpy(exemplar.file, name, sizeof exemplar.file - 1);
    mon_metric_exemplar(metric, &exemplar);
    for (int i = 0; i < 4; i++)
        mon_metric_label(mon_metric_add(&metrics, MON_FAMILY_LOSS, i), "x", "y");
    assert_int_equal(metrics.count, 3);
    assert_int_equal(metrics.dropped, 2);
    char *text = text_of(&metrics, MON_OPENMETRICS);
    assert_non_null(strstr(text, "broken=\"a??z\""));
    size_t left = strlen(text), n;
    for (const char *at = text; left; at += n, left -= n)
        assert_true((n = tacho_utf8_sequence((const unsigned char *)at, left)) > 0);
    const char *labels = strstr(text, " # {");
    assert_non_null(labels);
    size_t length = 0; /* characters of names and values, without quotes, "=", "," */
    for (const char *at = labels + 4; *at != '}'; at++)
        length += (*at & 0xc0) != 0x80 && !strchr("\"=,", *at);
    assert_true(length <= MON_EXEMPLAR_LABELS);
    free(text);
    mon_metrics_free(&metrics);
}

static void test_textfile(void **state)
{
    (void)state;
    struct mon_metrics metrics;
    struct tacho_error err = {0};
    struct stat stat_now;
    char folder[] = "/tmp/tacho-export-XXXXXX", path[64], line[200];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tacho.prom", folder);
    mon_metrics_init(&metrics, 100, 0);
    for (int i = 0; i < 2; i++) { /* anew, then over what is there */
        mon_metrics_begin(&metrics, 0);
        mon_metric_add(&metrics, MON_FAMILY_LAST_STEP, 41 + i);
        assert_int_equal(mon_textfile_write(&metrics, path, &err), 0);
    }
    assert_int_equal(stat(path, &stat_now), 0);
    assert_int_equal(stat_now.st_mode & 07777, 0644);
    FILE *in = fopen(path, "r");
    int found = 0;
    while (fgets(line, sizeof line, in))
        found += !strcmp(line, "tacho_last_step_index 42\n");
    fclose(in);
    assert_int_equal(found, 1);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left */
    assert_int_equal(mon_textfile_write(&metrics, path, &err), TACHO_ENOTFOUND);
    assert_int_equal(mon_textfile_write(&metrics, "tacho.txt", &err), TACHO_EUSAGE);
    mon_metrics_free(&metrics);
}

/* Fields, enumerations and 64-bit numbers as texts, as the mapping of OTLP to JSON says. */
static void test_otlp(void **state)
{
    (void)state;
    struct mon_metrics metrics;
    struct mon_histogram histogram = {.sum = 0};
    char *text;
    size_t size;
    mon_histogram_add(&histogram, 0.31, &window);
    mon_metrics_init(&metrics, 100, 1690000000000000000);
    fill(&metrics, &histogram);
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(mon_otlp_write(&metrics, "n1", out), 0);
    fclose(out);
    json_t *root = json_loads(text, 0, NULL), *list, *scope;
    assert_non_null(root);
    assert_int_equal(json_unpack(root, "{s:[{s:{s:[*]},s:[{s:{s:s},s:o}]}]}", "resourceMetrics",
                                 "resource", "attributes", "scopeMetrics", "scope", "name", &scope,
                                 "metrics", &list),
                     0);
    assert_int_equal(json_array_size(list), 4);
    size_t i, kinds = 0;
    json_t *metric, *point;
    json_array_foreach(list, i, metric)
    {
        const char *name = json_string_value(json_object_get(metric, "name")), *start, *time;
        int temporality, monotonic;
        if (!strcmp(name, "tacho_sli_bad_events")) {
            assert_int_equal(json_unpack(metric, "{s:{s:i,s:b,s:[o]}}", "sum",
                                         "aggregationTemporality", &temporality, "isMonotonic",
                                         &monotonic, "dataPoints", &point),
                             0);
            assert_true(temporality == 2 && monotonic);
            json_unpack(point, "{s:s,s:s}", "startTimeUnixNano", &start, "timeUnixNano", &time);
            assert_string_equal(start, "1690000000000000000");
            assert_string_equal(time, "1700000001000000000");
            kinds++;
        } else if (!strcmp(name, "tacho_step_time_seconds")) {
            assert_int_equal(json_unpack(metric, "{s:s,s:{s:[o]}}", "unit", &start, "histogram",
                                         "dataPoints", &point),
                             0);
            assert_string_equal(start, "s");
            assert_int_equal(json_array_size(json_object_get(point, "bucketCounts")),
                             json_array_size(json_object_get(point, "explicitBounds")) + 1);
            assert_string_equal(json_string_value(json_object_get(point, "count")), "1");
            assert_int_equal(json_array_size(json_object_get(point, "exemplars")), 1);
            kinds++;
        }
    }
    assert_int_equal(kinds, 2);
    json_decref(root);
    free(text);
    mon_metrics_free(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openmetrics), cmocka_unit_test(test_families),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_textfile),
        cmocka_unit_test(test_otlp)};
    return cmocka_run_group_tests_name("mon_export", tests, NULL, NULL);
}
