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
#include "store/import/input/csv.h"
#include "store/import/input/rows.h"
#include "store/import/input/whole.h"
#include "store/import/kineto/kineto_text.h"

#define BYTES_MOST  ((size_t)4 << 30)
#define CELLS_MOST  128
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
    int column[COLUMN_COUNT]; /* place in a row; -1: the table lacks it */
    struct ascend_steps steps;
    int64_t short_rows;
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

/* ---- columns ---------------------------------------------------------------------------------------------------------------- */

static void find_columns(struct reading *reading, const struct imp_cell *cell, size_t count)
{
    static const char *const names[] = {
#define COLUMN_NAMES(name, texts) texts,
        COLUMN_MAP(COLUMN_NAMES)
#undef COLUMN_NAMES
    };
    for (int column = 0; column < COLUMN_COUNT; column++)
        reading->column[column] = imp_csv_column(cell, count, names[column]);
}

static struct imp_cell cell_of(const struct reading *reading, const struct imp_cell *cell,
                               size_t count, enum column column)
{
    return imp_csv_at(cell, count, reading->column[column]);
}

static int64_t number_of(struct imp_cell cell)
{
    int64_t value;
    return kineto_int((struct kj_span){cell.text, cell.bytes}, &value) ? value : STORE_ABSENT;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

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
static int put_row(struct reading *reading, const struct imp_cell *cell, size_t count,
                   struct kineto_text *payload)
{
    struct store_detail detail = STORE_DETAIL_NONE;
    struct imp_slice slice = {.correlation = STORE_ABSENT, .detail = &detail};
    struct imp_cell start = cell_of(reading, cell, count, COLUMN_START),
                    dur = cell_of(reading, cell, count, COLUMN_DUR),
                    name = cell_of(reading, cell, count, COLUMN_NAME),
                    core = cell_of(reading, cell, count, COLUMN_CORE);
    int64_t device = number_of(cell_of(reading, cell, count, COLUMN_DEVICE)),
            stream = number_of(cell_of(reading, cell, count, COLUMN_STREAM)),
            step = number_of(cell_of(reading, cell, count, COLUMN_STEP));
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
    put_payload(payload, cell_of(reading, cell, count, COLUMN_SHAPES),
                cell_of(reading, cell, count, COLUMN_TYPES),
                cell_of(reading, cell, count, COLUMN_TYPE));
    fill_kind(core, name, &slice, &detail);
    if (!name.bytes || imp_cell_is_one_of(name, "N/A"))
        name = core;
    detail.payload = payload->data && *payload->data ? payload->data : NULL;
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

static int read_rows(struct reading *reading, const char *at, const char *end)
{
    struct imp_cell cell[CELLS_MOST];
    struct kineto_text payload = {0};
    size_t count, columns = 0;
    int rc = 0;
    if (imp_csv_row(&at, end, cell, CELLS_MOST, &columns))
        find_columns(reading, cell, columns);
    while (!rc && imp_csv_row(&at, end, cell, CELLS_MOST, &count)) {
        if (count == 1 && !cell[0].bytes)
            continue;
        if (count < columns)
            reading->short_rows++;
        else
            rc = put_row(reading, cell, count, &payload);
    }
    kineto_text_clear(&payload);
    return rc;
}

/* Reads a table, or a piece of it: each has its names of columns. */
static int read_piece(struct reading *reading, const char *path, struct tacho_error *err)
{
    struct imp_whole whole;
    int rc = imp_whole_read(reading->rows.run, path, BYTES_MOST, &whole, err);
    if (rc)
        return rc;
    rc = read_rows(reading, (const char *)whole.data, (const char *)whole.data + whole.bytes);
    imp_whole_free(&whole);
    return rc;
}

/* Reads the pieces of the table, then writes what is known after the last row. */
static int read_pieces(struct reading *reading, const char *path, struct tacho_error *err)
{
    struct imp_run *run = reading->rows.run;
    int rc = read_piece(reading, path, err);
    for (size_t i = 0; i < run->pieces && !rc; i++)
        rc = read_piece(reading, run->piece[i], err);
    if (!rc && reading->short_rows)
        rc = imp_loss(run, "row with too few cells", reading->short_rows);
    if (!rc)
        rc = ascend_steps_write(&reading->steps, run, reading->rows.process, "column Step Id");
    return rc;
}

/* Reads one table; this is the `read` of the importer. */
static int read_table(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {.short_rows = 0};
    int64_t slices = run->slices;
    int rc = store_begin(run->db);
    if (!rc) {
        rc = imp_rows_begin(&reading.rows, run, ascend_rank_of(path), STORE_ABSENT, NULL,
                            "Ascend program");
        if (!rc)
            rc = read_pieces(&reading, path, err);
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
    return rc;
}

const struct importer imp_ascend_csv = {
    .source = "ascend-csv", .recognises = recognises, .read = read_table};
