/* SPDX-License-Identifier: Apache-2.0
 *
 * A fleet from texts of watches: runs over several nodes, slow and silent ranks, hostile lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "monitor/fleet/fleet.h"

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static char *print(const struct mon_fleet *fleet)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    mon_fleet_print(fleet, out);
    fclose(out);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in\n%s", part, text);
}

/* Two nodes of one run, one of another, one that is not there. */
static void test_table(void **state)
{
    (void)state;
    struct mon_fleet fleet;
    struct tacho_error err = {0};
    char folder[] = "/tmp/tacho-fleet-XXXXXX", path[3][64], list[64], text[1000];
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/%d.prom", folder, i);
    snprintf(list, sizeof list, "%s/list", folder);
    write_file(path[0], "# TYPE tacho_last_step_index gauge\n"
                        "tacho_last_step_index{run=\"gpt\"} 100\n"
                        "tacho_rank_step_time_seconds{run=\"gpt\",rank=\"0\"} 0.5\n"
                        "tacho_rank_step_time_seconds{run=\"gpt\",rank=\"1\"} 0.5\n"
                        "tacho_rank_progress_age_seconds{run=\"gpt\",rank=\"0\"} 1\n"
                        "tacho_progress_bound_seconds{run=\"gpt\"} 60\n"
                        "tacho_throughput_tokens_per_second{run=\"gpt\"} 1000\n"
                        "tacho_run_ended{run=\"gpt\"} 0\n");
    write_file(path[1],
               "tacho_last_step_index{run=\"gpt\",x=\"a\\\"b\"} 101 1700000000\n"
               "tacho_rank_step_time_seconds{run=\"gpt\",rank=\"2\"} 0.5 # {a=\"b\"} 1\n"
               "tacho_rank_step_time_seconds{run=\"gpt\",rank=\"3\"} 0.8\n"
               "tacho_rank_progress_age_seconds{run=\"gpt\",rank=\"2\"} 90\n"
               "tacho_throughput_tokens_per_second{run=\"gpt\"} 500\n"
               "tacho_run_ended{run=\"gpt\"} 0\n"
               "tacho_stalled{run=\"other\"} 1\n"
               "tacho_run_ended{run=\"other\"} 0\n"
               "tacho_alerts_active{run=\"other\",code=\"STALLED\",severity=\"page\"} 1\n");
    snprintf(text, sizeof text, "# nodes\n%s\n%s # the second\n\n%s\n", path[0], path[1], path[2]);
    write_file(list, text);
    assert_int_equal(mon_fleet_read(&fleet, list, NULL, 5, &err), 0);
    char *table = print(&fleet);
    has(table, "2 runs, 4 ranks, 2 of 3 watches answer\n");
    has(table, "gpt                          2      4       101     500.0        1500  runs");
    has(table, "1 silent rank: 2 for 90 s at ");
    has(table, "1 slow rank: 3 takes 1.60 times the median at ");
    has(table, "STALLED  1 alert: STALLED\n");
    has(table, "2.prom: No such file or directory\n");
    free(table);
    mon_fleet_free(&fleet);
    /* the same nodes as Prometheus has them */
    snprintf(text, sizeof text, "[{\"targets\": [\"%s\", \"%s\"], \"labels\": {}}]", path[0],
             path[1]);
    write_file(list, text);
    assert_int_equal(mon_fleet_read(&fleet, list, NULL, 5, &err), 0);
    assert_int_equal(fleet.node_count, 2);
    mon_fleet_free(&fleet);
    write_file(list, "[{\"targets\": [\"127.0.0.1:1\"], \"labels\": {\"__metrics_path__\": "
                     "\"/x\"}}]");
    assert_int_equal(mon_fleet_read(&fleet, list, NULL, 5, &err), 0);
    assert_string_equal(fleet.node[0].target, "http://127.0.0.1:1/x");
    assert_true(*fleet.node[0].why);
    mon_fleet_free(&fleet);
    static const char *const wrong[] = {"", "[1", "[{\"targets\": [3]}]", "# nothing\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file(list, wrong[i]);
        assert_int_equal(mon_fleet_read(&fleet, list, NULL, 5, &err), TACHO_EFORMAT);
        mon_fleet_free(&fleet);
    }
    for (int i = 0; i < 2; i++)
        unlink(path[i]);
    unlink(list);
    rmdir(folder);
    assert_int_equal(mon_fleet_read(&fleet, list, NULL, 5, &err), TACHO_ENOTFOUND);
    mon_fleet_free(&fleet);
}

/* Lines that are none, bytes that a terminal would obey, and more ranks than a watch exports. */
static void test_hostile(void **state)
{
    (void)state;
    struct mon_fleet fleet = {0};
    fleet.node = calloc(1, sizeof *fleet.node);
    fleet.node[0].target = strdup("n");
    fleet.node_count = 1;
    static const char *const texts[] = {"tacho_stalled{run=\"a\" 1\n",
                                        "tacho_stalled{run=\"a\n",
                                        "{",
                                        "\"",
                                        "tacho_stalled",
                                        "tacho_stalled{run=\"\\",
                                        "tacho_stalled{run=\"x\"}",
                                        "tacho_stalled{=\"\"} 1",
                                        "tacho_rank_step_time_seconds{run=\"r\",rank=\"no\"} 1\n",
                                        "\xff\xfe",
                                        "a{b=\"\xff\"} 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(mon_fleet_add(&fleet, 0, texts[i]), 0);
    assert_int_equal(fleet.ranks, 0);
    assert_int_equal(mon_fleet_add(&fleet, 0, "tacho_stalled{run=\"\x1b[2J\xc2\x9b\\nx\xff\"} 1\n"),
                     0);
    char *table = print(&fleet);
    has(table, "?[2J??x?");
    assert_null(strchr(table, '\x1b'));
    free(table);
    char *many, line[100];
    size_t size;
    FILE *out = open_memstream(&many, &size);
    for (int i = 0; i < 6000; i++) {
        snprintf(line, sizeof line, "tacho_rank_last_step_index{run=\"r\",rank=\"%d\"} 1\n", i);
        fputs(line, out);
    }
    fclose(out);
    assert_int_equal(mon_fleet_add(&fleet, 0, many), 0);
    assert_int_equal(fleet.ranks, 4096);
    assert_int_equal(fleet.ranks_dropped, 6000 - 4096);
    free(many);
    mon_fleet_free(&fleet);
}

/* Texts of a watch with bytes by chance: nothing breaks (sanitizers look), nothing but lines of
 * printable characters is printed. */
static void test_mutations(void **state)
{
    (void)state;
    static const char seed[] =
        "# TYPE tacho_last_step_index gauge\ntacho_last_step_index{run=\"r\"} 100\n"
        "tacho_rank_work_seconds{run=\"r\",rank=\"0\"} 0.5\ntacho_stalled{run=\"a\\\"b\\n\"} 1 17\n"
        "tacho_alerts_active{run=\"r\",code=\"X\"} 2 # {file=\"f\"} 1 2\n# EOF\n";
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 5000; i++) {
        struct mon_fleet fleet = {.node = calloc(1, sizeof *fleet.node), .node_count = 1};
        char text[sizeof seed];
        fleet.node[0].target = strdup("n");
        memcpy(text, seed, sizeof seed);
        for (int j = 0; j < 1 + i % 12; j++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            char by_chance = (char)(random >> 32), often[] = "\"\\{}=,\n ";
            text[random % (sizeof seed - 1)] =
                random >> 40 & 1 ? often[(random >> 41) % (sizeof often - 1)] : by_chance;
        }
        assert_int_equal(mon_fleet_add(&fleet, 0, text), 0);
        char *table = print(&fleet);
        for (const char *at = table; *at; at++)
            assert_true(*at == '\n' || ((unsigned char)*at >= ' ' && *at != 0x7f));
        free(table);
        mon_fleet_free(&fleet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_hostile),
                                       cmocka_unit_test(test_mutations)};
    return cmocka_run_group_tests_name("mon_fleet", tests, NULL, NULL);
}
