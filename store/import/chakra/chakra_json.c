/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of Chakra in JSON: {"workload_graph": [...]} of its converters, {"nodes": [...]} of its
 * trace linker, which has the times of a Kineto trace, and the messages of an .et as its jsonizer
 * prints them: objects one after the other or in a list, of which the first is no node.
 */
#include <string.h>

#include "store/import/chakra/chakra_private.h"
#include "store/import/input/json.h"
#include "store/import/input/rows.h"
#include "store/import/kineto/kineto_text.h"

/* One id or a list of ids. */
static int read_needs(struct chakra *chakra, struct ij *json)
{
    int64_t id;
    int rc = 0;
    if (ij_next(json) != '[')
        return ij_int(json, &id) ? chakra_need_add(chakra, id) : 0;
    for (bool more = ij_enter(json); more && !rc; more = more && ij_more(json))
        if (ij_int(json, &id))
            rc = chakra_need_add(chakra, id);
    return rc;
}

/* A number of us as ns, exact; a time of day or one since the start. */
static void read_us(struct ij *json, int64_t *ns)
{
    int64_t value;
    int decimals;
    bool rounded;
    ij_next(json);
    const char *begin = json->at;
    ij_skip(json);
    struct kj_span span = {begin, (size_t)(json->at - begin)};
    if (!json->bad && kineto_time(span, 1000, &value, &decimals, &rounded) && value >= 0 &&
        value <= IMP_TIME_MAX)
        *ns = value;
}

static bool is_one_of(struct ij_text key, const char *first, const char *second)
{
    return ij_is(key, first) || ij_is(key, second);
}

/* The raw text of `values` in {"values": [...], "shapes": ...}; of a list, all of it. */
static void read_values(struct ij *json, struct chakra_values *values)
{
    const char *begin = json->at;
    if (ij_next(json) != '{') {
        ij_skip(json);
        *values = (struct chakra_values){begin, (size_t)(json->at - begin)};
        return;
    }
    for (bool more = ij_enter(json); more; more = more && ij_more(json)) {
        bool wanted = ij_is(ij_key(json), "values");
        begin = json->at;
        ij_skip(json);
        if (wanted)
            *values = (struct chakra_values){begin, (size_t)(json->at - begin)};
    }
}

/* The type of a node by its name in et_def.proto; one that is not read counts as work. */
static int64_t type_named(struct ij_text name)
{
    static const struct {
        const char *name;
        int64_t type;
    } types[] = {{"MEM_LOAD_NODE", CHAKRA_LOAD},        {"MEM_STORE_NODE", CHAKRA_STORE},
                 {"COMM_SEND_NODE", CHAKRA_SEND},       {"COMM_RECV_NODE", CHAKRA_RECEIVE},
                 {"COMM_COLL_NODE", CHAKRA_COLLECTIVE}, {"STORAGE_NODE", CHAKRA_STORAGE},
                 {"BATCH_NODE", CHAKRA_STORAGE},        {"CHECKPOINT_NODE", CHAKRA_STORAGE}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (ij_is(name, types[i].name))
            return types[i].type;
    return CHAKRA_WORK;
}

/* A figure of a node that is read; false: it is another one. */
static bool read_figure(struct chakra_node *node, struct ij_text name, struct ij *json)
{
    if (ij_is(name, "comm_type"))
        ij_int(json, &node->collective);
    else if (ij_is(name, "comm_size") || (ij_is(name, "tensor_size") && node->bytes < 0))
        ij_int(json, &node->bytes);
    else if (ij_is(name, "num_ops"))
        ij_int(json, &node->flops);
    else
        return false;
    return true;
}

/* {"name": "comm_size", "int64Val": "4096"} */
static void read_attribute(struct chakra_node *node, struct ij *json)
{
    struct ij_text name = {"", 0};
    struct ij value = *json;
    for (bool more = ij_enter(json); more; more = ij_more(json)) {
        if (ij_is(ij_key(json), "name")) {
            name = ij_text_of(json);
        } else {
            value = *json;
            ij_skip(json);
        }
    }
    if (ij_is(name, "is_cpu_op"))
        node->host = ij_next(&value) == 't';
    else if (ij_is(name, "stream"))
        ij_int(&value, &node->stream);
    else
        read_figure(node, name, &value);
}

/* A pair that only messages of an .et have; false: it is none of them, and was not read. */
static bool read_message_pair(struct chakra *chakra, struct chakra_node *node, struct ij_text key,
                              struct ij *json, int *rc)
{
    if (ij_is(key, "type") && ij_next(json) == '"') {
        node->type = type_named(ij_text_of(json));
        node->id = node->id == STORE_ABSENT ? 0 : node->id; /* 0 is not written */
    } else if (ij_is(key, "durationMicros")) {
        read_us(json, &node->dur);
    } else if (ij_is(key, "startTimeMicros")) {
        read_us(json, &node->start);
    } else if (ij_is(key, "dataDeps")) {
        node->first_data_need = chakra->need_count;
        *rc = read_needs(chakra, json);
        node->data_needs = chakra->need_count - node->first_data_need;
    } else if (ij_is(key, "attr")) {
        for (bool more = ij_enter(json); more; more = ij_more(json))
            read_attribute(node, json);
    } else {
        return false;
    }
    return true;
}

static int read_pair(struct chakra *chakra, size_t index, struct ij *json)
{
    struct ij_text key = ij_key(json), text;
    struct chakra_node *node = &chakra->node[index];
    int rc = 0;
    if (chakra->messages && read_message_pair(chakra, node, key, json, &rc))
        return rc;
    if (is_one_of(key, "Id", "id")) {
        ij_int(json, &node->id);
    } else if (is_one_of(key, "Name", "name")) {
        text = ij_text_of(json);
        node->name = text.text;
        node->name_bytes = text.bytes;
    } else if (ij_is(key, "NodeType")) {
        ij_int(json, &node->type);
    } else if (is_one_of(key, "runtime", "inclusive_dur")) {
        read_us(json, &node->dur);
    } else if (ij_is(key, "ts")) {
        read_us(json, &node->start);
    } else if (ij_is(key, "stream")) {
        if (ij_int(json, &node->stream))
            node->host = false;
    } else if (ij_is(key, "is_cpu_op")) {
        node->host = ij_next(json) != 'f';
        ij_skip(json);
    } else if (ij_is(key, "inputs")) {
        read_values(json, &node->inputs);
    } else if (ij_is(key, "outputs")) {
        read_values(json, &node->outputs);
    } else if (ij_is(key, "data_deps")) {
        node->first_data_need = chakra->need_count;
        rc = read_needs(chakra, json);
        node->data_needs = chakra->need_count - node->first_data_need;
        return rc;
    } else if (is_one_of(key, "ctrlDeps", "ctrl_deps")) {
        return read_needs(chakra, json);
    } else if (!read_figure(node, key, json)) {
        ij_skip(json);
    }
    return 0;
}

static int read_node(struct chakra *chakra, struct ij *json)
{
    struct chakra_node *node = chakra_node_add(chakra);
    size_t index = chakra->count - 1;
    int rc = 0;
    if (!node)
        return TACHO_ENOMEM;
    node->host = !chakra->messages; /* of messages an attribute says it */
    for (bool more = ij_enter(json); more && !rc; more = more && ij_more(json))
        rc = read_pair(chakra, index, json);
    return rc;
}

/* Is the next object a node? */
static bool has_type(struct ij json)
{
    for (bool more = ij_enter(&json); more; more = ij_more(&json)) {
        if (ij_is(ij_key(&json), "type"))
            return true;
        ij_skip(&json);
    }
    return false;
}

/* Reads messages of an .et: objects in a list, or one after the other. */
static int read_messages(struct chakra *chakra, struct ij *json)
{
    int rc = 0;
    bool list = ij_next(json) == '[', more = true;
    if (list)
        more = ij_enter(json);
    while (more && !rc && !json->bad) {
        if (has_type(*json))
            rc = read_node(chakra, json);
        else
            ij_skip(json); /* the version of the schema */
        more = list ? ij_more(json) : ij_next(json) == '{';
    }
    return rc;
}

bool chakra_is_messages(const void *text, size_t bytes)
{
    return memmem(text, bytes, "\"workload_graph\"", 16) == NULL &&
           memmem(text, bytes, "\"durationMicros\"", 16) && memmem(text, bytes, "_NODE\"", 6);
}

/* Reads the list of nodes of an object. */
static int read_graph(struct chakra *chakra, struct ij *json)
{
    int rc = 0;
    for (bool more = ij_enter(json); more && !rc; more = more && ij_more(json)) {
        if (!is_one_of(ij_key(json), "workload_graph", "nodes")) {
            ij_skip(json);
            continue;
        }
        for (bool next = ij_enter(json); next && !rc; next = next && ij_more(json))
            rc = read_node(chakra, json);
    }
    return rc;
}

int chakra_json_read(struct chakra *chakra, const void *text, size_t bytes)
{
    struct ij json = ij_of(text, bytes);
    chakra->messages = chakra_is_messages(text, bytes);
    int rc = chakra->messages ? read_messages(chakra, &json) : read_graph(chakra, &json);
    if (json.bad && chakra->count)
        chakra->count--; /* the node that the file ends in */
    chakra->damaged = json.bad;
    return rc;
}
