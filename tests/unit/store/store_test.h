/* SPDX-License-Identifier: Apache-2.0
 *
 * For test_store_*.c: a scratch folder for each test, and shorthands that fail with the store's own
 * words.
 */
#ifndef STORE_TEST_H
#define STORE_TEST_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "store/store.h"

struct scratch {
    char folder[64], file[96], other[96];
};

static int scratch_remove(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)type, (void)f;
    return remove(path);
}

static int scratch_setup(void **state)
{
    struct scratch *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    strcpy(s->folder, "/tmp/tacho-test-XXXXXX");
    if (!mkdtemp(s->folder) || chmod(s->folder, 0755))
        return -1;
    snprintf(s->file, sizeof s->file, "%s/run.db", s->folder);
    snprintf(s->other, sizeof s->other, "%s/out.tacho", s->folder);
    *state = s;
    return 0;
}

static int scratch_teardown(void **state)
{
    struct scratch *s = *state;
    nftw(s->folder, scratch_remove, 16, FTW_DEPTH | FTW_PHYS);
    free(s);
    return 0;
}

/* Fails the test with the handle's words if rc is not 0. */
#define OK(handle, call) \
    do { \
        int ok_rc = (call); \
        if (ok_rc) \
            fail_msg("%s: %d: %s", #call, ok_rc, (handle)->what); \
    } while (0)

/* One integer or the first row's first column of a query, by SQLite itself. */
static inline int64_t sql_int(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    int64_t value = INT64_MIN;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        value = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return value;
}

static inline int sql_integrity(const char *path)
{
    return (int)sql_int(path,
                        "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'");
}

#endif
