/* SPDX-License-Identifier: Apache-2.0
 *
 * Links and NUMA nodes, as /sys shows them.
 */
#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/list.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/samplers/health_private.h"

#define SOURCES_MOST 256

static const struct {
    const char *name, *unit;
    double factor;
} metrics[] = {[HEALTH_PCIE_WIDTH] = {"pcie_width", "lanes", 1},
               [HEALTH_PCIE_SPEED] = {"pcie_speed", "GT/s", 1},
               [HEALTH_LINK_RATE] = {"link_rate", "Gb/s", 1},
               [HEALTH_NETWORK_SPEED] = {"link_rate", "Gb/s", 1e-3}};

/* The number at the beginning of a file; NAN: none ("Unknown"), or one that says "not known". */
static double read_number(const char *path)
{
    char text[128], *end;
    long length = col_proc_read(path, text, sizeof text);
    double value = length > 0 ? strtod(text, &end) : NAN;
    return length > 0 && end != text && value > 0 && value < 1e9 ? value : NAN;
}

/* Adds a file, if it has a value now. */
static int add_source(struct col_health *health, enum health_metric metric, const char *path,
                      const char *device)
{
    if (isnan(read_number(path)) || health->source_count == SOURCES_MOST)
        return 0;
    struct health_source *list =
        col_list_room(health->source, &health->source_room, health->source_count + 1, sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    health->source = list;
    struct health_source *source = &list[health->source_count++];
    *source = (struct health_source){.metric = metric, .written = NAN};
    snprintf(source->path, sizeof source->path, "%s", path);
    snprintf(source->device, sizeof source->device, "%s", device);
    return 0;
}

/* Calls `each` with the names in a folder, those that begin with a dot excluded. */
static int each_name(const char *folder, int (*each)(struct col_health *health, const char *name),
                     struct col_health *health)
{
    int rc = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && !rc && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < 64)
            rc = each(health, entry->d_name);
    if (dir)
        closedir(dir);
    return rc;
}

/* A device on the bus: network cards (class 02), displays and accelerators (03, 12). */
static int add_pci(struct col_health *health, const char *name)
{
    char path[HEALTH_PATH], text[32], device[72];
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/class", health->roots.sys, name);
    long length = col_proc_read(path, text, sizeof text);
    unsigned long class = length > 0 ? strtoul(text, NULL, 16) >> 16 : 0;
    if (class != 0x02 && class != 0x03 && class != 0x12)
        return 0;
    snprintf(device, sizeof device, "pci:%s", name);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/current_link_width", health->roots.sys,
             name);
    int rc = add_source(health, HEALTH_PCIE_WIDTH, path, device);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/current_link_speed", health->roots.sys,
             name);
    return rc ? rc : add_source(health, HEALTH_PCIE_SPEED, path, device);
}

/* The ports of a host channel adapter are numbered from 1. */
static int add_adapter(struct col_health *health, const char *name)
{
    int rc = 0;
    for (int port = 1; port <= 8 && !rc; port++) {
        char path[HEALTH_PATH], device[80];
        snprintf(path, sizeof path, "%s/class/infiniband/%s/ports/%d/rate", health->roots.sys, name,
                 port);
        snprintf(device, sizeof device, "%s/%d", name, port);
        rc = add_source(health, HEALTH_LINK_RATE, path, device);
    }
    return rc;
}

/* A network card: interfaces without a device (bridges, tunnels) have no link. */
static int add_network(struct col_health *health, const char *name)
{
    char path[HEALTH_PATH];
    snprintf(path, sizeof path, "%s/class/net/%s/device", health->roots.sys, name);
    if (access(path, F_OK))
        return 0;
    snprintf(path, sizeof path, "%s/class/net/%s/speed", health->roots.sys, name);
    return add_source(health, HEALTH_NETWORK_SPEED, path, name);
}

/* A NUMA node and its CPUs: "0-3,8". */
static int add_node(struct col_health *health, const char *name)
{
    char path[HEALTH_PATH], text[4096];
    if (strncmp(name, "node", 4) != 0 || !isdigit((unsigned char)name[4]))
        return 0;
    snprintf(path, sizeof path, "%s/devices/system/node/%s/cpulist", health->roots.sys, name);
    long length = col_proc_read(path, text, sizeof text);
    health->nodes.count++;
    for (char *cursor = text, *end; length > 0 && isdigit((unsigned char)*cursor); cursor = end) {
        long first = strtol(cursor, &end, 10),
             last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu >= 0 && cpu <= last && cpu < HEALTH_CPUS; cpu++)
            health->nodes.of_cpu[cpu] = (int16_t)strtol(name + 4, NULL, 10);
        end += *end == ',';
    }
    return 0;
}

int health_node_of(const struct health_nodes *nodes, int64_t cpu)
{
    return cpu >= 0 && cpu < HEALTH_CPUS ? nodes->of_cpu[cpu] : -1;
}

int health_find_links(struct col_health *health)
{
    static const struct {
        const char *below;
        int (*add)(struct col_health *health, const char *name);
    } folders[] = {{"bus/pci/devices", add_pci},
                   {"class/infiniband", add_adapter},
                   {"class/net", add_network},
                   {"devices/system/node", add_node}};
    char path[HEALTH_PATH];
    int rc = 0;
    memset(health->nodes.of_cpu, 0xff, sizeof health->nodes.of_cpu);
    health->nodes.written = NAN;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !rc; i++) {
        snprintf(path, sizeof path, "%s/%s", health->roots.sys, folders[i].below);
        rc = each_name(path, folders[i].add, health);
    }
    return rc;
}

/* Pages that each node gave to processes of another one, added up; NAN: not said. */
static double other_node(const struct col_health *health)
{
    double sum = NAN;
    for (unsigned node = 0; node < health->nodes.count; node++) {
        char path[HEALTH_PATH], text[512];
        snprintf(path, sizeof path, "%s/devices/system/node/node%u/numastat", health->roots.sys,
                 node);
        long length = col_proc_read(path, text, sizeof text);
        int64_t pages = length > 0 ? col_proc_value(text, "other_node") : -1;
        if (pages >= 0)
            sum = (isnan(sum) ? 0 : sum) + (double)pages;
    }
    return sum;
}

int health_look_links(struct col_health *health, health_put *put, void *ctx)
{
    int rc = 0;
    for (size_t i = 0; i < health->source_count && !rc; i++) {
        struct health_source *source = &health->source[i];
        struct col_health_value value = {.process = STORE_ABSENT,
                                         .name = metrics[source->metric].name,
                                         .unit = metrics[source->metric].unit,
                                         .device = source->device,
                                         .value = read_number(source->path) *
                                                  metrics[source->metric].factor,
                                         .track = &source->track};
        if (isnan(value.value) || fabs(value.value - source->written) < 1e-9)
            continue;
        source->written = value.value;
        rc = put(ctx, &value);
    }
    double pages = health->nodes.count > 1 && !rc ? other_node(health) : NAN;
    if (isnan(pages))
        return rc;
    health->nodes.written = pages;
    return put(ctx, &(struct col_health_value){.process = STORE_ABSENT,
                                               .name = "numa_other_node",
                                               .unit = "pages",
                                               .value = pages,
                                               .track = &health->nodes.track});
}
