/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of a program that names the memory of its operands (tacho_operation in
 * include/tacho_nvtx.h). Memory is used again, so a tensor is what one operator writes over it,
 * until another one does: what lies there before is another tensor. Of each piece of memory the
 * last writer is known; that is where the edge of a reader comes from, also where many operators
 * write parts of one array.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/dataflow/flow.h"

#define PIECES_MOST 65536u            /* of memory that are told apart at one time */
#define WORK_MOST   ((size_t)1 << 30) /* pieces moved in a step */
#define BYTES_MOST  (INT64_MAX / 65536)
#define NEAR        4 /* uses in which parts of one tensor are looked for: they are neighbours */

/* ---- texts by number -------------------------------------------------------------------------- */

struct flow_names {
    size_t count;
    struct name {
        int64_t number;
        const char *text; /* NULL: two texts have this number */
    } name[];
};

static int name_order(const void *left, const void *right)
{
    const struct name *first = left, *second = right;
    return AN_COMPARE(first->number, second->number);
}

/* The number and the text of a detail; false: it is of another kind. */
static bool read_name(const struct an_detail *detail, struct name *out)
{
    static const char key[] = "\"operands\":\"";
    const char *number = strstr(detail->payload, "\"number\":"),
               *text = strstr(detail->payload, key);
    if (strcmp(detail->schema, "tacho.operands") != 0 || !number || !text)
        return false;
    *out = (struct name){strtoll(number + 9, NULL, 10), text + sizeof key - 1};
    return true;
}

/* Finds the texts of the file at the first call. */
static int find_names(struct flow *flow)
{
    const struct an_trace *trace = flow->context->trace;
    size_t count = 0;
    struct name name;
    if (flow->names)
        return 0;
    for (size_t i = 0; i < trace->detail_count; i++)
        count += read_name(&trace->detail[i], &name);
    struct flow_names *names =
        an_arena_zero(flow->context->scratch, 1, sizeof *names + count * sizeof *names->name);
    if (!names)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->detail_count; i++)
        if (read_name(&trace->detail[i], &name))
            names->name[names->count++] = name;
    if (count)
        qsort(names->name, count, sizeof *names->name, name_order);
    for (size_t i = 1; i < count; i++)
        if (names->name[i].number == names->name[i - 1].number)
            names->name[i].text = names->name[i - 1].text = NULL;
    flow->names = names;
    return 0;
}

static const char *text_of(const struct flow *flow, const struct flow_op *op)
{
    const struct an_trace *trace = flow->context->trace;
    struct name key = {trace->slice.correlation[op->slice], NULL};
    if (an_slice_role(trace, op->slice) != AN_ROLE_WORK || !flow->names->count)
        return NULL;
    const struct name *found =
        bsearch(&key, flow->names->name, flow->names->count, sizeof key, name_order);
    return found ? found->text : NULL;
}

/* The next operand of a text: the first and last byte, and its letter. False: there is none. */
static bool next_operand(const char **at, uint64_t *start, uint64_t *end, char *letter)
{
    char *rest;
    *at += strspn(*at, " ");
    *letter = **at;
    if (!*letter || !strchr("rwu", *letter))
        return false;
    *start = strtoull(*at + 1, &rest, 16);
    if (*rest != '+')
        return false;
    uint64_t bytes = strtoull(rest + 1, &rest, 16);
    *at = rest;
    *end = *start + bytes;
    return bytes > 0 && bytes<BYTES_MOST && * end> * start;
}

/* ---- pieces of memory ------------------------------------------------------------------------- */

struct piece {
    uint64_t start, end;
    uint32_t tensor, writer; /* writer: the last one; AN_NONE: none in this step */
};

struct memory {
    struct flow *flow;
    struct piece *piece; /* by address; they do not overlap */
    size_t count, room, work;
};

/* The first piece that ends behind an address. */
static size_t seek(const struct memory *memory, uint64_t address)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memory->piece[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts `added` pieces in the place of `removed` ones. 0, TACHO_ENOMEM, or TACHO_EUSAGE: there are
 * too many. */
static int splice(struct memory *memory, size_t at, size_t removed, const struct piece *added,
                  size_t count)
{
    size_t behind = memory->count - at - removed;
    int rc = an_grow(&memory->piece, &memory->room, memory->count + count, sizeof *memory->piece);
    memory->work += removed == count ? 0 : behind;
    if (rc || memory->count + count - removed > PIECES_MOST || memory->work > WORK_MOST)
        return rc ? rc : TACHO_EUSAGE;
    memmove(memory->piece + at + count, memory->piece + at + removed,
            behind * sizeof *memory->piece);
    memcpy(memory->piece + at, added, count * sizeof *added);
    memory->count += count - removed;
    return 0;
}

/* Makes a piece begin at an address inside of another one. */
static int cut_at(struct memory *memory, uint64_t address)
{
    size_t at = seek(memory, address);
    if (at == memory->count || memory->piece[at].start >= address)
        return 0;
    struct piece half[2] = {memory->piece[at], memory->piece[at]};
    half[0].end = half[1].start = address;
    return splice(memory, at, 1, half, 2);
}

static int tensor_add(struct memory *memory, uint64_t start, uint64_t end, uint32_t writer)
{
    struct flow *flow = memory->flow;
    int rc =
        an_grow(&flow->tensor, &flow->tensor_room, flow->tensor_count + 1, sizeof *flow->tensor);
    if (!rc)
        flow->tensor[flow->tensor_count++] = (struct flow_tensor){
            .id = (int64_t)start, .bytes = (int64_t)(end - start), .writer = writer};
    return rc;
}

/* Gives what is not known of [start, end) a tensor that is older than the step. */
static int fill_gaps(struct memory *memory, uint64_t start, uint64_t end)
{
    int rc = 0;
    for (size_t at = seek(memory, start); start < end && !rc; at++) {
        uint64_t stop = at < memory->count ? memory->piece[at].start : end;
        stop = stop < end ? stop : end;
        if (start < stop) {
            struct piece gap = {start, stop, (uint32_t)memory->flow->tensor_count, AN_NONE};
            rc = tensor_add(memory, start, stop, AN_NONE);
            rc = rc ? rc : splice(memory, at, 0, &gap, 1);
        }
        start = !rc ? memory->piece[at].end : end;
    }
    return rc;
}

/* Adds what an operator reads or writes; parts of one tensor are one use. */
static int use_add(struct flow *flow, uint32_t op, const struct piece *piece, bool writes)
{
    struct flow_op *user = &flow->op[op];
    struct flow_tensor *tensor = &flow->tensor[piece->tensor];
    int64_t bytes = (int64_t)(piece->end - piece->start);
    tensor->last = op;
    size_t first = user->uses > NEAR ? flow->use_count - NEAR : user->first_use;
    for (size_t i = first; i < flow->use_count; i++)
        if (flow->use[i].tensor == piece->tensor && flow->use[i].writes == writes) {
            flow->use[i].bytes += bytes;
            return 0;
        }
    int rc = an_grow(&flow->use, &flow->use_room, flow->use_count + 1, sizeof *flow->use);
    if (rc)
        return rc;
    flow->use[flow->use_count++] =
        (struct flow_use){op, piece->tensor, (int64_t)piece->start - tensor->id, bytes, writes};
    user->uses++;
    tensor->reads += !writes;
    tensor->writes += writes;
    return 0;
}

/* ---- one operator ----------------------------------------------------------------------------- */

/* Adds the edge from the writer of what is read; parts that it wrote in a row are one. */
static int edge_add(struct memory *memory, uint32_t op, struct piece *before,
                    const struct piece *piece)
{
    bool joined = piece && before->writer == piece->writer && before->tensor == piece->tensor;
    int rc = 0;
    if (!joined && before->writer != AN_NONE && before->writer != op)
        rc = flow_edge_once(memory->flow,
                            &(struct flow_edge){.from = before->writer,
                                                .to = op,
                                                .how = FLOW_TENSOR,
                                                .tensor = before->tensor,
                                                .bytes = (int64_t)(before->end - before->start)});
    if (joined)
        before->end = piece->end;
    else if (piece)
        *before = *piece;
    return rc;
}

/* Reads [start, end), or with `updates` reads and writes it. */
static int read_operand(struct memory *memory, uint32_t op, uint64_t start, uint64_t end,
                        bool updates)
{
    struct piece before = {0, 0, AN_NONE, AN_NONE};
    int rc = fill_gaps(memory, start, end);
    rc = rc ? rc : cut_at(memory, start);
    rc = rc ? rc : cut_at(memory, end);
    for (size_t at = seek(memory, start);
         !rc && at < memory->count && memory->piece[at].start < end; at++) {
        struct piece *piece = &memory->piece[at];
        rc = use_add(memory->flow, op, piece, false);
        rc = rc ? rc : edge_add(memory, op, &before, piece);
        if (!rc && updates)
            rc = use_add(memory->flow, op, piece, true);
        if (updates)
            piece->writer = op;
    }
    return rc ? rc : edge_add(memory, op, &before, NULL);
}

/* Writes over [start, end): what was there is gone, and another tensor is there. */
static int write_operand(struct memory *memory, uint32_t op, uint64_t start, uint64_t end)
{
    struct piece piece = {start, end, (uint32_t)memory->flow->tensor_count, op};
    int rc = cut_at(memory, start);
    rc = rc ? rc : cut_at(memory, end);
    rc = rc ? rc : tensor_add(memory, start, end, op);
    size_t first = seek(memory, start), last = first;
    while (last < memory->count && memory->piece[last].start < end)
        last++;
    rc = rc ? rc : splice(memory, first, last - first, &piece, 1);
    return rc ? rc : use_add(memory->flow, op, &piece, true);
}

/* What an operator reads comes before what it writes. */
static int add_operands(struct memory *memory, uint32_t op, const char *text)
{
    int rc = 0;
    memory->flow->op[op].first_use = memory->flow->use_count;
    for (int writing = 0; writing < 2 && !rc; writing++) {
        uint64_t start, end;
        char letter;
        for (const char *at = text; !rc && next_operand(&at, &start, &end, &letter);) {
            if (writing && letter == 'w')
                rc = write_operand(memory, op, start, end);
            else if (!writing && letter != 'w')
                rc = read_operand(memory, op, start, end, letter == 'u');
        }
    }
    return rc;
}

/* Empties what was found of the tensors. */
static void forget(struct flow *flow)
{
    flow->edge_count = flow->use_count = flow->tensor_count = 0;
    for (size_t i = 0; i < flow->count; i++)
        flow->op[i].first_use = flow->op[i].uses = 0;
}

int flow_edges_by_operands(struct flow *flow)
{
    struct memory memory = {.flow = flow};
    int rc = find_names(flow);
    bool one_track = true;
    for (size_t i = 1; i < flow->count; i++)
        one_track &= flow->op[i].track == flow->op[0].track;
    for (uint32_t i = 0; i < flow->count && one_track && !rc && flow->names->count; i++) {
        const char *text = text_of(flow, &flow->op[i]);
        if (text)
            rc = add_operands(&memory, i, text);
    }
    free(memory.piece);
    rc = rc ? rc : flow_mark_only(flow);
    if (rc == TACHO_EUSAGE) {
        forget(flow);
        rc = 0;
    }
    flow->named = flow->tensor_count > 0;
    return rc;
}
