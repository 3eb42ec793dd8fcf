/* SPDX-License-Identifier: Apache-2.0
 *
 * What the target's environment and the segment folder say about device work, and the control word
 * that opens and closes capture windows (profiler/wire.h, struct wire_control).
 */
#ifndef COL_GPU_ENV_H
#define COL_GPU_ENV_H

#include "profiler/collector/collector.h"
#include "profiler/collector/os/launch.h"
#include "profiler/wire.h"

#define COL_GPU_ENV_MAX 5

/* Fills env[0 ..] with at most COL_GPU_ENV_MAX entries, whose texts stay valid as long as `library`
 * and `keep`; returns their number. What the user has set for another tool is in `warning` ("" if
 * nothing). */
struct col_gpu_env {
    char mode[256];
    char warning[2 * COL_PATH_MAX];
};
size_t col_gpu_environment(const struct col_options *options, const char *library,
                           struct col_env *env, struct col_gpu_env *keep);

/* Writes the control file of a run that is about to start into the folder of its pools. 0,
 * TACHO_EIO, TACHO_ENOSPACE. */
int col_control_create(int folder, const struct col_options *options);
/* What it says now. TACHO_ENOTFOUND, TACHO_EVERSION. */
int col_control_mode(const char *segments, enum wire_capture *mode);
/* Changes it; windows of time end `ns` from now. TACHO_ENOTFOUND, TACHO_EVERSION. */
int col_control_set(const char *segments, enum wire_capture mode, int64_t first, int64_t last,
                    int64_t every, int64_t ns);

#endif
