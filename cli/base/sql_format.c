/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats of query results: a table for people, CSV, JSON.
 */
#include "cli/base/sql_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/escape.h"
#include "store/csv.h"

#define TABLE_WAIT  500 /* rows that decide the widths of a table */
#define TABLE_WIDTH 60  /* columns of the screen that one value may take */

/* ---- table ---------------------------------------------------------------------------------------------------------------- */

/* The text of a cell in a table, cut to a readable width and safe for a terminal; NULL: it is
 * NULL. */
static char *table_text(const struct cli_sql_writer *writer, const struct store_cell *cell)
{
    char clean[512], number[40];
    const char *text = cell->text;
    switch (cell->type) {
    case STORE_CELL_NULL:
        return NULL;
    case STORE_CELL_REAL:
        snprintf(number, sizeof number, "%.10g", cell->real);
        text = number;
        break;
    case STORE_CELL_BLOB:
        snprintf(number, sizeof number, "(%zu bytes)", cell->bytes);
        text = number;
        break;
    default:
        break;
    }
    rep_clean(clean, sizeof clean, text ? text : "", TABLE_WIDTH, writer->utf8);
    return strdup(clean);
}

/* Prints one line of a table: numbers to the right, text to the left. */
static void table_line(struct cli_sql_writer *writer, char *const *row)
{
    for (int i = 0; i < writer->columns; i++) {
        const char *text = row[i] ? row[i] : ""; /* NULL is blank: not measured */
        int pad = writer->width[i] - rep_width(text);
        if (pad < 0)
            pad = 0;
        if (writer->numeric[i])
            fprintf(writer->out, "%*s%s", pad, "", text);
        else
            fprintf(writer->out, "%s%*s", text, i + 1 < writer->columns ? pad : 0, "");
        fputs(i + 1 < writer->columns ? "  " : "\n", writer->out);
    }
}

static void free_row(char **cells, int columns)
{
    for (int i = 0; i < columns; i++)
        free(cells[i]);
    free(cells);
}

static void table_rule(struct cli_sql_writer *writer)
{
    for (int i = 0; i < writer->columns; i++) {
        for (int j = 0; j < writer->width[i]; j++)
            fputc('-', writer->out);
        fputs(i + 1 < writer->columns ? "  " : "\n", writer->out);
    }
}

/* Prints the head of the table and the rows that waited. */
static void table_flush(struct cli_sql_writer *writer)
{
    table_line(writer, writer->names);
    table_rule(writer);
    for (int row = 0; row < writer->rows_waiting; row++) {
        table_line(writer, writer->waiting[row]);
        free_row(writer->waiting[row], writer->columns);
    }
    writer->rows_waiting = 0;
}

static int table_head(struct cli_sql_writer *writer)
{
    writer->waiting = calloc(TABLE_WAIT, sizeof *writer->waiting);
    writer->width = calloc((size_t)writer->columns, sizeof *writer->width);
    writer->numeric = malloc((size_t)writer->columns);
    if (!writer->waiting || !writer->width || !writer->numeric)
        return TACHO_ENOMEM;
    memset(writer->numeric, 1, (size_t)writer->columns);
    for (int i = 0; i < writer->columns; i++)
        writer->width[i] = rep_width(writer->names[i]);
    return 0;
}

/* Takes one row. The first rows wait, so that the columns can be as wide as they need. */
static int table_row(struct cli_sql_writer *writer, const struct store_cell *cells)
{
    char **row = calloc((size_t)writer->columns, sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    for (int i = 0; i < writer->columns; i++) {
        row[i] = table_text(writer, &cells[i]);
        if (writer->rows < TABLE_WAIT) {
            int width = row[i] ? rep_width(row[i]) : 0;
            writer->width[i] = width > writer->width[i] ? width : writer->width[i];
            if (cells[i].type == STORE_CELL_TEXT || cells[i].type == STORE_CELL_BLOB)
                writer->numeric[i] = 0;
        }
    }
    if (writer->rows < TABLE_WAIT) {
        writer->waiting[writer->rows_waiting++] = row;
        return 0;
    }
    if (writer->rows == TABLE_WAIT)
        table_flush(writer);
    table_line(writer, row);
    for (int i = 0; i < writer->columns; i++)
        free(row[i]);
    free(row);
    return 0;
}

static int table_end(struct cli_sql_writer *writer)
{
    bool begun = writer->waiting && writer->width && writer->numeric; /* else: no memory */
    if (begun && writer->rows <= TABLE_WAIT)
        table_flush(writer);
    free(writer->waiting);
    free(writer->width);
    free(writer->numeric);
    writer->waiting = NULL;
    writer->width = NULL;
    writer->numeric = NULL;
    return 0;
}

/* ---- csv (RFC 4180) -------------------------------------------------------------------------------------------------------- */

/* A text as a cell. On a terminal, control characters become visible. */
static void csv_field(const struct cli_sql_writer *writer, const char *text, size_t bytes)
{
    char cell[16], *shown = NULL;
    size_t size = 0;
    int columns;
    FILE *memory = writer->visible ? open_memstream(&shown, &size) : NULL;
    if (!memory) {
        store_csv_write(writer->out, text, bytes, writer->raw);
        return;
    }
    for (size_t used; bytes; text += used, bytes -= used) {
        used = rep_show(cell, text, bytes, writer->utf8, &columns);
        fputs(cell, memory);
    }
    fclose(memory);
    store_csv_write(writer->out, shown, size, writer->raw);
    free(shown);
}

static int csv_head(struct cli_sql_writer *writer)
{
    for (int i = 0; i < writer->columns; i++) {
        csv_field(writer, writer->names[i], strlen(writer->names[i]));
        fputs(i + 1 < writer->columns ? "," : "\r\n", writer->out);
    }
    return 0;
}

static void hex(FILE *out, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%02x", (unsigned char)bytes[i]);
}

static int csv_row(struct cli_sql_writer *writer, const struct store_cell *cells)
{
    for (int i = 0; i < writer->columns; i++) {
        const struct store_cell *cell = &cells[i];
        if (cell->type == STORE_CELL_REAL)
            fprintf(writer->out, "%.17g", cell->real);
        else if (cell->type == STORE_CELL_INTEGER)
            fprintf(writer->out, "%" PRId64, cell->integer);
        else if (cell->type == STORE_CELL_BLOB)
            hex(writer->out, cell->text, cell->bytes);
        else if (cell->text)
            csv_field(writer, cell->text, cell->bytes);
        fputs(i + 1 < writer->columns ? "," : "\r\n", writer->out);
    }
    return 0;
}

static int nothing(struct cli_sql_writer *writer)
{
    (void)writer;
    return 0;
}

/* ---- json ------------------------------------------------------------------------------------------------------------------- */

/* Rows come by the million, so they are streamed and not built in memory. */
static void json_string(FILE *out, const char *text, size_t size)
{
    fputc('"', out);
    for (size_t bytes; size; text += bytes, size -= bytes) {
        long character = rep_decode(text, size, &bytes);
        if (character < 0)
            fputs("\xef\xbf\xbd", out);
        else if (character == '"' || character == '\\')
            fprintf(out, "\\%c", (int)character);
        else if (character == '\n')
            fputs("\\n", out);
        else if (character < 0x20 || (character >= 0x7f && character < 0xa0))
            fprintf(out, "\\u%04lx", character);
        else
            fwrite(text, 1, bytes, out);
    }
    fputc('"', out);
}

static int json_head(struct cli_sql_writer *writer)
{
    fputc('[', writer->out);
    return 0;
}

/* Prints one row as an object; NULL and infinity become null. */
static int json_row(struct cli_sql_writer *writer, const struct store_cell *cells)
{
    fputs(writer->rows ? ",\n {" : "{", writer->out);
    for (int i = 0; i < writer->columns; i++) {
        const struct store_cell *cell = &cells[i];
        json_string(writer->out, writer->names[i], strlen(writer->names[i]));
        fputc(':', writer->out);
        if (cell->type == STORE_CELL_INTEGER)
            fprintf(writer->out, "%" PRId64, cell->integer);
        else if (cell->type == STORE_CELL_REAL && cell->real - cell->real == 0)
            fprintf(writer->out, "%.17g", cell->real);
        else if (cell->type == STORE_CELL_TEXT)
            json_string(writer->out, cell->text, cell->bytes);
        else if (cell->type == STORE_CELL_BLOB) {
            fputc('"', writer->out);
            hex(writer->out, cell->text, cell->bytes);
            fputc('"', writer->out);
        } else
            fputs("null", writer->out); /* also infinity: JSON has none */
        if (i + 1 < writer->columns)
            fputc(',', writer->out);
    }
    fputc('}', writer->out);
    return 0;
}

static int json_end(struct cli_sql_writer *writer)
{
    fputs("]\n", writer->out);
    return 0;
}

const struct cli_sql_format cli_sql_formats[] = {
    {"table", table_head, table_row, table_end},
    {"csv", csv_head, csv_row, nothing},
    {"json", json_head, json_row, json_end},
    {0},
};

/* ---- statements ------------------------------------------------------------------------------------------------------------- */

static int stream_code(const struct cli_sql_writer *writer)
{
    return ferror(writer->out) ? TACHO_EIO : 0;
}

int cli_sql_end(struct cli_sql_writer *writer)
{
    int code = writer->columns ? writer->format->end(writer) : 0;
    for (int i = 0; i < writer->columns; i++)
        free(writer->names[i]);
    free(writer->names);
    writer->names = NULL;
    writer->columns = 0;
    writer->rows = 0;
    return code ? code : stream_code(writer);
}

struct store_cell cli_cell_text(const char *text)
{
    if (!text)
        return (struct store_cell){.type = STORE_CELL_NULL};
    return (struct store_cell){.type = STORE_CELL_TEXT, .text = text, .bytes = strlen(text)};
}

struct store_cell cli_cell_integer(int64_t value, char text[24])
{
    snprintf(text, 24, "%" PRId64, value);
    return (struct store_cell){
        .type = STORE_CELL_INTEGER, .integer = value, .text = text, .bytes = strlen(text)};
}

struct store_cell cli_cell_real(double value, char text[32])
{
    if (isnan(value))
        return cli_cell_text(NULL);
    snprintf(text, 32, "%.4g", value);
    return (struct store_cell){
        .type = STORE_CELL_REAL, .real = value, .text = text, .bytes = strlen(text)};
}

int cli_sql_head(void *ctx, int columns, const char *const *names)
{
    struct cli_sql_writer *writer = ctx;
    bool again = writer->columns > 0;
    int code = cli_sql_end(writer);
    if (code)
        return code;
    if (again)
        fputc('\n', writer->out);
    writer->names = calloc((size_t)columns, sizeof *writer->names);
    if (!writer->names)
        return TACHO_ENOMEM;
    writer->columns = columns;
    for (int i = 0; i < columns; i++)
        if (!(writer->names[i] = strdup(names[i] ? names[i] : "")))
            return TACHO_ENOMEM;
    return writer->format->head(writer);
}

int cli_sql_row(void *ctx, int columns, const struct store_cell *cells)
{
    struct cli_sql_writer *writer = ctx;
    (void)columns;
    int code = writer->format->row(writer, cells);
    writer->rows++;
    return code ? code : stream_code(writer); /* a pipe without a reader ends the query */
}
