/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: the instruction peak of the CPUs this process may use: FLOP/s of a loop of independent fused multiply-adds in
 * registers, one pinned thread a CPU, widest vectors that CPU and system support, best of several short runs. Measured once a
 * machine and CPU set, kept under $XDG_CACHE_HOME/tacho; each later run looks briefly whether it can do better and raises the
 * value if so.
 */
#ifndef COL_PEAK_H
#define COL_PEAK_H

#include <stdbool.h>

struct col_peak {
    double fp32, fp64; /* FLOP/s, 0 = not measured */
    int cpus;
    const char *isa; /* "AVX-512", "AVX2", "SSE2" */
    bool cached;
    char reason[128]; /* why it is absent */
};

/* Returns true when measured. Takes some tenths of a second the first time. */
bool col_peak_measure(struct col_peak *p);

#endif
