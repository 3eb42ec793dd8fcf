/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of the instruction peak on x86-64. 14 independent accumulators cover the latency of
 * every CPU's multiply-add units (4-5 cycles on two ports need 8-10).
 */
#include "profiler/collector/samplers/peak_isa.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOBBER \
    "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define ZERO_ALL \
    "vpxor %%xmm0,%%xmm0,%%xmm0\n vpxor %%xmm1,%%xmm1,%%xmm1\n vpxor %%xmm2,%%xmm2,%%xmm2\n " \
    "vpxor %%xmm3,%%xmm3,%%xmm3\n" \
    "vpxor %%xmm4,%%xmm4,%%xmm4\n vpxor %%xmm5,%%xmm5,%%xmm5\n vpxor %%xmm6,%%xmm6,%%xmm6\n " \
    "vpxor %%xmm7,%%xmm7,%%xmm7\n" \
    "vpxor %%xmm8,%%xmm8,%%xmm8\n vpxor %%xmm9,%%xmm9,%%xmm9\n vpxor %%xmm10,%%xmm10,%%xmm10\n" \
    "vpxor %%xmm11,%%xmm11,%%xmm11\n vpxor %%xmm12,%%xmm12,%%xmm12\n vpxor " \
    "%%xmm13,%%xmm13,%%xmm13\n" \
    "vpxor %%xmm14,%%xmm14,%%xmm14\n vpxor %%xmm15,%%xmm15,%%xmm15\n"
#define FMA(op, r, n) op " %%" r "0,%%" r "1,%%" r #n "\n"
#define FMA_14(op, r) \
    FMA(op, r, 2) \
    FMA(op, r, 3) \
    FMA(op, r, 4) \
    FMA(op, r, 5) \
    FMA(op, r, 6) \
    FMA(op, r, 7) \
    FMA(op, r, 8) \
    FMA(op, r, 9) \
    FMA(op, r, 10) FMA(op, r, 11) FMA(op, r, 12) FMA(op, r, 13) FMA(op, r, 14) FMA(op, r, 15)

/* Each runs n rounds of 14 multiply-adds on all lanes. */
#define FMA_LOOP(name, op, r) \
    static void name(uint64_t n) \
    { \
        __asm__ volatile(ZERO_ALL "1:\n" FMA_14(op, r) "dec %0\n jnz 1b\n vzeroupper\n" \
                         : "+r"(n) \
                         : \
                         : CLOBBER); \
    }
FMA_LOOP(avx512_fp32, "vfmadd231ps", "zmm")
FMA_LOOP(avx512_fp64, "vfmadd231pd", "zmm")
FMA_LOOP(avx2_fp32, "vfmadd231ps", "ymm")
FMA_LOOP(avx2_fp64, "vfmadd231pd", "ymm")

/* Without fused multiply-add: a multiply and an add side by side, seven of each. */
#define SSE_PAIR(mul, add, a, b) mul " %%xmm0,%%xmm" #a "\n" add " %%xmm1,%%xmm" #b "\n"
#define SSE_LOOP(name, mul, add) \
    static void name(uint64_t n) \
    { \
        __asm__ volatile( \
            "xorps %%xmm0,%%xmm0\n xorps %%xmm1,%%xmm1\n xorps %%xmm2,%%xmm2\n xorps " \
            "%%xmm3,%%xmm3\n" \
            "xorps %%xmm4,%%xmm4\n xorps %%xmm5,%%xmm5\n xorps %%xmm6,%%xmm6\n xorps " \
            "%%xmm7,%%xmm7\n" \
            "xorps %%xmm8,%%xmm8\n xorps %%xmm9,%%xmm9\n xorps %%xmm10,%%xmm10\n xorps " \
            "%%xmm11,%%xmm11\n" \
            "xorps %%xmm12,%%xmm12\n xorps %%xmm13,%%xmm13\n xorps %%xmm14,%%xmm14\n xorps " \
            "%%xmm15,%%xmm15\n1:\n" SSE_PAIR(mul, add, 2, 3) SSE_PAIR(mul, add, 4, 5) \
                SSE_PAIR(mul, add, 6, 7) SSE_PAIR(mul, add, 8, 9) SSE_PAIR(mul, add, 10, 11) \
                    SSE_PAIR(mul, add, 12, 13) SSE_PAIR(mul, add, 14, 15) "dec %0\n jnz 1b\n" \
            : "+r"(n) \
            : \
            : CLOBBER); \
    }
SSE_LOOP(sse_fp32, "mulps", "addps")
SSE_LOOP(sse_fp64, "mulpd", "addpd")

/* Pairs of bf16 multiplications added to fp32: 16 lanes of two multiply-adds. */
FMA_LOOP(avx512_bf16, "vdpbf16ps", "zmm")

/* Tiles of 16 rows of 64 bytes: palette 1, then bytes a row of eight tiles, then their rows. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* A product of tiles is 16 x 16 x 32 multiply-adds. Six accumulators cover its latency. The
 * configuration is a whole memory operand: compilers that are told of its first bytes only drop the
 * stores of the rest. */
#define TILE(n) "tdpbf16ps %%tmm7,%%tmm6,%%tmm" #n "\n"
static void amx_bf16(uint64_t rounds)
{
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    __asm__ volatile(
        "ldtilecfg %1\n tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n"
        "tilezero %%tmm4\n tilezero %%tmm5\n tilezero %%tmm6\n tilezero %%tmm7\n"
        "1:\n" TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) "dec %0\n jnz 1b\n tilerelease\n"
        : "+r"(rounds)
        : "m"(config)
        : "cc");
}

static const struct isa isa_avx512 = {"AVX-512", avx512_fp32, avx512_fp64, 14 * 16 * 2, 14 * 8 * 2};
static const struct isa isa_avx2 = {"AVX2", avx2_fp32, avx2_fp64, 14 * 8 * 2, 14 * 4 * 2};
static const struct isa isa_sse = {"SSE2", sse_fp32, sse_fp64, 14 * 4, 14 * 2};
static const struct isa_bf16 isa_amx = {"AMX", amx_bf16, 6 * 16 * 16 * 32 * 2};
static const struct isa_bf16 isa_avx512_bf16 = {"AVX-512 BF16", avx512_bf16, 14 * 32 * 2};

/* The widest vectors that CPU and system support. */
const struct isa *col_isa_choose(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return &isa_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &isa_avx2;
    return &isa_sse;
}

/* Does the system save tiles when it switches threads, and let this process use them? On Linux a
 * process must request them. */
static bool tiles_allowed(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* cpuid leaf 7: subleaf 0 EDX bit 22 AMX-BF16, bit 24 AMX-TILE; subleaf 1 EAX bit 5 AVX512_BF16.
 * Compilers of some years ago have no names for them. */
const struct isa_bf16 *col_isa_bf16(const struct isa *isa)
{
    unsigned eax, ebx, ecx, edx;
    if (isa != &isa_avx512 || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return NULL;
    if ((edx >> 22 & 1) && (edx >> 24 & 1) && tiles_allowed())
        return &isa_amx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 5 & 1) ? &isa_avx512_bf16
                                                                             : NULL;
}

#endif
