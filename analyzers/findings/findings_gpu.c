/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of runs with accelerators: exposed communication, a device that idles while the host
 * launches or waits, exposed copies, GEMMs off the matrix units. Every gain is a ceiling: what
 * would be gained if all of the time that is named went away. One rank alone cannot distinguish
 * transfer from waiting for a peer, so exposed communication names no cause
 * (docs/definitions.md).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/device/api.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/graph/causes.h"
#include "analyzers/hardware/peaks.h"

#define SHORT_PCT      50.0 /* of the kernels, shorter than their launch call */
#define SLOW_CALL_US   50.0
#define FULL_QUEUE_PCT 1.0 /* of the span, with a launch queue that takes no more */
/* Of the span in launch calls: from here on their number is what keeps the host busy. */
#define LAUNCHING_PCT 20.0

/* Names what a share is of. Without steps it is of the whole capture. */
static const char *window_of(const struct an_class_share *share)
{
    return share->steps ? "the step" : "the capture";
}

static void share_ceiling(struct an_finding *finding, const struct an_class_share *share)
{
    an_finding_ceiling(finding, 100, share->mean, FINDINGS_NOT_REPLAYED);
    finding->bound = true;
    finding->method =
        share->steps ? "ceiling: step time / (step time - the named time) - 1; nothing was replayed"
                     : "ceiling: capture / (capture - the named time) - 1; nothing was replayed";
}

/* Share of exposed communication or copies over the whole capture. */
static struct an_class_share capture_share(const struct an_result *result, enum an_class class)
{
    double exposed = class == AN_CLASS_COMM ? an_devices_ns(result, exposed_comm_ns)
                                            : an_devices_ns(result, exposed_copy_ns);
    return (struct an_class_share){.mean = an_percent(exposed, an_devices_ns(result, span_ns)),
                                   .ms = exposed / 1e6};
}

/* Finds the share of a class of the step, or of the capture where there are no steps. *matters: it
 * is worth a finding. */
static int exposed_matters(const struct an_context *context, enum an_class class,
                           struct an_class_share *share, bool *matters)
{
    const struct an_budget *budget = &context->result->budget;
    *matters = false;
    if (!budget->reason && budget->pct[class].valid) {
        if (an_class_share(context, class, share))
            return TACHO_ENOMEM;
        /* The budget weights steps by their time; the report prints both figures. */
        share->mean = budget->pct[class].value;
    } else if (class == AN_CLASS_COMM || class == AN_CLASS_COPY) {
        *share = capture_share(context->result, class);
    } else {
        return 0;
    }
    *matters = an_class_share_matters(share);
    return 0;
}

/* ---- communication --------------------------------------------------------------------------- */

static const struct an_op *largest_of(const struct an_result *result, const char *kind)
{
    for (size_t i = 0; i < result->op_count; i++) /* largest first */
        if (!strcmp(result->ops[i].kind, kind))
            return &result->ops[i];
    return NULL;
}

/* How long compute waits for communication, by the dependencies and by the times alone. */
static const char *blocking_words(struct an_context *context)
{
    const struct an_result *result = context->result;
    bool known = false;
    for (size_t i = 0; i < result->gpu_count; i++)
        known = known || result->gpus[i].blocking_proven_ns.valid ||
                result->gpus[i].blocking_inferred_ns.valid;
    if (!known)
        return NULL;
    return an_finding_text(
        context,
        "compute waits for %s of it (proven by dependencies), for %s more (inferred from times; "
        "whole capture)",
        an_time_words(context->arena, an_devices_ns(result, blocking_proven_ns) / 1e6, 4),
        an_time_words(context->arena, an_devices_ns(result, blocking_inferred_ns) / 1e6, 4));
}

/* Number of processes with devices: those that communicate in this run. */
static int64_t ranks_with_devices(struct an_context *context)
{
    const struct an_result *result = context->result;
    int64_t *ranks = an_arena_zero(context->scratch, result->gpu_count + 1, sizeof *ranks);
    for (size_t i = 0; ranks && i < result->gpu_count; i++)
        ranks[i] = result->gpus[i].rank;
    return ranks ? (int64_t)an_distinct(ranks, result->gpu_count) : 0;
}

/* The overlap of the first device and the largest communication kernel. */
static void comm_evidence(struct an_context *context, struct an_finding *finding)
{
    const struct an_result *result = context->result;
    const struct an_op *op = largest_of(result, "comm");
    if (result->gpu_count && result->gpus[0].overlap_pct.valid)
        an_finding_note(context, finding,
                        "%.1f %% of communication is overlapped with compute (rank %" PRId64 ")",
                        result->gpus[0].overlap_pct.value, result->gpus[0].rank);
    if (op) {
        /* Without its arguments; a name that begins with a bracket keeps them. */
        int length = *op->name == '<' || *op->name == '(' ? 80 : (int)strcspn(op->name, "(<");
        double mean_ms = op->mean_us.valid ? op->mean_us.value / 1e3 : NAN;
        an_finding_note(context, finding, "largest: %.*s, %" PRId64 " times, %s each", length,
                        op->name, op->count, an_time_words(context->arena, mean_ms, 3));
    }

    an_finding_evidence(finding, blocking_words(context));
}

/* What to do depends on whether all ranks of the job are in the file. */
static void comm_action(struct an_context *context, struct an_finding *finding)
{
    const char *world = an_trace_key(context->trace, "world_size");
    int64_t ranks = ranks_with_devices(context), size = world ? strtoll(world, NULL, 10) : 0;
    if (ranks > 1 && size <= ranks) {
        finding->action =
            an_command_sharded(context->trace)
                ? "gather parameters earlier, so that compute hides it (FSDP2: "
                  "set_modules_to_forward_prefetch(), set_modules_to_backward_prefetch(); FSDP1: "
                  "forward_prefetch=True, BackwardPrefetch.BACKWARD_PRE), or keep them where "
                  "memory has room (reshard_after_forward=False)"
                : "let communication begin earlier, so that compute hides it (DDP: gradient "
                  "buckets)";
        finding->effort = "a setting of the parallel layer";
        finding->what_if = "comm=overlap";
    } else {
        finding->action = "record every rank into one folder and report that: it distinguishes "
                          "slow links from waiting for a slow rank";
        finding->effort = "another recording";
        finding->what_if = "comm=0";
    }
}

/* Looks at communication that no compute hides. Waiting for other ranks, where it is known, is
 * subtracted: it does not belong to communication, and where it is most of the time
 * an_findings_comm reports it. */
static int exposed_comm(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_communication *communication = &context->result->communication;
    const struct an_value *waiting = &communication->exposed_waiting_ms;
    struct an_class_share share;
    bool matters;
    int rc = exposed_matters(context, AN_CLASS_COMM, &share, &matters);
    if (rc || !matters)
        return rc;
    if (an_comm_mostly_waits(context) && !an_findings_slow_rank(context))
        return 0;
    double step_ms = an_budget_step_ms(&context->result->budget);
    bool split = !communication->reason && waiting->valid && step_ms > 0;
    if (split)
        share.mean -= fmin(share.mean, 100 * waiting->value / step_ms);
    if (split && !an_class_share_matters(&share))
        return 0;
    struct an_finding *finding = an_findings_add(
        findings, "EXPOSED_COMM",
        an_finding_text(context, "%.1f %% of %s is exposed %s", share.mean, window_of(&share),
                        split ? "transfer between ranks" : "communication"));
    an_finding_evidence(
        finding,
        an_class_share_text(context, &share, split ? "exposed transfer" : "exposed communication"));
    if (split)
        an_finding_note(context, finding, "%s more are waiting for other ranks, not transfer",
                        an_time_words(context->arena, waiting->value, 3));
    comm_evidence(context, finding);
    comm_action(context, finding);
    share_ceiling(finding, &share);
    finding->verify = "run again and compare exposed_comm_us of each device: `tacho report --json`";
    finding->wrong_when = "the time is waiting for a slower rank: communication kernels spin while "
                          "they wait, and the recording of one rank does not show it";
    return 0;
}

/* ---- the host is late ------------------------------------------------------------------------ */

/* The cause that explains most launch-starved time of a row, and its share of that time. */
static const char *largest_cause(const struct an_absent *absent, double *pct)
{
    const char *best = "";
    *pct = 0;
    for (size_t i = 0; i < absent->cause_count; i++) {
        double sum = 0;
        for (size_t k = i; k < absent->cause_count; k++)
            if (!strcmp(absent->causes[k].cause, absent->causes[i].cause))
                sum += absent->causes[k].pct;
        if (sum > *pct) {
            *pct = sum;
            best = absent->causes[i].cause;
        }
    }
    return best;
}

/* Untraced time has a key that is not its name in texts. */
static const char *cause_words(const char *cause)
{
    return strcmp(cause, an_cause_key(AN_CAUSE_UNTRACED)) ? cause : "untraced host time";
}

/* "33.6 % of the step is launch-bound (...), 64.7 % of that by input": the split
 * of the compute-absent time, mean over devices; the cause is that of the device with most of it.
 */
static const char *starved_words(struct an_context *context)
{
    double starved = 0, window = 0, pct = 0;
    const struct an_absent *most = NULL;
    for (size_t i = 0; i < context->result->absent_count; i++) {
        const struct an_absent *absent = &context->result->absent[i];
        const struct an_count *late = &absent->part_ns[AN_ABSENT_LAUNCH_STARVED];
        if (!late->valid)
            continue;
        starved += (double)late->value;
        window += (double)absent->window_ns;
        if (!most || late->value > most->part_ns[AN_ABSENT_LAUNCH_STARVED].value)
            most = absent;
    }
    if (!most || window <= 0)
        return NULL;
    const char *cause = largest_cause(most, &pct), *by = "";
    if (*cause)
        by = an_finding_text(context, ", %.0f %% of that by %s", pct, cause_words(cause));

    return an_finding_text(context, "%.1f %% of %s is launch-bound (idle before the next launch)%s",
                           an_percent(starved, window), most->steps ? "the step" : "the capture",
                           by);
}

/* The operator that takes most host time of its own. */
static const struct an_attribution_row *busiest_host(const struct an_result *result)
{
    const struct an_attribution *attribution = &result->attribution[0];
    const struct an_attribution_row *most = NULL;
    for (size_t i = 0; !attribution->reason && i < attribution->row_count; i++)
        if (!most || attribution->rows[i].host_ns > most->host_ns)
            most = &attribution->rows[i];
    return most && most->host_ns > 0 ? most : NULL;
}

/* Advises where most kernels are shorter than their launch call: fewer launches. */
static void launch_bound(struct an_context *context, struct an_finding *finding)
{
    finding->id = "LAUNCH_BOUND";
    finding->action =
        context->result->launches.graphs
            ? "fewer, longer kernels: fuse element-wise work (torch.compile), a fused optimizer, a "
              "larger batch"
            : "fewer launches: a CUDA graph of the step (torch.compile(mode=\"reduce-overhead\")), "
              "fused kernels, a larger batch";
    finding->effort = "some lines of code";
    finding->what_if = context->result->launches.graphs ? NULL : "launch=graph";
    finding->wrong_when = "shapes change from step to step (graphs cannot be replayed), or "
                          "recording itself made the host slow";
}

/* How to make a launching call return sooner; a queue is only said to fill where it does. */
static const char *launch_action(struct an_context *context, const char *name)
{
    const struct an_launches *launches = &context->result->launches;
    bool fills = !launches->reason && launches->full_queue_pct.valid &&
                 launches->full_queue_pct.value >= FULL_QUEUE_PCT;
    return an_finding_text(context,
                           "let %.60s return at once: load kernels before the first step "
                           "(warm-up)%s, launch fewer kernels",
                           name, fills ? ", keep the launch queue from filling" : "");
}

/* What to do where the host is in the framework. */
static const char *framework_action(const struct an_result *result)
{
    if (an_is_compiled(result))
        return "shorten what the host does between launches: torch.compile("
               "mode=\"reduce-overhead\") replays graphs, fewer graph breaks "
               "(TORCH_LOGS=graph_breaks), a larger batch";
    return "shorten what the host does between launches: torch.compile, fewer small tensor "
           "operations in Python, a larger batch";
}

/* Causes of launch-starved time for which there is advice; %s: the largest name. Other causes are
 * the framework's. */
static const struct host_advice {
    const char *cause, *edit, *action;
} host_advice[] = {
    {"copy", "copy=0",
     "keep the host from waiting in %.60s: pin the memory, copy with non_blocking=True, and read "
     "values back less often (.item(), .cpu(), printing)"},
    {"sync", "sync=0",
     "do not wait for the device inside a step (%.60s): read the loss every N steps"},
    {"allocation", "allocation=0",
     "allocate memory once (%.60s): a caching allocator with expandable segments "
     "(PYTORCH_CUDA_ALLOC_CONF), tensors of constant size"},
    {"locked",
     "allocation=0", /* memory of the host, of which the allocator of the device has none */
     "lock memory of the host once (%.60s): reuse pinned buffers, or let the loader do it "
     "(pin_memory=True)"},
    {"collection", "collection=0",
     "collect garbage between steps, not inside them (%.60s): gc.disable() and gc.collect() every "
     "N steps"},
    {"compile", "compile=0",
     "keep the compiler from working inside steps (%.60s): warm up with every shape, "
     "mark dynamic dimensions (TORCH_LOGS=recompiles)"}};

/* What to do about the cause that takes most of the launch-starved time, and its largest name. */
static void host_bound_action(struct an_context *context, struct an_finding *finding,
                              const char *cause, const char *name)
{
    if (!strcmp(cause, an_cause_key(AN_CAUSE_ALLOCATION)) && strstr(name, "Host"))
        cause = "locked";
    for (size_t i = 0; i < sizeof host_advice / sizeof *host_advice; i++)
        if (!strcmp(cause, host_advice[i].cause)) {
            finding->what_if = host_advice[i].edit;
            finding->action = an_arena_format(context->arena, host_advice[i].action, name);
            return;
        }
    bool launching = !strcmp(cause, an_cause_key(AN_CAUSE_LAUNCH));
    const char *host_work = launching ? NULL : an_host_operator_action(context, name);
    finding->what_if = launching ? "launch=0" : "framework=0";
    finding->action = launching ? launch_action(context, name) : framework_action(context->result);
    if (host_work)
        finding->action = host_work;
}

/* Advises by the cause for which the host lets the device idle longest in sum: the largest name
 * may belong to another one. */
static void host_bound(struct an_context *context, struct an_finding *finding)
{
    const char *name, *cause = an_idle_cause(context, &name);
    const struct an_attribution_row *op = busiest_host(context->result);
    if (op)
        an_finding_note(context, finding,
                        "largest host self time: %.80s, %s in %" PRId64 " calls (whole capture)",
                        op->name, an_time_words(context->arena, (double)op->host_ns / 1e6, 4),
                        op->count);
    host_bound_action(context, finding, cause, name);
    finding->effort = "some lines of code";

    finding->wrong_when =
        "recording itself made the host slow: stacks and shapes cost time in every operator";
}

/* Evidence from the launch calls and from the split of the non-compute time. */
static void launch_evidence(struct an_context *context, struct an_finding *finding,
                            double calls_pct)
{
    const struct an_launches *launches = &context->result->launches;
    if (!launches->reason && launches->host_mean_us.valid)
        an_finding_note(
            context, finding, "%" PRId64 " launches of %s each on the host, %.0f %% of the capture",
            launches->calls, an_time_words(context->arena, launches->host_mean_us.value / 1000, 3),
            calls_pct);
    if (!launches->reason && launches->short_pct.valid)
        an_finding_note(context, finding, "%.0f %% of kernels are shorter than their launch call",
                        launches->short_pct.value);
    an_finding_evidence(finding, starved_words(context));
}

/* Looks at devices that idle while the host works. It is LAUNCH_BOUND where many short launch calls
 * keep the host busy. Calls that take long wait for something (a full queue, a library to load);
 * fewer of them would not help, so that is HOST_BOUND. */
static int host_late(struct an_findings_list *findings, double span)
{
    struct an_context *context = findings->context;
    const struct an_launches *launches = &context->result->launches;
    struct an_class_share share;
    bool matters;
    int rc = exposed_matters(context, AN_CLASS_HOST, &share, &matters);
    if (rc || !matters)
        return rc;
    const char *doing = an_idle_host(context);
    double calls_pct = 0;
    if (!launches->reason && launches->host_mean_us.valid)
        calls_pct = an_percent((double)launches->calls * launches->host_mean_us.value * 1e3, span);
    bool launching = calls_pct >= LAUNCHING_PCT && launches->host_mean_us.value <= SLOW_CALL_US &&
                     launches->short_pct.valid && launches->short_pct.value >= SHORT_PCT;
    struct an_finding *finding = an_findings_add(
        findings, "HOST_BOUND",
        an_finding_text(context, "%.1f %% of the step the device idles while the host %s",
                        share.mean,
                        launching ? "launches kernels one by one"
                                  : "is in the framework or in calls of the runtime"));
    an_finding_evidence(finding, an_class_share_text(context, &share, "device idle, host busy"));
    an_finding_evidence(finding, doing);
    launch_evidence(context, finding, calls_pct);
    an_finding_own_lines(context, finding);
    if (launching)
        launch_bound(context, finding);
    else
        host_bound(context, finding);
    share_ceiling(finding, &share);
    finding->verify = "run again and compare the row host of the step budget: `tacho report`";
    return 0;
}

/* ---- synchronise calls and copies ------------------------------------------------------------ */

/* The synchronise call that waits longest for idle devices. */
static const struct an_sync_row *longest_idle_sync(const struct an_result *result)
{
    const struct an_sync_row *most = NULL;
    for (size_t i = 0; i < result->sync_count; i++)
        if (result->sync[i].idle_ns.valid &&
            (!most || result->sync[i].idle_ns.value > most->idle_ns.value))
            most = &result->sync[i];
    return most;
}

/* Looks at synchronise calls in which the host waits although no device of its process works. */
static int sync_stall(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_class_share share;
    const struct an_sync_row *most = longest_idle_sync(context->result);
    if (context->result->syncs.reason)
        return 0;
    int rc = an_sync_idle_share(context, &share);
    if (rc || !most || !an_class_share_matters(&share))
        return rc;
    struct an_finding *finding = an_findings_add(
        findings, "SYNC_STALL",
        an_finding_text(context,
                        "the host waits in synchronising calls while no device works: %.1f %% of "
                        "%s",
                        share.mean, window_of(&share)));
    an_finding_evidence(
        finding,
        an_class_share_text(context, &share, "waiting in synchronising calls with an idle device"));
    an_finding_note(context, finding,
                    "most: %.60s, %" PRId64 " %s, %s with an idle device (whole capture)",
                    most->name, most->count, most->count == 1 ? "call" : "calls",
                    an_time_words(context->arena, (double)most->idle_ns.value / 1e6, 4));
    finding->action = "do not wait for the device inside a step: read the loss every N steps "
                      "(.item(), .cpu()), copy with non_blocking=True";
    finding->effort = "some lines of code";
    finding->what_if = "sync=0";
    share_ceiling(finding, &share);
    finding->verify = "run again and compare syncs: `tacho report --json`";
    finding->wrong_when = "the calls wait for something other than this process's devices";
    return 0;
}

static const struct an_copy_row *pageable_row(const struct an_result *result)
{
    for (size_t i = 0; i < result->copy_count; i++)
        if (!strcmp(result->copy[i].kind, "HtoD") && !strcmp(result->copy[i].memory, "pageable"))
            return &result->copy[i];
    return NULL;
}

/* Evidence of one kind of copies: count, time, exposed part and bandwidth. */
static void copy_evidence(struct an_context *context, struct an_finding *finding,
                          const struct an_copy_row *row)
{
    an_finding_note(context, finding,
                    "%s%s%s: %" PRId64 " copies, %s, %s of it exposed (whole capture)", row->kind,
                    *row->memory ? ", " : "", row->memory, row->count,
                    an_time_words(context->arena, (double)row->total_ns / 1e6, 4),
                    an_time_words(context->arena, (double)row->exposed_ns / 1e6, 4));
    if (row->bytes.valid && row->bytes_per_s.valid)
        an_finding_note(context, finding, "%s at %s GB/s",
                        an_bytes_text(context, (double)row->bytes.value),

                        an_number_words(context->arena, row->bytes_per_s.value / 1e9, 3));
}

/* Looks at copies from pageable memory, which block the host. *found: their share in %, 0 where
 * they are no finding. */
static int pageable_copy(struct an_findings_list *findings, double *found)
{
    struct an_context *context = findings->context;
    const struct an_copy_row *row = pageable_row(context->result);
    struct an_class_share share;
    *found = 0;
    if (context->result->copies.reason)
        return 0;
    int rc = row ? an_pageable_share(context, &share) : 0;
    if (rc || !row || !an_class_share_matters(&share))
        return rc;
    *found = share.mean;
    struct an_finding *finding = an_findings_add(
        findings, "PAGEABLE_COPY",
        an_finding_text(context,
                        "exposed copies from pageable memory to the device take %.1f %% of %s",
                        share.mean, window_of(&share)));
    an_finding_evidence(finding, an_class_share_text(context, &share, "such copies"));
    copy_evidence(context, finding, row);
    finding->action = "copy from pinned memory, overlapped with compute: "
                      "DataLoader(pin_memory=True) and .to(device, non_blocking=True)";
    finding->effort = "two settings";
    finding->what_if = "copy:HtoD=0";
    share_ceiling(finding, &share);
    finding->verify = "run again and compare copies: `tacho report --json`";
    finding->wrong_when = "the batch is needed at once and no compute can overlap with the copy";
    return 0;
}

/* Copies of the kind that is exposed longest. */
static const struct an_copy_row *most_exposed_copies(const struct an_result *result)
{
    const struct an_copy_row *row = NULL;
    for (size_t i = 0; i < result->copy_count; i++)
        if (strcmp(result->copy[i].kind, "memset") != 0 &&
            (!row || result->copy[i].exposed_ns > row->exposed_ns))
            row = &result->copy[i];
    return row;
}

/* What to do about exposed copies in that direction. */
static void exposed_copy_action(struct an_finding *finding, const struct an_copy_row *row)
{
    const char *kind = row->kind;
    if (!strcmp(row->memory, "managed"))
        finding->action = "these are migrations of managed memory, which page faults on first "
                          "access trigger: prefetch the data with cudaMemPrefetchAsync on a "
                          "stream, set its placement with cudaMemAdvise (SetPreferredLocation, "
                          "SetReadMostly), or copy it yourself with cudaMemcpyAsync";
    else if (!strcmp(kind, "DtoD"))
        finding->action = "fewer copies on the device: avoid .contiguous(), clone and torch.cat of "
                          "large tensors, write into place, or fuse the operation that copies "
                          "(tacho report --by line finds it)";
    else if (!strcmp(kind, "DtoH"))
        finding->action = "copy less back to the host inside a step, or on a stream of its own "
                          "with non_blocking=True";
    else
        finding->action = "move less to the device inside a step, or begin earlier: prefetch on a "
                          "stream of its own, overlapped with compute";
}

/* Looks at exposed copies of any other kind. `pageable`: the share that PAGEABLE_COPY has named. */
static int exposed_copy(struct an_findings_list *findings, double pageable)
{
    struct an_context *context = findings->context;
    struct an_class_share share;
    bool matters;
    const struct an_copy_row *row = most_exposed_copies(context->result);
    int rc = exposed_matters(context, AN_CLASS_COPY, &share, &matters);
    if (rc || !matters || !row || pageable > 0.8 * share.mean)
        return rc;
    struct an_finding *finding = an_findings_add(
        findings, "EXPOSED_COPY",
        an_finding_text(context, "%.1f %% of %s is exposed copies", share.mean, window_of(&share)));
    an_finding_evidence(finding, an_class_share_text(context, &share, "exposed copies"));
    copy_evidence(context, finding, row);
    exposed_copy_action(finding, row);
    finding->effort = "some lines of code";
    share_ceiling(finding, &share);
    finding->verify = "run again and compare copies: `tacho report --json`";
    finding->wrong_when = "compute needs what is copied and nothing else could run in the meantime";
    return 0;
}

/* ---- precision ------------------------------------------------------------------------------- */

int an_findings_gpu(struct an_findings_list *findings)
{
    double span = an_devices_ns(findings->context->result, span_ns), pageable = 0;
    if (span <= 0)
        return 0;
    if (an_too_little(findings->context)) {
        an_findings_capture(findings);
        return 0;
    }
    int rc = exposed_comm(findings);
    rc = rc ? rc : host_late(findings, span);
    rc = rc ? rc : sync_stall(findings);
    rc = rc ? rc : pageable_copy(findings, &pageable);
    rc = rc ? rc : exposed_copy(findings, pageable);
    if (rc)
        return rc;
    an_findings_low_precision(findings, span);
    an_findings_throttled(findings);
    an_findings_attention(findings);
    if ((rc = an_findings_kernels(findings)))
        return rc;
    an_findings_capture(findings);
    return 0;
}
