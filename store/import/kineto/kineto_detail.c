/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of an event that repeat become a detail. Most events have arguments that were seen
 * before, so they are looked up by their bytes as they stand in the trace; only what is new is
 * taken apart. The key of a detail is also all that it is made from: one byte class, one byte pass,
 * 4 bytes name (of copies, whose kind stands there), then for each argument one byte id, 4 bytes
 * length and its JSON text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/kineto/kineto.h"

static unsigned uses_of(enum kineto_class c)
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
    return uses[c];
}

#define KEY_HEAD 6

static void key_begin(struct kineto *k, enum kineto_class c, bool backward, uint32_t name)
{
    unsigned char head[KEY_HEAD] = {(unsigned char)c, backward};
    memcpy(head + 2, &name, 4);
    k->key.n = 0;
    kineto_text_put(&k->key, head, KEY_HEAD);
}

static void key_put(struct kineto *k, enum kineto_arg id, struct kj_span value)
{
    unsigned char head[5] = {(unsigned char)id};
    uint32_t n = (uint32_t)value.n;
    memcpy(head + 1, &n, 4);
    kineto_text_put(&k->key, head, 5);
    kineto_text_put(&k->key, value.p, value.n);
}

/* ---- from key to detail -------------------------------------------------------------------------------------------------- */

struct parts {
    enum kineto_class class;
    bool backward;
    uint32_t name;
    struct kj_span arg[KINETO_ARG_OTHER];
};

static struct parts parts_of(const char *key, size_t n)
{
    struct parts p = {.class = (enum kineto_class)key[0], .backward = key[1]};
    memcpy(&p.name, key + 2, 4);
    for (size_t i = KEY_HEAD; i + 5 <= n;) {
        uint32_t bytes;
        memcpy(&bytes, key + i + 1, 4);
        p.arg[(unsigned char)key[i]] = (struct kj_span){key + i + 5, bytes};
        i += 5 + bytes;
    }
    return p;
}

static int64_t int_of(struct kj_span s)
{
    int64_t v;
    return kineto_int(s, &v) ? v : STORE_ABSENT;
}

/* "[13, 1, 1]", or the same in a string, as 13,1,1. Offset in the batch, 0: it is not three
 * numbers. */
static size_t put_dim3(struct kineto *k, struct kj_span s)
{
    char text[80];
    size_t n = 0;
    int commas = 0;
    s = kineto_inside(s);
    for (size_t i = 0; s.p && i < s.n; i++) {
        char c = s.p[i];
        if (c == '[' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r')
            continue;
        if ((c != ',' && (c < '0' || c > '9')) || n + 1 >= sizeof text)
            return 0;
        commas += c == ',';
        text[n++] = c;
    }
    return n && commas == 2 ? kineto_batch_text(k->batch, text, n) : 0;
}

static size_t put_text(struct kineto *k, const char *text)
{
    return text ? kineto_batch_text(k->batch, text, strlen(text)) : 0;
}

/* PyTorch's names of types, as they stand in collectives, and ours with the bytes of an element. */
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

static const struct {
    const char *begins, *name;
} collectives[] = {
    {"all_to_all", "all_to_all"},
    {"alltoall", "all_to_all"},
    {"allreduce", "all_reduce"},
    {"all_reduce", "all_reduce"},
    {"reduce_scatter", "reduce_scatter"},
    {"reducescatter", "reduce_scatter"},
    {"allgather", "all_gather"},
    {"all_gather", "all_gather"},
    {"broadcast", "broadcast"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"reduce", "reduce"},
    {"send", "send"},
    {"recv", "recv"},
    {"barrier", "barrier"},
};

/* allreduce_coalesced -> all_reduce, _allgather_base -> all_gather; another name stays as it is. */
static size_t put_collective(struct kineto *k, struct kj_span s)
{
    k->scratch.n = 0;
    kineto_unescape(&k->scratch, s);
    const char *p = k->scratch.p;
    size_t n = k->scratch.n;
    for (; n && *p == '_'; p++)
        n--;
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        size_t m = strlen(collectives[i].begins);
        if (n >= m && !memcmp(p, collectives[i].begins, m))
            return put_text(k, collectives[i].name);
    }
    return n ? kineto_batch_text(k->batch, p, n) : 0;
}

static uint64_t hash_of(struct kj_span a, struct kj_span b)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < a.n; i++)
        h = (h ^ (unsigned char)a.p[i]) * 0x100000001b3u;
    for (size_t i = 0; i < b.n; i++)
        h = (h ^ (unsigned char)b.p[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

/* A communicator's id: the name or id of its group where that is a number, else a hash of name and
 * ranks (32 bit). */
static int64_t communicator_of(const struct parts *p)
{
    int64_t id = int_of(p->arg[KINETO_ARG_GROUP_NAME]);
    if (id == STORE_ABSENT)
        id = int_of(p->arg[KINETO_ARG_GROUP_ID]);
    if (id != STORE_ABSENT || !p->arg[KINETO_ARG_GROUP_NAME].p)
        return id;
    return (int64_t)(hash_of(p->arg[KINETO_ARG_GROUP_NAME], p->arg[KINETO_ARG_GROUP_RANKS]) &
                     0xffffffffu);
}

enum { T_DTYPE, T_PASS, T_KIND, T_SCHEMA, T_COLLECTIVE, T_COPY_KIND, T_GRID, T_BLOCK, T_PAYLOAD };

static void fill_comm(struct kineto *k, struct kineto_def *d, const struct parts *p)
{
    int64_t in = int_of(p->arg[KINETO_ARG_IN_ELEMENTS]),
            out = int_of(p->arg[KINETO_ARG_OUT_ELEMENTS]);
    d->detail.ranks = int_of(p->arg[KINETO_ARG_GROUP_SIZE]);
    d->detail.communicator = communicator_of(p);
    if (p->arg[KINETO_ARG_COLLECTIVE].p)
        d->detail_text[T_COLLECTIVE] = put_collective(k, p->arg[KINETO_ARG_COLLECTIVE]);
    struct kj_span type = kineto_inside(p->arg[KINETO_ARG_DTYPE]);
    for (size_t i = 0; type.p && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strlen(dtypes[i].torch) == type.n && !memcmp(dtypes[i].torch, type.p, type.n)) {
            d->detail_text[T_DTYPE] = put_text(k, dtypes[i].name);
            int64_t elements = in > out ? in : out; /* the whole buffer, as nccl-tests counts */
            if (elements >= 0 && elements < INT64_MAX / 16)
                d->detail.bytes = elements * dtypes[i].bytes;
        }
    if (type.p && type.n && !d->detail_text[T_DTYPE])
        d->detail_text[T_DTYPE] = kineto_batch_text(k->batch, type.p, type.n);
}

/* "HtoD" and its kin in a name or an argument. NULL: none is there. */
static const char *copy_kind_in(struct kj_span s)
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
    for (size_t i = 0; s.p && i < sizeof kinds / sizeof *kinds; i++)
        if (memmem(s.p, s.n, kinds[i].text, strlen(kinds[i].text)))
            return kinds[i].kind;
    return NULL;
}

/* hipMemcpyKind and cudaMemcpyKind as numbers */
static const char *copy_kind_number(struct kj_span s)
{
    static const char *const kinds[] = {"HtoH", "HtoD", "DtoH", "DtoD"};
    int64_t v = int_of(s);
    return v >= 0 && v < 4 ? kinds[v] : NULL;
}

static struct kj_span string_text(const struct kineto *k, uint32_t number)
{
    const struct store_intern_entry *e = &k->strings.entry[number];
    return (struct kj_span){k->strings.arena + e->offset, e->bytes};
}

/* Kind of memory in "(Pageable -> Device)", lower case; `which` 0: left, 1: right, of "(Device)"
 * the only one. 0: none. */
static size_t memory_kind(struct kj_span name, int which, char out[32])
{
    const char *open = memchr(name.p, '(', name.n);
    const char *close = open ? memchr(open, ')', (size_t)(name.p + name.n - open)) : NULL;
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
    size_t n = (size_t)(to - from);
    if (!n || n >= 32)
        return 0;
    for (size_t i = 0; i < n; i++)
        out[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + 32) : from[i];
    out[n] = 0;
    return n;
}

static void fill_copy(struct kineto *k, struct kineto_def *d, const struct parts *p)
{
    d->detail.bytes = int_of(p->arg[KINETO_ARG_BYTES]);
    if (d->detail.bytes == STORE_ABSENT)
        d->detail.bytes = int_of(p->arg[KINETO_ARG_SIZE]);
    if (p->class == KINETO_MEMSET)
        return;
    struct kj_span name = string_text(k, p->name), arg = kineto_inside(p->arg[KINETO_ARG_KIND]);
    const char *kind = copy_kind_in(name);
    if (!kind)
        kind = copy_kind_in(arg);
    if (!kind)
        kind = copy_kind_number(arg);
    if (p->class != KINETO_MEMCPY && !kind)
        return;
    d->detail_text[T_COPY_KIND] = put_text(k, kind ? kind : "unknown");
    char left[32], right[32];
    if (p->class != KINETO_MEMCPY || !memory_kind(name, 0, left) || !memory_kind(name, 1, right))
        return;
    /* of the two the host's, which decides how fast the copy can be */
    static const char *const host[] = {"pageable", "pinned", "managed", "device"};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        if (!strcmp(left, host[i]) || !strcmp(right, host[i])) {
            if (i < 3 || !strcmp(left, right))
                d->detail_text[T_KIND] = put_text(k, host[i]);
            break;
        }
}

/* ---- payload ------------------------------------------------------------------------------------------------------------- */

static void payload_key(struct kineto *k, const char *key)
{
    kineto_text_puts(&k->payload, k->payload.n > 1 ? ",\"" : "\"");
    kineto_text_puts(&k->payload, key);
    kineto_text_puts(&k->payload, "\":");
}

/* Texts that hold a list ("[0, 1]") are written as that list where they are one. */
static void payload_value(struct kineto *k, enum kineto_arg id, struct kj_span value)
{
    size_t mark = k->payload.n;
    struct kj_span inside = kineto_inside(value);
    if (kineto_is_null(value) || (kineto_is_string(value) && !inside.n))
        return;
    payload_key(k, kineto_arg_key(id));
    if (kineto_is_string(value) && inside.p[0] == '[' && kineto_json_copy(&k->payload, inside))
        return;
    if (kineto_json_copy(&k->payload, value))
        return;
    k->payload.n = mark;
    k->loss[KINETO_LOSS_ARGS_BAD]++;
}

/* PyTorch of 2023 wrote 4294967295 for all streams where others write -1. The track is the same;
 * HTA tells them apart. */
static void payload_all_streams(struct kineto *k, struct kj_span value)
{
    if (!value.p || int_of(value) != UINT32_MAX)
        return;
    payload_key(k, "all_streams");
    kineto_text_puts(&k->payload, "true");
}

static void payload_memory(struct kineto *k, const struct parts *p)
{
    char text[32];
    struct kj_span name = string_text(k, p->name);
    if (p->class != KINETO_MEMCPY && p->class != KINETO_MEMSET)
        return;
    if (p->class == KINETO_MEMCPY && memory_kind(name, 0, text)) {
        payload_key(k, "src");
        kineto_json_string(&k->payload, text, strlen(text));
    }
    if (memory_kind(name, 1, text)) {
        payload_key(k, "dst");
        kineto_json_string(&k->payload, text, strlen(text));
    }
}

static const char *schema_of(const struct parts *p)
{
    unsigned has = 0;
    for (int i = 0; i < KINETO_ARG_OTHER; i++)
        if (p->arg[i].p)
            has |= kineto_arg_use((enum kineto_arg)i);
    switch (p->class) {
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
        return p->arg[KINETO_ARG_COLLECTIVE].p ? "torch.comm" : "gpu.kernel";
    case KINETO_INSTANT:
        return "torch.memory";
    default:
        return p->arg[KINETO_ARG_COLLECTIVE].p ? "torch.comm" : has ? "torch.op" : NULL;
    }
}

static int detail_build(struct kineto *k, const char *key, size_t n)
{
    struct parts p = parts_of(key, n);
    struct kineto_def *d = kineto_batch_def(k->batch, KINETO_DEF_DETAIL);
    if (!d)
        return kineto_no_memory(k);
    d->detail = (struct store_detail)STORE_DETAIL_NONE;
    unsigned uses = uses_of(p.class);
    d->detail_text[T_PASS] = p.backward ? put_text(k, "backward") : 0;
    d->detail_text[T_SCHEMA] = put_text(k, schema_of(&p));
    d->detail_text[T_GRID] = put_dim3(k, p.arg[KINETO_ARG_GRID]);
    d->detail_text[T_BLOCK] = put_dim3(k, p.arg[KINETO_ARG_BLOCK]);
    if (uses & KINETO_USE_COPY)
        fill_copy(k, d, &p);
    if (uses & KINETO_USE_COMM)
        fill_comm(k, d, &p);
    if (uses & KINETO_USE_MEMORY)
        d->detail.bytes = int_of(p.arg[KINETO_ARG_MEMORY_BYTES]);
    k->payload.n = 0;
    kineto_text_put(&k->payload, "{", 1);
    for (int i = 0; i < KINETO_ARG_OTHER; i++)
        if (p.class == KINETO_SYNC && i == KINETO_ARG_STREAM)
            payload_all_streams(k, p.arg[i]);
        else if (p.arg[i].p && kineto_arg_key((enum kineto_arg)i))
            payload_value(k, (enum kineto_arg)i, p.arg[i]);
    payload_memory(k, &p);
    if (k->payload.n > 1) {
        kineto_text_put(&k->payload, "}", 1);
        d->detail_text[T_PAYLOAD] = kineto_batch_text(k->batch, k->payload.p, k->payload.n);
    }
    return k->payload.failed || k->scratch.failed || k->batch->text.failed ? kineto_no_memory(k)
                                                                           : k->code;
}

static uint32_t detail_number(struct kineto *k)
{
    int64_t id;
    bool added;
    if (k->key.failed || store_intern_put(&k->details, k->key.p, k->key.n, &id, &added)) {
        kineto_no_memory(k);
        return KINETO_NONE;
    }
    if (added)
        detail_build(k, k->key.p, k->key.n);
    return (uint32_t)(id - 1);
}

/* Names of arguments that no rule knows: the run says which they were. */
static void note_unknown(struct kineto *k, struct kj_span key)
{
    int64_t id;
    bool added;
    if (k->unknown_args.count < 64 && key.n < 64)
        store_intern_put(&k->unknown_args, key.p, key.n, &id,
                         &added); /* no memory: one name less in a note */
}

uint32_t kineto_detail(struct kineto *k, const struct kj_event *e, enum kineto_class c,
                       uint32_t name, bool backward)
{
    unsigned uses = uses_of(c);
    bool copy = c == KINETO_MEMCPY || c == KINETO_MEMSET;
    key_begin(k, c, backward, copy ? name : 0);
    for (size_t i = 0; i < e->arg_count; i++) {
        const struct kj_arg *a = &e->arg[i];
        if (a->id == KINETO_ARG_OTHER)
            note_unknown(k, a->key);
        else if (kineto_arg_use(a->id) & uses)
            key_put(k, a->id, a->value);
    }
    return k->key.n == KEY_HEAD && !backward && !copy ? KINETO_NONE : detail_number(k);
}

uint32_t kineto_detail_backward(struct kineto *k, uint32_t number, enum kineto_class c)
{
    if (number == KINETO_NONE) {
        key_begin(k, c, true, 0);
    } else {
        const struct store_intern_entry *e = &k->details.entry[number];
        k->key.n = 0;
        kineto_text_put(&k->key, k->details.arena + e->offset, e->bytes);
        if (!k->key.failed)
            k->key.p[1] = 1;
    }
    return detail_number(k);
}
