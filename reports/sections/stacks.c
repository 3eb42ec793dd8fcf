/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the sampled call stacks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/kernel_name.h"

static void name(char text[REP_NAME], const void *row)
{
    rep_kernel_name(text, REP_NAME, ((const struct an_function *)row)->name);
}

REP_CELL_OF(self_share, an_function, rep_cell_tenths, self_pct.value)

REP_CELL_OF(total_share, an_function, rep_cell_tenths, total_pct.value)

REP_CELL_OF(self_samples, an_function, rep_cell_integer, self)

void rep_section_stacks(struct page *page, const struct an_result *result)
{
    static const struct rep_column columns[] = {{"self %", 8, self_share},
                                                {"with callees %", 16, total_share},
                                                {"samples", 9, self_samples}};
    const struct an_stack_samples *stack_samples = &result->stacks;
    char title[160];
    if (stack_samples->reason || !stack_samples->samples.valid)
        return;
    if (stack_samples->cpu_s.valid)
        snprintf(title, sizeof title, "Functions, by CPU time (%" PRId64 " samples, %s)",
                 stack_samples->samples.value, TIME_TEXT(stack_samples->cpu_s.value * 1e9));
    else
        snprintf(title, sizeof title, "Functions, by CPU time (%" PRId64 " samples)",
                 stack_samples->samples.value);
    struct rep_table table = {.title = title,
                              .name = name,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(stack_samples->function, stack_samples->function_count)};
    page_picture(page, PAGE_STACKS, result);
    rep_table_write(page, &table);
    if (stack_samples->kernel && *stack_samples->kernel &&
        strncmp(stack_samples->kernel, "sampled", 7) != 0)
        page_text(page, 0, stack_samples->kernel);
}
