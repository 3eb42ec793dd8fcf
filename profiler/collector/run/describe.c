/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes a run in the table `run`: version, command and environment (redacted), host, CPU,
 * memory, clocks and options; and finds the agent library.
 */
#include "profiler/collector/run/describe.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/drain/drain.h"
#include "profiler/collector/os/cgroup.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/machine.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/run/redact.h"

extern char **environ;

/* The real path of a readable plain file; -1: it is not one. */
static int resolve(const char *path, char out[COL_PATH_MAX])
{
    char real[PATH_MAX];
    struct stat found;
    if (!realpath(path, real) || stat(real, &found) != 0 || !S_ISREG(found.st_mode) ||
        access(real, R_OK) != 0)
        return -1;
    snprintf(out, COL_PATH_MAX, "%s", real);
    return 0;
}

int col_find_library(const char *given, char path[COL_PATH_MAX], struct tacho_error *err)
{
    static const char *const places[] = {"libtacho.so", "../lib/libtacho.so",
                                         "../lib64/libtacho.so", "../lib/tacho/libtacho.so",
                                         "../../libtacho.so"};
    const char *asked = given ? given : getenv("TACHO_LIBRARY");
    if (asked && *asked) {
        if (resolve(asked, path) == 0)
            return 0;
        return tacho_fail(err, TACHO_ENOTFOUND, "it is built beside tacho",
                          "%s: agent library not found", asked);
    }
    char self[PATH_MAX / 2], candidate[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = 0;
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = 0;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(candidate, sizeof candidate, "%s/%s", self, places[i]);
            if (resolve(candidate, path) == 0)
                return 0;
        }
    }
    return tacho_fail(err, TACHO_ENOTFOUND,
                      "put it beside tacho or in ../lib of it, or set TACHO_LIBRARY",
                      "libtacho.so: agent library not found");
}

/* The CPUs that this process may use, as ranges: "0-3,8". */
static void describe_cpus(char *text, size_t size)
{
    cpu_set_t set;
    text[0] = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        col_cpu_ranges(&set, text, size);
}

/* Cores behind these CPUs: of those that share one (SMT) one counts. 0: the system does not say. */
static int cores_behind(const cpu_set_t *set)
{
    cpu_set_t core;
    CPU_ZERO(&core);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96], text[512];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
                 cpu);
        if (!CPU_ISSET(cpu, set))
            continue;
        if (col_proc_read(path, text, sizeof text) <= 0)
            return 0;
        long first = strtol(text, NULL, 10);
        if (first < 0 || first >= CPU_SETSIZE)
            return 0;
        CPU_SET((size_t)first, &core);
    }
    return CPU_COUNT(&core);
}

/* Memory that the control groups of this process allow, at most `machine`. */
static int64_t memory_limit(int64_t machine)
{
    char text[8192];
    if (col_proc_read("/proc/self/cgroup", text, sizeof text) <= 0)
        return machine;
    return col_cgroup_memory_limit(COL_CGROUP_ROOT, text, machine);
}

/* Writes the keys about host, CPU, memory, kernel and clocks. What the system does not say is
 * omitted. */
static void describe_machine(struct col_keys *keys)
{
    char text[4096], host[128];
    struct utsname system;
    cpu_set_t set;
    if (gethostname(host, sizeof host) == 0)
        col_key_text(keys, "host", host);
    col_cpu_model(text, sizeof text);
    if (text[0])
        col_key_text(keys, "cpu.model", text);
    col_key_int(keys, "cpu.online", sysconf(_SC_NPROCESSORS_ONLN));
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int cores = cores_behind(&set);
        col_key_int(keys, "cpu.usable", CPU_COUNT(&set));
        if (cores)
            col_key_int(keys, "cpu.cores", cores);
    }
    describe_cpus(text, sizeof text);
    if (text[0])
        col_key_text(keys, "cpu.affinity", text);
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t limit = memory > 0 ? memory_limit(memory) : 0;
    if (memory > 0)
        col_key_int(keys, "memory.bytes", memory);
    if (memory > 0 && limit < memory)
        col_key_int(keys, "memory.limit_bytes", limit);
    if (uname(&system) == 0) {
        snprintf(text, sizeof text, "%s %s %s", system.sysname, system.release, system.machine);
        col_key_text(keys, "kernel", text);
    }
    col_read_boot_id(text, sizeof text);
    if (text[0])
        col_key_text(keys, "boot_id", text);
    col_key_text(keys, "clock", col_clock_key());
}

/* Writes the options that change what is in the file. */
static void describe_options(struct col_keys *keys, const struct col_options *options)
{
    char pause[32];
    snprintf(pause, sizeof pause, "%.10g", options->pause);
    col_key_text(keys, "pause.probability", pause);
    col_key_int(keys, "sample.interval_ms", options->sample_ms);
    if (options->max_bytes > 0)
        col_key_int(keys, "max_size", options->max_bytes);
    if (options->steps_from >= 0) {
        char text[64];
        snprintf(text, sizeof text, "%lld:%lld", (long long)options->steps_from,
                 (long long)options->steps_to);
        col_key_text(keys, "steps.window", text);
    }
    if (options->every > 1)
        col_key_int(keys, "steps.every", options->every);
}

int col_describe(store *db, const struct col_options *options)
{
    char *command = options->no_command ? NULL : col_redact_command(options->command),
         *environment = col_redact_environment(environ), stamp[64];
    bool described = (command || options->no_command) && environment;
    struct col_keys keys = {.db = db, .rc = described ? 0 : TACHO_ENOMEM};
    int64_t now = col_clock_realtime();
    time_t seconds = (time_t)(now / 1000000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &tm);
    col_key_text(&keys, "tacho.version", TACHO_VERSION);
    col_key_text(&keys, "command", command);
    col_key_text(&keys, "environment", environment);
    col_key_text(&keys, "start", stamp);
    col_key_int(&keys, "start.realtime_ns", now);
    col_key_int(&keys, "start.monotonic_ns", col_clock_now());
    col_key_int(&keys, "start.suspended_ns", col_clock_suspended());
    col_key_int(&keys, "uid", (int64_t)geteuid());
    describe_machine(&keys);
    describe_options(&keys, options);
    free(command);
    free(environment);
    return keys.rc;
}
