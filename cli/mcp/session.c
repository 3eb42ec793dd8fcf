/* SPDX-License-Identifier: Apache-2.0
 *
 * The analyses that a session keeps.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/mcp/tool.h"

#define KEPT 4 /* analyses: two runs that are compared, by two tables */

struct kept {
    struct mcp_run run;
    char *by;
    struct stat file; /* of `run.found.path` when it was read */
    unsigned long used;
};

struct mcp_session {
    struct kept kept[KEPT];
    unsigned long calls;
};

struct mcp_session *mcp_session_new(void)
{
    return calloc(1, sizeof(struct mcp_session));
}

static void drop(struct kept *kept)
{
    an_result_free(kept->run.result);
    json_decref(kept->run.report);
    free(kept->by);
    *kept = (struct kept){0};
}

void mcp_session_free(struct mcp_session *session)
{
    for (size_t i = 0; session && i < KEPT; i++)
        drop(&session->kept[i]);
    free(session);
}

/* Is it the analysis of this file as it is now, by this table? */
static bool is_same(const struct kept *kept, const struct col_found *found, const struct stat *file,
                    const char *by)
{
    return kept->run.report && !kept->run.found.live && !found->live && !strcmp(kept->by, by) &&
           !strcmp(kept->run.found.run, found->run) && kept->file.st_dev == file->st_dev &&
           kept->file.st_ino == file->st_ino && kept->file.st_size == file->st_size &&
           kept->file.st_mtim.tv_sec == file->st_mtim.tv_sec &&
           kept->file.st_mtim.tv_nsec == file->st_mtim.tv_nsec;
}

/* Analyzes the run into a place that is free. 0, or an exit code after a message. */
static int fill(struct kept *kept, const struct col_found *found, const char *by)
{
    kept->run.found = *found;
    kept->by = strdup(by);
    int code = cli_run_analyze(found, &(struct an_options){.samples = true}, &kept->run.result);
    if (!code)
        kept->run.report = cli_run_json_by(kept->run.result, by);
    if (!code && (!kept->run.report || !kept->by))
        code = cli_error(TACHO_ENOMEM, NULL, "%s: %s", found->run, tacho_error_text(TACHO_ENOMEM));
    if (code)
        drop(kept);
    return code;
}

int mcp_session_run(struct mcp_session *session, const char *name, const char *by,
                    const struct mcp_run **run)
{
    struct col_found found = {0};
    struct stat file = {0};
    struct kept *oldest = session->kept;
    by = by ? by : "op";
    int code = cli_run_find(name ? name : "latest", &found);
    if (code)
        return code;
    stat(found.path, &file);
    session->calls++;
    for (struct kept *kept = session->kept; kept < session->kept + KEPT; kept++) {
        if (is_same(kept, &found, &file, by)) {
            kept->used = session->calls;
            *run = &kept->run;
            return 0;
        }
        if (kept->used < oldest->used)
            oldest = kept;
    }
    drop(oldest);
    code = fill(oldest, &found, by);
    oldest->file = file;
    oldest->used = session->calls;
    *run = &oldest->run;
    return code;
}

int mcp_run_open(const struct col_found *found, store_reader **reader)
{
    struct tacho_error err = {0};
    return store_open(found->path, reader, &err) ? cli_fail(&err) : 0;
}
