/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps: which ones count, how long they last, how fast the run is. First, last and compiling steps
 * are left out of statistics and listed; slow ones are kept and listed, because a stall is what the
 * reader looks for.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/stats.h"
#include "analyzers/steps/analyzer.h"
#include "analyzers/steps/phases.h"

#define LAST_LEAST    4   /* with fewer complete steps the last one counts */
#define OUTLIER_SCORE 3.5 /* modified z-score, Iglewicz & Hoaglin 1993 */
#define OUTLIERS_MOST 50
#define GROUPS_MOST   8

/* Last step of a lane that starts no later than `time`, by the device or by the host; NULL: none.
 */
static struct an_step *last_begun(const struct an_context *c, const struct an_lane *l, int64_t time,
                                  bool host)
{
    size_t low = l->first, high = l->first + l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((host ? c->step[middle].host_start : c->step[middle].start) <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low > l->first ? &c->step[low - 1] : NULL;
}

struct an_step *an_step_at(const struct an_context *c, const struct an_lane *l, int64_t time)
{
    struct an_step *s = last_begun(c, l, time, false);
    return s && s->end != STORE_ABSENT && time < s->end ? s : NULL;
}

struct an_step *an_step_at_host(const struct an_context *c, const struct an_lane *l, int64_t time)
{
    struct an_step *s = last_begun(c, l, time, true);
    return s && s->host_end != STORE_ABSENT && time < s->host_end ? s : NULL;
}

/* ---- which steps count -------------------------------------------------------------------------------------------------- */

static bool step_compiles(const struct an_context *c, const struct an_lane *l,
                          const struct an_step *s)
{
    const struct an_trace *t = c->t;
    if (l->track == AN_NONE)
        return false;
    const struct an_track *k = &t->track[l->track];
    for (size_t i = an_slice_seek(t, k, s->host_start);
         i < k->slice_first + k->slice_count && t->slice.start[i] < s->host_end; i++)
        if (an_slice_role(t, i) == AN_ROLE_COMPILE)
            return true;
    return false;
}

static const char not_asked[] = "not asked for";

/* --steps: the reader knows which ones are typical, first and last among them or not. */
static void keep_asked(struct an_context *c, const struct an_lane *l)
{
    for (size_t i = l->first; i < l->first + l->count; i++) {
        struct an_step *s = &c->step[i];
        if (!s->excluded && (s->index < c->o->step_from || s->index > c->o->step_to))
            s->excluded = not_asked;
    }
    c->r->steps.note = "only the steps that were asked for (--steps)";
}

static void exclude(struct an_context *c, const struct an_lane *l)
{
    size_t complete = 0;
    bool foreign = l->device != AN_NONE ||
                   an_trace_key(c->t, "source"); /* a window of a run: its steps are few */
    struct an_step *first = NULL, *last = NULL;
    int64_t until = INT64_MIN;
    for (size_t i = l->first; i < l->first + l->count; i++) {
        struct an_step *s = &c->step[i];
        if (s->end == STORE_ABSENT) {
            s->excluded = s->excluded ? s->excluded : "no end";
            continue;
        }
        if (s->start < until) { /* two steps at once on a thread: one of them is wrong, and their
                                   time would count twice */
            s->excluded = "overlap";
            continue;
        }
        until = s->end;
        first = first ? first : s;
        last = s;
        complete++;
        if (step_compiles(c, l, s))
            s->excluded = "compile";
    }
    if (c->o->some_steps) {
        keep_asked(c, l);
        return;
    }
    if (foreign && complete < LAST_LEAST) {
        if (complete)
            c->r->steps.note = an_arena_format(
                c->a, "only %zu complete %s captured: the first and the last are counted too",
                complete, complete == 1 ? "step was" : "steps were");
        return;
    }
    if (complete > 1)
        first->excluded = "first";
    if (complete >= LAST_LEAST)
        last->excluded = "last";
}

/* ---- which steps have all their parts in the file ------------------------------------------------------------------------ */

struct index_entry {
    uint32_t process;
    int64_t index;
    size_t step;
    int64_t calls; /* ranges of the step on its lane's track that the aggregates know of */
    bool
        twice; /* another step of the process has this index: the aggregates cannot be told apart */
};

static int index_order(const void *x, const void *y)
{
    const struct index_entry *a = x, *b = y;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

static struct index_entry *index_find(struct index_entry *all, size_t n, uint32_t process,
                                      int64_t index)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all[middle].process < process ||
            (all[middle].process == process && all[middle].index < index))
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && all[low].process == process && all[low].index == index ? &all[low] : NULL;
}

static void count_aggregates(const struct an_context *c, struct index_entry *all, size_t n)
{
    const struct an_aggregates *g = &c->t->aggregate;
    struct index_entry *e = NULL;
    for (size_t i = 0; i < g->count; i++) {
        if (!e || e->process != g->process[i] || e->index != g->step[i])
            e = index_find(all, n, g->process[i], g->step[i]);
        if (e && c->lane[c->step[e->step].lane].track == g->track[i])
            e->calls = an_time_add(e->calls, g->calls[i]);
    }
}

static size_t slices_in(const struct an_trace *t, uint32_t track, int64_t start, int64_t end)
{
    const struct an_track *k = &t->track[track];
    return an_slice_seek(t, k, end) - an_slice_seek(t, k, start);
}

/* Limits leave out whole steps, so a few ranges more in the aggregates are not a cut: a range
 * counts there in the step it ends in. */
static bool has_parts(int64_t slices, int64_t calls)
{
    if (slices <= 1)
        return calls <= 1;
    return slices >= calls - 2;
}

static int find_detailed(struct an_context *c, bool marked)
{
    struct index_entry *all = malloc((c->step_count ? c->step_count : 1) * sizeof *all);
    if (!all)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++)
        all[i] = (struct index_entry){
            .process = c->lane[c->step[i].lane].process, .index = c->step[i].index, .step = i};
    qsort(all, c->step_count, sizeof *all, index_order);
    for (size_t i = 1; i < c->step_count; i++)
        if (all[i].process == all[i - 1].process && all[i].index == all[i - 1].index)
            all[i].twice = all[i - 1].twice = true;
    if (marked)
        count_aggregates(c, all, c->step_count);
    for (size_t i = 0; i < c->step_count; i++) {
        struct an_step *s = &c->step[all[i].step];
        uint32_t track = c->lane[s->lane].track;
        if (c->lane[s->lane].device != AN_NONE && track == AN_NONE)
            s->detailed =
                s->end != STORE_ABSENT; /* the host was not recorded: the device decides alone */
        if (s->paused || track == AN_NONE || s->end == STORE_ABSENT ||
            s->host_end == STORE_ABSENT || (marked && s->slice == AN_NONE))
            continue;
        s->detailed =
            all[i].twice ||
            has_parts((int64_t)slices_in(c->t, track, s->host_start, s->host_end), all[i].calls);
    }
    free(all);
    return 0;
}

/* ---- statistics --------------------------------------------------------------------------------------------------------- */

static double step_ms(const struct an_step *s)
{
    return (double)an_step_ns(s) / 1e6;
}

static int list_excluded(struct an_context *c)
{
    struct an_steps *r = &c->r->steps;
    size_t n = 0;
    for (size_t i = 0; i < c->step_count; i++)
        n += c->step[i].excluded && c->step[i].excluded != not_asked;
    struct an_step_exclusion *x = an_arena_zero(c->a, n, sizeof *x);
    if (!x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        if (s->excluded && s->excluded != not_asked)
            x[r->excluded_count++] =
                (struct an_step_exclusion){.rank = c->lane[s->lane].rank,
                                           .index = s->index,
                                           .ms = s->end == STORE_ABSENT ? NAN : step_ms(s),
                                           .reason = s->excluded};
    }
    r->excluded = x;
    return 0;
}

static int outlier_order(const void *x, const void *y)
{
    double a = ((const struct an_step_outlier *)x)->ms, b = ((const struct an_step_outlier *)y)->ms;
    return (a < b) - (a > b);
}

/* Slow steps: a fast one needs no explanation. */
static int list_outliers(struct an_context *c, double median, double mad)
{
    struct an_steps *r = &c->r->steps;
    struct an_step_outlier *x = an_arena_zero(c->work, (size_t)r->counted, sizeof *x);
    size_t n = 0;
    if (!x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count && mad > 0; i++) {
        const struct an_step *s = &c->step[i];
        double score = an_step_counted(s) ? 0.6745 * (step_ms(s) - median) / mad : 0;
        if (score > OUTLIER_SCORE)
            x[n++] = (struct an_step_outlier){c->lane[s->lane].rank, s->index, step_ms(s), score};
    }
    if (n)
        qsort(x, n, sizeof *x, outlier_order);
    r->outlier_count = n < OUTLIERS_MOST ? n : OUTLIERS_MOST;
    r->outliers = an_arena_copy(c->a, x, r->outlier_count * sizeof *x);
    return r->outliers ? 0 : TACHO_ENOMEM;
}

/* Median of the host's steps; equals the step where no device decides. `x` has room for n. */
static struct an_value host_median(const struct an_context *c, double *x, size_t n)
{
    size_t known = 0;
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        if (!an_step_counted(s))
            continue;
        if (c->lane[s->lane].device == AN_NONE)
            x[known++] = step_ms(s);
        else if (s->host_end != STORE_ABSENT)
            x[known++] = (double)an_time_sub(s->host_end, s->host_start) / 1e6;
    }
    an_sort(x, known);
    return known == n ? an_num(an_quantile(x, known, 0.5))
                      : an_num_none("a step of the host has no end");
}

static int durations(struct an_context *c)
{
    struct an_steps *r = &c->r->steps;
    size_t n = 0;
    double *x = an_arena_zero(c->work, (size_t)r->counted, 2 * sizeof *x);
    if (!x)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++)
        if (an_step_counted(&c->step[i]))
            x[n++] = step_ms(&c->step[i]);
    an_sort(x, n);
    double median = an_quantile(x, n, 0.5), sd = an_sd(x, n);
    r->median_ms = an_num(median);
    r->mean_ms = an_num(an_mean(x, n));
    r->p95_ms = an_num(an_quantile(x, n, 0.95));
    r->min_ms = an_num(x[0]);
    r->max_ms = an_num(x[n - 1]);
    r->sd_ms = isnan(sd) ? an_num_none("one step has no spread") : an_num(sd);
    r->host_median_ms = host_median(c, x + n, n);
    return list_outliers(c, median, an_mad(x, n, median, x + n));
}

/* Ratio of sums per lane, added over lanes: ranks work side by side. */
static void rates(struct an_context *c, bool tokens, struct an_value *per_s,
                  struct an_value *per_step)
{
    const char *what = tokens ? "tokens" : "samples";
    double rate = 0, sum = 0;
    int64_t steps = 0, unknown = 0;
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_lane *l = &c->lane[k];
        double lane_sum = 0, lane_ns = 0;
        for (size_t i = l->first; i < l->first + l->count; i++) {
            const struct an_step *s = &c->step[i];
            int64_t v = tokens ? s->tokens : s->samples;
            if (!an_step_counted(s))
                continue;
            steps++;
            if (v == STORE_ABSENT) {
                unknown++;
                continue;
            }
            lane_sum += (double)v;
            lane_ns += (double)an_step_ns(s);
        }
        sum += lane_sum;
        rate += lane_ns > 0 ? lane_sum / lane_ns * 1e9 : 0;
    }
    if (unknown || !steps || sum <= 0) {
        const char *why =
            unknown == steps || sum <= 0
                ? an_arena_format(c->a, "the steps do not say how many %s they hold", what)
                : an_arena_format(
                      c->a, "%" PRId64 " of %" PRId64 " steps do not say how many %s they hold",
                      unknown, steps, what);
        *per_s = *per_step = an_num_none(why);
        return;
    }
    *per_s = an_num(rate);
    *per_step = an_num(sum / (double)steps);
}

/* What passes between a step and the next, phases not counted: logging, learning-rate schedules,
 * the loop itself. */
static struct an_value between(const struct an_context *c)
{
    double sum = 0;
    int64_t gaps = 0;
    for (size_t i = 1; i < c->step_count; i++) {
        const struct an_step *a = &c->step[i - 1], *b = &c->step[i];
        const struct an_lane *l = &c->lane[a->lane];
        if (a->lane != b->lane || a->end == STORE_ABSENT || b->start < a->end)
            continue;
        sum += (double)an_time_sub(an_time_sub(b->start, a->end),
                                   an_spans_within(l->cut, l->cut_count, a->end, b->start));
        gaps++;
    }
    return gaps ? an_num(sum / (double)gaps / 1e6) : an_num_none("no two steps follow each other");
}

static int tokens_order(const void *x, const void *y)
{
    const struct an_step *const *a = x, *const *b = y;
    if ((*a)->tokens != (*b)->tokens)
        return (*a)->tokens < (*b)->tokens ? -1 : 1;
    return (an_step_ns(*a) > an_step_ns(*b)) - (an_step_ns(*a) < an_step_ns(*b));
}

static int group_order(const void *x, const void *y)
{
    const struct an_step_group *a = x, *b = y;
    return (a->count < b->count) - (a->count > b->count);
}

/* Steps of one size belong together; sorted by tokens and time, each group's median is in its
 * middle. */
static int groups(struct an_context *c)
{
    struct an_steps *r = &c->r->steps;
    size_t n = 0, made = 0;
    const struct an_step **s = an_arena_zero(c->work, (size_t)r->counted, sizeof *s);
    struct an_step_group *g = an_arena_zero(c->work, (size_t)r->counted, sizeof *g);
    if (!s || !g)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++)
        if (an_step_counted(&c->step[i]))
            s[n++] = &c->step[i];
    qsort(s, n, sizeof *s, tokens_order);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && s[next]->tokens == s[i]->tokens;)
            next++;
        size_t low = i + (next - i - 1) / 2, high = i + (next - i) / 2;
        g[made++] = (struct an_step_group){.tokens = s[i]->tokens == STORE_ABSENT
                                                         ? an_int_none("not said by the step")
                                                         : an_int(s[i]->tokens),
                                           .count = (int64_t)(next - i),
                                           .median_ms = (step_ms(s[low]) + step_ms(s[high])) / 2};
    }
    if (made < 2)
        return 0;
    qsort(g, made, sizeof *g, group_order);
    r->group_count = made < GROUPS_MOST ? made : GROUPS_MOST;
    r->groups = an_arena_copy(c->a, g, r->group_count * sizeof *g);
    return r->groups ? 0 : TACHO_ENOMEM;
}

static void values_absent(struct an_context *c, const char *reason)
{
    struct an_steps *r = &c->r->steps;
    struct an_value *all[] = {&r->median_ms,       &r->mean_ms,          &r->p95_ms,
                              &r->min_ms,          &r->max_ms,           &r->sd_ms,
                              &r->host_median_ms,  &r->tokens_per_s,     &r->samples_per_s,
                              &r->tokens_per_step, &r->samples_per_step, &r->between_ms};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_num_none(reason);
}

/* Why there are no steps, and what the reader can do about it. */
static const char *why_none(const struct an_context *c)
{
    if (c->t->slice.count && an_trace_key(c->t, "source"))
        return "the trace marks no steps, and its kernels show no optimizer: record with "
               "torch.profiler and call its step(), "
               "or mark "
               "each update with an NVTX range named step";
    if (!c->t->slice.count)
        return "the program spoke no NVTX: mark each optimizer update with a range, "
               "include/tacho_nvtx.h shows how";
    return an_arena_format(c->a,
                           "no steps were marked; %zu ranges were recorded: mark each optimizer "
                           "update with a tacho.step range "
                           "(include/tacho_nvtx.h) or an NVTX range named step",
                           c->t->slice.count);
}

static int steps_run(struct an_context *c)
{
    struct an_steps *r = &c->r->steps;
    const char *source = NULL;
    int rc = an_steps_find(c, &source);
    if (rc)
        return rc;
    r->source = source;
    if (!c->step_count) {
        r->reason = why_none(c);
        values_absent(c, r->reason);
        return 0;
    }
    for (size_t k = 0; k < c->lane_count; k++)
        exclude(c, &c->lane[k]);
    if ((rc = an_phases_cut(c)) || (rc = find_detailed(c, c->t->step_count > 0)))
        return rc;
    r->first_index = r->last_index = -1;
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        r->count += s->end != STORE_ABSENT;
        r->counted += an_step_counted(s);
        r->paused += an_step_counted(s) && s->paused;
        r->detailed += an_step_detailed(s);
        r->micro_steps = s->micro_steps > r->micro_steps ? s->micro_steps : r->micro_steps;
        if (!an_step_counted(s))
            continue;
        r->first_index =
            r->first_index < 0 || s->index < r->first_index ? s->index : r->first_index;
        r->last_index = s->index > r->last_index ? s->index : r->last_index;
    }
    if ((rc = list_excluded(c)))
        return rc;
    if (!r->counted) {
        values_absent(c, "no step is complete");
        return 0;
    }
    rates(c, true, &r->tokens_per_s, &r->tokens_per_step);
    rates(c, false, &r->samples_per_s, &r->samples_per_step);
    r->between_ms = between(c);
    rc = durations(c);
    return rc ? rc : groups(c);
}

static void steps_absent(struct an_context *c, const char *reason)
{
    values_absent(c, reason);
    c->r->steps.reason = reason;
}

const struct an_analyzer an_steps = {
    "steps", "which steps there are, how long they last, tokens and samples a second", 0, steps_run,
    steps_absent};
