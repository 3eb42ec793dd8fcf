/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of the instruction peak on aarch64. NEON is as wide as the vectors of Neoverse V2
 * (Grace: four units of 128 bits); longer vectors of SVE (A64FX, Neoverse V1) are not used, so that
 * the peak is too low there. 28 independent accumulators cover the latency (4 cycles on four units
 * need 16).
 */
#include "profiler/collector/samplers/peak_isa.h"

#if defined(__aarch64__)

#include <stddef.h>
#include <sys/auxv.h>

#ifndef HWCAP2_BF16
#define HWCAP2_BF16 (1u << 14)
#endif

#define CLOBBER \
    "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", \
        "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", \
        "v27", "v28", "v29", "v30", "v31"
#define EACH_7(X, a, b, c, d, e, f, g) X(a) X(b) X(c) X(d) X(e) X(f) X(g)
#define EACH_28(X) \
    EACH_7(X, 4, 5, 6, 7, 8, 9, 10) \
    EACH_7(X, 11, 12, 13, 14, 15, 16, 17) \
    EACH_7(X, 18, 19, 20, 21, 22, 23, 24) \
    EACH_7(X, 25, 26, 27, 28, 29, 30, 31)
#define ZERO(n) "movi v" #n ".2d, #0\n"

/* Each runs n rounds of 28 multiply-adds on all lanes. */
#define LOOP(name, begin, X) \
    static void name(uint64_t n) \
    { \
        __asm__ volatile(begin ZERO(0) ZERO(1) \
                             EACH_28(ZERO) "1:\n" EACH_28(X) "subs %0, %0, #1\n b.ne 1b\n" \
                         : "+r"(n) \
                         : \
                         : CLOBBER); \
    }
#define FMLA_FP32(n) "fmla v" #n ".4s, v0.4s, v1.4s\n"
#define FMLA_FP64(n) "fmla v" #n ".2d, v0.2d, v1.2d\n"
/* A product of 2 x 4 and 4 x 2 elements; the extension is named, whatever the compiler targets. */
#define BFMMLA(n) "bfmmla v" #n ".4s, v0.8h, v1.8h\n"
LOOP(neon_fp32, "", FMLA_FP32)
LOOP(neon_fp64, "", FMLA_FP64)
LOOP(neon_bf16, ".arch_extension bf16\n", BFMMLA)

static const struct isa isa_neon = {"NEON", neon_fp32, neon_fp64, 28 * 4 * 2, 28 * 2 * 2};
static const struct isa_bf16 isa_bfmmla = {"BFMMLA", neon_bf16, 28 * 2 * 2 * 4 * 2};

const struct isa *col_isa_choose(void)
{
    return &isa_neon;
}

const struct isa_bf16 *col_isa_bf16(const struct isa *isa)
{
    (void)isa;
    return getauxval(AT_HWCAP2) & HWCAP2_BF16 ? &isa_bfmmla : NULL;
}

#elif !defined(__x86_64__)

#include <stddef.h>

const struct isa *col_isa_choose(void)
{
    return NULL;
}

const struct isa_bf16 *col_isa_bf16(const struct isa *isa)
{
    (void)isa;
    return NULL;
}

#endif
