/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes, the threads that run steps: which rank a process works for, and which step of a lane
 * contains a time.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/context.h"

#define PARENTS_MOST 16 /* levels of processes that started each other */

static uint32_t process_by_pid(const struct an_trace *trace, int64_t pid, const char *host)
{
    for (uint32_t process = 0; pid != STORE_ABSENT && process < trace->process_count; process++)
        if (trace->process[process].pid == pid && !strcmp(trace->process[process].host, host))
            return process;
    return AN_NONE;
}

static uint32_t lane_with_process(const struct an_context *context, uint32_t process)
{
    for (uint32_t k = 0; k < context->lane_count; k++)
        if (context->lane[k].process == process)
            return k;
    return AN_NONE;
}

uint32_t an_lane_of_process(const struct an_context *context, uint32_t process)
{
    const struct an_trace *trace = context->trace;
    uint32_t ancestor = process;
    for (int level = 0; ancestor != AN_NONE && level < PARENTS_MOST; level++) {
        uint32_t k = lane_with_process(context, ancestor);
        if (k != AN_NONE)
            return k;
        ancestor =
            process_by_pid(trace, trace->process[ancestor].parent, trace->process[ancestor].host);
    }
    int64_t rank = process != AN_NONE ? trace->process[process].rank : STORE_ABSENT;
    for (uint32_t k = 0; rank != STORE_ABSENT && k < context->lane_count; k++)
        if (context->lane[k].process != AN_NONE &&
            trace->process[context->lane[k].process].rank == rank)
            return k;
    return context->lane_count == 1 ? 0 : AN_NONE;
}

/* Returns the last step of a lane that starts no later than `time`, by the device or by the host;
 * NULL if there is none. */
static struct an_step *last_begun(const struct an_context *context, const struct an_lane *lane,
                                  int64_t time, bool host)
{
    size_t low = lane->first, high = an_lane_end(lane);
    AN_BISECT(low, high,
              (host ? context->step[middle].host_start : context->step[middle].start) <= time);
    return low > lane->first ? &context->step[low - 1] : NULL;
}

struct an_step *an_step_at(const struct an_context *context, const struct an_lane *lane,
                           int64_t time)
{
    struct an_step *step = last_begun(context, lane, time, false);
    return step && step->end != STORE_ABSENT && time < step->end ? step : NULL;
}

struct an_step *an_step_at_host(const struct an_context *context, const struct an_lane *lane,
                                int64_t time)
{
    struct an_step *step = last_begun(context, lane, time, true);
    return step && step->host_end != STORE_ABSENT && time < step->host_end ? step : NULL;
}

static int text_order(const void *first, const void *second)
{
    const char *const *left = first, *const *right = second;
    return strcmp(*left, *right);
}

int64_t an_lane_hosts(const struct an_context *context, size_t *most)
{
    const char **host = an_arena_zero(context->arena, context->lane_count + 1, sizeof *host);
    size_t count = 0, equal = 0, most_equal = 0;
    int64_t hosts = 0;
    for (size_t i = 0; host && i < context->lane_count; i++)
        if (context->lane[i].process == AN_NONE)
            hosts++;
        else
            host[count++] = context->trace->process[context->lane[i].process].host;
    if (count)
        qsort(host, count, sizeof *host, text_order);
    for (size_t i = 0; i < count; i++) {
        bool is_other = !i || strcmp(host[i - 1], host[i]) != 0;
        hosts += is_other;
        equal = is_other ? 1 : equal + 1;
        most_equal = equal > most_equal ? equal : most_equal;
    }
    if (most)
        *most = most_equal;
    return hosts ? hosts : 1;
}
