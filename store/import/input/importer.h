/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: what an importer of one format is, and what importers call. To add a
 * format: a folder with one struct importer, and one row in the table of import.c.
 */
#ifndef STORE_IMPORT_INPUT_IMPORTER_H
#define STORE_IMPORT_INPUT_IMPORTER_H

#include "store/import/input/map.h"
#include "store/store.h"

/* One import: the file being written and what is known so far. */
struct imp_run {
    store *db;
    bool salvage_only; /* parse and count, write no slices */
    /* As of store_import_options. */
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
    /* As of store_import_result. */
    int64_t files, events, slices, lost;
    bool truncated, uncounted;
    int64_t file_index;   /* of the present input */
    int64_t done, total;  /* bytes, for progress */
    const char *path;     /* of the present input, for messages */
    struct imp_map ranks; /* ranks given so far */
    int64_t next_rank;    /* those below are taken */
    bool many;            /* there is more than one input: each is a rank */
    bool rank_counted;    /* of the present input: nothing says it, or another one has the same */
    bool rank_twice;      /* of the present input: another one says the same */
    bool rank_traced;     /* it says its rank itself, not its name */
    int64_t world;        /* processes of its job as it says itself; STORE_ABSENT: it does not */
    size_t shared;        /* bytes of the path of the folder that all inputs lie in */
    /* Paths of the files that continue the present one: pieces of one timeline or table. */
    const char *const *piece;
    size_t pieces;
    const char *log_tool;   /* the program that wrote the first log; NULL: not known */
    uint64_t log_tools;     /* with those that its lines name, too (log_tools_of) */
    const char *event_file; /* the first one of TensorBoard; NULL: none yet */
    int decimals; /* digits after the point of the finest time stamp of the files so far */
};

struct importer {
    const char *source; /* value of the run key `source` */
    /* Is this its format? `head` are the first bytes of the file (of a gzip file: decompressed). */
    bool (*recognises)(const unsigned char *head, size_t bytes);
    /* Reads the whole file into run->db between store_begin and store_commit of its own. Adds to
     * the counts of the run. */
    int (*read)(struct imp_run *run, const char *path, struct tacho_error *err);
};

/* Is the word anywhere in the first bytes of a file? */
bool imp_holds(const unsigned char *head, size_t bytes, const char *word);
/* The number that follows the last "rank" of the last part of a path (rank3, rank_3, rank-3);
 * STORE_ABSENT: none. */
int64_t imp_rank_in_name(const char *path);
/* Returns the rank of the present input: `named` by the trace itself, else by its file name, else,
 * of several inputs, by the nearest folder named rank3 that is not above all of them, else the
 * smallest that is free. A trace that knows of no other rank may be named after one.
 * STORE_ABSENT: a single file that says nothing. A rank that another file has already is kept, and
 * a loss row notes it. */
int64_t imp_rank(struct imp_run *run, int64_t named);

/* Counts what could not be read (source = base name of the file) in the table `loss`. */
int imp_loss(struct imp_run *run, const char *reason, int64_t count);
/* Reports progress; TACHO_EINTERRUPTED when the user cancels. */
int imp_progress(struct imp_run *run, int64_t more_bytes);

#endif
