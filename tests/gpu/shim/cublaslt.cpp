/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute libcublasLt for the tests of libtrain/cuda: products by plain loops, put on the
 * queue of the substitute runtime. It refuses what the real one refuses of the little that is asked
 * of it (other types, extents that do not fit), and matrices that are not aligned as was promised
 * when the algorithm was asked for, at which the real one may fail or not. $SHIM_EPILOGUES=none: it
 * has no algorithm with an epilogue.
 *
 * There are three algorithms: 42, which it proposes first; 43, which does not run; 44, which takes
 * a third of the time of 42.
 */
#include "libtrain/cuda/blas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "libtrain/base/dtype.h"
#include "libtrain/ops/kernels.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

enum { OK = 0, INVALID = 7, NOT_SUPPORTED = 15 };

struct blas_handle_data {
    int none;
};
struct blas_desc_data {
    int turned[2];
    uint32_t epilogue;
    void *bias, *aux;
    int64_t aux_stride;
};
struct blas_layout_data {
    int type;
    int64_t rows, columns, stride;
};
struct blas_preference_data {
    size_t workspace;
    uint32_t alignment[4]; /* a, b, c, d */
};

static float at(const struct blas_layout_data &layout, const void *base, int64_t row,
                int64_t column)
{
    int64_t i = column * layout.stride + row;
    return layout.type == BLAS_BF16 ? lt_bf16_float(((const lt_bf16 *)base)[i])
                                    : ((const float *)base)[i];
}

/* All of a factor as floats, so that the loop over terms is over neighbours. */
static std::vector<float> floats(const struct blas_layout_data &layout, const void *base,
                                 bool by_rows)
{
    std::vector<float> values((size_t)(layout.rows * layout.columns));
    size_t next = 0;
    int64_t outer = by_rows ? layout.rows : layout.columns,
            inner = by_rows ? layout.columns : layout.rows;
    for (int64_t i = 0; i < outer; i++)
        for (int64_t j = 0; j < inner; j++)
            values[next++] = by_rows ? at(layout, base, i, j) : at(layout, base, j, i);
    return values;
}

static void set(const struct blas_layout_data &layout, void *base, int64_t i, float value)
{
    if (layout.type == BLAS_BF16)
        ((lt_bf16 *)base)[i] = lt_bf16_round(value);
    else
        ((float *)base)[i] = value;
}

/* What the epilogue makes of an element of the result. */
static float finish(const struct blas_desc_data &x, const struct blas_layout_data &d, int64_t row,
                    int64_t column, float value)
{
    const struct blas_layout_data vector = {d.type, d.rows, 1, d.rows},
                                  matrix = {d.type, d.rows, d.columns, x.aux_stride};
    if (x.epilogue & BLAS_EPILOGUE_BIAS)
        value += at(vector, x.bias, row, 0);
    if (x.epilogue == BLAS_EPILOGUE_GELU) {
        set(matrix, x.aux, column * x.aux_stride + row, value);
        float cube = value * value * value;
        return 0.5f * value * (1 + tanhf(LT_GELU_SCALE * (value + LT_GELU_CUBIC * cube)));
    }
    if (x.epilogue == BLAS_EPILOGUE_DGELU) {
        float y = at(matrix, x.aux, row, column),
              t = tanhf(LT_GELU_SCALE * (y + LT_GELU_CUBIC * y * y * y));
        return value * (0.5f * (1 + t) +
                        0.5f * y * (1 - t * t) * LT_GELU_SCALE * (1 + 3 * LT_GELU_CUBIC * y * y));
    }
    return value;
}

/* d[m,n] = a b, or += with add: a by rows, b by columns, both over k terms. */
static void product(const std::vector<float> &a, const std::vector<float> &b, int64_t k, bool add,
                    const struct blas_desc_data &how, const struct blas_layout_data &d, void *to)
{
    for (int64_t column = 0; column < d.columns; column++)
        for (int64_t row = 0; row < d.rows; row++) {
            const float *x = &a[(size_t)(row * k)], *y = &b[(size_t)(column * k)];
            float sum[16] = {}, total = 0;
            int64_t i = 0;
            for (; i + 16 <= k; i += 16)
                for (int j = 0; j < 16; j++)
                    sum[j] += x[i + j] * y[i + j];
            for (; i < k; i++)
                total += x[i] * y[i];
            for (float part : sum)
                total += part;
            if (add)
                total += at(d, to, row, column);
            set(d, to, column * d.stride + row, finish(how, d, row, column, total));
        }
    for (int64_t column = 0; how.epilogue == BLAS_EPILOGUE_BGRADB && column < d.columns; column++) {
        float sum = 0;
        for (int64_t i = 0; i < k; i++)
            sum += b[(size_t)(column * k + i)];
        set(d, how.bias, column, sum);
    }
}

EXPORT int cublasLtCreate(blas_handle *handle)
{
    *handle = new struct blas_handle_data();
    return OK;
}

EXPORT int cublasLtDestroy(blas_handle handle)
{
    delete handle;
    return OK;
}

EXPORT size_t cublasLtGetVersion(void)
{
    return 130100;
}

EXPORT int cublasLtMatmulDescCreate(blas_desc *desc, int compute, int scale)
{
    *desc = new struct blas_desc_data();
    (*desc)->epilogue = BLAS_EPILOGUE_NONE;
    return compute == BLAS_COMPUTE_FP32 && scale == BLAS_FP32 ? OK : NOT_SUPPORTED;
}

EXPORT int cublasLtMatmulDescDestroy(blas_desc desc)
{
    delete desc;
    return OK;
}

EXPORT int cublasLtMatmulDescSetAttribute(blas_desc desc, int attribute, const void *from,
                                          size_t size)
{
    const struct {
        int attribute;
        void *to;
        size_t size;
    } known[] = {{BLAS_DESC_TRANSA, &desc->turned[0], sizeof desc->turned[0]},
                 {BLAS_DESC_TRANSB, &desc->turned[1], sizeof desc->turned[1]},
                 {BLAS_DESC_EPILOGUE, &desc->epilogue, sizeof desc->epilogue},
                 {BLAS_DESC_BIAS, &desc->bias, sizeof desc->bias},
                 {BLAS_DESC_AUX, &desc->aux, sizeof desc->aux},
                 {BLAS_DESC_AUX_STRIDE, &desc->aux_stride, sizeof desc->aux_stride}};
    for (const auto &one : known)
        if (one.attribute == attribute && one.size == size) {
            memcpy(one.to, from, size);
            return OK;
        }
    return INVALID;
}

EXPORT int cublasLtMatrixLayoutCreate(blas_layout *layout, int type, uint64_t rows,
                                      uint64_t columns, int64_t stride)
{
    *layout = new blas_layout_data();
    **layout = {type, (int64_t)rows, (int64_t)columns, stride};
    return stride >= (int64_t)rows && rows && columns ? OK : INVALID;
}

EXPORT int cublasLtMatrixLayoutDestroy(blas_layout layout)
{
    delete layout;
    return OK;
}

EXPORT int cublasLtMatmulPreferenceCreate(blas_preference *preference)
{
    *preference = new struct blas_preference_data();
    for (uint32_t &alignment : (*preference)->alignment)
        alignment = 256;
    return OK;
}

EXPORT int cublasLtMatmulPreferenceDestroy(blas_preference preference)
{
    delete preference;
    return OK;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(blas_preference preference, int attribute,
                                                const void *from, size_t size)
{
    int matrix = attribute - BLAS_PREF_ALIGNMENT;
    if (matrix >= 0 && matrix < 4 && size == sizeof preference->alignment[matrix]) {
        memcpy(&preference->alignment[matrix], from, size);
        return OK;
    }
    if (attribute != BLAS_PREF_WORKSPACE || size != sizeof preference->workspace)
        return INVALID;
    memcpy(&preference->workspace, from, size);
    return OK;
}

static int64_t terms(const struct blas_layout_data &layout, bool rows)
{
    return rows ? layout.rows : layout.columns;
}

/* Is there an algorithm with this epilogue, and has it what it reads and writes? */
static bool finishes(const struct blas_desc_data &x, const struct blas_layout_data &a,
                     const struct blas_layout_data &d)
{
    const char *none = getenv("SHIM_EPILOGUES");
    bool bias = x.epilogue == BLAS_EPILOGUE_BIAS || x.epilogue == BLAS_EPILOGUE_GELU ||
                x.epilogue == BLAS_EPILOGUE_BGRADB,
         aux = x.epilogue == BLAS_EPILOGUE_GELU || x.epilogue == BLAS_EPILOGUE_DGELU;
    if (x.epilogue == BLAS_EPILOGUE_NONE)
        return true;
    if ((!bias && !aux) || (none && !strcmp(none, "none")))
        return false;
    if (x.epilogue == BLAS_EPILOGUE_BGRADB)
        return x.bias && d.type == BLAS_FP32;
    return d.type == a.type && !bias == !x.bias && !aux == !x.aux &&
           (!aux || (x.aux_stride % 8 == 0 && x.aux_stride >= d.rows));
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(blas_handle, blas_desc desc, blas_layout a, blas_layout b,
                                          blas_layout c, blas_layout d, blas_preference preference,
                                          int wanted, struct blas_choice *choices, int *found)
{
    bool types =
        a->type == b->type && c->type == d->type && (d->type == BLAS_FP32 || d->type == a->type);
    bool extents = terms(*a, desc->turned[0]) == terms(*b, !desc->turned[1]) &&
                   terms(*a, !desc->turned[0]) == d->rows &&
                   terms(*b, desc->turned[1]) == d->columns;
    *found = 0;
    if (types && extents && !finishes(*desc, *a, *d))
        return NOT_SUPPORTED;
    if (!types || !extents || wanted < 1)
        return types && extents ? INVALID : NOT_SUPPORTED;
    for (; *found < 3 && *found < wanted; ++*found) {
        struct blas_choice *choice = &choices[*found];
        *choice = {};
        choice->algorithm.data[0] = (uint64_t)(42 + *found);
        for (int i = 0; i < 4; i++)
            choice->algorithm.data[i + 1] = preference->alignment[i];
    }
    return OK;
}

EXPORT int cublasLtMatmul(blas_handle, blas_desc desc, const void *alpha, const void *a,
                          blas_layout a_layout, const void *b, blas_layout b_layout,
                          const void *beta, const void *c, blas_layout, void *d,
                          blas_layout d_layout, const struct blas_algorithm *algorithm, void *,
                          size_t, cudaStream_t stream)
{
    const struct blas_desc_data x = *desc;
    const struct blas_layout_data left = *a_layout, right = *b_layout, out = *d_layout;
    bool add = *(const float *)beta == 1;
    const void *const matrices[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)matrices[i] % algorithm->data[i + 1])
            return INVALID;
    if ((uintptr_t)x.bias % 16 || (uintptr_t)x.aux % 16 || !finishes(x, left, out) ||
        (add && x.epilogue != BLAS_EPILOGUE_NONE))
        return INVALID;
    if (*(const float *)alpha != 1 || (!add && *(const float *)beta != 0) || c != d ||
        algorithm->data[0] < 42 || algorithm->data[0] > 44)
        return INVALID;
    if (algorithm->data[0] == 43)
        return NOT_SUPPORTED;
    uint64_t ns = algorithm->data[0] == 44 ? 10000 : 30000;
    shim_enqueue(stream, [=] {
        uint64_t begin = shim_now();
        /* a turned factor stands by rows already */
        product(floats(left, a, !x.turned[0]), floats(right, b, x.turned[1]),
                terms(left, x.turned[0]), add, x, out, d);
        shim_takes(stream, ns);
        shim_note(ns == 10000 ? "algorithm 44" : "algorithm 42");
        shim_done("matmul", begin);
    });
    return OK;
}
