/* SPDX-License-Identifier: Apache-2.0
 *
 * Landlock for files, seccomp for system calls. The filter is a list of what is allowed, because
 * every kernel adds calls. It answers ENOSYS, with which libraries fall back to an older call or
 * report an error, so that a C library with other habits does not end the process.
 */
#include "cli/apart/confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif

#include "profiler/collector/os/privileges.h"

/* ---- files ----------------------------------------------------------------------------------- */

#if defined LANDLOCK_ACCESS_FS_EXECUTE && defined __NR_landlock_create_ruleset

/* The rights that each version of Landlock knows: 1 the first thirteen, then two single ones. */
#define RIGHTS_1       ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define RIGHT_REFER    (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) /* version 2 */
#define RIGHT_TRUNCATE (LANDLOCK_ACCESS_FS_MAKE_SYM << 2) /* version 3 */
#define READ_FILE      LANDLOCK_ACCESS_FS_READ_FILE
#define READ           (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE \
    (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | RIGHT_TRUNCATE)

struct rules {
    int fd;
    uint64_t known;
};

/* Allows `rights` below a file or folder; one that cannot be opened is reported when it is read. */
static void allow(const struct rules *rules, int at, const char *path, uint64_t rights)
{
    struct stat st;
    int fd = openat(at, path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    if (!fstat(fd, &st) && !S_ISDIR(st.st_mode))
        rights &= READ_FILE;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights & rules->known,
                                              .parent_fd = fd};
    syscall(__NR_landlock_add_rule, rules->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(fd);
}

/* Allows what the links of a folder lead to: a folder of ranks may consist of links. */
static void allow_links(const struct rules *rules, const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
            allow(rules, dirfd(folder), entry->d_name, READ_FILE);
    if (folder)
        closedir(folder);
}

static bool confine_files(const struct cli_reach *reach)
{
    long version = syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return false;
    struct rules rules = {.known = RIGHTS_1};
    rules.known |= version >= 2 ? RIGHT_REFER : 0;
    rules.known |= version >= 3 ? RIGHT_TRUNCATE : 0;
    struct landlock_ruleset_attr attr = {.handled_access_fs = rules.known};
    rules.fd = (int)syscall(__NR_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    if (rules.fd < 0)
        return false;

    allow(&rules, AT_FDCWD, "/dev/urandom", READ_FILE);
    for (size_t i = 0; i < reach->read_count; i++) {
        allow(&rules, AT_FDCWD, reach->read[i], READ);
        allow_links(&rules, reach->read[i]);
    }
    for (size_t i = 0; i < reach->write_count; i++)
        allow(&rules, AT_FDCWD, reach->write[i], WRITE);
    bool done = syscall(__NR_landlock_restrict_self, rules.fd, 0) == 0;
    close(rules.fd);
    return done;
}

#else

static bool confine_files(const struct cli_reach *reach)
{
    (void)reach;
    return false;
}

#endif

/* ---- system calls ---------------------------------------------------------------------------- */

#if defined __x86_64__
#define MACHINE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define MACHINE AUDIT_ARCH_AARCH64
#endif

/* Reading and writing files, memory, threads, clocks. Others are allowed with some arguments only:
 * confine_calls(). None of them changes a file by its path: Landlock does not know of modes, owners
 * and times. */
static const int allowed[] = {
    SYS_read,
    SYS_pread64,
    SYS_readv,
    SYS_preadv,
    SYS_write,
    SYS_pwrite64,
    SYS_writev,
    SYS_pwritev,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_flock,
    SYS_dup,
    SYS_dup3,
    SYS_fsync,
    SYS_fdatasync,
    SYS_sync_file_range,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fadvise64,
    SYS_readahead,
    SYS_copy_file_range,
    SYS_unlinkat,
    SYS_renameat,
    SYS_linkat,
    SYS_umask,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_msync,
    SYS_mincore,
    SYS_brk,
    SYS_futex,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_uname,
    SYS_sysinfo,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_restart_syscall,
    SYS_ppoll,
    SYS_exit,
    SYS_exit_group,
#ifdef SYS_open /* the older calls, which x86-64 still has */
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_unlink,
    SYS_rename,
    SYS_link,
    SYS_dup2,
    SYS_poll,
    SYS_time,
    SYS_getdents,
    SYS_arch_prctl,
#endif
#ifdef SYS_renameat2
    SYS_renameat2,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_membarrier
    SYS_membarrier,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
};
#define ALLOWED (sizeof allowed / sizeof *allowed)

#ifdef MACHINE

#define LOAD(member) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))
#define ALLOW  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)
/* Goes on if the loaded word is the value, has one of the bits; else leaves out `skip`
 * instructions. */
#define IF_IS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, (skip))
#define IF_HAS(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(bits), 0, (skip))
/* One of these calls: the first result if its argument has the bits, else the second. */
#define CHECKED(call, argument, bits, with, without) \
    IF_IS(call, 4), LOAD(args[argument]), IF_HAS(bits, 1), with, without

#define SET_ID  06000 /* of a mode: a program runs with the rights of its owner */
#define NO_DATA 07111 /* of a mode: what no file of data has */
/* A bit of F_SETOWN, F_SETSIG and F_SETOWN_EX, that no command for files and locks has. */
#define SIGNALS 8

/* Sets the filter. Memory never holds code that was not loaded before; a thread may begin, but no
 * process; no file that is made or changed becomes a program of root's for others; no descriptor
 * sends signals. Calls of another calling convention have other numbers (x32: above 2^30) and are
 * not in the table. */
static bool confine_calls(void)
{
    static const struct sock_filter start[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
        REFUSE,
        LOAD(nr),
        CHECKED(SYS_mmap, 2, PROT_EXEC, REFUSE, ALLOW),
        CHECKED(SYS_mprotect, 2, PROT_EXEC, REFUSE, ALLOW),
        CHECKED(SYS_clone, 0, CLONE_THREAD, ALLOW, REFUSE),
        CHECKED(SYS_openat, 3, SET_ID, REFUSE, ALLOW),
        CHECKED(SYS_fchmod, 1, NO_DATA, REFUSE, ALLOW),
        CHECKED(SYS_fcntl, 1, SIGNALS, REFUSE, ALLOW),
#ifdef SYS_open
        CHECKED(SYS_open, 2, SET_ID, REFUSE, ALLOW),
#endif
    };
    struct sock_filter filter[sizeof start / sizeof *start + 2 * ALLOWED + 1];
    size_t count = sizeof start / sizeof *start;
    memcpy(filter, start, sizeof start);
    for (size_t i = 0; i < ALLOWED; i++) {
        filter[count++] = (struct sock_filter)IF_IS(allowed[i], 1);
        filter[count++] = (struct sock_filter)ALLOW;
    }
    filter[count++] = (struct sock_filter)REFUSE;
    struct sock_fprog program = {.len = (unsigned short)count, .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#else

static bool confine_calls(void)
{
    (void)allowed;
    return false;
}

#endif

int cli_confine(const struct cli_reach *reach)
{
    static const int kept[] = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH};
    col_privileges_keep(kept, sizeof kept / sizeof *kept);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return 0;
    int done = confine_files(reach) ? CLI_CONFINED_FILES : 0;
    return confine_calls() ? done | CLI_CONFINED_CALLS : done;
}
