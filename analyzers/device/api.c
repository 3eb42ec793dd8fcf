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
    static const char *const allocate[] = {"Malloc",       "HostAlloc",     "MemAlloc",
                                           "MemHostAlloc", "HostRegister",  "MemCreate",
                                           "DeviceAlloc",  "USMSharedAlloc"};
    static const char *const free_words[] = {"Free", "HostUnregister", "MemRelease"};
    for (size_t i = 0; i < sizeof allocate / sizeof *allocate; i++)
        if (has(name, allocate[i]))
            return AN_API_ALLOCATE;
    for (size_t i = 0; i < sizeof free_words / sizeof *free_words; i++)
        if (has(name, free_words[i]))
            return AN_API_FREE;
    return AN_API_OTHER;
}

/* Words of the calls of each kind; the first row that has one in a name counts. Unified Runtime
 * (ur) and its predecessor (pi) say Finish and Wait where others synchronise. */
static const struct {
    enum an_api_kind kind;
    const char *words[5];
} calls[] = {
    {AN_API_WAIT, {"StreamWaitEvent", "EnqueueEventsWait", "WaitOnEvents"}},
    {AN_API_SYNC, {"Synchronize", "QueueFinish", "EventWait", "EventsWait"}},
    {AN_API_GRAPH, {"GraphLaunch", "EnqueueCommandBuffer"}},
    {AN_API_COPY, {"Memcpy", "MemoryCopy", "MemBufferCopy", "MemBufferRead", "MemBufferWrite"}},
    {AN_API_MEMSET, {"Memset", "MemoryFill", "MemBufferFill", "USMFill"}},
    {AN_API_KERNEL, {"Launch", "InvokeKernel"}},
    {AN_API_RECORD, {"EventRecord", "RecordEvent"}},
    {AN_API_QUERY, {"EventQuery", "StreamQuery", "QueryEventStatus"}},
};

/* Does the name say that the call only puts something into a queue? */
static bool is_async(const char *name)
{
    return has(name, "Async") || has(name, "urEnqueue") || has(name, "piEnqueue") ||
           has(name, "CommandListAppend");
}

struct an_api_call an_api_of(const char *name)
{
    struct an_api_call call = {AN_API_OTHER, is_async(name)};
    if (is_other(name))
        return call;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t k = 0; k < 5 && calls[i].words[k]; k++)
            if (has(name, calls[i].words[k])) {
                call.kind = calls[i].kind;
                return call;
            }
    call.kind = memory_call(name);
    return call;
}
