/* SPDX-License-Identifier: Apache-2.0
 *
 * The database of runs: what is entered comes back, a run that is entered again takes the place of
 * its entry, trends name the operator that moved, files come and go whole.
 */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzers/base/stats.h"
#include "history/history.h"

static char folder[200], path[256];

static int set_up(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/history-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/history.db", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static struct history *open_history(bool write)
{
    struct history *history;
    struct tacho_error err = {0};
    int rc = history_open(path, write, &history, &err);
    if (rc)
        print_message("%s\n", err.what);
    assert_int_equal(rc, 0);
    return history;
}

static void enter(struct history *history, int64_t begun, const char *commit, double matmul,
                  double norm)
{
    const struct history_value values[] = {
        {"step", "mean", "ms", matmul + norm + 5},    {"class", "compute", "ms", matmul + norm},
        {"operator", "matmul.forward", "ms", matmul}, {"operator", "layernorm.forward", "ms", norm},
        {"work", "executed FLOPs", "FLOP", 1e9},
    };
    const float steps[] = {1, 2, 3.5F};
    struct history_entry entry = {.begun_ns = begun * 1000000000,
                                  .recipe_text = "train gpt2-tiny",
                                  .host_text = "a processor, 2 cores",
                                  .commit = commit,
                                  .verdict = "COMPUTE-BOUND: words",
                                  .environment = "{\"kernel\":\"6.1\"}",
                                  .steps = 40,
                                  .values = values,
                                  .value_count = sizeof values / sizeof *values,
                                  .step_ms = steps,
                                  .sample_count = 3};
    history_hash(entry.recipe_text, entry.recipe);
    history_hash(entry.host_text, entry.host);
    snprintf(entry.key, sizeof entry.key, "%016" PRIx64, begun);
    struct tacho_error err = {0};
    assert_int_equal(history_enter(history, &entry, &err), 0);
}

static int count_row(void *ctx, const struct history_row *row)
{
    assert_non_null(row->entry.recipe_text);
    ++*(int *)ctx;
    return 0;
}

static int count_rows(struct history *history, const struct history_filter *filter)
{
    int count = 0;
    assert_int_equal(history_each(history, filter, count_row, &count, NULL), 0);
    return count;
}

static void test_comes_back(void **state)
{
    (void)state;
    struct history *history = open_history(true);
    struct history_entry *entry;
    enter(history, 1000, "0123456789abcdef0123456789abcdef01234567", 30, 4);
    enter(history, 2000, NULL, 31, 4);
    assert_int_equal(history_get(history, 1, &entry, NULL), 0);
    assert_string_equal(entry->recipe_text, "train gpt2-tiny");
    assert_string_equal(entry->commit, "0123456789abcdef0123456789abcdef01234567");
    assert_string_equal(entry->environment, "{\"kernel\":\"6.1\"}");
    assert_int_equal(entry->value_count, 5);
    assert_int_equal(entry->sample_count, 3);
    assert_true(entry->step_ms[2] == 3.5F);
    history_entry_free(entry);
    int64_t id = 0;
    assert_int_equal(history_find(history, "latest", &id, NULL), 0);
    assert_int_equal(id, 2);
    assert_int_equal(history_find(history, "0123456", &id, NULL), 0);
    assert_int_equal(id, 1);
    assert_int_equal(history_find(history, "99", &id, NULL), TACHO_ENOTFOUND);
    assert_int_equal(history_find(history, "00000000000", &id, NULL), TACHO_EUSAGE);
    assert_int_equal(count_rows(history, &(struct history_filter){0}), 2);
    assert_int_equal(count_rows(history, &(struct history_filter){.since_ns = 1500000000000}), 1);
    assert_int_equal(count_rows(history, &(struct history_filter){.recipe = "ffff"}), 0);
    history_close(history);
}

/* A report that is made again replaces the entry; the commit, known only at its start, stays. */
static void test_again(void **state)
{
    (void)state;
    struct history *history = open_history(true);
    struct history_entry *entry;
    int64_t id;
    enter(history, 1000, "0123456789abcdef0123456789abcdef01234567", 30, 4);
    enter(history, 1000, NULL, 35, 4);
    assert_int_equal(count_rows(history, &(struct history_filter){0}), 1);
    assert_int_equal(history_find(history, "latest", &id, NULL), 0);
    assert_int_equal(history_get(history, id, &entry, NULL), 0);
    assert_non_null(entry->commit);
    assert_true(entry->values[0].value == 39); /* class.compute */
    history_entry_free(entry);
    history_close(history);
}

static double noise(uint64_t *state)
{
    double sum = -6; /* of twelve uniform numbers: almost normal, variance 1 */
    for (int i = 0; i < 12; i++)
        sum += (double)(an_random(state) >> 11) / 9007199254740992.0;
    return sum;
}

static void test_trend(void **state)
{
    (void)state;
    struct history *history = open_history(true);
    struct history_trend trend;
    uint64_t random = 7;
    char commit[65];
    for (int i = 0; i < 60; i++) {
        double machine = 1 + 0.024 * noise(&random);
        snprintf(commit, sizeof commit, "%040d", i / 3);
        enter(history, 1000 + i, commit, 30 * machine, (i >= 33 ? 7 : 4) * machine);
    }
    char recipe[HISTORY_HASH];
    history_hash("train gpt2-tiny", recipe);
    struct history_filter filter = {.recipe = recipe, .kind = "step", .name = "mean"};
    assert_int_equal(history_trend_read(history, &filter, &trend, NULL), 0);
    assert_int_equal(trend.count, 60);
    assert_int_equal(trend.change_count, 1);
    const struct history_change *change = &trend.change[0];
    assert_in_range(change->low, 28, 33);
    assert_in_range(change->high, 33, 38);
    assert_true(change->after / change->before > 1.04);
    /* the operator that was planted comes first, the other one does not come */
    assert_true(change->moved_count >= 1);
    for (size_t i = 0; i < change->moved_count; i++)
        assert_string_not_equal(change->moved[i].name, "matmul.forward");
    bool named = false;
    for (size_t i = 0; i < change->moved_count; i++)
        named |= !strcmp(change->moved[i].name, "layernorm.forward");
    assert_true(named);
    assert_true(trend.sd_pct > 1 && trend.sd_pct < 4);
    assert_true(trend.detectable_pct[1] < trend.detectable_pct[0]);
    assert_string_equal(trend.point[0].commit, "0000000000000000000000000000000000000000");
    history_trend_clear(&trend);
    history_close(history);
}

/* What is exported as lines of JSON and imported elsewhere is the same. */
static void test_exchange(void **state)
{
    (void)state;
    struct history *history = open_history(true), *other;
    char text[256], copy[256];
    struct tacho_error err = {0};
    size_t count = 0;
    for (int i = 0; i < 3; i++)
        enter(history, 1000 + i, NULL, 30 + i, 4);
    snprintf(copy, sizeof copy, "%s/copy.db", folder);
    assert_int_equal(history_open(copy, true, &other, NULL), 0);
    static const struct {
        const char *name;
        enum history_format format;
    } files[] = {{"runs.jsonl", HISTORY_JSON}, {"runs.csv", HISTORY_CSV}, {"log", HISTORY_MLLOG}};
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s/%s", folder, files[i].name);
        FILE *out = fopen(text, "w");
        assert_non_null(out);
        assert_int_equal(
            history_export(history, &(struct history_filter){0}, files[i].format, out, NULL), 0);
        fclose(out);
        int rc = history_import(other, text, NULL, &count, &err);
        if (rc)
            print_message("%s\n", err.what);
        assert_int_equal(rc, 0);
        assert_int_equal(count, 3);
    }
    /* CSV has the same keys as JSON, a log of MLPerf has none */
    assert_int_equal(count_rows(other, &(struct history_filter){0}), 6);
    history_close(other);
    history_close(history);
}

static void write_text(const char *text, char name[256])
{
    snprintf(name, 256, "%s/text", folder);
    FILE *out = fopen(name, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void test_imports(void **state)
{
    (void)state;
    struct history *history = open_history(true);
    struct history_entry *entry;
    struct tacho_error err = {0};
    char name[256];
    size_t count;
    write_text("\xef\xbb\xbfName,State,Created,\"train/step_time\",loss\r\n"
               "a,finished,2026-11-01T10:00:00.500Z,0.25,1.5\r\n"
               "\"b, with \"\"quotes\"\"\",finished,1793000000,,2\r\n",
               name);
    assert_int_equal(history_import(history, name, NULL, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(history_get(history, 1, &entry, NULL), 0);
    assert_string_equal(entry->recipe_text, "a");
    assert_int_equal(entry->begun_ns, INT64_C(1793527200500000000));
    assert_int_equal(entry->value_count, 2);
    assert_true(entry->values[1].value == 250);
    history_entry_free(entry);
    assert_int_equal(history_get(history, 2, &entry, NULL), 0);
    assert_string_equal(entry->recipe_text, "b, with \"quotes\"");
    history_entry_free(entry);
    /* a name may end in parentheses; a unit is in those after a blank */
    write_text("Name,Created,metric.acc(top1),metric.time (s)\na,2026-11-02,3,4\n", name);
    assert_int_equal(history_import(history, name, NULL, &count, &err), 0);
    assert_int_equal(history_get(history, 3, &entry, NULL), 0);
    assert_int_equal(entry->value_count, 2);
    assert_string_equal(entry->values[0].name, "time");
    assert_string_equal(entry->values[0].unit, "s");
    assert_string_equal(entry->values[1].name, "acc(top1)");
    assert_string_equal(entry->values[1].unit, "");
    history_entry_free(entry);
    /* a run that ends before it begins has no duration */
    write_text(":::MLLOG {\"key\": \"run_start\", \"time_ms\": 1793527200500}\n"
               ":::MLLOG {\"key\": \"run_stop\", \"time_ms\": -9223372036854775807}\n",
               name);
    assert_int_equal(history_import(history, name, NULL, &count, &err), 0);
    assert_int_equal(history_get(history, 4, &entry, NULL), 0);
    assert_int_equal(entry->value_count, 0);
    history_entry_free(entry);
    /* what is refused leaves nothing behind */
    static const char *const bad[] = {"",
                                      "Name,Created\na,9999-12-31\n",
                                      "nothing",
                                      "Name,Created\nc,2026-11-01\nd,not a time\n",
                                      "Name,_step,loss\na,1,2\n",
                                      "Name,Created\na,2026-11-01,3\n",
                                      "Name,Created\n\"a,2026-11-01\n",
                                      "{\"schema\":1}\n",
                                      ":::MLLOG {\"key\": \n",
                                      ":::MLLOG {\"time_ms\": 3}\n",
                                      ":::MLLOG {\"key\": \"run_start\"}\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(bad[i], name);
        assert_int_equal(history_import(history, name, NULL, &count, &err), TACHO_EFORMAT);
        assert_int_equal(count, 0);
    }
    assert_int_equal(count_rows(history, &(struct history_filter){0}), 4);
    history_close(history);
}

static void enter_recipe(struct history *history, const char *text, double flops, double ms)
{
    static int64_t begun;
    const struct history_value values[] = {{"step", "median", "ms", ms},
                                           {"work", "executed FLOPs", "FLOP", flops}};
    struct history_entry entry = {.begun_ns = ++begun * 1000000000,
                                  .recipe_text = text,
                                  .host_text = "a processor, 2 cores",
                                  .values = values,
                                  .value_count = 2};
    snprintf(entry.key, sizeof entry.key, "r%d", (int)begun);
    history_hash(entry.recipe_text, entry.recipe);
    history_hash(entry.host_text, entry.host);
    assert_int_equal(history_enter(history, &entry, NULL), 0);
}

static void test_guess(void **state)
{
    (void)state;
    struct history *history = open_history(true);
    struct history_guess guess;
    enter_recipe(history, "train gpt2-tiny", 1e9, 30);
    assert_int_equal(history_guess(history, 1, &guess, NULL), TACHO_ENOTFOUND);
    enter_recipe(history, "train gpt2-tiny --batch 16", 2e9, 63);
    assert_int_equal(history_guess(history, 2, &guess, NULL), 0);
    assert_int_equal(guess.from, 1);
    assert_true(fabs(guess.step_ms - 60) < 1e-9 && !guess.by_process);
    assert_int_equal(guess.recipes, 2);
    assert_true(isnan(guess.process_pct)); /* of two recipes nothing can be learned */
    assert_true(fabs(guess.nearest_pct - 100 * (63.0 / 60 - 1 + 1 - 60 / 63.0) / 2) < 0.2);
    history_close(history);
}

/* Runs of mixed recipes: what an option costs is learned from other recipes that have it. The most
 * similar run by words and FLOPs is often one with the other number of threads. */
static void test_model(void **state)
{
    (void)state;
    struct history *history = open_history(true);
    struct history_guess guess;
    uint64_t random = 3;
    char text[200];
    int within = 0;
    for (int i = 0; i < 40; i++) {
        int threads = 1 + (int)(an_random(&random) % 2), batch = 1 + (int)(an_random(&random) % 40);
        bool recompute = an_random(&random) % 2, llama = an_random(&random) % 2;
        double flops = 1e9 * batch * (llama ? 1.2 : 1) * (recompute ? 1.3 : 1);
        double ms = flops / 1e8 * (threads == 1 ? 1.8 : 1) * (llama ? 1.4 : 1);
        snprintf(text, sizeof text, "OMP_NUM_THREADS=%d train %s --batch %d%s --seed %d", threads,
                 llama ? "llama-tiny" : "gpt2-tiny", batch, recompute ? " --recompute block" : "",
                 i);
        enter_recipe(history, text, flops, ms * exp(0.02 * noise(&random)));
        if (i < 30)
            continue;
        assert_int_equal(history_guess(history, i + 1, &guess, NULL), 0); /* the newest: held out */
        assert_true(guess.by_process && guess.process_pct < 0.5 * guess.nearest_pct);
        within += fabs(guess.step_ms / ms - 1) < 0.1;
    }
    assert_in_range(within, 8, 10);
    assert_true(guess.process_pct < 10 && guess.p90_pct > guess.process_pct);
    history_close(history);
}

static void test_foreign_files(void **state)
{
    (void)state;
    struct history *history;
    struct tacho_error err = {0};
    assert_int_equal(history_open(path, false, &history, &err), TACHO_ENOTFOUND);
    FILE *out = fopen(path, "w");
    fputs("this is not a database, and it is long enough to be looked at as one", out);
    fclose(out);
    assert_true(history_open(path, true, &history, &err) != 0);
    assert_non_null(strstr(err.what, "history.db"));
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_true(history_open(path, true, &history, &err) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_trend, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exchange, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_imports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_guess, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_foreign_files, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
