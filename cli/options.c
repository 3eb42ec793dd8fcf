/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/message.h"

#define OPTIONS_MAX 32

/* ---- did you mean --------------------------------------------------------------------------------------------------------- */

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b; words longer than 31 are
 * never close. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int d[32][32];
    if (n > 31 || m > 31)
        return 99;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = (int)(i + j);
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *cli_closest(const char *typed, const char *const *words)
{
    const char *best = NULL;
    size_t length = strlen(typed);
    int least = length <= 3 ? 2 : 3; /* one edit in a short word, two in a long one */
    for (; *words; words++) {
        int d = distance(typed, *words);
        if (d < least || (length >= 3 && !best && !strncmp(typed, *words, length))) {
            best = *words;
            least = d < least ? d : least;
        }
    }
    return best;
}

/* ---- values --------------------------------------------------------------------------------------------------------------- */

/* A number with an optional unit letter; base 1000 or 1024. Returns false if the text is something
 * else. */
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

static bool parse_integer(const char *text, const char *stop, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    *out = v;
    return end != text && end == stop && !errno && text[0] != ' ';
}

static bool parse_range(const char *text, struct cli_range *range)
{
    const char *colon = strchr(text, ':');
    *range = (struct cli_range){.set = true, .from = 0, .to = INT64_MAX};
    if (!colon) { /* one step */
        bool ok = parse_integer(text, text + strlen(text), &range->from) && range->from >= 0;
        range->to = range->from;
        return ok;
    }
    if (colon != text && !parse_integer(text, colon, &range->from))
        return false;
    if (colon[1] && !parse_integer(colon + 1, text + strlen(text), &range->to))
        return false;
    return text[1] && range->from >= 0 && range->to >= range->from;
}

static bool is_choice(const char *text, const char *choices)
{
    size_t n = strlen(text);
    for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (n && !strncmp(c, text, n) && (c[n] == '|' || !c[n]))
            return true;
    return false;
}

/* "did you mean 'stacks'? it takes perfetto, folded, stacks, csv" */
static void choice_hint(char *hint, size_t size, const char *text, const char *choices)
{
    char list[160], shown[200] = "";
    const char *words[OPTIONS_MAX + 1];
    size_t n = 0, used = 0;
    snprintf(list, sizeof list, "%s", choices);
    for (char *save, *w = strtok_r(list, "|", &save); w && n < OPTIONS_MAX;
         w = strtok_r(NULL, "|", &save)) {
        words[n++] = w;
        used += (size_t)snprintf(shown + used, sizeof shown - used, "%s%s", used ? ", " : "", w);
    }
    words[n] = NULL;
    const char *close = cli_closest(text, words);
    if (close)
        snprintf(hint, size, "did you mean '%s'? it takes %s", close, shown);
    else
        snprintf(hint, size, "it takes %s", shown);
}

/* Puts one value in its place. 0, or 2 after a message. */
static int set_value(const char *command, const struct cli_option *option, const char *text,
                     void *values)
{
    char *place = (char *)values + option->offset, hint[300];
    double number;
    int64_t integer;
    switch (option->kind) {
    case CLI_FLAG:
    case CLI_FLAG_OFF:
        *(bool *)(void *)place = option->kind == CLI_FLAG;
        return 0;
    case CLI_TEXT:
        if (!*text)
            return cli_usage(command, NULL, "--%s: is empty", option->name);
        *(const char **)(void *)place = text;
        return 0;
    case CLI_INT:
        if (!parse_integer(text, text + strlen(text), &integer) || (double)integer < option->low ||
            (double)integer > option->high)
            break;
        *(int64_t *)(void *)place = integer;
        return 0;
    case CLI_NUMBER:
        if (!cli_parse_scaled(text, 1000, &number) || number < option->low || number > option->high)
            break;
        *(double *)(void *)place = number;
        return 0;
    case CLI_SIZE:
        if (!cli_parse_scaled(text, 1024, &number) || number < option->low || number > option->high)
            break;
        *(int64_t *)(void *)place = (int64_t)number;
        return 0;
    case CLI_RANGE:
        if (parse_range(text, (struct cli_range *)(void *)place))
            return 0;
        return cli_usage(command, "both ends are included: 10:20, 10:, :20, or one number",
                         "--%s: '%s' is not a range", option->name, text);
    case CLI_MAYBE:
        if (!*text) {
            *(const char **)(void *)place = "";
            return 0;
        }
        /* fall through */
    case CLI_CHOICE:
        if (!is_choice(text, option->argument)) {
            choice_hint(hint, sizeof hint, text, option->argument);
            return cli_usage(command, hint, "--%s: '%s' is not a choice", option->name, text);
        }
        *(const char **)(void *)place = text;
        return 0;
    }
    if (option->kind == CLI_SIZE)
        snprintf(hint, sizeof hint, "give bytes, or a number with K, M, G or T");
    else
        snprintf(hint, sizeof hint, "give a %snumber from %.15g to %.15g",
                 option->kind == CLI_INT ? "whole " : "", option->low, option->high);
    return cli_usage(command, hint, "--%s: '%s' is not a value it takes", option->name, text);
}

/* ---- parsing ---------------------------------------------------------------------------------------------------------------- */

/* As getopt_long wants it. */
static int takes_argument(const struct cli_option *option)
{
    return option->kind == CLI_FLAG || option->kind == CLI_FLAG_OFF ? no_argument
           : option->kind == CLI_MAYBE                              ? optional_argument
                                                                    : required_argument;
}

/* Several options begin with what was typed. Whether there are any is told by the caller. */
static int ambiguous(const char *command, const char *typed, const char *plain,
                     const char *const *words)
{
    char hint[300] = "it may be";
    size_t used = strlen(hint);
    for (; *words && used < sizeof hint; words++)
        if (!strncmp(*words, plain, strlen(plain)))
            used += (size_t)snprintf(hint + used, sizeof hint - used, " --%s", *words);
    return cli_usage(command, hint, "option '%s' is not the beginning of one option only", typed);
}

static int unknown_option(const struct cli_spec *spec, const char *command, const char *typed)
{
    const char *words[OPTIONS_MAX + 2], *name = typed;
    char plain[64], hint[300];
    size_t begin = 0;
    size_t n = 0;
    words[n++] = "help";
    for (const struct cli_option *option = spec->options; option && option->name; option++)
        words[n++] = option->name;
    words[n] = NULL;
    while (*name == '-')
        name++;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "="), name);
    bool is_long = typed[0] == '-' && typed[1] == '-';
    for (size_t i = 0; is_long && *plain && i < n; i++)
        begin += !strncmp(words[i], plain, strlen(plain));
    if (begin > 1)
        return ambiguous(command, typed, plain, words);
    const char *close = is_long ? cli_closest(plain, words) : NULL;
    char *file = access(typed, F_OK) ? NULL : cli_shell_word(typed);
    if (file) /* a name, ./-name then */
        snprintf(hint, sizeof hint,
                 "if the file of that name is meant: %s; 'tacho %s --help' lists the options", file,
                 command);
    else if (close)
        snprintf(hint, sizeof hint, "did you mean '--%s'? 'tacho %s --help' lists all", close,
                 command);
    else
        snprintf(hint, sizeof hint, "'tacho %s --help' lists the options", command);
    free(file);
    return cli_usage(command, hint, "unknown option '%s'", typed);
}

static bool is_with_value(const char *typed, const char *name)
{
    size_t n = strcspn(typed, "=");
    return n > 2 && typed[n] && !strncmp(typed, "--", 2) && !strncmp(typed + 2, name, n - 2);
}

static int refused(const struct cli_spec *spec, const char *command, char **argv, int at, int got)
{
    char letter[3] = {'-', (char)optopt, 0}, hint[200];
    bool is_long = !strncmp(argv[at], "--", 2);
    const char *typed = optopt && optopt < 256 && !is_long ? letter : argv[at];
    for (const struct cli_option *option = spec->options; got == ':' && option && option->name;
         option++)
        if (is_long ? optopt == 257 + (int)(option - spec->options) : option->letter == optopt) {
            snprintf(hint, sizeof hint, "--%s=%s: %s", option->name, option->argument,
                     option->help);
            return cli_usage(command, hint, "option '%s' needs a value",
                             is_long ? argv[at] : letter);
        }
    for (const struct cli_option *option = spec->options; option && option->name;
         option++) /* --flag=value */
        if (!takes_argument(option) && optopt == 257 + (int)(option - spec->options))
            return cli_usage(command, NULL, "option '--%s' takes no value", option->name);
    if (optopt == 'h' && is_with_value(argv[at], "help"))
        return cli_usage(command, NULL, "option '--help' takes no value");
    const char *self =
        access(argv[at], F_OK) ? typed : argv[at]; /* -x of -x.tacho: the whole word is a file */
    return unknown_option(spec, command, self);
}

int cli_parse(const struct cli_spec *spec, int argc, char **argv, void *values, int *first)
{
    struct option table[OPTIONS_MAX + 2];
    char letters[2 * OPTIONS_MAX + 8];
    const char *command = argv[0];
    int n = 0, got;
    char *l = letters;
    if (spec->stop_at_first)
        *l++ = '+';
    *l++ = ':';
    *l++ = 'h';
    table[n++] = (struct option){"help", no_argument, NULL, 'h'};
    for (const struct cli_option *option = spec->options; option && option->name; option++) {
        /* values from 256 up cannot be mistaken for letters */
        table[n] = (struct option){option->name, takes_argument(option), NULL, 256 + n};
        n++;
        if (option->letter) {
            *l++ = option->letter;
            if (takes_argument(option) == required_argument)
                *l++ = ':';
        }
    }
    table[n] = (struct option){0};
    *l = 0;
    optind = 0; /* starts afresh */
    opterr = 0;
    for (int at = 1; (got = getopt_long(argc, argv, letters, table, NULL)) != -1; at = optind) {
        if (got == 'h') {
            const struct cli_command *c = cli_command_find(command);
            cli_spec_print(stdout, command, c ? c->help : "", spec);
            return 0;
        }
        const struct cli_option *option = NULL;
        if (got >= 256)
            option = &spec->options[got - 257];
        else
            for (option = spec->options; option && option->name && option->letter != got; option++)
                ;
        if (got == '?' || got == ':' || !option || !option->name)
            return refused(spec, command, argv, optind > at ? optind - 1 : at, got);
        int code = set_value(command, option, optarg ? optarg : "", values);
        if (code)
            return code;
    }
    *first = optind;
    int words = argc - optind;
    char hint[200];
    snprintf(hint, sizeof hint, "usage: tacho %s %s", command, spec->usage);
    if (words < spec->least)
        return cli_usage(command, hint, "missing: %s", spec->words_missing);
    if (spec->most >= 0 && words > spec->most)
        return cli_usage(command, hint, "one word too many: '%s'", argv[optind + spec->most]);
    return -1;
}

/* ---- help ------------------------------------------------------------------------------------------------------------------ */

static void print_option(FILE *out, char letter, const char *name, const char *argument, bool maybe,
                         const char *help)
{
    char left[64], short_name[8] = "    ";
    if (letter)
        snprintf(short_name, sizeof short_name, "-%c, ", letter);
    const char *equals = !argument ? "" : maybe ? "[=" : "=";
    snprintf(left, sizeof left, "%s--%s%s%s%s", short_name, name, equals, argument ? argument : "",
             maybe ? "]" : "");
    fprintf(out, "  %-31s %s\n", left, help);
}

void cli_spec_print(FILE *out, const char *command, const char *help, const struct cli_spec *spec)
{
    fprintf(out, "tacho %s: %s\n\nusage: tacho %s %s\n", command, help, command, spec->usage);
    if (spec->about)
        fprintf(out, "\n%s\n", spec->about);
    fprintf(out, "\noptions:\n");
    for (const struct cli_option *option = spec->options; option && option->name; option++)
        print_option(out, option->letter, option->name, option->argument, option->kind == CLI_MAYBE,
                     option->help);
    print_option(out, 'h', "help", NULL, false, "this text");
    if (spec->examples)
        fprintf(out, "\nexamples:\n%s\n", spec->examples);
}
