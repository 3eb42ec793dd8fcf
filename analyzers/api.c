/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/api.h"

#include <stdlib.h>
#include <string.h>

#include "tacho_error.h"

static bool has(const char *name, const char *word)
{
    return strstr(name, word) != NULL;
}

/* Calls that hold one of the words below and put nothing on a device: nodes of graphs, functions of the host, questions. */
static bool is_other(const char *name)
{
    static const char *const words[] = {"GraphAdd", "GraphExec", "NodeGet", "NodeSet", "LaunchHostFunc", "LaunchConfig"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has(name, words[i]))
            return true;
    return false;
}

struct an_api_call an_api_of(const char *name)
{
    struct an_api_call a = {AN_API_OTHER, has(name, "Async")};
    if (is_other(name))
        return a;
    if (has(name, "Synchronize"))
        a.kind = AN_API_SYNC;
    else if (has(name, "GraphLaunch"))
        a.kind = AN_API_GRAPH;
    else if (has(name, "Memcpy") || has(name, "MemoryCopy") || has(name, "MemBufferCopy"))
        a.kind = AN_API_COPY;
    else if (has(name, "Memset") || has(name, "MemoryFill") || has(name, "MemBufferFill"))
        a.kind = AN_API_MEMSET;
    else if (has(name, "Launch") || has(name, "InvokeKernel"))
        a.kind = AN_API_KERNEL;
    return a;
}

/* ---- of slices ---------------------------------------------------------------------------------------------------------- */

#define LOOKED_AT 128
#define ASYNC     64

int an_api_names_new(const struct an_trace *t, struct an_api_names *n)
{
    *n = (struct an_api_names){t, calloc(t->string_count + 1, 1), calloc(t->string_count + 1, 1)};
    if (n->name && n->category)
        return 0;
    an_api_names_free(n);
    return TACHO_ENOMEM;
}

void an_api_names_free(struct an_api_names *n)
{
    free(n->name);
    free(n->category);
    n->name = n->category = NULL;
}

static bool is_call(const struct an_api_names *n, size_t i)
{
    uint32_t category = n->t->slice.category[i];
    uint8_t *known = &n->category[category < n->t->string_count ? category : n->t->string_count];
    if (!*known)
        *known = an_category_is_call(an_trace_name(n->t, category)) ? 2 : 1;
    return *known == 2;
}

struct an_api_call an_api_at(const struct an_api_names *n, size_t i)
{
    if (!is_call(n, i))
        return (struct an_api_call){AN_API_OTHER, false};
    uint32_t name = n->t->slice.name[i];
    uint8_t *known = &n->name[name < n->t->string_count ? name : n->t->string_count];
    if (!*known) {
        struct an_api_call a = an_api_of(an_trace_name(n->t, name));
        *known = (uint8_t)(LOOKED_AT | (a.async ? ASYNC : 0) | a.kind);
    }
    return (struct an_api_call){(enum an_api_kind)(*known & (ASYNC - 1)), *known & ASYNC};
}

bool an_api_inside(const struct an_api_names *n, size_t i)
{
    uint32_t parent = n->t->slice.parent[i];
    return parent != AN_NONE && is_call(n, parent);
}
