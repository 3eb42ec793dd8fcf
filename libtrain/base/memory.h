/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: what this process's engine holds, by purpose, now and at its highest.
 *
 * One book a process: every allocation of weight is entered when it is made and taken out when it
 *  is freed, by the code that makes it (lt_arena does so itself). Bytes are those asked from the
 * system, page rounding included. What is not in the book: code, stacks, and what libraries keep
 * for themselves without saying so. Thread-safe; entries are rare, never inside an op.
 */
#ifndef LT_MEMORY_H
#define LT_MEMORY_H

#include <stdint.h>

/* id, name. WORKSPACE: scratch that holds nothing between ops, buffers of communication. LOADER:
 * batches ahead, caches. */
#define LT_MEMORY_MAP(X) \
    X(PARAMETERS, "parameters") \
    X(GRADIENTS, "gradients") \
    X(OPTIMIZER, "optimizer") \
    X(ACTIVATIONS, "activations") \
    X(WORKSPACE, "workspace") \
    X(LOADER, "loader")

#define LT_ENUM_MEMORY(id, name) LT_MEMORY_##id,
enum lt_memory_tag { LT_MEMORY_MAP(LT_ENUM_MEMORY) LT_MEMORY_COUNT };
#undef LT_ENUM_MEMORY

/* Bytes of each purpose and of all together. The peak of the total is that of one instant, so it
 * may be less than the sum of the tags' peaks. */
struct lt_memory {
    int64_t tag[LT_MEMORY_COUNT], total;
    int64_t tag_peak[LT_MEMORY_COUNT], total_peak;
};

/* What a run will hold by a closed form, before anything is allocated: bytes by purpose. */
struct lt_memory_plan {
    uint64_t tag[LT_MEMORY_COUNT];
};

uint64_t lt_memory_plan_total(const struct lt_memory_plan *plan);

/* Enters `bytes` (negative: gives them back). */
void lt_memory_add(enum lt_memory_tag tag, int64_t bytes);

void lt_memory_read(struct lt_memory *out);

/* From now on peaks count from what is held now. */
void lt_memory_reset_peak(void);

const char *lt_memory_name(enum lt_memory_tag tag);

/* What the kernel says of this process, from /proc/self/status, in bytes: resident now (VmRSS), at
 * its highest (VmHWM), and what of `now` are pages of files: code and mapped data (RssFile; 0
 * before Linux 4.5). */
struct lt_resident {
    int64_t now, peak, file;
};

/* 0, or -1 where that file is missing. */
int lt_memory_resident(struct lt_resident *out);

/* Bytes that new allocations can take before the machine has none left: MemAvailable and free swap,
 * as the kernel estimates them. -1: not known. */
int64_t lt_memory_available(void);

#endif
