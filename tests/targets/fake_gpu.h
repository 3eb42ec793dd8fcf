/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests: what the substitute driver, the substitute CUPTI and the target say to each other.
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stdint.h>

enum fake_what {
    FAKE_LAUNCH,
    FAKE_COPY,
    FAKE_SET,
    FAKE_EVENT,
    FAKE_WAIT,
    FAKE_SYNC,
    FAKE_GRAPH,
    FAKE_QUERY,   /* of an event that is not ready */
    FAKE_HOST,    /* a function of the host on a stream */
    FAKE_VERSION, /* cuDriverGetVersion */
    FAKE_MEMORY   /* bytes allocated, negative: released */
};

/* A call of the program. The runtime's, or the driver's where `driver` is set. */
struct fake_call {
    enum fake_what what;
    int driver;
    uint32_t stream, event;
    uint64_t bytes;
    const char *kernel;
    uint64_t graph_node;
    int endless;         /* a kernel that never ends */
    uint32_t nodes;      /* of a graph; 0 = four */
    uint32_t host_ns;    /* that the call takes its thread */
    uint64_t start, end; /* of a kernel or copy, CLOCK_REALTIME ns; 0 = now, and short */
    uint64_t operations; /* of the matrix units, in a kernel; 0 = not told */
};

typedef void (*fake_tool)(struct fake_call *c);

#endif
