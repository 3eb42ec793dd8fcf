/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch/acknowledge.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/message.h"
#include "tacho_folder.h"

#define LINE_MOST (PATH_MAX + 128)

static int state_name(const char *below, char path[PATH_MAX])
{
    return tacho_folder_name("XDG_STATE_HOME", ".local/state", below, path, PATH_MAX);
}

int cli_watch_acknowledge(const char *run, const char *id_or_code)
{
    char folder[PATH_MAX], path[PATH_MAX];
    int error = state_name("tacho", folder);
    error = error ? error : tacho_folder_make(folder);
    error = error ? error : state_name("tacho/watch.seen", path);
    FILE *file = error ? NULL : fopen(path, "ae");
    if (!file) {
        error = error ? error : errno;
        return cli_error(tacho_error_of_errno(error), "set XDG_STATE_HOME to a folder of yours",
                         "watch.seen: %s", tacho_folder_problem(error));
    }
    fprintf(file, "%s\t%s\n", run, id_or_code);
    return fclose(file) ? cli_error(TACHO_EIO, NULL, "%s: cannot be written", path) : 0;
}

void cli_watch_read_acknowledged(const char *run, int64_t *read_ns, struct mon_alerts *alerts)
{
    char path[PATH_MAX], line[LINE_MOST];
    struct stat st;
    if (state_name("tacho/watch.seen", path) || stat(path, &st))
        return;
    int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    FILE *file = changed == *read_ns ? NULL : fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        char *tab = strchr(line, '\t');
        line[strcspn(line, "\n")] = 0;
        if (!tab)
            continue;
        *tab = 0;
        if (!strcmp(line, run))
            mon_alerts_acknowledge(alerts, tab + 1);
    }
    if (file)
        fclose(file);
    *read_ns = changed;
}
