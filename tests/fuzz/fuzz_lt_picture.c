/* SPDX-License-Identifier: Apache-2.0
 *
 * An image file of a data set: JPEG, PNG, PGM or PPM. What can be measured decodes to values from 0
 * to 1, or is refused; so does what is scaled.
 */
#include <string.h>

#include "fuzz.h"
#include "libtrain/data/picture.h"

#define MOST_PIXELS (1u << 20)
#define SIDE        8

static void check(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(values[i] >= 0 && values[i] <= 1))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lt_picture picture;
    lt_picture_is(data, size);
    if (lt_picture_look("image", data, size, &picture, NULL) != 0 ||
        (uint64_t)picture.columns * picture.rows > MOST_PIXELS)
        return 0;
    size_t count = (size_t)picture.columns * picture.rows * (size_t)picture.channels;
    float *values = malloc(count * sizeof *values);
    if (values && lt_picture_decode("image", data, size, &picture, values, NULL) == 0) {
        float out[SIDE * SIDE * 3];
        check(values, count);
        if (lt_picture_scale(&picture, values, SIDE, out, NULL) == 0)
            check(out, (size_t)SIDE * SIDE * (size_t)picture.channels);
    }
    free(values);
    return 0;
}
