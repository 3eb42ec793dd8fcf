/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards of checkpoints: writing one, reading all, removing those of earlier steps.
 */
#include "libtrain/train/checkpoint_shards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/base/fail.h"
#include "libtrain/base/output.h"
#include "libtrain/base/stored.h"

#define MAGIC "ltshard1"

struct header {
    char magic[8];
    uint64_t order, step, rank, ranks, segments, floats;
};

static int shard_name(const char *path, uint64_t step, int rank, char name[PATH_MAX],
                      struct tacho_error *err)
{
    if (snprintf(name, PATH_MAX, "%s.s%llu.r%d", path, (unsigned long long)step, rank) < PATH_MAX)
        return 0;
    return tacho_fail(err, TACHO_EIO, "choose a shorter one", "%s: name too long", path);
}

/* Floats as they lie in the file: an even number, because sums are made over 8 bytes. */
static uint64_t padded(uint64_t floats)
{
    return floats + floats % 2;
}

int lt_shards_write(const char *path, const struct lt_shard_file *shard, uint64_t *sum,
                    struct tacho_error *err)
{
    struct header header = {.magic = MAGIC,
                            .order = LT_BYTE_ORDER,
                            .step = shard->step,
                            .rank = (uint64_t)shard->rank,
                            .ranks = (uint64_t)shard->ranks,
                            .segments = shard->segments,
                            .floats = shard->floats};
    const struct {
        const void *data;
        size_t bytes;
    } parts[] = {{&header, sizeof header},
                 {shard->segment, (size_t)shard->segments * sizeof *shard->segment},
                 {shard->data, (size_t)padded(shard->floats) * sizeof *shard->data}};
    char name[PATH_MAX];
    struct lt_sum all = lt_sum_start;
    struct lt_output out;
    int rc = shard_name(path, shard->step, shard->rank, name, err);
    rc = rc ? rc : lt_output_begin(&out, name, "--checkpoint", err);
    if (rc)
        return rc;
    int failed = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !failed; i++) {
        lt_sum_add(&all, parts[i].data, parts[i].bytes);
        failed = lt_write_all(out.fd, parts[i].data, parts[i].bytes);
    }
    *sum = lt_sum_end(&all);
    failed = failed || lt_write_all(out.fd, sum, sizeof *sum);
    return lt_output_end(&out, failed ? errno : 0, err);
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* A shard in memory, and the arrays that it fills. */
struct reading {
    const char *name;
    struct header header;
    struct lt_segment *segment;
    float *data;
    struct lt_model *model;
    struct lt_optimizer *optimizer;
    uint64_t values; /* floats of values and of the model's state so far */
};

/* Where a segment belongs; NULL: to no array of these. */
static float *place_of(const struct reading *reading, const struct lt_segment *segment)
{
    const struct lt_model *model = reading->model;
    float *array = NULL;
    uint64_t floats = 0;
    if (segment->array == 0) {
        array = model->parameters.value;
        floats = model->parameters.count;
    } else if (segment->array == LT_SEGMENT_STATE) {
        array = model->state;
        floats = model->states;
    } else if (segment->array <= LT_OPTIMIZER_STATES) {
        array = reading->optimizer->state[segment->array - 1];
        floats = reading->optimizer->floats[segment->array - 1];
    }
    if (!array || segment->count > floats || segment->first > floats - segment->count)
        return NULL;
    return array + segment->first;
}

static int damaged(const char *name, const char *how, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint", "%s: damaged (%s)", name,
                      how);
}

/* Table, floats and sum of an open shard. `size`: bytes of the file, so that a damaged header asks
 * for no more memory than that. */
static int read_rest(struct reading *reading, int fd, off_t size, uint64_t expected,
                     struct tacho_error *err)
{
    const struct header *header = &reading->header;
    struct lt_sum all = lt_sum_start;
    uint64_t most = (uint64_t)size / sizeof(float), sum;
    if (header->segments > most || header->floats > most)
        return damaged(reading->name, "header", err);
    size_t table = (size_t)header->segments * sizeof *reading->segment,
           bytes = (size_t)padded(header->floats) * sizeof *reading->data;
    reading->segment = malloc(table + 1);
    reading->data = malloc(bytes + 1);
    if (!reading->segment || !reading->data)
        return lt_no_memory(err);
    if (lt_read_all(fd, reading->segment, table) || lt_read_all(fd, reading->data, bytes) ||
        lt_read_all(fd, &sum, sizeof sum))
        return damaged(reading->name, "cut short", err);
    lt_sum_add(&all, header, sizeof *header);
    lt_sum_add(&all, reading->segment, table);
    lt_sum_add(&all, reading->data, bytes);
    if (sum != lt_sum_end(&all) || sum != expected)
        return damaged(reading->name, "checksum", err);
    return 0;
}

/* Brings the floats of a shard to their places. */
static int fill(struct reading *reading, struct tacho_error *err)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < reading->header.segments; i++) {
        const struct lt_segment *segment = &reading->segment[i];
        float *place = place_of(reading, segment);
        if (!place || segment->count > reading->header.floats - at)
            return damaged(reading->name, "a segment outside of the arrays", err);
        memcpy(place, reading->data + at, (size_t)segment->count * sizeof *place);
        at += segment->count;
        if (segment->array == 0 || segment->array == LT_SEGMENT_STATE)
            reading->values += segment->count;
    }
    return 0;
}

static int read_shard(struct reading *reading, uint64_t step, int rank, int ranks, uint64_t sum,
                      struct tacho_error *err)
{
    const struct header *header = &reading->header;
    int fd = open(reading->name, O_RDONLY | O_CLOEXEC), rc;
    if (fd < 0)
        return tacho_fail(err, errno == ENOENT ? TACHO_ENOTFOUND : TACHO_EIO,
                          "keep the shards beside the file, or use an older checkpoint", "%s: %s",
                          reading->name, strerror(errno));
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        lt_read_all(fd, &reading->header, sizeof reading->header))
        rc = damaged(reading->name, "cut short", err);
    else if (memcmp(header->magic, MAGIC, sizeof header->magic) || header->order != LT_BYTE_ORDER ||
             header->step != step || header->rank != (uint64_t)rank ||
             header->ranks != (uint64_t)ranks)
        rc = tacho_fail(err, TACHO_EFORMAT, "keep the shards that the run wrote beside the file",
                        "%s: not the shard that belongs here", reading->name);
    else
        rc = read_rest(reading, fd, size, sum, err);
    rc = rc ? rc : fill(reading, err);
    free(reading->segment);
    free(reading->data);
    reading->segment = NULL;
    reading->data = NULL;
    close(fd);
    return rc;
}

int lt_shards_read(const char *path, uint64_t step, const uint64_t *sums, int shards,
                   uint64_t floats, struct lt_model *model, struct lt_optimizer *optimizer,
                   struct tacho_error *err)
{
    char name[PATH_MAX];
    struct reading reading = {.name = name, .model = model, .optimizer = optimizer};
    int rc = 0;
    for (int i = 0; i < shards && rc == 0; i++) {
        rc = shard_name(path, step, i, name, err);
        rc = rc ? rc : read_shard(&reading, step, i, shards, sums[i], err);
    }
    if (rc == 0 && reading.values != floats)
        rc = damaged(path, "its shards are not the whole model", err);
    return rc;
}

/* ---- removing ---------------------------------------------------------------------------------- */

/* Is that the name of another shard than those of so many ranks in that step: ".s", digits, ".r",
 * digits, perhaps ".tmp"? */
static int is_other(const char *rest, uint64_t step, int ranks)
{
    char *end = NULL;
    if (strncmp(rest, ".s", 2) != 0 || rest[2] < '0' || rest[2] > '9')
        return 0;
    unsigned long long number = strtoull(rest + 2, &end, 10);
    if (strncmp(end, ".r", 2) != 0 || end[2] < '0' || end[2] > '9')
        return 0;
    unsigned long long rank = strtoull(end + 2, &end, 10);
    return (number != step || rank >= (unsigned long long)ranks) &&
           (*end == '\0' || strcmp(end, ".tmp") == 0);
}

void lt_shards_clean(const char *path, uint64_t step, int ranks)
{
    char folder[PATH_MAX], name[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    snprintf(name, sizeof name, "%s", path);
    const char *base = basename(name);
    DIR *list = opendir(dirname(folder));
    if (!list)
        return;
    for (const struct dirent *entry; (entry = readdir(list));)
        if (strncmp(entry->d_name, base, strlen(base)) == 0 &&
            is_other(entry->d_name + strlen(base), step, ranks))
            unlinkat(dirfd(list), entry->d_name, 0);
    closedir(list);
}
