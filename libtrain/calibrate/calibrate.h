/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine can do at most with the engine's own libraries, threads and flags, and what
 * each operation reaches of it: the measurements of `train calibrate`. Nothing here prints or
 * exits; rows come back in a struct lt_calibration.
 *
 * Each ceiling is measured several times; the best is the ceiling, median and worst say how far to
 * trust it. What cannot be measured here is a row with value NAN, the reason and what to do about
 * it; never 0.
 *
 * Units: FLOP/s, bytes/s, seconds. A multiply-add is 2 FLOPs. All usable cores work at once unless
 * a row says otherwise.
 */
#ifndef LT_CALIBRATE_H
#define LT_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

#define LT_CALIBRATE_REPEATS 15 /* at most, of one row */

/* resource, unit: names of the rows, those of the table `ceiling` of a .tacho file. The instruction
 * peak (`flops`) needs no library and is measured by whoever profiles. */
#define LT_CEILING_MAP(X) \
    X(GEMM, "gemm", "FLOP/s") \
    X(GEMM_THREADS, "gemm_threads", "threads") \
    X(GEMM_FORWARD, "gemm_forward", "FLOP/s") \
    X(GEMM_GRAD_DATA, "gemm_grad_data", "FLOP/s") \
    X(GEMM_GRAD_WEIGHT, "gemm_grad_weight", "FLOP/s") \
    X(GEMM_SPREAD, "gemm_spread", "ratio") \
    X(OP_OVERHEAD, "op_overhead", "s") \
    X(BANDWIDTH, "bandwidth", "bytes/s") \
    X(BANDWIDTH_READ, "bandwidth_read", "bytes/s") \
    X(BANDWIDTH_WRITE, "bandwidth_write", "bytes/s") \
    X(BANDWIDTH_UPDATE, "bandwidth_update", "bytes/s") \
    X(BANDWIDTH_L1, "bandwidth_l1", "bytes/s") \
    X(BANDWIDTH_L2, "bandwidth_l2", "bytes/s") \
    X(BANDWIDTH_L3, "bandwidth_l3", "bytes/s") \
    X(CACHE_L1, "cache_l1", "bytes") \
    X(CACHE_L2, "cache_l2", "bytes") \
    X(CACHE_L3, "cache_l3", "bytes") \
    X(DISK_SEQUENTIAL_READ, "disk_sequential_read", "bytes/s") \
    X(DISK_RANDOM_READ, "disk_random_read", "bytes/s") \
    X(MPI_LATENCY, "mpi_latency", "s") \
    X(MPI_BANDWIDTH, "mpi_bandwidth", "bytes/s")
#define LT_ENUM_CEILING(id, name, unit) LT_CEILING_##id,
enum lt_ceiling_id { LT_CEILING_MAP(LT_ENUM_CEILING) LT_CEILING_COUNT };
#undef LT_ENUM_CEILING

struct lt_ceiling {
    enum lt_ceiling_id id;
    char point[24];    /* of a curve: ":ROWSxOUTPUTSxINPUTS", a part of the row's name; else "" */
    const char *dtype; /* "" where it has none; static */
    double value;      /* best of the repeats; NAN: not measured */
    double median, worst; /* of the repeats that gave `value` */
    int repeats;
    char how[240]; /* what was run, with its sizes; of an absent row: the reason */
    char fix[160]; /* of an absent row: what to do */
};

/* One operation at one shape. */
struct lt_op_time {
    const char *op, *pass, *kind, *dtype; /* static */
    char shape[64];
    int cold; /* the operands were not in any cache; else the same operands over and over */
    double seconds, best;                      /* median and best of one call */
    int repeats;                               /* 0: absent, `reason` says why */
    uint64_t flops, bytes_read, bytes_written; /* of one call, by lt_op_work */
    const char *reason;
};

struct lt_calibration {
    struct lt_ceiling *row;
    struct lt_op_time *op;
    size_t rows, ops;
};

struct lt_calibrate_options {
    int quick;          /* fewer, shorter repeats: some seconds */
    const char *disk;   /* folder whose disk is read; NULL: the current one */
    int64_t last_cache; /* operands in memory are this many bytes of a last cache, times some; 0: as
                           the system reports. Less measures a cache, and takes less time */
};

/* Name and unit of a ceiling; static. */
const char *lt_ceiling_name(enum lt_ceiling_id id);
const char *lt_ceiling_unit(enum lt_ceiling_id id);

/* GEMM roof, memory and disk. The caller frees with lt_calibration_clear, also after an error. 0 or
 * TACHO_ENOMEM. */
int lt_calibrate(struct lt_calibration *out, const struct lt_calibrate_options *options);

/* Adds the rows of MPI: message time between ranks 0 and 1 as alpha + bytes / beta. To be run by
 * all ranks of `mpirun -np 2 train calibrate --mpi`; *root says whether this is rank 0, the only
 * one with rows. Without MPI in the build, or with another number of ranks, the rows are absent. 0
 * or TACHO_ENOMEM. */
int lt_calibrate_mpi(struct lt_calibration *out, const struct lt_calibrate_options *options,
                     int *root);

/* Adds a row for each operation of LT_OP_MAP at each of its shapes, cold and hot. 0 or
 * TACHO_ENOMEM. */
int lt_calibrate_ops(struct lt_calibration *out, const struct lt_calibrate_options *options);
/* The same for each activation function of activations.h, forward and backward. */
int lt_calibrate_activations(struct lt_calibration *out,
                             const struct lt_calibrate_options *options);

void lt_calibration_clear(struct lt_calibration *calibration);

/* One JSON object, schema libtrain-calibration/1 (docs/calibrate.md). 0 or TACHO_EIO. */
int lt_calibration_write(const struct lt_calibration *calibration, FILE *to);

/* ---- for the measurements: calibration.c ------------------------------------------------------------------------------------- */

struct lt_repeats {
    int count;      /* 3..LT_CALIBRATE_REPEATS */
    double seconds; /* that one repeat should last */
};
struct lt_repeats lt_calibrate_repeats(const struct lt_calibrate_options *options);

double lt_seconds(void); /* CLOCK_MONOTONIC */

/* The median of at least one value; sorts them, lowest first. */
double lt_median(double *values, int count);

/* Numbers from 1/16 to 1/8, read as fp32 and as bf16 alike: no product of them overflows,
 * underflows or is a power of two. */
void lt_calibrate_fill(void *to, size_t bytes);

/* Adds a row with a value, or one that is absent, with a text as of printf. 0 or TACHO_ENOMEM.
 * `seconds` of `work` units each (FLOPs, bytes); work == 0: the row is the numbers themselves, and
 * the smallest is the best. Sorts them. */
__attribute__((format(printf, 7, 8))) int
lt_calibration_add(struct lt_calibration *calibration, enum lt_ceiling_id id, const char *dtype,
                   double work, double *seconds, int count, const char *how, ...);
__attribute__((format(printf, 5, 6))) int lt_calibration_absent(struct lt_calibration *calibration,
                                                                enum lt_ceiling_id id,
                                                                const char *dtype, const char *fix,
                                                                const char *reason, ...);

/* Bytes of the data cache of a level (1..3) that one core sees, and by how many usable cores it is
 * shared; from sysfs, else sysconf. 0: unknown. */
int64_t lt_cache_bytes(int level, int *cores);

int lt_calibrate_memory(struct lt_calibration *calibration,
                        const struct lt_calibrate_options *options);
int lt_calibrate_disk(struct lt_calibration *calibration,
                      const struct lt_calibrate_options *options);
int lt_calibrate_gemm(struct lt_calibration *calibration,
                      const struct lt_calibrate_options *options);
/* The efficiency curve of the engine's GEMMs (calibrate_curve.c). */
int lt_calibrate_curve(struct lt_calibration *calibration,
                       const struct lt_calibrate_options *options);

#endif
