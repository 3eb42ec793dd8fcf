/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/allocator/: a model of PyTorch's caching allocator of one device, which
 * replays recorded allocations under other settings. It follows c10/cuda/CUDACachingAllocator.cpp
 * (version 2.x): sizes are rounded to 512 bytes, the smallest block of the same stream and pool
 * that fits is taken (of equal ones that with the lowest address), its rest is split off or not,
 * freed neighbours are merged, and a segment is asked of the driver when nothing fits; an
 * expandable one gets more memory, in its holes first. Where the device is full, what is free is
 * given back. A private pool (of CUDA graphs, or of a MemPool) has blocks and segments of its own,
 * which serve nothing else until the pool is given up.
 */
#ifndef ANALYZERS_ALLOCATOR_CACHING_MODEL_H
#define ANALYZERS_ALLOCATOR_CACHING_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHING_UNLIMITED INT64_MAX
#define CACHING_DIVISIONS 16

struct caching_settings {
    bool expandable;         /* expandable_segments */
    bool private_expandable; /* for private pools, too: in newer versions */
    int64_t max_split;       /* bytes; CACHING_UNLIMITED: no limit (max_split_size_mb) */
    /* What a block that may not be split has less than beyond the request, and the bytes of a
     * segment for middling requests (max_non_split_rounding_mb, large_segment_size_mb); 0: those of
     * PyTorch. */
    int64_t non_split_rounding, large_segment;
    /* roundup_power2_divisions for requests up to 2 MiB, from 2 MiB, from 4 MiB ... on; 0: none. */
    int64_t divisions[CACHING_DIVISIONS];
};

/* What a block, or a segment, serves. */
struct caching_place {
    int64_t stream;
    int64_t pool; /* 0: no private one */
};

struct caching_model;

/* NULL: out of memory. */
struct caching_model *caching_new(const struct caching_settings *settings);
void caching_free_all(struct caching_model *model); /* NULL is fine */

/* Bytes that the device has for segments. There is no limit at first. */
void caching_set_capacity(struct caching_model *model, int64_t bytes);

/* A segment that exists already, or one that the history asked for: the next request that needs a
 * segment of this size gets this address. `expandable`: it is what was mapped of one so far, which
 * grows where the setting is on. Those that exist come by address. -1: out of memory. */
int caching_segment_given(struct caching_model *model, int64_t address, int64_t bytes,
                          struct caching_place place, bool large, bool expandable);
int caching_segment_expected(struct caching_model *model, int64_t address, int64_t bytes,
                             bool expandable);
/* A block that is in use already. `block`: its bytes, 0: those of a new one. -1: no segment holds
 * it. Otherwise as caching_alloc. */
int64_t caching_block_given(struct caching_model *model, int64_t address, int64_t requested,
                            int64_t block);
#define CACHING_NO_MEMORY (-1) /* tacho is out of memory */
#define CACHING_FULL      (-2) /* the device is, also after all that is free was given back */
/* A handle, CACHING_NO_MEMORY or CACHING_FULL. *at: the address of the block. */
int64_t caching_alloc(struct caching_model *model, int64_t requested, struct caching_place place,
                      int64_t *at);
void caching_free(struct caching_model *model, int64_t handle);
/* The history gives a segment of a pool back to the driver: the one at this address if it is free;
 * where the model has none there, all that is free in the pool: segments, and whole pages of
 * expandable ones (empty_cache()). */
void caching_release(struct caching_model *model, int64_t address, int64_t pool);
/* The history unmaps a part of an expandable segment. Where the model does not have all of it free:
 * as caching_release. */
void caching_unmap(struct caching_model *model, int64_t address, int64_t bytes, int64_t pool);

struct caching_totals {
    int64_t reserved, allocated; /* bytes now: of segments, of blocks */
    int64_t reserved_peak, allocated_peak;
    int64_t requests; /* segments, or parts of expandable ones, that the driver was asked for */
    int64_t free, largest_free;
    /* Bytes of free blocks that share a segment with blocks in use; as in PyTorch's own figure, not
     * those of expandable segments. */
    int64_t inactive_split;
};
struct caching_totals caching_totals(const struct caching_model *model);

#endif
