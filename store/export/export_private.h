/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/export/: a run in memory, as formats need it, and what they share. Memory grows
 * with the number of slices in the window (40 bytes each) and of distinct names and details.
 */
#ifndef STORE_EXPORT_EXPORT_PRIVATE_H
#define STORE_EXPORT_EXPORT_PRIVATE_H

#include "store/export/export.h"

#define EXP_NONE UINT32_MAX

struct exp_slice {
    int64_t start, end; /* end INT64_MAX: it never ended */
    int64_t correlation;
    uint32_t track, name, category, detail; /* indexes; EXP_NONE: absent */
};

struct exp_track {
    int64_t id, process, tid;
    uint32_t process_at; /* index, EXP_NONE: of the machine */
    char *kind, *name, *device, *unit;
    size_t first, count; /* its slices */
};

struct exp_process {
    int64_t id, rank, pid;
    char *host, *program;
};

struct exp_run {
    int64_t t0, t1; /* window: INT64_MIN, INT64_MAX where open */
    int64_t origin; /* start of the first slice or counter value in it; 0 without any */
    struct exp_process *process;
    struct exp_track *track;
    struct exp_slice *slice; /* by track, start, then longest first */
    char **text;             /* by string id */
    struct store_detail *detail;
    size_t process_count, process_cap, track_count, track_cap, slice_count, slice_cap, text_count,
        detail_count, detail_cap;
    char **key, **value; /* of the table run */
    size_t key_count, key_cap;
};

/* Reads the rows of the window. 0, TACHO_ENOMEM or the code of the reader. */
int exp_run_load(store_reader *reader, const struct store_export_options *options,
                 struct exp_run *run, struct tacho_error *err);
void exp_run_free(struct exp_run *run);
/* A time of a damaged file, brought into 73 years around zero. */
int64_t exp_clamp(int64_t time);
/* "" for an absent one. */
const char *exp_text(const struct exp_run *run, uint32_t name);
const char *exp_run_value(const struct exp_run *run, const char *key);
/* Index of a track or process id, EXP_NONE if there is none. */
uint32_t exp_track_at(const struct exp_run *run, int64_t id);

/* Lanes: slices of a track that overlap without nesting do not fit into one row of a timeline, or
 * one stack. `depth` ends of slices that are open at the moment lie in each lane. */
struct exp_lanes {
    struct exp_lane {
        size_t *open; /* indexes of slices */
        size_t depth, cap;
    } * lane;
    size_t count, cap;
};
/* Puts slice `i` on the first lane where it nests, makes a new one if needed; slices of a track
 * come in the order of run->slice. *parent: the slice that contains it, SIZE_MAX: none. The lane's
 * number, or a negative code. */
int64_t exp_lane_put(struct exp_lanes *lanes, const struct exp_run *run, size_t i, size_t *parent);
void exp_lanes_reset(struct exp_lanes *lanes); /* for the next track */
void exp_lanes_free(struct exp_lanes *lanes);

/* A JSON string with its quotes; what is no UTF-8 becomes U+FFFD. */
void exp_json_string(FILE *out, const char *text);
/* Is it one JSON value and nothing else, at most 64 levels deep? */
bool exp_json_valid(const char *text);
/* Members of a JSON object, one after another, by their raw text. Starts with *at = the object's
 * text. 1: one was found, 0: the end, -1: not an object as we write them. */
int exp_json_member(const char **position, const char **key, size_t *key_bytes, const char **value,
                    size_t *value_bytes);

/* Members of a JSON object, written one after another. */
struct exp_args {
    FILE *out;
    bool any; /* there is one already: a comma comes before the next */
};
void exp_arg(struct exp_args *args, const char *name); /* "name": */
void exp_arg_int(struct exp_args *args, const char *name,
                 int64_t value); /* nothing for STORE_ABSENT */
void exp_arg_text(struct exp_args *args, const char *name,
                  const char *value); /* nothing for NULL */
/* A detail and its payload; `instant`: of an instant event. */
void exp_args_detail(struct exp_args *args, const struct store_detail *detail, bool instant);

/* A number as a cell of CSV; an absent one is empty. */
void exp_csv_integer(FILE *out, int64_t value);

/* The critical path (path.c): rows of CSV; events of a timeline, each with a comma before it. pid,
 * tid: of every track of the run in the timeline; own: number for the process that shows the path.
 */
void exp_path_csv(const struct exp_run *run, const struct store_export_options *options, FILE *out);
void exp_path_json(const struct exp_run *run, const struct store_export_options *options, FILE *out,
                   const int64_t *pid, const int64_t *tid, int64_t own);

int exp_perfetto_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                       struct tacho_error *err);
int exp_perfetto_proto_write(store_reader *reader, const struct store_export_options *options,
                             FILE *out, struct tacho_error *err);
int exp_pprof_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                    struct tacho_error *err);
int exp_pprof_stacks_write(store_reader *reader, const struct store_export_options *options,
                           FILE *out, struct tacho_error *err);
int exp_pprof_python_write(store_reader *reader, const struct store_export_options *options,
                           FILE *out, struct tacho_error *err);
int exp_folded_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                     struct tacho_error *err);
int exp_python_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                     struct tacho_error *err);
int exp_stacks_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                     struct tacho_error *err);
int exp_csv_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                  struct tacho_error *err);
/* Ends a writer: a failed stream is TACHO_EIO. */
int exp_end(FILE *out, int code, struct tacho_error *err);

#endif
