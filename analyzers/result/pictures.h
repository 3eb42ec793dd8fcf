/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the result (result.h): what the pictures of a report and of the dashboard are drawn from.
 * Every picture has a table beside it, made of the same rows. Ownership and texts: as result.h
 * says.
 */
#ifndef ANALYZERS_PICTURES_H
#define ANALYZERS_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One step of one rank, for trends: every step in the file with an end, by rank and start; rows
 * beyond `AN_STEP_POINTS_MOST` are merged pairwise (ms: mean, worst_ms: the longest), and `steps`
 * says how many steps a row is. */
#define AN_STEP_POINTS_MOST 4096
struct an_step_point {
    int64_t rank, index, steps;
    int64_t process; /* id in the file; STORE_ABSENT: the lane belongs to none */
    /* From the start of the first to the end of the last step, ns of the file: on the device where
     * the lane has one, and on the host. */
    int64_t start_ns, end_ns, host_start_ns, host_end_ns;
    double start_s; /* since the run's start */
    double ms, worst_ms;
    double tokens_per_s;  /* NAN: the step has no tokens */
    const char *excluded; /* why it is excluded from the statistics, NULL: counted */
    bool detailed;
    double class_ms[8]; /* by enum an_class; only where detailed */
};

/* A segment of a track in the picture of a step. Neighbours too short to be seen are merged:
 * `merged` says how many ranges the stretch stands for (1: one range, and `name` is its name; else
 * the name of the longest), `busy` which share of it they fill.
 */
struct an_timeline_span {
    int64_t start_ns, dur_ns; /* from the step's start */
    const char *name;
    int what; /* enum an_class */
    uint32_t merged;
    float busy;    /* 0..1 */
    bool critical; /* on the critical path, where there is one */
};
struct an_timeline_track {
    const char *name, *kind, *device; /* "main", "thread"; "stream 7", "stream" */
    int64_t rank, process;
    int64_t busy_ns; /* union of its ranges inside the step */
    int depth;       /* 0: the outermost ranges of a thread; 1: those nested in them (ops) */
    const struct an_timeline_span *span; /* by start, disjoint */
    size_t span_count;
};
struct an_timeline_step {
    const char *which; /* "typical": of median duration; "worst" */
    int64_t rank, index;
    double ms;
    const struct an_timeline_track *track;
    size_t track_count;
};
struct an_timeline {
    const char *reason; /* why there is no picture; NULL when there is */
    const struct an_timeline_step *step;
    size_t step_count; /* 0..2 */
};

/* The critical path through one step, the median, weighted by time, of those that it was followed
 * through, cut at the step's ends: what it spends that step with, from lane to lane. Stretches
 * cover the step without holes. What is too short to be seen is merged with its neighbours:
 * `merged` says how many stretches one stands for; lane, name and cause are of the longest. Times
 * of lanes and causes are those of all stretches before any was merged. */
#define AN_PATH_STRETCHES_MOST 400
#define AN_PATH_LANES_MOST     24
#define AN_PATH_SEVERAL \
    "several" /* link of merged segments whose dependency was not between the lanes that are shown \
               */
struct an_path_lane {
    const char *name,
        *kind; /* of the track; the last lane may stand for several: "other tracks", "" */
    int64_t rank;
    int64_t ns; /* of the step, on the path */
};
struct an_path_reason {
    const char *key, *text; /* of an_path_cause */
    int what;               /* enum an_class, whose colour it has */
    int64_t ns;
};
struct an_path_stretch {
    int64_t start_ns, dur_ns; /* from the step's start */
    int lane;                 /* row of `lane`; -1: a gap */
    int reason;               /* row of `reason` */
    const char *name;         /* of the device op or innermost range; "": outside of every range */
    const char *link; /* dependency of the next segment: "launch", "order" ...; "": the step ends */
    bool inferred;    /* that dependency follows only from times */
    uint32_t merged;
};
struct an_path_step {
    int64_t rank, index;
    double ms;
    const struct an_path_lane *lane; /* by rank and first segment */
    size_t lane_count;
    const struct an_path_reason *reason; /* by time, largest first */
    size_t reason_count;
    const struct an_path_stretch *stretch; /* by time; none: there is no picture */
    size_t stretch_count;
};
/* Does the path go on from segment i on another lane? Then `link` says by what. */
static inline bool an_path_hands_over(const struct an_path_step *step, size_t i)
{
    const struct an_path_stretch *stretch = &step->stretch[i];
    return i + 1 < step->stretch_count && stretch->lane >= 0 && stretch[1].lane >= 0 &&
           stretch->lane != stretch[1].lane;
}

/* Every range and device operation of some tracks over a window of the run, for a timeline that can
 * be zoomed; only where an_options.events asks for it. Of more than AN_EVENTS_MOST the shortest are
 * left out. Times are from the start of the window. */
#define AN_EVENTS_MOST 100000
struct an_event {
    int64_t start_ns, dur_ns;
    uint32_t kind; /* row of an_events.kind */
    uint32_t what; /* enum an_class: what most of it is spent with */
};
struct an_event_kind { /* what events share */
    const char *name, *dtype, *pass;
    int64_t flops, bytes; /* of one event; STORE_ABSENT: not known */
};
struct an_event_span {
    int64_t start_ns, dur_ns;
};
struct an_event_track {
    const char *name, *kind, *device;
    int64_t rank, process;
    bool main; /* runs steps, or is a device's stream: shown at first also of other ranks */
    const struct an_event *event; /* by start, of equal starts the longer first */
    size_t count;
    const struct an_event_span *path; /* on the critical path, by start, disjoint */
    size_t path_count;
};
struct an_event_rank { /* why the tracks of this rank are in the picture */
    int64_t rank;
    /* "straggler", "slowest", "median", "fastest", "typical step", "": the first that is true;
     * "process": `rank` is the pid of a process that has no rank */
    const char *why;
};
struct an_event_mark { /* where a finding is seen best */
    size_t finding, track;
    int64_t start_ns, dur_ns;
};
struct an_event_step {
    int64_t rank, index, start_ns, dur_ns;
    bool typical;
};
struct an_events {
    const char *reason; /* why there are none; NULL when there are */
    double start_s;     /* of the window, since the run's start */
    int64_t window_ns;
    bool whole;                /* the window is the whole run */
    int64_t omitted, least_ns; /* events that are left out, and the shortest that is not */
    int64_t ranks_omitted;     /* ranks of the run without a track here */
    const struct an_event_kind *kind;
    size_t kind_count;
    const struct an_event_track *track; /* by rank as in `rank`, streams first */
    size_t track_count;
    const struct an_event_rank *rank;
    size_t rank_count;
    const struct an_event_step *step; /* of those ranks, by rank and start */
    size_t step_count;
    const struct an_event_mark *mark; /* by finding */
    size_t mark_count;
};

/* A quantity over the run: loss, throughput, processors, memory ... Of a long run a point is the
 * mean of its neighbours. */
#define AN_CURVE_POINTS_MOST 300
#define AN_CURVE_LINES_MOST  4 /* of one quantity */
struct an_curve_point {
    double start_s, value; /* since the run's start */
};
struct an_curve {
    const char *quantity;               /* "loss", "throughput", "processors", "GPU", "memory" */
    const char *name;                   /* of the line: "resident", "gpu:0 SM active" ... */
    const char *unit;                   /* "", "tokens/s", "steps/s", "cores", "%", "bytes" */
    const struct an_curve_point *point; /* by time */
    size_t count;
    int64_t samples; /* that the points stand for */
};

/* Rank x step, of the steps that count. cell[r * steps + s]; NAN: not known. More than
 * AN_HEAT_STEPS_MOST steps are merged into columns of equal width (mean), more ranks than
 * AN_HEAT_RANKS_MOST into rows of neighbours. */
#define AN_HEAT_STEPS_MOST 200
#define AN_HEAT_RANKS_MOST 64
struct an_heat {
    const char *reason;
    size_t ranks, steps;
    const int64_t *rank;                              /* first rank of each row */
    const int64_t *index;                             /* first step of each column */
    int64_t ranks_a_row, steps_a_column;              /* most */
    const double *step_ms, *waiting_ms, *transfer_ms; /* of the row's and column's steps, mean */
};

/* A tree of ranges, or of call stacks: row 0 is the root, a parent stands before its children. */
struct an_flame_row {
    const char *name;
    uint32_t parent;  /* row; its own for the root */
    int64_t total_ns; /* with children; of stacks: samples x period */
    int64_t count;    /* ranges, or samples */
};
struct an_flame {
    const char *reason;
    const char *source; /* "ranges of the threads that run steps", "stacks: cpu-clock samples" */
    const struct an_flame_row *row;
    size_t row_count;
};

#endif
