/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what one analyzer is, and what the analyzers share.
 * docs/adding-an-analyzer.md walks through one.
 *
 * An analyzer is one file. It reads the trace and what earlier analyzers left in the context,
 * writes its part of the result, prints nothing, and has a row in the table of table.h. If an input
 * that it needs is missing, `absent` is called instead of `run` and writes the reason into every
 * value of its part.
 */
#ifndef ANALYZERS_CONTEXT_H
#define ANALYZERS_CONTEXT_H

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/device/device.h"
#include "analyzers/result/options.h"
#include "analyzers/result/result.h"
#include "analyzers/trace/trace.h"

/* Inputs that an analyzer can need: name, bit, the reason that is reported if it is missing */
#define AN_INPUT_MAP(X) \
    X(SLICES, 1, "no range was recorded") \
    X(STEPS, 2, "no steps were found") \
    X(DETAIL, 4, "no counted step has all its ranges in the file") \
    X(COUNTERS, 8, "no counter was recorded") \
    X(DEVICES, 16, "no accelerator in this run")

enum an_input {
#define AN_INPUT_ENUM(name, bit, text) AN_INPUT_##name = (bit),
    AN_INPUT_MAP(AN_INPUT_ENUM)
#undef AN_INPUT_ENUM
};

/* A thread that runs steps. On the CPU engine the time of its steps is analysed on the thread
 * itself, on accelerators on the device that it drives. */
struct an_lane {
    uint32_t process, track; /* track AN_NONE: steps without ranges in the file */
    uint32_t device;         /* index into an_devices.device; AN_NONE: steps run on the thread */
    int64_t rank;            /* the process's, else the ordinal of the lane */
    size_t first, count;     /* steps of the lane, by start, in an_context.step */
    struct an_span *cut;     /* phases that are cut out of its steps, normalised */
    size_t cut_count;
    struct an_span *left; /* what asynchronous phases leave on this thread: class io */
    size_t left_count;
};

struct an_step {
    uint32_t lane;
    uint32_t slice;                             /* its range, AN_NONE: not in the file */
    int64_t index, start, end, tokens, samples; /* end, tokens, samples: STORE_ABSENT = not known */
    /* The step on the host. On lanes with a device start and end are the device's, else the same.
     */
    int64_t host_start, host_end;
    int64_t micro_steps;  /* ranges of the source that make this one step, 0: it is one itself */
    const char *excluded; /* why it is excluded from the statistics; NULL = counted */
    bool paused;          /* recording was paused in it */
    bool detailed;        /* all its ranges are in the file */
    int64_t cut_ns;       /* phases inside it */
    int64_t class_ns[AN_CLASS_COUNT];
    /* Parts of the exposed communication (communication.c); STORE_ABSENT: the step's collectives
     * could not all be matched. */
    int64_t waiting_ns, transfer_ns;
};

/* Lanes by process and by track, so that nobody searches them: a run may have 100,000 ranks. */
struct an_lane_index {
    uint32_t *of_process; /* an_lane_of_process */
    uint32_t *of_track;   /* an_lane_of_track */
    uint32_t *next;       /* an_next_of_track, by lane */
    /* an_own_lane and an_main_track; the last ones are of lanes without a process */
    uint32_t *own, *main;
};

struct an_context {
    const struct an_trace *trace;
    const struct an_options *options;
    struct an_result *result;
    struct an_arena *arena;   /* the result's: texts and arrays that stay */
    struct an_arena *scratch; /* freed when the analysis ends */
    struct an_step *step;
    size_t step_count;
    struct an_lane *lane;
    size_t lane_count;
    const struct an_lane_index *lanes; /* NULL: no lane */
    struct an_devices *gpu;            /* NULL: no accelerator in this run */
    /* Why the work of the device is not known: calls put some on it, and no operation of it is in
     * the file. NULL: nothing is missing. */
    const char *unrecorded;
    struct an_causes *causes; /* for an_slice_cause if there is no graph (noncompute_host.c) */
    /* Held time of the steps (budget_device.c): the next op is issued and the host waits for the
     * idle device, but the trace does not show what delays it. */
    int64_t held_ns;
    struct an_graph *graph;           /* graph.h; NULL: not built yet */
    const struct an_path_spans *path; /* critical_path.h; NULL: no path was found */
    struct an_what_if_state *what_if; /* what_if_run.h; NULL: nothing was replayed */
    struct an_exchanges *exchanges;   /* ranks_compare.h; NULL: no communication */
    struct an_calls *calls; /* attribution.h: operators that launched device work; NULL: none */
    bool roles_known;       /* some range in a step has a role */
    bool sizes_carried;     /* paused steps have the tokens or samples of the step before them */
    bool ceilings_later;    /* some ceilings were measured after the recording */
    const char *problem[32];
    size_t problems;
};

/* One analyzer, a row of the table. `after` declares what it builds on: the names (`name`,
 * separated by commas) of the analyzers whose part of the result or of the context it reads or
 * completes, and which must therefore run before it; NULL: none, it reads only the trace and the
 * devices. The frame checks at its start that the table keeps to it (an_order_check in table.h), so
 * that a row can be moved without reading all analyzers. */
struct an_analyzer {
    const char *name, *help, *after;
    unsigned needs;                         /* enum an_input bits */
    int (*run)(struct an_context *context); /* 0 or TACHO_ENOMEM */
    void (*absent)(struct an_context *context, const char *reason);
};

/* Notes a contradiction in the file for the trust section. */
__attribute__((format(printf, 2, 3))) void an_problem(struct an_context *context,
                                                      const char *format, ...);

#define AN_STEPS_LEAST 5 /* fewer are too little evidence */
/* Counted steps with their details; one step on many ranks is one observation. */
int64_t an_steps_observed(const struct an_context *context);

/* The confidence that statements about the budget deserve. For analyzers that run after trust. */
enum an_confidence an_confidence_of(const struct an_context *context);

/* The window of counted steps in words: "steps 4-19". In the result's arena. */
const char *an_window_text(struct an_context *context);

/* Lane of the rank that a process works for: its own, else that of the process that started it,
 * else of its rank, else the only one; AN_NONE: of none (lanes.c). */
uint32_t an_lane_of_process(const struct an_context *context, uint32_t process);
/* The lane of a process itself with most steps, the first of several; AN_NONE: it runs no steps. */
uint32_t an_own_lane(const struct an_context *context, uint32_t process);
/* The first lane that a thread runs, and the one after `lane`; AN_NONE: it runs no steps, or no
 * more. */
uint32_t an_lane_of_track(const struct an_context *context, uint32_t track);
uint32_t an_next_of_track(const struct an_context *context, uint32_t lane);
/* The thread of a process that runs most steps, the first of several; AN_NONE: it has none. */
uint32_t an_main_track(const struct an_context *context, uint32_t process);
/* Makes the index that these read; again after the lanes have changed. 0 or TACHO_ENOMEM. */
int an_lanes_index(struct an_context *context);
/* Number of hosts on which lanes run, at least 1; a lane without a process counts as one. *most:
 * how many lanes with a process one host has at most; may be NULL. */
int64_t an_lane_hosts(const struct an_context *context, size_t *most);

/* Step of a lane that holds `time`, or NULL. */
struct an_step *an_step_at(const struct an_context *context, const struct an_lane *lane,
                           int64_t time);
/* The same by the step on the host. */
struct an_step *an_step_at_host(const struct an_context *context, const struct an_lane *lane,
                                int64_t time);
/* Is the step in the statistics; is it also part of the budget, which needs all its ranges? */
static inline bool an_step_counted(const struct an_step *step)
{
    return !step->excluded;
}
static inline bool an_step_detailed(const struct an_step *step)
{
    return !step->excluded && step->detailed;
}
/* The index after the last step of a lane. */
static inline size_t an_lane_end(const struct an_lane *lane)
{
    return lane->first + lane->count;
}
/* The phases that are cut out of the steps of a lane. */
static inline struct an_set an_lane_cut(const struct an_lane *lane)
{
    return (struct an_set){lane->cut, lane->cut_count};
}
/* Duration with phases cut out. Only for steps with an end. */
static inline int64_t an_step_ns(const struct an_step *step)
{
    return an_time_sub(an_time_sub(step->end, step->start), step->cut_ns);
}
/* Is a slice, or a range around it, a phase? */
bool an_slice_in_phase(const struct an_trace *trace, size_t slice);
/* Micro-steps of a step, by their ranges; 1 where the program marks none. */
int64_t an_micro_steps(const struct an_context *context);
static inline bool an_role_is_phase(enum an_role role)
{
    return role == AN_ROLE_CHECKPOINT || role == AN_ROLE_EVALUATION || role == AN_ROLE_COMPILE;
}

/* Finds the steps of the run, in the order of sources of docs/definitions.md (step_source.c). Fills
 * context->step, context->lane and *source (NULL if there are none). Steps are sorted by lane and
 * start. */
int an_steps_find(struct an_context *context, const char **source);

#endif
