/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches of a space that was measured once and whole: for tests/bench/tuners.py.
 *
 *     tuners CACHE table                             the space: a line of levels and the value
 *     tuners CACHE tacho|random|greedy N FIRST LAST  a line for each of these seeds: best after
 *                                                    1..N evaluations / the optimum
 *
 * `greedy` starts anywhere, takes the first neighbour (one dimension differs) that is faster, and
 * starts again where none is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "tuner/replay.h"
#include "tuner/search.h"

#define MOST 1024 /* evaluations */

/* One search: what it evaluated so far. */
struct walk {
    const struct tuner_replay *space;
    uint64_t random;
    bool *seen;
    size_t count, most;
    double best[MOST];
};

/* Looks a configuration up; one that was looked up before costs nothing. NAN: it fails. */
static double evaluate(struct walk *walk, size_t at)
{
    double value = walk->space->value[at];
    if (walk->seen[at] || walk->count == walk->most)
        return value;
    double before = walk->count ? walk->best[walk->count - 1] : INFINITY;
    walk->seen[at] = true;
    walk->best[walk->count++] = fmin(before, isnan(value) ? INFINITY : value);
    return value;
}

static size_t draw(struct walk *walk)
{
    return (size_t)(an_random(&walk->random) % walk->space->space.count);
}

static void walk_random(struct walk *walk)
{
    while (walk->count < walk->most)
        evaluate(walk, draw(walk));
}

static bool is_neighbour(const struct tuner_space *space, size_t first, size_t second)
{
    int differing = 0;
    for (size_t d = 0; d < space->dimensions; d++)
        differing += tuner_place(space, first, d) != tuner_place(space, second, d);
    return differing == 1;
}

/* The neighbours of a configuration in an order of chance. */
static size_t neighbours(struct walk *walk, size_t at, size_t *list)
{
    size_t count = 0;
    for (size_t i = 0; i < walk->space->space.count; i++)
        if (is_neighbour(&walk->space->space, at, i))
            list[count++] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)(an_random(&walk->random) % i), swap = list[i - 1];
        list[i - 1] = list[other];
        list[other] = swap;
    }
    return count;
}

static void walk_greedy(struct walk *walk)
{
    size_t *list = calloc(walk->space->space.count + 1, sizeof *list);
    while (list && walk->count < walk->most) {
        size_t at = draw(walk);
        double here = evaluate(walk, at);
        for (bool moved = true; moved && walk->count < walk->most;) {
            size_t count = neighbours(walk, at, list);
            moved = false;
            for (size_t i = 0; !moved && i < count; i++) {
                double there = evaluate(walk, list[i]);
                moved = !isnan(there) && !(there >= here);
                at = moved ? list[i] : at;
                here = moved ? there : here;
            }
        }
    }
    free(list);
}

static void walk_tacho(struct walk *walk)
{
    struct tuner_search *search = tuner_search_new(&walk->space->space, walk->random);
    while (search && walk->count < walk->most) {
        size_t at = tuner_search_ask(search);
        if (at == SIZE_MAX)
            break;
        tuner_search_tell(search, at, evaluate(walk, at));
    }
    tuner_search_free(search);
}

static void print_table(const struct tuner_replay *replay)
{
    const struct tuner_space *space = &replay->space;
    for (size_t d = 0; d < space->dimensions; d++)
        printf("%s,", space->dimension[d].name);
    puts("value");
    for (size_t i = 0; i < space->count; i++) {
        for (size_t d = 0; d < space->dimensions; d++)
            printf("%s,", tuner_level(space, i, d));
        printf("%.17g\n", replay->value[i]);
    }
}

static const struct {
    const char *name;
    void (*walk)(struct walk *walk);
} tuners[] = {{"tacho", walk_tacho}, {"random", walk_random}, {"greedy", walk_greedy}};

static int search(const struct tuner_replay *replay, char **words)
{
    struct walk walk = {.space = replay, .most = (size_t)atol(words[1])};
    size_t tuner = 0;
    while (tuner < 3 && strcmp(tuners[tuner].name, words[0]) != 0)
        tuner++;
    if (tuner == 3 || walk.most > MOST || walk.most > replay->space.count)
        return 2;
    walk.seen = calloc(replay->space.count, sizeof *walk.seen);
    uint64_t first = (uint64_t)atol(words[2]), last = (uint64_t)atol(words[3]);
    for (uint64_t seed = first; walk.seen && seed <= last; seed++) {
        memset(walk.seen, 0, replay->space.count * sizeof *walk.seen);
        walk.count = 0;
        walk.random = seed;
        tuners[tuner].walk(&walk);
        for (size_t i = 0; i < walk.count; i++)
            printf("%s%.6g", i ? " " : "", walk.best[i] / replay->best);
        putchar('\n');
        fflush(stdout);
    }
    free(walk.seen);
    return 0;
}

int main(int argc, char **argv)
{
    struct tuner_replay replay;
    struct tacho_error err = {0};
    bool table = argc == 3 && !strcmp(argv[2], "table");
    if (argc != 6 && !table) {
        fputs("usage: tuners CACHE table | tuners CACHE TUNER EVALUATIONS FIRST LAST\n", stderr);
        return 2;
    }
    if (tuner_replay_read(argv[1], &replay, &err)) {
        fprintf(stderr, "tuners: %s\n", err.what);
        return 1;
    }
    int code = 0;
    if (table)
        print_table(&replay);
    else
        code = search(&replay, argv + 2);
    tuner_replay_clear(&replay);
    return code;
}
