/* SPDX-License-Identifier: Apache-2.0
 *
 * tacho-report/1 (docs/report-json.md): the order of the sections, and those that every
 * run has. Every key is always there.
 */
#include "reports/json/json.h"

#include <math.h>
#include <string.h>

#include "reports/json/json_private.h"
#include "reports/json/json_writer.h"
#include "reports/words/phrase.h"
#include "reports/words/select.h"

#define OPS_MOST 2000

/* What was recorded: program, machine, ranks, duration, and every key that the recorder wrote. */
static void put_run(struct rep_writer *writer, const struct an_run *run)
{
    rep_open(writer, "run");
    rep_put_text_or(writer, "file", run->file, "the caller did not name the file");
    rep_put_text_or(writer, "program", run->program, "no process was recorded");
    rep_put_text_or(writer, "around", run->around, "no framework around PyTorch was recognised");
    rep_put_text_or(writer, "host", run->host, "not recorded");
    rep_put_text_or(writer, "ended", run->ended, run->live ? "still running" : "not recorded");
    rep_put_count(writer, "exit_status", run->exit_status);
    rep_put_bool(writer, "live", run->live);
    rep_put_int(writer, "processes", run->processes);
    rep_put_int(writer, "ranks", run->ranks);
    rep_put_int(writer, "threads", run->threads);
    rep_put_count(writer, "cores", run->cores);
    rep_put_value(writer, "duration_s", run->duration_s);
    rep_open(writer, "recorded");
    for (size_t i = 0; i < run->key_count; i++)
        rep_put_text(writer, run->keys[i].key, run->keys[i].value);
    rep_close(writer);
    rep_close(writer);
}

/* A slow step. */
static void put_outlier(struct rep_writer *writer, const void *item)
{
    const struct an_step_outlier *row = item;
    rep_put_int(writer, "rank", row->rank);
    rep_put_int(writer, "index", row->index);
    rep_put_real(writer, "ms", row->ms, "");
    rep_put_real(writer, "score", row->score, "");
    rep_put_text_or(writer, "cause", row->cause, "the ranges of the step are not in the file");
    rep_put_real(writer, "cause_ms", row->cause ? row->cause_ms : NAN,
                 "the ranges of the step are not in the file");
}

/* Batches of one size. */
static void put_step_size(struct rep_writer *writer, const void *item)
{
    const struct an_step_group *row = item;
    rep_put_count(writer, "tokens", row->tokens);
    rep_put_int(writer, "count", row->count);
    rep_put_real(writer, "median_ms", row->median_ms, "");
}

/* The statistics of all steps, then the slow ones and, for batches of different sizes, a row for
 * each size. */
static void put_steps(struct rep_writer *writer, const struct an_steps *steps)
{
    rep_open(writer, "steps");
    rep_put_text_or(writer, "source", steps->source, steps->reason);
    rep_put_text_or(writer, "confidence",
                    steps->source ? an_confidence_text(steps->confidence) : NULL, steps->reason);
    rep_put_int(writer, "count", steps->count);
    rep_put_int(writer, "counted", steps->counted);
    rep_put_int(writer, "paused", steps->paused);
    rep_put_int(writer, "detailed", steps->detailed);
    rep_put_value(writer, "median_ms", steps->median_ms);
    rep_put_value(writer, "mean_ms", steps->mean_ms);
    rep_put_value(writer, "p95_ms", steps->p95_ms);
    rep_put_value(writer, "min_ms", steps->min_ms);
    rep_put_value(writer, "max_ms", steps->max_ms);
    rep_put_value(writer, "sd_ms", steps->sd_ms);
    rep_put_value(writer, "host_median_ms", steps->host_median_ms);
    rep_put_int(writer, "micro_steps", steps->micro_steps);
    rep_put_text_or(writer, "note", steps->note, "nothing unusual about them");
    rep_put_value(writer, "between_ms", steps->between_ms);
    rep_put_value(writer, "tokens_per_s", steps->tokens_per_s);
    rep_put_value(writer, "samples_per_s", steps->samples_per_s);
    rep_put_value(writer, "tokens_per_step", steps->tokens_per_step);
    rep_put_value(writer, "samples_per_step", steps->samples_per_step);
    REP_PUT_ROWS(writer, "outliers", steps->outliers, steps->outlier_count, put_outlier);
    REP_PUT_ROWS(writer, "groups", steps->groups, steps->group_count, put_step_size);
    rep_close(writer);
}

/* The shares of the classes; the keys end in _pct. */
static void put_classes(struct rep_writer *writer, const struct an_budget *budget)
{
    AN_EACH_CLASS(class) {
        char key[40];
        snprintf(key, sizeof key, "%s_pct", an_class_key((enum an_class) class));
        rep_put_value(writer, key, budget->pct[class]);
    }
}

/* The shares of the classes in a step, the same in nanoseconds, and the shares on each device. */
static void put_budget(struct rep_writer *writer, const struct an_result *result)
{
    rep_open(writer, "budget");
    put_classes(writer, &result->budget);
    rep_close(writer);
    rep_open(writer, "budget_ns");
    AN_EACH_CLASS(class)
        rep_put_count(writer, an_class_key((enum an_class) class), result->budget.ns[class]);
    rep_put_int(writer, "step_ns", result->budget.step_ns);
    rep_put_int(writer, "phase_ns", result->budget.phase_ns);
    rep_put_int(writer, "steps", result->budget.steps);
    rep_close(writer);
    rep_open_list(writer, "budget_by_device");
    size_t shown = rep_rows_shown(writer, result->device_count);
    for (size_t i = 0; i < shown; i++) {
        const struct an_device_budget *budget = &result->devices[i];
        rep_open(writer, NULL);
        rep_put_int(writer, "rank", budget->rank);
        rep_put_text(writer, "device", budget->device);
        rep_put_text_or(writer, "name", rep_device_name(result, budget),
                        "the run does not name the device");
        rep_put_text_or(writer, "host", budget->host, "not recorded");
        rep_put_int(writer, "steps", budget->budget.steps);
        rep_put_bool(writer, "worst", budget->worst);
        put_classes(writer, &budget->budget);
        rep_close(writer);
    }
    rep_close(writer);
}

/* A phase of the run other than steps, for instance its evaluations. */
static void put_phase(struct rep_writer *writer, const void *item)
{
    const struct an_phase *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_int(writer, "count", row->count);
    rep_put_real(writer, "wall_ms", row->wall_ms, "");
    rep_put_real(writer, "exposed_ms", row->exposed_ms, "");
}

/* FLOPs of a step in the three conventions, the utilizations that follow from them, and the
 * roofs that they are shares of. */
static void put_utilization(struct rep_writer *writer, const struct an_utilization *utilization)
{
    rep_open(writer, "utilization");
    rep_put_count(writer, "model_flops_per_step", utilization->model_flops_per_step);
    rep_put_count(writer, "hardware_flops_per_step", utilization->hardware_flops_per_step);
    rep_put_count(writer, "palm_flops_per_step", utilization->palm_flops_per_step);
    rep_put_count(writer, "model_flops", utilization->model_flops);
    rep_put_count(writer, "hardware_flops", utilization->hardware_flops);
    rep_put_count(writer, "palm_flops", utilization->palm_flops);
    rep_put_bool(writer, "flops_vary", utilization->flops_vary);
    rep_put_value(writer, "mfu", utilization->mfu);
    rep_put_value(writer, "mfu_palm", utilization->mfu_palm);
    rep_put_value(writer, "hfu", utilization->hfu);
    rep_put_value(writer, "mfu_measured", utilization->mfu_measured);
    rep_put_value(writer, "achieved_flops_per_s", utilization->achieved_flops);
    rep_put_text_or(writer, "dtype", utilization->dtype, utilization->dtype_reason);
    rep_put_value(writer, "peak_flops", utilization->peak_flops);
    rep_put_text_or(writer, "peak_source", utilization->peak_source,
                    utilization->peak_flops.valid ? "not recorded"
                                                  : utilization->peak_flops.reason);
    rep_put_value(writer, "roof_measured_flops", utilization->roof_measured_flops);
    rep_put_text_or(writer, "roof_source", utilization->roof_source,
                    utilization->roof_measured_flops.reason);
    rep_put_count(writer, "recomputed_flops_per_step", utilization->recomputed_flops_per_step);
    rep_put_count(writer, "recomputed_flops", utilization->recomputed_flops);
    rep_put_value(writer, "flop_coverage_pct", utilization->flop_coverage_pct);
    rep_put_texts(writer, "uncounted_operators", utilization->uncounted,
                  utilization->uncounted_count);
    rep_close(writer);
}

static void put_kernel(struct rep_writer *writer, const void *item)
{
    const struct an_op *op = item;
    rep_put_text(writer, "name", op->name);
    rep_put_text(writer, "category", op->category);
    rep_put_text(writer, "kind", op->kind);
    rep_put_text(writer, "pass", op->pass);
    rep_put_int(writer, "count", op->count);
    rep_put_us(writer, "total_us", op->total_ns);
    rep_put_value(writer, "mean_us", op->mean_us);
    rep_put_us_or(writer, "min_us", op->min_ns);
    rep_put_us_or(writer, "max_us", op->max_ns);
    rep_put_value(writer, "sd_us", op->sd_us);
    rep_put_us(writer, "self_us", op->self_ns);
    rep_put_value(writer, "share_pct", op->share_pct);
    rep_put_count(writer, "flops", op->flops);
    rep_put_count(writer, "bytes", op->bytes);
    rep_put_value(writer, "flops_per_s", op->flops_per_s);
    rep_put_value(writer, "bytes_per_s", op->bytes_per_s);
}

/* The ranges, or on an accelerator the kernels and copies, with most time first. Rows above
 * OPS_MOST are only counted. */
static void put_kernels(struct rep_writer *writer, const struct an_result *result)
{
    size_t shown = result->op_count < OPS_MOST ? result->op_count : OPS_MOST;
    REP_PUT_ROWS(writer, "kernels", result->ops, shown, put_kernel);
    rep_put_text_or(writer, "kernels_window", result->ops_window, "nothing was recorded");
    rep_put_int(writer, "kernels_omitted", (int64_t)(result->op_count - shown));
}

/* What the machine did during the run: CPU, memory, storage, faults, context switches. */
static void put_system(struct rep_writer *writer, const struct an_system *system)
{
    rep_open(writer, "system");
    rep_put_value(writer, "cpu_cores", system->cpu_cores);
    rep_put_value(writer, "machine_busy_pct", system->machine_busy_pct);
    rep_put_value(writer, "other_cores", system->other_cores);
    rep_put_value(writer, "cpu_wait_pct", system->cpu_wait_pct);
    rep_put_value(writer, "others_lost_pct", system->others_lost_pct);
    rep_put_value(writer, "others_lost_low_pct", system->others_lost_low_pct);
    rep_put_value(writer, "others_lost_high_pct", system->others_lost_high_pct);
    rep_put_value(writer, "own_wait_pct", system->own_wait_pct);
    rep_put_value(writer, "others_present_pct", system->others_present_pct);
    rep_put_value(writer, "cpu_quota", system->cpu_quota);
    rep_put_bool(writer, "cpu_unlimited", system->cpu_unlimited);
    rep_put_value(writer, "throttled_pct", system->throttled_pct);
    rep_put_value(writer, "throttled_low_pct", system->throttled_low_pct);
    rep_put_value(writer, "throttled_high_pct", system->throttled_high_pct);
    rep_put_value(writer, "throttled_cores", system->throttled_cores);
    rep_put_value(writer, "rss_peak_bytes", system->rss_peak_bytes);
    rep_put_value(writer, "read_bytes", system->read_bytes);
    rep_put_value(writer, "write_bytes", system->write_bytes);
    rep_put_value(writer, "minor_faults", system->minor_faults);
    rep_put_value(writer, "major_faults", system->major_faults);
    rep_put_value(writer, "voluntary_switches", system->voluntary_switches);
    rep_put_value(writer, "involuntary_switches", system->involuntary_switches);
    rep_put_value(writer, "instructions_per_cycle", system->instructions_per_cycle);
    rep_close(writer);
}

/* Waiting for memory while the counted steps ran. */
static void put_pressure(struct rep_writer *writer, const struct an_pressure *pressure)
{
    rep_open(writer, "pressure");
    rep_put_text_or(writer, "scope", pressure->scope, pressure->reason);
    rep_put_value(writer, "some_pct", pressure->some_pct);
    rep_put_value(writer, "full_pct", pressure->full_pct);
    rep_put_value(writer, "major_faults", pressure->major_faults);
    rep_put_value(writer, "limit_hits", pressure->limit_hits);
    rep_put_value(writer, "kills", pressure->kills);
    rep_put_value(writer, "swap_in_bytes", pressure->swap_in_bytes);
    rep_put_count(writer, "limit_bytes", pressure->limit_bytes);
    rep_close(writer);
}

/* Summary statistics of a counter of the program or of the machine. */
static void put_counter(struct rep_writer *writer, const void *item)
{
    const struct an_series *series = item;
    rep_put_text(writer, "name", series->name);
    rep_put_text(writer, "unit", series->unit);
    rep_put_int(writer, "count", series->count);
    rep_put_real(writer, "first", series->first, "");
    rep_put_real(writer, "last", series->last, "");
    rep_put_real(writer, "min", series->min, "");
    rep_put_real(writer, "max", series->max, "");
    rep_put_real(writer, "mean", series->mean, "the sum is too large");
}

/* Whether a quantity of memory grows with the steps: the slope with its interval, and the steps
 * it was fitted to. */
static void put_growth(struct rep_writer *writer, const char *key, const struct an_growth *growth)
{
    const char *none = growth->bytes_per_step.reason;
    rep_open(writer, key);
    rep_put_value(writer, "bytes_per_step", growth->bytes_per_step);
    rep_put_value(writer, "low", growth->low);
    rep_put_value(writer, "high", growth->high);
    rep_put_bool(writer, "grows", growth->grows);
    rep_put_count(writer, "first_step", none ? an_int_none(none) : an_int(growth->first_step));
    rep_put_count(writer, "last_step", none ? an_int_none(none) : an_int(growth->last_step));
    rep_close(writer);
}

static void put_function(struct rep_writer *writer, const void *item)
{
    const struct an_function *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_int(writer, "samples", row->self);
    rep_put_int(writer, "total_samples", row->total);
    rep_put_value(writer, "self_pct", row->self_pct);
    rep_put_value(writer, "total_pct", row->total_pct);
}

/* The functions of the sampled call stacks. */
static void put_stacks(struct rep_writer *writer, const struct an_stack_samples *stacks)
{
    rep_open(writer, "stacks");
    rep_put_count(writer, "samples", stacks->samples);
    rep_put_value(writer, "period_us", stacks->period_us);
    rep_put_value(writer, "cpu_s", stacks->cpu_s);
    const char *unknown = rep_or(stacks->reason, "the file does not say");
    rep_put_text_or(writer, "how", stacks->how, unknown);
    rep_put_text_or(writer, "kernel", stacks->kernel, unknown);
    REP_PUT_ROWS(writer, "functions", stacks->function, stacks->function_count, put_function);
    rep_close(writer);
}

/* Memory of a category. */
static void put_memory_tag(struct rep_writer *writer, const void *item)
{
    const struct an_memory_tag *tag = item;
    rep_put_text(writer, "name", tag->name);
    rep_put_text(writer, "device", tag->device);
    rep_put_int(writer, "current_bytes", tag->current);
    rep_put_int(writer, "peak_bytes", tag->peak);
    rep_put_value(writer, "share_pct", tag->share_pct);
    rep_put_int(writer, "rank_peak_bytes", tag->rank_peak);
    rep_put_count(writer, "rank", tag->rank);
}

/* What the program holds for what, its peak, what is left of the machine, and whether it grows. */
static void put_memory(struct rep_writer *writer, const struct an_memory *memory)
{
    if (rep_put_absent(writer, "memory", memory->reason))
        return;
    rep_open(writer, "memory");
    rep_put_text(writer, "source", memory->source);
    REP_PUT_ROWS(writer, "tags", memory->tags, memory->tag_count, put_memory_tag);
    rep_put_int(writer, "processes", memory->processes);
    rep_put_count(writer, "total_bytes", memory->total_bytes);
    rep_put_count(writer, "peak_bytes", memory->peak_bytes);
    rep_put_count(writer, "rank_peak_bytes", memory->rank_peak_bytes);
    rep_put_count(writer, "rank", memory->rank);
    rep_put_count(writer, "batch_bytes", memory->batch_bytes);
    rep_put_count(writer, "resident_peak_bytes", memory->resident_peak_bytes);
    rep_put_count(writer, "uncounted_bytes", memory->uncounted_bytes);
    rep_put_count(writer, "capacity_bytes", memory->capacity_bytes);
    rep_put_count(writer, "room_bytes", memory->room_bytes);
    rep_put_text_or(writer, "room_device", memory->room_device, "it is that of the machine");
    put_growth(writer, "growth", &memory->growth);
    put_growth(writer, "resident_growth", &memory->resident_growth);
    rep_close(writer);
}

/* Memory that a process keeps from step to step. */
static void put_leak(struct rep_writer *writer, const struct an_leak *leak)
{
    const char *none = "no process grows from step to step";
    if (rep_put_absent(writer, "leak", leak->reason))
        return;
    rep_open(writer, "leak");
    rep_put_bool(writer, "found", leak->found);
    rep_put_text_or(writer, "what", leak->what, none);
    rep_put_text_or(writer, "device", leak->device, leak->found ? leak->no_device : none);
    rep_put_count(writer, "pid", leak->found ? an_int(leak->pid) : an_int_none(none));
    rep_put_count(writer, "rank", leak->found ? leak->rank : an_int_none(none));
    rep_put_value(writer, "bytes_per_step", leak->bytes_per_step);
    rep_put_value(writer, "low", leak->low);
    rep_put_value(writer, "high", leak->high);
    rep_put_value(writer, "steps_left", leak->steps_left);
    rep_close(writer);
}

/* What to change, the largest gain first; the texts are those of the text report. */
static void put_findings(struct rep_writer *writer, const struct an_result *result)
{
    rep_open_list(writer, "findings");
    for (size_t i = 0; i < result->finding_count; i++) {
        const struct an_finding *finding = &result->findings[i];
        size_t lines = 0;
        while (lines < sizeof finding->evidence / sizeof *finding->evidence &&
               finding->evidence[lines])
            lines++;
        rep_open(writer, NULL);
        rep_put_text(writer, "id", finding->id);
        rep_put_text(writer, "claim", finding->claim);
        rep_put_texts(writer, "evidence", finding->evidence, lines);
        rep_put_text(writer, "action", finding->action);
        rep_put_gain(writer, "gain_pct", &finding->gain);
        rep_put_text(writer, "method", finding->method);
        rep_put_text(writer, "effort", finding->effort);
        rep_put_text(writer, "confidence", an_confidence_text(finding->confidence));
        rep_put_text(writer, "verify", finding->verify);
        rep_put_text_or(writer, "setting", finding->setting,
                        "no option of the command and no variable makes it");
        rep_put_text(writer, "wrong_when", finding->wrong_when);
        rep_put_text(writer, "listed", an_listed_key(an_finding_listed(finding)));
        rep_put_text(writer, "changes", finding->changes ? finding->changes : "nothing");
        rep_put_text_or(writer, "what_if", finding->what_if,
                        "the change cannot be expressed in the dependency graph");
        rep_put_bool(writer, "while_others", finding->while_others);
        rep_close(writer);
    }
    rep_close(writer);
}

static void put_exclusion(struct rep_writer *writer, const void *item)
{
    const struct an_step_exclusion *row = item;
    rep_put_int(writer, "rank", row->rank);
    rep_put_int(writer, "index", row->index);
    rep_put_real(writer, "ms", row->ms, "the step has no end");
    rep_put_text(writer, "reason", row->reason);
}

static void put_gap(struct rep_writer *writer, const void *item)
{
    const struct an_gap *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_text(writer, "status", row->status);
}

/* Steps that the statistics exclude, and counters that could not be measured. */
static void put_trust_lists(struct rep_writer *writer, const struct an_result *result)
{
    const struct an_trust *trust = &result->trust;
    REP_PUT_ROWS(writer, "steps_excluded", result->steps.excluded, result->steps.excluded_count,
                 put_exclusion);
    REP_PUT_ROWS(writer, "counters_missing", trust->gaps, trust->gap_count, put_gap);
}

/* What was lost or could not be recorded. */
static void put_loss(struct rep_writer *writer, const void *item)
{
    const struct an_loss *row = item;
    rep_put_text(writer, "source", row->source);
    rep_put_text(writer, "reason", row->reason);
    rep_put_count(writer, "count", row->count);
    rep_put_bool(writer, "lost", row->lost);
    rep_put_real(writer, "t0_s", row->t0_s, "not known when");
    rep_put_real(writer, "t1_s", row->t1_s, "not known when");
}

/* The losses of a rank, or of a process that is none. */
static void put_process_loss(struct rep_writer *writer, const void *item)
{
    const struct an_process_loss *loss = item;
    rep_put_int(writer, loss->is_rank ? "rank" : "pid", loss->number);
    rep_put_int(writer, "lost_events", loss->lost);
    rep_put_int(writer, "events", loss->events);
    rep_put_real(writer, "lost_pct", loss->pct, "");
}

/* How complete and how disturbed the recording is, and which problems the analyzers found in it. */
static void put_trust(struct rep_writer *writer, const struct an_result *result)
{
    const struct an_trust *trust = &result->trust;
    rep_open(writer, "trust");
    rep_put_int(writer, "events", trust->events);
    rep_put_count(writer, "lost_events", trust->lost_events);
    rep_put_value(writer, "lost_pct", trust->lost_pct);
    REP_PUT_ROWS(writer, "lost_by_process", trust->by_process, trust->by_process_count,
                 put_process_loss);
    rep_put_text_or(writer, "missing", trust->missing, "no heavy loss of events");
    REP_PUT_ROWS(writer, "losses", trust->losses, trust->loss_count, put_loss);
    rep_put_value(writer, "overhead_pct", trust->overhead_pct);
    rep_put_value(writer, "overhead_low_pct", trust->overhead_low_pct);
    rep_put_value(writer, "overhead_high_pct", trust->overhead_high_pct);
    rep_put_value(writer, "replay_error_pct", trust->replay_error_pct);
    rep_put_text_or(writer, "replay_error_because", trust->replay_error_because,
                    "no disturbance is known");
    put_trust_lists(writer, result);
    rep_json_capture(writer, &result->quality);
    rep_put_int(writer, "open_ranges", trust->open_ranges);
    rep_put_text_or(writer, "source", trust->source, "not recorded");
    rep_put_text_or(writer, "tool", trust->tool,
                    "the recording does not name the tool that made it");
    rep_put_text_or(writer, "clock", trust->clock, "not recorded");
    rep_put_text_or(writer, "version", trust->version, "not recorded");
    rep_put_text_or(writer, "ended", trust->ended, "not recorded");
    rep_put_texts(writer, "problems", trust->problems, trust->problem_count);
    rep_close(writer);
}

/* The checks that apply to the run and were not made. */
static void put_not_checked(struct rep_writer *writer, const struct an_result *result)
{
    rep_open_list(writer, "not_checked");
    for (size_t i = 0; i < result->not_checked_count; i++) {
        rep_open(writer, NULL);
        rep_put_text(writer, "check", result->not_checked[i].check);
        rep_put_text(writer, "reason", result->not_checked[i].reason);
        rep_put_text(writer, "to_check", result->not_checked[i].to_check);
        rep_close(writer);
    }
    rep_close(writer);
}

/* A command as a list of words, which no shell has to quote; NULL words are left out. */
static void put_command(struct rep_writer *writer, const char *why, const char *verb,
                        const char *file, const char *option, const char *id)
{
    const char *words[6] = {"tacho", verb}, *more[] = {file, option, id};
    size_t count = 2;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i])
            words[count++] = more[i];
    rep_open(writer, NULL);
    rep_put_text(writer, "why", why);
    rep_put_texts(writer, "command", words, count);
    rep_close(writer);
}

/* What a program may run next: the card of the first finding, a trial of the first change that an
 * option makes, the measurement that most checks lack. */
static void put_next(struct rep_writer *writer, const struct an_result *result)
{
    const char *file = result->run.file, *tried = NULL;
    bool calibrate = false;
    bool own = result->trust.source && !strcmp(result->trust.source, "tacho");
    for (size_t i = result->finding_count; i > 0; i--)
        if (result->findings[i - 1].setting && own)
            tried = result->findings[i - 1].id;
    for (size_t i = 0; i < result->not_checked_count; i++)
        calibrate |= strstr(result->not_checked[i].to_check, "tacho calibrate") != NULL;
    rep_open_list(writer, "next");
    if (result->finding_count)
        put_command(writer, "evidence and assumptions of the first finding", "report", file,
                    "--explain", result->findings[0].id);
    if (tried)
        put_command(writer, "records the run with and without the change and compares", "verify",
                    file, NULL, tried);
    if (calibrate)
        put_command(writer, "measures this machine for the checks that were not made", "calibrate",
                    NULL, "--quick", NULL);
    rep_close(writer);
}

/* The order of the sections is part of the schema. */
int rep_json_write(const struct an_result *result, const struct rep_options *options, FILE *out)
{
    struct rep_writer writer, *w = &writer;
    int rc = rep_writer_begin(w, out);
    if (rc)
        return rc;
    rep_put_text(w, "schema", "tacho-report/1");
    rep_put_text(w, "verdict", result->verdict);
    rep_put_text(w, "verdict_class", result->verdict_class);
    rep_put_text_or(w, "caution", result->caution,
                    "no known condition limits what the run can show");
    rep_put_bool(w, "healthy", result->healthy);
    rep_put_texts(w, "checked", result->checked, result->checked_count);
    put_not_checked(w, result);
    put_run(w, &result->run);
    put_steps(w, &result->steps);
    put_budget(w, result);
    REP_PUT_ROWS(w, "phases", result->phases, result->phase_count, put_phase);
    put_utilization(w, &result->utilization);
    rep_json_devices(w, result);
    rep_json_noncompute(w, result);
    rep_json_critical_path(w, &result->critical_path);
    rep_json_roofline(w, result);
    rep_json_bounds(w, &result->bounds);
    rep_json_dataflow(w, &result->dataflow);
    rep_json_loader(w, &result->loader);
    rep_json_communication(w, &result->communication);
    put_kernels(w, result);
    rep_json_host_to_device(w, result);
    rep_json_attribution(w, rep_attribution(result, options->by));
    rep_json_compat(w, &result->compat);
    rep_json_stages(w, &result->stages);
    rep_json_ranks(w, &result->ranks);
    put_memory(w, &result->memory);
    put_leak(w, &result->leak);
    rep_json_allocator(w, &result->allocator);
    rep_json_flight(w, &result->flight);
    rep_json_energy(w, &result->energy);
    rep_json_hardware(w, result);
    rep_json_counted(w, result);
    put_system(w, &result->system);
    put_pressure(w, &result->pressure);
    rep_json_modules(w, &result->modules);
    put_stacks(w, &result->stacks);
    rep_json_python(w, &result->python);
    REP_PUT_ROWS(w, "counters", result->series, result->series_count, put_counter);
    put_findings(w, result);
    rep_json_advice(w, result);
    put_trust(w, result);
    put_next(w, result);
    return rep_writer_end(w);
}
