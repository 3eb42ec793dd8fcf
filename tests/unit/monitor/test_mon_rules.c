/* SPDX-License-Identifier: Apache-2.0
 *
 * Rule files: their windows and thresholds by the formulas of burn rates, for targets of 90, 95 and
 * 99 % and periods of an hour, ten hours and 30 days. promtool checks their form elsewhere.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/rules/rules.h"

static char *rules(const char *format, const struct mon_slo *slo, int want)
{
    char *text;
    size_t size;
    struct tacho_error err = {0};
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(mon_rules_write(format, slo, 15, out, &err), want);
    fclose(out);
    return text;
}

static double seconds_of(double number, char unit)
{
    if (unit == 'd')
        return number * 86400;
    if (unit == 'h')
        return number * 3600;
    return unit == 'm' ? number * 60 : number;
}

/* Each comparison of a window with a threshold: no window holds less than 4 scrapes; a long one of
 * L seconds has the threshold budget * period / L * (1 - target), below 1, for one of the budgets.
 */
static void check_conditions(const char *text, double target, double period_s)
{
    static const double budgets[] = {0.02, 0.05, 0.10};
    int conditions = 0;
    for (const char *at = text; (at = strstr(at, "(tacho:sli_bad:ratio_rate")) != NULL; at++) {
        double number, threshold, short_number, short_threshold;
        char unit, short_unit;
        assert_int_equal(sscanf(at,
                                "(tacho:sli_bad:ratio_rate%lf%c{%*[^}]} > %lf and "
                                "tacho:sli_bad:ratio_rate%lf%c{%*[^}]} > %lf)",
                                &number, &unit, &threshold, &short_number, &short_unit,
                                &short_threshold),
                         6);
        double long_s = seconds_of(number, unit), short_s = seconds_of(short_number, short_unit);
        bool fits = false;
        for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
            fits = fits || fabs(budgets[i] * period_s / long_s * (1 - target) - threshold) < 1e-6;
        assert_true(fits && threshold < 1 && threshold == short_threshold);
        assert_true(short_s >= 60 && short_s <= long_s && short_s >= floor(long_s / 12));
        conditions++;
    }
    assert_true(conditions > 0);
}

static void test_prometheus(void **state)
{
    (void)state;
    static const double targets[] = {0.90, 0.95, 0.99}, periods[] = {3600, 36000, 2592000};
    for (size_t i = 0; i < 9; i++) {
        struct mon_slo slo = {.count = 1};
        mon_objective_init(&slo.objective[0], MON_SLI_STEP_TIME);
        slo.objective[0].target = targets[i / 3];
        slo.objective[0].period_s = periods[i % 3];
        char *text = rules("prometheus", &slo, 0);
        check_conditions(text, targets[i / 3], periods[i % 3]);
        free(text);
    }
    struct mon_slo slo = {.count = 1};
    mon_objective_init(&slo.objective[0], MON_SLI_STEP_TIME);
    slo.objective[0].target =
        0.99; /* 30 days where nothing else is said: the table of the SRE book */
    char *text = rules("prometheus", &slo, 0);
    static const char *const pairs[] = {
        "ratio_rate1h{slo=\"step_time\"} > 0.144 and tacho:sli_bad:ratio_rate5m{",
        "ratio_rate6h{slo=\"step_time\"} > 0.06 and tacho:sli_bad:ratio_rate30m{",
        "ratio_rate1d{slo=\"step_time\"} > 0.03 and tacho:sli_bad:ratio_rate2h{",
        "ratio_rate3d{slo=\"step_time\"} > 0.01 and tacho:sli_bad:ratio_rate6h{"};
    for (size_t i = 0; i < 4; i++)
        assert_non_null(strstr(text, pairs[i]));
    free(text);
}

static void test_refusals(void **state)
{
    (void)state;
    struct mon_slo slo = {.count = 1};
    mon_objective_init(&slo.objective[0], MON_SLI_STEP_TIME);
    slo.objective[0].target = 0.01; /* no pair can burn */
    slo.objective[0].period_s = 100;
    free(rules("prometheus", &slo, TACHO_EUSAGE));
    free(rules("pyrra", &slo, TACHO_EUSAGE));
    mon_slo_defaults(&slo);
    char *text = rules("openslo", &slo, 0);
    for (const char *at = text; (at = strstr(at, "Window: ")) != NULL; at++)
        assert_null(memchr(at + 8, 's', strcspn(at + 8, "\n"))); /* no seconds there */
    free(text);
    text = rules("sloth", &slo, 0);
    assert_non_null(strstr(text, "[{{.window}}]"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prometheus),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests_name("mon_rules", tests, NULL, NULL);
}
