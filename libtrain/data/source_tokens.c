/* SPDX-License-Identifier: Apache-2.0
 *
 * Token shards: sample i of a shard is the t + 1 tokens from i t. No sample spans two shards.
 */
#include <stdlib.h>

#include "libtrain/base/fail.h"
#include "libtrain/data/format.h"
#include "libtrain/data/source.h"

struct shard {
    uint64_t first; /* sample of the source */
    uint64_t start; /* byte of the dataset where its tokens start */
    const char *path;
};

struct tokens {
    struct lt_source base;
    struct lt_dataset *data;
    size_t count;
    struct shard shard[];
};

/* The last shard that starts at or before the sample. */
static const struct shard *find(const struct tokens *tokens, uint64_t sample)
{
    size_t low = 0, high = tokens->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (tokens->shard[middle].first <= sample)
            low = middle;
        else
            high = middle;
    }
    return &tokens->shard[low];
}

static int tokens_read(const struct lt_source *source, uint64_t sample, void *raw,
                       struct tacho_error *err)
{
    const struct tokens *tokens = (const struct tokens *)source;
    const struct shard *shard = find(tokens, sample);
    uint64_t at = shard->start + 2 * (sample - shard->first) * (uint64_t)source->t;
    return lt_dataset_read(tokens->data, at, raw, source->raw_bytes, err);
}

/* Widens the tokens to 32 bits. One beyond the model's vocabulary is an error here, because
 * opening does not read the tokens. */
static int tokens_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                         void *item, struct tacho_error *err)
{
    const unsigned char *from = raw;
    int32_t *tokens = item;
    for (int64_t i = 0; i <= source->t; i++) {
        tokens[i] = from[2 * i] | from[2 * i + 1] << 8;
        if (tokens[i] >= source->classes) {
            const struct shard *shard = find((const struct tokens *)source, sample);
            return tacho_fail(err, TACHO_ECORRUPT,
                              "the shard is of another tokenizer: choose a larger --vocab",
                              "%s: token %llu is %ld, the model's vocabulary has %lld", shard->path,
                              (unsigned long long)((sample - shard->first) * (uint64_t)source->t) +
                                  (unsigned long long)i,
                              (long)tokens[i], (long long)source->classes);
        }
    }
    return 0;
}

static void tokens_close(struct lt_source *source)
{
    struct tokens *tokens = (struct tokens *)source;
    lt_dataset_close(tokens->data);
    free(tokens);
}

static const struct lt_source_ops tokens_ops = {
    "tokens",      lt_source_fixed_bytes,    tokens_read,
    tokens_decode, lt_source_collate_tokens, tokens_close,
    NULL};

/* Checks the header of the i-th file and adds its samples; it needs tokens for at least one. */
static int add_shard(struct tokens *source, size_t i, struct tacho_error *err)
{
    unsigned char head[LT_FORMAT_HEAD];
    struct lt_dataset_file file = lt_dataset_file(source->data, i);
    size_t head_bytes;
    uint64_t tokens, t = (uint64_t)source->base.t;
    int rc = lt_format_head(source->data, i, head, &head_bytes, err);
    if (rc == 0)
        rc = lt_format_shard(file.path, head, head_bytes, file.bytes, &tokens, err);
    if (rc)
        return rc;
    if (tokens < t + 1)
        return tacho_fail(err, TACHO_EFORMAT, "choose a shorter --seq, or larger shards",
                          "%s: %llu tokens are too few for one sample of %llu", file.path,
                          (unsigned long long)tokens, (unsigned long long)t + 1);
    source->shard[source->count++] = (struct shard){
        .first = source->base.samples, .start = file.start + LT_SHARD_HEADER, .path = file.path};
    source->base.samples += (tokens - 1) / t;
    return 0;
}

int lt_source_open_tokens(struct lt_source **out, struct lt_dataset *data, int64_t t, int64_t vocab,
                          struct tacho_error *err)
{
    size_t files = lt_dataset_files(data);
    const char *empty = lt_dataset_empty_file(data);
    uint64_t cut[] = {0x746f6b656e73, (uint64_t)t, 0};
    struct tokens *tokens = calloc(1, sizeof *tokens + files * sizeof *tokens->shard);
    int rc = 0;
    if (!tokens) {
        lt_dataset_close(data);
        return lt_no_memory(err);
    }
    tokens->data = data;
    tokens->base = (struct lt_source){.ops = &tokens_ops,
                                      .raw_bytes = 2 * ((size_t)t + 1),
                                      .item_bytes = ((size_t)t + 1) * sizeof(int32_t),
                                      .t = t,
                                      .classes = vocab};
    if (empty)
        rc = tacho_fail(err, TACHO_EFORMAT, "remove it, or write it again", "%s: empty", empty);
    for (size_t i = 0; i < files && rc == 0; i++)
        rc = add_shard(tokens, i, err);
    if (rc == 0)
        rc = lt_dataset_identity(data, &cut[2], err);
    if (rc) {
        lt_source_close(&tokens->base);
        return rc;
    }
    tokens->base.identity = lt_source_hash(0, cut, sizeof cut);
    *out = &tokens->base;
    return 0;
}
