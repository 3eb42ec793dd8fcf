/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of formats.
 */
#include "reports/report.h"

#include <string.h>

#include "reports/html/html.h"
#include "reports/json/json.h"

const struct rep_format rep_formats[] = {
    {"text", "for people: verdict, findings, budget, trust", ".txt", rep_text_write},
    {"markdown", "for a ticket: the same sections, long ones folded", ".md", rep_markdown_write},
    {"html", "one file with pictures, for forwarding", ".html", rep_html_write},
    {"json", "for programs: schema tacho-report/1", ".json", rep_json_write},
    {NULL, NULL, NULL, NULL},
};

/* Some errors of a stream show only when it is flushed, so every format is flushed before it
 * counts as written. */
int rep_write(const char *name, const struct an_result *result, const struct rep_options *options,
              FILE *out)
{
    static const struct rep_options defaults = {.width = 0};
    for (const struct rep_format *format = rep_formats; format->name; format++) {
        if (strcmp(format->name, name))
            continue;
        int rc = format->write(result, options ? options : &defaults, out);
        if (!rc && (fflush(out) || ferror(out)))
            rc = TACHO_EIO;
        return rc;
    }
    return TACHO_EUSAGE;
}
