/* SPDX-License-Identifier: Apache-2.0
 *
 * The rounded copy of the parameters that GEMMs read, wherever they lie.
 */
#include "libtrain/models/model.h"

/* Through a piece of host memory at a time. */
static void refresh_in(const struct lt_parameters *parameters)
{
    enum { PIECE = 16384 };
    float value[PIECE];
    uint16_t shadow[PIECE];
    struct lt_space *space = parameters->space;
    if (!space->write)
        return;
    for (size_t at = 0; at < parameters->count; at += PIECE) {
        size_t count = parameters->count - at < PIECE ? parameters->count - at : PIECE;
        space->read(space, value, parameters->value + at, count * sizeof *value);
        lt_shadow_refresh(shadow, parameters->shadow_dtype, value, (int64_t)count);
        space->write(space, parameters->shadow + at, shadow, count * sizeof *shadow);
    }
}

void lt_parameters_refresh(const struct lt_parameters *parameters)
{
    if (parameters->space && parameters->shadow)
        refresh_in(parameters);
    else
        lt_shadow_refresh(parameters->shadow, parameters->shadow_dtype, parameters->value,
                          (int64_t)parameters->count);
}
