/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho run: records a program. The collector does the work; this file turns options into its
 * settings.
 */
#include <string.h>
#include <unistd.h>

#include "cli/base/message.h"
#include "cli/base/run_file.h"
#include "cli/commands/commands.h"
#include "cli/history/git_commit.h"
#include "cli/watch/companion.h"
#include "cli/watch/settings.h"
#include "store/store.h"

struct values {
    const char *output;
    struct cli_range steps;
    int64_t every, max_bytes, sample_ms, pool_mib, stacks_hz, python_hz;
    double overhead, sync;
    const char *gpu, *graphs;
    double duration;
    const char *counters, *unwind;
    bool gpu_memory;
    const char *watch_config;
    bool watch;
    bool no_command, no_counters, no_hook, no_peak, report, gemm_shapes, separate, stacks;
};

static const struct cli_option options[] = {
    CLI_TEXT_ROW("output", 'o', CLI_TEXT, output, "FILE",
                 "record into FILE (PROGRAM-YYYYMMDD-HHMMSS.tacho); never overwritten"),
    CLI_FLAG_ROW("report", 0, report, "print the report on standard output at the end"),
    CLI_FLAG_ROW("watch", 0, watch, "also run 'tacho watch' on it while it is recorded"),
    CLI_TEXT_ROW("watch-config", 0, CLI_TEXT, watch_config, "FILE",
                 "settings of that watch ($XDG_CONFIG_HOME/tacho/watch.conf); implies --watch"),
    CLI_TEXT_ROW("steps", 0, CLI_RANGE, steps, "A:B",
                 "keep details of steps A to B only; totals cover all steps"),
    CLI_NUMBER_ROW("every", 0, CLI_INT, every, "N", "keep details of every Nth step only", 1, 1e9),
    CLI_NUMBER_ROW(
        "max-size", 0, CLI_SIZE, max_bytes, "SIZE",
        "limit of the file: to keep it, details are thinned and old totals merged (2G; 0: "
        "none)",
        0, 9e18),
    CLI_NUMBER_ROW("sync-interval", 0, CLI_NUMBER, sync, "SECONDS",
                   "most of the recording that a crash of the machine may lose (5; 0: sync every "
                   "commit)",
                   0, 3600),
    CLI_TEXT_ROW("gpu", 0, CLI_CHOICE, gpu, "on|off|later",
                 "record GPU work (on); later: only when 'tacho capture' asks for it"),
    CLI_NUMBER_ROW("duration", 0, CLI_NUMBER, duration, "SECONDS",
                   "record GPU work only for the first SECONDS of the run", 0.001, 1e9),
    CLI_TEXT_ROW("cuda-graphs", 0, CLI_CHOICE, graphs, "nodes|whole",
                 "record each kernel of a CUDA graph (nodes), or one row per graph"),
    CLI_FLAG_ROW("gpu-memory", 0, gpu_memory, "also record GPU memory allocations"),
    CLI_TEXT_ROW("counters", 0, CLI_CHOICE, counters, "sampled|roofline",
                 "record GPU hardware counters: over time, or for a few whole steps"),
    CLI_FLAG_ROW("gemm-shapes", 0, gemm_shapes,
                 "record the shape of each cuBLAS GEMM (uses LD_PRELOAD)"),
    CLI_NUMBER_ROW("sample-ms", 0, CLI_INT, sample_ms, "N",
                   "milliseconds between samples of CPU, memory, disk (100; 0: none)", 0, 60000),
    CLI_FLAG_ROW("stacks", 0, stacks,
                 "sample call stacks of CPU time, and lines of Python over time"),
    CLI_NUMBER_ROW("stacks-hz", 0, CLI_INT, stacks_hz, "N",
                   "samples per second of CPU time (99); implies --stacks", 1, 10000),
    CLI_TEXT_ROW(
        "unwind", 0, CLI_CHOICE, unwind, "tables|frames",
        "unwind call stacks by unwind tables or frame pointers (cheaper); implies --stacks"),
    CLI_NUMBER_ROW("python-hz", 0, CLI_INT, python_hz, "N",
                   "looks per second at the lines that Python executes (99; 0: none)", 0, 10000),
    CLI_NUMBER_ROW("overhead", 0, CLI_NUMBER, overhead, "P",
                   "share of steps not recorded, to measure the recording overhead (0.05)", 0, 0.5),
    CLI_NUMBER_ROW("pool", 0, CLI_INT, pool_mib, "MIB", "MiB of event buffer per process (64)", 1,
                   65536),
    CLI_FLAG_ROW(
        "no-command", 0, no_command,
        "do not store the command line; without it secrets in it are replaced by " STORE_REDACTED),
    CLI_FLAG_ROW("no-counters", 0, no_counters, "do not use hardware counters"),
    CLI_FLAG_ROW("no-hook", 0, no_hook,
                 "do not hook into Python: no PyTorch steps, modules and loader"),
    CLI_FLAG_ROW("no-peak", 0, no_peak, "do not measure the machine's peak; disables MFU"),
    CLI_FLAG_ROW("separate", 0, separate,
                 "write one file for this rank instead of one for all ranks on this node"),
    {0},
};

const struct cli_spec cli_run_spec = {
    .help = "run a program and record where its time goes",
    .usage = "[OPTION]... -- COMMAND [ARGUMENT]...",
    .about =
        "Runs COMMAND unchanged and records it into a file. COMMAND keeps its terminal, its "
        "signals and its exit code.\n"
        "tacho records the ranges of programs that use NVTX; the steps, modules and loader of "
        "PyTorch programs; the steps,\n"
        "jitted calls and compilations of JAX programs; and the CPU, memory and disk use of all "
        "programs.\n"
        "'tacho run -- mpirun X' and 'mpirun tacho run -- X' both write one file for the ranks "
        "of a node; 'tacho merge' merges\n"
        "those of several nodes.",
    .options = options,
    .examples = "  tacho run -- python3 train.py --epochs 1\n"
                "  tacho run -o slow.tacho --steps 100:200 -- ./train config.json\n"
                "  mpirun -np 2 tacho run --report -- ./train config.json",
    .stop_at_first = true,
    .least = 1,
    .most = -1,
    .words_missing = "the command to run",
};

/* Prints a message of the collector. It is one line and one write, because the target may be
 * writing to the same terminal. */
static void say(void *ctx, const char *text)
{
    (void)ctx;
    cli_say("%s", text);
}

/* Was this word given for an option? */
static bool is(const char *given, const char *word)
{
    return given && !strcmp(given, word);
}

/* Turns the options of the command line into those of the collector. */
static void set_options(const struct values *values, struct col_options *settings)
{
    settings->output = values->output;
    settings->steps_from = values->steps.set ? values->steps.from : -1;
    settings->steps_to = values->steps.to;
    settings->every = values->every;
    settings->max_bytes = values->max_bytes;
    settings->sample_ms = (int)values->sample_ms;
    settings->pause = values->overhead;
    settings->sync_ns = (int64_t)(values->sync * 1e9);
    settings->pool_mib = (int)values->pool_mib;
    settings->stacks_hz = (int)values->stacks_hz;
    if (!values->stacks_hz && (values->stacks || values->unwind))
        settings->stacks_hz = COL_DEFAULT_STACKS_HZ;
    settings->frame_pointers = is(values->unwind, "frames");
    settings->python_asked = settings->stacks_hz > 0 || values->python_hz > 0;
    if (values->python_hz >= 0)
        settings->python_hz = (int)values->python_hz;
    else if (settings->stacks_hz > 0)
        settings->python_hz = settings->stacks_hz;
    settings->no_command = values->no_command;
    settings->no_counters = values->no_counters;
    settings->gpu = is(values->gpu, "off") ? COL_GPU_OFF : COL_GPU_ON;
    if (is(values->gpu, "later"))
        settings->gpu = COL_GPU_LATER;
    settings->duration_ns = (int64_t)(values->duration * 1e9);
    settings->whole_graphs = is(values->graphs, "whole");
    settings->gpu_memory = values->gpu_memory;
    if (values->counters)
        settings->gpu_counters =
            is(values->counters, "sampled") ? COL_COUNTERS_SAMPLED : COL_COUNTERS_ROOFLINE;
    settings->gemm_shapes = values->gemm_shapes;
    settings->no_hook = values->no_hook;
    settings->no_peak = values->no_peak;
    settings->separate = values->separate;
    settings->message = say;
}

/* A command that was copied from a report may hold what replaced a secret. */
static bool is_redacted(char *const *command)
{
    for (; *command; command++)
        if (strstr(*command, STORE_REDACTED))
            return true;
    return false;
}

int cli_run(int argc, char **argv)
{
    struct col_options settings;
    struct tacho_error err = {0};
    struct col_result result = {0};
    int first;
    col_options_init(&settings);
    struct values values = {.every = 1,
                            .max_bytes = settings.max_bytes,
                            .sample_ms = settings.sample_ms,
                            .overhead = settings.pause,
                            .sync = (double)settings.sync_ns / 1e9,
                            .pool_mib = settings.pool_mib,
                            .python_hz = -1};
    int code = cli_parse(&cli_run_spec, argc, argv, &values, &first);
    if (code > 0)
        return 125; /* env(1): the command was not started */
    if (code == 0)
        return 0;
    settings.command = argv + first;
    if (is_redacted(settings.command)) {
        cli_error(TACHO_ENOTSUP, "type the hidden argument again",
                  "an argument of the command is " STORE_REDACTED ", which replaces a secret");
        return 125;
    }
    set_options(&values, &settings);
    struct cli_companion companion = {.config = values.watch_config};
    if (values.watch || values.watch_config) {
        static struct mon_config config; /* what is wrong in it is said before the run */
        if (cli_watch_settings(values.watch_config, false, &config))
            return 125;
        settings.live = cli_companion_start;
        settings.live_ctx = &companion;
    }
    char commit[65]; /* before the run: it may last for days, in which the folder changes */
    bool has_commit = cli_git_commit(commit);
    code = col_run(&settings, &result, &err);
    cli_companion_end(&companion);
    if (code)
        cli_fail(&err);
    if (!code || result.started)
        code = cli_run_conclude(&result, values.report, has_commit ? commit : NULL);
    else
        code = result.exit_code ? result.exit_code : 125;
    col_result_clear(&result);
    return code;
}
