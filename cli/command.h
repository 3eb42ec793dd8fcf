/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: a command is one file cmd_NAME.c, one row in COMMAND_MAP, and nothing else.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/options.h"

/* name, one line of help; in the order of `tacho help`. A command that is not built does not stand
 * here. */
#define CLI_COMMAND_MAP(X) \
    X(run, "run a program, record where its time goes") \
    X(train, "run the reference training engine under tacho, then print the report") \
    X(report, "say where each step's time went, from a recorded run") \
    X(top, "watch a run while it is recorded, or afterwards: a dashboard in the terminal") \
    X(advise, "say what changes would do to a step, by replaying its dependency graph") \
    X(diff, "say what takes more time in one run than in another; fail a build that got slower") \
    X(merge, "make one run of those that the nodes of a job were recorded into") \
    X(import, "make a run of traces of other tools: Kineto JSON, Nsight SQLite") \
    X(export, "write a run for other tools: Perfetto, flame graphs, spreadsheets") \
    X(capture, "record work on GPUs for some steps, in a run started with --gpu later or --steps") \
    X(recover, "finish the file of a run whose recorder was killed") \
    X(sql, "query a run with SQL") \
    X(calibrate, "measure once what this machine can do at most, for rooflines") \
    X(doctor, "say what this machine lets tacho measure, and how to get the rest") \
    X(version, "print the version; --verbose: what it was built with") \
    X(help, "help about tacho or one command")

struct cli_command {
    const char *name, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    const struct cli_spec *spec;
};

/* Ends with name NULL. */
extern const struct cli_command cli_commands[];

#define CLI_COMMAND_DECLARE(name, help) \
    int cli_##name(int argc, char **argv); \
    extern const struct cli_spec cli_##name##_spec;
CLI_COMMAND_MAP(CLI_COMMAND_DECLARE)
#undef CLI_COMMAND_DECLARE

const struct cli_command *cli_command_find(const char *name);
/* Prints the list of commands with examples; `all` adds the exit codes. */
void cli_help_print(FILE *out, bool all);
/* The whole program: argv as main got it; returns the exit code. */
int cli_main(int argc, char **argv);

#endif
