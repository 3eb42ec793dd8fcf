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
#define DICT_MOST   512        /* keys and values of a dict that is handed out */
#define PLACE_MOST  256        /* lists in a list that are told apart */

/* A text that short is looked up among those that were read before, at so many places. */
#define SHORT_TEXT  1024
#define ONCE_PLACES 8

/* Empty boxes that are kept for the next ones, and the room for values that each may have. */
#define SPARE_MOST 1024
#define SPARE_ROOM 16

/* ---- boxes ------------------------------------------------------------------------------------------------------------------ */

static struct pickle_box *new_box(struct pickle_machine *machine)
{
    struct pickle_box *box = machine->spare;
    if (!box)
        return calloc(1, sizeof *box);
    machine->spare = (struct pickle_box *)(uintptr_t)box->note;
    machine->spare_count--;
    box->note = 0;
    return box;
}

static void free_box(struct pickle_box *box)
{
    free(box->value);
    free(box);
}

/* Takes a box back whose values are gone. */
static void drop_box(struct pickle_machine *machine, struct pickle_box *box)
{
    machine->values -= box->count;
    if (box->room > SPARE_ROOM || machine->spare_count == SPARE_MOST) {
        free_box(box);
        return;
    }
    box->count = 0;
    box->note = (int64_t)(uintptr_t)machine->spare;
    machine->spare = box;
    machine->spare_count++;
}

/* Frees a text; puts a box that nothing else refers to on the list of those to be freed. */
static void release_value(struct pickle_box **list, struct pickle_value value)
{
    if (value.type == PICKLE_TEXT && !value.text->shared)
        free(value.text);
    if (pickle_is_box(value) && !value.box->shared) {
        value.box->note = (int64_t)(uintptr_t)*list;
        *list = value.box;
    }
}

/* Nested boxes are freed one after the other from a list, so that a deep file needs no deep stack.
 */
void pickle_release(struct pickle_machine *machine, struct pickle_value value)
{
    struct pickle_box *list = NULL; /* linked through `note` */
    release_value(&list, value);
    while (list) {
        struct pickle_box *box = list;
        list = (struct pickle_box *)(uintptr_t)box->note;
        for (size_t i = 0; i < box->count; i++)
            release_value(&list, box->value[i]);
        drop_box(machine, box);
    }
}

static int box_room(struct pickle_box *box, size_t more)
{
    size_t room = box->room ? 2 * box->room : 8;
    if (box->room - box->count >= more)
        return 0;
    if (room - box->count < more)
        room = box->count + more;
    struct pickle_value *bigger = realloc(box->value, room * sizeof *bigger);
    if (!bigger)
        return TACHO_ENOMEM;
    box->value = bigger;
    box->room = room;
    return 0;
}

/* Moves what lies on the stack from `first` on to the end of a box. */
static int box_take(struct pickle_machine *machine, struct pickle_box *box, size_t first)
{
    size_t more = machine->depth - first;
    if (more > VALUES_MOST - machine->values)
        return pickle_refuse_limit(machine,
                                   "a pickle that holds more values at once than the limit");
    if (box_room(box, more))
        return machine->code = TACHO_ENOMEM;
    if (more)
        memcpy(box->value + box->count, machine->stack + first, more * sizeof *box->value);
    box->count += more;
    machine->values += more;
    machine->depth = first;
    return 0;
}

/* ---- what lives until the end ----------------------------------------------------------------------------------------------- */

int pickle_share(struct pickle_machine *machine, struct pickle_value value)
{
    bool *shared = value.type == PICKLE_TEXT ? &value.text->shared : NULL;
    if (pickle_is_box(value))
        shared = &value.box->shared;
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

/* First what shared boxes alone refer to, then what is shared. */
void pickle_clear_values(struct pickle_machine *machine)
{
    while (machine->depth)
        pickle_release(machine, machine->stack[--machine->depth]);
    for (size_t i = 0; i < machine->shared_count; i++)
        for (size_t k = 0; pickle_is_box(machine->shared[i]) && k < machine->shared[i].box->count;
             k++)
            pickle_release(machine, machine->shared[i].box->value[k]);
    for (size_t i = 0; i < machine->shared_count; i++)
        if (machine->shared[i].type == PICKLE_TEXT)
            free(machine->shared[i].text);
        else
            free_box(machine->shared[i].box);
    while (machine->spare)
        free_box(new_box(machine));
    free(machine->shared);
    free(machine->stack);
    free(machine->once);
}

/* ---- pushing ---------------------------------------------------------------------------------------------------------------- */

int pickle_push_on_full_stack(struct pickle_machine *machine, struct pickle_value value)
{
    size_t room = machine->stack_room ? 2 * machine->stack_room : 1024;
    struct pickle_value *bigger =
        room > STACK_MOST ? NULL : realloc(machine->stack, room * sizeof *bigger);
    if (!bigger) {
        pickle_release(machine, value);
        return room > STACK_MOST
                   ? pickle_refuse_limit(
                         machine,
                         "a pickle that is nested deeper than the limit, or has longer lists")
                   : (machine->code = TACHO_ENOMEM);
    }
    machine->stack = bigger;
    machine->stack_room = room;
    return pickle_push(machine, value);
}

int pickle_push_box(struct pickle_machine *machine, enum pickle_type type)
{
    struct pickle_box *box = new_box(machine);
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

static size_t hash_of(const unsigned char *text, size_t bytes)
{
    uint64_t hash = bytes, word;
    for (; bytes >= sizeof word; text += sizeof word, bytes -= sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    for (; bytes; text++, bytes--)
        hash = (hash ^ *text) * 0x100000001b3u;
    hash *= 0x9e3779b97f4a7c15u;
    return (size_t)(hash ^ hash >> 32);
}

/* Where the text that comes next is kept, or would be; NULL: it is not one of those that are. */
static struct pickle_text **place_once(struct pickle_machine *machine, uint64_t bytes)
{
    const unsigned char *text = machine->buffer + machine->at;
    if (bytes > SHORT_TEXT || bytes > machine->end - machine->at)
        return NULL;
    size_t hash = hash_of(text, (size_t)bytes);
    for (size_t i = 0; i < ONCE_PLACES; i++) {
        struct pickle_text **place = &machine->once[(hash + i) % PICKLE_ONCE];
        if (!*place || ((*place)->bytes == bytes && !memcmp((*place)->text, text, (size_t)bytes)))
            return place;
    }
    return NULL;
}

/* A text of the file; one that is too long is skipped and becomes PICKLE_OTHER. Programs say the
 * same keys, files and functions over and over: each of these is one text. */
int pickle_push_text(struct pickle_machine *machine, uint64_t bytes)
{
    if (bytes > TEXT_MOST)
        return pickle_take(machine, NULL, bytes) ? pickle_push_int(machine, PICKLE_OTHER, 0) : 0;
    struct pickle_text **place = place_once(machine, bytes), *text = place ? *place : NULL;
    if (text) {
        machine->at += (size_t)bytes;
        return pickle_push(machine, (struct pickle_value){.type = PICKLE_TEXT, .text = text});
    }
    text = calloc(1, sizeof *text + (size_t)bytes + 1);
    if (!text)
        return machine->code = TACHO_ENOMEM;
    struct pickle_value value = {.type = PICKLE_TEXT, .text = text};
    text->bytes = (size_t)bytes;
    if (!pickle_take(machine, text->text, bytes) || (place && pickle_share(machine, value))) {
        free(text);
        return machine->code;
    }
    if (place)
        *place = text;
    return pickle_push(machine, value);
}

/* An integer of any length; what does not fit 64 bits (with or without a sign) is PICKLE_OTHER. */
int pickle_push_long(struct pickle_machine *machine, uint64_t bytes)
{
    uint64_t number, ninth = 0;
    if (bytes > 9)
        return pickle_take(machine, NULL, bytes) ? pickle_push_int(machine, PICKLE_OTHER, 0) : 0;
    if (!pickle_take_number(machine, bytes < 8 ? (size_t)bytes : 8, &number) ||
        (bytes == 9 && !pickle_take_number(machine, 1, &ninth)))
        return 0;
    if (ninth)
        return pickle_push_int(machine, PICKLE_OTHER, 0);
    if (bytes && bytes < 8 && number >> (8 * bytes - 1))
        number |= UINT64_MAX << 8 * bytes;
    return pickle_push_int(machine, PICKLE_INT, (int64_t)number);
}

/* ---- combining -------------------------------------------------------------------------------------------------------------- */

size_t pickle_last_mark(const struct pickle_machine *machine)
{
    size_t at = machine->mark_count ? machine->mark[machine->mark_count - 1] : SIZE_MAX;
    return at < machine->depth ? at : SIZE_MAX;
}

/* Where the list that holds the value on top of the stack stands in the list around it: in a list
 * of lists (one for each device) that is the device. */
static size_t place_of(const struct pickle_machine *machine)
{
    size_t mark = pickle_last_mark(machine), inner = mark == SIZE_MAX ? SIZE_MAX : mark - 1;
    if (machine->depth >= 2 && machine->stack[machine->depth - 2].type == PICKLE_LIST)
        inner = machine->depth - 2;
    if (inner == SIZE_MAX || inner == 0 || machine->stack[inner].type != PICKLE_LIST)
        return 0;
    size_t place = 0, at = inner;
    while (at-- > 0 && machine->stack[at].type == PICKLE_LIST && place < PLACE_MOST)
        place++;
    if (place == PLACE_MOST)
        return place;
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

/* Hands out the dict on top of the stack. */
static int hand_out(struct pickle_machine *machine)
{
    struct pickle_value *top = &machine->stack[machine->depth - 1];
    int code = 0;
    if (top->box->count > DICT_MOST ||
        !machine->reader->dict(machine->reader->ctx, top->box, place_of(machine), &code) ||
        top->box->shared)
        return machine->code = code;
    pickle_release(machine, *top);
    *top = (struct pickle_value){.type = PICKLE_TAKEN};
    return machine->code = code;
}

/* Leaves out what was taken: nobody asks for it, and a long history would be a list of nothing. */
static void drop_taken(struct pickle_machine *machine, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < machine->depth; i++)
        if (machine->stack[i].type != PICKLE_TAKEN)
            machine->stack[kept++] = machine->stack[i];
    machine->depth = kept;
}

/* Moves what lies from `first` on into the box below it, and drops the mark. */
int pickle_collect(struct pickle_machine *machine, size_t first, enum pickle_type type, bool marked)
{
    size_t below = first - (marked ? 2 : 1);
    if (first < (marked ? 2u : 1u) || machine->stack[below].type != type ||
        (!marked && machine->mark_count && machine->mark[machine->mark_count - 1] >= below))
        return pickle_bad_shape(machine);
    if (type == PICKLE_DICT && (machine->depth - first) % 2)
        return pickle_bad_shape(machine);
    if (type == PICKLE_LIST)
        drop_taken(machine, first);
    if (box_take(machine, machine->stack[below].box, first))
        return machine->code;
    machine->depth = below + 1;
    return type == PICKLE_DICT ? hand_out(machine) : 0;
}

/* Makes a tuple of the values from `first` on. `marked`: the mark below them goes. */
int pickle_make_tuple(struct pickle_machine *machine, size_t first, bool marked)
{
    struct pickle_box *box = new_box(machine);
    if (!box)
        return machine->code = TACHO_ENOMEM;
    if (box_take(machine, box, first)) {
        free_box(box);
        return machine->code;
    }
    machine->depth = first - marked;
    return pickle_push(machine, (struct pickle_value){.type = PICKLE_LIST, .box = box});
}
