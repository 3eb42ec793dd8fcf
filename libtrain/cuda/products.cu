/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers by cuBLASLt. What a product of a shape needs, descriptors and the algorithm that
 * the library proposes, is made once and kept; a captured step must find it there, so the first
 * step is not captured. Biases and their gradients are kernels of this folder: cuBLASLt adds only
 * biases of the type of its result, and ours are fp32.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "libtrain/cuda/blas.h"
#include "libtrain/cuda/launch.h"

/* cuBLASLt's matrices have columns one after the other, ours rows: it sees ours turned, and
 * computes the turned product with the factors exchanged. d[m,n] = a b, with the turned-over
 * factors. */
struct product {
    int a_turned, b_turned, type, d_type, add;
    int64_t m, n, k;
};

struct plan {
    struct product product;
    blas_desc desc;
    blas_layout a, b, d;
    struct blas_choice choice;
};

static const int plans_most = 64;

struct cuda_products {
    struct blas blas;
    blas_handle handle;
    blas_preference preference;
    struct plan plans[plans_most];
    int used;
};

/* The functions of the library, by name; the name that is missing, or NULL. */
static const char *load(struct blas *blas, void *library)
{
#define BLAS_FIND(type, name, parameters) \
    if (!(blas->name = (decltype(blas->name))dlsym(library, "cublasLt" #name))) \
        return "cublasLt" #name;
    BLAS_MAP(BLAS_FIND)
#undef BLAS_FIND
    return nullptr;
}

struct cuda_products *cuda_products_open(char *why, size_t size)
{
    const char *const names[] = {getenv("LT_CUBLASLT"), "libcublasLt.so.13", "libcublasLt.so.12",
                                 "libcublasLt.so"};
    struct cuda_products *products = (struct cuda_products *)calloc(1, sizeof *products);
    void *library = nullptr;
    for (const char *name : names)
        if (!library && name)
            library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!products || !library) {
        snprintf(why, size, "%s", products ? dlerror() : "out of memory");
        free(products);
        return nullptr;
    }
    const char *missing = load(&products->blas, library);
    size_t most = cuda_workspace_bytes;
    const uint32_t alignment = 16;
    int rc = missing ? 0 : products->blas.Create(&products->handle);
    if (!missing && !rc)
        rc = products->blas.MatmulPreferenceCreate(&products->preference);
    if (!missing && !rc)
        rc = products->blas.MatmulPreferenceSetAttribute(products->preference, BLAS_PREF_WORKSPACE,
                                                         &most, sizeof most);
    /* tensors begin at whole cache lines and rows of whole packs go on from there; the library
     * would take 256 bytes for granted */
    for (int i = 0; !missing && !rc && i < 4; i++)
        rc = products->blas.MatmulPreferenceSetAttribute(
            products->preference, BLAS_PREF_ALIGNMENT + i, &alignment, sizeof alignment);
    if (!missing && !rc)
        return products;
    if (missing)
        snprintf(why, size, "libcublasLt has no %s", missing);
    else
        snprintf(why, size, "cuBLASLt does not start: status %d", rc);
    free(products);
    return nullptr;
}

static void forget(const struct blas *blas, struct plan *plan)
{
    if (plan->desc)
        blas->MatmulDescDestroy(plan->desc);
    for (blas_layout layout : {plan->a, plan->b, plan->d})
        if (layout)
            blas->MatrixLayoutDestroy(layout);
}

void cuda_products_close(struct cuda_products *products)
{
    if (!products)
        return;
    for (int i = 0; i < products->used; i++)
        forget(&products->blas, &products->plans[i]);
    products->blas.MatmulPreferenceDestroy(products->preference);
    products->blas.Destroy(products->handle);
    free(products);
}

size_t cuda_products_version(const struct cuda_products *products)
{
    return products->blas.GetVersion();
}

/* Descriptors and algorithm of a shape. 0, or cuBLASLt's status; -1: it has no algorithm. */
static int make_plan(struct cuda_products *products, struct plan *plan)
{
    const struct product &p = plan->product;
    const struct blas &blas = products->blas;
    int found = 0, rc = blas.MatmulDescCreate(&plan->desc, BLAS_COMPUTE_FP32, BLAS_FP32);
    const struct {
        int attribute, turned;
    } sides[] = {{BLAS_DESC_TRANSA, p.a_turned}, {BLAS_DESC_TRANSB, p.b_turned}};
    const int turned = BLAS_TRANSPOSED;
    for (auto side : sides)
        if (!rc && side.turned)
            rc = blas.MatmulDescSetAttribute(plan->desc, side.attribute, &turned, sizeof turned);
    const struct {
        blas_layout *layout;
        int type;
        int64_t rows, columns;
    } matrices[] = {{&plan->a, p.type, p.a_turned ? p.k : p.m, p.a_turned ? p.m : p.k},
                    {&plan->b, p.type, p.b_turned ? p.n : p.k, p.b_turned ? p.k : p.n},
                    {&plan->d, p.d_type, p.m, p.n}};
    for (auto matrix : matrices)
        if (!rc)
            rc = blas.MatrixLayoutCreate(matrix.layout, matrix.type, (uint64_t)matrix.rows,
                                         (uint64_t)matrix.columns, matrix.rows);
    if (!rc)
        rc = blas.MatmulAlgoGetHeuristic(products->handle, plan->desc, plan->a, plan->b, plan->d,
                                         plan->d, products->preference, 1, &plan->choice, &found);
    return rc ? rc : (found < 1 || plan->choice.state ? -1 : 0);
}

static bool same(const struct product &a, const struct product &b)
{
    return a.a_turned == b.a_turned && a.b_turned == b.b_turned && a.type == b.type &&
           a.d_type == b.d_type && a.add == b.add && a.m == b.m && a.n == b.n && a.k == b.k;
}

/* The kept plan of that shape, or a new one; nullptr where there can be none, which was said. */
static struct plan *plan_of(struct cuda_queue *queue, const struct product &wanted)
{
    struct cuda_products *products = queue->products;
    for (int i = 0; i < products->used; i++)
        if (same(products->plans[i].product, wanted))
            return &products->plans[i];
    if (products->used == plans_most) { /* shapes that came first are looked up anew */
        forget(&products->blas, &products->plans[0]);
        products->plans[0] = products->plans[--products->used];
    }
    struct plan *plan = &products->plans[products->used];
    *plan = {};
    plan->product = wanted;
    int rc = make_plan(products, plan);
    if (rc == 0) {
        products->used++;
        return plan;
    }
    char why[64];
    snprintf(why, sizeof why, rc > 0 ? "cuBLASLt: status %d" : "cuBLASLt has no algorithm for it",
             rc);
    forget(&products->blas, plan);
    queue->fail(queue, "matmul", why);
    return nullptr;
}

static void multiply(struct cuda_queue *queue, const struct product &product, const void *a,
                     const void *b, void *d)
{
    const float one = 1, beta = product.add ? 1.0f : 0.0f;
    struct plan *plan = plan_of(queue, product);
    if (!plan)
        return;
    int rc = queue->products->blas.Matmul(
        queue->products->handle, plan->desc, &one, a, plan->a, b, plan->b, &beta, d, plan->d, d,
        plan->d, &plan->choice.algorithm, queue->workspace, cuda_workspace_bytes, queue->stream);
    char why[64];
    snprintf(why, sizeof why, "cuBLASLt: status %d", rc);
    if (rc)
        queue->fail(queue, "matmul", why);
}

static int blas_type(enum lt_dtype dtype)
{
    return dtype == LT_DTYPE_BF16 ? BLAS_BF16 : BLAS_FP32;
}

/* out' = weight'' in': [n, rows] = [n, k] [k, rows]. */
void cuda_matmul_forward(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_matmul a = args->matmul_forward;
    int type = blas_type(dtype);
    multiply(queue, {1, 0, type, type, 0, a.n, a.rows, a.k}, a.weight, a.in, a.out);
    if (a.bias)
        cuda_bias(queue, dtype, a.out, a.bias, a.rows, a.n);
}

/* din' = weight' dout': [k, rows] = [k, n] [n, rows]; dweight' = in' dout'': [k, n] = [k, rows]
 * [rows, n]. */
void cuda_matmul_backward(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_matmul a = args->matmul_backward;
    int type = blas_type(dtype);
    if (a.din)
        multiply(queue, {0, 0, type, type, a.add, a.k, a.rows, a.n}, a.weight, a.dout, a.din);
    multiply(queue, {0, 1, type, BLAS_FP32, a.accumulate, a.k, a.n, a.rows}, a.in, a.dout,
             a.dweight);
    if (a.dbias)
        cuda_columns(queue, dtype, a.dbias, a.dout, nullptr, a.rows, a.n, a.accumulate);
}
