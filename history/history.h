/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room history/: a database of runs over time, for the question since when a
 * training is slower. An entry keeps what a run was (recipe, host, commit), where the time of a
 * step went (classes, operators, ranks, kernels: means of a step) and its step times, not the
 * events: those stay in the run's file.
 *
 * Runs are compared only within one recipe (the command, the variables that decide how it runs, the
 * number of ranks) on one kind of host (processor, cores, memory, accelerators). docs/history.md
 * has the method and the schema.
 *
 * Functions return 0 or a TACHO_E* code, with words in *err.
 */
#ifndef HISTORY_HISTORY_H
#define HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzers/result/result.h"
#include "tacho_error.h"

#define HISTORY_HASH    17  /* bytes of a hash in hexadecimal digits, with the end */
#define HISTORY_SAMPLES 512 /* step times that an entry keeps, spread over the run */

/* ---- entries ------------------------------------------------------------------------------- */

/* A number of a run. `kind` and `name` tell runs of different versions apart; times are ms of a
 * step. */
struct history_value {
    const char *kind; /* "step", "class", "operator", "kernel", "rank", "loader", "memory", ... */
    const char *name;
    const char *unit;
    double value; /* never NaN: what was not measured has no row */
};

/* One run. Texts may be NULL where they are not known. */
struct history_entry {
    int64_t id;             /* in the database; 0: not entered yet */
    char key[HISTORY_HASH]; /* the same for two analyses of one run */
    char recipe[HISTORY_HASH], host[HISTORY_HASH];
    int64_t begun_ns; /* CLOCK_REALTIME */
    const char *recipe_text, *host_text;
    const char *commit; /* of the folder in which it was started */
    const char *file, *verdict;
    const char *environment; /* a JSON object of texts: versions, kernel, variables */
    int64_t steps;
    const struct history_value *values;
    size_t value_count;
    const float *step_ms; /* spread over the run */
    size_t sample_count;
};

/* What is kept of an analyzed run (an_options.samples, else without operators). `commit` may be
 * NULL. *out belongs to the caller: history_entry_free. TACHO_ENOMEM; TACHO_EFORMAT: it has no
 * steps, or no time at which it began. */
int history_entry_of(const struct an_result *result, const char *commit,
                     struct history_entry **out);
void history_entry_free(struct history_entry *entry); /* NULL is fine */

/* Sixteen hexadecimal digits of a text. */
void history_hash(const char *text, char out[HISTORY_HASH]);

/* ---- the database -------------------------------------------------------------------------- */

struct history;

/* Where the user's history is: $TACHO_HISTORY, else tacho/history.db in $XDG_DATA_HOME. Empty: the
 * user wants none (TACHO_HISTORY=off). TACHO_EDENIED: the folder is another user's. With `make` the
 * folder is made. */
int history_path(bool make, char *path, size_t size, struct tacho_error *err);
/* Opens, with `write` makes it where it is missing. TACHO_ENOTFOUND: there is none. */
int history_open(const char *path, bool write, struct history **out, struct tacho_error *err);
void history_close(struct history *history); /* NULL is fine */

/* Several entries in one transaction. */
int history_begin(struct history *history, struct tacho_error *err);
int history_commit(struct history *history, struct tacho_error *err);
/* Enters a run, in the place of the entry with its key if there is one. Waits for other writers up
 * to ten seconds (TACHO_EBUSY). */
int history_enter(struct history *history, const struct history_entry *entry,
                  struct tacho_error *err);

/* Which entries; NULL and 0: all. */
struct history_filter {
    const char *recipe, *host; /* hashes, or their beginnings */
    int64_t since_ns, before_ns;
    int64_t only;            /* the entry with this id */
    int64_t limit;           /* the newest so many; 0: all */
    const char *kind, *name; /* only with this value, which is `value` of the row */
};
/* An entry without its values. Texts live until the callback returns. */
struct history_row {
    struct history_entry entry;
    double value; /* that of the filter; without one the mean step in ms; NAN: it has none */
};
/* Calls `on` for entries, the newest first, until it returns other than 0, which is returned. */
int history_each(struct history *history, const struct history_filter *filter,
                 int (*on)(void *ctx, const struct history_row *row), void *ctx,
                 struct tacho_error *err);
/* The entry that a user named: an id, the beginning of a key or of a commit, the path of a file,
 * "latest". TACHO_ENOTFOUND; TACHO_EUSAGE: several. */
int history_find(struct history *history, const char *word, int64_t *id, struct tacho_error *err);
/* An entry whole; history_entry_free. */
int history_get(struct history *history, int64_t id, struct history_entry **out,
                struct tacho_error *err);

/* ---- over time ----------------------------------------------------------------------------- */

struct history_point {
    int64_t id, begun_ns;
    double value;
    char commit[65]; /* "": not known */
};

/* What else changed where a value changed: means on both sides of it. */
struct history_moved {
    char kind[16], name[160], unit[8];
    double before, after;
    double p; /* of Welch's t, times the number of values that were looked at (Bonferroni) */
};

struct history_change {
    size_t at, low, high; /* points; low..high with 90 % (analyzers/base/change_points.h) */
    double before, after, p;
    struct history_moved *moved; /* times that moved, the largest first */
    size_t moved_count;
};

struct history_trend {
    struct history_point *point; /* oldest first */
    size_t count;
    struct history_change *change;
    size_t change_count;
    /* The points since the last change, and what they tell of the next runs. */
    size_t stable_from;
    double level, sd_pct;     /* median; NAN: fewer than 2 */
    double detectable_pct[2]; /* by 1 and by 5 further runs; NAN: fewer than 3 points */
};

/* The value of the newest runs (AN_CHANGE_MOST at most) of one recipe on one kind of host, and
 * where it changed. A value that is not > 0 is left out. */
int history_trend_read(struct history *history, const struct history_filter *filter,
                       struct history_trend *trend, struct tacho_error *err);
void history_trend_clear(struct history_trend *trend);

/* ---- failures ------------------------------------------------------------------------------- */

/* What became of the runs of one recipe on one kind of host. */
struct history_failures {
    double runs, failed; /* how many; failed: another end than an exit status of 0 or Ctrl-C */
    double hours;        /* all of them together */
};
/* Those of the recipe and host of `result`. Runs whose end was not recorded do not count. */
int history_failures_read(struct history *history, const struct an_result *result,
                          struct history_failures *out, struct tacho_error *err);

/* ---- prediction ------------------------------------------------------------------------------ */

/* The step of a run, guessed from the runs of all other recipes on the same kind of host
 * (docs/history.md has the method). How far such guesses are off is what it is for the known
 * recipes, each guessed from all others: |guess / measured - 1|. */
struct history_guess {
    double step_ms;
    bool by_process; /* by the Gaussian process; else the most similar run, scaled by FLOPs */
    int64_t from;    /* id of the most similar run */
    size_t recipes;  /* that are known, with its own */
    double nearest_pct, process_pct; /* medians of both ways; NAN: too few recipes */
    double p90_pct;                  /* of the way that was taken */
};
/* TACHO_ENOTFOUND: no other run of such a host has FLOPs. */
int history_guess(struct history *history, int64_t id, struct history_guess *guess,
                  struct tacho_error *err);

/* ---- exchange ------------------------------------------------------------------------------ */

enum history_format { HISTORY_CSV, HISTORY_MLLOG, HISTORY_JSON };
/* Writes the entries that the filter names, oldest last. */
int history_export(struct history *history, const struct history_filter *filter,
                   enum history_format format, FILE *out, struct tacho_error *err);
/* Enters what a table (CSV with a header line: of `tacho history export`, W&B, MLflow, Trackio) or
 * a log (:::MLLOG of MLPerf) holds. `recipe` NULL: what the file says, else its name. All or
 * nothing. *count: entries. TACHO_EFORMAT with the line. */
int history_import(struct history *history, const char *path, const char *recipe, size_t *count,
                   struct tacho_error *err);

#endif
