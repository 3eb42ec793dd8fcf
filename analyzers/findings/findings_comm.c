/* SPDX-License-Identifier: Apache-2.0
 *
 * EXPOSED_COMM on the CPU: what the exposed time is decides what to do. Waiting points to the rank
 * that comes last, transfer to buckets, overlap and bytes. A file that lacks a rank cannot separate
 * the two: then the only advice is to record all ranks (docs/definitions.md).
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_messages.h"

/* Of all waiting: the others wait for one rank if it causes this much. */
#define NAMED_SHARE 0.75
/* Of a step's gradients: so few that the latency of each does not count. */
#define BUCKETS          8
#define BUCKET_LEAST_MIB 0.06
/* Of communication that is overlapped with compute: below this nothing overlaps. */
#define OVERLAPS_PCT 5.0

struct exposure {
    struct an_class_share share;
    double step, exposed, waiting;   /* ms of a step, mean over ranks */
    double most_waiting;             /* ms of a step of the rank that waits most */
    const struct an_comm_rank *most; /* the rank that waits most */
    const struct an_comm_rank *last; /* the rank that the others wait for most */
    bool split;                      /* is it known what of it is waiting? */
};

/* Reads the exposed communication of a step and its parts, and finds the rank that waits most and
 * the one that the others wait for most. */
static struct exposure measure(const struct an_context *context)
{
    const struct an_communication *communication = &context->result->communication;
    const struct an_budget *budget = &context->result->budget;
    struct exposure exposure = {.step = an_budget_step_ms(budget)};
    exposure.exposed = exposure.step * budget->pct[AN_CLASS_COMM].value / 100;
    exposure.split = !communication->reason && communication->exposed_waiting_ms.valid;
    exposure.waiting = exposure.split ? communication->exposed_waiting_ms.value : 0;
    /* The budget is the mean of the devices' shares, the split a mean of times: beside a part of
     * the split the exposed time is that of the split. */
    if (exposure.split && communication->exposed_ms.valid && context->gpu)
        exposure.exposed = fmax(communication->exposed_ms.value, exposure.waiting);
    for (size_t i = 0; exposure.split && i < communication->rank_count; i++) {
        const struct an_comm_rank *comm_rank = &communication->ranks[i];
        if (comm_rank->exposed_waiting_ms.valid &&
            (!exposure.most ||
             comm_rank->exposed_waiting_ms.value > exposure.most->exposed_waiting_ms.value))
            exposure.most = comm_rank;
        if (comm_rank->caused_ms.valid &&
            (!exposure.last || comm_rank->caused_ms.value > exposure.last->caused_ms.value))
            exposure.last = comm_rank;
    }
    exposure.most_waiting = exposure.most ? exposure.most->exposed_waiting_ms.value : 0;
    return exposure;
}

static double caused_by_all(const struct an_context *context)
{
    double sum = 0;
    for (size_t i = 0; i < context->result->communication.rank_count; i++)
        sum += an_value_or_0(context->result->communication.ranks[i].caused_ms);
    return sum;
}

/* ---- evidence -------------------------------------------------------------------------------- */

/* Evidence: how much of the exposed time is transfer and how much is waiting. */
static const char *split_words(struct an_context *context, const struct exposure *exposure)
{
    const struct an_communication *communication = &context->result->communication;
    if (!exposure->split || !communication->exposed_transfer_ms.valid)
        return NULL;
    return an_finding_text(
        context, "of it %s transfer, %s waiting for other ranks (mean over %zu ranks)",
        an_time_words(context->arena, communication->exposed_transfer_ms.value, 3),
        an_time_words(context->arena, communication->exposed_waiting_ms.value, 3),
        communication->rank_count);
}

static const char *overlap_words(struct an_context *context)
{
    const struct an_communication *communication = &context->result->communication;
    if (communication->reason || !communication->overlap_pct.valid ||
        !communication->total_ms.valid)
        return an_comm_ddp_words(context);
    return an_finding_text(context,
                           "%s of communication a step, %.1f %% of it overlapped with compute",
                           an_time_words(context->arena, communication->total_ms.value, 3),
                           communication->overlap_pct.value);
}

/* Bandwidth of the collective that moves most, beside the measured link. */
static const char *link_words(struct an_context *context)
{
    const struct an_collective *collective = an_comm_largest(context);
    double link = an_comm_measured_link(context);
    const char *measured = link > 0
                               ? an_finding_text(context, "; the link was measured at %s GB/s",
                                                 an_number_words(context->arena, link / 1e9, 3))
                               : "";
    if (!collective)
        return NULL;
    return an_finding_text(
        context, "%.60s of %s MB: %s GB/s on the bus (%s)%s", collective->name,
        an_number_words(context->arena, collective->bytes_per_call.value / 1e6, 3),
        an_number_words(context->arena, collective->bus_bytes_per_s.value / 1e9, 3),
        collective->bandwidth_of ? collective->bandwidth_of : "", measured);
}

/* Evidence: the rank that the others wait for, and how long they do. */
static const char *last_words(struct an_context *context, const struct exposure *exposure)
{
    if (!exposure->last || !exposure->last->last_pct.valid)
        return NULL;
    return an_finding_text(
        context,
        "rank %" PRId64
        " arrives last at %.0f %% of the collectives; the others together wait %s a step for it",
        exposure->last->rank, exposure->last->last_pct.value,
        an_time_words(context->arena, exposure->last->caused_ms.value, 4));
}

static const char *most_words(struct an_context *context, const struct exposure *exposure)
{
    if (!exposure->most)
        return NULL;
    return an_finding_text(context, "rank %" PRId64 " waits most: %s a step", exposure->most->rank,
                           an_time_words(context->arena, exposure->most_waiting, 3));
}

/* ---- the three forms ------------------------------------------------------------------------- */

/* The finding of a file that lacks ranks: it does not say why the time is exposed, so the advice is
 * to record more. */
static void one_rank(struct an_context *context, const struct exposure *exposure,
                     struct an_finding *finding)
{
    const struct an_communication *communication = &context->result->communication;
    const char *why = communication->reason ? communication->reason : communication->missing;

    finding->claim = an_finding_text(context,
                                     "%.1f %% of the step is exposed communication; the file does "
                                     "not say whether ranks wait for each other or transfer",
                                     context->result->budget.pct[AN_CLASS_COMM].value);
    an_finding_evidence(finding,
                        an_class_share_text(context, &exposure->share, "exposed communication"));
    an_finding_evidence(finding, overlap_words(context));
    an_finding_note(context, finding, "%.300s",
                    why ? why : communication->exposed_waiting_ms.reason);
    finding->action = "record every rank into one report: tacho run -- mpirun ..., or tacho merge "
                      "of their files; the report then distinguishes a slow link from a slow rank";
    finding->effort = "another recording";
    finding->confidence = AN_LOW;
    finding->method =
        "ceiling \"no exposed communication\": step / (step - exposed) - 1; nothing was replayed";
    finding->verify = "report the merged file and read the line Communication";
    finding->wrong_when = "the cause is known already";
    an_finding_ceiling(finding, exposure->step, exposure->exposed, FINDINGS_NOT_REPLAYED);
    finding->what_if = "comm=0";
    finding->bound = true;
}

/* Names the rank that causes most of the waiting (`caused`), if one does. */
static void waiting_action(struct an_context *context, const struct exposure *exposure,
                           double caused, struct an_finding *finding)
{
    bool named = exposure->last && exposure->last->caused_ms.value >= NAMED_SHARE * caused;
    if (named)
        finding->action =
            an_finding_text(context,
                            "make rank %" PRId64
                            " arrive earlier: compare its budget with the others' (its loader, its "
                            "share of the work, its cores); the link is not the cause",
                            exposure->last->rank);
    else if (exposure->last && caused > 0)
        finding->action =
            an_finding_text(context,
                            "balance the ranks: rank %" PRId64
                            " causes %.0f %% of the waiting, the others the rest (uneven batches, "
                            "cores that are shared); the link is not the cause",
                            exposure->last->rank, 100 * exposure->last->caused_ms.value / caused);
    else
        finding->action =
            "balance the ranks (uneven batches, cores that are shared); the link is not the cause";
}

/* Evidence of ranks that wait for each other. */
static void waiting_evidence(struct an_context *context, const struct exposure *exposure,
                             struct an_finding *finding)
{
    an_finding_evidence(finding,
                        an_class_share_text(context, &exposure->share, "exposed communication"));
    an_finding_evidence(finding, split_words(context, exposure));
    an_finding_evidence(finding, last_words(context, exposure));
    an_finding_evidence(finding, most_words(context, exposure));
    an_finding_evidence(finding, overlap_words(context));
}

/* The finding of ranks that wait for each other: the gain is bounded by the rank that waits most
 * (in a pipeline by the mean), and the advice names the rank that causes most of the waiting. */
static void waiting(struct an_context *context, const struct exposure *exposure,
                    struct an_finding *finding)
{
    double caused = caused_by_all(context);
    bool named = exposure->last && exposure->last->caused_ms.value >= NAMED_SHARE * caused;
    finding->claim = an_finding_text(context,
                                     "the step waits for other ranks: %s of %s of exposed "
                                     "communication are waiting, %.1f %% of the step",
                                     an_time_words(context->arena, exposure->waiting, 3),
                                     an_time_words(context->arena, exposure->exposed, 3),
                                     context->result->budget.pct[AN_CLASS_COMM].value *
                                         exposure->waiting / exposure->exposed);
    waiting_evidence(context, exposure, finding);
    waiting_action(context, exposure, caused, finding);

    finding->effort = "find out what takes that rank longer";
    /* The stages of a pipeline do different work: what the others do stays. */
    bool is_pipeline = !context->result->ranks.pipeline.reason;
    finding->method =
        is_pipeline ? "ceiling \"no rank waits\": step / (step - exposed waiting, mean over ranks) "
                      "- 1; nothing was replayed"
                    : "ceiling \"no rank waits\": step / (step - exposed waiting of the rank that "
                      "waits most) - 1; nothing was replayed";
    finding->verify = an_finding_text(
        context, "%s, and read the row exposed communication",
        an_command_rerun(context, named ? an_finding_text(context, "rank %" PRId64 " made faster",
                                                          exposure->last->rank)
                                        : "balanced ranks"));
    finding->wrong_when = "the shortest call of a collective includes waiting too (every rank was "
                          "delayed inside it): that waiting then counts as transfer";
    an_finding_ceiling(finding, exposure->step,
                       is_pipeline ? exposure->waiting : exposure->most_waiting,
                       FINDINGS_NOT_REPLAYED);
    finding->what_if = "peers=0";
    finding->bound = true;
}

static bool has_comm_thread(const struct an_context *context)
{
    for (size_t i = 0; i < context->trace->track_count; i++) {
        const struct an_track *track = &context->trace->track[i];
        if (!strcmp(track->kind, "thread") && !strncmp(track->name, "comm-", 5) &&
            track->slice_count)
            return true;
    }
    return false;
}

/* Advice for a run of the engine in which nothing overlaps. The command says whether overlap was
 * switched off, the threads say whether it was possible. */
static const char *engine_overlap(struct an_context *context, const char **option)
{
    const struct an_value *bytes = &context->result->communication.bytes_per_step;
    bool command_known = an_trace_key(context->trace, "command") != NULL;
    if (!command_known || an_command_has_option(context, "--no-overlap")) {
        *option = "without --no-overlap";
        return command_known
                   ? "overlap the gradients' all-reduce with backward: run without --no-overlap"
                   : "overlap the gradients' all-reduce with backward: run without --no-overlap, "
                     "if it is set";
    }
    if (!has_comm_thread(context)) {
        *option = "an MPI library that allows calls from a second thread";
        return "overlap the gradients' all-reduce with backward: it needs an MPI library that "
               "allows calls from a second thread (MPI_THREAD_SERIALIZED); this one does not, so "
               "the step's thread reduces after backward";
    }
    double mib = bytes->valid && bytes->value > 0 ? bytes->value / (1 << 20) / BUCKETS : 1;
    *option = an_finding_text(
        context, "--bucket-mib %s",
        an_number_words(context->arena, mib < BUCKET_LEAST_MIB ? BUCKET_LEAST_MIB : mib, 2));
    return an_finding_text(
        context, "smaller buckets, so that the first ones are reduced while backward runs: %s",
        *option);
}

/* The advice depends on whether anything overlaps, and whether most of the exposed time is outside
 * of the calls. *option: the setting to verify with. */
static const char *transfer_action(struct an_context *context, bool overlaps, bool outside_calls,
                                   const char **option)
{
    bool lib = an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN;
    struct an_ddp_timers timers;
    if (an_command_sharded(context->trace)) {
        *option = "parameters gathered ahead, or kept";
        return "gather the parameters of the next block while this one computes "
               "(unshard(async_op=True); on GPUs set_modules_to_forward_prefetch()), shard whole "
               "blocks and not single layers, and keep what memory has room for "
               "(reshard_after_forward=False)";
    }
    /* Buckets are advised by DDP_BUCKETS alone, where their fault and their time are measured. */
    if (!context->result->communication.overlap_pct.valid) {
        *option = "fewer bytes between ranks";
        return an_comm_ddp_timers(context, &timers)
                   ? "reduce fewer bytes (gradients in bf16), or use a faster link between machines"
                   : "reduce fewer bytes (gradients in bf16), or use a faster link between "
                     "machines; how much is reduced during backward already is not visible";
    }
    if (!overlaps && lib)
        return engine_overlap(context, option);
    if (!overlaps) {
        *option = "overlap";
        return "overlap the gradients' all-reduce with backward: reduce buckets on a thread of "
               "their own";
    }
    if (outside_calls) {
        *option = lib ? "--no-overlap" : "a core for the thread that communicates";
        return lib ? "give the thread that communicates a core: fewer OpenMP threads a rank "
                     "(OMP_NUM_THREADS), fewer ranks a machine, or --no-overlap"
                   : "give the thread that communicates a core of its own: fewer compute threads a "
                     "rank";
    }
    *option = lib ? "--bucket-mib 1" : "smaller buckets";
    return lib ? "smaller buckets, so that less is left when backward ends: --bucket-mib; or fewer "
                 "bytes: --dtype bf16 reduces half as many"
               : "smaller buckets, so that less is left when backward ends; or fewer bytes: reduce "
                 "gradients in bf16";
}

/* Evidence of exposed transfer. */
static void transfer_evidence(struct an_context *context, const struct exposure *exposure,
                              struct an_finding *finding)
{
    an_finding_evidence(finding,
                        an_class_share_text(context, &exposure->share, "exposed communication"));
    an_finding_evidence(finding, split_words(context, exposure));
    an_finding_evidence(finding, overlap_words(context));
    an_finding_evidence(finding, link_words(context));
    an_finding_evidence(finding, last_words(context, exposure));
}

/* How much of the `removed` ms are transfer, and how much is around it. */
static void transfer_claim(struct an_context *context, const struct exposure *exposure,
                           double in_calls, double removed, struct an_finding *finding)
{
    double rest = removed > in_calls ? removed - in_calls : 0;
    const char *around = context->result->communication.overlap_pct.valid
                             ? "around it (packing, passing buffers on)"
                             : "around it (other waits for communication)";
    finding->claim =
        rest >= 0.1 * removed
            ? an_finding_text(context,
                              "%s of transfer between ranks and %s %s run while nothing computes, "
                              "%.1f %% of the step",
                              an_time_words(context->arena, in_calls, 3),
                              an_time_words(context->arena, rest, 3), around,
                              100 * removed / exposure->step)
            : an_finding_text(
                  context,
                  "%s of transfer between ranks run while nothing computes, %.1f %% of the step",
                  an_time_words(context->arena, removed, 3), 100 * removed / exposure->step);
}

/* The finding of transfer that no compute hides. Time outside of the calls is packing or a thread
 * that does not get a core. */
static void transfer(struct an_context *context, const struct exposure *exposure,
                     struct an_finding *finding)
{
    const struct an_communication *communication = &context->result->communication;
    bool overlaps =
        communication->overlap_pct.valid && communication->overlap_pct.value >= OVERLAPS_PCT;
    double removed = exposure->exposed - exposure->waiting, in_calls = removed;
    if (communication->exposed_transfer_ms.valid)
        in_calls = communication->exposed_transfer_ms.value;
    double rest = removed > in_calls ? removed - in_calls : 0;
    transfer_claim(context, exposure, in_calls, removed, finding);
    transfer_evidence(context, exposure, finding);
    bool hidden = overlaps || !communication->overlap_pct.valid;
    struct an_proposal proposal = {.what_if = hidden ? "comm=0" : "comm=overlap", .bound = hidden};
    proposal.action = transfer_action(context, overlaps, rest > in_calls, &proposal.option);
    an_comm_best_proposal(context, &proposal);
    finding->action = proposal.action;
    finding->what_if = proposal.what_if;
    finding->bound = proposal.bound;
    finding->effort = "a setting of the parallel layer";
    finding->method = "ceiling \"all transfer hidden\": step / (step - exposed + exposed waiting) "
                      "- 1; nothing was replayed";
    finding->setting = proposal.option;
    finding->verify = an_finding_text(context, "%s, and read the row exposed communication",
                                      an_command_rerun(context, proposal.option));
    finding->wrong_when = "cores are short: a thread that communicates takes one from compute, "
                          "which then takes longer";
    an_finding_ceiling(finding, exposure->step, removed, FINDINGS_NOT_REPLAYED);
}

/* Is a part of the exposed time above the noise floor, as far as the whole is? */
static bool part_matters(const struct exposure *exposure, double ms)
{
    struct an_class_share part = exposure->share;
    part.mean = 100 * ms / exposure->step;
    return an_class_share_matters(&part);
}

bool an_comm_mostly_waits(const struct an_context *context)
{
    const struct an_budget *budget = &context->result->budget;
    if (budget->reason || !budget->pct[AN_CLASS_COMM].valid || !budget->steps)
        return false;
    struct exposure exposure = measure(context);
    return exposure.split && 2 * exposure.waiting >= exposure.exposed;
}

bool an_comm_waits_for_one(const struct an_context *context, int64_t *rank)
{
    if (!an_comm_mostly_waits(context))
        return false;
    struct exposure exposure = measure(context);
    if (!exposure.last || !(exposure.last->caused_ms.value > 0) ||
        exposure.last->caused_ms.value < NAMED_SHARE * caused_by_all(context))
        return false;
    *rank = exposure.last->rank;
    return true;
}

int an_findings_comm(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    /* Then the waiting belongs to that rank's finding. */
    bool named = an_findings_slow_rank(context);

    if (budget->reason || !budget->pct[AN_CLASS_COMM].valid ||
        (context->gpu && (named || !an_comm_mostly_waits(context))))
        return 0;
    struct exposure exposure = measure(context);
    if (an_class_share(context, AN_CLASS_COMM, &exposure.share))
        return TACHO_ENOMEM;
    bool waits = exposure.split && 2 * exposure.waiting >= exposure.exposed && !named;
    double part = waits ? exposure.waiting : exposure.exposed - exposure.waiting;
    if (!an_class_share_matters(&exposure.share) || !part_matters(&exposure, part))
        return 0;
    exposure.share.mean = budget->pct[AN_CLASS_COMM].value; /* weights steps by their time */
    struct an_finding *finding = an_findings_add(findings, "EXPOSED_COMM", NULL);
    if (!exposure.split)
        one_rank(context, &exposure, finding);
    else if (waits)
        waiting(context, &exposure, finding);
    else
        transfer(context, &exposure, finding);
    return 0;
}
