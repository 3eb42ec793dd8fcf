/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/doctor/probe_gpu.h"

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

#include "profiler/collector/os/proc.h"
#include "profiler/collector/samplers/nvml.h"

#define CHILD_MS 15000

struct sink {
    int (*row)(void *ctx, const struct col_probe *p);
    void *ctx;
    int rc;
};

static void tell(struct sink *sink, const char *name, enum col_status status, const char *text,
                 const char *fix)
{
    struct col_probe probe = {
        .group = "gpu", .name = name, .status = status, .text = text, .fix = fix};
    if (sink->rc == 0)
        sink->rc = sink->row(sink->ctx, &probe);
}

/* ---- what only a child may touch --------------------------------------------------------------------------------------------- */

/* Runs `look` in a child; what it wrote is in `text`. False: it died or took too long. */
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

static void look_at_driver(char *text, size_t size)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = cuda ? (int (*)(unsigned))(uintptr_t)dlsym(cuda, "cuInit") : NULL;
    int (*get_version)(int *) =
        cuda ? (int (*)(int *))(uintptr_t)dlsym(cuda, "cuDriverGetVersion") : NULL;
    int (*get_count)(int *) =
        cuda ? (int (*)(int *))(uintptr_t)dlsym(cuda, "cuDeviceGetCount") : NULL;
    int version_number = 0, device_count = 0;
    unsetenv("CUDA_INJECTION64_PATH");
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

/* The library by its name, in the environments of Python, in the places of toolkits. */
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

static void look_at_library(char *text, size_t size, void *library, const char *symbol)
{
    int (*get)(uint32_t *) =
        library ? (int (*)(uint32_t *))(uintptr_t)dlsym(library, symbol) : NULL;
    uint32_t version = 0;
    Dl_info where = {0};
    if (!get || get(&version)) {
        snprintf(text, size, "-");
        return;
    }
    dladdr((void *)(uintptr_t)get, &where);
    snprintf(text, size, "+version %u, %s", version, where.dli_fname ? where.dli_fname : "?");
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

/* True: there is a driver that works. */
static bool probe_driver(struct sink *sink)
{
    char text[512], file[512] = "", line[640];
    bool answered = in_child(look_at_driver, text, sizeof text);
    col_proc_read("/proc/driver/nvidia/version", file, sizeof file);
    file[strcspn(file, "\n")] = 0;
    if (!answered) {
        tell(sink, "driver", COL_STATUS_WARNING, "cuInit did not come back within 15 s",
             "is the GPU healthy? see dmesg and nvidia-smi");
        return false;
    }
    if (text[0] == '-') {
        tell(sink, "driver", COL_STATUS_NOT_SUPPORTED,
             file[0] ? "kernel module without libcuda.so.1" : "no NVIDIA driver here",
             file[0]
                 ? "install the driver's user-space part; in a container start it with --gpus all"
                 : "work on GPUs is not recorded; everything else is");
        return false;
    }
    if (text[0] == '!') {
        tell(sink, "driver", COL_STATUS_WARNING, text + 1,
             "100: no device is visible (CUDA_VISIBLE_DEVICES?); 803: driver and library differ");
        return false;
    }
    const char *module = strstr(file, "Module");
    snprintf(line, sizeof line, "%s%s%.120s", text + 1, module ? ", kernel " : "",
             module ? module : "");
    tell(sink, "driver", COL_STATUS_OK, line, "");
    return true;
}

static void probe_libraries(struct sink *sink)
{
    char text[512];
    bool found = in_child(look_at_cupti, text, sizeof text) && text[0] == '+';
    tell(sink, "CUPTI", found ? COL_STATUS_OK : COL_STATUS_NOT_SUPPORTED,
         found ? text + 1 : "libcupti was not found from here",
         found ? ""
               : "PyTorch brings its own (found once it runs); else install the toolkit, or set "
                 "TACHO_CUPTI");
    found = in_child(look_at_nccl, text, sizeof text) && text[0] == '+';
    tell(sink, "NCCL", found ? COL_STATUS_OK : COL_STATUS_NOT_SUPPORTED,
         found ? text + 1 : "libnccl was not found from here",
         found ? "" : "PyTorch brings its own (found once it runs); of one GPU nothing is missing");
}

static void probe_permission(struct sink *sink)
{
    char text[8192] = "";
    long length = col_proc_read("/proc/driver/nvidia/params", text, sizeof text);
    const char *line = length > 0 ? strstr(text, "RmProfilingAdminOnly:") : NULL;
    if (!line) {
        tell(sink, "counters", COL_STATUS_NOT_SUPPORTED,
             "the driver does not say who may read its counters",
             "try it: tacho run --counters sampled; a loss row says whether they were refused");
        return;
    }
    bool admin = strtol(line + strlen("RmProfilingAdminOnly:"), NULL, 10) != 0;
    if (!admin || geteuid() == 0)
        tell(sink, "counters", COL_STATUS_OK,
             admin ? "for administrators, which this is" : "for everybody", "");
    else
        tell(sink, "counters", COL_STATUS_DENIED,
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

static void nvml_row(void *ctx, int device, const char *name, const char *metric,
                     enum col_status status, double value, const char *unit)
{
    struct nvml_text *found = ctx;
    (void)name;
    if (device > 0)
        return; /* the first stands for all */
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

static void look_at_nvml(char *text, size_t size)
{
    struct nvml_text found = {0};
    const char *why;
    int devices = col_nvml_look(nvml_row, &found, &why);
    if (devices < 0)
        snprintf(text, size, "-%s", why);
    else
        snprintf(text, size, "%c%d GPU%s: %s%s%s", found.denied ? '!' : '+', devices,
                 devices == 1 ? "" : "s", found.found, found.missing[0] ? "; not told: " : "",
                 found.missing);
}

static void probe_nvml(struct sink *sink)
{
    char text[512];
    if (!in_child(look_at_nvml, text, sizeof text))
        tell(sink, "NVML", COL_STATUS_WARNING, "it did not come back within 15 s",
             "is the GPU healthy? see dmesg and nvidia-smi");
    else
        tell(sink, "NVML",
             text[0] == '+'   ? COL_STATUS_OK
             : text[0] == '!' ? COL_STATUS_DENIED
                              : COL_STATUS_NOT_SUPPORTED,
             text + 1,
             text[0] == '-' ? "power, energy, clocks and throttling are not recorded" : "");
}

int col_probe_gpu(int (*row)(void *ctx, const struct col_probe *p), void *ctx)
{
    struct sink sink = {.row = row, .ctx = ctx};
    bool driver = probe_driver(&sink);
    probe_libraries(&sink);
    if (driver)
        probe_permission(&sink);
    probe_nvml(&sink);
    return sink.rc;
}
