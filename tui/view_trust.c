/* SPDX-License-Identifier: Apache-2.0
 *
 * Why one may believe the numbers: losses, overhead, counters that are missing and why, versions, what was left out.
 */
#include <string.h>

#include "reports/text.h"
#include "tui/draw.h"
#include "tui/views.h"

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m, struct tui_view_state *s)
{
    static const tui_section words[] = {rep_text_header, rep_text_trust, NULL};
    const struct an_result *result = tui_result(c, r, m);
    if (result)
        tui_sections(c, r, result, words, s);
}

const struct tui_view tui_view_trust = {.key = 'T',
                                        .name = "trust",
                                        .brief = "trust",
                                        .help = "losses, overhead, missing counters and why, versions",
                                        .draw = draw};
