/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a calibration: written by `tacho calibrate`, found again by the CPU, cores and memory
 * of this machine, checked field by field when it is read, and copied into the table `ceiling` of a
 * run.
 */
#include "profiler/collector/samplers/calibration.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/machine.h"
#include "tacho_folder.h"

#define SCHEMA "tacho-calibration/1"
#define PREFIX "calibration-"
#define SUFFIX ".json"

/* ---- the machine ------------------------------------------------------------------------------------------------------------- */

void col_calibration_init(struct col_calibration *calibration, const char *libraries)
{
    cpu_set_t set;
    *calibration = (struct col_calibration){.busy_cores = NAN};
    col_cpu_model(calibration->cpu, sizeof calibration->cpu);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        calibration->cores = CPU_COUNT(&set);
    calibration->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    snprintf(calibration->libraries, sizeof calibration->libraries, "%s",
             libraries ? libraries : "");
}

void col_calibration_clear(struct col_calibration *calibration)
{
    free(calibration->row);
    calibration->row = NULL;
    calibration->rows = 0;
}

/* "calibration-amd-epyc-2-cores-23-gib-": the part that does not depend on libraries. Memory to the
 * GiB: a kernel keeps some pages more or less back at each boot. */
static void file_prefix(const struct col_calibration *calibration, char *prefix, size_t size)
{
    char model[64] = "";
    size_t length = 0;
    for (const char *letter = calibration->cpu; *letter && length + 1 < sizeof model; letter++) {
        bool word = isalnum((unsigned char)*letter) != 0;
        if (word || (length && model[length - 1] != '-'))
            model[length++] = word ? (char)tolower((unsigned char)*letter) : '-';
    }
    while (length && model[length - 1] == '-')
        length--;
    model[length] = 0;
    snprintf(prefix, size, PREFIX "%s-%d-cores-%.0f-gib-", length ? model : "cpu",
             calibration->cores, rint((double)calibration->memory_bytes / (1 << 30)));
}

/* Equal CPU model, cores and memory. */
static bool same_machine(const struct col_calibration *left, const struct col_calibration *right)
{
    char left_prefix[192], right_prefix[192];
    file_prefix(left, left_prefix, sizeof left_prefix);
    file_prefix(right, right_prefix, sizeof right_prefix);
    return !strcmp(left->cpu, right->cpu) && !strcmp(left_prefix, right_prefix);
}

/* FNV-1a, 32 bits: the part of the file name that depends on the libraries. */
static unsigned hash_of(const char *text)
{
    unsigned hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static struct col_ceiling *add(struct col_calibration *calibration)
{
    struct col_ceiling *grown = realloc(calibration->row, (calibration->rows + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    calibration->row = grown;
    grown[calibration->rows] = (struct col_ceiling){.value = NAN, .median = NAN, .worst = NAN};
    return &grown[calibration->rows++];
}

/* Takes a text that must exist, be printable and fit. */
static bool take(const json_t *from, const char *key, char *text, size_t size)
{
    const char *value = json_string_value(json_object_get(from, key));
    if (!value || strlen(value) >= size)
        return false;
    for (const char *letter = value; *letter; letter++)
        if ((unsigned char)*letter < 0x20)
            return false;
    memcpy(text, value, strlen(value) + 1);
    return true;
}

#define TAKE(from, key, text) take(from, key, text, sizeof(text))

static bool take_number(const json_t *from, const char *key, double *number)
{
    const json_t *json = json_object_get(from, key);
    *number = json_is_number(json) ? json_number_value(json) : NAN;
    return isfinite(*number) && *number > 0;
}

/* A ceiling with a value and its spread, or an absent one with a reason and a fix. */
static bool take_row(const json_t *from, struct col_ceiling *ceiling)
{
    if (!TAKE(from, "resource", ceiling->resource) || !TAKE(from, "dtype", ceiling->dtype) ||
        !TAKE(from, "unit", ceiling->unit) || !*ceiling->resource)
        return false;
    if (json_is_null(json_object_get(from, "value")))
        return TAKE(from, "reason", ceiling->how) && TAKE(from, "fix", ceiling->fix);
    ceiling->repeats = (int)json_integer_value(json_object_get(from, "repeats"));
    return take_number(from, "value", &ceiling->value) &&
           take_number(from, "median", &ceiling->median) &&
           take_number(from, "worst", &ceiling->worst) && ceiling->repeats > 0 &&
           TAKE(from, "how", ceiling->how);
}

int col_calibration_add_json(struct col_calibration *calibration, const json_t *rows)
{
    size_t i;
    const json_t *from;
    if (!json_is_array(rows))
        return TACHO_EFORMAT;
    json_array_foreach(rows, i, from)
    {
        struct col_ceiling *ceiling = add(calibration);
        if (!ceiling)
            return TACHO_ENOMEM;
        if (!take_row(from, ceiling))
            return TACHO_EFORMAT;
    }
    return 0;
}

/* Three rows of resource "flops". A type without instructions on this CPU is an absent row with a
 * reason. */
int col_calibration_add_peak(struct col_calibration *calibration, const struct col_peak *peak,
                             const struct col_peak_spread spread[3])
{
    const struct {
        const char *dtype, *isa;
        double value;
    } row[] = {{"fp32", peak->isa, peak->fp32},
               {"fp64", peak->isa, peak->fp64},
               {"bf16", peak->bf16_isa, peak->bf16}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct col_ceiling *ceiling = add(calibration);
        if (!ceiling)
            return TACHO_ENOMEM;
        snprintf(ceiling->resource, sizeof ceiling->resource, "flops");
        snprintf(ceiling->dtype, sizeof ceiling->dtype, "%s", row[i].dtype);
        snprintf(ceiling->unit, sizeof ceiling->unit, "FLOP/s");
        if (row[i].value > 0) {
            ceiling->value = row[i].value;
            ceiling->median = spread ? spread[i].median : ceiling->value;
            ceiling->worst = spread ? spread[i].worst : ceiling->value;
            ceiling->repeats = spread ? spread[i].runs : 1;
            snprintf(ceiling->how, sizeof ceiling->how, "instruction peak, %d cores, %s",
                     peak->cpus, row[i].isa);
        } else {
            snprintf(ceiling->how, sizeof ceiling->how, "%s",
                     peak->fp32 > 0
                         ? "this CPU has no instructions for bf16 GEMMs (AVX512_BF16, AMX)"
                         : peak->reason);
            snprintf(ceiling->fix, sizeof ceiling->fix, "%s",
                     peak->fp32 > 0 ? "none on this CPU: bf16 is not faster than fp32 here"
                                    : "give --peak to the report");
        }
    }
    return 0;
}

const struct col_ceiling *col_calibration_get(const struct col_calibration *calibration,
                                              const char *resource, const char *dtype)
{
    for (size_t i = 0; i < calibration->rows; i++)
        if (!strcmp(calibration->row[i].resource, resource) &&
            !strcmp(calibration->row[i].dtype, dtype) && !isnan(calibration->row[i].value))
            return &calibration->row[i];
    return NULL;
}

/* ---- the file ---------------------------------------------------------------------------------------------------------------- */

static json_t *row_json(const struct col_ceiling *ceiling)
{
    if (isnan(ceiling->value))
        return json_pack("{s:s, s:s, s:s, s:n, s:s, s:s}", "resource", ceiling->resource, "dtype",
                         ceiling->dtype, "unit", ceiling->unit, "value", "reason", ceiling->how,
                         "fix", ceiling->fix);
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:s}", "resource", ceiling->resource,
                     "dtype", ceiling->dtype, "unit", ceiling->unit, "value", ceiling->value,
                     "median", ceiling->median, "worst", ceiling->worst, "repeats",
                     ceiling->repeats, "how", ceiling->how);
}

json_t *col_calibration_json(const struct col_calibration *calibration)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < calibration->rows; i++)
        if (json_array_append_new(rows, row_json(&calibration->row[i]))) {
            json_decref(rows);
            rows = NULL;
        }
    return json_pack("{s:s, s:s, s:s, s:b, s:o, s:{s:s, s:i, s:I, s:s}, s:o}", "schema", SCHEMA,
                     "tacho", TACHO_VERSION, "measured_at", calibration->measured_at, "quick",
                     (int)calibration->quick, "busy_cores",
                     isnan(calibration->busy_cores) ? json_null()
                                                    : json_real(calibration->busy_cores),
                     "machine", "cpu", calibration->cpu, "cores", calibration->cores,
                     "memory_bytes", (json_int_t)calibration->memory_bytes, "libraries",
                     calibration->libraries, "ceilings", rows);
}

/* The error of a file that cannot be used. */
static int damaged(const char *path, const char *what, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_ECORRUPT,
                      "'tacho calibrate --force' measures again and replaces it", "%s: damaged: %s",
                      path, what);
}

/* Loads and checks a file. TACHO_ENOTFOUND where it belongs to another machine. */
static int load(struct col_calibration *calibration, const char *path, struct tacho_error *err)
{
    json_error_t where;
    struct col_calibration here;
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? tacho_fail(err, TACHO_ENOTFOUND, "'tacho calibrate' measures it",
                                            "%s: this machine was never calibrated", path)
                               : tacho_fail(err, TACHO_EIO, NULL, "%s: %s", path, strerror(errno));
    json_t *all = json_loadf(file, 0, &where);
    fclose(file);
    if (!all)
        return damaged(path, where.text, err);
    const char *schema = json_string_value(json_object_get(all, "schema"));
    const json_t *machine = json_object_get(all, "machine");
    int rc = 0;
    col_calibration_init(&here, NULL);
    *calibration = (struct col_calibration){.quick = json_is_true(json_object_get(all, "quick")),
                                            .busy_cores = NAN};
    calibration->cores = (int)json_integer_value(json_object_get(machine, "cores"));
    calibration->memory_bytes = json_integer_value(json_object_get(machine, "memory_bytes"));
    const json_t *busy = json_object_get(all, "busy_cores");
    if (json_is_number(busy) && json_number_value(busy) >= 0 &&
        json_number_value(busy) < 1e5) /* else not known */
        calibration->busy_cores = json_number_value(busy);
    if (!schema || strcmp(schema, SCHEMA))
        rc = damaged(path, "not an object of schema " SCHEMA, err);
    else if (!TAKE(machine, "cpu", calibration->cpu) ||
             !TAKE(machine, "libraries", calibration->libraries) ||
             !TAKE(all, "measured_at", calibration->measured_at))
        rc = damaged(path, "no machine or date", err);
    else if (!same_machine(calibration, &here))
        rc = tacho_fail(err, TACHO_ENOTFOUND, "'tacho calibrate' measures it",
                        "%s: measured on another machine", path);
    else if (col_calibration_add_json(calibration, json_object_get(all, "ceilings")))
        rc = damaged(path, "a malformed row", err);
    if (rc)
        col_calibration_clear(calibration);
    json_decref(all);
    return rc;
}

/* Loads the newest calibration among the files of a folder whose names begin with `prefix`. There
 * is one for each version of the engine's libraries; a run uses whichever was measured last. */
static int load_newest(struct col_calibration *calibration, const char *folder, const char *prefix,
                       char path[COL_PATH_MAX], struct tacho_error *err)
{
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int rc = 0;
    path[0] = 0;
    while (dir && (entry = readdir(dir)) != NULL && rc == 0) {
        char name[COL_PATH_MAX];
        struct col_calibration one;
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || length < 6 ||
            strcmp(entry->d_name + length - 5, SUFFIX) != 0 ||
            snprintf(name, sizeof name, "%s/%s", folder, entry->d_name) >= (int)sizeof name)
            continue;
        int one_rc = load(&one, name, err);
        if (one_rc == 0 && (!path[0] || strcmp(one.measured_at, calibration->measured_at) > 0)) {
            col_calibration_clear(calibration);
            *calibration = one;
            snprintf(path, COL_PATH_MAX, "%s", name);
        } else if (one_rc == 0)
            col_calibration_clear(&one);
        else if (one_rc != TACHO_ENOTFOUND)
            rc = one_rc;
    }
    if (dir)
        closedir(dir);
    if (rc)
        col_calibration_clear(calibration);
    if (rc || path[0])
        return rc;
    return tacho_fail(err, TACHO_ENOTFOUND, "'tacho calibrate' measures it",
                      "%s: this machine was never calibrated", folder);
}

int col_calibration_find(struct col_calibration *calibration, const char *libraries,
                         char path[COL_PATH_MAX], struct tacho_error *err)
{
    char folder[COL_PATH_MAX - 256] = "", prefix[192];
    col_calibration_init(calibration, libraries);
    path[0] = 0;
    int error = tacho_cache_folder("tacho", folder, sizeof folder);
    if (error)
        return tacho_fail(err, TACHO_ENOTFOUND, "set XDG_CACHE_HOME to a folder of your own",
                          "no folder for calibration results: %s%s%s", folder, *folder ? ": " : "",
                          tacho_folder_problem(error));
    file_prefix(calibration, prefix, sizeof prefix);
    if (!libraries)
        return load_newest(calibration, folder, prefix, path, err);
    snprintf(path, COL_PATH_MAX, "%s/%s%08x" SUFFIX, folder, prefix, hash_of(libraries));
    return load(calibration, path, err);
}

/* The temporary file has the pid in its name: two calibrations may run at once. fsync before the
 * rename keeps a crash from leaving an empty file under the final name. */
int col_calibration_save(const struct col_calibration *calibration, const char *path,
                         struct tacho_error *err)
{
    char temporary[COL_PATH_MAX + 16];
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    json_t *all = col_calibration_json(calibration);
    if (!all)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = file >= 0 && json_dumpfd(all, file, JSON_INDENT(1) | JSON_PRESERVE_ORDER) == 0 &&
                   fsync(file) == 0;
    int error = errno;
    json_decref(all);
    if (file >= 0)
        written = close(file) == 0 && written;
    if (written && rename(temporary, path) == 0)
        return 0;
    unlink(temporary);
    return tacho_fail(err, error == ENOSPC ? TACHO_ENOSPACE : TACHO_EIO,
                      "set XDG_CACHE_HOME to a folder that can be written", "%s: %s", path,
                      strerror(error));
}

/* ---- the table `ceiling` ------------------------------------------------------------------------------------------------------ */

/* Writes a ceiling. when: "" or where and when it was measured, with a blank before it. */
static int write_row(store *db, const struct col_ceiling *ceiling, const char *when)
{
    char source[400];
    /* Sizes come from the system; everything else was measured. */
    snprintf(source, sizeof source, "%s%s%s", strcmp(ceiling->unit, "bytes") ? "measured: " : "",
             ceiling->how, when);
    struct store_ceiling row = {.device = "cpu",
                                .resource = ceiling->resource,
                                .dtype = ceiling->dtype,
                                .source = source,
                                .value = ceiling->value};
    return store_ceiling_add(db, &row);
}

/* Is there a row of the same thing in `other` that is at least as high? */
static bool beaten(const struct col_calibration *other, const struct col_ceiling *ceiling,
                   bool ties)
{
    const struct col_ceiling *rival = col_calibration_get(other, ceiling->resource, ceiling->dtype);
    return rival && (rival->value > ceiling->value || (ties && rival->value == ceiling->value));
}

/* Where both sources have a row of the same thing, the higher one counts: a machine is never slower
 * than what it was once seen to do. Of equal ones the calibration's is kept. */
int col_ceilings_write(store *db, const struct col_calibration *calibration,
                       const struct col_peak *peak)
{
    struct col_calibration now = {0};
    char when[128];
    int length = snprintf(when, sizeof when, " (tacho calibrate, %s", calibration->measured_at);
    if (calibration->busy_cores > 0.1)
        length += snprintf(when + length, sizeof when - (size_t)length,
                           ", while other programs used %.1f cores", calibration->busy_cores);
    snprintf(when + length, sizeof when - (size_t)length, ")");
    int rc = peak->fp32 > 0 ? col_calibration_add_peak(&now, peak, NULL) : 0;
    for (size_t i = 0; i < now.rows && rc == 0; i++)
        if (!isnan(now.row[i].value) && !beaten(calibration, &now.row[i], true))
            rc = write_row(db, &now.row[i], "");
    for (size_t i = 0; i < calibration->rows && rc == 0; i++)
        if (!isnan(calibration->row[i].value) && !beaten(&now, &calibration->row[i], false))
            rc = write_row(db, &calibration->row[i], when);
    col_calibration_clear(&now);
    return rc;
}
