/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fleet costs: samples of simulated nodes, one run over all of them, 8 ranks a node. Rows
 * for run.sh: series a node and of the fleet, bytes and time of a scrape, time and memory of `tacho
 * watch --fleet`. usage: fleet [NODES [FOLDER]]    with FOLDER: also writes
 * FOLDER/nodeNNNNN/metrics for a server
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "monitor/export/export.h"
#include "monitor/fleet/fleet.h"

#define RANKS 8
#define RUNS  4 /* that share the nodes */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Samples of the families whose labels beyond `run` are these, one for each of `count` values. */
static void add_families(struct mon_metrics *metrics, const char *labels, const char *name,
                         const char *const *values, size_t count, size_t node)
{
    static struct mon_histogram histogram;
    for (size_t i = 0; i < MON_FAMILY_COUNT; i++) {
        enum mon_family family = (enum mon_family)i;
        const struct mon_family_kind *kind = mon_family_kind(family);
        if (strcmp(kind->labels, labels))
            continue;
        for (size_t j = 0; j < count; j++) {
            struct mon_metric *metric =
                kind->type == MON_TYPE_HISTOGRAM
                    ? mon_metric_add_histogram(metrics, family, &histogram)
                    : mon_metric_add(metrics, family, 0.5 + 0.001 * (double)(node % 10));
            if (values)
                mon_metric_label(metric, name, values[j]);
        }
    }
}

/* All that a watch of a node can export: every family, all objectives, a burn rate for each pair of
 * windows, an alert of each severity. */
static void fill(struct mon_metrics *metrics, size_t node)
{
    static const char *const phases[] = {"compute",        "communication", "data wait",
                                         "checkpoint",     "evaluation",    "garbage collection",
                                         "other host work"};
    static const char *const slos[] = {"step_time", "goodput",     "health",     "checkpoint_age",
                                       "data_wait", "loss_health", "stragglers", "mfu"};
    static const char *const windows[] = {"3600s", "21600s", "86400s", "259200s"};
    char run[32], text[RANKS][24];
    const char *ranks[RANKS];
    mon_metrics_begin(metrics, 1700000000000000000);
    snprintf(run, sizeof run, "run-%zu", node % RUNS);
    mon_metrics_label(metrics, "run", run);
    for (size_t i = 0; i < RANKS; i++) {
        snprintf(text[i], sizeof text[i], "%zu", node / RUNS * RANKS + i);
        ranks[i] = text[i];
    }
    add_families(metrics, "", NULL, NULL, 1, node);
    add_families(metrics, "host program version", "host", ranks, 1, node);
    add_families(metrics, "phase", "phase", phases, 7, node);
    add_families(metrics, "slo", "slo", slos, 8, node);
    for (size_t i = 0; i < 32; i++) {
        struct mon_metric *burn = mon_metric_add(metrics, MON_FAMILY_SLO_BURN, 0.1);
        mon_metric_label(burn, "slo", slos[i / 4]);
        mon_metric_label(burn, "window", windows[i % 4]);
    }
    add_families(metrics, "code severity", "severity", (const char *const[]){"page", "ticket"}, 2,
                 node);
    add_families(metrics, "rank", "rank", ranks, RANKS, node);
    add_families(metrics, "rank device", "device", ranks, RANKS, node);
}

/* Lines of a text that are samples: the series that a scrape makes. */
static size_t count_series(const char *text)
{
    size_t series = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        series += *text != '#';
    return series;
}

static void write_page(const char *folder, size_t node, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/node%05zu", folder, node);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/node%05zu/metrics", folder, node);
    FILE *out = fopen(path, "w");
    if (!out || fputs(text, out) < 0 || fclose(out)) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    size_t nodes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, series = 0, bytes = 0;
    struct mon_metrics metrics;
    struct mon_fleet fleet = {.node = calloc(nodes, sizeof *fleet.node)};
    struct rusage usage;
    double write_s = 0, read_s = 0;
    mon_metrics_init(&metrics, MON_METRICS_MOST, 0);
    for (size_t i = 0; i < nodes; i++) {
        char *text, target[64];
        size_t size;
        double begun = now_s();
        fill(&metrics, i);
        FILE *out = open_memstream(&text, &size);
        mon_text_write(&metrics, MON_PROMETHEUS, out);
        fclose(out);
        write_s += now_s() - begun;
        snprintf(target, sizeof target, "node%05zu:9464", i);
        fleet.node[fleet.node_count++].target = strdup(target);
        begun = now_s();
        if (mon_fleet_add(&fleet, i, text))
            return 1;
        read_s += now_s() - begun;
        series += count_series(text);
        bytes += size;
        if (argc > 2)
            write_page(argv[2], i, text);
        free(text);
    }
    getrusage(RUSAGE_SELF, &usage);
    size_t a_node = nodes ? series / nodes : 0;
    printf("series a node, %d ranks\t%zu\t<= 300\t%s\n", RANKS, a_node,
           a_node <= 300 ? "ok" : "OVER");
    printf("series of %zu nodes\t%zu, %zu KiB a scrape\t<= %zu\t%s\n", nodes, series,
           nodes ? bytes / nodes / 1024 : 0, 300 * nodes, series <= 300 * nodes ? "ok" : "OVER");
    printf("samples to text, a node\t%.3f ms\t<= 20 ms\t%s\n", 1e3 * write_s / (double)nodes,
           write_s <= 20e-3 * (double)nodes ? "ok" : "OVER");
    printf("text to table, %zu nodes\t%.0f ms, %ld MiB\t<= 1 s\t%s\n", nodes, 1e3 * read_s,
           usage.ru_maxrss / 1024, read_s <= 1e-3 * (double)nodes ? "ok" : "OVER");
    bool whole = fleet.run_count == (nodes < RUNS ? nodes : RUNS) && fleet.ranks == nodes * RANKS &&
                 !fleet.ranks_dropped && !metrics.dropped;
    mon_fleet_free(&fleet);
    mon_metrics_free(&metrics);
    return whole && series <= 300 * nodes ? 0 : 1;
}
