/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of dumps of the NCCL Inspector (plugins/profiler/inspector of NCCL): JSON objects
 * one after the other, for each operation of a communicator its size and how long it ran. Up to
 * version 4.2 of the format each object says of which process and communicator it is; from 4.3 on a
 * marker says so once for those that follow. A verbose dump has the times of the kernels; of
 * another one only the time of the dump is known, before which its operations ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/json.h"
#include "store/import/input/list.h"
#include "store/import/input/rows.h"
#include "store/import/input/whole.h"
#include "store/import/inspector/inspector_import.h"

#define BYTES_MOST ((size_t)8 << 30)
#define TEXT_MOST  128
#define TIME_MOST  (IMP_TIME_MAX / 1000) /* us */
#define ORDER_MOST (1u << 20)            /* operations of one dump without times */
#define DUMP_US    1000                  /* dumps closer than that are parts of one */

/* One operation of a communicator. */
struct operation {
    struct ij_text name;
    int64_t number, bytes, peer;
    double us;
    int64_t start_us, end_us; /* of its kernels; STORE_ABSENT: the dump is not verbose */
};

/* The process, the communicator and the dump that objects belong to. */
struct origin {
    int64_t pid, rank, ranks, dumped_us, communicator;
    char host[TEXT_MOST];
};

struct reading {
    struct imp_rows rows;
    struct origin origin;
    bool begun;
    int64_t ranks_largest;
    /* Operations of the present dump that wait for their places. */
    struct operation *waiting;
    size_t waiting_count, waiting_room;
    struct imp_map last_end; /* of each communicator */
    int64_t placed, dropped, others;
};

static bool recognises(const unsigned char *head, size_t bytes)
{
    size_t looked = bytes < 65536 ? bytes : 65536;
    return bytes && head[0] == '{' &&
           imp_holds(head, looked, "\"inspector_output_format_version\"");
}

static void copy_text(struct ij_text text, char out[TEXT_MOST])
{
    snprintf(out, TEXT_MOST, "%.*s", (int)(text.bytes < TEXT_MOST ? text.bytes : TEXT_MOST - 1),
             text.text);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

/* The rank of the process is its rank in the largest communicator. */
static int note_rank(struct reading *reading)
{
    const struct origin *origin = &reading->origin;
    struct store_process process = {.id = reading->rows.process,
                                    .rank = origin->rank,
                                    .pid = origin->pid,
                                    .parent_pid = STORE_ABSENT,
                                    .start = STORE_ABSENT,
                                    .end = STORE_ABSENT,
                                    .exit_status = STORE_ABSENT,
                                    .host = origin->host[0] ? origin->host : NULL,
                                    .program = "NCCL Inspector"};
    if (origin->ranks <= reading->ranks_largest)
        return 0;
    reading->ranks_largest = origin->ranks;
    return reading->rows.run->salvage_only ? 0
                                           : store_process_update(reading->rows.run->db, &process);
}

/* Adds the process of the file when its first header was read. */
static int note_origin(struct reading *reading, struct imp_run *run)
{
    const struct origin *origin = &reading->origin;
    if (reading->begun)
        return note_rank(reading);
    reading->begun = true;
    reading->ranks_largest = origin->ranks;
    return imp_rows_begin(&reading->rows, run, origin->rank, origin->pid,
                          origin->host[0] ? origin->host : NULL, "NCCL Inspector");
}

/* Writes one operation on the track of its communicator. */
static int put(struct reading *reading, const struct operation *operation, int64_t end_us)
{
    struct store_detail detail = STORE_DETAIL_NONE;
    char name[64], payload[64];
    struct imp_slice slice = {.category = "NCCL profiler",
                              .correlation = operation->number,
                              .detail = &detail,
                              .dur = (int64_t)(operation->us * 1000)};
    slice.start = end_us >= 0 && end_us <= TIME_MOST ? end_us * 1000 - slice.dur : -1;
    detail.schema = "tacho.comm";
    const char *collective = store_collective(operation->name.text, operation->name.bytes, NULL);
    detail.collective = collective ? collective : "collective";
    detail.bytes = operation->bytes;
    detail.communicator = reading->origin.communicator;
    detail.ranks = reading->origin.ranks;
    if (operation->peer >= 0) {
        snprintf(payload, sizeof payload, "{\"peer\":%" PRId64 "}", operation->peer);
        detail.payload = payload;
    }
    snprintf(name, sizeof name, "communicator 0x%" PRIx64, (uint64_t)detail.communicator);
    int rc = imp_rows_comm(&reading->rows, detail.communicator, name, &slice.track);
    if (!rc)
        rc = imp_rows_string(&reading->rows, operation->name.text, operation->name.bytes,
                             &slice.name);
    return rc ? rc : imp_rows_slice(&reading->rows, &slice);
}

/* Ends the operations of a dump without times: the last one ends with the dump, those before it one
 * after the other, but none before the dump before. */
static int flush(struct reading *reading)
{
    int64_t key = reading->origin.communicator, at = reading->origin.dumped_us;
    const int64_t *last = imp_map_find(&reading->last_end, key, 0);
    double sum = 0;
    int rc = 0;
    if (!reading->waiting_count)
        return 0;
    for (size_t i = 0; i < reading->waiting_count; i++)
        sum += reading->waiting[i].us;
    at -= sum < (double)at ? (int64_t)sum : at;
    if (last && *last > at)
        at = *last;
    for (size_t i = 0; i < reading->waiting_count && !rc && at <= TIME_MOST; i++) {
        at += (int64_t)reading->waiting[i].us;
        rc = put(reading, &reading->waiting[i], at);
        reading->placed++;
    }
    reading->waiting_count = 0;
    return rc ? rc : imp_map_put(&reading->last_end, key, 0, at);
}

/* Keeps an operation until its dump is complete. */
static int wait_for_place(struct reading *reading, const struct operation *operation)
{
    if (imp_list_room((void **)&reading->waiting, &reading->waiting_room, reading->waiting_count,
                      sizeof *reading->waiting))
        return TACHO_ENOMEM;
    reading->waiting[reading->waiting_count++] = *operation;
    return reading->waiting_count < ORDER_MOST ? 0 : flush(reading);
}

/* ---- objects --------------------------------------------------------------------------------------- */

/* {"kernel_start_ts": ..., "kernel_stop_ts": ...}: widens the operation by one kernel. */
static void read_kernel(struct ij *json, struct operation *operation)
{
    int64_t time;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        bool start = ij_is(key, "kernel_start_ts");
        if (!start && !ij_is(key, "kernel_stop_ts")) {
            ij_skip(json);
            continue;
        }
        if (!ij_int(json, &time) || time <= 0)
            continue;
        if (start && (operation->start_us == STORE_ABSENT || time < operation->start_us))
            operation->start_us = time;
        if (!start && time > operation->end_us)
            operation->end_us = time;
    }
}

static void read_kernel_times(struct ij *json, struct operation *operation)
{
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        if (!ij_is(ij_key(json), "kernel_events")) {
            ij_skip(json);
            continue;
        }
        for (bool next = ij_enter(json); next; next = ij_more(json))
            read_kernel(json, operation);
    }
}

/* The body of "coll_perf" or "p2p_perf": keys begin with `coll_` or `p2p_`. */
static int read_operation(struct reading *reading, struct ij *json)
{
    struct operation operation = {.name = {"collective", 10},
                                  .number = STORE_ABSENT,
                                  .bytes = STORE_ABSENT,
                                  .peer = STORE_ABSENT,
                                  .us = -1,
                                  .start_us = STORE_ABSENT,
                                  .end_us = STORE_ABSENT};
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "coll") || ij_is(key, "p2p") || ij_is(key, "p2p_op"))
            operation.name = ij_text_of(json);
        else if (ij_is(key, "coll_sn") || ij_is(key, "p2p_sn"))
            ij_int(json, &operation.number);
        else if (ij_is(key, "coll_msg_size_bytes") || ij_is(key, "p2p_msg_size_bytes"))
            ij_int(json, &operation.bytes);
        else if (ij_is(key, "coll_exec_time_us") || ij_is(key, "p2p_exec_time_us"))
            ij_number(json, &operation.us);
        else if (ij_is(key, "p2p_peer") || ij_is(key, "peer"))
            ij_int(json, &operation.peer);
        else if (ij_is(key, "event_trace_ts"))
            read_kernel_times(json, &operation);
        else
            ij_skip(json);
    }
    if (json->bad)
        return 0;
    reading->rows.run->events++;
    if (!(operation.us >= 0) || operation.us > (double)TIME_MOST || !reading->begun) {
        reading->rows.bad_time += reading->begun;
        return 0;
    }
    if (operation.start_us == STORE_ABSENT || operation.end_us < operation.start_us)
        return wait_for_place(reading, &operation);
    operation.us = (double)(operation.end_us - operation.start_us);
    return put(reading, &operation, operation.end_us);
}

/* {"id": "0x7f8c496ae9f661", "rank": 2, "n_ranks": 8, "nnodes": 1} */
static void read_header(struct origin *origin, struct ij *json)
{
    char text[TEXT_MOST];
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "id")) {
            copy_text(ij_text_of(json), text);
            origin->communicator = (int64_t)(strtoull(text, NULL, 16) & INT64_MAX);
        } else if (ij_is(key, "rank")) {
            ij_int(json, &origin->rank);
        } else if (ij_is(key, "n_ranks")) {
            ij_int(json, &origin->ranks);
        } else {
            ij_skip(json);
        }
    }
}

static void read_metadata(struct origin *origin, struct ij *json)
{
    int64_t time;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "dump_timestamp_us"))
            origin->dumped_us = ij_int(json, &time) && time >= 0 && time <= TIME_MOST ? time : 0;
        else if (ij_is(key, "hostname"))
            copy_text(ij_text_of(json), origin->host);
        else if (ij_is(key, "pid"))
            ij_int(json, &origin->pid);
        else
            ij_skip(json);
    }
}

/* Counts what the Inspector itself had to drop. */
static void read_stats(struct reading *reading, struct ij *json)
{
    int64_t count;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (!ij_is(key, "coll_dropped_since_last_dump") &&
            !ij_is(key, "p2p_dropped_since_last_dump"))
            ij_skip(json);
        else if (ij_int(json, &count) && count > 0 && count < INT32_MAX)
            reading->dropped += count;
    }
}

/* Takes from the next object of which process and communicator it is; false: it does not say. */
static bool read_origin(struct ij json, struct origin *origin)
{
    bool found = false;
    for (bool more = ij_enter(&json); more; more = ij_more(&json)) {
        struct ij_text key = ij_key(&json);
        if (ij_is(key, "header"))
            read_header(origin, &json);
        else if (ij_is(key, "metadata"))
            read_metadata(origin, &json);
        else
            ij_skip(&json);
        found |= ij_is(key, "header");
    }
    return found && !json.bad;
}

/* Goes over to another dump or communicator: what waited gets its place first. */
static int change_origin(struct reading *reading, struct imp_run *run, const struct origin *origin)
{
    const struct origin *now = &reading->origin;
    bool same = origin->communicator == now->communicator && origin->dumped_us >= now->dumped_us &&
                origin->dumped_us - now->dumped_us < DUMP_US;
    int rc = same ? 0 : flush(reading);
    reading->origin = *origin;
    return rc ? rc : note_origin(reading, run);
}

static int read_object(struct reading *reading, struct imp_run *run, struct ij *json)
{
    struct origin origin = reading->origin;
    int rc = 0;
    if (read_origin(*json, &origin))
        rc = change_origin(reading, run, &origin);
    for (bool more = ij_enter(json); more && !rc; more = more && ij_more(json)) {
        struct ij_text key = ij_key(json);
        if (ij_is(key, "coll_perf") || ij_is(key, "p2p_perf"))
            rc = read_operation(reading, json);
        else if (ij_is(key, "dump_stats"))
            read_stats(reading, json);
        else
            ij_skip(json);
        reading->others += ij_is(key, "proxy_trace");
    }
    return rc;
}

/* Reads objects up to the end of the file. */
static int read_objects(struct reading *reading, struct imp_run *run, struct ij json)
{
    int rc = 0;
    while (!rc && ij_next(&json) == '{' && !json.bad)
        rc = read_object(reading, run, &json);
    if (!rc)
        rc = flush(reading);
    if (!rc && (json.bad || ij_next(&json))) {
        run->truncated = true;
        rc = imp_loss(run, "file ends in the middle, or goes on with something else", 1);
    }
    if (!rc && reading->dropped)
        rc = imp_loss(run, "operation that the Inspector itself dropped (its ring was full)",
                      reading->dropped);
    return rc;
}

static int write_run(const struct reading *reading)
{
    store *db = reading->rows.run->db;
    char text[96];
    if (reading->rows.run->salvage_only)
        return 0;
    int rc = store_run_set(db, "source.tool", "NCCL Inspector");
    if (!rc && reading->placed)
        rc = store_run_set(db, "source.times",
                           "durations of the file; operations end one after the other before the "
                           "dump that has them");
    if (!rc && reading->others) {
        snprintf(text, sizeof text, "proxy_trace (%" PRId64 ")", reading->others);
        rc = store_run_set(db, "source.not_read", text);
    }
    return rc;
}

/* Reads one dump; this is the `read` of the importer. */
static int read_file(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct reading reading = {
        .origin = {.pid = STORE_ABSENT, .rank = STORE_ABSENT, .ranks = STORE_ABSENT}};
    struct imp_whole whole;
    int64_t slices = run->slices;
    int rc = imp_whole_read(run, path, BYTES_MOST, &whole, err);
    if (rc)
        return rc;
    reading.rows.run = run;
    rc = store_begin(run->db);
    if (!rc)
        rc = read_objects(&reading, run, ij_of(whole.data, whole.bytes));
    rc = imp_rows_end(&reading.rows, rc);
    if (!rc)
        rc = write_run(&reading);
    if (!rc)
        rc = store_commit(run->db);
    if (!rc && run->slices == slices)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "record smaller ones too: NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES=0",
                        "%s: a dump of the NCCL Inspector without an operation", path);
    imp_map_free(&reading.last_end);
    free(reading.waiting);
    imp_whole_free(&whole);
    return rc;
}

const struct importer imp_inspector = {
    .source = "nccl-inspector", .recognises = recognises, .read = read_file};
