/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path on top of a timeline: a process of its own with a thread for each window, and
 * arrows that lead from stretch to stretch over the run's own tracks. And as rows of CSV.
 */
#include <inttypes.h>
#include <string.h>

#include "store/export/exporter.h"

static bool in_window(const struct exp_run *run, const struct store_export_path *p)
{
    return p->end > run->t0 && p->start < run->t1;
}

void exp_path_csv(const struct exp_run *run, const struct store_export_options *o, FILE *out)
{
    fputs("window,start_ns,end_ns,track,name,cause,how,link,range_start_ns,range_end_ns\r\n", out);
    for (size_t i = 0; i < o->path_count && !ferror(out); i++) {
        const struct store_export_path *p = &o->path[i];
        if (!in_window(run, p))
            continue;
        fprintf(out, "%zu,%" PRId64 ",%" PRId64 ",", p->window, p->start, p->end);
        exp_csv_integer(out, p->track);
        putc(',', out);
        exp_csv_text(out, p->name);
        fprintf(out, ",%s,%s,%s,", p->cause, p->how, p->link);
        exp_csv_integer(out, p->range_start);
        putc(',', out);
        exp_csv_integer(out, p->range_end);
        fputs("\r\n", out);
    }
}

/* ---- on a timeline -------------------------------------------------------------------------------------------------------- */

static void time_us(const struct exp_run *run, FILE *out, const char *key, int64_t ns)
{
    ns = !strcmp(key, "ts") ? ns - run->origin : ns;
    fprintf(out, ",\"%s\":%s%" PRId64 ".%03" PRId64, key, ns < 0 ? "-" : "",
            (ns < 0 ? -ns : ns) / 1000, (ns < 0 ? -ns : ns) % 1000);
}

static void stretch(const struct exp_run *run, FILE *out, const struct store_export_path *p,
                    int64_t own)
{
    struct exp_args args = {.out = out};
    fputs(",\n{\"ph\":\"X\",\"cat\":\"" STORE_EXPORT_PATH_CATEGORY "\",\"name\":", out);
    exp_json_string(out, p->name && *p->name ? p->name : p->cause);
    fprintf(out, ",\"pid\":%" PRId64 ",\"tid\":%zu", own, p->window + 1);
    time_us(run, out, "ts", p->start);
    time_us(run, out, "dur", p->end - p->start);
    fputs(",\"args\":{", out);
    exp_arg_text(&args, "cause", p->cause);
    exp_arg_text(&args, "how", p->how);
    exp_arg_text(&args, "link", p->link);
    fputs("}}", out);
}

static void arrow_end(const struct exp_run *run, FILE *out, size_t id, bool start, int64_t pid,
                      int64_t tid, int64_t at)
{
    fprintf(out,
            ",\n{\"ph\":\"%s\",\"bp\":\"e\",\"id\":%zu,\"cat\":\"" STORE_EXPORT_PATH_CATEGORY
            "\",\"name\":\"critical path\",\"pid\":%" PRId64 ",\"tid\":%" PRId64,
            start ? "s" : "f", id, pid, tid);
    time_us(run, out, "ts", at);
    putc('}', out);
}

/* From the end of a stretch to the start of the next one, where that lies on another track. */
static void arrow(const struct exp_run *run, FILE *out, const struct store_export_path *p,
                  size_t id, const int64_t *pid, const int64_t *tid)
{
    uint32_t a = p[0].track == STORE_ABSENT ? EXP_NONE : exp_track_at(run, p[0].track);
    uint32_t b = p[1].track == STORE_ABSENT ? EXP_NONE : exp_track_at(run, p[1].track);
    if (a == EXP_NONE || b == EXP_NONE || a == b)
        return;
    arrow_end(run, out, id, true, pid[a], tid[a], p[0].end - (p[0].end > p[0].start));
    arrow_end(run, out, id, false, pid[b], tid[b], p[1].start);
}

void exp_path_json(const struct exp_run *run, const struct store_export_options *o, FILE *out,
                   const int64_t *pid, const int64_t *tid, int64_t own)
{
    size_t last = SIZE_MAX;
    fprintf(out,
            ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"cat\":\"" STORE_EXPORT_PATH_CATEGORY
            "\",\"pid\":%" PRId64 ",\"args\":{\"name\":\"critical "
            "path\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"cat\":"
            "\"" STORE_EXPORT_PATH_CATEGORY "\",\"pid\":%" PRId64 ",\"args\":{\"sort_index\":-1}}",
            own, own);
    for (size_t i = 0; i < o->path_count && !ferror(out); i++) {
        const struct store_export_path *p = &o->path[i];
        if (!in_window(run, p))
            continue;
        if (p->window != last)
            fprintf(
                out,
                ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"cat\":\"" STORE_EXPORT_PATH_CATEGORY
                "\",\"pid\":%" PRId64 ",\"tid\":%zu,\"args\":{\"name\":\"window %zu\"}}",
                own, p->window + 1, p->window + 1);
        last = p->window;
        stretch(run, out, p, own);
        if (i + 1 < o->path_count && p[1].window == p->window && in_window(run, p + 1))
            arrow(run, out, p, i + 1, pid, tid);
    }
}
