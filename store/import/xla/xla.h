/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: what profiles of XLA (JAX, TensorFlow, PyTorch/XLA) have in common as
 * XPlane (store/import/xplane/) and as JSON (xla_json.c): the names of planes and lines
 * (xla_names.c), and what becomes steps (xla_steps.c).
 */
#ifndef STORE_IMPORT_XLA_XLA_H
#define STORE_IMPORT_XLA_XLA_H

#include "store/import/input/protobuf.h"
#include "store/import/input/rows.h"

#define XLA_TOOL "XLA profiler (JAX, TensorFlow)" /* the run key source.tool */

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

enum xla_plane_kind {
    XLA_PLANE_OTHER,
    XLA_PLANE_GPU,
    XLA_PLANE_TPU,
    XLA_PLANE_SPARSE, /* a sparse core of a TPU */
    XLA_PLANE_HOST,
    XLA_PLANE_TASK
};

/* "/device:GPU:3": the kind of a plane by its name, and the number of its device. */
enum xla_plane_kind xla_plane_kind_of(struct pb_span name, int64_t *device);

static inline bool xla_is_tpu(enum xla_plane_kind kind)
{
    return kind == XLA_PLANE_TPU || kind == XLA_PLANE_SPARSE;
}
static inline bool xla_is_device(enum xla_plane_kind kind)
{
    return kind == XLA_PLANE_GPU || xla_is_tpu(kind);
}
/* "/device:TPU:3 SparseCore 1": the number of the sparse core; 0: it has none. */
int64_t xla_sparse_core(struct pb_span name);

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

/* The collective of an operation of XLA ("all-reduce-start.3") or of its category ("all-reduce
 * fusion"), as tacho calls it; NULL: none. */
const char *xla_collective_of(struct pb_span op);
/* A copy of a TPU, or what its core does for one. */
struct xla_copy {
    const char *kind; /* "HtoD" ...; NULL: the operation is no copy */
    const char *part; /* "start", "wait": the core begins a copy or waits for it; NULL: the copy */
};
/* What an operation of a TPU copies, by its category ("copy-start"), or its name where it has none,
 * and by its text, in which a shape with S(5) lies in the memory of the host. `async`: it is on
 * the line of what runs beside the core. */
struct xla_copy xla_copy_of(struct pb_span category, struct pb_span op, struct pb_span text,
                            bool async);
/* Is it an operation that only holds others (a loop, a call)? */
bool xla_is_container(struct pb_span category, struct pb_span op);
/* The store's category of an event of the host. */
const char *xla_host_category(struct pb_span name, bool has_correlation, bool has_op);
/* "jit_train_step" and "jit_train_step(17)" are calls of PjitFunction(train_step). */
bool xla_is_call_of(struct pb_span event, struct pb_span module);
/* "jit_train_step:XLA GPU module", the launch of a module by the host: its name; else empty. */
struct pb_span xla_launched_module(struct pb_span event);
bool xla_equals(struct pb_span span, const char *text);
bool xla_begins(struct pb_span span, const char *text);
bool xla_holds(struct pb_span span, const char *text);
static inline struct pb_span xla_span(const char *text)
{
    return (struct pb_span){(const unsigned char *)text, strlen(text)};
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------ */

/* What may become steps: the marks of the program, executions of modules on devices, calls of
 * compiled functions on the host, and launches of modules by it. xla_steps.c chooses. */
enum xla_step_source {
    XLA_STEP_DEVICE,
    XLA_STEP_MARKED,
    XLA_STEP_MODULE,
    XLA_STEP_CALL,
    XLA_STEP_LAUNCH
};

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
        int64_t device_ns;  /* of the operations of this module */
        int64_t device_end; /* of the last one; 0: there is none */
        int64_t launch_ns;  /* of its launches */
    } * name;
    size_t name_count, name_room;
    struct imp_map names; /* hash and length -> index */
};

/* Keeps a candidate; `name` may be empty. Too many are dropped: a profile has few steps. */
int xla_steps_add(struct xla_steps *steps, struct xla_step step, struct pb_span name);
/* Adds the time of an operation, from start to end in ns, to its module. */
int xla_steps_module_time(struct xla_steps *steps, struct pb_span module, int64_t start,
                          int64_t end);
/* Keeps the launch of a module; other events of the host are ignored. */
int xla_steps_launch(struct xla_steps *steps, struct xla_step step, struct pb_span event);
/* Writes the steps of the best source that there is, and a run key that names it. */
int xla_steps_write(struct xla_steps *steps, struct imp_rows *rows);
void xla_steps_clear(struct xla_steps *steps);

#endif
