/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what the files that look for findings share. Each look ends in a finding
 * or in a line of what was checked; a gain that was not replayed is a ceiling.
 */
#ifndef ANALYZERS_FINDINGS_PRIVATE_H
#define ANALYZERS_FINDINGS_PRIVATE_H

#include "analyzers/steps/command.h"
#include "analyzers/steps/context.h"

#define FINDINGS_NOISE_PCT 2.0 /* of a step: below it nothing is worth a change */
#define FINDINGS_FOUND     16
#define FINDINGS_CHECKED   16

struct an_findings_list {
    struct an_context *context;
    struct an_finding found[FINDINGS_FOUND],
        beyond; /* beyond: where findings go that found no room */
    size_t count;
    const char *checked[FINDINGS_CHECKED];
    size_t checks;
};

/* Is the most that it can gain below the noise floor? false where no gain is known. */
bool an_finding_brings_nothing(const struct an_finding *finding);

/* A new finding with what all have. Texts live as long as the result. */
struct an_finding *an_findings_add(struct an_findings_list *findings, const char *id,
                                   const char *claim);
/* Puts the next piece of evidence in; NULL and what does not fit are left out. */
void an_finding_evidence(struct an_finding *finding, const char *text);
/* What was looked for and not found. */
void an_findings_checked(struct an_findings_list *findings, const char *text);
/* Gain of taking `removed` out of `whole` (any unit): 100 (T / (T - R) - 1) as an upper bound. */
void an_finding_ceiling(struct an_finding *finding, double whole, double removed,
                        const char *reason);

/* Share of some time, step by step: its mean in % and the half width of the 95 % interval of that
 * mean (INFINITY for one step). steps 0: there are none, the mean is of the whole capture and ms is
 * that time on all devices. */
struct an_class_share {
    double mean, half, ms;
    size_t steps, touched;
};
int an_class_share(const struct an_context *context, enum an_class class,
                   struct an_class_share *share);
/* Is the low end above the noise floor? One step and a capture without steps have no interval:
 * there it takes more. */
bool an_class_share_matters(const struct an_class_share *share);
/* Of values x[0..n) in %, one a step. */
struct an_class_share an_share_of_values(const double *x, size_t n);

/* On devices (findings_share.c): the time in which the host waits in a synchronise call and no
 * device of its process works; the copies from pageable host memory that neither compute nor
 * communication hides. 0 or TACHO_ENOMEM. */
int an_sync_idle_share(struct an_context *context, struct an_class_share *share);
int an_pageable_share(struct an_context *context, struct an_class_share *share);

/* A sentence about what the host was in while the next kernel was not launched, by the causes of
 * launch-starved time (findings_host.c), and the name with most of it; NULL and "" when nothing is
 * known. 0 or TACHO_ENOMEM. */
int an_idle_host(struct an_context *context, const char **words, const char **name);
/* "1.5 GB", "320 MB" */
const char *an_findings_bytes(struct an_context *context, double bytes);

/* Gains of the findings whose proposal can be replayed (findings_replay.c). 0 or TACHO_ENOMEM. */
int an_findings_replay(struct an_findings_list *findings);

/* Input (findings_input.c). 0 or TACHO_ENOMEM. */
int an_findings_input(struct an_findings_list *findings);

/* Communication on the CPU, and on devices where it mostly waits (findings_comm.c). 0 or
 * TACHO_ENOMEM. */
int an_findings_comm(struct an_findings_list *findings);
/* Of the exposed communication of the step at least half is waiting for other ranks, and that is
 * known. */
bool an_comm_mostly_waits(const struct an_context *context);
/* Is most of all that waiting for one rank? Then *rank is it. */
bool an_comm_waits_for_one(const struct an_context *context, int64_t *rank);

/* Ranks beside each other (findings_ranks.c). */
void an_findings_ranks(struct an_findings_list *findings);
/* Does a finding name the rank that the others wait for? Then waiting is that one's, not
 * communication's. */
bool an_findings_slow_rank(const struct an_context *context);

/* The class that gives the run its name: compute, unless another one is larger or large enough
 * (verdict.c). */
enum an_class an_bound_class(const struct an_budget *budget);

/* Is the time that no class explains mostly that of graphs of which the kernels were not recorded?
 */
bool an_mostly_opaque(const struct an_context *context);

/* Steps that compute on the processor (findings_engine.c). 0 or TACHO_ENOMEM. */
int an_findings_engine(struct an_findings_list *findings);

/* Accelerators (findings_gpu.c). 0 or TACHO_ENOMEM. */
int an_findings_gpu(struct an_findings_list *findings);
void an_findings_attention(struct an_findings_list *findings); /* by operator (findings_ops.c) */
void an_findings_throttled(
    struct an_findings_list *findings); /* by their clocks (findings_hardware.c) */
void an_findings_capture(
    struct an_findings_list *findings); /* what their recording lacks (findings_capture.c) */

#endif
