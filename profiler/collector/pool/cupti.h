/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes CUPTI activity records outside of the process that recorded them, CUDA 11.0 to 13.x,
 * without any header or library of CUPTI's.
 *
 * Records grew at their end from version to version; every field that is read here has kept its
 * place since it appeared. A field beyond the end of a record is absent. The size of a record is
 * what the agent saw when it stepped over such records with the CUPTI that wrote them, else it
 * comes from the table of versions (col_cupti_bytes).
 *
 *     field read                             at      in records of (bytes)    since CUDA
 *     kernel: start, end, device ... name    16-111  Kernel5 160              11.0
 *     kernel: graph node                     144     Kernel5 160              11.0
 *     kernel: graph                          156     Kernel7 176              11.6
 *     copy, set: start, end ... correlation  16-47   Memcpy4 80, Memset3 80   11.1 (72 before)
 *     copy, set: graph node, graph           64, 72  Memcpy3 72 has the node  11.0, 11.1
 *     peer copy: correlation                 60      MemcpyPtoP2 80           11.0
 *     event record: device, time             24, 40  CudaEvent2 56            12.8 (24 before)
 *     synchronisation: event's record        40      Synchronization2 56      12.8 (40 before)
 *     synchronisation: result                48      Synchronization2 56      12.8
 *     graph as a whole                       8-39    GraphTrace 48            11.7
 *
 * Other sizes: Kernel6 168 (11.2), Kernel8 200 (11.8), Kernel9 208 (12.0), Kernel10 216 (13.0),
 * Kernel11 224 (13.1), Kernel12 232 (13.3), Kernel13 248 (13.4), Memcpy7 112 and Memset5 104
 * (13.4), CudaEvent3 80 (13.5), GraphTrace2 56 (12.3).
 */
#ifndef COL_CUPTI_H
#define COL_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum col_cupti_kind {
    COL_CUPTI_MEMCPY = 1,
    COL_CUPTI_MEMSET = 2,
    COL_CUPTI_KERNEL = 3, /* serialised kernels: never asked for, but the same record */
    COL_CUPTI_DRIVER = 4,
    COL_CUPTI_RUNTIME = 5,
    COL_CUPTI_DEVICE = 8,
    COL_CUPTI_CONTEXT = 9,
    COL_CUPTI_CONCURRENT_KERNEL = 10,
    COL_CUPTI_OVERHEAD = 17,
    COL_CUPTI_MEMCPY2 = 22,
    COL_CUPTI_EVENT = 36,
    COL_CUPTI_STREAM = 37,
    COL_CUPTI_SYNC = 38,
    COL_CUPTI_MEMORY2 = 49,
    COL_CUPTI_GRAPH = 51,
    COL_CUPTI_HOST_NODE = 56,   /* a function of the host in a graph, from 13.1 on */
    COL_CUPTI_HOST_LAUNCH = 58, /* a function of the host on a stream, from 13.1 on */
    COL_CUPTI_KINDS = 64
};
/* In place of a kind, where the records end in a buffer that CUPTI has not given back. */
#define COL_CUPTI_END 0x7fffffffu
/* In the kind of a record that CUPTI has begun and not ended: kernels that ran when a process was
 * killed (CUPTI 13.0.1, on an H200). */
#define COL_CUPTI_BEGUN 0x80000000u

/* One record, whatever its kind. STORE_ABSENT in what it does not have. Times are CUPTI's own. */
struct col_cupti_record {
    uint32_t kind, bytes; /* of the record in the buffer */
    const uint8_t *raw;
    uint64_t start, end;
    int64_t device, context, stream, correlation, thread;
    uint64_t name; /* kernels and devices: as the agent left it, WIRE_GPU_NAME_TAG | arena id */
    uint32_t grid[3], block[3];
    int64_t registers, static_shared, dynamic_shared;
    int64_t graph, graph_node;
    int64_t size; /* bytes copied, set or allocated */
    uint32_t copy_kind, source_kind, target_kind;
    int64_t cbid;
    int64_t sync_kind, event;
    uint32_t result;                    /* of a synchronisation, 0 = success */
    int64_t event_record;               /* which record of the event is waited for */
    int64_t priority;                   /* of a stream */
    int64_t operation;                  /* of memory: 1 allocated, 2 released */
    int64_t object_kind, object_thread; /* of overhead */
    /* of a device */
    struct {
        int64_t id, sms, memory, major, minor, warp, warps_per_sm;
        uint8_t uuid[16];
        bool mig; /* the rest is of a slice of a device (MIG) */
        int64_t instance, compute_instance;
        uint8_t mig_uuid[16];
    } gpu;
};

/* Bytes of records by kind, 0 = unknown: `version` as cuptiGetVersion counts (13 = CUDA 11.0 ...
 * 130001 = 13.0 update 1). Nothing is known of version 0 (CUPTI did not say) and of versions after
 * 13.5: there only records of which the agent saw the size are read. */
void col_cupti_bytes(uint32_t version, uint32_t bytes[COL_CUPTI_KINDS]);

/* Takes apart the record at buffer + *offset and steps over it. 1: a record; 0: nothing more (the
 * end, CUPTI's mark of it, or a record that is not complete); -1: not a record, or of a kind whose
 * size is not known: nothing after it can be read. */
int col_cupti_next(const uint32_t bytes[COL_CUPTI_KINDS], const uint8_t *buffer, size_t valid,
                   size_t *offset, struct col_cupti_record *record);

#endif
