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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/clock_fit.h"
#include "store/merge/merge_private.h"

#define SIDES_MOST (2u << 20) /* of all collectives: 24 bytes each */
#define SAME_WALL_NS \
    10000000ll /* files of one boot: their anchors agree, unless they are of different time \
                  namespaces */

const char *store_merge_how_text(enum store_merge_how how)
{
    static const char *const text[] = {
#define HOW_TEXT(name, text) text,
        STORE_MERGE_CLOCK_MAP(HOW_TEXT)
#undef HOW_TEXT
    };
    return text[how];
}

int64_t store_merge_time(const struct store_merge_clock *c, int64_t t)
{
    return store_clock_time(c->offset, c->drift, c->pivot, t);
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
    struct merge *m;
    struct merge_source *s;
    struct collective *table;  /* open addressing */
    size_t places, used, most; /* most: collectives that are kept, fewer with many machines */
    int64_t stride;            /* of the sequence numbers that are looked at */
};

static uint64_t place_of(const struct collective *c)
{
    uint64_t h = (uint64_t)c->communicator * 0x9e3779b97f4a7c15u ^
                 (uint64_t)c->sequence * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)c->op;
    return h ^ h >> 29;
}

static struct collective *find(struct matches *x, const struct collective *key)
{
    size_t i = place_of(key) & (x->places - 1);
    for (; x->table[i].ranks; i = (i + 1) & (x->places - 1)) {
        struct collective *c = &x->table[i];
        if (c->communicator == key->communicator && c->sequence == key->sequence &&
            c->op == key->op && c->ranks == key->ranks)
            return c;
    }
    return &x->table[i];
}

/* Half of the sequence numbers are enough: makes room. */
static int thin(struct matches *x)
{
    size_t n = 0;
    struct collective *kept = calloc(x->places, sizeof *kept);
    if (!kept)
        return TACHO_ENOMEM;
    struct collective *old = x->table;
    x->stride *= 2;
    x->table = kept;
    for (size_t i = 0; i < x->places; i++)
        if (old[i].ranks && old[i].sequence % x->stride == 0) {
            *find(x, &old[i]) = old[i];
            n++;
        } else if (old[i].ranks) {
            free(old[i].side);
        }
    free(old);
    x->used = n;
    return 0;
}

static int64_t word(const struct store_cell *c)
{
    return c->type == STORE_CELL_INTEGER ? c->integer : STORE_ABSENT;
}

static int on_collective(void *ctx, int columns, const struct store_cell *cells)
{
    struct matches *x = ctx;
    int64_t start = word(&cells[0]), dur = word(&cells[1]), end;
    struct collective key = {.sequence = word(&cells[2]),
                             .communicator = word(&cells[3]),
                             .ranks = word(&cells[4]),
                             .op = word(&cells[5])};
    (void)columns;
    if (start == STORE_ABSENT || dur < 0 || key.sequence < 0 || key.ranks < 2 ||
        __builtin_add_overflow(start, dur, &end))
        return 0;
    while (x->used >= x->most) {
        int rc = thin(x);
        if (rc)
            return rc;
    }
    if (key.sequence % x->stride)
        return 0;
    struct collective *c = find(x, &key);
    if (!c->ranks) {
        *c = key;
        c->least = INT64_MAX;
        c->side = malloc(x->m->machines * sizeof *c->side);
        if (!c->side) {
            c->ranks = 0;
            return TACHO_ENOMEM;
        }
        for (size_t i = 0; i < x->m->machines; i++)
            c->side[i] = (struct side){INT64_MAX, INT64_MIN, INT64_MAX};
        x->used++;
    }
    struct side *s = &c->side[x->s->machine];
    c->seen++;
    s->end = end < s->end ? end : s->end;
    s->start = start > s->start ? start : s->start;
    s->least = dur < s->least ? dur : s->least;
    c->least = dur < c->least ? dur : c->least;
    return 0;
}

static int read_collectives(struct matches *x)
{
    static const char sql[] = "SELECT s.start, s.dur, s.correlation, d.communicator, d.ranks, "
                              "length(d.collective) * 256 + unicode(d.collective) "
                              "FROM slice s JOIN detail d ON d.id = s.detail WHERE s.detail IN "
                              "(SELECT id FROM detail WHERE schema = 'tacho.comm' "
                              "AND "
                              "collective IN ('all_reduce', 'all_gather', 'reduce_scatter', "
                              "'all_to_all', 'barrier')) ORDER BY s.id";
    int rc = 0;
    x->most = SIDES_MOST / x->m->machines < STORE_MERGE_COLLECTIVES ? SIDES_MOST / x->m->machines
                                                                    : STORE_MERGE_COLLECTIVES;
    for (x->places = 64; x->places < 4 * x->most;)
        x->places *= 2;
    x->stride = 1;
    x->table = calloc(x->places, sizeof *x->table);
    if (!x->table)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->m->count && rc == 0; i++) {
        x->s = &x->m->source[i];
        rc = merge_query(x->m, x->s, sql, on_collective, x);
    }
    return rc;
}

/* ---- machines -------------------------------------------------------------------------------------------------------------- */

/* The clock of machine `a`, from collectives that it has in common with the reference's machine.
 * *found: there are some. */
static int align_machine(struct matches *x, size_t a, size_t reference,
                         struct store_merge_clock *clock, double wall, bool *found)
{
    size_t n = 0;
    struct store_clock_fit fit;
    struct store_clock_point *p = malloc((x->used + 1) * sizeof *p);
    if (!p)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->places; i++) {
        const struct collective *c = &x->table[i];
        if (!c->ranks || c->seen != c->ranks) /* every rank, each once */
            continue;
        const struct side *s = &c->side[a], *r = &c->side[reference];
        if (s->least != INT64_MAX && r->least != INT64_MAX)
            p[n++] = (struct store_clock_point){.at = s->end,
                                                .offset = r->end - s->end,
                                                .low = r->start - s->end,
                                                .high = r->end - s->start,
                                                .least = c->least};
    }
    *found = n > 0;
    int rc = n ? store_clock_fit(p, n, &fit) : 0;
    free(p);
    if (n && !rc)
        *clock = (struct store_merge_clock){.how = STORE_MERGE_BY_COLLECTIVES,
                                            .offset = fit.offset,
                                            .pivot = fit.pivot,
                                            .drift = fit.drift,
                                            .error = fit.error,
                                            .bound = fit.bound,
                                            .wall = isnan(wall) ? NAN : (double)fit.offset - wall,
                                            .matched = fit.matched};
    return rc;
}

static void find_machines(struct merge *m)
{
    m->machines = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct merge_source *s = &m->source[i];
        s->machine = m->machines;
        for (size_t k = 0; k < i; k++) {
            const struct merge_source *o = &m->source[k];
            bool wall = s->anchor_wall != STORE_ABSENT && o->anchor_wall != STORE_ABSENT;
            if (s->boot[0] && !strcmp(s->boot, o->boot) &&
                (!wall || llabs(s->anchor_wall - o->anchor_wall) < SAME_WALL_NS)) {
                s->machine = o->machine;
                break;
            }
        }
        m->machines += s->machine == m->machines;
    }
}

static struct store_merge_clock wall_clock(const struct merge_source *s,
                                           const struct merge_source *reference)
{
    struct store_merge_clock c = {.how = STORE_MERGE_NONE, .error = NAN, .bound = NAN, .wall = NAN};
    if (s->anchor_wall != STORE_ABSENT && reference->anchor_wall != STORE_ABSENT) {
        c.how = STORE_MERGE_WALL;
        c.offset = s->anchor_wall - reference->anchor_wall;
    }
    return c;
}

int merge_align(struct merge *m)
{
    struct matches x = {.m = m};
    int rc = 0;
    find_machines(m);
    if (m->machines > 1)
        rc = read_collectives(&x);
    for (size_t a = 0; a < m->machines && rc == 0; a++) {
        struct store_merge_clock clock = {.how = STORE_MERGE_SAME, .wall = NAN};
        size_t first = 0;
        bool found = false;
        while (m->source[first].machine != a)
            first++;
        if (a > 0) {
            clock = wall_clock(&m->source[first], &m->source[0]);
            rc = align_machine(&x, a, 0, &clock,
                               clock.how == STORE_MERGE_WALL ? (double)clock.offset : NAN, &found);
        }
        for (size_t i = first; i < m->count; i++)
            if (m->source[i].machine == a)
                m->source[i].clock = clock;
    }
    for (size_t i = 0; x.table && i < x.places; i++)
        free(x.table[i].side);
    free(x.table);
    return rc;
}
