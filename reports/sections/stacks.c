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
    const struct an_stack_samples *stacks = &result->stacks;
    char title[160];
    if (stacks->reason || !stacks->samples.valid)
        return;
    if (stacks->cpu_s.valid)
        snprintf(title, sizeof title, "Functions, by CPU time (%" PRId64 " samples, %s)",
                 stacks->samples.value, TIME_TEXT(stacks->cpu_s.value * 1e9));
    else
        snprintf(title, sizeof title, "Functions, by CPU time (%" PRId64 " samples)",
                 stacks->samples.value);
    struct rep_table table = {.title = title,
                              .name = name,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(stacks->function, stacks->function_count)};
    page_picture(page, PAGE_STACKS, result);
    rep_table_write(page, &table);
    if (stacks->kernel && *stacks->kernel && strncmp(stacks->kernel, "sampled", 7) != 0)
        page_text(page, 0, stacks->kernel);
}
