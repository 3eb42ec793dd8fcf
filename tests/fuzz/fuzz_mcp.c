/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages to `tacho mcp`, in a folder without runs: lines of JSON-RPC, whole sessions, and
 * arguments of every tool. Each answer is one line of JSON.
 */
#include <string.h>
#include <sys/stat.h>

#include "cli/mcp/mcp.h"
#include "fuzz.h"

static void check(int ok)
{
    if (!ok)
        abort();
}

/* An empty folder, so that no run is read: files have fuzz targets of their own. */
static void go_away(void)
{
    static char folder[64];
    if (folder[0])
        return;
    snprintf(folder, sizeof folder, "/dev/shm/tacho-fuzz-mcp-%ld", (long)getpid());
    check(mkdir(folder, 0700) == 0 && chdir(folder) == 0 && rmdir(folder) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mcp_session *session = mcp_session_new();
    char *text = NULL;
    size_t bytes = 0;
    go_away();
    if (!size || !session)
        goto out;
    FILE *in = fmemopen((void *)data, size, "r"), *answers = open_memstream(&text, &bytes);
    check(in && answers && mcp_serve(session, mcp_tools, in, answers) == 0);
    fclose(in);
    fclose(answers);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n');
        json_error_t where;
        json_t *json = end ? json_loadb(line, (size_t)(end - line), 0, &where) : NULL;
        check(json != NULL);
        json_decref(json);
    }
    free(text);
out:
    mcp_session_free(session);
    return 0;
}
