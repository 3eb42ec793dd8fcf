/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of collectives, and which of them are one collective: equal communicator, kind and sequence
 * number on all ranks. The ranks leave a collective together and come when they come, so the
 * shortest participant came last and its time is transfer at most; what the others take longer,
 * they wait. That holds for collectives that no rank leaves before all have come, and for a send
 * and its recv. Where the trace has no sequence numbers, the place in the step stands for them.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/communication.h"

/* Kinds: does it synchronise, factor of the bus bandwidth a + b / n */
static const struct {
    const char *name;
    bool synchronises;
    double a, b;
} kinds[] = {
    {"all_reduce", true, 2, -2}, {"all_gather", true, 1, -1}, {"reduce_scatter", true, 1, -1},
    {"all_to_all", true, 1, -1}, {"barrier", true, 0, 0},     {"broadcast", false, 1, 0},
    {"reduce", false, 1, 0},     {"gather", false, 1, -1},    {"scatter", false, 1, -1},
    {"send", false, 1, 0},       {"recv", false, 1, 0}};
#define KINDS (sizeof kinds / sizeof *kinds)

static size_t kind_of(const char *name)
{
    size_t k = 0;
    while (k < KINDS && strcmp(kinds[k].name, name))
        k++;
    return k;
}

double an_comm_bus_factor(const char *name, int64_t n)
{
    size_t k = kind_of(name);
    return k < KINDS && n > 0 ? kinds[k].a + kinds[k].b / (double)n : 0;
}

/* ---- what a call says ---------------------------------------------------------------------------------------------------- */

/* A number of a payload, which importers wrote as JSON; STORE_ABSENT: it is not there. */
static int64_t payload_number(const char *payload, const char *key)
{
    const char *at = strstr(payload, key);
    char *end = NULL;
    long long v = at ? strtoll(at + strlen(key), &end, 10) : 0;
    return at && end != at + strlen(key) ? (int64_t)v : STORE_ABSENT;
}

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    return h | 1;
}

/* The list of members, where the trace has it. */
static uint64_t members(const char *payload)
{
    const char *at = strstr(payload, "\"group_ranks\":");
    size_t n = at ? strcspn(at, "]") : 0;
    return at && at[n] ? hash_bytes(at, n) : 0;
}

static const char *kind_of_kernel(const char *name)
{
    static const char *const parts[][2] = {
        {"AllReduce", "all_reduce"},         {"AllGather", "all_gather"},
        {"ReduceScatter", "reduce_scatter"}, {"Broadcast", "broadcast"},
        {"AllToAll", "all_to_all"},          {"Reduce", "reduce"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i][0]))
            return parts[i][1];
    return name;
}

static bool is_gloo(const char *name)
{
    return !strncmp(name, "gloo:", 5);
}

static bool is_pair(const char *kind)
{
    return !strcmp(kind, "send") || !strcmp(kind, "recv");
}

bool an_comm_read(const struct an_trace *t, size_t i, struct an_comm_call *out)
{
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
    const char *text = an_trace_name(t, t->slice.name[i]);
    if (t->slice.dur[i] == AN_OPEN)
        return false;
    bool ours = d && d->role == AN_ROLE_COMM;
    const char *name = d && *d->collective ? d->collective : is_gloo(text) ? text + 5 : text;
    const char *kind = ours || is_gloo(text) ? name : kind_of_kernel(name);
    size_t k = kind_of(kind);
    *out = (struct an_comm_call){.name = name,
                                 .kind = is_pair(kind) ? "send_recv" : kind,
                                 .communicator = d ? d->communicator : STORE_ABSENT,
                                 .sequence = ours ? t->slice.correlation[i]
                                             : d  ? payload_number(d->payload, "\"sequence\":")
                                                  : STORE_ABSENT,
                                 .ranks = d ? d->ranks : STORE_ABSENT,
                                 .bytes = d ? d->bytes : STORE_ABSENT,
                                 .group = d ? members(d->payload) : 0,
                                 .start = t->slice.start[i],
                                 .end = an_slice_end(t, i),
                                 .slice = (uint32_t)i,
                                 .lane = AN_NONE,
                                 .op = AN_NONE,
                                 .step = AN_NONE,
                                 .transfer = -1,
                                 .synchronises = k < KINDS && kinds[k].synchronises};
    return true;
}

/* ---- finding ------------------------------------------------------------------------------------------------------------ */

static uint32_t detailed_index(const struct an_context *c, const struct an_step *s)
{
    return s && an_step_detailed(s) ? (uint32_t)(s - c->step) : AN_NONE;
}

static int keep(struct an_comm_calls *out, const struct an_comm_call *x)
{
    if (an_grow(&out->call, &out->room, out->count + 1, sizeof *out->call))
        return TACHO_ENOMEM;
    out->call[out->count++] = *x;
    return 0;
}

/* Of gloo's ranges in traces of other tools only the names are known. Where the job has one process
 * group they are all of that one, and the place in the step tells which are one collective. */
static void ask_job(const struct an_context *c, struct an_comm_call *x)
{
    const char *groups = an_trace_key(c->t, "process_groups"),
               *world = an_trace_key(c->t, "world_size");
    int64_t size = world ? strtoll(world, NULL, 10) : 0;
    x->counted = true;
    x->window = x->step == AN_NONE ? -1 : c->step[x->step].index;
    if (size > 0 && (size == 2 || (groups && !strcmp(groups, "1")))) {
        x->communicator = 0;
        x->ranks = size;
    }
}

static int find_track(struct an_context *c, uint32_t track, struct an_comm_calls *out)
{
    const struct an_trace *t = c->t;
    const struct an_track *k = &t->track[track];
    uint32_t lane = AN_NONE;
    bool known = false;
    int rc = 0;
    if (strcmp(k->kind, "thread") && strcmp(k->kind, "comm"))
        return 0;
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count && !rc; i++) {
        struct an_comm_call x;
        bool ours = an_trace_role(t, t->slice.detail[i]) == AN_ROLE_COMM;
        if (!(ours || is_gloo(an_trace_name(t, t->slice.name[i]))) || !an_comm_read(t, i, &x))
            continue;
        if (!known) {
            lane = c->lane_count ? an_lane_of_process(c, k->process) : k->process;
            known = true;
        }
        x.lane = lane;
        x.track = track;
        if (c->lane_count && lane != AN_NONE)
            x.step = detailed_index(c, an_step_at_host(c, &c->lane[lane], x.start));
        if (!ours)
            ask_job(c, &x);
        rc = keep(out, &x);
    }
    return rc;
}

/* The two ranks of a send or recv, the sender first. */
static uint64_t pair_of(const struct an_context *c, const struct an_comm_call *x, bool sends)
{
    const struct an_detail *d = an_trace_detail(c->t, c->t->slice.detail[x->slice]);
    int64_t own = c->lane[x->lane].rank,
            peer = d ? payload_number(d->payload, "\"peer\":") : STORE_ABSENT, pair[2];
    if (peer == STORE_ABSENT)
        return x->group;
    pair[0] = sends ? own : peer;
    pair[1] = sends ? peer : own;
    return hash_bytes((const char *)pair, sizeof pair);
}

/* What the kernel's own row does not say may stand at the range of the library (NCCL's, with a
 * payload) that launched it. */
static void ask_launch(const struct an_context *c, size_t op, struct an_comm_call *x)
{
    const struct an_trace *t = c->t;
    uint32_t launch = c->gpu->op.launch[op];
    int levels = AN_DEPTH_MAX;
    if (x->communicator != STORE_ABSENT)
        return;
    for (uint32_t p = launch; p != AN_NONE && levels--; p = t->slice.parent[p]) {
        const struct an_detail *d = an_trace_detail(t, t->slice.detail[p]);
        if (!d || d->communicator == STORE_ABSENT || !an_slice_open_at(t, p, launch))
            continue;
        x->communicator = d->communicator;
        x->ranks = d->ranks;
        x->bytes = x->bytes == STORE_ABSENT ? d->bytes : x->bytes;
        return;
    }
}

/* Communication kernels of the devices that steps run on. */
static int find_ops(struct an_context *c, struct an_comm_calls *out)
{
    int rc = 0;
    for (uint32_t lane = 0; lane < c->lane_count; lane++) {
        const struct an_lane *l = &c->lane[lane];
        const struct an_device *d = l->device == AN_NONE ? NULL : &c->gpu->device[l->device];
        for (size_t i = d ? d->first : 0; d && i < d->first + d->count && !rc; i++) {
            struct an_comm_call x;
            if (!(1u << c->gpu->op.class[i] & AN_DEVICE_COMM_MASK) ||
                !an_comm_read(c->t, c->gpu->op.slice[i], &x))
                continue;
            const struct an_step *host = an_step_at_host(c, l, an_device_launch_time(c, i));
            bool pair = !strcmp(x.kind, "send_recv");
            ask_launch(c, i, &x);
            x.lane = lane;
            x.track = c->gpu->op.track[i];
            x.op = (uint32_t)i;
            x.step = detailed_index(c, an_step_at(c, l, x.start));
            if (pair)
                x.group = pair_of(c, &x, !strcmp(x.name, "send"));
            x.counted = x.sequence == STORE_ABSENT || (pair && x.group);
            if (x.counted) {
                x.sequence = STORE_ABSENT;
                x.window = host ? host->index : -1;
            }
            rc = keep(out, &x);
        }
    }
    return rc;
}

/* ---- matching ----------------------------------------------------------------------------------------------------------- */

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int by_id(const struct an_comm_call *a, const struct an_comm_call *b)
{
    int order = strcmp(a->kind, b->kind);
    order = order ? order : COMPARE(a->communicator, b->communicator);
    order = order ? order : COMPARE(a->group, b->group);
    order = order ? order : COMPARE(a->sequence, b->sequence);
    return order ? order : COMPARE(a->window, b->window);
}

static int rank_order(const void *x, const void *y)
{
    const struct an_comm_call *a = x, *b = y;
    int order = by_id(a, b);
    order = order ? order : COMPARE(a->lane, b->lane);
    return order ? order : COMPARE(a->start, b->start);
}

static int collective_order(const void *x, const void *y)
{
    const struct an_comm_call *a = x, *b = y;
    int order = by_id(a, b);
    order = order ? order : COMPARE(a->ordinal, b->ordinal);
    return order ? order : COMPARE(a->lane, b->lane);
}

size_t an_comm_next(const struct an_comm_calls *x, size_t first)
{
    size_t next = first + 1;
    while (next < x->count && !by_id(&x->call[first], &x->call[next]) &&
           x->call[next].ordinal == x->call[first].ordinal)
        next++;
    return next;
}

/* Which ranks of the file take part in a communicator. */
struct member {
    int64_t communicator;
    uint64_t group;
    uint32_t lane;
    int64_t first, last; /* of the sequence numbers of its calls, what is counted left out */
};

struct membership {
    struct member *at; /* distinct, in order */
    size_t count;
};

static int communicator_order(const void *x, const void *y)
{
    const struct member *a = x, *b = y;
    int order = COMPARE(a->communicator, b->communicator);
    return order ? order : COMPARE(a->group, b->group);
}

static int member_order(const void *x, const void *y)
{
    const struct member *a = x, *b = y;
    int order = communicator_order(a, b);
    return order ? order : COMPARE(a->lane, b->lane);
}

static int find_members(struct an_context *c, const struct an_comm_calls *x, struct membership *m)
{
    m->at = an_arena_zero(c->work, x->count + 1, sizeof *m->at);
    if (!m->at)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < x->count; i++)
        m->at[i] = (struct member){.communicator = x->call[i].communicator,
                                   .group = x->call[i].group,
                                   .lane = x->call[i].lane,
                                   .first = x->call[i].counted ? INT64_MIN : x->call[i].sequence,
                                   .last = x->call[i].counted ? INT64_MAX : x->call[i].sequence};
    qsort(m->at, x->count, sizeof *m->at, member_order);
    for (size_t i = 0; i < x->count; i++) {
        struct member *last = m->count ? &m->at[m->count - 1] : NULL;
        if (!last || member_order(&m->at[i], last)) {
            m->at[m->count++] = m->at[i];
            continue;
        }
        last->first = m->at[i].first < last->first ? m->at[i].first : last->first;
        last->last = m->at[i].last > last->last ? m->at[i].last : last->last;
    }
    return 0;
}

/* Ranks of the file that take part in the communicator of x, and whose recordings reach over it. */
static size_t members_of(const struct membership *m, const struct an_comm_call *x)
{
    struct member key = {.communicator = x->communicator, .group = x->group};
    size_t low = 0, high = m->count, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (communicator_order(&m->at[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < m->count && !communicator_order(&m->at[low], &key); low++)
        n += x->counted || (m->at[low].first <= x->sequence && x->sequence <= m->at[low].last);
    return n;
}

/* A send and its recv. */
static bool is_exchange(const struct an_comm_call *x, size_t n)
{
    return n == 2 && x[0].lane != x[1].lane && x[0].lane != AN_NONE && x[1].lane != AN_NONE &&
           strcmp(x[0].name, x[1].name) &&
           (x[0].counted ? x[0].group != 0 : x[0].sequence != STORE_ABSENT && x[0].ranks == 2);
}

/* Every rank of the communicator that is in the file took part, each once, and none left before the
 * last one came. What has no number is one collective only where its bytes agree. */
static bool is_whole(const struct membership *m, struct an_comm_call *x, size_t n)
{
    if (!strcmp(x->kind, "send_recv"))
        return is_exchange(x, n);
    for (size_t i = 0; i < n; i++)
        if ((x[i].sequence == STORE_ABSENT &&
             (!x[i].counted || x[i].communicator == STORE_ABSENT)) ||
            x[i].lane == AN_NONE || !x[i].synchronises || x[i].ranks != x->ranks ||
            (x[i].counted && x[i].bytes != x->bytes && strcmp(x->kind, "all_to_all")))
            return false;
    if (n < 2 || (x->ranks != STORE_ABSENT && x->ranks < (int64_t)n))
        return x->ranks == 1 && n == 1;
    if (x->ranks == (int64_t)n)
        return true;
    if (members_of(m, x) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        x[i].lacks = x->ranks != STORE_ABSENT;
    return true;
}

static void match(struct an_comm_calls *x, const struct membership *m)
{
    for (size_t i = 0, next; i < x->count; i = next) {
        next = an_comm_next(x, i);
        if (!is_whole(m, &x->call[i], next - i))
            continue;
        int64_t shortest = INT64_MAX;
        for (size_t k = i; k < next; k++) {
            int64_t ns = an_time_sub(x->call[k].end, x->call[k].start);
            shortest = ns < shortest ? ns : shortest;
        }
        for (size_t k = i; k < next; k++)
            x->call[k].transfer = shortest;
    }
}

int an_comm_find(struct an_context *c, struct an_comm_calls *out)
{
    struct membership m = {0};
    int rc = c->gpu ? find_ops(c, out) : 0;
    for (uint32_t k = 0; k < c->t->track_count && !rc && !c->gpu; k++)
        rc = find_track(c, k, out);
    if (rc || !out->count || (rc = find_members(c, out, &m)))
        return rc;
    qsort(out->call, out->count, sizeof *out->call, rank_order);
    for (size_t i = 1; i < out->count; i++)
        if (!by_id(&out->call[i - 1], &out->call[i]) && out->call[i - 1].lane == out->call[i].lane)
            out->call[i].ordinal = out->call[i - 1].ordinal + 1;
    qsort(out->call, out->count, sizeof *out->call, collective_order);
    match(out, &m);
    return 0;
}

/* ---- the list ----------------------------------------------------------------------------------------------------------- */

/* Sums of one kind on one communicator. */
struct sums {
    int64_t calls, matched, sized, ranks;
    double ns, matched_ns, transfer, bytes;
    double *rank_bytes; /* by lane */
    int64_t *rank_calls;
};

static void add_call(struct sums *s, const struct an_comm_call *x)
{
    double ns = (double)an_time_sub(x->end, x->start);
    s->calls++;
    s->ns += ns;
    s->ranks = x->ranks > s->ranks ? x->ranks : s->ranks;
    if (x->bytes != STORE_ABSENT) {
        s->sized++;
        s->bytes += (double)x->bytes;
    }
    if (x->lane != AN_NONE && s->rank_bytes) {
        s->rank_calls[x->lane]++;
        s->rank_bytes[x->lane] += x->bytes != STORE_ABSENT ? (double)x->bytes : 0;
    }
    if (x->transfer >= 0) {
        s->matched++;
        s->matched_ns += ns;
        s->transfer += (double)x->transfer;
    }
}

/* Steps of the ranks that take part, summed; 0: there are no steps. */
static double steps_of(const struct an_context *c, const struct sums *s)
{
    double n = 0;
    for (size_t i = 0; i < c->step_count; i++)
        n += an_step_detailed(&c->step[i]) && s->rank_calls[c->step[i].lane] > 0;
    return n;
}

static struct an_value uneven(const struct an_context *c, const struct sums *s)
{
    double most = 0, sum = 0, ranks = 0;
    for (size_t k = 0; k < c->lane_count; k++)
        if (s->rank_calls[k]) {
            most = s->rank_bytes[k] > most ? s->rank_bytes[k] : most;
            sum += s->rank_bytes[k];
            ranks++;
        }
    if (ranks < 2)
        return an_num_none("one rank: nothing to compare");
    return sum > 0 ? an_num(most / (sum / ranks))
                   : an_num_none("the calls do not say how many bytes they move");
}

static void bandwidth(struct an_context *c, const struct sums *s, struct an_collective *out)
{
    double factor = an_comm_bus_factor(out->name, s->ranks),
           seconds = (s->matched ? s->transfer : s->ns) / 1e9;
    double calls = (double)(s->matched ? s->matched : s->calls);
    if (s->sized < s->calls || s->bytes <= 0 || seconds <= 0) {
        out->algorithm_bytes_per_s = out->bus_bytes_per_s = an_num_none(
            s->bytes <= 0 || s->sized < s->calls ? "the calls do not say how many bytes they move"
                                                 : "the calls take no time");
        return;
    }
    out->algorithm_bytes_per_s = an_num(s->bytes / (double)s->calls / (seconds / calls));
    out->bandwidth_of = s->matched ? "transfer" : "time";
    if (s->ranks < 2)
        out->bus_bytes_per_s = an_num_none("the calls do not say how many ranks take part");
    else if (factor <= 0)
        out->bus_bytes_per_s =
            an_num_none(an_arena_format(c->a, "no factor is defined for %.60s", out->name));
    else
        out->bus_bytes_per_s = an_num(out->algorithm_bytes_per_s.value * factor);
}

static const char *why_unmatched(const struct an_context *c, const struct an_comm_call *x)
{
    if (!x->synchronises && !strcmp(x->kind, "send_recv"))
        return "the calls of the other rank are not in the file, or do not say which ones they "
               "belong to";
    if (!x->synchronises)
        return "ranks may leave it before the others come: who waits cannot be told";
    if (x->ranks < 2)
        return x->ranks == 1 ? "one rank" : "the calls do not say how many ranks take part";
    if (x->sequence == STORE_ABSENT)
        return "the calls carry no sequence number";
    return c->r->communication.missing ? c->r->communication.missing
                                       : "no call of it was recorded on every rank";
}

static void describe(struct an_context *c, const struct an_comm_call *first, const struct sums *s,
                     struct an_collective *out)
{
    double calls = (double)s->calls, steps = steps_of(c, s);
    const char *none = "no counted step has all its ranges in the file",
               *why = why_unmatched(c, first);
    *out = (struct an_collective){
        .name = an_arena_text(c->a, first->name),
        .communicator = first->communicator != STORE_ABSENT ? an_int(first->communicator)
                                                            : an_int_none("not said by the calls"),
        .ranks = s->ranks > 0 ? an_int(s->ranks) : an_int_none("not said by the calls"),
        .count = s->calls,
        .matched = s->matched,
        .mean_ms = an_num(s->ns / calls / 1e6),
        .calls_per_step = steps > 0 ? an_num(calls / steps) : an_num_none(none),
        .bytes_max_over_mean = uneven(c, s)};
    bool sized = s->sized == s->calls;
    const char *no_bytes = "the calls do not say how many bytes they move";
    out->bytes_per_call = sized ? an_num(s->bytes / calls) : an_num_none(no_bytes);
    out->bytes_per_step = !sized      ? an_num_none(no_bytes)
                          : steps > 0 ? an_num(s->bytes / steps)
                                      : an_num_none(none);
    out->transfer_ms =
        s->matched ? an_num(s->transfer / (double)s->matched / 1e6) : an_num_none(why);
    out->waiting_ms = s->matched ? an_num((s->matched_ns - s->transfer) / (double)s->matched / 1e6)
                                 : an_num_none(why);
    bandwidth(c, s, out);
}

static int time_order(const void *x, const void *y)
{
    const struct an_collective *a = x, *b = y;
    double ta = a->mean_ms.value * (double)a->count, tb = b->mean_ms.value * (double)b->count;
    return (ta < tb) - (ta > tb);
}

static bool same_kind(const struct an_comm_call *a, const struct an_comm_call *b)
{
    return !strcmp(a->name, b->name) && a->communicator == b->communicator;
}

static int name_order(const void *x, const void *y)
{
    const struct an_comm_call *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    order = order ? order : COMPARE(a->communicator, b->communicator);
    return order ? order : COMPARE(a->slice, b->slice);
}

int an_comm_collectives(struct an_context *c, struct an_comm_calls *x)
{
    struct an_communication *r = &c->r->communication;
    size_t most = 0;
    if (x->count)
        qsort(x->call, x->count, sizeof *x->call, name_order);
    for (size_t i = 0; i < x->count; i++)
        most += !i || !same_kind(&x->call[i - 1], &x->call[i]);
    struct an_collective *rows = an_arena_zero(c->a, most + 1, sizeof *rows);
    double *rank_bytes = an_arena_zero(c->work, c->lane_count + 1, sizeof *rank_bytes);
    int64_t *rank_calls = an_arena_zero(c->work, c->lane_count + 1, sizeof *rank_calls);
    if (!rows || !rank_bytes || !rank_calls)
        return TACHO_ENOMEM;
    for (size_t i = 0, next; i < x->count; i = next) {
        memset(rank_bytes, 0, (c->lane_count + 1) * sizeof *rank_bytes);
        memset(rank_calls, 0, (c->lane_count + 1) * sizeof *rank_calls);
        /* without steps there are no ranks to tell apart */
        struct sums s = {.rank_bytes = c->lane_count ? rank_bytes : NULL, .rank_calls = rank_calls};
        for (next = i; next < x->count && same_kind(&x->call[i], &x->call[next]); next++)
            if (!c->r->steps.detailed || x->call[next].step != AN_NONE)
                add_call(&s, &x->call[next]);
        if (s.calls)
            describe(c, &x->call[i], &s, &rows[r->collective_count++]);
    }
    if (r->collective_count)
        qsort(rows, r->collective_count, sizeof *rows, time_order);
    r->collectives = rows;
    return 0;
}
