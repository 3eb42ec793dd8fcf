/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path in tacho-report/1: how much of it is known, its time by cause and by
 * operation.
 */
#include "reports/json/json_private.h"

#define OPS_MOST 50

/* The time of the path by cause: of all steps together, and in the median of a step. */
static void put_causes(struct rep_writer *writer, const struct an_critical_path *path)
{
    rep_open(writer, "by_cause_us");
    for (size_t i = 0; i < path->cause_count; i++)
        rep_put_us(writer, path->causes[i].key, path->causes[i].ns);
    rep_close(writer);
    rep_open(writer, "by_cause_step_median_ms");
    for (size_t i = 0; i < path->cause_count; i++)
        rep_put_value(writer, path->causes[i].key, path->causes[i].step_median_ms);
    rep_close(writer);
}

/* One operation on the path. */
static void put_op(struct rep_writer *writer, const void *item)
{
    const struct an_path_op *path_op = item;
    rep_put_text(writer, "name", path_op->name);
    rep_put_text(writer, "cause", path_op->cause);
    rep_put_text(writer, "where", path_op->where);
    rep_put_int(writer, "count", path_op->count);
    rep_put_us(writer, "us", path_op->ns);
    rep_put_value(writer, "pct", path_op->pct);
}

void rep_json_critical_path(struct rep_writer *writer, const struct an_critical_path *path)
{
    rep_open(writer, "critical_path");
    rep_put_us_or(writer, "window_us", path->window_ns);
    rep_put_us_or(writer, "length_us", path->length_ns);
    rep_put_value(writer, "explained_pct", path->explained_pct);
    rep_put_value(writer, "recorded_pct", path->recorded_pct);
    rep_put_value(writer, "inferred_pct", path->inferred_pct);
    rep_put_value(writer, "gap_pct", path->gap_pct);
    rep_put_value(writer, "think_pct", path->think_pct);
    if (rep_put_absent(writer, "by_cause_us", path->reason)) {
        rep_close(writer);
        return;
    }
    rep_put_int(writer, "rank", path->rank);
    rep_put_text(writer, "device", path->device);
    rep_put_int(writer, "windows", path->windows);
    rep_put_int(writer, "steps", path->steps);
    rep_put_text_or(writer, "doubt", path->doubt, "none: the path may be read as the cause");
    rep_put_int(writer, "suspected_waits", path->suspected_count);
    rep_put_us(writer, "suspected_wait_us", path->suspected_ns);
    rep_put_text_or(writer, "suspected_wait_in", path->suspected_name, "no wait is suspected");
    put_causes(writer, path);
    REP_PUT_ROWS(writer, "by_op", path->ops, path->op_count < OPS_MOST ? path->op_count : OPS_MOST,
                 put_op);
    rep_close(writer);
}
