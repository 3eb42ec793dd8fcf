/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/message.h"

const struct cli_command cli_commands[] = {
#define CLI_COMMAND_ROW(name, help) {#name, help, cli_##name, &cli_##name##_spec},
    CLI_COMMAND_MAP(CLI_COMMAND_ROW)
#undef CLI_COMMAND_ROW
        {0},
};

const struct cli_command *cli_command_find(const char *name)
{
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (!strcmp(command->name, name))
            return command;
    return NULL;
}

void cli_help_print(FILE *out, bool all)
{
    fputs("tacho: where does each training step's time go?\n"
          "\n"
          "usage: tacho COMMAND [OPTION]... [ARGUMENT]...\n"
          "\n"
          "examples:\n"
          "  tacho run -- python3 train.py     record your own program, unchanged\n"
          "  tacho report latest               say what holds it back\n"
          "\n"
          "commands:\n",
          out);
    for (const struct cli_command *command = cli_commands; command->name; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->help);
    fputs("\n'tacho help COMMAND' or 'tacho COMMAND --help' says more about one of them.\n", out);
    if (all)
        fputs("\n"
              "A RUN is a .tacho file, the .tacho.live folder of a run that was not finished, or "
              "'latest' (the newest in this "
              "folder);\n"
              "or a trace of another tool: Kineto .json or .json.gz, Nsight Systems .sqlite, a "
              "folder of per-rank traces.\n"
              "Results go to standard output, messages to standard error. NO_COLOR and "
              "--color=WHEN control colour.\n"
              "\n"
              "exit codes: 0 ok, 1 a threshold failed (diff --fail-above), 2 wrong usage, 3 bad "
              "input,\n"
              "4 not supported or not permitted, 5 internal error;\n"
              "'run' and 'train' as env(1): 125 tacho failed before the start, 126 and 127 the "
              "program could not be run,\n"
              "128+N it ended by signal N, else its own exit code.\n",
              out);
}

/* A program that starts with a standard stream closed would get the next file it opens in its
 * place, and write messages into it. A descriptor that refuses to be used stands there instead; the
 * target does not inherit it. */
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

/* A write past the limit on file sizes is an error to report, not a reason to die with a
 * half-written file. A handler, because a target would inherit an ignored signal. */
static void survive(int signal_number)
{
    (void)signal_number;
}

/* Names that the design gives to commands of later versions: nobody should be told that they meant
 * something else. */
static bool is_later(const char *name)
{
    static const char *const later[] = {"verify", "plan", "tune", "watch"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (!strcmp(name, later[i]))
            return true;
    return false;
}

static int unknown_command(const char *typed)
{
    const char *words[32];
    char hint[160];
    size_t n = 0;
    for (const struct cli_command *command = cli_commands; command->name; command++)
        words[n++] = command->name;
    words[n] = NULL;
    const char *close = cli_closest(typed, words);
    if (typed[0] == '-')
        snprintf(hint, sizeof hint,
                 "options come after the command; 'tacho help' lists the commands");
    else if (is_later(typed))
        snprintf(hint, sizeof hint,
                 "this version does not have it yet; 'tacho help' lists what it has");
    else if (close)
        snprintf(hint, sizeof hint, "did you mean '%s'? 'tacho help' lists the commands", close);
    else if (strchr(typed, '/') || !access(typed, F_OK))
        snprintf(hint, sizeof hint,
                 "to record a program: tacho run -- PROGRAM; to read a file: tacho report FILE");
    else
        snprintf(hint, sizeof hint, "'tacho help' lists the commands");
    return cli_usage("", hint, "%s '%s'", typed[0] == '-' ? "unknown option" : "unknown command",
                     typed);
}

int cli_main(int argc, char **argv)
{
    static char version[] = "version", help[] = "help";
    occupy_standard_streams();
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = survive}, NULL);
    setlocale(LC_CTYPE, ""); /* characters of the terminal; numbers stay as C writes them */
    if (argc < 2) {
        cli_help_print(stdout, false);
        return cli_stdout_close(0);
    }
    char *name = argv[1];
    if (!strcmp(name, "-V") || !strcmp(name, "--version"))
        name = version;
    else if (!strcmp(name, "-h") || !strcmp(name, "--help"))
        name = help;
    const struct cli_command *command = cli_command_find(name);
    if (!command)
        return unknown_command(name);
    argv[1] = name;
    return cli_stdout_close(command->run(argc - 1, argv + 1));
}
