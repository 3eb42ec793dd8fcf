/* SPDX-License-Identifier: Apache-2.0
 *
 * Roofline of a matrix product with the losses by its shape: tiles that stick out of the matrix,
 * a last wave of tiles that leaves processors idle, a short inner loop, dimensions that vector
 * loads do not divide.
 */
#include "planner/time/gemm.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *type;
    double bytes;
} types[] = {{"fp64", 8}, {"fp32", 4}, {"tf32", 4}, {"fp16", 2},
             {"bf16", 2}, {"fp8", 1},  {"fp4", 0.5}};

double plan_type_bytes(const char *type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].type, type))
            return types[i].bytes;
    return 2;
}

double plan_gemm_family(const struct plan_machine *machine, const struct plan_constants *constants)
{
    const struct {
        const char *family;
        double share;
    } rows[] = {{"volta", constants->gemm_volta},   {"turing", constants->gemm_volta},
                {"ampere", constants->gemm_ampere}, {"ada", constants->gemm_ampere},
                {"hopper", constants->gemm_hopper}, {"blackwell", constants->gemm_blackwell}};
    double share = constants->gemm_other;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].family, machine->device.family))
            share = rows[i].share;
    bool low = plan_type_bytes(machine->type) < 2;
    return fmin(share * (low ? constants->gemm_low : 1), 1);
}

double plan_gemm_alignment(const struct plan_constants *constants, double dimension)
{
    double factor = 1;
    for (double unit = 64; unit > 1 && fmod(dimension, unit) != 0; unit /= 2)
        factor *= fmin(constants->gemm_align, 1);
    return fmod(dimension, 8) != 0 ? factor * fmin(constants->gemm_odd, 1) : factor;
}

/* Tiles that libraries choose among; the best one counts. */
static void fit_tiles(double rows, double columns, double units, struct plan_gemm *out)
{
    static const double sides[][2] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 64}};
    static const double speed[] = {1, 1, 0.85, 0.7,
                                   0.5}; /* small tiles read more for the same work */
    double best = 0;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        double high = ceil(rows / sides[i][0]), wide = ceil(columns / sides[i][1]);
        double area = rows * columns / (high * wide * sides[i][0] * sides[i][1]);
        double waves = high * wide / (units > 0 ? units : 1);
        double filled = units > 0 ? waves / ceil(waves) : 1;
        if (area * filled * speed[i] <= best)
            continue;
        best = area * filled * speed[i];
        out->tiles = area * speed[i];
        out->waves = filled;
    }
}

void plan_gemm(const struct plan_machine *machine, const struct plan_constants *constants,
               double rows, double inner, double columns, struct plan_gemm *out)
{
    double peak = an_accelerator_peak(&machine->device, machine->type);
    double bytes =
        plan_type_bytes(machine->type) * (rows * inner + inner * columns) + 2 * rows * columns;
    *out = (struct plan_gemm){.flops = 2 * rows * inner * columns};
    out->family = plan_gemm_family(machine, constants);
    if (machine->software
            .engine) { /* on a processor: no tiles, and caches instead of a bandwidth */
        out->tiles = out->waves = out->inner = out->alignment = 1;
        out->efficiency = out->family;
        out->seconds = out->flops / (peak * out->efficiency);
        return;
    }
    fit_tiles(rows, columns, machine->device.units, out);
    out->inner = inner / (inner + constants->gemm_inner);
    out->alignment =
        fmin(plan_gemm_alignment(constants, inner), plan_gemm_alignment(constants, columns));
    out->efficiency = out->family * out->tiles * out->waves * out->inner * out->alignment;
    double arithmetic = out->flops / (peak * out->efficiency);
    double memory =
        machine->device.bytes_per_s > 0 ? bytes / (0.9 * machine->device.bytes_per_s) : 0;
    out->memory_bound = memory > arithmetic;
    out->seconds = fmax(arithmetic, memory);
}
