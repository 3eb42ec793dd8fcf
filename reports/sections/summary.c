/* SPDX-License-Identifier: Apache-2.0
 *
 * The first screen of a report: what ran, what holds it back, what to do about it, where the time
 * of a step goes, how efficient it is, and how far all of that can be trusted.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/page/lines.h"
#include "reports/sections/sections.h"
#include "reports/sections/tables.h"
#include "reports/words/escape.h"
#include "reports/words/phrase.h"

#define AGREE_PCT    2.0  /* of a step: by how much stages and classes may differ */
#define SEEN_PCT     0.05 /* of a step: a stage that takes less is part of the last row */
#define RUN_PCT      2.0  /* of a run: phases that take less are left out */
#define WRAP_LOSS    12   /* columns of a line that words may leave empty at its end */
#define NAMES_LOSS   50   /* columns beside the names of checks */
#define NAMES_LEAST  30
#define MORE_COLUMNS 12 /* ", and N more" */
#define WHOLE        0  /* lines: as many as the text needs */
#define NONE         (-1)
#define FIRST_LINES  10 /* what holds the run back, what to do and how sure that is are in them */
#define FIX_LINES    3  /* a blank line, what the gains are, the first fix */
#define WIDE         80 /* columns */

/* What each level of detail shows. A screen that is too long becomes shorter in the order of this
 * list, from its end: what a reader misses least goes first. */
static const struct detail {
    size_t fixes;         /* things to change */
    int first, others;    /* lines of the first action, and of each other one */
    size_t rows;          /* of the step time; more become one */
    int verdict, caution; /* lines */
    int checks;           /* lines of checks that were not made; WHOLE: and how each can be made */
    bool gaps, notes;     /* blank lines between the parts; remarks */
} details[REP_DETAIL_MOST + 1] = {
    {1, 1, 1, 5, 3, 1, 1, false, false},
    {1, 2, 1, 5, 3, 1, 1, false, false},
    {1, 2, 1, 5, 4, 1, 1, true, false},
    {2, 1, 1, 5, 4, 1, 1, true, false},
    {2, 2, 1, 5, 4, 1, 1, true, false},
    {2, 2, 1, REP_STEP_ROWS, WHOLE, 2, 1, true, false},
    {3, 2, 1, REP_STEP_ROWS, WHOLE, 2, 2, true, false},
    {3, 2, 1, REP_STEP_ROWS, WHOLE, WHOLE, 2, true, true},
    {3, WHOLE, WHOLE, REP_STEP_ROWS, WHOLE, WHOLE, WHOLE, true, true},
};

/* Writes a text in at most `lines` lines, cut with an ellipsis; 0: whole. */
static void some_lines(struct page *page, int indent, const char *text, int lines)
{
    char cut[PAGE_TEXT];
    int columns = lines * (page->width - indent - WRAP_LOSS) + WRAP_LOSS;
    rep_clean(cut, sizeof cut, text, lines ? columns : PAGE_TEXT, page->utf8);
    page_text(page, indent, cut);
}

/* A blank line, where there is room. */
static void gap(struct page *page, const struct detail *detail)
{
    if (detail->gaps)
        page_blank(page);
}

/* ---- what to change -------------------------------------------------------------------------- */

/* The command that tries the first fix that a command can try: tacho's own runs can be started
 * again. */
static void try_line(struct page *page, const struct an_result *result, const struct detail *detail,
                     size_t shown)
{
    if (strcmp(rep_or(result->trust.source, ""), "tacho") != 0 || !*result->run.file)
        return;
    for (size_t i = 0; i < shown; i++)
        if (result->findings[i].setting) {
            char text[PAGE_TEXT];
            const char *quote = page->ops == &page_lines ? "" : "`";
            snprintf(text, sizeof text, "try: %stacho verify %.1000s %zu%s%s", quote,
                     result->run.file, i + 1, quote,
                     detail->gaps ? " (records both again, compares them)" : "");
            page_text(page, 4, text);
            return;
        }
}

/* A finding: its gain and the option that does it, then the action in words. */
static void fix(struct page *page, const struct an_finding *finding, size_t number, int lines)
{
    char gain[200];
    page_entry(page, number, finding->id, rep_finding_gain(gain, sizeof gain, finding),
               rep_or(finding->setting, ""));
    if (lines != NONE)
        some_lines(page, 4, finding->action, lines);
}

/* Says of what the gains are, and how often their intervals hold. */
static void fixes_head(struct page *page, enum an_listed listing)
{
    static const char *const units[AN_LISTED_COUNT] = {
        [AN_LISTED_RANKED] = ": throughput, 90 % interval", [AN_LISTED_MEASURE] = " (throughput)"};
    char text[120];
    snprintf(text, sizeof text, "%s%s", an_listed_text(listing), rep_or(units[listing], ""));
    page_head(page, text);
}

/* Is there room for the first fix only, and is that one no matter of the program? Then the next one
 * goes with it, in a line: it is what there is to do in the run itself. */
static bool two_for_one(const struct an_result *result, const struct detail *detail)
{
    const struct an_finding *first = result->findings;
    return detail->fixes == 1 && result->finding_count > 1 &&
           !strcmp(first->id, "OTHER_PROGRAMS") && !first[1].repeats &&
           an_finding_listed(first) == an_finding_listed(first + 1);
}

static void fixes(struct page *page, const struct an_result *result, const struct detail *detail)
{
    size_t shown = 0, end = 0;
    bool two = two_for_one(result, detail);
    enum an_listed listing = AN_LISTED_COUNT;
    for (; end < result->finding_count && shown < detail->fixes + two; end++) {
        const struct an_finding *finding = &result->findings[end];
        if (finding->repeats)
            continue;
        if (an_finding_listed(finding) != listing)
            fixes_head(page, an_finding_listed(finding));
        listing = an_finding_listed(finding);
        int lines = shown++ ? detail->others : detail->first;
        if (two)
            lines = shown == 1 ? 1 : NONE;
        fix(page, finding, end + 1, lines);
    }
    if (!shown)
        return;
    try_line(page, result, detail, end);
    char text[200];
    if (detail->notes && shown > 1 && rep_together_count(result) > 1)
        page_text(page, 4, rep_together_text(result, text, sizeof text));
    if (detail->gaps && shown < result->finding_count) {
        snprintf(text, sizeof text, "and %zu more%s", result->finding_count - shown,
                 page->ops->picture ? " below" : ": tacho report --full");
        page_text(page, 4, text);
    }
    gap(page, detail);
}

/* ---- where the time of a step goes ----------------------------------------------------------- */

/* Stages as people who train call them. Those from `data wait` on compute nothing. */
static const struct {
    const char *label;
    enum an_step_stage stage;
} stages[] = {
    {"forward", AN_STAGE_FORWARD},   {"backward", AN_STAGE_BACKWARD},
    {"compute", AN_STAGE_COMPUTE},   {"optimizer", AN_STAGE_OPTIMIZER},
    {"data wait", AN_STAGE_INPUT},   {"exposed communication", AN_STAGE_COMM},
    {"host, other", AN_STAGE_OTHER},
};
#define STAGES  (sizeof stages / sizeof *stages)
#define COMPUTE 4 /* of them */

/* Rows of the step time, the longest first. */
struct rows {
    struct rep_share_row row[REP_STEP_ROWS];
    size_t count;
    double step_ms;
};

static void add_row(struct rows *rows, const char *label, double ms)
{
    size_t at = rows->count++;
    for (; at && rows->row[at - 1].ms < ms; at--)
        rows->row[at] = rows->row[at - 1];
    rows->row[at] =
        (struct rep_share_row){.label = label, .ms = ms, .pct = 100 * ms / rows->step_ms};
}

/* Does a stage have the share that the verdict's class has? One screen tells one story. */
static bool agrees(const struct an_result *result, double stage_ms, double step_ms,
                   enum an_class class)
{
    const struct an_value *share = &result->budget.pct[class];
    return !share->valid || fabs(share->value - 100 * stage_ms / step_ms) <= AGREE_PCT;
}

/* The class of a stage that waits for data or for other ranks. */
static enum an_class waits_class(size_t stage)
{
    return stages[stage].stage == AN_STAGE_INPUT ? AN_CLASS_INPUT : AN_CLASS_COMM;
}

/* Time of a stage that waits, as long as the class that the verdict names: what else its ranges
 * contain is the host's. */
static double as_class(const struct an_result *result, double stage_ms, double step_ms,
                       enum an_class class)
{
    const struct an_value *share = &result->budget.pct[class];
    return share->valid ? fmin(stage_ms, share->value / 100 * step_ms) : stage_ms;
}

/* On processors: all stages; what cannot be seen is in the row of the host. False: they differ from
 * the classes. */
static bool thread_rows(const struct an_result *result, const double ms[STAGES], struct rows *rows)
{
    const struct an_value *share = &result->budget.pct[AN_CLASS_COMPUTE];
    double rest = result->stages.ms[AN_STAGE_HOST].value + ms[STAGES - 1], compute_ms = 0;
    for (size_t i = 0; i < COMPUTE; i++)
        compute_ms += ms[i];
    if (share->valid && share->value - 100 * compute_ms / rows->step_ms > AGREE_PCT)
        return false; /* some of what computes does not say its stage */
    for (size_t i = COMPUTE; i + 1 < STAGES; i++)
        if (!agrees(result, ms[i], rows->step_ms, waits_class(i)))
            return false;
    for (size_t i = 0; i + 1 < STAGES; i++) {
        double shown = i < COMPUTE ? ms[i] : as_class(result, ms[i], rows->step_ms, waits_class(i));
        rest += ms[i] - shown;
        if (100 * shown >= SEEN_PCT * rows->step_ms)
            add_row(rows, stages[i].label, shown);
        else
            rest += shown;
    }
    if (100 * rest >= SEEN_PCT * rows->step_ms)
        add_row(rows, stages[STAGES - 1].label, rest);
    return true;
}

/* On devices: the stages of what computes, and the classes of the rest. False: they differ. */
static bool device_rows(const struct an_result *result, const double ms[STAGES], struct rows *rows)
{
    struct rep_share_row class[AN_CLASS_COUNT + 1];
    const struct an_value *share = &result->budget.pct[AN_CLASS_COMPUTE];
    double compute_ms = 0, rest = 0, step_ms;
    for (size_t i = 0; i < COMPUTE; i++)
        compute_ms += ms[i];
    if (!share->valid || !(compute_ms > 0) ||
        !agrees(result, compute_ms, rows->step_ms, AN_CLASS_COMPUTE))
        return false;
    size_t count = rep_class_rows(result, class, &step_ms);
    rows->step_ms = step_ms;
    for (size_t i = 0; i < COMPUTE; i++)
        if (ms[i] > 0)
            add_row(rows, stages[i].label, ms[i] / compute_ms * share->value / 100 * step_ms);
    const char *compute = rep_class_name(result, AN_CLASS_COMPUTE);
    for (size_t i = 0; i < count; i++)
        if (class[i].label != compute && class[i].pct >= SEEN_PCT)
            add_row(rows, class[i].label, class[i].ms);
        else if (class[i].label != compute)
            rest += class[i].ms;
    if (100 * rest >= SEEN_PCT * step_ms)
        add_row(rows, "the rest", rest);
    return true;
}

static void class_rows(const struct an_result *result, struct rows *rows)
{
    struct rep_share_row class[AN_CLASS_COUNT + 1];
    size_t count = rep_class_rows(result, class, &rows->step_ms);
    for (size_t i = 0; i < count; i++)
        add_row(rows, class[i].label, class[i].ms);
}

/* False: the stages are not known, or differ from the classes of the budget. */
static bool stage_rows(const struct an_result *result, struct rows *rows)
{
    double ms[STAGES];
    if (result->stages.reason)
        return false;
    for (size_t i = 0; i < STAGES; i++)
        ms[i] = result->stages.ms[stages[i].stage].value;
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        rows->step_ms += result->stages.ms[stage].value;
    if (!(rows->step_ms > 0))
        return false;
    return result->gpu.reason ? thread_rows(result, ms, rows) : device_rows(result, ms, rows);
}

/* The rows after the largest ones become one, so that there are at most `most`. */
static void join_rows(struct rows *rows, size_t most)
{
    if (rows->count <= most)
        return;
    struct rep_share_row rest = {.label = "the rest"};
    for (size_t i = most - 1; i < rows->count; i++) {
        rest.ms += rows->row[i].ms;
        rest.pct += rows->row[i].pct;
    }
    rows->row[most - 1] = rest;
    rows->count = most;
}

_Static_assert(REP_STEP_ROWS > STAGES + AN_CLASS_COUNT, "room for all rows and their sum");

/* The rows of the step; none without a budget. */
static struct rows rows_of(const struct an_result *result)
{
    struct rows rows = {.count = 0};
    if (result->steps.source && !result->budget.reason && !stage_rows(result, &rows))
        class_rows(result, &rows);
    return rows;
}

size_t rep_step_rows(const struct an_result *result, struct rep_share_row row[REP_STEP_ROWS],
                     double *step_ms)
{
    struct rows rows = rows_of(result);
    memcpy(row, rows.row, rows.count * sizeof *row);
    *step_ms = rows.step_ms;
    return rows.count;
}

static void step_time(struct page *page, const struct an_result *result,
                      const struct detail *detail)
{
    struct rows rows = rows_of(result);
    if (!rows.count)
        return;
    join_rows(&rows, detail->rows);
    char rate[40] = "";
    const struct an_steps *steps = &result->steps;
    bool other_rate = steps->tokens_per_s.valid || steps->samples_per_s.valid;
    if (!other_rate && rows.step_ms > 0)
        snprintf(rate, sizeof rate, "%s steps/s", DIGITS_TEXT(1e3 / rows.step_ms, 3));
    rep_shares_write(page, "Step time", rows.row, rows.count, rows.step_ms, rate);
    if (detail->notes && result->steps.note)
        some_lines(page, 1, result->steps.note, 2);
    gap(page, detail);
}

/* Evaluations and checkpoints, which are no part of a step. */
static void outside_steps(struct page *page, const struct an_result *result)
{
    double run_ms = result->run.duration_s.valid ? 1e3 * result->run.duration_s.value : 0;
    bool any = false;
    for (size_t i = 0; i < result->phase_count; i++) {
        const struct an_phase *phase = &result->phases[i];
        if (100 * phase->exposed_ms < RUN_PCT * run_ms)
            continue;
        if (!any)
            page_label(page, "Outside steps");
        any = true;
        page_item(page, "%s %" PRId64 " %s, %s", phase->name, phase->count,
                  REP_PLURAL(phase->count, "time", "times"), TIME_TEXT(phase->exposed_ms * 1e6));
    }
    if (any)
        page_end(page);
}

/* ---- how efficient, and how sure ------------------------------------------------------------- */

static void efficiency(struct page *page, const struct an_result *result,
                       const struct detail *detail)
{
    const struct an_utilization *used = &result->utilization;
    const struct an_system *system = &result->system;
    const struct an_steps *steps = &result->steps;
    if (!steps->counted)
        return;
    page_label(page, "Efficiency");
    if (steps->tokens_per_s.valid)
        page_item(page, "%s tokens/s", NUMBER_TEXT(steps->tokens_per_s.value));
    else if (steps->samples_per_s.valid)
        page_item(page, "%s samples/s", NUMBER_TEXT(steps->samples_per_s.value));
    if (used->mfu.valid && used->peak_flops.valid)
        page_item(page, "MFU %s %% of %s %s", SHARE_TEXT(100 * used->mfu.value),
                  SI_TEXT(used->peak_flops.value, "FLOP/s"), rep_or(used->dtype, ""));
    else if (used->mfu.valid)
        page_item(page, "MFU %s %%", SHARE_TEXT(100 * used->mfu.value));
    else
        page_item(page, "MFU not known");
    if (!system->reason && system->cpu_cores.valid && result->run.cores.valid)
        page_item(page, "CPU %.1f of %" PRId64 " cores", system->cpu_cores.value,
                  result->run.cores.value);
    if (!system->reason && system->rss_peak_bytes.valid)
        page_item(page, "%s", BYTES_TEXT(system->rss_peak_bytes.value));
    if (detail->gaps && steps->outlier_count)
        page_item(page, "%zu slow %s", steps->outlier_count,
                  REP_PLURAL(steps->outlier_count, "step", "steps"));
    page_end(page);
}

/* The names of check i and of the later ones that are made the same way; NULL: an earlier one has
 * listed it. */
static const char *checks_alike(const struct an_result *result, size_t i, char *names, size_t size)
{
    const struct an_not_checked *check = result->not_checked;
    size_t used = 0;
    for (size_t k = 0; k < i; k++)
        if (!strcmp(check[k].to_check, check[i].to_check))
            return NULL;
    for (size_t k = i; k < result->not_checked_count && used < size; k++)
        if (!strcmp(check[k].to_check, check[i].to_check))
            used += (size_t)snprintf(names + used, size - used, "%s%.60s", used ? ", " : "",
                                     check[k].check);
    return names;
}

/* The names of as many checks as fit in so many columns, and how many more there are. */
static const char *checks_that_fit(const struct an_result *result, int columns, char *names,
                                   size_t size)
{
    size_t used = 0, count = result->not_checked_count;
    for (size_t i = 0; i < count; i++) {
        const char *name = result->not_checked[i].check;
        int more = i + 1 < count ? MORE_COLUMNS : 0;
        if (i && (int)used + rep_width(name) + more > columns) {
            snprintf(names + used, size - used, " and %zu more", count - i);
            break;
        }
        used += (size_t)snprintf(names + used, size - used, "%s%.60s", i ? ", " : "", name);
        if (used >= size)
            break;
    }
    return names;
}

/* The checks that were not made and how each can be; with less detail the names alone. */
static void not_checked(struct page *page, const struct an_result *result,
                        const struct detail *detail)
{
    char names[400];
    if (!result->not_checked_count)
        return;
    page_label(page, "Not checked");
    for (size_t i = 0; i < result->not_checked_count; i++) {
        const char *alike = checks_alike(result, i, names, sizeof names);
        if (alike && detail->checks == WHOLE)
            page_item(page, "%s \xe2\x86\x92 %s", alike, result->not_checked[i].to_check);
    }
    if (detail->checks != WHOLE) {
        int columns = detail->checks * page->width - NAMES_LOSS;
        page_item(page, "%s \xe2\x86\x92 tacho report --section findings",
                  checks_that_fit(result, columns > NAMES_LEAST ? columns : NAMES_LEAST, names,
                                  sizeof names));
    }
    page_end(page);
}

static void quality(struct page *page, const struct an_result *result)
{
    const struct an_trust *trust = &result->trust;
    char overhead[60];
    page_label(page, "Quality");
    if (trust->missing)
        page_item(page, "%s", trust->missing);
    else if (trust->lost_events.valid)
        page_item(page, "%" PRId64 " of %" PRId64 " events lost", trust->lost_events.value,
                  trust->lost_events.value + trust->events);
    else
        page_item(page, "%" PRId64 " events; how many were lost is not known", trust->events);
    if (rep_overhead_text(trust, overhead, sizeof overhead))
        page_item(page, "%s", overhead);
    if (trust->replay_error_pct.valid)
        page_item(page, "replay error %s %%", DIGITS_TEXT(trust->replay_error_pct.value, 2));
    page_end(page);
}

bool rep_shows_caution(const struct an_result *result)
{
    return result->caution && !strstr(result->verdict, "hold this run back");
}

/* What makes the run a bad witness. */
static void caution(struct page *page, const struct an_result *result, const struct detail *detail)
{
    char text[PAGE_TEXT];
    if (!result->caution || (!detail->notes && !rep_shows_caution(result)))
        return;
    int columns = detail->caution * (page->width - 2 * WRAP_LOSS);
    rep_clean(text, sizeof text, result->caution, columns ? columns : PAGE_TEXT, page->utf8);
    page_line(page, "Caution", "%s", text);
}

/* Who holds the others back, for pages that show a rank among many. */
static void slow_rank(struct page *page, const struct an_result *result)
{
    const struct an_straggler *straggler = &result->ranks.straggler;
    if (page->ops == &page_lines || an_straggler_rank(&result->ranks) < 0)
        return;
    page_label(page, "Slow rank");
    page_item(page, "%s", straggler->says);
    page_value(page, straggler->excess_pct, "own time %.1f %% above its peers");
    page_item(page, "%zu ranks compared", result->ranks.row_count);
    page_end(page);
}

/* Other commands that say more; a page has it all below. */
static void more(struct page *page, const struct an_result *result)
{
    page_label(page, "More");
    page_item(page, "--full");
    if (result->finding_count)
        page_item(page, "--explain 1");
    page_item(page, "--section ops,roofline");
    page_item(page, "--html");
    page_item(page, "tacho top");
    page_end(page);
}

/* How many lines the verdict may take: what to do stands in the first lines of a screen. */
static int verdict_lines(const struct page *page, const struct an_result *result,
                         const struct detail *detail)
{
    int room = FIRST_LINES - FIX_LINES - page->line;
    bool screen = page->ops == &page_lines && page->width >= WIDE && result->finding_count;
    return screen && (detail->verdict == WHOLE || room < detail->verdict) ? room : detail->verdict;
}

/* Cuts a sentence to `columns` columns. One that ends with how sure it is, in brackets, is cut
 * before them. */
static void cut_sentence(char *out, size_t size, const char *sentence, int columns, bool utf8)
{
    char head[PAGE_TEXT];
    const char *sure = NULL;
    for (const char *open = strstr(sentence, " ("); open; open = strstr(open + 1, " ("))
        if (strstr(open, " confidence"))
            sure = open;
    if (!sure || rep_width(sure) >= columns) {
        rep_clean(out, size, sentence, columns, utf8);
        return;
    }
    snprintf(head, sizeof head, "%.*s", (int)(sure - sentence), sentence);
    rep_clean(out, size, head, columns - rep_width(sure), utf8);
    size_t used = strlen(out);
    rep_clean(out + used, size - used, sure, columns, utf8);
}

/* Writes the verdict in at most `lines` lines (0: whole), of several sentences those that fit.
 * Returns the rest of the text. */
static const char *verdict(struct page *page, const char *text, int lines)
{
    char part[PAGE_TEXT], shown[PAGE_TEXT];
    int columns = lines * (page->width - WRAP_LOSS);
    const char *end = NULL;
    for (const char *stop = strstr(text, ". "); columns && stop; stop = strstr(stop + 1, ". ")) {
        snprintf(part, sizeof part, "%.*s", (int)(stop - text), text);
        if (!end || rep_width(part) < columns)
            end = stop;
    }
    bool some = end && rep_width(text) > columns;
    snprintf(part, sizeof part, "%.*s", some ? (int)(end - text) + 1 : PAGE_TEXT - 1, text);
    cut_sentence(shown, sizeof shown, part, columns ? columns : PAGE_TEXT, page->utf8);
    page_title(page, shown);
    return some ? end + 2 : "";
}

/* What the verdict says beyond the lines that it has. */
static void also(struct page *page, const char *rest, const struct detail *detail)
{
    char cut[PAGE_TEXT];
    if (!*rest || !detail->gaps)
        return;
    int columns = detail->notes ? PAGE_TEXT : 2 * (page->width - 2 * WRAP_LOSS);
    rep_clean(cut, sizeof cut, rest, columns, page->utf8);
    page_line(page, "Also", "%s", cut);
}

void rep_section_summary(struct page *page, const struct an_result *result, int level)
{
    const struct detail *detail = &details[level];
    page->missing = result->trust.missing;
    rep_section_header_brief(page, result);
    if (level) /* the header may have taken two lines */
        page_blank(page);
    const char *rest = verdict(page, result->verdict, verdict_lines(page, result, detail));
    page_blank(page);
    page_picture(page, PAGE_TILES, result);
    page_part(page, "fixes");
    fixes(page, result, detail);
    page_part(page, "stages");
    step_time(page, result, detail);
    outside_steps(page, result);
    page_part(page, NULL);
    page_picture(page, PAGE_TREND, result);
    slow_rank(page, result);
    also(page, rest, detail);
    efficiency(page, result, detail);
    caution(page, result, detail);
    not_checked(page, result, detail);
    quality(page, result);
    gap(page, detail);
    if (page->ops == &page_lines)
        more(page, result);
}
