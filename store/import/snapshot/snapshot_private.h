/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/snapshot/: what pickles of PyTorch become. snapshot.c decides what a dict
 * is, snapshot_memory.c keeps the books of the allocator (snapshot_lives.c: what lives where;
 * snapshot_parts.c: expandable segments), snapshot_flight.c reads flight recorder dumps,
 * snapshot_json.c those that are JSON, snapshot_stack.c turns frames into stacks.
 */
#ifndef STORE_IMPORT_SNAPSHOT_SNAPSHOT_PRIVATE_H
#define STORE_IMPORT_SNAPSHOT_SNAPSHOT_PRIVATE_H

#include "store/import/input/rows.h"
#include "store/import/pickle/pickle.h"
#include "tacho_hash.h"

#define SNAPSHOT_DEVICES 64
#define SNAPSHOT_RANGES  256
#define SNAPSHOT_MEMBERS 400 /* bytes of the ranks of a group in words */

/* Two hashes of the same numbers, as a key of maps: 128 bits do not meet by chance. */
struct snapshot_key {
    int64_t first, second;
};
#define SNAPSHOT_KEY_BEGIN \
    ((struct snapshot_key){(int64_t)TACHO_HASH_BEGIN, (int64_t)0x9e3779b97f4a7c15u})
static inline void snapshot_key_add(struct snapshot_key *key, uint64_t number)
{
    uint64_t second = ((uint64_t)key->second + number) * 0xff51afd7ed558ccdu;
    key->first = (int64_t)tacho_hash_number((uint64_t)key->first, number);
    key->second = (int64_t)(second ^ second >> 31);
}

/* A stack of the store, STORE_ABSENT: none; and the string of its innermost frame of the program.
 */
struct snapshot_stack {
    int64_t id, name;
};

/* Memory that is in use: a block that the program holds, or a segment of the allocator. */
struct snapshot_live {
    int64_t start, bytes, block; /* block: bytes of the whole block; STORE_ABSENT: not known */
    int64_t stream;
    int64_t pool[2]; /* id of a private pool (of CUDA graphs); 0, 0: it is in none, or not known */
    struct snapshot_stack stack;
    int64_t freed; /* when the program gave it back while the device still used it; else absent */
    bool large, expandable;
    bool begun; /* it is of the first event, not from before it */
};

struct snapshot_lives {
    struct imp_map at; /* address, device -> index */
    struct snapshot_live *live;
    size_t count, room, *unused, unused_count, unused_room;
};

/* Values over time, thinned so that there are never more than twice SNAPSHOT_SERIES of them. */
#define SNAPSHOT_SERIES 16384
struct snapshot_series {
    int64_t *time, *allocated, *reserved;
    size_t count, skip, skipped;
};

struct snapshot_device {
    bool used;
    int64_t events, last;                /* time of the last event */
    int64_t first;                       /* time of the first one; STORE_ABSENT: none */
    int64_t allocated, reserved, peak;   /* relative to the first event */
    int64_t allocated_end, reserved_end; /* of the segments at the time of the snapshot */
    int64_t track[2];                    /* of its blocks, of its segments; 0: none yet */
    struct snapshot_series series;
};

struct snapshot {
    struct imp_rows rows;
    struct snapshot_device device[SNAPSHOT_DEVICES];
    struct snapshot_lives blocks, segments;
    /* Blocks of the segment that is being read; at the time of the snapshot. */
    struct snapshot_block {
        int64_t address, bytes, requested;
        struct snapshot_stack stack;
        bool active, allocated; /* active, not allocated: given back, but the device uses it yet */
    } * block;
    size_t block_count, block_room;
    /* What was there at the time of the snapshot: addresses whose rows end open. */
    struct snapshot_final {
        int64_t address, device;
        struct snapshot_live live;
        bool segment;
        bool in_history; /* all of it was mapped in the history, whose rows have it */
    } * final;
    size_t final_count, final_room;
    struct snapshot_range {
        int64_t name, start;  /* string; ns */
    } range[SNAPSHOT_RANGES]; /* of the program, whose ends have not come yet */
    size_t range_count;
    struct snapshot_stack *known; /* stacks that came before */
    size_t known_count, known_room;
    struct imp_map stacks;  /* key of frames -> place in `known`, from 1 on */
    struct imp_map details; /* key of what is said of a block or segment -> detail */
    int64_t entries, segments_seen;
    int64_t slots_seen;    /* of maps, in the search for parts of expandable segments */
    int64_t no_stack;      /* the string of a block without frames */
    struct imp_map groups; /* process group by hash of its name -> index in `group` */
    struct snapshot_group {
        int64_t ranks;
        /* "0-3,8-56/16": 0 to 3, and every 16th from 8 to 56; "": not known, or too many pieces */
        char members[SNAPSHOT_MEMBERS];
    } * group;
    size_t group_count, group_room;
};

/* Frames (innermost first in the list) as a stack of the store. Its name is the innermost frame in
 * Python that is not in a library of PyTorch. */
int snapshot_stack(struct snapshot *snapshot, struct pickle_box *frames,
                   struct snapshot_stack *stack);
/* The rank that the name of the present input says, beside others; STORE_ABSENT: none. */
int64_t snapshot_rank(const struct imp_run *run);
int snapshot_event(struct snapshot *snapshot, const struct pickle_box *dict, size_t device);
int snapshot_block(struct snapshot *snapshot, const struct pickle_box *dict);
int snapshot_segment(struct snapshot *snapshot, const struct pickle_box *dict);
int snapshot_annotation(struct snapshot *snapshot, const struct pickle_box *dict);
/* What lives at an address; NULL: nothing. */
struct snapshot_live *snapshot_lives_find(const struct snapshot_lives *lives, int64_t address,
                                          int64_t device);
int snapshot_lives_add(struct snapshot_lives *lives, int64_t address, int64_t device,
                       struct snapshot_live live);
/* Forgets what lives at a place of the map. */
int snapshot_lives_remove(struct snapshot_lives *lives, int64_t *index);
void snapshot_lives_clear(struct snapshot_lives *lives);
/* Writes the life of a block or segment. `end`: STORE_ABSENT where it is still held. */
int snapshot_put_life(struct snapshot *snapshot, int64_t device, int64_t address, bool segment,
                      const struct snapshot_live *live, int64_t end);
/* A range of an expandable segment goes back to the driver. */
int snapshot_unmap(struct snapshot *snapshot, int64_t device, int64_t address,
                   struct snapshot_live live);
/* Leaves of the expandable segments of the snapshot what was there before the history: the rest is
 * in the history, part by part; these parts get the pools of their segments. */
int snapshot_without_parts(struct snapshot *snapshot);
/* Adds a block or segment that is there at the time of the snapshot. 0 or TACHO_ENOMEM. */
int snapshot_final_add(struct snapshot *snapshot, struct snapshot_final final);
/* After the last event: what is still held, and the series. */
int snapshot_finish(struct snapshot *snapshot);
void snapshot_memory_clear(struct snapshot *snapshot);
/* One entry of a flight recorder. */
int snapshot_flight_entry(struct snapshot *snapshot, const struct pickle_box *dict);
int snapshot_flight_group(struct snapshot *snapshot, const struct pickle_box *dict);

#endif
