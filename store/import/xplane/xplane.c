/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of XPlane files: an XSpace of planes, one for each device and one for the host.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/whole.h"
#include "store/import/xplane/xplane_import.h"
#include "store/import/xplane/xplane_private.h"

#define BYTES_MOST  ((size_t)8 << 30) /* of one file, unpacked */
#define HEAD_LOOKED 65536
#define MARKS_LEAST 8 /* characters U+FFFD in a head before it is no accident */

/* Numbers of the fields of the messages (xplane.proto). */
enum { SPACE_PLANES = 1, SPACE_HOSTNAMES = 4 };
enum { PLANE_STATS = 6 };

/* How often U+FFFD stands in the bytes: what a copy as text makes of bytes above 127. */
static size_t marks_in(const unsigned char *data, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i + 3 <= bytes; i++)
        count += data[i] == 0xef && data[i + 1] == 0xbf && data[i + 2] == 0xbd;
    return count;
}

/* Does a file begin with a plane that is named as those of XLA are? */
static bool recognises(const unsigned char *head, size_t bytes)
{
    struct pb_span span = {head, bytes < HEAD_LOOKED ? bytes : HEAD_LOOKED};
    return bytes > 4 && head[0] == 0x0a &&
           (xla_holds(span, "/host:metadata") || xla_holds(span, "/host:CPU") ||
            xla_holds(span, "/device:TPU:") || xla_holds(span, "/device:GPU:") ||
            xla_holds(span, "/device:CUSTOM:") || xla_holds(span, "Task Environment"));
}

/* ---- what is not an event --------------------------------------------------------------------------------------------------- */

/* Keeps what a plane says of its device under the run keys that all importers use. */
static int device_keys(struct xspace *space, const struct xplane *plane)
{
    struct xla_stats stats = {0};
    struct imp_rows *rows = &space->rows;
    char key[80], value[96];
    xplane_stats(plane, plane->message, PLANE_STATS, &stats);
    const bool tpu = plane->kind == XLA_PLANE_TPU;
    const struct {
        const char *key;
        enum xla_stat stat;
    } numbers[] = {{"sms", XLA_STAT_CORES}, {"memory_bytes", XLA_STAT_MEMORY}};
    int rc = 0;
    if (rows->run->salvage_only)
        return 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !rc; i++)
        if (stats.number[numbers[i].stat] > 0) {
            snprintf(key, sizeof key, "device.%" PRId64 ".%s:%" PRId64 ".%s", rows->process,
                     tpu ? "tpu" : "gpu", plane->device, numbers[i].key);
            rc = store_run_set_int(rows->run->db, key, stats.number[numbers[i].stat]);
        }
    struct pb_span type = stats.text[XLA_STAT_DEVICE_TYPE];
    struct pb_span vendor = stats.text[XLA_STAT_VENDOR];
    value[0] = 0;
    if (type.bytes)
        snprintf(value, sizeof value, "%.*s", (int)(type.bytes < 80 ? type.bytes : 80), type.data);
    else if (vendor.bytes)
        snprintf(value, sizeof value, "%.*s", (int)(vendor.bytes < 40 ? vendor.bytes : 40),
                 vendor.data);
    snprintf(key, sizeof key, "device.%" PRId64 ".%s:%" PRId64 ".name", rows->process,
             tpu ? "tpu" : "gpu", plane->device);
    if (!rc && value[0])
        rc = store_run_set(rows->run->db, key, value);
    if (!rc && stats.has[XLA_STAT_MAJOR] && stats.has[XLA_STAT_MINOR]) {
        snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".compute_capability",
                 rows->process, plane->device);
        snprintf(value, sizeof value, "%" PRId64 ".%" PRId64, stats.number[XLA_STAT_MAJOR],
                 stats.number[XLA_STAT_MINOR]);
        rc = store_run_set(rows->run->db, key, value);
    }
    return rc;
}

/* Finds the time at which the profile began, which relative times are counted from, and the name
 * of the host. *cut: the file ends early, or is damaged between its planes. */
static int look_around(struct xspace *space, struct pb_span file, bool *cut)
{
    struct pb pb = pb_of(file);
    struct pb_field field;
    int rc = 0;
    while (!rc && pb_next(&pb, &field)) {
        struct xplane plane;
        struct xla_stats stats = {0};
        if (field.wire != PB_BYTES)
            continue;
        if (field.number == SPACE_HOSTNAMES)
            space->host = field.span;
        if (field.number != SPACE_PLANES)
            continue;
        space->planes++;
        struct pb name = pb_of(field.span);
        struct pb_field inner;
        int64_t device;
        enum xla_plane_kind kind = XLA_PLANE_OTHER;
        while (pb_next(&name, &inner))
            if (inner.number == 2 && inner.wire == PB_BYTES)
                kind = xla_plane_kind_of(inner.span, &device);
        if (kind != XLA_PLANE_TASK)
            continue;
        bool bad = false; /* told when its events are read */
        rc = xplane_open(&plane, field.span, &bad);
        if (!rc)
            xplane_stats(&plane, field.span, PLANE_STATS, &stats);
        if (stats.number[XLA_STAT_START_TIME] > 0 &&
            stats.number[XLA_STAT_START_TIME] < IMP_TIME_MAX)
            space->base = stats.number[XLA_STAT_START_TIME];
        xplane_close(&plane);
    }
    *cut = pb.bad;
    return rc;
}

/* ---- the importer ----------------------------------------------------------------------------------------------------------- */

/* Reads one plane after the other. */
static int read_planes(struct xspace *space, struct pb_span file)
{
    struct pb pb = pb_of(file);
    struct pb_field field;
    int rc = 0;
    while (!rc && pb_next(&pb, &field)) {
        struct xplane plane;
        bool bad = false;
        if (field.number != SPACE_PLANES || field.wire != PB_BYTES)
            continue;
        rc = xplane_open(&plane, field.span, &bad);
        space->damaged += bad;
        if (!rc)
            rc = xplane_events(space, &plane);
        if (!rc && (plane.kind == XLA_PLANE_GPU || plane.kind == XLA_PLANE_TPU) &&
            plane.device != STORE_ABSENT)
            rc = device_keys(space, &plane);
        xplane_close(&plane);
    }
    return rc;
}

/* Keeps the name of the plane in which the file ends, for messages. */
static void note_cut(struct xspace *space, struct pb_span name)
{
    size_t used = 0;
    for (; used < name.bytes && used + 1 < sizeof space->cut; used++) {
        unsigned char byte = name.data[used];
        space->cut[used] = byte < 32 || byte > 126 ? '?' : (char)byte;
    }
    space->cut[used] = 0;
}

/* Reads the plane in which a file was cut off, as far as it goes. A plane has the names of its
 * events behind them: those whose names are lost too are counted, not read, because without a name
 * a copy, a loop and a kernel are alike. */
static int read_cut_plane(struct xspace *space, struct pb_span file)
{
    struct pb_span rest;
    struct xplane plane;
    char reason[160];
    bool bad = false;
    if (!pb_cut(file, SPACE_PLANES, &rest))
        return imp_loss(space->rows.run, "file ends between its planes, or is damaged there", 1);
    int rc = xplane_open(&plane, rest, &bad);
    plane.cut = true;
    note_cut(space, plane.name);
    if (!rc)
        rc = xplane_events(space, &plane);
    xplane_close(&plane);
    snprintf(reason, sizeof reason, "file ends in the middle of plane %s",
             space->cut[0] ? space->cut : "(of unknown name)");
    if (!rc)
        rc = imp_loss(space->rows.run, reason, 1);
    snprintf(reason, sizeof reason, "event of plane %s without its name: the file was cut off",
             space->cut);
    return rc || !space->nameless ? rc : imp_loss(space->rows.run, reason, space->nameless);
}

static int write_keys(struct xspace *space)
{
    struct imp_run *run = space->rows.run;
    char key[48];
    if (run->salvage_only)
        return 0;
    snprintf(key, sizeof key, run->file_index ? "source.base_ns.%" PRId64 : "source.base_ns",
             run->file_index);
    int rc = store_run_set_int(run->db, key, space->base);
    return rc ? rc : store_run_set(run->db, "source.tool", XLA_TOOL);
}

/* Says why a file of which nothing could be read is no profile. */
static int refuse(const struct xspace *space, const char *path, bool as_text, bool cut,
                  struct tacho_error *err)
{
    if (as_text)
        return tacho_fail(
            err, TACHO_EFORMAT, "copy it again in binary mode (git: *.pb binary in .gitattributes)",
            "%s: an XPlane that was copied as text: its bytes above 127 are lost", path);
    if (space->nameless)
        return tacho_fail(
            err, TACHO_EFORMAT,
            "copy it again; or profile again, fewer steps, and let stop_trace() end before the job "
            "does",
            "%s: an XPlane that is cut off in plane %s: of the %" PRId64 " events before the cut "
            "none has its name, which the plane has at its end",
            path, space->cut, space->nameless);
    if (cut || !space->planes)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: an XPlane that is cut off or damaged", path);
    return tacho_fail(err, TACHO_EFORMAT,
                      "profile while the program trains: with jax.profiler.trace(FOLDER): a few "
                      "steps that end in block_until_ready()",
                      "%s: an XPlane without events: %" PRId64 " planes, none with a line that "
                      "says when something ran",
                      path, space->planes);
}

/* Reads a whole profile: first what its planes say of time and host, then their events. */
static int read_file(struct xspace *space, struct pb_span file)
{
    char host[128];
    bool cut;
    int rc = look_around(space, file, &cut);
    snprintf(host, sizeof host, "%.*s", (int)(space->host.bytes < 100 ? space->host.bytes : 100),
             space->host.bytes ? (const char *)space->host.data : "");
    if (!rc)
        rc = imp_rows_begin(&space->rows, space->rows.run, STORE_ABSENT, STORE_ABSENT,
                            host[0] ? host : NULL, "XLA program");
    if (!rc)
        rc = read_planes(space, file);
    if (!rc && cut) {
        space->rows.run->truncated = true;
        rc = read_cut_plane(space, file);
    }
    if (!rc && space->damaged)
        rc = imp_loss(space->rows.run, "plane or line is damaged", space->damaged);
    if (!rc && space->aggregated)
        rc = imp_loss(space->rows.run, "event that only counts occurrences: it has no time",
                      space->aggregated);
    if (!rc)
        rc = xla_steps_write(&space->steps, &space->rows);
    return rc ? rc : write_keys(space);
}

/* Reads one profile; this is the `read` of the importer. */
static int read_xplane(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct imp_whole whole;
    struct xspace space = {.rows = {.run = run}};
    int64_t slices = run->slices;
    int rc = imp_whole_read(run, path, BYTES_MOST, &whole, err);
    if (rc)
        return rc;
    size_t looked = whole.bytes < HEAD_LOOKED ? whole.bytes : HEAD_LOOKED;
    bool as_text = marks_in(whole.data, looked) >= MARKS_LEAST, begun = false;
    if (!as_text && !(rc = store_begin(run->db))) {
        begun = true;
        rc = read_file(&space, (struct pb_span){whole.data, whole.bytes});
        rc = imp_rows_end(&space.rows, rc);
    }
    if (begun && !rc)
        rc = store_commit(run->db);
    if (!rc && (as_text || run->slices == slices))
        rc = refuse(&space, path, as_text, run->truncated, err);
    xla_steps_clear(&space.steps);
    imp_whole_free(&whole);
    return rc;
}

const struct importer imp_xplane = {
    .source = "xplane", .recognises = recognises, .read = read_xplane};
