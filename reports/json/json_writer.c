/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/escape.h"
#include "tacho_error.h"

static void write_unit(FILE *out, unsigned unit)
{
    fprintf(out, "\\u%04x", unit & 0xffff);
}

/* A string literal. What is no UTF-8 becomes U+FFFD, DEL its picture: it is the one control
 * character JSON need not escape. */
static void write_string(FILE *out, const char *text)
{
    size_t n = strlen(text), bytes, left = REP_JSON_TEXT;
    fputc('"', out);
    for (; n && left; text += bytes, n -= bytes, left--) {
        long code = rep_decode(text, n, &bytes);
        code = code < 0 ? 0xfffd : code == 0x7f ? 0x2421 : code;
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else if (code >= 0x20 && code < 0x7f)
            fputc((int)code, out);
        else if (code < 0x10000)
            write_unit(out, (unsigned)code);
        else {
            write_unit(out, 0xd800u + (unsigned)((code - 0x10000) >> 10));
            write_unit(out, 0xdc00u + (unsigned)((code - 0x10000) & 0x3ff));
        }
    }
    if (n)
        write_unit(out, 0x2026);
    fputc('"', out);
}

static void new_line(FILE *out, int depth)
{
    fprintf(out, "\n%*s", depth, "");
}

/* What stands before an element. */
static void before(struct rep_writer *w, const char *key)
{
    struct rep_level *l = &w->level[w->depth];
    if (l->count++)
        fputc(',', w->out);
    new_line(w->out, w->depth + 1);
    if (l->list)
        return;
    write_string(w->out, key);
    fputs(": ", w->out);
}

/* Appends the pointer of the element that `before` began. */
static void path_push(struct rep_writer *w, const char *key)
{
    struct rep_level *l = &w->level[w->depth];
    char *to = w->path + l->path, *end = w->path + sizeof w->path - 3;
    if (l->list) {
        snprintf(to, sizeof w->path - l->path, "/%" PRId64, l->count - 1);
        return;
    }
    if (to < end)
        *to++ = '/';
    for (; *key && to < end; key++) {
        if (*key == '~' || *key == '/') {
            *to++ = '~';
            *to++ = *key == '~' ? '0' : '1';
        } else {
            *to++ = *key;
        }
    }
    *to = 0;
}

static void path_pop(struct rep_writer *w)
{
    w->path[w->level[w->depth].path] = 0;
}

static void open_level(struct rep_writer *w, const char *key, bool list)
{
    before(w, key);
    path_push(w, key);
    fputc(list ? '[' : '{', w->out);
    if (w->depth + 1 < REP_JSON_DEPTH)
        w->depth++;
    w->level[w->depth] = (struct rep_level){.path = strlen(w->path), .list = list};
}

void rep_open(struct rep_writer *w, const char *key)
{
    open_level(w, key, false);
}

void rep_open_list(struct rep_writer *w, const char *key)
{
    open_level(w, key, true);
}

void rep_close(struct rep_writer *w)
{
    struct rep_level l = w->level[w->depth];
    w->depth--;
    path_pop(w);
    if (l.count)
        new_line(w->out, w->depth + 1);
    fputc(l.list ? ']' : '}', w->out);
}

int rep_writer_begin(struct rep_writer *w, FILE *out)
{
    *w = (struct rep_writer){.out = out};
    w->absent = open_memstream(&w->reasons, &w->reasons_size);
    if (!w->absent)
        return TACHO_ENOMEM;
    fputc('{', out);
    return 0;
}

int rep_writer_end(struct rep_writer *w)
{
    int rc = fclose(w->absent) ? TACHO_ENOMEM : 0;
    if (!rc) {
        before(w, "absent");
        fprintf(w->out, "{%s", w->reasons);
        if (w->nulls)
            new_line(w->out, 1);
        fputs("}\n}\n", w->out);
    }
    free(w->reasons);
    return rc;
}

void rep_put_null(struct rep_writer *w, const char *key, const char *reason)
{
    before(w, key);
    fputs("null", w->out);
    path_push(w, key);
    if (w->nulls++)
        fputc(',', w->absent);
    new_line(w->absent, 2);
    write_string(w->absent, w->path);
    fputs(": ", w->absent);
    write_string(w->absent, reason && *reason ? reason : "not known");
    path_pop(w);
}

void rep_put_text(struct rep_writer *w, const char *key, const char *text)
{
    before(w, key);
    write_string(w->out, text);
}

void rep_put_text_or(struct rep_writer *w, const char *key, const char *text, const char *reason)
{
    if (text && *text)
        rep_put_text(w, key, text);
    else
        rep_put_null(w, key, reason);
}

void rep_put_texts(struct rep_writer *w, const char *key, const char *const *texts, size_t n)
{
    rep_open_list(w, key);
    for (size_t i = 0; i < n; i++)
        rep_put_text(w, NULL, texts[i]);
    rep_close(w);
}

void rep_put_bool(struct rep_writer *w, const char *key, bool v)
{
    before(w, key);
    fputs(v ? "true" : "false", w->out);
}

void rep_put_int(struct rep_writer *w, const char *key, int64_t v)
{
    before(w, key);
    fprintf(w->out, "%" PRId64, v);
}

void rep_put_real(struct rep_writer *w, const char *key, double v, const char *reason)
{
    char text[40];
    if (!isfinite(v)) {
        rep_put_null(w, key, reason);
        return;
    }
    before(w, key);
    snprintf(text, sizeof text, "%.15g", v);
    fputs(text, w->out);
    if (!strpbrk(text, ".e"))
        fputs(".0",
              w->out); /* stays a number with a fraction for readers that tell the two apart */
}

void rep_put_value(struct rep_writer *w, const char *key, struct an_value v)
{
    if (v.valid)
        rep_put_real(w, key, v.value, "not a finite number");
    else
        rep_put_null(w, key, v.reason);
}

void rep_put_count(struct rep_writer *w, const char *key, struct an_count v)
{
    if (v.valid)
        rep_put_int(w, key, v.value);
    else
        rep_put_null(w, key, v.reason);
}

void rep_put_us(struct rep_writer *w, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    before(w, key);
    fprintf(w->out, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

void rep_put_us_or(struct rep_writer *w, const char *key, struct an_count ns)
{
    if (ns.valid)
        rep_put_us(w, key, ns.value);
    else
        rep_put_null(w, key, ns.reason);
}
