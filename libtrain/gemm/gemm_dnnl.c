/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN's matmul primitives. Making one takes much longer than a small product, so each thread
 * keeps a table of those it made, keyed by everything but the addresses; the table goes with the
 * thread. Memory objects are the table's too: they hold addresses, so threads cannot share them.
 * (The machine code behind a primitive is shared, by oneDNN itself.)
 */
#ifdef HAVE_DNNL
#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/openmp.h"
#include "libtrain/gemm/gemm_library.h"

#define BUCKETS 256
#define NARROW  1024 /* columns */
#define PIECE   2048 /* rows */

enum { A, B, BIAS, C, OPERANDS };

/* What a primitive depends on. Compared as bytes: no padding, unused places 0. */
struct key {
    int64_t m, n, k, a_row, a_column, b_row, b_column, c_row;
    int64_t in, out, bias, add;
    int64_t alone; /* 1: within a parallel region; else minus the number of threads */
};

struct plan {
    struct plan *next;
    struct key key;
    dnnl_primitive_t primitive; /* NULL: the library does not have it */
    dnnl_memory_t memory[OPERANDS];
};

struct table {
    dnnl_stream_t stream;
    struct plan *bucket[BUCKETS];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t tables;
static dnnl_engine_t engine;

/* ---- the two generations of the library's interface ----------------------------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t description;
typedef const_dnnl_memory_desc_t described;
#define DESCRIBED(d) (d)
#else
typedef dnnl_memory_desc_t description;
typedef const dnnl_memory_desc_t *described;
#define DESCRIBED(d) (&(d))
#endif

static int describe(description *out, int64_t rows, int64_t columns, int64_t row, int64_t column,
                    enum lt_dtype dtype)
{
    dnnl_dims_t shape = {rows, columns}, strides = {row, column};
    dnnl_data_type_t type = dtype == LT_DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_strides(out, 2, shape, type, strides) != dnnl_success;
#else
    return dnnl_memory_desc_init_by_strides(out, 2, shape, type, strides) != dnnl_success;
#endif
}

static void forget(description *operands, int count)
{
#if DNNL_VERSION_MAJOR >= 3
    for (int i = 0; i < count; i++)
        if (operands[i])
            dnnl_memory_desc_destroy(operands[i]);
#else
    (void)operands;
    (void)count;
#endif
}

static int add_to_destination(dnnl_post_ops_t ops)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef) != dnnl_success;
#else
    return dnnl_post_ops_append_sum(ops, 1.0f) != dnnl_success;
#endif
}

static int plan_primitive(dnnl_primitive_desc_t *out, description *operands, int bias,
                          dnnl_primitive_attr_t attributes)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(out, engine, operands[A], operands[B],
                                             bias ? operands[BIAS] : NULL, operands[C],
                                             attributes) != dnnl_success;
#else
    dnnl_matmul_desc_t operation;
    return dnnl_matmul_desc_init(&operation, &operands[A], &operands[B],
                                 bias ? &operands[BIAS] : NULL, &operands[C]) != dnnl_success ||
           dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL) != dnnl_success;
#endif
}

/* ---- tables ---------------------------------------------------------------------------------------------------------------- */

static void drop_plan(struct plan *plan)
{
    for (int i = 0; i < OPERANDS; i++)
        if (plan->memory[i])
            dnnl_memory_destroy(plan->memory[i]);
    if (plan->primitive)
        dnnl_primitive_destroy(plan->primitive);
    plan->primitive = NULL;
    memset(plan->memory, 0, sizeof plan->memory);
}

/* Runs when the thread ends. */
static void drop_table(void *arg)
{
    struct table *table = arg;
    for (int i = 0; i < BUCKETS; i++)
        while (table->bucket[i]) {
            struct plan *plan = table->bucket[i];
            table->bucket[i] = plan->next;
            drop_plan(plan);
            free(plan);
        }
    dnnl_stream_destroy(table->stream);
    free(table);
}

static void start(void)
{
    if (pthread_key_create(&tables, drop_table) ||
        dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
}

/* The calling thread's table; NULL where the library cannot be used or memory is out. */
static struct table *own_table(void)
{
    pthread_once(&once, start);
    if (!engine)
        return NULL;
    struct table *table = pthread_getspecific(tables);
    if (table)
        return table;
    table = calloc(1, sizeof *table);
    if (!table ||
        dnnl_stream_create(&table->stream, engine, dnnl_stream_default_flags) != dnnl_success) {
        free(table);
        return NULL;
    }
    if (pthread_setspecific(tables, table)) {
        drop_table(table);
        return NULL;
    }
    return table;
}

static int make_memory(struct plan *plan, description *operands)
{
    for (int i = 0; i < OPERANDS; i++)
        if ((i != BIAS || plan->key.bias) &&
            dnnl_memory_create(&plan->memory[i], DESCRIBED(operands[i]), engine,
                               DNNL_MEMORY_NONE) != dnnl_success)
            return -1;
    return 0;
}

/* Makes the primitive and the memory objects of a plan. -1 where the library has no such product
 * on this CPU; the caller drops what was made. */
static int make_primitive(struct plan *plan, description *operands)
{
    const struct key *key = &plan->key;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t planned = NULL;
    int rc = -1;
    if (describe(&operands[A], key->m, key->k, key->a_row, key->a_column, (enum lt_dtype)key->in) ||
        describe(&operands[B], key->k, key->n, key->b_row, key->b_column, (enum lt_dtype)key->in) ||
        describe(&operands[C], key->m, key->n, key->c_row, 1, (enum lt_dtype)key->out) ||
        (key->bias && describe(&operands[BIAS], 1, key->n, key->n, 1, LT_DTYPE_FP32)))
        return -1;
    if (dnnl_primitive_attr_create(&attributes) != dnnl_success ||
        dnnl_post_ops_create(&ops) != dnnl_success)
        goto out;
    if (key->add && (add_to_destination(ops) ||
                     dnnl_primitive_attr_set_post_ops(attributes, ops) != dnnl_success))
        goto out;
    if (plan_primitive(&planned, operands, key->bias != 0, attributes))
        goto out;
    if (dnnl_primitive_create(&plan->primitive, planned) == dnnl_success)
        rc = make_memory(plan, operands);
out:
    dnnl_primitive_desc_destroy(planned);
    dnnl_post_ops_destroy(ops);
    dnnl_primitive_attr_destroy(attributes);
    return rc;
}

/* Makes the plan of a product, or one without a primitive where the library has none. */
static void make_plan(struct plan *plan)
{
    description operands[OPERANDS];
    memset(operands, 0, sizeof operands);
    int threads = omp_get_max_threads();
    /* The library divides work among as many threads as there may be when a primitive is made.
     * Within a parallel region it has one, which has to be set. */
    if (plan->key.alone > 0)
        omp_set_num_threads(1);
    if (make_primitive(plan, operands))
        drop_plan(plan);
    if (plan->key.alone > 0)
        omp_set_num_threads(threads);
    forget(operands, OPERANDS);
}

/* The plan of a product, made at its first use. A plan without a primitive is kept too: it says
 * that the library does not have that product. */
static struct plan *find(struct table *table, const struct key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0;
    memcpy(words, key, sizeof *key);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    struct plan **slot = &table->bucket[hash >> 56];
    for (struct plan *plan = *slot; plan; plan = plan->next)
        if (memcmp(&plan->key, key, sizeof *key) == 0)
            return plan;
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->key = *key;
    plan->next = *slot;
    *slot = plan;
    make_plan(plan);
    return plan;
}

/* Everything that a plan depends on. A product within a parallel region has one thread, so it has
 * a plan of its own. */
static struct key key_of(const struct lt_product *product)
{
    return (struct key){.m = product->m,
                        .n = product->n,
                        .k = product->k,
                        .a_row = product->a.row,
                        .a_column = product->a.column,
                        .b_row = product->b.row,
                        .b_column = product->b.column,
                        .c_row = product->c_row,
                        .in = product->in,
                        .out = product->out,
                        .bias = product->bias != NULL,
                        .add = product->add != 0,
                        .alone = omp_in_parallel() ? 1 : -omp_get_max_threads()};
}

/* Addresses go in without const: the library has one type for what it reads and what it writes. */
static int put(struct plan *plan, int operand, const void *address)
{
    return dnnl_memory_set_data_handle(plan->memory[operand], (void *)(uintptr_t)address) !=
           dnnl_success;
}

/* Runs the product by the plan of its shape, with the addresses of this call. */
static int run_primitive(const struct lt_product *product)
{
    struct table *table = own_table();
    struct key key = key_of(product);
    struct plan *plan = table ? find(table, &key) : NULL;
    if (!plan || !plan->primitive || put(plan, A, product->a.at) || put(plan, B, product->b.at) ||
        put(plan, C, product->c))
        return -1;
    if (product->bias && put(plan, BIAS, product->bias))
        return -1;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, plan->memory[A]},
                              {DNNL_ARG_WEIGHTS, plan->memory[B]},
                              {DNNL_ARG_DST, plan->memory[C]},
                              {DNNL_ARG_BIAS, plan->memory[BIAS]}};
    return dnnl_primitive_execute(plan->primitive, table->stream, product->bias ? 4 : 3, args) !=
           dnnl_success;
}

/* Which of the library's two ways is faster was measured on the shapes of GPT-2 (make bench-engine
 * prints them): with b as it lies in memory and fp32, dnnl_sgemm, unless a is turned and b narrow;
 * else a primitive. It depends on the shape alone, never on a clock: the two sum in different
 * orders, and a run must repeat itself. */
static int sgemm_is_faster(const struct lt_product *product)
{
    if (product->in != LT_DTYPE_FP32 || product->out != LT_DTYPE_FP32 || product->b.column != 1 ||
        product->bias)
        return 0;
    return product->a.column == 1 || product->n > NARROW;
}

/* The product by dnnl_sgemm, which reads b as it is stored and a as it is or as its transpose. */
static int run_sgemm(const struct lt_product *product)
{
    int turned = product->a.column != 1;
    int64_t a_row = turned ? product->a.column : product->a.row;
    char turn = turned ? 'T' : 'N';
    return dnnl_sgemm(turn, 'N', product->m, product->n, product->k, 1.0f, product->a.at, a_row,
                      product->b.at, product->b.row, product->add ? 1.0f : 0.0f, product->c,
                      product->c_row) != dnnl_success;
}

/* A primitive turns all of a before it multiplies; of the gradient of a word embedding that is more
 * than the caches hold. So such a product is made in pieces. */
static int run_pieces(const struct lt_product *whole)
{
    struct lt_product product = *whole;
    size_t in = lt_dtype_bytes(product.in), out = lt_dtype_bytes(product.out);
    for (int64_t first = 0; first < whole->m; first += PIECE) {
        product.m = whole->m - first < PIECE ? whole->m - first : PIECE;
        product.a.at = (const char *)whole->a.at + (size_t)(first * product.a.row) * in;
        product.c = (char *)whole->c + (size_t)(first * product.c_row) * out;
        if (run_primitive(&product))
            return -1;
    }
    return 0;
}

int lt_gemm_library_run(const struct lt_product *product)
{
    if (sgemm_is_faster(product))
        return run_sgemm(product);
    return product->a.column != 1 && product->m > 2 * PIECE ? run_pieces(product)
                                                            : run_primitive(product);
}

int lt_gemm_library_has(enum lt_dtype dtype)
{
    struct key key = {.m = 64,
                      .n = 64,
                      .k = 64,
                      .a_row = 64,
                      .a_column = 1,
                      .b_row = 64,
                      .b_column = 1,
                      .c_row = 64,
                      .in = dtype,
                      .out = dtype,
                      .alone = 1};
    struct table *table = own_table();
    struct plan *plan = table ? find(table, &key) : NULL;
    return plan && plan->primitive;
}

const char *lt_gemm_library(void)
{
    static char text[32];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    return text;
}
#endif
