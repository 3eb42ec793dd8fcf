/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lifetimes of a history allow: all blocks in one pool that is laid out ahead of time, and
 * blocks that could have taken over the memory of another one. Time is the number of the event, so
 * that no lifetime is empty.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/allocator/allocator_private.h"
#include "analyzers/allocator/caching_sizes.h"
#include "analyzers/allocator/pool.h"

#define POOL_WORK   INT64_C(60000000)
#define PLACES_MOST 5
#define PAIRS_LEAST 4           /* of one place: what happens once is no habit */
#define BYTES_LEAST (1ll << 20) /* of one block */

/* Bytes of a block for so many, where nothing is divided. */
static int64_t rounded(int64_t bytes)
{
    return caching_round(&(struct caching_settings){0}, bytes);
}

/* ---- one pool ---------------------------------------------------------------------------------- */

/* Fills a buffer for each block that lives during the history. */
static size_t fill_buffers(const struct history *history, struct pool_buffer *buffer,
                           size_t *place /* of a life in `buffer` */)
{
    size_t count = 0;
    for (size_t i = 0; i < history->event_count; i++) {
        const struct history_event *event = &history->event[i];
        const struct history_life *life = &history->life[event->life];
        if (event->kind == HISTORY_BLOCK && life->bytes > 0) {
            place[event->life] = count;
            buffer[count++] = (struct pool_buffer){.start = (int64_t)i,
                                                   .end = (int64_t)history->event_count,
                                                   .bytes = rounded(life->bytes)};
        } else if (event->kind == HISTORY_END && !life->segment && place[event->life] < count) {
            buffer[place[event->life]].end = (int64_t)i;
        }
    }
    return count;
}

int history_pool(const struct history *history, struct an_allocator_device *out)
{
    struct pool_buffer *buffer = calloc(history->life_count + 1, sizeof *buffer);
    size_t *place = malloc((history->life_count + 1) * sizeof *place);
    struct pool_plan plan;
    int rc = buffer && place ? 0 : TACHO_ENOMEM;
    if (!rc) {
        memset(place, 0xff, (history->life_count + 1) * sizeof *place); /* SIZE_MAX: none */
        rc = pool_pack(buffer, fill_buffers(history, buffer, place), POOL_WORK, &plan);
    }
    const char *reason = "the history has more than 16384 blocks";
    out->pool = rc ? an_int_none(reason) : an_int(plan.bytes);
    out->pool_bound = rc ? an_int_none(reason) : an_int(plan.bound);
    free(buffer);
    free(place);
    return rc == TACHO_EUSAGE ? 0 : rc;
}

/* ---- in place ---------------------------------------------------------------------------------- */

/* Words of frames whose operation needs its input until its output is whole. */
static bool needs_input(const struct an_trace *trace, uint32_t stack)
{
    static const char *const words[] = {
        "linear", "matmul",       "conv",   "addmm", "bmm",       "attention",  "embedding", "loss",
        "einsum", "index_select", "gather", "cat",   "transpose", "batch_norm", "layer_norm"};
    int levels = AN_DEPTH_MAX;
    for (; stack != AN_NONE && stack < trace->stack.count && levels--;
         stack = trace->stack.parent[stack])
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strstr(an_trace_name(trace, trace->stack.frame[stack]), words[i]))
                return true;
    return false;
}

/* Could the block that begins have taken over the one that ends directly after? Not in backward:
 * the program cannot change what autograd asks for. */
static bool takes_over(const struct an_trace *trace, const struct history *history, uint32_t from,
                       uint32_t to)
{
    const struct history_life *ends = &history->life[from], *begins = &history->life[to];
    bool same_place =
        ends->place.stream == begins->place.stream && ends->place.pool == begins->place.pool;
    return !ends->segment && same_place && from != to && begins->bytes >= BYTES_LEAST &&
           rounded(ends->bytes) == rounded(begins->bytes) && ends->start <= begins->start &&
           begins->stack != AN_NONE && history_category(trace, begins) != HISTORY_GRADIENTS &&
           !needs_input(trace, begins->stack);
}

/* Marks the pairs: `into[old]` is the block that could have had its memory. A block is asked for,
 * and before the next one is, a block of the same size and stream is given back. */
static void find_pairs(const struct an_trace *trace, const struct history *history, uint32_t *into)
{
    uint32_t asked = AN_NONE;
    for (size_t i = 0; i < history->event_count; i++) {
        const struct history_event *event = &history->event[i];
        if (event->kind == HISTORY_BLOCK) {
            asked = history->life[event->life].given ? AN_NONE : event->life;
        } else if (event->kind == HISTORY_END && asked != AN_NONE &&
                   takes_over(trace, history, event->life, asked)) {
            into[event->life] = asked;
            asked = AN_NONE;
        }
    }
}

/* The peak of what was asked for, if every new block of a pair had the memory of the old one. */
static int64_t peak_with(const struct history *history, const uint32_t *into, const bool *taken)
{
    int64_t now = 0, peak = 0;
    for (size_t i = 0; i < history->event_count; i++) {
        const struct history_event *event = &history->event[i];
        const struct history_life *life = &history->life[event->life];
        if (event->kind == HISTORY_FAILED || event->kind == HISTORY_SEGMENT || life->segment)
            continue;
        if (event->kind == HISTORY_BLOCK)
            now += taken[event->life] ? 0 : life->bytes;
        else
            now -= into[event->life] == AN_NONE ? life->bytes : 0;
        peak = now > peak ? now : peak;
    }
    return peak;
}

/* Is a holder for that place among them? */
static bool lists(const struct an_holder *holders, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(holders[i].name, name))
            return true;
    return false;
}

/* Adds up the pairs by the place in the program that asks for the new block; keeps in `into` those
 * of the places that are listed. */
static int sum_places(struct an_context *context, const struct history *history, uint32_t *into,
                      struct an_allocator_device *out)
{
    const struct an_trace *trace = context->trace;
    struct an_holder *sum = calloc(trace->string_count + 1, sizeof *sum);
    if (!sum)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < history->life_count; i++) {
        if (into[i] == AN_NONE || history->life[into[i]].name >= trace->string_count)
            continue;
        struct an_holder *place = &sum[history->life[into[i]].name];
        place->name = trace->string[history->life[into[i]].name];
        place->category = "";
        place->bytes += history->life[i].bytes;
        place->blocks++;
    }
    for (size_t i = 0; i < trace->string_count; i++)
        if (sum[i].blocks >= PAIRS_LEAST)
            sum[out->in_place_count++] = sum[i];
    out->in_place = history_keep_holders(context, sum, &out->in_place_count, PLACES_MOST);
    free(sum);
    for (size_t i = 0; i < history->life_count && out->in_place; i++)
        if (into[i] != AN_NONE && !lists(out->in_place, out->in_place_count,
                                         an_trace_name(trace, history->life[into[i]].name)))
            into[i] = AN_NONE;
    return out->in_place ? 0 : TACHO_ENOMEM;
}

int history_in_place(struct an_context *context, const struct history *history,
                     struct an_allocator_device *out)
{
    uint32_t *into = malloc((history->life_count + 1) * sizeof *into);
    bool *taken = calloc(history->life_count + 1, sizeof *taken);
    int rc = into && taken ? 0 : TACHO_ENOMEM;
    if (!rc) {
        memset(into, 0xff, (history->life_count + 1) * sizeof *into); /* AN_NONE */
        find_pairs(context->trace, history, into);
        rc = sum_places(context, history, into, out);
        for (size_t i = 0; i < history->life_count; i++)
            if (into[i] != AN_NONE)
                taken[into[i]] = true;
        out->in_place_saved = out->requested_peak - peak_with(history, into, taken);
    }
    free(into);
    free(taken);
    return rc;
}
