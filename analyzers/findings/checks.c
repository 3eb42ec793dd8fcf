/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of checks: what is looked for, in which runs, what a recording must hold for it, and
 * the findings that it can end in. A check that applies but lacks an input was not made, whatever
 * the check itself did: the result lists it with the reason and with what brings the input. Only a
 * run in which every check that applies was made can be healthy.
 */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/hardware/peaks.h"
#include "analyzers/work/ceilings.h"

#define LOW_MFU      0.2  /* a busy device or processor below it is not used well */
#define UNKNOWN_MOST 20.0 /* % of the kernels' time */
#define CHECKS_MOST  48

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Each says why a run lacks an input; NULL: it has it. */
typedef const char *why_missing(struct an_context *context);

static const char *no_device(struct an_context *context)
{
    return context->unrecorded;
}

static const char *no_budget(struct an_context *context)
{
    const struct an_budget *budget = &context->result->budget;
    if (budget->reason)
        return budget->reason;
    return budget->roles_known ? NULL : "no range in a step says what it is";
}

static const char *few_steps(struct an_context *context)
{
    int64_t steps = an_steps_observed(context);
    if (steps >= AN_STEPS_LEAST)
        return NULL;
    return an_finding_text(context, "%" PRId64 " counted step%s: too little evidence", steps,
                           steps == 1 ? "" : "s");
}

static const char *unsure_steps(struct an_context *context)
{
    return an_finding_text(context, "steps were not marked: they are guessed (from %.80s)",
                           context->result->steps.source);
}

static const char *short_of_cores(struct an_context *context)
{
    return context->result->caution ? "the run was short of cores (see its caution)" : NULL;
}

static const char *lost_events(struct an_context *context)
{
    const struct an_count *lost = &context->result->trust.lost_events;
    if (!lost->valid)
        return lost->reason;
    if (context->result->trust.missing)
        return context->result->trust.missing;
    return lost->value ? an_finding_text(context, "%" PRId64 " events were lost", lost->value)
                       : NULL;
}

/* Does an operator of that element type (NULL: any) multiply matrices? */
static bool has_gemm(const struct an_context *context, const char *dtype)
{
    for (size_t i = 0; i < context->trace->detail_count; i++) {
        const struct an_detail *detail = &context->trace->detail[i];
        if (detail->role == AN_ROLE_WORK && detail->hardware && detail->flops > 0 &&
            (!dtype || !strcmp(detail->dtype, dtype)))
            return true;
    }
    return false;
}

static bool has_work(const struct an_context *context)
{
    for (size_t i = 0; i < context->trace->detail_count; i++)
        if (context->trace->detail[i].role == AN_ROLE_WORK && context->trace->detail[i].flops > 0)
            return true;
    return false;
}

static const char *no_work(struct an_context *context)
{
    return has_work(context) ? NULL : "no operator of the recording has its FLOPs";
}

static const char *no_gemm_roof(struct an_context *context)
{
    static const char *const types[] = {"fp32", "bf16", "fp16", "fp64"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (has_gemm(context, types[i]) && !an_ceiling_find(context, "cpu", "gemm", types[i]))
            return "the speed of GEMMs on this machine was not measured";
    return NULL;
}

static const char *no_memory_roof(struct an_context *context)
{
    struct an_memory_level level[AN_MEMORY_LEVELS];
    return an_memory_levels(context, "cpu", level) ? NULL
                                                   : "the bandwidth of the memory was not measured";
}

static const char *no_samples(struct an_context *context)
{
    const struct an_value *samples = &context->result->steps.samples_per_step;
    return samples->valid ? NULL : samples->reason;
}

static const char *no_room(struct an_context *context)
{
    const struct an_count *room = &context->result->memory.room_bytes;
    return room->valid ? NULL : room->reason;
}

static const char *no_straggler(struct an_context *context)
{
    const struct an_ranks *ranks = &context->result->ranks;
    return ranks->reason ? ranks->reason : ranks->straggler.reason;
}

static const char *no_sheet(struct an_context *context)
{
    struct an_peak peak;
    const char *name = context->result->gpu_count ? context->result->gpus[0].name : "";
    if (an_peak_find(context->scratch, name, "fp32", &peak))
        return NULL;
    return an_finding_text(context, "no data sheet with the fp32 peak of \"%.80s\" is known", name);
}

/* What is busy and not used well has a cause, which a check must have found. */
static const char *not_used(struct an_context *context)
{
    const struct an_value *mfu = &context->result->utilization.mfu;
    if (!mfu->valid || mfu->value >= LOW_MFU)
        return NULL;
    return an_finding_text(context,
                           "the run reaches %.1f %% of the peak, and no check found the cause",
                           100 * mfu->value);
}

/* Is the place of most kernels under the roofline known? */
static const char *not_efficient(struct an_context *context)
{
    const struct an_kernel_bounds *bounds = &context->result->bounds;
    if (bounds->reason)
        return bounds->reason;
    double unknown = an_percent((double)bounds->ns[AN_BOUND_UNKNOWN], (double)bounds->total_ns);
    if (unknown > UNKNOWN_MOST)
        return an_finding_text(context, "%.0f %% of the kernels' time has no known bound: %s",
                               unknown, bounds->unknown);
    return not_used(context);
}

static const char *no_system(struct an_context *context)
{
    const struct an_value *others = &context->result->system.other_cores;
    return others->valid ? NULL : others->reason;
}

/* Throttled time is part of the run-queue wait of the steps' thread: where that is short, no quota
 * costs much. */
static const char *no_quota(struct an_context *context)
{
    const struct an_system *system = &context->result->system;
    bool short_wait = system->cpu_wait_pct.valid && system->cpu_wait_pct.value < FINDINGS_NOISE_PCT;
    if (system->cpu_unlimited || system->throttled_cores.valid || short_wait)
        return NULL;
    return system->cpu_quota.valid ? system->throttled_cores.reason : system->cpu_quota.reason;
}

static const char *no_pressure(struct an_context *context)
{
    const struct an_pressure *pressure = &context->result->pressure;
    return pressure->plenty ? NULL : pressure->reason;
}

/* What a check can need. `missing` says why it is not there; without it the reason of the part of
 * the result at `part`. `to_check` brings it. */
enum input {
    INPUT_DEVICE,
    INPUT_BUDGET,
    INPUT_STEPS,
    INPUT_SURE,
    INPUT_CORES,
    INPUT_EVENTS,
    INPUT_WORK,
    INPUT_GEMM_ROOF,
    INPUT_MEMORY_ROOF,
    INPUT_SAMPLES,
    INPUT_ROOM,
    INPUT_RANKS,
    INPUT_SHEET,
    INPUT_EFFICIENCY,
    INPUT_USE,
    INPUT_SYNCS,
    INPUT_COPIES,
    INPUT_PRECISION,
    INPUT_CLOCKS,
    INPUT_OPERATORS,
    INPUT_QUALITY,
    INPUT_LAUNCHES,
    INPUT_HELD,
    INPUT_SYSTEM,
    INPUT_QUOTA,
    INPUT_PRESSURE,
    INPUT_COUNT
};

#define RECORD_CALLS "record the calls of the CUDA runtime, too"
#define PART(name)   .part = offsetof(struct an_result, name.reason)
static const struct {
    why_missing *missing;
    size_t part;
    const char *to_check;
} inputs[INPUT_COUNT] = {
    [INPUT_DEVICE] = {no_device, .to_check = "record the kernels and copies of the device, too"},
    [INPUT_BUDGET] = {no_budget, .to_check = "mark the steps and their parts with NVTX ranges "
                                             "(include/tacho_nvtx.h), or record with "
                                             "torch.profiler and call its step()"},
    [INPUT_STEPS] = {few_steps, .to_check = "record 20 steps or more"},
    [INPUT_SURE] = {unsure_steps, .to_check = "mark each update with an NVTX range named step, or "
                                              "record with torch.profiler and call its step()"},
    [INPUT_CORES] = {short_of_cores,
                     .to_check = "record again while no other program needs the cores"},
    [INPUT_EVENTS] = {lost_events, .to_check = "record again; tacho report --section trust "
                                               "says what was lost"},
    [INPUT_WORK] = {no_work, .to_check = "give the operators their FLOPs (include/tacho_nvtx.h)"},
    [INPUT_GEMM_ROOF] = {no_gemm_roof, .to_check = AN_CALIBRATE_QUICK},
    [INPUT_MEMORY_ROOF] = {no_memory_roof, .to_check = AN_CALIBRATE_QUICK},
    [INPUT_SAMPLES] = {no_samples, .to_check = "give the steps their samples "
                                               "(include/tacho_nvtx.h)"},
    [INPUT_ROOM] = {no_room, .to_check = "record with tacho run"},
    [INPUT_RANKS] = {no_straggler, .to_check = "record 20 steps or more of each rank"},
    [INPUT_SHEET] = {no_sheet, .to_check = "time a step with mixed precision, and one without"},
    [INPUT_EFFICIENCY] = {not_efficient, .to_check =
                                             "record the shapes of operators (torch.profiler "
                                             "with record_shapes=True), then look at "
                                             "tacho report --section roofline,ops"},
    [INPUT_USE] = {not_used, .to_check = "look at tacho report --section roofline,ops"},
    [INPUT_SYNCS] = {PART(syncs), .to_check = RECORD_CALLS},
    [INPUT_COPIES] = {PART(copies), .to_check = "record the copies of the device, too"},
    [INPUT_PRECISION] = {PART(precision), .to_check = "record the kernels of the device, too"},
    [INPUT_CLOCKS] = {PART(hardware), .to_check = "record with tacho run"},
    [INPUT_OPERATORS] = {PART(attribution[0]),
                         .to_check = "record the operators, too (torch.profiler)"},
    [INPUT_QUALITY] = {PART(quality),
                       .to_check = "record both the kernels and the calls that launch them"},
    [INPUT_LAUNCHES] = {PART(launches), .to_check = RECORD_CALLS},
    [INPUT_SYSTEM] = {no_system, .to_check = "record with tacho run"},
    [INPUT_QUOTA] = {no_quota, .to_check = "record with tacho run where /sys/fs/cgroup is visible "
                                           "(a container needs it mounted, read-only)"},
    [INPUT_PRESSURE] = {no_pressure, .to_check = "record with tacho run where the kernel has "
                                                 "/proc/pressure/memory (else boot it with "
                                                 "psi=1)"},
    [INPUT_HELD] = {PART(leak), .to_check = "record a longer run with tacho run: 50 steps or more, "
                                            "which take 3 s or more"},
};

/* Why the run lacks that input, NULL: it has it. */
static const char *missing_of(struct an_context *context, enum input input)
{
    if (inputs[input].missing)
        return inputs[input].missing(context);
    const char *reason;
    memcpy(&reason, (const char *)context->result + inputs[input].part, sizeof reason);
    return reason;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool everywhere(const struct an_context *context)
{
    (void)context;
    return true;
}

/* Steps that are only guessed, from the kernels of a device. */
static bool of_guesses(const struct an_context *context)
{
    const struct an_steps *steps = &context->result->steps;
    return steps->detailed && steps->confidence <= AN_LOW;
}

static bool on_devices(const struct an_context *context)
{
    return context->gpu || context->unrecorded;
}

/* Steps that compute on the processor. Without FLOPs any operator could be a GEMM. */
static bool on_cores(const struct an_context *context)
{
    return !on_devices(context);
}

static bool of_work(const struct an_context *context)
{
    return on_cores(context) && has_work(context);
}

/* Of a program of PyTorch whole passes have FLOPs, and no GEMM: see of_calls. */
static bool of_gemms(const struct an_context *context)
{
    return on_cores(context) && has_gemm(context, NULL) &&
           an_command_framework(context) != AN_FRAMEWORK_TORCH;
}

static bool of_fp32_gemms(const struct an_context *context)
{
    return on_cores(context) && has_gemm(context, "fp32");
}

static bool of_recomputation(const struct an_context *context)
{
    return on_cores(context) &&
           an_count_or_0(context->result->utilization.recomputed_flops_per_step) > 0;
}

static bool of_ranks(const struct an_context *context)
{
    return context->result->run.ranks > 1;
}

/* Runs that tacho sampled: of others it is not known which threads they had. */
static bool of_teams(const struct an_context *context)
{
    return on_cores(context) && context->result->system.rss_peak_bytes.valid;
}

/* Runs that tacho sampled. */
static bool of_sampled(const struct an_context *context)
{
    return context->result->system.rss_peak_bytes.valid;
}

/* Runs whose memory was sampled, or that count it themselves. */
static bool of_memory(const struct an_context *context)
{
    return !context->result->leak.reason || context->result->system.rss_peak_bytes.valid;
}

static bool of_experts(const struct an_context *context)
{
    return !context->result->ranks.reason && !context->result->ranks.experts.reason;
}

static bool of_jitter(const struct an_context *context)
{
    return !context->result->ranks.jitter.reason;
}

static bool of_pipeline(const struct an_context *context)
{
    return !context->result->ranks.even.reason;
}

static bool of_phases(const struct an_context *context)
{
    return context->result->phase_count > 0;
}

static bool of_replicas(const struct an_context *context)
{
    return on_cores(context) && context->result->run.ranks > 1 &&
           an_command_framework(context) == AN_FRAMEWORK_TORCH &&
           !an_command_sharded(context->trace);
}

/* Programs of PyTorch with the hook, which looks at these switches. */
static bool of_torch(const struct an_context *context)
{
    return !an_trace_imported(context->trace) && context->lane_count &&
           an_command_framework(context) == AN_FRAMEWORK_TORCH;
}

/* Programs of PyTorch on the CPU of which the hook counted the operators. */
static bool of_calls(const struct an_context *context)
{
    bool counted = false;
    for (size_t k = 0; k < context->trace->track_count; k++)
        counted = counted || !strcmp(context->trace->track[k].name, "host.operators_forward");
    return counted && on_cores(context);
}

static bool of_shards(const struct an_context *context)
{
    return on_cores(context) && context->result->run.ranks > 1 &&
           an_command_sharded(context->trace);
}

static bool of_compilation(const struct an_context *context)
{
    for (size_t i = 0; i < context->result->phase_count; i++)
        if (!strcmp(context->result->phases[i].name, "compile"))
            return true;
    return false;
}

#define NEEDS(input) (1u << (INPUT_##input))
static const struct {
    const char *what; /* is looked at */
    bool (*applies)(const struct an_context *context);
    unsigned needs;         /* NEEDS bits */
    const char *finding[4]; /* that it can end in */
} checks[] = {
    {"where the time of a step goes", everywhere, NEEDS(BUDGET), {"NO_STEPS", "UNATTRIBUTED"}},
    {"enough steps", everywhere, NEEDS(STEPS), {0}},
    {"what a step is", of_guesses, NEEDS(SURE), {0}},
    {"lost events", everywhere, NEEDS(EVENTS), {"INCOMPLETE_CAPTURE"}},
    {"data loading", everywhere, NEEDS(BUDGET), {"INPUT_STALL", "WORKERS_RESTARTED"}},
    {"exposed communication",
     everywhere,
     NEEDS(BUDGET),
     {"EXPOSED_COMM", "DDP_SYNC_EACH_MICROSTEP", "SMALL_COLLECTIVE"}},
    {"evaluations", of_phases, 0, {"EVALUATION"}},
    {"checkpoints", of_phases, 0, {"CHECKPOINT"}},
    {"compilation", of_compilation, 0, {"RECOMPILE", "GRAPH_BREAK", "COMPILE_CACHE"}},
    {"what DistributedDataParallel does besides reducing gradients",
     of_replicas,
     NEEDS(BUDGET),
     {"DDP_UNUSED_PARAMETERS", "DDP_BUFFERS", "DDP_BUCKETS"}},
    {"gathering of parameters", of_shards, NEEDS(BUDGET), {"FSDP_RESHARD", "FSDP_PREFETCH"}},
    {"time of the host",
     on_cores,
     NEEDS(BUDGET),
     {"HOST_BOUND", "PYTHON_HOST", "GARBAGE", "SYNC_ITEM"}},
    {"switches for debugging", of_torch, 0, {"DEBUG_MODE"}},
    {"batch size and calls of operators", of_calls, NEEDS(BUDGET), {"SMALL_BATCH_HOST"}},
    {"growth of memory", of_memory, NEEDS(HELD), {"LEAK"}},
    {"loss and gradients: finite, not rising", an_has_numerics, 0, {"NAN", "DIVERGING"}},
    {"the loss scale", an_has_loss_scale, 0, {"OVERFLOW_LOOP", "DEAD_SCALE", "SKIPPED_UPDATES"}},
    {"threads and cores", of_teams, NEEDS(SYSTEM), {"THREADS", "IDLE_CORES"}},
    {"slow ranks", of_ranks, NEEDS(RANKS), {"STRAGGLER", "UNEVEN_DATA", "SLOW_STAGE"}},
    {"jitter of the ranks", of_jitter, 0, {"RANK_JITTER"}},
    {"balance of the pipeline", of_pipeline, 0, {"PIPELINE_IMBALANCE"}},
    {"balance of experts", of_experts, 0, {"EXPERT_IMBALANCE"}},
    {"efficiency of operators", on_cores, NEEDS(WORK) | NEEDS(USE), {"LOW_EFFICIENCY_GEMM"}},
    {"precision", of_fp32_gemms, NEEDS(GEMM_ROOF), {"LOW_PRECISION"}},
    {"batch size", of_gemms, NEEDS(GEMM_ROOF) | NEEDS(SAMPLES) | NEEDS(ROOM), {"SMALL_BATCH"}},
    {"memory-bound operators", of_work, NEEDS(MEMORY_ROOF), {"LOW_INTENSITY"}},
    {"recomputation", of_recomputation, NEEDS(ROOM), {"RECOMPUTE"}},
    {"host and launches", on_devices, NEEDS(BUDGET), {"HOST_BOUND", "LAUNCH_BOUND"}},
    {"synchronising calls", on_devices, NEEDS(SYNCS), {"SYNC_STALL", "SYNC_ITEM"}},
    {"copies", on_devices, NEEDS(COPIES), {"PAGEABLE_COPY", "EXPOSED_COPY"}},
    {"precision", on_devices, NEEDS(PRECISION) | NEEDS(SHEET), {"LOW_PRECISION"}},
    {"attention", on_devices, NEEDS(OPERATORS), {"UNFUSED_ATTENTION"}},
    {"efficiency of kernels",
     on_devices,
     NEEDS(EFFICIENCY),
     {"FUSION", "LOW_EFFICIENCY_GEMM", "LOW_PRECISION"}},
    {"small kernels", on_devices, 0, {"SMALL_KERNELS"}},
    {"clocks of the GPUs", on_devices, NEEDS(CLOCKS), {"THROTTLED"}},
    {"start of the program", on_devices, 0, {"FIRST_ITERATION"}},
    {"graphs", on_devices, 0, {"OPAQUE_GRAPHS"}},
    {"kernels without launches",
     on_devices,
     NEEDS(QUALITY) | NEEDS(LAUNCHES),
     {"INCOMPLETE_CAPTURE", "DEVICE_NOT_RECORDED"}},
    {"the CPU quota", of_teams, NEEDS(QUOTA), {"CPU_QUOTA"}},
    {"memory pressure", of_sampled, NEEDS(PRESSURE), {"MEMORY_PRESSURE"}},
    {"the step on free cores", everywhere, NEEDS(CORES), {"OTHER_PROGRAMS"}},
};
#define CHECKS (sizeof checks / sizeof *checks)
_Static_assert(CHECKS <= CHECKS_MOST, "room for each check");
_Static_assert(INPUT_COUNT <= 32, "a bit for each input");

/* The first of some findings that a check ended in, NULL: none. */
static const struct an_finding *found_by(const struct an_finding *found, size_t count, size_t check)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < 4 && checks[check].finding[k]; k++)
            if (!strcmp(found[i].id, checks[check].finding[k]))
                return &found[i];
    return NULL;
}

/* What a check looked at; with the bound of what it found, where that is below the noise floor. */
static const char *made_words(const struct an_findings_list *findings, size_t check)
{
    struct an_context *context = findings->context;
    const struct an_finding *finding = found_by(findings->dropped, findings->dropped_count, check);
    if (!finding || !finding->gain.high.valid)
        return checks[check].what;
    return an_finding_text(context, "%s (%s: at most %s %%)", checks[check].what, finding->id,
                           an_number_words(context->arena, fmax(0, finding->gain.high.value), 2));
}

/* The first input that a check needs and the run lacks, INPUT_COUNT: none. */
static enum input lacks(struct an_context *context, size_t check, const char **reason)
{
    int input = 0;
    unsigned needs = checks[check].needs;
    if (checks[check].applies == on_devices || (needs & NEEDS(BUDGET)))
        needs |= NEEDS(DEVICE); /* work of a device is part of the budget, too */
    for (*reason = NULL; input < INPUT_COUNT && !*reason; input++)
        if (needs & (1u << input))
            *reason = missing_of(context, (enum input)input);
    return *reason ? (enum input)(input - 1) : INPUT_COUNT;
}

int an_findings_sum_up(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    struct an_result *result = context->result;
    const char *made[CHECKS_MOST], *reason;
    struct an_not_checked open[CHECKS_MOST];
    size_t made_count = 0, open_count = 0;
    if (!result->allocator.reason || !result->flight.reason)
        return 0; /* a snapshot has no steps: nothing of them is to be checked */
    for (size_t i = 0; i < CHECKS; i++) {
        if (!checks[i].applies(context) || found_by(findings->found, findings->count, i))
            continue;
        enum input input = lacks(context, i, &reason);
        if (!reason)
            made[made_count++] = made_words(findings, i);
        else
            open[open_count++] = (struct an_not_checked){
                checks[i].what, reason, an_findings_to_check(context, inputs[input].to_check)};
    }
    result->checked = an_arena_copy(context->arena, made, made_count * sizeof *made);
    result->checked_count = made_count;
    result->not_checked = an_arena_copy(context->arena, open, open_count * sizeof *open);
    result->not_checked_count = open_count;
    result->healthy = !findings->count && !open_count;
    return result->checked && result->not_checked ? 0 : TACHO_ENOMEM;
}
