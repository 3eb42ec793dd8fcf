/* SPDX-License-Identifier: Apache-2.0
 *
 * Nsight exports made by hand, one for each thing that real ones differ in: versions of tables,
 * missing columns, domains, payloads, ids of several processes, graphs, lost records, rows that
 * cannot be.
 */
#include "store_test.h"

#include <inttypes.h>

#include "store/import/import.h"

static struct tacho_error err;
static struct store_import_result result;

struct files {
    struct scratch s; /* first: scratch_teardown frees this */
    char in[96];
};

static int setup(void **state)
{
    struct files *f = calloc(1, sizeof *f);
    void *inner = NULL;
    if (!f || scratch_setup(&inner))
        return -1;
    f->s = *(struct scratch *)inner;
    free(inner);
    snprintf(f->in, sizeof f->in, "%s/x.sqlite", f->s.folder);
    *state = f;
    return 0;
}

/* Runs statements on a database of its own. 281474993487872 is the globalPid of process 1 of the
 * first VM, 281475010265088 of process 2. */
static void make(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *words = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(
            db,
            "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
            "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
            "CREATE TABLE PROCESSES(globalPid INTEGER, pid INTEGER, name TEXT);"
            "INSERT INTO META_DATA_EXPORT VALUES('EXPORT_PRODUCT_NAME','NVIDIA Nsight Systems'),"
            "('EXPORT_PRODUCT_VERSION','2026.1'),('EXPORT_SCHEMA_VERSION','3.25.0');"
            "INSERT INTO StringIds VALUES(1,'kern<int>'),(2,'kern'),(3,'cudaLaunchKernel_v7000'),"
            "(4,'cuLaunchKernelEx'),(5,'main thread'),(6,'read');",
            NULL, NULL, &words) != SQLITE_OK ||
        sqlite3_exec(db, sql, NULL, NULL, &words) != SQLITE_OK)
        fail_msg("%s", words);
    sqlite3_close(db);
}

static void import(struct files *f)
{
    const char *in[] = {f->in};
    struct store_import_options o = {.in = in, .in_count = 1, .out = f->s.other};
    OK(&err, store_import(&o, &result, &err));
    assert_int_equal(sql_integrity(f->s.other), 1);
}

static int refused(struct files *f)
{
    const char *in[] = {f->in};
    struct store_import_options o = {.in = in, .in_count = 1, .out = f->s.other};
    int code = store_import(&o, &result, &err);
    assert_int_not_equal(access(f->s.other, F_OK), 0);
    assert_true(err.what[0] && err.hint[0]);
    return code;
}

/* Text of the first column of the first row, "" for NULL or none. */
static const char *sql_text(const char *path, const char *sql)
{
    static char text[600];
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    *text = 0;
    if (sqlite3_open(path, &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW &&
        sqlite3_column_text(st, 0))
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(st, 0));
    else if (!st)
        snprintf(text, sizeof text, "%s", sqlite3_errmsg(db));
    sqlite3_finalize(st);
    sqlite3_close(db);
    return text;
}

#define ROWS \
    "(SELECT s.*, n.text AS what, c.text AS cat, t.kind, t.device, t.tid, p.pid, t.name AS " \
    "track_name FROM slice s JOIN " \
    "track t ON t.id=s.track " \
    "LEFT JOIN process p ON p.id=t.process JOIN string n ON n.id=s.name JOIN string c ON " \
    "c.id=s.category)"

/* ---- tables ----------------------------------------------------------------------------------------------------------------- */

static void versions_and_missing_columns(void **state)
{
    struct files *f = *state;
    make(f->in, /* the unversioned table is there but empty; V3 has the rows; hardly any column
                   exists */
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, "
         "globalPid INTEGER);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V3(start INTEGER, end INTEGER, deviceId INTEGER, "
         "streamId INTEGER,"
         " globalPid INTEGER, shortName INTEGER, correlationId INTEGER);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL_V3 "
         "VALUES(1000,1007,1,9,281474993487872,2,5),(2000,2001,1,9,281474993487872,2,0)");
    import(f);
    assert_int_equal(result.slices, 2);
    assert_int_equal(result.lost, 0);
    const char *out = f->s.other;
    assert_string_equal(sql_text(out, "SELECT what||' '||cat||' '||kind||' '||device||' '||tid||' "
                                      "'||pid||' '||start||' '||dur||' '||"
                                      "correlation FROM " ROWS " WHERE dur=7"),
                        "kern kernel stream gpu:1 9 1 1000 7 5");
    assert_int_equal(sql_int(out, "SELECT count(*) FROM slice WHERE correlation IS NULL"), 1);
    assert_int_equal(
        sql_int(out, "SELECT count(*) FROM detail WHERE grid IS NOT NULL OR payload IS NOT NULL"),
        0);
    assert_string_equal(sql_text(out, "SELECT value FROM run WHERE key='source'"), "nsight");
    assert_string_equal(sql_text(out, "SELECT value FROM run WHERE key='source.tool'"),
                        "NVIDIA Nsight Systems 2026.1 (schema 3.25.0)");
}

static void strings_without_a_key(void **state)
{
    struct files *f = *state;
    make(f->in, "DROP TABLE StringIds; CREATE TABLE StringIds(id, value); INSERT INTO StringIds "
                "VALUES(7,'seven'),('x','y'),(7,'z');"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, "
                "globalPid, demangledName);"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
                "VALUES(1,2,0,7,281474993487872,7),(3,4,0,7,281474993487872,8)");
    import(f);
    assert_int_equal(sql_int(f->s.other, "SELECT count(*) FROM " ROWS " WHERE what='seven'"), 1);
    assert_int_equal(sql_int(f->s.other, "SELECT count(*) FROM " ROWS " WHERE what=''"), 1);
}

static void not_an_export(void **state)
{
    struct files *f = *state;
    sqlite3 *db = NULL;
    sqlite3_open(f->in, &db);
    sqlite3_exec(db, "CREATE TABLE t(a)", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_int_equal(refused(f), TACHO_EFORMAT);
    unlink(f->in);
    make(f->in,
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, globalPid)");
    assert_int_equal(refused(f), TACHO_EFORMAT);
    FILE *file = fopen(f->in, "w");
    fputs("SQLite format 3", file);
    for (int i = 0; i < 5000; i++)
        fputc(i * 7, file);
    fclose(file);
    int code = refused(f);
    assert_true(code == TACHO_EFORMAT || code == TACHO_ECORRUPT);
}

/* A view is a program of whoever made the file. */
static void views_are_not_read(void **state)
{
    struct files *f = *state;
    make(f->in, "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start, 2 AS end, 0 AS "
                "deviceId, 281474993487872 AS globalPid;"
                "CREATE TABLE OSRT_API(start, end, globalTid, nameId); INSERT INTO OSRT_API "
                "VALUES(5,9,281474993487873,6)");
    import(f);
    assert_int_equal(result.slices, 1);
    assert_string_equal(sql_text(f->s.other, "SELECT what||' '||cat||' '||dur FROM " ROWS),
                        "read osrt 4");
}

/* ---- times, ids ------------------------------------------------------------------------------------------------------------- */

static void impossible_rows(void **state)
{
    struct files *f = *state;
    make(f->in, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, "
                "globalPid, demangledName);"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
                "VALUES(10,20,0,7,281474993487872,1),(-5,20,0,7,281474993487872,1),"
                "(30,25,0,7,281474993487872,1),(0,0,0,7,281474993487872,1),(NULL,5,0,7,"
                "281474993487872,1),('x',5,0,7,281474993487872,"
                "1),"
                "(9223372036854775807,9223372036854775807,0,7,281474993487872,1),(40,50,0,7,NULL,1)"
                ",(60,70,-3,7,281474993487872,1),"
                "(60,70,99999999999,7,281474993487872,1),(80,90,0,4294967295,281474993487872,1)");
    import(f);
    assert_int_equal(result.events, 11);
    assert_int_equal(result.slices, 2);
    assert_int_equal(result.lost, 9);
    const char *out = f->s.other;
    assert_int_equal(
        sql_int(out, "SELECT count FROM loss WHERE reason='row without a usable time stamp'"), 5);
    assert_int_equal(
        sql_int(out, "SELECT count FROM loss WHERE reason='row that ends before it starts'"), 1);
    assert_int_equal(
        sql_int(out, "SELECT count FROM loss WHERE reason='row without a process or thread'"), 1);
    assert_int_equal(sql_int(out, "SELECT count FROM loss WHERE reason='row without a device'"), 2);
    assert_int_equal(sql_int(out, "SELECT count(*) FROM loss WHERE source='x.sqlite'"), 4);
    assert_int_equal(sql_int(out, "SELECT count(*) FROM track WHERE kind='stream' AND tid IS NULL"),
                     1);
}

static void processes_have_their_own_ids(void **state)
{
    struct files *f = *state;
    make(f->in, /* the same correlation id, device and stream in two processes; one kernel has no
                   launch */
         "INSERT INTO PROCESSES VALUES(281474993487872,1,'first'),(281475010265088,2,'second');"
         "CREATE TABLE ThreadNames(nameId, priority, globalTid); INSERT INTO ThreadNames "
         "VALUES(5,20,281474993487875);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, contextId, streamId, "
         "globalPid, correlationId, "
         "demangledName);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
         "VALUES(10,20,0,1,7,281474993487872,5,1),(10,20,0,1,7,281475010265088,5,1),"
         "(30,31,1,2,8,281475010265088,6,1);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, "
         "correlationId, nameId);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME "
         "VALUES(1,2,0,281474993487875,5,3),(3,4,1,281475010265091,5,4);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, deviceId, contextId, "
         "streamId, globalPid, "
         "correlationId, syncType,"
         " eventId, eventSyncId);" /* deviceId is always 0 in these rows */
         "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
         "VALUES(50,60,0,2,8,281475010265088,9,3,4294967295,0),"
         "(61,62,0,2,4294967295,281475010265088,10,4,4294967295,NULL),(70,71,0,1,7,281474993487872,"
         "11,2,3,77),"
         "(72,73,0,1,7,281475010265088,12,2,3,77);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(timestamp, deviceId, contextId, streamId, "
         "correlationId, globalPid, "
         "eventId, eventSyncId);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES(0,0,1,13,55,281474993487872,3,77)");
    import(f);
    const char *out = f->s.other;
    assert_int_equal(sql_int(out, "SELECT count(*) FROM process"), 2);
    assert_string_equal(sql_text(out, "SELECT group_concat(program||' '||pid) FROM process"),
                        "first 1,second 2");
    assert_int_equal(
        sql_int(out, "SELECT count(*) FROM track WHERE kind='stream' AND device='gpu:0' AND tid=7"),
        2);
    assert_string_equal(
        sql_text(out,
                 "SELECT what||' '||cat||' '||correlation||' '||tid||' '||track_name FROM " ROWS
                 " WHERE kind='thread' AND pid=1"),
        "cudaLaunchKernel runtime 5 3 main thread");
    assert_string_equal(
        sql_text(out, "SELECT what||' '||cat FROM " ROWS " WHERE kind='thread' AND pid=2"),
        "cuLaunchKernelEx driver");
    assert_string_equal(sql_text(out, "SELECT what||' '||device||' '||tid FROM " ROWS
                                      " WHERE cat='sync' AND dur=10"),
                        "Stream Sync gpu:1 8");
    assert_int_equal(sql_int(out, "SELECT count(*) FROM " ROWS
                                  " WHERE what='Context Sync' AND tid IS NULL AND device='gpu:1'"),
                     1);
    assert_string_equal(
        sql_text(out, "SELECT payload FROM slice JOIN detail ON detail.id=detail WHERE start=70"),
        "{\"kind\":\"Stream Wait Event\",\"event\":3,\"stream\":13,\"record_correlation\":55}");
    assert_string_equal(
        sql_text(out, "SELECT payload FROM slice JOIN detail ON detail.id=detail WHERE start=72"),
        "{\"kind\":\"Stream Wait Event\",\"event\":3}"); /* that id is another process's */
}

/* ---- device rows -------------------------------------------------------------------------------------------------------------- */

static void copies_graphs_and_details(void **state)
{
    struct files *f = *state;
    make(
        f->in,
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, contextId, streamId, "
        "globalPid, correlationId, "
        "demangledName,"
        " registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, "
        "dynamicSharedMemory, "
        "graphNodeId, graphId);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
        "VALUES(1,2,0,1,7,281474993487872,5,1,40,1,2,3,128,1,1,16,1000,NULL,NULL),"
        "(3,4,0,1,7,281474993487872,6,1,40,1,2,3,128,1,1,16,1000,12,3);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, contextId, streamId, "
        "globalPid, correlationId, bytes, "
        "copyKind, srcKind, dstKind);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY "
        "VALUES(10,11,0,1,7,281474993487872,7,100,1,0,2),(12,13,0,1,7,281474993487872,8,200,2,2,1),"
        "(14,15,0,1,7,281474993487872,9,300,8,2,2),(16,17,0,1,7,281474993487872,9,400,10,2,2),(18,"
        "19,0,1,7,281474993487872,9,"
        "500,11,4,4),"
        "(20,21,0,1,7,281474993487872,9,-1,77,9,9);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start, end, deviceId, contextId, streamId, "
        "globalPid, correlationId, bytes, "
        "memKind);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES(30,31,0,1,7,281474993487872,7,64,2);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start, end, deviceId, contextId, streamId, "
        "globalPid, correlationId, "
        "graphId);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(40,90,0,1,7,281474993487872,11,3)");
    import(f);
    const char *out = f->s.other;
#define DETAIL(columns, start) \
    "SELECT " columns " FROM slice JOIN detail ON detail.id=detail WHERE start=" #start
    assert_string_equal(sql_text(out, DETAIL("grid||' '||block||' '||schema||' '||payload", 1)),
                        "1,2,3 128,1,1 gpu.kernel {\"registers\":40,\"shared_memory\":1016}");
    assert_string_equal(sql_text(out, DETAIL("payload", 3)),
                        "{\"registers\":40,\"shared_memory\":1016,\"graph\":3,\"graph_node\":12}");
    assert_string_equal(sql_text(out, DETAIL("copy_kind||' '||kind||' '||bytes", 10)),
                        "HtoD pageable 100");
    assert_string_equal(sql_text(out, DETAIL("copy_kind||' '||kind||' '||bytes", 12)),
                        "DtoH pinned 200");
    assert_string_equal(sql_text(out, DETAIL("copy_kind||' '||kind||' '||bytes", 14)),
                        "DtoD device 300");
    assert_string_equal(sql_text(out, DETAIL("copy_kind||' '||bytes", 16)), "PtoP 400");
    assert_string_equal(sql_text(out, DETAIL("copy_kind||' '||kind", 18)), "HtoD managed");
    assert_string_equal(
        sql_text(out, DETAIL("copy_kind||' '||(kind IS NULL)||' '||(bytes IS NULL)", 20)),
        "unknown 1 1");
    assert_string_equal(sql_text(out, "SELECT what FROM " ROWS " WHERE start=10"),
                        "Memcpy HtoD (Pageable -> Device)");
    assert_string_equal(sql_text(out, DETAIL("bytes||' '||schema", 30)), "64 gpu.memset");
    assert_string_equal(
        sql_text(out, "SELECT what||' '||cat||' '||dur FROM " ROWS " WHERE start=40"),
        "CUDA graph graph 50");
}

/* ---- NVTX ---------------------------------------------------------------------------------------------------------------------- */

#define NVTX \
    "CREATE TABLE NVTX_EVENTS(start, end, eventType, rangeId, category, color, text, globalTid, " \
    "endGlobalTid, textId, " \
    "domainId," \
    " uint64Value, int64Value, doubleValue, uint32Value, int32Value, floatValue, jsonTextId, " \
    "jsonText, binaryData);"

static void domains_marks_and_ranges(void **state)
{
    struct files *f = *state;
    make(f->in, NVTX
         /* what uses a domain may stand before what names it; the same id is another domain in
            another process */
         "INSERT INTO NVTX_EVENTS(start,end,eventType,text,globalTid,domainId,category) "
         "VALUES(10,20,59,'in a "
         "domain',281474993487873,2,NULL),"
         "(11,19,59,'with a "
         "category',281474993487873,2,8),(12,18,59,'elsewhere',281475010265089,2,NULL),"
         "(12,17,59,'elsewhere with a category',281475010265089,2,8),"
         "(5,NULL,33,'db',281475010265089,2,8),"
         "(5,NULL,75,'mine',281474993487873,2,NULL),(5,NULL,75,'other',281475010265089,2,NULL),(5,"
         "NULL,33,'io',281474993487873,"
         "2,8),"
         "(5,NULL,75,'kernel',281474993487873,3,NULL),(13,14,59,'reserved',281474993487873,3,NULL),"
         "(15,16,59,'unnamed',"
         "281474993487873,9,NULL),"
         "(30,NULL,34,'a "
         "mark',281474993487873,0,NULL),(40,NULL,59,'open',281474993487873,NULL,NULL),(41,42,123,'"
         "what',281474993487873,0,NULL);"
         "INSERT INTO "
         "NVTX_EVENTS(start,end,eventType,rangeId,textId,globalTid,endGlobalTid,domainId) VALUES"
         "(50,70,60,17,5,281474993487873,281474993487874,0),(60,80,60,18,5,281474993487873,"
         "281474993487873,0)");
    import(f);
    const char *out = f->s.other;
    assert_string_equal(sql_text(out, "SELECT cat FROM " ROWS " WHERE what='in a domain'"), "mine");
    assert_string_equal(sql_text(out, "SELECT cat FROM " ROWS " WHERE what='with a category'"),
                        "mine:io");
    assert_string_equal(sql_text(out, "SELECT cat FROM " ROWS " WHERE what='elsewhere'"), "other");
    assert_string_equal(
        sql_text(out, "SELECT cat FROM " ROWS " WHERE what='elsewhere with a category'"),
        "other:db");
    assert_string_equal(sql_text(out, "SELECT cat FROM " ROWS " WHERE what='reserved'"),
                        "nvtx:kernel");
    assert_string_equal(sql_text(out, "SELECT cat FROM " ROWS " WHERE what='unnamed'"), "domain 9");
    assert_string_equal(
        sql_text(out, "SELECT cat||' '||dur||' '||kind FROM " ROWS " WHERE what='a mark'"),
        "nvtx 0 thread");
    assert_int_equal(sql_int(out, "SELECT dur IS NULL FROM " ROWS " WHERE what='open'"), 1);
    assert_string_equal(sql_text(out,
                                 "SELECT group_concat(kind||' '||correlation||' '||dur) FROM " ROWS
                                 " WHERE what='main thread'"),
                        "range 17 20,range 18 20");
    assert_int_equal(result.lost, 1);
    assert_int_equal(
        sql_int(out, "SELECT count FROM loss WHERE reason LIKE 'NVTX event of a type%'"), 1);
}

static void operators_of_pytorch(void **state)
{
    struct files *f = *state;
    make(f->in, NVTX "INSERT INTO NVTX_EVENTS(start,end,eventType,text,globalTid,domainId) VALUES"
                     "(1,2,59,'aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, -1], []], "
                     "input_op_ids = [(1, 0)]',281474993487873,0),"
                     "(3,4,59,'aten::mm, seq = 13, op_id = 35, sizes = [[2, 3], [3, -1], "
                     "[]]',281474993487873,0),"
                     "(5,6,59,'detach_, op_id = 36',281474993487873,0),(7,8,59,'loss, seq = "
                     "many',281474993487873,0),"
                     "(9,10,59,'aten::x, op_id = 1, sizes = [[2, q]]',281474993487873,0)");
    import(f);
    const char *out = f->s.other;
    assert_int_equal(
        sql_int(out, "SELECT count(*) FROM " ROWS " WHERE what='aten::mm' AND cat='op'"), 2);
    assert_int_equal(
        sql_int(out, "SELECT count(DISTINCT detail) FROM " ROWS " WHERE what='aten::mm'"), 1);
    assert_string_equal(sql_text(out, DETAIL("correlation||' '||schema||' '||payload", 1)),
                        "12 torch.op {\"shapes\":[[2,3],[3,-1],[]]}");
    assert_int_equal(
        sql_int(out, "SELECT correlation IS NULL FROM " ROWS " WHERE what='detach_' AND cat='op'"),
        1);
    assert_string_equal(sql_text(out, "SELECT cat FROM " ROWS " WHERE what='loss, seq = many'"),
                        "nvtx");
    assert_int_equal(sql_int(out, "SELECT detail IS NULL FROM " ROWS " WHERE what='aten::x'"), 1);
}

static void payloads_of_nccl(void **state)
{
    struct files *f = *state;
    make(f->in, NVTX
         "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES(domainId, schemaId, idx, flags, type, name, "
         "description, "
         "arrayOrUnionDetail, offset);"
         "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES(1,16777223,0,NULL,18,'NCCL communicator "
         "ID',NULL,NULL,NULL),"
         "(1,16777223,1,NULL,22,'Message size "
         "[bytes]',NULL,NULL,8),(1,16777223,2,NULL,16777232,'Reduction "
         "operation',NULL,NULL,16),"
         "(1,16777218,0,NULL,18,'NCCL communicator ID',NULL,NULL,NULL),(1,16777218,1,NULL,5,'No. "
         "of ranks',NULL,NULL,8),"
         "(1,16777218,2,NULL,5,'Rank',NULL,NULL,12),(1,16777218,3,NULL,5,'CUDA "
         "device',NULL,NULL,16);"
         "INSERT INTO NVTX_EVENTS(start,end,eventType,text,globalTid,domainId,binaryData) VALUES"
         /* header: domain 1, schema 0x1000002, 24 bytes of 56; communicator 0xabcdef, 4 ranks, rank
            2, device 1 */
         "(1,2,59,'ncclCommInitRank',281474993487873,1,x'"
         "0100000000000000020000010000000018000000000000003800000000000000"
         "efcdab00000000000400000002000000ffffffff00000000'),"
         /* as hexadecimal text; 4096 bytes, operation 3 */
         "(3,4,59,'ncclAllReduce',281474993487873,1,'"
         "0100000000000000070000010000000018000000000000003800000000000000"
         "efcdab000000000000100000000000000300000000000000'),"
         "(5,6,59,'ncclAllReduce',281474993487873,1,x'01000000')," /* cut off */
         "(7,8,59,'ncclAllReduce',281474993487873,1,x'"
         "0100000000000000070000010000000018000000000000003800000000000000ef'),"
         "(9,10,59,'ncclGroupStart',281474993487873,1,NULL);"
         "INSERT INTO NVTX_EVENTS(start,end,eventType,text,globalTid,domainId,uint64Value) "
         "VALUES(11,12,59,'step',281474993487873,0,41);"
         "INSERT INTO NVTX_EVENTS(start,end,eventType,text,globalTid,domainId,jsonText) "
         "VALUES(13,14,59,'json',281474993487873,0,'{\"a\":[1]}')");
    import(f);
    const char *out = f->s.other;
    assert_string_equal(
        sql_text(out, DETAIL("schema||' '||communicator||' '||ranks||' '||payload", 1)),
        "nccl 11259375 4 {\"Rank\":2,\"CUDA device\":-1}");
    assert_string_equal(
        sql_text(out, DETAIL("collective||' '||communicator||' '||bytes||' '||payload", 3)),
        "all_reduce 11259375 4096 {\"Reduction operation\":3}");
    assert_string_equal(
        sql_text(out, DETAIL("collective||' '||(bytes IS NULL)||' '||(communicator IS NULL)", 5)),
        "all_reduce 1 1");
    assert_string_equal(
        sql_text(out, DETAIL("collective||' '||(bytes IS NULL)||' '||(communicator IS NULL)", 7)),
        "all_reduce 1 1");
    assert_int_equal(sql_int(out, "SELECT count FROM loss WHERE reason LIKE 'NVTX payload%'"), 2);
    assert_string_equal(
        sql_text(out, "SELECT group_concat(DISTINCT cat) FROM " ROWS " WHERE what LIKE 'nccl%'"),
        "NCCL");
    assert_string_equal(sql_text(out, DETAIL("payload", 11)), "{\"value\":41}");
    assert_string_equal(sql_text(out, DETAIL("payload", 13)), "{\"a\":[1]}");
    assert_int_equal(sql_int(out, "SELECT rank FROM process"), 2);
    assert_string_equal(sql_text(out, "SELECT value FROM run WHERE key='world_size'"), "4");
}

/* ---- beside the events ----------------------------------------------------------------------------------------------------------- */

static void devices_losses_metrics(void **state)
{
    struct files *f = *state;
    make(f->in,
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, globalPid, "
         "demangledName);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1000,2000,0,7,281474993487872,1);"
         "CREATE TABLE TARGET_INFO_GPU(id, name, smCount, totalMemory, computeMajor, computeMinor, "
         "threadsPerWarp, "
         "maxWarpsPerSm, uuid);"
         "INSERT INTO TARGET_INFO_GPU VALUES(0,'wrong one',1,1,1,1,1,1,'a'),(3,'NVIDIA "
         "H100',132,85899345920,9,0,32,64,'GPU-1');"
         "CREATE TABLE TARGET_INFO_CUDA_DEVICE(gpuId, cudaId, pid); INSERT INTO "
         "TARGET_INFO_CUDA_DEVICE VALUES(3,0,1),(0,0,2);"
         "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs, systemClockNs); INSERT INTO "
         "TARGET_INFO_SESSION_START_TIME "
         "VALUES(1700000000000000000,500);"
         "CREATE TABLE DIAGNOSTIC_EVENT(timestamp, timestampType, source, severity, text, "
         "globalPid);"
         "INSERT INTO DIAGNOSTIC_EVENT VALUES(5,0,0,1,'profiling has started, nothing was "
         "lost',NULL),(6,0,0,2,'12 CUDA events "
         "were lost',NULL),"
         "(7,0,0,2,'a warning of another kind',NULL),(8,0,0,3,'CUPTI failed',NULL);"
         "CREATE TABLE TARGET_INFO_GPU_METRICS(typeId, sourceId, typeName, metricId, metricName);"
         "INSERT INTO TARGET_INFO_GPU_METRICS VALUES(256,1,'x',4,'SMs Active [Throughput %]');"
         "CREATE TABLE GPU_METRICS(timestamp, typeId, metricId, value); INSERT INTO GPU_METRICS "
         "VALUES(1500,256,4,87),(1600,256,5,1);"
         "CREATE TABLE SCHED_EVENTS(start, cpu); INSERT INTO SCHED_EVENTS VALUES(1,2),(2,3)");
    import(f);
    const char *out = f->s.other;
#define KEY(key) sql_text(out, "SELECT value FROM run WHERE key='" key "'")
    assert_string_equal(KEY("device.1.gpu:0.name"), "NVIDIA H100");
    assert_string_equal(KEY("device.1.gpu:0.sms"), "132");
    assert_string_equal(KEY("device.1.gpu:0.memory_bytes"), "85899345920");
    assert_string_equal(KEY("device.1.gpu:0.compute_capability"), "9.0");
    assert_string_equal(KEY("device.1.gpu:0.max_threads_per_sm"), "2048");
    assert_string_equal(KEY("device.1.gpu:0.uuid"), "GPU-1");
    assert_string_equal(KEY("source.not_read"), "SCHED_EVENTS (2 rows)");
    assert_string_equal(KEY("source.base_ns"), "0");
    assert_int_equal(sql_int(out, "SELECT realtime - monotonic FROM clock_anchor"),
                     1700000000000000000 - 500);
    assert_int_equal(
        sql_int(out, "SELECT count(*) FROM loss WHERE reason LIKE 'Nsight Systems: %'"), 2);
    assert_int_equal(
        sql_int(out, "SELECT t0 FROM loss WHERE reason='Nsight Systems: 12 CUDA events were lost'"),
        6);
    assert_int_equal(sql_int(out, "SELECT count FROM loss WHERE reason LIKE 'GPU metric%'"), 1);
    assert_string_equal(
        sql_text(out,
                 "SELECT name||' '||device||' '||unit||' '||time||' '||CAST(value AS INTEGER) FROM "
                 "counter JOIN track ON track.id=track"),
        "SMs Active [Throughput %] gpu:0 % 1500 87");
}

/* Messages of the profiler, as public captures have them: what says that events are missing is a
 * loss of events, what the machine did not permit is none, and what every process has that does not
 * use a kind of events is not even a row. Three processes say the same once. */
static void messages(void **state)
{
    struct files *f = *state;
    make(f->in,
         "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, nameId, "
         "correlationId);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(1000,2000,281474993487872,1,1);"
         "CREATE TABLE DIAGNOSTIC_EVENT(timestamp, timestampType, source, severity, text, "
         "globalPid);"
         "INSERT INTO DIAGNOSTIC_EVENT VALUES"
         "(5,1,3,2,'Not all NVTX events might have been collected.',1),"
         "(6,1,3,2,'No NVTX events collected. Does the process use NVTX?',1),"
         "(7,1,3,2,'Not all CUDA events might have been collected.',1),"
         "(8,1,3,1,'Number of CUDA events collected: 3.',1),"
         "(9,1,3,2,'CUDA profiling might have not been started correctly.',2),"
         "(9,1,3,2,'No CUDA events collected. Does the process use CUDA?',2),"
         "(10,1,3,2,'Not all CUDA events might have been collected.',3),"
         "(11,1,3,2,'Not all CUDA events might have been collected.',4),"
         "(12,1,1,1,'Number of CUPTI events produced: 31, CUPTI buffers: 49 of 50. Some CUPTI "
         "events might be missing.',1),"
         "(13,1,1,2,'Installed CUDA driver version (13.3) is not supported by this build of "
         "Nsight Systems.',1),"
         "(14,1,2,3,'Collection of CPU IP/backtrace samples or context switch data disabled. "
         "perf event paranoid level is 4.',1),"
         "(15,1,1,3,'CUDA device 0: Unified Memory cannot be traced on devices that do not "
         "support peer-to-peer transfers.',1)");
    import(f);
    const char *out = f->s.other;
    assert_int_equal(sql_int(out, "SELECT count(*) FROM loss"), 5);
    assert_int_equal(sql_int(out, "SELECT t1 - t0 FROM loss WHERE reason='Nsight Systems: Not all "
                                  "CUDA events might have been collected.'"),
                     4);
    assert_int_equal(
        sql_int(out, "SELECT count(*) FROM loss WHERE reason LIKE 'Nsight Systems: Number of CUPTI "
                     "events produced: 31%'"),
        1);
    assert_int_equal(
        sql_int(out, "SELECT count(*) FROM loss WHERE reason LIKE 'not available to Nsight %'"), 3);
    assert_int_equal(store_loss_kind("a.sqlite", "Nsight Systems: Not all CUDA events"),
                     STORE_LOSS_EVENTS);
    assert_int_equal(store_loss_kind("a.sqlite", "not available to Nsight Systems: perf"),
                     STORE_LOSS_NONE);
}

/* Two nodes: put on one clock by the time at which each capture began. */
static void several_nodes(void **state)
{
    struct files *f = *state;
    char folder[80], path[120];
    snprintf(folder, sizeof folder, "%s/nodes", f->s.folder);
    mkdir(folder, 0755);
    for (int i = 0; i < 2; i++) {
        char sql[600];
        snprintf(path, sizeof path, "%s/rank%d.sqlite", folder, i);
        snprintf(sql, sizeof sql,
                 "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, "
                 "globalPid, demangledName);"
                 "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(%d,%d,0,7,281474993487872,1);"
                 "CREATE TABLE ANALYSIS_DETAILS(globalVid, duration, startTime, stopTime); INSERT "
                 "INTO ANALYSIS_DETAILS "
                 "VALUES(1,1,%d,9);"
                 "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs); INSERT INTO "
                 "TARGET_INFO_SESSION_START_TIME VALUES(%d)",
                 1000 * (i + 1), 1000 * (i + 1) + 5, 100 * (i + 1), 1000000 + i);
        make(path, sql);
    }
    const char *in[] = {folder};
    struct store_import_options o = {.in = in, .in_count = 1, .out = f->s.other};
    OK(&err, store_import(&o, &result, &err));
    const char *out = f->s.other;
    assert_int_equal(result.files, 2);
    assert_int_equal(sql_int(out, "SELECT s.start FROM slice s JOIN track t ON t.id=s.track JOIN "
                                  "process p ON p.id=t.process WHERE rank=0"),
                     1000000 - 100 + 1000);
    assert_int_equal(sql_int(out, "SELECT s.start FROM slice s JOIN track t ON t.id=s.track JOIN "
                                  "process p ON p.id=t.process WHERE rank=1"),
                     1000001 - 200 + 2000);
    assert_string_equal(KEY("source.base_ns.1"), "999801");
}

static int cancel(void *ctx, int64_t done, int64_t total)
{
    int *left = ctx;
    assert_true(done >= 0 && total > 0);
    return --*left <= 0;
}

static void cancelled(void **state)
{
    struct files *f = *state;
    make(f->in, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, "
                "globalPid, demangledName);"
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 100000)"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 10*i, 10*i+5, 0, 7, "
                "281474993487872, 1 FROM n");
    int left = 3;
    const char *in[] = {f->in};
    struct store_import_options o = {
        .in = in, .in_count = 1, .out = f->s.other, .progress = cancel, .ctx = &left};
    assert_int_equal(store_import(&o, &result, &err), TACHO_EINTERRUPTED);
    assert_int_not_equal(access(f->s.other, F_OK), 0);
    left = 1 << 30;
    OK(&err, store_import(&o, &result, &err));
    assert_int_equal(sql_int(f->s.other, "SELECT sum(dur) FROM slice"), 500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions_and_missing_columns, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(strings_without_a_key, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(not_an_export, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(views_are_not_read, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(impossible_rows, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(processes_have_their_own_ids, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(copies_graphs_and_details, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(domains_marks_and_ranges, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(operators_of_pytorch, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(payloads_of_nccl, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(devices_losses_metrics, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(messages, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(several_nodes, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(cancelled, setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
