/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults that make a run slow or stop it, and that no counter of work shows: links that run
 * narrower or slower than before, errors of devices in the kernel's log, NCCL that uses sockets, a
 * process that moved to another NUMA node.
 *
 * Once a second; a value is written when it is another one than before. Tracks of the machine:
 * pcie_width (lanes) and pcie_speed (GT/s a lane) of network cards and accelerators
 * ("pci:ADDRESS"), link_rate (Gb/s) of the ports of host channel adapters ("mlx5_0/1") and of
 * network cards
 * ("eth0"), gpu_xid (the number of an Xid of NVIDIA's driver, where the kernel's log may be read;
 * run key health.kernel_log says whether it may), numa_other_node (pages that a NUMA node gave to
 * processes of another one, since the machine was started). Of a process: numa_node (of the CPU
 * that its first thread ran on last), nccl_network (2: RDMA or a plugin, 1: sockets; from the file
 * that NCCL_DEBUG_FILE in its environment names). Where there is one NUMA node only, the tracks of
 * NUMA are not made.
 */
#ifndef COL_HEALTH_H
#define COL_HEALTH_H

#include "profiler/collector/drain/drain.h"

struct col_health;

/* Where the files are: "/sys", "/proc", "/dev/kmsg"; elsewhere in tests. */
struct col_health_roots {
    const char *sys, *proc, *kernel_log;
};
/* Finds what there is to look at. NULL: no memory. The texts of `roots` stay valid. */
struct col_health *col_health_open(const struct col_health_roots *roots);
/* Takes a sample if the last one is a second old; writes into the open transaction of the drain. 0
 * or a store error. */
int col_health_sample(struct col_health *health, struct col_drain *drain);
/* The store was rolled back: rows written so far may be gone. */
void col_health_reset(struct col_health *health);
void col_health_close(struct col_health *health);

/* ---- without a store, for tests --------------------------------------------------------------- */

struct col_health_process {
    int64_t row;
    int32_t pid;
};
struct col_health_value {
    int64_t process; /* row; STORE_ABSENT: of the machine */
    const char *name, *unit, *device;
    double value;
    int64_t *track; /* 0: not made yet; kept for the next call */
};
/* Looks at everything; calls `put` for each value that changed, until that is not 0, which is
 * returned. */
int col_health_look(struct col_health *health, const struct col_health_process *process,
                    size_t count, int (*put)(void *ctx, const struct col_health_value *value),
                    void *ctx);
/* May the kernel's log be read? "ok", or why not. */
const char *col_health_kernel_log(const struct col_health *health);

#endif
