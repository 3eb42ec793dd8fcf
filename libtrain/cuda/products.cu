/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers by cuBLASLt. What a product of a shape needs, descriptors and the algorithm that
 * the library proposes, is made once and kept; a captured step must find it there, so the first
 * step is not captured.
 *
 * Biases, GELU, its slope and the gradients of biases are epilogues of the products. A bias must
 * have the type of the result there, so in bf16 it is the rounded copy that the optimizer writes.
 * Where the library has no algorithm with an epilogue, or pointers are not aligned for it, kernels
 * of this folder do the same in a pass of their own; $LT_CUDA_EPILOGUES=off: always.
 *
 * $LT_CUDA_TUNE=N: of the N best algorithms that the library proposes for a product, the fastest is
 * kept, by timing them when the product first comes. Another run may then choose another one, whose
 * sums have another order.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/cuda/blas.h"
#include "libtrain/cuda/launch.h"

/* cuBLASLt's matrices have columns one after the other, ours rows: it sees ours turned, and
 * computes the turned product with the factors exchanged. d[m,n] = a b, with the turned-over
 * factors. */
struct product {
    int a_turned, b_turned, type, d_type, add;
    int64_t m, n, k;
    int epilogue; /* 0: none */
};

/* What an epilogue reads or writes. */
struct beside {
    const void *bias;
    const void *matrix; /* as large as the result */
};

struct plan {
    struct product product;
    blas_desc desc;
    blas_layout a, b, d;
    struct blas_choice choice;
    bool missing; /* the library has no algorithm for it */
};

static const int plans_most = 64;
static const size_t alignment = 16; /* of all arrays, as the library is told */
static const int choices_most = 16, timed_runs = 3;

struct cuda_products {
    struct blas blas;
    blas_handle handle;
    blas_preference preference;
    struct plan plans[plans_most];
    int used;
    bool epilogues;
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
    const uint32_t aligned = alignment;
    const char *wanted = getenv("LT_CUDA_EPILOGUES");
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
            products->preference, BLAS_PREF_ALIGNMENT + i, &aligned, sizeof aligned);
    products->epilogues = !wanted || strcmp(wanted, "off") != 0;
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

/* The arrays of an epilogue; the library looks at their alignment when it chooses an algorithm. */
static int set_beside(const struct blas &blas, struct plan *plan, const struct beside &beside)
{
    int rc = 0;
    if (beside.bias)
        rc = blas.MatmulDescSetAttribute(plan->desc, BLAS_DESC_BIAS, &beside.bias,
                                         sizeof beside.bias);
    if (!rc && beside.matrix)
        rc = blas.MatmulDescSetAttribute(plan->desc, BLAS_DESC_AUX, &beside.matrix,
                                         sizeof beside.matrix);
    return rc;
}

static int make_desc(const struct blas &blas, struct plan *plan, const struct beside &beside)
{
    const struct product &p = plan->product;
    const int turned = BLAS_TRANSPOSED;
    const uint32_t epilogue = (uint32_t)p.epilogue;
    int rc = blas.MatmulDescCreate(&plan->desc, BLAS_COMPUTE_FP32, BLAS_FP32);
    if (!rc && p.a_turned)
        rc = blas.MatmulDescSetAttribute(plan->desc, BLAS_DESC_TRANSA, &turned, sizeof turned);
    if (!rc && p.b_turned)
        rc = blas.MatmulDescSetAttribute(plan->desc, BLAS_DESC_TRANSB, &turned, sizeof turned);
    if (!rc && p.epilogue)
        rc =
            blas.MatmulDescSetAttribute(plan->desc, BLAS_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!rc && beside.matrix)
        rc = blas.MatmulDescSetAttribute(plan->desc, BLAS_DESC_AUX_STRIDE, &p.m, sizeof p.m);
    return rc ? rc : set_beside(blas, plan, beside);
}

/* The factors of a product and its result. */
struct arrays {
    const void *a, *b;
    void *d;
};

static int run(struct cuda_queue *queue, const struct plan &plan, const struct blas_choice &choice,
               const struct arrays &of)
{
    const struct cuda_products *products = queue->products;
    const float one = 1, beta = plan.product.add ? 1.0f : 0.0f;
    return products->blas.Matmul(products->handle, plan.desc, &one, of.a, plan.a, of.b, plan.b,
                                 &beta, of.d, plan.d, of.d, plan.d, &choice.algorithm,
                                 queue->workspace, cuda_workspace_bytes, queue->stream);
}

/* Milliseconds of a few runs, after one that is not counted; infinity: it does not run. */
static float time_of(struct cuda_queue *queue, const struct plan &plan,
                     const struct blas_choice &choice, const struct arrays &of,
                     const cudaEvent_t events[2])
{
    float ms = INFINITY;
    if (choice.state || run(queue, plan, choice, of))
        return ms;
    cudaEventRecord(events[0], queue->stream);
    for (int i = 0; i < timed_runs; i++)
        if (run(queue, plan, choice, of))
            return ms;
    cudaEventRecord(events[1], queue->stream);
    if (cudaEventSynchronize(events[1]) != cudaSuccess ||
        cudaEventElapsedTime(&ms, events[0], events[1]) != cudaSuccess)
        ms = INFINITY;
    return ms;
}

/* The fastest of the choices, timed into a result of its own, because a product may add to what is
 * there. The first one where there is no memory for that. */
static int fastest(struct cuda_queue *queue, const struct plan &plan,
                   const struct blas_choice *choices, int found, struct arrays of)
{
    size_t bytes = (size_t)(plan.product.m * plan.product.n) *
                   (plan.product.d_type == BLAS_BF16 ? sizeof(lt_bf16) : sizeof(float));
    cudaEvent_t events[2] = {};
    void *own = nullptr;
    int best = 0;
    float least = INFINITY;
    bool ready = found > 1 && cudaMalloc(&own, bytes) == cudaSuccess;
    for (cudaEvent_t &event : events)
        if (ready)
            ready = cudaEventCreateWithFlags(&event, cudaEventDefault) == cudaSuccess;
    if (ready)
        cudaMemsetAsync(own, 0, bytes, queue->stream);
    of.d = own;
    for (int i = 0; i < found && ready; i++) {
        float ms = time_of(queue, plan, choices[i], of, events);
        if (ms < least) {
            least = ms;
            best = i;
        }
    }
    for (cudaEvent_t event : events)
        if (event)
            cudaEventDestroy(event);
    cudaFree(own);
    cudaGetLastError();
    return best;
}

/* Descriptors and algorithm of a shape. 0, or cuBLASLt's status; -1: it has no algorithm. */
static int make_plan(struct cuda_queue *queue, struct plan *plan, const struct arrays &arrays,
                     const struct beside &beside)
{
    const struct product &p = plan->product;
    struct cuda_products *products = queue->products;
    const struct blas &blas = products->blas;
    struct blas_choice choices[choices_most] = {};
    int wanted = queue->tune > 1 ? queue->tune : 1;
    int found = 0, rc = make_desc(blas, plan, beside);
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
        rc = blas.MatmulAlgoGetHeuristic(
            products->handle, plan->desc, plan->a, plan->b, plan->d, plan->d, products->preference,
            wanted < choices_most ? wanted : choices_most, choices, &found);
    if (!rc && found > 0)
        plan->choice = choices[fastest(queue, *plan, choices, found, arrays)];
    return rc ? rc : (found < 1 || plan->choice.state ? -1 : 0);
}

static bool same(const struct product &a, const struct product &b)
{
    return a.a_turned == b.a_turned && a.b_turned == b.b_turned && a.type == b.type &&
           a.d_type == b.d_type && a.add == b.add && a.m == b.m && a.n == b.n && a.k == b.k &&
           a.epilogue == b.epilogue;
}

/* The kept plan of that shape, or a new one. */
static struct plan *plan_of(struct cuda_queue *queue, const struct product &wanted,
                            const struct arrays &arrays, const struct beside &beside, int *rc)
{
    struct cuda_products *products = queue->products;
    *rc = 0;
    for (int i = 0; i < products->used; i++)
        if (same(products->plans[i].product, wanted))
            return &products->plans[i];
    if (products->used == plans_most) { /* shapes that came first are looked up anew */
        forget(&products->blas, &products->plans[0]);
        products->plans[0] = products->plans[--products->used];
    }
    struct plan *plan = &products->plans[products->used++];
    *plan = {};
    plan->product = wanted;
    *rc = make_plan(queue, plan, arrays, beside);
    plan->missing = *rc != 0;
    return plan;
}

static bool is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % alignment == 0;
}

/* d = a b, or += with `add`, and what the epilogue does. 0, or -1: there is no algorithm for it,
 * which is a failure of the queue unless there is an epilogue, that can be done otherwise. */
static int multiply(struct cuda_queue *queue, const struct product &product,
                    const struct arrays &arrays, const struct beside &beside)
{
    struct cuda_products *products = queue->products;
    char why[64];
    int rc;
    if (product.epilogue &&
        (!products->epilogues || !is_aligned(beside.bias) || !is_aligned(beside.matrix)))
        return -1;
    struct plan *plan = plan_of(queue, product, arrays, beside, &rc);
    if (!plan->missing && product.epilogue)
        rc = set_beside(products->blas, plan, beside);
    if (!plan->missing && !rc)
        rc = run(queue, *plan, plan->choice, arrays);
    if (!plan->missing && !rc)
        return 0;
    if (product.epilogue) {
        plan->missing = true;
        return -1;
    }
    snprintf(why, sizeof why, rc > 0 ? "cuBLASLt: status %d" : "cuBLASLt has no algorithm for it",
             rc);
    queue->fail(queue, "matmul", why);
    return -1;
}

static int blas_type(enum lt_dtype dtype)
{
    return dtype == LT_DTYPE_BF16 ? BLAS_BF16 : BLAS_FP32;
}

/* The bias in the type of the result, or nullptr. */
static const void *typed_bias(const struct lt_matmul &a, enum lt_dtype dtype)
{
    return dtype == LT_DTYPE_FP32 ? a.bias : a.rounded_bias;
}

/* out' = weight'' in': [n, rows] = [n, k] [k, rows]. */
static struct product forward_of(const struct lt_matmul &a, enum lt_dtype dtype, int epilogue)
{
    int type = blas_type(dtype);
    return {1, 0, type, type, 0, a.n, a.rows, a.k, epilogue};
}

void cuda_matmul_forward(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_matmul a = args->matmul_forward;
    const void *bias = a.bias ? typed_bias(a, dtype) : nullptr;
    if (bias && !multiply(queue, forward_of(a, dtype, BLAS_EPILOGUE_BIAS), {a.weight, a.in, a.out},
                          {bias, nullptr}))
        return;
    multiply(queue, forward_of(a, dtype, 0), {a.weight, a.in, a.out}, {});
    if (a.bias)
        cuda_bias(queue, dtype, a.out, a.bias, a.rows, a.n);
}

int cuda_matmul_gelu(struct cuda_queue *queue, enum lt_dtype dtype, const struct lt_matmul *matmul,
                     const struct lt_gelu *gelu)
{
    const void *bias = matmul->bias ? typed_bias(*matmul, dtype) : nullptr;
    if (!bias || matmul->n % 8) /* the second matrix has rows of a multiple of 8 */
        return -1;
    return multiply(queue, forward_of(*matmul, dtype, BLAS_EPILOGUE_GELU),
                    {matmul->weight, matmul->in, gelu->out}, {bias, matmul->out});
}

/* din' = weight' dout': [k, rows] = [k, n] [n, rows]. */
static struct product input_of(const struct lt_matmul &a, enum lt_dtype dtype, int epilogue)
{
    int type = blas_type(dtype);
    return {0, 0, type, type, a.add, a.k, a.rows, a.n, epilogue};
}

/* dweight' = in' dout'': [k, n] = [k, rows] [rows, n], and dbias. */
static void weight_gradient(struct cuda_queue *queue, enum lt_dtype dtype,
                            const struct lt_matmul &a)
{
    struct product product = {0,   1,   blas_type(dtype), BLAS_FP32,           a.accumulate,
                              a.k, a.n, a.rows,           BLAS_EPILOGUE_BGRADB};
    if (a.dbias && !a.accumulate &&
        !multiply(queue, product, {a.in, a.dout, a.dweight}, {a.dbias, nullptr}))
        return;
    product.epilogue = 0;
    multiply(queue, product, {a.in, a.dout, a.dweight}, {});
    if (a.dbias)
        cuda_columns(queue, dtype, a.dbias, a.dout, nullptr, a.rows, a.n, a.accumulate);
}

void cuda_matmul_backward(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_matmul a = args->matmul_backward;
    if (a.din)
        multiply(queue, input_of(a, dtype, 0), {a.weight, a.dout, a.din}, {});
    weight_gradient(queue, dtype, a);
}

int cuda_matmul_gelu_backward(struct cuda_queue *queue, enum lt_dtype dtype,
                              const struct lt_matmul *matmul, const struct lt_gelu *gelu)
{
    if (!matmul->din || matmul->add || matmul->k % 8 ||
        multiply(queue, input_of(*matmul, dtype, BLAS_EPILOGUE_DGELU),
                 {matmul->weight, matmul->dout, matmul->din}, {nullptr, gelu->in}))
        return -1;
    weight_gradient(queue, dtype, *matmul);
    return 0;
}
