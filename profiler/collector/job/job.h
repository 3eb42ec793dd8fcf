/* SPDX-License-Identifier: Apache-2.0
 *
 * The parallel job that this process is a rank of, from the environment that its launcher sets.
 *
 * What is read: Open MPI 4 (OMPI_MCA_ess_base_jobid with the job's random key
 * OMPI_MCA_orte_precondition_transports), Open MPI 5 and other PMIx launchers (PMIX_NAMESPACE),
 * Slurm (SLURM_JOB_ID with SLURM_STEP_ID), torchrun (TORCHELASTIC_RUN_ID with MASTER_ADDR and
 * MASTER_PORT), and MPICH's hydra, which has no name for a job: there the process that started the
 * ranks of this node identifies it, by pid and start time.
 */
#ifndef COL_JOB_H
#define COL_JOB_H

#include <stdbool.h>
#include <stdint.h>

struct col_job {
    char launcher[16];  /* "openmpi", "pmix", "slurm", "torchrun", "hydra" */
    char id[200];       /* equal in all ranks of the job, on all nodes (hydra: on this node) */
    int64_t rank;       /* STORE_ABSENT: not known */
    int64_t ranks;      /* of the job; STORE_ABSENT */
    int64_t node_ranks; /* of the job on this node; STORE_ABSENT */
    bool many_nodes;    /* there are ranks on other nodes */
};

/* False: no launcher started this process. `get` is getenv, or a function of a test. */
bool col_job_read(const char *(*get)(const char *name), struct col_job *job);
/* The same by this process's environment. */
bool col_job_own(struct col_job *job);
/* Ranks on the node `node` of a text like SLURM_STEP_TASKS_PER_NODE: "4(x2),3"; STORE_ABSENT if it
 * does not say. */
int64_t col_job_tasks(const char *text, int64_t node);

#endif
