/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/steps/team.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/command.h"

/* Ranks on the machine of the first one: their teams share its cores. */
static int64_t ranks_of_machine(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    const char *host = NULL;
    int64_t ranks = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        if (context->lane[i].process == AN_NONE)
            continue;
        const char *own = trace->process[context->lane[i].process].host;
        host = host ? host : own;
        ranks += !strcmp(own, host);
    }
    return ranks;
}

/* Of so many usable CPUs the cores behind them; all where the file does not say. */
static int64_t whole_cores(const struct an_trace *trace, int64_t cpus)
{
    int64_t usable, cores;
    if (!an_trace_key_integer(trace, "cpu.usable", &usable) ||
        !an_trace_key_integer(trace, "cpu.cores", &cores) || cores < 1 || usable < cores)
        return cpus;
    return (int64_t)((double)cpus * (double)cores / (double)usable);
}

struct an_team an_team_of(struct an_context *context)
{
    const struct an_result *result = context->result;
    enum an_framework framework = an_command_framework(context);
    struct an_team team = {.ranks = ranks_of_machine(context),
                           .cores = result->run.cores.valid ? result->run.cores.value : 0};
    team.fitting = team.ranks > 0 ? team.cores / team.ranks : 0;
    team.whole_cores = whole_cores(context->trace, team.cores);
    team.useful = team.ranks > 0 ? team.whole_cores / team.ranks : 0;
    if (framework == AN_FRAMEWORK_OTHER || framework == AN_FRAMEWORK_JAX || context->gpu)
        return team;
    team.threads = an_command_team(context);
    if (!team.threads && framework == AN_FRAMEWORK_LIBTRAIN)
        team.threads = team.cores;
    return team;
}
