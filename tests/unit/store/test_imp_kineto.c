/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the Kineto importer, each on a trace of a few events. Imports of real traces:
 * tests/e2e/import/70_import_kineto.sh.
 */
#include <inttypes.h>
#include <zlib.h>

#include "store/import/import.h"
#include "store/import/input/input.h"
#include "store_test.h"

/* ---- a trace in a file, imported, asked with SQL ----------------------------------------------------------------------------- */

static void put(const struct scratch *s, const char *name, const char *text, size_t n)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

/* Imports files of the scratch folder (NULL-terminated; "" is the folder itself) into RUN. */
static int import_names(const struct scratch *s, const char *const *names,
                        struct store_import_result *r, struct tacho_error *err)
{
    char path[8][200];
    const char *in[8];
    char out[200];
    struct store_import_options o = {.in = in, .out = out};
    for (; names[o.in_count]; o.in_count++) {
        snprintf(path[o.in_count], sizeof *path, "%s/%s", s->folder, names[o.in_count]);
        in[o.in_count] = path[o.in_count];
    }
    snprintf(out, sizeof out, "%s/run.tacho", s->folder);
    memset(err, 0, sizeof *err);
    return store_import(&o, r, err);
}

/* Imports a text; what SQL gives, rows separated by ';', columns by '|', is compared. */
static struct store_import_result import_text(struct scratch *s, const char *text)
{
    struct store_import_result r;
    struct tacho_error err;
    const char *const names[] = {"trace.json", NULL};
    char out[200];
    snprintf(out, sizeof out, "%s/run.tacho", s->folder);
    unlink(out);
    put(s, "trace.json", text, strlen(text));
    int rc = import_names(s, names, &r, &err);
    if (rc)
        fail_msg("%s", err.what);
    assert_true(sql_integrity(out));
    return r;
}

static void expect(const struct scratch *s, const char *sql, const char *want)
{
    char path[200], got[4096] = "";
    size_t n = 0;
    sqlite3 *db;
    sqlite3_stmt *st;
    snprintf(path, sizeof path, "%s/run.tacho", s->folder);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    for (int row = 0; sqlite3_step(st) == SQLITE_ROW; row++)
        for (int c = 0; c < sqlite3_column_count(st); c++) {
            const char *text = (const char *)sqlite3_column_text(st, c);
            n += (size_t)snprintf(got + n, sizeof got - n, "%s%s",
                                  c     ? "|"
                                  : row ? ";"
                                        : "",
                                  text ? text : "-");
        }
    sqlite3_finalize(st);
    sqlite3_close(db);
    assert_string_equal(got, want);
}

#define SLICES \
    "SELECT n.text, c.text, start, dur, correlation FROM slice s JOIN string n ON n.id = s.name " \
    "JOIN string c ON c.id = " \
    "s.category " \
    "ORDER BY s.id"
#define X(name, ts, dur) \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" ts \
    ",\"dur\":" dur "}"

/* ---- times ------------------------------------------------------------------------------------------------------------------- */

static void times_are_exact(void **state)
{
    struct scratch *s = *state;
    /* beyond 2^53 a double would lose the last digits */
    import_text(
        s, "[" X("a", "1712195495519689.123", "0.001") "," X(
               "b", "9007199254740993",
               "9007199254740.993") "," X("c", "\"12.5\"",
                                          "\"1\"") "," X("d", "1.5e3", "25e-1") "," X("e", "-3.25",
                                                                                      "0") "]");
    expect(s, SLICES,
           "a|op|1712195495519689123|1|-;b|op|9007199254740993000|9007199254740993|-;c|op|12500|"
           "1000|-;d|op|1500000|2500|-;e|"
           "op|-3250|0|-");
}

static void finer_than_ns_is_rounded_and_counted(void **state)
{
    struct scratch *s = *state;
    import_text(s, "[" X("a", "1.00049", "1.0005") "," X("b", "2.0004999999",
                                                         "3") "," X("c", "4.0000000", "1") "]");
    expect(s, SLICES, "a|op|1000|1001|-;b|op|2000|3000|-;c|op|4000|1000|-");
    expect(s, "SELECT key, value FROM run WHERE key LIKE 'source.rounded%'", "source.rounded.0|3");
}

static void whole_numbers_beyond_us_are_ns(void **state)
{
    struct scratch *s = *state;
    import_text(s, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[" X("a", "1712195495519689123",
                                                                     "17") "]}");
    expect(s, SLICES, "a|op|1712195495519689123|17|-");
    expect(s, "SELECT value FROM run WHERE key = 'source.time_unit'", "ns");
}

static void base_counts_wherever_it_stands(void **state)
{
    struct scratch *s = *state;
    static const char *const traces[] = {
        "{\"baseTimeNanoseconds\":1700000000000000000,\"traceEvents\":[" X("a", "1.5", "1") "]}",
        "{\"traceEvents\":[" X("a", "1.5",
                               "1") "],\"baseTimeNanoseconds\": \"1700000000000000000\"}",
        /* a look at the end finds a wrong one first */
        "{\"traceEvents\":[" X("a", "1.5", "1") "],\"baseTimeNanoseconds\":1700000000000000000,"
                                                "\"note\":{\"baseTimeNanoseconds\":5}}",
        "{\"note\":\"\\\"baseTimeNanoseconds\\\": 77\",\"traceEvents\":[" X(
            "a", "1.5", "1") "],"
                             "\"baseTimeNanoseconds\":1700000000000000000}",
    };
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        import_text(s, traces[i]);
        expect(s, SLICES, "a|op|1700000000000001500|1000|-");
        expect(s, "SELECT value FROM run WHERE key = 'source.base_ns'", "1700000000000000000");
    }
    import_text(s, "{\"traceEvents\":[" X("a", "1.5", "1") "]}");
    expect(s, SLICES, "a|op|1500|1000|-");
}

static void base_at_the_end_of_a_gzip_file(void **state)
{
    struct scratch *s = *state;
    char path[200];
    struct store_import_result r;
    struct tacho_error err;
    const char *const names[] = {"trace.json.gz", NULL};
    snprintf(path, sizeof path, "%s/trace.json.gz", s->folder);
    gzFile z = gzopen(path, "wb");
    gzputs(z, "{\"traceEvents\":[" X("a", "1.5", "1"));
    gzclose(z);
    z = gzopen(path, "ab"); /* a second member */
    gzputs(z, ",{\"ph\":\"C\",\"name\":\"c\",\"pid\":1,\"ts\":2,\"args\":{\"v\":7}}],"
              "\"baseTimeNanoseconds\":1700000000000000000}");
    gzclose(z);
    assert_int_equal(import_names(s, names, &r, &err), 0);
    assert_false(r.truncated);
    expect(s, SLICES, "a|op|1700000000000001500|1000|-");
    expect(s, "SELECT time, value FROM counter", "1700000000000002000|7.0");
}

static void times_that_are_none(void **state)
{
    struct scratch *s = *state;
    struct store_import_result r = import_text(
        s, "[" X("a", "NaN", "1") "," X("b", "1", "NaN") "," X("c", "2", "-1") "," X(
               "d", "null", "1") "," X("e", "1e300", "1") "," X("f", "3",
                                                                "Infinity") "," X("g", "\"soon\"",
                                                                                  "1") "]");
    assert_int_equal(r.events, 7);
    expect(s, SLICES, "b|op|1000|-|-;c|op|2000|-|-;f|op|3000|-|-");
    expect(
        s, "SELECT reason, count FROM loss ORDER BY 1",
        "event has no usable duration (kept, its end is open)|3;event has no usable time stamp|4");
    assert_int_equal(r.lost, 4); /* what is kept is not lost */
}

/* ---- the frame --------------------------------------------------------------------------------------------------------------- */

static void shapes_of_a_file(void **state)
{
    struct scratch *s = *state;
    static const char *const traces[] = {
        "[" X("a", "1", "1") "," X("b", "2", "1") "]",
        " \xef\xbb\xbf[" X("a", "1", "1") ",\n" X("b", "2", "1") " , ]\n",
        "\xef\xbb\xbf{\"traceEvents\" : [ " X("a", "1", "1") " ,,\t" X("b", "2", "1") " ] }",
        "{\"a\":[{\"traceEvents\":[1]}],\"b\":\"}]\\\"\",\"c\":1,\"traceEvents\":[" X(
            "a", "1", "1") "," X("b", "2", "1") "],\"d\":{}}",
        "{\"traceEvents\":[" X("a", "1", "1") "],\"traceEvents\":[" X("b", "2", "1") "]}",
    };
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        if (i == 1)
            continue; /* a byte order mark behind white space is none */
        struct store_import_result r = import_text(s, traces[i]);
        expect(s, SLICES, "a|op|1000|1000|-;b|op|2000|1000|-");
        assert_false(r.truncated);
        assert_int_equal(r.lost, 0);
    }
}

static void text_behind_the_end(void **state)
{
    struct scratch *s = *state;
    static const char *const traces[] = {
        "{\"traceEvents\":[" X("a", "1", "1") "]}\n{\"traceEvents\":[" X("b", "2", "1") "]}",
        "[" X("a", "1", "1") "]," X("b", "2", "1") "]",
        "{\"traceEvents\":[" X("a", "1", "1") "]} \r\n\t"};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        bool behind = i < 2;
        struct store_import_result r = import_text(s, traces[i]);
        expect(s, SLICES, "a|op|1000|1000|-");
        expect(s, "SELECT reason, count FROM loss",
               behind ? "text after the end of the trace: not read|1" : "");
        assert_int_equal(r.lost, 0);
        assert_int_equal(r.uncounted, behind);
        assert_false(r.truncated);
    }
}

static void damaged_events_are_counted_and_the_rest_is_read(void **state)
{
    struct scratch *s = *state;
    struct store_import_result r = import_text(
        s, "[" X("a", "1", "1") ",7,null,\"x\",[1],{\"ph\":\"X\",\"name\" \"broken\"}," X(
               "b", "2",
               "1") ",{\"ph\":\"X\",\"na\nme\":1,"
                    "\"name\":\"raw \t "
                    "control\",\"ts\":3,\"dur\":1,\"pid\":1,\"tid\":1,\"cat\":\"cpu_op\"}," X(
                        "\xff\xfe", "4", "1") "]");
    expect(s, SLICES,
           "a|op|1000|1000|-;b|op|2000|1000|-;raw \t "
           "control|op|3000|1000|-;\xef\xbf\xbd\xef\xbf\xbd|op|4000|1000|-");
    expect(s, "SELECT reason, count FROM loss", "event is not valid JSON|5");
    assert_int_equal(r.events, 4);
}

static void a_brace_too_few_or_too_many(void **state)
{
    struct scratch *s = *state;
    static const char *const broken[] = {
        "{\"ph\":\"X\",\"name\":\"x\",\"args\":{\"a\":1}",
        "{\"ph\":\"X\",\"name\":\"x\",\"args\":{\"name\":\"y\"}",
        "{\"ph\":\"X\",\"name\":\"x\",\"args\":{\"a\":[1,2}}",
        "{\"ph\":\"X\",\"name\":\"x\"}}",
        "{\"ph\":\"X\",\"cat\":\"y\":[[]],\"name\":\"x\"}",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char text[2048];
        for (int whole = 0; whole < 2; whole++) {
            snprintf(text, sizeof text, "{\"traceEvents\":[%s,%s,%s,%s%s", X("a", "1", "1"),
                     broken[i], X("b", "2", "1"), X("c", "3", "1"),
                     whole ? "],\"baseTimeNanoseconds\":0}" : "");
            import_text(s, text);
            expect(s,
                   "SELECT n.text, start FROM slice s JOIN string n ON n.id = s.name WHERE n.text "
                   "<> 'x'",
                   "a|1000;b|2000;c|3000");
            expect(s, "SELECT count(*) > 0 FROM loss", "1");
        }
    }
}

static void cut_off(void **state)
{
    struct scratch *s = *state;
    struct store_import_result r = import_text(
        s, "{\"traceEvents\":[" X("a", "1", "1") "," X("b", "2", "1") ",{\"ph\":\"X\",\"na");
    assert_true(r.truncated);
    assert_int_equal(r.events, 2);
    expect(s, "SELECT source, reason, count FROM loss",
           "trace.json|file ends in the middle of an event|1");
    r = import_text(s, "{\"traceEvents\":[" X("a", "1", "1") "," X("b", "2", "1") ",");
    assert_true(r.truncated);
    expect(s, "SELECT source, reason, count FROM loss", "trace.json|file ends in the middle|1");
    r = import_text(s, "{\"traceEvents\":[" X("a", "1", "1") "],\"distributedInfo\":{\"rank\":");
    assert_true(r.truncated);
    assert_int_equal(r.events, 1);
}

static void an_event_larger_than_a_window(void **state)
{
    struct scratch *s = *state;
    size_t n = STORE_IMPORT_WINDOW + (1u << 20);
    char *text = malloc(n + 4096), *p = text;
    assert_non_null(text);
    p += sprintf(p, "[%s,{\"ph\":\"X\",\"name\":\"", X("a", "1", "1"));
    memset(p, 'x', n);
    p += n;
    sprintf(p, "\"},%s]", X("b", "2", "1"));
    struct store_import_result r = import_text(s, text);
    free(text);
    expect(s, SLICES, "a|op|1000|1000|-;b|op|2000|1000|-");
    expect(s, "SELECT reason, count FROM loss", "event larger than 16 MiB|1");
    assert_false(r.truncated);
}

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

static void begins_and_ends(void **state)
{
    struct scratch *s = *state;
    import_text(
        s,
        "[{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"outer\",\"pid\":1,\"tid\":2,\"ts\":1},"
        "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"inner\",\"pid\":1,\"tid\":2,\"ts\":2},"
        "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"other\",\"pid\":1,\"tid\":3,\"ts\":2.5},"
        "{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":3},{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":5},"
        "{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":6}]");
    expect(s, SLICES, "inner|op|2000|1000|-;outer|op|1000|4000|-;other|op|2500|-|-");
    expect(s, "SELECT reason, count FROM loss ORDER BY 1",
           "begin event (ph B) without its end (kept, its end is open)|1;end event (ph E) without "
           "its begin|1");
}

static void counters_and_memory(void **state)
{
    struct scratch *s = *state;
    import_text(s, "[{\"ph\":\"C\",\"name\":\"loss\",\"pid\":1,\"ts\":1,\"args\":{\"value\":2.5}},"
                   "{\"ph\":\"C\",\"name\":\"net\",\"pid\":1,\"ts\":2,\"args\":{\"in\":\"3\","
                   "\"out\":4e2,\"bad\":\"x\"}},"
                   "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":1,"
                   "\"tid\":2,\"ts\":3,\"s\":\"t\",\"args\":"
                   "{\"Total Reserved\":20,\"Total "
                   "Allocated\":10,\"Bytes\":-5,\"Addr\":99,\"Device Id\":1,\"Device Type\":1}}]");
    expect(s,
           "SELECT t.name, t.device, t.unit, time, value FROM counter c JOIN track t ON t.id = "
           "c.track ORDER BY c.id",
           "loss|-|-|1000|2.5;net.in|-|-|2000|3.0;net.out|-|-|2000|400.0;memory.allocated|gpu:1|"
           "bytes|3000|10.0;"
           "memory.reserved|gpu:1|bytes|3000|20.0");
    expect(s, "SELECT d.bytes, d.schema, s.dur FROM slice s JOIN detail d ON d.id = s.detail",
           "-5|torch.memory|0");
    expect(s, "SELECT reason, count FROM loss", "counter value is not a number|1");
}

static void duplicate_keys_and_odd_values(void **state)
{
    struct scratch *s = *state;
    import_text(s, "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"no\",\"name\":\"k\",\"pid\":0,"
                   "\"tid\":\"stream 7\",\"ts\":1,\"dur\":2,"
                   "\"args\":{\"correlation\":\"41\",\"correlation\":\"42\",\"device\":\"3\","
                   "\"grid\":\"[2, 1, 1]\",\"block\":[64,1,1],"
                   "\"blocks per SM\":Infinity,\"registers per thread\":\"32\"}},"
                   "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"m\",\"pid\":3,\"tid\":7,\"ts\":4,"
                   "\"dur\":2,\"args\":null}]");
    expect(s, SLICES, "k|kernel|1000|2000|42;m|kernel|4000|2000|-");
    expect(s, "SELECT kind, device, tid FROM track", "stream|gpu:3|7");
    expect(s, "SELECT grid, block, payload FROM detail",
           "2,1,1|64,1,1|{\"registers\":\"32\",\"blocks_per_sm\":null}");
}

static void backward_by_argument_and_by_arrow(void **state)
{
    struct scratch *s = *state;
    import_text(s, "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"by "
                   "argument\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":1,"
                   "\"args\":{\"Fwd thread id\":1,\"Sequence number\":7}},"
                   "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"by "
                   "arrow\",\"pid\":1,\"tid\":2,\"ts\":3,\"dur\":1,"
                   "\"args\":{\"Input Dims\":[[2]],\"Sequence number\":8}},"
                   "{\"ph\":\"f\",\"id\":1,\"pid\":1,\"tid\":2,\"ts\":3,\"cat\":\"fwdbwd\","
                   "\"name\":\"fwdbwd\",\"bp\":\"e\"},"
                   "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"forward\",\"pid\":1,\"tid\":1,"
                   "\"ts\":0,\"dur\":1,"
                   "\"args\":{\"Input Dims\":[[2]],\"Fwd thread id\":0,\"Sequence number\":-1}},"
                   "{\"ph\":\"s\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":0,\"cat\":\"fwdbwd\","
                   "\"name\":\"fwdbwd\"}]");
    expect(s,
           "SELECT n.text, correlation, d.pass, d.payload FROM slice s JOIN string n ON n.id = "
           "s.name JOIN detail d ON d.id = "
           "s.detail",
           "by argument|7|backward|-;by "
           "arrow|8|backward|{\"shapes\":[[2]]};forward|-|-|{\"shapes\":[[2]]}");
}

static void categories_of_all_vendors(void **state)
{
    struct scratch *s = *state;
#define E(cat, name, args) \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name \
    "\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":1,\"args\":{" args "}},"
    import_text(
        s, "[" E("Operator", "aten::mm", "") E("Operator", "ProfilerStep#3", "")
               E("Kernel", "k", "\"device\":0,\"stream\":7") E("hip_runtime", "hipLaunchKernel", "")
                   E("xpu_driver", "zeCommandList", "") E("mtia_runtime", "runFunction", "") E(
                       "mtia_ccp_events", "dma_in",
                       "\"device\":0,\"stream\":1") E("hpu_op", "gemm", "\"device\":0,\"stream\":1")
                       E("new_device_ops", "n", "\"device\":2,\"stream\":5") E("my domain", "r", "")
                           E("mlu_memcpy", "Memcpy HtoD", "\"device\":0,\"stream\":1")
                               E("mlu_user_annotation", "a",
                                 "\"device\":0,\"stream\":1") E("mlu_runtime", "cnInvokeKernel", "")
                                   E("mtia_ccp_events", "event_wait", "\"device\":0,\"stream\":1")
                                       E("xpu_sync", "zeFenceHostSynchronize", "")
                                           E("op", "reserved",
                                             "") "{\"ph\":\"X\",\"name\":\"none\",\"pid\":1,"
                                                 "\"tid\":2,\"ts\":1,\"dur\":1}]");
    expect(
        s,
        "SELECT n.text, c.text, t.kind, t.device FROM slice s JOIN string n ON n.id = s.name "
        "JOIN string c ON c.id = "
        "s.category "
        "JOIN track t ON t.id = s.track ORDER BY s.id",
        "aten::mm|op|thread|-;ProfilerStep#3|annotation|thread|-;k|kernel|stream|gpu:0;"
        "hipLaunchKernel|runtime|thread|-;"
        "zeCommandList|driver|thread|-;runFunction|runtime|thread|-;dma_in|memcpy|stream|gpu:0;"
        "gemm|kernel|stream|gpu:0;"
        "n|kernel|stream|gpu:2;r|my "
        "domain|thread|-;Memcpy HtoD|memcpy|stream|gpu:0;a|annotation|stream|gpu:0;"
        "cnInvokeKernel|runtime|thread|-;event_wait|sync|stream|gpu:0;"
        "zeFenceHostSynchronize|xpu_sync|thread|-;reserved|kineto:op|thread|-;none|trace|thread|-");
}

/* Waits in the queues of a device of MTIA have the device as their process, and are no calls. */
static void waits_in_queues(void **state)
{
    struct scratch *s = *state;
#define W(pid, tid, name) \
    "{\"ph\":\"X\",\"cat\":\"mtia_runtime\",\"name\":\"" name "\",\"pid\":" pid ",\"tid\":" tid \
    ",\"ts\":1,\"dur\":1,\"args\":{\"correlation\":5,\"device\":17,\"stream_id\":\"102\"}}"
    import_text(s, "[" W("865", "1829", "launch") "," W("865", "1829", "synchronize") "," W(
                       "17", "3568", "synchronize") "]");
    expect(s,
           "SELECT n.text, c.text, t.kind, t.device, t.tid, p.pid FROM slice s JOIN string n ON "
           "n.id = s.name JOIN string c ON c.id = s.category JOIN track t ON t.id = s.track JOIN "
           "process p ON p.id = t.process ORDER BY s.id",
           "launch|runtime|thread|-|1829|865;synchronize|runtime|thread|-|1829|865;"
           "synchronize|sync|stream|gpu:17|102|865");
    expect(s, "SELECT count(*) FROM process", "1");
}

static void copies_and_collectives(void **state)
{
    struct scratch *s = *state;
#define D(cat, name, args) \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name \
    "\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1,\"args\":{\"device\":0,\"stream\":7" args "}}"
    import_text(
        s,
        "[" D("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", ",\"bytes\":10") "," D("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", ",\"bytes\":11") "," D(
            "gpu_memcpy", "Memcpy DtoD (Device -> Device)",
            ",\"bytes\":12") "," D("gpu_memcpy", "CopyHostToDevice",
                                   "") "," D("gpu_memcpy", "something",
                                             "") "," D("gpu_memset", "Memset (Device)",
                                                       ",\"bytes\":13") "," D("kernel",
                                                                              "ncclDevKernel_"
                                                                              "AllReduce",
                                                                              ",\"Collective "
                                                                              "name\":"
                                                                              "\"allreduce\","
                                                                              "\"In msg "
                                                                              "nelems\":100,"
                                                                              "\"Out msg "
                                                                              "nelems\":100,"
                                                                              "\"Group "
                                                                              "size\":8,"
                                                                              "\"dtype\":"
                                                                              "\"BFloat16\","
                                                                              "\"Process Group "
                                                                              "Name\":\"3\","
                                                                              "\"Process Group "
                                                                              "Ranks\":\"[0, "
                                                                              "1]\"") "," D("ker"
                                                                                            "ne"
                                                                                            "l",
                                                                                            "ncc"
                                                                                            "lDe"
                                                                                            "vKe"
                                                                                            "rne"
                                                                                            "l_"
                                                                                            "All"
                                                                                            "Gat"
                                                                                            "he"
                                                                                            "r",
                                                                                            ",\""
                                                                                            "Col"
                                                                                            "lec"
                                                                                            "tiv"
                                                                                            "e "
                                                                                            "nam"
                                                                                            "e\""
                                                                                            ":\""
                                                                                            "_al"
                                                                                            "lga"
                                                                                            "the"
                                                                                            "r_"
                                                                                            "bas"
                                                                                            "e\""
                                                                                            ",\""
                                                                                            "In "
                                                                                            "msg"
                                                                                            " ne"
                                                                                            "lem"
                                                                                            "s\""
                                                                                            ":10"
                                                                                            "0,"
                                                                                            "\"O"
                                                                                            "ut "
                                                                                            "msg"
                                                                                            " ne"
                                                                                            "lem"
                                                                                            "s\""
                                                                                            ":80"
                                                                                            "0,"
                                                                                            "\"G"
                                                                                            "rou"
                                                                                            "p "
                                                                                            "siz"
                                                                                            "e\""
                                                                                            ":8,"
                                                                                            "\"d"
                                                                                            "typ"
                                                                                            "e\""
                                                                                            ":\""
                                                                                            "Flo"
                                                                                            "at"
                                                                                            "\","
                                                                                            "\"P"
                                                                                            "roc"
                                                                                            "ess"
                                                                                            " Gr"
                                                                                            "oup"
                                                                                            " Ra"
                                                                                            "nks"
                                                                                            "\":"
                                                                                            "\"["
                                                                                            "0, "
                                                                                            "1, "
                                                                                            "..."
                                                                                            ", "
                                                                                            "7]"
                                                                                            "\"") "]");
    expect(s,
           "SELECT bytes, copy_kind, kind, schema, payload FROM detail WHERE collective IS NULL "
           "ORDER BY id",
           "10|HtoD|pageable|gpu.memcpy|{\"src\":\"pageable\",\"dst\":\"device\"};11|DtoH|pinned|"
           "gpu.memcpy|{\"src\":"
           "\"device\",\"dst\":"
           "\"pinned\"};12|DtoD|device|gpu.memcpy|{\"src\":\"device\",\"dst\":\"device\"};-|HtoD|-|"
           "gpu.memcpy|-;-|unknown|-|"
           "gpu.memcpy|-;"
           "13|-|-|gpu.memset|{\"dst\":\"device\"}");
    expect(s,
           "SELECT collective, bytes, ranks, communicator, dtype, schema, payload FROM detail "
           "WHERE collective IS NOT NULL ORDER "
           "BY id",
           "all_reduce|200|8|3|bf16|torch.comm|{\"in_elements\":100,\"out_elements\":100,\"group\":"
           "\"3\",\"group_ranks\":[0,1]};"
           "all_gather|3200|8|-|fp32|torch.comm|{\"in_elements\":100,\"out_elements\":800,\"group_"
           "ranks\":\"[0, 1, ..., 7]\"}");
}

static void places_and_names(void **state)
{
    struct scratch *s = *state;
    import_text(s,
                "[" X("a", "1", "1") "," D(
                    "kernel", "k",
                    "") ",{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"o\",\"pid\":-1,\"tid\":0,"
                        "\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\","
                        "\"pid\":9,\"tid\":2,\"ts\":1,\"dur\":1},"
                        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Context "
                        "Sync\",\"pid\":0,\"tid\":-1,\"ts\":1,\"dur\":1,\"args\":{\"device\":0,"
                        "\"stream\":-1,\"cuda_sync_kind\":\"Context Sync\",\"correlation\":5}},"
                        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{"
                        "\"name\":\"main\"}},"
                        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":7,\"args\":{"
                        "\"name\":\"stream 7 \"}},"
                        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":"
                        "\"python\"}}]");
    expect(s, "SELECT pid, program FROM process", "1|python;9|-");
    expect(s, "SELECT process, kind, tid, name, device FROM track",
           "1|thread|2|main|-;1|stream|7|stream "
           "7|gpu:0;1|thread|0|-|-;2|thread|2|-|-;1|stream|-|-|gpu:0");
}

static void devices_of_two_processes(void **state)
{
    struct scratch *s = *state;
#define LAUNCH(pid, id) \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":" pid \
    ",\"tid\":1,\"ts\":1,\"dur\":1," \
    "\"args\":{\"correlation\":" id "}}"
    import_text(
        s,
        "[" LAUNCH("5", "1") "," LAUNCH("6", "2") "," D("kernel", "k1", ",\"correlation\":1") "," D(
            "kernel", "k2", ",\"correlation\":2") "," D("kernel", "k3", ",\"correlation\":3") "]");
    expect(s,
           "SELECT n.text, p.pid, t.device, t.tid FROM slice s JOIN string n ON n.id = s.name JOIN "
           "track t ON t.id = s.track "
           "JOIN process p ON p.id = t.process WHERE t.kind = 'stream' ORDER BY s.id",
           "k1|5|gpu:0|7;k2|6|gpu:0|7;k3|5|gpu:0|7");
}

/* A file that a tool made of those of several ranks: each has pids of its own, and names that say
 * the rank, also where no call of the host is in it. */
static void ranks_in_one_file(void **state)
{
    struct scratch *s = *state;
#define RANK_KERNEL(pid, device) \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":" pid \
    ",\"tid\":4,\"ts\":1,\"dur\":1,\"args\":{\"device\":" device ",\"stream\":4}}"
#define RANK_NAME(pid, rank) \
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" pid ",\"args\":{\"name\":\"RANK " rank \
    " - GPU\"}}"
    import_text(
        s, "[" RANK_KERNEL("2", "2") "," RANK_KERNEL("100000003", "3") "," RANK_KERNEL(
               "200000004",
               "4") "," RANK_NAME("2", "0") "," RANK_NAME("100000003",
                                                          "1") "," RANK_NAME("200000004", "2") "]");
    expect(s,
           "SELECT p.rank, t.device FROM track t JOIN process p ON p.id = t.process ORDER BY t.id",
           "0|gpu:2;1|gpu:3;2|gpu:4");
}

/* ---- the import as a whole --------------------------------------------------------------------------------------------------- */

static int leftovers(const struct scratch *s)
{
    char command[300];
    snprintf(command, sizeof command,
             "test $(ls -A '%s' | grep -c -e import -e wal -e journal) = 0", s->folder);
    return system(command);
}

static int stop(void *ctx, int64_t done, int64_t total)
{
    (void)done, (void)total;
    ++*(int *)ctx;
    return 1;
}

static void errors_leave_nothing_behind(void **state)
{
    struct scratch *s = *state;
    struct store_import_result r;
    struct tacho_error err;
    const char *const names[] = {"trace.json", NULL};
    put(s, "trace.json", "{\"traceEvents\":[]}", 18);
    assert_int_equal(import_names(s, names, &r, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, "trace.json: JSON, but not a trace"));
    assert_true(err.hint[0]);
    put(s, "trace.json", "{\"traceEvents\":[{\"ph\":", 22);
    assert_int_equal(import_names(s, names, &r, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, "cut off"));
    put(s, "trace.json", "", 0);
    assert_int_equal(import_names(s, names, &r, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, "empty"));
    assert_int_equal(leftovers(s), 0);
    import_text(s, "[" X("a", "1", "1") "]");
    assert_int_equal(import_names(s, names, &r, &err), TACHO_EEXISTS);
    expect(s, SLICES, "a|op|1000|1000|-");
    assert_int_equal(leftovers(s), 0);
    char out[200], in[200];
    int calls = 0;
    const char *files[] = {in};
    snprintf(out, sizeof out, "%s/other.tacho", s->folder);
    snprintf(in, sizeof in, "%s/trace.json", s->folder);
    struct store_import_options o = {
        .in = files, .in_count = 1, .out = out, .progress = stop, .ctx = &calls};
    assert_int_equal(store_import(&o, &r, &err), TACHO_EINTERRUPTED);
    assert_int_equal(calls, 1);
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_equal(leftovers(s), 0);
}

static void ranks_of_files(void **state)
{
    struct scratch *s = *state;
    struct store_import_result r;
    struct tacho_error err;
    static const char three[] = "{\"distributedInfo\":{\"rank\":3,\"world_size\":4,\"backend\":"
                                "\"nccl\"},\"traceEvents\":[" X("a", "1", "1") "]}";
    static const char plain[] = "[" X("a", "1", "1") "]";
    const char *const names[] = {"one.json", "b_rank-1.json", "c.json", "d.json", NULL};
    put(s, "one.json", three, sizeof three - 1);
    put(s, "b_rank-1.json", plain, sizeof plain - 1);
    put(s, "c.json", plain, sizeof plain - 1);
    put(s, "d.json", three, sizeof three - 1);
    assert_int_equal(import_names(s, names, &r, &err), 0);
    assert_int_equal(r.files, 4);
    expect(s, "SELECT rank FROM process ORDER BY id", "3;1;0;3");
    expect(s, "SELECT source, count FROM loss", "d.json|1");
    expect(s,
           "SELECT value FROM run WHERE key IN ('world_size', 'backend', 'source.file.2') ORDER BY "
           "key",
           "nccl;c.json;4");
}

static void formats(void **state)
{
    struct scratch *s = *state;
    static const struct {
        const char *name, *text, *hint;
        int rc;
        enum store_format format;
    } cases[] = {{"a.json", " \n{\"traceEvents\":[]}", "", 0, STORE_FORMAT_KINETO},
                 {"b.json", "[", "", 0, STORE_FORMAT_KINETO},
                 {"c.nsys-rep", "anything", "nsys export", TACHO_ENOTSUP, STORE_FORMAT_CONVERT},
                 {"d.xplane.pb", "\x0a\x0a", "binary mode", TACHO_ENOTSUP, STORE_FORMAT_OTHER},
                 {"e.txt", "hello", "Kineto", TACHO_EFORMAT, STORE_FORMAT_UNKNOWN},
                 {"f.json", "", "record", TACHO_EFORMAT, STORE_FORMAT_UNKNOWN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[200];
        struct tacho_error err = {0};
        enum store_format f;
        put(s, cases[i].name, cases[i].text, strlen(cases[i].text));
        snprintf(path, sizeof path, "%s/%s", s->folder, cases[i].name);
        assert_int_equal(store_format_of(path, &f, &err), cases[i].rc);
        assert_int_equal(f, cases[i].format);
        assert_non_null(strstr(err.hint, cases[i].hint));
    }
    enum store_format f;
    struct tacho_error err = {0};
    assert_int_equal(store_format_of(s->folder, &f, &err), 0);
    assert_int_equal(f, STORE_FORMAT_FOLDER);
    assert_int_equal(store_format_of("/nonexistent/x", &f, &err), TACHO_ENOTFOUND);
}

static void key_follows_content_and_name(void **state)
{
    struct scratch *s = *state;
    char a[33], b[33], path[200], copy[200];
    struct tacho_error err;
    snprintf(path, sizeof path, "%s/trace.json", s->folder);
    snprintf(copy, sizeof copy, "%s/sub", s->folder);
    assert_int_equal(mkdir(copy, 0755), 0);
    snprintf(copy, sizeof copy, "%s/sub/trace.json", s->folder);
    const char *in = path, *other = copy;
    put(s, "trace.json", "[1]", 3);
    put(s, "sub/trace.json", "[1]", 3);
    assert_int_equal(store_import_key(&in, 1, a, &err), 0);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(store_import_key(&other, 1, b, &err), 0);
    assert_string_equal(a, b);
    put(s, "sub/trace.json", "[2]", 3);
    assert_int_equal(store_import_key(&other, 1, b, &err), 0);
    assert_string_not_equal(a, b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(times_are_exact),
        TEST(finer_than_ns_is_rounded_and_counted),
        TEST(whole_numbers_beyond_us_are_ns),
        TEST(base_counts_wherever_it_stands),
        TEST(base_at_the_end_of_a_gzip_file),
        TEST(times_that_are_none),
        TEST(shapes_of_a_file),
        TEST(text_behind_the_end),
        TEST(damaged_events_are_counted_and_the_rest_is_read),
        TEST(a_brace_too_few_or_too_many),
        TEST(cut_off),
        TEST(an_event_larger_than_a_window),
        TEST(begins_and_ends),
        TEST(counters_and_memory),
        TEST(duplicate_keys_and_odd_values),
        TEST(backward_by_argument_and_by_arrow),
        TEST(categories_of_all_vendors),
        TEST(waits_in_queues),
        TEST(copies_and_collectives),
        TEST(places_and_names),
        TEST(devices_of_two_processes),
        TEST(ranks_in_one_file),
        TEST(errors_leave_nothing_behind),
        TEST(ranks_of_files),
        TEST(formats),
        TEST(key_follows_content_and_name),
    };
    return cmocka_run_group_tests_name("imp_kineto", tests, NULL, NULL);
}
