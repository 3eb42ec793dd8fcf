/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded JSON: keys are chosen, lists are cut, and what is too large gets smaller.
 */
#include "cli/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/message.h"
#include "tacho_error.h"
#include "tacho_utf8.h"

#define TEXT_LEAST   120 /* bytes of a text that is cut to make a document fit */
#define NAMES_MOST   64
#define MEMBERS_MOST 24 /* of an object that is never cut */

/* ---- keys ------------------------------------------------------------------------------------ */

/* Puts the value at the path `field` ("steps.median_ms") of `from` into `into`, which has the same
 * shape. A list stands for its elements. False: there is no such key, or no memory. */
static bool copy_field(const json_t *from, json_t *into, const char *field)
{
    size_t length = strcspn(field, ".");
    char key[128];
    if (!length || length >= sizeof key)
        return false;
    snprintf(key, sizeof key, "%.*s", (int)length, field);
    json_t *value = json_object_get(from, key), *place = json_object_get(into, key);
    if (!value)
        return false;
    bool last = !field[length];
    if (last || json_is_null(value))
        return !json_object_set(into, key, value);
    if (json_is_object(value)) {
        if (!place && json_object_set_new(into, key, json_object()))
            return false;
        return copy_field(value, json_object_get(into, key), field + length + 1);
    }
    if (!json_is_array(value))
        return false;
    if (!place && json_object_set_new(into, key, json_array()))
        return false;
    place = json_object_get(into, key);
    bool found = !json_array_size(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (i >= json_array_size(place) && json_array_append_new(place, json_object()))
            return false;
        found |= copy_field(json_array_get(value, i), json_array_get(place, i), field + length + 1);
    }
    return found;
}

/* Is the JSON pointer of a reason that of the field, or below or above it? Places in lists do not
 * count. */
static bool belongs(const char *pointer, const char *field)
{
    pointer++;
    while (*pointer && *field) {
        size_t name = strcspn(pointer, "/"), wanted = strcspn(field, ".");
        if (strspn(pointer, "0123456789") == name) {
            pointer += name + (pointer[name] == '/');
            continue;
        }
        if (name != wanted || strncmp(pointer, field, name) != 0)
            return false;
        pointer += name + (pointer[name] == '/');
        field += wanted + (field[wanted] == '.');
    }
    return true;
}

/* Copies what the member `name` of the document says of a field: why something in it is null, how
 * many rows are left out of it. */
static void copy_notes(const json_t *json, const char *name, const char *field, json_t *notes)
{
    const char *pointer;
    json_t *note;
    json_object_foreach(json_object_get(json, name), pointer,
                        note) if (pointer[0] && belongs(pointer, field))
        json_object_set(notes, pointer, note);
}

static void put_notes(json_t *out, const char *name, json_t *notes)
{
    if (json_object_size(notes) && !json_object_get(out, name))
        json_object_set(out, name, notes);
    json_decref(notes);
}

/* Copies the fields, with the reasons of what is absent in them and the numbers of rows that are
 * left out of them. 0, or -1. */
static int copy_fields(const json_t *json, const char *fields, json_t *out, char unknown[128])
{
    json_t *reasons = json_object(), *left_out = json_object();
    char field[128];
    bool ok = reasons && left_out;
    for (const char *at = fields; ok && *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        snprintf(field, sizeof field, "%.*s", (int)length, at);
        at += length;
        ok = copy_field(json, out, field);
        if (!ok) /* "": a name is missing between two commas */
            snprintf(unknown, 128, "%s", *field ? field : ",");
        copy_notes(json, "absent", field, reasons);
        copy_notes(json, "left_out", field, left_out);
    }
    put_notes(out, "left_out", left_out);
    put_notes(out, "absent", reasons);
    return ok ? 0 : -1;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Cuts each list of objects to `limit` elements; `left_out` gets how many more are gone, by JSON
 * pointer. */
static void cut_lists(json_t *json, size_t limit, const char *pointer, json_t *left_out)
{
    char below[512];
    const char *key;
    json_t *value;
    size_t count = json_array_size(json);
    bool rows = json_is_object(json_array_get(json, 0));
    if (rows && count > limit) {
        json_int_t before = json_integer_value(json_object_get(left_out, pointer));
        json_object_set_new(left_out, pointer, json_integer(before + (json_int_t)(count - limit)));
        while (json_array_size(json) > limit)
            json_array_remove(json, json_array_size(json) - 1);
    }
    for (size_t i = 0; i < json_array_size(json); i++) {
        snprintf(below, sizeof below, "%.480s/%zu", pointer, i);
        cut_lists(json_array_get(json, i), limit, below, left_out);
    }
    json_object_foreach(json, key, value)
    {
        snprintf(below, sizeof below, "%.240s/%.240s", pointer, key);
        if (json_is_array(value) || (json_is_object(value) && strcmp(key, "absent") != 0))
            cut_lists(value, limit, below, left_out);
    }
}

/* Copies the fields of the document; a list is that of its elements. NULL as of cli_view_of. */
static json_t *fields_of(const json_t *json, const char *fields, char unknown[128])
{
    json_t *out = json_is_object(json) ? json_object() : json_array(), *whole = NULL;
    bool ok = out != NULL;
    if (json_is_object(json))
        ok = ok && !copy_fields(json, fields, out, unknown);
    for (size_t i = 0; ok && i < json_array_size(json); i++) {
        json_t *row = json_object();
        ok = row && !copy_fields(json_array_get(json, i), fields, row, unknown) &&
             !json_array_append(out, row);
        json_decref(row);
    }
    if (ok)
        whole = json_deep_copy(out); /* its values belong to `json` as well */
    json_decref(out);
    return whole;
}

/* Is the value at the JSON pointer there, and null? */
static bool is_null_at(const json_t *json, const char *pointer)
{
    char name[256];
    while (json && *pointer == '/') {
        size_t length = strcspn(++pointer, "/");
        snprintf(name, sizeof name, "%.*s", (int)length, pointer);
        pointer += length;
        json = json_is_array(json) ? json_array_get(json, strtoul(name, NULL, 10))
                                   : json_object_get(json, name);
    }
    return json_is_null(json);
}

/* Removes the reasons of what is no longer there. */
static void prune_reasons(json_t *json)
{
    json_t *absent = json_object_get(json, "absent"), *reason;
    const char *pointer;
    void *next;
    json_object_foreach_safe(absent, next, pointer,
                             reason) if (pointer[0] == '/' && !is_null_at(json, pointer))
        json_object_del(absent, pointer);
    if (absent && !json_object_size(absent))
        json_object_del(json, "absent");
}

json_t *cli_view_of(const json_t *json, const struct cli_view *view, char unknown[128])
{
    unknown[0] = 0;
    json_t *out = view->fields ? fields_of(json, view->fields, unknown) : json_deep_copy(json);
    json_t *left_out = json_object();
    if (json_is_object(json_object_get(out, "left_out")))
        json_object_update(left_out, json_object_get(out, "left_out"));
    if (out && view->limit)
        cut_lists(out, (size_t)view->limit, "", left_out);
    prune_reasons(out);
    if (json_object_size(left_out) && json_is_object(out))
        json_object_set(out, "left_out", left_out);
    json_decref(left_out);
    return out;
}

/* ---- for commands ---------------------------------------------------------------------------- */

int cli_view_check(const char *command, const struct cli_view *view, bool json)
{
    if ((view->fields || view->limit) && !json)
        return cli_usage(command, "add --json", "--%s is for --json",
                         view->fields ? "fields" : "limit");
    const char *fields = view->fields;
    if (fields &&
        (!*fields || *fields == ',' || strstr(fields, ",,") || fields[strlen(fields) - 1] == ','))
        return cli_usage(command, "separate names by one comma: verdict,steps.median_ms",
                         "--fields: a name is missing in '%.100s'", fields);
    return 0;
}

/* Says which fields there are. */
static void refuse_field(const char *command, const json_t *json, const char *unknown)
{
    char hint[256], parent[128];
    const char *names[NAMES_MOST + 1], *key;
    json_t *value;
    size_t count = 0, used = 0;
    snprintf(parent, sizeof parent, "%s", unknown);
    for (char *dot = strrchr(parent, '.'); dot; dot = strrchr(parent, '.'), json = value) {
        char *first = strchr(parent, '.');
        *first = 0;
        value = json_object_get(json, parent);
        memmove(parent, first + 1, strlen(first + 1) + 1);
        value = json_is_array(value) ? json_array_get(value, 0) : value;
        if (!json_is_object(value))
            break;
    }
    json = json_is_array(json) ? json_array_get(json, 0) : json;
    json_object_foreach((json_t *)json, key, value) if (count < NAMES_MOST) names[count++] = key;
    names[count] = NULL;
    const char *close = cli_closest(parent, names);
    if (close)
        used = (size_t)snprintf(hint, sizeof hint, "did you mean '%s'? ", close);
    used += (size_t)snprintf(hint + used, sizeof hint - used, "keys there: ");
    for (size_t i = 0; i < count && used < sizeof hint; i++)
        used += (size_t)snprintf(hint + used, sizeof hint - used, "%s%s", i ? ", " : "", names[i]);
    cli_usage(command, hint, "--fields: no key '%s'", unknown);
}

int cli_view_dump(const void *json, FILE *out)
{
    int failed = json_dumpf(json, out,
                            JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_ENSURE_ASCII |
                                JSON_REAL_PRECISION(15));
    return failed || fputc('\n', out) == EOF ? TACHO_EIO : 0;
}

int cli_view_write(const char *command, const struct cli_view *view,
                   int (*write)(const void *context, FILE *out), const void *context, FILE *out)
{
    if (!view->fields && !view->limit)
        return write(context, out);
    char *text = NULL, unknown[128] = "";
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    int rc = memory ? write(context, memory) : TACHO_ENOMEM;
    if (memory && fclose(memory) && !rc)
        rc = TACHO_ENOMEM;
    json_t *json = rc ? NULL : json_loadb(text, bytes, 0, NULL);
    json_t *part = json ? cli_view_of(json, view, unknown) : NULL;
    if (!rc && unknown[0]) {
        refuse_field(command, json, unknown);
        rc = TACHO_EUSAGE;
    } else if (!rc && !part) {
        rc = TACHO_ENOMEM;
    }
    if (!rc)
        rc = cli_view_dump(part, out);
    json_decref(part);
    json_decref(json);
    free(text);
    return rc;
}

int cli_view_print(const char *command, const struct cli_view *view, json_t *json)
{
    int rc = json ? cli_view_write(command, view, cli_view_dump, json, stdout) : TACHO_ENOMEM;
    json_decref(json);
    if (rc == TACHO_ENOMEM)
        return cli_error(rc, NULL, "%s: out of memory", command);
    return rc == TACHO_EIO ? 0 : tacho_error_exit(rc);
}

json_t *cli_view_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Counts a piece of the text as it is within a JSON text. */
static int count_escaped(const char *text, size_t length, void *context)
{
    size_t *bytes = context;
    for (size_t i = 0; i < length; i++)
        *bytes += text[i] == '"' || text[i] == '\\' ? 2 : 1;
    return 0;
}

size_t cli_view_bytes(const json_t *json)
{
    size_t bytes = 0;
    json_dump_callback(json, count_escaped, &bytes,
                       JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY |
                           JSON_REAL_PRECISION(15));
    return bytes;
}

/* The largest list with more than one element, or object with many, and the longest text. */
struct largest {
    json_t *list;
    size_t list_bytes;
    json_t *text;
    size_t text_bytes;
};

static void look(json_t *json, struct largest *largest)
{
    const char *key;
    json_t *value;
    size_t bytes = json_string_length(json);
    if (bytes > largest->text_bytes) {
        largest->text = json;
        largest->text_bytes = bytes;
    }
    bool many = json_array_size(json) > 1 || json_object_size(json) > MEMBERS_MOST;
    bytes = many ? cli_view_bytes(json) : 0;
    if (bytes > largest->list_bytes) {
        largest->list = json;
        largest->list_bytes = bytes;
    }
    for (size_t i = 0; i < json_array_size(json); i++)
        look(json_array_get(json, i), largest);
    json_object_foreach(json, key, value) look(value, largest);
}

/* Cuts a text to about half, at the start of a character, with an ellipsis. */
static void shorten(json_t *text)
{
    char *copy = strdup(json_string_value(text));
    size_t end = copy ? tacho_utf8_cut(copy, strlen(copy) / 2) : 0;
    if (copy) {
        snprintf(copy + end, 4, "...");
        json_string_set(text, copy);
    }
    free(copy);
}

/* Removes the last element of a list, or member of an object. */
static void remove_last(json_t *json)
{
    const char *key, *last = NULL;
    json_t *value;
    if (json_is_array(json))
        json_array_remove(json, json_array_size(json) - 1);
    json_object_foreach(json, key, value) last = key;
    if (last)
        json_object_del(json, last);
}

size_t cli_view_fit(json_t *json, size_t bytes)
{
    size_t removed = 0;
    for (size_t size = cli_view_bytes(json); size > bytes; size = cli_view_bytes(json)) {
        struct largest largest = {0};
        look(json, &largest);
        if (largest.text_bytes > 4 * TEXT_LEAST ||
            (!largest.list && largest.text_bytes > TEXT_LEAST)) {
            shorten(largest.text);
            continue;
        }
        if (!largest.list && json_object_size(json) < 2)
            break;
        if (!largest.list) { /* the first member is what was asked for */
            remove_last(json);
            removed++;
            continue;
        }
        /* about as many as are too many, from the end: the first are the most important ones */
        size_t count = json_array_size(largest.list) + json_object_size(largest.list),
               mean = largest.list_bytes / count + 1;
        size_t cut = (size - bytes) / mean;
        cut = cut < 1 ? 1 : cut;
        cut = cut >= count ? count / 2 : cut;
        for (size_t i = 0; i < cut; i++)
            remove_last(largest.list);
        removed += cut;
    }
    return removed;
}
