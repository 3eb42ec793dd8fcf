/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the rows of a matrix: gradients of biases, and of layernorm's parameters. First each
 * block sums a chunk of rows into the workspace, then a thread a column sums the chunks. The chunks
 * depend on the shape alone, so that the result does not depend on the device.
 */
#include "libtrain/cuda/kernel.h"
#include "libtrain/cuda/launch.h"

static const int row_lanes = 8; /* rows that a block reads side by side */
static const int64_t chunks_most = 128, chunk_rows_least = 64;

/* Block (lanes, row_lanes): columns from blockIdx.x on, chunk blockIdx.y. partial[chunk][column] of
 * dout and, if NORMALISED, after all of them partial[chunk][column] of dout hat. */
template <class T, int N, bool NORMALISED>
__global__ void column_partials(float *partial, const T *dout, const T *in, const float *mean,
                                const float *rstd, int64_t rows, int64_t c, int64_t chunk)
{
    float *sums = shared_memory<float>();
    const int kinds = NORMALISED ? 2 : 1;
    int64_t column = ((int64_t)blockIdx.x * lanes + threadIdx.x) * N, from = blockIdx.y * chunk,
            end = from + chunk < rows ? from + chunk : rows;
    float sum[2][N] = {};
    for (int64_t i = from + threadIdx.y; i < end && column < c; i += row_lanes) {
        pack<T, N> slope = load<T, N>(dout + i * c + column);
        for (int j = 0; j < N; j++)
            sum[0][j] += get(slope.at[j]);
        if (NORMALISED) {
            pack<T, N> value = load<T, N>(in + i * c + column);
            float middle = mean[i], scale = rstd[i];
            for (int j = 0; j < N; j++)
                sum[1][j] += get(slope.at[j]) * (get(value.at[j]) - middle) * scale;
        }
    }
    for (int kind = 0; kind < kinds; kind++)
        for (int j = 0; j < N; j++)
            sums[((kind * row_lanes + threadIdx.y) * lanes + threadIdx.x) * N + j] = sum[kind][j];
    __syncthreads();
    if (threadIdx.y || column >= c)
        return;
    for (int kind = 0; kind < kinds; kind++)
        for (int j = 0; j < N; j++) {
            float total = 0;
            for (int i = 0; i < row_lanes; i++)
                total += sums[((kind * row_lanes + i) * lanes + threadIdx.x) * N + j];
            partial[(kind * gridDim.y + blockIdx.y) * c + column + j] = total;
        }
}

/* blockIdx.y: 0 dbias, 1 dweight. */
__global__ void column_totals(float *dbias, float *dweight, const float *partial, int64_t chunks,
                              int64_t c, int add)
{
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float *to = blockIdx.y ? dweight : dbias;
    float total = 0;
    if (column >= c)
        return;
    for (int64_t i = 0; i < chunks; i++)
        total += partial[(blockIdx.y * chunks + i) * c + column];
    to[column] = add ? to[column] + total : total;
}

void cuda_columns(struct cuda_queue *queue, enum lt_dtype dtype, float *dbias, const void *dout,
                  const struct lt_layernorm *layernorm, int64_t rows, int64_t n, int add)
{
    int64_t room = (int64_t)(cuda_workspace_bytes / sizeof(float)) / (2 * n),
            most = room < chunks_most ? room : chunks_most;
    int64_t chunk = (rows + most - 1) / most;
    if (chunk < chunk_rows_least)
        chunk = chunk_rows_least;
    int64_t chunks = (rows + chunk - 1) / chunk;
    float *partial = (float *)queue->workspace;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(n, [&](auto width) {
            const int N = decltype(width)::value;
            dim3 grid(blocks_of(n, lanes * N), (unsigned)chunks), block(lanes, row_lanes);
            size_t bytes = sizeof(float) * lanes * row_lanes * N;
            if (layernorm)
                LAUNCH((column_partials<T, N, true>), grid, block, 2 * bytes, queue->stream,
                       partial, (const T *)dout, (const T *)layernorm->in, layernorm->mean,
                       layernorm->rstd, rows, n, chunk);
            else
                LAUNCH((column_partials<T, N, false>), grid, block, bytes, queue->stream, partial,
                       (const T *)dout, (const T *)nullptr, (const float *)nullptr,
                       (const float *)nullptr, rows, n, chunk);
        });
    });
    LAUNCH(column_totals, dim3(blocks_of(n, 256), layernorm ? 2 : 1), 256, 0, queue->stream, dbias,
           layernorm ? layernorm->dweight : (float *)nullptr, partial, chunks, n, add);
}
