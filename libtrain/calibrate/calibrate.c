/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/calibrate/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libtrain/ops/gemm.h"
#include "libtrain/ops/ops.h"

static const struct {
    const char *name, *unit;
} ceilings[LT_CEILING_COUNT] = {
#define ROW(id, name, unit) [LT_CEILING_##id] = {(name), (unit)},
    LT_CEILING_MAP(ROW)
#undef ROW
};

const char *lt_ceiling_name(enum lt_ceiling_id id)
{
    return ceilings[id].name;
}

const char *lt_ceiling_unit(enum lt_ceiling_id id)
{
    return ceilings[id].unit;
}

double lt_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct lt_repeats lt_calibrate_repeats(const struct lt_calibrate_options *options)
{
    return options->quick ? (struct lt_repeats){5, 0.008}
                          : (struct lt_repeats){LT_CALIBRATE_REPEATS, 0.03};
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double lt_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

void lt_calibrate_fill(void *to, size_t bytes)
{
    uint32_t *x = to;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < bytes / sizeof *x; i++) {
        uint32_t half = 0x3d80u + ((uint32_t)i * 2654435761u >> 25);
        x[i] = half << 16 | half;
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static struct lt_ceiling *add(struct lt_calibration *calibration, enum lt_ceiling_id id,
                              const char *dtype)
{
    struct lt_ceiling *grown = realloc(calibration->row, (calibration->rows + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    calibration->row = grown;
    grown[calibration->rows] =
        (struct lt_ceiling){.id = id, .dtype = dtype, .value = NAN, .median = NAN, .worst = NAN};
    return &grown[calibration->rows++];
}

int lt_calibration_add(struct lt_calibration *calibration, enum lt_ceiling_id id, const char *dtype,
                       double work, double *seconds, int n, const char *how, ...)
{
    struct lt_ceiling *row = add(calibration, id, dtype);
    va_list ap;
    if (!row)
        return TACHO_ENOMEM;
    double median = lt_median(seconds, n);
    row->value = work > 0 ? work / seconds[0] : seconds[0];
    row->median = work > 0 ? work / median : median;
    row->worst = work > 0 ? work / seconds[n - 1] : seconds[n - 1];
    row->repeats = n;
    va_start(ap, how);
    vsnprintf(row->how, sizeof row->how, how, ap);
    va_end(ap);
    return 0;
}

int lt_calibration_absent(struct lt_calibration *calibration, enum lt_ceiling_id id,
                          const char *dtype, const char *fix, const char *reason, ...)
{
    struct lt_ceiling *row = add(calibration, id, dtype);
    va_list ap;
    if (!row)
        return TACHO_ENOMEM;
    snprintf(row->fix, sizeof row->fix, "%s", fix);
    va_start(ap, reason);
    vsnprintf(row->how, sizeof row->how, reason, ap);
    va_end(ap);
    return 0;
}

int lt_calibrate(struct lt_calibration *out, const struct lt_calibrate_options *options)
{
    int rc = lt_calibrate_gemm(out, options);
    if (rc == 0)
        rc = lt_calibrate_memory(out, options);
    if (rc == 0)
        rc = lt_calibrate_disk(out, options);
    return rc;
}

void lt_calibration_clear(struct lt_calibration *calibration)
{
    free(calibration->row);
    free(calibration->op);
    *calibration = (struct lt_calibration){0};
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------------- */

/* Texts are the engine's own, but for a folder's name and what the system says of it. */
static void put_text(FILE *to, const char *key, const char *text)
{
    fprintf(to, "\"%s\":\"", key);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p < 0x20 || *p >= 0x7f) /* bytes that may not be UTF-8 */
            fputc('?', to);
        else
            fputc(*p, to);
    fputc('"', to);
}

static void put_row(FILE *to, const struct lt_ceiling *ceiling)
{
    fprintf(to, "{\"resource\":\"%s\",\"dtype\":\"%s\",\"unit\":\"%s\",",
            lt_ceiling_name(ceiling->id), ceiling->dtype, lt_ceiling_unit(ceiling->id));
    if (isnan(ceiling->value)) {
        fputs("\"value\":null,", to);
        put_text(to, "reason", ceiling->how);
        fputc(',', to);
        put_text(to, "fix", ceiling->fix);
    } else {
        fprintf(to, "\"value\":%.6e,\"median\":%.6e,\"worst\":%.6e,\"repeats\":%d,", ceiling->value,
                ceiling->median, ceiling->worst, ceiling->repeats);
        put_text(to, "how", ceiling->how);
    }
    fputc('}', to);
}

static void put_op(FILE *to, const struct lt_op_time *op_time)
{
    fprintf(to,
            "{\"op\":\"%s\",\"pass\":\"%s\",\"kind\":\"%s\",\"dtype\":\"%s\",\"shape\":\"%s\","
            "\"state\":\"%s\",",
            op_time->op, op_time->pass, op_time->kind, op_time->dtype, op_time->shape,
            op_time->cold ? "cold" : "hot");
    if (op_time->repeats)
        fprintf(to, "\"seconds\":%.6e,\"best\":%.6e,\"repeats\":%d,", op_time->seconds,
                op_time->best, op_time->repeats);
    else {
        fputs("\"seconds\":null,", to);
        put_text(to, "reason", op_time->reason);
        fputc(',', to);
    }
    fprintf(to, "\"flops\":%llu,\"bytes_read\":%llu,\"bytes_written\":%llu}",
            (unsigned long long)op_time->flops, (unsigned long long)op_time->bytes_read,
            (unsigned long long)op_time->bytes_written);
}

int lt_calibration_write(const struct lt_calibration *calibration, FILE *to)
{
    fprintf(to, "{\"schema\":\"libtrain-calibration/1\",\"threads\":%d,", lt_threads());
    put_text(to, "libraries", lt_gemm_library());
    fputs(",\n\"rows\":[", to);
    for (size_t i = 0; i < calibration->rows; i++) {
        fputs(i ? ",\n " : "\n ", to);
        put_row(to, &calibration->row[i]);
    }
    fputs("],\n\"ops\":[", to);
    for (size_t i = 0; i < calibration->ops; i++) {
        fputs(i ? ",\n " : "\n ", to);
        put_op(to, &calibration->op[i]);
    }
    fputs("]}\n", to);
    return fflush(to) || ferror(to) ? TACHO_EIO : 0;
}
