/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a step's time goes: on the device that runs it (budget_device.c), else on the thread. On a
 * thread the innermost open range decides at each instant; a range without a role of its own takes
 * the class of the range around it. Loader, communication and helper threads never make an instant
 * "compute". Every ns of a step belongs to exactly one class, so the classes sum to the step in
 * integers.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzers/budget/budget.h"
#include "analyzers/steps/command.h"

#define CLASS_CUT AN_CLASS_COUNT /* time of a phase: cut out, no class of the step */

/* A range that is open while the sweep passes: until when, and what its own time is. */
struct open_range {
    int64_t end;
    int class;
};

struct sweep {
    struct open_range *open;
    size_t depth, room;
    int64_t at;
    int64_t *ns;                  /* AN_CLASS_COUNT + 1 sums */
    struct an_class_spans *spans; /* NULL: only the sums are wanted */
    int rc;
};

/* Appends the piece from sweep.at to `until` to the spans, or makes the last one longer if its
 * class is the same. */
static void keep_span(struct sweep *sweep, int class, int64_t until)
{
    struct an_class_spans *class_spans = sweep->spans;
    if (sweep->rc || class == CLASS_CUT)
        return;
    if (class_spans->count &&
        class_spans->at[class_spans->count - 1].class == (enum an_class) class &&
        class_spans->at[class_spans->count - 1].span.end == sweep->at) {
        class_spans->at[class_spans->count - 1].span.end = until;
        return;
    }
    if ((sweep->rc = an_grow(&class_spans->at, &class_spans->room, class_spans->count + 1,
                             sizeof *class_spans->at)))
        return;
    class_spans->at[class_spans->count++] =
        (struct an_class_span){{sweep->at, until}, (enum an_class) class};
}

/* Adds the time from sweep.at to `time` to the ranges that were innermost in it, and closes those
 * that have ended. The outermost entry stays. */
static void sweep_to(struct sweep *sweep, int64_t time)
{
    for (;;) {
        struct open_range *top = &sweep->open[sweep->depth - 1];
        int64_t until = top->end < time ? top->end : time;
        if (until > sweep->at) {
            sweep->ns[top->class] =
                an_time_add(sweep->ns[top->class], an_time_sub(until, sweep->at));
            if (sweep->spans)
                keep_span(sweep, top->class, until);
            sweep->at = until;
        }
        if (top->end > time || sweep->depth == 1)
            return;
        sweep->depth--;
    }
}

static bool is_inherited(int class)
{
    return class == AN_CLASS_COMPUTE || class == AN_CLASS_COMM || class == AN_CLASS_INPUT;
}

int an_class_of_role(enum an_role role, int around)
{
    if (an_role_is_input(role))
        return AN_CLASS_INPUT;
    switch (role) {
    case AN_ROLE_WORK:
        return AN_CLASS_COMPUTE;
    case AN_ROLE_COMM:
    case AN_ROLE_COMM_WAIT:
        return AN_CLASS_COMM;
    case AN_ROLE_CHECKPOINT:
    case AN_ROLE_EVALUATION:
    case AN_ROLE_COMPILE:
        return AN_CLASS_IO; /* not cut: it has handed over to another thread */
    case AN_ROLE_HOST:
    case AN_ROLE_COMM_POST:
    case AN_ROLE_MICRO_STEP:
        return AN_CLASS_HOST;
    default:
        return is_inherited(around) ? around : AN_CLASS_HOST;
    }
}

/* Returns the class of a range from its role and the class of the range around it. */
static int class_of(const struct an_trace *trace, const struct an_lane *lane, size_t i, int around)
{
    if (around == CLASS_CUT)
        return around;
    if (trace->slice.dur[i] != AN_OPEN && an_role_is_phase(an_slice_role(trace, i)) &&
        trace->slice.dur[i] > 0 &&
        an_spans_within(lane->cut, lane->cut_count, trace->slice.start[i],
                        an_slice_end(trace, i)) == trace->slice.dur[i])
        return CLASS_CUT;
    if (around == AN_CLASS_IO)
        return around;
    /* Its end was lost: what its time was is not known. */
    if (trace->slice.dur[i] == AN_OPEN)
        return AN_CLASS_UNATTRIBUTED;
    return an_class_of_role(an_slice_role(trace, i), around);
}

/* End of the phase that goes on at `time`, or `time`. */
static int64_t phase_until(const struct an_lane *lane, int64_t time)
{
    size_t i = an_spans_seek(lane->cut, lane->cut_count, time);
    return i < lane->cut_count && lane->cut[i].start < time ? lane->cut[i].end : time;
}

/* Sweeps over the ranges of a step and assigns each of its instants to a class: sums go into
 * sweep->ns, pieces into sweep->spans. A phase that began before the step is opened first. */
static int sweep_step(struct an_context *context, const struct an_lane *lane,
                      const struct an_step *step, struct sweep *sweep)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[lane->track];
    sweep->at = step->start;
    sweep->depth = 1;
    sweep->open[0] = (struct open_range){step->end, AN_CLASS_UNATTRIBUTED};
    int64_t until = phase_until(lane, step->start);
    if (until > step->start)
        sweep->open[sweep->depth++] =
            (struct open_range){until < step->end ? until : step->end, CLASS_CUT};
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < an_track_end(track) && trace->slice.start[i] < step->end; i++) {
        if (i == step->slice)
            continue;
        sweep_to(sweep, trace->slice.start[i]);
        int64_t end = an_slice_end(trace, i);
        if (an_grow(&sweep->open, &sweep->room, sweep->depth + 1, sizeof *sweep->open))
            return TACHO_ENOMEM;
        const struct open_range *around = &sweep->open[sweep->depth - 1];
        int class = class_of(trace, lane, i, around->class);
        if ((class == CLASS_CUT || class == AN_CLASS_IO) && class == around->class &&
            end > around->end)
            end = around->end; /* what begins in a phase of another domain does not make the phase
                                  longer */
        if (class != AN_CLASS_HOST && class != AN_CLASS_UNATTRIBUTED)
            context->roles_known = true;
        sweep->open[sweep->depth++] = (struct open_range){end < step->end ? end : step->end, class};
    }
    sweep_to(sweep, step->end);
    return sweep->rc;
}

static int budget_step(struct an_context *context, const struct an_lane *lane, struct an_step *step,
                       struct sweep *sweep)
{
    int64_t ns[AN_CLASS_COUNT + 1] = {0};
    sweep->ns = ns;
    int rc = sweep_step(context, lane, step, sweep);
    for (int i = 0; i < AN_CLASS_COUNT; i++)
        step->class_ns[i] = ns[i];
    step->cut_ns = ns[CLASS_CUT];
    return rc;
}

int an_budget_spans(struct an_context *context, const struct an_step *step,
                    struct an_class_spans *out)
{
    int64_t ns[AN_CLASS_COUNT + 1] = {0};
    struct sweep sweep = {.ns = ns, .spans = out};
    int rc = an_grow(&sweep.open, &sweep.room, 2, sizeof *sweep.open);
    out->count = 0;
    if (!rc)
        rc = sweep_step(context, &context->lane[step->lane], step, &sweep);
    free(sweep.open);
    return rc;
}

/* Sums the steps of one lane (or of all, lane = NULL). */
static void sum_steps(const struct an_context *context, const struct an_lane *lane,
                      struct an_budget *budget)
{
    int64_t sums[AN_CLASS_COUNT] = {0};
    const struct an_lane all = {.first = 0, .count = context->step_count};
    lane = lane ? lane : &all;
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_detailed(step))
            continue;
        budget->steps++;
        budget->step_ns = an_time_add(budget->step_ns, an_step_ns(step));
        budget->phase_ns = an_time_add(budget->phase_ns, step->cut_ns);
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            sums[k] = an_time_add(sums[k], step->class_ns[k]);
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        budget->ns[k] = an_int(sums[k]);
}

static void class_absent(struct an_budget *budget, enum an_class class, const char *reason)
{
    budget->ns[class] = an_int_none(reason);
    budget->pct[class] = an_num_none(reason);
}

static void budget_absent_all(struct an_budget *budget, const char *reason)
{
    budget->reason = reason;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        class_absent(budget, (enum an_class)k, reason);
}

static void fill_shares(struct an_budget *budget)
{
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        budget->pct[k] = an_num(100.0 * (double)budget->ns[k].value / (double)budget->step_ns);
    class_absent(budget, AN_CLASS_BUBBLE, "no pipeline stages were recorded");
}

/* Fills the shares on a thread, and the reasons of the classes that a run on the CPU cannot
 * have. */
static void finish_thread(const struct an_context *context, struct an_budget *budget)
{
    budget->roles_known = context->roles_known;
    fill_shares(budget);
    class_absent(budget, AN_CLASS_COPY, "steps ran on the CPU: no device copies were recorded");
    if (budget->roles_known)
        return;
    const char *reason = an_command_no_roles(context);
    class_absent(budget, AN_CLASS_COMPUTE, reason);
    class_absent(budget, AN_CLASS_COMM, reason);
    class_absent(budget, AN_CLASS_INPUT, reason);
    class_absent(budget, AN_CLASS_IO, reason);
}

static void finish_device(struct an_budget *budget, const struct an_budget_host *host)
{
    static const char no_rows[] = "no rows of the threads that drive the device";
    budget->roles_known = true;
    fill_shares(budget);
    if (!host->rows)
        class_absent(budget, AN_CLASS_HOST, no_rows);
    if (!host->loader)
        class_absent(budget, AN_CLASS_INPUT,
                     host->rows ? "no range of a loader on the step's thread (torch.profiler "
                                  "records enumerate(DataLoader))"
                                : no_rows);
    if (!host->rows)
        class_absent(budget, AN_CLASS_IO, no_rows);
}

static void finish_budget(const struct an_context *context, const struct an_lane *lane,
                          const struct an_budget_host *host, struct an_budget *budget)
{
    if (!budget->step_ns)
        budget_absent_all(budget, budget->steps ? "the steps last 0 ns"
                                                : "no counted step has all its ranges in the file");
    else if (lane->device != AN_NONE)
        finish_device(budget, host);
    else if (context->unrecorded)
        budget_absent_all(budget, context->unrecorded);
    else
        finish_thread(context, budget);
}

/* Why no lane has a budget. */
static const char *why_no_lane(const struct an_context *context, const struct an_budget *mean)
{
    if (!mean->steps)
        return "no counted step has all its ranges in the file";
    return context->unrecorded ? context->unrecorded : "the steps last 0 ns";
}

/* Mean over the devices: every device weighs the same, however many steps it has; the ns are sums
 * all the same. A class that only some devices have counts as 0 on the others. */
static void mean_devices(const struct an_context *context, struct an_budget *mean,
                         const struct an_device_budget *device, size_t count)
{
    const struct an_budget *first = NULL;
    size_t with = 0;
    sum_steps(context, NULL, mean);
    for (size_t i = 0; i < count; i++)
        if (!device[i].budget.reason) {
            first = first ? first : &device[i].budget;
            with++;
            mean->roles_known = mean->roles_known || device[i].budget.roles_known;
        }
    if (!with) {
        budget_absent_all(mean, why_no_lane(context, mean));
        return;
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        double sum = 0;
        bool valid = false;
        for (size_t i = 0; i < count; i++) {
            const struct an_value *share = &device[i].budget.pct[k];
            if (device[i].budget.reason || !share->valid)
                continue;
            sum += share->value;
            valid = true;
        }
        if (valid)
            mean->pct[k] = an_num(sum / (double)with);
        else
            class_absent(mean, (enum an_class)k, first->pct[k].reason);
    }
}

static void name_worst(struct an_device_budget *budget, size_t count)
{
    struct an_device_budget *worst = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct an_value *share = &budget[i].budget.pct[AN_CLASS_COMPUTE];
        if (share->valid && (!worst || share->value < worst->budget.pct[AN_CLASS_COMPUTE].value))
            worst = &budget[i];
    }
    if (worst && count > 1)
        worst->worst = true;
}

static const char *device_text(const struct an_context *context, const struct an_lane *lane)
{
    if (lane->device != AN_NONE)
        return context->gpu->device[lane->device].label;
    const struct an_process *process = an_trace_process(context->trace, lane->process);
    return process && *process->device ? an_arena_text(context->arena, process->device) : "cpu";
}

/* Fills the budget of one lane from its classed steps. */
static void fill_lane(struct an_context *context, const struct an_lane *lane,
                      const struct an_budget_host *host, struct an_device_budget *out)
{
    const struct an_process *process = an_trace_process(context->trace, lane->process);
    *out = (struct an_device_budget){.rank = lane->rank,
                                     .process = STORE_ABSENT,
                                     .device = device_text(context, lane),
                                     .host = ""};
    if (process) {
        out->process = process->pid;
        out->host = an_arena_text(context->arena, process->host);
    }
    sum_steps(context, lane, &out->budget);
    finish_budget(context, lane, host, &out->budget);
}

/* Classes the steps of every lane, sums them to a budget of each lane, and takes the mean of
 * these. */
static int budget_run(struct an_context *context)
{
    struct sweep sweep = {0};
    int rc = an_grow(&sweep.open, &sweep.room, 2, sizeof *sweep.open);
    struct an_device_budget *budget =
        an_arena_zero(context->arena, context->lane_count, sizeof *budget);
    struct an_budget_host *host =
        an_arena_zero(context->scratch, context->lane_count, sizeof *host);
    if (!budget || !host)
        rc = TACHO_ENOMEM;
    for (size_t k = 0; k < context->lane_count && !rc; k++) {
        const struct an_lane *lane = &context->lane[k];
        if (lane->device != AN_NONE)
            rc = an_budget_device(context, lane, &host[k]);
        for (size_t i = lane->first; lane->device == AN_NONE && i < an_lane_end(lane) && !rc; i++)
            if (an_step_detailed(&context->step[i]))
                rc = budget_step(context, lane, &context->step[i], &sweep);
    }
    for (size_t k = 0; k < context->lane_count && !rc; k++)
        fill_lane(context, &context->lane[k], &host[k], &budget[k]);
    if (!rc) {
        name_worst(budget, context->lane_count);
        mean_devices(context, &context->result->budget, budget, context->lane_count);
        context->result->devices = budget;
        context->result->device_count = context->lane_count;
    }
    free(sweep.open);
    return rc;
}

static void budget_absent(struct an_context *context, const char *reason)
{
    budget_absent_all(&context->result->budget, reason);
}

const struct an_analyzer an_budget = {
    .name = "budget",
    .help = "where a step's time goes: classes that sum to the step",
    .after = "steps",
    .needs = AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
    .run = budget_run,
    .absent = budget_absent,
};
