/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: a command with parameters in it, as `tacho tune` takes it: a word may hold
 * {NAME:VALUES} any number of times, and {NAME} again. VALUES are "1,2,4" (words or numbers),
 * "1..8" (whole numbers) or "1..64:log2" (powers of two times the first); "=2" at the end says
 * which one is set now, else it is the first. {64/NAME} is 64 divided by the value of a parameter
 * before it: a micro-batch is tuned while what is trained stays the same.
 */
#ifndef CLI_TUNE_TEMPLATE_H
#define CLI_TUNE_TEMPLATE_H

#include "tuner/space.h"

struct cli_template {
    char **word; /* of the user */
    int words;
    struct tuner_space space;    /* all combinations */
    size_t start;                /* the configuration that is set now */
    bool held[TUNER_DIMENSIONS]; /* the product of the parameter and another word stays the same */
};

/* Reads the parameters of a command, a list that ends with NULL. 0, or an exit code after a
 * message. */
int cli_template_read(char **words, struct cli_template *out);
void cli_template_clear(struct cli_template *command);
/* The words of a configuration, a list that ends with NULL, freed with cli_template_free; NULL: no
 * memory. */
char **cli_template_words(const struct cli_template *command, size_t configuration);
void cli_template_free(char **words);
/* A parameter whose name says that it changes what is trained (batch, dtype, precision ...) and
 * whose product with another word is not held; NULL: none does. */
const char *cli_template_changes(const struct cli_template *command);

#endif
