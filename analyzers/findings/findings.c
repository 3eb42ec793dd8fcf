/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: what to change. This file calls every check, orders what they found and keeps the
 * first ones. Each finding has all the parts that docs/definitions.md lists, or is not printed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/steps/change.h"
#include "analyzers/steps/recorder.h"

#define FINDINGS_MOST    5
#define UNATTRIBUTED_PCT 5.0 /* docs/definitions.md */
#define HABIT_OF         3.0 /* times a habit: exposed communication that it goes before */

/* ---- UNATTRIBUTED ---------------------------------------------------------------------------- */

/* What names time between ranges, in the terms of the program: without a change to it, by the
 * frames of Python, where these were not recorded. */
static const char *marking_action(struct an_context *context)
{
    enum an_framework framework = an_command_framework(context);
    bool sampled = !context->result->python.reason;
    if (framework == AN_FRAMEWORK_TORCH)
        return sampled
                   ? "mark what the step does between its ranges: "
                     "torch.profiler.record_function(), annotate() of the package nvtx, or range() "
                     "of tacho's module (docs/pytorch.md)"
                   : "record with tacho run --stacks, which names the lines of Python there; or "
                     "mark them: torch.profiler.record_function(), annotate() of the package nvtx, "
                     "or range() of tacho's module (docs/pytorch.md)";
    if (framework == AN_FRAMEWORK_JAX)
        return sampled ? "mark what the step does between its calls: annotate() of the package "
                         "nvtx, or range() of tacho's module (docs/jax.md)"
                       : "record with tacho run --stacks, which names the lines of Python there; "
                         "or mark them: annotate() of the package nvtx, or range() of tacho's "
                         "module (docs/jax.md)";
    return an_command_marks(
        context,
        sampled ? "mark what the step does between its ranges: range() of the module tacho"
                : "record with tacho run --stacks, which names the lines of Python there; or mark "
                  "them: range() of the module tacho",
        "mark what the step does between its ranges (include/tacho_nvtx.h)");
}

/* The device idles and Python waits for it: the wait is known, what it waits for is not. */
static void wait_texts(struct an_context *context, struct an_finding *finding,
                       const struct an_idle_wait *wait, double pct)
{
    finding->claim = an_finding_text(
        context,
        "in %.1f %% of the step the device idles for no recorded reason; for %.0f %% of its idle "
        "time the program waits in %.80s",
        pct, wait->pct, wait->wait);
    const char *runtime =
        wait->runtime ? an_finding_text(context, " (most of it in %.80s)", wait->runtime) : "";
    finding->action = an_finding_text(
        context,
        "find what that wait is for: it ends later than the work of this device, so look at copies "
        "between devices and at what the threads of the runtime do during it%s; wait every N steps "
        "only, so that the next calls are issued in the meantime",
        runtime);
    finding->effort = "some lines of code";
}

/* How to record what the host does: functions of Python, unless they were recorded, or marks. */
static const char *record_host(struct an_context *context, bool stacks)
{
    enum an_recorder recorder = an_recorder_of(context);
    const char *tracer = an_recorder_says(recorder, AN_SAY_STACKS, NULL),
               *ranges = an_recorder_says(recorder, AN_SAY_RANGES, "NVTX ranges");
    if (recorder == AN_RECORDER_OTHER)
        tracer = "torch.profiler with with_stack=True";
    if (tracer && !stacks)
        return an_finding_text(context, "record what the host does there: %s, or %s", tracer,
                               ranges);
    return an_finding_text(context, "record what the host does there: %s", ranges);
}

/* Says what is not known and what to record. `held`: the device is recorded as idle although its
 * next work was issued. */
static void unattributed_texts(struct an_context *context, struct an_finding *finding, bool held,
                               const struct an_idle_wait *wait, double pct)
{
    if (held) {
        finding->claim = an_finding_text(
            context,
            "in %.1f %% of the step the device is recorded as idle although its next work was "
            "issued and the host waits for it: what it did is not in the trace",
            pct);
        finding->action = "record the device's work: begin to record before it is launched (a step "
                          "of warm-up in the profiler's schedule), and the nodes of graphs";
    } else if (wait->wait && wait->pct >= AN_IDLE_WAIT_LEAST) {
        wait_texts(context, finding, wait, pct);
    } else if (context->gpu) {
        finding->claim = an_finding_text(
            context, "in %.1f %% of the step the device idles and no range on the host says why",
            pct);
        finding->action = record_host(context, wait->stacks);
    } else {
        finding->claim = an_finding_text(
            context, "no range covers %.1f %% of the step: the report cannot say what it is", pct);
        finding->action = marking_action(context);
        finding->effort = "some ranges in the code";
    }
    finding->wrong_when =
        held ? "another process used the device during that time"
             : "events were lost (see trust): then ranges that the program marked are missing";
}

/* How much time it is, in how many steps, and lost events. */
static void unattributed_evidence(struct an_context *context, double pct,
                                  const struct an_class_share *share, struct an_finding *finding)
{
    const struct an_budget *budget = &context->result->budget;
    const struct an_count *lost = &context->result->trust.lost_events;
    an_finding_note(context, finding, "%s a step (%s)",
                    an_time_words(context->arena, an_budget_step_ms(budget) * pct / 100, 3),
                    an_window_text(context));
    an_finding_note(context, finding, "%zu of %zu steps have such time", share->touched,
                    share->steps);
    if (lost->valid)
        an_finding_note(context, finding, "%" PRId64 " events lost", lost->value);
    else
        an_finding_evidence(finding, "an unknown number of events was lost");
}

/* Looks at time that no class explains, unless it is that of opaque graphs: those have a finding of
 * their own. */
static int unattributed(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    struct an_class_share share;
    if (budget->reason || !budget->pct[AN_CLASS_UNATTRIBUTED].valid || an_mostly_opaque(context))
        return 0;
    double pct = budget->pct[AN_CLASS_UNATTRIBUTED].value;
    if (pct <= UNATTRIBUTED_PCT)
        return 0;
    if (an_class_share(context, AN_CLASS_UNATTRIBUTED, &share))
        return TACHO_ENOMEM;
    struct an_idle_wait wait;
    if (an_idle_wait(context, &wait))
        return TACHO_ENOMEM;
    struct an_finding *finding = an_findings_add(findings, "UNATTRIBUTED", NULL);
    an_finding_no_gain(finding);
    unattributed_texts(context, finding, an_idle_is_held(context), &wait, pct);
    finding->verify = "run again and read the row unattributed: `tacho report`";
    unattributed_evidence(context, pct, &share, finding);
    an_finding_lines(context, finding);
    return 0;
}

/* ---- the order ------------------------------------------------------------------------------- */

static double gain_of(const struct an_finding *finding)
{
    const struct an_gain *gain = &finding->gain;
    if (gain->expected.valid)
        return gain->expected.value;
    return gain->high.valid ? gain->high.value : -1;
}

/* The start is paid once: what is said of the steps goes before it, whatever a short recording
 * makes of its share. */
static bool is_of_start(const struct an_finding *finding)
{
    return !strcmp(finding->id, "SLOW_START");
}

/* A finding with what it gains of the whole run, in %. */
struct placed {
    struct an_finding finding;
    double gain;
};

/* Steps that take less time leave phases as they are: `between` of the run lies between steps. */
static double gain_of_run(const struct an_finding *finding, double between)
{
    double gain = gain_of(finding);
    if (gain <= 0 || an_findings_is_phase(finding))
        return gain;
    return 100 * (1 / (between + (1 - between) / (1 + gain / 100)) - 1);
}

/* A fault of which no gain is known: whatever it gains, it should be mended first. */
static bool leads(const struct an_finding *finding)
{
    return finding->fault && !finding->gain.expected.valid;
}

/* Is it a change of the training of which only a bound is known? */
static bool is_bound_change(const struct an_finding *finding)
{
    return finding->changes && finding->gain.ceiling;
}

/* For qsort: by listing, and in it what leads, then the finding with more to gain, goes first.
 * Among changes of the training a bound does not go before what is expected of another one. */
static int gain_order(const void *left, const void *right)
{
    const struct placed *own = left, *other = right;
    int listing = (int)an_finding_listed(&own->finding) - (int)an_finding_listed(&other->finding);
    if (listing)
        return listing;
    if (leads(&own->finding) != leads(&other->finding))
        return leads(&own->finding) ? -1 : 1;
    if (is_of_start(&own->finding) != is_of_start(&other->finding))
        return is_of_start(&own->finding) ? 1 : -1;
    if (is_bound_change(&own->finding) != is_bound_change(&other->finding))
        return is_bound_change(&own->finding) ? 1 : -1;
    return AN_COMPARE(other->gain, own->gain);
}

static void sort_by_gain(struct an_findings_list *findings)
{
    struct placed placed[FINDINGS_FOUND];
    double between = an_findings_between_steps(findings->context);
    for (size_t i = 0; i < findings->count; i++)
        placed[i] = (struct placed){findings->found[i], gain_of_run(&findings->found[i], between)};
    qsort(placed, findings->count, sizeof *placed, gain_order);
    for (size_t i = 0; i < findings->count; i++)
        findings->found[i] = placed[i].finding;
}

/* The findings that explain why a class limits the run, the most specific ones first. */
static const struct {
    const char *id;
    enum an_class class;
} explains[] = {{"STRAGGLER", AN_CLASS_COMM},
                {"UNEVEN_DATA", AN_CLASS_COMM},
                {"SLOW_STAGE", AN_CLASS_COMM},
                {"INPUT_STALL", AN_CLASS_INPUT},
                {"WORKERS_RESTARTED", AN_CLASS_INPUT},
                {"DDP_SYNC_EACH_MICROSTEP", AN_CLASS_COMM},
                {"SMALL_COLLECTIVE", AN_CLASS_COMM},
                {"DDP_BUFFERS", AN_CLASS_COMM},
                {"DDP_BUCKETS", AN_CLASS_COMM},
                {"FSDP_RESHARD", AN_CLASS_COMM},
                {"FSDP_PREFETCH", AN_CLASS_COMM},
                {"EXPOSED_COMM", AN_CLASS_COMM},
                {"LAUNCH_BOUND", AN_CLASS_HOST},
                {"HOST_BOUND", AN_CLASS_HOST},
                {"SYNC_ITEM", AN_CLASS_HOST},
                {"SYNC_STALL", AN_CLASS_HOST},
                {"GARBAGE", AN_CLASS_HOST},
                {"PYTHON_HOST", AN_CLASS_HOST},
                {"PYTHON_HOST", AN_CLASS_UNATTRIBUTED},
                {"PAGEABLE_COPY", AN_CLASS_COPY},
                {"LOW_PRECISION", AN_CLASS_COMPUTE},
                {"UNFUSED_ATTENTION", AN_CLASS_COMPUTE},
                {"FUSION", AN_CLASS_COMPUTE},
                {"LOW_EFFICIENCY_GEMM", AN_CLASS_COMPUTE},
                {"SMALL_KERNELS", AN_CLASS_COMPUTE},
                {"SMALL_BATCH", AN_CLASS_COMPUTE},
                {"SMALL_BATCH_HOST", AN_CLASS_COMPUTE},
                {"RECOMPUTE", AN_CLASS_COMPUTE},
                {"LOW_INTENSITY", AN_CLASS_COMPUTE}};
#define EXPLAINS (sizeof explains / sizeof *explains)

/* Place in `explains` of a finding about the class that limits the run, EXPLAINS: it has none. */
static size_t explains_place(const struct an_budget *budget, const struct an_finding *finding)
{
    size_t place = 0;
    while (place < EXPLAINS && (strcmp(finding->id, explains[place].id) != 0 ||
                                explains[place].class != an_bound_class(budget)))
        place++;
    return place;
}

static void move_to_front(struct an_findings_list *findings, size_t place)
{
    struct an_finding first = findings->found[place];
    memmove(findings->found + 1, findings->found, place * sizeof first);
    findings->found[0] = first;
}

/* The share of the step that a ceiling takes away: its gain is share / (1 - share). */
static double share_of_ceiling(const struct an_finding *finding)
{
    double gain = an_value_or_0(finding->gain.high);
    return gain / (100 + gain);
}

/* Moves the finding that the verdict names to the front of those that are listed alike: it limits
 * the run, whatever bounds the others have, unless it explains so little of that class that its own
 * bound is less than half of the first one's. Gains that are expected are compared instead. Where
 * the ranks wait for one rank, the finding about that rank goes before the one with most to gain.
 */
static void verdict_first(struct an_findings_list *findings)
{
    const struct an_budget *budget = &findings->context->result->budget;
    size_t best = findings->count, best_place = EXPLAINS;
    int64_t rank;
    bool one_rank = an_comm_waits_for_one(findings->context, &rank);
    for (size_t i = 0; !budget->reason && i < findings->count; i++) {
        size_t place = explains_place(budget, &findings->found[i]);
        if (place == EXPLAINS ||
            an_finding_listed(&findings->found[i]) != an_finding_listed(findings->found))
            continue;
        if (best == findings->count || (one_rank && place < best_place)) {
            best = i;
            best_place = place;
        }
    }
    if (best == findings->count || findings->found[0].fault)
        return;
    bool of_rank = one_rank && explains[best_place].class == AN_CLASS_COMM;
    const struct an_finding *named = &findings->found[best], *first = findings->found;
    bool explains_enough = 2 * share_of_ceiling(named) >= share_of_ceiling(first);
    if (of_rank || (!first->gain.expected.valid && explains_enough))
        move_to_front(findings, best);
}

/* Place of the finding with this id; the count of all: there is none. */
static size_t place_of(const struct an_findings_list *findings, const char *id)
{
    size_t place = 0;
    while (place < findings->count && strcmp(findings->found[place].id, id) != 0)
        place++;
    return place;
}

/* A habit of DistributedDataParallel, of FSDP or of the program can be switched off, and is a part
 * of all exposed communication: it goes before the finding about all of it, unless the rest of that
 * is more than twice as long. */
static void habit_before_all(struct an_findings_list *findings)
{
    size_t all = place_of(findings, "EXPOSED_COMM");
    for (size_t i = all + 1; i < findings->count; i++) {
        struct an_finding own = findings->found[i];
        if ((strncmp(own.id, "DDP_", 4) != 0 && strncmp(own.id, "FSDP_", 5) != 0 &&
             strcmp(own.id, "SMALL_COLLECTIVE") != 0) ||
            an_finding_listed(&own) != an_finding_listed(&findings->found[all]) ||
            HABIT_OF * share_of_ceiling(&own) < share_of_ceiling(&findings->found[all]))
            continue;
        memmove(findings->found + all + 1, findings->found + all, (i - all) * sizeof own);
        findings->found[all++] = own;
    }
}

/* Beside other programs the gains of findings about ranks are withheld, or open at the low end. A
 * rank that is late explains what the others wait for all the same: it goes before the finding
 * about all communication, of which only a bound is known. */
static void late_rank_before_all(struct an_findings_list *findings)
{
    static const char *const ids[] = {"UNEVEN_DATA", "STRAGGLER", "SLOW_STAGE"};
    size_t all = place_of(findings, "EXPOSED_COMM");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        size_t at = place_of(findings, ids[i]);
        if (at == findings->count || at < all || all == findings->count ||
            (findings->found[at].gain.high.valid && !an_finding_may_gain(&findings->found[at])) ||
            an_finding_listed(&findings->found[at]) != an_finding_listed(&findings->found[all]))
            continue;
        struct an_finding own = findings->found[at];
        memmove(findings->found + all + 1, findings->found + all, (at - all) * sizeof own);
        findings->found[all] = own;
        return;
    }
}

/* STRAGGLER names the stage in which its rank is late: SLOW_STAGE of the same rank, which says the
 * same with the stage's figures, comes after it and is marked as what repeats it. */
static void stage_after_rank(struct an_findings_list *findings)
{
    const struct an_ranks *ranks = &findings->context->result->ranks;
    size_t rank = place_of(findings, "STRAGGLER"), stage = place_of(findings, "SLOW_STAGE");
    if (rank == findings->count || stage == findings->count ||
        ranks->straggler.rank != ranks->frontier.rank)
        return;
    struct an_finding straggler = findings->found[rank];
    if (stage < rank && an_finding_listed(&findings->found[stage]) != an_finding_listed(&straggler))
        return;
    findings->found[stage].repeats = straggler.id;
    if (stage > rank)
        return;
    memmove(findings->found + stage + 1, findings->found + stage,
            (rank - stage) * sizeof straggler);
    findings->found[stage] = straggler;
}

/* A change of the training goes first if its interval stands behind a ceiling only: nothing that
 * keeps the training claims a gain then, and no other finding explains where most of the run goes.
 * However large it is, it does not hide what the same training gains. It stays marked as a change.
 * Other programs are no matter of the program: what they take does not hide what it does itself.
 */
static void change_first(struct an_findings_list *findings)
{
    const struct an_finding *others = an_findings_others_of(findings->found, findings->count);
    const struct an_finding *front = &findings->found[others == findings->found];
    if (front->fault || front->changes || !front->gain.ceiling)
        return;
    for (size_t i = (size_t)(front - findings->found) + 1; i < findings->count; i++) {
        const struct an_finding *own = &findings->found[i];
        bool claims = own->changes && !own->gain.ceiling && own->gain.low.valid;
        if (claims && !an_finding_may_gain(own)) {
            move_to_front(findings, i);
            return;
        }
    }
}

/* Other programs go first unless the finding in front gains more even at its low end: a ceiling and
 * a gain that is not claimed have none. */
static void others_first(struct an_findings_list *findings)
{
    const struct an_finding *others = an_findings_others_of(findings->found, findings->count);
    const struct an_system *system = &findings->context->result->system;
    const struct an_value *front = &findings->found[0].gain.low;
    if (!others || an_finding_is_numerics(findings->found) ||
        (front->valid && front->value > others->gain.low.value))
        return;
    if (findings->found[0].fault && system->own_wait_pct.value > system->others_lost_pct.value)
        return; /* the run's own threads take more from it */
    move_to_front(findings, (size_t)(others - findings->found));
}

void an_findings_order(struct an_findings_list *findings)
{
    if (!findings->count)
        return;
    sort_by_gain(findings);
    habit_before_all(findings);
    late_rank_before_all(findings);
    verdict_first(findings);
    change_first(findings);
    others_first(findings);
    stage_after_rank(findings);
}

/* ---- the analyzer ---------------------------------------------------------------------------- */

/* Runs every check. The replay comes last, because it edits the gains of what the others found. */
static int run_checks(struct an_findings_list *findings)
{
    bool gpu = findings->context->gpu;
    int rc = an_findings_input(findings);
    if (!rc)
        rc = an_findings_comm(findings);
    if (!rc)
        rc = gpu ? an_findings_gpu(findings) : an_findings_engine(findings);
    if (rc)
        return rc;
    an_findings_run(findings);
    an_findings_compile(findings);
    an_findings_ranks(findings);
    an_findings_pipeline(findings);
    an_findings_jitter(findings);
    an_findings_leak(findings);
    an_findings_numerics(findings);
    an_findings_ranges(findings);
    an_findings_threads(findings);
    an_findings_pressure(findings);
    rc = an_findings_waits(findings);
    rc = rc ? rc : an_findings_python(findings);
    rc = rc ? rc : an_findings_ddp(findings);
    rc = rc ? rc : an_findings_fsdp(findings);
    rc = rc ? rc : unattributed(findings);
    rc = rc ? rc : an_findings_quota(findings);
    rc = rc ? rc : an_findings_others(findings);
    rc = rc ? rc : an_findings_replay(findings);
    rc = rc ? rc : an_findings_while_others(findings);
    an_findings_input_replayed(findings);
    return rc;
}

/* Takes out what gains nothing that could be told from noise: the low end of an interval, or a
 * ceiling, below the floor. The result lists it with what was looked at, and the bound. */
static void drop_below_floor(struct an_findings_list *findings)
{
    size_t kept = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const struct an_finding *finding = &findings->found[i];
        if (!an_finding_has_no_gain(finding) || an_finding_may_gain(finding))
            findings->found[kept++] = *finding;
        else if (findings->dropped_count < FINDINGS_FOUND)
            findings->dropped[findings->dropped_count++] = *finding;
    }
    findings->count = kept;
}

/* Takes away each change that is words for a person, and no option or variable. */
static void keep_options(struct an_findings_list *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        json_t *change = an_change_parse(findings->found[i].setting);
        if (!change)
            findings->found[i].setting = NULL;
        json_decref(change);
    }
}

/* Runs the checks, orders the findings and keeps the first ones in the result. */
static int findings_frame(struct an_context *context)
{
    struct an_findings_list findings = {.context = context};
    struct an_result *result = context->result;
    an_verdict_device(context);
    /* Without a counted step the tables of a device still say something, and what compiles in
     * steps, so that they do not count; nothing else does. */
    int rc = 0;
    an_findings_unrecorded(&findings);
    if (context->gpu || result->steps.detailed)
        rc = run_checks(&findings);
    else
        an_findings_compile(&findings);
    if (!rc)
        drop_below_floor(&findings);
    rc = rc ? rc : an_findings_sum_up(&findings);
    if (rc)
        return rc;
    an_findings_order(&findings);
    keep_options(&findings);
    if (findings.count > FINDINGS_MOST)
        findings.count = FINDINGS_MOST;
    an_findings_speak(&findings);
    result->findings =
        an_arena_copy(context->arena, findings.found, findings.count * sizeof *findings.found);
    result->finding_count = findings.count;
    return result->findings ? 0 : TACHO_ENOMEM;
}

/* A run that cannot be checked has no findings, and is not healthy either. */
static void findings_absent(struct an_context *context, const char *reason)
{
    const struct an_not_checked all = {"everything", reason, "record again with tacho run"};
    context->result->finding_count = 0;
    context->result->not_checked = an_arena_copy(context->arena, &all, sizeof all);
    context->result->not_checked_count = context->result->not_checked != NULL;
}

const struct an_analyzer an_findings = {
    .name = "findings",
    .help = "what to change, with evidence and gain",
    .after =
        "steps, phases, system, gpu, budget, absent, attribution, utilization, roofline, bounds, "
        "ops, launches, copies, syncs, precision, loader, communication, ranks, contention, "
        "python, allocator, flight, "
        "pressure, hardware, memory, leak, quality, trust, replay",
    .needs = AN_INPUT_SLICES,
    .run = findings_frame,
    .absent = findings_absent,
};
