/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of texts by the hash of the operands, with open addressing. A place is taken under the
 * lock, its text before its key, and never given back.
 */
#include "libtrain/speak/operands.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PLACES    16384u
#define TEXTS     (PLACES / 2) /* what is beyond is not named */
#define WORD_MOST 40           /* characters: a letter, two numbers, '+' and a space */

struct lt_operands {
    pthread_mutex_t lock;
    size_t count;
    struct {
        _Atomic uint64_t key; /* 0: free */
        nvtxStringHandle_t text;
    } place[PLACES];
};

struct lt_operands *lt_operands_new(void)
{
    struct lt_operands *operands = calloc(1, sizeof *operands);
    if (operands)
        pthread_mutex_init(&operands->lock, NULL);
    return operands;
}

void lt_operands_free(struct lt_operands *operands)
{
    if (operands)
        pthread_mutex_destroy(&operands->lock);
    free(operands);
}

/* Two sets of one hash are taken for one: of 8,192 that is one case in 10^11. */
static uint64_t hash_of(const struct lt_operand *operand, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)(uintptr_t)operand[i].at) * 0x9e3779b97f4a7c15u;
        hash = (hash ^ hash >> 29 ^ operand[i].bytes << 2 ^ operand[i].how) * 0xbf58476d1ce4e5b9u;
        hash ^= hash >> 32;
    }
    return hash ? hash : 1;
}

/* The place of a key, or the free one where it belongs. */
static size_t find(const struct lt_operands *operands, uint64_t key)
{
    size_t at = (size_t)key & (PLACES - 1);
    uint64_t known;
    while ((known = atomic_load_explicit(&operands->place[at].key, memory_order_acquire)) &&
           known != key)
        at = (at + 1) & (PLACES - 1);
    return at;
}

static nvtxStringHandle_t make(const struct tacho_nvtx *nvtx, const struct lt_operand *operand,
                               size_t count)
{
    static const char letters[] = " rwu";
    char text[LT_OPERANDS_MOST * WORD_MOST];
    int used = 0;
    for (size_t i = 0; i < count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%c%" PRIxPTR "+%" PRIx64,
                         i ? " " : "", letters[operand[i].how & 3], (uintptr_t)operand[i].at,
                         operand[i].bytes);
    return tacho_nvtx_name(nvtx, text);
}

nvtxStringHandle_t lt_operands_text(struct lt_operands *operands, const struct tacho_nvtx *nvtx,
                                    const struct lt_operand *operand, size_t count)
{
    uint64_t key = hash_of(operand, count);
    size_t at = find(operands, key);
    if (atomic_load_explicit(&operands->place[at].key, memory_order_relaxed))
        return operands->place[at].text;
    pthread_mutex_lock(&operands->lock);
    at = find(operands, key);
    if (!atomic_load_explicit(&operands->place[at].key, memory_order_relaxed) &&
        operands->count < TEXTS) {
        operands->count++;
        operands->place[at].text = make(nvtx, operand, count);
        atomic_store_explicit(&operands->place[at].key, key, memory_order_release);
    }
    bool known = atomic_load_explicit(&operands->place[at].key, memory_order_relaxed) == key;
    pthread_mutex_unlock(&operands->lock);
    return known ? operands->place[at].text : NULL;
}
