/* SPDX-License-Identifier: Apache-2.0
 *
 * Activity records of CUPTI, taken apart by the offsets of their fields. A table has the size of
 * each kind by version; one small function for each kind reads its fields. A field that lies beyond
 * the end of an older, shorter record reads as absent, so the same function serves all versions.
 */
#include "profiler/collector/pool/cupti.h"

#include <stdbool.h>
#include <string.h>

#include "store/store.h"

/* ---- sizes by version ------------------------------------------------------------------------------------------------------ */

/* kind, first version, bytes. Of the rows of a kind the last one that applies counts. 18 is 11.8
 * and 12.0, whose kernels differ: not known. */
static const struct {
    uint32_t kind, since, bytes;
} size_table[] = {
    {COL_CUPTI_MEMCPY, 13, 72},
    {COL_CUPTI_MEMCPY, 14, 80},
    {COL_CUPTI_MEMCPY, 17, 88},
    {COL_CUPTI_MEMCPY, 26, 96},
    {COL_CUPTI_MEMCPY, 130400, 112},
    {COL_CUPTI_MEMSET, 13, 72},
    {COL_CUPTI_MEMSET, 14, 80},
    {COL_CUPTI_MEMSET, 17, 88},
    {COL_CUPTI_MEMSET, 130400, 104},
    {COL_CUPTI_KERNEL, 13, 160},
    {COL_CUPTI_KERNEL, 15, 168},
    {COL_CUPTI_KERNEL, 17, 176},
    {COL_CUPTI_KERNEL, 18, 0},
    {COL_CUPTI_KERNEL, 19, 208},
    {COL_CUPTI_KERNEL, 130000, 216},
    {COL_CUPTI_KERNEL, 130100, 224},
    {COL_CUPTI_KERNEL, 130300, 232},
    {COL_CUPTI_KERNEL, 130400, 248},
    {COL_CUPTI_DRIVER, 13, 40},
    {COL_CUPTI_RUNTIME, 13, 40},
    {COL_CUPTI_DEVICE, 13, 152},
    {COL_CUPTI_DEVICE, 17, 176},
    {COL_CUPTI_DEVICE, 21, 184},
    {COL_CUPTI_DEVICE, 130200, 192},
    {COL_CUPTI_CONTEXT, 13, 16},
    {COL_CUPTI_CONTEXT, 22, 24},
    {COL_CUPTI_CONTEXT, 24, 32},
    {COL_CUPTI_CONTEXT, 130100, 40},
    {COL_CUPTI_OVERHEAD, 13, 40},
    {COL_CUPTI_OVERHEAD, 20, 48},
    {COL_CUPTI_OVERHEAD, 22, 56},
    {COL_CUPTI_MEMCPY2, 13, 80},
    {COL_CUPTI_MEMCPY2, 14, 88},
    {COL_CUPTI_MEMCPY2, 17, 96},
    {COL_CUPTI_EVENT, 13, 24},
    {COL_CUPTI_EVENT, 26, 56},
    {COL_CUPTI_EVENT, 130500, 80},
    {COL_CUPTI_STREAM, 13, 24},
    {COL_CUPTI_SYNC, 13, 40},
    {COL_CUPTI_SYNC, 26, 56},
    {COL_CUPTI_MEMORY2, 13, 112},
    {COL_CUPTI_MEMORY2, 16, 120},
    {COL_CUPTI_MEMORY2, 23, 128},
    {COL_CUPTI_GRAPH, 13, 48},
    {COL_CUPTI_GRAPH, 21, 56},
    {COL_CUPTI_HOST_NODE, 130100, 56},
    {COL_CUPTI_HOST_LAUNCH, 130100, 48},
};
#define NEWEST 130599u /* the headers of later versions were not seen when this was written */

void col_cupti_bytes(uint32_t version, uint32_t bytes[COL_CUPTI_KINDS])
{
    memset(bytes, 0, COL_CUPTI_KINDS * sizeof *bytes);
    for (size_t i = 0; i < sizeof size_table / sizeof *size_table; i++)
        if (version >= size_table[i].since && version <= NEWEST)
            bytes[size_table[i].kind] = size_table[i].bytes;
    bytes[COL_CUPTI_CONCURRENT_KERNEL] = bytes[COL_CUPTI_KERNEL];
}

/* ---- fields ------------------------------------------------------------------------------------------------------------------ */

/* The little-endian number of `size` bytes at an offset; 0 where the record ends before it. */
static uint64_t number(const struct col_cupti_record *record, uint32_t offset, uint32_t size)
{
    uint64_t value = 0;
    if (offset + size <= record->bytes)
        memcpy(&value, record->raw + offset, size);
    return value;
}

static uint64_t u64(const struct col_cupti_record *record, uint32_t offset)
{
    return number(record, offset, 8);
}

static uint32_t u32(const struct col_cupti_record *record, uint32_t offset)
{
    return (uint32_t)number(record, offset, 4);
}

static uint32_t u16(const struct col_cupti_record *record, uint32_t offset)
{
    return (uint32_t)number(record, offset, 2);
}

/* Absent where the record ends before it, and where CUPTI says 0 or "invalid" for "none". */
static int64_t some64(const struct col_cupti_record *record, uint32_t offset)
{
    uint64_t value = u64(record, offset);
    return value && value <= INT64_MAX ? (int64_t)value : STORE_ABSENT;
}

static int64_t some32(const struct col_cupti_record *record, uint32_t offset)
{
    uint32_t value = u32(record, offset);
    return value && value != UINT32_MAX ? (int64_t)value : STORE_ABSENT;
}

/* A context or stream; CUPTI_SYNCHRONIZATION_INVALID_VALUE (all ones) means none. */
static int64_t id32(const struct col_cupti_record *record, uint32_t offset)
{
    uint32_t value = u32(record, offset);
    return offset + 4 <= record->bytes && value != UINT32_MAX ? (int64_t)value : STORE_ABSENT;
}

static void read_times(struct col_cupti_record *record, uint32_t offset)
{
    record->start = u64(record, offset);
    record->end = u64(record, offset + 8);
}

/* Device, context and stream follow each other in most records. */
static void read_place(struct col_cupti_record *record, uint32_t offset)
{
    record->device = u32(record, offset);
    record->context = u32(record, offset + 4);
    record->stream = u32(record, offset + 8);
}

/* The readers of each kind. Numbers are offsets in CUPTI's struct of the kind (see cupti.h). */
static void read_kernel(struct col_cupti_record *record)
{
    record->registers = u16(record, 6);
    read_times(record, 16);
    read_place(record, 40);
    for (uint32_t i = 0; i < 3; i++) {
        record->grid[i] = u32(record, 52 + 4 * i);
        record->block[i] = u32(record, 64 + 4 * i);
    }
    record->static_shared = u32(record, 76);
    record->dynamic_shared = u32(record, 80);
    record->correlation = u32(record, 92);
    record->name = u64(record, 104);
    record->graph_node = some64(record, 144);
    record->graph = record->bytes >= 176 ? some32(record, 156) : STORE_ABSENT;
}

static void read_copy(struct col_cupti_record *record)
{
    bool peer = record->kind == COL_CUPTI_MEMCPY2;
    record->copy_kind = record->raw[4];
    record->source_kind = record->raw[5];
    record->target_kind = record->raw[6];
    record->size = (int64_t)u64(record, 8);
    read_times(record, 16);
    read_place(record, 32);
    record->correlation = u32(record, peer ? 60 : 44);
    record->graph_node = some64(record, peer ? 72 : 64);
    record->graph = some32(record, peer ? 80 : 72);
}

static void read_set(struct col_cupti_record *record)
{
    record->size = (int64_t)u64(record, 8);
    read_times(record, 16);
    read_place(record, 32);
    record->correlation = u32(record, 44);
    record->target_kind = u16(record, 50);
    record->graph_node = some64(record, 64);
    record->graph = some32(record, 72);
}

static void read_api(struct col_cupti_record *record)
{
    record->cbid = u32(record, 4);
    read_times(record, 8);
    record->thread = u32(record, 28);
    record->correlation = u32(record, 32);
}

static void read_device(struct col_cupti_record *record)
{
    record->gpu.memory = (int64_t)u64(record, 16);
    record->gpu.warp = u32(record, 32);
    record->gpu.sms = u32(record, 44);
    record->gpu.warps_per_sm = u32(record, 52);
    if (record->bytes >= 176 && record->raw[145]) {
        record->gpu.mig = true;
        record->gpu.instance = u32(record, 152);
        record->gpu.compute_instance = u32(record, 156);
        memcpy(record->gpu.mig_uuid, record->raw + 160, sizeof record->gpu.mig_uuid);
    }
    record->gpu.major = u32(record, 104);
    record->gpu.minor = u32(record, 108);
    record->gpu.id = record->device = u32(record, 112);
    if (record->bytes >= 136)
        memcpy(record->gpu.uuid, record->raw + 120, sizeof record->gpu.uuid);
    record->name = u64(record, 136);
}

static void read_sync(struct col_cupti_record *record)
{
    record->sync_kind = u32(record, 4);
    read_times(record, 8);
    record->correlation = u32(record, 24);
    record->context = id32(record, 28);
    record->stream = id32(record, 32);
    record->event = id32(record, 36);
    record->event_record = some64(record, 40);
    record->result = u32(record, 48);
}

static void read_event(struct col_cupti_record *record)
{
    record->correlation = u32(record, 4);
    record->context = u32(record, 8);
    record->stream = u32(record, 12);
    record->event = u32(record, 16);
    record->device = id32(record, 24);
    record->start = record->end =
        u64(record, 40); /* when the device came to it, if timestamps of events are on */
    record->event_record = some64(record, 48);
}

static void read_graph(struct col_cupti_record *record)
{
    record->correlation = u32(record, 4);
    read_times(record, 8);
    record->device = u32(record, 24);
    record->graph = u32(record, 28);
    record->context = u32(record, 32);
    record->stream = u32(record, 36);
}

/* A function of the host that a stream waits for, launched by itself or as a node of a graph. */
static void read_host(struct col_cupti_record *record)
{
    bool node = record->kind == COL_CUPTI_HOST_NODE;
    record->stream = u32(record, 4);
    record->context = u32(record, 8);
    record->device = u32(record, 12);
    record->correlation = u32(record, 16);
    record->thread = u32(record, node ? 36 : 24);
    read_times(record, node ? 40 : 32);
    if (node) {
        record->graph = some32(record, 20);
        record->graph_node = some64(record, 24);
    }
}

static void read_overhead(struct col_cupti_record *record)
{
    record->cbid = u32(record, 4); /* kind of overhead */
    record->object_kind = u32(record, 8);
    record->object_thread = u32(record, 16); /* {process, thread} of a process or thread */
    read_times(record, 24);
    record->correlation = some32(record, 40);
}

static void read_memory(struct col_cupti_record *record)
{
    record->operation = u32(record, 4);
    record->target_kind = u32(record, 8);
    record->correlation = u32(record, 12);
    record->size = (int64_t)u64(record, 24);
    record->start = record->end = u64(record, 32);
    record->device = id32(record, 52);
    record->context = id32(record, 56);
    record->stream = id32(record, 60);
}

static void read_context(struct col_cupti_record *record)
{
    record->context = u32(record, 4);
    record->device = u32(record, 8);
}

static void read_stream(struct col_cupti_record *record)
{
    record->context = u32(record, 4);
    record->stream = u32(record, 8);
    record->priority = (int32_t)u32(record, 12);
}

/* Records follow each other at multiples of eight bytes. A kind of 0 is the zeroed rest of a buffer
 * that CUPTI has not filled. */
int col_cupti_next(const uint32_t bytes[COL_CUPTI_KINDS], const uint8_t *buffer, size_t valid,
                   size_t *offset, struct col_cupti_record *record)
{
    static void (*const read[COL_CUPTI_KINDS])(struct col_cupti_record *) = {
        [COL_CUPTI_MEMCPY] = read_copy,       [COL_CUPTI_MEMSET] = read_set,
        [COL_CUPTI_KERNEL] = read_kernel,     [COL_CUPTI_DRIVER] = read_api,
        [COL_CUPTI_RUNTIME] = read_api,       [COL_CUPTI_DEVICE] = read_device,
        [COL_CUPTI_CONTEXT] = read_context,   [COL_CUPTI_CONCURRENT_KERNEL] = read_kernel,
        [COL_CUPTI_OVERHEAD] = read_overhead, [COL_CUPTI_MEMCPY2] = read_copy,
        [COL_CUPTI_EVENT] = read_event,       [COL_CUPTI_STREAM] = read_stream,
        [COL_CUPTI_SYNC] = read_sync,         [COL_CUPTI_MEMORY2] = read_memory,
        [COL_CUPTI_GRAPH] = read_graph,       [COL_CUPTI_HOST_NODE] = read_host,
        [COL_CUPTI_HOST_LAUNCH] = read_host};
    uint32_t kind;
    if (valid - *offset < sizeof kind)
        return 0;
    memcpy(&kind, buffer + *offset, sizeof kind);
    if (kind == COL_CUPTI_END)
        return 0;
    kind &= ~COL_CUPTI_BEGUN;
    if (kind == 0 || kind >= COL_CUPTI_KINDS || bytes[kind] < 16)
        return -1;
    if (valid - *offset < bytes[kind])
        return 0;
    const int64_t none = STORE_ABSENT;
    *record = (struct col_cupti_record){.kind = kind,
                                        .bytes = bytes[kind],
                                        .raw = buffer + *offset,
                                        .device = none,
                                        .context = none,
                                        .stream = none,
                                        .correlation = none,
                                        .thread = none,
                                        .registers = none,
                                        .graph = none,
                                        .graph_node = none,
                                        .size = none,
                                        .event = none,
                                        .event_record = none};
    *offset += (bytes[kind] + 7u) & ~7u;
    if (*offset > valid)
        *offset = valid;
    if (read[kind])
        read[kind](record);
    return 1;
}
