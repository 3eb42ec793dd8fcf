/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: the parallel job that this process is a rank of, as its launcher tells in the
 * environment.
 *
 * What is read: Open MPI 4 (OMPI_MCA_ess_base_jobid with the job's random key
 * OMPI_MCA_orte_precondition_transports), Open MPI 5 and other PMIx launchers (PMIX_NAMESPACE),
 * Slurm (SLURM_JOB_ID with SLURM_STEP_ID), torchrun (TORCHELASTIC_RUN_ID with MASTER_ADDR and
 * MASTER_PORT), and MPICH's hydra, which names no job: there the process that started the ranks of
 * this node, by pid and start, stands for it.
 */
#ifndef COL_JOB_H
#define COL_JOB_H

#include <stdbool.h>
#include <stdint.h>

struct col_job {
    char launcher[16];  /* "openmpi", "pmix", "slurm", "torchrun", "hydra" */
    char id[200];       /* equal in all ranks of the job, on all nodes (hydra: on this node) */
    int64_t rank;       /* STORE_ABSENT: not told */
    int64_t ranks;      /* of the job; STORE_ABSENT */
    int64_t node_ranks; /* of the job on this node; STORE_ABSENT */
    bool many_nodes;    /* there are ranks on other nodes */
};

/* False: this process is no rank of a job that a launcher started. `get` is getenv, or a test's
 * own. */
bool col_job_read(const char *(*get)(const char *name), struct col_job *job);
/* Ranks on the node `node` of a text like SLURM_STEP_TASKS_PER_NODE: "4(x2),3"; STORE_ABSENT if it
 * does not say. */
int64_t col_job_tasks(const char *text, int64_t node);

#endif
