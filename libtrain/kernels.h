/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to ops.c and the backends: one function an operation and a backend, all of the same shape, declared from the list.
 */
#ifndef LT_KERNELS_H
#define LT_KERNELS_H

#include "libtrain/ops.h"

#define LT_ATTENTION_BLOCK 64    /* query rows that the cpu backend's attention handles at a time */
#define LT_NORM_BLOCK      65536 /* elements summed into one partial sum */
#define LT_LAYERNORM_EPS   1e-5f
#define LT_GELU_CUBIC      0.044715f
#define LT_GELU_SCALE      0.797884561f /* sqrt(2 / pi) */

#define LT_DECLARE(id, function, name, pass, kind) \
    void lt_reference_##function(const union lt_args *args); \
    void lt_cpu_##function(const union lt_args *args); \
    void lt_cost_##function(enum lt_backend backend, const union lt_args *args, struct tacho_work *work);
LT_OP_MAP(LT_DECLARE)
#undef LT_DECLARE

#endif
