/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrapper of cublasLtMatmul. Shapes and types are in opaque descriptors, which the real
 * library is asked about; a descriptor that it does not know makes the call one of unknown shape.
 * Prototypes and numbers: cublasLt.h.
 */
#include "profiler/gemm/gemm.h"

/* cublasLtMatrixLayoutAttribute_t */
enum { LAYOUT_TYPE = 0, LAYOUT_ROWS = 2, LAYOUT_COLS = 3, LAYOUT_BATCH = 5 };
/* cublasLtMatmulDescAttributes_t */
enum {
    DESC_COMPUTE = 0,
    DESC_SCALE_TYPE = 1,
    DESC_POINTER_MODE = 2,
    DESC_TRANSA = 3,
    DESC_TRANSB = 4
};
/* cublasLtPointerMode_t of which beta is on the host */
enum { POINTER_HOST = 0, POINTER_BETA_HOST = 4 };

typedef int get_attribute(const void *descriptor, int attribute, void *to, size_t size,
                          size_t *written);

struct layout {
    uint64_t rows, cols;
    uint32_t type;
    int32_t batch;
};

static bool read_layout(get_attribute *get, const void *descriptor, struct layout *layout)
{
    size_t written;
    return descriptor &&
           get(descriptor, LAYOUT_TYPE, &layout->type, sizeof layout->type, &written) == 0 &&
           get(descriptor, LAYOUT_ROWS, &layout->rows, sizeof layout->rows, &written) == 0 &&
           get(descriptor, LAYOUT_COLS, &layout->cols, sizeof layout->cols, &written) == 0 &&
           get(descriptor, LAYOUT_BATCH, &layout->batch, sizeof layout->batch, &written) == 0;
}

/* m and n are D's, k is the other side of A. The order of a layout (rows or columns first, tiles)
 * does not change its shape. */
static bool read_call(const void *desc, const void *a, const void *b, const void *d,
                      const void *beta, struct gemm_call *call)
{
    get_attribute *layout = (get_attribute *)gemm_real(GEMM_cublasLtMatrixLayoutGetAttribute);
    get_attribute *ask = (get_attribute *)gemm_real(GEMM_cublasLtMatmulDescGetAttribute);
    struct layout a_layout, b_layout, d_layout;
    int32_t compute, scale, pointer, transa, transb;
    size_t written;
    if (!layout || !ask || !desc || !read_layout(layout, a, &a_layout) ||
        !read_layout(layout, b, &b_layout) || !read_layout(layout, d, &d_layout) ||
        ask(desc, DESC_COMPUTE, &compute, sizeof compute, &written) != 0 ||
        ask(desc, DESC_TRANSA, &transa, sizeof transa, &written) != 0 ||
        ask(desc, DESC_TRANSB, &transb, sizeof transb, &written) != 0 ||
        d_layout.rows > INT64_MAX || d_layout.cols > INT64_MAX || a_layout.rows > INT64_MAX ||
        a_layout.cols > INT64_MAX)
        return false;
    *call = (struct gemm_call){.transa = transa,
                               .transb = transb,
                               .m = (int64_t)d_layout.rows,
                               .n = (int64_t)d_layout.cols,
                               .k = (int64_t)(transa == 0 ? a_layout.cols : a_layout.rows),
                               .batch = d_layout.batch,
                               .a = (int)a_layout.type,
                               .b = (int)b_layout.type,
                               .c = (int)d_layout.type,
                               .compute = compute};
    call->reads_c = beta && ask(desc, DESC_POINTER_MODE, &pointer, sizeof pointer, &written) == 0 &&
                    (pointer == POINTER_HOST || pointer == POINTER_BETA_HOST) &&
                    ask(desc, DESC_SCALE_TYPE, &scale, sizeof scale, &written) == 0 &&
                    gemm_scalar_is_set(beta, scale);
    return true;
}

GEMM_EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a,
                               void *a_layout, const void *b, void *b_layout, const void *beta,
                               const void *c, void *c_layout, void *d, void *d_layout,
                               const void *algo, void *workspace, size_t workspace_size,
                               void *stream);

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const void *algo, void *workspace,
                   size_t workspace_size, void *stream)
{
    int (*real)(void *, void *, const void *, const void *, void *, const void *, void *,
                const void *, const void *, void *, void *, void *, const void *, void *, size_t,
                void *) =
        (int (*)(void *, void *, const void *, const void *, void *, const void *, void *,
                 const void *, const void *, void *, void *, void *, const void *, void *, size_t,
                 void *))gemm_real(GEMM_cublasLtMatmul);
    struct gemm_call call;
    if (!real)
        return GEMM_NO_LIBRARY;
    if (!gemm_enter())
        return real(handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                    algo, workspace, workspace_size, stream);
    if (read_call(desc, a_layout, b_layout, d_layout, beta, &call))
        gemm_push(GEMM_cublasLtMatmul, &call);
    else
        gemm_push_unknown(GEMM_cublasLtMatmul);
    int status = real(handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                      algo, workspace, workspace_size, stream);
    gemm_leave();
    return status;
}
