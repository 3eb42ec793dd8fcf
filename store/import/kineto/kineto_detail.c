/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes details of the arguments of events. Most events have the same arguments as an earlier one,
 * so arguments are looked up by their bytes in the trace, and only new ones are parsed. The key of
 * a detail holds all that it is made from: one byte class, one byte pass, 4 bytes name (of copies,
 * whose name says their kind), then for each argument one byte id, 4 bytes length and its JSON
 * text.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto_private.h"
#include "tacho_hash.h"

/* The groups of arguments that a detail of this class is made from. */
static unsigned uses_of(enum kineto_class class)
{
    static const unsigned uses[] = {
        [KINETO_OP] = KINETO_USE_OP | KINETO_USE_COMM,
        [KINETO_ANNOTATION] = KINETO_USE_OP | KINETO_USE_COMM,
        [KINETO_PYTHON] = KINETO_USE_OP,
        [KINETO_RUNTIME] = KINETO_USE_KERNEL | KINETO_USE_COPY,
        [KINETO_DRIVER] = KINETO_USE_KERNEL | KINETO_USE_COPY,
        [KINETO_OVERHEAD] = 0,
        [KINETO_INSTANT] = KINETO_USE_MEMORY,
        [KINETO_OTHER] = KINETO_USE_OP | KINETO_USE_COMM,
        [KINETO_KERNEL] = KINETO_USE_KERNEL | KINETO_USE_COMM,
        [KINETO_MEMCPY] = KINETO_USE_COPY | KINETO_USE_COMM,
        [KINETO_MEMSET] = KINETO_USE_COPY,
        [KINETO_SYNC] = KINETO_USE_SYNC,
        [KINETO_GPU_ANNOTATION] = KINETO_USE_OP | KINETO_USE_COMM,
    };
    return uses[class];
}

#define KEY_HEAD 6

/* Starts the key of a detail. */
static void key_begin(struct kineto *kineto, enum kineto_class class, bool backward, uint32_t name)
{
    unsigned char head[KEY_HEAD] = {(unsigned char)class, backward};
    memcpy(head + 2, &name, 4);
    kineto->key.bytes = 0;
    kineto_text_put(&kineto->key, head, KEY_HEAD);
}

/* Appends an argument to the key. */
static void key_put(struct kineto *kineto, enum kineto_arg id, struct kj_span value)
{
    unsigned char head[5] = {(unsigned char)id};
    uint32_t bytes = (uint32_t)value.bytes;
    memcpy(head + 1, &bytes, 4);
    kineto_text_put(&kineto->key, head, 5);
    kineto_text_put(&kineto->key, value.text, value.bytes);
}

/* ---- from key to detail -------------------------------------------------------------------------------------------------- */

struct parts {
    enum kineto_class class;
    bool backward;
    uint32_t name;
    struct kj_span arg[KINETO_ARG_OTHER];
};

/* Takes a key apart again. */
static struct parts parts_of(const char *key, size_t bytes)
{
    struct parts parts = {.class = (enum kineto_class)key[0], .backward = key[1]};
    memcpy(&parts.name, key + 2, 4);
    for (size_t i = KEY_HEAD; i + 5 <= bytes;) {
        uint32_t length;
        memcpy(&length, key + i + 1, 4);
        parts.arg[(unsigned char)key[i]] = (struct kj_span){key + i + 5, length};
        i += 5 + length;
    }
    return parts;
}

static int64_t int_of(struct kj_span span)
{
    int64_t value;
    return kineto_int(span, &value) ? value : STORE_ABSENT;
}

/* "[13, 1, 1]", or the same in a string, as 13,1,1. Offset in the batch, 0: it is not three
 * numbers. */
static size_t put_dim3(struct kineto *kineto, struct kj_span span)
{
    char text[80];
    size_t bytes = 0;
    int commas = 0;
    span = kineto_inside(span);
    for (size_t i = 0; span.text && i < span.bytes; i++) {
        char letter = span.text[i];
        if (letter == '[' || letter == ']' || letter == ' ' || letter == '\n' || letter == '\t' ||
            letter == '\r')
            continue;
        if ((letter != ',' && (letter < '0' || letter > '9')) || bytes + 1 >= sizeof text)
            return 0;
        commas += letter == ',';
        text[bytes++] = letter;
    }
    return bytes && commas == 2 ? kineto_batch_text(kineto->batch, text, bytes) : 0;
}

/* Appends a text to the batch; its offset, 0 for NULL. */
static size_t put_text(struct kineto *kineto, const char *text)
{
    return text ? kineto_batch_text(kineto->batch, text, strlen(text)) : 0;
}

/* The names of types that PyTorch writes for collectives, and ours with the bytes of an element. */
static const struct {
    const char *torch, *name;
    int64_t bytes;
} dtypes[] = {
    {"Float", "fp32", 4},
    {"Double", "fp64", 8},
    {"Half", "fp16", 2},
    {"BFloat16", "bf16", 2},
    {"Long", "int64", 8},
    {"Int", "int32", 4},
    {"Short", "int16", 2},
    {"Char", "int8", 1},
    {"Byte", "uint8", 1},
    {"Bool", "bool", 1},
    {"Float8_e4m3fn", "fp8", 1},
    {"Float8_e5m2", "fp8", 1},
    {"Float8_e4m3fnuz", "fp8", 1},
    {"Float8_e5m2fnuz", "fp8", 1},
    {"ComplexFloat", "complex64", 8},
    {"ComplexDouble", "complex128", 16},
};

/* allreduce_coalesced -> all_reduce, _allgather_base -> all_gather; another name stays as it is. */
static size_t put_collective(struct kineto *kineto, struct kj_span span)
{
    kineto->scratch.bytes = 0;
    kineto_unescape(&kineto->scratch, span);
    const char *name = kineto->scratch.data;
    size_t bytes = kineto->scratch.bytes;
    const char *collective = store_collective(name, bytes, NULL);
    if (collective)
        return put_text(kineto, collective);
    for (; bytes && *name == '_'; name++)
        bytes--;
    return bytes ? kineto_batch_text(kineto->batch, name, bytes) : 0;
}

/* Of two texts. */
static uint64_t hash_of(struct kj_span first, struct kj_span second)
{
    uint64_t hash = tacho_hash_bytes(TACHO_HASH_BEGIN, first.text, first.bytes);
    hash = tacho_hash_bytes(hash, second.text, second.bytes);
    return hash ^ hash >> 29;
}

/* A communicator's id: the name or id of its group where that is a number, else a hash of name and
 * ranks (32 bit). */
static int64_t communicator_of(const struct parts *parts)
{
    int64_t id = int_of(parts->arg[KINETO_ARG_GROUP_NAME]);
    if (id == STORE_ABSENT)
        id = int_of(parts->arg[KINETO_ARG_GROUP_ID]);
    if (id != STORE_ABSENT || !parts->arg[KINETO_ARG_GROUP_NAME].text)
        return id;
    return (
        int64_t)(hash_of(parts->arg[KINETO_ARG_GROUP_NAME], parts->arg[KINETO_ARG_GROUP_RANKS]) &
                 0xffffffffu);
}

enum { T_DTYPE, T_PASS, T_KIND, T_SCHEMA, T_COLLECTIVE, T_COPY_KIND, T_GRID, T_BLOCK, T_PAYLOAD };

/* Fills what is known of a collective: kind, communicator, ranks, type, bytes. */
static void fill_comm(struct kineto *kineto, struct kineto_def *def, const struct parts *parts)
{
    int64_t in = int_of(parts->arg[KINETO_ARG_IN_ELEMENTS]),
            out = int_of(parts->arg[KINETO_ARG_OUT_ELEMENTS]);
    def->detail.ranks = int_of(parts->arg[KINETO_ARG_GROUP_SIZE]);
    def->detail.communicator = communicator_of(parts);
    if (parts->arg[KINETO_ARG_COLLECTIVE].text)
        def->detail_text[T_COLLECTIVE] = put_collective(kineto, parts->arg[KINETO_ARG_COLLECTIVE]);
    struct kj_span type = kineto_inside(parts->arg[KINETO_ARG_DTYPE]);
    for (size_t i = 0; type.text && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strlen(dtypes[i].torch) == type.bytes &&
            !memcmp(dtypes[i].torch, type.text, type.bytes)) {
            def->detail_text[T_DTYPE] = put_text(kineto, dtypes[i].name);
            int64_t elements = in > out ? in : out; /* the whole buffer, as nccl-tests counts */
            if (elements >= 0 && elements < INT64_MAX / 16)
                def->detail.bytes = elements * dtypes[i].bytes;
        }
    if (type.text && type.bytes && !def->detail_text[T_DTYPE])
        def->detail_text[T_DTYPE] = kineto_batch_text(kineto->batch, type.text, type.bytes);
}

/* The direction ("HtoD") that a name or an argument contains. NULL: none. */
static const char *copy_kind_in(struct kj_span span)
{
    static const struct {
        const char *text, *kind;
    } kinds[] = {{"HtoD", "HtoD"},         {"DtoH", "DtoH"},
                 {"DtoD", "DtoD"},         {"PtoP", "PtoP"},
                 {"HtoH", "HtoH"},         {"HostToDevice", "HtoD"},
                 {"DeviceToHost", "DtoH"}, {"DeviceToDevice", "DtoD"},
                 {"PeerToPeer", "PtoP"},   {"HostToHost", "HtoH"},
                 {"M2D", "HtoD"},          {"D2M", "DtoH"},
                 {"H2D", "HtoD"},          {"D2H", "DtoH"},
                 {"D2D", "DtoD"},          {"P2P", "PtoP"},
                 {"HtoA", "HtoD"},         {"AtoH", "DtoH"},
                 {"AtoA", "DtoD"},         {"AtoD", "DtoD"},
                 {"DtoA", "DtoD"}};
    for (size_t i = 0; span.text && i < sizeof kinds / sizeof *kinds; i++)
        if (memmem(span.text, span.bytes, kinds[i].text, strlen(kinds[i].text)))
            return kinds[i].kind;
    return NULL;
}

/* hipMemcpyKind and cudaMemcpyKind as numbers */
static const char *copy_kind_number(struct kj_span span)
{
    static const char *const kinds[] = {"HtoH", "HtoD", "DtoH", "DtoD"};
    int64_t value = int_of(span);
    return value >= 0 && value < 4 ? kinds[value] : NULL;
}

static struct kj_span string_text(const struct kineto *kineto, uint32_t number)
{
    const struct store_intern_entry *intern_entry = &kineto->strings.entry[number];
    return (struct kj_span){kineto->strings.arena + intern_entry->offset, intern_entry->bytes};
}

/* Kind of memory in "(Pageable -> Device)", lower case; `which` 0: left, 1: right, of "(Device)"
 * the only one. 0: none. */
static size_t memory_kind(struct kj_span name, int which, char out[32])
{
    const char *open = memchr(name.text, '(', name.bytes);
    const char *close = open ? memchr(open, ')', (size_t)(name.text + name.bytes - open)) : NULL;
    if (!close)
        return 0;
    const char *from = open + 1, *to = close;
    const char *arrow = memmem(from, (size_t)(to - from), "->", 2);
    if (arrow && which)
        from = arrow + 2;
    else if (arrow)
        to = arrow;
    while (from < to && *from == ' ')
        from++;
    while (to > from && to[-1] == ' ')
        to--;
    size_t bytes = (size_t)(to - from);
    if (!bytes || bytes >= 32)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        out[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + 32) : from[i];
    out[bytes] = 0;
    return bytes;
}

/* Fills what is known of a copy: bytes, direction, and the kind of the host's memory. The direction
 * is in the name or in an argument, and profilers spell it in many ways. */
static void fill_copy(struct kineto *kineto, struct kineto_def *def, const struct parts *parts)
{
    def->detail.bytes = int_of(parts->arg[KINETO_ARG_BYTES]);
    if (def->detail.bytes == STORE_ABSENT)
        def->detail.bytes = int_of(parts->arg[KINETO_ARG_SIZE]);
    if (parts->class == KINETO_MEMSET)
        return;
    struct kj_span name = string_text(kineto, parts->name),
                   arg = kineto_inside(parts->arg[KINETO_ARG_KIND]);
    const char *kind = copy_kind_in(name);
    if (!kind)
        kind = copy_kind_in(arg);
    if (!kind)
        kind = copy_kind_number(arg);
    if (parts->class != KINETO_MEMCPY && !kind)
        return;
    def->detail_text[T_COPY_KIND] = put_text(kineto, kind ? kind : "unknown");
    char left[32], right[32];
    if (parts->class != KINETO_MEMCPY || !memory_kind(name, 0, left) ||
        !memory_kind(name, 1, right))
        return;
    /* The kind of the host's memory decides how fast the copy can be. */
    static const char *const host[] = {"pageable", "pinned", "managed", "device"};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        if (!strcmp(left, host[i]) || !strcmp(right, host[i])) {
            if (i < 3 || !strcmp(left, right))
                def->detail_text[T_KIND] = put_text(kineto, host[i]);
            break;
        }
}

/* ---- payload ------------------------------------------------------------------------------------------------------------- */

/* Appends the key of a member to the payload. */
static void payload_key(struct kineto *kineto, const char *key)
{
    kineto_text_puts(&kineto->payload, kineto->payload.bytes > 1 ? ",\"" : "\"");
    kineto_text_puts(&kineto->payload, key);
    kineto_text_puts(&kineto->payload, "\":");
}

/* Texts that hold a list ("[0, 1]") are written as that list where they are one. */
static void payload_value(struct kineto *kineto, enum kineto_arg id, struct kj_span value)
{
    size_t mark = kineto->payload.bytes;
    struct kj_span inside = kineto_inside(value);
    if (kineto_is_null(value) || (kineto_is_string(value) && !inside.bytes))
        return;
    payload_key(kineto, kineto_arg_key(id));
    if (kineto_is_string(value) && inside.text[0] == '[' &&
        kineto_json_copy(&kineto->payload, inside))
        return;
    if (kineto_json_copy(&kineto->payload, value))
        return;
    kineto->payload.bytes = mark;
    kineto->loss[KINETO_LOSS_ARGS_BAD]++;
}

/* PyTorch of 2023 wrote 4294967295 for all streams where others write -1. The track is the same,
 * but HTA distinguishes them. */
static void payload_all_streams(struct kineto *kineto, struct kj_span value)
{
    if (!value.text || int_of(value) != UINT32_MAX)
        return;
    payload_key(kineto, "all_streams");
    kineto_text_puts(&kineto->payload, "true");
}

/* Appends the kinds of memory of a copy. */
static void payload_memory(struct kineto *kineto, const struct parts *parts)
{
    char text[32];
    struct kj_span name = string_text(kineto, parts->name);
    if (parts->class != KINETO_MEMCPY && parts->class != KINETO_MEMSET)
        return;
    if (parts->class == KINETO_MEMCPY && memory_kind(name, 0, text)) {
        payload_key(kineto, "src");
        kineto_json_string(&kineto->payload, text, strlen(text));
    }
    if (memory_kind(name, 1, text)) {
        payload_key(kineto, "dst");
        kineto_json_string(&kineto->payload, text, strlen(text));
    }
}

/* The schema of the payload, by class and by the arguments that are there; NULL: none. */
static const char *schema_of(const struct parts *parts)
{
    unsigned has = 0;
    for (int i = 0; i < KINETO_ARG_OTHER; i++)
        if (parts->arg[i].text)
            has |= kineto_arg_use((enum kineto_arg)i);
    switch (parts->class) {
    case KINETO_MEMCPY:
        return "gpu.memcpy";
    case KINETO_MEMSET:
        return "gpu.memset";
    case KINETO_SYNC:
        return "gpu.sync";
    case KINETO_RUNTIME:
    case KINETO_DRIVER:
        return has & KINETO_USE_KERNEL ? "gpu.kernel" : "gpu.memcpy";
    case KINETO_KERNEL:
        return parts->arg[KINETO_ARG_COLLECTIVE].text ? "torch.comm" : "gpu.kernel";
    case KINETO_INSTANT:
        return "torch.memory";
    case KINETO_ANNOTATION:
        if (parts->arg[KINETO_ARG_STEP_NUM].text) /* StepTraceAnnotation of JAX */
            return "tacho.step";
        /* fallthrough */
    default:
        if (parts->arg[KINETO_ARG_COLLECTIVE].text)
            return "torch.comm";
        return has ? "torch.op" : NULL;
    }
}

/* Builds the detail of a new key and adds it to the batch. */
static int detail_build(struct kineto *kineto, const char *key, size_t bytes)
{
    struct parts parts = parts_of(key, bytes);
    struct kineto_def *def = kineto_batch_def(kineto->batch, KINETO_DEF_DETAIL);
    if (!def)
        return kineto_no_memory(kineto);
    def->detail = (struct store_detail)STORE_DETAIL_NONE;
    unsigned uses = uses_of(parts.class);
    def->detail_text[T_PASS] = parts.backward ? put_text(kineto, "backward") : 0;
    def->detail_text[T_SCHEMA] = put_text(kineto, schema_of(&parts));
    def->detail_text[T_GRID] = put_dim3(kineto, parts.arg[KINETO_ARG_GRID]);
    def->detail_text[T_BLOCK] = put_dim3(kineto, parts.arg[KINETO_ARG_BLOCK]);
    if (uses & KINETO_USE_COPY)
        fill_copy(kineto, def, &parts);
    if (uses & KINETO_USE_COMM)
        fill_comm(kineto, def, &parts);
    if (uses & KINETO_USE_MEMORY)
        def->detail.bytes = int_of(parts.arg[KINETO_ARG_MEMORY_BYTES]);
    kineto->payload.bytes = 0;
    kineto_text_put(&kineto->payload, "{", 1);
    for (int i = 0; i < KINETO_ARG_OTHER; i++)
        if (parts.class == KINETO_SYNC && i == KINETO_ARG_STREAM)
            payload_all_streams(kineto, parts.arg[i]);
        else if (parts.arg[i].text && kineto_arg_key((enum kineto_arg)i))
            payload_value(kineto, (enum kineto_arg)i, parts.arg[i]);
    payload_memory(kineto, &parts);
    if (kineto->payload.bytes > 1) {
        kineto_text_put(&kineto->payload, "}", 1);
        def->detail_text[T_PAYLOAD] =
            kineto_batch_text(kineto->batch, kineto->payload.data, kineto->payload.bytes);
    }
    return kineto->payload.failed || kineto->scratch.failed || kineto->batch->text.failed
               ? kineto_no_memory(kineto)
               : kineto->code;
}

/* The number of the detail whose key is kineto->key; a new one is built. */
static uint32_t detail_number(struct kineto *kineto)
{
    int64_t id;
    bool added;
    if (kineto->key.failed ||
        store_intern_put(&kineto->details, kineto->key.data, kineto->key.bytes, &id, &added)) {
        kineto_no_memory(kineto);
        return KINETO_NONE;
    }
    if (added)
        detail_build(kineto, kineto->key.data, kineto->key.bytes);
    return (uint32_t)(id - 1);
}

/* Remembers the name of an argument that no rule knows; a run key lists them. */
static void note_unknown(struct kineto *kineto, struct kj_span key)
{
    int64_t id;
    bool added;
    if (kineto->unknown_args.count < 64 && key.bytes < 64)
        /* Without memory one name is missing from the list. */
        store_intern_put(&kineto->unknown_args, key.text, key.bytes, &id, &added);
}

uint32_t kineto_detail(struct kineto *kineto, const struct kj_event *event, enum kineto_class class,
                       uint32_t name, bool backward)
{
    unsigned uses = uses_of(class);
    bool copy = class == KINETO_MEMCPY || class == KINETO_MEMSET;
    key_begin(kineto, class, backward, copy ? name : 0);
    for (size_t i = 0; i < event->arg_count; i++) {
        const struct kj_arg *arg = &event->arg[i];
        if (arg->id == KINETO_ARG_OTHER)
            note_unknown(kineto, arg->key);
        else if (kineto_arg_use(arg->id) & uses)
            key_put(kineto, arg->id, arg->value);
    }
    return kineto->key.bytes == KEY_HEAD && !backward && !copy ? KINETO_NONE
                                                               : detail_number(kineto);
}

uint32_t kineto_detail_backward(struct kineto *kineto, uint32_t number, enum kineto_class class)
{
    if (number == KINETO_NONE) {
        key_begin(kineto, class, true, 0);
    } else {
        const struct store_intern_entry *intern_entry = &kineto->details.entry[number];
        if (kineto->details.arena[intern_entry->offset + 1]) /* it is one: arguments may be large */
            return number;
        kineto->key.bytes = 0;
        kineto_text_put(&kineto->key, kineto->details.arena + intern_entry->offset,
                        intern_entry->bytes);
        if (!kineto->key.failed)
            kineto->key.data[1] = 1;
    }
    return detail_number(kineto);
}
