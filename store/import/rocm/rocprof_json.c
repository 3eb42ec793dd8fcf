/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of the JSON of rocprofv3: {"rocprofiler-sdk-tool": [one object for each process]}.
 * What names things (agents, kernels, operations) is read first, then the records that use it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/json.h"
#include "store/import/input/whole.h"
#include "store/import/rocm/rocm_import.h"
#include "store/import/rocm/rocm_private.h"

#define BYTES_MOST      ((size_t)8 << 30) /* of one file, unpacked */
#define KINDS_MOST      128
#define OPERATIONS_MOST 4096  /* of one kind */
#define NAME_MOST       16384 /* bytes of a text with escapes */

struct kind {
    char name[48];
    struct ij_text *operation;
    size_t count;
};

struct reading {
    struct rocm rocm;
    struct kind kind[KINDS_MOST];
    size_t kind_count;
    struct imp_map markers; /* correlation -> index in marker + 1 */
    struct ij_text *marker;
    size_t marker_count, marker_room;
    bool dispatched; /* a kernel was read */
};

static bool recognises(const unsigned char *head, size_t bytes)
{
    static const char key[] = "\"rocprofiler-sdk-tool\"";
    size_t looked = bytes < 4096 ? bytes : 4096;
    return bytes && memmem(head, looked, key, sizeof key - 1) != NULL;
}

/* {"handle": N} */
static int64_t handle_of(struct ij *json)
{
    int64_t value = STORE_ABSENT;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        if (!ij_is(ij_key(json), "handle") || !ij_int(json, &value))
            ij_skip(json);
    }
    return value;
}

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

/* One agent: a CPU or a GPU. */
static int read_agent(struct reading *reading, struct ij *json)
{
    int64_t id = STORE_ABSENT, type = 0, number = STORE_ABSENT, units = 0;
    struct ij_text product = {"", 0}, name = {"", 0};
    char text[128];
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "id"))
            id = handle_of(json);
        else if (ij_is(key, "type"))
            ij_int(json, &type);
        else if (ij_is(key, "logical_node_type_id"))
            ij_int(json, &number);
        else if (ij_is(key, "cu_count"))
            ij_int(json, &units);
        else if (ij_is(key, "product_name"))
            product = ij_text_of(json);
        else if (ij_is(key, "name"))
            name = ij_text_of(json);
        else
            ij_skip(json);
    }
    if (!product.bytes)
        product = name;
    snprintf(text, sizeof text, "%.*s", (int)(product.bytes < 120 ? product.bytes : 120),
             product.text);
    return id == STORE_ABSENT ? 0
                              : rocm_agent_add(&reading->rocm, id, type == 2, number, text, units);
}

/* One kernel: its demangled name where there is one. */
static int read_kernel(struct reading *reading, struct ij *json)
{
    static const char *const names[] = {"formatted_kernel_name", "demangled_kernel_name",
                                        "kernel_name"};
    struct ij_text found[3] = {{"", 0}, {"", 0}, {"", 0}};
    int64_t id = STORE_ABSENT;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        bool taken = ij_is(key, "kernel_id");
        if (taken)
            ij_int(json, &id);
        for (size_t i = 0; i < 3 && !taken; i++)
            if ((taken = ij_is(key, names[i])))
                found[i] = ij_text_of(json);
        if (!taken)
            ij_skip(json);
    }
    for (size_t i = 0; i < 3 && id != STORE_ABSENT; i++)
        if (found[i].bytes > 1) {
            struct ij_text name = rocm_plain(&reading->rocm, found[i]);
            return rocm_kernel_add(&reading->rocm, id, name.text, name.bytes);
        }
    return 0;
}

/* {"kind": NAME, "operations": [...]}: the next number of a kind. */
static int read_kind(struct reading *reading, struct ij *json)
{
    struct kind *kind = &reading->kind[reading->kind_count];
    if (reading->kind_count == KINDS_MOST) {
        ij_skip(json);
        return 0;
    }
    reading->kind_count++;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "kind")) {
            struct ij_text name = ij_text_of(json);
            snprintf(kind->name, sizeof kind->name, "%.*s",
                     (int)(name.bytes < 47 ? name.bytes : 47), name.text);
        } else if (ij_is(key, "operations") && !kind->operation) {
            if (!(kind->operation = calloc(OPERATIONS_MOST, sizeof *kind->operation)))
                return TACHO_ENOMEM;
            for (bool next = ij_enter(json); next; next = ij_more(json)) {
                struct ij_text operation = ij_text_of(json);
                if (kind->count < OPERATIONS_MOST)
                    kind->operation[kind->count++] = operation;
            }
        } else {
            ij_skip(json);
        }
    }
    return 0;
}

/* {"key": correlation, "value": text}: the text of a ROCTX mark. */
static int read_marker(struct reading *reading, struct ij *json)
{
    int64_t id = STORE_ABSENT;
    struct ij_text text = {"", 0};
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "key"))
            ij_int(json, &id);
        else if (ij_is(key, "value"))
            text = ij_text_of(json);
        else
            ij_skip(json);
    }
    if (reading->marker_count == reading->marker_room) {
        size_t room = reading->marker_room ? 2 * reading->marker_room : 256;
        struct ij_text *bigger = realloc(reading->marker, room * sizeof *bigger);
        if (!bigger)
            return TACHO_ENOMEM;
        reading->marker = bigger;
        reading->marker_room = room;
    }
    reading->marker[reading->marker_count++] = text;
    return imp_map_put(&reading->markers, id, 0, (int64_t)reading->marker_count - 1);
}

/* Calls `read` for each element of a list. */
static int each(struct reading *reading, struct ij *json,
                int (*read)(struct reading *reading, struct ij *json))
{
    int rc = 0;
    if (ij_next(json) != '[') {
        ij_skip(json);
        return 0;
    }
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        if (rc)
            ij_skip(json);
        else
            rc = read(reading, json);
    }
    return rc;
}

static int read_strings(struct reading *reading, struct ij *json)
{
    int rc = 0;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (!rc && ij_is(key, "buffer_records"))
            rc = each(reading, json, read_kind);
        else if (!rc && ij_is(key, "marker_api"))
            rc = each(reading, json, read_marker);
        else
            ij_skip(json);
    }
    return rc;
}

/* Reads what names things. */
static int read_names(struct reading *reading, struct ij json)
{
    int rc = 0;
    for (bool more = ij_enter(&json); more; more = ij_more(&json)) {
        struct ij_text key = ij_key(&json);
        if (!rc && ij_is(key, "agents"))
            rc = each(reading, &json, read_agent);
        else if (!rc && ij_is(key, "kernel_symbols"))
            rc = each(reading, &json, read_kernel);
        else if (!rc && ij_is(key, "strings"))
            rc = read_strings(reading, &json);
        else
            ij_skip(&json);
    }
    return rc;
}

/* ---- records ---------------------------------------------------------------------------------------------------------------- */

/* {"x": N, "y": N, "z": N} */
static void read_triple(struct ij *json, int64_t triple[3])
{
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        size_t axis = key.bytes == 1 ? (size_t)(key.text[0] - 'x') : 3;
        if (axis > 2 || !ij_int(json, &triple[axis]))
            ij_skip(json);
    }
}

static void read_dispatch(struct ij *json, struct rocm_work *work)
{
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "agent_id"))
            work->agent = handle_of(json);
        else if (ij_is(key, "queue_id"))
            work->queue = handle_of(json);
        else if (ij_is(key, "kernel_id"))
            ij_int(json, &work->kernel);
        else if (ij_is(key, "group_segment_size"))
            ij_int(json, &work->shared_memory);
        else if (ij_is(key, "workgroup_size"))
            read_triple(json, work->group);
        else if (ij_is(key, "grid_size"))
            read_triple(json, work->grid);
        else
            ij_skip(json);
    }
}

/* One record of any kind. Copies name the agents of both sides; of these the GPU counts. */
struct record {
    struct rocm_work work;
    int64_t kind, operation, tid, source, target;
};

/* Reads a record of any kind; what it does not have is 0 or absent. */
static struct record read_record(struct ij *json)
{
    struct record record = {.work = {.kernel = STORE_ABSENT, .bytes = -1, .shared_memory = -1},
                            .kind = -1,
                            .operation = -1};
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "start_timestamp"))
            ij_int(json, &record.work.start);
        else if (ij_is(key, "end_timestamp"))
            ij_int(json, &record.work.end);
        else if (ij_is(key, "thread_id"))
            ij_int(json, &record.tid);
        else if (ij_is(key, "kind"))
            ij_int(json, &record.kind);
        else if (ij_is(key, "operation"))
            ij_int(json, &record.operation);
        else if (ij_is(key, "bytes"))
            ij_int(json, &record.work.bytes);
        else if (ij_is(key, "src_agent_id"))
            record.source = handle_of(json);
        else if (ij_is(key, "dst_agent_id"))
            record.target = handle_of(json);
        else if (ij_is(key, "dispatch_info"))
            read_dispatch(json, &record.work);
        else if (ij_is(key, "correlation_id")) {
            for (bool next = ij_enter(json); next; next = ij_more(json))
                if (!ij_is(ij_key(json), "internal") || !ij_int(json, &record.work.correlation))
                    ij_skip(json);
        } else
            ij_skip(json);
    }
    return record;
}

static int read_dispatches(struct reading *reading, struct ij *json)
{
    struct record record = read_record(json);
    reading->dispatched = true;
    return rocm_work_put(&reading->rocm, &record.work);
}

/* Counters of a dispatch, {"dispatch_data": {...}, "records": [...]}: only the dispatch is read. */
static int read_counted(struct reading *reading, struct ij *json)
{
    int rc = 0;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        if (ij_is(ij_key(json), "dispatch_data") && !rc)
            rc = read_dispatches(reading, json);
        else
            ij_skip(json);
    }
    return rc;
}

static bool is_gpu(const struct rocm *rocm, int64_t agent)
{
    const int64_t *index = imp_map_find(&rocm->agents, agent, 0);
    return index && rocm->agent[*index].gpu != STORE_ABSENT;
}

static int read_copies(struct reading *reading, struct ij *json)
{
    struct record record = read_record(json);
    const struct kind *kind = record.kind >= 0 && (size_t)record.kind < reading->kind_count
                                  ? &reading->kind[record.kind]
                                  : NULL;
    char way[64] = "";
    if (kind && record.operation >= 0 && (size_t)record.operation < kind->count)
        snprintf(way, sizeof way, "%.*s", (int)(kind->operation[record.operation].bytes & 63),
                 kind->operation[record.operation].text);
    record.work.way = way;
    record.work.agent = is_gpu(&reading->rocm, record.target) ? record.target : record.source;
    return rocm_work_put(&reading->rocm, &record.work);
}

/* A call of an API, or a ROCTX range, whose name is its text. */
static int read_calls(struct reading *reading, struct ij *json)
{
    struct record record = read_record(json);
    struct ij_text name = {"(call without a name)", 21};
    const struct kind *kind = record.kind >= 0 && (size_t)record.kind < reading->kind_count
                                  ? &reading->kind[record.kind]
                                  : NULL;
    if (kind && record.operation >= 0 && (size_t)record.operation < kind->count)
        name = kind->operation[record.operation];
    if (kind && !strncmp(kind->name, "MARKER_CORE", 11)) {
        const int64_t *marker = imp_map_find(&reading->markers, record.work.correlation, 0);
        if (ij_is(name, "roctxRangePop") || ij_is(name, "roctxRangeStop"))
            return 0;
        if (marker)
            name = reading->marker[*marker];
    }
    if (name.bytes > NAME_MOST) /* any number of records may have it */
        name.bytes = NAME_MOST;
    name = rocm_plain(&reading->rocm, name);
    return rocm_call_put(&reading->rocm, kind ? kind->name : "", name.text, name.bytes, record.tid,
                         record.work.start, record.work.end, record.work.correlation);
}

static int read_buffers(struct reading *reading, struct ij json)
{
    static const struct {
        const char *key;
        int (*read)(struct reading *reading, struct ij *json);
    } tables[] = {{"kernel_dispatch", read_dispatches},
                  {"memory_copy", read_copies},
                  {"hip_api", read_calls},
                  {"hsa_api", read_calls},
                  {"marker_api", read_calls},
                  {"rccl_api", read_calls},
                  {"rocdecode_api", read_calls},
                  {"rocjpeg_api", read_calls}};
    int rc = 0;
    for (bool more = ij_enter(&json); more; more = ij_more(&json)) {
        struct ij_text key = ij_key(&json);
        bool read = false;
        for (size_t i = 0; i < sizeof tables / sizeof *tables && !rc && !read; i++)
            if ((read = ij_is(key, tables[i].key)))
                rc = each(reading, &json, tables[i].read);
        if (!rc)
            rc = imp_progress(reading->rocm.rows.run, 0);
        if (!read)
            ij_skip(&json);
    }
    return rc;
}

/* ---- processes -------------------------------------------------------------------------------------------------------------- */

/* What a process says of itself. */
static void read_metadata(struct ij json, int64_t *pid, char host[128])
{
    for (bool more = ij_enter(&json); more; more = ij_more(&json)) {
        struct ij_text key = ij_key(&json);
        if (ij_is(key, "pid")) {
            ij_int(&json, pid);
        } else if (ij_is(key, "node")) {
            for (bool next = ij_enter(&json); next; next = ij_more(&json)) {
                if (!ij_is(ij_key(&json), "hostname")) {
                    ij_skip(&json);
                    continue;
                }
                struct ij_text name = ij_text_of(&json);
                snprintf(host, 128, "%.*s", (int)(name.bytes < 120 ? name.bytes : 120), name.text);
            }
        } else {
            ij_skip(&json);
        }
    }
}

/* The value of a key of an object; at its end: it has none. */
static struct ij value_of(struct ij json, const char *wanted)
{
    for (bool more = ij_enter(&json); more; more = ij_more(&json)) {
        if (ij_is(ij_key(&json), wanted))
            return json;
        ij_skip(&json);
    }
    return (struct ij){json.end, json.end, false};
}

static void forget(struct reading *reading)
{
    for (size_t i = 0; i < reading->kind_count; i++)
        free(reading->kind[i].operation);
    imp_map_free(&reading->markers);
    free(reading->marker);
}

static int read_process(struct imp_run *run, struct ij *json)
{
    struct reading *reading = calloc(1, sizeof *reading);
    char host[128] = "";
    int64_t pid = STORE_ABSENT;
    if (!reading)
        return TACHO_ENOMEM;
    read_metadata(value_of(*json, "metadata"), &pid, host);
    int rc =
        imp_rows_begin(&reading->rocm.rows, run, STORE_ABSENT, pid, host[0] ? host : NULL, NULL);
    if (!rc)
        rc = read_names(reading, *json);
    if (!rc)
        rc = read_buffers(reading, value_of(*json, "buffer_records"));
    if (!rc &&
        !reading->dispatched) { /* --pmc alone: kernels have their counters and their times */
        struct ij counted = value_of(value_of(*json, "callback_records"), "counter_collection");
        rc = each(reading, &counted, read_counted);
    }
    rc = rocm_end(&reading->rocm, rc);
    forget(reading);
    free(reading);
    ij_skip(json);
    return rc;
}

static int read_file(struct imp_run *run, struct ij json)
{
    int rc = 0;
    for (bool more = ij_enter(&json); more && !rc; more = more && ij_more(&json)) {
        if (!ij_is(ij_key(&json), "rocprofiler-sdk-tool")) {
            ij_skip(&json);
            continue;
        }
        for (bool next = ij_enter(&json); next && !rc; next = next && ij_more(&json))
            rc = read_process(run, &json);
        if (rc)
            return rc;
    }
    if (!rc && json.bad) {
        run->truncated = true;
        rc = imp_loss(run, "file ends in the middle", 1);
    }
    return rc;
}

/* Reads one capture; this is the `read` of the importer. */
static int read_capture(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct imp_whole whole;
    int64_t slices = run->slices;
    int rc = imp_whole_read(run, path, BYTES_MOST, &whole, err);
    if (rc)
        return rc;
    rc = store_begin(run->db);
    if (!rc)
        rc = read_file(run, ij_of(whole.data, whole.bytes));
    if (!rc)
        rc = store_run_set(run->db, "source.tool", "rocprofv3");
    if (!rc)
        rc = store_commit(run->db);
    if (!rc && run->slices == slices)
        rc = run->truncated
                 ? tacho_fail(err, TACHO_EFORMAT,
                              "copy it again: nothing before the cut could be read",
                              "%s: a capture of rocprofv3 that is cut off", path)
                 : tacho_fail(err, TACHO_EFORMAT,
                              "record kernels and calls: rocprofv3 --runtime-trace "
                              "--output-format json -- CMD",
                              "%s: a capture of rocprofv3 without a kernel, copy, call or range",
                              path);
    imp_whole_free(&whole);
    return rc;
}

const struct importer imp_rocprof = {
    .source = "rocprofv3", .recognises = recognises, .read = read_capture};
