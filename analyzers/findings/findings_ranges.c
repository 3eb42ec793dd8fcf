/* SPDX-License-Identifier: Apache-2.0
 *
 * HOST_BOUND of steps that compute on the processor: a range on the critical path that neither
 * computes, loads nor communicates, such as writing a log to a slow disk.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define RARER     100 /* times: what is done so rarely takes no time that can be seen */
#define LOG_EVERY 10  /* steps, of the reference engine without an option */

/* Do other ranges run inside those of that name, on the threads that run steps? Then what is left
 * of them is no work of its own that could be done less often. */
static bool holds_others(const struct an_context *context, const char *text)
{
    const struct an_trace *trace = context->trace;
    uint32_t name = 0;
    while (name < trace->string_count && strcmp(an_trace_name(trace, name), text) != 0)
        name++;
    for (size_t i = 0; i < context->lane_count; i++) {
        if (context->lane[i].track == AN_NONE)
            continue;
        const struct an_track *track = &trace->track[context->lane[i].track];
        for (size_t k = track->slice_first; k < an_track_end(track); k++) {
            uint32_t parent = trace->slice.parent[k];
            if (parent != AN_NONE && trace->slice.name[parent] == name)
                return true;
        }
    }
    return false;
}

/* The range of that kind with most time on the path; NULL: there is none. *all_ns: of all of them.
 */
static const struct an_path_op *largest_range(const struct an_context *context, int64_t *all_ns)
{
    const struct an_result *result = context->result;
    const struct an_path_op *largest = NULL;
    *all_ns = 0;
    for (size_t i = 0; i < result->critical_path.op_count; i++) {
        const struct an_path_op *op = &result->critical_path.ops[i];
        if (strcmp(op->cause, "framework") != 0)
            continue;
        if ((!largest || op->ns > largest->ns) && !holds_others(context, op->name))
            largest = op;
        *all_ns = an_time_add(*all_ns, op->ns);
    }
    return largest;
}

/* Does the name say that it writes a log? */
static bool is_log(const char *name)
{
    const char *at = strstr(name, "log");
    return at && (at == name || at[-1] == '.' || at[-1] == '_' || at[-1] == ' ') &&
           (!at[3] || at[3] == '.' || at[3] == '_' || at[3] == ' ' || !strncmp(at, "logging", 7));
}

static void range_action(struct an_context *context, const char *name, struct an_finding *finding)
{
    bool engine = an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN;
    double every = engine ? an_command_number(context, "--log-every", LOG_EVERY) : 1;
    finding->effort = is_log(name) ? "a setting" : "some lines of code";
    if (!is_log(name)) {
        finding->action = an_finding_text(
            context, "do %s less often, or on another thread while the next step runs", name);
        finding->verify = an_command_rerun(context, "");
        return;
    }
    const char *option = engine ? an_finding_text(context, "--log-every %.0f", RARER * every)
                                : an_finding_text(context, "a log every %.0f steps", RARER * every);
    finding->action = an_finding_text(
        context, "log less often (%s), to a faster disk, or from a thread of its own", option);
    finding->setting = engine ? option : NULL;
    finding->verify = an_command_rerun(context, engine ? option : "");
}

void an_findings_ranges(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_result *result = context->result;
    struct an_class_share share;
    int64_t all_ns;
    if (an_command_framework(context) ==
        AN_FRAMEWORK_TORCH) /* has a check of its own: PYTHON_HOST */
        return;
    if (result->budget.reason || context->gpu || !result->critical_path.length_ns.valid ||
        an_class_share(context, AN_CLASS_HOST, &share) || !an_class_share_matters(&share))
        return;
    /* The path leads through the rank that the others wait for: what is long there is not what
     * every rank should do less often, and belongs to the finding about that rank. */
    int64_t rank;
    const struct an_path_op *range = largest_range(context, &all_ns);
    if (!range || an_comm_waits_for_one(context, &rank))
        return;
    double pct = an_percent((double)range->ns, (double)result->critical_path.length_ns.value);
    if (pct < FINDINGS_NOISE_PCT)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "HOST_BOUND",
        an_finding_text(context,
                        "%.1f %% of every step is %.80s, on the thread that runs the steps: it "
                        "neither computes, loads nor communicates",
                        pct, range->name));
    an_finding_evidence(finding, an_class_share_text(context, &share, "host ranges"));
    an_finding_note(
        context, finding, "%.80s: %s each time, %" PRId64 " times on the path", range->name,
        an_time_words(context->arena, (double)range->ns / 1e6 / (double)range->count, 3),
        range->count);
    range_action(context, range->name, finding);
    an_finding_ceiling(finding, 100, pct, FINDINGS_NOT_REPLAYED);
    finding->method = "ceiling: step / (step - that range) - 1";
    double left = 1 - (double)range->ns / (double)all_ns * (1 - 1.0 / RARER);
    finding->what_if = an_finding_text(context, "framework=%.3g%%", 100 * left);
    finding->wrong_when = "the range waits for something else that the step needs anyway";
}
