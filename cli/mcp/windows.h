/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/mcp/: the ranges of a run one by one, each with its step, for tools that ask about
 * parts of it.
 */
#ifndef CLI_MCP_WINDOWS_H
#define CLI_MCP_WINDOWS_H

#include "cli/mcp/tool.h"

struct mcp_track {
    int64_t id, process, rank; /* rank STORE_ABSENT: the process has none */
    bool device;               /* a stream: its work belongs to the step on the device */
    char *name;
};

struct mcp_name {
    int64_t id;
    char *text;
};

/* What the ids of a file mean, and the steps of the run. */
struct mcp_trace {
    store_reader *reader;
    struct mcp_track *track; /* by id */
    size_t track_count, track_room;
    struct mcp_name *name; /* by id */
    size_t name_count, name_room;
    struct process {
        int64_t id, rank;
    } * process; /* by id */
    size_t process_count, process_room;
    const struct an_step_point *step; /* of the result: by rank and start */
    size_t step_count;
};

/* What an analysis and a file say of the steps and names of a run. 0, or an exit code after a
 * message. In any case mcp_trace_close frees it. */
int mcp_trace_open(const struct mcp_run *run, struct mcp_trace *trace);
void mcp_trace_close(struct mcp_trace *trace);

/* A range or a device operation with what is known of it. Texts live as long as the trace. */
struct mcp_range {
    int64_t id, start, dur;           /* dur STORE_ABSENT: it has no end */
    const char *name;                 /* "" unknown */
    const struct mcp_track *track;    /* NULL: unknown */
    const struct an_step_point *step; /* NULL: outside of steps */
};

/* Which ranges: all of those that are given. */
struct mcp_filter {
    const char *match; /* a part of the name; NULL: any */
    int64_t rank;      /* STORE_ABSENT: any */
    int64_t step_from,
        step_to;     /* indexes, both included; step_to < step_from: any, and outside of steps */
    double least_us; /* duration */
};
/* The arguments of such a tool. */
#define MCP_FILTER_ARGUMENTS \
    {.name = "match", .kind = MCP_TEXT, .help = "only names that hold this: attention, h.3."}, \
        {.name = "rank", .kind = MCP_INTEGER, .help = "only this rank", .low = 0, .high = 1e9}, \
        {.name = "step", .kind = MCP_INTEGER, .help = "only this step", .low = 0, .high = 1e15}, \
        {.name = "from", \
         .kind = MCP_INTEGER, \
         .help = "only steps from this index on", \
         .low = 0, \
         .high = 1e15}, \
        {.name = "to", \
         .kind = MCP_INTEGER, \
         .help = "only steps up to this index", \
         .low = 0, \
         .high = 1e15}, \
    { \
        .name = "min_us", .kind = MCP_NUMBER, .help = "only ranges of at least so many us", \
        .low = 0, .high = 1e18 \
    }
/* Reads rank, step, from, to, match and min_us from the arguments of a tool. */
struct mcp_filter mcp_filter_of(const json_t *arguments);
/* Calls `each` for every range that passes the filter, in the order of the file, until it returns
 * non-zero, which is returned. Else 0, or TACHO_E* of the reader. */
int mcp_each_range(struct mcp_trace *trace, const struct mcp_filter *filter,
                   int (*each)(void *context, const struct mcp_range *range), void *context);

#endif
