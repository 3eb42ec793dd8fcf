/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the table of accelerators (accelerators.tsv, compiled in).
 */
#include "analyzers/hardware/accelerators.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM 256
#define GIB       1073741824.0

static const char table[] =
#include "accelerators.inc"
    ;

static const char *const types[AN_ACCELERATOR_TYPES] = {"fp64", "fp32", "tf32", "fp16",
                                                        "bf16", "fp8",  "fp4"};

/* The name without its maker and family. */
static const char *bare(const char *name)
{
    static const char *const words[] = {"NVIDIA ", "Tesla ", "GeForce ", "AMD ", "Instinct "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncasecmp(name, words[i], strlen(words[i])))
            name += strlen(words[i]);
    return name;
}

/* How a name of the table is compared with what was asked for. */
typedef bool compare(const char *pattern, const char *name);

static bool is_pattern_of(const char *pattern, const char *name)
{
    return !fnmatch(pattern, name, FNM_CASEFOLD);
}

/* Is `name` a beginning of the pattern in whole words, "A100-SXM" of "A100-SXM4-80GB"? Digits
 * behind letters and the letters behind digits may be left out: "A100-SXM-80". */
static bool is_short_for(const char *pattern, const char *name)
{
    while (*name) {
        if (tolower((unsigned char)*name) == tolower((unsigned char)*pattern)) {
            name++;
            pattern++;
        } else if (isdigit((unsigned char)*pattern) && (*name == '-' || *name == ' ')) {
            pattern++;
        } else {
            return false;
        }
    }
    return !isalnum((unsigned char)*pattern) || !strcasecmp(pattern, "GB");
}

/* Does one of the names in [from, to) match? */
static bool is_named(const char *from, const char *to, const char *name, compare *matches)
{
    while (from < to) {
        size_t length = strcspn(from, "|\t");
        char pattern[NAME_ROOM];
        if (length < sizeof pattern) {
            memcpy(pattern, from, length);
            pattern[length] = 0;
            if (matches(pattern, name))
                return true;
        }
        from += length + 1;
    }
    return false;
}

/* The cell behind `*cell`, into `room`; `*cell` moves on. */
static const char *next_cell(const char **cell, char *room, size_t bytes)
{
    const char *from = *cell + (**cell == '\t');
    size_t length = strcspn(from, "\t\n");
    *cell = from + length;
    snprintf(room, bytes, "%.*s", (int)length, from);
    return room;
}

static double next_number(const char **cell, double unit)
{
    char room[NAME_ROOM];
    return strtod(next_cell(cell, room, sizeof room), NULL) * unit;
}

/* Fills `out` from a line. */
static void read_line(const char *line, struct an_accelerator *out)
{
    const char *cell = line + strcspn(line, "\t");
    *out = (struct an_accelerator){.domain = 1};
    snprintf(out->name, sizeof out->name, "%.*s", (int)strcspn(line, "|\t"), line);
    out->name[strcspn(out->name, "*")] = 0;
    for (size_t end = strlen(out->name); end && out->name[end - 1] == '-'; end--)
        out->name[end - 1] = 0;
    next_cell(&cell, out->family, sizeof out->family);
    for (size_t i = 0; i < AN_ACCELERATOR_TYPES; i++)
        out->flops[i] = next_number(&cell, 1e12);
    out->bytes_per_s = next_number(&cell, 1e9);
    out->bytes = next_number(&cell, GIB); /* makers count memory in powers of two */
    out->link_bytes_per_s = next_number(&cell, 1e9);
    out->domain = next_number(&cell, 1);
    out->watts = next_number(&cell, 1);
    out->units = next_number(&cell, 1);
    out->price_low = next_number(&cell, 1);
    out->price_high = next_number(&cell, 1);
    next_cell(&cell, out->dated, sizeof out->dated);
    out->source = cell + 1;
    out->source_length = (int)strcspn(out->source, "\n");
}

static bool find(const char *name, compare *matches, struct an_accelerator *out)
{
    for (const char *line = table; *line; line += strcspn(line, "\n") + 1) {
        const char *cell = line + strcspn(line, "\t\n");
        if (*line == '#' || *cell != '\t' || !is_named(line, cell, bare(name), matches))
            continue;
        read_line(line, out);
        return true;
    }
    return false;
}

bool an_accelerator_named(const char *name, struct an_accelerator *out)
{
    return find(name, is_pattern_of, out);
}

bool an_accelerator_find(const char *name, struct an_accelerator *out)
{
    return *name && (find(name, is_pattern_of, out) || find(name, is_short_for, out));
}

bool an_accelerator_at(size_t index, struct an_accelerator *out)
{
    for (const char *line = table; *line; line += strcspn(line, "\n") + 1) {
        if (*line == '#')
            continue;
        if (index--)
            continue;
        read_line(line, out);
        return true;
    }
    return false;
}

double an_accelerator_peak(const struct an_accelerator *of, const char *type)
{
    for (size_t i = 0; i < AN_ACCELERATOR_TYPES; i++)
        if (!strcmp(types[i], type))
            return of->flops[i];
    return 0;
}
