/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/mcp/: the tools, for the table in tools.c.
 */
#ifndef CLI_MCP_TOOLS_H
#define CLI_MCP_TOOLS_H

#include "cli/mcp/tool.h"

extern const struct mcp_tool mcp_list_runs, mcp_summarize, mcp_explain, mcp_get,
    mcp_define;                                              /* tools_report.c */
extern const struct mcp_tool mcp_steps, mcp_slices, mcp_sql; /* tools_trace.c */
extern const struct mcp_tool mcp_ranges;                     /* tools_ranges.c */
extern const struct mcp_tool mcp_diff, mcp_advise;           /* tools_compare.c */

#endif
