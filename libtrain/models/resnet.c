/* SPDX-License-Identifier: Apache-2.0
 *
 * Residual networks as a list of operations. A stage is a row of tensors: the convolutions of its
 * blocks by their place in the block; the first block of a stage has other inputs than the rest,
 * and a shortcut of its own where its output has another shape. Images below 64 pixels have the
 * stem of He et al. 2016, section 4.2 (3 x 3), larger ones that of section 4.1 (7 x 7 and a pool).
 */
#include "libtrain/models/resnet.h"

#include <math.h>

#define SMALL      64 /* pixels; smaller images have the small stem */
#define CONVS      3  /* most convolutions of a block */
#define OPERATIONS 12 /* most of a block; besides them there are seven */

const struct lt_resnet_config lt_resnet_configs[] = {
    {.name = "resnet-tiny",
     .help = "three blocks from 16 to 64 channels, for small images: 0.08 M parameters",
     .blocks = {1, 1, 1},
     .channels = 16,
     .batch = 64},
    {.name = "resnet18",
     .help = "ResNet-18: 8 blocks of two convolutions, 64 to 512 channels",
     .blocks = {2, 2, 2, 2},
     .channels = 64,
     .batch = 32},
    {.name = "resnet50",
     .help = "ResNet-50: 16 blocks of three convolutions, 256 to 2048 channels",
     .blocks = {3, 4, 6, 3},
     .channels = 64,
     .bottleneck = 1,
     .batch = 16},
    {0},
};

/* The shape of convolution j of block i of a stage. */
struct conv {
    int64_t in, out;
    struct lt_net_window window;
};

/* Channels that enter and leave a stage, and those of its narrow convolutions. */
struct stage {
    int64_t blocks, in, narrow, out, stride;
};

static struct stage stage_of(const struct lt_resnet_config *config, int s)
{
    int64_t wide = config->bottleneck ? 4 : 1, narrow = config->channels << s;
    return (struct stage){.blocks = config->blocks[s],
                          .in = s ? wide * (narrow / 2) : config->channels,
                          .narrow = narrow,
                          .out = wide * narrow,
                          .stride = s ? 2 : 1};
}

static int convs_of(const struct lt_resnet_config *config)
{
    return config->bottleneck ? 3 : 2;
}

/* Convolution j of block i; j = the number of convolutions: the shortcut of the first block. The
 * stride is that of the first 3 x 3 convolution. */
static struct conv conv_of(const struct lt_resnet_config *config, const struct stage *stage,
                           int64_t i, int j)
{
    int64_t stride = i ? 1 : stage->stride;
    struct conv conv = {
        .in = i ? stage->out : stage->in, .out = stage->out, .window = {1, stride, 0}};
    if (j == convs_of(config))
        return conv;
    conv.window.stride = 1;
    if (j > 0)
        conv.in = config->bottleneck ? stage->narrow : stage->out;
    if (j < convs_of(config) - 1)
        conv.out = stage->narrow;
    if (!config->bottleneck || j == 1)
        conv.window = (struct lt_net_window){3, j == config->bottleneck ? stride : 1, 1};
    return conv;
}

static int has_shortcut(const struct stage *stage)
{
    return stage->in != stage->out || stage->stride > 1;
}

static int is_small(const struct lt_resnet_config *config)
{
    return config->height < SMALL && config->width < SMALL;
}

static struct lt_net_window stem_of(const struct lt_resnet_config *config)
{
    return is_small(config) ? (struct lt_net_window){3, 1, 1} : (struct lt_net_window){7, 2, 3};
}

static const struct lt_net_window pool = {3, 2, 1};

static int check(const struct lt_resnet_config *config, int64_t b, struct tacho_error *err)
{
    const int64_t most = 1 << 14;
    int64_t stages = 0;
    for (int s = 0; s < LT_RESNET_STAGES; s++) {
        if (config->blocks[s] < 0 || config->blocks[s] > 64 ||
            (s && config->blocks[s] && !config->blocks[s - 1]))
            stages = LT_RESNET_STAGES + 1;
        stages += config->blocks[s] > 0;
    }
    if (stages < 1 || stages > LT_RESNET_STAGES || config->channels < 1 ||
        config->channels > 4096 || b < 1 || b > 1 << 20 || config->classes < 1 ||
        config->classes > 1 << 24 || config->height < 8 || config->width < 8 ||
        config->height > most || config->width > most || config->depth < 1 || config->depth > 16)
        return tacho_fail(err, TACHO_EUSAGE,
                          "images of 8 to 16384 pixels a side; channels and batch positive and of "
                          "a sane size",
                          "%s: impossible shape (images of %lld x %lld x %lld)", config->name,
                          (long long)config->height, (long long)config->width,
                          (long long)config->depth);
    return 0;
}

/* ---- parameters -------------------------------------------------------------------------------- */

/* The tensors of a stage. first: of its first block, rest: of the others; norms likewise, which
 * have a weight and a bias each. */
struct stage_tensors {
    int first[CONVS + 1], rest[CONVS], weight[CONVS + 1], bias[CONVS + 1];
};

struct tensors {
    int stem, stem_weight, stem_bias, last, last_bias;
    struct stage_tensors stage[LT_RESNET_STAGES];
};

static int add_conv(struct lt_net *net, struct conv conv, int64_t repeat, int64_t layer)
{
    int64_t taps = conv.window.k * conv.window.k;
    return lt_net_parameter(
        net, (struct lt_net_tensor){.repeat = repeat,
                                    .rows = conv.out,
                                    .columns = taps * conv.in,
                                    .role = LT_WEIGHT_HIDDEN,
                                    .deviation = sqrtf(2.0f / (float)(taps * conv.out)),
                                    .layer = (int)layer});
}

static int add_vectors(struct lt_net *net, int64_t repeat, int64_t c, float constant, int64_t layer)
{
    return lt_net_parameter(net, (struct lt_net_tensor){.repeat = repeat,
                                                        .rows = 1,
                                                        .columns = c,
                                                        .role = LT_WEIGHT_VECTOR,
                                                        .constant = constant,
                                                        .layer = (int)layer});
}

/* Convolutions (`vectors` 0) or the norms behind them, of one stage. `layer`: of its first block.
 */
static void add_stage_tensors(struct lt_net *net, const struct lt_resnet_config *config,
                              const struct stage *stage, struct stage_tensors *at, int64_t layer,
                              int vectors)
{
    int convs = convs_of(config), all = convs + has_shortcut(stage);
    for (int j = 0; j < all; j++) {
        struct conv first = conv_of(config, stage, 0, j);
        int64_t repeat = j < convs ? stage->blocks : 1;
        if (vectors) {
            at->weight[j] = add_vectors(net, repeat, first.out, 1, layer);
            at->bias[j] = add_vectors(net, repeat, first.out, 0, layer);
            continue;
        }
        at->first[j] = add_conv(net, first, 1, layer);
        if (j < convs && stage->blocks > 1)
            at->rest[j] = add_conv(net, conv_of(config, stage, 1, j), stage->blocks - 1, layer + 1);
    }
}

/* Tensors with weight decay come first. */
static struct tensors add_tensors(struct lt_net *net, const struct lt_resnet_config *config)
{
    struct tensors at = {0};
    struct conv stem = {config->depth, config->channels, stem_of(config)};
    int64_t features = 0;
    at.stem = add_conv(net, stem, 1, 0);
    for (int vectors = 0; vectors < 2; vectors++) {
        int64_t layer = 1;
        for (int s = 0; s < LT_RESNET_STAGES && config->blocks[s]; s++) {
            struct stage stage = stage_of(config, s);
            add_stage_tensors(net, config, &stage, &at.stage[s], layer, vectors);
            layer += stage.blocks;
            features = stage.out;
        }
        if (vectors)
            continue;
        at.last = lt_net_parameter(
            net, (struct lt_net_tensor){.repeat = 1,
                                        .rows = config->classes,
                                        .columns = features,
                                        .role = LT_WEIGHT_OUTER,
                                        .deviation = 1.0f / sqrtf((float)features)});
    }
    at.stem_weight = add_vectors(net, 1, config->channels, 1, 0);
    at.stem_bias = add_vectors(net, 1, config->channels, 0, 0);
    at.last_bias = add_vectors(net, 1, config->classes, 0, 0);
    return at;
}

/* ---- the list ---------------------------------------------------------------------------------- */

/* Convolution j of block i and its norm. */
static struct lt_net_map add_normed(struct lt_net *net, const struct lt_resnet_config *config,
                                    const struct stage *stage, const struct stage_tensors *at,
                                    struct lt_net_map in, int64_t i, int j)
{
    struct conv conv = conv_of(config, stage, i, j);
    struct lt_net_map map = i ? lt_net_conv(net, in, at->rest[j], i - 1, conv.window)
                              : lt_net_conv(net, in, at->first[j], 0, conv.window);
    map.value = lt_net_batchnorm(net, map.value, at->weight[j], at->bias[j], i);
    return map;
}

/* One block: the convolutions, and the shortcut, which comes after them so that its gradient is the
 * first of the input's. */
static struct lt_net_map add_block(struct lt_net *net, const struct lt_resnet_config *config,
                                   const struct stage *stage, const struct stage_tensors *at,
                                   struct lt_net_map in, int64_t i)
{
    int convs = convs_of(config);
    struct lt_net_map map = in, around = in;
    lt_net_begin_block(net);
    for (int j = 0; j < convs; j++) {
        map = add_normed(net, config, stage, at, map, i, j);
        if (j + 1 < convs)
            map.value = lt_net_relu(net, map.value);
    }
    if (i == 0 && has_shortcut(stage))
        around = add_normed(net, config, stage, at, in, 0, convs);
    map.value = lt_net_relu(net, lt_net_residual(net, around.value, map.value));
    lt_net_end_block(net, map.value);
    return map;
}

/* The whole list, placed but without memory. */
static int build(struct lt_net **out, const struct lt_resnet_config *config,
                 struct lt_net_mode mode, int64_t b, struct tacho_error *err)
{
    int rc = check(config, b, err), blocks = 0;
    if (rc)
        return rc;
    for (int s = 0; s < LT_RESNET_STAGES; s++)
        blocks += (int)config->blocks[s];
    struct lt_net *net =
        lt_net_create("resnet", mode, b, 0, config->classes, blocks * OPERATIONS + 7);
    if (!net)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", config->name);
    struct tensors at = add_tensors(net, config);
    lt_net_keep_every(net, blocks);
    struct lt_net_map map = lt_net_image(net, config->height, config->width, config->depth);
    map = lt_net_conv(net, map, at.stem, 0, stem_of(config));
    map.value = lt_net_batchnorm(net, map.value, at.stem_weight, at.stem_bias, 0);
    map.value = lt_net_relu(net, map.value);
    if (!is_small(config))
        map = lt_net_maxpool(net, map, pool);
    for (int s = 0; s < LT_RESNET_STAGES; s++) {
        struct stage stage = stage_of(config, s);
        for (int64_t i = 0; i < stage.blocks; i++)
            map = add_block(net, config, &stage, &at.stage[s], map, i);
    }
    lt_net_classifier(net,
                      lt_net_linear(net, lt_net_avgpool(net, map), at.last, 0, at.last_bias, 0));
    return lt_net_finish(net, config->name, out, err);
}

int lt_resnet_memory(const struct lt_resnet_config *config, struct lt_net_mode mode, int64_t b,
                     struct lt_memory_plan *out, struct lt_parameters *parameters,
                     struct tacho_error *err)
{
    struct lt_net *net = NULL;
    int rc = build(&net, config, mode, b, err);
    if (rc == 0)
        lt_net_measure(net, out, parameters);
    return rc;
}

int lt_resnet_create(struct lt_model **out, const struct lt_resnet_config *config,
                     struct lt_net_mode mode, int64_t b, uint64_t seed, struct tacho_error *err)
{
    int64_t blocks = 0;
    for (int s = LT_RESNET_STAGES - 1; s >= 0; s--)
        blocks = 65 * blocks + config->blocks[s];
    const int64_t shape[LT_SHAPE_CAP] = {blocks,         config->channels, config->bottleneck,
                                         config->height, config->width,    config->depth,
                                         config->classes};
    struct lt_net *net = NULL;
    int rc = build(&net, config, mode, b, err);
    if (rc)
        return rc;
    rc = lt_net_allocate(net, seed, shape);
    if (rc) {
        lt_net_destroy(net);
        return tacho_fail(err, rc, "choose a smaller model or --batch, or --recompute block",
                          "%s: not enough memory", config->name);
    }
    *out = lt_net_model(net);
    return 0;
}

/* ---- closed form ------------------------------------------------------------------------------- */

/* Multiply-adds of a convolution over an image; h and w become those of its output. */
static uint64_t conv_macs(struct conv conv, int64_t *h, int64_t *w)
{
    const struct lt_net_window *window = &conv.window;
    *h = lt_conv_out(*h, window->k, window->stride, window->pad);
    *w = lt_conv_out(*w, window->k, window->stride, window->pad);
    return (uint64_t)(*h * *w * conv.in * conv.out * window->k * window->k);
}

/* Of each multiply-add of forward two are made in backward, but for the stem, whose input needs no
 * gradient. Recomputation makes all convolutions of a block again, but for those of the last block
 * (or blocks, if several are made again together): batch normalisation reads its input. */
struct lt_flops lt_resnet_flops(const struct lt_resnet_config *config, struct lt_net_mode mode,
                                int64_t b, int64_t micro_steps)
{
    uint64_t images = (uint64_t)(b * micro_steps), all = 0, block = 0, features = 0, frozen = 0,
             remade = 0;
    int64_t blocks = 0, last = -1;
    for (int s = 0; s < LT_RESNET_STAGES; s++)
        last += config->blocks[s];
    last = last / lt_net_every(mode, last + 1) * lt_net_every(mode, last + 1);
    int64_t h = config->height, w = config->width;
    uint64_t stem =
        conv_macs((struct conv){config->depth, config->channels, stem_of(config)}, &h, &w);
    if (!is_small(config)) {
        h = lt_conv_out(h, pool.k, pool.stride, pool.pad);
        w = lt_conv_out(w, pool.k, pool.stride, pool.pad);
    }
    for (int s = 0; s < LT_RESNET_STAGES; s++) {
        struct stage stage = stage_of(config, s);
        for (int64_t i = 0; i < stage.blocks; i++) {
            int64_t around_h = h, around_w = w;
            block = 0;
            for (int j = 0; j < convs_of(config); j++)
                block += conv_macs(conv_of(config, &stage, i, j), &h, &w);
            if (i == 0 && has_shortcut(&stage))
                block +=
                    conv_macs(conv_of(config, &stage, 0, convs_of(config)), &around_h, &around_w);
            all += block;
            frozen += blocks < mode.frozen ? block : 0;
            remade += blocks >= mode.frozen && blocks < last ? block : 0;
            blocks++;
            features = (uint64_t)stage.out;
        }
    }
    /* nothing is made in backward of what is frozen */
    uint64_t first = mode.frozen ? 2 : 4;
    uint64_t model =
        images * (first * stem + 6 * all - 4 * frozen + 6 * features * (uint64_t)config->classes);
    uint64_t again = mode.recompute == LT_RECOMPUTE_BLOCK ? 2 * images * remade : 0;
    return (struct lt_flops){
        .model = model, .palm = model, .issued = model + again, .recomputed = again};
}
