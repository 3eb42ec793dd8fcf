/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of an Ascend capture, by the numbers that its rows have.
 */
#include <stdlib.h>

#include "store/import/ascend/ascend_private.h"

#define STEPS_MOST 65536

void ascend_steps_free(struct ascend_steps *steps)
{
    imp_map_free(&steps->places);
    free(steps->step);
}

/* Makes room for one more; false: without memory. */
static bool make_room(struct ascend_steps *steps)
{
    if (steps->count < steps->cap)
        return true;
    size_t cap = steps->cap ? 2 * steps->cap : 64;
    struct ascend_step *step = realloc(steps->step, cap * sizeof *step);
    if (!step)
        return false;
    steps->step = step;
    steps->cap = cap;
    return true;
}

int ascend_steps_note(struct ascend_steps *steps, int64_t line, int64_t index, int64_t start,
                      int64_t end)
{
    const int64_t *place = imp_map_find(&steps->places, line, index);
    if (place && *place >= 0) {
        struct ascend_step *step = &steps->step[*place];
        step->start = start < step->start ? start : step->start;
        step->end = end > step->end ? end : step->end;
    }
    if (place)
        return 0;
    if (steps->count == STEPS_MOST) {
        steps->beyond++;
        return imp_map_put(&steps->places, line, index, -1);
    }
    if (!make_room(steps))
        return TACHO_ENOMEM;
    steps->step[steps->count] = (struct ascend_step){line, index, start, end};
    return imp_map_put(&steps->places, line, index, (int64_t)steps->count++);
}

static int by_line_and_start(const void *left, const void *right)
{
    const struct ascend_step *first = left, *second = right;
    if (first->line != second->line)
        return first->line < second->line ? -1 : 1;
    return (first->start > second->start) - (first->start < second->start);
}

/* Sorts the steps, and finds those of the line that has most time. */
static void find_longest(struct ascend_steps *steps, size_t *first, size_t *count)
{
    double most = -1;
    qsort(steps->step, steps->count, sizeof *steps->step, by_line_and_start);
    for (size_t i = 0, next; i < steps->count; i = next) {
        double time = 0;
        for (next = i; next < steps->count && steps->step[next].line == steps->step[i].line; next++)
            time += (double)(steps->step[next].end - steps->step[next].start);
        if (time > most) {
            most = time;
            *first = i;
            *count = next - i;
        }
    }
}

int ascend_steps_write(struct ascend_steps *steps, struct imp_run *run, int64_t process,
                       const char *marked_by)
{
    size_t first = 0, count = 0;
    int rc = 0;
    if (steps->beyond)
        rc = imp_loss(run, "step beyond the first 65536 of a capture: not kept", steps->beyond);
    if (run->salvage_only || !steps->count)
        return rc;
    find_longest(steps, &first, &count);
    for (size_t i = first; i < first + count && !rc; i++) {
        struct store_step row = {.process = process,
                                 .index = steps->step[i].index,
                                 .start = steps->step[i].start,
                                 .end = steps->step[i].end,
                                 .tokens = STORE_ABSENT,
                                 .samples = STORE_ABSENT};
        rc = store_step_add(run->db, &row);
    }
    return rc ? rc : store_run_set(run->db, "steps.marked_by", marked_by);
}
