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

/* The same norm, bit for bit, of a gradient that becomes final piece by piece: blocks of it are
 * summed as soon as they are final, while the caches hold them. Backend cpu only. */
struct lt_early_norm {
    const struct lt_context *context; /* NULL: not opened */
    const float *x;
    int64_t count;
    double *partial;
    /* Of each block the elements that are not final yet; 0: its sum is made. Owned. */
    uint32_t *left;
};
/* For x[count] with lt_norm_partials(count) doubles. 0 or TACHO_ENOMEM. */
int lt_early_norm_open(struct lt_early_norm *norm, const struct lt_context *context, const float *x,
                       int64_t count, double *partial);
void lt_early_norm_close(struct lt_early_norm *norm);
/* For lt_context.ready; `norm` is the argument. Each element at most once for each norm. As many
 * neighbouring blocks as there are threads are summed at once; fewer wait for the end. */
void lt_early_norm_ready(void *norm, size_t first, size_t count);
/* Sums the blocks that are not summed yet. Returns the norm; then nothing is final. */
double lt_early_norm_end(struct lt_early_norm *norm);

/* The gradient of each hidden matrix of the parameters, less the mean of each of its rows. */
void lt_centre_matrices(const struct lt_context *context, const struct lt_parameters *parameters);

/* x = x scale, then bounded to -bound .. bound. */
void lt_clip(const struct lt_context *context, float *x, int64_t count, double scale, double bound);

/* Bounds the norm of each matrix of each tensor's gradient. */
void lt_clip_layers(const struct lt_context *context, const struct lt_parameters *parameters,
                    double bound, double *partial);

#endif
