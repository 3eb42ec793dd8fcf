/* SPDX-License-Identifier: Apache-2.0
 *
 * What answers are made of.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/base/message.h"
#include "cli/mcp/tool.h"

#define DIGITS 6 /* significant ones of a number in an answer */

json_t *mcp_json_text(const char *text)
{
    if (!text)
        return json_null();
    char *safe = cli_printable(text);
    json_t *json = safe ? json_string(safe) : NULL;
    free(safe);
    return json ? json : json_null();
}

json_t *mcp_json_real(double value)
{
    char text[40];
    if (!isfinite(value))
        return json_null();
    snprintf(text, sizeof text, "%.*g", DIGITS, value);
    return json_real(strtod(text, NULL));
}

json_t *mcp_json_count(struct an_count count)
{
    return count.valid ? json_integer(count.value) : json_null();
}

json_t *mcp_json_value(struct an_value value)
{
    return value.valid ? mcp_json_real(value.value) : json_null();
}

bool mcp_matches(const char *text, const char *part)
{
    return !part || strcasestr(text ? text : "", part) != NULL;
}

void mcp_next(json_t *answer, const char *why, const char *tool, json_t *arguments)
{
    json_t *list = json_object_get(answer, "next");
    if (!list) {
        json_object_set_new(answer, "next", json_array());
        list = json_object_get(answer, "next");
    }
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:o}", "why", why, "tool", tool, "arguments", arguments));
}

void mcp_drop_nulls(json_t *json)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(json, next, key, value)
    {
        if (json_is_null(value))
            json_object_del(json, key);
        else
            mcp_drop_nulls(value);
    }
    for (size_t i = 0; i < json_array_size(json); i++)
        mcp_drop_nulls(json_array_get(json, i));
}

void mcp_round(json_t *json)
{
    const char *key;
    json_t *value;
    if (json_is_real(json)) {
        json_t *rounded = mcp_json_real(json_real_value(json));
        json_real_set(json, json_real_value(rounded));
        json_decref(rounded);
    }
    for (size_t i = 0; i < json_array_size(json); i++)
        mcp_round(json_array_get(json, i));
    json_object_foreach(json, key, value) mcp_round(value);
}
