/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room cli/mcp/: questions about runs, asked by programs. The Model Context
 * Protocol over a pair of streams: JSON-RPC 2.0, a message a line. Everything is read-only: no file
 * is written but the cache of imports, no program is started, no network is used.
 */
#ifndef CLI_MCP_MCP_H
#define CLI_MCP_MCP_H

#include <stddef.h>
#include <stdio.h>

#include "cli/mcp/tool.h"

/* The tools, in the order they are listed; ends with NULL. Static storage. */
extern const struct mcp_tool *const mcp_tools[];

/* Answers one message, which need not be terminated: a line of JSON without its end, the caller's.
 * NULL: the message wants no answer (a notification), or there is no memory. */
char *mcp_answer(struct mcp_session *session, const struct mcp_tool *const *tools,
                 const char *message, size_t length);

/* Answers the lines of `in` on `out` until `in` ends. 0, TACHO_EIO (`out` failed) or TACHO_ENOMEM.
 */
int mcp_serve(struct mcp_session *session, const struct mcp_tool *const *tools, FILE *in,
              FILE *out);

#endif
