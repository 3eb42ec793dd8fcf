/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting sort by digits of 11 bits, the least significant first. Digits that are the same in all
 * keys are skipped, and so is an input that is sorted already.
 */
#include "analyzers/base/radix.h"

#include <stdbool.h>
#include <string.h>

#define DIGIT  11 /* bits a pass: 2048 counters stay in the first cache */
#define DIGITS (1u << DIGIT)

/* One stable pass by the digit at `shift`: counts each digit, turns the counts into the place of
 * its first pair, and copies the pairs there. */
static void sort_by_digit(const struct an_pair *pair, struct an_pair *out, size_t count,
                          unsigned shift)
{
    size_t offset[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        offset[pair[i].key >> shift & (DIGITS - 1)]++;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t digit_count = offset[digit];
        offset[digit] = sum;
        sum += digit_count;
    }
    for (size_t i = 0; i < count; i++)
        out[offset[pair[i].key >> shift & (DIGITS - 1)]++] = pair[i];
}

void an_pairs_sort(struct an_pair *pair, struct an_pair *work, size_t count)
{
    uint64_t any = 0;
    bool sorted = true;
    for (size_t i = 1; i < count; i++) {
        any |= pair[i].key ^ pair[0].key;
        sorted = sorted && pair[i - 1].key <= pair[i].key;
    }
    if (sorted)
        return;
    struct an_pair *from = pair, *to = work;
    for (unsigned shift = 0; shift < 64; shift += DIGIT) {
        if (!(any >> shift & (DIGITS - 1)))
            continue;
        sort_by_digit(from, to, count, shift);
        struct an_pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != pair)
        memcpy(pair, from, count * sizeof *pair);
}

size_t an_pairs_seek(const struct an_pair *pair, size_t count, uint64_t key)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pair[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
