/* SPDX-License-Identifier: Apache-2.0
 *
 * Python frames "path/file.py(12): function", as PyTorch writes them: paths below a folder of the
 * module search path are written without it ("torch/nn/modules/module.py(1501): _call_impl").
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution_private.h"
#include "tacho_hash.h"

/* Length of the path before "(digits): ", 0: the frame has no such part. */
static size_t path_length(const char *frame)
{
    for (const char *bracket = strchr(frame, '('); bracket; bracket = strchr(bracket + 1, '(')) {
        size_t digits = strspn(bracket + 1, "0123456789");
        if (digits && !strncmp(bracket + 1 + digits, "): ", 3))
            return (size_t)(bracket - frame);
    }
    return 0;
}

bool an_frame_is_user(const char *frame)
{
    static const char *const inside[] = {"site-packages/", "dist-packages/", "lib/python3",
                                         "lib64/python3"};
    static const char *const below[] = {
        "torch/",           "torchvision/", "torchaudio/",  "torchgen/",     "functorch/",
        "triton/",          "apex/",        "threading.py", "contextlib.py", "functools.py",
        "multiprocessing/", "concurrent/",  "asyncio/",     "runpy.py",      "importlib/",
        "abc.py",           "typing.py",    "selectors.py", "queue.py"};
    size_t length = path_length(frame);
    if (!length || *frame == '<')
        return false;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        const char *found = strstr(frame, inside[i]);
        if (found && found < frame + length)
            return false;
    }
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (!strncmp(frame, below[i], strlen(below[i])))
            return false;
    return true;
}

/* ---- rows by text ---------------------------------------------------------------------------- */

static size_t hash_of(const char *text)
{
    uint64_t hash = tacho_hash_text(TACHO_HASH_BEGIN, text);
    return (size_t)(hash ^ hash >> 32);
}

/* Doubles the hash table of names. */
static int buckets_grow(struct an_by_table *by_table)
{
    size_t buckets = by_table->buckets ? 2 * by_table->buckets : 256;
    uint32_t *bucket = calloc(buckets, sizeof *bucket);
    if (!bucket)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < by_table->count; i++) {
        size_t place = hash_of(by_table->row[i].name) & (buckets - 1);
        while (bucket[place])
            place = (place + 1) & (buckets - 1);
        bucket[place] = (uint32_t)i + 1;
    }
    free(by_table->bucket);
    by_table->bucket = bucket;
    by_table->buckets = buckets;
    return 0;
}

uint32_t an_by_row_of(struct an_by_table *by_table, const char *name)
{
    if (2 * by_table->count >= by_table->buckets && buckets_grow(by_table))
        return AN_NONE;
    size_t place = hash_of(name) & (by_table->buckets - 1);
    for (; by_table->bucket[place]; place = (place + 1) & (by_table->buckets - 1))
        if (!strcmp(by_table->row[by_table->bucket[place] - 1].name, name))
            return by_table->bucket[place] - 1;
    if (an_grow(&by_table->row, &by_table->room, by_table->count + 1, sizeof *by_table->row))
        return AN_NONE;
    by_table->row[by_table->count] = (struct an_by_row){.name = name};
    by_table->bucket[place] = (uint32_t)++by_table->count;
    return (uint32_t)by_table->count - 1;
}
