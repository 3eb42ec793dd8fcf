/* SPDX-License-Identifier: Apache-2.0
 *
 * Parent and child of an import share one page: progress and the wish to stop on the way, the
 * result at the end. The end of the child closes a pipe, which the parent waits for.
 */
#include "cli/apart/import_apart.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/apart/confine.h"
#include "store/files.h"
#include "store/store.h"
#include "tacho_folder.h"

#define WATCH_MS 100
#define TAG      ".import"

struct shared {
    _Atomic int64_t done, total;
    atomic_bool stop, filtered;
    int code;
    struct store_import_result result;
    struct tacho_error error;
};

struct apart {
    const struct store_import_options *options;
    struct shared *shared;
    pid_t parent;
    char hidden[PATH_MAX],
        made[PATH_MAX];      /* a folder beside the file to be made, and the file there */
    char unpacked[PATH_MAX]; /* for what the child unpacks; empty: nothing is to be unpacked */
};

/* ---- the hidden folder ----------------------------------------------------------------------- */

/* Removes a file that an import has made: what is unpacked, the file to be made, what SQLite and
 * the store have beside it. */
static bool remove_made(void *ctx, int folder, const char *name)
{
    static const char *const starts[] = {"run.tacho", ".run.tacho.", "tacho-import-"};
    struct stat st;
    (void)ctx;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(name, starts[i], strlen(starts[i])) &&
            !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
            st.st_uid == geteuid())
            unlinkat(folder, name, 0);
    return true;
}

void cli_import_remove_left(int at, const char *name)
{
    struct stat st;
    int fd = store_folder_open(at, name);
    bool is_own = fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 077);
    if (is_own)
        store_folder_each(fd, remove_made, NULL);
    if (fd >= 0)
        close(fd);
    if (is_own)
        unlinkat(at, name, AT_REMOVEDIR); /* which fails where something else is in it */
}

/* Removes the hidden folders of imports of this file that were killed on this host: "START PID
 * TAG". Not where another user can give that name to a folder of the caller's. */
static void remove_earlier(const char *beside, const char *start)
{
    DIR *folder = tacho_folder_check(beside) ? NULL : opendir(beside);
    size_t length = strlen(start);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char *end;
        if (strncmp(entry->d_name, start, length) != 0)
            continue;
        long pid = strtol(entry->d_name + length, &end, 10);
        if (pid > 0 && !strcmp(end, TAG) && kill((pid_t)pid, 0) && errno == ESRCH)
            cli_import_remove_left(dirfd(folder), entry->d_name);
    }
    if (folder)
        closedir(folder);
}

/* Makes ".NAME.HOST.PID.import" beside the file, and a folder below TMPDIR for exports that have to
 * be unpacked. */
static int make_folders(struct apart *apart, struct tacho_error *err)
{
    const char *out = apart->options->out, *tmp = getenv("TMPDIR");
    char host[64] = "", start[NAME_MAX], copy[PATH_MAX], beside[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", out);
    snprintf(beside, sizeof beside, "%s", dirname(copy));
    snprintf(copy, sizeof copy, "%s", out);
    if (gethostname(host, sizeof host - 1))
        host[0] = 0;
    snprintf(start, sizeof start, ".%.180s.%.20s.", basename(copy), host);
    remove_earlier(beside, start);
    int length = snprintf(apart->hidden, sizeof apart->hidden, "%s/%s%ld" TAG, beside, start,
                          (long)getpid());
    int more = snprintf(apart->made, sizeof apart->made, "%s/run.tacho", apart->hidden);
    bool fits = length < (int)sizeof apart->hidden && more < (int)sizeof apart->made;
    if (!fits || mkdir(apart->hidden, 0700)) {
        int os = fits ? errno : ENAMETOOLONG;
        apart->hidden[0] = 0;
        return tacho_fail(err, tacho_error_of_errno(os),
                          tacho_error_hint(os, "give another name or folder with -o FILE"),
                          "%s: %s", out, strerror(os));
    }
    if ((size_t)snprintf(apart->unpacked, sizeof apart->unpacked, "%s/tacho-unpack-XXXXXX",
                         tmp && *tmp ? tmp : "/tmp") >= sizeof apart->unpacked ||
        !mkdtemp(apart->unpacked))
        apart->unpacked[0] = 0;
    return 0;
}

static void remove_folders(const struct apart *apart)
{
    if (*apart->hidden)
        cli_import_remove_left(AT_FDCWD, apart->hidden);
    if (*apart->unpacked)
        cli_import_remove_left(AT_FDCWD, apart->unpacked);
}

/* ---- the child ------------------------------------------------------------------------------- */

/* Tells the parent how far the import is. Non-zero: it wants no more, or is gone. */
static int tell(void *ctx, int64_t done, int64_t total)
{
    struct apart *apart = ctx;
    atomic_store_explicit(&apart->shared->done, done, memory_order_relaxed);
    atomic_store_explicit(&apart->shared->total, total, memory_order_relaxed);
    return atomic_load_explicit(&apart->shared->stop, memory_order_relaxed) ||
           getppid() != apart->parent;
}

_Noreturn static void run_child(struct apart *apart)
{
    static const int asked[] = {SIGINT, SIGTERM, SIGHUP}; /* of the group: the parent decides */
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        signal(asked[i], SIG_IGN);
    if (*apart->unpacked)
        setenv("TMPDIR", apart->unpacked, 1);
    const char *const folders[] = {apart->hidden, apart->unpacked};
    int confined = cli_confine(&(struct cli_reach){.read = apart->options->in,
                                                   .read_count = apart->options->in_count,
                                                   .write = folders,
                                                   .write_count = *apart->unpacked ? 2 : 1});
    struct store_import_options options = *apart->options;
    struct shared *shared = apart->shared;
    atomic_store_explicit(&shared->filtered, confined & CLI_CONFINED_CALLS, memory_order_relaxed);
    options.out = apart->made;
    options.progress = tell;
    options.ctx = apart;
    shared->code = store_import(&options, &shared->result, &shared->error);
    _exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Shows progress until the child has ended; its exit status as of waitpid(). */
static int watch(const struct apart *apart, pid_t child, int pipe_end)
{
    struct pollfd ends = {.fd = pipe_end, .events = POLLIN};
    const struct store_import_options *options = apart->options;
    struct shared *shared = apart->shared;
    int status = 0;
    while (poll(&ends, 1, WATCH_MS) <= 0)
        if (options->progress &&
            options->progress(options->ctx,
                              atomic_load_explicit(&shared->done, memory_order_relaxed),
                              atomic_load_explicit(&shared->total, memory_order_relaxed)))
            atomic_store_explicit(&shared->stop, true, memory_order_relaxed);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

static int crashed(const struct apart *apart, int status, struct tacho_error *err)
{
    const char *in = apart->options->in[0];
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == SIGKILL)
        return tacho_fail(err, TACHO_ENOMEM, "free some memory, then try again",
                          "%s: the import was killed, probably because memory ran out", in);
    return tacho_fail(err, TACHO_EINTERNAL, "this is a defect of tacho: please report it",
                      "%s: the import ended by signal %d (%s); it had no rights to do harm", in,
                      number, number ? strsignal(number) : "none");
}

/* The child's error, about the file that was asked for and not the one in the hidden folder. */
static void name_output(const struct apart *apart, struct tacho_error *error)
{
    char text[sizeof error->what];
    size_t length = strlen(apart->made);
    if (strncmp(error->what, apart->made, length) != 0)
        return;
    snprintf(text, sizeof text, "%s", error->what + length);
    snprintf(error->what, sizeof error->what, "%.300s%.200s", apart->options->out, text);
}

void cli_import_check_error(int *code, struct tacho_error *error)
{
    if (*code > 0 || *code < TACHO_EINTERRUPTED)
        *code = TACHO_EINTERNAL;
    error->code = *code;
    error->what[sizeof error->what - 1] = error->hint[sizeof error->hint - 1] = 0;
}

static int finish(struct apart *apart, int status, struct store_import_result *result,
                  struct tacho_error *err)
{
    int code = apart->shared->code;
    struct tacho_error error = apart->shared->error;
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return crashed(apart, status, err);
    *result = apart->shared->result;
    if (!code)
        return store_publish(apart->made, apart->options->out, err);
    cli_import_check_error(&code, &error);
    name_output(apart, &error);
    if (err)
        *err = error;
    return code;
}

static int run(struct apart *apart, struct store_import_result *result, struct tacho_error *err)
{
    int ends[2];
    apart->parent = getpid();
    if (pipe2(ends, O_CLOEXEC))
        return tacho_fail(err, tacho_error_of_errno(errno), tacho_error_hint(errno, NULL), "%s: %s",
                          apart->options->in[0], strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_child(apart);
    }
    int os = errno;
    close(ends[1]);
    int rc = child < 0 ? tacho_fail(err, tacho_error_of_errno(os), "allow more processes", "%s: %s",
                                    apart->options->in[0], strerror(os))
                       : finish(apart, watch(apart, child, ends[0]), result, err);
    close(ends[0]);
    return rc;
}

int cli_import_apart(const struct store_import_options *options, struct store_import_result *result,
                     bool *filtered, struct tacho_error *err)
{
    struct apart *apart = calloc(1, sizeof *apart);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc = TACHO_ENOMEM;
    *filtered = true;
    if (!apart || shared == MAP_FAILED) {
        tacho_fail(err, rc, NULL, "%s: out of memory", options->in[0]);
    } else {
        apart->options = options;
        apart->shared = shared;
        rc = make_folders(apart, err);
        shared->filtered = true; /* nothing is said of a child that never was */
        rc = rc ? rc : run(apart, result, err);
        *filtered = shared->filtered;
        remove_folders(apart);
    }
    free(apart);
    if (shared != MAP_FAILED)
        munmap(shared, sizeof *shared);
    return rc;
}
