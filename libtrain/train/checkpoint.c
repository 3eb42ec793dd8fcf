/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: a header with a sum of its own, the arrays of model and optimizer, and a sum over
 * them. Arrays are read and written in chunks that are summed while they are in the cache. The
 * header is checked before anything is read into the model, so a refused file leaves the model as
 * it was.
 */
#include "libtrain/train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/base/fail.h"
#include "libtrain/base/output.h"
#include "libtrain/base/stored.h"
#include "libtrain/train/checkpoint_shards.h"

#define MAGIC      "ltcheck1" /* 8 characters, read as bytes */
#define INDEX      "ltindex1" /* of a file whose arrays are in shards */
#define VERSION    3u
#define ORDER      LT_BYTE_ORDER
#define LABEL_SIZE 32                /* of an optimizer's name with its options */
#define CHUNK      ((size_t)4 << 20) /* bytes a write or read: summed while in cache */

struct header {
    char magic[8];
    uint64_t order; /* ORDER in the writer's byte order */
    uint64_t version;
    char model[32];
    int64_t shape[LT_SHAPE_CAP];
    uint64_t count; /* floats in each array */
    char optimizer[LABEL_SIZE];
    uint64_t states; /* arrays after the values */
    struct lt_checkpoint state;
    uint64_t sum; /* over all the above */
};

static uint64_t header_sum(const struct header *header)
{
    struct lt_sum sum = lt_sum_start;
    lt_sum_add(&sum, header, offsetof(struct header, sum));
    return lt_sum_end(&sum);
}

uint64_t lt_checkpoint_sum(const void *data, size_t bytes)
{
    struct lt_sum sum = lt_sum_start;
    lt_sum_add(&sum, data, bytes);
    return lt_sum_end(&sum);
}

/* A part of an array to or from the file, and into the sum. What lies on a device goes through
 * `piece`, of CHUNK bytes. */
static int move_part(int fd, struct lt_space *space, void *array, void *piece, size_t part,
                     struct lt_sum *sum, int writing)
{
    void *here = space ? piece : array;
    if (space && writing)
        space->read(space, here, array, part);
    if (writing ? lt_write_all(fd, here, part) : lt_read_all(fd, here, part))
        return -1;
    if (space && !writing)
        space->write(space, array, here, part);
    lt_sum_add(sum, here, part);
    return 0;
}

static int move_array(int fd, struct lt_space *space, float *array, size_t floats, void *piece,
                      struct lt_sum *sum, int writing)
{
    char *cursor = (char *)array;
    int rc = 0;
    for (size_t left = floats * sizeof(float); rc == 0 && left > 0;) {
        size_t part = left < CHUNK ? left : CHUNK;
        rc = move_part(fd, space, cursor, piece, part, sum, writing);
        cursor += part;
        left -= part;
    }
    return rc;
}

/* Both directions go through the arrays the same way: the values, the optimizer's, the model's
 * state. */
static int move_arrays(int fd, const struct lt_model *model, const struct lt_optimizer *optimizer,
                       struct lt_sum *sum, int writing)
{
    const struct lt_parameters *parameters = &model->parameters;
    struct lt_space *space = parameters->space;
    void *piece = space ? malloc(CHUNK) : NULL;
    int rc = space && !piece ? -1 : 0;
    if (rc == 0)
        rc = move_array(fd, space, parameters->value, parameters->count, piece, sum, writing);
    for (int i = 0; rc == 0 && i < LT_OPTIMIZER_STATES; i++)
        rc = move_array(fd, space, optimizer->state[i], optimizer->floats[i], piece, sum, writing);
    if (rc == 0)
        rc = move_array(fd, space, model->state, model->states, piece, sum, writing);
    int kept = errno; /* of what failed: the callers say it */
    free(piece);
    errno = kept;
    return rc;
}

uint64_t lt_checkpoint_bytes(const struct lt_model *model, const struct lt_optimizer *optimizer)
{
    uint64_t floats = model->parameters.count + model->states;
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        floats += optimizer->floats[i];
    return floats * sizeof(float);
}

/* Arrays of state that the optimizer has. */
static uint64_t arrays_of(const struct lt_optimizer *optimizer)
{
    uint64_t arrays = 0;
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        arrays += optimizer->floats[i] > 0;
    return arrays;
}

/* The optimizer's name as options of train. */
static const char *label_of(const struct lt_optimizer *optimizer, char label[LABEL_SIZE])
{
    snprintf(label, LABEL_SIZE, "%s%s", lt_optimizer_name(optimizer->config.kind),
             optimizer->config.lookahead_every > 0 ? " --lookahead" : "");
    return label;
}

static struct header header_of(const struct lt_model *model, const struct lt_optimizer *optimizer,
                               const char *magic, uint64_t floats,
                               const struct lt_checkpoint *state)
{
    struct header header = {.order = ORDER,
                            .version = VERSION,
                            .count = floats,
                            .states = arrays_of(optimizer),
                            .state = *state};
    memcpy(header.magic, magic, sizeof header.magic);
    snprintf(header.model, sizeof header.model, "%s", model->ops->name);
    label_of(optimizer, header.optimizer);
    memcpy(header.shape, model->shape, sizeof header.shape);
    header.sum = header_sum(&header);
    return header;
}

/* Header, arrays, and the sum over the arrays, into the open file. -1 with errno. */
static int write_file(int fd, const struct lt_model *model, const struct lt_optimizer *optimizer,
                      const struct lt_checkpoint *state)
{
    struct header header = header_of(model, optimizer, MAGIC, model->parameters.count, state);
    struct lt_sum sum = lt_sum_start;
    if (lt_write_all(fd, &header, sizeof header) || move_arrays(fd, model, optimizer, &sum, 1))
        return -1;
    uint64_t end = lt_sum_end(&sum);
    return lt_write_all(fd, &end, sizeof end);
}

int lt_checkpoint_write(const char *path, const struct lt_model *model,
                        const struct lt_optimizer *optimizer, const struct lt_checkpoint *state,
                        struct tacho_error *err)
{
    struct lt_output out;
    int rc = lt_output_begin(&out, path, "--checkpoint", err);
    if (rc)
        return rc;
    return lt_output_end(&out, write_file(out.fd, model, optimizer, state) ? errno : 0, err);
}

int lt_checkpoint_write_index(const char *path, const struct lt_model *model,
                              const struct lt_optimizer *optimizer, uint64_t floats,
                              const struct lt_checkpoint *state, const uint64_t *sums, int shards,
                              struct tacho_error *err)
{
    struct header header = header_of(model, optimizer, INDEX, floats, state);
    struct lt_output out;
    uint64_t count = (uint64_t)shards, end;
    struct lt_sum sum = lt_sum_start;
    int rc = lt_output_begin(&out, path, "--checkpoint", err);
    if (rc)
        return rc;
    lt_sum_add(&sum, &count, sizeof count);
    lt_sum_add(&sum, sums, (size_t)shards * sizeof *sums);
    end = lt_sum_end(&sum);
    int failed = lt_write_all(out.fd, &header, sizeof header) ||
                 lt_write_all(out.fd, &count, sizeof count) ||
                 lt_write_all(out.fd, sums, (size_t)shards * sizeof *sums) ||
                 lt_write_all(out.fd, &end, sizeof end);
    return lt_output_end(&out, failed ? errno : 0, err);
}

/* What follows the header of an index: how many shards there are, and the sum of each; *sums is the
 * caller's. */
static int read_index(int fd, const char *path, uint64_t *shards, uint64_t **sums,
                      struct tacho_error *err)
{
    struct lt_sum sum = lt_sum_start;
    uint64_t end;
    char more;
    if (lt_read_all(fd, shards, sizeof *shards) == 0 && *shards <= LT_SHARDS_CAP &&
        (*sums = calloc(*shards + 1, sizeof **sums)) &&
        lt_read_all(fd, *sums, (size_t)*shards * sizeof **sums) == 0 &&
        lt_read_all(fd, &end, sizeof end) == 0) {
        lt_sum_add(&sum, shards, sizeof *shards);
        lt_sum_add(&sum, *sums, (size_t)*shards * sizeof **sums);
        if (end == lt_sum_end(&sum) && read(fd, &more, 1) == 0)
            return 0;
    }
    return tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint",
                      "%s: damaged (list of shards)", path);
}

/* The arrays, from the shards beside the index. */
static int read_sharded(int fd, const char *path, const struct header *header,
                        struct lt_model *model, struct lt_optimizer *optimizer,
                        struct tacho_error *err)
{
    uint64_t shards = 0, *sums = NULL;
    int rc = read_index(fd, path, &shards, &sums, err);
    if (rc == 0)
        rc = lt_shards_read(path, header->state.step, sums, (int)shards, header->count, model,
                            optimizer, err);
    free(sums);
    return rc;
}

/* "2, 32, 4": the shape as the model keeps it, without the unused places at its end. */
static const char *shape_text(const int64_t *shape, char *text, size_t size)
{
    int used = LT_SHAPE_CAP, length = 0;
    while (used > 1 && shape[used - 1] == 0)
        used--;
    for (int i = 0; i < used && length >= 0 && (size_t)length < size; i++)
        length += snprintf(text + length, size - (size_t)length, "%s%lld", i ? ", " : "",
                           (long long)shape[i]);
    return text;
}

static int is_index(const struct header *header)
{
    return memcmp(header->magic, INDEX, sizeof header->magic) == 0;
}

/* Says whether the checkpoint continues a run of this model and optimizer, and if not, why:
 * another kind of file, another version, damage, another model, another optimizer. In that order,
 * because each check presumes the ones before it. */
static int check_header(const char *path, const struct header *header, const struct lt_model *model,
                        const struct lt_optimizer *optimizer, struct tacho_error *err)
{
    char theirs[128], ours[128], label[LABEL_SIZE];
    const char *name = label_of(optimizer, label);
    int sharded = is_index(header);
    uint64_t floats = model->parameters.count;
    if (sharded)
        floats = model->parameters.trainable + model->states;
    if ((!sharded && memcmp(header->magic, MAGIC, sizeof header->magic)) || header->order != ORDER)
        return tacho_fail(err, TACHO_EFORMAT,
                          "give --resume a file that train --checkpoint wrote on such a machine",
                          "%s: not a checkpoint", path);
    if (header->version != VERSION)
        return tacho_fail(err, TACHO_EVERSION,
                          header->version > VERSION
                              ? "use the newer train"
                              : "continue it with the train that wrote it, or start anew",
                          "%s: checkpoint of version %llu, this program knows %u", path,
                          (unsigned long long)header->version, VERSION);
    if (header->sum != header_sum(header))
        return tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint", "%s: damaged (header)",
                          path);
    if (strncmp(header->model, model->ops->name, sizeof header->model) ||
        memcmp(header->shape, model->shape, sizeof header->shape) || header->count != floats)
        return tacho_fail(err, TACHO_EFORMAT, "give the options of the run that wrote it",
                          "%s: holds another model (%.31s of shape %s; here %s of %s)", path,
                          header->model, shape_text(header->shape, theirs, sizeof theirs),
                          model->ops->name, shape_text(model->shape, ours, sizeof ours));
    if (strncmp(header->optimizer, name, sizeof header->optimizer) ||
        header->states != arrays_of(optimizer)) {
        char hint[96];
        snprintf(hint, sizeof hint, "give --optimizer %.31s", header->optimizer);
        return tacho_fail(err, TACHO_EFORMAT, hint, "%s: holds the state of %.31s, not of %s", path,
                          header->optimizer, name);
    }
    return 0;
}

/* The error of a read that failed, or of a file that ended too early (errno 0). */
static int failed_read(const char *path, struct tacho_error *err)
{
    if (errno)
        return lt_fail_file(err, "give --resume a file that train --checkpoint wrote", path);
    return tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint", "%s: damaged (cut short)",
                      path);
}

int lt_checkpoint_read(const char *path, struct lt_model *model, struct lt_optimizer *optimizer,
                       struct lt_checkpoint *state, struct tacho_error *err)
{
    struct header header;
    struct lt_sum sum = lt_sum_start;
    uint64_t end;
    char more;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc;
    if (fd < 0)
        return tacho_fail(err, errno == ENOENT ? TACHO_ENOTFOUND : TACHO_EIO,
                          "give --resume the file of an earlier --checkpoint", "%s: %s", path,
                          strerror(errno));
    if (lt_read_all(fd, &header, sizeof header)) {
        rc = errno ? failed_read(path, err)
                   : tacho_fail(err, TACHO_EFORMAT,
                                "give --resume a file that train --checkpoint wrote",
                                "%s: not a checkpoint", path);
        goto out;
    }
    rc = check_header(path, &header, model, optimizer, err);
    if (rc)
        goto out;
    if (is_index(&header)) {
        rc = read_sharded(fd, path, &header, model, optimizer, err);
        if (rc == 0)
            *state = header.state;
        goto out;
    }
    if (move_arrays(fd, model, optimizer, &sum, 0) || lt_read_all(fd, &end, sizeof end)) {
        rc = failed_read(path, err);
        goto out;
    }
    if (read(fd, &more, 1) != 0)
        rc = tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint",
                        "%s: damaged (longer than it says)", path);
    else if (end != lt_sum_end(&sum))
        rc = tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint", "%s: damaged (checksum)",
                        path);
    else
        *state = header.state;
out:
    close(fd);
    return rc;
}
