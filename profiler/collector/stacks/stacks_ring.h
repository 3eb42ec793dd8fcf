/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's samples of a process and all its descendants, and its records of what they map and
 * start (perf_event_open(2)): an event and a ring for each CPU, read as one stream in the order of
 * time.
 */
#ifndef COL_STACKS_RING_H
#define COL_STACKS_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Frames that the kernel follows by frame pointers: its own limit. */
#define COL_STACKS_CHAIN 127u

struct ring {
    int fd, cpu;
    struct perf_event_mmap_page *page;
    const uint8_t *data;
    uint64_t bytes;
    uint64_t head, tail; /* of this turn */
    uint64_t time;       /* of the record at the tail; UINT64_MAX: the ring is empty */
};

struct col_rings {
    int hz;
    unsigned stack_bytes; /* of the user's stack and registers with each sample; 0: neither */
    bool kernel;          /* time in the kernel too */
    struct ring *ring;
    size_t count, current;
    int *fd; /* events that write into a ring of another one */
    size_t fds;
    uint8_t record[UINT16_MAX + 1];
};

/* Registers that come with a sample, in the order of PERF_REG_X86_*: ax bx cx dx si di bp sp ip, r8
 * ... r15. */
#define COL_RINGS_REGISTERS 17

/* Begins with the next exec of pid; 0: at once, of the calling thread. hz, stack_bytes and kernel
 * are set. 0 or an errno; then everything is closed. */
int col_rings_open(struct col_rings *rings, pid_t pid);
/* Another process too, from its next exec on. */
void col_rings_add(struct col_rings *rings, pid_t pid);
void col_rings_close(struct col_rings *rings);

/* Notes how far each ring has been written. */
void col_rings_look(struct col_rings *rings);
/* The oldest record that is older than `before`; NULL: none. Valid until col_rings_taken. */
const uint8_t *col_rings_next(struct col_rings *rings, uint64_t before, uint64_t *time);
void col_rings_taken(struct col_rings *rings);

#endif
