/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/pool/cupti.h"

#include <stdbool.h>
#include <string.h>

#include "store/store.h"

/* ---- sizes by version ------------------------------------------------------------------------------------------------------ */

/* kind, version from which on, bytes. Of equal kinds the last one that fits counts. */
static const struct {
    uint32_t kind, since, bytes;
} size_table[] = {
    {COL_CUPTI_MEMCPY, 0, 72},       {COL_CUPTI_MEMCPY, 14, 80},   {COL_CUPTI_MEMCPY, 17, 88},
    {COL_CUPTI_MEMCPY, 26, 96},      {COL_CUPTI_MEMSET, 0, 72},    {COL_CUPTI_MEMSET, 14, 80},
    {COL_CUPTI_MEMSET, 17, 88},      {COL_CUPTI_KERNEL, 0, 160},   {COL_CUPTI_KERNEL, 15, 168},
    {COL_CUPTI_KERNEL, 17, 176},     {COL_CUPTI_KERNEL, 18, 200},  {COL_CUPTI_KERNEL, 19, 208},
    {COL_CUPTI_KERNEL, 130000, 216}, {COL_CUPTI_DRIVER, 0, 40},    {COL_CUPTI_RUNTIME, 0, 40},
    {COL_CUPTI_DEVICE, 0, 152},      {COL_CUPTI_DEVICE, 17, 176},  {COL_CUPTI_DEVICE, 24, 184},
    {COL_CUPTI_CONTEXT, 0, 16},      {COL_CUPTI_CONTEXT, 22, 24},  {COL_CUPTI_CONTEXT, 26, 32},
    {COL_CUPTI_OVERHEAD, 0, 40},     {COL_CUPTI_OVERHEAD, 20, 48}, {COL_CUPTI_OVERHEAD, 24, 56},
    {COL_CUPTI_MEMCPY2, 0, 80},      {COL_CUPTI_MEMCPY2, 14, 88},  {COL_CUPTI_MEMCPY2, 17, 96},
    {COL_CUPTI_EVENT, 0, 24},        {COL_CUPTI_EVENT, 26, 56},    {COL_CUPTI_STREAM, 0, 24},
    {COL_CUPTI_SYNC, 0, 40},         {COL_CUPTI_SYNC, 26, 56},     {COL_CUPTI_MEMORY2, 0, 112},
    {COL_CUPTI_MEMORY2, 16, 120},    {COL_CUPTI_MEMORY2, 23, 128}, {COL_CUPTI_GRAPH, 0, 48},
    {COL_CUPTI_GRAPH, 21, 56},
};

void col_cupti_bytes(uint32_t version, uint32_t bytes[COL_CUPTI_KINDS])
{
    memset(bytes, 0, COL_CUPTI_KINDS * sizeof *bytes);
    for (size_t i = 0; i < sizeof size_table / sizeof *size_table; i++)
        if (version >= size_table[i].since)
            bytes[size_table[i].kind] = size_table[i].bytes;
    bytes[COL_CUPTI_CONCURRENT_KERNEL] = bytes[COL_CUPTI_KERNEL];
}

/* ---- fields ------------------------------------------------------------------------------------------------------------------ */

static uint64_t u64(const struct col_cupti_record *r, uint32_t at)
{
    uint64_t x = 0;
    if (at + sizeof x <= r->bytes)
        memcpy(&x, r->raw + at, sizeof x);
    return x;
}

static uint32_t u32(const struct col_cupti_record *r, uint32_t at)
{
    uint32_t x = 0;
    if (at + sizeof x <= r->bytes)
        memcpy(&x, r->raw + at, sizeof x);
    return x;
}

static uint32_t u16(const struct col_cupti_record *r, uint32_t at)
{
    uint16_t x = 0;
    if (at + sizeof x <= r->bytes)
        memcpy(&x, r->raw + at, sizeof x);
    return x;
}

/* Absent where the record ends before it, and where CUPTI says 0 or "invalid" for "none". */
static int64_t some64(const struct col_cupti_record *r, uint32_t at)
{
    uint64_t x = u64(r, at);
    return x && x <= INT64_MAX ? (int64_t)x : STORE_ABSENT;
}

static int64_t some32(const struct col_cupti_record *r, uint32_t at)
{
    uint32_t x = u32(r, at);
    return x && x != UINT32_MAX ? (int64_t)x : STORE_ABSENT;
}

/* A context or stream, which CUPTI_SYNCHRONIZATION_INVALID_VALUE (all ones) says there is none of.
 */
static int64_t id32(const struct col_cupti_record *r, uint32_t at)
{
    uint32_t x = u32(r, at);
    return at + 4 <= r->bytes && x != UINT32_MAX ? (int64_t)x : STORE_ABSENT;
}

static void read_kernel(struct col_cupti_record *r)
{
    r->registers = u16(r, 6);
    r->start = u64(r, 16);
    r->end = u64(r, 24);
    r->device = u32(r, 40);
    r->context = u32(r, 44);
    r->stream = u32(r, 48);
    for (uint32_t i = 0; i < 3; i++) {
        r->grid[i] = u32(r, 52 + 4 * i);
        r->block[i] = u32(r, 64 + 4 * i);
    }
    r->static_shared = u32(r, 76);
    r->dynamic_shared = u32(r, 80);
    r->correlation = u32(r, 92);
    r->name = u64(r, 104);
    r->graph_node = some64(r, 144);
    r->graph = r->bytes >= 176 ? some32(r, 156) : STORE_ABSENT;
}

static void read_copy(struct col_cupti_record *r)
{
    bool peer = r->kind == COL_CUPTI_MEMCPY2;
    r->copy_kind = r->raw[4];
    r->source_kind = r->raw[5];
    r->target_kind = r->raw[6];
    r->size = (int64_t)u64(r, 8);
    r->start = u64(r, 16);
    r->end = u64(r, 24);
    r->device = u32(r, 32);
    r->context = u32(r, 36);
    r->stream = u32(r, 40);
    r->correlation = u32(r, peer ? 60 : 44);
    r->graph_node = some64(r, peer ? 72 : 64);
    r->graph = some32(r, peer ? 80 : 72);
}

static void read_set(struct col_cupti_record *r)
{
    r->size = (int64_t)u64(r, 8);
    r->start = u64(r, 16);
    r->end = u64(r, 24);
    r->device = u32(r, 32);
    r->context = u32(r, 36);
    r->stream = u32(r, 40);
    r->correlation = u32(r, 44);
    r->target_kind = u16(r, 50);
    r->graph_node = some64(r, 64);
    r->graph = some32(r, 72);
}

static void read_api(struct col_cupti_record *r)
{
    r->cbid = u32(r, 4);
    r->start = u64(r, 8);
    r->end = u64(r, 16);
    r->thread = u32(r, 28);
    r->correlation = u32(r, 32);
    r->result = u32(r, 36);
}

static void read_device(struct col_cupti_record *r)
{
    r->gpu.memory = (int64_t)u64(r, 16);
    r->gpu.warp = u32(r, 32);
    r->gpu.sms = u32(r, 44);
    r->gpu.warps_per_sm = u32(r, 52);
    r->gpu.major = u32(r, 104);
    r->gpu.minor = u32(r, 108);
    r->gpu.id = r->device = u32(r, 112);
    r->gpu.memory_khz_bandwidth = (int64_t)u64(r, 8);
    if (r->bytes >= 136)
        memcpy(r->gpu.uuid, r->raw + 120, sizeof r->gpu.uuid);
    r->name = u64(r, 136);
}

static void read_sync(struct col_cupti_record *r)
{
    r->sync_kind = u32(r, 4);
    r->start = u64(r, 8);
    r->end = u64(r, 16);
    r->correlation = u32(r, 24);
    r->context = id32(r, 28);
    r->stream = id32(r, 32);
    r->event = id32(r, 36);
    r->event_record = some64(r, 40);
}

static void read_event(struct col_cupti_record *r)
{
    r->correlation = u32(r, 4);
    r->context = u32(r, 8);
    r->stream = u32(r, 12);
    r->event = u32(r, 16);
    r->device = id32(r, 24);
    r->start = r->end = u64(r, 40); /* when the device came to it, if timestamps of events are on */
    r->event_record = some64(r, 48);
}

static void read_graph(struct col_cupti_record *r)
{
    r->correlation = u32(r, 4);
    r->start = u64(r, 8);
    r->end = u64(r, 16);
    r->device = u32(r, 24);
    r->graph = u32(r, 28);
    r->context = u32(r, 32);
    r->stream = u32(r, 36);
}

static void read_overhead(struct col_cupti_record *r)
{
    r->cbid = u32(r, 4); /* kind of overhead */
    r->object_kind = u32(r, 8);
    r->object_thread = u32(r, 16); /* {process, thread} of a process or thread */
    r->start = u64(r, 24);
    r->end = u64(r, 32);
    r->correlation = some32(r, 40);
}

static void read_memory(struct col_cupti_record *r)
{
    r->operation = u32(r, 4);
    r->target_kind = u32(r, 8);
    r->correlation = u32(r, 12);
    r->size = (int64_t)u64(r, 24);
    r->start = r->end = u64(r, 32);
    r->device = id32(r, 52);
    r->context = id32(r, 56);
    r->stream = id32(r, 60);
}

static void read_context(struct col_cupti_record *r)
{
    r->context = u32(r, 4);
    r->device = u32(r, 8);
}

static void read_stream(struct col_cupti_record *r)
{
    r->context = u32(r, 4);
    r->stream = u32(r, 8);
    r->priority = (int32_t)u32(r, 12);
}

int col_cupti_next(const uint32_t bytes[COL_CUPTI_KINDS], const uint8_t *buffer, size_t valid,
                   size_t *at, struct col_cupti_record *r)
{
    static void (*const read[COL_CUPTI_KINDS])(struct col_cupti_record *) = {
        [COL_CUPTI_MEMCPY] = read_copy,       [COL_CUPTI_MEMSET] = read_set,
        [COL_CUPTI_KERNEL] = read_kernel,     [COL_CUPTI_DRIVER] = read_api,
        [COL_CUPTI_RUNTIME] = read_api,       [COL_CUPTI_DEVICE] = read_device,
        [COL_CUPTI_CONTEXT] = read_context,   [COL_CUPTI_CONCURRENT_KERNEL] = read_kernel,
        [COL_CUPTI_OVERHEAD] = read_overhead, [COL_CUPTI_MEMCPY2] = read_copy,
        [COL_CUPTI_EVENT] = read_event,       [COL_CUPTI_STREAM] = read_stream,
        [COL_CUPTI_SYNC] = read_sync,         [COL_CUPTI_MEMORY2] = read_memory,
        [COL_CUPTI_GRAPH] = read_graph};
    uint32_t kind;
    if (valid - *at < sizeof kind)
        return 0;
    memcpy(&kind, buffer + *at, sizeof kind);
    if (kind == 0 || kind >= COL_CUPTI_KINDS || bytes[kind] < 16)
        return -1;
    if (valid - *at < bytes[kind])
        return 0;
    const int64_t none = STORE_ABSENT;
    *r = (struct col_cupti_record){.kind = kind,
                                   .bytes = bytes[kind],
                                   .raw = buffer + *at,
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
    *at += (bytes[kind] + 7u) & ~7u;
    if (*at > valid)
        *at = valid;
    if (read[kind])
        read[kind](r);
    return 1;
}
