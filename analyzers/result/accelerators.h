/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the result (result.h): what is said of accelerators. First what a trace tells of the work
 * on devices and of the calls that asked for it, then what the hardware counts of itself.
 * Ownership, units and texts: as result.h says.
 */
#ifndef ANALYZERS_ACCELERATORS_H
#define ANALYZERS_ACCELERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/result/value.h"

/* ---- work on devices ---------------------------------------------------------------------------------------------------- */

/* One device of one process, over everything that was recorded on it. Device ops are kernels,
 * copies, memsets and opaque graphs; every _ns is the measure of a union (docs/definitions.md),
 * exact. Invariant: compute + exposed_comm + exposed_copy + opaque + idle = span.
 */
struct an_gpu_device {
    int64_t rank, process,
        device;        /* rank: of the process, else its ordinal among processes with devices */
    const char *label; /* "gpu:0", "tpu:3" */
    const char *name, *host; /* "" when unknown */
    int64_t ops, streams;
    struct an_count span_ns, busy_ns, compute_ns, comm_ns, copy_ns, exposed_comm_ns,
        exposed_copy_ns, opaque_ns, idle_ns;
    struct an_count compute_sum_ns, comm_sum_ns,
        copy_sum_ns;             /* sums of durations: above the union where streams overlap */
    struct an_value overlap_pct; /* of communication, by compute; absent without communication */
    struct an_count blocking_proven_ns, blocking_inferred_ns, blocking_unknown_ns;
    struct an_count absent_launch_starved_ns, absent_blocked_ns, absent_dispatch_ns,
        absent_dependency_ns;
};

/* Parts of the compute-absent time. name, key, text */
#define AN_ABSENT_MAP(X) \
    X(LAUNCH_STARVED, launch_starved, "launch-bound") \
    X(BLOCKED, blocked, "blocked") \
    X(DISPATCH, dispatch, "dispatch") \
    X(DEPENDENCY, dependency, "dependency")
enum an_absent_part {
#define AN_ABSENT_ENUM(name, key, text) AN_ABSENT_##name,
    AN_ABSENT_MAP(AN_ABSENT_ENUM)
#undef AN_ABSENT_ENUM
        AN_ABSENT_PARTS
};
/* What occupied the device in the non-compute time. */
enum an_occupant {
    AN_OCCUPIED_COMM,
    AN_OCCUPIED_COPY,
    AN_OCCUPIED_OPAQUE,
    AN_OCCUPIED_NOTHING,
    AN_OCCUPANTS
};
/* How it is known that communication blocks. */
enum an_blocking {
    AN_BLOCKING_PROVEN,
    AN_BLOCKING_INFERRED,
    AN_BLOCKING_UNKNOWN,
    AN_BLOCKING_COUNT
};

/* What the host did: time by cause and by the name of the range that tells it. */
struct an_absent_cause {
    const char *cause; /* key of an_cause_key: "input", "sync", "framework" ... */
    const char *name;  /* "" : no range */
    int64_t ns;
    double pct; /* of the time the rows sum to */
};

/* Why a device does not compute in the counted steps (in the whole capture where there are none);
 * on a CPU: why the thread that runs the steps does not. Exact: the parts sum to absent_ns, a
 * part's occupants to the part, the causes to the part launch-starved (CPU: to absent_ns). */
struct an_absent {
    int64_t rank;
    struct an_count device; /* absent: the thread that runs the steps */
    const char *window;     /* "steps 4-19", "whole capture" */
    int64_t steps;          /* 0: the whole capture */
    int64_t window_ns, absent_ns;
    struct an_count part_ns[AN_ABSENT_PARTS], occupied_ns[AN_ABSENT_PARTS][AN_OCCUPANTS];
    struct an_count
        unlinked_ns; /* of dependency: no next kernel, or one whose launch is not in the file */
    struct an_count after_wait_ns; /* of launch-starved: gaps in which the launching thread came
                                      back from a call that waits */
    struct an_count blocking_ns[AN_BLOCKING_COUNT];
    const struct an_absent_cause *causes; /* largest first */
    size_t cause_count;
    const char *causes_reason; /* why there are none; NULL: there are, or no time to explain */
};

/* Launches of device work by host calls. */
struct an_launch_row {
    const char *name; /* of the API call */
    int64_t count, host_ns;
};
struct an_launches {
    const char *reason;
    int64_t calls, matched; /* launching calls; those whose device op is in the file */
    int64_t graphs;         /* of the calls, launches of CUDA graphs */
    struct an_value host_mean_us;
    struct an_value delay_mean_us, delay_median_us, delay_p95_us,
        delay_max_us; /* end of the call to start on the device */
    struct an_value queue_mean,
        queue_max; /* launched and not started, per stream, weighted by time; the longest of all */
    struct an_value full_queue_pct; /* of the span, time with 1024 or more waiting on a stream */
    struct an_count short_kernels;  /* shorter on the device than their launch call on the host */
    struct an_value short_pct;      /* of the matched kernels */
    const struct an_launch_row *rows;
    size_t row_count;
};

struct an_copy_row {
    const char *kind;   /* "HtoD" ... "memset" */
    const char *memory; /* "pageable", "pinned" ..., "" when not known */
    int64_t count, total_ns;
    int64_t exposed_ns; /* union of the row's copies without compute and communication; of memsets:
                           without others */
    struct an_count bytes;       /* of those whose size the trace says */
    struct an_count synchronous; /* of the count, the host call waited for them */
    const char *rule;            /* why they are synchronous, NULL where none is */
    struct an_value bytes_per_s, max_bytes_per_s;
};

struct an_sync_row {
    const char *name; /* "cudaStreamSynchronize" ... */
    int64_t count, host_ns, max_ns;
    struct an_count idle_ns; /* of host_ns, time in which no op ran on any device of the process */
};

struct an_precision {
    const char *reason;
    int64_t matrix_ns, matrix_unit_ns; /* sums over matrix and attention kernels; of these, kernels
                                          on matrix units */
    struct an_value matrix_unit_pct;
    const struct an_precision_row {
        const char *dtype; /* of the kernel, by its name: "bf16", "tf32" ..., "unknown" */
        int64_t count, total_ns;
        bool matrix_unit;
        bool told; /* false: the name does not tell whether it ran on matrix units */
    } * rows;
    size_t row_count;
};

/* ---- bounds of kernels -------------------------------------------------------------------------------------------------- */

/* What limits a kernel (docs/kernels.md). A kernel that reaches AN_BOUND_NEAR of a roof is bound by
 * it; else it is latency-bound if it is shorter than AN_BOUND_SHORT_NS or has fewer blocks than the
 * device has SMs; else it is inefficient on its side of the ridge. name, key, text */
#define AN_BOUND_NEAR     0.6
#define AN_BOUND_SHORT_NS 10000
#define AN_BOUND_MAP(X) \
    X(MEMORY, "memory", "memory-bound") \
    X(COMPUTE, "compute", "compute-bound") \
    X(LATENCY, "latency", "latency-bound") \
    X(BELOW_MEMORY, "inefficient_memory", "inefficient on the memory side") \
    X(BELOW_COMPUTE, "inefficient_compute", "inefficient on the arithmetic side") \
    X(UNKNOWN, "unknown", "unknown")
enum an_bound {
#define AN_BOUND_ENUM(name, key, text) AN_BOUND_##name,
    AN_BOUND_MAP(AN_BOUND_ENUM)
#undef AN_BOUND_ENUM
        AN_BOUND_COUNT
};
const char *an_bound_key(enum an_bound bound); /* static storage, as is the text */
const char *an_bound_text(enum an_bound bound);

/* Kinds of work of a kernel by its name alone (device/family.h): name, key, text. */
#define AN_FAMILY_MAP(X) \
    X(MATRIX, "matrix", "GEMMs") \
    X(ATTENTION, "attention", "attention") \
    X(NORM, "norm", "norms") \
    X(LOSS, "loss", "softmax and loss") \
    X(ELEMENTWISE, "elementwise", "element-wise work") \
    X(REDUCTION, "reduction", "reductions") \
    X(INDEX, "index", "embedding and indexing") \
    X(OPTIMIZER, "optimizer", "optimizer") \
    X(COMPILED, "compiled", "fused by a compiler") \
    X(OTHER, "other", "others")
enum an_family {
#define AN_FAMILY_ENUM(name, key, text) AN_FAMILY_##name,
    AN_FAMILY_MAP(AN_FAMILY_ENUM)
#undef AN_FAMILY_ENUM
        AN_FAMILY_COUNT
};
const char *an_family_key(enum an_family family); /* static storage, as is the text */
const char *an_family_text(enum an_family family);

/* Kernels of one name with one bound. Shares of the roofs are weighted by time. */
struct an_bound_row {
    const char *name;
    enum an_bound bound;
    int64_t count, total_ns;
    struct an_value memory_pct, compute_pct; /* of the bandwidth and of the peak of their type */
};

/* GEMMs of one operator and shape that reach neither roof. */
struct an_gemm_row {
    const char *name, *shapes, *dtype; /* shapes: of the operands as the trace lists them */
    int64_t count, total_ns, roof_ns;  /* roof_ns: the least that FLOPs and bytes allow */
    int64_t multiple;         /* of which each dimension of the operands should be; 0: not known */
    int64_t misaligned;       /* the first dimension that is not, 0: none is, or it is not known */
    struct an_value waves;    /* blocks / SMs of the largest kernel */
    struct an_value wave_pct; /* of the last wave's room that its blocks use, over all waves */
};

/* Consecutive element-wise operators of one stream and size, that memory limits. */
struct an_chain_row {
    const char *names; /* "aten::mul, aten::add", the first ones */
    int64_t count, operators, total_ns, bytes, saved_bytes;
};

/* What limits the kernels of all devices over the counted steps, or over the whole capture where
 * there are none: kernels that compute, by the sum of their times. */
struct an_kernel_bounds {
    const char *reason; /* why there is nothing */
    int64_t total_ns, kernels, ns[AN_BOUND_COUNT];
    const char *class;         /* "MEMORY-BOUND" ..., "INEFFICIENT", "MIXED", "UNKNOWN" */
    struct an_value class_pct; /* share of total_ns of that class; of MIXED the largest's */
    const char *sentence;      /* the second level of the verdict */
    const char *unknown;       /* why the largest part of unknown is; NULL: nothing is unknown */
    int64_t unknown_ns;        /* that part */
    int64_t family_ns[AN_FAMILY_COUNT], unknown_family_ns[AN_FAMILY_COUNT]; /* of unknown bound */
    int64_t compiled_ns;             /* kernels that a compiler of the framework made */
    const struct an_bound_row *rows; /* by time, largest first */
    size_t row_count;
    const struct an_gemm_row *gemms; /* by the time above the roof, largest first */
    size_t gemm_count;
    int64_t gemm_ns, gemm_roof_ns;     /* of all of them */
    const struct an_chain_row *chains; /* by time, largest first */
    size_t chain_count;
    /* Of all chains; fused_ns: what is left of their bytes at the peak of the bandwidth. */
    int64_t chain_operators, chain_ns, chain_bytes, chain_saved_bytes, chain_fused_ns;
};

/* What the capture itself is worth. */
struct an_quality {
    const char *reason; /* no foreign or accelerator trace */
    struct an_count launches_without_op, ops_without_launch, zero_times, unknown_kernels, cut_steps;
    struct an_count kernels_lost;  /* of launches_without_op, launches of kernels and graphs: copies
                                      of 0 bytes have no op */
    struct an_count unknown_names; /* distinct names of unknown_kernels */
    struct an_value unknown_pct;   /* of the time of all kernels, summed */
    struct an_value
        start_gap_ms; /* first launching call to first device op whose launch is known */
    struct an_value profiler_overhead_ms; /* in overhead rows of the trace */
    struct an_value step_overhead_pct;    /* of the host steps, in overhead rows */
    const char *const
        *signs; /* sentences: what suggests that recording changed the times; what limits them */
    size_t sign_count;
};

/* Device time by what asked for it. */
struct an_attribution_row {
    const char *name;
    int64_t count;   /* calls (op, module, annotation) or visits (line) */
    int64_t kernels; /* device ops launched from it */
    int64_t device_ns,
        host_ns; /* sum over its device ops; host time in itself without what it calls */
    struct an_value share_pct; /* of all attributed and unattributed device time */
    struct an_count flops, bytes;
    struct an_value flops_per_s;
};
struct an_attribution {
    const char *by; /* "op", "module", "line", "annotation" */
    const char
        *reason; /* why there is no table: what the trace did not record, and how to record it */
    int64_t unattributed_ns;
    const struct an_attribution_row *rows; /* by device time, largest first */
    size_t row_count;
};

/* ---- hardware ----------------------------------------------------------------------------------------------------------- */

/* A reason why a GPU ran below its clocks; share of the window. `fault`: not a choice of anybody's,
 * as heat is. */
struct an_throttle {
    const char *name;
    double pct;
    bool fault;
};

/* What the hardware counted in one whole step of the device, or in a range (tacho run --counters
 * roofline). Operations of the matrix units are as the hardware counts them; an FP32 multiply-add
 * is 2. */
struct an_step_counted {
    struct an_value matrix_ops, fp32_flops, dram_bytes, l2_bytes, l1_bytes, time_ms, occupancy_pct;
    struct an_value intensity, flops_per_s, dram_bytes_per_s; /* of matrix_ops + fp32_flops */
    struct an_value stall_memory, stall_barrier, stall_math,
        stall_wait; /* warps that waited for it, mean while one issued */
};

/* Ranges of a step that were counted one by one: what lies in this range and in none inside it, in
 * one step. */
struct an_range_counted {
    int64_t rank, device; /* device: the process's own number */
    const char
        *name; /* names of the ranges around it, outermost first: "forward/h.0"; "(no range)" */
    const char *dtype; /* of most of its operations: "bf16" ...; "fp32" */
    int64_t pieces;    /* of the step: times that it was cut there */
    struct an_step_counted counted;
};

/* A GPU that the run used, as NVML samples it, over the counted steps (window): shares are means
 * over time. */
struct an_gpu_hardware {
    int64_t gpu;             /* NVML's number, by bus */
    const char *name, *uuid; /* "" when unknown */
    struct an_value power_w, power_limit_w, energy_j, clock_sm_mhz, clock_sm_max_mhz,
        temperature_max_c, memory_used_bytes;
    struct an_value sm_active_pct, sm_occupancy_pct, tensor_active_pct, dram_active_pct,
        fp32_active_pct, fp16_active_pct, fp64_active_pct;
    struct an_value pm_sm_active_pct, pm_tensor_active_pct, pm_dram_read_pct,
        pm_dram_write_pct; /* --counters sampled */
    struct an_step_counted step;
    struct an_value throttled_pct;     /* held back by any reason of the list */
    const struct an_throttle *reasons; /* those that were seen, largest first */
    size_t reason_count;
    const char *energy_source; /* "energy counter", "power x time"; NULL: energy is not known */
};

/* Of all GPUs of the run, over its counted steps; of the whole capture where there are no steps. */
struct an_energy {
    const char *reason; /* why there is none; NULL when there is */
    struct an_value energy_j, power_w, per_step_j, per_token_j, per_sample_j, cost;
    int64_t steps; /* updates in the window */
};

#endif
