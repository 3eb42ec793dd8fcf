/* SPDX-License-Identifier: Apache-2.0
 *
 * libtacho.so loaded into this very process by the NVTX headers, and its pool read back: every call
 * of NVTX that the agent knows, as a record.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tacho_nvtx.h"
#include "tests/targets/pool_reader.h"

#define KEPT 4096

static char folder[] = "/tmp/tacho-agent-XXXXXX", library[4096];
static struct pool_reader reader;
static struct tacho_nvtx nvtx;

/* What was recorded since the last look. Payloads are copied: the segment may be used again. */
static struct {
    struct pool_event event;
    struct wire_record record;
    char payload[WIRE_PAYLOAD_MAX];
} seen[KEPT];
static int seen_count;

static void keep(const struct pool_reader *r, const struct pool_event *e, void *arg)
{
    (void)r;
    (void)arg;
    if (seen_count == KEPT)
        return;
    seen[seen_count].event = *e;
    seen[seen_count].record = *e->record;
    seen[seen_count].event.record = &seen[seen_count].record;
    if (e->payload)
        memcpy(seen[seen_count].payload, e->payload, e->payload_bytes);
    seen_count++;
}

static int look(void)
{
    seen_count = 0;
    if (!reader.pool) {
        char path[4096];
        snprintf(path, sizeof path, "%s/pool.%d.0", folder, (int)getpid());
        assert_int_equal(pool_open(&reader, path), 0);
    }
    assert_true(pool_drain(&reader, keep, NULL, true) >= 0);
    return seen_count;
}

static const char *name_of(int i)
{
    return pool_name(&reader, seen[i].record.name);
}

static unsigned kind_of(int i)
{
    return seen[i].event.kind;
}

static uint64_t lost(enum wire_loss_reason reason)
{
    return atomic_load(&reader.pool->loss[reason].count);
}

static nvtxEventAttributes_t attributes(const char *text)
{
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = text};
}

/* ---- off ---- */

static NvtxFunctionPointer own_function[32];

static int NVTX_API own_table(NvtxCallbackModule module, NvtxFunctionTable *table,
                              unsigned int *size)
{
    static NvtxFunctionPointer *slots[32];
    for (int i = 0; i < 32; i++)
        slots[i] = &own_function[i];
    *table = slots;
    *size = module == NVTX_CB_MODULE_CORE2 ? 32 : 0;
    return 1;
}

static const void *NVTX_API own_export(uint32_t id)
{
    static const NvtxExportTableCallbacks tables = {sizeof tables, own_table};
    return id == NVTX_ETID_CALLBACKS ? &tables : NULL;
}

static int attach(void)
{
    void *handle = dlopen(library, RTLD_NOW);
    NvtxInitializeInjectionNvtxFunc_t init = NULL;
    if (handle)
        *(void **)&init = dlsym(handle, "InitializeInjectionNvtx2");
    return init ? init(own_export) : -1;
}

/* First of all tests: nothing of this process has called NVTX yet. */
static void test_off_without_folder(void **state)
{
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        unsetenv(WIRE_ENV_SEGMENTS);
        int rc = attach();
        for (int i = 0; i < 32; i++)
            rc |= own_function[i] != NULL;
        _exit(rc);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    DIR *d = opendir(folder);
    int files = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        files += e->d_name[0] != '.';
    closedir(d);
    assert_int_equal(files, 0);
}

/* ---- ranges ---- */

static void test_nesting(void **state)
{
    (void)state;
    errno = EDOM;
    assert_int_equal(nvtxRangePushA("outer"), 0);
    assert_int_equal(nvtxRangePushW(L"größer 東"), 1);
    assert_int_equal(tacho_nvtx_name(&nvtx, "registered") != NULL, 1);
    assert_int_equal(nvtxRangePop(), 1);
    assert_int_equal(nvtxRangePop(), 0);
    assert_true(nvtxRangePop() < 0);
    assert_int_equal(errno, EDOM);
    assert_int_equal(look(), 4);
    assert_string_equal(name_of(0), "outer");
    assert_string_equal(name_of(1), "größer 東");
    assert_int_equal(kind_of(0), WIRE_PUSH);
    assert_int_equal(kind_of(2), WIRE_POP);
    assert_int_equal(seen[1].record.depth, 1);
    assert_int_equal(seen[2].record.depth, 1);
    assert_int_equal(seen[3].record.depth, 0);
    assert_int_equal(seen[0].record.domain, 0);
    assert_true(seen[0].record.time < seen[3].record.time);
    assert_int_equal(lost(WIRE_LOSS_UNBALANCED), 1);
}

static void test_domains_nest_apart(void **state)
{
    nvtxDomainHandle_t a = nvtxDomainCreateA("domain a"), b = nvtxDomainCreateW(L"domain b"),
                       again = nvtxDomainCreateA("domain a");
    nvtxEventAttributes_t e = attributes("in a domain");
    (void)state;
    assert_ptr_equal(a, again);
    assert_ptr_not_equal(a, b);
    e.category = 3;
    nvtxDomainNameCategoryA(a, 3, "third");
    assert_int_equal(nvtxDomainRangePushEx(a, &e), 0);
    assert_int_equal(nvtxDomainRangePushEx(b, &e), 0);
    assert_int_equal(nvtxDomainRangePop(a), 0);
    assert_int_equal(nvtxDomainRangePop(b), 0);
    nvtxDomainMarkEx(a, &e);
    nvtxDomainDestroy(b);
    assert_int_equal(look(), 5);
    uint32_t index = seen[0].record.domain;
    assert_string_equal(pool_name(&reader, atomic_load(&reader.pool->domain_name[index])),
                        "domain a");
    assert_int_not_equal(index, seen[1].record.domain);
    assert_int_equal(seen[0].event.category, 3);
    assert_string_equal(pool_name(&reader, seen[0].event.category_name), "third");
    assert_int_equal(seen[1].event.category_name, 0);
    assert_int_equal(kind_of(4), WIRE_MARK);
}

static void test_deep(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++)
        assert_int_equal(nvtxRangePushA("deep"), i);
    for (int i = 400; i-- > 0;)
        assert_int_equal(nvtxRangePop(), i);
    assert_int_equal(look(), 800);
    assert_int_equal(seen[254].record.depth, 254);
    assert_int_equal(seen[255].record.depth, 255);
    assert_int_equal(seen[399].record.depth, 255);
    assert_int_equal(seen[400].record.depth, 255);
    assert_int_equal(seen[799].record.depth, 0);
}

static nvtxRangeId_t crossing;

static void *end_it(void *arg)
{
    (void)arg;
    nvtxRangeEnd(crossing);
    return NULL;
}

static void test_start_end(void **state)
{
    pthread_t thread;
    nvtxRangeId_t first = nvtxRangeStartA("first"), second = nvtxRangeStartW(L"second");
    nvtxEventAttributes_t e = attributes("third");
    (void)state;
    crossing = nvtxDomainRangeStartEx(nvtx.domain, &e);
    assert_true(first != second && second != crossing && first && second && crossing);
    nvtxRangeEnd(first);
    nvtxRangeEnd(second);
    pthread_create(&thread, NULL, end_it, NULL);
    pthread_join(thread, NULL);
    int n = look(), ends = 0;
    for (int i = 0; i < n; i++) {
        if (kind_of(i) == WIRE_START)
            assert_true(seen[i].event.range == first || seen[i].event.range == second ||
                        seen[i].event.range == crossing);
        ends += kind_of(i) == WIRE_END &&
                (seen[i].event.range == first || seen[i].event.range == second);
        if (kind_of(i) == WIRE_END && seen[i].event.range == crossing)
            assert_int_not_equal(seen[i].event.tid, (uint32_t)getpid());
    }
    assert_int_equal(ends, 2);
}

/* ---- payloads ---- */

static void test_work(void **state)
{
    struct tacho_work w = {.flops = 1,
                           .bytes_read = 2,
                           .bytes_written = 3,
                           .model_flops = 4,
                           .palm_flops = 5,
                           .dtype = 6,
                           .pass = 1};
    (void)state;
    tacho_nvtx_push_work(&nvtx, tacho_nvtx_name(&nvtx, "matmul"), &w);
    tacho_nvtx_pop(&nvtx);
    assert_int_equal(look(), 2);
    assert_string_equal(name_of(0), "matmul");
    assert_int_equal(seen[0].event.payload_bytes, sizeof w);
    assert_memory_equal(seen[0].payload, &w, sizeof w);
    const struct wire_text *text = pool_text(&reader, seen[0].event.schema);
    assert_int_equal(text->type, WIRE_TEXT_SCHEMA);
    assert_string_equal(text->text,
                        "tacho.work\t48\nflops\t18\t0\nbytes_read\t18\t8\nbytes_"
                        "written\t18\t16\nmodel_flops\t18\t24\n"
                        "palm_flops\t18\t32\ndtype\t12\t40\npass\t12\t41\nkind\t12\t42");
}

static void mark_with(uint64_t schema, const void *data, size_t bytes)
{
    nvtxPayloadData_t payload = {schema, bytes, data};
    nvtxEventAttributes_t e = attributes("payload");
    e.payloadType = (int32_t)NVTX_PAYLOAD_TYPE_EXT;
    e.reserved0 = 1;
    e.payload.ullValue = (uint64_t)(uintptr_t)&payload;
    nvtxDomainMarkEx(nvtx.domain, &e);
}

/* Without offsets, with a nested schema, an array, a pointer and a field after it. */
static uint64_t register_outer(uint64_t inner)
{
    static nvtxPayloadSchemaEntry_t fields[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8, .name = "small"},
        {.name = "in\tner"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_SHORT,
         .name = "dims",
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE,
         .arrayOrUnionDetail = 2},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, .name = "text", .arrayOrUnionDetail = 8},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT32,
         .name = "elsewhere",
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_POINTER},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE, .name = "size"}};
    fields[1].type = inner;
    return tacho_nvtx_schema(nvtx.domain, "outer", fields, 6, 48);
}

static void test_schemas(void **state)
{
    static const nvtxPayloadSchemaEntry_t pair[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, .name = "x"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, .name = "y"}};
    nvtxPayloadSchemaAttr_t a = {.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME |
                                              NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                                              NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                                              NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID,
                                 .name = "pair",
                                 .entries = pair,
                                 .numEntries = 2,
                                 .schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5};
    char data[48] = {0};
    int64_t number = -7;
    (void)state;
    uint64_t id = nvtxPayloadSchemaRegister(nvtx.domain, &a);
    assert_int_equal(id, NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5);
    uint64_t outer = register_outer(id);
    assert_true(outer >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
    assert_int_equal(register_outer(id), outer);
    mark_with(id, data, 16);
    mark_with(outer, data, sizeof data);
    mark_with(NVTX_PAYLOAD_ENTRY_TYPE_INT64, &number, SIZE_MAX);
    mark_with(NVTX_TYPE_PAYLOAD_SCHEMA_RAW, data, 5);
    mark_with(NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 99, data, 8);
    assert_int_equal(look(), 5);
    assert_string_equal(pool_name(&reader, seen[0].event.schema), "pair\t16\nx\t19\t0\ny\t20\t8");
    assert_string_equal(pool_name(&reader, seen[1].event.schema),
                        "outer\t48\nsmall\t12\t0\nin ner.x\t19\t8\nin "
                        "ner.y\t20\t16\ndims[0]\t13\t24\ndims[1]\t13\t26\n"
                        "text\t75\t28\t8\nelsewhere\t23\t40\nsize\t18\t48");
    assert_string_equal(pool_name(&reader, seen[2].event.schema), "nvtx.int64\t8\nvalue\t17\t0");
    assert_int_equal(seen[2].event.payload_bytes, 8);
    assert_memory_equal(seen[2].payload, &number, 8);
    assert_int_equal(seen[3].event.schema, 0);
    assert_int_equal(seen[3].event.payload_bytes, 5);
    assert_int_equal(seen[4].event.schema, 0);
}

static void test_payload_cut(void **state)
{
    char big[200];
    uint64_t before = lost(WIRE_LOSS_PAYLOAD_CUT);
    (void)state;
    memset(big, 'q', sizeof big);
    mark_with(nvtx.work, big, sizeof big);
    assert_int_equal(look(), 1);
    assert_int_equal(seen[0].event.payload_bytes, WIRE_PAYLOAD_MAX);
    assert_memory_equal(seen[0].payload, big, WIRE_PAYLOAD_MAX);
    assert_int_equal(lost(WIRE_LOSS_PAYLOAD_CUT), before + 1);
}

static void test_scalars(void **state)
{
    nvtxEventAttributes_t e = attributes("scalar");
    double d = 2.5;
    int32_t i = -3;
    (void)state;
    e.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    e.payload.dValue = d;
    nvtxMarkEx(&e);
    e.payloadType = NVTX_PAYLOAD_TYPE_INT32;
    e.payload.iValue = i;
    nvtxMarkEx(&e);
    assert_int_equal(look(), 2);
    assert_string_equal(pool_name(&reader, seen[0].event.schema), "nvtx.double\t8\nvalue\t20\t0");
    assert_memory_equal(seen[0].payload, &d, 8);
    assert_int_equal(seen[1].event.payload_bytes, 4);
    assert_memory_equal(seen[1].payload, &i, 4);
}

/* The calls of the payload extension, which carry the name inside. */
static void test_payload_calls(void **state)
{
    static const nvtxPayloadSchemaEntry_t fields[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE,
         .name = "message",
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT32, .name = "value", .offset = 8}};
    struct {
        nvtxStringHandle_t message;
        uint32_t value;
    } data = {tacho_nvtx_name(&nvtx, "named inside"), 9};
    uint64_t id = tacho_nvtx_schema(nvtx.domain, "with message", fields, 2, sizeof data);
    nvtxPayloadData_t p = {id, sizeof data, &data};
    (void)state;
    assert_int_equal(nvtxRangePushPayload(nvtx.domain, &p, 1), 0);
    nvtxMarkPayload(nvtx.domain, &p, 1);
    nvtxRangeId_t range = nvtxRangeStartPayload(nvtx.domain, &p, 1);
    nvtxRangeEndPayload(nvtx.domain, range, &p, 1);
    assert_int_equal(nvtxRangePopPayload(nvtx.domain, &p, 1), 0);
    assert_int_equal(nvtxDomainIsEnabled(nvtx.domain), 1);
    assert_int_equal(look(), 5);
    assert_string_equal(name_of(0), "named inside");
    assert_string_equal(name_of(1), "named inside");
    assert_string_equal(name_of(2), "named inside");
    assert_int_equal(seen[3].event.range, range);
    assert_int_equal(kind_of(4), WIRE_POP);
    assert_int_equal(seen[4].event.payload_bytes, sizeof data);
    assert_string_equal(pool_name(&reader, seen[0].event.schema), "with message\t16\nvalue\t16\t8");
}

/* ---- names ---- */

static void test_long_names(void **state)
{
    static char text[3000];
    uint64_t before = lost(WIRE_LOSS_STRING_CUT);
    (void)state;
    memset(text, 'a', sizeof text - 1);
    memcpy(text + WIRE_STRING_MAX - 1, "ä", 2); /* a character across the cut */
    nvtxMarkA(text);
    nvtxMarkA(NULL);
    nvtxMarkA("");
    assert_int_equal(look(), 3);
    assert_int_equal(pool_text(&reader, seen[0].record.name)->bytes, WIRE_STRING_MAX - 1);
    assert_int_equal(seen[1].record.name, 0);
    assert_int_equal(seen[2].record.name, 0);
    assert_int_equal(lost(WIRE_LOSS_STRING_CUT), before + 1);
}

static void *named_thread(void *arg)
{
    nvtxNameOsThreadA((uint32_t)gettid(), "worker by name");
    nvtxMarkA("here");
    *(uint32_t *)arg = (uint32_t)gettid();
    return NULL;
}

static void test_thread_names(void **state)
{
    pthread_t thread;
    uint32_t tid = 0;
    int found = 0;
    (void)state;
    pthread_create(&thread, NULL, named_thread, &tid);
    pthread_join(thread, NULL);
    int n = look();
    for (int i = 0; i < n; i++)
        found += kind_of(i) == WIRE_THREAD && seen[i].event.tid == tid &&
                 !strcmp(name_of(i), "worker by name");
    assert_int_equal(found, 1);
}

/* ---- counters ---- */

static double value_of(int i)
{
    double d;
    memcpy(&d, &seen[i].event.value, 8);
    return d;
}

static void test_counters(void **state)
{
    uint64_t loss = tacho_nvtx_counter(&nvtx, "loss");
    nvtxCounterAttr_t a = {
        .structSize = sizeof a, .schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT32, .name = "queue"};
    uint64_t queue = nvtxCounterRegister(nvtx.domain, &a);
    int32_t depth = -4;
    (void)state;
    assert_int_equal(tacho_nvtx_counter(&nvtx, "loss"), loss);
    tacho_nvtx_sample(&nvtx, loss, 0.25);
    nvtxCounterSampleInt64(nvtx.domain, queue, 12);
    nvtxCounterSample(nvtx.domain, queue, &depth, sizeof depth);
    nvtxCounterSampleNoValue(nvtx.domain, queue, NVTX_COUNTER_SAMPLE_UNAVAILABLE);
    assert_int_equal(look(), 4);
    char text[64];
    snprintf(text, sizeof text, "loss\t%u\t%u", seen[0].record.domain,
             NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE);
    assert_string_equal(name_of(0), text);
    assert_int_equal(pool_text(&reader, seen[0].record.name)->type, WIRE_TEXT_COUNTER);
    assert_int_equal(seen[0].record.depth, WIRE_VALUE_F64);
    assert_true(value_of(0) == 0.25);
    assert_int_equal(seen[1].record.depth, WIRE_VALUE_I64);
    assert_int_equal(seen[1].event.value, 12);
    assert_int_equal((int64_t)seen[2].event.value, -4);
    assert_int_equal(seen[3].record.depth, WIRE_VALUE_NONE);
}

static void test_counter_groups(void **state)
{
    static const nvtxPayloadSchemaEntry_t fields[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, .name = "temperature"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT32, .name = "power", .offset = 8}};
    struct {
        double temperature;
        uint32_t power;
    } one = {40.5, 300}, batch[3] = {{1, 10}, {2, 20}, {3, 30}};
    nvtxCounterAttr_t a = {.structSize = sizeof a, .name = "gpu"};
    a.schemaId = tacho_nvtx_schema(nvtx.domain, "gpu fields", fields, 2, sizeof one);
    a.counterId = NVTX_COUNTER_ID_STATIC_START + 3;
    uint64_t id = nvtxCounterRegister(nvtx.domain, &a);
    (void)state;
    assert_int_equal(id, NVTX_COUNTER_ID_STATIC_START + 3);
    nvtxCounterSample(nvtx.domain, id, &one, sizeof one);
    int64_t times[3] = {nvtxTimestampGet(), nvtxTimestampGet(), 5};
    nvtxCounterBatch_t b = {.counterId = id,
                            .counters = batch,
                            .countersSize = sizeof batch,
                            .timestamps = times,
                            .timestampsSize = sizeof times};
    nvtxCounterBatchSubmit(nvtx.domain, &b);
    assert_int_equal(look(), 6);
    assert_int_equal(strncmp(name_of(0), "gpu.temperature\t", 16), 0);
    assert_int_equal(strncmp(name_of(1), "gpu.power\t", 10), 0);
    assert_true(value_of(0) == 40.5);
    assert_int_equal(seen[1].event.value, 300);
    assert_int_equal(seen[0].record.time, seen[1].record.time);
    assert_true(value_of(2) == 1);
    assert_int_equal(seen[2].record.time, times[0]);
    assert_int_equal(seen[5].event.value, 20);
    assert_int_equal(lost(WIRE_LOSS_NO_TIME),
                     2); /* the third sample's time is before the process began */
}

/* ---- attachment, segments ---- */

/* Another loaded object has tables of its own; its events go to the same pool and thread. */
static void test_second_object(void **state)
{
    (void)state;
    assert_int_equal(attach(), 1);
    assert_non_null(own_function[NVTX_CBID_CORE2_DomainMarkEx]);
    nvtxEventAttributes_t e = attributes("from another object");
    nvtxMarkA("from this object");
    ((nvtxDomainMarkEx_impl_fntype)own_function[NVTX_CBID_CORE2_DomainMarkEx])(nvtx.domain, &e);
    assert_int_equal(look(), 2);
    assert_string_equal(name_of(1), "from another object");
    assert_int_equal(seen[0].event.thread, seen[1].event.thread);
}

static atomic_int writers;

static void *write_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100000; i++) {
        nvtxRangePushA("many");
        nvtxRangePop();
    }
    atomic_fetch_sub(&writers, 1);
    return NULL;
}

static void count_only(const struct pool_reader *r, const struct pool_event *e, void *arg)
{
    uint64_t *count = arg;
    (void)r;
    count[e->kind]++;
}

/* Segments go round between writers and a reader that gives them back; nothing is lost or seen
 * twice. */
static void test_recycling(void **state)
{
    pthread_t thread[4];
    uint64_t count[16] = {0}, before = lost(WIRE_LOSS_NO_SEGMENT);
    (void)state;
    writers = 4;
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, write_many, NULL);
    while (atomic_load(&writers)) {
        assert_true(pool_drain(&reader, count_only, count, true) >= 0);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_true(pool_drain(&reader, count_only, count, true) >= 0);
    assert_int_equal(count[WIRE_PUSH] + count[WIRE_POP] + lost(WIRE_LOSS_NO_SEGMENT) - before,
                     800000);
    assert_true(count[WIRE_PUSH] > 100000);
}

/* Last: it fills the table of domains. */
static void test_domain_table(void **state)
{
    nvtxDomainHandle_t last = NULL, other;
    char text[32];
    (void)state;
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "domain number %d", i);
        last = nvtxDomainCreateA(text);
    }
    other = nvtxDomainCreateA("one more");
    assert_ptr_equal(last, other);
    assert_ptr_equal(nvtxDomainCreateA("domain number 3"), nvtxDomainCreateA("domain number 3"));
    nvtxEventAttributes_t e = attributes("somewhere");
    nvtxDomainMarkEx(other, &e);
    assert_int_equal(look(), 1);
    assert_int_equal(seen[0].record.domain, WIRE_DOMAINS - 1);
    assert_string_equal(
        pool_name(&reader, atomic_load(&reader.pool->domain_name[WIRE_DOMAINS - 1])),
        "(other domains)");
    assert_true(lost(WIRE_LOSS_DOMAIN_FULL) > 0);
}

static int begin(void **state)
{
    (void)state;
    tacho_nvtx_open(&nvtx, "libtrain");
    return nvtx.work ? 0 : -1;
}

static int end(void **state)
{
    DIR *d = opendir(folder);
    (void)state;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    return rmdir(folder);
}

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", library, sizeof library - 32);
    if (n < 0 || !mkdtemp(folder))
        return 1;
    library[n] = 0;
    for (int up = 0; up < 4; up++) /* BUILD/tests/unit/agent/test_agent_record */
        *strrchr(library, '/') = 0;
    strcat(library, "/libtacho.so");
    setenv("NVTX_INJECTION64_PATH", library, 1);
    setenv(WIRE_ENV_SEGMENTS, folder, 1);
    setenv(WIRE_ENV_POOL_MIB, "8", 1);
    const struct CMUnitTest off[] = {cmocka_unit_test(test_off_without_folder)};
    const struct CMUnitTest on[] = {
        cmocka_unit_test(test_nesting),        cmocka_unit_test(test_domains_nest_apart),
        cmocka_unit_test(test_deep),           cmocka_unit_test(test_start_end),
        cmocka_unit_test(test_work),           cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_payload_cut),    cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_payload_calls),  cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_thread_names),   cmocka_unit_test(test_counters),
        cmocka_unit_test(test_counter_groups), cmocka_unit_test(test_second_object),
        cmocka_unit_test(test_recycling),      cmocka_unit_test(test_domain_table)};
    int rc = cmocka_run_group_tests_name("agent off", off, NULL, NULL);
    return rc + cmocka_run_group_tests_name("agent", on, begin, end);
}
