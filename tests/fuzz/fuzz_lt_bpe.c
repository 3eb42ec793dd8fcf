/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer's file, merges as numbers, and any text. What loads must cut any text into words
 * that stand alone, and give back its bytes. The first byte says whether the rest is a file, or
 * merges of two bytes each and then text.
 */
#include <string.h>

#include "fuzz.h"
#include "libtrain/data/bpe.h"

static void check(int ok)
{
    if (!ok)
        abort();
}

static void round_trip(const struct lt_bpe *b, const uint8_t *text, size_t n)
{
    int32_t *tokens = malloc((n ? n : 1) * sizeof *tokens);
    size_t count = lt_bpe_encode(b, text, n, tokens), at = 0, length;
    check(count <= n);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *bytes = lt_bpe_bytes(b, tokens[i], &length);
        check(bytes && at + length <= n && memcmp(bytes, text + at, length) == 0);
        at += length;
    }
    check(at == n);
    free(tokens);
    for (at = 0; at < n; at += length) {
        length = lt_bpe_word(text + at, n - at);
        check(length > 0 && length <= LT_BPE_WORD && length <= n - at &&
              lt_bpe_word(text + at, length) == length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lt_bpe *b = NULL;
    char path[64];
    if (size < 2)
        return 0;
    if (data[0] % 2 == 0) {
        int fd = fuzz_file(data + 1, size - 1, path);
        if (lt_bpe_load(&b, path, NULL) == 0)
            round_trip(b, data, size);
        close(fd);
    } else {
        int32_t pairs[2 * 255];
        size_t merges = data[1], i;
        for (i = 0; i < merges && 4 * i + 6 <= size; i++) {
            const uint8_t *p = data + 2 + 4 * i;
            pairs[2 * i] = p[0] | (p[1] & 1) << 8;
            pairs[2 * i + 1] = p[2] | (p[3] & 1) << 8;
        }
        if (lt_bpe_create(&b, pairs, i, NULL) == 0)
            round_trip(b, data + 2 + 4 * i, size - 2 - 4 * i);
    }
    lt_bpe_destroy(b);
    return 0;
}
