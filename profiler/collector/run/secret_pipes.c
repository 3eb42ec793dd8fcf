/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for programs that read a password, and for files that hold one; then for what is written
 * into them: "echo X |", "(echo X; echo X) |", "cat <<END", "<<< X".
 */
#include "profiler/collector/run/secret_pipes.h"

#include <string.h>

#include "profiler/collector/run/secret_names.h"
#include "profiler/collector/run/secret_options.h"

/* Where the words of a program that writes into a pipe or a file at `end` begin, or of several in
 * brackets; NULL: none that is known. */
static const char *writer_before(const char *argument, const char *end)
{
    static const char *const writers[] = {"echo ", "printf ", "yes ", "print "};
    const char *last = end;
    while (last > argument && col_text_is_one_of(last[-1], COL_TEXT_BLANK))
        last--;
    bool is_group = last > argument && col_text_is_one_of(last[-1], ")}");
    for (const char *at = end; at > argument; at--) {
        const char *begin = at - 1;
        bool opens = is_group && at < last && col_text_is_one_of(*begin, "({");
        if (opens && (begin == argument || begin[-1] != '$'))
            return begin;
        is_group = is_group && !opens; /* "$(...)" is a part of what is written */
        for (size_t i = 0; !is_group && i < sizeof writers / sizeof *writers; i++)
            if (strncmp(begin, writers[i], strlen(writers[i])) == 0)
                return begin + strlen(writers[i]) - 1;
    }
    return NULL;
}

/* Marks what is written into the pipe or the file at `end`, also by a here-document. */
static void hide_written(struct col_text *in, const char *argument, const char *end)
{
    const char *body, *from = writer_before(argument, end),
                      *last = col_text_here_end(in, end, &body);
    if (from)
        col_text_hide(in, from + 1, end);
    if (last)
        col_text_hide(in, body, last);
}

/* Marks what a program reads that is named at `reader`. */
static void hide_read(struct col_text *in, const char *argument, const char *reader)
{
    const char *pipe = reader, *here = strstr(reader, "<<<");
    while (pipe > argument && *pipe != '|')
        pipe--;
    if (*pipe != '|')
        pipe = reader; /* a here-document only */
    const char *body, *last = col_text_here_end(in, reader, &body);
    if (pipe < reader)
        hide_written(in, argument, pipe);
    else if (last)
        col_text_hide(in, body, last);
    if (here)
        col_text_hide(in, here + 3 + strspn(here + 3, COL_TEXT_BLANK), here + strlen(here));
}

/* Does a path say in its last two parts that the file holds a secret? */
static bool is_secret_file(const char *path, size_t length)
{
    for (int parts = 0; parts < 2; parts++) {
        size_t from = length;
        while (from && path[from - 1] != '/')
            from--;
        size_t dot = path[from] == '.';
        enum col_name_kind kind = col_name_kind(path + from, length - from);
        if (kind == COL_NAME_SECRET || kind == COL_NAME_WEAK ||
            col_list_has(col_secret_file, path + from + dot, length - from - dot))
            return true;
        if (!from)
            break;
        length = from - 1;
    }
    return false;
}

/* Marks what is written into files: "> NAME", ">> NAME", "tee NAME", "tee -a NAME". */
static void hide_in_files(struct col_text *in, const char *argument)
{
    for (const char *at = argument; *at; at++) {
        size_t sign = strspn(at, ">");
        bool is_tee = strncmp(at, "tee ", 4) == 0;
        if (!sign && !is_tee)
            continue;
        const char *path = at + sign;
        if (is_tee)
            path = at + 3 + strspn(at + 3, " ");
        if (is_tee && strncmp(path, "-a", 2) == 0)
            path += 2;
        path += strspn(path, " \t" COL_TEXT_QUOTE);
        size_t length = strcspn(path, COL_TEXT_BLANK COL_TEXT_QUOTE "<>|&;()");
        if (length && is_secret_file(path, length))
            hide_written(in, argument, at);
        at = path + length - 1;
    }
}

void col_pipes_hide(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *argument = in->text; argument < end; argument += strlen(argument) + 1) {
        for (size_t i = 0; i < col_reader_count; i++)
            for (const char *at = argument; (at = strstr(at, col_reader[i])) != NULL; at++)
                hide_read(in, argument, at);
        hide_in_files(in, argument);
    }
}
