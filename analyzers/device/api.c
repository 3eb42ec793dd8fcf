/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call of an accelerator's API does, by the words in its name. The same words serve CUDA,
 * HIP, Level Zero and others, so no list of functions is needed.
 */
#include "analyzers/device/api.h"

#include <stddef.h>
#include <string.h>

static bool has(const char *name, const char *word)
{
    return strstr(name, word) != NULL;
}

/* Calls whose names hold one of the words that an_api_of looks for, but which put nothing on a
 * device: nodes of graphs, host functions, queries of a launch configuration. */
static bool is_other(const char *name)
{
    static const char *const words[] = {"GraphAdd", "GraphExec",      "NodeGet",
                                        "NodeSet",  "LaunchHostFunc", "LaunchConfig"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has(name, words[i]))
            return true;
    return false;
}

/* Calls that allocate or free memory of a device, or memory of the host that is locked for it. */
static enum an_api_kind memory_call(const char *name)
{
    static const char *const allocate[] = {"Malloc",       "HostAlloc",    "MemAlloc",
                                           "MemHostAlloc", "HostRegister", "MemCreate"};
    static const char *const free_words[] = {"Free", "HostUnregister", "MemRelease"};
    for (size_t i = 0; i < sizeof allocate / sizeof *allocate; i++)
        if (has(name, allocate[i]))
            return AN_API_ALLOCATE;
    for (size_t i = 0; i < sizeof free_words / sizeof *free_words; i++)
        if (has(name, free_words[i]))
            return AN_API_FREE;
    return AN_API_OTHER;
}

struct an_api_call an_api_of(const char *name)
{
    struct an_api_call call = {AN_API_OTHER, has(name, "Async")};
    if (is_other(name))
        return call;
    if (has(name, "Synchronize"))
        call.kind = AN_API_SYNC;
    else if (has(name, "GraphLaunch"))
        call.kind = AN_API_GRAPH;
    else if (has(name, "Memcpy") || has(name, "MemoryCopy") || has(name, "MemBufferCopy"))
        call.kind = AN_API_COPY;
    else if (has(name, "Memset") || has(name, "MemoryFill") || has(name, "MemBufferFill"))
        call.kind = AN_API_MEMSET;
    else if (has(name, "Launch") || has(name, "InvokeKernel"))
        call.kind = AN_API_KERNEL;
    else if (has(name, "EventRecord"))
        call.kind = AN_API_RECORD;
    else if (has(name, "StreamWaitEvent"))
        call.kind = AN_API_WAIT;
    else if (has(name, "EventQuery") || has(name, "StreamQuery"))
        call.kind = AN_API_QUERY;
    else
        call.kind = memory_call(name);
    return call;
}
