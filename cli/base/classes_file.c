/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/classes_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/classes.h"
#include "cli/base/message.h"
#include "tacho_folder.h"

#define TABLE_MOST (1 << 20) /* bytes; the built-in table has a hundredth of them */

static int fail(const char *path, int code, const char *hint, const char *what)
{
    struct tacho_error err;
    tacho_fail(&err, code, hint, "%s: %s", path, what);
    return cli_fail(&err);
}

/* Whole text of an open file; *text stays NULL on failure. */
static int read_all(FILE *in, const char *path, char **text)
{
    char *buf = malloc(TABLE_MOST + 1);
    size_t n = buf ? fread(buf, 1, TABLE_MOST + 1, in) : 0;
    int code = 0;
    if (!buf)
        code = fail(path, TACHO_ENOMEM, NULL, "out of memory");
    else if (ferror(in))
        code = fail(path, TACHO_EIO, NULL, strerror(errno));
    else if (n > TABLE_MOST || memchr(buf, 0, n))
        code = fail(path, TACHO_EFORMAT,
                    "lines of CLASS TAB PATTERN, see analyzers/device/classes.tsv",
                    "not a table of kernel classes");
    if (code) {
        free(buf);
        return code;
    }
    buf[n] = 0;
    *text = buf;
    return 0;
}

/* The table of the analyzers names the line; here the file is put before it. */
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
    const char *name = path                                                           ? path
                       : !tacho_config_name("tacho/classes.tsv", usual, sizeof usual) ? usual
                                                                                      : NULL;
    if (!name)
        return 0;
    FILE *in = fopen(name, "re");
    if (!in && !path && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return 0; /* EACCES: the home of somebody else, as after su; a table that was asked for is
                     another matter */
    if (!in)
        return fail(
            name,
            errno == ENOENT   ? TACHO_ENOTFOUND
            : errno == EACCES ? TACHO_EDENIED
                              : TACHO_EIO,
            "a table of kernel classes: give a file that can be read, or leave --classes out",
            strerror(errno));
    int code = read_all(in, name, text);
    fclose(in);
    if (!code && (code = check(name, *text))) {
        free(*text);
        *text = NULL;
    }
    return code;
}
