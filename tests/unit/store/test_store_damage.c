/* SPDX-License-Identifier: Apache-2.0
 *
 * What must not go wrong when things go wrong: a writer that is killed, a disk that is full, a file
 * that is damaged or not ours.
 */
#include "store_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct tacho_error err;

static uint32_t random_state = 12345;
static uint32_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Writes `rows` slices, strings, counters in one transaction; each transaction's size is in
 * run.rows. */
static int write_block(store *s, int64_t from, int rows)
{
    int code = store_begin(s);
    for (int i = 0; !code && i < rows; i++) {
        char name[32];
        struct store_slice x = {.track = 1,
                                .start = from + i,
                                .dur = 1,
                                .category = 1,
                                .detail = STORE_ABSENT,
                                .correlation = STORE_ABSENT};
        int n = snprintf(name, sizeof name, "name %lld", (long long)(from + i) / 100);
        code = store_string(s, name, (size_t)n, &x.name);
        if (!code)
            code = store_slice_add(s, &x);
        if (!code)
            code = store_counter_add(
                s, &(struct store_counter){.track = 2, .time = from + i, .value = 0.5});
    }
    if (!code)
        code = store_position_set(s, "pool", 0, 1, from + rows);
    if (!code)
        code = store_run_set_int(s, "rows", from + rows);
    int commit = store_commit(s);
    return code ? code : commit;
}

/* ---- kill -9 ------------------------------------------------------------------------------------------------------------- */

static void test_kill(void **state)
{
    struct scratch *x = *state;
    _Atomic int64_t *committed =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(committed, MAP_FAILED);
    for (int round = 0; round < 20; round++) {
        *committed = -1;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            store *s;
            int64_t rows = 0;
            if (store_create(x->file, &s, NULL))
                _exit(1);
            *committed = 0;
            for (;;) {
                int n = (int)(rows * 7 % 3001) + 1;
                if (write_block(s, rows, n))
                    _exit(1);
                rows += n;
                *committed = rows;
            }
        }
        while (*committed < 0)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        nanosleep(&(struct timespec){0, 1000000 + random_next() % 150000000}, NULL);
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        int64_t promised = *committed;

        store *s;
        OK(&err, store_resume(x->file, &s, &err));
        OK(&err, store_finish(s, &err));
        int64_t rows = sql_int(
            x->file,
            "SELECT coalesce(max(value + 0), 0) FROM run WHERE key='rows'"); /* 0: killed early */
        assert_true(sql_integrity(x->file));
        assert_true(rows >= promised);
        assert_int_equal(sql_int(x->file, "SELECT count(*) FROM slice"), rows);
        assert_int_equal(sql_int(x->file, "SELECT count(DISTINCT start) FROM slice"), rows);
        assert_int_equal(sql_int(x->file, "SELECT count(*) FROM counter"), rows);
        assert_int_equal(
            sql_int(
                x->file,
                "SELECT count(*) FROM slice LEFT JOIN string ON string.id=name WHERE text IS NULL"),
            0);
        assert_int_equal(unlink(x->file), 0);
    }
    munmap((void *)committed, 4096);
}

/* ---- full disk ----------------------------------------------------------------------------------------------------------- */

/* Runs in a child, because the limit cannot be raised again without privileges. Exit code 0: as
 * expected. */
static int full_disk_child(const char *path)
{
    store *s;
    store_reader *r;
    int64_t rows = 0, n, id;
    int code = 0;
    signal(SIGXFSZ, SIG_IGN);
    if (store_create(path, &s, NULL))
        return 10;
    for (int i = 0; i < 5; i++, rows += 1000)
        if (write_block(s, rows, 1000))
            return 11;
    struct rlimit limit = {3 << 20, 3 << 20}, none = {RLIM_INFINITY, RLIM_INFINITY};
    struct rlimit old;
    getrlimit(RLIMIT_FSIZE, &old);
    limit.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 1000 && !code; i++) {
        code = write_block(s, rows, 1000);
        if (!code)
            rows += 1000;
    }
    if (code != TACHO_ENOSPACE)
        return 12;
    if (store_error(s)->code != TACHO_ENOSPACE || !store_error(s)->hint[0])
        return 13;
    if (write_block(s, rows, 200000) !=
        TACHO_ENOSPACE) /* still full: the same answer, and no harm */
        return 14;
    (void)none;
    limit.rlim_cur = old.rlim_max; /* somebody made room */
    setrlimit(RLIMIT_FSIZE, &limit);
    if (store_string(s, "after", 5, &id))
        return 15;
    if (write_block(s, rows, 1000))
        return 16;
    rows += 1000;
    if (store_finish(s, &err))
        return 17;
    if (store_open(path, &r, NULL) || store_count(r, "slice", &n) || n != rows)
        return 18;
    store_reader_close(r);
    return sql_integrity(path) && sql_int(path, "SELECT count(*) FROM slice LEFT JOIN string ON "
                                                "string.id=name WHERE text IS NULL") == 0
               ? 0
               : 19;
}

static void test_full_disk(void **state)
{
    struct scratch *x = *state;
    int status;
    pid_t pid = fork();
    if (!pid)
        _exit(full_disk_child(x->file));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int no_room_child(const char *path, int limit_bytes)
{
    store *s = NULL;
    struct stat st;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)limit_bytes, (rlim_t)limit_bytes});
    int code = store_create(path, &s, &err);
    if (!code) {
        store_close(s);
        return 1;
    }
    return code == TACHO_ENOSPACE && err.what[0] && stat(path, &st) ? 0 : 2;
}

static void test_no_room_at_all(void **state)
{
    struct scratch *x = *state;
    for (int limit = 0; limit <= 40960; limit += 20480) {
        int status;
        pid_t pid = fork();
        if (!pid)
            _exit(no_room_child(x->file, limit));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

/* ---- out of memory ------------------------------------------------------------------------------------------------------- */

/* SQLite's own memory limit makes its allocations fail at any place; the handle must stay good for
 * close. */
static void test_no_memory(void **state)
{
    struct scratch *x = *state;
    int failed = 0;
    for (int64_t limit = 20000; limit < 900000; limit += 20011) {
        store *s = NULL;
        unlink(x->file);
        sqlite3_hard_heap_limit64(limit);
        int code = store_create(x->file, &s, &err);
        for (int64_t i = 0; !code && i < 3; i++)
            code = write_block(s, i * 2000, 2000);
        if (code) {
            assert_int_equal(code, TACHO_ENOMEM);
            failed++;
        }
        store_close(s);
        sqlite3_hard_heap_limit64(0);
        unlink(x->file);
        char side[128];
        snprintf(side, sizeof side, "%s-wal", x->file);
        unlink(side);
        snprintf(side, sizeof side, "%s-shm", x->file);
        unlink(side);
    }
    sqlite3_hard_heap_limit64(0);
    assert_true(failed > 3);
}

/* ---- damaged files ------------------------------------------------------------------------------------------------------- */

static int any_run(void *ctx, const char *k, const char *v)
{
    *(uint64_t *)ctx += strlen(k) + (v ? strlen(v) : 0);
    return 0;
}
static int any_string(void *ctx, int64_t id, const char *t)
{
    *(uint64_t *)ctx += (uint64_t)id + strlen(t);
    return 0;
}
static int any_detail(void *ctx, const struct store_detail *d)
{
    *(uint64_t *)ctx += (uint64_t)d->flops + (d->kind ? strlen(d->kind) : 0);
    return 0;
}
static int any_process(void *ctx, const struct store_process *p)
{
    *(uint64_t *)ctx += (uint64_t)p->pid + (p->host ? strlen(p->host) : 0);
    return 0;
}
static int any_track(void *ctx, const struct store_track *t)
{
    *(uint64_t *)ctx += (uint64_t)t->tid + strlen(t->kind);
    return 0;
}
static int any_slice(void *ctx, const struct store_slice *x)
{
    *(uint64_t *)ctx += (uint64_t)x->start;
    return 0;
}
static int any_counter(void *ctx, const struct store_counter *c)
{
    *(uint64_t *)ctx += (uint64_t)c->time;
    return 0;
}
static int any_loss(void *ctx, const struct store_loss *l)
{
    *(uint64_t *)ctx += (uint64_t)l->count + strlen(l->reason);
    return 0;
}

/* Reads everything. 0, or the code of the first failure, which must have words. */
static int read_everything(const char *path)
{
    store_reader *r;
    uint64_t sum = 0;
    int64_t n;
    memset(&err, 0, sizeof err);
    int code = store_open(path, &r, &err);
    if (code) {
        assert_true(err.what[0]);
        return code;
    }
    const int codes[] = {store_run_each(r, any_run, &sum),
                         store_string_each(r, 1, any_string, &sum),
                         store_detail_each(r, 1, any_detail, &sum),
                         store_process_each(r, any_process, &sum),
                         store_track_each(r, 1, any_track, &sum),
                         store_slice_each(r, 1, any_slice, &sum),
                         store_counter_each(r, 1, any_counter, &sum),
                         store_loss_each(r, any_loss, &sum),
                         store_count(r, "slice", &n)};
    for (size_t i = 0; i < sizeof codes / sizeof *codes && !code; i++)
        code = codes[i];
    if (code)
        assert_true(store_reader_error(r)->what[0]);
    store_reader_close(r);
    return code;
}

static unsigned char *make_file(const char *path, size_t *bytes)
{
    store *s;
    struct stat st;
    int64_t id;
    struct store_detail d = {.flops = 1, .kind = "matrix", .schema = "tacho.work", .payload = "{}"};
    struct store_process p = {.pid = 1, .host = "h"};
    struct store_track t = {.kind = "thread", .name = "main"};
    OK(&err, store_create(path, &s, &err));
    for (int i = 0; i < 4; i++)
        OK(store_error(s), write_block(s, i * 500, 500));
    OK(store_error(s), store_detail_intern(s, &d, &id));
    OK(store_error(s), store_process_add(s, &p));
    OK(store_error(s), store_track_add(s, &t));
    OK(store_error(s), store_loss_add(s, &(struct store_loss){"a", "b", 1, 2, 3}));
    OK(&err, store_finish(s, &err));
    assert_int_equal(stat(path, &st), 0);
    unsigned char *data = malloc((size_t)st.st_size);
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
    close(fd);
    *bytes = (size_t)st.st_size;
    return data;
}

static void put_file(const char *path, const unsigned char *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
    close(fd);
}

static void test_bit_flips(void **state)
{
    struct scratch *x = *state;
    size_t bytes;
    unsigned char *data = make_file(x->file, &bytes);
    int noticed = 0;
    assert_int_equal(read_everything(x->file), 0);
    for (int i = 0; i < 300; i++) {
        /* half of them where it hurts: the header, the schema, the heads of pages */
        size_t at = i % 2   ? random_next() % bytes
                    : i % 4 ? random_next() % 4096
                            : (random_next() % (bytes / 4096)) * 4096 + random_next() % 16;
        unsigned char old = data[at];
        data[at] = (unsigned char)(i % 3 ? old ^ 1u << random_next() % 8 : random_next());
        put_file(x->other, data, bytes);
        noticed += read_everything(x->other) != 0;
        data[at] = old;
    }
    assert_true(noticed > 20);
    free(data);
}

/* No byte of SQLite's header makes the file's damage look like a mistake of tacho's. */
static void test_header(void **state)
{
    static const unsigned char values[] = {0, 1, 2, 5, 0x7f, 0x80, 0xff};
    struct scratch *x = *state;
    size_t bytes;
    unsigned char *data = make_file(x->file, &bytes);
    for (size_t at = 16; at < 100; at++) {
        unsigned char old = data[at];
        for (size_t i = 0; i < sizeof values; i++) {
            data[at] = values[i];
            put_file(x->other, data, bytes);
            int code = read_everything(x->other);
            if (code == TACHO_EINTERNAL)
                fail_msg("byte %zu of the header is %d: %s", at, values[i], err.what);
        }
        data[at] = old;
    }
    free(data);
}

static void test_truncation(void **state)
{
    struct scratch *x = *state;
    size_t bytes;
    unsigned char *data = make_file(x->file, &bytes);
    for (int i = 0; i < 100; i++) {
        size_t cut = i < 5 ? (size_t)i : random_next() % bytes;
        put_file(x->other, data, cut);
        int code = read_everything(x->other);
        assert_true(code == TACHO_ECORRUPT || code == TACHO_EFORMAT);
        assert_true(err.hint[0]);
    }
    for (size_t page = 0; page < bytes / 4096;
         page++) { /* whole pages lost, as a disk loses them */
        unsigned char old[4096];
        memcpy(old, data + page * 4096, 4096);
        memset(data + page * 4096, 0, 4096);
        put_file(x->other, data, bytes);
        read_everything(x->other);
        memcpy(data + page * 4096, old, 4096);
    }
    free(data);
}

/* ---- files that are not ours --------------------------------------------------------------------------------------------- */

static void expect(const char *path, const char *content, size_t bytes, int code)
{
    put_file(path, (const unsigned char *)content, bytes);
    assert_int_equal(read_everything(path), code);
    assert_true(err.hint[0]);
    assert_non_null(strstr(err.what, path));
}

static void test_foreign(void **state)
{
    struct scratch *x = *state;
    char name[128];
    sqlite3 *db;
    expect(x->other, "", 0, TACHO_EFORMAT);
    expect(x->other, "hello", 5, TACHO_EFORMAT);
    expect(x->other, "{\"traceEvents\":[]}", 18, TACHO_ENOTSUP);
    expect(x->other, "\x1f\x8b\x08", 3, TACHO_ENOTSUP);
    snprintf(name, sizeof name, "%s/x.nsys-rep", x->folder);
    expect(name, "anything", 8, TACHO_ENOTSUP);
    assert_int_equal(read_everything(x->folder), TACHO_EFORMAT); /* a folder */
    assert_int_equal(read_everything("/nonexistent/x.tacho"), TACHO_ENOTFOUND);
    unlink(x->other);
    assert_int_equal(sqlite3_open(x->other, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(a)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(read_everything(x->other), TACHO_EFORMAT);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE StringIds(id, value)", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(read_everything(x->other), TACHO_ENOTSUP);
    assert_int_equal(sqlite3_exec(db, "PRAGMA application_id=0x5443484f", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(read_everything(x->other),
                     TACHO_ECORRUPT); /* claims to be ours, has no version */
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=1", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(read_everything(x->other), TACHO_ECORRUPT); /* has a version, has no tables */
    sqlite3_close(db);
}

/* Names with bytes that mean something in a URI, to a shell or to a terminal. */
static void test_odd_names(void **state)
{
    struct scratch *x = *state;
    static const char *const names[] = {"a b",
                                        "-x",
                                        "100%25.db",
                                        "a?mode=memory",
                                        "a#b",
                                        "new\nline",
                                        "\xc3\xa4\xf0\x9f\x98\x80",
                                        "\xff",
                                        "'quote\""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", x->folder, names[i]);
        free(make_file(path, &bytes));
        assert_int_equal(read_everything(path), 0);
    }
}

/* A finished file in a folder that cannot be written to. Root is not stopped by permissions, so it
 * becomes nobody meanwhile. */
static void test_read_only(void **state)
{
    struct scratch *x = *state;
    size_t bytes;
    store *s = NULL;
    free(make_file(x->file, &bytes));
    chmod(x->file, 0444);
    chmod(x->folder, 0555);
    int root = !geteuid();
    if (root)
        assert_int_equal(seteuid(65534), 0);
    int read = read_everything(x->file);
    int results = store_open_results(x->file, &s, NULL);
    int create = store_create(x->other, &s, NULL);
    if (root)
        assert_int_equal(seteuid(0), 0);
    chmod(x->folder, 0755);
    assert_int_equal(read, 0);
    assert_int_equal(results, TACHO_EDENIED);
    assert_int_equal(create, TACHO_EDENIED);
}

/* The same with a live file: its rows are in a WAL that only a writer may fold in, or in the file
 * alone. */
static void test_read_only_live(void **state)
{
    struct scratch *x = *state;
    store *s;
    char wal[128];
    OK(&err, store_create(x->file, &s, &err));
    OK(store_error(s), write_block(s, 0, 100));
    size_t bytes = (size_t)store_bytes(s);
    assert_true(bytes > 0);
    /* copy the file without the writer's -shm, as a backup would */
    char command[400];
    snprintf(command, sizeof command, "mkdir %s/c && cp %s %s-wal %s/c/", x->folder, x->file,
             x->file, x->folder);
    assert_int_equal(system(command), 0);
    store_close(s);
    snprintf(x->other, sizeof x->other, "%s/c/run.db", x->folder);
    snprintf(wal, sizeof wal, "%s-wal", x->other);
    snprintf(command, sizeof command, "chmod -R a-w,a+rX %s", x->folder);
    assert_int_equal(system(command), 0);
    int root = !geteuid();
    if (root)
        assert_int_equal(seteuid(65534), 0);
    int with_wal = read_everything(x->other);
    if (root)
        assert_int_equal(seteuid(0), 0);
    snprintf(command, sizeof command, "chmod -R u+w %s", x->folder);
    assert_int_equal(system(command), 0);
    unlink(wal);
    chmod(x->other, 0444);
    snprintf(command, sizeof command, "chmod a-w %s/c", x->folder);
    assert_int_equal(system(command), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    int without = read_everything(x->other);
    if (root)
        assert_int_equal(seteuid(0), 0);
    snprintf(command, sizeof command, "chmod u+w %s/c", x->folder);
    assert_int_equal(system(command), 0);
    assert_true(with_wal == 0 ||
                with_wal == TACHO_EDENIED); /* never: as if the rows were not there */
    assert_int_equal(without, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kill, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_no_room_at_all, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_bit_flips, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_header, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_truncation, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_foreign, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_odd_names, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_read_only, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_read_only_live, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("store damage", tests, NULL, NULL);
}
