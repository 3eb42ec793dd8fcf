/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the reference backend: what its templates share and is the same for all element types.
 */
#ifndef LT_REFERENCE_H
#define LT_REFERENCE_H

#include "libtrain/ops/ops.h"

#define REFERENCE_CHANNELS 64   /* of a head, summed at a time */
#define REFERENCE_HEAD     4096 /* most channels of a head that rope has a place for */

/* Where head j of the input of rope goes: h queries, g keys, g values. */
struct rope_head {
    int64_t first, copies; /* heads of the output */
    int turns;
};

static inline struct rope_head rope_head(const struct lt_rope *a, int64_t j)
{
    int64_t copies = a->h / a->groups, behind = j - a->h, part = behind / a->groups;
    if (behind < 0)
        return (struct rope_head){j, 1, 1};
    return (struct rope_head){(1 + part) * a->h + behind % a->groups * copies, copies, part == 0};
}

#endif
