/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of accelerators from their data sheets (peaks.tsv, compiled in), by the name of the device.
 */
#include "analyzers/work/peaks.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"

#define NAME_ROOM 256

static const char table[] =
#include "peaks.inc"
    ;

static const char *const columns[] = {"fp64", "fp32", "tf32", "fp16",
                                      "bf16", "fp8",  "fp4",  "bandwidth"};
#define COLUMNS (sizeof columns / sizeof *columns)

/* The name without its maker and family. */
static const char *bare(const char *name)
{
    static const char *const words[] = {"NVIDIA ", "Tesla ", "GeForce ", "AMD ", "Instinct "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncasecmp(name, words[i], strlen(words[i])))
            name += strlen(words[i]);
    return name;
}

/* Does one of the names in [from, to) match? */
static bool is_named(const char *from, const char *to, const char *name)
{
    while (from < to) {
        size_t length = strcspn(from, "|\t");
        char pattern[NAME_ROOM];
        if (length < sizeof pattern) {
            memcpy(pattern, from, length);
            pattern[length] = 0;
            if (!fnmatch(pattern, name, FNM_CASEFOLD))
                return true;
        }
        from += length + 1;
    }
    return false;
}

bool an_peak_find(struct an_arena *arena, const char *device, const char *column,
                  struct an_peak *out)
{
    size_t wanted = 0;
    while (wanted < COLUMNS && strcmp(columns[wanted], column))
        wanted++;
    for (const char *line = table; *line && wanted < COLUMNS; line += strcspn(line, "\n") + 1) {
        const char *cell = line + strcspn(line, "\t\n");
        if (*line == '#' || *cell != '\t' || !is_named(line, cell, bare(device)))
            continue;
        for (size_t k = 0; k < wanted; k++)
            cell += 1 + strcspn(cell + 1, "\t\n");
        double value = strtod(cell + 1, NULL);
        for (size_t k = wanted; k < COLUMNS; k++)
            cell += 1 + strcspn(cell + 1, "\t\n");
        if (value > 0) {
            int length = (int)strcspn(cell + 1, "\n");
            *out = (struct an_peak){value * (wanted == COLUMNS - 1 ? 1e9 : 1e12),
                                    an_arena_format(arena, "datasheet: %.*s", length, cell + 1)};
        }
        return value > 0;
    }
    return false;
}

/* Multiprocessors of whole devices that can be divided (MIG), by the white papers of their
 * architectures. */
static const struct {
    const char *name;
    double multiprocessors;
} whole[] = {{"A100*", 108},      {"A30", 56},        {"H100 80GB HBM3", 132}, {"H100 SXM5*", 132},
             {"H100 PCIe*", 114}, {"H100 NVL*", 132}, {"H200*", 132},          {"GH200*", 132}};

bool an_peak_find_slice(struct an_arena *arena, const char *device, double multiprocessors,
                        const char *column, struct an_peak *out)
{
    const char *mig = strstr(device, " MIG ");
    char name[NAME_ROOM];
    if (!mig || (size_t)(mig - device) >= sizeof name || !strcmp(column, "bandwidth"))
        return false;
    memcpy(name, device, (size_t)(mig - device));
    name[mig - device] = 0;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        double share = multiprocessors / whole[i].multiprocessors;
        if (fnmatch(whole[i].name, bare(name), FNM_CASEFOLD))
            continue;
        if (!(share > 0) || share > 1 || !an_peak_find(arena, name, column, out))
            return false;
        out->value *= share;
        out->source = an_arena_format(arena, "%s; %g of %g multiprocessors", out->source,
                                      multiprocessors, whole[i].multiprocessors);
        return true;
    }
    return false;
}
