/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions that the peak of a processor is measured with. The loops are written in
 * assembler: what is measured is the hardware, not what a compiler makes of a loop at some -O
 * level.
 */
#ifndef COL_PEAK_ISA_H
#define COL_PEAK_ISA_H

#include <stdint.h>

struct isa {
    const char *name;
    void (*fp32)(uint64_t n), (*fp64)(uint64_t n);
    double flops32, flops64; /* of a round */
};
/* Instructions for bf16 multiplications that are summed in fp32. */
struct isa_bf16 {
    const char *name;
    void (*loop)(uint64_t n);
    double flops; /* of a round */
};

/* The widest vectors that CPU and system support; NULL: no loop is written for this processor. */
const struct isa *col_isa_choose(void);
/* NULL: the CPU has none, or the system does not let this process use them. */
const struct isa_bf16 *col_isa_bf16(const struct isa *isa);

#endif
