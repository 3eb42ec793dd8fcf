/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho-diff/1 (docs/diff.md).
 */
#include <math.h>

#include "reports/diff/diff_write.h"
#include "reports/json/json_writer.h"

static void put_side(struct rep_writer *w, const char *key, const struct an_diff_side *s)
{
    rep_open(w, key);
    rep_put_text_or(w, "file", s->file, "the caller did not name the file");
    rep_put_text_or(w, "step_source", s->source, "no steps were found");
    rep_put_int(w, "steps", s->steps);
    rep_put_int(w, "detailed", s->detailed);
    rep_put_real(w, "ms", s->step, "the run holds no time");
    rep_put_real(w, "tokens_per_step", s->tokens_per_step,
                 "not every step says how many tokens it holds");
    rep_close(w);
}

static void put_row(struct rep_writer *w, const char *key, const struct an_diff *d,
                    const struct an_diff_row *r)
{
    const char *why = d->significance ? d->significance
                                      : "values of each step are kept for the largest names only";
    bool counted = r->kind == AN_DIFF_OP || r->kind == AN_DIFF_KERNEL || r->kind == AN_DIFF_LOADER;
    const char *no_calls = "it is no call";
    rep_open(w, key);
    rep_put_text(w, "name", r->name);
    if (r->class < AN_CLASS_COUNT)
        rep_put_text(w, "class", an_class_key(r->class));
    else
        rep_put_null(w, "class", "all classes");
    rep_put_bool(w, "in_good", r->in_good);
    rep_put_bool(w, "in_bad", r->in_bad);
    rep_put_bool(w, "merged", r->merged);
    rep_put_real(w, "good_ms", r->good, "the run holds no time");
    rep_put_real(w, "bad_ms", r->bad, "the run holds no time");
    rep_put_real(w, "delta_ms", r->delta, "one of the runs holds no time");
    rep_put_real(w, "delta_pct", r->delta_pct, "GOOD holds no time");
    rep_put_real(w, "good_calls", r->good_calls,
                 counted ? "no step has all its parts in the file" : no_calls);
    rep_put_real(w, "bad_calls", r->bad_calls,
                 counted ? "no step has all its parts in the file" : no_calls);
    rep_put_real(w, "low_ms", r->low, why);
    rep_put_real(w, "high_ms", r->high, why);
    rep_put_real(w, "p", r->p, why);
    rep_put_real(w, "drift_ms", r->floor, why);
    if (isnan(r->p))
        rep_put_null(w, "significant", why);
    else
        rep_put_bool(w, "significant", r->significant);
    rep_close(w);
}

static void put_rows(struct rep_writer *w, const char *key, const struct an_diff *d,
                     const struct an_diff_row *rows, size_t n, enum an_diff_kind kind)
{
    rep_open_list(w, key);
    for (size_t i = 0; i < n; i++)
        if (kind == AN_DIFF_KIND_COUNT || rows[i].kind == kind)
            put_row(w, NULL, d, &rows[i]);
    rep_close(w);
}

static void put_gate(struct rep_writer *w, const struct rep_diff_gate *g)
{
    if (isnan(g->fail_above_pct)) {
        rep_put_null(w, "gate", "no limit was given: --fail-above");
        return;
    }
    rep_open(w, "gate");
    rep_put_real(w, "fail_above_pct", g->fail_above_pct, "");
    rep_put_bool(w, "failed", g->failed);
    rep_close(w);
}

static void put_scaling(struct rep_writer *w, const struct an_scaling *s)
{
    if (s->reason) {
        rep_put_null(w, "scaling", s->reason);
        return;
    }
    rep_open(w, "scaling");
    rep_put_text(w, "kind", s->kind);
    rep_put_text(w, "of", s->of);
    rep_put_int(w, "good_ranks", s->good_ranks);
    rep_put_int(w, "bad_ranks", s->bad_ranks);
    rep_put_value(w, "good_global_batch", s->good_batch);
    rep_put_value(w, "bad_global_batch", s->bad_batch);
    rep_put_value(w, "good_per_s", s->good_rate);
    rep_put_value(w, "bad_per_s", s->bad_rate);
    rep_put_value(w, "speed_up", s->speed_up);
    rep_put_value(w, "efficiency", s->efficiency);
    rep_put_value(w, "efficiency_low", s->low);
    rep_put_value(w, "efficiency_high", s->high);
    rep_open(w, "lost_pct");
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        rep_put_value(w, an_class_key((enum an_class)k), s->lost_pct[k]);
    rep_close(w);
    rep_close(w);
}

int rep_diff_json(const struct an_diff *d, const struct rep_diff_gate *gate, FILE *out)
{
    static const char *const units[] = {[AN_DIFF_PER_STEP] = "step",
                                        [AN_DIFF_PER_TOKENS] = "tokens",
                                        [AN_DIFF_PER_SAMPLES] = "samples",
                                        [AN_DIFF_CAPTURE] = "capture"};
    struct rep_writer w;
    int rc = rep_writer_begin(&w, out);
    if (rc)
        return rc;
    rep_put_text(&w, "schema", "tacho-diff/1");
    rep_put_text(&w, "verdict", d->verdict);
    rep_put_text(&w, "unit", units[d->unit]);
    rep_put_real(&w, "unit_size", d->unit_size, "a step is a step");
    rep_put_text_or(&w, "note", d->note, "nothing to note");
    rep_put_text_or(&w, "not_tested", d->significance, "significance was tested");
    rep_put_int(&w, "compared", (int64_t)d->compared);
    rep_put_bool(&w, "differs", d->differs);
    rep_put_bool(&w, "slower", d->slower);
    put_gate(&w, gate);
    put_side(&w, "good", &d->good);
    put_side(&w, "bad", &d->bad);
    put_scaling(&w, &d->scaling);
    put_row(&w, "step", d, &d->step);
    for (int k = AN_DIFF_STEP + 1; k < AN_DIFF_KIND_COUNT; k++)
        put_rows(&w, an_diff_kind_key((enum an_diff_kind)k), d, d->rows, d->row_count,
                 (enum an_diff_kind)k);
    put_rows(&w, "added", d, d->added, d->added_count, AN_DIFF_KIND_COUNT);
    rep_put_int(&w, "added_omitted", (int64_t)(d->added_total - d->added_count));
    put_rows(&w, "removed", d, d->removed, d->removed_count, AN_DIFF_KIND_COUNT);
    rep_put_int(&w, "removed_omitted", (int64_t)(d->removed_total - d->removed_count));
    rc = rep_writer_end(&w);
    return rc ? rc : fflush(out) || ferror(out) ? TACHO_EIO : 0;
}
