/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in until import.c is there: weak, so that the real ones take over. */
#include "store/import/import.h"
__attribute__((weak)) int store_format_of(const char *path, enum store_format *out, struct tacho_error *err)
{
    *out = STORE_FORMAT_UNKNOWN;
    return tacho_fail(err, TACHO_ENOTSUP, NULL, "%s: not a .tacho file", path);
}
__attribute__((weak)) int store_import(const struct store_import_options *o, struct store_import_result *r, struct tacho_error *err)
{
    (void)r;
    return tacho_fail(err, TACHO_ENOTSUP, NULL, "%s: not a .tacho file", o->in[0]);
}
__attribute__((weak)) int store_import_key(const char *const *in, size_t in_count, char key[33], struct tacho_error *err)
{
    (void)in_count, (void)key;
    return tacho_fail(err, TACHO_ENOTSUP, NULL, "%s: not a .tacho file", in[0]);
}
