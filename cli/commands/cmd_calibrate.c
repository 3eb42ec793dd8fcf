/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures what this machine can do at most, keeps it, shows it. The instruction peak is the
 * collector's; all else the program train measures, because it has the engine's libraries, threads
 * and flags; the two speak JSON.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/base/train_program.h"
#include "cli/commands/commands.h"
#include "profiler/collector/os/clock.h"
#include "profiler/collector/os/proc.h"
#include "profiler/collector/samplers/calibration.h"

struct values {
    const char *disk;
    bool quick, ops, show, force, json;
};

static const struct cli_option options[] = {
    CLI_FLAG_ROW("quick", 0, quick, "take 18 seconds instead of 65; less accurate"),
    CLI_FLAG_ROW("force", 0, force, "measure again, even if a calibration is kept"),
    CLI_FLAG_ROW("show", 0, show, "show the kept calibration of this machine, measure nothing"),
    CLI_FLAG_ROW(
        "ops", 0, ops,
        "also measure each operation of the reference engine and place it on the roofline"),
    CLI_TEXT_ROW("disk", 0, CLI_TEXT, disk, "DIR",
                 "read the disk of this folder (default: where the calibration is kept)"),
    CLI_FLAG_ROW("json", 'j', json, "print JSON"),
    {0},
};

const struct cli_spec cli_calibrate_spec = {
    .help = "measure the peak performance of this machine once, for rooflines",
    .usage = "[OPTION]...",
    .about =
        "Measures the peak performance of this machine once: FLOP/s of its instructions and of "
        "GEMMs, bandwidth of memory\n"
        "and caches, disk reads, MPI messages. 'tacho run' copies the result into each file it "
        "records, for the roofline.\n"
        "Keep the machine idle during the measurement: load of other programs lowers the "
        "result; tacho reports how much\n"
        "they used.",
    .options = options,
    .examples =
        "  tacho calibrate\n  tacho calibrate --ops --show\n  tacho calibrate --disk /data --force",
};

/* ---- the program train ------------------------------------------------------------------------------------------------------ */

static void fail_ended(char *const *argv, int status, struct tacho_error *err)
{
    if (WIFSIGNALED(status))
        tacho_fail(err, TACHO_EINTERNAL, NULL, "%s %s: ended by signal %d", argv[0], argv[1],
                   WTERMSIG(status));
    else
        tacho_fail(err, TACHO_EINTERNAL, NULL, "%s %s: exited with status %d", argv[0], argv[1],
                   WEXITSTATUS(status));
}

/* In the child: becomes the program, with its standard output in the pipe. */
static _Noreturn void run_child(char *const *argv, const int ends[2], pid_t parent, bool quiet)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nothing goes on measuring when tacho is killed */
    if (getppid() != parent)
        _exit(127);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (!quiet || freopen("/dev/null", "w", stderr))
        execvp(argv[0], argv);
    _exit(127);
}

/* stdout of a command as JSON; NULL with words. `quiet`: its stderr goes nowhere. */
static json_t *run_json(char *const *argv, bool quiet, struct tacho_error *err)
{
    int ends[2], status = 0;
    json_error_t where;
    if (pipe(ends)) {
        tacho_fail(err, TACHO_EIO, NULL, "pipe: %s", strerror(errno));
        return NULL;
    }
    fflush(NULL);
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        run_child(argv, ends, self, quiet);
    close(ends[1]);
    FILE *from = pid > 0 ? fdopen(ends[0], "r") : NULL;
    json_t *out = from ? json_loadf(from, JSON_DISABLE_EOF_CHECK, &where) : NULL;
    if (from)
        fclose(from);
    else
        close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (out && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return out;
    json_decref(out);
    fail_ended(argv, status, err);
    return NULL;
}

/* Runs the program train with `calibrate` and the given options, and returns the JSON that it
 * prints; NULL after a failure. */
static json_t *run_train(const char *train, const struct values *values, const char *what,
                         const char *disk, struct tacho_error *err)
{
    const char *argv[8] = {train, "calibrate"};
    int count = 2;
    if (what)
        argv[count++] = what;
    if (values->quick)
        argv[count++] = "--quick";
    if (disk) {
        argv[count++] = "--disk";
        argv[count++] = disk;
    }
    return run_json((char *const *)argv, false, err);
}

/* The rows of a machine on which no two ranks could be started. */
static json_t *absent_mpi_rows(void)
{
    static const char *const rows[] = {"mpi_latency", "mpi_bandwidth"};
    json_t *absent = json_array();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_array_append_new(absent,
                              json_pack("{s:s, s:s, s:s, s:n, s:s, s:s}", "resource", rows[i],
                                        "dtype", "", "unit", i ? "bytes/s" : "s", "value", "reason",
                                        "mpirun -np 2 did not run here", "fix",
                                        "install openmpi-bin and libopenmpi-dev, 'make' again, "
                                        "then: mpirun -np 2 train "
                                        "calibrate --mpi"));
    return absent;
}

/* Runs two ranks of train. Variables allow Open MPI to let ranks share cores and to be started by
 * root, as every user of a container is; other launchers ignore them. */
static int add_mpi(struct col_calibration *calibration, const char *train,
                   const struct values *values)
{
    const char *argv[] = {
        "mpirun", "-np", "2", train, "calibrate", "--mpi", values->quick ? "--quick" : NULL, NULL};
    struct tacho_error err;
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    json_t *out = run_json((char *const *)argv, true, &err);
    json_t *rows = out ? json_object_get(out, "rows") : absent_mpi_rows();
    int rc = col_calibration_add_json(calibration, rows);
    json_decref(out ? out : rows);
    return rc;
}

/* ---- measuring --------------------------------------------------------------------------------------------------------------- */

/* CPU time of the whole machine and of this program with its children; the difference is what other
 * programs used. */
struct use {
    double machine, own, at; /* seconds */
    bool known;
};

static struct use use_now(void)
{
    static char text[1 << 16];
    struct col_proc_cpu cpu;
    struct rusage self, children;
    struct use use = {.at = (double)col_clock_now() * 1e-9};
    use.known =
        col_proc_read("/proc/stat", text, sizeof text) > 0 && col_proc_parse_cpu(text, &cpu) == 0;
    if (use.known)
        use.machine = (double)cpu.busy / (double)sysconf(_SC_CLK_TCK);
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    const struct timeval *times[] = {&self.ru_utime, &self.ru_stime, &children.ru_utime,
                                     &children.ru_stime};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        use.own += (double)times[i]->tv_sec + 1e-6 * (double)times[i]->tv_usec;
    return use;
}

static void set_time(struct col_calibration *calibration, time_t now)
{
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(calibration->measured_at, sizeof calibration->measured_at, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* Adds how many cores other programs used since `before`. */
static void add_others(struct col_calibration *calibration, const struct use *before)
{
    struct use after = use_now(); /* messages between ranks wait by spinning */
    if (before->known && after.known && after.at > before->at)
        calibration->busy_cores =
            fmax(0, (after.machine - before->machine - (after.own - before->own)) /
                        (after.at - before->at));
}

/* Measures everything anew and saves it at `path`. A TACHO_E* code. */
static int measure(struct col_calibration *calibration, const char *train,
                   const struct values *values, const char *path, struct tacho_error *err)
{
    char folder[COL_PATH_MAX];
    struct col_peak peak;
    struct col_peak_spread spread[3];
    struct use before = use_now();
    time_t now = time(NULL);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    cli_say("measuring for about %s; keep the machine idle", values->quick ? "18 s" : "65 s");
    col_peak_measure_anew(&peak, values->quick ? 0.15 : 1.0, spread);
    int rc = col_calibration_add_peak(calibration, &peak, spread);
    if (!rc) {
        json_t *out = run_train(train, values, NULL, values->disk ? values->disk : folder, err);
        if (!out)
            return err->code;
        rc = col_calibration_add_json(calibration, json_object_get(out, "rows"));
        json_decref(out);
    }
    add_others(calibration, &before);
    if (!rc)
        rc = add_mpi(calibration, train, values);
    if (rc)
        return tacho_fail(err, rc, NULL, "%s: its measurements cannot be read", train);
    set_time(calibration, now);
    calibration->quick = values->quick;
    return col_calibration_save(calibration, path, err);
}

/* Takes the calibration that is kept if it fits what was asked for, else measures a new one. */
static int obtain(struct col_calibration *calibration, const char *train,
                  const struct values *values, char path[COL_PATH_MAX], struct tacho_error *err)
{
    json_t *out = run_train(train, &(struct values){0}, "--libraries", NULL, err);
    char libraries[sizeof calibration->libraries];
    if (!out)
        return err->code;
    const char *text = json_string_value(json_object_get(out, "libraries"));
    snprintf(libraries, sizeof libraries, "%s", text ? text : "");
    json_decref(out);
    int rc = col_calibration_find(calibration, libraries, path, err);
    if (values->show || (rc && rc != TACHO_ENOTFOUND && !values->force) || !*path)
        return rc;
    if (rc == 0 && !values->force && values->disk)
        return tacho_fail(err, TACHO_EUSAGE, "--force measures again, on that disk",
                          "--disk: this machine was already calibrated at %s, with another disk",
                          calibration->measured_at);
    if (rc == 0 && !values->force && (values->quick || !calibration->quick)) {
        cli_say("measured at %s, kept in %s; --force measures again", calibration->measured_at,
                path);
        return 0;
    }
    col_calibration_clear(calibration);
    col_calibration_init(calibration, libraries);
    return measure(calibration, train, values, path, err);
}

/* ---- tables ------------------------------------------------------------------------------------------------------------------ */

/* "113.6 GB/s", 12 columns. */
static void put_value(double value, const char *unit)
{
    static const char *const large[] = {"", "K", "M", "G", "T", "P"};
    static const char *const small[] = {"", "m", "u", "n"};
    char text[32];
    int i = 0;
    bool seconds = !strcmp(unit, "s");
    for (; seconds && value < 1 && i < 3; i++)
        value *= 1e3;
    for (; !seconds && value >= 1e3 && i < 5; i++)
        value /= 1e3;
    if (!strcmp(unit, "bytes/s"))
        unit = "B/s";
    else if (!strcmp(unit, "bytes"))
        unit = "B";
    snprintf(text, sizeof text, "%.4g %s%s", value, seconds ? small[i] : large[i], unit);
    printf("  %13s", text);
}

/* The name of a row; of a point of a curve only that of the curve. */
static void print_name(const struct col_ceiling *ceiling)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s%s%s", (int)strcspn(ceiling->resource, ":"), ceiling->resource,
             *ceiling->dtype ? " " : "", ceiling->dtype);
    printf("%-23s", name);
}

static void print_ceiling(const struct col_ceiling *ceiling)
{
    print_name(ceiling);
    if (isnan(ceiling->value)) {
        printf("  absent: %s\n%-23s  hint: %s\n", ceiling->how, "", ceiling->fix);
        return;
    }
    put_value(ceiling->value, ceiling->unit);
    put_value(ceiling->median, ceiling->unit);
    put_value(ceiling->worst, ceiling->unit);
    printf("  %s\n", ceiling->how);
}

static bool is_point(const struct col_ceiling *ceiling)
{
    return strchr(ceiling->resource, ':') != NULL;
}

/* Are two rows points of one curve? */
static bool same_curve(const struct col_ceiling *left, const struct col_ceiling *right)
{
    size_t length = strcspn(left->resource, ":") + 1;
    return is_point(right) && !strncmp(left->resource, right->resource, length) &&
           !strcmp(left->dtype, right->dtype);
}

/* Prints a curve, whose points are rows that follow each other, in one line: its ends. Returns how
 * many points it has. */
static size_t print_curve(const struct col_ceiling *point, size_t most)
{
    double low = point->value, high = low;
    size_t count = 1;
    for (; count < most && same_curve(point, &point[count]); count++) {
        low = fmin(low, point[count].value);
        high = fmax(high, point[count].value);
    }
    print_name(point);
    put_value(high, point->unit);
    printf("  %28s  best of a curve of %zu shapes; the slowest reaches", "", count);
    put_value(low, point->unit);
    printf(" (--json has all)\n");
    return count;
}

/* Prints what was measured, a row for each resource. */
static void print_ceilings(const struct col_calibration *calibration)
{
    const char *plural = calibration->cores == 1 ? "" : "s";
    printf("%s, %d core%s, %.1f GiB, %s; measured %s%s\n\n", calibration->cpu, calibration->cores,
           plural, (double)calibration->memory_bytes / (1 << 30), calibration->libraries,
           calibration->measured_at, calibration->quick ? " with --quick" : "");
    printf("%-24s %13s  %13s  %13s\n", "resource", "best", "median", "worst");
    for (size_t i = 0; i < calibration->rows;) {
        const struct col_ceiling *row = &calibration->row[i];
        if (is_point(row)) {
            i += print_curve(row, calibration->rows - i);
            continue;
        }
        print_ceiling(row);
        i++;
    }
    if (calibration->busy_cores > 0.1)
        printf("\nother programs used %.1f cores during the measurement: the values may be too "
               "low; --force measures again\n",
               calibration->busy_cores);
}

/* The highest bandwidth of memory: no operation can move more. */
static double memory_roof(const struct col_calibration *calibration)
{
    static const char *const rows[] = {"bandwidth", "bandwidth_read", "bandwidth_write",
                                       "bandwidth_update"};
    double best = NAN;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct col_ceiling *ceiling = col_calibration_get(calibration, rows[i], "");
        best = ceiling ? fmax(best, ceiling->value) : best;
    }
    return best;
}

/* Adds to an operation: gflops, gbps, intensity, bound, attained_pct (null where they are not
 * known). */
static void place(const struct col_calibration *calibration, json_t *op)
{
    double seconds = json_number_value(json_object_get(op, "seconds"));
    double flops = json_number_value(json_object_get(op, "flops"));
    double bytes = json_number_value(json_object_get(op, "bytes_read")) +
                   json_number_value(json_object_get(op, "bytes_written"));
    const char *kind = json_string_value(json_object_get(op, "kind")),
               *dtype = json_string_value(json_object_get(op, "dtype"));
    bool product = kind && strcmp(kind, "other") != 0;
    const struct col_ceiling *peak =
        col_calibration_get(calibration, "flops", product && dtype ? dtype : "fp32");
    double memory = memory_roof(calibration), intensity = bytes > 0 ? flops / bytes : NAN;
    if (!(seconds > 0))
        return;
    json_object_set_new(op, "gflops", json_real(flops / seconds * 1e-9));
    json_object_set_new(op, "gbps", json_real(bytes / seconds * 1e-9));
    json_object_set_new(op, "intensity", isfinite(intensity) ? json_real(intensity) : json_null());
    if (!isfinite(memory) || !peak || !isfinite(intensity))
        return;
    bool compute = intensity * memory >= peak->value, cached = !compute && bytes / seconds > memory;
    double attained = compute ? flops / seconds / peak->value : bytes / seconds / memory;
    const char *bound = compute ? "compute" : "memory";
    json_object_set_new(op, "bound", json_string(cached ? "cached" : bound));
    json_object_set_new(op, "attained_pct", json_real(100 * attained));
}

static const char *text_of(const json_t *op, const char *key)
{
    const char *text = json_string_value(json_object_get(op, key));
    return text ? text : "";
}

static void print_op(const json_t *op)
{
    double seconds = json_number_value(json_object_get(op, "seconds"));
    printf("%-20s %-6s %-28s %-5s", text_of(op, "op"), text_of(op, "dtype"), text_of(op, "shape"),
           text_of(op, "state"));
    if (!(seconds > 0)) {
        printf(" absent: %s\n", text_of(op, "reason"));
        return;
    }
    printf(" %7.3f ms %10.1f %9.1f %9.2f  %s", seconds * 1e3,
           json_number_value(json_object_get(op, "gflops")),
           json_number_value(json_object_get(op, "gbps")),
           json_number_value(json_object_get(op, "intensity")),
           *text_of(op, "bound") ? text_of(op, "bound") : "not known");
    if (json_is_number(json_object_get(op, "attained_pct")))
        printf(" %.0f %%", json_number_value(json_object_get(op, "attained_pct")));
    putchar('\n');
}

/* Prints the operations of the reference engine with their place on the roofline. */
static void print_ops(const json_t *ops)
{
    size_t i;
    json_t *op;
    printf("\n%-20s %-6s %-28s %-5s %10s %10s %9s %9s  %s\n", "operation", "dtype", "shape", "data",
           "time", "GFLOP/s", "GB/s", "FLOP/B", "bound, % of its roof");
    json_array_foreach(ops, i, op)
    {
        print_op(op);
    }
    printf("\ncold: operands come from memory; hot: operands are reused. Bytes are those that the "
           "operation counts. cached:\n"
           "more bytes per second than the memory bandwidth, so they came from a cache; its share "
           "refers to the memory roof.\n");
}

static void print_calibration(const struct col_calibration *calibration, json_t *ops, bool json)
{
    if (json) {
        json_t *all = col_calibration_json(calibration);
        if (all && ops)
            json_object_set(all, "ops", ops);
        cli_json_print(all);
        return;
    }
    print_ceilings(calibration);
    if (ops)
        print_ops(ops);
}

static int check_values(const struct values *values)
{
    if (values->show && values->disk)
        return cli_usage("calibrate", "give only one of them",
                         "--show measures nothing, --disk says which disk to read");
    if (values->show && values->force)
        return cli_usage("calibrate", "give only one of them",
                         "--show measures nothing, --force measures again");
    return 0;
}

int cli_calibrate(int argc, char **argv)
{
    struct values values = {0};
    struct tacho_error err = {0};
    struct col_calibration calibration = {0};
    char train[PATH_MAX], path[COL_PATH_MAX];
    json_t *out = NULL, *op, *ops = NULL;
    size_t i;
    int first, code = cli_parse(&cli_calibrate_spec, argc, argv, &values, &first);
    if (code >= 0)
        return code;
    code = check_values(&values);
    if (code)
        return code;
    if ((code = cli_train_need(train)))
        return code;
    int rc = obtain(&calibration, train, &values, path, &err);
    if (rc == 0 && values.ops) {
        out = run_train(train, &values, "--only-ops", NULL, &err);
        rc = out ? 0 : err.code;
        ops = json_object_get(out, "ops");
        json_array_foreach(ops, i, op) place(&calibration, op);
    }
    if (rc == 0)
        print_calibration(&calibration, ops, values.json);
    json_decref(out);
    col_calibration_clear(&calibration);
    return rc ? cli_fail(&err) : 0;
}
