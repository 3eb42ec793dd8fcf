/* SPDX-License-Identifier: Apache-2.0
 *
 * The teams of threads (OpenMP) that compute the steps, beside the cores that they may use.
 */
#ifndef ANALYZERS_TEAM_H
#define ANALYZERS_TEAM_H

#include "analyzers/steps/context.h"

/* A thread of a team that still runs while a CPU quota stops others spins at their barrier. Of the
 * CPU time of such a team, what is no spinning: docs/definitions.md. All of it at most. */
#define AN_TEAM_WORK_LEAST    0.65
#define AN_TEAM_WORK_EXPECTED 0.83

/* What is lost at worst when the work of a team is shared among more threads: a part of its speed,
 * because memory and caches are shared, too. */
#define AN_TEAM_SHARED_SPEED 0.85

struct an_team {
    int64_t threads; /* of each rank; 0: not known */
    int64_t ranks;   /* that share the machine of the first one */
    int64_t cores;   /* of that machine, usable; 0: not known */
    int64_t fitting; /* threads a rank, so that there are as many in all as cores; 0: not known */
    /* The same without the second CPU of each core (SMT), which hardly makes compute faster: cores,
     * and threads a rank. As above where the file does not say. */
    int64_t whole_cores, useful;
};

/* By what PyTorch says, else by the first level of OMP_NUM_THREADS. The engine takes all cores
 * without it; what other programs do then is not known, nor what runs with accelerators do. */
struct an_team an_team_of(struct an_context *context);

#endif
