/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches of a space that was measured once and whole: for tests/bench/tuners.py.
 *
 *     tuners CACHE table                             the space: a line of levels and the value
 *     tuners CACHE tacho|random|greedy N FIRST LAST  a line for each of these seeds: best after
 *                                                    1..N evaluations / the optimum
 *     tuners CACHE stop N FIRST LAST                 searches of which each trial is its recorded
 *                                                    repetitions, and is ended when they are slower
 *                                                    than the best: how often that hit the best
 *
 * `greedy` starts anywhere, takes the first neighbour (one dimension differs) that is faster, and
 * starts again where none is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <zlib.h>

#include "analyzers/base/stats.h"
#include "tuner/replay.h"
#include "tuner/search.h"
#include "tuner/stop.h"

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

/* ---- early ends ------------------------------------------------------------------------------- */

#define REPEATS 256 /* of a configuration, at most */

/* The repetitions of one configuration. */
struct repeats {
    double cost[REPEATS];
    size_t count;
};

static size_t read_part(void *buffer, size_t bytes, void *file)
{
    int got = gzread(file, buffer, (unsigned)bytes);
    return got < 0 ? (size_t)-1 : (size_t)got;
}

/* The repetitions of each configuration of a cache, in its order; NULL: it has none. */
static struct repeats *read_repeats(const char *path, size_t count)
{
    gzFile file = gzopen(path, "rb");
    json_t *json = file ? json_load_callback(read_part, file, 0, NULL) : NULL;
    const json_t *results = json_object_get(json, "results");
    struct repeats *repeats = calloc(count, sizeof *repeats);
    size_t all = 0;
    for (size_t i = 0; repeats && i < count; i++) {
        json_t *times = json_object_get(json_object_get(json_array_get(results, i), "times"),
                                        "runtimes"),
               *time;
        size_t k;
        json_array_foreach(times, k, time) if (k < REPEATS) repeats[i].cost[repeats[i].count++] =
            json_number_value(time);
        all += repeats[i].count;
    }
    json_decref(json);
    if (file)
        gzclose(file);
    if (all)
        return repeats;
    free(repeats);
    return NULL;
}

/* What a number of searches came to. */
struct stopped {
    size_t ended, run, recorded; /* trials; repetitions of all trials */
    bool best_ended;             /* of the last search */
};

/* Runs the repetitions of a trial until it is ended; the mean of those that were run. */
static double run_trial(const struct repeats *trial, double leader, double error,
                        struct stopped *out, bool *ended)
{
    size_t count = 1;
    while (count < trial->count && !tuner_stop_is_worse(trial->cost, count, leader, error))
        count++;
    *ended = count < trial->count;
    out->ended += *ended;
    out->run += count;
    out->recorded += trial->count;
    return an_mean(trial->cost, count);
}

/* One search. Its best setting is the one with the smallest mean of all repetitions. */
static void search_and_stop(const struct tuner_replay *replay, const struct repeats *repeats,
                            size_t most, uint64_t seed, struct stopped *out)
{
    struct tuner_search *search = tuner_search_new(&replay->space, seed);
    double leader = INFINITY, best = INFINITY;
    out->best_ended = false;
    for (size_t i = 0, at; search && i < most; i++) {
        if ((at = tuner_search_ask(search)) == SIZE_MAX)
            break;
        const struct repeats *trial = &repeats[at];
        bool ended = false, works = !isnan(replay->value[at]) && trial->count > 0;
        double value = works ? run_trial(trial, leader, 0.05 / (double)most, out, &ended) : NAN;
        double whole = works ? an_mean(trial->cost, trial->count) : INFINITY;
        tuner_search_tell(search, at, value);
        leader = ended ? leader : fmin(leader, value); /* of a number and NAN the number */
        if (whole < best) {
            best = whole;
            out->best_ended = ended;
        }
    }
    tuner_search_free(search);
}

static int stop_early(const char *path, const struct tuner_replay *replay, char **words)
{
    size_t most = (size_t)atol(words[1]), lost = 0;
    uint64_t first = (uint64_t)atol(words[2]), last = (uint64_t)atol(words[3]);
    struct repeats *repeats = read_repeats(path, replay->space.count);
    struct stopped out = {0};
    if (!repeats)
        return 1;
    for (uint64_t seed = first; seed <= last; seed++) {
        search_and_stop(replay, repeats, most, seed, &out);
        lost += out.best_ended;
    }
    printf("%zu of %llu searches ended their best setting; %zu trials were ended, and %.0f %% of "
           "the repetitions were run\n",
           lost, (unsigned long long)(last - first + 1), out.ended,
           100 * (double)out.run / (double)out.recorded);
    free(repeats);
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
    else if (!strcmp(argv[2], "stop"))
        code = stop_early(argv[1], &replay, argv + 2);
    else
        code = search(&replay, argv + 2);
    tuner_replay_clear(&replay);
    return code;
}
