/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/export/: a run as a timeline of processes, threads, slices, arrows and counters,
 * and the functions with which a format writes these. Memory: 16 bytes a slice on top of the run.
 */
#ifndef STORE_EXPORT_TIMELINE_H
#define STORE_EXPORT_TIMELINE_H

#include "store/export/export_private.h"

#define EXP_LANES_MOST 513 /* of one track */

/* The process and thread of the timeline that show the slices of a track. */
struct exp_place {
    int64_t pid, tid;
    bool device;     /* of an accelerator */
    int64_t ordinal; /* of it */
};

struct exp_timeline {
    const struct exp_run *run;
    const struct exp_timeline_format *format;
    void *own; /* of the format */
    FILE *out;
    struct exp_place *place; /* by track */
    int64_t *process_pid;    /* by process */
    int64_t *device_pid;     /* by device of a process, in the order of their first tracks */
    int64_t made_up;         /* the next number */
    int64_t *tid_of;         /* by slice: its lane's */
    int64_t lane_tid[EXP_LANES_MOST]; /* of the present track */
    size_t lanes;
};

/* What a format writes; times are those of the run. A failed stream ends the export, so functions
 * need not look for it. Negative codes of those that return one end it too. */
struct exp_timeline_format {
    /* Called first, and last. */
    int (*begin)(struct exp_timeline *timeline);
    void (*end)(struct exp_timeline *timeline);
    /* Names, each before the first use of its number. `process`: NULL for the machine; `index`: its
     * place among the others. */
    void (*process)(struct exp_timeline *timeline, int64_t pid, const struct exp_process *process,
                    const char *name, int64_t index);
    void (*thread)(struct exp_timeline *timeline, int64_t pid, int64_t tid, const char *name,
                   int64_t index);
    /* Slices of a track, in the order of run->slice; on each lane they nest. */
    int (*slice)(struct exp_timeline *timeline, size_t index, size_t lane);
    /* After the last slice of a track; may be NULL. */
    void (*track_end)(struct exp_timeline *timeline);
    /* From a call to work that it launched, by indexes of slices; may be NULL. */
    void (*arrow)(struct exp_timeline *timeline, size_t from, size_t to, int64_t id);
    void (*counter)(struct exp_timeline *timeline, uint32_t track, const char *name, int64_t time,
                    double value);
    /* The critical path; may be NULL. */
    int (*path)(struct exp_timeline *timeline, const struct store_export_options *options);
};

/* Writes a run in the format. As store_export_format.write. */
int exp_timeline_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                       const struct exp_timeline_format *format, struct tacho_error *err);

/* The category of a slice in the words of Kineto. */
const char *exp_timeline_category(const struct exp_timeline *timeline,
                                  const struct exp_slice *slice);
/* Is it a call on the host that launches device work? Is it device work that a call launched? */
bool exp_timeline_is_call(const struct exp_timeline *timeline, const struct exp_slice *slice);
bool exp_timeline_is_work(const struct exp_timeline *timeline, const struct exp_slice *slice);
/* The arguments of a slice, as members of a JSON object. */
void exp_timeline_args(const struct exp_timeline *timeline, const struct exp_slice *slice,
                       struct exp_args *args);

#endif
