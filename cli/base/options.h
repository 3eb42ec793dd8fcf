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

/* Fills `values` from argv. Returns -1 to go on (argv[*first] is the first word that is no option),
 * else the exit code with which the command has to end: 0 after --help, 2 after a message. */
int cli_parse(const struct cli_spec *spec, int argc, char **argv, void *values, int *first);

/* A number with k, M, G, T, P as powers of `base` (1000 or 1024: then KiB, GB ... too). */
bool cli_parse_scaled(const char *text, double base, double *out);

/* Prints "usage: ...", what the command does, its options, examples. */
void cli_spec_print(FILE *out, const char *command, const struct cli_spec *spec);

/* The word of `words` (ends with NULL) that is closest to `typed`, or NULL if none is close. */
const char *cli_closest(const char *typed, const char *const *words);

#endif
