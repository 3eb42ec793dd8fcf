/* SPDX-License-Identifier: Apache-2.0
 *
 * The importer of execution traces of Chakra: nodes of the host on a thread, those of the device on
 * a stream for each of compute, communication and memory. The whole graph is one step.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/chakra/chakra_import.h"
#include "store/import/chakra/chakra_private.h"
#include "store/import/input/whole.h"
#include "store/import/kineto/kineto_text.h"

#define BYTES_MOST    ((size_t)2 << 30)
#define RELATIVE_MOST INT64_C(10000000000000000) /* ns: starts below are no times of day */

/* A graph in JSON has durations; PyTorch's own execution trace has none, and is refused by name. */
static bool recognises(const unsigned char *head, size_t bytes)
{
    bool json = bytes && (head[0] == '{' || head[0] == '[');
    if (!json)
        return chakra_et_recognises(head, bytes);
    return chakra_is_messages(head, bytes) ||
           (imp_holds(head, bytes, "\"workload_graph\"") &&
            imp_holds(head, bytes, "\"NodeType\"")) ||
           (imp_holds(head, bytes, "\"nodes\"") && imp_holds(head, bytes, "\"inclusive_dur\"") &&
            (imp_holds(head, bytes, "\"ctrl_deps\"") || imp_holds(head, bytes, "\"fw_parent\"")));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

/* The collective of a node, by its type or by its name. */
static const char *collective_of(const struct chakra_node *node)
{
    static const char *const types[] = {
        "all_reduce", "reduce",     "all_gather",     "gather",         "scatter",
        "broadcast",  "all_to_all", "reduce_scatter", "reduce_scatter", "barrier"};
    if (node->type == CHAKRA_SEND)
        return "send";
    if (node->type == CHAKRA_RECEIVE)
        return "recv";
    if (node->collective >= 0 && node->collective < (int64_t)(sizeof types / sizeof *types))
        return types[node->collective];
    const char *collective = store_collective_in(node->name, node->name ? node->name_bytes : 0);
    return collective ? collective : "collective";
}

/* Writes a node on the device. */
static int put_device(struct imp_rows *rows, const struct chakra_node *node, enum chakra_lane lane,
                      const char *payload, struct imp_slice slice)
{
    static const char *const lanes[] = {"host", "compute", "communication", "memory"};
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.payload = payload;
    char name[48];
    int64_t stream = node->stream >= 0 ? node->stream : -(int64_t)lane;
    snprintf(name, sizeof name, "%s", lanes[lane]);
    if (node->stream >= 0)
        snprintf(name, sizeof name, "stream %" PRId64, node->stream);
    slice.category = lane == CHAKRA_MEMORY ? "memcpy" : "kernel";
    slice.detail = &detail;
    detail.schema = lane == CHAKRA_MEMORY ? "gpu.memcpy" : "gpu.kernel";
    detail.flops = node->flops;
    if (lane == CHAKRA_COMMUNICATION) {
        detail.schema = "torch.comm";
        detail.collective = collective_of(node);
        detail.bytes = node->bytes;
    }
    int rc = imp_rows_stream(rows, 0, "gpu:0", stream, name, &slice.track);
    return rc ? rc : imp_rows_slice(rows, &slice);
}

static int put_host(struct imp_rows *rows, const char *payload, struct imp_slice slice)
{
    struct store_detail detail = STORE_DETAIL_NONE;
    detail.schema = "graph.op";
    detail.payload = payload;
    slice.detail = payload ? &detail : NULL;
    int rc = imp_rows_thread(rows, 0, "host", &slice.track);
    return rc ? rc : imp_rows_slice(rows, &slice);
}

/* The name of a node; in JSON it has escapes. */
static int put_name(struct imp_rows *rows, const struct chakra *chakra,
                    const struct chakra_node *node, int64_t *string)
{
    struct kineto_text text = {0};
    if (!node->name)
        return imp_rows_string(rows, "(no name)", 9, string);
    if (!chakra->json || !memchr(node->name, '\\', node->name_bytes))
        return imp_rows_string(rows, node->name, node->name_bytes, string);
    kineto_unescape(&text, (struct kj_span){node->name, node->name_bytes});
    int rc = text.failed ? TACHO_ENOMEM : imp_rows_string(rows, text.data, text.bytes, string);
    kineto_text_clear(&text);
    return rc;
}

static int put_node(struct imp_rows *rows, const struct chakra *chakra, size_t index)
{
    const struct chakra_node *node = &chakra->node[index];
    struct imp_slice slice = {
        .start = node->start, .dur = node->dur, .category = "op", .correlation = STORE_ABSENT};
    enum chakra_lane lane = chakra_lane_of(node);
    int rc = put_name(rows, chakra, node, &slice.name);
    if (rc)
        return rc;
    char *payload = chakra_payload(chakra, index);
    rc = lane == CHAKRA_HOST ? put_host(rows, payload, slice)
                             : put_device(rows, node, lane, payload, slice);
    free(payload);
    return rc;
}

static int write_losses(struct imp_rows *rows, const struct chakra *chakra)
{
    const struct {
        const char *reason;
        int64_t count;
    } losses[] = {
        {"node without a duration", chakra->untimed},
        {"node without a start, beside others that have one", chakra->late},
        {"node in a dependency cycle, or after one", chakra->circular},
        {"node in a cycle of control dependencies, or after one (kept: data dependencies alone "
         "order "
         "the nodes)",
         chakra->circular_control},
        {"dependency on a node that is not in the file (kept: the node begins without it)",
         chakra->missing},
        {"file ends in the middle", chakra->damaged}};
    int rc = 0;
    for (size_t i = 0; i < sizeof losses / sizeof *losses && !rc; i++)
        if (losses[i].count)
            rc = imp_loss(rows->run, losses[i].reason, losses[i].count);
    return rc;
}

/* The step and the run keys: where the times are from, the longest chain of dependencies. */
static int write_run(struct imp_rows *rows, const struct chakra *chakra)
{
    bool placed = chakra->path_ns != STORE_ABSENT;
    struct store_step step = {.process = rows->process,
                              .index = 0,
                              .start = rows->first,
                              .end = rows->last,
                              .tokens = STORE_ABSENT,
                              .samples = STORE_ABSENT};
    store *db = rows->run->db;
    if (rows->run->salvage_only || rows->first > rows->last)
        return 0;
    int rc = store_step_add(db, &step);
    if (!rc)
        rc = store_run_set(db, "steps.marked_by",
                           placed ? "the whole graph, placed by its dependencies"
                                  : "the whole graph");
    if (!rc)
        rc = store_run_set(db, "steps.chosen", "1");
    if (!rc)
        rc = store_run_set(db, "source.tool", "Chakra");
    if (!rc)
        rc = store_run_set(db, "source.times",
                           placed ? "durations of the file; starts by dependencies and lanes"
                                  : "of the file");
    if (!rc && placed)
        rc = store_run_set_int(db, "source.chakra.longest_chain_ns", chakra->path_ns);
    return rc;
}

static int write_rows(struct imp_run *run, struct chakra *chakra)
{
    struct imp_rows rows;
    int rc = imp_rows_begin(&rows, run, STORE_ABSENT, STORE_ABSENT, NULL, "execution trace");
    for (size_t i = 0; i < chakra->count && !rc; i++) {
        const struct chakra_node *node = &chakra->node[i];
        run->events++;
        if (node->dur == STORE_ABSENT)
            chakra->untimed++;
        else if (node->start != STORE_ABSENT)
            rc = put_node(&rows, chakra, i);
        else
            chakra->late += chakra->timed > 0;
    }
    if (!rc)
        rc = write_losses(&rows, chakra);
    if (!rc)
        rc = write_run(&rows, chakra);
    return imp_rows_end(&rows, rc);
}

/* Messages do not say numbers that are 0. Where others have a duration, work without one has
 * that (communication has none in what is written for simulators); and where starts are no times of
 * day, one without a start has that. */
static void fill_zeros(struct chakra *chakra)
{
    int64_t first = INT64_MAX;
    bool lasts = false;
    for (size_t i = 0; i < chakra->count; i++) {
        const struct chakra_node *node = &chakra->node[i];
        if (node->start != STORE_ABSENT && node->start < first)
            first = node->start;
        lasts |= node->dur != STORE_ABSENT;
    }
    for (size_t i = 0; i < chakra->count; i++) {
        struct chakra_node *node = &chakra->node[i];
        bool communicates = node->type == CHAKRA_SEND || node->type == CHAKRA_RECEIVE ||
                            node->type == CHAKRA_COLLECTIVE;
        if (lasts && !communicates && node->dur == STORE_ABSENT)
            node->dur = 0;
        if (first < RELATIVE_MOST && node->start == STORE_ABSENT)
            node->start = 0;
    }
}

/* ---- the importer -------------------------------------------------------------------------------- */

static int read_graph(struct chakra *chakra, const struct imp_whole *whole)
{
    bool json = whole->bytes && (whole->data[0] == '{' || whole->data[0] == '[');
    chakra->json = json;
    int rc = json ? chakra_json_read(chakra, whole->data, whole->bytes)
                  : chakra_et_read(chakra, whole->data, whole->bytes);
    for (size_t i = 0; i < chakra->count; i++)
        chakra->timed += chakra->node[i].start != STORE_ABSENT;
    if (!rc && (!json || chakra->messages))
        fill_zeros(chakra);
    return rc ? rc : chakra_place(chakra);
}

static int nothing(const struct chakra *chakra, const char *path, struct tacho_error *err)
{
    if (chakra->damaged)
        return tacho_fail(err, TACHO_EFORMAT, "copy it again: nothing before the cut could be read",
                          "%s: an execution trace that is cut off", path);
    return tacho_fail(err, TACHO_EFORMAT,
                      "convert it with durations: chakra_trace_link with the Kineto trace, then "
                      "chakra_converter",
                      "%s: an execution trace whose nodes (%zu) have no durations", path,
                      chakra->count);
}

/* Reads one graph; this is the `read` of the importer. */
static int read_file(struct imp_run *run, const char *path, struct tacho_error *err)
{
    struct chakra chakra = {.path_ns = STORE_ABSENT};
    struct imp_whole whole;
    int64_t slices = run->slices;
    int rc = imp_whole_read(run, path, BYTES_MOST, &whole, err);
    if (rc)
        return rc;
    rc = store_begin(run->db);
    if (!rc)
        rc = read_graph(&chakra, &whole);
    if (!rc)
        rc = write_rows(run, &chakra);
    if (!rc)
        rc = store_commit(run->db);
    run->truncated |= chakra.damaged;
    if (!rc && run->slices == slices)
        rc = nothing(&chakra, path, err);
    free(chakra.node);
    free(chakra.need);
    imp_whole_free(&whole);
    return rc;
}

const struct importer imp_chakra = {
    .source = "chakra", .recognises = recognises, .read = read_file};
