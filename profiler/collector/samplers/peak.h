/* SPDX-License-Identifier: Apache-2.0
 *
 * The instruction peak of the CPUs this process may use: FLOP/s of a loop of independent fused
 * multiply-adds in registers, one pinned thread a CPU, widest vectors (or tiles) that CPU and
 * system support, best of several short runs. Measured once a machine and CPU set, kept under
 * $XDG_CACHE_HOME/tacho; each later run measures briefly and raises the value if it finds a higher
 * one.
 */
#ifndef COL_PEAK_H
#define COL_PEAK_H

#include <stdbool.h>

struct col_peak {
    double fp32, fp64; /* FLOP/s, 0 = not measured */
    double bf16; /* of the instructions for bf16 multiplications summed in fp32; 0: this CPU has
                    none */
    int cpus;
    const char *isa;      /* "AVX-512", "AVX2", "SSE2", "NEON" */
    const char *bf16_isa; /* "AMX", "AVX-512 BF16", "BFMMLA"; NULL: none */
    bool cached;
    char reason[128]; /* why it is absent */
};

struct col_peak_spread {
    double median, worst; /* FLOP/s */
    int runs;
};

/* Returns true when measured. Takes some tenths of a second the first time. */
bool col_peak_measure(struct col_peak *peak);
/* The same without the cached value, and measured for `seconds` a type. spread: of fp32, fp64,
 * bf16. */
bool col_peak_measure_anew(struct col_peak *peak, double seconds, struct col_peak_spread spread[3]);

#endif
