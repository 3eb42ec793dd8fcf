/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: names of device work -> class, as data. The table is
 * analyzers/device/classes.tsv, built into the program; a user's file of the same form is read
 * before it (an_options.classes; the command line finds it under XDG or takes
 * --classes).
 *
 * A line: class TAB pattern TAB dtype TAB matrix-unit TAB remark; what follows the pattern may be
 * left out. Class: a key of AN_DEVICE_CLASS_MAP ("other" will do for "other compute"). Pattern:
 * POSIX extended regular expression, matched anywhere in the demangled name (anchor it where that
 * is meant), case counts. The first line that matches decides. dtype and matrix-unit (yes, no, -)
 * are what the name tells of the arithmetic; "-" is nothing. Lines of the class "-" decide no
 * class: they tell dtype and matrix-unit of names that are matrix, attention or fused, as far as
 * the deciding line does not; of each the first line that says it counts. Empty lines and lines
 * beginning with # say nothing.
 *
 * Each distinct name is to be matched once (an_devices.name_class keeps the answers). Patterns are
 * split at their outermost
 * "|"; of each part the longest text that must be there is looked for first, for all parts in one
 * pass over the name, so that few expressions are tried, and those that are nothing but text are
 * never compiled.
 */
#ifndef ANALYZERS_CLASSES_H
#define ANALYZERS_CLASSES_H

#include <stdbool.h>

#include "analyzers/device/device.h"
#include "tacho_error.h"

typedef struct an_classes an_classes;

struct an_name_class {
    enum an_device_class class;
    bool known;        /* a pattern matched */
    int matrix_unit;   /* 1 yes, 0 no, -1 unknown */
    const char *dtype; /* "bf16" ..., NULL: unknown. Belongs to the an_classes */
};

/* `user` may be NULL. TACHO_EFORMAT names the line of the user's table that is wrong. */
int an_classes_new(const char *user, an_classes **out, struct tacho_error *err);
void an_classes_free(an_classes *classes); /* NULL is fine */
/* Of a kernel's name. Not for two threads at once: expressions are compiled when they are first
 * needed. */
struct an_name_class an_class_of(const an_classes *classes, const char *name);

#endif
