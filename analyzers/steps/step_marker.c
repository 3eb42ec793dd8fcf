/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that the user names (--step-marker, or the run key steps.marker that an import stored): a
 * regular expression for ranges of the program or, where no range matches, for kernels.
 */
#include <regex.h>
#include <stdlib.h>

#include "analyzers/steps/step_private.h"

const char *an_step_marker(const struct an_context *context)
{
    const char *marker = context->options->step_marker;
    return marker ? marker : an_trace_key(context->trace, "steps.marker");
}

int an_step_marker_names(struct finder *finder, const char *marker)
{
    const struct an_trace *trace = finder->context->trace;
    regex_t expression;
    finder->kind = calloc(trace->string_count + 1, 1);
    if (!finder->kind)
        return TACHO_ENOMEM;
    if (regcomp(&expression, marker, REG_EXTENDED | REG_NOSUB))
        return 0;
    for (size_t i = 0; i < trace->string_count; i++)
        finder->kind[i] =
            regexec(&expression, trace->string[i], 0, NULL, 0) ? NAME_OTHER : NAME_MARKED;
    regfree(&expression);
    return 0;
}
