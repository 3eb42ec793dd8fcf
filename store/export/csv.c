/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 4180: CRLF, quotes doubled, a header line. One row a slice with everything that is known of
 * it; absent is empty, an empty text is "". By track, then time. A ' goes before texts that a
 * spreadsheet would run as a formula.
 */

#include "store/csv.h"
#include "store/export/export_private.h"

static void next(FILE *out)
{
    putc(',', out);
}

/* Writes the columns of a detail. */
static void detail(FILE *out, const struct store_detail *detail, bool raw)
{
    const int64_t numbers[] = {detail->flops,         detail->bytes_read,
                               detail->bytes_written, detail->model_flops,
                               detail->palm_flops,    detail->bytes,
                               detail->samples,       detail->ranks,
                               detail->communicator,  detail->flags ? detail->flags : STORE_ABSENT};
    const char *const texts[] = {detail->dtype,     detail->pass,       detail->kind,
                                 detail->copy_kind, detail->collective, detail->grid,
                                 detail->block,     detail->schema,     detail->payload};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        next(out);
        exp_csv_integer(out, numbers[i]);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        next(out);
        store_csv_text(out, texts[i], raw);
    }
}

/* Writes the row of one slice, in the order of the header line. */
static void row(FILE *out, const struct exp_run *run, const struct exp_slice *slice, bool raw)
{
    static const struct store_detail none = STORE_DETAIL_NONE;
    const struct exp_track *track = &run->track[slice->track];
    const struct exp_process *process =
        track->process_at != EXP_NONE ? &run->process[track->process_at] : NULL;
    exp_csv_integer(out, process ? process->rank : STORE_ABSENT);
    next(out);
    store_csv_text(out, process ? process->host : NULL, raw);
    next(out);
    exp_csv_integer(out, process ? process->pid : STORE_ABSENT);
    next(out);
    store_csv_text(out, process ? process->program : NULL, raw);
    next(out);
    exp_csv_integer(out, track->id);
    next(out);
    store_csv_text(out, track->kind, raw);
    next(out);
    store_csv_text(out, track->name, raw);
    next(out);
    store_csv_text(out, track->device, raw);
    next(out);
    exp_csv_integer(out, track->tid);
    next(out);
    exp_csv_integer(out, slice->start);
    next(out);
    exp_csv_integer(out, slice->end == INT64_MAX ? STORE_ABSENT : slice->end - slice->start);
    next(out);
    store_csv_text(out, slice->name != EXP_NONE ? run->text[slice->name] : NULL, raw);
    next(out);
    store_csv_text(out, slice->category != EXP_NONE ? run->text[slice->category] : NULL, raw);
    next(out);
    exp_csv_integer(out, slice->correlation);
    bool known = slice->detail != EXP_NONE && run->detail[slice->detail].id;
    detail(out, known ? &run->detail[slice->detail] : &none, raw);
    fputs("\r\n", out);
}

int exp_csv_write(store_reader *reader, const struct store_export_options *options, FILE *out,
                  struct tacho_error *err)
{
    struct exp_run run;
    int code = exp_run_load(reader, options, &run, err);
    if (code)
        return code;
    if (options->with_path) {
        exp_path_csv(&run, options, out);
        exp_run_free(&run);
        return exp_end(out, 0, err);
    }
    fputs("rank,host,pid,program,track,track_kind,track_name,device,tid,start_ns,dur_ns,name,"
          "category,correlation,"
          "flops,bytes_read,bytes_written,model_flops,palm_flops,bytes,samples,ranks,communicator,"
          "flags,"
          "dtype,pass,kind,copy_kind,collective,grid,block,schema,payload\r\n",
          out);
    for (size_t i = 0; i < run.slice_count && !ferror(out); i++)
        row(out, &run, &run.slice[i], options->raw);
    exp_run_free(&run);
    return exp_end(out, 0, err);
}
