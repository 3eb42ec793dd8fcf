/* SPDX-License-Identifier: Apache-2.0
 *
 * Template (ops/typed.h): the loops of activations.c, for one element type.
 */

#define ELEMENTWISE(name) \
    static void TYPED(name##_forward)(const void *in, void *out, int64_t rows, int64_t columns) \
    { \
        const ELEMENT *x = in; \
        ELEMENT *y = out; \
        _Pragma("omp parallel for simd schedule(static)") for (int64_t i = 0; i < rows * columns; \
                                                               i++) y[i] = \
            PUT(name##_value(GET(x[i]))); \
    } \
    static void TYPED(name##_backward)(const void *in, const void *dout, void *din, int64_t rows, \
                                       int64_t columns) \
    { \
        const ELEMENT *x = in, *dy = dout; \
        ELEMENT *dx = din; \
        _Pragma("omp parallel for simd schedule(static)") for (int64_t i = 0; i < rows * columns; \
                                                               i++) dx[i] = \
            PUT(GET(dy[i]) * name##_slope(GET(x[i]))); \
    }
ELEMENTWISE(relu)
ELEMENTWISE(leaky_relu)
ELEMENTWISE(gelu)
ELEMENTWISE(gelu_exact)
ELEMENTWISE(silu)
ELEMENTWISE(sigmoid)
ELEMENTWISE(tanh)
ELEMENTWISE(softplus)
#undef ELEMENTWISE

/* Largest of a row. In lanes, because compilers do not turn a maximum into vectors where a NaN
 * could come by. */
static inline float TYPED(row_most)(const ELEMENT *x, int64_t columns)
{
    enum { LANES = 16 };
    float lane[LANES], most = GET(x[0]);
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = most;
    for (; i + LANES <= columns; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = GET(x[i + j]) > lane[j] ? GET(x[i + j]) : lane[j];
    for (; i < columns; i++)
        most = GET(x[i]) > most ? GET(x[i]) : most;
    for (int j = 0; j < LANES; j++)
        most = lane[j] > most ? lane[j] : most;
    return most;
}

static void TYPED(softmax_forward)(const void *in, void *out, int64_t rows, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const ELEMENT *x = (const ELEMENT *)in + r * columns;
        ELEMENT *y = (ELEMENT *)out + r * columns;
        float most = TYPED(row_most)(x, columns), sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < columns; i++)
            sum += lt_exp(GET(x[i]) - most);
        float share = 1 / sum;
#pragma omp simd
        for (int64_t i = 0; i < columns; i++)
            y[i] = PUT(lt_exp(GET(x[i]) - most) * share);
    }
}

/* dx = y (dy - sum of y dy), with y made again. */
static void TYPED(softmax_backward)(const void *in, const void *dout, void *din, int64_t rows,
                                    int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const ELEMENT *x = (const ELEMENT *)in + r * columns,
                      *dy = (const ELEMENT *)dout + r * columns;
        ELEMENT *dx = (ELEMENT *)din + r * columns;
        float most = TYPED(row_most)(x, columns), sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
        for (int64_t i = 0; i < columns; i++) {
            float e = lt_exp(GET(x[i]) - most);
            sum += e;
            along += e * GET(dy[i]);
        }
        float share = 1 / sum, mean = along / sum;
#pragma omp simd
        for (int64_t i = 0; i < columns; i++)
            dx[i] = PUT(lt_exp(GET(x[i]) - most) * share * (GET(dy[i]) - mean));
    }
}
