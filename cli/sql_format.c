/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sql_format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/escape.h"

#define TABLE_WAIT  500 /* rows that decide the widths of a table */
#define TABLE_WIDTH 60  /* columns of the screen that one value may take */

/* ---- table ---------------------------------------------------------------------------------------------------------------- */

static char *table_text(const struct cli_sql_writer *w, const struct store_cell *c)
{
    char clean[512], number[40];
    const char *text = c->text;
    switch (c->type) {
    case STORE_CELL_NULL:
        return NULL;
    case STORE_CELL_REAL:
        snprintf(number, sizeof number, "%.10g", c->real);
        text = number;
        break;
    case STORE_CELL_BLOB:
        snprintf(number, sizeof number, "(%zu bytes)", c->bytes);
        text = number;
        break;
    default:
        break;
    }
    rep_clean(clean, sizeof clean, text ? text : "", TABLE_WIDTH, w->utf8);
    return strdup(clean);
}

static void table_line(struct cli_sql_writer *w, char *const *row)
{
    for (int i = 0; i < w->columns; i++) {
        const char *text = row[i] ? row[i] : ""; /* NULL is blank: not measured */
        int pad = w->width[i] - rep_width(text);
        if (pad < 0)
            pad = 0;
        if (w->numeric[i])
            fprintf(w->out, "%*s%s", pad, "", text);
        else
            fprintf(w->out, "%s%*s", text, i + 1 < w->columns ? pad : 0, "");
        fputs(i + 1 < w->columns ? "  " : "\n", w->out);
    }
}

static void table_flush(struct cli_sql_writer *w)
{
    table_line(w, w->names);
    for (int i = 0; i < w->columns; i++) {
        for (int n = 0; n < w->width[i]; n++)
            fputc('-', w->out);
        fputs(i + 1 < w->columns ? "  " : "\n", w->out);
    }
    for (int r = 0; r < w->rows_waiting; r++) {
        table_line(w, w->waiting[r]);
        for (int i = 0; i < w->columns; i++)
            free(w->waiting[r][i]);
        free(w->waiting[r]);
    }
    w->rows_waiting = 0;
}

static int table_head(struct cli_sql_writer *w)
{
    w->waiting = calloc(TABLE_WAIT, sizeof *w->waiting);
    w->width = calloc((size_t)w->columns, sizeof *w->width);
    w->numeric = malloc((size_t)w->columns);
    if (!w->waiting || !w->width || !w->numeric)
        return TACHO_ENOMEM;
    memset(w->numeric, 1, (size_t)w->columns);
    for (int i = 0; i < w->columns; i++)
        w->width[i] = rep_width(w->names[i]);
    return 0;
}

static int table_row(struct cli_sql_writer *w, const struct store_cell *cells)
{
    char **row = calloc((size_t)w->columns, sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    for (int i = 0; i < w->columns; i++) {
        row[i] = table_text(w, &cells[i]);
        if (w->rows < TABLE_WAIT) {
            int n = row[i] ? rep_width(row[i]) : 0;
            w->width[i] = n > w->width[i] ? n : w->width[i];
            if (cells[i].type == STORE_CELL_TEXT || cells[i].type == STORE_CELL_BLOB)
                w->numeric[i] = 0;
        }
    }
    if (w->rows < TABLE_WAIT) {
        w->waiting[w->rows_waiting++] = row;
        return 0;
    }
    if (w->rows == TABLE_WAIT)
        table_flush(w);
    table_line(w, row);
    for (int i = 0; i < w->columns; i++)
        free(row[i]);
    free(row);
    return 0;
}

static int table_end(struct cli_sql_writer *w)
{
    if (w->rows <= TABLE_WAIT)
        table_flush(w);
    free(w->waiting);
    free(w->width);
    free(w->numeric);
    w->waiting = NULL;
    w->width = NULL;
    w->numeric = NULL;
    return 0;
}

/* ---- csv (RFC 4180) -------------------------------------------------------------------------------------------------------- */

static void csv_field(FILE *out, const char *text, size_t bytes)
{
    bool quote = memchr(text, ',', bytes) || memchr(text, '"', bytes) ||
                 memchr(text, '\n', bytes) || memchr(text, '\r', bytes);
    if (!quote) {
        fwrite(text, 1, bytes, out);
        return;
    }
    fputc('"', out);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"')
            fputc('"', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

static int csv_head(struct cli_sql_writer *w)
{
    for (int i = 0; i < w->columns; i++) {
        csv_field(w->out, w->names[i], strlen(w->names[i]));
        fputs(i + 1 < w->columns ? "," : "\r\n", w->out);
    }
    return 0;
}

static void hex(FILE *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%02x", (unsigned char)bytes[i]);
}

static int csv_row(struct cli_sql_writer *w, const struct store_cell *cells)
{
    for (int i = 0; i < w->columns; i++) {
        const struct store_cell *c = &cells[i];
        if (c->type == STORE_CELL_REAL)
            fprintf(w->out, "%.17g", c->real);
        else if (c->type == STORE_CELL_BLOB)
            hex(w->out, c->text, c->bytes);
        else if (c->type == STORE_CELL_TEXT && !c->bytes)
            fputs("\"\"", w->out); /* an empty text; nothing at all is NULL */
        else if (c->text)
            csv_field(w->out, c->text, c->bytes);
        fputs(i + 1 < w->columns ? "," : "\r\n", w->out);
    }
    return 0;
}

static int nothing(struct cli_sql_writer *w)
{
    (void)w;
    return 0;
}

/* ---- json ------------------------------------------------------------------------------------------------------------------- */

/* Rows come by the million, so they are streamed and not built in memory. */
static void json_string(FILE *out, const char *text, size_t n)
{
    fputc('"', out);
    for (size_t bytes; n; text += bytes, n -= bytes) {
        long c = rep_decode(text, n, &bytes);
        if (c < 0)
            fputs("\xef\xbf\xbd", out);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", (int)c);
        else if (c == '\n')
            fputs("\\n", out);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04lx", c);
        else
            fwrite(text, 1, bytes, out);
    }
    fputc('"', out);
}

static int json_head(struct cli_sql_writer *w)
{
    fputc('[', w->out);
    return 0;
}

static int json_row(struct cli_sql_writer *w, const struct store_cell *cells)
{
    fputs(w->rows ? ",\n {" : "{", w->out);
    for (int i = 0; i < w->columns; i++) {
        const struct store_cell *c = &cells[i];
        json_string(w->out, w->names[i], strlen(w->names[i]));
        fputc(':', w->out);
        if (c->type == STORE_CELL_INTEGER)
            fprintf(w->out, "%" PRId64, c->integer);
        else if (c->type == STORE_CELL_REAL && c->real - c->real == 0)
            fprintf(w->out, "%.17g", c->real);
        else if (c->type == STORE_CELL_TEXT)
            json_string(w->out, c->text, c->bytes);
        else if (c->type == STORE_CELL_BLOB) {
            fputc('"', w->out);
            hex(w->out, c->text, c->bytes);
            fputc('"', w->out);
        } else
            fputs("null", w->out); /* also infinity: JSON has none */
        if (i + 1 < w->columns)
            fputc(',', w->out);
    }
    fputc('}', w->out);
    return 0;
}

static int json_end(struct cli_sql_writer *w)
{
    fputs("]\n", w->out);
    return 0;
}

const struct cli_sql_format cli_sql_formats[] = {
    {"table", table_head, table_row, table_end},
    {"csv", csv_head, csv_row, nothing},
    {"json", json_head, json_row, json_end},
    {0},
};

/* ---- statements ------------------------------------------------------------------------------------------------------------- */

int cli_sql_end(struct cli_sql_writer *w)
{
    int code = w->columns ? w->format->end(w) : 0;
    for (int i = 0; i < w->columns; i++)
        free(w->names[i]);
    free(w->names);
    w->names = NULL;
    w->columns = 0;
    w->rows = 0;
    return code ? code : ferror(w->out) ? TACHO_EIO : 0;
}

int cli_sql_head(void *ctx, int columns, const char *const *names)
{
    struct cli_sql_writer *w = ctx;
    bool again = w->columns > 0;
    int code = cli_sql_end(w);
    if (code)
        return code;
    if (again)
        fputc('\n', w->out);
    w->names = calloc((size_t)columns, sizeof *w->names);
    if (!w->names)
        return TACHO_ENOMEM;
    w->columns = columns;
    for (int i = 0; i < columns; i++)
        if (!(w->names[i] = strdup(names[i] ? names[i] : "")))
            return TACHO_ENOMEM;
    return w->format->head(w);
}

int cli_sql_row(void *ctx, int columns, const struct store_cell *cells)
{
    struct cli_sql_writer *w = ctx;
    (void)columns;
    int code = w->format->row(w, cells);
    w->rows++;
    return code             ? code
           : ferror(w->out) ? TACHO_EIO
                            : 0; /* a pipe that nobody reads any more ends the query */
}
