/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of tables of kernels of Ascend NPUs: kernel_details.csv of torch_npu,
 * op_summary_*.csv and task_time_*.csv of msprof. Columns come and go between versions and levels
 * of the profiler (Level0 has no streams), so they are found by name. A table has no host: no
 * launches, no operators.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/ascend/ascend_import.h"
#include "store/import/ascend/ascend_private.h"
#include "store/import/input/rows.h"
#include "store/import/input/table.h"
#include "store/import/kineto/kineto_text.h"

#define COLLECTIVES 100000 /* stream that holds them */

/* Columns that are read: key, names in the versions of the table */
#define COLUMN_MAP(X) \
    X(STEP, "Step Id|Step ID") \
    X(DEVICE, "Device_id|Device ID|Device Id") \
    X(STREAM, "Stream ID|Stream Id|stream_id") \
    X(NAME, "Name|Op Name|kernel_name") \
    X(TYPE, "Type|OP Type") \
    X(CORE, "Accelerator Core|Task Type|kernel_type") \
    X(START, "Start Time(us)|Task Start Time(us)|task_start(us)") \
    X(DUR, "Duration(us)|Task Duration(us)|task_time(us)") \
    X(SHAPES, "Input Shapes") \
    X(TYPES, "Input Data Types")

enum column {
#define COLUMN_ENUM(name, texts) COLUMN_##name,
    COLUMN_MAP(COLUMN_ENUM)
#undef COLUMN_ENUM
        COLUMN_COUNT
};

struct reading {
    struct imp_rows rows;
    struct ascend_steps steps;
    struct kineto_text payload; /* of the present row */
};

/* Does the first line name a column for the start and one for the time of a task, and one that only
 * tables of kernels have? */
static bool recognises(const unsigned char *head, size_t bytes)
{
    size_t line = imp_csv_first_line(head, bytes);
    if (!line || !memchr(head, ',', line))
        return false;
    if (imp_holds(head, line, "kernel_type"))
        return imp_holds(head, line, "task_start(us)") && imp_holds(head, line, "task_time(us)");
    return imp_holds(head, line, "Duration(us)") && imp_holds(head, line, "Start Time(us)") &&
           (imp_holds(head, line, "Stream ID") || imp_holds(head, line, "Accelerator Core") ||
            imp_holds(head, line, "Task Type"));
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

static int64_t number_of(const struct imp_table *table, int column)
{
    struct imp_cell cell = imp_table_cell(table, column);
    int64_t value;
    return kineto_int((struct kj_span){cell.text, cell.bytes}, &value) ? value : STORE_ABSENT;
}

/* Shapes and types of the inputs as the payload of a kernel. */
static void put_payload(struct kineto_text *payload, struct imp_cell shapes, struct imp_cell types,
                        struct imp_cell type)
{
    const struct {
        const char *key;
        struct imp_cell cell;
    } members[] = {{"type", type}, {"input_shapes", shapes}, {"input_types", types}};
    payload->bytes = 0;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct imp_cell cell = members[i].cell;
        if (!cell.bytes || imp_cell_is_one_of(cell, "N/A"))
            continue;
        kineto_text_puts(payload, payload->bytes ? ",\"" : "{\"");
        kineto_text_puts(payload, members[i].key);
        kineto_text_puts(payload, "\":");
        kineto_json_string(payload, cell.text, cell.bytes < 400 ? cell.bytes : 400);
    }
    if (payload->bytes)
        kineto_text_puts(payload, "}");
    kineto_text_put(payload, "", 1);
}

/* What the row is of: a kernel, a copy, or a task that only waits. */
static void fill_kind(struct imp_cell core, struct imp_cell name, struct imp_slice *slice,
                      struct store_detail *detail)
{
    enum ascend_task task = ascend_task_of((struct ascend_text){core.text, core.bytes},
                                           (struct ascend_text){name.text, name.bytes});
    slice->category = "kernel";
    detail->schema = "gpu.kernel";
    if (task == ASCEND_TASK_COPY) {
        slice->category = "memcpy";
        detail->schema = "gpu.memcpy";
        detail->copy_kind = "unknown";
    } else if (task == ASCEND_TASK_WAIT) {
        slice->category = "sync";
        detail->schema = "gpu.sync";
    }
}

/* One row of the table. */
static int put_row(void *ctx, const struct imp_table *table)
{
    struct reading *reading = ctx;
    struct store_detail detail = STORE_DETAIL_NONE;
    struct imp_slice slice = {.correlation = STORE_ABSENT, .detail = &detail};
    struct imp_cell start = imp_table_cell(table, COLUMN_START),
                    dur = imp_table_cell(table, COLUMN_DUR),
                    name = imp_table_cell(table, COLUMN_NAME),
                    core = imp_table_cell(table, COLUMN_CORE);
    int64_t device = number_of(table, COLUMN_DEVICE), stream = number_of(table, COLUMN_STREAM),
            step = number_of(table, COLUMN_STEP);
    int decimals;
    bool rounded, timed;
    char device_name[32], stream_name[32];
    reading->rows.run->events++;
    timed =
        kineto_time((struct kj_span){start.text, start.bytes}, 1000, &slice.start, &decimals,
                    &rounded) &&
        kineto_time((struct kj_span){dur.text, dur.bytes}, 1000, &slice.dur, &decimals, &rounded);
    if (!timed) {
        reading->rows.bad_time++;
        return 0;
    }
    bool collective = imp_cell_is_one_of(core, "HCCL|COMMUNICATION");
    device = device >= 0 && device < 1 << 16 ? device : 0;
    if (collective)
        stream = COLLECTIVES;
    else if (stream < 0)
        stream = 0;
    snprintf(device_name, sizeof device_name, "gpu:%" PRId64, device);
    snprintf(stream_name, sizeof stream_name, collective ? "collectives" : "stream %" PRId64,
             stream);
    put_payload(&reading->payload, imp_table_cell(table, COLUMN_SHAPES),
                imp_table_cell(table, COLUMN_TYPES), imp_table_cell(table, COLUMN_TYPE));
    fill_kind(core, name, &slice, &detail);
    if (!name.bytes || imp_cell_is_one_of(name, "N/A"))
        name = core;
    detail.payload = reading->payload.data && *reading->payload.data ? reading->payload.data : NULL;
    detail.collective = collective ? "collective" : NULL;
    int rc =
        imp_rows_stream(&reading->rows, device, device_name, stream, stream_name, &slice.track);
    if (!rc)
        rc = imp_rows_string(&reading->rows, name.text, name.bytes, &slice.name);
    if (!rc)
        rc = imp_rows_slice(&reading->rows, &slice);
    if (!rc && step > 0 && slice.start >= 0 && slice.dur >= 0 && slice.start < IMP_TIME_MAX &&
        slice.dur < IMP_TIME_MAX)
        rc = ascend_steps_note(&reading->steps, 0, step, slice.start, slice.start + slice.dur);
    return rc;
}

/* Reads one table; this is the `read` of the importer. */
static int read_table(struct imp_run *run, const char *path, struct tacho_error *err)
{
    static const char *const names[] = {
#define COLUMN_NAMES(name, texts) texts,
        COLUMN_MAP(COLUMN_NAMES)
#undef COLUMN_NAMES
    };
    struct reading reading = {.rows = {0}};
    struct imp_table table = {
        .names = names, .columns = COLUMN_COUNT, .put = put_row, .ctx = &reading};
    int64_t slices = run->slices;
    int rc = store_begin(run->db);
    if (!rc) {
        rc = imp_rows_begin(&reading.rows, run, ascend_rank_of(path), STORE_ABSENT, NULL,
                            "Ascend program");
        if (!rc)
            rc = imp_table_read(&table, run, path, err);
        if (!rc)
            rc = ascend_steps_write(&reading.steps, run, reading.rows.process, "column Step Id");
        rc = imp_rows_end(&reading.rows, rc);
    }
    if (!rc)
        rc = store_run_set(run->db, "source.tool", "Ascend (table of kernels)");
    if (!rc)
        rc = store_commit(run->db);
    if (!rc && run->slices == slices)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "give trace_view.json of the same folder, which has the host too",
                        "%s: a table of kernels without a row that says when a kernel ran", path);
    ascend_steps_free(&reading.steps);
    kineto_text_clear(&reading.payload);
    return rc;
}

const struct importer imp_ascend_csv = {
    .source = "ascend-csv", .recognises = recognises, .read = read_table};
