/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages to `tacho mcp`, in a folder without runs: lines of JSON-RPC, whole sessions, and
 * arguments of every tool. Each answer is one line of JSON.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/mcp/mcp.h"
#include "fuzz.h"

static void check(int ok)
{
    if (!ok)
        abort();
}

/* Goes into an empty folder, so that no run is read: files have fuzz targets of their own. Returns
 * the folder to come back to, where the fuzzer keeps its corpus. */
static int go_away(void)
{
    char folder[64];
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(folder, sizeof folder, "/dev/shm/tacho-fuzz-mcp-%ld", (long)getpid());
    check(here >= 0 && mkdir(folder, 0700) == 0 && chdir(folder) == 0 && rmdir(folder) == 0);
    return here;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mcp_session *session = mcp_session_new();
    char *text = NULL;
    size_t bytes = 0;
    int here = go_away();
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
    check(fchdir(here) == 0);
    close(here);
    mcp_session_free(session);
    return 0;
}
