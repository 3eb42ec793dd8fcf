/* SPDX-License-Identifier: Apache-2.0
 *
 * Which watches there are, and what each of them answers: lists of targets as Prometheus has them
 * in files (file_sd_configs) and over HTTP (http_sd_config), or lines.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "analyzers/base/arena.h"
#include "monitor/fleet/fleet.h"
#include "monitor/http/http.h"
#include "store/files.h"

#define BATCH     64 /* watches whose answers are held at once */
#define FILE_MOST ((off_t)MON_HTTP_ANSWER_MOST)

/* ---- texts ------------------------------------------------------------------------------------ */

/* A whole file as text; the caller frees it. NULL and an errno. */
static char *read_file(const char *path)
{
    struct store_place place;
    struct stat stat;
    int fd = store_place_find(path, true, &place) ? -1 : store_file_peek(place.folder, place.name);
    int error = errno;
    store_place_close(&place);
    errno = error;
    if (fd < 0)
        return NULL;
    bool fits = !fstat(fd, &stat) && stat.st_size <= FILE_MOST;
    char *text = fits ? calloc(1, (size_t)stat.st_size + 1) : NULL;
    ssize_t n = text ? read(fd, text, (size_t)stat.st_size) : -1;
    error = fits ? errno : EFBIG;
    close(fd);
    errno = error;
    if (n >= 0)
        return text;
    free(text);
    return NULL;
}

/* ---- the list --------------------------------------------------------------------------------- */

/* The whole address of a target: HOST:PORT alone means http and /metrics. NULL without memory. */
static char *full_target(const char *target, const char *path)
{
    char *full;
    if (*target == '/' || *target == '.' || !strncmp(target, "http", 4))
        return strdup(target);
    int length = asprintf(&full, "http://%s%s", target, path ? path : "/metrics");
    return length < 0 ? NULL : full;
}

static int add_target(struct mon_fleet *fleet, const char *target, const char *path)
{
    if (an_grow(&fleet->node, &fleet->node_room, fleet->node_count + 1, sizeof *fleet->node))
        return TACHO_ENOMEM;
    if (fleet->node_count == MON_FLEET_NODES)
        return TACHO_EUSAGE;
    char *full = full_target(target, path);
    if (!full)
        return TACHO_ENOMEM;
    for (char *at = full; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?'; /* it is printed */
    fleet->node[fleet->node_count++] = (struct mon_fleet_node){.target = full};
    return 0;
}

/* [{"targets": ["HOST:PORT", ...], "labels": {"__metrics_path__": "/metrics"}}, ...] */
static int add_json(struct mon_fleet *fleet, const char *text)
{
    json_t *groups = json_loads(text, 0, NULL), *group, *target;
    size_t i, j;
    int rc = json_is_array(groups) ? 0 : TACHO_EFORMAT;
    json_array_foreach(groups, i, group)
    {
        json_t *labels = json_object_get(group, "labels");
        const char *path = json_string_value(json_object_get(labels, "__metrics_path__"));
        json_array_foreach(json_object_get(group, "targets"), j, target) if (!rc) rc =
            json_is_string(target) ? add_target(fleet, json_string_value(target), path)
                                   : TACHO_EFORMAT;
    }
    json_decref(groups);
    return rc;
}

static int add_lines(struct mon_fleet *fleet, char *text)
{
    int rc = 0;
    for (char *line; !rc && (line = strsep(&text, "\n")) != NULL;) {
        line[strcspn(line, "#\r")] = 0;
        line += strspn(line, " \t");
        line[strcspn(line, " \t")] = 0;
        if (*line)
            rc = add_target(fleet, line, NULL);
    }
    return rc;
}

static int add_list(struct mon_fleet *fleet, char *text, const char *from, struct tacho_error *err)
{
    static const char hint[] = "one HOST:PORT a line, or the JSON of Prometheus' file_sd_configs";
    int rc = text[strspn(text, " \t\r\n")] == '[' ? add_json(fleet, text) : add_lines(fleet, text);
    if (rc)
        return tacho_fail(err, rc, hint, "%s: %s", from,
                          rc == TACHO_EUSAGE ? "too many targets" : tacho_error_text(rc));
    if (!fleet->node_count)
        return tacho_fail(err, TACHO_EFORMAT, hint, "%s: names no watch", from);
    return 0;
}

/* ---- answers ---------------------------------------------------------------------------------- */

static bool is_file(const struct mon_fleet_node *node)
{
    return *node->target == '/' || *node->target == '.';
}

static int take_file(struct mon_fleet *fleet, size_t node)
{
    char *text = read_file(fleet->node[node].target);
    if (!text) {
        snprintf(fleet->node[node].why, sizeof fleet->node[node].why, "%s", strerror(errno));
        return 0;
    }
    int rc = mon_fleet_add(fleet, node, text);
    free(text);
    return rc;
}

/* Asks the watches first .. first + count - 1, at most BATCH. */
static int ask(struct mon_fleet *fleet, size_t first, size_t count, const char *token,
               double seconds)
{
    struct mon_http call[BATCH];
    size_t node[BATCH], calls = 0;
    int rc = 0;
    for (size_t i = first; i < first + count && !rc; i++)
        if (is_file(&fleet->node[i])) {
            rc = take_file(fleet, i);
        } else {
            node[calls] = i;
            call[calls++] = (struct mon_http){.url = fleet->node[i].target, .token = token};
        }
    mon_http_all(call, calls, seconds);
    for (size_t i = 0; i < calls; i++) {
        struct mon_fleet_node *asked = &fleet->node[node[i]];
        const char *what = call[i].err.what;
        size_t prefix = strlen(asked->target) + 2; /* "TARGET: " begins the message */
        if (call[i].rc)
            snprintf(asked->why, sizeof asked->why, "%s",
                     strlen(what) > prefix ? what + prefix : what);
        else if (!rc)
            rc = mon_fleet_add(fleet, node[i], call[i].answer);
    }
    mon_http_free(call, calls);
    return rc;
}

int mon_fleet_read(struct mon_fleet *fleet, const char *from, const char *token, double seconds,
                   struct tacho_error *err)
{
    struct mon_http call = {.url = from, .token = token};
    char *text = NULL;
    *fleet = (struct mon_fleet){0};
    if (!strncmp(from, "http:", 5)) {
        mon_http_all(&call, 1, seconds);
        if (call.rc && err)
            *err = call.err;
    } else if (!(text = read_file(from))) {
        return tacho_fail(err, tacho_error_of_errno(errno), "give a file with a list of watches",
                          "%s: %s", from, strerror(errno));
    }
    int rc = call.rc;
    if (!rc)
        rc = add_list(fleet, text ? text : call.answer, from, err);
    for (size_t i = 0; i < fleet->node_count && !rc; i += BATCH) {
        size_t left = fleet->node_count - i;
        rc = ask(fleet, i, left < BATCH ? left : BATCH, token, seconds);
        if (rc)
            tacho_fail(err, rc, NULL, "%s: %s", from, tacho_error_text(rc));
    }
    mon_http_free(&call, 1);
    free(text);
    return rc;
}
