/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/page/page.h"

#include <stdarg.h>

#include "reports/page/table.h"

void page_title(struct page *p, const char *text)
{
    p->ops->title(p, text);
}

void page_section(struct page *p, const char *id, const char *heading, bool folded)
{
    if (p->ops->section)
        p->ops->section(p, id, heading, folded);
}

void page_head(struct page *p, const char *text)
{
    p->ops->head(p, text);
}

void page_card(struct page *p, const char *id, const char *text)
{
    if (p->ops->card)
        p->ops->card(p, id, text);
    else
        p->ops->head(p, text);
}

void page_text(struct page *p, int indent, const char *text)
{
    p->ops->text(p, indent, text);
}

void page_blank(struct page *p)
{
    p->ops->blank(p);
}

void page_label(struct page *p, const char *label)
{
    p->joined = false;
    p->ops->label(p, label);
}

void page_item(struct page *p, const char *format, ...)
{
    char text[PAGE_TEXT];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    p->ops->item(p, text);
    p->joined = true;
}

void page_end(struct page *p)
{
    p->ops->end(p);
    p->joined = false;
}

void page_entry(struct page *p, size_t number, const char *id, const char *gain, const char *text)
{
    p->ops->entry(p, number, id, gain, text);
}

void page_term(struct page *p, const char *term, const char *unit, const char *text)
{
    p->ops->term(p, term, unit, text);
}

void page_picture(struct page *p, enum page_picture which, const struct an_result *r)
{
    if (p->ops->picture)
        p->ops->picture(p, which, r);
}

void rep_table_write(struct page *p, const struct rep_table *t)
{
    if (t->count)
        p->ops->table(p, t);
}

size_t rep_table_most(const struct page *p, const struct rep_table *t)
{
    size_t most = t->most ? t->most : p->rows > 0 ? (size_t)p->rows : REP_ROWS;
    return t->count < most ? t->count : most;
}
