/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and opens the user's history, and enters runs.
 */
#include "cli/base/enter_history.h"

#include <limits.h>

#include "cli/base/message.h"

bool cli_history_is_kept(void)
{
    char path[PATH_MAX];
    return !history_path(false, path, sizeof path, NULL) && *path;
}

int cli_history_open(bool write, struct history **out)
{
    char path[PATH_MAX];
    struct tacho_error err = {0};
    *out = NULL;
    int rc = history_path(write, path, sizeof path, &err);
    if (!rc && !*path)
        return cli_error(TACHO_ENOTFOUND, "unset it, or set it to a file",
                         "there is no history: TACHO_HISTORY is 'off'");
    if (!rc)
        rc = history_open(path, write, out, &err);
    return rc ? cli_fail(&err) : 0;
}

#define FAILED_LEAST 3 /* the square root of their mean time is known to 30 % */

double cli_history_mtbf(const struct an_result *result, char words[CLI_HISTORY_WORDS])
{
    char path[PATH_MAX];
    struct history *history = NULL;
    struct history_failures known = {0};
    if (history_path(false, path, sizeof path, NULL) || !*path ||
        history_open(path, false, &history, NULL))
        return 0;
    int rc = history_failures_read(history, result, &known, NULL);
    history_close(history);
    if (rc || known.failed < FAILED_LEAST || !(known.hours > 0))
        return 0;
    snprintf(words, CLI_HISTORY_WORDS, "%.0f failures in %.4g hours of %.0f runs, tacho history",
             known.failed, known.hours, known.runs);
    return known.hours / known.failed;
}

void cli_history_enter(const struct an_result *result, const char *commit)
{
    struct history *history = NULL;
    struct history_entry *entry = NULL;
    struct tacho_error err = {0};
    int rc = history_entry_of(result, commit, &entry);
    if (rc == TACHO_EFORMAT) /* without steps there is nothing to compare */
        return;
    if (rc)
        cli_error(rc, NULL, "the run is not entered into the history: %s", tacho_error_text(rc));
    else if (!cli_history_open(true, &history) && history_enter(history, entry, &err))
        cli_fail(&err);
    history_close(history);
    history_entry_free(entry);
}
