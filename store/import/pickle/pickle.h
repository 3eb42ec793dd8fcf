/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/pickle/: a reader of Python pickles that can hold data and nothing else.
 * Of the opcodes it knows those that numbers, texts, lists, tuples and dicts are made of; one that
 * would import or call anything (GLOBAL, REDUCE, BUILD ...) ends the reading. So a file of a
 * stranger is safe here where pickle.load is not.
 *
 * The file is read as a stream, twice: the first time to learn which remembered objects are fetched
 * again, the second time to build values. A dict is handed out as soon as it is whole; what the
 * callback does not keep and nothing refers to is freed, so a file of gigabytes needs only what its
 * parts share. No number in the file decides how much memory is taken: texts, nesting, remembered
 * objects and values that live at once are limited, and so is how often a file repeats what it said
 * once. Dicts of more than 256 keys are not handed out.
 */
#ifndef STORE_IMPORT_PICKLE_PICKLE_H
#define STORE_IMPORT_PICKLE_PICKLE_H

#include <string.h>

#include "store/import/input/importer.h"
#include "store/import/input/input.h"

enum pickle_type {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_LIST,  /* and tuple */
    PICKLE_DICT,  /* keys and values one after the other */
    PICKLE_OTHER, /* a number or text beyond what is kept */
    PICKLE_TAKEN, /* a dict that the caller took; a list leaves it out */
    PICKLE_MARK   /* on the stack only */
};

struct pickle_value {
    enum pickle_type type;
    union {
        int64_t number; /* PICKLE_BOOL, PICKLE_INT */
        double real;
        struct pickle_text *text;
        struct pickle_box *box;
    };
};

struct pickle_text {
    size_t bytes;
    bool shared;  /* is fetched again, or is one of many that are equal: lives until the end */
    int64_t note; /* of the caller; 0 at first */
    char text[];  /* terminated */
};

struct pickle_box {
    struct pickle_value *value;
    size_t count, room;
    bool shared;
    int64_t note; /* of the caller; 0 at first */
};

struct pickle_reader {
    struct imp_run *run;
    /* A dict that is whole. True: the caller has taken what it needs, and the dict goes, unless it
     * is shared. `place`: of the list that holds it, in the list that holds that, or 0. *code
     * non-zero stops. */
    bool (*dict)(void *ctx, struct pickle_box *dict, size_t place, int *code);
    void *ctx;
};

/* Reads the first object of a file. *truncated: it ends early. Errors: TACHO_ENOTSUP (code in it),
 * TACHO_EFORMAT (no pickle, or beyond the limits), TACHO_EIO, TACHO_ENOMEM, what the callback
 * said. */
int pickle_read(const char *path, const struct pickle_reader *reader, bool *truncated,
                struct tacho_error *err);

/* The value of a key of a dict; NULL: there is none. */
static inline const struct pickle_value *pickle_get(const struct pickle_box *dict, const char *key)
{
    size_t bytes = strlen(key);
    for (size_t i = 0; i + 1 < dict->count; i += 2)
        if (dict->value[i].type == PICKLE_TEXT && dict->value[i].text->bytes == bytes &&
            !memcmp(dict->value[i].text->text, key, bytes))
            return &dict->value[i + 1];
    return NULL;
}

/* The integer of a key, STORE_ABSENT: none. */
static inline int64_t pickle_int(const struct pickle_box *dict, const char *key)
{
    const struct pickle_value *value = pickle_get(dict, key);
    return value && (value->type == PICKLE_INT || value->type == PICKLE_BOOL) ? value->number
                                                                              : STORE_ABSENT;
}

/* The text of a key, NULL: none. */
static inline struct pickle_text *pickle_text(const struct pickle_box *dict, const char *key)
{
    const struct pickle_value *value = pickle_get(dict, key);
    return value && value->type == PICKLE_TEXT ? value->text : NULL;
}

/* The list or tuple of a key, NULL: none. */
static inline struct pickle_box *pickle_list(const struct pickle_box *dict, const char *key)
{
    const struct pickle_value *value = pickle_get(dict, key);
    return value && value->type == PICKLE_LIST ? value->box : NULL;
}

#endif
