/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python was doing in the steps.
 */
#include "reports/json/json_private.h"

static void put_line(struct rep_writer *writer, const void *item)
{
    const struct an_python_line *line = item;
    rep_put_text(writer, "function", line->function);
    rep_put_text(writer, "file", line->file);
    rep_put_int(writer, "line", line->line);
    rep_put_bool(writer, "program", line->program);
    rep_put_int(writer, "looks", line->self);
    rep_put_int(writer, "total_looks", line->total);
    rep_put_value(writer, "own_pct", line->own_pct);
    rep_put_value(writer, "host_pct", line->host_pct);
    rep_put_value(writer, "total_pct", line->total_pct);
    rep_put_value(writer, "self_pct", line->self_pct);
}

static void put_states(struct rep_writer *writer, const char *key,
                       const struct an_python_states *states)
{
    rep_open(writer, key);
    rep_put_value(writer, "share_pct", states->share_pct);
    rep_put_value(writer, "running_pct", states->running_pct);
    rep_put_value(writer, "runnable_pct", states->runnable_pct);
    rep_put_value(writer, "asleep_pct", states->asleep_pct);
    rep_close(writer);
}

void rep_json_python(struct rep_writer *writer, const struct an_python *python)
{
    rep_open(writer, "python");
    rep_put_text_or(writer, "how", python->how, python->reason);
    rep_put_text_or(writer, "window", python->window, python->reason);
    rep_put_count(writer, "looks", python->looks);
    rep_put_count(writer, "torn", python->torn);
    rep_put_value(writer, "looks_per_s", python->hz);
    put_states(writer, "in_steps", &python->all);
    put_states(writer, "unattributed", &python->unattributed);
    REP_PUT_ROWS(writer, "lines", python->line, python->line_count, put_line);
    rep_put_count(writer, "worker_looks", python->worker_looks);
    REP_PUT_ROWS(writer, "worker_lines", python->worker, python->worker_count, put_line);
    rep_close(writer);
}
