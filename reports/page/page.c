/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes each call of a section on to the format of its page.
 */
#include "reports/page/page.h"

#include <stdarg.h>

#include "tacho_error.h"

int page_flush(const struct page *page)
{
    return fflush(page->out) || ferror(page->out) ? TACHO_EIO : 0;
}

void page_title(struct page *page, const char *text)
{
    page->ops->title(page, text);
}

void page_section(struct page *page, const char *id, const char *heading, bool folded)
{
    if (page->ops->section)
        page->ops->section(page, id, heading, folded);
}

void page_head(struct page *page, const char *text)
{
    page->ops->head(page, text);
}

void page_card(struct page *page, const char *id, const char *text)
{
    if (page->ops->card)
        page->ops->card(page, id, text);
    else
        page->ops->head(page, text);
}

void page_text(struct page *page, int indent, const char *text)
{
    page->ops->text(page, indent, text);
}

void page_blank(struct page *page)
{
    page->ops->blank(page);
}

void page_label(struct page *page, const char *label)
{
    page->joined = false;
    page->ops->label(page, label);
}

static void print_item(struct page *page, const char *format, va_list arguments)
{
    char text[PAGE_TEXT];
    vsnprintf(text, sizeof text, format, arguments);
    page->ops->item(page, text);
    page->joined = true;
}

void page_item(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_item(page, format, arguments);
    va_end(arguments);
}

void page_value(struct page *page, struct an_value value, const char *format)
{
    if (value.valid)
        page_item(page, format, value.value);
}

void page_end(struct page *page)
{
    page->ops->end(page);
    page->joined = false;
}

void page_line(struct page *page, const char *label, const char *format, ...)
{
    va_list arguments;
    page_label(page, label);
    va_start(arguments, format);
    print_item(page, format, arguments);
    va_end(arguments);
    page_end(page);
}

void page_entry(struct page *page, size_t number, const char *id, const char *gain,
                const char *text)
{
    page->ops->entry(page, number, id, gain, text);
}

void page_term(struct page *page, const char *term, const char *unit, const char *text)
{
    page->ops->term(page, term, unit, text);
}

void page_part(struct page *page, const char *name)
{
    if (page->ops->part)
        page->ops->part(page, name);
}

void page_picture(struct page *page, enum page_picture which, const struct an_result *result)
{
    if (page->ops->picture)
        page->ops->picture(page, which, result);
}
