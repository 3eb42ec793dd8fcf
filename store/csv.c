/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of CSV.
 */
#include "store/csv.h"

#include <string.h>

static bool needs_quotes(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (strchr(",\"\r\n", text[i]) && text[i])
            return true;
    return !bytes;
}

void store_csv_write(FILE *out, const char *text, size_t bytes, bool raw)
{
    if (!text)
        return;
    bool formula = !raw && bytes && text[0] && strchr("=+-@\t\r", text[0]);
    if (!formula && !needs_quotes(text, bytes)) {
        fwrite(text, 1, bytes, out);
        return;
    }
    fputs(formula ? "\"'" : "\"", out);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"')
            fputc('"', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

void store_csv_text(FILE *out, const char *text, bool raw)
{
    store_csv_write(out, text, text ? strlen(text) : 0, raw);
}
