/* SPDX-License-Identifier: Apache-2.0
 *
 * What the messages between ranks cost beside what they would have to: many small ones pay latency,
 * a slow link moves fewer bytes a second than was measured, and gradients may be sent more often
 * than once. Each is a proposal whose gain is a replay; EXPOSED_COMM makes the best one.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_messages.h"
#include "analyzers/replay/what_if_run.h"

/* A bucket below it, in at least so many a step, pays latency rather than bytes. */
#define SMALL_BUCKET (128 << 10)
#define MANY_BUCKETS 16
/* Of a step's gradients: so few that the latency of each does not count. */
#define BUCKETS 8
/* The measured link is faster than this run's messages by more than cores that are shared explain;
 * smaller messages say nothing about it. */
#define SLOW_LINK    3.0
#define LARGE_BUCKET (256 << 10)
/* All ranks reduce each gradient once a step; from here on they send it again. */
#define SENT_AGAIN 1.5

const struct an_collective *an_comm_largest(const struct an_context *context)
{
    const struct an_communication *communication = &context->result->communication;
    const struct an_collective *collective = NULL;
    for (size_t i = 0; !communication->reason && i < communication->collective_count; i++)
        if (communication->collectives[i].bytes_per_step.valid &&
            (!collective ||
             communication->collectives[i].bytes_per_step.value > collective->bytes_per_step.value))
            collective = &communication->collectives[i];
    bool known =
        collective && collective->bus_bytes_per_s.valid && collective->bytes_per_call.valid;
    return known ? collective : NULL;
}

double an_comm_measured_link(const struct an_context *context)
{
    double value = 0;
    for (size_t i = 0; i < context->trace->ceiling_count; i++)
        if (!strcmp(context->trace->ceiling[i].resource, "mpi_bandwidth") &&
            context->trace->ceiling[i].value > 0)
            value = context->trace->ceiling[i].value;
    return value;
}

/* ---- fewer, larger buckets -------------------------------------------------------------------- */

/* Are the buckets so small that their number costs the time, not their bytes? With a measured link
 * the bytes must explain less than half of it. Where DistributedDataParallel reduces beside
 * backward and that is not recorded, its own timers judge its buckets (DDP_BUCKETS). */
static bool has_small_buckets(const struct an_context *context)
{
    const struct an_collective *collective = an_comm_largest(context);
    double link = an_comm_measured_link(context);
    if (!collective || !collective->calls_per_step.valid ||
        collective->calls_per_step.value < MANY_BUCKETS ||
        collective->bytes_per_call.value >= SMALL_BUCKET)
        return false;
    if (!context->result->communication.overlap_pct.valid && an_command_replicated(context->trace))
        return false;
    return !(link > 0) || collective->bus_bytes_per_s.value < link / 2;
}

/* The edit of that share of the messages. In the engine all host work that no operator covers is
 * done for each message: it is packed, handed over, and unpacked. */
static const char *fewer_messages(struct an_context *context, double left, bool engine)
{
    const char *comm =
        an_finding_text(context, "comm=%sx", an_number_words(context->arena, left, 3));
    const char *both = an_finding_text(context, "%s,framework=%s", comm, comm + strlen("comm="));
    struct an_what_if what_if;
    bool known = engine && !an_what_if_of(context, both, &what_if) && !what_if.reason;
    return known ? both : comm;
}

/* How messages of PyTorch become larger: without a wrapper the calls are the program's own, which
 * have no buckets to set. */
static const char *how_of(const struct an_context *context)
{
    if (an_command_sharded(context->trace))
        return " (shard whole blocks, not single layers)";
    if (an_command_replicated(context->trace))
        return " (bucket_cap_mb)";
    return " (join tensors before the call, or let DistributedDataParallel reduce gradients)";
}

/* Each of the larger buckets costs one latency in place of many: the time of the collectives falls
 * in proportion to their number, down to that of their bytes. */
static struct an_proposal larger_buckets(struct an_context *context)
{
    const struct an_collective *collective = an_comm_largest(context);
    double bytes = collective->bytes_per_step.value, calls = collective->calls_per_step.value,
           link = an_comm_measured_link(context);
    double wanted = fmax(bytes / BUCKETS, LARGE_BUCKET), left = bytes / wanted / calls;
    if (link > 0)
        left = fmax(left, collective->bus_bytes_per_s.value / link);
    const char *mib = an_number_words(context->arena, wanted / (1 << 20), 2);
    bool engine = an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN;
    const char *option =
        engine ? an_finding_text(context, "--bucket-mib %s", mib) : "larger buckets";
    return (struct an_proposal){
        .action = an_finding_text(
            context,
            "larger buckets (%s MiB, not %s): %.0f messages a step cost latency, not bytes%s%s",
            mib, an_number_words(context->arena, collective->bytes_per_call.value / (1 << 20), 2),
            calls, engine ? ": " : how_of(context), engine ? option : ""),
        .option = option,
        .what_if = fewer_messages(context, fmin(left, 1), engine),
        .bound = !(link > 0)};
}

/* ---- each gradient once ------------------------------------------------------------------------ */

/* Bytes of gradients of a rank, as the program reports its memory; 0: it does not. */
static double gradient_bytes(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    double most = 0;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (strcmp(track->kind, "counter") != 0 || strcmp(track->name, "memory.gradients") != 0)
            continue;
        for (size_t i = track->counter_first; i < an_counter_end(track); i++)
            most = fmax(most, trace->counter.value[i]);
    }
    return most;
}

/* How often a step sends each gradient; 0: once, or it is not known. */
static double sent_times(const struct an_context *context)
{
    const struct an_collective *collective = an_comm_largest(context);
    double gradients = gradient_bytes(context);
    if (!collective || !(gradients > 0) || strcmp(collective->name, "all_reduce") != 0)
        return 0;
    double times = collective->bytes_per_step.value / gradients;
    return times >= SENT_AGAIN ? times : 0;
}

static struct an_proposal send_once(struct an_context *context, double times)
{
    const struct an_collective *collective = an_comm_largest(context);
    bool imitated = an_command_has_option(context, "--slow-link");
    return (struct an_proposal){
        .action = an_finding_text(
            context,
            "send each gradient once: %s MB are reduced a step, %s times the gradients' own bytes, "
            "as if the link were that much slower%s",
            an_number_words(context->arena, collective->bytes_per_step.value / 1e6, 3),
            an_number_words(context->arena, times, 2),
            imitated ? "; here --slow-link does so: --slow-link 1"
                     : " (a reduction after each micro-step, or several parameter groups)"),
        .option = imitated ? "--slow-link 1" : "one reduction a step",
        .what_if =
            an_finding_text(context, "comm=%sx", an_number_words(context->arena, 1 / times, 3))};
}

/* ---- a link as fast as the measured one -------------------------------------------------------- */

/* By how many times the measured link is faster than large messages of this run, 0: it is not, or
 * the run was short of cores, which slows messages too. */
static double slow_link(const struct an_context *context)
{
    const struct an_collective *collective = an_comm_largest(context);
    if (!collective || collective->bytes_per_call.value < LARGE_BUCKET ||
        !(collective->bus_bytes_per_s.value > 0) || context->result->caution)
        return 0;
    double times = an_comm_measured_link(context) / collective->bus_bytes_per_s.value;
    return times >= SLOW_LINK ? times : 0;
}

static struct an_proposal faster_link(struct an_context *context, double times)
{
    const char *by = an_number_words(context->arena, times, 2);
    bool imitated = an_command_has_option(context, "--slow-link");
    return (struct an_proposal){
        .action = an_finding_text(
            context,
            "messages are %s times slower than the measured link: look at the interface that is "
            "used (NCCL_SOCKET_IFNAME, UCX_NET_DEVICES), other traffic, routing between machines%s",
            by, imitated ? "; here --slow-link imitates it: --slow-link 1" : ""),
        .option = imitated ? "--slow-link 1" : "a link as fast as the measured one",
        .what_if = an_finding_text(context, "link=%sx", by)};
}

/* ---- timers of DistributedDataParallel --------------------------------------------------------- */

/* Mean of a counter over its samples on all ranks. Returns how many there are. */
static size_t mean_of(const struct an_trace *trace, const char *name, double *mean)
{
    size_t count = 0;
    double sum = 0;
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (strcmp(track->kind, "counter") != 0 || strcmp(track->name, name) != 0)
            continue;
        for (size_t i = track->counter_first; i < an_counter_end(track); i++)
            sum += trace->counter.value[i];
        count += track->counter_count;
    }
    *mean = count ? sum / (double)count : 0;
    return count;
}

bool an_comm_ddp_timers(const struct an_context *context, struct an_ddp_timers *timers)
{
    const struct an_trace *trace = context->trace;
    timers->passes = mean_of(trace, "ddp.communication_ms", &timers->communication_ms);
    mean_of(trace, "ddp.overlapped_ms", &timers->overlapped_ms);
    mean_of(trace, "ddp.buckets", &timers->buckets);
    mean_of(trace, "ddp.largest_bytes", &timers->largest_bytes);
    mean_of(trace, "ddp.gradient_bytes", &timers->gradient_bytes);
    return timers->passes && timers->buckets >= 1 && timers->communication_ms > 0;
}

const char *an_comm_ddp_words(struct an_context *context)
{
    struct an_ddp_timers timers;
    if (!an_comm_ddp_timers(context, &timers))
        return NULL;
    return an_finding_text(
        context,
        "by DistributedDataParallel's own timers (%zu passes): %s from the first to the last "
        "reduction of a pass, %s of it overlapped with backward",
        timers.passes, an_time_words(context->arena, timers.communication_ms, 3),
        an_time_words(context->arena, timers.overlapped_ms, 3));
}

/* ---- the best of them --------------------------------------------------------------------------- */

static double expected_gain(struct an_context *context, const struct an_proposal *proposal)
{
    struct an_what_if what_if;
    if (proposal->bound)
        return 0; /* as a ceiling: it claims nothing */
    if (!context->what_if || an_what_if_of(context, proposal->what_if, &what_if) || what_if.reason)
        return -INFINITY;
    if (what_if.gain.expected.valid)
        return what_if.gain.expected.value;
    return what_if.gain.high.valid ? 0 : -INFINITY;
}

void an_comm_best_proposal(struct an_context *context, struct an_proposal *proposal)
{
    struct an_proposal found[3];
    size_t count = 0, best = 0;
    double times = sent_times(context), link = slow_link(context), gain[3];
    if (has_small_buckets(context))
        found[count++] = larger_buckets(context);
    if (times > 0)
        found[count++] = send_once(context, times);
    if (link > 0)
        found[count++] = faster_link(context, link);
    for (size_t i = 0; i < count; i++) {
        gain[i] = expected_gain(context, &found[i]);
        best = gain[i] > gain[best] ? i : best;
    }
    /* Where buckets are too small, whatever else would overlap them hides the same latencies. */
    bool small = has_small_buckets(context) && !an_command_has_option(context, "--no-overlap");
    if (count && (small || gain[best] >= expected_gain(context, proposal)))
        *proposal = found[best];
}
