/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/message.h"

const struct cli_spec cli_help_spec = {
    .usage = "[COMMAND]",
    .examples = "  tacho help\n  tacho help run",
    .most = 1,
};

int cli_help(int argc, char **argv)
{
    const char *words[32];
    char hint[160];
    int first;
    int code = cli_parse(&cli_help_spec, argc, argv, NULL, &first);
    if (code >= 0)
        return code;
    if (first == argc) {
        cli_help_print(stdout, true);
        return 0;
    }
    const struct cli_command *c = cli_command_find(argv[first]);
    if (c) {
        cli_spec_print(stdout, c->name, c->help, c->spec);
        return 0;
    }
    size_t n = 0;
    for (c = cli_commands; c->name; c++)
        words[n++] = c->name;
    words[n] = NULL;
    const char *close = cli_closest(argv[first], words);
    snprintf(hint, sizeof hint, close ? "did you mean '%s'?" : "'tacho help' lists the commands", close);
    return cli_usage("help", hint, "no command named '%s'", argv[first]);
}
