/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of accelerator traces: device rows and host calls in the form of docs/schema.md. Times as in an_fixture.h.
 */
#ifndef AN_GPU_FIXTURE_H
#define AN_GPU_FIXTURE_H

#include "tests/unit/an_fixture.h"

static inline int64_t gx_stream(struct fixture *f, int64_t process, const char *device, int64_t stream)
{
    struct store_track t = {.process = process, .tid = stream, .kind = "stream", .name = "stream", .device = device};
    FX(store_track_add(f->s, &t));
    return t.id;
}

/* A row of any category on any track. */
static inline void gx_op(struct fixture *f, int64_t track, int64_t start, int64_t end, const char *name, const char *category,
                         int64_t detail, int64_t correlation)
{
    struct store_slice x = {.track = track,
                            .start = FX_BASE + start,
                            .dur = end == FX_NONE ? FX_NONE : end - start,
                            .name = fx_string(f, name),
                            .category = fx_string(f, category),
                            .detail = detail,
                            .correlation = correlation};
    FX(store_slice_add(f->s, &x));
}

static inline void gx_kernel(struct fixture *f, int64_t stream, int64_t start, int64_t end, const char *name,
                             int64_t correlation)
{
    gx_op(f, stream, start, end, name, "kernel", FX_NONE, correlation);
}

static inline void gx_copy(struct fixture *f, int64_t stream, int64_t start, int64_t end, const char *name, const char *kind,
                           int64_t correlation)
{
    struct store_detail d = fx_empty();
    d.copy_kind = kind;
    d.bytes = 1 << 20;
    gx_op(f, stream, start, end, name, "memcpy", fx_intern(f, &d), correlation);
}

static inline void gx_host(struct fixture *f, int64_t thread, int64_t start, int64_t end, const char *name,
                           const char *category, int64_t correlation)
{
    gx_op(f, thread, start, end, name, category, FX_NONE, correlation);
}

#endif
