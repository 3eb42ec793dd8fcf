/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/cuda: the part of NCCL's interface that comm.cu calls, opened at run time; a
 * test compares it with nccl.h where that is installed.
 */
#ifndef LT_CUDA_NCCL_H
#define LT_CUDA_NCCL_H

#include <cuda_runtime.h>
#include <stddef.h>

enum { NCCL_FP32 = 7, NCCL_FP64 = 8, NCCL_SUM = 0 };

typedef struct nccl_comm_data *nccl_comm;

struct nccl_id {
    char bytes[128];
};

/* return type, name without nccl, parameters */
#define NCCL_MAP(X) \
    X(int, GetUniqueId, (struct nccl_id * id)) \
    X(int, CommInitRank, (nccl_comm * comm, int ranks, struct nccl_id id, int rank)) \
    X(int, CommDestroy, (nccl_comm comm)) \
    X(int, GroupStart, (void)) \
    X(int, GroupEnd, (void)) \
    X(int, AllReduce, \
      (const void *from, void *to, size_t count, int type, int op, nccl_comm comm, \
       cudaStream_t stream)) \
    X(const char *, GetErrorString, (int result))

struct nccl {
#define NCCL_POINTER(type, name, parameters) type(*name) parameters;
    NCCL_MAP(NCCL_POINTER)
#undef NCCL_POINTER
};

#endif
