/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of a step and their frontier (DESIGN 5). On a thread a stage is the outermost range
 * that says what it is, and what lies before it belongs to it; on a device compute is told apart by
 * the host call that launched it: below a range of the optimizer, on another thread than that of
 * the step (autograd runs backward there), else forward. Time that comes again (micro-steps) adds
 * up. F_s is the longest cumulative time of any rank at the end of stage s: its increments sum to
 * the slowest rank's step, in integers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_build.h"

#define SEED 0x66726f6e74696572u

const char *an_stage_key(enum an_step_stage s)
{
    static const char *const keys[] = {
#define STAGE_KEY(name, key) key,
        AN_STAGE_MAP(STAGE_KEY)
#undef STAGE_KEY
    };
    return s < AN_STAGE_COUNT ? keys[s] : "";
}

bool an_stage_named(const char *key, enum an_step_stage *out)
{
    for (*out = 0; *out < AN_STAGE_COUNT; (*out)++)
        if (!strcmp(key, an_stage_key(*out)))
            return true;
    return false;
}

/* ---- which stage ---------------------------------------------------------------------------------------------------------- */

/* By the first word of a name; AN_STAGE_COUNT: none. */
static enum an_step_stage stage_of_name(const char *name)
{
    static const struct {
        const char *word;
        enum an_step_stage stage;
    } words[] = {{"forward", AN_STAGE_FORWARD},          {"fwd", AN_STAGE_FORWARD},
                 {"backward", AN_STAGE_BACKWARD},        {"bwd", AN_STAGE_BACKWARD},
                 {"optimizer", AN_STAGE_OPTIMIZER},      {"optim", AN_STAGE_OPTIMIZER},
                 {"optimizer_step", AN_STAGE_OPTIMIZER}, {"forward_step", AN_STAGE_FORWARD},
                 {"backward_step", AN_STAGE_BACKWARD}};
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && !strncasecmp(name, words[i].word, n))
            return words[i].stage;
    return AN_STAGE_COUNT;
}

static enum an_step_stage stage_of_pass(const char *pass)
{
    return !strcmp(pass, "forward")                                  ? AN_STAGE_FORWARD
           : !strcmp(pass, "backward") || !strcmp(pass, "recompute") ? AN_STAGE_BACKWARD
           : !strcmp(pass, "optimizer")                              ? AN_STAGE_OPTIMIZER
                                                                     : AN_STAGE_COUNT;
}

static enum an_step_stage named(const struct an_stage_map *x, size_t slice)
{
    uint32_t name = x->c->t->slice.name[slice];
    return name < x->c->t->string_count ? (enum an_step_stage)x->name[name] : AN_STAGE_COUNT;
}

static enum an_step_stage stage_of(const struct an_stage_map *x, size_t slice)
{
    const struct an_trace *t = x->c->t;
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[slice]);
    if (an_role_is_input(an_slice_role(t, slice)))
        return AN_STAGE_INPUT;
    switch (an_slice_role(t, slice)) {
    case AN_ROLE_COMM:
    case AN_ROLE_COMM_WAIT:
        return AN_STAGE_COMM;
    case AN_ROLE_WORK:
        return d ? stage_of_pass(d->pass) : AN_STAGE_COUNT;
    default:
        return named(x, slice);
    }
}

/* ---- a step on a thread ------------------------------------------------------------------------------------------------------ */

static int64_t without_phases(const struct an_lane *l, int64_t from, int64_t to)
{
    return an_time_sub(an_time_sub(to, from), an_spans_within(l->cut, l->cut_count, from, to));
}

static int keep(struct an_stage_span **at, size_t *count, size_t *room, int64_t start, int64_t end,
                enum an_step_stage stage)
{
    if (an_grow(at, room, *count + 1, sizeof **at))
        return TACHO_ENOMEM;
    (*at)[(*count)++] = (struct an_stage_span){start, end, stage};
    return 0;
}

int an_stage_spans(const struct an_stage_map *x, const struct an_step *s,
                   struct an_stage_span **out, size_t *count, size_t *room)
{
    const struct an_trace *t = x->c->t;
    const struct an_lane *l = &x->c->lane[s->lane];
    const struct an_track *k = &t->track[l->track];
    int64_t at = s->start;
    for (size_t i = an_slice_seek(t, k, s->start);
         i < k->slice_first + k->slice_count && t->slice.start[i] < s->end; i++) {
        if (i == s->slice || t->slice.start[i] < at || t->slice.dur[i] == AN_OPEN)
            continue;
        enum an_step_stage stage = stage_of(x, i);
        if (stage == AN_STAGE_COUNT)
            continue;
        int64_t end = an_slice_end(t, i) < s->end ? an_slice_end(t, i) : s->end;
        if (keep(out, count, room, at, end, stage))
            return TACHO_ENOMEM;
        at = end;
    }
    return keep(out, count, room, at, s->end, AN_STAGE_OTHER);
}

static void on_thread(const struct an_lane *l, const struct an_stage_span *span, size_t n,
                      int64_t ns[AN_STAGE_COUNT])
{
    for (size_t i = 0; i < n; i++)
        ns[span[i].stage] += without_phases(l, span[i].start, span[i].end);
}

/* ---- a step on a device ------------------------------------------------------------------------------------------------------ */

static bool on_track(const struct an_trace *t, uint32_t track, size_t slice)
{
    const struct an_track *k = &t->track[track];
    return slice >= k->slice_first && slice - k->slice_first < k->slice_count;
}

/* By what launched it; AN_STAGE_COMPUTE: nothing tells. */
enum an_step_stage an_stage_of_op(const struct an_stage_map *x, const struct an_lane *l, size_t op)
{
    const struct an_trace *t = x->c->t;
    uint32_t launch = x->c->gpu->op.launch[op];
    int levels = AN_DEPTH_MAX;
    if (launch == AN_NONE)
        return AN_STAGE_COMPUTE;
    for (uint32_t p = launch; p != AN_NONE && levels--; p = t->slice.parent[p])
        if (named(x, p) != AN_STAGE_COUNT && an_slice_open_at(t, p, launch))
            return named(x, p);
    return l->track == AN_NONE             ? AN_STAGE_COMPUTE
           : on_track(t, l->track, launch) ? AN_STAGE_FORWARD
                                           : AN_STAGE_BACKWARD;
}

static void on_device(const struct an_stage_map *x, const struct an_step *s,
                      int64_t ns[AN_STAGE_COUNT])
{
    const struct an_devices *g = x->c->gpu;
    const struct an_lane *l = &x->c->lane[s->lane];
    const struct an_device *d = &g->device[l->device];
    int64_t at = s->start, rest = an_step_ns(s);
    for (size_t i = an_device_op_seek(g, d, s->start);
         i < d->first + d->count && g->op.start[i] < s->end; i++) {
        int64_t from = g->op.start[i] > at ? g->op.start[i] : at,
                end = g->op.end[i] < s->end ? g->op.end[i] : s->end;
        if (!(1u << g->op.class[i] & AN_DEVICE_COMPUTE_MASK) || end <= from)
            continue;
        ns[an_stage_of_op(x, l, i)] += without_phases(l, from, end);
        at = end;
    }
    ns[AN_STAGE_INPUT] += s->class_ns[AN_CLASS_INPUT];
    ns[AN_STAGE_COMM] += s->class_ns[AN_CLASS_COMM];
    if (!ns[AN_STAGE_BACKWARD]) { /* one thread launches everything */
        ns[AN_STAGE_COMPUTE] += ns[AN_STAGE_FORWARD];
        ns[AN_STAGE_FORWARD] = 0;
    }
    for (int k = 0; k < AN_STAGE_COUNT; k++)
        rest -= ns[k];
    ns[AN_STAGE_OTHER] = rest;
}

int an_stage_map_of(struct an_context *c, struct an_stage_map *out)
{
    *out = (struct an_stage_map){.c = c, .name = an_arena_zero(c->work, c->t->string_count + 1, 1)};
    for (size_t i = 0; out->name && i < c->t->string_count; i++)
        out->name[i] = (uint8_t)stage_of_name(c->t->string[i]);
    return out->name ? 0 : TACHO_ENOMEM;
}

static int fill(struct an_context *c, struct an_rank_matrix *m)
{
    struct an_stage_map x;
    struct an_stage_span *span = NULL;
    size_t room = 0;
    int rc = an_stage_map_of(c, &x);
    for (int k = 0; k < AN_STAGE_COUNT; k++)
        if (!(m->stage[k] = an_arena_zero(c->work, m->ranks * m->steps + 1, sizeof **m->stage)))
            return TACHO_ENOMEM;
    for (size_t cell = 0; cell < m->ranks * m->steps && !rc; cell++) {
        const struct an_step *s = &c->step[m->step[cell]];
        const struct an_lane *l = &c->lane[s->lane];
        int64_t ns[AN_STAGE_COUNT] = {0};
        size_t n = 0;
        if (l->device != AN_NONE)
            on_device(&x, s, ns);
        else if (!(rc = an_stage_spans(&x, s, &span, &n, &room)))
            on_thread(l, span, n, ns);
        for (int k = 0; k < AN_STAGE_COUNT; k++)
            m->stage[k][cell] = (double)ns[k];
    }
    free(span);
    return rc;
}

/* ---- the frontier -------------------------------------------------------------------------------------------------------------- */

struct sums {
    int64_t increment[AN_STAGE_COUNT];
    double frontier[AN_STAGE_COUNT], behind[AN_STAGE_COUNT];
    size_t *lead[AN_STAGE_COUNT]; /* steps in which a row is at the frontier */
    double *scale;                /* ns: median step of each column */
};

static int add_up(struct an_context *c, const struct an_rank_matrix *m, struct sums *x)
{
    double *total = an_arena_zero(c->work, m->ranks, sizeof *total),
           *work = an_arena_zero(c->work, m->ranks, sizeof *work);
    x->scale = an_arena_zero(c->work, m->steps, sizeof *x->scale);
    for (int k = 0; k < AN_STAGE_COUNT; k++)
        if (!(x->lead[k] = an_arena_zero(c->work, m->ranks, sizeof **x->lead)))
            return TACHO_ENOMEM;
    if (!total || !work || !x->scale)
        return TACHO_ENOMEM;
    for (size_t s = 0; s < m->steps; s++) {
        double before = 0;
        memset(total, 0, m->ranks * sizeof *total);
        for (int k = 0; k < AN_STAGE_COUNT; k++) {
            size_t first = 0;
            for (size_t r = 0; r < m->ranks; r++) {
                total[r] += m->stage[k][r * m->steps + s];
                first = total[r] > total[first] ? r : first;
            }
            memcpy(work, total, m->ranks * sizeof *work);
            double middle = an_quantile_of(work, m->ranks, 0.5);
            x->increment[k] += (int64_t)(total[first] - before);
            x->frontier[k] += total[first];
            x->behind[k] += total[first] - middle;
            x->lead[k][first]++;
            before = total[first];
            x->scale[s] = middle;
        }
    }
    return 0;
}

/* The first stage in which some rank is longer than its peers. Communication is where the others
 * wait: it is not looked at. */
static int name_delay(struct an_context *c, const struct an_rank_matrix *m, const struct sums *x,
                      struct an_frontier *f)
{
    size_t rows = 0, cells = m->ranks * m->steps;
    double *y = malloc(AN_STAGE_COUNT * cells * sizeof *y);
    struct an_excess *e = malloc(AN_STAGE_COUNT * m->ranks * sizeof *e);
    enum an_step_stage of[AN_STAGE_COUNT];
    int rc = y && e ? 0 : TACHO_ENOMEM;
    f->stage = AN_STAGE_COUNT;
    for (int k = 0; k < AN_STAGE_COUNT && !rc; k++)
        if (k != AN_STAGE_COMM) {
            rc = an_excess_of_peers(m->stage[k], m->ranks, m->steps, x->scale, y + rows * m->steps);
            of[rows / m->ranks] = (enum an_step_stage)k;
            rows += m->ranks;
        }
    rc = rc ? rc : an_excess_test(y, rows, m->steps, AN_RANKS_MARGIN_PCT, SEED, e);
    const struct an_excess *best = NULL;
    for (size_t i = 0; i < rows && !rc; i++) {
        if (best && of[i / m->ranks] != f->stage)
            break;
        if (!e[i].significant || (best && e[i].estimate <= best->estimate))
            continue;
        best = &e[i];
        f->stage = of[i / m->ranks];
        f->rank = c->lane[m->lane[i % m->ranks]].rank;
    }
    const char *none = "no rank takes longer than its peers in any stage";
    f->delay_ms = f->delay_pct = f->delay_low_pct = an_num_none(none);
    if (best) {
        double *work = y; /* no longer needed */
        memcpy(work, x->scale, m->steps * sizeof *work);
        f->delay_pct = an_num(best->estimate);
        f->delay_low_pct = an_num(best->low);
        f->delay_ms = an_num(best->estimate / 100 * an_quantile_of(work, m->steps, 0.5) / 1e6);
    }
    free(y);
    free(e);
    return rc;
}

int an_ranks_frontier(struct an_context *c, struct an_rank_matrix *m)
{
    struct an_frontier *f = &c->r->ranks.frontier;
    struct sums x = {.scale = NULL};
    struct an_frontier_row *row = an_arena_zero(c->a, AN_STAGE_COUNT, sizeof *row);
    int rc = row ? fill(c, m) : TACHO_ENOMEM;
    rc = rc ? rc : add_up(c, m, &x);
    if (rc)
        return rc;
    f->row = row;
    for (int k = 0; k < AN_STAGE_COUNT; k++) {
        size_t lead = 0;
        double steps = (double)m->steps;
        bool is_used = k == AN_STAGE_OTHER;
        f->increment_ns[k] = x.increment[k];
        f->slowest_ns += x.increment[k];
        for (size_t r = 0; r < m->ranks; r++)
            lead = x.lead[k][r] > x.lead[k][lead] ? r : lead;
        for (size_t i = 0; i < m->ranks * m->steps && !is_used; i++)
            is_used = m->stage[k][i] > 0;
        if (is_used)
            row[f->row_count++] =
                (struct an_frontier_row){.stage = (enum an_step_stage)k,
                                         .frontier_ms = x.frontier[k] / steps / 1e6,
                                         .increment_ms = (double)x.increment[k] / steps / 1e6,
                                         .behind_ms = x.behind[k] / steps / 1e6,
                                         .rank = c->lane[m->lane[lead]].rank,
                                         .lead_pct = 100 * (double)x.lead[k][lead] / steps};
    }
    bool stages = c->exchanges && c->exchanges->peers;
    if (m->steps >= AN_RANKS_STEPS_LEAST && !stages)
        return name_delay(c, m, &x, f);
    const char *few = stages ? "the ranks form a pipeline: its stages differ by design"
                             : an_arena_format(c->a, "%zu compared steps: it takes %d", m->steps,
                                               AN_RANKS_STEPS_LEAST);
    f->stage = AN_STAGE_COUNT;
    f->delay_ms = f->delay_pct = f->delay_low_pct = an_num_none(few);
    return 0;
}
