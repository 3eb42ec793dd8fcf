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

#include "libtrain/ops/gemm_library.h"
#include "libtrain/ops/openmp.h"

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

static int describe(description *d, int64_t rows, int64_t columns, int64_t row, int64_t column,
                    enum lt_dtype dtype)
{
    dnnl_dims_t shape = {rows, columns}, strides = {row, column};
    dnnl_data_type_t type = dtype == LT_DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_strides(d, 2, shape, type, strides) != dnnl_success;
#else
    return dnnl_memory_desc_init_by_strides(d, 2, shape, type, strides) != dnnl_success;
#endif
}

static void forget(description *d, int count)
{
#if DNNL_VERSION_MAJOR >= 3
    for (int i = 0; i < count; i++)
        if (d[i])
            dnnl_memory_desc_destroy(d[i]);
#else
    (void)d;
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

static int plan_primitive(dnnl_primitive_desc_t *out, description *d, int bias,
                          dnnl_primitive_attr_t attributes)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(out, engine, d[A], d[B], bias ? d[BIAS] : NULL, d[C],
                                             attributes) != dnnl_success;
#else
    dnnl_matmul_desc_t operation;
    return dnnl_matmul_desc_init(&operation, &d[A], &d[B], bias ? &d[BIAS] : NULL, &d[C]) !=
               dnnl_success ||
           dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL) != dnnl_success;
#endif
}

/* ---- tables ---------------------------------------------------------------------------------------------------------------- */

static void drop_plan(struct plan *p)
{
    for (int i = 0; i < OPERANDS; i++)
        if (p->memory[i])
            dnnl_memory_destroy(p->memory[i]);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    p->primitive = NULL;
    memset(p->memory, 0, sizeof p->memory);
}

static void drop_table(void *arg)
{
    struct table *t = arg;
    for (int i = 0; i < BUCKETS; i++)
        while (t->bucket[i]) {
            struct plan *p = t->bucket[i];
            t->bucket[i] = p->next;
            drop_plan(p);
            free(p);
        }
    dnnl_stream_destroy(t->stream);
    free(t);
}

static void start(void)
{
    if (pthread_key_create(&tables, drop_table) ||
        dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
}

static struct table *own_table(void)
{
    pthread_once(&once, start);
    if (!engine)
        return NULL;
    struct table *t = pthread_getspecific(tables);
    if (t)
        return t;
    t = calloc(1, sizeof *t);
    if (!t || dnnl_stream_create(&t->stream, engine, dnnl_stream_default_flags) != dnnl_success) {
        free(t);
        return NULL;
    }
    if (pthread_setspecific(tables, t)) {
        drop_table(t);
        return NULL;
    }
    return t;
}

static int make_memory(struct plan *p, description *d)
{
    for (int i = 0; i < OPERANDS; i++)
        if ((i != BIAS || p->key.bias) && dnnl_memory_create(&p->memory[i], DESCRIBED(d[i]), engine,
                                                             DNNL_MEMORY_NONE) != dnnl_success)
            return -1;
    return 0;
}

static int make_primitive(struct plan *p, description *d)
{
    const struct key *k = &p->key;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t planned = NULL;
    int rc = -1;
    if (describe(&d[A], k->m, k->k, k->a_row, k->a_column, (enum lt_dtype)k->in) ||
        describe(&d[B], k->k, k->n, k->b_row, k->b_column, (enum lt_dtype)k->in) ||
        describe(&d[C], k->m, k->n, k->c_row, 1, (enum lt_dtype)k->out) ||
        (k->bias && describe(&d[BIAS], 1, k->n, k->n, 1, LT_DTYPE_FP32)))
        return -1;
    if (dnnl_primitive_attr_create(&attributes) != dnnl_success ||
        dnnl_post_ops_create(&ops) != dnnl_success)
        goto out;
    if (k->add && (add_to_destination(ops) ||
                   dnnl_primitive_attr_set_post_ops(attributes, ops) != dnnl_success))
        goto out;
    if (plan_primitive(&planned, d, k->bias != 0, attributes))
        goto out;
    if (dnnl_primitive_create(&p->primitive, planned) == dnnl_success)
        rc = make_memory(p, d);
out:
    dnnl_primitive_desc_destroy(planned);
    dnnl_post_ops_destroy(ops);
    dnnl_primitive_attr_destroy(attributes);
    return rc;
}

static void make_plan(struct plan *p)
{
    description d[OPERANDS];
    memset(d, 0, sizeof d);
    int threads = omp_get_max_threads();
    /* The library divides work among as many threads as there may be when a primitive is made.
     * Within a parallel region it has one, which it must be told. */
    if (p->key.alone > 0)
        omp_set_num_threads(1);
    if (make_primitive(p, d))
        drop_plan(p);
    if (p->key.alone > 0)
        omp_set_num_threads(threads);
    forget(d, OPERANDS);
}

static struct plan *find(struct table *t, const struct key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0;
    memcpy(words, key, sizeof *key);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    struct plan **slot = &t->bucket[hash >> 56];
    for (struct plan *p = *slot; p; p = p->next)
        if (memcmp(&p->key, key, sizeof *key) == 0)
            return p;
    struct plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->key = *key;
    p->next = *slot;
    *slot = p;
    make_plan(p);
    return p;
}

static struct key key_of(const struct lt_product *p)
{
    return (struct key){.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .a_row = p->a.row,
                        .a_column = p->a.column,
                        .b_row = p->b.row,
                        .b_column = p->b.column,
                        .c_row = p->c_row,
                        .in = p->in,
                        .out = p->out,
                        .bias = p->bias != NULL,
                        .add = p->add != 0,
                        .alone = omp_in_parallel() ? 1 : -omp_get_max_threads()};
}

/* Addresses go in without const: the library has one type for what it reads and what it writes. */
static int put(struct plan *plan, int operand, const void *at)
{
    return dnnl_memory_set_data_handle(plan->memory[operand], (void *)(uintptr_t)at) !=
           dnnl_success;
}

static int run_primitive(const struct lt_product *p)
{
    struct table *t = own_table();
    struct key key = key_of(p);
    struct plan *plan = t ? find(t, &key) : NULL;
    if (!plan || !plan->primitive || put(plan, A, p->a.at) || put(plan, B, p->b.at) ||
        put(plan, C, p->c))
        return -1;
    if (p->bias && put(plan, BIAS, p->bias))
        return -1;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, plan->memory[A]},
                              {DNNL_ARG_WEIGHTS, plan->memory[B]},
                              {DNNL_ARG_DST, plan->memory[C]},
                              {DNNL_ARG_BIAS, plan->memory[BIAS]}};
    return dnnl_primitive_execute(plan->primitive, t->stream, p->bias ? 4 : 3, args) !=
           dnnl_success;
}

/* Which of the library's two ways is faster was measured on the shapes of GPT-2 (make bench-engine
 * prints them): with b as it lies in memory and fp32, dnnl_sgemm, unless a is turned and b narrow;
 * else a primitive. It depends on the shape alone, never on a clock: the two sum in different
 * orders, and a run must repeat itself. */
static int sgemm_is_faster(const struct lt_product *p)
{
    if (p->in != LT_DTYPE_FP32 || p->out != LT_DTYPE_FP32 || p->b.column != 1 || p->bias)
        return 0;
    return p->a.column == 1 || p->n > NARROW;
}

static int run_sgemm(const struct lt_product *p)
{
    int turned = p->a.column != 1;
    return dnnl_sgemm(turned ? 'T' : 'N', 'N', p->m, p->n, p->k, 1.0f, p->a.at,
                      turned ? p->a.column : p->a.row, p->b.at, p->b.row, p->add ? 1.0f : 0.0f,
                      p->c, p->c_row) != dnnl_success;
}

/* A primitive turns all of a before it multiplies; of the gradient of a word embedding that is more
 * than the caches hold. So such a product is made in pieces. */
static int run_pieces(const struct lt_product *whole)
{
    struct lt_product p = *whole;
    size_t in = lt_dtype_bytes(p.in), out = lt_dtype_bytes(p.out);
    for (int64_t at = 0; at < whole->m; at += PIECE) {
        p.m = whole->m - at < PIECE ? whole->m - at : PIECE;
        p.a.at = (const char *)whole->a.at + (size_t)(at * p.a.row) * in;
        p.c = (char *)whole->c + (size_t)(at * p.c_row) * out;
        if (run_primitive(&p))
            return -1;
    }
    return 0;
}

int lt_gemm_library_run(const struct lt_product *p)
{
    if (sgemm_is_faster(p))
        return run_sgemm(p);
    return p->a.column != 1 && p->m > 2 * PIECE ? run_pieces(p) : run_primitive(p);
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
    struct table *t = own_table();
    struct plan *plan = t ? find(t, &key) : NULL;
    return plan && plan->primitive;
}

const char *lt_gemm_library(void)
{
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}
#endif
