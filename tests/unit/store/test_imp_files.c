/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files of a folder an import reads: the newest session, the newest capture of a worker, the
 * one that says most of a capture; and a folder with very many of them.
 */
#include "store/import/files.h"
#include "store_test.h"

#define MANY 20000

static const char kineto[] = "{\"traceEvents\":[]}";

static void put_bytes(const struct scratch *s, const char *name, const char *text, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    for (char *slash = path + strlen(s->folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0755);
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void put(const struct scratch *s, const char *name, const char *text)
{
    put_bytes(s, name, text, strlen(text));
}

/* Names of what is read of the scratch folder, one behind the other; how many are left out as
 * earlier captures. */
static int64_t read_of(const struct scratch *s, char *names, size_t size)
{
    struct imp_files files;
    struct tacho_error err = {0};
    const char *in = s->folder;
    size_t used = 0;
    names[0] = 0;
    OK(&err, imp_files_of(&in, 1, &files, &err));
    for (size_t i = 0; i < files.count; i++)
        used += (size_t)snprintf(names + used, size - used, "%s%s", i ? " " : "",
                                 files.file[i].path + strlen(s->folder) + 1);
    int64_t earlier = files.earlier;
    imp_files_clear(&files);
    return earlier;
}

static void newest_session(void **state)
{
    struct scratch *s = *state;
    char names[1000];
    put(s, "plugins/profile/2024_01/a.json", kineto);
    put(s, "plugins/profile/2024_02/a.json", kineto);
    put(s, "plugins/profile/2024_03/a.json", kineto);
    put(s, "plugins/profile/2024_03/b.json", kineto);
    assert_int_equal(read_of(s, names, sizeof names), 2);
    assert_string_equal(names, "plugins/profile/2024_03/a.json plugins/profile/2024_03/b.json");
    put(s, "other/plugins/profile/2024_01/c.json", kineto);
    assert_int_equal(read_of(s, names, sizeof names), 2);
    assert_string_equal(names, "other/plugins/profile/2024_01/c.json "
                               "plugins/profile/2024_03/a.json plugins/profile/2024_03/b.json");
}

/* A worker's name says more than the folder of its session. */
static void newest_of_worker(void **state)
{
    struct scratch *s = *state;
    char names[1000];
    put(s, "plugins/profile/x/host.1700000000.pt.trace.json", kineto);
    put(s, "plugins/profile/y/other.1700000000.pt.trace.json", kineto);
    put(s, "plugins/profile/y/other.1700000009.pt.trace.json", kineto);
    assert_int_equal(read_of(s, names, sizeof names), 1);
    assert_string_equal(names, "plugins/profile/x/host.1700000000.pt.trace.json "
                               "plugins/profile/y/other.1700000009.pt.trace.json");
}

/* Of one capture of an Ascend NPU: the timeline of the framework, else that of msprof, else the
 * table that has more columns. */
static void most_of_ascend(void **state)
{
    static const char timeline[] = "[{\"name\":\"Ascend Hardware\",\"ph\":\"M\"}]",
                      summary[] = "Op Name,Task Type,Task Start Time(us),Task Duration(us)\n",
                      tasks[] = "kernel_name,kernel_type,task_start(us),task_time(us)\n",
                      kernels[] = "Name,Type,Accelerator Core,Start Time(us),Duration(us)\n";
    struct scratch *s = *state;
    char names[1000];
    put(s, "PROF_2/out/op_summary_2.csv", summary);
    put(s, "PROF_2/out/task_time_2.csv", tasks);
    put(s, "n_ascend_pt/PROF_1/out/op_summary_1.csv", summary);
    put(s, "n_ascend_pt/PROF_1/out/msprof_1.json", timeline);
    put(s, "n_ascend_pt/PROF_1/out/msprof_tx_1.json", kineto);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "PROF_2/out/op_summary_2.csv n_ascend_pt/PROF_1/out/msprof_1.json");
    put(s, "n_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv", kernels);
    put(s, "n_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", timeline);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "PROF_2/out/op_summary_2.csv "
                               "n_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json");
}

/* Of a capture in two formats the one that says all is read. Captures of two tools that have one
 * name are two, both in a format that says all: neither takes the other's place. */
static void formats_of_a_capture(void **state)
{
    static const char profile[] = "\n\016\022\014/device:GPU:",
                      database[] = "SQLite format 3\0 CREATE TABLE rocpd_string";
    struct scratch *s = *state;
    char names[1000];
    put(s, "run.trace.json", kineto);
    put_bytes(s, "run.xplane.pb", profile, sizeof profile - 1);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "run.xplane.pb");
    put_bytes(s, "run.db", database, sizeof database - 1);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "run.db run.xplane.pb");
}

/* What a profiler makes of a capture for a viewer, beside it, is no capture of its own. */
static void views_of_a_capture(void **state)
{
    static const char profile[] = "\n\016\022\014/device:GPU:",
                      json[] = "{\"traceEvents\":[{\"args\":{\"name\":\"/host:CPU\"}}]}",
                      timeline[] = "[{\"name\":\"Ascend Hardware\",\"ph\":\"M\"}]";
    struct scratch *s = *state;
    char names[1000];
    put(s, "perfetto_trace.json", json);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "perfetto_trace.json");
    put(s, "host.trace.json", json);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "host.trace.json");
    put_bytes(s, "host.xplane.pb", profile, sizeof profile - 1);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "host.xplane.pb");
    char path[300];
    for (size_t i = 0; i < 3; i++) {
        static const char *const put_before[] = {"perfetto_trace.json", "host.trace.json",
                                                 "host.xplane.pb"};
        snprintf(path, sizeof path, "%s/%s", s->folder, put_before[i]);
        assert_int_equal(unlink(path), 0);
    }
    put(s, "ascend_timeline_display_0.json", kineto);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "ascend_timeline_display_0.json");
    put(s, "PROF_1/device_0/timeline/msprof_0_1_1.json", timeline);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "PROF_1/device_0/timeline/msprof_0_1_1.json");
}

/* Settings do not keep a folder from being searched below. */
static void settings_above(void **state)
{
    struct scratch *s = *state;
    char names[1000];
    put(s, "config.json", "{\"a\":1}");
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "config.json");
    put(s, "below/a.json", kineto);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "below/a.json config.json");
    put(s, "b.json", kineto);
    assert_int_equal(read_of(s, names, sizeof names), 0);
    assert_string_equal(names, "b.json config.json");
}

/* torch_npu writes the rows of the NPU last. The word that tells them is found wherever it lies,
 * across the ends of what is read at a time too, and not looked for in a trace of Kineto. */
static void words_far_behind(void **state)
{
    enum { READ = 256 << 10, ROOM = 3 * READ };
    static const char word[] = "\"Ascend Hardware\"";
    static const int places[] = {READ, READ + 70000, 2 * READ - 32, ROOM - 20};
    struct scratch *s = *state;
    struct tacho_error err = {0};
    enum store_format format;
    char *text = malloc(ROOM), path[300];
    assert_non_null(text);
    snprintf(path, sizeof path, "%s/a.json", s->folder);
    for (int i = 0; i < 4 * 40; i++) {
        memset(text, ' ', ROOM);
        memcpy(text, "[{\"ph\":\"X\",\"ts\": \"1\"", 21);
        memcpy(text + places[i / 40] - i % 40, word, sizeof word - 1);
        put_bytes(s, "a.json", text, ROOM);
        OK(&err, store_format_of(path, &format, &err));
        assert_int_equal(format, STORE_FORMAT_ASCEND);
    }
    memcpy(text, "[{\"ph\":\"X\",\"ts\": 1  ", 20);
    put_bytes(s, "a.json", text, ROOM);
    OK(&err, store_format_of(path, &format, &err));
    assert_int_equal(format, STORE_FORMAT_KINETO);
    free(text);
}

/* Not compared with each other: 20,000 files are 200 million pairs. */
static void many(void **state)
{
    struct scratch *s = *state;
    struct tacho_error err = {0};
    enum store_format format;
    char name[64];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "plugins/profile/now/host%d.json", i);
        put(s, name, kineto);
    }
    alarm(20);
    OK(&err, store_format_of(s->folder, &format, &err));
    alarm(0);
    assert_int_equal(format, STORE_FORMAT_FOLDER);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {TEST(newest_session),     TEST(newest_of_worker),
                                       TEST(most_of_ascend),     TEST(formats_of_a_capture),
                                       TEST(views_of_a_capture), TEST(settings_above),
                                       TEST(words_far_behind),   TEST(many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
