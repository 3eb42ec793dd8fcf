/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports on runs made by hand: JSON strings and payloads, lanes, self times, windows, what is
 * absent.
 */
#include "store_test.h"

#include "store/csv.h"
#include "store/export/export_private.h"

static struct tacho_error err;

static char *string_of(const char *text)
{
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    exp_json_string(f, text);
    fclose(f);
    return out;
}

static void json_strings(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"plain", "\"plain\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\n\x01\x7f", "\"\\u000a\\u0001\\u007f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff|\xc0\xaf|\xed\xa0\x80|\xe2\x82",
         "\"\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *got = string_of(pairs[i][0]);
        assert_string_equal(got, pairs[i][1]);
        free(got);
    }
}

static void json_validity(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}", " [1, -2.5e+3, \"a\\u00e9\\n\", true, null, {\"a\":{}}] ", "0", "\"x\"", "-0.1"};
    static const char *const bad[] = {
        "",      "{",        "{\"a\":}",   "[1,]",      "01",        "{a:1}",  "\"\n\"", "nul",
        "1 2",   "\"\\x\"",  "[\"\xff\"]", "\"\\u12\"", "{\"a\" 1}", "+1",     "1.",     "1e",
        "[1 2]", "{\"a\":1", "NaN",        "-",         "\"",        "{\"a\"}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!exp_json_valid(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (exp_json_valid(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    char deep[200] = "";
    memset(deep, '[', 100);
    memset(deep + 100, ']', 99);
    assert_false(exp_json_valid(deep));
}

static void json_members(void **state)
{
    (void)state;
    const char *at = "{ \"a\" : [1, {\"b\":\",}\"}], \"c\\\"d\":\"x}\", \"e\":-1.5 }", *key, *value;
    size_t k, v;
    assert_int_equal(exp_json_member(&at, &key, &k, &value, &v), 1);
    assert_memory_equal(value, "[1, {\"b\":\",}\"}]", v);
    assert_int_equal(exp_json_member(&at, &key, &k, &value, &v), 1);
    assert_int_equal(k, 4);
    assert_memory_equal(value, "\"x}\"", v);
    assert_int_equal(exp_json_member(&at, &key, &k, &value, &v), 1);
    assert_memory_equal(value, "-1.5", 4);
    assert_int_equal(exp_json_member(&at, &key, &k, &value, &v), 0);
    at = "[1]";
    assert_int_equal(exp_json_member(&at, &key, &k, &value, &v), -1);
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------- */

static store *db;
static int64_t track[2], category;

static int64_t intern(const char *text)
{
    int64_t id;
    OK(store_error(db), store_string(db, text, strlen(text), &id));
    return id;
}

static void begin(const struct scratch *s)
{
    struct store_process p = {.rank = 3,
                              .pid = 100,
                              .parent_pid = STORE_ABSENT,
                              .start = STORE_ABSENT,
                              .end = STORE_ABSENT,
                              .exit_status = STORE_ABSENT,
                              .program = "train;er"};
    OK(&err, store_create(s->file, &db, &err));
    OK(store_error(db), store_begin(db));
    OK(store_error(db), store_process_add(db, &p));
    struct store_track thread = {.process = p.id, .tid = 101, .kind = "thread", .name = "main"};
    struct store_track range = {.process = p.id, .tid = STORE_ABSENT, .kind = "range"};
    OK(store_error(db), store_track_add(db, &thread));
    OK(store_error(db), store_track_add(db, &range));
    track[0] = thread.id;
    track[1] = range.id;
    category = intern("nvtx");
}

static void slice(int at, int64_t start, int64_t dur, const char *name)
{
    struct store_slice x = {.track = track[at],
                            .start = start,
                            .dur = dur,
                            .name = intern(name),
                            .category = category,
                            .detail = STORE_ABSENT,
                            .correlation = STORE_ABSENT};
    OK(store_error(db), store_slice_add(db, &x));
}

/* Finishes the run and exports it. Caller frees. */
static char *export(const struct scratch *s, const char *format, int64_t t0, int64_t t1)
{
    store_reader *r = NULL;
    char *out = NULL;
    size_t n = 0;
    if (db) {
        OK(store_error(db), store_commit(db));
        OK(&err, store_finish(db, &err));
        db = NULL;
        assert_int_equal(sql_integrity(s->file), 1);
    }
    OK(&err, store_open(s->file, &r, &err));
    FILE *f = open_memstream(&out, &n);
    const struct store_export_format *x = store_export_formats;
    while (strcmp(x->name, format) != 0)
        x++;
    OK(&err, x->write(r, &(struct store_export_options){.t0 = t0, .t1 = t1}, f, &err));
    fclose(f);
    store_reader_close(r);
    return out;
}

static void self_times(void **state)
{
    const struct scratch *s = *state;
    begin(s);
    slice(0, 100, 50, "outer");
    slice(0, 110, 10, "inner;%\n");
    slice(0, 125, 5, "inner;%\n");
    slice(0, 110, 4, "deep");
    slice(0, 150, 0, "mark");
    slice(0, 150, 7, "");
    slice(0, 200, STORE_ABSENT, "open");
    slice(0, 210, 5, "within");
    char *text = export(s, "folded", STORE_ABSENT, STORE_ABSENT);
    assert_string_equal(text, "rank 3 train%3Ber (100);main (101);outer 35\n"
                              "rank 3 train%3Ber (100);main (101);outer;inner%3B%25%0A 11\n"
                              "rank 3 train%3Ber (100);main (101);outer;inner%3B%25%0A;deep 4\n"
                              "rank 3 train%3Ber (100);main (101);(no name) 7\n"
                              "rank 3 train%3Ber (100);main (101);open;within 5\n");
    free(text);
    text = export(s, "folded", 112, 127); /* only what lies inside counts */
    assert_string_equal(text, "rank 3 train%3Ber (100);main (101);outer 5\n"
                              "rank 3 train%3Ber (100);main (101);outer;inner%3B%25%0A 8\n"
                              "rank 3 train%3Ber (100);main (101);outer;inner%3B%25%0A;deep 2\n");
    free(text);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void lanes(void **state)
{
    const struct scratch *s = *state;
    begin(s);
    slice(1, 1000000007, 100,
          "a"); /* overlap without nesting: two lanes; the third nests in the first */
    slice(1, 1000000057, 100, "b");
    slice(1, 1000000017, 50, "c");
    slice(1, 1000000107, 10, "d"); /* touches a: its lane is free again */
    char *text = export(s, "perfetto", STORE_ABSENT, STORE_ABSENT);
    assert_true(exp_json_valid(text));
    assert_int_equal(count(text, "\"ph\":\"X\""), 4);
    assert_int_equal(count(text, "\"name\":\"range\""), 1);
    assert_int_equal(count(text, "\"name\":\"range (2)\""), 1);
    assert_int_equal(count(text, "range (3)"), 0);
    assert_non_null(strstr(text, "\"baseTimeNanoseconds\":1000000007,"));
    assert_non_null(strstr(text, "\"ts\":0.000,\"dur\":0.100"));
    assert_non_null(strstr(text, "\"ts\":0.010,\"dur\":0.050"));
    assert_non_null(strstr(text, "\"rank\":3"));
    free(text);
}

static void absent_is_empty(void **state)
{
    const struct scratch *s = *state;
    begin(s);
    slice(0, -5, 10, "before, \"zero\"");
    slice(0, 20, STORE_ABSENT, "");
    char *text = export(s, "csv", STORE_ABSENT, STORE_ABSENT);
    const char *row = strstr(text, "\r\n") + 2;
    assert_string_equal(row,
                        "3,,100,train;er,1,thread,main,,101,-5,10,\"before, "
                        "\"\"zero\"\"\",nvtx,,,,,,,,,,,,,,,,,,,,\r\n"
                        "3,,100,train;er,1,thread,main,,101,20,,\"\",nvtx,,,,,,,,,,,,,,,,,,,,\r\n");
    free(text);
    text = export(s, "perfetto", STORE_ABSENT, STORE_ABSENT);
    assert_true(exp_json_valid(text));
    assert_int_equal(count(text, "\"ph\":\"B\""), 1);
    free(text);
    text = export(s, "perfetto", 1000, 2000); /* what never ended is still there; nothing else is */
    assert_int_equal(count(text, "\"ph\":\"X\"") + count(text, "\"ph\":\"B\""), 1);
    free(text);
}

/* A name that a spreadsheet would run gets a ' before it, unless the text as it is was asked for.
 */
static void formulas(void **state)
{
    static const char *const names[] = {"=1+2", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "a=1"};
    const size_t name_count = sizeof names / sizeof *names;
    const struct scratch *s = *state;
    begin(s);
    for (size_t i = 0; i < name_count; i++)
        slice(0, 10 * (int64_t)i, 5, names[i]);
    char *all = export(s, "csv", STORE_ABSENT, STORE_ABSENT);
    for (size_t i = 0; i < name_count; i++) {
        char want[32], *text = NULL;
        size_t bytes = 0;
        snprintf(want, sizeof want, i + 1 < name_count ? ",\"'%s\"," : ",%s,", names[i]);
        assert_int_equal(count(all, want), 1);
        FILE *file = open_memstream(&text, &bytes);
        store_csv_text(file, names[i], true);
        fclose(file);
        assert_int_equal(count(text, "'"), 0);
        free(text);
    }
    free(all);
}

static ssize_t failing(void *cookie, const char *bytes, size_t n)
{
    (void)cookie, (void)bytes, (void)n;
    return 0; /* what stdio takes for a failure of write */
}

static void a_stream_that_fails(void **state)
{
    const struct scratch *s = *state;
    begin(s);
    for (int i = 0; i < 1000; i++)
        slice(0, i * 10, 5, "x");
    free(export(s, "csv", STORE_ABSENT, STORE_ABSENT));
    for (const struct store_export_format *x = store_export_formats; x->name; x++) {
        store_reader *r = NULL;
        /* a run without samples of stacks or frames is refused before anything is written */
        if (strstr(x->name, "stacks") || strstr(x->name, "python"))
            continue;
        OK(&err, store_open(s->file, &r, &err));
        FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = failing});
        assert_int_equal(
            x->write(r, &(struct store_export_options){.t0 = STORE_ABSENT, .t1 = STORE_ABSENT}, f,
                     &err),
            TACHO_EIO);
        fclose(f);
        store_reader_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_strings),
        cmocka_unit_test(json_validity),
        cmocka_unit_test(json_members),
        cmocka_unit_test_setup_teardown(self_times, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(lanes, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(absent_is_empty, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(formulas, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_stream_that_fails, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
