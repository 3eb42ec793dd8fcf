/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what a call of an accelerator's API does, by its name. CUDA (runtime and
 * driver, with the suffixes of their versions), HIP, Level Zero, SYCL, Ascend's CANN and others
 * follow the same words: Launch, Memcpy, Memset, Synchronize, Async.
 */
#ifndef ANALYZERS_API_H
#define ANALYZERS_API_H

#include <stdbool.h>
#include <string.h>

enum an_api_kind {
    AN_API_OTHER,
    AN_API_KERNEL, /* launches a kernel */
    AN_API_GRAPH,  /* launches a graph */
    AN_API_COPY,
    AN_API_MEMSET,
    AN_API_SYNC,     /* the host waits for a device, a stream or an event */
    AN_API_RECORD,   /* puts an event into a stream */
    AN_API_WAIT,     /* lets a stream wait for an event */
    AN_API_QUERY,    /* asks whether an event or a stream is done */
    AN_API_ALLOCATE, /* memory of a device, or locked memory of the host */
    AN_API_FREE,
};

struct an_api_call {
    enum an_api_kind kind;
    bool async; /* copies and memsets: by its name the call does not wait */
};

struct an_api_call an_api_of(const char *name);

/* Is it a category of API calls (docs/schema.md)? */
static inline bool an_category_is_call(const char *category)
{
    return !strcmp(category, "runtime") || !strcmp(category, "driver");
}

/* Can a call of this kind put work on a device? */
static inline bool an_api_launches(struct an_api_call call)
{
    return call.kind == AN_API_KERNEL || call.kind == AN_API_GRAPH || call.kind == AN_API_COPY ||
           call.kind == AN_API_MEMSET;
}

#endif
