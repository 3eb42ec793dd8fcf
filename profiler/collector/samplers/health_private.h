/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to samplers/: the parts of health.h: links (health_links.c), logs (health_logs.c).
 */
#ifndef COL_HEALTH_PRIVATE_H
#define COL_HEALTH_PRIVATE_H

#include "profiler/collector/samplers/health.h"

#define HEALTH_PATH   384
#define HEALTH_DEVICE 40
#define HEALTH_CPUS   4096

enum health_metric {
    HEALTH_PCIE_WIDTH,
    HEALTH_PCIE_SPEED,
    HEALTH_LINK_RATE,    /* Gb/s in the file */
    HEALTH_NETWORK_SPEED /* Mb/s in the file; the same track */
};

/* A file with one value. */
struct health_source {
    enum health_metric metric;
    char path[HEALTH_PATH], device[HEALTH_DEVICE];
    int64_t track;
    double written; /* NAN: nothing yet */
};

struct health_nodes {
    int16_t of_cpu[HEALTH_CPUS]; /* -1: not known */
    unsigned count;
    int64_t track;
    double written;
};

/* A device whose errors the kernel's log had. */
struct health_faulty {
    char device[HEALTH_DEVICE];
    int64_t track;
};

/* The log of NCCL of a process: what was not read yet begins at `offset`. */
struct health_nccl {
    char path[HEALTH_PATH]; /* "": it writes none */
    int64_t offset;
    int network; /* 0: not said yet */
};

struct health_process {
    int64_t row, node_track, network_track;
    int32_t pid;
    bool seen, has_environment;
    int written; /* network; 0: none yet */
    struct health_nccl nccl;
};

struct col_health {
    struct col_health_roots roots;
    int64_t next; /* look, ns */
    struct health_source *source;
    size_t source_count, source_room;
    struct health_nodes nodes;
    int log_fd;
    const char *log_status;
    bool log_reported;
    struct health_faulty *faulty;
    size_t faulty_count, faulty_room;
    struct health_process *process;
    size_t process_count, process_room;
};

typedef int health_put(void *ctx, const struct col_health_value *value);

/* Finds links and nodes. 0 or TACHO_ENOMEM. */
int health_find_links(struct col_health *health);
int health_look_links(struct col_health *health, health_put *put, void *ctx);
/* The node of a CPU; -1: not known. */
int health_node_of(const struct health_nodes *nodes, int64_t cpu);

/* Opens the kernel's log at its end. */
void health_open_log(struct col_health *health);
int health_look_log(struct col_health *health, health_put *put, void *ctx);
/* Finds the log of NCCL that a process writes, by its environment. */
void health_find_nccl(const struct col_health *health, struct health_process *process);
/* Reads what was appended. */
void health_read_nccl(struct health_nccl *nccl);

#endif
