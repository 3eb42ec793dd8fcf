/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMMs by every way the libraries offer: the engine's own call, oneDNN's sgemm, and its
 * matmul primitive with plain or packed weights. A trial is one product by one way, ready to be
 * timed. The roof of a dtype is the best trial over several shapes and layouts, which a first look
 * at each of them finds; only the winner is measured at length.
 */
#include "libtrain/calibrate/calibrate_gemm.h"

#include <math.h>
#include <stdlib.h>

#ifdef HAVE_DNNL
#include <dnnl.h>
#endif

#include "libtrain/base/arena.h"
#include "libtrain/calibrate/calibrate.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/ops.h"

static const char *const way_names[LT_GEMM_WAY_COUNT] = {
#define ROW(id, name) [LT_GEMM_WAY_##id] = (name),
    LT_GEMM_WAY_MAP(ROW)
#undef ROW
};

const char *lt_gemm_way_name(enum lt_gemm_way way)
{
    return way_names[way];
}

struct lt_gemm_trial {
    struct lt_gemm_case product;
    enum lt_gemm_way way;
    struct lt_arena arena;
    float *a, *b, *c;
#ifdef HAVE_DNNL
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[3];
#endif
};

/* Memory for the three matrices, with numbers in the two that are read. */
static int make_operands(struct lt_gemm_trial *trial)
{
    const struct lt_gemm_case *product = &trial->product;
    size_t a_count = (size_t)(product->m * product->k), b_count = (size_t)(product->k * product->n),
           c_count = (size_t)(product->m * product->n);
    struct lt_tensor table[] = {
        {"a", a_count, &trial->a}, {"b", b_count, &trial->b}, {"c", c_count, &trial->c}};
    int rc = lt_arena_create(&trial->arena, LT_MEMORY_WORKSPACE, table, 3);
    if (rc == 0) {
        lt_calibrate_fill(trial->a, a_count * sizeof(float));
        lt_calibrate_fill(trial->b, b_count * sizeof(float));
    }
    return rc;
}

#ifdef HAVE_DNNL

/* oneDNN 3 made memory descriptors opaque and took the operation descriptors away. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t descriptor;
#define DESCRIPTOR(md)         (md)
#define destroy_descriptor(md) dnnl_memory_desc_destroy(md)
#define describe_strides       dnnl_memory_desc_create_with_strides
#define describe_tag           dnnl_memory_desc_create_with_tag
#else
typedef const dnnl_memory_desc_t *descriptor;
#define DESCRIPTOR(md)         (&(md))
#define destroy_descriptor(md) ((void)(md))
#define describe_strides       dnnl_memory_desc_init_by_strides
#define describe_tag           dnnl_memory_desc_init_by_tag
#endif

/* any: a layout of the library's choice. */
static int describe(dnnl_memory_desc_t *md, int64_t rows, int64_t columns, int turned, int any,
                    dnnl_data_type_t type)
{
    dnnl_dims_t dims = {rows, columns}, strides = {columns, 1};
    if (turned) {
        strides[0] = 1;
        strides[1] = rows;
    }
    return (int)(any ? describe_tag(md, 2, dims, type, dnnl_format_tag_any)
                     : describe_strides(md, 2, dims, type, strides));
}

static int make_primitive_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                               dnnl_memory_desc_t md[3])
{
#if DNNL_VERSION_MAJOR >= 3
    return (int)dnnl_matmul_primitive_desc_create(pd, engine, md[0], md[1], NULL, md[2], NULL);
#else
    dnnl_matmul_desc_t op;
    int rc = (int)dnnl_matmul_desc_init(&op, &md[0], &md[1], NULL, &md[2]);
    return rc ? rc : (int)dnnl_primitive_desc_create(pd, &op, NULL, engine, NULL);
#endif
}

/* Where the library chose the layout it also gets the memory. */
static int make_memory(struct lt_gemm_trial *trial, int i, descriptor md, int any)
{
    float *const operand[] = {trial->a, trial->b, trial->c};
    int rc = (int)dnnl_memory_create(&trial->memory[i], md, trial->engine,
                                     any ? DNNL_MEMORY_ALLOCATE : operand[i]);
    void *data = NULL;
    if (rc == 0 && any && dnnl_memory_get_data_handle(trial->memory[i], &data) == 0)
        lt_calibrate_fill(data, dnnl_memory_desc_get_size(md));
    return rc;
}

/* Makes the primitive and its memory. With PACKED the library chooses the layout of the weight,
 * which is b of a forward product and c of a weight's gradient. */
static int open_matmul(struct lt_gemm_trial *trial)
{
    static const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md,
                                           dnnl_query_dst_md};
    const struct lt_gemm_case *product = &trial->product;
    int packed = trial->way == LT_GEMM_WAY_PACKED,
        any[3] = {0, packed && !product->a_turned, packed && product->a_turned};
    dnnl_data_type_t type = product->dtype == LT_DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
    dnnl_memory_desc_t md[3] = {0};
    dnnl_primitive_desc_t pd = NULL;
    int rc = (int)dnnl_engine_create(&trial->engine, dnnl_cpu, 0);
    rc =
        rc ? rc : (int)dnnl_stream_create(&trial->stream, trial->engine, dnnl_stream_default_flags);
    rc = rc ? rc : describe(&md[0], product->m, product->k, product->a_turned, any[0], type);
    rc = rc ? rc : describe(&md[1], product->k, product->n, product->b_turned, any[1], type);
    if (product->c_fp32)
        type = dnnl_f32;
    rc = rc ? rc : describe(&md[2], product->m, product->n, 0, any[2], type);
    rc = rc ? rc : make_primitive_desc(&pd, trial->engine, md);
    rc = rc ? rc : (int)dnnl_primitive_create(&trial->primitive, pd);
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = make_memory(trial, i, dnnl_primitive_desc_query_md(pd, queries[i], 0), any[i]);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < 3; i++)
        destroy_descriptor(md[i]);
    return rc ? TACHO_ENOTSUP : 0;
}

static int supported(const struct lt_gemm_case *product, enum lt_gemm_way way)
{
    return way == LT_GEMM_WAY_MATMUL || way == LT_GEMM_WAY_PACKED ||
           (way == LT_GEMM_WAY_SGEMM && product->dtype == LT_DTYPE_FP32);
}

static void execute(struct lt_gemm_trial *trial)
{
    if (trial->way == LT_GEMM_WAY_SGEMM) {
        const struct lt_gemm_case *product = &trial->product;
        static const char turn[] = {'N', 'T'};
        const int64_t a_rows[] = {product->k, product->m}, b_rows[] = {product->n, product->k};
        dnnl_sgemm(turn[product->a_turned], turn[product->b_turned], product->m, product->n,
                   product->k, 1.0f, trial->a, a_rows[product->a_turned], trial->b,
                   b_rows[product->b_turned], 0.0f, trial->c, product->n);
        return;
    }
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, trial->memory[0]},
                              {DNNL_ARG_WEIGHTS, trial->memory[1]},
                              {DNNL_ARG_DST, trial->memory[2]}};
    dnnl_primitive_execute(trial->primitive, trial->stream, 3, args);
    dnnl_stream_wait(trial->stream);
}

static void close_matmul(struct lt_gemm_trial *trial)
{
    for (int i = 0; i < 3; i++)
        if (trial->memory[i])
            dnnl_memory_destroy(trial->memory[i]);
    if (trial->primitive)
        dnnl_primitive_destroy(trial->primitive);
    if (trial->stream)
        dnnl_stream_destroy(trial->stream);
    if (trial->engine)
        dnnl_engine_destroy(trial->engine);
}

#else

static int open_matmul(struct lt_gemm_trial *trial)
{
    (void)trial;
    return 0;
}

static int supported(const struct lt_gemm_case *product, enum lt_gemm_way way)
{
    (void)product;
    (void)way;
    return 0;
}

static void execute(struct lt_gemm_trial *trial)
{
    (void)trial;
}

static void close_matmul(struct lt_gemm_trial *trial)
{
    (void)trial;
}

#endif

/* Runs the GEMM of the trial through the engine's own lt_gemm. A transposed operand is read in
 * place, by its strides. */
static void execute_engine(struct lt_gemm_trial *trial)
{
    const struct lt_gemm_case *product = &trial->product;
    struct lt_matrix a = {trial->a, product->k, 1}, b = {trial->b, product->n, 1};
    if (product->a_turned)
        a = (struct lt_matrix){trial->a, 1, product->m};
    if (product->b_turned)
        b = (struct lt_matrix){trial->b, 1, product->k};
    lt_gemm(&(struct lt_product){.m = product->m,
                                 .n = product->n,
                                 .k = product->k,
                                 .a = a,
                                 .b = b,
                                 .c = trial->c,
                                 .c_row = product->n,
                                 .in = product->dtype,
                                 .out = product->c_fp32 ? LT_DTYPE_FP32 : product->dtype});
}

int lt_gemm_trial_open(struct lt_gemm_trial **out, const struct lt_gemm_case *product,
                       enum lt_gemm_way way)
{
    *out = NULL;
    if (way == LT_GEMM_WAY_ENGINE ? !lt_gemm_fast(product->dtype) : !supported(product, way))
        return TACHO_ENOTSUP;
    struct lt_gemm_trial *trial = calloc(1, sizeof *trial);
    if (!trial)
        return TACHO_ENOMEM;
    trial->product = *product;
    trial->way = way;
    int rc = make_operands(trial);
    if (rc == 0 && (way == LT_GEMM_WAY_MATMUL || way == LT_GEMM_WAY_PACKED))
        rc = open_matmul(trial);
    if (rc) {
        lt_gemm_trial_close(trial);
        return rc;
    }
    *out = trial;
    return 0;
}

double lt_gemm_trial_time(struct lt_gemm_trial *run, int calls)
{
    double begin = lt_seconds();
    for (int i = 0; i < calls; i++)
        if (run->way == LT_GEMM_WAY_ENGINE)
            execute_engine(run);
        else
            execute(run);
    return (lt_seconds() - begin) / calls;
}

static double element(const void *values, int64_t index, int bf16)
{
    return (double)lt_element_get(values, index, bf16 ? LT_DTYPE_BF16 : LT_DTYPE_FP32);
}

double lt_gemm_trial_at(const struct lt_gemm_trial *run, int64_t i, int64_t j)
{
    const struct lt_gemm_case *product = &run->product;
    if (run->way == LT_GEMM_WAY_PACKED && product->a_turned)
        return NAN;
    return element(run->c, i * product->n + j, product->dtype == LT_DTYPE_BF16 && !product->c_fp32);
}

double lt_gemm_trial_operand(const struct lt_gemm_trial *run, int b, int64_t i, int64_t j)
{
    const struct lt_gemm_case *product = &run->product;
    int bf16 = product->dtype == LT_DTYPE_BF16;
    if (b && run->way == LT_GEMM_WAY_PACKED && !product->a_turned)
        return NAN;
    if (b)
        return element(run->b, product->b_turned ? j * product->k + i : i * product->n + j, bf16);
    return element(run->a, product->a_turned ? j * product->m + i : i * product->k + j, bf16);
}

void lt_gemm_trial_close(struct lt_gemm_trial *run)
{
    if (!run)
        return;
    close_matmul(run);
    lt_arena_destroy(&run->arena);
    free(run);
}

/* ---- the roof ---------------------------------------------------------------------------------------------------------------- */

/* Large cubes, and the shapes of GPT-2 124M's layers. */
static const int64_t shapes[][3] = {{1024, 3072, 768},  {1024, 1024, 1024}, {1024, 768, 3072},
                                    {2048, 2048, 2048}, {4096, 1024, 4096}, {3072, 3072, 3072}};
#define QUICK_SHAPES 3
static const struct {
    int a_turned, b_turned;
    const char *name;
} layouts[] = {{0, 1, "A B^T"}, {0, 0, "A B"}, {1, 0, "A^T B"}};

struct roof {
    double rate;
    struct lt_gemm_case product;
    enum lt_gemm_way way;
    const char *layout;
};

/* A first look: the best of three single calls. */
static int look(struct roof *best, const struct lt_gemm_case *product, enum lt_gemm_way way,
                const char *layout)
{
    struct lt_gemm_trial *run;
    double flops = 2.0 * (double)product->m * (double)product->n * (double)product->k;
    int rc = lt_gemm_trial_open(&run, product, way);
    if (rc)
        return rc == TACHO_ENOMEM ? rc : 0;
    for (int i = 0; i < 3; i++) {
        double seconds = lt_gemm_trial_time(run, 1);
        if (flops / seconds > best->rate)
            *best = (struct roof){flops / seconds, *product, way, layout};
    }
    lt_gemm_trial_close(run);
    return 0;
}

/* From small to large, as far as the time goes; returns how many shapes, or TACHO_ENOMEM. */
static int find(struct roof *best, enum lt_dtype dtype, int count, double seconds)
{
    double begin = lt_seconds();
    int rc = 0, shape;
    for (shape = 0; shape < count && rc == 0 && (shape == 0 || lt_seconds() - begin < seconds);
         shape++)
        for (size_t layout = 0; layout < sizeof layouts / sizeof *layouts; layout++)
            for (int way = 0; way < LT_GEMM_WAY_COUNT && rc == 0; way++) {
                struct lt_gemm_case product = {shapes[shape][0],
                                               shapes[shape][1],
                                               shapes[shape][2],
                                               layouts[layout].a_turned,
                                               layouts[layout].b_turned,
                                               dtype,
                                               0};
                rc = look(best, &product, (enum lt_gemm_way)way, layouts[layout].name);
            }
    return rc ? rc : shape;
}

/* Finds the fastest product of the type, measures it at length, and adds the row. Where no way of
 * multiplying exists the row is absent. */
static int roof(struct lt_calibration *calibration, const struct lt_calibrate_options *options,
                enum lt_dtype dtype)
{
    int count = options->quick ? QUICK_SHAPES : (int)(sizeof shapes / sizeof *shapes);
    struct lt_repeats repeats = lt_calibrate_repeats(options);
    double seconds[LT_CALIBRATE_REPEATS];
    struct roof best = {0};
    struct lt_gemm_trial *run;
    int looked = find(&best, dtype, count, options->quick ? 1.5 : 10), rc = 0;
    if (looked < 0)
        return looked;
    if (best.rate <= 0)
        return lt_calibration_absent(calibration, LT_CEILING_GEMM, lt_dtype_name(dtype),
                                     "install oneDNN (libdnnl-dev), then 'make' again",
                                     "%s has no GEMM of %s on this CPU", lt_gemm_library(),
                                     lt_dtype_name(dtype));
    rc = lt_gemm_trial_open(&run, &best.product, best.way);
    if (rc)
        return rc;
    int calls = (int)(repeats.seconds / lt_gemm_trial_time(run, 1)) + 1;
    for (int i = 0; i < repeats.count; i++)
        seconds[i] = lt_gemm_trial_time(run, calls);
    lt_gemm_trial_close(run);
    const struct lt_gemm_case *product = &best.product;
    return lt_calibration_add(
        calibration, LT_CEILING_GEMM, lt_dtype_name(dtype),
        2.0 * (double)product->m * (double)product->n * (double)product->k, seconds, repeats.count,
        "%s (%s), %s of %lld x %lld x %lld, %d threads; best of %d shape%s",
        lt_gemm_way_name(best.way), lt_gemm_library(), best.layout, (long long)product->m,
        (long long)product->n, (long long)product->k, lt_threads(), looked, tacho_plural(looked));
}

int lt_calibrate_gemm(struct lt_calibration *calibration,
                      const struct lt_calibrate_options *options)
{
    int rc = 0;
    for (int dtype = 0; dtype < LT_DTYPE_EMULATED && rc == 0; dtype++)
        rc = roof(calibration, options, (enum lt_dtype)dtype);
    return rc;
}
