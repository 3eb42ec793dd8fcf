/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room analyzers/: the one typed result that every analyzer writes into and
 * every renderer reads from.
 *
 * A number is never bare: it carries whether it is known, and if not, why. Renderers print the
 * reason and never a 0. Units are in the names (_ns, _ms, _pct, _bytes, ...). Shares named _pct
 * are 0..100; mfu, hfu ... are ratios 0..1. Ownership: everything in a result, arrays and texts
 * alike, belongs to the result and lives until an_result_free(). Texts come from the program that
 * was profiled: they may hold any byte. A renderer must neutralise them. The formulas stand in
 * an_metrics (docs/metrics.md, the report's appendix), the classes in docs/definitions.md.
 */
#ifndef ANALYZERS_RESULT_H
#define ANALYZERS_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/result/accelerators.h"
#include "analyzers/result/dataflow.h"
#include "analyzers/result/pictures.h"
#include "analyzers/result/ranks.h"
#include "analyzers/result/value.h"

/* A part of the report that is absent as a whole: reason NULL means it is there. */
struct an_part {
    const char *reason;
};

/* ---- the run ------------------------------------------------------------------------------------------------------------ */

struct an_key {
    const char *key, *value; /* a row of the file's table `run` */
};

struct an_run {
    const char *file;    /* as the caller named it */
    const char *program; /* first process that marked steps, else the first one; "" when unknown */
    const char *around; /* what runs the steps around PyTorch: "HF Trainer 5.23.0"; NULL: nothing */
    const char *host;   /* "" when unknown */
    const char *command; /* as one types it; NULL when unknown */
    const char *ended;   /* how the main process ended, "" when unknown */
    bool live;           /* the file is still being written */
    const char
        *window; /* the part of the run that was looked at: "steps 421 to 450"; NULL: all of it */
    int64_t part_start,
        part_end; /* of that part, ns of the file; part_end INT64_MAX: to the end of the run */
    int64_t processes, ranks, threads; /* ranks: processes that marked steps */
    struct an_count exit_status;
    struct an_count cores;      /* cores the target may use */
    struct an_value duration_s; /* first to last thing recorded */
    const struct an_key *keys;  /* all rows of `run`, by key */
    size_t key_count;
};

/* ---- steps -------------------------------------------------------------------------------------------------------------- */

enum an_confidence { AN_LOW, AN_MEDIUM, AN_HIGH };

struct an_step_exclusion {
    int64_t rank, index; /* rank: process rank, or its ordinal among processes with steps */
    double ms;           /* NAN when the step has no end */
    const char *reason;  /* "first", "last", "compile", "no end", "overlap" */
};

struct an_step_outlier { /* counted in the statistics, listed for the reader */
    int64_t rank, index;
    double ms, score;  /* modified z-score: 0.6745 * (x - median) / MAD */
    const char *cause; /* the range that was longest beyond its usual time; NULL: not known */
    double cause_ms;   /* by so much */
};

/* Steps of one size (tokens, else FLOPs), when sizes vary. */
struct an_step_group {
    struct an_count tokens;
    int64_t count;
    double median_ms;
};

struct an_steps {
    const char *source; /* "tacho.step", "ProfilerStep", "Optimizer.step", "nvtx:NAME", ...;
                           NULL = no steps were found */
    /* How sure it is that these are the steps: high where ranges mark them, medium where optimizer
     * kernels follow backward work, low where nothing shows backward work. */
    enum an_confidence confidence;
    const char *reason; /* why there are none, and what to do; NULL when there are */
    int64_t count;      /* complete steps found */
    int64_t counted;    /* of these, in the statistics */
    int64_t lanes;      /* ranks, or devices or threads of one process, that have counted steps */
    int64_t of_a_lane;  /* how many each of them has; 0: they have not equally many */
    int64_t paused;     /* of the counted, run with recording paused */
    int64_t detailed;   /* of the counted, with all their parts in the file: the base of budget and
                           utilization */
    int64_t first_index, last_index; /* of the counted */
    struct an_value median_ms, mean_ms, p95_ms, min_ms, max_ms, sd_ms;
    struct an_value host_median_ms; /* the host step; equals the step on a CPU */
    int64_t micro_steps; /* marked ranges, or backward passes of PyTorch, that make one step:
                            gradient accumulation; 0: one */
    const char *note;    /* what the reader should know of these steps, NULL: nothing */
    struct an_value tokens_per_s,
        samples_per_s; /* sum of tokens / sum of step time, added over ranks */
    struct an_value tokens_per_step, samples_per_step;
    struct an_value between_ms; /* mean time between a step and the next one that no phase covers */
    const struct an_step_exclusion *excluded;
    size_t excluded_count;
    struct an_step_outlier *outliers;
    size_t outlier_count;
    const struct an_step_group *groups; /* empty unless sizes vary */
    size_t group_count;
};

/* ---- phases ------------------------------------------------------------------------------------------------------------- */

struct an_phase {
    const char *name; /* "evaluation", "checkpoint", "compile" */
    int64_t count;
    double wall_ms;    /* union over the run, any thread */
    double exposed_ms; /* the part on the threads that run steps: what the run waited for */
    /* On the thread of steps that waited longest: that time, how often and its standard deviation
     * (NAN for one), and the time from the first step or phase to the last one's end. */
    double lane_ms, lane_sd_ms, lane_run_ms;
    /* Of the mean phase: what 95 % of the segments of neighbouring phases take on average. */
    double lane_segment_low, lane_segment_high;
    int64_t lane_count;
};

/* ---- budget ------------------------------------------------------------------------------------------------------------- */

/* Classes of a step's time in the order of docs/definitions.md: enum, key, what the reader sees */
#define AN_CLASS_MAP(X) \
    X(COMPUTE, compute, "compute") \
    X(COMM, exposed_comm, "exposed communication") \
    X(BUBBLE, bubble, "pipeline bubble") \
    X(COPY, exposed_copy, "exposed copies") \
    X(INPUT, input, "data wait") \
    X(IO, io, "I/O of asynchronous phases") \
    X(HOST, host, "host: framework and other ranges") \
    X(UNATTRIBUTED, unattributed, "unattributed")

enum an_class {
#define AN_CLASS_ENUM(name, key, text) AN_CLASS_##name,
    AN_CLASS_MAP(AN_CLASS_ENUM)
#undef AN_CLASS_ENUM
        AN_CLASS_COUNT
};
#define AN_EACH_CLASS(index) for (int index = 0; index < AN_CLASS_COUNT; index++)

/* Shares of the step. Absent classes hold no time: the valid ones sum to 100. ns: exact, the valid
 * ones sum to step_ns. */
struct an_budget {
    const char *reason; /* why there is no budget; NULL when there is */
    struct an_value pct[AN_CLASS_COUNT];
    struct an_count ns[AN_CLASS_COUNT]; /* summed over the steps of the budget */
    int64_t step_ns;                    /* sum of their durations, phases cut out */
    int64_t phase_ns;                   /* what was cut out of them */
    int64_t steps;
    bool roles_known; /* false: no range says what it is, "host" is time in ranges of any kind */
};

struct an_device_budget {
    int64_t rank, process;
    const char *device, *host; /* "cpu", "" when unknown */
    struct an_budget budget;
    bool worst; /* smallest share of compute */
};

/* ---- utilization -------------------------------------------------------------------------------------------------------- */

struct an_utilization {
    /* Per step, summed over ranks: exact; the rounded mean where steps differ (flops_vary). */
    struct an_count model_flops_per_step, hardware_flops_per_step, palm_flops_per_step;
    struct an_count model_flops, hardware_flops, palm_flops; /* of all steps the budget stands on */
    bool flops_vary;
    struct an_value mfu, mfu_palm, hfu, mfu_measured;
    struct an_value achieved_flops; /* hardware FLOP/s in steps */
    const char *dtype;              /* "fp32", "bf16+fp32", NULL = unknown */
    const char *dtype_reason;
    struct an_value peak_flops; /* all devices; of mixed types: the mean weighted by FLOPs */
    const char *peak_source;    /* "measured: ...", "datasheet", "--peak"; NULL = unknown */
    struct an_value roof_measured_flops; /* all devices, as peak_flops */
    const char *roof_source;             /* "measured: ...", "this run: ..."; NULL = unknown */
    struct an_count recomputed_flops,
        recomputed_flops_per_step; /* of the hardware FLOPs, those of recomputation passes */
    struct an_value flop_coverage_pct;
    const char *const *uncounted; /* operators that ran and that no convention counts, by name */
    size_t uncounted_count;
};

/* ---- ops ---------------------------------------------------------------------------------------------------------------- */

/* One name, category and kind over all threads of the recorded steps (of the whole run where there
 * are no steps). */
struct an_op {
    const char *name, *category, *kind, *pass; /* kind: "matrix", "input_wait" ... or "" */
    int64_t count, total_ns, self_ns;
    struct an_count min_ns, max_ns;
    struct an_value mean_us, sd_us, share_pct; /* share: self time of all threads' self time */
    struct an_value flops_per_s, bytes_per_s;  /* total of the payloads / total time */
    struct an_count flops, bytes;              /* of all calls */
};

/* ---- roofline ----------------------------------------------------------------------------------------------------------- */

/* A point on the roofline: one op (or kernel) of one type and pass over the steps. Where its shapes
 * differ in intensity, one point for each class of shapes. */
struct an_roofline_point {
    const char *name, *dtype;
    const char *pass,
        *kind; /* "forward" ... "recompute"; "matrix", "attention", "convolution", "other"; or "" */
    bool product; /* matrix, attention, convolution: may run on matrix units */
    int64_t count, flops, bytes,
        time_ns;    /* time: union of its kernels; on the CPU of its ranges on one machine */
    int64_t shapes; /* of its calls, distinguished by FLOPs and bytes */
    struct an_count flops_per_call, bytes_per_call;
    double intensity, achieved_flops;
    double attainable_flops; /* NAN: no peak is known for its type */
    double peak_flops;       /* of its arithmetic, 0: not known */
    /* "compute", "memory"; above their roof: "cached" (of the memory, with bytes of a model),
     * "reduced" (a convolution with fewer multiplications than are counted), "impossible"; NULL:
     * not known */
    const char *bound;
    /* "dram": bound by memory; "l3", "l2", "l1": cached, and below the roof of that level; NULL:
     * see the reason */
    const char *level;
    const char *level_reason;
    bool bytes_measured;
};

/* ---- other tools' arithmetic -------------------------------------------------------------------------------------------- */

/* Another tool's arithmetic, for people who compare. */
enum an_compat {
    AN_COMPAT_NONE,
    AN_COMPAT_TRACELENS,
    AN_COMPAT_HTA,
    AN_COMPAT_HTA_LAST,
    AN_COMPAT_TB
};
struct an_compat_row {
    int64_t rank, device; /* STORE_ABSENT: all */
    const char *section, *key, *unit;
    double value;
};
struct an_compat_table {
    const char *tool;   /* "TraceLens gpu_timeline" ..., NULL: not asked for */
    const char *reason; /* why it is empty */
    const struct an_compat_row *rows;
    size_t row_count;
};

/* ---- loader ------------------------------------------------------------------------------------------------------------- */

struct an_stage {
    const char *name; /* "read", "decode", "collate", "queue_wait" */
    struct an_value ms_per_batch;
    int64_t count;
};

/* A thread or process other than the step's that runs loader stages. */
struct an_loader_worker {
    const char *name;
    int64_t rank, process;    /* rank of the loader it belongs to; its own pid */
    int64_t batches;          /* it made in the steps of the budget */
    struct an_value busy_pct; /* of the time of these steps in stages, without queue_wait */
};

/* The loader of one rank. */
struct an_loader_rank {
    int64_t rank;
    struct an_value wait_ms_per_step, expected_wait_ms_per_step;
    struct an_value batches_per_step, batch_ms, quick_batch_ms;
    struct an_count workers, workers_needed;
    struct an_value pipeline_samples_per_s, compute_samples_per_s;
};

struct an_loader {
    const char *reason; /* why there is nothing about a loader */
    const char
        *source; /* "tacho.range", "enumerate(DataLoader)", "gaps": inferred; NULL with a reason */
    struct an_value wait_ms_per_step;
    struct an_value
        inferred_wait_ms_per_step; /* no marker: a guess from gaps, and an upper bound */
    struct an_value expected_wait_ms_per_step; /* what the batch time and the number of workers
                                                  give: docs/loader.md */
    const struct an_stage *stages;
    size_t stage_count;
    const char *worker_kind; /* "threads", "processes", "in line"; NULL: not known */
    struct an_count
        workers; /* of one rank, the most of all: threads or processes that run loader stages */
    struct an_value worker_busy_pct; /* mean over workers */
    struct an_value queue_depth_mean;
    struct an_value batches_per_step,
        batch_ms; /* batch_ms: worker time of a batch without waiting for room in the queue */
    struct an_value quick_batch_ms; /* of that what a tenth of the batches kept */
    struct an_count
        workers_needed; /* of one rank, the most of all; at most what the free cores can do */
    struct an_count workers_wanted; /* the same without that limit */
    const char
        *serial; /* "storage", "pin", "interpreter": the serial stage that binds; NULL: none */
    struct an_value pipeline_samples_per_s,
        compute_samples_per_s;        /* what the loader, what the rest of the step can do */
    struct an_value read_bytes_per_s; /* asked for by the stage read */
    struct an_value device_bytes_per_s,
        access_ratio; /* from storage; of the measured sequential rate: F_access, 0..1 */
    int64_t batches;
    const struct an_loader_rank *ranks;
    size_t rank_count;
    const struct an_loader_worker *worker; /* by rank, process and name */
    size_t worker_count;
};

/* ---- communication ------------------------------------------------------------------------------------------------------ */

/* One kind of collective on one communicator. Times are means of a call, bytes as nccl-tests counts
 * them. */
struct an_collective {
    const char *name; /* "all_reduce"; of device kernels without a payload their name */
    struct an_count communicator, ranks; /* ranks: size of the communicator */
    int64_t count;                       /* calls, all ranks */
    int64_t matched; /* of these, in collectives of which every rank is in the file */
    struct an_value calls_per_step, bytes_per_step;      /* of a rank */
    struct an_value bytes_per_call, bytes_max_over_mean; /* the latter over ranks: 1 is even */
    struct an_value mean_ms, transfer_ms, waiting_ms;
    struct an_value algorithm_bytes_per_s, bus_bytes_per_s;
    const char *bandwidth_of; /* "transfer", "time": of the whole call, waiting included; NULL: no
                                 bandwidth */
};

/* One rank; ms of a step where nothing else is said. */
struct an_comm_rank {
    int64_t rank;
    struct an_value total_ms, exposed_ms, overlap_pct;
    struct an_value transfer_ms, waiting_ms, exposed_transfer_ms, exposed_waiting_ms;
    struct an_value last_pct;  /* of the matched collectives, those for which it came last */
    struct an_value caused_ms; /* waiting of the other ranks for it */
};

#define AN_TRAFFIC_ROWS 64

/* From a row of ranks to another one, in a step of the run. */
struct an_link {
    size_t from, to;            /* rows */
    int64_t from_rank, to_rank; /* the first of each */
    double bytes, messages;
    double recorded; /* of the bytes: what sends and receives say; the rest is by formula */
};

/* Who sends how much to whom, in the counted steps. Sends and receives say it; what collectives
 * send is what a ring sends of their bytes (an all-to-all: each to each), which the library may do
 * otherwise. Of more ranks than AN_TRAFFIC_ROWS neighbours make a row. */
struct an_traffic {
    const char *reason;  /* why it is not known */
    const int64_t *rank; /* first rank of each row */
    size_t rows;
    int64_t ranks, ranks_a_row, last_rank, steps;
    const struct an_link *link; /* that are used, by rows; a row to itself: its ranks among them */
    size_t link_count;
    double bytes, recorded; /* of all links, in a step */
    double unplaced;        /* bytes in a step of calls whose peers are not known */
};

struct an_communication {
    const char *reason;             /* why there is nothing about communication */
    struct an_value bytes_per_step; /* of a rank; so is all below: mean over ranks, ms of a step */
    struct an_value total_ms, exposed_ms, overlap_pct;
    struct an_value transfer_ms,
        waiting_ms; /* sums over calls: own time of the call = transfer + waiting */
    struct an_value exposed_transfer_ms,
        exposed_waiting_ms; /* parts of exposed_ms; the rest is neither */
    struct an_value blocking_proven_ms, blocking_inferred_ms, blocking_unknown_ms;
    struct an_value skew_ms; /* last start - first start of a collective, mean */
    int64_t calls, matched;  /* of all ranks in counted steps; in collectives that every rank of the
                                communicator took part in */
    const char *missing; /* which ranks are not in the file; NULL: none is known to be missing */
    const struct an_collective *collectives; /* by time, largest first */
    size_t collective_count;
    const struct an_comm_rank *ranks;
    size_t rank_count;
    struct an_traffic traffic;
};

/* ---- system ------------------------------------------------------------------------------------------------------------- */

struct an_system {
    const char *reason;               /* no system layer in the file */
    struct an_value cpu_cores;        /* mean number of cores busy with the target */
    struct an_value machine_busy_pct; /* of all CPUs, whoever uses them */
    struct an_value
        other_cores; /* mean number of CPUs busy with other programs while counted steps ran */
    struct an_value
        cpu_wait_pct; /* of the time of counted steps: their thread was ready and had no core */
    /* Of that time: other programs had the core (mean, 95 % interval over time), and what the run
     * would have waited on free cores, too, because it has more threads than cores. */
    struct an_value others_lost_pct, others_lost_low_pct, others_lost_high_pct, own_wait_pct;
    struct an_value others_present_pct; /* of that time others used more than a quarter of a core */
    /* The smallest CPU quota of the control groups of the processes that run steps, in cores.
     * Absent where none limits them (cpu_unlimited), and where that is not known. */
    struct an_value cpu_quota;
    bool cpu_unlimited;
    /* Of the time of counted steps: the quota was spent and their thread could not run (mean, and
     * an interval that holds what other programs may have taken as well); core time that was
     * refused for it / that time. 0 without a quota. */
    struct an_value throttled_pct, throttled_low_pct, throttled_high_pct, throttled_cores;
    struct an_value rss_peak_bytes;
    struct an_value read_bytes, write_bytes; /* to and from storage */
    struct an_value minor_faults, major_faults;
    struct an_value voluntary_switches, involuntary_switches;
    struct an_value instructions_per_cycle;
};

/* Waiting for memory while counted steps ran: reclaim, pages that had to be read again, swap. */
struct an_pressure {
    const char *reason; /* the kernel's account of it (PSI) was not sampled */
    const char *scope;  /* whose tasks: "the control group of the run", "the machine" */
    struct an_value some_pct, full_pct; /* of the time: some task, all tasks that had work */
    struct an_value major_faults;       /* a counted step, of the processes that run steps */
    struct an_value limit_hits;         /* times the group reached its limit */
    struct an_value kills;              /* processes that the kernel killed for memory */
    struct an_value swap_in_bytes;      /* of the machine */
    struct an_count limit_bytes;        /* of the control group */
    bool plenty; /* no limit was reached, and a tenth of the machine's memory was never used */
};

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

/* What the program counts under one name (counters memory.NAME), added over processes. */
struct an_memory_tag {
    const char *name; /* "parameters", "activations" ...; of an allocator "allocated", "reserved" */
    const char *device;        /* "cpu", "gpu:0" */
    int64_t current, peak;     /* bytes: last value; largest value that was sampled */
    struct an_value share_pct; /* of what is counted now */
    int64_t rank_peak;         /* bytes: the largest process's */
    struct an_count rank;      /* its rank */
};

/* A quantity that is followed over the counted steps of one process: mean change a step, with a 95
 * % interval. */
struct an_growth {
    struct an_value bytes_per_step, low, high;
    bool grows; /* the interval lies above 0, and what was added is worth a word */
    int64_t first_step, last_step;
};

struct an_memory {
    const char *reason;               /* the program counts nothing: what to emit */
    const char *source;               /* "memory.* counters", "torch allocator" */
    const struct an_memory_tag *tags; /* largest first */
    size_t tag_count;
    int64_t processes;               /* that count */
    struct an_count total_bytes;     /* counted now, all processes */
    struct an_count peak_bytes;      /* sum over processes of the highest total */
    struct an_count rank_peak_bytes; /* the largest process's */
    struct an_count rank;            /* its rank */
    struct an_count batch_bytes; /* activations and workspace: what grows with the micro-batch */
    struct an_count resident_peak_bytes; /* of the system layer, all processes */
    struct an_count uncounted_bytes;     /* resident peak - counted peak */
    struct an_count capacity_bytes;      /* of the machine, or of the device with the least room */
    struct an_count room_bytes;          /* capacity - what the run needs */
    const char *room_device;             /* "gpu:1": whose capacity and room; NULL: the machine's */
    struct an_growth growth;             /* of the counted totals, the one that grows fastest */
    struct an_growth resident_growth;    /* of the resident set, the same */
};

/* Memory that a process keeps from step to step; of several, the fastest. */
struct an_leak {
    const char *reason; /* no process could be judged: why */
    bool found;
    const char *what;   /* "anonymous memory", "tracked memory", "memory of the device" */
    const char *device; /* "gpu:0"; NULL: `no_device` says why */
    const char *no_device;
    int64_t pid;
    struct an_count rank;
    struct an_value bytes_per_step, low, high; /* low, high: one-sided 95 % limits */
    struct an_value steps_left;                /* until no memory is free */
    int64_t first_step, last_step;
};

/* ---- allocator of a device ---------------------------------------------------------------------- */

/* Who holds memory at the peak, or what grows: a place in the program, or a category. */
struct an_holder {
    const char *name, *category;
    int64_t bytes, blocks;
};

/* What another setting of the allocator would have given for the recorded allocations. */
struct an_allocator_setting {
    const char *setting; /* as PYTORCH_CUDA_ALLOC_CONF takes it; "as recorded" */
    int64_t reserved_peak, requests;
    struct an_value saved_pct; /* of the recorded peak of reserved bytes */
    const char *fits;          /* "yes", "no": the request that failed; NULL: none did */
};

struct an_allocator_device {
    int64_t device, events;
    int64_t requested_peak, allocated_peak, reserved_peak; /* bytes */
    int64_t peak_time;                                     /* ns, of requested_peak */
    int64_t requested, allocated, reserved;                /* at the end */
    int64_t segments, free, largest_free, inactive_split;
    struct an_value fragmentation; /* 1 - largest free / all free */
    int64_t failed;                /* requests that ran out of memory */
    int64_t failed_bytes;          /* of the first one */
    int64_t replayed, matched;     /* allocations of the replay; those at the recorded address */
    bool exact;                    /* the replay gives every address and segment as recorded */
    const struct an_allocator_setting *setting;
    size_t setting_count, best; /* best: SIZE_MAX: none saves anything */
    const struct an_holder *category, *holder, *leak;
    size_t category_count, holder_count, leak_count;
    struct an_count pool, pool_bound; /* bytes of one pool that is laid out ahead of time */
    /* Places that ask for a block just before one of the same size is given back. */
    const struct an_holder *in_place;
    size_t in_place_count;
    int64_t in_place_saved; /* bytes of requested_peak, if all took over that memory */
};

struct an_allocator {
    const char *reason; /* NULL: there are devices */
    const struct an_allocator_device *device;
    size_t device_count;
};

/* ---- flight recorder ---------------------------------------------------------------------------- */

/* A group of ranks and how far each has come in its sequence of collectives. */
struct an_flight_group {
    const char *name;
    int64_t ranks, seen;                   /* of the group; of which there is a dump */
    int64_t completed_low, completed_high; /* of the ranks; -1: none */
    const char *behind;                    /* ranks with the lowest number: "3", "0-2,5" */
    bool absent;                           /* these never issued the one that the others wait in */
    const char *missing;                   /* ranks without a dump; "" */
    int64_t stuck; /* number of the collective that the others wait in; STORE_ABSENT: none */
    const char *stuck_name, *stuck_at; /* what it is, and where the program called it; "" */
    const char *mismatch; /* what differs between the ranks at one number; NULL: nothing */
};

struct an_flight {
    const char *reason;
    const struct an_flight_group *group;
    size_t group_count;
    const char *sentence; /* which rank hangs, "" if none does */
};

/* A quantity the target counted: loss, learning rate ... */
struct an_series {
    const char *name, *unit;
    int64_t count;
    double first, last, min, max, mean;
};

/* ---- critical path ------------------------------------------------------------------------------------------------------- */

/* How a segment of the path is tied to what follows it: by an edge of the file, by times only, not
 * at all */
enum an_path_how { AN_PATH_RECORDED, AN_PATH_INFERRED, AN_PATH_GAP };

/* What the path spends its time with. Exact: the ns sum to length_ns. */
struct an_path_cause {
    const char *key, *text; /* "compute" ...: AN_CAUSE_MAP of graph.h */
    int64_t ns;
    struct an_value pct;            /* of length_ns */
    struct an_value step_median_ms; /* median over the steps of the windows */
};

struct an_path_op {
    const char *name;  /* of a kernel or of the innermost range of a thread */
    const char *cause; /* key of the cause */
    const char *where; /* "gpu:0", "cpu" */
    int64_t count, ns; /* segments of the path */
    struct an_value pct;
};

/* One segment of a path, for exports: in order of window and time. */
struct an_path_row {
    int64_t start_ns, end_ns; /* as in the file */
    int64_t track;            /* id in the file; STORE_ABSENT: a gap */
    int64_t range_start_ns,
        range_end_ns;                /* of the innermost range or device op; STORE_ABSENT: none */
    const char *name, *cause, *link; /* link: the dependency of the next segment, "launch" ... */
    enum an_path_how how;
    size_t window;
};

struct an_critical_path {
    const char *reason; /* why there is none; NULL when there is */
    const char *doubt;  /* why it must not be read as the cause; NULL: it may */
    /* Pieces of threads inside a range, without any call that waits, that end with the work
     * which the device had been given: taken as waits for it. The longest one's range. */
    int64_t suspected_count, suspected_ns;
    const char *suspected_name; /* NULL: none */
    int64_t rank; /* of the lane whose windows these are; the path may lead over other ranks */
    const char *device; /* "gpu:0", "cpu" */
    int64_t windows, steps;
    struct an_count window_ns, length_ns; /* equal: the path covers the windows */
    struct an_value explained_pct, recorded_pct, inferred_pct, gap_pct, think_pct;
    const struct an_path_cause *causes; /* with time, largest first */
    size_t cause_count;
    const struct an_path_op *ops; /* largest first */
    size_t op_count;
    const struct an_path_row *rows; /* empty unless asked for (an_options.path) */
    size_t row_count;
    struct an_path_step step; /* pictures.h */
};

/* ---- call stacks --------------------------------------------------------------------------------------------------------- */

/* A function of the sampled stacks, over all threads. */
struct an_function {
    const char *name;    /* "[libc.so.6]": a file without a symbol there; "[unknown]"; "[kernel]" */
    int64_t self, total; /* samples in it; in it or in what it calls */
    struct an_value self_pct, total_pct; /* of all samples */
};

struct an_stack_samples {
    const char *reason; /* why there are none: what to do */
    struct an_count samples;
    struct an_value period_us,
        cpu_s; /* CPU time between two samples of a thread; samples x period */
    const char *how,
        *kernel; /* how stacks were found; whether time in the kernel was sampled; "" not known */
    struct an_flame flame;
    const struct an_function *function; /* by self, largest first */
    size_t function_count;
};

/* Modules of a model that have one key in common: a pattern, a class or a depth. Of a step, mean
 * over all ranks; what is inside of other modules counts there as well (total). */
struct an_module_row {
    const char *name; /* "blocks.*.mlp.0 (Linear)", "Linear", "depth 3" */
    int64_t modules;  /* different ones */
    int64_t steps; /* that record them, the fewest of a module: what follows are means over them */
    double calls, total_ms;
    struct an_value own_ms;
};
struct an_modules {
    const char *reason;     /* why there are none */
    int64_t steps;          /* counted ones of all ranks */
    struct an_count levels; /* that all of them record, the module that is called first being 1 */
    const char *left_out;   /* which levels are not recorded, and why; NULL: all are */
    const struct an_module_row *pattern, *class, *depth;
    size_t pattern_count, class_count, depth_count;
};

/* A line of Python code that was being executed, over the looks at the threads that run steps. */
struct an_python_line {
    const char *function, *file; /* "Trainer.augment", "/data/me/train.py" */
    int64_t line;
    bool program;        /* of the program itself: no library of Python's, no installed package */
    int64_t self, total; /* looks at it as the innermost frame; as any frame */
    int64_t busy;        /* of `total`: in time of other classes than host and unattributed */
    int64_t own;         /* looks in which it was the innermost line of the program itself */
    int64_t host;        /* of `own`: in time of the class host or in unattributed time */
    int64_t plain;       /* of `host`: neither in code of a framework that the line called
                             nor waiting for a core */
    int64_t asleep;      /* of `plain`: while the thread slept */
    int64_t fetch;       /* looks in which it was that while a loader of PyTorch made a batch,
                             asleep or not: on the step's thread in time of the class input */
    struct an_value self_pct, total_pct, own_pct, host_pct; /* of the steps' looks */
};

/* What the threads did in some of the looks: shares of these. */
struct an_python_states {
    int64_t looks;
    struct an_value share_pct; /* of the looks inside of steps */
    struct an_value running_pct, runnable_pct, asleep_pct;
};

/* What Python was doing, by its frames (tacho run --python-hz). */
struct an_python {
    const char *reason;          /* why it is not known: what to do */
    const char *how;             /* "sampled: frames of Python 3.12" */
    const char *window;          /* "steps 4-19", or "the whole run" without steps */
    struct an_count looks, torn; /* inside of steps; left out because the thread changed */
    struct an_value hz;          /* looks a second, mean */
    struct an_python_states all, unattributed; /* unattributed: of that class of the step budget */
    int64_t busy;  /* looks in time of other classes than host and unattributed */
    int64_t plain; /* looks in host and unattributed time at which the thread did not wait for a
                      core, whatever code it was in */
    const struct an_python_line *line; /* by own, then self, largest first */
    size_t line_count;
    struct an_count worker_looks;        /* at processes that run no steps: workers of loaders */
    const struct an_python_line *worker; /* their lines, of looks in which they did not sleep */
    size_t worker_count;
    size_t worker_asleep_count; /* with the lines that follow, at which they only slept */
    const char *holder; /* "batches (train.py:12)": the function, or lines of the loop, in which at
                           least half of the unattributed time is spent; NULL: none */
};

/* ---- findings ----------------------------------------------------------------------------------------------------------- */

struct an_gain {
    struct an_value low, expected, high; /* per cent more samples/s for the whole run */
    bool ceiling;                        /* high is an upper bound; no expected value is claimed */
};

/* What an edit of the dependency graph makes of the step (docs/advise.md). */
struct an_what_if {
    const char
        *edit; /* as in --what-if: "comm=0.5x"; several joined with commas were replayed together */
    const char *of;        /* the finding it comes from, NULL: none */
    const char *reason;    /* why nothing is predicted; NULL */
    const char *unknown;   /* the part of it that names nothing of this run; NULL */
    const char *known;     /* names of that kind that the run does have; NULL: none */
    const char *ceiling;   /* why no value is expected; NULL: one is */
    const char *condition; /* what the interval assumes; NULL: nothing */
    const char *conflicts; /* findings whose joint gain gets lower with it; NULL: none */
    bool of_mean;          /* the gain is that of the mean step, not of the median one */
    struct an_value step_ms, step_low_ms, step_high_ms;
    struct an_gain gain;
};

/* By how much the step gets faster when 1 % of some work goes. */
struct an_sensitivity_row {
    const char *key;         /* as in --what-if: "op:matrix", "loader.decode", "launch" */
    double path_ms;          /* path_pct of the median step */
    double path_pct;         /* of the replayed time that it takes on the longest path */
    double gain_pct;         /* of the step per 1 % reduction of it */
    struct an_value work_ms; /* of it a step, wherever it runs; of latencies not known */
};

/* What the cores of a host are asked for while the replayed steps run (docs/advise.md): means over
 * time and hosts. */
struct an_core_use {
    struct an_value cores;     /* that the run may use */
    struct an_value wanted;    /* by its threads that are ready, as if each had what it asks for */
    struct an_value used;      /* CPU time of its processes / time */
    struct an_value others;    /* wanted by other programs: what the run's threads felt of them */
    struct an_value short_pct; /* of the time: more is wanted than there is */
    struct an_value slowdown_pct; /* by so much longer the work on threads took than alone */
};

/* The replay of the dependency graph, and what follows from it. */
struct an_advice {
    const char *reason; /* why nothing was replayed; NULL when it was */
    int64_t steps, nodes;
    struct an_value step_ms;        /* the recorded median */
    struct an_value base_error_pct; /* sum of replayed steps / sum of recorded ones - 1 */
    struct an_value unmatched_pct;  /* odd and even steps: own work of nodes without a partner */
    struct an_value think_pct;      /* of the steps, on the threads that run them: outside of every
                                       range, replayed as recorded */
    struct an_value held_pct;       /* the same: in waits that no recorded release ends */
    int64_t stretch_steps; /* how far the run differs from itself: of runs of so many steps in
                              a row 95 % lie between */
    struct an_value stretch_low_pct, stretch_high_pct;
    struct an_core_use cores;
    struct an_what_if *edits; /* of findings, by gain; with --what-if the user's, as they came */
    size_t edit_count;
    struct an_what_if together;            /* edit NULL: fewer than two */
    const struct an_sensitivity_row *rows; /* by gain, largest first */
    size_t row_count;
    const char *no_rows; /* why sensitivities are not known although there is a replay; NULL */
};

/* % of a step: a smaller difference cannot be told from noise; and what is worth trying although it
 * may be nothing. */
#define AN_NOISE_PCT 2.0
#define AN_TRY_PCT   5.0

/* How a finding is listed. Only RANKED ones claim a gain for the same training. */
#define AN_LISTED_MAP(X) \
    X(RANKED, "ranked", "What to change") \
    X(MEASURE, "worth measuring", "Worth measuring: may gain nothing") \
    X(CHANGES, "changes the training", \
      "Changes the training: throughput only; convergence not measured") \
    X(GAP, "gap", "Without a predicted gain")
enum an_listed {
#define AN_LISTED_ENUM(name, key, text) AN_LISTED_##name,
    AN_LISTED_MAP(AN_LISTED_ENUM)
#undef AN_LISTED_ENUM
        AN_LISTED_COUNT
};

struct an_finding {
    const char *id; /* stable: "UNATTRIBUTED" */
    const char *claim;
    const char *evidence[5]; /* with units and window; NULL-terminated unless full */
    const char *action;
    struct an_gain gain;
    const char *method; /* how the gain was computed */
    const char *effort;
    enum an_confidence confidence;
    const char *verify, *wrong_when;
    /* What of the training it changes ("the global batch"): then only its throughput is known.
     * NULL: batch, samples, precision, optimizer and schedule stay as they are. */
    const char *changes;
    /* What to change in the command or the environment, as analyzers/steps/change.h has it; NULL:
     * no option does it. */
    const char *setting;
    const char *what_if; /* the same as an edit of the dependency graph; NULL: there is none */
    bool certain; /* what the claim says was tested; only how much of it the step gets back is open
                   */
    bool fault;   /* a wrong setting whose cost is not known, or what ends the run: goes first */
    bool bound;   /* of the edit: it takes away all that the change could at best */
    struct an_what_if replay; /* what_if replayed, with the gain above; edit NULL: it was not */
    const char *repeats; /* id of an earlier finding that says the same, with less of the evidence:
                            a short list has that one only; NULL: none does */
    bool while_others; /* the gain spans the replay with what other programs took, and without it */
};

/* ---- trust -------------------------------------------------------------------------------------------------------------- */

struct an_loss {
    const char *source, *reason;
    struct an_count count;
    bool lost; /* an event is missing; false: paused on purpose, cut by a limit the user set, or
                  only a name was cut */
    double t0_s, t1_s; /* since the run's start, NAN = unknown */
};

/* A hardware counter that is missing or limited: "denied", "not supported", "multiplexed 60 %". */
struct an_gap {
    const char *name, *status;
};

/* Events that a rank lost, or a process without a rank. */
struct an_process_loss {
    bool is_rank;
    int64_t number;       /* of the rank, or pid */
    int64_t lost, events; /* events: in the file */
    double pct;           /* lost of both */
};

struct an_trust {
    int64_t events; /* slices and counter values in the file */
    struct an_count lost_events;
    struct an_value lost_pct; /* of the program's events; samples of tacho's own are none */
    const struct an_process_loss *by_process;
    size_t by_process_count;
    const char *missing;          /* heavy loss in words (docs/definitions.md); NULL: none */
    const char *missing_why;      /* reason of the main loss of events; NULL: none was lost */
    struct an_value overhead_pct; /* median step recorded / median step paused - 1 */
    struct an_value overhead_low_pct, overhead_high_pct; /* 95 % bootstrap interval */
    struct an_value replay_error_pct;
    const char *replay_error_because; /* what is known to disturb the replay; NULL: nothing */
    int64_t open_ranges;              /* ranges without an end */
    const char *source;               /* "tacho", "kineto", "nsight": who recorded it */
    const char
        *tool; /* the foreign profiler and its version as the trace says it; "" when unknown */
    const char *clock;   /* "tsc", "monotonic" ...; "" when unknown */
    const char *version; /* tacho that recorded; "" when unknown */
    const char *ended; /* how the recording ended: "complete", "still running", "recovered: ..." */
    const struct an_loss *losses;
    size_t loss_count;
    const struct an_gap *gaps;
    size_t gap_count;
    const char *const
        *problems; /* sentences: what in the file contradicts itself (counting errors, odd times) */
    size_t problem_count;
};

/* A check that applies to the run and could not be made. */
struct an_not_checked {
    const char *check, *reason, *to_check; /* to_check: what to do or to type */
};

struct an_samples; /* values of each step: diff.h */

/* ---- all of it ---------------------------------------------------------------------------------------------------------- */

struct an_result {
    const char *verdict;       /* one sentence with number and confidence */
    const char *verdict_class; /* "COMPUTE-BOUND", "INPUT-BOUND", "NO STEPS" ... */
    const char *caution; /* what makes the run a bad witness, for the head of every report; NULL:
                            nothing known */
    bool healthy;        /* nothing was found, and every check that applies was made */
    const char *const *checked; /* what was looked at without a finding */
    size_t checked_count;
    const struct an_not_checked *not_checked;
    size_t not_checked_count;
    struct an_run run;
    struct an_steps steps;
    struct an_budget budget; /* mean over devices */
    const struct an_device_budget *devices;
    size_t device_count;
    const struct an_phase *phases;
    size_t phase_count;
    struct an_utilization utilization;
    struct an_critical_path critical_path;
    struct an_stages stages; /* ranks.h */
    struct an_ranks ranks;   /* ranks.h */
    struct an_advice advice;
    const struct an_step_point *step_points; /* pictures.h */
    size_t step_point_count;
    struct an_timeline timeline;
    struct an_events events;
    const struct an_curve *curves; /* pictures.h: by quantity */
    size_t curve_count;
    struct an_heat heat;
    struct an_flame flame;
    struct an_stack_samples stacks;
    struct an_python python;
    struct an_modules modules;
    struct an_memory memory;
    struct an_leak leak;
    struct an_allocator allocator;
    struct an_flight flight;
    struct an_energy energy;
    struct an_part hardware; /* what is sampled of GPUs */
    const struct an_gpu_hardware *hardware_gpus;
    size_t hardware_gpu_count;
    struct an_part gpu; /* accelerators: reason NULL when the run has some */
    const struct an_gpu_device *gpus;
    size_t gpu_count;
    struct an_part absence;
    const struct an_absent *absent; /* a row a device, or a row a thread that runs steps */
    size_t absent_count;
    struct an_launches launches;
    struct an_part copies, syncs;
    const struct an_copy_row *copy;
    size_t copy_count;
    const struct an_sync_row *sync;
    size_t sync_count;
    struct an_precision precision;
    struct an_kernel_bounds bounds;
    struct an_dataflow dataflow; /* dataflow.h */
    struct an_quality quality;
    struct an_attribution attribution[4]; /* op, module, line, annotation */
    struct an_part counted; /* ranges that the hardware counted, by rank, the longest first */
    const struct an_range_counted *ranges_counted;
    size_t range_counted_count;
    struct an_part roofline;
    const struct an_roofline_point *points;
    size_t point_count;
    struct an_compat_table compat;
    const struct an_samples *samples; /* diff.h; NULL: not asked for */
    struct an_loader loader;
    struct an_communication communication;
    struct an_system system;
    struct an_pressure pressure;
    const struct an_series *series;
    size_t series_count;
    const struct an_op *ops; /* by self time, largest first */
    size_t op_count;
    const char *ops_window; /* what the ops table covers: "20 recorded steps", "the whole run" */
    const struct an_finding *findings; /* at most five, by global gain */
    size_t finding_count;
    const struct an_ceiling *ceilings;
    size_t ceiling_count;
    struct an_trust trust;
    struct an_arena *arena; /* private: owns everything above */
};

struct an_ceiling {
    const char *device, *resource, *dtype, *source; /* resource: "flops", "bandwidth" ... */
    double value;
    const char *unit; /* "FLOP/s", "bytes/s", "s", "bytes" */
};

/* Text of a class of the budget: key in JSON without "_pct" and label for people. Static storage.
 */
const char *an_class_key(enum an_class class);
const char *an_class_label(enum an_class class);
/* Is it work of the model (a product, attention ...), not a wait, a loader's stage or a range
 * around others? By its kind. */
bool an_op_is_work(const struct an_op *o);
const char *an_confidence_text(enum an_confidence c);
/* The value of a key that the recorder wrote; NULL: it did not. The result's. */
const char *an_run_key(const struct an_run *run, const char *key);
/* How a finding is listed; the key of that in JSON and its headline. Static storage. */
enum an_listed an_finding_listed(const struct an_finding *finding);
/* Is its interval open at the low end, although much is expected? */
bool an_finding_may_gain(const struct an_finding *finding);
const char *an_listed_key(enum an_listed listing);
const char *an_listed_text(enum an_listed listing);

/* What every number of a report means: one table; the text report's appendix and docs/metrics.md
 * come from it. */
struct an_metric {
    const char *
        key; /* in tacho-report/1, without the leading slash; "kernels[]" stands for its elements */
    const char *unit;    /* "" for none */
    const char *formula; /* how it is computed */
    const char *inputs;  /* what the run must hold */
    const char *reading; /* what it tells, and when it is null */
};

/* Ends with key NULL. Static storage. */
extern const struct an_metric an_metrics[];

/* Frees a result and everything it points to. NULL is fine. */
void an_result_free(struct an_result *result);

#endif
