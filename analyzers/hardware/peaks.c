/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of accelerators, by the name of the device.
 */
#include "analyzers/hardware/peaks.h"

#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/hardware/accelerators.h"

bool an_peak_find(struct an_arena *arena, const char *device, const char *column,
                  struct an_peak *out)
{
    struct an_accelerator found;
    if (!an_accelerator_named(device, &found))
        return false;
    double value =
        strcmp(column, "bandwidth") ? an_accelerator_peak(&found, column) : found.bytes_per_s;
    if (value > 0)
        *out = (struct an_peak){
            value, an_arena_format(arena, "datasheet: %.*s", found.source_length, found.source)};
    return value > 0;
}
