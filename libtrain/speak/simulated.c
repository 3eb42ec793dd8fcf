/* SPDX-License-Identifier: Apache-2.0
 *
 * Compute that is only waiting.
 */
#include "libtrain/speak/simulated.h"

#include <time.h>

#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

void lt_sleep(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    while (nanosleep(&time, &time)) {
    }
}

void lt_simulate(struct lt_trace *trace, int backward, double seconds)
{
    struct tacho_work work = {.dtype = TACHO_DTYPE_FP32,
                              .pass = backward ? TACHO_PASS_BACKWARD : TACHO_PASS_FORWARD,
                              .kind = TACHO_WORK_OTHER};
    if (!(seconds > 0))
        return;
    lt_trace_work_begin(trace, backward ? LT_RANGE_SIMULATED_BACKWARD : LT_RANGE_SIMULATED_FORWARD,
                        &work);
    lt_sleep(seconds);
    lt_trace_end(trace);
}
