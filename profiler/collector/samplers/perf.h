/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware and software counters of the target and all its descendants, through perf_event_open
 * (inherit, enable_on_exec), encoded by libpfm4 where that is built in. Each counter has a status;
 * one that was not measured has a reason, never a 0.
 */
#ifndef COL_PERF_H
#define COL_PERF_H

#include <sys/types.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/drain/drain.h"

struct col_perf;

struct col_perf_reading {
    const char *name, *unit;
    enum col_status status;
    int error;         /* errno */
    double value;      /* scaled where multiplexed; NAN when not measured */
    double ratio;      /* share of the time it was counted, 1 = all of it */
    const char *fix;   /* what to do about it, "" = nothing */
    const char *event; /* what was asked for: "FP_ARITH_INST_RETIRED:SCALAR_SINGLE" */
};

/* Opens every counter on `pid`: 0 = the calling thread, started at once; else from its next exec
 * on. Never fails as a whole. */
struct col_perf *col_perf_open(pid_t pid);
/* Counts on another process too (from its next exec on): readings are sums. One that cannot be
 * counted there makes the sum absent. */
void col_perf_add(struct col_perf *perf, pid_t pid);
unsigned col_perf_count(const struct col_perf *perf);
void col_perf_read(struct col_perf *perf, unsigned i, struct col_perf_reading *out);
/* Adds a sample of every counter that counts to its track. */
int col_perf_sample(struct col_perf *perf, struct col_drain *drain);
/* Totals as metrics "perf.NAME", status as run keys "counter.NAME", and a loss row for each that is
 * missing. */
int col_perf_finish(struct col_perf *perf, struct col_drain *drain);
void col_perf_reset(struct col_perf *perf);
void col_perf_close(struct col_perf *perf);

#endif
