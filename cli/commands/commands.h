/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: the list of commands. A command is one file cmd_NAME.c with a function
 * cli_NAME and a table cli_NAME_spec, and one row here. `help` lives in cli/main.c, because it
 * describes all the others.
 */
#ifndef CLI_COMMANDS_COMMANDS_H
#define CLI_COMMANDS_COMMANDS_H

#include "cli/base/options.h"

/* Names, in the order of `tacho help`. A command that is not built has no row. */
#define CLI_COMMAND_MAP(X) \
    X(run) \
    X(train) \
    X(report) \
    X(top) \
    X(watch) \
    X(ls) \
    X(advise) \
    X(verify) \
    X(diff) \
    X(history) \
    X(merge) \
    X(import) \
    X(export) \
    X(capture) \
    X(recover) \
    X(sql) \
    X(plan) \
    X(tune) \
    X(calibrate) \
    X(doctor) \
    X(mcp) \
    X(version) \
    X(help)

#define CLI_COMMAND_DECLARE(name) \
    int cli_##name(int argc, char **argv); \
    extern const struct cli_spec cli_##name##_spec;
CLI_COMMAND_MAP(CLI_COMMAND_DECLARE)
#undef CLI_COMMAND_DECLARE

#endif
