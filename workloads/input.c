/* SPDX-License-Identifier: Apache-2.0
 *
 * Which source the options of input mean: shards, text by a tokenizer, text by bytes, or images
 * (input_images.c), and how the loader makes batches of it.
 */
#include "workloads/input.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/data/augment.h"
#include "libtrain/data/bpe.h"
#include "libtrain/data/format.h"

#define LICENCES "/usr/share/common-licenses"

int input_open_dataset(struct lt_dataset **data, const struct options *options,
                       struct tacho_error *err)
{
    static const char *const licences[] = {LICENCES};
    int rc;
    if (options->data.count)
        rc = lt_dataset_open(data, options->data.text, options->data.count, err);
    else if (access(LICENCES, R_OK))
        rc = tacho_fail(err, TACHO_EUSAGE, "name some text: --data FILE or --data FOLDER",
                        LICENCES ": not on this machine");
    else
        rc = lt_dataset_open(data, licences, 1, err);
    if (rc == 0 && strcmp(options->io, "mapped") == 0)
        lt_dataset_map(*data);
    return rc;
}

static int has_shards(const struct lt_dataset *data)
{
    unsigned char head[4];
    return lt_dataset_bytes(data) >= sizeof head &&
           lt_dataset_read(data, 0, head, sizeof head, NULL) == 0 &&
           lt_format_is_shard(head, sizeof head);
}

/* Text or shards. `auto` looks at the first bytes of the data; a tokenizer together with shards
 * is an error, because shards hold tokens already. */
static int open_tokens(struct input *input, const struct options *options, int64_t seq,
                       int64_t vocab, struct tacho_error *err)
{
    struct lt_dataset *data = NULL;
    int rc = input_open_dataset(&data, options, err);
    if (rc)
        return rc;
    int is_auto = strcmp(options->format, "auto") == 0;
    int shards = is_auto ? has_shards(data) : strcmp(options->format, "tokens") == 0;
    if (shards && options->tokenizer) {
        lt_dataset_close(data);
        return tacho_fail(err, TACHO_EUSAGE, "leave out --tokenizer",
                          "--tokenizer %s: shards hold tokens already", options->tokenizer);
    }
    if (shards)
        rc = lt_source_open_tokens(&input->source, data, seq, vocab, err);
    else if (options->tokenizer)
        rc = lt_source_open_bpe(&input->source, data, options->tokenizer, seq, err);
    else
        rc = lt_source_open_text(&input->source, data, seq, err);
    if (rc == 0 && input->source->classes > vocab)
        rc = tacho_fail(err, TACHO_EUSAGE, "choose a larger --vocab, or a smaller tokenizer",
                        "the data has %lld different tokens, the model's vocabulary %lld",
                        (long long)input->source->classes, (long long)vocab);
    return rc;
}

/* Which formats there are, and that this model can learn from the one that was named. */
static int check_format(const struct options *options, int64_t seq, struct tacho_error *err)
{
    static const struct {
        const char *name;
        int images;
    } formats[] = {{"auto", -1}, {"text", 0}, {"tokens", 0}, {"images", 1}, {"idx", 1}};
    if (strcmp(options->io, "mapped") != 0 && strcmp(options->io, "pread") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "mapped or pread", "--io %s: unknown", options->io);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(options->format, formats[i].name) == 0) {
            if (formats[i].images >= 0 && formats[i].images != (seq == 0))
                return tacho_fail(err, TACHO_EUSAGE, seq ? "text or tokens" : "images or idx",
                                  "--format %s: not what this model learns from", options->format);
            if (options->tokenizer && (seq == 0 || formats[i].images > 0))
                return tacho_fail(err, TACHO_EUSAGE, "leave it out",
                                  "--tokenizer %s: images have no text", options->tokenizer);
            return 0;
        }
    return tacho_fail(err, TACHO_EUSAGE, "auto, text, tokens, images or idx",
                      "--format %s: unknown", options->format);
}

/* --pad, --crop, --flip and --normalise: puts the stage in front of the sources of images. */
static int augment(struct input *input, const struct options *options, int64_t seq,
                   struct tacho_error *err)
{
    struct lt_augment how = {.pad = options->pad,
                             .crop = options->crop,
                             .flip = options->flip,
                             .normalise = options->normalise};
    if (seq && (lt_augment_any(&how) || options->image_size))
        return tacho_fail(
            err, TACHO_EUSAGE, "leave them out, or choose mlp or a resnet",
            "--image-size, --crop, --pad, --flip and --normalise: this model learns from text");
    if (!lt_augment_any(&how))
        return 0;
    int rc = lt_augment_open(&input->source, &how, err);
    if (rc == 0 && input->held_source)
        rc = lt_augment_open(&input->held_source, &how, err);
    return rc;
}

/* The mean and deviation of the images to learn from are those of the held-out ones, too. */
static int measure(struct input *input, const struct options *options, struct tacho_error *err)
{
    if (!options->normalise)
        return 0;
    int rc = lt_augment_measure(input->source, &input->train, err);
    if (rc == 0 && input->held_source)
        lt_augment_share(input->held_source, input->source);
    return rc;
}

int input_open(struct input *input, const struct options *options, int64_t seq, int64_t vocab,
               struct tacho_error *err)
{
    *input = (struct input){0};
    int rc = check_format(options, seq, err);
    if (rc == 0)
        rc = seq ? open_tokens(input, options, seq, vocab, err)
                 : input_open_images(input, options, err);
    rc = rc ? rc : augment(input, options, seq, err);
    if (rc)
        return rc;
    input->train = lt_source_whole(input->source);
    input->has_held_out = options->eval_every > 0;
    if (input->held_source)
        input->held_out = lt_source_whole(input->held_source);
    else if (input->has_held_out)
        rc = lt_source_split(input->source, options->eval_share, &input->train, &input->held_out,
                             err);
    return rc ? rc : measure(input, options, err);
}

void input_close(struct input *input)
{
    lt_source_close(input->source);
    lt_source_close(input->held_source);
}

/* "decode=0.02": adds to the delay of that stage. */
static int add_delay(struct lt_loader_options *out, const char *text, struct tacho_error *err)
{
    static const char *const stages[LT_STAGE_COUNT] = {"read", "decode", "augment", "collate",
                                                       "pin"};
    const char *value = strchr(text, '=');
    char *end = NULL;
    double seconds = value ? strtod(value + 1, &end) : -1;
    for (size_t i = 0; i < LT_STAGE_COUNT; i++)
        if (value && strlen(stages[i]) == (size_t)(value - text) &&
            strncmp(stages[i], text, (size_t)(value - text)) == 0 && end != value + 1 &&
            *end == '\0' && seconds >= 0 && seconds <= 3600) {
            out->slow[i] += seconds;
            return 0;
        }
    return tacho_fail(
        err, TACHO_EUSAGE,
        "for instance --slow decode=0.02; stages are read, decode, augment, collate and pin",
        "--slow %s: no such stage, or not a number of seconds from 0 to 3600", text);
}

int input_loader(struct lt_loader_options *out, const struct options *options,
                 struct tacho_error *err)
{
    int rc = 0, processes = strcmp(options->worker_kind, "processes") == 0;
    *out = (struct lt_loader_options){.workers = (int)options->workers,
                                      .prefetch = (int)options->prefetch,
                                      .kind = processes ? LT_WORKERS_PROCESSES : LT_WORKERS_THREADS,
                                      .in_order = options->no_shuffle,
                                      .pin = options->pin};
    if (!processes && strcmp(options->worker_kind, "threads") != 0)
        return tacho_fail(err, TACHO_EUSAGE, "threads or processes", "--worker-kind %s: unknown",
                          options->worker_kind);
    for (size_t i = 0; i < options->slow.count && rc == 0; i++)
        rc = add_delay(out, options->slow.text[i], err);
    return rc;
}
