/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds, reads and checks the user's table of kernel classes.
 */
#include "cli/base/classes_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/classes.h"
#include "cli/base/message.h"
#include "tacho_folder.h"

#define TABLE_MOST (1 << 20) /* bytes; the built-in table has a hundredth of them */

static int fail(const char *path, int code, const char *hint, const char *what)
{
    return cli_error(code, hint, "%s: %s", path, what);
}

/* Reads the whole text of an open file; *text stays NULL on failure. */
static int read_all(FILE *in, const char *path, char **text)
{
    char *buf = malloc(TABLE_MOST + 1);
    if (!buf)
        return fail(path, TACHO_ENOMEM, NULL, "out of memory");
    size_t bytes = fread(buf, 1, TABLE_MOST + 1, in);
    int code = 0;
    if (ferror(in))
        code = fail(path, TACHO_EIO, NULL, strerror(errno));
    else if (bytes > TABLE_MOST || memchr(buf, 0, bytes))
        code = fail(path, TACHO_EFORMAT,
                    "each line is CLASS TAB PATTERN, as in analyzers/device/classes.tsv",
                    "not a table of kernel classes");
    if (code) {
        free(buf);
        return code;
    }
    buf[bytes] = 0;
    *text = buf;
    return 0;
}

/* Checks the table. The analyzers name the line in their error; this puts the file before it. */
static int check(const char *path, const char *text)
{
    static const char subject[] = "table of kernel classes: ";
    an_classes *classes = NULL;
    struct tacho_error err = {0};
    int rc = an_classes_new(text, &classes, &err);
    an_classes_free(classes);
    if (!rc)
        return 0;
    const char *what =
        strncmp(err.what, subject, sizeof subject - 1) ? err.what : err.what + sizeof subject - 1;
    return fail(path, rc, err.hint, what);
}

int cli_classes_load(const char *path, char **text)
{
    char usual[PATH_MAX];
    *text = NULL;
    if (!path && tacho_config_name("tacho/classes.tsv", usual, sizeof usual))
        return 0;
    const char *name = path ? path : usual;
    FILE *in = fopen(name, "re");
    /* EACCES: the home of another user, as after su. A table that was asked for must be there. */
    if (!in && !path && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return 0;
    if (!in)
        return fail(name, tacho_error_of_errno(errno),
                    "a table of kernel classes: give a readable file, or omit --classes",
                    strerror(errno));
    int code = read_all(in, name, text);
    fclose(in);
    if (!code && (code = check(name, *text))) {
        free(*text);
        *text = NULL;
    }
    return code;
}
