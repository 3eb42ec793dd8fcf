/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator of a device: who holds memory at the peak, what is reserved beyond it and why, what
 * grows, and what another setting would have given. From PyTorch's memory snapshots.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/allocator/allocator_private.h"

#define DEVICES_MOST 64
#define SAVED_LEAST  2.0  /* % of the reserved peak: less is not worth a setting */
#define MISSED_MOST  0.01 /* of the reserved peak, by the replay of the recording */

/* ---- settings --------------------------------------------------------------------------------------------------------------- */

/* Bytes of a setting that the snapshot has in its text alone, in MiB ("key:12"). 0: not set. */
static int64_t setting_bytes(const char *text, const char *key)
{
    const char *found = text ? strstr(text, key) : NULL;
    int64_t number = found ? strtoll(found + strlen(key), NULL, 10) : 0;
    return number > 0 && number < INT64_MAX >> 30 ? number << 20 : 0;
}

/* The settings of the recording, by the run keys of the importer. */
static struct caching_settings recorded_settings(const struct an_trace *trace)
{
    const char *split = an_trace_key(trace, "allocator.max_split_size"),
               *expandable = an_trace_key(trace, "allocator.expandable_segments"),
               *divisions = an_trace_key(trace, "allocator.roundup_power2_divisions"),
               *text = an_trace_key(trace, "allocator.settings");
    int64_t bytes = split ? strtoll(split, NULL, 10) : -1;
    struct caching_settings settings = {
        .expandable = expandable && *expandable == '1',
        .max_split = bytes > 0 ? bytes : CACHING_UNLIMITED,
        .non_split_rounding = setting_bytes(text, "max_non_split_rounding_mb:"),
        .large_segment = setting_bytes(text, "large_segment_size_mb:")};
    for (size_t i = 0; i < CACHING_DIVISIONS && divisions; i++) {
        settings.divisions[i] = strtoll(divisions, NULL, 10);
        divisions = strchr(divisions, ',');
        divisions = divisions ? divisions + 1 : NULL;
    }
    return settings;
}

#define EVERY(n) \
    { \
        n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n \
    }
static const struct {
    const char *text;
    struct caching_settings settings;
} tried[] = {
    {"expandable_segments:True", {.expandable = true, .max_split = CACHING_UNLIMITED}},
    {"max_split_size_mb:64", {.max_split = 64ll << 20}},
    {"max_split_size_mb:128", {.max_split = 128ll << 20}},
    {"max_split_size_mb:256", {.max_split = 256ll << 20}},
    {"max_split_size_mb:512", {.max_split = 512ll << 20}},
    {"roundup_power2_divisions:4", {.max_split = CACHING_UNLIMITED, .divisions = EVERY(4)}},
    {"roundup_power2_divisions:16", {.max_split = CACHING_UNLIMITED, .divisions = EVERY(16)}},
};
#define TRIED (sizeof tried / sizeof *tried)

static const char *fits_text(int fits)
{
    if (fits < 0)
        return NULL;
    return fits ? "yes" : "no";
}

/* Segments that the history asked the driver for. */
static int64_t requests_recorded(const struct history *history)
{
    int64_t count = 0;
    for (size_t i = 0; i < history->life_count; i++)
        count += history->life[i].segment && !history->life[i].given;
    return count;
}

/* Compares the replay of the recording with the history, and says what memory is like at the end:
 * by the history, or by the replay where the history does not have it all. */
static void compare_replay(const struct history *history, const struct caching_settings *recorded,
                           const struct replay *replay, struct an_allocator_device *out)
{
    const struct caching_totals *totals = &replay->totals;
    struct caching_totals end;
    bool known = history_end(history, &end);
    if (!known)
        end = *totals;
    out->allocated_peak = totals->allocated_peak;
    out->allocated = end.allocated;
    out->free = end.free;
    out->largest_free = end.largest_free;
    out->inactive_split = end.inactive_split;
    out->replayed = replay->allocs;
    out->matched = replay->matched;
    /* Rows of an expandable segment are no requests: what was mapped at once may go in parts. */
    out->exact = replay->matched == replay->allocs && totals->reserved_peak == out->reserved_peak &&
                 totals->reserved == out->reserved && totals->allocated == end.allocated &&
                 totals->free == end.free && totals->largest_free == end.largest_free &&
                 (recorded->expandable || totals->requests == requests_recorded(history));
    out->fragmentation =
        an_num_if(end.free > 0, 1 - (double)end.largest_free / (double)(end.free ? end.free : 1),
                  "no free memory is reserved");
}

/* Replays the history as it was, and under each setting. What a setting saves is the difference of
 * two replays; where that of the recording misses the recorded peak, no setting is advised. */
static int try_settings(struct an_context *context, const struct history *history,
                        const struct caching_settings *recorded, struct an_allocator_device *out)
{
    struct an_allocator_setting *rows = an_arena_zero(context->arena, TRIED + 1, sizeof *rows);
    struct replay replay;
    int64_t capacity = 0;
    int rc = rows ? history_replay(history, recorded, true, &capacity, &replay) : TACHO_ENOMEM;
    if (rc)
        return rc;
    double peak = (double)replay.totals.reserved_peak;
    bool holds =
        fabs(peak - (double)out->reserved_peak) <= MISSED_MOST * (double)out->reserved_peak;
    rows[0] = (struct an_allocator_setting){
        "as recorded", replay.totals.reserved_peak, replay.totals.requests,
        an_num_none("it is the recorded setting"), fits_text(replay.fits)};
    compare_replay(history, recorded, &replay, out);
    out->setting = rows;
    out->setting_count = 1;
    out->best = SIZE_MAX;
    for (size_t i = 0; i < TRIED && !rc; i++) {
        rc = history_replay(history, &tried[i].settings, false, &capacity, &replay);
        double saved = peak > 0 ? 100.0 * (peak - (double)replay.totals.reserved_peak) / peak : 0;
        rows[out->setting_count++] = (struct an_allocator_setting){
            tried[i].text, replay.totals.reserved_peak, replay.totals.requests, an_num(saved),
            fits_text(replay.fits)};
        const struct an_allocator_setting *best = out->best == SIZE_MAX ? NULL : &rows[out->best];
        bool rescues = replay.fits == 1 && (!best || strcmp(best->fits ? best->fits : "", "yes"));
        if (holds &&
            (rescues || (saved >= SAVED_LEAST && (!best || saved > best->saved_pct.value) &&
                         (!best || !best->fits || strcmp(best->fits, "yes") || replay.fits == 1))))
            out->best = i + 1;
    }
    return rc;
}

/* Segments that are held at the end. Parts of an expandable one that touch are one. */
static int64_t segments_held(const struct history *history)
{
    int64_t count = 0, end = INT64_MIN;
    for (size_t i = 0; i < history->life_count && history->life[i].segment; i++) {
        const struct history_life *life = &history->life[i];
        if (life->end != INT64_MAX)
            continue;
        count += !life->expandable || life->address != end;
        end = life->expandable ? an_time_add(life->address, life->bytes) : INT64_MIN;
    }
    return count;
}

/* ---- the analyzer ----------------------------------------------------------------------------------------------------------- */

static int look_at_device(struct an_context *context, int64_t number,
                          struct an_allocator_device *out, bool *any)
{
    struct history history;
    const struct caching_settings recorded = recorded_settings(context->trace);
    char device[32];
    snprintf(device, sizeof device, "gpu:%" PRId64, number);
    int rc = history_read(context->trace, device, &recorded, &history);
    *any = !rc && history.life_count > 0;
    if (*any) {
        *out = (struct an_allocator_device){.device = number,
                                            .events = (int64_t)history.event_count,
                                            .failed = (int64_t)history.failure_count};
        if (history.failure_count)
            out->failed_bytes = history.failure[0].bytes;
        out->segments = segments_held(&history);
        history_peak(&history, out);
        rc = history_holders(context, &history, out);
        rc = rc ? rc : history_leaks(context, &history, out);
        rc = rc ? rc : history_in_place(context, &history, out);
        rc = rc ? rc : history_pool(&history, out);
        rc = rc ? rc : try_settings(context, &history, &recorded, out);
    }
    history_clear(&history);
    return rc;
}

static int allocator_run(struct an_context *context)
{
    struct an_allocator *allocator = &context->result->allocator;
    struct an_allocator_device *device =
        an_arena_zero(context->arena, DEVICES_MOST, sizeof *device);
    const char *tool = an_trace_key(context->trace, "source.tool");
    int rc = device ? 0 : TACHO_ENOMEM;
    allocator->reason = "no history of an allocator; give a file of "
                        "torch.cuda.memory._dump_snapshot()";
    if (!tool || strcmp(tool, "PyTorch memory snapshot") != 0)
        return rc;
    for (int64_t number = 0; number < DEVICES_MOST && !rc; number++) {
        bool any;
        rc = look_at_device(context, number, &device[allocator->device_count], &any);
        allocator->device_count += !rc && any;
    }
    allocator->device = device;
    if (allocator->device_count)
        allocator->reason = NULL;
    return rc;
}

static void allocator_absent(struct an_context *context, const char *reason)
{
    context->result->allocator.reason = reason;
}

const struct an_analyzer an_allocating = {
    .name = "allocator",
    .help = "who holds the memory of a device at its peak, fragmentation, what settings would give",
    .after = "steps",
    .needs = AN_INPUT_SLICES,
    .run = allocator_run,
    .absent = allocator_absent,
};
