/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict of a memory snapshot or a flight recorder dump: such a run has no times to judge.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

/* Reserved beyond what is used is worth a word from so much on: of the reserved bytes in per cent,
 * and in bytes, as the smallest segment for anything but small blocks is 20 MiB. */
#define RESERVED_PCT   10.0
#define RESERVED_LEAST (64ll << 20)

/* Bytes that are held, in the units of the tables and of what PyTorch says when it runs out. */
static const char *held_text(struct an_context *context, int64_t bytes)
{
    double mib = (double)bytes / (1 << 20);
    if (mib >= 1024)
        return an_finding_text(context, "%s GiB", an_number_words(context->arena, mib / 1024, 3));
    return an_finding_text(context, "%s MiB", an_number_words(context->arena, mib, 3));
}

/* The device that is nearest to its end: one that ran out of memory, else the one with most. */
static const struct an_allocator_device *worst_device(const struct an_allocator *allocator)
{
    const struct an_allocator_device *worst = &allocator->device[0];
    for (size_t i = 1; i < allocator->device_count; i++) {
        const struct an_allocator_device *device = &allocator->device[i];
        bool failed = device->failed > 0, worst_failed = worst->failed > 0;
        if (failed != worst_failed ? failed : device->reserved_peak > worst->reserved_peak)
            worst = device;
    }
    return worst;
}

/* What the best setting would have given. */
static const char *best_words(struct an_context *context, const struct an_allocator_device *device)
{
    if (device->best == SIZE_MAX)
        return "";
    const struct an_allocator_setting *best = &device->setting[device->best];
    if (best->fits && !strcmp(best->fits, "yes"))
        return an_finding_text(context, " With PYTORCH_CUDA_ALLOC_CONF=%s it would have fitted.",
                               best->setting);
    return an_finding_text(context,
                           " PYTORCH_CUDA_ALLOC_CONF=%s would have reserved %.1f %% less at the "
                           "peak.",
                           best->setting, best->saved_pct.value);
}

/* The verdict of a memory snapshot, by its worst device. */
static const char *memory_words(struct an_context *context,
                                const struct an_allocator_device *device)
{
    struct an_result *result = context->result;
    const struct an_holder *top = device->category_count ? device->category : NULL;
    int64_t beyond_bytes = device->reserved_peak - device->allocated_peak;
    double beyond = an_percent((double)beyond_bytes, (double)device->reserved_peak);
    bool fragmented = beyond >= RESERVED_PCT && beyond_bytes >= RESERVED_LEAST;
    const char *leak =
        device->leak_count
            ? an_finding_text(context, " %.160s leaves %" PRId64 " blocks behind (%s): a leak.",
                              device->leak[0].name, device->leak[0].blocks,
                              held_text(context, device->leak[0].bytes))
            : "";
    const char *held =
        top ? an_finding_text(context, ", %.0f %% of it %s",
                              an_percent((double)top->bytes, (double)device->requested_peak),
                              top->name)
            : "";
    if (device->failed)
        result->verdict_class = "OUT OF MEMORY";
    else if (device->leak_count)
        result->verdict_class = "MEMORY LEAK";
    else
        result->verdict_class = fragmented ? "FRAGMENTED MEMORY" : "MEMORY";
    const char *failed = device->failed ? an_finding_text(context, "a request of %s failed; ",
                                                          held_text(context, device->failed_bytes))
                                        : "";
    return an_finding_text(
        context,
        "%s: %sgpu:%" PRId64 " holds at most %s%s; %s are reserved, of which the blocks in use do "
        "not need %.1f %%.%s%s",
        result->verdict_class, failed, device->device, held_text(context, device->requested_peak),
        held, held_text(context, device->reserved_peak), beyond, leak, best_words(context, device));
}

const char *an_verdict_memory(struct an_context *context)
{
    const struct an_result *result = context->result;
    if (!result->flight.reason) {
        context->result->verdict_class = *result->flight.sentence ? "HANG" : "FLIGHT RECORDER";
        return *result->flight.sentence
                   ? an_finding_text(context, "HANG: %s", result->flight.sentence)
                   : "FLIGHT RECORDER: every collective that was issued was completed by every "
                     "rank "
                     "that has a dump.";
    }
    if (result->allocator.reason || !result->allocator.device_count)
        return NULL;
    return memory_words(context, worst_device(&result->allocator));
}
