/* SPDX-License-Identifier: Apache-2.0 */
#include "store/export/export.h"

#include "store/export/exporter.h"

const struct store_export_format store_export_formats[] = {
    {"perfetto", "Chrome JSON for ui.perfetto.dev and chrome://tracing", ".json",
     exp_perfetto_write},
    {"folded", "stacks with self times, for flame graphs", ".folded", exp_folded_write},
    {"stacks", "sampled call stacks with CPU time, for flame graphs", ".folded", exp_stacks_write},
    {"csv", "one row a slice, RFC 4180", ".csv", exp_csv_write},
    {0},
};

int exp_end(FILE *out, int code, struct tacho_error *err)
{
    if (!code && (fflush(out) || ferror(out)))
        code = tacho_fail(err, TACHO_EIO, NULL, "%s", tacho_error_text(TACHO_EIO));
    return code;
}
