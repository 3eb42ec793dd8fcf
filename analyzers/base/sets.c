/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of spans that grow, and the operations on sets with their memory: the temporary result has
 * room for the worst case, the arena gets a copy of the size that is needed.
 */
#include "analyzers/base/sets.h"

#include <stdlib.h>

#include "tacho_error.h"

int an_span_list_add(struct an_span_list *list, int64_t start, int64_t end)
{
    if (end <= start)
        return 0;
    int rc = an_grow(&list->span, &list->room, list->count + 1, sizeof *list->span);
    if (!rc)
        list->span[list->count++] = (struct an_span){start, end};
    return rc;
}

struct an_set an_span_list_set(struct an_span_list *list)
{
    list->count = an_spans_normalize(list->span, list->count);
    return (struct an_set){list->span, list->count};
}

static int copy_set(struct an_arena *arena, struct an_set set, struct an_set *out)
{
    out->count = set.count;
    out->span = an_arena_copy(arena, set.span, set.count * sizeof *set.span);
    return out->span ? 0 : TACHO_ENOMEM;
}

int an_span_list_keep(struct an_span_list *list, struct an_arena *arena, struct an_set *out)
{
    return copy_set(arena, an_span_list_set(list), out);
}

int an_set_combine(struct an_arena *arena, an_set_operation *operation, struct an_set left,
                   struct an_set right, struct an_set *out)
{
    struct an_set set = {malloc((left.count + right.count + 1) * sizeof *set.span), 0};
    if (!set.span)
        return TACHO_ENOMEM;
    set.count = operation(left.span, left.count, right.span, right.count, set.span);
    int rc = copy_set(arena, set, out);
    free(set.span);
    return rc;
}
