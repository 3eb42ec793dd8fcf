/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: what there is to show. The data side (data.c, a thread of its own) makes a
 * model, publishes it and never changes it again; views read it and nothing else. So a frame always
 * shows one moment.
 *
 * Steps and series are read as they are recorded: they lag by a second at most and cover the whole
 * run. `result` is the full analysis of a part of the run, which `window` names. Everything belongs
 * to the model and lives until tui_model_free(). Texts come from the program that was profiled and
 * may hold any byte: tui_text neutralises them. A text is NULL only where a comment says so. Times
 * are seconds since the start of the run.
 */
#ifndef TUI_MODEL_H
#define TUI_MODEL_H

#include "analyzers/result/result.h"
#include "tui/data/runs.h"

enum tui_run_state {
    TUI_OPENING, /* nothing was read yet; `r` is NULL */
    TUI_LIVE,    /* is being recorded */
    TUI_ENDED,   /* a finished or imported run, or one that ended while it was watched */
    TUI_LOST,    /* deleted or unreadable, as `message` says; the rest is what was read last */
};

/* One counter track: loss, learning rate, queue depth, CPU, memory, power ... Names and units:
 * docs/schema.md "counter". Above TUI_SERIES_MOST points neighbours are merged pairwise: to their
 * mean, of totals of memory to the higher one. */
#define TUI_SERIES_MOST 1024
#define TUI_RECENT      64
struct tui_series {
    const char *name, *unit, *device, *host;
    int64_t rank,
        process; /* process: pid; STORE_ABSENT (INT64_MIN): of the machine, or not known */
    const double *time_s, *value; /* value NAN: could not be read */
    size_t count;
    double last; /* newest value that is not NAN; NAN: none */
};

/* The baseline of `--against`: its steps of one rank, counted ones. Belongs to the caller of
 * tui_run. */
struct tui_against {
    const char *run;
    double median_ms;
    const struct an_step_point *step;
    size_t step_count;
};

struct tui_model {
    uint64_t version; /* of the snapshot; grows */
    enum tui_run_state state;
    const char *run;     /* as messages name it */
    const char *message; /* "", or one line: "the run ended: exit 0" */
    double now_s;        /* time of the snapshot in the run; of an ended run its end */
    double age_s;        /* since the newest thing that was read, of a live run; else 0 */

    /* tailed: all steps that have an end, by rank and start. ms, tokens_per_s: from the table of
     * steps; `class_ms` only where `detailed`: an analysis saw the step's parts. Bounded as
     * pictures.h says. */
    const struct an_step_point *step;
    size_t step_count;
    int64_t steps_seen;                    /* updates that ended: the most of any rank */
    int64_t steps_expected;                /* counter "steps_planned"; 0: not known */
    int64_t last_index;                    /* index of the newest step; -1: none */
    double recent_ms, recent_tokens_per_s; /* of the newest steps (at most TUI_RECENT of a rank):
                                              median; sum over ranks. NAN */
    const struct tui_series *series;       /* by name, then rank */
    size_t series_count;
    int64_t slices; /* rows recorded so far */

    /* analysed; NULL until the first analysis is done: then `result_reason` says why */
    const struct an_result *result;
    const char *result_reason;
    bool failed;         /* the last analysis ended with the error that `result_reason` is */
    const char *window;  /* "the whole run", "steps 421 to 450 of 450" */
    bool pending;        /* the whole run is being analysed, of which `window` is a part */
    double result_age_s; /* since the analysis was made */

    const struct tui_against *against; /* NULL: none was named */
    const struct tui_runs *runs;       /* that the user may turn to; NULL: not asked for yet */

    /* private to model.c, data.c */
    struct tui_shared *shared; /* owns `r` */
    void *memory[5];
    struct tui_runs *own_runs;
};

/* The analysis is shared by the models that follow each other. */
struct tui_shared;
struct tui_shared *
tui_shared_new(struct an_result *result,
               void (*release)(struct an_result *result));     /* takes r; NULL: no memory */
struct tui_shared *tui_shared_hold(struct tui_shared *shared); /* NULL is fine */
void tui_shared_drop(struct tui_shared *shared);
struct an_result *tui_shared_result(struct tui_shared *shared);
void tui_model_free(struct tui_model *model); /* NULL is fine */
/* Copies a text to *end of a block that is large enough, and moves *end behind it. */
const char *tui_model_text(char **end, const char *text);

/* Seconds until the planned steps are done, at the pace of the newer half of the steps (with
 * evaluations and anything else between them); NAN: not known, or the run is over. */
double tui_model_left_s(const struct tui_model *model);
/* The series of that name, of the first rank that has it; without ranks the first one; NULL: none.
 * A launcher such as mpirun is a process without a rank. */
const struct tui_series *tui_model_series(const struct tui_model *model, const char *name);

#endif
