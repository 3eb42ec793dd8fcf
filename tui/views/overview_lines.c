/* SPDX-License-Identifier: Apache-2.0
 *
 * One line each about loader, communication, ops, accelerators, system and speed. The line that
 * belongs to the largest loss stands first, so that a small screen keeps it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/kernel_name.h"
#include "store/store.h"
#include "tui/draw.h"
#include "tui/views/overview.h"

static const struct an_result *r_of(const struct tui_model *m)
{
    return m->r;
}

/* ---- loader --------------------------------------------------------------------------------------------------------------------- */

static bool has_loader(const struct tui_model *m)
{
    return m->r && !m->r->loader.reason &&
           (m->r->loader.wait_ms_per_step.valid || m->r->loader.stage_count);
}

static void loader(struct tui_line *l, const struct tui_model *m)
{
    const struct an_loader *x = &r_of(m)->loader;
    size_t queues;
    const struct tui_series *q = tui_lowest_series(m, "queue_depth", 0, &queues);
    char a[32];
    if (x->wait_ms_per_step.valid)
        tui_item(l, TUI_NORMAL, "waits %s a step", page_time(a, x->wait_ms_per_step.value * 1e6));
    if (x->workers.valid && x->workers_needed.valid)
        tui_item(l, x->workers.value < x->workers_needed.value ? TUI_WARN : TUI_NORMAL,
                 "workers %" PRId64 ", needs %" PRId64, x->workers.value, x->workers_needed.value);
    else if (x->workers.valid)
        tui_item(l, TUI_NORMAL, "workers %" PRId64, x->workers.value);
    if (q && q->count) {
        double most = 0;
        for (size_t i = 0; i < q->count; i++)
            most = q->value[i] > most ? q->value[i] : most;
        tui_item(l, TUI_DIM, "queue");
        int at = tui_item_room(l, 8);
        struct tui_samples v = tui_samples_of(q->value, q->count, 0);
        if (at >= 0)
            tui_spark(l->c, l->r, l->row, at, 8, &v, 0, most, TUI_CLASS + AN_CLASS_INPUT);
        tui_item(l, TUI_NORMAL, "%.3g", q->last);
    }
    for (size_t i = 0; i < x->stage_count; i++)
        if (x->stages[i].ms_per_batch.valid && strcmp(x->stages[i].name, "queue_wait"))
            tui_item(l, TUI_NORMAL, "%.20s %s", x->stages[i].name,
                     page_time(a, x->stages[i].ms_per_batch.value * 1e6));
}

/* ---- communication -------------------------------------------------------------------------------------------------------------- */

static bool has_communication(const struct tui_model *m)
{
    return m->r && !m->r->communication.reason && m->r->communication.total_ms.valid;
}

static void communication(struct tui_line *l, const struct tui_model *m)
{
    const struct an_communication *x = &r_of(m)->communication;
    const struct an_comm_rank *last = NULL;
    char a[32];
    if (x->exposed_ms.valid)
        tui_item(l, TUI_NORMAL, "exposed %s a step", page_time(a, x->exposed_ms.value * 1e6));
    else
        tui_item(l, TUI_NORMAL, "%s a step", page_time(a, x->total_ms.value * 1e6));
    for (size_t i = 0; i < x->rank_count; i++)
        if (x->ranks[i].last_pct.valid &&
            (!last || x->ranks[i].last_pct.value > last->last_pct.value))
            last = &x->ranks[i];
    bool waits =
        x->exposed_waiting_ms.valid && (!x->exposed_transfer_ms.valid ||
                                        x->exposed_waiting_ms.value > x->exposed_transfer_ms.value);
    for (int i = 0; i < 2; i++) { /* the larger part first, and who is waited for */
        const struct an_value *part =
            waits == (i == 0) ? &x->exposed_waiting_ms : &x->exposed_transfer_ms;
        if (part->valid)
            tui_item(l, TUI_NORMAL, "%s %s",
                     part == &x->exposed_waiting_ms ? "waiting" : "transfer",
                     page_time(a, part->value * 1e6));
        if (part == &x->exposed_waiting_ms && last && x->rank_count > 1)
            tui_item(l, TUI_NORMAL, "rank %" PRId64 " last %.0f %%", last->rank,
                     last->last_pct.value);
    }
    if (x->bytes_per_step.valid)
        tui_item(l, TUI_NORMAL, "%s a step", page_bytes(a, x->bytes_per_step.value));
    if (x->overlap_pct.valid)
        tui_item(l, TUI_NORMAL, "hidden %.0f %%", x->overlap_pct.value);
}

/* ---- ops ------------------------------------------------------------------------------------------------------------------------ */

static bool has_ops(const struct tui_model *m)
{
    return m->r && m->r->op_count;
}

/* On the CPU the ops of the model, as the verdict counts them; of a program that has none (or on
 * devices, where waits are not ops) all of them. Fills in their time; 0: none. */
static double work_ns(const struct an_result *r, bool *only_work)
{
    double work = 0, all = 0;
    for (size_t i = 0; i < r->op_count; i++) {
        double ns = (double)r->ops[i].self_ns;
        all += ns;
        work += an_op_is_work(&r->ops[i]) ? ns : 0;
    }
    *only_work = r->gpu.reason && work > 0;
    return *only_work ? work : all;
}

static void ops(struct tui_line *l, const struct tui_model *m)
{
    const struct an_result *r = r_of(m);
    bool only_work;
    double all = work_ns(r, &only_work), rest = 0;
    int shown = 0;
    for (size_t i = 0; i < r->op_count && all > 0; i++) {
        const struct an_op *o = &r->ops[i];
        char name[64];
        double pct =
            only_work || !o->share_pct.valid ? 100 * (double)o->self_ns / all : o->share_pct.value;
        if (only_work && !an_op_is_work(o))
            continue;
        rep_kernel_name(name, sizeof name, o->name);
        if (*name)
            name[1 + strcspn(name + 1, "<")] =
                0; /* of a kernel template its arguments have no room here */
        if (shown < 4 && tui_item(l, TUI_NORMAL, "%.32s%s %.0f %%", *name ? name : "(unnamed)",
                                  strlen(name) > 32 ? "~" : "", pct))
            shown++;
        else
            rest += pct;
    }
    if (rest >= 0.5)
        tui_item(l, TUI_DIM, "other %.0f %%", rest);
}

/* ---- GPUs ----------------------------------------------------------------------------------------------------------------------- */

static bool has_gpus(const struct tui_model *m)
{
    return m->r && !m->r->hardware.reason && m->r->hardware_gpu_count;
}

static void gpus(struct tui_line *l, const struct tui_model *m)
{
    const struct an_result *r = r_of(m);
    const struct an_gpu_hardware *g = r->hardware_gpus;
    if (r->hardware_gpu_count > 1)
        tui_item(l, TUI_NORMAL, "%zu, gpu:%" PRId64, r->hardware_gpu_count, g->gpu);
    if (g->sm_active_pct.valid)
        tui_item(l, TUI_NORMAL, "SMs %.0f %%", g->sm_active_pct.value);
    if (g->tensor_active_pct.valid)
        tui_item(l, TUI_NORMAL, "matrix units %.0f %%", g->tensor_active_pct.value);
    if (g->power_w.valid && g->power_limit_w.valid)
        tui_item(l, TUI_NORMAL, "%.0f of %.0f W", g->power_w.value, g->power_limit_w.value);
    if (g->dram_active_pct.valid)
        tui_item(l, TUI_NORMAL, "memory %.0f %%", g->dram_active_pct.value);
    if (g->reason_count)
        tui_item(l, g->reasons[0].fault ? TUI_BAD : TUI_WARN, "held by %.30s %.0f %%",
                 g->reasons[0].name, g->reasons[0].pct);
    if (g->temperature_max_c.valid)
        tui_item(l, TUI_NORMAL, "%.0f C", g->temperature_max_c.value);
}

/* ---- system --------------------------------------------------------------------------------------------------------------------- */

static bool has_system(const struct tui_model *m)
{
    return tui_model_series(m, "cpu_busy") || tui_model_series(m, "rss") ||
           (m->r && !m->r->system.reason);
}

/* The newest values of a counter, added up over the processes of the run; of the machine where no
 * process has it. */
static bool newest(const struct tui_model *m, const char *name, double *value, const char **unit)
{
    double sum[2] = {0, 0}; /* of processes, of the machine */
    int known[2] = {0, 0};
    for (size_t i = 0; i < m->series_count; i++) {
        struct tui_curve v;
        if (strcmp(m->series[i].name, name) || !tui_curve_of(m, &m->series[i], &v))
            continue;
        int of = m->series[i].process == STORE_ABSENT;
        sum[of] += v.last;
        known[of]++;
        *unit = v.unit;
        free(v.value);
    }
    *value = sum[!known[0]];
    return known[0] || known[1];
}

static void newest_item(struct tui_line *l, const struct tui_model *m, const char *name,
                        const char *label)
{
    const char *unit;
    double value;
    char a[48];
    if (newest(m, name, &value, &unit))
        tui_item(l, TUI_NORMAL, "%s %s", label, tui_quantity(a, unit, value));
}

/* Cores that other programs keep busy: what slows a run down without a trace in it. */
static void others(struct tui_line *l, const struct tui_model *m, double busy_pct)
{
    const char *unit;
    double run, cores = 0;
    for (size_t i = 0; m->r && i < m->r->run.key_count; i++)
        if (!strcmp(m->r->run.keys[i].key, "cpu.online"))
            cores = strtod(m->r->run.keys[i].value, NULL);
    if (!(cores > 0) || !newest(m, "cpu_time", &run, &unit))
        return;
    double other = busy_pct / 100 * cores - run;
    if (other >= 0.3 && other >= 0.1 * cores)
        tui_item(l, TUI_WARN, "others %.1f of %.0f", other, cores);
}

static void busy(struct tui_line *l, double pct)
{
    tui_item(l, TUI_NORMAL, "cpu");
    int at = tui_item_room(l, 8);
    if (at >= 0)
        tui_bar(l->c, l->r, l->row, at, 8, pct / 100, TUI_SERIES + 2);
    tui_item(l, TUI_NORMAL, "%.0f %%", pct);
}

/* Of a run that is over: over all of its analysed part, not at its last moment. */
static void machine_over(struct tui_line *l, const struct an_system *x)
{
    char a[32];
    if (x->machine_busy_pct.valid)
        busy(l, x->machine_busy_pct.value);
    if (x->cpu_cores.valid)
        tui_item(l, TUI_NORMAL, "run %.2f cores", x->cpu_cores.value);
    if (x->other_cores.valid && x->other_cores.value >= 0.3)
        tui_item(l, TUI_WARN, "others %.1f", x->other_cores.value);
    if (x->rss_peak_bytes.valid)
        tui_item(l, TUI_NORMAL, "rss at most %s", page_bytes(a, x->rss_peak_bytes.value));
    if (x->read_bytes.valid)
        tui_item(l, TUI_NORMAL, "disk read %s", page_bytes(a, x->read_bytes.value));
}

static void machine(struct tui_line *l, const struct tui_model *m)
{
    if (m->state != TUI_LIVE && m->r && !m->r->system.reason) {
        machine_over(l, &m->r->system);
        return;
    }
    const struct tui_series *s = tui_model_series(m, "cpu_busy");
    if (s && isfinite(s->last))
        busy(l, s->last);
    newest_item(l, m, "cpu_time", "run");
    if (s && isfinite(s->last) && m->state == TUI_LIVE)
        others(l, m, s->last);
    newest_item(l, m, "rss", "rss");
    newest_item(l, m, "disk_read", "disk r");
    if (m->r && m->r->system.instructions_per_cycle.valid)
        tui_item(l, TUI_NORMAL, "ipc %.2f", m->r->system.instructions_per_cycle.value);
    else if (m->r && m->r->trust.gap_count)
        tui_item(l, TUI_DIM, "counters n/a: T");
}

/* ---- speed ---------------------------------------------------------------------------------------------------------------------- */

static bool has_speed(const struct tui_model *m)
{
    return m->r && (m->r->steps.tokens_per_s.valid || m->r->steps.samples_per_s.valid ||
                    m->r->utilization.achieved_flops.valid);
}

static void speed(struct tui_line *l, const struct tui_model *m)
{
    const struct an_result *r = r_of(m);
    const struct an_utilization *u = &r->utilization;
    char a[32], b[32];
    if (r->steps.tokens_per_s.valid)
        tui_item(l, TUI_NORMAL, "%s tokens/s", page_number(a, r->steps.tokens_per_s.value));
    if (r->steps.samples_per_s.valid)
        tui_item(l, TUI_NORMAL, "%s samples/s", page_number(a, r->steps.samples_per_s.value));
    if (u->achieved_flops.valid && u->peak_flops.valid)
        tui_item(l, TUI_NORMAL, "%s of %s", page_si(a, u->achieved_flops.value, "FLOP/s"),
                 page_si(b, u->peak_flops.value, "FLOP/s"));
    else if (u->achieved_flops.valid)
        tui_item(l, TUI_NORMAL, "%s", page_si(a, u->achieved_flops.value, "FLOP/s"));
    if (u->hfu.valid)
        tui_item(l, TUI_NORMAL, "HFU %.1f %%", 100 * u->hfu.value);
    if (u->dtype)
        tui_item(l, TUI_NORMAL, "%.20s", u->dtype);
}

/* ---- order ---------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *label;
    int class; /* whose share of the step says how much the line matters; -1: none */
    bool (*has)(const struct tui_model *m);
    void (*draw)(struct tui_line *l, const struct tui_model *m);
} lines[] = {{" ops", -1, has_ops, ops},
             {" loader", AN_CLASS_INPUT, has_loader, loader},
             {" comm", AN_CLASS_COMM, has_communication, communication},
             {" gpu", -1, has_gpus, gpus},
             {" system", -1, has_system, machine},
             {" speed", -1, has_speed, speed}};
#define LINES (sizeof lines / sizeof *lines)

int tui_overview_lines(const struct tui_model *m)
{
    int n = 0;
    for (size_t i = 0; i < LINES; i++)
        n += lines[i].has(m);
    return n;
}

void tui_overview_draw_lines(struct tui_cells *c, struct tui_rect r, const struct tui_model *m)
{
    double pct[AN_CLASS_COUNT] = {0};
    bool done[LINES] = {false};
    if (m->r)
        tui_class_shares(&m->r->budget, pct);
    for (int row = 0; row < r.rows; row++) {
        size_t next = LINES;
        for (size_t i = 0; i < LINES; i++) {
            double share = lines[i].class < 0 ? 0 : pct[lines[i].class], best = 0;
            if (next < LINES && lines[next].class >= 0)
                best = pct[lines[next].class];
            if (!done[i] && lines[i].has(m) && (next == LINES || (share > best && share >= 2)))
                next = i;
        }
        if (next == LINES)
            return;
        done[next] = true;
        struct tui_line l =
            tui_line_begin(c, r, row, r.columns < 50 ? lines[next].label + 1 : lines[next].label);
        lines[next].draw(&l, m);
    }
}
