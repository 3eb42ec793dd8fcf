/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a step of GPT-2 in bf16 should take on a GPU, kernel by kernel:
 *
 *     step_model MODEL DEVICE [BATCH [SEQ [VOCAB]]] [--json | --launches]
 *
 * What is launched is not written down here: the model's forward and backward run on a device that
 * computes nothing and is told each operation, as libtrain_cuda.so is. For each operation this file
 * knows the kernels of libtrain/cuda, their bytes and products; --launches prints how many of each
 * a step has, and a test compares that with what the substitute runtime has run.
 *
 * Times. A product: the planner's (planner/time/gemm.h), whose constants are fitted to published
 * runs; a product over tokens may be split along them, as cuBLASLt does. Attention: the share of
 * the peak that its kernels were measured at. All else: its bytes by 0.9 of the data sheet's
 * bandwidth. Each kernel also costs GAP_S.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/models/gpt2.h"
#include "libtrain/ops/device.h"
#include "planner/time/gemm.h"

#define STREAM_SHARE 0.9
/* Between two nodes of a CUDA graph: 3.4 us for kernels of 2.9 us (NVIDIA, "Getting started with
 * CUDA graphs"). */
#define GAP_S 0.5e-6
/* The best product of any shape on H100 and H200 SXM, 794.5 of 989 TFLOP/s (table of "Maximum
 * achievable matmul FLOPS" in Bekman, "Machine Learning Engineering"). */
#define BEST_PRODUCT 0.803
/* FLOPs of causal attention, backward's as 5 products, by the dense bf16 peak: 289 and 264 of 989.5
 * TFLOP/s, on an H200 on 2026-11-27 (32 sequences of 1024, 12 heads of 64 channels). */
#define ATTENTION_FORWARD  0.292
#define ATTENTION_BACKWARD 0.267
/* Goals of causal MFU: GPT-2 124M, and 1.5B. */
#define GOAL_124M  55.0
#define GOAL_1558M 62.0

/* kernel as the source calls it (a product: matmul), part of a step */
#define KERNEL_MAP(X) \
    X(matmul, "GEMMs") \
    X(column_partials, "sums over rows") \
    X(column_totals, "sums over rows") \
    X(hopper_out, "attention forward") \
    X(attention_out, "attention forward") \
    X(attention_delta, "attention backward") \
    X(hopper_dqkv, "attention backward") \
    X(attention_dqkv, "attention backward") \
    X(layernorm_out, "layernorm, residual") \
    X(layernorm_din, "layernorm, residual") \
    X(residual_out, "layernorm, residual") \
    X(classifier_row, "classifier") \
    X(mean_loss, "classifier") \
    X(embedding_out, "embedding") \
    X(embedding_dword, "embedding") \
    X(embedding_dposition, "embedding") \
    X(memset, "zeros") \
    X(norm_partials, "optimizer") \
    X(norm_total, "optimizer") \
    X(adamw, "optimizer")
enum kernel {
#define KERNEL_ENUM(name, part) KERNEL_##name,
    KERNEL_MAP(KERNEL_ENUM)
#undef KERNEL_ENUM
        KERNELS
};
static const struct {
    const char *name, *part;
} kernel_table[] = {
#define KERNEL_ROW(name, part) {#name, part},
    KERNEL_MAP(KERNEL_ROW)
#undef KERNEL_ROW
};

struct sum {
    double launches, flops, bytes, seconds;
};

/* The device that counts. */
struct counter {
    struct lt_device base; /* first */
    const struct plan_machine *machine;
    struct sum kernel[KERNELS];
    double arithmetic; /* seconds of products that arithmetic bounds */
    uintptr_t free_at;
    int waiting; /* a residual that the next layernorm may take along (libtrain/cuda/device.cu) */
    struct lt_residual residual;
};

/* ---- kernels --------------------------------------------------------------------------------- */

static void add(struct counter *counter, enum kernel kernel, double flops, double bytes,
                double seconds)
{
    struct sum *sum = &counter->kernel[kernel];
    sum->launches++;
    sum->flops += flops;
    sum->bytes += bytes;
    sum->seconds += seconds + GAP_S;
}

static double stream(const struct counter *counter, double bytes)
{
    return bytes / (STREAM_SHARE * counter->machine->device.bytes_per_s);
}

static void moves(struct counter *counter, enum kernel kernel, double bytes)
{
    add(counter, kernel, 0, bytes, stream(counter, bytes));
}

/* out[rows,columns] over `inner` terms. A product over tokens leaves few tiles, so the tokens may
 * be divided among up to 8 of them, whose fp32 sums are then read once more. */
static void product(struct counter *counter, double rows, double inner, double columns, int divides)
{
    struct plan_gemm best = {.seconds = INFINITY};
    double sums = 0;
    for (int parts = 1; parts <= (divides ? 8 : 1); parts *= 2) {
        struct plan_gemm one;
        double again = parts > 1 ? 8.0 * parts * rows * columns : 0;
        plan_gemm(counter->machine, &plan_constants_fitted, parts * rows, inner / parts, columns,
                  &one);
        one.seconds += stream(counter, again);
        if (one.seconds < best.seconds) {
            best = one;
            sums = again;
        }
    }
    double bytes = 2 * (rows * inner + inner * columns) + (divides ? 4 : 2) * rows * columns + sums;
    add(counter, KERNEL_matmul, 2 * rows * inner * columns, bytes, best.seconds);
    if (!best.memory_bound)
        counter->arithmetic += best.seconds;
}

static void matmul_forward(struct counter *counter, const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_forward;
    product(counter, (double)a->rows, (double)a->k, (double)a->n, 0);
}

static void matmul_backward(struct counter *counter, const union lt_args *args)
{
    const struct lt_matmul *a = &args->matmul_backward;
    double rows = (double)a->rows, n = (double)a->n, k = (double)a->k;
    if (a->din)
        product(counter, rows, n, k, 0);
    product(counter, k, rows, n, 1);
}

/* Elements of a tensor of the residual stream; multiply-adds of a product over the pairs of queries
 * and keys in blocks of 64 queries. */
static double elements(const struct lt_attention *a)
{
    return (double)(a->b * a->t * a->c);
}

static double pairs(const struct lt_attention *a)
{
    return (double)lt_attention_pairs(LT_BACKEND_CPU, a->t) * (double)(a->b * a->c);
}

/* Seconds of the forward products, of the pairs that the mask leaves, at a share of the peak. */
static double attends(const struct counter *counter, const struct lt_attention *a, double share)
{
    double flops = 2.0 * (double)(a->b * a->c * a->t * (a->t + 1));
    return flops / (share * an_accelerator_peak(&counter->machine->device, "bf16"));
}

/* The kernels of Hopper are for heads of 64 channels; what others take is not known. */
static bool is_wide(const struct lt_attention *a)
{
    return a->c / a->h == 64;
}

static void attention_forward(struct counter *counter, const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_forward;
    add(counter, is_wide(a) ? KERNEL_hopper_out : KERNEL_attention_out, 4 * pairs(a),
        8 * elements(a), attends(counter, a, ATTENTION_FORWARD));
}

/* The probabilities are made once for dk and dv and once for dq: four products and three. */
static void attention_backward(struct counter *counter, const union lt_args *args)
{
    const struct lt_attention *a = &args->attention_backward;
    enum kernel kernel = is_wide(a) ? KERNEL_hopper_dqkv : KERNEL_attention_dqkv;
    double seconds = 2.5 * attends(counter, a, ATTENTION_BACKWARD);
    moves(counter, KERNEL_attention_delta, 4 * elements(a));
    add(counter, kernel, 8 * pairs(a), 12 * elements(a), seconds * 0.61);
    add(counter, kernel, 6 * pairs(a), 10 * elements(a), seconds * 0.39);
}

static void layernorm_backward(struct counter *counter, const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_backward;
    moves(counter, KERNEL_layernorm_din, 8 * (double)(a->rows * a->c));
    moves(counter, KERNEL_column_partials, 4 * (double)(a->rows * a->c));
    moves(counter, KERNEL_column_totals, 16 * (double)a->c);
}

/* GELU and its slope are epilogues of products: a second matrix that these write or read. */
static void second_matrix(struct counter *counter, int64_t count)
{
    struct sum *products = &counter->kernel[KERNEL_matmul];
    products->bytes += 2 * (double)count;
    products->seconds += stream(counter, 2 * (double)count);
}

static void gelu_forward(struct counter *counter, const union lt_args *args)
{
    second_matrix(counter, args->gelu_forward.count);
}

static void gelu_backward(struct counter *counter, const union lt_args *args)
{
    second_matrix(counter, args->gelu_backward.count);
}

/* The logits are read for the loss, and once more, from the cache, for their gradient. */
static void classifier(struct counter *counter, const union lt_args *args)
{
    const struct lt_classifier *a = &args->classifier;
    moves(counter, KERNEL_classifier_row, 4 * (double)(a->rows * a->v));
    moves(counter, KERNEL_mean_loss, 4 * (double)a->rows);
}

static void embedding_forward(struct counter *counter, const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_forward;
    moves(counter, KERNEL_embedding_out, 6 * (double)(a->b * a->t * a->c));
}

static void embedding_backward(struct counter *counter, const union lt_args *args)
{
    const struct lt_embedding *a = &args->embedding_backward;
    double gradient = 2 * (double)(a->b * a->t * a->c);
    moves(counter, KERNEL_embedding_dword, gradient + 8 * (double)(a->b * a->t));
    moves(counter, KERNEL_embedding_dposition, gradient + 8 * (double)(a->t * a->c));
}

static void layernorm_forward(struct counter *counter, const union lt_args *args)
{
    const struct lt_layernorm *a = &args->layernorm_forward;
    moves(counter, KERNEL_layernorm_out, 4 * (double)(a->rows * a->c));
}

static void zero(struct counter *counter, const union lt_args *args)
{
    moves(counter, KERNEL_memset, 4 * (double)args->zero.count);
}

static void norm(struct counter *counter, const union lt_args *args)
{
    moves(counter, KERNEL_norm_partials, 4 * (double)args->norm.count);
    moves(counter, KERNEL_norm_total, 8);
}

/* Reads four floats, writes three and the rounded copy. */
static void adamw(struct counter *counter, const union lt_args *args)
{
    moves(counter, KERNEL_adamw, 30 * (double)args->adamw.count);
}

/* What libtrain/cuda launches for each operation. */
static void (*const count_of[LT_OP_COUNT])(struct counter *counter, const union lt_args *args) = {
    [LT_OP_EMBEDDING_FORWARD] = embedding_forward,
    [LT_OP_EMBEDDING_BACKWARD] = embedding_backward,
    [LT_OP_LAYERNORM_FORWARD] = layernorm_forward,
    [LT_OP_LAYERNORM_BACKWARD] = layernorm_backward,
    [LT_OP_MATMUL_FORWARD] = matmul_forward,
    [LT_OP_MATMUL_BACKWARD] = matmul_backward,
    [LT_OP_ATTENTION_FORWARD] = attention_forward,
    [LT_OP_ATTENTION_BACKWARD] = attention_backward,
    [LT_OP_GELU_FORWARD] = gelu_forward,
    [LT_OP_GELU_BACKWARD] = gelu_backward,
    [LT_OP_CLASSIFIER] = classifier,
    [LT_OP_NORM] = norm,
    [LT_OP_ZERO] = zero,
    [LT_OP_ADAMW] = adamw,
};

/* A residual is put off, because a layernorm of its sum takes it along. 1: all is counted. */
static int fused(struct counter *counter, enum lt_op_id op, const union lt_args *args)
{
    int waited = counter->waiting;
    double bytes = 8 * (double)counter->residual.count;
    counter->waiting = 0;
    if (waited && op == LT_OP_LAYERNORM_FORWARD &&
        args->layernorm_forward.in == counter->residual.out) {
        moves(counter, KERNEL_layernorm_out, bytes);
        return 1;
    }
    if (waited)
        moves(counter, KERNEL_residual_out, bytes * 3 / 4);
    if (op != LT_OP_RESIDUAL_FORWARD)
        return 0;
    counter->waiting = 1;
    counter->residual = args->residual_forward;
    return 1;
}

static void run(struct lt_device *device, enum lt_op_id op, enum lt_dtype dtype,
                const union lt_args *args)
{
    struct counter *counter = (struct counter *)device;
    (void)dtype;
    if (fused(counter, op, args))
        return;
    if (!count_of[op]) {
        fprintf(stderr, "step_model: no kernel known for %s\n", lt_op_names()[op]);
        exit(1);
    }
    count_of[op](counter, args);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Addresses that nothing reads. */
static void *space_take(struct lt_space *space, size_t bytes)
{
    struct counter *counter = (struct counter *)space;
    uintptr_t at = counter->free_at;
    counter->free_at += (bytes + 4095) / 4096 * 4096;
    return (void *)at;
}

static void space_give(struct lt_space *space, void *base)
{
    (void)space;
    (void)base;
}

struct setting {
    struct lt_gpt2_config shape;
    struct plan_machine machine;
    int64_t batch, seq;
};

/* One update of one micro-batch. 0, or -1 with the reason said. */
static int count_step(struct counter *counter, const struct setting *of)
{
    struct tacho_error err = {0};
    struct lt_model *model = NULL;
    struct lt_gpt2_stage whole = lt_gpt2_whole(&of->shape);
    const struct lt_batch batch = {0};
    whole.space = &counter->base.space;
    if (lt_gpt2_create_stage(&model, &of->shape, (struct lt_gpt2_mode){.dtype = LT_DTYPE_BF16},
                             &whole, of->batch, of->seq, 1, &err)) {
        fprintf(stderr, "step_model: %s\n", err.what);
        return -1;
    }
    const struct lt_context context = {.device = &counter->base, .dtype = LT_DTYPE_BF16};
    const struct lt_parameters *parameters = &model->parameters;
    int64_t count = (int64_t)parameters->count;
    model->ops->forward(model, &context, &batch, 1);
    model->ops->backward(model, &context, &batch, 1);
    lt_op(&context, LT_OP_NORM, &(union lt_args){.norm = {.x = parameters->grad, .count = count}});
    lt_op(&context, LT_OP_ADAMW, &(union lt_args){.adamw = {.count = count}});
    lt_model_destroy(model);
    return 0;
}

/* ---- what is printed ------------------------------------------------------------------------- */

static struct sum total_of(const struct counter *counter)
{
    struct sum total = {0};
    for (int i = 0; i < KERNELS; i++) {
        total.launches += counter->kernel[i].launches;
        total.flops += counter->kernel[i].flops;
        total.bytes += counter->kernel[i].bytes;
        total.seconds += counter->kernel[i].seconds;
    }
    return total;
}

/* The sum of the kernels of the part that begins with this one; launches 0: it is no first one. */
static struct sum part_of(const struct counter *counter, int first)
{
    struct sum sum = {0};
    for (int i = 0; i < KERNELS; i++) {
        if (strcmp(kernel_table[i].part, kernel_table[first].part) != 0)
            continue;
        if (i < first)
            return (struct sum){0};
        sum.launches += counter->kernel[i].launches;
        sum.flops += counter->kernel[i].flops;
        sum.bytes += counter->kernel[i].bytes;
        sum.seconds += counter->kernel[i].seconds;
    }
    return sum;
}

static double peak_of(const struct setting *of)
{
    return an_accelerator_peak(&of->machine.device, "bf16");
}

static bool is_small(const struct setting *of)
{
    return of->shape.channels <= 768;
}

static double goal_of(const struct setting *of)
{
    return is_small(of) ? GOAL_124M : GOAL_1558M;
}

static double model_flops(const struct setting *of)
{
    return (double)lt_gpt2_flops(&of->shape, LT_BACKEND_REFERENCE,
                                 (struct lt_gpt2_mode){.dtype = LT_DTYPE_BF16}, of->batch, of->seq,
                                 1)
        .model;
}

static double mfu(const struct setting *of, double seconds)
{
    return 100 * model_flops(of) / (seconds * peak_of(of));
}

/* What the step would be with better products. */
static void print_change(const struct counter *counter, const struct setting *of, double seconds)
{
    double best = counter->arithmetic *
                  (1 - plan_gemm_family(&of->machine, &plan_constants_fitted) / BEST_PRODUCT);
    printf("with GEMMs at the best published share of the peak: causal MFU %.1f %%\n",
           mfu(of, seconds - (best > 0 ? best : 0)));
}

static void print_text(const struct counter *counter, const struct setting *of)
{
    struct sum total = total_of(counter);
    double tokens = (double)(of->batch * of->seq);
    printf("%s, bf16, batch %lld, seq %lld, vocab %lld on %s: %.1f TFLOP/s, %.0f GB/s\n\n",
           of->shape.name, (long long)of->batch, (long long)of->seq, (long long)of->shape.vocab,
           of->machine.device.name, peak_of(of) / 1e12, of->machine.device.bytes_per_s / 1e9);
    printf("%-22s %8s %10s %9s %9s %8s %9s\n", "part", "kernels", "TFLOP", "GB", "ms", "share",
           "of peak");
    for (int i = 0; i < KERNELS; i++) {
        struct sum part = part_of(counter, i);
        if (part.launches <= 0)
            continue;
        printf("%-22s %8.0f %10.3f %9.3f %9.3f %6.1f %%", kernel_table[i].part, part.launches,
               part.flops / 1e12, part.bytes / 1e9, 1e3 * part.seconds,
               100 * part.seconds / total.seconds);
        if (part.flops > 0)
            printf(" %7.1f %%", 100 * part.flops / (part.seconds * peak_of(of)));
        printf("\n");
    }
    printf("%-22s %8.0f %10.3f %9.3f %9.3f\n\n", "step", total.launches, total.flops / 1e12,
           total.bytes / 1e9, 1e3 * total.seconds);
    printf("%.0f tokens/s, causal MFU %.1f %% (goal %.0f %%)\n", tokens / total.seconds,
           mfu(of, total.seconds), goal_of(of));
    print_change(counter, of, total.seconds);
}

static void print_json(const struct counter *counter, const struct setting *of)
{
    struct sum total = total_of(counter);
    printf("{\"model\": \"%s\", \"device\": \"%s\", \"batch\": %lld, \"seq\": %lld, "
           "\"step_ms\": %.6f, \"tokens_per_s\": %.1f, \"mfu_pct\": %.3f, \"goal_pct\": %.0f, "
           "\"model_flops\": %.0f, \"kernels\": [",
           of->shape.name, of->machine.device.name, (long long)of->batch, (long long)of->seq,
           1e3 * total.seconds, (double)(of->batch * of->seq) / total.seconds,
           mfu(of, total.seconds), goal_of(of), model_flops(of));
    const char *comma = "";
    for (int i = 0; i < KERNELS; i++) {
        const struct sum *sum = &counter->kernel[i];
        if (sum->launches <= 0)
            continue;
        printf("%s{\"name\": \"%s\", \"part\": \"%s\", \"launches\": %.0f, \"flops\": %.0f, "
               "\"bytes\": %.0f, \"ms\": %.6f}",
               comma, kernel_table[i].name, kernel_table[i].part, sum->launches, sum->flops,
               sum->bytes, 1e3 * sum->seconds);
        comma = ", ";
    }
    printf("]}\n");
}

static void print_launches(const struct counter *counter, const struct setting *of)
{
    (void)of;
    for (int i = 0; i < KERNELS; i++)
        if (counter->kernel[i].launches > 0)
            printf("%s %.0f\n", kernel_table[i].name, counter->kernel[i].launches);
}

/* ---- the command line ------------------------------------------------------------------------ */

static int usage(void)
{
    fprintf(stderr, "usage: step_model MODEL DEVICE [BATCH [SEQ [VOCAB]]] [--json | --launches]\n");
    return 2;
}

/* 0, or -1: no such model or device. */
static int read_case(struct setting *of, const char *model, const char *device)
{
    const struct lt_gpt2_config *row = lt_gpt2_configs;
    while (row->name && strcmp(row->name, model) != 0)
        row++;
    if (!row->name || !an_accelerator_find(device, &of->machine.device)) {
        fprintf(stderr, "step_model: no such %s: %s\n", row->name ? "device" : "model",
                row->name ? device : model);
        return -1;
    }
    of->shape = *row;
    of->machine.type = "bf16";
    of->seq = row->positions;
    of->batch = is_small(of) ? 32 : 8;
    if (row->vocab > 256)
        of->shape.vocab = 50304; /* rows of whole packs of 16 bytes (docs/engine.md) */
    return 0;
}

int main(int argc, char **argv)
{
    static struct counter counter;
    struct setting of = {0};
    void (*print)(const struct counter *counter, const struct setting *of) = print_text;
    int64_t *const numbers[] = {&of.batch, &of.seq, &of.shape.vocab};
    if (argc < 3)
        return usage();
    if (read_case(&of, argv[1], argv[2]))
        return 2;
    for (int i = 3, next = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            print = print_json;
        else if (!strcmp(argv[i], "--launches"))
            print = print_launches;
        else if (next < 3 && atoll(argv[i]) > 0)
            *numbers[next++] = atoll(argv[i]);
        else
            return usage();
    }
    counter.machine = &of.machine;
    counter.free_at = (uintptr_t)1 << 40;
    counter.base.space.take = space_take;
    counter.base.space.give = space_give;
    counter.base.run = run;
    if (count_step(&counter, &of))
        return 1;
    print(&counter, &of);
    return 0;
}
