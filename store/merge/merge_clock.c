/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of several machines.
 *
 * Files of one boot of one machine have one CLOCK_MONOTONIC. Between machines the anchors of each
 * file (CLOCK_REALTIME read back to back with CLOCK_MONOTONIC) give an offset that is as good as
 * the machines' wall clocks: its error is not known. Better is a collective in which every rank
 * takes part and which no rank can leave before all have entered (all-reduce, all-gather,
 * reduce-scatter, all-to-all, barrier): it ends on all machines at nearly one time, and for certain
 * no rank ends it before the last one has begun it.
 *
 * clock_fit.c makes offset, drift and error of the distances of these ends.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/clock_fit.h"
#include "store/keyed_hash.h"
#include "store/merge/merge_private.h"

#define SIDES_MOST  (2u << 20) /* of all collectives: 24 bytes each */
#define STRIDE_MOST (1u << 30)
#define TIME_MOST   (INT64_MAX / 4) /* ns: a later one is of a damaged file */
/* Anchors of files of one boot agree within this, unless they are of different time namespaces. */
#define SAME_WALL_NS 10000000ll

const char *store_merge_how_text(enum store_merge_how how)
{
    static const char *const text[] = {
#define HOW_TEXT(name, text) text,
        STORE_MERGE_CLOCK_MAP(HOW_TEXT)
#undef HOW_TEXT
    };
    return text[how];
}

int64_t store_merge_time(const struct store_merge_clock *merge_clock, int64_t time)
{
    return store_clock_time(merge_clock->offset, merge_clock->drift, merge_clock->pivot, time);
}

/* ---- collectives ----------------------------------------------------------------------------------------------------------- */

struct side {                  /* of one machine */
    int64_t end, start, least; /* earliest end, latest start, shortest participant */
};

struct collective {
    int64_t communicator, sequence, ranks; /* ranks 0: an empty place of the table */
    int64_t op, seen;
    struct side *side; /* [machines]; least INT64_MAX: none */
    int64_t least;     /* shortest participant of all machines */
};

struct matches {
    struct merge *merge;
    struct merge_source *source;
    struct collective *table;  /* open addressing */
    size_t places, used, most; /* most: collectives that are kept, fewer with many machines */
    uint64_t stride;           /* of the sequence numbers that are looked at: a power of two */
};

static uint64_t place_of(const struct collective *collective)
{
    uint64_t group = store_hash_pair((uint64_t)collective->communicator, (uint64_t)collective->op);
    return store_hash_pair(group ^ (uint64_t)collective->sequence, (uint64_t)collective->ranks);
}

/* The entry of a collective, or the empty one where it belongs. */
static struct collective *find(struct matches *matches, const struct collective *key)
{
    size_t i = place_of(key) & (matches->places - 1);
    for (; matches->table[i].ranks; i = (i + 1) & (matches->places - 1)) {
        struct collective *collective = &matches->table[i];
        if (collective->communicator == key->communicator &&
            collective->sequence == key->sequence && collective->op == key->op &&
            collective->ranks == key->ranks)
            return collective;
    }
    return &matches->table[i];
}

/* Is a collective among those that are looked at? Of one communicator each stride'th one is. Each
 * communicator begins elsewhere, so that of many, with one collective each, only some remain. The
 * choice is the same for all files, and each time. */
static bool is_kept(const struct matches *matches, const struct collective *collective)
{
    uint64_t begin =
        ((uint64_t)collective->communicator ^ (uint64_t)collective->op << 48) * 0x9e3779b97f4a7c15u;
    return (((uint64_t)collective->sequence + (begin >> 32)) & (matches->stride - 1)) == 0;
}

/* Makes room by keeping only about half of the collectives. */
static int thin(struct matches *matches)
{
    size_t count = 0;
    struct collective *kept = calloc(matches->places, sizeof *kept);
    if (!kept)
        return TACHO_ENOMEM;
    struct collective *old = matches->table;
    matches->stride *= 2;
    matches->table = kept;
    for (size_t i = 0; i < matches->places; i++)
        if (old[i].ranks && is_kept(matches, &old[i])) {
            *find(matches, &old[i]) = old[i];
            count++;
        } else if (old[i].ranks) {
            free(old[i].side);
        }
    free(old);
    matches->used = count;
    return 0;
}

/* The integer of a cell. */
static int64_t word(const struct store_cell *cell)
{
    return cell->type == STORE_CELL_INTEGER ? cell->integer : STORE_ABSENT;
}

/* Makes room for the entry of one more collective. Sets *room to whether there is any: a file can
 * have more than are kept of those that remain however few are looked at. */
static int make_room(struct matches *matches, bool *room)
{
    int status = 0;
    while (matches->used >= matches->most && matches->stride < STRIDE_MOST && status == 0)
        status = thin(matches);
    *room = matches->used < matches->most;
    return status;
}

/* Adds one participant of a collective to its entry. When there are more collectives than may be
 * kept, only every second sequence number is, then every fourth, and so on. */
static int on_collective(void *ctx, int columns, const struct store_cell *cells)
{
    struct matches *matches = ctx;
    int64_t start = word(&cells[0]), dur = word(&cells[1]), end;
    struct collective key = {.sequence = word(&cells[2]),
                             .communicator = word(&cells[3]),
                             .ranks = word(&cells[4]),
                             .op = word(&cells[5])};
    (void)columns;
    if (start == STORE_ABSENT || dur < 0 || key.sequence < 0 || key.ranks < 2 ||
        __builtin_add_overflow(start, dur, &end) || start < -TIME_MOST || end > TIME_MOST ||
        !is_kept(matches, &key))
        return 0;
    struct collective *collective = find(matches, &key);
    if (!collective->ranks) {
        bool room;
        int status = make_room(matches, &room);
        if (status || !room || !is_kept(matches, &key))
            return status;
        collective = find(matches, &key); /* the table may be another one */
        *collective = key;
        collective->least = INT64_MAX;
        collective->side = malloc(matches->merge->machines * sizeof *collective->side);
        if (!collective->side) {
            collective->ranks = 0;
            return TACHO_ENOMEM;
        }
        for (size_t i = 0; i < matches->merge->machines; i++)
            collective->side[i] = (struct side){INT64_MAX, INT64_MIN, INT64_MAX};
        matches->used++;
    }
    struct side *side = &collective->side[matches->source->machine];
    collective->seen++;
    side->end = end < side->end ? end : side->end;
    side->start = start > side->start ? start : side->start;
    side->least = dur < side->least ? dur : side->least;
    collective->least = dur < collective->least ? dur : collective->least;
    return 0;
}

/* Reads the collectives that synchronise all ranks, from all files. */
static int read_collectives(struct matches *matches)
{
    static const char sql[] = "SELECT s.start, s.dur, s.correlation, d.communicator, d.ranks, "
                              "length(d.collective) * 256 + unicode(d.collective) "
                              "FROM slice s JOIN detail d ON d.id = s.detail WHERE s.detail IN "
                              "(SELECT id FROM detail WHERE schema = 'tacho.comm' "
                              "AND "
                              "collective IN ('all_reduce', 'all_gather', 'reduce_scatter', "
                              "'all_to_all', 'barrier')) ORDER BY s.id";
    int status = 0;
    matches->most = SIDES_MOST / matches->merge->machines < STORE_MERGE_COLLECTIVES
                        ? SIDES_MOST / matches->merge->machines
                        : STORE_MERGE_COLLECTIVES;
    for (matches->places = 64; matches->places < 4 * matches->most;)
        matches->places *= 2;
    matches->stride = 1;
    matches->table = calloc(matches->places, sizeof *matches->table);
    if (!matches->table)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < matches->merge->count && status == 0; i++) {
        matches->source = &matches->merge->source[i];
        status = merge_query(matches->merge, matches->source, sql, on_collective, matches);
    }
    return status;
}

/* ---- machines -------------------------------------------------------------------------------------------------------------- */

/* The clock of a machine, from collectives that it has in common with the machine of the reference.
 * Without any the clock stays as it is. */
static int align_machine(struct matches *matches, size_t machine, size_t reference,
                         struct store_merge_clock *clock, double wall)
{
    size_t count = 0;
    struct store_clock_fit fit;
    struct store_clock_point *point = malloc((matches->used + 1) * sizeof *point);
    if (!point)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < matches->places; i++) {
        const struct collective *collective = &matches->table[i];
        if (!collective->ranks || collective->seen != collective->ranks) /* every rank, each once */
            continue;
        const struct side *own = &collective->side[machine], *other = &collective->side[reference];
        if (own->least != INT64_MAX && other->least != INT64_MAX)
            point[count++] = (struct store_clock_point){.at = own->end,
                                                        .offset = other->end - own->end,
                                                        .low = other->start - own->end,
                                                        .high = other->end - own->start,
                                                        .least = collective->least};
    }
    int status = count ? store_clock_fit(point, count, &fit) : 0;
    free(point);
    if (count && !status)
        *clock = (struct store_merge_clock){.how = STORE_MERGE_BY_COLLECTIVES,
                                            .offset = fit.offset,
                                            .pivot = fit.pivot,
                                            .drift = fit.drift,
                                            .error = fit.error,
                                            .bound = fit.bound,
                                            .wall = isnan(wall) ? NAN : (double)fit.offset - wall,
                                            .matched = fit.matched};
    return status;
}

/* Numbers the machines: files with one boot id and one wall clock are of one machine. */
static void find_machines(struct merge *merge)
{
    merge->machines = 0;
    for (size_t i = 0; i < merge->count; i++) {
        struct merge_source *source = &merge->source[i];
        source->machine = merge->machines;
        for (size_t j = 0; j < i; j++) {
            const struct merge_source *other = &merge->source[j];
            bool wall = source->anchor_wall != STORE_ABSENT && other->anchor_wall != STORE_ABSENT;
            if (source->boot[0] && !strcmp(source->boot, other->boot) &&
                (!wall || llabs(source->anchor_wall - other->anchor_wall) < SAME_WALL_NS)) {
                source->machine = other->machine;
                break;
            }
        }
        merge->machines += source->machine == merge->machines;
    }
}

/* The clock of a source by its anchors; its error is not known. */
static struct store_merge_clock wall_clock(const struct merge_source *source,
                                           const struct merge_source *reference)
{
    struct store_merge_clock merge_clock = {
        .how = STORE_MERGE_NONE, .error = NAN, .bound = NAN, .wall = NAN};
    if (source->anchor_wall != STORE_ABSENT && reference->anchor_wall != STORE_ABSENT) {
        merge_clock.how = STORE_MERGE_WALL;
        merge_clock.offset = source->anchor_wall - reference->anchor_wall;
    }
    return merge_clock;
}

int merge_align(struct merge *merge)
{
    struct matches matches = {.merge = merge};
    int status = 0;
    find_machines(merge);
    if (merge->machines > 1)
        status = read_collectives(&matches);
    for (size_t machine = 0; machine < merge->machines && status == 0; machine++) {
        struct store_merge_clock clock = {.how = STORE_MERGE_SAME, .wall = NAN};
        size_t first = 0;
        while (merge->source[first].machine != machine)
            first++;
        if (machine > 0) {
            clock = wall_clock(&merge->source[first], &merge->source[0]);
            status = align_machine(&matches, machine, 0, &clock,
                                   clock.how == STORE_MERGE_WALL ? (double)clock.offset : NAN);
        }
        for (size_t i = first; i < merge->count; i++)
            if (merge->source[i].machine == machine)
                merge->source[i].clock = clock;
    }
    for (size_t i = 0; matches.table && i < matches.places; i++)
        free(matches.table[i].side);
    free(matches.table);
    return status;
}
