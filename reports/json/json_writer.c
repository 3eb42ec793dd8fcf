/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes JSON as a stream, with the reasons of all nulls at the end. Every element goes through
 * before(), which writes commas and keys, so that no caller deals with them.
 */
#include "reports/json/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/escape.h"
#include "reports/words/phrase.h"
#include "tacho_error.h"

static void write_unit(FILE *out, unsigned unit)
{
    fprintf(out, "\\u%04x", unit & 0xffff);
}

/* Writes the plain characters that a text begins with; how many. */
static size_t write_plain(FILE *out, const char *text, size_t most)
{
    size_t plain = 0;
    while (plain < most && text[plain] >= 0x20 && text[plain] < 0x7f && text[plain] != '"' &&
           text[plain] != '\\')
        plain++;
    fwrite(text, 1, plain, out);
    return plain;
}

/* A string literal. What is no UTF-8 becomes U+FFFD, DEL its picture: it is the one control
 * character JSON need not escape. */
static void write_string(FILE *out, const char *text)
{
    size_t length = strlen(text), bytes, left = REP_JSON_TEXT;
    fputc('"', out);
    for (; length && left; text += bytes, length -= bytes, left--) {
        size_t plain = write_plain(out, text, length < left ? length : left);
        text += plain;
        length -= plain;
        left -= plain;
        if (!length || !left)
            break;
        long code = rep_decode(text, length, &bytes);
        if (code < 0)
            code = 0xfffd;
        if (code == 0x7f)
            code = 0x2421;
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else if (code < 0x10000)
            write_unit(out, (unsigned)code);
        else {
            write_unit(out, 0xd800u + (unsigned)((code - 0x10000) >> 10));
            write_unit(out, 0xdc00u + (unsigned)((code - 0x10000) & 0x3ff));
        }
    }
    if (length)
        write_unit(out, 0x2026);
    fputc('"', out);
}

static void new_line(FILE *out, int depth)
{
    fprintf(out, "\n%*s", depth, "");
}

/* Writes what precedes an element: the comma, the line, and the key. */
static void before(struct rep_writer *writer, const char *key)
{
    struct rep_level *level = &writer->level[writer->depth];
    if (level->count++)
        fputc(',', writer->out);
    new_line(writer->out, writer->depth + 1);
    if (level->list)
        return;
    write_string(writer->out, key);
    fputs(": ", writer->out);
}

/* Appends the element that `before` began to the JSON pointer. */
static void path_push(struct rep_writer *writer, const char *key)
{
    struct rep_level *level = &writer->level[writer->depth];
    char *end = writer->path + level->path, *limit = writer->path + sizeof writer->path - 3;
    if (level->list) {
        snprintf(end, sizeof writer->path - level->path, "/%" PRId64, level->count - 1);
        return;
    }
    if (end < limit)
        *end++ = '/';
    for (; *key && end < limit; key++) {
        if (*key == '~' || *key == '/') {
            *end++ = '~';
            *end++ = *key == '~' ? '0' : '1';
        } else {
            *end++ = *key;
        }
    }
    *end = 0;
}

static void path_pop(struct rep_writer *writer)
{
    writer->path[writer->level[writer->depth].path] = 0;
}

/* Opens an object or a list. Levels beyond the depth of the writer share the last one: the
 * output stays well nested only within REP_JSON_DEPTH. */
static void open_level(struct rep_writer *writer, const char *key, bool list)
{
    before(writer, key);
    path_push(writer, key);
    fputc(list ? '[' : '{', writer->out);
    if (writer->depth + 1 < REP_JSON_DEPTH)
        writer->depth++;
    writer->level[writer->depth] = (struct rep_level){.path = strlen(writer->path), .list = list};
}

void rep_open(struct rep_writer *writer, const char *key)
{
    open_level(writer, key, false);
}

void rep_open_list(struct rep_writer *writer, const char *key)
{
    open_level(writer, key, true);
}

void rep_close(struct rep_writer *writer)
{
    struct rep_level level = writer->level[writer->depth];
    writer->depth--;
    path_pop(writer);
    if (level.count)
        new_line(writer->out, writer->depth + 1);
    fputc(level.list ? ']' : '}', writer->out);
}

static void notes_close(struct rep_notes *notes)
{
    if (notes->out)
        fclose(notes->out);
    free(notes->text);
}

int rep_writer_begin(struct rep_writer *writer, FILE *out)
{
    *writer = (struct rep_writer){.out = out};
    writer->absent.out = open_memstream(&writer->absent.text, &writer->absent.size);
    writer->left_out.out = open_memstream(&writer->left_out.text, &writer->left_out.size);
    if (!writer->absent.out || !writer->left_out.out) {
        notes_close(&writer->absent);
        notes_close(&writer->left_out);
        return TACHO_ENOMEM;
    }
    fputc('{', out);
    return 0;
}

/* Begins a line of an object that follows the report, with the pointer of where the writer is. */
static void note(struct rep_writer *writer, struct rep_notes *notes)
{
    if (notes->count++)
        fputc(',', notes->out);
    new_line(notes->out, 2);
    write_string(notes->out, writer->path);
    fputs(": ", notes->out);
}

static void write_notes(struct rep_writer *writer, const char *key, const struct rep_notes *notes)
{
    before(writer, key);
    fprintf(writer->out, "{%s", notes->text);
    if (notes->count)
        new_line(writer->out, 1);
    fputc('}', writer->out);
}

/* The notes were collected while the report was written; they become its last members. */
int rep_writer_end(struct rep_writer *writer)
{
    int rc = fflush(writer->absent.out) || fflush(writer->left_out.out) ? TACHO_ENOMEM : 0;
    if (!rc) {
        if (writer->left_out.count)
            write_notes(writer, "left_out", &writer->left_out);
        write_notes(writer, "absent", &writer->absent);
        fputs("\n}\n", writer->out);
        rc = fflush(writer->out) || ferror(writer->out) ? TACHO_EIO : 0;
    }
    notes_close(&writer->absent);
    notes_close(&writer->left_out);
    return rc;
}

/* The reason is written under the pointer of the element, at the same place in the code as the
 * null itself. */
void rep_put_null(struct rep_writer *writer, const char *key, const char *reason)
{
    before(writer, key);
    fputs("null", writer->out);
    path_push(writer, key);
    note(writer, &writer->absent);
    write_string(writer->absent.out, rep_or(reason, "not known"));
    path_pop(writer);
}

bool rep_put_absent(struct rep_writer *writer, const char *key, const char *reason)
{
    if (reason)
        rep_put_null(writer, key, reason);
    return reason != NULL;
}

void rep_put_text(struct rep_writer *writer, const char *key, const char *text)
{
    before(writer, key);
    write_string(writer->out, text);
}

void rep_put_text_or(struct rep_writer *writer, const char *key, const char *text,
                     const char *reason)
{
    if (text && *text)
        rep_put_text(writer, key, text);
    else
        rep_put_null(writer, key, reason);
}

size_t rep_rows_shown(struct rep_writer *writer, size_t count)
{
    if (count <= REP_JSON_ROWS)
        return count;
    note(writer, &writer->left_out);
    fprintf(writer->left_out.out, "%zu", count - REP_JSON_ROWS);
    return REP_JSON_ROWS;
}

void rep_put_rows(struct rep_writer *writer, const char *key, const void *rows, size_t count,
                  size_t size, void (*put)(struct rep_writer *writer, const void *row))
{
    rep_open_list(writer, key);
    size_t shown = rep_rows_shown(writer, count);
    for (size_t i = 0; i < shown; i++) {
        rep_open(writer, NULL);
        put(writer, (const char *)rows + i * size);
        rep_close(writer);
    }
    rep_close(writer);
}

void rep_put_texts(struct rep_writer *writer, const char *key, const char *const *texts,
                   size_t count)
{
    rep_open_list(writer, key);
    for (size_t i = 0; i < count; i++)
        rep_put_text(writer, NULL, texts[i]);
    rep_close(writer);
}

void rep_put_bool(struct rep_writer *writer, const char *key, bool value)
{
    before(writer, key);
    fputs(value ? "true" : "false", writer->out);
}

void rep_put_int(struct rep_writer *writer, const char *key, int64_t value)
{
    before(writer, key);
    fprintf(writer->out, "%" PRId64, value);
}

void rep_put_int_or(struct rep_writer *writer, const char *key, int64_t value, const char *reason)
{
    rep_put_count(writer, key, value < 0 ? an_int_none(reason) : an_int(value));
}

void rep_put_real(struct rep_writer *writer, const char *key, double value, const char *reason)
{
    char text[40];
    if (!isfinite(value)) {
        rep_put_null(writer, key, reason);
        return;
    }
    before(writer, key);
    snprintf(text, sizeof text, "%.15g", value);
    fputs(text, writer->out);
    if (!strpbrk(text, ".e"))
        fputs(".0",
              writer->out); /* stays a number with a fraction for readers that tell the two apart */
}

void rep_put_value(struct rep_writer *writer, const char *key, struct an_value value)
{
    if (value.valid)
        rep_put_real(writer, key, value.value, "not a finite number");
    else
        rep_put_null(writer, key, value.reason);
}

void rep_put_gain(struct rep_writer *writer, const char *key, const struct an_gain *gain)
{
    rep_open(writer, key);
    rep_put_value(writer, "low", gain->low);
    rep_put_value(writer, "expected", gain->expected);
    rep_put_value(writer, "high", gain->high);
    rep_put_bool(writer, "ceiling", gain->ceiling);
    rep_close(writer);
}

void rep_put_count(struct rep_writer *writer, const char *key, struct an_count count)
{
    if (count.valid)
        rep_put_int(writer, key, count.value);
    else
        rep_put_null(writer, key, count.reason);
}

/* Three decimals of a microsecond hold every nanosecond, so no digit is lost to floating point. */
void rep_put_us(struct rep_writer *writer, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    before(writer, key);
    fprintf(writer->out, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

void rep_put_us_or(struct rep_writer *writer, const char *key, struct an_count ns)
{
    if (ns.valid)
        rep_put_us(writer, key, ns.value);
    else
        rep_put_null(writer, key, ns.reason);
}
