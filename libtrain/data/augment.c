/* SPDX-License-Identifier: Apache-2.0
 *
 * A source in front of another one, whose item is the other's item followed by what is made of it.
 */
#include "libtrain/data/augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"
#include "libtrain/ops/random.h"

#define CHANNEL_CAP 4

struct augmented {
    struct lt_source base;
    struct lt_source *inner;
    struct lt_augment how;
    size_t made_at; /* byte of an item where the augmented image begins */
    float mean[CHANNEL_CAP], inverse[CHANNEL_CAP]; /* of each channel; 0 and 1: not normalised */
};

int lt_augment_any(const struct lt_augment *how)
{
    return how->pad || how->crop || how->flip || how->normalise;
}

static const struct augmented *of(const struct lt_source *source)
{
    return (const struct augmented *)source;
}

static size_t augmented_bytes(const struct lt_source *source, uint64_t sample)
{
    return of(source)->inner->ops->bytes(of(source)->inner, sample);
}

static int augmented_read(const struct lt_source *source, uint64_t sample, void *raw,
                          struct tacho_error *err)
{
    return of(source)->inner->ops->read(of(source)->inner, sample, raw, err);
}

static int augmented_decode(const struct lt_source *source, uint64_t sample, const void *raw,
                            void *item, struct tacho_error *err)
{
    return of(source)->inner->ops->decode(of(source)->inner, sample, raw, item, err);
}

/* ---- the stage --------------------------------------------------------------------------------------------------------- */

/* Where the part lies in the image, whose first pixel is 0, and whether it is mirrored. */
struct place {
    int64_t row, column;
    int mirrored;
};

/* An even choice of 0 .. most. */
static int64_t choose(uint64_t key, uint64_t counter, int64_t most)
{
    return (int64_t)(lt_random_bits(key, counter) % (uint64_t)(most + 1));
}

static struct place place_of(const struct augmented *augmented, const uint64_t *key)
{
    const struct lt_source *own = &augmented->base, *inner = augmented->inner;
    int64_t pad = augmented->how.pad, rows = inner->rows + 2 * pad - own->rows,
            columns = inner->columns + 2 * pad - own->columns;
    if (!key)
        return (struct place){.row = rows / 2 - pad, .column = columns / 2 - pad};
    return (struct place){.row = choose(*key, 0, rows) - pad,
                          .column = choose(*key, 1, columns) - pad,
                          .mirrored = augmented->how.flip && lt_random_bits(*key, 2) & 1};
}

/* One row of the result; `from` is the row of the image, or NULL: all of it is padding. */
static void make_row(const struct augmented *augmented, const float *from,
                     const struct place *place, float *to)
{
    int64_t columns = augmented->base.columns, channels = augmented->base.channels;
    for (int64_t i = 0; i < columns; i++) {
        int64_t column = place->column + (place->mirrored ? columns - 1 - i : i);
        int inside = from && column >= 0 && column < augmented->inner->columns;
        for (int64_t j = 0; j < channels; j++) {
            float value = inside ? from[column * channels + j] : 0;
            to[i * channels + j] = (value - augmented->mean[j]) * augmented->inverse[j];
        }
    }
}

static void augment(const struct lt_source *source, void *item, const uint64_t *key)
{
    const struct augmented *augmented = of(source);
    const struct lt_source *inner = augmented->inner;
    const float *image = item;
    float *made = (float *)(void *)((char *)item + augmented->made_at);
    struct place place = place_of(augmented, key);
    int64_t stride = inner->columns * inner->channels;
    for (int64_t i = 0; i < source->rows; i++) {
        int64_t row = place.row + i;
        int inside = row >= 0 && row < inner->rows;
        make_row(augmented, inside ? image + row * stride : NULL, &place,
                 made + i * source->columns * source->channels);
    }
    memcpy(made + source->width, image + inner->width, sizeof(int32_t)); /* the label */
}

static void augmented_collate(const struct lt_source *source, const void *item, int64_t row,
                              const struct lt_rows *out)
{
    lt_source_collate_features(source, (const char *)item + of(source)->made_at, row, out);
}

static void augmented_close(struct lt_source *source)
{
    lt_source_close(of(source)->inner);
    free(source);
}

static const struct lt_source_ops augmented_ops = {
    "augmented",       augmented_bytes, augmented_read, augmented_decode,
    augmented_collate, augmented_close, augment};

/* ---- opening ----------------------------------------------------------------------------------------------------------- */

/* Whether the images are known well enough, and large enough, for it. */
static int check(const struct lt_source *source, const struct lt_augment *how,
                 struct tacho_error *err)
{
    int64_t rows = source->rows + 2 * how->pad, columns = source->columns + 2 * how->pad;
    if (!source->rows || source->channels > CHANNEL_CAP)
        return tacho_fail(err, TACHO_EFORMAT,
                          "give JPEG, PNG, PGM or PPM images, or IDX files of three dimensions",
                          "--crop, --pad, --flip and --normalise: the data does not say how many "
                          "rows and columns its images have");
    if (how->crop > rows || how->crop > columns)
        return tacho_fail(err, TACHO_EFORMAT, "choose a smaller --crop, or a larger --image-size",
                          "--crop %lld: the images have %lld x %lld pixels with their padding",
                          (long long)how->crop, (long long)columns, (long long)rows);
    return 0;
}

int lt_augment_open(struct lt_source **source, const struct lt_augment *how,
                    struct tacho_error *err)
{
    struct lt_source *inner = *source;
    uint64_t identity[] = {0x617567, (uint64_t)how->pad, (uint64_t)how->crop, (uint64_t)how->flip,
                           (uint64_t)how->normalise};
    int rc = check(inner, how, err);
    struct augmented *augmented = rc ? NULL : calloc(1, sizeof *augmented);
    if (!augmented)
        return rc ? rc : lt_no_memory(err);
    augmented->inner = inner;
    augmented->how = *how;
    augmented->made_at = (inner->item_bytes + 15) / 16 * 16;
    for (int i = 0; i < CHANNEL_CAP; i++)
        augmented->inverse[i] = 1;
    struct lt_source *own = &augmented->base;
    *own = *inner;
    own->ops = &augmented_ops;
    own->rows = how->crop ? how->crop : inner->rows;
    own->columns = how->crop ? how->crop : inner->columns;
    own->width = own->rows * own->columns * own->channels;
    own->item_bytes = augmented->made_at + (size_t)own->width * sizeof(float) + sizeof(int32_t);
    own->identity = lt_source_hash(inner->identity, identity, sizeof identity);
    *source = own;
    return 0;
}

/* ---- normalisation ----------------------------------------------------------------------------------------------------- */

/* Sums of the values of each channel and of their squares. */
struct sums {
    double value[CHANNEL_CAP], square[CHANNEL_CAP], pixels;
};

static void add_image(struct sums *sums, const struct lt_source *source, const float *image)
{
    int64_t pixels = source->rows * source->columns, channels = source->channels;
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t j = 0; j < channels; j++) {
            double value = (double)image[i * channels + j];
            sums->value[j] += value;
            sums->square[j] += value * value;
        }
    sums->pixels += (double)pixels;
}

static void normalise(struct augmented *augmented, const struct sums *sums)
{
    for (int64_t j = 0; j < augmented->base.channels; j++) {
        double mean = sums->value[j] / sums->pixels;
        double variance = sums->square[j] / sums->pixels - mean * mean;
        augmented->mean[j] = (float)mean;
        augmented->inverse[j] = variance > 1e-12 ? (float)(1 / sqrt(variance)) : 1; /* one colour */
    }
}

int lt_augment_measure(struct lt_source *source, const struct lt_part *part,
                       struct tacho_error *err)
{
    struct augmented *augmented = (struct augmented *)source;
    const struct lt_source *inner = augmented->inner;
    uint64_t count = part->samples < LT_AUGMENT_MEASURED ? part->samples : LT_AUGMENT_MEASURED;
    struct sums sums = {.pixels = 0};
    int rc = 0;
    if (!augmented->how.normalise)
        return 0;
    char *raw = malloc(inner->raw_bytes), *item = malloc(inner->item_bytes);
    if (!raw || !item)
        rc = lt_no_memory(err);
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        uint64_t sample = part->first + i * part->samples / count;
        rc = inner->ops->read(inner, sample, raw, err);
        if (rc == 0)
            rc = inner->ops->decode(inner, sample, raw, item, err);
        if (rc == 0)
            add_image(&sums, inner, (const float *)(const void *)item);
    }
    free(raw);
    free(item);
    if (rc == 0)
        normalise(augmented, &sums);
    return rc;
}

void lt_augment_share(struct lt_source *to, const struct lt_source *from)
{
    struct augmented *target = (struct augmented *)to;
    memcpy(target->mean, of(from)->mean, sizeof target->mean);
    memcpy(target->inverse, of(from)->inverse, sizeof target->inverse);
}
