/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads a team of OpenMP has, beside the cores that it may use. THREADS: more threads
 * than cores; a team waits at the end of each parallel region for the thread that had no core.
 * IDLE_CORES: fewer threads than cores, and the other cores are idle.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/steps/team.h"

#define WAIT_LEAST 5.0 /* % of the steps' time that their thread waits for a core */
#define IDLE_LEAST 0.6 /* of a core */

static double idle_cores(const struct an_result *result, const struct an_team *team)
{
    const struct an_value *busy = &result->system.cpu_cores, *others = &result->system.other_cores;
    return busy->valid && others->valid ? (double)team->whole_cores - busy->value - others->value
                                        : 0;
}

/* What both findings say of the team: its threads and the cores, and the setting that fits. Where
 * the program sets the number itself a variable does not help. */
static void describe_team(struct an_context *context, struct an_finding *finding,
                          const struct an_team *team, int64_t threads)
{
    bool by_program = an_command_sets_team(context);
    const char *setting = an_finding_text(
        context, by_program ? "torch.set_num_threads(%" PRId64 ")" : "OMP_NUM_THREADS=%" PRId64,
        threads);
    finding->action =
        an_finding_text(context, "as many threads in all as there are cores: %s%s", setting,
                        by_program ? " in the program: no variable says the number it has" : "");
    finding->effort = by_program ? "a line of code" : "an environment variable";
    finding->setting = setting;
    finding->verify = an_command_rerun(context, setting);
    an_finding_note(context, finding,
                    "%" PRId64 " thread%s of OpenMP in each of %" PRId64 " rank%s, %" PRId64
                    " usable core%s",
                    team->threads, team->threads == 1 ? "" : "s", team->ranks,
                    team->ranks == 1 ? "" : "s", team->cores, team->cores == 1 ? "" : "s");
}

/* Looks at teams that have more threads than cores, where that makes their first thread wait. */
static void too_many(struct an_findings_list *findings, const struct an_team *team)
{
    struct an_context *context = findings->context;
    const struct an_value *wait = &context->result->system.cpu_wait_pct;
    if (!wait->valid || wait->value < WAIT_LEAST)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "THREADS",
        an_finding_text(context,
                        "%" PRId64 " threads compute on %" PRId64
                        " cores: at the end of each parallel region a team waits for threads that "
                        "have no core",
                        team->threads * team->ranks, team->cores));
    describe_team(context, finding, team, team->fitting);
    an_finding_note(context, finding,
                    "in %.0f %% of the steps' time their thread was ready and had no core (%s)",
                    wait->value, an_window_text(context));
    finding->fault = true;
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("how long a team waits for such threads is not recorded: try the setting");
    finding->method = "no gain: more threads than cores are never faster";
    finding->what_if = an_finding_text(context, "threads=%" PRId64, team->fitting);
    finding->wrong_when = "other programs took the cores: then the threads are not the cause";
}

/* About the part of the step, 0..1, that matrix work with known FLOPs takes: at the peak of the
 * team's cores. 0: not known. */
static double gemm_share(const struct an_context *context, const struct an_team *team)
{
    const struct an_value *hfu = &context->result->utilization.hfu;
    return hfu->valid && team->ranks == 1 && team->threads < team->whole_cores
               ? hfu->value * (double)team->whole_cores / (double)team->threads
               : 0;
}

/* The gain where nothing can be replayed: `compute` of the step becomes `part` of what it is
 * (Amdahl 1967), or that at the speed which the replay of more threads expects at worst. The
 * operators of PyTorch are of any size, and small ones stay on one thread: the low end has its
 * GEMMs alone, of which the replay, which shares all of compute among the threads, knows nothing.
 */
static void gain_of_threads(struct an_context *context, struct an_finding *finding,
                            const struct an_team *team, double compute, double part)
{
    bool is_torch = an_command_framework(context) == AN_FRAMEWORK_TORCH;
    double scales = is_torch ? fmin(gemm_share(context, team), compute) : compute;
    double removed = compute * (1 - part),
           least = scales * fmax(0, 1 - part / AN_TEAM_SHARED_SPEED);
    if (an_finding_gain_of_lost(100 * least) < FINDINGS_NOISE_PCT) {
        finding->bound = true;
        an_finding_ceiling(finding, 1, removed, "how well its operators scale is not recorded");
        finding->method =
            an_finding_text(context, "ceiling by Amdahl's law: all of compute on more threads%s",
                            is_torch ? "; small operators of PyTorch stay on one" : "");
        return;
    }
    finding->gain.low = an_num(an_finding_gain_of_lost(100 * least));
    finding->gain.expected = an_num(an_finding_gain_of_lost(100 * (least + removed) / 2));
    finding->gain.high = an_num(an_finding_gain_of_lost(100 * removed));
    if (is_torch)
        finding->what_if = NULL;
    finding->method = an_finding_text(
        context,
        is_torch
            ? "Amdahl's law: from GEMMs alone, at %.0f %% of their speed today, to all of "
              "compute on more threads"
            : "Amdahl's law: compute on more threads, each at %.0f to 100 %% of its speed today",
        100 * AN_TEAM_SHARED_SPEED);
}

/* Looks at teams that leave cores idle. */
static void too_few(struct an_findings_list *findings, const struct an_team *team)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    double idle = idle_cores(context->result, team);
    if (idle < IDLE_LEAST || budget->reason || !budget->pct[AN_CLASS_COMPUTE].valid)
        return;
    double compute = budget->pct[AN_CLASS_COMPUTE].value / 100,
           part = (double)team->threads / (double)team->useful;
    if (an_finding_gain_of_lost(100 * compute * (1 - part)) < FINDINGS_NOISE_PCT)
        return;
    struct an_finding *finding = an_findings_add(
        findings, "IDLE_CORES",
        an_finding_text(context,
                        "%.1f of %" PRId64 " cores are idle while %" PRId64 " thread%s compute%s",
                        idle, team->whole_cores, team->threads * team->ranks,
                        team->threads * team->ranks == 1 ? "" : "s",
                        team->threads * team->ranks == 1 ? "s" : ""));
    describe_team(context, finding, team, team->useful);
    an_finding_note(context, finding, "compute is %.0f %% of the step (%s)", 100 * compute,
                    an_window_text(context));
    finding->what_if = an_finding_text(context, "threads=%" PRId64, team->useful);
    gain_of_threads(context, finding, team, compute, part);
    finding->wrong_when = "the work is so small that starting threads takes longer, or the speed "
                          "of memory limits it already";
}

void an_findings_threads(struct an_findings_list *findings)
{
    const struct an_team team = an_team_of(findings->context);
    if (team.threads < 1 || team.fitting < 1)
        return;
    if (team.threads > team.fitting)
        too_many(findings, &team);
    else if (team.threads < team.useful)
        too_few(findings, &team);
}
