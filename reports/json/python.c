/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python was doing in the steps, and the modules of PyTorch that ran in them, rolled up.
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

static void put_module(struct rep_writer *writer, const void *item)
{
    const struct an_module_row *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_int(writer, "modules", row->modules);
    rep_put_int(writer, "steps", row->steps);
    rep_put_real(writer, "calls", row->calls, "");
    rep_put_value(writer, "own_ms", row->own_ms);
    rep_put_real(writer, "total_ms", row->total_ms, "");
}

void rep_json_modules(struct rep_writer *writer, const struct an_modules *modules)
{
    if (rep_put_absent(writer, "modules", modules->reason))
        return;
    rep_open(writer, "modules");
    rep_put_int(writer, "steps", modules->steps);
    rep_put_count(writer, "levels", modules->levels);
    rep_put_text_or(writer, "left_out", modules->left_out, modules->levels.reason);
    REP_PUT_ROWS(writer, "by_pattern", modules->pattern, modules->pattern_count, put_module);
    REP_PUT_ROWS(writer, "by_class", modules->class, modules->class_count, put_module);
    REP_PUT_ROWS(writer, "by_depth", modules->depth, modules->depth_count, put_module);
    rep_close(writer);
}
