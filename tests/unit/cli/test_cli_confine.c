/* SPDX-License-Identifier: Apache-2.0
 *
 * What a confined process can and cannot do, and imports by one. Each check runs in a child,
 * because the rights are gone for good; a check that fails ends it with the number of its line.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/apart/confine.h"
#include "cli/apart/import_apart.h"
#include "cli/base/import_cache.h"

/* In a child: 255 lines at most are told apart, which this file does not exceed. */
#define HOLDS(condition) \
    do { \
        if (!(condition)) \
            _exit(__LINE__ & 255 ? __LINE__ & 255 : 1); \
    } while (0)

static char place[512];

static const char *at(const char *name)
{
    static char path[4][1024];
    static int next;
    char *text = path[next++ % 4];
    snprintf(text, sizeof path[0], "%s/%s", place, name);
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int setup(void **state)
{
    (void)state;
    snprintf(place, sizeof place, "%s/confine-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(place));
    assert_int_equal(mkdir(at("in"), 0700), 0);
    assert_int_equal(mkdir(at("out"), 0700), 0);
    write_file(at("in/trace"), "read me");
    write_file(at("secret"), "do not");
    write_file(at("far"), "linked");
    assert_int_equal(symlink("../far", at("in/link")), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const names[] = {"in/trace", "in/link", "in", "out/made",
                                        "out",      "secret",  "far"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(at(names[i]));
    return rmdir(place);
}

/* Runs `check` in a confined child and fails where it does. */
static void confined(void (*check)(int done))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const char *const in[] = {at("in")}, *const out[] = {at("out")};
        check(cli_confine(&(struct cli_reach){in, 1, out, 1}));
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? errno : 0;
}

static void check_files(int done)
{
    HOLDS(opens(at("in/trace"), O_RDONLY) == 0);
    HOLDS(opens(at("in/link"), O_RDONLY) == 0);
    HOLDS(opens(at("out/made"), O_RDWR | O_CREAT) == 0);
    HOLDS(unlink(at("out/made")) == 0);
    if (!(done & CLI_CONFINED_FILES))
        return; /* this kernel has no Landlock */
    HOLDS(opens(at("in/trace"), O_RDWR) == EACCES);
    HOLDS(unlink(at("in/trace")) && errno == EACCES);
    HOLDS(opens(at("in/new"), O_WRONLY | O_CREAT) == EACCES);
    HOLDS(opens(at("secret"), O_RDONLY) == EACCES);
    HOLDS(opens("/etc/passwd", O_RDONLY) == EACCES);
    HOLDS(rename(at("secret"), at("out/secret")) && (errno == EACCES || errno == EXDEV));
    HOLDS(link(at("secret"), at("out/secret")) && (errno == EACCES || errno == EXDEV));
}

static void files_of_the_reach(void **state)
{
    (void)state;
    confined(check_files);
    assert_int_equal(opens(at("secret"), O_RDONLY), 0);
}

static void *add_one(void *number)
{
    ++*(int *)number;
    return NULL;
}

static void check_calls(int done)
{
    pthread_t thread;
    int number = 0;
    HOLDS(pthread_create(&thread, NULL, add_one, &number) == 0);
    HOLDS(pthread_join(thread, NULL) == 0 && number == 1);
    char *more = malloc(64u << 20);
    HOLDS(more);
    memset(more, 1, 64u << 20);
    free(more);
    if (!(done & CLI_CONFINED_CALLS))
        return; /* not for this processor */
    HOLDS(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == ENOSYS);
    HOLDS(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == ENOSYS);
    HOLDS(execl("/bin/true", "true", (char *)NULL) < 0 && errno == ENOSYS);
    HOLDS(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) < 0 && errno == ENOSYS);
    HOLDS(kill(getppid(), 0) < 0 && errno == ENOSYS);
    HOLDS(prctl(PR_SET_DUMPABLE, 1) < 0 && errno == ENOSYS);
    int fd = open(at("out/made"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    HOLDS(fd >= 0 && fchmod(fd, 0644) == 0 && fcntl(fd, F_GETFL) >= 0);
    /* Landlock does not know of modes and times: a file of the user's anywhere would get others */
    HOLDS(chmod(at("secret"), 0666) < 0 && errno == ENOSYS);
    HOLDS(fchmodat(AT_FDCWD, at("secret"), 0666, 0) < 0 && errno == ENOSYS);
    HOLDS(utimensat(AT_FDCWD, at("secret"), NULL, 0) < 0 && errno == ENOSYS);
    /* the file that is made is published: it must not be a program with its owner's rights */
    HOLDS(fchmod(fd, 04755) < 0 && errno == ENOSYS);
    HOLDS(fchmod(fd, 0755) < 0 && errno == ENOSYS);
    HOLDS(open(at("out/other"), O_WRONLY | O_CREAT, 04755) < 0 && errno == ENOSYS);
    /* signals by a descriptor */
    HOLDS(fcntl(fd, F_SETOWN, getppid()) < 0 && errno == ENOSYS);
    HOLDS(fcntl(fd, F_SETSIG, SIGKILL) < 0 && errno == ENOSYS);
    struct f_owner_ex parent = {.type = F_OWNER_PID, .pid = getppid()};
    HOLDS(fcntl(fd, F_SETOWN_EX, &parent) < 0 && errno == ENOSYS);
    close(fd);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(code == MAP_FAILED && errno == ENOSYS);
    code = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(code != MAP_FAILED && mprotect(code, 4096, PROT_READ | PROT_EXEC) < 0);
}

static void threads_but_no_programs(void **state)
{
    (void)state;
    confined(check_calls);
}

/* ---- an import ------------------------------------------------------------------------------- */

static const char trace[] =
    "{\"traceEvents\": ["
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op\", \"pid\": 1, \"tid\": 1, \"ts\": 1, "
    "\"dur\": 2}]}";

static int files_in(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

static int import(struct store_import_options options, struct tacho_error *err)
{
    struct store_import_result result = {0};
    const char *in = at("in/trace");
    char out[1024];
    snprintf(out, sizeof out, "%s", at("out/made"));
    options.in = &in;
    options.in_count = 1;
    options.out = out;
    *err = (struct tacho_error){0};
    bool filtered;
    int rc = cli_import_apart(&options, &result, &filtered, err);
    assert_int_equal(files_in(at("out")), rc == 0 || rc == TACHO_EEXISTS);
    if (!rc)
        assert_int_equal(result.events, 1);
    return rc;
}

static void an_import_leaves_one_file(void **state)
{
    (void)state;
    struct tacho_error err;
    write_file(at("in/trace"), trace);
    assert_int_equal(import((struct store_import_options){0}, &err), 0);
    assert_int_equal(import((struct store_import_options){0}, &err), TACHO_EEXISTS);
}

static void errors_name_the_file_that_was_asked_for(void **state)
{
    (void)state;
    struct tacho_error err;
    write_file(at("in/trace"), "not a trace");
    assert_int_equal(import((struct store_import_options){0}, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, at("in/trace")));
    assert_true(*err.hint);
    /* a folder that is not there */
    const char *in = at("in/trace");
    struct store_import_result result;
    struct store_import_options options = {.in = &in, .in_count = 1, .out = at("none/made")};
    bool filtered;
    assert_int_equal(cli_import_apart(&options, &result, &filtered, &err), TACHO_ENOTFOUND);
    assert_true(filtered);
    assert_null(strstr(err.what, ".import"));
}

#ifdef SYS_open /* x86-64 */
/* Lets the kernel refuse every filter from now on, as a sandbox may. */
static void refuse_filters(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    HOLDS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    HOLDS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Where the filter of system calls is refused, an import goes on and says so, once. */
static void a_refused_filter_is_said(void **state)
{
    (void)state;
    char text[4096] = "";
    int status;
    write_file(at("in/trace"), trace);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const char *in = at("in/trace"), *made = at("out/made"); /* four texts of at() are kept */
        struct store_import_result result;
        HOLDS(freopen(at("far"), "w", stderr) != NULL);
        refuse_filters();
        for (int turn = 0; turn < 2; turn++) {
            HOLDS(cli_import_files(&in, 1, made, NULL, false, &result, NULL) == 0);
            HOLDS(unlink(made) == 0);
        }
        _exit(fflush(stderr));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    FILE *said = fopen(at("far"), "r");
    assert_non_null(said);
    assert_true(fread(text, 1, sizeof text - 1, said) > 0);
    fclose(said);
    const char *found = strstr(text, "seccomp");
    assert_non_null(found);
    assert_null(strstr(found + 1, "seccomp"));
}
#endif

/* Another user who owns the folder can give a folder of the caller's the name of one that an import
 * has left. */
static void what_an_import_did_not_make_stays(void **state)
{
    (void)state;
    struct tacho_error err;
    char left[1200], host[64] = "", path[1400];
    struct stat st;
    gethostname(host, sizeof host - 1);
    snprintf(left, sizeof left, "%s/.made.%.20s.%d.import", at("out"), host, INT_MAX);
    assert_int_equal(mkdir(left, 0700), 0);
    static const char *const names[] = {"precious", "run.tacho", ".run.tacho.x.1.import",
                                        "run.tacho-wal"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", left, names[i]);
        write_file(path, "x");
    }
    write_file(at("in/trace"), "not a trace");
    const char *in = at("in/trace");
    struct store_import_result result;
    struct store_import_options options = {.in = &in, .in_count = 1, .out = at("out/made")};
    bool filtered;
    assert_int_equal(cli_import_apart(&options, &result, &filtered, &err), TACHO_EFORMAT);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", left, names[i]);
        assert_int_equal(lstat(path, &st) == 0, i == 0);
    }
    /* one that others can read is none that an import has made */
    write_file(path, "x");
    assert_int_equal(chmod(left, 0755), 0);
    assert_int_equal(cli_import_apart(&options, &result, &filtered, &err), TACHO_EFORMAT);
    assert_int_equal(lstat(path, &st), 0);
    remove(path);
    snprintf(path, sizeof path, "%s/precious", left);
    remove(path);
    assert_int_equal(rmdir(left), 0);
}

/* What a child says that a trace has taken over. */
static void errors_of_a_child_are_checked(void **state)
{
    (void)state;
    static const int codes[] = {1, -15, INT_MIN, INT_MAX};
    struct tacho_error error;
    for (size_t i = 0; i < 4; i++) {
        int code = codes[i];
        memset(&error, 'x', sizeof error);
        cli_import_check_error(&code, &error);
        assert_int_equal(code, TACHO_EINTERNAL);
        assert_int_equal(error.code, TACHO_EINTERNAL);
        assert_int_equal(strlen(error.what), sizeof error.what - 1);
        assert_int_equal(strlen(error.hint), sizeof error.hint - 1);
    }
    int code = TACHO_EINTERRUPTED;
    error = (struct tacho_error){.code = 0, .what = "stopped"};
    cli_import_check_error(&code, &error);
    assert_int_equal(error.code, TACHO_EINTERRUPTED);
    assert_string_equal(error.what, "stopped");
}

/* Ends the importer from outside, as a defect of a parser or the system would. */
static int end_child(void *ctx, int64_t done, int64_t total)
{
    (void)done;
    (void)total;
    int importer = 0;
    FILE *children = fopen("/proc/thread-self/children", "r");
    if (children && fscanf(children, "%d", &importer) == 1)
        kill(importer, *(int *)ctx);
    if (children)
        fclose(children);
    return 0;
}

static int stop_it(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return 1;
}

/* A trace that takes long enough to be watched. */
static void write_long_trace(void)
{
    FILE *file = fopen(at("in/trace"), "w");
    assert_non_null(file);
    fputs("{\"traceEvents\": [", file);
    for (int i = 0; i < 600000; i++)
        fprintf(file,
                "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op%d\", \"pid\": 1, \"tid\": "
                "1, \"ts\": %d, \"dur\": 2}",
                i ? "," : "", i, 4 * i);
    fputs("]}", file);
    fclose(file);
}

static void a_crash_is_an_error(void **state)
{
    (void)state;
    struct tacho_error err;
    write_long_trace();
    int number = SIGABRT; /* cmocka catches SIGSEGV */
    assert_int_equal(
        import((struct store_import_options){.progress = end_child, .ctx = &number}, &err),
        TACHO_EINTERNAL);
    assert_non_null(strstr(err.what, "signal 6"));
    number = SIGKILL;
    assert_int_equal(
        import((struct store_import_options){.progress = end_child, .ctx = &number}, &err),
        TACHO_ENOMEM);
}

static void an_import_can_be_stopped(void **state)
{
    (void)state;
    struct tacho_error err;
    write_long_trace();
    assert_int_equal(import((struct store_import_options){.progress = stop_it}, &err),
                     TACHO_EINTERRUPTED);
}

int main(void)
{
#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_FILES(files_of_the_reach),
        WITH_FILES(threads_but_no_programs),
        WITH_FILES(an_import_leaves_one_file),
        WITH_FILES(errors_name_the_file_that_was_asked_for),
        WITH_FILES(a_crash_is_an_error),
        WITH_FILES(an_import_can_be_stopped),
        WITH_FILES(what_an_import_did_not_make_stays),
#ifdef SYS_open
        WITH_FILES(a_refused_filter_is_said),
#endif
        cmocka_unit_test(errors_of_a_child_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
