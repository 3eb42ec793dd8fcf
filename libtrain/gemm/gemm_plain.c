/* SPDX-License-Identifier: Apache-2.0
 *
 * No library of GEMMs, for a program that is carried to a machine without one (LT_GEMM_PLAIN): the
 * plain loops of gemm.c multiply. A device does not need them.
 */
#if defined(LT_GEMM_PLAIN)
#include "libtrain/gemm/gemm_library.h"

int lt_gemm_library_run(const struct lt_product *product)
{
    (void)product;
    return -1;
}

int lt_gemm_library_has(enum lt_dtype dtype)
{
    (void)dtype;
    return 0;
}

const char *lt_gemm_library(void)
{
    return "no GEMM library";
}
#endif
