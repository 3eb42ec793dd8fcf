/* SPDX-License-Identifier: Apache-2.0
 *
 * LEAK: memory that a process keeps from step to step. It costs no time until none is free, so it
 * has no gain.
 */
#include <inttypes.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

/* "rank 1 (process 4711)" */
static const char *owner_text(struct an_context *context, const struct an_leak *leak)
{
    const char *rank =
        leak->rank.valid ? an_finding_text(context, "rank %" PRId64 " (", leak->rank.value) : "";
    return an_finding_text(context, "%sprocess %" PRId64 "%s", rank, leak->pid,
                           leak->rank.valid ? ")" : "");
}

/* After how many more steps, and how much time, no memory is free. */
static void time_left(struct an_context *context, const struct an_leak *leak,
                      struct an_finding *finding)
{
    const struct an_steps *steps = &context->result->steps;
    if (!leak->steps_left.valid) {
        an_finding_note(context, finding, "when no memory is left cannot be said: %s",
                        leak->steps_left.reason);
        return;
    }
    const char *words =
        steps->mean_ms.valid
            ? an_time_words(context->arena, leak->steps_left.value * steps->mean_ms.value, 2)
            : "";
    an_finding_note(context, finding, "no memory is free after about %.2g more steps%s%s",
                    leak->steps_left.value, *words ? ", in " : "", words);
}

void an_findings_leak(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_leak *leak = &context->result->leak;
    if (leak->reason || !leak->found)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "LEAK",
        an_finding_text(context, "the %s of %s grows by %s a step and does not stop growing",
                        leak->what, owner_text(context, leak),
                        an_bytes_text(context, leak->bytes_per_step.value)));
    an_finding_note(context, finding,
                    "growth a step: 90 %% interval [%s, %s], steps %" PRId64 "-%" PRId64,
                    an_bytes_text(context, leak->low.value),
                    an_bytes_text(context, leak->high.value), leak->first_step, leak->last_step);
    an_finding_evidence(finding, "it grows in the first, the second and the last third of them");
    time_left(context, leak, finding);
    finding->action =
        an_command_framework(context) == AN_FRAMEWORK_TORCH
            ? "find what keeps objects of each step: a list of losses (append loss.item()), "
              "outputs "
              "kept without detach(), hooks, a cache without a limit; compare two snapshots of "
              "tracemalloc"
            : "find what is allocated in each step and never released: a heap profiler (heaptrack, "
              "valgrind --tool=massif) shows the call";
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("a leak costs no time until no memory is free");
    finding->method =
        "no gain: the growth is a trend of what the process holds at the end of steps";
    finding->effort = "a change in the code";
    finding->verify = "record again, as long: the finding is gone";
    finding->wrong_when = "a cache fills during the whole recording: record more than one epoch";
}
