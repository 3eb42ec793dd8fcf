/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run costs: hours, money, energy, carbon dioxide; failures and checkpoints; compute-optimal
 * sizes. Part of the public header of planner/.
 */
#ifndef PLANNER_COST_H
#define PLANNER_COST_H

#include "planner/base/types.h"

/* ---- failures ---------------------------------------------------------------------------------- */

/* Device hours between failures of one device: 419 unexpected interruptions in 54 days on 16,384
 * H100 (Llama 3, arXiv:2407.21783, section 3.3.4). */
#define PLAN_DEVICE_MTBF_H (54.0 * 24 * 16384 / 419)

struct plan_failures {
    double mtbf_s;       /* of the job: of one device over their number */
    double checkpoint_s; /* what a checkpoint delays the job */
    double restart_s;    /* from a failure to the first step after it */
};

struct plan_goodput {
    double share;      /* of the wall time that ends up in the result */
    double interval_s; /* of useful work between checkpoints, that maximises it */
    double young_s;    /* sqrt(2 C M), the usual approximation */
};

/* Share of useful time with checkpoints each `interval` seconds of work: T / (M e^(R/M)
 * (e^((T+C)/M) - 1)), exact for failures that come as a Poisson process, also in restarts and
 * checkpoints (Daly 2006, eq. 13). */
double plan_goodput_at(const struct plan_failures *failures, double interval);
/* The best interval, numerically. Without failures (mtbf_s 0) the share is 1. */
struct plan_goodput plan_goodput_of(const struct plan_failures *failures);

/* ---- money, energy, carbon dioxide --------------------------------------------------------------- */

/* Grams of carbon dioxide of a kWh; NULL name behind the last. */
struct plan_grid {
    const char *region;
    double grams;
    const char *source;
};
extern const struct plan_grid plan_grids[];
/* A region's row, or NULL. */
const struct plan_grid *plan_grid_of(const char *region);

struct plan_rates {
    double price_low, price_high; /* of a device hour; NAN: not known */
    double watts;                 /* of a device under load; NAN */
    double host_watts;            /* of a node's share for each device: processors, fans, network */
    double pue;                   /* of the data centre: all power over that of computers */
    const struct plan_grid *grid;
};
/* Rates of a device from the tables. */
void plan_rates_of(const struct plan_machine *machine, struct plan_rates *out);

struct plan_cost {
    double tokens, steps;
    double hours, hours_low, hours_high; /* of wall time, failures included */
    double device_hours;
    double money_low, money_high; /* NAN: no price is known */
    double kwh, kg;               /* NAN: no power is known */
    double dollars_per_million;   /* tokens, at the low price */
    struct plan_goodput goodput;
};
/* tokens to train on at `seconds` a step of `tokens_per_step`; low and high: its interval. */
void plan_cost_of(const struct plan_layout *layout, double seconds, double low, double high,
                  double tokens, const struct plan_rates *rates,
                  const struct plan_failures *failures, struct plan_cost *out);

/* ---- compute-optimal sizes ------------------------------------------------------------------------- */

/* Loss = E + A / N^alpha + B / D^beta. */
struct plan_law {
    const char *name, *source;
    double e, a, b, alpha, beta;
};
extern const struct plan_law plan_laws[2]; /* corrected (Besiroglu et al. 2024), as printed */
/* Parameters and tokens with the least loss for `flops` = 6 N D. */
void plan_law_optimum(const struct plan_law *law, double flops, double *parameters, double *tokens);
double plan_law_loss(const struct plan_law *law, double parameters, double tokens);
/* Tokens for which a model of that size is the optimum. */
double plan_law_tokens(const struct plan_law *law, double parameters);

#endif
