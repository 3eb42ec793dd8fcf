/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `train`, one row each: name, type, place in struct options, default, bounds and
 * help. Parsing, checking of numbers and the text of --help come from the rows.
 */
#include "workloads/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/collectives/packer.h"

enum type { COUNT, NUMBER, TEXT, LIST, FLAG, HELP, TITLE };

struct row {
    const char *name, *value; /* --name VALUE; a TITLE has its words in `help` */
    enum type type;
    size_t offset;
    const char *standard; /* default, as the user would type it; NULL: none */
    double low, high;     /* bounds of COUNT and NUMBER */
    const char *help;
};

#define AT(field) offsetof(struct options, field)
#define BIG       1e15
/* Rows of which some columns are empty. */
#define TEXT_ROW(name, argument, kind, field, standard, help) \
    { \
        name, argument, kind, AT(field), standard, 0, 0, help \
    }
#define FLAG_ROW(name, field, help) TEXT_ROW(name, NULL, FLAG, field, NULL, help)
#define TITLE_ROW(help) \
    { \
        NULL, NULL, TITLE, 0, NULL, 0, 0, help \
    }

static const struct row rows[] = {
    TITLE_ROW("shape (defaults: the recipe's)"),
    {"layers", "N", COUNT, AT(layers), NULL, 1, 4096, "blocks; mlp: hidden layers"},
    {"channels", "N", COUNT, AT(channels), NULL, 1, 1 << 20,
     "width of the residual stream, a multiple of --heads; resnet: of the first stage"},
    {"heads", "N", COUNT, AT(heads), NULL, 1, 1 << 20, "attention heads"},
    {"groups", "N", COUNT, AT(groups), NULL, 1, 1 << 20,
     "llama: heads of keys and values, which --heads is a multiple of"},
    {"vocab", "N", COUNT, AT(vocab), NULL, 256, 1 << 24,
     "size of the vocabulary; without --tokenizer text uses 256, one per byte"},
    {"hidden", "N", COUNT, AT(hidden), NULL, 1, 1 << 20,
     "mlp: width of the hidden layers; llama: of SwiGLU"},
    {"experts", "N", COUNT, AT(experts), NULL, 2, 4096,
     "moe: experts of each layer, a SwiGLU of --hidden each"},
    {"choices", "N", COUNT, AT(choices), NULL, 1, 4096, "moe: experts that a token goes to"},
    {"capacity", "X", NUMBER, AT(capacity), NULL, 1e-6, 4096,
     "moe: rows that an expert has room for, of an even share (1.25); more are dropped"},
    {"balance", "X", NUMBER, AT(balance), NULL, 0, 1e3,
     "moe: factor of the loss that keeps experts evenly used (0.01)"},
    {"seq", "N", COUNT, AT(seq), NULL, 1, 1 << 20, "tokens per sample"},
    {"batch", "N", COUNT, AT(batch), NULL, 1, 1 << 20, "samples per micro-batch"},
    TITLE_ROW("training"),
    {"steps", "N", COUNT, AT(steps), "100", 1, BIG,
     "optimizer updates, those before --resume included"},
    {"accumulate", "N", COUNT, AT(accumulate), "1", 1, 1 << 20,
     "micro-batches accumulated for one update"},
    TEXT_ROW(
        "dtype", "NAME", TEXT, dtype, "fp32",
        "fp32; bf16 or fp16: activations and GEMMs, with fp32 master weights (fp16 is emulated: "
        "slow)"),
    TEXT_ROW("matmul-precision", "NAME", TEXT, matmul_precision, "fp32",
             "of GEMMs in fp32: fp32, or tf32: operands rounded to 10 bits of mantissa (emulated)"),
    TEXT_ROW(
        "bf16-weights", "NAME", TEXT, bf16_weights, "master",
        "bf16: master: weights in fp32 and a rounded copy; nearest or stochastic: rounded to bf16 "
        "in this way after each update"),
    TEXT_ROW("loss-scale", "X", TEXT, loss_scale, NULL,
             "fp16: dynamic (the default, starting at 65536), or a constant"),
    {"loss-scale-window", "N", COUNT, AT(loss_scale_window), "2000", 1, BIG,
     "fp16: updates without an overflow until a dynamic scale is doubled"},
    TEXT_ROW("recompute", "NAME", TEXT, recompute, "none",
             "none, or block: keep only the inputs of blocks, recompute the rest"),
    {"recompute-every", "N", COUNT, AT(recompute_every), "1", 0, 4096,
     "--recompute block: keep the input of every N-th block only; 0: the square root of the number "
     "of blocks; not for gpt2"},
    {"memory", "MIB", NUMBER, AT(memory), "0", 0, BIG,
     "recompute only as many blocks as needed for the predicted memory to fit; 0: as --recompute "
     "says"},
    TEXT_ROW("offload", "WHAT=FOLDER", LIST, offload, NULL,
             "keep optimizer or activations in a file there, which the kernel pages; may be "
             "repeated"),
    TEXT_ROW("optimizer", "NAME", TEXT, optimizer, "adamw",
             "sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, nadam, radam, lion, lamb, "
             "lars, adafactor, muon, adamw8 (moments of a byte), schedule-free or lbfgs; mlp also: "
             "kfac"),
    {"lookahead", "N", COUNT, AT(lookahead), "0", 0, BIG,
     "with any optimizer: every N updates, move half of the way back; 0: never"},
    {"line-search", "N", COUNT, AT(line_search), "0", 0, 60,
     "lbfgs: halve a step up to N times, until the loss of the same batch has fallen; 0: never"},
    {"lr", "X", NUMBER, AT(lr), "6e-4", 0, 1e3, "highest learning rate"},
    {"min-lr", "X", NUMBER, AT(min_lr), "6e-5", 0, 1e3, "learning rate at the last step"},
    TEXT_ROW(
        "schedule", "NAME", TEXT, schedule, "cosine",
        "of the learning rate: cosine, linear, constant, inverse-sqrt, wsd or one-cycle; range: "
        "from --min-lr up to --lr, to suggest a rate at the end"),
    TEXT_ROW("scale-lr", "RULE=BATCH", TEXT, scale_lr, NULL,
             "--lr and --min-lr are for that many samples per update; linear or sqrt: times "
             "samples / BATCH, or its square root"),
    {"warmup", "N", COUNT, AT(warmup), "10", 0, BIG, "steps of linear warm-up before the schedule"},
    {"weight-decay", "X", NUMBER, AT(weight_decay), "0.1", 0, 1e3,
     "on matrices, not on layernorm and bias"},
    {"beta1", "X", NUMBER, AT(beta1), NULL, 0, 0.999999, "first moment (default: the optimizer's)"},
    {"beta2", "X", NUMBER, AT(beta2), NULL, 0, 0.999999,
     "second moment (default: the optimizer's)"},
    {"momentum", "X", NUMBER, AT(momentum), NULL, 0, 0.999999,
     "velocity (default: the optimizer's)"},
    {"eps", "X", NUMBER, AT(eps), NULL, 0, 1,
     "added to the square root (default: the optimizer's)"},
    {"damping", "X", NUMBER, AT(damping), NULL, 1e-12, 1e6,
     "kfac: added to the curvature before it is inverted (0.03)"},
    {"factor-decay", "X", NUMBER, AT(factor_decay), NULL, 0, 0.999999,
     "kfac: what is kept of the averages of its factors in each update (0.95)"},
    {"inverse-every", "N", COUNT, AT(inverse_every), NULL, 1, BIG,
     "kfac: updates from one computation of the inverses to the next (20)"},
    {"kl-clip", "X", NUMBER, AT(kl_clip), NULL, 0, 1e9,
     "kfac: bound on what a step changes the predictions by; 0: none (0.001)"},
    {"clip", "X", NUMBER, AT(clip), "1", 0, 1e9, "bound on the gradient; 0: none"},
    TEXT_ROW("clip-by", "NAME", TEXT, clip_by, "norm",
             "what --clip bounds: norm, layer (the norm of each matrix) or value (each element)"),
    FLAG_ROW(
        "centralise", centralise,
        "subtract from the gradient of each hidden matrix the mean of each row, before clipping"),
    {"freeze", "N", COUNT, AT(freeze), "0", 0, 4096,
     "do not train the first N blocks and what is before them; backward ends above them"},
    TEXT_ROW("init", "NAME", TEXT, init, "own",
             "initial values of hidden matrices: own (the model's), xavier, xavier-uniform, "
             "kaiming, kaiming-uniform, lecun, truncated or orthogonal"),
    {"seed", "N", COUNT, AT(seed), "1", 0, BIG,
     "seed of the initial weights and of the order of samples"},
    TITLE_ROW("input"),
    TEXT_ROW("data", "PATH", LIST, data, NULL,
             "text file or folder; may be repeated (default: /usr/share/common-licenses)"),
    TEXT_ROW(
        "format", "NAME", TEXT, format, "auto",
        "of --data: text, tokens (uint16 shards), images (folders of JPEG, PNG, PGM or PPM), idx "
        "(MNIST's), or auto"),
    TEXT_ROW("tokenizer", "FILE", TEXT, tokenizer, NULL,
             "byte-pair merges that train bpe wrote (default: one token per byte)"),
    TEXT_ROW("io", "NAME", TEXT, io, "mapped", "how files are read: mapped, or pread"),
    {"workers", "N", COUNT, AT(workers), "1", 0, 99, "loader workers; 0: the step's thread reads"},
    TEXT_ROW("worker-kind", "NAME", TEXT, worker_kind, "threads", "threads or processes"),
    {"prefetch", "N", COUNT, AT(prefetch), "4", 1, 4096, "batches prefetched"},
    FLAG_ROW("pin", pin, "a separate thread copies each batch into locked memory"),
    FLAG_ROW("no-shuffle", no_shuffle, "samples in file order"),
    {"image-size", "N", COUNT, AT(image_size), "0", 0, 1 << 14,
     "image folders: scale each image so that its shorter side has N pixels, and take the middle N "
     "x N; 0: all have one size"},
    {"pad", "N", COUNT, AT(pad), "0", 0, 1 << 14, "images: pixels of black around each"},
    {"crop", "N", COUNT, AT(crop), "0", 0, 1 << 14,
     "images: a random square of N x N pixels of each (evaluations: the middle); 0: as large "
     "as the images"},
    FLAG_ROW("flip", flip, "images: mirror a random half of them (evaluations: none)"),
    FLAG_ROW("normalise", normalise,
             "images: each channel has mean 0 and deviation 1 over the training images"),
    TEXT_ROW("slow", "STAGE=SECONDS", LIST, slow, NULL,
             "sleep that long in each batch's read, decode, augment, collate or pin (to imitate a "
             "slow loader); may be repeated"),
    TITLE_ROW("several ranks (mpirun -np N train ...)"),
    {"elastic", "N", COUNT, AT(elastic), "0", 0, 4096,
     "start N ranks by --launcher; when one dies, continue from the last checkpoint with fewer "
     "replicas and the same global batch; 0: this process is a rank"},
    TEXT_ROW("launcher", "WORDS", TEXT, launcher, "mpirun",
             "--elastic: the command that starts the ranks, with its options"),
    {"bucket-mib", "X", NUMBER, AT(bucket_mib), "8", 0, 1e6,
     "MiB of gradients reduced at a time; 0: all at once"},
    {"bucket-priority", "R", NUMBER, AT(bucket_priority), "0", 0, 1e6,
     "buckets of the first layers first, and the next forward pass begins before all have come, as "
     "suits a link that takes as long for one as backward for R of them; 1: the order of backward; "
     "0: each step waits for all (--clip 0)"},
    TEXT_ROW("all-reduce", "NAME", TEXT, all_reduce, "library",
             "how gradients are summed: library (MPI's own), or messages of the engine: ring, "
             "tree, doubling, hierarchical, or ordered (the bits of one rank that adds in the "
             "order of ranks)"),
    {"node-ranks", "N", COUNT, AT(near), "0", 0, 1 << 20,
     "hierarchical: number of ranks that sum within a machine first (0: all that are on one)"},
    {"local-steps", "N", COUNT, AT(local_steps), "0", 0, BIG,
     "ranks train by themselves for N steps, then average their weights; 0: never"},
    TEXT_ROW(
        "local-kind", "NAME", TEXT, local_kind, "mean",
        "--local-steps: mean: over all ranks; gossip: over changing pairs of ranks; server: rank "
        "0 adds up the changes of all weights, at most --max-delay rounds late"),
    {"max-delay", "N", COUNT, AT(max_delay), "1", 0, 64,
     "--local-kind server: rounds that a rank continues without the changes of the others"},
    {"outer-lr", "X", NUMBER, AT(outer_lr), "1", 0, 10,
     "--local-steps: of an outer step towards the mean (DiLoCo: 0.7); 1: the mean"},
    {"outer-momentum", "X", NUMBER, AT(outer_momentum), "0", 0, 0.999999,
     "--local-steps: Nesterov's, of the outer steps (DiLoCo: 0.9)"},
    {"zero", "STAGE", COUNT, AT(zero), "0", 0, 3,
     "shard over the ranks: 1 the optimizer's state, 2 gradients too, 3 parameters too; 0: "
     "nothing"},
    TEXT_ROW("layout", "FACTORS", TEXT, layout, NULL,
             "replicas (dp), ranks that divide layers (tp), stages of a pipeline (pp), ranks that "
             "divide sequences (cp), in any combination: dp2.tp2.pp2 for 8 ranks; ep in the place "
             "of cp: "
             "ranks that divide the experts of a mixture, ep2.tp2.pp2 (default: replicas)"),
    TEXT_ROW(
        "context", "NAME", TEXT, context, "ulysses",
        "cp: ulysses (attention by heads: all-to-alls), ring (keys and values go around; each rank "
        "has two chunks of a sequence, by which attention is even) or ring-contiguous (one "
        "chunk)"),
    TEXT_ROW(
        "compress", "NAME", TEXT, compress, "none",
        "send gradients as bf16, int8, 1bit, topk or randk (with --density), as powersgd (factors "
        "of matrices, with --approximation-rank), or adaptive: by measurement the fastest of "
        "them, or of those in adaptive=NAME,NAME; except for bf16, what is lost is added to "
        "the next gradient; +zstd after the name compresses the messages"),
    {"zstd-level", "N", COUNT, AT(zstd_level), "1", 1, LT_PACKER_LEVELS,
     "level of +zstd: higher ones take more time"},
    {"approximation-rank", "N", COUNT, AT(approximation), "4", 1, 4096,
     "powersgd: columns of the two factors of a matrix"},
    {"density", "X", NUMBER, AT(density), "0.01", 1e-6, 1,
     "topk, randk: share of the elements that is sent"},
    {"compress-after", "N", COUNT, AT(compress_after), "0", 0, BIG,
     "first steps whose gradients are sent uncompressed"},
    FLAG_ROW("sequence-parallel", sequence,
             "ranks that divide layers (tp) divide the tokens between them too"),
    TEXT_ROW("pipeline", "NAME", TEXT, pipeline, "1f1b",
             "order of the passes of a stage: gpipe, 1f1b, interleaved (with --chunks) or zb-h1 "
             "(weights' gradients apart); --accumulate sets the micro-batches"),
    {"chunks", "N", COUNT, AT(chunks), "2", 2, 64, "interleaved: chunks of blocks of each stage"},
    TEXT_ROW(
        "simulate-compute", "TIMES", TEXT, simulate, NULL,
        "passes also sleep, so that more ranks than cores take as long as with cores of their own: "
        "forward=SECONDS,backward=SECONDS of a micro-batch; weights=SECONDS of backward (half "
        "of it), rankN=FACTOR, stageN=FACTOR, link=SECONDS a bucket, rotate=SECONDS of "
        "another rank in each step"),
    {"assert-equal", "N", COUNT, AT(assert_equal), "0", 0, BIG,
     "steps between comparisons of the ranks' weights; 0: at checkpoints and at the end"},
    TEXT_ROW("record-order", "FILE", TEXT, record_order, NULL,
             "write down the order of what ranks send each other (rank N: FILE.N)"),
    TEXT_ROW("replay-order", "FILE", TEXT, replay_order, NULL,
             "enforce the order that a run with --record-order has written; the run ends where it "
             "departs from it"),
    FLAG_ROW("no-overlap", no_overlap, "reduce after backward, on the step's thread"),
    TEXT_ROW(
        "slow-rank", "RANK[:STAGE]=SECONDS", TEXT, slow_rank, NULL,
        "this rank sleeps that long in each step, in input, forward, backward or optimizer (to "
        "imitate a straggler)"),
    TEXT_ROW("uneven", "RANK=N", TEXT, uneven, NULL,
             "this rank accumulates N more micro-batches (to imitate uneven data)"),
    {"slow-link", "N", COUNT, AT(slow_link), "1", 1, 1000,
     "send each bucket N times (to imitate a slow link)"},
    TITLE_ROW("evaluation and checkpoints"),
    {"eval-every", "N", COUNT, AT(eval_every), "0", 0, BIG, "steps between evaluations; 0: none"},
    {"eval-batches", "N", COUNT, AT(eval_batches), "4", 1, BIG, "batches per evaluation"},
    {"patience", "N", COUNT, AT(patience), "0", 0, BIG,
     "end after that many evaluations without a better loss; 0: never"},
    {"eval-share", "X", NUMBER, AT(eval_share), "0.1", 0, 0.9,
     "share of the text, at its end, held out for evaluation"},
    TEXT_ROW("checkpoint", "FILE", TEXT, checkpoint, NULL,
             "write the state to FILE at the end and on SIGINT or SIGTERM"),
    {"checkpoint-every", "N", COUNT, AT(checkpoint_every), "0", 0, BIG,
     "steps between checkpoints; 0: at the end only"},
    FLAG_ROW(
        "checkpoint-async", checkpoint_async,
        "each rank writes its part while training continues; FILE is their index, written when "
        "all are complete"),
    TEXT_ROW("resume", "FILE", TEXT, resume, NULL, "continue from this checkpoint, bit-identical"),
    TITLE_ROW("numerics"),
    {"watch", "N", COUNT, AT(watch), "0", 0, BIG,
     "steps between counters by layer: gradient norm, update-to-weight ratio, underflow; 0: none"},
    TEXT_ROW(
        "inject", "FAULT", TEXT, inject, NULL,
        "nan=STEP:LAYER:OPERATION or inf=... writes such a value there; rate=STEP:FACTOR raises "
        "the learning rate from that step on; with several ranks skip=STEP:RANK:CALL omits a "
        "communication call, halve=... makes it with half of its bytes (to imitate a fault)"),
    TITLE_ROW("the rest"),
    TEXT_ROW("backend", "NAME", TEXT, backend, "cpu",
             "cpu, or reference: plain C, one thread, for checks"),
    {"log-every", "N", COUNT, AT(log_every), "10", 0, BIG, "steps between progress lines; 0: none"},
    TEXT_ROW("routing", "FILE", TEXT, routing, NULL,
             "write the rows that chose each expert, by step, micro-batch and layer, to FILE as "
             "TSV (rank N: FILE.N)"),
    TEXT_ROW("timers", "FILE", TEXT, timers, NULL, "write the engine's own times to FILE as JSON"),
    TEXT_ROW(
        "device", "NAME", TEXT, device, "cpu",
        "cpu, or cuda: a GPU for each rank, with libtrain_cuda.so (make cuda); GPT-2 with adamw"),
    FLAG_ROW("no-graph", no_graph,
             "cuda: launch each operation by itself, not each step as a CUDA graph"),
    FLAG_ROW("check", check, "only check the recipe and the options; do not train"),
    TEXT_ROW("help", "[all]", HELP, help, NULL,
             "what most people need; all: every recipe, command and option"),
    FLAG_ROW("version", version, "print the version"),
};
#define ROWS (sizeof rows / sizeof *rows)

/* The options of the short --help, with words for them that fit a line; without a name a title. */
static const struct brief {
    const char *name, *help;
} briefs[] = {
    {NULL, "training"},
    {"steps", "optimizer updates"},
    {"batch", "samples per micro-batch (the recipe's)"},
    {"accumulate", "micro-batches for one update"},
    {"seq", "tokens per sample (the recipe's)"},
    {"dtype", "fp32, bf16 or fp16"},
    {"optimizer", "sgd, adam, adamw, lion, muon, ..."},
    {"lr", "highest learning rate"},
    {"recompute", "none, or block: less memory, more time"},
    {"seed", "of the weights and of the order of samples"},
    {NULL, "input"},
    {"data", "text file or folder; may be repeated"},
    {"workers", "loader workers; 0: the step's thread reads"},
    {"prefetch", "batches prefetched"},
    {NULL, "several ranks (mpirun -np N train ...)"},
    {"layout", "such as dp2.tp2 or dp2.pp2 (default: replicas)"},
    {"zero", "shard 1 optimizer, 2 gradients, 3 parameters"},
    {NULL, "evaluation and checkpoints"},
    {"eval-every", "steps between evaluations; 0: none"},
    {"checkpoint", "write the state to FILE at the end"},
    {"checkpoint-every", "steps between checkpoints; 0: only at the end"},
    {"resume", "continue from this checkpoint"},
    {NULL, "the rest"},
    {"device", "cpu or cuda"},
    {"log-every", "steps between progress lines; 0: none"},
    {"help", "this text; all: every recipe, command and option"},
};

static int bad_value(const struct row *row, const char *text, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EUSAGE, "train --help all lists the options and their defaults",
                      row->type == COUNT ? "--%s %s: a whole number from %.0f to %.0f is needed"
                                         : "--%s %s: a number from %g to %g is needed",
                      row->name, text, row->low, row->high);
}

static int set_count(int64_t *field, const struct row *row, const char *text,
                     struct tacho_error *err)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || (double)value < row->low || (double)value > row->high)
        return bad_value(row, text, err);
    *field = value;
    return 0;
}

static int set_number(double *field, const struct row *row, const char *text,
                      struct tacho_error *err)
{
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (errno == ERANGE || end == text || *end || !isfinite(value) || value < row->low ||
        value > row->high)
        return bad_value(row, text, err);
    *field = value;
    return 0;
}

static int add_text(struct options_list *list, const struct row *row, const char *text,
                    struct tacho_error *err)
{
    if (list->count == OPTIONS_LIST_CAP)
        return tacho_fail(err, TACHO_EUSAGE, "name a folder that holds the files",
                          "--%s: more than %d", row->name, OPTIONS_LIST_CAP);
    list->text[list->count++] = text;
    return 0;
}

/* NULL: --help without a word. */
static int set_help(int *field, const char *text, struct tacho_error *err)
{
    if (text && strcmp(text, "all") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "train --help, or train --help all",
                          "--help=%s: only 'all' may follow", text);
    *field = text ? OPTIONS_HELP_ALL : OPTIONS_HELP_BRIEF;
    return 0;
}

/* Stores the text of one option in its field, by the type of its row. Numbers must be whole and
 * within the bounds of the row. */
static int set(struct options *options, const struct row *row, const char *text,
               struct tacho_error *err)
{
    void *field = (char *)options + row->offset;
    switch (row->type) {
    case COUNT:
        return set_count(field, row, text, err);
    case NUMBER:
        return set_number(field, row, text, err);
    case TEXT:
        *(const char **)field = text;
        return 0;
    case LIST:
        return add_text(field, row, text, err);
    case FLAG:
        *(int *)field = 1;
        return 0;
    case HELP:
        return set_help(field, text, err);
    case TITLE:
        break;
    }
    return 0;
}

static void long_options(struct option *table)
{
    static const int takes[] = {
        [COUNT] = required_argument, [NUMBER] = required_argument, [TEXT] = required_argument,
        [LIST] = required_argument,  [FLAG] = no_argument,         [HELP] = optional_argument};
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].type != TITLE)
            table[count++] = (struct option){
                .name = rows[i].name, .has_arg = takes[rows[i].type], .val = 256 + (int)i};
    table[count] = (struct option){0};
}

static const struct row *row_of(const char *name)
{
    size_t i = 0;
    while (!rows[i].name || strcmp(rows[i].name, name) != 0)
        i++;
    return &rows[i];
}

/* Takes the word after --help, where it is "all": "--help all" is what people type. */
static const char *word_of_help(int argc, char **argv)
{
    if (optarg || optind >= argc || strcmp(argv[optind], "all") != 0)
        return optarg;
    return argv[optind++];
}

int options_parse(struct options *out, int argc, char **argv, struct tacho_error *err)
{
    struct option table[ROWS + 1];
    int c, rc = 0;
    long_options(table);
    *out = (struct options){0};
    for (size_t i = 0; i < ROWS && rc == 0; i++) {
        if (rows[i].standard)
            rc = set(out, &rows[i], rows[i].standard, err);
        else if (rows[i].type == NUMBER)
            *(double *)(void *)((char *)out + rows[i].offset) = (double)NAN;
    }
    opterr = 0;
    while (rc == 0 && (c = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
        const struct row *row = c == 'h' ? row_of("help") : &rows[c >= 256 ? c - 256 : 0];
        if (c == 'h' || (c >= 256 && row->type == HELP))
            rc = set(out, row, word_of_help(argc, argv), err);
        else if (c == ':')
            rc = tacho_fail(err, TACHO_EUSAGE, "train --help all lists the options",
                            "option %s needs a value", argv[optind - 1]);
        else if (c == '?')
            rc = tacho_fail(err, TACHO_EUSAGE, "train --help all lists the options",
                            "unknown option %s", argv[optind - 1]);
        else
            rc = set(out, row, optarg, err);
    }
    if (rc)
        return rc;
    if (optind < argc)
        out->recipe = argv[optind++];
    if (optind < argc)
        return tacho_fail(err, TACHO_EUSAGE, "name one recipe; options begin with --",
                          "unexpected argument %s", argv[optind]);
    return 0;
}

/* "  --name VALUE    help (default X)" */
static void print_row(FILE *file, const struct row *row, int columns, const char *help)
{
    char left[64];
    if (row->value)
        snprintf(left, sizeof left, "--%s %s", row->name, row->value);
    else
        snprintf(left, sizeof left, "--%s", row->name);
    fprintf(file, "  %-*s %s", columns, left, help);
    fprintf(file, row->standard ? " (default %s)\n" : "\n", row->standard);
}

void options_print(FILE *file)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].type == TITLE)
            fprintf(file, "\n%s\n", rows[i].help);
        else
            print_row(file, &rows[i], 26, rows[i].help);
    }
}

void options_print_brief(FILE *file)
{
    for (size_t i = 0; i < sizeof briefs / sizeof *briefs; i++) {
        if (briefs[i].name)
            print_row(file, row_of(briefs[i].name), 20, briefs[i].help);
        else
            fprintf(file, "\n%s\n", briefs[i].help);
    }
}
