/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a report: what ran, what to change, and where the time of a step goes; also
 * the card of each finding.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/page/lines.h"
#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/escape.h"
#include "reports/words/phrase.h"

/* ---- head ------------------------------------------------------------------------------------ */

/* "2 x NVIDIA A100"; devices of several kinds are counted by kind. */
static void header_devices(struct page *page, const struct an_result *result)
{
    for (size_t i = 0; i < result->gpu_count; i++) {
        size_t same = 0;
        bool first = true;
        for (size_t other = 0; other < result->gpu_count; other++) {
            same += !strcmp(result->gpus[other].name, result->gpus[i].name);
            first = first && (other >= i || strcmp(result->gpus[other].name, result->gpus[i].name));
        }
        const char *name = result->gpus[i].name;
        if (!first)
            continue;
        if (!*name)
            page_item(page, "%zu %s", same, REP_PLURAL(same, "device", "devices"));
        else if (same == 1)
            page_item(page, "%.100s", name);
        else
            page_item(page, "%zu \xc3\x97 %.100s", same, name);
    }
}

/* Ranks or processes, and cores. */
static void header_size(struct page *page, const struct an_result *result)
{
    if (result->run.ranks)
        page_item(page, "%" PRId64 " %s", result->run.ranks,
                  REP_PLURAL(result->run.ranks, "rank", "ranks"));
    else if (result->run.processes)
        page_item(page, "%" PRId64 " %s", result->run.processes,
                  REP_PLURAL(result->run.processes, "process", "processes"));
    if (result->run.cores.valid)
        page_item(page, "%" PRId64 " %s", result->run.cores.value,
                  REP_PLURAL(result->run.cores.value, "core", "cores"));
}

/* Number and duration of the steps; without steps, of the run. */
static void header_steps(struct page *page, const struct an_result *result)
{
    const struct an_steps *steps = &result->steps;
    if (steps->median_ms.valid) {
        bool several = steps->lanes > 1, even = several && steps->of_a_lane;
        int64_t counted = even ? steps->of_a_lane : steps->counted;
        const char *whose = "";
        if (several && result->run.ranks > 1)
            whose = even ? " a rank" : " of all ranks";
        else if (several && !result->gpu.reason)
            whose = even ? " a device" : " of all devices";
        else if (several)
            whose = even ? " a thread" : " of all threads";
        page_item(page, "%" PRId64 " %s%s, median %s, p95 %s", counted,
                  REP_PLURAL(counted, "step", "steps"), whose,
                  TIME_TEXT(steps->median_ms.value * 1e6), TIME_TEXT(steps->p95_ms.value * 1e6));
    } else if (result->run.duration_s.valid)
        page_item(page, "%s", TIME_TEXT(result->run.duration_s.value * 1e9));
}

/* The run's file; with `columns`, only the end of a path that is longer. */
static void header_file(struct page *page, const char *file, int columns)
{
    char shown[PAGE_TEXT];
    rep_clean_end(shown, sizeof shown, file, columns ? columns : PAGE_TEXT, page->utf8);
    page_item(page, "%.1000s", shown);
}

/* One paragraph: program, size of the run, devices, precision, steps, file. */
static void write_header(struct page *page, const struct an_result *result, int file_columns)
{
    page_label(page, NULL);
    if (*result->run.program)
        page_item(page, "%.200s", result->run.program);
    if (result->run.around)
        page_item(page, "%.80s", result->run.around);
    header_size(page, result);
    if (!result->gpu.reason)
        header_devices(page, result);
    if (result->utilization.dtype)
        page_item(page, "%.60s", result->utilization.dtype);
    header_steps(page, result);
    if (result->run.live)
        page_item(page, "still running");
    if (*result->run.file)
        header_file(page, result->run.file, file_columns);
    page_end(page);
}

void rep_section_header(struct page *page, const struct an_result *result)
{
    write_header(page, result, 0);
}

void rep_section_header_brief(struct page *page, const struct an_result *result)
{
    write_header(page, result, page->ops == &page_lines ? page->width : 0);
}

/* ---- findings -------------------------------------------------------------------------------- */

/* A gain without an interval is a ceiling, or is not claimed. */
const char *rep_gain_text(char *buf, size_t size, const struct an_gain *gain)
{
    if (gain->ceiling && gain->high.valid)
        snprintf(buf, size, "\xe2\x89\xa4 +%.0f %% (ceiling)", gain->high.value);
    else if (gain->expected.valid && gain->low.valid && gain->high.valid)
        snprintf(buf, size, "+%.0f %% [%.0f, %.0f]", gain->expected.value, gain->low.value,
                 gain->high.value);
    else
        snprintf(buf, size, "no gain claimed");
    return buf;
}

const char *rep_finding_gain(char *buf, size_t size, const struct an_finding *finding)
{
    rep_gain_text(buf, size, &finding->gain);
    size_t used = strlen(buf);
    if (finding->while_others && finding->gain.high.valid)
        snprintf(buf + used, size - used, " while others run");
    return buf;
}

/* Is the edit that of the finding, and replayed? The edit of one that repeats another is a part of
 * that one's. */
static bool is_together(const struct an_result *result, size_t finding, size_t edit)
{
    return result->advice.edits[edit].of == result->findings[finding].id &&
           !result->advice.edits[edit].reason && !result->findings[finding].repeats;
}

size_t rep_together_count(const struct an_result *result)
{
    size_t count = 0;
    for (size_t i = 0; result->advice.together.edit && i < result->finding_count; i++)
        for (size_t edit = 0; edit < result->advice.edit_count; edit++)
            count += is_together(result, i, edit);
    return count;
}

const char *rep_together_text(const struct an_result *result, char *buf, size_t size)
{
    const struct an_what_if *all = &result->advice.together;
    char which[80] = "", gain[64];
    size_t written = 0, left = rep_together_count(result);
    for (size_t i = 0; i < result->finding_count && all->edit; i++)
        for (size_t edit = 0; edit < result->advice.edit_count; edit++) {
            size_t length = strlen(which);
            if (!is_together(result, i, edit))
                continue;
            const char *between = written + 1 == left ? " and " : ", ";
            snprintf(which + length, sizeof which - length, "%s%zu", written ? between : "", i + 1);
            written++;
        }
    if (all->edit && !all->reason && written > 1)
        snprintf(buf, size, "%.79s together %s: gains do not add up", which,
                 rep_gain_text(gain, sizeof gain, &all->gain));
    else
        snprintf(buf, size, "gains do not add up");
    return buf;
}

static void checked_lines(struct page *page, const struct an_result *result)
{
    if (!result->checked_count)
        return;
    page_label(page, result->healthy ? "Healthy" : "Checked");
    if (result->healthy)
        page_item(page, "nothing above 2 %% of a step was found");
    for (size_t i = 0; i < result->checked_count; i++)
        page_item(page, "%s%s", i ? "" : "looked at: ", result->checked[i]);
    page_end(page);
    page_blank(page);
}

/* Does an earlier check lack the same as check i? Then they share a line. */
static bool is_listed(const struct an_result *result, size_t i)
{
    bool listed = false;
    for (size_t k = 0; k < i && !listed; k++)
        listed = !strcmp(result->not_checked[k].reason, result->not_checked[i].reason);
    return listed;
}

/* The names of check i and of the later ones that lack the same. */
static const char *names_alike(const struct an_result *result, size_t i, char *names, size_t size)
{
    const char *reason = result->not_checked[i].reason;
    size_t used = 0;
    for (size_t k = i; k < result->not_checked_count && used < size; k++)
        if (!strcmp(result->not_checked[k].reason, reason))
            used += (size_t)snprintf(names + used, size - used, "%s%.60s", used ? ", " : "",
                                     result->not_checked[k].check);
    return names;
}

/* "precision, batch size: the speed of GEMMs was not measured → tacho calibrate --quick" */
static void not_checked(struct page *page, const struct an_result *result)
{
    char names[400];
    if (!result->not_checked_count)
        return;
    page_label(page, "Not checked");
    for (size_t i = 0; i < result->not_checked_count; i++)
        if (!is_listed(result, i))
            page_item(page, "%s: %s \xe2\x86\x92 %s", names_alike(result, i, names, sizeof names),
                      result->not_checked[i].reason, result->not_checked[i].to_check);
    page_end(page);
    page_blank(page);
}

/* Without findings, says what was looked at; in any case, what could not be. */
void rep_section_findings(struct page *page, const struct an_result *result)
{
    char gain[200];
    if (!result->finding_count) {
        checked_lines(page, result);
        not_checked(page, result);
        return;
    }
    enum an_listed listing = AN_LISTED_COUNT;
    for (size_t i = 0; i < result->finding_count; i++) {
        const struct an_finding *finding = &result->findings[i];
        if (an_finding_listed(finding) != listing) {
            listing = an_finding_listed(finding);
            page_head(page, an_listed_text(listing));
        }
        page_entry(page, i + 1, finding->id, rep_finding_gain(gain, sizeof gain, finding),
                   finding->action);
    }
    size_t gains = 0;
    for (size_t i = 0; i < result->finding_count; i++)
        gains += result->findings[i].gain.high.valid;
    if (gains > 1)
        page_text(page, 4, rep_together_text(result, gain, sizeof gain));
    page_blank(page);
    not_checked(page, result);
}

/* Everything about one finding: its evidence, what to do, how to verify it, when it is wrong,
 * and how its gain was computed. */
void rep_section_card(struct page *page, const struct an_result *result, size_t number)
{
    const struct an_finding *finding = &result->findings[number - 1];
    char head[800], gain[80];
    page_blank(page);
    snprintf(head, sizeof head, "%zu  %.60s: %.700s", number, finding->id, finding->claim);
    page_card(page, finding->id, head);
    page_label(page, "   Evidence");
    for (size_t i = 0;
         i < sizeof finding->evidence / sizeof *finding->evidence && finding->evidence[i]; i++)
        page_item(page, "%s", finding->evidence[i]);
    page_end(page);
    const struct {
        const char *label, *text;
    } rows[] = {{"   Do", finding->action},
                {"   Effort", finding->effort},
                {"   Verify", finding->verify},
                {"   Invalid if", finding->wrong_when}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        page_line(page, rows[i].label, "%s", rows[i].text);
    }
    page_label(page, "   Gain");
    page_item(page, "%s", rep_finding_gain(gain, sizeof gain, finding));
    page_item(page, "%s", finding->method);
    page_item(page, "confidence %s", an_confidence_text(finding->confidence));
    page_end(page);
}

/* ---- where a step goes ----------------------------------------------------------------------- */

static int decimals(double largest)
{
    if (largest >= 100)
        return 1;
    return largest >= 1 ? 3 : 5;
}

REP_NAME_OF(share_name, rep_share_row, label)
static void share_ms(char cell[REP_CELL], const void *row)
{
    const struct rep_share_row *share = row;
    snprintf(cell, REP_CELL, "%.*f", share->digits, share->ms);
}
REP_CELL_OF(share_pct, rep_share_row, rep_cell_tenths, pct)
static double share_bar(const void *row)
{
    const struct rep_share_row *share = row;
    return share->sum ? NAN : share->pct;
}
static const struct rep_column of_shares[] = {{"mean ms", 11, share_ms}, {"%", 8, share_pct}};

void rep_shares_write(struct page *page, const char *title, struct rep_share_row *row, size_t count,
                      double whole_ms, const char *sum)
{
    row[count++] = (struct rep_share_row){.label = sum, .ms = whole_ms, .pct = 100, .sum = true};
    for (size_t i = 0; i < count; i++)
        row[i].digits = decimals(whole_ms);
    const struct rep_table table = {.title = title,
                                    .name = share_name,
                                    REP_COLUMNS(of_shares),
                                    REP_ROWS_OF(row, count),
                                    .most = count,
                                    .words = true,
                                    .bar = share_bar};
    rep_table_write(page, &table);
}

const char *rep_class_name(const struct an_result *result, int class)
{
    if (class == AN_CLASS_HOST && !result->budget.roles_known)
        return "in ranges without a declared role";
    if (class == AN_CLASS_HOST && !result->gpu.reason)
        return "host: launches, framework, waits";
    return an_class_label((enum an_class) class);
}

size_t rep_class_rows(const struct an_result *result, struct rep_share_row *row, double *step_ms)
{
    const struct an_budget *budget = &result->budget;
    size_t count = 0;
    *step_ms = (double)budget->step_ns / (double)budget->steps / 1e6;
    AN_EACH_CLASS(class) {
        if (!budget->pct[class].valid || (!budget->ns[class].value && class != AN_CLASS_COMPUTE &&
                                          class != AN_CLASS_UNATTRIBUTED))
            continue;
        row[count++] = (struct rep_share_row){.label = rep_class_name(result, class),
                                              .ms = *step_ms * budget->pct[class].value / 100,
                                              .pct = budget->pct[class].value};
    }
    return count;
}

static void detailed_note(struct page *page, const struct an_steps *steps)
{
    char text[160];
    snprintf(text, sizeof text,
             "over %" PRId64 " of %" PRId64 " counted steps: the others were paused or cut off",
             steps->detailed, steps->counted);
    page_text(page, 1, text);
}

static void worst_device(struct page *page, const struct an_result *result)
{
    size_t with = 0; /* the mean is that of the devices that have a budget */
    for (size_t i = 0; i < result->device_count; i++)
        with += !result->devices[i].budget.reason;
    for (size_t i = 0; i < result->device_count && with > 1; i++)
        if (result->devices[i].worst) {
            char text[160];
            snprintf(text, sizeof text,
                     " mean of %zu %s; smallest compute share: rank %" PRId64 " %.40s, %.1f %%",
                     with, result->gpu.reason ? "ranks" : "devices", result->devices[i].rank,
                     result->devices[i].device,
                     result->devices[i].budget.pct[AN_CLASS_COMPUTE].value);
            page_text(page, 1, text);
        }
}

/* Says under the table which device is the worst, and which steps the table is about. */
void rep_section_budget(struct page *page, const struct an_result *result)
{
    const struct an_budget *budget = &result->budget;
    if (!result->steps.source)
        return; /* the verdict says so already */
    if (budget->reason) {
        page_line(page, "Step budget", "unknown: %.300s", budget->reason);
        page_blank(page);
        return;
    }
    page_picture(page, PAGE_BUDGET, result);
    struct rep_share_row row[AN_CLASS_COUNT + 1];
    double step_ms;
    size_t count = rep_class_rows(result, row, &step_ms);
    rep_shares_write(page, "Where a step goes", row, count, step_ms, "");
    if (result->device_count > 1)
        worst_device(page, result);
    if (result->steps.note)
        page_text(page, 1, result->steps.note);
    if (result->steps.detailed < result->steps.counted)
        detailed_note(page, &result->steps);
    page_blank(page);
}

void rep_section_cards(struct page *page, const struct an_result *result)
{
    for (size_t i = 0; i < result->finding_count; i++)
        rep_section_card(page, result, i + 1);
}
