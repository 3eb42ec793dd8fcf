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

bool an_peak_find_slice(struct an_arena *arena, const char *device, double multiprocessors,
                        const char *column, struct an_peak *out)
{
    const char *mig = strstr(device, " MIG ");
    char name[AN_ACCELERATOR_NAME];
    struct an_accelerator whole;
    if (!mig || (size_t)(mig - device) >= sizeof name || !strcmp(column, "bandwidth"))
        return false;
    memcpy(name, device, (size_t)(mig - device));
    name[mig - device] = 0;
    if (!an_accelerator_named(name, &whole) || !an_peak_find(arena, name, column, out))
        return false;
    double share = whole.units > 0 ? multiprocessors / whole.units : 0;
    if (!(share > 0) || share > 1)
        return false;
    out->value *= share;
    out->source = an_arena_format(arena, "%s; %g of %g multiprocessors", out->source,
                                  multiprocessors, whole.units);
    return true;
}
