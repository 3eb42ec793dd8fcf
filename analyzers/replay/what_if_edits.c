/* SPDX-License-Identifier: Apache-2.0
 *
 * What each edit changes in the replay: the own work of nodes, which releases count, or the shared
 * resources (what_if_private.h).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/replay/what_if_link.h"
#include "analyzers/replay/what_if_loader.h"
#include "analyzers/replay/what_if_private.h"
#include "analyzers/replay/what_if_ranks.h"
#include "analyzers/steps/team.h"

/* ---- what an edit names -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    enum an_cause cause;
} cause_keys[] = {{"comm", AN_CAUSE_TRANSFER},
                  {"peers", AN_CAUSE_PEERS},
                  {"copy", AN_CAUSE_COPY},
                  {"compute", AN_CAUSE_COMPUTE},
                  {"loader", AN_CAUSE_INPUT},
                  {"launch", AN_CAUSE_LAUNCH},
                  {"sync", AN_CAUSE_SYNC},
                  {"allocation", AN_CAUSE_ALLOCATION},
                  {"collection", AN_CAUSE_COLLECTION},
                  {"compile", AN_CAUSE_COMPILE},
                  {"framework", AN_CAUSE_FRAMEWORK},
                  {"think", AN_CAUSE_UNTRACED},
                  {"profiler", AN_CAUSE_PROFILER}};

static enum an_cause cause_named(const char *key)
{
    for (size_t i = 0; i < sizeof cause_keys / sizeof *cause_keys; i++)
        if (!strcmp(cause_keys[i].key, key))
            return cause_keys[i].cause;
    return AN_CAUSE_COUNT;
}

static size_t row_named(const struct an_rows *rows, const char *key)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].key, key))
            return i;
    return AN_ROWS_MOST;
}

/* Is `word` in the name of the device op? memo[] remembers the answer for every name. */
static bool kernel_named(const struct an_replay *replay, uint8_t *memo, const char *word,
                         uint32_t node)
{
    uint32_t slice = replay->graph->slice[node],
             name = slice != AN_NONE ? replay->context->trace->slice.name[slice] : AN_NONE;
    if (!an_graph_on_device(replay->graph, node) || name == AN_NONE)
        return false;
    if (!memo[name])
        memo[name] = strstr(an_trace_name(replay->context->trace, name), word) ? 2 : 1;
    return memo[name] == 2;
}

/* Multiplies the own work of the nodes that the key names: a kernel, a cause, recomputation or a
 * row. */
static int scale_work(struct an_plan *plan, const struct an_edit *edit)
{
    struct an_what_if_state *state = plan->state;
    const struct an_replay *replay = state->replay;
    enum an_cause cause = cause_named(edit->key);
    size_t row = row_named(&state->rows, edit->key);
    bool kernel = !strncmp(edit->key, "kernel:", 7), again = an_edits_recomputation(edit),
         any = false;
    uint8_t *memo = kernel ? calloc(replay->context->trace->string_count + 1, 1) : NULL;
    if (kernel && !memo)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        bool named = row < state->rows.count && state->rows.row_of[node] == row;
        if (kernel)
            named = kernel_named(replay, memo, edit->key + 7, node);
        else if (again)
            named = an_is_recomputation(replay, node);
        else if (cause != AN_CAUSE_COUNT)
            named = replay->graph->cause[node] == cause;
        if (!named)
            continue;
        any = true;
        plan->touched = an_time_add(plan->touched, replay->own[node]);
        state->own[node] = (int64_t)((double)state->own[node] * edit->factor);
    }
    free(memo);
    plan->kept = plan->kept || (again && edit->factor < 1);
    if (!any)
        plan->unknown = edit->key;
    return 0;
}

/* ---- edits of one kind ---------------------------------------------------------------------------------------------------------- */

static const char no_waiting[] = "the file lacks ranks, or clocks that agree: the transfer and "
                                 "waiting parts of a collective are unknown";

static bool names_comm(const struct an_what_if_state *state, const char *key)
{
    size_t row = row_named(&state->rows, key);
    return !strcmp(key, "comm") || !strncmp(key, "collective:", 11) ||
           (row < state->rows.count && state->rows.row[row].cause == AN_CAUSE_TRANSFER);
}

/* KEY=0.5x: scales work or latencies; waiting for ranks or for a device can only be removed. */
static int apply_scale(struct an_plan *plan, const struct an_edit *edit)
{
    struct an_what_if_state *state = plan->state;
    plan->more = plan->more || edit->factor > 1;
    if (!strcmp(edit->key, "dispatch")) {
        plan->change.latency = edit->factor;
        return 0;
    }
    int rc = scale_work(plan, edit);
    if (names_comm(state, edit->key) &&
        !state->replay->context->result->communication.waiting_ms.valid)
        plan->ceiling = no_waiting;
    if (!strcmp(edit->key, "peers")) {
        if (edit->factor != 0)
            plan->reason = "waiting for other ranks cannot be scaled, only removed: peers=0";
        plan->change.without_peers = true;
        plan->unknown = state->replay->graph->by_kind[AN_EDGE_COLLECTIVE] ? NULL : plan->unknown;
        plan->ceiling = "the run does not show how balanced the ranks can become";
    }
    if (!strcmp(edit->key, "sync") && edit->factor == 0) {
        plan->change.without_syncs = true;
        plan->ceiling =
            "the run does not show whether the program can do without what it waits for";
    }
    return rc;
}

/* launch=graph: of the launching calls one a step is left, and the framework between them does not
 * run. */
static void apply_graph(struct an_plan *plan)
{
    const struct an_replay *replay = plan->state->replay;
    const struct an_graph *graph = replay->graph;
    const struct an_step *open = NULL;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i], cause = graph->cause[node];
        if (an_graph_on_device(graph, node) ||
            (cause != AN_CAUSE_LAUNCH && cause != AN_CAUSE_FRAMEWORK &&
             cause != AN_CAUSE_ALLOCATION))
            continue;
        uint32_t lane = an_lane_of_process(
            replay->context, replay->context->trace->track[graph->track[node]].process);
        const struct an_step *step =
            lane == AN_NONE ? NULL
                            : an_step_at_host(replay->context, &replay->context->lane[lane],
                                              graph->start[node]);
        plan->touched = an_time_add(plan->touched, replay->own[node]);
        if (cause == AN_CAUSE_LAUNCH && step && step != open)
            open = step;
        else
            plan->state->own[node] = 0;
    }
    plan->ceiling = "the cost of launching a graph of this size was not measured";
    if (!graph->by_kind[AN_EDGE_LAUNCH])
        plan->unknown = "launch";
}

/* A step that gets shorter still needs the CPU time that the run is known to use, on whatever
 * thread, but for what only spins. */
void an_plan_core_limit(struct an_plan *plan)
{
    const struct an_core_use *core_use = &plan->state->cores;
    struct an_context *context = plan->state->replay->context;
    if (!core_use->cores.valid) {
        if (plan->workers)
            plan->condition =
                "a free core for each worker: the run does not say how many cores there are";
        return;
    }
    double cores = plan->cores > 0 ? plan->cores : core_use->cores.value;
    if (!core_use->used.valid) {
        plan->condition = an_arena_format(
            context->arena, "the threads of the run have the %.0f cores to themselves: %.150s",
            cores, core_use->used.reason);
        return;
    }
    const char *others = "";
    if (plan->others >= 0)
        others = an_arena_format(context->arena, "; other programs use %s",
                                 an_number_words(context->arena, plan->others, 2));
    else if (core_use->others.valid && core_use->others.value >= 0.05)
        others = an_arena_format(context->arena, "; other programs use %s, as recorded",
                                 an_number_words(context->arena, core_use->others.value, 2));
    bool surplus = plan->state->shares && an_shares_readings(plan->state->shares) > 1;
    const char *spin = surplus ? "; its ranges account for only part: the rest is a team whose "
                                 "threads wait for each other, or threads that spin while they wait"
                               : "";
    const char *edited = plan->condition ? plan->condition : "";
    plan->condition = an_arena_format(
        context->arena, "%s%s%.0f cores that threads share fairly; the run kept %s busy%s%s",
        edited, *edited ? "; " : "", cores,
        an_number_words(context->arena, core_use->used.value, 2), spin, others);
    bool spins = plan->state->shares && an_shares_may_spin(plan->state->shares);
    if (plan->route && !spins)
        an_plan_hold_cores(plan, 0);
}

void an_plan_hold_cores(struct an_plan *plan, double others)
{
    const struct an_core_use *core_use = &plan->state->cores;
    double needed = fmin(core_use->used.value, core_use->wanted.value),
           cores = plan->cores > 0 ? plan->cores : core_use->cores.value;
    /* The run has at least what it used, and the fair share of what waits for cores: its threads
     * that run steps, which overlapped transfers may leave idle, or more where teams compute. */
    double waiting = fmax(core_use->wanted.value, (double)plan->state->replay->context->lane_count),
           share = cores * waiting / (waiting + others);
    if (others > 0)
        cores = fmax(fmax(cores - others, share), fmax(needed, 1e-3));
    plan->busy = fmax(plan->busy, needed / cores);
}

bool an_plan_leaves_step(const struct an_plan *plan)
{
    const struct an_count *workers = &plan->state->replay->context->result->loader.workers;
    return plan->route && workers->valid && !workers->value;
}

/* Edits may scale the work of the loader's workers, too: the share that is left of it. */
double an_plan_worker_share(const struct an_what_if_state *state)
{
    const struct an_replay *replay = state->replay;
    double before = 0, after = 0;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] != AN_CAUSE_INPUT ||
            replay->graph->kind[node] != AN_NODE_HOST)
            continue;
        before += (double)replay->own[node];
        after += (double)state->own[node];
    }
    return before > 0 ? after / before : 1;
}

/* link=2x: the part of a collective's time that depends on its size shrinks. */
static int apply_link(struct an_plan *plan, const struct an_edit *edit)
{
    struct an_what_if_state *state = plan->state;
    const struct an_context *context = state->replay->context;
    struct an_latency_fit fit;
    plan->more = plan->more || edit->factor < 1;
    int rc = an_link_latency(state->replay, &fit);
    for (size_t i = 0; i < state->replay->node_count && !rc; i++) {
        uint32_t node = state->replay->node[i];
        if (state->replay->graph->cause[node] != AN_CAUSE_TRANSFER)
            continue;
        double own = (double)state->own[node],
               latency = fit.latency_ns.valid ? fmin(fit.latency_ns.value, own) : 0;
        state->own[node] = (int64_t)(latency + (own - latency) / edit->factor);
    }
    if (!fit.nodes)
        plan->unknown = "link";
    if (!context->result->communication.waiting_ms.valid)
        plan->ceiling = no_waiting;
    else if (!fit.latency_ns.valid)
        plan->ceiling = fit.latency_ns.reason;
    return rc;
}

static int apply_ranks(struct an_plan *plan, const struct an_edit *edit)
{
    plan->more = plan->more || edit->kind == AN_EDIT_SCALE || !strcmp(edit->key, "ranks");
    return an_what_if_ranks(plan->state->replay, edit, plan->state->own, &plan->touched,
                            &plan->reason);
}

static bool prints_alike(struct an_arena *arena, double first, double second)
{
    return !strcmp(an_number_words(arena, first, 2), an_number_words(arena, second, 2));
}

static const char *precision_of(const struct an_edit *edit)
{
    return edit->text + strlen(edit->key) + 1;
}

/* Does the run have what the edit asks for already? What other programs use is compared as reports
 * print it. */
static bool is_as_recorded(const struct an_what_if_state *state, const struct an_edit *edit)
{
    const struct an_context *context = state->replay->context;
    const struct an_count *workers = &context->result->loader.workers;
    const struct an_core_use *core_use = &state->cores;
    switch (edit->kind) {
    case AN_EDIT_SCALE:
    case AN_EDIT_LINK:
        return edit->factor == 1;
    case AN_EDIT_WORKERS:
        return workers->valid && edit->number == workers->value;
    case AN_EDIT_AHEAD:
        return workers->valid && workers->value > 0 &&
               edit->number == an_route_usual_ahead(context, workers->value);
    case AN_EDIT_CORES:
        return core_use->cores.valid && (double)edit->number == core_use->cores.value;
    case AN_EDIT_THREADS:
        return edit->number == an_team_of(state->replay->context).threads;
    case AN_EDIT_MICRO:
        return edit->number == 1;
    case AN_EDIT_PRECISION:
        return an_is_precision(context, precision_of(edit));
    case AN_EDIT_OTHERS:
        return core_use->others.valid &&
               prints_alike(context->arena, edit->factor, core_use->others.value);
    default:
        return false;
    }
}

/* Writes one edit into the plan, or the reason why it cannot be replayed. */
static int apply(struct an_plan *plan, const struct an_edit *edit)
{
    switch (edit->kind) {
    case AN_EDIT_WORKERS:
        plan->workers = edit->number;
        plan->more = plan->route = true;
        return 0;
    case AN_EDIT_AHEAD:
        plan->ahead = edit->number;
        plan->more = plan->route = true;
        return 0;
    case AN_EDIT_CORES:
    case AN_EDIT_OTHERS:
        if (edit->kind == AN_EDIT_CORES)
            plan->cores = (double)edit->number;
        else
            plan->others = edit->factor;
        plan->more = true;
        if (!an_shares_has_cores(plan->state->shares))
            plan->reason = plan->state->cores.cores.valid ? plan->state->cores.wanted.reason
                                                          : plan->state->cores.cores.reason;
        return 0;
    case AN_EDIT_THREADS:
        plan->threads = edit->number;
        plan->more = true;
        plan->reason = an_plan_threads_reason(plan);
        return 0;
    case AN_EDIT_MICRO:
        plan->micro = edit->number;
        return 0;
    case AN_EDIT_PRECISION:
        plan->precision = precision_of(edit);
        return 0;
    case AN_EDIT_LINK:
        return apply_link(plan, edit);
    case AN_EDIT_GRAPH:
        apply_graph(plan);
        return 0;
    case AN_EDIT_OVERLAP:
        plan->overlap = true;
        return 0;
    case AN_EDIT_PEERS:
        return apply_ranks(plan, edit);
    default:
        if (!strncmp(edit->key, "rank:", 5))
            return apply_ranks(plan, edit);
        return apply_scale(plan, edit);
    }
}

/* Of an edit that changes nothing only what it names is looked up: it must be something of the run.
 */
int an_plan_apply(struct an_plan *plan, const struct an_edit *edit)
{
    struct an_plan trial = *plan;
    if (!is_as_recorded(plan->state, edit)) {
        plan->changes = true;
        return apply(plan, edit);
    }
    if (edit->kind != AN_EDIT_SCALE && edit->kind != AN_EDIT_LINK)
        return 0;
    int rc = apply(&trial, edit);
    plan->unknown = trial.unknown;
    if (!strncmp(edit->key, "rank:", 5))
        plan->reason = trial.reason;
    return rc;
}
