/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/man.h"
#include "cli/message.h"

struct values {
    bool scdoc;
    const char *completion;
};

#define AT(field) offsetof(struct values, field)
static const struct cli_option options[] = {
    {"scdoc", 0, CLI_FLAG, AT(scdoc), NULL, "print the manual page, as source for scdoc(1)", 0, 0},
    {"completion", 0, CLI_CHOICE, AT(completion), "bash|zsh|fish",
     "print the completion script of a shell", 0, 0},
    {0},
};

const struct cli_spec cli_help_spec = {
    .usage = "[OPTION]... [COMMAND]",
    .about = "Says what tacho can do, or what one of its commands does.",
    .options = options,
    .examples = "  tacho help\n  tacho help run\n  tacho help --completion bash > "
                "~/.local/share/bash-completion/completions/tacho",
    .most = 1,
};

int cli_help(int argc, char **argv)
{
    const char *words[32];
    char hint[160];
    int first;
    struct values v = {.scdoc = false};
    int code = cli_parse(&cli_help_spec, argc, argv, &v, &first);
    if (code >= 0)
        return code;
    if (v.completion) {
        cli_completion_print(stdout, v.completion);
        return 0;
    }
    if (first == argc) {
        if (v.scdoc)
            cli_man_print(stdout, NULL);
        else
            cli_help_print(stdout, true);
        return 0;
    }
    const struct cli_command *command = cli_command_find(argv[first]);
    if (command) {
        if (v.scdoc)
            cli_man_print(stdout, command);
        else
            cli_spec_print(stdout, command->name, command->help, command->spec);
        return 0;
    }
    size_t n = 0;
    for (command = cli_commands; command->name; command++)
        words[n++] = command->name;
    words[n] = NULL;
    const char *close = cli_closest(argv[first], words);
    snprintf(hint, sizeof hint, close ? "did you mean '%s'?" : "'tacho help' lists the commands",
             close);
    return cli_usage("help", hint, "no command named '%s'", argv[first]);
}
