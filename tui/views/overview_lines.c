/* SPDX-License-Identifier: Apache-2.0
 *
 * One line each about loader, communication, operations, accelerators, system and speed. The line
 * that belongs to the largest loss of the run comes first, so that a small screen keeps it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/kernel_name.h"
#include "reports/words/phrase.h"
#include "store/store.h"
#include "tui/screen/draw.h"
#include "tui/views/overview.h"

/* ---- loader ---------------------------------------------------------------------------------- */

static bool has_loader(const struct tui_model *model)
{
    return model->result && !model->result->loader.reason &&
           (model->result->loader.wait_ms_per_step.valid || model->result->loader.stage_count);
}

/* Waits, workers, the depth of the queue as a curve, and the time of each stage. */
static void loader_items(struct tui_line *line, const struct tui_model *model)
{
    const struct an_loader *loader = &model->result->loader;
    size_t queues;
    const struct tui_series *series = tui_lowest_series(model, "queue_depth", 0, &queues);
    if (loader->wait_ms_per_step.valid)
        tui_item(line, TUI_NORMAL, "waits %s a step",
                 TIME_TEXT(loader->wait_ms_per_step.value * 1e6));
    if (loader->workers.valid && loader->workers_needed.valid)
        tui_item(line, loader->workers.value < loader->workers_needed.value ? TUI_WARN : TUI_NORMAL,
                 "workers %" PRId64 ", needs %" PRId64, loader->workers.value,
                 loader->workers_needed.value);
    else if (loader->workers.valid)
        tui_item(line, TUI_NORMAL, "workers %" PRId64, loader->workers.value);
    if (series && series->count) {
        double most = 0;
        for (size_t i = 0; i < series->count; i++)
            most = series->value[i] > most ? series->value[i] : most;
        tui_item(line, TUI_DIM, "queue");
        int column = tui_item_room(line, 8);
        struct tui_samples samples = tui_samples_of(series->value, series->count, 0);
        if (column >= 0)
            tui_spark(line->cells, line->area, line->row, column, 8, &samples, 0, most,
                      TUI_CLASS + AN_CLASS_INPUT);
        tui_item(line, TUI_NORMAL, "%.3g", series->last);
    }
    for (size_t i = 0; i < loader->stage_count; i++)
        if (loader->stages[i].ms_per_batch.valid && strcmp(loader->stages[i].name, "queue_wait"))
            tui_item(line, TUI_NORMAL, "%.20s %s", loader->stages[i].name,
                     TIME_TEXT(loader->stages[i].ms_per_batch.value * 1e6));
}

/* ---- communication --------------------------------------------------------------------------- */

static bool has_communication(const struct tui_model *model)
{
    return model->result && !model->result->communication.reason &&
           model->result->communication.total_ms.valid;
}

/* Exposed communication, waiting and transfer (the larger part first), the rank that the others
 * wait for, bytes, and the part that compute hides. */
static void communication_items(struct tui_line *line, const struct tui_model *model)
{
    const struct an_communication *communication = &model->result->communication;
    const struct an_comm_rank *last = NULL;
    if (communication->exposed_ms.valid)
        tui_item(line, TUI_NORMAL, "exposed %s a step",
                 TIME_TEXT(communication->exposed_ms.value * 1e6));
    else
        tui_item(line, TUI_NORMAL, "%s a step", TIME_TEXT(communication->total_ms.value * 1e6));
    for (size_t i = 0; i < communication->rank_count; i++)
        if (communication->ranks[i].last_pct.valid &&
            (!last || communication->ranks[i].last_pct.value > last->last_pct.value))
            last = &communication->ranks[i];
    bool waits =
        communication->exposed_waiting_ms.valid &&
        (!communication->exposed_transfer_ms.valid ||
         communication->exposed_waiting_ms.value > communication->exposed_transfer_ms.value);
    for (int i = 0; i < 2; i++) { /* the larger part first, and who is waited for */
        const struct an_value *part = waits == (i == 0) ? &communication->exposed_waiting_ms
                                                        : &communication->exposed_transfer_ms;
        if (part->valid)
            tui_item(line, TUI_NORMAL, "%s %s",
                     part == &communication->exposed_waiting_ms ? "waiting" : "transfer",
                     TIME_TEXT(part->value * 1e6));
        if (part == &communication->exposed_waiting_ms && last && communication->rank_count > 1)
            tui_item(line, TUI_NORMAL, "rank %" PRId64 " last %.0f %%", last->rank,
                     last->last_pct.value);
    }
    if (communication->bytes_per_step.valid)
        tui_item(line, TUI_NORMAL, "%s a step", BYTES_TEXT(communication->bytes_per_step.value));
    tui_item_value(line, TUI_NORMAL, communication->overlap_pct, "overlapped %.0f %%");
}

/* ---- ops ------------------------------------------------------------------------------------- */

static bool has_ops(const struct tui_model *model)
{
    return model->result && model->result->op_count;
}

/* The time that shares are taken of; 0: none. On the CPU that is the time of the operations of the
 * model, as the verdict counts them (*only_work). For a program without any, and on devices, where
 * waits are no operations, it is the time of all. */
static double work_ns(const struct an_result *result, bool *only_work)
{
    double work = 0, all = 0;
    for (size_t i = 0; i < result->op_count; i++) {
        double ns = (double)result->ops[i].self_ns;
        all += ns;
        work += an_op_is_work(&result->ops[i]) ? ns : 0;
    }
    *only_work = result->gpu.reason && work > 0;
    return *only_work ? work : all;
}

/* The operations with most time and their shares. */
static void op_items(struct tui_line *line, const struct tui_model *model)
{
    const struct an_result *result = model->result;
    bool only_work;
    double all = work_ns(result, &only_work), rest = 0;
    int shown = 0;
    for (size_t i = 0; i < result->op_count && all > 0; i++) {
        const struct an_op *op = &result->ops[i];
        char name[64];
        double pct = only_work || !op->share_pct.valid ? 100 * (double)op->self_ns / all
                                                       : op->share_pct.value;
        if (only_work && !an_op_is_work(op))
            continue;
        rep_kernel_name(name, sizeof name, op->name);
        if (*name)
            name[1 + strcspn(name + 1, "<")] =
                0; /* of a kernel template its arguments have no room here */
        if (pct >= 0.5 && shown < 4 &&
            tui_item(line, TUI_NORMAL, "%.32s%s %.0f %%", rep_or(name, "(unnamed)"),
                     strlen(name) > 32 ? "~" : "", pct))
            shown++;
        else
            rest += pct;
    }
    if (rest >= 0.5)
        tui_item(line, TUI_DIM, "other %.0f %%", rest);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static bool has_gpus(const struct tui_model *model)
{
    return model->result && !model->result->hardware.reason && model->result->hardware_gpu_count;
}

/* Activity, power and what holds the clock back, of the first GPU. */
static void gpu_items(struct tui_line *line, const struct tui_model *model)
{
    const struct an_result *result = model->result;
    const struct an_gpu_hardware *hardware = result->hardware_gpus;
    if (result->hardware_gpu_count > 1)
        tui_item(line, TUI_NORMAL, "%zu, gpu:%" PRId64, result->hardware_gpu_count, hardware->gpu);
    tui_item_value(line, TUI_NORMAL, hardware->sm_active_pct, "SMs %.0f %%");
    tui_item_value(line, TUI_NORMAL, hardware->tensor_active_pct, "matrix units %.0f %%");
    if (hardware->power_w.valid && hardware->power_limit_w.valid)
        tui_item(line, TUI_NORMAL, "%.0f of %.0f W", hardware->power_w.value,
                 hardware->power_limit_w.value);
    tui_item_value(line, TUI_NORMAL, hardware->dram_active_pct, "memory %.0f %%");
    if (hardware->reason_count)
        tui_item(line, hardware->reasons[0].fault ? TUI_BAD : TUI_WARN, "limited by %.30s %.0f %%",
                 hardware->reasons[0].name, hardware->reasons[0].pct);
    tui_item_value(line, TUI_NORMAL, hardware->temperature_max_c, "%.0f C");
}

/* ---- system ---------------------------------------------------------------------------------- */

static bool has_system(const struct tui_model *model)
{
    return tui_model_series(model, "cpu_busy") || tui_model_series(model, "rss") ||
           (model->result && !model->result->system.reason);
}

/* The newest values of a counter, added up over the processes of the run; of the machine where no
 * process has it. */
static bool newest(const struct tui_model *model, const char *name, double *value,
                   const char **unit)
{
    double sum[2] = {0, 0}; /* of processes, of the machine */
    int known[2] = {0, 0};
    for (size_t i = 0; i < model->series_count; i++) {
        struct tui_curve curve;
        if (strcmp(model->series[i].name, name) || !tui_curve_of(model, &model->series[i], &curve))
            continue;
        int whose = model->series[i].process == STORE_ABSENT;
        sum[whose] += curve.last;
        known[whose]++;
        *unit = curve.unit;
        free(curve.value);
    }
    *value = sum[!known[0]];
    return known[0] || known[1];
}

/* An item with the newest value of a counter, if there is one. */
static void newest_item(struct tui_line *line, const struct tui_model *model, const char *name,
                        const char *label)
{
    const char *unit;
    double value;
    char text[48];
    if (newest(model, name, &value, &unit))
        tui_item(line, TUI_NORMAL, "%s %s", label, tui_quantity(text, unit, value));
}

static double online_cores(const struct tui_model *model)
{
    const char *cores = model->result ? an_run_key(&model->result->run, "cpu.online") : NULL;
    return cores ? strtod(cores, NULL) : 0;
}

/* Names the cores that other programs keep busy: they slow a run down without leaving a trace in
 * it. */
static void other_programs(struct tui_line *line, const struct tui_model *model, double busy_pct)
{
    const char *unit;
    double run, cores = online_cores(model);
    if (!(cores > 0) || !newest(model, "cpu_time", &run, &unit))
        return;
    double other = busy_pct / 100 * cores - run;
    if (other >= 0.3 && other >= 0.1 * cores)
        tui_item(line, TUI_WARN, "others %.1f of %.0f", other, cores);
}

static void busy_items(struct tui_line *line, double pct)
{
    tui_item(line, TUI_NORMAL, "cpu");
    int column = tui_item_room(line, 8);
    if (column >= 0)
        tui_bar(line->cells, line->area, line->row, column, 8, pct / 100, TUI_SERIES + 2);
    tui_item(line, TUI_NORMAL, "%.0f %%", pct);
}

/* For a run that is over: figures of its analysed part, not of its last moment. */
static void machine_total(struct tui_line *line, const struct an_system *system)
{
    if (system->machine_busy_pct.valid)
        busy_items(line, system->machine_busy_pct.value);
    tui_item_value(line, TUI_NORMAL, system->cpu_cores, "run %.2f cores");
    if (system->other_cores.valid && system->other_cores.value >= 0.3)
        tui_item(line, TUI_WARN, "others %.1f", system->other_cores.value);
    if (system->rss_peak_bytes.valid)
        tui_item(line, TUI_NORMAL, "memory at most %s", BYTES_TEXT(system->rss_peak_bytes.value));
    if (system->read_bytes.valid)
        tui_item(line, TUI_NORMAL, "disk read %s", BYTES_TEXT(system->read_bytes.value));
}

/* CPU, memory and storage: the current values of a live run; totals of the analysed part of a
 * finished one. */
static void machine_items(struct tui_line *line, const struct tui_model *model)
{
    if (model->state != TUI_LIVE && model->result && !model->result->system.reason) {
        machine_total(line, &model->result->system);
        return;
    }
    const struct tui_series *series = tui_model_series(model, "cpu_busy");
    if (series && isfinite(series->last))
        busy_items(line, series->last);
    newest_item(line, model, "cpu_time", "run");
    if (series && isfinite(series->last) && model->state == TUI_LIVE)
        other_programs(line, model, series->last);
    newest_item(line, model, "rss", "memory");
    newest_item(line, model, "disk_read", "reads");
    if (model->result && model->result->system.instructions_per_cycle.valid)
        tui_item(line, TUI_NORMAL, "ipc %.2f", model->result->system.instructions_per_cycle.value);
    else if (model->result && model->result->trust.gap_count)
        tui_item(line, TUI_DIM, "no counters (T: why)");
}

/* ---- speed ----------------------------------------------------------------------------------- */

static bool has_speed(const struct tui_model *model)
{
    return model->result &&
           (model->result->steps.tokens_per_s.valid || model->result->steps.samples_per_s.valid ||
            model->result->utilization.achieved_flops.valid);
}

/* Throughput, and FLOP/s compared with the peak. */
static void speed_items(struct tui_line *line, const struct tui_model *model)
{
    const struct an_result *result = model->result;
    const struct an_utilization *utilization = &result->utilization;
    if (result->steps.tokens_per_s.valid)
        tui_item(line, TUI_NORMAL, "%s tokens/s", NUMBER_TEXT(result->steps.tokens_per_s.value));
    if (result->steps.samples_per_s.valid)
        tui_item(line, TUI_NORMAL, "%s samples/s", NUMBER_TEXT(result->steps.samples_per_s.value));
    if (utilization->achieved_flops.valid && utilization->peak_flops.valid)
        tui_item(line, TUI_NORMAL, "%s of %s", SI_TEXT(utilization->achieved_flops.value, "FLOP/s"),
                 SI_TEXT(utilization->peak_flops.value, "FLOP/s"));
    else if (utilization->achieved_flops.valid)
        tui_item(line, TUI_NORMAL, "%s", SI_TEXT(utilization->achieved_flops.value, "FLOP/s"));
    if (utilization->hfu.valid)
        tui_item(line, TUI_NORMAL, "HFU %.1f %%", 100 * utilization->hfu.value);
    if (utilization->dtype)
        tui_item(line, TUI_NORMAL, "%.20s", utilization->dtype);
}

/* ---- order ----------------------------------------------------------------------------------- */

static const struct {
    const char *label;
    int class; /* the class whose share of a step is the weight of the line; -1: none */
    bool (*has)(const struct tui_model *m);
    void (*draw)(struct tui_line *l, const struct tui_model *m);
} lines[] = {{" ranks", AN_CLASS_COMM, tui_overview_has_ranks, tui_overview_rank_items},
             {" ops", -1, has_ops, op_items},
             {" loader", AN_CLASS_INPUT, has_loader, loader_items},
             {" comm", AN_CLASS_COMM, has_communication, communication_items},
             {" gpu", -1, has_gpus, gpu_items},
             {" system", -1, has_system, machine_items},
             {" speed", -1, has_speed, speed_items}};
#define LINES (sizeof lines / sizeof *lines)

int tui_overview_lines(const struct tui_model *model)
{
    int count = 0;
    for (size_t i = 0; i < LINES; i++)
        count += lines[i].has(model);
    return count;
}

/* Each round picks the line with the largest share of a step; lines without a class keep their
 * order. */
void tui_overview_draw_lines(struct tui_cells *cells, struct tui_rect area,
                             const struct tui_model *model)
{
    double pct[AN_CLASS_COUNT] = {0};
    bool done[LINES] = {false};
    if (model->result)
        tui_class_shares(&model->result->budget, pct);
    for (int row = 0; row < area.rows; row++) {
        size_t next = LINES;
        for (size_t i = 0; i < LINES; i++) {
            double share = lines[i].class < 0 ? 0 : pct[lines[i].class], best = 0;
            if (next < LINES && lines[next].class >= 0)
                best = pct[lines[next].class];
            if (!done[i] && lines[i].has(model) && (next == LINES || (share > best && share >= 2)))
                next = i;
        }
        if (next == LINES)
            return;
        done[next] = true;
        struct tui_line line = tui_line_begin(
            cells, area, row, area.columns < 50 ? lines[next].label + 1 : lines[next].label);
        lines[next].draw(&line, model);
    }
}
