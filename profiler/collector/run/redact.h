/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be stored of a command line and an environment. A file of a run is shown to others, so
 * secrets must not get into it.
 *
 * Environment: only names on an allow-list (threads, ranks, devices, locale), and of these no value
 * that holds a secret. Arguments: all of them, with STORE_REDACTED in place of each secret that
 * secrets.h finds; an argument of more than 16 KiB is replaced as a whole.
 */
#ifndef COL_REDACT_H
#define COL_REDACT_H

/* The command line as a JSON array of strings, redacted. malloc'd, NULL when out of memory. */
char *col_redact_command(char *const *argv);
/* The allowed part of an environment as a JSON object, names sorted. malloc'd, NULL when out of
 * memory. */
char *col_redact_environment(char *const *envp);

#endif
