/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of store/import/: other tools' traces become a `.tacho` file. docs/schema.md,
 * "Accelerators and foreign traces", says which event becomes which row.
 *
 * An import is one streaming pass: one thread reads windows of at most STORE_IMPORT_WINDOW bytes
 * while another inserts rows. Memory grows with the number of distinct strings, details and tracks,
 * not with the size of the trace. Nothing is dropped in silence: what could not be read becomes a
 * loss row with a count, and a file that was cut off is read up to its last whole event.
 */
#ifndef STORE_IMPORT_IMPORT_H
#define STORE_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

/* What a path holds, judged by its first bytes; a folder is judged by its files. key, text for
 * people */
#define STORE_FORMAT_MAP(X) \
    X(UNKNOWN, "unknown") \
    X(TACHO, "tacho run") \
    X(KINETO, "Kineto trace") \
    X(NSIGHT, "Nsight Systems SQLite export") \
    X(WORKERS, "timeline of workers") \
    X(XPLANE, "XLA xplane") \
    X(XLA_JSON, "XLA trace") \
    X(TF_TIMELINE, "timeline of TensorFlow 1") \
    X(ROCPROF, "rocprofv3 JSON") \
    X(ROCPD, "rocprofv3 database") \
    X(ROCPROF_CSV, "rocprofv3 table") \
    X(ROCPROF_OLD, "rocprof JSON") \
    X(RPD_JSON, "rocmProfileData JSON") \
    X(UNITRACE, "unitrace timeline") \
    X(ASCEND, "Ascend trace") \
    X(ASCEND_CSV, "Ascend table of kernels") \
    X(SNAPSHOT, "PyTorch memory snapshot or flight recorder dump") \
    X(FLIGHT, "PyTorch flight recorder dump") \
    X(PERFETTO, "Perfetto trace") \
    X(PPROF, "pprof profile") \
    X(CHAKRA, "Chakra execution trace") \
    X(INSPECTOR, "NCCL Inspector dump") \
    X(LOG, "training log") \
    X(TFEVENTS, "TensorBoard event file") \
    X(FOLDER, "folder of traces") \
    X(CONVERT, "capture that has to be converted") \
    X(OTHER, "file of another kind")

enum store_format {
#define STORE_FORMAT_ENUM(name, text) STORE_FORMAT_##name,
    STORE_FORMAT_MAP(STORE_FORMAT_ENUM)
#undef STORE_FORMAT_ENUM
};

const char *store_format_text(enum store_format format);

/* Looks at PATH. Errors: TACHO_ENOTFOUND, TACHO_EDENIED, TACHO_EIO; TACHO_ENOTSUP with the way to
 * convert it for CONVERT, and with what to give instead for OTHER; TACHO_EFORMAT with a hint for
 * UNKNOWN and for an empty file. *out is set in every case but the first three. */
int store_format_of(const char *path, enum store_format *out, struct tacho_error *err);

struct store_import_options {
    /* Files and folders; each Kineto or Nsight file in them is one rank (or node) of one run. */
    const char *const *in;
    size_t in_count;
    /* Path of the file to make, which must not exist. It is written under a temporary name and
     * renamed, so nothing half-written is left. */
    const char *out;
    /* Called now and then from the calling thread with bytes read and bytes in all (of compressed
     * files: compressed). Non-zero cancels: TACHO_EINTERRUPTED, and no file is left. May be NULL.
     */
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
    /* Regular expression for the ranges or kernels that mark steps, kept as the run key
     * steps.marker; NULL: none. */
    const char *step_marker;
    bool salvage_only; /* tests: parse and count, write no slices */
};

struct store_import_result {
    int64_t files, events, slices, lost; /* events: read, of any kind; lost: counted in loss rows */
    bool truncated;                      /* some file ended in the middle */
    bool uncounted;                      /* more events are lost, and it is not known how many */
};

/* Errors: those of store_format_of, TACHO_EEXISTS, TACHO_EFORMAT (no event could be read),
 * TACHO_ENOSPACE or TACHO_EIO (the output), TACHO_ENOMEM. err names the file. */
int store_import(const struct store_import_options *options, struct store_import_result *result,
                 struct tacho_error *err);

/* Two hashes of different kind over the same bytes, 128 bits together. */
struct store_key {
    uint64_t fnv, mixed; /* FNV-1a; a multiplicative one with a shift */
};
void store_key_add(struct store_key *key, const void *data, size_t bytes);
/* Writes 32 hexadecimal digits + '\0'. */
void store_key_text(const struct store_key *key, char text[33]);

/* A key of 32 hexadecimal digits + '\0' of what an import of these files would give: contents,
 * names, version of the importer. The same trace copied elsewhere has the same key. Reads at most
 * the size and three blocks of each file: quick on gigabytes.
 */
int store_import_key(const char *const *in, size_t in_count, char key[33], struct tacho_error *err);

#endif
