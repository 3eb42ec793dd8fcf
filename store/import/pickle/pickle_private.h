/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/pickle/: the state of the machine. pickle_bytes.c reads the file,
 * pickle_values.c keeps the stack and the values, pickle.c executes opcodes.
 */
#ifndef STORE_IMPORT_PICKLE_PICKLE_PRIVATE_H
#define STORE_IMPORT_PICKLE_PICKLE_PRIVATE_H

#include "store/import/pickle/pickle.h"

#define PICKLE_HINT \
    "give a file of torch.cuda.memory._dump_snapshot() or of the NCCL flight recorder"

struct pickle_machine {
    const struct pickle_reader *reader;
    const char *path;
    struct tacho_error *err;
    struct imp_input *in;
    unsigned char *buffer;
    size_t at, end; /* of the buffer */
    bool truncated;
    int code;
    int64_t reported;

    struct pickle_value *stack;
    size_t depth, stack_room;
    size_t *mark; /* places of marks on the stack */
    size_t mark_count, mark_room;
    uint32_t *slot; /* number in the memory -> place in `memo`, NOT_FETCHED */
    size_t slots, slot_room, puts;
    struct pickle_value *memo;
    size_t memo_count, memo_room;
    size_t values;               /* alive in boxes */
    struct pickle_value *shared; /* boxes and texts that live until the end */
    size_t shared_count, shared_room;
};

#define PICKLE_BUFFER (1u << 20) /* bytes of machine->buffer */

/* ---- pickle_bytes.c --------------------------------------------------------------------------------------------------------- */

/* Starts at the beginning of the file. */
int pickle_open_input(struct pickle_machine *machine);
/* Copies bytes of the file; `to` NULL: skips them. False: the file ends before. */
bool pickle_take(struct pickle_machine *machine, void *to, uint64_t bytes);
/* The next opcode. */
static inline bool pickle_take_byte(struct pickle_machine *machine, unsigned char *byte)
{
    if (machine->at == machine->end)
        return pickle_take(machine, byte, 1);
    *byte = machine->buffer[machine->at++];
    return true;
}
/* A number of up to eight bytes, the lowest first. */
bool pickle_take_number(struct pickle_machine *machine, size_t bytes, uint64_t *out);
/* Ends the reading with an error, unless it ended already. */
int pickle_refuse(struct pickle_machine *machine, int code, const char *hint, const char *what);
int pickle_refuse_limit(struct pickle_machine *machine, const char *what);

/* ---- pickle_values.c -------------------------------------------------------------------------------------------------------- */

/* Frees what nothing else refers to; empties a box. */
void pickle_release(struct pickle_machine *machine, struct pickle_value value);
void pickle_empty_box(struct pickle_machine *machine, struct pickle_box *box);
/* Push values. Those with bytes of the file push nothing where it ends. */
int pickle_push(struct pickle_machine *machine, struct pickle_value value);
int pickle_push_box(struct pickle_machine *machine, enum pickle_type type);
int pickle_push_int(struct pickle_machine *machine, enum pickle_type type, int64_t number);
int pickle_push_mark(struct pickle_machine *machine);
int pickle_push_text(struct pickle_machine *machine, uint64_t bytes);
int pickle_push_long(struct pickle_machine *machine, uint64_t bytes);
/* Place of the n-th last mark on the stack; SIZE_MAX: there is none. */
size_t pickle_last_mark(const struct pickle_machine *machine, size_t nth);
int pickle_bad_shape(struct pickle_machine *machine);
/* Moves what lies from `first` on into the box below it; `marked`: a mark lies between. A dict is
 * handed out. */
int pickle_collect(struct pickle_machine *machine, size_t first, enum pickle_type type,
                   bool marked);
/* Makes a tuple of the values from `first` on. `marked`: the mark below them goes. */
int pickle_make_tuple(struct pickle_machine *machine, size_t first, bool marked);

#endif
