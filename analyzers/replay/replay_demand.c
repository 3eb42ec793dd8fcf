/* SPDX-License-Identifier: Apache-2.0
 *
 * Who wants how much of what (replay_shares.h). A thread of the run that works wants one core; a
 * thread that sleeps in a range, or works on several cores (OpenMP), cannot be seen in ranges: the
 * CPU time that was sampled meanwhile tells.
 *
 *     wanted = sum of demand x work as recorded       used = CPU time of the run's processes ready
 * = used + waited for a core
 *
 * More ready than wanted: compute runs on several cores each. Less: threads slept in their ranges,
 * the loader's first. Then what others want, O, is what explains that only so much was used. Where
 * the time threads wait for a core was not sampled, ready is wanted on a machine that has no core
 * free, and used on one that has.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/counters/system.h"
#include "analyzers/replay/replay_shares_build.h"

#define SATURATED   95.0 /* % of the machine's CPU time: from here on threads wait for cores */
#define SPEED_LEAST 0.01 /* of a thread that is ready */
#define NEAR        0.02 /* of CPU time: sampled and replayed are the same */
#define HALVINGS    40
#define OTHERS      64.0 /* times the cores: the most that others may want */

/* ---- who shares what --------------------------------------------------------------------------------------------------------- */

static const char *host_of(const struct an_trace *t, uint32_t track)
{
    uint32_t p = t->track[track].process;
    return p == AN_NONE ? "" : t->process[p].host;
}

static bool is_work(const struct an_shares *s, uint32_t n)
{
    const struct an_graph *g = s->r->g;
    const struct an_count *workers = &s->r->c->r->loader.workers;
    switch (g->kind[n]) {
    case AN_NODE_HOST:
    case AN_NODE_COLLECTIVE:
        return true;
    case AN_NODE_THINK:
        return s->lane[g->track[n]];
    case AN_NODE_WAIT: /* in line a fetch is work */
        return s->lane[g->track[n]] && g->cause[n] == AN_CAUSE_INPUT && workers->valid &&
               !workers->value;
    default:
        return false;
    }
}

static int add_share(struct an_shares *s, size_t *room, double capacity)
{
    if (an_grow(&s->share, room, s->count + 1, sizeof *s->share))
        return TACHO_ENOMEM;
    s->share[s->count++] = (struct an_share){.capacity = capacity};
    return 0;
}

/* One share a host: threads of the run's processes on its cores. */
static int find_cores(struct an_shares *s, size_t *room)
{
    const struct an_context *c = s->r->c;
    const struct an_graph *g = s->r->g;
    uint32_t *first = an_arena_zero(c->work, c->t->track_count + 1, sizeof *first);
    uint16_t *of = s->host = an_arena_zero(c->work, c->t->track_count + 1, sizeof *of);
    int rc = first && of ? 0 : TACHO_ENOMEM;
    for (uint32_t k = 0; k < c->t->track_count && !rc; k++) {
        size_t h = 0;
        if (g->track_first[k] == g->track_first[k + 1])
            continue;
        while (h < s->count && strcmp(host_of(c->t, first[h]), host_of(c->t, k)) != 0)
            h++;
        of[k] = (uint16_t)h;
        if (h < s->count || h == AN_NO_SHARE)
            continue;
        first[h] = k;
        rc = add_share(s, room, (double)c->r->run.cores.value);
    }
    for (size_t i = 0; i < s->r->node_count && !rc; i++) {
        uint32_t n = s->r->node[i];
        if (!an_graph_on_device(g, n) && is_work(s, n))
            s->of[n] = of[g->track[n]];
        s->waits += an_share_waits(g, n);
    }
    s->hosts = s->count;
    s->cores = s->hosts > 0;
    return rc;
}

/* Copies of one kind on one device share its link to the host; transfers of collectives on one
 * device, where they are told from waiting, its link to the others. */
static int find_links(struct an_shares *s, size_t *room)
{
    const struct an_context *c = s->r->c;
    const struct an_device_ops *o = &c->gpu->op;
    struct {
        const char *kind;
        size_t share;
    } link[16];
    int rc = 0;
    for (size_t d = 0; d < c->gpu->device_count && !rc; d++) {
        size_t links = 0;
        for (size_t i = c->gpu->device[d].first;
             i < c->gpu->device[d].first + c->gpu->device[d].count && !rc; i++) {
            const struct an_detail *x = an_trace_detail(c->t, c->t->slice.detail[o->slice[i]]);
            const char *kind =
                o->class[i] == AN_DEVICE_COPY && x && *x->copy_kind ? x->copy_kind
                : o->class[i] == AN_DEVICE_COMM && c->r->communication.waiting_ms.valid ? ""
                                                                                        : NULL;
            uint32_t n = s->r->g->op_node[i];
            size_t k = 0;
            if (!kind || n == AN_NONE || !s->r->inside[n])
                continue;
            while (k < links && strcmp(link[k].kind, kind) != 0)
                k++;
            if (k == sizeof link / sizeof *link || s->count >= AN_NO_SHARE)
                continue;
            if (k == links) {
                link[links].kind = kind;
                link[links++].share = s->count;
                rc = add_share(s, room, 1);
            }
            s->of[n] = (uint16_t)link[k].share;
        }
    }
    return rc;
}

int an_shares_find(struct an_shares *s)
{
    struct an_context *c = s->r->c;
    struct an_share *all = NULL;
    size_t room = 0;
    if (!(s->lane = an_arena_zero(c->work, c->t->track_count + 1, sizeof *s->lane)))
        return TACHO_ENOMEM;
    for (size_t k = 0; k < c->lane_count; k++)
        if (c->lane[k].track != AN_NONE)
            s->lane[c->lane[k].track] = true;
    int rc = c->r->run.cores.valid && c->r->run.cores.value > 0 ? find_cores(s, &room) : 0;
    if (!rc && c->gpu)
        rc = find_links(s, &room);
    if (!rc && s->count)
        all = an_arena_copy(c->work, s->share, s->count * sizeof *all);
    rc = rc || all || !s->count ? rc : TACHO_ENOMEM;
    free(s->share);
    s->share = all;
    return rc;
}

/* ---- how much ---------------------------------------------------------------------------------------------------------------- */

/* Sums over the uses of cores. */
struct sums {
    double work[AN_CAUSE_COUNT]; /* ns as recorded, without demands */
    double waiting;              /* the same of threads in calls that wait for other ranks */
    double time;                 /* ns of frames, times hosts */
};

/* Does a node work on cores, and how? */
static bool core_use(const struct an_shares *s, uint32_t n, struct an_use *u)
{
    return an_use_get(s, n, u) && u->share < s->hosts;
}

static struct sums sums_of(const struct an_shares *s)
{
    struct sums x = {{0}, 0, 0};
    for (size_t i = 0; i < s->r->node_count; i++) {
        uint32_t n = s->r->node[i];
        struct an_use u;
        if (!core_use(s, n, &u))
            continue;
        double *sum = u.spins ? &x.waiting : &x.work[s->r->g->cause[n]];
        *sum += (double)an_time_sub(u.end, u.start);
    }
    for (size_t f = 0; f < s->r->frame_count; f++)
        x.time += (double)an_time_sub(s->r->frame[f].end, s->r->frame[f].start);
    return x;
}

static double wanted_of(const struct an_shares *s, const struct sums *x)
{
    double sum = (double)s->spin * x->waiting;
    for (size_t k = 0; k < AN_CAUSE_COUNT; k++)
        sum += (double)s->demand[k] * x->work[k];
    return x->time > 0 ? sum / x->time : 0;
}

/* Mean of a rate over the frames. */
static struct an_value over_frames(const struct an_replay *r, const char *name, const char *other)
{
    double sum = 0, time = 0;
    struct an_value x = an_num_none("no steps");
    for (size_t f = 0; f < r->frame_count; f++) {
        x = an_system_rate(r->c, name, other, r->frame[f].start, r->frame[f].end);
        if (!x.valid)
            continue;
        double ns = (double)an_time_sub(r->frame[f].end, r->frame[f].start);
        sum += x.value * ns;
        time += ns;
    }
    return time > 0 ? an_num(sum / time) : x;
}

/* CPU time per time that the run's uses of cores get by the model. */
static double received(struct an_shares *s, double others, const struct sums *x)
{
    double sum = 0;
    for (size_t k = 0; k < s->hosts; k++)
        s->share[k].others = others;
    an_shares_sweep(s);
    for (size_t k = 0; k < s->hosts; k++)
        sum += s->share[k].received;
    return x->time > 0 ? sum / x->time : 0;
}

static double others_of(struct an_shares *s, double used, double least, const struct sums *x)
{
    double low = least, high = OTHERS * s->share[0].capacity;
    if (received(s, low, x) <= used * (1 + NEAR))
        return low;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (received(s, middle, x) > used)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of a thread that is ready for a part of its time only, that part shrinks when it need not share:
 * `speed` is the mean at which threads that were ready worked. */
static void set_demands(struct an_shares *s, double speed)
{
    for (size_t k = 0; k < AN_CAUSE_COUNT; k++) {
        double ready = (double)s->demand[k] < 1 ? (double)s->demand[k] : 1;
        s->part[k] = (float)(ready * speed / (1 - ready + ready * speed));
    }
}

/* Compute on several cores each, so that what is wanted is what was ready. */
static void more_cores(struct an_shares *s, double ready, const struct sums *x)
{
    double compute = x->time > 0 ? x->work[AN_CAUSE_COMPUTE] / x->time : 0,
           rest = wanted_of(s, x) - compute;
    double each = compute > 0 ? (ready - rest) / compute : 1;
    s->demand[AN_CAUSE_COMPUTE] = (float)(each < 1                      ? 1
                                          : each > s->share[0].capacity ? s->share[0].capacity
                                                                        : each);
}

/* Threads that slept in their ranges: the loader's, then all. */
static void less_cores(struct an_shares *s, double ready, const struct sums *x)
{
    double input = x->time > 0 ? x->work[AN_CAUSE_INPUT] / x->time : 0,
           rest = wanted_of(s, x) - input;
    double each = input > 0 && ready > rest ? (ready - rest) / input : 0;
    if (input > 0)
        s->demand[AN_CAUSE_INPUT] = (float)(each < 1 ? each : 1);
    if (rest > ready && rest > 0)
        for (size_t k = 0; k < AN_CAUSE_COUNT; k++)
            s->demand[k] *= (float)(ready / rest);
}

static void core_use_absent(struct an_core_use *use, const char *why)
{
    struct an_value *all[] = {&use->wanted, &use->used, &use->others, &use->short_pct,
                              &use->slowdown_pct};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_num_none(why);
}

/* What the run did to cores as it was recorded. */
static void fill(const struct an_shares *s, const struct sums *x, struct an_core_use *use)
{
    double full = 0, stretched = 0, alone = 0;
    for (size_t k = 0; k < s->hosts; k++)
        full += s->share[k].full_ns;
    for (size_t i = 0; i < s->r->node_count; i++) {
        uint32_t n = s->r->node[i];
        struct an_use u;
        if (!core_use(s, n, &u) || u.spins)
            continue;
        double ns = (double)an_time_sub(u.end, u.start);
        stretched += ns;
        alone += ns / an_use_stretch(s, n, &u);
    }
    use->wanted = an_num(wanted_of(s, x) / (double)s->hosts);
    use->short_pct = x->time > 0 ? an_num(100 * full / x->time / (double)s->hosts)
                                 : an_num_none("the steps take no time");
    use->slowdown_pct = alone > 0 ? an_num(100 * (stretched / alone - 1))
                                  : an_num_none("no thread works in the steps");
}

/* What was sampled: cores that the run got, and that its threads were ready for. */
struct sampled {
    double got, ready;
    double least; /* cores that others had */
    bool told;    /* is it known what others had? */
    bool full;    /* no core was free, or it is known how long threads waited for one */
    bool waited;  /* the latter */
};

static struct sampled sampled_of(struct an_shares *s, struct an_core_use *use)
{
    const struct an_replay *r = s->r;
    struct an_value busy =
        an_system_busy(r->c, r->frame[0].start, r->frame[r->frame_count - 1].end);
    struct an_value waited = over_frames(r, "cpu_wait", NULL);
    const char *text = an_trace_key(r->c->t, "cpu.online");
    double online = text ? strtod(text, NULL) : s->share[0].capacity;
    use->used = over_frames(r, "cpu_time", "other_cpu_time");
    use->others = an_num_none(use->used.valid ? busy.reason : use->used.reason);
    if (!use->used.valid)
        return (struct sampled){0};
    double got = use->used.value /= 1e9; /* ns a second */
    double least = busy.valid ? online * busy.value / 100 - got / (double)s->hosts : 0;
    return (struct sampled){.got = got,
                            .ready = got + (waited.valid ? waited.value / 1e9 : 0),
                            .least = least > 0 ? least : 0,
                            .told = busy.valid || waited.valid,
                            .full = waited.valid || (busy.valid && busy.value >= SATURATED),
                            .waited = waited.valid};
}

/* Of what was ready beyond the ranges, `spin` is that of threads that wait for other ranks. */
static void spinning(struct an_shares *s, double ready, const struct sums *x)
{
    double each = x->waiting > 0 ? (ready - wanted_of(s, x)) * x->time / x->waiting : 0;
    s->spin = (float)(each < 1 ? each : 1);
}

/* Demands and what others want, as the surplus is read. */
static void read_surplus(struct an_shares *s, enum an_surplus surplus, const struct sampled *m,
                         struct sums *x, double *others)
{
    double ready = m->ready, got = m->got;
    bool more = ready > wanted_of(s, x);
    if (more && surplus == AN_SURPLUS_SPINS) {
        spinning(s, ready, x);
        more = ready > wanted_of(s, x);
    }
    if (more && surplus == AN_SURPLUS_YIELDS) { /* what works was held up as much as what spins */
        got = ready > 0 ? wanted_of(s, x) * got / ready : got;
        ready = wanted_of(s, x);
    } else if (more)
        more_cores(s, ready, x);
    else if (m->waited || !m->full)
        less_cores(s, ready, x);
    set_demands(s, ready > 0 && got < ready ? fmax(got / ready, SPEED_LEAST) : 1);
    if (m->told)
        *others = m->full ? others_of(s, got, m->waited ? 0 : m->least, x) : m->least;
}

/* One reading, from the uses as recorded. 0 or TACHO_ENOMEM. */
static int add_reading(struct an_shares *s, enum an_surplus surplus, const struct sampled *m,
                       const struct an_times *base, struct sums *x)
{
    size_t nodes = s->r->g->node_count;
    struct an_reading *reading = &s->reading[s->reading_count++];
    double others = 0;
    for (size_t k = 0; k < AN_CAUSE_COUNT; k++)
        s->demand[k] = s->part[k] = 1;
    s->spin = surplus == AN_SURPLUS_SPINS;
    int rc = an_shares_uses(s, s->r->own, NULL, base);
    if (rc || !(reading->stretch = an_arena_zero(s->r->c->work, nodes, sizeof *reading->stretch)))
        return TACHO_ENOMEM;
    an_shares_sweep(s);
    *x = sums_of(s);
    s->spin = 0;
    if (m && m->got > 0)
        read_surplus(s, surplus, m, x, &others);
    if (m)
        (void)received(s, others, x);
    memcpy(reading->demand, s->demand, sizeof s->demand);
    memcpy(reading->part, s->part, sizeof s->part);
    reading->spin = s->spin;
    reading->others = others;
    for (size_t n = 0; n < nodes; n++)
        reading->stretch[n] = 1;
    for (size_t i = 0; i < s->r->node_count; i++) {
        struct an_use u;
        if (an_use_get(s, s->r->node[i], &u))
            reading->stretch[s->r->node[i]] = (float)an_use_stretch(s, s->r->node[i], &u);
    }
    return 0;
}

static int calibrate_cores(struct an_shares *s, const struct an_times *base,
                           struct an_core_use *use)
{
    const struct sampled m = sampled_of(s, use);
    struct sums x;
    int rc = add_reading(s, AN_SURPLUS_WORK, &m, base, &x);
    if (rc)
        return rc;
    if (m.got > 0 && m.told)
        use->others = an_num(s->reading[0].others);
    fill(s, &x, use);
    double ranges = 0;
    for (size_t k = 0; k < AN_CAUSE_COUNT; k++)
        ranges += x.time > 0 ? x.work[k] / x.time : 0;
    if (m.ready <= ranges * (1 + NEAR))
        return 0;
    rc = add_reading(s, AN_SURPLUS_YIELDS, &m, base, &x);
    return rc || !s->waits ? rc : add_reading(s, AN_SURPLUS_SPINS, &m, base, &x);
}

int an_shares_calibrate(struct an_shares *s, const struct an_times *base, struct an_core_use *use)
{
    const struct an_count *cores = &s->r->c->r->run.cores;
    struct sums x;
    use->cores = cores->valid ? an_num((double)cores->value) : an_num_none(cores->reason);
    int rc =
        s->cores ? calibrate_cores(s, base, use) : add_reading(s, AN_SURPLUS_WORK, NULL, base, &x);
    if (!s->cores)
        core_use_absent(use, cores->valid ? "no thread of the run is replayed" : cores->reason);
    if (!rc)
        an_shares_read(s, 0);
    return rc;
}
