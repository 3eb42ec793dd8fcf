/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/report.h"

#include <string.h>

#include "reports/formats.h"

const struct rep_format rep_formats[] = {
    {"text", "for people: verdict, findings, budget, trust", ".txt", rep_text_write},
    {"markdown", "for a ticket: the same sections, long ones folded", ".md", rep_markdown_write},
    {"html", "one file with pictures, for forwarding", ".html", rep_html_write},
    {"json", "for programs: schema tacho-report/1", ".json", rep_json_write},
    {NULL, NULL, NULL, NULL},
};

int rep_write(const char *format, const struct an_result *result, const struct rep_options *options,
              FILE *out)
{
    static const struct rep_options defaults = {.width = 0};
    for (const struct rep_format *f = rep_formats; f->name; f++) {
        if (strcmp(f->name, format))
            continue;
        int rc = f->write(result, options ? options : &defaults, out);
        return rc ? rc : fflush(out) || ferror(out) ? TACHO_EIO : 0;
    }
    return TACHO_EUSAGE;
}
