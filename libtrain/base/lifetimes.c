/* SPDX-License-Identifier: Apache-2.0
 *
 * Places for arrays by their lifetimes. The number of arrays is that of a model's values, so plain
 * loops over all pairs are quick enough.
 */
#include "libtrain/base/lifetimes.h"

#include <string.h>

static int at_one_time(const struct lt_lifetime *left, const struct lt_lifetime *right)
{
    for (int i = 0; i < left->spans; i++)
        for (int j = 0; j < right->spans; j++)
            if (left->span[i].from <= right->span[j].to && right->span[j].from <= left->span[i].to)
                return 1;
    return 0;
}

/* Orders in which arrays are placed: by size, by size times the length of the life, by length, by
 * the last time. No order is the best for every model. */
enum order { BY_SIZE, BY_AREA, BY_LENGTH, BY_END, ORDERS };

#define HURRIED 24

/* An order, of which so many times the array that ended last was moved to its begin: what the
 * arrays take together is decided by it, and it finds a lower place the earlier it is placed. */
struct attempt {
    enum order order;
    int hurried;
};

static double key_of(const struct lt_lifetime *array, enum order order)
{
    double length = 0, end = 0;
    for (int i = 0; i < array->spans; i++) {
        length += array->span[i].to - array->span[i].from + 1;
        end = array->span[i].to;
    }
    const double keys[ORDERS] = {(double)array->floats, (double)array->floats * length, length,
                                 end};
    return keys[order];
}

/* The lowest place for arrays[index]: moved up behind whatever is in the way, until nothing is. */
static size_t lowest(const struct lt_lifetime *arrays, const int *placed, int count, int index)
{
    const struct lt_lifetime *own = &arrays[index];
    size_t at = 0;
    for (int moved = 1; moved;) {
        moved = 0;
        for (int i = 0; i < count; i++) {
            const struct lt_lifetime *other = &arrays[placed[i]];
            if (at >= other->at + other->floats || other->at >= at + own->floats ||
                !at_one_time(own, other))
                continue;
            at = other->at + other->floats;
            moved = 1;
        }
    }
    return at;
}

/* Sorts the numbers of arrays that are needed at all, the highest key first; of equal ones the
 * first. Returns how many there are. */
static int sort(const struct lt_lifetime *arrays, int count, enum order order, int *sorted)
{
    int used = 0;
    for (int i = 0; i < count; i++) {
        int at = used;
        if (!arrays[i].spans || !arrays[i].floats)
            continue;
        for (; at > 0 && key_of(&arrays[sorted[at - 1]], order) < key_of(&arrays[i], order); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = i;
        used++;
    }
    return used;
}

/* Places arrays one after the other. Returns what they take together. */
static size_t place(struct lt_lifetime *arrays, const int *sorted, int used)
{
    size_t whole = 0;
    for (int i = 0; i < used; i++) {
        struct lt_lifetime *array = &arrays[sorted[i]];
        array->at = lowest(arrays, sorted, i, sorted[i]);
        whole = array->at + array->floats > whole ? array->at + array->floats : whole;
    }
    return whole;
}

/* The array that ends last comes first. */
static void hurry_last(const struct lt_lifetime *arrays, int *sorted, int used, size_t whole)
{
    int at = 0;
    while (at + 1 < used && arrays[sorted[at]].at + arrays[sorted[at]].floats < whole)
        at++;
    int last = sorted[at];
    memmove(sorted + 1, sorted, (size_t)at * sizeof *sorted);
    sorted[0] = last;
}

size_t lt_lifetimes_live(const struct lt_lifetime *arrays, int count, int time)
{
    size_t floats = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < arrays[i].spans; j++)
            if (arrays[i].span[j].from <= time && time <= arrays[i].span[j].to)
                floats += arrays[i].floats;
    return floats;
}

/* The most that is alive begins where some array begins to be. */
static size_t most_live(const struct lt_lifetime *arrays, int count)
{
    size_t most = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < arrays[i].spans; j++) {
            size_t live = lt_lifetimes_live(arrays, count, arrays[i].span[j].from);
            most = live > most ? live : most;
        }
    return most;
}

size_t lt_lifetimes_place(struct lt_lifetime *arrays, int count, int *order, size_t *live)
{
    size_t least = (size_t)-1, most = most_live(arrays, count);
    struct attempt best = {BY_SIZE, 0};
    for (enum order i = BY_SIZE; i < ORDERS && least > most; i++) {
        int used = sort(arrays, count, i, order);
        for (int hurried = 0; hurried < HURRIED && least > most; hurried++) {
            size_t whole = place(arrays, order, used);
            if (whole < least) {
                least = whole;
                best = (struct attempt){i, hurried};
            }
            if (least > most)
                hurry_last(arrays, order, used, whole);
        }
    }
    if (live)
        *live = most;
    int used = sort(arrays, count, best.order, order);
    for (int i = 0; i < best.hurried; i++)
        hurry_last(arrays, order, used, place(arrays, order, used));
    return place(arrays, order, used);
}
