/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for people: the verdict first, then what to do, then where the time goes, then why one may believe it.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/formats.h"
#include "reports/page.h"
#include "reports/text.h"

#define WIDTH_LEAST   40
#define WIDTH_MOST    200
#define WIDTH_DEFAULT 100
#define BAR_MOST      50

/* ---- head --------------------------------------------------------------------------------------------------------------- */

/* "2 x NVIDIA A100"; devices of several kinds are counted by kind. */
static void header_devices(struct page *p, const struct an_result *r)
{
    for (size_t i = 0; i < r->gpu_count; i++) {
        size_t same = 0;
        bool first = true;
        for (size_t k = 0; k < r->gpu_count; k++) {
            same += !strcmp(r->gpus[k].name, r->gpus[i].name);
            first = first && (k >= i || strcmp(r->gpus[k].name, r->gpus[i].name));
        }
        const char *name = *r->gpus[i].name ? r->gpus[i].name : same == 1 ? "device" : "devices";
        if (first && same == 1 && *r->gpus[i].name)
            page_item(p, "%.100s", name);
        else if (first)
            page_item(p, "%zu %s%.100s", same, *r->gpus[i].name ? "\xc3\x97 " : "", name);
    }
}

static void header(struct page *p, const struct an_result *r)
{
    char a[32], b[32];
    const struct an_steps *s = &r->steps;
    p->column = 0;
    p->indent = 0;
    p->joined = false;
    if (*r->run.program)
        page_item(p, "%.200s", r->run.program);
    if (r->run.ranks)
        page_item(p, "%" PRId64 " %s", r->run.ranks, r->run.ranks == 1 ? "rank" : "ranks");
    else if (r->run.processes)
        page_item(p, "%" PRId64 " %s", r->run.processes, r->run.processes == 1 ? "process" : "processes");
    if (r->run.cores.valid)
        page_item(p, "%" PRId64 " %s", r->run.cores.value, r->run.cores.value == 1 ? "core" : "cores");
    if (!r->gpu.reason)
        header_devices(p, r);
    if (r->utilization.dtype)
        page_item(p, "%.60s", r->utilization.dtype);
    if (s->median_ms.valid)
        page_item(p, "%" PRId64 " %s of %s (p95 %s)", s->counted, s->counted == 1 ? "step" : "steps",
                  page_time(a, s->median_ms.value * 1e6), page_time(b, s->p95_ms.value * 1e6));
    else if (r->run.duration_s.valid)
        page_item(p, "%s", page_time(a, r->run.duration_s.value * 1e9));
    if (r->run.live)
        page_item(p, "still running");
    if (*r->run.file)
        page_item(p, "%.1000s", r->run.file);
    page_end(p);
}

/* ---- findings ----------------------------------------------------------------------------------------------------------- */

static const char *gain_text(char *buf, size_t size, const struct an_gain *g)
{
    if (g->ceiling && g->high.valid)
        snprintf(buf, size, "\xe2\x89\xa4 +%.0f %% (ceiling)", g->high.value);
    else if (g->expected.valid && g->low.valid && g->high.valid)
        snprintf(buf, size, "+%.0f %% [%.0f, %.0f]", g->expected.value, g->low.value, g->high.value);
    else
        snprintf(buf, size, "no gain claimed");
    return buf;
}

static void findings(struct page *p, const struct an_result *r)
{
    char gain[64];
    if (!r->finding_count) {
        if (!r->checked_count)
            return;
        page_label(p, r->healthy ? "Healthy" : "Checked");
        if (r->healthy)
            page_item(p, "nothing above 2 %% of a step was found");
        for (size_t i = 0; i < r->checked_count; i++)
            page_item(p, "looked for: %s", r->checked[i]);
        page_end(p);
        page_blank(p);
        return;
    }
    page_head(p, "What to change");
    for (size_t i = 0; i < r->finding_count; i++) {
        const struct an_finding *f = &r->findings[i];
        char number[32];
        snprintf(number, sizeof number, "%2zu  ", i + 1);
        p->column = 0;
        page_cell(p, number, 4, false);
        page_cell(p, f->id, 19, false);
        if (p->width < 60) {
            page_newline(p);
            page_cell(p, "", 4, false);
        }
        page_cell(p, gain_text(gain, sizeof gain, &f->gain), p->width < 80 ? 0 : 22, false);
        if (p->width < 80)
            page_newline(p);
        p->indent = p->width < 80 ? 4 : p->column;
        p->joined = false;
        page_item(p, "%.300s", f->action);
        page_end(p);
    }
    size_t gains = 0;
    for (size_t i = 0; i < r->finding_count; i++)
        gains += r->findings[i].gain.high.valid;
    if (gains > 1)
        page_text(p, 4, "gains do not add up");
    page_blank(p);
}

static void card(struct page *p, const struct an_finding *f, size_t number)
{
    char head[400], gain[64];
    page_blank(p);
    snprintf(head, sizeof head, "%zu  %.60s: %.300s", number, f->id, f->claim);
    page_head(p, head);
    page_label(p, "   Evidence");
    for (size_t i = 0; i < sizeof f->evidence / sizeof *f->evidence && f->evidence[i]; i++)
        page_item(p, "%.300s", f->evidence[i]);
    page_end(p);
    const struct {
        const char *label, *text;
    } rows[] = {{"   Do", f->action}, {"   Effort", f->effort}, {"   Verify", f->verify}, {"   Wrong if", f->wrong_when}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        page_label(p, rows[i].label);
        page_item(p, "%.500s", rows[i].text);
        page_end(p);
    }
    page_label(p, "   Gain");
    page_item(p, "%s", gain_text(gain, sizeof gain, &f->gain));
    page_item(p, "%.300s", f->method);
    page_item(p, "confidence %s", an_confidence_text(f->confidence));
    page_end(p);
}

/* ---- where a step goes -------------------------------------------------------------------------------------------------- */

static int decimals(double largest)
{
    return largest >= 100 ? 1 : largest >= 1 ? 3 : 5;
}

static void budget_row(struct page *p, const char *label, double ms, double pct, int label_columns, int digits, int bar)
{
    char number[40];
    p->column = 0;
    page_cell(p, label, label_columns, false);
    snprintf(number, sizeof number, "%.*f", digits, ms);
    page_cell(p, number, 11, true);
    snprintf(number, sizeof number, "%.1f", pct);
    page_cell(p, number, 8, true);
    if (bar) {
        page_cell(p, "", 2, false);
        page_bar(p, pct, bar);
    }
    page_newline(p);
}

static void budget(struct page *p, const struct an_result *r)
{
    const struct an_budget *b = &r->budget;
    if (!r->steps.source)
        return; /* the verdict has said so */
    if (b->reason) {
        page_label(p, "Step budget");
        page_item(p, "not known: %.300s", b->reason);
        page_end(p);
        page_blank(p);
        return;
    }
    int label = p->width < 56 ? p->width - 20 : 34, bar = p->width - label - 22;
    bar = bar < 8 ? 0 : bar > BAR_MOST ? BAR_MOST : bar;
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6;
    int digits = decimals(step_ms);
    if (p->color)
        fputs("\x1b[1m", p->out);
    p->column = 0;
    page_cell(p, "Where a step goes", label, false);
    page_cell(p, "mean ms", 11, true);
    page_cell(p, "%", 8, true);
    if (p->color)
        fputs("\x1b[0m", p->out);
    page_newline(p);
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        char text[80];
        bool roles = b->roles_known || k != AN_CLASS_HOST;
        const char *name =
            !r->gpu.reason && k == AN_CLASS_HOST ? "host: launches, framework, waits" : an_class_label((enum an_class)k);
        if (!b->pct[k].valid || (!b->ns[k].value && k != AN_CLASS_COMPUTE && k != AN_CLASS_UNATTRIBUTED))
            continue;
        snprintf(text, sizeof text, " %s", roles ? name : "in ranges that do not say what they are");
        budget_row(p, text, step_ms * b->pct[k].value / 100, b->pct[k].value, label, digits, bar);
    }
    budget_row(p, "", step_ms, 100, label, digits, 0);
    if (r->device_count > 1)
        for (size_t i = 0; i < r->device_count; i++)
            if (r->devices[i].worst) {
                char text[160];
                snprintf(text, sizeof text, " mean of %zu %s; smallest compute share: rank %" PRId64 " %.40s, %.1f %%",
                         r->device_count, r->gpu.reason ? "ranks" : "devices", r->devices[i].rank, r->devices[i].device,
                         r->devices[i].budget.pct[AN_CLASS_COMPUTE].value);
                page_text(p, 1, text);
            }
    if (r->steps.note)
        page_text(p, 1, r->steps.note);
    if (r->steps.detailed < r->steps.counted) {
        char text[160];
        snprintf(text, sizeof text, "of %" PRId64 " of %" PRId64 " counted steps: the others were paused or cut",
                 r->steps.detailed, r->steps.counted);
        page_text(p, 1, text);
    }
    page_blank(p);
}

static void phases(struct page *p, const struct an_result *r)
{
    char a[32], b[32];
    if (!r->phase_count)
        return;
    page_label(p, "Phases");
    for (size_t i = 0; i < r->phase_count; i++)
        page_item(p, "%s %" PRId64 " %s, %s, %s of it on the step's thread", r->phases[i].name, r->phases[i].count,
                  r->phases[i].count == 1 ? "time" : "times", page_time(a, r->phases[i].wall_ms * 1e6),
                  page_time(b, r->phases[i].exposed_ms * 1e6));
    page_item(p, "cut out of steps");
    page_end(p);
}

static void throughput(struct page *p, const struct an_result *r)
{
    const struct an_steps *s = &r->steps;
    char a[32], b[32];
    if (!s->median_ms.valid)
        return;
    page_label(p, "Throughput");
    if (s->tokens_per_s.valid)
        page_item(p, "%s tokens/s", page_number(a, s->tokens_per_s.value));
    if (s->samples_per_s.valid)
        page_item(p, "%s samples/s", page_number(a, s->samples_per_s.value));
    page_item(p, "steps from %.80s", s->source);
    if (!r->gpu.reason && s->host_median_ms.valid)
        page_item(p, "on the host a step takes %s, on the device %s", page_time(a, s->host_median_ms.value * 1e6),
                  page_time(b, s->median_ms.value * 1e6));
    if (s->between_ms.valid && (r->gpu.reason || s->between_ms.value > 0))
        page_item(p, "%s between steps", page_time(a, s->between_ms.value * 1e6));
    if (s->outlier_count)
        page_item(p, "%zu slow %s, the slowest %" PRId64 " (%s)", s->outlier_count, s->outlier_count == 1 ? "step" : "steps",
                  s->outliers[0].index, page_time(a, s->outliers[0].ms * 1e6));
    page_end(p);
    if (!s->group_count)
        return;
    page_label(p, "Step sizes");
    for (size_t i = 0; i < s->group_count; i++)
        if (s->groups[i].tokens.valid)
            page_item(p, "%" PRId64 " steps of %" PRId64 " tokens: %s", s->groups[i].count, s->groups[i].tokens.value,
                      page_time(a, s->groups[i].median_ms * 1e6));
    page_end(p);
}

static void ratio_item(struct page *p, const char *name, struct an_value v, const char *note)
{
    if (v.valid)
        page_item(p, "%s %.1f %%%s", name, 100 * v.value, note);
}

static void utilization(struct page *p, const struct an_result *r)
{
    const struct an_utilization *u = &r->utilization;
    char a[32];
    if (!r->steps.counted)
        return;
    bool partial = u->flop_coverage_pct.valid && u->flop_coverage_pct.value < 95; /* DESIGN 5: then there is no MFU */
    page_label(p, "Utilisation");
    bool palm = u->mfu_palm.valid && (!u->mfu.valid || u->mfu_palm.value != u->mfu.value); /* the same without attention */
    ratio_item(p, "MFU", u->mfu, palm ? " (causal)" : "");
    if (palm)
        ratio_item(p, "MFU", u->mfu_palm, " (PaLM)");
    ratio_item(p, "HFU", u->hfu, "");
    if (!u->mfu.valid)
        page_item(p, "MFU not known: %.300s", u->mfu.reason);
    if (u->peak_flops.valid)
        page_item(p, "of %s %s (%.120s)", page_si(a, u->peak_flops.value, "FLOP/s"), u->dtype ? u->dtype : "",
                  u->peak_source ? u->peak_source : "");
    if (u->mfu_measured.valid && u->roof_measured_flops.valid) /* its own roof beside it: the one above is another */
        page_item(p, "MFU %.1f %% of the measured roof of products, %s", 100 * u->mfu_measured.value,
                  page_si(a, u->roof_measured_flops.value, "FLOP/s"));
    if (u->model_flops_per_step.valid && u->hardware_flops_per_step.valid)
        page_item(p, "%smodel %s a step", partial ? "of what is known: " : "",
                  page_si(a, (double)u->model_flops_per_step.value, "FLOP"));
    if (u->achieved_flops.valid && !partial)
        page_item(p, "%s executed", page_si(a, u->achieved_flops.value, "FLOP/s"));
    page_end(p);
}

/* ---- system, counters --------------------------------------------------------------------------------------------------- */

static void value_item(struct page *p, struct an_value v, const char *format)
{
    if (v.valid)
        page_item(p, format, v.value);
}

static void bytes_item(struct page *p, struct an_value v, const char *name)
{
    char a[32];
    if (v.valid)
        page_item(p, "%s %s", name, page_bytes(a, v.value));
}

static void system_line(struct page *p, const struct an_result *r)
{
    const struct an_system *s = &r->system;
    if (s->reason && r->trust.source && strcmp(r->trust.source, "tacho") != 0)
        return; /* a trace of another tool never has one */
    page_label(p, "System");
    if (s->reason) {
        page_item(p, "not sampled: %.300s", s->reason);
        page_end(p);
        return;
    }
    if (s->cpu_cores.valid && r->run.cores.valid)
        page_item(p, "CPU %.2f of %" PRId64 " cores", s->cpu_cores.value, r->run.cores.value);
    else
        value_item(p, s->cpu_cores, "CPU %.2f cores");
    value_item(p, s->machine_busy_pct, "machine %.0f %% busy");
    bytes_item(p, s->rss_peak_bytes, "memory at most");
    bytes_item(p, s->read_bytes, "storage read");
    bytes_item(p, s->write_bytes, "written");
    value_item(p, s->major_faults, s->major_faults.value == 1 ? "%.0f major fault" : "%.0f major faults");
    value_item(p, s->minor_faults, "%.0f minor faults");
    value_item(p, s->involuntary_switches, "%.0f involuntary switches");
    value_item(p, s->voluntary_switches, "%.0f voluntary");
    value_item(p, s->instructions_per_cycle, "%.2f instructions a cycle");
    page_end(p);
}

static void series(struct page *p, const struct an_result *r)
{
    char a[32], b[32];
    if (!r->series_count)
        return;
    size_t shown = 0, rest = 0;
    for (size_t i = 0; i < r->series_count; i++) {
        const struct an_series *s = &r->series[i];
        if (!r->memory.reason && !strncmp(s->name, "memory.", 7))
            continue; /* has a place of its own */
        if (shown == 8) {
            rest++;
            continue;
        }
        if (!shown++)
            page_label(p, "Counters");
        if (!strcmp(s->unit, "bytes")) {
            page_item(p, "%.60s %s \xe2\x86\x92 %s", s->name, page_bytes(a, s->first), page_bytes(b, s->last));
            continue;
        }
        page_item(p, "%.60s %s \xe2\x86\x92 %s%s%.20s", s->name, page_number(a, s->first), page_number(b, s->last),
                  *s->unit ? " " : "", s->unit);
    }
    if (rest)
        page_item(p, "%zu more", rest);
    if (shown)
        page_end(p);
}

int rep_text_write(const struct an_result *r, const struct rep_options *o, FILE *out)
{
    int width = o->width ? o->width : WIDTH_DEFAULT;
    struct page p = {.out = out, .utf8 = o->utf8, .color = o->color};
    p.width = width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : width;
    header(&p, r);
    page_blank(&p);
    page_head(&p, r->verdict);
    page_blank(&p);
    findings(&p, r);
    budget(&p, r);
    throughput(&p, r);
    utilization(&p, r);
    phases(&p, r);
    rep_text_loader(&p, r);
    rep_text_communication(&p, r);
    series(&p, r);
    system_line(&p, r);
    rep_text_hardware(&p, r);
    rep_text_memory(&p, r);
    for (size_t i = 0; i < r->finding_count; i++)
        card(&p, &r->findings[i], i + 1);
    rep_text_loader_ranks(&p, r);
    rep_text_communication_tables(&p, r, o->ops);
    rep_text_devices(&p, r, o->ops);
    rep_text_host_to_device(&p, r);
    rep_text_ops(&p, r, o->ops);
    rep_text_attribution(&p, r, o->by, o->ops);
    rep_text_roofline(&p, r, o->ops);
    rep_text_compat(&p, r);
    rep_text_trust(&p, r);
    if (o->definitions)
        rep_text_definitions(&p);
    return ferror(out) ? TACHO_EIO : 0;
}
