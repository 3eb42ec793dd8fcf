/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the settings of a watch, found and checked.
 */
#ifndef CLI_WATCH_SETTINGS_H
#define CLI_WATCH_SETTINGS_H

#include "monitor/config/config.h"

/* FILE, or where it is NULL the user's file in the configuration folder, or the defaults. A target
 * that no burn rate of a period reaches is said now, not when it would have been an alert; which
 * windows are excluded is said if `says`. 0 or an exit code, after a message. */
int cli_watch_settings(const char *file, bool says, struct mon_config *config);

#endif
