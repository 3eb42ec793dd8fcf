/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/xla/: profiles of XLA (JAX, TensorFlow, PyTorch/XLA) as XPlane protocol
 * buffers (xplane.c, xplane_plane.c, xplane_event.c) and as JSON (xla_json.c), and what both know
 * of the names of planes and lines (xla_names.c).
 *
 * An XPlane is untrusted: sizes, ids and times may be anything. Memory: the file, plus what its
 * metadata needs.
 */
#ifndef STORE_IMPORT_XLA_XLA_PRIVATE_H
#define STORE_IMPORT_XLA_XLA_PRIVATE_H

#include "store/import/input/protobuf.h"
#include "store/import/input/rows.h"

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

enum xla_plane_kind {
    XLA_PLANE_OTHER,
    XLA_PLANE_GPU,
    XLA_PLANE_TPU,
    XLA_PLANE_HOST,
    XLA_PLANE_TASK
};

/* "/device:GPU:3": the kind of a plane by its name, and the number of its device. */
enum xla_plane_kind xla_plane_kind_of(struct pb_span name, int64_t *device);

/* What a line of a device plane holds. Lines that are made of others are not read. */
enum xla_line_kind {
    XLA_LINE_STREAM,  /* kernels and copies of a stream; operations of a core */
    XLA_LINE_ASYNC,   /* operations beside those of the core: copies, collectives */
    XLA_LINE_MODULES, /* executions of programs */
    XLA_LINE_STEPS,
    XLA_LINE_DERIVED
};
enum xla_line_kind xla_line_kind_of(enum xla_plane_kind plane, struct pb_span name,
                                    int64_t *stream);

/* The collective of an operation of XLA ("all-reduce-start.3"), as tacho calls it; NULL: none. */
const char *xla_collective_of(struct pb_span op);
/* Is it an operation that only holds others (a loop, a call)? */
bool xla_is_container(struct pb_span category, struct pb_span op);
/* The store's category of an event of the host. */
const char *xla_host_category(struct pb_span name, bool has_correlation, bool has_op);
/* "jit_train_step" and "jit_train_step(17)" are calls of PjitFunction(train_step). */
bool xla_is_call_of(struct pb_span event, struct pb_span module);
bool xla_equals(struct pb_span span, const char *text);
bool xla_begins(struct pb_span span, const char *text);
bool xla_holds(struct pb_span span, const char *text);
static inline struct pb_span xla_span(const char *text)
{
    return (struct pb_span){(const unsigned char *)text, strlen(text)};
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------ */

/* What may become steps: the marks of the program, executions of modules on devices, and calls of
 * compiled functions on the host. xla_steps.c chooses. */
enum xla_step_source { XLA_STEP_DEVICE, XLA_STEP_MARKED, XLA_STEP_MODULE, XLA_STEP_CALL };

struct xla_step {
    enum xla_step_source source;
    int64_t place; /* of the thread or device */
    int64_t index, start, end;
    size_t name; /* of a module or call: in xla_steps.name */
};

struct xla_steps {
    struct xla_step *step;
    size_t count, room;
    struct xla_step_name {
        char *text;
        int64_t device_ns; /* of the operations of this module */
    } * name;
    size_t name_count, name_room, last_name;
};

/* Keeps a candidate; `name` may be empty. Too many are dropped: a profile has few steps. */
int xla_steps_add(struct xla_steps *steps, struct xla_step step, struct pb_span name);
/* Adds the time of an operation to its module. */
int xla_steps_module_time(struct xla_steps *steps, struct pb_span module, int64_t dur);
/* Writes the steps of the best source that there is, and a run key that names it. */
int xla_steps_write(struct xla_steps *steps, struct imp_rows *rows);
void xla_steps_clear(struct xla_steps *steps);

/* ---- XPlane ----------------------------------------------------------------------------------------------------------------- */

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
    double real[XLA_STAT_COUNT]; /* 0 unless it was a double */
    struct pb_span text[XLA_STAT_COUNT];
};

struct xplane_event_metadata {
    int64_t id;
    struct pb_span name, display_name, message; /* message: for its statistics */
    bool has_stats;
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
};

struct xspace {
    struct imp_rows rows;
    struct xla_steps steps;
    int64_t base; /* added to times that are relative */
    int64_t planes, lines, unplaced, damaged, aggregated;
    struct pb_span host;
    bool begun;
};

/* Reads the names of a plane: everything but its events. 0 or TACHO_ENOMEM; *bad: it is damaged. */
int xplane_open(struct xplane *plane, struct pb_span message, bool *bad);
void xplane_close(struct xplane *plane);
/* Reads the statistics of a message whose field `field` they are. Does not clear `stats` first. */
void xplane_stats(const struct xplane *plane, struct pb_span message, uint32_t field,
                  struct xla_stats *stats);
/* Writes the events of all lines. */
int xplane_events(struct xspace *space, struct xplane *plane);
/* Grows a list by one element. */
int xla_room_for(void **list, size_t *room, size_t count, size_t size);

#endif
