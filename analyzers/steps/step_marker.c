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

/* Marks the names that match. An expression that is none matches nothing. */
static int mark_names(struct finder *finder, const char *marker)
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

int an_steps_by_marker(struct finder *finder, const char *marker, const char **source)
{
    const char *what = "ranges";
    int rc = mark_names(finder, marker);
    if (!rc)
        rc = an_steps_of_names(finder, NAME_MARKED, false);
    if (!rc && !finder->count && finder->context->gpu) {
        what = "kernels";
        rc = an_steps_of_marked_kernels(finder);
    }
    if (!rc && finder->count)
        *source =
            an_arena_format(finder->context->arena, "--step-marker %.200s (%s)", marker, what);
    return rc;
}
