/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks up the arguments of events in the table of kineto_args.h, by a hash of length and three
 * characters.
 */
#include "store/import/kineto/kineto_args.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

struct row {
    const char *text, *key;
    uint8_t n, use;
};

static const struct row rows[] = {
#define KINETO_ARG_ROW(name, text, use, key) {text, key, sizeof(text) - 1, use},
    KINETO_ARG_MAP(KINETO_ARG_ROW)
#undef KINETO_ARG_ROW
};

#define SLOTS 1024u /* a power of two well above the number of rows */

static uint8_t slot[SLOTS]; /* row + 1, open addressing */
static pthread_once_t once = PTHREAD_ONCE_INIT;

_Static_assert(sizeof rows / sizeof *rows < 255, "rows fit a byte");

/* A slot by the length and three characters of a key. */
static uint32_t hash(const char *text, size_t bytes)
{
    uint32_t hash = (uint32_t)bytes * 0x9e3779b1u;
    hash += (uint32_t)(unsigned char)text[0] * 0x85ebca6bu +
            (uint32_t)(unsigned char)text[bytes - 1] * 0xc2b2ae35u;
    hash += (uint32_t)(unsigned char)text[bytes / 2] * 0x27d4eb2fu;
    return (hash ^ hash >> 15) & (SLOTS - 1);
}

/* Fills the slots, once for all threads. */
static void fill(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t position = hash(rows[i].text, rows[i].n);
        while (slot[position])
            position = (position + 1) & (SLOTS - 1);
        slot[position] = (uint8_t)(i + 1);
    }
}

enum kineto_arg kineto_arg_find(const char *key, size_t bytes)
{
    pthread_once(&once, fill);
    if (!bytes)
        return KINETO_ARG_OTHER;
    for (uint32_t position = hash(key, bytes); slot[position];
         position = (position + 1) & (SLOTS - 1)) {
        const struct row *row = &rows[slot[position] - 1];
        if (row->n == bytes && !memcmp(row->text, key, bytes))
            return (enum kineto_arg)(slot[position] - 1);
    }
    return KINETO_ARG_OTHER;
}

unsigned kineto_arg_use(enum kineto_arg arg)
{
    return arg < KINETO_ARG_OTHER ? rows[arg].use : 0;
}

const char *kineto_arg_key(enum kineto_arg arg)
{
    return arg < KINETO_ARG_OTHER ? rows[arg].key : NULL;
}
