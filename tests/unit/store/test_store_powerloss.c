/* SPDX-License-Identifier: Apache-2.0
 *
 * Loss of power. A VFS below SQLite, and our own fsync, link, rename and unlink, write down what
 * reaches the disk while a run is recorded, finished and published in simulated time. Then states
 * of the disk after a crash are made: at a random place of the log, what was synced is there, and
 * of the rest a random subset of 512-byte sectors, truncations and names. Each state must open
 * without damage, and its newest row may be no older than the documented window.
 *
 * POWERLOSS_STATES: how many states of each recording (25); POWERLOSS_SEED: where the draw begins.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

#define SECOND INT64_C(1000000000)
#define WINDOW (5 * SECOND)
#define TURN   (SECOND / 10)
#define TURNS  400
#define SECTOR 512
#define NAMES  32

enum op { WRITE, TRUNCATE, SYNC, CREATE, REMOVE, LINK, RENAME, SYNC_NAMES, COMMITTED };

/* One entry of the log. file: index of the file (WRITE, TRUNCATE, SYNC, CREATE). */
struct entry {
    enum op op;
    int file;
    char name[48], to[48]; /* below the folder of the recording */
    int64_t offset, bytes; /* TRUNCATE: the new size; COMMITTED: the time */
    unsigned char *data;
};

struct disk_file {
    unsigned char *data;
    int64_t bytes, cap;
    size_t synced; /* entries before this one are on the disk */
};

static struct {
    struct entry *entry;
    size_t count, cap;
    int files;
    char root[200], name[NAMES][48];
    int file_of[NAMES], names;
    bool on;
    int in_vfs;
} tape;

static struct tacho_error err;

#define OK(failure, call) \
    do { \
        int ok_code = (call); \
        if (ok_code) \
            fail_msg("%s: %s", #call, (failure)->what); \
    } while (0)

/* ---- the log ------------------------------------------------------------------------------------- */

static struct entry *note(enum op op)
{
    static struct entry none;
    if (!tape.on)
        return &none;
    if (tape.count == tape.cap) {
        tape.cap = tape.cap ? tape.cap * 2 : 1024;
        tape.entry = realloc(tape.entry, tape.cap * sizeof *tape.entry);
        assert_non_null(tape.entry);
    }
    tape.entry[tape.count] = (struct entry){.op = op};
    return &tape.entry[tape.count++];
}

/* The name of a path below the folder of the recording; NULL: elsewhere. */
static const char *below(const char *path)
{
    size_t length = strlen(tape.root);
    if (!tape.on || !path || strncmp(path, tape.root, length) != 0 || strstr(path, "-shm"))
        return NULL;
    return path + length;
}

static int *name_slot(const char *name)
{
    for (int i = 0; i < tape.names; i++)
        if (strcmp(tape.name[i], name) == 0)
            return &tape.file_of[i];
    assert_in_range(tape.names, 0, NAMES - 1);
    snprintf(tape.name[tape.names], sizeof tape.name[0], "%s", name);
    tape.file_of[tape.names] = -1;
    return &tape.file_of[tape.names++];
}

static void note_names(enum op op, const char *from, const char *to)
{
    struct entry *entry = note(op);
    snprintf(entry->name, sizeof entry->name, "%s", from);
    snprintf(entry->to, sizeof entry->to, "%s", to ? to : "");
    if (to)
        *name_slot(to) = *name_slot(from);
    if (op != LINK)
        *name_slot(from) = -1;
}

/* The number of the file that a name leads to; a new name gets a new file. */
static int file_number(const char *name)
{
    int *slot = name_slot(name);
    if (*slot < 0) {
        *slot = tape.files++;
        struct entry *entry = note(CREATE);
        snprintf(entry->name, sizeof entry->name, "%s", name);
        entry->file = *slot;
    }
    return *slot;
}

/* ---- what tacho itself asks of the system -------------------------------------------------------- */

/* SQLite calls these too, so they must be visible to its library. */
#define SEEN       __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* The path of a name in a folder that is open; of the descriptor itself where it is NULL. */
static const char *path_of(int fd, const char *name, char path[PATH_MAX])
{
    char link_name[64];
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link_name, path, PATH_MAX - 256);
    snprintf(path + (length > 0 ? length : 0), 256, "%s%s", name ? "/" : "", name ? name : "");
    return path;
}

static void note_fsync(int fd)
{
    char path[PATH_MAX];
    struct stat st;
    const char *name = below(path_of(fd, NULL, path));
    if (!tape.on || fstat(fd, &st))
        return;
    if (S_ISDIR(st.st_mode))
        note(SYNC_NAMES);
    else if (name && !tape.in_vfs)
        note(SYNC)->file = file_number(name);
}

SEEN int fsync(int fd)
{
    int rc = REAL(fsync)(fd);
    note_fsync(fd);
    return rc;
}

SEEN int fdatasync(int fd)
{
    int rc = REAL(fdatasync)(fd);
    note_fsync(fd);
    return rc;
}

SEEN int unlinkat(int folder, const char *file, int flags)
{
    char path[PATH_MAX];
    int rc = REAL(unlinkat)(folder, file, flags);
    if (rc == 0 && below(path_of(folder, file, path)))
        note_names(REMOVE, below(path), NULL);
    return rc;
}

SEEN int renameat(int from, const char *old, int to, const char *new)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    int rc = REAL(renameat)(from, old, to, new);
    if (rc == 0 && below(path_of(from, old, path)))
        note_names(RENAME, below(path), below(path_of(to, new, new_path)));
    return rc;
}

SEEN int linkat(int from, const char *old, int to, const char *new, int flags)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    int rc = REAL(linkat)(from, old, to, new, flags);
    if (rc == 0 && below(path_of(from, old, path)))
        note_names(LINK, below(path), below(path_of(to, new, new_path)));
    return rc;
}

/* ---- the VFS ------------------------------------------------------------------------------------- */

struct logged {
    sqlite3_file base;
    int file; /* -1: not logged */
    sqlite3_file *real;
};

static sqlite3_vfs *real_vfs;
static sqlite3_io_methods methods;

#define REAL_OF(f) (((struct logged *)(f))->real)

static int log_write(sqlite3_file *f, const void *data, int bytes, sqlite3_int64 offset)
{
    struct logged *logged = (struct logged *)f;
    if (logged->file >= 0 && tape.on) {
        struct entry *entry = note(WRITE);
        entry->file = logged->file;
        entry->offset = offset;
        entry->bytes = bytes;
        entry->data = malloc((size_t)bytes);
        assert_non_null(entry->data);
        memcpy(entry->data, data, (size_t)bytes);
    }
    return logged->real->pMethods->xWrite(logged->real, data, bytes, offset);
}

static int log_truncate(sqlite3_file *f, sqlite3_int64 bytes)
{
    struct logged *logged = (struct logged *)f;
    if (logged->file >= 0 && tape.on) {
        struct entry *entry = note(TRUNCATE);
        entry->file = logged->file;
        entry->bytes = bytes;
    }
    return logged->real->pMethods->xTruncate(logged->real, bytes);
}

static int log_sync(sqlite3_file *f, int flags)
{
    struct logged *logged = (struct logged *)f;
    tape.in_vfs++;
    int rc = logged->real->pMethods->xSync(logged->real, flags);
    tape.in_vfs--;
    if (logged->file >= 0 && tape.on)
        note(SYNC)->file = logged->file;
    return rc;
}

static int pass_close(sqlite3_file *f)
{
    int rc = REAL_OF(f)->pMethods->xClose(REAL_OF(f));
    free(REAL_OF(f));
    return rc;
}
static int pass_read(sqlite3_file *f, void *to, int bytes, sqlite3_int64 offset)
{
    return REAL_OF(f)->pMethods->xRead(REAL_OF(f), to, bytes, offset);
}
static int pass_size(sqlite3_file *f, sqlite3_int64 *bytes)
{
    return REAL_OF(f)->pMethods->xFileSize(REAL_OF(f), bytes);
}
static int pass_lock(sqlite3_file *f, int kind)
{
    return REAL_OF(f)->pMethods->xLock(REAL_OF(f), kind);
}
static int pass_unlock(sqlite3_file *f, int kind)
{
    return REAL_OF(f)->pMethods->xUnlock(REAL_OF(f), kind);
}
static int pass_reserved(sqlite3_file *f, int *out)
{
    return REAL_OF(f)->pMethods->xCheckReservedLock(REAL_OF(f), out);
}
static int pass_control(sqlite3_file *f, int op, void *argument)
{
    return REAL_OF(f)->pMethods->xFileControl(REAL_OF(f), op, argument);
}
static int pass_sector(sqlite3_file *f)
{
    return REAL_OF(f)->pMethods->xSectorSize(REAL_OF(f));
}
static int pass_device(sqlite3_file *f)
{
    return REAL_OF(f)->pMethods->xDeviceCharacteristics(REAL_OF(f));
}
static int pass_shm_map(sqlite3_file *f, int page, int bytes, int extend, void volatile **out)
{
    return REAL_OF(f)->pMethods->xShmMap(REAL_OF(f), page, bytes, extend, out);
}
static int pass_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return REAL_OF(f)->pMethods->xShmLock(REAL_OF(f), offset, n, flags);
}
static void pass_shm_barrier(sqlite3_file *f)
{
    REAL_OF(f)->pMethods->xShmBarrier(REAL_OF(f));
}
static int pass_shm_unmap(sqlite3_file *f, int delete)
{
    return REAL_OF(f)->pMethods->xShmUnmap(REAL_OF(f), delete);
}

static sqlite3_io_methods methods = {
    2,           pass_close,   pass_read,     log_write,        log_truncate,   log_sync,
    pass_size,   pass_lock,    pass_unlock,   pass_reserved,    pass_control,   pass_sector,
    pass_device, pass_shm_map, pass_shm_lock, pass_shm_barrier, pass_shm_unmap, NULL,
    NULL};

static int log_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *out)
{
    (void)vfs;
    struct logged *logged = (struct logged *)f;
    char real[PATH_MAX];
    int folder, length = 0;
    *logged = (struct logged){.file = -1, .real = calloc(1, (size_t)real_vfs->szOsFile)};
    assert_non_null(logged->real);
    int rc = real_vfs->xOpen(real_vfs, path, logged->real, flags, out);
    if (rc != SQLITE_OK || !logged->real->pMethods) {
        free(logged->real);
        return rc;
    }
    logged->base.pMethods = &methods;
    /* tacho names files by the descriptor of their folder */
    if (path && sscanf(path, "/proc/self/fd/%d/%n", &folder, &length) == 1 && length)
        path = path_of(folder, path + length, real);
    if (below(path))
        logged->file = file_number(below(path));
    return rc;
}

static void vfs_register(void)
{
    static sqlite3_vfs vfs;
    if (real_vfs)
        return;
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.pNext = NULL;
    vfs.zName = "powerloss";
    vfs.szOsFile = sizeof(struct logged);
    vfs.xOpen = log_open;
    assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

/* ---- the recording ------------------------------------------------------------------------------- */

static void turn(store *writer, int64_t now, int64_t name)
{
    char state[600];
    memset(state, (int)(now / TURN), sizeof state);
    OK(store_error(writer), store_begin(writer));
    for (int i = 0; i < 40; i++) {
        struct store_slice slice = {.track = 1,
                                    .start = now,
                                    .dur = i,
                                    .name = name,
                                    .category = name,
                                    .detail = STORE_ABSENT,
                                    .correlation = now / TURN};
        OK(store_error(writer), store_slice_add(writer, &slice));
    }
    OK(store_error(writer), store_live_set(writer, "d", state, sizeof state));
    OK(store_error(writer), store_commit(writer));
    note(COMMITTED)->bytes = now;
    OK(store_error(writer), store_sync_due(writer, now, WINDOW));
}

/* Half of the rows of the first seconds go, as in a file that has reached its limit. */
static void thin(store *writer)
{
    struct store_block block;
    int64_t left;
    OK(store_error(writer), store_begin(writer));
    OK(store_error(writer), store_block(writer, STORE_GROWING_SLICE, 100, 4000, 2000, &block));
    OK(store_error(writer), store_thin(writer, STORE_GROWING_SLICE, &block, 0, &left));
    OK(store_error(writer), store_commit(writer));
    assert_int_equal(left, 0);
}

/* Records into live/run.db and publishes out/run.tacho, with a reader that stays, or without. */
static void record(const char *folder, bool reader_stays)
{
    char live[200], out[240], path[240];
    store *writer;
    store_reader *reader = NULL;
    int64_t name, now = 0;
    snprintf(tape.root, sizeof tape.root, "%s/", folder);
    snprintf(live, sizeof live, "%.160s/live", folder);
    snprintf(out, sizeof out, "%.160s/out", folder);
    assert_int_equal(mkdir(folder, 0700) | mkdir(live, 0700) | mkdir(out, 0700), 0);
    snprintf(path, sizeof path, "%s/run.db", live);
    tape.on = true;
    OK(&err, store_create(path, &writer, &err));
    OK(store_error(writer), store_limit_wal(writer, 4 << 20));
    OK(store_error(writer), store_string(writer, "name", 4, &name));
    for (int i = 0; i < TURNS; i++, now += TURN) {
        turn(writer, now, name);
        if (i == TURNS / 2)
            thin(writer);
        if (i == TURNS * 3 / 4 && reader_stays) {
            int64_t rows;
            OK(&err, store_open(path, &reader, &err));
            OK(&err, store_count(reader, "slice", &rows));
        }
    }
    snprintf(out, sizeof out, "%.160s/out/run.tacho", folder);
    OK(&err, store_finish(writer, &err));
    OK(&err, store_publish(path, out, &err));
    store_reader_close(reader);
    tape.on = false;
}

/* ---- a crash --------------------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t choices)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % choices;
}

static void disk_room(struct disk_file *file, int64_t bytes)
{
    if (bytes > file->cap) {
        int64_t cap = bytes * 2;
        file->data = realloc(file->data, (size_t)cap);
        assert_non_null(file->data);
        memset(file->data + file->cap, 0, (size_t)(cap - file->cap));
        file->cap = cap;
    }
    file->bytes = bytes > file->bytes ? bytes : file->bytes;
}

/* Writes the sectors that made it: all of them, or each with the chance of `percent`. */
static void disk_write(struct disk_file *file, const struct entry *entry, unsigned percent)
{
    for (int64_t done = 0; done < entry->bytes;) {
        int64_t at = entry->offset + done, part = SECTOR - at % SECTOR;
        if (part > entry->bytes - done)
            part = entry->bytes - done;
        if (draw(100) < percent) {
            disk_room(file, at + part);
            memcpy(file->data + at, entry->data + done, (size_t)part);
        }
        done += part;
    }
}

static void disk_truncate(struct disk_file *file, int64_t bytes)
{
    if (bytes < file->bytes)
        memset(file->data + bytes, 0, (size_t)(file->bytes - bytes));
    disk_room(file, bytes);
    file->bytes = bytes;
}

static void name_apply(const struct entry *entry)
{
    int *from = name_slot(entry->name);
    if (entry->op == CREATE)
        *from = entry->file;
    if (entry->op == CREATE || *from < 0)
        return;
    if (entry->op != REMOVE)
        *name_slot(entry->to) = *from;
    if (entry->op != LINK)
        *from = -1;
}

/* The state of the disk after a crash before entry `crash`. *committed: the time of the last commit
 * before it, -1: none. */
static void crash_at(size_t crash, struct disk_file *file, int64_t *committed)
{
    size_t names_synced = 0;
    unsigned percent = (unsigned)draw(5) * 25;
    *committed = -1;
    for (size_t i = 0; i < crash; i++) {
        if (tape.entry[i].op == SYNC)
            file[tape.entry[i].file].synced = i;
        if (tape.entry[i].op == SYNC_NAMES)
            names_synced = i;
        if (tape.entry[i].op == COMMITTED)
            *committed = tape.entry[i].bytes;
    }
    for (int i = 0; i < tape.names; i++)
        tape.file_of[i] = -1;
    for (size_t i = 0; i < crash; i++) {
        const struct entry *entry = &tape.entry[i];
        struct disk_file *of = &file[entry->file];
        if (entry->op == WRITE)
            disk_write(of, entry, i < of->synced ? 100 : percent);
        else if (entry->op == TRUNCATE && (i < of->synced || draw(2)))
            disk_truncate(of, entry->bytes);
        else if (entry->op >= CREATE && entry->op <= RENAME && (i < names_synced || draw(2)))
            name_apply(entry);
    }
}

static void disk_put(const char *folder, const struct disk_file *file)
{
    char path[240];
    for (int i = 0; i < tape.names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, tape.name[i]);
        REAL(unlink)(path);
        if (tape.file_of[i] < 0)
            continue;
        const struct disk_file *from = &file[tape.file_of[i]];
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, from->data, (size_t)from->bytes), from->bytes);
        close(fd);
    }
}

/* ---- what is found afterwards ------------------------------------------------------------------------ */

static int64_t number_of(sqlite3 *db, const char *sql, char *text, size_t size)
{
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t value = sqlite3_column_type(st, 0) == SQLITE_NULL ? -1 : sqlite3_column_int64(st, 0);
    if (text)
        snprintf(text, size, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    return value;
}

static size_t crashed_at;

/* Opens what there is, as `tacho recover` does, and returns the time of the newest row, -1: none.
 */
static int64_t newest_row(const char *folder)
{
    char path[240], check[80];
    sqlite3 *db;
    store *writer;
    snprintf(path, sizeof path, "%s/out/run.tacho", folder);
    if (access(path, F_OK)) {
        snprintf(path, sizeof path, "%s/live/run.db", folder);
        if (access(path, F_OK))
            return -1;
        int code = store_resume(path, &writer, &err);
        if (code && code != TACHO_EEXISTS) {
            print_message("crash at %zu of %zu: %s\n", crashed_at, tape.count, err.what);
            return -1; /* allowed only before the first commit */
        }
        if (code == 0)
            store_close(writer);
    }
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    number_of(db, "PRAGMA integrity_check", check, sizeof check);
    assert_string_equal(check, "ok");
    int64_t newest = number_of(db, "SELECT max(start) FROM slice", NULL, 0);
    sqlite3_close(db);
    return newest;
}

static void crash_often(const char *folder, int states)
{
    char state[180], part[240];
    snprintf(state, sizeof state, "%.160s.state", folder);
    snprintf(part, sizeof part, "%s/live", state);
    assert_int_equal(mkdir(state, 0700) | mkdir(part, 0700), 0);
    snprintf(part, sizeof part, "%s/out", state);
    assert_int_equal(mkdir(part, 0700), 0);
    for (int i = 0; i < states; i++) {
        struct disk_file file[NAMES] = {0};
        int64_t committed;
        size_t last = tape.count / 8; /* a quarter of the crashes is at the end */
        size_t at = draw(4) ? draw(tape.count) : tape.count - draw(last);
        if (draw(8) == 0)
            at = tape.count - draw(60);
        crashed_at = at;
        crash_at(at, file, &committed);
        disk_put(state, file);
        int64_t newest = newest_row(state);
        if (committed >= 0 && newest < committed - WINDOW)
            print_message("crash at %zu of %zu: newest row %lld, last commit %lld\n", at,
                          tape.count, (long long)newest, (long long)committed);
        assert_true(committed < 0 || newest >= committed - WINDOW);
        for (int k = 0; k < NAMES; k++)
            free(file[k].data);
    }
}

static void test_power_loss(bool reader_stays, const char *name)
{
    const char *states = getenv("POWERLOSS_STATES"), *from = getenv("POWERLOSS_SEED");
    char folder[160];
    snprintf(folder, sizeof folder, "%s/powerloss.%s.%d",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", name, (int)getpid());
    seed += from ? strtoull(from, NULL, 10) * 7919 : 0;
    vfs_register();
    record(folder, reader_stays);
    crash_often(folder, states ? atoi(states) : 25);
    for (size_t i = 0; i < tape.count; i++)
        free(tape.entry[i].data);
    free(tape.entry);
    memset(&tape, 0, sizeof tape);
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s' '%s.state'", folder, folder);
    assert_int_equal(system(command), 0);
}

static void test_alone(void **state)
{
    (void)state;
    test_power_loss(false, "alone");
}

/* The WAL cannot be folded in, so a copy takes the place of the file. */
static void test_beside_a_reader(void **state)
{
    (void)state;
    test_power_loss(true, "reader");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_beside_a_reader)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
