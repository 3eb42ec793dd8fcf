/* SPDX-License-Identifier: Apache-2.0
 *
 * IDX: sample i is the i-th image of one file and the i-th label of another. Features are bytes /
 * 255.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/data/format.h"
#include "libtrain/data/source.h"

struct idx {
    struct lt_source base;
    struct lt_dataset *data;
    uint64_t images, labels; /* bytes of the dataset where they start */
};

static int idx_read(const struct lt_source *source, uint64_t sample, void *raw,
                    struct tacho_error *err)
{
    const struct idx *idx = (const struct idx *)source;
    size_t each = (size_t)source->width;
    int rc = lt_dataset_read(idx->data, idx->images + sample * each, raw, each, err);
    return rc ? rc : lt_dataset_read(idx->data, idx->labels + sample, (char *)raw + each, 1, err);
}

/* Bytes / 255 as floats, then the label, which must still be one of the classes that opening
 * found. */
static int idx_decode(const struct lt_source *source, uint64_t sample, const void *raw, void *item,
                      struct tacho_error *err)
{
    const unsigned char *from = raw;
    float *features = item;
    int32_t label = from[source->width];
    for (int64_t i = 0; i < source->width; i++)
        features[i] = (float)from[i] / 255.0f;
    memcpy(features + source->width, &label, sizeof label);
    if (label >= source->classes) /* the file was another one when it was opened */
        return tacho_fail(err, TACHO_ECORRUPT, "do not change the data while a run reads it",
                          "label %d of sample %llu is not below %lld", (int)label,
                          (unsigned long long)sample, (long long)source->classes);
    return 0;
}

static void idx_close(struct lt_source *source)
{
    struct idx *idx = (struct idx *)source;
    lt_dataset_close(idx->data);
    free(idx);
}

static const struct lt_source_ops idx_ops = {"idx",      lt_source_fixed_bytes,      idx_read,
                                             idx_decode, lt_source_collate_features, idx_close,
                                             NULL};

static int parse(const struct lt_dataset *data, size_t i, struct lt_idx *idx,
                 struct tacho_error *err)
{
    unsigned char head[LT_FORMAT_HEAD];
    struct lt_dataset_file file = lt_dataset_file(data, i);
    size_t head_bytes;
    int rc = lt_format_head(data, i, head, &head_bytes, err);
    return rc ? rc : lt_format_idx(file.path, head, head_bytes, file.bytes, idx, err);
}

/* One more than the highest label. */
static int count_classes(struct idx *idx, struct tacho_error *err)
{
    unsigned char block[4096];
    for (uint64_t first = 0; first < idx->base.samples; first += sizeof block) {
        size_t count = idx->base.samples - first < sizeof block
                           ? (size_t)(idx->base.samples - first)
                           : sizeof block;
        int rc = lt_dataset_read(idx->data, idx->labels + first, block, count, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < count; i++)
            if (block[i] >= idx->base.classes)
                idx->base.classes = block[i] + 1;
    }
    return 0;
}

/* Whether the two files are images and labels, of equal number. */
static int check_pair(const struct lt_dataset *data, const struct lt_idx *images,
                      const struct lt_idx *labels, struct tacho_error *err)
{
    const char *first = lt_dataset_file(data, 0).path, *second = lt_dataset_file(data, 1).path;
    if (images->dimensions < 2 || labels->dimensions != 1)
        return tacho_fail(err, TACHO_EFORMAT,
                          "give the images first, then the labels: --data IMAGES --data LABELS",
                          "%s, %s: not images and labels (%d and %d dimensions)", first, second,
                          images->dimensions, labels->dimensions);
    if (images->count != labels->count)
        return tacho_fail(err, TACHO_EFORMAT, "give the labels that belong to the images",
                          "%s has %llu images, %s %llu labels", first,
                          (unsigned long long)images->count, second,
                          (unsigned long long)labels->count);
    return 0;
}

/* Checks the two files of the data and reads their headers. */
static int read_headers(struct lt_dataset *data, struct lt_idx *images, struct lt_idx *labels,
                        struct tacho_error *err)
{
    const char *empty = lt_dataset_empty_file(data);
    if (empty)
        return tacho_fail(err, TACHO_EFORMAT, "fetch the file again", "%s: empty", empty);
    if (lt_dataset_files(data) != 2)
        return tacho_fail(err, TACHO_EFORMAT,
                          "give --data twice: a file of images, a file of labels",
                          "%s: %zu IDX file(s), two are needed", lt_dataset_file(data, 0).path,
                          lt_dataset_files(data));
    int rc = parse(data, 0, images, err);
    rc = rc ? rc : parse(data, 1, labels, err);
    return rc ? rc : check_pair(data, images, labels, err);
}

/* Fills the source from the headers and the identity of the files. */
static void describe(struct idx *idx, struct lt_dataset *data, const struct lt_idx *images,
                     const struct lt_idx *labels, uint64_t identity)
{
    uint64_t cut[] = {0x696478, identity};
    idx->data = data;
    idx->images = images->offset;
    idx->labels = lt_dataset_file(data, 1).start + labels->offset;
    idx->base =
        (struct lt_source){.ops = &idx_ops,
                           .samples = images->count,
                           .identity = lt_source_hash(0, cut, sizeof cut),
                           .raw_bytes = (size_t)images->each + 1,
                           .item_bytes = (size_t)images->each * sizeof(float) + sizeof(int32_t),
                           .width = (int64_t)images->each,
                           .rows = (int64_t)images->side[0],
                           .columns = (int64_t)images->side[1],
                           .channels = images->side[0] ? 1 : 0};
}

int lt_source_open_idx(struct lt_source **out, struct lt_dataset *data, struct tacho_error *err)
{
    struct lt_idx images, labels;
    uint64_t identity = 0;
    struct idx *idx = calloc(1, sizeof *idx);
    int rc = idx ? 0 : lt_no_memory(err);
    if (rc == 0)
        rc = read_headers(data, &images, &labels, err);
    if (rc == 0)
        rc = lt_dataset_identity(data, &identity, err);
    if (rc) {
        lt_dataset_close(data);
        free(idx);
        return rc;
    }
    describe(idx, data, &images, &labels, identity);
    rc = count_classes(idx, err);
    if (rc) {
        lt_source_close(&idx->base);
        return rc;
    }
    *out = &idx->base;
    return 0;
}
