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

#define MAGIC      "ltcheck1" /* 8 characters, read as bytes */
#define VERSION    3u
#define ORDER      0x0102030405060708ull
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

/* Four interleaved FNV-1a lanes over 64-bit words: as fast as memory, and any flipped bit changes
 * the result. */
struct sum {
    uint64_t lane[4];
};

static const struct sum sum_start = {
    {0xcbf29ce484222325ull, 0x84222325cbf29ce4ull, 0x9ce484222325cbf2ull, 0x2325cbf29ce48422ull}};

/* bytes: a multiple of 8 */
static void sum_add(struct sum *sum, const void *data, size_t bytes)
{
    const char *bytes_in = data;
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, bytes_in + 8 * i, sizeof word);
        sum->lane[i % 4] = (sum->lane[i % 4] ^ word) * 0x100000001b3ull;
        sum->lane[i % 4] ^= sum->lane[i % 4] >> 32;
    }
}

static uint64_t sum_end(const struct sum *sum)
{
    struct sum folded = sum_start;
    sum_add(&folded, sum, sizeof *sum);
    return folded.lane[0] ^ folded.lane[1] ^ folded.lane[2] ^ folded.lane[3];
}

static uint64_t header_sum(const struct header *header)
{
    struct sum sum = sum_start;
    sum_add(&sum, header, offsetof(struct header, sum));
    return sum_end(&sum);
}

uint64_t lt_checkpoint_sum(const void *data, size_t bytes)
{
    struct sum sum = sum_start;
    sum_add(&sum, data, bytes);
    return sum_end(&sum);
}

static int write_all(int fd, const void *data, size_t bytes)
{
    const char *cursor = data;
    while (bytes > 0) {
        ssize_t written = write(fd, cursor, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        cursor += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* 0, or -1 with errno; errno 0 means that the file ended. */
static int read_all(int fd, void *data, size_t bytes)
{
    char *cursor = data;
    while (bytes > 0) {
        ssize_t got = read(fd, cursor, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got == 0 ? 0 : errno;
            return -1;
        }
        cursor += got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* A part of an array to or from the file, and into the sum. What lies on a device goes through
 * `piece`, of CHUNK bytes. */
static int move_part(int fd, struct lt_space *space, void *array, void *piece, size_t part,
                     struct sum *sum, int writing)
{
    void *here = space ? piece : array;
    if (space && writing)
        space->read(space, here, array, part);
    if (writing ? write_all(fd, here, part) : read_all(fd, here, part))
        return -1;
    if (space && !writing)
        space->write(space, array, here, part);
    sum_add(sum, here, part);
    return 0;
}

static int move_array(int fd, struct lt_space *space, float *array, size_t floats, void *piece,
                      struct sum *sum, int writing)
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
                       struct sum *sum, int writing)
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

/* Header, arrays, and the sum over the arrays, into the open file. -1 with errno. */
static int write_file(int fd, const struct lt_model *model, const struct lt_optimizer *optimizer,
                      const struct lt_checkpoint *state)
{
    struct header header = {.magic = MAGIC,
                            .order = ORDER,
                            .version = VERSION,
                            .count = model->parameters.count,
                            .states = arrays_of(optimizer),
                            .state = *state};
    struct sum sum = sum_start;
    snprintf(header.model, sizeof header.model, "%s", model->ops->name);
    label_of(optimizer, header.optimizer);
    memcpy(header.shape, model->shape, sizeof header.shape);
    header.sum = header_sum(&header);
    if (write_all(fd, &header, sizeof header) || move_arrays(fd, model, optimizer, &sum, 1))
        return -1;
    uint64_t end = sum_end(&sum);
    return write_all(fd, &end, sizeof end);
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

/* Says whether the checkpoint continues a run of this model and optimizer, and if not, why:
 * another kind of file, another version, damage, another model, another optimizer. In that order,
 * because each check presumes the ones before it. */
static int check_header(const char *path, const struct header *header, const struct lt_model *model,
                        const struct lt_optimizer *optimizer, struct tacho_error *err)
{
    char theirs[128], ours[128], label[LABEL_SIZE];
    const char *name = label_of(optimizer, label);
    if (memcmp(header->magic, MAGIC, sizeof header->magic) || header->order != ORDER)
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
        memcmp(header->shape, model->shape, sizeof header->shape) ||
        header->count != model->parameters.count)
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
    struct sum sum = sum_start;
    uint64_t end;
    char more;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc;
    if (fd < 0)
        return tacho_fail(err, errno == ENOENT ? TACHO_ENOTFOUND : TACHO_EIO,
                          "give --resume the file of an earlier --checkpoint", "%s: %s", path,
                          strerror(errno));
    if (read_all(fd, &header, sizeof header)) {
        rc = errno ? failed_read(path, err)
                   : tacho_fail(err, TACHO_EFORMAT,
                                "give --resume a file that train --checkpoint wrote",
                                "%s: not a checkpoint", path);
        goto out;
    }
    rc = check_header(path, &header, model, optimizer, err);
    if (rc)
        goto out;
    if (move_arrays(fd, model, optimizer, &sum, 0) || read_all(fd, &end, sizeof end)) {
        rc = failed_read(path, err);
        goto out;
    }
    if (read(fd, &more, 1) != 0)
        rc = tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint",
                        "%s: damaged (longer than it says)", path);
    else if (end != sum_end(&sum))
        rc = tacho_fail(err, TACHO_ECORRUPT, "use an older checkpoint", "%s: damaged (checksum)",
                        path);
    else
        *state = header.state;
out:
    close(fd);
    return rc;
}
