/* SPDX-License-Identifier: Apache-2.0
 *
 * The Nsight Systems importer: one export, table after table. A compressed export is unpacked into
 * a file without a name first: SQLite reads pages anywhere.
 */
#include "store/import/nsight/nsight.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/import/input.h"

#define COMMIT_ROWS 200000
#define TIME_MAX \
    (INT64_MAX / 4) /* ns: 73 years past 1970 and more; whatever is beyond was no time */
#define UNPACK_STEP (1 << 20)

static const char magic[16] = "SQLite format 3";

/* ---- rows ------------------------------------------------------------------------------------------------------------------------ */

int nsight_intern(struct nsight *nsight, const char *text, int64_t *string)
{
    return store_string(nsight->out, text, strlen(text), string);
}

void nsight_time(struct nsight *nsight, int64_t start, int64_t end, struct store_slice *slice,
                 bool *ok)
{
    *ok = start >= 0 && start <= TIME_MAX &&
          (end == STORE_ABSENT || end <= TIME_MAX); /* an absent start is negative */
    if (!*ok) {
        nsight->lost[NSIGHT_LOSS_TIME]++;
        return;
    }
    if (end != STORE_ABSENT && end < start) {
        nsight->lost[NSIGHT_LOSS_END]++;
        *ok = false;
        return;
    }
    slice->start = start + nsight->base;
    slice->dur = end == STORE_ABSENT ? STORE_ABSENT : end - start;
}

int nsight_slice(struct nsight *nsight, struct store_slice *slice)
{
    nsight->run->import_result->slices++;
    int code = nsight->run->import_options->salvage_only ? 0 : store_slice_add(nsight->out, slice);
    if (!code && ++nsight->rows >= COMMIT_ROWS) {
        nsight->rows = 0;
        code = store_commit(nsight->out);
        if (!code)
            code = store_begin(nsight->out);
    }
    return code;
}

/* ---- processes and tracks --------------------------------------------------------------------------------------------------------- */

/* Text of one column of the first row where another equals `id`. Caller frees; NULL: none. */
static char *text_where(struct nsight *nsight, const char *name, const char *column,
                        const char *key, int64_t id)
{
    char table[NSIGHT_NAME_MAX], *text = NULL;
    sqlite3_stmt *st = NULL;
    if (!nsight_find(nsight, name, table))
        return NULL;
    char *sql = sqlite3_mprintf("SELECT \"%w\" FROM \"%w\" WHERE \"%w\"=%lld LIMIT 1", column,
                                table, key, (long long)id);
    if (sql && sqlite3_prepare_v2(nsight->db, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW) {
        const char *found = nsight_text(st, 0);
        if (!found && nsight_int(st, 0) != STORE_ABSENT)
            found = nsight_string(nsight, nsight_int(st, 0));
        text = found ? strdup(found) : NULL;
    }
    sqlite3_finalize(st);
    sqlite3_free(sql);
    return text;
}

int nsight_process(struct nsight *nsight, int64_t global, size_t *index)
{
    const int64_t *known = nsight_map_find(&nsight->processes, global >> 24, 0);
    if (known) {
        *index = (size_t)*known;
        return 0;
    }
    if (nsight->process_count == nsight->process_cap) {
        size_t cap = nsight->process_cap ? 2 * nsight->process_cap : 16;
        struct nsight_process *bigger = realloc(nsight->process, cap * sizeof *bigger);
        if (!bigger)
            return TACHO_ENOMEM;
        nsight->process = bigger;
        nsight->process_cap = cap;
    }
    struct nsight_process *p = &nsight->process[nsight->process_count];
    *p = (struct nsight_process){.global = global >> 24, .rank = STORE_ABSENT};
    p->program = text_where(nsight, "PROCESSES", "name", "globalPid",
                            (int64_t)((uint64_t)(global >> 24) << 24));
    p->row = (struct store_process){.rank = STORE_ABSENT,
                                    .pid = global >> 24 & 0xffffff,
                                    .parent_pid = STORE_ABSENT,
                                    .start = STORE_ABSENT,
                                    .end = STORE_ABSENT,
                                    .exit_status = STORE_ABSENT,
                                    .host = nsight->host,
                                    .program = p->program};
    *index = nsight->process_count++;
    int code = store_process_add(nsight->out, &p->row);
    return code ? code : nsight_map_put(&nsight->processes, global >> 24, 0, (int64_t)*index);
}

static int add_track(struct nsight *nsight, enum nsight_tracks which, int64_t a, int64_t b,
                     struct store_track *t, int64_t *track)
{
    int code = store_track_add(nsight->out, t);
    *track = t->id;
    return code ? code : nsight_map_put(&nsight->tracks[which], a, b, t->id);
}

int nsight_thread(struct nsight *nsight, int64_t tid, int64_t *track)
{
    const int64_t *known = nsight_map_find(&nsight->tracks[NSIGHT_THREADS], tid, 0);
    size_t process;
    if (known) {
        *track = *known;
        return 0;
    }
    int code = nsight_process(nsight, tid, &process);
    if (code)
        return code;
    char *name = text_where(nsight, "ThreadNames", "nameId", "globalTid", tid);
    struct store_track t = {.process = nsight->process[process].row.id,
                            .tid = tid & 0xffffff,
                            .kind = "thread",
                            .name = name};
    code = add_track(nsight, NSIGHT_THREADS, tid, 0, &t, track);
    free(name);
    return code;
}

int nsight_stream(struct nsight *nsight, size_t process, int64_t device, int64_t stream,
                  int64_t *track)
{
    int64_t place = (int64_t)process << 24 | device;
    const int64_t *known = nsight_map_find(&nsight->tracks[NSIGHT_STREAMS], place, stream);
    char name[48], gpu[32];
    if (known) {
        *track = *known;
        return 0;
    }
    int code = nsight_map_put(&nsight->devices, (int64_t)process, device, 1);
    if (code)
        return code;
    snprintf(gpu, sizeof gpu, "gpu:%" PRId64, device);
    snprintf(name, sizeof name, "stream %" PRId64, stream);
    struct store_track t = {.process = nsight->process[process].row.id,
                            .tid = stream,
                            .kind = "stream",
                            .name = stream == STORE_ABSENT ? "device" : name,
                            .device = gpu};
    return add_track(nsight, NSIGHT_STREAMS, place, stream, &t, track);
}

int nsight_range_track(struct nsight *nsight, size_t process, int64_t *track)
{
    const int64_t *known = nsight_map_find(&nsight->tracks[NSIGHT_RANGES], (int64_t)process, 0);
    if (known) {
        *track = *known;
        return 0;
    }
    struct store_track t = {.process = nsight->process[process].row.id,
                            .tid = STORE_ABSENT,
                            .kind = "range",
                            .name = "start/end ranges"};
    return add_track(nsight, NSIGHT_RANGES, (int64_t)process, 0, &t, track);
}

/* ---- opening ------------------------------------------------------------------------------------------------------------------------ */

static bool recognises(const unsigned char *head, size_t bytes)
{
    return bytes >= sizeof magic && !memcmp(head, magic, sizeof magic);
}

static int write_all(int fd, const char *p, size_t bytes)
{
    while (bytes) {
        ssize_t w = write(fd, p, bytes);
        if (w < 0 && errno != EINTR)
            return errno;
        p += w > 0 ? w : 0;
        bytes -= w > 0 ? (size_t)w : 0;
    }
    return 0;
}

/* Unpacks `in` into a new file below TMPDIR, whose name is written to `name`. */
static int unpack(struct nsight *nsight, struct imp_input *in, char *name, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    char *buffer = malloc(UNPACK_STEP);
    size_t got = 1;
    int code = buffer ? 0 : TACHO_ENOMEM, os = 0, fd = -1;
    snprintf(name, size, "%s/tacho-nsight-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!code && (fd = mkstemp(name)) < 0)
        os = errno;
    while (!code && !os && got) {
        code = imp_input_read(in, buffer, UNPACK_STEP, &got, nsight->err);
        if (!code)
            os = write_all(fd, buffer, got);
        if (!code && imp_progress(nsight->run, 0))
            code = TACHO_EINTERRUPTED;
    }
    if (fd >= 0 && close(fd) && !os)
        os = errno;
    free(buffer);
    if (!code && imp_input_truncated(in)) {
        nsight->lost[NSIGHT_LOSS_GZIP]++;
        nsight->run->import_result->truncated = true;
    }
    if (os)
        code = tacho_fail(nsight->err, os == ENOSPC || os == EDQUOT ? TACHO_ENOSPACE : TACHO_EIO,
                          "TMPDIR names the folder that compressed exports are unpacked into",
                          "%s: %s", name, strerror(os));
    if (code && fd >= 0)
        unlink(name);
    return code;
}

static int open_export(struct nsight *nsight, const char *path)
{
    struct imp_input *in = NULL;
    char name[4096];
    int code = imp_input_open(path, &in, nsight->err);
    if (code)
        return code;
    if (!imp_input_is_gzip(in)) {
        imp_input_close(in);
        return nsight_open(nsight, path);
    }
    code = unpack(nsight, in, name, sizeof name);
    imp_input_close(in);
    if (code)
        return code;
    code = nsight_open(nsight, name); /* keeps it open: from here on nobody else needs the name */
    unlink(name);
    if (code && code != TACHO_EINTERRUPTED && code != TACHO_ENOMEM)
        code =
            tacho_fail(nsight->err, code,
                       "copy it again, or export it again: nsys export --type sqlite FILE.nsys-rep",
                       "%s: a compressed SQLite database that is damaged or cut off", path);
    return code;
}

static int check(struct nsight *nsight, const char *path)
{
    char found[NSIGHT_NAME_MAX];
    bool ours = nsight_find(nsight, "META_DATA_EXPORT", found) ||
                nsight_find(nsight, "TARGET_INFO_SYSTEM_ENV", found) ||
                nsight_find(nsight, "NVTX_EVENTS", found) ||
                nsight_find(nsight, "CUPTI_ACTIVITY_KIND_RUNTIME", found) ||
                nsight_find(nsight, "CUPTI_ACTIVITY_KIND_KERNEL", found);
    if (ours && nsight_find(nsight, "StringIds", found))
        return 0;
    return tacho_fail(
        nsight->err, TACHO_EFORMAT,
        "tacho reads .tacho files and exports of Nsight Systems (nsys export --type sqlite)",
        "%s: an SQLite database, but neither a run nor an Nsight Systems export", path);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------ */

static int read_tables(struct nsight *nsight)
{
    const struct nsight_table *const all[] = {nsight_device_tables, nsight_host_tables,
                                              nsight_nvtx_tables, nsight_metric_tables};
    double rows = 1;
    char table[NSIGHT_NAME_MAX];
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (const struct nsight_table *nsight_table = all[k]; nsight_table->name; nsight_table++)
            rows += nsight_find(nsight, nsight_table->name, table)
                        ? (double)nsight_rows_about(nsight, table)
                        : 0;
    nsight->bytes_a_row = (double)nsight->bytes / rows;
    int code = nsight_meta_begin(nsight);
    for (size_t k = 0; !code && k < sizeof all / sizeof *all; k++)
        for (const struct nsight_table *nsight_table = all[k]; !code && nsight_table->name;
             nsight_table++)
            code = nsight_read(nsight, nsight_table);
    return code ? code : nsight_meta_end(nsight);
}

static void release(struct nsight *nsight)
{
    struct nsight_map *const maps[] = {
        &nsight->processes,     &nsight->tracks[0],  &nsight->tracks[1], &nsight->tracks[2],
        &nsight->tracks[3],     &nsight->contexts,   &nsight->records,   &nsight->devices,
        &nsight->domains,       &nsight->categories, &nsight->joined,    &nsight->calls,
        &nsight->record_streams};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        nsight_map_free(maps[i]);
    for (size_t i = 0; i < nsight->process_count; i++)
        free(nsight->process[i].program);
    for (size_t i = 0; i < nsight->label_count; i++)
        free(nsight->label[i]);
    nsight_payload_free(nsight);
    sqlite3_finalize(nsight->string);
    sqlite3_close(nsight->db);
    free(nsight->label);
    free(nsight->process);
    free(nsight->host);
    free(nsight->text);
    free(nsight);
}

static int read_export(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct stat st;
    struct nsight *nsight = calloc(1, sizeof *nsight);
    if (!nsight)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: %s", path, tacho_error_text(TACHO_ENOMEM));
    nsight->run = run;
    nsight->out = run->db;
    nsight->err = err;
    nsight->bytes = stat(path, &st) ? 0 : st.st_size;
    int code = open_export(nsight, path);
    if (!code)
        code = check(nsight, path);
    bool begun = !code;
    int64_t events = run->import_result->events;
    if (!code)
        code = store_begin(nsight->out);
    if (!code)
        code = read_tables(nsight);
    if (begun && !code)
        code = store_commit(nsight->out);
    if (!code && run->import_result->events == events)
        code = tacho_fail(err, TACHO_EFORMAT,
                          "was anything traced? nsys profile --trace=cuda,nvtx,osrt CMD",
                          "%s: an Nsight Systems export without an event", path);
    if (code == TACHO_EINTERRUPTED || code == TACHO_ENOMEM)
        tacho_fail(err, code, NULL, "%s: %s", path, tacho_error_text(code));
    else if (code && begun && code == store_error(nsight->out)->code)
        *err = *store_error(nsight->out);
    release(nsight);
    return code;
}

const struct importer imp_nsight = {.format = STORE_FORMAT_NSIGHT,
                                    .source = "nsight",
                                    .recognises = recognises,
                                    .read = read_export};
