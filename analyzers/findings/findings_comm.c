/* SPDX-License-Identifier: Apache-2.0
 *
 * EXPOSED_COMM on the CPU: what it is decides what to do. Waiting points to the rank that comes
 * last, transfer to buckets, overlap and bytes. A file that lacks a rank cannot tell them apart:
 * then the only advice is to record all ranks (DESIGN 5).
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings.h"

#define CEILING_NONE "a ceiling has no expected value: nothing was replayed"
#define NAMED_SHARE \
    0.75 /* of all waiting: a rank that causes as much is the one who is waited for */
#define BUCKETS          8 /* of a step's gradients: few enough for the latency of each not to count */
#define BUCKET_LEAST_MIB 0.06
#define OVERLAPS_PCT \
    5.0 /* of communication beside compute: below it there is no overlap to speak of */

struct exposure {
    struct an_class_share share;
    double step, exposed, waiting,
        most_waiting; /* ms of a step; most_waiting: of the rank that waits most */
    const struct an_comm_rank *most,
        *last; /* the rank that waits most, the one the others wait for most */
    bool split;
};

static struct exposure measure(const struct an_context *c)
{
    const struct an_communication *x = &c->r->communication;
    const struct an_budget *b = &c->r->budget;
    struct exposure e = {.step = (double)b->step_ns / (double)b->steps / 1e6};
    e.exposed = e.step * b->pct[AN_CLASS_COMM].value / 100;
    e.split = !x->reason && x->exposed_waiting_ms.valid;
    e.waiting = e.split ? x->exposed_waiting_ms.value : 0;
    for (size_t i = 0; e.split && i < x->rank_count; i++) {
        const struct an_comm_rank *k = &x->ranks[i];
        if (k->exposed_waiting_ms.valid &&
            (!e.most || k->exposed_waiting_ms.value > e.most->exposed_waiting_ms.value))
            e.most = k;
        if (k->caused_ms.valid && (!e.last || k->caused_ms.value > e.last->caused_ms.value))
            e.last = k;
    }
    e.most_waiting = e.most ? e.most->exposed_waiting_ms.value : 0;
    return e;
}

static double caused_by_all(const struct an_context *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->r->communication.rank_count; i++)
        sum += c->r->communication.ranks[i].caused_ms.valid
                   ? c->r->communication.ranks[i].caused_ms.value
                   : 0;
    return sum;
}

/* ---- evidence ----------------------------------------------------------------------------------------------------------- */

static const char *exposed_words(struct an_context *c, const struct exposure *e)
{
    if (!isfinite(e->share.half))
        return an_arena_format(c->a, "exposed communication %s (%s)",
                               an_time_words(c->a, e->exposed, 3), an_findings_window(c));
    return an_arena_format(c->a, "exposed communication %s a step (%s)",
                           an_time_spread(c->a, e->exposed, e->step * e->share.half / 100),
                           an_findings_window(c));
}

static const char *split_words(struct an_context *c, const struct exposure *e)
{
    const struct an_communication *x = &c->r->communication;
    if (!e->split || !x->exposed_transfer_ms.valid)
        return NULL;
    return an_arena_format(c->a,
                           "of it %s transfer, %s waiting for other ranks (mean over %zu ranks)",
                           an_time_words(c->a, x->exposed_transfer_ms.value, 3),
                           an_time_words(c->a, x->exposed_waiting_ms.value, 3), x->rank_count);
}

static const char *overlap_words(struct an_context *c)
{
    const struct an_communication *x = &c->r->communication;
    if (x->reason || !x->overlap_pct.valid || !x->total_ms.valid)
        return NULL;
    return an_arena_format(c->a, "%s of communication a step, %.1f %% of it beside compute",
                           an_time_words(c->a, x->total_ms.value, 3), x->overlap_pct.value);
}

/* Bandwidth of the collective that moves most, beside the measured link. */
static const char *link_words(struct an_context *c)
{
    const struct an_communication *x = &c->r->communication;
    const struct an_collective *k = NULL;
    const char *beside = "";
    for (size_t i = 0; !x->reason && i < x->collective_count; i++)
        if (x->collectives[i].bytes_per_step.valid &&
            (!k || x->collectives[i].bytes_per_step.value > k->bytes_per_step.value))
            k = &x->collectives[i];
    if (!k || !k->bus_bytes_per_s.valid || !k->bytes_per_call.valid)
        return NULL;
    for (size_t i = 0; i < c->t->ceiling_count; i++)
        if (!strcmp(c->t->ceiling[i].resource, "mpi_bandwidth") && c->t->ceiling[i].value > 0)
            beside = an_arena_format(c->a, "; the link was measured at %s GB/s",
                                     an_number_words(c->a, c->t->ceiling[i].value / 1e9, 3));
    return an_arena_format(c->a, "%.60s of %s MB: %s GB/s on the bus (%s)%s", k->name,
                           an_number_words(c->a, k->bytes_per_call.value / 1e6, 3),
                           an_number_words(c->a, k->bus_bytes_per_s.value / 1e9, 3),
                           k->bandwidth_of ? k->bandwidth_of : "", beside);
}

static const char *last_words(struct an_context *c, const struct exposure *e)
{
    if (!e->last || !e->last->last_pct.valid)
        return NULL;
    return an_arena_format(
        c->a,
        "rank %" PRId64
        " comes last to %.0f %% of the collectives, the others together wait %s a step for it",
        e->last->rank, e->last->last_pct.value, an_time_words(c->a, e->last->caused_ms.value, 4));
}

static const char *most_words(struct an_context *c, const struct exposure *e)
{
    return e->most ? an_arena_format(c->a, "rank %" PRId64 " waits most: %s a step", e->most->rank,
                                     an_time_words(c->a, e->most_waiting, 3))
                   : NULL;
}

/* ---- the three forms ---------------------------------------------------------------------------------------------------- */

/* The file cannot tell why: record more. */
static void one_rank(struct an_context *c, const struct exposure *e, struct an_finding *f)
{
    const struct an_communication *x = &c->r->communication;
    const char *why = x->reason    ? x->reason
                      : x->missing ? x->missing
                                   : x->exposed_waiting_ms.reason;
    f->claim = an_arena_format(
        c->a,
        "%.1f %% of the step is communication that no compute hides; whether ranks wait for each "
        "other or transfer is not in the file",
        c->r->budget.pct[AN_CLASS_COMM].value);
    an_finding_evidence(f, exposed_words(c, e));
    an_finding_evidence(f, overlap_words(c));
    an_finding_evidence(f, an_arena_format(c->a, "%.300s", why));
    f->action = "record every rank into one report: tacho run -- mpirun ..., or tacho merge of "
                "their files; it tells a slow link "
                "from a slow rank";
    f->effort = "another recording";
    f->confidence = AN_LOW;
    f->method =
        "ceiling \"no exposed communication\": step / (step - exposed) - 1; nothing was replayed";
    f->verify = "report the merged file and read the line Communication";
    f->wrong_when = "the cause is known already";
    an_finding_ceiling(f, e->step, e->exposed, CEILING_NONE);
    f->what_if = "comm=0";
    f->bound = true;
}

static void waiting(struct an_context *c, const struct exposure *e, struct an_finding *f)
{
    double caused = caused_by_all(c);
    bool named = e->last && e->last->caused_ms.value >= NAMED_SHARE * caused;
    f->claim = an_arena_format(c->a,
                               "the step waits for other ranks: %s of %s of exposed communication "
                               "are waiting, %.1f %% of the step",
                               an_time_words(c->a, e->waiting, 3),
                               an_time_words(c->a, e->exposed, 3), 100 * e->waiting / e->step);
    an_finding_evidence(f, exposed_words(c, e));
    an_finding_evidence(f, split_words(c, e));
    an_finding_evidence(f, last_words(c, e));
    an_finding_evidence(f, most_words(c, e));
    an_finding_evidence(f, overlap_words(c));
    f->action =
        named
            ? an_arena_format(c->a,
                              "make rank %" PRId64
                              " come earlier: compare its budget with the others' (its loader, its "
                              "share of the work, its cores); the link is not the cause",
                              e->last->rank)
        : e->last && caused > 0
            ? an_arena_format(c->a,
                              "even out the ranks: rank %" PRId64
                              " causes %.0f %% of the waiting, the others the rest "
                              "(uneven batches, cores that are shared); the link is not the cause",
                              e->last->rank, 100 * e->last->caused_ms.value / caused)
            : "even out the ranks (uneven batches, cores that are shared); the link is not the "
              "cause";
    f->effort = "find out what that rank does longer";
    f->method = "ceiling \"no rank waits\": step / (step - exposed waiting of the rank that waits "
                "most) - 1; nothing was replayed";
    f->verify = an_arena_format(
        c->a, "%s, and read the row exposed communication",
        an_findings_rerun(
            c, named ? an_arena_format(c->a, "rank %" PRId64 " made faster", e->last->rank)
                     : "even ranks"));
    f->wrong_when = "the shortest call of a collective holds waiting too (every rank was held up "
                    "inside it): then it counts as transfer";
    an_finding_ceiling(f, e->step, e->most_waiting, CEILING_NONE);
    f->what_if = "peers=0";
    f->bound = true;
}

static bool has_comm_thread(const struct an_context *c)
{
    for (size_t k = 0; k < c->t->track_count; k++)
        if (!strcmp(c->t->track[k].kind, "thread") && !strncmp(c->t->track[k].name, "comm-", 5) &&
            c->t->track[k].slice_count)
            return true;
    return false;
}

/* Nothing overlaps in a run of the engine: the command says whether it was told not to, its threads
 * whether it could. */
static const char *engine_overlap(struct an_context *c, const char **option)
{
    const struct an_value *bytes = &c->r->communication.bytes_per_step;
    bool told = an_trace_key(c->t, "command") != NULL;
    if (!told || an_findings_option_given(c, "--no-overlap")) {
        *option = "without --no-overlap";
        return told ? "overlap the gradients' all-reduce with backward: run without --no-overlap"
                    : "overlap the gradients' all-reduce with backward: without --no-overlap, "
                      "where it is given";
    }
    if (!has_comm_thread(c)) {
        *option = "an MPI library that allows calls from a second thread";
        return "overlap the gradients' all-reduce with backward: it needs an MPI library that "
               "allows calls from a second "
               "thread "
               "(MPI_THREAD_SERIALIZED); this one does not, so the step's thread reduces when "
               "backward is over";
    }
    double mib = bytes->valid && bytes->value > 0 ? bytes->value / (1 << 20) / BUCKETS : 1;
    *option =
        an_arena_format(c->a, "--bucket-mib %s",
                        an_number_words(c->a, mib < BUCKET_LEAST_MIB ? BUCKET_LEAST_MIB : mib, 2));
    return an_arena_format(
        c->a, "smaller buckets, so that the first ones are reduced while backward goes on: %s",
        *option);
}

/* What the transfer's advice stands on: does anything overlap, and is most of the exposed time in
 * no call at all? */
static const char *transfer_action(struct an_context *c, bool overlaps, bool hands_over,
                                   const char **option)
{
    bool lib = an_findings_framework(c) == AN_FRAMEWORK_LIBTRAIN;
    if (!overlaps && lib)
        return engine_overlap(c, option);
    if (!overlaps) {
        *option = "overlap";
        return "overlap the gradients' all-reduce with backward: reduce buckets on a thread of "
               "their own";
    }
    if (hands_over) {
        *option = lib ? "--no-overlap" : "a core for the thread that communicates";
        return lib ? "give the thread that communicates a core: fewer OpenMP threads a rank "
                     "(OMP_NUM_THREADS), fewer ranks a "
                     "machine, or --no-overlap"
                   : "give the thread that communicates a core of its own: fewer compute threads a "
                     "rank";
    }
    *option = lib ? "--bucket-mib 1" : "smaller buckets";
    return lib ? "smaller buckets, so that less is left when backward ends: --bucket-mib; or fewer "
                 "bytes: --dtype bf16 reduces "
                 "half as many"
               : "smaller buckets, so that less is left when backward ends; or fewer bytes: reduce "
                 "gradients in bf16";
}

static void transfer(struct an_context *c, const struct exposure *e, struct an_finding *f)
{
    const struct an_communication *x = &c->r->communication;
    bool overlaps = x->overlap_pct.valid && x->overlap_pct.value >= OVERLAPS_PCT;
    const char *option;
    double removed = e->exposed - e->waiting,
           in_calls = x->exposed_transfer_ms.valid ? x->exposed_transfer_ms.value : removed;
    double rest = removed > in_calls ? removed - in_calls : 0;
    f->claim =
        rest >= 0.1 * removed
            ? an_arena_format(c->a,
                              "%s of transfer between ranks and %s around it (packing, handing "
                              "over) run while nothing "
                              "computes, %.1f %% of the step",
                              an_time_words(c->a, in_calls, 3), an_time_words(c->a, rest, 3),
                              100 * removed / e->step)
            : an_arena_format(
                  c->a,
                  "%s of transfer between ranks run while nothing computes, %.1f %% of the step",
                  an_time_words(c->a, removed, 3), 100 * removed / e->step);
    an_finding_evidence(f, exposed_words(c, e));
    an_finding_evidence(f, split_words(c, e));
    an_finding_evidence(f, overlap_words(c));
    an_finding_evidence(f, link_words(c));
    an_finding_evidence(f, last_words(c, e));
    f->action = transfer_action(c, overlaps, rest > in_calls, &option);
    f->effort = "a setting of the parallel layer";
    f->method = "ceiling \"all transfer hidden\": step / (step - exposed + exposed waiting) - 1; "
                "nothing was replayed";
    f->verify = an_arena_format(c->a, "%s, and read the row exposed communication",
                                an_findings_rerun(c, option));
    f->wrong_when = "cores are short: a thread that communicates takes one from compute, which "
                    "then takes longer";
    an_finding_ceiling(f, e->step, removed, CEILING_NONE);
    f->what_if = overlaps ? "comm=0" : "comm=overlap";
    f->bound = true;
}

/* Is a part of the exposed time above the noise floor, as far as the whole is? */
static bool part_matters(const struct exposure *e, double ms)
{
    struct an_class_share part = e->share;
    part.mean = 100 * ms / e->step;
    return an_class_share_matters(&part);
}

bool an_comm_mostly_waits(const struct an_context *c)
{
    const struct an_budget *b = &c->r->budget;
    if (b->reason || !b->pct[AN_CLASS_COMM].valid || !b->steps)
        return false;
    struct exposure e = measure(c);
    return e.split && 2 * e.waiting >= e.exposed;
}

bool an_comm_waits_for_one(const struct an_context *c, int64_t *rank)
{
    if (!an_comm_mostly_waits(c))
        return false;
    struct exposure e = measure(c);
    if (!e.last || !(e.last->caused_ms.value > 0) ||
        e.last->caused_ms.value < NAMED_SHARE * caused_by_all(c))
        return false;
    *rank = e.last->rank;
    return true;
}

int an_findings_comm(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    const struct an_budget *b = &c->r->budget;
    bool named = an_findings_slow_rank(c); /* then the waiting is that rank's finding */
    if (b->reason || !b->pct[AN_CLASS_COMM].valid ||
        (c->gpu && (named || !an_comm_mostly_waits(c))))
        return 0;
    struct exposure e = measure(c);
    if (an_class_share(c, AN_CLASS_COMM, &e.share))
        return TACHO_ENOMEM;
    bool waits = e.split && 2 * e.waiting >= e.exposed && !named;
    double part = waits ? e.waiting : e.exposed - e.waiting;
    if (!an_class_share_matters(&e.share) || !part_matters(&e, part)) {
        an_findings_checked(l, "communication that no compute hides");
        return 0;
    }
    struct an_finding *f = an_findings_add(l, "EXPOSED_COMM", NULL);
    if (!e.split)
        one_rank(c, &e, f);
    else if (waits)
        waiting(c, &e, f);
    else
        transfer(c, &e, f);
    return 0;
}
