/* SPDX-License-Identifier: Apache-2.0
 *
 * What an event of NVTX carries: its name, category and payload.
 */
#include "profiler/agent/core/record.h"

/* The name of an event that was not registered: looked up by its text. Not while paused: nothing
 * is recorded then. */
static uint32_t message_slow(const nvtxEventAttributes_t *attributes)
{
    if (agent_paused())
        return 0;
    if (attributes->messageType == NVTX_MESSAGE_TYPE_UNICODE)
        return agent_name_wide(attributes->message.unicode, false);
    return attributes->messageType == NVTX_MESSAGE_TYPE_ASCII
               ? agent_name(attributes->message.ascii, false)
               : 0;
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
void agent_event_payload(struct agent_event *event, uint32_t domain,
                         const nvtxPayloadData_t *payload, size_t count)
{
    if (!payload || !count || !payload->payload || !payload->size)
        return;
    uint64_t id = payload->schemaId;
    if (agent_unlikely(id < NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START))
        id = agent_schema_find(domain, id);
    event->schema = (uint32_t)id;
    event->step = (id & AGENT_ID_STEP) != 0;
    event->bytes = agent_likely(payload->size <= WIRE_PAYLOAD_MAX)
                       ? (uint32_t)payload->size
                       : payload_size(id, payload->payload, payload->size);
    event->data = event->bytes ? payload->payload : NULL;
    if (agent_unlikely(count > 1) && !agent_paused())
        agent_lose(WIRE_LOSS_PAYLOAD_CUT, count - 1);
}

/* A single number: recorded as a payload of a predefined schema, which keeps its type. */
static void event_scalar(struct agent_event *event, const nvtxEventAttributes_t *attributes)
{
    static const struct {
        uint8_t type, bytes;
    } scalar[] = {[NVTX_PAYLOAD_TYPE_UNSIGNED_INT64] = {NVTX_PAYLOAD_ENTRY_TYPE_UINT64, 8},
                  [NVTX_PAYLOAD_TYPE_INT64] = {NVTX_PAYLOAD_ENTRY_TYPE_INT64, 8},
                  [NVTX_PAYLOAD_TYPE_DOUBLE] = {NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, 8},
                  [NVTX_PAYLOAD_TYPE_UNSIGNED_INT32] = {NVTX_PAYLOAD_ENTRY_TYPE_UINT32, 4},
                  [NVTX_PAYLOAD_TYPE_INT32] = {NVTX_PAYLOAD_ENTRY_TYPE_INT32, 4},
                  [NVTX_PAYLOAD_TYPE_FLOAT] = {NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, 4}};
    uint32_t type = (uint32_t)attributes->payloadType;
    if (type >= sizeof scalar / sizeof *scalar || !scalar[type].type || agent_paused())
        return;
    event->schema = (uint32_t)agent_schema_find(0, scalar[type].type);
    event->bytes = scalar[type].bytes;
    event->data = &attributes->payload;
}

void agent_event_read(struct agent_event *event, uint32_t domain,
                      const nvtxEventAttributes_t *attributes)
{
    if (agent_unlikely(!attributes))
        return;
    if (agent_likely(attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED))
        event->name = (uint32_t)(uintptr_t)attributes->message.registered;
    else
        event->name = message_slow(attributes);
    if (agent_unlikely(attributes->category)) {
        event->category = attributes->category;
        event->category_name =
            (uint32_t)agent_map_get(AGENT_MAP_CATEGORY, domain, attributes->category);
    }
    if (attributes->payloadType == NVTX_PAYLOAD_TYPE_EXT)
        agent_event_payload(event, domain,
                            (const nvtxPayloadData_t *)(uintptr_t)attributes->payload.ullValue,
                            (size_t)attributes->reserved0);
    else if (agent_unlikely(attributes->payloadType != NVTX_PAYLOAD_UNKNOWN))
        event_scalar(event, attributes);
}
