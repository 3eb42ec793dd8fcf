/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: names of device work -> class, as data. The table is analyzers/classes.tsv, built into the program; a
 * user's file of the same form is read before it (an_options.classes; the command line finds it under XDG or takes --classes).
 *
 * A line: class TAB pattern TAB dtype TAB matrix-unit TAB remark. Pattern: POSIX extended regular expression, matched anywhere
 * in the demangled name (anchor it where that is meant), case counts. The first line that matches decides. dtype and
 * matrix-unit (yes, no, -) are what the name tells of the arithmetic; "-" is nothing. Empty lines and lines beginning with #
 * say nothing. Each distinct name is matched once.
 */
#ifndef ANALYZERS_CLASSES_H
#define ANALYZERS_CLASSES_H

#include <stdbool.h>

#include "analyzers/device.h"
#include "tacho_error.h"

typedef struct an_classes an_classes;

struct an_name_class {
    enum an_device_class class;
    bool known;        /* a pattern matched */
    int matrix_unit;   /* 1 yes, 0 no, -1 the name does not tell */
    const char *dtype; /* "bf16" ..., NULL: the name does not tell */
};

/* `user` may be NULL. TACHO_EFORMAT names the line of the user's table that is wrong. */
int an_classes_new(const char *user, an_classes **out, struct tacho_error *err);
void an_classes_free(an_classes *c);
/* Of a kernel's name. */
struct an_name_class an_class_of(const an_classes *c, const char *name);

#endif
