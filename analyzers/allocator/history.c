/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorded history of an allocator: read from the run, and replayed through the model.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/allocator/allocator_private.h"
#include "analyzers/allocator/caching_sizes.h"

#define SLACK_MOST (1ll << 20) /* what a large block keeps beyond the request */

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

/* A number in a payload: what follows "key":; `none` if it is not there. */
static int64_t payload_number(const char *payload, const char *key, int64_t none)
{
    const char *found = strstr(payload, key);
    return found ? strtoll(found + strlen(key), NULL, 10) : none;
}

/* The private pool in a payload, "pool":[A,B], as one number. PyTorch counts A for graphs and B for
 * pools that a program made. 0: none. */
static int64_t payload_pool(const char *payload)
{
    const char *found = strstr(payload, "\"pool\":[");
    char *end;
    if (!found)
        return 0;
    int64_t first = strtoll(found + strlen("\"pool\":["), &end, 10);
    int64_t second = *end == ',' ? strtoll(end + 1, NULL, 10) : 0;
    return (int64_t)((uint64_t)first << 32 ^ (uint64_t)second);
}

/* The stream and pool in a payload. */
static struct caching_place payload_place(const char *payload)
{
    return (struct caching_place){payload_number(payload, "\"stream\":", 0), payload_pool(payload)};
}

static int add_failure(const struct an_trace *trace, size_t slice, const struct an_detail *detail,
                       struct history *history)
{
    if (an_grow(&history->failure, &history->failure_room, history->failure_count + 1,
                sizeof *history->failure))
        return TACHO_ENOMEM;
    history->failure[history->failure_count++] =
        (struct history_failure){trace->slice.start[slice], detail->bytes,
                                 payload_number(detail->payload, "\"device_free\":", STORE_ABSENT),
                                 payload_place(detail->payload)};
    return 0;
}

/* Keeps a slice that is the life of a block or segment, or a request that failed. */
static int add_life(const struct an_trace *trace, size_t slice, struct history *history)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    if (!detail || detail->bytes < 0)
        return 0;
    if (!strcmp(detail->schema, "torch.oom"))
        return add_failure(trace, slice, detail, history);
    bool segment = !strcmp(detail->schema, "torch.segment");
    if (!segment && strcmp(detail->schema, "torch.block") != 0)
        return 0;
    int64_t stack = payload_number(detail->payload, "\"stack\":", 0);
    struct history_life life = {
        .start = trace->slice.start[slice],
        .end = trace->slice.dur[slice] == AN_OPEN ? INT64_MAX : an_slice_end(trace, slice),
        .address = trace->slice.correlation[slice],
        .bytes = detail->bytes,
        .block = payload_number(detail->payload, "\"block\":", 0),
        .place = payload_place(detail->payload),
        .name = trace->slice.name[slice],
        .stack = stack > 0 && (size_t)stack <= trace->stack.count ? (uint32_t)stack - 1 : AN_NONE,
        .segment = segment,
        .expandable = segment && strstr(detail->payload, "\"expandable\":true"),
        .begun = strstr(detail->payload, "\"begun\":true"),
        .large = segment ? strstr(detail->payload, "\"large\":true") != NULL
                         : detail->bytes > SLACK_MOST};
    if (an_grow(&history->life, &history->life_room, history->life_count + 1,
                sizeof *history->life))
        return TACHO_ENOMEM;
    history->life[history->life_count++] = life;
    history->first = life.start < history->first ? life.start : history->first;
    return 0;
}

/* Segments before blocks, both by address: the order in which what is given is handed over. */
static int life_order(const void *left, const void *right)
{
    const struct history_life *first = left, *second = right;
    if (first->segment != second->segment)
        return first->segment ? -1 : 1;
    return AN_COMPARE(first->address, second->address);
}

/* By time. Parts of an expandable segment that end together go from its end on. */
static int event_order(const void *left, const void *right)
{
    const struct history_event *first = left, *second = right;
    if (first->time != second->time)
        return AN_COMPARE(first->time, second->time);
    if (first->kind != second->kind)
        return AN_COMPARE(first->kind, second->kind);
    if (first->kind == HISTORY_END)
        return AN_COMPARE(second->life, first->life);
    return AN_COMPARE(first->life, second->life);
}

static int add_event(struct history *history, int64_t time, enum history_kind kind, size_t life)
{
    if (an_grow(&history->event, &history->event_room, history->event_count + 1,
                sizeof *history->event))
        return TACHO_ENOMEM;
    history->event[history->event_count++] = (struct history_event){time, kind, (uint32_t)life};
    return 0;
}

/* Where the next block above a given one begins that was asked for while that was there: at an
 * address from `from` on. `limit`: there is none below it. */
static int64_t next_block(const struct history *history, size_t given, int64_t from, int64_t limit)
{
    const struct history_life *life = history->life;
    for (size_t i = given + 1; i < history->life_count && life[i].address < limit; i++)
        if (life[i].address >= from && life[i].start < life[given].end)
            return life[i].address;
    return limit;
}

/* The end of the addresses that a segment has. */
static int64_t segment_end(const struct history_life *segment)
{
    return an_time_add(segment->address, segment->bytes);
}

/* The history names what was asked for. A block that was there before it and is not in the snapshot
 * any more was larger where the rest of its segment was too small to be split off: up to the next
 * block, as requests get the beginning of what is free. Walks from the highest address down:
 * `bound` is where the block or segment above begins. */
static void find_block_bytes(struct history *history, const struct caching_settings *recorded)
{
    const struct history_life *segment = history->life;
    size_t segments = 0;
    int64_t bound = INT64_MAX;
    while (segments < history->life_count && history->life[segments].segment)
        segments++;
    size_t at = segments;
    for (size_t i = history->life_count; i-- > segments;) {
        struct history_life *block = &history->life[i];
        if (!block->given)
            continue;
        while (at > 0 && (segment[at - 1].address > block->address || !segment[at - 1].given))
            at--;
        int64_t above = bound;
        bound = block->address;
        if (block->block > 0 || !at)
            continue;
        int64_t end = segment_end(&segment[at - 1]);
        int64_t gap = an_time_sub(above < end ? above : end, block->address);
        int64_t rounded = caching_round(recorded, block->bytes);
        block->block = rounded;
        if (!segment[at - 1].large || segment[at - 1].expandable || gap < rounded)
            continue;
        gap = an_time_sub(next_block(history, i, an_time_add(block->address, rounded),
                                     an_time_add(block->address, gap)),
                          block->address);
        if (gap - rounded <= SLACK_MOST)
            block->block = gap;
    }
}

/* A block whose events do not name its pool has that of the segment that it lies in. What is known
 * of segments is mostly from the time of the snapshot: those that are there then do not overlap.
 * Lives are in order: segments first, both by address. */
static void find_pools(struct history *history)
{
    struct history_life *life = history->life;
    size_t at = 0, count = 0;
    while (count < history->life_count && life[count].segment)
        count++;
    for (size_t i = 0; i < count; i++)
        history->private_expandable |= life[i].place.pool && life[i].expandable;
    for (size_t i = count; i < history->life_count; i++) {
        while (at < count && (!life[at].place.pool || segment_end(&life[at]) <= life[i].address))
            at++;
        if (at == count)
            break;
        const struct history_life *segment = &life[at];
        if (!life[i].place.pool && segment->address <= life[i].address &&
            segment->start <= life[i].start && segment->end >= life[i].end)
            life[i].place.pool = segment->place.pool;
    }
}

int history_read(const struct an_trace *trace, const char *device,
                 const struct caching_settings *recorded, struct history *history)
{
    int rc = 0;
    *history = (struct history){.first = INT64_MAX};
    for (size_t k = 0; k < trace->track_count && !rc; k++) {
        const struct an_track *track = &trace->track[k];
        if (strcmp(track->kind, "range") != 0 || strcmp(track->device, device) != 0)
            continue;
        for (size_t i = track->slice_first; i < an_track_end(track) && !rc; i++)
            rc = add_life(trace, i, history);
    }
    if (rc || !history->life_count)
        return rc;
    qsort(history->life, history->life_count, sizeof *history->life, life_order);
    for (size_t i = 0; i < history->life_count; i++)
        history->life[i].given =
            history->life[i].start <= history->first && !history->life[i].begun;
    find_pools(history);
    find_block_bytes(history, recorded);
    for (size_t i = 0; i < history->life_count && !rc; i++) {
        const struct history_life *life = &history->life[i];
        enum history_kind kind = life->segment ? HISTORY_SEGMENT : HISTORY_BLOCK;
        rc = add_event(history, life->given ? INT64_MIN : life->start, kind, i);
        if (!rc && life->end != INT64_MAX)
            rc = add_event(history, life->end, HISTORY_END, i);
    }
    for (size_t i = 0; i < history->failure_count && !rc; i++)
        rc = add_event(history, history->failure[i].time, HISTORY_FAILED, i);
    if (!rc)
        qsort(history->event, history->event_count, sizeof *history->event, event_order);
    return rc;
}

/* Adds what is free from the end of a block to the next one. False: they overlap. */
static bool add_free(struct caching_totals *totals, int64_t begin, int64_t end)
{
    if (begin < 0 || end < begin)
        return false;
    totals->free += end - begin;
    if (end - begin > totals->largest_free)
        totals->largest_free = end - begin;
    return true;
}

/* Adds a segment that is held at the end: `bytes` from an address on, with its blocks of those from
 * *block on. False: their sizes are not known. */
static bool add_segment(const struct history *history, const struct history_life *segment,
                        int64_t bytes, size_t *block, struct caching_totals *totals)
{
    int64_t at = segment->address, end = an_time_add(at, bytes), free_before = totals->free;
    bool any = false;
    totals->reserved += bytes;
    for (; *block < history->life_count && history->life[*block].address < end; ++*block) {
        const struct history_life *life = &history->life[*block];
        if (life->end != INT64_MAX)
            continue;
        if (life->block <= 0 || !add_free(totals, at, life->address))
            return false;
        at = an_time_add(life->address, life->block);
        totals->allocated += life->block;
        any = true;
    }
    if (!add_free(totals, at, end))
        return false;
    if (any && !segment->expandable)
        totals->inactive_split += totals->free - free_before;
    return true;
}

/* May these be parts of one expandable segment? */
static bool is_same_segment(const struct history_life *first, const struct history_life *second)
{
    return first->expandable && second->expandable && first->large == second->large &&
           first->place.stream == second->place.stream && first->place.pool == second->place.pool;
}

bool history_end(const struct history *history, struct caching_totals *totals)
{
    const struct history_life *life = history->life;
    size_t count = 0, next;
    while (count < history->life_count && life[count].segment)
        count++;
    size_t block = count;
    *totals = (struct caching_totals){0};
    for (size_t i = 0; i < count; i = next) {
        int64_t bytes = life[i].bytes;
        next = i + 1;
        if (life[i].end != INT64_MAX)
            continue;
        /* Parts of an expandable segment are one. What of it was there before the history is one
         * part, at the address of the segment, also where others lie in the middle of it. */
        for (; next < count && is_same_segment(&life[i], &life[next]) &&
               life[next].address <= an_time_add(life[i].address, bytes);
             next++)
            bytes += life[next].end == INT64_MAX ? life[next].bytes : 0;
        if (!add_segment(history, &life[i], bytes, &block, totals))
            return false;
    }
    while (block < history->life_count && life[block].end != INT64_MAX)
        block++;
    return block == history->life_count;
}

void history_clear(struct history *history)
{
    free(history->life);
    free(history->event);
    free(history->failure);
}

/* ---- replay ----------------------------------------------------------------------------------------------------------------- */

/* What the device has for segments, by the first request that failed and says so: what was reserved
 * then and what was free. Where that much is free that the request fits, another limit holds
 * (set_per_process_memory_fraction()). 0: not known. */
static int64_t capacity_of(const struct history *history, const struct caching_settings *recorded)
{
    int64_t reserved = 0, peak = 0, capacity = 0;
    for (size_t i = 0; i < history->event_count; i++) {
        const struct history_event *event = &history->event[i];
        if (event->kind == HISTORY_FAILED) {
            const struct history_failure *failure = &history->failure[event->life];
            int64_t room = failure->device_free,
                    needs =
                        caching_segment_bytes(recorded, caching_round(recorded, failure->bytes));
            if (!capacity && room >= 0)
                capacity = reserved + (room < needs ? room : 0);
            continue;
        }
        const struct history_life *life = &history->life[event->life];
        if (!life->segment)
            continue;
        reserved += event->kind == HISTORY_END ? -life->bytes : life->bytes;
        peak = reserved > peak ? reserved : peak;
    }
    return capacity && capacity < peak ? peak : capacity;
}

/* A request that failed in the recorded run: would it fit now? */
static int replay_failure(struct caching_model *model, const struct history_failure *failure,
                          struct replay *out)
{
    int64_t at, handle = caching_alloc(model, failure->bytes, failure->place, &at);
    if (handle == CACHING_NO_MEMORY)
        return TACHO_ENOMEM;
    if (out->fits)
        out->fits = handle >= 0;
    caching_free(model, handle);
    return 0;
}

/* The beginning of a block. One that the device has no room for does not fit: from there on the
 * replay has no limit, so that the peak says what would be needed. */
static int replay_block(struct caching_model *model, const struct history_life *life,
                        int64_t *handle, struct replay *out)
{
    int64_t at = 0;
    if (life->given)
        *handle = caching_block_given(model, life->address, life->bytes, life->block);
    if (*handle >= 0)
        return 0;
    *handle = caching_alloc(model, life->bytes, life->place, &at);
    if (*handle == CACHING_FULL) {
        out->fits = 0;
        caching_set_capacity(model, CACHING_UNLIMITED);
        *handle = caching_alloc(model, life->bytes, life->place, &at);
    }
    out->allocs += !life->given;
    out->matched += !life->given && at == life->address;
    return *handle < 0 ? TACHO_ENOMEM : 0;
}

/* Applies one event of the history to the model. */
static int replay_event(struct caching_model *model, const struct history *history,
                        const struct history_event *event, bool recorded, int64_t *handles,
                        struct replay *out)
{
    const struct history_life *life = &history->life[event->life];
    int rc = 0;
    switch (event->kind) {
    case HISTORY_SEGMENT:
        if (life->given)
            rc = caching_segment_given(model, life->address, life->bytes, life->place, life->large,
                                       life->expandable);
        else if (recorded)
            rc = caching_segment_expected(model, life->address, life->bytes, life->expandable);
        return rc ? TACHO_ENOMEM : 0;
    case HISTORY_BLOCK:
        return replay_block(model, life, &handles[event->life], out);
    case HISTORY_END:
        if (life->segment && life->expandable && recorded)
            caching_unmap(model, life->address, life->bytes, life->place.pool);
        else if (life->segment)
            caching_release(model, life->address, life->place.pool);
        else
            caching_free(model, handles[event->life]);
        return 0;
    default:
        return out->fits < 0 || recorded
                   ? 0
                   : replay_failure(model, &history->failure[event->life], out);
    }
}

int history_replay(const struct history *history, const struct caching_settings *settings,
                   bool recorded, int64_t *capacity, struct replay *out)
{
    struct caching_settings own = *settings;
    own.private_expandable = history->private_expandable;
    struct caching_model *model = caching_new(&own);
    int64_t *handles = malloc((history->life_count + 1) * sizeof *handles);
    int rc = model && handles ? 0 : TACHO_ENOMEM;
    if (recorded)
        *capacity = capacity_of(history, settings);
    *out = (struct replay){.fits = *capacity > 0 ? !recorded : -1};
    if (!rc && !recorded && *capacity > 0)
        caching_set_capacity(model, *capacity);
    for (size_t i = 0; i < history->life_count && !rc; i++)
        handles[i] = -1;
    for (size_t i = 0; i < history->event_count && !rc; i++)
        rc = replay_event(model, history, &history->event[i], recorded, handles, out);
    if (!rc)
        out->totals = caching_totals(model);
    caching_free_all(model);
    free(handles);
    return rc;
}
