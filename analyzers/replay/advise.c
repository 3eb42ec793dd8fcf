/* SPDX-License-Identifier: Apache-2.0
 *
 * Two analyzers: "replay" replays the dependency graph, says how far that misses the run and what
 * the longest paths consist of; "advice" replays edits: those that the user asked for, else those
 * of the findings, each and all together.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings.h"
#include "analyzers/replay/what_if_run.h"

#define ERROR_TOLD 2.0     /* %: a replay error that large wants a reason */
#define GAIN_LEAST 0.00005 /* % of the step per 1 %: rows below are left out */

static void all_absent(struct an_context *c, const char *reason)
{
    struct an_advice *a = &c->r->advice;
    a->reason = reason;
    a->step_ms = a->base_error_pct = a->unmatched_pct = a->think_pct = a->held_pct =
        a->stretch_low_pct = a->stretch_high_pct = an_num_none(reason);
    a->cores.cores = a->cores.wanted = a->cores.used = a->cores.others = a->cores.short_pct =
        a->cores.slowdown_pct = an_num_none(reason);
    c->r->trust.replay_error_pct = an_num_none(reason);
}

/* ---- the replay as it is ------------------------------------------------------------------------------------------------------- */

static int rooms_of(struct an_context *c, struct an_what_if_state *s)
{
    const struct an_replay *r = s->r;
    for (size_t i = 0; i < r->step_count; i++)
        s->steps += an_replay_counts(&r->step[i]);
    s->b = an_arena_zero(c->work, s->steps + 1, sizeof *s->b);
    s->e = an_arena_zero(c->work, s->steps + 1, sizeof *s->e);
    return s->b && s->e ? an_times_new(r, &s->base) : TACHO_ENOMEM;
}

static int base_of(struct an_context *c, struct an_what_if_state *s)
{
    const struct an_replay *r = s->r;
    double *block = malloc((r->step_count + 1) * sizeof *block), sum = 0, real = 0;
    size_t n = 0;
    if (!block)
        return TACHO_ENOMEM;
    an_replay_run(r, NULL, &s->base);
    for (size_t i = 0; i < r->step_count; i++)
        if (an_replay_counts(&r->step[i])) {
            sum += s->b[n++] = (double)an_replay_step_ns(r, &r->step[i], &s->base);
            real += (double)an_step_ns(&c->step[r->step[i].step]);
        }
    s->base_pct = real > 0 ? 100 * (sum / real - 1) : NAN;
    n = an_replay_blocks(r, NULL, -1, block);
    s->median_ms = n ? an_quantile_of(block, n, 0.5) / 1e6 : NAN;
    free(block);
    return 0;
}

/* Steps differ by who got the cores when: neither the graph nor the steps before tell. */
static const char *disturbed(struct an_context *c, const struct an_core_use *x)
{
    if (!an_cores_short(x))
        return NULL;
    const char *others = x->others.valid && x->others.value >= 0.05
                             ? an_arena_format(c->a, ", other programs' %s",
                                               an_number_words(c->a, x->others.value, 2))
                             : "";
    return an_arena_format(c->a,
                           "more threads were ready than there are cores for %.0f %% of the time "
                           "(its own want %s%s; there are "
                           "%.0f): who gets them when differs from step to step",
                           x->short_pct.value, an_number_words(c->a, x->wanted.value, 2), others,
                           x->cores.value);
}

/* How far the run differs from itself, which may be why the replay misses it. */
static int tell_stretches(struct an_context *c, const struct an_what_if_state *s)
{
    struct an_advice *a = &c->r->advice;
    struct an_interval x;
    size_t length;
    int rc = an_what_if_stretches(s, &length, &x);
    if (rc)
        return rc;
    a->stretch_steps = (int64_t)length;
    bool any = length < s->steps;
    double most = any ? 100 * fmax(1 - x.low, x.high - 1) : 0;
    struct an_trust *t = &c->r->trust;
    if (!t->replay_error_because && t->replay_error_pct.valid &&
        t->replay_error_pct.value >= ERROR_TOLD && most >= t->replay_error_pct.value)
        t->replay_error_because = an_arena_format(
            c->a,
            "the steps differ: %zu in a row by up to %.1f %% from all of them, so the medians of "
            "the odd and of the even ones differ as well",
            length, most);
    a->stretch_low_pct =
        any ? an_num(100 * (x.low - 1)) : an_num_none("too few steps to compare stretches of them");
    a->stretch_high_pct = any ? an_num(100 * (x.high - 1)) : a->stretch_low_pct;
    return 0;
}

static void tell(struct an_context *c, struct an_what_if_state *s)
{
    struct an_advice *a = &c->r->advice;
    const struct an_replay *r = s->r;
    double time = 0;
    for (size_t i = 0; i < r->step_count; i++)
        time += (double)an_step_ns(&c->step[r->step[i].step]);
    bool checked = !isnan(s->error.pct);
    const char *few = "no lane has four consecutive steps with all their ranges: two odd and two "
                      "even ones are compared";
    a->steps = (int64_t)r->step_count;
    a->nodes = (int64_t)r->node_count;
    a->step_ms = an_num(s->median_ms);
    a->base_error_pct = an_num(s->base_pct);
    a->unmatched_pct = checked ? an_num(s->error.unmatched_pct) : an_num_none(few);
    a->think_pct =
        time > 0 ? an_num(100 * (double)r->think_ns / time) : an_num_none("the steps take no time");
    a->held_pct =
        time > 0 ? an_num(100 * (double)r->held_ns / time) : an_num_none("the steps take no time");
    a->cores = s->cores;
    c->r->trust.replay_error_pct = checked ? an_num(fabs(s->error.pct)) : an_num_none(few);
    c->r->trust.replay_error_because = disturbed(c, &s->cores);
}

/* ---- sensitivity ---------------------------------------------------------------------------------------------------------------- */

static int row_order(const void *x, const void *y)
{
    const struct an_sensitivity_row *a = x, *b = y;
    return a->gain_pct != b->gain_pct ? (a->gain_pct < b->gain_pct) - (a->gain_pct > b->gain_pct)
                                      : strcmp(a->key, b->key);
}

/* All frames, one lane each: their replayed length and how many steps that is. */
static double frames_ns(const struct an_what_if_state *s, double *steps)
{
    double sum = 0;
    *steps = 0;
    for (size_t f = 0; f < s->r->frame_count; f++) {
        const struct an_replay_frame *x = &s->r->frame[f];
        const struct an_replay_step *first = &s->r->step[x->step_first];
        for (size_t i = x->step_first; i < x->step_first + first->of; i++)
            sum += (double)an_replay_step_ns(s->r, &s->r->step[i], &s->base);
        *steps += first->of;
    }
    return sum;
}

static int sensitivities(struct an_context *c, struct an_what_if_state *s)
{
    struct an_advice *a = &c->r->advice;
    int64_t ns[AN_ROWS_MOST] = {0};
    double steps, whole = frames_ns(s, &steps), all = (double)s->r->step_count;
    struct an_sensitivity_row *rows = an_arena_zero(c->a, s->rows.count + 1, sizeof *rows);
    if (!rows || an_sensitivity(s->r, &s->base, &s->rows, ns))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < s->rows.count && whole > 0; i++) {
        double path = (double)ns[i], gain = 100 * (whole / (whole - 0.01 * path) - 1);
        if (!(gain >= GAIN_LEAST))
            continue;
        rows[a->row_count++] = (struct an_sensitivity_row){
            .key = s->rows.row[i].key,
            .path_ms = path / steps / 1e6,
            .path_pct = 100 * path / whole,
            .gain_pct = gain,
            .work_ms = i == s->rows.dispatch ? an_num_none("latencies are no work of their own")
                                             : an_num((double)s->rows.row[i].own_ns / all / 1e6)};
    }
    if (a->row_count)
        qsort(rows, a->row_count, sizeof *rows, row_order);
    a->rows = rows;
    return 0;
}

static int replaying_run(struct an_context *c)
{
    struct an_what_if_state *s = an_arena_zero(c->work, 1, sizeof *s);
    const char *why = NULL;
    if (!s)
        return TACHO_ENOMEM;
    int rc = an_replay_of(c, &s->r, &why);
    if (rc || !s->r) {
        all_absent(c, why ? why : "nothing to replay");
        return rc;
    }
    if ((rc = rooms_of(c, s)) || (rc = an_replay_odd_even(s->r, &s->base, &s->error)) ||
        (rc = base_of(c, s)) || (rc = an_rows_of(s->r, &s->rows)) ||
        (rc = an_shares_of(s->r, &s->base, &s->shares, &s->cores)))
        return rc;
    if (!(s->median_ms > 0) || isnan(s->base_pct)) {
        all_absent(c, "the replayed steps take no time");
        return 0;
    }
    tell(c, s);
    if ((rc = tell_stretches(c, s)))
        return rc;
    s->none = an_what_if_none(c, s);
    if ((rc = sensitivities(c, s)))
        return rc;
    s->edited = s->base; /* edits replay into the same arrays */
    s->base = (struct an_times){NULL, NULL};
    s->own = an_arena_zero(c->work, s->r->g->node_count, sizeof *s->own);
    c->what_if = s;
    return s->own ? 0 : TACHO_ENOMEM;
}

const struct an_analyzer an_replaying = {
    "replay", "the dependency graph replayed: its error, what the step is sensitive to",
    AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL, replaying_run, all_absent};

/* ---- advice --------------------------------------------------------------------------------------------------------------------- */

/* Replays what the user asked for. */
static int asked(struct an_context *c)
{
    struct an_advice *a = &c->r->advice;
    struct an_edit edit[AN_EDITS_MOST];
    struct tacho_error err;
    size_t n;
    int rc = an_edits_parse(c->o->what_if, edit, &n, NULL, &err);
    if (rc)
        return 0; /* the caller has looked at them */
    if (!(a->edits = an_arena_zero(c->a, n, sizeof *a->edits)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n && !rc; i++, a->edit_count++)
        rc = an_what_if_of(c, edit[i].text, &a->edits[i]);
    return rc || n < 2 ? rc : an_what_if_of(c, c->o->what_if, &a->together);
}

static double gain_of(const struct an_what_if *w)
{
    return w->gain.expected.valid ? w->gain.expected.value
           : w->gain.high.valid   ? w->gain.high.value
                                  : -1;
}

static int gain_order(const void *x, const void *y)
{
    double a = gain_of(x), b = gain_of(y);
    return (a < b) - (a > b);
}

/* The edit takes away all that the change could at best: no value is expected of it. */
static void only_bound(struct an_what_if *w)
{
    const char *why = "how much of it the change takes away is not in the run";
    if (w->reason || w->ceiling)
        return;
    w->ceiling = why;
    w->step_ms = w->step_high_ms = w->gain.low = w->gain.expected = an_num_none(why);
    w->gain.ceiling = true;
}

/* Replays the findings' proposals, and all of them as one. */
static int proposed(struct an_context *c)
{
    struct an_advice *a = &c->r->advice;
    const char *all = "";
    bool bound = false;
    int rc = 0;
    if (!(a->edits = an_arena_zero(c->a, c->r->finding_count + 1, sizeof *a->edits)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->r->finding_count && !rc; i++) {
        const struct an_finding *f = &c->r->findings[i];
        if (!f->what_if)
            continue;
        rc = an_what_if_of(c, f->what_if, &a->edits[a->edit_count]);
        if (a->edits[a->edit_count].reason)
            continue;
        if (f->bound)
            only_bound(&a->edits[a->edit_count]);
        bound = bound || f->bound;
        a->edits[a->edit_count++].of = f->id;
        all = an_arena_format(c->a, "%s%s%s", all, *all ? "," : "", f->what_if);
    }
    if (!rc && a->edit_count > 1)
        rc = an_what_if_of(c, all, &a->together);
    if (a->edit_count > 1 && bound)
        only_bound(&a->together);
    if (a->edit_count)
        qsort(a->edits, a->edit_count, sizeof *a->edits, gain_order);
    return rc;
}

static int advising_run(struct an_context *c)
{
    if (c->r->advice.reason)
        return 0;
    return c->o->what_if ? asked(c) : proposed(c);
}

static void advising_absent(struct an_context *c, const char *reason)
{
    (void)c;
    (void)reason; /* "replay" needs the same and has said why */
}

const struct an_analyzer an_advising = {"advice", "what changes of the graph would do to the step",
                                        AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
                                        advising_run, advising_absent};
