/* SPDX-License-Identifier: Apache-2.0
 *
 * What one row of a trace says about devices: the category of a range, what a call of the
 * accelerator's API does, and the scratch memory of the builder. The files that build the columns
 * of device ops and their edges share these questions.
 */
#include <stdlib.h>

#include "analyzers/device/device_private.h"

const char *an_slice_category(const struct an_trace *trace, size_t slice)
{
    return an_trace_name(trace, trace->slice.category[slice]);
}

struct an_api_call an_slice_api(const struct an_trace *trace, size_t slice)
{
    uint32_t name = trace->slice.name[slice];
    if (name >= trace->string_count)
        return (struct an_api_call){AN_API_OTHER, false};
    if (!trace->name_api[name]) { /* kept as 1 + 2 * kind + async */
        struct an_api_call call = an_api_of(trace->string[name]);
        trace->name_api[name] = (uint8_t)(1 + 2 * call.kind + call.async);
    }
    unsigned kept = trace->name_api[name] - 1u;
    return (struct an_api_call){(enum an_api_kind)(kept / 2), kept & 1};
}

int an_builder_scratch(struct builder *builder, size_t count)
{
    free(builder->pair);
    free(builder->work);
    builder->pair = malloc((count ? count : 1) * sizeof *builder->pair);
    builder->work = malloc((count ? count : 1) * sizeof *builder->work);
    return builder->pair && builder->work ? 0 : TACHO_ENOMEM;
}

int64_t an_device_launch_time(const struct an_devices *devices, size_t op)
{
    const struct an_device_ops *ops = &devices->op;
    return ops->launch[op] == AN_NONE ? ops->start[op]
                                      : devices->trace->slice.start[ops->launch[op]];
}

size_t an_launch_seek(const struct an_devices *devices, size_t slice)
{
    size_t low = 0, high = devices->launch_count;
    AN_BISECT(low, high, devices->launch_slice[middle] < slice);
    return low;
}

size_t an_device_launch_seek(const struct an_devices *devices, size_t device, int64_t time)
{
    size_t low = devices->device[device].first, high = low + devices->by_launch_known[device];
    AN_BISECT(low, high, an_device_launch_time(devices, devices->by_launch[middle]) < time);
    return low;
}
