/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to replay_shares.c (who is slowed down by whom) and replay_demand.c (who wants how much of what).
 */
#ifndef ANALYZERS_REPLAY_SHARES_BUILD_H
#define ANALYZERS_REPLAY_SHARES_BUILD_H

#include "analyzers/radix.h"
#include "analyzers/replay_shares.h"

#define AN_NO_SHARE UINT16_MAX

/* A host's cores, or a link. */
struct an_share {
    double capacity, others;
    double demand, integral, full_ns; /* while a sweep runs: integral of the speed over time; ns for which it is short */
    int64_t time;
};

/* A stretch of work on a share: of a node, or of a worker of the route. */
struct an_use {
    int64_t start, end;
    uint32_t node, take; /* AN_NONE: it is not one */
    uint16_t share;
    float demand;    /* cores that it is ready for, a mean over its time */
    float part;      /* of its time alone, what needs a core: 1 for work that never sleeps */
    float speed;     /* what a sweep finds: the mean of its share's */
    double integral; /* of its share at its start */
};

struct an_shares {
    const struct an_replay *r;
    struct an_share *share;
    size_t count, hosts; /* the cores of hosts are the first ones */
    bool cores;
    uint16_t *of;                                       /* of every node of the graph; AN_NO_SHARE: none */
    float *stretch;                                     /* of every node, as recorded */
    uint16_t *host;                                     /* of every track: the share of its host's cores */
    bool *lane;                                         /* of every track: it runs steps */
    float demand[AN_CAUSE_COUNT], part[AN_CAUSE_COUNT]; /* of a use, by the cause of its node */
    struct an_use *use;                                 /* room for every replayed node and every batch of the route */
    struct an_pair *event, *work;
    size_t use_count, use_room;
    double full_pct; /* of the time of the last sweep, mean over hosts */
};

/* Uses of the replayed times: nodes' own work `own`, and the batches of the route. 0 or TACHO_ENOMEM. */
int an_shares_uses(struct an_shares *s, const int64_t *own, struct an_route *route, const struct an_times *t);
/* How much longer than alone a use took. */
double an_use_stretch(const struct an_use *u);
/* Finds the speed of every use; `again` for the same uses with other demands. */
void an_shares_sweep(struct an_shares *s);
void an_shares_sweep_again(struct an_shares *s);
/* Who shares what: of[], share[], lane[]. 0 or TACHO_ENOMEM. */
int an_shares_find(struct an_shares *s);
/* Demands and what others want, by the CPU time that was sampled; fills *use. 0 or TACHO_ENOMEM. */
int an_shares_calibrate(struct an_shares *s, const struct an_times *base, struct an_core_use *use);

#endif
