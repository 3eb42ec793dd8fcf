/* SPDX-License-Identifier: Apache-2.0
 *
 * Edits at work: each changes the own work of nodes, or which releases count; the replay says what becomes of the steps. The
 * interval is that of the steps (block bootstrap), widened by the error the replay was seen to make.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/findings.h"
#include "analyzers/stats.h"
#include "analyzers/what_if_loader.h"
#include "analyzers/what_if_ranks.h"
#include "analyzers/what_if_run.h"

#define ROUNDS    1000
#define ERROR_MAX 20.0 /* % of a step: a replay that misses the run by more predicts nothing */
#define SEED      0x7461636f
#define PASSES    2.0 /* at worst the bytes of a batch move through memory twice more: received, and read cold */

/* What the edits of one prediction come to. */
struct plan {
    struct an_what_if_state *s;
    struct an_change change;
    const char *ceiling; /* why no value is expected; NULL */
    const char *unknown; /* an edit that names nothing of the run */
    const char *reason;
    const char *condition;
    int64_t workers, touched; /* touched: ns of own work that edits name */
    bool more;                /* something gets more work, or other threads: a step may get longer */
    double worker_factor;
    double cores;  /* of a host after the edits; 0: as many as there are */
    double *floor; /* ns of each counted step that it takes at least; NULL: nothing is known */
};

/* ---- what an edit names -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    enum an_cause cause;
} cause_keys[] = {{"comm", AN_CAUSE_TRANSFER},    {"peers", AN_CAUSE_PEERS},           {"copy", AN_CAUSE_COPY},
                  {"compute", AN_CAUSE_COMPUTE},  {"loader", AN_CAUSE_INPUT},          {"launch", AN_CAUSE_LAUNCH},
                  {"sync", AN_CAUSE_SYNC},        {"allocation", AN_CAUSE_ALLOCATION}, {"collection", AN_CAUSE_COLLECTION},
                  {"compile", AN_CAUSE_COMPILE},  {"framework", AN_CAUSE_FRAMEWORK},   {"think", AN_CAUSE_THINK},
                  {"profiler", AN_CAUSE_PROFILER}};

static enum an_cause cause_named(const char *key)
{
    for (size_t i = 0; i < sizeof cause_keys / sizeof *cause_keys; i++)
        if (!strcmp(cause_keys[i].key, key))
            return cause_keys[i].cause;
    return AN_CAUSE_COUNT;
}

static size_t row_named(const struct an_rows *rows, const char *key)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].key, key))
            return i;
    return AN_ROWS_MOST;
}

/* Is a word in the name of the device op? Names are looked at once. */
static bool kernel_named(const struct an_replay *r, uint8_t *memo, const char *word, uint32_t n)
{
    uint32_t slice = r->g->slice[n], name = slice != AN_NONE ? r->c->t->slice.name[slice] : AN_NONE;
    if (!an_graph_on_device(r->g, n) || name == AN_NONE)
        return false;
    if (!memo[name])
        memo[name] = strstr(an_trace_name(r->c->t, name), word) ? 2 : 1;
    return memo[name] == 2;
}

static int scale(struct plan *p, const struct an_edit *e)
{
    struct an_what_if_state *s = p->s;
    const struct an_replay *r = s->r;
    enum an_cause cause = cause_named(e->key);
    size_t row = row_named(&s->rows, e->key);
    bool kernel = !strncmp(e->key, "kernel:", 7), any = false;
    uint8_t *memo = kernel ? calloc(r->c->t->string_count + 1, 1) : NULL;
    if (kernel && !memo)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i];
        bool hit = kernel                    ? kernel_named(r, memo, e->key + 7, n)
                   : cause != AN_CAUSE_COUNT ? r->g->cause[n] == cause
                                             : s->rows.of[n] == row && row < s->rows.count;
        if (!hit)
            continue;
        any = true;
        p->touched = an_time_add(p->touched, r->own[n]);
        s->own[n] = (int64_t)((double)s->own[n] * e->factor);
    }
    free(memo);
    if (!any)
        p->unknown = e->key;
    return 0;
}

/* ---- edits of one kind ---------------------------------------------------------------------------------------------------------- */

static bool names_comm(const struct an_what_if_state *s, const char *key)
{
    size_t row = row_named(&s->rows, key);
    return !strcmp(key, "comm") || !strncmp(key, "collective:", 11) ||
           (row < s->rows.count && s->rows.row[row].cause == AN_CAUSE_TRANSFER);
}

static int apply_scale(struct plan *p, const struct an_edit *e)
{
    struct an_what_if_state *s = p->s;
    p->more = p->more || e->factor > 1;
    if (!strcmp(e->key, "dispatch")) {
        p->change.latency = e->factor;
        return 0;
    }
    int rc = scale(p, e);
    if (names_comm(s, e->key) && !s->r->c->r->communication.waiting_ms.valid)
        p->ceiling =
            "the file lacks ranks, or clocks that agree: how much of a collective is transfer and how much is waiting for "
            "others is not known";
    if (!strcmp(e->key, "peers")) {
        if (e->factor != 0)
            p->reason = "waiting for other ranks is not scaled, only taken away: peers=0";
        p->change.without_peers = true;
        p->unknown = s->r->g->by_kind[AN_EDGE_COLLECTIVE] ? NULL : p->unknown;
        p->ceiling = "how even the ranks can get is not in the run";
    }
    if (!strcmp(e->key, "sync") && e->factor == 0) {
        p->change.without_syncs = true;
        p->ceiling = "whether the program can do without what it waits for is not in the run";
    }
    return rc;
}

/* A captured graph: of the calls that launch, one a step is left; the framework between them does not run. */
static void apply_graph(struct plan *p)
{
    const struct an_replay *r = p->s->r;
    const struct an_graph *g = r->g;
    const struct an_step *open = NULL;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i], cause = g->cause[n];
        if (an_graph_on_device(g, n) ||
            (cause != AN_CAUSE_LAUNCH && cause != AN_CAUSE_FRAMEWORK && cause != AN_CAUSE_ALLOCATION))
            continue;
        uint32_t lane = an_lane_of_process(r->c, r->c->t->track[g->track[n]].process);
        const struct an_step *step = lane == AN_NONE ? NULL : an_step_at_host(r->c, &r->c->lane[lane], g->start[n]);
        p->touched = an_time_add(p->touched, r->own[n]);
        if (cause == AN_CAUSE_LAUNCH && step && step != open)
            open = step;
        else
            p->s->own[n] = 0;
    }
    p->ceiling = "what launching a graph of this size costs was not measured";
    if (!g->by_kind[AN_EDGE_LAUNCH])
        p->unknown = "launch";
}

/* Mean of the transfer on a lane's own thread or device, a step. */
static void apply_overlap(struct plan *p)
{
    const struct an_replay *r = p->s->r;
    int64_t sum = 0;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i];
        if (r->g->cause[n] != AN_CAUSE_TRANSFER)
            continue;
        sum = an_time_add(sum, r->own[n]);
        p->s->own[n] = 0;
    }
    p->touched = an_time_add(p->touched, sum);
    for (size_t i = 0; i < p->s->steps && r->step_count; i++) {
        double least = (double)sum / (double)r->step_count;
        p->floor[i] = p->floor[i] > least ? p->floor[i] : least;
    }
    if (!sum)
        p->unknown = "comm";
    p->ceiling = "compute and communication slow each other down where they overlap, and by how much was not measured";
}

/* Cores that the run is known to keep busy, whatever thread they are on, bound a step that gets shorter. */
static void core_floor(struct plan *p)
{
    const struct an_result *r = p->s->r->c->r;
    const struct an_count *cores = &r->run.cores;
    if (!cores->valid || cores->value <= 0) {
        p->condition = "a free core for each worker: the run does not say how many cores there are";
        return;
    }
    p->condition = an_arena_format(p->s->r->c->a, "%" PRId64 " cores, of which the run keeps %.2g busy", cores->value,
                                   r->system.cpu_cores.valid ? r->system.cpu_cores.value : NAN);
    if (!r->system.cpu_cores.valid) {
        p->condition = an_arena_format(
            p->s->r->c->a, "a free core for each worker: of %" PRId64 " cores it is not known how many are busy", cores->value);
        return;
    }
    for (size_t i = 0; i < p->s->steps; i++) {
        double least = p->s->b[i] * r->system.cpu_cores.value / (double)cores->value;
        p->floor[i] = p->floor[i] > least ? p->floor[i] : least;
    }
}

/* The work of workers may be scaled as well: what of theirs is left. */
static double worker_share(const struct an_what_if_state *s)
{
    const struct an_replay *r = s->r;
    double before = 0, after = 0;
    for (size_t i = 0; i < r->node_count; i++) {
        uint32_t n = r->node[i];
        if (r->g->cause[n] != AN_CAUSE_INPUT || r->g->kind[n] != AN_NODE_HOST)
            continue;
        before += (double)r->own[n];
        after += (double)s->own[n];
    }
    return before > 0 ? after / before : 1;
}

static int apply_one(struct plan *p, const struct an_edit *e)
{
    switch (e->kind) {
    case AN_EDIT_WORKERS:
        p->workers = e->workers;
        p->more = true;
        return 0;
    case AN_EDIT_GRAPH:
        apply_graph(p);
        return 0;
    case AN_EDIT_OVERLAP:
        apply_overlap(p);
        return 0;
    case AN_EDIT_PEERS:
        return an_what_if_ranks(p->s->r, e, p->s->own, &p->touched, &p->reason);
    default:
        if (!strncmp(e->key, "rank:", 5))
            return an_what_if_ranks(p->s->r, e, p->s->own, &p->touched, &p->reason);
        return apply_scale(p, e);
    }
}

/* ---- over steps -------------------------------------------------------------------------------------------------------------- */

static double ratio_of(const double *e, const double *b, size_t n)
{
    double x = 0, y = 0;
    for (size_t i = 0; i < n; i++) {
        x += e[i];
        y += b[i];
    }
    return y > 0 ? x / y : 1;
}

/* 95 % interval of sum(e) / sum(b) over steps: blocks of neighbours, n^(1/3) long, drawn with replacement (Kunsch 1989). */
static int bootstrap(const double *e, const double *b, size_t n, struct an_interval *out)
{
    double *ratio = malloc(ROUNDS * sizeof *ratio);
    size_t block = (size_t)ceil(cbrt((double)n));
    uint64_t state = SEED;
    *out = (struct an_interval){.estimate = ratio_of(e, b, n)};
    if (!ratio)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < ROUNDS; k++) {
        double x = 0, y = 0;
        for (size_t drawn = 0; drawn < n;) {
            size_t first = (size_t)(an_random(&state) % n);
            for (size_t i = 0; i < block && drawn < n; i++, drawn++) {
                x += e[(first + i) % n];
                y += b[(first + i) % n];
            }
        }
        ratio[k] = y > 0 ? x / y : 1;
    }
    an_sort(ratio, ROUNDS);
    out->low = an_quantile(ratio, ROUNDS, 0.025);
    out->high = an_quantile(ratio, ROUNDS, 0.975);
    free(ratio);
    return 0;
}

/* Less work lets nothing end later (test_an_replay.c). The steps that count may still sum to more, because the first of them
 * begins earlier by more than the last one ends. */
static void no_longer(struct an_interval *x)
{
    x->low = x->low < 1 ? x->low : 1;
    x->estimate = x->estimate < 1 ? x->estimate : 1;
    x->high = x->high < 1 ? x->high : 1;
}

/* ---- the replay of a plan ------------------------------------------------------------------------------------------------------- */

/* What the replays of one plan say of the step, as a share of the recorded one: the hull of all, and the mean of those that are
 * the ends of what is expected. */
struct outcome {
    double low, high, sum;
    int count;
};

static int add_outcome(struct plan *p, struct outcome *o, bool expected)
{
    struct an_what_if_state *s = p->s;
    struct an_interval x;
    size_t n = 0;
    for (size_t i = 0; i < s->r->step_count; i++)
        if (an_replay_counts(&s->r->step[i])) {
            double ns = (double)an_replay_step_ns(s->r, &s->r->step[i], &s->edited);
            s->e[n] = ns > p->floor[n] ? ns : p->floor[n];
            n++;
        }
    if (bootstrap(s->e, s->b, s->steps, &x))
        return TACHO_ENOMEM;
    if (!p->more)
        no_longer(&x);
    o->low = x.low < o->low ? x.low : o->low;
    o->high = x.high > o->high ? x.high : o->high;
    o->sum += expected ? x.estimate : 0;
    o->count += expected;
    return 0;
}

/* With the resources shared as the model says, which is what is expected, and with every piece of work as slow as it was
 * recorded: the truth lies between, where threads do not share fairly. */
static int replay_shared(struct plan *p, struct outcome *o)
{
    struct an_what_if_state *s = p->s;
    if (s->shares) {
        int rc = an_shares_run(s->shares, &p->change, p->cores, &s->edited);
        if (rc || (rc = add_outcome(p, o, true)) || p->cores > 0)
            return rc;
        if (p->change.route)
            an_route_recorded(p->change.route, 1);
    }
    an_replay_run(s->r, &p->change, &s->edited);
    return add_outcome(p, o, !s->shares);
}

/* The loader on other threads, handing over for nothing and for what moving the batch through memory takes. */
static int replay_route(struct plan *p, struct outcome *o)
{
    struct an_what_if_state *s = p->s;
    size_t nodes = s->r->g->node_count;
    int64_t *kept = malloc((nodes + 1) * sizeof *kept);
    bool in_line = s->r->c->r->loader.workers.valid && !s->r->c->r->loader.workers.value;
    bool unknown = in_line && an_findings_framework(s->r->c) != AN_FRAMEWORK_LIBTRAIN; /* that one hands over by address */
    double share = in_line ? 1 : worker_share(s); /* in line the work that moves is the scaled one */
    if (!kept)
        return TACHO_ENOMEM;
    memcpy(kept, s->own, nodes * sizeof *kept);
    core_floor(p);
    int rc = 0;
    for (int worst = 0; worst < (unknown ? 2 : 1) && !rc && !p->reason; worst++) {
        memcpy(s->own, kept, nodes * sizeof *kept);
        rc = an_route_new(s->r, p->workers, share, worst ? PASSES : 0, s->own, &p->change.route, &p->reason);
        if (!rc && !p->reason)
            rc = replay_shared(p, o);
    }
    free(kept);
    return rc;
}

static int replay_plan(struct plan *p, struct outcome *o)
{
    *o = (struct outcome){.low = INFINITY, .high = -INFINITY};
    return p->workers ? replay_route(p, o) : replay_shared(p, o);
}

/* ---- intervals ------------------------------------------------------------------------------------------------------------------ */

/* As a share: what the replay was seen to miss, of the odd steps with the work of the even ones and of all as they are. */
static double error_of(const struct an_what_if_state *s)
{
    double a = fabs(s->error.pct) / 100, b = fabs(s->base_pct) / 100;
    return isnan(a) || b > a ? b : a;
}

const char *an_what_if_none(struct an_context *c, const struct an_what_if_state *s)
{
    double pct = 100 * error_of(s);
    if (pct <= ERROR_MAX)
        return NULL;
    return an_arena_format(c->a,
                           "the replay misses the recorded steps by %.0f %%, so it predicts nothing: the trace lacks what its "
                           "time depends on (calls that launch and synchronise, all threads)",
                           pct);
}

static void fill(struct plan *p, const struct outcome *o, struct an_what_if *w)
{
    struct an_what_if_state *s = p->s;
    double error = error_of(s), low = s->median_ms * o->low * (1 - error), high = s->median_ms * o->high * (1 + error);
    double expected = s->median_ms * o->sum / o->count;
    const char *none = p->ceiling;
    if (!none && isnan(s->error.pct))
        none = "too few steps to see how well the replay predicts this run (4 consecutive ones are needed)";
    w->ceiling = none;
    w->condition = p->condition;
    w->step_low_ms = low > 0 ? an_num(low) : an_num_none("nothing is left of the step");
    w->step_ms = none ? an_num_none(none) : an_num(expected);
    w->step_high_ms = none ? an_num_none(none) : an_num(high);
    w->gain =
        (struct an_gain){.low = none ? an_num_none(none) : an_num(100 * (s->median_ms / high - 1)),
                         .expected = none ? an_num_none(none) : an_num(100 * (s->median_ms / expected - 1)),
                         .high = low > 0 ? an_num(100 * (s->median_ms / low - 1)) : an_num_none("nothing is left of the step"),
                         .ceiling = none != NULL};
}

static void absent(struct an_what_if *w, const char *reason)
{
    w->reason = reason;
    w->step_ms = w->step_low_ms = w->step_high_ms = an_num_none(reason);
    w->gain = (struct an_gain){.low = w->step_ms, .expected = w->step_ms, .high = w->step_ms};
}

/* "this run has op:matrix, op:other": rows of the kind the key is of. */
static const char *names_like(const struct an_what_if_state *s, const char *key)
{
    struct an_context *c = s->r->c;
    size_t prefix = strcspn(key, ":.");
    const char *list = "";
    for (size_t i = 0; i < s->rows.count; i++)
        if (!strncmp(s->rows.row[i].key, key, prefix) && strlen(list) < 200)
            list = an_arena_format(c->a, "%s%s%s", list, *list ? ", " : "", s->rows.row[i].key);
    return *list ? list : NULL;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------ */

int an_what_if_run(struct an_what_if_state *s, const struct an_edit *edit, size_t count, struct an_what_if *w)
{
    struct an_context *c = s->r->c;
    struct plan p = {.s = s, .change = {.own = s->own, .latency = 1, .scale_leads = true}};
    struct outcome outcome;
    const char *text = "";
    for (size_t i = 0; i < count; i++)
        text = an_arena_format(c->a, "%s%s%s", text, i ? "," : "", edit[i].text);
    *w = (struct an_what_if){.edit = text};
    if (s->none) {
        absent(w, s->none);
        return 0;
    }
    if (!(p.floor = calloc(s->steps + 1, sizeof *p.floor)))
        return TACHO_ENOMEM;
    memcpy(s->own, s->r->own, s->r->g->node_count * sizeof *s->own);
    int rc = 0;
    for (size_t i = 0; i < count && !rc && !p.unknown && !p.reason; i++)
        rc = apply_one(&p, &edit[i]);
    if (!rc && p.unknown) {
        const char *like = names_like(s, p.unknown);
        w->unknown = an_arena_text(c->a, p.unknown);
        w->known = like;
        p.reason = an_arena_format(c->a, "nothing in the replayed steps is called %.100s", p.unknown);
    }
    if (!rc && !p.reason)
        rc = replay_plan(&p, &outcome);
    if (!rc && p.reason)
        absent(w, p.reason);
    else if (!rc)
        fill(&p, &outcome, w);
    free(p.floor);
    return rc;
}

int an_what_if_of(struct an_context *c, const char *text, struct an_what_if *w)
{
    struct an_edit edit[AN_EDITS_MOST];
    struct tacho_error err;
    size_t count;
    *w = (struct an_what_if){.edit = text};
    if (!c->what_if) {
        absent(w, c->r->advice.reason ? c->r->advice.reason : "nothing was replayed");
        return 0;
    }
    if (an_edits_parse(text, edit, &count, NULL, &err)) {
        absent(w, an_arena_text(c->a, err.what));
        return 0;
    }
    return an_what_if_run(c->what_if, edit, count, w);
}
