/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/allocator/: how many bytes the caching allocator makes of a request.
 */
#ifndef ANALYZERS_ALLOCATOR_CACHING_SIZES_H
#define ANALYZERS_ALLOCATOR_CACHING_SIZES_H

#include "analyzers/allocator/caching_model.h"

#define CACHING_MIN_BLOCK  512
#define CACHING_SMALL_MOST (1ll << 20)  /* requests up to it come from small segments */
#define CACHING_SMALL_ROOM (2ll << 20)  /* bytes of a small segment */
#define CACHING_LARGE_ROOM (20ll << 20) /* bytes of a segment for middling requests, by default */
/* Requests from here on get a segment of their own size. */
#define CACHING_LARGE_LEAST (10ll << 20)
#define CACHING_LARGE_ROUND (2ll << 20)

/* Bytes of the block for a request. */
int64_t caching_round(const struct caching_settings *settings, int64_t bytes);
/* Bytes of a segment for middling requests; also of a page of an expandable segment for large ones.
 */
int64_t caching_large_segment(const struct caching_settings *settings);
/* Bytes that the driver is asked for to serve a rounded request. */
int64_t caching_segment_bytes(const struct caching_settings *settings, int64_t bytes);

#endif
