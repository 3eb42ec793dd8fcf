/* SPDX-License-Identifier: Apache-2.0
 *
 * From the graph to what is replayed (replay.h): frames and steps, own work, typical latencies.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/base/stats.h"
#include "analyzers/replay/replay.h"

#define TIME_MOST \
    (INT64_MAX / 3) /* the year 2067, in ns since 1970; beyond: damaged. Differences and sums fit \
                     */
#define TIME_LEAST      (INT64_MIN / 8)
#define OWN_MOST        (INT64_MAX / 512) /* of one node, half a year: longer in damaged files only */
#define LATENCY_SAMPLES 5                 /* fewer on a stream: the median of all streams */

/* ---- frames and steps ------------------------------------------------------------------------------------------------------ */

struct window_list {
    struct an_window *row;
    size_t count, room;
};

static int window_order(const void *x, const void *y)
{
    const struct an_window *a = x, *b = y;
    return a->start != b->start ? (a->start < b->start ? -1 : 1)
                                : (a->lane > b->lane) - (a->lane < b->lane);
}

static int windows_of_all(struct an_context *c, struct window_list *l)
{
    for (uint32_t k = 0; k < c->lane_count; k++) {
        struct an_window *w = NULL;
        size_t n = 0;
        int rc = c->lane[k].track == AN_NONE && c->lane[k].device == AN_NONE
                     ? 0
                     : an_windows_of(c, k, &w, &n);
        if (rc || (n && (rc = an_grow(&l->row, &l->room, l->count + n, sizeof *l->row))))
            return rc;
        for (size_t i = 0; i < n; i++)
            if (w[i].end > w[i].start && w[i].start > TIME_LEAST && w[i].end < TIME_MOST)
                l->row[l->count++] = w[i];
    }
    if (l->count)
        qsort(l->row, l->count, sizeof *l->row, window_order);
    return 0;
}

/* The node whose start (plus *offset) stands for `time` on a track. */
static uint32_t mark_on(const struct an_graph *g, uint32_t track, int64_t time, int64_t *offset)
{
    uint32_t n = an_graph_node_at(g, track, time);
    if (n == AN_NONE)
        return AN_NONE;
    *offset = an_time_sub(time, g->start[n]);
    return n;
}

/* The device op of a lane's device that starts at `time`; steps of a device begin with one. */
static uint32_t mark_on_device(const struct an_context *c, const struct an_graph *g,
                               uint32_t device, int64_t time)
{
    const struct an_device_ops *o = &c->gpu->op;
    const struct an_device *d = &c->gpu->device[device];
    size_t end = d->first + d->count;
    for (size_t i = an_device_op_seek(c->gpu, d, time); i < end && o->start[i] == time; i++) {
        uint32_t n = g->op_node[i];
        if (n != AN_NONE && 1u << o->class[i] & AN_DEVICE_COMPUTE_MASK)
            return n;
    }
    return AN_NONE;
}

static uint32_t mark(const struct an_replay *r, const struct an_lane *l, int64_t time,
                     int64_t *offset)
{
    *offset = 0;
    uint32_t n =
        l->device != AN_NONE && r->c->gpu ? mark_on_device(r->c, r->g, l->device, time) : AN_NONE;
    if (n == AN_NONE && l->track != AN_NONE)
        n = mark_on(r->g, l->track, time, offset);
    return n;
}

/* Where a step ends: of a device with the start of the next one's first kernel; nothing behind it:
 * with what it launched, which lies in the order of launch. */
static void mark_end(const struct an_replay *r, const struct an_lane *l, const struct an_step *s,
                     struct an_replay_step *x)
{
    const struct an_context *c = r->c;
    x->to = l->device != AN_NONE && c->gpu ? mark_on_device(c, r->g, l->device, s->end) : AN_NONE;
    if (x->to != AN_NONE)
        return;
    if (l->device == AN_NONE || !c->gpu) {
        x->to = mark(r, l, s->end, &x->to_offset);
        return;
    }
    size_t first = an_device_launch_seek(c, l->device, s->host_start),
           last = an_device_launch_seek(c, l->device, s->host_end);
    for (size_t i = first; i < last; i++) {
        uint32_t op = c->gpu->by_launch[i];
        if (c->gpu->op.end[op] == s->end && r->g->op_node[op] != AN_NONE)
            x->to = r->g->op_node[op];
    }
    x->op = c->gpu->by_launch + first;
    x->op_count = last > first ? last - first : 0;
}

static void add_steps(struct an_replay *r, const struct an_window *w, uint32_t frame)
{
    struct an_context *c = r->c;
    const struct an_lane *l = &c->lane[w->lane];
    size_t first = r->step_count;
    for (size_t i = w->first; i < w->first + w->count; i++) {
        const struct an_step *s = &c->step[i];
        struct an_replay_step x = {.step = i, .frame = frame, .cut = s->cut_ns};
        if (s->end == STORE_ABSENT || s->end <= s->start || !an_step_detailed(s))
            continue;
        x.from = mark(r, l, s->start, &x.from_offset);
        mark_end(r, l, s, &x);
        if (x.from != AN_NONE && x.to != AN_NONE)
            r->step[r->step_count++] = x;
    }
    for (size_t i = first; i < r->step_count; i++) {
        r->step[i].ordinal = r->step[i].place = (uint32_t)(i - first);
        r->step[i].of = (uint32_t)(r->step_count - first);
    }
}

/* Ranks of one frame may begin with different steps: odd and even ones are the same for all of
 * them. */
static void places_of(struct an_replay *r, const struct an_replay_frame *f)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (size_t i = f->step_first; i < f->step_first + f->step_count; i++) {
        int64_t from = an_time_sub(r->c->step[r->step[i].step].index, r->step[i].ordinal);
        least = from < least ? from : least;
        most = from > most ? from : most;
    }
    for (size_t i = f->step_first; i < f->step_first + f->step_count; i++) {
        const struct an_replay_step *lane = &r->step[i - r->step[i].ordinal];
        int64_t from = an_time_sub(r->c->step[lane->step].index, least);
        if (most - least < (int64_t)f->step_count && from >= 0 && from < (int64_t)f->step_count)
            r->step[i].place = r->step[i].ordinal + (uint32_t)from;
    }
}

/* Windows that overlap are one frame. */
static int frames_of(struct an_replay *r, const struct window_list *l)
{
    size_t steps = 0, open = 0;
    for (size_t i = 0; i < l->count; i++)
        steps += l->row[i].count;
    r->frame = an_arena_zero(r->c->work, l->count, sizeof *r->frame);
    r->step = an_arena_zero(r->c->work, steps, sizeof *r->step);
    if (!r->frame || !r->step)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < l->count; i = open) {
        struct an_replay_frame *f = &r->frame[r->frame_count];
        *f = (struct an_replay_frame){
            .start = l->row[i].start, .end = l->row[i].end, .step_first = r->step_count};
        for (open = i; open < l->count && l->row[open].start < f->end; open++) {
            f->end = l->row[open].end > f->end ? l->row[open].end : f->end;
            add_steps(r, &l->row[open], (uint32_t)r->frame_count);
        }
        f->step_count = r->step_count - f->step_first;
        places_of(r, f);
        r->frame_count += f->step_count > 0;
    }
    return 0;
}

static uint32_t frame_at(const struct an_replay *r, int64_t time)
{
    size_t low = 0, high = r->frame_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->frame[middle].end < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->frame_count && r->frame[low].start <= time ? (uint32_t)low : AN_NONE;
}

/* Nodes of frames, frame by frame in the order of dependency. */
static int nodes_of(struct an_replay *r)
{
    const struct an_graph *g = r->g;
    size_t *next = an_arena_zero(r->c->work, r->frame_count + 1, sizeof *next);
    if (!next || !(r->inside = an_arena_zero(r->c->work, g->node_count, 1)))
        return TACHO_ENOMEM;
    for (size_t n = 0; n < g->node_count; n++) {
        uint32_t f = frame_at(r, g->start[n]);
        if (f == AN_NONE)
            continue;
        r->inside[n] = 1;
        r->frame[f].count++;
        r->node_count++;
    }
    if (!(r->node = an_arena_zero(r->c->work, r->node_count, sizeof *r->node)))
        return TACHO_ENOMEM;
    for (size_t f = 0, first = 0; f < r->frame_count; first += r->frame[f].count, f++)
        r->frame[f].first = next[f] = first;
    for (size_t i = 0; i < g->node_count; i++) {
        uint32_t n = g->order[i];
        if (r->inside[n])
            r->node[next[frame_at(r, g->start[n])]++] = n;
    }
    return 0;
}

/* ---- own work -------------------------------------------------------------------------------------------------------------- */

/* Last release that only ends waiting, by the recorded times. */
static int64_t waited_until(const struct an_graph *g, uint32_t n, bool *any)
{
    int64_t last = AN_NEVER;
    *any = false;
    for (size_t e = g->in_first[n]; e < g->in_first[n + 1]; e++)
        if (an_replay_ends_waiting(g, n, e)) {
            int64_t release = an_edge_release(g, e);
            last = release > last ? release : last;
            *any = true;
        }
    return last;
}

static bool on_lane(const struct an_context *c, uint32_t track)
{
    for (size_t k = 0; k < c->lane_count; k++)
        if (c->lane[k].track == track)
            return true;
    return false;
}

static int own_work(struct an_replay *r)
{
    const struct an_graph *g = r->g;
    uint32_t track = AN_NONE;
    const struct an_count *workers = &r->c->r->loader.workers;
    bool lane = false, released,
         in_line = workers->valid && !workers->value; /* in line a fetch is work */
    if (!(r->own = an_arena_zero(r->c->work, g->node_count, sizeof *r->own)))
        return TACHO_ENOMEM;
    for (uint32_t n = 0; n < g->node_count; n++) {
        int64_t until = waited_until(g, n, &released),
                begin = until > g->start[n] ? until : g->start[n];
        r->own[n] = g->end[n] > begin ? an_time_sub(g->end[n], begin) : 0;
        r->own[n] = r->own[n] < OWN_MOST ? r->own[n] : OWN_MOST;
        if (!r->inside[n])
            continue;
        if (g->track[n] != track) {
            track = g->track[n];
            lane = on_lane(r->c, track);
        }
        if (lane && g->kind[n] == AN_NODE_THINK)
            r->think_ns = an_time_add(r->think_ns, r->own[n]);
        if (lane && g->kind[n] == AN_NODE_WAIT && !released &&
            !(in_line && g->cause[n] == AN_CAUSE_INPUT))
            r->held_ns = an_time_add(r->held_ns, r->own[n]);
    }
    return 0;
}

/* ---- latencies ------------------------------------------------------------------------------------------------------------- */

/* What let a device op start, and how long before: false if nothing is known. */
static bool latency_of_op(const struct an_graph *g, uint32_t n, enum an_latency *kind, int64_t *ns)
{
    uint32_t before = an_graph_before(g, n);
    int64_t release = AN_NEVER;
    for (size_t e = g->in_first[n]; e < g->in_first[n + 1]; e++)
        if (!an_replay_ends_waiting(g, n, e)) {
            int64_t x = an_edge_release(g, e);
            release = x > release ? x : release;
        }
    int64_t order = before != AN_NONE ? g->end[before] : AN_NEVER;
    if (release == AN_NEVER && order == AN_NEVER)
        return false;
    *kind = order >= release ? AN_AFTER_ORDER : AN_AFTER_EDGE;
    *ns = an_time_sub(g->start[n], order >= release ? order : release);
    return *ns >= 0 && *ns < INT32_MAX; /* below 0: ops of one stream overlap */
}

struct latencies {
    struct an_pair *sample; /* key: track, copy and kind; extra: ns */
    size_t count;
};

static double median_of(const struct latencies *l, size_t first, size_t last, double *work)
{
    for (size_t i = first; i < last; i++)
        work[i - first] = (double)l->sample[i].extra;
    return an_quantile_of(work, last - first, 0.5);
}

/* Fills the latencies of streams from the samples, which are sorted by key; `common` are those of
 * all streams. */
static void fill_latencies(struct an_replay *r, const struct latencies *l, const double *common,
                           double *work)
{
    size_t keys = r->c->t->track_count * 2 * AN_LATENCIES;
    for (size_t k = 0, i = 0, last; k < keys; k++, i = last) {
        for (last = i; last < l->count && l->sample[last].key == k; last++)
            ;
        double ns = last - i >= LATENCY_SAMPLES ? median_of(l, i, last, work)
                                                : common[k % (2 * AN_LATENCIES)];
        r->latency[k] = (int32_t)ns;
    }
}

/* Medians over all streams, of each kind: for streams with few ops. */
static void common_latencies(const struct latencies *l, double *common, double *work)
{
    for (size_t kind = 0; kind < 2 * AN_LATENCIES; kind++) {
        size_t n = 0;
        for (size_t i = 0; i < l->count; i++)
            if (l->sample[i].key % (2 * AN_LATENCIES) == kind)
                work[n++] = (double)l->sample[i].extra;
        common[kind] = n ? an_quantile_of(work, n, 0.5) : 0;
    }
}

static int latencies_of(struct an_replay *r)
{
    const struct an_graph *g = r->g;
    struct latencies l = {0};
    double common[2 * AN_LATENCIES], *work = malloc((r->node_count + 1) * sizeof *work);
    struct an_pair *room = malloc((r->node_count + 1) * sizeof *room);
    l.sample = malloc((r->node_count + 1) * sizeof *l.sample);
    r->latency =
        an_arena_zero(r->c->work, r->c->t->track_count * 2 * AN_LATENCIES, sizeof *r->latency);
    int rc = work && room && l.sample && r->latency ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; !rc && i < r->node_count; i++) {
        uint32_t n = r->node[i];
        enum an_latency kind;
        int64_t ns;
        if (g->kind[n] == AN_NODE_DEVICE && latency_of_op(g, n, &kind, &ns))
            l.sample[l.count++] =
                (struct an_pair){.key = (uint64_t)g->track[n] * 2 * AN_LATENCIES +
                                        (g->cause[n] == AN_CAUSE_COPY ? AN_LATENCIES : 0) + kind,
                                 .extra = (uint32_t)ns};
    }
    if (!rc) {
        an_pairs_sort(l.sample, room, l.count);
        common_latencies(&l, common, work);
        fill_latencies(r, &l, common, work);
    }
    free(work);
    free(room);
    free(l.sample);
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------- */

static int64_t within(int64_t time)
{
    return time < TIME_LEAST ? TIME_LEAST : time > TIME_MOST ? TIME_MOST : time;
}

int an_times_new(const struct an_replay *r, struct an_times *t)
{
    t->start = an_arena_copy(r->c->work, r->g->start, r->g->node_count * sizeof *t->start);
    t->end = an_arena_copy(r->c->work, r->g->end, r->g->node_count * sizeof *t->end);
    for (size_t n = 0; t->start && t->end && n < r->g->node_count; n++) {
        t->start[n] = within(t->start[n]);
        t->end[n] = within(t->end[n]);
    }
    return t->start && t->end ? 0 : TACHO_ENOMEM;
}

/* Steps of which one differs from the next by design. */
static uint32_t period_of(const struct an_context *c)
{
    const struct an_count *workers = &c->r->loader.workers;
    return workers->valid && workers->value > 1 && workers->value < 64 ? (uint32_t)workers->value
                                                                       : 1;
}

size_t an_replay_blocks(const struct an_replay *r, const double *value, int parity, double *out)
{
    size_t n = 0;
    for (size_t i = 0; i < r->step_count; i++) {
        const struct an_replay_step *s = &r->step[i];
        uint32_t p = s->of >= 4 * r->period ? r->period : 1, odd = s->place / p % 2;
        bool first = s->place % p == 0 && s->ordinal + p <= s->of;
        bool paired =
            odd ? s->ordinal >= p
                : s->ordinal + 2 * p <= s->of; /* an even block and the odd one behind it */
        if (!first || (parity >= 0 && (odd != (uint32_t)parity || !paired)) ||
            (parity < 0 && s->ordinal < p && !an_replay_counts(s)))
            continue;
        double sum = 0;
        for (uint32_t k = 0; k < p; k++)
            sum += value ? value[i + k] : (double)an_step_ns(&r->c->step[r->step[i + k].step]);
        out[n++] = sum / p;
    }
    return n;
}

int an_replay_of(struct an_context *c, const struct an_replay **out, const char **why)
{
    const struct an_graph *g = NULL;
    struct window_list l = {0};
    *out = NULL;
    int rc = an_graph_of(c, &g, why);
    if (rc || !g)
        return rc;
    struct an_replay *r = an_arena_zero(c->work, 1, sizeof *r);
    rc = r ? windows_of_all(c, &l) : TACHO_ENOMEM;
    if (!rc) {
        r->c = c;
        r->g = g;
        r->period = period_of(c);
        rc = frames_of(r, &l);
    }
    free(l.row);
    if (!rc && !r->frame_count) {
        *why = l.count ? "nothing is recorded behind a counted step: the replay takes a step's end "
                         "from what follows it; "
                         "record more steps"
                       : "no counted step has all its ranges in the file";
        return 0;
    }
    if (!rc && !(rc = nodes_of(r)) && !(rc = own_work(r)) && !(rc = latencies_of(r)))
        *out = r;
    return rc;
}
