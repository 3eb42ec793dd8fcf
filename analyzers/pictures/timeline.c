/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture of a typical step and of the worst one: what every thread and stream of the run did
 * from the start of the step to its end. What is too short to be seen is merged, so that a picture
 * has a bounded number of stretches whatever the trace has.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/pictures/timeline.h"

#define GRAINS      1000 /* of a step: what is shorter is merged with its neighbours */
#define TRACKS_MOST 64   /* of a picture */

/* ---- stretches ---------------------------------------------------------------------------------------------------------- */

/* Is half of the open stretch or more on the critical path? */
static bool is_critical(const struct an_timeline_row *r)
{
    if (!r->path)
        return false;
    const size_t *first = r->path->track_first + r->track;
    return an_spans_within(r->path->span + first[0], first[1] - first[0], r->from, r->until) >=
           (r->until - r->from + 1) / 2;
}

int an_timeline_close(struct an_timeline_row *r)
{
    if (!r->open)
        return 0;
    int what = AN_CLASS_UNATTRIBUTED;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        if (r->class_ns[k] > r->class_ns[what])
            what = k;
    int rc = an_grow(&r->span, &r->span_room, r->count + 1, sizeof *r->span);
    rc = rc ? rc : an_grow(&r->name, &r->name_room, r->count + 1, sizeof *r->name);
    if (rc)
        return rc;
    r->name[r->count] = r->longest_name;
    r->span[r->count++] = (struct an_timeline_span){
        .start_ns = r->from - r->t0,
        .dur_ns = r->until - r->from,
        .what = what,
        .merged = r->merged,
        .critical = is_critical(r),
        .busy = (float)((double)r->filled / (double)(r->until - r->from))};
    r->open = false;
    return 0;
}

int an_timeline_add(struct an_timeline_row *r, int64_t start, int64_t end, uint32_t name,
                    const int64_t *class_ns, int class)
{
    start = start > r->t0 ? start : r->t0;
    end = end < r->t1 ? end : r->t1;
    start =
        r->end > start ? r->end : start; /* ranges of a stream or of a foreign trace may overlap */
    if (end <= start)
        return 0;
    int rc = 0;
    bool joins = r->open && start - r->until < r->grain && end - start < r->grain &&
                 r->until - r->from < 2 * r->grain;
    if (!joins) {
        rc = an_timeline_close(r);
        r->open = true;
        r->from = start;
        r->filled = r->longest = r->merged = 0;
        memset(r->class_ns, 0, sizeof r->class_ns);
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        r->class_ns[k] += class_ns ? class_ns[k] : k == class ? end - start : 0;
    if (end - start > r->longest) {
        r->longest = end - start;
        r->longest_name = name;
    }
    r->merged++;
    r->until = r->end = end;
    r->filled += end - start;
    r->busy_ns += end - start;
    return rc;
}

/* ---- which tracks ------------------------------------------------------------------------------------------------------- */

/* A track that may be in the picture, by what is looked at first: the step's rank, its thread, its
 * streams. */
struct candidate {
    int64_t rank;
    uint32_t track;
    int order;          /* 0: the thread that runs steps */
    bool other, drives; /* drives: the steps of its process are a device's */
};

static int candidate_order(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    if (a->other != b->other)
        return a->other - b->other;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->order != b->order ? a->order - b->order
                                : (a->track > b->track) - (a->track < b->track);
}

static int kind_order(const struct an_context *c, uint32_t k)
{
    static const char *const kinds[] = {"stream", "thread", "loader", "comm", "range"};
    for (size_t i = 0; i < c->lane_count; i++)
        if (c->lane[i].track == k)
            return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(c->t->track[k].kind, kinds[i]))
            return (int)i + 1;
    return -1; /* counters */
}

/* Of the step's rank every track, of the others the threads that run steps and the streams. */
static size_t find_candidates(const struct an_context *c, const struct an_step *s,
                              struct candidate *all)
{
    size_t n = 0;
    for (uint32_t k = 0; k < c->t->track_count; k++) {
        int order = c->t->track[k].slice_count ? kind_order(c, k) : -1;
        uint32_t lane = order < 0 ? AN_NONE : an_lane_of_process(c, c->t->track[k].process);
        if (lane == AN_NONE)
            continue;
        bool other = c->lane[lane].rank != c->lane[s->lane].rank;
        if (!other || order < 2)
            all[n++] = (struct candidate){c->lane[lane].rank, k, order, other,
                                          c->lane[lane].device != AN_NONE};
    }
    qsort(all, n, sizeof *all, candidate_order);
    return n;
}

/* ---- one picture -------------------------------------------------------------------------------------------------------- */

struct picture {
    struct an_context *c;
    const struct an_step *s;
    const char **text; /* names that were kept, by string */
    struct an_timeline_track *track;
    size_t count;
};

static const char *kept_name(struct picture *p, uint32_t name)
{
    if (name == AN_NONE)
        return "";
    if (!p->text[name])
        p->text[name] = an_arena_text(p->c->a, p->c->t->string[name]);
    return p->text[name];
}

/* Does a thread of another process beside it, as of a loader's worker, have the same name? */
static bool name_is_shared(const struct an_context *c, const struct an_track *k)
{
    const struct an_trace *t = c->t;
    for (size_t i = 0; k->process != AN_NONE && i < t->track_count; i++) {
        const struct an_track *x = &t->track[i];
        if (x->process == AN_NONE || x->process == k->process || strcmp(x->kind, k->kind) ||
            strcmp(x->name, k->name))
            continue;
        int64_t a = t->process[k->process].rank, b = t->process[x->process].rank;
        if (a == b || a == STORE_ABSENT || b == STORE_ABSENT)
            return true;
    }
    return false;
}

const char *an_timeline_track_name(const struct an_context *c, const struct an_track *k)
{
    if (*k->name && !strcmp(k->kind, "thread") && name_is_shared(c, k))
        return an_arena_format(c->a, "%s, process %" PRId64, k->name,
                               c->t->process[k->process].pid);
    if (*k->name)
        return an_arena_text(c->a, k->name);
    return k->tid == STORE_ABSENT ? an_arena_text(c->a, k->kind)
                                  : an_arena_format(c->a, "%.40s %" PRId64, k->kind, k->tid);
}

/* Keeps a filled row and empties it; one in which nothing happened is left out. */
static int keep_row(struct picture *p, const struct candidate *x, struct an_timeline_row *r,
                    int depth)
{
    const struct an_context *c = p->c;
    const struct an_track *k = &c->t->track[x->track];
    const struct an_process *process = k->process == AN_NONE ? NULL : &c->t->process[k->process];
    int rc = an_timeline_close(r);
    struct an_timeline_span *span =
        rc || !r->count ? NULL : an_arena_copy(c->a, r->span, r->count * sizeof *span);
    for (size_t i = 0; span && i < r->count; i++)
        span[i].name = kept_name(p, r->name[i]);
    if (span)
        p->track[p->count++] = (struct an_timeline_track){
            .name = an_timeline_track_name(c, k),
            .kind = an_arena_text(c->a, k->kind),
            .device = an_arena_text(c->a, *k->device || !process ? k->device : process->device),
            .rank = x->rank,
            .process = process ? process->pid : STORE_ABSENT,
            .busy_ns = r->busy_ns,
            .depth = depth,
            .span = span,
            .span_count = r->count};
    rc = rc ? rc : r->count && !span ? TACHO_ENOMEM : 0;
    free(r->span);
    free(r->name);
    *r = (struct an_timeline_row){
        .t0 = r->t0, .t1 = r->t1, .grain = r->grain, .path = r->path, .track = r->track};
    return rc;
}

static int class_of_op(int class)
{
    if (AN_DEVICE_COMPUTE_MASK >> class & 1)
        return AN_CLASS_COMPUTE;
    return class == AN_DEVICE_COMM   ? AN_CLASS_COMM
           : class == AN_DEVICE_COPY ? AN_CLASS_COPY
                                     : AN_CLASS_UNATTRIBUTED;
}

/* The ops of all devices, once, into the rows of their streams. row_of: by track, AN_NONE: not in
 * the picture. */
static int fill_streams(const struct an_context *c, struct an_timeline_row *row,
                        const uint32_t *row_of)
{
    int rc = 0;
    for (size_t d = 0; c->gpu && d < c->gpu->device_count; d++) {
        const struct an_device *x = &c->gpu->device[d];
        for (size_t i = x->first; i < x->first + x->count && c->gpu->op.start[i] < row->t1 && !rc;
             i++) {
            uint32_t k = row_of[c->gpu->op.track[i]];
            if (k != AN_NONE && c->gpu->op.end[i] > row->t0)
                rc = an_timeline_add(&row[k], c->gpu->op.start[i], c->gpu->op.end[i],
                                     c->t->slice.name[c->gpu->op.slice[i]], NULL,
                                     class_of_op(c->gpu->op.class[i]));
        }
    }
    return rc;
}

/* Tracks whose ranges do not nest: one row, by start. */
static int fill_flat(const struct an_context *c, const struct an_track *k,
                     struct an_timeline_row *r)
{
    const struct an_trace *t = c->t;
    int rc = 0;
    for (size_t i = k->slice_first;
         i < k->slice_first + k->slice_count && t->slice.start[i] < r->t1 && !rc; i++)
        if (an_slice_end(t, i) > r->t0 && t->slice.dur[i] != AN_OPEN &&
            an_slice_role(t, i) != AN_ROLE_QUEUE_WAIT)
            rc = an_timeline_add(r, t->slice.start[i], an_slice_end(t, i), t->slice.name[i], NULL,
                                 an_class_of_role(an_slice_role(t, i), AN_CLASS_HOST));
    return rc;
}

static int draw_track(struct picture *p, const struct candidate *x, struct an_timeline_row *stream)
{
    const struct an_track *k = &p->c->t->track[x->track];
    if (!strcmp(k->kind, "stream"))
        return keep_row(p, x, stream, 0);
    struct an_timeline_row row[2] = {{.t0 = stream->t0,
                                      .t1 = stream->t1,
                                      .grain = stream->grain,
                                      .path = stream->path,
                                      .track = x->track,
                                      .drives = x->drives,
                                      .waits = x->order > 0}};
    row[1] = row[0];
    uint32_t mark = p->s->slice == AN_NONE ? AN_NONE : p->c->t->slice.name[p->s->slice];
    int rc = strcmp(k->kind, "thread") ? fill_flat(p->c, k, row)
                                       : an_timeline_thread(p->c, k, mark, row);
    int kept = keep_row(p, x, &row[0], 0);
    int nested = keep_row(p, x, &row[1], 1);
    return rc ? rc : kept ? kept : nested;
}

static int draw(struct picture *p, struct an_timeline_step *out)
{
    struct an_context *c = p->c;
    size_t tracks = c->t->track_count, n;
    struct candidate *all = an_arena_zero(c->work, tracks, sizeof *all);
    struct an_timeline_row *row = an_arena_zero(c->work, tracks, sizeof *row);
    uint32_t *row_of = an_arena_zero(c->work, tracks, sizeof *row_of);
    p->track = an_arena_zero(c->a, TRACKS_MOST + 1, sizeof *p->track);
    p->count = 0;
    if (!all || !row || !row_of || !p->track)
        return TACHO_ENOMEM;
    n = find_candidates(c, p->s, all);
    int64_t ns = p->s->end - p->s->start;
    for (size_t k = 0; k < tracks; k++) {
        row[k] =
            (struct an_timeline_row){.t0 = p->s->start, .t1 = p->s->end, .grain = ns / GRAINS + 1};
        row_of[k] = AN_NONE;
    }
    for (uint32_t k = 0; k < n; k++) {
        row_of[all[k].track] = k;
        row[k].track = all[k].track;
        row[k].path = c->path;
    }
    int rc = n ? fill_streams(c, row, row_of) : 0;
    for (size_t k = 0; k < n && !rc && p->count + 2 <= TRACKS_MOST; k++)
        rc = draw_track(p, &all[k], &row[k]);
    for (size_t k = 0; k < n; k++) {
        free(row[k].span);
        free(row[k].name);
    }
    out->rank = c->lane[p->s->lane].rank;
    out->index = p->s->index;
    out->ms = (double)an_step_ns(p->s) / 1e6;
    out->track = p->track;
    out->track_count = p->count;
    return rc;
}

/* ---- which steps -------------------------------------------------------------------------------------------------------- */

static bool can_draw(const struct an_step *s)
{
    return an_step_detailed(s) && s->end > s->start && s->end - s->start <= INT64_MAX / 4;
}

/* The typical step is the one through which the critical path is drawn; without a path the one
 * nearest to the median. */
static void choose(const struct an_context *c, const struct an_step **typical,
                   const struct an_step **worst)
{
    double median = c->r->steps.median_ms.valid ? c->r->steps.median_ms.value : 0, best = INFINITY;
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        if (!can_draw(s))
            continue;
        double off = fabs((double)an_step_ns(s) / 1e6 - median);
        if (off < best) {
            best = off;
            *typical = s;
        }
        if (!*worst || an_step_ns(s) > an_step_ns(*worst))
            *worst = s;
    }
    if (c->typical && can_draw(c->typical))
        *typical = c->typical;
}

static int timeline_run(struct an_context *c)
{
    const struct an_step *of[2] = {NULL, NULL};
    struct picture p = {.c = c, .text = an_arena_zero(c->work, c->t->string_count, sizeof *p.text)};
    struct an_timeline_step *step = an_arena_zero(c->a, 2, sizeof *step);
    struct an_timeline *r = &c->r->timeline;
    int rc = p.text && step ? 0 : TACHO_ENOMEM;
    choose(c, &of[0], &of[1]);
    for (size_t i = 0; i < 2 && !rc && of[i] && (!i || an_step_ns(of[1]) > an_step_ns(of[0]));
         i++) {
        p.s = of[i];
        step[i].which = i ? "worst" : "typical";
        rc = draw(&p, &step[i]);
        r->step_count = i + 1;
    }
    r->step = step;
    if (!r->step_count || !step[0].track_count)
        r->reason = "no range lies inside a counted step";
    return rc;
}

static void timeline_absent(struct an_context *c, const char *reason)
{
    c->r->timeline.reason = reason;
}

const struct an_analyzer an_timeline = {
    "timeline", "what every thread and stream does in a typical and in the worst step",
    AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL, timeline_run, timeline_absent};
