/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/cuda: one function an operation, which puts its kernels on the queue, and
 * what all of them need beside their arguments. The table in device.cu calls them.
 */
#ifndef LT_CUDA_LAUNCH_H
#define LT_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#include "libtrain/ops/device.h"

/* cuBLASLt asks for 32 MiB on Hopper; the kernels' partial sums fit too. Operations of one queue
 * use it one after the other. */
static const size_t cuda_workspace_bytes = (size_t)32 << 20;

struct cuda_products;

/* What a launch is given. fail keeps the first reason why something could not be done. */
struct cuda_queue {
    cudaStream_t stream;
    void *workspace;
    struct lt_late *late;
    struct cuda_products *products;
    int warpgroups; /* the device has wgmma, and it is not turned off */
    int tune; /* algorithms of a new product that are timed, on this queue; at most 1: none is */
    void (*fail)(struct cuda_queue *queue, const char *what, const char *why);
};

typedef void cuda_launch(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args);

cuda_launch cuda_embedding_forward, cuda_embedding_backward, cuda_layernorm_forward,
    cuda_layernorm_backward, cuda_matmul_forward, cuda_matmul_backward, cuda_attention_forward,
    cuda_attention_backward, cuda_gelu_forward, cuda_gelu_backward, cuda_residual_forward,
    cuda_classifier, cuda_norm, cuda_zero, cuda_adamw;

/* A residual whose sum is the input of a layernorm, in one pass. */
void cuda_residual_layernorm(struct cuda_queue *queue, enum lt_dtype dtype,
                             const struct lt_residual *residual,
                             const struct lt_layernorm *layernorm);

/* A linear layer whose output a GELU reads; the gradient of a linear layer's input, which a GELU's
 * backward turns into its own in its place. Both as one product, where cuBLASLt has that: 0, or -1,
 * and nothing was done. */
int cuda_matmul_gelu(struct cuda_queue *queue, enum lt_dtype dtype, const struct lt_matmul *matmul,
                     const struct lt_gelu *gelu);
int cuda_matmul_gelu_backward(struct cuda_queue *queue, enum lt_dtype dtype,
                              const struct lt_matmul *matmul, const struct lt_gelu *gelu);

/* out[rows,n] += bias[n]. */
void cuda_bias(struct cuda_queue *queue, enum lt_dtype dtype, void *out, const float *bias,
               int64_t rows, int64_t n);

/* dbias[n] = column sums of dout[rows,n], or += with `add`. With `layernorm` also its dweight, from
 * its in, mean and rstd. */
void cuda_columns(struct cuda_queue *queue, enum lt_dtype dtype, float *dbias, const void *dout,
                  const struct lt_layernorm *layernorm, int64_t rows, int64_t n, int add);

struct cuda_comm;

/* What makes several ranks one group: rank 0 makes an identity of LT_DEVICE_ID_BYTES, all open the
 * group with it (which waits for them). 0, and NULL: with the reason in why[size]. */
int cuda_comm_identity(void *id, char *why, size_t size);
struct cuda_comm *cuda_comm_open(const void *id, int rank, int ranks, char *why, size_t size);
void cuda_comm_close(struct cuda_comm *comm);
/* The pieces, of floats or doubles, become sums over the ranks, after what is on the queue now. */
void cuda_comm_reduce(struct cuda_queue *queue, struct cuda_comm *comm,
                      const struct lt_device_array *pieces, size_t count, int doubles);
/* What is put on the queue from now on comes after all sums. */
void cuda_comm_join(struct cuda_queue *queue, struct cuda_comm *comm);

/* Channels of a head that the attention kernels are made for. */
int cuda_attention_has(int64_t channels);

/* Opens cuBLASLt, that of $LT_CUBLASLT or the one the loader finds; NULL with the reason in
 * why[size]. */
struct cuda_products *cuda_products_open(char *why, size_t size);
void cuda_products_close(struct cuda_products *products);
/* As cuBLASLt has it: 130100 is 13.1.0. */
size_t cuda_products_version(const struct cuda_products *products);

#endif
