/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of a restricted pickle, and the values on it.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/pickle/pickle_private.h"

#define TEXT_MOST   (1u << 20) /* bytes of a text that is kept */
#define STACK_MOST  (1u << 24) /* values on the stack */
#define VALUES_MOST (8u << 20) /* values that live at once, in all boxes */

/* Frees what nothing else refers to. Nested boxes are freed one level at a time from a list, so
 * that a deep file needs no deep stack. */
void pickle_release(struct pickle_machine *machine, struct pickle_value value)
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

void pickle_empty_box(struct pickle_machine *machine, struct pickle_box *box)
{
    for (size_t i = 0; i < box->count; i++)
        pickle_release(machine, box->value[i]);
    machine->values -= box->count;
    free(box->value);
    box->value = NULL;
    box->count = box->room = 0;
}

int pickle_push(struct pickle_machine *machine, struct pickle_value value)
{
    if (machine->depth == machine->stack_room) {
        size_t room = machine->stack_room ? 2 * machine->stack_room : 1024;
        struct pickle_value *bigger =
            room > STACK_MOST ? NULL : realloc(machine->stack, room * sizeof *bigger);
        if (room > STACK_MOST) {
            pickle_release(machine, value);
            return pickle_refuse_limit(machine,
                                       "a pickle that is nested or listed beyond the limit");
        }
        if (!bigger) {
            pickle_release(machine, value);
            return machine->code = TACHO_ENOMEM;
        }
        machine->stack = bigger;
        machine->stack_room = room;
    }
    machine->stack[machine->depth++] = value;
    return 0;
}

int pickle_push_box(struct pickle_machine *machine, enum pickle_type type)
{
    struct pickle_box *box = calloc(1, sizeof *box);
    if (!box)
        return machine->code = TACHO_ENOMEM;
    return pickle_push(machine, (struct pickle_value){.type = type, .box = box});
}

int pickle_push_int(struct pickle_machine *machine, enum pickle_type type, int64_t number)
{
    return pickle_push(machine, (struct pickle_value){.type = type, .number = number});
}

int pickle_push_mark(struct pickle_machine *machine)
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
    return pickle_push_int(machine, PICKLE_MARK, 0);
}

/* A text of the file; one that is too long is skipped and becomes PICKLE_OTHER. */
int pickle_push_text(struct pickle_machine *machine, uint64_t bytes)
{
    if (bytes > TEXT_MOST)
        return pickle_take(machine, NULL, bytes) ? pickle_push_int(machine, PICKLE_OTHER, 0) : 0;
    struct pickle_text *text = calloc(1, sizeof *text + (size_t)bytes + 1);
    if (!text)
        return machine->code = TACHO_ENOMEM;
    text->bytes = (size_t)bytes;
    if (!pickle_take(machine, text->text, bytes)) {
        free(text);
        return 0;
    }
    return pickle_push(machine, (struct pickle_value){.type = PICKLE_TEXT, .text = text});
}

/* An integer of any length; what does not fit 64 bits (with or without a sign) is PICKLE_OTHER. */
int pickle_push_long(struct pickle_machine *machine, uint64_t bytes)
{
    unsigned char raw[256];
    uint64_t number = 0;
    if (!pickle_take(machine, raw, bytes & 255))
        return 0;
    if (bytes > 9 || (bytes == 9 && raw[8]))
        return pickle_push_int(machine, PICKLE_OTHER, 0);
    for (size_t i = bytes > 8 ? 8 : (size_t)bytes; i-- > 0;)
        number = number << 8 | raw[i];
    if (bytes && bytes < 8 && raw[bytes - 1] & 0x80)
        number |= UINT64_MAX << 8 * bytes;
    return pickle_push_int(machine, PICKLE_INT, (int64_t)number);
}

static int box_add(struct pickle_machine *machine, struct pickle_box *box,
                   struct pickle_value value)
{
    if (machine->values >= VALUES_MOST)
        return pickle_refuse_limit(machine,
                                   "a pickle that holds more values at once than the limit");
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
size_t pickle_last_mark(const struct pickle_machine *machine, size_t nth)
{
    while (machine->mark_count > nth) {
        size_t at = machine->mark[machine->mark_count - 1 - nth];
        return at < machine->depth ? at : SIZE_MAX;
    }
    return SIZE_MAX;
}

/* Where the list that holds the value on top of the stack stands in the list around it: in a list
 * of lists (one for each device) that is the device. */
static size_t place_of(const struct pickle_machine *machine)
{
    size_t mark = pickle_last_mark(machine, 0), inner = mark == SIZE_MAX ? SIZE_MAX : mark - 1;
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

int pickle_bad_shape(struct pickle_machine *machine)
{
    return pickle_refuse(machine, TACHO_EFORMAT, PICKLE_HINT,
                         "a damaged pickle: its stack does not fit");
}

/* Moves what lies from `first` on into the box below it, and drops the mark. */
int pickle_collect(struct pickle_machine *machine, size_t first, enum pickle_type type, bool marked)
{
    size_t below = first - (marked ? 2 : 1);
    if (first < (marked ? 2u : 1u) || machine->stack[below].type != type ||
        (!marked && machine->mark_count && machine->mark[machine->mark_count - 1] >= below))
        return pickle_bad_shape(machine);
    struct pickle_box *box = machine->stack[below].box;
    size_t taken = first;
    if (type == PICKLE_DICT && (machine->depth - first) % 2)
        return pickle_bad_shape(machine);
    while (taken < machine->depth && !box_add(machine, box, machine->stack[taken]))
        taken++;
    while (machine->depth > taken)
        pickle_release(machine, machine->stack[--machine->depth]);
    machine->depth = below + 1;
    if (machine->code || type != PICKLE_DICT)
        return machine->code;
    int code = 0;
    if (machine->reader->dict(machine->reader->ctx, box, place_of(machine), &code) &&
        !box->shared) {
        pickle_release(machine, machine->stack[below]);
        machine->stack[below] = (struct pickle_value){.type = PICKLE_NONE};
    }
    return machine->code = code;
}

/* Makes a tuple of the values from `first` on. `marked`: the mark below them goes. */
int pickle_make_tuple(struct pickle_machine *machine, size_t first, bool marked)
{
    struct pickle_box *box = calloc(1, sizeof *box);
    size_t taken = first;
    if (!box)
        return machine->code = TACHO_ENOMEM;
    while (taken < machine->depth && !box_add(machine, box, machine->stack[taken]))
        taken++;
    while (machine->depth > taken)
        pickle_release(machine, machine->stack[--machine->depth]);
    machine->depth = first - marked;
    return pickle_push(machine, (struct pickle_value){.type = PICKLE_LIST, .box = box});
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
