/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of tools: their schema and their check come from one table.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cli/base/message.h"
#include "cli/base/options.h"
#include "cli/mcp/tool.h"

#define ARGUMENTS_MOST 16

static const struct mcp_argument common[] = {
    {.name = "max_bytes",
     .kind = MCP_INTEGER,
     .help = "bytes of the answer (3500); what does not fit is cut and counted",
     .low = MCP_BYTES_LEAST,
     .high = MCP_BYTES_MOST},
    {0},
};

/* The argument of this name; NULL: the tool has none. */
static const struct mcp_argument *find(const struct mcp_tool *tool, const char *name)
{
    for (const struct mcp_argument *at = tool->arguments; at->name; at++)
        if (!strcmp(at->name, name))
            return at;
    for (const struct mcp_argument *at = common; at->name; at++)
        if (!strcmp(at->name, name))
            return at;
    return NULL;
}

static json_t *choices_of(const char *choices)
{
    json_t *list = json_array();
    for (const char *at = choices; *at; at += *at == '|') {
        size_t length = strcspn(at, "|");
        json_array_append_new(list, json_stringn(at, length));
        at += length;
    }
    return list;
}

static void add_schema(json_t *properties, json_t *required, const struct mcp_argument *argument)
{
    static const char *const types[] = {"string", "integer", "number", "string"};
    json_t *schema =
        json_pack("{s:s, s:s}", "type", types[argument->kind], "description", argument->help);
    if (argument->kind == MCP_CHOICE)
        json_object_set_new(schema, "enum", choices_of(argument->choices));
    if (argument->kind == MCP_INTEGER) {
        json_object_set_new(schema, "minimum", json_integer((json_int_t)argument->low));
        json_object_set_new(schema, "maximum", json_integer((json_int_t)argument->high));
    }
    if (argument->required)
        json_array_append_new(required, json_string(argument->name));
    json_object_set_new(properties, argument->name, schema);
}

json_t *mcp_arguments_schema(const struct mcp_tool *tool)
{
    json_t *properties = json_object(), *required = json_array();
    for (const struct mcp_argument *at = tool->arguments; at->name; at++)
        add_schema(properties, required, at);
    for (const struct mcp_argument *at = common; at->name; at++)
        add_schema(properties, required, at);
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required",
                     required, "additionalProperties", 0);
}

/* Says that the tool has no such argument, and which one may be meant. */
static int refuse_name(const struct mcp_tool *tool, const char *name)
{
    const char *names[ARGUMENTS_MOST + 2];
    char hint[256];
    size_t count = 0, used;
    for (const struct mcp_argument *at = tool->arguments; at->name && count < ARGUMENTS_MOST; at++)
        names[count++] = at->name;
    names[count++] = common[0].name;
    names[count] = NULL;
    const char *close = cli_closest(name, names);
    used = close ? (size_t)snprintf(hint, sizeof hint, "did you mean '%s'? ", close) : 0;
    used += (size_t)snprintf(hint + used, sizeof hint - used, "arguments: ");
    for (size_t i = 0; i < count && used < sizeof hint; i++)
        used += (size_t)snprintf(hint + used, sizeof hint - used, "%s%s", i ? ", " : "", names[i]);
    return cli_usage(tool->name, hint, "no argument '%.60s'", name);
}

/* Is the text one of "a|b|c"? */
static bool is_choice(const char *text, const char *choices)
{
    size_t length = strlen(text);
    for (const char *at = choices; length; at++) {
        if (!strncmp(at, text, length) && (at[length] == '|' || !at[length]))
            return true;
        at = strchr(at, '|');
        if (!at)
            break;
    }
    return false;
}

/* Does the value have the type of the argument, and is it within its limits? 0, or an exit code
 * after a message. */
static int check_value(const char *tool, const struct mcp_argument *argument, const json_t *value)
{
    char hint[256];
    bool text = argument->kind == MCP_TEXT || argument->kind == MCP_CHOICE;
    if (text && !json_is_string(value))
        return cli_usage(tool, NULL, "%s: a text is needed", argument->name);
    if (text && strlen(json_string_value(value)) != json_string_length(value))
        return cli_usage(tool, NULL, "%s: the text holds a NUL character", argument->name);
    if (argument->kind == MCP_CHOICE && !is_choice(json_string_value(value), argument->choices)) {
        snprintf(hint, sizeof hint, "possible values: %s", argument->choices);
        return cli_usage(tool, hint, "%s: invalid value '%.60s'", argument->name,
                         json_string_value(value));
    }
    if (text)
        return 0;
    if (argument->kind == MCP_INTEGER ? !json_is_integer(value) : !json_is_number(value))
        return cli_usage(tool, NULL, "%s: a %s is needed", argument->name,
                         argument->kind == MCP_INTEGER ? "whole number" : "number");
    double number = json_number_value(value);
    if (number < argument->low || number > argument->high) {
        snprintf(hint, sizeof hint, "from %.15g to %.15g", argument->low, argument->high);
        return cli_usage(tool, hint, "%s: %.15g is out of range", argument->name, number);
    }
    return 0;
}

int mcp_arguments_check(const struct mcp_tool *tool, const json_t *arguments)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)arguments, name, value)
    {
        const struct mcp_argument *argument = find(tool, name);
        if (!argument)
            return refuse_name(tool, name);
        /* null: as if it were not given */
        int code = json_is_null(value) ? 0 : check_value(tool->name, argument, value);
        if (code)
            return code;
    }
    for (const struct mcp_argument *at = tool->arguments; at->name; at++)
        if (at->required && !json_object_get(arguments, at->name))
            return cli_usage(tool->name, at->help, "missing: %s", at->name);
    return 0;
}

const char *mcp_text(const json_t *arguments, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(arguments, name));
    return text && *text ? text : otherwise;
}

int64_t mcp_integer(const json_t *arguments, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(arguments, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

double mcp_number(const json_t *arguments, const char *name, double otherwise)
{
    const json_t *value = json_object_get(arguments, name);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}
