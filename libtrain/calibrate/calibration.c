/* SPDX-License-Identifier: Apache-2.0
 *
 * What all measurements of `train calibrate` share: the clock and the median, numbers to fill
 * operands with, the rows of the result, and the result as JSON. The measurements themselves are in
 * the files calibrate_*.c, which call this one; calibrate.c runs them.
 */
#include "libtrain/calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "libtrain/gemm/gemm.h"
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

static int by_value(const void *left_value, const void *right_value)
{
    double left = *(const double *)left_value, right = *(const double *)right_value;
    return (left > right) - (left < right);
}

double lt_median(double *values, int count)
{
    int middle = count / 2;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

void lt_calibrate_fill(void *to, size_t bytes)
{
    uint32_t *words = to;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        uint32_t half = 0x3d80u + ((uint32_t)i * 2654435761u >> 25);
        words[i] = half << 16 | half;
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

/* Work a second; the seconds themselves where there is no work to divide. */
static double rate(double work, double seconds)
{
    return work > 0 ? work / seconds : seconds;
}

int lt_calibration_add(struct lt_calibration *calibration, enum lt_ceiling_id id, const char *dtype,
                       double work, double *seconds, int count, const char *how, ...)
{
    struct lt_ceiling *row = add(calibration, id, dtype);
    va_list ap;
    if (!row)
        return TACHO_ENOMEM;
    double median = lt_median(seconds, count);
    row->value = rate(work, seconds[0]);
    row->median = rate(work, median);
    row->worst = rate(work, seconds[count - 1]);
    row->repeats = count;
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

void lt_calibration_clear(struct lt_calibration *calibration)
{
    free(calibration->row);
    free(calibration->op);
    *calibration = (struct lt_calibration){0};
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------------- */

/* Most texts are the engine's own. A folder's name and the system's words may hold any bytes: those
 * outside of printable ASCII become '?'. */
static void put_text(FILE *file, const char *key, const char *text)
{
    fprintf(file, "\"%s\":\"", key);
    for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++) {
        if (*byte == '"' || *byte == '\\')
            fputc('\\', file);
        if (*byte < 0x20 || *byte >= 0x7f)
            fputc('?', file);
        else
            fputc(*byte, file);
    }
    fputc('"', file);
}

/* A ceiling as JSON: its value, or the reason why it is absent. */
static void put_row(FILE *file, const struct lt_ceiling *ceiling)
{
    fprintf(file, "{\"resource\":\"%s%s\",\"dtype\":\"%s\",\"unit\":\"%s\",",
            lt_ceiling_name(ceiling->id), ceiling->point, ceiling->dtype,
            lt_ceiling_unit(ceiling->id));
    if (isnan(ceiling->value)) {
        fputs("\"value\":null,", file);
        put_text(file, "reason", ceiling->how);
        fputc(',', file);
        put_text(file, "fix", ceiling->fix);
    } else {
        fprintf(file, "\"value\":%.6e,\"median\":%.6e,\"worst\":%.6e,\"repeats\":%d,",
                ceiling->value, ceiling->median, ceiling->worst, ceiling->repeats);
        put_text(file, "how", ceiling->how);
    }
    fputc('}', file);
}

/* The time of an operation as JSON. */
static void put_op(FILE *file, const struct lt_op_time *op_time)
{
    fprintf(file,
            "{\"op\":\"%s\",\"pass\":\"%s\",\"kind\":\"%s\",\"dtype\":\"%s\",\"shape\":\"%s\","
            "\"state\":\"%s\",",
            op_time->op, op_time->pass, op_time->kind, op_time->dtype, op_time->shape,
            op_time->cold ? "cold" : "hot");
    if (op_time->repeats)
        fprintf(file, "\"seconds\":%.6e,\"best\":%.6e,\"repeats\":%d,", op_time->seconds,
                op_time->best, op_time->repeats);
    else {
        fputs("\"seconds\":null,", file);
        put_text(file, "reason", op_time->reason);
        fputc(',', file);
    }
    fprintf(file, "\"flops\":%llu,\"bytes_read\":%llu,\"bytes_written\":%llu}",
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
