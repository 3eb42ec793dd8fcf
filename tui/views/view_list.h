/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the views that there are; tui/views.c lists them in their order.
 */
#ifndef TUI_VIEW_LIST_H
#define TUI_VIEW_LIST_H

#include "tui/screen/view.h"

extern const struct tui_view tui_view_overview, tui_view_roofline, tui_view_timeline,
    tui_view_loader, tui_view_ranks, tui_view_ops, tui_view_memory, tui_view_system,
    tui_view_findings, tui_view_path, tui_view_advice, tui_view_devices, tui_view_trust;

#endif
