/* SPDX-License-Identifier: Apache-2.0
 *
 * The ceilings of a machine, as `tacho calibrate` measured them, and the file in which they are
 * kept: $XDG_CACHE_HOME/tacho/calibration-MACHINE.json (else ~/.cache/tacho). MACHINE is made of
 * CPU model, usable cores, memory and the libraries of the engine, so that another machine, or the
 * same one with other cores, has another file. Schema tacho-calibration/1, see docs/calibrate.md.
 */
#ifndef COL_CALIBRATION_H
#define COL_CALIBRATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/samplers/peak.h"
#include "store/store.h"
#include "tacho_error.h"

struct col_ceiling {
    char resource[48], dtype[8], unit[12];
    double value;         /* FLOP/s, bytes/s, bytes, seconds; NAN: not measured */
    double median, worst; /* of its repeats */
    int repeats;
    char how[256]; /* what was run; of an absent one: the reason */
    char fix[192]; /* of an absent one: what to do */
};

struct col_calibration {
    char cpu[128], libraries[160];
    int cores;
    int64_t memory_bytes;
    char measured_at[32]; /* 2026-11-22T02:00:00Z; "" = not yet */
    bool quick;
    double busy_cores; /* mean cores that other programs used during it; NAN: not known */
    struct col_ceiling *row;
    size_t rows;
};

/* CPU, cores and memory of this machine; no rows. */
void col_calibration_init(struct col_calibration *calibration, const char *libraries);
void col_calibration_clear(struct col_calibration *calibration); /* frees the rows */

/* The file of this machine and these libraries; libraries NULL: the newest that was measured on
 * this machine. `path` is its name, also where there is no such file yet (libraries given).
 * TACHO_ENOTFOUND, TACHO_ECORRUPT, TACHO_EIO with words. */
int col_calibration_find(struct col_calibration *calibration, const char *libraries,
                         char path[COL_PATH_MAX], struct tacho_error *err);

/* Writes a temporary file and renames it. */
int col_calibration_save(const struct col_calibration *calibration, const char *path,
                         struct tacho_error *err);

/* As JSON: what the file holds. The caller drops the reference. NULL without memory. */
json_t *col_calibration_json(const struct col_calibration *calibration);

/* Appends rows: those of an array as `train calibrate` and the file have them, and the instruction
 * peaks (spread of fp32, fp64, bf16; NULL: not known). TACHO_EFORMAT, TACHO_ENOMEM. */
int col_calibration_add_json(struct col_calibration *calibration, const json_t *rows);
int col_calibration_add_peak(struct col_calibration *calibration, const struct col_peak *peak,
                             const struct col_peak_spread spread[3]);

/* The row, or NULL where none exists or it is absent. */
const struct col_ceiling *col_calibration_get(const struct col_calibration *calibration,
                                              const char *resource, const char *dtype);

/* Puts everything that has a value into the table `ceiling`; of an instruction peak that was
 * measured just now (fp32 == 0: it was not) and the one of the calibration the higher one. Either
 * may be without rows. */
int col_ceilings_write(store *db, const struct col_calibration *calibration,
                       const struct col_peak *peak);

#endif
