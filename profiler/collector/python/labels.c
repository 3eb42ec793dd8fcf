/* SPDX-License-Identifier: Apache-2.0
 *
 * Three hash tables: code objects by process and address, labels by code and instruction, and texts
 * of labels, so that two instructions of one line have one label.
 */
#include "profiler/collector/python/labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/os/list.h"
#include "profiler/collector/os/text.h"
#include "profiler/collector/python/lines.h"

#define CODES_MOST  (1u << 16)
#define PLACES_MOST (1u << 19)
#define LABELS_MOST (1u << 18)
#define TABLE_MOST  (256u << 10) /* bytes of a table of lines */

struct code {
    uint64_t address;
    int32_t pid;
    uint32_t number; /* each is another one: also one at the same address */
    struct col_python_code words;
    char *function, *file;
    uint8_t *table;
    size_t bytes;
};

/* An instruction of a code object. */
struct place {
    uint32_t code; /* its number; 0: free */
    uint32_t label;
    int64_t at;
};

struct col_python_labels {
    struct code *code; /* CODES_MOST places, by address; pid 0: free */
    uint32_t codes, numbers;
    struct place *place;
    uint32_t places;
    char **text;
    size_t count, room;
    uint32_t *by_text; /* label + 1; 0: free */
};

struct col_python_labels *col_python_labels_new(void)
{
    struct col_python_labels *labels = calloc(1, sizeof *labels);
    if (!labels)
        return NULL;
    labels->code = calloc(CODES_MOST, sizeof *labels->code);
    labels->place = calloc(PLACES_MOST, sizeof *labels->place);
    labels->by_text = calloc(2 * LABELS_MOST, sizeof *labels->by_text);
    if (labels->code && labels->place && labels->by_text)
        return labels;
    col_python_labels_free(labels);
    return NULL;
}

static void clear_code(struct code *code)
{
    free(code->function);
    free(code->file);
    free(code->table);
    *code = (struct code){0};
}

void col_python_labels_free(struct col_python_labels *labels)
{
    if (!labels)
        return;
    for (size_t i = 0; labels->code && i < CODES_MOST; i++)
        clear_code(&labels->code[i]);
    for (size_t i = 0; i < labels->count; i++)
        free(labels->text[i]);
    free(labels->code);
    free(labels->place);
    free(labels->by_text);
    free(labels->text);
    free(labels);
}

/* Mixes a number into a hash (the multiplier of Fibonacci hashing, a step of MurmurHash3). */
static uint64_t mixed(uint64_t left, uint64_t right)
{
    uint64_t hash = (left ^ right * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

static void forget_codes(struct col_python_labels *labels)
{
    for (size_t i = 0; i < CODES_MOST; i++)
        clear_code(&labels->code[i]);
    labels->codes = 0;
}

/* The place of a code object in the table, or the free one where it belongs. */
static struct code *code_place(struct col_python_labels *labels, int32_t pid, uint64_t address)
{
    size_t at = (size_t)mixed(address, (uint64_t)pid) & (CODES_MOST - 1);
    while (labels->code[at].pid &&
           (labels->code[at].pid != pid || labels->code[at].address != address))
        at = (at + 1) & (CODES_MOST - 1);
    return &labels->code[at];
}

static bool same_words(const struct col_python_code *left, const struct col_python_code *right)
{
    return left->file == right->file && left->name == right->name && left->table == right->table &&
           left->first_line == right->first_line;
}

/* Reads name, file and table of lines of a code object. */
static int read_code(struct code *code, const struct col_python *python,
                     const struct col_python_memory *memory)
{
    char function[COL_PYTHON_NAME], file[COL_PYTHON_FILE];
    int rc = col_python_text(python, memory, code->words.name, function, sizeof function);
    if (rc >= 0)
        rc = col_python_text(python, memory, code->words.file, file, sizeof file);
    if (rc >= 0)
        rc = col_python_bytes(python, memory, code->words.table, TABLE_MOST, &code->table,
                              &code->bytes);
    if (rc < 0)
        return rc == -ENOMEM ? rc : -EAGAIN;
    code->function = strdup(function);
    code->file = strdup(file);
    return code->function && code->file ? 0 : -ENOMEM;
}

/* The code object at an address, read anew if it is another one than before. */
static int code_at(struct col_python_labels *labels, int32_t pid, const struct col_python *python,
                   const struct col_python_memory *memory, uint64_t address, struct code **out)
{
    struct col_python_code words;
    int rc = col_python_code(python, memory, address, &words);
    if (rc)
        return rc;
    if (2 * labels->codes >= CODES_MOST)
        forget_codes(labels);
    struct code *code = code_place(labels, pid, address);
    *out = code;
    if (code->pid && code->function && code->file && same_words(&code->words, &words))
        return 0;
    labels->codes += !code->pid;
    clear_code(code);
    *code =
        (struct code){.address = address, .pid = pid, .number = ++labels->numbers, .words = words};
    return read_code(code, python, memory);
}

/* The label of a text, made if it is new. */
static int32_t label_of(struct col_python_labels *labels, const char *text)
{
    size_t at = (size_t)mixed(col_hash_text(text), 0) & (2 * LABELS_MOST - 1);
    for (; labels->by_text[at]; at = (at + 1) & (2 * LABELS_MOST - 1))
        if (strcmp(labels->text[labels->by_text[at] - 1], text) == 0)
            return (int32_t)(labels->by_text[at] - 1);
    if (labels->count >= LABELS_MOST)
        return -ENOSPC;
    char **list = col_list_room(labels->text, &labels->room, labels->count + 1, sizeof *list);
    labels->text = list ? list : labels->text;
    if (!list || !(list[labels->count] = strdup(text)))
        return -ENOMEM;
    labels->by_text[at] = (uint32_t)++labels->count;
    return (int32_t)(labels->count - 1);
}

int32_t col_python_label(struct col_python_labels *labels, int32_t pid,
                         const struct col_python *python, const struct col_python_memory *memory,
                         const struct col_python_frame *frame)
{
    char text[COL_PYTHON_NAME + COL_PYTHON_FILE + 32];
    struct code *code;
    int rc = code_at(labels, pid, python, memory, frame->code, &code);
    if (rc)
        return rc;
    if (2 * labels->places >= PLACES_MOST) {
        memset(labels->place, 0, PLACES_MOST * sizeof *labels->place);
        labels->places = 0;
    }
    size_t at = (size_t)mixed(code->number, (uint64_t)frame->at) & (PLACES_MOST - 1);
    for (; labels->place[at].code; at = (at + 1) & (PLACES_MOST - 1))
        if (labels->place[at].code == code->number && labels->place[at].at == frame->at)
            return (int32_t)labels->place[at].label;
    int32_t line = col_python_line(python->layout.lines, code->table, code->bytes,
                                   code->words.first_line, frame->at);
    snprintf(text, sizeof text, "%s (%s:%d)", code->function, code->file, (int)line);
    int32_t label = label_of(labels, text);
    if (label >= 0) {
        labels->place[at] =
            (struct place){.code = code->number, .label = (uint32_t)label, .at = frame->at};
        labels->places++;
    }
    return label;
}

uint32_t col_python_labels_count(const struct col_python_labels *labels)
{
    return (uint32_t)labels->count;
}

const char *col_python_label_text(const struct col_python_labels *labels, uint32_t label)
{
    return label < labels->count ? labels->text[label] : "";
}
