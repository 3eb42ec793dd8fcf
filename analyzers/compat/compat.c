/* SPDX-License-Identifier: Apache-2.0
 *
 * The analyzer that repeats the arithmetic of other tools, for people who compare their numbers
 * with a report (--compat). It finds the groups of the trace and calls the tool that was asked for.
 */
#include "analyzers/compat/compat_private.h"

#include <stdlib.h>
#include <string.h>

/* The category by its name in the file (docs/schema.md). */
static enum an_compat_category category_of(const char *text)
{
    static const struct {
        const char *text;
        enum an_compat_category category;
    } known[] = {{"kernel", AN_COMPAT_KERNEL},         {"memcpy", AN_COMPAT_MEMCPY},
                 {"memset", AN_COMPAT_MEMSET},         {"sync", AN_COMPAT_SYNC},
                 {"annotation", AN_COMPAT_ANNOTATION}, {"op", AN_COMPAT_OP},
                 {"runtime", AN_COMPAT_RUNTIME},       {"driver", AN_COMPAT_DRIVER},
                 {"instant", AN_COMPAT_INSTANT},       {"trace", AN_COMPAT_INSTANT}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i].text))
            return known[i].category;
    return AN_COMPAT_OTHER;
}

/* ---- the view -------------------------------------------------------------------------------- */

/* What the importer added to the times of a file: the key source.base_ns of the first file, and
 * source.base_ns.N of the others, where they have one of their own. */
static int64_t base_of_file(const struct an_trace *trace, size_t file)
{
    char key[48];
    snprintf(key, sizeof key, "source.base_ns.%zu", file);
    const char *text = file ? an_trace_key(trace, key) : NULL;
    text = text ? text : an_trace_key(trace, "source.base_ns");
    return text ? strtoll(text, NULL, 10) : 0;
}

/* Processes of one rank are one group; those without a rank are one group together. */
static int find_groups(struct an_compat_view *view)
{
    const struct an_trace *trace = view->context->trace;
    view->group_of =
        an_arena_zero(view->context->scratch, trace->process_count, sizeof *view->group_of);
    view->group = an_arena_zero(view->context->scratch, trace->process_count, sizeof *view->group);
    if (!view->group_of || !view->group)
        return TACHO_ENOMEM;
    for (size_t process = 0; process < trace->process_count; process++) {
        size_t group = 0;
        while (group < view->group_count && view->group[group].rank != trace->process[process].rank)
            group++;
        if (group == view->group_count)
            view->group[view->group_count++] = (struct an_compat_group){
                .rank = trace->process[process].rank, .base_ns = base_of_file(trace, group)};
        view->group_of[process] = (uint32_t)group;
    }
    return 0;
}

/* Prepares what the tools share: categories of strings, groups and the unit of ticks. */
static int view_open(struct an_compat_view *view)
{
    const struct an_trace *trace = view->context->trace;
    view->category =
        an_arena_zero(view->context->scratch, trace->string_count, sizeof *view->category);
    if (!view->category || find_groups(view))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->string_count; i++)
        view->category[i] = (uint8_t)category_of(trace->string[i]);
    view->shift = an_compat_shift(view);
    return 0;
}

/* ---- the analyzer ---------------------------------------------------------------------------- */

static void compat_absent(struct an_context *context, const char *reason)
{
    context->result->compat.reason =
        context->options->compat == AN_COMPAT_NONE ? "not asked for" : reason;
}

static int run_tool(struct an_compat_view *view)
{
    switch (view->context->options->compat) {
    case AN_COMPAT_TRACELENS:
        return an_compat_tracelens(view);
    case AN_COMPAT_HTA:
    case AN_COMPAT_HTA_LAST:
        return an_compat_hta(view, view->context->options->compat == AN_COMPAT_HTA_LAST);
    default:
        return an_compat_tb(view);
    }
}

/* Runs the tool that was asked for and copies its rows into the result. */
static int compat_run(struct an_context *context)
{
    static const char *const tools[] = {
        [AN_COMPAT_TRACELENS] = "TraceLens gpu_timeline",
        [AN_COMPAT_HTA] = "HTA temporal breakdown and overlap",
        [AN_COMPAT_HTA_LAST] = "HTA temporal breakdown and overlap, include_last_profiler_step",
        [AN_COMPAT_TB] = "TensorBoard plugin step time breakdown",
    };
    struct an_compat_table *compat_table = &context->result->compat;
    struct an_compat_view view = {.context = context};
    if (context->options->compat == AN_COMPAT_NONE) {
        compat_absent(context, NULL);
        return 0;
    }
    int rc = view_open(&view);
    if (!rc)
        rc = run_tool(&view);
    if (!rc) {
        compat_table->tool = tools[context->options->compat];
        compat_table->rows =
            an_arena_copy(context->arena, view.rows, view.row_count * sizeof *view.rows);
        compat_table->row_count = view.row_count;
        compat_table->reason =
            view.row_count ? NULL : "the tool finds none of the events that it evaluates";
        rc = compat_table->rows ? 0 : TACHO_ENOMEM;
    }
    free(view.rows);
    return rc;
}

const struct an_analyzer an_compat = {
    .name = "compat",
    .help = "figures by the arithmetic of TraceLens, HTA or the TensorBoard plugin",
    .needs = AN_INPUT_DEVICES,
    .run = compat_run,
    .absent = compat_absent,
};
