/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the efficiency curve of the engine's GEMMs that `tacho calibrate` measured
 * (rows gemm_forward:ROWSxOUTPUTSxINPUTS ... of the table `ceiling`, docs/calibrate.md), and what a
 * recorded GEMM would take with other rows or in another type.
 *
 * The curve is a grid: times over rows and over the size of a layer, sqrt(outputs x inputs), of
 * each pass and type. A GEMM with less work takes no longer, so no time is above that of a point
 * with at least as many rows of at least that size: this removes points that a neighbour spoiled.
 * Between points log(time) is linear in log(rows) and log(size). Above the grid the efficiency is
 * that of its edge; at fewer rows than the grid has the slope of its first two points goes on.
 */
#ifndef ANALYZERS_GEMM_CURVE_H
#define ANALYZERS_GEMM_CURVE_H

#include "analyzers/steps/context.h"

enum an_gemm_pass {
    AN_GEMM_FORWARD,
    AN_GEMM_GRAD_DATA,
    AN_GEMM_GRAD_WEIGHT,
    AN_GEMM_PASSES,
};
enum an_gemm_type { AN_GEMM_FP32, AN_GEMM_BF16, AN_GEMM_TYPES };

#define AN_CURVE_MOST 16 /* points along an axis */

struct an_gemm_curve {
    double rows[AN_CURVE_MOST], size[AN_CURVE_MOST]; /* the axes, ascending */
    size_t row_count, size_count;
    /* ns of one product; NAN: not measured. */
    double ns[AN_GEMM_TYPES][AN_GEMM_PASSES][AN_CURVE_MOST][AN_CURVE_MOST];
    /* Relative error of a time: of repeats and of interpolation. */
    double error;
    double overhead_ns; /* of calling any operation; 0: not measured */
    int64_t threads;    /* that measured it */
};

/* A call of a linear layer: the shape and the products that it computes. */
struct an_gemm_layer {
    double rows, outputs, inputs;
    bool forward, grad_data, grad_weight;
};

/* Is a row of the table `ceiling` one of the curve? */
bool an_gemm_curve_row(const char *resource);

/* Reads the curve from the ceilings of the CPU. Returns NULL, or why the run has none. */
const char *an_gemm_curve_of(struct an_context *context, struct an_gemm_curve *curve);

/* Which AN_GEMM_* a type is, AN_GEMM_TYPES: none of them. */
enum an_gemm_type an_gemm_type_of(const char *dtype);

/* The shape of an engine's operation that multiplies `rows` rows, from its FLOPs and bytes, which
 * have to fit exactly. false: it is no such operation, or has other rows. */
bool an_gemm_layer_of(const struct an_detail *detail, double rows, struct an_gemm_layer *layer);

/* ns of a call of the layer by the curve; NAN where the curve does not cover it: no point of that
 * type, or a layer or rows of less than half the smallest. */
double an_gemm_curve_ns(const struct an_gemm_curve *curve, enum an_gemm_type type,
                        const struct an_gemm_layer *layer);

#endif
