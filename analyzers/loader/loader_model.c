/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from the sums of a loader (docs/loader.md): with t the worker time of a batch, m
 * batches a step, W workers and `rest` the step without its wait, a loader in line costs m t, one
 * beside the step waits max(0, m t / W - rest), and ceil(m t / rest) workers keep up, if there are
 * cores for them and no stage is serial.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/counters/system.h"
#include "analyzers/loader/loader_private.h"

#define WORTH_PCT     2.0  /* of a step: a smaller wait is none */
#define STORAGE_RATIO 0.8  /* of the sequential rate: from here on it is storage that binds */
#define CACHED_RATIO  0.01 /* of the bytes that were asked for: less from storage is a cache */
#define CPU_MARGIN \
    1.1 /* what sampled CPU time must be above the step before it limits anything \
         */
#define NO_STEPS_WORDS "no counted step has all its ranges in the file"

/* What the ranks of the run share. */
struct machine {
    struct an_value cores; /* used on average, by all processes of the run */
    struct an_value device_bytes_per_s;
    int64_t from, to;
    int64_t hosts;
};

static int64_t hosts_of(const struct an_context *context)
{
    int64_t hosts = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = context->lane[k].process == AN_NONE || context->lane[i].process == AN_NONE ||
                    strcmp(context->trace->process[context->lane[k].process].host,
                           context->trace->process[context->lane[i].process].host) != 0;
        hosts += first;
    }
    return hosts ? hosts : 1;
}

static struct machine look_at_machine(const struct an_context *context,
                                      const struct an_loader_sums *sums, size_t group_count)
{
    struct machine machine = {.from = INT64_MAX, .to = INT64_MIN, .hosts = hosts_of(context)};
    for (size_t i = 0; i < group_count; i++)
        if (sums[i].time.count) {
            int64_t from = sums[i].time.span[0].start,
                    to = sums[i].time.span[sums[i].time.count - 1].end;
            machine.from = from < machine.from ? from : machine.from;
            machine.to = to > machine.to ? to : machine.to;
        }
    machine.cores = an_system_rate(context, "cpu_time", "other_cpu_time", machine.from, machine.to);
    if (machine.cores.valid)
        machine.cores.value /= 1e9; /* ns a second */
    machine.device_bytes_per_s =
        an_system_rate(context, "disk_read", NULL, machine.from, machine.to);
    return machine;
}

/* ---- storage ------------------------------------------------------------------------------------------------------------ */

static const struct an_ceiling_row *ceiling_of(const struct an_trace *trace, const char *resource)
{
    for (size_t i = 0; i < trace->ceiling_count; i++)
        if (!strcmp(trace->ceiling[i].resource, resource) && trace->ceiling[i].value > 0)
            return &trace->ceiling[i];
    return NULL;
}

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
        asked > 0 ? an_num(asked) : an_num_none("no stage read says how many bytes it asked for");
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

/* ---- one rank ----------------------------------------------------------------------------------------------------------- */

/* The numbers of a rank, in ms of a step where nothing else is said. */
struct model {
    double step, wait, rest, batches; /* batches: of a step */
    double batch, pin; /* ms of a batch: of a worker (in line: of the step's thread), of a pin
                          thread of its own */
    double samples;    /* of a step; NAN: not known */
    double floor;      /* CPU time of the step / its cores; NAN: not known */
};

static bool known_model(const struct an_loader_sums *sums, struct model *model)
{
    const struct an_budget *budget = sums->budget;
    int64_t made = sums->count[AN_ROLE_COLLATE] ? sums->count[AN_ROLE_COLLATE]
                                                : sums->count[AN_ROLE_INPUT_WAIT];
    if (!sums->lane || !budget || budget->reason || !budget->steps ||
        !budget->ns[AN_CLASS_INPUT].valid || !made)
        return false;
    bool beside = sums->workers > 0;
    double stages = sums->ns[AN_ROLE_READ] + sums->ns[AN_ROLE_DECODE] + sums->ns[AN_ROLE_COLLATE] +
                    (beside ? 0 : sums->ns[AN_ROLE_PIN]);
    double steps = (double)budget->steps;
    *model = (struct model){
        .step = (double)budget->step_ns / steps / 1e6,
        .wait = (double)budget->ns[AN_CLASS_INPUT].value / steps / 1e6,
        .batch = stages / (double)made / 1e6,
        .pin = beside ? sums->ns[AN_ROLE_PIN] / (double)made / 1e6 : 0,
        .batches =
            (double)(sums->count[AN_ROLE_INPUT_WAIT] ? sums->count[AN_ROLE_INPUT_WAIT] : made) /
            steps,
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
    bool reads =
        sums->ns[AN_ROLE_READ] >=
        sums->ns[AN_ROLE_DECODE] + sums->ns[AN_ROLE_COLLATE]; /* else others use the storage */
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
                       "time: processes would tell");
}

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
    double most = INFINITY; /* what the cores can do */
    if (isfinite(model->floor) && model->floor > CPU_MARGIN * model->rest)
        most = ceil(model->batches * model->batch / model->floor);
    else if (!isfinite(model->floor) && cores->valid)
        most = (double)cores->value;
    most = most < 1 ? 1 : most;
    if ((double)wanted->value > most)
        out->workers_needed = an_int((int64_t)most);
}

/* Wait that the batch time and the number of workers give. */
static double expected_wait(const struct an_loader_sums *sums, const struct model *model)
{
    if (!sums->workers)
        return model->batches * model->batch;
    double pipeline = model->batch / (double)sums->workers;
    pipeline = (pipeline > model->pin ? pipeline : model->pin) * model->batches;
    return pipeline > model->rest ? pipeline - model->rest : 0;
}

static void fill_rates(const struct an_loader_sums *sums, const struct model *model,
                       struct an_loader_rank *out)
{
    double pipeline = sums->workers ? model->batch / (double)sums->workers : model->batch;
    pipeline = (pipeline > model->pin ? pipeline : model->pin) * model->batches;
    const char *none = "the steps do not say how many samples they hold";
    bool known = isfinite(model->samples);
    out->pipeline_samples_per_s = !known         ? an_num_none(none)
                                  : pipeline > 0 ? an_num(model->samples / pipeline * 1e3)
                                                 : an_num_none("the stages take no time");
    out->compute_samples_per_s = !known            ? an_num_none(none)
                                 : model->rest > 0 ? an_num(model->samples / model->rest * 1e3)
                                                   : an_num_none("the steps do nothing but wait");
}

static void one_rank(struct an_context *context, const struct an_loader_sums *sums,
                     const struct machine *machine, struct an_loader_rank *out,
                     struct an_count *wanted)
{
    struct model model;
    bool stages = sums->workers || sums->in_line;
    const char *none = sums->lane ? NO_STEPS_WORDS : "no steps were found";
    const char *no_stages = "the program marks no loader stages (read, decode, collate)";
    *out = (struct an_loader_rank){.rank = sums->lane ? sums->lane->rank : STORE_ABSENT};
    out->workers = stages ? an_int(sums->workers) : an_int_none(no_stages);
    out->wait_ms_per_step = out->expected_wait_ms_per_step = out->batches_per_step = out->batch_ms =
        an_num_none(none);
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
        out->batch_ms = out->expected_wait_ms_per_step = out->pipeline_samples_per_s =
            an_num_none(no_stages);
        return;
    }
    out->batch_ms = an_num(model.batch);
    out->expected_wait_ms_per_step = an_num(expected_wait(sums, &model));
}

/* ---- all ranks ---------------------------------------------------------------------------------------------------------- */

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

/* Ranks step together: the slowest one's rate is that of each. */
static struct an_value slowest_of(const struct an_loader_rank *rank, size_t ranks, size_t offset)
{
    double least = INFINITY;
    int64_t known = 0;
    for (size_t i = 0; i < ranks; i++)
        if (of_rank(&rank[i], offset).valid) {
            least =
                of_rank(&rank[i], offset).value < least ? of_rank(&rank[i], offset).value : least;
            known++;
        }
    return known ? an_num(least * (double)known) : of_rank(&rank[0], offset);
}

/* The most of all ranks; absent, with its reason, if one that counts is absent. */
static struct an_count most_of(struct an_count all, struct an_count one)
{
    if (!all.valid || !one.valid)
        return all.valid ? one : all;
    return one.value > all.value ? one : all;
}

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
    loader->worker_kind = processes && threads    ? "threads and processes"
                          : processes             ? "processes"
                          : threads               ? "threads"
                          : rank[0].workers.valid ? "in line"
                                                  : NULL;
    loader->worker_busy_pct = !loader->worker_count ? an_num_none("no workers")
                              : isfinite(busy)      ? an_num(busy / (double)loader->worker_count)
                                                    : an_num_none(NO_STEPS_WORDS);
    loader->expected_wait_ms_per_step =
        mean_of(rank, ranks, offsetof(struct an_loader_rank, expected_wait_ms_per_step));
    loader->batches_per_step =
        mean_of(rank, ranks, offsetof(struct an_loader_rank, batches_per_step));
    loader->batch_ms = mean_of(rank, ranks, offsetof(struct an_loader_rank, batch_ms));
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
    int64_t ranges = 0;
    for (int role = 0; role < AN_ROLE_COUNT; role++)
        ranges += sums->count[role] > 0;
    return ranges > 0;
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
