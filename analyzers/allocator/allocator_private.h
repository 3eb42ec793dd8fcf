/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/allocator/: the recorded history of one device as a list of events.
 */
#ifndef ANALYZERS_ALLOCATOR_PRIVATE_H
#define ANALYZERS_ALLOCATOR_PRIVATE_H

#include "analyzers/allocator/caching_model.h"
#include "analyzers/steps/context.h"

/* One block or segment of the history. */
struct history_life {
    int64_t start, end;            /* end INT64_MAX: it is still there */
    int64_t address, bytes, block; /* block: bytes of the whole block, 0: not known */
    struct caching_place place;
    uint32_t name, stack;       /* string, stack; AN_NONE */
    bool segment, large, given; /* given: it is there before the first event */
    bool begun;                 /* it is of the first event, not from before it */
    bool expandable;            /* a part of an expandable segment */
};

enum history_kind { HISTORY_SEGMENT, HISTORY_BLOCK, HISTORY_END, HISTORY_FAILED };

struct history_event {
    int64_t time;
    enum history_kind kind;
    uint32_t life;
};

struct history {
    int64_t first; /* time of the first event */
    struct history_life *life;
    size_t life_count, life_room;
    struct history_event *event; /* by time */
    size_t event_count, event_room;
    /* Requests that failed. */
    struct history_failure {
        int64_t time, bytes, device_free; /* device_free: STORE_ABSENT where it is not known */
        struct caching_place place;
    } * failure;
    size_t failure_count, failure_room;
    bool private_expandable; /* a segment of a private pool is an expandable one */
};

/* Reads the tracks of a device; `recorded`: settings of the recording. 0 or TACHO_ENOMEM. */
int history_read(const struct an_trace *trace, const char *device,
                 const struct caching_settings *recorded, struct history *history);
void history_clear(struct history *history);
/* What segments and blocks that are held at the end make of `reserved`, `allocated`, `free`,
 * `largest_free` and `inactive_split`. False: the sizes of blocks are not all known. */
bool history_end(const struct history *history, struct caching_totals *totals);

struct replay {
    struct caching_totals totals;
    int64_t allocs, matched;
    int fits; /* -1: not known; 0, 1: have all requests room, also those that failed */
};

/* Replays a history under some settings. `recorded`: those of the recording, where addresses of new
 * segments are those of the history. *capacity: bytes that the device had for segments when a
 * request failed; set by the recorded replay. 0: not known. */
int history_replay(const struct history *history, const struct caching_settings *settings,
                   bool recorded, int64_t *capacity, struct replay *out);

/* What a block is for: by the innermost frame of its stack that says so. */
enum history_category {
    HISTORY_OPTIMIZER,
    HISTORY_GRADIENTS,
    HISTORY_ACTIVATIONS,
    HISTORY_PARAMETERS,
    HISTORY_INPUT,
    HISTORY_BEFORE,   /* it has no stack and was there when the history began */
    HISTORY_NO_STACK, /* no stack was recorded */
    HISTORY_OTHER,
    HISTORY_CATEGORIES
};
enum history_category history_category(const struct an_trace *trace,
                                       const struct history_life *life);

/* Sorts holders by bytes and copies the first, at most `most`, with their names into the result,
 * which outlives the trace; *count: how many there are, then how many were kept. NULL: no memory.
 */
struct an_holder *history_keep_holders(struct an_context *context, struct an_holder *holders,
                                       size_t *count, size_t most);
/* Fills the peaks and what is held at the end, in bytes that were asked for. */
void history_peak(const struct history *history, struct an_allocator_device *out);
/* After the peak: fill who holds it, by place and by category; places that leave blocks behind. 0
 * or TACHO_ENOMEM. */
int history_holders(struct an_context *context, const struct history *history,
                    struct an_allocator_device *out);
int history_leaks(struct an_context *context, const struct history *history,
                  struct an_allocator_device *out);
/* Fills `pool` and `pool_bound`; `in_place` and what it saves (after requested_peak). 0 or
 * TACHO_ENOMEM. */
int history_pool(const struct history *history, struct an_allocator_device *out);
int history_in_place(struct an_context *context, const struct history *history,
                     struct an_allocator_device *out);

#endif
