/* SPDX-License-Identifier: Apache-2.0
 *
 * Text, encoded as it is read. Sample i is tokens i t .. i t + t of the whole text: reading starts
 * at the word that token i t is in and ends with the word that token i t + t is in, and words are
 * encoded one by one, so the tokens are those of the whole text.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/base/memory.h"
#include "libtrain/data/bpe.h"

/* Where token i t lies. */
struct mark {
    uint64_t word;        /* byte where its word starts */
    uint8_t skip, length; /* tokens before it in the word; bytes of the word */
};

struct encoded {
    struct lt_source base;
    struct lt_dataset *data;
    struct lt_bpe *bpe;
    struct mark *marks; /* samples + 1 */
    size_t count, cap;
    uint64_t tokens; /* while marking */
};

static size_t encoded_bytes(const struct lt_source *source, uint64_t sample)
{
    const struct mark *mark = &((const struct encoded *)source)->marks[sample];
    return (size_t)(mark[1].word + mark[1].length - mark->word);
}

static int encoded_read(const struct lt_source *source, uint64_t sample, void *raw,
                        struct tacho_error *err)
{
    const struct encoded *encoded = (const struct encoded *)source;
    return lt_dataset_read(encoded->data, encoded->marks[sample].word, raw,
                           encoded_bytes(source, sample), err);
}

/* Encodes the words of the sample and keeps t + 1 tokens of them. The first word may begin before
 * the sample and the last one end after it: `skip` tokens are dropped at the front, and the rest
 * once enough are there. */
static int encoded_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                          void *item, struct tacho_error *err)
{
    const struct encoded *encoded = (const struct encoded *)source;
    const unsigned char *cursor = raw;
    size_t left = encoded_bytes(source, sample), skip = encoded->marks[sample].skip,
           need = (size_t)source->t + 1, have = 0;
    int32_t word[LT_BPE_WORD], *tokens = item;
    while (left > 0 && have < need) {
        size_t length = lt_bpe_word(cursor, left),
               got = lt_bpe_encode_word(encoded->bpe, cursor, length, word);
        size_t from = skip < got ? skip : got, take = got - from;
        if (take > need - have)
            take = need - have;
        memcpy(tokens + have, word + from, take * sizeof *tokens);
        have += take;
        skip -= from;
        cursor += length;
        left -= length;
    }
    if (have < need)
        return tacho_fail(
            err, TACHO_ECORRUPT, "do not change the data while a run reads it",
            "sample %llu of the text has only %zu tokens: it has changed since the run began",
            (unsigned long long)sample, have);
    return 0;
}

static void encoded_close(struct lt_source *source)
{
    struct encoded *encoded = (struct encoded *)source;
    lt_memory_add(LT_MEMORY_LOADER, -(int64_t)(encoded->cap * sizeof *encoded->marks));
    lt_dataset_close(encoded->data);
    lt_bpe_destroy(encoded->bpe);
    free(encoded->marks);
    free(encoded);
}

static const struct lt_source_ops encoded_ops = {
    "bpe",         encoded_bytes, encoded_read, encoded_decode, lt_source_collate_tokens,
    encoded_close, NULL};

/* Appends a mark; the array doubles, and the book of memory follows. */
static int add_mark(struct encoded *encoded, struct mark mark)
{
    if (encoded->count == encoded->cap) {
        size_t cap = encoded->cap ? 2 * encoded->cap : 1024;
        struct mark *more = realloc(encoded->marks, cap * sizeof *more);
        if (!more)
            return TACHO_ENOMEM;
        lt_memory_add(LT_MEMORY_LOADER, (int64_t)((cap - encoded->cap) * sizeof *more));
        encoded->marks = more;
        encoded->cap = cap;
    }
    encoded->marks[encoded->count++] = mark;
    return 0;
}

/* Notes where the samples begin that begin inside this word. Called for each word of the text
 * while the source is opened. */
static int mark_word(void *arg, uint64_t offset, const unsigned char *word, size_t length,
                     struct tacho_error *err)
{
    struct encoded *encoded = arg;
    int32_t tokens[LT_BPE_WORD];
    uint64_t t = (uint64_t)encoded->base.t,
             end = encoded->tokens + lt_bpe_encode_word(encoded->bpe, word, length, tokens);
    for (uint64_t next = encoded->count * t; next < end; next += t)
        if (add_mark(encoded, (struct mark){.word = offset,
                                            .skip = (uint8_t)(next - encoded->tokens),
                                            .length = (uint8_t)length}))
            return tacho_fail(err, TACHO_ENOMEM, "give less text, or shards", "out of memory");
    encoded->tokens = end;
    return 0;
}

int lt_source_open_bpe(struct lt_source **out, struct lt_dataset *data, const char *path, int64_t t,
                       struct tacho_error *err)
{
    uint64_t cut[] = {0x627065, (uint64_t)t, 0, 0};
    struct encoded *encoded = calloc(1, sizeof *encoded);
    if (!encoded) {
        lt_dataset_close(data);
        return lt_no_memory(err);
    }
    encoded->data = data;
    encoded->base = (struct lt_source){
        .ops = &encoded_ops, .item_bytes = ((size_t)t + 1) * sizeof(int32_t), .t = t};
    int rc = lt_bpe_load(&encoded->bpe, path, err);
    if (rc == 0)
        rc = lt_bpe_words(data, mark_word, encoded, err);
    if (rc == 0 && encoded->count < 2)
        rc = tacho_fail(err, TACHO_EFORMAT, "give more text with --data, or a shorter --seq",
                        "%llu tokens of text are too few for one sample of %llu",
                        (unsigned long long)encoded->tokens, (unsigned long long)t + 1);
    if (rc == 0)
        rc = lt_dataset_identity(data, &cut[2], err);
    if (rc) {
        lt_source_close(&encoded->base);
        return rc;
    }
    cut[3] = lt_bpe_identity(encoded->bpe);
    encoded->base.identity = lt_source_hash(0, cut, sizeof cut);
    encoded->base.samples = encoded->count - 1;
    encoded->base.classes = lt_bpe_vocab(encoded->bpe);
    for (uint64_t i = 0; i < encoded->base.samples; i++)
        if (encoded_bytes(&encoded->base, i) > encoded->base.raw_bytes)
            encoded->base.raw_bytes = encoded_bytes(&encoded->base, i);
    *out = &encoded->base;
    return 0;
}
