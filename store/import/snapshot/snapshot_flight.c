/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of PyTorch's flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE, TORCH_FR_BUFFER_SIZE): one
 * for each collective of the rank that was issued last, with its group, its number in the group and
 * how far it came. One that was never completed has no end: that is what a hang looks like.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/snapshot/snapshot_private.h"

#define NAME_MOST       256 /* bytes of the name of a process group that tell it from others */
#define DIMENSIONS_MOST 64  /* of a tensor; PyTorch has no more */
#define RANK_MOST       (1 << 24)

/* Of the "nccl:NAME" of PyTorch. */
static const char *collective_of(const char *name)
{
    const char *bare = strrchr(name, ':');
    bare = bare ? bare + 1 : name;
    const char *collective = store_collective(bare, strlen(bare), NULL);
    return collective ? collective : "collective";
}

/* Of the name of a process group, which a file repeats with each entry. */
static int64_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < NAME_MOST && text[i]; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* Bytes of an element of a type ("Float", "BFloat16"); 0: not known. */
static int64_t element_bytes(const char *type)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } types[] = {{"Float8", 1},   {"Float", 4}, {"Double", 8}, {"Half", 2},
                 {"BFloat16", 2}, {"Long", 8},  {"Int", 4},    {"Short", 2},
                 {"Char", 1},     {"Byte", 1},  {"Bool", 1},   {"ComplexFloat", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strncmp(type, types[i].name, strlen(types[i].name)))
            return types[i].bytes;
    return 0;
}

/* Bytes of tensors: sizes is a list of lists, types a list of names (or one name). STORE_ABSENT:
 * not known. */
static int64_t tensor_bytes(const struct pickle_box *dict, const char *sizes, const char *types)
{
    const struct pickle_box *size = pickle_list(dict, sizes), *type = pickle_list(dict, types);
    int64_t total = 0;
    for (size_t i = 0; size && i < size->count; i++) {
        const struct pickle_text *name = NULL;
        int64_t elements = 1;
        if (type && i < type->count && type->value[i].type == PICKLE_TEXT)
            name = type->value[i].text;
        if (size->value[i].type != PICKLE_LIST || size->value[i].box->count > DIMENSIONS_MOST ||
            !name || !element_bytes(name->text))
            return STORE_ABSENT;
        for (size_t k = 0; k < size->value[i].box->count; k++) {
            struct pickle_value one = size->value[i].box->value[k];
            if (one.type != PICKLE_INT || __builtin_mul_overflow(elements, one.number, &elements))
                return STORE_ABSENT;
        }
        if (__builtin_mul_overflow(elements, element_bytes(name->text), &elements) ||
            __builtin_add_overflow(total, elements, &total))
            return STORE_ABSENT;
    }
    return size ? total : STORE_ABSENT;
}

/* The name of a process group: ("0", "default_pg"), or a text. */
static const char *group_of(const struct pickle_box *dict)
{
    const struct pickle_box *pair = pickle_list(dict, "process_group");
    const struct pickle_text *text = pickle_text(dict, "process_group");
    if (pair && pair->count && pair->value[0].type == PICKLE_TEXT)
        return pair->value[0].text->text;
    return text ? text->text : "";
}

/* Ranks of a group while they are put in words: each run of ranks that are `step` apart at once. */
struct members {
    struct snapshot_group group;
    int64_t first, last, step, count; /* the run that is not in words yet; count 0: there is none */
    bool too_long;
};

static void put_run(struct members *members, int64_t first, int64_t last, int64_t step)
{
    char *text = members->group.members, run[64];
    size_t used = strlen(text);
    int bytes = snprintf(run, sizeof run, "%s%" PRId64, used ? "," : "", first);
    if (last > first)
        bytes += snprintf(run + bytes, sizeof run - (size_t)bytes, "-%" PRId64, last);
    if (step > 1)
        bytes += snprintf(run + bytes, sizeof run - (size_t)bytes, "/%" PRId64, step);
    members->too_long |= used + (size_t)bytes >= SNAPSHOT_MEMBERS;
    if (!members->too_long)
        memcpy(text + used, run, (size_t)bytes + 1);
}

static void end_run(struct members *members)
{
    if (members->count == 1 || (members->count == 2 && members->step > 1)) {
        put_run(members, members->first, members->first, 1);
        if (members->count == 2)
            put_run(members, members->last, members->last, 1);
    } else if (members->count) {
        put_run(members, members->first, members->last, members->step);
    }
}

static void add_member(struct members *members, int64_t rank)
{
    bool begins = members->count == 1 && rank > members->last;
    members->group.ranks++;
    if (rank < 0 || rank > RANK_MOST) {
        members->too_long = true;
        return;
    }
    if (begins || (members->count > 1 && rank == members->last + members->step)) {
        members->step = begins ? rank - members->first : members->step;
        members->last = rank;
        members->count++;
    } else if (members->count == 2 && members->step > 1 && rank > members->last) {
        put_run(members, members->first, members->first, 1); /* the second begins another run */
        members->first = members->last;
        members->step = rank - members->first;
        members->last = rank;
    } else {
        end_run(members);
        members->first = members->last = rank;
        members->count = 1;
    }
}

/* pg_config: {"0": {"name": "0", "desc": ..., "ranks": "[0, 1]"}}: which ranks a group has. They
 * may be a list, too. */
int snapshot_flight_group(struct snapshot *snapshot, const struct pickle_box *dict)
{
    const struct pickle_text *name = pickle_text(dict, "name"), *ranks = pickle_text(dict, "ranks");
    const struct pickle_box *list = pickle_list(dict, "ranks");
    struct members members = {.count = 0};
    if (!name || (!ranks && !list))
        return 0;
    for (size_t i = 0; list && i < list->count; i++)
        add_member(&members, list->value[i].type == PICKLE_INT ? list->value[i].number : -1);
    for (const char *at = ranks ? ranks->text : ""; *at; at++)
        if (*at >= '0' && *at <= '9' && (at == ranks->text || at[-1] < '0' || at[-1] > '9'))
            add_member(&members, strtoll(at, NULL, 10));
    end_run(&members);
    if (members.too_long)
        members.group.members[0] = '\0';
    int rc = imp_list_room((void **)&snapshot->group, &snapshot->group_room, snapshot->group_count,
                           sizeof members.group);
    if (!rc)
        rc = imp_map_put(&snapshot->groups, hash_of(name->text), 0, (int64_t)snapshot->group_count);
    if (!rc)
        snapshot->group[snapshot->group_count++] = members.group;
    return rc;
}

/* A time in ns by its key without the unit; STORE_ABSENT: not known. PyTorch 2.2 wrote us. */
static int64_t time_of(const struct pickle_box *dict, const char *bare)
{
    char key[64];
    snprintf(key, sizeof key, "%s_ns", bare);
    int64_t time = pickle_int(dict, key);
    if (time > 0)
        return time;
    snprintf(key, sizeof key, "%s_us", bare);
    time = pickle_int(dict, key);
    return time > 0 && time <= IMP_TIME_MAX / 1000 ? time * 1000 : STORE_ABSENT;
}

/* First time of an entry that is known: started on the device, else created by the host. */
static int64_t start_of(const struct pickle_box *dict)
{
    int64_t started = time_of(dict, "time_discovered_started");
    return started != STORE_ABSENT ? started : time_of(dict, "time_created");
}

/* When and how long a collective was. Without timing (TORCH_NCCL_ENABLE_TIMING) both ends are when
 * the watchdog saw them, which looks every 100 ms; `duration_ms` is what the device measured, and
 * the collective began no later than so long before its end was seen. */
static void place(const struct pickle_box *dict, struct imp_slice *slice)
{
    const struct pickle_value *measured = pickle_get(dict, "duration_ms");
    int64_t created = time_of(dict, "time_created"),
            end = time_of(dict, "time_discovered_completed");
    double ms = -1;
    slice->start = start_of(dict);
    slice->dur = 0;
    if (measured && measured->type == PICKLE_FLOAT)
        ms = measured->real;
    else if (measured && measured->type == PICKLE_INT)
        ms = (double)measured->number;
    if (slice->start == STORE_ABSENT)
        return;
    if (end > slice->start)
        slice->dur = end - slice->start;
    if (!(ms >= 0) || ms * 1e6 > (double)IMP_TIME_MAX)
        return;
    slice->dur = llround(ms * 1e6);
    if (end > slice->dur && end - slice->dur < slice->start)
        slice->start = end - slice->dur > created ? end - slice->dur : created;
}

/* A text of the file between quotes of JSON: what would need an escape is a question mark. */
static void put_plain(char *to, size_t size, const char *text)
{
    size_t used = 0;
    for (; used < size - 1 && text[used]; used++) {
        unsigned char byte = (unsigned char)text[used];
        to[used] = (char)(byte < 0x20 || byte >= 0x80 || strchr("\"\\", byte) ? '?' : byte);
    }
    to[used] = 0;
}

/* Fills the payload: what the entry says that has no column. */
static void payload_of(const struct pickle_box *dict, const char *state, int64_t stack,
                       const char *members, char *payload, size_t size)
{
    char group[61], plain[13];
    put_plain(group, sizeof group, group_of(dict));
    put_plain(plain, sizeof plain, state);
    int length = snprintf(payload, size, "{\"state\":\"%s\",\"group\":\"%s\",\"p2p\":%s", plain,
                          group, pickle_int(dict, "is_p2p") == 1 ? "true" : "false");
    if (*members && length > 0 && (size_t)length < size)
        length += snprintf(payload + length, size - (size_t)length, ",\"members\":\"%s\"", members);
    if (stack != STORE_ABSENT && length > 0 && (size_t)length < size)
        length += snprintf(payload + length, size - (size_t)length, ",\"stack\":%" PRId64, stack);
    if (length > 0 && (size_t)length + 2 < size)
        memcpy(payload + length, "}", 2);
}

/* How far a collective came. Gloo has no events that tell it: its entries stay scheduled, and are
 * retired when they are done or have failed. */
static const char *state_of(const struct pickle_box *dict, const struct pickle_text *name)
{
    const struct pickle_text *state = pickle_text(dict, "state");
    if (name && !strncmp(name->text, "gloo:", 5) && pickle_int(dict, "retired") == 1)
        return "retired";
    return state ? state->text : "unknown";
}

int snapshot_flight_entry(struct snapshot *snapshot, const struct pickle_box *dict)
{
    const struct pickle_text *name = pickle_text(dict, "profiling_name");
    const char *state = state_of(dict, name);
    bool p2p = pickle_int(dict, "is_p2p") == 1;
    int64_t number = pickle_int(dict, p2p ? "p2p_seq_id" : "collective_seq_id");
    struct snapshot_stack stack;
    struct store_detail detail = STORE_DETAIL_NONE;
    struct imp_slice slice = {.category = "flight recorder", .detail = &detail};
    char payload[SNAPSHOT_MEMBERS + 260], track[80];
    snapshot->entries++;
    snapshot->rows.run->events++;
    if (number == STORE_ABSENT)
        number = pickle_int(dict, "seq_id");
    bool completed = !strcmp(state, "completed") || !strcmp(state, "retired");
    place(dict, &slice);
    if (!completed)
        slice.dur = STORE_ABSENT;
    slice.correlation = number;
    int rc = snapshot_stack(snapshot, pickle_list(dict, "frames"), &stack);
    detail.schema = "torch.flight";
    detail.collective = collective_of(name ? name->text : "");
    detail.communicator = hash_of(group_of(dict));
    const int64_t *index = imp_map_find(&snapshot->groups, detail.communicator, 0);
    const struct snapshot_group *group = index ? &snapshot->group[*index] : NULL;
    detail.ranks = group ? group->ranks : STORE_ABSENT;
    int64_t in = tensor_bytes(dict, "input_sizes", "input_dtypes"),
            out = tensor_bytes(dict, "output_sizes", "output_dtypes");
    detail.bytes = in > out ? in : out;
    payload_of(dict, state, stack.id, group ? group->members : "", payload, sizeof payload);
    detail.payload = payload;
    snprintf(track, sizeof track, "group %.60s", group_of(dict));
    if (!rc)
        rc = imp_rows_range(&snapshot->rows, 1000 + detail.communicator, NULL, track, &slice.track);
    if (!rc)
        rc = imp_rows_string(&snapshot->rows, name ? name->text : "collective",
                             name ? name->bytes : 10, &slice.name);
    return rc ? rc : imp_rows_slice(&snapshot->rows, &slice);
}
