/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to gemm.c: what a GEMM library must offer. gemm_dnnl.c and gemm_cblas.c are
 * the two; the build has one.
 */
#ifndef LT_GEMM_LIBRARY_H
#define LT_GEMM_LIBRARY_H

#include "libtrain/gemm/gemm.h"

/* 0 when the product is made; -1, with c as it was, when the library does not have it. */
int lt_gemm_library_run(const struct lt_product *product);

int lt_gemm_library_has(enum lt_dtype dtype);

#endif
