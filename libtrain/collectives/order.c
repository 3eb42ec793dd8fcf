/* SPDX-License-Identifier: Apache-2.0
 *
 * The file, and the comparison of a run with it. A run does the same in most of its steps, so
 * operations are kept until their step has ended, and a step that is as one of the last ones is
 * written as such. A file that is read has each list of operations once.
 */
#include "libtrain/collectives/order.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/base/fail.h"

#define BEGIN (-1) /* the step of what comes before the first one */
#define KEPT  16   /* lists of operations that a step is compared with */
#define LINE  160
#define NAME  "tacho-order"

struct list {
    struct lt_order_op *op;
    size_t count, cap;
};

/* A step's operations: [first, first + count) of a list. */
struct part {
    int64_t step;
    size_t first, count;
    int repeats; /* those of another step */
};

struct lt_order {
    pthread_mutex_t lock;
    char path[PATH_MAX];
    int rank;
    int64_t step;   /* that runs now */
    uint64_t call;  /* operations of it */
    uint64_t calls; /* of all */
    FILE *file;     /* to write to; NULL: it was read */
    int failed;     /* errno of the first write that did */
    struct list now;
    struct {
        int64_t step;
        struct list list;
    } kept[KEPT];
    size_t lists; /* that were ever kept */
    /* of a file that was read */
    struct list all;
    struct part *part;
    size_t parts, at, index; /* the next operation is number `index` of part `at` */
    int ended, free;         /* the file has its end; it is behind us, and has none */
};

static const char *const names[LT_ORDER_COUNT] = {
#define ROW(id, name) [LT_ORDER_##id] = (name),
    LT_ORDER_MAP(ROW)
#undef ROW
};

static int append(struct list *list, const struct lt_order_op *op)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        struct lt_order_op *more = realloc(list->op, cap * sizeof *more);
        if (!more)
            return TACHO_ENOMEM;
        list->op = more;
        list->cap = cap;
    }
    list->op[list->count++] = *op;
    return 0;
}

/* Are they the same, but for what a probe was answered? */
static int same_call(const struct lt_order_op *a, const struct lt_order_op *b)
{
    return a->kind == b->kind && a->to == b->to && a->tag == b->tag && a->out == b->out &&
           a->from == b->from && (a->kind == LT_ORDER_PROBE || a->in == b->in);
}

static int same_lists(const struct list *a, const struct list *b)
{
    size_t i = 0;
    if (a->count != b->count)
        return 0;
    while (i < a->count && same_call(&a->op[i], &b->op[i]) && a->op[i].in == b->op[i].in)
        i++;
    return i == a->count;
}

/* ---- writing ---------------------------------------------------------------------------------- */

static struct lt_order *create(const char *path, int rank, struct tacho_error *err)
{
    struct lt_order *order = calloc(1, sizeof *order);
    if (!order) {
        lt_no_memory(err);
        return NULL;
    }
    pthread_mutex_init(&order->lock, NULL);
    snprintf(order->path, sizeof order->path, "%s", path);
    order->rank = rank;
    order->step = BEGIN;
    return order;
}

int lt_order_record(struct lt_order **out, const char *path, int rank, int ranks,
                    struct tacho_error *err)
{
    struct lt_order *order = *out = create(path, rank, err);
    if (!order)
        return TACHO_ENOMEM;
    order->file = fopen(path, "we");
    if (!order->file)
        return lt_fail_file(err, "choose a folder that can be written", path);
    fprintf(order->file, "%s 1 rank %d of %d\n", NAME, rank, ranks);
    return 0;
}

static void write_rank(FILE *file, int rank)
{
    if (rank < 0)
        fputs(" -", file);
    else
        fprintf(file, " %d", rank);
}

static void write_op(FILE *file, const struct lt_order_op *op)
{
    fputs(names[op->kind], file);
    write_rank(file, op->to);
    fprintf(file, " %d %" PRIu64, op->tag, op->out);
    write_rank(file, op->from);
    fprintf(file, " %" PRIu64 "\n", op->in);
}

/* The step ends: as one that is kept, or with its operations, which are kept then. */
static void write_step(struct lt_order *order)
{
    FILE *file = order->file;
    for (size_t i = 0; order->step != BEGIN && i < KEPT && i < order->lists; i++)
        if (same_lists(&order->kept[i].list, &order->now)) {
            fprintf(file, "step %" PRId64 " as %" PRId64 "\n", order->step, order->kept[i].step);
            order->now.count = 0;
            return;
        }
    if (order->step == BEGIN)
        fputs("begin\n", file);
    else
        fprintf(file, "step %" PRId64 "\n", order->step);
    for (size_t i = 0; i < order->now.count; i++)
        write_op(file, &order->now.op[i]);
    if (order->step != BEGIN) {
        size_t place = order->lists++ % KEPT;
        struct list before = order->kept[place].list;
        order->kept[place].list = order->now;
        order->kept[place].step = order->step;
        order->now = before;
    }
    order->now.count = 0;
}

static void flush(struct lt_order *order)
{
    write_step(order);
    if (fflush(order->file) && !order->failed)
        order->failed = errno;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static int read_rank(const char *text, int *rank)
{
    char *end = NULL;
    if (strcmp(text, "-") == 0) {
        *rank = -1;
        return 1;
    }
    long value = strtol(text, &end, 10);
    *rank = (int)value;
    return *text >= '0' && *text <= '9' && *end == '\0' && value <= INT_MAX;
}

static int read_op(const char *line, struct lt_order_op *op)
{
    char name[16], to[16], from[16], more;
    if (sscanf(line, "%15s %15s %d %" SCNu64 " %15s %" SCNu64 " %c", name, to, &op->tag, &op->out,
               from, &op->in, &more) != 6 ||
        !read_rank(to, &op->to) || !read_rank(from, &op->from))
        return 0;
    for (int i = 0; i < LT_ORDER_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            op->kind = (enum lt_order_kind)i;
            return 1;
        }
    return 0;
}

/* The part of a step, NULL: there is none. Steps ascend. */
static const struct part *find_part(const struct lt_order *order, int64_t step)
{
    size_t low = 0, high = order->parts;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (order->part[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < order->parts && order->part[low].step == step ? &order->part[low] : NULL;
}

/* A part begins. TACHO_ECORRUPT, TACHO_ENOMEM. */
static int read_part(struct lt_order *order, const char *line, size_t *cap)
{
    int64_t step = BEGIN, like = BEGIN;
    char same[64] = "begin";
    int fields = sscanf(line, "step %" SCNd64 " as %" SCNd64, &step, &like);
    struct part part = {.step = step, .first = order->all.count};
    if (fields == 1)
        snprintf(same, sizeof same, "step %" PRId64, step);
    else if (fields == 2)
        snprintf(same, sizeof same, "step %" PRId64 " as %" PRId64, step, like);
    if (strcmp(line, same) != 0 || step < BEGIN || (fields >= 1 && step == BEGIN) ||
        (order->parts && order->part[order->parts - 1].step >= step))
        return TACHO_ECORRUPT;
    if (fields == 2) {
        const struct part *there = like == BEGIN ? NULL : find_part(order, like);
        if (!there)
            return TACHO_ECORRUPT;
        part.first = there->first;
        part.count = there->count;
        part.repeats = 1;
    }
    if (order->parts == *cap) {
        *cap = *cap ? 2 * *cap : 256;
        struct part *grown = realloc(order->part, *cap * sizeof *grown);
        if (!grown)
            return TACHO_ENOMEM;
        order->part = grown;
    }
    order->part[order->parts++] = part;
    return 0;
}

/* A line but the first one. TACHO_ECORRUPT, TACHO_ENOMEM. */
static int read_line(struct lt_order *order, char *line, size_t *cap)
{
    struct lt_order_op op;
    size_t length = strlen(line);
    if (order->ended || !length || line[length - 1] != '\n')
        return TACHO_ECORRUPT;
    line[length - 1] = '\0';
    if (strcmp(line, "end") == 0) {
        order->ended = 1;
        return 0;
    }
    if (strcmp(line, "begin") == 0 || strncmp(line, "step ", 5) == 0)
        return read_part(order, line, cap);
    if (!order->parts || !read_op(line, &op))
        return TACHO_ECORRUPT;
    struct part *part = &order->part[order->parts - 1];
    if (part->repeats)
        return TACHO_ECORRUPT;
    part->count++;
    return append(&order->all, &op);
}

/* The first line. */
static int read_head(FILE *file, const char *path, int rank, int ranks, struct tacho_error *err)
{
    char line[LINE];
    int version = 0, of_rank = -1, of_ranks = -1;
    if (!fgets(line, sizeof line, file) || sscanf(line, NAME " %d", &version) != 1)
        return tacho_fail(err, TACHO_EFORMAT, "give a file that train --record-order has written",
                          "%s: no order of communication", path);
    if (version != 1)
        return tacho_fail(err, TACHO_EVERSION, "use the train that wrote it", "%s: version %d",
                          path, version);
    if (sscanf(line, NAME " 1 rank %d of %d", &of_rank, &of_ranks) != 2)
        return tacho_fail(err, TACHO_ECORRUPT, "record it again", "%s: line 1 is damaged", path);
    if (of_rank != rank || of_ranks != ranks)
        return tacho_fail(
            err, TACHO_EUSAGE, "start as many ranks as were recorded; rank N reads FILE.N",
            "%s: of rank %d of %d, this is rank %d of %d", path, of_rank, of_ranks, rank, ranks);
    return 0;
}

int lt_order_replay(struct lt_order **out, const char *path, int rank, int ranks,
                    struct tacho_error *err)
{
    char line[LINE];
    size_t cap = 0;
    unsigned long number = 1;
    struct lt_order *order = *out = create(path, rank, err);
    if (!order)
        return TACHO_ENOMEM;
    FILE *file = fopen(path, "re");
    if (!file)
        return lt_fail_file(err, "give a file that train --record-order has written", path);
    int rc = read_head(file, path, rank, ranks, err), bad = 0;
    while (rc == 0 && !bad && fgets(line, sizeof line, file)) {
        number++;
        bad = read_line(order, line, &cap);
    }
    if (rc == 0 && !bad && ferror(file))
        rc = lt_fail_file(err, NULL, path);
    fclose(file);
    if (bad == TACHO_ENOMEM)
        return lt_no_memory(err);
    if (bad)
        return tacho_fail(err, TACHO_ECORRUPT, "record it again", "%s: line %lu is damaged", path,
                          number);
    return rc;
}

void lt_order_destroy(struct lt_order *order)
{
    if (!order)
        return;
    if (order->file) {
        flush(order);
        fclose(order->file);
    }
    for (size_t i = 0; i < KEPT; i++)
        free(order->kept[i].list.op);
    free(order->now.op);
    free(order->all.op);
    free(order->part);
    pthread_mutex_destroy(&order->lock);
    free(order);
}

/* ---- a run ------------------------------------------------------------------------------------- */

void lt_order_step(struct lt_order *order, int64_t step)
{
    if (!order)
        return;
    pthread_mutex_lock(&order->lock);
    if (order->file)
        flush(order);
    order->step = step;
    order->call = 0;
    pthread_mutex_unlock(&order->lock);
}

static void describe(const struct lt_order_op *op, char *text, size_t size)
{
    unsigned long long out = op->out, in = op->in;
    switch (op->kind) {
    case LT_ORDER_SUM:
    case LT_ORDER_GATHER:
        snprintf(text, size, "%s of %llu bytes", names[op->kind], out);
        return;
    case LT_ORDER_SEND:
        snprintf(text, size, "send of %llu bytes to rank %d, tag %d", out, op->to, op->tag);
        return;
    case LT_ORDER_SENT:
        snprintf(text, size, "end of the send %llu before the last", out);
        return;
    case LT_ORDER_RECEIVE:
        snprintf(text, size, "receive of %llu bytes from rank %d, tag %d", in, op->from, op->tag);
        return;
    case LT_ORDER_PROBE:
        if (op->from < 0)
            snprintf(text, size, "question whether work beside the steps has ended");
        else
            snprintf(text, size, "probe for rank %d, tag %d", op->from, op->tag);
        return;
    case LT_ORDER_EXCHANGE:
    case LT_ORDER_COUNT:
        break;
    }
    if (op->from < 0)
        snprintf(text, size, "exchange: %llu bytes to rank %d", out, op->to);
    else if (op->to < 0)
        snprintf(text, size, "exchange: %llu bytes from rank %d", in, op->from);
    else
        snprintf(text, size, "exchange: %llu bytes to rank %d, %llu from rank %d", out, op->to, in,
                 op->from);
}

/* Where a run is, as words. */
static void place(int64_t step, uint64_t call, char *text, size_t size)
{
    if (step == BEGIN)
        snprintf(text, size, "call %llu before the first step", (unsigned long long)call);
    else
        snprintf(text, size, "call %llu of step %lld", (unsigned long long)call, (long long)step);
}

/* The next operation of the file, NULL: it is at its end. */
static const struct lt_order_op *next(struct lt_order *order)
{
    while (order->at < order->parts && order->index == order->part[order->at].count) {
        order->at++;
        order->index = 0;
    }
    if (order->at == order->parts)
        return NULL;
    return &order->all.op[order->part[order->at].first + order->index];
}

static int enforce(struct lt_order *order, struct lt_order_op *op, char *text, size_t size)
{
    char made[128], there[128] = "the end of the run", where[64], recorded[80] = "";
    const struct lt_order_op *want = next(order);
    if (order->free)
        return 0;
    if (!want && !order->ended) {
        order->free = 1;
        snprintf(text, size,
                 "rank %d: %s ends here, in step %lld: what was recorded did not end as it should. "
                 "From here on the order is free",
                 order->rank, order->path, (long long)order->step);
        return 0;
    }
    if (want && same_call(want, op)) {
        op->in = want->in;
        order->index++;
        return 0;
    }
    describe(op, made, sizeof made);
    place(order->step, order->call, where, sizeof where);
    if (want) {
        char words[64];
        describe(want, there, sizeof there);
        place(order->part[order->at].step, order->index, words, sizeof words);
        snprintf(recorded, sizeof recorded, " (%s)", words);
    }
    snprintf(text, size,
             "rank %d departs from %s: %s, number %llu of the rank, is %s; recorded: "
             "%s%s",
             order->rank, order->path, where, (unsigned long long)order->calls, made, there,
             recorded);
    return TACHO_EINTERNAL;
}

int lt_order_note(struct lt_order *order, struct lt_order_op *op, char *text, size_t size)
{
    int rc = 0;
    text[0] = '\0';
    pthread_mutex_lock(&order->lock);
    if (!order->file)
        rc = enforce(order, op, text, size);
    else if (!order->failed && append(&order->now, op))
        order->failed = ENOMEM;
    order->call++;
    order->calls++;
    pthread_mutex_unlock(&order->lock);
    return rc;
}

int lt_order_finish(struct lt_order *order, struct tacho_error *err)
{
    const struct lt_order_op *want;
    char words[128], where[64];
    if (order->file) {
        flush(order);
        fputs("end\n", order->file);
        int failed = fclose(order->file) ? errno : 0;
        order->file = NULL;
        errno = order->failed ? order->failed : failed;
        if (errno == ENOSPC)
            return tacho_fail(err, TACHO_ENOSPACE, "make room, or choose another folder",
                              "%s: no space left on device", order->path);
        return errno ? lt_fail_file(err, "record it again", order->path) : 0;
    }
    want = next(order);
    if (!want)
        return 0;
    describe(want, words, sizeof words);
    place(order->part[order->at].step, order->index, where, sizeof where);
    return tacho_fail(err, TACHO_EINTERNAL, "give the options of the run that was recorded",
                      "rank %d departs from %s: it ends; recorded: %s (%s)", order->rank,
                      order->path, words, where);
}
