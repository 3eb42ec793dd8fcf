/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/pickle/: the state of the machine. pickle_bytes.c reads the file,
 * pickle_values.c keeps the stack and the values, pickle.c executes opcodes.
 */
#ifndef STORE_IMPORT_PICKLE_PICKLE_PRIVATE_H
#define STORE_IMPORT_PICKLE_PICKLE_PRIVATE_H

#include <endian.h>
#include <string.h>

#include "store/import/pickle/pickle.h"

#define PICKLE_HINT \
    "give a file of torch.cuda.memory._dump_snapshot() or of the NCCL flight recorder"

struct pickle_machine {
    const struct pickle_reader *reader;
    const char *path;
    struct tacho_error *err;
    struct imp_input *in;
    unsigned char *buffer;
    size_t at, end;    /* of the buffer */
    size_t filled;     /* bytes that were in it so far */
    uint64_t repeated; /* bytes and values of what was fetched again */
    bool truncated;
    int code;
    int64_t reported;

    struct pickle_value *stack;
    size_t depth, stack_room;
    size_t *mark; /* places of marks on the stack */
    size_t mark_count, mark_room;
    uint32_t *slot; /* number in the memory -> place in `memo`, NOT_FETCHED */
    size_t slots, puts;
    struct pickle_value *memo;
    size_t memo_count, memo_room;
    size_t values;               /* alive in boxes */
    struct pickle_value *shared; /* boxes and texts that live until the end */
    size_t shared_count, shared_room;
    struct pickle_text **once; /* by their hash: short texts, each of which is kept once */
    struct pickle_box *spare;  /* empty boxes, linked through `note` */
    size_t spare_count;
};

#define PICKLE_BUFFER (1u << 17) /* bytes of machine->buffer */
#define PICKLE_ONCE   (1u << 15) /* places of machine->once */

/* ---- pickle_bytes.c --------------------------------------------------------------------------------------------------------- */

/* Starts at the beginning of the file. */
int pickle_open_input(struct pickle_machine *machine);
/* Copies bytes of the file; `to` NULL: skips them. False: the file ends before. */
bool pickle_take(struct pickle_machine *machine, void *to, uint64_t bytes);
static inline void pickle_skip(struct pickle_machine *machine, uint64_t bytes)
{
    if (bytes <= machine->end - machine->at)
        machine->at += (size_t)bytes;
    else
        pickle_take(machine, NULL, bytes);
}
/* A number of up to eight bytes, the lowest first, where eight can be read. */
static inline uint64_t pickle_number(const unsigned char *from, size_t bytes)
{
    uint64_t number;
    memcpy(&number, from, sizeof number);
    return bytes ? le64toh(number) << (64 - 8 * bytes) >> (64 - 8 * bytes) : 0;
}
/* The same from the file. False: it ends before. */
bool pickle_take_cut_number(struct pickle_machine *machine, size_t bytes, uint64_t *out);
static inline bool pickle_take_number(struct pickle_machine *machine, size_t bytes, uint64_t *out)
{
    if (machine->end - machine->at < sizeof *out)
        return pickle_take_cut_number(machine, bytes, out);
    *out = pickle_number(machine->buffer + machine->at, bytes);
    machine->at += bytes;
    return true;
}
/* Ends the reading with an error, unless it ended already. */
int pickle_refuse(struct pickle_machine *machine, int code, const char *hint, const char *what);
int pickle_refuse_limit(struct pickle_machine *machine, const char *what);

/* ---- pickle_values.c -------------------------------------------------------------------------------------------------------- */

static inline bool pickle_is_box(struct pickle_value value)
{
    return value.type == PICKLE_LIST || value.type == PICKLE_DICT;
}
/* Lets a text or box live until the end. */
int pickle_share(struct pickle_machine *machine, struct pickle_value value);
/* Frees what nothing else refers to. */
void pickle_release(struct pickle_machine *machine, struct pickle_value value);
/* Frees the stack and all that was shared. */
void pickle_clear_values(struct pickle_machine *machine);
/* Push values. Those with bytes of the file push nothing where it ends. */
int pickle_push_on_full_stack(struct pickle_machine *machine, struct pickle_value value);
static inline int pickle_push(struct pickle_machine *machine, struct pickle_value value)
{
    if (machine->depth == machine->stack_room)
        return pickle_push_on_full_stack(machine, value);
    machine->stack[machine->depth++] = value;
    return 0;
}
int pickle_push_box(struct pickle_machine *machine, enum pickle_type type);
int pickle_push_int(struct pickle_machine *machine, enum pickle_type type, int64_t number);
int pickle_push_mark(struct pickle_machine *machine);
int pickle_push_text(struct pickle_machine *machine, uint64_t bytes);
int pickle_push_long(struct pickle_machine *machine, uint64_t bytes);
/* Place of the last mark on the stack; SIZE_MAX: there is none. */
size_t pickle_last_mark(const struct pickle_machine *machine);
int pickle_bad_shape(struct pickle_machine *machine);
/* Moves what lies from `first` on into the box below it; `marked`: a mark lies between. A dict is
 * handed out. */
int pickle_collect(struct pickle_machine *machine, size_t first, enum pickle_type type,
                   bool marked);
/* Makes a tuple of the values from `first` on. `marked`: the mark below them goes. */
int pickle_make_tuple(struct pickle_machine *machine, size_t first, bool marked);

#endif
