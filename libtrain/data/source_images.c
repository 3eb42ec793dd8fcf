/* SPDX-License-Identifier: Apache-2.0
 *
 * Image folders: each file of a class's folder is one sample, raw PGM or PPM, or the same number of
 * bare bytes in all files. Features are values / highest value, in file order. Headers are looked
 * at when the file is read: opening is one stat a file.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/data/format.h"
#include "libtrain/data/source.h"

struct images {
    struct lt_source base;
    struct lt_dataset *data;
    int bare;
    uint32_t columns, rows; /* of PGM and PPM */
    int channels;
    int32_t *label; /* of each file */
};

static size_t images_bytes(const struct lt_source *source, uint64_t sample)
{
    return (size_t)lt_dataset_file(((const struct images *)source)->data, sample).bytes;
}

static int images_read(const struct lt_source *source, uint64_t sample, void *raw,
                       struct tacho_error *err)
{
    const struct images *images = (const struct images *)source;
    struct lt_dataset_file file = lt_dataset_file(images->data, sample);
    return lt_dataset_read(images->data, file.start, raw, (size_t)file.bytes, err);
}

/* Values / highest value as floats, then the label. A header is checked against the first image
 * here, when the file is read, so that opening a large folder needs no look into its files. */
static int images_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                         void *item, struct tacho_error *err)
{
    const struct images *images = (const struct images *)source;
    struct lt_dataset_file file = lt_dataset_file(images->data, sample);
    struct lt_pnm pnm = {.value_bytes = 1, .highest = 255};
    const unsigned char *from = raw;
    float *features = item;
    if (!images->bare) {
        size_t n = file.bytes < LT_FORMAT_HEAD ? (size_t)file.bytes : LT_FORMAT_HEAD;
        int rc = lt_format_pnm(file.path, from, n, file.bytes, &pnm, err);
        if (rc)
            return rc;
        if (pnm.width != images->columns || pnm.height != images->rows ||
            pnm.channels != images->channels)
            return tacho_fail(
                err, TACHO_ECORRUPT, "resize all images to one size; train does not scale them",
                "%s: %lu x %lu pixels of %d, the first image has %lu x %lu of %d", file.path,
                (unsigned long)pnm.width, (unsigned long)pnm.height, pnm.channels,
                (unsigned long)images->columns, (unsigned long)images->rows, images->channels);
        from += pnm.offset;
    }
    for (int64_t i = 0; i < source->width; i++)
        features[i] = (float)(pnm.value_bytes == 1 ? from[i] : from[2 * i] << 8 | from[2 * i + 1]) /
                      (float)pnm.highest;
    memcpy(features + source->width, &images->label[sample], sizeof *images->label);
    return 0;
}

static void images_close(struct lt_source *source)
{
    struct images *images = (struct images *)source;
    lt_dataset_close(images->data);
    free(images->label);
    free(images);
}

static const struct lt_source_ops images_ops = {
    "images", images_bytes, images_read, images_decode, lt_source_collate_features, images_close};

/* Files come in the order of the folders, so the folder only ever advances. */
static int label_files(struct images *images, const char *const *folders, size_t classes,
                       struct tacho_error *err)
{
    size_t folder = 0;
    for (size_t i = 0; i < images->base.samples; i++) {
        struct lt_dataset_file file = lt_dataset_file(images->data, i);
        const char *slash = strrchr(file.path, '/');
        size_t length = slash ? (size_t)(slash - file.path) : 0;
        while (folder < classes && (strlen(folders[folder]) != length ||
                                    strncmp(folders[folder], file.path, length) != 0))
            folder++;
        if (folder == classes)
            return tacho_fail(err, TACHO_EINTERNAL, NULL, "%s: not in a class folder", file.path);
        images->label[i] = (int32_t)folder;
        if (file.bytes > images->base.raw_bytes)
            images->base.raw_bytes = (size_t)file.bytes;
    }
    return 0;
}

/* What all images must be like, from the first of them. */
static int look_at_first(struct images *images, struct tacho_error *err)
{
    unsigned char head[LT_FORMAT_HEAD];
    struct lt_dataset_file file = lt_dataset_file(images->data, 0);
    size_t head_bytes;
    struct lt_pnm pnm;
    int rc = lt_format_head(images->data, 0, head, &head_bytes, err);
    if (rc)
        return rc;
    images->bare = !lt_format_is_pnm(head, head_bytes);
    if (!images->bare) {
        rc = lt_format_pnm(file.path, head, head_bytes, file.bytes, &pnm, err);
        images->columns = pnm.width;
        images->rows = pnm.height;
        images->channels = pnm.channels;
        images->base.width = rc ? 0 : (int64_t)pnm.width * pnm.height * pnm.channels;
        images->base.rows = pnm.height;
        images->base.columns = pnm.width;
        images->base.channels = pnm.channels;
        return rc;
    }
    images->base.width = (int64_t)file.bytes;
    for (size_t i = 1; i < images->base.samples; i++) {
        struct lt_dataset_file other = lt_dataset_file(images->data, i);
        if (other.bytes != file.bytes)
            return tacho_fail(
                err, TACHO_EFORMAT,
                "bare images have one size; else convert them to raw PGM (P5) or PPM (P6)",
                "%s: %llu bytes, the first image has %llu", other.path,
                (unsigned long long)other.bytes, (unsigned long long)file.bytes);
    }
    return 0;
}

int lt_source_open_images(struct lt_source **out, struct lt_dataset *data,
                          const char *const *folders, size_t classes, struct tacho_error *err)
{
    uint64_t cut[] = {0x696d67, classes, 0};
    const char *empty = lt_dataset_empty_file(data);
    struct images *images = calloc(1, sizeof *images);
    int rc = 0;
    if (!images) {
        lt_dataset_close(data);
        return lt_no_memory(err);
    }
    images->data = data;
    images->base = (struct lt_source){
        .ops = &images_ops, .samples = lt_dataset_files(data), .classes = (int64_t)classes};
    images->label = calloc(images->base.samples, sizeof *images->label);
    if (!images->label)
        rc = lt_no_memory(err);
    else if (empty)
        rc = tacho_fail(err, TACHO_EFORMAT, "remove it, or write it again", "%s: empty", empty);
    if (rc == 0)
        rc = label_files(images, folders, classes, err);
    if (rc == 0)
        rc = look_at_first(images, err);
    if (rc == 0)
        rc = lt_dataset_identity(data, &cut[2], err);
    if (rc) {
        lt_source_close(&images->base);
        return rc;
    }
    images->base.identity = lt_source_hash(lt_source_hash(0, cut, sizeof cut), images->label,
                                           images->base.samples * sizeof *images->label);
    images->base.item_bytes = (size_t)images->base.width * sizeof(float) + sizeof(int32_t);
    *out = &images->base;
    return 0;
}
