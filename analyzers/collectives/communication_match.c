/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the calls of collectives, and which of them are one collective: those with equal
 * communicator, kind and sequence number on all ranks. All ranks leave a collective together but
 * arrive one by one, so the shortest participant arrived last. Its time is the transfer at most;
 * what the others take longer, they waited. That holds for collectives that no rank leaves before
 * all have arrived, and for a send and its recv. Where the trace has no sequence numbers, the
 * order in the step takes their place.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/communication.h"
#include "tacho_hash.h"

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
/* Kernels of one collective end so close to each other on aligned clocks. */
#define ENDS_MEET_NS 50000

static size_t kind_of(const char *name)
{
    size_t kind_index = 0;
    while (kind_index < KINDS && strcmp(kinds[kind_index].name, name))
        kind_index++;
    return kind_index;
}

double an_comm_bus_factor(const char *name, int64_t ranks)
{
    size_t kind_index = kind_of(name);
    return kind_index < KINDS && ranks > 0
               ? kinds[kind_index].a + kinds[kind_index].b / (double)ranks
               : 0;
}

/* ---- what a call says ---------------------------------------------------------------------------------------------------- */

/* A number in a payload, which importers write as JSON; STORE_ABSENT: it is not there. */
static int64_t payload_number(const char *payload, const char *key)
{
    const char *found = strstr(payload, key);
    char *end = NULL;
    long long number = found ? strtoll(found + strlen(key), &end, 10) : 0;
    return found && end != found + strlen(key) ? (int64_t)number : STORE_ABSENT;
}

/* Never 0, which means "not said". */
static uint64_t hash_bytes(const char *bytes, size_t length)
{
    return tacho_hash_bytes(TACHO_HASH_BEGIN, bytes, length) | 1;
}

/* The list of members, where the trace has it. */
static uint64_t members(const char *payload)
{
    const char *list = strstr(payload, "\"group_ranks\":");
    size_t length = list ? strcspn(list, "]") : 0;
    return list && list[length] ? hash_bytes(list, length) : 0;
}

#define GLOO "gloo:"

static bool is_gloo(const char *name)
{
    return !strncmp(name, GLOO, sizeof GLOO - 1);
}

static bool is_pair(const char *kind)
{
    return !strcmp(kind, "send") || !strcmp(kind, "recv");
}

bool an_comm_read(const struct an_trace *trace, size_t i, struct an_comm_call *out)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    const char *text = an_trace_name(trace, trace->slice.name[i]);
    if (trace->slice.dur[i] == AN_OPEN)
        return false;
    bool ours = detail && detail->role == AN_ROLE_COMM;
    const char *name = is_gloo(text) ? text + 5 : text;
    if (detail && *detail->collective)
        name = detail->collective;
    const char *of_kernel = ours || is_gloo(text) ? NULL : store_collective_in(name, strlen(name));
    const char *kind = of_kernel ? of_kernel : name;
    size_t kind_index = kind_of(kind);
    *out =
        (struct an_comm_call){.name = name,
                              .kind = is_pair(kind) ? "send_recv" : kind,
                              .communicator = STORE_ABSENT,
                              .sequence = STORE_ABSENT,
                              .ranks = STORE_ABSENT,
                              .bytes = STORE_ABSENT,
                              .start = trace->slice.start[i],
                              .end = an_slice_end(trace, i),
                              .slice = (uint32_t)i,
                              .lane = AN_NONE,
                              .op = AN_NONE,
                              .step = AN_NONE,
                              .transfer = -1,
                              .transfer_known = STORE_ABSENT,
                              .synchronises = kind_index < KINDS && kinds[kind_index].synchronises};
    if (!detail)
        return true;
    out->communicator = detail->communicator;
    out->ranks = detail->ranks;
    out->bytes = detail->bytes;
    out->group = members(detail->payload);
    out->transfer_known = payload_number(detail->payload, "\"transfer_ns\":");
    out->sequence =
        ours ? trace->slice.correlation[i] : payload_number(detail->payload, "\"sequence\":");
    return true;
}

/* ---- finding ------------------------------------------------------------------------------------------------------------ */

/* Index of a step whose ranges are all in the file, AN_NONE for any other. */
static uint32_t detailed_index(const struct an_context *context, const struct an_step *step)
{
    return step && an_step_detailed(step) ? (uint32_t)(step - context->step) : AN_NONE;
}

static int append_call(struct an_comm_calls *out, const struct an_comm_call *call)
{
    if (an_grow(&out->call, &out->room, out->count + 1, sizeof *out->call))
        return TACHO_ENOMEM;
    out->call[out->count++] = *call;
    return 0;
}

/* Fills a gloo call of another tool's trace, of which only the name is known. Where the job has one
 * process group the call belongs to that one, and calls are matched by their order in the step. */
static void fill_from_job(const struct an_context *context, struct an_comm_call *call)
{
    const char *groups = an_trace_key(context->trace, "process_groups"),
               *world = an_trace_key(context->trace, "world_size");
    int64_t size = world ? strtoll(world, NULL, 10) : 0;
    call->counted = true;
    call->window = call->step == AN_NONE ? -1 : context->step[call->step].index;
    if (size > 0 && (size == 2 || (groups && !strcmp(groups, "1")))) {
        call->communicator = 0;
        call->ranks = size;
    }
}

/* Adds the calls of one thread; `any_gloo`: some range of the run may be Gloo's. */
static int find_track(struct an_context *context, uint32_t track, bool any_gloo,
                      struct an_comm_calls *out)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *thread = &trace->track[track];
    uint32_t lane = AN_NONE;
    bool known = false;
    int rc = 0;
    if (strcmp(thread->kind, "thread") && strcmp(thread->kind, "comm"))
        return 0;
    for (size_t i = thread->slice_first; i < thread->slice_first + thread->slice_count && !rc;
         i++) {
        struct an_comm_call call;
        bool ours = an_trace_role(trace, trace->slice.detail[i]) == AN_ROLE_COMM;
        bool gloo = any_gloo && is_gloo(an_trace_name(trace, trace->slice.name[i]));
        if (!(ours || gloo) || !an_comm_read(trace, i, &call))
            continue;
        if (!known) {
            lane = context->lane_count ? an_lane_of_process(context, thread->process)
                                       : thread->process;
            known = true;
        }
        call.lane = lane;
        call.track = track;
        if (context->lane_count && lane != AN_NONE)
            call.step =
                detailed_index(context, an_step_at_host(context, &context->lane[lane], call.start));
        if (!ours)
            fill_from_job(context, &call);
        rc = append_call(out, &call);
    }
    return rc;
}

/* The two ranks of a send or recv, the sender first. */
static uint64_t pair_of(const struct an_context *context, const struct an_comm_call *call,
                        bool sends)
{
    const struct an_detail *detail =
        an_trace_detail(context->trace, context->trace->slice.detail[call->slice]);
    int64_t own = context->lane[call->lane].rank,
            peer = detail ? payload_number(detail->payload, "\"peer\":") : STORE_ABSENT, pair[2];
    if (peer == STORE_ABSENT)
        return call->group;
    pair[0] = sends ? own : peer;
    pair[1] = sends ? peer : own;
    return hash_bytes((const char *)pair, sizeof pair);
}

/* Fills what the kernel's own row does not say from the library's range (NCCL's, with a payload)
 * that launched it. */
static void fill_from_launch(const struct an_context *context, size_t op, struct an_comm_call *call)
{
    const struct an_trace *trace = context->trace;
    uint32_t launch = context->gpu->op.launch[op];
    int levels = AN_DEPTH_MAX;
    if (call->communicator != STORE_ABSENT)
        return;
    for (uint32_t range = launch; range != AN_NONE && levels--;
         range = trace->slice.parent[range]) {
        const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[range]);
        if (!detail || detail->communicator == STORE_ABSENT ||
            !an_slice_open_at(trace, range, launch))
            continue;
        call->communicator = detail->communicator;
        call->ranks = detail->ranks;
        call->bytes = call->bytes == STORE_ABSENT ? detail->bytes : call->bytes;
        return;
    }
}

/* Communication kernels of the devices that steps run on. */
static int find_ops(struct an_context *context, struct an_comm_calls *out)
{
    int rc = 0;
    for (uint32_t lane = 0; lane < context->lane_count; lane++) {
        const struct an_lane *on_lane = &context->lane[lane];
        const struct an_device *device =
            on_lane->device == AN_NONE ? NULL : &context->gpu->device[on_lane->device];
        for (size_t i = device ? device->first : 0;
             device && i < device->first + device->count && !rc; i++) {
            struct an_comm_call call;
            if (!(1u << context->gpu->op.class[i] & AN_DEVICE_COMM_MASK) ||
                !an_comm_read(context->trace, context->gpu->op.slice[i], &call))
                continue;
            const struct an_step *host =
                an_step_at_host(context, on_lane, an_device_launch_time(context->gpu, i));
            bool pair = !strcmp(call.kind, "send_recv");
            fill_from_launch(context, i, &call);
            call.lane = lane;
            call.track = context->gpu->op.track[i];
            call.op = (uint32_t)i;
            call.step = detailed_index(context, an_step_at(context, on_lane, call.start));
            if (pair)
                call.group = pair_of(context, &call, !strcmp(call.name, "send"));
            call.counted = call.sequence == STORE_ABSENT || (pair && call.group);
            if (call.counted) {
                call.sequence = STORE_ABSENT;
                call.window = host ? host->index : -1;
            }
            rc = append_call(out, &call);
        }
    }
    return rc;
}

/* ---- matching ----------------------------------------------------------------------------------------------------------- */

int an_comm_order(const struct an_comm_call *first, const struct an_comm_call *second)
{
    int order = strcmp(first->kind, second->kind);
    order = order ? order : AN_COMPARE(first->communicator, second->communicator);
    order = order ? order : AN_COMPARE(first->group, second->group);
    order = order ? order : AN_COMPARE(first->sequence, second->sequence);
    return order ? order : AN_COMPARE(first->window, second->window);
}

static int rank_order(const void *left, const void *right)
{
    const struct an_comm_call *first = left, *second = right;
    int order = an_comm_order(first, second);
    order = order ? order : AN_COMPARE(first->lane, second->lane);
    return order ? order : AN_COMPARE(first->start, second->start);
}

static int collective_order(const void *left, const void *right)
{
    const struct an_comm_call *first = left, *second = right;
    int order = an_comm_order(first, second);
    order = order ? order : AN_COMPARE(first->ordinal, second->ordinal);
    return order ? order : AN_COMPARE(first->lane, second->lane);
}

size_t an_comm_next(const struct an_comm_calls *calls, size_t first)
{
    size_t next = first + 1;
    while (next < calls->count && !an_comm_order(&calls->call[first], &calls->call[next]) &&
           calls->call[next].ordinal == calls->call[first].ordinal)
        next++;
    return next;
}

/* Which ranks of the file take part in a communicator. */
struct member {
    int64_t communicator;
    uint64_t group;
    uint32_t lane;
    int64_t first, last; /* of the sequence numbers of its calls, excluding what is counted */
};

struct membership {
    int64_t world;         /* ranks of the job, 0: the trace does not say */
    struct member *member; /* distinct, in order */
    size_t count;
};

static int communicator_order(const void *left, const void *right)
{
    const struct member *first = left, *second = right;
    int order = AN_COMPARE(first->communicator, second->communicator);
    return order ? order : AN_COMPARE(first->group, second->group);
}

static int member_order(const void *left, const void *right)
{
    const struct member *first = left, *second = right;
    int order = communicator_order(first, second);
    return order ? order : AN_COMPARE(first->lane, second->lane);
}

/* Lists which ranks of the file take part in each communicator, with the range of their sequence
 * numbers. */
static int find_members(struct an_context *context, const struct an_comm_calls *calls,
                        struct membership *membership)
{
    membership->member =
        an_arena_zero(context->scratch, calls->count + 1, sizeof *membership->member);
    if (!membership->member)
        return TACHO_ENOMEM;
    if (!an_trace_key_integer(context->trace, "world_size", &membership->world))
        membership->world = 0;
    for (size_t i = 0; i < calls->count; i++) {
        membership->member[i] = (struct member){.communicator = calls->call[i].communicator,
                                                .group = calls->call[i].group,
                                                .lane = calls->call[i].lane,
                                                .first = INT64_MIN,
                                                .last = INT64_MAX};
        if (!calls->call[i].counted)
            membership->member[i].first = membership->member[i].last = calls->call[i].sequence;
    }
    qsort(membership->member, calls->count, sizeof *membership->member, member_order);
    for (size_t i = 0; i < calls->count; i++) {
        struct member *last = membership->count ? &membership->member[membership->count - 1] : NULL;
        if (!last || member_order(&membership->member[i], last)) {
            membership->member[membership->count++] = membership->member[i];
            continue;
        }
        last->first =
            membership->member[i].first < last->first ? membership->member[i].first : last->first;
        last->last =
            membership->member[i].last > last->last ? membership->member[i].last : last->last;
    }
    return 0;
}

/* How many ranks of the file take part in the communicator of a call, and were recorded at that
 * time. */
static size_t members_of(const struct membership *membership, const struct an_comm_call *call)
{
    struct member key = {.communicator = call->communicator, .group = call->group};
    size_t low = 0, high = membership->count, count = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (communicator_order(&membership->member[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < membership->count && !communicator_order(&membership->member[low], &key); low++)
        count += call->counted || (membership->member[low].first <= call->sequence &&
                                   call->sequence <= membership->member[low].last);
    return count;
}

/* A send and its recv. */
static bool is_exchange(const struct an_comm_call *call, size_t call_count)
{
    return call_count == 2 && call[0].lane != call[1].lane && call[0].lane != AN_NONE &&
           call[1].lane != AN_NONE && strcmp(call[0].name, call[1].name) &&
           (call[0].counted ? call[0].group != 0
                            : call[0].sequence != STORE_ABSENT && call[0].ranks == 2);
}

/* Do these calls of a trace that says neither communicator nor sequence number belong together by
 * their order in the step? Every rank of the job must be in the file and take part once, move
 * equally many bytes, and all must end within ENDS_MEET_NS: what leaves together has met. */
static bool is_met(const struct membership *membership, const struct an_comm_call *call,
                   size_t call_count)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    if (call_count < 2 || (int64_t)call_count != membership->world)
        return false;
    for (size_t i = 0; i < call_count; i++) {
        if (!call[i].counted || call[i].communicator != STORE_ABSENT || call[i].op == AN_NONE ||
            call[i].window < 0 || call[i].lane == AN_NONE || call[i].bytes != call->bytes)
            return false;
        for (size_t k = 0; k < i; k++)
            if (call[k].lane == call[i].lane)
                return false;
        first = call[i].end < first ? call[i].end : first;
        last = call[i].end > last ? call[i].end : last;
    }
    return an_time_sub(last, first) <= ENDS_MEET_NS;
}

/* Are these calls one collective? Every rank of the communicator that is in the file must have
 * taken part once, and none may leave before the last one arrives. Calls without a sequence number
 * must also move equally many bytes. */
static bool is_whole(const struct membership *membership, struct an_comm_call *call,
                     size_t call_count)
{
    if (!strcmp(call->kind, "send_recv"))
        return is_exchange(call, call_count);
    if (is_met(membership, call, call_count)) {
        for (size_t i = 0; i < call_count; i++)
            call[i].synchronises = true;
        return true;
    }
    for (size_t i = 0; i < call_count; i++)
        if ((call[i].sequence == STORE_ABSENT &&
             (!call[i].counted || call[i].communicator == STORE_ABSENT)) ||
            call[i].lane == AN_NONE || !call[i].synchronises || call[i].ranks != call->ranks ||
            (call[i].counted && call[i].bytes != call->bytes && strcmp(call->kind, "all_to_all")))
            return false;
    if (call_count < 2 || (call->ranks != STORE_ABSENT && call->ranks < (int64_t)call_count))
        return call->ranks == 1 && call_count == 1;
    if (call->ranks == (int64_t)call_count)
        return true;
    if (members_of(membership, call) != call_count)
        return false;
    for (size_t i = 0; i < call_count; i++)
        call[i].lacks = call->ranks != STORE_ABSENT;
    return true;
}

/* The shortest participant of a whole collective arrived last: its time is the transfer of all of
 * them. */
static void match(struct an_comm_calls *calls, const struct membership *membership)
{
    for (size_t i = 0, next; i < calls->count; i = next) {
        next = an_comm_next(calls, i);
        if (!is_whole(membership, &calls->call[i], next - i))
            continue;
        int64_t shortest = INT64_MAX;
        for (size_t j = i; j < next; j++) {
            int64_t known = calls->call[j].transfer_known,
                    ns = an_time_sub(calls->call[j].end, calls->call[j].start);
            ns = known >= 0 && known < ns ? known : ns;
            shortest = ns < shortest ? ns : shortest;
        }
        for (size_t j = i; j < next; j++)
            calls->call[j].transfer = shortest;
    }
}

int an_comm_find(struct an_context *context, struct an_comm_calls *out)
{
    struct membership membership = {0};
    bool any_gloo = an_trace_has_name(context->trace, GLOO);
    int rc = context->gpu ? find_ops(context, out) : 0;
    for (uint32_t track = 0; track < context->trace->track_count && !rc && !context->gpu; track++)
        rc = find_track(context, track, any_gloo, out);
    if (rc || !out->count || (rc = find_members(context, out, &membership)))
        return rc;
    qsort(out->call, out->count, sizeof *out->call, rank_order);
    for (size_t i = 1; i < out->count; i++)
        if (!an_comm_order(&out->call[i - 1], &out->call[i]) &&
            out->call[i - 1].lane == out->call[i].lane)
            out->call[i].ordinal = out->call[i - 1].ordinal + 1;
    qsort(out->call, out->count, sizeof *out->call, collective_order);
    match(out, &membership);
    return 0;
}
