/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets for buffers with known lifetimes. A plan grows from the bottom: of the skyline of what is
 * placed, the lowest stretch of time takes the first buffer of an order that lives within it; where
 * none does, the stretch is raised to its lower neighbour (the best-fit heuristic of Sekiyama et
 * al., Profile-guided memory optimization for deep neural networks, 2018, with other orders). The
 * orders that are tried go from longest to largest; then a hill climb moves buffers of the best
 * order, mostly those that reach the top.
 */
#include "analyzers/allocator/pool.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/interval.h"
#include "tacho_error.h"

#define ORDERS     20   /* steps from longest to largest */
#define AT_TOP     0.08 /* of the bound below the top: a buffer that reaches there is moved first */
#define SLACK      0.003 /* of the bound: how much worse a plan the climb goes through */
#define NEAR       100   /* places that a buffer is moved at most, unless it goes to the front */
#define CHANCE_TOP 0.8   /* that a buffer at the top is moved, not any */
#define CHANCE_UP  0.7   /* that such a buffer moves to the front */

/* A stretch of time and how high what is placed in it reaches. */
struct stretch {
    int64_t from, to, height;
};

struct packing {
    struct pool_buffer *buffer;
    size_t count;
    uint32_t *order, *present, *rest; /* of buffers; rest: not placed yet */
    int64_t *offset;                  /* of the best plan */
    struct stretch *sky;
    size_t stretches;
    int64_t first, last, work;
    uint64_t seed;
};

/* ---- one plan ---------------------------------------------------------------------------------- */

/* Takes out the stretch at a place. */
static void drop(struct packing *packing, size_t at)
{
    packing->stretches--;
    memmove(packing->sky + at, packing->sky + at + 1,
            (packing->stretches - at) * sizeof *packing->sky);
}

/* Joins a stretch with the next one if both are as high. */
static bool join(struct packing *packing, size_t at)
{
    struct stretch *sky = packing->sky;
    if (at + 1 >= packing->stretches || sky[at].height != sky[at + 1].height)
        return false;
    sky[at].to = sky[at + 1].to;
    drop(packing, at + 1);
    return true;
}

static size_t lowest(struct packing *packing)
{
    size_t low = 0;
    for (size_t i = 1; i < packing->stretches; i++)
        if (packing->sky[i].height < packing->sky[low].height)
            low = i;
    packing->work -= (int64_t)packing->stretches;
    return low;
}

/* Raises a stretch that takes no buffer to its lower neighbour. */
static void raise_stretch(struct packing *packing, size_t at)
{
    struct stretch *sky = packing->sky;
    int64_t left = INT64_MAX, right = INT64_MAX;
    if (at)
        left = sky[at - 1].height;
    if (at + 1 < packing->stretches)
        right = sky[at + 1].height;
    sky[at].height = left < right ? left : right;
    join(packing, at);
    if (at)
        join(packing, at - 1);
}

/* Puts a buffer on a stretch, which becomes up to three. */
static void put(struct packing *packing, size_t at, struct pool_buffer *buffer)
{
    const struct stretch ground = packing->sky[at];
    struct stretch part[3];
    size_t parts = 0;
    buffer->offset = ground.height;
    if (ground.from < buffer->start)
        part[parts++] = (struct stretch){ground.from, buffer->start, ground.height};
    part[parts++] = (struct stretch){buffer->start, buffer->end, ground.height + buffer->bytes};
    if (buffer->end < ground.to)
        part[parts++] = (struct stretch){buffer->end, ground.to, ground.height};
    memmove(packing->sky + at + parts, packing->sky + at + 1,
            (packing->stretches - at - 1) * sizeof *packing->sky);
    memcpy(packing->sky + at, part, parts * sizeof *part);
    packing->stretches += parts - 1;
    for (size_t i = at + parts; i-- > (at ? at - 1 : 0);)
        join(packing, i);
}

/* The place in `rest` of the first buffer that lives within a stretch; SIZE_MAX: none does. */
static size_t first_within(struct packing *packing, size_t left, struct stretch stretch)
{
    for (size_t i = 0; i < left; i++) {
        const struct pool_buffer *buffer = &packing->buffer[packing->rest[i]];
        if (buffer->start >= stretch.from && buffer->end <= stretch.to) {
            packing->work -= (int64_t)i;
            return i;
        }
    }
    packing->work -= (int64_t)left;
    return SIZE_MAX;
}

/* Places all buffers by `order`; gives up when the pool is larger than `most`. Returns its bytes,
 * INT64_MAX: it gave up. */
static int64_t place_all(struct packing *packing, int64_t most)
{
    size_t left = packing->count;
    int64_t top = 0;
    memcpy(packing->rest, packing->order, left * sizeof *packing->rest);
    packing->sky[0] = (struct stretch){packing->first, packing->last, 0};
    packing->stretches = 1;
    while (left) {
        size_t at = lowest(packing), found = first_within(packing, left, packing->sky[at]);
        if (found == SIZE_MAX) {
            raise_stretch(packing, at);
            continue;
        }
        struct pool_buffer *buffer = &packing->buffer[packing->rest[found]];
        left--;
        memmove(packing->rest + found, packing->rest + found + 1,
                (left - found) * sizeof *packing->rest);
        put(packing, at, buffer);
        if (buffer->offset + buffer->bytes > top)
            top = buffer->offset + buffer->bytes;
        if (top > most)
            return INT64_MAX;
    }
    return top;
}

static void keep(struct packing *packing, struct pool_plan *plan, int64_t bytes)
{
    if (plan->bytes && bytes >= plan->bytes)
        return;
    plan->bytes = bytes;
    for (size_t i = 0; i < packing->count; i++)
        packing->offset[i] = packing->buffer[i].offset;
    memcpy(packing->present, packing->order, packing->count * sizeof *packing->order);
}

/* ---- orders ------------------------------------------------------------------------------------ */

/* A buffer and what it is sorted by. */
struct ranked {
    double key;
    uint32_t index;
};

static int ranked_order(const void *left, const void *right)
{
    const struct ranked *first = left, *second = right;
    return 2 * AN_COMPARE(second->key, first->key) + AN_COMPARE(first->index, second->index);
}

/* Sorts by lifetime^(1 - share) x bytes^share, largest first. */
static int order_by(struct packing *packing, double share)
{
    struct ranked *row = malloc((packing->count + 1) * sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < packing->count; i++) {
        const struct pool_buffer *buffer = &packing->buffer[i];
        double life = (double)(buffer->end - buffer->start), bytes = (double)buffer->bytes;
        double key = (1 - share) * log(life) + share * log(bytes > 0 ? bytes : 0.5);
        row[i] = (struct ranked){key, (uint32_t)i};
    }
    qsort(row, packing->count, sizeof *row, ranked_order);
    for (size_t i = 0; i < packing->count; i++)
        packing->order[i] = row[i].index;
    free(row);
    return 0;
}

/* ---- hill climb -------------------------------------------------------------------------------- */

/* A number in [0, 1): the same sequence for every call of pool_pack (xorshift64). */
static double chance(struct packing *packing)
{
    packing->seed ^= packing->seed << 13;
    packing->seed ^= packing->seed >> 7;
    packing->seed ^= packing->seed << 17;
    return (double)(packing->seed >> 11) * 0x1p-53;
}

static size_t below(struct packing *packing, size_t count)
{
    return (size_t)(chance(packing) * (double)count);
}

/* The place in the order of a buffer that reaches the top of the present plan, or any. */
static size_t choose(struct packing *packing, int64_t height, int64_t bound)
{
    size_t found = 0, chosen = below(packing, packing->count);
    if (chance(packing) > CHANCE_TOP)
        return chosen;
    for (size_t i = 0; i < packing->count; i++) {
        const struct pool_buffer *buffer = &packing->buffer[packing->order[i]];
        if ((double)(buffer->offset + buffer->bytes) <= (double)height - AT_TOP * (double)bound)
            continue;
        found++;
        if (chance(packing) * (double)found < 1) /* each of them is as likely */
            chosen = i;
    }
    packing->work -= (int64_t)packing->count;
    return chosen;
}

static size_t target_of(struct packing *packing, size_t from)
{
    if (chance(packing) < CHANCE_UP)
        return below(packing, from + 1);
    double to = (double)from + (chance(packing) - 0.5) * NEAR;
    to = to > 0 ? to : 0;
    return to < (double)packing->count ? (size_t)to : packing->count - 1;
}

static void swap(uint32_t *order, size_t first, size_t second)
{
    uint32_t kept = order[first];
    order[first] = order[second];
    order[second] = kept;
}

/* Moves the buffer at a place of the order to another one. */
static void move(uint32_t *order, size_t from, size_t to)
{
    uint32_t moved = order[from];
    if (from < to)
        memmove(order + from, order + from + 1, (to - from) * sizeof *order);
    else
        memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = moved;
}

/* Changes the order at one place or two. */
static void change(struct packing *packing, int64_t height, int64_t bound)
{
    size_t from = choose(packing, height, bound), to = target_of(packing, from);
    if (chance(packing) < 0.5)
        swap(packing->order, from, to);
    else
        move(packing->order, from, to);
    if (chance(packing) < 0.3)
        swap(packing->order, below(packing, packing->count), below(packing, packing->count));
}

/* Goes from plan to plan, to ones that are hardly worse too, until the work is done or the bound is
 * reached. `present` is the order of the plan where it is. */
static void climb(struct packing *packing, struct pool_plan *plan)
{
    int64_t height = plan->bytes;
    memcpy(packing->order, packing->present, packing->count * sizeof *packing->order);
    place_all(packing, INT64_MAX - 1);
    uint32_t *at = packing->present;
    while (packing->work > 0 && plan->bytes > plan->bound && packing->count > 1) {
        double slack = chance(packing) * chance(packing) * SLACK * (double)plan->bound;
        change(packing, height, plan->bound);
        int64_t bytes = place_all(packing, height + (int64_t)slack);
        plan->moves++;
        if (bytes == INT64_MAX) { /* the heights that remain are those of the plan that failed */
            memcpy(packing->order, at, packing->count * sizeof *at);
            continue;
        }
        height = bytes;
        if (bytes < plan->bytes)
            keep(packing, plan, bytes);
        memcpy(at, packing->order, packing->count * sizeof *at);
    }
}

/* ---- the pool ---------------------------------------------------------------------------------- */

/* A change of what lives. */
struct moment {
    int64_t time, bytes;
};

static int moment_order(const void *left, const void *right)
{
    const struct moment *first = left, *second = right;
    return AN_COMPARE(first->time, second->time);
}

/* Fills the moments at which buffers begin and end; false: they cannot be packed. */
static bool find_moments(struct packing *packing, struct moment *moment)
{
    int64_t sum = 0;
    for (size_t i = 0; i < packing->count; i++) {
        const struct pool_buffer *buffer = &packing->buffer[i];
        if (buffer->start >= buffer->end || buffer->bytes < 0 ||
            __builtin_add_overflow(sum, buffer->bytes, &sum) || sum > INT64_MAX / 4)
            return false;
        packing->first = buffer->start < packing->first ? buffer->start : packing->first;
        packing->last = buffer->end > packing->last ? buffer->end : packing->last;
        moment[2 * i] = (struct moment){buffer->start, buffer->bytes};
        moment[2 * i + 1] = (struct moment){buffer->end, -buffer->bytes};
    }
    return true;
}

/* Finds the most bytes that live at once: after all changes of one moment. */
static int find_bound(struct packing *packing, struct pool_plan *plan)
{
    size_t count = 2 * packing->count;
    int64_t now = 0;
    struct moment *moment = malloc((count + 1) * sizeof *moment);
    int rc = moment ? 0 : TACHO_ENOMEM;
    if (!rc && !find_moments(packing, moment))
        rc = TACHO_EUSAGE;
    if (!rc)
        qsort(moment, count, sizeof *moment, moment_order);
    for (size_t i = 0; i < count && !rc; i++) {
        now += moment[i].bytes;
        bool last = i + 1 == count || moment[i + 1].time != moment[i].time;
        if (last && now > plan->bound)
            plan->bound = now;
    }
    free(moment);
    return rc;
}

static bool make_room(struct packing *packing)
{
    size_t count = packing->count + 1;
    packing->order = malloc(count * sizeof *packing->order);
    packing->present = malloc(count * sizeof *packing->present);
    packing->rest = malloc(count * sizeof *packing->rest);
    packing->offset = malloc(count * sizeof *packing->offset);
    packing->sky = malloc((2 * count + 3) * sizeof *packing->sky);
    return packing->order && packing->present && packing->rest && packing->offset && packing->sky;
}

int pool_pack(struct pool_buffer *buffer, size_t count, int64_t work, struct pool_plan *plan)
{
    struct packing packing = {.buffer = buffer,
                              .count = count,
                              .work = work,
                              .first = INT64_MAX,
                              .last = INT64_MIN,
                              .seed = 0x9e3779b97f4a7c15u};
    *plan = (struct pool_plan){0};
    if (!count)
        return 0;
    if (count > POOL_BUFFERS_MOST)
        return TACHO_EUSAGE;
    int rc = find_bound(&packing, plan);
    if (!rc && !make_room(&packing))
        rc = TACHO_ENOMEM;
    for (int step = 0; step <= ORDERS && !rc && (!step || packing.work > 0); step++) {
        /* Half way between longest and largest is tried first: it is the best one most often. */
        rc = order_by(&packing, (double)((step + ORDERS / 2) % (ORDERS + 1)) / ORDERS);
        if (rc)
            break;
        plan->orders++;
        keep(&packing, plan, place_all(&packing, INT64_MAX - 1));
    }
    if (!rc)
        climb(&packing, plan);
    for (size_t i = 0; i < count && !rc; i++)
        buffer[i].offset = packing.offset[i];
    free(packing.order);
    free(packing.present);
    free(packing.rest);
    free(packing.offset);
    free(packing.sky);
    return rc;
}
