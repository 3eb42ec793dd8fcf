/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX counters. A counter of a plain type is one COUNTER entry of the arena; a group (its schema
 * has fields) is one entry a field, named "group.field", and a sample of it becomes one record a
 * field, all of the same time.
 */
#include <stdio.h>
#include <string.h>

#include "profiler/agent/core/record.h"

#define GROUPS       256u
#define GROUP_FIELDS 32u

struct counter_group {
    uint32_t fields, bytes;
    bool timed; /* timestamps of a batch are of our clock, or unspecified */
    uint64_t type[GROUP_FIELDS];
    uint32_t offset[GROUP_FIELDS], id[GROUP_FIELDS];
};

static struct counter_group group[GROUPS];
static uint32_t groups;

/* The arena's entry of a counter: name, domain and schema, separated by tabs. */
static uint32_t counter_text(uint32_t domain, const char *name, const char *field, uint64_t schema)
{
    char text[384];
    int length = snprintf(text, sizeof text, "%.200s", name);
    if (field)
        length += snprintf(text + length, sizeof text - (size_t)length, ".%s", field);
    agent_name_clean(text);
    length += snprintf(text + length, sizeof text - (size_t)length, "\t%u\t%llu", domain,
                       (unsigned long long)schema);
    return agent_name_intern(WIRE_TEXT_COUNTER, text, (size_t)length, true);
}

/* Batches carry the program's timestamps; those of nvtxTimestampGet and of the pool's own clock can
 * be placed. */
static bool counter_timed(const nvtxSemanticsHeader_t *semantics)
{
    for (; semantics; semantics = semantics->next) {
        if (semantics->semanticId != NVTX_SEMANTIC_ID_TIME_V1)
            continue;
        uint64_t source = ((const nvtxSemanticsTime_t *)(const void *)semantics)->timeDomainId;
        if (agent_setup.clock == WIRE_CLOCK_TSC)
            return source == NVTX_TIMESTAMP_TYPE_TOOL_PROVIDED ||
                   source == NVTX_TIMESTAMP_TYPE_CPU_TSC;
        return source == NVTX_TIMESTAMP_TYPE_TOOL_PROVIDED ||
               source == NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC;
    }
    return true;
}

/* The definition of a counter: one field of a plain type, or the fields of its schema that are
 * numbers. */
static void group_fill(struct counter_group *filled, uint32_t domain,
                       const nvtxCounterAttr_t *attributes, const char *name)
{
    size_t plain = attributes->schemaId < NVTX_PAYLOAD_SCHEMA_ID_STATIC_START
                       ? agent_schema_type_size(attributes->schemaId)
                       : 0;
    memset(filled, 0, sizeof *filled);
    filled->timed = counter_timed(attributes->semantics);
    if (plain) {
        filled->fields = 1;
        filled->bytes = (uint32_t)plain;
        filled->type[0] = attributes->schemaId;
        filled->id[0] = counter_text(domain, name, NULL, attributes->schemaId);
        return;
    }
    uint32_t schema = (uint32_t)agent_schema_find(domain, attributes->schemaId);
    struct agent_field field = {0};
    while (filled->fields < GROUP_FIELDS && agent_schema_field(schema, &field)) {
        if (!agent_schema_type_size(field.type))
            continue;
        filled->type[filled->fields] = field.type;
        filled->offset[filled->fields] = (uint32_t)field.offset;
        filled->id[filled->fields++] = counter_text(domain, name, field.name, field.type);
    }
    filled->bytes = (uint32_t)agent_schema_size(AGENT_ID_DYNAMIC | schema, NULL);
}

/* Ids are AGENT_ID_DYNAMIC | AGENT_ID_GROUP | index; a counter that finds no room in the table is
 * known by its arena id and takes plain values only. Groups of one definition share an index. */
uint64_t agent_counter_register(nvtxDomainHandle_t handle, const nvtxCounterAttr_t *attributes)
{
    uint32_t domain = agent_domain_index(handle);
    struct counter_group made;
    struct agent_quiet quiet;
    if (!attributes)
        return NVTX_COUNTER_ID_NONE;
    const char *name = attributes->name ? attributes->name : "counter";
    group_fill(&made, domain, attributes, name);
    if (!made.fields)
        return NVTX_COUNTER_ID_NONE;
    agent_quiet_begin(&quiet);
    agent_lock();
    uint32_t i = 0;
    while (i < groups &&
           (group[i].fields != made.fields || memcmp(group[i].id, made.id, sizeof made.id)))
        i++;
    if (i == groups && i < GROUPS) {
        group[i] = made;
        groups = i + 1;
    }
    agent_unlock();
    agent_quiet_end(&quiet);
    uint64_t id = AGENT_ID_DYNAMIC | (i < GROUPS ? AGENT_ID_GROUP | i : made.id[0]);
    if (attributes->structSize >=
            offsetof(nvtxCounterAttr_t, counterId) + sizeof attributes->counterId &&
        attributes->counterId >= NVTX_COUNTER_ID_STATIC_START &&
        attributes->counterId < NVTX_COUNTER_ID_DYNAMIC_START) {
        agent_map_set(AGENT_MAP_COUNTER, domain, attributes->counterId, id);
        return attributes->counterId;
    }
    return id;
}

static uint64_t counter_find(uint32_t domain, uint64_t id)
{
    return id >= NVTX_COUNTER_ID_DYNAMIC_START ? id : agent_map_get(AGENT_MAP_COUNTER, domain, id);
}

/* The definition of an id; NULL for one without a place in the table. */
static const struct counter_group *counter_group(uint64_t id)
{
    uint32_t i = (uint32_t)id;
    return id & AGENT_ID_GROUP && i < GROUPS ? &group[i] : NULL;
}

/* A record from outside of the callbacks of ranges, with the thread entered and left. */
static void single_put(uint32_t kind, uint32_t domain, uint64_t time,
                       const struct agent_event *event)
{
    struct agent_thread *thread = agent_enter();
    if (!thread) {
        agent_lose(agent_tls ? WIRE_LOSS_SIGNAL : WIRE_LOSS_NO_SPACE, 1);
        return;
    }
    agent_single(thread, kind, domain, time, event);
    agent_leave(thread);
}

static void counter_put(uint32_t domain, uint32_t id, uint32_t type, uint64_t value, uint64_t time)
{
    struct agent_event event = {.name = id, .value = value, .value_type = type};
    single_put(WIRE_COUNTER, domain, time, &event);
}

static void counter_put_plain(uint32_t domain, uint64_t id, uint32_t type, uint64_t value)
{
    id = counter_find(domain, id);
    const struct counter_group *known = counter_group(id);
    if (id)
        counter_put(domain, known ? known->id[0] : (uint32_t)id, type, value, 0);
}

uint32_t agent_counter_own(const char *name, const char *unit, int device)
{
    char text[160];
    int length = snprintf(text, sizeof text, "%.60s\t0\t%llu\tgpu:%d\t%.40s", name,
                          (unsigned long long)NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, device, unit);
    return agent_name_intern(WIRE_TEXT_COUNTER, text, (size_t)length, true);
}

void agent_counter_put(uint32_t id, double value, uint64_t time)
{
    uint64_t word;
    memcpy(&word, &value, 8);
    counter_put(0, id, WIRE_VALUE_F64, word, time);
}

void agent_mark_put(uint32_t name, uint32_t schema, const void *data, uint32_t bytes, uint64_t time)
{
    struct agent_event event = {.name = name, .schema = schema, .data = data, .bytes = bytes};
    single_put(WIRE_MARK, 0, time, &event);
}

void agent_counter_int64(nvtxDomainHandle_t handle, uint64_t id, int64_t value)
{
    counter_put_plain(agent_domain_index(handle), id, WIRE_VALUE_I64, (uint64_t)value);
}

void agent_counter_float64(nvtxDomainHandle_t handle, uint64_t id, double value)
{
    uint64_t word;
    memcpy(&word, &value, 8);
    counter_put_plain(agent_domain_index(handle), id, WIRE_VALUE_F64, word);
}

#define LOAD(ctype, from) \
    ({ \
        ctype load_; \
        memcpy(&load_, from, sizeof load_); \
        load_; \
    })

/* Reads a plain value. Returns its enum wire_value. */
static uint32_t value_read(uint64_t type, const char *from, uint64_t *word)
{
    double real = 0;
    size_t size = agent_schema_type_size(type);
    switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32:
        real = (double)LOAD(float, from);
        break;
    case NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64:
        real = LOAD(double, from);
        break;
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE:
        real = (double)LOAD(long double, from);
        break;
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16:
    case NVTX_PAYLOAD_ENTRY_TYPE_BF16:
        return WIRE_VALUE_NONE;
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT8:
        *word = (uint64_t)(int64_t)LOAD(int8_t, from);
        return WIRE_VALUE_I64;
    case NVTX_PAYLOAD_ENTRY_TYPE_SHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT16:
        *word = (uint64_t)(int64_t)LOAD(int16_t, from);
        return WIRE_VALUE_I64;
    case NVTX_PAYLOAD_ENTRY_TYPE_INT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT32:
        *word = (uint64_t)(int64_t)LOAD(int32_t, from);
        return WIRE_VALUE_I64;
    default:
        *word = 0;
        memcpy(word, from, size < 8 ? size : 8); /* unsigned, or 64 bits wide */
        if (size < 8 || !(*word >> 63) || type == NVTX_PAYLOAD_ENTRY_TYPE_INT64 ||
            type == NVTX_PAYLOAD_ENTRY_TYPE_LONG || type == NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG)
            return WIRE_VALUE_I64;
        real = (double)*word; /* beyond what a signed counter holds */
    }
    memcpy(word, &real, 8);
    return WIRE_VALUE_F64;
}

/* One record for each field that the sample is long enough to hold. */
static void group_put(const struct counter_group *known, uint32_t domain, const char *values,
                      size_t bytes, uint64_t time)
{
    for (uint32_t i = 0; i < known->fields; i++) {
        uint64_t word = 0;
        if (known->offset[i] + agent_schema_type_size(known->type[i]) > bytes)
            continue;
        uint32_t type = value_read(known->type[i], values + known->offset[i], &word);
        counter_put(domain, known->id[i], type, word, time);
    }
}

void agent_counter_sample(nvtxDomainHandle_t handle, uint64_t id, const void *values, size_t bytes)
{
    uint32_t domain = agent_domain_index(handle);
    const struct counter_group *known = counter_group(counter_find(domain, id));
    if (known && values)
        group_put(known, domain, values, bytes, agent_now());
}

void agent_counter_none(nvtxDomainHandle_t handle, uint64_t id, uint8_t reason)
{
    uint32_t domain = agent_domain_index(handle);
    const struct counter_group *known = counter_group(counter_find(domain, id));
    uint64_t now = agent_now();
    uint32_t type = WIRE_VALUE_NONE;
    if (reason == NVTX_COUNTER_SAMPLE_ZERO) {
        type = WIRE_VALUE_I64;
        reason = 0;
    }
    for (uint32_t i = 0; known && i < known->fields; i++)
        counter_put(domain, known->id[i], type, reason, now);
}

/* Time of sample `i` of `n` in a batch; 0 = cannot be placed. */
static uint64_t batch_time(const struct counter_group *known, const nvtxCounterBatch_t *batch,
                           size_t i, size_t samples, uint64_t now)
{
    const uint64_t interval =
        ((uint64_t)1 << 32) |
        ((uint64_t)2 << 32); /* the header's own (1 << 32) does not fit an int */
    struct wire_pool *pool = atomic_load_explicit(&agent_process->pool, memory_order_acquire);
    if (!batch->timestamps)
        return samples == 1 ? now : 0;
    if (!known->timed || batch->flags & interval ||
        batch->timestampsSize < samples * sizeof *batch->timestamps || batch->timestamps[i] < 0)
        return 0;
    uint64_t time = (uint64_t)batch->timestamps[i];
    return time <= now && (!pool || time >= pool->created) ? time : 0;
}

void agent_counter_batch(nvtxDomainHandle_t handle, const nvtxCounterBatch_t *batch)
{
    uint32_t domain = agent_domain_index(handle);
    const struct counter_group *known =
        batch ? counter_group(counter_find(domain, batch->counterId)) : NULL;
    if (!known || !known->bytes || !batch->counters)
        return;
    size_t samples = batch->countersSize / known->bytes;
    uint64_t now = agent_now();
    for (size_t i = 0; i < samples; i++) {
        uint64_t time = batch_time(known, batch, i, samples, now);
        if (time)
            group_put(known, domain, (const char *)batch->counters + i * known->bytes, known->bytes,
                      time);
        else
            agent_lose(WIRE_LOSS_NO_TIME, known->fields);
    }
}
