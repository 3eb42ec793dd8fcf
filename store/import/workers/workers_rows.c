/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a timeline of workers: a process with one thread for each worker, a range for each step,
 * and the operations in it. The timeline has a transfer from when all of its members were there; in
 * the run its row begins when the worker itself had nothing else left to do, as a call that blocks
 * would, and the detail keeps the transfer (transfer_ns).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/workers/workers_private.h"

#define TOGETHER_NS 1000 /* transfers of a worker that begin within it are one call */

/* A worker is a place in the job: stage, data-parallel rank, tensor-parallel rank. */
struct worker {
    int64_t stage, data, tensor;
    int64_t track;
};

struct step_span {
    int64_t step, start, end;
};

struct writing {
    struct imp_run *run;
    struct workers_timeline *timeline;
    struct worker *worker;
    size_t worker_count;
    int64_t stages, ranks_of_stage, tensors; /* sizes of the job */
    struct step_span *span;
    size_t span_count;
    int64_t *name; /* string of each kind */
    int64_t step_name, step_detail;
};

#define ORDER(left, right) (((left) > (right)) - ((left) < (right)))

static int thread_order(const void *left, const void *right)
{
    const struct workers_thread *first = left, *second = right;
    return 2 * ORDER(first->pid, second->pid) + ORDER(first->tid, second->tid);
}

static int worker_order(const void *left, const void *right)
{
    const struct worker *first = left, *second = right;
    return 4 * ORDER(first->stage, second->stage) + 2 * ORDER(first->data, second->data) +
           ORDER(first->tensor, second->tensor);
}

/* Receives before sends of the same start, so that the wait is the outer one. */
static int op_order(const void *left, const void *right)
{
    const struct workers_op *first = left, *second = right;
    return 8 * ORDER(first->pid, second->pid) + 4 * ORDER(first->start, second->start) +
           2 * ORDER(second->dur, first->dur) + ORDER(second->kind, first->kind);
}

static int span_order(const void *left, const void *right)
{
    const struct step_span *first = left, *second = right;
    return ORDER(first->step, second->step);
}

/* ---- who is where ------------------------------------------------------------------------------------------------------- */

/* Lists the workers that the names of threads name, each once. */
static int find_workers(struct writing *writing)
{
    struct workers_timeline *timeline = writing->timeline;
    writing->worker = calloc(timeline->thread_count, sizeof *writing->worker);
    if (!writing->worker)
        return TACHO_ENOMEM;
    qsort(timeline->thread, timeline->thread_count, sizeof *timeline->thread, thread_order);
    for (size_t i = 0; i < timeline->thread_count; i++) {
        const struct workers_thread *thread = &timeline->thread[i];
        writing->worker[i] = (struct worker){thread->stage, thread->pid, thread->tensor, 0};
        writing->stages = thread->stage >= writing->stages ? thread->stage + 1 : writing->stages;
        writing->tensors =
            thread->tensor >= writing->tensors ? thread->tensor + 1 : writing->tensors;
        writing->ranks_of_stage =
            thread->pid >= writing->ranks_of_stage ? thread->pid + 1 : writing->ranks_of_stage;
    }
    qsort(writing->worker, timeline->thread_count, sizeof *writing->worker, worker_order);
    for (size_t i = 0; i < timeline->thread_count; i++)
        if (!i || worker_order(&writing->worker[i], &writing->worker[writing->worker_count - 1]))
            writing->worker[writing->worker_count++] = writing->worker[i];
    return 0;
}

/* Replaces process and thread of each operation by its worker, and leaves out those of threads
 * without a name. */
static void place_ops(struct writing *writing)
{
    struct workers_timeline *timeline = writing->timeline;
    size_t kept = 0;
    for (size_t i = 0; i < timeline->op_count; i++) {
        struct workers_op op = timeline->op[i];
        const struct workers_thread key = {.pid = op.pid, .tid = op.tid},
                                    *thread =
                                        bsearch(&key, timeline->thread, timeline->thread_count,
                                                sizeof key, thread_order);
        if (!thread) {
            timeline->malformed++;
            continue;
        }
        const struct worker place = {thread->stage, thread->pid, thread->tensor, 0},
                            *worker = bsearch(&place, writing->worker, writing->worker_count,
                                              sizeof place, worker_order);
        op.pid = worker - writing->worker;
        timeline->op[kept++] = op;
    }
    timeline->op_count = kept;
    qsort(timeline->op, kept, sizeof *timeline->op, op_order);
}

/* A step lasts from the first start to the last end of its operations on all workers. */
static int find_steps(struct writing *writing)
{
    const struct workers_timeline *timeline = writing->timeline;
    struct step_span *span = calloc(timeline->op_count + 1, sizeof *span);
    size_t count = 0;
    if (!(writing->span = span))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < timeline->op_count; i++)
        span[i] = (struct step_span){timeline->op[i].step, timeline->op[i].start,
                                     timeline->op[i].start + timeline->op[i].dur};
    qsort(span, timeline->op_count, sizeof *span, span_order);
    for (size_t i = 0; i < timeline->op_count; i++) {
        if (!count || span[count - 1].step != span[i].step) {
            span[count++] = span[i];
            continue;
        }
        struct step_span *step = &span[count - 1];
        step->start = span[i].start < step->start ? span[i].start : step->start;
        step->end = span[i].end > step->end ? span[i].end : step->end;
    }
    writing->span_count = count;
    return 0;
}

/* ---- details ------------------------------------------------------------------------------------------------------------ */

/* The communicator of a call: its channel, and the place of those that meet in it. */
static int64_t communicator_of(const struct writing *writing, const struct workers_kind *kind,
                               const struct worker *worker)
{
    int64_t stage = worker->stage, place = 0;
    if (kind->with == WITH_PREVIOUS)
        stage = (stage + writing->stages - 1) % writing->stages;
    if (kind->with != WITH_ENDS && kind->with != WITH_ALL)
        place = (stage + 1) << 19;
    if (kind->with != WITH_PEERS && kind->with != WITH_ALL)
        place += worker->data + 1;
    return (int64_t)kind->channel << 56 | place << 18 |
           (kind->with == WITH_ALL || kind->with == WITH_TENSOR ? 0 : worker->tensor);
}

static int64_t members_of(const struct writing *writing, enum workers_with with)
{
    if (with == WITH_ALL)
        return (int64_t)writing->worker_count;
    if (with == WITH_TENSOR)
        return writing->tensors;
    return with == WITH_PEERS ? writing->ranks_of_stage : 2;
}

static int detail_of(struct writing *writing, const struct workers_op *op, int64_t *id)
{
    const struct workers_kind *kind = &workers_kinds[op->kind];
    struct store_detail detail = STORE_DETAIL_NONE;
    char payload[48];
    if (kind->collective) {
        snprintf(payload, sizeof payload, "{\"transfer_ns\":%" PRId64 "}", op->dur);
        detail.schema = "tacho.comm";
        detail.collective = kind->collective;
        detail.communicator = communicator_of(writing, kind, &writing->worker[op->pid]);
        detail.ranks = members_of(writing, kind->with);
        detail.payload = payload;
    } else {
        detail.schema = "tacho.work";
        detail.pass = kind->pass;
    }
    return store_detail_intern(writing->run->db, &detail, id);
}

/* ---- rows --------------------------------------------------------------------------------------------------------------- */

static int put_slice(struct writing *writing, int64_t track, int64_t start, int64_t end,
                     int64_t name, int64_t detail, int64_t correlation)
{
    struct store_slice slice = {.track = track,
                                .start = start,
                                .dur = end > start ? end - start : 0,
                                .name = name,
                                .category = STORE_ABSENT,
                                .detail = detail,
                                .correlation = correlation};
    writing->run->slices++;
    return store_slice_add(writing->run->db, &slice);
}

static int put_op(struct writing *writing, const struct workers_op *op, int64_t start, int64_t end)
{
    bool alone = !workers_kinds[op->kind].collective;
    int64_t detail, sequence = op->step * WORKERS_SEQUENCE_MOST + op->sequence;
    int rc = detail_of(writing, op, &detail);
    return rc ? rc
              : put_slice(writing, writing->worker[op->pid].track, start, end,
                          writing->name[op->kind], detail, alone ? STORE_ABSENT : sequence);
}

static int64_t end_of(const struct workers_op *op)
{
    return op->start + op->dur;
}

/* How many of the operations from op on are one call: transfers that begin together. */
static size_t together(const struct workers_op *op, size_t count)
{
    size_t all = 1;
    while (all < count && workers_kinds[op->kind].collective &&
           workers_kinds[op[all].kind].collective && op[all].step == op->step &&
           op[all].start - op->start <= TOGETHER_NS)
        all++;
    return all;
}

/* Writes a step of a worker: its range, its row, and `count` operations. */
static int put_step(struct writing *writing, const struct step_span *span,
                    const struct workers_op *op, size_t count, int64_t process)
{
    struct store_step step = {.process = process,
                              .index = span->step,
                              .start = span->start,
                              .end = span->end,
                              .tokens = STORE_ABSENT,
                              .samples = STORE_ABSENT};
    int64_t ready = span->start;
    int rc = store_step_add(writing->run->db, &step);
    if (!rc)
        rc = put_slice(writing, writing->worker[op->pid].track, span->start, span->end,
                       writing->step_name, writing->step_detail, STORE_ABSENT);
    for (size_t i = 0, next; i < count && !rc; i = next) {
        next = i + together(&op[i], count - i);
        bool waits = workers_kinds[op[i].kind].collective != NULL;
        int64_t start = waits || op[i].start < ready ? ready : op[i].start, end = start;
        for (size_t k = i; k < next; k++)
            end = end_of(&op[k]) > end ? end_of(&op[k]) : end;
        for (size_t k = i; k < next && !rc; k++)
            rc = put_op(writing, &op[k], start, end);
        ready = end;
    }
    return rc;
}

static int put_worker(struct writing *writing, size_t index, size_t *at)
{
    const struct workers_timeline *timeline = writing->timeline;
    struct worker *worker = &writing->worker[index];
    char program[64];
    snprintf(program, sizeof program, "stage %" PRId64 ", data rank %" PRId64, worker->stage,
             worker->data);
    struct store_process process = {.rank = (int64_t)index,
                                    .pid = (int64_t)index,
                                    .parent_pid = STORE_ABSENT,
                                    .start = STORE_ABSENT,
                                    .end = STORE_ABSENT,
                                    .exit_status = STORE_ABSENT,
                                    .program = program};
    int rc = store_process_add(writing->run->db, &process);
    struct store_track track = {
        .process = process.id, .tid = (int64_t)index, .kind = "thread", .name = program};
    if (!rc)
        rc = store_track_add(writing->run->db, &track);
    worker->track = track.id;
    for (size_t next; !rc && *at < timeline->op_count && timeline->op[*at].pid == (int64_t)index;
         *at = next) {
        const struct workers_op *op = &timeline->op[*at];
        const struct step_span key = {.step = op->step},
                               *span = bsearch(&key, writing->span, writing->span_count, sizeof key,
                                               span_order);
        for (next = *at + 1; next < timeline->op_count && timeline->op[next].pid == op->pid &&
                             timeline->op[next].step == op->step;)
            next++;
        rc = put_step(writing, span, op, next - *at, process.id);
    }
    return rc;
}

/* Interns the names of operations, and the detail of a step. */
static int put_names(struct writing *writing)
{
    struct store_detail step = STORE_DETAIL_NONE;
    step.schema = "tacho.step";
    writing->name = calloc(workers_kind_count, sizeof *writing->name);
    int rc = writing->name ? store_string(writing->run->db, "step", 4, &writing->step_name)
                           : TACHO_ENOMEM;
    for (size_t i = 0; i < workers_kind_count && !rc; i++)
        rc = store_string(writing->run->db, workers_kinds[i].name, strlen(workers_kinds[i].name),
                          &writing->name[i]);
    return rc ? rc : store_detail_intern(writing->run->db, &step, &writing->step_detail);
}

int workers_write(struct imp_run *run, struct workers_timeline *timeline)
{
    struct writing writing = {.run = run, .timeline = timeline};
    char text[24];
    size_t at = 0;
    int64_t unplaced = timeline->malformed;
    int rc = find_workers(&writing);
    if (!rc) {
        place_ops(&writing);
        rc = find_steps(&writing);
    }
    if (!rc && timeline->malformed > unplaced)
        rc = imp_loss(run, "operation of a thread without a name", timeline->malformed - unplaced);
    if (!rc)
        rc = put_names(&writing);
    snprintf(text, sizeof text, "%zu", writing.worker_count);
    if (!rc)
        rc = store_run_set(run->db, "world_size", text);
    if (!rc)
        rc = store_run_set(run->db, "steps.chosen", "1");
    for (size_t i = 0; i < writing.worker_count && !rc; i++)
        rc = put_worker(&writing, i, &at);
    free(writing.worker);
    free(writing.span);
    free(writing.name);
    return rc;
}
