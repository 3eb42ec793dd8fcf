/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair encoding with given merges. A hash table finds the merge of two tokens; a word is
 * encoded by applying the earliest merge that fits, until none does. Words are short, so the
 * quadratic search within one costs less than a heap would.
 */
#include "libtrain/data/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/ops/random.h"

#define WINDOW ((size_t)1 << 20)

struct merge {
    int32_t left, right;
};

struct lt_bpe {
    int32_t merges;
    struct merge *merge;
    int32_t *table; /* open addressing: pair -> merge + 1; 0 is free */
    uint64_t mask;
    unsigned char *bytes; /* of all tokens, one after the other */
    size_t *start;        /* of each token, and of the end */
};

/* ---- words --------------------------------------------------------------------------------------------------------------- */

enum sign { BLANK, LETTER, DIGIT, OTHER };

static enum sign sign_of(unsigned char byte)
{
    if (byte == ' ' || (byte >= '\t' && byte <= '\r'))
        return BLANK;
    if (byte >= '0' && byte <= '9')
        return DIGIT;
    return byte > 127 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ? LETTER
                                                                                      : OTHER;
}

/* How long the run of signs of one kind is that starts at `at`; ends at `end`. */
static size_t run_end(const unsigned char *text, size_t position, size_t end)
{
    enum sign kind = sign_of(text[position]);
    while (position < end && sign_of(text[position]) == kind)
        position++;
    return position;
}

size_t lt_bpe_word(const unsigned char *text, size_t bytes)
{
    size_t end = bytes < LT_BPE_WORD ? bytes : LT_BPE_WORD;
    if (sign_of(text[0]) != BLANK)
        return run_end(text, 0, end);
    size_t blanks = run_end(text, 0, end);
    if (blanks == bytes || blanks == LT_BPE_WORD || text[blanks - 1] != ' ')
        return blanks; /* nothing follows, or the last blank is no space: it does not belong to the
                          next word */
    return blanks == 1 ? run_end(text, 1, end) : blanks - 1;
}

int lt_bpe_words(const struct lt_dataset *data, lt_bpe_each *word, void *arg,
                 struct tacho_error *err)
{
    uint64_t total = lt_dataset_bytes(data), offset = 0;
    unsigned char *window = malloc(WINDOW);
    int rc = window ? 0 : lt_no_memory(err);
    while (rc == 0 && offset < total) {
        size_t filled = total - offset < WINDOW ? (size_t)(total - offset) : WINDOW, i = 0;
        rc = lt_dataset_read(data, offset, window, filled, err);
        while (rc == 0 && i < filled && (filled - i > LT_BPE_WORD || offset + filled == total)) {
            size_t length = lt_bpe_word(window + i, filled - i);
            rc = word(arg, offset + i, window + i, length, err);
            i += length;
        }
        offset += i;
    }
    free(window);
    return rc;
}

/* ---- merges -------------------------------------------------------------------------------------------------------------- */

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Number of the merge + 1, or the free slot where it belongs (0 there). */
static int32_t *find(const struct lt_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t i = lt_random_bits(1, pair_key(left, right)) & bpe->mask;
    while (bpe->table[i] && (bpe->merge[bpe->table[i] - 1].left != left ||
                             bpe->merge[bpe->table[i] - 1].right != right))
        i = (i + 1) & bpe->mask;
    return &bpe->table[i];
}

static size_t token_length(const struct lt_bpe *bpe, int32_t token)
{
    return bpe->start[token + 1] - bpe->start[token];
}

/* Enters merge i; those before it are there. */
static int add_merge(struct lt_bpe *bpe, int32_t i, int32_t left, int32_t right,
                     struct tacho_error *err)
{
    int32_t token = LT_BPE_BYTES + i;
    if (left < 0 || right < 0 || left >= token || right >= token)
        return tacho_fail(err, TACHO_ECORRUPT, NULL,
                          "merge %ld of %ld and %ld names a token that does not exist yet", (long)i,
                          (long)left, (long)right);
    size_t first = token_length(bpe, left), second = token_length(bpe, right),
           start = bpe->start[token];
    if (first + second > LT_BPE_WORD)
        return tacho_fail(err, TACHO_ECORRUPT, NULL,
                          "merge %ld makes a token of %zu bytes, longer than a word", (long)i,
                          first + second);
    int32_t *place = find(bpe, left, right);
    if (*place)
        return tacho_fail(err, TACHO_ECORRUPT, NULL, "merge %ld is the same as merge %ld", (long)i,
                          (long)*place - 1);
    bpe->merge[i] = (struct merge){left, right};
    *place = i + 1;
    memcpy(bpe->bytes + start, bpe->bytes + bpe->start[left], first);
    memcpy(bpe->bytes + start + first, bpe->bytes + bpe->start[right], second);
    bpe->start[token + 1] = start + first + second;
    return 0;
}

int lt_bpe_create(struct lt_bpe **out, const int32_t *pairs, size_t merges, struct tacho_error *err)
{
    size_t vocab = LT_BPE_BYTES + merges, size = 512;
    int rc = 0;
    if (vocab > LT_BPE_VOCAB)
        return tacho_fail(err, TACHO_ECORRUPT, NULL, "%zu merges, at most %d", merges,
                          LT_BPE_VOCAB - LT_BPE_BYTES);
    while (size < 2 * merges)
        size *= 2;
    struct lt_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe)
        return lt_no_memory(err);
    bpe->merges = (int32_t)merges;
    bpe->mask = size - 1;
    bpe->merge = calloc(merges ? merges : 1, sizeof *bpe->merge);
    bpe->table = calloc(size, sizeof *bpe->table);
    bpe->bytes = malloc(LT_BPE_BYTES + merges * LT_BPE_WORD);
    bpe->start = calloc(vocab + 1, sizeof *bpe->start);
    if (!bpe->merge || !bpe->table || !bpe->bytes || !bpe->start)
        rc = lt_no_memory(err);
    for (size_t i = 0; i < LT_BPE_BYTES && rc == 0; i++) {
        bpe->bytes[i] = (unsigned char)i;
        bpe->start[i + 1] = i + 1;
    }
    for (size_t i = 0; i < merges && rc == 0; i++)
        rc = add_merge(bpe, (int32_t)i, pairs[2 * i], pairs[2 * i + 1], err);
    if (rc) {
        lt_bpe_destroy(bpe);
        return rc;
    }
    *out = bpe;
    return 0;
}

void lt_bpe_destroy(struct lt_bpe *bpe)
{
    if (!bpe)
        return;
    free(bpe->merge);
    free(bpe->table);
    free(bpe->bytes);
    free(bpe->start);
    free(bpe);
}

int64_t lt_bpe_vocab(const struct lt_bpe *bpe)
{
    return LT_BPE_BYTES + bpe->merges;
}

void lt_bpe_merge(const struct lt_bpe *bpe, int32_t i, int32_t pair[2])
{
    pair[0] = bpe->merge[i].left;
    pair[1] = bpe->merge[i].right;
}

uint64_t lt_bpe_identity(const struct lt_bpe *bpe)
{
    return lt_source_hash((uint64_t)bpe->merges, bpe->merge,
                          (size_t)bpe->merges * sizeof *bpe->merge);
}

const unsigned char *lt_bpe_bytes(const struct lt_bpe *bpe, int32_t token, size_t *length)
{
    if (token < 0 || token >= lt_bpe_vocab(bpe))
        return NULL;
    *length = token_length(bpe, token);
    return bpe->bytes + bpe->start[token];
}

/* ---- encoding ------------------------------------------------------------------------------------------------------------ */

/* The earliest merge first, as training made them; of equal ones the leftmost. */
size_t lt_bpe_encode_word(const struct lt_bpe *bpe, const unsigned char *word, size_t length,
                          int32_t tokens[LT_BPE_WORD])
{
    int32_t next[LT_BPE_WORD]; /* merge + 1 of each token with the one after it; 0: none */
    for (size_t i = 0; i < length; i++)
        tokens[i] = word[i];
    for (size_t i = 0; i + 1 < length; i++)
        next[i] = *find(bpe, tokens[i], tokens[i + 1]);
    for (;;) {
        size_t best = length;
        for (size_t i = 0; i + 1 < length; i++)
            if (next[i] && (best == length || next[i] < next[best]))
                best = i;
        if (best == length)
            return length;
        tokens[best] = LT_BPE_BYTES + next[best] - 1;
        length--;
        memmove(tokens + best + 1, tokens + best + 2, (length - best - 1) * sizeof *tokens);
        memmove(next + best, next + best + 1, (length - best - 1) * sizeof *next);
        if (best > 0)
            next[best - 1] = *find(bpe, tokens[best - 1], tokens[best]);
        if (best + 1 < length)
            next[best] = *find(bpe, tokens[best], tokens[best + 1]);
    }
}

size_t lt_bpe_encode(const struct lt_bpe *bpe, const void *text, size_t bytes, int32_t *tokens)
{
    const unsigned char *cursor = text;
    int32_t word[LT_BPE_WORD];
    size_t count = 0;
    while (bytes > 0) {
        size_t length = lt_bpe_word(cursor, bytes),
               got = lt_bpe_encode_word(bpe, cursor, length, word);
        memcpy(tokens + count, word, got * sizeof *tokens);
        count += got;
        cursor += length;
        bytes -= length;
    }
    return count;
}
