/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kernel classes (classes.h): reading it, and matching names against it. Matching
 * hundreds of expressions against each name would be slow, so each pattern is split at its
 * outermost bars, and of every part the longest text that all its matches contain is looked up
 * first: all parts at once, in one pass over the name, with a hash of three letters. Only parts
 * whose text is in the name are tried as expressions.
 */
#include "analyzers/device/classes.h"

#include <ctype.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"

#define GRAM    3    /* letters of a text that are hashed */
#define BUCKETS 4096 /* a power of two */
#define NO_PART UINT32_MAX

static const char built_in[] =
#include "classes.inc"
    ;

/* One line of the table. */
struct line {
    bool decides; /* has a class */
    enum an_device_class class;
    int matrix_unit;
    const char *dtype;
};

/* A pattern, or the part of it between two of its outermost bars. */
struct part {
    uint32_t line, next; /* next: of the same bucket */
    const char *pattern; /* the expression */
    const char *literal; /* text that every match holds; NULL: none of GRAM letters */
    size_t length;
    /* Plain: the expression is this text and nothing else; anchored: at the name's start. */
    bool plain, anchored;
    bool compiled, broken;
    regex_t re;
};

struct an_classes {
    struct an_arena *arena;
    struct line *line;
    size_t lines, line_room;
    struct part *part;
    size_t parts, part_room;
    uint8_t *seen;            /* of each part: its text is in the name */
    uint32_t bucket[BUCKETS]; /* first part whose text begins with letters of this hash */
};

const char *an_device_class_key(enum an_device_class class)
{
    static const char *const keys[] = {
#define CLASS_KEY(name, key) key,
        AN_DEVICE_CLASS_MAP(CLASS_KEY)
#undef CLASS_KEY
    };
    return class < AN_DEVICE_CLASS_COUNT ? keys[class] : "";
}

/* ---- patterns ------------------------------------------------------------------------------------------------------------ */

/* Returns the end of the bracket expression that begins at `at` ("[]a-z]", "[[:alpha:]_]"). */
static const char *skip_bracket(const char *at)
{
    at++;
    at += *at == '^';
    at += *at == ']';
    while (*at && *at != ']') {
        if (*at == '[' && (at[1] == ':' || at[1] == '.' || at[1] == '=')) {
            const char *end = strchr(at + 2, at[1]);
            while (end && end[1] != ']')
                end = strchr(end + 1, at[1]);
            at = end ? end + 1 : at;
        }
        at++;
    }
    return *at ? at + 1 : at;
}

/* Returns the end of the group that begins at `at`, or the end of the text. */
static const char *skip_group(const char *at)
{
    int depth = 0;
    while (*at) {
        if (*at == '\\' && at[1]) {
            at += 2;
            continue;
        }
        if (*at == '[') {
            at = skip_bracket(at);
            continue;
        }
        depth += *at == '(';
        depth -= *at == ')';
        at++;
        if (!depth)
            break;
    }
    return at;
}

/* Returns the end of the part of a pattern that begins at `at`: the next bar that is in no group,
 * or the end of the pattern. */
static const char *part_end(const char *at)
{
    while (*at && *at != '|') {
        if (*at == '\\' && at[1])
            at += 2;
        else if (*at == '[')
            at = skip_bracket(at);
        else if (*at == '(')
            at = skip_group(at);
        else
            at++;
    }
    return at;
}

/* Returns the end of the piece of a pattern that begins at `at`: a repetition, a bracket
 * expression, a group, or one character. */
static const char *skip_piece(const char *at)
{
    if (*at == '[')
        return skip_bracket(at);
    if (*at == '(')
        return skip_group(at);
    if (*at == '{')
        at += strcspn(at, "}");
    return at + (*at != 0);
}

/* Texts of letters that follow each other: the longest so far, and the one being read. */
struct run {
    char *best, *now;
    size_t length, at;
};

static void run_close(struct run *run)
{
    if (run->at > run->length) {
        memcpy(run->best, run->now, run->at);
        run->length = run->at;
    }
    run->at = 0;
}

/* Finds the longest text that every match of the part contains. A letter before *, ? or { is
 * optional, so it ends the text and is not part of it. */
static int part_literal(struct an_classes *classes, struct part *part)
{
    size_t size = strlen(part->pattern);
    struct run run = {.best = an_arena_zero(classes->arena, size + 1, 1),
                      .now = an_arena_zero(classes->arena, size + 1, 1)};
    const char *at = part->pattern;
    if (!run.best || !run.now)
        return TACHO_ENOMEM;
    part->anchored = *at == '^';
    at += part->anchored;
    part->plain = true;
    while (*at) {
        bool escaped = *at == '\\' && at[1];
        if (escaped ? ispunct((unsigned char)at[1]) && !strchr("<>`'", at[1])
                    : !strchr("[(.^$*?+{)", *at)) {
            run.now[run.at++] = at[escaped];
            at += 1 + escaped;
            continue;
        }
        part->plain = false;
        at += escaped; /* \\w and the like */
        if (*at == '*' || *at == '?' || *at == '{')
            run.at -= run.at > 0;
        run_close(&run);
        at = skip_piece(at);
    }
    run_close(&run);
    part->plain = part->plain && run.length >= GRAM;
    part->literal = run.length >= GRAM ? run.best : NULL;
    part->length = run.length;
    return 0;
}

static unsigned gram_hash(const char *letters)
{
    uint32_t gram = (uint32_t)(unsigned char)letters[0] | (uint32_t)(unsigned char)letters[1] << 8 |
                    (uint32_t)(unsigned char)letters[2] << 16;
    return (gram * 2654435761u) >> 20 & (BUCKETS - 1);
}

#define COPIES_MOST 32767 /* POSIX: RE_DUP_MAX, of one repetition */

/* Returns whether the pattern repeats so often that regcomp would need gigabytes: nested
 * repetitions multiply, so 30 bytes of pattern are enough. `copies` is an upper bound of how often
 * the smallest piece is written out; it takes repetitions side by side for nested ones. */
static bool repeats_too_much(const char *at)
{
    long copies = 1;
    for (char before = 0; *at && copies <= COPIES_MOST; before = *at++) {
        if (*at == '\\' && at[1]) {
            at++;
        } else if (*at == '[') { /* to its end; a "]" at its beginning is one of its characters */
            at += at[1] == '^' ? 2 : 1;
            while (*at && at[1] && at[1] != ']')
                at++;
            at += at[0] && at[1];
        } else if (*at == '{') {
            char *end;
            long least = strtol(at + 1, &end, 10),
                 most = *end == ',' ? strtol(end + 1, NULL, 10) : 0;
            long most_of = an_time_max(1, an_time_max(least, most));
            copies *= most_of > COPIES_MOST ? COPIES_MOST + 1 : most_of;
        } else if (*at == '+' && before && strchr(")}+*?", before)) {
            copies *= 2;
        }
        if (!*at)
            break;
    }
    return copies > COPIES_MOST;
}

/* Splits the pattern of the last line at its outermost bars and appends the parts. Patterns of a
 * user (`check`) are compiled at once, so that an error names its line; the built-in ones are
 * compiled when a name first needs them. `why` gets the reason of TACHO_EFORMAT. */
static int add_parts(struct an_classes *classes, const char *pattern, bool check, char *why,
                     size_t size)
{
    for (const char *start = pattern;; start++) {
        const char *end = part_end(start);
        if (an_grow(&classes->part, &classes->part_room, classes->parts + 1, sizeof *classes->part))
            return TACHO_ENOMEM;
        struct part *part = &classes->part[classes->parts];
        *part = (struct part){.line = (uint32_t)(classes->lines - 1), .next = NO_PART};
        part->pattern = an_arena_format(classes->arena, "%.*s", (int)(end - start), start);
        if (part_literal(classes, part))
            return TACHO_ENOMEM;
        classes->parts++;
        if (check && repeats_too_much(part->pattern)) {
            snprintf(why, size, "repetitions of repetitions, more than %d copies", COPIES_MOST);
            return TACHO_EFORMAT;
        }
        int bad = check ? regcomp(&part->re, part->pattern, REG_EXTENDED | REG_NOSUB) : 0;
        if (bad) {
            regerror(bad, &part->re, why, size);
            return TACHO_EFORMAT;
        }
        part->compiled = check;
        start = end;
        if (!*start)
            return 0;
    }
}

/* ---- the table ----------------------------------------------------------------------------------------------------------- */

static bool class_named(const char *word, struct line *line)
{
    line->decides = strcmp(word, "-") != 0;
    if (!line->decides)
        return true;
    line->class = AN_DEVICE_OTHER;
    if (!strcmp(word, "other"))
        return true;
    for (int class = 0; class < AN_DEVICE_CLASS_COUNT; class ++)
        if (!strcmp(word, an_device_class_key((enum an_device_class) class))) {
            line->class = (enum an_device_class) class;
            return true;
        }
    return false;
}

/* Cuts the first field off a line; "-" where the line has ended. */
static const char *next_field(char **rest)
{
    char *start = *rest, *tab = start ? strchr(start, '\t') : NULL;
    if (tab)
        *tab = 0;
    *rest = tab ? tab + 1 : NULL;
    return start && *start ? start : "-";
}

/* Reads one line of a table: class, pattern, dtype and matrix unit, separated by tabs. Every error
 * says the number of the line and what is wrong in it. */
static int add_line(struct an_classes *classes, char *text, bool user, size_t number,
                    struct tacho_error *err)
{
    static const char hint[] = "a line is: class TAB pattern TAB dtype TAB matrix-unit; classes: "
                               "matrix, attention, other, memset, "
                               "fused, comm, copy, opaque";
    char why[160] = "";
    struct line line = {.matrix_unit = -1};
    const char *class = next_field(&text), *pattern = next_field(&text), *dtype = next_field(&text),
               *unit = next_field(&text);
    if (!class_named(class, &line))
        return tacho_fail(err, TACHO_EFORMAT, hint,
                          "table of kernel classes: line %zu: unknown class \"%.60s\"", number,
                          class);
    if (!strcmp(pattern, "-"))
        return tacho_fail(err, TACHO_EFORMAT, hint,
                          "table of kernel classes: line %zu: missing pattern", number);
    if (strcmp(unit, "yes") != 0 && strcmp(unit, "no") != 0 && strcmp(unit, "-") != 0)
        return tacho_fail(
            err, TACHO_EFORMAT, hint,
            "table of kernel classes: line %zu: matrix-unit is \"%.60s\", not yes, no or -", number,
            unit);
    if (strcmp(unit, "-") != 0)
        line.matrix_unit = !strcmp(unit, "yes");
    line.dtype = strcmp(dtype, "-") != 0 ? an_arena_text(classes->arena, dtype) : NULL;
    if (an_grow(&classes->line, &classes->line_room, classes->lines + 1, sizeof *classes->line))
        return tacho_fail(err, TACHO_ENOMEM, NULL, "table of kernel classes: out of memory");
    classes->line[classes->lines++] = line;
    int rc = add_parts(classes, pattern, user, why, sizeof why);
    if (rc == TACHO_EFORMAT)
        return tacho_fail(err, rc, hint,
                          "table of kernel classes: line %zu: pattern \"%.120s\": %s", number,
                          pattern, why);
    return rc ? tacho_fail(err, rc, NULL, "table of kernel classes: out of memory") : 0;
}

static int add_table(struct an_classes *classes, const char *table, bool user,
                     struct tacho_error *err)
{
    char *copy = an_arena_copy(classes->arena, table, strlen(table) + 1);
    if (!copy)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "table of kernel classes: out of memory");
    size_t number = 0;
    for (char *line = copy, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r')
            line[length - 1] = 0;
        int rc = *line && *line != '#' ? add_line(classes, line, user, number, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

int an_classes_new(const char *user, an_classes **out, struct tacho_error *err)
{
    struct an_classes *classes = calloc(1, sizeof *classes);
    *out = NULL;
    if (!classes || !(classes->arena = an_arena_new())) {
        free(classes);
        return tacho_fail(err, TACHO_ENOMEM, NULL, "table of kernel classes: out of memory");
    }
    int rc = user ? add_table(classes, user, true, err) : 0;
    if (!rc)
        rc = add_table(classes, built_in, false, err);
    if (!rc &&
        (an_arena_failed(classes->arena) || !(classes->seen = calloc(classes->parts + 1, 1))))
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "table of kernel classes: out of memory");
    if (rc) {
        an_classes_free(classes);
        return rc;
    }
    memset(classes->bucket, 0xff, sizeof classes->bucket);
    for (size_t i = classes->parts; i--;) {
        struct part *part = &classes->part[i];
        if (!part->literal)
            continue;
        unsigned hash = gram_hash(part->literal);
        part->next = classes->bucket[hash];
        classes->bucket[hash] = (uint32_t)i;
    }
    *out = classes;
    return 0;
}

void an_classes_free(an_classes *classes)
{
    if (!classes)
        return;
    for (size_t i = 0; i < classes->parts; i++)
        if (classes->part[i].compiled)
            regfree(&classes->part[i].re);
    an_arena_free(classes->arena);
    free(classes->line);
    free(classes->part);
    free(classes->seen);
    free(classes);
}

/* ---- matching ------------------------------------------------------------------------------------------------------------ */

/* Marks the parts whose text is in the name, and those that have no such text. */
static void mark_parts(const an_classes *classes, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < classes->parts; i++)
        classes->seen[i] = !classes->part[i].literal;
    for (size_t offset = 0; offset + GRAM <= length; offset++)
        for (uint32_t i = classes->bucket[gram_hash(name + offset)]; i != NO_PART;
             i = classes->part[i].next) {
            const struct part *part = &classes->part[i];
            if (part->length <= length - offset &&
                !memcmp(name + offset, part->literal, part->length) &&
                !(part->plain && part->anchored && offset))
                classes->seen[i] = 1;
        }
}

static bool part_matches(const an_classes *classes, size_t i, const char *name)
{
    struct part *part = &classes->part[i];
    if (!classes->seen[i] || part->plain || part->broken)
        return classes->seen[i] && part->plain;
    if (!part->compiled) {
        part->compiled = !regcomp(&part->re, part->pattern, REG_EXTENDED | REG_NOSUB);
        part->broken = !part->compiled;
    }
    return part->compiled && !regexec(&part->re, name, 0, NULL, 0);
}

/* Adds what lines of the class "-" say of the dtype and the matrix unit, as far as the line that
 * decided the class did not say it. */
static void find_arithmetic(const an_classes *classes, const char *name,
                            struct an_name_class *name_class)
{
    for (size_t i = 0; i < classes->parts && (!name_class->dtype || name_class->matrix_unit < 0);
         i++) {
        const struct line *line = &classes->line[classes->part[i].line];
        bool news = (line->dtype && !name_class->dtype) ||
                    (line->matrix_unit >= 0 && name_class->matrix_unit < 0);
        if (line->decides || !news || !part_matches(classes, i, name))
            continue;
        name_class->dtype = name_class->dtype ? name_class->dtype : line->dtype;
        name_class->matrix_unit =
            name_class->matrix_unit < 0 ? line->matrix_unit : name_class->matrix_unit;
    }
}

struct an_name_class an_class_of(const an_classes *classes, const char *name)
{
    struct an_name_class name_class = {.class = AN_DEVICE_OTHER, .matrix_unit = -1};
    mark_parts(classes, name);
    for (size_t i = 0; i < classes->parts && !name_class.known; i++) {
        const struct line *line = &classes->line[classes->part[i].line];
        if (line->decides && part_matches(classes, i, name))
            name_class = (struct an_name_class){line->class, true, line->matrix_unit, line->dtype};
    }
    if (name_class.class == AN_DEVICE_MATRIX || name_class.class == AN_DEVICE_ATTENTION ||
        name_class.class == AN_DEVICE_FUSED)
        find_arithmetic(classes, name, &name_class);
    return name_class;
}
