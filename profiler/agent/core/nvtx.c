/* SPDX-License-Identifier: Apache-2.0
 *
 * The callbacks of NVTX. Pops and ends take their time as soon as the thread is busy, pushes and
 * starts last, so that the recorder's own cost lies outside of what is measured.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/agent/core/record.h"

/* ---- the shapes ---- */

static __attribute__((noinline)) int range_push(uint32_t domain, const struct agent_event *event)
{
    struct agent_thread *thread = agent_enter();
    if (!thread)
        return agent_level_signal(domain, 1);
    int level = agent_push(thread, domain, event);
    agent_leave(thread);
    return level;
}

static __attribute__((noinline)) int range_pop(uint32_t domain, const struct agent_event *event)
{
    struct agent_thread *thread = agent_enter();
    if (!thread)
        return agent_level_signal(domain, -1);
    int level = agent_pop(thread, domain, agent_now(), event);
    agent_leave(thread);
    return level;
}

static __attribute__((noinline)) void mark(uint32_t domain, const struct agent_event *event)
{
    struct agent_thread *thread = agent_enter();
    if (!thread) {
        agent_lose(agent_tls ? WIRE_LOSS_SIGNAL : WIRE_LOSS_NO_SPACE, 1);
        return;
    }
    agent_single(thread, WIRE_MARK, domain, 0, event);
    agent_leave(thread);
}

static __attribute__((noinline)) int push_any(uint32_t domain,
                                              const nvtxEventAttributes_t *attributes)
{
    struct agent_event event = {0};
    agent_event_read(&event, domain, attributes);
    return range_push(domain, &event);
}

static __attribute__((noinline)) void mark_any(uint32_t domain,
                                               const nvtxEventAttributes_t *attributes)
{
    struct agent_event event = {0};
    agent_event_read(&event, domain, attributes);
    mark(domain, &event);
}

/* A registered name, no category, and either no payload or one that fits, of a schema registered
 * with us. */
AGENT_INLINE bool event_is_common(const nvtxEventAttributes_t *attributes,
                                  const nvtxPayloadData_t **payload)
{
    if (agent_unlikely(!attributes) ||
        agent_unlikely(attributes->messageType != NVTX_MESSAGE_TYPE_REGISTERED) ||
        agent_unlikely(attributes->category))
        return false;
    if (attributes->payloadType != NVTX_PAYLOAD_TYPE_EXT)
        return agent_likely(attributes->payloadType == NVTX_PAYLOAD_UNKNOWN);
    const nvtxPayloadData_t *data =
        (const nvtxPayloadData_t *)(uintptr_t)attributes->payload.ullValue;
    *payload = data;
    return agent_likely(attributes->reserved0 == 1) && agent_likely(data != NULL) &&
           agent_likely(data->payload != NULL) && agent_likely(data->size - 1 < WIRE_PAYLOAD_MAX) &&
           agent_likely(data->schemaId >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
}

/* Range ids: 8 bits generation of the process since its first recording ancestor (an id made before
 * a fork cannot equal one made after), 20 bits thread, 36 bits number. A range that is not recorded
 * has DROPPED and the reason in the top byte instead.
 */
#define RANGE_DROPPED 0xf0u
#define RANGE_EPOCHS  0xefu

static nvtxRangeId_t range_dropped(enum wire_loss_reason reason)
{
    return (uint64_t)(RANGE_DROPPED | (uint32_t)reason) << 56 | 1;
}

__attribute__((noinline)) uint64_t agent_range_start(uint32_t domain, struct agent_event *event)
{
    struct agent_thread *thread = agent_enter();
    enum wire_loss_reason reason = WIRE_LOSS_NO_SEGMENT;
    if (agent_unlikely(!thread)) {
        reason = agent_tls ? WIRE_LOSS_SIGNAL : WIRE_LOSS_NO_SPACE;
        agent_lose(reason, 1);
        return range_dropped(reason);
    }
    nvtxRangeId_t id = range_dropped(WIRE_LOSS_PAUSED);
    if (agent_unlikely(agent_paused())) {
        agent_skip(thread);
    } else {
        /* The id needs the thread's ordinal and so a segment. */
        if (agent_unlikely(!thread->line))
            agent_thread_room(thread, WIRE_RECORD_MAX, &reason);
        event->range = (uint64_t)(agent_process->epoch % RANGE_EPOCHS + 1) << 56 |
                       (uint64_t)(thread->ordinal & 0xfffff) << 36 |
                       (++thread->range_seq & 0xfffffffff);
        if (thread->line && agent_append(thread, WIRE_START, domain, 0, 0, event, &reason)) {
            id = event->range;
        } else {
            agent_lose(reason, 1);
            id = range_dropped(reason);
        }
    }
    agent_leave(thread);
    return id;
}

__attribute__((noinline)) void agent_range_end(uint32_t domain, uint64_t id,
                                               struct agent_event *event)
{
    enum wire_loss_reason reason = WIRE_LOSS_NO_SEGMENT;
    if (id >> 60 == RANGE_DROPPED >> 4) {
        uint32_t why = (uint32_t)(id >> 56) & 0xf;
        agent_lose(why < WIRE_LOSS_COUNT ? (enum wire_loss_reason)why : WIRE_LOSS_UNBALANCED, 1);
        return;
    }
    struct agent_thread *thread = agent_enter();
    if (agent_unlikely(!thread)) {
        agent_lose(agent_tls ? WIRE_LOSS_SIGNAL : WIRE_LOSS_NO_SPACE, 1);
        return;
    }
    uint64_t now = agent_now();
    event->range = id;
    if (agent_unlikely(!agent_append(thread, WIRE_END, domain, 0, now, event, &reason)))
        agent_lose(reason, 1);
    agent_leave(thread);
}

/* ---- core callbacks ---- */

/* The push that programs with domains make. The common case goes to the inlined fast path. */
static int NVTX_API cb_domain_push(nvtxDomainHandle_t handle,
                                   const nvtxEventAttributes_t *attributes)
{
    uint32_t domain = agent_domain_index(handle);
    const nvtxPayloadData_t *payload = NULL;
    if (!event_is_common(attributes, &payload))
        return push_any(domain, attributes);
    uint32_t name = (uint32_t)(uintptr_t)attributes->message.registered;
    return payload
               ? agent_push_fast(domain, name, payload->schemaId, payload->payload, payload->size)
               : agent_push_fast(domain, name, 0, NULL, 0);
}

static int NVTX_API cb_domain_pop(nvtxDomainHandle_t domain)
{
    return agent_pop_fast(agent_domain_index(domain));
}

static nvtxRangeId_t NVTX_API cb_domain_start(nvtxDomainHandle_t handle,
                                              const nvtxEventAttributes_t *attributes)
{
    uint32_t domain = agent_domain_index(handle);
    struct agent_event event = {0};
    agent_event_read(&event, domain, attributes);
    return agent_range_start(domain, &event);
}

static void NVTX_API cb_domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    struct agent_event event = {0};
    agent_range_end(agent_domain_index(domain), id, &event);
}

static void NVTX_API cb_domain_mark(nvtxDomainHandle_t handle,
                                    const nvtxEventAttributes_t *attributes)
{
    uint32_t domain = agent_domain_index(handle);
    const nvtxPayloadData_t *payload = NULL;
    if (!event_is_common(attributes, &payload)) {
        mark_any(domain, attributes);
        return;
    }
    uint32_t name = (uint32_t)(uintptr_t)attributes->message.registered;
    if (payload)
        agent_mark_fast(domain, name, payload->schemaId, payload->payload, payload->size);
    else
        agent_mark_fast(domain, name, 0, NULL, 0);
}

static int NVTX_API cb_push(const nvtxEventAttributes_t *attributes)
{
    return cb_domain_push(NULL, attributes);
}

static int NVTX_API cb_pop(void)
{
    return agent_pop_fast(0);
}

static nvtxRangeId_t NVTX_API cb_start(const nvtxEventAttributes_t *attributes)
{
    return cb_domain_start(NULL, attributes);
}

static void NVTX_API cb_end(nvtxRangeId_t id)
{
    cb_domain_end(NULL, id);
}

static void NVTX_API cb_mark(const nvtxEventAttributes_t *attributes)
{
    cb_domain_mark(NULL, attributes);
}

/* The plain forms take a string of char or wchar_t and no attributes. */
#define PLAIN_FORMS(suffix, ctype, intern) \
    static int NVTX_API cb_push_##suffix(const ctype *message) \
    { \
        return agent_push_fast(0, agent_paused() ? 0 : intern(message, false), 0, NULL, 0); \
    } \
    static nvtxRangeId_t NVTX_API cb_start_##suffix(const ctype *message) \
    { \
        struct agent_event e = {.name = agent_paused() ? 0 : intern(message, false)}; \
        return agent_range_start(0, &e); \
    } \
    static void NVTX_API cb_mark_##suffix(const ctype *message) \
    { \
        agent_mark_fast(0, agent_paused() ? 0 : intern(message, false), 0, NULL, 0); \
    } \
    static void NVTX_API cb_domain_category_##suffix(nvtxDomainHandle_t h, uint32_t category, \
                                                     const ctype *name) \
    { \
        agent_map_set(AGENT_MAP_CATEGORY, agent_domain_index(h), category, intern(name, true)); \
    } \
    static void NVTX_API cb_category_##suffix(uint32_t category, const ctype *name) \
    { \
        cb_domain_category_##suffix(NULL, category, name); \
    } \
    static nvtxStringHandle_t NVTX_API cb_string_##suffix(nvtxDomainHandle_t h, const ctype *text) \
    { \
        (void)h; \
        return (nvtxStringHandle_t)(uintptr_t)intern(text, true); \
    } \
    static nvtxDomainHandle_t NVTX_API cb_domain_##suffix(const ctype *name) \
    { \
        return agent_domain_create(intern(name, true)); \
    } \
    static void NVTX_API cb_thread_##suffix(uint32_t tid, const ctype *name) \
    { \
        name_thread(tid, intern(name, true)); \
    }

/* A thread that names itself appends a record; the name of another one is kept until that one
 * records. */
static void name_thread(uint32_t tid, uint32_t name)
{
    struct agent_event event = {.name = name};
    if (tid != (uint32_t)syscall(SYS_gettid)) {
        agent_thread_name(tid, name);
        return;
    }
    struct agent_thread *thread = agent_enter();
    enum wire_loss_reason reason;
    if (!thread)
        return;
    if (!agent_append(thread, WIRE_THREAD, 0, 0, 0, &event, &reason))
        agent_lose(WIRE_LOSS_STRING_FULL, 1);
    agent_leave(thread);
}

PLAIN_FORMS(a, char, agent_name)
PLAIN_FORMS(w, wchar_t, agent_name_wide)

static void NVTX_API cb_domain_destroy(nvtxDomainHandle_t h)
{
    (void)h; /* others may have created it too, and its ranges may still be open */
}

static void NVTX_API cb_initialize(const void *reserved)
{
    (void)reserved;
}

/* ---- payload callbacks; those of counters are in counter.c ---- */

AGENT_INLINE void event_of_payload(struct agent_event *event, uint32_t domain,
                                   const nvtxPayloadData_t *payload, size_t count, bool named)
{
    agent_event_payload(event, domain, payload, count);
    if (named && event->data && !agent_paused())
        event->name = agent_schema_message(event->schema, event->data, event->bytes);
}

static void cb_payload_mark(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload,
                            size_t count)
{
    struct agent_event event = {0};
    event_of_payload(&event, agent_domain_index(domain), payload, count, true);
    mark(agent_domain_index(domain), &event);
}

static int cb_payload_push(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload,
                           size_t count)
{
    struct agent_event event = {0};
    event_of_payload(&event, agent_domain_index(domain), payload, count, true);
    return range_push(agent_domain_index(domain), &event);
}

static int cb_payload_pop(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload, size_t count)
{
    struct agent_event event = {0};
    event_of_payload(&event, agent_domain_index(domain), payload, count, false);
    return range_pop(agent_domain_index(domain), &event);
}

static nvtxRangeId_t cb_payload_start(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payload,
                                      size_t count)
{
    struct agent_event event = {0};
    event_of_payload(&event, agent_domain_index(domain), payload, count, true);
    return agent_range_start(agent_domain_index(domain), &event);
}

static void cb_payload_end(nvtxDomainHandle_t domain, nvtxRangeId_t id,
                           const nvtxPayloadData_t *payload, size_t count)
{
    struct agent_event event = {0};
    event_of_payload(&event, agent_domain_index(domain), payload, count, false);
    agent_range_end(agent_domain_index(domain), id, &event);
}

static uint64_t cb_schema(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t *schema)
{
    return agent_schema_register(agent_domain_index(domain), schema);
}

static uint64_t cb_enum(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t *attributes)
{
    return agent_schema_register_enum(agent_domain_index(domain), attributes);
}

static uint8_t cb_enabled(nvtxDomainHandle_t domain)
{
    (void)domain;
    return 1;
}

/* Scopes are not kept; their ids only have to be distinct and not 0. */
static uint64_t cb_scope(nvtxDomainHandle_t domain, const nvtxScopeAttr_t *attributes)
{
    (void)domain;
    if (!attributes)
        return NVTX_SCOPE_NONE;
    if (attributes->scopeId >= NVTX_SCOPE_ID_STATIC_START)
        return attributes->scopeId;
    return AGENT_ID_DYNAMIC | agent_name(attributes->path ? attributes->path : "", true);
}

static int64_t cb_timestamp(void)
{
    return (int64_t)agent_now();
}

/* ---- tables ---- */

#define SLOT(id, function) \
    { \
        (id), (void (*)(void))(function) \
    }

const struct agent_slot agent_core[] = {
    SLOT(NVTX_CBID_CORE_MarkEx, cb_mark),
    SLOT(NVTX_CBID_CORE_MarkA, cb_mark_a),
    SLOT(NVTX_CBID_CORE_MarkW, cb_mark_w),
    SLOT(NVTX_CBID_CORE_RangeStartEx, cb_start),
    SLOT(NVTX_CBID_CORE_RangeStartA, cb_start_a),
    SLOT(NVTX_CBID_CORE_RangeStartW, cb_start_w),
    SLOT(NVTX_CBID_CORE_RangeEnd, cb_end),
    SLOT(NVTX_CBID_CORE_RangePushEx, cb_push),
    SLOT(NVTX_CBID_CORE_RangePushA, cb_push_a),
    SLOT(NVTX_CBID_CORE_RangePushW, cb_push_w),
    SLOT(NVTX_CBID_CORE_RangePop, cb_pop),
    SLOT(NVTX_CBID_CORE_NameCategoryA, cb_category_a),
    SLOT(NVTX_CBID_CORE_NameCategoryW, cb_category_w),
    SLOT(NVTX_CBID_CORE_NameOsThreadA, cb_thread_a),
    SLOT(NVTX_CBID_CORE_NameOsThreadW, cb_thread_w),
    {0, NULL},
};

const struct agent_slot agent_core2[] = {
    SLOT(NVTX_CBID_CORE2_DomainMarkEx, cb_domain_mark),
    SLOT(NVTX_CBID_CORE2_DomainRangeStartEx, cb_domain_start),
    SLOT(NVTX_CBID_CORE2_DomainRangeEnd, cb_domain_end),
    SLOT(NVTX_CBID_CORE2_DomainRangePushEx, cb_domain_push),
    SLOT(NVTX_CBID_CORE2_DomainRangePop, cb_domain_pop),
    SLOT(NVTX_CBID_CORE2_DomainNameCategoryA, cb_domain_category_a),
    SLOT(NVTX_CBID_CORE2_DomainNameCategoryW, cb_domain_category_w),
    SLOT(NVTX_CBID_CORE2_DomainRegisterStringA, cb_string_a),
    SLOT(NVTX_CBID_CORE2_DomainRegisterStringW, cb_string_w),
    SLOT(NVTX_CBID_CORE2_DomainCreateA, cb_domain_a),
    SLOT(NVTX_CBID_CORE2_DomainCreateW, cb_domain_w),
    SLOT(NVTX_CBID_CORE2_DomainDestroy, cb_domain_destroy),
    SLOT(NVTX_CBID_CORE2_Initialize, cb_initialize),
    {0, NULL},
};

const struct agent_slot agent_payload[] = {
    SLOT(NVTX3EXT_CBID_nvtxPayloadSchemaRegister, cb_schema),
    SLOT(NVTX3EXT_CBID_nvtxPayloadEnumRegister, cb_enum),
    SLOT(NVTX3EXT_CBID_nvtxMarkPayload, cb_payload_mark),
    SLOT(NVTX3EXT_CBID_nvtxRangePushPayload, cb_payload_push),
    SLOT(NVTX3EXT_CBID_nvtxRangePopPayload, cb_payload_pop),
    SLOT(NVTX3EXT_CBID_nvtxRangeStartPayload, cb_payload_start),
    SLOT(NVTX3EXT_CBID_nvtxRangeEndPayload, cb_payload_end),
    SLOT(NVTX3EXT_CBID_nvtxDomainIsEnabled, cb_enabled),
    SLOT(NVTX3EXT_CBID_nvtxScopeRegister, cb_scope),
    SLOT(NVTX3EXT_CBID_nvtxTimestampGet, cb_timestamp),
    {0, NULL},
};

const struct agent_slot agent_counters[] = {
    SLOT(NVTX3EXT_CBID_nvtxCounterRegister, agent_counter_register),
    SLOT(NVTX3EXT_CBID_nvtxCounterSampleInt64, agent_counter_int64),
    SLOT(NVTX3EXT_CBID_nvtxCounterSampleFloat64, agent_counter_float64),
    SLOT(NVTX3EXT_CBID_nvtxCounterSample, agent_counter_sample),
    SLOT(NVTX3EXT_CBID_nvtxCounterSampleNoValue, agent_counter_none),
    SLOT(NVTX3EXT_CBID_nvtxCounterBatchSubmit, agent_counter_batch),
    {0, NULL},
};
