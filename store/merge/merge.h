/* SPDX-License-Identifier: Apache-2.0
 *
 * Several `.tacho` files of one job (one for each node, or one for each rank) become one.
 * docs/merge.md is for users.
 *
 * Ids are given anew, strings and details interned again. All times are those of the reference, the
 * file of the lowest rank: files recorded on one boot of one machine share CLOCK_MONOTONIC; others
 * are first put side by side by their clock anchors (CLOCK_REALTIME), and then, where the ranks of
 * both took part in the same collectives, by those (merge_clock.c). Memory: maps of ids, of 16
 * bytes a track, string, detail and process, and at most STORE_MERGE_COLLECTIVES matched
 * collectives; slices, counters, steps and totals are streamed.
 */
#ifndef STORE_MERGE_H
#define STORE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

#define STORE_MERGE_FILES       1024
#define STORE_MERGE_COLLECTIVES 32768

/* How the times of a file came to be those of the reference. name, text */
#define STORE_MERGE_CLOCK_MAP(X) \
    X(SAME, "the same clock") \
    X(BY_COLLECTIVES, "matched collectives") \
    X(WALL, "wall clock") \
    X(NONE, "not at all: no clock anchor")
enum store_merge_how {
#define STORE_MERGE_CLOCK_ENUM(name, text) STORE_MERGE_##name,
    STORE_MERGE_CLOCK_MAP(STORE_MERGE_CLOCK_ENUM)
#undef STORE_MERGE_CLOCK_ENUM
};
const char *store_merge_how_text(enum store_merge_how how);

/* t of the reference = t + offset + round(drift * (t - pivot)) */
struct store_merge_clock {
    enum store_merge_how how;
    int64_t offset, pivot; /* ns */
    double drift;          /* s/s; 0: none was seen */
    double error;          /* ns that may be left; 0: the same clock; NAN: not known (wall clock) */
    double bound; /* ns: no event can be further off, or an end would come before a start; NAN: not
                     known */
    double wall;  /* ns: offset by collectives less offset by wall clock, at the pivot; NAN */
    int64_t matched; /* collectives used */
};
int64_t store_merge_time(const struct store_merge_clock *merge_clock, int64_t time);

struct store_merge_options {
    const char *const *in; /* finished files */
    size_t in_count;
    const char *out; /* must not exist; written beside and renamed: nothing half-written is left */
    bool force; /* also files that say that they are of different jobs, or have ranks in common */
    int (*progress)(void *ctx, int64_t done, int64_t total); /* as of store_import_options */
    void *ctx;
};

struct store_merge_result {
    int64_t files, hosts, ranks, slices;
    enum store_merge_how how; /* the least certain one among the files */
    double error;             /* ns: the largest; NAN: not known */
    int64_t matched;          /* the least of the files that were aligned by collectives */
};

/* Errors: those of store_open for an input; TACHO_EFORMAT (one file twice, different jobs, a file
 * that was merged or imported before), TACHO_EUSAGE (fewer than two files, too many),
 * TACHO_EEXISTS, TACHO_ENOSPACE and the like for the output. */
int store_merge(const struct store_merge_options *merge_options,
                struct store_merge_result *merge_result, struct tacho_error *err);

#endif
