/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/mcp/: what a tool is, and what tools are made with.
 */
#ifndef CLI_MCP_TOOL_H
#define CLI_MCP_TOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "analyzers/result/result.h"
#include "profiler/collector/collector.h"
#include "store/store.h"

/* ---- sessions -------------------------------------------------------------------------------- */

/* Keeps the newest analyses, as long as their files do not change. */
struct mcp_session;

struct mcp_session *mcp_session_new(void);
void mcp_session_free(struct mcp_session *session);

/* A run, analyzed. It belongs to the session and lives until the next call of mcp_session_run. */
struct mcp_run {
    struct col_found found;
    struct an_result *result;
    json_t *report; /* tacho-report/1 */
};
/* Finds and analyzes the run `name` (NULL: "latest"); `by` as in rep_options. 0, or an exit code
 * after a message. */
int mcp_session_run(struct mcp_session *session, const char *name, const char *by,
                    const struct mcp_run **run);
/* Opens the file of a run for reading. 0, or an exit code after a message. */
int mcp_run_open(const struct col_found *found, store_reader **reader);

/* ---- tools ----------------------------------------------------------------------------------- */

enum mcp_kind { MCP_TEXT, MCP_INTEGER, MCP_NUMBER, MCP_CHOICE };

struct mcp_argument {
    const char *name; /* NULL ends a table */
    enum mcp_kind kind;
    const char *help;
    const char *choices; /* of MCP_CHOICE: "slowest|index" */
    bool required;
    double low, high; /* of numbers, both included */
};

struct mcp_tool {
    const char *name, *title, *help;
    const struct mcp_argument *arguments; /* besides those that all tools have */
    /* Makes the answer, an object of the caller. `arguments` are checked. 0, or an exit code after
     * a message. */
    int (*call)(struct mcp_session *session, const json_t *arguments, json_t **answer);
};

/* An argument of every tool that reads a run, and that of every tool. */
#define MCP_RUN_ARGUMENT \
    { \
        .name = "run", .kind = MCP_TEXT, \
        .help = "a .tacho file, a .tacho.live folder, a Kineto .json[.gz], an Nsight .sqlite, a " \
                "folder of ranks, or latest (the default)" \
    }
#define MCP_LIMIT_ARGUMENT(what) \
    { \
        .name = "limit", .kind = MCP_INTEGER, .help = "at most so many " what, .low = 1, \
        .high = 1e6 \
    }
#define MCP_BYTES_LEAST   500
#define MCP_BYTES_DEFAULT 3500
#define MCP_BYTES_MOST    100000

/* The JSON schema of a tool's arguments; the caller's. NULL: no memory. */
json_t *mcp_arguments_schema(const struct mcp_tool *tool);
/* 0, or an exit code after a message about the first argument that does not fit. */
int mcp_arguments_check(const struct mcp_tool *tool, const json_t *arguments);
/* The value of an argument; `otherwise` where it is not given. */
const char *mcp_text(const json_t *arguments, const char *name, const char *otherwise);
int64_t mcp_integer(const json_t *arguments, const char *name, int64_t otherwise);
double mcp_number(const json_t *arguments, const char *name, double otherwise);

/* ---- answers --------------------------------------------------------------------------------- */

/* A text from the profiled program as JSON: what is no UTF-8 or no character becomes visible. NULL:
 * a JSON null. */
json_t *mcp_json_text(const char *text);
/* A number; NAN: null. Six significant digits are enough to answer a question, exact values are in
 * the report. */
json_t *mcp_json_real(double value);
json_t *mcp_json_count(struct an_count count);
json_t *mcp_json_value(struct an_value value);
/* Does `text` hold `part`, upper and lower case alike? NULL `part`: yes. */
bool mcp_matches(const char *text, const char *part);
/* Adds a hint what to call next to answer["next"]; takes `arguments`. */
void mcp_next(json_t *answer, const char *why, const char *tool, json_t *arguments);
/* Rounds all numbers of the document like mcp_json_real; none of them is shared with another one.
 */
void mcp_round(json_t *json);
/* Removes members that are null, everywhere in the document. */
void mcp_drop_nulls(json_t *json);

#endif
