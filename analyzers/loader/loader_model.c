/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of a loader (docs/loader.md): with t the worker time of a batch, m batches a step, W
 * workers and `rest` the step without its wait, loading on the step's own thread costs m t, workers
 * beside the step leave a wait of max(0, m t / W - rest), and ceil(m t / rest) workers keep up if
 * there are cores for them and no stage is serial.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/counters/system.h"
#include "analyzers/loader/loader_private.h"

#define WORTH_PCT     2.0  /* of a step: a smaller wait counts as 0 */
#define STORAGE_RATIO 0.8  /* of the sequential rate: from here on storage is the limit */
#define CACHED_RATIO  0.01 /* of the bytes that were asked for: less from storage is a cache */
#define CPU_MARGIN    1.1  /* times the step: from here on sampled CPU time is a limit */
#define BATCHES_LEAST 20   /* of which a tenth says what a quick batch takes */

/* What the ranks of the run share. */
struct machine {
    struct an_value cores; /* used on average, by all processes of the run */
    struct an_value device_bytes_per_s;
    int64_t from, to;
    int64_t hosts;
};

static struct machine look_at_machine(const struct an_context *context,
                                      const struct an_loader_sums *sums, size_t group_count)
{
    struct machine machine = {
        .from = INT64_MAX, .to = INT64_MIN, .hosts = an_lane_hosts(context, NULL)};
    for (size_t i = 0; i < group_count; i++)
        if (sums[i].time.count) {
            int64_t from = sums[i].time.span[0].start,
                    to = sums[i].time.span[sums[i].time.count - 1].end;
            if (from < machine.from)
                machine.from = from;
            if (to > machine.to)
                machine.to = to;
        }
    machine.cores = an_system_rate(context, "cpu_time", "other_cpu_time", machine.from, machine.to);
    if (machine.cores.valid)
        machine.cores.value /= 1e9; /* ns a second */
    machine.device_bytes_per_s =
        an_system_rate(context, "disk_read", NULL, machine.from, machine.to);
    return machine;
}

/* ---- storage --------------------------------------------------------------------------------- */

static const struct an_ceiling_row *ceiling_of(const struct an_trace *trace, const char *resource)
{
    for (size_t i = 0; i < trace->ceiling_count; i++)
        if (!strcmp(trace->ceiling[i].resource, resource) && trace->ceiling[i].value > 0)
            return &trace->ceiling[i];
    return NULL;
}

/* How fast the stages ask for data, how fast storage delivers it, and the part of its measured rate
 * that this is. */
static void storage(struct an_context *context, const struct an_loader_sums *sums,
                    size_t group_count, const struct machine *machine)
{
    struct an_loader *loader = &context->result->loader;
    const struct an_ceiling_row *disk = ceiling_of(context->trace, "disk_sequential_read");
    double asked = 0;
    for (size_t i = 0; i < group_count; i++)
        if (sums[i].time_ns > 0)
            asked += (double)sums[i].read_bytes / (double)sums[i].time_ns * 1e9;
    loader->read_bytes_per_s =
        an_num_if(asked > 0, asked, "no stage read says how many bytes it asked for");
    loader->device_bytes_per_s = machine->device_bytes_per_s;
    if (!machine->device_bytes_per_s.valid)
        loader->access_ratio = an_num_none(machine->device_bytes_per_s.reason);
    else if (machine->device_bytes_per_s.value <= CACHED_RATIO * asked ||
             machine->device_bytes_per_s.value <= 0)
        loader->access_ratio =
            an_num_none("cached: next to nothing was read from storage during the counted steps");
    else if (!disk)
        loader->access_ratio = an_num_none(
            "the storage was not measured on this machine: tacho calibrate, then record again");
    else
        loader->access_ratio =
            an_num(machine->device_bytes_per_s.value / (disk->value * (double)machine->hosts));
}

/* ---- one rank -------------------------------------------------------------------------------- */

/* The numbers of a rank, in ms of a step where nothing else is said. */
struct model {
    double step, wait, rest, batches; /* batches: of a step */
    double batch, pin; /* ms of a batch: of a worker (in line: of the step's thread), of a pin
                          thread of its own */
    double samples;    /* of a step; NAN: not known */
    double floor;      /* CPU time of the step / its cores; NAN: not known */
};

/* Fills the model of a rank from its sums; false: they do not suffice. A batch is a collate range,
 * else a wait. Where there are workers, pinning is done by a thread of its own. */
static bool known_model(const struct an_loader_sums *sums, struct model *model)
{
    const struct an_budget *budget = sums->budget;
    int64_t made = sums->count[AN_ROLE_COLLATE] ? sums->count[AN_ROLE_COLLATE]
                                                : sums->count[AN_ROLE_INPUT_WAIT];
    if (!sums->lane || !budget || budget->reason || !budget->steps ||
        !budget->ns[AN_CLASS_INPUT].valid || !made)
        return false;
    double stages = sums->ns[AN_ROLE_READ] + sums->ns[AN_ROLE_DECODE] + sums->ns[AN_ROLE_COLLATE];
    double steps = (double)budget->steps, pin = sums->ns[AN_ROLE_PIN];
    int64_t waits = sums->count[AN_ROLE_INPUT_WAIT];
    if (!sums->workers) {
        stages += pin;
        pin = 0;
    }
    *model = (struct model){.step = (double)budget->step_ns / steps / 1e6,
                            .wait = (double)budget->ns[AN_CLASS_INPUT].value / steps / 1e6,
                            .batch = stages / (double)made / 1e6,
                            .pin = pin / (double)made / 1e6,
                            .batches = (double)(waits ? waits : made) / steps,
                            .samples = NAN,
                            .floor = NAN};
    model->rest = model->step - model->wait;
    return true;
}

static double samples_of(const struct an_context *context, const struct an_lane *lane)
{
    double sum = 0;
    int64_t steps = 0;
    for (size_t i = lane->first; i < lane->first + lane->count; i++)
        if (an_step_detailed(&context->step[i])) {
            if (context->step[i].samples == STORE_ABSENT)
                return NAN;
            sum += (double)context->step[i].samples;
            steps++;
        }
    return steps && sum > 0 ? sum / (double)steps : NAN;
}

/* The serial stage that more workers cannot get around, or NULL. */
static const char *serial_stage(const struct an_context *context, const struct an_loader_sums *sums,
                                const struct model *model)
{
    const struct an_value *access = &context->result->loader.access_ratio;
    /* Where the other stages take longer, it is not this loader that uses the storage. */
    bool reads = sums->ns[AN_ROLE_READ] >= sums->ns[AN_ROLE_DECODE] + sums->ns[AN_ROLE_COLLATE];
    if (access->valid && access->value >= STORAGE_RATIO && reads)
        return "storage";
    if (model->pin * model->batches > model->rest)
        return "pin";
    return sums->python && sums->workers ? "interpreter" : NULL;
}

static struct an_count serial_words(struct an_context *context, const char *serial,
                                    const struct model *model)
{
    if (!strcmp(serial, "storage"))
        return an_int_none(an_arena_format(context->arena,
                                           "storage binds: reads take %.0f %% of its measured "
                                           "sequential rate, and more workers cannot read faster",
                                           100 * context->result->loader.access_ratio.value));
    if (!strcmp(serial, "pin"))
        return an_int_none(
            an_arena_format(context->arena,
                            "the pin thread binds: it takes %s for the batches of a step, the rest "
                            "of the step %s, and it is one thread",
                            an_time_words(context->arena, model->pin * model->batches, 3),
                            an_time_words(context->arena, model->rest, 3)));
    return an_int_none("the workers are threads of one Python interpreter, of which one runs at a "
                       "time: a run with worker processes would show it");
}

/* *wanted: the workers that keep up with the step; out->workers_needed: the same, as far as the
 * cores allow them, absent where a serial stage is the limit. */
static void workers_needed(struct an_context *context, const struct an_loader_sums *sums,
                           const struct model *model, bool stages, struct an_loader_rank *out,
                           struct an_count *wanted)
{
    const struct an_count *cores = &context->result->run.cores;
    if (!stages)
        *wanted = an_int_none("the program marks no loader stages (read, decode, collate)");
    else if (model->rest <= 0)
        *wanted = an_int_none("the steps do nothing but wait");
    else
        *wanted = an_int((int64_t)ceil(model->batches * model->batch / model->rest));
    out->workers_needed = *wanted;
    if (!wanted->valid)
        return;
    const char *serial = serial_stage(context, sums, model);
    bool binds = serial && (100 * model->wait > WORTH_PCT * model->step ||
                            strcmp(serial, "interpreter") == 0);
    if (binds) {
        context->result->loader.serial = serial;
        out->workers_needed = serial_words(context, serial, model);
        return;
    }
    double most = INFINITY; /* workers that the cores allow */
    if (isfinite(model->floor) && model->floor > CPU_MARGIN * model->rest)
        most = ceil(model->batches * model->batch / model->floor);
    else if (!isfinite(model->floor) && cores->valid)
        most = (double)cores->value;
    if ((double)wanted->value > fmax(most, 1))
        out->workers_needed = an_int((int64_t)fmax(most, 1));
}

/* Time that the loader takes for the batches of a step: its slowest part. */
static double pipeline_ms(const struct an_loader_sums *sums, const struct model *model)
{
    double batch = sums->workers ? model->batch / (double)sums->workers : model->batch;
    return fmax(batch, model->pin) * model->batches;
}

/* The wait that the batch time and the number of workers explain. */
static double expected_wait(const struct an_loader_sums *sums, const struct model *model)
{
    if (!sums->workers)
        return model->batches * model->batch;
    return fmax(pipeline_ms(sums, model) - model->rest, 0);
}

static void fill_rates(const struct an_loader_sums *sums, const struct model *model,
                       struct an_loader_rank *out)
{
    double pipeline = pipeline_ms(sums, model);
    if (!isfinite(model->samples)) {
        out->pipeline_samples_per_s = out->compute_samples_per_s =
            an_num_none("the steps do not say how many samples they hold");
        return;
    }
    out->pipeline_samples_per_s =
        an_num_if(pipeline > 0, model->samples / pipeline * 1e3, "the stages take no time");
    out->compute_samples_per_s = an_num_if(model->rest > 0, model->samples / model->rest * 1e3,
                                           "the steps do nothing but wait");
}

/* Fills the row of a rank; what its steps or stages do not say is absent. */
static void one_rank(struct an_context *context, const struct an_loader_sums *sums,
                     const struct machine *machine, struct an_loader_rank *out,
                     struct an_count *wanted)
{
    struct model model;
    bool stages = sums->workers || sums->in_line;
    const char *none = sums->lane ? AN_LOADER_NO_STEPS : "no steps were found";
    const char *no_stages = "the program marks no loader stages (read, decode, collate)";
    *out = (struct an_loader_rank){.rank = an_loader_rank_of(sums)};
    out->workers = stages ? an_int(sums->workers) : an_int_none(no_stages);
    out->wait_ms_per_step = out->expected_wait_ms_per_step = out->batches_per_step = out->batch_ms =
        out->quick_batch_ms = an_num_none(none);
    out->pipeline_samples_per_s = out->compute_samples_per_s = an_num_none(none);
    out->workers_needed = *wanted = an_int_none(none);
    if (!known_model(sums, &model))
        return;
    if (machine->cores.valid && context->result->run.cores.valid &&
        context->result->run.cores.value > 0)
        model.floor = machine->cores.value * model.step /
                      (double)(context->result->run.cores.value * machine->hosts);
    model.samples = samples_of(context, sums->lane);
    out->wait_ms_per_step = an_num(model.wait);
    out->batches_per_step = an_num(model.batches);
    workers_needed(context, sums, &model, stages, out, wanted);
    fill_rates(sums, &model, out);
    if (!stages) {
        out->batch_ms = out->quick_batch_ms = out->expected_wait_ms_per_step =
            out->pipeline_samples_per_s = an_num_none(no_stages);
        return;
    }
    out->batch_ms = an_num(model.batch);
    out->quick_batch_ms = an_num_if(sums->batch_count >= BATCHES_LEAST,
                                    an_quantile_of(sums->batch_ns, sums->batch_count, 0.1) / 1e6,
                                    "too few batches end with a collate range to tell a quick one");
    out->expected_wait_ms_per_step = an_num(expected_wait(sums, &model));
}

/* ---- all ranks ------------------------------------------------------------------------------- */

static struct an_value of_rank(const struct an_loader_rank *rank, size_t offset)
{
    return *(const struct an_value *)(const void *)((const char *)rank + offset);
}

/* Mean of a value over the ranks that know it; the reason of the first one when none does. */
static struct an_value mean_of(const struct an_loader_rank *rank, size_t ranks, size_t offset)
{
    double sum = 0;
    int64_t known = 0;
    for (size_t i = 0; i < ranks; i++)
        if (of_rank(&rank[i], offset).valid) {
            sum += of_rank(&rank[i], offset).value;
            known++;
        }
    return known ? an_num(sum / (double)known) : of_rank(&rank[0], offset);
}

/* Ranks step together, so the rate of the slowest one is the rate of each: sum over the ranks. */
static struct an_value slowest_of(const struct an_loader_rank *rank, size_t ranks, size_t offset)
{
    double least = INFINITY;
    int64_t known = 0;
    for (size_t i = 0; i < ranks; i++)
        if (of_rank(&rank[i], offset).valid) {
            least = fmin(least, of_rank(&rank[i], offset).value);

            known++;
        }
    return known ? an_num(least * (double)known) : of_rank(&rank[0], offset);
}

/* The larger one of two counts; absent, with its reason, if one of them is absent. */
static struct an_count most_of(struct an_count all, struct an_count one)
{
    if (!all.valid || !one.valid)
        return all.valid ? one : all;
    return one.value > all.value ? one : all;
}

/* What the workers are, by how many of them are processes of their own. */
static const char *worker_kind(int64_t threads, int64_t processes, bool in_line)
{
    if (processes)
        return threads ? "threads and processes" : "processes";
    if (threads)
        return "threads";
    return in_line ? "in line" : NULL;
}

/* The figures of the whole run, from those of its ranks. */
static void fill_run(struct an_context *context, const struct an_loader_sums *sums,
                     size_t group_count)
{
    struct an_loader *loader = &context->result->loader;
    const struct an_loader_rank *rank = loader->ranks;
    size_t ranks = loader->rank_count;
    double busy = 0;
    int64_t threads = 0, processes = 0;
    for (size_t i = 0; i < group_count; i++) {
        processes += sums[i].processes;
        threads += sums[i].workers - sums[i].processes;
    }
    for (size_t i = 0; i < loader->worker_count; i++)
        busy += loader->worker[i].busy_pct.valid ? loader->worker[i].busy_pct.value : NAN;
    loader->worker_kind = worker_kind(threads, processes, rank[0].workers.valid);
    loader->worker_busy_pct =
        an_num_if(loader->worker_count && isfinite(busy), busy / (double)loader->worker_count,
                  loader->worker_count ? AN_LOADER_NO_STEPS : "no workers");
    loader->expected_wait_ms_per_step =
        mean_of(rank, ranks, offsetof(struct an_loader_rank, expected_wait_ms_per_step));
    loader->batches_per_step =
        mean_of(rank, ranks, offsetof(struct an_loader_rank, batches_per_step));
    loader->batch_ms = mean_of(rank, ranks, offsetof(struct an_loader_rank, batch_ms));
    loader->quick_batch_ms = mean_of(rank, ranks, offsetof(struct an_loader_rank, quick_batch_ms));
    loader->pipeline_samples_per_s =
        slowest_of(rank, ranks, offsetof(struct an_loader_rank, pipeline_samples_per_s));
    loader->compute_samples_per_s =
        slowest_of(rank, ranks, offsetof(struct an_loader_rank, compute_samples_per_s));
}

static int rank_order(const void *left, const void *right)
{
    const struct an_loader_rank *first = left, *second = right;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

static bool has_any(const struct an_loader_sums *sums)
{
    for (int role = 0; role < AN_ROLE_COUNT; role++)
        if (sums->count[role] > 0)
            return true;
    return false;
}

int an_loader_model(struct an_context *context, const struct an_loader_sums *sums,
                    size_t group_count)
{
    struct an_loader *loader = &context->result->loader;
    struct an_loader_rank *rows = an_arena_zero(context->arena, group_count, sizeof *rows);
    const struct machine machine = look_at_machine(context, sums, group_count);
    if (!rows)
        return TACHO_ENOMEM;
    storage(context, sums, group_count, &machine);
    loader->ranks = rows;
    for (size_t i = 0; i < group_count; i++) {
        struct an_count wanted;
        if (!has_any(&sums[i]))
            continue;
        struct an_loader_rank *out = &rows[loader->rank_count++];
        one_rank(context, &sums[i], &machine, out, &wanted);
        bool first = loader->rank_count == 1;
        loader->workers = first ? out->workers : most_of(loader->workers, out->workers);
        loader->workers_needed =
            first ? out->workers_needed : most_of(loader->workers_needed, out->workers_needed);
        loader->workers_wanted = first ? wanted : most_of(loader->workers_wanted, wanted);
    }
    if (loader->rank_count)
        qsort(rows, loader->rank_count, sizeof *rows, rank_order);
    fill_run(context, sums, group_count);
    return 0;
}
