/* SPDX-License-Identifier: Apache-2.0
 *
 * Image files as the loader reads them: PNG and JPEG against values that are known, files that end
 * early, scaling against what it must do to constants and ramps; and the stage augment: which part
 * of an image a batch holds, whoever makes it.
 */
#include "lt_support.h"

#include <sys/stat.h>

#ifdef HAVE_JPEG
#include <jpeglib.h>
#endif

#include "libtrain/data/augment.h"
#include "libtrain/data/picture.h"
#include "libtrain/loader/loader.h"

static struct tacho_error err;

static float *decoded(const void *file, size_t bytes, int channels, struct lt_picture *picture)
{
    assert_int_equal(lt_picture_look("x", file, bytes, picture, &err), 0);
    picture->channels = channels ? channels : picture->channels;
    float *values = zeros((int64_t)picture->columns * picture->rows * picture->channels);
    assert_int_equal(lt_picture_decode("x", file, bytes, picture, values, &err), 0);
    return values;
}

/* ---- PNG --------------------------------------------------------------------------------------------------------------- */

/* Written by Python's zlib and struct, chunk by chunk, from the values that are expected. */
static const struct {
    const char *file;
    size_t bytes;
    uint32_t columns, rows;
    int channels;
    unsigned char value[12];
} png_files[] = {
    {
        "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x02\x00\x00"
        "\x00\x02\x08\x02\x00\x00\x00\xfd\xd4\x9a\x73\x00\x00\x00\x16\x49\x44\x41\x54\x78\xda\x63"
        "\x60\x30\xfe\xcf\xc8\xc4\xcc\xf0\x9f\x21\xed\xcc\x4c\x4e\x00\x18\xcc\x04\x0c\x56\xa3\xf0"
        "\x87\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82",
        79,
        2,
        2,
        3,
        {0, 51, 255, 1, 2, 3, 255, 0, 102, 204, 153, 9},
    },
    {
        "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x04\x00\x00"
        "\x00\x01\x02\x03\x00\x00\x00\x84\x52\xe7\x5e\x00\x00\x00\x0c\x50\x4c\x54\x45\x0a\x14\x1e"
        "\x28\x32\x3c\x46\x50\x5a\xff\x00\xff\xbf\xac\x70\x64\x00\x00\x00\x0a\x49\x44\x41\x54\x78"
        "\xda\x63\x90\x06\x00\x00\x1d\x00\x1c\x23\x7c\x8f\xac\x00\x00\x00\x00\x49\x45\x4e\x44\xae"
        "\x42\x60\x82",
        91,
        4,
        1,
        3,
        {10, 20, 30, 40, 50, 60, 70, 80, 90, 255, 0, 255},
    },
    {
        "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x03\x00\x00"
        "\x00\x01\x08\x00\x00\x00\x00\x3e\x8b\x4b\x68\x00\x00\x00\x0c\x49\x44\x41\x54\x78\xda\x63"
        "\x60\x68\xf8\x0f\x00\x02\x03\x01\x80\x1a\x9c\x26\x3b\x00\x00\x00\x00\x49\x45\x4e\x44\xae"
        "\x42\x60\x82",
        69,
        3,
        1,
        1,
        {0, 128, 255},
    },
    {
        "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x02\x00\x00"
        "\x00\x01\x08\x06\x00\x00\x00\xf4\x22\x7f\x8a\x00\x00\x00\x11\x49\x44\x41\x54\x78\xda\x63"
        "\xf8\xff\xff\x3f\x43\xca\x09\xa3\xff\x00\x1a\x3f\x05\x5b\x6e\x95\xca\x9e\x00\x00\x00\x00"
        "\x49\x45\x4e\x44\xae\x42\x60\x82", /* the first pixel is transparent */
        74,
        2,
        1,
        3,
        {0, 0, 0, 100, 200, 50},
    },
};

static void png(void **state)
{
    (void)state;
#ifndef HAVE_PNG
    skip(); /* built without libpng */
#endif
    struct lt_picture picture;
    for (size_t i = 0; i < sizeof png_files / sizeof *png_files; i++) {
        const char *file = png_files[i].file;
        size_t bytes = png_files[i].bytes;
        assert_true(lt_picture_is((const unsigned char *)file, bytes));
        const float *x = decoded(file, bytes, 0, &picture);
        assert_int_equal(picture.columns, png_files[i].columns);
        assert_int_equal(picture.rows, png_files[i].rows);
        assert_int_equal(picture.channels, png_files[i].channels);
        uint32_t count = picture.columns * picture.rows * (uint32_t)picture.channels;
        for (uint32_t j = 0; j < count; j++)
            assert_true(x[j] == (float)png_files[i].value[j] / 255.0f);
        /* what ends before the image does is refused, at the latest when it is decoded */
        for (size_t j = 4; j < bytes - 24; j++) {
            char *cut = pool_bytes(j);
            float room[12];
            struct lt_picture own = picture;
            memcpy(cut, file, j);
            int rc = lt_picture_look("cut.png", (unsigned char *)cut, j, &own, &err);
            rc = rc ? rc : lt_picture_decode("cut.png", (unsigned char *)cut, j, &own, room, &err);
            assert_int_equal(rc, TACHO_ECORRUPT);
            assert_non_null(strstr(err.what, "cut.png"));
        }
    }
    const float *x = decoded(png_files[2].file, png_files[2].bytes, 3, &picture); /* grey */
    assert_true(x[0] == 0 && x[3] == x[4] && x[4] == x[5] && x[5] == 128 / 255.0f && x[8] == 1);
}

/* ---- JPEG -------------------------------------------------------------------------------------------------------------- */

#ifdef HAVE_JPEG
#define WIDE 40
#define HIGH 24

static unsigned char smooth(int row, int column, int channel)
{
    const int values[] = {20 + 5 * column, 230 - 8 * row, 60 + 2 * (row + column)};
    return (unsigned char)values[channel];
}

/* The bytes of an image of smooth colours, or of grey ones. */
static unsigned char *write_jpeg(int channels, int progressive, unsigned long *bytes)
{
    static const J_COLOR_SPACE spaces[] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK};
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &out, bytes);
    info.image_width = WIDE;
    info.image_height = HIGH;
    info.input_components = channels;
    info.in_color_space = spaces[channels];
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 95, TRUE);
    if (progressive)
        jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    for (int i = 0; i < HIGH; i++) {
        unsigned char row[4 * WIDE];
        for (int j = 0; j < WIDE * channels; j++)
            row[j] = smooth(i, j / channels, channels == 1 ? 2 : j % channels % 3);
        JSAMPROW rows = row;
        jpeg_write_scanlines(&info, &rows, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    return out;
}

static void check_colours(const float *x)
{
    for (int i = 0; i < HIGH; i++)
        for (int j = 0; j < WIDE; j++)
            for (int k = 0; k < 3; k++)
                assert_true(fabsf(x[(i * WIDE + j) * 3 + k] - (float)smooth(i, j, k) / 255) <
                            0.03f);
}

static void jpeg(void **state)
{
    (void)state;
    struct lt_picture picture;
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned long bytes = 0;
        unsigned char *file = write_jpeg(3, progressive, &bytes);
        assert_true(lt_picture_is(file, bytes));
        const float *x = decoded(file, bytes, 0, &picture);
        assert_int_equal(picture.columns, WIDE);
        assert_int_equal(picture.rows, HIGH);
        assert_int_equal(picture.channels, 3);
        check_colours(x);
        x = decoded(file, bytes, 1, &picture); /* as grey: 0.299 R + 0.587 G + 0.114 B */
        float grey =
            (0.299f * smooth(5, 7, 0) + 0.587f * smooth(5, 7, 1) + 0.114f * smooth(5, 7, 2)) / 255;
        assert_true(fabsf(x[5 * WIDE + 7] - grey) < 0.03f);
        for (size_t cut = 3; cut < bytes - 2; cut += cut / 16 + 1) {
            float *room = zeros(WIDE * HIGH * 3);
            unsigned char *own = pool_bytes(cut);
            memcpy(own, file, cut);
            int rc = lt_picture_look("cut.jpg", own, cut, &picture, &err);
            rc = rc ? rc : lt_picture_decode("cut.jpg", own, cut, &picture, room, &err);
            assert_int_equal(rc, TACHO_ECORRUPT);
            assert_non_null(strstr(err.what, "cut.jpg"));
        }
        free(file);
    }
}

static void jpeg_of_other_colours(void **state)
{
    (void)state;
    struct lt_picture picture;
    unsigned long bytes = 0;
    unsigned char *file = write_jpeg(1, 0, &bytes);
    const float *x = decoded(file, bytes, 0, &picture);
    assert_int_equal(picture.channels, 1);
    assert_true(fabsf(x[9 * WIDE + 11] - (float)smooth(9, 11, 2) / 255) < 0.03f);
    x = decoded(file, bytes, 3, &picture);
    assert_true(x[0] == x[1] && x[1] == x[2]);
    free(file);
    file = write_jpeg(4, 0, &bytes); /* for printers */
    float *room = zeros(WIDE * HIGH * 3);
    assert_int_equal(lt_picture_look("x.jpg", file, bytes, &picture, &err), 0);
    assert_int_equal(lt_picture_decode("x.jpg", file, bytes, &picture, room, &err), TACHO_ECORRUPT);
    assert_non_null(strstr(err.what, "x.jpg"));
    free(file);
}
#endif

/* ---- scaling ----------------------------------------------------------------------------------------------------------- */

/* Of an image whose channel 0 is 3 + its column and channel 1 twice its row. */
static void scaling(void **state)
{
    (void)state;
    static const struct {
        uint32_t columns, rows;
        int64_t side;
    } cases[] = {{8, 8, 8}, {64, 64, 16}, {60, 40, 10}, {7, 31, 5}, {12, 9, 27}, {5, 5, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lt_picture picture = {cases[i].columns, cases[i].rows, 2};
        int64_t side = cases[i].side, columns = picture.columns, rows = picture.rows,
                shorter = columns < rows ? columns : rows;
        float *x = zeros(columns * rows * 2), *y = zeros(side * side * 2);
        for (int64_t j = 0; j < columns * rows; j++) {
            x[2 * j] = 3 + (float)(j % columns);
            x[2 * j + 1] = 2 * (float)(j / columns);
        }
        assert_int_equal(lt_picture_scale(&picture, x, side, y, &err), 0);
        double step = (double)shorter / (double)side, reach = step > 1 ? step : 1;
        for (int64_t row = 0; row < side; row++)
            for (int64_t column = 0; column < side; column++) {
                double across = (double)(columns - shorter) / 2 + ((double)column + 0.5) * step,
                       down = (double)(rows - shorter) / 2 + ((double)row + 0.5) * step;
                const float *pixel = y + 2 * (row * side + column);
                /* a ramp stays one where the filter does not reach beyond the image */
                if (across > reach && across < (double)columns - reach)
                    assert_true(fabs((double)pixel[0] - (3 + across - 0.5)) < 0.26);
                if (down > reach && down < (double)rows - reach)
                    assert_true(fabs((double)pixel[1] - 2 * (down - 0.5)) < 0.51);
                if (step == 1)
                    assert_true(pixel[0] == 3 + (float)column && pixel[1] == 2 * (float)row);
            }
        for (int64_t j = 0; j < columns * rows * 2; j++)
            x[j] = 0.25f;
        assert_int_equal(lt_picture_scale(&picture, x, side, y, &err), 0);
        for (int64_t j = 0; j < side * side * 2; j++)
            assert_true(fabsf(y[j] - 0.25f) < 1e-6f);
    }
}

/* A white image stays white: no rounding makes it brighter than 1. */
static void scaling_of_white(void **state)
{
    (void)state;
    for (uint32_t columns = 1; columns <= 64; columns++) {
        struct lt_picture picture = {columns, columns + 12, 1};
        float *x = zeros((int64_t)columns * picture.rows), *y = zeros(8 * 8);
        for (uint32_t j = 0; j < columns * picture.rows; j++)
            x[j] = 1;
        assert_int_equal(lt_picture_scale(&picture, x, 8, y, &err), 0);
        for (int j = 0; j < 8 * 8; j++)
            assert_true(y[j] == 1);
    }
}

/* ---- augment ----------------------------------------------------------------------------------------------------------- */

#define IMAGES 40
#define SIDE   6

/* IMAGES images of SIDE x SIDE: pixel p of image i is 36 i + p + 1 (modulo 251, above 0), its label
 * i modulo 10. */
static int pixel_of(int image, int pixel)
{
    return (36 * image + pixel) % 251 + 1;
}

static struct lt_source *open_digits(const char *folder, const struct lt_augment *how)
{
    unsigned char images[16 + IMAGES * SIDE * SIDE] = {0, 0, 8, 3,    0, 0, 0, IMAGES,
                                                       0, 0, 0, SIDE, 0, 0, 0, SIDE};
    unsigned char labels[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    char path[2][300];
    const char *paths[] = {path[0], path[1]};
    struct lt_dataset *data = NULL;
    struct lt_source *source = NULL;
    for (int i = 0; i < IMAGES; i++) {
        labels[8 + i] = (unsigned char)(i % 10);
        for (int j = 0; j < SIDE * SIDE; j++)
            images[16 + i * SIDE * SIDE + j] = (unsigned char)pixel_of(i, j);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
        FILE *file = fopen(path[i], "w");
        assert_non_null(file);
        fwrite(i ? labels : images, 1, i ? sizeof labels : sizeof images, file);
        fclose(file);
    }
    assert_int_equal(lt_dataset_open(&data, paths, 2, &err), 0);
    assert_int_equal(lt_source_open_idx(&source, data, &err), 0);
    if (how)
        assert_int_equal(lt_augment_open(&source, how, &err), 0);
    return source;
}

/* `batches` batches of four from sample `position` on, as floats one after the other, then the
 * labels of all. */
static float *batches_of(const struct lt_source *source, struct lt_loader_config config,
                         int batches, int32_t *labels)
{
    struct lt_part whole = lt_source_whole(source);
    struct lt_loader *loader = NULL;
    float *out = zeros(4 * batches * source->width);
    config.b = 4;
    assert_int_equal(lt_loader_create(&loader, &whole, &config, NULL, &err), 0);
    for (int i = 0; i < batches; i++) {
        struct lt_batch batch;
        assert_int_equal(lt_loader_next(loader, &batch, &err), 0);
        memcpy(out + 4 * i * source->width, batch.features,
               (size_t)(4 * source->width) * sizeof *out);
        memcpy(labels + 4 * i, batch.targets, 4 * sizeof *labels);
    }
    lt_loader_destroy(loader);
    return out;
}

/* Is `made` the part of image `image` from (row, column) on? Beyond the image it is black. */
static int is_part(const float *made, int image, int crop, int row, int column, int mirrored)
{
    for (int i = 0; i < crop; i++)
        for (int j = 0; j < crop; j++) {
            int y = row + i, x = column + (mirrored ? crop - 1 - j : j);
            int inside = y >= 0 && y < SIDE && x >= 0 && x < SIDE;
            float want = inside ? (float)pixel_of(image, y * SIDE + x) / 255.0f : 0;
            if (made[i * crop + j] != want)
                return 0;
        }
    return 1;
}

static void crops(void **state)
{
    (void)state;
    const char *folder = scratch_folder();
    const struct lt_augment how = {.pad = 2, .crop = 5, .flip = 1};
    struct lt_source *source = open_digits(folder, &how);
    enum { BATCHES = 3 * IMAGES / 4, SAMPLES = 4 * BATCHES, MOST = SIDE + 2 * 2 - 5 };
    int32_t labels[SAMPLES], other[SAMPLES];
    struct lt_loader_config config = {.options = {.in_order = 1}, .seed = 7};
    assert_true(source->width == 25 && source->rows == 5 && source->columns == 5);
    const float *x = batches_of(source, config, BATCHES, labels);
    int found = 0, mirrored = 0, seen[MOST + 1][2] = {{0}};
    for (int i = 0; i < SAMPLES; i++) {
        int image = i % IMAGES;
        assert_int_equal(labels[i], image % 10);
        for (int place = 0; place < (MOST + 1) * (MOST + 1) * 2; place++) {
            int row = place / 2 / (MOST + 1), column = place / 2 % (MOST + 1);
            if (!is_part(x + 25 * i, image, 5, row - 2, column - 2, place & 1))
                continue;
            found++;
            mirrored += place & 1;
            seen[row][0] = seen[column][1] = 1;
        }
    }
    assert_int_equal(found, SAMPLES); /* each is exactly one part of its image */
    assert_true(mirrored > SAMPLES / 3 && mirrored < 2 * SAMPLES / 3);
    for (int i = 0; i <= MOST; i++)
        assert_true(seen[i][0] && seen[i][1]);
    /* three workers make the same, and so does a run that goes on from the fifth batch */
    config.options.workers = 3;
    config.options.prefetch = 2;
    const float *y = batches_of(source, config, BATCHES, other);
    assert_memory_equal(x, y, SAMPLES * 25 * sizeof *x);
    config.position = 5 * 4;
    y = batches_of(source, config, BATCHES - 5, other);
    assert_memory_equal(x + 5 * 4 * 25, y, (SAMPLES - 20) * 25 * sizeof *x);
    config.seed = 8;
    y = batches_of(source, config, BATCHES - 5, other);
    assert_memory_not_equal(x + 5 * 4 * 25, y, (SAMPLES - 20) * 25 * sizeof *x);
    /* an evaluation: the middle, not mirrored */
    config = (struct lt_loader_config){.options = {.in_order = 1}, .plain = 1};
    y = batches_of(source, config, IMAGES / 4, other);
    for (int i = 0; i < IMAGES; i++)
        assert_true(is_part(y + 25 * i, i, 5, MOST / 2 - 2, MOST / 2 - 2, 0));
    lt_source_close(source);
}

static void normalised(void **state)
{
    (void)state;
    const char *folder = scratch_folder();
    const struct lt_augment how = {.normalise = 1};
    struct lt_source *source = open_digits(folder, &how), *plain = open_digits(folder, NULL);
    struct lt_part whole = lt_source_whole(source);
    int32_t labels[IMAGES];
    struct lt_loader_config config = {.options = {.in_order = 1}};
    enum { COUNT = IMAGES * SIDE * SIDE };
    assert_true(source->identity != plain->identity);
    assert_int_equal(lt_augment_measure(source, &whole, &err), 0);
    const float *x = batches_of(source, config, IMAGES / 4, labels);
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / COUNT) < 1e-5 && fabs(squares / COUNT - 1) < 1e-5);
    /* the held-out images of another file: by the same numbers */
    struct lt_source *other = open_digits(folder, &how);
    lt_augment_share(other, source);
    const float *y = batches_of(other, config, IMAGES / 4, labels);
    assert_memory_equal(x, y, COUNT * sizeof *x);
    lt_source_close(other);
    lt_source_close(plain);
    lt_source_close(source);
}

/* A value above the largest that the file names would be above 1 (found by a fuzzer). */
static void above_the_largest(void **state)
{
    (void)state;
    static const unsigned char file[] = "P5\n3 1\n5\n\1\5\6", wide[] = "P5\n1 1\n300\n\1\055";
    struct lt_picture picture;
    float values[3];
    assert_int_equal(lt_picture_look("x.pgm", file, sizeof file - 1, &picture, &err), 0);
    assert_int_equal(lt_picture_decode("x.pgm", file, sizeof file - 1, &picture, values, &err),
                     TACHO_ECORRUPT);
    assert_string_equal(err.what, "x.pgm: has a value of 6, and says that 5 is the largest");
    assert_int_equal(lt_picture_look("x.pgm", wide, sizeof wide - 1, &picture, &err), 0);
    assert_int_equal(lt_picture_decode("x.pgm", wide, sizeof wide - 1, &picture, values, &err),
                     TACHO_ECORRUPT);
}

static void too_large(void **state)
{
    (void)state;
    const char *folder = scratch_folder();
    const struct lt_augment how = {.pad = 1, .crop = 9};
    struct lt_source *source = open_digits(folder, NULL);
    assert_int_equal(lt_augment_open(&source, &how, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, "8 x 8 pixels with their padding"));
    lt_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(png, pool_free),
#ifdef HAVE_JPEG
        cmocka_unit_test_teardown(jpeg, pool_free),
        cmocka_unit_test_teardown(jpeg_of_other_colours, pool_free),
#endif
        cmocka_unit_test_teardown(scaling, pool_free),
        cmocka_unit_test_teardown(scaling_of_white, pool_free),
        cmocka_unit_test_teardown(crops, pool_free),
        cmocka_unit_test_teardown(normalised, pool_free),
        cmocka_unit_test(above_the_largest),
        cmocka_unit_test_teardown(too_large, pool_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
