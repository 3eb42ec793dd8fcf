/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the efficiency curve of GEMMs from the file's ceilings and interpolates it (gemm_curve.h).
 */
#include "analyzers/work/gemm_curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/steps/command.h"
#include "analyzers/steps/team.h"
#include "analyzers/work/ceilings.h"

#define LEAST_OF_GRID 0.5 /* of its smallest rows and size: below it nothing is known */

static const char *const pass_names[AN_GEMM_PASSES] = {
    [AN_GEMM_FORWARD] = "gemm_forward:",
    [AN_GEMM_GRAD_DATA] = "gemm_grad_data:",
    [AN_GEMM_GRAD_WEIGHT] = "gemm_grad_weight:",
};
static const char *const type_names[AN_GEMM_TYPES] = {
    [AN_GEMM_FP32] = "fp32", [AN_GEMM_BF16] = "bf16"};

static enum an_gemm_pass pass_of(const char *resource)
{
    int pass = 0;
    while (pass < AN_GEMM_PASSES &&
           strncmp(resource, pass_names[pass], strlen(pass_names[pass])) != 0)
        pass++;
    return (enum an_gemm_pass)pass;
}

bool an_gemm_curve_row(const char *resource)
{
    return pass_of(resource) < AN_GEMM_PASSES;
}

enum an_gemm_type an_gemm_type_of(const char *dtype)
{
    int type = 0;
    while (type < AN_GEMM_TYPES && strcmp(dtype, type_names[type]) != 0)
        type++;
    return (enum an_gemm_type)type;
}

/* ---- the grid -------------------------------------------------------------------------------- */

/* The place of a value on an axis, where it is put if it is new; AN_CURVE_MOST: no room. */
static size_t place_of(double *axis, size_t *count, double value)
{
    size_t place = 0;
    while (place < *count && axis[place] != value)
        place++;
    if (place == *count && *count < AN_CURVE_MOST)
        axis[(*count)++] = value;
    return place;
}

static int ascending(const void *left, const void *right)
{
    return AN_COMPARE(*(const double *)left, *(const double *)right);
}

/* A row of the curve, taken apart. */
struct point {
    enum an_gemm_pass pass;
    enum an_gemm_type type;
    double rows, size, ns;
};

/* Reads "gemm_forward:128x768x768" with its FLOP/s; false: it is no point. */
static bool read_point(const struct an_ceiling_row *row, struct point *point)
{
    double outputs, inputs;
    point->pass = pass_of(row->resource);
    point->type = an_gemm_type_of(row->dtype);
    if (point->pass == AN_GEMM_PASSES || point->type == AN_GEMM_TYPES ||
        !(row->value > 0 && isfinite(row->value)) ||
        sscanf(strchr(row->resource, ':'), ":%lfx%lfx%lf", &point->rows, &outputs, &inputs) != 3 ||
        !(point->rows >= 1) || !(outputs >= 1) || !(inputs >= 1))
        return false;
    point->size = sqrt(outputs * inputs);
    point->ns = 2 * point->rows * outputs * inputs / row->value * 1e9;
    return isfinite(point->ns);
}

/* Fills the axes first, because the points come in any order. */
static void read_grid(const struct an_trace *trace, struct an_gemm_curve *curve)
{
    struct point point;
    for (size_t i = 0; i < trace->ceiling_count; i++)
        if (read_point(&trace->ceiling[i], &point)) {
            place_of(curve->rows, &curve->row_count, point.rows);
            place_of(curve->size, &curve->size_count, point.size);
        }
    qsort(curve->rows, curve->row_count, sizeof *curve->rows, ascending);
    qsort(curve->size, curve->size_count, sizeof *curve->size, ascending);
    for (size_t i = 0; i < sizeof curve->ns / sizeof(double); i++)
        (&curve->ns[0][0][0][0])[i] = NAN;
    for (size_t i = 0; i < trace->ceiling_count; i++) {
        if (!read_point(&trace->ceiling[i], &point))
            continue;
        size_t row = place_of(curve->rows, &curve->row_count, point.rows),
               size = place_of(curve->size, &curve->size_count, point.size);
        if (row < AN_CURVE_MOST && size < AN_CURVE_MOST)
            curve->ns[point.type][point.pass][row][size] = point.ns;
    }
}

typedef double grid[AN_CURVE_MOST];

/* Lowers each time to that of the points with more work. */
static void lower_to_envelope(const struct an_gemm_curve *curve, grid *ns)
{
    for (size_t row = curve->row_count; row-- > 0;)
        for (size_t size = curve->size_count; size-- > 0;) {
            if (isnan(ns[row][size]))
                continue;
            if (row + 1 < curve->row_count)
                ns[row][size] = fmin(ns[row][size], ns[row + 1][size]);
            if (size + 1 < curve->size_count)
                ns[row][size] = fmin(ns[row][size], ns[row][size + 1]);
        }
}

/* The typical relative error of interpolating halfway between neighbours along the rows. Leaving a
 * point out doubles the distance between neighbours, which makes the error of a smooth curve four
 * times as large. */
static double interpolation_error(const struct an_gemm_curve *curve)
{
    double error[AN_GEMM_TYPES * AN_GEMM_PASSES * AN_CURVE_MOST * AN_CURVE_MOST];
    size_t count = 0;
    for (int k = 0; k < AN_GEMM_TYPES * AN_GEMM_PASSES; k++) {
        const grid *ns = curve->ns[k / AN_GEMM_PASSES][k % AN_GEMM_PASSES];
        for (size_t row = 1; row + 1 < curve->row_count; row++)
            for (size_t size = 0; size < curve->size_count; size++) {
                double part = log(curve->rows[row] / curve->rows[row - 1]) /
                              log(curve->rows[row + 1] / curve->rows[row - 1]);
                double between =
                    (1 - part) * log(ns[row - 1][size]) + part * log(ns[row + 1][size]);
                if (isfinite(between) && isfinite(ns[row][size]))
                    error[count++] = fabs(between - log(ns[row][size])) / 4;
            }
    }
    return count ? an_quantile_of(error, count, 0.5) : 0;
}

/* Of repeats: the larger one of the two types. */
static double repeat_error(const struct an_context *context)
{
    double most = 0;
    for (int type = 0; type < AN_GEMM_TYPES; type++) {
        const struct an_ceiling_row *row =
            an_ceiling_find(context, "cpu", "gemm_spread", type_names[type]);
        most = row ? fmax(most, row->value) : most;
    }
    return most;
}

/* Why the curve is not that of the run's GEMMs; NULL: it is. */
static const char *other_gemms(struct an_context *context, const struct an_gemm_curve *curve)
{
    struct an_team team = an_team_of(context);
    if (an_command_framework(context) != AN_FRAMEWORK_LIBTRAIN)
        return "the curve of GEMMs is that of the reference engine, and this is another program";
    if (team.ranks > 1)
        return "the curve of GEMMs was measured with all cores, and ranks share them here";
    if (team.threads && curve->threads && team.threads != curve->threads)
        return an_arena_format(context->arena,
                               "the curve of GEMMs was measured with %lld threads, and the run has "
                               "%lld: OMP_NUM_THREADS=%lld tacho calibrate --force",
                               (long long)curve->threads, (long long)team.threads,
                               (long long)team.threads);
    return NULL;
}

const char *an_gemm_curve_of(struct an_context *context, struct an_gemm_curve *curve)
{
    const struct an_ceiling_row *threads = an_ceiling_find(context, "cpu", "gemm_threads", "");
    const struct an_ceiling_row *overhead = an_ceiling_find(context, "cpu", "op_overhead", "");
    *curve = (struct an_gemm_curve){.threads = threads ? (int64_t)threads->value : 0,
                                    .overhead_ns = overhead ? overhead->value * 1e9 : 0};
    read_grid(context->trace, curve);
    if (curve->row_count < 2 || curve->size_count < 2)
        return "the speed of GEMMs by their size was not measured: tacho calibrate --force, then "
               "report again";
    for (int k = 0; k < AN_GEMM_TYPES * AN_GEMM_PASSES; k++)
        lower_to_envelope(curve, curve->ns[k / AN_GEMM_PASSES][k % AN_GEMM_PASSES]);
    curve->error = hypot(interpolation_error(curve), repeat_error(context));
    return other_gemms(context, curve);
}

/* ---- interpolation --------------------------------------------------------------------------- */

/* The place of the lower neighbour of a value on an axis of at least two points, the last but one
 * at most. */
static size_t lower_place(const double *axis, size_t count, double value)
{
    size_t place = 0;
    while (place + 2 < count && axis[place + 1] <= value)
        place++;
    return place;
}

/* log(ns) at a number of rows, of one size of the grid. NAN: it has fewer than two points there. */
static double log_at_rows(const struct an_gemm_curve *curve, const grid *ns, size_t size,
                          double rows)
{
    size_t count = curve->row_count;
    while (count && isnan(ns[count - 1][size]))
        count--; /* the largest shapes are not measured */
    if (count < 2)
        return NAN;
    double last = curve->rows[count - 1];
    if (rows >= last)
        return log(ns[count - 1][size]) + log(rows / last);
    size_t place = lower_place(curve->rows, count, rows);
    double low = log(ns[place][size]), high = log(ns[place + 1][size]);
    return low + (high - low) * log(rows / curve->rows[place]) /
                     log(curve->rows[place + 1] / curve->rows[place]);
}

/* ns of one product. Above the largest size the time grows like the work. */
static double product_ns(const struct an_gemm_curve *curve, const grid *ns, double rows,
                         double size)
{
    double first = curve->size[0], last = curve->size[curve->size_count - 1];
    if (rows < LEAST_OF_GRID * curve->rows[0] || size < LEAST_OF_GRID * first)
        return NAN;
    if (size >= last)
        return exp(log_at_rows(curve, ns, curve->size_count - 1, rows)) * (size / last) *
               (size / last);
    size = fmax(size, first);
    size_t place = lower_place(curve->size, curve->size_count, size);
    double part = log(size / curve->size[place]) / log(curve->size[place + 1] / curve->size[place]);
    return exp((1 - part) * log_at_rows(curve, ns, place, rows) +
               part * log_at_rows(curve, ns, place + 1, rows));
}

double an_gemm_curve_ns(const struct an_gemm_curve *curve, enum an_gemm_type type,
                        const struct an_gemm_layer *layer)
{
    const bool does[AN_GEMM_PASSES] = {layer->forward, layer->grad_data, layer->grad_weight};
    double sum = 0, size = sqrt(layer->outputs * layer->inputs);
    if (type >= AN_GEMM_TYPES)
        return NAN;
    for (int pass = 0; pass < AN_GEMM_PASSES; pass++)
        if (does[pass])
            sum += product_ns(curve, curve->ns[type][pass], layer->rows, size);
    return sum > 0 ? sum : NAN;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Do the bytes of a forward fit: input and weight are read, perhaps a bias of fp32, the output is
 * written? */
static bool fits_forward(const struct an_detail *detail, const struct an_gemm_layer *layer,
                         double width)
{
    double read = width * (layer->rows * layer->inputs + layer->outputs * layer->inputs);
    return (double)detail->bytes_written == width * layer->rows * layer->outputs &&
           ((double)detail->bytes_read == read ||
            (double)detail->bytes_read == read + 4 * layer->outputs);
}

/* The same of a backward: the gradients of weight and bias are written in fp32, and read too where
 * they accumulate; with the gradient of the data the weight is read and that gradient written. */
static bool fits_backward(const struct an_detail *detail, const struct an_gemm_layer *layer,
                          double width)
{
    double weight = layer->outputs * layer->inputs;
    double read = width * layer->rows * (layer->outputs + layer->inputs), written = 0;
    if (layer->grad_data) {
        read += width * weight;
        written = width * layer->rows * layer->inputs;
    }
    for (int bias = 0; bias < 2; bias++) {
        double gradients = 4 * (weight + (bias ? layer->outputs : 0));
        if ((double)detail->bytes_written == written + gradients &&
            ((double)detail->bytes_read == read || (double)detail->bytes_read == read + gradients))
            return true;
    }
    return false;
}

static bool is_whole(double value)
{
    return value >= 1 && value == floor(value);
}

/* Finds outputs and inputs of a backward whose product is `weight`: the divisors with which the
 * bytes fit. */
static bool split_backward(const struct an_detail *detail, struct an_gemm_layer *layer,
                           double weight, double width)
{
    double most =
        ((double)detail->bytes_read / width - (layer->grad_data ? weight : 0)) / layer->rows;
    for (double outputs = 1; outputs <= most && outputs <= weight; outputs++) {
        if (fmod(weight, outputs) != 0)
            continue;
        layer->outputs = outputs;
        layer->inputs = weight / outputs;
        if (fits_backward(detail, layer, width))
            return true;
    }
    return false;
}

bool an_gemm_layer_of(const struct an_detail *detail, double rows, struct an_gemm_layer *layer)
{
    double width = strcmp(detail->dtype, "bf16") ? 4 : 2,
           products = (double)detail->flops / 2 / rows;
    *layer = (struct an_gemm_layer){.rows = rows};
    if (strcmp(detail->kind, "matrix") != 0 || !(rows >= 1) || detail->bytes_read <= 0 ||
        detail->bytes_written <= 0 || !is_whole(products) ||
        an_gemm_type_of(detail->dtype) == AN_GEMM_TYPES)
        return false;
    if (strcmp(detail->pass, "backward") != 0) {
        layer->forward = true;
        layer->outputs = (double)detail->bytes_written / width / rows;
        layer->inputs = products / layer->outputs;
        return is_whole(layer->outputs) && is_whole(layer->inputs) &&
               fits_forward(detail, layer, width);
    }
    layer->grad_weight = layer->grad_data = true;
    if (is_whole(products / 2) && split_backward(detail, layer, products / 2, width))
        return true;
    layer->grad_data = false;
    return split_backward(detail, layer, products, width);
}
