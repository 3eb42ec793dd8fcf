/* SPDX-License-Identifier: Apache-2.0
 *
 * Models with the blocks of Llama as a list of operations, and the closed form of their FLOPs.
 * Symbols: l layers, c channels, d = c / heads channels a head, g groups, f hidden width, v words.
 */
#include "libtrain/models/llama.h"

#include <math.h>

#include "libtrain/base/share.h"

#define ROPE_BASE  10000.0
#define DEVIATION  0.02f
#define OPERATIONS 21 /* of a block, messages included; besides them there are eight */

#define SIZE(name_, help_, l, c, h, g, f, v, t, b, e, k) \
    { \
        .name = (name_), .help = (help_), .layers = (l), .channels = (c), .heads = (h), \
        .groups = (g), .hidden = (f), .vocab = (v), .seq = (t), .batch = (b), .experts = (e), \
        .choices = (k), .capacity = CAPACITY, .balance = BALANCE \
    }
#define CAPACITY 1.25
#define BALANCE  0.01
const struct lt_llama_config lt_llama_configs[] = {
    SIZE("llama-tiny", "0.80 M parameters, bytes as tokens; a step takes milliseconds", 4, 128, 4,
         2, 352, 256, 128, 8, 0, 0),
    SIZE("llama-125M", "12 layers, 768 channels, 12 heads in 4 groups", 12, 768, 12, 4, 2048, 32000,
         64, 4, 0, 0),
    SIZE("llama-1.1B", "the shape of TinyLlama: 22 layers, 2048 channels, 32 heads in 4 groups", 22,
         2048, 32, 4, 5632, 32000, 64, 4, 0, 0),
    SIZE("moe-tiny", "a mixture of 8 experts, 2 a token: 2.4 M parameters, bytes as tokens", 4, 128,
         4, 2, 176, 256, 128, 8, 8, 2),
    SIZE("moe-8x125M", "llama-125M with 8 experts in each layer, 2 a token", 12, 768, 12, 4, 2048,
         32000, 64, 4, 8, 2),
    {0},
};

int64_t lt_llama_capacity(const struct lt_llama_config *config, int64_t rows)
{
    double even = (double)(rows * config->choices) / (double)config->experts;
    int64_t room = (int64_t)ceil(config->capacity * even);
    return room < 1 ? 1 : room;
}

size_t lt_llama_summed_bytes(const struct lt_llama_config *config, enum lt_dtype dtype,
                             int64_t rows)
{
    size_t stream = (size_t)(rows * config->channels) * lt_dtype_bytes(dtype),
           router = (size_t)(config->experts * config->channels) * sizeof(float);
    return router > stream ? router : stream;
}

/* Ranks that the layers are divided among. */
static int64_t ranks_of(const struct lt_llama_config *config)
{
    return config->ranks.ranks > 1 ? config->ranks.ranks : 1;
}

/* Refuses shapes that ranks cannot divide. */
static int check_ranks(const struct lt_llama_config *config, int64_t rows, struct tacho_error *err)
{
    int64_t ranks = ranks_of(config);
    if (config->groups % ranks)
        return tacho_fail(
            err, TACHO_EUSAGE,
            "choose --groups as a multiple of tp in --layout: a rank has whole groups "
            "of heads",
            "%s: %lld ranks do not divide %lld group%s of heads", config->name, (long long)ranks,
            (long long)config->groups, tacho_plural(config->groups));
    if (config->hidden < ranks || config->vocab < ranks)
        return tacho_fail(err, TACHO_EUSAGE, "use a smaller tp in --layout",
                          "%s: %lld ranks for %lld hidden channels and %lld words", config->name,
                          (long long)ranks, (long long)config->hidden, (long long)config->vocab);
    if (config->ranks.sequence && rows % ranks)
        return tacho_fail(err, TACHO_EUSAGE, "choose --batch and --seq so that they do",
                          "--sequence-parallel: %lld ranks do not divide %lld tokens",
                          (long long)ranks, (long long)rows);
    return 0;
}

/* Refuses shapes that cannot be computed, before memory is asked for. */
static int check(const struct lt_llama_config *config, int64_t b, int64_t t,
                 struct tacho_error *err)
{
    const int64_t most = 1 << 20;
    if (config->layers < 1 || config->channels < 1 || config->heads < 1 || config->groups < 1 ||
        config->hidden < 1 || config->vocab < 1 || b < 1 || t < 1 || config->layers > 4096 ||
        config->channels > most || config->hidden > most || config->vocab > 1 << 24 || b > most ||
        t > most)
        return tacho_fail(err, TACHO_EUSAGE,
                          "layers, channels, heads, groups, hidden, vocab, seq and batch must be "
                          "positive and of a sane size",
                          "%s: impossible shape", config->name);
    if (config->channels % (2 * config->heads) || config->channels / config->heads > 4096)
        return tacho_fail(err, TACHO_EUSAGE,
                          "choose --channels as a multiple of twice --heads: rotary positions turn "
                          "pairs of channels",
                          "%s: %lld channels do not make heads of pairs for %lld heads",
                          config->name, (long long)config->channels, (long long)config->heads);
    if (config->heads % config->groups)
        return tacho_fail(err, TACHO_EUSAGE, "choose --heads as a multiple of --groups",
                          "%s: %lld heads do not divide among %lld groups", config->name,
                          (long long)config->heads, (long long)config->groups);
    if (config->experts && (config->experts < 2 || config->experts > 4096 || config->choices < 1 ||
                            config->choices > config->experts || !(config->capacity > 0) ||
                            config->capacity > (double)config->experts || !(config->balance >= 0)))
        return tacho_fail(err, TACHO_EUSAGE,
                          "--experts at least 2, --choices and --capacity above 0 and at most as "
                          "many, --balance not negative",
                          "%s: impossible mixture of experts", config->name);
    if (config->parts > 1 && (!config->experts || config->experts % config->parts))
        return tacho_fail(err, TACHO_EUSAGE, "choose --experts as a multiple of ep in --layout",
                          "%s: %d ranks do not divide %lld experts", config->name, config->parts,
                          (long long)config->experts);
    return check_ranks(config, b * t, err);
}

/* Ranks that the experts are divided among. */
static int64_t parts_of(const struct lt_llama_config *config)
{
    return config->parts ? config->parts : 1;
}

/* The tensors of parameters, by their numbers; router: of a mixture. */
struct tensors {
    int word, qkv, projection, up, down, head, norm1, norm2, last, router;
};

/* How many of `count` things this rank has. */
static int64_t share_of(const struct lt_llama_config *config, int64_t count)
{
    int ranks = (int)ranks_of(config), rank = ranks > 1 ? config->ranks.rank : 0;
    return (int64_t)(lt_share((size_t)count, ranks, rank + 1) -
                     lt_share((size_t)count, ranks, rank));
}

/* Tensors with weight decay come first; a router only in a mixture. Where ranks divide the layers,
 * each has some of the words, query heads, groups of keys and values, and of the hidden channels
 * both gate and value; routers and norms are whole, but of a router each finds what its hidden
 * channels add to the gradient, and with divided rows of a norm what its rows do. */
static struct tensors add_tensors(struct lt_net *net, const struct lt_llama_config *config)
{
    int64_t l = config->layers, c = config->channels, f = config->hidden, v = config->vocab,
            kept = config->groups * (c / config->heads), e = config->experts ? config->experts : 1,
            own = e / parts_of(config), blocks = lt_llama_own(config), n = ranks_of(config),
            own_f = share_of(config, f), own_v = share_of(config, v);
    int64_t embeds = config->first == 0, answers = config->first + blocks == l;
    int parts = config->parts, summed = n > 1 && config->ranks.sequence;
    float residual = DEVIATION / sqrtf(2.0f * (float)l);
    struct tensors at = {0};
    const struct {
        int *number;
        int64_t repeat, whole, rows, columns, each; /* whole: of the whole model */
        enum lt_weight_role role;
        float deviation;
        int64_t all_rows, all_columns, lead;
        int groups, partial;
    } rows[] = {
        {&at.word, embeds, 1, own_v, c, 0, LT_WEIGHT_OUTER, DEVIATION, .all_rows = v},
        {&at.qkv, blocks, l, (c + 2 * kept) / n, c, 0, LT_WEIGHT_HIDDEN, DEVIATION,
         .all_rows = c + 2 * kept, .groups = 3, .lead = c - kept},
        {&at.projection, blocks, l, c, c / n, 0, LT_WEIGHT_HIDDEN, residual, .all_columns = c},
        {&at.router, blocks, config->experts ? l : 0, e, c, 0, LT_WEIGHT_OUTER, DEVIATION,
         .partial = n > 1},
        {&at.up, blocks * own, l * e, 2 * own_f, c, own, LT_WEIGHT_HIDDEN, DEVIATION,
         .all_rows = 2 * f, .groups = 2},
        {&at.down, blocks * own, l * e, c, own_f, own, LT_WEIGHT_HIDDEN, residual,
         .all_columns = f},
        {&at.head, answers, 1, own_v, c, 0, LT_WEIGHT_OUTER, DEVIATION, .all_rows = v},
        {&at.norm1, blocks, l, 1, c, 0, LT_WEIGHT_VECTOR, 0, .partial = summed},
        {&at.norm2, blocks, l, 1, c, 0, LT_WEIGHT_VECTOR, 0, .partial = summed},
        {&at.last, answers, 1, 1, c, 0, LT_WEIGHT_VECTOR, 0, .partial = summed},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].whole)
            *rows[i].number =
                lt_net_parameter(net, (struct lt_net_tensor){.repeat = rows[i].repeat,
                                                             .rows = rows[i].rows,
                                                             .columns = rows[i].columns,
                                                             .role = rows[i].role,
                                                             .deviation = rows[i].deviation,
                                                             .constant = 1,
                                                             .layer = rows[i].each && e > 1,
                                                             .each = (int)rows[i].each,
                                                             .part = config->part,
                                                             .parts = rows[i].each ? parts : 0,
                                                             .whole = rows[i].whole,
                                                             .all_rows = rows[i].all_rows,
                                                             .all_columns = rows[i].all_columns,
                                                             .groups = rows[i].groups,
                                                             .lead = rows[i].lead,
                                                             .partial = rows[i].partial});
    return at;
}

/* The second half of block i: SwiGLU, or a mixture of experts with one each. */
static int add_swiglu(struct lt_net *net, const struct lt_llama_config *config,
                      const struct tensors *at, int in, int64_t i)
{
    int64_t experts = config->experts;
    if (!experts) {
        int up = lt_net_linear(net, in, at->up, i, LT_NET_NONE, 0);
        return lt_net_linear(net, lt_net_swiglu(net, up), at->down, i, LT_NET_NONE, 0);
    }
    const struct lt_net_mixture mixture = {.experts = experts,
                                           .k = config->choices,
                                           .ranks = config->parts,
                                           .capacity =
                                               lt_llama_capacity(config, lt_net_rows(net, in)),
                                           .balance = (float)config->balance};
    struct lt_net_routes routes =
        lt_net_route(net, lt_net_linear(net, in, at->router, i, LT_NET_NONE, 0), mixture);
    int64_t first = i * (experts / parts_of(config));
    int rows = lt_net_gather_rows(net, lt_net_dispatch(net, in, &routes), &routes);
    int up = lt_net_experts(net, rows, at->up, first, &routes);
    int down = lt_net_experts(net, lt_net_swiglu(net, up), at->down, first, &routes);
    return lt_net_combine(net, lt_net_return_rows(net, down, &routes), &routes);
}

/* One block; returns the residual stream after it. */
static int add_block(struct lt_net *net, const struct lt_llama_config *config,
                     const struct tensors *at, int stream, int64_t i)
{
    int64_t ranks = ranks_of(config), heads = config->heads / ranks;
    lt_net_begin_block(net);
    int normed = lt_net_enter(net, lt_net_rmsnorm(net, stream, at->norm1, i));
    int qkv = lt_net_linear(net, normed, at->qkv, i, LT_NET_NONE, 0);
    int turned = lt_net_rope(net, qkv, heads, config->groups / ranks, ROPE_BASE);
    int seen = lt_net_attention(net, turned, heads);
    int first = lt_net_linear(net, seen, at->projection, i, LT_NET_NONE, 0);
    int middle = lt_net_residual(net, stream, lt_net_leave(net, first));
    normed = lt_net_enter(net, lt_net_rmsnorm(net, middle, at->norm2, i));
    int second = lt_net_leave(net, add_swiglu(net, config, at, normed, i));
    int out = lt_net_residual(net, middle, second);
    lt_net_end_block(net, out);
    return out;
}

/* The whole list, placed but without memory. */
static int build(struct lt_net **out, const struct lt_llama_config *config, struct lt_net_mode mode,
                 int64_t b, int64_t t, struct tacho_error *err)
{
    int rc = check(config, b, t, err);
    if (rc)
        return rc;
    int64_t blocks = lt_llama_own(config);
    struct lt_net *net =
        lt_net_create("llama", mode, b, t, config->vocab, (int)blocks * OPERATIONS + 8);
    if (!net)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", config->name);
    lt_net_divide(net, config->ranks);
    struct tensors at = add_tensors(net, config);
    lt_net_tells_use(net);
    if (blocks < config->layers)
        lt_net_stage(net, config->first, config->in_flight);
    lt_net_keep_every(net, blocks);
    int stream =
        config->first == 0 ? lt_net_embedding(net, at.word) : lt_net_receive(net, config->channels);
    for (int64_t i = 0; i < blocks; i++)
        stream = add_block(net, config, &at, stream, i);
    if (config->first + blocks == config->layers) {
        int normed = lt_net_enter(net, lt_net_rmsnorm(net, stream, at.last, 0));
        lt_net_classifier(net, lt_net_linear(net, normed, at.head, 0, LT_NET_NONE, 0));
    } else {
        lt_net_hand_on(net, stream);
    }
    return lt_net_finish(net, config->name, out, err);
}

int lt_llama_memory(const struct lt_llama_config *config, struct lt_net_mode mode, int64_t b,
                    int64_t t, struct lt_memory_plan *out, struct lt_parameters *parameters,
                    struct tacho_error *err)
{
    struct lt_net *net = NULL;
    int rc = build(&net, config, mode, b, t, err);
    if (rc == 0)
        lt_net_measure(net, out, parameters);
    return rc;
}

int lt_llama_create(struct lt_model **out, const struct lt_llama_config *config,
                    struct lt_net_mode mode, int64_t b, int64_t t, uint64_t seed,
                    struct tacho_error *err)
{
    const int64_t shape[LT_SHAPE_CAP] = {config->layers,  config->channels, config->heads,
                                         config->groups,  config->hidden,   config->vocab,
                                         config->experts, config->choices};
    struct lt_net *net = NULL;
    int rc = build(&net, config, mode, b, t, err);
    if (rc)
        return rc;
    rc = lt_net_allocate(net, seed, shape);
    if (rc) {
        lt_net_destroy(net);
        return tacho_fail(err, rc, "choose a smaller model, --batch or --seq, or --recompute block",
                          "%s: not enough memory", config->name);
    }
    *out = lt_net_model(net);
    return 0;
}

/* With a mixture, w1 parameters of the experts' first layers and w2 of the second ones are counted
 * for each choice in the model, and for each place in what is issued. A model's blocks are made
 * again but for the last one, without their second layers. */
struct lt_flops lt_llama_flops(const struct lt_llama_config *config, enum lt_backend backend,
                               struct lt_net_mode mode, int64_t b, int64_t t, int64_t micro_steps)
{
    uint64_t l = (uint64_t)config->layers, c = (uint64_t)config->channels,
             f = (uint64_t)config->hidden, u = (uint64_t)t,
             kept = (uint64_t)(config->groups * (config->channels / config->heads)),
             e = (uint64_t)config->experts;
    uint64_t sequences = (uint64_t)(b * micro_steps), pairs = lt_attention_pairs(backend, t),
             rows = sequences * u, routed = rows, places = rows;
    uint64_t dense = c * (c + 2 * kept) + c * c + e * c, up = 2 * f * c, down = f * c,
             head = (uint64_t)config->vocab * c;
    if (e) {
        routed = rows * (uint64_t)config->choices;
        places = (uint64_t)(micro_steps * lt_llama_capacity(config, b * t)) * e;
    }
    /* of frozen blocks backward makes nothing: 4 of 6 FLOPs a parameter */
    uint64_t frozen = (uint64_t)mode.frozen;
    uint64_t model = (6 * l - 4 * frozen) * (dense * rows + (up + down) * routed) + 6 * head * rows,
             issued =
                 (6 * l - 4 * frozen) * (dense * rows + (up + down) * places) + 6 * head * rows;
    /* the blocks before the last ones, which are kept; of those whose output is not kept, the
     * second layers too */
    uint64_t every = (uint64_t)lt_net_every(mode, config->layers), last = (l - 1) / every * every,
             remade = mode.recompute == LT_RECOMPUTE_BLOCK && last > frozen ? last - frozen : 0,
             inner = every > 1 && !e ? remade - remade / every : 0;
    uint64_t again =
        remade * (2 * (dense * rows + (up + (e ? down : 0)) * places) + 4 * c * pairs * sequences) +
        inner * 2 * down * rows;
    return (struct lt_flops){.model = model + (6 * l - 4 * frozen) * c * u * (u + 1) * sequences,
                             .palm = model + (12 * l - 8 * frozen) * c * u * u * sequences,
                             .issued =
                                 issued + (14 * l - 10 * frozen) * c * pairs * sequences + again,
                             .recomputed = again};
}
