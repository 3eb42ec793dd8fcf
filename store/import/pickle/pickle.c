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

/* Bytes of texts and values of lists that are fetched again: so many are free, then so many for
 * each byte of the file. */
#define REPEATED_FREE  ((uint64_t)256 << 20)
#define REPEATED_TIMES 200

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
            snprintf(
                what, sizeof what,
                "a pickle that creates objects or runs code (opcode %s): not read, nothing was run",
                forbidden[i].name);
            return pickle_refuse(machine, TACHO_ENOTSUP, PICKLE_HINT, what);
        }
    snprintf(what, sizeof what, "not a pickle of plain data (byte 0x%02x in place of an opcode)",
             byte);
    return pickle_refuse(machine, TACHO_EFORMAT, PICKLE_HINT, what);
}

/* What is known of an opcode: IS_DATA, HAS_TEXT, and how many bytes of a number follow it; 0: it is
 * none of data, or the end. After the number of one that has a text come as many bytes. */
enum { IS_DATA = 0x80, HAS_TEXT = 0x40, OPERAND = 0x0f };
static const unsigned char opcodes[256] = {
    [OP_MARK] = IS_DATA,
    [OP_POP] = IS_DATA,
    [OP_NONE] = IS_DATA,
    [OP_APPEND] = IS_DATA,
    [OP_APPENDS] = IS_DATA,
    [OP_LIST] = IS_DATA,
    [OP_SETITEM] = IS_DATA,
    [OP_SETITEMS] = IS_DATA,
    [OP_TUPLE] = IS_DATA,
    [OP_TUPLE0] = IS_DATA,
    [OP_DICT] = IS_DATA,
    [OP_TUPLE1] = IS_DATA,
    [OP_TUPLE2] = IS_DATA,
    [OP_TUPLE3] = IS_DATA,
    [OP_TRUE] = IS_DATA,
    [OP_FALSE] = IS_DATA,
    [OP_MEMOIZE] = IS_DATA,
    [OP_INT1] = IS_DATA | 1,
    [OP_GET1] = IS_DATA | 1,
    [OP_PUT1] = IS_DATA | 1,
    [OP_PROTO] = IS_DATA | 1,
    [OP_INT2] = IS_DATA | 2,
    [OP_INT4] = IS_DATA | 4,
    [OP_GET4] = IS_DATA | 4,
    [OP_PUT4] = IS_DATA | 4,
    [OP_FLOAT] = IS_DATA | 8,
    [OP_FRAME] = IS_DATA | 8,
    [OP_LONG1] = IS_DATA | HAS_TEXT | 1,
    [OP_UNICODE1] = IS_DATA | HAS_TEXT | 1,
    [OP_STRING1] = IS_DATA | HAS_TEXT | 1,
    [OP_BYTES1] = IS_DATA | HAS_TEXT | 1,
    [OP_UNICODE4] = IS_DATA | HAS_TEXT | 4,
    [OP_STRING4] = IS_DATA | HAS_TEXT | 4,
    [OP_BYTES4] = IS_DATA | HAS_TEXT | 4,
    [OP_UNICODE8] = IS_DATA | HAS_TEXT | 8,
};

struct opcode {
    int byte; /* NO_OPCODE: the object is whole, or the reading ends for another reason */
    uint64_t operand;
};
#define NO_OPCODE   (-1)
#define OPCODE_MOST 9 /* bytes of one with its number */

/* The next opcode where it may lie across the end of the buffer. */
static struct opcode next_cut_opcode(struct pickle_machine *machine)
{
    unsigned char byte;
    uint64_t operand;
    if (!pickle_take(machine, &byte, 1) ||
        !pickle_take_number(machine, (size_t)(opcodes[byte] & OPERAND), &operand))
        return (struct opcode){NO_OPCODE, 0};
    return (struct opcode){byte, operand};
}

/* An opcode with its number in the buffer. Branches say how long it is: the processor guesses them,
 * and so reads the next one before it knows this one. */
static inline __attribute__((always_inline)) struct opcode opcode_at(const unsigned char *from,
                                                                     size_t *bytes)
{
    switch (opcodes[*from] & OPERAND) {
    case 0:
        *bytes = 1;
        return (struct opcode){*from, 0};
    case 1:
        *bytes = 2;
        return (struct opcode){*from, from[1]};
    case 2:
        *bytes = 3;
        return (struct opcode){*from, pickle_number(from + 1, 2)};
    case 4:
        *bytes = 5;
        return (struct opcode){*from, pickle_number(from + 1, 4)};
    default:
        *bytes = 9;
        return (struct opcode){*from, pickle_number(from + 1, 8)};
    }
}

/* The next opcode and the number that follows it. */
static inline __attribute__((always_inline)) struct opcode
next_opcode(struct pickle_machine *machine)
{
    struct opcode opcode = {NO_OPCODE, 0};
    size_t bytes = 0;
    if (machine->code)
        return opcode;
    if (machine->end - machine->at >= OPCODE_MOST)
        opcode = opcode_at(machine->buffer + machine->at, &bytes);
    else
        opcode = next_cut_opcode(machine);
    machine->at += bytes;
    if (opcode.byte == NO_OPCODE || opcodes[opcode.byte] & IS_DATA)
        return opcode;
    if (opcode.byte != OP_STOP)
        refuse_opcode(machine, (unsigned char)opcode.byte);
    return (struct opcode){NO_OPCODE, 0};
}

/* ---- the first reading ------------------------------------------------------------------------------------------------------ */

/* The number of the next or the given object of the memory. */
static int put_number(struct pickle_machine *machine, int byte, uint64_t operand, size_t *number)
{
    *number = byte == OP_MEMOIZE ? machine->puts : (size_t)operand;
    if (*number > machine->puts + MEMO_GAP || *number >= MEMO_MOST)
        return pickle_refuse_limit(machine, "a pickle whose memo has gaps beyond the limit");
    machine->puts++;
    return 0;
}

static int make_slots(struct pickle_machine *machine, size_t number)
{
    size_t room = machine->slots ? machine->slots : 4096;
    if (number < machine->slots)
        return 0;
    while (room <= number)
        room *= 2;
    uint32_t *bigger = realloc(machine->slot, room * sizeof *bigger);
    if (!bigger)
        return machine->code = TACHO_ENOMEM;
    memset(bigger + machine->slots, 0xff, (room - machine->slots) * sizeof *bigger);
    machine->slot = bigger;
    machine->slots = room;
    return 0;
}

/* Gives an object that is fetched again its place in the memory. */
static int note_fetched(struct pickle_machine *machine, uint64_t number)
{
    if (number >= machine->puts + MEMO_GAP)
        return pickle_bad_shape(machine);
    if (make_slots(machine, (size_t)number) || machine->slot[number] != NOT_FETCHED)
        return machine->code;
    if (machine->memo_count >= NOT_FETCHED)
        return pickle_refuse_limit(machine,
                                   "a pickle that fetches more objects again than the limit");
    machine->slot[number] = (uint32_t)machine->memo_count++;
    return 0;
}

/* Notes which objects are fetched again. An opcode that is not one of data ends it, too. */
static int find_fetched(struct pickle_machine *machine)
{
    struct opcode next;
    size_t number;
    while ((next = next_opcode(machine)).byte != NO_OPCODE) {
        if (opcodes[next.byte] & HAS_TEXT)
            pickle_skip(machine, next.operand);
        else if (next.byte == OP_GET1 || next.byte == OP_GET4)
            note_fetched(machine, next.operand);
        else if (next.byte == OP_MEMOIZE || next.byte == OP_PUT1 || next.byte == OP_PUT4)
            put_number(machine, next.byte, next.operand, &number);
    }
    return machine->code;
}

/* ---- the second reading ------------------------------------------------------------------------------------------------------ */

/* Keeps the value on top of the stack in the memory, if it is fetched later. */
static int remember(struct pickle_machine *machine, int byte, uint64_t operand)
{
    size_t number;
    if (put_number(machine, byte, operand, &number))
        return machine->code;
    if (!machine->depth)
        return pickle_bad_shape(machine);
    if (number >= machine->slots || machine->slot[number] == NOT_FETCHED)
        return 0;
    struct pickle_value value = machine->stack[machine->depth - 1];
    machine->memo[machine->slot[number]] = value;
    return pickle_share(machine, value);
}

/* Pushes an object of the memory. What a file says once and repeats by number is read as often as
 * it is repeated: files of real programs repeat a few hundred bytes with each number. */
static int fetch(struct pickle_machine *machine, uint64_t number)
{
    if (number >= machine->slots || machine->slot[number] == NOT_FETCHED)
        return pickle_bad_shape(machine);
    struct pickle_value value = machine->memo[machine->slot[number]];
    if (value.type == PICKLE_MARK) /* nothing was put there */
        return pickle_bad_shape(machine);
    if (value.type == PICKLE_TEXT)
        machine->repeated += value.text->bytes;
    if (pickle_is_box(value))
        machine->repeated += value.box->count;
    if (machine->repeated > REPEATED_FREE + REPEATED_TIMES * machine->filled)
        return pickle_refuse_limit(machine,
                                   "a pickle that repeats its objects more often than the limit");
    return pickle_push(machine, value);
}

static double real_of(uint64_t operand)
{
    uint64_t bits = __builtin_bswap64(operand); /* a float is written with the highest byte first */
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

/* Executes an opcode that pushes a value. */
static int push_value(struct pickle_machine *machine, int byte, uint64_t operand)
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
static int combine(struct pickle_machine *machine, int byte)
{
    bool marked = byte == OP_APPENDS || byte == OP_SETITEMS || byte == OP_TUPLE;
    size_t mark = marked ? pickle_last_mark(machine) : 0;
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

static int execute(struct pickle_machine *machine, int byte, uint64_t operand)
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
    struct opcode next;
    machine->memo = malloc((machine->memo_count + 1) * sizeof *machine->memo);
    if (!machine->memo)
        return machine->code = TACHO_ENOMEM;
    for (size_t i = 0; i < machine->memo_count; i++)
        machine->memo[i] = (struct pickle_value){.type = PICKLE_MARK};
    while ((next = next_opcode(machine)).byte != NO_OPCODE)
        execute(machine, next.byte, next.operand);
    return machine->code;
}

static void clear(struct pickle_machine *machine)
{
    pickle_clear_values(machine);
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
    machine.once = calloc(PICKLE_ONCE, sizeof *machine.once);
    if (!machine.buffer || !machine.once)
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
