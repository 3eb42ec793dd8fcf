/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine of a restricted pickle: a stack of values, a memory of those that are fetched again.
 * The opcodes are those of Python's Lib/pickletools.py.
 */
#include "store/import/pickle/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/pickle/pickle_private.h"

#define MEMO_MOST   (1u << 28) /* remembered objects */
#define MEMO_GAP    65536      /* how far a number of the memory may be ahead of their count */
#define NOT_FETCHED UINT32_MAX

/* Opcodes: key, byte, what it carries, the name that a refusal prints */
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_POP = '0',
    OP_FLOAT = 'G',
    OP_INT4 = 'J',
    OP_INT1 = 'K',
    OP_INT2 = 'M',
    OP_NONE = 'N',
    OP_UNICODE4 = 'X',
    OP_STRING1 = 'U',
    OP_STRING4 = 'T',
    OP_APPEND = 'a',
    OP_APPENDS = 'e',
    OP_GET1 = 'h',
    OP_GET4 = 'j',
    OP_LIST = ']',
    OP_PUT1 = 'q',
    OP_PUT4 = 'r',
    OP_SETITEM = 's',
    OP_SETITEMS = 'u',
    OP_TUPLE = 't',
    OP_TUPLE0 = ')',
    OP_DICT = '}',
    OP_PROTO = 0x80,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_TRUE = 0x88,
    OP_FALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_UNICODE1 = 0x8c,
    OP_UNICODE8 = 0x8d,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95,
    OP_BYTES1 = 'C',
    OP_BYTES4 = 'B'
};

/* Opcodes that import, call or build objects. */
static const struct {
    unsigned char byte;
    const char *name;
} forbidden[] = {{'c', "GLOBAL"},      {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
                 {'b', "BUILD"},       {'i', "INST"},          {'o', "OBJ"},
                 {0x81, "NEWOBJ"},     {0x92, "NEWOBJ_EX"},    {0x82, "EXT1"},
                 {0x83, "EXT2"},       {0x84, "EXT4"},         {'P', "PERSID"},
                 {'Q', "BINPERSID"},   {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
                 {0x96, "BYTEARRAY8"}, {0x8f, "EMPTY_SET"},    {0x91, "FROZENSET"}};

/* An opcode that is not one of data. */
static int refuse_opcode(struct pickle_machine *machine, unsigned char byte)
{
    char what[160];
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (forbidden[i].byte == byte) {
            snprintf(what, sizeof what,
                     "a pickle that makes objects or runs code (%s): not read, and nothing was run",
                     forbidden[i].name);
            return pickle_refuse(machine, TACHO_ENOTSUP, PICKLE_HINT, what);
        }
    snprintf(what, sizeof what, "not a pickle of data (byte 0x%02x where an opcode should be)",
             byte);
    return pickle_refuse(machine, TACHO_EFORMAT, PICKLE_HINT, what);
}

/* Bytes that follow an opcode besides those of a text; -1: not an opcode of data. */
static int operand_bytes(unsigned char byte)
{
    switch (byte) {
    case OP_MARK:
    case OP_STOP:
    case OP_POP:
    case OP_NONE:
    case OP_APPEND:
    case OP_APPENDS:
    case OP_LIST:
    case OP_SETITEM:
    case OP_SETITEMS:
    case OP_TUPLE:
    case OP_TUPLE0:
    case OP_DICT:
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
    case OP_TRUE:
    case OP_FALSE:
    case OP_MEMOIZE:
        return 0;
    case OP_INT1:
    case OP_GET1:
    case OP_PUT1:
    case OP_PROTO:
    case OP_LONG1:
    case OP_UNICODE1:
    case OP_STRING1:
    case OP_BYTES1:
        return 1;
    case OP_INT2:
        return 2;
    case OP_INT4:
    case OP_GET4:
    case OP_PUT4:
    case OP_UNICODE4:
    case OP_STRING4:
    case OP_BYTES4:
        return 4;
    case OP_FLOAT:
    case OP_UNICODE8:
    case OP_FRAME:
        return 8;
    default:
        return -1;
    }
}

static bool has_text(unsigned char byte)
{
    return byte == OP_LONG1 || byte == OP_UNICODE1 || byte == OP_UNICODE4 || byte == OP_UNICODE8 ||
           byte == OP_STRING1 || byte == OP_STRING4 || byte == OP_BYTES1 || byte == OP_BYTES4;
}

/* ---- the first reading ------------------------------------------------------------------------------------------------------ */

/* The number of the next or the given object of the memory. */
static int put_number(struct pickle_machine *machine, unsigned char byte, uint64_t operand,
                      size_t *number)
{
    *number = byte == OP_MEMOIZE ? machine->puts : (size_t)operand;
    if (*number > machine->puts + MEMO_GAP || *number >= MEMO_MOST)
        return pickle_refuse_limit(machine, "a pickle that numbers its objects in no order");
    machine->puts++;
    return 0;
}

static int make_slot(struct pickle_machine *machine, size_t number)
{
    if (number >= machine->slot_room) {
        size_t room = machine->slot_room ? machine->slot_room : 4096;
        while (room <= number)
            room *= 2;
        uint32_t *bigger = realloc(machine->slot, room * sizeof *bigger);
        if (!bigger)
            return machine->code = TACHO_ENOMEM;
        machine->slot = bigger;
        machine->slot_room = room;
    }
    while (machine->slots <= number)
        machine->slot[machine->slots++] = NOT_FETCHED;
    return 0;
}

/* Notes which objects are fetched again. An opcode that is not one of data ends it, too. */
static int find_fetched(struct pickle_machine *machine)
{
    unsigned char byte;
    uint64_t operand;
    size_t number;
    while (!machine->code && pickle_take_byte(machine, &byte) && byte != OP_STOP) {
        int bytes = operand_bytes(byte);
        if (bytes < 0)
            return refuse_opcode(machine, byte);
        if (!pickle_take_number(machine, (size_t)bytes, &operand) ||
            (has_text(byte) && !pickle_take(machine, NULL, operand)))
            break;
        if (byte == OP_MEMOIZE || byte == OP_PUT1 || byte == OP_PUT4) {
            if (put_number(machine, byte, operand, &number) || make_slot(machine, number))
                break;
        } else if ((byte == OP_GET1 || byte == OP_GET4) && operand < machine->slots &&
                   machine->slot[operand] == NOT_FETCHED) {
            if (machine->memo_count >= NOT_FETCHED)
                return pickle_refuse_limit(machine, "a pickle that shares too many objects");
            machine->slot[operand] = (uint32_t)machine->memo_count++;
        }
    }
    return machine->code;
}

/* ---- the second reading ------------------------------------------------------------------------------------------------------ */

/* Keeps the value on top of the stack in the memory, if it is fetched later. */
static int remember(struct pickle_machine *machine, unsigned char byte, uint64_t operand)
{
    size_t number;
    if (put_number(machine, byte, operand, &number))
        return machine->code;
    if (!machine->depth)
        return pickle_bad_shape(machine);
    if (number >= machine->slots || machine->slot[number] == NOT_FETCHED)
        return 0;
    struct pickle_value value = machine->stack[machine->depth - 1];
    bool *shared = NULL;
    if (value.type == PICKLE_TEXT)
        shared = &value.text->shared;
    if (value.type == PICKLE_LIST || value.type == PICKLE_DICT)
        shared = &value.box->shared;
    machine->memo[machine->slot[number]] = value;
    if (!shared || *shared)
        return 0;
    if (machine->shared_count == machine->shared_room) {
        size_t room = machine->shared_room ? 2 * machine->shared_room : 1024;
        struct pickle_value *bigger = realloc(machine->shared, room * sizeof *bigger);
        if (!bigger)
            return machine->code = TACHO_ENOMEM;
        machine->shared = bigger;
        machine->shared_room = room;
    }
    *shared = true;
    machine->shared[machine->shared_count++] = value;
    return 0;
}

static int fetch(struct pickle_machine *machine, uint64_t number)
{
    if (number >= machine->slots || machine->slot[number] == NOT_FETCHED)
        return pickle_bad_shape(machine);
    return pickle_push(machine, machine->memo[machine->slot[number]]);
}

static double real_of(uint64_t operand)
{
    uint64_t bits = __builtin_bswap64(operand); /* a float is written with the highest byte first */
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

/* Executes an opcode that pushes a value. */
static int push_value(struct pickle_machine *machine, unsigned char byte, uint64_t operand)
{
    switch (byte) {
    case OP_MARK:
        return pickle_push_mark(machine);
    case OP_NONE:
        return pickle_push_int(machine, PICKLE_NONE, 0);
    case OP_TRUE:
    case OP_FALSE:
        return pickle_push_int(machine, PICKLE_BOOL, byte == OP_TRUE);
    case OP_INT1:
    case OP_INT2:
        return pickle_push_int(machine, PICKLE_INT, (int64_t)operand);
    case OP_INT4:
        return pickle_push_int(machine, PICKLE_INT, (int32_t)(uint32_t)operand);
    case OP_FLOAT:
        return pickle_push(machine,
                           (struct pickle_value){.type = PICKLE_FLOAT, .real = real_of(operand)});
    case OP_LONG1:
        return pickle_push_long(machine, operand);
    case OP_LIST:
    case OP_TUPLE0:
        return pickle_push_box(machine, PICKLE_LIST);
    case OP_DICT:
        return pickle_push_box(machine, PICKLE_DICT);
    default:
        return pickle_push_text(machine, operand);
    }
}

/* Executes an opcode that combines values. */
static int combine(struct pickle_machine *machine, unsigned char byte)
{
    bool marked = byte == OP_APPENDS || byte == OP_SETITEMS || byte == OP_TUPLE;
    size_t mark = marked ? pickle_last_mark(machine, 0) : 0;
    machine->mark_count -= marked && machine->mark_count;
    size_t take_count = 0;
    switch (byte) {
    case OP_APPENDS:
        return mark == SIZE_MAX ? pickle_bad_shape(machine)
                                : pickle_collect(machine, mark + 1, PICKLE_LIST, true);
    case OP_SETITEMS:
        return mark == SIZE_MAX ? pickle_bad_shape(machine)
                                : pickle_collect(machine, mark + 1, PICKLE_DICT, true);
    case OP_TUPLE:
        return mark == SIZE_MAX ? pickle_bad_shape(machine)
                                : pickle_make_tuple(machine, mark + 1, true);
    case OP_APPEND:
        return machine->depth < 2 ? pickle_bad_shape(machine)
                                  : pickle_collect(machine, machine->depth - 1, PICKLE_LIST, false);
    case OP_SETITEM:
        return machine->depth < 3 ? pickle_bad_shape(machine)
                                  : pickle_collect(machine, machine->depth - 2, PICKLE_DICT, false);
    case OP_POP:
        if (!machine->depth)
            return pickle_bad_shape(machine);
        if (machine->stack[machine->depth - 1].type == PICKLE_MARK)
            machine->mark_count -= machine->mark_count > 0;
        pickle_release(machine, machine->stack[--machine->depth]);
        return 0;
    default:
        take_count = (size_t)(byte - OP_TUPLE1) + 1;
        return machine->depth < take_count ||
                       (machine->mark_count &&
                        machine->mark[machine->mark_count - 1] >= machine->depth - take_count)
                   ? pickle_bad_shape(machine)
                   : pickle_make_tuple(machine, machine->depth - take_count, false);
    }
}

static int execute(struct pickle_machine *machine, unsigned char byte, uint64_t operand)
{
    switch (byte) {
    case OP_PROTO:
    case OP_FRAME:
        return 0;
    case OP_PUT1:
    case OP_PUT4:
    case OP_MEMOIZE:
        return remember(machine, byte, operand);
    case OP_GET1:
    case OP_GET4:
        return fetch(machine, operand);
    case OP_APPEND:
    case OP_APPENDS:
    case OP_SETITEM:
    case OP_SETITEMS:
    case OP_TUPLE:
    case OP_POP:
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
        return combine(machine, byte);
    default:
        return push_value(machine, byte, operand);
    }
}

/* The second reading: builds values and hands out dicts. */
static int build(struct pickle_machine *machine)
{
    unsigned char byte;
    uint64_t operand;
    machine->memo = calloc(machine->memo_count + 1, sizeof *machine->memo);
    if (!machine->memo)
        return machine->code = TACHO_ENOMEM;
    while (!machine->code && pickle_take_byte(machine, &byte) && byte != OP_STOP) {
        int bytes = operand_bytes(byte);
        if (bytes < 0)
            return refuse_opcode(machine, byte);
        if (!pickle_take_number(machine, (size_t)bytes, &operand))
            break;
        execute(machine, byte, operand);
    }
    return machine->code;
}

static void clear(struct pickle_machine *machine)
{
    while (machine->depth)
        pickle_release(machine, machine->stack[--machine->depth]);
    for (size_t i = 0; i < machine->shared_count;
         i++) { /* what is in them is shared, or freed here */
        struct pickle_value value = machine->shared[i];
        if (value.type == PICKLE_LIST || value.type == PICKLE_DICT)
            pickle_empty_box(machine, value.box);
    }
    for (size_t i = 0; i < machine->shared_count; i++) {
        struct pickle_value value = machine->shared[i];
        free(value.type == PICKLE_TEXT ? (void *)value.text : (void *)value.box);
    }
    free(machine->shared);
    free(machine->stack);
    free(machine->mark);
    free(machine->slot);
    free(machine->memo);
    free(machine->buffer);
    imp_input_close(machine->in);
}

int pickle_read(const char *path, const struct pickle_reader *reader, bool *truncated,
                struct tacho_error *err)
{
    struct pickle_machine machine = {.reader = reader, .path = path, .err = err};
    machine.buffer = malloc(PICKLE_BUFFER);
    if (!machine.buffer)
        machine.code = TACHO_ENOMEM;
    if (!machine.code && !pickle_open_input(&machine))
        find_fetched(&machine);
    if (!machine.code && !pickle_open_input(&machine))
        build(&machine);
    *truncated = machine.truncated;
    if (machine.code == TACHO_ENOMEM)
        tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int code = machine.code;
    clear(&machine);
    return code;
}
