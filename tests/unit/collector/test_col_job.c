/* SPDX-License-Identifier: Apache-2.0
 *
 * Which job a process is a rank of, from the variables that launchers are known to set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/collector/job/job.h"
#include "store/store.h"

static const char *const *variables; /* name, value, ..., NULL */

static const char *get(const char *name)
{
    for (const char *const *v = variables; v && *v; v += 2)
        if (!strcmp(*v, name))
            return v[1];
    return NULL;
}

static bool job_of(struct col_job *job, const char *const *environment)
{
    variables = environment;
    return col_job_read(get, job);
}
#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void open_mpi_4(void **state)
{
    struct col_job job;
    (void)state;
    assert_true(job_of(&job, ENV("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "OMPI_MCA_ess_base_jobid",
                                 "565182465", "OMPI_MCA_orte_precondition_transports", "b015-9a78",
                                 "PMIX_RANK", "3", "PMIX_NAMESPACE", "565182465", "SLURM_JOB_ID",
                                 "7", "SLURM_PROCID", "0", "SLURM_STEP_ID", "1")));
    assert_string_equal(job.launcher, "openmpi"); /* inside of a Slurm job */
    assert_string_equal(job.id, "565182465 b015-9a78");
    assert_int_equal(job.rank, 3);
    assert_int_equal(job.ranks, 8);
    assert_int_equal(job.node_ranks, 4);
    assert_true(job.many_nodes);
}

static void open_mpi_5(void **state)
{
    struct col_job job;
    (void)state;
    assert_true(job_of(&job, ENV("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "PMIX_NAMESPACE",
                                 "prterun-node1-4711@1", "PMIX_RANK", "0")));
    assert_string_equal(job.launcher, "openmpi");
    assert_string_equal(job.id, "prterun-node1-4711@1");
    assert_false(job.many_nodes);
}

static void slurm(void **state)
{
    struct col_job job;
    (void)state;
    assert_true(job_of(&job, ENV("SLURM_JOB_ID", "77", "SLURM_STEP_ID", "2", "SLURM_PROCID", "9",
                                 "SLURM_STEP_NUM_TASKS", "11", "SLURM_STEP_TASKS_PER_NODE",
                                 "4(x2),3", "SLURM_NODEID", "2", "PMI_RANK", "9")));
    assert_string_equal(job.launcher, "slurm");
    assert_string_equal(job.id, "77.2");
    assert_int_equal(job.rank, 9);
    assert_int_equal(job.ranks, 11);
    assert_int_equal(job.node_ranks, 3);
    assert_true(job.many_nodes);
    /* a batch script is no step: two commands of it are two runs */
    assert_false(job_of(&job, ENV("SLURM_JOB_ID", "77", "SLURM_PROCID", "0", "SLURM_NTASKS", "4")));
    assert_false(
        job_of(&job, ENV("SLURM_JOB_ID", "77", "SLURM_STEP_ID", "batch", "SLURM_PROCID", "0")));
}

static void slurm_task_lists(void **state)
{
    (void)state;
    assert_int_equal(col_job_tasks("4(x2),3", 0), 4);
    assert_int_equal(col_job_tasks("4(x2),3", 1), 4);
    assert_int_equal(col_job_tasks("4(x2),3", 2), 3);
    assert_int_equal(col_job_tasks("4(x2),3", 3), STORE_ABSENT);
    assert_int_equal(col_job_tasks("1", 0), 1);
    assert_int_equal(col_job_tasks("", 0), STORE_ABSENT);
    assert_int_equal(col_job_tasks(NULL, 0), STORE_ABSENT);
    assert_int_equal(col_job_tasks("x", 0), STORE_ABSENT);
    assert_int_equal(col_job_tasks("4(x", 1), STORE_ABSENT);
    assert_int_equal(col_job_tasks("4(x0)", 1), STORE_ABSENT);
    assert_int_equal(col_job_tasks("4;3", 1), STORE_ABSENT);
    assert_int_equal(col_job_tasks("2,3", STORE_ABSENT), STORE_ABSENT);
}

static void torchrun(void **state)
{
    struct col_job job, other;
    (void)state;
    assert_true(
        job_of(&job, ENV("TORCHELASTIC_RUN_ID", "none", "MASTER_ADDR", "node1", "MASTER_PORT",
                         "29500", "RANK", "5", "WORLD_SIZE", "16", "LOCAL_WORLD_SIZE", "8")));
    assert_string_equal(job.launcher, "torchrun");
    assert_int_equal(job.rank, 5);
    assert_int_equal(job.node_ranks, 8);
    assert_true(job_of(&other, ENV("TORCHELASTIC_RUN_ID", "none", "MASTER_ADDR", "node1",
                                   "MASTER_PORT", "29501", "RANK", "5")));
    assert_string_not_equal(job.id, other.id); /* every run without --rdzv-id is called "none" */
    assert_int_equal(other.node_ranks, STORE_ABSENT);
    assert_false(other.many_nodes);
}

static void hydra(void **state)
{
    struct col_job job, again;
    (void)state;
    assert_true(
        job_of(&job, ENV("PMI_RANK", "1", "PMI_SIZE", "2", "PMI_FD", "7", "MPI_LOCALNRANKS", "2")));
    assert_true(job_of(
        &again, ENV("PMI_RANK", "0", "PMI_SIZE", "2", "PMI_FD", "8", "MPI_LOCALNRANKS", "2")));
    assert_string_equal(job.launcher, "hydra");
    assert_string_equal(job.id, again.id);
    assert_int_equal(job.rank, 1);
}

static void no_job(void **state)
{
    struct col_job job;
    (void)state;
    assert_false(job_of(&job, ENV("LANG", "C")));
    assert_false(job_of(
        &job, ENV("RANK", "0", "WORLD_SIZE", "2"))); /* set by hand: nobody says which job it is */
    assert_false(job_of(&job, ENV("OMPI_COMM_WORLD_RANK", "0")));
    assert_false(job_of(&job, ENV("PMI_RANK", "0")));
    assert_false(job_of(&job, ENV("OMPI_COMM_WORLD_RANK", "", "OMPI_MCA_ess_base_jobid", "1")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_mpi_4), cmocka_unit_test(open_mpi_5),
        cmocka_unit_test(slurm),      cmocka_unit_test(slurm_task_lists),
        cmocka_unit_test(torchrun),   cmocka_unit_test(hydra),
        cmocka_unit_test(no_job)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
