/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: memory that is freed all at once, and growing arrays.
 *
 * An arena owns what it hands out until an_arena_free(). Every function returns NULL when memory is
 * out; an_arena_failed() then stays true, so that a builder of many small texts can check once at
 * its end.
 */
#ifndef ANALYZERS_ARENA_H
#define ANALYZERS_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct an_arena;

struct an_arena *an_arena_new(void);
/* An arena of at most `bytes` in memory that this process shares with those it forks from now on:
 * what a child puts there lies at the same addresses here. an_arena_free() gives back this
 * process's view of it. NULL: there is no room for it. */
struct an_arena *an_arena_shared(size_t bytes);
bool an_arena_is_shared(const struct an_arena *arena);
void an_arena_free(struct an_arena *arena); /* NULL is fine */
bool an_arena_failed(const struct an_arena *arena);
void *an_arena_zero(struct an_arena *arena, size_t count,
                    size_t size); /* zeroed array; overflow is a failure */
/* Frees an array before the arena: what a stage needed and the next one does not. A small one stays
 * until the arena goes; NULL is fine. */
void an_arena_give_back(struct an_arena *arena, const void *array);
void *an_arena_copy(struct an_arena *arena, const void *data, size_t bytes);
/* Copy of a text; NULL stays NULL. Never NULL for a text: a failed copy is "". */
const char *an_arena_text(struct an_arena *arena, const char *text);
__attribute__((format(printf, 2, 3))) const char *an_arena_format(struct an_arena *arena,
                                                                  const char *format, ...);

/* Makes room for `need` elements in a malloc'ed array: 0 or TACHO_ENOMEM (the array is left as it
 * was). */
int an_grow(void *array, size_t *capacity, size_t need, size_t element);
/* qsort_r(), for rows that mostly are in order already: then it only looks at them. */
void an_order(void *rows, size_t count, size_t size,
              int (*order)(const void *first, const void *second, void *ctx), void *ctx);

#endif
