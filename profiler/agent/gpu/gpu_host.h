/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/agent/: which hardware metrics of a chip go together, and what their raw
 * counters mean: CUPTI's profiler host interface. Needs no GPU; depends on nothing of the agent.
 */
#ifndef TACHO_AGENT_GPU_HOST_H
#define TACHO_AGENT_GPU_HOST_H

#include <stdbool.h>

#include "profiler/agent/gpu/profiler_abi.h"
#include "profiler/gpu_metrics.h"

#define GPU_HOST_METRICS 32u

#pragma GCC visibility push(hidden)

/* Memory that CUPTI fills: pages of its own, zeroed. Beyond the size that CUPTI asked for there is
 * room, then no access: whatever it writes there, the program's heap is safe. */
struct gpu_image {
    uint8_t *at; /* NULL: none */
    size_t bytes;
};
bool gpu_image_make(struct gpu_image *image, size_t bytes);
void gpu_image_free(struct gpu_image *image);
/* Has nothing been written beyond its end? */
bool gpu_image_kept(const struct gpu_image *image);

struct gpu_host {
    const struct profiler_functions *functions;
    void *object; /* CUPTI's */
    /* those that were taken, with the name that was taken for each */
    const struct gpu_metric *metric[GPU_HOST_METRICS];
    const char *name[GPU_HOST_METRICS];
    size_t count;
    struct gpu_image availability, config;
    size_t passes;
};

/* Looks up what a library has; a function that is absent is NULL. False: not all that `host` needs.
 */
bool gpu_host_functions(struct profiler_functions *functions, void *library);

/* Takes of `wanted` what `chip` knows and what fits into most_passes (0: any number), and makes the
 * configuration. availability: of a device or context, or none; host owns it from now on, because
 * CUPTI does not say how long it reads there. 0, or CUPTI's result; with nothing that fits, count
 * is 0. The caller closes host in any case. */
int gpu_host_open(struct gpu_host *host, const struct profiler_functions *functions, int type,
                  const char *chip, struct gpu_image availability, const struct gpu_metric *wanted,
                  size_t count, size_t most_passes);
void gpu_host_close(struct gpu_host *host);

/* Values of one sample or range, in the order of h->metric. 0 or CUPTI's result. */
int gpu_host_values(const struct gpu_host *host, const uint8_t *data, size_t bytes, size_t index,
                    double *values);

#pragma GCC visibility pop

#endif
