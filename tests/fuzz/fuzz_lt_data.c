/* SPDX-License-Identifier: Apache-2.0
 *
 * Data files of the engine's loader: token shards, IDX, images. The first byte says which. Every
 * sample of what opens is read, decoded and put into a batch; tokens and labels must be below the
 * source's classes, features from 0 on and finite.
 */
#include <math.h>

#include "fuzz.h"
#include "libtrain/data/format.h"
#include "libtrain/data/source.h"

#define SAMPLES 64

static void check(int ok)
{
    if (!ok)
        abort();
}

static void check_row(const struct lt_source *s, const struct lt_rows *rows)
{
    for (int64_t i = 0; i < s->t; i++)
        check(rows->tokens[i] >= 0 && rows->tokens[i] < s->classes && rows->targets[i] >= 0 &&
              rows->targets[i] < s->classes);
    for (int64_t i = 0; i < s->width; i++)
        check(isfinite(rows->features[i]) && rows->features[i] >= 0);
    check(s->t || (rows->targets[0] >= 0 && rows->targets[0] < s->classes));
}

static void read_all(const struct lt_source *s)
{
    size_t places = (size_t)(s->t ? s->t : 1);
    char *raw = malloc(s->raw_bytes), *item = malloc(s->item_bytes);
    struct lt_rows rows = {.tokens = malloc(places * sizeof(int32_t)),
                           .features = malloc((size_t)(s->width ? s->width : 1) * sizeof(float)),
                           .targets = malloc(places * sizeof(int32_t))};
    for (uint64_t i = 0; i < s->samples && i < SAMPLES; i++) {
        check(s->ops->bytes(s, i) <= s->raw_bytes);
        if (s->ops->read(s, i, raw, NULL) || s->ops->decode(s, i, raw, item, NULL))
            continue;
        s->ops->collate(s, item, 0, &rows);
        check_row(s, &rows);
    }
    free(raw);
    free(item);
    free(rows.tokens);
    free(rows.features);
    free(rows.targets);
}

/* `split` bytes in one file, the others, if that is asked for, in a second one. */
static int open_source(struct lt_source **out, int kind, char path[2][64], int files)
{
    static const char *const folder[] = {"/proc/self/fd"};
    const char *paths[] = {path[0], path[1]};
    struct lt_dataset *data = NULL;
    if (lt_dataset_open(&data, paths, (size_t)files, NULL))
        return -1;
    if (kind == 0)
        return lt_source_open_tokens(out, data, 3, 50257, NULL);
    return kind == 1 ? lt_source_open_idx(out, data, NULL)
                     : lt_source_open_images(out, data, folder, 1, 0, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[2][64];
    if (size < 3)
        return 0;
    int kind = data[0] % 3, files = kind == 0 ? 1 : 2;
    size_t split = files == 2 ? (size - 3) * (size_t)(data[1] | data[2] << 8) / 65535 : size - 3;
    int first = fuzz_file(data + 3, split, path[0]),
        second = fuzz_file(data + 3 + split, size - 3 - split, path[1]);
    struct lt_source *source = NULL;
    if (open_source(&source, kind, path, files) == 0)
        read_all(source);
    lt_source_close(source);
    close(first);
    close(second);
    return 0;
}
