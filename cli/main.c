/* SPDX-License-Identifier: Apache-2.0
 *
 * The program tacho: the table of commands, the command `help` that describes them, and main().
 */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/man.h"
#include "cli/base/message.h"
#include "cli/commands/commands.h"

static const struct cli_command commands[] = {
#define CLI_COMMAND_ROW(name) {#name, cli_##name, &cli_##name##_spec},
    CLI_COMMAND_MAP(CLI_COMMAND_ROW)
#undef CLI_COMMAND_ROW
        {0},
};

static const struct cli_command *command_find(const char *name)
{
    CLI_EACH_COMMAND(command, commands)
        if (!strcmp(command->name, name))
            return command;
    return NULL;
}

/* The command whose name is closest to what was typed, or NULL if none is close. */
static const char *command_closest(const char *typed)
{
    const char *names[sizeof commands / sizeof *commands];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        names[i] = commands[i].name;
    return cli_closest(typed, names);
}

/* ---- help -------------------------------------------------------------------------------------------------------------------- */

/* Prints the list of commands with examples; `all` adds what a RUN is and the exit codes. */
static void help_print(bool all)
{
    fputs("tacho: where does each training step's time go?\n"
          "\n"
          "usage: tacho COMMAND [OPTION]... [ARGUMENT]...\n"
          "\n"
          "examples:\n"
          "  tacho run -- python3 train.py     record your own program, unchanged\n"
          "  tacho report latest               show what limits its speed\n"
          "\n"
          "commands:\n",
          stdout);
    CLI_EACH_COMMAND(command, commands)
        printf("  %-10s %s\n", command->name, command->spec->help);
    puts("\n'tacho help COMMAND' or 'tacho COMMAND --help' describes a command.");
    if (all)
        fputs(
            "\n"
            "A RUN is a .tacho file, the .tacho.live folder of an unfinished run, or "
            "'latest' (the newest in this folder);\n"
            "or a trace of another tool (PyTorch, JAX, Nsight Systems, rocprofv3, Ascend), or a "
            "folder of per-rank traces.\n"
            "Results go to standard output, messages to standard error. NO_COLOR and "
            "--color=WHEN control colour.\n"
            "\n"
            "exit codes: 0 ok, 1 a threshold was exceeded (such as diff --fail-above), 2 wrong "
            "usage, 3 "
            "bad "
            "input,\n"
            "4 not supported or not permitted, 5 internal error, 6 undecided (too little data for "
            "the threshold);\n"
            "'run' and 'train' follow env(1): 125 if tacho failed before the start, 126 or 127 if "
            "the program could not be run,\n"
            "128+N if signal N ended it, else its own exit code.\n",
            stdout);
}

struct values {
    bool scdoc;
    const char *completion;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("scdoc", 0, scdoc, "print the manual page as source for scdoc(1)"),
    CLI_TEXT_ROW("completion", 0, CLI_CHOICE, completion, "bash|zsh|fish",
                 "print the completion script of a shell"),
    {0},
};

const struct cli_spec cli_help_spec = {
    .help = "help about tacho or one command",
    .usage = "[OPTION]... [COMMAND]",
    .about = "Describes tacho, or one of its commands.",
    .options = options,
    .examples = "  tacho help\n  tacho help run\n  tacho help --completion bash > "
                "~/.local/share/bash-completion/completions/tacho",
    .most = 1,
};

int cli_help(int argc, char **argv)
{
    char hint[160];
    int first;
    struct values values = {0};
    int code = cli_parse(&cli_help_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    const struct cli_command *command = first < argc ? command_find(argv[first]) : NULL;
    if (values.completion) {
        cli_completion_print(stdout, values.completion, commands);
    } else if (first < argc && !command) {
        const char *close = command_closest(argv[first]);
        snprintf(hint, sizeof hint,
                 close ? "did you mean '%s'?" : "'tacho help' lists the commands", close);
        return cli_usage("help", hint, "no command named '%s'", argv[first]);
    } else if (values.scdoc) {
        cli_man_print(stdout, commands, command);
    } else if (command) {
        cli_spec_print(stdout, command->name, command->spec);
    } else {
        help_print(true);
    }
    return 0;
}

/* ---- the program ----------------------------------------------------------------------------------------------------------- */

/* A program that starts with a standard stream closed would get the next file it opens in its
 * place, and write messages into it. This opens /dev/null there, in the direction that makes every
 * use of it fail; the target does not inherit it. */
static void occupy_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0) {
            int got = open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
            if (got >= 0 && got != fd) {
                dup3(got, fd, O_CLOEXEC);
                close(got);
            }
        }
}

/* Makes a write past the limit on file sizes an error to report, not a reason to die with a
 * half-written file. A handler and not SIG_IGN, because a target would inherit an ignored signal.
 */
static void survive(int signal_number)
{
    (void)signal_number;
}

/* Is it the name of a command that a later version will have? Then suggesting another command
 * would mislead. */
static bool is_later(const char *name)
{
    static const char *const later[] = {"tune", "watch"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (!strcmp(name, later[i]))
            return true;
    return false;
}

/* Prints why there is no such command and what the user may have meant; returns the exit code. */
static int unknown_command(const char *typed)
{
    char hint[160];
    const char *close = command_closest(typed);
    if (typed[0] == '-')
        snprintf(hint, sizeof hint,
                 "options come after the command; 'tacho help' lists the commands");
    else if (is_later(typed))
        snprintf(hint, sizeof hint,
                 "this version does not have it yet; 'tacho help' lists the commands");
    else if (close)
        snprintf(hint, sizeof hint, "did you mean '%s'? 'tacho help' lists the commands", close);
    else if (strchr(typed, '/') || !access(typed, F_OK))
        snprintf(hint, sizeof hint,
                 "to record a program: tacho run -- PROGRAM; to read a file: tacho report FILE");
    else
        snprintf(hint, sizeof hint, "'tacho help' lists the commands");
    return cli_usage("", hint, "unknown %s '%s'", typed[0] == '-' ? "option" : "command", typed);
}

/* Did the user ask for JSON? Then messages are JSON as well, those about wrong options among them.
 */
static bool asks_for_json(const struct cli_command *command, int argc, char **argv)
{
    bool has = !command; /* of an unknown command nothing else is known */
    if (command)
        CLI_EACH_OPTION(option, command->spec)
            has |= !strcmp(option->name, "json");
    for (int i = command ? 2 : 1; has && i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "-j") ||
            (strlen(argv[i]) > 3 && !strncmp("--json", argv[i], strlen(argv[i]))))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    static char version[] = "version", help[] = "help";
    occupy_standard_streams();
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = survive}, NULL);
    setlocale(LC_CTYPE, ""); /* characters of the terminal; numbers stay as C writes them */
    if (argc < 2) {
        help_print(false);
        return cli_stdout_close(0);
    }
    char *name = argv[1];
    if (!strcmp(name, "-V") || !strcmp(name, "--version"))
        name = version;
    else if (!strcmp(name, "-h") || !strcmp(name, "--help"))
        name = help;
    const struct cli_command *command = command_find(name);
    argv[1] = name;
    if (asks_for_json(command, argc, argv))
        cli_messages_as_json();
    return command ? cli_stdout_close(command->run(argc - 1, argv + 1)) : unknown_command(name);
}
