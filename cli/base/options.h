/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: what a command is. One table describes its options; parsing, error messages
 * and --help all come from it.
 */
#ifndef CLI_BASE_OPTIONS_H
#define CLI_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_kind {
    CLI_FLAG,     /* bool: set to true */
    CLI_FLAG_OFF, /* bool: set to false */
    CLI_TEXT,     /* const char * */
    CLI_REGEX,    /* const char *: an extended regular expression */
    CLI_INT,      /* int64_t, low..high */
    CLI_NUMBER,   /* double, low..high; 3.5, 2e12, and k, M, G, T, P as powers of 1000 */
    CLI_SIZE,     /* int64_t bytes: 500M, 2G (powers of 1024), low..high */
    CLI_RANGE,    /* struct cli_range: A:B, A:, :B */
    CLI_CHOICE,   /* const char *: one of the words in `argument`, separated by | */
    CLI_MAYBE,    /* the same, or "" where no value is given: --name, --name=WORD */
};

struct cli_range {
    bool set;
    int64_t from, to; /* both included */
};

struct cli_option {
    const char *name; /* without --; NULL ends a table */
    char letter;      /* 0 = none */
    enum cli_kind kind;
    size_t offset;        /* of the variable in the command's struct */
    const char *argument; /* as --help shows it */
    const char *help;
    double low, high; /* limits of numbers */
};

/* Rows of a command's table of options. `field` is the member of the command's `struct values` that
 * the option sets: a flag, a text (or range), or a number with its limits. */
#define CLI_FLAG_ROW(name, letter, field, help) \
    CLI_TEXT_ROW(name, letter, CLI_FLAG, field, NULL, help)
#define CLI_TEXT_ROW(name, letter, kind, field, argument, help) \
    CLI_NUMBER_ROW(name, letter, kind, field, argument, help, 0, 0)
#define CLI_NUMBER_ROW(name, letter, kind, field, argument, help, low, high) \
    { \
        name, letter, kind, offsetof(struct values, field), argument, help, low, high \
    }

/* Rows that several commands share. */
#define CLI_OUTPUT_ROW CLI_TEXT_ROW("output", 'o', CLI_TEXT, output, "FILE", "write to FILE")
#define CLI_CREATE_ROW \
    CLI_TEXT_ROW("output", 'o', CLI_TEXT, output, "RUN", \
                 "the file to create (required); never overwritten")
#define CLI_CLASSES_ROW \
    CLI_TEXT_ROW("classes", 0, CLI_TEXT, classes, "FILE", \
                 "your own kernel classes, before the built-in ones")
#define CLI_MARKER_ROW \
    CLI_TEXT_ROW("step-marker", 0, CLI_REGEX, marker, "REGEX", \
                 "ranges, else kernels, with such a name mark the steps")
#define CLI_WIDTH_ROW \
    CLI_NUMBER_ROW("width", 0, CLI_INT, width, "N", \
                   "columns of text (those of the terminal, else 100)", 40, 200)
#define CLI_COLOR_ROW \
    CLI_TEXT_ROW("color", 0, CLI_CHOICE, color, "auto|always|never", "when to use colour")
#define CLI_NO_COLOR_ROW CLI_FLAG_ROW("no-color", 0, no_color, "the same as --color=never")

struct cli_spec {
    const char *help;  /* one line */
    const char *usage; /* "[OPTION]... [RUN]" */
    const char *about; /* sentences; NULL: `help` says it all */
    const struct cli_option *options;
    const char *examples;      /* lines, each "  tacho ..." */
    bool stop_at_first;        /* options end at the first word that is not one (run, help) */
    int least, most;           /* words that may follow the options; most < 0: any number */
    const char *words_missing; /* what is missing if there are fewer: "a command to run" */
};

/* A command of tacho. A table of them ends with name NULL. */
struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    const struct cli_spec *spec;
};

/* Loops over the commands of a table, and over the options of a command, if it has any. */
#define CLI_EACH_COMMAND(command, commands) \
    for (const struct cli_command *command = (commands); command->name; command++)
#define CLI_EACH_OPTION(option, spec) \
    for (const struct cli_option *option = (spec)->options; option && option->name; option++)

/* Fills `values` from argv. Returns -1 to go on (argv[*first] is the first word that is no option),
 * else the exit code with which the command has to end: 0 after --help, 2 after a message. */
int cli_parse(const struct cli_spec *spec, int argc, char **argv, void *values, int *first);

/* A number with k, M, G, T, P as powers of `base` (1000 or 1024: then KiB, GB ... too). */
bool cli_parse_scaled(const char *text, double base, double *out);

/* The percentage that an option was given, "3%", "3 %" or "2.5"; NAN where `text` is NULL. 0, or 2
 * after a message. */
int cli_percent(const char *command, const char *option, const char *text, double *pct);

/* Prints "usage: ...", what the command does, its options, examples. */
void cli_spec_print(FILE *out, const char *command, const struct cli_spec *spec);

/* The word of `words` (ends with NULL) that is closest to `typed`, or NULL if none is close. */
const char *cli_closest(const char *typed, const char *const *words);

#endif
