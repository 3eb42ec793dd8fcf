/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: the arguments of Kineto events that tacho knows, as data.
 * docs/import.md prints this table.
 *
 * use: where it goes. Bits of enum kineto_use: the details it is part of, or what else reads it. 0:
 * known and not kept, because it is different in every event, implied by other columns, or an
 * address.
 */
#ifndef STORE_IMPORT_KINETO_ARGS_H
#define STORE_IMPORT_KINETO_ARGS_H

#include <stddef.h>

enum kineto_use {
    KINETO_USE_OP = 1,      /* torch.op */
    KINETO_USE_COMM = 2,    /* torch.comm */
    KINETO_USE_KERNEL = 4,  /* gpu.kernel */
    KINETO_USE_COPY = 8,    /* gpu.memcpy, gpu.memset */
    KINETO_USE_SYNC = 16,   /* gpu.sync */
    KINETO_USE_MEMORY = 32, /* [memory] events */
    KINETO_USE_ROW = 64,    /* a column of the slice or its track */
};

/* name, text in the trace, use, key in the payload (NULL: a column of detail, or treated by hand)
 */
#define KINETO_ARG_MAP(X) \
    X(CORRELATION, "correlation", KINETO_USE_ROW, NULL) \
    X(DEVICE, "device", KINETO_USE_ROW, NULL) \
    X(STREAM, "stream", KINETO_USE_ROW | KINETO_USE_OP | KINETO_USE_SYNC, "stream") \
    X(STREAM_ID, "stream_id", KINETO_USE_ROW, NULL) \
    X(SEQUENCE, "Sequence number", KINETO_USE_ROW, NULL) \
    X(FWD_THREAD, "Fwd thread id", KINETO_USE_ROW, NULL) \
    X(INPUT_DIMS, "Input Dims", KINETO_USE_OP, "shapes") \
    X(INPUT_DIMS_OLD, "Input dims", KINETO_USE_OP, "shapes") \
    X(INPUT_TYPE, "Input type", KINETO_USE_OP, "types") \
    X(INPUT_STRIDES, "Input Strides", KINETO_USE_OP, "strides") \
    X(CONCRETE_INPUTS, "Concrete Inputs", KINETO_USE_OP, "concrete") \
    X(CALL_STACK, "Call stack", KINETO_USE_OP, "stack") \
    X(MODULE_ID, "Python module id", KINETO_USE_OP, "module_id") \
    X(MODULE_HIERARCHY, "Module Hierarchy", KINETO_USE_OP, "module") \
    X(STEP_NUM, "step_num", KINETO_USE_OP, NULL) \
    X(KERNEL_FILE, "kernel_file", KINETO_USE_OP, "kernel_file") \
    X(KERNEL_BACKEND, "kernel_backend", KINETO_USE_OP, "kernel_backend") \
    X(COLLECTIVE, "Collective name", KINETO_USE_COMM, NULL) \
    X(DTYPE, "dtype", KINETO_USE_COMM, NULL) \
    X(IN_ELEMENTS, "In msg nelems", KINETO_USE_COMM, "in_elements") \
    X(OUT_ELEMENTS, "Out msg nelems", KINETO_USE_COMM, "out_elements") \
    X(IN_SPLIT, "In split size", KINETO_USE_COMM, "in_split") \
    X(OUT_SPLIT, "Out split size", KINETO_USE_COMM, "out_split") \
    X(GROUP_SIZE, "Group size", KINETO_USE_COMM, NULL) \
    X(GROUP_NAME, "Process Group Name", KINETO_USE_COMM, "group") \
    X(GROUP_ID, "Process Group ID", KINETO_USE_COMM, NULL) \
    X(GROUP_DESCRIPTION, "Process Group Description", KINETO_USE_COMM, "group_description") \
    X(GROUP_RANKS, "Process Group Ranks", KINETO_USE_COMM, "group_ranks") \
    X(COMM_SEQUENCE, "Seq", KINETO_USE_COMM, "sequence") \
    X(SRC_RANK, "Src Rank", KINETO_USE_COMM, "peer") \
    X(DST_RANK, "Dst Rank", KINETO_USE_COMM, "peer") \
    X(COMM_ASYNC, "Is asynchronized op", KINETO_USE_COMM, "async") \
    X(REGISTERS, "registers per thread", KINETO_USE_KERNEL, "registers") \
    X(SHARED_MEMORY, "shared memory", KINETO_USE_KERNEL, "shared_memory") \
    X(BLOCKS_PER_SM, "blocks per SM", KINETO_USE_KERNEL, "blocks_per_sm") \
    X(WARPS_PER_SM, "warps per SM", KINETO_USE_KERNEL, "warps_per_sm") \
    X(OCCUPANCY, "est. achieved occupancy %", KINETO_USE_KERNEL, "occupancy_pct") \
    X(PRIORITY, "priority", KINETO_USE_KERNEL, "priority") \
    X(GRID, "grid", KINETO_USE_KERNEL, NULL) \
    X(BLOCK, "block", KINETO_USE_KERNEL, NULL) \
    X(GRAPH, "graph id", KINETO_USE_KERNEL | KINETO_USE_COPY, "graph") \
    X(GRAPH_NODE, "graph node id", KINETO_USE_KERNEL | KINETO_USE_COPY, "graph_node") \
    X(BYTES, "bytes", KINETO_USE_COPY, NULL) \
    X(SIZE, "size", KINETO_USE_COPY, NULL) \
    X(KIND, "kind", KINETO_USE_COPY, NULL) \
    X(SYNC_KIND, "cuda_sync_kind", KINETO_USE_SYNC, "kind") \
    X(SYNC_STREAM, "wait_on_stream", KINETO_USE_SYNC, "stream") \
    X(SYNC_EVENT, "wait_on_cuda_event_id", KINETO_USE_SYNC, "event") \
    X(SYNC_RECORD, "wait_on_cuda_event_record_corr_id", KINETO_USE_SYNC, "record_correlation") \
    X(MEMORY_BYTES, "Bytes", KINETO_USE_MEMORY, NULL) \
    X(MEMORY_ALLOCATED, "Total Allocated", KINETO_USE_ROW, NULL) \
    X(MEMORY_RESERVED, "Total Reserved", KINETO_USE_ROW, NULL) \
    X(MEMORY_DEVICE, "Device Id", KINETO_USE_ROW, NULL) \
    X(MEMORY_DEVICE_TYPE, "Device Type", KINETO_USE_ROW, NULL) \
    X(META_NAME, "name", KINETO_USE_ROW, NULL) \
    X(META_LABELS, "labels", 0, NULL) \
    X(META_SORT, "sort_index", 0, NULL) \
    X(EXTERNAL_ID, "External id", 0, NULL) \
    X(EXTERNAL_ID_OLD, "external id", 0, NULL) \
    X(EXTERNAL_TS, "external ts", 0, NULL) \
    X(EVENT_INDEX, "Ev Idx", 0, NULL) \
    X(RECORD_FUNCTION, "Record function id", 0, NULL) \
    X(PYTHON_ID, "Python id", 0, NULL) \
    X(PYTHON_PARENT, "Python parent id", 0, NULL) \
    X(TRACE_NAME, "Trace name", 0, NULL) \
    X(TRACE_ITERATION, "Trace iteration", 0, NULL) \
    X(PROFILER_INDEX, "Profiler Event Index", 0, NULL) \
    X(OP_PID, "Device", 0, NULL) \
    X(OP_COUNT, "Op count", 0, NULL) \
    X(CBID, "cbid", 0, NULL) \
    X(CID, "cid", 0, NULL) \
    X(CONTEXT, "context", 0, NULL) \
    X(QUEUED, "queued", 0, NULL) \
    X(BANDWIDTH, "memory bandwidth (GB/s)", 0, NULL) \
    X(SRC, "src", 0, NULL) \
    X(DST, "dst", 0, NULL) \
    X(PTR, "ptr", 0, NULL) \
    X(ADDR, "Addr", 0, NULL) \
    X(KERNEL, "kernel", 0, NULL) \
    X(GROUP_RANK, "Rank", 0, NULL) \
    X(GLOBAL_START, "Global rank start", 0, NULL) \
    X(GLOBAL_STRIDE, "Global rank stride", 0, NULL)

enum kineto_arg {
#define KINETO_ARG_ENUM(name, text, use, key) KINETO_ARG_##name,
    KINETO_ARG_MAP(KINETO_ARG_ENUM)
#undef KINETO_ARG_ENUM
        KINETO_ARG_OTHER
};

#ifdef __cplusplus
extern "C" {
#endif
/* The argument of a key; KINETO_ARG_OTHER: it is not in the table. */
enum kineto_arg kineto_arg_find(const char *key, size_t bytes);
/* Its row. */
unsigned kineto_arg_use(enum kineto_arg arg);
const char *kineto_arg_key(enum kineto_arg arg);
#ifdef __cplusplus
}
#endif

#endif
