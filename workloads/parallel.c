/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that concern several ranks: how gradients travel, and the ways in which one rank or
 * the link can be slowed down on purpose, so that a profiler has something to find.
 */
#include "workloads/parallel.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/speak/trace.h"
#include "workloads/simulated.h"

/* The number of a rank at the beginning of a text; -1: none is there. *end: what follows it. */
static int rank_in(const char *text, const char **end)
{
    char *rest = NULL;
    errno = 0;
    long rank = strtol(text, &rest, 10);
    *end = rest;
    return !errno && rest != text && rank >= 0 && rank < INT_MAX ? (int)rank : -1;
}

/* ":forward=" after the rank; "=" is between forward and backward. Returns what follows '=', NULL:
 * not understood. */
static const char *slow_stage(struct lt_parallel_config *config, const char *text)
{
    static const char *const keys[] = {
#define SLOW_STAGE_KEY(id, key) key,
        LT_SLOW_STAGE_MAP(SLOW_STAGE_KEY)
#undef SLOW_STAGE_KEY
    };
    size_t length = *text == ':' ? strcspn(++text, "=") : 0;
    for (int i = 0; text[length] == '=' && i < LT_SLOW_STAGE_COUNT; i++)
        if (strlen(keys[i]) == length && !strncmp(keys[i], text, length)) {
            config->slow_stage = (enum lt_slow_stage)i;
            return text + length + 1;
        }
    return NULL;
}

/* --slow-rank RANK[:STAGE]=SECONDS; without the option no rank is slowed down. */
static int slow_rank(struct lt_parallel_config *config, const char *text, struct tacho_error *err)
{
    const char *rest = NULL;
    char *end = NULL;
    config->slow_rank = -1;
    if (!text)
        return 0;
    int rank = rank_in(text, &rest);
    const char *number = rank >= 0 ? slow_stage(config, rest) : NULL;
    double seconds = number ? strtod(number, &end) : 0;
    if (number && end != number && !*end && isfinite(seconds) && seconds >= 0 && seconds <= 3600) {
        config->slow_rank = rank;
        config->slow_seconds = seconds;
        return 0;
    }
    return tacho_fail(err, TACHO_EUSAGE,
                      "RANK=SECONDS, for instance 1=0.05, or RANK:STAGE=SECONDS with input, "
                      "forward, backward or optimizer; at "
                      "most 3600 seconds",
                      "--slow-rank %s: not understood", text);
}

int parallel_micro_steps(const struct lt_parallel *parallel, const struct options *options,
                         int replicas, int *own, int64_t *all, struct tacho_error *err)
{
    const char *rest = NULL;
    char *end = NULL;
    int ranks = lt_parallel_ranks(parallel);
    *own = (int)options->accumulate;
    *all = options->accumulate * replicas;
    if (!options->uneven)
        return 0;
    int rank = rank_in(options->uneven, &rest);
    long more = rank >= 0 && *rest == '=' ? strtol(rest + 1, &end, 10) : 0;
    if (rank < 0 || *rest != '=' || end == rest + 1 || *end || more < 1 || more > 1000)
        return tacho_fail(err, TACHO_EUSAGE, "RANK=N, for instance 1=2; N from 1 to 1000",
                          "--uneven %s: not understood", options->uneven);
    if (rank >= ranks)
        return tacho_fail(err, TACHO_EUSAGE, "ranks count from 0; mpirun -np N starts N of them",
                          "--uneven %s: no such rank", options->uneven);
    *own += rank == lt_parallel_rank(parallel) ? (int)more : 0;
    *all += more;
    return 0;
}

/* --record-order, --replay-order. */
static int open_order(struct lt_parallel *parallel, const struct options *options,
                      struct tacho_error *err)
{
    char own[PATH_MAX];
    const char *path = options->record_order, *option = "--record-order";
    if (options->replay_order) {
        path = options->replay_order;
        option = "--replay-order";
    }
    if (!path)
        return 0;
    if (options->record_order && options->replay_order)
        return tacho_fail(err, TACHO_EUSAGE, "leave one of them out",
                          "--record-order, --replay-order: not in one run");
    if (lt_parallel_ranks(parallel) == 1)
        return tacho_fail(err, TACHO_EUSAGE, "start several ranks: mpirun -np 2 train ...",
                          "%s %s: one rank sends nothing", option, path);
    int rc = parallel_own_path(parallel, path, option, own, err);
    return lt_parallel_order(parallel, own, options->replay_order != NULL, rc, err);
}

int parallel_open(struct lt_parallel **out, const struct options *options,
                  const struct lt_board_plan *plan, struct tacho_error *err)
{
    struct lt_parallel_config config = {
        .bucket_bytes = options->bucket_mib * (1 << 20),
        .overlap = !options->no_overlap,
        .sharded = options->zero > 0 || options->layout || strcmp(options->device, "cpu") != 0 ||
                   options->local_steps > 0 || strcmp(options->compress, "none") != 0,
        .slow_link = (int)options->slow_link,
        .priority = options->bucket_priority,
        .plan = *plan};
    struct lt_layout layout;
    struct lt_simulated simulated;
    int rc = slow_rank(&config, options->slow_rank, err);
    int kind = lt_all_reduce_find(options->all_reduce);
    if (rc)
        return rc;
    if (kind < 0 && strcmp(options->all_reduce, "library") != 0)
        return tacho_fail(err, TACHO_EUSAGE,
                          "library, ring, tree, doubling, hierarchical or ordered",
                          "--all-reduce %s: unknown", options->all_reduce);
    config.own_messages = kind >= 0;
    config.near = (int)options->near;
    config.all_reduce = kind < 0 ? LT_ALL_REDUCE_RING : (enum lt_all_reduce)kind;
    rc = lt_parallel_open(out, &config, err);
    if (rc)
        return rc;
    rc = lt_layout_parse(&layout, options->layout, lt_parallel_rank(*out), lt_parallel_ranks(*out),
                         err);
    if (rc == 0)
        rc = simulated_parse(&simulated, &config.link_seconds, options->simulate, &layout,
                             lt_parallel_rank(*out), err);
    rc = lt_parallel_agree(*out, rc, err);
    if (rc)
        return rc;
    config.replicas = layout.ep > 1 ? layout.dp : lt_layout_copies(&layout);
    config.stride = layout.tp * layout.ep;
    lt_parallel_configure(*out, &config);
    if (lt_parallel_ranks(*out) == 1) {
        if (options->slow_link > 1)
            return tacho_fail(err, TACHO_EUSAGE, "start several ranks: mpirun -np 2 train ...",
                              "--slow-link %lld: one rank sends nothing",
                              (long long)options->slow_link);
        return open_order(*out, options, err);
    }
    if (!getenv("OMP_NUM_THREADS"))
        lt_threads_limit(lt_parallel_threads(*out));
    return open_order(*out, options, err);
}

/* Passes over a micro-batch are apart, so that its gradient cannot be made alone. */
static int is_apart(const struct lt_staging *staging)
{
    return staging->kind == LT_STAGES_INTERLEAVED || staging->kind == LT_STAGES_ZB_H1;
}

static int check_schedule(const struct options *options, const struct lt_division_config *division,
                          struct tacho_error *err)
{
    const struct lt_staging *staging = &division->staging;
    if (division->layout.pp == 1)
        return 0;
    if (is_apart(staging) && (options->zero >= 2 || division->ordered))
        return tacho_fail(err, TACHO_EUSAGE, "use --pipeline 1f1b, or --zero 1 with ring",
                          "--pipeline %s: not with --zero 2 or 3 or --all-reduce ordered, which "
                          "need the gradient of a micro-batch by itself",
                          options->pipeline);
    if (staging->chunks > 1 && options->accumulate % division->layout.pp)
        return tacho_fail(err, TACHO_EUSAGE, "choose --accumulate as a multiple of the stages",
                          "--pipeline interleaved: %d stages do not divide %lld micro-batches",
                          division->layout.pp, (long long)options->accumulate);
    return 0;
}

/* What a division of the model cannot be given with. */
static int check_division(const struct options *options, const struct lt_division_config *division,
                          struct tacho_error *err)
{
    const char *kind = options->all_reduce;
    if (strcmp(kind, "tree") == 0 || strcmp(kind, "doubling") == 0 ||
        strcmp(kind, "hierarchical") == 0)
        return tacho_fail(err, TACHO_EUSAGE, "use ring or ordered",
                          "--zero, --layout: --all-reduce %s has no reduce-scatter", kind);
    if (options->uneven || options->slow_link > 1)
        return tacho_fail(err, TACHO_EUSAGE, "leave one of them out",
                          "--zero, --layout: not with --uneven or --slow-link");
    if (division->layout.ep > 1 && strcmp(options->compress, "none") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "leave one of them out",
                          "--compress: not with ep in --layout");
    if (is_apart(&division->staging) && division->layout.pp > 1 &&
        strcmp(options->compress, "none") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "use --pipeline 1f1b or gpipe",
                          "--compress: not with --pipeline %s", options->pipeline);
    return check_schedule(options, division, err);
}

/* Steps that end before their buckets are reduced. */
static int check_priority(const struct lt_parallel *parallel, const struct options *options,
                          const struct lt_division_config *division, struct tacho_error *err)
{
    if (options->bucket_priority <= 0)
        return 0;
    if (lt_parallel_ranks(parallel) == 1)
        return tacho_fail(err, TACHO_EUSAGE, "start several ranks: mpirun -np 2 train ...",
                          "--bucket-priority: one rank sends nothing");
    if (division->shard.stage || options->local_steps || strcmp(options->device, "cpu") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "leave one of them out",
                          "--bucket-priority: not with --zero, --layout, --compress, --local-steps "
                          "or --device, which have no buckets of gradients");
    if (!lt_parallel_overlaps(parallel))
        return tacho_fail(err, TACHO_ENOTSUP,
                          "leave --no-overlap out, or use an MPI library that allows calls from a "
                          "second thread",
                          "--bucket-priority: nothing is sent during backward");
    return 0;
}

/* Weights that differ between the ranks are neither evaluated nor kept. */
static int check_local(const struct options *options, const struct lt_division_config *division,
                       struct tacho_error *err)
{
    const int64_t with[] = {options->steps, options->eval_every, options->checkpoint_every,
                            options->assert_equal};
    int mean = strcmp(options->local_kind, "mean") == 0;
    if (!options->local_steps && !mean)
        return tacho_fail(err, TACHO_EUSAGE, "say how often: --local-steps N",
                          "--local-kind %s: ranks sum their gradients in each step",
                          options->local_kind);
    if (!options->local_steps)
        return 0;
    if (!mean && (options->outer_lr < 1 || options->outer_lr > 1 || options->outer_momentum > 0))
        return tacho_fail(err, TACHO_EUSAGE, "use --local-kind mean",
                          "--outer-lr, --outer-momentum: no outer step of --local-kind %s",
                          options->local_kind);
    if (!mean && (strcmp(options->schedule, "range") == 0 || options->inject))
        return tacho_fail(err, TACHO_EUSAGE, "use --local-kind mean",
                          "--schedule range, --inject: ranks of --local-kind %s are in different "
                          "steps",
                          options->local_kind);
    if (division->shard.stage || division->ordered || options->uneven || options->slow_link > 1)
        return tacho_fail(err, TACHO_EUSAGE, "leave one of them out",
                          "--local-steps: not with --zero, --layout, --compress, --all-reduce "
                          "ordered, --uneven or --slow-link");
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        if (with[i] % options->local_steps)
            return tacho_fail(err, TACHO_EUSAGE,
                              "choose --steps, --eval-every, --checkpoint-every and --assert-equal "
                              "as multiples of it",
                              "--local-steps %lld: ranks have different weights after %lld steps",
                              (long long)options->local_steps, (long long)with[i]);
    return 0;
}

/* NAME or NAME+zstd. */
static int parse_codec(const struct options *options, const char *text, struct lt_codec *out,
                       struct tacho_error *err)
{
    char name[32];
    const char *packed = strchr(text, '+');
    size_t length = packed ? (size_t)(packed - text) : strlen(text);
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    int codec = lt_codec_find(name);
    if (codec < 0 || length >= sizeof name || (packed && strcmp(packed, "+zstd") != 0))
        return tacho_fail(
            err, TACHO_EUSAGE,
            "none, bf16, int8, 1bit, topk, randk, powersgd or adaptive; +zstd after a name "
            "packs its messages, but not those of powersgd",
            "--compress %s: unknown", text);
    if (codec == LT_CODEC_POWER_SGD && packed)
        return tacho_fail(err, TACHO_EUSAGE, "use powersgd alone, or for instance int8+zstd",
                          "--compress %s: its factors are summed in transit, packed ones cannot be",
                          text);
    if (codec == LT_CODEC_POWER_SGD && strcmp(options->matmul_precision, "fp32") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "leave --matmul-precision out",
                          "--compress powersgd: its error feedback needs GEMMs in fp32");
    if (packed && !lt_packer_works())
        return tacho_fail(err, TACHO_ENOTSUP,
                          "install libzstd-dev, remove config.mk from the build folder, make",
                          "--compress %s: this train was built without zstd", text);
    *out = (struct lt_codec){.kind = (enum lt_codec_kind)codec,
                             .density = options->density,
                             .rank = (int)options->approximation,
                             .level = packed ? (int)options->zstd_level : 0};
    return 0;
}

#define ADAPTIVE       "adaptive"
#define ADAPTIVE_NAMES "bf16,int8,1bit,topk,powersgd"

/* Where the choice among ways of sending gradients cannot be made by measuring. */
static int check_adaptive(const struct lt_parallel *parallel, const struct options *options,
                          const struct lt_division_config *division, struct tacho_error *err)
{
    const struct lt_mpi_place *place = lt_parallel_place(parallel);
    const struct lt_layout *layout = &division->layout;
    if (place->ranks == 1)
        return tacho_fail(err, TACHO_EUSAGE, "start several ranks: mpirun -np 2 train ...",
                          "--compress adaptive: one rank has no link to measure");
    if (place->local_ranks > place->machine_cores)
        return tacho_fail(err, TACHO_EUSAGE, "start as many ranks as there are cores, or name one",
                          "--compress adaptive: %d ranks share %d cores: times are not measured",
                          place->local_ranks, place->machine_cores);
    if (layout->pp * layout->tp * layout->cp > 1)
        return tacho_fail(err, TACHO_EUSAGE, "name one: bf16, int8, 1bit, topk or powersgd",
                          "--compress adaptive: not with --layout, whose parts would choose "
                          "differently");
    if (division->shard.adapt.after >= (uint64_t)options->steps)
        return tacho_fail(err, TACHO_EUSAGE, "choose more --steps, or a smaller --compress-after",
                          "--compress adaptive: chooses after %llu steps",
                          (unsigned long long)division->shard.adapt.after);
    return 0;
}

/* adaptive or adaptive=NAME,NAME: gradients as they are, or one of these. */
static int parse_adaptive(const struct options *options, const char *names, struct lt_adapt *out,
                          struct tacho_error *err)
{
    char name[32];
    struct lt_codec codec = {.kind = LT_CODEC_NONE};
    int rc = lt_adapt_add(out, &codec);
    out->after = options->compress_after ? (uint64_t)options->compress_after : 3;
    for (size_t length; rc == 0 && *names; names += length + (names[length] == ',')) {
        length = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        rc = parse_codec(options, name, &codec, err);
        if (rc == 0 && lt_adapt_add(out, &codec))
            return tacho_fail(err, TACHO_EUSAGE, "name fewer", "--compress adaptive: at most %d",
                              LT_ADAPT_CHOICES - 1);
    }
    return rc;
}

/* --compress and what belongs to it. */
static int parse_compress(const struct lt_parallel *parallel, const struct options *options,
                          struct lt_division_config *out, struct tacho_error *err)
{
    const char *text = options->compress, *names = text + strlen(ADAPTIVE);
    out->shard.coded_after = (uint64_t)options->compress_after;
    if (strncmp(text, ADAPTIVE, strlen(ADAPTIVE)) != 0 || (*names && *names != '='))
        return parse_codec(options, text, &out->shard.codec, err);
    int rc = parse_adaptive(options, *names ? names + 1 : ADAPTIVE_NAMES, &out->shard.adapt, err);
    return rc ? rc : check_adaptive(parallel, options, out, err);
}

/* --context. */
static int parse_context(const struct options *options, struct lt_layout *out,
                         struct tacho_error *err)
{
    int kind = lt_context_find(options->context);
    if (kind < 0)
        return tacho_fail(err, TACHO_EUSAGE, "ulysses, ring or ring-contiguous",
                          "--context %s: unknown", options->context);
    if (kind != LT_CONTEXT_ULYSSES && out->cp == 1)
        return tacho_fail(err, TACHO_EUSAGE, "divide sequences: --layout cp2",
                          "--context %s: no ranks divide sequences", options->context);
    out->attention = (enum lt_context_kind)kind;
    return 0;
}

int parallel_division(const struct lt_parallel *parallel, const struct options *options,
                      struct lt_division_config *out, struct tacho_error *err)
{
    int ranks = lt_parallel_ranks(parallel), schedule = lt_stages_find(options->pipeline),
        codes = strcmp(options->compress, "none") != 0;
    int rc = lt_layout_parse(&out->layout, options->layout, lt_parallel_rank(parallel), ranks, err);
    if (rc)
        return rc;
    if (schedule < 0)
        return tacho_fail(err, TACHO_EUSAGE, "gpipe, 1f1b, interleaved or zb-h1",
                          "--pipeline %s: unknown", options->pipeline);
    rc = parse_compress(parallel, options, out, err);
    if (rc)
        return rc;
    out->staging.kind = (enum lt_stages)schedule;
    out->staging.chunks = schedule == LT_STAGES_INTERLEAVED ? (int)options->chunks : 1;
    out->sequence = options->sequence;
    rc = parse_context(options, &out->layout, err);
    if (rc)
        return rc;
    if (options->sequence && out->layout.tp == 1)
        return tacho_fail(err, TACHO_EUSAGE, "divide layers: --layout tp2",
                          "--sequence-parallel: no ranks divide layers");
    out->ordered = strcmp(options->all_reduce, "ordered") == 0;
    out->shard.stage = (int)options->zero;
    out->shard.kind = out->ordered ? LT_ALL_REDUCE_ORDERED : LT_ALL_REDUCE_RING;
    out->shard.overlap = lt_parallel_overlaps(parallel) && !lt_layout_divides(&out->layout);
    out->shard.owner = out->layout.replica;
    out->shard.owners = out->layout.dp;
    if (!out->shard.stage &&
        (options->layout || codes || (ranks == 1 && out->ordered && options->accumulate > 1)))
        out->shard.stage = 1; /* as many bytes as an all-reduce sends */
    rc = out->shard.stage ? check_division(options, out, err) : 0;
    rc = rc ? rc : check_priority(parallel, options, out, err);
    return rc ? rc : check_local(options, out, err);
}

int parallel_own_path(const struct lt_parallel *parallel, const char *path, const char *option,
                      char own[PATH_MAX], struct tacho_error *err)
{
    char number[16] = "";
    int rank = lt_parallel_rank(parallel);
    if (rank > 0)
        snprintf(number, sizeof number, ".%d", rank);
    if (snprintf(own, PATH_MAX, "%s%s", path, number) < PATH_MAX)
        return 0;
    return tacho_fail(err, TACHO_EUSAGE, "choose a shorter name", "%s %s: name too long", option,
                      path);
}

int parallel_timers(const struct lt_parallel *parallel, const struct lt_trace *trace,
                    const char *path, struct tacho_error *err)
{
    char own[PATH_MAX];
    int rc = parallel_own_path(parallel, path, "--timers", own, err);
    return rc ? rc : lt_trace_write(trace, own, err);
}
