/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to doctor/: where its lines go, and the lines about GPUs.
 */
#ifndef COL_PROBE_PRIVATE_H
#define COL_PROBE_PRIVATE_H

#include "profiler/collector/collector.h"

struct col_sink {
    int (*row)(void *ctx, const struct col_probe *probe);
    void *ctx;
    const char *folder; /* of the output */
    int rc;             /* of the callback: non-zero ends */
};

void col_sink_add(struct col_sink *sink, const char *group, const char *name,
                  enum col_status status, int error, const char *text, const char *fix);
void col_sink_ok(struct col_sink *sink, const char *group, const char *name, const char *text);

/* Foreign libraries are loaded in a child process with a time limit: a driver that hangs must not
 * take the doctor with it. */
void col_probe_gpu(struct col_sink *sink);

#endif
