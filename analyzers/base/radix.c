/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/radix.h"

#include <stdbool.h>
#include <string.h>

#define DIGIT  11 /* bits a pass: 2048 counters stay in the first cache */
#define DIGITS (1u << DIGIT)

/* One pass of a counting sort by the digit at `shift`. */
static void pass(const struct an_pair *pair, struct an_pair *out, size_t n, unsigned shift)
{
    size_t at[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++)
        at[pair[i].key >> shift & (DIGITS - 1)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        out[at[pair[i].key >> shift & (DIGITS - 1)]++] = pair[i];
}

void an_pairs_sort(struct an_pair *pair, struct an_pair *work, size_t n)
{
    uint64_t any = 0;
    bool sorted = true;
    for (size_t i = 1; i < n; i++) {
        any |= pair[i].key ^ pair[0].key;
        sorted = sorted && pair[i - 1].key <= pair[i].key;
    }
    if (sorted)
        return;
    struct an_pair *from = pair, *to = work;
    for (unsigned shift = 0; shift < 64; shift += DIGIT) {
        if (!(any >> shift & (DIGITS - 1)))
            continue;
        pass(from, to, n, shift);
        struct an_pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != pair)
        memcpy(pair, from, n * sizeof *pair);
}
