/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from the sums of a loader (docs/loader.md): with t the worker time of a batch, m
 * batches a step, W workers and `rest` the step without its wait, a loader in line costs m t, one
 * beside the step waits max(0, m t / W - rest), and ceil(m t / rest) workers keep up, if there are
 * cores for them and no stage is serial.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/counters/system.h"
#include "analyzers/loader/loader.h"

#define WORTH_PCT     2.0  /* of a step: a smaller wait is none */
#define STORAGE_RATIO 0.8  /* of the sequential rate: from here on it is storage that binds */
#define CACHED_RATIO  0.01 /* of the bytes that were asked for: less from storage is a cache */
#define CPU_MARGIN    1.1 /* what sampled CPU time must be above the step before it limits anything \
                           */
#define NO_STEPS_WORDS "no counted step has all its ranges in the file"

/* What the ranks of the run share. */
struct machine {
    struct an_value cores; /* used on average, by all processes of the run */
    struct an_value device_bytes_per_s;
    int64_t from, to;
    int64_t hosts;
};

static int64_t hosts_of(const struct an_context *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->lane_count; i++) {
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = c->lane[k].process == AN_NONE || c->lane[i].process == AN_NONE ||
                    strcmp(c->t->process[c->lane[k].process].host,
                           c->t->process[c->lane[i].process].host) != 0;
        n += first;
    }
    return n ? n : 1;
}

static struct machine look_at_machine(const struct an_context *c, const struct an_loader_sums *s,
                                      size_t n)
{
    struct machine m = {.from = INT64_MAX, .to = INT64_MIN, .hosts = hosts_of(c)};
    for (size_t k = 0; k < n; k++)
        if (s[k].time.count) {
            int64_t from = s[k].time.span[0].start, to = s[k].time.span[s[k].time.count - 1].end;
            m.from = from < m.from ? from : m.from;
            m.to = to > m.to ? to : m.to;
        }
    m.cores = an_system_rate(c, "cpu_time", "other_cpu_time", m.from, m.to);
    if (m.cores.valid)
        m.cores.value /= 1e9; /* ns a second */
    m.device_bytes_per_s = an_system_rate(c, "disk_read", NULL, m.from, m.to);
    return m;
}

/* ---- storage ------------------------------------------------------------------------------------------------------------ */

static const struct an_ceiling_row *ceiling_of(const struct an_trace *t, const char *resource)
{
    for (size_t i = 0; i < t->ceiling_count; i++)
        if (!strcmp(t->ceiling[i].resource, resource) && t->ceiling[i].value > 0)
            return &t->ceiling[i];
    return NULL;
}

static void storage(struct an_context *c, const struct an_loader_sums *s, size_t n,
                    const struct machine *m)
{
    struct an_loader *r = &c->r->loader;
    const struct an_ceiling_row *disk = ceiling_of(c->t, "disk_sequential_read");
    double asked = 0;
    for (size_t k = 0; k < n; k++)
        if (s[k].time_ns > 0)
            asked += (double)s[k].read_bytes / (double)s[k].time_ns * 1e9;
    r->read_bytes_per_s =
        asked > 0 ? an_num(asked) : an_num_none("no stage read says how many bytes it asked for");
    r->device_bytes_per_s = m->device_bytes_per_s;
    if (!m->device_bytes_per_s.valid)
        r->access_ratio = an_num_none(m->device_bytes_per_s.reason);
    else if (m->device_bytes_per_s.value <= CACHED_RATIO * asked ||
             m->device_bytes_per_s.value <= 0)
        r->access_ratio =
            an_num_none("cached: next to nothing was read from storage during the counted steps");
    else if (!disk)
        r->access_ratio = an_num_none(
            "the storage was not measured on this machine: tacho calibrate, then record again");
    else
        r->access_ratio = an_num(m->device_bytes_per_s.value / (disk->value * (double)m->hosts));
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

static bool known_model(const struct an_loader_sums *s, struct model *x)
{
    const struct an_budget *b = s->budget;
    int64_t made =
        s->count[AN_ROLE_COLLATE] ? s->count[AN_ROLE_COLLATE] : s->count[AN_ROLE_INPUT_WAIT];
    if (!s->lane || !b || b->reason || !b->steps || !b->ns[AN_CLASS_INPUT].valid || !made)
        return false;
    bool beside = s->workers > 0;
    double stages = s->ns[AN_ROLE_READ] + s->ns[AN_ROLE_DECODE] + s->ns[AN_ROLE_COLLATE] +
                    (beside ? 0 : s->ns[AN_ROLE_PIN]);
    double steps = (double)b->steps;
    *x = (struct model){
        .step = (double)b->step_ns / steps / 1e6,
        .wait = (double)b->ns[AN_CLASS_INPUT].value / steps / 1e6,
        .batch = stages / (double)made / 1e6,
        .pin = beside ? s->ns[AN_ROLE_PIN] / (double)made / 1e6 : 0,
        .batches =
            (double)(s->count[AN_ROLE_INPUT_WAIT] ? s->count[AN_ROLE_INPUT_WAIT] : made) / steps,
        .samples = NAN,
        .floor = NAN};
    x->rest = x->step - x->wait;
    return true;
}

static double samples_of(const struct an_context *c, const struct an_lane *l)
{
    double sum = 0;
    int64_t n = 0;
    for (size_t i = l->first; i < l->first + l->count; i++)
        if (an_step_detailed(&c->step[i])) {
            if (c->step[i].samples == STORE_ABSENT)
                return NAN;
            sum += (double)c->step[i].samples;
            n++;
        }
    return n && sum > 0 ? sum / (double)n : NAN;
}

/* The serial stage that more workers cannot get around, or NULL. */
static const char *serial_stage(const struct an_context *c, const struct an_loader_sums *s,
                                const struct model *x)
{
    const struct an_value *access = &c->r->loader.access_ratio;
    bool reads = s->ns[AN_ROLE_READ] >=
                 s->ns[AN_ROLE_DECODE] + s->ns[AN_ROLE_COLLATE]; /* else others use the storage */
    if (access->valid && access->value >= STORAGE_RATIO && reads)
        return "storage";
    if (x->pin * x->batches > x->rest)
        return "pin";
    return s->python && s->workers ? "interpreter" : NULL;
}

static struct an_count serial_words(struct an_context *c, const char *serial, const struct model *x)
{
    if (!strcmp(serial, "storage"))
        return an_int_none(an_arena_format(
            c->a,
            "storage binds: reads take %.0f %% of its measured sequential rate, and more "
            "workers cannot read faster",
            100 * c->r->loader.access_ratio.value));
    if (!strcmp(serial, "pin"))
        return an_int_none(an_arena_format(c->a,
                                           "the pin thread binds: it takes %s for the batches of a "
                                           "step, the rest of the step %s, and it is one thread",
                                           an_time_words(c->a, x->pin * x->batches, 3),
                                           an_time_words(c->a, x->rest, 3)));
    return an_int_none("the workers are threads of one Python interpreter, of which one runs at a "
                       "time: processes would tell");
}

static void workers_needed(struct an_context *c, const struct an_loader_sums *s,
                           const struct model *x, bool stages, struct an_loader_rank *out,
                           struct an_count *wanted)
{
    const struct an_count *cores = &c->r->run.cores;
    if (!stages)
        *wanted = an_int_none("the program marks no loader stages (read, decode, collate)");
    else if (x->rest <= 0)
        *wanted = an_int_none("the steps do nothing but wait");
    else
        *wanted = an_int((int64_t)ceil(x->batches * x->batch / x->rest));
    out->workers_needed = *wanted;
    if (!wanted->valid)
        return;
    const char *serial = serial_stage(c, s, x);
    bool binds =
        serial && (100 * x->wait > WORTH_PCT * x->step || strcmp(serial, "interpreter") == 0);
    if (binds) {
        c->r->loader.serial = serial;
        out->workers_needed = serial_words(c, serial, x);
        return;
    }
    double most = INFINITY; /* what the cores can do */
    if (isfinite(x->floor) && x->floor > CPU_MARGIN * x->rest)
        most = ceil(x->batches * x->batch / x->floor);
    else if (!isfinite(x->floor) && cores->valid)
        most = (double)cores->value;
    most = most < 1 ? 1 : most;
    if ((double)wanted->value > most)
        out->workers_needed = an_int((int64_t)most);
}

/* Wait that the batch time and the number of workers give. */
static double expected_wait(const struct an_loader_sums *s, const struct model *x)
{
    if (!s->workers)
        return x->batches * x->batch;
    double pipeline = x->batch / (double)s->workers;
    pipeline = (pipeline > x->pin ? pipeline : x->pin) * x->batches;
    return pipeline > x->rest ? pipeline - x->rest : 0;
}

static void fill_rates(const struct an_loader_sums *s, const struct model *x,
                       struct an_loader_rank *out)
{
    double pipeline = s->workers ? x->batch / (double)s->workers : x->batch;
    pipeline = (pipeline > x->pin ? pipeline : x->pin) * x->batches;
    const char *none = "the steps do not say how many samples they hold";
    bool known = isfinite(x->samples);
    out->pipeline_samples_per_s = !known         ? an_num_none(none)
                                  : pipeline > 0 ? an_num(x->samples / pipeline * 1e3)
                                                 : an_num_none("the stages take no time");
    out->compute_samples_per_s = !known        ? an_num_none(none)
                                 : x->rest > 0 ? an_num(x->samples / x->rest * 1e3)
                                               : an_num_none("the steps do nothing but wait");
}

static void one_rank(struct an_context *c, const struct an_loader_sums *s, const struct machine *m,
                     struct an_loader_rank *out, struct an_count *wanted)
{
    struct model x;
    bool stages = s->workers || s->in_line;
    const char *none = s->lane ? NO_STEPS_WORDS : "no steps were found";
    const char *no_stages = "the program marks no loader stages (read, decode, collate)";
    *out = (struct an_loader_rank){.rank = s->lane ? s->lane->rank : STORE_ABSENT};
    out->workers = stages ? an_int(s->workers) : an_int_none(no_stages);
    out->wait_ms_per_step = out->expected_wait_ms_per_step = out->batches_per_step = out->batch_ms =
        an_num_none(none);
    out->pipeline_samples_per_s = out->compute_samples_per_s = an_num_none(none);
    out->workers_needed = *wanted = an_int_none(none);
    if (!known_model(s, &x))
        return;
    if (m->cores.valid && c->r->run.cores.valid && c->r->run.cores.value > 0)
        x.floor = m->cores.value * x.step / (double)(c->r->run.cores.value * m->hosts);
    x.samples = samples_of(c, s->lane);
    out->wait_ms_per_step = an_num(x.wait);
    out->batches_per_step = an_num(x.batches);
    workers_needed(c, s, &x, stages, out, wanted);
    fill_rates(s, &x, out);
    if (!stages) {
        out->batch_ms = out->expected_wait_ms_per_step = out->pipeline_samples_per_s =
            an_num_none(no_stages);
        return;
    }
    out->batch_ms = an_num(x.batch);
    out->expected_wait_ms_per_step = an_num(expected_wait(s, &x));
}

/* ---- all ranks ---------------------------------------------------------------------------------------------------------- */

static struct an_value of_rank(const struct an_loader_rank *r, size_t offset)
{
    return *(const struct an_value *)(const void *)((const char *)r + offset);
}

/* Mean of a value over the ranks that know it; the reason of the first one when none does. */
static struct an_value mean_of(const struct an_loader_rank *r, size_t n, size_t offset)
{
    double sum = 0;
    int64_t with = 0;
    for (size_t i = 0; i < n; i++)
        if (of_rank(&r[i], offset).valid) {
            sum += of_rank(&r[i], offset).value;
            with++;
        }
    return with ? an_num(sum / (double)with) : of_rank(&r[0], offset);
}

/* Ranks step together: the slowest one's rate is that of each. */
static struct an_value slowest_of(const struct an_loader_rank *r, size_t n, size_t offset)
{
    double least = INFINITY;
    int64_t with = 0;
    for (size_t i = 0; i < n; i++)
        if (of_rank(&r[i], offset).valid) {
            least = of_rank(&r[i], offset).value < least ? of_rank(&r[i], offset).value : least;
            with++;
        }
    return with ? an_num(least * (double)with) : of_rank(&r[0], offset);
}

/* The most of all ranks; absent, with its reason, if one that counts is absent. */
static struct an_count most_of(struct an_count all, struct an_count one)
{
    if (!all.valid || !one.valid)
        return all.valid ? one : all;
    return one.value > all.value ? one : all;
}

static void fill_run(struct an_context *c, const struct an_loader_sums *s, size_t n)
{
    struct an_loader *r = &c->r->loader;
    const struct an_loader_rank *k = r->ranks;
    size_t ranks = r->rank_count;
    double busy = 0;
    int64_t threads = 0, processes = 0;
    for (size_t i = 0; i < n; i++) {
        processes += s[i].processes;
        threads += s[i].workers - s[i].processes;
    }
    for (size_t i = 0; i < r->worker_count; i++)
        busy += r->worker[i].busy_pct.valid ? r->worker[i].busy_pct.value : NAN;
    r->worker_kind = processes && threads ? "threads and processes"
                     : processes          ? "processes"
                     : threads            ? "threads"
                     : k[0].workers.valid ? "in line"
                                          : NULL;
    r->worker_busy_pct = !r->worker_count ? an_num_none("no workers")
                         : isfinite(busy) ? an_num(busy / (double)r->worker_count)
                                          : an_num_none(NO_STEPS_WORDS);
    r->expected_wait_ms_per_step =
        mean_of(k, ranks, offsetof(struct an_loader_rank, expected_wait_ms_per_step));
    r->batches_per_step = mean_of(k, ranks, offsetof(struct an_loader_rank, batches_per_step));
    r->batch_ms = mean_of(k, ranks, offsetof(struct an_loader_rank, batch_ms));
    r->pipeline_samples_per_s =
        slowest_of(k, ranks, offsetof(struct an_loader_rank, pipeline_samples_per_s));
    r->compute_samples_per_s =
        slowest_of(k, ranks, offsetof(struct an_loader_rank, compute_samples_per_s));
}

static int rank_order(const void *x, const void *y)
{
    const struct an_loader_rank *a = x, *b = y;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool has_any(const struct an_loader_sums *s)
{
    int64_t n = 0;
    for (int r = 0; r < AN_ROLE_COUNT; r++)
        n += s->count[r] > 0;
    return n > 0;
}

int an_loader_model(struct an_context *c, const struct an_loader_sums *s, size_t n)
{
    struct an_loader *r = &c->r->loader;
    struct an_loader_rank *rows = an_arena_zero(c->a, n, sizeof *rows);
    const struct machine m = look_at_machine(c, s, n);
    if (!rows)
        return TACHO_ENOMEM;
    storage(c, s, n, &m);
    r->ranks = rows;
    for (size_t k = 0; k < n; k++) {
        struct an_count wanted;
        if (!has_any(&s[k]))
            continue;
        struct an_loader_rank *out = &rows[r->rank_count++];
        one_rank(c, &s[k], &m, out, &wanted);
        bool first = r->rank_count == 1;
        r->workers = first ? out->workers : most_of(r->workers, out->workers);
        r->workers_needed =
            first ? out->workers_needed : most_of(r->workers_needed, out->workers_needed);
        r->workers_wanted = first ? wanted : most_of(r->workers_wanted, wanted);
    }
    if (r->rank_count)
        qsort(rows, r->rank_count, sizeof *rows, rank_order);
    fill_run(c, s, n);
    return 0;
}
