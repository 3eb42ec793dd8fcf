/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the edits of a dependency graph that a user typed.
 */
#include "cli/base/edits.h"

#include <stdio.h>

#include "analyzers/replay/what_if.h"
#include "cli/base/message.h"
#include "cli/base/options.h"

int cli_edits_check(const char *text)
{
    struct an_edit edit[AN_EDITS_MOST];
    char wrong[AN_EDIT_KEY];
    struct tacho_error err = {0};
    size_t count;
    if (!text || !an_edits_parse(text, edit, &count, wrong, &err))
        return 0;
    const char *close = *wrong ? cli_closest(wrong, an_edit_keys()) : NULL;
    if (close)
        snprintf(err.hint, sizeof err.hint, "did you mean %s?", close);
    return cli_fail(&err);
}

int cli_edits_check_names(const struct an_result *result)
{
    for (size_t i = 0; i < result->advice.edit_count; i++) {
        const struct an_what_if *what_if = &result->advice.edits[i];
        if (!what_if->unknown)
            continue;
        char hint[200];
        if (what_if->known)
            snprintf(hint, sizeof hint, "available: %.180s", what_if->known);
        else
            snprintf(hint, sizeof hint, "'tacho advise' without --what-if lists the names");
        return cli_error(TACHO_EUSAGE, hint, "--what-if: %.100s: not found in the replayed steps",
                         what_if->unknown);
    }
    return 0;
}
