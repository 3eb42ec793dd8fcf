/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of several machines.
 *
 * Files of one boot of one machine have one CLOCK_MONOTONIC. Between machines the anchors of each file (CLOCK_REALTIME read
 * back to back with CLOCK_MONOTONIC) give an offset that is as good as the machines' wall clocks: its error is not known.
 * Better is a collective in which every rank takes part and which no rank can leave before all have entered (all-reduce,
 * all-gather, reduce-scatter, all-to-all, barrier): it ends on all machines at nearly one time, and for certain no rank ends it
 * before the last one has begun it.
 *
 * With E the earliest end of a matched collective on a machine, S the latest start there, `a` the machine and `r` the
 * reference: ends       offset = median over collectives of E_r - E_a. Drift is the median of the slopes between pairs of
 * collectives (Theil-Sen), applied where it is beyond four of its standard errors and below 0.1 %. causality  S_r - E_a <=
 * offset <= E_r - S_a for each collective: the tightest of both sides is an interval that holds the offset for certain. Only
 * the half of the collectives with the shortest last participant is used for the ends: a long transfer ends unevenly. Error of
 * the ends: 1.96 standard errors of the median, plus what a constant difference of the ends would hide: the larger of the
 * shortest participant's time and four times the scatter, for late leaving is seldom even. The middle of the interval is taken
 * instead where half of its width is less. Both get the drift's own uncertainty over the run. `bound` is the interval's: no
 * event can be off by more.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/merge_private.h"

#define SAME_WALL_NS  10000000ll /* files of one boot: their anchors agree, unless they are of different time namespaces */
#define POINTS_MAX    400        /* pairs of them are looked at */
#define DRIFT_POINTS  16
#define DRIFT_SPAN_NS 1000000000ll
#define DRIFT_MOST    1e-3
#define MEDIAN_FACTOR 1.2533 /* standard error of a median, in standard errors of a mean, of normal values */
#define MAD_FACTOR    1.4826
#define HIDDEN_FACTOR \
    4.0 /* scatters: on a busy machine a rank that leaves late in most collectives shifted the median by 2.8 of them */

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
    if (c->drift == 0)
        return (int64_t)((uint64_t)t + (uint64_t)c->offset);
    double more = c->drift * (double)(t - c->pivot);
    return (int64_t)((uint64_t)t + (uint64_t)c->offset) + (int64_t)(more < 0 ? more - 0.5 : more + 0.5);
}

/* ---- collectives ----------------------------------------------------------------------------------------------------------- */

struct side {                  /* of one machine */
    int64_t end, start, least; /* earliest end, latest start, shortest participant */
};

struct collective {
    int64_t communicator, sequence, ranks; /* ranks 0: an empty place of the table */
    int64_t op, seen;
    struct side *side; /* [machines]; least INT64_MAX: none */
};

struct matches {
    struct merge *m;
    struct merge_source *s;
    struct collective *table; /* open addressing */
    size_t places, used;
    int64_t stride; /* of the sequence numbers that are looked at */
};

static uint64_t place_of(const struct collective *c)
{
    uint64_t h =
        (uint64_t)c->communicator * 0x9e3779b97f4a7c15u ^ (uint64_t)c->sequence * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)c->op;
    return h ^ h >> 29;
}

static struct collective *find(struct matches *x, const struct collective *key)
{
    size_t i = place_of(key) & (x->places - 1);
    for (; x->table[i].ranks; i = (i + 1) & (x->places - 1)) {
        struct collective *c = &x->table[i];
        if (c->communicator == key->communicator && c->sequence == key->sequence && c->op == key->op && c->ranks == key->ranks)
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
    struct collective key = {
        .sequence = word(&cells[2]), .communicator = word(&cells[3]), .ranks = word(&cells[4]), .op = word(&cells[5])};
    (void)columns;
    if (start == STORE_ABSENT || dur < 0 || key.sequence < 0 || key.ranks < 2 || __builtin_add_overflow(start, dur, &end))
        return 0;
    while (x->used >= STORE_MERGE_COLLECTIVES) {
        int rc = thin(x);
        if (rc)
            return rc;
    }
    if (key.sequence % x->stride)
        return 0;
    struct collective *c = find(x, &key);
    if (!c->ranks) {
        *c = key;
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
    return 0;
}

static int read_collectives(struct matches *x)
{
    static const char sql[] =
        "SELECT s.start, s.dur, s.correlation, d.communicator, d.ranks, length(d.collective) * 256 + unicode(d.collective) "
        "FROM slice s JOIN detail d ON d.id = s.detail WHERE s.detail IN (SELECT id FROM detail WHERE schema = 'tacho.comm' "
        "AND "
        "collective IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')) ORDER BY s.id";
    int rc = 0;
    x->places = 4 * STORE_MERGE_COLLECTIVES;
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

/* ---- the fit --------------------------------------------------------------------------------------------------------------- */

struct point {
    int64_t at;        /* E of the machine, its own clock */
    int64_t offset;    /* E_r - E_a */
    int64_t low, high; /* S_r - E_a, E_r - S_a */
    int64_t least;     /* shortest participant */
};

static int by_least(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return (x->least > y->least) - (x->least < y->least);
}

static int by_time(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct fit {
    double offset, scatter; /* at the pivot, above the first point's offset; ns */
    double slope, slope_error;
    int64_t pivot, base; /* base: the first point's offset: doubles then hold small numbers */
};

/* Median of the slopes between all pairs of at most POINTS_MAX points, and its standard error. */
static int fit_slope(const struct point *p, size_t n, struct fit *f, double *room)
{
    size_t every = (n + POINTS_MAX - 1) / POINTS_MAX, pairs = 0, points = 0;
    double square = 0;
    for (size_t i = 0; i < n; i += every) {
        double x = (double)(p[i].at - f->pivot);
        square += x * x;
        points++;
        for (size_t k = i + every; k < n; k += every)
            if (p[k].at - p[i].at > (p[n - 1].at - p[0].at) / 8) /* near ones say little */
                room[pairs++] = (double)(p[k].offset - p[i].offset) / (double)(p[k].at - p[i].at);
    }
    if (points < DRIFT_POINTS || !pairs || p[n - 1].at - p[0].at < DRIFT_SPAN_NS)
        return 0;
    double slope = median(room, pairs);
    for (size_t i = 0; i < n; i++)
        room[i] = (double)(p[i].offset - f->base) - slope * (double)(p[i].at - f->pivot);
    double middle = median(room, n);
    for (size_t i = 0; i < n; i++)
        room[i] = fabs(room[i] - middle);
    double error = square > 0 ? MEDIAN_FACTOR * MAD_FACTOR * median(room, n) / sqrt(square) : 0;
    f->slope_error = error;
    f->slope = fabs(slope) > 4 * error && fabs(slope) < DRIFT_MOST ? slope : 0;
    return 0;
}

static void fit_offset(const struct point *p, size_t n, struct fit *f, double *room)
{
    for (size_t i = 0; i < n; i++)
        room[i] = (double)(p[i].offset - f->base) - f->slope * (double)(p[i].at - f->pivot);
    f->offset = median(room, n);
    for (size_t i = 0; i < n; i++)
        room[i] = fabs((double)(p[i].offset - f->base) - f->slope * (double)(p[i].at - f->pivot) - f->offset);
    f->scatter = MAD_FACTOR * median(room, n);
}

/* The interval that causality leaves, from all points. False: nothing is left (the drift is not a line). */
static bool interval(const struct point *p, size_t n, const struct fit *f, double *low, double *high)
{
    *low = -INFINITY;
    *high = INFINITY;
    for (size_t i = 0; i < n; i++) {
        double drifted = f->slope * (double)(p[i].at - f->pivot) + (double)f->base;
        *low = fmax(*low, (double)p[i].low - drifted);
        *high = fmin(*high, (double)p[i].high - drifted);
    }
    return *low <= *high;
}

static int fit(struct point *p, size_t n, struct store_merge_clock *c, double wall)
{
    size_t half = n > 8 ? n / 2 : n, room_of = POINTS_MAX * POINTS_MAX / 2 + n;
    struct fit f = {0};
    double low, high, *room = malloc(room_of * sizeof *room);
    if (!room)
        return TACHO_ENOMEM;
    qsort(p, n, sizeof *p, by_least);
    int64_t least = p[half / 2].least;
    qsort(p, half, sizeof *p, by_time);
    f.pivot = p[0].at + (p[half - 1].at - p[0].at) / 2;
    f.base = p[0].offset;
    fit_slope(p, half, &f, room);
    fit_offset(p, half, &f, room);
    bool certain = interval(p, n, &f, &low, &high);
    double drifted = 1.96 * f.slope_error * (double)(p[half - 1].at - p[0].at) / 2;
    double error = 1.96 * MEDIAN_FACTOR * f.scatter / sqrt((double)half) + fmax((double)least, HIDDEN_FACTOR * f.scatter);
    if (!certain)
        error += low - high;
    else if ((high - low) / 2 <= error) {
        f.offset = (low + high) / 2;
        error = (high - low) / 2;
    } else {
        f.offset = fmin(fmax(f.offset, low), high);
    }
    free(room);
    *c = (struct store_merge_clock){.how = STORE_MERGE_BY_COLLECTIVES,
                                    .offset = f.base + llround(f.offset),
                                    .pivot = f.pivot,
                                    .drift = f.slope,
                                    .error = ceil(error + drifted),
                                    .bound = certain ? ceil(fmax(f.offset - low, high - f.offset) + drifted) : NAN,
                                    .wall = NAN,
                                    .matched = (int64_t)half};
    if (!isnan(wall))
        c->wall = (double)c->offset - wall;
    return 0;
}

/* ---- machines -------------------------------------------------------------------------------------------------------------- */

/* The clock of machine `a`, from collectives that it has in common with the reference's machine. *found: there are some. */
static int align_machine(struct matches *x, size_t a, size_t reference, struct store_merge_clock *clock, double wall,
                         bool *found)
{
    size_t n = 0;
    struct point *p = malloc((x->used + 1) * sizeof *p);
    if (!p)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->places; i++) {
        const struct collective *c = &x->table[i];
        if (!c->ranks || c->seen != c->ranks) /* every rank, each once */
            continue;
        const struct side *s = &c->side[a], *r = &c->side[reference];
        if (s->least == INT64_MAX || r->least == INT64_MAX)
            continue;
        int64_t least = s->least;
        for (size_t k = 0; k < x->m->machines; k++)
            least = c->side[k].least < least ? c->side[k].least : least;
        p[n++] = (struct point){
            .at = s->end, .offset = r->end - s->end, .low = r->start - s->end, .high = r->end - s->start, .least = least};
    }
    *found = n > 0;
    int rc = n ? fit(p, n, clock, wall) : 0;
    free(p);
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
            if (s->boot[0] && !strcmp(s->boot, o->boot) && (!wall || llabs(s->anchor_wall - o->anchor_wall) < SAME_WALL_NS)) {
                s->machine = o->machine;
                break;
            }
        }
        m->machines += s->machine == m->machines;
    }
}

static struct store_merge_clock wall_clock(const struct merge_source *s, const struct merge_source *reference)
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
            rc = align_machine(&x, a, 0, &clock, clock.how == STORE_MERGE_WALL ? (double)clock.offset : NAN, &found);
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
