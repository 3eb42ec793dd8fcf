/* SPDX-License-Identifier: Apache-2.0
 *
 * The views in their order. To add one: a file view_NAME.c with its `const struct tui_view`, and a
 * row here.
 */
#include "tui/views.h"

#include "tui/views/view_list.h"

const struct tui_view *const tui_views[] = {
    /* run: what happens */
    &tui_view_overview, &tui_view_timeline, &tui_view_loader, &tui_view_ranks, &tui_view_ops,
    &tui_view_memory, &tui_view_system,
    /* why: what holds it back */
    &tui_view_findings, &tui_view_path, &tui_view_advice, &tui_view_roofline, &tui_view_devices,
    &tui_view_trust, NULL};

const struct tui_view_group tui_view_groups[] = {{"run", 0}, {"why", 7}, {NULL, 13}};
