/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/throttle.h"

const struct an_throttle_reason an_throttle_reasons[AN_THROTTLE_REASONS] = {
    {0x002, "clocks set by an application", false},
    {0x004, "power cap", false},
    {0x008, "hardware slowdown", true},
    {0x010, "sync boost group", false},
    {0x020, "heat (software)", true},
    {0x040, "heat (hardware)", true},
    {0x080, "power brake", true},
    {0x100, "display clocks", false},
};

uint64_t an_throttle_new(uint64_t before, uint64_t after)
{
    uint64_t known = 0;
    for (size_t i = 0; i < AN_THROTTLE_REASONS; i++)
        known |= an_throttle_reasons[i].bit;
    return after & ~before & known;
}

const char *an_throttle_words(uint64_t before, uint64_t after)
{
    uint64_t reasons = an_throttle_new(before, after);
    const char *name = "none";
    bool fault = false;
    for (size_t i = 0; i < AN_THROTTLE_REASONS; i++) {
        const struct an_throttle_reason *reason = &an_throttle_reasons[i];
        if (!(reasons & reason->bit) || (fault && !reason->fault))
            continue;
        name = reason->name;
        fault = reason->fault;
    }
    return name;
}
