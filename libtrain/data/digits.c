/* SPDX-License-Identifier: Apache-2.0
 *
 * Images like handwritten digits, drawn from ten tables of strokes. Every image has its own stream
 * of random numbers, so an image depends on its number alone and blocks of images can be drawn in
 * parallel. A set is written into the user's cache once; it is made under another name and renamed,
 * so that two programs that start at the same time do not see half of it.
 */
#include "libtrain/data/digits.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libtrain/base/fail.h"
#include "libtrain/ops/random.h"
#include "tacho_folder.h"

#define SIDE    LT_DIGITS_SIDE
#define PIXELS  LT_DIGITS_PIXELS
#define POINTS  20 /* of a stroke */
#define STROKES 3
#define LOOKS   1 /* of the name in the cache: other strokes, other number */
#define TRAIN   20000
#define TEST    2000
#define BLOCK   1000 /* images drawn at a time */

/* A line from (x, y) to (u, v), or an arc around (x, y) with radii u and v, from angle `from` to
 * `to` in degrees, clockwise from the right. In a square of side 1, y down. to == from: a line. */
struct stroke {
    float x, y, u, v, from, to;
};

/* clang-format off */
static const struct stroke shapes[10][STROKES] = {
    {{.50f, .50f, .27f, .40f, 0, 360}},
    {{.34f, .28f, .52f, .10f, 0, 0}, {.52f, .10f, .52f, .90f, 0, 0}},
    {{.49f, .31f, .25f, .21f, 180, 385}, {.72f, .40f, .24f, .88f, 0, 0}, {.24f, .88f, .78f, .88f, 0, 0}},
    {{.46f, .30f, .25f, .20f, 205, 450}, {.46f, .70f, .29f, .20f, 270, 510}},
    {{.60f, .10f, .20f, .64f, 0, 0}, {.20f, .64f, .82f, .64f, 0, 0}, {.64f, .36f, .64f, .92f, 0, 0}},
    {{.76f, .11f, .32f, .11f, 0, 0}, {.32f, .11f, .29f, .46f, 0, 0}, {.47f, .65f, .28f, .24f, 225, 505}},
    {{.70f, .66f, .44f, .55f, 180, 262}, {.50f, .68f, .24f, .22f, 0, 360}},
    {{.22f, .13f, .78f, .13f, 0, 0}, {.78f, .13f, .42f, .90f, 0, 0}},
    {{.50f, .29f, .20f, .19f, 0, 360}, {.50f, .70f, .26f, .21f, 0, 360}},
    {{.48f, .32f, .23f, .22f, 0, 360}, {.71f, .34f, .62f, .90f, 0, 0}},
};
/* clang-format on */

/* A stream of uniform numbers. */
struct dice {
    uint64_t key, counter;
};

static float between(struct dice *dice, float low, float high)
{
    return low +
           (high - low) * (float)(lt_random_bits(dice->key, dice->counter++) >> 40) * 0x1p-24f;
}

/* How a point of the square becomes a place on the pixels: x' = a x + b y + c, y' = d x + e y + f.
 */
struct pose {
    float a, b, c, d, e, f;
};

/* Size, slant, rotation and place of one image, centred on the pixels up to a small shift. */
static struct pose throw_pose(struct dice *dice)
{
    float angle = between(dice, -0.22f, 0.22f), slant = between(dice, -0.25f, 0.25f),
          wide = between(dice, 15, 22), high = between(dice, 17, 23),
          shift_x = between(dice, -2, 2), shift_y = between(dice, -2, 2);
    float cosine = cosf(angle), sine = sinf(angle);
    struct pose pose = {.a = cosine * wide,
                        .b = (cosine * slant - sine) * high,
                        .d = sine * wide,
                        .e = (sine * slant + cosine) * high};
    pose.c = 0.5f * SIDE + shift_x - 0.5f * (pose.a + pose.b);
    pose.f = 0.5f * SIDE + shift_y - 0.5f * (pose.d + pose.e);
    return pose;
}

/* Darkens pixels that are nearer to the segment than `radius`, with a soft edge of one pixel. */
static void ink(float *canvas, const float *from, const float *to, float radius)
{
    float dx = to[0] - from[0], dy = to[1] - from[1], square = dx * dx + dy * dy,
          reach = radius + 1;
    int x0 = (int)fmaxf(fminf(from[0], to[0]) - reach, 0),
        x1 = (int)fminf(fmaxf(from[0], to[0]) + reach, SIDE - 1);
    int y0 = (int)fmaxf(fminf(from[1], to[1]) - reach, 0),
        y1 = (int)fminf(fmaxf(from[1], to[1]) + reach, SIDE - 1);
    for (int y = y0; y <= y1; y++)
        for (int x = x0; x <= x1; x++) {
            float px = (float)x + 0.5f - from[0], py = (float)y + 0.5f - from[1];
            float along = square > 0 ? fminf(fmaxf((px * dx + py * dy) / square, 0), 1) : 0;
            float far = hypotf(px - along * dx, py - along * dy);
            float dark = fminf(fmaxf(radius + 0.5f - far, 0), 1);
            if (dark > canvas[y * SIDE + x])
                canvas[y * SIDE + x] = dark;
        }
}

/* A wobble of the ends (and of the middle, for arcs) shared by all points of the stroke, so that it
 * stays smooth. */
static void draw_stroke(float *canvas, const struct stroke *stroke, const struct pose *pose,
                        float radius, struct dice *dice)
{
    float point[2], last[2] = {0};
    const float wobble = 0.035f;
    float shift_x = between(dice, -wobble, wobble), shift_y = between(dice, -wobble, wobble),
          grow_x = between(dice, 0.88f, 1.12f), grow_y = between(dice, 0.88f, 1.12f),
          bend = between(dice, -wobble, wobble), turn = between(dice, -8, 8);
    int line = stroke->from == stroke->to, count = line ? 8 : POINTS;
    for (int i = 0; i < count; i++) {
        float part = (float)i / (float)(count - 1), x, y;
        if (line) {
            float bow = bend * 4 * part * (1 - part);
            x = stroke->x + shift_x + part * (stroke->u - stroke->x) +
                bow * (stroke->v - stroke->y);
            y = stroke->y + shift_y + part * (stroke->v - stroke->y) -
                bow * (stroke->u - stroke->x);
        } else {
            float angle =
                (stroke->from + turn + part * (stroke->to - stroke->from)) * 0.0174532925f;
            x = stroke->x + shift_x + stroke->u * grow_x * cosf(angle);
            y = stroke->y + shift_y + stroke->v * grow_y * sinf(angle);
        }
        point[0] = pose->a * x + pose->b * y + pose->c;
        point[1] = pose->d * x + pose->e * y + pose->f;
        if (i)
            ink(canvas, last, point, radius);
        memcpy(last, point, sizeof last);
    }
}

int lt_digits_label(uint64_t key, uint64_t number)
{
    return (int)(lt_random_bits(lt_random_bits(key, number), 0) % 10);
}

void lt_digits_draw(uint64_t key, uint64_t number, uint8_t pixels[PIXELS])
{
    float canvas[PIXELS] = {0};
    struct dice dice = {.key = lt_random_bits(key, number), .counter = 1};
    struct pose pose = throw_pose(&dice);
    float radius = between(&dice, 0.7f, 1.6f), bright = between(&dice, 190, 255);
    const struct stroke *stroke = shapes[lt_digits_label(key, number)];
    for (int i = 0; i < STROKES && (stroke[i].u > 0 || stroke[i].v > 0); i++)
        draw_stroke(canvas, &stroke[i], &pose, radius, &dice);
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (uint8_t)(bright * canvas[i]);
}

/* ---- files --------------------------------------------------------------------------------------------------------------- */

static int put_big_endian(FILE *file, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                              (uint8_t)value};
    return fwrite(bytes, 1, 4, file) == 4 ? 0 : -1;
}

/* An IDX file of images, drawn a block at a time by all threads. */
static int put_images(FILE *file, uint64_t count, uint64_t key)
{
    uint8_t *block = malloc((size_t)BLOCK * PIXELS);
    int failed = !block || put_big_endian(file, 0x803) || put_big_endian(file, (uint32_t)count) ||
                 put_big_endian(file, SIDE) || put_big_endian(file, SIDE);
    for (uint64_t first = 0; !failed && first < count; first += BLOCK) {
        int64_t images = (int64_t)(count - first < BLOCK ? count - first : BLOCK);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < images; i++)
            lt_digits_draw(key, first + (uint64_t)i, block + i * PIXELS);
        failed = fwrite(block, PIXELS, (size_t)images, file) != (size_t)images;
    }
    free(block);
    return failed ? -1 : 0;
}

static int put_labels(FILE *file, uint64_t count, uint64_t key)
{
    int failed = put_big_endian(file, 0x801) || put_big_endian(file, (uint32_t)count);
    for (uint64_t i = 0; !failed && i < count; i++)
        failed = fputc(lt_digits_label(key, i), file) == EOF;
    return failed ? -1 : 0;
}

/* Writes one of the four files. "x": an existing file is never overwritten. */
static int put_file(const char *folder, const char *name,
                    int (*put)(FILE *file, uint64_t count, uint64_t key), uint64_t count,
                    uint64_t key, struct tacho_error *err)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    errno = 0;
    FILE *file = fopen(path, "wxe");
    int failed = !file || put(file, count, key);
    if (file && fclose(file))
        failed = 1;
    if (!failed)
        return 0;
    const char *reason = errno ? strerror(errno) : "not written";
    return tacho_fail(err, errno == ENOSPC || errno == EDQUOT ? TACHO_ENOSPACE : TACHO_EIO,
                      "make room, or give the images with --data FOLDER", "%s: %s", path, reason);
}

int lt_digits_write(const char *folder, uint64_t train, uint64_t test, uint64_t seed,
                    struct tacho_error *err)
{
    uint64_t learn = lt_random_bits(seed, 0), look = lt_random_bits(seed, 1);
    int rc = put_file(folder, "train-images-idx3-ubyte", put_images, train, learn, err);
    rc = rc ? rc : put_file(folder, "train-labels-idx1-ubyte", put_labels, train, learn, err);
    rc = rc ? rc : put_file(folder, "t10k-images-idx3-ubyte", put_images, test, look, err);
    return rc ? rc : put_file(folder, "t10k-labels-idx1-ubyte", put_labels, test, look, err);
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char path[2 * PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

int lt_digits_cached(char *path, size_t size, uint64_t seed, struct tacho_error *err)
{
    char folder[PATH_MAX - 128], temporary[PATH_MAX];
    struct stat status;
    int error = tacho_cache_folder("libtrain", folder, sizeof folder);
    if (error)
        return tacho_fail(err, TACHO_EIO,
                          "set XDG_CACHE_HOME to a folder you may write to, or give --data FOLDER",
                          "no cache for the generated digits: %s%s%s", folder, *folder ? ": " : "",
                          tacho_folder_problem(error));
    snprintf(path, size, "%s/digits-%d-%d-%d-%llu", folder, LOOKS, TRAIN, TEST,
             (unsigned long long)seed);
    if (stat(path, &status) == 0)
        return 0;
    snprintf(temporary, sizeof temporary, "%s/.digits-XXXXXX", folder);
    if (!mkdtemp(temporary))
        return lt_fail_file(
            err, "set XDG_CACHE_HOME to a folder you may write to, or give --data FOLDER",
            temporary);
    int rc = lt_digits_write(temporary, TRAIN, TEST, seed, err);
    if (rc == 0 && rename(temporary, path) == 0)
        return 0;
    if (rc == 0 && stat(path, &status)) /* not that another process was first */
        rc = lt_fail_file(
            err, "set XDG_CACHE_HOME to a folder you may write to, or give --data FOLDER", path);
    remove_folder(temporary);
    return rc;
}
