/* SPDX-License-Identifier: Apache-2.0
 *
 * Image folders: each file of a class's folder is one sample, raw PGM or PPM, or the same number of
 * bare bytes in all files. Features are values / highest value, in file order. Headers are looked
 * at when the file is read: opening is one stat a file.
 */
#include <stdlib.h>
#include <string.h>

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
    const struct images *s = (const struct images *)source;
    struct lt_dataset_file f = lt_dataset_file(s->data, sample);
    return lt_dataset_read(s->data, f.start, raw, (size_t)f.bytes, err);
}

static int images_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                         void *item, struct tacho_error *err)
{
    const struct images *s = (const struct images *)source;
    struct lt_dataset_file f = lt_dataset_file(s->data, sample);
    struct lt_pnm x = {.value_bytes = 1, .highest = 255};
    const unsigned char *from = raw;
    float *to = item;
    if (!s->bare) {
        size_t n = f.bytes < LT_FORMAT_HEAD ? (size_t)f.bytes : LT_FORMAT_HEAD;
        int rc = lt_format_pnm(f.path, from, n, f.bytes, &x, err);
        if (rc)
            return rc;
        if (x.width != s->columns || x.height != s->rows || x.channels != s->channels)
            return tacho_fail(err, TACHO_ECORRUPT,
                              "bring all images to one size; nothing is scaled here",
                              "%s: %lu x %lu pixels of %d, the first image has %lu x %lu of %d",
                              f.path, (unsigned long)x.width, (unsigned long)x.height, x.channels,
                              (unsigned long)s->columns, (unsigned long)s->rows, s->channels);
        from += x.offset;
    }
    for (int64_t i = 0; i < source->width; i++)
        to[i] = (float)(x.value_bytes == 1 ? from[i] : from[2 * i] << 8 | from[2 * i + 1]) /
                (float)x.highest;
    memcpy(to + source->width, &s->label[sample], sizeof *s->label);
    return 0;
}

static void images_close(struct lt_source *source)
{
    struct images *s = (struct images *)source;
    lt_dataset_close(s->data);
    free(s->label);
    free(s);
}

static const struct lt_source_ops images_ops = {
    "images", images_bytes, images_read, images_decode, lt_source_collate_features, images_close};

/* Files come in the order of the folders, so the folder only ever advances. */
static int label_files(struct images *s, const char *const *folders, size_t classes,
                       struct tacho_error *err)
{
    size_t folder = 0;
    for (size_t i = 0; i < s->base.samples; i++) {
        struct lt_dataset_file f = lt_dataset_file(s->data, i);
        const char *slash = strrchr(f.path, '/');
        size_t length = slash ? (size_t)(slash - f.path) : 0;
        while (folder < classes &&
               (strlen(folders[folder]) != length || strncmp(folders[folder], f.path, length) != 0))
            folder++;
        if (folder == classes)
            return tacho_fail(err, TACHO_EINTERNAL, NULL, "%s: of no folder", f.path);
        s->label[i] = (int32_t)folder;
        if (f.bytes > s->base.raw_bytes)
            s->base.raw_bytes = (size_t)f.bytes;
    }
    return 0;
}

/* What all images must be like, from the first of them. */
static int look_at_first(struct images *s, struct tacho_error *err)
{
    unsigned char head[LT_FORMAT_HEAD];
    struct lt_dataset_file f = lt_dataset_file(s->data, 0);
    size_t n = f.bytes < sizeof head ? (size_t)f.bytes : sizeof head;
    struct lt_pnm x;
    int rc = lt_dataset_read(s->data, f.start, head, n, err);
    if (rc)
        return rc;
    s->bare = !lt_format_is_pnm(head, n);
    if (!s->bare) {
        rc = lt_format_pnm(f.path, head, n, f.bytes, &x, err);
        s->columns = x.width;
        s->rows = x.height;
        s->channels = x.channels;
        s->base.width = rc ? 0 : (int64_t)x.width * x.height * x.channels;
        return rc;
    }
    s->base.width = (int64_t)f.bytes;
    for (size_t i = 1; i < s->base.samples; i++) {
        struct lt_dataset_file other = lt_dataset_file(s->data, i);
        if (other.bytes != f.bytes)
            return tacho_fail(
                err, TACHO_EFORMAT,
                "bare images have one size; else convert them to raw PGM (P5) or PPM (P6)",
                "%s: %llu bytes, the first image has %llu", other.path,
                (unsigned long long)other.bytes, (unsigned long long)f.bytes);
    }
    return 0;
}

int lt_source_open_images(struct lt_source **out, struct lt_dataset *data,
                          const char *const *folders, size_t classes, struct tacho_error *err)
{
    uint64_t cut[] = {0x696d67, classes, 0};
    const char *empty = lt_dataset_empty_file(data);
    struct images *s = calloc(1, sizeof *s);
    int rc = 0;
    if (!s) {
        lt_dataset_close(data);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    }
    s->data = data;
    s->base = (struct lt_source){
        .ops = &images_ops, .samples = lt_dataset_files(data), .classes = (int64_t)classes};
    s->label = calloc(s->base.samples, sizeof *s->label);
    if (!s->label)
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "out of memory");
    else if (empty)
        rc = tacho_fail(err, TACHO_EFORMAT, "remove it, or write it anew", "%s: empty", empty);
    if (rc == 0)
        rc = label_files(s, folders, classes, err);
    if (rc == 0)
        rc = look_at_first(s, err);
    if (rc == 0)
        rc = lt_dataset_identity(data, &cut[2], err);
    if (rc) {
        lt_source_close(&s->base);
        return rc;
    }
    s->base.identity = lt_source_hash(lt_source_hash(0, cut, sizeof cut), s->label,
                                      s->base.samples * sizeof *s->label);
    s->base.item_bytes = (size_t)s->base.width * sizeof(float) + sizeof(int32_t);
    *out = &s->base;
    return 0;
}
