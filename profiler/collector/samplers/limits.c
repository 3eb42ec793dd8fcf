/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/samplers/limits.h"

#include <string.h>

/* Finds the groups with a quota, from the innermost one outwards. */
static void find_cpu(const char *root, const char *text, struct col_limits *out)
{
    struct col_cgroup group;
    out->has_cpu = col_cgroup_find(root, text, "cpu", &group);
    if (!out->has_cpu)
        return;
    do {
        double quota = col_cgroup_quota(&group);
        if (quota <= 0 || out->cpu_count == COL_LIMITS_LEVELS)
            continue;
        out->cpu[out->cpu_count++] = group;
        out->quota = out->quota <= 0 || quota < out->quota ? quota : out->quota;
    } while (col_cgroup_outer(&group));
}

static void find_memory(const char *root, const char *text, struct col_limits *out)
{
    struct col_cgroup group;
    if (!col_cgroup_find(root, text, "memory", &group))
        return;
    do {
        int64_t bytes = col_cgroup_memory(&group);
        if (bytes <= 0 || (out->memory_bytes && bytes >= out->memory_bytes))
            continue;
        out->memory = group;
        out->memory_bytes = bytes;
    } while (col_cgroup_outer(&group));
}

void col_limits_find(const char *root, const char *text, struct col_limits *out)
{
    memset(out, 0, sizeof *out);
    find_cpu(root, text, out);
    find_memory(root, text, out);
    /* The outermost group is the machine, which is sampled on its own. */
    out->has_tasks =
        col_cgroup_find(root, text, "", &out->tasks) && out->tasks.path[out->tasks.root] == '/';
}

int64_t col_limits_throttled(const struct col_limits *limits)
{
    int64_t sum = limits->cpu_count ? 0 : -1;
    for (unsigned i = 0; i < limits->cpu_count; i++) {
        int64_t time = col_cgroup_throttled(&limits->cpu[i]);
        if (time < 0)
            return -1;
        sum += time;
    }
    return sum;
}
