/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning merges. Words are counted first; then the pair that occurs most often is merged in all
 * words that have it, again and again. A heap holds the pairs by count: counts only fall once a
 * pair has been entered, so an entry that is out of date is put back where it belongs when it comes
 * up. A pair with the newest token is entered when that merge is done.
 */
#include <stdlib.h>
#include <string.h>

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
    int32_t *symbols;    /* what stands for them */
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

static int rehash_words(struct trainer *t)
{
    size_t slots = t->word_slots ? 2 * t->word_slots : 1024;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return TACHO_ENOMEM;
    for (size_t w = 0; w < t->word_count; w++) {
        size_t i = t->words[w].hash & (slots - 1);
        while (table[i])
            i = (i + 1) & (slots - 1);
        table[i] = (uint32_t)w + 1;
    }
    free(t->word_table);
    t->word_table = table;
    t->word_slots = slots;
    return 0;
}

static int new_word(struct trainer *t, const unsigned char *word, size_t n, uint64_t hash)
{
    if (grow(&t->words, t->word_count, &t->word_cap, sizeof *t->words))
        return TACHO_ENOMEM;
    while (t->text_used + n > t->text_cap)
        if (grow(&t->text, t->text_cap, &t->text_cap, 1))
            return TACHO_ENOMEM;
    memcpy(t->text + t->text_used, word, n);
    t->words[t->word_count++] = (struct word){.at = t->text_used,
                                              .length = (uint32_t)n,
                                              .symbols = (uint32_t)n,
                                              .count = 1,
                                              .hash = hash};
    t->text_used += n;
    return 0;
}

static int count_word(void *arg, uint64_t at, const unsigned char *word, size_t n,
                      struct tacho_error *err)
{
    struct trainer *t = arg;
    uint64_t hash = lt_source_hash(n, word, n);
    (void)at;
    if (2 * (t->word_count + 1) > t->word_slots && rehash_words(t))
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    size_t i = hash & (t->word_slots - 1);
    for (; t->word_table[i]; i = (i + 1) & (t->word_slots - 1)) {
        struct word *w = &t->words[t->word_table[i] - 1];
        if (w->hash == hash && w->length == n && memcmp(t->text + w->at, word, n) == 0) {
            w->count++;
            return 0;
        }
    }
    if (t->word_count >= UINT32_MAX - 1 || new_word(t, word, n, hash))
        return tacho_fail(err, TACHO_ENOMEM, "give less text", "out of memory");
    t->word_table[i] = (uint32_t)t->word_count;
    return 0;
}

/* ---- pairs --------------------------------------------------------------------------------------------------------------- */

static size_t pair_place(const struct trainer *t, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t i = lt_random_bits(1, key) & (t->pair_slots - 1);
    while (t->pair_table[i]) {
        const struct pair *p = &t->pairs[t->pair_table[i] - 1];
        if (p->left == left && p->right == right)
            break;
        i = (i + 1) & (t->pair_slots - 1);
    }
    return i;
}

static int rehash_pairs(struct trainer *t)
{
    size_t slots = t->pair_slots ? 2 * t->pair_slots : 1024;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return TACHO_ENOMEM;
    free(t->pair_table);
    t->pair_table = table;
    t->pair_slots = slots;
    for (size_t p = 0; p < t->pair_count; p++)
        table[pair_place(t, t->pairs[p].left, t->pairs[p].right)] = (uint32_t)p + 1;
    return 0;
}

/* One occurrence more in that word, for each time that the word occurs. */
static int pair_add(struct trainer *t, int32_t left, int32_t right, uint32_t word)
{
    if (2 * (t->pair_count + 1) > t->pair_slots && rehash_pairs(t))
        return TACHO_ENOMEM;
    size_t i = pair_place(t, left, right), cap;
    if (!t->pair_table[i]) {
        if (grow(&t->pairs, t->pair_count, &t->pair_cap, sizeof *t->pairs))
            return TACHO_ENOMEM;
        t->pairs[t->pair_count++] = (struct pair){.left = left, .right = right};
        t->pair_table[i] = (uint32_t)t->pair_count;
    }
    struct pair *p = &t->pairs[t->pair_table[i] - 1];
    p->count += (int64_t)t->words[word].count;
    if (p->used > 0 && p->where[p->used - 1] == word)
        return 0;
    cap = p->cap;
    if (grow(&p->where, p->used, &cap, sizeof *p->where))
        return TACHO_ENOMEM;
    p->cap = (uint32_t)cap;
    p->where[p->used++] = word;
    return 0;
}

static void pair_remove(struct trainer *t, int32_t left, int32_t right, uint32_t word)
{
    size_t i = pair_place(t, left, right);
    if (t->pair_table[i])
        t->pairs[t->pair_table[i] - 1].count -= (int64_t)t->words[word].count;
}

/* ---- heap ---------------------------------------------------------------------------------------------------------------- */

static int before(const struct trainer *t, const struct entry *a, const struct entry *b)
{
    const struct pair *p = &t->pairs[a->pair], *q = &t->pairs[b->pair];
    if (a->count != b->count)
        return a->count > b->count;
    return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static int heap_push(struct trainer *t, uint32_t pair)
{
    struct entry e = {.count = t->pairs[pair].count, .pair = pair};
    if (e.count < 2)
        return 0;
    if (grow(&t->heap, t->heap_used, &t->heap_cap, sizeof *t->heap))
        return TACHO_ENOMEM;
    size_t i = t->heap_used++;
    for (; i > 0 && before(t, &e, &t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = e;
    return 0;
}

static struct entry heap_pop(struct trainer *t)
{
    struct entry top = t->heap[0], last = t->heap[--t->heap_used];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < t->heap_used; i = child) {
        if (child + 1 < t->heap_used && before(t, &t->heap[child + 1], &t->heap[child]))
            child++;
        if (!before(t, &t->heap[child], &last))
            break;
        t->heap[i] = t->heap[child];
    }
    t->heap[i] = last;
    return top;
}

/* The pair that occurs most often, or -1. */
static int64_t next_pair(struct trainer *t)
{
    while (t->heap_used > 0) {
        struct entry e = heap_pop(t);
        if (t->pairs[e.pair].count == e.count)
            return e.pair;
        heap_push(t, e.pair); /* there is room: one was taken out */
    }
    return -1;
}

/* ---- merging ------------------------------------------------------------------------------------------------------------- */

static int merge_word(struct trainer *t, uint32_t number, int32_t left, int32_t right,
                      int32_t token)
{
    struct word *w = &t->words[number];
    int32_t *s = t->symbols + w->at;
    uint32_t n = w->symbols, to = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i + 1 == n || s[i] != left || s[i + 1] != right) {
            s[to++] = s[i];
            continue;
        }
        if (to > 0) {
            pair_remove(t, s[to - 1], left, number);
            if (pair_add(t, s[to - 1], token, number))
                return TACHO_ENOMEM;
        }
        if (i + 2 < n) {
            pair_remove(t, right, s[i + 2], number);
            if (pair_add(t, token, s[i + 2], number))
                return TACHO_ENOMEM;
        }
        s[to++] = token;
        i++;
    }
    w->symbols = to;
    return 0;
}

static int merge_pair(struct trainer *t, uint32_t best, int32_t token)
{
    size_t old = t->pair_count;
    struct pair p = t->pairs[best]; /* the array may move */
    t->pairs[best].where = NULL;
    t->pairs[best].used = t->pairs[best].cap = 0;
    int rc = 0;
    for (uint32_t i = 0; i < p.used && rc == 0; i++)
        rc = merge_word(t, p.where[i], p.left, p.right, token);
    free(p.where);
    t->pairs[best].count = 0;
    for (size_t i = old; i < t->pair_count && rc == 0; i++)
        rc = heap_push(t, (uint32_t)i);
    return rc;
}

static int learn(struct trainer *t, int32_t *merges, size_t cap, size_t *count)
{
    int rc = 0;
    t->symbols = calloc(t->text_used ? t->text_used : 1, sizeof *t->symbols);
    if (!t->symbols)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->text_used; i++)
        t->symbols[i] = t->text[i];
    for (size_t w = 0; w < t->word_count; w++)
        for (uint32_t i = 0; i + 1 < t->words[w].length && rc == 0; i++)
            rc = pair_add(t, t->symbols[t->words[w].at + i], t->symbols[t->words[w].at + i + 1],
                          (uint32_t)w);
    for (size_t i = 0; i < t->pair_count && rc == 0; i++)
        rc = heap_push(t, (uint32_t)i);
    for (*count = 0; *count < cap && rc == 0; ++*count) {
        int64_t best = next_pair(t);
        if (best < 0)
            break;
        merges[2 * *count] = t->pairs[best].left;
        merges[2 * *count + 1] = t->pairs[best].right;
        rc = merge_pair(t, (uint32_t)best, (int32_t)(LT_BPE_BYTES + *count));
    }
    return rc;
}

int lt_bpe_train(struct lt_bpe **out, const struct lt_dataset *data, int64_t vocab,
                 struct tacho_error *err)
{
    struct trainer t = {0};
    size_t count = 0;
    if (vocab < LT_BPE_BYTES || vocab > LT_BPE_VOCAB)
        return tacho_fail(err, TACHO_EUSAGE, "every byte is a token, and tokens fit 16 bits",
                          "a vocabulary of %lld: from %d to %d is possible", (long long)vocab,
                          LT_BPE_BYTES, LT_BPE_VOCAB);
    size_t cap = (size_t)(vocab - LT_BPE_BYTES);
    int32_t *merges = calloc(cap ? 2 * cap : 1, sizeof *merges);
    int rc = merges ? lt_bpe_words(data, count_word, &t, err) : TACHO_ENOMEM;
    if (rc == 0) {
        rc = learn(&t, merges, cap, &count);
        if (rc)
            tacho_fail(err, rc, "give less text", "out of memory");
        else
            rc = lt_bpe_create(out, merges, count, err);
    }
    for (size_t i = 0; i < t.pair_count; i++)
        free(t.pairs[i].where);
    free(t.words);
    free(t.word_table);
    free(t.text);
    free(t.symbols);
    free(t.pairs);
    free(t.pair_table);
    free(t.heap);
    free(merges);
    return rc;
}
