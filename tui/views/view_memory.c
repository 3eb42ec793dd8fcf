/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what is held for what, the peak beside what the machine has, whether it grows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/text/text.h"
#include "tui/draw.h"
#include "tui/views/views.h"

enum { CAPACITY, WORDS, TAGS, CURVES, PANELS };

static const char *const curves[] = {"memory.total", "rss", "gpu_memory_used",
                                     "gpu_memory_allocated", "memory_available"};

/* The counted peak and the resident peak as parts of the capacity. */
static void draw_capacity(struct tui_cells *c, struct tui_rect r, const struct tui_model *model,
                          struct tui_view_state *s)
{
    const struct an_memory *m = &model->r->memory;
    (void)s;
    char a[32], b[32];
    double all = (double)m->capacity_bytes.value,
           counted = m->peak_bytes.valid ? (double)m->peak_bytes.value : 0;
    double resident = m->resident_peak_bytes.valid ? (double)m->resident_peak_bytes.value : counted;
    const struct tui_part part[] = {
        {counted, TUI_CLASS + AN_CLASS_COMPUTE, 'P'},
        {fmax(0, resident - counted), TUI_CLASS + AN_CLASS_HOST, 'o'},
        {fmax(0, all - fmax(resident, counted)), TUI_DIM, c->glyphs == TUI_ASCII ? '.' : 0xb7}};
    tui_stack(c, r, 0, 0, r.columns, part, 3);
    double left = all - fmax(resident, counted);
    if (r.columns < 70) {
        tui_printf(c, r, 1, 0, left < all * 0.05 ? TUI_BAD : TUI_NORMAL, "P %s   free %s of %s",
                   page_bytes(a, counted), page_bytes((char[32]){0}, fmax(0, left)),
                   page_bytes(b, all));
        return;
    }
    tui_printf(c, r, 1, 0, left < all * 0.05 ? TUI_BAD : TUI_NORMAL,
               "P counted at most %s   o not counted %s   free %s of %s", page_bytes(a, counted),
               page_bytes((char[32]){0}, fmax(0, resident - counted)),
               page_bytes((char[32]){0}, fmax(0, left)), page_bytes(b, all));
}

static void draw_tags(struct tui_cells *c, struct tui_rect r, const struct tui_model *model,
                      struct tui_view_state *s)
{
    const struct an_memory *m = &model->r->memory;
    (void)s;
    double most = 1;
    int label = r.columns < 60 ? 14 : 26;
    for (size_t i = 0; i < m->tag_count; i++)
        most = fmax(most, (double)m->tags[i].peak);
    tui_text(c, r, 0, 0, TUI_TITLE, "Held now, and at most");
    for (size_t i = 0; i < m->tag_count && (int)i + 1 < r.rows; i++) {
        const struct an_memory_tag *t = &m->tags[i];
        char name[120], now[32], peak[32];
        int row = (int)i + 1;
        snprintf(name, sizeof name, "%.60s%s%.30s", t->name, t->device[0] == 'g' ? " " : "",
                 t->device[0] == 'g' ? t->device : "");
        tui_text(c, tui_left(r, label - 1), row, 1, TUI_NORMAL, name);
        tui_text_right(c, tui_left(r, label + 10), row, TUI_NORMAL,
                       page_bytes(now, (double)t->current));
        tui_text_right(c, tui_left(r, label + 21), row, TUI_DIM, page_bytes(peak, (double)t->peak));
        tui_bar(c, r, row, label + 23, r.columns - label - 24, (double)t->peak / most, TUI_DIM);
        tui_bar(c, r, row, label + 23, r.columns - label - 24, (double)t->current / most,
                TUI_CLASS + AN_CLASS_COMPUTE);
    }
}

#define OWNERS_MOST 8 /* of one curve: ranks, devices */

/* The curves of the table, of each the largest first; draws them where `r` has rows. Returns how
 * many there are. */
static int each_curve(struct tui_cells *c, struct tui_rect r, int row, const struct tui_model *m)
{
    int n = 0;
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        size_t owners = 1;
        for (int k = 0; k < (int)owners && k < OWNERS_MOST; k++) {
            const struct tui_series *x = tui_lowest_series(m, curves[i], -1 - k, &owners);
            struct tui_curve v;
            if (!x || x->count < 2 || !tui_curve_of(m, x, &v))
                continue;
            tui_curve_owner(m, x, &v);
            tui_curve_row(c, r, row + n++, &v);
            free(v.value);
        }
    }
    return n;
}

static void draw_curves(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                        struct tui_view_state *s)
{
    (void)s;
    tui_text(c, r, 0, 0, TUI_TITLE, "Over the run");
    each_curve(c, r, 1, m);
}

static const tui_section words[] = {rep_text_memory, NULL};

static void draw_words(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    if (m->r->memory.reason)
        tui_absent(c, r, 0, "What the program holds", m->r->memory.reason);
    else
        tui_sections(c, r, m->r, words, s);
}

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    const struct an_result *result = tui_result(c, r, m);
    if (!result)
        return;
    const struct an_memory *x = &result->memory;
    int n = each_curve(c, (struct tui_rect){0, 0, 0, 0}, 0, m);
    bool capacity = !x->reason && x->capacity_bytes.valid && x->capacity_bytes.value > 0;
    struct tui_panel panel[PANELS] = {
        [CAPACITY] = {capacity ? 2 : 0, capacity ? 3 : 0, 100, draw_capacity, {0}},
        [WORDS] = {2,
                   x->reason ? 4 : tui_sections_rows(c, r.columns, result, words) + 1,
                   80,
                   draw_words,
                   {0}},
        [TAGS] = {!x->reason && x->tag_count ? 3 : 0,
                  !x->reason && x->tag_count ? (int)x->tag_count + 2 : 0,
                  70,
                  draw_tags,
                  {0}},
        [CURVES] = {n ? 2 : 0, n ? n + 1 : 0, 60, draw_curves, {0}},
    };
    tui_panels_draw(c, r, panel, PANELS, m, s);
}

const struct tui_view tui_view_memory = {
    .key = '7',
    .name = "memory",
    .brief = "mem",
    .help = "what memory is held for, how much is left, whether it grows",
    .draw = draw};
