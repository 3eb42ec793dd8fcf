/* SPDX-License-Identifier: Apache-2.0
 *
 * Every step as a point of a trend (pictures.h). A long run has more steps than a picture has
 * columns: then neighbours of a lane are one point, the same number of them all over the run.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/radix.h"
#include "analyzers/steps/analyzer.h"

static bool is_ended(const struct an_step *s)
{
    return s->end != STORE_ABSENT && s->end >= s->start;
}

static size_t points_of(const struct an_context *c, size_t each)
{
    size_t points = 0;
    for (size_t k = 0; k < c->lane_count; k++) {
        size_t ended = 0;
        for (size_t i = c->lane[k].first; i < c->lane[k].first + c->lane[k].count; i++)
            ended += is_ended(&c->step[i]);
        points += (ended + each - 1) / each;
    }
    return points;
}

/* Sums of the steps that become one point. Those that count decide; where none does, all of them.
 */
struct group {
    const struct an_step *first;
    int64_t steps, counted, with_tokens, detailed;
    double ns, worst_ns, tokens, tokens_ns, class_ns[AN_CLASS_COUNT];
    const char *excluded;
};

static void group_add(struct group *g, const struct an_step *s)
{
    double ns = (double)an_step_ns(s);
    if (!g->steps++)
        g->first = s;
    if (!s->excluded && !g->counted) /* the first that counts: what was left out so far does not */
        *g = (struct group){.first = g->first, .steps = g->steps};
    g->counted += !s->excluded;
    if (s->excluded && g->counted)
        return;
    g->excluded = s->excluded;
    g->ns += ns;
    g->worst_ns = ns > g->worst_ns ? ns : g->worst_ns;
    if (s->tokens != STORE_ABSENT && ns > 0) {
        g->with_tokens++;
        g->tokens += (double)s->tokens;
        g->tokens_ns += ns;
    }
    if (s->detailed) {
        g->detailed++;
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            g->class_ns[k] += (double)s->class_ns[k];
    }
}

static struct an_step_point point_of(const struct an_context *c, int64_t rank,
                                     const struct group *g)
{
    int64_t of = g->counted ? g->counted : g->steps;
    struct an_step_point p = {.rank = rank,
                              .index = g->first->index,
                              .steps = g->steps,
                              .start_s = (double)an_time_sub(g->first->start, c->t->t0) / 1e9,
                              .ms = g->ns / (double)of / 1e6,
                              .worst_ms = g->worst_ns / 1e6,
                              .tokens_per_s = g->with_tokens ? g->tokens / g->tokens_ns * 1e9 : NAN,
                              .excluded = g->excluded,
                              .detailed = g->detailed > 0};
    for (int k = 0; k < AN_CLASS_COUNT && g->detailed; k++)
        p.class_ms[k] = g->class_ns[k] / (double)g->detailed / 1e6;
    return p;
}

static int rank_order(const void *x, const void *y)
{
    const struct an_pair *a = x, *b = y;
    return a->key != b->key ? (a->key < b->key ? -1 : 1)
                            : (a->value > b->value) - (a->value < b->value);
}

static int step_points_run(struct an_context *c)
{
    size_t each = 1, count = 0, n;
    while ((n = points_of(c, each)) > AN_STEP_POINTS_MOST && each < c->step_count)
        each *= 2;
    struct an_step_point *point = an_arena_zero(c->a, n, sizeof *point);
    struct an_pair *lanes = an_arena_zero(c->work, c->lane_count, sizeof *lanes);
    if (!point || !lanes)
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < c->lane_count; k++)
        lanes[k] = (struct an_pair){.key = an_pair_key(c->lane[k].rank), .value = k};
    qsort(lanes, c->lane_count, sizeof *lanes, rank_order);
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_lane *l = &c->lane[lanes[k].value];
        struct group g = {0};
        for (size_t i = l->first; i < l->first + l->count; i++) {
            if (!is_ended(&c->step[i]))
                continue;
            group_add(&g, &c->step[i]);
            if ((size_t)g.steps == each) {
                point[count++] = point_of(c, l->rank, &g);
                g = (struct group){0};
            }
        }
        if (g.steps)
            point[count++] = point_of(c, l->rank, &g);
    }
    c->r->step_points = point;
    c->r->step_point_count = count;
    return 0;
}

static void step_points_absent(struct an_context *c, const char *reason)
{
    (void)c; /* no row: the verdict says why there are no steps */
    (void)reason;
}

const struct an_analyzer an_step_points = {"step_points", "every step as a point of a trend",
                                           AN_INPUT_STEPS, step_points_run, step_points_absent};
