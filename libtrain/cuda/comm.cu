/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the devices of several ranks, by NCCL on a stream of its own, so that backward goes on
 * meanwhile. The stream waits for what is on the queue when a sum is asked for, and the queue for
 * the sums where their results are needed; both also while a step is captured.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "libtrain/cuda/launch.h"
#include "libtrain/cuda/nccl.h"

struct cuda_comm {
    struct nccl nccl;
    nccl_comm comm;
    cudaStream_t stream;
    cudaEvent_t begun, ended;
    int asked; /* since the queue waited */
};

/* The functions of the library, by name; the name that is missing, or nullptr. */
static const char *load(struct nccl *nccl, void *library)
{
#define NCCL_FIND(type, name, parameters) \
    if (!(nccl->name = (decltype(nccl->name))dlsym(library, "nccl" #name))) \
        return "nccl" #name;
    NCCL_MAP(NCCL_FIND)
#undef NCCL_FIND
    return nullptr;
}

/* $LT_NCCL names the library, else the loader finds it. 0, or -1 with the reason. */
static int find_library(struct nccl *nccl, char *why, size_t size)
{
    const char *const names[] = {getenv("LT_NCCL"), "libnccl.so.2"};
    void *library = nullptr;
    for (const char *name : names)
        if (!library && name)
            library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *missing = library ? load(nccl, library) : "libnccl.so.2";
    if (missing)
        snprintf(why, size, "%s was not found: %s", missing, library ? "" : dlerror());
    return missing ? -1 : 0;
}

int cuda_comm_identity(void *id, char *why, size_t size)
{
    struct nccl nccl;
    static_assert(sizeof(struct nccl_id) == LT_DEVICE_ID_BYTES, "an identity is NCCL's");
    int rc = find_library(&nccl, why, size) ? -1 : nccl.GetUniqueId((struct nccl_id *)id);
    if (rc > 0)
        snprintf(why, size, "NCCL: %s", nccl.GetErrorString(rc));
    return rc ? -1 : 0;
}

static cudaError_t make_stream(struct cuda_comm *comm)
{
    cudaError_t error = cudaStreamCreateWithFlags(&comm->stream, cudaStreamNonBlocking);
    for (cudaEvent_t *event : {&comm->begun, &comm->ended})
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    return error;
}

struct cuda_comm *cuda_comm_open(const void *id, int rank, int ranks, char *why, size_t size)
{
    struct cuda_comm *comm = (struct cuda_comm *)calloc(1, sizeof *comm);
    if (!comm || find_library(&comm->nccl, why, size)) {
        free(comm);
        return nullptr;
    }
    cudaError_t error = make_stream(comm);
    int rc = error == cudaSuccess
                 ? comm->nccl.CommInitRank(&comm->comm, ranks, *(const struct nccl_id *)id, rank)
                 : 0;
    if (error == cudaSuccess && !rc)
        return comm;
    snprintf(why, size, "NCCL: %s", rc ? comm->nccl.GetErrorString(rc) : cudaGetErrorString(error));
    cuda_comm_close(comm);
    return nullptr;
}

void cuda_comm_close(struct cuda_comm *comm)
{
    if (!comm)
        return;
    if (comm->stream)
        cudaStreamSynchronize(comm->stream);
    if (comm->comm)
        comm->nccl.CommDestroy(comm->comm);
    for (cudaEvent_t event : {comm->begun, comm->ended})
        if (event)
            cudaEventDestroy(event);
    if (comm->stream)
        cudaStreamDestroy(comm->stream);
    free(comm);
}

/* Says what went wrong. */
static void check(struct cuda_queue *queue, const struct cuda_comm *comm, cudaError_t error, int rc)
{
    if (error != cudaSuccess)
        queue->fail(queue, "all-reduce", cudaGetErrorString(error));
    else if (rc)
        queue->fail(queue, "all-reduce", comm->nccl.GetErrorString(rc));
}

void cuda_comm_reduce(struct cuda_queue *queue, struct cuda_comm *comm,
                      const struct lt_device_array *pieces, size_t count, int doubles)
{
    int rc = 0;
    cudaError_t error = cudaEventRecord(comm->begun, queue->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(comm->stream, comm->begun, 0);
    if (error == cudaSuccess)
        rc = comm->nccl.GroupStart();
    for (size_t i = 0; i < count && error == cudaSuccess && !rc; i++)
        rc = comm->nccl.AllReduce(pieces[i].x, pieces[i].x, pieces[i].count,
                                  doubles ? NCCL_FP64 : NCCL_FP32, NCCL_SUM, comm->comm,
                                  comm->stream);
    if (error == cudaSuccess && !rc)
        rc = comm->nccl.GroupEnd();
    comm->asked = 1;
    check(queue, comm, error, rc);
}

void cuda_comm_join(struct cuda_queue *queue, struct cuda_comm *comm)
{
    if (!comm->asked)
        return;
    comm->asked = 0;
    cudaError_t error = cudaEventRecord(comm->ended, comm->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(queue->stream, comm->ended, 0);
    check(queue, comm, error, 0);
}
