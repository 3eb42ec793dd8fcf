/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine of a restricted pickle: a stack of values, a memory of those that are fetched again.
 * The opcodes are those of Python's Lib/pickletools.py.
 */
#include "store/import/pickle/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (1u << 20)
#define TEXT_MOST    (1u << 20)  /* bytes of a text that is kept */
#define STACK_MOST   (1u << 24)  /* values on the stack */
#define VALUES_MOST  (40u << 20) /* values that live at once, in all boxes */
#define MEMO_MOST    (1u << 28)  /* remembered objects */
#define MEMO_GAP     65536       /* how far a number of the memory may be ahead of their count */
#define NOT_FETCHED  UINT32_MAX

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
} forbidden[] = {{'c', "GLOBAL"},        {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
                 {'b', "BUILD"},         {'i', "INST"},          {'o', "OBJ"},
                 {0x81, "NEWOBJ"},       {0x92, "NEWOBJ_EX"},    {0x82, "EXT1"},
                 {0x83, "EXT2"},         {0x84, "EXT4"},         {'P', "PERSID"},
                 {'Q', "BINPERSID"},     {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
                 {0x96, "BYTEARRAY8"},   {0x8f, "EMPTY_SET"},    {0x91, "FROZENSET"}};

struct machine {
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
    size_t values; /* alive in boxes */
    struct pickle_value *shared; /* boxes and texts that live until the end */
    size_t shared_count, shared_room;
};

/* ---- bytes ------------------------------------------------------------------------------------------------------------------ */

static bool fill(struct machine *machine)
{
    size_t got = 0;
    int code = imp_input_read(machine->in, machine->buffer, BUFFER_BYTES, &got, machine->err);
    machine->at = 0;
    machine->end = code ? 0 : got;
    if (!code) {
        int64_t now = imp_input_position(machine->in);
        code = imp_progress(machine->reader->run, (now - machine->reported) / 2);
        machine->reported = now;
    }
    machine->code = machine->code ? machine->code : code;
    return !machine->code && got > 0;
}

/* Copies bytes of the file; `to` NULL: skips them. False: the file ends before. */
static bool take(struct machine *machine, void *to, uint64_t bytes)
{
    unsigned char *out = to;
    while (bytes) {
        if (machine->at == machine->end && !fill(machine)) {
            machine->truncated = true;
            return false;
        }
        size_t some = machine->end - machine->at;
        if (some > bytes)
            some = (size_t)bytes;
        if (out) {
            memcpy(out, machine->buffer + machine->at, some);
            out += some;
        }
        machine->at += some;
        bytes -= some;
    }
    return true;
}

/* A number of up to eight bytes, the lowest first. */
static bool take_number(struct machine *machine, size_t bytes, uint64_t *out)
{
    unsigned char raw[8] = {0};
    if (!take(machine, raw, bytes))
        return false;
    *out = 0;
    for (size_t i = bytes; i-- > 0;)
        *out = *out << 8 | raw[i];
    return true;
}

static int refuse(struct machine *machine, int code, const char *hint, const char *what)
{
    if (!machine->code)
        machine->code = tacho_fail(machine->err, code, hint, "%s: %s", machine->path, what);
    return machine->code;
}

#define HINT_DATA "give a file of torch.cuda.memory._dump_snapshot() or of the NCCL flight recorder"

/* An opcode that is not one of data. */
static int refuse_opcode(struct machine *machine, unsigned char byte)
{
    char what[160];
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (forbidden[i].byte == byte) {
            snprintf(what, sizeof what,
                     "a pickle that makes objects or runs code (%s): not read, and nothing was run",
                     forbidden[i].name);
            return refuse(machine, TACHO_ENOTSUP, HINT_DATA, what);
        }
    snprintf(what, sizeof what, "not a pickle of data (byte 0x%02x where an opcode should be)",
             byte);
    return refuse(machine, TACHO_EFORMAT, HINT_DATA, what);
}

static int refuse_limit(struct machine *machine, const char *what)
{
    return refuse(machine, TACHO_EFORMAT, "record fewer events: max_entries=100000", what);
}

/* Bytes that follow an opcode besides those of a text; -1: not an opcode of data. */
static int operand_bytes(unsigned char byte)
{
    switch (byte) {
    case OP_MARK: case OP_STOP: case OP_POP: case OP_NONE: case OP_APPEND: case OP_APPENDS:
    case OP_LIST: case OP_SETITEM: case OP_SETITEMS: case OP_TUPLE: case OP_TUPLE0: case OP_DICT:
    case OP_TUPLE1: case OP_TUPLE2: case OP_TUPLE3: case OP_TRUE: case OP_FALSE: case OP_MEMOIZE:
        return 0;
    case OP_INT1: case OP_GET1: case OP_PUT1: case OP_PROTO: case OP_LONG1: case OP_UNICODE1:
    case OP_STRING1: case OP_BYTES1:
        return 1;
    case OP_INT2:
        return 2;
    case OP_INT4: case OP_GET4: case OP_PUT4: case OP_UNICODE4: case OP_STRING4: case OP_BYTES4:
        return 4;
    case OP_FLOAT: case OP_UNICODE8: case OP_FRAME:
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

static int open_input(struct machine *machine)
{
    imp_input_close(machine->in);
    machine->in = NULL;
    machine->at = machine->end = machine->puts = 0;
    machine->reported = 0;
    machine->truncated = false;
    return machine->code = imp_input_open(machine->path, &machine->in, machine->err);
}

/* ---- the first reading ------------------------------------------------------------------------------------------------------ */

/* The number of the next or the given object of the memory. */
static int put_number(struct machine *machine, unsigned char byte, uint64_t operand, size_t *number)
{
    *number = byte == OP_MEMOIZE ? machine->puts : (size_t)operand;
    if (*number > machine->puts + MEMO_GAP || *number >= MEMO_MOST)
        return refuse_limit(machine, "a pickle that numbers its objects in no order");
    machine->puts++;
    return 0;
}

static int make_slot(struct machine *machine, size_t number)
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
static int find_fetched(struct machine *machine)
{
    unsigned char byte;
    uint64_t operand;
    size_t number;
    while (!machine->code && take(machine, &byte, 1) && byte != OP_STOP) {
        int bytes = operand_bytes(byte);
        if (bytes < 0)
            return refuse_opcode(machine, byte);
        if (!take_number(machine, (size_t)bytes, &operand) ||
            (has_text(byte) && !take(machine, NULL, operand)))
            break;
        if (byte == OP_MEMOIZE || byte == OP_PUT1 || byte == OP_PUT4) {
            if (put_number(machine, byte, operand, &number) || make_slot(machine, number))
                break;
        } else if ((byte == OP_GET1 || byte == OP_GET4) && operand < machine->slots &&
                   machine->slot[operand] == NOT_FETCHED) {
            if (machine->memo_count >= NOT_FETCHED)
                return refuse_limit(machine, "a pickle that shares too many objects");
            machine->slot[operand] = (uint32_t)machine->memo_count++;
        }
    }
    return machine->code;
}

/* ---- values ----------------------------------------------------------------------------------------------------------------- */

/* Frees what nothing else refers to. Nested boxes are freed one level at a time from a list, so that
 * a deep file needs no deep stack. */
static void release(struct machine *machine, struct pickle_value value)
{
    struct pickle_box *list = NULL; /* linked through `note` */
    if (value.type == PICKLE_TEXT && !value.text->shared)
        free(value.text);
    if ((value.type != PICKLE_LIST && value.type != PICKLE_DICT) || value.box->shared)
        return;
    value.box->note = 0;
    for (list = value.box; list;) {
        struct pickle_box *box = list;
        list = (struct pickle_box *)(uintptr_t)box->note;
        for (size_t i = 0; i < box->count; i++) {
            struct pickle_value inner = box->value[i];
            if (inner.type == PICKLE_TEXT && !inner.text->shared)
                free(inner.text);
            if ((inner.type == PICKLE_LIST || inner.type == PICKLE_DICT) && !inner.box->shared) {
                inner.box->note = (int64_t)(uintptr_t)list;
                list = inner.box;
            }
        }
        machine->values -= box->count;
        free(box->value);
        free(box);
    }
}

static void empty_box(struct machine *machine, struct pickle_box *box)
{
    for (size_t i = 0; i < box->count; i++)
        release(machine, box->value[i]);
    machine->values -= box->count;
    free(box->value);
    box->value = NULL;
    box->count = box->room = 0;
}

static int push(struct machine *machine, struct pickle_value value)
{
    if (machine->depth == machine->stack_room) {
        size_t room = machine->stack_room ? 2 * machine->stack_room : 1024;
        struct pickle_value *bigger =
            room > STACK_MOST ? NULL : realloc(machine->stack, room * sizeof *bigger);
        if (room > STACK_MOST) {
            release(machine, value);
            return refuse_limit(machine, "a pickle that is nested or listed beyond the limit");
        }
        if (!bigger) {
            release(machine, value);
            return machine->code = TACHO_ENOMEM;
        }
        machine->stack = bigger;
        machine->stack_room = room;
    }
    machine->stack[machine->depth++] = value;
    return 0;
}

static int push_box(struct machine *machine, enum pickle_type type)
{
    struct pickle_box *box = calloc(1, sizeof *box);
    if (!box)
        return machine->code = TACHO_ENOMEM;
    return push(machine, (struct pickle_value){.type = type, .box = box});
}

static int push_int(struct machine *machine, enum pickle_type type, int64_t number)
{
    return push(machine, (struct pickle_value){.type = type, .number = number});
}

static int push_mark(struct machine *machine)
{
    if (machine->mark_count == machine->mark_room) {
        size_t room = machine->mark_room ? 2 * machine->mark_room : 64;
        size_t *bigger = realloc(machine->mark, room * sizeof *bigger);
        if (!bigger)
            return machine->code = TACHO_ENOMEM;
        machine->mark = bigger;
        machine->mark_room = room;
    }
    machine->mark[machine->mark_count++] = machine->depth;
    return push_int(machine, PICKLE_MARK, 0);
}

/* A text of the file; one that is too long is skipped and becomes PICKLE_OTHER. */
static int push_text(struct machine *machine, uint64_t bytes)
{
    if (bytes > TEXT_MOST)
        return take(machine, NULL, bytes) ? push_int(machine, PICKLE_OTHER, 0) : 0;
    struct pickle_text *text = calloc(1, sizeof *text + (size_t)bytes + 1);
    if (!text)
        return machine->code = TACHO_ENOMEM;
    text->bytes = (size_t)bytes;
    if (!take(machine, text->text, bytes)) {
        free(text);
        return 0;
    }
    return push(machine, (struct pickle_value){.type = PICKLE_TEXT, .text = text});
}

/* An integer of any length; what does not fit 64 bits (with or without a sign) is PICKLE_OTHER. */
static int push_long(struct machine *machine, uint64_t bytes)
{
    unsigned char raw[256];
    uint64_t number = 0;
    if (!take(machine, raw, bytes & 255))
        return 0;
    if (bytes > 9 || (bytes == 9 && raw[8]))
        return push_int(machine, PICKLE_OTHER, 0);
    for (size_t i = bytes > 8 ? 8 : (size_t)bytes; i-- > 0;)
        number = number << 8 | raw[i];
    if (bytes && bytes < 8 && raw[bytes - 1] & 0x80)
        number |= UINT64_MAX << 8 * bytes;
    return push_int(machine, PICKLE_INT, (int64_t)number);
}

static int box_add(struct machine *machine, struct pickle_box *box, struct pickle_value value)
{
    if (machine->values >= VALUES_MOST)
        return refuse_limit(machine, "a pickle that holds more values at once than the limit");
    if (box->count == box->room) {
        size_t room = box->room ? 2 * box->room : 8;
        struct pickle_value *bigger = realloc(box->value, room * sizeof *bigger);
        if (!bigger)
            return machine->code = TACHO_ENOMEM;
        box->value = bigger;
        box->room = room;
    }
    box->value[box->count++] = value;
    machine->values++;
    return 0;
}

/* Place of the n-th last mark on the stack; SIZE_MAX: there is none. */
static size_t last_mark(const struct machine *machine, size_t nth)
{
    while (machine->mark_count > nth) {
        size_t at = machine->mark[machine->mark_count - 1 - nth];
        return at < machine->depth ? at : SIZE_MAX;
    }
    return SIZE_MAX;
}

/* Where the list that holds the value on top of the stack stands in the list around it: in a list of
 * lists (one for each device) that is the device. */
static size_t place_of(const struct machine *machine)
{
    size_t mark = last_mark(machine, 0), inner = mark == SIZE_MAX ? SIZE_MAX : mark - 1;
    if (machine->depth >= 2 && machine->stack[machine->depth - 2].type == PICKLE_LIST)
        inner = machine->depth - 2;
    if (inner == SIZE_MAX || inner == 0 || machine->stack[inner].type != PICKLE_LIST)
        return 0;
    size_t place = 0, at = inner;
    while (at-- > 0 && machine->stack[at].type == PICKLE_LIST)
        place++;
    if (at != SIZE_MAX && at > 0 && machine->stack[at].type == PICKLE_MARK &&
        machine->stack[at - 1].type == PICKLE_LIST)
        return place + machine->stack[at - 1].box->count;
    /* Without a mark the outermost of these lists is the one around. */
    return place ? machine->stack[at + 1].box->count : 0;
}

static int bad_shape(struct machine *machine)
{
    return refuse(machine, TACHO_EFORMAT, HINT_DATA, "a damaged pickle: its stack does not fit");
}

/* Moves what lies from `first` on into the box below it, and drops the mark. */
static int collect(struct machine *machine, size_t first, enum pickle_type type, bool marked)
{
    size_t below = first - (marked ? 2 : 1);
    if (first < (marked ? 2u : 1u) || machine->stack[below].type != type ||
        (!marked && machine->mark_count && machine->mark[machine->mark_count - 1] >= below))
        return bad_shape(machine);
    struct pickle_box *box = machine->stack[below].box;
    size_t taken = first;
    if (type == PICKLE_DICT && (machine->depth - first) % 2)
        return bad_shape(machine);
    while (taken < machine->depth && !box_add(machine, box, machine->stack[taken]))
        taken++;
    while (machine->depth > taken)
        release(machine, machine->stack[--machine->depth]);
    machine->depth = below + 1;
    if (machine->code || type != PICKLE_DICT)
        return machine->code;
    int code = 0;
    if (machine->reader->dict(machine->reader->ctx, box, place_of(machine), &code) &&
        !box->shared) {
        release(machine, machine->stack[below]);
        machine->stack[below] = (struct pickle_value){.type = PICKLE_NONE};
    }
    return machine->code = code;
}

/* Makes a tuple of the values from `first` on. `marked`: the mark below them goes. */
static int make_tuple(struct machine *machine, size_t first, bool marked)
{
    struct pickle_box *box = calloc(1, sizeof *box);
    size_t taken = first;
    if (!box)
        return machine->code = TACHO_ENOMEM;
    while (taken < machine->depth && !box_add(machine, box, machine->stack[taken]))
        taken++;
    while (machine->depth > taken)
        release(machine, machine->stack[--machine->depth]);
    machine->depth = first - marked;
    return push(machine, (struct pickle_value){.type = PICKLE_LIST, .box = box});
}

/* Keeps the value on top of the stack in the memory, if it is fetched later. */
static int remember(struct machine *machine, unsigned char byte, uint64_t operand)
{
    size_t number;
    if (put_number(machine, byte, operand, &number))
        return machine->code;
    if (!machine->depth)
        return bad_shape(machine);
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

static int fetch(struct machine *machine, uint64_t number)
{
    if (number >= machine->slots || machine->slot[number] == NOT_FETCHED)
        return bad_shape(machine);
    return push(machine, machine->memo[machine->slot[number]]);
}

static double real_of(uint64_t operand)
{
    uint64_t bits = __builtin_bswap64(operand); /* a float is written with the highest byte first */
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

/* Executes an opcode that pushes a value. */
static int push_value(struct machine *machine, unsigned char byte, uint64_t operand)
{
    switch (byte) {
    case OP_MARK:
        return push_mark(machine);
    case OP_NONE:
        return push_int(machine, PICKLE_NONE, 0);
    case OP_TRUE:
    case OP_FALSE:
        return push_int(machine, PICKLE_BOOL, byte == OP_TRUE);
    case OP_INT1:
    case OP_INT2:
        return push_int(machine, PICKLE_INT, (int64_t)operand);
    case OP_INT4:
        return push_int(machine, PICKLE_INT, (int32_t)(uint32_t)operand);
    case OP_FLOAT:
        return push(machine, (struct pickle_value){.type = PICKLE_FLOAT, .real = real_of(operand)});
    case OP_LONG1:
        return push_long(machine, operand);
    case OP_LIST:
    case OP_TUPLE0:
        return push_box(machine, PICKLE_LIST);
    case OP_DICT:
        return push_box(machine, PICKLE_DICT);
    default:
        return push_text(machine, operand);
    }
}

/* Executes an opcode that combines values. */
static int combine(struct machine *machine, unsigned char byte)
{
    bool marked = byte == OP_APPENDS || byte == OP_SETITEMS || byte == OP_TUPLE;
    size_t mark = marked ? last_mark(machine, 0) : 0;
    machine->mark_count -= marked && machine->mark_count;
    size_t take_count = 0;
    switch (byte) {
    case OP_APPENDS:
        return mark == SIZE_MAX ? bad_shape(machine)
                                : collect(machine, mark + 1, PICKLE_LIST, true);
    case OP_SETITEMS:
        return mark == SIZE_MAX ? bad_shape(machine)
                                : collect(machine, mark + 1, PICKLE_DICT, true);
    case OP_TUPLE:
        return mark == SIZE_MAX ? bad_shape(machine) : make_tuple(machine, mark + 1, true);
    case OP_APPEND:
        return machine->depth < 2 ? bad_shape(machine)
                                  : collect(machine, machine->depth - 1, PICKLE_LIST, false);
    case OP_SETITEM:
        return machine->depth < 3 ? bad_shape(machine)
                                  : collect(machine, machine->depth - 2, PICKLE_DICT, false);
    case OP_POP:
        if (!machine->depth)
            return bad_shape(machine);
        if (machine->stack[machine->depth - 1].type == PICKLE_MARK)
            machine->mark_count -= machine->mark_count > 0;
        release(machine, machine->stack[--machine->depth]);
        return 0;
    default:
        take_count = (size_t)(byte - OP_TUPLE1) + 1;
        return machine->depth < take_count ||
                       (machine->mark_count &&
                        machine->mark[machine->mark_count - 1] >= machine->depth - take_count)
                   ? bad_shape(machine)
                   : make_tuple(machine, machine->depth - take_count, false);
    }
}

static int execute(struct machine *machine, unsigned char byte, uint64_t operand)
{
    switch (byte) {
    case OP_PROTO:
    case OP_FRAME:
        return 0;
    case OP_PUT1: case OP_PUT4: case OP_MEMOIZE:
        return remember(machine, byte, operand);
    case OP_GET1: case OP_GET4:
        return fetch(machine, operand);
    case OP_APPEND: case OP_APPENDS: case OP_SETITEM: case OP_SETITEMS: case OP_TUPLE: case OP_POP:
    case OP_TUPLE1: case OP_TUPLE2: case OP_TUPLE3:
        return combine(machine, byte);
    default:
        return push_value(machine, byte, operand);
    }
}

/* The second reading: builds values and hands out dicts. */
static int build(struct machine *machine)
{
    unsigned char byte;
    uint64_t operand;
    machine->memo = calloc(machine->memo_count + 1, sizeof *machine->memo);
    if (!machine->memo)
        return machine->code = TACHO_ENOMEM;
    while (!machine->code && take(machine, &byte, 1) && byte != OP_STOP) {
        int bytes = operand_bytes(byte);
        if (bytes < 0)
            return refuse_opcode(machine, byte);
        if (!take_number(machine, (size_t)bytes, &operand))
            break;
        execute(machine, byte, operand);
    }
    return machine->code;
}

static void clear(struct machine *machine)
{
    while (machine->depth)
        release(machine, machine->stack[--machine->depth]);
    for (size_t i = 0; i < machine->shared_count; i++) { /* what is in them is shared, or freed here */
        struct pickle_value value = machine->shared[i];
        if (value.type == PICKLE_LIST || value.type == PICKLE_DICT)
            empty_box(machine, value.box);
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
    struct machine machine = {.reader = reader, .path = path, .err = err};
    machine.buffer = malloc(BUFFER_BYTES);
    if (!machine.buffer)
        machine.code = TACHO_ENOMEM;
    if (!machine.code && !open_input(&machine))
        find_fetched(&machine);
    if (!machine.code && !open_input(&machine))
        build(&machine);
    *truncated = machine.truncated;
    if (machine.code == TACHO_ENOMEM)
        tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
    int code = machine.code;
    clear(&machine);
    return code;
}

/* ---- questions -------------------------------------------------------------------------------------------------------------- */

const struct pickle_value *pickle_get(const struct pickle_box *dict, const char *key)
{
    size_t bytes = strlen(key);
    for (size_t i = 0; i + 1 < dict->count; i += 2)
        if (dict->value[i].type == PICKLE_TEXT && dict->value[i].text->bytes == bytes &&
            !memcmp(dict->value[i].text->text, key, bytes))
            return &dict->value[i + 1];
    return NULL;
}

int64_t pickle_int(const struct pickle_box *dict, const char *key)
{
    const struct pickle_value *value = pickle_get(dict, key);
    return value && (value->type == PICKLE_INT || value->type == PICKLE_BOOL) ? value->number
                                                                              : STORE_ABSENT;
}

struct pickle_text *pickle_text(const struct pickle_box *dict, const char *key)
{
    const struct pickle_value *value = pickle_get(dict, key);
    return value && value->type == PICKLE_TEXT ? value->text : NULL;
}

struct pickle_box *pickle_list(const struct pickle_box *dict, const char *key)
{
    const struct pickle_value *value = pickle_get(dict, key);
    return value && value->type == PICKLE_LIST ? value->box : NULL;
}
