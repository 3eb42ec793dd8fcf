/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/xplane/: an XPlane, whose planes have lines of events. xplane.c reads the
 * file, xplane_plane.c the names of a plane, xplane_event.c its events.
 *
 * An XPlane is untrusted: sizes, ids and times may be anything. Memory: the file, plus what its
 * metadata needs.
 */
#ifndef STORE_IMPORT_XPLANE_XPLANE_PRIVATE_H
#define STORE_IMPORT_XPLANE_XPLANE_PRIVATE_H

#include "store/import/input/protobuf.h"
#include "store/import/input/rows.h"
#include "store/import/xla/xla.h"

/* Statistics that tacho reads: key, name */
#define XLA_STAT_MAP(X) \
    X(CORRELATION, "correlation_id") \
    X(KERNEL_DETAILS, "kernel_details") \
    X(MEMCPY_DETAILS, "memcpy_details") \
    X(MEMSET_DETAILS, "memset_details") \
    X(STEP_NUM, "step_num") \
    X(HLO_OP, "hlo_op") \
    X(HLO_MODULE, "hlo_module") \
    X(OP_NAME, "tf_op") \
    X(NAME, "name") \
    X(CATEGORY, "hlo_category") \
    X(FLOPS, "flops") \
    X(MODEL_FLOPS, "model_flops") \
    X(BYTES, "bytes_accessed") \
    X(GROUP, "group_id") \
    X(START_TIME, "profile_start_time") \
    X(VENDOR, "device_vendor") \
    X(DEVICE_TYPE, "device_type_string") \
    X(CORES, "core_count") \
    X(MEMORY, "memory_size") \
    X(MAJOR, "compute_cap_major") \
    X(MINOR, "compute_cap_minor") \
    X(MEMORY_BANDWIDTH, "memory_bandwidth") \
    X(PEAK_TFLOPS, "peak_teraflops_per_second") \
    X(PEAK_HBM, "peak_hbm_bw_gigabytes_per_second") \
    X(DEVICE_ID, "device_id")

enum xla_stat {
    XLA_STAT_OTHER,
#define XLA_STAT_ENUM(name, text) XLA_STAT_##name,
    XLA_STAT_MAP(XLA_STAT_ENUM)
#undef XLA_STAT_ENUM
        XLA_STAT_COUNT
};

/* The statistics of one event. */
struct xla_stats {
    bool has[XLA_STAT_COUNT];
    int64_t number[XLA_STAT_COUNT];
    struct pb_span text[XLA_STAT_COUNT];
};

struct xplane_event_metadata {
    int64_t id;
    struct pb_span name, display_name, message; /* message: for its statistics */
    bool has_stats;
    struct pb_span *stat; /* those that tacho reads, once they were looked for */
    size_t stat_count;
    int64_t string; /* of the store; 0: not interned yet */
};

struct xplane_stat_metadata {
    int64_t id;
    struct pb_span name;
    enum xla_stat stat;
};

struct xplane {
    enum xla_plane_kind kind;
    int64_t device; /* number; STORE_ABSENT: none */
    struct pb_span name, message;
    struct xplane_event_metadata *event;
    size_t event_count, event_room;
    struct xplane_stat_metadata *stat;
    size_t stat_count, stat_room;
    struct imp_map events, stats; /* id -> index */
    bool cut;                     /* the file ends in it */
};

struct xspace {
    struct imp_rows rows;
    struct xla_steps steps;
    int64_t base; /* added to times that are relative */
    int64_t planes, damaged, aggregated;
    int64_t nameless; /* events of the plane in which the file ends, before the cut, without a name
                       */
    char cut[64];     /* that plane */
    struct pb_span host;
    bool begun;
};

/* Reads the names of a plane: everything but its events. 0 or TACHO_ENOMEM; *bad: it is damaged. */
int xplane_open(struct xplane *plane, struct pb_span message, bool *bad);
void xplane_close(struct xplane *plane);
/* Reads the statistics of a message whose field `field` they are. Does not clear `stats` first. */
void xplane_stats(const struct xplane *plane, struct pb_span message, uint32_t field,
                  struct xla_stats *stats);
/* Those that all events of this name have. They are looked for once, because a file may have many
 * of them, and many events. 0 or TACHO_ENOMEM. */
int xplane_metadata_stats(const struct xplane *plane, struct xplane_event_metadata *metadata,
                          struct xla_stats *stats);
/* What is looked at of a text of the file, which may be as long as the file and be that of any
 * number of events. */
struct pb_span xplane_looked(struct pb_span text);
/* Writes the events of all lines. */
int xplane_events(struct xspace *space, struct xplane *plane);

#endif
