/* SPDX-License-Identifier: Apache-2.0
 *
 * What all pieces need of a flow: its arrays, and what names say of operators.
 */
#include "analyzers/dataflow/flow.h"

#include <stdlib.h>
#include <string.h>

const char *flow_kind_text(enum flow_kind kind)
{
    static const char *const texts[] = {
#define FLOW_KIND_TEXT(name, text) text,
        FLOW_KIND_MAP(FLOW_KIND_TEXT)
#undef FLOW_KIND_TEXT
    };
    return texts[kind];
}

const char *flow_how_text(enum flow_how how)
{
    static const char *const texts[] = {"tensor", "dependency", "size"};
    return texts[how];
}

static bool has_word(const char *name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}
#define HAS_WORD(name, words) has_word(name, words, sizeof(words) / sizeof *(words))

/* Is the name without its namespace, its overload and its arguments one of these words? */
static bool is_word(const char *name, const char *const *words, size_t count)
{
    const char *colon = strrchr(name, ':');
    name = colon ? colon + 1 : name;
    size_t length = strcspn(name, "(.");
    for (size_t i = 0; i < count; i++)
        if (strlen(words[i]) == length && !strncasecmp(name, words[i], length))
            return true;
    return false;
}
#define IS_WORD(name, words) is_word(name, words, sizeof(words) / sizeof *(words))

/* Is an element of the result made of elements elsewhere in the operand, or of other processes?
 * Look-ups, scans, transforms, linear algebra and communication; optimizers fuse their lists
 * already. */
static bool stays_alone(const char *name)
{
    static const char *const parts[] = {
        "embedding",  "gather",     "scatter",    "index",    "sort",        "topk",
        "cat",        "stack",      "pool",       "upsample", "fused",       "foreach",
        "exchange",   "cumsum",     "nonzero",    "memcpy",   "cumprod",     "cummax",
        "cummin",     "logcumsum",  "fft",        "cholesky", "linalg_",     "triangular_solve",
        "lu_solve",   "histc",      "bincount",   "unique",   "kthvalue",    "masked_select",
        "nccl",       "rccl",       "gloo",       "c10d",     "allreduce",   "all_reduce",
        "all-reduce", "all_to_all", "all-to-all", "alltoall", "record_param"};
    static const char *const words[] = {"flip",   "roll", "rot90", "inverse",
                                        "median", "send", "recv"};
    return (HAS_WORD(name, parts) && !strcasestr(name, "vector_norm")) || IS_WORD(name, words);
}

/* Words of names, in the order in which they decide. */
enum flow_kind flow_kind_of(const char *name, bool product)
{
    static const char *const views[] = {"view",   "reshape", "transpose",  "permute",
                                        "expand", "squeeze", "slice",      "select",
                                        "detach", "alias",   "as_strided", "split"};
    static const char *const products[] = {"matmul", "gemm",   "addmm",     "aten::mm",
                                           "bmm",    "linear", "attention", "convol",
                                           "conv1",  "conv2",  "conv3",     "einsum"};
    static const char *const reductions[] = {"norm", "softmax", "loss",    "sum",
                                             "mean", "var",     "std",     "nll",
                                             "argm", "entropy", "classif", "reduce"};
    /* whole: clamp_min and maximum are element-wise */
    static const char *const extremes[] = {"max", "min", "amax", "amin", "aminmax"};
    if (product)
        return FLOW_PRODUCT;
    if (stays_alone(name))
        return FLOW_OTHER;
    if (HAS_WORD(name, products))
        return FLOW_PRODUCT;
    if (HAS_WORD(name, reductions) || IS_WORD(name, extremes))
        return FLOW_REDUCTION;
    return HAS_WORD(name, views) || !strcmp(name, "aten::t") ? FLOW_VIEW : FLOW_POINTWISE;
}

bool flow_is_in_place(const char *name)
{
    static const char *const words[] = {"out=", "_out", "copy_", "optimizer", "adam", "sgd"};
    size_t length = strcspn(name, "(.");
    return (length && name[length - 1] == '_') || HAS_WORD(name, words);
}

bool flow_has_effects(const char *name)
{
    static const char *const words[] = {
        "rand", "dropout",      "bernoulli", "multinomial", "empty",   "nccl",      "c10d",
        "item", "print",        "copy",      "all_",        "reduce_", "broadcast", "memcpy",
        "_to_", "record_param", "load",      "store",       "send",    "recv"};
    return HAS_WORD(name, words);
}

struct flow_op *flow_op_add(struct flow *flow, const struct flow_op *op)
{
    if (an_grow(&flow->op, &flow->op_room, flow->count + 1, sizeof *flow->op))
        return NULL;
    flow->op[flow->count] = *op;
    flow->op[flow->count].first_use = flow->use_count;
    flow->backward |= !strcmp(op->pass, "backward");
    return &flow->op[flow->count++];
}

int flow_edge_add(struct flow *flow, const struct flow_edge *edge)
{
    int rc = an_grow(&flow->edge, &flow->edge_room, flow->edge_count + 1, sizeof *flow->edge);
    if (!rc)
        flow->edge[flow->edge_count++] = *edge;
    return rc;
}

int flow_edge_once(struct flow *flow, const struct flow_edge *edge)
{
    for (size_t i = flow->edge_count; i > 0 && flow->edge[i - 1].to == edge->to; i--) {
        struct flow_edge *known = &flow->edge[i - 1];
        if (known->from != edge->from)
            continue;
        if (edge->how == FLOW_TENSOR && known->bytes < edge->bytes)
            *known = *edge;
        return 0;
    }
    return flow_edge_add(flow, edge);
}

int flow_mark_only(struct flow *flow)
{
    uint32_t *readers = calloc(flow->count + 1, sizeof *readers);
    if (!readers)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < flow->edge_count; i++)
        readers[flow->edge[i].from]++;
    for (size_t i = 0; i < flow->edge_count; i++) {
        struct flow_edge *edge = &flow->edge[i];
        edge->only = edge->how == FLOW_TENSOR &&
                     (readers[edge->from] == 1 || flow->tensor[edge->tensor].reads == 1);
    }
    free(readers);
    return 0;
}

double flow_rate(const struct flow_op *op)
{
    return op->ns > 0 ? (double)flow_bytes(op) / (double)op->ns * 1e9 : 0;
}

void flow_depths(const struct flow *flow, size_t *depth)
{
    memset(depth, 0, flow->count * sizeof *depth);
    for (size_t i = 0; i < flow->edge_count; i++) {
        const struct flow_edge *edge = &flow->edge[i];
        if (depth[edge->from] + 1 > depth[edge->to])
            depth[edge->to] = depth[edge->from] + 1;
    }
}

const struct an_flow_row *flow_keep_rows(const struct flow *flow, struct an_flow_row *row,
                                         size_t *count)
{
    *count = *count < FLOW_ROWS_MOST ? *count : FLOW_ROWS_MOST;
    for (size_t i = 0; i < *count; i++)
        row[i].name = an_arena_text(flow->context->arena, row[i].name);
    return an_arena_copy(flow->context->arena, row, *count * sizeof *row);
}

void flow_row_add(struct an_flow_row *row, size_t *count, const struct flow_op *op, int64_t bytes)
{
    size_t at = 0;
    while (at < *count && row[at].name != op->name)
        at++;
    if (at == FLOW_NAMES_MOST)
        return;
    *count += at == *count;
    row[at].name = op->name;
    row[at].count++;
    row[at].bytes = an_time_add(row[at].bytes, bytes);
    row[at].ns = an_time_add(row[at].ns, op->ns);
}

void flow_clear(struct flow *flow)
{
    free(flow->op);
    free(flow->use);
    free(flow->tensor);
    free(flow->edge);
    *flow = (struct flow){.context = flow->context, .written = flow->written, .names = flow->names};
}
