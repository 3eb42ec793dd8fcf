/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the critical path, as rows of CSV or on top of a timeline: there it is a process of its
 * own with a thread for each window, and arrows lead from segment to segment over the run's own
 * tracks.
 */
#include <inttypes.h>
#include <string.h>

#include "store/csv.h"
#include "store/export/export_private.h"

/* Does the segment overlap the window of the export? */
static bool in_window(const struct exp_run *run, const struct store_export_path *export_path)
{
    return export_path->end > run->t0 && export_path->start < run->t1;
}

void exp_path_csv(const struct exp_run *run, const struct store_export_options *options, FILE *out)
{
    fputs("window,start_ns,end_ns,track,name,cause,how,link,range_start_ns,range_end_ns\r\n", out);
    for (size_t i = 0; i < options->path_count && !ferror(out); i++) {
        const struct store_export_path *export_path = &options->path[i];
        if (!in_window(run, export_path))
            continue;
        fprintf(out, "%zu,%" PRId64 ",%" PRId64 ",", export_path->window, export_path->start,
                export_path->end);
        exp_csv_integer(out, export_path->track);
        putc(',', out);
        store_csv_text(out, export_path->name, options->raw);
        fprintf(out, ",%s,%s,%s,", export_path->cause, export_path->how, export_path->link);
        exp_csv_integer(out, export_path->range_start);
        putc(',', out);
        exp_csv_integer(out, export_path->range_end);
        fputs("\r\n", out);
    }
}

/* ---- on a timeline -------------------------------------------------------------------------------------------------------- */

/* Writes a time as us with three decimals; `ts` counts from the first event. */
static void time_us(const struct exp_run *run, FILE *out, const char *key, int64_t ns)
{
    ns -= strcmp(key, "ts") ? 0 : run->origin;
    const char *sign = ns < 0 ? "-" : "";
    ns = imaxabs(ns);
    fprintf(out, ",\"%s\":%s%" PRId64 ".%03" PRId64, key, sign, ns / 1000, ns % 1000);
}

/* Writes one segment as a slice of the process that shows the path. */
static void segment(const struct exp_run *run, FILE *out,
                    const struct store_export_path *export_path, int64_t own)
{
    struct exp_args args = {.out = out};
    fputs(",\n{\"ph\":\"X\",\"cat\":\"" STORE_EXPORT_PATH_CATEGORY "\",\"name\":", out);
    exp_json_string(out, export_path->name && *export_path->name ? export_path->name
                                                                 : export_path->cause);
    fprintf(out, ",\"pid\":%" PRId64 ",\"tid\":%zu", own, export_path->window + 1);
    time_us(run, out, "ts", export_path->start);
    time_us(run, out, "dur", export_path->end - export_path->start);
    fputs(",\"args\":{", out);
    exp_arg_text(&args, "cause", export_path->cause);
    exp_arg_text(&args, "how", export_path->how);
    exp_arg_text(&args, "link", export_path->link);
    fputs("}}", out);
}

/* Writes the start or the end of an arrow. */
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

/* Draws an arrow from the end of a segment to the start of the next one, if that is on another
 * track. */
static void arrow(const struct exp_run *run, FILE *out, const struct store_export_path *export_path,
                  size_t id, const int64_t *pid, const int64_t *tid)
{
    uint32_t from =
        export_path[0].track == STORE_ABSENT ? EXP_NONE : exp_track_at(run, export_path[0].track);
    uint32_t to =
        export_path[1].track == STORE_ABSENT ? EXP_NONE : exp_track_at(run, export_path[1].track);
    if (from == EXP_NONE || to == EXP_NONE || from == to)
        return;
    arrow_end(run, out, id, true, pid[from], tid[from],
              export_path[0].end - (export_path[0].end > export_path[0].start));
    arrow_end(run, out, id, false, pid[to], tid[to], export_path[1].start);
}

void exp_path_json(const struct exp_run *run, const struct store_export_options *options, FILE *out,
                   const int64_t *pid, const int64_t *tid, int64_t own)
{
    size_t last = SIZE_MAX;
    fprintf(out,
            ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"cat\":\"" STORE_EXPORT_PATH_CATEGORY
            "\",\"pid\":%" PRId64 ",\"args\":{\"name\":\"critical "
            "path\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"cat\":"
            "\"" STORE_EXPORT_PATH_CATEGORY "\",\"pid\":%" PRId64 ",\"args\":{\"sort_index\":-1}}",
            own, own);
    for (size_t i = 0; i < options->path_count && !ferror(out); i++) {
        const struct store_export_path *export_path = &options->path[i];
        if (!in_window(run, export_path))
            continue;
        if (export_path->window != last)
            fprintf(
                out,
                ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"cat\":\"" STORE_EXPORT_PATH_CATEGORY
                "\",\"pid\":%" PRId64 ",\"tid\":%zu,\"args\":{\"name\":\"window %zu\"}}",
                own, export_path->window + 1, export_path->window + 1);
        last = export_path->window;
        segment(run, out, export_path, own);
        if (i + 1 < options->path_count && export_path[1].window == export_path->window &&
            in_window(run, export_path + 1))
            arrow(run, out, export_path, i + 1, pid, tid);
    }
}
