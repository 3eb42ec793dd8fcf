/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in the program that leave blocks behind for ever. A history shows a leak only if it
 * repeats something: in each of its quarters memory rises and falls, and the low marks rise from
 * quarter to quarter. Loading a model, or a first forward pass that runs out of memory, only rises.
 * Quarters are of the events from the first block on that is given back.
 */
#include <stdlib.h>

#include "analyzers/allocator/allocator_private.h"

#define LEAKS_MOST  5
#define QUARTERS    4 /* of the events from the first that frees on */
#define LEAK_LEAST  8 /* blocks that a place leaves */
#define LEAK_BYTES  (1ll << 20)
#define FALL_LEAST  0.01 /* of the peak: a smaller fall repeats nothing */
#define FREED_LEAST 0.5  /* of the bytes that were asked for */

/* What a place left behind, and how many of its blocks lived at most before and after the last
 * quarter began or its first block was freed, whichever is later. */
struct site {
    unsigned quarters;
    int64_t blocks, bytes, live, before, after;
    bool freed;
};

/* Bytes in use during a quarter: the fewest, the most so far, the deepest fall from there. */
struct quarter {
    int64_t low, high, fall;
};

static bool is_block(const struct history *history, const struct history_event *event)
{
    return event->kind == HISTORY_BLOCK ||
           (event->kind == HISTORY_END && !history->life[event->life].segment);
}

/* Events before the first block is given back: what was there, and a model that is made. */
static size_t events_before(const struct history *history)
{
    size_t count = 0;
    while (count < history->event_count && (history->event[count].kind != HISTORY_END ||
                                            !is_block(history, &history->event[count])))
        count++;
    return count;
}

/* The quarter of an event after those. */
static size_t quarter_of(const struct history *history, size_t before, size_t event)
{
    return (event - before) * QUARTERS / (history->event_count - before);
}

/* Does memory in use fall in every quarter, while the low marks rise? */
static bool repeats_and_grows(const struct history *history, int64_t peak)
{
    struct quarter quarter[QUARTERS];
    size_t before = events_before(history);
    int64_t now = 0, asked = 0, freed = 0;
    for (size_t i = 0; i < QUARTERS; i++)
        quarter[i] = (struct quarter){.low = INT64_MAX};
    for (size_t i = 0; i < history->event_count; i++) {
        const struct history_event *event = &history->event[i];
        if (!is_block(history, event))
            continue;
        int64_t bytes = history->life[event->life].bytes;
        now += event->kind == HISTORY_END ? -bytes : bytes;
        if (i < before)
            continue;
        *(event->kind == HISTORY_END ? &freed : &asked) += bytes;
        struct quarter *own = &quarter[quarter_of(history, before, i)];
        own->low = now < own->low ? now : own->low;
        own->high = now > own->high ? now : own->high;
        own->fall = own->high - now > own->fall ? own->high - now : own->fall;
    }
    bool all = (double)freed >= FREED_LEAST * (double)asked;
    for (size_t i = 0; i < QUARTERS; i++)
        all = all && (double)quarter[i].fall >= FALL_LEAST * (double)peak &&
              (!i || quarter[i].low > quarter[i - 1].low);
    return all;
}

/* Counts what every place, by its name, leaves behind. */
static void count_sites(const struct an_trace *trace, const struct history *history,
                        struct site *sites)
{
    size_t before = events_before(history);
    for (size_t i = 0; i < history->event_count; i++) {
        const struct history_event *event = &history->event[i];
        if (!is_block(history, event))
            continue;
        const struct history_life *life = &history->life[event->life];
        if (life->given || life->stack == AN_NONE || life->name >= trace->string_count)
            continue;
        struct site *site = &sites[life->name];
        if (event->kind == HISTORY_END) {
            site->live--;
            site->freed = true;
            continue;
        }
        size_t quarter = i < before ? 0 : quarter_of(history, before, i);
        int64_t *most = quarter == QUARTERS - 1 && site->freed ? &site->after : &site->before;
        *most = ++site->live > *most ? site->live : *most;
        if (life->end != INT64_MAX)
            continue;
        site->quarters |= i < before ? 0 : 1u << quarter;
        site->blocks++;
        site->bytes += life->bytes;
    }
}

/* A full queue gives back as many blocks as it takes: its count no longer grows. */
static bool is_leak(const struct site *site)
{
    return site->quarters == (1u << QUARTERS) - 1 && site->blocks >= LEAK_LEAST &&
           site->bytes >= LEAK_BYTES && (!site->freed || site->after > site->before);
}

int history_leaks(struct an_context *context, const struct history *history,
                  struct an_allocator_device *out)
{
    const struct an_trace *trace = context->trace;
    if (!repeats_and_grows(history, out->requested_peak))
        return 0;
    struct site *sites = calloc(trace->string_count + 1, sizeof *sites);
    struct an_holder *leaks = calloc(trace->string_count + 1, sizeof *leaks);
    if (sites && leaks) {
        count_sites(trace, history, sites);
        for (size_t i = 0; i < trace->string_count; i++)
            if (is_leak(&sites[i]))
                leaks[out->leak_count++] =
                    (struct an_holder){trace->string[i], "", sites[i].bytes, sites[i].blocks};
        out->leak = history_keep_holders(context, leaks, &out->leak_count, LEAKS_MOST);
    }
    free(sites);
    free(leaks);
    return out->leak ? 0 : TACHO_ENOMEM;
}
