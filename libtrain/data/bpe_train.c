/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning merges. Words are counted first; then the pair that occurs most often is merged in all
 * words that have it, again and again. A heap holds the pairs by count: counts only fall once a
 * pair has been entered, so an entry that is out of date is put back where it belongs when it comes
 * up. A pair with the newest token is entered when that merge is done.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/data/bpe.h"
#include "libtrain/ops/random.h"

struct word {
    size_t at; /* of its symbols */
    uint32_t length, symbols;
    uint64_t count, hash;
};

struct pair {
    int32_t left, right;
    int64_t count;
    uint32_t *where; /* words that had it, some more than once */
    uint32_t used, cap;
};

struct entry {
    int64_t count;
    uint32_t pair;
};

struct trainer {
    struct word *words;
    size_t word_count, word_cap;
    uint32_t *word_table; /* word + 1 */
    size_t word_slots;
    unsigned char *text; /* the words' bytes */
    int32_t *symbols;    /* their tokens so far */
    size_t text_used, text_cap;
    struct pair *pairs;
    size_t pair_count, pair_cap;
    uint32_t *pair_table; /* pair + 1 */
    size_t pair_slots;
    struct entry *heap;
    size_t heap_used, heap_cap;
};

/* Room for one more of `each` bytes in an array, `array` is the address of its pointer. 0, or
 * TACHO_ENOMEM. */
static int grow(void *array, size_t used, size_t *cap, size_t each)
{
    if (used < *cap)
        return 0;
    size_t more = *cap ? 2 * *cap : 64;
    void *old, *moved;
    memcpy(&old, array, sizeof old);
    moved = realloc(old, more * each);
    if (!moved)
        return TACHO_ENOMEM;
    memcpy(array, &moved, sizeof moved);
    *cap = more;
    return 0;
}

/* ---- words --------------------------------------------------------------------------------------------------------------- */

/* Doubles the hash table of words. */
static int rehash_words(struct trainer *trainer)
{
    size_t slots = trainer->word_slots ? 2 * trainer->word_slots : 1024;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return TACHO_ENOMEM;
    for (size_t word = 0; word < trainer->word_count; word++) {
        size_t slot = trainer->words[word].hash & (slots - 1);
        while (table[slot])
            slot = (slot + 1) & (slots - 1);
        table[slot] = (uint32_t)word + 1;
    }
    free(trainer->word_table);
    trainer->word_table = table;
    trainer->word_slots = slots;
    return 0;
}

static int new_word(struct trainer *trainer, const unsigned char *word, size_t length,
                    uint64_t hash)
{
    if (grow(&trainer->words, trainer->word_count, &trainer->word_cap, sizeof *trainer->words))
        return TACHO_ENOMEM;
    while (trainer->text_used + length > trainer->text_cap)
        if (grow(&trainer->text, trainer->text_cap, &trainer->text_cap, 1))
            return TACHO_ENOMEM;
    memcpy(trainer->text + trainer->text_used, word, length);
    trainer->words[trainer->word_count++] = (struct word){.at = trainer->text_used,
                                                          .length = (uint32_t)length,
                                                          .symbols = (uint32_t)length,
                                                          .count = 1,
                                                          .hash = hash};
    trainer->text_used += length;
    return 0;
}

/* Counts one occurrence of a word, which is entered at its first. */
static int count_word(void *arg, uint64_t offset, const unsigned char *word, size_t length,
                      struct tacho_error *err)
{
    struct trainer *trainer = arg;
    uint64_t hash = lt_source_hash(length, word, length);
    (void)offset;
    if (2 * (trainer->word_count + 1) > trainer->word_slots && rehash_words(trainer))
        return lt_no_memory(err);
    size_t i = hash & (trainer->word_slots - 1);
    for (; trainer->word_table[i]; i = (i + 1) & (trainer->word_slots - 1)) {
        struct word *known = &trainer->words[trainer->word_table[i] - 1];
        if (known->hash == hash && known->length == length &&
            memcmp(trainer->text + known->at, word, length) == 0) {
            known->count++;
            return 0;
        }
    }
    if (trainer->word_count >= UINT32_MAX - 1 || new_word(trainer, word, length, hash))
        return tacho_fail(err, TACHO_ENOMEM, "give less text", "out of memory");
    trainer->word_table[i] = (uint32_t)trainer->word_count;
    return 0;
}

/* ---- pairs --------------------------------------------------------------------------------------------------------------- */

/* The slot of a pair in the hash table, or the free one where it belongs. */
static size_t pair_place(const struct trainer *trainer, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t i = lt_random_bits(1, key) & (trainer->pair_slots - 1);
    while (trainer->pair_table[i]) {
        const struct pair *pair = &trainer->pairs[trainer->pair_table[i] - 1];
        if (pair->left == left && pair->right == right)
            break;
        i = (i + 1) & (trainer->pair_slots - 1);
    }
    return i;
}

/* Doubles the hash table of pairs. */
static int rehash_pairs(struct trainer *trainer)
{
    size_t slots = trainer->pair_slots ? 2 * trainer->pair_slots : 1024;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return TACHO_ENOMEM;
    free(trainer->pair_table);
    trainer->pair_table = table;
    trainer->pair_slots = slots;
    for (size_t i = 0; i < trainer->pair_count; i++)
        table[pair_place(trainer, trainer->pairs[i].left, trainer->pairs[i].right)] =
            (uint32_t)i + 1;
    return 0;
}

/* One occurrence more in that word, for each time that the word occurs. */
static int pair_add(struct trainer *trainer, int32_t left, int32_t right, uint32_t word)
{
    if (2 * (trainer->pair_count + 1) > trainer->pair_slots && rehash_pairs(trainer))
        return TACHO_ENOMEM;
    size_t i = pair_place(trainer, left, right), cap;
    if (!trainer->pair_table[i]) {
        if (grow(&trainer->pairs, trainer->pair_count, &trainer->pair_cap, sizeof *trainer->pairs))
            return TACHO_ENOMEM;
        trainer->pairs[trainer->pair_count++] = (struct pair){.left = left, .right = right};
        trainer->pair_table[i] = (uint32_t)trainer->pair_count;
    }
    struct pair *pair = &trainer->pairs[trainer->pair_table[i] - 1];
    pair->count += (int64_t)trainer->words[word].count;
    if (pair->used > 0 && pair->where[pair->used - 1] == word)
        return 0;
    cap = pair->cap;
    if (grow(&pair->where, pair->used, &cap, sizeof *pair->where))
        return TACHO_ENOMEM;
    pair->cap = (uint32_t)cap;
    pair->where[pair->used++] = word;
    return 0;
}

static void pair_remove(struct trainer *trainer, int32_t left, int32_t right, uint32_t word)
{
    size_t i = pair_place(trainer, left, right);
    if (trainer->pair_table[i])
        trainer->pairs[trainer->pair_table[i] - 1].count -= (int64_t)trainer->words[word].count;
}

/* ---- heap ---------------------------------------------------------------------------------------------------------------- */

/* The order of the heap: more frequent pairs first, of equal ones the smaller tokens, so that the
 * result depends on the text alone. */
static int before(const struct trainer *trainer, const struct entry *left,
                  const struct entry *right)
{
    const struct pair *left_pair = &trainer->pairs[left->pair],
                      *right_pair = &trainer->pairs[right->pair];
    if (left->count != right->count)
        return left->count > right->count;
    return left_pair->left != right_pair->left ? left_pair->left < right_pair->left
                                               : left_pair->right < right_pair->right;
}

/* Enters a pair with its present count. Pairs that occur once are never merged, so they stay
 * outside. */
static int heap_push(struct trainer *trainer, uint32_t pair)
{
    struct entry entry = {.count = trainer->pairs[pair].count, .pair = pair};
    if (entry.count < 2)
        return 0;
    if (grow(&trainer->heap, trainer->heap_used, &trainer->heap_cap, sizeof *trainer->heap))
        return TACHO_ENOMEM;
    size_t i = trainer->heap_used++;
    for (; i > 0 && before(trainer, &entry, &trainer->heap[(i - 1) / 2]); i = (i - 1) / 2)
        trainer->heap[i] = trainer->heap[(i - 1) / 2];
    trainer->heap[i] = entry;
    return 0;
}

static struct entry heap_pop(struct trainer *trainer)
{
    struct entry top = trainer->heap[0], last = trainer->heap[--trainer->heap_used];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < trainer->heap_used; i = child) {
        if (child + 1 < trainer->heap_used &&
            before(trainer, &trainer->heap[child + 1], &trainer->heap[child]))
            child++;
        if (!before(trainer, &trainer->heap[child], &last))
            break;
        trainer->heap[i] = trainer->heap[child];
    }
    trainer->heap[i] = last;
    return top;
}

/* The pair that occurs most often, or -1. */
static int64_t next_pair(struct trainer *trainer)
{
    while (trainer->heap_used > 0) {
        struct entry entry = heap_pop(trainer);
        if (trainer->pairs[entry.pair].count == entry.count)
            return entry.pair;
        heap_push(trainer, entry.pair); /* there is room: one was taken out */
    }
    return -1;
}

/* ---- merging ------------------------------------------------------------------------------------------------------------- */

/* Replaces each `left right` in the word by the new token, and moves the counts of the pairs
 * around it: those with the old tokens lose an occurrence, those with the new token gain one. */
static int merge_word(struct trainer *trainer, uint32_t number, int32_t left, int32_t right,
                      int32_t token)
{
    struct word *word = &trainer->words[number];
    int32_t *symbols = trainer->symbols + word->at;
    uint32_t count = word->symbols, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i + 1 == count || symbols[i] != left || symbols[i + 1] != right) {
            symbols[kept++] = symbols[i];
            continue;
        }
        if (kept > 0) {
            pair_remove(trainer, symbols[kept - 1], left, number);
            if (pair_add(trainer, symbols[kept - 1], token, number))
                return TACHO_ENOMEM;
        }
        if (i + 2 < count) {
            pair_remove(trainer, right, symbols[i + 2], number);
            if (pair_add(trainer, token, symbols[i + 2], number))
                return TACHO_ENOMEM;
        }
        symbols[kept++] = token;
        i++;
    }
    word->symbols = kept;
    return 0;
}

/* Applies the merge to all words that have the pair. Pairs with the new token appear on the way
 * and enter the heap afterwards, with their final counts. */
static int merge_pair(struct trainer *trainer, uint32_t best, int32_t token)
{
    size_t old = trainer->pair_count;
    struct pair pair = trainer->pairs[best]; /* the array may move */
    trainer->pairs[best].where = NULL;
    trainer->pairs[best].used = trainer->pairs[best].cap = 0;
    int rc = 0;
    for (uint32_t i = 0; i < pair.used && rc == 0; i++)
        rc = merge_word(trainer, pair.where[i], pair.left, pair.right, token);
    free(pair.where);
    trainer->pairs[best].count = 0;
    for (size_t i = old; i < trainer->pair_count && rc == 0; i++)
        rc = heap_push(trainer, (uint32_t)i);
    return rc;
}

/* Starts with a token a byte, counts all pairs of neighbours, and merges the most frequent pair
 * again and again until the vocabulary is full or no pair occurs twice. */
static int learn(struct trainer *trainer, int32_t *merges, size_t cap, size_t *count)
{
    int rc = 0;
    trainer->symbols =
        calloc(trainer->text_used ? trainer->text_used : 1, sizeof *trainer->symbols);
    if (!trainer->symbols)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trainer->text_used; i++)
        trainer->symbols[i] = trainer->text[i];
    for (size_t word = 0; word < trainer->word_count; word++)
        for (uint32_t i = 0; i + 1 < trainer->words[word].length && rc == 0; i++)
            rc = pair_add(trainer, trainer->symbols[trainer->words[word].at + i],
                          trainer->symbols[trainer->words[word].at + i + 1], (uint32_t)word);
    for (size_t i = 0; i < trainer->pair_count && rc == 0; i++)
        rc = heap_push(trainer, (uint32_t)i);
    for (*count = 0; *count < cap && rc == 0; ++*count) {
        int64_t best = next_pair(trainer);
        if (best < 0)
            break;
        merges[2 * *count] = trainer->pairs[best].left;
        merges[2 * *count + 1] = trainer->pairs[best].right;
        rc = merge_pair(trainer, (uint32_t)best, (int32_t)(LT_BPE_BYTES + *count));
    }
    return rc;
}

int lt_bpe_train(struct lt_bpe **out, const struct lt_dataset *data, int64_t vocab,
                 struct tacho_error *err)
{
    struct trainer trainer = {0};
    size_t count = 0;
    if (vocab < LT_BPE_BYTES || vocab > LT_BPE_VOCAB)
        return tacho_fail(err, TACHO_EUSAGE, "every byte is a token, and tokens fit 16 bits",
                          "a vocabulary of %lld: it must have from %d to %d tokens",
                          (long long)vocab, LT_BPE_BYTES, LT_BPE_VOCAB);
    size_t cap = (size_t)(vocab - LT_BPE_BYTES);
    int32_t *merges = calloc(cap ? 2 * cap : 1, sizeof *merges);
    int rc = merges ? lt_bpe_words(data, count_word, &trainer, err) : TACHO_ENOMEM;
    if (rc == 0) {
        rc = learn(&trainer, merges, cap, &count);
        if (rc)
            tacho_fail(err, rc, "give less text", "out of memory");
        else
            rc = lt_bpe_create(out, merges, count, err);
    }
    for (size_t i = 0; i < trainer.pair_count; i++)
        free(trainer.pairs[i].where);
    free(trainer.words);
    free(trainer.word_table);
    free(trainer.text);
    free(trainer.symbols);
    free(trainer.pairs);
    free(trainer.pair_table);
    free(trainer.heap);
    free(merges);
    return rc;
}
