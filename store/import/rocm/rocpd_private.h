/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/rocm/: databases of rocprofv3 (rocpd.c) and of rocmProfileData (rpd.c),
 * and how both are read (rocpd_query.c).
 */
#ifndef STORE_IMPORT_ROCM_ROCPD_PRIVATE_H
#define STORE_IMPORT_ROCM_ROCPD_PRIVATE_H

#include "store/import/input/database.h"
#include "store/import/rocm/rocm_private.h"

#define ROCPD_SUFFIX_MOST    80
#define ROCPD_PROCESSES_MOST 4096

/* One process of a database while it is read. */
struct rocpd {
    struct rocm *rocm; /* that the next row belongs to */
    struct imp_run *run;
    struct imp_database *database;
    char suffix[ROCPD_SUFFIX_MOST]; /* of its tables */
    bool tracks;                    /* the newer layout */
};

/* A column; STORE_ABSENT and "" where it has another type. */
int64_t rocpd_integer(sqlite3_stmt *st, int column);
const char *rocpd_text(sqlite3_stmt *st, int column);
/* Replaces each $ of a query by the suffix of the tables. NULL: the query cannot be run. */
sqlite3_stmt *rocpd_query(const struct rocpd *reading, const char *sql);

typedef int (*rocpd_row)(struct rocpd *reading, sqlite3_stmt *st);

/* Calls `row` for each row of a query. A table that does not exist has none; damage ends it and is
 * counted as a loss. */
int rocpd_each(struct rocpd *reading, const char *sql, rocpd_row row);
/* Calls `row` for each record of a query, whose last column is its id in `table`: in the order of
 * these, so that those behind a record that cannot be read are known. */
int rocpd_each_record(struct rocpd *reading, const char *sql, const char *table, rocpd_row row);

enum rpd_operation { RPD_KERNEL, RPD_COPY, RPD_FILL, RPD_OTHER };

/* What an operation of rocmProfileData is, by its type and its description. */
enum rpd_operation rpd_operation_of(const char *type, const char *name);
/* Reads a database of rocmProfileData. *found false: it is none. */
int rpd_read(struct imp_run *run, struct imp_database *database, bool *found);

#endif
