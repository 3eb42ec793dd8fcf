/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report begins with: what ran, what to change, where a step goes; and the card of each
 * finding.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/sections/tables.h"
#include "reports/text/text.h"

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

void rep_text_header(struct page *p, const struct an_result *r)
{
    char a[32], b[32];
    const struct an_steps *s = &r->steps;
    page_label(p, NULL);
    if (*r->run.program)
        page_item(p, "%.200s", r->run.program);
    if (r->run.ranks)
        page_item(p, "%" PRId64 " %s", r->run.ranks, r->run.ranks == 1 ? "rank" : "ranks");
    else if (r->run.processes)
        page_item(p, "%" PRId64 " %s", r->run.processes,
                  r->run.processes == 1 ? "process" : "processes");
    if (r->run.cores.valid)
        page_item(p, "%" PRId64 " %s", r->run.cores.value,
                  r->run.cores.value == 1 ? "core" : "cores");
    if (!r->gpu.reason)
        header_devices(p, r);
    if (r->utilization.dtype)
        page_item(p, "%.60s", r->utilization.dtype);
    if (s->median_ms.valid) {
        bool even = r->run.ranks > 1 && s->counted % r->run.ranks == 0;
        int64_t steps = even ? s->counted / r->run.ranks : s->counted;
        page_item(p, "%" PRId64 " %s%s, median %s, p95 %s", steps, steps == 1 ? "step" : "steps",
                  even               ? " a rank"
                  : r->run.ranks > 1 ? " of all ranks"
                                     : "",
                  page_time(a, s->median_ms.value * 1e6), page_time(b, s->p95_ms.value * 1e6));
    } else if (r->run.duration_s.valid)
        page_item(p, "%s", page_time(a, r->run.duration_s.value * 1e9));
    if (r->run.live)
        page_item(p, "still running");
    if (*r->run.file)
        page_item(p, "%.1000s", r->run.file);
    page_end(p);
}

/* ---- findings ----------------------------------------------------------------------------------------------------------- */

const char *rep_gain_text(char *buf, size_t size, const struct an_gain *g)
{
    if (g->ceiling && g->high.valid)
        snprintf(buf, size, "\xe2\x89\xa4 +%.0f %% (ceiling)", g->high.value);
    else if (g->expected.valid && g->low.valid && g->high.valid)
        snprintf(buf, size, "+%.0f %% [%.0f, %.0f]", g->expected.value, g->low.value,
                 g->high.value);
    else
        snprintf(buf, size, "no gain claimed");
    return buf;
}

/* "1 and 3 together +41 % [36, 45]: gains do not add up". Returns buf. */
static const char *together_words(const struct an_result *r, char *buf, size_t size)
{
    const struct an_what_if *all = &r->advice.together;
    char which[80] = "", gain[64];
    size_t n = 0, left = 0;
    for (size_t i = 0; i < r->finding_count; i++)
        for (size_t k = 0; k < r->advice.edit_count; k++)
            left += r->advice.edits[k].of == r->findings[i].id && !r->advice.edits[k].reason;
    for (size_t i = 0; i < r->finding_count && all->edit; i++)
        for (size_t k = 0; k < r->advice.edit_count; k++) {
            size_t length = strlen(which);
            if (r->advice.edits[k].of != r->findings[i].id || r->advice.edits[k].reason)
                continue;
            snprintf(which + length, sizeof which - length, "%s%zu",
                     n == 0          ? ""
                     : n + 1 == left ? " and "
                                     : ", ",
                     i + 1);
            n++;
        }
    if (all->edit && !all->reason && n > 1)
        snprintf(buf, size, "%.79s together %s: gains do not add up", which,
                 rep_gain_text(gain, sizeof gain, &all->gain));
    else
        snprintf(buf, size, "gains do not add up");
    return buf;
}

void rep_text_findings(struct page *p, const struct an_result *r)
{
    char gain[200];
    if (!r->finding_count) {
        if (!r->checked_count)
            return;
        page_label(p, r->healthy ? "Healthy" : "Checked");
        if (r->healthy)
            page_item(p, "nothing above 2 %% of a step was found");
        for (size_t i = 0; i < r->checked_count; i++)
            page_item(p, "%s%s", i ? "" : "looked for: ", r->checked[i]);
        page_end(p);
        page_blank(p);
        return;
    }
    page_head(p, "What to change");
    for (size_t i = 0; i < r->finding_count; i++) {
        const struct an_finding *f = &r->findings[i];
        page_entry(p, i + 1, f->id, rep_gain_text(gain, sizeof gain, &f->gain), f->action);
    }
    size_t gains = 0;
    for (size_t i = 0; i < r->finding_count; i++)
        gains += r->findings[i].gain.high.valid;
    if (gains > 1)
        page_text(p, 4, together_words(r, gain, sizeof gain));
    page_blank(p);
}

static void card(struct page *p, const struct an_finding *f, size_t number)
{
    char head[800], gain[64];
    page_blank(p);
    snprintf(head, sizeof head, "%zu  %.60s: %.700s", number, f->id, f->claim);
    page_card(p, f->id, head);
    page_label(p, "   Evidence");
    for (size_t i = 0; i < sizeof f->evidence / sizeof *f->evidence && f->evidence[i]; i++)
        page_item(p, "%s", f->evidence[i]);
    page_end(p);
    const struct {
        const char *label, *text;
    } rows[] = {{"   Do", f->action},
                {"   Effort", f->effort},
                {"   Verify", f->verify},
                {"   Wrong if", f->wrong_when}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        page_label(p, rows[i].label);
        page_item(p, "%s", rows[i].text);
        page_end(p);
    }
    page_label(p, "   Gain");
    page_item(p, "%s", rep_gain_text(gain, sizeof gain, &f->gain));
    page_item(p, "%s", f->method);
    page_item(p, "confidence %s", an_confidence_text(f->confidence));
    page_end(p);
}

/* ---- where a step goes -------------------------------------------------------------------------------------------------- */

static int decimals(double largest)
{
    return largest >= 100 ? 1 : largest >= 1 ? 3 : 5;
}

/* A class, or the step itself: no label. */
struct budget_row {
    const char *label;
    double ms, pct;
    int digits;
};

static void budget_name(char b[REP_NAME], const void *row)
{
    snprintf(b, REP_NAME, "%s", ((const struct budget_row *)row)->label);
}
static void budget_ms(char *b, const void *row)
{
    const struct budget_row *x = row;
    snprintf(b, REP_CELL, "%.*f", x->digits, x->ms);
}
static void budget_pct(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct budget_row *)row)->pct);
}
static double budget_bar(const void *row)
{
    const struct budget_row *x = row;
    return *x->label ? x->pct : NAN;
}
static const struct rep_column of_budget[] = {{"mean ms", 11, budget_ms}, {"%", 8, budget_pct}};

const char *rep_class_name(const struct an_result *r, int class)
{
    if (class == AN_CLASS_HOST && !r->budget.roles_known)
        return "in ranges that do not say what they are";
    if (class == AN_CLASS_HOST && !r->gpu.reason)
        return "host: launches, framework, waits";
    return an_class_label((enum an_class) class);
}

static void budget_table(struct page *p, const struct an_result *r)
{
    const struct an_budget *b = &r->budget;
    struct budget_row row[AN_CLASS_COUNT + 1];
    size_t n = 0;
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6;
    int digits = decimals(step_ms);
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        if (!b->pct[k].valid ||
            (!b->ns[k].value && k != AN_CLASS_COMPUTE && k != AN_CLASS_UNATTRIBUTED))
            continue;
        row[n++] = (struct budget_row){rep_class_name(r, k), step_ms * b->pct[k].value / 100,
                                       b->pct[k].value, digits};
    }
    row[n++] = (struct budget_row){"", step_ms, 100, digits};
    const struct rep_table t = {.title = "Where a step goes",
                                .name = budget_name,
                                .column = of_budget,
                                .columns = sizeof of_budget / sizeof *of_budget,
                                .rows = row,
                                .size = sizeof *row,
                                .count = n,
                                .most = n,
                                .words = true,
                                .bar = budget_bar};
    rep_table_write(p, &t);
}

void rep_text_budget(struct page *p, const struct an_result *r)
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
    page_picture(p, PAGE_BUDGET, r);
    budget_table(p, r);
    if (r->device_count > 1)
        for (size_t i = 0; i < r->device_count; i++)
            if (r->devices[i].worst) {
                char text[160];
                snprintf(text, sizeof text,
                         " mean of %zu %s; smallest compute share: rank %" PRId64 " %.40s, %.1f %%",
                         r->device_count, r->gpu.reason ? "ranks" : "devices", r->devices[i].rank,
                         r->devices[i].device, r->devices[i].budget.pct[AN_CLASS_COMPUTE].value);
                page_text(p, 1, text);
            }
    if (r->steps.note)
        page_text(p, 1, r->steps.note);
    if (r->steps.detailed < r->steps.counted) {
        char text[160];
        snprintf(text, sizeof text,
                 "of %" PRId64 " of %" PRId64 " counted steps: the others were paused or cut",
                 r->steps.detailed, r->steps.counted);
        page_text(p, 1, text);
    }
    page_blank(p);
}

void rep_text_cards(struct page *p, const struct an_result *r)
{
    for (size_t i = 0; i < r->finding_count; i++)
        card(p, &r->findings[i], i + 1);
}
