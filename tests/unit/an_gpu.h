/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_an_*.c of device time: rows of accelerators on top of an_fixture.h. Times in us relative
 * to FX_BASE.
 */
#ifndef AN_GPU_H
#define AN_GPU_H

#include "an_fixture.h"

static inline int64_t gpu_stream(struct fixture *f, int64_t process, const char *device,
                                 int64_t stream)
{
    char name[32];
    snprintf(name, sizeof name, "stream %lld", (long long)stream);
    struct store_track t = {
        .process = process, .tid = stream, .kind = "stream", .name = name, .device = device};
    FX(store_track_add(f->s, &t));
    return t.id;
}

/* Any row, ns. */
static inline void gpu_row_ns(struct fixture *f, int64_t track, int64_t start, int64_t end,
                              const char *name, const char *category, int64_t detail,
                              int64_t correlation)
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

static inline void gpu_row(struct fixture *f, int64_t track, int64_t start, int64_t end,
                           const char *name, const char *category, int64_t correlation)
{
    gpu_row_ns(f, track, start * 1000, end * 1000, name, category, FX_NONE, correlation);
}

/* Detail of a copy: kind "HtoD" ..., memory "pageable" ... or NULL. */
static inline int64_t gpu_copy(struct fixture *f, const char *kind, const char *memory,
                               int64_t bytes)
{
    struct store_detail d = fx_empty();
    d.schema = "gpu.memcpy";
    d.copy_kind = kind;
    d.kind = memory;
    d.bytes = bytes;
    return fx_intern(f, &d);
}

/* The same in ns, for the common rows. */
static inline void gpu_kernel_ns(struct fixture *f, int64_t stream, int64_t start, int64_t end,
                                 const char *name, int64_t correlation)
{
    gpu_row_ns(f, stream, start, end, name, "kernel", FX_NONE, correlation);
}

static inline void gpu_copy_ns(struct fixture *f, int64_t stream, int64_t start, int64_t end,
                               const char *name, const char *kind, int64_t correlation)
{
    gpu_row_ns(f, stream, start, end, name, "memcpy", gpu_copy(f, kind, NULL, 1 << 20),
               correlation);
}

static inline void gpu_host_ns(struct fixture *f, int64_t thread, int64_t start, int64_t end,
                               const char *name, const char *category, int64_t correlation)
{
    gpu_row_ns(f, thread, start, end, name, category, FX_NONE, correlation);
}

/* A call on the main thread and the kernel it launches, us. */
static inline void gpu_launch(struct fixture *f, int64_t stream, int64_t call, int64_t call_end,
                              int64_t start, int64_t end, const char *kernel, int64_t correlation)
{
    gpu_row(f, f->thread, call, call_end, "cudaLaunchKernel", "runtime", correlation);
    gpu_row(f, stream, start, end, kernel, "kernel", correlation);
}

#endif
