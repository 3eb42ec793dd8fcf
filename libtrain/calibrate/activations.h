/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/calibrate: activation functions as the backend cpu writes its element-wise
 * operations, to be measured beside them. No model of the engine uses those that LT_OP_MAP does
 * not have.
 */
#ifndef LT_ACTIVATIONS_H
#define LT_ACTIVATIONS_H

#include <stdint.h>

#include "libtrain/base/dtype.h"

/* id, name, FLOPs of an element forward and backward: 1 for each + - x / and comparison, each exp
 * and tanh, and each root. Backward has the input and computes again what it needs of forward.
 * gelu: with tanh, gelu-exact: with erf (Hendrycks and Gimpel 2016); softplus: log(1 + e^x);
 * softmax: of each row. */
#define LT_ACTIVATION_MAP(X) \
    X(RELU, relu, "relu", 1, 1) \
    X(LEAKY_RELU, leaky_relu, "leaky-relu", 2, 2) \
    X(GELU, gelu, "gelu", 9, 19) \
    X(GELU_EXACT, gelu_exact, "gelu-exact", 18, 24) \
    X(SILU, silu, "silu", 5, 9) \
    X(SIGMOID, sigmoid, "sigmoid", 4, 7) \
    X(TANH, tanh, "tanh", 6, 8) \
    X(SOFTPLUS, softplus, "softplus", 13, 5) \
    X(SOFTMAX, softmax, "softmax", 5, 9)
#define LT_ENUM_ACTIVATION(id, function, name, forward, backward) LT_ACTIVATION_##id,
enum lt_activation { LT_ACTIVATION_MAP(LT_ENUM_ACTIVATION) LT_ACTIVATION_COUNT };
#undef LT_ENUM_ACTIVATION

const char *lt_activation_name(enum lt_activation activation);
int lt_activation_flops(enum lt_activation activation, int backward);

/* out = f(in) of rows x columns elements of a type, by all threads. */
void lt_activation_forward(enum lt_activation activation, enum lt_dtype dtype, const void *in,
                           void *out, int64_t rows, int64_t columns);
/* din = f'(in) dout. */
void lt_activation_backward(enum lt_activation activation, enum lt_dtype dtype, const void *in,
                            const void *dout, void *din, int64_t rows, int64_t columns);

#endif
