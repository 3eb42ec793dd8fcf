/* SPDX-License-Identifier: Apache-2.0
 *
 * Hours, money, energy and carbon dioxide of a run; compute-optimal sizes.
 */
#include "planner/cost/cost.h"

#include <math.h>
#include <string.h>

#define LOAD 0.85 /* of the device's power limit that training draws on average */
#define HOST_WATTS \
    250 /* of a node, for each of its devices: 10.2 kW of a DGX H100 less 8 x 700 W, halved */
#define PUE 1.2 /* large data centres; the mean of the industry is 1.56 (Uptime Institute 2024) */

/* Carbon intensity of electricity in 2024, as Ember's yearly data gives it; give your own number
 * with --carbon. */
#define EMBER "Ember, yearly electricity data, 2024"
const struct plan_grid plan_grids[] = {
    {"world", 473, EMBER},  {"usa", 384, EMBER},       {"eu", 213, EMBER},
    {"france", 44, EMBER},  {"germany", 344, EMBER},   {"uk", 211, EMBER},
    {"sweden", 36, EMBER},  {"norway", 31, EMBER},     {"finland", 72, EMBER},
    {"china", 560, EMBER},  {"india", 708, EMBER},     {"japan", 482, EMBER},
    {"canada", 175, EMBER}, {"australia", 552, EMBER}, {NULL, 0, NULL}};

const struct plan_grid *plan_grid_of(const char *region)
{
    for (const struct plan_grid *grid = plan_grids; grid->region; grid++)
        if (!strcasecmp(grid->region, region))
            return grid;
    return NULL;
}

static double known(double value)
{
    return value > 0 ? value : NAN;
}

void plan_rates_of(const struct plan_machine *machine, struct plan_rates *out)
{
    const struct an_accelerator *device = &machine->device;
    *out = (struct plan_rates){.price_low = known(device->price_low),
                               .price_high = known(device->price_high),
                               .watts = LOAD * known(device->watts),
                               .host_watts = HOST_WATTS,
                               .pue = PUE,
                               .grid = plan_grids};
}

void plan_cost_of(const struct plan_layout *layout, double seconds, double low, double high,
                  double tokens, const struct plan_rates *rates,
                  const struct plan_failures *failures, struct plan_cost *out)
{
    double devices = (double)layout->devices;
    *out = (struct plan_cost){.tokens = tokens, .goodput = plan_goodput_of(failures)};
    out->steps = ceil(tokens / ((double)layout->global_batch * (double)layout->sequence));
    double hours = out->steps / out->goodput.share / 3600;
    out->hours = hours * seconds;
    out->hours_low = hours * low;
    out->hours_high = hours * high;
    out->device_hours = out->hours * devices;
    out->money_low = out->device_hours * rates->price_low;
    out->money_high = out->device_hours * rates->price_high;
    out->dollars_per_million = out->money_low / (tokens / 1e6);
    out->kwh = out->device_hours * (rates->watts + rates->host_watts) * rates->pue / 1000;
    out->kg = out->kwh * rates->grid->grams / 1000;
}

const struct plan_law plan_laws[2] = {{"corrected", "Besiroglu et al. 2024, arXiv:2404.10102",
                                       1.8172, 482.01, 2085.43, 0.3478, 0.3658},
                                      {"as printed",
                                       "Hoffmann et al. 2022, arXiv:2203.15556, approach 3", 1.69,
                                       406.4, 410.7, 0.34, 0.28}};

/* N = G (C/6)^(beta/(alpha+beta)), D = (C/6) / N, G = (alpha A / beta B)^(1/(alpha+beta))
 * (Hoffmann et al. 2022, eq. 4). */
void plan_law_optimum(const struct plan_law *law, double flops, double *parameters, double *tokens)
{
    double sum = law->alpha + law->beta;
    double ratio = pow(law->alpha * law->a / (law->beta * law->b), 1 / sum);
    *parameters = ratio * pow(flops / 6, law->beta / sum);
    *tokens = flops / 6 / *parameters;
}

double plan_law_loss(const struct plan_law *law, double parameters, double tokens)
{
    return law->e + law->a / pow(parameters, law->alpha) + law->b / pow(tokens, law->beta);
}

/* At the optimum alpha A / N^alpha = beta B / D^beta. */
double plan_law_tokens(const struct plan_law *law, double parameters)
{
    double share = law->beta * law->b / (law->alpha * law->a);
    return pow(share * pow(parameters, law->alpha), 1 / law->beta);
}
