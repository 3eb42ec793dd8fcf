/* SPDX-License-Identifier: Apache-2.0
 *
 * Python frames "path/file.py(12): function", as PyTorch writes them: paths below a folder of the
 * module search path stand without it ("torch/nn/modules/module.py(1501): _call_impl").
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution.h"

/* Is there "(digits)" with ": " behind it? Returns the length of the path before it, 0: no. */
static size_t path_length(const char *frame)
{
    for (const char *p = strchr(frame, '('); p; p = strchr(p + 1, '(')) {
        size_t n = strspn(p + 1, "0123456789");
        if (n && !strncmp(p + 1 + n, "): ", 3))
            return (size_t)(p - frame);
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
    size_t n = path_length(frame);
    if (!n || *frame == '<')
        return false;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        const char *at = strstr(frame, inside[i]);
        if (at && at < frame + n)
            return false;
    }
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (!strncmp(frame, below[i], strlen(below[i])))
            return false;
    return true;
}

/* ---- rows by text --------------------------------------------------------------------------------------------------------- */

static size_t hash_of(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

static int buckets_grow(struct an_by_table *t)
{
    size_t n = t->buckets ? 2 * t->buckets : 256;
    uint32_t *bucket = calloc(n, sizeof *bucket);
    if (!bucket)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->count; i++) {
        size_t h = hash_of(t->row[i].name) & (n - 1);
        while (bucket[h])
            h = (h + 1) & (n - 1);
        bucket[h] = (uint32_t)i + 1;
    }
    free(t->bucket);
    t->bucket = bucket;
    t->buckets = n;
    return 0;
}

uint32_t an_by_row_of(struct an_by_table *t, const char *name)
{
    if (2 * t->count >= t->buckets && buckets_grow(t))
        return AN_NONE;
    size_t h = hash_of(name) & (t->buckets - 1);
    for (; t->bucket[h]; h = (h + 1) & (t->buckets - 1))
        if (!strcmp(t->row[t->bucket[h] - 1].name, name))
            return t->bucket[h] - 1;
    if (an_grow(&t->row, &t->room, t->count + 1, sizeof *t->row))
        return AN_NONE;
    t->row[t->count] = (struct an_by_row){.name = name};
    t->bucket[h] = (uint32_t)++t->count;
    return (uint32_t)t->count - 1;
}
