/* SPDX-License-Identifier: Apache-2.0
 *
 * What an event of NVTX carries: its name, category and payload.
 */
#include "profiler/agent/core/record.h"

static uint32_t message_slow(const nvtxEventAttributes_t *a)
{
    if (agent_paused())
        return 0;
    if (a->messageType == NVTX_MESSAGE_TYPE_UNICODE)
        return agent_name_wide(a->message.unicode, false);
    return a->messageType == NVTX_MESSAGE_TYPE_ASCII ? agent_name(a->message.ascii, false) : 0;
}

/* Sizes that need a look: unknown, or more than a record holds. */
static uint32_t payload_size(uint64_t id, const void *data, size_t bytes)
{
    if (bytes == SIZE_MAX)
        bytes = agent_schema_size(id, data);
    if (bytes > WIRE_PAYLOAD_MAX) {
        if (!agent_paused())
            agent_lose(WIRE_LOSS_PAYLOAD_CUT, 1);
        bytes = WIRE_PAYLOAD_MAX;
    }
    return (uint32_t)bytes;
}

/* One payload a record: the first. */
void agent_event_payload(struct agent_event *e, uint32_t domain, const nvtxPayloadData_t *p,
                         size_t count)
{
    if (!p || !count || !p->payload || !p->size)
        return;
    uint64_t id = p->schemaId;
    if (agent_unlikely(id < NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START))
        id = agent_schema_find(domain, id);
    e->schema = (uint32_t)id;
    e->step = (id & AGENT_ID_STEP) != 0;
    e->bytes = agent_likely(p->size <= WIRE_PAYLOAD_MAX) ? (uint32_t)p->size
                                                         : payload_size(id, p->payload, p->size);
    e->data = e->bytes ? p->payload : NULL;
    if (agent_unlikely(count > 1) && !agent_paused())
        agent_lose(WIRE_LOSS_PAYLOAD_CUT, count - 1);
}

/* A single number: recorded as a payload of a predefined schema, which keeps its type. */
static void event_scalar(struct agent_event *e, const nvtxEventAttributes_t *a)
{
    static const struct {
        uint8_t type, bytes;
    } scalar[] = {[NVTX_PAYLOAD_TYPE_UNSIGNED_INT64] = {NVTX_PAYLOAD_ENTRY_TYPE_UINT64, 8},
                  [NVTX_PAYLOAD_TYPE_INT64] = {NVTX_PAYLOAD_ENTRY_TYPE_INT64, 8},
                  [NVTX_PAYLOAD_TYPE_DOUBLE] = {NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, 8},
                  [NVTX_PAYLOAD_TYPE_UNSIGNED_INT32] = {NVTX_PAYLOAD_ENTRY_TYPE_UINT32, 4},
                  [NVTX_PAYLOAD_TYPE_INT32] = {NVTX_PAYLOAD_ENTRY_TYPE_INT32, 4},
                  [NVTX_PAYLOAD_TYPE_FLOAT] = {NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, 4}};
    uint32_t type = (uint32_t)a->payloadType;
    if (type >= sizeof scalar / sizeof *scalar || !scalar[type].type || agent_paused())
        return;
    e->schema = (uint32_t)agent_schema_find(0, scalar[type].type);
    e->bytes = scalar[type].bytes;
    e->data = &a->payload;
}

void agent_event_read(struct agent_event *e, uint32_t domain, const nvtxEventAttributes_t *a)
{
    if (agent_unlikely(!a))
        return;
    if (agent_likely(a->messageType == NVTX_MESSAGE_TYPE_REGISTERED))
        e->name = (uint32_t)(uintptr_t)a->message.registered;
    else
        e->name = message_slow(a);
    if (agent_unlikely(a->category)) {
        e->category = a->category;
        e->category_name = (uint32_t)agent_map_get(AGENT_MAP_CATEGORY, domain, a->category);
    }
    if (a->payloadType == NVTX_PAYLOAD_TYPE_EXT)
        agent_event_payload(e, domain, (const nvtxPayloadData_t *)(uintptr_t)a->payload.ullValue,
                            (size_t)a->reserved0);
    else if (agent_unlikely(a->payloadType != NVTX_PAYLOAD_UNKNOWN))
        event_scalar(e, a);
}
