/* SPDX-License-Identifier: Apache-2.0
 *
 * Text, encoded as it is read. Sample i is tokens i t .. i t + t of the whole text: reading starts
 * at the word that token i t is in and ends with the word that token i t + t is in, and words are
 * encoded one by one, so the tokens are those of the whole text.
 */
#include <stdlib.h>
#include <string.h>

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
    const struct mark *m = &((const struct encoded *)source)->marks[sample];
    return (size_t)(m[1].word + m[1].length - m->word);
}

static int encoded_read(const struct lt_source *source, uint64_t sample, void *raw,
                        struct tacho_error *err)
{
    const struct encoded *s = (const struct encoded *)source;
    return lt_dataset_read(s->data, s->marks[sample].word, raw, encoded_bytes(source, sample), err);
}

static int encoded_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                          void *item, struct tacho_error *err)
{
    const struct encoded *s = (const struct encoded *)source;
    const unsigned char *at = raw;
    size_t left = encoded_bytes(source, sample), skip = s->marks[sample].skip,
           need = (size_t)source->t + 1, have = 0;
    int32_t word[LT_BPE_WORD], *to = item;
    while (left > 0 && have < need) {
        size_t n = lt_bpe_word(at, left), got = lt_bpe_encode_word(s->bpe, at, n, word);
        size_t from = skip < got ? skip : got,
               take = got - from < need - have ? got - from : need - have;
        memcpy(to + have, word + from, take * sizeof *to);
        have += take;
        skip -= from;
        at += n;
        left -= n;
    }
    if (have < need)
        return tacho_fail(
            err, TACHO_ECORRUPT, "do not change the data while a run reads it",
            "sample %llu of the text has only %zu tokens: it is not what it was when the run began",
            (unsigned long long)sample, have);
    return 0;
}

static void encoded_close(struct lt_source *source)
{
    struct encoded *s = (struct encoded *)source;
    lt_memory_add(LT_MEMORY_LOADER, -(int64_t)(s->cap * sizeof *s->marks));
    lt_dataset_close(s->data);
    lt_bpe_destroy(s->bpe);
    free(s->marks);
    free(s);
}

static const struct lt_source_ops encoded_ops = {
    "bpe", encoded_bytes, encoded_read, encoded_decode, lt_source_collate_tokens, encoded_close};

static int add_mark(struct encoded *s, struct mark mark)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 1024;
        struct mark *more = realloc(s->marks, cap * sizeof *more);
        if (!more)
            return TACHO_ENOMEM;
        lt_memory_add(LT_MEMORY_LOADER, (int64_t)((cap - s->cap) * sizeof *more));
        s->marks = more;
        s->cap = cap;
    }
    s->marks[s->count++] = mark;
    return 0;
}

static int mark_word(void *arg, uint64_t at, const unsigned char *word, size_t n,
                     struct tacho_error *err)
{
    struct encoded *s = arg;
    int32_t tokens[LT_BPE_WORD];
    uint64_t t = (uint64_t)s->base.t, end = s->tokens + lt_bpe_encode_word(s->bpe, word, n, tokens);
    for (uint64_t next = s->count * t; next < end; next += t)
        if (add_mark(s, (struct mark){
                            .word = at, .skip = (uint8_t)(next - s->tokens), .length = (uint8_t)n}))
            return tacho_fail(err, TACHO_ENOMEM, "give less text, or shards", "out of memory");
    s->tokens = end;
    return 0;
}

int lt_source_open_bpe(struct lt_source **out, struct lt_dataset *data, const char *path, int64_t t,
                       struct tacho_error *err)
{
    uint64_t cut[] = {0x627065, (uint64_t)t, 0, 0};
    struct encoded *s = calloc(1, sizeof *s);
    if (!s) {
        lt_dataset_close(data);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    }
    s->data = data;
    s->base = (struct lt_source){
        .ops = &encoded_ops, .item_bytes = ((size_t)t + 1) * sizeof(int32_t), .t = t};
    int rc = lt_bpe_load(&s->bpe, path, err);
    if (rc == 0)
        rc = lt_bpe_words(data, mark_word, s, err);
    if (rc == 0 && s->count < 2)
        rc = tacho_fail(err, TACHO_EFORMAT, "give more text with --data, or a shorter --seq",
                        "%llu tokens of text are too few for one sample of %llu",
                        (unsigned long long)s->tokens, (unsigned long long)t + 1);
    if (rc == 0)
        rc = lt_dataset_identity(data, &cut[2], err);
    if (rc) {
        lt_source_close(&s->base);
        return rc;
    }
    cut[3] = lt_bpe_identity(s->bpe);
    s->base.identity = lt_source_hash(0, cut, sizeof cut);
    s->base.samples = s->count - 1;
    s->base.classes = lt_bpe_vocab(s->bpe);
    for (uint64_t i = 0; i < s->base.samples; i++)
        if (encoded_bytes(&s->base, i) > s->base.raw_bytes)
            s->base.raw_bytes = encoded_bytes(&s->base, i);
    *out = &s->base;
    return 0;
}
