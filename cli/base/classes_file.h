/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the user's own table of kernel classes (analyzers/device/classes.h has its
 * form).
 */
#ifndef CLI_BASE_CLASSES_FILE_H
#define CLI_BASE_CLASSES_FILE_H

/* Reads and checks the table for an_options.classes: `path`, or, if that is NULL,
 * $XDG_CONFIG_HOME/tacho/classes.tsv
 * (~/.config without XDG_CONFIG_HOME); without that file *text is NULL and all is well. 0 or an
 * exit code, after a message that names file and line. The caller frees *text. */
int cli_classes_load(const char *path, char **text);

#endif
