/* SPDX-License-Identifier: Apache-2.0
 *
 * A journal beside a file comes from whoever wrote the folder. SQLite rolls it back when the file
 * is opened, and removes the file that a journal names as its super-journal: reading a run must not
 * remove anything.
 */
#include "store_test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>

static struct tacho_error err;

static void make_file(const struct scratch *scratch)
{
    store *db = NULL;
    OK(&err, store_create(scratch->file, &db, &err));
    OK(&err, store_finish(db, &err));
    OK(&err, store_publish(scratch->file, scratch->other, &err));
    assert_int_equal(sql_integrity(scratch->other), 1);
}

/* Writes a hot rollback journal for `file`: no pages to restore, and the name of a super-journal if
 * `victim` is not NULL. The format is in SQLite's "Database File Format", section 3. */
static void make_journal(const char *file, const char *victim)
{
    static const unsigned char magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    char path[128];
    unsigned char header[512] = {0};
    uint32_t page_bytes = (uint32_t)sql_int(file, "PRAGMA page_size");
    const uint32_t number[5] = {0, htonl(1), htonl((uint32_t)sql_int(file, "PRAGMA page_count")),
                                htonl((uint32_t)sizeof header), htonl(page_bytes)};
    memcpy(header, magic, sizeof magic);
    memcpy(header + sizeof magic, number, sizeof number);
    snprintf(path, sizeof path, "%s-journal", file);
    FILE *journal = fopen(path, "w");
    assert_non_null(journal);
    fwrite(header, sizeof header, 1, journal);
    if (victim) {
        uint32_t checksum = 0, length = (uint32_t)strlen(victim);
        uint32_t lock_page = htonl(0x40000000U / page_bytes + 1U);
        for (const char *letter = victim; *letter; letter++)
            checksum += (unsigned char)*letter;
        uint32_t end[2] = {htonl(length), htonl(checksum)};
        fwrite(&lock_page, sizeof lock_page, 1, journal);
        fwrite(victim, length, 1, journal);
        fwrite(end, sizeof end, 1, journal);
        fwrite(magic, sizeof magic, 1, journal);
    }
    fclose(journal);
}

static int open_for_reading(const char *file)
{
    store_reader *reader = NULL;
    int code = store_open(file, &reader, &err);
    store_reader_close(reader);
    return code;
}

static void test_super_journal_is_refused(void **state)
{
    struct scratch *scratch = *state;
    char victim[128];
    store *db = NULL;
    make_file(scratch);
    snprintf(victim, sizeof victim, "%s/victim", scratch->folder);
    FILE *precious = fopen(victim, "w");
    assert_non_null(precious);
    fclose(precious);
    make_journal(scratch->other, victim);
    assert_int_equal(open_for_reading(scratch->other), TACHO_EDENIED);
    assert_non_null(strstr(err.what, "journal"));
    assert_int_equal(access(victim, F_OK), 0);
    assert_int_equal(store_open_results(scratch->other, &db, &err), TACHO_EDENIED);
    assert_int_equal(access(victim, F_OK), 0);
}

static void test_own_journal_is_rolled_back(void **state)
{
    struct scratch *scratch = *state;
    make_file(scratch);
    make_journal(scratch->other, NULL);
    OK(&err, open_for_reading(scratch->other));
}

static void test_journal_of_another_user_is_refused(void **state)
{
    struct scratch *scratch = *state;
    char path[128];
    if (geteuid() != 0) {
        print_message("only root can give a file away\n");
        skip();
    }
    make_file(scratch);
    make_journal(scratch->other, NULL);
    snprintf(path, sizeof path, "%s-journal", scratch->other);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(open_for_reading(scratch->other), TACHO_EDENIED);
}

static void test_link_instead_of_a_journal_is_refused(void **state)
{
    struct scratch *scratch = *state;
    char path[128], elsewhere[128];
    make_file(scratch);
    make_journal(scratch->other, NULL);
    snprintf(path, sizeof path, "%s-journal", scratch->other);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", scratch->folder);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_equal(open_for_reading(scratch->other), TACHO_EDENIED);
}

/* Leaves the file in WAL mode, with its WAL and the index of it, as a process that was killed. */
static void make_unfinished(const struct scratch *scratch)
{
    store *db = NULL;
    char from[128], to[128];
    static const char *const suffix[] = {"", "-wal", "-shm"};
    OK(&err, store_create(scratch->file, &db, &err));
    OK(store_error(db), store_run_set(db, "key", "value"));
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        char bytes[65536];
        snprintf(from, sizeof from, "%s%s", scratch->file, suffix[i]);
        snprintf(to, sizeof to, "%s%s", scratch->other, suffix[i]);
        FILE *in = fopen(from, "r"), *out = fopen(to, "w");
        assert_non_null(in);
        assert_non_null(out);
        for (size_t got; (got = fread(bytes, 1, sizeof bytes, in)) > 0;)
            assert_int_equal(fwrite(bytes, 1, got, out), got);
        fclose(in);
        fclose(out);
    }
    store_close(db);
}

/* What lies beside an unfinished file may be another file of the caller under a second name. */
static void test_second_names_are_not_written(void **state)
{
    static const char *const suffix[] = {"-wal", "-shm"};
    struct scratch *scratch = *state;
    char victim[128], path[128], text[16] = "";
    make_unfinished(scratch);
    OK(&err, open_for_reading(scratch->other));
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        snprintf(victim, sizeof victim, "%s/victim", scratch->folder);
        snprintf(path, sizeof path, "%s%s", scratch->other, suffix[i]);
        FILE *precious = fopen(victim, "w");
        assert_non_null(precious);
        fputs("precious", precious);
        fclose(precious);
        unlink(path);
        assert_int_equal(link(victim, path), 0);
        open_for_reading(scratch->other);
        precious = fopen(victim, "r");
        assert_int_equal(fread(text, 1, sizeof text - 1, precious), 8);
        fclose(precious);
        assert_string_equal(text, "precious");
        unlink(path);
    }
}

static void test_pipe_is_not_waited_for(void **state)
{
    struct scratch *scratch = *state;
    char path[128];
    make_unfinished(scratch);
    snprintf(path, sizeof path, "%s-wal", scratch->other);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    open_for_reading(scratch->other);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_super_journal_is_refused, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_own_journal_is_rolled_back, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_journal_of_another_user_is_refused, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_link_instead_of_a_journal_is_refused, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_second_names_are_not_written, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_pipe_is_not_waited_for, scratch_setup,
                                        scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
