/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of the run as a whole. A key that all files have with one value stays; else it has
 * the reference's value, and node.N.KEY those of each file. Processors and memory are added over
 * machines. A ceiling is one machine's, their mean: readers multiply by the hosts that a run has.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/merge/merge_private.h"

/* ---- run keys -------------------------------------------------------------------------------------------------------------- */

struct pair {
    size_t source;
    char *key, *value; /* value NULL: the column is */
};

struct pairs {
    struct pair *pair;
    size_t count, cap;
    struct merge *m;
    size_t source;
};

/* How files that differ are put together. name of the key, way */
enum way { WAY_OWN, WAY_SUM, WAY_MOST, WAY_DROP };
static const struct {
    const char *key;
    enum way way;
} ways[] = {{"cpu.online", WAY_SUM},         {"cpu.usable", WAY_SUM},
            {"memory.bytes", WAY_SUM},       {"ranges_without_end", WAY_SUM},
            {"ends_without_start", WAY_SUM}, {"exit_status", WAY_MOST},
            {"recovered", WAY_MOST},         {"verdict", WAY_DROP},
            {"job.node_ranks", WAY_DROP},    {"end.monotonic_ns", WAY_DROP}};

static enum way way_of(const char *key)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(key, ways[i].key))
            return ways[i].way;
    return WAY_OWN;
}

/* Keys that name a process or a GPU of this file get their new numbers: device.P.gpu:N.X, nvml.N.X.
 */
static char *renamed(const struct merge_source *s, const char *key)
{
    char *out = NULL, *rest;
    int rc = 0;
    if (!strncmp(key, "device.", 7)) {
        long long process = strtoll(key + 7, &rest, 10);
        int64_t id =
            rest > key + 7 && *rest == '.' ? merge_id(&s->processes, process, &rc) : STORE_ABSENT;
        if (rc == 0 && id != STORE_ABSENT)
            return asprintf(&out, "device.%lld%s", (long long)id, rest) < 0 ? NULL : out;
    }
    if (!strncmp(key, "nvml.", 5)) {
        long long gpu = strtoll(key + 5, &rest, 10);
        if (rest > key + 5 && *rest == '.')
            return asprintf(&out, "nvml.%lld%s", gpu + (long long)s->nvml, rest) < 0 ? NULL : out;
    }
    return strdup(key);
}

static int on_key(void *ctx, const char *key, const char *value)
{
    struct pairs *x = ctx;
    if (x->count == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 256;
        struct pair *p = realloc(x->pair, cap * sizeof *p);
        if (!p)
            return TACHO_ENOMEM;
        x->pair = p;
        x->cap = cap;
    }
    struct pair p = {x->source, renamed(&x->m->source[x->source], key),
                     value ? strdup(value) : NULL};
    if (!p.key || (value && !p.value)) {
        free(p.key);
        free(p.value);
        return TACHO_ENOMEM;
    }
    x->pair[x->count++] = p;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->source > y->source) - (x->source < y->source);
}

static bool equal(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Added over machines, the largest of the files of one machine; or just the largest. Absent where a
 * machine has no number. */
static int set_number(struct merge *m, const struct pair *p, size_t n, bool sum)
{
    long long total = 0, most = 0;
    for (size_t machine = 0; machine < m->machines; machine++) {
        long long here = 0;
        bool any = false;
        for (size_t i = 0; i < n; i++) {
            char *end;
            long long v = p[i].value ? strtoll(p[i].value, &end, 10) : 0;
            if (m->source[p[i].source].machine != machine || !p[i].value || end == p[i].value ||
                *end)
                continue;
            here = !any || v > here ? v : here;
            any = true;
        }
        if (!any && sum)
            return 0;
        total += here;
        most = here > most ? here : most;
    }
    return store_run_set_int(m->out, p->key, sum ? total : most);
}

static int set_nodes(struct merge *m, const struct pair *p, size_t n)
{
    char key[320];
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        snprintf(key, sizeof key, "node.%lld.%.280s", (long long)m->source[p[i].source].index,
                 p[i].key);
        rc = store_run_set(m->out, key, p[i].value);
    }
    return rc;
}

static int set_own(struct merge *m, const struct pair *p, size_t n)
{
    int rc = store_run_set(m->out, p->key, p->value);
    return rc ? rc : set_nodes(m, p, n);
}

static int set_key(struct merge *m, const struct pair *p, size_t n)
{
    bool same = n == m->count;
    for (size_t i = 1; i < n; i++)
        same &= equal(p[i].value, p[0].value);
    enum way way = way_of(p->key);
    if (way == WAY_SUM || way == WAY_MOST) {
        int rc = set_number(m, p, n, way == WAY_SUM);
        if (rc || same)
            return rc;
    } else if (same && way != WAY_DROP) {
        return store_run_set(m->out, p->key, p->value);
    } else if (way == WAY_OWN &&
               (!strncmp(p->key, "device.", 7) || (!strncmp(p->key, "nvml.", 5) && n == 1))) {
        return store_run_set(m->out, p->key, p->value); /* their numbers tell the files apart */
    }
    if (!strcmp(p->key, "verdict"))
        return 0;
    return way == WAY_OWN ? set_own(m, p, n) : set_nodes(m, p, n);
}

static int write_keys(struct merge *m)
{
    struct pairs x = {.m = m};
    int rc = 0;
    for (x.source = 0; x.source < m->count && rc == 0; x.source++)
        rc = store_run_each(m->source[x.source].r, on_key, &x);
    if (rc == 0 && x.count)
        qsort(x.pair, x.count, sizeof *x.pair, by_key);
    for (size_t i = 0, n; i < x.count && rc == 0; i += n) {
        for (n = 1; i + n < x.count && !strcmp(x.pair[i].key, x.pair[i + n].key); n++)
            continue;
        rc = set_key(m, &x.pair[i], n);
    }
    for (size_t i = 0; i < x.count; i++) {
        free(x.pair[i].key);
        free(x.pair[i].value);
    }
    free(x.pair);
    return rc;
}

/* ---- clocks ---------------------------------------------------------------------------------------------------------------- */

static int set_node(struct merge *m, const struct merge_source *s, const char *name,
                    const char *value)
{
    char key[64];
    snprintf(key, sizeof key, "node.%lld.%s", (long long)s->index, name);
    return store_run_set(m->out, key, value);
}

static int set_node_number(struct merge *m, const struct merge_source *s, const char *name,
                           double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.0f", value);
    return isnan(value) ? 0 : set_node(m, s, name, text);
}

static int write_clock(struct merge *m, const struct merge_source *s)
{
    const struct store_merge_clock *c = &s->clock;
    const char *base = strrchr(s->path, '/');
    char text[48];
    int rc = set_node(m, s, "file", base ? base + 1 : s->path);
    rc = rc ? rc : set_node(m, s, "clock", store_merge_how_text(c->how));
    rc = rc ? rc
            : set_node_number(m, s, "clock.offset_ns",
                              c->how == STORE_MERGE_NONE ? NAN : (double)c->offset);
    rc = rc ? rc : set_node_number(m, s, "clock.error_ns", c->error);
    if (rc || c->how != STORE_MERGE_BY_COLLECTIVES)
        return rc;
    snprintf(text, sizeof text, "%.3f", c->drift * 1e9);
    rc = set_node(m, s, "clock.drift_ppb", text);
    rc = rc ? rc : set_node_number(m, s, "clock.pivot_ns", (double)c->pivot);
    rc = rc ? rc : set_node_number(m, s, "clock.bound_ns", c->bound);
    rc = rc ? rc : set_node_number(m, s, "clock.wall_difference_ns", c->wall);
    return rc ? rc : set_node_number(m, s, "clock.matched", (double)c->matched);
}

static int write_clocks(struct merge *m)
{
    const char *own = "";
    char text[160];
    int rc = store_run_set_int(m->out, "merge.files", (int64_t)m->count);
    int64_t end = STORE_ABSENT;
    for (size_t i = 0; i < m->count && rc == 0; i++) {
        const struct merge_source *s = &m->source[i];
        int64_t ended = merge_time(s, s->ended);
        rc = write_clock(m, s);
        end = ended != STORE_ABSENT && (end == STORE_ABSENT || ended > end) ? ended : end;
    }
    if (rc == 0 && end != STORE_ABSENT)
        rc = store_run_set_int(m->out, "end.monotonic_ns", end);
    if (rc == 0 && !isnan(m->r->error)) {
        snprintf(text, sizeof text, "%.0f", m->r->error);
        rc = store_run_set(m->out, "clock.fit_error_ns", text);
    }
    if (rc || m->machines < 2)
        return rc;
    own = m->source[0].clock_text;
    if (isnan(m->r->error))
        snprintf(text, sizeof text, "%.20s; %zu machines by %s, error not known", own, m->machines,
                 store_merge_how_text(m->r->how));
    else
        snprintf(text, sizeof text, "%.20s; %zu machines aligned within %.3g us", own, m->machines,
                 m->r->error / 1e3);
    return store_run_set(m->out, "clock", text);
}

static int copy_anchor(void *ctx, int columns, const struct store_cell *cells)
{
    struct merge *m = ctx;
    struct store_anchor a = {.tsc = STORE_ABSENT};
    (void)columns;
    if (cells[0].type == STORE_CELL_INTEGER)
        a.tsc = cells[0].integer;
    a.monotonic = cells[1].integer;
    a.realtime = cells[2].integer;
    return store_anchor_add(m->out, &a);
}

/* ---- ceilings, totals, losses ---------------------------------------------------------------------------------------------- */

struct amount {
    char *name, *dtype, *device, *text; /* text: source of a ceiling, unit of a metric */
    double *value;                      /* [machines], NAN: none */
};

struct amounts {
    struct merge *m;
    size_t source;
    struct amount *amount;
    size_t count;
};

static char *copy_of(const char *text)
{
    return text ? strdup(text) : NULL;
}

static struct amount *amount_of(struct amounts *x, const char *name, const char *dtype,
                                const char *device, const char *text)
{
    for (size_t i = 0; i < x->count; i++)
        if (equal(x->amount[i].name, name) && equal(x->amount[i].dtype, dtype) &&
            equal(x->amount[i].device, device))
            return &x->amount[i];
    struct amount *p = realloc(x->amount, (x->count + 1) * sizeof *p);
    if (!p)
        return NULL;
    x->amount = p;
    p = &x->amount[x->count];
    *p = (struct amount){copy_of(name), copy_of(dtype), copy_of(device), copy_of(text),
                         malloc(x->m->machines * sizeof *p->value)};
    for (size_t i = 0; p->value && i < x->m->machines; i++)
        p->value[i] = NAN;
    x->count++;
    return p->name && p->value ? p : NULL;
}

static void amounts_clear(struct amounts *x)
{
    for (size_t i = 0; i < x->count; i++) {
        free(x->amount[i].name);
        free(x->amount[i].dtype);
        free(x->amount[i].device);
        free(x->amount[i].text);
        free(x->amount[i].value);
    }
    free(x->amount);
}

/* Seconds get worse with their size, and the slowest link decides. */
static bool is_latency(const char *resource)
{
    return strstr(resource, "latency") != NULL;
}
static bool is_link(const char *resource)
{
    return strncmp(resource, "mpi_", 4) == 0;
}

static int on_ceiling(void *ctx, const struct store_ceiling *c)
{
    struct amounts *x = ctx;
    struct amount *a = amount_of(x, c->resource, c->dtype, c->device, c->source);
    if (!a)
        return TACHO_ENOMEM;
    double *v = &a->value[x->m->source[x->source].machine];
    bool better = is_latency(c->resource) ? c->value < *v : c->value > *v;
    *v = isnan(*v) || better ? c->value : *v;
    return 0;
}

static int write_ceiling(struct merge *m, const struct amount *a)
{
    char source[320], reason[200];
    double sum = 0, least = INFINITY, most = 0;
    const char *text = a->text ? a->text : "";
    for (size_t i = 0; i < m->machines; i++) {
        if (isnan(a->value[i])) {
            const struct merge_source *s = m->source;
            while (s->machine != i)
                s++;
            snprintf(reason, sizeof reason,
                     "ceiling %.40s %.10s of %.60s not measured: none for the whole job", a->name,
                     a->dtype ? a->dtype : "", s->host);
            return store_loss_add(m->out, &(struct store_loss){"system", reason, STORE_ABSENT,
                                                               STORE_ABSENT, STORE_ABSENT});
        }
        sum += a->value[i];
        least = fmin(least, a->value[i]);
        most = fmax(most, a->value[i]);
    }
    bool measured = !strncmp(text, "measured: ", 10);
    const char *how = is_link(a->name) ? "worst" : "mean";
    snprintf(source, sizeof source, "%s%s of %zu machines: %.200s", measured ? "measured: " : "",
             how, m->machines, text + (measured ? 10 : 0));
    struct store_ceiling c = {.device = a->device,
                              .resource = a->name,
                              .dtype = a->dtype,
                              .value = !is_link(a->name)     ? sum / (double)m->machines
                                       : is_latency(a->name) ? most
                                                             : least,
                              .source = m->machines > 1 ? source : text};
    return store_ceiling_add(m->out, &c);
}

/* Counts of the kernel and of the hardware are totals, and stay so; what a report said is said
 * anew. */
static int on_metric(void *ctx, const struct store_metric *x)
{
    struct amounts *a = ctx;
    if (strncmp(x->name, "perf.", 5) != 0 && strncmp(x->name, "target.", 7) != 0)
        return 0;
    struct amount *to = amount_of(a, x->name, NULL, NULL, x->unit);
    if (!to)
        return TACHO_ENOMEM;
    /* one number a file: files of one machine are different targets, so the place of the machine
     * holds their sum */
    double *v = &to->value[a->m->source[a->source].machine];
    bool most = !strcmp(x->name, "target.max_rss");
    if (to->dtype || isnan(x->value)) {
        free(to->dtype);
        to->dtype = strdup("absent");
        return to->dtype ? 0 : TACHO_ENOMEM;
    }
    *v = isnan(*v) ? x->value : most ? fmax(*v, x->value) : *v + x->value;
    return 0;
}

static int write_metric(struct merge *m, const struct amount *a)
{
    struct store_metric x = {.name = a->name, .unit = a->text, .value = 0};
    for (size_t i = 0; i < m->machines; i++)
        x.value =
            !strcmp(a->name, "target.max_rss") ? fmax(x.value, a->value[i]) : x.value + a->value[i];
    if (a->dtype || isnan(x.value)) {
        x.value = NAN;
        x.reason = "not known of all files that were merged";
    }
    return store_metric_set(m->out, &x);
}

static int each_amount(struct merge *m, bool ceilings)
{
    struct amounts x = {.m = m};
    int rc = 0;
    for (x.source = 0; x.source < m->count && rc == 0; x.source++)
        rc = ceilings ? store_ceiling_each(m->source[x.source].r, on_ceiling, &x)
                      : store_metric_each(m->source[x.source].r, on_metric, &x);
    for (size_t i = 0; i < x.count && rc == 0; i++)
        rc = ceilings ? write_ceiling(m, &x.amount[i]) : write_metric(m, &x.amount[i]);
    amounts_clear(&x);
    return rc;
}

struct losing {
    struct merge *m;
    const struct merge_source *s;
};

static int copy_loss(void *ctx, const struct store_loss *l)
{
    struct losing *x = ctx;
    char reason[600];
    struct store_loss new = {.source = l->source,
                             .reason = reason,
                             .count = l->count,
                             .t0 = merge_time(x->s, l->t0),
                             .t1 = merge_time(x->s, l->t1)};
    const char *base = strrchr(x->s->path, '/');
    snprintf(reason, sizeof reason, "%.400s (%.150s)", l->reason, base ? base + 1 : x->s->path);
    return store_loss_add(x->m->out, &new);
}

int merge_keys(struct merge *m)
{
    int rc = write_keys(m);
    rc = rc ? rc : write_clocks(m);
    rc = rc ? rc
            : merge_query(m, &m->source[0],
                          "SELECT tsc, monotonic, realtime FROM clock_anchor ORDER BY rowid",
                          copy_anchor, m);
    rc = rc ? rc : each_amount(m, true);
    rc = rc ? rc : each_amount(m, false);
    for (size_t i = 0; i < m->count && rc == 0; i++) {
        struct losing x = {m, &m->source[i]};
        rc = store_loss_each(x.s->r, copy_loss, &x);
    }
    return rc;
}
