/* SPDX-License-Identifier: Apache-2.0
 *
 * Combines what the inputs say of their run as a whole: run keys, ceilings, metrics, losses.
 *
 * A key that all files have with one value stays. Otherwise it has the reference's value, and
 * node.N.KEY has that of each file. Processors and memory are added over machines. A ceiling is
 * that of one machine, the mean of all: readers multiply by the hosts that a run has.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/merge/merge_private.h"

/* ---- run keys -------------------------------------------------------------------------------------------------------------- */

struct pair {
    size_t source;
    char *key, *value; /* value NULL: the column is NULL */
};

struct pairs {
    struct pair *pair;
    size_t count, cap;
    struct merge *merge;
    size_t source;
};

/* How the values of files that differ are combined. name of the key, way */
enum way { WAY_OWN, WAY_SUM, WAY_MOST, WAY_DROP };
static const struct {
    const char *key;
    enum way way;
} ways[] = {
    {"cpu.online", WAY_SUM},      {"cpu.usable", WAY_SUM},         {"cpu.cores", WAY_SUM},
    {"memory.bytes", WAY_SUM},    {"ranges_without_end", WAY_SUM}, {"ends_without_start", WAY_SUM},
    {"exit_status", WAY_MOST},    {"recovered", WAY_MOST},         {"verdict", WAY_DROP},
    {"job.node_ranks", WAY_DROP}, {"end.monotonic_ns", WAY_DROP}};

/* How the values of a key are combined. */
static enum way way_of(const char *key)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(key, ways[i].key))
            return ways[i].way;
    return WAY_OWN;
}

/* The key with new numbers, if it names a process or a GPU of this file: device.P.gpu:N.X,
 * process.P.X, nvml.N.X. Caller frees. */
static char *renamed(const struct merge_source *source, const char *key)
{
    char *out = NULL, *rest;
    int status = 0;
    size_t prefix = !strncmp(key, "device.", 7) ? 7 : 0;
    prefix = !strncmp(key, "process.", 8) ? 8 : prefix;
    if (prefix) {
        long long process = strtoll(key + prefix, &rest, 10);
        int64_t id = rest > key + prefix && *rest == '.'
                         ? merge_id(&source->processes, process, &status)
                         : STORE_ABSENT;
        if (status == 0 && id != STORE_ABSENT)
            return asprintf(&out, "%.*s%lld%s", (int)prefix, key, (long long)id, rest) < 0 ? NULL
                                                                                           : out;
    }
    if (!strncmp(key, "nvml.", 5)) {
        long long gpu = strtoll(key + 5, &rest, 10);
        if (rest > key + 5 && *rest == '.' && gpu >= 0 && gpu < MERGE_GPUS_MOST)
            return asprintf(&out, "nvml.%lld%s", gpu + (long long)source->nvml, rest) < 0 ? NULL
                                                                                          : out;
    }
    return strdup(key);
}

/* Keeps one key of one file. */
static int on_key(void *ctx, const char *key, const char *value)
{
    struct pairs *pairs = ctx;
    if (pairs->count == pairs->cap) {
        size_t cap = pairs->cap ? 2 * pairs->cap : 256;
        struct pair *pair = realloc(pairs->pair, cap * sizeof *pair);
        if (!pair)
            return TACHO_ENOMEM;
        pairs->pair = pair;
        pairs->cap = cap;
    }
    struct pair pair = {pairs->source, renamed(&pairs->merge->source[pairs->source], key),
                        value ? strdup(value) : NULL};
    if (!pair.key || (value && !pair.value)) {
        free(pair.key);
        free(pair.value);
        return TACHO_ENOMEM;
    }
    pairs->pair[pairs->count++] = pair;
    return 0;
}

static int by_key(const void *left_row, const void *right_row)
{
    const struct pair *left = left_row, *right = right_row;
    int order = strcmp(left->key, right->key);
    return order ? order : (left->source > right->source) - (left->source < right->source);
}

static bool equal(const char *first, const char *second)
{
    return first && second ? !strcmp(first, second) : first == second;
}

/* Writes the sum over machines of the largest number among the files of each; or just the largest
 * of all. Writes nothing to sum where a machine has no number. */
static int set_number(struct merge *merge, const struct pair *pair, size_t count, bool sum)
{
    long long total = 0, most = 0;
    for (size_t machine = 0; machine < merge->machines; machine++) {
        long long here = 0;
        bool any = false;
        for (size_t i = 0; i < count; i++) {
            char *end;
            long long value = pair[i].value ? strtoll(pair[i].value, &end, 10) : 0;
            if (merge->source[pair[i].source].machine != machine || !pair[i].value ||
                end == pair[i].value || *end)
                continue;
            here = !any || value > here ? value : here;
            any = true;
        }
        if ((!any && sum) || __builtin_add_overflow(total, here, &total))
            return 0;
        most = here > most ? here : most;
    }
    return store_run_set_int(merge->out, pair->key, sum ? total : most);
}

static int set_nodes(struct merge *merge, const struct pair *pair, size_t count)
{
    char key[320];
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        snprintf(key, sizeof key, "node.%lld.%.280s",
                 (long long)merge->source[pair[i].source].index, pair[i].key);
        status = store_run_set(merge->out, key, pair[i].value);
    }
    return status;
}

/* Writes one key, from the pairs of all files that have it. */
static int set_key(struct merge *merge, const struct pair *pair, size_t count)
{
    bool same = count == merge->count;
    for (size_t i = 1; i < count; i++)
        same &= equal(pair[i].value, pair[0].value);
    enum way way = way_of(pair->key);
    if (way == WAY_SUM || way == WAY_MOST) {
        int status = set_number(merge, pair, count, way == WAY_SUM);
        if (status || same)
            return status;
    } else if (same && way != WAY_DROP) {
        return store_run_set(merge->out, pair->key, pair->value);
    } else if (way == WAY_OWN) {
        int status = store_run_set(merge->out, pair->key, pair->value);
        /* Keys of devices have numbers that differ between files. */
        bool device = !strncmp(pair->key, "device.", 7);
        if (status || device || (!strncmp(pair->key, "nvml.", 5) && count == 1))
            return status;
    }
    return strcmp(pair->key, "verdict") ? set_nodes(merge, pair, count) : 0;
}

static int write_keys(struct merge *merge)
{
    struct pairs pairs = {.merge = merge};
    int status = 0;
    for (pairs.source = 0; pairs.source < merge->count && status == 0; pairs.source++)
        status = store_run_each(merge->source[pairs.source].reader, on_key, &pairs);
    if (status == 0 && pairs.count)
        qsort(pairs.pair, pairs.count, sizeof *pairs.pair, by_key);
    for (size_t i = 0, same; i < pairs.count && status == 0; i += same) {
        const struct pair *pair = &pairs.pair[i];
        for (same = 1; i + same < pairs.count && !strcmp(pair->key, pair[same].key);)
            same++;
        status = set_key(merge, pair, same);
    }
    for (size_t i = 0; i < pairs.count; i++) {
        free(pairs.pair[i].key);
        free(pairs.pair[i].value);
    }
    free(pairs.pair);
    return status;
}

/* ---- clocks ---------------------------------------------------------------------------------------------------------------- */

static int set_node(struct merge *merge, const struct merge_source *source, const char *name,
                    const char *value)
{
    char key[64];
    snprintf(key, sizeof key, "node.%lld.%s", (long long)source->index, name);
    return store_run_set(merge->out, key, value);
}

static int set_node_number(struct merge *merge, const struct merge_source *source, const char *name,
                           double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.0f", value);
    return isnan(value) ? 0 : set_node(merge, source, name, text);
}

/* Writes how the clock of one file was aligned. */
static int write_clock(struct merge *merge, const struct merge_source *source)
{
    const struct store_merge_clock *merge_clock = &source->clock;
    char text[48];
    int status = set_node(merge, source, "file", basename(source->path));
    status =
        status ? status : set_node(merge, source, "clock", store_merge_how_text(merge_clock->how));
    if (status == 0 && merge_clock->how != STORE_MERGE_NONE)
        status = set_node_number(merge, source, "clock.offset_ns", (double)merge_clock->offset);
    status = status ? status : set_node_number(merge, source, "clock.error_ns", merge_clock->error);
    if (status || merge_clock->how != STORE_MERGE_BY_COLLECTIVES)
        return status;
    snprintf(text, sizeof text, "%.3f", merge_clock->drift * 1e9);
    status = set_node(merge, source, "clock.drift_ppb", text);
    status = status ? status
                    : set_node_number(merge, source, "clock.pivot_ns", (double)merge_clock->pivot);
    status = status ? status : set_node_number(merge, source, "clock.bound_ns", merge_clock->bound);
    status = status ? status
                    : set_node_number(merge, source, "clock.wall_difference_ns", merge_clock->wall);
    return status ? status
                  : set_node_number(merge, source, "clock.matched", (double)merge_clock->matched);
}

/* Writes how the clocks of all files were aligned, and the end of the last one. */
static int write_clocks(struct merge *merge)
{
    char text[160];
    int status = store_run_set_int(merge->out, "merge.files", (int64_t)merge->count);
    int64_t end = STORE_ABSENT;
    for (size_t i = 0; i < merge->count && status == 0; i++) {
        const struct merge_source *source = &merge->source[i];
        int64_t ended = merge_time(source, source->ended);
        status = write_clock(merge, source);
        end = ended != STORE_ABSENT && (end == STORE_ABSENT || ended > end) ? ended : end;
    }
    if (status == 0 && end != STORE_ABSENT)
        status = store_run_set_int(merge->out, "end.monotonic_ns", end);
    if (status == 0 && !isnan(merge->merge_result->error)) {
        snprintf(text, sizeof text, "%.0f", merge->merge_result->error);
        status = store_run_set(merge->out, "clock.fit_error_ns", text);
    }
    if (status || merge->machines < 2)
        return status;
    const char *own = merge->source[0].clock_text;
    if (isnan(merge->merge_result->error))
        snprintf(text, sizeof text, "%.20s; %zu machines by %s, error not known", own,
                 merge->machines, store_merge_how_text(merge->merge_result->how));
    else
        snprintf(text, sizeof text, "%.20s; %zu machines aligned within %.3g us", own,
                 merge->machines, merge->merge_result->error / 1e3);
    return store_run_set(merge->out, "clock", text);
}

static int copy_anchor(void *ctx, int columns, const struct store_cell *cells)
{
    struct merge *merge = ctx;
    struct store_anchor anchor = {.tsc = STORE_ABSENT};
    (void)columns;
    if (cells[0].type == STORE_CELL_INTEGER)
        anchor.tsc = cells[0].integer;
    anchor.monotonic = cells[1].integer;
    anchor.realtime = cells[2].integer;
    return store_anchor_add(merge->out, &anchor);
}

#define AMOUNTS_MOST 4096 /* tacho writes some tens of them */

/* ---- ceilings, totals, losses ---------------------------------------------------------------------------------------------- */

struct amount {
    char *name, *dtype, *device, *text; /* text: source of a ceiling, unit of a metric */
    double *value;                      /* [machines], NAN: none */
    bool unknown;                       /* one of the files says that it does not know it */
};

struct amounts {
    struct merge *merge;
    size_t source;
    struct amount *amount;
    size_t count;
};

static char *copy_of(const char *text)
{
    return text ? strdup(text) : NULL;
}

/* Says why there is no entry for one more: the next look-ups would take too long. */
static int too_many(const struct amounts *amounts)
{
    struct merge *merge = amounts->merge;
    if (amounts->count < AMOUNTS_MOST)
        return TACHO_ENOMEM;
    return tacho_fail(&merge->why, TACHO_ECORRUPT, "copy it again, or leave this file out",
                      "%s: damaged: more than %d ceilings or counters of the whole run",
                      merge->source[amounts->source].path, AMOUNTS_MOST);
}

/* The entry of a ceiling or metric, which is made at its first value. NULL: out of memory, or there
 * are AMOUNTS_MOST already. */
static struct amount *amount_of(struct amounts *amounts, const char *name, const char *dtype,
                                const char *device, const char *text)
{
    for (size_t i = 0; i < amounts->count; i++)
        if (equal(amounts->amount[i].name, name) && equal(amounts->amount[i].dtype, dtype) &&
            equal(amounts->amount[i].device, device))
            return &amounts->amount[i];
    if (amounts->count >= AMOUNTS_MOST)
        return NULL;
    struct amount *amount = realloc(amounts->amount, (amounts->count + 1) * sizeof *amount);
    if (!amount)
        return NULL;
    amounts->amount = amount;
    amount = &amounts->amount[amounts->count];
    *amount = (struct amount){.name = copy_of(name),
                              .dtype = copy_of(dtype),
                              .device = copy_of(device),
                              .text = copy_of(text),
                              .value = malloc(amounts->merge->machines * sizeof *amount->value)};
    for (size_t i = 0; amount->value && i < amounts->merge->machines; i++)
        amount->value[i] = NAN;
    amounts->count++;
    bool whole = amount->name && amount->value && !amount->dtype == !dtype &&
                 !amount->device == !device && !amount->text == !text;
    return whole ? amount : NULL;
}

static void amounts_clear(struct amounts *amounts)
{
    for (size_t i = 0; i < amounts->count; i++) {
        free(amounts->amount[i].name);
        free(amounts->amount[i].dtype);
        free(amounts->amount[i].device);
        free(amounts->amount[i].text);
        free(amounts->amount[i].value);
    }
    free(amounts->amount);
}

/* Seconds are worse the larger they are. */
static bool is_latency(const char *resource)
{
    return strstr(resource, "latency") != NULL;
}

/* The slowest link decides for the whole job. */
static bool is_link(const char *resource)
{
    return strncmp(resource, "mpi_", 4) == 0;
}

/* Keeps the best value of a ceiling among the files of one machine. */
static int on_ceiling(void *ctx, const struct store_ceiling *ceiling)
{
    struct amounts *amounts = ctx;
    struct amount *amount =
        amount_of(amounts, ceiling->resource, ceiling->dtype, ceiling->device, ceiling->source);
    if (!amount)
        return too_many(amounts);
    double *value = &amount->value[amounts->merge->source[amounts->source].machine];
    bool better = is_latency(ceiling->resource) ? ceiling->value < *value : ceiling->value > *value;
    if (isnan(*value) || better)
        *value = ceiling->value;
    return 0;
}

/* Says that a machine lacks a ceiling, so that the whole job has none. */
static int lose_ceiling(struct merge *merge, const struct amount *amount, size_t machine)
{
    char reason[200];
    const struct merge_source *source = merge->source;
    while (source->machine != machine)
        source++;
    snprintf(reason, sizeof reason,
             "ceiling %.40s %.10s of %.60s not measured: none for the whole job", amount->name,
             amount->dtype ? amount->dtype : "", source->host);
    return store_loss_add(merge->out, &(struct store_loss){"system", reason, STORE_ABSENT,
                                                           STORE_ABSENT, STORE_ABSENT});
}

/* Writes a ceiling of the whole job: the mean of the machines, or the worst of the links. */
static int write_ceiling(struct merge *merge, const struct amount *amount)
{
    static const char prefix[] = "measured: ";
    char source[320];
    bool link = is_link(amount->name);
    double sum = 0, worst = amount->value[0];
    const char *text = amount->text ? amount->text : "", *how = text;
    for (size_t i = 0; i < merge->machines; i++) {
        double value = amount->value[i];
        if (isnan(value))
            return lose_ceiling(merge, amount, i);
        sum += value;
        worst = is_latency(amount->name) ? fmax(worst, value) : fmin(worst, value);
    }
    if (!strncmp(text, prefix, sizeof prefix - 1))
        how += sizeof prefix - 1;
    snprintf(source, sizeof source, "%.*s%s of %zu machines: %.200s", (int)(how - text), text,
             link ? "worst" : "mean", merge->machines, how);
    double value = link ? worst : sum / (double)merge->machines;
    struct store_ceiling ceiling = {.device = amount->device,
                                    .resource = amount->name,
                                    .dtype = amount->dtype,
                                    .value = value,
                                    .source = merge->machines > 1 ? source : text};
    return store_ceiling_add(merge->out, &ceiling);
}

static double add_metric(const char *name, double sum, double value)
{
    return strcmp(name, "target.max_rss") ? sum + value : fmax(sum, value);
}

/* Copies the events that a process lost, under its id in the merged file. */
static int copy_lost(const struct amounts *amounts, const struct store_metric *metric)
{
    char name[48];
    int status = 0;
    struct store_metric new = *metric;
    int64_t id = strtoll(metric->name + strlen(STORE_METRIC_LOST), NULL, 10);
    id = merge_id(&amounts->merge->source[amounts->source].processes, id, &status);
    snprintf(name, sizeof name, STORE_METRIC_LOST "%" PRId64, id);
    new.name = name;
    return status ? status : store_metric_set(amounts->merge->out, &new);
}

/* Collects counts of the kernel and of the hardware, which are totals. Metrics of reports are left
 * out: they are computed again from the merged run. */
static int on_metric(void *ctx, const struct store_metric *metric)
{
    struct amounts *amounts = ctx;
    if (strncmp(metric->name, STORE_METRIC_LOST, strlen(STORE_METRIC_LOST)) == 0)
        return copy_lost(amounts, metric);
    if (strncmp(metric->name, "perf.", 5) != 0 && strncmp(metric->name, "target.", 7) != 0)
        return 0;
    struct amount *amount = amount_of(amounts, metric->name, NULL, NULL, metric->unit);
    if (!amount)
        return too_many(amounts);
    amount->unknown |= isnan(metric->value);
    /* Files of one machine are different targets, so the value of the machine is their sum. */
    double *value = &amount->value[amounts->merge->source[amounts->source].machine];
    if (isnan(*value))
        *value = metric->value;
    else
        *value = add_metric(metric->name, *value, metric->value);
    return 0;
}

/* Writes the total of a counter over all files; absent if one file does not know it. */
static int write_metric(struct merge *merge, const struct amount *amount)
{
    struct store_metric metric = {.name = amount->name, .unit = amount->text, .value = 0};
    for (size_t i = 0; i < merge->machines; i++)
        metric.value = add_metric(amount->name, metric.value, amount->value[i]);
    if (amount->unknown || isnan(metric.value)) {
        metric.value = NAN;
        metric.reason = "not known of all files that were merged";
    }
    return store_metric_set(merge->out, &metric);
}

/* Combines all ceilings, or all metrics. */
static int each_amount(struct merge *merge, bool ceilings)
{
    struct amounts amounts = {.merge = merge};
    int status = 0;
    for (amounts.source = 0; amounts.source < merge->count && status == 0; amounts.source++)
        status =
            ceilings
                ? store_ceiling_each(merge->source[amounts.source].reader, on_ceiling, &amounts)
                : store_metric_each(merge->source[amounts.source].reader, on_metric, &amounts);
    for (size_t i = 0; i < amounts.count && status == 0; i++)
        status = ceilings ? write_ceiling(merge, &amounts.amount[i])
                          : write_metric(merge, &amounts.amount[i]);
    amounts_clear(&amounts);
    return status;
}

struct losing {
    struct merge *merge;
    const struct merge_source *source;
};

/* Copies a loss, with the name of its file in the reason. */
static int copy_loss(void *ctx, const struct store_loss *loss)
{
    struct losing *losing = ctx;
    char reason[600];
    struct store_loss new = {.source = loss->source,
                             .reason = reason,
                             .count = loss->count,
                             .t0 = merge_time(losing->source, loss->t0),
                             .t1 = merge_time(losing->source, loss->t1)};
    snprintf(reason, sizeof reason, "%.400s (%.150s)", loss->reason,
             basename(losing->source->path));
    return store_loss_add(losing->merge->out, &new);
}

int merge_keys(struct merge *merge)
{
    int status = write_keys(merge);
    status = status ? status : write_clocks(merge);
    status = status
                 ? status
                 : merge_query(merge, &merge->source[0],
                               "SELECT tsc, monotonic, realtime FROM clock_anchor ORDER BY rowid",
                               copy_anchor, merge);
    status = status ? status : each_amount(merge, true);
    status = status ? status : each_amount(merge, false);
    for (size_t i = 0; i < merge->count && status == 0; i++) {
        struct losing losing = {merge, &merge->source[i]};
        status = store_loss_each(losing.source->reader, copy_loss, &losing);
    }
    return status;
}
