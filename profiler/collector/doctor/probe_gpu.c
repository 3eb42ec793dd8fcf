/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of `tacho doctor` about GPUs: driver, CUPTI, NCCL, permission for counters, NVML.
 * Foreign libraries are loaded only in a child process with a time limit, so that a driver that
 * hangs or crashes does not take the doctor with it.
 */
#include "profiler/collector/doctor/probe_private.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/collector/os/privileges.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/samplers/nvml.h"

#define CHILD_MS 15000

void col_sink_add(struct col_sink *sink, const char *group, const char *name,
                  enum col_status status, int error, const char *text, const char *fix)
{
    struct col_probe probe = {
        .group = group, .name = name, .status = status, .error = error, .text = text, .fix = fix};
    if (sink->rc == 0)
        sink->rc = sink->row(sink->ctx, &probe);
}

void col_sink_ok(struct col_sink *sink, const char *group, const char *name, const char *text)
{
    col_sink_add(sink, group, name, COL_STATUS_OK, 0, text, "");
}

static void add(struct col_sink *sink, const char *name, enum col_status status, const char *text,
                const char *fix)
{
    col_sink_add(sink, "gpu", name, status, 0, text, fix);
}

/* ---- what only a child may touch --------------------------------------------------------------------------------------------- */

/* Runs `look` in a child process, which sends its text over a pipe. False: it died or took too
 * long. The first character of the text says what was found: '+' it works, '-' not found, '!'
 * it refuses. */
static bool in_child(void (*look)(char *text, size_t size), char *text, size_t size)
{
    int pipe_fd[2];
    text[0] = 0;
    if (pipe(pipe_fd))
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        char mine[512] = "";
        close(pipe_fd[0]);
        look(mine, sizeof mine);
        ssize_t got = write(pipe_fd[1], mine, strlen(mine) + 1);
        _exit(got > 0 ? 0 : 1);
    }
    close(pipe_fd[1]);
    size_t used = 0;
    struct pollfd pollfd = {.fd = pipe_fd[0], .events = POLLIN};
    while (pid > 0 && used < size && poll(&pollfd, 1, CHILD_MS) > 0) {
        ssize_t n = read(pipe_fd[0], text + used, size - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(pipe_fd[0]);
    if (pid <= 0)
        return false;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    text[size - 1] = 0;
    return used > 0 && memchr(text, 0, used) != NULL;
}

/* In the child: the versions that the CUDA driver reports. */
static void look_at_driver(char *text, size_t size)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = NULL;
    int (*get_version)(int *) = NULL, (*get_count)(int *) = NULL;
    int version_number = 0, device_count = 0;
    unsetenv("CUDA_INJECTION64_PATH");
    if (cuda) {
        init = (int (*)(unsigned))(uintptr_t)dlsym(cuda, "cuInit");
        get_version = (int (*)(int *))(uintptr_t)dlsym(cuda, "cuDriverGetVersion");
        get_count = (int (*)(int *))(uintptr_t)dlsym(cuda, "cuDeviceGetCount");
    }
    if (!init || !get_version || !get_count) {
        snprintf(text, size, "-libcuda.so.1 was not found");
        return;
    }
    int rc = init(0);
    if (rc || get_version(&version_number) || get_count(&device_count))
        snprintf(text, size, "!cuInit answers %d", rc);
    else
        snprintf(text, size, "+CUDA %d.%d, %d device%s", version_number / 1000,
                 version_number % 1000 / 10, device_count, device_count == 1 ? "" : "s");
}

/* Opens the last of the libraries that match a pattern below a prefix: the newest version. */
static void *open_pattern(const char *format, const char *prefix)
{
    char pattern[512];
    glob_t matches;
    void *library = NULL;
    if (!prefix || !*prefix ||
        snprintf(pattern, sizeof pattern, format, prefix) >= (int)sizeof pattern)
        return NULL;
    if (glob(pattern, 0, NULL, &matches) == 0)
        for (size_t i = matches.gl_pathc; i-- > 0 && !library;)
            library = dlopen(matches.gl_pathv[i], RTLD_NOW);
    globfree(&matches);
    return library;
}

/* Opens a library: by its name, from the environments of Python, from the folders of toolkits. */
static void *find_library(const char *const *names, const char *wheel, const char *base)
{
    char in_wheel[256], in_toolkit[2][256];
    void *library = NULL;
    for (; *names && !library; names++)
        library = dlopen(*names, RTLD_NOW);
    snprintf(in_wheel, sizeof in_wheel, "%%s/lib/python3*/site-packages/nvidia/%s/lib/%s.so.*",
             wheel, base);
    snprintf(in_toolkit[0], sizeof *in_toolkit, "%%s/extras/CUPTI/lib64/%s.so.*", base);
    snprintf(in_toolkit[1], sizeof *in_toolkit, "%%s/lib64/%s.so.*", base);
    const char *prefix[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), getenv("CUDA_HOME"),
                            "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix && !library; i++) {
        library =
            i < 2 ? open_pattern(in_wheel, prefix[i]) : open_pattern(in_toolkit[0], prefix[i]);
        if (!library && i >= 2)
            library = open_pattern(in_toolkit[1], prefix[i]);
    }
    return library;
}

/* In the child: the version of a library, and the file it came from. */
static void look_at_library(char *text, size_t size, void *library, const char *symbol)
{
    int (*get)(uint32_t *) =
        library ? (int (*)(uint32_t *))(uintptr_t)dlsym(library, symbol) : NULL;
    uint32_t version = 0;
    Dl_info where = {0};
    if (!get) {
        snprintf(text, size, "-");
        return;
    }
    int rc = get(&version);
    dladdr((void *)(uintptr_t)get, &where);
    const char *file = where.dli_fname ? where.dli_fname : "?";
    if (rc) /* CUPTI from 13.3 on needs the driver even for this */
        snprintf(text, size, "+version not known before the driver works, %s", file);
    else
        snprintf(text, size, "+version %u, %s", version, file);
}

static void look_at_cupti(char *text, size_t size)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};
    void *library = find_library(names, "cu13", "libcupti");
    if (!library)
        library = find_library(names, "cuda_cupti", "libcupti");
    look_at_library(text, size, library, "cuptiGetVersion");
}

static void look_at_nccl(char *text, size_t size)
{
    static const char *const names[] = {"libnccl.so.2", NULL};
    look_at_library(text, size, find_library(names, "nccl", "libnccl"), "ncclGetVersion");
}

/* ---- lines ----------------------------------------------------------------------------------------------------------------------- */

/* The driver. True: it works. */
static bool probe_driver(struct col_sink *sink)
{
    char text[512], file[512] = "", line[640];
    bool answered = in_child(look_at_driver, text, sizeof text);
    col_proc_read("/proc/driver/nvidia/version", file, sizeof file);
    file[strcspn(file, "\n")] = 0;
    if (!answered) {
        add(sink, "driver", COL_STATUS_WARNING, "cuInit did not return within 15 s",
            "is the GPU healthy? see dmesg and nvidia-smi");
        return false;
    }
    if (text[0] == '-' && file[0]) {
        add(sink, "driver", COL_STATUS_NOT_SUPPORTED, "kernel module without libcuda.so.1",
            "install the driver's user-space part; in a container start it with --gpus all");
        return false;
    }
    if (text[0] == '-') {
        add(sink, "driver", COL_STATUS_NOT_SUPPORTED, "no NVIDIA driver here",
            "work on GPUs is not recorded; everything else is");
        return false;
    }
    if (text[0] == '!') {
        add(sink, "driver", COL_STATUS_WARNING, text + 1,
            "100: no device is visible (CUDA_VISIBLE_DEVICES?); 803: driver and library differ");
        return false;
    }
    const char *module = strstr(file, "Module");
    snprintf(line, sizeof line, "%s", text + 1);
    if (module)
        snprintf(line, sizeof line, "%s, kernel %.120s", text + 1, module);
    add(sink, "driver", COL_STATUS_OK, line, "");
    return true;
}

/* A library, as `look` finds it in a child. */
static void probe_library(struct col_sink *sink, const char *name,
                          void (*look)(char *text, size_t size), const char *missing,
                          const char *fix)
{
    char text[512];
    if (!in_child(look, text, sizeof text))
        add(sink, name, COL_STATUS_WARNING,
            "the library that was found ends the process that asks it",
            "CUPTI 13.2 does so where no driver works");
    else if (text[0] == '+')
        add(sink, name, COL_STATUS_OK, text + 1, "");
    else
        add(sink, name, COL_STATUS_NOT_SUPPORTED, missing, fix);
}

static void probe_libraries(struct col_sink *sink)
{
    probe_library(sink, "CUPTI", look_at_cupti, "libcupti was not found from here",
                  "PyTorch brings its own (found once it runs); else install the toolkit, or set "
                  "TACHO_CUPTI");
    probe_library(sink, "NCCL", look_at_nccl, "libnccl was not found from here",
                  "PyTorch brings its own (found once it runs); not needed on a single GPU");
}

#define PERFMON_FROM 565 /* the driver from which on CAP_PERFMON allows counters */

/* Does this process count as an administrator for the driver? It asks for capabilities, not for the
 * user: root in a container often has neither. */
static bool is_administrator(void)
{
    char text[512] = "";
    if (col_privileges_have(CAP_SYS_ADMIN))
        return true;
    col_proc_read("/proc/driver/nvidia/version", text, sizeof text);
    const char *version = strstr(text, "  "); /* "... Kernel Module for x86_64  575.57.08  ..." */
    return col_privileges_have(CAP_PERFMON) && version && strtol(version, NULL, 10) >= PERFMON_FROM;
}

/* Whether this user may read the hardware counters of the GPU. */
static void probe_permission(struct col_sink *sink)
{
    char text[8192] = "";
    long length = col_proc_read("/proc/driver/nvidia/params", text, sizeof text);
    const char *line = length > 0 ? strstr(text, "RmProfilingAdminOnly:") : NULL;
    if (!line) {
        add(sink, "counters", COL_STATUS_NOT_SUPPORTED,
            "the driver does not say who may read its counters",
            "try it: tacho run --counters sampled; a loss row says whether they were refused");
        return;
    }
    bool admin = strtol(line + strlen("RmProfilingAdminOnly:"), NULL, 10) != 0;
    if (!admin || is_administrator())
        add(sink, "counters", COL_STATUS_OK,
            admin ? "for administrators only; this user is one" : "for everybody", "");
    else
        add(sink, "counters", COL_STATUS_DENIED,
            "for administrators only (RmProfilingAdminOnly: 1)",
            "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then load "
            "the module again; in a "
            "container "
            "--cap-add SYS_ADMIN. Kernels and copies are recorded without it");
}

struct nvml_text {
    char found[512], missing[512];
    int ok, absent;
    bool denied;
};

/* Collects the metrics of the first GPU into two lists; the others of a machine are alike. */
static void nvml_row(void *ctx, int device, const char *name, const char *metric,
                     enum col_status status, double value, const char *unit)
{
    struct nvml_text *found = ctx;
    (void)name;
    if (device > 0)
        return;
    char *list = status == COL_STATUS_OK ? found->found : found->missing;
    size_t used = strlen(list);
    if (status == COL_STATUS_OK && value == value)
        snprintf(list + used, sizeof found->found - used, "%s%s %.4g %s", used ? ", " : "",
                 metric + 4, value, unit);
    else if (status != COL_STATUS_OK)
        snprintf(list + used, sizeof found->missing - used, "%s%s", used ? ", " : "", metric + 4);
    found->ok += status == COL_STATUS_OK;
    found->absent += status != COL_STATUS_OK;
    found->denied |= status == COL_STATUS_DENIED;
}

/* In the child: what NVML reports of the GPUs, and what it does not. */
static void look_at_nvml(char *text, size_t size)
{
    struct nvml_text found = {0};
    const char *why;
    int devices = col_nvml_look(nvml_row, &found, &why);
    if (devices < 0) {
        snprintf(text, size, "-%s", why);
        return;
    }
    char mark = found.denied ? '!' : '+';
    int length =
        snprintf(text, size, "%c%d GPU%s: %s", mark, devices, devices == 1 ? "" : "s", found.found);
    if (found.missing[0])
        snprintf(text + length, size - (size_t)length, "; not reported: %s", found.missing);
}

static void probe_nvml(struct col_sink *sink)
{
    char text[512];
    if (!in_child(look_at_nvml, text, sizeof text))
        add(sink, "NVML", COL_STATUS_WARNING, "it did not return within 15 s",
            "is the GPU healthy? see dmesg and nvidia-smi");
    else if (text[0] == '-')
        add(sink, "NVML", COL_STATUS_NOT_SUPPORTED, text + 1,
            "power, energy, clocks and throttling are not recorded");
    else
        add(sink, "NVML", text[0] == '+' ? COL_STATUS_OK : COL_STATUS_DENIED, text + 1, "");
}

void col_probe_gpu(struct col_sink *sink)
{
    bool driver = probe_driver(sink);
    probe_libraries(sink);
    if (driver)
        probe_permission(sink);
    probe_nvml(sink);
}
