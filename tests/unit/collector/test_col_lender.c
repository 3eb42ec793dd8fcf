/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that the collector lends for pools: to a process of the run, which is a descendant; not to
 * another process; none stays behind when the borrower dies.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/agent/core/lender.c"
#include "profiler/collector/job/lender.h"

struct agent_setup agent_setup;

struct fixture {
    char folder[64];
    int pools;
    struct col_lender lender;
};

static int setup(void **state)
{
    static struct fixture fixture;
    char run_id[33];
    snprintf(fixture.folder, sizeof fixture.folder, "/tmp/lender-XXXXXX");
    snprintf(run_id, sizeof run_id, "test%028d", (int)getpid());
    if (!mkdtemp(fixture.folder))
        return -1;
    fixture.pools = open(fixture.folder, O_RDONLY | O_DIRECTORY);
    col_lender_open(&fixture.lender, fixture.pools, run_id);
    *state = &fixture;
    return fixture.lender.listener < 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    char command[96];
    col_lender_close(&fixture->lender);
    close(fixture->pools);
    snprintf(command, sizeof command, "rm -rf %s", fixture->folder);
    return system(command);
}

/* What a borrower does: asks, writes `text` into the file, and says that it is complete or not. */
static int borrow(const char *lender, const char *text, bool complete)
{
    struct agent_loan loan;
    agent_lender_setup(lender);
    int fd = agent_lender_ask(&loan);
    if (fd < 0)
        return 1;
    bool ok = loan.pid == (uint32_t)getpid() && loan.start_ticks > 0 &&
              write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    agent_lender_end(&loan, complete);
    return ok ? 0 : 2;
}

/* Serves until the process has ended; its exit code. */
static int serve(struct fixture *fixture, pid_t pid)
{
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        col_lender_turn(&fixture->lender);
        usleep(1000);
    }
    col_lender_turn(&fixture->lender);
    return WEXITSTATUS(status);
}

static int borrow_in_child(struct fixture *fixture, const char *text, bool complete, pid_t *pid)
{
    *pid = fork();
    if (*pid == 0)
        _exit(borrow(fixture->lender.name, text, complete));
    return serve(fixture, *pid);
}

static bool exists(const struct fixture *fixture, const char *prefix, pid_t pid, int number)
{
    char name[64];
    snprintf(name, sizeof name, "%s%d.%d", prefix, (int)pid, number);
    return faccessat(fixture->pools, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_lends_to_a_child(void **state)
{
    struct fixture *fixture = *state;
    pid_t pid;
    assert_int_equal(borrow_in_child(fixture, "pool", true, &pid), 0);
    assert_true(exists(fixture, WIRE_PREFIX, pid, 0));
    assert_false(exists(fixture, WIRE_NEW, pid, 0));
    assert_int_equal(fixture->lender.count, 0);
    assert_int_equal(fixture->lender.refused, 0);
}

static void test_removes_what_is_not_complete(void **state)
{
    struct fixture *fixture = *state;
    pid_t pid;
    assert_int_equal(borrow_in_child(fixture, "half", false, &pid), 0);
    assert_false(exists(fixture, WIRE_PREFIX, pid, 0));
    assert_false(exists(fixture, WIRE_NEW, pid, 0));
}

static void test_refuses_and_counts_when_the_folder_is_gone(void **state)
{
    struct fixture *fixture = *state;
    pid_t pid;
    assert_int_equal(rmdir(fixture->folder), 0);
    assert_int_equal(borrow_in_child(fixture, "", true, &pid), 1);
    assert_int_equal(fixture->lender.refused, 1);
}

/* The collector is a child here, so this process is none of its run. */
static void test_refuses_a_stranger(void **state)
{
    struct fixture *fixture = *state;
    int lend[2];
    char done;
    assert_int_equal(pipe(lend), 0);
    pid_t collector = fork();
    if (collector == 0) {
        close(lend[1]);
        fcntl(lend[0], F_SETFL, O_NONBLOCK);
        while (read(lend[0], &done, 1) < 0) {
            col_lender_turn(&fixture->lender);
            usleep(1000);
        }
        _exit((int)(fixture->lender.refused + fixture->lender.count));
    }
    close(lend[0]);
    assert_int_equal(borrow(fixture->lender.name, "", true), 1);
    close(lend[1]);
    int status;
    assert_int_equal(waitpid(collector, &status, 0), collector);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(exists(fixture, WIRE_NEW, getpid(), 0));
}

/* The name may be bound by any user: the agent takes a file only from the collector's user. */
static void test_borrows_from_no_other_user(void **state)
{
    struct fixture *fixture = *state;
    char name[COL_LENDER_NAME + 8];
    pid_t pid;
    snprintf(name, sizeof name, "%u%s", (unsigned)geteuid() + 1, strchr(fixture->lender.name, ':'));
    pid = fork();
    if (pid == 0)
        _exit(borrow(name, "", true));
    assert_int_equal(serve(fixture, pid), 1);
    assert_false(exists(fixture, WIRE_PREFIX, pid, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lends_to_a_child, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removes_what_is_not_complete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refuses_and_counts_when_the_folder_is_gone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_refuses_a_stranger, setup, teardown),
        cmocka_unit_test_setup_teardown(test_borrows_from_no_other_user, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
