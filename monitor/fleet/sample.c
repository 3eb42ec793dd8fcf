/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the text formats of OpenMetrics 1.0 and Prometheus 0.0.4: NAME{LABEL="VALUE",...} VALUE,
 * and then a time or an exemplar, which are left out.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/fleet/sample.h"
#include "tacho_utf8.h"

static size_t name_length(const char *at)
{
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_' || at[length] == ':')
        length++;
    return length;
}

/* Copies what fits, made safe. */
static void keep(char *to, size_t size, const char *from, size_t length)
{
    size_t used = 0;
    for (size_t n; length; from += n, length -= n) {
        n = tacho_utf8_sequence((const unsigned char *)from, length);
        bool is_safe = n && (unsigned char)*from >= ' ' && *from != 0x7f &&
                       !((unsigned char)*from == 0xc2 && (unsigned char)from[1] < 0xa0);
        size_t bytes = is_safe ? n : 1;
        if (used + bytes >= size)
            break;
        memcpy(to + used, is_safe ? from : "?", bytes);
        used += bytes;
        n = n ? n : 1;
    }
    to[used] = 0;
}

/* Reads the value of a label behind its opening quote. Returns what follows the closing one, or
 * NULL. */
static const char *read_value(const char *at, char *value, size_t size)
{
    size_t used = 0;
    for (; *at != '"'; at++) {
        char c = *at;
        if (!c || c == '\n')
            return NULL;
        if (c == '\\' && at[1] && at[1] != '\n') {
            at++;
            c = *at == 'n' ? '\n' : *at;
        }
        if (used + 1 < size)
            value[used++] = c;
    }
    value[used] = 0;
    return at + 1;
}

/* Reads labels behind '{'. Returns what follows '}', or NULL. */
static const char *read_labels(const char *at, struct fleet_sample *sample)
{
    struct {
        const char *name;
        char *to;
        size_t size;
    } wanted[] = {{"run", sample->run, sizeof sample->run},
                  {"rank", sample->rank, sizeof sample->rank},
                  {"code", sample->code, sizeof sample->code}};
    char value[4 * MON_FLEET_NAME];
    while (*at != '}') {
        const char *name = at;
        size_t length = name_length(at);
        if (!length || at[length] != '=' || at[length + 1] != '"')
            return NULL;
        at = read_value(at + length + 2, value, sizeof value);
        if (!at)
            return NULL;
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strlen(wanted[i].name) == length && !strncmp(wanted[i].name, name, length))
                keep(wanted[i].to, wanted[i].size, value, strlen(value));
        at += *at == ',';
    }
    return at + 1;
}

static bool read_line(const char *at, struct fleet_sample *sample)
{
    char *end;
    size_t length = name_length(at);
    *sample = (struct fleet_sample){.value = NAN};
    if (!length || isdigit((unsigned char)*at))
        return false;
    keep(sample->name, sizeof sample->name, at, length);
    at += length;
    if (*at == '{' && !(at = read_labels(at + 1, sample)))
        return false;
    if (*at != ' ' && *at != '\t')
        return false;
    while (*at == ' ' || *at == '\t')
        at++;
    sample->value = strtod(at, &end);
    return end != at && (!*end || isspace((unsigned char)*end));
}

bool fleet_sample_next(const char **text, struct fleet_sample *sample)
{
    while (**text) {
        const char *line = *text;
        size_t length = strcspn(line, "\n");
        *text = line + length + (line[length] == '\n');
        if (*line != '#' && read_line(line, sample))
            return true;
    }
    return false;
}
