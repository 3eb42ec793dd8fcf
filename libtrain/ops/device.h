/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: a device that computes the operations in the place of a backend, in a
 * library that is opened at run time (libtrain_cuda.so, from libtrain/cuda), so that neither the
 * build nor the program needs its toolkit.
 *
 * A device has one queue. Operations, copies and marks are done in the order in which they were
 * asked for, later than the call returns; what the arguments point to lies in the device's memory
 * (`space`). Nothing the host keeps may be an argument of an operation that changes from step to
 * step, because a captured step is repeated with the arguments it was captured with: those numbers
 * are in struct lt_late. What fails is kept: `failure` says it from then on, and what was computed
 * since is worthless.
 */
#ifndef LT_DEVICE_H
#define LT_DEVICE_H

#include "libtrain/base/space.h"
#include "libtrain/ops/ops.h"

struct tacho_error;

/* The numbers of one step in the device's memory; doubles only. */
struct lt_late {
    /* Written before the step. The optimizer takes these in place of those of its arguments, and
     * multiplies the gradient by clip / norm where the norm is larger than clip (0: never). */
    struct lt_update_terms terms;
    double clip;
    /* Written by the step: the classifier adds the mean loss of its rows, gradient.norm leaves the
     * sum of squares. Their places in the arguments (lt_norm.sum) are not looked at. */
    double loss, squares;
};

#define LT_DEVICE_MARKS    2
#define LT_DEVICE_ID_BYTES 128

/* Numbers in the device's memory. */
struct lt_device_array {
    void *x;
    size_t count;
};

/* When a device launches what an operation does: now, or with a later operation, for which it
 * waits. One operation waits at most. */
enum lt_speak {
    LT_SPEAK_BEGIN,         /* launches of the operation that run was called with */
    LT_SPEAK_BEGIN_WAITING, /* launches of the one that waits */
    LT_SPEAK_END,           /* of either */
    LT_SPEAK_WAITS          /* the operation that run was called with waits from now on */
};
struct lt_spoken; /* ops.c */

struct lt_device {
    struct lt_space space; /* first */
    char name[320];        /* the device and its libraries, for people */
    struct lt_late *late;  /* in the device's memory */

    /* The device says when it launches an operation, so that the range of the operation lies around
     * its launches. The library leaves both NULL; a NULL `speak` is not called. */
    void (*speak)(struct lt_device *device, enum lt_speak what);
    struct lt_spoken *spoken;

    /* Has the device this operation, with such arguments? 1, or 0 with the reason in words. */
    int (*has)(enum lt_op_id op, const union lt_args *args, char *why, size_t size);
    void (*run)(struct lt_device *device, enum lt_op_id op, enum lt_dtype dtype,
                const union lt_args *args);

    /* Memory of the host that the device reads and writes by itself; NULL: none left. */
    void *(*pin)(struct lt_device *device, size_t bytes);
    void (*unpin)(struct lt_device *device, void *pinned);
    /* Copies from and to pinned memory, in the order of the queue. */
    void (*send)(struct lt_device *device, void *to, const void *from, size_t bytes);
    void (*fetch)(struct lt_device *device, void *to, const void *from, size_t bytes);

    /* Sets mark number `which`; waits until the queue has come to where it was set last. */
    void (*mark)(struct lt_device *device, int which);
    void (*await)(struct lt_device *device, int which);

    /* From now on operations are kept instead of done; the end of that (0, or -1: see failure; then
     * nothing was kept); all that was kept is done once. */
    void (*capture)(struct lt_device *device);
    int (*captured)(struct lt_device *device);
    void (*replay)(struct lt_device *device);

    /* Several ranks, each with a device. One of them makes an identity of LT_DEVICE_ID_BYTES, all
     * join with it, which waits for them: 0, or -1 with the reason in why[size]. reduce: the
     * pieces, of floats or (doubles) of doubles, become their sums over the ranks, made after what
     * is on the queue now and beside what comes then; reduced: what comes then is done after all
     * sums. */
    int (*identity)(struct lt_device *device, void *id, char *why, size_t size);
    int (*join)(struct lt_device *device, const void *id, int rank, int ranks, char *why,
                size_t size);
    void (*reduce)(struct lt_device *device, const struct lt_device_array *pieces, size_t count,
                   int doubles);
    void (*reduced)(struct lt_device *device);

    /* Bytes that are free on the device. */
    int64_t (*available)(struct lt_device *device);
    const char *(*failure)(const struct lt_device *device); /* NULL: all is well */
    void (*close)(struct lt_device *device);
};

/* What the library exports as lt_cuda_open. layout: LT_DEVICE_LAYOUT of the caller; number: which
 * device, of as many as there are in turn. 0; -1 with the reason in why[size]. */
typedef int lt_device_opener(struct lt_device **out, unsigned long layout, char *why, size_t size,
                             int number);

/* Changes when the operations or their arguments do; a library with another one is refused. */
#define LT_DEVICE_LAYOUT \
    ((unsigned long)(sizeof(union lt_args) << 20 | sizeof(struct lt_device) << 8 | LT_OP_COUNT))

/* Opens device `number`. $LT_CUDA_LIBRARY names the library, else it is looked for beside the
 * program and where the loader looks. The caller ends it with lt_device_close. TACHO_ENOTSUP with
 * words in *err. */
int lt_device_open(struct lt_device **out, int number, struct tacho_error *err);

/* Accepts NULL. */
void lt_device_close(struct lt_device *device);

#endif
