/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/chakra/: execution traces of Chakra are graphs. A node has a duration and
 * the nodes that it needs; many have no start. chakra_json.c reads graphs in JSON, chakra_et.c
 * those in protocol buffers, chakra_place.c gives nodes without a start the earliest one that their
 * dependencies and their lane allow, chakra.c writes the rows.
 *
 * A graph is untrusted: ids may repeat or lead nowhere, dependencies may form circles. Memory: the
 * file, 160 bytes a node, 12 bytes a dependency.
 */
#ifndef STORE_IMPORT_CHAKRA_CHAKRA_PRIVATE_H
#define STORE_IMPORT_CHAKRA_CHAKRA_PRIVATE_H

#include "store/import/input/rows.h"

/* Where a node runs; nodes of one lane run one after the other. */
enum chakra_lane {
    CHAKRA_HOST,
    CHAKRA_COMPUTE,
    CHAKRA_COMMUNICATION,
    CHAKRA_MEMORY,
    CHAKRA_LANE_COUNT
};

/* Kinds of nodes that are read (enum NodeType of et_def.proto). */
enum {
    CHAKRA_LOAD = 2,
    CHAKRA_STORE,
    CHAKRA_WORK,
    CHAKRA_SEND,
    CHAKRA_RECEIVE,
    CHAKRA_COLLECTIVE,
    CHAKRA_STORAGE /* and those after it: batches, checkpoints */
};

/* The values of inputs or outputs as they are in the file; not terminated. */
struct chakra_values {
    const char *text;
    size_t bytes;
};

struct chakra_node {
    int64_t id, start, dur; /* ns; STORE_ABSENT: the node has none */
    int64_t type, collective, bytes, flops, stream;
    const char *name; /* not terminated */
    size_t name_bytes;
    size_t first_need; /* in chakra.need; those up to the next node's are its own */
    size_t first_data_need, data_needs; /* those of them that are data */
    struct chakra_values inputs, outputs;
    bool host;
};

struct chakra {
    struct chakra_node *node;
    size_t count, room;
    int64_t *need; /* ids of nodes that must end first */
    size_t need_count, need_room;
    int64_t timed;            /* nodes with a start */
    int64_t untimed;          /* without a duration */
    int64_t late;             /* without a start, where others have one */
    int64_t circular;         /* in a circle, or behind one */
    int64_t circular_control; /* that were so before dependencies by control were left out */
    int64_t missing;          /* dependencies on nodes that are not in the file */
    int64_t path_ns; /* the longest chain of dependencies; STORE_ABSENT: starts are measured */
    bool damaged;
    bool json;     /* names have escapes */
    bool messages; /* JSON made of an .et */
};

/* Adds an empty node, whose dependencies are added next. NULL: no memory. */
struct chakra_node *chakra_node_add(struct chakra *chakra);
int chakra_need_add(struct chakra *chakra, int64_t id);
enum chakra_lane chakra_lane_of(const struct chakra_node *node);

/* Are these the messages of an .et as JSON? */
bool chakra_is_messages(const void *text, size_t bytes);
int chakra_json_read(struct chakra *chakra, const void *text, size_t bytes);
bool chakra_et_recognises(const unsigned char *head, size_t bytes);
int chakra_et_read(struct chakra *chakra, const unsigned char *data, size_t bytes);

/* The payload of a node that has dependencies or tensors, which the caller frees; NULL: it has
 * none, or no memory. */
char *chakra_payload(const struct chakra *chakra, size_t index);

/* Gives every node a start, if none has one. */
int chakra_place(struct chakra *chakra);

#endif
