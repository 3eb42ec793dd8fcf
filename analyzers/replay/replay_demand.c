/* SPDX-License-Identifier: Apache-2.0
 *
 * How many cores each piece of work demands, and which link it uses (replay_shares.h). A thread
 * that works demands one core. Ranges do not show a thread that sleeps in a range, or one that
 * works on several cores (OpenMP); the CPU time that was sampled at the same time does.
 *
 *     wanted = sum of demand x work as recorded       used = CPU time of the run's processes
 *     ready  = used / (1 - the part of its time in which a thread waited for a core)
 *
 * Of a loader in line the account of its thread says for how long it slept; it is the first to have
 * done so. If more was ready than wanted, compute ran on several cores each. If less was, threads
 * slept in their ranges, those of the loader first. What other programs want, O, then follows from
 * how little of what was ready was used. Where the time that threads waited for a core was not
 * sampled, ready is taken as wanted on a machine without a free core, and as used on one with free
 * cores.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/counters/system.h"
#include "analyzers/replay/replay_shares_private.h"
#include "analyzers/steps/command.h"

#define SATURATED    95.0 /* % of the machine's CPU time: from here on threads wait for cores */
#define SPEED_LEAST  0.01 /* of a thread that is ready */
#define NEAR         0.02 /* of CPU time: sampled and replayed are the same */
#define WHOLE        0.15 /* of a thread: so few less than all of a team are all of it */
#define OTHERS_LEAST 0.05 /* cores: less is what a recorder and the system need */
#define HALVINGS     40
#define OTHERS       64.0 /* times the cores: the most that others may want */

/* ---- who shares what --------------------------------------------------------------------------------------------------------- */

static const char *host_of(const struct an_trace *trace, uint32_t track)
{
    uint32_t process = trace->track[track].process;
    return process == AN_NONE ? "" : trace->process[process].host;
}

static bool is_work(const struct an_shares *shares, uint32_t node)
{
    const struct an_graph *graph = shares->replay->graph;
    const struct an_count *workers = &shares->replay->context->result->loader.workers;
    switch (graph->kind[node]) {
    case AN_NODE_HOST:
    case AN_NODE_COLLECTIVE:
        return true;
    case AN_NODE_UNTRACED:
        return shares->runs_steps[graph->track[node]];
    case AN_NODE_WAIT: /* in line a fetch is work */
        return shares->runs_steps[graph->track[node]] && graph->cause[node] == AN_CAUSE_INPUT &&
               workers->valid && !workers->value;
    default:
        return false;
    }
}

static int add_share(struct an_shares *shares, size_t *room, double capacity)
{
    if (an_grow(&shares->share, room, shares->count + 1, sizeof *shares->share))
        return TACHO_ENOMEM;
    shares->share[shares->count++] = (struct an_share){.capacity = capacity};
    return 0;
}

/* One share a host: threads of the run's processes on its cores. */
static int find_cores(struct an_shares *shares, size_t *room)
{
    const struct an_context *context = shares->replay->context;
    const struct an_graph *graph = shares->replay->graph;
    uint32_t *first_track =
        an_arena_zero(context->scratch, context->trace->track_count + 1, sizeof *first_track);
    uint16_t *host_of_track = shares->host_share =
        an_arena_zero(context->scratch, context->trace->track_count + 1, sizeof *host_of_track);
    int rc = first_track && host_of_track ? 0 : TACHO_ENOMEM;
    for (uint32_t track = 0; track < context->trace->track_count && !rc; track++) {
        size_t host = 0;
        if (graph->track_first[track] == graph->track_first[track + 1])
            continue;
        while (host < shares->count && strcmp(host_of(context->trace, first_track[host]),
                                              host_of(context->trace, track)) != 0)
            host++;
        host_of_track[track] = (uint16_t)host;
        if (host < shares->count || host == AN_NO_SHARE)
            continue;
        first_track[host] = track;
        rc = add_share(shares, room, an_system_capacity(context));
    }
    for (size_t i = 0; i < shares->replay->node_count && !rc; i++) {
        uint32_t node = shares->replay->node[i];
        if (!an_graph_on_device(graph, node) && is_work(shares, node))
            shares->share_of[node] = host_of_track[graph->track[node]];
        shares->waits += an_share_waits(graph, node);
    }
    shares->hosts = shares->count;
    shares->cores = shares->hosts > 0;
    return rc;
}

/* The kind of link that a device op uses: its copy kind, "" for collectives whose transfer is
 * known; NULL: none. */
static const char *link_kind(const struct an_context *context, size_t op)
{
    const struct an_device_ops *ops = &context->gpu->op;
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[ops->slice[op]]);
    if (ops->class[op] == AN_DEVICE_COPY && detail && *detail->copy_kind)
        return detail->copy_kind;
    bool split = context->result->communication.waiting_ms.valid;
    return ops->class[op] == AN_DEVICE_COMM && split ? "" : NULL;
}

/* Copies of one kind on one device share its link to the host; transfers of collectives on one
 * device, where they are known apart from waiting, its link to the others. */
static int find_links(struct an_shares *shares, size_t *room)
{
    const struct an_context *context = shares->replay->context;
    struct {
        const char *kind;
        size_t share;
    } link[16];
    int rc = 0;
    for (size_t device = 0; device < context->gpu->device_count && !rc; device++) {
        size_t links = 0, first = context->gpu->device[device].first,
               end = first + context->gpu->device[device].count;
        for (size_t i = first; i < end && !rc; i++) {
            const char *kind = link_kind(context, i);
            uint32_t node = shares->replay->graph->op_node[i];
            size_t found = 0;
            if (!kind || node == AN_NONE || !shares->replay->inside[node])
                continue;
            while (found < links && strcmp(link[found].kind, kind) != 0)
                found++;
            if (found == sizeof link / sizeof *link || shares->count >= AN_NO_SHARE)
                continue;
            if (found == links) {
                link[links].kind = kind;
                link[links++].share = shares->count;
                rc = add_share(shares, room, 1);
            }
            shares->share_of[node] = (uint16_t)link[found].share;
        }
    }
    return rc;
}

int an_shares_find(struct an_shares *shares)
{
    struct an_context *context = shares->replay->context;
    struct an_share *all = NULL;
    size_t room = 0;
    if (!(shares->runs_steps = an_arena_zero(context->scratch, context->trace->track_count + 1,
                                             sizeof *shares->runs_steps)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->lane_count; i++)
        if (context->lane[i].track != AN_NONE)
            shares->runs_steps[context->lane[i].track] = true;
    int rc = context->result->run.cores.valid && context->result->run.cores.value > 0
                 ? find_cores(shares, &room)
                 : 0;
    if (!rc && context->gpu)
        rc = find_links(shares, &room);
    if (!rc && shares->count)
        all = an_arena_copy(context->scratch, shares->share, shares->count * sizeof *all);
    rc = rc || all || !shares->count ? rc : TACHO_ENOMEM;
    free(shares->share);
    shares->share = all;
    return rc;
}

/* ---- how much ---------------------------------------------------------------------------------------------------------------- */

/* Sums over the uses of cores. */
struct sums {
    double work[AN_CAUSE_COUNT]; /* ns as recorded, without demands */
    double waiting;              /* the same of threads in calls that wait for other ranks */
    double steps;                /* the same of threads that run steps, with waiting for ranks */
    double in_line;              /* the same of the loader on these threads */
    double time;                 /* ns of frames, times hosts */
};

/* Does a node work on cores? Then *use says how. */
static bool get_core_use(const struct an_shares *shares, uint32_t node, struct an_use *use)
{
    return an_use_get(shares, node, use) && use->share < shares->hosts;
}

static struct sums sums_of(const struct an_shares *shares)
{
    struct sums sums = {{0}, 0, 0, 0, 0};
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        struct an_use use;
        if (an_share_waits(shares->replay->graph, node))
            sums.steps +=
                (double)(an_time_sub(shares->times->end[node], shares->times->start[node]) -
                         shares->own[node]);
        if (!get_core_use(shares, node, &use))
            continue;
        double *sum = use.spins ? &sums.waiting : &sums.work[shares->replay->graph->cause[node]];
        *sum += (double)an_time_sub(use.end, use.start);
        if (use.spins || !shares->runs_steps[shares->replay->graph->track[node]])
            continue;
        sums.steps += (double)an_time_sub(use.end, use.start);
        if (shares->replay->graph->cause[node] == AN_CAUSE_INPUT)
            sums.in_line += (double)an_time_sub(use.end, use.start);
    }
    for (size_t frame = 0; frame < shares->replay->frame_count; frame++)
        sums.time += (double)an_time_sub(shares->replay->frame[frame].end,
                                         shares->replay->frame[frame].start);
    return sums;
}

static double wanted_of(const struct an_shares *shares, const struct sums *sums)
{
    double sum = (double)shares->spin * sums->waiting;
    for (size_t cause = 0; cause < AN_CAUSE_COUNT; cause++)
        sum += (double)shares->demand[cause] * sums->work[cause];
    return sums->time > 0 ? sum / sums->time : 0;
}

/* What was sampled: cores that the run got, and that its threads were ready for. */
struct sampled {
    double got, waiting; /* waiting: threads that run steps, for a core */
    double asleep;       /* threads that run steps, of a loader in line; 0: it is not known */
    double least;        /* cores that others had */
    bool busy;           /* is `least` known? */
    bool known;          /* is it known what others had? */
    bool saturated;
    bool full;   /* no core was free, or it is known how long threads waited for one */
    bool waited; /* the latter */
};

/* The mean of a sampled rate over the frames. */
static struct an_value mean_rate(const struct an_replay *replay, const char *name,
                                 const char *other)
{
    double sum = 0, time = 0;
    struct an_value rate = an_num_none("no steps");
    for (size_t i = 0; i < replay->frame_count; i++) {
        rate = an_system_rate(replay->context, name, other, replay->frame[i].start,
                              replay->frame[i].end);
        if (!rate.valid)
            continue;
        double ns = (double)an_time_sub(replay->frame[i].end, replay->frame[i].start);
        sum += rate.value * ns;
        time += ns;
    }
    return time > 0 ? an_num(sum / time) : rate;
}

/* The cores that the run gets by the model if other programs want `others`. */
static double received_cores(struct an_shares *shares, double others, const struct sums *sums)
{
    double sum = 0;
    for (size_t host = 0; host < shares->hosts; host++)
        shares->share[host].others = others;
    an_shares_sweep(shares);
    for (size_t host = 0; host < shares->hosts; host++)
        sum += shares->share[host].received;
    return sums->time > 0 ? sum / sums->time : 0;
}

static double fit_others(struct an_shares *shares, double used, double least,
                         const struct sums *sums)
{
    double low = least, high = OTHERS * shares->share[0].capacity;
    if (received_cores(shares, low, sums) <= used * (1 + NEAR))
        return low;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (received_cores(shares, middle, sums) > used)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of a thread that is ready for a part of its time only, that part shrinks when it need not share:
 * `speed` is the mean at which threads that were ready worked. */
static void set_parts(struct an_shares *shares, double speed)
{
    for (size_t cause = 0; cause < AN_CAUSE_COUNT; cause++) {
        double ready = (double)shares->demand[cause] < 1 ? (double)shares->demand[cause] : 1;
        shares->part[cause] = (float)(ready * speed / (1 - ready + ready * speed));
    }
}

/* Cores that each piece of compute has if the run has `cores` in all. */
static double cores_of_compute(const struct an_shares *shares, double cores,
                               const struct sums *sums)
{
    double compute = sums->time > 0 ? sums->work[AN_CAUSE_COMPUTE] / sums->time : 0,
           rest = wanted_of(shares, sums) - (double)shares->demand[AN_CAUSE_COMPUTE] * compute;
    return compute > 0 ? (cores - rest) / compute : 1;
}

/* Raises the demand of compute, which runs on several cores each, until what is wanted is what was
 * ready: to as many as its team has threads, or the machine cores; what is left spins outside of
 * compute. On a machine without a free core others have what its threads lack. Returns what is
 * wanted then. */
static double raise_compute_demand(struct an_shares *shares, double ready,
                                   const struct sampled *sampled, const struct sums *sums)
{
    double had = cores_of_compute(shares, sampled->got, sums),
           each = cores_of_compute(shares, ready, sums),
           team = (double)an_command_team(shares->replay->context),
           threads = fmax(team > 0 ? team
                                   : fmin(ceil(each - AN_CORES_ROUNDED), shares->share[0].capacity),
                          fmin(ceil(had - AN_CORES_ROUNDED), shares->share[0].capacity));
    if (sampled->saturated && sampled->busy)
        each = fmax(each, cores_of_compute(shares, sampled->got + sampled->least, sums));
    each = each > threads - WHOLE ? threads : each;
    shares->demand[AN_CAUSE_COMPUTE] = (float)fmax(1, each);
    return wanted_of(shares, sums);
}

/* Lets a loader in line want no core for as long as its thread is known to have slept. */
static void let_loader_sleep(struct an_shares *shares, const struct sampled *sampled,
                             const struct sums *sums)
{
    double input = sums->time > 0 ? sums->in_line / sums->time : 0;
    if (input > 0)
        shares->demand[AN_CAUSE_INPUT] = (float)fmax(0, 1 - sampled->asleep / input);
}

/* Lowers the demand of threads that slept in their ranges: the loader's first, then all. */
static void lower_demands(struct an_shares *shares, double ready, const struct sums *sums)
{
    double input = sums->time > 0 ? sums->work[AN_CAUSE_INPUT] / sums->time : 0,
           rest = wanted_of(shares, sums) - (double)shares->demand[AN_CAUSE_INPUT] * input;
    double each = input > 0 && ready > rest ? (ready - rest) / input : 0;
    if (input > 0)
        shares->demand[AN_CAUSE_INPUT] = (float)(each < 1 ? each : 1);
    if (rest > ready && rest > 0)
        for (size_t cause = 0; cause < AN_CAUSE_COUNT; cause++)
            shares->demand[cause] *= (float)(ready / rest);
}

static void core_use_absent(struct an_core_use *use, const char *why)
{
    struct an_value *all[] = {&use->wanted, &use->used, &use->others, &use->short_pct,
                              &use->slowdown_pct};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_num_none(why);
}

/* Fills how the run used cores as it was recorded. */
static void fill_core_use(const struct an_shares *shares, const struct sums *sums,
                          struct an_core_use *use)
{
    double full = 0, stretched = 0, alone = 0;
    for (size_t host = 0; host < shares->hosts; host++)
        full += shares->share[host].full_ns;
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        struct an_use use_of_node;
        if (!get_core_use(shares, node, &use_of_node) || use_of_node.spins)
            continue;
        double ns = (double)an_time_sub(use_of_node.end, use_of_node.start);
        stretched += ns;
        alone += ns / an_use_slowdown(shares, node, &use_of_node);
    }
    use->wanted = an_num(wanted_of(shares, sums) / (double)shares->hosts);
    use->short_pct = sums->time > 0 ? an_num(100 * full / sums->time / (double)shares->hosts)
                                    : an_num_none("the steps take no time");
    use->slowdown_pct = alone > 0 ? an_num(100 * (stretched / alone - 1))
                                  : an_num_none("no thread works in the steps");
}

/* Threads that run steps and sleep, as a mean, where nothing but a loader in line makes them: they
 * neither run nor wait for a core. 0: it is not known. What they sleep in checkpoints is not the
 * loader's. */
static double asleep_in_line(const struct an_replay *replay, const struct an_value *waited)
{
    const struct an_context *context = replay->context;
    const struct an_count *workers = &context->result->loader.workers;
    struct an_value ran = mean_rate(replay, "thread_time", NULL);
    double threads = 0;
    if (!waited->valid || !ran.valid || !workers->valid || workers->value > 0)
        return 0;
    for (size_t i = 0; i < context->lane_count; i++)
        threads += context->lane[i].track != AN_NONE;
    double asleep = threads - (ran.value + waited->value) / 1e9;
    for (size_t i = 0; i < context->result->phase_count; i++) {
        const struct an_phase *phase = &context->result->phases[i];
        if (!strcmp(phase->name, "checkpoint") && phase->lane_run_ms > 0)
            asleep -= threads * phase->lane_ms / phase->lane_run_ms;
    }
    return fmax(0, asleep);
}

static struct sampled read_samples(struct an_shares *shares, struct an_core_use *use)
{
    const struct an_replay *replay = shares->replay;
    struct an_value busy = an_system_busy(replay->context, replay->frame[0].start,
                                          replay->frame[replay->frame_count - 1].end);
    struct an_value waited = mean_rate(replay, "cpu_wait", NULL);
    const char *text = an_trace_key(replay->context->trace, "cpu.online");
    double online = text ? strtod(text, NULL) : shares->share[0].capacity;
    use->used = mean_rate(replay, "cpu_time", "other_cpu_time");
    use->others = an_num_none(use->used.valid ? busy.reason : use->used.reason);
    if (!use->used.valid)
        return (struct sampled){0};
    double got = use->used.value /= 1e9; /* ns a second */
    double least = busy.valid ? online * busy.value / 100 - got / (double)shares->hosts : 0;
    bool saturated = busy.valid && busy.value >= SATURATED;
    return (struct sampled){.got = got,
                            .waiting = waited.valid ? waited.value / 1e9 : 0,
                            .asleep = asleep_in_line(replay, &waited),
                            .least = least > 0 ? least : 0,
                            .busy = busy.valid,
                            .known = busy.valid || waited.valid,
                            .saturated = saturated,
                            .full = waited.valid || saturated,
                            .waited = waited.valid};
}

/* The cores that threads were ready for. Only the first thread of each process says how long it
 * waited for one; the others are taken to have waited for the same part of the time in which they
 * were ready. The first ones were ready for all of their work, or for less, if all that the run got
 * was theirs. */
static double ready_cores(const struct sampled *sampled, const struct sums *sums)
{
    double working = sums->time > 0 ? sums->steps / sums->time - sampled->asleep : 0,
           ready = fmin(fmax(0, working), sampled->got + sampled->waiting);
    double lacking = ready > 0 ? fmin(sampled->waiting / ready, 1 - SPEED_LEAST) : 0;
    return sampled->got / (1 - lacking);
}

/* Was more ready than what the ranges want? Of a team on a machine without a free core the CPU time
 * may be less than that. */
static bool has_surplus(const struct an_shares *shares, const struct sampled *sampled,
                        const struct sums *sums)
{
    double wanted = wanted_of(shares, sums) * (1 + NEAR);
    bool team = an_command_team(shares->replay->context) > 1;
    return ready_cores(sampled, sums) > wanted ||
           (team && sampled->saturated && sampled->got + sampled->least > wanted);
}

/* Sets what threads demand while they wait for other ranks, from what was ready beyond the ranges.
 */
static void set_spin_demand(struct an_shares *shares, double ready, const struct sums *sums)
{
    double each =
        sums->waiting > 0 ? (ready - wanted_of(shares, sums)) * sums->time / sums->waiting : 0;
    shares->spin = (float)(each < 1 ? each : 1);
}

/* Sets the demands and what other programs want, by one interpretation of the CPU time beyond the
 * ranges. */
static void interpret_surplus(struct an_shares *shares, enum an_surplus surplus,
                              const struct sampled *sampled, struct sums *sums, double *others)
{
    double ready = ready_cores(sampled, sums), got = sampled->got;
    bool more = has_surplus(shares, sampled, sums);
    if (more && surplus >= AN_SURPLUS_SPINS) {
        set_spin_demand(shares, ready, sums);
        more = has_surplus(shares, sampled, sums);
    }
    if (more && surplus == AN_SURPLUS_YIELDS) { /* what works was held up as much as what spins */
        got = ready > 0 ? wanted_of(shares, sums) * got / ready : got;
        ready = wanted_of(shares, sums);
    } else if (more)
        ready = raise_compute_demand(shares, ready, sampled, sums);
    else if (sampled->waited || !sampled->full)
        lower_demands(shares, ready, sums);
    set_parts(shares, ready > 0 && got < ready ? fmax(got / ready, SPEED_LEAST) : 1);
    if (!sampled->known)
        return;
    *others = sampled->least;
    if (sampled->full)
        *others = fit_others(shares, got, sampled->waited ? 0 : sampled->least, sums);
    if (sampled->waited && sampled->busy && got > 0)
        *others = fmin(*others, sampled->least * ready / got);
}

/* Adds one interpretation of the CPU time, from the uses as recorded. 0 or TACHO_ENOMEM. */
static int add_reading(struct an_shares *shares, enum an_surplus surplus,
                       const struct sampled *sampled, const struct an_times *base,
                       struct sums *sums)
{
    size_t nodes = shares->replay->graph->node_count;
    struct an_reading *reading = &shares->reading[shares->reading_count++];
    reading->surplus = surplus;
    shares->loose = surplus == AN_SURPLUS_LOOSE;
    double others = 0;
    for (size_t cause = 0; cause < AN_CAUSE_COUNT; cause++)
        shares->demand[cause] = shares->part[cause] = 1;
    shares->spin = surplus >= AN_SURPLUS_SPINS;
    shares->held = NULL;
    int rc = an_shares_uses(shares, shares->replay->own, NULL, base);
    if (rc || !(reading->slowdown = an_arena_zero(shares->replay->context->scratch, nodes,
                                                  sizeof *reading->slowdown)))
        return TACHO_ENOMEM;
    an_shares_sweep(shares);
    *sums = sums_of(shares);
    shares->spin = 0;
    if (sampled)
        let_loader_sleep(shares, sampled, sums);
    if (sampled && sampled->got > 0)
        interpret_surplus(shares, surplus, sampled, sums, &others);
    bool held = surplus >= AN_SURPLUS_SPINS && sampled->saturated && sampled->waiting > 0 &&
                sampled->least >= OTHERS_LEAST && shares->demand[AN_CAUSE_COMPUTE] <= 1;
    if (held && !(reading->held = an_shares_held(shares, fmin(1, sampled->least / sampled->waiting),
                                                 surplus == AN_SURPLUS_SPREAD ? sums->time : 0)))
        return TACHO_ENOMEM;
    if (sampled)
        (void)received_cores(shares, held ? 0 : others, sums);
    shares->held = reading->held;
    shares->holding = 1;
    memcpy(reading->demand, shares->demand, sizeof shares->demand);
    memcpy(reading->part, shares->part, sizeof shares->part);
    reading->spin = shares->spin;
    reading->others = others;
    for (size_t node = 0; node < nodes; node++)
        reading->slowdown[node] = 1;
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        struct an_use use;
        if (an_use_get(shares, shares->replay->node[i], &use))
            reading->slowdown[shares->replay->node[i]] =
                (float)an_use_slowdown(shares, shares->replay->node[i], &use);
    }
    return 0;
}

static int calibrate_cores(struct an_shares *shares, const struct an_times *base,
                           struct an_core_use *use)
{
    const struct sampled sampled = read_samples(shares, use);
    struct sums sums;
    int rc = add_reading(shares, AN_SURPLUS_WORK, &sampled, base, &sums);
    if (rc)
        return rc;
    if (sampled.got > 0 && sampled.known)
        use->others = an_num(shares->reading[0].others);
    fill_core_use(shares, &sums, use);
    const struct an_reading *work = &shares->reading[0];
    if (work->demand[AN_CAUSE_COMPUTE] <= 1 && !has_surplus(shares, &sampled, &sums))
        return 0;
    rc = an_shares_find_evens(shares);
    rc = rc ? rc : add_reading(shares, AN_SURPLUS_LOOSE, &sampled, base, &sums);
    rc = rc ? rc : add_reading(shares, AN_SURPLUS_YIELDS, &sampled, base, &sums);
    if (rc || !shares->waits)
        return rc;
    rc = add_reading(shares, AN_SURPLUS_SPINS, &sampled, base, &sums);
    return rc || !shares->held ? rc : add_reading(shares, AN_SURPLUS_SPREAD, &sampled, base, &sums);
}

int an_shares_calibrate(struct an_shares *shares, const struct an_times *base,
                        struct an_core_use *use)
{
    const struct an_count *cores = &shares->replay->context->result->run.cores;
    struct sums sums;
    use->cores = cores->valid ? an_num(an_system_capacity(shares->replay->context))
                              : an_num_none(cores->reason);
    int rc = shares->cores ? calibrate_cores(shares, base, use)
                           : add_reading(shares, AN_SURPLUS_WORK, NULL, base, &sums);
    if (!shares->cores)
        core_use_absent(use, cores->valid ? "no thread of the run is replayed" : cores->reason);
    if (!rc)
        an_shares_read(shares, 0);
    return rc;
}
