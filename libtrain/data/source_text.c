/* SPDX-License-Identifier: Apache-2.0
 *
 * Text, a byte a token: sample i is the t + 1 bytes from i t; the last of them is only a target.
 */
#include <stdlib.h>

#include "libtrain/base/fail.h"
#include "libtrain/data/source.h"

struct text {
    struct lt_source base;
    struct lt_dataset *data;
};

static int text_read(const struct lt_source *source, uint64_t sample, void *raw,
                     struct tacho_error *err)
{
    const struct text *text = (const struct text *)source;
    return lt_dataset_read(text->data, sample * (uint64_t)source->t, raw, source->raw_bytes, err);
}

static int text_decode(const struct lt_source *source, uint64_t sample, const void *raw, void *item,
                       struct tacho_error *err)
{
    const unsigned char *from = raw;
    int32_t *tokens = item;
    (void)sample, (void)err;
    for (size_t i = 0; i < source->raw_bytes; i++)
        tokens[i] = from[i];
    return 0;
}

static void text_close(struct lt_source *source)
{
    struct text *text = (struct text *)source;
    lt_dataset_close(text->data);
    free(text);
}

static const struct lt_source_ops text_ops = {"text",      lt_source_fixed_bytes,    text_read,
                                              text_decode, lt_source_collate_tokens, text_close,
                                              NULL};

int lt_source_open_text(struct lt_source **out, struct lt_dataset *data, int64_t t,
                        struct tacho_error *err)
{
    uint64_t bytes = lt_dataset_bytes(data), cut[] = {0x74786574, (uint64_t)t, 0};
    struct text *text = calloc(1, sizeof *text);
    int rc = 0;
    if (!text)
        rc = lt_no_memory(err);
    else if (bytes < (uint64_t)t + 1)
        rc = tacho_fail(err, TACHO_EFORMAT, "give more text with --data, or a shorter --seq",
                        "%llu bytes of text are too few for one sample of %llu",
                        (unsigned long long)bytes, (unsigned long long)t + 1);
    else
        rc = lt_dataset_identity(data, &cut[2], err);
    if (rc) {
        lt_dataset_close(data);
        free(text);
        return rc;
    }
    text->data = data;
    text->base = (struct lt_source){.ops = &text_ops,
                                    .samples = (bytes - 1) / (uint64_t)t,
                                    .identity = lt_source_hash(0, cut, sizeof cut),
                                    .raw_bytes = (size_t)t + 1,
                                    .item_bytes = ((size_t)t + 1) * sizeof(int32_t),
                                    .t = t,
                                    .classes = 256};
    *out = &text->base;
    return 0;
}
