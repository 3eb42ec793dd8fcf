/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that people look for first, as tiles: step time, throughput, MFU, data wait, exposed
 * communication, memory. A tile of what is not known says why.
 */
#include <inttypes.h>

#include "reports/html/html_private.h"
#include "reports/words/escape.h"
#include "reports/words/phrase.h"

#define REASON 64 /* columns */

static void tile(struct page *page, const char *label, const char *value, const char *unit,
                 const char *more)
{
    char text[PAGE_TEXT];
    html_between(page->out, "<div><dt>", label, 60, "</dt>");
    html_between(page->out, "<dd class=\"value\">", value, 60, "");
    html_between(page->out, " <span>", unit, 60, "</span></dd><dd>");
    rep_clean(text, sizeof text, more, REASON, true);
    html_sentence(page->out, text);
    fputs("</dd></div>\n", page->out);
}

static void step_tile(struct page *page, const struct an_steps *steps)
{
    char value[60], more[120];
    snprintf(value, sizeof value, "%s", TIME_TEXT(steps->median_ms.value * 1e6));
    snprintf(more, sizeof more, "median of %" PRId64 ", p95 %s", steps->counted,
             TIME_TEXT(steps->p95_ms.value * 1e6));
    tile(page, "Step time", value, "", more);
}

static void throughput_tile(struct page *page, const struct an_steps *steps)
{
    char value[60], more[80] = "";
    const char *unit = "samples/s";
    if (steps->tokens_per_s.valid) {
        snprintf(value, sizeof value, "%s", NUMBER_TEXT(steps->tokens_per_s.value));
        unit = "tokens/s";
        if (steps->samples_per_s.valid)
            snprintf(more, sizeof more, "%s samples/s", NUMBER_TEXT(steps->samples_per_s.value));
    } else if (steps->samples_per_s.valid) {
        snprintf(value, sizeof value, "%s", NUMBER_TEXT(steps->samples_per_s.value));
    } else {
        snprintf(value, sizeof value, "%s", DIGITS_TEXT(1e3 / steps->median_ms.value, 3));
        unit = "steps/s";
        snprintf(more, sizeof more, "the run reports no tokens and no samples");
    }
    tile(page, "Throughput", value, unit, more);
}

static void mfu_tile(struct page *page, const struct an_utilization *used)
{
    char value[60], more[120] = "";
    if (!used->mfu.valid) {
        tile(page, "MFU", "not known", "", rep_or(used->mfu.reason, ""));
        return;
    }
    snprintf(value, sizeof value, "%s", SHARE_TEXT(100 * used->mfu.value));
    if (used->peak_flops.valid)
        snprintf(more, sizeof more, "of %s %.20s", SI_TEXT(used->peak_flops.value, "FLOP/s"),
                 rep_or(used->dtype, ""));
    tile(page, "MFU", value, "%", more);
}

/* A class of the budget: its share of the step; 0 where the class holds no time. */
static void class_tile(struct page *page, const struct an_result *result, const char *label,
                       enum an_class class, const char *absent)
{
    const struct an_budget *budget = &result->budget;
    char value[60], more[120];
    if (budget->reason || (absent && !(budget->pct[class].valid && budget->pct[class].value > 0))) {
        tile(page, label, absent ? "none" : "not known", "",
             budget->reason ? budget->reason : absent);
        return;
    }
    double pct = budget->pct[class].valid ? budget->pct[class].value : 0;
    snprintf(value, sizeof value, "%.1f", pct);
    snprintf(more, sizeof more, "of a step, %s",
             TIME_TEXT(pct / 100 * result->steps.mean_ms.value * 1e6));
    tile(page, label, value, "%", more);
}

static void memory_tile(struct page *page, const struct an_result *result)
{
    const struct an_memory *memory = &result->memory;
    char value[60], more[120] = "";
    if (memory->peak_bytes.valid) {
        snprintf(value, sizeof value, "%s", BYTES_TEXT((double)memory->peak_bytes.value));
        if (memory->capacity_bytes.valid)
            snprintf(more, sizeof more, "peak, of %s",
                     BYTES_TEXT((double)memory->capacity_bytes.value));
        else
            snprintf(more, sizeof more, "peak");
    } else if (!result->system.reason && result->system.rss_peak_bytes.valid) {
        snprintf(value, sizeof value, "%s", BYTES_TEXT(result->system.rss_peak_bytes.value));
        snprintf(more, sizeof more, "resident at most");
    } else {
        snprintf(value, sizeof value, "not known");
        snprintf(more, sizeof more, "%.110s", rep_or(memory->reason, ""));
    }
    tile(page, "Memory", value, "", more);
}

/* Why a run has no communication; NULL: it has. */
static const char *alone(const struct an_result *result)
{
    if (result->run.ranks == 1)
        return "one rank";
    return result->communication.reason;
}

void html_tiles(struct page *page, const struct an_result *result)
{
    if (!result->steps.median_ms.valid || !(result->steps.median_ms.value > 0))
        return;
    html_block(page);
    fputs("<dl class=\"tiles\">\n", page->out);
    step_tile(page, &result->steps);
    throughput_tile(page, &result->steps);
    mfu_tile(page, &result->utilization);
    class_tile(page, result, "Data wait", AN_CLASS_INPUT, NULL);
    class_tile(page, result, "Exposed communication", AN_CLASS_COMM, alone(result));
    memory_tile(page, result);
    fputs("</dl>\n", page->out);
}
