/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds ceilings of a device in the file: peaks, bandwidths and the roofs of memory levels.
 */
#include "analyzers/work/ceilings.h"

#include <math.h>
#include <string.h>

static bool is_datasheet(const struct an_ceiling_row *ceiling_row)
{
    return !strncmp(ceiling_row->source, "datasheet", 9);
}

const struct an_ceiling_row *an_ceiling_find(const struct an_context *context, const char *device,
                                             const char *resource, const char *dtype)
{
    const struct an_ceiling_row *best = NULL;
    for (size_t i = 0; i < context->trace->ceiling_count; i++) {
        const struct an_ceiling_row *ceiling_row = &context->trace->ceiling[i];
        if (strcmp(ceiling_row->resource, resource) ||
            (*dtype && strcmp(ceiling_row->dtype, dtype)) || !(ceiling_row->value > 0) ||
            !isfinite(ceiling_row->value) ||
            (*ceiling_row->device && strcmp(ceiling_row->device, device)))
            continue;
        if (!best || (is_datasheet(ceiling_row) && !is_datasheet(best)) ||
            (is_datasheet(ceiling_row) == is_datasheet(best) && ceiling_row->value > best->value))
            best = ceiling_row;
    }
    return best;
}

size_t an_memory_levels(const struct an_context *context, const char *device,
                        struct an_memory_level out[AN_MEMORY_LEVELS])
{
    static const char *const dram[] = {"bandwidth", "bandwidth_read", "bandwidth_write",
                                       "bandwidth_update"};
    static const char *const caches[][2] = {
        {"l3", "bandwidth_l3"}, {"l2", "bandwidth_l2"}, {"l1", "bandwidth_l1"}};
    const struct an_ceiling_row *most = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sizeof dram / sizeof *dram; i++) {
        const struct an_ceiling_row *ceiling_row = an_ceiling_find(context, device, dram[i], "");
        if (ceiling_row && (!most || ceiling_row->value > most->value))
            most = ceiling_row;
    }
    if (most)
        out[count++] = (struct an_memory_level){"dram", most};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        const struct an_ceiling_row *ceiling_row =
            an_ceiling_find(context, device, caches[i][1], "");
        if (ceiling_row)
            out[count++] = (struct an_memory_level){caches[i][0], ceiling_row};
    }
    return count;
}

const char *an_ceiling_unit(const char *resource)
{
    if (!strncmp(resource, "flops", 5) || !strcmp(resource, "gemm"))
        return "FLOP/s";
    if (!strcmp(resource, "gemm_threads"))
        return "threads";
    if (!strcmp(resource, "gemm_spread"))
        return "ratio";
    if (strstr(resource, "latency") || !strcmp(resource, "op_overhead"))
        return "s";
    return !strncmp(resource, "cache_", 6) ? "bytes" : "bytes/s";
}
