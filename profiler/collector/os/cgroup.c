/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/os/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"

#define UNLIMITED ((int64_t)1 << 60) /* bytes: version 1 has no word for "max" */

/* ---- which group ----------------------------------------------------------------------------- */

/* Is `name` one of the `length` characters of a list with commas? */
static bool lists(const char *list, size_t length, const char *name)
{
    size_t wanted = strlen(name);
    for (size_t at = 0; at <= length; at++) {
        size_t part = strcspn(list + at, ",");
        part = part < length - at ? part : length - at;
        if (part == wanted && !strncmp(list + at, name, part))
            return true;
        at += part;
    }
    return false;
}

/* Finds the line "4:cpu,cpuacct:/a/b" of a controller. Then *path is the path and *length its
 * length; NULL: the process is in no such hierarchy. */
static const char *find_line(const char *text, const char *controller, size_t *length)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t size = strcspn(line, "\n");
        const char *list = memchr(line, ':', size),
                   *path = list ? memchr(list + 1, ':', size - (size_t)(list + 1 - line)) : NULL;
        if (!path || !lists(list + 1, (size_t)(path - list - 1), controller))
            continue;
        *length = size - (size_t)(path + 1 - line);
        return path + 1;
    }
    return NULL;
}

/* Writes the folder in which a hierarchy is mounted; false: it is not there. */
static bool find_root(const char *root, const char *controller, bool unified,
                      struct col_cgroup *out)
{
    static const char *const version_2[] = {"", "/unified", NULL};
    const char *const version_1[] = {controller, NULL};
    for (const char *const *name = unified ? version_2 : version_1; *name; name++) {
        int length =
            snprintf(out->path, sizeof out->path, "%s%s%s", root, unified ? "" : "/", *name);
        char probe[COL_CGROUP_PATH + 32];
        snprintf(probe, sizeof probe, "%s/%s", out->path,
                 unified ? "cgroup.controllers" : "cgroup.procs");
        if (length < 0 || (size_t)length >= sizeof out->path || access(probe, F_OK) != 0)
            continue;
        out->root = (size_t)length;
        out->unified = unified;
        return true;
    }
    return false;
}

bool col_cgroup_find(const char *root, const char *text, const char *controller,
                     struct col_cgroup *out)
{
    size_t length = 0;
    const char *path = *controller ? find_line(text, controller, &length) : NULL;
    bool unified = !path;
    path = path ? path : find_line(text, "", &length);
    if (!path || !find_root(root, controller, unified, out) ||
        out->root + length >= sizeof out->path)
        return false;
    memcpy(out->path + out->root, path, length);
    out->path[out->root + length] = 0;
    if (!strcmp(out->path + out->root, "/"))
        out->path[out->root] = 0;
    while (access(out->path, F_OK) != 0) /* the container does not see the outer part of the path */
        if (!col_cgroup_outer(out))
            return false;
    return true;
}

bool col_cgroup_outer(struct col_cgroup *group)
{
    char *last = strrchr(group->path + group->root, '/');
    if (!last)
        return false;
    *last = 0;
    return true;
}

/* ---- its files ------------------------------------------------------------------------------- */

long col_cgroup_read(const struct col_cgroup *group, const char *file, char *text, size_t size)
{
    char path[COL_CGROUP_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", group->path, file);
    return col_proc_read(path, text, size);
}

/* The number at the start of a file; `absent` if there is none: "max", or no such file. */
static int64_t read_number(const struct col_cgroup *group, const char *file, int64_t absent)
{
    char text[64], *end;
    if (col_cgroup_read(group, file, text, sizeof text) <= 0)
        return absent;
    long long value = strtoll(text, &end, 10);
    return end == text ? absent : (int64_t)value;
}

double col_cgroup_quota(const struct col_cgroup *group)
{
    char text[64];
    double quota = 0, period = 0;
    if (!group->unified) {
        quota = (double)read_number(group, "cpu.cfs_quota_us", -1);
        period = (double)read_number(group, "cpu.cfs_period_us", 0);
    } else if (col_cgroup_read(group, "cpu.max", text, sizeof text) <= 0 ||
               sscanf(text, "%lf %lf", &quota, &period) != 2)
        return 0; /* "max 100000" */
    return quota > 0 && period > 0 ? quota / period : 0;
}

int64_t col_cgroup_memory(const struct col_cgroup *group)
{
    int64_t bytes = read_number(group, group->unified ? "memory.max" : "memory.limit_in_bytes", 0);
    int64_t high = group->unified ? read_number(group, "memory.high", 0) : 0;
    bytes = bytes < UNLIMITED ? bytes : 0;
    return high > 0 && (bytes <= 0 || high < bytes) ? high : bytes;
}

int64_t col_cgroup_memory_limit(const char *root, const char *text, int64_t machine)
{
    struct col_cgroup group;
    int64_t least = machine;
    if (!col_cgroup_find(root, text, "memory", &group))
        return least;
    do {
        int64_t bytes = col_cgroup_memory(&group);
        least = bytes > 0 && bytes < least ? bytes : least;
    } while (col_cgroup_outer(&group));
    return least;
}

int64_t col_cgroup_throttled(const struct col_cgroup *group)
{
    char text[1024];
    if (col_cgroup_read(group, "cpu.stat", text, sizeof text) <= 0)
        return -1;
    int64_t time = col_proc_value(text, group->unified ? "throttled_usec" : "throttled_time");
    return time < 0 || !group->unified ? time : 1000 * time;
}

bool col_pressure_parse(const char *text, struct col_pressure *out)
{
    const char *total = strstr(text, "total=");
    if (strncmp(text, "some ", 5) != 0 || !total)
        return false;
    out->some = 1000 * (int64_t)strtoll(total + 6, NULL, 10);
    const char *full = strstr(text, "\nfull ");
    total = full ? strstr(full, "total=") : NULL;
    out->full = total ? 1000 * (int64_t)strtoll(total + 6, NULL, 10) : -1;
    return true;
}

struct col_cgroup_events col_cgroup_events(const struct col_cgroup *group)
{
    char text[1024];
    struct col_cgroup_events events = {-1, -1};
    if (!group->unified) {
        events.hits = read_number(group, "memory.failcnt", -1);
        if (col_cgroup_read(group, "memory.oom_control", text, sizeof text) > 0)
            events.kills = col_proc_value(text, "oom_kill");
    } else if (col_cgroup_read(group, "memory.events", text, sizeof text) > 0) {
        int64_t high = col_proc_value(text, "high"), most = col_proc_value(text, "max");
        events.hits = (high > 0 ? high : 0) + (most > 0 ? most : 0);
        events.kills = col_proc_value(text, "oom_kill");
    }
    return events;
}
