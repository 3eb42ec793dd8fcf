/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: what the files that look for findings share. Each check ends in a finding
 * or in nothing; the table of checks (checks.c) knows which of them could be made. A gain that was
 * not replayed is a ceiling: an upper bound without an expected value.
 */
#ifndef ANALYZERS_FINDINGS_PRIVATE_H
#define ANALYZERS_FINDINGS_PRIVATE_H

#include <stddef.h>

#include "analyzers/steps/command.h"
#include "analyzers/steps/context.h"

#define FINDINGS_NOISE_PCT    AN_NOISE_PCT
#define FINDINGS_FOUND        16
#define FINDINGS_NOT_REPLAYED "a ceiling has no expected value: nothing was replayed"

struct an_findings_list {
    struct an_context *context;
    struct an_finding found[FINDINGS_FOUND];
    /* Takes the findings for which `found` has no room; they are not reported. */
    struct an_finding beyond;
    size_t count;
    /* What was found and cannot be told from noise; only its bound is reported. */
    struct an_finding dropped[FINDINGS_FOUND];
    size_t dropped_count;
};

/* ---- parts of a finding (finding.c) ---------------------------------------------------------- */

/* A new finding with what all have. Texts live as long as the result. */
struct an_finding *an_findings_add(struct an_findings_list *findings, const char *id,
                                   const char *claim);

/* A text that lives as long as the result; printf's format and arguments. */
#define an_finding_text(context, ...) an_arena_format((context)->arena, __VA_ARGS__)
/* The edit of the replay (what_if.h) that scales what `key` names to a share of its time; a share
 * below 0, or so small that it prints as 0, takes all of it away. In the result's arena. */
const char *an_finding_scaling(struct an_context *context, const char *key, double share);
/* Adds the next piece of evidence. NULL and what does not fit are dropped. */
void an_finding_evidence(struct an_finding *finding, const char *text);
#define an_finding_note(context, finding, ...) \
    an_finding_evidence(finding, an_finding_text(context, __VA_ARGS__))

/* Gain of taking `removed` out of `whole` (any unit): 100 (T / (T - R) - 1) as an upper bound. */
void an_finding_ceiling(struct an_finding *finding, double whole, double removed,
                        const char *reason);
/* Gain, method and effort of a finding about a gap in the measurement. */
void an_finding_no_gain(struct an_finding *finding);
/* "train.py": the file name of a path. */
const char *an_finding_file_name(const char *path);
/* Lowers a high confidence to medium. */
void an_finding_at_most_medium(struct an_finding *finding);
/* Is the low end of its gain, or its ceiling, below the noise floor? false where no gain is known.
 */
bool an_finding_has_no_gain(const struct an_finding *finding);

/* ---- lost events (verdict_loss.c) ------------------------------------------------------------ */

/* Why a run without a range has none: its events were lost, or it emitted counters only, with the
 * name of that in *class. NULL: it emitted nothing. */
const char *an_verdict_nothing(struct an_context *context, const char **class);
/* The verdict of a program that failed before its first step, so early that marks are not what it
 * lacks. NULL: it did not. */
const char *an_verdict_failed(struct an_context *context);
/* The verdict of a run that puts work on a device of which nothing was recorded, with its class;
 * NULL: it is another one. */
const char *an_verdict_unrecorded(struct an_context *context);
/* Why no step of a run that marks steps is in the statistics, and what to do: half a sentence. */
const char *an_verdict_no_step(struct an_context *context);
/* Puts heavy loss in front of the verdict, and withdraws what it could turn over. 0 or
 * TACHO_ENOMEM. */
int an_verdict_loss(struct an_context *context);

/* ---- shares of the step (finding.c, findings_share.c) ---------------------------------------- */

/* Share of some time, step by step: its mean in % and the half width of the 95 % interval of that
 * mean (INFINITY for one step). steps 0: the run has no steps, the mean is of the whole capture and
 * ms is that time on all devices. */
struct an_class_share {
    double mean, half, ms;
    size_t steps, touched; /* touched: steps that have any of that time */
};
/* Of values in %, one for each step. */
struct an_class_share an_share_of_values(const double *values, size_t count);
/* Of a time in ns of each step, asked for by the step's place. 0 or TACHO_ENOMEM. */
int an_share_of_steps(const struct an_context *context,
                      double (*part_ns)(const void *of, size_t step), const void *of,
                      struct an_class_share *share);
/* Of a class of the step budget. 0 or TACHO_ENOMEM. */
int an_class_share(const struct an_context *context, enum an_class class,
                   struct an_class_share *share);
/* Half the width of its 90 % interval; 0 if only one step was recorded: then it is not known. */
double an_share_half_90(const struct an_class_share *share);
/* Is the low end above the noise floor? One step and a capture without steps have no interval:
 * there it takes more. */
bool an_class_share_matters(const struct an_class_share *share);
/* "exposed communication 20 ± 1.2 ms a step (steps 4-19)" */
const char *an_class_share_text(struct an_context *context, const struct an_class_share *share,
                                const char *what);

/* On devices: the time in which the host waits in a synchronise call and no device of its process
 * works; the copies from pageable host memory that neither compute nor communication hides. 0 or
 * TACHO_ENOMEM. */
int an_sync_idle_share(struct an_context *context, struct an_class_share *share);
int an_pageable_share(struct an_context *context, struct an_class_share *share);
/* Kernels shorter than AN_BOUND_SHORT_NS, while no longer one computes. */
int an_small_share(struct an_context *context, struct an_class_share *share);

/* ---- figures (finding.c) --------------------------------------------------------------------- */

/* Mean time of a detailed step, 0 without one. */
double an_budget_step_ms(const struct an_budget *budget);
/* Sum of a count of struct an_gpu_device over all devices of the run. */
#define an_devices_ns(result, part) an_devices_sum(result, offsetof(struct an_gpu_device, part))
double an_devices_sum(const struct an_result *result, size_t offset);
static inline double an_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}
/* "1.5 GB", "320 MB" */
const char *an_bytes_text(struct an_context *context, double bytes);

/* ---- what other checks found ----------------------------------------------------------------- */

/* A sentence about what the host did while the next kernel was not launched, by the names with
 * most launch-starved time (findings_host.c); NULL: nothing is known. */
const char *an_idle_host(struct an_context *context);

/* What to do where the host makes random numbers in an operator of that name, which takes long and
 * launches nothing (findings_host.c); NULL: it is not such an operator. */
const char *an_host_operator_action(struct an_context *context, const char *name);

/* What threads of the host do while the device of their process that has most unattributed time
 * idles in counted steps. */
struct an_idle_wait {
    bool stacks;         /* functions of Python are in the file */
    double pct;          /* of the idle time that a thread waits for the device in Python */
    const char *wait;    /* "api.py:3154 block_until_ready", the longest of it; NULL: none */
    const char *runtime; /* the range of the runtime that takes most of it; NULL: none of half */
};
#define AN_IDLE_WAIT_LEAST 50.0 /* pct from which on the wait is named */
/* Finds that (findings_host.c). Names live as long as the trace. 0 or TACHO_ENOMEM. */
int an_idle_wait(struct an_context *context, struct an_idle_wait *out);
/* The cause with most of that time in sum, a key of causes.h, and its largest name; both "" when
 * nothing is known. */
const char *an_idle_cause(const struct an_context *context, const char **name);
/* Is at least half of the exposed communication of the step known to be waiting for other ranks
 * (findings_comm.c)? */
bool an_comm_mostly_waits(const struct an_context *context);
/* Is most of that waiting for one rank? Then *rank is it. */
bool an_comm_waits_for_one(const struct an_context *context, int64_t *rank);
/* Does a finding name the rank that the others wait for (findings_ranks.c)? Then the waiting
 * belongs to that rank and not to communication. */
bool an_findings_slow_rank(const struct an_context *context);
/* The class that gives the run its name (verdict.c): compute, unless another one is larger or large
 * enough. */
enum an_class an_bound_class(const struct an_budget *budget);
/* Why devices without steps hold too little work for any statement about them, NULL: they hold
 * enough (verdict.c). */
const char *an_too_little(struct an_context *context);
/* Is the time that no class explains mostly that of graphs of which the kernels were not recorded
 * (verdict.c)? */
bool an_mostly_opaque(const struct an_context *context);

/* Is most kernel time that of kernels which a compiler made (findings_kernels.c)? */
bool an_is_compiled(const struct an_result *result);
/* What fusing the operators that follow each other would bring by their bytes (findings_kernels.c);
 * NULL: nothing, or it is not known. */
const char *an_fusion_words(struct an_context *context);
/* The second level of the verdict (verdict_device.c): fills result.bounds.sentence. */
void an_verdict_device(struct an_context *context);
/* Share of the operations' time in those that run at the speed of memory or of a cache, on
 * processors, in %. verdict_device.c */
double an_memory_speed_pct(const struct an_result *result);
/* Where a device is busy although the critical path is not on it: a sentence that says why; "". */
const char *an_verdict_pace(struct an_context *context);
/* Is most of the unattributed time of devices one in which their next work was issued already? */
bool an_idle_is_held(const struct an_context *context);
/* The clause for the unattributed time of devices. */
const char *an_verdict_idle(struct an_context *context);

/* ---- memory snapshots and flight recorders (verdict_memory.c) ------------------------------------ */

/* The verdict of a run that is one of these, NULL: it is another one. Sets the class too. */
const char *an_verdict_memory(struct an_context *context);

/* ---- words of the framework (findings_speak.c) ------------------------------------------------ */

/* Puts the findings into the order in which they are read (findings.c). */
void an_findings_order(struct an_findings_list *findings);
/* Rewords the advice of a finished list for the framework of the run. */
void an_findings_speak(struct an_findings_list *findings);
/* The same of what brings an input that a check lacked. */
const char *an_findings_to_check(const struct an_context *context, const char *to_check);
/* What makes the steps of an imported trace visible. */
const char *an_findings_step_advice(struct an_context *context);

/* ---- the checks ------------------------------------------------------------------------------ */

/* Each looks for its findings. int: 0 or TACHO_ENOMEM. */
int an_findings_input(struct an_findings_list *findings);
/* After the replay: says of the loader's workers what its gain says. */
void an_findings_input_replayed(struct an_findings_list *findings);
/* Adds WORKERS_RESTARTED; returns whether most of the wait for input is that of restarts. */
bool an_findings_restarted(struct an_findings_list *findings);
int an_findings_comm(struct an_findings_list *findings);    /* on the CPU, and waiting on devices */
int an_findings_gpu(struct an_findings_list *findings);     /* runs with accelerators */
int an_findings_kernels(struct an_findings_list *findings); /* how well kernels use a device */
int an_findings_engine(struct an_findings_list *findings); /* steps that compute on the processor */
/* What the thread of the steps does itself, without a device (findings_python.c). */
int an_findings_python(struct an_findings_list *findings);
/* The function of the program with most of that time, by the lines that Python executed
 * (findings_lines.c). False: it is not known, or too little. */
bool an_finding_of_line(struct an_findings_list *findings);
/* Adds what Python did in unattributed time to the evidence of a finding. */
void an_finding_lines(struct an_context *context, struct an_finding *finding);
/* Adds the functions of the program that took most of the time in which a loader of PyTorch made
 * batches. */
void an_finding_fetch_lines(struct an_context *context, struct an_finding *finding);
/* Adds the lines of the program in which the threads of the steps were most often. */
void an_finding_own_lines(struct an_context *context, struct an_finding *finding);
int an_findings_ddp(struct an_findings_list *findings);      /* reductions that are not needed */
int an_findings_fsdp(struct an_findings_list *findings);     /* parameters that are gathered */
int an_findings_waits(struct an_findings_list *findings);    /* values read from a device */
void an_findings_compile(struct an_findings_list *findings); /* again and again, in pieces */
void an_findings_run(struct an_findings_list *findings); /* evaluations, checkpoints, start-up */
void an_findings_jitter(struct an_findings_list *findings);
void an_findings_pipeline(struct an_findings_list *findings);
void an_findings_ranks(struct an_findings_list *findings);
/* GEMMs off the matrix units (findings_precision.c); span: of all devices, ns. */
void an_findings_low_precision(struct an_findings_list *findings, double span);
void an_findings_attention(struct an_findings_list *findings); /* device time by operator */
void an_findings_throttled(struct an_findings_list *findings); /* clocks of the devices */
void an_findings_threads(struct an_findings_list *findings);   /* teams and cores */
void an_findings_leak(struct an_findings_list *findings);      /* memory that grows */
void an_findings_numerics(struct an_findings_list *findings);  /* loss, gradients, loss scale */
/* Is it one of these? */
bool an_finding_is_numerics(const struct an_finding *finding);
/* Does the program count its loss, and its loss scale? */
bool an_has_numerics(const struct an_context *context);
bool an_has_loss_scale(const struct an_context *context);
void an_findings_ranges(struct an_findings_list *findings);  /* host ranges, on the CPU */
void an_findings_capture(struct an_findings_list *findings); /* what the recording lacks */
/* Work of a device of which nothing was recorded. */
void an_findings_unrecorded(struct an_findings_list *findings);
void an_findings_pressure(struct an_findings_list *findings); /* waiting for memory */
/* A CPU quota that is spent (findings_limits.c). */
int an_findings_quota(struct an_findings_list *findings);
/* Other programs on the machine (findings_others.c), before the other gains are replayed. */
int an_findings_others(struct an_findings_list *findings);
/* Is its gain one of the whole run, because its time lies between steps; and the share of the run
 * that evaluations and checkpoints take between steps (findings_run.c). */
bool an_findings_is_phase(const struct an_finding *finding);
double an_findings_between_steps(const struct an_context *context);
/* Puts the gains of a replay into the findings whose proposal can be replayed. */
int an_findings_replay(struct an_findings_list *findings);
/* Where others are named, widens the replayed gains of the other findings to those on free cores.
 */
int an_findings_while_others(struct an_findings_list *findings);
/* The gain of getting back that share of the steps' time, in %. */
double an_finding_gain_of_lost(double lost_pct);
/* Puts the finding's gain into its row of the table of edits, so that one edit has one gain. */
void an_finding_keep_gain(const struct an_context *context, struct an_finding *finding);
/* The finding OTHER_PROGRAMS among `count` of them, NULL: it is not there, or has only a ceiling.
 */
const struct an_finding *an_findings_others_of(const struct an_finding *finding, size_t count);
/* Fills result.checked, not_checked and healthy from the table of checks (checks.c), after all
 * checks ran. 0 or TACHO_ENOMEM. */
int an_findings_sum_up(struct an_findings_list *findings);

#endif
