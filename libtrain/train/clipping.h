/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the norm of the gradient, and bounds on it.
 */
#ifndef LT_CLIPPING_H
#define LT_CLIPPING_H

#include "libtrain/models/model.h"

/* What of the gradient is bounded: the norm of all of it, that of each layer's tensors, or each
 * element. */
#define LT_CLIP_MAP(X)         X(NORM, "norm") X(LAYER, "layer") X(VALUE, "value")
#define LT_ENUM_CLIP(id, name) LT_CLIP_##id,
enum lt_clip_kind { LT_CLIP_MAP(LT_ENUM_CLIP) LT_CLIP_COUNT };
#undef LT_ENUM_CLIP

/* Kind called `name`, or -1. */
int lt_clip_find(const char *name);

/* The norm of x[count]. partial: lt_norm_partials(count) doubles. */
double lt_clip_norm(const struct lt_context *context, const float *x, int64_t count,
                    double *partial);

/* The gradient of each hidden matrix of the parameters, less the mean of each of its rows. */
void lt_centre_matrices(const struct lt_context *context, const struct lt_parameters *parameters);

/* x = x scale, then bounded to -bound .. bound. */
void lt_clip(const struct lt_context *context, float *x, int64_t count, double scale, double bound);

/* Bounds the norm of each matrix of each tensor's gradient. */
void lt_clip_layers(const struct lt_context *context, const struct lt_parameters *parameters,
                    double bound, double *partial);

#endif
