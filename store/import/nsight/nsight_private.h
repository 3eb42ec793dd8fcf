/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/nsight/: the Nsight Systems importer. nsight.c opens the export and reads
 * table after table; nsight_device.c, nsight_host.c and nsight_nvtx.c turn rows into slices;
 * nsight_payload.c reads NVTX payloads; nsight_meta.c reads all that is not an event,
 * nsight_diagnostic.c what the profiler says of its own capture. They write
 * through nsight_rows.c, and query through nsight_db.c, which looks up the tables and columns that
 * exist.
 *
 * An export is untrusted: any value may be of any type, missing, negative or huge. A row without a
 * usable time is counted as a loss, a table that is damaged is read up to the damage. Memory grows
 * with the number of distinct names and details, of tracks, and of recorded CUDA events (24 bytes
 * each), not with the number of rows.
 */
#ifndef STORE_IMPORT_NSIGHT_NSIGHT_PRIVATE_H
#define STORE_IMPORT_NSIGHT_NSIGHT_PRIVATE_H

#include <stdbool.h>

#include "store/import/input/database.h"
#include "store/import/input/importer.h"
#include "store/import/input/map.h"

#define NSIGHT_NAME_MAX   128 /* of tables */
#define NSIGHT_COLUMN_MAX 28  /* of one query */
#define NSIGHT_CACHE      65536

/* ---- state of one file ------------------------------------------------------------------------------------------------------ */

/* Losses: key, reason as in the table `loss` */
#define NSIGHT_LOSS_MAP(X) \
    X(TIME, "row without a usable time stamp") \
    X(END, "row that ends before it starts") \
    X(PROCESS, "row without a process or thread") \
    X(DEVICE, "row without a device") \
    X(NVTX_TYPE, "NVTX event of a type that tacho does not know") \
    X(PAYLOAD, "NVTX payload that does not match its schema (kept: the range has none)") \
    X(METRIC, "GPU metric without a name or a number") \
    X(NAME, "name in a damaged part of the file (kept: its event has none)") \
    X(NAMES, "table of names is damaged (kept: what is named after the damage has no name)")

enum nsight_loss {
#define NSIGHT_LOSS_ENUM(name, reason) NSIGHT_LOSS_##name,
    NSIGHT_LOSS_MAP(NSIGHT_LOSS_ENUM)
#undef NSIGHT_LOSS_ENUM
        NSIGHT_LOSS_COUNT
};

struct nsight_process {
    int64_t global; /* globalPid >> 24 */
    int64_t rank, ranks;
    struct store_process row;
    char *program;
};

struct nsight_field { /* of a payload schema */
    int64_t domain, schema, offset, type;
    char *name;
};

struct nsight_messages; /* nsight_diagnostic.c */
struct nsight {
    struct imp_run *run;
    store *out;
    struct imp_database database;
    struct tacho_error *err;
    struct nsight_messages *messages; /* what it says of its own capture, while that is read */
    int64_t base;                     /* added to every time */
    int64_t bytes;                    /* of the file, for progress */
    double bytes_a_row;               /* what one row counts for progress */
    double unreported;                /* bytes of progress that wait to be reported */
    int64_t rows;                     /* since the last commit */
    int64_t lost[NSIGHT_LOSS_COUNT];
    char *host;

    /* By enum nsight_texts: the value of an id. */
    sqlite3_stmt *texts[3];
    bool has_texts[3];        /* they were looked for */
    struct imp_map long_text; /* StringIds id -> index in `cut` */
    char **cut;               /* the beginnings of very long texts, which any row may name */
    size_t cut_count, cut_room;
    struct nsight_cached {
        int64_t id, string; /* string 0: an empty place */
    } cache[NSIGHT_CACHE];
    struct imp_map processes; /* globalPid >> 24 -> index in process */
    struct nsight_process *process;
    size_t process_count, process_cap;
    /* By enum nsight_tracks: threads (global tid), streams (process, device and stream), ranges
     * (process), counters. */
    struct imp_map tracks[4];
    struct imp_map contexts; /* process, context -> device */
    struct imp_map calls;    /* name id of an API call -> string id, negative: of the driver */
    struct imp_map records;  /* process, eventSyncId -> correlation of the record */
    struct imp_map record_streams;
    struct imp_map devices; /* process, device: seen */
    char **label;           /* names of domains and categories */
    size_t label_count;
    struct imp_map domains;    /* process or -1, domain -> label */
    struct imp_map places;     /* process (-1: any), domain -> number, from 0 on */
    struct imp_map categories; /* of these, category -> label */
    int64_t place_count;
    struct imp_map joined;      /* labels of a domain and a category (-1: none) -> string id */
    struct nsight_field *field; /* by domain, schema, offset */
    size_t field_count, field_cap;
    char *text; /* scratch */
    size_t text_cap;
};

/* Texts that are looked up by an id. */
enum nsight_texts { NSIGHT_STRINGS, NSIGHT_PROGRAMS, NSIGHT_THREAD_NAMES };

enum nsight_tracks { NSIGHT_THREADS, NSIGHT_STREAMS, NSIGHT_RANGES, NSIGHT_COUNTERS };

/* A table and what its rows become. A column that a version of the export lacks is NULL; "a|b": the
 * first that exists. */
struct nsight_table {
    const char *name; /* without _V2 */
    int (*row)(struct nsight *nsight, sqlite3_stmt *st);
    const char *columns[NSIGHT_COLUMN_MAX];
};

/* ---- nsight_db.c ------------------------------------------------------------------------------------------------------------ */

/* The newest of NAME, NAME_V2 ... that has rows; false: there is none. */
bool nsight_find(struct nsight *nsight, const char *name, char found[NSIGHT_NAME_MAX]);
/* Number of rows, without counting them: the largest row id. */
int64_t nsight_rows_about(struct nsight *nsight, const char *table);
/* Prepares a query with the formats of sqlite3_mprintf (%w, %Q). NULL: it cannot be run. */
sqlite3_stmt *nsight_select(struct nsight *nsight, const char *format, ...);
/* Steps to the next row; false: there is none, or `st` is NULL. */
bool nsight_next(sqlite3_stmt *st);
/* The integer in the first row and column of a query; STORE_ABSENT: there is none. */
int64_t nsight_select_int(struct nsight *nsight, const char *format, ...);
/* Reads a table row by row; nothing to do if it does not exist. 0, TACHO_EINTERRUPTED, TACHO_ENOMEM
 * or the code of the store; damage is a loss. */
int nsight_read(struct nsight *nsight, const struct nsight_table *table_spec);
/* STORE_ABSENT unless it is an integer. */
int64_t nsight_int(sqlite3_stmt *st, int column);
/* NULL unless it is text. */
const char *nsight_text(sqlite3_stmt *st, int column);
/* Text of a StringIds id, NULL: none. Valid until the next call. */
const char *nsight_string(struct nsight *nsight, int64_t id);
/* The text of an id: its own, or that of StringIds whose number it is. NULL: none. Caller frees. */
char *nsight_text_of(struct nsight *nsight, enum nsight_texts which, int64_t id);
/* The store's string of a StringIds id. *string is that of "" if there is none. */
int nsight_name(struct nsight *nsight, int64_t id, int64_t *string);

/* The store's string of a text. */
int nsight_intern(struct nsight *nsight, const char *text, int64_t *string);

/* ---- nsight_rows.c ------------------------------------------------------------------------------------------------------------ */

/* Absent start, or an end before it: counted, *ok false. An absent end makes dur absent. */
void nsight_time(struct nsight *nsight, int64_t start, int64_t end, struct store_slice *slice,
                 bool *ok);
/* Writes a slice; commits now and then. */
int nsight_slice(struct nsight *nsight, struct store_slice *slice);
/* Index of the process in nsight->process. */
int nsight_process(struct nsight *nsight, int64_t global, size_t *index);
int nsight_thread(struct nsight *nsight, int64_t global_tid, int64_t *track);
int nsight_stream(struct nsight *nsight, size_t process, int64_t device, int64_t stream,
                  int64_t *track);
int nsight_range_track(struct nsight *nsight, size_t process, int64_t *track);

/* ---- tables ------------------------------------------------------------------------------------------------------------------- */

extern const struct nsight_table nsight_device_tables[], nsight_host_tables[], nsight_nvtx_tables[],
    nsight_metric_tables[];
/* Before and after the events. */
int nsight_meta_begin(struct nsight *nsight);
int nsight_meta_end(struct nsight *nsight);
/* Writes what Nsight Systems says that it lost, or could not record. */
int nsight_diagnostics(struct nsight *nsight);
/* Writes a loss row for every reason that was counted. */
int nsight_losses(struct nsight *nsight);
/* The detail of an NVTX row: `name` is that of the range. *detail stays absent if it has no
 * payload. */
int nsight_payload(struct nsight *nsight, sqlite3_stmt *st, const char *name, bool nccl,
                   size_t process, int64_t *detail);
int nsight_payload_schemas(struct nsight *nsight);
/* Is it the domain of NCCL, by its payload schemas? */
bool nsight_domain_is_nccl(const struct nsight *nsight, int64_t domain);
void nsight_payload_free(struct nsight *nsight);

#endif
