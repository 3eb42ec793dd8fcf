/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the command line of a command from its table of options. getopt_long does the splitting;
 * this file checks values, and says in a message what was wrong and what the user may have meant.
 */
#include "cli/base/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/base/message.h"

#define OPTIONS_MAX  48  /* of a command; 60_cli_messages.sh finds one that has more */
#define FIRST_NUMBER 257 /* of options for getopt_long: not to be mistaken for letters */

/* ---- did you mean --------------------------------------------------------------------------------------------------------- */

static int least_of(int left, int right)
{
    return left < right ? left : right;
}

/* Number of edits (insert, delete, replace, swap of neighbours) that turn one word into the other.
 * edits[i][j] is the number for the first i and j characters. Words longer than 31 are never
 * close. */
static int distance(const char *typed, const char *word)
{
    size_t typed_length = strlen(typed), length = strlen(word);
    int edits[32][32];
    if (typed_length > 31 || length > 31)
        return 99;
    for (size_t i = 0; i <= typed_length; i++)
        for (size_t j = 0; j <= length; j++) {
            if (!i || !j) {
                edits[i][j] = (int)(i + j);
                continue;
            }
            int best = edits[i - 1][j - 1] + (typed[i - 1] != word[j - 1]);
            best = least_of(best, edits[i - 1][j] + 1);
            best = least_of(best, edits[i][j - 1] + 1);
            if (i > 1 && j > 1 && typed[i - 1] == word[j - 2] && typed[i - 2] == word[j - 1])
                best = least_of(best, edits[i - 2][j - 2] + 1);
            edits[i][j] = best;
        }
    return edits[typed_length][length];
}

const char *cli_closest(const char *typed, const char *const *words)
{
    const char *best = NULL;
    size_t length = strlen(typed);
    int least = length <= 3 ? 2 : 3; /* one edit in a short word, two in a long one */
    for (; *words; words++) {
        int edits = distance(typed, *words);
        /* As long as no word is close, one that begins with what was typed is. */
        if (edits < least || (length >= 3 && !best && !strncmp(typed, *words, length))) {
            best = *words;
            least = least_of(least, edits);
        }
    }
    return best;
}

/* ---- values --------------------------------------------------------------------------------------------------------------- */

int cli_percent(const char *command, const char *option, const char *text, double *pct)
{
    char *end = NULL;
    *pct = NAN;
    if (!text)
        return 0;
    errno = 0;
    *pct = strtod(text, &end);
    bool number = end != text && !errno && isfinite(*pct);
    end += strspn(end, " ");
    end += *end == '%';
    if (!number || *end || *pct < 0 || *pct > 1e6 || strchr(text, 'x'))
        return cli_usage(command, "give a percentage, for example 3%",
                         "--%s: '%s' is not a percentage", option, text);
    return 0;
}

bool cli_parse_scaled(const char *text, double base, double *out)
{
    static const char units[] = "kMGTP";
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    if (end == text || !isfinite(*out))
        return false;
    for (size_t i = 0; *end && i < sizeof units - 1; i++)
        if (*end == units[i] || (i == 0 && *end == 'K') || (i && *end == units[i] + 32)) {
            *out *= pow(base, (double)i + 1);
            end++;
            if (base == 1024 && *end == 'i') /* GiB, GB: the same here */
                end++;
            if (base == 1024 && *end == 'B')
                end++;
            break;
        }
    return !*end;
}

/* A whole number that ends at `stop`. */
static bool parse_integer(const char *text, const char *stop, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && end == stop && !errno && text[0] != ' ';
}

static bool parse_one(const char *text, struct cli_range *range)
{
    bool ok = parse_integer(text, text + strlen(text), &range->from) && range->from >= 0;
    range->to = range->from;
    return ok;
}

/* FROM:TO, FROM:, :TO, or one index. */
static bool parse_range(const char *text, struct cli_range *range)
{
    const char *colon = strchr(text, ':');
    *range = (struct cli_range){.set = true, .from = 0, .to = INT64_MAX};
    if (!colon)
        return parse_one(text, range);
    if (colon != text && !parse_integer(text, colon, &range->from))
        return false;
    if (colon[1] && !parse_integer(colon + 1, text + strlen(text), &range->to))
        return false;
    return text[1] && range->from >= 0 && range->to >= range->from;
}

/* Is the text one of the words "a|b|c"? */
static bool is_choice(const char *text, const char *choices)
{
    size_t length = strlen(text);
    while (length && choices) {
        if (!strncmp(choices, text, length) && (choices[length] == '|' || !choices[length]))
            return true;
        choices = strchr(choices, '|');
        choices += choices != NULL;
    }
    return false;
}

/* "did you mean 'stacks'? possible values: perfetto, folded, stacks, csv" */
static void choice_hint(char *hint, size_t size, const char *text, const char *choices)
{
    char list[160], shown[200] = "";
    const char *words[OPTIONS_MAX + 1];
    size_t count = 0, used = 0;
    snprintf(list, sizeof list, "%s", choices);
    for (char *save, *word = strtok_r(list, "|", &save); word && count < OPTIONS_MAX;
         word = strtok_r(NULL, "|", &save)) {
        words[count++] = word;
        used += (size_t)snprintf(shown + used, sizeof shown - used, "%s%s", used ? ", " : "", word);
    }
    words[count] = NULL;
    const char *close = cli_closest(text, words);
    if (close)
        snprintf(hint, size, "did you mean '%s'? possible values: %s", close, shown);
    else
        snprintf(hint, size, "possible values: %s", shown);
}

static int refuse_number(const char *command, const struct cli_option *option, const char *text)
{
    char hint[300];
    if (option->kind == CLI_SIZE)
        snprintf(hint, sizeof hint, "give bytes, or a number with K, M, G or T");
    else
        snprintf(hint, sizeof hint, "give a %snumber from %.15g to %.15g",
                 option->kind == CLI_INT ? "whole " : "", option->low, option->high);
    return cli_usage(command, hint, "--%s: invalid value '%s'", option->name, text);
}

/* Stores the number that `text` holds, if it is one within the limits of `option`. 0, or 2 after a
 * message. */
static int set_number(const char *command, const struct cli_option *option, const char *text,
                      void *place)
{
    double number;
    int64_t integer = 0;
    bool ok;
    if (option->kind == CLI_INT) {
        ok = parse_integer(text, text + strlen(text), &integer);
        number = (double)integer;
    } else {
        ok = cli_parse_scaled(text, option->kind == CLI_SIZE ? 1024 : 1000, &number);
    }
    if (!ok || number < option->low || number > option->high) {
        return refuse_number(command, option, text);
    }
    if (option->kind == CLI_NUMBER)
        *(double *)place = number;
    else
        *(int64_t *)place = option->kind == CLI_INT ? integer : (int64_t)number;
    return 0;
}

/* 0, or 2 after a message that says what is wrong with the expression. */
static int check_regex(const char *command, const struct cli_option *option, const char *text)
{
    regex_t expression;
    char hint[200];
    int wrong = regcomp(&expression, text, REG_EXTENDED | REG_NOSUB);
    if (wrong) {
        regerror(wrong, &expression, hint, sizeof hint);
        return cli_usage(command, hint, "--%s: '%s' is not a regular expression", option->name,
                         text);
    }
    regfree(&expression);
    return 0;
}

/* Stores the value `text` of an option in the command's struct. 0, or 2 after a message. */
static int set_value(const char *command, const struct cli_option *option, const char *text,
                     void *values)
{
    void *place = (char *)values + option->offset;
    char hint[300];
    switch (option->kind) {
    case CLI_FLAG:
    case CLI_FLAG_OFF:
        *(bool *)place = option->kind == CLI_FLAG;
        return 0;
    case CLI_INT:
    case CLI_NUMBER:
    case CLI_SIZE:
        return set_number(command, option, text, place);
    case CLI_RANGE:
        if (parse_range(text, place))
            return 0;
        return cli_usage(command, "both ends are included: 10:20, 10:, :20, or one number",
                         "--%s: invalid range '%s'", option->name, text);
    case CLI_TEXT:
    case CLI_REGEX:
        if (!*text)
            return cli_usage(command, NULL, "--%s: the value is empty", option->name);
        if (option->kind == CLI_REGEX && check_regex(command, option, text))
            return 2;
        break;
    case CLI_MAYBE:
        if (!*text)
            break;
        /* fall through */
    case CLI_CHOICE:
        if (!is_choice(text, option->argument)) {
            choice_hint(hint, sizeof hint, text, option->argument);
            return cli_usage(command, hint, "--%s: invalid value '%s'", option->name, text);
        }
    }
    *(const char **)place = text;
    return 0;
}

/* ---- parsing ---------------------------------------------------------------------------------------------------------------- */

/* As getopt_long wants it. */
static int takes_argument(const struct cli_option *option)
{
    if (option->kind == CLI_FLAG || option->kind == CLI_FLAG_OFF)
        return no_argument;
    return option->kind == CLI_MAYBE ? optional_argument : required_argument;
}

/* Lists the options that begin with what was typed; the caller knows that there are several. */
static int ambiguous(const char *command, const char *typed, const char *plain,
                     const char *const *words)
{
    char hint[300] = "it can be";
    size_t used = strlen(hint);
    for (; *words && used < sizeof hint; words++)
        if (!strncmp(*words, plain, strlen(plain)))
            used += (size_t)snprintf(hint + used, sizeof hint - used, " --%s", *words);
    return cli_usage(command, hint, "ambiguous option '%s'", typed);
}

/* What the user may have meant: a file of this name, or the option `close` if there is one. */
static void unknown_hint(char *hint, size_t size, const char *command, const char *typed,
                         const char *close)
{
    char *file = access(typed, F_OK) ? NULL : cli_shell_word(typed);
    if (file) /* a name, ./-name then */
        snprintf(hint, size, "for the file of this name: %s; 'tacho %s --help' lists the options",
                 file, command);
    else if (close)
        snprintf(hint, size, "did you mean '--%s'? 'tacho %s --help' lists all", close, command);
    else
        snprintf(hint, size, "'tacho %s --help' lists the options", command);
    free(file);
}

/* Says that there is no such option, and what was meant: the beginning of several options, a file
 * whose name starts with a dash, or the closest name. Returns the exit code. */
static int unknown_option(const struct cli_spec *spec, const char *command, const char *typed)
{
    const char *words[OPTIONS_MAX + 2], *name = typed;
    char plain[64], hint[300];
    size_t matches = 0, count = 0;
    words[count++] = "help";
    CLI_EACH_OPTION(option, spec)
        words[count++] = option->name;
    words[count] = NULL;
    while (*name == '-')
        name++;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "="), name);
    bool is_long = typed[0] == '-' && typed[1] == '-';
    for (size_t i = 0; is_long && *plain && i < count; i++)
        matches += !strncmp(words[i], plain, strlen(plain));
    if (matches > 1)
        return ambiguous(command, typed, plain, words);
    unknown_hint(hint, sizeof hint, command, typed, is_long ? cli_closest(plain, words) : NULL);
    return cli_usage(command, hint, "unknown option '%s'", typed);
}

/* Is it --NAME=VALUE, with NAME or a beginning of it? */
static bool is_with_value(const char *typed, const char *name)
{
    size_t length = strcspn(typed, "=");
    return length > 2 && typed[length] && !strncmp(typed, "--", 2) &&
           !strncmp(typed + 2, name, length - 2);
}

/* Says why getopt_long refused the word `typed`: it returned `got`, and `optopt` is the letter or
 * number of the option. Returns the exit code. */
static int refused(const struct cli_spec *spec, const char *command, const char *typed, int got)
{
    char letter[3] = {'-', (char)optopt, 0}, hint[200];
    bool is_long = !strncmp(typed, "--", 2);
    CLI_EACH_OPTION(option, spec) {
        bool same_number = optopt == FIRST_NUMBER + (int)(option - spec->options);
        if (got == ':' && (is_long ? same_number : option->letter == optopt)) {
            snprintf(hint, sizeof hint, "--%s=%s: %s", option->name, option->argument,
                     option->help);
            return cli_usage(command, hint, "option '%s' needs a value", is_long ? typed : letter);
        }
        if (same_number && !takes_argument(option)) /* --flag=value */
            return cli_usage(command, NULL, "option '--%s' takes no value", option->name);
    }
    if (optopt == 'h' && is_with_value(typed, "help"))
        return cli_usage(command, NULL, "option '--help' takes no value");
    /* Of -x.tacho getopt complains about -x, but if there is such a file the whole word is meant.
     */
    bool is_letter = optopt && optopt < 256 && !is_long && access(typed, F_OK);
    return unknown_option(spec, command, is_letter ? letter : typed);
}

/* Writes the options of `spec` as getopt_long takes them. */
static void getopt_tables(const struct cli_spec *spec, struct option *table, char *letters)
{
    if (spec->stop_at_first)
        *letters++ = '+';
    *letters++ = ':';
    *letters++ = 'h';
    *table++ = (struct option){"help", no_argument, NULL, 'h'};
    int number = FIRST_NUMBER;
    CLI_EACH_OPTION(option, spec) {
        if (number == FIRST_NUMBER + OPTIONS_MAX)
            break;
        *table++ = (struct option){option->name, takes_argument(option), NULL, number++};
        if (option->letter) {
            *letters++ = option->letter;
            if (takes_argument(option) == required_argument)
                *letters++ = ':';
        }
    }
    *table = (struct option){0};
    *letters = 0;
}

/* The option that getopt_long returned, or NULL for '?' and ':', which mean that it refused. */
static const struct cli_option *option_of(const struct cli_spec *spec, int got)
{
    if (got >= FIRST_NUMBER)
        return &spec->options[got - FIRST_NUMBER];
    CLI_EACH_OPTION(option, spec)
        if (option->letter == got)
            return option;
    return NULL;
}

/* Refuses too few or too many words behind the options. Returns -1 if their number fits. */
static int check_words(const struct cli_spec *spec, const char *command, int count, char **words)
{
    char hint[200];
    snprintf(hint, sizeof hint, "usage: tacho %s %s", command, spec->usage);
    if (count < spec->least)
        return cli_usage(command, hint, "missing: %s", spec->words_missing);
    if (spec->most >= 0 && count > spec->most)
        return cli_usage(command, hint, "unexpected argument '%s'", words[spec->most]);
    return -1;
}

int cli_parse(const struct cli_spec *spec, int argc, char **argv, void *values, int *first)
{
    struct option table[OPTIONS_MAX + 2];
    char letters[2 * OPTIONS_MAX + 8];
    const char *command = argv[0];
    int got;
    getopt_tables(spec, table, letters);
    optind = 0; /* starts afresh */
    opterr = 0;
    for (int at = 1; (got = getopt_long(argc, argv, letters, table, NULL)) != -1; at = optind) {
        if (got == 'h') {
            cli_spec_print(stdout, command, spec);
            return 0;
        }
        const struct cli_option *option = option_of(spec, got);
        if (!option)
            return refused(spec, command, argv[optind > at ? optind - 1 : at], got);
        int code = set_value(command, option, optarg ? optarg : "", values);
        if (code)
            return code;
    }
    *first = optind;
    return check_words(spec, command, argc - optind, argv + optind);
}

/* ---- help ------------------------------------------------------------------------------------------------------------------ */

/* Prints one option as --help shows it. */
static void print_option(FILE *out, const struct cli_option *option)
{
    char left[64], letter[8] = "    ", value[64] = "";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    if (option->argument)
        snprintf(value, sizeof value, option->kind == CLI_MAYBE ? "[=%s]" : "=%s",
                 option->argument);
    snprintf(left, sizeof left, "%s--%s%s", letter, option->name, value);
    fprintf(out, "  %-31s %s\n", left, option->help);
}

void cli_spec_print(FILE *out, const char *command, const struct cli_spec *spec)
{
    static const struct cli_option help = {
        .name = "help", .letter = 'h', .help = "print this text"};
    fprintf(out, "tacho %s: %s\n\nusage: tacho %s %s\n", command, spec->help, command, spec->usage);
    if (spec->about)
        fprintf(out, "\n%s\n", spec->about);
    fprintf(out, "\noptions:\n");
    CLI_EACH_OPTION(option, spec)
        print_option(out, option);
    print_option(out, &help);
    if (spec->examples)
        fprintf(out, "\nexamples:\n%s\n", spec->examples);
}
