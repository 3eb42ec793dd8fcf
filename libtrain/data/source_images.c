/* SPDX-License-Identifier: Apache-2.0
 *
 * Image folders: each file of a class's folder is one sample: JPEG, PNG, raw PGM or PPM, or the
 * same number of bare bytes in all files. Features are values / highest value, row by row. Headers
 * are looked at when the file is read: opening is one stat a file, and a look at the first one.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/data/format.h"
#include "libtrain/data/picture.h"
#include "libtrain/data/source.h"

struct images {
    struct lt_source base;
    struct lt_dataset *data;
    int bare;
    struct lt_picture first; /* of files with headers */
    int64_t side;            /* they are scaled to that many pixels a side; 0: not */
    int32_t *label;          /* of each file */
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

/* An image of any size becomes one of side x side pixels. */
static int decode_scaled(const struct images *images, const char *path, const void *raw,
                         size_t bytes, const struct lt_picture *picture, float *features,
                         struct tacho_error *err)
{
    size_t count = (size_t)picture->columns * picture->rows * (size_t)picture->channels;
    float *whole = malloc(count * sizeof *whole);
    int rc = whole ? 0 : lt_no_memory(err);
    if (rc == 0)
        rc = lt_picture_decode(path, raw, bytes, picture, whole, err);
    if (rc == 0)
        rc = lt_picture_scale(picture, whole, images->side, features, err);
    free(whole);
    return rc;
}

/* A file with a header: it is compared with the first image's here, when the file is read, so that
 * opening a large folder needs no look into its files. */
static int decode_picture(const struct images *images, const char *path, const void *raw,
                          size_t bytes, float *features, struct tacho_error *err)
{
    const struct lt_picture *first = &images->first;
    struct lt_picture picture;
    int rc = lt_picture_look(path, raw, bytes, &picture, err);
    if (rc)
        return rc;
    int size = picture.columns != first->columns || picture.rows != first->rows,
        kind = picture.channels != first->channels && lt_format_is_pnm(raw, bytes);
    if ((size && !images->side) || kind)
        return tacho_fail(err, TACHO_ECORRUPT,
                          size ? "--image-size N scales all images to N x N pixels"
                               : "convert it to the others' kind",
                          "%s: %lu x %lu pixels of %d, the first image has %lu x %lu of %d", path,
                          (unsigned long)picture.columns, (unsigned long)picture.rows,
                          picture.channels, (unsigned long)first->columns,
                          (unsigned long)first->rows, first->channels);
    picture.channels = first->channels;
    if (images->side)
        return decode_scaled(images, path, raw, bytes, &picture, features, err);
    return lt_picture_decode(path, raw, bytes, &picture, features, err);
}

/* Values / highest value as floats, then the label. */
static int images_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                         void *item, struct tacho_error *err)
{
    const struct images *images = (const struct images *)source;
    struct lt_dataset_file file = lt_dataset_file(images->data, sample);
    const unsigned char *from = raw;
    float *features = item;
    memcpy(features + source->width, &images->label[sample], sizeof *images->label);
    if (!images->bare)
        return decode_picture(images, file.path, raw, (size_t)file.bytes, features, err);
    for (int64_t i = 0; i < source->width; i++)
        features[i] = (float)from[i] / 255.0f;
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
    "images",     images_bytes, images_read, images_decode, lt_source_collate_features,
    images_close, NULL};

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

/* Bare bytes: all files have as many. */
static int check_bare(struct images *images, struct tacho_error *err)
{
    struct lt_dataset_file file = lt_dataset_file(images->data, 0);
    images->base.width = (int64_t)file.bytes;
    for (size_t i = 1; i < images->base.samples; i++) {
        struct lt_dataset_file other = lt_dataset_file(images->data, i);
        if (other.bytes != file.bytes)
            return tacho_fail(
                err, TACHO_EFORMAT,
                "bare images have one size; else give JPEG, PNG, raw PGM (P5) or PPM (P6)",
                "%s: %llu bytes, the first image has %llu", other.path,
                (unsigned long long)other.bytes, (unsigned long long)file.bytes);
    }
    if (images->side)
        return tacho_fail(err, TACHO_EFORMAT, "leave it out, or give JPEG, PNG, PGM or PPM",
                          "%s: bare bytes, whose rows and columns --image-size cannot know",
                          file.path);
    return 0;
}

/* What all images must be like, from the first of them, which is read whole: the size of a JPEG may
 * follow many kilobytes of what a camera wrote. */
static int look_at_first(struct images *images, struct tacho_error *err)
{
    struct lt_dataset_file file = lt_dataset_file(images->data, 0);
    struct lt_picture *first = &images->first;
    unsigned char *whole = malloc((size_t)file.bytes);
    int rc = whole ? lt_dataset_read(images->data, file.start, whole, (size_t)file.bytes, err)
                   : lt_no_memory(err);
    images->bare = rc == 0 && !lt_picture_is(whole, (size_t)file.bytes);
    if (rc == 0 && images->bare)
        rc = check_bare(images, err);
    else if (rc == 0)
        rc = lt_picture_look(file.path, whole, (size_t)file.bytes, first, err);
    free(whole);
    if (rc || images->bare)
        return rc;
    images->base.rows = images->side ? images->side : first->rows;
    images->base.columns = images->side ? images->side : first->columns;
    images->base.channels = first->channels;
    images->base.width = images->base.rows * images->base.columns * images->base.channels;
    return 0;
}

int lt_source_open_images(struct lt_source **out, struct lt_dataset *data,
                          const char *const *folders, size_t classes, int64_t side,
                          struct tacho_error *err)
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
    images->side = side;
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
    if (side) /* an identity of older checkpoints stays what it was */
        images->base.identity = lt_source_hash(images->base.identity, &side, sizeof side);
    images->base.item_bytes = (size_t)images->base.width * sizeof(float) + sizeof(int32_t);
    *out = &images->base;
    return 0;
}
