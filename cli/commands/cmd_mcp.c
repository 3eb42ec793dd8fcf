/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho mcp: answers questions of programs about runs, over standard input and output.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/commands/commands.h"
#include "cli/mcp/mcp.h"

const struct cli_spec cli_mcp_spec = {
    .help = "answer an agent's questions about runs (Model Context Protocol on stdio)",
    .usage = "[--help]",
    .about = "Speaks the Model Context Protocol: JSON-RPC 2.0, one message per line, on standard "
             "input and "
             "output. An agent's\n"
             "program starts it in the folder of the runs. It reads runs and answers; it writes no "
             "file but the cache of\n"
             "imports, starts no program, and uses no network and no model. docs/agents.md has the "
             "tools.",
    .examples = "  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}' | tacho mcp",
    .most = 0,
};

/* The stream of answers: nothing else that is printed may get between them. NULL: an error. */
static FILE *take_stdout(void)
{
    int answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (answers < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return NULL;
    return fdopen(answers, "w");
}

int cli_mcp(int argc, char **argv)
{
    int first, code = cli_parse(&cli_mcp_spec, argc, argv, NULL, &first);
    if (code >= 0)
        return code;
    FILE *out = take_stdout();
    struct mcp_session *session = mcp_session_new();
    int rc = out && session ? mcp_serve(session, mcp_tools, stdin, out) : TACHO_ENOMEM;
    mcp_session_free(session);
    if (out && fclose(out) && !rc)
        rc = TACHO_EIO;
    return rc ? cli_error(rc, NULL, "mcp: %s", tacho_error_text(rc)) : 0;
}
