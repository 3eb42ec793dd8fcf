/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of Chakra in JSON: {"workload_graph": [...]} of its converters, and {"nodes": [...]} of
 * its trace linker, which has the times of a Kineto trace.
 */
#include <string.h>

#include "store/import/chakra/chakra_private.h"
#include "store/import/input/json.h"

#define TIME_MOST_US 1e15

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

/* A number of us as ns; false: it is none. */
static bool read_us(struct ij *json, int64_t *ns)
{
    double us;
    if (!ij_number(json, &us) || !(us >= 0) || us > TIME_MOST_US)
        return false;
    *ns = (int64_t)(us * 1000 + 0.5);
    return true;
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

static int read_pair(struct chakra *chakra, size_t index, struct ij *json)
{
    struct ij_text key = ij_key(json), text;
    struct chakra_node *node = &chakra->node[index];
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
        int rc = read_needs(chakra, json);
        node->data_needs = chakra->need_count - node->first_data_need;
        return rc;
    } else if (is_one_of(key, "ctrlDeps", "ctrl_deps")) {
        return read_needs(chakra, json);
    } else {
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
    node->host = true;
    for (bool more = ij_enter(json); more && !rc; more = more && ij_more(json))
        rc = read_pair(chakra, index, json);
    return rc;
}

int chakra_json_read(struct chakra *chakra, const void *text, size_t bytes)
{
    struct ij json = ij_of(text, bytes);
    int rc = 0;
    for (bool more = ij_enter(&json); more && !rc; more = more && ij_more(&json)) {
        if (!is_one_of(ij_key(&json), "workload_graph", "nodes")) {
            ij_skip(&json);
            continue;
        }
        for (bool next = ij_enter(&json); next && !rc; next = next && ij_more(&json))
            rc = read_node(chakra, &json);
    }
    if (json.bad && chakra->count)
        chakra->count--; /* the node that the file ends in */
    chakra->damaged = json.bad;
    return rc;
}
