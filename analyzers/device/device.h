/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what ran on accelerators, as columns. Built once, before the steps, from
 * the `stream` tracks (docs/schema.md); every analyzer of device time reads it from an_context.gpu.
 *
 * Device ops are kernels, copies, memsets and opaque graphs, sorted by device, then start, then
 * end. Rows of synchronisation and annotation are not device ops and are never busy. A row without
 * an end or with a zero time stamp is not an op: it is counted in `untimed`. What class an op is
 * comes from classes.tsv through an_class_of (classes.h); an unknown name is compute and counted.
 */
#ifndef ANALYZERS_DEVICE_H
#define ANALYZERS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/device/api.h"
#include "analyzers/trace/trace.h"

struct an_name_class; /* classes.h */
struct tacho_error;

/* name, key for people and files */
#define AN_DEVICE_CLASS_MAP(X) \
    X(MATRIX, "matrix") \
    X(ATTENTION, "attention") \
    X(OTHER, "other compute") \
    X(MEMSET, "memset") \
    X(FUSED, "fused") /* compute and communication in one kernel: counted as compute, its bound is \
                         said */ \
    X(COMM, "comm") \
    X(COPY, "copy") \
    X(OPAQUE, "opaque")

enum an_device_class {
#define AN_DEVICE_CLASS_ENUM(name, key) AN_DEVICE_##name,
    AN_DEVICE_CLASS_MAP(AN_DEVICE_CLASS_ENUM)
#undef AN_DEVICE_CLASS_ENUM
        AN_DEVICE_CLASS_COUNT
};

#define AN_DEVICE_COMPUTE_MASK \
    (1u << AN_DEVICE_MATRIX | 1u << AN_DEVICE_ATTENTION | 1u << AN_DEVICE_OTHER | \
     1u << AN_DEVICE_MEMSET | 1u << AN_DEVICE_FUSED)
#define AN_DEVICE_COMM_MASK (1u << AN_DEVICE_COMM)
#define AN_DEVICE_COPY_MASK (1u << AN_DEVICE_COPY)
#define AN_DEVICE_ALL_MASK  ((1u << AN_DEVICE_CLASS_COUNT) - 1)

const char *an_device_class_key(enum an_device_class class);

struct an_device {
    uint32_t process;
    int64_t ordinal, rank; /* rank: the process's, else its ordinal among processes with devices */
    const char *label;     /* "gpu:0", "tpu:3" */
    const char *name;      /* "NVIDIA H100 80GB HBM3", "" when unknown */
    size_t first, count;   /* its ops in the columns below */
    int64_t streams;
    int64_t sms; /* its multiprocessors, 0 when unknown */
};

/* Columns of device ops; index i is one op. */
struct an_device_ops {
    size_t count;
    int64_t *start, *end;
    uint32_t *slice;  /* its row in an_trace.slice: name, detail, correlation */
    uint32_t *track;  /* its stream: index into an_trace.track */
    uint32_t *launch; /* slice of the host call that launched it, AN_NONE: not in the file */
    /* Slice of the call that was captured for it, where a launch of a graph launched it; AN_NONE:
     * not known. NULL where nothing was captured. */
    uint32_t *origin;
    uint8_t *class; /* enum an_device_class */
    uint8_t *known; /* 0: no pattern matched its name */
};

/* When a device did what, as normalised sets: exact in ns. `opaque` holds graphs that were recorded
 * only as a whole; exposed_opaque also the gaps after launches of graphs that left no record at
 * all, in which the device looks idle but may not be. */
struct an_device_split {
    struct an_set compute, comm, copy, opaque; /* unions of the ops; opaque: of the rows */
    /* comm \ compute, copy \ compute \ comm, opaque \ all of them. */
    struct an_set exposed_comm, exposed_copy, exposed_opaque;
    struct an_set busy; /* all of it */
    int64_t start, end; /* first start and last end of its ops; both 0 without ops */
    /* Launches of graphs without a record, and the time of exposed_opaque that is theirs. */
    int64_t unseen_graphs, unseen_ns;
};

/* A thread that captured a stream into a graph. What any thread of the process launched during that
 * time is taken as captured, unless it has a device op. */
struct an_capture {
    uint32_t process, track;
    int64_t start, end;
    int64_t launches; /* launching calls: nodes of the graph that run on the device */
};

struct an_devices {
    const struct an_trace *trace;
    struct an_arena *scratch; /* freed when the analysis ends */
    struct an_device *device;
    size_t device_count;
    struct an_device_ops op;
    int64_t untimed; /* device rows without a usable time */
    /* Launching calls whose device op is not in the file; captured ones have none. */
    int64_t launches_lost;
    struct an_capture *capture; /* by process and start */
    size_t capture_count;
    /* The same links the other way: launching host slices in order of track and start, and the ops
     * they launched */
    uint32_t *launch_slice; /* host slices that launched something, ascending */
    uint32_t *launch_first; /* launch_first[k] .. launch_first[k + 1]: their ops in launch_op */
    uint32_t *launch_op;    /* indexes of ops */
    size_t launch_count;
    /* Ops of device d in the order in which the host launched them: by_launch[device.first] and the
     * next by_launch_known[d]. An op without a launch in the file is excluded, unless nearly no op
     * of its device has one: then its start stands for its launch. */
    uint32_t *by_launch;
    size_t *by_launch_known;
    /* What the table of classes says of a kernel's name, by index of an_trace.string; entries of
     * other names are not filled. */
    const struct an_name_class *name_class;
    struct an_device_split *split;       /* of every device */
    const struct an_device_edges *edges; /* device_edges.h; NULL until they are needed */
};

/* Builds the columns of device ops; *out is NULL where the run has no device rows. `user_classes`
 * is the text of the user's table of kernel classes, or NULL. Everything that outlives the analysis
 * is copied into `arena`, the rest lies in `scratch`. Returns 0, TACHO_ENOMEM, or TACHO_EFORMAT for
 * a table of classes that is wrong: *err then says where. */
int an_devices_build(const struct an_trace *trace, const char *user_classes, struct an_arena *arena,
                     struct an_arena *scratch, struct an_devices **out, struct tacho_error *err);

/* Normalised spans of the ops of device d whose class is in `mask`, clipped to [t0, t1) (INT64_MIN,
 * INT64_MAX: all). *out lies in the scratch arena. */
int an_device_spans(const struct an_devices *devices, const struct an_device *device, unsigned mask,
                    int64_t start, int64_t end, struct an_span **out, size_t *count);

/* When op i was launched: start of the host call, or of the op itself where no launch is in the
 * file. */
int64_t an_device_launch_time(const struct an_devices *devices, size_t op);
/* First place in by_launch of device d whose op was launched at or after `time`; at most first +
 * by_launch_known[d]. */
size_t an_device_launch_seek(const struct an_devices *devices, size_t device, int64_t time);

/* Is the launch of more than a few of a device's ops in the file? */
bool an_device_is_launched(const struct an_devices *devices, const struct an_device *device);

/* Was a call of a process at `time` captured into a graph? */
bool an_device_captured(const struct an_devices *devices, uint32_t process, int64_t time);
/* The capture whose graph a launch runs: of those before it the only one with as many launching
 * calls as the launch has ops. NULL: none, or several. `launch`: an index of launch_slice. */
const struct an_capture *an_device_replayed(const struct an_devices *devices, uint32_t process,
                                            size_t launch);

/* The index after the last op of a device. */
static inline size_t an_device_end(const struct an_device *device)
{
    return device->first + device->count;
}
/* First op of a device that starts at `time` or later: an index; first + count if there is
 * none. */
static inline size_t an_device_op_seek(const struct an_devices *devices,
                                       const struct an_device *device, int64_t time)
{
    return an_times_seek(devices->op.start, device->first, device->first + device->count, time);
}

/* Fills g->split (device_split.c): the last part of an_devices_build. */
int an_devices_split(struct an_devices *devices);

/* What a call of the accelerator's API does, by its name; each name is looked at once. */
struct an_api_call an_slice_api(const struct an_trace *trace, size_t slice);
/* First launch whose host slice is not before `slice`: an index into launch_slice, launch_count if
 * there is none. */
size_t an_launch_seek(const struct an_devices *devices, size_t slice);

/* Is the host slice a call of an accelerator's API (categories runtime and driver) that can put
 * work on a device? */
bool an_slice_launches(const struct an_trace *trace, size_t slice);
/* Is it such a call, and not inside of another one, which it is a part of? And how many are there?
 */
bool an_is_launch_call(const struct an_trace *trace, size_t slice);
int64_t an_launch_calls(const struct an_trace *trace);
/* Category of a slice, "" for none. */
const char *an_slice_category(const struct an_trace *trace, size_t slice);

#endif
