/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be stored of a command line and an environment. A file of a run is shown to others, so
 * secrets must not get into it.
 *
 * Environment: only names on an allow-list (threads, ranks, devices, locale), and of these no value
 * that looks secret. Arguments: all of them, but the value of an option whose name sounds secret
 * ("--api-key=X", "--token X", "PASSWORD=X"), a URL with credentials in it, and long random-looking
 * words are replaced by "<redacted>".
 */
#ifndef COL_REDACT_H
#define COL_REDACT_H

#include <stdbool.h>

#define COL_REDACTED "<redacted>"

/* May this environment variable be stored? */
bool col_redact_env_allowed(const char *name);
/* Does the name of an option or variable sound like one that holds a secret? */
bool col_redact_name_is_secret(const char *name);
/* Does a value look like a secret by itself? */
bool col_redact_value_is_secret(const char *value);

/* The command line as a JSON array of strings, redacted. malloc'd, NULL when out of memory. */
char *col_redact_command(char *const *argv);
/* The allowed part of an environment as a JSON object, names sorted. malloc'd, NULL when out of
 * memory. */
char *col_redact_environment(char *const *envp);

#endif
