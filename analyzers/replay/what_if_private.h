/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the files what_if_*.c: predictions under edits.
 */
#ifndef ANALYZERS_WHAT_IF_PRIVATE_H
#define ANALYZERS_WHAT_IF_PRIVATE_H

#include "analyzers/replay/what_if_run.h"

/* What the edits of one prediction come to. */
struct an_plan {
    struct an_what_if_state *state;
    struct an_change change;
    const char *ceiling; /* why no value is expected; NULL */
    const char *unknown; /* an edit that names nothing of the run */
    const char *reason;
    const char *condition;
    int64_t workers, ahead, touched; /* touched: ns of own work that edits name */
    bool route;                      /* the loader's workers or queue change */
    bool overlap;                    /* transfers get threads or streams of their own */
    bool of_mean;                    /* pauses go: the gain is that of the mean step */
    bool kept;                       /* activations are kept that were computed again */
    bool changes;                    /* an edit asks for something that the run does not have */
    bool more; /* something gets more work, or other threads: a step may get longer */
    double worker_factor;
    int64_t threads; /* of each team after the edits; 0: as many as before */
    double cores;    /* of a host after the edits; 0: as many as there are */
    double others; /* cores that other programs want after the edits; below 0: as many as before */
    int64_t micro; /* times as large micro-batches; 1: as they are */
    const char *precision;      /* type of GEMMs and activations after the edits; NULL: as it is */
    struct an_rescale *rescale; /* how operators follow from both; NULL: neither changes */
    double *floor; /* ns of each counted step that it takes at least; NULL: nothing is known */
    double busy;   /* share of the recorded steps that all edited ones together take at least */
};

/* ---- steps before and after (what_if_steps.c) ------------------------------------------------ */

/* The sum of the edited steps over that of the base, 1 where the base takes no time. */
double an_steps_ratio(const double *edited, const double *base, size_t count);
/* The median of `count` values; `work` is room for as many. */
double an_steps_median(double *work, const double *values, size_t count);
/* Is there a typical step, so that medians are compared? Not of few steps, and not where steps
 * differ by design. */
bool an_steps_are_alike(const struct an_what_if_state *state);
/* Does the last replay take time from the typical step, too? Not where a few steps lose most of
 * what goes: a log that is written now and then, a batch that is slow at times. `evenly`: do the
 * middle half of the steps lose nearly as much as the mean one? 0 or TACHO_ENOMEM. */
int an_steps_change_alike(const struct an_what_if_state *state, bool evenly, bool *alike);
/* 95 % intervals of the edited steps' share of the replayed ones: blocks of neighbours, n^(1/3)
 * long, drawn with replacement (Kunsch 1989). *out: of the same steps before and after. *other: of
 * other steps, as a new run has them, compared with those of the run: drawn alike, or neighbours.
 * `middle`: of medians, else of sums. With `alike` *out covers those that are drawn alike, too. 0
 * or TACHO_ENOMEM. */
int an_steps_intervals(const struct an_what_if_state *state, bool middle, bool alike,
                       struct an_interval *out, struct an_interval *other);

/* ---- edits (what_if_edits.c) ----------------------------------------------------------------- */

/* Takes one more edit in. 0 or TACHO_ENOMEM. */
int an_plan_apply(struct an_plan *plan, const struct an_edit *edit);
/* Does a loader in line go to workers? */
bool an_plan_leaves_step(const struct an_plan *plan);
/* comm=overlap, of what all other edits have left (what_if_overlap.c). */
void an_plan_overlap(struct an_plan *plan);
/* What of the workers' work is left after the edits, as a share. */
double an_plan_worker_share(const struct an_what_if_state *state);
/* How long a step takes at least by the cores that the run keeps busy, and what of them is taken
 * for granted. */
void an_plan_core_limit(struct an_plan *plan);
/* Lets the steps together take no less than the CPU time of the run's threads on its cores, of
 * which other programs have `others`. CPU time is known as a mean: of a single step it says
 * nothing. */
void an_plan_hold_cores(struct an_plan *plan, double others);
/* The same by the work that the edits leave on its device (what_if_busy.c). */
void an_plan_busy_limit(struct an_plan *plan, const struct an_edit *edit, size_t count);

/* Does the edit scale the operators that compute activations again (what_if_recompute.c)? */
bool an_edits_recomputation(const struct an_edit *edit);
bool an_is_recomputation(const struct an_replay *replay, uint32_t node);
/* Why that number of threads cannot be replayed; NULL: it can. */
const char *an_plan_threads_reason(const struct an_plan *plan);
/* How long compute takes with another number of threads: at best, at worst, and between them:
 * from CPU time where a team had too many threads, with two thirds of the losses where it gets
 * more. */
enum an_threads_reading { AN_THREADS_LOW, AN_THREADS_MIDDLE, AN_THREADS_HIGH };
/* Is a reading one of those whose mean is expected? */
bool an_plan_threads_expected(const struct an_plan *plan, enum an_threads_reading reading);
/* Lets teams have plan->threads threads (what_if_threads.c): fewer, where they had more than cores,
 * or more, up to the cores. 0 or TACHO_ENOMEM. */
int an_plan_fit_threads(struct an_plan *plan, enum an_threads_reading reading);
/* Lets the work that stays take as long as in the better repeats of its pieces (what_if_quick.c).
 * *part: its time in these, or with `most` in the fastest ones, of that in the usual ones; *of_sum:
 * its time in the better repeats of that in all. Both stay as they are where no work stays. 0 or
 * TACHO_ENOMEM. */
int an_plan_quicken(struct an_plan *plan, bool most, double *part, double *of_sum);
/* ns of the work that stays after an edit, if each piece took `times` instead of what was recorded.
 */
double an_plan_work_ns(const struct an_plan *plan, const int64_t *times);
/* Lets each piece of that work take `times`; what is in a phase keeps its time. */
void an_plan_take(struct an_plan *plan, const int64_t *times);

/* ---- pauses that go (what_if_pauses.c) ------------------------------------------------------- */

/* The step that a gain is of: the median; the mean where pauses go. */
double an_plan_recorded_ms(const struct an_plan *plan);
/* Lets the work that stays take as long in all steps as in the calm ones, which have no pause that
 * the edit removes: where there are enough of these, and their median after the edit is below the
 * mean of all edited steps. The plan is then of the mean step. 0 or TACHO_ENOMEM. */
int an_plan_calm(struct an_plan *plan);
/* The work that stays takes so much of its time when threads that shared a core no longer do: at
 * best, where no other program held the core in that time; as expected; and at worst, where only
 * the wait for the core is saved. */
struct an_shared_core {
    double low, expected, high;
};
/* Did the threads of the team share a core after pauses that go, although another one was free?
 * Then the plan is of the mean step. */
bool an_plan_shared_core(struct an_plan *plan, struct an_shared_core *left);

/* Do the steps run on threads? Ops of devices do not get faster when the host does not pause. */
bool an_replay_on_threads(const struct an_context *context);
/* Replays the steps once; how long they take of what the unedited ones do, as a share. */
double an_plan_ratio(const struct an_plan *plan);
/* Scales the own work of all nodes by a factor, and with it the least times and the CPU time of the
 * steps. The workers of a loader keep their time. */
void an_plan_scale(struct an_plan *plan, double factor);
/* Batches of several workers arrive together: a run may begin after some of them, and end before
 * the next ones. What is left of a step at least then, as a share: 1 where no loader of several
 * workers goes on. */
double an_plan_arrivals(const struct an_plan *plan);
/* Lets the kept activations come from memory: their operators take that long instead of nothing. */
void an_plan_keep_cold(struct an_plan *plan);

/* micro= and precision= (what_if_rescale.c): calls of operators get other sizes or another type,
 * and their times follow from the efficiency curve of GEMMs. */
#define AN_RESCALE_READINGS 4
/* Does the run compute all GEMMs in that type already? */
bool an_is_precision(const struct an_context *context, const char *dtype);
/* Makes plan->rescale, or plan->reason where the run or its curve lacks what it needs. 0 or
 * TACHO_ENOMEM. */
int an_plan_rescale_open(struct an_plan *plan);
/* Multiplies own[] by what one of the readings of the curve says: a GEMM is as much slower than its
 * curve after the edit as before, or by as many ns; the curve's ratio is at the low or the high end
 * of its error. */
void an_plan_rescale(struct an_plan *plan, int reading);
/* What the curve gives for the run's GEMMs as they are, as a share of the time that they take in
 * it: at most 1, which it is where the curve does not cover them. 0 or TACHO_ENOMEM. */
int an_plan_curve_share(const struct an_plan *plan, double *share);

#endif
