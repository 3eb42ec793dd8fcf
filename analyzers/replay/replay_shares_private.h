/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/replay: shared cores and links. replay_demand.c finds how much each piece of
 * work demands of which resource, replay_teams.c what it loses where it waits for other threads,
 * replay_uses.c when it is there and how fast, and replay_shares.c iterates the replay with all.
 */
#ifndef ANALYZERS_REPLAY_SHARES_PRIVATE_H
#define ANALYZERS_REPLAY_SHARES_PRIVATE_H

#include "analyzers/replay/replay_shares.h"

#define AN_NO_SHARE UINT16_MAX
/* Of a thread: demand that CPU time is not known well enough for. */
#define AN_CORES_ROUNDED 0.05

/* A host's cores, or a link. */
struct an_share {
    double capacity, others;
    double demand, integral,
        full_ns; /* while a sweep runs: integral of the speed over time; ns for which it is short */
    double team, paced, received; /* threads of a team that run at once; integrals of its pace and
                                     of the cores it gets */
    int64_t time;
};

/* A piece of work on a share: of a node, or of a worker of the route. Its id is the node, or the
 * number of nodes plus the batch. */
struct an_use {
    int64_t start, end;
    uint32_t share;
    float demand; /* cores that it is ready for, a mean over its time */
    float part;   /* of its time alone, what needs a core: 1 for work that never sleeps */
    bool spins;   /* while it waits for other ranks; nothing depends on this work */
};

/* CPU time beyond what the ranges account for may be compute on several cores each, or threads that
 * spin while they wait: for their team at the end of a parallel region, or for other ranks. CPU
 * time does not tell which. */
enum an_surplus {
    AN_SURPLUS_WORK,   /* all of it is work: compute wants several cores, all at the same time */
    AN_SURPLUS_LOOSE,  /* the same, and the threads of a team hardly ever wait for each other */
    AN_SURPLUS_YIELDS, /* spinning that gives way where cores are short (OpenMP): it wants nothing
                        */
    AN_SURPLUS_SPINS,  /* waiting for other ranks takes a core (MPI); what is left is compute's */
    AN_SURPLUS_SPREAD, /* the same, and ranks lacked a core while they waited as often as in work */
    AN_SURPLUSES
};

/* One reading of what the run did to cores. */
struct an_reading {
    enum an_surplus surplus;
    float demand[AN_CAUSE_COUNT], part[AN_CAUSE_COUNT], spin;
    double others;
    float *held;     /* of every track: the part of its process's own work in which others had
                        its core; NULL: others want cores alike from all */
    float *slowdown; /* of every node of the graph, as recorded */
};

struct an_shares {
    const struct an_replay *replay;
    struct an_share *share;
    size_t count, hosts; /* the cores of hosts are the first ones */
    bool cores;
    uint16_t *share_of;                      /* of every node of the graph; AN_NO_SHARE: none */
    struct an_reading reading[AN_SURPLUSES]; /* the first one is reported */
    size_t reading_count;
    float *evens;      /* of every node: the part of what a team's threads lose to others that may
                          be the mean of them and not the sum; NULL: none */
    const float *held; /* of the reading at hand */
    double holding;    /* how much of it there is in the replay at hand: 1 as recorded */
    bool loose;        /* so it is in the reading at hand, AN_SURPLUS_LOOSE */
    float *slowdown;   /* of the reading at hand */
    uint16_t *host_share; /* of every track: the share of its host's cores */
    bool *runs_steps;     /* of every track: it runs steps */
    float demand[AN_CAUSE_COUNT], part[AN_CAUSE_COUNT]; /* of a use, by the cause of its node */
    float spin;   /* cores that a thread wants while it waits for other ranks */
    size_t waits; /* of threads for other ranks */
    /* from an_shares_uses to an_shares_free_scratch: 16 bytes a node */
    const int64_t *own;
    struct an_route *route;
    const struct an_times *times;
    uint32_t *event; /* id << 1 | is it the end?, of every use, in order of time */
    double *speed; /* of every id: the speed that the last sweep found, the mean of its share's (of
                      a team the pace); 1 at first */
    size_t event_count, event_room, ids;
};

/* Uses of the replayed times: nodes' own work `own`, and the batches of the route; all three have
 * to stay until the sweeps are over. 0 or TACHO_ENOMEM. */
int an_shares_uses(struct an_shares *shares, const int64_t *own, struct an_route *route,
                   const struct an_times *times);
/* Does n, a node of a thread, wait for other ranks? */
static inline bool an_share_waits(const struct an_graph *graph, uint32_t node)
{
    return !an_graph_on_device(graph, node) && graph->kind[node] == AN_NODE_WAIT &&
           graph->cause[node] == AN_CAUSE_PEERS;
}
/* Frees what the sweeps need, until the next uses. */
void an_shares_free_scratch(struct an_shares *shares);
/* The use of a node, of a batch, of an id; false: it works on no share. Inline, because sweeps ask
 * for nothing else. */
static inline bool an_use_of_node(const struct an_shares *shares, uint32_t node, struct an_use *use)
{
    const struct an_graph *graph = shares->replay->graph;
    int64_t own = shares->own[node];
    if (shares->spin > 0 && an_share_waits(graph, node)) {
        *use = (struct an_use){.start = shares->times->start[node],
                               .end = shares->times->end[node] - own,
                               .share = shares->host_share[graph->track[node]],
                               .demand = shares->spin,
                               .spins = true};
        return use->end > use->start;
    }
    if (shares->share_of[node] == AN_NO_SHARE || own <= 0)
        return false;
    if (shares->route && graph->cause[node] == AN_CAUSE_INPUT &&
        !shares->runs_steps[graph->track[node]])
        return false; /* the route's workers take the place of the run's */
    bool core = shares->share_of[node] < shares->hosts;
    *use = (struct an_use){.start = shares->times->end[node] - own,
                           .end = shares->times->end[node],
                           .share = shares->share_of[node],
                           .demand = core ? shares->demand[graph->cause[node]] : 1,
                           .part = core ? shares->part[graph->cause[node]] : 1};
    return true;
}
bool an_use_of_batch(const struct an_shares *shares, uint32_t batch, struct an_use *use);
static inline bool an_use_get(const struct an_shares *shares, uint32_t id, struct an_use *use)
{
    size_t nodes = shares->replay->graph->node_count;
    return id < nodes ? an_use_of_node(shares, id, use)
                      : an_use_of_batch(shares, id - (uint32_t)nodes, use);
}
/* How much longer than alone it took, by the last sweep. A team of threads (demand above 1) gets on
 * only while all of its threads have a core (Ousterhout 1982); the rest of the cores' time is spent
 * waiting at the barrier (docs/advise.md). */
double an_use_slowdown(const struct an_shares *shares, uint32_t id, const struct an_use *use);
/* Finds the speed of every use; again for other demands. */
void an_shares_sweep(struct an_shares *shares);
/* Who shares what: of[], share[], lane[]. 0 or TACHO_ENOMEM. */
int an_shares_find(struct an_shares *shares);
/* Fills evens[]: a team works for as long as the fastest repeat of a range at most before its
 * threads meet at a barrier. In a shorter time than a thread keeps a core, only one of them is held
 * up. 0 or TACHO_ENOMEM. */
int an_shares_find_evens(struct an_shares *shares);
/* Ranks that spin while they wait for each other have all cores all the time, but for what others
 * take: the part `of_others` of the time that each process waited for a core. That holds up the own
 * work of the rank, or (spread_ns: of the frames) as much of that as of its waiting for ranks. Of
 * every track, in the work arena; NULL: no memory. */
float *an_shares_held(const struct an_shares *shares, double of_others, double spread_ns);
/* The readings of what the run did to cores, by the CPU time that was sampled; fills *use from the
 * first. 0 or TACHO_ENOMEM. */
int an_shares_calibrate(struct an_shares *shares, const struct an_times *base,
                        struct an_core_use *use);

#endif
