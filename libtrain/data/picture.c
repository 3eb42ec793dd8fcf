/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG, PNG, PGM and PPM files as floats. The libraries decode into the end of the array of floats,
 * a byte a value, and the bytes then become floats from its start on.
 */
#include "libtrain/data/picture.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_JPEG
#include <jpeglib.h>
/* after jpeglib.h */
#include <jerror.h>
#endif
#ifdef HAVE_PNG
#include <png.h>
#endif

#include "libtrain/base/fail.h"
#include "libtrain/data/format.h"

#define VALUE_CAP (1u << 28) /* values of one image */

static int is_jpeg(const unsigned char *head, size_t head_bytes)
{
    return head_bytes >= 3 && head[0] == 0xff && head[1] == 0xd8 && head[2] == 0xff;
}

static int is_png(const unsigned char *head, size_t head_bytes)
{
    static const unsigned char magic[] = {0x89, 'P', 'N', 'G'};
    return head_bytes >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

int lt_picture_is(const unsigned char *head, size_t head_bytes)
{
    return lt_format_is_pnm(head, head_bytes) || is_jpeg(head, head_bytes) ||
           is_png(head, head_bytes);
}

static size_t values_of(const struct lt_picture *picture)
{
    return (size_t)picture->columns * picture->rows * (size_t)picture->channels;
}

static const char damaged_hint[] = "copy the file again, or remove it";

#if defined HAVE_JPEG || defined HAVE_PNG
/* Where the bytes of an image are decoded to: the end of its array of floats. */
static unsigned char *bytes_in(float *values, const struct lt_picture *picture)
{
    return (unsigned char *)values + values_of(picture) * (sizeof *values - 1);
}

static void bytes_to_floats(float *values, const struct lt_picture *picture)
{
    const unsigned char *from = bytes_in(values, picture);
    size_t count = values_of(picture);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)from[i] / 255.0f;
}
#endif

/* ---- JPEG -------------------------------------------------------------------------------------------------------------- */

#ifdef HAVE_JPEG
/* The library's errors come back here by longjmp, because its error handler may not return. */
struct jpeg_reader {
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct info;
    jmp_buf back;
    char words[JMSG_LENGTH_MAX];
};

static _Noreturn void jpeg_failed(j_common_ptr info)
{
    struct jpeg_reader *reader = (struct jpeg_reader *)(void *)info->err;
    info->err->format_message(info, reader->words);
    longjmp(reader->back, 1);
}

/* Of the warnings, those that part of the image is missing are errors here: the library would go
 * on with grey. */
static void jpeg_noted(j_common_ptr info, int level)
{
    if (level < 0 &&
        (info->err->msg_code == JWRN_JPEG_EOF || info->err->msg_code == JWRN_HIT_MARKER))
        jpeg_failed(info);
}

static void jpeg_open(struct jpeg_reader *reader, const unsigned char *file, size_t bytes)
{
    jpeg_create_decompress(&reader->info);
    jpeg_mem_src(&reader->info, file, (unsigned long)bytes);
    jpeg_read_header(&reader->info, TRUE);
}

/* Reads the size into *out, or all values where `values` is not NULL. */
static int read_jpeg(const char *path, const unsigned char *file, size_t bytes,
                     struct lt_picture *out, float *values, struct tacho_error *err)
{
    struct jpeg_reader reader = {.words = ""};
    reader.info.err = jpeg_std_error(&reader.errors);
    reader.errors.error_exit = jpeg_failed;
    reader.errors.emit_message = jpeg_noted;
    if (setjmp(reader.back)) {
        jpeg_destroy_decompress(&reader.info);
        return tacho_fail(err, TACHO_ECORRUPT, damaged_hint, "%s: not read as JPEG: %s", path,
                          reader.words);
    }
    jpeg_open(&reader, file, bytes);
    if (!values) {
        out->columns = reader.info.image_width;
        out->rows = reader.info.image_height;
        out->channels = reader.info.num_components == 1 ? 1 : 3;
        jpeg_destroy_decompress(&reader.info);
        return 0;
    }
    reader.info.out_color_space = out->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&reader.info);
    size_t stride = out->columns * (size_t)out->channels;
    while (reader.info.output_scanline < out->rows) {
        JSAMPROW row = bytes_in(values, out) + reader.info.output_scanline * stride;
        jpeg_read_scanlines(&reader.info, &row, 1);
    }
    jpeg_finish_decompress(&reader.info);
    jpeg_destroy_decompress(&reader.info);
    bytes_to_floats(values, out);
    return 0;
}
#endif

/* ---- PNG --------------------------------------------------------------------------------------------------------------- */

#ifdef HAVE_PNG
/* Reads the size into *out, or all values where `values` is not NULL. */
static int read_png(const char *path, const unsigned char *file, size_t bytes,
                    struct lt_picture *out, float *values, struct tacho_error *err)
{
    const png_color black = {0, 0, 0};
    png_image image = {.version = PNG_IMAGE_VERSION};
    int good = png_image_begin_read_from_memory(&image, file, bytes);
    if (good && !values) {
        out->columns = image.width;
        out->rows = image.height;
        out->channels = image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    } else if (good) {
        image.format = out->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
        good = png_image_finish_read(&image, &black, bytes_in(values, out), 0, NULL);
    }
    png_image_free(&image);
    if (!good)
        return tacho_fail(err, TACHO_ECORRUPT, damaged_hint, "%s: not read as PNG: %s", path,
                          image.message);
    if (values)
        bytes_to_floats(values, out);
    return 0;
}
#endif

/* ---- PGM, PPM ---------------------------------------------------------------------------------------------------------- */

/* Reads the size into *out, or all values where `values` is not NULL. */
static int read_pnm(const char *path, const unsigned char *file, size_t bytes,
                    struct lt_picture *out, float *values, struct tacho_error *err)
{
    struct lt_pnm pnm;
    size_t head_bytes = bytes < LT_FORMAT_HEAD ? bytes : LT_FORMAT_HEAD;
    int rc = lt_format_pnm(path, file, head_bytes, bytes, &pnm, err);
    if (rc)
        return rc;
    if (!values) {
        *out = (struct lt_picture){pnm.width, pnm.height, pnm.channels};
        return 0;
    }
    const unsigned char *from = file + pnm.offset;
    size_t count = values_of(out);
    for (size_t i = 0; i < count; i++) {
        uint32_t value =
            pnm.value_bytes == 1 ? from[i] : (uint32_t)from[2 * i] << 8 | from[2 * i + 1];
        if (value > pnm.highest)
            return tacho_fail(err, TACHO_ECORRUPT, damaged_hint,
                              "%s: has a value of %u, and says that %u is the largest", path, value,
                              pnm.highest);
        values[i] = (float)value / (float)pnm.highest;
    }
    return 0;
}

/* ---- any of them ------------------------------------------------------------------------------------------------------- */

static int read_any(const char *path, const unsigned char *file, size_t bytes,
                    struct lt_picture *out, float *values, struct tacho_error *err)
{
    if (is_jpeg(file, bytes))
#ifdef HAVE_JPEG
        return read_jpeg(path, file, bytes, out, values, err);
#else
        return tacho_fail(err, TACHO_ENOTSUP,
                          "install libjpeg-turbo's development files (libjpeg-dev) and build again",
                          "%s: a JPEG image, which this build cannot read", path);
#endif
    if (is_png(file, bytes))
#ifdef HAVE_PNG
        return read_png(path, file, bytes, out, values, err);
#else
        return tacho_fail(err, TACHO_ENOTSUP,
                          "install libpng's development files (libpng-dev) and build again",
                          "%s: a PNG image, which this build cannot read", path);
#endif
    return read_pnm(path, file, bytes, out, values, err);
}

int lt_picture_look(const char *path, const unsigned char *file, size_t bytes,
                    struct lt_picture *out, struct tacho_error *err)
{
    struct lt_picture found = {0};
    int rc = read_any(path, file, bytes, &found, NULL, err);
    if (rc)
        return rc;
    if ((uint64_t)found.columns * found.rows > VALUE_CAP / 3)
        return tacho_fail(err, TACHO_EFORMAT, "scale the images down before",
                          "%s: %lu x %lu pixels are too many", path, (unsigned long)found.columns,
                          (unsigned long)found.rows);
    *out = found;
    return 0;
}

int lt_picture_decode(const char *path, const unsigned char *file, size_t bytes,
                      const struct lt_picture *picture, float *values, struct tacho_error *err)
{
    struct lt_picture own = *picture;
    return read_any(path, file, bytes, &own, values, err);
}

#define CHANNELS 4 /* of a picture, at most */

/* ---- scaling ------------------------------------------------------------------------------------------------------------- */

/* One direction of scaling: `count` pixels of `channels` values each, `stride` values apart, become
 * `side`; both directions are this loop. `step` pixels of the source belong to one of the result,
 * whose first begins at `begin`. */
struct line {
    int64_t count, stride, side, out_stride, channels;
    double step, begin;
};

static void scale_line(const struct line *line, const float *from, float *to)
{
    double reach = line->step > 1 ? line->step : 1;
    for (int64_t i = 0; i < line->side; i++) {
        double centre = line->begin + ((double)i + 0.5) * line->step, total = 0;
        int64_t first = (int64_t)ceil(centre - reach - 0.5);
        int64_t last = (int64_t)floor(centre + reach - 0.5);
        double sum[CHANNELS] = {0}; /* of floats it could come out above the largest value */
        first = first < 0 ? 0 : first;
        last = last >= line->count ? line->count - 1 : last;
        for (int64_t j = first; j <= last; j++)
            total += 1 - fabs((double)j + 0.5 - centre) / reach;
        for (int64_t j = first; j <= last; j++) {
            double weight = (1 - fabs((double)j + 0.5 - centre) / reach) / total;
            for (int64_t channel = 0; channel < line->channels; channel++)
                sum[channel] += weight * (double)from[j * line->stride + channel];
        }
        for (int64_t channel = 0; channel < line->channels; channel++)
            to[i * line->out_stride + channel] = (float)sum[channel];
    }
}

/* The rows first, into an array of as many rows as the image has; then the columns of that. */
int lt_picture_scale(const struct lt_picture *picture, const float *values, int64_t side,
                     float *out, struct tacho_error *err)
{
    int64_t columns = picture->columns, rows = picture->rows, channels = picture->channels,
            shorter = columns < rows ? columns : rows;
    double step = (double)shorter / (double)side;
    float *narrow = malloc((size_t)(rows * side * channels) * sizeof *narrow);
    if (!narrow)
        return lt_no_memory(err);
    struct line across = {
        columns, channels, side, channels, channels, step, 0.5 * (double)(columns - shorter)};
    for (int64_t i = 0; i < rows; i++)
        scale_line(&across, values + i * columns * channels, narrow + i * side * channels);
    struct line down = {rows,
                        side * channels,
                        side,
                        side * channels,
                        channels,
                        step,
                        0.5 * (double)(rows - shorter)};
    for (int64_t i = 0; i < side; i++)
        scale_line(&down, narrow + i * channels, out + i * channels);
    free(narrow);
    return 0;
}
