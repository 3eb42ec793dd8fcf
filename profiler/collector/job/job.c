/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises the launcher of a parallel job by its environment variables. A row of LAUNCHER_MAP
 * names the variables of rank and sizes; the function id_LAUNCHER makes an id that is equal in all
 * ranks of the job and differs from that of any other job.
 */
#include "profiler/collector/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"
#include "store/store.h"

static int64_t number(const char *text)
{
    char *end;
    if (!text || !*text)
        return STORE_ABSENT;
    long long value = strtoll(text, &end, 10);
    return *end || value < 0 ? STORE_ABSENT : value;
}

/* The first of the names that is a number. */
static int64_t first_number(const char *(*get)(const char *name), const char *const *name)
{
    for (; *name; name++) {
        int64_t value = number(get(*name));
        if (value != STORE_ABSENT)
            return value;
    }
    return STORE_ABSENT;
}

/* Reads entries "N" and "N(xM)", the latter for M nodes in a row, until that of the node. */
int64_t col_job_tasks(const char *text, int64_t node)
{
    while (text && *text && node >= 0) {
        char *end;
        long long tasks = strtoll(text, &end, 10), times = 1;
        if (end == text || tasks < 0)
            return STORE_ABSENT;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtoll(end + 2, &end, 10);
            if (*end++ != ')' || times < 1)
                return STORE_ABSENT;
        }
        if (node < times)
            return tasks;
        node -= times;
        if (*end && *end != ',')
            return STORE_ABSENT;
        text = *end ? end + 1 : end;
    }
    return STORE_ABSENT;
}

/* The variables of each launcher: rank, size of the job, size on this node. The innermost launcher
 * comes first: mpirun runs inside a Slurm job, and torchrun may run under either. */
#define LAUNCHER_MAP(X) \
    X(torchrun, "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE") \
    X(openmpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE") \
    X(slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "") \
    X(pmix, "PMIX_RANK", "PMI_SIZE", "MPI_LOCALNRANKS") \
    X(hydra, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")

static bool is_set(const char *text)
{
    return text && *text;
}

static const char *text_of(const char *text)
{
    return text ? text : "";
}

static bool id_torchrun(const char *(*get)(const char *name), char *id, size_t size)
{
    const char *run = get("TORCHELASTIC_RUN_ID"), *host = get("MASTER_ADDR"),
               *port = get("MASTER_PORT");
    if (!is_set(run))
        return false;
    snprintf(id, size, "%.80s %.80s:%.16s", run, text_of(host), text_of(port));
    return true;
}

/* Open MPI 4 has a job id and a random key; Open MPI 5 has only the namespace of PMIx. */
static bool id_openmpi(const char *(*get)(const char *name), char *id, size_t size)
{
    const char *job = get("OMPI_MCA_ess_base_jobid"),
               *key = get("OMPI_MCA_orte_precondition_transports");
    if (!is_set(get("OMPI_COMM_WORLD_RANK")))
        return false;
    if (!is_set(job)) { /* Open MPI 5: its launcher is PMIx's */
        job = get("PMIX_NAMESPACE");
        key = NULL;
    }
    snprintf(id, size, "%.120s%s%.60s", text_of(job), is_set(key) ? " " : "", text_of(key));
    return is_set(job);
}

static bool id_slurm(const char *(*get)(const char *name), char *id, size_t size)
{
    const char *job = get("SLURM_JOB_ID"), *step = get("SLURM_STEP_ID");
    if (!is_set(step))
        step = get("SLURM_STEPID");
    if (!is_set(job) || !is_set(get("SLURM_PROCID")))
        return false;
    snprintf(id, size, "%.80s.%.80s", job, text_of(step));
    return number(step) != STORE_ABSENT; /* a batch script has none: srun did not start it */
}

static bool id_pmix(const char *(*get)(const char *name), char *id, size_t size)
{
    const char *job = get("PMIX_NAMESPACE");
    snprintf(id, size, "%.180s", text_of(job));
    return is_set(job);
}

/* Hydra has no id: the process that started the ranks of this node identifies the job. */
static bool id_hydra(const char *(*get)(const char *name), char *id, size_t size)
{
    struct col_proc_stat stat;
    char host[100] = "";
    if (!is_set(get("PMI_RANK")) || (!is_set(get("PMI_FD")) && !is_set(get("PMI_PORT"))))
        return false;
    if (col_proc_read_stat((int32_t)getppid(), &stat) != 0 ||
        gethostname(host, sizeof host - 1) != 0)
        return false;
    snprintf(id, size, "%.99s %d %llu", host, (int)stat.pid, (unsigned long long)stat.start_ticks);
    return true;
}

bool col_job_read(const char *(*get)(const char *name), struct col_job *job)
{
    static const struct {
        const char *name, *rank, *ranks, *node_ranks;
        bool (*id)(const char *(*get)(const char *name), char *id, size_t size);
    } launcher[] = {
#define LAUNCHER_ROW(name, rank, ranks, node_ranks) {#name, rank, ranks, node_ranks, id_##name},
        LAUNCHER_MAP(LAUNCHER_ROW)
#undef LAUNCHER_ROW
    };
    memset(job, 0, sizeof *job);
    for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++) {
        if (!launcher[i].id(get, job->id, sizeof job->id))
            continue;
        snprintf(job->launcher, sizeof job->launcher, "%s", launcher[i].name);
        job->rank = number(get(launcher[i].rank));
        job->ranks = number(get(launcher[i].ranks));
        job->node_ranks = number(get(launcher[i].node_ranks));
        if (launcher[i].id == id_slurm) {
            const char *tasks = get("SLURM_STEP_TASKS_PER_NODE");
            job->node_ranks = col_job_tasks(tasks ? tasks : get("SLURM_TASKS_PER_NODE"),
                                            number(get("SLURM_NODEID")));
        }
        static const char *const nodes[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", NULL};
        if (job->ranks != STORE_ABSENT && job->node_ranks != STORE_ABSENT)
            job->many_nodes = job->ranks > job->node_ranks;
        else
            job->many_nodes = launcher[i].id == id_slurm && first_number(get, nodes) > 1;
        return true;
    }
    return false;
}

static const char *environment(const char *name)
{
    return getenv(name);
}

bool col_job_own(struct col_job *job)
{
    return col_job_read(environment, job);
}
