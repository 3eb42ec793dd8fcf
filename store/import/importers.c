/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of importers, and the question which of them reads a file.
 */
#include "store/import/importers.h"

#include <stdlib.h>
#include <string.h>

#include "store/import/ascend/ascend_import.h"
#include "store/import/chakra/chakra_import.h"
#include "store/import/input/input.h"
#include "store/import/inspector/inspector_import.h"
#include "store/import/kinds/kinds.h"
#include "store/import/kineto/kineto_import.h"
#include "store/import/logs/logs_import.h"
#include "store/import/nsight/nsight_import.h"
#include "store/import/perfetto/perfetto_import.h"
#include "store/import/pprof/pprof_import.h"
#include "store/import/rocm/rocm_import.h"
#include "store/import/snapshot/snapshot_import.h"
#include "store/import/tfevents/tfevents_import.h"
#include "store/import/unitrace/unitrace_import.h"
#include "store/import/workers/workers_import.h"
#include "store/import/xla/xla_import.h"
#include "store/import/xplane/xplane_import.h"

#define HEAD_BYTES (256u << 10) /* of a file, unpacked, that decide what it is */

/* In the order in which they are asked: what a later one would take too comes first. */
static const struct {
    enum store_format format;
    const struct importer *importer;
} importers[] = {
    {STORE_FORMAT_WORKERS, &imp_workers}, /* those before Kineto have its frame */
    {STORE_FORMAT_TF_TIMELINE, &imp_tf_timeline},
    {STORE_FORMAT_XLA_JSON, &imp_xla_json},
    {STORE_FORMAT_ROCPROF, &imp_rocprof},
    {STORE_FORMAT_ROCPROF_OLD, &imp_rocprof_old},
    {STORE_FORMAT_RPD_JSON, &imp_rpd_json},
    {STORE_FORMAT_UNITRACE, &imp_unitrace},
    {STORE_FORMAT_ASCEND, &imp_ascend},
    {STORE_FORMAT_CHAKRA, &imp_chakra},
    {STORE_FORMAT_INSPECTOR, &imp_inspector},
    {STORE_FORMAT_FLIGHT, &imp_flight},
    {STORE_FORMAT_LOG, &imp_log}, /* may be JSON lines */
    {STORE_FORMAT_KINETO, &imp_kineto},
    {STORE_FORMAT_ROCPD, &imp_rocpd}, /* before Nsight, which is SQLite too */
    {STORE_FORMAT_NSIGHT, &imp_nsight},
    {STORE_FORMAT_TFEVENTS, &imp_tfevents},
    {STORE_FORMAT_PERFETTO, &imp_perfetto},
    {STORE_FORMAT_PPROF, &imp_pprof},
    {STORE_FORMAT_XPLANE, &imp_xplane},
    {STORE_FORMAT_ASCEND_CSV, &imp_ascend_csv},
    {STORE_FORMAT_ROCPROF_CSV, &imp_rocprof_csv},
    {STORE_FORMAT_SNAPSHOT, &imp_snapshot},
};

const struct importer *imp_importer_of(enum store_format format)
{
    for (size_t i = 0; i < sizeof importers / sizeof *importers; i++)
        if (importers[i].format == format)
            return importers[i].importer;
    return NULL;
}

/* ---- what is it ---------------------------------------------------------------------------------------------------------- */

/* Says why nothing is known about the file. `cut`: the compressed data ends early. */
static int unknown(const char *path, bool empty, bool cut, struct tacho_error *err)
{
    if (empty && cut)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: cut off or damaged before the first byte of the trace", path);
    if (empty)
        return tacho_fail(
            err, TACHO_EFORMAT,
            "nothing was recorded into it, or the copy failed: record or copy it again",
            "%s: the file is empty", path);
    return tacho_fail(
        err, TACHO_EFORMAT,
        "give the trace itself: Kineto .json[.gz], Nsight .sqlite, .xplane.pb, rocprofv3 "
        ".json or .db, Ascend trace_view.json, a memory snapshot .pickle, a log with a line for "
        "each step; or record with 'tacho run -- CMD'",
        "%s: not a trace that tacho can read", path);
}

static bool is_run(const unsigned char *head, size_t bytes)
{
    return bytes >= 100 && !memcmp(head, "SQLite format 3", 16) &&
           ((uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 | (uint32_t)head[70] << 8 |
            head[71]) == STORE_APPLICATION_ID;
}

/* What of the table of kinds the file is; TACHO_ENOTSUP. */
static int refuse(const char *path, const struct imp_kind *kind, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_ENOTSUP, kind->hint, "%s: this is %s", path, kind->what);
}

/* Decides by the first bytes. A run of tacho, a kind of file that only looks like a trace, a trace,
 * a kind of file that is none: the first of these that it is. */
static int format_of_head(const char *path, const unsigned char *head, size_t bytes, bool cut,
                          enum store_format *out, struct tacho_error *err)
{
    const struct imp_kind *kind = imp_kind_of(path, head, bytes, true);
    if (is_run(head, bytes)) {
        *out = STORE_FORMAT_TACHO;
        return 0;
    }
    if (kind) {
        *out = kind->capture ? STORE_FORMAT_CONVERT : STORE_FORMAT_OTHER;
        return refuse(path, kind, err);
    }
    for (size_t i = 0; i < sizeof importers / sizeof *importers; i++)
        if (importers[i].importer->recognises(head, bytes)) {
            *out = importers[i].format;
            return 0;
        }
    kind = imp_kind_of(path, head, bytes, false);
    if (!kind)
        return unknown(path, !bytes, cut, err);
    *out = kind->capture ? STORE_FORMAT_CONVERT : STORE_FORMAT_OTHER;
    return refuse(path, kind, err);
}

/* Is a file that looks like a trace of Kineto one of an Ascend NPU, whose rows come behind those of
 * the host? `window`: its first HEAD_BYTES, which are overwritten. */
static int look_behind(struct imp_input *in, unsigned char *window, enum store_format *out,
                       struct tacho_error *err)
{
    const size_t kept = ASCEND_WORD_MOST, room = HEAD_BYTES - kept;
    size_t bytes = room;
    int status = 0;
    while (!status && bytes == room && *out == STORE_FORMAT_KINETO) {
        memmove(window, window + room, kept); /* a word may lie across the border */
        status = imp_input_read(in, window + kept, room, &bytes, err);
        if (!status && ascend_holds_words(window, kept + bytes))
            *out = STORE_FORMAT_ASCEND;
    }
    return status;
}

/* Decides by the first bytes of an open file, which are read to `head`, of HEAD_BYTES. */
static int format_of_input(const char *path, struct imp_input *in, unsigned char *head,
                           enum store_format *out, bool *doubtful, struct tacho_error *err)
{
    size_t bytes = 0;
    int status = imp_input_read(in, head, HEAD_BYTES, &bytes, err);
    if (!status)
        status = format_of_head(path, head, bytes, imp_input_truncated(in), out, err);
    if (status || *out != STORE_FORMAT_KINETO)
        return status;
    if (doubtful)
        *doubtful = imp_kind_no_events(head, bytes);
    bool behind = bytes == HEAD_BYTES && ascend_may_follow(path, head, bytes);
    return behind ? look_behind(in, head, out, err) : 0;
}

int imp_file_format(const char *path, enum store_format *out, bool *doubtful,
                    struct tacho_error *err)
{
    struct imp_input *in;
    *out = STORE_FORMAT_UNKNOWN;
    unsigned char *head = malloc(HEAD_BYTES);
    if (!head)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int status = imp_input_open(path, &in, err);
    if (!status)
        status = format_of_input(path, in, head, out, doubtful, err);
    imp_input_close(in);
    free(head);
    return status;
}
