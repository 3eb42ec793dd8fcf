/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of tools.
 */
#include "cli/mcp/mcp.h"
#include "cli/mcp/tools.h"

const struct mcp_tool *const mcp_tools[] = {
    &mcp_summarize, &mcp_explain, &mcp_get, &mcp_steps,     &mcp_ranges, &mcp_slices,
    &mcp_diff,      &mcp_advise,  &mcp_sql, &mcp_list_runs, &mcp_define, NULL,
};
